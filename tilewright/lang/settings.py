"""The functions of ``T`` that state something about a kernel: facts, settings, the launch, effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from typing import cast as typed

from tilewright import ir
from tilewright.dtypes import BOOL
from tilewright.errors import KernelError, choices
from tilewright.ir.launch import BLOCKS_PER_SM, MAX_REGISTERS, NON_PORTABLE_CLUSTER
from tilewright.lang.builder import current

Rule = tuple[Callable[[object], bool], str]


def argument(value: object) -> ir.Argument:
    """A setting as IR holds it: lists and dicts become tuples, a buffer a pointer to it, a constant its number."""
    if isinstance(value, ir.Const):
        return value.value
    if isinstance(value, ir.Buffer):
        return ir.AddressOf(value)
    if isinstance(value, (list, tuple)):
        return tuple(argument(part) for part in value)
    if isinstance(value, Mapping):
        return tuple((str(key), argument(part)) for key, part in value.items())
    if value is None or isinstance(value, (ir.Expr, str, bool, int, float)):
        return str(value) if isinstance(value, str) else typed("ir.Argument", value)
    if hasattr(value, "__index__"):
        return int(value)
    raise KernelError(
        f"`{value!r}` is no setting",
        given=type(value).__name__,
        allowed="a number, a string, an expression, or a tuple",
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# What each setting may be: a test, and what it allows in words.
COUNT: Rule = _is_count, "a number from 1 on"
FLAG: Rule = lambda value: isinstance(value, bool), "True or False"
TEXT: Rule = lambda value: isinstance(value, str), "a string"
UNROLL: Rule = lambda value: isinstance(value, bool) or _is_count(value), "True, False, or rounds at once: 4"
SAME = {
    "min_blocks": BLOCKS_PER_SM,
    "max_registers": MAX_REGISTERS,
    "tir.noalias": "tirx.noalias",
}  # the short name of a setting, and its own
REGISTERS = {MAX_REGISTERS: COUNT, "max_registers": COUNT}
LAUNCH = {BLOCKS_PER_SM: COUNT, "min_blocks": COUNT, NON_PORTABLE_CLUSTER: FLAG, **REGISTERS}
OF_FUNCTION = {**LAUNCH, "rank": TEXT, "ranks": COUNT, "global_symbol": TEXT, "tirx.noalias": FLAG, "tir.noalias": FLAG}
OF_KERNEL = {**LAUNCH, "comment": TEXT, "hint": TEXT, "trace": TEXT}


def checked_settings(what: str, values: object, rules: Mapping[str, Rule]) -> tuple[tuple[str, ir.Argument], ...]:
    """Settings under their own names. Raises KernelError for an unknown one: none is ignored."""
    if not isinstance(values, Mapping):
        raise KernelError(f"{what} takes a dict", given=repr(values), allowed='{"name": value}')
    settings: dict[str, ir.Argument] = {}
    for key, value in values.items():
        if key not in rules:
            raise KernelError(
                f"{what} has no setting {key!r}", given=f"{key}={value!r}", allowed=choices(key, rules) or "none"
            )
        holds, allowed = rules[key]
        setting = argument(value)
        if not holds(setting):
            raise KernelError(f"the setting {key} of {what}", given=repr(value), allowed=allowed)
        name = SAME.get(key, str(key))
        if name in settings and settings[name] != setting:
            raise KernelError(f"{what} has {key} twice", given=repr(dict(values)), allowed="one value")
        settings[name] = setting
    return tuple(settings.items())


def device_entry() -> None:
    """From here on the code runs on the device."""
    builder = current("T.device_entry()")
    builder.emit(ir.DeviceEntry(at=builder.at))


def assume(cond: ir.Value) -> None:
    """A fact about the arguments (``T.assume(n % 8 == 0)``), checked when the kernel is called."""
    builder = current("T.assume")
    truth = ir.const_value(cond)
    if truth is not None and not truth and not builder.exact:
        raise KernelError("T.assume states what is false", given="a condition that is constant")
    builder.emit(ir.Assume(ir.cast(cond, BOOL), at=builder.at))


def attr(settings: Mapping[str, object]) -> None:
    """Settings of the kernel: ``T.attr({"min_blocks": 2})``, in full "tirx.launch_bounds_min_blocks_per_sm"."""
    builder = current("T.attr")
    builder.emit(ir.Attr(checked_settings("T.attr", settings, OF_KERNEL), at=builder.at))


def hint(*message: object, **settings: object) -> AbstractContextManager[None]:
    """Advice to readers that changes no meaning: a comment of the lowered kernel and of its CUDA text.

    ``with T.hint(...):`` stands around the statements that it is about.
    """
    builder = current("T.hint")
    words = [*map(str, message), *(f"{key}={value}" for key, value in settings.items())]
    if words:
        builder.emit(ir.Attr((("hint", ", ".join(words)),), at=builder.at))
    return nullcontext()


def trace(name: str) -> None:
    """A mark in the kernel, where a warp is at: an event of a recorded run, a clock stamp of ``exe.trace(...)``.

    In every other run it costs nothing. On a GPU the lowest lane that comes to it stamps it.
    """
    builder = current("T.trace")
    if not isinstance(name, str) or not name:
        raise KernelError("the name of a mark is a word", given=repr(name), allowed='T.trace("load")')
    builder.emit(ir.Attr((("trace", name),), at=builder.at))


def func_attr(settings: Mapping[str, object]) -> None:
    """Settings of the function as a whole, `Kernel.attrs`: ``{"min_blocks": 2, "global_symbol": "main"}``."""
    if isinstance(settings, Mapping):
        settings = {key: value for key, value in settings.items() if not _is_of_others(str(key))}
    current("T.func_attr").attrs.update(checked_settings("T.func_attr", settings, OF_FUNCTION))


def _is_of_others(key: str) -> bool:
    """Is it a setting of other compilers, which changes nothing here? One that is nearly spelled as ours is not."""
    return key.startswith(("tir.", "tirx.")) and not get_close_matches(key, OF_FUNCTION, cutoff=0.8)


def evaluate(value: ir.Value) -> None:
    """Compute an expression for its effect."""
    builder = current("T.evaluate")
    if not isinstance(value, ir.Call) or value.dtype != "void":  # a call without a value is a statement already
        builder.emit(ir.Evaluate(ir.as_expr(value), at=builder.at))


def launch(
    *,
    grid: tuple[ir.Value, ir.Value, ir.Value],
    threads: int,
    cluster: tuple[int, int, int] = (1, 1, 1),
    shared_bytes: int = 0,
    min_blocks_per_sm: int = 0,
    non_portable_cluster: bool = False,
    max_registers: int = 0,
) -> None:
    """How the kernel is launched: a line of printed scripts of the lowered stage."""
    current("T.launch").launch = ir.Launch(
        grid, threads, cluster, shared_bytes, min_blocks_per_sm, non_portable_cluster, max_registers
    )


EXPORTS: dict[str, object] = {
    "device_entry": device_entry,
    "assume": assume,
    "attr": attr,
    "hint": hint,
    "trace": trace,
    "func_attr": func_attr,
    "evaluate": evaluate,
    "launch": launch,
}
"""The names of ``T`` that this file defines, with what they stand for."""
