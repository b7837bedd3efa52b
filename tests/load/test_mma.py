"""Products of matrices in PTX, by the families of ``mma``: registers go in, what the oracle says comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.isa import matrix_oracles
from tests.isa.inputs import operand
from tests.isa.oracles import ORACLES, Warp
from tilewright import T, isa
from tilewright.errors import SimulationError
from tilewright.isa.table import Bound

SPELLINGS = (
    "mma.sync.aligned.m16n8k64.row.col.satfinite.s32.u4.s4.s32",
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32",
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
    "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.rz.f64.f64.f64.f64",
    "mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32",
)


def entry(mnemonic: str, counts: dict[str, int], wide: bool) -> str:
    """A warp loads registers, lane by lane, multiplies, and stores them."""
    size, kind = (8, "f64") if wide else (4, "b32")
    lines = ["mov.u32 %lane, %tid.x;"]
    for name, count in counts.items():
        lines += [f"ld.param.u64 %p, [{name}]; mul.wide.u32 %o, %lane, {size * count}; add.s64 %p, %p, %o;"]
        if name != "d":
            lines += [f"ld.global.{kind} %{name}{i}, [%p+{size * i}];" for i in range(count)]
    listed = {name: "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}" for name, count in counts.items()}
    last = ", %e0, 0x0" if "e" in counts else ""
    lines.append(f"{mnemonic} {listed['d']}, {listed['a']}, {listed['b']}, {listed['c']}{last};")
    lines += [f"st.global.{kind} [%p+{size * i}], %d{i};" for i in range(counts["d"])]  # d comes last
    declared = " ".join(f".reg .{kind} %{name}<{count}>;" for name, count in counts.items())
    params = ", ".join(f".param .u64 {name}" for name in counts)
    body = "\n".join(lines)
    head = ".version 8.5\n.target sm_90\n.address_size 64\n"
    return f"{head}.visible .entry k({params}) {{\n.reg .b32 %lane; .reg .b64 %p, %o; {declared}\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("mnemonic", SPELLINGS)
def test_a_product_of_ptx_is_what_its_oracle_says(mnemonic: str) -> None:
    row, form, mods = isa.spelled(mnemonic)
    bound, rng = Bound(row, form, mods, {}), np.random.default_rng(5)
    given = {one.name: operand(bound, one, np.ones((3, 32), bool), rng)[0] for one in bound.read}
    counts = {name: values.size // 32 for name, values in given.items()}
    counts["d"] = counts["c"]
    by_lanes: dict[str, Any] = {name: np.ascontiguousarray(values.reshape(-1, 32).T) for name, values in given.items()}
    out = np.zeros_like(by_lanes["c"])

    tw.load_ptx(entry(mnemonic, counts, "f64" in mnemonic))["k"].simulate(**by_lanes, d=out, block=32)

    warp = Warp(bytearray(), [True] * 32, {**mods, "name": row.name})
    expected: Any = ORACLES[row.name](warp, *(values.tolist() for values in given.values()))
    matrix_oracles.compare(bound, np.ascontiguousarray(out.T), expected)


def test_a_kernel_names_the_matrices_and_the_table_finds_the_row() -> None:
    @T.prim_func
    def k(A: T.Buffer((32,), "float64"), B: T.Buffer((32,), "float64"), D: T.Buffer((64,), "float64")):
        lane = T.thread_id([32])
        a, b = T.alloc_local((1,), "float64"), T.alloc_local((1,), "float64")
        d = T.alloc_local((2,), "float64")
        a[0] = A[lane]
        b[0] = B[lane]
        d[0] = 0.0
        d[1] = 0.0
        T.ptx.mma("m8n8k4", "f64.f64.f64.f64", d, a, b, d)
        D[lane * 2] = d[0]
        D[lane * 2 + 1] = d[1]

    rng = np.random.default_rng(3)
    a, b, d = rng.standard_normal((8, 4)), rng.standard_normal((8, 4)), np.zeros((8, 8))

    tw.simulate(k, a.reshape(-1), b.reshape(-1), d.reshape(-1), check="all")

    np.testing.assert_allclose(d, a @ b.T, rtol=1e-14)


@pytest.mark.parametrize(
    ("mnemonic", "code", "legal"),
    [
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 0b0100, True),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 0b0001, False),  # in falling order
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 0b0001, True),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 0b0101, False),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 0b1110, True),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 0b1001, False),
    ],
)
def test_metadata_of_a_sparse_product_have_codes_that_the_manual_lists(mnemonic: str, code: int, legal: bool) -> None:
    counts = {"a": 2, "b": 2, "c": 4, "e": 1, "d": 4}
    kernel = tw.load_ptx(entry(mnemonic, counts, wide=False))["k"]
    arrays: dict[str, Any] = {name: np.zeros((32, count), np.uint32) for name, count in counts.items()}
    arrays["e"][:] = 0x44444444 & ~0xF0 | code << 4
    if legal:
        assert not kernel.simulate(**arrays, block=32, check="all").warnings
        return
    with pytest.raises(SimulationError, match="metadata that leave its result undefined") as error:
        kernel.simulate(**arrays, block=32, check="all")
    assert f"0b{code:04b} for chunk 1 of row 0" in str(error.value.given)
