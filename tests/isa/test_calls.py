"""From ``T.<name>(...)`` to its row and back, and the errors of wrong calls."""

from __future__ import annotations

import pytest

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, KernelError, TargetError
from tilewright.ir import AddressOf, Buffer, Call, Cast, Const, Expr, Load, Var, row_major


def buffer(name: str, size: int, kind: str, space: str) -> Buffer:
    return Buffer(name, dtype(kind), (size,), space, row_major((size,)))


R = buffer("R", 8, "float16", "local")
A = buffer("A", 256, "float16", "shared")
ACC = buffer("ACC", 4, "float32", "local")
X = Var("x", dtype("float32"))
HALF = Var("h", dtype("float16"))


def registers(count: int) -> list[AddressOf]:
    return [R.ptr_to([2 * i]) for i in range(count)]


def made(*args: object, **kwargs: object) -> Call:
    call = isa.call(*args, **kwargs)  # type: ignore[arg-type]  # the name comes first
    assert isinstance(call, Call)
    return call


def test_a_call_binds_to_its_form_modifiers_and_operands() -> None:
    bound = isa.bind(made("ptx.ldmatrix", True, 2, ".b16", A.ptr_to([0]), *registers(2)))

    assert bound.mnemonic == "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"
    assert bound.registers == 2
    assert bound.operands["p"] == (A.ptr_to([0]),)
    assert bound.operands["r"] == tuple(registers(2))


def test_registers_may_come_one_by_one_as_a_list_or_as_a_buffer() -> None:
    one_by_one = made("ptx.ldmatrix", False, 4, ".b16", A.ptr_to([0]), *registers(4))

    assert made("ptx.ldmatrix", False, 4, ".b16", A.ptr_to([0]), registers(4)) == one_by_one
    assert made("ptx.ldmatrix", False, 4, ".b16", A.ptr_to([0]), R) == one_by_one
    assert made("ptx.ldmatrix", trans=False, num=4, type=".b16", p=A, r=R[0:8]) == one_by_one


def test_each_vector_of_an_mma_is_an_argument_of_its_own() -> None:
    call = made("ptx.mma", "m16n8k16", "f32.f16.f16.f32", ACC, R, R[0:4], ACC)

    bound = isa.bind(call)

    assert [len(bound.operands[name]) for name in "dabc"] == [4, 4, 2, 4]
    assert bound.code({name: list("wxyz")[: len(bound.operands[name])] for name in "dabc"}) == (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {w, x, y, z}, {w, x, y, z}, {w, x}, {w, x, y, z};"
    )


def test_a_keyword_at_its_default_is_left_out() -> None:
    args = (False, 1, ".b16", A, R[0:2])

    assert made("ptx.stmatrix", *args, shape="m8n8") == made("ptx.stmatrix", *args)


def test_a_python_number_takes_the_dtype_of_the_other_operand() -> None:
    exponent = made("pow", X, 2).args[1]

    assert isinstance(exponent, Const)
    assert (exponent.value, exponent.dtype) == (2.0, "float32")


def test_what_a_pointer_points_to_decides_the_dtype_of_an_atomic() -> None:
    counts = buffer("counts", 8, "uint32", "global")

    call = made("cuda.atomic_add", counts.ptr_to([3]), 1)

    assert call.dtype == "uint32"
    assert isa.bind(call).mods["dtype"] == "uint32"


def test_a_math_function_of_a_narrow_float_is_computed_in_float32_and_rounded() -> None:
    value = isa.call("exp", HALF)

    assert isinstance(value, Cast)
    assert value.dtype == "float16"
    assert isinstance(value.a, Call)
    assert value.a.dtype == "float32"
    assert isa.call("isnan", HALF).dtype == "bool"


def test_python_numbers_alone_are_float32_for_a_function_of_floats() -> None:
    assert isa.call("exp", 2).dtype == "float32"
    assert isa.call("abs", -2).dtype == "int32"


def test_a_large_mask_keeps_its_bits() -> None:
    mask = isa.bind(made("cuda.shfl_sync", 0xFFFFFFFF, X, 0)).operands["mask"][0]

    assert isinstance(mask, Const)
    assert (mask.value, mask.dtype) == (0xFFFFFFFF, "uint32")


def test_texts_are_quoted_as_c_wants_them() -> None:
    bound = isa.bind(made("printf", 'a "b"\n %d\n', Var("i")))

    assert bound.code({"args": ["i"]}) == r'printf("a \"b\"\n %d\n", i)'


WRONG: dict[str, tuple[tuple[object, ...], str]] = {
    "a missing argument": (("ptx.ldmatrix", True, 2), "lacks its argument 'type'"),
    "an unknown keyword": (("cuda.copy_bytes", A, A, 16, 3), "takes 1 fewer"),
    "an unknown modifier": (("ptx.ldmatrix", True, 3, ".b16", A, *registers(3)), "no form with these modifiers"),
    "a type of another shape": (("ptx.ldmatrix", False, 1, ".b8", A, R), "no form with these modifiers"),
    "too few registers": (("ptx.ldmatrix", True, 4, ".b16", A, *registers(2)), "takes 4 registers for r"),
    "a value that cannot be written": (("ptx.ldmatrix", True, 1, ".b16", A, Var("v")), "writes r"),
    "a value for an address": (("ptx.ldmatrix", True, 1, ".b16", A[0], *registers(1)), "p is an address"),
    "a modifier of run time": (("cuda.copy_bytes", A, A, Var("n")), "nbytes is a modifier, a constant"),
    "a string for an operand": (("exp", "x"), "x is an operand"),
    "an integer for a float function": (("exp", Var("i")), "no form with these modifiers"),
    "registers in two dimensions": (
        ("ptx.ldmatrix", True, 1, ".b16", A, Buffer("D", dtype("float16"), (2, 2), "local", row_major((2, 2)))),
        "r is a vector of registers",
    ),
    "an unknown name": (("ptx.ldmatrx",), "is not an instruction"),
    "a float for a number of columns": (("ptx.tcgen05.alloc", A, 32.5), "n_cols is an integer"),
    "a float for a parity": (("ptx.mbarrier.try_wait", A, Var("p", dtype("float32"))), "phase is an integer"),
    "32 bits for a descriptor": (
        ("ptx.tcgen05.cp", Var("t", dtype("uint32")), Var("d"), "128x128b"),
        "desc is an integer of 64 bits",
    ),
    "a register for a place in shared memory": (
        ("ptx.mbarrier.init", R, 1),
        "ptr is an address in shared memory",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_says_what_is_wrong(case: str) -> None:
    args, message = WRONG[case]

    with pytest.raises((InstructionError, KernelError), match=message):
        isa.call(*args)  # type: ignore[arg-type]  # wrong on purpose


def test_counts_may_be_of_any_integer_dtype() -> None:
    for count in (32, Var("n"), Var("n", dtype("uint8")), Var("n", dtype("int64"))):
        assert isa.bind(made("ptx.tcgen05.alloc", A, count)).operands["n_cols"]
    assert isa.bind(made("smem_desc_add_16B_offset", 0, Var("n", dtype("uint8")))).result == "uint64"


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(InstructionError, match=r"did you mean 'ptx\.ldmatrix'"):
        isa.lookup("ptx.ldmatrx")


def test_an_element_given_for_an_address_is_told_how_to_take_it() -> None:
    with pytest.raises(InstructionError) as raised:
        isa.call("cuda.copy_bytes", A[0], A, 2)

    assert raised.value.hint is not None
    assert raised.value.hint.startswith("T.address_of(")


def test_an_architecture_without_the_form_is_told_the_first_that_has_it() -> None:
    bound = isa.bind(made("ptx.stmatrix", False, 1, ".b16", A, R[0:2]))

    with pytest.raises(TargetError, match="does not exist on sm_89") as raised:
        bound.check_arch(isa.arch("sm_89"))
    assert raised.value.hint == "target='sm_90'"
    bound.check_arch(isa.arch("sm_90a"))


@pytest.mark.parametrize(
    ("mnemonic", "name"),
    [
        ("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16", "ptx.ldmatrix"),
        ("ldmatrix.aligned.sync.m8n8.x4.b16.trans", "ptx.ldmatrix"),
        ("stmatrix.sync.aligned.x1.trans.m16n8.shared::cta.b8", "ptx.stmatrix"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32", "ptx.mma"),
        ("bar.sync", "ptx.bar.sync"),
    ],
)
def test_a_spelling_is_found_in_any_order_of_its_modifiers(mnemonic: str, name: str) -> None:
    row, form, mods = isa.spelled(mnemonic)

    assert row.name == name
    assert sorted(form.mnemonic(mods).split(".")) == sorted(mnemonic.split("."))


@pytest.mark.parametrize(
    "mnemonic",
    [
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f32.f32",
        "ldmatrix.sync.aligned.m8n8.x4.trans.trans.shared.b16",
        "ldmatrix.sync.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x4.shared::cluster.b16",
    ],
)
def test_the_order_of_types_counts_and_so_does_every_modifier(mnemonic: str) -> None:
    with pytest.raises(InstructionError, match="no instruction is spelled"):
        isa.spelled(mnemonic)


def test_types_keep_their_order_where_they_differ() -> None:
    _, _, mods = isa.spelled("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32")

    assert mods["types"] == "f32.e5m2.e4m3.f32"


def test_an_element_of_a_register_buffer_is_a_place_too() -> None:
    bound = isa.bind(made("ptx.movmatrix", R[0], R[2]))

    assert all(isinstance(place, Load) for places in bound.operands.values() for place in places)


def test_an_address_may_be_a_number() -> None:
    address: Expr = Var("smem", dtype("uint32")) + 16

    assert isa.bind(made("ptx.ldmatrix", False, 1, ".b16", address, R[0:2])).operands["p"] == (address,)


@pytest.mark.parametrize("value", [2.5, 1 << 32, -(1 << 31) - 1, X], ids=str)
@pytest.mark.parametrize(
    ("name", "args", "operand"),
    [
        ("cuda.shfl_sync", (None, Var("v", dtype("int32")), 0), "mask"),
        ("cuda.shfl_down_sync", (-1, Var("v", dtype("int32")), None), "delta"),
        ("cuda.ballot_sync", (None, Var("p", dtype("bool"))), "mask"),
        ("ptx.elect.sync", (None,), "mask"),
        ("ptx.bar.sync", (None, 64), "id"),
        ("ptx.bar.arrive", (1, None), "n"),
        ("cuda.warpgroup_sync", (None,), "id"),
        ("cuda.nanosleep", (None,), "ns"),
    ],
)
def test_a_mask_or_number_of_32_bits_is_never_cut(
    name: str, args: tuple[object, ...], operand: str, value: object
) -> None:
    with pytest.raises(InstructionError, match=f"T.{name}: {operand} is an integer"):
        made(name, *(value if arg is None else arg for arg in args))


def test_a_segment_of_a_shuffle_is_a_power_of_two_of_lanes() -> None:
    with pytest.raises(InstructionError, match="width of a segment") as raised:
        made("cuda.shfl_sync", -1, Var("v", dtype("int32")), 0, width=12)
    assert (raised.value.given, raised.value.allowed) == ("12 lanes", "1, 2, 4, 8, 16, 32")


def test_a_register_of_another_width_has_the_low_bits_or_zeros_above() -> None:
    wide, narrow = Var("w", dtype("int64")), HALF

    assert str(isa.bind(made("ptx.movmatrix", R.ptr_to([0]), wide)).operands["a"][0]) == 'T.cast(w, "uint32")'
    assert (
        str(isa.bind(made("ptx.movmatrix", R.ptr_to([0]), narrow)).operands["a"][0])
        == 'T.cast(T.reinterpret("uint16", h), "uint32")'
    )


@pytest.mark.parametrize("kind", ["handle", "float64", "float32x4"])
def test_what_no_register_holds_is_refused(kind: str) -> None:
    with pytest.raises(InstructionError, match="a is a register of 32 bits") as raised:
        isa.call("ptx.movmatrix", R.ptr_to([0]), Var("x", dtype(kind)))

    assert raised.value.given == f"x, {kind}"


@pytest.mark.parametrize("place", [A, A.ptr_to([0]), A.region()])
def test_a_store_has_the_type_of_what_it_is_given(place: object) -> None:
    """A buffer, a pointer to its first element and a region of it are one place."""
    assert str(made("ptx.st", place, X).args[1]) == 'T.cast(x, "float16")'


@pytest.mark.parametrize("place", [A, R])
def test_an_address_in_global_memory_is_none_in_another(place: Buffer) -> None:
    with pytest.raises(InstructionError, match="src is an address in global memory"):
        isa.call("ptx.cp_async", A.ptr_to([0]), place.ptr_to([0]), 16)


def test_a_misspelt_row_lists_the_nearest_names_and_how_many_others_there_are() -> None:
    with pytest.raises(InstructionError, match=r"did you mean 'ptx\.map_shared_rank'") as raised:
        isa.lookup("cuda.map_shared_rank")
    assert f"and {len(isa.INSTRUCTIONS) - 8} more" in str(raised.value)
    assert len(str(raised.value)) < 500, "hundreds of names are no help"
