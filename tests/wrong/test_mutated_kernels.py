"""A kernel with a slip in it compiles, or is refused in words at its line: no other exception reaches the user."""

from __future__ import annotations

import io
import tokenize
import warnings
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.texts import readable
from tests.wrong.test_wrong_types import SEARCHING
from tilewright import T, TilewrightError, Tx, layout

KERNELS = (
    """@T.prim_func
def kernel(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16"), n: T.int32):
    T.device_entry()
    bx, by = T.cta_id([2, 3])
    lane = T.lane_id([32])
    tid = T.thread_id([128])
    s = T.alloc_buffer((64, 64), "float16", scope="shared", layout=ComposeLayout(SwizzleLayout(3, 3, 3), S[64, 64]))
    r = T.alloc_local((8,), "float16")
    f: T.float32 = 1.5
    x: T.int32 = tid * 2 + lane
    pool = T.SMEMPool()
    q = pool.alloc((8, 8), "float32", align=32)
    for i in T.serial(0, 8, step=2):
        r[i] = T.cast(f, "float16") + A[tid % 64, i]
    while x < 10:
        x = x + 1
        if x == 7:
            break
    if tid == 0 and n > 3:
        T.cuda.atomic_add(T.address_of(q[0, 0]), T.float32(1))
    elif lane < 8:
        q[lane, 0] = T.select(tid > 3, f, T.float32(0))
    else:
        x += T.ceildiv(n, 2) // 3
    T.cuda.cta_sync()
    T.assume(n % 8 == 0)
    y = T.cuda.shfl_xor_sync(0xffffffff, x, 1)
    Tx.cta.copy(s[0:64, 0:64], A[0:64, 0:64])
    T.ptx.ldmatrix(True, 4, ".b16", s.ptr_to([lane, 0]), T.address_of(r[0]))
    B[tid % 64, 0] = r[0] if tid < 64 else T.float16(0)
""",
    """@T.prim_func
def kernel(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32", align=16)
    B = T.match_buffer(b, (n, 16), "float32")
    bx = T.cta_id([n])
    lane = T.lane_id([32])
    acc = T.alloc_buffer((16, 8), "float32", scope="local", layout=S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)])
    av = T.alloc_local((8,), "float16")
    bv = T.alloc_local((4,), "float16")
    t: T.let = A[bx, 0]
    z = T.meta_var((1, 2))
    for i in T.unroll(4):
        acc.local()[i] = T.float32(0)
    T.ptx.mma("m16n8k16", "f32.f16.f16.f32", acc.local(), av, bv, acc.local())
    view = T.decl_buffer((8,), "float32", data=A.data, elem_offset=4)
    B[bx, lane % 16] = T.min(A[bx, lane % 16], T.infinity("float32"), -t)
""",
)
WORDS = (
    "0 1 -1 2**31 10**30 1e400 True None () [] {} (8,8) A B r s lane x n T T.ptx T.float32 S[8] laneid ... 1j print int"
)
TOKENS = [*WORDS.split(), '"float16"', '"x"', "A[0]", "A[0:4]", "A[:, ::2]", "*A", "x := 3", "not x", "T.serial(4)"]
TOKENS += ["T.cuda.cta_sync()", "T.exactly(A, 3)", "T.Axis(3, 2)", "tid << 40", "T.region(A, tid << 40)", "x < n < 4"]
TOKENS += ["T.ptx.mma()", "T.undefined", "A.shape", "x.foo", "np.float32(3)", "lambda: 1", '"\\ud800"', "T.float32x4"]
LINES = [
    "pass",
    "break",
    "return x",
    "del x",
    "x = y = 3",
    "x, *y = (1, 2)",
    "A = 3",
    "x += A",
    "T.func_attr(3)",
    "if A: pass",
]
LINES += ["for i in A: pass", "for i in T.serial(3, unroll=A): pass", "y: T.float32[0]", "y: T.float32[n]", "x: 3 = 3"]
LINES += [
    "y = T.alloc_local((n,))",
    "z = T.decl_buffer((4,), data=A)",
    "Tx.copy(A, B)",
    "Tx.copy(A[0, 0], 3)",
    "A[0, 0] @= 3",
]
LINES += [
    "with x: pass",
    "import os",
    "T.launch(grid=3, threads=A)",
    "class Q: pass",
    "A[lane] = T.Axis(3, 2)",
    "x: T.let = 3",
]


BLOCKS = [
    "if lane < 3:",
    "while x < 2:",
    "for _ in range(2):",
    "for k in T.unroll(tid):",
    "for k in [0] * 3:",
    "with Tx.warp:",
    "with T.If(tid == 0):",
    "def inner():",
]
LINES += ["y = 2 ** 10 ** 9", "y = T.SMEMPool(64)", "Tx.copy(A[{}], A)", "p = A.data + 0.5", "T.ptx.bar.sync(tid, 32)"]


@st.composite
def slips(draw: st.DrawFn) -> str:
    """One of the kernels, with a line added, dropped, repeated or put into a block, or a token replaced, or two."""
    lines = draw(st.sampled_from(KERNELS)).splitlines()
    other = draw(st.sampled_from(KERNELS)).splitlines()
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(2, len(lines) - 1))
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        how = draw(st.sampled_from(["drop", "repeat", "splice", "wrap", "add", "token", "token", "token", "token"]))
        if how == "drop":
            del lines[at]
        elif how == "repeat":
            lines.insert(at, lines[draw(st.integers(2, len(lines) - 1))])
        elif how == "splice":
            lines.insert(at, indent + other[draw(st.integers(2, len(other) - 1))].strip())
        elif how == "wrap":
            lines[at : at + 1] = [indent + draw(st.sampled_from(BLOCKS)), f"    {lines[at]}"]
        elif how == "add":
            lines.insert(at, indent + draw(st.sampled_from(LINES)))
        else:
            lines[at] = indent + _with_a_slip(draw, lines[at].strip())
    return "\n".join(lines)


def _with_a_slip(draw: st.DrawFn, line: str) -> str:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    except (tokenize.TokenError, SyntaxError):
        return line
    names = [token for token in tokens if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)]
    if not names:
        return line
    old = draw(st.sampled_from(names))
    new = draw(st.sampled_from(TOKENS) | st.sampled_from([token.string for token in names]))
    return line[: old.start[1]] + new + line[old.end[1] :]


NAMES: dict[str, Any] = {"T": T, "Tx": Tx, "np": np, **{name: getattr(layout, name) for name in layout.__all__}}


@settings(max_examples=30_000 if SEARCHING else 400)
@given(slips())
def test_a_kernel_with_a_slip_compiles_or_is_refused_in_words(text: str) -> None:
    file = "<kernel with a slip>"
    try:
        code = compile(text, file, "exec")
    except (SyntaxError, ValueError):
        return  # an error of Python's own
    readable(text, file)
    names = dict(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
            made = tw.compile(names["kernel"])
            str(made.report)
            made.source("lowered")
            made.source("cuda")
        except TilewrightError as error:
            str(error)
        except Exception as error:
            last = error.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            if last is None or last.tb_frame.f_code.co_filename != file:  # an error of the kernel's own annotations
                raise
