"""``__restrict__``: on arrays that no write can change; a call whose arguments overlap gets a text without it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tests.cuda.fake_driver import FakeDriver, Tensor
from tests.cuda.test_launch import exe, scale  # noqa: F401  # a fixture, and the kernel that it compiles
from tilewright import T
from tilewright.cuda import emit
from tilewright.ir import Kernel
from tilewright.lang import parse_script


def restricted(kernel: Kernel) -> list[str]:
    return re.findall(r"__restrict__ (\w+)", tw.compile(kernel, "sm_90a").source("cuda").partition("__global__")[2])


SCRIPT = """
@T.prim_func
def k(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (64,), "int32")
    B = T.match_buffer(B_ptr, (64,), "int32")
    tid = T.thread_id([32])
    {}
"""
BODIES = {
    "B[tid] = A[tid]": ["A"],
    "A[tid] = B[tid] + A[tid]": ["B"],
    "B[tid] = 0\n    A[tid] = 0": [],
    "x = A[tid] + B[tid]": [],  # nothing is written: no load can change
    "T.ptx.griddepcontrol.wait()\n    B[tid] = A[tid]": [],  # a load must not move before it
    "while A[0] == 0:\n        B[tid] = B[tid] + 1": [],  # polls
    "for i in range(100):\n        if A[0] > 0:\n            break\n    B[tid] = 1": [],
    "B[tid] = 1\n    T.cuda.thread_fence()\n    B[tid + 32] = A[tid]": [],
    "for i in range(100):\n        B[tid] = B[tid] + A[i]": ["A"],
    "T.cuda.atomic_add(T.address_of(A[0]), B[tid])": ["B"],
    "p = A.ptr_to([tid])\n    B[tid] = 1": [],
    'T.func_attr({"tirx.noalias": False})\n    B[tid] = A[tid]': [],
    'T.func_attr({"tirx.noalias": True})\n    B[tid] = A[tid]': ["A"],
}


@pytest.mark.parametrize("body", BODIES)
def test_what_is_only_read_and_by_nobody_written_is_restrict(body: str) -> None:
    assert restricted(parse_script(SCRIPT.format(body))) == BODIES[body]


def test_loads_through_restrict_use_the_read_only_path() -> None:
    kernel = parse_script(SCRIPT.format("B[tid] = A[tid]"))

    assert "LDG.E.CONSTANT" in tw.compile(kernel, "sm_90a").source("sass")


def test_a_product_of_matrices_is_no_volatile_assembly() -> None:
    @T.prim_func
    def k(A: T.Buffer((32, 4), "uint32"), B: T.Buffer((32, 2), "uint32"), D: T.Buffer((32, 4), "float32")):
        lane = T.lane_id([32])
        a = T.alloc_local((4,), "uint32")
        b = T.alloc_local((2,), "uint32")
        d = T.alloc_local((4,), "float32")
        for i in T.unroll(4):
            a[i] = A[lane, i]
            d[i] = 0.0
        for i in T.unroll(2):
            b[i] = B[lane, i]
        registers = [d[0], d[1], d[2], d[3]]
        T.ptx.mma("m16n8k16", "f32.f16.f16.f32", registers, [a[0], a[1], a[2], a[3]], [b[0], b[1]], registers)
        for i in T.unroll(4):
            D[lane, i] = d[i]

    text = tw.compile(k, "sm_90a").source("cuda")

    assert 'asm("mma.sync' in text
    assert "volatile" not in text


def test_arguments_that_overlap_get_a_kernel_of_their_own(fake: FakeDriver, exe: Any) -> None:  # noqa: F811
    for first, second in ((0x1000, 0x2000), (0x1000, 0x1000), (0x1000, 0x10F0), (0x10F0, 0x1000), (0x1000, 0x1100)):
        for _ in range(2):  # the second time, addresses are those of the call before
            exe(Tensor((64,), address=first), Tensor((64,), address=second), 1.0)

    loaded = [cubin for _, cubin, _ in fake.loaded]
    functions = [seen.function for seen in fake.launches]
    assert len(loaded) == 2
    assert functions == [*[functions[0]] * 2, *[functions[2]] * 6, *[functions[0]] * 2]
    assert functions[0] != functions[2]


def test_the_text_for_arguments_that_overlap_promises_nothing() -> None:
    made = tw.compile(scale, "sm_90a")

    assert "__restrict__" in made.source("cuda")
    assert "__restrict__" not in emit(made.lowered, made.target, may_alias=True)
