"""Printing: a script reads well, and reads back to the kernel that was printed."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.ir.kernels import identical, kernels
from tests.samples import sampled
from tilewright.dtypes import BOOL, HANDLE, dtype
from tilewright.ir import (
    SPECIALS,
    AddressOf,
    AllocBuffer,
    Attr,
    Binary,
    Bind,
    Buffer,
    Call,
    Cast,
    Const,
    DeclBuffer,
    Evaluate,
    For,
    If,
    Kernel,
    Launch,
    Load,
    Region,
    Select,
    Store,
    Unary,
    Var,
    special,
)
from tilewright.ir.printer import script, show
from tilewright.lang import parse_script

INT32, FLOAT16 = dtype("int32"), dtype("float16")
I = Var("i")  # noqa: E741  as the scripts below call it


@sampled(24, of=60)
@given(kernels("tile"))
def test_an_authored_kernel_reads_back(kernel: Kernel) -> None:
    again = parse_script(script(kernel))
    assert again == kernel, script(kernel)
    assert identical(again, kernel), script(kernel)


@sampled(24, of=60)
@given(kernels("lowered"))
def test_a_lowered_kernel_reads_back(kernel: Kernel) -> None:
    again = parse_script(script(kernel))
    assert again == kernel, script(kernel)
    assert identical(again, kernel), script(kernel)


def lowered() -> Kernel:
    """A copy through shared memory by ldmatrix, as the lowered stage has it."""
    pointer = Var("B_ptr", HANDLE)
    n = Var("n")
    B = Buffer("B", FLOAT16, (n * 128,), "global", None, data=pointer)
    A_smem = Buffer("A_smem", FLOAT16, (128,), "shared", None)
    R = Buffer("R", FLOAT16, (4,), "local", None)
    words = Buffer("R_words", dtype("uint32"), (2,), "local", None, data=AddressOf(R, (Const(0, INT32),)))
    lane, mm = special("laneid"), Var("mm")
    smem_ptr = Var("smem_ptr", HANDLE)
    registers = [AddressOf(R, (mm * 4 + k,)) for k in (0, 2)]
    load = Call("ptx.ldmatrix", (False, 2, ".b16", smem_ptr, *registers), (), dtype("void"))
    copy = Call("cuda.copy_bytes", (AddressOf(B, (lane * 4,)), AddressOf(words), 8), (), dtype("void"))
    return Kernel(
        "stage",
        (pointer,),
        (B,),
        (
            AllocBuffer(A_smem, 256),
            AllocBuffer(R),
            DeclBuffer(words),
            Attr((("comment", "copy/ldstmatrix: stage.py:21"),)),
            For(
                mm,
                Const(0, INT32),
                Const(1, INT32),
                (
                    Bind(smem_ptr, AddressOf(A_smem, (lane % 8 * 16 + mm * 8,)), mutable=False),
                    Evaluate(load),
                ),
                "unroll",
            ),
            If(special("ctaid.x") < n - 1, (Evaluate(copy),), (Store(Load(B, (lane,)), Const(0.0, FLOAT16)),)),
        ),
        (n,),
        "lowered",
        Launch((n, 1, 1), 32, shared_bytes=512),
    )


def test_a_lowered_script_reads_like_the_language() -> None:
    assert script(lowered()).splitlines()[2:] == [
        '@T.prim_func(stage="lowered")',
        "def stage(B_ptr: T.handle):",
        "    n = T.int32()",
        '    B = T.match_buffer(B_ptr, (n * 128,), "float16")',
        "    T.launch(grid=(n, 1, 1), threads=32, shared_bytes=512)",
        '    A_smem = T.alloc_buffer((128,), "float16", scope="shared", offset=256)',
        '    R = T.alloc_buffer((4,), "float16", scope="local")',
        '    R_words = T.decl_buffer((2,), "uint32", data=T.address_of(R[0]), scope="local")',
        "    # copy/ldstmatrix: stage.py:21",
        "    for mm in T.unroll(1):",
        "        smem_ptr: T.let = T.address_of(A_smem[T.laneid % 8 * 16 + mm * 8])",
        '        T.ptx.ldmatrix(T.bool(False), 2, ".b16", smem_ptr, T.address_of(R[mm * 4]), '
        "T.address_of(R[mm * 4 + 2]))",
        "    if T.ctaid.x < n - 1:",
        "        T.cuda.copy_bytes(T.address_of(B[T.laneid * 4]), R_words.data, 8)",
        "    else:",
        "        B[T.laneid] = 0.0",
    ]


def test_the_lowered_script_reads_back() -> None:
    again = parse_script(script(lowered()))
    assert identical(again, lowered())
    assert script(again) == script(lowered())


def test_a_kernel_prints_as_its_script() -> None:
    assert str(lowered()) == lowered().script().rstrip() == script(lowered()).rstrip()


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (I + 1, "i + 1"),
        (Binary("+", I, Const(0, INT32), INT32), 'T.exactly("+", i, 0)'),
        (Binary("*", Const(2, INT32), Const(3, INT32), INT32), 'T.exactly("*", 2, 3)'),
        (Binary("and", I < 3, Const(True, BOOL), BOOL), 'T.exactly("and", i < 3, True)'),
        (Unary("-", Const(2, INT32), INT32), 'T.exactly("-", 2)'),
        (Cast(I, INT32), 'T.exactly("cast", i, kind="int32")'),
        (Select(Const(True, BOOL), I, I + 1, INT32), 'T.exactly("select", True, i, i + 1)'),
        (Const(1.5, dtype("float32")), "1.5"),
        (Const(1.5, FLOAT16), "T.float16(1.5)"),
        (Const(float("-inf"), FLOAT16), 'T.float16("-inf")'),
        (I - (-1), "i - -1"),
        (-(I * 2), "-(i * 2)"),
        ((I < 1) == (I > 2), "(i < 1) == (i > 2)"),
        (Region(Buffer("A", FLOAT16, (8, 8), "shared", None), ((I, 4), (0, 8))), "A[i:i + 4, 0:8]"),
        (Region(Buffer("A", FLOAT16, (8,), "shared", None), ((I, I + 1 + 1),)), "T.region(A, (i, i + 1 + 1))"),
    ],
)
def test_one_expression(node: object, text: str) -> None:
    assert show(node) == text


@pytest.mark.parametrize("name", SPECIALS)
def test_every_special_register_reads_back(name: str) -> None:
    kernel = Kernel("k", (), (), (Bind(Var("x"), special(name)),), stage="lowered")
    assert identical(parse_script(script(kernel)), kernel)
