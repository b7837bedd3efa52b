"""Lists of arguments that a kernel may be called with, by number: most of them wrong.

    python -m tests.load.argument_lists 0 10000

calls kernels with those from 0 to 9999, on the command line's way and on Python's, and prints each exception that is
none of ours, and each call that took long.
"""

# ruff: noqa: E501, SIM905  texts as they are handed in
from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import numpy as np

import tilewright as tw
from tests.ptx.texts import module
from tilewright import T
from tilewright.checking import Policy
from tilewright.cli.argument_spec import argument_spec
from tilewright.cli.arguments import Request
from tilewright.cli.checking import LaunchCheck
from tilewright.cli.launching import Launched
from tilewright.errors import TilewrightError
from tilewright.load import LoadedModule, load_ptx

SECONDS = 5.0
LIMITS = {"limit_s": 2.0, "limit_steps": 10_000, "limit_bytes": 1 << 28}


@T.prim_func
def scaled(A_ptr: T.handle, B: T.Buffer((8,), "int32"), s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    T.cta_id([1])
    lane = T.lane_id([32])
    if lane < n:
        A[lane] = A[lane] * s + B[lane % 8]


BODY = """
.reg .b64 p<3>; .reg .b32 r<3>; .reg .f32 f<2>;
ld.param.u64 p0, [a]; ld.param.u32 r0, [n]; mov.u32 r1, %tid.x; mul.wide.u32 p1, r1, 4; add.u64 p0, p0, p1;
ld.global.f32 f0, [p0]; add.f32 f0, f0, f0; st.global.f32 [p0], f0; ret;
"""


@cache
def loaded() -> LoadedModule:
    """A kernel of PTX that takes a pointer and a number."""
    return load_ptx(module(BODY))


@cache
def folder() -> Path:
    """Files that an argument may name, good and bad ones."""
    found = Path(mkdtemp())
    np.save(found / "good.npy", np.ones(32, np.float32))
    np.save(found / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(found / "text.npy", np.array(["a", "bc"]))
    (found / "junk.npy").write_bytes(b"\x93NUMPY junk")
    (found / "empty.npy").write_bytes(b"")
    (found / "folder.npy").mkdir()
    return found


# On the command line

NAMES = ("", "", "a:", "n:", "a=", "n=", "x:", "A:", "é:", " a : ", "k_param_0:")
TYPES = "f32 f16 bf16 f64 i8 i32 u32 s64 u64 b8 bool f99 F32 int".split()
EXTENTS = "[32] [0] [1] [2,3] [2x3] [-1] [] [1e3] [99999999999999999999] [9999999999] [65536,65536,65536] [ 4 ] [,] [4,] [x]".split()  # fmt: skip
FILLS = ("", "", "=zeros", "=ones", "=ramp", "=random", "=7", "=-1", "=1e300", "=nan", "=inf", "=x", "=", "=good.npy",
         "=junk.npy", "=objects.npy", "=absent.npy")  # fmt: skip
OTHERS = ("7", "-1", "1e999", "nan", "0x10", "1_0", "9" * 400, "null", "", "=", "==", ":", "a", "n=null", "{1,2}", "{}",
          "{{1},2}", "{f32[4],1}", "n={1", "}", "good.npy", "a=good.npy", "n=good.npy", "a=objects.npy", "a=text.npy",
          "a=junk.npy", "a=empty.npy", "a=folder.npy", "a=.npy", "n=True", "n=1+2j", "n=0b11", "n=i32(7)", "n=i8(300)", "n=f32(x)", "f64(1e999)", "n=u32(-1)", "{i32(7),f32[4]}", "n=f99(1)", "n=i32()", "\x00", "n=٣", "f32[4]" * 50)  # fmt: skip


def text(random: Random) -> str:
    """One argument of the command line."""
    if random.random() < 0.4:
        made = random.choice(OTHERS)
    else:
        made = "".join(map(random.choice, (NAMES, TYPES, EXTENTS, FILLS)))
    while random.random() < 0.1 and made:
        at = random.randrange(len(made))
        made = made[:at] + random.choice(("", made[at] * 2, chr(random.randrange(256)))) + made[at + 1 :]
    return made.replace("good.npy", f"{folder()}/good.npy").replace("a=folder", f"a={folder()}/folder")


def by_texts(random: Random) -> None:
    """A call as `tilewright check` makes it."""
    extents = ((1,), (0,), (-1,), (2,), (1, 1, 1, 1), (2**31, 2), (1 << 70,))
    asked = Request(
        kernel=random.choice(("k", "k", "k", "q", None)),
        grid=random.choice(((1,), (1,), *extents)),
        block=random.choice(((32,), (32,), None, *extents)),
        shared_bytes=random.choice((0, 0, 0, 48, -1, 1 << 40)),
        cluster=random.choice((None, None, None, *extents)),
        args=tuple(argument_spec(text(random)) for _ in range(random.choice((2, 2, 2, 0, 1, 3)))),
        check=random.choice(("all", "all", "none", "x", "")),
        globals=tuple(argument_spec(text(random)) for _ in range(random.choice((0, 0, 0, 1)))),
        seed=random.choice((0, 0, 7)),
    )
    LaunchCheck(loaded(), Launched(asked, asked, "", {}), LIMITS, Policy(both=False), quiet=True).with_integers()


# In Python

RECORD = np.zeros(4, [("x", "f4"), ("y", "i4")])
VALUES: tuple[Callable[[], Any], ...] = (
    *[lambda value=value: value for value in (
        None, 0, 1, -1, 7, 2**31, 2**64, -(10**400), True, 0.5, float("nan"), float("inf"), 1e308, 1j, "x", b"x", "", (),
        (1, 2), [1.0] * 32, [[1], [2, 3]], {}, {1}, ..., NotImplemented, int, object(), range(4), slice(4), Decimal("1.5"),
        Fraction(1, 3), np.float16(1), np.int64(2**40), np.datetime64("now"), np.bool_(True), np.nan, np, print,
    )],
    *[lambda kind=kind: np.ones(32, kind) for kind in ("f4", "f4", "f4", "f2", "f8", "i4", "u1", "?", "c8", ">f4", "f16", "O", "U3", "S2", "M8[s]")],
    *[lambda shape=shape: np.ones(shape, np.float32) for shape in ((), (0,), (0, 4), (31,), (33,), (4, 8), (1,) * 32)],
    lambda: np.ones(64, np.float32)[::2], lambda: np.ones(32, np.float32)[::-1], lambda: np.ones((8, 4), np.float32).T,
    lambda: np.broadcast_to(np.float32(1), 32), lambda: np.broadcast_to(np.float32(1), (1 << 40,)), lambda: RECORD,
    lambda: np.ma.masked_array(np.ones(32, np.float32), [True] * 32), lambda: np.frombuffer(b"\0" * 129, np.uint8)[1:].view("f4"),
    lambda: memoryview(bytearray(128)), lambda: bytearray(128), lambda: np.ones(8, np.int32), lambda: np.zeros(8, np.int32),
    lambda: iter([1]),
)  # fmt: skip
NAMED = ("A", "A_ptr", "B", "s", "n", "a", "grid", "block", "shared_bytes", "cluster", "check", "limit_s", "limit_steps",
         "limit_bytes", "x", "progress", "")  # fmt: skip


def by_values(random: Random) -> None:
    """A call from Python, of a kernel of ours or of a loaded one."""
    args = [random.choice(VALUES)() for _ in range(random.choice((3, 3, 3, 2, 2, 0, 1, 4)))]
    named = {random.choice(NAMED): random.choice(VALUES)() for _ in range(random.choice((0, 0, 0, 1, 2)))}
    how = random.randrange(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == 0:
            tw.simulate(scaled, *args, **LIMITS | named)
        elif how == 1:
            tw.check(scaled, *args, **LIMITS | named)
        elif how == 2:
            loaded()["k"].simulate(*args[:2], **{"block": 32} | LIMITS | named)
        else:
            tw.check(loaded()["k"], *args[:2], **{"block": 32} | LIMITS | named)


def complaint(number: int) -> str:
    """What is wrong with what came of the list of this number, "" for nothing."""
    random = Random(number)
    began = time.monotonic()
    try:
        random.choice((by_texts, by_values))(random)
    except (TilewrightError, MemoryError):
        pass
    except Exception:
        return "".join(traceback.format_exc().splitlines(keepends=True)[-6:])
    took = time.monotonic() - began
    return f"{took:.1f} s" if took > SECONDS else ""


def main(first: int, last: int) -> Mapping[int, str]:
    """The complaints about these, by number; printed as they come."""
    found = {}
    for number in range(first, last):
        if said := complaint(number):
            found[number] = said
            print(number, said, flush=True)
    print(f"{len(found)} complaints")
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
