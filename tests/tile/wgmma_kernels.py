"""Kernels around one `Tx.wg.gemm_async`, and inputs whose products are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import T, Tx
from tilewright.dtypes import dtype
from tilewright.ir import Kernel
from tilewright.layout import mma_shared_layout, wgmma_fragment

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """M, N, K; elements; swizzle modes; which operands are K x M or K x N in memory; is A in registers?"""

    m: int
    n: int
    k: int
    a: str = "bfloat16"
    b: str = ""
    d: str = "float32"
    modes: tuple[int, int] = (3, 3)
    trans: tuple[bool, bool] = (False, False)
    registers: bool = False
    accum: bool = False
    negate: bool = False

    @property
    def kinds(self) -> tuple[str, str]:
        return self.a, self.b or self.a

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        m, n, k = self.m, self.n, self.k
        return (k, m) if self.trans[0] else (m, k), (k, n) if self.trans[1] else (n, k)

    def inputs(self, seed: int = 0) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        a, b = (
            rng.integers(0 if kind == "uint8" else -2, 3, shape).astype(dtype(kind).numpy)
            for kind, shape in zip(self.kinds, self.shapes, strict=True)
        )
        return a, b, rng.integers(-8, 9, (self.m, self.n)).astype(self.d)

    def expected(self, a: Array, b: Array, c: Array) -> Array:
        left, right = a.astype(np.int64), b.astype(np.int64)
        left, right = left.T if self.trans[0] else left, right if self.trans[1] else right.T
        product = -(left @ right) if self.negate else left @ right
        return (product + (c.astype(np.int64) if self.accum else 0)).astype(self.d)


def multiplied(case: Case) -> Kernel:
    """D = A * B, or D + A * B, by one warpgroup."""
    a_kind, b_kind = case.kinds
    a_shape, b_shape = case.shapes
    a_layout, b_layout = (
        mma_shared_layout(kind, mode, shape)
        for kind, mode, shape in zip(case.kinds, case.modes, case.shapes, strict=True)
    )
    own = wgmma_fragment(case.m, case.k, "A", a_kind)
    fragment = wgmma_fragment(case.m, case.n)
    registers, accum, negate = case.registers, case.accum, case.negate
    trans_a, trans_b = case.trans

    @T.prim_func
    def multiply(a: T.Buffer(a_shape, a_kind), b: T.Buffer(b_shape, b_kind), c: T.Buffer((case.m, case.n), case.d)):
        T.cta_id([1])
        T.thread_id([128])
        A = T.alloc_shared(a_shape, a_kind, layout=a_layout)
        B = T.alloc_shared(b_shape, b_kind, layout=b_layout)
        R = T.alloc_local(a_shape, a_kind, layout=own)
        D = T.alloc_local((case.m, case.n), case.d, layout=fragment)
        Tx.cta.copy(A, a)
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if accum:
            Tx.wg.copy(D, c)
        if registers:
            Tx.wg.copy(R, A)
        T.ptx.wgmma.fence()
        if registers:
            Tx.wg.gemm_async(D, R, B, accum, transB=trans_b, negate=negate)
        else:
            Tx.wg.gemm_async(D, A, B, accum, transA=trans_a, transB=trans_b, negate=negate)
        T.ptx.wgmma.commit_group()
        T.ptx.wgmma.wait_group(0)
        Tx.wg.copy(c, D)

    return multiply


WIDE = {"bfloat16": 16, "float16": 16, "tf32": 8, "float8_e4m3fn": 32, "float8_e5m2": 32, "int8": 32, "uint8": 32}


def drawn(seed: int) -> Case:
    """A product with random types, shapes, swizzles and majornesses."""
    rng = np.random.default_rng(seed)
    a = str(rng.choice(list(WIDE)))
    partners = [b for b in WIDE if (b[:6] == a[:6] == "float8") or (WIDE[a] == 32 and b[-4:] == a[-4:] == "int8")]
    b = str(rng.choice([a, *partners]))
    results = {"float16": ("float32", "float16"), "float8_e4m3fn": ("float32", "float16"), "int8": ("int32",),
               "float8_e5m2": ("float32", "float16"), "uint8": ("int32",)}  # fmt: skip
    both = WIDE[a] == 16
    registers = bool(rng.integers(2))
    trans = (both and not registers and bool(rng.integers(2)), both and bool(rng.integers(2)))
    modes = tuple(int(mode) for mode in rng.integers(0, 4, 2))
    size = dtype(a).bits // 8
    k = 128 // size  # the widest row of a swizzle
    m = 64 * int(rng.integers(1, 3))
    n = 64 * int(rng.integers(1, 3)) if trans[1] else int(rng.choice([8, 16, 24, 32, 64, 96, 128]))
    accum, negate = bool(rng.integers(2)), a not in ("int8", "uint8") and bool(rng.integers(2))
    d = str(rng.choice(results.get(a, ("float32",))))
    return Case(m, n, k, a, b, d, (modes[0], modes[1]), trans, registers, accum, negate)
