"""Long kernels and deep ones: time grows with their length, and no nesting is too deep."""

import time

import numpy as np
import pytest

import tilewright as tw
from tests.texts import imported

PATIENCE = 10  # times what a quiet core takes, about: a quadratic pass takes far longer

LONG = {  # statements by their number; how many; seconds on a quiet core
    "stores": (lambda i: f"A[lane] = A[lane] * 3 + {i}", 500, 1.0),
    "scalars": (lambda i: "x = x * 3 + 1", 1500, 0.6),
    "shuffles": (lambda i: "x = T.cuda.shfl_xor_sync(0xffffffff, x, 1)", 600, 0.6),
    "ifs": (lambda i: f"if lane > {i % 32}:\n        x = x + {i}", 600, 0.4),
}

COUNTERS = ", ".join(f"i{k}" for k in range(40))
NESTS = {
    "elif": "if lane == 0:\n        x = 1\n"
    + "".join(f"    elif lane == {i}:\n        x = {i}\n" for i in range(1, 300)),
    "if": "".join("    " * i + f"{'    ' if i else ''}if lane > {i - 90}:\n" for i in range(90))
    + "    " * 91
    + "x = 5",
    "grid": f"for {COUNTERS} in T.grid({'1, ' * 37}2, 2, 2):\n        x = x + 1",
    "break": "for i in range(3):\n"
    + "".join(f"        if lane == {k}:\n            break\n        x = x + 1\n" for k in range(120)),
}

SHAPES = {  # a value of n terms
    "sum": lambda n: " + ".join(["lane"] * n),
    "mixed": lambda n: "lane" + "".join(f" {'+-*&|^'[i % 6]} (lane + {i})" for i in range(n)),
    "balanced": lambda n: balanced([f"(lane + {i})" for i in range(n)]),
    "choices": lambda n: " else ".join(f"{i} if lane == {i}" for i in range(n)) + " else 7",
    "and": lambda n: "T.cast(" + " and ".join(f"lane != {i + 40}" for i in range(n)) + ", 'int32')",
    "comparisons": lambda n: "T.cast(" + " <= ".join(f"lane + {i}" for i in range(n)) + ", 'int32')",
    "left": lambda n: f"nested({n}, lambda x, i: x * 3 + i, lane)",
    "right": lambda n: f"nested({n}, lambda x, i: i - x, lane)",
    "min": lambda n: f"nested({n}, lambda x, i: T.min(T.max(x, i), lane + 2 * i) + 1, lane)",
    "select": lambda n: f"nested({n}, lambda x, i: T.select(x > i, lane, i), lane)",
    "calls": lambda n: f"T.cast(nested({n}, lambda x, i: T.exp(x * 0.01), T.float32(1)), 'int32')",
}


def balanced(terms: list[str]) -> str:
    while len(terms) > 1:
        terms = [f"({' * '.join(terms[i : i + 2])})" for i in range(0, len(terms), 2)]
    return terms[0]


@pytest.mark.parametrize("shape", LONG)
def test_a_long_kernel_takes_time_in_proportion(tmp_path, shape: str) -> None:
    statement, count, seconds = LONG[shape]
    start = time.process_time()

    kernel = parsed(tmp_path, "\n    ".join(map(statement, range(count))))
    tw.simulate(kernel, np.zeros(32, np.int32))
    tw.compile(kernel).source("cuda")

    assert time.process_time() - start < PATIENCE * seconds


@pytest.mark.parametrize("nest", NESTS)
def test_control_flow_may_be_nested_deeper_than_generated_python_may(tmp_path, nest: str) -> None:
    a = np.zeros(32, np.int32)

    kernel = parsed(tmp_path, NESTS[nest])
    tw.simulate(kernel, a)

    lane = np.arange(32)
    expected = {"elif": np.maximum(lane, 1), "if": np.full(32, 5), "grid": lane + 8, "break": 2 * lane}
    assert a.tolist() == expected[nest].tolist()
    assert tw.compile(kernel, "sm_90a").source("ptx")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("terms", [500, pytest.param(900, marks=pytest.mark.long)])
def test_a_deep_expression_goes_through_all_stages(tmp_path, shape: str, terms: int) -> None:
    start = time.process_time()
    kernel = parsed(tmp_path, f"x = {SHAPES[shape](terms)}")
    exe = tw.compile(kernel, "sm_90a")

    assert all(exe.source(stage) for stage in ("tile", "lowered", "cuda", "ptx"))
    once, again = np.zeros((2, 32), np.int32)
    tw.simulate(kernel, once, check="bounds")
    exe(again)

    assert (once == again).all()
    assert time.process_time() - start < PATIENCE * 4


def parsed(folder, lines: str):
    """A kernel of these lines on a scalar x, which begins as the lane; from a file, as Python wants it."""
    file = folder / "long_kernel.py"
    file.write_text(
        "from tilewright import T\n\n\ndef nested(n, step, x):\n    for i in range(n):\n        x = step(x, i)\n"
        "    return x\n\n\n@T.prim_func\ndef k(A: T.Buffer((32,), 'int32')):\n"
        f"    T.cta_id([1])\n    lane = T.thread_id([32])\n    x = lane\n    {lines}\n    A[lane] = x\n"
    )
    return imported(file).k
