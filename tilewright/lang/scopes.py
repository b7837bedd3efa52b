"""Scope ids: the functions of ``T`` that name where a thread stands. One row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dtypes import INT32
from tilewright.errors import KernelError
from tilewright.ir import ScopeId, Value, Var, const_value
from tilewright.ir.intervals import limits
from tilewright.ir.special import MAX_THREADS
from tilewright.lang.builder import current
from tilewright.lang.memory import extents
from tilewright.lang.settings import hint
from tilewright.layout import THREADS_IN

__all__ = ["EXPORTS", "SCOPE_IDS", "defined"]


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
        made = defined(row.name, asked)
        if preferred is not None:
            _hint_at_cluster(row, preferred)
        return made if len(made) > 1 else made[0]

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
    made = tuple(builder.counts(var, 0, end) for var, end in zip(ids, ends, strict=True))
    builder.fresh.update(var.name for var in made)
    builder.emit(ScopeId(kind, made, extents, at=builder.at))
    return made


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


EXPORTS: dict[str, object] = {row.name: _function(row) for row in SCOPE_IDS}
"""The names of ``T`` that this file defines, with what they stand for."""
