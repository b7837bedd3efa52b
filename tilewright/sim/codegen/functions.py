"""From segments to one Python function each: statements under masks, values as arrays of the smallest shape.

A function gets a batch, reads the live variables out of its environment, and returns the number of the next segment, or
None where the scheduler has taken the batch over (it waits, has been split, or has ended).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.ir import Binary, Call, Cast, Component, Expr, Reinterpret, Select, Unary, Vector
from tilewright.ir.operators import OPERATORS
from tilewright.ir.printer import show
from tilewright.isa import BY_MASK, WARPGROUP, bind
from tilewright.isa.arith import cast, greatest, least, quotient
from tilewright.sim.codegen.addressing import access, access_text, address_text, terms_of
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.expressions import RULES, asked, executed
from tilewright.sim.codegen.fusing import Fusing, copies, is_loop_of_turns, loads
from tilewright.sim.codegen.loops import changed_names, is_closed, is_long, leaves, parts_from, reads_nothing, spins
from tilewright.sim.codegen.source import Emitter, Operand, PySource, is_number, is_window
from tilewright.sim.codegen.values import computed, is_pure
from tilewright.sim.fast.copies import Copies
from tilewright.sim.machine.address import Address, Part, int64, keep
from tilewright.sim.machine.convert import component, from_nibbles, store_nibbles, to_bits, view_nibbles
from tilewright.sim.machine.instructions import lanes, to_shared
from tilewright.sim.machine.registers import stacked
from tilewright.sim.machine.sync import BarrierSite
from tilewright.sim.machine.unknown import ArrayOperation, blended, either, nothing_known
from tilewright.sim.record import Row, row_of, row_of_call

if TYPE_CHECKING:
    from tilewright.sim.codegen.compiled import Compiled
    from tilewright.sim.codegen.cut import Segment
    from tilewright.sim.codegen.fusing import Copied
    from tilewright.sim.machine import Array, Site

# Unknown bits in generated code: how an operation spreads those of its operands.
#
# See `tilewright.sim.machine.unknown`. An operation whose operands are all known costs one test.


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The operands whose unknown bits an operation spreads; none where they must be known."""
    if isinstance(expr, Binary):
        return (expr.a, expr.b)
    if isinstance(expr, Select):
        return (expr.cond, expr.a, expr.b)
    if isinstance(expr, (Unary, Cast, Reinterpret, Component)):
        return (expr.a,)
    if isinstance(expr, Vector):
        return expr.parts
    return computed(expr)[1] if isinstance(expr, Call) and is_pure(expr) else ()


def spread(e: Emitter, expr: Expr, mask: str) -> Operand | None:
    """The value of an operation with its unknown bits; None where its operands must be known."""
    parts = parts_of(expr)
    if not parts or any(e.stays_guarded(part) for part in parts if isinstance(expr, (Select, Binary))):
        return None
    operands = [e.value(part, mask) for part in parts]
    names = [e.out.named("v", operand.text) for operand in operands]
    before = {part: e.known.get(part) for part in parts}
    e.known.update((part, Operand(name)) for part, name in zip(parts, names, strict=True))
    text = e.out.named("v", e.rules[type(expr)](e, expr, mask).text)
    for part, value in before.items():
        if value is None:
            e.known.pop(part, None)
        else:
            e.known[part] = value
    shadows = [operand.shadow or "None" for operand in operands]
    some = [shadow for shadow in dict.fromkeys(shadows) if shadow != "None"]
    is_open = e.program.may_be_open(expr)
    if not some and not is_open:
        return Operand(text)
    terms = f"({', '.join(names)},), ({', '.join(shadows)},)"
    unknown = e.out.fresh("s")
    if some:
        call = e.out.constant("U", ArrayOperation(_function(expr), tuple(part.dtype for part in parts), expr.dtype))
        e.out.line(f"{unknown} = None if {' is None and '.join(some)} is None else {call}({terms})")
    if is_open:
        assert isinstance(expr, Call), "operators are defined for all operands"
        open_bits = f"{e.out.constant('O', e.program.hears('result', expr, e.at))}({mask}, {terms})"
        e.out.line(f"{unknown} = {f'either({unknown}, {open_bits})' if some else open_bits}")
    return Operand(text, unknown)


def _function(expr: Expr) -> Callable[..., Array]:
    """The operation on arrays."""
    if isinstance(expr, Call):
        return computed(expr)[0]
    if isinstance(expr, Binary):
        return _LOGIC.get(expr.op) or OPERATORS[expr.op].array
    if isinstance(expr, Unary):
        return np.negative if expr.op == "-" else np.invert
    if isinstance(expr, Select):
        return np.where
    if isinstance(expr, Cast):
        return cast(expr.a.dtype.element, expr.dtype.element)
    if isinstance(expr, Component):
        return lambda a: a[..., expr.index] if np.ndim(a) > 3 else a
    if isinstance(expr, Vector):
        return lambda *parts: np.stack(np.broadcast_arrays(*map(np.atleast_3d, parts)), axis=-1)
    return lambda a: a.view(expr.dtype.numpy)


_LOGIC: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or}


CALLED: tuple[Callable[..., object], ...] = (
    *(Address, Part, blended, component, either, from_nibbles, greatest, int64, keep, lanes, least),
    *(quotient, stacked, store_nibbles, to_shared, view_nibbles),
    *(meaning for row in OPERATORS.values() for meaning in (row.number, row.array)),
)
ENDLESS = "for _ in run.watch.endless():"  # `while True`, under the watch of the limits
UNRECORDED = (ir.AllocBuffer, ir.DeclBuffer, ir.Attr, ir.Assume, ir.Break, ir.Continue, ir.For, ir.While)
NAMESPACE: dict[str, object] = {"np": np} | {function.__name__: function for function in CALLED}


class SegmentEmitter(Emitter):
    """Emits one segment."""

    rules = RULES
    spread = spread

    def __init__(self, program: Compiled, out: PySource, segment: Segment, live_out: frozenset[str]) -> None:
        super().__init__(program, out)
        self.segment = segment
        self.live_out = live_out
        self.loops: list[tuple[str, str] | None] = []  # (live, out) names of a masked loop, None for Python's own
        self.around: list[ir.Stmt] = []  # those that the one being emitted stands in, and itself
        self.bound_under: dict[str, str] = {}  # by variable: no lane outside of this mask has a value of it
        self.turned = out.constant("X", program.values["turns"])  # makes what counts the turns of a loop
        self.one_by_one = False  # is a fused run being written statement by statement, too?

    # The function

    def emit(self) -> None:
        """The whole function."""
        with self.out.block(f"def segment_{self.segment.index}(b):"):
            self.out.line("m0 = b.team; run = m0.wave.run; env = b.env; special = b.special; tally = run.tally")
            self.out.line("threads = b.thread_parts; parts = b.parts; scalars = run.scalars")
            for name in sorted(self.program.reads(self.segment)):
                source = "scalars" if name in self.program.parameters else "env"
                self.out.line(f"{self.variable(name)} = {source}[{name!r}]")
            self.body(self.segment.body, "m0")
            self.end()

    def end(self) -> None:
        """The end of a segment: a jump to another segment, or a call of the scheduler."""
        self.out.at = self.segment.end.at
        end = self.segment.end
        self.goes_on(end, "m0")
        if isinstance(end, ir.Branch):
            if (number := self.program.skips.counted.get(self.segment.blocks[-1])) is not None:
                self.out.line(f"m0.wave.skipping.comes(m0, {number})")
            cond = self.out.named("c", self.sound(end.cond, "m0", "a condition"))
            for to, test in ((end.then, cond), (end.orelse, f"~{cond}")):
                if self.program.ends_at(to) and self.axes.of(end.cond) != UNIFORM:
                    self.out.line(f"m0.wave.ended(m0.narrowed({test}))")
            self.write_back()
            if self.axes.of(end.cond) == UNIFORM:
                self.out.line(f"return {end.then} if {cond} else {end.orelse}")
            else:
                self.out.line(f"return run.scheduler.branch(b, {cond}, {end.then}, {end.orelse})")
        elif isinstance(end, ir.Meet):
            self.meet(end)
        elif isinstance(end, ir.Ask):
            self.ask(end)
        else:
            self.write_back()
            if isinstance(end, ir.Jump):
                self.out.line(f"return run.scheduler.{end.yields}(b, {end.to})" if end.yields else f"return {end.to}")
            else:
                assert isinstance(end, ir.Exit)
                if self.program.tells_ends:
                    self.out.line("m0.wave.ended(m0)")
                self.out.line("return None")

    def meet(self, end: ir.Meet) -> None:
        """Lanes arrive at a barrier, or gather for a collective."""
        bound = bind(end.call)
        sync = bound.form.sync
        by_mask = bound.instruction.lanes == BY_MASK and "mask" in bound.operands and bool(bound.operands["mask"])
        names = [name for name in (sync.barrier, sync.threads) if name] if sync else ["mask"] * by_mask
        operands = [bound.operands[name][0] for name in names]
        texts = [self.out.named("n", self.sound(operand, "m0", "a barrier")) for operand in operands]
        if sync is not None:
            self.count(bound.instruction.name, "m0")
        self.record_wait(end)
        self.write_back()
        warps = 4 if bound.instruction.lanes == WARPGROUP else 1
        axes = {f"meeting.{k}": self.axes.of(operand) for k, operand in enumerate(operands)}
        site = BarrierSite(bound.instruction.name, end.at, sync, axes, warps, by_mask and sync is None)
        if (block := self.segment.blocks[-1]) in (skips := self.program.skips).counted:
            around = {number: skips.spans[number] for number in skips.around.get(block, ())}
            site = replace(site, number=skips.counted[block], branches=around)
        place = self.out.constant("X", site)
        self.out.line(f"return run.scheduler.meet(b, {', '.join([place, str(end.to), *texts])})")

    def goes_on(self, stmt: ir.Stmt | ir.Ending, mask: str) -> None:
        """Note that lanes are behind the branches around a barrier."""
        if branches := self.program.skips.behind.get(id(stmt)):
            at = self.out.constant("A", stmt.at)
            self.out.line(f"m0.wave.skipping.goes_on({mask}, {branches}, {at})")

    def ask(self, end: ir.Ask) -> None:
        """Lanes ask whether they may go on, and wait while the answer is no."""
        bound = bind(end.call)
        signal = bound.form.signal_of("wait")
        tally: int | None = None
        barrier = "None"
        self.record_wait(end)
        if bound.form.meaning.ready is not None:
            passed = asked(self, end.call, bound)
        else:
            assert signal is not None, "threads poll m-barriers"
            passed = executed(self, end.call, bound, "m0").text
            tally = self.program.add_tally(bound.instruction.name)
            _, terms = terms_of(self, bound.operands[signal.barrier][0], "m0")
            barrier = self.out.named("a", address_text(self, terms))
        self.write_back()
        if self.program.recorder is not None:
            self.out.line(f"asked(b, {passed}, {barrier})")
        place = self.out.constant("X", BarrierSite(bound.instruction.name, end.at, bound.form.sync))
        self.out.line(f"return run.scheduler.ask(b, {passed}, {place}, {barrier}, {tally}, {end.to}, {end.again})")

    def write_back(self) -> None:
        """Variables that later segments read go into the environment."""
        for name in sorted(self.program.writes(self.segment) & self.live_out):
            self.out.line(f"env[{name!r}] = {self.variable(name)}")

    # Statements

    def body(self, body: ir.Body, mask: str) -> None:
        """Emit statements in their order; a run of matrix products is tried as one first."""
        depth = self.out.indent()
        k = 0
        while k < len(body):
            apart = self.one_by_one or self.program.recorder is not None
            fused = None if apart else Fusing(self, mask).at(body, k)
            length, pairs = (0, []) if apart or fused or self.collected is not None else copies(self, body[k:])
            behind: list[ir.Stmt] = []
            if not length:
                length, behind = (fused[0], []) if fused else loads(self, body[k:])
            for stmt in body[k : k + length]:
                self.goes_on(stmt, mask)
            if pairs:
                self.copy(body[k : k + length], pairs, mask)
                k += length
                continue
            before, self.one_by_one = self.one_by_one, self.one_by_one or fused is not None
            with self.out.block(f"if not {fused[1]}:") if fused else self.turns_at_once(length > 1, mask):
                for stmt in body[k : k + length]:
                    if not any(stmt is late for late in behind):
                        self.statement(stmt, mask)
            for stmt in behind:
                self.statement(stmt, mask)
            self.one_by_one = before
            k += length
            if k < len(body) and self.loops and self.loops[-1] is not None and parts_from(body[k - 1]):
                mask = self.remaining(mask, self.loops[-1][1])
        self.out.dedent(depth)

    def statement(self, stmt: ir.Stmt, mask: str) -> None:
        """One statement, by the rule of its kind."""
        self.out.at = stmt.at
        self.stmt = stmt
        if not isinstance(stmt, UNRECORDED):
            self.record(stmt, mask)
        self.around.append(stmt)
        try:
            _RULES[type(stmt)](self, stmt, mask)
        except TilewrightError as error:
            raise error.located(stmt.at) from None
        self.around.pop()

    def record(self, stmt: ir.Stmt, mask: str) -> None:
        """Tell the recorder, where there is one, that lanes are about to execute a statement."""
        recorder = self.program.recorder
        if recorder is not None:
            row = recorder.row(stmt, lambda: row_of(stmt, self.program.head_of(stmt), recorder.last_of(self.around)))
            self.out.line(f"executed({row}, b, {mask})")

    def record_value(self, name: str, mask: str) -> None:
        """Tell it the value that a variable has got."""
        if self.program.recorder is not None:
            self.out.line(f"kept({mask}, {self.variable(name)})")

    def record_wait(self, end: ir.Meet | ir.Ask) -> None:
        """The same for a call at which threads wait."""
        recorder = self.program.recorder
        if recorder is None:
            return
        bound, kind = bind(end.call), "meet" if isinstance(end, ir.Meet) else "ask"
        row = recorder.row(end.call, lambda: row_of_call(end.call, kind, show(end.call), end.at))
        if bound.form.sync is not None and bound.form.sync.wait_only:
            recorder.only_wait.add(row)
        if kind == "ask":
            self.out.line(f"asks({row}, b)")
        elif bound.form.sync is not None:
            self.out.line(f"executed({row}, b, m0)")

    def copy(self, body: ir.Body, pairs: Sequence[Copied], mask: str) -> None:
        """Statements that copy, and compute in between; the copies follow the last of them."""
        places = {id(stmt): place for pair in pairs for stmt, place in pair.sides}
        sides: dict[int, tuple[Site, str]] = {}
        for stmt in body:
            if (place := places.get(id(stmt))) is None:
                self.statement(stmt, mask)
                continue
            self.out.at, self.stmt = stmt.at, stmt
            site, text = access(self, place, mask, write=isinstance(stmt, ir.Store))
            sides[id(stmt)] = site, self.out.named("a", text)
        turns: dict[tuple[Site, Site], list[str]] = {}
        for pair in pairs:
            (source, first), (target, then) = sides[id(pair.load)], sides[id(pair.store)]
            turns.setdefault((source, target), []).append(f"(None, {first}, {then})")
        for (source, target), texts in turns.items():
            copies = self.out.constant("X", Copies(source, target, self.with_shadows))
            with self.out.block(f"if not {copies}.of_sound({mask}, [{', '.join(texts)}]):"):
                for stmt in body:
                    if id(stmt) in sides and sides[id(stmt)][0] in (source, target):
                        self.statement(stmt, mask)

    def remaining(self, mask: str, gone: str) -> str:
        """Open a block for the lanes that have not left the iteration."""
        name = self.out.fresh("m")
        self.out.line(f"{name} = {mask}.without({gone})")
        self.out.open(f"if {name} is not None:")
        self.out.line("pass")
        return name

    def nothing(self, stmt: ir.AllocBuffer | ir.DeclBuffer, mask: str) -> None:
        """Declarations: places are known already."""

    def mark(self, stmt: ir.Attr, mask: str) -> None:
        """A comment, or a mark, of which the recorder is told."""
        recorder, name = self.program.recorder, stmt.mark
        if recorder is not None and name is not None:
            row = recorder.row(stmt, lambda: Row(f"T.trace({name!r})", "mark", stmt.at, {}))
            self.out.line(f"marked({row}, {name!r}, b, {mask})")

    def assume(self, stmt: ir.Assume, mask: str) -> None:
        """A check that the assumption holds."""
        if "index" in self.program.values:
            holds = self.sound(stmt.cond, mask, "a condition")
            text = self.out.constant("T", (str(stmt.cond), stmt.place))
            self.out.line(f"run.assumed({mask}, {holds}, {text}, {self.out.constant('A', stmt.at)})")

    def bind(self, stmt: ir.Bind, mask: str) -> None:
        """A new variable."""
        text, flags = self.settled(stmt.var, stmt.value, mask)
        if any(stmt is first for first in self.axes.undefined):
            flags = self.out.constant("U", nothing_known(stmt.var.dtype))
        self.bound_under[stmt.var.name] = mask
        self.define(stmt.var, text, flags)
        self.record_value(stmt.var.name, mask)

    def assign(self, stmt: ir.Assign, mask: str) -> None:
        """A new value for a variable, in the active lanes."""
        text, flags = self.settled(stmt.var, stmt.value, mask)
        name = self.variable(stmt.var.name)
        apart = mask not in ("m0", self.bound_under.get(stmt.var.name))
        if apart and self.axes.variables[stmt.var.name] != UNIFORM:
            text = f"{mask}.chosen({text}, {name})"
            way = f"blended({mask}, " if self.unknowns else f"{mask}.chosen("
            flags = flags and f"{way}{flags}, {name}_s)"
        self.define(stmt.var, text, flags)
        self.record_value(stmt.var.name, mask)

    def define(self, var: ir.Var, text: str, flags: str | None) -> None:
        """``name = text``, and the same for its flags."""
        name = self.variable(var.name)
        if flags is not None:
            self.out.line(f"{name}_s = {flags}")
        self.out.line(f"{name} = {text}")

    def settled(self, var: ir.Var, value: ir.Expr, mask: str) -> tuple[str, str | None]:
        """The text of a value that a variable keeps: with a dtype of its own, and no window on memory."""
        flags: str | None = None
        if var.name in self.program.shadowed:
            operand = self.value(value, mask)
            text, flags = operand.text, operand.shadow or self.valid(value.dtype)
            flags = flags if self.unknowns else f"np.array({flags})"
        else:
            text = self.sound(value, mask)
        if self.axes.of(value) == UNIFORM and self.axes.variables[var.name] != UNIFORM and is_number(value.dtype):
            text = self.array(value, text)
        elif self.axes.of(value) != UNIFORM and is_window(value):
            text = f"np.array({text})"
        return text, flags

    def store(self, stmt: ir.Store, mask: str) -> None:
        """A store through its site."""
        shared_or_local = stmt.place.buffer.space != "global" or (self.unknowns and self.places.stored)
        flags = None
        if self.with_shadows and shared_or_local:
            operand = self.value(stmt.value, mask)
            flags = self.flags(stmt.value.dtype, operand.shadow) or self.valid(stmt.value.dtype)
            text = operand.text
        else:
            name = stmt.place.buffer.name
            text = self.sound(stmt.value, mask, f"a store to {'memory' if name.startswith('*') else name}")
        site, at = access_text(self, stmt.place, mask, write=True)
        bits = f"{self.out.constant('B', to_bits(stmt.place.dtype))}({text})"
        if stmt.place.dtype.bits < 8:
            self.out.line(f"store_nibbles({site}, {mask}, {at}, {bits}, {flags})")
            return
        bits = self.out.named("v", bits)
        view = self.out.named("w", f"{site}.view({mask}, {at}, {bits})")
        self.out.line(f"{view}.store({bits})")
        if flags:
            self.out.line(f"{view}.store_flags({flags})")

    def evaluate(self, stmt: ir.Evaluate, mask: str) -> None:
        """A call for its effect."""
        if isinstance(stmt.value, ir.Call) and is_pure(stmt.value):  # whose value is not used
            self.count(bind(stmt.value).instruction.name, mask)
            return
        text = self.value(stmt.value, mask).text
        if not text.isidentifier():
            self.out.line(text)

    # Control flow inside a segment

    def branch(self, stmt: ir.If, mask: str) -> None:
        """Python's ``if`` where all lanes agree; else both sides, each under its mask."""
        cond = self.out.named("c", self.sound(stmt.cond, mask, "a condition"))
        if self.axes.of(stmt.cond) == UNIFORM:
            with self.out.block(f"if {cond}:"):
                self.body(stmt.then, mask)
            if stmt.orelse:
                with self.out.block("else:"):
                    self.body(stmt.orelse, mask)
            return
        ends = self.program.tells_ends and id(stmt) in self.axes.ending
        sides = [(stmt.then, cond), (stmt.orelse, f"~{cond}")]
        for body, test in reversed(sides) if ends and not stmt.orelse else sides:
            if body or ends:
                inner = self.out.fresh("m")
                self.out.line(f"{inner} = {mask}.narrowed({test})")
                with self.out.block(f"if {inner} is not None:"):
                    self.body(body, inner)
                    if ends:
                        self.out.line(f"m0.wave.ended({inner})")

    def counted(self, stmt: ir.For, mask: str) -> None:
        """Python's ``for`` where all lanes turn alike; else a masked loop."""
        name = self.variable(stmt.var.name)
        start, stop = self.sound(stmt.start, mask, "a loop bound"), self.sound(stmt.stop, mask, "a loop bound")
        if self.axes.divergence(stmt) == UNIFORM:
            self.loops.append(None)
            turns = f"range({start}, {stop}, {stmt.step})"
            watched = f"run.watch.counted({turns})" if is_long(stmt) else turns
            with self.turns_at_once(is_loop_of_turns(self, stmt), mask), self.out.block(f"for {name} in {watched}:"):
                self.record(stmt, mask)
                self.record_value(stmt.var.name, mask)
                self.body(stmt.body, mask)
            self.loops.pop()
            return
        end = self.out.fresh("n")
        self.out.line(f"{name}, {end} = {start}, {stop}")
        self.masked_loop(
            f"({name} {'<' if stmt.step > 0 else '>'} {end})", stmt, mask, f"{name} = {name} + {stmt.step}"
        )

    @contextmanager
    def turns_at_once(self, are_alike: bool, mask: str) -> Iterator[None]:
        """The context of several loads or copies: they only collect addresses, and all of them follow the last one."""
        if self.collected is not None or not are_alike or self.program.recorder is not None:
            yield
            return
        self.collected = self.out.fresh("turns")
        self.out.line(f"{self.collected} = []")
        yield
        self.do_collected(mask)
        self.collected = None

    def loop(self, stmt: ir.While, mask: str) -> None:
        """Python's ``while`` where all lanes turn alike; else a masked loop."""
        if self.axes.divergence(stmt) != UNIFORM:
            self.masked_loop(None, stmt, mask, None)
            return
        self.loops.append(None)
        turns = self.turns(stmt)
        with self.out.block(ENDLESS):
            self.turn(turns, stmt)
            self.out.line(f"if not {self.sound(stmt.cond, mask, 'a condition')}: break")
            self.record(stmt, mask)
            self.body(stmt.body, mask)
            self.spin(stmt, mask)
        self.loops.pop()

    def spin(self, stmt: ir.Stmt, mask: str) -> None:
        """The end of a turn of a loop of compiled code that lanes leave in their first turn or never."""
        if self.program.raw and isinstance(stmt, ir.While) and spins(stmt):
            at = self.out.constant("A", stmt.at)
            self.out.line(f"{self.turned}({at}, leaves=False, hoisted={reads_nothing(stmt)}).next({mask}, ())")

    def turns(self, stmt: ir.Stmt) -> str | None:
        """A count of the turns of a loop that may be endless, and that no other thread can end."""
        if not isinstance(stmt, ir.While) or self.program.raw or not is_closed(stmt):
            return None
        name = self.out.fresh("turns")
        self.out.line(f"{name} = {self.turned}({self.out.constant('A', stmt.at)}, leaves={leaves(stmt)})")
        return name

    def turn(self, turns: str | None, stmt: ir.Stmt) -> None:
        """Count one more turn, and tell the count which variables the turn may have changed."""
        if turns is not None and isinstance(stmt, ir.While):
            outer = sorted(changed_names(stmt) & self.program.axes.variables.keys())
            state = "".join(f"{self.variable(name)}, " for name in outer)
            self.out.line(f"{turns}.next(m0, ({state}))")

    def masked_loop(self, test: str | None, stmt: ir.For | ir.While, mask: str, onward: str | None) -> None:
        """A loop that lanes leave one by one. live: lanes still in it; gone: those that left this iteration."""
        live, gone, now = self.out.fresh("live"), self.out.fresh("gone"), self.out.fresh("m")
        self.out.line(f"{live} = {mask}")
        self.loops.append((live, gone))
        turns = self.turns(stmt)
        with self.out.block(ENDLESS):
            self.turn(turns, stmt)
            cond = test if isinstance(stmt, ir.For) else self.sound(stmt.cond, live, "a condition")
            self.out.line(f"{now} = {live} = {live}.narrowed({cond})")
            self.out.line(f"if {live} is None: break")
            self.out.line(f"{gone} = None")
            self.record(stmt, now)
            self.body(stmt.body, now)
            self.out.line(f"if {live} is None: break")
            self.spin(stmt, live)
            if onward:
                self.out.line(onward)
        self.loops.pop()

    def leave(self, stmt: ir.Break | ir.Continue, mask: str) -> None:
        """``break`` and ``continue``: of all lanes, or of some of a masked loop."""
        names = self.loops[-1]
        if names is None:
            self.out.line("break" if isinstance(stmt, ir.Break) else "continue")
            return
        live, gone = names
        self.out.line(f"{gone} = {mask}.joined({gone})")
        if isinstance(stmt, ir.Break):
            self.out.line(f"{live} = {live} and {live}.without({mask})")


_RULES: dict[type, Callable[..., None]] = {
    ir.AllocBuffer: SegmentEmitter.nothing,
    ir.DeclBuffer: SegmentEmitter.nothing,
    ir.Attr: SegmentEmitter.mark,
    ir.Assume: SegmentEmitter.assume,
    ir.Bind: SegmentEmitter.bind,
    ir.Assign: SegmentEmitter.assign,
    ir.Store: SegmentEmitter.store,
    ir.Evaluate: SegmentEmitter.evaluate,
    ir.If: SegmentEmitter.branch,
    ir.For: SegmentEmitter.counted,
    ir.While: SegmentEmitter.loop,
    ir.Break: SegmentEmitter.leave,
    ir.Continue: SegmentEmitter.leave,
}
