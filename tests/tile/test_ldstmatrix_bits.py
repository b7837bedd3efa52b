"""ldstmatrix_bits: its code for 32-, 8- and 4-bit elements, its conditions, and calls that it declines."""

from __future__ import annotations

import pytest

from tests.tile.checking import entry, resolved
from tests.tile.kernels import buffer, copy, kernel
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Buffer, Evaluate, Kernel, Var, statements
from tilewright.layout import ComposeLayout, Layout, R, S, SwizzleLayout, laneid

# A warp's 16 rows of 32 bytes, as the four matrices of an mma operand.
WORDS = S[(2, 8, 2, 4) : (1, 4 @ laneid, 2, 1 @ laneid)]
OCTETS = S[(2, 8, 2, 4, 4) : (4, 4 @ laneid, 8, 1 @ laneid, 1)]
NIBBLES = S[(2, 8, 2, 4, 8) : (8, 4 @ laneid, 16, 1 @ laneid, 1)]
# 16 rows of 16 bytes, transposed: as ldmatrix m16n16 deals one out; and 8 rows of 16, as stmatrix m16n8 does.
COLUMNS = S[(4, 4, 2, 8) : (1 @ laneid, 1, 4, 4 @ laneid)]
ACCUMULATORS = S[(4, 2, 2, 8) : (1 @ laneid, 1, 2, 4 @ laneid)]


def pair(kind: str, fragment: Layout, shape: tuple[int, ...], memory: Layout | None = None) -> tuple[Buffer, Buffer]:
    return buffer("R", "local", shape, fragment, kind), buffer("A", "shared", shape, memory, kind)


def instruction(done: Kernel) -> str:
    (call,) = [str(stmt.value) for stmt in statements(done.body) if isinstance(stmt, Evaluate)]
    return call


@pytest.mark.parametrize(
    ("kind", "fragment", "columns"),
    [("float32", WORDS, 8), ("int32", WORDS, 8), ("uint8", OCTETS, 32), ("float8_e4m3fn", OCTETS, 32),
     ("float6_e2m3fn", OCTETS, 32), ("float4_e2m1fn", NIBBLES, 64)],
)  # fmt: skip
def test_whole_registers_are_loaded_and_stored_as_16_bit_matrices(kind: str, fragment: Layout, columns: int) -> None:
    registers, shared = pair(kind, fragment, (16, columns))

    done, said = resolved(copy(registers, shared))

    assert said.variant == "ldstmatrix_bits"
    assert said.plan == "ldmatrix x4, 1 instruction per warp"
    assert instruction(done).startswith('T.ptx.ldmatrix(T.bool(False), 4, ".b16", smem_ptr, T.address_of(R[0])')
    assert entry(registers, shared).variant == "ldstmatrix_bits"
    assert entry(shared, registers).plan == "stmatrix x4, 1 instruction per warp"


def test_bytes_are_transposed_by_their_own_forms_where_they_exist() -> None:
    registers, shared = pair("int8", COLUMNS, (16, 16))
    done, said = resolved(copy(registers, shared), arch="sm_100a")

    assert said.plan == "ldmatrix m16n16 x1, transposed, 1 instruction per warp"
    assert (
        'T.ptx.ldmatrix(T.bool(True), 1, ".b8", smem_ptr, T.address_of(R[0]), T.address_of(R[4]), shape="m16n16")'
        in (instruction(done))
    )
    assert entry(registers, shared, arch="sm_100a").variant == "ldstmatrix_bits"

    registers, shared = pair("int8", ACCUMULATORS, (8, 16))
    said = entry(shared, registers, arch="sm_100a")
    assert said.plan == "stmatrix m16n8 x1, transposed, 1 instruction per warp"


def test_elsewhere_they_are_left_to_reg_with_the_target_as_a_hint() -> None:
    said = entry(*pair("int8", COLUMNS, (16, 16)), arch="sm_90a")

    (tried,) = [each for each in said.tried if each.variant == "ldstmatrix_bits"]
    assert said.variant == "reg"
    assert tried.reason.startswith("ldmatrix m16n16 exists on sm_100a, ")
    assert tried.hint == 'target="sm_100a"'


def test_words_are_never_transposed() -> None:
    registers, shared = pair("float32", S[(4, 8) : (1 @ laneid, 4 @ laneid)], (4, 8))

    assert entry(registers, shared, arch="sm_100a").variant == "reg"


def test_a_swizzled_side_is_served() -> None:
    swizzle = SwizzleLayout(per_element=2, swizzle_len=1, atom_len=3)
    registers, shared = pair("float32", WORDS, (16, 8), ComposeLayout(swizzle, S[16, 8]))

    assert entry(registers, shared).variant == "ldstmatrix_bits"


def test_a_row_for_each_lane_stays_with_reg() -> None:
    """The layout of plain 128-bit accesses: no matrix, and nothing to gain."""
    registers, shared = pair("float32", S[(32, 8) : (1 @ laneid, 1)], (32, 8))

    said = entry(registers, shared)

    assert said.variant == "reg"
    assert said.plan.startswith("2 x 16 bytes")
    (reason,) = [each.reason for each in said.tried if each.variant == "ldstmatrix_bits"]
    assert reason == "each thread moves 16 bytes at a time without it"


def test_16_bit_elements_are_left_to_ldstmatrix() -> None:
    registers, shared = pair("float16", S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)], (16, 8))

    assert entry(registers, shared).variant == "ldstmatrix"


N = Var("n")
DECLINED = {
    "64-bit elements": (pair("float64", WORDS, (16, 8)), "warp", "float64 has 64 bits, not 4 or 8 or 32"),
    "one thread": (pair("float32", S[8, 8], (8, 8)), "thread", "a thread has 1 of the 32 lanes"),
    "a cluster": (pair("float32", WORDS, (16, 8)), "cluster", "the CTAs of a cluster do not share"),
    "half of the lanes": (pair("float32", S[(4, 4) : (4 @ laneid, 1 @ laneid)], (4, 4)), "warp", "not all lanes"),
    "part of a register": (
        pair("uint8", S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)], (8, 8)), "warp", "each 32-bit register is slots 4j, ",
    ),
    "rows 20 bytes apart": (
        pair("float32", S[(8, 4) : (4 @ laneid, 1 @ laneid)], (8, 4), S[(8, 4) : (5, 1)]), "warp", "16",
    ),
    "no rows": (
        pair("float32", S[(8, 4) : (4 @ laneid, 1 @ laneid)], (8, 4), S[(8, 4) : (1, 8)]), "warp", "no 4 neighbours",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_it_declines_with_its_reason(name: str) -> None:
    (registers, shared), scope, reason = DECLINED[name]

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(registers, shared, scope=scope, dispatch="ldstmatrix_bits")), "sm_90a")
    assert reason in str(refused.value.given)


def test_other_memories_are_declined() -> None:
    there = buffer("G", "global", (16, 8), None, "float32")

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(pair("float32", WORDS, (16, 8))[0], there, dispatch="ldstmatrix_bits")), "sm_90a")
    assert "not local and shared" in str(refused.value.given)


def test_a_store_to_replicas_is_declined() -> None:
    registers, _ = pair("float32", WORDS, (16, 8))
    twice = buffer("A", "shared", (16, 8), S[16, 8] + R[2:128], "float32")

    (reason,) = [each.reason for each in entry(twice, registers).tried if each.variant == "ldstmatrix_bits"]
    assert reason.startswith("A holds each element in several places")


def test_a_symbolic_extent_is_declined() -> None:
    sides = (each.region() for each in pair("float32", WORDS, (16, 8)))
    parts = [type(region)(region.buffer, ((0, N), *region.box[1:])) for region in sides]

    with pytest.raises(DispatchError, match="does not fit") as refused:
        tile.resolve(kernel(copy(*parts, dispatch="ldstmatrix_bits"), symbols=(N,)), "sm_90a")
    assert "the extent n of" in str(refused.value.given)
