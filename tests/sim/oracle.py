"""The slow, obvious simulator: one Python generator per thread, one statement after the other, one lane at a time.

It shares nothing with `tilewright.sim`; what lanes do together the oracles of `tests/isa` say. Threads run one after
the other up to the next place where they meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tests.isa.oracles import ORACLES, Warp
from tests.tile.kernels import whole_number
from tilewright.dtypes import DType
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Assume,
    Attr,
    Binary,
    Bind,
    Break,
    Buffer,
    Call,
    Cast,
    Const,
    Continue,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Reinterpret,
    Select,
    Special,
    Store,
    Unary,
    Var,
    While,
)
from tilewright.isa import bind


class _Left(Exception):
    def __init__(self, loop: bool) -> None:
        self.loop = loop


def wrapped(value: int, kind: DType) -> Any:
    if kind.kind == "bool":
        return bool(value)
    value &= (1 << kind.bits) - 1
    if kind.kind in ("int", "handle") and value >> (kind.bits - 1):
        value -= 1 << kind.bits
    return value


def rounded(value: Any, kind: DType) -> Any:
    return np.asarray(value).astype(kind.numpy)[()]


def converted(value: Any, source: DType, kind: DType) -> Any:
    """PTX's cvt, and C between integers."""
    if kind.kind == "bool":
        return bool(value != 0)
    if kind.is_float:
        return to_float(value, source, kind)
    if not source.is_float:
        return wrapped(int(value), kind)
    number = float(value)
    if math.isnan(number):
        return 0
    low = -(1 << kind.bits - 1) if kind.is_signed else 0
    high = (1 << kind.bits - 1) - 1 if kind.is_signed else (1 << kind.bits) - 1
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(int(number), low), high)


def to_float(value: Any, source: DType, kind: DType) -> Any:
    """As NumPy and ml_dtypes round, but once: of the neighbours of what they make of a float32, the nearest."""
    if not source.is_float:
        value = int(value)
    if kind.bits > 16 or (source.is_float and not math.isfinite(value)):
        return rounded(abs(value) if kind.value_bits < 8 and math.isnan(value) else value, kind)
    near = rounded(np.float32(value), kind)
    code = int(np.asarray(near).view(f"u{kind.numpy.itemsize}"))
    codes = [code + step for step in (-1, 0, 1) if 0 <= code + step < 1 << kind.value_bits]
    found = np.array(codes, f"u{kind.numpy.itemsize}").view(kind.numpy)
    finite = [(abs(Fraction(float(one)) - exactly(value)), c & 1, one) for one, c in zip(found, codes, strict=True)
              if np.isfinite(near) and np.isfinite(one) and np.signbit(one) == np.signbit(near)]  # fmt: skip
    return min(finite, key=lambda of: of[:2])[2] if finite else near


def exactly(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(float(value))


def arithmetic(op: str, a: Any, b: Any, kind: DType) -> Any:
    if kind.is_float:
        return floats(op, a, b, kind)
    a, b = int(a), int(b)
    if op in ("//", "%", "truncdiv", "truncmod") and b == 0:
        return None  # undefined
    if op == "truncdiv":
        return wrapped(int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)), kind)
    if op == "truncmod":
        return wrapped(abs(a) % abs(b) * (-1 if a < 0 else 1), kind)
    table = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b,
        "<<": lambda: a << b, ">>": lambda: a >> b,
    }  # fmt: skip
    return wrapped(table[op](), kind)


def floats(op: str, a: Any, b: Any, kind: DType) -> Any:
    """One rounding: exact enough in float64 for narrow types, NumPy's own for the others."""
    if op in ("min", "max"):
        return np.fmin(a, b) if op == "min" else np.fmax(a, b)
    wide = np.dtype(np.float32) if kind.bits < 32 else kind.numpy
    x, y = (np.asarray(value).astype(wide)[()] for value in (a, b))
    return rounded({"+": x + y, "-": x - y, "*": x * y, "/": np.divide(x, y)}[op], kind)


COMPARE = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


class Cta:
    """One CTA: its shared memory, and its threads as generators."""

    def __init__(self, oracle: Oracle, cta: int) -> None:
        self.oracle = oracle
        self.cta = cta
        launch = oracle.kernel.launch
        assert launch is not None
        self.threads = launch.threads
        self.shared = bytearray(launch.shared_bytes)

    def run(self) -> None:
        threads = {tid: Thread(self, tid) for tid in range(self.threads)}
        running: dict[int, Iterator[Any]] = {
            tid: thread.body(self.oracle.kernel.body) for tid, thread in threads.items()
        }
        at: dict[int, Any] = {}
        while running:
            for tid in [t for t in running if t not in at]:
                meeting = next(running[tid], None)
                if meeting is None:
                    del running[tid]
                else:
                    at[tid] = meeting
            if not running:
                return
            self.release(at, running)

    def release(self, at: dict[int, Any], running: dict[int, Iterator[Any]]) -> None:
        for warp in range(-(-self.threads // 32)):
            lanes = [t for t in at if t // 32 == warp]
            whole = len(lanes) == sum(1 for t in running if t // 32 == warp)
            if lanes and whole and len({id(at[t].call) for t in lanes}) == 1 and at[lanes[0]].scope == "warp":
                at[lanes[0]].together([at[t] for t in lanes])
                for t in lanes:
                    del at[t]
                return
        if len(at) == len(running) == self.threads and all(meeting.scope == "cta" for meeting in at.values()):
            at.clear()
            return
        raise RuntimeError("deadlock")


class Meeting:
    """One thread at a place where it waits for others."""

    def __init__(self, thread: Thread, call: Call, scope: str) -> None:
        self.thread = thread
        self.call = call
        self.scope = scope
        self.result: Any = None

    def together(self, lanes: list[Meeting]) -> None:
        """What the lanes of a warp do together is what the oracle of the instruction says; of a barrier, nothing."""
        if self.call.op not in ORACLES:
            return
        bound = bind(self.call)
        active = {m.thread.tid % 32: m for m in lanes}
        warp = Warp(
            self.thread.cta.shared, [lane in active for lane in range(32)], {**bound.mods, "name": self.call.op}
        )

        def given(expr: Expr, *, word: bool) -> list[Any]:
            return [active[lane].operand(expr, word=word) if lane in active else 0 for lane in range(32)]

        read = [(one, [given(expr, word=one.many) for expr in bound.operands[one.name]]) for one in bound.read]
        found = ORACLES[self.call.op](warp, *(values if one.many else values[0] for one, values in read))
        written = [expr for one in bound.given if one.written for expr in bound.operands[one.name]]
        for lane, meeting in active.items():
            for expr, register in zip(written, found or () if written else (), strict=True):
                storage, start = meeting.register(expr)
                storage[start : start + 4] = register[lane].to_bytes(4, "little")
            meeting.result = None if written or found is None else found[lane]

    def operand(self, expr: Expr, *, word: bool) -> Any:
        """The value of an operand: of a pointer the byte of its storage, of a register of several its 32 bits."""
        if isinstance(expr, AddressOf):
            return self.thread.address(expr)[1]
        if not word:
            return self.thread.value(expr)
        storage, start = self.register(expr)
        return int.from_bytes(storage[start : start + 4], "little")

    def register(self, expr: Expr) -> tuple[Any, int]:
        assert isinstance(expr, Load)
        return self.thread.address(AddressOf(expr.buffer, expr.indices))


class Thread:
    def __init__(self, cta: Cta, tid: int) -> None:
        self.cta = cta
        self.tid = tid
        self.kernel = cta.oracle.kernel
        self.env: dict[str, Any] = dict(cta.oracle.scalars)
        self.local: dict[str, bytearray] = {}
        self.offsets: dict[str, int] = {}

    # Statements

    def body(self, body: tuple[Any, ...]) -> Iterator[Meeting]:
        for stmt in body:
            yield from self.statement(stmt)

    def statement(self, stmt: Any) -> Iterator[Meeting]:
        if isinstance(stmt, AllocBuffer):
            self.allocate(stmt)
        elif isinstance(stmt, (Bind, Assign)):
            self.env[stmt.var.name] = yield from self.result(stmt.value)
        elif isinstance(stmt, Store):
            value = yield from self.result(stmt.value)
            self.write(stmt.place, value)
        elif isinstance(stmt, Evaluate):
            yield from self.result(stmt.value)
        elif isinstance(stmt, If):
            yield from self.body(stmt.then if self.value(stmt.cond) else stmt.orelse)
        elif isinstance(stmt, For):
            yield from self.loop(stmt)
        elif isinstance(stmt, While):
            while self.value(stmt.cond) and not (yield from self.iteration(stmt.body)):
                pass
        elif isinstance(stmt, (Break, Continue)):
            raise _Left(isinstance(stmt, Break))
        else:
            assert isinstance(stmt, (DeclBuffer, Attr, Assume))

    def allocate(self, stmt: AllocBuffer) -> None:
        if stmt.buffer.is_shared:
            self.offsets[stmt.buffer.name] = stmt.offset or 0
        else:
            size = whole_number(stmt.buffer.shape[0]) * stmt.buffer.dtype.bits
            self.local[stmt.buffer.name] = bytearray(size // 8 + 8)

    def loop(self, stmt: For) -> Iterator[Meeting]:
        for number in range(self.value(stmt.start), self.value(stmt.stop), stmt.step):
            self.env[stmt.var.name] = number
            if (yield from self.iteration(stmt.body)):
                break

    def iteration(self, body: tuple[Any, ...]) -> Any:
        """True where the loop was left."""
        try:
            yield from self.body(body)
        except _Left as left:
            return left.loop
        return False

    def result(self, value: Expr) -> Any:
        """The value of a statement's expression; a call that lanes make together waits for them."""
        if isinstance(value, Call):
            bound = bind(value)
            if bound.form.sync is not None:
                yield Meeting(self, value, "cta" if bound.form.sync.scope == "cta" else "warp")
                return None
            if value.op == "cuda.copy_bytes":
                return self.copy(value)
            meeting = Meeting(self, value, "warp")
            yield meeting
            return meeting.result
        return self.value(value)

    def copy(self, value: Call) -> None:
        bound = bind(value)
        count = whole_number(bound.mods["nbytes"])
        source, start = self.address(bound.operands["src"][0])
        target, to = self.address(bound.operands["dst"][0])
        target[to : to + count] = bytes(source[start : start + count])

    # Memory

    def address(self, expr: Expr) -> tuple[Any, int]:
        """The storage and the byte in it that a pointer means."""
        assert isinstance(expr, AddressOf)
        index = self.value(expr.indices[0]) if expr.indices else 0
        return self.place(expr.buffer, index)

    def place(self, buffer: Buffer, index: int) -> tuple[Any, int]:
        if isinstance(buffer.data, AddressOf):
            storage, start = self.address(buffer.data)
        elif buffer.space == "global":
            storage, start = self.cta.oracle.arrays[buffer.name], 0
        elif buffer.is_shared:
            storage, start = self.cta.shared, self.offsets[buffer.name]
        else:
            storage, start = self.local[buffer.name], 0
        assert index >= 0, "out of bounds"
        return storage, start + index * buffer.dtype.bits // 8

    def read(self, place: Load) -> Any:
        index = self.value(place.indices[0])
        storage, start = self.place(place.buffer, index)
        kind = place.dtype
        if kind.bits == 4:
            nibble = storage[start] >> (4 * (index % 2)) & 15
            return np.asarray(nibble, np.uint8).view(kind.numpy)[()]
        return from_bytes(bytes(storage[start : start + kind.bits // 8]), kind)

    def write(self, place: Load, value: Any) -> None:
        index = self.value(place.indices[0])
        storage, start = self.place(place.buffer, index)
        kind = place.dtype
        data = to_bytes(value, kind)
        if kind.bits == 4:
            shift = 4 * (index % 2)
            storage[start] = storage[start] & ~(15 << shift) & 255 | data[0] << shift
        else:
            storage[start : start + len(data)] = data

    # Expressions

    def value(self, expr: Expr) -> Any:
        return _VALUES[type(expr)](self, expr)

    def const(self, expr: Const) -> Any:
        return rounded(expr.value, expr.dtype) if expr.dtype.is_float else expr.value

    def special(self, expr: Special) -> int:
        tid = self.tid
        return {"laneid": tid % 32, "warpid": tid // 32, "tid": tid, "ctaid.x": self.cta.cta}[expr.name]

    def select(self, expr: Select) -> Any:
        return self.value(expr.a if self.value(expr.cond) else expr.b)

    def cast(self, expr: Cast) -> Any:
        return converted(self.value(expr.a), expr.a.dtype, expr.dtype)

    def reinterpret(self, expr: Reinterpret) -> Any:
        return from_bytes(to_bytes(self.value(expr.a), expr.a.dtype), expr.dtype)

    def unary(self, expr: Unary) -> Any:
        a = self.value(expr.a)
        if expr.op == "not":
            return not a
        if expr.dtype.is_float:
            return -a
        return wrapped(-int(a) if expr.op == "-" else ~int(a), expr.dtype)

    def binary(self, expr: Binary) -> Any:
        a = self.value(expr.a)
        if expr.op in ("and", "or"):
            return self.value(expr.b) if bool(a) == (expr.op == "and") else a
        b = self.value(expr.b)
        if expr.op in COMPARE:
            return bool({"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[expr.op])
        return arithmetic(expr.op, a, b, expr.dtype)


_VALUES: dict[type, Callable[[Thread, Any], Any]] = {
    Const: Thread.const,
    Var: lambda thread, expr: thread.env[expr.name],
    Special: Thread.special,
    Load: Thread.read,
    Select: Thread.select,
    Cast: Thread.cast,
    Reinterpret: Thread.reinterpret,
    Unary: Thread.unary,
    Binary: Thread.binary,
}


def to_bytes(value: Any, kind: DType) -> bytes:
    if kind.kind == "bool":
        return bytes([bool(value)])
    if kind.is_float:
        return np.asarray([value], kind.numpy).tobytes()
    return (int(value) & ((1 << kind.bits) - 1)).to_bytes(kind.bits // 8, "little")


def from_bytes(data: bytes, kind: DType) -> Any:
    if kind.kind == "bool":
        return data != b"\0"
    if kind.is_float:
        return np.frombuffer(data, kind.numpy)[0]
    return wrapped(int.from_bytes(data, "little"), kind)


class Oracle:
    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any]) -> None:
        self.kernel = kernel
        self.arrays = {name: array.reshape(-1).view(np.uint8).data for name, array in arrays.items()}
        self.scalars = scalars

    def run(self) -> None:
        launch = self.kernel.launch
        assert launch is not None
        with np.errstate(all="ignore"):
            for cta in range(whole_number(launch.grid[0])):
                Cta(self, cta).run()
