"""`kernels.attention_decode` with all checks of the simulator on, beside attention in double precision.

What the cache has behind the last key is NaN, and entries of page tables that no key needs lead nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.kernels.attention_in_double import Array, agrees, drawn, expected, seen_with
from tilewright import kernels
from tilewright.errors import ArgumentError
from tilewright.kernels.attention_decode import COSTS, TILES, DecodeKind, chosen_splits, combine, decode

pytestmark = pytest.mark.usefixtures("all_checks")


@dataclass(frozen=True)
class Case:
    """lengths: keys of each sequence. page: rows of a page, 0 where there are none. new: keys that are appended."""

    lengths: tuple[int, ...]
    heads: int = 2
    heads_kv: int = 1
    queries: int = 1
    width: int = 64
    width_v: int = 64
    page: int = 0
    new: int = 0
    kind: str = "bfloat16"

    def caches(self, keys: list[Array], tables: Array) -> Array:
        """Where each sequence's keys lie: in its rows of a cache, or in its pages."""
        page = self.page or max(self.lengths) + 3
        cache = np.full((tables.max() + 1, self.heads_kv, page, keys[0].shape[-1]), np.nan, self.kind)
        for table, each in zip(tables, keys, strict=True):
            for row in range(each.shape[1]):
                cache[table[row // page], :, row % page] = each[:, row]
        return cache

    def check(self, **how: Any) -> None:
        """The results for random numbers, with the options of `seen` and of `attention_decode`."""
        batch, turned = len(self.lengths), how.get("layout") == "bshd"
        q = drawn(batch, self.heads, self.queries, self.width, kind=self.kind)
        keys, values = ([drawn(self.heads_kv, n, wide, kind=self.kind) for n in self.lengths]
                        for wide in (self.width, self.width_v))  # fmt: skip
        each = -(-max(self.lengths) // self.page) + 1 if self.page else 1
        tables = np.random.default_rng(0).permutation(batch * each) if self.page else np.arange(batch)
        tables = tables.reshape(batch, each).astype(np.int32)
        held = [[x[:, : x.shape[1] - self.new] for x in every] for every in (keys, values)]
        given = [q, *(self.caches(x, tables) for x in held)]
        if self.new:
            given += [np.stack([x[:, -self.new :] for x in every]) for every in (keys, values)]
        if turned:
            given = [x.swapaxes(1, 2).copy() for x in given]
        new_k, new_v = given[3:] or (None, None)
        for table, n in zip(tables, self.lengths, strict=True):
            table[-(-n // self.page) if self.page else 1 :] = -5
        out, lse = kernels.attention_decode(
            *given[:3], lengths=np.array(self.lengths, np.int32) - self.new, pages=tables if self.page else None,
            new_k=new_k, new_v=new_v, lse=True, **how,
        )  # fmt: skip
        out = out.swapaxes(1, 2) if turned else out
        for b, (k, v) in enumerate(zip(keys, values, strict=True)):
            sees = seen_with(how, self.queries, k.shape[1])
            wanted = expected(q[b], k, v, sees=sees, scale=how.get("scale"), cap=how.get("softcap", 0.0))
            agrees((out[b], lse[b]), wanted)


def test_keys_are_divided_and_combined_by_their_sums() -> None:
    Case((150,)).check(splits=1)
    Case((150, 3), width=128, width_v=128).check(splits=3)  # the last parts of a short sequence have no key


@pytest.mark.every(3)
@pytest.mark.parametrize("page", [1, 5, 16, 64, 100])
def test_pages_have_any_number_of_rows(page: int) -> None:
    Case((150, 70), page=page).check(splits=2)


def test_new_keys_come_behind_the_last_ones_and_count() -> None:
    Case((130,), queries=2, page=16, new=2).check(causal=True)
    Case((70, 90), queries=3, new=3, heads=4, heads_kv=2).check(layout="bshd", causal="bottom-right")


@pytest.mark.every(2)
@pytest.mark.parametrize(("heads", "heads_kv", "queries"), [(6, 2, 3), (4, 1, 16), (70, 1, 2), (2, 2, 1)])
def test_heads_and_queries_share_a_tile(heads: int, heads_kv: int, queries: int) -> None:
    Case((90,), heads, heads_kv, queries).check(causal=True)


@pytest.mark.every(3)
@pytest.mark.parametrize(("width", "width_v"), [(192, 128), (96, 96), (256, 256)])
def test_every_width_of_queries_and_of_values(width: int, width_v: int) -> None:
    Case((70,), width=width, width_v=width_v, kind="float16").check()


def test_options_are_those_of_attention() -> None:
    Case((150,), queries=3).check(window=(40, 0))
    Case((70,), queries=2).check(softcap=2.0, window=(-1, 5))
    Case((70,)).check(scale=-0.3)


def test_a_sequence_without_keys_gives_zeros() -> None:
    Case((0, 5)).check()
    Case((0, 5), page=16).check(splits=2)
    out, lse = kernels.attention_decode(drawn(1, 1, 1, 64), drawn(1, 1, 0, 64), drawn(1, 1, 0, 64), lse=True)
    assert not out.any()
    assert np.isneginf(lse).all()


def test_parts_fill_the_gpu_and_no_more() -> None:
    def parts(works: int, tiles: int) -> int:
        return chosen_splits(works, tiles, 132, 2, COSTS)

    assert parts(1024, 16) == 1  # there is work for all
    assert parts(8, 2048) >= 16
    assert parts(8, 1) == 1  # a tile is not divided


@pytest.mark.parametrize("width", [*(pytest.param(width, marks=pytest.mark.long) for width in (64, 128)), 256])
def test_no_kernel_spills(width: int) -> None:
    """ptxas keeps what the sm_90a kernels need in registers."""
    keys, resident = TILES[max(320, 2 * width)]
    form = DecodeKind("bfloat16", "float32", width, width, 4, 16, keys, resident, paged=True, lengths=True, last=True)
    for kernel in (decode(form), combine("bfloat16", width, 128)):
        assert kernel.assembly


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"causal": "top-left"}, "no such alignment"),
        ({"layout": "packed"}, "no such layout"),
        ({"splits": 200}, "no such number of parts"),
        ({"softcap": -1.0}, "no such softcap"),
        ({"window": (-3, 0)}, "no such window"),
        ({"lengths": np.zeros(1, np.int64)}, "lengths has a dtype"),
        ({"pages": np.zeros((1, 2), np.int32)}, "the pages do not fit"),
        ({"new_k": np.zeros((1, 1, 1, 64))}, "new_k and new_v come together"),
        ({"new_k": drawn(1, 1, 1, 64), "new_v": drawn(1, 1, 1, 64)}, "new keys come behind those"),
    ],
)
def test_what_it_does_not_take_is_refused_by_name(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        kernels.attention_decode(drawn(1, 2, 1, 64), drawn(1, 1, 9, 64), drawn(1, 1, 9, 64), **how)


@pytest.mark.parametrize(
    ("q", "k", "v", "told"),
    [
        ((1, 2, 1, 80), (1, 1, 9, 80), (1, 1, 9, 80), "no kernel for this width"),
        ((1, 3, 1, 64), (1, 2, 9, 64), (1, 2, 9, 64), "do not fit"),
        ((2, 2, 1, 64), (1, 2, 9, 64), (1, 2, 9, 64), "do not fit"),
        ((2, 1, 64), (1, 2, 9, 64), (1, 2, 9, 64), "the dimensions of q do not fit"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(q: Any, k: Any, v: Any, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        kernels.attention_decode(drawn(*q), drawn(*k), drawn(*v))


@pytest.mark.parametrize(
    ("lengths", "pages", "told"),
    [
        ((20, 99), None, "no room for these keys"),
        ((20, -1), None, "no room for these keys"),
        ((9, 9), ((0, 1), (1, 4)), "no such page"),
    ],
)
def test_keys_beyond_the_cache_are_refused_where_the_host_can_see_them(lengths: Any, pages: Any, told: str) -> None:
    rows = 8 if pages else 40
    q, cache = drawn(2, 1, 1, 64), drawn(4 if pages else 2, 1, rows, 64)
    table = np.array(pages, np.int32) if pages else None
    with pytest.raises(ArgumentError, match=told):
        kernels.attention_decode(q, cache, cache, lengths=np.array(lengths, np.int32), pages=table)
