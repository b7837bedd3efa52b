"""Kernels as operators of torch: names, schemas, the arguments that they mutate. A fake torch takes them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import ArgumentError, KernelError, ToolError


@T.prim_func
def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32, n: T.int64, negate: T.bool):
    A = T.match_buffer(A_ptr, (32,), "float32")
    B = T.match_buffer(B_ptr, (32,), "float32")
    i = T.thread_id([32])
    if not negate:
        B[i] = A[i] * s


@T.prim_func
def through_an_instruction(A: T.Buffer((32, 1), "int32"), B: T.Buffer((32, 1), "int32")):
    i = T.thread_id([32])
    T.cuda.atomic_add(T.address_of(B[i, 0]), A[i, 0])


class Operator:
    """The part of the result of `torch.library.custom_op` that is used."""

    def __init__(self, name: str, run: Any, *, mutates_args: Any, schema: str) -> None:
        self.name, self.run, self.mutates, self.schema = name, run, tuple(mutates_args), schema

    def register_fake(self, fake: Any) -> None:
        self.fake = fake

    def __call__(self, *args: Any) -> None:
        self.run(*args)


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch")
    module.library = SimpleNamespace(custom_op=Operator)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)


def test_the_schema_names_what_the_kernel_changes() -> None:
    operator = tw.torch_op("mine::scale", scale)

    assert operator.schema == "(Tensor A, Tensor(a0!) B, float s, int n, bool negate) -> ()"
    assert (operator.name, operator.mutates) == ("mine::scale", ("B",))
    assert operator.fake(None, None, 1.0, 1, True) is None


def test_what_an_instruction_stores_to_is_seen() -> None:
    assert tw.torch_op("mine::through", through_an_instruction).mutates == ("B",)


def test_the_operator_runs_the_kernel() -> None:
    a, b = np.ones(32, np.float32), np.zeros(32, np.float32)

    tw.torch_op("mine::scale", tw.compile(scale))(a, b, 3.0, 0, False)

    assert (b == 3).all()


@pytest.mark.parametrize("mutates", ["B", ["B"], ("A", "B")])
def test_more_may_be_named_than_is_seen(mutates: Any) -> None:
    assert tw.torch_op("mine::scale", scale, mutates=mutates).mutates == tuple(mutates)


@pytest.mark.parametrize(
    ("mutates", "message"),
    [
        ("", "no array ''"),
        ([], r"(?s)writes what mutates does not name.*given: +nothing.*allowed: +B"),
        (["A"], r"(?s)writes what mutates does not name.*given: +A.*allowed: +A, B"),
        (["C"], r"(?s)no array 'C'.*allowed: +A, B"),
        (["s"], "no array 's'"),
    ],
)
def test_what_is_written_must_be_named_and_only_arrays(mutates: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        tw.torch_op("mine::scale", scale, mutates=mutates)


@pytest.mark.parametrize("name", ["scale", "a::b::c", "mine::", "::scale", "mine::sc-ale", "my space::scale"])
def test_a_name_is_a_namespace_and_a_name(name: Any) -> None:
    with pytest.raises(ArgumentError, match=r'(?s)namespace and a name.*"mine::scale"'):
        tw.torch_op(name, scale)


def test_only_kernels_become_operators() -> None:
    with pytest.raises(KernelError, match="not a kernel"):
        tw.torch_op("mine::scale", print)


def test_without_torch_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(ToolError, match=r"(?s)torch is not installed.*pip install torch"):
        tw.torch_op("mine::scale", scale)
