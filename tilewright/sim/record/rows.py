"""The statements of a lowered kernel as rows of a recording; those of some warps one by one: lanes, values, addresses,
registers; and which events a finding is about.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.dtypes import VOID
from tilewright.isa import Bound, Ptx, bind, product_of
from tilewright.sim.record.recording import FindingMoment, Row, Step, Steps, Stretch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilewright.errors import Span
    from tilewright.explain import Finding, OtherAccess, Threads
    from tilewright.sim.machine import Array, Bools, Device, Ints, Value, Wave
    from tilewright.sim.record.recorder import Recorder
    from tilewright.sim.record.recording import Event, EventPlace, Growing, OpenOperation


# The statements of a lowered kernel as rows of a recording: their text, and what one execution counts.


KINDS: dict[type[ir.Stmt], str] = {
    ir.Bind: "let", ir.Assign: "let", ir.Store: "store", ir.Evaluate: "call", ir.If: "if", ir.For: "loop",
    ir.While: "loop",
}  # fmt: skip


def row_of(stmt: ir.Stmt, text: str, inside: int | None) -> Row:
    """The row of a statement; what is inside of a loop or branch has rows of its own. inside: as of `Row`."""
    calls = [node for node in ir.expressions(stmt) if isinstance(node, ir.Call)]
    bounds = [bind(call) for call in calls]
    commits = next((b.form.commit.group for b in bounds if b.form.commit and not b.form.signals), "")
    told = [b for b in bounds if isinstance(b.form.wording, Ptx)]
    mnemonic = next((b.mnemonic for b in sorted(told, key=lambda b: not b.form.concerns_operations)), "")
    kind = KINDS.get(type(stmt), "other")
    signals = tuple(dict.fromkeys(name for b in bounds for name in _told(b)))
    counts, (defines, uses) = _counts(ir.expressions(stmt), stmt), _flow(stmt)
    product = next(filter(None, map(product_of, bounds)), None)
    is_integer = any(str(b.mods.get("type"))[:1] in "sub" for b in bounds)
    turns, is_unrolled = (_turns(stmt), stmt.kind != "serial") if isinstance(stmt, ir.For) else (None, False)
    return Row(text, kind, stmt.at, counts, commits, mnemonic, signals, defines, uses, turns, is_unrolled, product,
               is_integer, inside)  # fmt: skip


def _flow(stmt: ir.Stmt) -> tuple[str, frozenset[str]]:
    """The name of what gets a statement's value, of a call that of its first pointer; and of what it reads."""
    match stmt:
        case ir.Bind() | ir.Assign():
            defines, read = stmt.var.name, [*ir.walk(stmt.value)]
        case ir.Store():
            defines, read = stmt.place.buffer.name, [*ir.walk((*stmt.place.indices, stmt.value))]
        case ir.Evaluate(value=ir.Call(args=(ir.AddressOf() as first, *_))):
            defines, read = first.buffer.name, [*ir.expressions(stmt)]
        case _:
            defines, read = "", [*ir.expressions(stmt)]
    named = (node for node in read if isinstance(node, ir.Var | ir.Load | ir.AddressOf))
    return defines, frozenset(node.name if isinstance(node, ir.Var) else node.buffer.name for node in named)


def _turns(loop: ir.For) -> int | None:
    start, stop = ir.const_value(loop.start), ir.const_value(loop.stop)
    return len(range(start, stop, loop.step)) if isinstance(start, int) and isinstance(stop, int) else None


def _told(bound: Bound) -> Iterable[str]:
    """The buffers whose m-barriers a call tells, or the operation that it begins."""
    for signal in bound.form.signals:
        for operand in bound.operands.get(signal.barrier, ()) if signal.kind in ("arrive", "bytes") else ():
            yield from (node.buffer.name for node in ir.walk(operand) if isinstance(node, ir.AddressOf))


def row_of_call(call: ir.Call, kind: str, text: str, at: Span | None) -> Row:
    """The row of a call at which threads wait, of no loop: they are cut there. kind: "meet" or "ask"."""
    _, uses = _flow(ir.Evaluate(call))
    return Row(text, kind, at, {bind(call).instruction.name: 1}, uses=uses)


def _counts(nodes: Iterable[ir.Expr], stmt: ir.Stmt) -> dict[str, int]:
    nodes = tuple(nodes)
    inner = {id(part) for node in nodes if isinstance(node, ir.Load | ir.AddressOf)
             for index in node.indices for part in ir.walk(index)}  # fmt: skip
    target = id(stmt.place) if isinstance(stmt, ir.Store) else 0
    total: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ir.Call):
            total[bind(node).instruction.name] += 1
        elif isinstance(node, ir.Load):
            if node.buffer.space != "local":
                total[f"{'store' if id(node) == target else 'load'} {node.buffer.space.partition('.')[0]}"] += 1
        elif isinstance(node, ir.Binary | ir.Unary | ir.Select | ir.Cast) and node.dtype is not VOID:
            if id(node) in inner:
                total["address"] += 1
            else:
                total[_operator(node)] += node.dtype.lanes
    return dict(total)


def _operator(node: ir.Binary | ir.Unary | ir.Select | ir.Cast) -> str:
    kind = node.dtype if not isinstance(node, ir.Binary) or node.dtype.kind != "bool" else node.a.dtype
    word = {ir.Select: "select", ir.Cast: "cast"}.get(type(node)) or getattr(node, "op", "")
    return f"{str(kind).partition('x')[0]} {word}"


# The statements of some warps one by one: lanes, values, the addresses that they touch, the registers that change.


POWERS = 1 << np.arange(32, dtype=np.uint64)


@dataclass(slots=True)
class OpenStep:
    """A step that its statement's effects are still added to."""

    seq: int
    row: int
    lanes: int
    value: Array | None = None
    touched: list[tuple[int, Ints]] = field(default_factory=list)
    registers: list[tuple[int, int, Array]] = field(default_factory=list)
    tmem: tuple[int, int, Array] | None = None


class Detailed:
    """The steps of one warp while they are written. room: bytes that may still be kept; tmem: what tensor memory
    held, by CTA; all of them share both.
    """

    def __init__(self, cta: int, warp: int, room: list[int], tmem: dict[int, Array]) -> None:
        self.cta = cta
        self.warp = warp
        self.room = room
        self.tmem = tmem
        self.steps: list[OpenStep] = []
        self.before: dict[str, Array] = {}
        self.is_whole = True
        self.may_change = True  # may the last statement have changed registers?

    def begin(self, seq: int, row: int, lanes: Bools, wave: Wave, *, computes: bool) -> None:
        """Another statement; what the last one did to registers is added to it. computes: does it change none?"""
        if self.may_change:
            self.settle(wave)
        self.may_change = not computes
        self.room[0] -= 16
        if self.room[0] < 0:
            self.is_whole = False
            return
        self.steps.append(OpenStep(seq, row, int(POWERS[lanes].sum())))

    def keep(self, value: Value, i: int, j: int) -> None:
        """The value that the statement gives its variable; i, j: the warp's place in a batch."""
        array = np.asarray(value)
        if not self.steps or not self.is_whole or array.dtype.kind not in "biuf" or array.ndim > 4:
            return
        if array.ndim >= 3:
            array = array[i if len(array) > 1 else 0, j if array.shape[1] > 1 else 0]
        kept = np.array(array.reshape(-1) if array.ndim != 2 else array)
        self.room[0] -= kept.nbytes
        self.steps[-1].value = kept

    def touch(self, site: int, addresses: Ints) -> None:
        """The addresses of an access of the statement."""
        if self.steps and self.is_whole:
            lanes = np.array(np.broadcast_to(addresses, 32))
            self.room[0] -= lanes.nbytes
            self.steps[-1].touched.append((site, lanes))

    def settle(self, wave: Wave) -> None:
        """Adds the registers that have changed since the last statement began."""
        if not self.is_whole or not wave.registers:
            return
        if "tmem" in vars(wave) and self.steps:
            self._settle_tmem(wave.tmem[self.cta - wave.first].T, self.steps[-1])
        for number, (name, registers) in enumerate(wave.registers.items()):
            view = registers.view(min(4, registers.unit))[self.cta - wave.first, self.warp]
            before = self.before.get(name)
            if before is None or not np.array_equal(view, before):
                self.before[name] = view.copy()
                if before is not None and self.steps:
                    self._changed(self.steps[-1], number, view, before)

    def _settle_tmem(self, now: Array, step: OpenStep) -> None:
        """The cells that have changed since any warp looked last. now: (lanes, columns)."""
        before = self.tmem.get(self.cta)
        changed = now != (0 if before is None else before)
        if changed.any():
            self.tmem[self.cta] = now.copy()
            lanes, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
            box = now[lanes[0] : lanes[-1] + 1, columns[0] : columns[-1] + 1].copy()
            step.tmem = int(lanes[0]), int(columns[0]), box
            self.room[0] -= box.nbytes

    def _changed(self, step: OpenStep, number: int, view: Array, before: Array) -> None:
        """The words of a buffer that differ. view: (units, 32, words of a unit)."""
        now, was = (np.swapaxes(state, 1, 2).reshape(-1, 32) for state in (view, before))
        changed = np.flatnonzero((now != was).any(1))
        step.registers += [(number, int(word), now[word].copy()) for word in changed]
        self.room[0] -= 140 * len(changed)

    def done(self, run: Device) -> Steps:
        """All of them."""
        names = tuple(place.name for place in run.places.locals)
        steps = (Step(step.seq, step.row, step.lanes, step.value, tuple(step.touched), tuple(step.registers), step.tmem)
                 for step in self.steps)  # fmt: skip
        return Steps(self.cta, self.warp, names, tuple(steps), self.is_whole)


# Which events of a recording a finding is about: the statement that was executed then, and the access before it.
#
# The check has told the finding while the statement was under way, so that the last event of its warp is that one. The
# other access is the last one, by the threads that the finding names, to bytes that the statement touches: of what may
# be still under way the oldest operation.


Line: TypeAlias = "tuple[str | None, int | None]"
Spans: TypeAlias = list[tuple[int, int, int]]
"""First byte, the one behind the last, and the lane."""


def moment_of(rec: Recorder, finding: Finding) -> FindingMoment:
    """Now, for a finding that was just made."""
    at = finding.file, finding.line
    if finding.kind == "leaks":
        return FindingMoment(rec.seq, _issue(rec, at))
    stream = _stream(rec, finding.threads) or _current(rec)
    if stream is None or not stream.events:
        return FindingMoment(rec.seq)
    here = _place(rec, stream, at, _step(rec, stream, at))
    step = _steps(rec, stream)[here[2]] if here[2] >= 0 else None
    lanes = next((threads.lanes for threads in finding.threads if threads.lanes), (-1, -1))
    if finding.other is None:
        return FindingMoment(rec.seq, here, None, lanes[0])
    other, lane = _other(rec, finding.other, here, _touched(rec, step))
    return FindingMoment(rec.seq, here, other, lane if lane >= 0 else lanes[0])


def _stream(rec: Recorder, threads: tuple[Threads, ...]) -> Growing | None:
    """The first warp of the threads that is recorded."""
    every = (rec.by_cta[who.ctas[0]][who.warps[0] if who.warps else 0] for who in threads if who.ctas[0] in rec.by_cta)
    return next(every, None)


def _current(rec: Recorder) -> Growing | None:
    """The first warp that is executing."""
    if rec.running is None or rec.team is None or rec.team.shape[:2] != rec.running.shape[:2]:
        return next((stream for _, _, stream in rec.streams), None)
    return next((stream for _, _, stream in rec.active(rec.team)), None)


def _number(rec: Recorder, stream: Growing) -> int:
    """Its place among the streams of the recording."""
    return sorted(rec.by_cta).index(stream.cta) * rec.run.warps + stream.warp


def _place(rec: Recorder, stream: Growing, at: Line, step: int) -> EventPlace:
    """The last event of a line, or else the last one."""
    last = len(stream.events) - 1
    k = next((k for k in range(last, -1, -1) if at in _lines(rec, stream.events[k])), last)
    return _number(rec, stream), k, step


def _lines(rec: Recorder, event: Event) -> set[Line]:
    """The lines of an event."""
    rows = [row for row, _ in event.executed] if isinstance(event, Stretch) else [event.row]
    return {line for row in rows if row >= 0 for line in _of_span(rec.rows[row].at)}


def _of_span(at: Span | None) -> Iterator[Line]:
    """The line of a statement, and those that call the function in which it stands."""
    while at is not None:
        yield at.file, at.line
        at = at.outer


def _steps(rec: Recorder, stream: Growing) -> list[OpenStep]:
    detailed: Detailed | None = rec.detailed.get((stream.cta, stream.warp))
    return detailed.steps if detailed is not None else []


def _step(rec: Recorder, stream: Growing, at: Line) -> int:
    """The last statement of a line, or else the last one; -1 where none is kept."""
    return next((k for k, _ in _backwards(rec, stream, at)), len(_steps(rec, stream)) - 1)


def _backwards(rec: Recorder, stream: Growing, at: Line) -> Iterator[tuple[int, OpenStep]]:
    steps = _steps(rec, stream)
    for k in range(len(steps) - 1, -1, -1):
        if at in _of_span(rec.rows[steps[k].row].at):
            yield k, steps[k]


def _touched(rec: Recorder, step: OpenStep | None) -> dict[str, Spans]:
    """Bytes that the active lanes of a statement touch, by buffer; of shared memory all together."""
    touched: dict[str, Spans] = {}
    for site, addresses in step.touched if step is not None else ():
        access = rec.sites[site].row
        active = (lane for lane in range(32) if step is not None and step.lanes >> lane & 1)
        spans = touched.setdefault("" if access.space == "shared" else access.buffer, [])
        spans += [(int(addresses[lane]), int(addresses[lane]) + access.width, lane) for lane in active]
    return touched


def _lane(a: dict[str, Spans], b: dict[str, Spans]) -> int:
    """The first lane of ``a`` that touches some of the same bytes; -1 where none does."""
    meet = (
        lane for name in a.keys() & b.keys() for x, y, lane in a[name] if any(x < v and u < y for u, v, _ in b[name])
    )
    return min(meet, default=-1)


def _other(
    rec: Recorder, other: OtherAccess, here: EventPlace, touched: dict[str, Spans]
) -> tuple[EventPlace | None, int]:
    """The last access of a line to what is touched, by the finding's threads, or the operation of that line; and the
    lane that clashes with it.
    """
    at, who = (other.file, other.line), _stream(rec, other.threads)
    cta = next(stream.cta for stream in _all(rec) if _number(rec, stream) == here[0])
    if (running := _operation(rec, other, who, cta, touched)) is not None:
        return (-1, running.number, -1), _lane(touched, _spans(running))
    for stream in _all(rec) if who is None else [who]:
        number = _number(rec, stream)
        for k, step in _backwards(rec, stream, at):
            lane = _lane(touched, _touched(rec, step))
            if lane >= 0 and (number, k) != (here[0], here[2]):
                return (number, _event_at(rec, stream, step.seq, at), k), lane
    return (None if who is None or not who.events else _place(rec, who, at, _step(rec, who, at))), -1


def _all(rec: Recorder) -> list[Growing]:
    return [stream for every in rec.by_cta.values() for stream in every]


def _event_at(rec: Recorder, stream: Growing, seq: int, at: Line) -> int:
    """The event of a statement that was begun behind the event of this number."""
    after = (k for k, event in enumerate(stream.events) if (event.seq > seq or k + 1 == len(stream.events)
             or stream.events[k + 1].seq > seq) and at in _lines(rec, event))  # fmt: skip
    return next(after, len(stream.events) - 1)


def _spans(operation: OpenOperation) -> dict[str, Spans]:
    return {"": [(first, end, 0) for first, end in operation.spans]}


def _operation(
    rec: Recorder, other: OtherAccess, who: Growing | None, cta: int, touched: dict[str, Spans]
) -> OpenOperation | None:
    """The newest operation of a line that touches some of these bytes; of those that are not complete the oldest."""
    name, at = other.op.removeprefix("ptx."), (other.file, other.line)
    every = [op for op in rec.operations if at in _of_span(op.data.at) and op.data.name.removeprefix("ptx.") == name
             and (op.data.cta == cta if who is None else (op.data.cta, op.data.warp) == (who.cta, who.warp))
             and (not touched.get("") or not op.spans or _lane(touched, _spans(op)) >= 0)]  # fmt: skip
    return next((op for op in every if op.data.completed is None), every[-1] if every else None)


def _issue(rec: Recorder, at: Line) -> EventPlace | None:
    """The first operation of a line that is not complete."""
    ops = (op for op in rec.operations if op.data.completed is None and at in _of_span(op.data.at))
    return next(((-1, op.number, -1) for op in ops), None)
