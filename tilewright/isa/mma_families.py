"""mma.sync beyond 16-bit floats and bytes: float64, four bits and single bits, 8 x 8 matrices, narrow floats of sm_120.

Integers are exact and wrap in int32, or saturate. float64: one fused multiply-add after the other along K, from C on,
each rounded as the instruction says; that the hardware goes in this order PTX does not say. Narrow floats: exact
products, summed in float32 in an order that nobody specifies.
Source: PTX ISA, "Warp-level Matrix Instructions: mma", "Matrix Fragments for mma.m8n8k4 with .f64", "... m16n8k256".
"""

from __future__ import annotations

import numpy as np

from tilewright.ir import Argument
from tilewright.isa.arch import since, suffixed
from tilewright.isa.machine import Lanes
from tilewright.isa.mma import BYTES, FLOAT8, SATURATE, mma_row, pairs_of
from tilewright.isa.scalar.floats import arithmetic
from tilewright.isa.table import Meaning, Mods, spoken
from tilewright.isa.warp_matrices import Matrix, dealt_out, sides_of


def added(product: Matrix, before: Matrix, kind: str, *, saturate: bool = False) -> Matrix:
    """Exact products added to C: in int32, wrapped or clamped; in float32, rounded once more for a float16 result."""
    if kind != "s32":
        total = product + before.astype(np.float32)
        return total.astype(np.float16) if kind == "f16" else total
    exact = product.astype(np.int64) + before
    bounds = np.iinfo(np.int32)
    return (exact.clip(bounds.min, bounds.max) if saturate else exact).astype(np.int32)


def _joined(a: Lanes, b: Lanes, c: Lanes, mods: Mods) -> tuple[Matrix, Matrix, Matrix]:
    sides = sides_of(mods)
    return sides["a"].matrix(a), sides["b"].matrix(b), sides["c"].matrix(c)


def _multiplied(a: Lanes, b: Lanes, c: Lanes, *, saturate: bool = False, **mods: Argument) -> Lanes:
    """Products of integers and narrow floats are exact in float32, sums of integers too."""
    left, right, before = _joined(a, b, c, mods)
    kind = str(mods["types"]).split(".")[0]
    return dealt_out(added(left @ right, before, kind, saturate=saturate), kind)


def _bits(a: Lanes, b: Lanes, c: Lanes, *, op: str, **mods: Argument) -> Lanes:
    """How many bits of a row and a column are set in both, or differ: those of each, less twice those of both."""
    left, right, before = _joined(a, b, c, mods)
    both = left @ right
    if op == "xor":
        both = left.sum(-1)[..., :, None] + right.sum(-2)[..., None, :] - 2 * both
    return dealt_out(added(both, before, "s32"), "s32")


def chain(left: Matrix, right: Matrix, before: Matrix, rounding: str | None) -> Matrix:
    """One multiply-add after the other along K."""
    fused = arithmetic("fma")(type="f64", rnd=rounding or "rn")
    total = before
    for k in range(left.shape[-1]):
        total = fused(left[..., :, k, None], right[..., None, k, :], total)
    return total


def _doubles(a: Lanes, b: Lanes, c: Lanes, *, rnd: str | None, **mods: Argument) -> Lanes:
    return dealt_out(chain(*_joined(a, b, c, mods), rnd), "f64")


NIBBLES = pairs_of("s32", "s4", "u4")
NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
NARROW_TYPES = (*pairs_of("f32", *NARROW), *pairs_of("f16", *NARROW))

mma_row(
    "ptx.mma.integer",
    "mma.sync.aligned{shape}.row.col{saturate}{types}",
    (
        ("m8n8k16", BYTES, since("sm_75")),
        ("m8n8k32", NIBBLES, since("sm_75")),
        ("m16n8k32", NIBBLES, since("sm_80")),
        ("m16n8k64", NIBBLES, since("sm_80")),
    ),
    Meaning(_multiplied),
    "A warp computes D = A * B + C on 4-bit integers, or on bytes of 8 rows.",
    {"saturate": (False, SATURATE)},
)
for _op, _first in (("xor", "sm_75"), ("and", "sm_80")):
    mma_row(
        f"ptx.mma.{spoken(_op)}",
        "mma.sync.aligned{shape}.row.col{types}{op}.popc",
        (
            ("m8n8k128", ("s32.b1.b1.s32",), since(_first)),
            ("m16n8k128", ("s32.b1.b1.s32",), since("sm_80")),
            ("m16n8k256", ("s32.b1.b1.s32",), since("sm_80")),
        ),
        Meaning(_bits),
        f"A warp adds to C how many bits are set in the {_op} of each row of A with each column of B.",
        {"op": (_op, {_op: f".{_op}"})},
    )
mma_row(
    "ptx.mma.f64",
    "mma.sync.aligned{shape}.row.col{rnd}{types}",
    (
        ("m8n8k4", ("f64.f64.f64.f64",), since("sm_80")),
        *((f"m16n8k{k}", ("f64.f64.f64.f64",), since("sm_90")) for k in (4, 8, 16)),
    ),
    Meaning(_doubles),
    "A warp computes D = A * B + C in float64, each multiply-add along K rounded once.",
    {"rnd": (None, {None: "", **{word: f".{word}" for word in ("rn", "rz", "rm", "rp")}})},
    register="f64",
)
mma_row(
    "ptx.mma.f8f6f4",
    "mma.sync.aligned{shape}.row.col{kind}{types}",
    (
        ("m16n8k32", FLOAT8, suffixed(100, 103, 110, 120, 121)),
        ("m16n8k32", tuple(kind for kind in NARROW_TYPES if kind not in FLOAT8), suffixed(120, 121)),
    ),
    Meaning(_multiplied),
    "A warp computes D = A * B + C on floats of 4, 6 and 8 bits, a byte each: those of 4 bits in bits 2 to 5.",
    {"kind": ("f8f6f4", {"f8f6f4": ".kind::f8f6f4"})},
)
