"""The hint of a race in compiled code whose threads hand over helps: the kernel is right once it is pasted in."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError

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
