"""The elementwise primitives over random layouts, dtypes, scopes, regions and broadcasts; and each variant's choices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tile.elementwise import Operand, judged
from tests.tile.kernels import buffer
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright.dtypes import dtype
from tilewright.ir import Expr, Region, as_expr
from tilewright.layout import Layout, R, S, TileLayout, laneid
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.elementwise import ELEMENTWISE

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
BOOLS = ("eq", "ne", "lt", "le", "gt", "ge")


@st.composite
def calls(draw: st.DrawFn, name: str) -> tuple[str, Operand, list[Operand | Expr]]:
    """A scope, dst, and sources: tiles that broadcast, in any memory, or numbers."""
    row = PRIMITIVES[name]
    scope = draw(st.sampled_from(list(THREADS)))
    of_floats = row.formula.takes == "float" or draw(st.booleans())
    kinds = FLOATS if of_floats else INTEGERS
    layout, shape = draw(registers(scope, 256))
    in_registers = draw(st.booleans())

    def tile(which: str, extents: tuple[int, ...], held: Layout, kind: str) -> Operand:
        if in_registers and draw(st.booleans()) and extents == shape:
            return Operand(buffer(which, "local", shape, held, kind).region())
        space = draw(st.sampled_from(["shared", "global", "global"]))
        made = draw(st.sampled_from([None, draw(memory_layouts(extents, dtype(kind).bits))])) if space == "shared" else None
        return Operand(buffer(which, space, extents, made, kind).region())

    to = "bool" if name in BOOLS else draw(st.sampled_from(kinds))
    dst = tile("D", shape, layout, to)
    sources: list[Operand | Expr] = []
    for operand in row.operands[1:]:
        if operand.optional and draw(st.booleans()):
            break
        if sources and draw(st.integers(0, 3)) == 0:
            sources.append(as_expr(draw(st.integers(1, 5))))
            continue
        extents = tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in shape)[draw(st.integers(0, 1)) * (draw(st.integers(0, 2)) == 0) :] or shape
        kind = "bool" if operand.name == "pred" else draw(st.sampled_from(kinds))
        sources.append(tile(f"S{len(sources)}", extents, layout, kind))
    assume(any(isinstance(source, Operand) for source in sources) or not sources)
    return scope, dst, sources


@settings(max_examples=12)
@pytest.mark.parametrize("name", ELEMENTWISE)
@given(data=st.data())
def test_it_computes_what_numpy_says(name: str, data: st.DataObject) -> None:
    scope, dst, sources = data.draw(calls(name))
    judged(name, dst, sources, scope)


@pytest.mark.long
@settings(max_examples=300)
@pytest.mark.parametrize("name", ["add", "gelu", "fma", "select", "lt", "cast", "exp", "maximum"])
@given(data=st.data())
def test_it_computes_what_numpy_says_long(name: str, data: st.DataObject) -> None:
    scope, dst, sources = data.draw(calls(name))
    judged(name, dst, sources, scope)
