"""What a caller gives may raise errors of its own: they are told as one of ours, with the parameter's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import ArgumentError, KernelError, SimulationError

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 first, .param .u32 %s) { ret; }
"""


@T.prim_func
def own(first: T.Buffer((4,), "float32"), second: T.int32):
    T.cta_id([1])
    T.thread_id([4])
    first[0] = T.cast(second, "float32")


def raising(name: str) -> Any:
    def fail(value: object) -> Any:
        raise RuntimeError("the file is closed")

    return type("Odd", (), {name: property(fail)})()


@pytest.mark.parametrize("name", ["__array_interface__", "__dlpack__", "__cuda_array_interface__", "__getattr__"])
def test_an_argument_whose_property_raises_is_named(name: str) -> None:
    with pytest.raises(ArgumentError, match="argument first") as ours:
        tw.simulate(own, raising(name), 1)
    with pytest.raises(ArgumentError, match="argument first"):
        tw.load_ptx(PTX % "second")["k"].simulate(raising(name), 1, grid=1, block=1)
    assert name == "__getattr__" or "the file is closed" in str(ours.value)


def test_a_number_that_cannot_say_which_is_named() -> None:
    with pytest.raises(ArgumentError, match="argument second of own is an integer"):
        tw.simulate(own, np.zeros(4, np.float32), raising("__index__"))


def test_two_parameters_of_one_name_are_refused() -> None:
    with pytest.raises(KernelError, match="k has two parameters of one name"):
        tw.load_ptx(PTX % "first")


def test_a_pointer_to_bytes_takes_an_array_of_anything() -> None:
    text = """
__global__ void k(const char* x, unsigned char* y, int pitch) {
    *(float*)(y + threadIdx.x * pitch) = *(const float*)(x + threadIdx.x * pitch);
}
"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)

    tw.load_cu(text)["k"].simulate(x, y, 4, grid=1, block=32)

    assert (x == y).all()
    with pytest.raises(ArgumentError, match="argument x points to float32"):
        tw.load_cu(text.replace("const char", "const float"))["k"].simulate(x.astype("f8"), y, 1, grid=1, block=32)


@pytest.mark.parametrize(("first", "status"), [(0, "clean"), (1, "wrong"), (4, "clean"), (64, "clean"), (66, "wrong")])
def test_an_array_that_begins_inside_of_another_is_aligned_as_it_lies(first: int, status: str) -> None:
    text = "__global__ void k(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }\n"
    whole, out = np.arange(200, dtype=np.float32), np.zeros(128, np.float32)

    verdict = tw.check(tw.load_cu(text)["k"], whole[first : first + 128], out, grid=1, block=32)

    assert (verdict.status, {each.kind for each in verdict.findings}) == (
        status,
        {"alignment"} if status == "wrong" else set(),
    )


def test_an_array_that_begins_inside_of_another_keeps_its_bounds_and_is_written_in_place() -> None:
    text = "__global__ void k(float* x, int from) { x[threadIdx.x + from] = threadIdx.x; }\n"
    whole = np.full(100, -1, np.float32)
    kernel = tw.load_cu(text)["k"]

    kernel.simulate(whole[3:67], 0, grid=1, block=64)

    assert (whole[3:67] == np.arange(64)).all()
    assert (np.delete(whole, range(3, 67)) == -1).all()
    for start in (-1, 1):
        with pytest.raises(SimulationError, match="outside of x"):
            kernel.simulate(whole[3:67], start, grid=1, block=64)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", -3), ("float", 2.5), ("long long", 1 << 40), ("unsigned char", 200), ("bool", True), ("double", 7)],
)
def test_a_grid_constant_that_is_a_number_takes_a_number(kind: str, value: float) -> None:
    text = f"__global__ void k(const __grid_constant__ {kind} n, double* out) {{ *out = n; }}"
    out = np.zeros(1)

    tw.load_cu(text)["k"].simulate(value, out, grid=1, block=1)

    assert out[0] == value
    with pytest.raises(ArgumentError, match="argument n is a number"):
        tw.load_cu(text)["k"].simulate("3", out, grid=1, block=1)
