"""The functions of ``T`` that state something about a kernel: facts, settings, the launch, effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast as typed

from tilewright.dtypes import BOOL
from tilewright.errors import KernelError
from tilewright.ir import (
    AddressOf,
    Argument,
    Assume,
    Attr,
    Buffer,
    Call,
    Const,
    DeviceEntry,
    Evaluate,
    Expr,
    Launch,
    Value,
    as_expr,
    cast,
    const_value,
)
from tilewright.lang.builder import current

__all__ = ["EXPORTS", "argument"]


def argument(value: object) -> Argument:
    """A setting as IR holds it: lists and dicts become tuples, a buffer a pointer to it, a constant its number."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Buffer):
        return AddressOf(value)
    if isinstance(value, (list, tuple)):
        return tuple(argument(part) for part in value)
    if isinstance(value, Mapping):
        return tuple((str(key), argument(part)) for key, part in value.items())
    if value is None or isinstance(value, (Expr, str, bool, int, float)):
        return str(value) if isinstance(value, str) else typed("Argument", value)
    if hasattr(value, "__index__"):
        return int(value)
    raise KernelError(
        f"`{value!r}` is no setting",
        given=type(value).__name__,
        allowed="a number, a string, an expression, or a tuple",
    )


def _settings(what: str, values: object) -> tuple[tuple[str, Argument], ...]:
    if not isinstance(values, Mapping):
        raise KernelError(f"{what} takes a dict", given=repr(values), allowed='{"name": value}')
    return tuple((str(key), argument(value)) for key, value in values.items())


def device_entry() -> None:
    """From here on the code runs on the device."""
    builder = current("T.device_entry()")
    builder.emit(DeviceEntry(at=builder.at))


def assume(cond: Value) -> None:
    """A fact about the arguments (``T.assume(n % 8 == 0)``), checked when the kernel is called."""
    builder = current("T.assume")
    known = const_value(cond)
    if known is not None and not known and not builder.exact:
        raise KernelError("T.assume states what is false", given="a condition that is constant")
    builder.emit(Assume(cast(cond, BOOL), at=builder.at))


def attr(settings: Mapping[str, object]) -> None:
    """Settings of the kernel: ``T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})``."""
    builder = current("T.attr")
    builder.emit(Attr(_settings("T.attr", settings), at=builder.at))


def hint(*message: object, **settings: object) -> None:
    """Advice that changes no meaning; kept in the IR."""
    builder = current("T.hint")
    words = {"hint": message[0] if len(message) == 1 else message} if message else {}
    builder.emit(Attr(_settings("T.hint", {**words, **settings}), at=builder.at))


def func_attr(settings: Mapping[str, object]) -> None:
    """Settings of the function as a whole: `Kernel.attrs`."""
    current("T.func_attr").attrs.update(_settings("T.func_attr", settings))


def evaluate(value: Value) -> None:
    """Compute an expression for its effect."""
    builder = current("T.evaluate")
    if not isinstance(value, Call) or value.dtype != "void":  # a call without a value is a statement already
        builder.emit(Evaluate(as_expr(value), at=builder.at))


def launch(
    *,
    grid: tuple[Value, Value, Value],
    threads: int,
    cluster: tuple[int, int, int] = (1, 1, 1),
    shared_bytes: int = 0,
    min_blocks_per_sm: int = 0,
) -> None:
    """How the kernel is launched: a line of printed scripts of the lowered stage."""
    current("T.launch").launch = Launch(grid, threads, cluster, shared_bytes, min_blocks_per_sm)


EXPORTS: dict[str, object] = {
    "device_entry": device_entry,
    "assume": assume,
    "attr": attr,
    "hint": hint,
    "func_attr": func_attr,
    "evaluate": evaluate,
    "launch": launch,
}
"""What ``T`` has of this file, by its name there."""
