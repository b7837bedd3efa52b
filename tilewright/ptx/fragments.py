"""Registers of matrix products, as places of storage: an operand's lie side by side, and each sum stays in its place.

Compilers give the registers of an operand any names, and a sum another name after each product. Registers of which no
two are live at a time share one place here, where one product's sum is the next one's. So what compilers made has the
form of our own kernels: runs of products on fragments, which the simulator does as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tilewright import ir
from tilewright.ir import as_expr, expressions, statements, walk
from tilewright.ir.live import live_before
from tilewright.isa import WHOLE_WARP, Bound, bind
from tilewright.ptx.state import UINT32, Lowering

__all__ = ["place_fragments"]

Registers = tuple[ir.Var, ...]


def place_fragments(low: Lowering) -> None:
    """Give registers of products places in storage."""
    code = [stmt for block in low.ended.values() for stmt in statements(block.body)]
    calls = [bind(stmt.value) for stmt in code if isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call)]
    calls = [call for call in calls if call.instruction.lanes == WHOLE_WARP]
    products = [call for call in calls if call.form.meaning.product and call.form.meaning.product(call.mods)]
    if not products or "stack" in vars(low):
        return
    taken = {_key(stmt.value): stmt.var for stmt in code if isinstance(stmt, ir.Assign) and _is_place(stmt.value)}
    operands = [found for call in products if len(found := tuple(_registers(call, taken))) == 4]
    loaded = [each for call in calls if call.form.meaning.moves for each in _registers(call, taken)]
    some = {var for each in (*operands, loaded) for one in each for var in one if var.dtype == UINT32}
    some = _exact(some - low.in_flight.keys(), code)
    places = _Places(sorted(some, key=lambda var: var.name), low.ended)
    for written in (*loaded, *(after for *_, after in operands)):
        places.keep_apart(written)
    for *_, before, after in operands:
        for pair in zip(before, after, strict=True):
            places.join(*pair)
    for stmt in code:
        if isinstance(stmt, ir.Assign) and isinstance(stmt.value, ir.Var):
            places.join(stmt.var, stmt.value)
    sums = {places.of(var) for *_, one in operands if places.in_line(one) for var in one}
    used = {places.of(var) for each in operands for one in each[:2] if places.in_line(one) for var in one} | sums
    for each in loaded:
        places.in_line(each)
    for name, own in (("sums", True), ("fragments", False)):
        lines = [line for line in places.lines() if used.intersection(line) and own != sums.isdisjoint(line)]
        _allocate(low, name, places, [place for line in lines for place in line])
    sinks = [(sink, low.in_flight[var]) for sink, var in _sinks(calls, taken) if var in low.in_flight]
    low.in_flight |= sinks
    whole = Counter(sink.buffer for sink, _ in sinks)
    low.allocated = [each for each in low.allocated if each.buffer.shape != (whole[each.buffer],)]


def _allocate(low: Lowering, name: str, places: _Places, order: Sequence[int]) -> None:
    """Storage for places, in this order; each register is a view with its own name."""
    if not order:
        return
    buffer = ir.Buffer(low.fresh(name), UINT32, (len(order),), "local", None)
    low.allocated.append(ir.AllocBuffer(buffer))
    for index, place in enumerate(order):
        at = ir.AddressOf(buffer, (as_expr(index),))
        for var in places.members(place):
            low.in_flight[var] = ir.Load(ir.Buffer(var.name, UINT32, (), "local", None, data=at), ())


# Operands


def _is_place(value: ir.Expr) -> bool:
    return isinstance(value, ir.Load) and value.buffer.space == "local"


def _key(value: ir.Expr) -> tuple[str, ir.Expr]:
    assert isinstance(value, ir.Load)
    return value.buffer.name, value.indices[0]


def _registers(call: Bound, taken: Mapping[tuple[str, ir.Expr], ir.Var]) -> Iterator[Registers]:
    """The registers of each operand that has several; those that take a result for the place where it is written."""
    rows = sorted((row for row in call.given if row.many), key=lambda row: row.written)
    for row in rows:
        given = [taken.get(_key(one)) if isinstance(one, ir.Load) else one for one in call.operands[row.name]]
        found = tuple(one for one in given if isinstance(one, ir.Var))
        if len(found) == len(given) == len(set(found)):
            yield found


def _sinks(calls: Iterable[Bound], taken: Mapping[tuple[str, ir.Expr], ir.Var]) -> Iterator[tuple[ir.Load, ir.Var]]:
    """The places where calls write their results, with the registers that take these."""
    for call in calls:
        for row in call.given:
            for one in call.operands[row.name] if row.written else ():
                if isinstance(one, ir.Load) and _key(one) in taken:
                    yield one, taken[_key(one)]


def _exact(some: set[ir.Var], code: Iterable[ir.Stmt]) -> set[ir.Var]:
    """Those of some registers whose uninitialised bits are whole bytes: they get constants, what was in memory, results
    of instructions, and each other's values.
    """
    given = [stmt for stmt in code if isinstance(stmt, (ir.Assign, ir.Bind))]
    vectors = {stmt.var for stmt in given if isinstance(stmt.value, ir.Load)}
    while True:
        wrong = {stmt.var for stmt in given if stmt.var in some and not _is_exact(stmt.value, some, vectors)}
        if not wrong:
            return some
        some = some - wrong


def _is_exact(value: ir.Expr, some: set[ir.Var], vectors: set[ir.Var]) -> bool:
    if isinstance(value, ir.Component):
        return value.a in vectors and value.dtype == UINT32
    return isinstance(value, (ir.Const, ir.Load)) or value in some


# Places


class _Places:
    """Places of registers, by the number of a register that has it: at first each has its own."""

    def __init__(self, registers: Sequence[ir.Var], blocks: Mapping[int, ir.Block]) -> None:
        self.registers = registers
        self.numbers = {var: number for number, var in enumerate(registers)}
        self.bits = [1 << number for number in range(len(registers))]  # the registers of each place
        self.conflicts = self._conflicts(blocks)
        self.places = list(range(len(registers)))
        self.after: dict[int, int] = {}
        self.before: dict[int, int] = {}

    def _conflicts(self, blocks: Mapping[int, ir.Block]) -> list[int]:
        """For each register the others that are live where it gets a value, or the other way round."""
        live = live_before(blocks, {number: block.end.targets for number, block in blocks.items()})
        found = [0] * len(self.registers)
        for block in blocks.values():
            now = self._bits((*block.end.reads, *(var for to in block.end.targets for var in live[to])))
            for outer in reversed(block.body):
                for stmt in reversed(statements((outer,))):
                    if isinstance(stmt, (ir.Assign, ir.Bind)):
                        own = self._bits((stmt.var,))
                        for number in self._numbers((stmt.var,)):
                            found[number] |= now & ~own & ~self._bits((stmt.value,))
                        now = now & ~own if stmt is outer else now
                    now |= self._bits(walk(stmt.value) if isinstance(stmt, (ir.Assign, ir.Bind)) else expressions(stmt))
        for number, others in enumerate(found):
            for other in range(len(found)):
                if others >> other & 1:
                    found[other] |= 1 << number
        return found

    def _numbers(self, parts: Iterable[object]) -> list[int]:
        return [self.numbers[part] for part in parts if isinstance(part, ir.Var) and part in self.numbers]

    def _bits(self, parts: Iterable[object]) -> int:
        return sum(1 << number for number in set(self._numbers(parts)))

    def of(self, var: ir.Var) -> int:
        """The place of a register that has one."""
        return self.places[self.numbers[var]]

    def members(self, place: int) -> Iterator[ir.Var]:
        """The registers of a place."""
        return (var for number, var in enumerate(self.registers) if self.places[number] == place)

    def keep_apart(self, registers: Registers) -> None:
        """Registers that one instruction writes get places of their own, though some of them may never be read."""
        for number in self._numbers(registers):
            self.conflicts[number] |= self._bits(registers) & ~(1 << number)

    def join(self, one: ir.Var, other: ir.Var) -> None:
        """Two registers share a place, unless both are live at a time."""
        if one not in self.numbers or other not in self.numbers:
            return
        a, b = self.of(one), self.of(other)
        if a == b or self.bits[a] & self.conflicts[b] or self.bits[b] & self.conflicts[a]:
            return
        self.bits[a] |= self.bits[b]
        self.conflicts[a] |= self.conflicts[b]
        self.places = [a if place == b else place for place in self.places]

    def in_line(self, registers: Registers) -> bool:
        """Let the places of registers follow each other; False where others do already."""
        if any(var not in self.numbers for var in registers):
            return False
        places = [self.of(var) for var in registers]
        pairs = list(pairwise(places))
        if any(self.after.get(a, b) != b or self.before.get(b, a) != a for a, b in pairs):
            return False
        if len(set(places)) < len(places):
            return False
        self.after |= pairs
        self.before |= ((b, a) for a, b in pairs)
        return True

    def lines(self) -> Iterator[list[int]]:
        """Places that follow each other."""
        for first in sorted(set(self.places) - self.before.keys()):
            line = [first]
            while line[-1] in self.after:
                line.append(self.after[line[-1]])
            yield line
