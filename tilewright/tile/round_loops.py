"""The loops over the runs of a `Distribution`: what is loaded, computed and stored of each, or done with it instead.

The runs of a few rounds are loaded before the first of them is stored, so that several accesses are on their way. Where
a tile may leave its buffer, one test of the whole tile chooses between these loops without further tests and the same
loops with a test of each run, and of each element of a run that is partly outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import ir
from tilewright.dtypes import INT32, INT64
from tilewright.primitives.copy import FILL
from tilewright.tile.call import Side, TileCall, own_digits
from tilewright.tile.distribution import LETTERS, Distribution, covered, flattened
from tilewright.tile.elements import Computation, Moving, indexed
from tilewright.tile.owners import all_hold, inside_tests
from tilewright.tile.runs import Runs
from tilewright.tile.steps import Builder
from tilewright.tile.walks import digits_of, plus, times

Write: TypeAlias = Callable[[], None]
Each: TypeAlias = Callable[[ir.Value], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """The run of a round. place: in the batch of rounds that are loaded at once. access: its number among those of all
    threads, or among the thread's own. asked: is it to be tested if it is inside?
    """

    place: ir.Value
    round: ir.Value
    access: ir.Value
    asked: bool


Step: TypeAlias = Callable[["Writer", Turn], None]
"""What is done with a run."""


def emit_runs(plan: Distribution, call: TileCall, out: Builder, instead: Step | None = None) -> None:
    """Loads, computes and stores; or does something else ``instead`` with each run."""
    if plan.rows is None:
        Writer(plan, covered(call), out, instead).write()
    else:
        RowWriter(plan, flattened(call), out, instead).write()


def emit_copies(plan: Distribution, call: TileCall, out: Builder) -> None:
    """A copy of one run after the other, from memory to memory."""
    emit_runs(plan, call, out, _copied)


def _copied(writer: Writer, turn: Turn) -> None:
    dst, src = writer.pointers(turn, "dst", "src")
    writer.out.call("cuda.copy_bytes", dst, src, writer.plan.nbytes)


class Writer:
    """Writes one plan whose offsets are listed. (Mutable: the builder.)"""

    def __init__(self, plan: Distribution, call: TileCall, out: Builder, instead: Step | None) -> None:
        self.plan, self.call, self.out, self.instead = plan, call, out, instead
        self.values: dict[str, ir.Expr] = {}
        self.loaded: dict[str, ir.Buffer] = {}
        self.alike = False  # do all elements have one value, of which a run is in registers?
        fill = call.option(FILL)
        self.fill = fill if isinstance(fill, (int, float)) else None

    def write(self) -> None:
        plan, call, out = self.plan, self.call, self.out
        self.prepare([name for name, _ in plan.offsets])
        with out.when(plan.guard):
            self.starts = {name: out.offsets(offset, LETTERS[call[name].space]) for name, offset in plan.offsets}
            self.number = None if plan.number is None else out.offsets(plan.number, "e")
            whole = all_hold(self.tile_tests()) if plan.asked and (plan.parts or plan.vector == 1) else None
            if whole is None:
                self.rounds(asked=plan.asked)
            else:
                out.either(whole, lambda: self.rounds(asked=False), lambda: self.rounds(asked=True))

    @property
    def computing(self) -> Computation | Moving:
        """What each element becomes."""
        assert self.plan.computing is not None, "a plan without one is not written so"
        return self.plan.computing

    def prepare(self, in_memory: Sequence[str]) -> None:
        """The values, each computed once, and registers for runs of the tiles in memory."""
        if self.instead is not None:
            return
        for name, value in self.call.scalars.items():
            typed = self.computing.typed(name, value)
            fixed = isinstance(typed, ir.Const) or indexed(typed)
            self.values[name] = typed if fixed else self.out.let(name, typed)
        for name in in_memory:
            side, word = self.call[name], "out" if name == "dst" else "run"
            count = self.plan.batch * (1 if name in self.plan.single else self.plan.vector)
            if name != "dst" or self.plan.vector > 1:
                self.loaded[name] = self.out.local(f"{side.name}_{word}", count, str(side.dtype)).flat()
        self.alike = len(self.call.sides) == 1 and "dst" in self.loaded and not any(map(indexed, self.values.values()))
        if self.alike:
            with self.out.loop("e", self.plan.vector) as e:
                self.out.store(self.loaded["dst"], e, self.computing.of({}, self.values))

    def tile_tests(self) -> list[ir.Expr]:
        """The conditions under which all regions are inside of their buffers as a whole."""
        tests: list[ir.Expr] = []
        for side in self.call.tiles:
            last = [ir.as_expr(extent) - 1 for extent in side.extents]
            tests += inside_tests(self.call, side, [0] * len(last), last)
        return once_each(tests)

    def rounds(self, *, asked: bool) -> None:
        plan, out = self.plan, self.out
        kind = "unroll" if plan.slots else "serial"
        with ExitStack() as stack:
            turns = out.loop("f", plan.rounds // plan.batch, kind, always=plan.computing is None)
            group = times(stack.enter_context(turns), plan.batch)
            for step in self.steps():
                with ExitStack() as inner:
                    u = inner.enter_context(out.loop("u", plan.batch, "unroll"))
                    round_ = plus(group, u)
                    number = plus(times(round_, plan.threads), self.call.scope.index)
                    if plan.accesses:
                        inner.enter_context(out.when(ir.binary("<", number, plan.accesses)))
                    access = round_ if plan.spread else number
                    step(self, Turn(u, round_, access, asked))

    def steps(self) -> list[Step]:
        """What is written for the runs of a batch, one after the other."""
        if self.instead is not None:
            return [self.instead]
        return [Writer.load, Writer.store] if set(self.loaded) - {"dst"} else [Writer.store]

    def asked(
        self, turn: Turn, tiles: Sequence[Side], whole: Write, element: Each, outside: Each | None = None
    ) -> None:
        """A run as a whole where it is inside of these tiles' buffers, else those of its elements that are.

        outside: writes the statements for the others.
        """
        plan, out = self.plan, self.out
        tests = self.tests(turn, tiles)
        together = all_hold(tests(0, plan.vector - 1 if plan.parts else 0))

        def one_by_one() -> None:
            with out.loop("e", plan.vector, "unroll") as e:
                inside = all_hold(tests(e, e)) if plan.vector > 1 and plan.parts else None
                if outside is None:
                    with out.when(inside):
                        element(e)
                elif inside is None:
                    outside(e)
                else:
                    out.either(inside, lambda: element(e), lambda: outside(e))

        if (plan.vector > 1 and plan.parts) or (outside is not None and together is not None):
            out.either(together, whole, one_by_one)
        else:
            with out.when(together):
                whole()

    def tests(self, turn: Turn, tiles: Sequence[Side]) -> Callable[[ir.Value, ir.Value], list[ir.Expr]]:
        """The conditions under which the elements from one to another of a run are inside."""
        assert self.number is not None
        number = self.out.let("element", self.number(turn.access))
        extents = self.call["dst"].extents
        return lambda first, last: self.inside(
            digits_of(plus(number, first), extents), digits_of(plus(number, last), extents), tiles
        )

    def inside(self, first: Sequence[ir.Value], last: Sequence[ir.Value], tiles: Sequence[Side]) -> list[ir.Expr]:
        """The conditions under which these tiles are inside of their buffers between these coordinates of dst."""
        tests: list[ir.Expr] = []
        for side in tiles:
            begin, end = (own_digits(side, digits, self.call["dst"].extents) for digits in (first, last))
            tests += inside_tests(self.call, side, begin, end)
        return once_each(tests)

    def load(self, turn: Turn) -> None:
        """The runs of all sources in memory."""
        call, out, plan, u = self.call, self.out, self.plan, turn.place
        sources = [name for name in self.loaded if name != "dst"]
        at = {name: self.at(name, turn) for name in sources}

        def runs() -> None:
            for name in sources:
                flat, count = call[name].buffer.flat(), 1 if name in plan.single else plan.vector
                self.moved(self.loaded[name], times(u, count), flat, at[name], count)

        def one(e: ir.Value) -> None:
            for name in sources:
                single = name in plan.single
                here = ir.Load(call[name].buffer.flat(), (ir.as_expr(at[name] if single else plus(at[name], e)),))
                out.store(self.loaded[name], u if single else plus(times(u, plan.vector), e), here)

        def filled(e: ir.Value) -> None:
            out.store(self.loaded["src"], plus(times(u, plan.vector), e), ir.cast(self.fill, call["src"].dtype))  # type: ignore[arg-type]  # asked first

        if not turn.asked:
            runs()
        elif self.fill is None:
            self.asked(turn, call.tiles, runs, one)
        else:
            self.asked(turn, [call[name] for name in sources], runs, one, filled)

    def moved(self, to: ir.Buffer, into: ir.Value, source: ir.Buffer, at: ir.Value, count: int) -> None:
        """A run from one memory to another by one access."""
        nbytes = count * to.dtype.bits // 8
        if count == 1:
            self.out.store(to, into, ir.Load(source, (ir.as_expr(at),)))
        else:
            self.out.call(
                "cuda.copy_bytes", *(ir.AddressOf(b, (ir.as_expr(i),)) for b, i in ((to, into), (source, at))), nbytes
            )

    def pointers(self, turn: Turn, *names: str) -> list[ir.Expr]:
        """Pointers to where the run starts in these tiles."""
        places = {name: start(turn.access) for name, start in self.starts.items() if name in names}
        sides = {name: self.call[name] for name in places}
        pointers = {name: self.out.pointer(f"{LETTERS[side.space]}_ptr", side.buffer.flat(), places[name])
                    for name, side in sides.items()}  # fmt: skip
        return [pointers[name] for name in names]

    def at(self, name: str, turn: Turn) -> ir.Value:
        """Where the run of a tile starts."""
        where = self.starts[name](turn.access)
        return where if isinstance(where, int) else self.out.let(f"{self.call[name].name}_at", where)

    def store(self, turn: Turn) -> None:
        """Computes, and stores to dst."""
        plan, out, dst = self.plan, self.out, self.call["dst"]
        flat, in_memory, several = dst.buffer.flat(), dst.space != "local", self.loaded.get("dst")
        at = self.at("dst", turn) if in_memory else 0
        begin = 0 if self.alike else times(turn.place, plan.vector)

        def put(e: ir.Value, value: ir.Expr) -> None:
            """An element into the registers of a run, or where it belongs."""
            if several is not None:
                out.store(several, plus(begin, e), value)
            else:
                out.store(flat, at if in_memory else self.slot("dst", turn, e), value)

        def whole() -> None:
            if plan.pairs:
                with out.loop("e", plan.vector // 2, "unroll") as e:
                    both = self.paired(turn, times(e, 2))
                    for half in (0, 1):
                        put(plus(times(e, 2), half), ir.Component(both, half))
            elif not self.alike:
                with out.loop("e", plan.vector, "unroll") as e:
                    put(e, self.computed(turn, e))
            if several is not None:
                self.moved(flat, at, several, begin, plan.vector)

        def one(e: ir.Value) -> None:
            out.store(flat, plus(at, e) if in_memory else self.slot("dst", turn, e), self.computed(turn, e))

        if turn.asked:
            self.asked(turn, self.call.tiles if self.fill is None else [dst], whole, one)
        else:
            whole()

    def paired(self, turn: Turn, e: ir.Value) -> ir.Expr:
        """The values of an element and of the next one, as a vector that has a name."""
        assert isinstance(self.computing, Computation), "asked first"
        halves = [self._elements(turn, plus(e, half)) for half in (0, 1)]
        kind = self.call.dtype.with_lanes(2)
        sources: dict[str, ir.Expr] = {
            name: ir.Vector((first, halves[1][name]), first.dtype.with_lanes(2)) for name, first in halves[0].items()
        }
        sources |= {name: ir.cast(ir.cast(value, self.call.dtype), kind) for name, value in self.call.scalars.items()}
        return self.out.let("pair", self.computing.of_pairs(sources))

    def computed(self, turn: Turn, e: ir.Value) -> ir.Expr:
        """The value of an element."""
        values = self.values
        if isinstance(self.computing, Computation) and any(map(indexed, values.values())):
            values = self.computing.at(values, self.coordinates_of(turn, e))
        return self.computing.of(self._elements(turn, e), values)

    def coordinates_of(self, turn: Turn, e: ir.Value) -> Sequence[ir.Value]:
        """Where an element of dst is."""
        assert self.number is not None, "the plan has it where a value asks"
        return digits_of(plus(self.number(turn.access), e), self.call["dst"].extents)

    def slot(self, name: str, turn: Turn, e: ir.Value) -> ir.Value:
        """Where a register tile has the element of a round."""
        base, walk = dict(self.plan.slots)[name]
        place: ir.Value = plus(base, walk.at(plus(times(turn.round, self.plan.vector), e)))
        return place

    def _elements(self, turn: Turn, e: ir.Value) -> dict[str, ir.Expr]:
        """The sources' elements."""
        elements: dict[str, ir.Expr] = {}
        for name, side in self.call.sides.items():
            if name == "dst":
                continue
            if name in self.loaded:
                place = turn.place if name in self.plan.single else plus(times(turn.place, self.plan.vector), e)
                elements[name] = ir.Load(self.loaded[name], (ir.as_expr(place),))
            else:
                elements[name] = ir.Load(side.buffer.flat(), (ir.as_expr(self.slot(name, turn, e)),))
        return elements


def once_each(tests: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The tests without those that are among the earlier ones."""
    distinct: list[ir.Expr] = []
    for test in tests:
        if not any(ir.same(test, other) for other in distinct):
            distinct.append(test)
    return distinct


class RowWriter(Writer):
    """Writes runs of rows, whose places are computed from their coordinates. (Mutable.)"""

    @property
    def rows(self) -> Runs:
        """The rows of the plan."""
        return self.plan.lines.kept

    def write(self) -> None:
        """A loop over batches of runs."""
        plan, out, facts = self.plan, self.out, self.call.facts
        self.prepare(list(self.call.sides))
        at_once = plan.threads * plan.batch
        batches = facts.simplify((ir.as_expr(self.rows.count) + (at_once - 1)) // at_once)
        even = facts.divides(at_once, self.rows.count)
        with ExitStack() as stack:
            group = stack.enter_context(out.loop("f", ir.cast(batches, INT32)))
            fast = self.all_whole(group, at_once)
            if fast is None:
                self.batch(group, even=even, asked=self.rows.partial or plan.asked)
            else:
                out.either(
                    all_hold(fast),
                    lambda: self.batch(group, even=True, asked=False),
                    lambda: self.batch(group, even=even, asked=self.rows.partial or plan.asked),
                )

    def all_whole(self, group: ir.Value, at_once: int) -> list[ir.Expr] | None:
        """The condition that all runs of a batch exist and are inside; None where that takes more than a few tests."""
        plan = self.plan
        is_row = all(ir.const_value(extent) == 1 for extent in self.rows.extents[:-1])
        if self.rows.partial and not is_row:
            return None
        tests = []
        if not self.call.facts.divides(at_once, self.rows.count):
            end = times(self.wide(plus(group, 1)), at_once * (plan.vector if self.rows.partial else 1))
            tests.append(ir.binary("<=", end, self.rows.extents[-1] if self.rows.partial else self.rows.count))
        return once_each([*tests, *self.tile_tests()]) or None

    def batch(self, group: ir.Value, *, even: bool, asked: bool) -> None:
        """The runs of a batch. even: all of them exist. asked: whether they are inside."""
        plan, out = self.plan, self.out
        for step in self.steps():
            with ExitStack() as inner:
                u = inner.enter_context(out.loop("u", plan.batch, "unroll"))
                turn = plus(times(group, plan.batch), u)
                number = out.let("number", self.number_of(turn))
                inner.enter_context(out.when(None if even else ir.binary("<", number, self.rows.count)))
                self.digits = list(self.rows.digits(number).values())
                step(self, Turn(u, turn, number, asked))

    def number_of(self, turn: ir.Value) -> ir.Value:
        """Which run the thread takes in its turn, with as many bits as their number has."""
        number: ir.Value = plus(times(self.wide(turn), self.plan.threads), self.call.scope.index)
        return number

    def wide(self, value: ir.Value) -> ir.Value:
        """A number of runs, in the integer type that the number of all runs needs."""
        wide = isinstance(self.rows.count, ir.Expr) and self.rows.count.dtype == INT64
        return ir.cast(value, INT64) if wide and isinstance(value, ir.Expr) else value

    def at(self, name: str, turn: Turn) -> ir.Value:
        """Where the run of a tile starts."""
        side = self.call[name]
        return self.out.let(
            f"{side.name}_at", side.place(own_digits(side, self.digits, self.rows.extents), self.call.facts).get("m", 0)
        )

    def coordinates_of(self, turn: Turn, e: ir.Value) -> Sequence[ir.Value]:
        """Where an element of dst is."""
        *outer, inner = self.digits
        return [*outer, plus(inner, e)]

    def tests(self, turn: Turn, tiles: Sequence[Side]) -> Callable[[ir.Value, ir.Value], list[ir.Expr]]:
        """The conditions that the elements from one to another of a run are inside of the row and of the buffers."""
        *outer, inner = self.digits

        def between(first: ir.Value, last: ir.Value) -> list[ir.Expr]:
            tests = self.inside([*outer, plus(inner, first)], [*outer, plus(inner, last)], tiles)
            ends = [ir.binary("<", plus(inner, last), self.rows.extents[-1])] if self.rows.partial else []
            return [*ends, *tests]

        return between
