"""The missing step of a handover: threads synchronise by flags, m-barriers or the cluster's barrier, and yet race.

The signal comes after the earlier access, the wait before the later one, both at one place. Each needs its order, or a
fence beside it, and a scope that holds the other thread. Only the kernel's text is examined, so that a step that is
named can stand where it is put.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from tilewright.explain import advised, joined
from tilewright.ir import AddressOf, If, Stmt, While, statements, walk
from tilewright.isa import Fence, bind
from tilewright.isa.effects import SCOPES
from tilewright.sim.codegen.axes import LANE, WARP
from tilewright.sim.codegen.values import calls_of
from tilewright.sim.order.reports.words import fence_name

if TYPE_CHECKING:
    from tilewright.isa import Bound
    from tilewright.sim.codegen.axes import Axes
    from tilewright.sim.order.reports.advice import StepDown

    Way: TypeAlias = "tuple[StepDown, ...]"

__all__ = ["arrivals_behind", "handover_advice"]

SIDES = {True: ("release", "before"), False: ("acquire", "after")}
FULL = ("acq_rel", "sc")


@dataclass(frozen=True, slots=True)
class _Word:
    """A statement by which threads signal or wait. place: the name of a buffer, or of a barrier. has_order: may it be
    given one? alone: does a condition choose lanes for it? warps: the conditions that choose warps for it.
    """

    line: int
    place: str
    tells: bool
    sem: str
    scope: str
    has_order: bool
    alone: bool
    warps: tuple[int, ...]


class _Together:
    """A barrier of one warp between the two."""


@dataclass(frozen=True, slots=True)
class _Fenced:
    """A fence between the two."""

    line: int
    sem: str
    scope: str
    warps: tuple[int, ...]


class _Met:
    """A barrier of warps between the two."""


_Item: TypeAlias = "_Word | _Fenced | _Met | _Together"


def handover_advice(axes: Axes, before: Way, after: Way, scope: str) -> str | None:
    """The change with which a handover orders the first access before the other; None where there is no handover, or
    where nothing is missing. scope: the narrowest that holds both threads.
    """
    tells = list(_words(axes, _following(before)))
    listens = list(_words(axes, _preceding(after)))[::-1]
    for k, heard in enumerate(listens):
        for i, told in enumerate(tells):
            if isinstance(told, _Word) and isinstance(heard, _Word) and _meet(told, heard):
                if not (_may(told, tells[:i]) and _may(heard, listens[:k])):
                    continue
                ends = _lacks(told, tells[:i], scope), _lacks(heard, listens[:k], scope)
                lanes = _apart(told, tells[:i], _line_of(before)), _apart(heard, listens[:k], _line_of(after))
                return joined((*ends, *lanes)) or None
    return None


def _meet(told: _Word, heard: _Word) -> bool:
    return told.tells and not heard.tells and told.place == heard.place


def _may(word: _Word, between: list[_Item]) -> bool:
    """May other lanes of the warp signal or wait for a thread, since they have met it?"""
    return not word.warps or any(isinstance(one, _Met) for one in between)


def _lacks(word: _Word, between: list[_Item], scope: str) -> str:
    """The missing step at one end: an order, a fence by the same warp, or a scope; empty for none."""
    near = takewhile(lambda one: not (word.warps and isinstance(one, _Met)), reversed(between))
    fences = [one for one in near if isinstance(one, _Fenced) and one.warps == word.warps]
    side, where = SIDES[word.tells]
    if _narrow(word.scope, scope):
        missing = f"scope={scope!r} at line {word.line}"
        has_order = word.sem in (side, "acq_rel") or fences or not word.has_order
        return missing if has_order else f"sem={side!r} at line {word.line}; {missing}"
    if word.sem in (side, "acq_rel"):
        return ""
    fitting = [fence for fence in fences if fence.sem in (*FULL, side)]
    if any(not _narrow(fence.scope, scope) for fence in fitting):
        return ""
    if fitting:
        return f"scope {scope!r} of the fence at line {fitting[0].line}"
    if word.has_order and word.sem != "volatile":
        return f"sem={side!r} at line {word.line}"
    fence = f"{fence_name(Fence('acq_rel', scope))}('acq_rel', {scope!r})"
    lines = (word.line, word.line + 1) if where == "after" else (word.line,)
    return advised(f"{fence} {where} line {word.line}", "fence", scope, lines, fence)


def _narrow(scope: str, wanted: str) -> bool:
    return scope in SCOPES and SCOPES.index(scope) < SCOPES.index(wanted)


def _apart(word: _Word, between: list[_Item], line: int) -> str:
    """The warp's barrier, where one of its lanes signals or waits for the others and none stands there."""
    if any(isinstance(one, (_Together, _Met)) for one in between):
        return ""
    first, then = sorted((line, word.line))
    if not word.alone or word.warps:
        return ""
    barrier = "T.cuda.warp_sync()"
    return advised(f"{barrier} between line {first} and line {then}", "barrier", "warp", (first, then), barrier)


def _line_of(way: Way) -> int:
    at = way[-1].stmt.at
    return at.line if at else 0


# The statements around an access


def _following(way: Way) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """The statements after an access, nearest first, with the conditions around them that are not around the access."""
    for step in reversed(way):
        for stmt in step.body[step.index + 1 :]:
            yield from _inside(stmt, ())


def arrivals_behind(way: Way) -> Iterator[tuple[str, int]]:
    """The m-barriers that threads arrive at behind an access: the name of the buffer, and the line."""
    for stmt, _ in _following(way):
        for bound in map(bind, calls_of(stmt)):
            signal = bound.form.signal_of("arrive")
            if stmt.at and signal is not None:
                yield _buffer(bound, signal.barrier), stmt.at.line


def _preceding(way: Way) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """The statements before an access, farthest first, with the conditions around them that are not around it."""
    for step in way:
        for stmt in step.body[: step.index]:
            yield from _inside(stmt, ())
        if isinstance(step.stmt, (If, While)):
            yield step.stmt, ()


def _inside(stmt: Stmt, around: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    yield stmt, around
    if isinstance(stmt, If):
        for body in (stmt.then, stmt.orelse):
            for inner in body:
                yield from _inside(inner, (*around, stmt))
        return
    for inner in statements((stmt,)):
        if inner is not stmt:
            yield inner, around


def _words(axes: Axes, stmts: Iterator[tuple[Stmt, tuple[Stmt, ...]]]) -> Iterator[_Item]:
    for stmt, around in stmts:
        line = stmt.at.line if stmt.at else 0
        alone = any(isinstance(outer, If) and axes.of(outer.cond) & LANE for outer in around)
        warps = tuple(id(outer) for outer in around if isinstance(outer, If) and axes.of(outer.cond) & WARP)
        for call in calls_of(stmt):
            bound = bind(call)
            if bound.form.sync is not None and bound.form.sync.scope not in ("warp", "poll"):
                yield _Met()
            fence = bound.fence
            if "warp" in (getattr(bound.form.sync, "scope", ""), getattr(fence, "scope", "")):
                yield _Together()
            elif isinstance(fence, Fence) and not fence.only:
                yield _Fenced(line, str(fence.sem), str(fence.scope), warps)
            for place, tells, sem, scope in _said(bound):
                yield _Word(line, place, tells, sem, scope, "sem" in bound.mods, alone, warps)


def _said(bound: Bound) -> Iterator[tuple[str, bool, str, str]]:
    """The handovers that a call takes part in: place, is it the signal, order and scope."""
    form, signal = bound.form, bound.form.signal_of("arrive", "wait")
    if signal is not None:
        yield _buffer(bound, signal.barrier), signal.kind == "arrive", signal.sem, bound.word(signal.scope)
    elif form.sync is not None and form.sync.scope == "cluster":
        if not form.sync.wait_only:
            yield "cluster", True, "release" if form.sync.orders else "relaxed", "cluster"
        if not form.sync.arrive_only:
            yield "cluster", False, "acquire", "cluster"
    else:
        for access in form.accesses:
            sem = bound.word(access.sem)
            if sem != "weak" and (access.write or form.result):
                yield _buffer(bound, access.operand), access.write, sem, bound.word(access.scope)


def _buffer(bound: Bound, operand: str) -> str:
    found = (each.buffer.name for each in walk(bound.operands[operand][0]) if isinstance(each, AddressOf))
    return next(found, "")
