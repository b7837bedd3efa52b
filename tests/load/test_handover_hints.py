"""The hint of a race in compiled code whose threads hand over helps: the kernel is right once it is pasted in."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.explain import NUMBA
from tilewright.terms import only_if, told

MOST_STEPS = 4  # that one report after the other may name

FLAG = """
__global__ void k(unsigned* x, unsigned* f, unsigned* out) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0)
      *x = 7;
    TELL
  } else if (threadIdx.x == 0) {
    LISTEN
    *out = *x;
  }
}
"""
LOCK = """
__global__ void k(unsigned* x, unsigned* f, unsigned* out) {
  if (threadIdx.x == 0) {
    TAKE
    *x += 7;
    GIVE
    out[blockIdx.x] = 7;
  }
}
"""
WARPS = """
__device__ void tell(unsigned* flag) {
  atomicExch_block(flag, 1);
}
__device__ void listen(unsigned* flag) {
  while (atomicAdd_block(flag, 0) == 0) {}
}
__global__ void k(unsigned* x, unsigned* f, unsigned* out) {
  __shared__ unsigned row[32], flag;
  unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    row[lane] = 7;
    TELL
  } else {
    LISTEN
    out[lane] = row[31 - lane];
  }
}
"""
FENCE, BLOCK, WARP = "__threadfence();", "__threadfence_block();", "__syncwarp();"
EXCHANGE, POLL, ONE = "atomicExch(f, 1);", "while (atomicAdd(f, 0) == 0) {}", "if (lane == 0)"
SET = "*(volatile unsigned*)f = 1;"
TELLING, LISTENING = (
    (ONE + " {", f"  {BLOCK}", "  tell(&flag);", "}"),
    (ONE + " {", "  listen(&flag);", f"  {BLOCK}", "}"),
)
TAKE, GIVE = "while (atomicCAS(f, 0, 1)) {}", "atomicExch(f, 0);"


def filled(text: str, **parts: tuple[str, ...]) -> str:
    for name, lines in parts.items():
        text = text.replace(f"    {name}\n", "".join(f"    {line}\n" for line in lines))
    return text


WRONG = {
    "no fence": filled(FLAG, TELL=("if (threadIdx.x == 0)", EXCHANGE), LISTEN=(POLL,)),
    "no fence after": filled(FLAG, TELL=(FENCE, "if (threadIdx.x == 0)", EXCHANGE), LISTEN=(POLL,)),
    "volatile": filled(FLAG, TELL=("if (threadIdx.x == 0)", SET), LISTEN=("while (*(volatile unsigned*)f == 0) {}",)),
    "volatile where it is read": filled(
        FLAG.replace("*out = *x", "*out = *(volatile unsigned*)x"),
        TELL=("if (threadIdx.x == 0)", SET),
        LISTEN=("while (*(volatile unsigned*)f == 0) {}", FENCE),
    ),
    "a fence too late": filled(FLAG, TELL=("if (threadIdx.x == 0)", EXCHANGE, FENCE), LISTEN=(POLL, FENCE)),
    "another warp tells": filled(FLAG, TELL=("if (threadIdx.x == 32) {", FENCE, EXCHANGE, "}"), LISTEN=(POLL, FENCE)),
    "a lock without fences": filled(LOCK, TAKE=(TAKE,), GIVE=(GIVE,)),
    "one lane tells": filled(WARPS, TELL=TELLING, LISTEN=("listen(&flag);", BLOCK)),
    "one lane listens": filled(
        WARPS,
        TELL=(WARP, ONE + " {", f"  {BLOCK}", "  tell(&flag);", "}"),
        LISTEN=(ONE + " {", "  listen(&flag);", f"  {BLOCK}", "}"),
    ),
    "the warp without fences": filled(WARPS, TELL=(WARP, ONE, "tell(&flag);"), LISTEN=("listen(&flag);",)),
}


def hint_of(text: str) -> str:
    """What the report says to try; empty where the kernel is right."""
    x, flag, out = (np.zeros(n, np.uint32) for n in (1, 1, 32))
    try:
        run = tw.load_cu(text)["k"].simulate(x, flag, out, grid=2 if "blockIdx" in text else 1, block=64)
    except SimulationError as error:
        return str(error.hint)
    assert (out[0], run.warnings) == (7, [])
    return ""


def pasted(text: str, hint: str) -> str:
    """The kernel with the step of the hint."""
    lines = text.split("\n")
    if found := re.fullmatch(r"(__threadfence(?:_block)?\(\)) (before|after) line (\d+)", hint):
        at = int(found[3]) - (found[2] == "before")
        if found[2] == "before" and re.match(r" *if .*[^{]$", lines[at - 1]):
            at -= 1  # the line is all that the `if` holds
    else:
        found = re.fullmatch(r"(__sync\w+\(\)) between line (\d+) and line (\d+)", hint)
        assert found, f"no hint that can be pasted in: {hint}"
        at = int(found[2])
        while re.match(r" *[^ ].*}|      ", lines[at]) or lines[at].strip() == "}":
            at += 1  # out of the braces that the line is in
    return "\n".join([*lines[:at], f"{found[1]};", *lines[at:]])


@pytest.mark.parametrize("name", WRONG)
def test_a_handover_is_right_once_the_steps_of_its_reports_are_pasted_in(name: str) -> None:
    text, steps = WRONG[name], 0
    while hint := hint_of(text):
        text, steps = pasted(text, hint), steps + 1
        assert steps <= MOST_STEPS, text
    assert steps


GUARD = """
__global__ void k(unsigned* d) {
  __shared__ unsigned most;
  unsigned own = blockIdx.x * 64 + threadIdx.x;
  if (threadIdx.x == 0)
    most = 0;
  __syncthreads();
  for (int turn = 0; turn < 2; turn++)
    if (READ < own + turn)
      atomicAdd(WHERE, 1);
}
"""


@pytest.mark.parametrize("place", ["d", "&most"])
@pytest.mark.parametrize("ctas", [1, 3])
def test_a_plain_guard_of_an_atomic_is_told_a_volatile_read_and_no_barrier(place: str, ctas: int) -> None:
    def race(read: str) -> str:
        try:
            text = GUARD.replace("READ", read).replace("WHERE", place)
            tw.load_cu(text)["k"].simulate(np.zeros(1, np.uint32), grid=ctas, block=64)
        except SimulationError as error:
            return str(error.hint)
        return ""

    assert race(f"*{place.replace('&most', '(&most)')}") == "an atomic or volatile access at line 9"
    assert not race(f"*(volatile unsigned*)({place})")
    assert not race(f"atomicAdd({place}, 0)")


LAST = """
__global__ void k(float* x, unsigned* n, float* out) {
  __shared__ bool am_last;
  x[blockIdx.x * 64 + threadIdx.x] = 1;
  __threadfence();
  if (threadIdx.x == 0)
    am_last = atomicAdd(n, 1) == gridDim.x - 1;
  __syncthreads();
  if (am_last) {
    __threadfence();
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++)
      sum += x[i * 64 + 63 - threadIdx.x];
    out[threadIdx.x] = sum;
  }
}
"""


def test_a_barrier_left_out_before_the_atomic_of_the_last_block_is_named() -> None:
    def race(text: str) -> str:
        x, n, out = np.zeros(256, np.float32), np.zeros(1, np.uint32), np.zeros(64, np.float32)
        try:
            run = tw.load_cu(text)["k"].simulate(x, n, out, grid=4, block=64)
        except SimulationError as error:
            return str(error.hint)
        assert (out == 4).all()
        assert not run.warnings
        return ""

    assert race(LAST) == "__syncthreads() between line 4 and line 7"
    assert not race(LAST.replace("  __threadfence();\n  if", "  __threadfence();\n  __syncthreads();\n  if"))


OVERLAP = """
__global__ void k(float* x, unsigned* y) {
  extern __shared__ float a[];
  extern __shared__ unsigned WHOLE[];
  BEGIN
  a[threadIdx.x] = x[threadIdx.x];
  b[63 - threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = a[63 - threadIdx.x];
  y[threadIdx.x] = b[threadIdx.x];
}
"""


def test_two_arrays_of_dynamic_memory_at_one_place_are_told_another_place_and_no_barrier() -> None:
    kernel = tw.load_cu(OVERLAP.replace("WHOLE", "b").replace("BEGIN", ""))["k"]
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.uint32)

    with pytest.raises(SimulationError) as error:
        kernel.simulate(x.copy(), y.copy(), grid=1, block=64, shared_bytes=512)  # it goes on, and writes them

    assert str(error.value.hint).startswith("another place for b than for a: both hold byte ")
    moved = OVERLAP.replace("WHOLE", "whole").replace("BEGIN", "unsigned* b = whole + 64;")
    tw.load_cu(moved)["k"].simulate(x, y, grid=1, block=64, shared_bytes=512)
    assert (x == 63 - np.arange(64)).all()
    assert (y == 63 - np.arange(64)).all()


def test_arrays_that_take_over_a_place_one_after_the_other_are_told_a_barrier() -> None:
    text = OVERLAP.replace("WHOLE", "b").replace("BEGIN", "").replace("  __syncthreads();\n", "")
    lines = text.split("\n")
    store = next(k for k, line in enumerate(lines) if line.startswith("  b["))
    lines.insert(store, "  __syncthreads();\n  x[threadIdx.x] = a[63 - threadIdx.x];")
    text = "\n".join(line for line in lines if line != "  x[threadIdx.x] = a[63 - threadIdx.x];")

    with pytest.raises(SimulationError) as error:
        tw.load_cu(text)["k"].simulate(
            np.zeros(64, np.float32), np.zeros(64, np.uint32), grid=1, block=64, shared_bytes=512
        )

    assert str(error.value.hint).startswith("__syncthreads() between line ")


@pytest.mark.parametrize(
    ("guard", "remedy"), [("threadIdx.x == 0", "blockIdx.x == 0"), ("1", "blockIdx.x == 0 && threadIdx.x == 0")]
)
def test_of_equal_values_of_several_ctas_the_remedy_names_what_differs(guard: str, remedy: str) -> None:
    def warnings(condition: str) -> list[str]:
        text = f"__global__ void k(float* x) {{ if ({condition}) x[0] = 1; }}"
        return tw.load_cu(text)["k"].simulate(np.zeros(1, np.float32), grid=3, block=64).warnings

    (told,) = warnings(guard)
    assert told.endswith(f"one of them is enough: if ({remedy}) ...")
    assert not warnings(f"{guard} && {remedy}")


def test_words_of_numba_name_the_cta_alone_where_only_it_differs() -> None:
    assert NUMBA.said(told("{}", only_if(cta=True, thread=False))) == "if cuda.blockIdx.x == 0: ..."
    assert NUMBA.said(told("{}", only_if(cta=False, thread=True))) == "if cuda.threadIdx.x == 0: ..."
    assert NUMBA.said(told("{}", only_if(cta=True, thread=True))) == "if cuda.grid(1) == 0: ..."


ROLES = """
__global__ void k(float* out) {
  __shared__ float part[32];
  if (threadIdx.x < 32) {
    part[threadIdx.x] = threadIdx.x;
  } else if (threadIdx.x < 64) {
    out[threadIdx.x] = part[threadIdx.x - 32];
  }
}
"""


@pytest.mark.parametrize("text", [ROLES, ROLES.replace(" {\n    ", "\n  {\n    ").replace("} else", "}\n  else")])
def test_warps_of_different_roles_are_told_of_no_barrier_of_all_threads(text: str) -> None:
    verdict = tw.check(tw.load_cu(text)["k"], np.zeros(64, np.float32), grid=1, block=64, both=False)

    (finding,) = verdict.findings
    assert finding.kind == "races"
    assert str(finding.hint) == (
        "an m-barrier between the branches of line 4, where their threads hand over, or bar.sync with a number and a "
        "count of threads of its own in both"
    )


@pytest.mark.parametrize(("declared", "place"), [("", "total"), ("float* a", "a[0]")])
def test_a_sum_that_threads_add_to_plainly_is_told_an_atomic(declared: str, place: str) -> None:
    text = f"""
__device__ float total;
__global__ void k(const float* x{", " * bool(declared)}{declared}) {{
  {place} += x[threadIdx.x];
}}
"""
    arrays = [np.zeros(64, np.float32) for _ in range(1 + bool(declared))]

    with pytest.raises(SimulationError) as error:
        tw.load_cu(text)["k"].simulate(*arrays, grid=1, block=64)

    assert f"atomicAdd(&{place}, x[threadIdx.x]) in place of line 4" in str(error.value.hint)
