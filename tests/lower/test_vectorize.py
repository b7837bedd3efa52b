"""``T.vectorized`` makes one access of neighbouring elements where facts allow it, and says where they do not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.rows import in_row
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import NAMES, dtype
from tilewright.lang import parse_script

SCRIPT = """
@T.prim_func
def k(A_ptr: T.handle, B_ptr: T.handle, n: T.int32):
    A = T.match_buffer(A_ptr, (4096,), "{a}", align={align})
    B = T.match_buffer(B_ptr, (4096,), "{b}")
    T.device_entry()
    tid = T.thread_id([64])
    s = T.alloc_shared((1024,), "{b}")
    r = T.alloc_local((16,), "{b}")
    for i in T.vectorized({rounds}):
        {body}
"""
MOVE = "B[tid * 16 + i] = A[tid * 16 + i]"


def made(body: str, *, kind: str = "float32", rounds: object = 4, align: int = 16) -> tw.Executable:
    text = SCRIPT.format(a=kind, b=kind, rounds=rounds, align=align, body=body)
    return tw.compile(parse_script(text), "sm_90a")


def told(exe: tw.Executable) -> str:
    (comment,) = re.findall(r"// T.vectorized: (.*)", exe.source("cuda"))
    return str(comment)


def test_four_floats_are_one_load_and_one_store() -> None:
    exe = made(MOVE)
    a, b = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)

    run = exe.simulate(a, b, 3, check="default")

    assert told(exe) == "B, A by 4 elements"
    sass = exe.source("sass")
    assert "LDG.E.128" in sass
    assert "STG.E.128" in sass
    rows = np.arange(64)[:, None] * 16 + np.arange(4)
    assert (b[rows] == a[rows]).all()
    assert run.counts.instructions["store global"] == 2


def test_rounds_in_steps_stay_a_loop_that_leaves_out_what_is_between() -> None:
    exe = made(MOVE, rounds="0, 8, 2")
    a, b = np.arange(1, 4097, dtype=np.float32), np.zeros(4096, np.float32)

    exe.simulate(a, b, 3)

    assert told(exe) == "element by element, as it goes in steps of 2"
    moved = np.arange(64)[:, None] * 16 + np.arange(0, 8, 2)
    assert (b[moved] == a[moved]).all()
    assert np.count_nonzero(b) == moved.size


BODIES = {
    "B[tid * 16 + i] = T.exp(A[tid * 16 + i]) * 2.0 + T.cast(i, 'float32')": "B, A by 4 elements",
    "B[tid * 16 + i] = A[tid * 16 + 8 + i] + A[tid * 16 + i]": "B, A by 4 elements",
    "B[tid * 16 + i] = B[tid * 16 + i] * 3.0": "B by 4 elements",
    "s[tid * 4 + i] = A[tid * 16 + i]": "s, A by 4 elements",
    "x = A[tid * 16 + i]\n        B[tid * 16 + i] = x * x": "A, B by 4 elements",
    "B[tid * 16 + i] = 0.0": "B by 4 elements",
    "r[i] = A[tid * 16 + i]\n        B[tid * 16 + i + 4] = A[tid * 16 + i] + 1.0": "A, B by 4 elements",
    "B[tid * 16 + i] = A[tid * 16 + i + 1]": "B by 4 elements; .* multiple of 4",
    "B[tid * 16 + 2 * i] = A[tid * 16 + i]": "A by 4 elements; elements of B.* do not follow",
    "B[tid * 16 + i] = T.select(n < 0, A[tid * n + i], 1.0)": "B by 4 elements",
    "B[tid * 13 + i] = 1.0": "element by element, as B.* multiple of",
    "B[tid * 16 + i + 1] = B[tid * 16 + i]": "element by element, as it reads B, which it writes",
    "B[tid * 16 + i] = 2.0\n        B[tid * 16 + i] = B[tid * 16 + i] + i": "element by element, as it reads B",
    "r[i] = A[tid * 16 + i]\n        B[tid * 16 + i] = B[tid * 16 + i] * r[i]": "element by element, as it reads [rB]",
    "if i < n:\n            B[tid * 16 + i] = 1.0": "element by element, as its body is more than stores",
    "T.cuda.atomic_add(B.ptr_to([tid]), A[tid * 16 + i])": "element by element, as its body is more",
}


@pytest.mark.parametrize("body", BODIES)
def test_the_loop_says_what_became_of_it_and_means_the_same(body: str) -> None:
    exe = made(body)
    serial = tw.compile(parse_script(str(exe.kernel).replace("T.vectorized(4)", "range(4)")), "sm_90a")
    a = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    results = []
    for one in (exe, serial):
        b = np.arange(4096, dtype=np.float32)
        one.simulate(a, b, 3, check="none")
        results.append(b)

    assert re.fullmatch(f"{BODIES[body]}.*", told(exe))
    assert (results[0] == results[1]).all()
    assert assemble(exe.source("cuda"), "sm_90a").cubin
    assert str(parse_script(exe.source("lowered"))) == exe.source("lowered").rstrip()


@pytest.mark.parametrize("kind", [name for name in NAMES if name not in ("handle", "void")])
def test_every_type_and_number_of_rounds_means_the_same(kind: str) -> None:
    for rounds in (2, 4, 8, 16, 6, 3):
        with in_row(f"{rounds} rounds"):
            check_rounds(kind, rounds)


def check_rounds(kind: str, rounds: int) -> None:
    exe = made(MOVE, kind=kind, rounds=rounds)
    numpy = dtype(kind).numpy
    a = np.random.default_rng(0).integers(0, 2, 4096).astype(numpy)
    b = np.zeros(4096, numpy)

    exe.simulate(a, b, 3, check="default")

    rows = np.arange(64)[:, None] * 16 + np.arange(rounds)
    wanted = np.zeros(4096, numpy)
    wanted[rows] = a[rows]
    assert b.tobytes() == wanted.tobytes()


def test_memory_that_is_aligned_to_less_gives_narrower_vectors() -> None:
    assert told(made(MOVE, align=8)).startswith("B, A by 2 elements")
    assert "A by" not in told(made(MOVE, align=4))


def test_a_number_of_rounds_of_run_time_stays_a_loop() -> None:
    assert told(made("B[tid * 16 + i] = 1.0", rounds="n")).startswith("element by element, as the number of rounds")
