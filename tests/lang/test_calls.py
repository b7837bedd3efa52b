"""Calls: instructions, Python helpers that run while the kernel is parsed, and inline functions."""

# ruff: noqa: F823, F841, RET504  the names of a kernel are read by its parser
from __future__ import annotations

import pytest

from tests.lang.kernels import body, line_of, text
from tests.toys import cuda, ptx
from tilewright.errors import InstructionError, KernelError
from tilewright.ir import Call, Evaluate
from tilewright.lang import T, Tx


def test_an_instruction_is_a_statement() -> None:
    @T.prim_func
    def k():
        A = T.alloc_shared((8, 16), "float16")
        R = T.alloc_local((4,), "float16")
        T.ptx.ldmatrix(False, 2, ".b16", A.ptr_to([T.lane_id() % 8, 0]), T.address_of(R[0]), R.ptr_to([2]))
        T.ptx.stmatrix(True, 1, ".b16", A.ptr_to([0, 0]), R[0], shape="m8n8", space="shared")
        T.ptx.bar.sync(1, 128)
        T.cuda.cta_sync()

    assert body(k).splitlines()[-4:] == [
        'T.ptx.ldmatrix(T.bool(False), 2, ".b16", T.address_of(A[lane_id % 8, 0]), T.address_of(R[0]), '
        "T.address_of(R[2]))",
        'T.ptx.stmatrix(T.bool(True), 1, ".b16", T.address_of(A[0, 0]), R[0])',
        "T.ptx.bar.sync(1, 128)",
        "T.cuda.cta_sync()",
    ]


def test_an_instruction_with_a_value_is_an_expression() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        old = T.cuda.atomic_add(A.ptr_to([0]), 1)
        T.cuda.atomic_add(A.ptr_to([1]), old)
        T.evaluate(old + 1)

    assert [type(stmt).__name__ for stmt in k.body] == ["Bind", "Evaluate", "Evaluate"]
    assert body(k).splitlines()[-1] == "T.evaluate(old + 1)"


def test_evaluate_of_an_instruction_is_that_instruction() -> None:
    @T.prim_func
    def k():
        T.evaluate(T.cuda.cta_sync())

    assert body(k) == "T.cuda.cta_sync()"


def test_starred_and_keyword_arguments() -> None:
    @T.prim_func
    def k():
        A = T.alloc_shared((8, 32), "float16")
        R = T.alloc_local((8,), "float16")
        registers = [R.ptr_to([2 * i]) for i in range(4)]
        options = {"shape": "m8n8", "space": "shared"}
        T.ptx.stmatrix(False, 4, ".b16", A.ptr_to([0, 0]), *registers, **options)

    assert body(k).splitlines()[-1].count("T.address_of(R[") == 4


def test_a_python_helper_computes_on_symbols() -> None:
    def place(tid, wide):
        if wide:
            return tid // 8, tid % 8
        return tid // 4, tid % 4

    @T.prim_func
    def k(A: T.Buffer((8, 8), "float32")):
        tid = T.thread_id([32])
        A[place(tid, False)] = 1
        A[place(tid, wide=True)[0], 0] = 2

    assert body(k).splitlines()[1:] == ["A[tid // 4, tid % 4] = 1.0", "A[tid // 8, 0] = 2.0"]


def test_a_helper_that_asks_for_truth_is_refused_at_the_kernels_line() -> None:
    def first(tid):
        return 1 if tid == 0 else 2

    with pytest.raises(KernelError, match=r"the truth of `tid == 0` is not known") as raised:

        @T.prim_func
        def k(A: T.Buffer((8, 8), "float32")):
            tid = T.thread_id([32])
            A[0, 0] = first(tid)

    assert line_of(raised.value).excerpt()[0].endswith("A[0, 0] = first(tid)")


def test_a_helper_may_make_statements() -> None:
    def stage(rows):
        tile = T.alloc_shared((rows, 8), "float16")
        T.cuda.cta_sync()
        return tile

    @T.prim_func
    def k():
        A = stage(4)
        stage(2)
        A[0, 0] = 0

    assert body(k) == text("""
        A = T.alloc_buffer((4, 8), "float16", scope="shared")
        T.cuda.cta_sync()
        buffer_1 = T.alloc_buffer((2, 8), "float16", scope="shared")
        T.cuda.cta_sync()
        A[0, 0] = 0.0
    """)


def test_an_instruction_of_a_helper_happens_once() -> None:
    def count(A):
        T.cuda.atomic_add(A.ptr_to([0]), 1)
        return T.cuda.atomic_add(A.ptr_to([1]), 2) + 1

    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        x = count(A)

    assert body(k) == text("""
        T.cuda.atomic_add(T.address_of(A[0]), 1)
        x: T.int32 = T.cuda.atomic_add(T.address_of(A[1]), 2) + 1
    """)


def test_an_inline_function_is_parsed_where_it_is_called() -> None:
    @T.inline
    def fill(buffer, count, value=0):
        for i in range(count):
            if i % 2 == 0:
                buffer[i] = value

    @T.prim_func
    def k(A: T.Buffer((8,), "float32")):
        i = 3
        fill(A, 4)
        fill(A, count=i, value=2)

    assert body(k) == text("""
        i: T.int32 = 3
        for i_1 in range(4):
            if i_1 % 2 == 0:
                A[i_1] = 0.0
        for i_2 in range(i):
            if i_2 % 2 == 0:
                A[i_2] = 2.0
    """)


def test_the_names_of_an_inline_function_are_its_own() -> None:
    @T.inline
    def double(x):
        x = x + x
        y = x
        return y

    @T.prim_func
    def k():
        y = 1
        x = double(y)
        y = 2

    assert body(k) == text("""
        y: T.int32 = 1
        x: T.int32 = y + y
        y_1: T.int32 = x
        x_1: T.int32 = y_1
        y = 2
    """)


def test_an_inline_function_computes_an_effect_once() -> None:
    @T.inline
    def twice(A, x):
        A[0] = x
        A[1] = x

    @T.prim_func
    def k(A: T.Buffer((4,), "int32")):
        twice(A, T.cuda.atomic_add(A.ptr_to([2]), 1))

    assert body(k) == text("""
        x: T.let = T.cuda.atomic_add(T.address_of(A[2]), 1)
        A[0] = x
        A[1] = x
    """)


def test_an_inline_function_inside_a_kernel_sees_its_names() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float32")):
        count = 0

        @T.inline
        def put(value, step=1):
            A[count] = value
            count += step

        put(5)
        put(6, step=2)

    assert body(k) == text("""
        count: T.int32 = 0
        A[count] = 5.0
        count = count + 1
        A[count] = 6.0
        count = count + 2
    """)


class Pipeline:
    """A helper object whose methods are parsed into kernels."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    @T.inline
    def advance(self, phase, buffer):
        for i in T.unroll(self.depth):
            buffer[i] = phase ^ 1
        if self.depth > 1:
            T.cuda.cta_sync()


def test_methods_may_be_inline() -> None:
    pipe = Pipeline(2)

    @T.prim_func
    def k(A: T.Buffer((8,), "int32"), phase: T.int32):
        pipe.advance(phase, A)

    assert body(k) == "for i in T.unroll(2):\n    A[i] = phase ^ 1\nT.cuda.cta_sync()"


def test_an_inline_function_may_be_called_from_a_python_helper() -> None:
    @T.inline
    def put(A, i):
        A[i] = i

    def put_all(A):
        for i in range(2):
            put(A, i)

    @T.prim_func
    def k(A: T.Buffer((8,), "int32")):
        put_all(A)

    assert body(k) == "A[0] = 0\nA[1] = 1"


def test_outside_a_kernel_an_instruction_is_just_an_expression() -> None:
    made = T.ptx.bar.sync(1, 128)
    assert isinstance(made, Call)
    assert made.op == "ptx.bar.sync"


def test_statements_know_the_line_they_came_from() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "int32")):
        A[0] = 1
        T.cuda.cta_sync()

    store, sync = k.body
    assert store.at is not None
    assert sync.at is not None
    assert sync.at.line == store.at.line + 1
    assert sync.at.file == __file__
    assert isinstance(sync, Evaluate)
    assert sync.at.excerpt()[1].strip(" |") == "^^^^^^^^"


def test_a_name_may_be_an_instruction_and_a_namespace() -> None:
    @T.prim_func
    def k():
        bar = T.alloc_shared((1,), "uint64")
        addr = T.alloc_shared((1,), "uint32")
        desc = T.alloc_local((1,), "uint64")
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence("acq_rel", "cta")
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.encode_matrix_descriptor(desc.data, addr.data, ldo=16, sdo=8, swizzle=T.SwizzleMode(2))
        T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64)
        state = T.ptx.mbarrier.arrive(bar.ptr_to([0]), count=2, sem="relaxed")
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        T.ptx.mbarrier.try_wait.state(bar.ptr_to([0]), state)
        T.ptx.tcgen05.wait.ld()
        T.ptx.tcgen05.fence.after_thread_sync()

    assert body(k).splitlines()[3:] == [
        "T.ptx.mbarrier.init(T.address_of(bar[0]), 1)",
        'T.ptx.fence("acq_rel", "cta")',
        'T.ptx.fence.proxy_async(space="shared::cta")',
        "T.ptx.tcgen05.encode_matrix_descriptor(desc.data, addr.data, 16, 8, 2)",
        "T.ptx.mbarrier.arrive(T.address_of(bar[0]))",
        "T.ptx.mbarrier.arrive.expect_tx(T.address_of(bar[0]), 64)",
        'state: T.uint64 = T.ptx.mbarrier.arrive(T.address_of(bar[0]), count=2, sem="relaxed")',
        "T.ptx.mbarrier.try_wait(T.address_of(bar[0]), 0)",
        "T.ptx.mbarrier.try_wait.state(T.address_of(bar[0]), state)",
        "T.ptx.tcgen05.wait.ld()",
        "T.ptx.tcgen05.fence.after_thread_sync()",
    ]
    assert "expect_tx" in dir(T.ptx.mbarrier.arrive)


def test_a_name_may_be_asked_for() -> None:
    assert not hasattr(T, "tensor_of_tomorrow")
    assert not hasattr(Tx, "convolve")
    assert getattr(T.ptx, "wgmma_of_tomorrow", None) is None


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: ptx.ldmatrx, "ldmatrix"),
        (lambda: ptx.bar.snc, "sync"),
        (lambda: cuda.cta_synk, "cta_sync"),
    ],
)
def test_a_misspelt_instruction_gets_the_nearest_name(call, nearest: str) -> None:
    with pytest.raises(InstructionError, match="is not an instruction") as raised:
        call()
    assert f"did you mean {nearest!r}?" in str(raised.value.allowed)
