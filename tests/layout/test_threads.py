"""Thread axes: splitting, numbering, and the table of axes itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layout.strategies import Sampled, Sym, filled, tiles
from tilewright.errors import LayoutError
from tilewright.layout import (
    AXES,
    COMPOSITIONS,
    SCOPES,
    Axis,
    R,
    S,
    axes,
    bx,
    cbx,
    laneid,
    m,
    pid,
    threads,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)

FEW = st.sampled_from([m, tid_in_wg, tx])


def numbered(layout, scope):
    """Each element's threads as a set."""
    index = threads(layout.table((layout.size(),)), scope)
    return [frozenset(map(int, row)) for row in np.atleast_2d(index)]


@pytest.mark.parametrize(("axis", "scope"), [(tid_in_wg, "warpgroup"), (tx, "cta")])
@given(data=st.data())
def test_expand_threads_keeps_every_thread(axis, scope, data):
    steps = st.sampled_from([1, 2, 4, 8, 16, 32, 64])
    layout = data.draw(tiles(axes=st.sampled_from([m, axis]), strides=steps, offsets=False))
    layout += data.draw(st.integers(0, 40)) @ axis
    try:
        found = layout.expand_threads()
    except LayoutError:
        return
    assert axis not in found.axes
    assert found.span("laneid") <= 32
    assert numbered(found, scope) == numbered(layout, scope)


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (S[(128, 4) : (1 @ tid_in_wg, 1)], S[(4, 32, 4) : (1 @ wid_in_wg, 1 @ laneid, 1)]),
        (S[256 : 1 @ tx], S[(8, 32) : (1 @ warpid, 1 @ laneid)]),
        (S[(4, 32) : (32 @ tx, 1 @ tx)], S[(4, 32) : (1 @ warpid, 1 @ laneid)]),
        (S[(2, 128) : (1 @ wgid, 1 @ tid_in_wg)], S[(2, 4, 32) : (4 @ warpid, 1 @ warpid, 1 @ laneid)]),
        (S[32 : 1 @ tx] + 64 @ tx, S[32 : 1 @ laneid] + 2 @ warpid),
        (S[8 : 4 @ laneid], S[8 : 4 @ laneid]),
    ],
)
def test_expand_threads_undoes_fusion(whole, parts):
    assert whole.expand_threads() == parts
    assert parts.equivalent(whole)


def test_expand_threads_with_a_symbolic_warp():
    facts = Sampled((("w", range(4)),))
    found = (S[32 : 1 @ tid_in_wg] + Sym("(w * 32)") @ tid_in_wg).expand_threads(facts)
    assert filled(found, w=2) == S[32 : 1 @ laneid] + 2 @ wid_in_wg


def test_expand_threads_refuses_a_carry():
    with pytest.raises(LayoutError, match="does not split into wid_in_wg and laneid"):
        (S[32 : 1 @ tid_in_wg] + 16 @ tid_in_wg).expand_threads()


def test_expand_threads_refuses_a_stride_across_warps():
    with pytest.raises(LayoutError, match="iter 8:24@tid_in_wg does not split"):
        S[8 : 24 @ tid_in_wg].expand_threads()


@pytest.mark.parametrize(
    ("layout", "scope", "last"),
    [
        (S[(8, 4) : (4 @ laneid, 1 @ laneid)], "warp", 31),
        (S[(4, 32) : (1 @ wid_in_wg, 1 @ laneid)], "warpgroup", 127),
        (S[(2, 128) : (1 @ wgid, 1 @ tid_in_wg)], "cta", 255),
        (S[(8, 32) : (1 @ warpid, 1 @ laneid)], "cta", 255),
        (S[4, 4], "warp", 0),
    ],
)
def test_threads_number_a_scope(layout, scope, last):
    index = threads(layout.table((layout.size(),)), scope)
    assert index.max() == last
    assert index.shape == (layout.size(), 1)


def test_threads_refuses_an_axis_wider_than_the_scope():
    with pytest.raises(LayoutError, match="axis warpid counts across a cta, wider than one warp"):
        threads(S[4 : 1 @ warpid].table((4,)), "warp")


def test_threads_refuses_a_scope_without_threads():
    with pytest.raises(LayoutError, match="no thread numbering in scope 'grid'"):
        threads({}, "grid")


def test_axes_say_what_they_count():
    assert [axis.kind for axis in (m, laneid, cbx, pid)] == ["memory", "thread", "block", "device"]
    assert (tx.get_scope(), tx.get_subscope()) == ("cta", "thread")
    assert (bx.get_scope(), bx.get_subscope()) == ("kernel", "cta")
    assert m.is_memory()
    assert laneid.is_thread()
    assert not bx.is_thread()


def test_every_axis_is_public_and_found_by_name():
    for name, axis in AXES.items():
        assert name in axes.__all__
        assert getattr(axes, name) is Axis.get(name) is getattr(Axis, name)
        assert Axis.get(axis) is axis
        assert axis.is_memory() == (axis.scope == "")
        assert axis.is_memory() or {axis.scope, axis.subscope} <= set(SCOPES)


def test_compositions_are_consistent():
    for whole, outer, _, inner in COMPOSITIONS:
        assert (whole.scope, whole.subscope) == (outer.scope, inner.subscope)
        assert outer.subscope == inner.scope


def test_an_unknown_axis_is_an_error_with_the_nearest_name():
    with pytest.raises(LayoutError, match=r"(?s)unknown axis 'laneed'.*did you mean 'laneid'"):
        Axis.get("laneed")
    for kind in (AttributeError, LayoutError):
        with pytest.raises(kind, match="did you mean 'laneid'"):
            _ = Axis.laneed


def test_a_distance_is_an_integer():
    with pytest.raises(LayoutError, match="a distance along laneid must be an integer"):
        _ = 1.5 @ laneid
    assert np.int64(4) @ laneid == 4 @ laneid


def test_storage_drops_block_and_device_axes():
    layout = S[(2, 4, 8) : (1 @ pid, 1 @ cbx, 1)] + R[2 : 1 @ bx] + 1 @ pid
    assert layout.storage() == S[8:1]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint16])
def test_a_threads_number_on_an_axis_has_its_own_type(kind):
    """Generated code of the simulator computes with 32 bits."""
    assert tid_in_wg.of_thread(np.arange(256, dtype=kind)).dtype == kind
