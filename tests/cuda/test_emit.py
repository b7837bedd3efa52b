"""The CUDA text: its form, its names, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.cuda.kernels import (
    CORPUS,
    LANE,
    TID,
    awkward_names,
    axpy,
    barriers,
    cluster,
    control,
    ldmatrix_tile,
    nibbles,
    pointers,
    stmatrix_tile,
    warp_talk,
)
from tests.sim.build import flat, get, lowered, parameter, run, store
from tilewright import isa
from tilewright.cuda import emit, entry_name
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import HANDLE, dtype
from tilewright.errors import InstructionError, Span, TargetError
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Assume,
    Bind,
    Break,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Launch,
    Var,
    as_expr,
    binary,
)

GOLDEN = {
    "ldmatrix": ("sm_75", CORPUS["ldmatrix_x2_trans"][1]),
    "stmatrix": ("sm_90a", CORPUS["stmatrix_x4_trans"][1]),
    "register_copy": ("sm_90a", CORPUS["register_copy_16"][1]),
    "axpy": ("sm_90a", axpy),
    "control": ("sm_90a", control),
    "warp_talk": ("sm_80", warp_talk),
    "nibbles": ("sm_100a", nibbles),
    "cluster": ("sm_90", cluster),
}


def text_of(kernel: Kernel, arch: str = "sm_90a") -> str:
    return emit(kernel, isa.arch(arch))


def body_of(kernel: Kernel, arch: str = "sm_90a") -> list[str]:
    """The lines inside the kernel's braces, without indentation."""
    text = text_of(kernel, arch)
    return [line.strip() for line in text[text.rindex(") {\n", 0, _body_start(text)) :].splitlines()[1:-1]]


def _body_start(text: str) -> int:
    start = text.index('extern "C" __global__')
    return text.index(") {\n", start) + 4


@pytest.mark.parametrize("name", GOLDEN)
def test_a_kernel_reads_as_its_golden_text(name: str, golden: Callable[[str, str], None]) -> None:
    arch, kernel = GOLDEN[name]

    golden(f"cuda/{name}.cu", text_of(kernel(), arch))


@pytest.mark.parametrize("name", CORPUS)
def test_the_text_includes_nothing_and_emitting_again_gives_the_same(name: str) -> None:
    arch, kernel = CORPUS[name]

    text = text_of(kernel(), arch)

    assert "#include" not in text
    assert text == text_of(kernel(), arch)


# Instructions


@pytest.mark.parametrize(
    ("num", "trans", "assembly"),
    [
        (1, False, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"),
        (2, False, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"),
        (4, False, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"),
        (2, True, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"),
    ],
)
def test_ldmatrix_is_spelled_as_the_manual_has_it(num: int, trans: bool, assembly: str) -> None:
    assert f'asm volatile("{assembly}"' in text_of(ldmatrix_tile(num, trans=trans))


def test_a_helper_with_many_registers_is_folded() -> None:
    text = text_of(ldmatrix_tile(4))

    assert "void ldmatrix_m8n8_x4_b16(\n    unsigned int& r0, unsigned int& r1, " in text
    assert all(len(line) <= 120 for line in text.splitlines() if "__device__" in line)


def test_stmatrix_reads_its_registers() -> None:
    text = text_of(stmatrix_tile(2, trans=False))

    assert '"stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" : : "r"(p), "r"(r0), "r"(r1) : "memory"' in text


def test_a_helper_is_emitted_once_however_often_it_is_used() -> None:
    loads = stmatrix_tile().body

    kernel = lowered("twice", stmatrix_tile().buffers, (*loads, *loads[2:]), launch=stmatrix_tile().launch)

    assert text_of(kernel).count("void stmatrix_m8n8_x4_trans_b16(") == 1


def test_nothing_unused_is_emitted() -> None:
    assert "__device__" not in text_of(axpy())


def test_two_spellings_with_one_short_name_get_different_functions() -> None:
    out, fragment = parameter("out", "float16"), flat("R", "float16", 2, "local")
    tile = flat("tile", "float16", 64, "shared")
    loads = [
        run("ptx.ldmatrix", False, 1, ".b16", tile.ptr_to([LANE * 8]), AddressOf(fragment), space=space)
        for space in ("shared", "shared::cta")
    ]

    text = text_of(lowered("k", (out,), (AllocBuffer(tile, 0), AllocBuffer(fragment), *loads), launch=LAUNCH_128))

    assert re.findall(r"^__device__ .* void (\w+)\(", text, re.MULTILINE) == [
        "ldmatrix_m8n8_x1_b16",
        "ldmatrix_m8n8_x1_shared_cta_b16",
    ]


LAUNCH_128 = Launch((1, 1, 1), 32, shared_bytes=128)


def test_an_integer_is_a_shared_address_as_it_stands() -> None:
    fragment = flat("R", "uint32", 1, "local")
    out = parameter("out", "uint32")
    load = run("ptx.ldmatrix", False, 1, ".b16", Var("address", dtype("uint32")), get(fragment, 0))
    bind = Bind(Var("address", dtype("uint32")), as_expr(64, dtype("uint32")))

    assert "ldmatrix_m8n8_x1_b16(R[0], address);" in body_of(lowered("k", (out,), (AllocBuffer(fragment), bind, load)))


def test_a_register_that_begins_at_an_odd_slot_is_refused_at_its_line() -> None:
    fragment = flat("R", "float16", 4, "local")
    at = Span("stage.py", 21)
    load = isa.call("ptx.ldmatrix", False, 1, ".b16", as_expr(0, dtype("uint32")), fragment.ptr_to([as_expr(1)]))

    with pytest.raises(InstructionError, match=r"stage.py:21: a register of 2 elements begins at R\[1\]"):
        text_of(lowered("k", (), (AllocBuffer(fragment), Evaluate(load, at=at))))


def test_an_instruction_that_the_target_lacks_is_refused_at_its_line() -> None:
    fragment = flat("R", "float16", 4, "local")
    call = isa.call("ptx.stmatrix", False, 1, ".b16", as_expr(0, dtype("uint32")), AddressOf(fragment))
    kernel = lowered("k", (), (AllocBuffer(fragment), Evaluate(call, at=Span("stage.py", 30))))

    with pytest.raises(TargetError, match=r"stage.py:30: stmatrix.* does not exist on sm_89") as raised:
        text_of(kernel, "sm_89")

    assert raised.value.hint == "target='sm_90'"


def test_clusters_are_refused_before_sm_90() -> None:
    with pytest.raises(TargetError, match="cluster uses thread block clusters, which sm_80 lacks"):
        text_of(cluster(), "sm_80")


# Names


def test_names_are_the_kernels_own_as_far_as_cpp_lets_them() -> None:
    text = text_of(awkward_names())

    assert entry_name(awkward_names()) == "main_"
    assert "main_(const unsigned short* __restrict__ double_, unsigned short* smem)" in text
    assert "unsigned short* threadIdx_ = (unsigned short*)smem_;" in text
    assert "const int u3bb = 4;" in text
    assert "float expf_ = expf((float)tid);" in text


def test_a_name_of_a_helper_yields_to_the_helper() -> None:
    assert "const int add_float16_ = 3;" in body_of(awkward_names())


def test_a_name_that_the_text_would_give_itself_yields_to_the_kernels() -> None:
    lines = body_of(awkward_names())

    assert "const int tid_ = (int)threadIdx.x;" in lines
    assert "const int tid = tid_ * 2;" in lines


# Parameters and memory


def test_a_parameter_that_is_only_read_is_const() -> None:
    assert "axpy(const float* __restrict__ x, float* y, float scale, int n) {" in text_of(axpy())


def test_a_parameter_whose_pointer_escapes_is_not_const() -> None:
    assert "unsigned short* a," in text_of(pointers())


def test_a_buffer_written_through_a_view_is_not_const() -> None:
    a = parameter("a", "float32")
    words = flat("words", "uint32", 8, "global", AddressOf(a))

    text = text_of(lowered("k", (a,), (DeclBuffer(words), store(words, TID, 0))))

    assert "k(float* a)" in text
    assert "unsigned int* words = (unsigned int*)a;" in text


def test_a_view_that_is_only_read_is_const_too() -> None:
    a, out = parameter("a", "float32"), parameter("out", "uint32")
    words = flat("words", "uint32", 8, "global", AddressOf(a))

    text = text_of(lowered("k", (a, out), (DeclBuffer(words), store(out, TID, get(words, TID)))))

    assert "k(const float* __restrict__ a, unsigned int* out)" in text
    assert "const unsigned int* words = (const unsigned int*)a;" in text


def test_two_buffers_of_one_parameter_share_their_constness() -> None:
    handle = Var("a_ptr", HANDLE)
    read, written = flat("a", "float32", 8, "global", handle), flat("b", "uint32", 8, "global", handle)
    kernel = Kernel(
        "k", (handle,), (read, written), (store(written, TID, 0),), stage="lowered", launch=Launch((1, 1, 1), 32)
    )

    assert "k(float* a)" in text_of(kernel)
    assert "((unsigned int*)a)[tid] = 0u;" in body_of(kernel)


def test_a_pointer_travels_between_lanes_as_a_number() -> None:
    a = parameter("a", "float32")
    mine, other = Var("mine", HANDLE), Var("other", HANDLE)
    first = Bind(other, isa.call("cuda.shfl_sync", 0xFFFFFFFF, mine, 0))
    kernel = lowered("k", (a,), (Bind(mine, AddressOf(a, (TID,))), first))

    carried = "(unsigned long long)__shfl_sync(0xffffffffu, (unsigned long long)mine, 0, 32)"
    assert f"void* other = (void*){carried};" in body_of(kernel)
    assert assemble(text_of(kernel), "sm_90a").cubin


def test_shared_memory_is_one_arena_with_each_buffer_at_its_offset() -> None:
    lines = body_of(pointers())

    assert "__shared__ __align__(1024) unsigned char smem[2048];" in lines
    assert "unsigned short* tile = (unsigned short*)(smem + 1024);" in lines


def test_more_than_48_kilobytes_of_shared_memory_are_dynamic() -> None:
    text = text_of(cluster())

    assert "extern __shared__ __align__(1024) unsigned char smem[];" in text
    assert "cluster<<<dim3(4, 1, 1), 64, 65536>>>(out)" in text


def test_local_storage_lives_as_long_as_the_kernel_runs() -> None:
    mine, i = flat("mine", "int32", 4, "local"), Var("i")
    loop = For(i, as_expr(0), as_expr(3), (AllocBuffer(mine), store(mine, 0, i)))

    lines = body_of(lowered("k", (), (loop,)))

    assert lines.index("alignas(16) int mine[4];") < lines.index("for (int i = 0; i < 3; ++i) {")


# Statements


def test_a_serial_loop_that_indexes_registers_is_unrolled() -> None:
    mine, i = flat("mine", "int32", 4, "local"), Var("i")
    loop = For(i, as_expr(0), as_expr(4), (store(mine, i, 0),))

    lines = body_of(lowered("k", (), (AllocBuffer(mine), loop)))

    assert lines[lines.index("for (int i = 0; i < 4; ++i) {") - 1] == "#pragma unroll"


def test_a_serial_loop_around_registers_that_do_not_depend_on_it_stays_a_loop() -> None:
    mine, i = flat("mine", "int32", 4, "local"), Var("i")
    loop = For(i, as_expr(0), as_expr(1000), (store(mine, 0, i),))

    assert "#pragma unroll" not in body_of(lowered("k", (), (AllocBuffer(mine), loop)))


def test_an_index_that_a_variable_carries_unrolls_its_loop() -> None:
    mine, i, j = flat("mine", "int32", 4, "local"), Var("i"), Var("j")
    loop = For(i, as_expr(0), as_expr(4), (Bind(j, 3 - i, mutable=False), store(mine, j, 0)))

    assert "#pragma unroll" in body_of(lowered("k", (), (AllocBuffer(mine), loop)))


def test_a_loop_of_one_round_is_a_block() -> None:
    mine, i = flat("mine", "int32", 4, "local"), Var("i")

    lines = body_of(lowered("k", (), (AllocBuffer(mine), For(i, as_expr(3), as_expr(4), (store(mine, 0, 7),)))))

    assert lines[-3:] == ["{", "mine[0] = 7;", "}"]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 2), (4, 3)])
def test_a_loop_of_no_round_or_of_several_stays_a_loop(start: int, stop: int) -> None:
    mine, i = flat("mine", "int32", 4, "local"), Var("i")

    lines = body_of(lowered("k", (), (AllocBuffer(mine), For(i, as_expr(start), as_expr(stop), (store(mine, 0, 7),)))))

    assert f"for (int i = {start}; i < {stop}; ++i) {{" in lines


def test_a_loop_of_one_round_that_is_left_or_names_its_variable_stays_a_loop() -> None:
    mine, i, leave = flat("mine", "int32", 4, "local"), Var("i"), If(binary("==", LANE, 0), (Break(),))
    for body in ((store(mine, 0, i),), (leave, store(mine, 0, 7))):
        lines = body_of(lowered("k", (), (AllocBuffer(mine), For(i, as_expr(0), as_expr(1), body))))

        assert "for (int i = 0; i < 1; ++i) {" in lines


def test_a_bound_that_the_body_changes_is_evaluated_once() -> None:
    assert "for (int i = 0, i_end = limit; i < i_end; ++i) {" in body_of(control())


def test_a_loop_may_go_down_in_steps() -> None:
    assert "for (int j = 9; j > -1; j -= 3) {" in body_of(control())


def test_a_comment_names_the_variant_and_its_line() -> None:
    assert "// copy/ldstmatrix: stage.py:21" in body_of(ldmatrix_tile())


def test_an_assumption_leaves_no_trace() -> None:
    n = Var("n")

    kernel = lowered("k", (), (Assume(n % 8 == 0), If(n > 0, (run("cuda.cta_sync"),))), symbols=(n,))

    assert body_of(kernel) == ["if (n > 0) {", "__syncthreads();", "}"]


def test_text_for_printf_is_escaped() -> None:
    assert r'printf("total of \"%d\" is %d\n", tid, total);' in body_of(control())


def test_a_barrier_is_a_function_of_its_operands() -> None:
    assert "bar_sync(2, 64);" in body_of(barriers())


# Knowledge


def value_of(value: Expr, *before: Bind) -> str:
    """How an int32 expression is written."""
    out = parameter("out", "int32")
    *_, last = body_of(lowered("k", (out,), (*before, store(out, 0, value)), launch=Launch((8, 1, 1), 256)))
    return last.removeprefix("out[0] = ").removesuffix(";")


X = Var("x")
UNKNOWN = Bind(X, get(parameter("out", "int32"), 1))


def test_what_cannot_overflow_is_written_plainly() -> None:
    assert value_of(TID * 4 + LANE) == "tid * 4 + laneid"


def test_what_may_overflow_wraps_by_way_of_unsigned_numbers() -> None:
    assert value_of(X + 1, UNKNOWN) == "(int)((unsigned int)x + 1u)"


def test_sums_of_products_stay_unsigned_in_between() -> None:
    assert value_of(X * X - X, UNKNOWN) == "(int)((unsigned int)x * (unsigned int)x - (unsigned int)x)"


def test_division_of_what_is_not_negative_is_cpps() -> None:
    assert value_of(TID // 8 + TID % 6) == "tid / 8 + tid % 6"


def test_division_by_a_power_of_two_is_a_shift_or_a_mask() -> None:
    assert value_of(X // 8, UNKNOWN) == "x >> 3"
    assert value_of(X % 8, UNKNOWN) == "x & 7"


def test_other_divisions_that_may_be_negative_go_through_a_function() -> None:
    assert value_of(X // 6, UNKNOWN) == "floor_div_int32(x, 6)"
    assert value_of(X % 6, UNKNOWN) == "floor_mod_int32(x, 6)"


def test_a_divisor_that_may_be_zero_is_asked_first() -> None:
    assert value_of(binary("//", TID, X), UNKNOWN) == "floor_div_any_int32(tid, x)"
    assert value_of(binary("truncmod", TID, X), UNKNOWN) == "trunc_mod_any_int32(tid, x)"
    assert value_of(binary("truncdiv", TID, LANE + 1)) == "tid / (laneid + 1)"


def test_a_count_that_may_be_the_width_or_more_is_asked_first() -> None:
    assert value_of(X << X, UNKNOWN) == "(int)shift_left_uint32((unsigned int)x, x)"
    assert value_of(X >> X, UNKNOWN) == "shift_right_int32(x, x)"
    assert value_of((X >> LANE) + (TID << LANE % 4), UNKNOWN).startswith("(int)((unsigned int)(x >> laneid)")


def test_what_was_true_of_a_variable_is_forgotten_where_it_changes() -> None:
    out = parameter("out", "int32")
    guarded = If(X >= 0, (Assign(X, X - 100), store(out, 0, X // 6)))

    assert "out[0] = floor_div_int32(x, 6);" in body_of(lowered("k", (out,), (UNKNOWN, guarded)))
