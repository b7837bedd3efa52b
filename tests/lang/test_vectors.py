"""Vectors are values: made of components, read by component, computed element by element, moved in one access."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import NAMES, dtype
from tilewright.errors import KernelError
from tilewright.lang import parse_script

KINDS = [dtype(name).with_lanes(lanes) for name in NAMES if name not in ("handle", "void") for lanes in (2, 4, 8)]
NUMBERS = [kind for kind in KINDS if kind.kind != "bool"]
REVERSED = """
@T.prim_func
def turned(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (64,), "{kind}")
    B = T.match_buffer(B_ptr, (64,), "{kind}")
    T.device_entry()
    tid = T.thread_id([32])
    for i in range(2):
        v: T.{kind} = A[2 * tid + i]
        B[2 * tid + i] = T.{kind}({parts})
"""


def assembled(exe: tw.Executable) -> str:
    text = exe.source("cuda")
    assert assemble(text, "sm_100a" if exe.target.number == 100 else "sm_90a").cubin
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_is_taken_apart_and_put_together(kind) -> None:
    parts = ", ".join(f"v[{k}]" for k in reversed(range(kind.lanes)))
    kernel = parse_script(REVERSED.format(kind=kind, parts=parts))
    exe = tw.compile(kernel, "sm_90a")
    mask = 1 if kind.kind == "bool" else (1 << kind.element.value_bits) - 1 if kind.element.value_bits < 8 else 255
    octets = np.random.default_rng(1).integers(0, 256, (64, kind.lanes, kind.numpy.itemsize), np.uint8) & mask
    a = octets.astype(np.uint8).view(kind.numpy)[..., 0]
    b = np.zeros_like(a)

    exe.simulate(a, b, check="all")

    assert b.tobytes() == a[:, ::-1].tobytes()
    assembled(exe)
    assert str(parse_script(str(kernel))) == str(kernel)
    assert str(parse_script(exe.source("lowered"))) == exe.source("lowered").rstrip()


def test_components_have_names_and_numbers_and_vectors_compute_by_element() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32x4"), s: T.float32):
        tid = T.thread_id([64])
        v = A[tid]
        w = T.float32x4(v.w, v.z, v[1], v.x + s)
        A[tid] = (w * v + s) * 2.0 - T.float32x4(1.0)

    a = np.arange(256, dtype=np.float32).reshape(64, 4)
    b = a.copy()
    tw.simulate(k, b, 3.0, check="all")

    w = a[:, ::-1].copy()
    w[:, 3] += 3
    assert (b == (w * a + 3) * 2 - 1).all()
    text = assembled(tw.compile(k, "sm_90a"))
    assert "vector_float32x4(v.x[3], v.x[2], v.x[1], v.x[0] + s)" in text


@pytest.mark.parametrize("kind", ["float16x2", "bfloat16x2", "float16x4", "int32x4", "uint8x4", "float32x2", "int16x8"])
def test_vectors_of_any_width_compute(kind: str) -> None:
    kernel = parse_script(f"""
@T.prim_func
def k(A_ptr: T.handle):
    A = T.match_buffer(A_ptr, (32,), "{kind}")
    T.device_entry()
    tid = T.thread_id([32])
    v = A[tid]
    v = v + v * v
    v[0] = v[1]
    A[tid] = v
""")
    what = dtype(kind)
    a = np.random.default_rng(2).integers(0, 9, (32, what.lanes)).astype(what.numpy)
    b = a.copy()
    exe = tw.compile(kernel, "sm_90a")

    exe.simulate(b, check="all")

    wanted = a + a * a
    wanted[:, 0] = wanted[:, 1]
    assert (b == wanted).all()
    assembled(exe)


def test_a_component_of_a_scalar_is_assigned() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float32x4")):
        tid = T.thread_id([64])
        v = A[tid]
        if tid < 32:
            v.x = 1.0
            v[3] += v.y
        A[tid] = v

    a = np.arange(256, dtype=np.float32).reshape(64, 4)
    b = a.copy()
    tw.simulate(k, b, check="all")

    a[:32, 0] = 1
    a[:32, 3] += a[:32, 1]
    assert (b == a).all()
    assembled(tw.compile(k, "sm_90a"))


def test_a_vector_is_loaded_and_stored_by_one_access() -> None:
    @T.prim_func
    def k(A: T.Buffer((32,), "float32x4"), B: T.Buffer((32,), "float32x4")):
        tid = T.thread_id([32])
        v = A[tid]
        B[tid] = T.float32x4(v.y, v.x, v.w, v.z)

    a = np.zeros((32, 4), np.float32)
    run = tw.simulate(k, a, a.copy(), check="all")

    assert "LDG.E.128" in tw.compile(k, "sm_90a").source("sass")
    assert "STG.E.128" in tw.compile(k, "sm_90a").source("sass")
    assert run.counts is not None


def test_a_vector_keeps_what_was_loaded() -> None:
    @T.prim_func
    def k(A: T.Buffer((2,), "float32x2")):
        v = A[0]
        A[0] = T.float32x2(5.0, 6.0)
        A[1] = v

    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    tw.simulate(k, a, check="all")

    assert a.tolist() == [[5, 6], [0, 1]]


def test_python_helpers_take_vectors_apart() -> None:
    def total(v):
        a, b, c, d = v
        return a + b + c + d + v.x + v[1]

    @T.prim_func
    def k(A: T.Buffer((1,), "float32x4"), B: T.Buffer((1,), "float32")):
        B[0] = total(A[0])

    b = np.zeros(1, np.float32)
    tw.simulate(k, np.array([[1, 2, 3, 4]], np.float32), b, check="all")

    assert b[0] == 13


def test_an_uninitialised_component_is_found() -> None:
    @T.prim_func
    def k(B: T.Buffer((1,), "float32")):
        s = T.alloc_shared((1,), "float32x2")
        v = s[0]
        B[0] = v.x

    with pytest.raises(tw.TilewrightError, match="uninitialised"):
        tw.simulate(k, np.zeros(1, np.float32), check="all")


REFUSED = {
    "too few components": ("v = T.float32x4(1.0, 2.0)", "a vector T.float32x4"),
    "a component beyond the end": ("x = A[0][4]", "has 4 components"),
    "a component before the start": ("x = A[0][-1]", "has 4 components"),
    "a component of run time": ("i = T.lane_id()\nx = A[0][i]", "is named by a constant"),
    "a component that has no name": ("x = A[0].q", "has no 'q'"),
    "a component of a number": ("x = A[0].x\ny = x.y", "has no 'y'"),
    "an index of a number": ("x = A[0].x + 1.0\ny = x[1]", "it has no index"),
    "a component of an element, assigned": ("A[0].x = 1.0", "a component of `A\\[0\\]` cannot be assigned"),
    "a component of an element, assigned by number": ("A[0][1] = 1.0", "a component of `A\\[0\\]` cannot be assigned"),
    "a component that does not exist, assigned": ("v = A[0]\nv[7] = 1.0", "has 4 components"),
    "a vector as a number": ("x: T.float32 = A[0]", "has 4 components"),
    "a vector of another width": ("v = A[0] + T.float32x2(1.0, 2.0)", "no common dtype"),
    "a comparison": ("x = A[0] < A[1]", "compares numbers"),
    "an equality": ("if A[0] == A[1]:\n    A[0] = A[1]", "compares numbers"),
    "a condition": ("if A[0]:\n    A[0] = A[1]", "has 4 components"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_vectors_do_not_have_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f'@T.prim_func\ndef k(A_ptr: T.handle):\n    A = T.match_buffer(A_ptr, (8,), "float32x4")\n{lines}\n'

    with pytest.raises(KernelError, match=message):
        parse_script(source)
