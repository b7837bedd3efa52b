"""DTensor's placements as layouts, and back."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import LayoutError
from tilewright.layout import Partial, Placed, Replicate, S, Shard, TileLayout, pid, placed

PLACEMENTS = st.sampled_from([Shard(0), Shard(1), Replicate(), Partial(), Partial("max")])


def parts_of(shape, mesh, placements) -> dict[int, np.ndarray]:
    """What each rank has, by cutting an array of numbers once for each dimension of the mesh."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    found = {}
    for rank, place in enumerate(product(*map(range, mesh))):
        part = numbers
        for at, extent, each in zip(place, mesh, placements, strict=True):
            if isinstance(each, Shard):
                part = np.split(part, extent, each.dim)[at]
        found[rank] = part.reshape(-1)
    return found


@given(mesh=st.sampled_from([(4,), (2,), (2, 2), (2, 3), (1, 2)]), data=st.data())
def test_each_rank_has_what_its_placements_give_it(mesh, data):
    placements = [data.draw(PLACEMENTS) for _ in mesh]
    whole = placed((24, 12), mesh, placements)
    table = whole.layout.table((24, 12))
    ranks, places = (np.asarray(table.get(axis, 0)) for axis in ("pid", "m"))
    for rank, part in parts_of((24, 12), mesh, placements).items():
        here = np.argwhere(np.broadcast_to(ranks, (24, 12, ranks.shape[-1] if ranks.ndim else 1)) == rank)
        own = {int(np.broadcast_to(places, ranks.shape)[tuple(at)]): int(at[0] * 12 + at[1]) for at in here}
        assert [own[place] for place in range(len(part))] == part.tolist()


@given(mesh=st.sampled_from([(4,), (2, 2), (2, 3)]), data=st.data())
def test_placements_come_back_from_the_layout(mesh, data):
    placements = tuple(data.draw(PLACEMENTS) for _ in mesh)
    assert placed((24, 12), mesh, placements).placements((24, 12)) == placements


class Torchs:
    class Shard(NamedTuple):
        dim: int

    class Replicate: ...

    class Partial(NamedTuple):
        reduce_op: str


def test_placements_of_torch_are_taken_as_they_are():
    theirs = [Torchs.Shard(-1), Torchs.Replicate(), Torchs.Partial("sum")]
    ours = [Shard(1), Replicate(), Partial()]
    assert placed((8, 6), (3, 2, 2), theirs) == placed((8, 6), (3, 2, 2), ours)


@pytest.mark.parametrize(
    ("placements", "words"),
    [([Shard(0)], "no equal parts"), ([], "a placement for each dimension"), (["rows"], "no placement")],
)
def test_what_is_no_placement_is_refused(placements, words):
    with pytest.raises(LayoutError, match=words):
        placed((7, 6), (4,), placements)


def test_a_layout_that_no_placements_give_is_refused():
    crossed = Placed(TileLayout(S[(2, 4, 6) : (6, 1 @ pid, 12)]), (4,), ("",))
    with pytest.raises(LayoutError, match="no placements give this layout"):
        crossed.placements((8, 6))
