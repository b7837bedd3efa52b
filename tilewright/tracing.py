"""`exe.trace(a, b)`: the marks of `T.trace`, stamped with the clock where the kernel runs.

The traced kernel is another one: it has one more parameter, an array of 64-bit words, which get the clock and the
mark's number. A store at each mark is what would cost: the release of a stage waits for it, 5 % of a matrix product on
an H200, where the clock and the counter cost nothing that can be measured. So a whole warp keeps its marks in
registers, a lane each, and stores 32 of them at once. A mark that only some lanes come to is stored by the lowest of
them, into a second row of the warp.

Clocks of different SMs have nothing in common: the marks of each CTA are counted from its first one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host, ir
from tilewright.dtypes import HANDLE, INT32, dtype
from tilewright.errors import ArgumentError
from tilewright.ir.launch import LANE, Uniformity
from tilewright.ir.numbers import evaluate
from tilewright.isa import call
from tilewright.verdict import TRACE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tilewright.compiler import Executable
    from tilewright.errors import Span
    from tilewright.sim import Recording

__all__ = ["Mark", "Trace", "traced", "traced_run"]

MARKS = 1024
"""Marks of a warp that are kept, unless a call says otherwise."""

CLOCK_BITS, COUNT_BITS = 40, 12
"""Of a word: the clock, how many marks of the whole warp came before, and above that the mark's number plus one."""

WHOLE = -1  # all lanes are active
WORDS, NOW = "trace_words", "trace_now"


@dataclass(frozen=True, slots=True)
class Mark:
    """A warp came to a mark. cta: number in the grid. cycle: from the CTA's first mark on."""

    name: str
    line: int
    cta: int
    warp: int
    cycle: int


@dataclass(frozen=True, repr=False)
class Trace:
    """The marks of a run, by CTA and warp, each warp's in its own order. lost: marks beyond those that were kept.

    unit: "cycles" of the GPU's clock, or "steps" of the simulator.
    """

    kernel: str
    marks: tuple[Mark, ...]
    lost: int
    unit: str

    @property
    def warps(self) -> tuple[tuple[int, int], ...]:
        """CTA and warp of all that have marks."""
        return tuple(dict.fromkeys((mark.cta, mark.warp) for mark in self.marks))

    def of(self, cta: int, warp: int) -> tuple[Mark, ...]:
        """The marks of one warp, in its order."""
        return tuple(mark for mark in self.marks if (mark.cta, mark.warp) == (cta, warp))

    def order(self, cta: int, warp: int) -> tuple[str, ...]:
        """Their names."""
        return tuple(mark.name for mark in self.of(cta, warp))

    def differs_from(self, recording: Recording) -> tuple[str, ...]:
        """The warps whose marks have another order in a recorded run, of those that both have; none: they agree."""
        differing = []
        for stream in recording.streams:
            marks = tuple(mark.name for mark in recording.marks(stream.cta, stream.warp))
            order = self.order(stream.cta, stream.warp)
            if order != marks[: len(order)] or (not self.lost and len(order) != len(marks)):
                differing.append(f"CTA {stream.cta}, warp {stream.warp}: {' '.join(order)}, and {' '.join(marks)}")
        return tuple(differing)

    def waits(self) -> list[tuple[str, str, int, int]]:
        """Pairs of marks that follow each other: how often, and the cycles between them in all, the longest first."""
        total: dict[tuple[str, str], list[int]] = {}
        for cta, warp in self.warps:
            marks = self.of(cta, warp)
            for a, b in pairwise(marks):
                total.setdefault((a.name, b.name), []).append(b.cycle - a.cycle)
        rows = [(a, b, len(gaps), sum(gaps)) for (a, b), gaps in total.items()]
        return sorted(rows, key=lambda row: -row[3])

    def events(self) -> dict[str, Any]:
        """As Chrome's trace viewer and Perfetto read them: a bar from each mark of a warp to its next one."""
        events: list[dict[str, Any]] = []
        for cta, warp in self.warps:
            marks = self.of(cta, warp)
            events += [{"ph": "X", "name": a.name, "cat": "mark", "pid": cta, "tid": warp, "ts": a.cycle,
                      "dur": b.cycle - a.cycle, "args": {"line": a.line}}
                     for a, b in zip(marks, (*marks[1:], marks[-1]), strict=True)]  # fmt: skip
        return {"traceEvents": events, "otherData": {"schema": TRACE, "kernel": self.kernel, "unit": self.unit}}

    def timeline(self, path: str | Path) -> None:
        """Write them into a file, to open at ui.perfetto.dev or chrome://tracing."""
        from tilewright.view.look import written

        written(path, json.dumps(self.events(), separators=(",", ":")))

    def page(self, recording: Recording, path: str | Path | None = None) -> str:
        """The page of a recorded run with these marks beside it. path: also written there."""
        from tilewright.view.look import page_of, written  # upwards, and only when somebody looks

        return written(path, page_of(recording, measured=self))

    def __repr__(self) -> str:
        lost = f", {self.lost} lost" if self.lost else ""
        return f"<Trace of {self.kernel}: {len(self.marks):,} marks of {len(self.warps)} warps, in {self.unit}{lost}>"

    def __str__(self) -> str:
        rows = [("from", "to", "times", f"{self.unit} in all", "each")]
        rows += [(a, b, f"{n:,}", f"{total:,}", f"{total / n:,.0f}") for a, b, n, total in self.waits()]
        return "\n".join([repr(self), *host.aligned(rows)])


# The traced kernel


def _marks_in(kernel: ir.Kernel) -> dict[tuple[str, Span | None], int]:
    """The marks of a lowered kernel and their numbers."""
    numbers: dict[tuple[str, Span | None], int] = {}
    for stmt in ir.statements(kernel.body):
        if isinstance(stmt, ir.Attr) and (name := stmt.mark) is not None:
            numbers.setdefault((name, stmt.at), len(numbers))
    return numbers


def traced(exe: Executable, marks: int = MARKS) -> tuple[Executable, tuple[tuple[str, Span | None], ...]]:
    """The kernel with its marks as stores into one more array, its last parameter; and the marks by their numbers.

    Raises ArgumentError for a kernel without marks.
    """
    kernel = exe.lowered
    numbers = _marks_in(kernel)
    if not numbers or kernel.compiled:
        raise ArgumentError(
            f"{exe.name} has no marks", given="no T.trace", allowed='T.trace("load") where a warp is at'
        )
    assert kernel.launch is not None
    pointer = ir.Var(f"{WORDS}_ptr", HANDLE)
    warps = -(-kernel.launch.threads // 32)
    words = ir.Buffer(WORDS, dtype("int64"), (_ctas(kernel) * (warps * 2 * marks),), "global", None, data=pointer)
    stamp = _Stamping(words, marks, warps)
    places, axes = count(), Uniformity(kernel)

    def change(stmt: ir.Stmt, *, some: bool) -> ir.Body | None:
        """some: do only some lanes of a warp come there, perhaps?"""
        if isinstance(stmt, ir.Attr) and (name := stmt.mark) is not None:
            return stamp.mark(numbers[name, stmt.at], next(places), some=some)
        conditions = [getattr(stmt, name) for name in ("cond", "start", "stop") if hasattr(stmt, name)]
        if some or not axes.of_all(conditions) & LANE:
            return None
        return ir.map_body((stmt,), lambda inner: None if inner is stmt else change(inner, some=True))

    params = (*kernel.params, pointer)
    body = (*stamp.head(), *ir.map_body(kernel.body, partial(change, some=False)), *stamp.tail())
    other = exe.changed(lambda _: replace(kernel, params=params, buffers=(*kernel.buffers, words), body=body))
    signature = exe.signature
    buffers = {**signature.buffers, pointer.name: words}
    other.signature = replace(signature, params=(*signature.params, pointer), buffers=buffers,
                              written=signature.written | {WORDS}, dense=signature.dense | {WORDS})  # fmt: skip
    other.kernel = replace(exe.kernel, params=(*exe.kernel.params, pointer), buffers=(*exe.kernel.buffers, words))
    return other, tuple(numbers)


def _ctas(kernel: ir.Kernel) -> ir.Expr:
    assert kernel.launch is not None
    x, y, z = map(ir.as_expr, kernel.launch.grid)
    return x * y * z


def _cta() -> ir.Expr:
    """The number of the CTA in the grid, x fastest."""
    x, y, z = (ir.special(f"ctaid.{axis}") for axis in "xyz")
    return x + ir.special("nctaid.x") * (y + ir.special("nctaid.y") * z)


class _Stamping:
    """The statements that marks become. first: of the warp's words; held: the mark that this lane keeps; whole: how
    many marks of the whole warp there were; some: how many to which this lane came, but not all.
    """

    def __init__(self, words: ir.Buffer, marks: int, warps: int) -> None:
        self.words, self.marks, self.warps = words, marks, warps
        self.first, self.whole, self.some = (ir.Var(f"trace_{name}", INT32) for name in ("first", "whole", "some"))
        self.held = ir.Var("trace_held", dtype("int64"))

    def head(self) -> ir.Body:
        """Before the kernel's own statements."""
        first = (_cta() * self.warps + ir.special("tid") // 32) * (2 * self.marks)
        zero = ir.as_expr(0)
        return (ir.Bind(self.first, first, mutable=False), ir.Bind(self.whole, zero),
                ir.Bind(self.some, zero), ir.Bind(self.held, ir.cast(zero, dtype("int64"))))  # fmt: skip

    def mark(self, number: int, place: int, *, some: bool) -> ir.Body:
        """The clock is read by all lanes, so that what is left to one of them is a store, which needs no branch. some:
        see `traced`; then nothing else of it costs registers there.
        """
        now, mask = ir.Var(f"{NOW}_{place}", dtype("int64")), ir.Var(f"trace_mask_{place}", INT32)
        clock = ir.cast(call("cuda.clock"), dtype("int64")) & (1 << CLOCK_BITS) - 1
        before = ir.cast(self.whole & (1 << COUNT_BITS) - 1, dtype("int64")) << CLOCK_BITS
        is_mine = ir.compare("==", self.whole & 31, ir.special("laneid"))
        together: ir.Body = (
            ir.Assign(self.held, ir.select(is_mine, now, self.held)),
            ir.Assign(self.whole, self.whole + 1),
            ir.If(ir.compare("==", self.whole & 31, ir.as_expr(0)), self._stored(self.whole - 32)),
        )
        is_lowest = ir.compare("==", mask & (ir.as_expr(1) << ir.special("laneid")) - 1, ir.as_expr(0))
        store = ir.Store(ir.Load(self.words, (self.first + self.marks + self.some,)), now)
        alone: ir.Body = (
            ir.If(ir.binary("and", is_lowest, self.some < self.marks), (store,)),
            ir.Assign(self.some, self.some + 1),
        )
        return (ir.Bind(now, clock | before | (number + 1 << CLOCK_BITS + COUNT_BITS), mutable=False),
                ir.Bind(mask, ir.cast(call("cuda.activemask"), INT32), mutable=False),
                *(alone if some else (ir.If(ir.compare("==", mask, ir.as_expr(WHOLE)), together, alone),)))  # fmt: skip

    def _stored(self, begin: ir.Expr) -> ir.Body:
        """Each lane stores the mark that it keeps. begin: the first of these 32."""
        at = begin + ir.special("laneid")
        is_kept = ir.binary("and", at < self.whole, at < self.marks)
        return (ir.If(is_kept, (ir.Store(ir.Load(self.words, (self.first + at,)), self.held),)),)

    def tail(self) -> ir.Body:
        """Behind the kernel's own statements."""
        return self._stored(self.whole & -32)


# A run of it


def traced_run(exe: Executable, args: tuple[Any, ...], marks: int) -> Trace:
    """Run the traced kernel where the arguments are, and read its marks."""
    if isinstance(marks, bool) or not isinstance(marks, int) or marks < 1:
        raise ArgumentError("no marks to keep", given=repr(marks), allowed="a whole number above 0, of each warp")
    traced_exe, names = traced(exe, marks)
    values = exe.bind(*args).values
    assert exe.lowered.launch is not None
    ctas = prod(int(evaluate(ir.as_expr(extent), values)) for extent in exe.lowered.launch.grid)
    warps = -(-exe.lowered.launch.threads // 32)
    array = _zeros(args, ctas * warps * 2 * marks)
    traced_exe(*args, array)
    words = np.asarray(array.cpu() if host.is_torch(array) else array.get() if hasattr(array, "get") else array)
    on_gpu = not isinstance(array, np.ndarray)
    return Trace(exe.name, tuple(_read(words.reshape(ctas, warps, 2, marks), names)), _lost(words, marks),
                 "cycles" if on_gpu else "steps")  # fmt: skip


def _zeros(args: tuple[Any, ...], count: int) -> Any:
    """An array where the arguments are: of torch, of CuPy, or of the host."""
    for value in args:
        array = host.behind(value)
        if host.is_on_gpu(array):
            if host.is_torch(array):
                import torch

                return torch.zeros(count, dtype=torch.int64, device=array.device)
            import cupy

            with cupy.cuda.Device(host.ordinal(host.device_of(array))):
                return cupy.zeros(count, np.int64)
    return np.zeros(count, np.int64)


def _read(words: NDArray[np.int64], names: tuple[tuple[str, Span | None], ...]) -> Iterator[Mark]:
    """Of each warp the first marks of both rows, by the clock; at one time as many of the whole warp came before."""
    marks = words.shape[-1]
    clocks, numbers = words & (1 << CLOCK_BITS) - 1, words >> CLOCK_BITS + COUNT_BITS
    fields = np.stack([clocks, words >> CLOCK_BITS & (1 << COUNT_BITS) - 1, numbers], -1)
    for cta in range(len(words)):
        used = numbers[cta] > 0
        first = int(clocks[cta][used].min()) if used.any() else 0
        for warp in range(words.shape[1]):
            stamps = ((1 - row, k, *fields[cta, warp, row, k].tolist()) for row, k in np.argwhere(used[warp]).tolist())
            ordered = sorted((clock, before, order, k, number) for order, k, clock, before, number in stamps)
            for clock, _, _, _, number in ordered[:marks]:
                name, at = names[number - 1]
                yield Mark(name, at.outermost.line if at else 0, cta, warp, clock - first)


def _lost(words: NDArray[np.int64], marks: int) -> int:
    """Warps of which a row is full: what came later is lost."""
    return int((words.reshape(-1, 2, marks)[:, :, -1] != 0).any(1).sum())
