"""wmma in every shape and type: a warp stores the product of the matrices that it loads."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tilewright.ptx.wmma import INPUTS, RESULTS, Shape

KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
         "f32": np.float32, "s32": np.int32, "f64": np.float64}  # fmt: skip
PITCH = 128  # elements
NARROW = {"s4": 4, "u4": 4, "b1": 1}
CASES = [(name, kind, to, op) for name, kinds in INPUTS.items() for kind in kinds for to in RESULTS[kind]
         for op in (("xor", "and") if kind == "b1" else ("",))]  # fmt: skip


def in_memory(matrix: NDArray[np.int64], way: str, kind: str) -> NDArray[np.generic]:
    """By rows or by columns, each `PITCH` elements behind the other; bfloat16 as its bits."""
    lines = matrix if way == "row" else matrix.T
    if kind in NARROW:
        return packed(lines, NARROW[kind])
    found = np.zeros((len(lines), PITCH), KINDS[kind])
    found[:, : lines.shape[1]] = lines
    flat: NDArray[np.generic] = found.reshape(-1)
    return flat.view(np.uint16) if kind == "bf16" else flat


def packed(lines: NDArray[np.int64], bits: int) -> NDArray[np.generic]:
    """Elements narrower than a byte, the first ones low."""
    wide = np.zeros((len(lines), PITCH), np.int64)
    wide[:, : lines.shape[1]] = lines
    each = np.unpackbits((wide & (1 << bits) - 1).astype(np.uint8)[..., None], axis=-1, bitorder="little")[..., :bits]
    return np.packbits(each.reshape(-1), bitorder="little")


def text(name: str, ways: tuple[str, str, str], counts: tuple[int, int, int], kind: str, to: str, op: str) -> str:
    a, b, c, d = (
        f"{{{', '.join(f'%{one}{i}' for i in range(many))}}}"
        for one, many in zip("abcd", (*counts, counts[2]), strict=True)
    )
    types = f"{to}.{to}" if kind == "f16" else f"{to}.{kind}.{kind}.{to}"
    width, popc = (64 if to == "f64" else 32), f".{op}.popc" if op else ""
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{
.reg .b64 %p<4>; .reg .b{width} %a<9>, %b<9>, %c<9>, %d<9>;
ld.param.u64 %p0, [pa]; ld.param.u64 %p1, [pb]; ld.param.u64 %p2, [pc]; ld.param.u64 %p3, [pd];
wmma.load.a.sync.aligned.{ways[0]}.{name}.global.{kind} {a}, [%p0], {PITCH};
wmma.load.b.sync.aligned.{ways[1]}.{name}.global.{kind} {b}, [%p1], {PITCH};
wmma.load.c.sync.aligned.{ways[2]}.{name}.{to} {c}, [%p2], {PITCH};
wmma.mma{popc}.sync.aligned.{ways[0]}.{ways[1]}.{name}.{types} {d}, {a}, {b}, {c};
wmma.store.d.sync.aligned.{ways[2]}.{name}.global.{to} [%p3], {d}, {PITCH};
ret; }}
"""


@pytest.mark.parametrize(("name", "kind", "to", "op"), CASES)
def test_a_warp_multiplies_matrices_of_memory(name: str, kind: str, to: str, op: str) -> None:
    m, n, k = map(int, re.findall(r"\d+", name))
    shape, rng = Shape(name, m, n, k), np.random.default_rng(1)
    low, high = {"b1": (0, 2), "u8": (0, 4), "u4": (0, 16), "s4": (-8, 8)}.get(kind, (-3, 4))
    a, b, c = (rng.integers(*bounds, extents)
               for bounds, extents in (((low, high), (m, k)), ((low, high), (k, n)), ((-3, 4), (m, n))))  # fmt: skip
    ways = ("row", "col", "row") if m == 16 or kind in NARROW else ("col", "row", "col")
    counts = tuple(len(shape.registers(one, to if one == "c" else kind)) for one in "abc")
    written = (8, 8, counts[2]) if kind == "f16" else counts
    out = in_memory(np.zeros((m, n), np.int64), ways[2], to)

    tw.load_ptx(text(name, ways, written, kind, to, op))["k"].simulate(  # type: ignore[arg-type]  # three numbers
        in_memory(a, ways[0], kind), in_memory(b, ways[1], kind), in_memory(c, ways[2], to), out, block=32
    )

    product = (a[:, :, None] != b[None]).sum(1) if op == "xor" else a @ b
    assert (out == in_memory(product + c, ways[2], to)).all()
