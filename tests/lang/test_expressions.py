"""Expressions: what Python's operators and the functions of T mean in a kernel."""

from __future__ import annotations

import builtins
from functools import reduce

import pytest

from tests.lang.kernels import body, statement
from tilewright.dtypes import NAMES, dtype
from tilewright.ir import DeclBuffer, Var
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import T
from tilewright.lang.functions import parse
from tilewright.lang.parser import read_text

CASES = {
    "a + b - 2 * a": "a + b - 2 * a",
    "a // b % 4": "a // b % 4",
    "(a + b) * (a - b)": "(a + b) * (a - b)",
    "a - (b - a)": "a - (b - a)",
    "-a * ~b": "-a * ~b",
    "-(a * b)": "-(a * b)",
    "a << 2 | b >> 1 & 3 ^ a": "a << 2 | b >> 1 & 3 ^ a",
    "(a & 3) == (b | 1)": "a & 3 == b | 1",
    "a < b": "a < b",
    "0 < a": "0 < a",
    "a < b <= 4 != a": "a < b and b <= 4 and 4 != a",
    "a < b and b < 4 or not a == b": "a < b and b < 4 or not a == b",
    "a < b and (b < 4 or a == b)": "a < b and (b < 4 or a == b)",
    "a in (1, 2)": "a == 1 or a == 2",
    "a not in (1, 2)": "not (a == 1 or a == 2)",
    "a if a < b else b": "T.select(a < b, a, b)",
    "a if n == 4 else b": "a",
    "a is None": "False",
    "n + 2 * n": "12",
    "n / 8": "0.5",
    "7 // 2 + 2 ** 3": "11",
    "f / 2": "f / 2.0",
    "f * a": 'f * T.cast(a, "float32")',
    "h + 1": "h + 1.0",
    "T.min(a, b)": "T.min(a, b)",
    "T.max(a, 3, b)": "T.max(T.max(a, 3), b)",
    "min(a, 3) + max(b, a)": "T.min(a, 3) + T.max(b, a)",
    "min(n, 3)": "3",
    "T.floordiv(a, 3)": "a // 3",
    "T.floormod(a, b)": "a % b",
    "T.truncdiv(a, 3)": "T.truncdiv(a, 3)",
    "T.truncmod(a, b)": "T.truncmod(a, b)",
    "T.ceildiv(a, 8)": "(a + 8 - 1) // 8",
    "T.shift_left(a, 2)": "a << 2",
    "T.select(a < b, 1, 2)": "T.select(a < b, 1, 2)",
    "T.if_then_else(a < b, f, 0)": "T.select(a < b, f, 0.0)",
    'T.cast(a, "uint8")': 'T.cast(a, "uint8")',
    "T.cast(300, T.uint8)": "T.uint8(44)",
    "T.float16(a)": 'T.cast(a, "float16")',
    "T.int64(5)": "T.int64(5)",
    "T.int64(a) + 1": 'T.cast(a, "int64") + 1',
    "T.bool(False)": "False",
    'T.float32("inf")': 'T.float32("inf")',
    '-T.infinity("float16")': 'T.float16("-inf")',
    'T.float64("nan")': 'T.float64("nan")',
    'T.reinterpret("uint32", f)': 'T.reinterpret("uint32", f)',
    "T.exp(f) + T.sqrt(f)": "T.exp(f) + T.sqrt(f)",
    "T.address_of(A[a, 1])": "T.address_of(A[a, 1])",
    "T.address_of(A)": "T.address_of(A[0, 0])",
    "A.data + 16": "A.data + 16",
    "A.ptr_to([a, 0]) - A.data": 'T.cast(T.address_of(A[a, 0]), "int64") - T.cast(A.data, "int64")',
    "(A.data + a) % 16": 'T.cast(A.data + T.cast(a, "handle"), "int64") % 16',
    "A.shape[1] + a": "4 + a",
    "sum([a, b, 3])": "a + b + 3",
    "[x * 2 for x in (a, b)][1]": "b * 2",
    "next(x for x in (a, b) if x is b)": "b",
    "any(x > 3 for x in (1, n))": "True",
    "{'x': a, **{'y': b}}['y']": "b",
    "(lambda x, y: x + y)(a, 1)": "a + 1",
    "len(f'{n}:{n:>4}')": "6",
    "T.laneid + T.ctaid.x": "T.laneid + T.ctaid.x",
    'T.special("ntid")': "T.ntid",
    "abs(a)": "T.abs(a)",
    "getattr(T, 'max')(a, b)": "T.max(a, b)",
    "(a, b)[n - 3]": "b",
    "a if (a > 0 and n > 5) else b": "b",
}


NAMES_AROUND = {**vars(builtins), "T": T, "n": 4}
KERNEL = """
@T.prim_func
def k(A: T.Buffer((8, 4), "float16"), a: T.int32, b: T.int32, f: T.float32, h: T.float16):
    x: T.let = {}
"""


@pytest.mark.parametrize("expression", CASES)
def test_an_expression_and_its_print(expression: str) -> None:
    kernel = parse(read_text(KERNEL.format(expression)), NAMES_AROUND.__getitem__, {})
    assert body(kernel) == f"x: T.let = {CASES[expression]}"


@pytest.mark.parametrize("kind", [name for name in NAMES if name != "void"])
def test_every_dtype_builds_values(kind: str) -> None:
    value = getattr(T, kind)(1)
    assert value.dtype == dtype(kind)
    assert getattr(T, kind)(Var("i")).dtype == dtype(kind)


@pytest.mark.parametrize("kind", ["float32x4", "float16x2", "int8x4"])
def test_vectors_are_dtypes(kind: str) -> None:
    assert getattr(T, kind) == kind
    assert getattr(T, kind).lanes == int(kind[-1])


def test_vector_elements_move_as_one() -> None:
    @T.prim_func
    def k(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        a = A.view("float32x4")
        b = B.view("float32x4")
        b[1, 0] = a[0, 1]

    assert body(k).splitlines()[-1] == "b[1, 0] = a[0, 1]"
    assert statement(k, 0, DeclBuffer).buffer.shape == (8, 2)


def test_the_language_lists_its_names() -> None:
    names = dir(T)
    assert {"prim_func", "alloc_buffer", "float16", "ptx", "cuda", "exp", "S", "laneid", "SMEMPool"} <= set(names)
    assert "ldmatrix" in dir(T.ptx)


def test_every_instruction_has_its_dotted_name() -> None:
    asked = {name: reduce(getattr, name.split("."), T) for name in INSTRUCTIONS}

    assert [repr(asked[name]) for name in INSTRUCTIONS] == [f"T.{name}" for name in INSTRUCTIONS]
    assert [name for name in INSTRUCTIONS if not asked[name].__doc__] == []
