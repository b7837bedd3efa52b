"""Every public callable with arguments that it was not made for: an error of ours, without frames of ours."""

from __future__ import annotations

import inspect
import random
import re
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, kernels, layout, view
from tilewright.errors import TilewrightError
from tilewright.layout import S

OURS = Path(tw.__file__).parent
COUNTS = re.compile(r"missing \d+ required|takes .*positional|multiple values|unexpected keyword|positional-only")
PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a) { ret; }\n"
TRIES = 25  # of each callable


@T.prim_func
def doubled(A: T.Buffer((32,), "float32")):
    lane = T.thread_id([32])
    A[lane] = A[lane] * 2.0


def fresh() -> dict[str, Any]:
    """Objects whose methods are public."""
    exe = tw.compile(doubled)
    module = tw.load_ptx(PTX)
    return {
        "exe": exe,
        "module": module,
        "loaded": module["k"],
        "verdict": tw.check(doubled, np.ones(32, np.float32)),
        "run": exe.simulate(np.ones(32, np.float32)),
        "advice": exe.advise(np.ones(32, np.float32)),
        "profile": exe.profile(np.ones(32, np.float32), gpu="H200"),
        "layout": S[(8, 4) : (4, 1)],
        "swizzle": layout.SwizzleLayout(3, 3, 3),
        "table": S[(8, 4) : (4, 1)].table((8, 4)),
        "grid": view.layout_grid(S[(8, 4) : (4, 1)], (8, 4)),
        "map": tw.TensorMap(np.zeros((8, 16), np.float32), (8, 16)),
    }


def is_made(found: Any) -> bool:
    """Is it a function of ours, or a class that users make instances of: no alias, protocol, enumeration or error?"""
    if not getattr(found, "__module__", "").startswith("tilewright"):
        return False
    abstract = inspect.isabstract(found) or getattr(found, "_is_protocol", False)
    return not abstract and not (isinstance(found, type) and issubclass(found, (BaseException, tuple, Enum)))


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (tw, layout, kernels, view):
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and is_made(found):
                yield f"{module.__name__}.{name}", found
    for name, owner in fresh().items():
        yield f"{name}()", owner
        for method in dir(type(owner)):
            found = None if method.startswith("_") else getattr(owner, method, None)
            if callable(found) and not isinstance(owner, dict):
                yield f"{name}.{method}", found


EVERY = {name: found for name, found in callables() if callable(found)}
BAD: tuple[Any, ...] = (
    None, -1, 0, 3, 1 << 70, 1.5, float("nan"), "", "nonsense", "A[", b"x", (), (0,), (-1, 2), [], [None], {}, {"x": 1},
    set(), object(), print, np.float32(2), np.zeros(0, np.float32), np.zeros((), np.int8), np.zeros((3, 5), np.float16),
    np.zeros(32, np.float32)[::-2], np.array(["a"]), np.array([None]), np.ones((4, 8), np.complex64), doubled, S[4:1],
    True, range(3), slice(1, 2), type, Path("/nowhere/at_all.cu"), Ellipsis,
)  # fmt: skip


def tries(found: Callable[..., Any], source: random.Random) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments by place and by name."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    names = [one.name for one in parameters if one.kind == one.KEYWORD_ONLY]
    needed = sum(one.default is one.empty for one in by_place)
    for _ in range(TRIES):
        count = source.choice([needed, needed, len(by_place), needed + 1])
        yield (
            [source.choice(BAD) for _ in range(count)],
            {name: source.choice(BAD) for name in source.sample(names, min(len(names), source.choice([0, 0, 1, 2])))},
        )


def wrong(error: BaseException) -> str:
    """What is wrong with an error that came to the caller."""
    if isinstance(error, TypeError) and COUNTS.search(str(error)):
        return ""
    if not isinstance(error, TilewrightError):
        return f"foreign: {error!r:.150}"
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    inner = [file for file in files if file.is_relative_to(OURS)]
    return f"{len(inner)} frames of ours: {error!s:.80}" if len(inner) > 1 else ""


def fault(found: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> str:
    """What is wrong with a call; empty for nothing."""
    try:
        found(*args, **named)
    except Exception as error:
        told = wrong(error)
        return told and f"*{args!r:.120}, **{named!r:.80}: {told}"
    return ""


def test_bad_arguments_end_in_an_error_of_ours_without_inner_frames(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, called in EVERY.items():
        tried = tries(called, random.Random(name))
        faults = [told for args, named in tried if (told := fault(called, args, named))]
        assert not faults, "\n".join([name, *dict.fromkeys(faults)])
