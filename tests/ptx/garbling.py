"""Lines of PTX with mistakes, and what assemblers say of them.

``taken.txt`` has lines that ptxas takes, ``refused.txt`` garbled ones that it refuses; `garbled` makes more of them.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.load import load_ptx

__all__ = ["HEAD", "REFUSED", "TAKEN", "assembler_says", "garbled", "is_taken"]

REFUSED, TAKEN = (
    (Path(__file__).parent / f"{name}.txt").read_text().splitlines() for name in ("refused", "taken")
)  # fmt: skip
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.global .align 16 .b32 g[64];
.const .align 16 .b32 c[64];
.visible .entry k(.param .u64 a, .param .u32 n, .param .align 64 .b8 big[128])
{
.reg .pred %p<6>; .reg .b16 %rs<6>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<6>; .reg .f64 %fd<6>;
.reg .b16 %h<6>; .reg .b32 %hh<6>; .shared .align 128 .b8 sh[1024]; .local .align 16 .b8 lo[64];
"""
_WORDS = """
sync aligned ftz rn rz rzi sat approx full lo hi wide volatile relaxed acquire release gpu cta sys global shared local
param const shared::cta shared::cluster v2 v4 v8 u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64 b128 f16 f16x2 bf16 f32
f64 pred eq lt ge ltu num and or not x1 x4 trans m8n8 row col add max exch cas cc uni to nc ca cg cs wt L1::evict_last
L2::128B relu down idx any all popc arrive wait init expect_tx bulk tensor commit_group noComplete parity clamp left r
weak mmio
"""
WORDS = _WORDS.split()
_OPERANDS = """
%p0 %rs0 %r0 %rd0 %f0 %fd0 1 -1 0 33 65536 0f3F800000 0d3FF0000000000000 _ sh g [%rd0] [sh] [a] [g+4] [%rd0+8]
{%r0,%r1} {%f0,%f1,%f2,%f3} !%p1 %p0|%p1 %tid.x {%r0} [%rd0+-4] 1.5 sh+4
"""
OPERANDS = _OPERANDS.split()
_LINE = re.compile(r"(@!?%?\w+ )?([\w.:]+)\s*(.*);")
_OPERAND = re.compile(r"(?:[^,{\[(]|\{[^}]*\}|\[[^\]]*\]|\([^)]*\))+")


def garbled(line: str, source: random.Random) -> str:
    """The line with one mistake, or what may be one: of a modifier, or of an operand."""
    found = _LINE.fullmatch(line)
    assert found is not None
    words, operands = found[2].split("."), [each.strip() for each in _OPERAND.findall(found[3])]
    place = source.randrange(1, len(words)) if len(words) > 1 else 1
    change = source.randrange(7 if operands else 4)
    if change == 0:
        del words[place : place + 1]
    elif change == 1:
        words.insert(source.randint(1, len(words)), source.choice([*WORDS, *words[1:]]))
    elif change == 2:
        words[place : place + 1] = [source.choice(WORDS)]
    elif change == 3:
        words[1:] = source.sample(words[1:], len(words) - 1)
    elif change == 4:
        operands[source.randrange(len(operands))] = source.choice(OPERANDS)
    elif change == 5:
        operands.pop(source.randrange(len(operands)))
    else:
        at = source.randrange(len(operands))
        kind = source.choice(("p", "rs", "rd", "fd", "f", "r"))
        operands[at] = re.sub(r"%(?:p|rs|rd|fd|f|r)(?=\d)", f"%{kind}", operands[at], count=1)
    return f"{found[1] or ''}{'.'.join(words)} {', '.join(operands)}".strip() + ";"


def is_taken(line: str) -> bool:
    """Does tilewright take the line? What is refused is so by an error of its own."""
    try:
        module = load_ptx(f"{HEAD}{{{line}}}\nret;\n}}\n")
        module["k"].lowered(np.zeros(64, np.uint32), 1, np.zeros(128, np.uint8), block=32)
    except TilewrightError:
        return False
    return True


def assembler_says(lines: list[str]) -> list[str]:
    """What ptxas says of each line; "" of those that it takes, "?" where it tells nothing of a line by itself."""
    verdicts, todo = [""] * len(lines), list(range(len(lines)))
    while todo:
        log = _log(HEAD + "\n".join(f"{{{lines[each]}}}" for each in todo) + "\nret;\n}\n")
        if not log:
            return verdicts
        wrong = {
            todo[int(number) - HEAD.count("\n") - 1]: said
            for number, said in re.findall(r"line (\d+); *(?:error|fatal) *: *([^\n]*)", log)
        }
        if not wrong and len(todo) == 1:
            verdicts[todo[0]] = "?"
            return verdicts
        if not wrong:
            half = len(todo) // 2
            for part in (todo[:half], todo[half:]):
                for each, said in zip(part, assembler_says([lines[one] for one in part]), strict=True):
                    verdicts[each] = said
            return verdicts
        for each, said in wrong.items():
            verdicts[each] = said
        todo = [each for each in todo if each not in wrong]
    return verdicts


def _log(text: str) -> str:
    """The assembler's complaints, from a process of its own: some texts end it."""
    ours, theirs = os.pipe()
    process = os.fork()
    if not process:
        try:
            with os.fdopen(theirs, "w") as out:
                out.write(_asked(text))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        log = answer.read()
    _, status = os.waitpid(process, 0)
    return "it ended" if status else log


def _asked(text: str) -> str:
    from cuda.bindings import nvjitlink

    data = text.encode() + b"\0"
    handle = nvjitlink.create(1, ["-arch=sm_90a"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "text.ptx")
        nvjitlink.complete(handle)
    except nvjitlink.nvJitLinkError:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        return log.decode(errors="replace") or "?"
    finally:
        nvjitlink.destroy(handle)
    return ""
