"""A product in all four majornesses: the atoms that `isa.majorness` chooses bring A and B to T.ptx.mma."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import T, Tx, compile, isa
from tilewright.dtypes import dtype
from tilewright.ir import Kernel
from tilewright.isa.atoms import BLAS, Majorness
from tilewright.layout import Iter, TileLayout

PRODUCTS = [(mma.name, blas) for mma in isa.mma_atoms() for blas in BLAS if blas == "TN" or "tf32" not in mma.types]


def fragment_of_b(chosen: Majorness) -> TileLayout:
    """B's fragment, K x 8, as many times along N as one copy brings."""
    one = chosen.mma.fragment("B")
    *along_k, along_n = one.shard
    return TileLayout([*along_k, Iter(chosen.b.tiles, one.storage().cosize("m")), along_n])


def product_kernel(chosen: Majorness) -> Kernel:
    """A warp's D = A * B, with A and B in shared memory as ``chosen`` says."""
    mma, tiles = chosen.mma, chosen.b.tiles
    _, n, k = isa.mma_shape(mma.shape)
    kinds = {operand: "float32" if mma.element(operand) == "tf32" else mma.element(operand) for operand in "ABD"}
    a_shape = (16, k) if chosen.a.major == "K" else (k, 16)
    b_shape = (n * tiles, k) if chosen.b.major == "K" else (k, n * tiles)
    slots = chosen.mma.fragment("B").storage().cosize("m")
    types = ".".join(mma.types)

    @T.prim_func
    def product(A_ptr: T.handle, B_ptr: T.handle, D_ptr: T.handle):
        A = T.match_buffer(A_ptr, a_shape, kinds["A"])
        B = T.match_buffer(B_ptr, b_shape, kinds["B"])
        D = T.match_buffer(D_ptr, (16, n * tiles), kinds["D"])
        T.device_entry()
        T.cta_id([1])
        T.lane_id([32])
        A_smem = T.alloc_shared(a_shape, kinds["A"])
        B_smem = T.alloc_shared(b_shape, kinds["B"])
        a = T.alloc_buffer((16, k), kinds["A"], scope="local", layout=mma.fragment("A"))
        b = T.alloc_buffer((k, n * tiles), kinds["B"], scope="local", layout=fragment_of_b(chosen))
        d = T.alloc_buffer((16, n), kinds["D"], scope="local", layout=mma.fragment("D"))
        Tx.warp.copy(A_smem[:, :], A[:, :])
        Tx.warp.copy(B_smem[:, :], B[:, :])
        T.cuda.warp_sync()
        Tx.warp.copy(a, A_smem if chosen.a.major == "K" else A_smem.permute(1, 0), dispatch=chosen.a.atom.name)
        Tx.warp.copy(b, B_smem.permute(1, 0) if chosen.b.major == "K" else B_smem, dispatch=chosen.b.atom.name)
        d_registers, b_registers = d.local(), b.local()
        for tile in T.unroll(tiles):
            for i in range(4):
                d_registers[i] = T.cast(0, kinds["D"])
            b_tile = b_registers[tile * slots : tile * slots + slots]
            T.ptx.mma(mma.shape, types, d_registers, a.local(), b_tile, d_registers)
            Tx.warp.copy(D[:, tile * n : tile * n + n], d[:, :])

    return product


def numbers(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[Any]:
    """Small integers: every product and sum is exact in every type."""
    return rng.integers(0 if kind == "uint8" else -3, 4, shape).astype(dtype(kind).numpy)


@pytest.mark.every(5)
@pytest.mark.parametrize(("name", "blas"), PRODUCTS)
def test_the_product_is_numpys(name: str, blas: str) -> None:
    mma = isa.mma_atom(name)
    chosen = isa.majorness(mma, blas)
    _, n, k = isa.mma_shape(mma.shape)
    rng = np.random.default_rng(0)
    a = numbers(mma.element("A"), (16, k), rng)
    b = numbers(mma.element("B"), (k, n * chosen.b.tiles), rng)
    d = np.zeros((16, n * chosen.b.tiles), dtype(mma.element("D")).numpy)
    made = compile(product_kernel(chosen))

    stored_a, stored_b = a if chosen.a.major == "K" else a.T, b.T if chosen.b.major == "K" else b
    made.simulate(np.ascontiguousarray(stored_a), np.ascontiguousarray(stored_b), d)

    assert np.array_equal(d.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))
    for copy in (chosen.a, chosen.b):
        assert made.source("cuda").count(copy.atom.mnemonic) >= 1
