"""Copy atoms by name: each does what its layouts say, on the simulator, or says why it does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tile.kernels import AT, buffer, copy, kernel
from tilewright import T, Tx, compile, isa, tile
from tilewright.errors import DispatchError, InstructionError, TilewrightError
from tilewright.ir import Buffer, Kernel
from tilewright.isa import CopyAtom
from tilewright.isa.atoms import ATOMS
from tilewright.layout import S, TileLayout, laneid

LOADS = [name for name, atom in ATOMS.items() if atom.instruction.name == "ptx.ldmatrix"]
STORES = [name for name, atom in ATOMS.items() if atom.instruction.name == "ptx.stmatrix"]
PACKED = [name for name in LOADS if "_SU" in name]
FRAGMENT = S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]


def first_arch(atom: CopyAtom) -> str:
    return str(atom.arch.archs()[0])


def load_kernel(name: str, kind: str, fragment: TileLayout) -> Kernel:
    """Rows of 16 bytes to registers, by one atom; every lane's registers go to B."""
    size, slots = fragment.size(), fragment.storage().cosize("m")

    @T.prim_func
    def load(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (size,), kind)
        B = T.match_buffer(B_ptr, (32, slots), kind)
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        rows = T.alloc_buffer((size,), kind, scope="shared")
        R = T.alloc_buffer((size,), kind, scope="local", layout=fragment)
        for i in range(size // 32):
            rows[32 * i + lane] = A[32 * i + lane]
        T.cuda.cta_sync()
        Tx.warp.copy(R[:], rows[:], dispatch=name)
        registers = R.local()
        for slot in range(slots):
            B[lane, slot] = registers[slot]

    return load


def store_kernel(name: str, kind: str, fragment: TileLayout) -> Kernel:
    """Every lane's registers come from A; by one atom they go to rows of 16 bytes."""
    size, slots = fragment.size(), fragment.storage().cosize("m")

    @T.prim_func
    def store(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (32, slots), kind)
        B = T.match_buffer(B_ptr, (size,), kind)
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        rows = T.alloc_buffer((size,), kind, scope="shared")
        R = T.alloc_buffer((size,), kind, scope="local", layout=fragment)
        registers = R.local()
        for slot in range(slots):
            registers[slot] = A[lane, slot]
        Tx.warp.copy(rows[:], R[:], dispatch=name)
        T.cuda.cta_sync()
        for i in range(size // 32):
            B[32 * i + lane] = rows[32 * i + lane]

    return store


def numbers(count: int, kind: str) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.arange(count)).astype(kind)


@pytest.mark.parametrize("name", [name for name in LOADS if name not in PACKED])
def test_a_load_brings_each_element_where_the_atom_says(name: str) -> None:
    atom = ATOMS[name]
    fragment, kind = atom.destination, f"uint{atom.element_bits}"
    made = compile(load_kernel(name, kind, fragment))
    a = numbers(fragment.size(), kind)
    b = np.zeros((32, fragment.storage().cosize("m")), kind)

    made.simulate(a, b)

    where = fragment.table([fragment.size()])
    assert np.array_equal(b[where["laneid"][:, 0], where["m"][:, 0]], a)
    assert f"T.{atom.instruction.name}" in made.source("lowered")
    assert atom.mnemonic in made.source("cuda")
    assert atom.arch.admits(made.target)


@pytest.mark.parametrize("name", STORES)
def test_a_store_brings_each_element_where_the_atom_says(name: str) -> None:
    atom = ATOMS[name]
    fragment, kind = atom.source, f"uint{atom.element_bits}"
    made = compile(store_kernel(name, kind, fragment))
    a = numbers(fragment.size(), kind).reshape(32, -1)
    b = np.zeros(fragment.size(), kind)

    made.simulate(a, b)

    where = fragment.table([fragment.size()])
    assert np.array_equal(a[where["laneid"][:, 0], where["m"][:, 0]], b)
    assert atom.mnemonic in made.source("cuda")


def unpacking_kernel(name: str, kind: str, num: int) -> Kernel:
    """Padded rows of packed elements, given as bytes, to a byte of a register each."""
    cell = 2 if kind.startswith("float4") else 1  # slots of a byte
    fragment = TileLayout(S[(num, 8, 4, 4) : (4 * cell, 4 @ laneid, 1 @ laneid, cell)])
    padded = TileLayout(S[(8 * num, 16) : (16 * cell, 1)])

    @T.prim_func
    def unpack(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (128 * num,), "uint8")
        B = T.match_buffer(B_ptr, (32, 4 * num), "uint8")
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        row_bytes = T.alloc_shared((128 * num,), "uint8")
        registers = T.alloc_local((4 * num,), "uint8")
        for i in range(4 * num):
            row_bytes[32 * i + lane] = A[32 * i + lane]
        T.cuda.cta_sync()
        rows = row_bytes.view(kind).view(8 * num, 16, layout=padded)
        R = registers.view(kind).view(8 * num, 16, layout=fragment)
        Tx.warp.copy(R[:, :], rows[:, :], dispatch=name)
        for slot in range(4 * num):
            B[lane, slot] = registers[slot]

    return unpack


@pytest.mark.parametrize("name", PACKED)
def test_packed_elements_get_a_byte_each(name: str) -> None:
    num, bits = int(ATOMS[name].mods["num"]), 4 if "SU4" in name else 6  # type: ignore[arg-type]
    made = compile(unpacking_kernel(name, "float4_e2m1fn" if bits == 4 else "float6_e3m2fn", num))
    a = np.random.default_rng(0).integers(0, 256, 128 * num).astype(np.uint8)
    b = np.zeros((32, 4 * num), np.uint8)

    made.simulate(a, b)

    row_bits = np.unpackbits(a.reshape(-1, 16), axis=1, bitorder="little")[:, : 16 * bits].reshape(-1, 16, bits)
    elements = (row_bits << np.arange(bits)).sum(axis=-1)
    assert np.array_equal(b.reshape(8, 4, num, 4).transpose(2, 0, 1, 3).reshape(-1, 16), elements)


def sides(shape: tuple[int, int] = (16, 16), kind: str = "float16", pitch: int = 0) -> tuple[Buffer, Buffer]:
    fragment = S[(2, 8, shape[1] // 8, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]
    memory = S[shape : (pitch or shape[1], 1)]
    return buffer("R", "local", shape, fragment, kind), buffer("A", "shared", shape, memory, kind)


def plan(name: str, *, store: bool = False, arch: str = "sm_100a", **more: object) -> str:
    local, shared = sides(**more)  # type: ignore[arg-type]
    call = copy(shared, local, dispatch=name) if store else copy(local, shared, dispatch=name)
    return tile.resolve(kernel(call), arch)[1].entries[0].plan


def refusal(name: str, **more: object) -> TilewrightError:
    with pytest.raises(TilewrightError, match=r".") as raised:
        plan(name, **more)  # type: ignore[arg-type]
    assert raised.value.at == AT
    return raised.value


@pytest.mark.parametrize(("num", "times"), [(4, "1 instruction"), (2, "2 instructions"), (1, "4 instructions")])
def test_the_number_of_matrices_is_that_of_the_name(num: int, times: str) -> None:
    assert plan(f"SM75_U32x{num}_LDSM_N") == f"ldmatrix x{num}, {times} per warp"
    assert plan(f"SM90_U32x{num}_STSM_N", store=True) == f"stmatrix x{num}, {times} per warp"


def test_a_32_bit_atom_moves_elements_of_any_width() -> None:
    """A register stays together, whatever it holds: half-width matrices of 32-bit elements, pairs of bytes."""
    words = S[(2, 8, 2, 4) : (1, 4 @ laneid, 2, 1 @ laneid)]
    octets = S[(2, 8, 2, 4, 4) : (4, 4 @ laneid, 8, 1 @ laneid, 1)]
    for kind, columns, layout in (("float32", 8, words), ("int8", 32, octets)):
        registers = buffer("R", "local", (16, columns), layout, kind)
        call = copy(registers, buffer("A", "shared", (16, columns), None, kind), dispatch="SM75_U32x4_LDSM_N")

        assert tile.resolve(kernel(call), "sm_75")[1].entries[0].variant == "SM75_U32x4_LDSM_N"


def test_a_count_that_the_atom_does_not_divide_names_one_that_does() -> None:
    error = refusal("SM75_U32x4_LDSM_N", shape=(16, 24))

    assert isinstance(error, DispatchError)
    assert error.given == "6 m8n8 matrices for each warp"
    assert error.allowed == "a multiple of the 4 that it moves at a time"
    assert error.hint == 'dispatch="SM75_U32x2_LDSM_N"'


def test_the_wrong_majorness_names_the_other_atom() -> None:
    error = refusal("SM75_U16x8_LDSM_T")

    assert str(error.given).startswith("no 8 neighbours in A form a row")
    assert "in registers each matrix of elements of 16 bits as S[" in str(error.allowed)
    assert error.hint == 'dispatch="SM75_U32x4_LDSM_N"'


def test_the_wrong_direction_names_the_other_atom() -> None:
    error = refusal("SM90_U32x4_STSM_N")

    assert error.given == "A is in shared memory and R in local"
    assert error.allowed == "SM90_U32x4_STSM_N copies from local to shared memory"
    assert error.hint == 'dispatch="SM75_U32x4_LDSM_N"'


def test_rows_that_are_not_aligned_get_a_padding_that_works() -> None:
    error = refusal("SM75_U32x4_LDSM_N", pitch=20)

    assert str(error.hint).startswith("S[(16, 16):(24, 1)] for A")


def test_an_element_is_not_split_between_threads() -> None:
    error = refusal("SM75_U16x8_LDSM_T", kind="float32")

    assert error.given == "float32 has 32 bits"
    assert "a wider element would be split between two threads" in str(error.allowed)
    assert error.hint == 'dispatch="reg"'  # no atom moves it; plain accesses do


def test_what_would_take_the_call_without_a_name_is_advice() -> None:
    one, other = (buffer(name, "shared", (16, 16), None, "float16") for name in "AB")

    with pytest.raises(DispatchError, match="does not fit") as raised:
        tile.resolve(kernel(copy(one, other, dispatch="SM75_U32x4_LDSM_N")), "sm_90a")
    assert raised.value.hint == 'dispatch="rows"'


def test_an_atom_needs_its_architecture() -> None:
    error = refusal("SM90_U32x4_STSM_N", store=True, arch="sm_80")

    assert error.given == "stmatrix exists on sm_90 and later, not on sm_80"
    assert error.hint == 'target="sm_90"'


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("SM100_SU4_DU8x16_x1_LDSM_N", "float16 has 16 bits"),
        ("SM75_U32x1_MOVM_T", "SM75_U32x1_MOVM_T is no copy from or to memory"),
    ],
)
def test_other_misfits_are_named(name: str, given: str) -> None:
    assert refusal(name).given == given


def test_a_transposing_32_bit_atom_is_refused_by_the_naming_rule() -> None:
    error = refusal("SM75_U32x4_LDSM_T")

    assert isinstance(error, InstructionError)
    assert "a 32-bit element would be split between two threads" in error.what
    assert str(error.hint).startswith("SM75_U16x8_LDSM_T for 16-bit elements")


def test_without_a_target_the_first_architecture_that_has_the_atom_is_taken() -> None:
    fragment = isa.atom("SM100_U8x16_LDSM_T").destination

    assert str(compile(load_kernel("SM100_U8x16_LDSM_T", "uint8", fragment)).target) == "sm_100a"
    fragment = isa.atom("SM75_U16x8_LDSM_T").destination
    assert str(compile(load_kernel("SM75_U16x8_LDSM_T", "uint16", fragment)).target) == "sm_90a"
