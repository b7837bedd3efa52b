"""The meanings of names in a PTX body: registers, memory, labels, found by scope.

A scope is a pair of braces, or the body of an inlined function. Names of an inner scope hide those outside; a label
belongs to the scope that has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.dtypes import BOOL, DType, dtype
from tilewright.errors import KernelError, Span
from tilewright.ir import AddressOf, Buffer, Const, Expr, Reinterpret, Var, as_expr, binary, cast
from tilewright.isa.forms import TYPES
from tilewright.ptx import tree
from tilewright.ptx.parser import WORDS

VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
"""Special registers of four parts, the last of which is 0."""
_WIDTHS = {8: dtype("uint16"), 16: dtype("uint16"), 32: dtype("uint32"), 64: dtype("uint64")}
_VECTOR_PARTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


@dataclass(frozen=True, slots=True)
class Memory:
    """A variable in memory. buffer: the bytes that contain it, from ``offset`` behind ``start`` on.

    shared: is its address an offset in shared memory? element: the bytes from one of its elements to the next.
    """

    buffer: Buffer
    shared: bool = False
    element: int = 1
    start: Expr | None = None
    offset: int = 0

    def at(self, offset: int = 0) -> AddressOf:
        """The address of a byte of it."""
        place = self.offset + offset
        return AddressOf(self.buffer, (as_expr(place) if self.start is None else binary("+", self.start, place),))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that is a number, or an address. value: its bits."""

    value: Expr


Symbol: TypeAlias = Var | Memory | Parameter | tree.Function | tree.Targets | tree.Prototype


def number_dtype(kind: str) -> DType:
    """The dtype of a number, by PTX's word for its type; of a pair the unsigned integer of that width."""
    if kind not in TYPES:
        raise KernelError(f"{kind} is no type", given=kind, allowed="u32, f32, b64, ...")
    return TYPES[kind].dtype


def element_bytes(kind: str) -> int:
    """The bytes of a type."""
    return number_dtype(kind).bits // 8


def type_word(words: Sequence[str]) -> str:
    """The type among the modifiers of an access, which ends them as a rule; "" without one."""
    return next((word for word in reversed(words) if word in WORDS), "")


def stride(variable: tree.Variable) -> int:
    """The bytes from one element of a variable to the next."""
    return element_bytes(variable.type) * variable.vector


def nbytes(variable: tree.Variable) -> int:
    """The bytes of a variable; an extent that is left open counts as none."""
    total = stride(variable)
    for extent in variable.extents:
        total *= extent or 0
    return total


def register_dtype(kind: str) -> DType:
    """The bits that a register of a type has room for."""
    return BOOL if kind == "pred" else _WIDTHS[element_bytes(kind) * 8]


def identifier(name: str, suffix: str) -> str:
    """The name of a register as the rest of the compiler has names: letters, digits and underscores."""
    plain = re.sub(r"\W", lambda char: f"_{ord(char[0]):x}_", name.removeprefix("%"))
    return f"{plain}{'' if name.startswith('%') else '__n'}{suffix}"


@dataclass(slots=True)
class Scope:
    """The names that a scope adds to those around it. suffix: what makes its registers' names their own."""

    outer: Scope | None = None
    suffix: str = ""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    families: list[tuple[str, int, str]] = field(default_factory=list)  # %r<9>: made when they are first named
    types: dict[str, str] = field(default_factory=dict)  # that registers were declared with
    labels: dict[str, int] = field(default_factory=dict)  # the blocks that they begin
    vectors: dict[str, tuple[Var, ...]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()  # registers that nothing reads, of a function that has atomics

    def around(self) -> Iterator[Scope]:
        """This scope and those outside of it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def find(self, name: str) -> Symbol | None:
        """The meaning of a name in this scope."""
        for scope in self.around():
            if name in scope.symbols:
                return scope.symbols[name]
            symbol = scope._of_family(name)
            if symbol is not None:
                return symbol
        return None

    def type_of(self, name: str) -> str:
        """The type that a register was declared with; "" of any other name."""
        if self.find(name) is None:
            return ""
        return next((scope.types.get(name, "") for scope in self.around() if name in scope.symbols), "")

    def named(self, operand: tree.Operand) -> Symbol | None:
        """The meaning of an operand that is a name; None of any other."""
        return self.find(operand.text) if isinstance(operand, tree.Name) else None

    def label(self, name: str) -> int | None:
        """The block that a label of this scope, or one outside, begins."""
        return next((scope.labels[name] for scope in self.around() if name in scope.labels), None)

    def vector(self, name: str) -> tuple[Var, ...] | None:
        """The parts of a register that was declared as a vector."""
        return next((scope.vectors[name] for scope in self.around() if name in scope.vectors), None)

    def _of_family(self, name: str) -> Var | None:
        for stem, count, kind in self.families:
            number = name[len(stem) :]
            if name.startswith(stem) and number.isdigit() and int(number) < count:
                self.types[name] = kind
                register = self.symbols[name] = Var(identifier(name, self.suffix), register_dtype(kind))
                return register
        return None

    def declare(self, registers: tree.Registers) -> None:
        """Registers, alone, in families, or as vectors."""
        lanes = lanes_of(registers)
        kind = _WIDTHS[64] if registers.type == "b128" else register_dtype(registers.type)
        for name, count in registers.names:
            if lanes > 1:
                for register in [name] if count is None else [f"{name}{number}" for number in range(count)]:
                    self._declare_vector(register, lanes, kind)
            elif count is None:
                self.symbols[name], self.types[name] = Var(identifier(name, self.suffix), kind), registers.type
            else:
                self.families.append((name, count, registers.type))

    def _declare_vector(self, name: str, lanes: int, kind: DType) -> None:
        parts = {part: Var(identifier(part, self.suffix), kind) for part in part_names(name, lanes)}
        self.symbols |= parts
        self.gather(parts)

    def gather(self, names: Iterable[str]) -> None:
        """Hold the vectors whose parts are among some names of this scope: ``v.x`` and ``v.y`` are ``v``."""
        families: dict[str, list[Var]] = {}
        for name in names:
            stem, dot, _ = name.rpartition(".")
            part = self.symbols[name]
            if dot and isinstance(part, Var):
                families.setdefault(stem, []).append(part)
        for stem, parts in families.items():
            self.vectors[stem] = tuple(parts)
            self.symbols |= {f"{stem}.{part}": parts[at] for part, at in _VECTOR_PARTS.items() if at < len(parts)}

    def spread(self, operand: tree.Operand) -> tree.Operand:
        """A register of several parts as a vector of them; ``%tid`` is one, too."""
        if not isinstance(operand, tree.Name):
            return operand
        if operand.text.startswith("%") and operand.text[1:] in VECTORS:
            return tree.Vector(tuple(map(tree.Name, part_names(operand.text, 4))))
        parts = self.vector(operand.text)
        return operand if parts is None else tree.Vector(tuple(map(tree.Name, part_names(operand.text, len(parts)))))

    def hold_labels(self, body: tree.Body, block: Callable[[], int], at: Span | None) -> None:
        """The labels that stand in this scope itself, before any statement of it: jumps go forwards, too.

        block: gives the number for another block.
        """
        for statement in body:
            if isinstance(statement, tree.Label):
                if statement.name in self.labels:
                    raise KernelError(f"the label {statement.name} stands twice in one scope", at=at)
                self.labels[statement.name] = block()
            elif isinstance(statement, (tree.Targets, tree.Prototype)):
                self.symbols[statement.name] = statement


def lanes_of(declared: tree.Registers | tree.Variable) -> int:
    """The registers that one of a type is: those of 128 bits are two of 64."""
    return 2 if declared.type == "b128" else declared.vector


def part_names(name: str, lanes: int) -> list[str]:
    """The names of the parts of a vector register."""
    return [f"{name}.{part}" for part in "xyzw"[:lanes]]


def named_once(body: tree.Body) -> frozenset[str]:
    """The names that stand in one operand of a body alone: of a destination, a register that nothing reads."""
    counted = Counter[str]()
    for statement in tree.all_statements(body):
        if isinstance(statement, tree.Instruction):
            counted.update([*_named(statement.operands), statement.guard.lstrip("!")])
    return frozenset(name for name, times in counted.items() if times == 1)


def _named(part: object) -> Iterator[str]:
    if isinstance(part, tree.Name):
        yield part.text
    elif isinstance(part, tuple):
        for member in part:
            yield from _named(member)
    else:
        for slot in getattr(part, "__slots__", ()):
            yield from _named(getattr(part, slot))


# Values as the bits of registers, and types of PTX as the unsigned integers that these are.


def unsigned(bits: int) -> DType:
    """The dtype of so many bits."""
    return BOOL if bits == 1 else dtype(f"uint{bits}")


def raw_dtype(kind: str) -> DType:
    """The unsigned integer as wide as a type, by PTX's word."""
    return unsigned(8 * element_bytes(kind))


def start_of(buffer: Buffer) -> Expr:
    """The address at which a buffer begins, in 64 bits."""
    return cast(AddressOf(buffer, (as_expr(0),)), dtype("uint64"))


def bits_of(value: Expr, kind: DType) -> Expr:
    """A value as bits of ``kind``, which may be wider: filled by the value's sign then, or with zeros."""
    held = value.dtype
    if held == kind or kind.kind == "bool" or held.kind in ("bool", "handle"):
        return cast(value, kind)
    if held.is_signed and kind.bits > held.bits:
        value = cast(value, dtype(f"int{kind.bits}"))
    if value.dtype.kind != "uint":
        same = unsigned(value.dtype.bits)
        value = cast(value, same) if isinstance(value, Const) and not held.is_float else Reinterpret(value, same)
    return cast(value, kind)
