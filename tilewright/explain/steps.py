"""The step that a kernel's text lacks between two of its lines: a barrier, a wait, a fence, a handover.

The statements that wait, commit or fence are found first; then what two threads that hand over data lack; then what
would order two racing accesses. Of compiled code, CUDA C++ or Python, the text around a line is read as its author
indents it: its branches and loops.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product, takewhile
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.explain.finding import Edit, advised, between, insert, joined, keyword, move
from tilewright.ir.launch import CTA, LANE, WARP
from tilewright.isa import INSTRUCTIONS, Fence
from tilewright.isa.calls import calls_at, calls_in
from tilewright.isa.forms import SCOPES
from tilewright.terms import Operand, Term, Told, barrier, call, fence, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.ir.launch import Uniformity
    from tilewright.isa import Bound, Form, Instruction, ProxyFence


_MARKS = str.maketrans("(){};:,", " " * 7)


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of a file. Its methods count them from 1."""

    lines: Sequence[str]

    @classmethod
    def around(cls, *places: Span) -> SourceText | None:
        """The text that all of these places are in; None where they are in several, or it cannot be read."""
        lines = linecache.getlines(places[0].file)
        is_one = all(at.file == places[0].file and at.line <= len(lines) for at in places)
        return cls(lines) if is_one else None

    def code(self, line: int) -> str:
        """A line without its comment."""
        return self.lines[line - 1].partition("//")[0].rstrip()

    def words(self, line: int) -> list[str]:
        """What a line says, without brackets: an `elif` is an `else` with an `if`."""
        return self.code(line).translate(_MARKS).replace("elif ", "else if ").split()

    def parts_of(self, array: str, line: int) -> set[str]:
        """The names by which a line has elements of an array: its own, or of pointers that the text makes of it."""
        named = {part.split()[-1] for part in _spaced(self.code(line)).split("[")[:-1] if part.split()}
        before = ";".join(map(self.code, range(1, line))).split(";")
        settings = (_spaced(part).split("=", 1) for part in before if "=" in part)
        pointers = {left.split()[-1] for left, right in settings if "*" in left and array in right.split()}
        return named & {array, *pointers}

    def indent(self, line: int) -> int:
        """Blanks in front of a line."""
        return len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip())

    def is_if(self, line: int) -> bool:
        """Does a branch begin here, with a condition?"""
        words = self.words(line)
        return words[:1] == ["if"] or words[:2] == ["else", "if"]

    def is_else(self, line: int) -> bool:
        """Does another branch of an `if` begin here?"""
        return self.words(line)[:1] == ["else"]

    def is_loop(self, line: int) -> bool:
        """Does a loop begin here?"""
        return self.words(line)[:1] in (["for"], ["while"])

    def leaves(self, line: int) -> bool:
        """Does a line return?"""
        return "return" in self.words(line)

    def ends(self, line: int) -> bool:
        """Does a statement, or its head, end with a line?"""
        return not self.code(line) or self.code(line)[-1] in ";{}:"

    def branches(self, line: int) -> Iterator[tuple[int, int]]:
        """The branches around a line: where each begins with its `if`, and its own head, the innermost first."""
        depth = self.indent(line)
        for head in range(line - 1, 0, -1):
            if not self.lines[head - 1].strip() or self.indent(head) >= depth:
                continue
            depth = self.indent(head) + (self.code(head).strip() == "{")
            if self.is_if(head) or self.is_else(head):
                start = head
                while start > 1 and self.is_else(start):
                    above = (k for k in range(start - 1, 0, -1) if self.words(k) and self.indent(k) <= depth)
                    start = next(above, 1)
                yield start, head


def _spaced(code: str) -> str:
    """The code of a line, its names between blanks."""
    marks = (mark if mark.isalnum() or mark in "_[=" else " * " if mark == "*" else " " for mark in code)
    return "".join(marks)


# The statements of a kernel that wait for an operation, commit it, or are a fence: found by what rows say they do.


def _forms() -> Iterator[tuple[Instruction, Form]]:
    return ((row, form) for row in INSTRUCTIONS.values() for form in row.forms)


def _call(row: Instruction, form: Form, n: int) -> Term:
    """A call of a form, with the keywords whose default another form has."""
    modifiers = form.wording.modifiers.items()
    others = {
        key: next(iter(table)) for key, table in modifiers if key in row.keywords and row.keywords[key] not in table
    }
    return call(row.name, *[n][: bool(row.operands)], **others)


@cache  # asked at each finding; of all rows one is looked for
def wait_call(group: str, *, n: int = 0, reads: bool = False) -> Term | None:
    """``T.ptx.cp_async.wait_group(0)``: the wait for all but the newest n commits of a group; None where there is none.

    reads: is it enough that the sources have been read?
    """
    wider: Term | None = None
    for row, form in _forms():
        if form.wait is not None and form.wait.group == group and (form.wait.pending is not None or not n):
            if form.wait.reads is reads:
                return _call(row, form, n)
            wider = wider or (None if form.wait.reads else _call(row, form, n))
    return wider


@cache
def commit_call(group: str, *, signals: bool) -> Term | None:
    """``T.ptx.tcgen05.commit(...)``: the commit of a group, one that signals an m-barrier or one that closes the group;
    None where there is none.
    """
    committing = ((row, form) for row, form in _forms() if form.commit is not None and form.commit.group == group)
    rows = (row for row, form in committing if bool(form.signals) is signals)
    return next((call(row.name, *[...][: bool(row.operands)]) for row in rows), None)


def fence_call(wanted: Fence | ProxyFence, *operands: object) -> Term:
    """``T.ptx.fence.proxy_async()``: the instruction that is this fence."""
    return call(_name_of(wanted), *operands)


@cache
def _name_of(wanted: Fence | ProxyFence) -> str:
    fences = ((row, form) for row, form in _forms() if form.fence is not None)
    return next(row.name for row, form in fences if wanted in map(form.fence_of, form.all_mods()))


# Handovers in a kernel's text: threads synchronise by flags, m-barriers or the cluster's barrier, and yet race.
#
# The signal comes after the earlier access, the wait before the later one, both at one place. Each needs its order, or
# a fence beside it, and a scope that holds the other thread. A step that is named can stand where it is put.


@dataclass(frozen=True, slots=True)
class StepDown:
    """A statement on the way down to an access, and the body that it stands in."""

    body: ir.Body
    stmt: ir.Stmt

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
    ways: dict[str, tuple[Edit, ...]] = {}
    for tell, heard in product((*tells, *early[::-1]), (*listens, *late)):
        if not (isinstance(tell, _Word) and isinstance(heard, _Word) and heard.waits and _meet(tell, heard)):
            continue
        is_early, is_late = tell in early and tell not in tells, heard in late and heard not in listens
        if not (is_early or is_late) or (is_early and not tell.near) or (is_late and not heard.near):
            continue
        texts = [f"the signal of line {tell.line} behind line {first}"] * is_early
        texts += [f"the wait of line {heard.line} before line {last}"] * is_late
        moves = [move(tell.line, first + 1, first + 1)] * is_early + [move(heard.line, last, last)] * is_late
        ways.setdefault("; ".join(texts), tuple(moves))
    return advised(next(iter(ways)), "order", ways=[*ways.values()][:MOST_WAYS]) if ways else None


def _meet(tell: _Word, heard: _Word) -> bool:
    return tell.tells and not heard.tells and tell.place == heard.place


def _may(word: _Word, between: list[_Item]) -> bool:
    """May other lanes of the warp signal or wait for a thread, since they have met it?"""
    return not word.warps or any(isinstance(item, _Met) for item in between)


def _lacks(word: _Word, between: list[_Item], scope: str) -> Told | None:
    """The missing step at one end: an order, a fence by the same warp, or a scope; None where there is none."""
    near = takewhile(lambda item: not (word.warps and isinstance(item, _Met)), reversed(between))
    fences = [item for item in near if isinstance(item, _Fenced) and item.warps == word.warps]
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
    if any(isinstance(item, (_Together, _Met)) for item in between):
        return None
    first, then = sorted((line, word.line))
    if not word.alone or word.warps:
        return None
    text = told("{} between line {} and line {}", barrier("warp"), first, then)
    return advised(text, "barrier", "warp", (first, then), barrier("warp"))


def _line(way: Steps) -> int:
    return _line_of(way[-1].stmt)


# The statements around an access


def _following(way: Steps) -> Iterator[tuple[ir.Stmt, tuple[ir.Stmt, ...]]]:
    """The statements after an access, nearest first, with the conditions around them that are not around the access."""
    for step in reversed(way):
        for stmt in step.body[step.index + 1 :]:
            yield from _inside(stmt, ())


def _preceding(way: Steps) -> Iterator[tuple[ir.Stmt, tuple[ir.Stmt, ...]]]:
    """The statements before an access, farthest first, with the conditions around them that are not around it."""
    for step in way:
        for stmt in step.body[: step.index]:
            yield from _inside(stmt, ())
        if isinstance(step.stmt, (ir.If, ir.While)):
            yield step.stmt, ()


def _inside(stmt: ir.Stmt, around: tuple[ir.Stmt, ...]) -> Iterator[tuple[ir.Stmt, tuple[ir.Stmt, ...]]]:
    yield stmt, around
    if isinstance(stmt, ir.If):
        for body in (stmt.then, stmt.orelse):
            for inner in body:
                yield from _inside(inner, (*around, stmt))
        return
    for inner in ir.statements((stmt,)):
        if inner is not stmt:
            yield inner, around


def _words(axes: Uniformity, stmts: Iterator[tuple[ir.Stmt, tuple[ir.Stmt, ...]]]) -> Iterator[_Item]:
    for stmt, around in stmts:
        line = _line_of(stmt)
        alone = any(isinstance(outer, ir.If) and axes.of(outer.cond) & LANE for outer in around)
        near = not any(isinstance(outer, ir.If) and axes.of(outer.cond) & (WARP | CTA) for outer in around)
        warps = tuple(id(outer) for outer in around if isinstance(outer, ir.If) and axes.of(outer.cond) & WARP)
        for bound in calls_at(stmt):
            if bound.form.sync is not None and bound.form.sync.scope not in ("warp", "poll"):
                yield _Met()
            fence = bound.fence
            if "warp" in (getattr(bound.form.sync, "scope", ""), getattr(fence, "scope", "")):
                yield _Together()
            elif isinstance(fence, Fence) and not fence.only:
                yield _Fenced(line, str(fence.sem), str(fence.scope), warps)
            for place, tells, sem, scope in _said(bound):
                waits = isinstance(stmt, ir.While) or bound.form.signal_of("wait") is not None
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
    names = (node.buffer.name for node in ir.walk(bound.operands[operand][0]) if isinstance(node, ir.AddressOf))
    return next(names, "")


# What orders two racing accesses: the missing step of a handover, or a barrier where one can stand and helps.
#
# A barrier can stand where all threads that it waits for come by: under no condition in which they differ, and not
# between taking and releasing a lock. It helps where it lies on the way from one access to the other.


BARRIERS = {"warp": LANE, "cta": LANE | WARP, "cluster": LANE | WARP | CTA}
"""By scope: the axes over which the threads that meet there differ."""
ROWS = {"warp": "cuda.warp_sync", "cta": "cuda.cta_sync", "cluster": "cuda.cluster_sync"}
SECOND = "or another array to write to"


@dataclass(frozen=True, eq=False, slots=True)
class KernelText:
    """The statements of a kernel as their author has them, none of compiled code; over what their values vary."""

    written: ir.Body
    axes: Uniformity

    def advice(self, scope: str, first: Span | None, then: Span | None, *, one_turn: bool) -> str | None:
        """What to change so that the access at line ``first`` comes before that at ``then``; None where that is not
        known.

        scope: a key of `BARRIERS`, of the narrowest that all racing threads meet at. one_turn: is it certain that both
        accesses are of one turn of the loops around them?
        """
        if first is None or then is None:
            return _barrier(told("{}", barrier(scope)), scope)
        before, after = self._ways(first, then)
        if not before or not after:
            return _by_lines(scope, first, then, one_turn=one_turn)
        return _waited_for(before, after) or _between(self.axes, scope, before, after, one_turn=one_turn)

    def _ways(self, *lines: Span | None) -> list[Steps]:
        return [_way(self.written, at) if at is not None else () for at in lines]

    def lock_advice(self, first: Span | None, then: Span | None) -> str | None:
        """The fence that is missing where accesses are made while a lock is held; None where none is."""
        return next((lock for way in self._ways(first, then) if (lock := _lock(way)) is not None), None)

    def handover(self, first: Span | None, then: Span | None, scope: str) -> str | None:
        """The missing step of threads that synchronise through memory; None where they do not, or use a lock."""
        before, after = self._ways(first, then)
        if not before or not after or _lock(before) or _lock(after):
            return None
        return handover_advice(self.axes, before, after, scope)

    def displaced(self, first: Span | None, then: Span | None) -> Told | None:
        """What to move where threads tell each other of something, too early or too late; None where they do not."""
        before, after = self._ways(first, then)
        return misplaced(self.axes, before, after) if before and after else None

    def arrivals_after(self, at: Span | None) -> Iterator[tuple[str, int]]:
        """The m-barriers that are arrived at behind a line: the name of the buffer, and the line."""
        for stmt, _ in _following(*self._ways(at)):
            for bound in calls_at(stmt):
                signal = bound.form.signal_of("arrive")
                if stmt.at and signal is not None:
                    yield name_of(bound, signal.barrier), stmt.at.line

    def inits(self, name: str) -> Iterator[tuple[int, int]]:
        """Where an m-barrier of a buffer is made for how many arrivals, 0 where its text does not say it."""
        for stmt, bound in calls_in(self.written):
            signal = bound.form.signal_of("init")
            if signal is not None and stmt.at and name_of(bound, signal.barrier) == name:
                yield stmt.at.line, int(ir.const_value(bound.operands["count"][0]) or 0)

    def statement_at(self, at: Span | None) -> ir.Stmt | None:
        """The last statement of a line's place."""
        (way,) = self._ways(at)
        return way[-1].stmt if way else None

    def kept_apart(self, at: Span | None, among: int) -> Span | None:
        """The innermost branch or loop around a line at which threads diverge, over the axes in ``among``."""
        (way,) = self._ways(at)
        return next((step.stmt.at for step in reversed(way[:-1]) if _parting(self.axes, step.stmt) & among), None)


def _barrier(text: Told, scope: str, *where: int) -> Told:
    return advised(text, "barrier", scope, where, barrier(scope))


def _in_between(scope: str, first: object, then: object, *where: int) -> Told:
    return _barrier(told("{} between {} and {}", barrier(scope), first, then), scope, *where)


def _by_lines(scope: str, first: Span, then: Span, *, one_turn: bool) -> Told:
    """The same for compiled code, which has lines and no statements."""
    if first.outer and then.outer and first.file == then.file and first.line > then.line and first.outer != then.outer:
        calls = f"the calls in line {first.outer.line} and line {then.outer.line}, or behind line {first.line}"
        return _barrier(told("{} between {}", barrier(scope), calls), scope, first.outer.line, then.outer.line)
    if (branches := _branches(first, then)) is not None:
        apart = f"between the branches of line {branches}, where their threads hand over"
        text = told("an m-barrier {}, or bar.sync with a number and a count of threads of its own in both", apart)
        return advised(text, "wait", scope, (first.line, then.line))
    if (condition := _condition_around(first, then)) is not None:
        text = told("what line {} reads into a variable before the `if` of line {}, {} behind that; {}", first.line,
                    condition, barrier(scope), SECOND)  # fmt: skip
        return _barrier(text, scope, condition)
    if first.line != then.line:
        return _in_between(scope, f"line {first.line}", f"line {then.line}", first.line, then.line)
    if first != then:
        return _in_between(scope, first, then, first.line, then.line)
    if one_turn:
        return _taken_apart(scope, then.line)
    turn = f"at the end of each turn of a loop around line {then.line}, outside of its `if`s"
    text = told("{} {}; where no loop is around it, between the two accesses", barrier(scope), turn)
    return _barrier(text, scope, then.line, then.line)


def for_all(met: Span | None, words: str, writer: Span | None = None) -> Told | None:
    """What to change where threads have ended in front of a barrier, by the text around it; None where that does not
    say it. words: of the barrier. writer: a place that such a thread writes before.
    """
    if met is None or met.outer is not None or (text := SourceText.around(met)) is None:
        return None
    for line in range(met.line - 1, 0, -1):
        if text.leaves(line):
            head = line if text.is_if(line) else next((start for start, _ in text.branches(line)), line)
            if writer is not None and writer.file == met.file and writer.line < head:
                instead = f"in front of the `return` of line {line}, or a branch around the work in its place"
                ways = [(move(met.line, head, head),)]
                return advised(told("{} {}", words, instead), "barrier", None, (met.line, head), ways=ways)
            around = f"a branch around the work instead of the `return` of line {line}, and"
            return advised(told("{} {} outside of it", around, words), "other", None, (line, met.line))
        if text.is_loop(line) and text.indent(line) < text.indent(met.line):
            turns = f"as many turns of the loop of line {line} for all threads, its condition around the work alone"
            return advised(told("{}", turns), "other", None, (line, met.line))
        if "__global__" in text.words(line):
            break
    return None


def _branches(first: Span, then: Span) -> int | None:
    """The line of the `if` in whose different branches two lines are; None where there is none. No barrier of all
    threads can stand in one of them.
    """
    if (text := SourceText.around(first, then)) is None:
        return None
    before, after = (dict(text.branches(at.line)) for at in (first, then))
    return next((start for start, head in before.items() if after.get(start, head) != head), None)


def _condition_around(first: Span, then: Span) -> int | None:
    """The line of the `if` whose condition reads at the first place and whose body writes at the other; None where
    there is none.
    """
    if first.line >= then.line or (text := SourceText.around(first, then)) is None:
        return None
    for _, head in text.branches(then.line):
        if text.is_if(head) and head <= first.line and not any(map(text.ends, range(head, first.line))):
            return head
    return None


def _taken_apart(scope: str, line: int, branch: ir.Stmt | None = None) -> Told:
    """One line that reads and writes, with a barrier in between."""
    outside = f" behind the `if` of line {_line_of(branch)}" if branch is not None else ""
    then = "then the store under that condition" if branch is not None else "then the rest"
    text = told(
        "line {} as two statements: what it reads into a variable, {}{}, {}; {}",
        *(line, barrier(scope), outside, then, SECOND),
    )
    return _barrier(text, scope, line)


def _way(body: ir.Body, at: Span) -> Steps:
    """From the kernel's body down to the last statement of a line's place; empty where there is none.

    Statements that prepare a tile call come before the access itself.
    """
    for stmt in reversed(body):
        if stmt.at == at:
            return (StepDown(body, stmt),)
        for inner in ir.bodies(stmt):
            if way := _way(inner, at):
                return (StepDown(body, stmt), *way)
    return ()


# A barrier between the two


def _between(axes: Uniformity, scope: str, before: Steps, after: Steps, *, one_turn: bool) -> str | None:
    depth = _common(before, after)
    around = [step.stmt for step in before[:depth]]
    parting = [stmt for stmt in around if _parting(axes, stmt) & BARRIERS[scope]]
    first, then = before[depth], after[depth]
    if first.body is then.body and first.index < then.index:
        advice = _in_order(scope, around, parting, _last_line(first.stmt), _line_of(then.stmt))
        return None if _stands(scope, first.body[first.index + 1 : then.index]) else advice
    turns = _each_turn(axes, scope, before, after)
    if first.stmt is not then.stmt or ir.bodies(first.stmt) or not (one_turn or turns is None):
        return turns
    branches = [stmt for stmt in parting if isinstance(stmt, ir.If)]
    if len(branches) < len(parting):
        return f"another array to write to than line {_line_of(first.stmt)} reads"
    apart = _taken_apart(scope, _line_of(first.stmt), branches[0] if branches else None)
    return _barrier(told("{}; and {}", apart, turns), scope, _line_of(first.stmt)) if turns else apart


def _each_turn(axes: Uniformity, scope: str, before: Steps, after: Steps) -> Told | None:
    """A barrier between two turns of the innermost loop around both accesses; None where one stands, or none can."""
    depth, among = _common(before, after), BARRIERS[scope]
    loop = next((k for k in reversed(range(depth)) if isinstance(before[k].stmt, (ir.For, ir.While))), None)
    if loop is None or any(_parting(axes, step.stmt) & among for step in before[: loop + 1]):
        return None
    behind = ""
    for k, step in enumerate(before[loop + 1 : depth + 1], loop + 1):
        until = after[depth].index if k == depth else step.index
        if _stands(scope, (*step.body[:until], *step.body[step.index + 1 :])):
            return None
        if k < depth and _parting(axes, step.stmt) & among:
            behind = f", behind the `if` of line {_line_of(step.stmt)}"
            break
    start, end = _line_of(before[loop].stmt), _last_line(before[loop].stmt)
    text = told("{} at the end of each turn of the loop at line {}{}", barrier(scope), start, behind)
    return _barrier(text, scope, end, start)


def _stands(scope: str, stmts: Sequence[ir.Stmt]) -> bool:
    """Is there a barrier among statements that is as wide?"""
    wide = list(ROWS.values())[list(ROWS).index(scope) :]
    calls = (node for stmt in stmts for node in ir.expressions(stmt) if isinstance(node, ir.Call))
    return any(call.op in wide and not call.args for call in calls)


def _in_order(scope: str, around: list[ir.Stmt], parting: list[ir.Stmt], start: int, end: int) -> Told | None:
    """Between two lines of one body, or, where threads diverge there, with their `if` cut in two."""
    if not parting:
        return _in_between(scope, f"line {start}", f"line {end}", start, end)
    if len(parting) == 1 and parting[0] is around[-1] and isinstance(parting[0], ir.If):
        twice = f"the `if` of line {_line_of(parting[0])} twice"
        text = told("{}, up to line {} and from line {}, {} between them", twice, start, end, barrier(scope))
        return _barrier(text, scope, start, end)
    return None


def _common(before: Steps, after: Steps) -> int:
    """How many steps both ways have in common, before they reach different statements of one body, or the access."""
    depth = 0
    most = min(len(before), len(after)) - 1
    while depth < most and before[depth].stmt is after[depth].stmt and before[depth + 1].body is after[depth + 1].body:
        depth += 1
    return depth


def _parting(axes: Uniformity, stmt: ir.Stmt) -> int:
    if isinstance(stmt, ir.If):
        return axes.of(stmt.cond)
    return axes.divergence(stmt) if isinstance(stmt, (ir.For, ir.While)) else 0


def _line_of(stmt: ir.Stmt) -> int:
    return stmt.at.line if stmt.at else 0


def _last_line(stmt: ir.Stmt) -> int:
    return max([_line_of(stmt), *(_line_of(inner) for body in ir.bodies(stmt) for inner in ir.statements(body))])


# Other means than a barrier


def _waited_for(before: Steps, after: Steps) -> str | None:
    """A wait for an m-barrier, where it is signalled between the first access and the other."""
    for step in reversed(before):
        until = next((other.index for other in after if other.body is step.body), len(step.body))
        for stmt in step.body[step.index + 1 : until]:
            for bound in calls_at(stmt):
                if (signal := bound.form.signal_of("arrive")) is not None:
                    last, pointer = _line_of(after[-1].stmt), Operand(str(bound.operands[signal.barrier][0]))
                    phase = f"the phase of the m-barrier that line {_line_of(stmt)} arrives at"
                    text = told("a wait for {}, before line {}", phase, last)
                    waits = [told("{}", call("ptx.mbarrier.try_wait", pointer, parity)) for parity in (0, 1)]
                    ways = [between(wait, _line_of(step.stmt), last) for wait in waits]
                    return advised(text, "wait", "cta", (_line_of(stmt), last), ways=ways)
    return None


def _lock(way: Steps) -> str | None:
    """A fence, where an access is between a loop that takes a lock by an atomic and the statement that releases it."""
    for step in reversed(way):
        takes = [stmt for stmt in step.body[: step.index] if isinstance(stmt, ir.While) and _atomic(stmt)]
        gives = [stmt for stmt in step.body[step.index + 1 :] if _atomic(stmt)]
        if takes and gives:
            return _fences(step, takes[-1], gives[0])
    return None


def _fences(step: StepDown, take: ir.Stmt, give: ir.Stmt) -> str | None:
    """The fences that are missing between a lock's loop, an access, and the release of the lock."""
    first, last = (next(k for k, stmt in enumerate(step.body) if stmt is end) for end in (take, give))
    ends = (f"after the loop at line {_line_of(take)}", _line_of(step.stmt), step.body[first + 1 : step.index])
    others = (f"before line {_line_of(give)}", _line_of(give), step.body[step.index + 1 : last])
    lacks = [(where, line) for where, line, stmts in (ends, others) if not any(_is_fence(stmt) for stmt in stmts)]
    if not lacks:
        return None
    places = ", and again ".join(where for where, _ in lacks)
    text = told("{} {}: no barrier can stand where a lock is held", call("cuda.thread_fence"), places)
    ways = [tuple(insert(told("{}", call("cuda.thread_fence")), line) for _, line in lacks)]
    return advised(text, "fence", "gpu", (lacks[0][1],), call("cuda.thread_fence"), ways)


def _is_fence(stmt: ir.Stmt) -> bool:
    return any(isinstance(bound.fence, Fence) for bound in calls_at(stmt))


def _atomic(stmt: ir.Stmt) -> bool:
    """Does a statement hold an atomic whose spelling has no order?"""
    inner = (bound for _, bound in calls_in((stmt,)) if "sem" not in bound.mods)
    return any(access.rmw for bound in inner for access in bound.form.accesses)
