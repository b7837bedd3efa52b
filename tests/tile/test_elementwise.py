"""The elementwise primitives over random layouts, dtypes, scopes, regions and broadcasts; what variants choose."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.tile.elementwise import Operand, judged
from tests.tile.kernels import buffer
from tests.tile.strategies import THREADS, memory_layouts, registers
from tilewright import T, Tx
from tilewright.compiler import Executable
from tilewright.dtypes import dtype
from tilewright.ir import Expr, as_expr
from tilewright.layout import Layout, S, TileLayout, tx
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
        made = (
            draw(st.sampled_from([None, draw(memory_layouts(extents, dtype(kind).bits))]))
            if space == "shared"
            else None
        )
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
        extents = (
            tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in shape)[
                draw(st.integers(0, 1)) * (draw(st.integers(0, 2)) == 0) :
            ]
            or shape
        )
        kind = "bool" if operand.name == "pred" else draw(st.sampled_from(kinds))
        sources.append(tile(f"S{len(sources)}", extents, layout, kind))
    assume(any(isinstance(source, Operand) for source in sources) or not sources)
    return scope, dst, sources


@settings(max_examples=3)
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


# Regions that leave their buffers

WIDTHS = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 100, 127, 128, 129, 255, 256, 257, 8191, 8192, 8193)


@T.prim_func
def tiles(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    Tx.cta.add(C[bx * 512 : bx * 512 + 512], A[bx * 512 : bx * 512 + 512], B[bx * 512 : bx * 512 + 512])


@T.prim_func
def rows(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (3, n), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (3, n), "float16")
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.add(C[:, 0:n], A[:, 0:n], B[0:n])


@T.prim_func
def one_row(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    T.cta_id([1])
    T.thread_id([64])
    Tx.cta.add(C[0:n], A[0:n], B[0:n])


HELD = TileLayout(S[(64, 4, 2) : (1 @ tx, 2, 1)])


@T.prim_func
def held(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    X = T.alloc_buffer((512,), "float16", scope="local", layout=HELD)
    Y = T.alloc_buffer((512,), "float32", scope="local", layout=HELD)
    Tx.cta.copy(X, A[bx * 512 : bx * 512 + 512], fill=1)
    Tx.cta.copy(Y, B[bx * 512 : bx * 512 + 512], fill=2)
    Tx.cta.add(X, X, Y)
    Tx.cta.copy(C[bx * 512 : bx * 512 + 512], X, clip=True)


@T.prim_func
def staged(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A, B = T.match_buffer(a, (n,), "float16"), T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float16")
    bx = T.cta_id([T.ceildiv(n, 512)])
    T.thread_id([64])
    X, Y = T.alloc_shared((512,), "float16"), T.alloc_shared((512,), "float32")
    Tx.cta.copy(X, A[bx * 512 : bx * 512 + 512], clip=True)
    Tx.cta.copy(Y, B[bx * 512 : bx * 512 + 512], clip=True)
    T.cuda.cta_sync()
    Tx.cta.add(C[bx * 512 : bx * 512 + 512], X, Y)


RAGGED = {"tiles": tiles, "rows": rows, "one_row": one_row, "held": held, "staged": staged}


def check_width(name: str, width: int) -> None:
    exe = compiled(name)
    random = np.random.default_rng(width)
    shape = (3, width) if name == "rows" else (width,)
    a, b = random.normal(size=shape).astype(np.float16), random.normal(size=width).astype(np.float32)
    c = np.zeros(shape, np.float16)
    exe.simulate(a, b, c)
    assert np.array_equal(c, (a.astype(np.float32) + b).astype(np.float16)), f"{name}, {width}"


@cache
def compiled(name: str) -> Executable:
    return tw.compile(RAGGED[name], target="sm_90a")


@pytest.mark.parametrize("name", RAGGED)
def test_some_widths_are_right(name: str) -> None:
    for width in WIDTHS:
        check_width(name, width)
    assert not any(entry.variant == "fallback" for entry in compiled(name).report.entries)


@pytest.mark.long
@pytest.mark.parametrize("name", RAGGED)
def test_every_width_is_right(name: str) -> None:
    for width in (*range(1, 258), 8191, 8192, 8193):
        check_width(name, width)
