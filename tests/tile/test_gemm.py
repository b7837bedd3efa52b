"""gemm: what NumPy says, over types, layouts, memories, transposes, scopes; what `mma` takes and what it leaves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile.kernels import buffer
from tests.tile.products import NUMBERING, SHARES, SHORTEST, TYPES, Call, Sizes, fragments, held, kinds_of, layout_of
from tests.tile.strategies import memory_layouts
from tilewright.dtypes import dtype
from tilewright.ir import Buffer


@st.composite
def calls(draw: st.DrawFn) -> Call:
    types, scope = draw(st.sampled_from(TYPES)), draw(st.sampled_from(sorted(SHARES)))
    kinds, share = kinds_of(types), draw(st.sampled_from(SHARES[scope]))
    m, n = 16 * share[0] * draw(st.integers(1, 2)), 8 * share[1] * draw(st.integers(1, 3))
    sizes = Sizes(m, n, SHORTEST[types] * draw(st.integers(1, 4)), share, NUMBERING[scope])
    layouts = draw(fragments(sizes, kinds))
    turned = {"A": draw(st.booleans()), "B": draw(st.booleans())}
    made: dict[str, Buffer] = {}
    for name in "DABC":
        layout, shape = layout_of(layouts[name], name, sizes, turned.get(name, False))
        space = draw(st.sampled_from(["local", "local", "shared", "global"]))
        if space != "local":
            layout = draw(memory_layouts(shape, dtype(kinds[name]).bits)) if space == "shared" else None
        made[name] = buffer(name, space, shape, layout, kinds[name])
    c = draw(st.sampled_from([made["C"], made["D"], None]))
    if made["D"].space != "local" or c is not made["C"]:
        made["C"] = buffer("C", "shared", (m, n), None, kinds["C"])  # registers are not known before
        c = made["C"] if c not in (made["D"], None) else c
    alpha, beta = draw(st.sampled_from([1, 2, -1])), draw(st.sampled_from([0, 1, 2]))
    return Call(made["D"], made["A"], made["B"], c, scope, turned["A"], turned["B"], alpha, beta)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_product_is_what_numpy_says(data: st.DataObject) -> None:
    said = held(data.draw(calls()), data.draw(st.integers(0, 99)))

    assert said.variant == "mma"
