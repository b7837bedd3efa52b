"""wmma: matrices loaded, multiplied and stored by a warp, as plain accesses and products of `mma`.

PTX does not define which lane holds which element; here it is as in `mma`, 8 or 16 rows and 8 columns at a time. For
shapes with 8 rows and 32 columns the transposed product is computed. Source: PTX ISA, "Warp-level Matrix Instructions:
wmma.load, wmma.store, wmma.mma", "Matrix Fragments for mma.m16n8k16".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tilewright import ir, isa
from tilewright.dtypes import DType, dtype
from tilewright.errors import InstructionError
from tilewright.ir import as_expr, binary, cast, const, expressions, statements, walk
from tilewright.ir.flow import live_before
from tilewright.isa import WHOLE_WARP, Bound, bind
from tilewright.isa.arch import since
from tilewright.ptx.names import bits_of, unsigned
from tilewright.ptx.plain import as_many
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step, special_register
from tilewright.ptx.tree import Address, Immediate, Operand, Vector
from tilewright.ptx.values import assigned, element, number_of, pointer, read, stored

# Registers of matrix products, as places of storage: an operand's lie side by side, and each sum stays in its place.
#
# Compilers give the registers of an operand any names, and a sum another name after each product. Registers of which no
# two are live at a time share one place here, where one product's sum is the next one's. So what compilers made has the
# form of our own kernels: runs of products on fragments, which the simulator does as one.


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
    operands = [matrices for call in products if len(matrices := tuple(_registers_of(call, taken))) == 4]
    loaded = [registers for call in calls if call.form.meaning.moves for registers in _registers_of(call, taken)]
    some = {var for lists in (*operands, loaded) for registers in lists for var in registers if var.dtype == UINT32}
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
    sums = {places.of(var) for *_, registers in operands if places.in_line(registers) for var in registers}
    used = {places.of(var) for four in operands for line in four[:2] if places.in_line(line) for var in line} | sums
    for registers in loaded:
        places.in_line(registers)
    for name, of_sums in (("sums", True), ("fragments", False)):
        lines = [line for line in places.lines() if used.intersection(line) and of_sums != sums.isdisjoint(line)]
        _allocate(low, name, places, [place for line in lines for place in line])
    sinks = [(sink, low.in_flight[var]) for sink, var in _sinks(calls, taken) if var in low.in_flight]
    low.in_flight |= sinks
    whole = Counter(sink.buffer for sink, _ in sinks)
    low.allocated = [alloc for alloc in low.allocated if alloc.buffer.shape != (whole[alloc.buffer],)]


def _allocate(low: Lowering, name: str, places: _Places, order: Sequence[int]) -> None:
    """Storage for places, in this order; each register is a view with its own name."""
    if not order:
        return
    buffer = ir.Buffer(low.fresh(name), UINT32, (len(order),), "local", None)
    low.allocate(ir.AllocBuffer(buffer))
    for index, place in enumerate(order):
        at = ir.AddressOf(buffer, (as_expr(index),))
        for var in places.members(place):
            low.in_flight[var] = ir.Load(ir.Buffer(var.name, UINT32, (), "local", None, data=at), ())


# The registers of an instruction's operands.


def _is_place(value: ir.Expr) -> bool:
    return isinstance(value, ir.Load) and value.buffer.space == "local"


def _key(value: ir.Expr) -> tuple[str, ir.Expr]:
    assert isinstance(value, ir.Load)
    return value.buffer.name, value.indices[0]


def _registers_of(call: Bound, taken: Mapping[tuple[str, ir.Expr], ir.Var]) -> Iterator[Registers]:
    """The registers of each operand that has several; those that take a result for the place where it is written."""
    rows = sorted((row for row in call.given if row.many), key=lambda row: row.written)
    for row in rows:
        parts = [taken.get(_key(part)) if isinstance(part, ir.Load) else part for part in call.operands[row.name]]
        registers = tuple(part for part in parts if isinstance(part, ir.Var))
        if len(registers) == len(parts) == len(set(registers)):
            yield registers


def _sinks(calls: Iterable[Bound], taken: Mapping[tuple[str, ir.Expr], ir.Var]) -> Iterator[tuple[ir.Load, ir.Var]]:
    """The places where calls write their results, with the registers that take these."""
    for call in calls:
        for row in call.given:
            for operand in call.operands[row.name] if row.written else ():
                if isinstance(operand, ir.Load) and _key(operand) in taken:
                    yield operand, taken[_key(operand)]


def _exact(some: set[ir.Var], code: Iterable[ir.Stmt]) -> set[ir.Var]:
    """Those of some registers whose uninitialised bits are whole bytes: they get constants, what was in memory, results
    of instructions, and each other's values.
    """
    assigns = [stmt for stmt in code if isinstance(stmt, (ir.Assign, ir.Bind))]
    vectors = {stmt.var for stmt in assigns if isinstance(stmt.value, ir.Load)}
    while True:
        wrong = {stmt.var for stmt in assigns if stmt.var in some and not _is_exact(stmt.value, some, vectors)}
        if not wrong:
            return some
        some = some - wrong


def _is_exact(value: ir.Expr, some: set[ir.Var], vectors: set[ir.Var]) -> bool:
    if isinstance(value, ir.Component):
        return value.a in vectors and value.dtype == UINT32
    return isinstance(value, (ir.Const, ir.Load)) or value in some


# Which element each register holds, and where it is in memory.


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
        conflicts = [0] * len(self.registers)
        for block in blocks.values():
            now = self._bits((*block.end.reads, *(var for to in block.end.targets for var in live[to])))
            for outer in reversed(block.body):
                for stmt in reversed(statements((outer,))):
                    if isinstance(stmt, (ir.Assign, ir.Bind)):
                        bits = self._bits((stmt.var,))
                        for number in self._numbers((stmt.var,)):
                            conflicts[number] |= now & ~bits & ~self._bits((stmt.value,))
                        now = now & ~bits if stmt is outer else now
                    now |= self._bits(walk(stmt.value) if isinstance(stmt, (ir.Assign, ir.Bind)) else expressions(stmt))
        for number, others in enumerate(conflicts):
            for other in range(len(conflicts)):
                if others >> other & 1:
                    conflicts[other] |= 1 << number
        return conflicts

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

    def join(self, var: ir.Var, other: ir.Var) -> None:
        """Two registers share a place, unless both are live at a time."""
        if var not in self.numbers or other not in self.numbers:
            return
        a, b = self.of(var), self.of(other)
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


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f32": 32, "s32": 32, "f64": 64}
INPUTS = {"m16n16k16": ("f16", "bf16", "s8", "u8"), "m32n8k16": ("f16", "bf16", "s8", "u8"),
          "m8n32k16": ("f16", "bf16", "s8", "u8"), "m16n16k8": ("tf32",), "m8n8k4": ("f64",), "m8n8k32": ("s4", "u4"),
          "m8n8k128": ("b1",)}  # fmt: skip
RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",),
           **dict.fromkeys(("s8", "u8", "s4", "u4", "b1"), ("s32",))}  # fmt: skip
FIRST = {**dict.fromkeys(BITS, "sm_75"), **dict.fromkeys(("bf16", "tf32", "f64"), "sm_80")}
ROWS = {"s4": "ptx.mma.integer", "u4": "ptx.mma.integer", "f64": "ptx.mma.f64"}
WRITTEN = 8  # registers of a fragment of float16, some of which repeat others


class Place(NamedTuple):
    """A row or column: a number, and what the lane's group of four and its place in that add."""

    start: int
    group: int = 0
    within: int = 0


@dataclass(frozen=True)
class Shape:
    """M, N, K of a product; ``flipped``: of which the transposed one is computed."""

    name: str
    m: int
    n: int
    k: int

    @property
    def flipped(self) -> bool:
        return self.m == 8 and self.n > 8

    def registers(self, operand: str, kind: str) -> list[list[tuple[Place, Place]]]:
        """The elements of each register: their rows and columns in the matrix."""
        side = {"a": "left", "b": "right"}.get(operand, "sum")
        if self.flipped:
            side = {"left": "right", "right": "left"}.get(side, side)
        rows, columns = (self.n, self.m) if self.flipped else (self.m, self.n)
        pairs = list(_FRAGMENTS[side](rows, columns, self.k, BITS[kind]))
        return [[(column, row) for row, column in pair] for pair in pairs] if self.flipped else pairs


def _left(rows: int, columns: int, k: int, bits: int) -> Iterator[list[tuple[Place, Place]]]:
    width, halves = max(1, 32 // bits), min(2, rows // 8)
    for piece in range(0, rows, 16):
        for number in range(halves * k // (4 * width)):
            row = Place(piece + 8 * (number % halves), 1)
            yield [(row, Place(i + 4 * width * (number // halves), 0, width)) for i in range(width)]


def _right(rows: int, columns: int, k: int, bits: int) -> Iterator[list[tuple[Place, Place]]]:
    width = max(1, 32 // bits)
    for piece in range(columns // 8):
        for number in range(k // (4 * width)):
            yield [(Place(i + 4 * width * number, 0, width), Place(8 * piece, 1)) for i in range(width)]


def _sum(rows: int, columns: int, k: int, bits: int) -> Iterator[list[tuple[Place, Place]]]:
    for down in range(0, rows, 16):
        for across in range(columns // 8):
            for upper in range(0, min(rows, 16), 8):
                pair = [(Place(down + upper, 1), Place(8 * across + i, 0, 2)) for i in range(2)]
                yield from [pair] if bits == 16 else [[place] for place in pair]


_FRAGMENTS = {"left": _left, "right": _right, "sum": _sum}


def matrix(low: Lowering, step: Step) -> Sequence[ir.Stmt]:
    """``wmma.load``, ``wmma.mma`` or ``wmma.store``."""
    words = step.ins.modifiers
    name = next((word for word in words if word in INPUTS), "")
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", name)
    if match is None:
        raise InstructionError(f"{step.ins.mnemonic}: this shape is not supported", allowed=", ".join(INPUTS))
    shape = Shape(name, *map(int, match.groups()))
    if words[0] == "mma":
        return _multiplied(low, step, shape)
    return _moved(low, step, shape, words[1], words[-1])


def _moved(low: Lowering, step: Step, shape: Shape, operand: str, kind: str) -> Sequence[ir.Stmt]:
    """A fragment from memory, or to it."""
    allowed = INPUTS[shape.name] if operand in "ab" else [result for k in INPUTS[shape.name] for result in RESULTS[k]]
    loads = step.ins.modifiers[0] == "load"
    if kind not in allowed:
        raise InstructionError(f"{step.ins.mnemonic}: this type is not supported", allowed=", ".join(allowed))
    low.check_target(step.ins.mnemonic, since(FIRST[kind]))
    layout = shape.registers(operand, kind)
    pair = step.ins.operands[:2] if loads else step.ins.operands[1::-1]
    if len(pair) != 2 or not isinstance(pair[0], Vector) or not isinstance(pair[1], Address):
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="{registers}, [address], stride")
    parts = _registers(pair[0].parts, len(layout), operand, kind, step)
    memory = _Memory(low, step, shape, operand, kind, pair[1])
    for number, part in enumerate(parts):
        memory.load(part, layout[number % len(layout)]) if loads else memory.store(part, layout[number])
    return memory.made


def _registers(parts: Sequence[Operand], count: int, operand: str, kind: str, step: Step) -> Sequence[Operand]:
    return as_many(parts, WRITTEN if kind == "f16" and operand in "ab" else count, step)


class _Memory:
    """A matrix in memory, and the statements that access it."""

    def __init__(self, low: Lowering, step: Step, shape: Shape, operand: str, kind: str, address: Address) -> None:
        words = step.ins.modifiers
        self.low, self.step, self.kind = low, step, kind
        self.word = max(32, BITS[kind])
        self.by_rows = "row" in words
        self.space = step.ins.space
        rows, columns = {"a": (shape.m, shape.k), "b": (shape.k, shape.n)}.get(operand, (shape.m, shape.n))
        pitch = step.ins.operands[2] if len(step.ins.operands) > 2 else Immediate("", columns if self.by_rows else rows)
        self.made: list[ir.Stmt] = []
        lane = special_register("%laneid", low.machine)
        assert lane is not None
        self.group, self.within = self._held(binary(">>", lane, 2)), self._held(binary("&", lane, 3))
        self.stride = self._held(read(low, pitch, step, UINT32))
        self.start = self._held(number_of(pointer(low, address, step, self.space), self.space))

    def _held(self, value: ir.Expr) -> ir.Var:
        var = ir.Var(self.low.fresh("wmma"), value.dtype)
        self.made.append(ir.Bind(var, value, mutable=False, at=self.step.at))
        return var

    def _at(self, place: Place) -> ir.Expr:
        address: ir.Expr = const(place.start, UINT32)
        for var, times in ((self.group, place.group), (self.within, place.within)):
            address = address + var * times if times else address
        return address

    def _address(self, row: Place, column: Place) -> ir.Expr:
        far, near = (row, column) if self.by_rows else (column, row)
        offset = self._at(far) * self.stride + self._at(near)
        bits = BITS[self.kind]
        offset = offset * (bits // 8) if bits >= 8 else binary("//", offset, 8 // bits)
        return self.start + (cast(offset, UINT64) if self.start.dtype == UINT64 else offset)

    def _pieces(self, elements: list[tuple[Place, Place]]) -> tuple[list[tuple[Place, Place]], DType]:
        """What is accessed for a register: all of it where its elements lie side by side, else one by one."""
        along = 1 if self.by_rows else 0
        if len(elements) == 1 or elements[0][along].start + 1 == elements[1][along].start:
            return elements[:1], unsigned(self.word)
        if BITS[self.kind] < 8:
            allowed = "A by rows, B by columns"
            raise InstructionError(f"{self.step.ins.mnemonic}: elements of a register lie apart", allowed=allowed)
        return elements, unsigned(self.word // len(elements))

    def load(self, register: Operand, elements: list[tuple[Place, Place]]) -> None:
        """A register from memory: as a whole, or element by element."""
        pieces, kind = self._pieces(elements)
        whole: ir.Expr | None = None
        for number, place in enumerate(pieces):
            part = cast(element(self.low, self._address(*place), kind, self.space), unsigned(self.word))
            whole = part if whole is None else whole | binary("<<", part, const(kind.bits * number, UINT32))
        assert whole is not None
        self.made += assigned(self.low, register, whole, self.step)

    def store(self, register: Operand, elements: list[tuple[Place, Place]]) -> None:
        """A register to memory."""
        value = self._held(read(self.low, register, self.step, unsigned(self.word)))
        pieces, kind = self._pieces(elements)
        for number, place in enumerate(pieces):
            part = bits_of(binary(">>", value, const(kind.bits * number, UINT32)) if number else value, kind)
            self.made.append(stored(self.low, self._address(*place), [part], kind, self.space, self.step.at))


def _types(step: Step, shape: Shape) -> tuple[str, str, str, str]:
    """Of D, A, B and C: of float16 only those of D and C are written."""
    kinds = [word for word in step.ins.modifiers if word in BITS]
    if len(kinds) == 2:
        kinds[1:1] = ["f16", "f16"]
    d, *inputs, c = kinds if len(kinds) == 4 else ["", "", "", ""]
    listed = all(kind in INPUTS[shape.name] for kind in inputs) and d == c and d in RESULTS.get(inputs[0], ())
    if not listed or (inputs[0] != inputs[1] and BITS[inputs[0]] not in (8, 4)):
        allowed = "D and C of one type: f16 or f32 of f16; f32 of bf16, tf32; s32 of s8, u8, s4, u4, b1; f64 of f64"
        raise InstructionError(f"{step.ins.mnemonic}: these types are not supported", allowed=allowed)
    return d, inputs[0], inputs[1], c


def _multiplied(low: Lowering, step: Step, shape: Shape) -> Sequence[ir.Stmt]:
    """The product, as many rows as an mma has, and 8 columns, at a time."""
    types = _types(step, shape)
    low.check_target(step.ins.mnemonic, since("sm_80" if "and" in step.ins.modifiers else FIRST[types[1]]))
    operands = [operand.parts for operand in step.ins.operands if isinstance(operand, Vector)]
    if len(operands) != 4:
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed="d, a, b, c, each in braces")
    d, a, b, c = (
        _registers(parts, len(shape.registers(name, kind)), name, kind, step)
        for parts, name, kind in zip(operands, "dabc", types, strict=True)
    )
    left, right = (b, a) if shape.flipped else (a, b)
    kinds = (types[0], types[2], types[1], types[3]) if shape.flipped else types
    down, across = (shape.n, shape.m) if shape.flipped else (shape.m, shape.n)
    high = min(16, down)
    which = f"m{high}n8k{shape.k}", ".".join(kinds)
    columns, width = across // 8, max(1, 32 // BITS[kinds[1]])
    tall, wide = high * shape.k // (32 * width), 8 * shape.k // (32 * width)  # registers of A and B for a piece
    sums = high * 8 // (64 if kinds[0] == "f16" else 32)
    stmts: list[ir.Stmt] = []
    for piece in range(down // high * columns):
        row, column = divmod(piece, columns)
        part = slice(sums * piece, sums * (piece + 1))
        stmts += _piece(low, step, d[part], (left[tall * row :][:tall], right[wide * column :][:wide], c[part]), which)
    return sorted(stmts, key=lambda stmt: not isinstance(stmt, ir.Evaluate))  # results may stand among operands


def _piece(
    low: Lowering, step: Step, d: Sequence[Operand], parts: Sequence[Sequence[Operand]], which: tuple[str, str]
) -> Iterator[ir.Stmt]:
    """One mma; its registers take the values when all are done."""
    words, kind = step.ins.modifiers, which[1].split(".")[1]
    op = next((word for word in words if word in ("xor", "and")), "")
    word = unsigned(max(32, BITS[kind]))
    places = low.places("wmma", word, len(d), step.at)
    values = ([read(low, part, step, word) for part in operand] for operand in parts)
    if kind == "f64":
        values = ([ir.Reinterpret(bits, dtype("float64")) for bits in operand] for operand in values)
    a, b, c = map(tuple, values)
    rounding = next((word for word in words if word in ("rn", "rz", "rm", "rp")), None)
    keywords = {"saturate": "satfinite" in words or None, "rnd": rounding}
    row = f"ptx.mma.{isa.spoken(op)}" if op else ROWS.get(kind, "ptx.mma")
    more = {key: value for key, value in keywords.items() if value is not None}
    yield ir.Evaluate(isa.call(row, *which, d=tuple(places), a=a, b=b, c=c, **more), at=step.at)
    for part, place in zip(d, places, strict=True):
        yield from assigned(low, part, place, step)
