"""CuTe strings and linear layouts, both ways, by equality of tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.layout.strategies import composed, permutations, same, shapes_of, splits, tiles
from tests.layout.strategies import held as held_of
from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposeLayout,
    Iter,
    LinearLayout,
    R,
    S,
    SwizzleLayout,
    TileLayout,
    cute_shape,
    from_cute,
    laneid,
    m,
    mma_shared_layout,
    to_cute,
    warpid,
)

PLAIN = {"axes": st.just(m), "strides": st.integers(0, 40), "replicas": 0, "offsets": False}


def nests():
    """Nested shapes and strides of the same form."""
    leaves = st.tuples(st.integers(1, 4), st.integers(0, 30))
    return st.recursive(leaves, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=5)


def written(nest, which):
    return str(nest[which]) if isinstance(nest, tuple) else f"({','.join(written(part, which) for part in nest)})"


def cute_map(nest, index):
    """CuTe's definition: the first mode runs fastest. Returns the address and what is left of the index."""
    if isinstance(nest, tuple):
        return index % nest[0] * nest[1], index // nest[0]
    total = 0
    for part in nest:
        address, index = cute_map(part, index)
        total += address
    return total, index


@given(nests())
def test_from_cute_maps_coordinates_as_cute_does(nest):
    text = f"{written(nest, 0)}:{written(nest, 1)}"
    modes = nest if isinstance(nest, list) else [nest]
    shape = cute_shape(text)
    found = from_cute(text).table(shape)["m"][..., 0]
    for index in np.ndindex(*shape):
        assert found[index] == sum(cute_map(mode, digit)[0] for mode, digit in zip(modes, index, strict=True))


@given(st.data())
def test_to_cute_reads_back(data):
    layout = data.draw(st.one_of(tiles(**PLAIN), composed(**{k: v for k, v in PLAIN.items() if k == "axes"})))
    tile = layout if isinstance(layout, TileLayout) else layout.tile
    assume(not tile.replica)
    shape = data.draw(splits(tile))
    text = to_cute(layout, shape)
    assert cute_shape(text) == shape
    assert same(held_of(from_cute(text), shape), held_of(layout, shape))


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("8:1", S[8:1]),
        ("(_8,_4):(_4,_1)", S[8, 4]),
        ("((2,4),8):((1,16),2)", S[(4, 2, 8) : (16, 1, 2)]),
        ("Swizzle<3,4,3>", SwizzleLayout(4, 3, 3)),
        ("Swizzle<2,0,-3>", SwizzleLayout(0, 2, 3, swizzle_inner=False)),
        ("Sw<3,4,3> o 0 o (8,64):(64,1)", ComposeLayout(SwizzleLayout(4, 3, 3), S[8, 64])),
        ("16 o (8,64):(64,1)", S[8, 64] + 16),
    ],
)
def test_cute_strings(text, layout):
    assert from_cute(text) == layout
    assert from_cute(to_cute(layout)) == layout


@pytest.mark.parametrize("text", ["8", "(8,4:(4,1)", "(8,x):(1,8)", "(8,4)(2):(1,2)", "8,4:1,8"])
def test_from_cute_refuses_what_it_cannot_read(text):
    with pytest.raises(LayoutError, match="cannot read"):
        from_cute(text)


@pytest.mark.parametrize("text", ["(8,4):(1,2,3)", "(8,4):1", "((8,2),4):((1,2,3),4)", "8:(1,2)"])
def test_from_cute_refuses_shape_and_stride_of_different_form(text):
    with pytest.raises(LayoutError, match="do not match"):
        from_cute(text)


def test_from_cute_refuses_an_unknown_prefix():
    with pytest.raises(LayoutError, match="cannot read 'recast'"):
        from_cute("recast o 8:1")


def test_one_mode_of_two_iters_stays_one_mode():
    assert to_cute(S[(2, 2) : (8, 1)], (4,)) == "((2,2)):((1,8))"
    assert from_cute("((2,2)):((1,8))") == S[(2, 2) : (8, 1)]
    assert from_cute(to_cute(S[()])) == S[()]


POWERS = st.sampled_from([1, 2, 4, 8])


def linear_tiles():
    """Layouts whose digits never carry: every bit of the index has its own bit on some axis."""

    @st.composite
    def build(draw):
        layout = draw(permutations(6))
        axes = [draw(st.sampled_from([m, laneid, warpid])) for _ in layout.shard]
        return TileLayout([Iter(2, it.stride, axis) for it, axis in zip(layout.shard, axes, strict=True)])

    return build()


@given(st.data())
def test_a_linear_layout_has_the_table_of_its_layout(data):
    layout = data.draw(linear_tiles())
    if data.draw(st.booleans()):
        layout = ComposeLayout(SwizzleLayout(0, 2, data.draw(st.integers(2, 3))), layout)
    shape = data.draw(shapes_of(layout))
    linear = LinearLayout.of(layout, shape)
    digits = np.indices(shape)
    found = linear(**{f"dim{k}": digits[k] for k in range(len(shape))})
    for axis, values in layout.table(shape).items():
        assert np.array_equal(np.broadcast_to(found[axis], shape), values[..., 0])


@given(st.data())
def test_to_layout_has_the_table_of_the_linear_layout(data):
    layout = data.draw(linear_tiles())
    if data.draw(st.booleans()):
        bits = data.draw(st.integers(1, 2))
        shift = data.draw(st.integers(bits, 3))
        layout = ComposeLayout(
            SwizzleLayout(data.draw(st.integers(0, 2)), bits, shift, swizzle_inner=data.draw(st.booleans())), layout
        )
    shape = data.draw(shapes_of(layout))
    back = LinearLayout.of(layout, shape).to_layout()
    assert same(held_of(back, shape), held_of(layout, shape))


def carries(layout):
    """Does some pair of bits, or the offset, break linearity? Tried on all pairs of elements."""
    table = layout.table((layout.size(),))
    flat = [v.reshape(-1) for v in table.values()]
    if any(v.min() < 0 for v in flat):
        return True
    pairs = np.arange(layout.size())[:, None] ^ np.arange(layout.size())[None]
    return any(np.any(v[pairs] != v[:, None] ^ v[None]) for v in flat)


@given(tiles(extents=POWERS, strides=st.integers(0, 16), replicas=0), st.data())
def test_a_layout_that_carries_is_refused(layout, data):
    shape = (layout.size(),)
    try:
        linear = LinearLayout.of(layout, shape)
    except LayoutError:
        assert carries(layout)
        return
    table = layout.table(shape)
    found = linear(dim0=np.arange(layout.size())[:, None])
    assert all(np.array_equal(np.broadcast_to(found[a], v.shape), v) for a, v in table.items())


@given(linear_tiles(), st.data())
def test_inverse_of_a_linear_layout_leads_back(layout, data):
    shape = data.draw(shapes_of(layout))
    bits = {it.stride for it in layout.shard}
    linear = LinearLayout.of(layout, shape)
    used = [sum(it.stride for it in layout.shard if it.axis.name == axis) for axis in linear.outputs]
    if any(mask & (mask + 1) for mask in used):
        with pytest.raises(LayoutError, match="without inverse"):
            linear.inverse()
        return
    assert len(bits) == len(layout.shard)
    back = linear.inverse().compose(linear)
    digits = {f"dim{k}": values for k, values in enumerate(np.indices(shape))}
    for name, values in back(**digits).items():
        assert np.array_equal(np.broadcast_to(values, shape), digits[name])


def test_a_fragment_as_register_lane_to_element():
    fragment = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]
    view = LinearLayout.of(fragment, (8, 8)).inverse().renamed({"m": "register", "laneid": "lane"})
    assert view(lane=13, register=1) == {"dim0": 3, "dim1": 3}


def test_the_swizzle_of_a_shared_tile_is_found_again():
    layout = mma_shared_layout("float16", 3, (16, 64))
    found = LinearLayout.of(layout, (16, 64)).to_layout()
    assert isinstance(found, ComposeLayout)
    assert isinstance(layout, ComposeLayout)
    assert found.swizzle == layout.swizzle
    assert found.tile.equivalent(layout.tile)


def test_replicas_are_an_input_of_their_own():
    linear = LinearLayout.of(S[4:1] + R[2:8], (4,))
    assert linear(dim0=3, replica=1) == {"m": 11}


def test_a_linear_layout_of_odd_extents_is_refused():
    with pytest.raises(LayoutError, match=r"of shape \(6\) is not linear"):
        LinearLayout.of(S[6:1], (6,))


def test_to_layout_refuses_what_no_swizzle_makes():
    shear = LinearLayout((("x", ((1, 0), (1, 1))),), ("m", "laneid"))
    with pytest.raises(LayoutError, match="no tile layout after one swizzle"):
        shear.to_layout()
    with pytest.raises(LayoutError, match="no tile layout after one swizzle"):
        LinearLayout((("x", ((1,), (1,))),), ("laneid",)).to_layout()


def test_a_linear_layout_names_its_inputs():
    with pytest.raises(LayoutError, match="unknown input 'lan'"):
        LinearLayout((("lane", ((1,),)),), ("m",))(lan=1)
    with pytest.raises(LayoutError, match=r"input lane of a linear layout has the vector \(1, 2\)"):
        LinearLayout((("lane", ((1, 2),)),), ("m",))
