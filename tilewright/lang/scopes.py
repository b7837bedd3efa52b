"""Scope ids: the functions of ``T`` that name where a thread stands, one row each; and CUDA's names for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dtypes import INT32
from tilewright.errors import KernelError, choices
from tilewright.ir import ScopeId, Value, Var, const_value
from tilewright.ir.intervals import limits
from tilewright.ir.launch import MAX_THREADS
from tilewright.lang.builder import current
from tilewright.lang.memory import extents
from tilewright.lang.settings import hint
from tilewright.layout import THREADS_IN


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


EXPORTS: dict[str, object] = {
    **{row.name: _function(row) for row in SCOPE_IDS},
    "launch_thread": launch_thread,
    "thread_binding": thread_binding,
}
"""The names of ``T`` that this file defines, with what they stand for."""
