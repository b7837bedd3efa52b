"""One gemm between copies from and to global memory, simulated with all checks, and its result by NumPy."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import tilewright as tw
from tests.tile.kernels import AT, buffer, extents, kernel
from tests.tile.running import MEET
from tilewright import ir
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightWarning
from tilewright.ir import Buffer, Kernel, as_expr
from tilewright.isa import mma_shape
from tilewright.isa.forms import ELEMENTS
from tilewright.isa.mma import MMA
from tilewright.layout import Axis, Iter, Layout, TileLayout, laneid
from tilewright.primitives import PRIMITIVES
from tilewright.tile import Entry

Array = NDArray[Any]
THREADS = {"warp": 32, "warpgroup": 128, "cta": 64}
SHARES = {"warp": [(1, 1)], "warpgroup": [(4, 1), (2, 2), (1, 4)], "cta": [(2, 1), (1, 2)]}
NUMBERING = {"warp": "warpid", "warpgroup": "wid_in_wg", "cta": "warpid"}
TYPES = sorted({str(types) for form in MMA.forms for types in form.wording.modifiers["types"]})
SHORTEST = {  # the smallest K of the types
    types: min(
        mma_shape(str(s))[2]
        for f in MMA.forms
        if types in f.wording.modifiers["types"]
        for s in f.wording.modifiers["shape"]
    )
    for types in TYPES
}


@dataclass(frozen=True)
class Call:
    """A gemm: its operands as buffers, C left out for None; the rest as the kernel would write it."""

    d: Buffer
    a: Buffer
    b: Buffer
    c: Buffer | None = None
    _: KW_ONLY
    scope: str = "warp"
    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1
    beta: float = 0
    arch: str = "sm_90a"
    threads: int = 0

    @cached_property
    def stmt(self) -> ir.TileCallStmt:
        config = {"transpose_A": self.transpose_a, "transpose_B": self.transpose_b}
        args = (self.d, self.a, self.b, self.c or self.d)
        factors = (as_expr(self.alpha), as_expr(self.beta))
        settings = tuple((key, value) for key, value in config.items() if value)
        return ir.TileCallStmt("gemm", self.scope, (*(each.region() for each in args), *factors), None, settings, at=AT)

    @property
    def buffers(self) -> dict[str, Buffer]:
        """Each once, by its name."""
        return {each.name: each for each in (self.d, self.a, self.b, self.c) if each is not None}

    def kernel(self) -> Kernel:
        """The kernel: operands are filled, D as well where it is read, and D is copied out."""
        outside = {name: buffer(f"{name}_global", "global", each.shape, kind=str(each.dtype))
                   for name, each in self.buffers.items()}  # fmt: skip
        body: list[ir.Stmt] = []
        for name, each in self.buffers.items():
            if each is not self.d or (self.beta and self.c in (None, self.d)):
                body += [copied(each, outside[name], self.scope), MEET]
        body += [self.stmt, MEET, copied(outside["D"], self.d, self.scope)]
        return kernel(*body, threads=self.threads or THREADS[self.scope], grid=1)


def copied(into: Buffer, source: Buffer, scope: str) -> ir.Stmt:
    return ir.TileCallStmt("copy", scope, (into.region(), source.region()), None, (), at=AT)


def run(call: Call, arrays: dict[str, Array]) -> tuple[Array, Entry]:
    """D after the call, and the report's entry. arrays: of each buffer by its name."""
    made = call.kernel()
    given = {name: array.copy() for name, array in arrays.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilewrightWarning)
        exe = tw.compile(made, target=call.arch)
        done = exe.simulate(*[given[each.name.removesuffix("_global")] for each in made.buffers], check="all")
    assert done.warnings == []
    return given["D"], next(each for each in exe.report.entries if each.primitive == "gemm")


def meant(call: Call, arrays: dict[str, Array]) -> Array:
    """D by NumPy, in D's type."""
    d = arrays["D"].copy()
    c = None if call.c is None else arrays[call.c.name] if call.c is not call.d else d
    PRIMITIVES["gemm"].meaning(
        d, arrays["A"], arrays["B"], c, call.transpose_a, call.transpose_b, call.alpha, call.beta
    )
    return d


def integers(call: Call, seed: int) -> dict[str, Array]:
    """Small integers: every product and sum is exact in every type."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0 if each.dtype.kind == "uint" else -3, 4, extents(each)).astype(each.dtype.numpy)
        for name, each in call.buffers.items()
    }


def held(call: Call, seed: int = 0) -> Entry:
    """Run the call on small integers and compare."""
    arrays = integers(call, seed)
    got, said = run(call, arrays)
    assert np.array_equal(got.astype(np.float64), meant(call, arrays).astype(np.float64)), str(said)
    return said


# Layouts of fragments: the instruction's, with rows, columns and K in any order, and registers in any order


@dataclass(frozen=True)
class Sizes:
    """A tile of D for each of ``share`` warps, along M and N, and K; in pieces of the instruction."""

    m: int
    n: int
    k: int
    share: tuple[int, int]
    axis: str


def digits(sizes: Sizes, per_register: int) -> dict[str, list[tuple[str, int]]]:
    """The digits of each dimension, natural order. g8 is 2t + c of D."""
    wm, wn = sizes.share
    return {
        "M": [("wm", wm), ("mt", sizes.m // wm // 16), ("r", 2), ("g", 8)],
        "N": [("wn", wn), ("nt", sizes.n // wn // 8), ("g8", 8)],
        "K": [("kt", sizes.k // (4 * per_register)), ("t", 4), ("p", per_register)],
    }


def fragment(
    operand: str, order: dict[str, list[tuple[str, int]]], ranks: dict[str, int], sizes: Sizes, neighbour: str
) -> TileLayout:
    """The layout of an operand whose dimensions have their digits in this order. ranks: of the slots' digits, the
    smallest nearest; neighbour: the digit inside of a register.
    """
    axis = Axis.get(sizes.axis)
    dims = {"A": "MK", "B": "KN", "C": "MN", "D": "MN"}[operand]
    flat: list[tuple[str, int]] = []
    for name, extent in (each for dim in dims for each in order[dim]):
        flat += [("t", 4), ("c", 2)] if name == "g8" and operand in "CD" else [(name, extent)]
    threads = {"g": 4 @ laneid, "g8": 4 @ laneid, "t": 1 @ laneid, "wm": sizes.share[1] @ axis, "wn": 1 @ axis}
    slots = sorted((name for name, _ in flat if name not in threads), key=lambda n: (n != neighbour, ranks[n]))
    strides = {name: prod(dict(flat)[each] for each in slots[:place]) for place, name in enumerate(slots)}
    iters = [Iter(e, threads[n].value, threads[n].axis) if n in threads else Iter(e, strides[n]) for n, e in flat]
    missing = {"A": ("wn", sizes.share[1]), "B": ("wm", sizes.share[0])}.get(operand)
    replica = [Iter(missing[1], threads[missing[0]].value, axis)] if missing and missing[1] > 1 else []
    return TileLayout([it for it in iters if it.extent > 1], replica)


@st.composite
def fragments(draw: st.DrawFn, sizes: Sizes, kinds: dict[str, str]) -> dict[str, TileLayout]:
    """Layouts in registers of D, A, B and C that go together."""
    per_register = 32 // dtype(kinds["A"]).bits
    order = {dim: draw(st.permutations(each)) for dim, each in digits(sizes, per_register).items()}
    made = {}
    for operand in "DABC":
        names = ["mt", "r", "nt", "kt", "p", "c"]
        ranks = {name: place for place, name in enumerate(draw(st.permutations(names)))}
        made[operand] = fragment(operand, order, ranks, sizes, "c" if operand in "CD" else "p")
    return made


def layout_of(layout: TileLayout, operand: str, sizes: Sizes, turned: bool) -> tuple[Layout, tuple[int, int]]:
    """A layout of A or B and its shape, or those of the transposed matrix."""
    shape = {"A": (sizes.m, sizes.k), "B": (sizes.k, sizes.n)}.get(operand, (sizes.m, sizes.n))
    if not turned:
        return layout, shape
    grouped, separators = layout.group(shape)
    return grouped.permute_by_groups(separators, (1, 0)), shape[::-1]


def kinds_of(types: str) -> dict[str, str]:
    """Our names of the elements of D, A, B and C."""
    return dict(zip("DABC", (ELEMENTS[name] for name in types.split(".")), strict=True))
