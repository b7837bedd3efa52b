"""The functions of ``T`` that say where a thread stands, one row each, and CUDA's names for the same; facts, settings,
the launch and effects; loops that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import cast as typed

from tilewright import ir
from tilewright.dtypes import BOOL, INT32
from tilewright.errors import KernelError, choices
from tilewright.ir import Argument, ScopeId, Value, Var, const_value
from tilewright.ir.intervals import limits
from tilewright.ir.launch import BLOCKS_PER_SM, MAX_REGISTERS, MAX_THREADS, NON_PORTABLE_CLUSTER
from tilewright.lang.builder import current
from tilewright.lang.memory import extents
from tilewright.lang.public import export
from tilewright.layout import THREADS_IN

# The functions of ``T`` that state something about a kernel: facts, settings, the launch, effects.


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


export("Facts and settings", device_entry, assume, attr, hint, trace, func_attr, evaluate, launch)


# Loops that run: ``T.serial``, ``T.unroll``, ``T.vectorized``, ``T.grid``, and ``range`` in a ``for``.


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


export("Loops and branches", serial, unroll=unrolled, vectorized=vectorized, grid=grid)


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """name: of the function. extents: how many it may have. fixed: the only extent that the hardware has.

    most: what the extent may be at most.
    """

    name: str
    meaning: str
    extents: int = 1
    fixed: int | None = None
    most: int = limits(INT32).high


SCOPE_IDS = (
    ScopeRow("cta_id", "CTA of the grid", extents=3),
    ScopeRow("cluster_id", "cluster of the grid", extents=3),
    ScopeRow("cta_id_in_cluster", "CTA of its cluster", extents=3),
    ScopeRow("cta_id_in_pair", "CTA of a pair that works together", fixed=2),
    ScopeRow("warpgroup_id", "warpgroup of its CTA"),
    ScopeRow("warp_id", "warp of its CTA"),
    ScopeRow("warp_id_in_wg", "warp of its warpgroup", most=MAX_THREADS // THREADS_IN["warp"]),
    ScopeRow("lane_id", "lane of its warp", fixed=THREADS_IN["warp"]),
    ScopeRow("thread_id_in_wg", "thread of its warpgroup", most=MAX_THREADS),
    ScopeRow("thread_id", "thread of its CTA", extents=3),
)


def _function(row: ScopeRow) -> Callable[..., Var | tuple[Var, ...]]:
    def scope_id(counts: object = None, *more: Value, preferred: object = None) -> Var | tuple[Var, ...]:
        builder = current(f"T.{row.name}")
        asked = _extents(row, counts, more) or (None,) * max(1, len(builder.hints))
        if len(asked) > row.extents:
            raise KernelError(
                f"T.{row.name} has too many extents", given=f"{len(asked)}", allowed=f"1 to {row.extents}"
            )
        ids = defined(row.name, asked)
        if preferred is not None:
            _hint_at_cluster(row, preferred)
        return ids if len(ids) > 1 else ids[0]

    scope_id.__name__ = row.name
    scope_id.__doc__ = (
        f"The {row.meaning}: 0 up to its extents, which may be left out where they follow from other ids."
    )
    return scope_id


def defined(kind: str, extents: tuple[Value | None, ...], names: Sequence[str] = ()) -> tuple[Var, ...]:
    """A scope id for each extent, under the names that the statement asks for; ``names``: of those it does not."""
    builder = current(f"T.{kind}")
    row = next(row for row in SCOPE_IDS if row.name == kind)
    wanted = names or [""] * len(extents)
    ids = [Var(builder.unique(name) if name else builder.named(kind), INT32) for name in wanted]
    ends = ((row.fixed or row.most) if end is None else end for end in extents)
    counted = tuple(builder.counts(var, 0, end) for var, end in zip(ids, ends, strict=True))
    builder.fresh.update(var.name for var in counted)
    builder.emit(ScopeId(kind, counted, extents, at=builder.at))
    return counted


def _hint_at_cluster(row: ScopeRow, preferred: object) -> None:
    """A launch takes the cluster size from the extents; ``preferred=`` has no effect on it."""
    if row.name != "cta_id_in_cluster":
        raise KernelError(f"T.{row.name} has no keyword 'preferred'", given=f"preferred={preferred!r}",
                          allowed="on T.cta_id_in_cluster")  # fmt: skip
    hint(preferred_cluster=[const_value(extent) for extent in extents(preferred, "preferred=")])


def _extents(row: ScopeRow, counts: object, more: tuple[Value, ...]) -> tuple[Value | None, ...]:
    """The extents as written: ``[4, 8]``, ``(4, 8)``, ``4, 8``, or none."""
    if counts is None:
        return ()
    listed = counts if isinstance(counts, (list, tuple)) else (counts, *more)
    asked = tuple(None if value is None else extents(value, f"T.{row.name}")[0] for value in listed)
    if row.fixed and asked not in ((row.fixed,), (None,)):
        raise KernelError(f"T.{row.name} counts the {row.meaning}", given=f"{list(asked)}", allowed=f"[{row.fixed}]")
    return asked


# CUDA's names for where a thread stands: ``T.launch_thread("threadIdx.x", 32)`` and ``T.thread_binding``.
#
# Each makes a scope id of one axis: several of them together say how large the grid and the CTA are.


_KINDS = {"blockIdx": "cta_id", "threadIdx": "thread_id", "clusterCtaIdx": "cta_id_in_cluster"}
THREADS = {f"{name}.{axis}": (kind, "xyz".index(axis)) for name, kind in _KINDS.items() for axis in "xyz"}


@dataclass(frozen=True, slots=True)
class Binding:
    """The iterable of a ``for`` over ``T.thread_binding``: each thread runs one round."""

    thread: str
    extent: Value

    def launched(self) -> Var:
        """The scope id, under the name of its target."""
        return launch_thread(self.thread, self.extent)


def launch_thread(thread: str, extent: Value) -> Var:
    """Where the thread stands on one axis of the launch, which has this extent: "blockIdx.x", "threadIdx.y"."""
    if thread not in THREADS:
        raise KernelError("T.launch_thread names an axis", given=repr(thread), allowed=choices(thread, THREADS))
    kind, axis = THREADS[thread]
    least = 2 if kind == "thread_id" else 1  # a single thread_id counts through all axes
    extents = [extent if k == axis else None for k in range(max(least, axis + 1))]
    names = ["" if k == axis else thread.partition(".")[0] for k in range(len(extents))]
    return defined(kind, tuple(extents), names)[axis]


def thread_binding(*bounds: Value | str, thread: str = "") -> Binding:
    """``for tx in T.thread_binding(32, thread="threadIdx.x")``: the body is done by every thread, once.

    The axis may also be the last of the values: ``T.thread_binding(32, "threadIdx.x")``.
    """
    words = [value for value in (*bounds, thread) if isinstance(value, str) and value]
    numbers = [value for value in bounds if not isinstance(value, str)]
    if len(words) != 1 or not 1 <= len(numbers) <= 2 or (len(numbers) == 2 and numbers[0] != 0):
        raise KernelError(
            "T.thread_binding counts from 0 along one axis",
            given=", ".join(map(str, (*bounds, *([thread] if thread else [])))),
            allowed='an extent and an axis: T.thread_binding(32, thread="threadIdx.x")',
        )
    return Binding(words[0], numbers[-1])


export(
    "Where a thread stands",
    **{row.name: _function(row) for row in SCOPE_IDS},
    launch_thread=launch_thread,
    thread_binding=thread_binding,
)
