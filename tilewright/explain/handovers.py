"""Handovers in a kernel's text: threads synchronise by flags, m-barriers or the cluster's barrier, and yet race.

The signal comes after the earlier access, the wait before the later one, both at one place. Each needs its order, or a
fence beside it, and a scope that holds the other thread. A step that is named can stand where it is put.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, takewhile
from typing import TYPE_CHECKING, TypeAlias

from tilewright.explain.remedy import Edit, advised, insert, joined, keyword, move
from tilewright.ir import AddressOf, Body, If, Stmt, While, statements, walk
from tilewright.ir.launch import CTA, LANE, WARP
from tilewright.isa import Fence
from tilewright.isa.calls import calls_at
from tilewright.isa.effects import SCOPES
from tilewright.terms import Told, barrier, fence, told

if TYPE_CHECKING:
    from tilewright.ir.uniformity import Uniformity
    from tilewright.isa import Bound


@dataclass(frozen=True, slots=True)
class StepDown:
    """A statement on the way down to an access, and the body that it stands in."""

    body: Body
    stmt: Stmt

    @property
    def index(self) -> int:
        """Its place in the body."""
        return next(k for k, stmt in enumerate(self.body) if stmt is self.stmt)


Steps: TypeAlias = "tuple[StepDown, ...]"
SIDES = {True: ("release", "before"), False: ("acquire", "after")}
FULL = ("acq_rel", "sc")
MOST_WAYS = 4


@dataclass(frozen=True, slots=True)
class _Word:
    """A statement by which threads signal or wait. place: the name of a buffer, or of a barrier. has_order: may it be
    given one? alone: does a condition choose lanes for it? warps: the conditions that choose warps for it. waits: does
    a thread stay there until it hears? near: may the threads of the access come by?
    """

    line: int
    place: str
    tells: bool
    sem: str
    scope: str
    has_order: bool
    alone: bool
    warps: tuple[int, ...]
    waits: bool
    near: bool


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


def handover_advice(axes: Uniformity, before: Steps, after: Steps, scope: str) -> Told | None:
    """The change with which a handover orders the first access before the other; None where there is no handover, or
    where nothing is missing. scope: the narrowest that holds both threads.
    """
    tells = list(_words(axes, _following(before)))
    listens = list(_words(axes, _preceding(after)))[::-1]
    for k, heard in enumerate(listens):
        for i, tell in enumerate(tells):
            if isinstance(tell, _Word) and isinstance(heard, _Word) and _meet(tell, heard):
                if not (_may(tell, tells[:i]) and _may(heard, listens[:k])):
                    continue
                ends = _lacks(tell, tells[:i], scope), _lacks(heard, listens[:k], scope)
                lanes = _apart(tell, tells[:i], _line(before)), _apart(heard, listens[:k], _line(after))
                return joined((*ends, *lanes)) or None
    return None


def misplaced(axes: Uniformity, before: Steps, after: Steps) -> Told | None:
    """The signal that comes before the first access, or the wait that comes behind the other one, and where it belongs;
    None where there is no such pair.
    """
    first, last = _line(before), _line(after)
    tells, early = list(_words(axes, _following(before))), list(_words(axes, _preceding(before)))
    listens, late = list(_words(axes, _preceding(after)))[::-1], list(_words(axes, _following(after)))
    found: dict[str, tuple[Edit, ...]] = {}
    for tell, heard in product((*tells, *early[::-1]), (*listens, *late)):
        if not (isinstance(tell, _Word) and isinstance(heard, _Word) and heard.waits and _meet(tell, heard)):
            continue
        is_early, is_late = tell in early and tell not in tells, heard in late and heard not in listens
        if not (is_early or is_late) or (is_early and not tell.near) or (is_late and not heard.near):
            continue
        texts = [f"the signal of line {tell.line} behind line {first}"] * is_early
        texts += [f"the wait of line {heard.line} before line {last}"] * is_late
        moves = [move(tell.line, first + 1, first + 1)] * is_early + [move(heard.line, last, last)] * is_late
        found.setdefault("; ".join(texts), tuple(moves))
    return advised(next(iter(found)), "order", ways=[*found.values()][:MOST_WAYS]) if found else None


def _meet(tell: _Word, heard: _Word) -> bool:
    return tell.tells and not heard.tells and tell.place == heard.place


def _may(word: _Word, between: list[_Item]) -> bool:
    """May other lanes of the warp signal or wait for a thread, since they have met it?"""
    return not word.warps or any(isinstance(one, _Met) for one in between)


def _lacks(word: _Word, between: list[_Item], scope: str) -> Told | None:
    """The missing step at one end: an order, a fence by the same warp, or a scope; None where there is none."""
    near = takewhile(lambda one: not (word.warps and isinstance(one, _Met)), reversed(between))
    fences = [one for one in near if isinstance(one, _Fenced) and one.warps == word.warps]
    side, where = SIDES[word.tells]
    if _narrow(word.scope, scope):
        missing = _ordered("scope", scope, word.line)
        has_order = word.sem in (side, "acq_rel") or fences or not word.has_order
        return missing if has_order else joined((_ordered("sem", side, word.line), missing))
    if word.sem in (side, "acq_rel"):
        return None
    fitting = [fence for fence in fences if fence.sem in (*FULL, side)]
    if any(not _narrow(fence.scope, scope) for fence in fitting):
        return None
    if fitting:
        ways = [(keyword(fitting[0].line, "scope", scope),)]
        return advised(f"scope {scope!r} of the fence at line {fitting[0].line}", "fence", scope, ways=ways)
    if word.has_order and word.sem != "volatile":
        return _ordered("sem", side, word.line)
    text = told("{}", fence(scope, where, word.line))
    lines = (word.line, word.line + 1) if where == "after" else (word.line,)
    behind = word.line + 1
    way = (insert(told("{}", fence(scope)), *((behind, behind + 1) if where == "after" else (word.line,))),)
    return advised(text, "fence", scope, lines, fence(scope), [way])


def _ordered(name: str, value: str, line: int) -> Told:
    """An order, or its scope, that an instruction gets."""
    return advised(f"{name}={value!r} at line {line}", "order", None, (line,), ways=[(keyword(line, name, value),)])


def _narrow(scope: str, wanted: str) -> bool:
    return scope in SCOPES and SCOPES.index(scope) < SCOPES.index(wanted)


def _apart(word: _Word, between: list[_Item], line: int) -> Told | None:
    """The warp's barrier, where one of its lanes signals or waits for the others and none stands there."""
    if any(isinstance(one, (_Together, _Met)) for one in between):
        return None
    first, then = sorted((line, word.line))
    if not word.alone or word.warps:
        return None
    text = told("{} between line {} and line {}", barrier("warp"), first, then)
    return advised(text, "barrier", "warp", (first, then), barrier("warp"))


def _line(way: Steps) -> int:
    at = way[-1].stmt.at
    return at.line if at else 0


# The statements around an access


def _following(way: Steps) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """The statements after an access, nearest first, with the conditions around them that are not around the access."""
    for step in reversed(way):
        for stmt in step.body[step.index + 1 :]:
            yield from _inside(stmt, ())


def arrivals_behind(way: Steps) -> Iterator[tuple[str, int]]:
    """The m-barriers that threads arrive at behind an access: the name of the buffer, and the line."""
    for stmt, _ in _following(way):
        for bound in calls_at(stmt):
            signal = bound.form.signal_of("arrive")
            if stmt.at and signal is not None:
                yield name_of(bound, signal.barrier), stmt.at.line


def _preceding(way: Steps) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
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


def _words(axes: Uniformity, stmts: Iterator[tuple[Stmt, tuple[Stmt, ...]]]) -> Iterator[_Item]:
    for stmt, around in stmts:
        line = stmt.at.line if stmt.at else 0
        alone = any(isinstance(outer, If) and axes.of(outer.cond) & LANE for outer in around)
        near = not any(isinstance(outer, If) and axes.of(outer.cond) & (WARP | CTA) for outer in around)
        warps = tuple(id(outer) for outer in around if isinstance(outer, If) and axes.of(outer.cond) & WARP)
        for bound in calls_at(stmt):
            if bound.form.sync is not None and bound.form.sync.scope not in ("warp", "poll"):
                yield _Met()
            fence = bound.fence
            if "warp" in (getattr(bound.form.sync, "scope", ""), getattr(fence, "scope", "")):
                yield _Together()
            elif isinstance(fence, Fence) and not fence.only:
                yield _Fenced(line, str(fence.sem), str(fence.scope), warps)
            for place, tells, sem, scope in _said(bound):
                waits = isinstance(stmt, While) or bound.form.signal_of("wait") is not None
                yield _Word(line, place, tells, sem, scope, "sem" in bound.mods, alone, warps, waits, near)


def _said(bound: Bound) -> Iterator[tuple[str, bool, str, str]]:
    """The handovers that a call takes part in: place, is it the signal, order and scope."""
    form, signal = bound.form, bound.form.signal_of("arrive", "wait")
    if signal is not None:
        yield name_of(bound, signal.barrier), signal.kind == "arrive", signal.sem, bound.word(signal.scope)
    elif form.sync is not None and form.sync.scope == "cluster":
        if not form.sync.wait_only:
            yield "cluster", True, "release" if form.sync.orders else "relaxed", "cluster"
        if not form.sync.arrive_only:
            yield "cluster", False, "acquire", "cluster"
    else:
        for access in form.accesses:
            sem = bound.word(access.sem)
            if sem != "weak" and (access.write or form.result):
                yield name_of(bound, access.operand), access.write, sem, bound.word(access.scope)


def name_of(bound: Bound, operand: str) -> str:
    """The buffer that an operand leads into; empty where that is not known."""
    found = (each.buffer.name for each in walk(bound.operands[operand][0]) if isinstance(each, AddressOf))
    return next(found, "")
