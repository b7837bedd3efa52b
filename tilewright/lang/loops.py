"""Loops that run: ``T.serial``, ``T.unroll``, ``T.vectorized``, ``T.grid``, and ``range`` in a ``for``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tilewright.errors import KernelError
from tilewright.ir import Argument, Value, const_value
from tilewright.lang.settings import UNROLL, checked_settings

NAME = "unroll"
OFF = "disable_unroll"  # TIRx's word for ``unroll=False``, where it is true


@dataclass(frozen=True, slots=True)
class LoopRange:
    """One loop: its bounds, the kind of its `ir.For`, and its annotations."""

    start: Value
    stop: Value
    step: int = 1
    kind: str = "serial"
    annotations: tuple[tuple[str, Argument], ...] = ()


Loops = tuple[LoopRange, ...]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Nested loops, the outermost first: what a ``for`` goes over."""

    loops: Loops


def _loop(
    bounds: tuple[Value, ...], kind: str, step: Value | None, annotations: Mapping[str, object] | None
) -> LoopNest:
    if not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and step is not None):
        raise KernelError(
            f"a {kind} loop has bounds", given=f"{len(bounds)} values", allowed="stop; start, stop; start, stop, step"
        )
    start, stop, *rest = bounds if len(bounds) > 1 else (0, *bounds)
    stride = const_value(rest[0] if rest else 1 if step is None else step)
    if not isinstance(stride, int) or stride == 0:
        raise KernelError("the step of a loop is a constant other than 0", given=str(rest[0] if rest else step))
    rules = {} if kind == "vectorized" else {"unroll": UNROLL}
    settings = checked_settings(f"a {kind} loop", _own(annotations), rules)
    return LoopNest((LoopRange(start, stop, stride, kind, settings),))


def _own(annotations: object) -> object:
    """The annotations that mean something here, and misspelt ones: those of other compilers change nothing."""
    if not isinstance(annotations, Mapping):
        return annotations or {}
    if annotations.get(OFF):
        return {NAME: False}
    near = {str(key) for key in annotations if get_close_matches(str(key), [NAME]) and "_" not in str(key)}
    return {key: value for key, value in annotations.items() if str(key) in near}


def serial(
    *bounds: Value, step: Value | None = None, unroll: object = None, annotations: Mapping[str, object] | None = None
) -> LoopNest:
    """A serial loop. ``unroll=4``, or ``annotations={"unroll": 4}``, writes out four rounds at a time, True all of
    them, False none.
    """
    (counted,) = _loop(bounds, "serial", step, annotations).loops
    if unroll is None:
        return LoopNest((counted,))
    asked = checked_settings("a serial loop", {"unroll": unroll}, {"unroll": UNROLL})
    if counted.annotations not in ((), asked):
        raise KernelError("a serial loop has unroll twice", given=f"unroll={unroll!r}, annotations={annotations!r}")
    return LoopNest((replace(counted, annotations=asked),))


def unrolled(*bounds: Value, step: Value | None = None, annotations: Mapping[str, object] | None = None) -> LoopNest:
    """A loop whose rounds are written out; ``annotations={"unroll": 4}`` four at a time."""
    return _loop(bounds, "unroll", step, annotations)


def vectorized(*bounds: Value, step: Value | None = None, annotations: Mapping[str, object] | None = None) -> LoopNest:
    """A loop whose rounds may run at once."""
    return _loop(bounds, "vectorized", step, annotations)


def grid(*extents: Value | tuple[Value, Value]) -> LoopNest:
    """Nested loops: ``for i, j in T.grid(8, 4)``; ``T.grid((2, 8), 4)`` goes from 2 to 7."""
    if not extents:
        raise KernelError("T.grid has extents", given="none", allowed="one for each loop")
    return LoopNest(tuple(LoopRange(*_ends(extent)) for extent in extents))


def _ends(extent: Value | tuple[Value, Value]) -> tuple[Value, Value]:
    if not isinstance(extent, (tuple, list)):
        return 0, extent
    low, high = map(const_value, extent)
    if low is not None and high is not None and low > high:
        raise KernelError("T.grid goes from a bound to one behind it", given=f"({low}, {high})",
                          allowed="(start, stop) of which start comes first", hint=f"({high}, {low})")  # fmt: skip
    return extent[0], extent[1]


def run_time_range(*bounds: Value) -> LoopNest:
    """Python's ``range`` with an expression among its bounds."""
    return _loop(bounds, "serial", None, None)


def loops_of(value: object) -> Loops | None:
    """The loops that a ``for`` over ``value`` makes; None for a Python iterable, gone through while parsing."""
    if isinstance(value, range):
        return (replace(LoopRange(value.start, value.stop), step=value.step),)
    return value.loops if isinstance(value, LoopNest) else None


EXPORTS: dict[str, object] = {"serial": serial, "unroll": unrolled, "vectorized": vectorized, "grid": grid}
"""The names of ``T`` that this file defines, with what they stand for."""
