"""Advice that orders two racing accesses: the missing step of a handover, or a barrier where one can stand and helps.

A barrier can stand where all threads that it waits for come by: under no condition in which they differ, and not
between taking and releasing a lock. It helps where it lies on the way from one access to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.ir import Body, For, If, Stmt, While, bodies, statements
from tilewright.isa import bind
from tilewright.sim.codegen.axes import CTA, LANE, WARP, Axes
from tilewright.sim.codegen.loops import polls
from tilewright.sim.codegen.prepare import calls_of
from tilewright.sim.order.handover import handover_advice

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine.subject import Subject

__all__ = ["BARRIERS", "StepDown", "advice", "handover", "kept_apart", "lock_advice"]

BARRIERS = {  # the axes over which the threads that meet there differ
    "T.cuda.warp_sync()": LANE,
    "T.cuda.cta_sync()": LANE | WARP,
    "T.cuda.cluster_sync()": LANE | WARP | CTA,
}
APART = "different places for the lanes of this statement, or atomics"


@dataclass(frozen=True, slots=True)
class StepDown:
    """A statement on the way down to an access, and the body that it stands in."""

    body: Body
    stmt: Stmt

    @property
    def index(self) -> int:
        return next(k for k, stmt in enumerate(self.body) if stmt is self.stmt)


def advice(program: Subject, barrier: str, first: Span | None, then: Span | None, *, at_once: bool) -> str | None:
    """What to change so that the access at line ``first`` comes before that at ``then``; None where that is not known.

    barrier: a key of `BARRIERS`, the narrowest that both threads meet at. at_once: do lanes of one execution race?
    """
    if first is None or then is None:
        return barrier
    if at_once:
        return APART
    body = program.kernel.body
    before, after = _way(body, first), _way(body, then)
    if not before or not after:
        return f"{barrier} between line {first.line} and line {then.line}"
    lock = _lock(before) or _lock(after)
    return lock or _waited_for(before, after) or _between(Axes(program.kernel), barrier, before, after)


def lock_advice(program: Subject, first: Span | None, then: Span | None) -> str | None:
    """The fence that is missing where accesses are made while a lock is held; None where none is."""
    ways = [_way(program.kernel.body, at) for at in (first, then) if at is not None]
    return next((lock for way in ways if (lock := _lock(way)) is not None), None)


def handover(program: Subject, first: Span | None, then: Span | None, scope: str) -> str | None:
    """The missing step of threads that synchronise through memory; None where they do not, or where they use a lock."""
    before, after = (_way(program.kernel.body, at) if at is not None else () for at in (first, then))
    if not before or not after or _lock(before) or _lock(after):
        return None
    return handover_advice(Axes(program.kernel), before, after, scope)


def _way(body: Body, at: Span) -> tuple[StepDown, ...]:
    """From the kernel's body down to the last statement of a line's place; empty where there is none.

    Statements that prepare a tile call come before the access itself.
    """
    for stmt in reversed(body):
        if stmt.at == at:
            return (StepDown(body, stmt),)
        for inner in bodies(stmt):
            if way := _way(inner, at):
                return (StepDown(body, stmt), *way)
    return ()


def kept_apart(program: Subject, at: Span | None, among: int) -> Span | None:
    """The innermost branch or loop around a line at which threads diverge, over the axes in ``among``."""
    way = _way(program.kernel.body, at) if at is not None else ()
    axes = Axes(program.kernel)
    return next((step.stmt.at for step in reversed(way[:-1]) if _parting(axes, step.stmt) & among), None)


# A barrier between the two


def _between(axes: Axes, barrier: str, before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> str | None:
    depth = _common(before, after)
    around = [step.stmt for step in before[:depth]]
    parting = [stmt for stmt in around if _parting(axes, stmt) & BARRIERS[barrier]]
    first, then = before[depth], after[depth]
    if first.body is then.body and first.index < then.index:
        return _in_order(barrier, around, parting, _last_line(first.stmt), _line(then.stmt))
    loop = next((stmt for stmt in reversed(around) if isinstance(stmt, (For, While))), None)
    if loop is not None and not any(stmt in parting for stmt in around[: around.index(loop) + 1]):
        inside = (step.stmt for step in before[around.index(loop) + 1 :] if isinstance(step.stmt, If))
        branch = next((stmt for stmt in inside if _parting(axes, stmt) & BARRIERS[barrier]), None)
        behind = f", behind the `if` of line {_line(branch)}" if branch is not None else ""
        turns = f"{barrier} at the end of each turn of the loop at line {_line(loop)}{behind}"
        return f"{turns}; within one turn, a place of its own for each thread" if first.stmt is then.stmt else turns
    if first.stmt is then.stmt and not parting and not bodies(first.stmt):
        return f"line {_line(first.stmt)} as two statements: what it reads into a variable, {barrier}, then the rest"
    return None


def _in_order(barrier: str, around: list[Stmt], parting: list[Stmt], start: int, end: int) -> str | None:
    """Between two lines of one body, or, where threads diverge there, with their `if` cut in two."""
    if not parting:
        return f"{barrier} between line {start} and line {end}"
    if len(parting) == 1 and parting[0] is around[-1] and isinstance(parting[0], If):
        twice = f"the `if` of line {_line(parting[0])} twice"
        return f"{twice}, up to line {start} and from line {end}, {barrier} between them"
    return None


def _common(before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> int:
    """How many steps both ways have in common, before they reach different statements of one body, or the access."""
    depth = 0
    most = min(len(before), len(after)) - 1
    while depth < most and before[depth].stmt is after[depth].stmt and before[depth + 1].body is after[depth + 1].body:
        depth += 1
    return depth


def _parting(axes: Axes, stmt: Stmt) -> int:
    if isinstance(stmt, If):
        return axes.of(stmt.cond)
    return axes.divergence(stmt) if isinstance(stmt, (For, While)) else 0


def _line(stmt: Stmt) -> int:
    return stmt.at.line if stmt.at else 0


def _last_line(stmt: Stmt) -> int:
    return max([_line(stmt), *(_line(inner) for body in bodies(stmt) for inner in statements(body))])


# Other means than a barrier


def _waited_for(before: tuple[StepDown, ...], after: tuple[StepDown, ...]) -> str | None:
    """A wait for an m-barrier, where it is signalled between the first access and the other."""
    for step in reversed(before):
        until = next((other.index for other in after if other.body is step.body), len(step.body))
        for stmt in step.body[step.index + 1 : until]:
            signals = (bind(call).form.signal for call in calls_of(stmt))
            if any(signal is not None and signal.kind == "arrive" for signal in signals):
                told = f"the phase of the m-barrier that line {_line(stmt)} arrives at"
                return f"a wait for {told}, before line {_line(after[-1].stmt)}"
    return None


def _lock(way: tuple[StepDown, ...]) -> str | None:
    """A fence, where an access is between a loop that takes a lock by an atomic and the statement that releases it."""
    for step in reversed(way):
        takes = [stmt for stmt in step.body[: step.index] if isinstance(stmt, While) and polls(stmt) and _atomic(stmt)]
        gives = [stmt for stmt in step.body[step.index + 1 :] if _atomic(stmt)]
        if takes and gives:
            lines = f"after the loop at line {_line(takes[-1])}, and again before line {_line(gives[0])}"
            return f"T.cuda.thread_fence() {lines}: no barrier can stand where a lock is held"
    return None


def _atomic(stmt: Stmt) -> bool:
    """Does a statement hold an atomic whose spelling has no order?"""
    inner = [bind(call) for part in statements((stmt,)) for call in calls_of(part)]
    return any(access.rmw for bound in inner if "sem" not in bound.mods for access in bound.form.accesses)
