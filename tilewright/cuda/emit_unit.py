"""How a translation unit is written: names, types, literals, pieces of C++ with their precedence, helper functions; the
unit while its kernel is emitted; buffers, and the arguments that are ``__restrict__``.

Half, bfloat16 and the narrow floats have no type without headers: they are carried as bits in unsigned integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import ir
from tilewright.dtypes import DType
from tilewright.ir import Buffer, Const, Expr, Special
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import CONSTRAINTS, KINDS, Arch, Bound, ProxyFence, bind, calls_in
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.isa.arith import NumberRow

# Names: the user's own, as far as C++ allows them.


_KEYWORDS, _MACROS, _USED, _MATH, _DECLARED = (
    paragraph.split() for paragraph in Path(__file__).with_name("names.txt").read_text("utf-8").split("\n\n")[1:]
)
# Reserved for the implementation, or declared by CUDA under a common prefix.
_FAMILIES = re.compile(r"__.*|tw_.*|_[A-Z].*|(cuda|NV_)[A-Z_].*|CUDA(RT)?_.*|CUDARTAPI|CU_.*|CUdev.*|CUuuid.*")
_DECLARED_FAMILIES = re.compile(
    r"atomic[A-Z].*|(tex|surf)[123C].*|(make_)?u?(char|short|int|long|longlong|float|double)[1-4](_(16|32)a)?"
)

RESERVED = frozenset((*_KEYWORDS, *_MACROS, *_USED))  # what no name of the text may be
DECLARED = frozenset((*_DECLARED, *(base + suffix for base in _MATH for suffix in ("", "f", "l"))))


class Names:
    """Gives each name of a kernel one in C++. Mutable: it remembers what is taken.

    A keyword, a name of CUDA or of a helper, and a name that is taken get a trailing underscore.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.taken = {*RESERVED, *reserved}
        self.spellings: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The C++ name for the kernel's ``name``, always the same."""
        if name not in self.spellings:
            self.spellings[name] = self.fresh(name)
        return self.spellings[name]

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has: ``wanted``, or it with underscores."""
        name = _spelled(wanted)
        name += "_" if _FAMILIES.fullmatch(name) else ""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    @staticmethod
    def entry(wanted: str) -> str:
        """The name of a kernel's entry, which shares its scope with all that CUDA declares, such as ``norm``.

        >>> Names.entry("scale"), Names.entry("norm"), Names.entry("template")
        ('scale', 'norm_', 'template_')
        """
        name = _spelled(wanted)
        families = _FAMILIES.fullmatch(name) or _DECLARED_FAMILIES.fullmatch(name)
        clashes = families or name in RESERVED or name in DECLARED
        return f"{name}_" if clashes else name


def _spelled(wanted: str) -> str:
    """The name in letters that C++ and PTX have."""
    if wanted.isascii() and wanted.isidentifier():
        return wanted
    name = re.sub(r"[^A-Za-z0-9_]", lambda match: f"u{ord(match[0]):x}", wanted)
    return f"_{name}" if not name or name[0].isdigit() else name


class Level:
    """How tightly C++ operators bind: the higher, the tighter."""

    ANY = 0
    CONDITIONAL = 2
    OR = 3
    AND = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    EQUALITY = 8
    RELATION = 9
    SHIFT = 10
    SUM = 11
    PRODUCT = 12
    UNARY = 14
    ATOM = 16


LEVELS = {
    **dict.fromkeys(("*", "/", "%"), Level.PRODUCT),
    **dict.fromkeys(("+", "-"), Level.SUM),
    **dict.fromkeys(("<<", ">>"), Level.SHIFT),
    **dict.fromkeys(("<", "<=", ">", ">="), Level.RELATION),
    **dict.fromkeys(("==", "!="), Level.EQUALITY),
    "&": Level.BIT_AND,
    "^": Level.BIT_XOR,
    "|": Level.BIT_OR,
    "&&": Level.AND,
    "||": Level.OR,
}
"""How tightly each operator of C++ binds."""


class Cpp(NamedTuple):
    """A C++ expression and how tightly its outermost operator binds."""

    text: str
    level: int = Level.ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than ``level``."""
        return self.text if self.level >= level else f"({self.text})"

    def cast(self, kind: str) -> Cpp:
        """Converted to the C++ type ``kind``."""
        return Cpp(f"({kind}){self.at(Level.UNARY)}", Level.UNARY)

    @staticmethod
    def call(name: str, *args: Cpp) -> Cpp:
        """A call of a function."""
        return Cpp(f"{name}({', '.join(arg.text for arg in args)})")

    @staticmethod
    def literal(const: Const) -> Cpp:
        """A constant of a scalar dtype."""
        kind, value = const.dtype, const.value
        if kind.kind == "bool":
            return Cpp("true" if value else "false")
        if kind.is_float:
            return _bits(float(value), kind) if carried_as_bits(kind) else _float(float(value), kind)
        if kind.kind == "handle":
            return Cpp(f"(void*){int(value)}", Level.UNARY)
        return _integer(int(value), kind)


def carried_as_bits(kind: DType) -> bool:
    """Has the dtype no C++ type to compute with (half, bfloat16, the narrow floats)?"""
    return kind.is_float and not kind.cuda


def cpp_type(kind: DType) -> str:
    """The C++ type of a value: bits for what is computed through float, a struct of that name for a vector."""
    if kind.lanes > 1:
        return str(kind)
    if kind.kind == "handle":
        return "void*"
    return kind.cuda or kind.storage


_INFINITY = {32: "__int_as_float(0x7f800000)", 64: "__longlong_as_double(0x7ff0000000000000ll)"}
_NAN = {32: "__int_as_float(0x7fffffff)", 64: "__longlong_as_double(0x7fffffffffffffffll)"}
_SUFFIX = {"int32": "", "int64": "ll", "uint32": "u", "uint64": "ull", "handle": "ll"}


def _integer(value: int, kind: DType) -> Cpp:
    suffix = _SUFFIX.get(kind, "")
    if kind.is_signed and kind.bits >= 32 and value == -(1 << kind.bits - 1):
        return Cpp(f"-{-value - 1}{suffix} - 1", Level.SUM)  # C++ has no negative literals: -2147483648 is a long
    digits = f"{value:#x}" if kind.kind == "uint" and value >= 1 << 31 else str(value)  # a mask, most likely
    return Cpp(f"{digits}{suffix}", Level.UNARY if value < 0 else Level.ATOM)


def _rounded_to_tf32(value: float) -> float:
    """Eleven significant bits, ties away from zero, as a cast to tf32 rounds."""
    fraction, exponent = math.frexp(abs(value))
    return math.copysign(math.ldexp(math.floor(fraction * 2048 + 0.5), exponent - 11), value)


def _float(value: float, kind: DType) -> Cpp:
    if kind == "tf32" and math.isfinite(value):
        value = _rounded_to_tf32(value)
    if math.isnan(value):
        return Cpp(_NAN[kind.bits])
    if math.isinf(value):
        return Cpp(_INFINITY[kind.bits]) if value > 0 else Cpp(f"-{_INFINITY[kind.bits]}", Level.UNARY)
    digits = str(np.float32(value)) if kind.bits == 32 else repr(value)
    text = digits if set(digits) & set(".e") else f"{digits}.0"
    return Cpp(text + ("f" if kind.bits == 32 else ""), Level.UNARY if text.startswith("-") else Level.ATOM)


def _bits(value: float, kind: DType) -> Cpp:
    with np.errstate(all="ignore"):
        code = np.asarray(value, np.float64).astype(kind.numpy).view(f"u{kind.numpy.itemsize}")
    return Cpp(f"0x{int(code):0{kind.numpy.itemsize * 2}x} /* {value:g} */")


# The unit while its kernel is emitted: helper functions, special registers, what is known at a place.


LINE_LENGTH = 116

# The C++ type of each kind of register, as inline assembly wants it.
REGISTER_TYPES = {name: kind.ctype for name, kind in KINDS.items() if kind.nbytes}


@dataclass(slots=True)
class TranslationUnit:
    """One translation unit that is being written. Mutable: helpers and names are added as they are used.

    expression: writes an expression of the kernel. foreign: identifiers of the instruction table's own C++. declared:
    names of buffers that have a variable.
    read_only: names of global buffers and views that the kernel never writes. restricted: parameters that no other
    argument overlaps. in_flight: the local buffers that fenced operations write, by the wait. fast_math: may functions
    approximate?
    """

    arch: Arch
    names: Names
    expression: Callable[[Expr, Scope], Cpp]
    read_only: frozenset[str] = frozenset()
    restricted: frozenset[str] = frozenset()
    in_flight: Mapping[int, tuple[Buffer, ...]] = field(default_factory=dict)
    fast_math: bool = False
    helpers: dict[str, str] = field(default_factory=dict)
    specials: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def special(self, node: Special) -> str:
        """The variable that holds a special register, declared at the kernel's top."""
        if node.name not in self.specials:
            self.specials[node.name] = self.names.fresh(node.name.replace(".", "_"))
        return self.specials[node.name]

    def vector(self, kind: DType) -> None:
        """Declare the struct of a vector dtype, named after it; 4-bit elements lie two in a byte."""
        element = cpp_type(kind.element)
        count = kind.lanes if kind.element.bits >= 8 else kind.lanes * kind.element.bits // 8
        alignment = min(16, kind.bits // 8)
        self.helper(str(kind), f"struct alignas({alignment}) {kind} {{ {element} x[{count}]; }};")

    def buffer(self, buffer: Buffer) -> str:
        """The pointer or array that a buffer is."""
        return self.names.of(buffer.name)

    def helper(self, name: str, text: str) -> str:
        """Put ``text``, which defines ``name``, once into the unit, after the helpers so far."""
        self.helpers.setdefault(name, text)
        return name

    def function(self, name: str, signature: str, *lines: str, comment: str = "") -> str:
        """A helper function: ``signature`` without its name (``int (float x)``), and the lines of its body."""
        if name not in self.helpers:
            result, _, params = signature.partition("(")
            head = function_head(result.strip(), name, params.removesuffix(")"))
            self.helpers[name] = "\n".join([*_comment(comment), head, *(f"  {line}" for line in lines), "}"])
        return name

    def number_instruction(self, name: str, row: NumberRow, result: str, operands: tuple[str, ...]) -> str:
        """A function of one instruction on numbers; result and operands: their C++ types."""
        params = ", ".join(map("{} {}".format, operands, "abc"))
        inputs = ", ".join(map('"{}"({})'.format, map(CONSTRAINTS.get, row.operands), "abc"))
        return self.function(
            name,
            f"{result} ({params})",
            f"{REGISTER_TYPES[row.result]} d;",
            *assembly("asm", row.text, f'"={CONSTRAINTS[row.result]}"(d)', inputs),
            "return d;",
        )

    def mention(self, text: str) -> None:
        """The unit contains a C++ template of a row: the kernel's names must stay clear of its identifiers."""
        self.foreign.update(re.findall(r"[A-Za-z_]\w*", re.sub(r"\{\w+\}", " ", text)))

    def clashes(self) -> set[str]:
        """Names of the kernel that hide a helper or something that the instruction table's C++ uses."""
        return (self.helpers.keys() | self.foreign) & {*self.names.spellings.values(), *self.specials.values()}


def function_head(result: str, name: str, params: str) -> str:
    """The first line of a device function, its parameters on lines of their own where it is long."""
    start, end = f"__device__ __forceinline__ {result} {name}(", f"{params}) {{"
    if len(start + end) <= LINE_LENGTH:
        return start + end
    return "\n".join([start, *wrap(end, LINE_LENGTH, initial_indent="    ", subsequent_indent="    ")])


def assembly(keyword: str, text: str, *parts: str) -> list[str]:
    """An ``asm`` statement: outputs, inputs and clobbers after the text, on a line of their own where they are long."""
    while parts and not parts[-1]:
        parts = parts[:-1]
    constraints = "".join(f" : {part}" if part else " :" for part in parts)
    line = f'{keyword}("{text}"{constraints});'
    if len(line) <= LINE_LENGTH:
        return [line]
    return [f'{keyword}("{text}"', f"{' ' * len(keyword)}{constraints});"]


def _comment(text: str) -> list[str]:
    return [f"// {line}" for line in text.splitlines()]


class LazyFacts:
    """The facts at a place: those of the place around it and those that ``learn`` adds at the first use. (Mutable.)"""

    __slots__ = ("_around", "_facts", "_learn")

    def __init__(self, around: LazyFacts | None, learn: Callable[[RangeFacts], RangeFacts]) -> None:
        self._around, self._learn = around, learn
        self._facts: RangeFacts | None = None

    @property
    def facts(self) -> RangeFacts:
        """The facts."""
        todo: list[LazyFacts] = []
        place: LazyFacts | None = self
        while place is not None and place._facts is None:
            todo.append(place)
            place = place._around
        facts = RangeFacts() if place is None or place._facts is None else place._facts
        for place in reversed(todo):
            facts = place._facts = place._learn(facts)
        return facts


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in the kernel: the unit, and what is known of the values there. at: the kernel's line."""

    unit: TranslationUnit
    lazy: LazyFacts
    at: Span | None = None

    @property
    def facts(self) -> RangeFacts:
        """The facts at this place."""
        return self.lazy.facts

    def cpp(self, node: Expr) -> Cpp:
        """An expression of the kernel as C++."""
        return self.unit.expression(node, self)

    def knowing(self, learn: Callable[[RangeFacts], RangeFacts]) -> Scope:
        """The same place with what ``learn`` adds."""
        return replace(self, lazy=LazyFacts(self.lazy, learn))


# Buffers as C++: typed pointers and arrays, their elements, and which of them a kernel only reads.


ADDRESSES = ("shared", "global", "generic")


def pointer_type(buffer: ir.Buffer, unit: TranslationUnit) -> str:
    """``const float*`` where the kernel only reads the buffer, else ``float*``."""
    if buffer.name not in unit.read_only:
        return f"{cpp_type(buffer.dtype)}*"
    kind = cpp_type(buffer.dtype)
    return f"{kind} const*" if kind.endswith("*") else f"const {kind}*"


# Elements of buffers, loaded and stored.


def load(node: ir.Load, scope: Scope) -> Cpp:
    """The element as a value."""
    start = _start(node.buffer, scope)
    index = scope.cpp(node.indices[0])
    if node.buffer.dtype.bits < 8:
        return Cpp.call(_load_nibble(scope.unit), start, index)
    return Cpp(f"{start.at(Level.ATOM)}[{index.text}]")


def store(node: ir.Load, value: Cpp, scope: Scope) -> str:
    """The statement that writes the element."""
    if node.buffer.dtype.bits < 8:
        start = _start(node.buffer, scope)
        index = scope.cpp(node.indices[0])
        return f"{_store_nibble(scope.unit)}({start.text}, {index.text}, {value.text});"
    return f"{load(node, scope).text} = {value.text};"


def address(node: ir.AddressOf, scope: Scope) -> Cpp:
    """A pointer to an element, or to the start of storage."""
    start = _start(node.buffer, scope)
    if not node.indices or ir.const_value(node.indices[0]) == 0:
        return start
    index, bits = scope.cpp(node.indices[0]), node.buffer.dtype.bits
    if bits < 8:
        index = Cpp(f"{index.at(Level.PRODUCT)} / {8 // bits}", Level.PRODUCT)
    return Cpp(f"&{start.at(Level.ATOM)}[{index.text}]", Level.UNARY)


def _start(buffer: ir.Buffer, scope: Scope) -> Cpp:
    """The pointer to a buffer's start: its name, or for an undeclared view the pointer that it views."""
    if buffer.data is not None and buffer.name not in scope.unit.declared:
        return scope.cpp(buffer.data).cast(pointer_type(buffer, scope.unit))
    return Cpp(scope.unit.buffer(buffer))


def _load_nibble(unit: TranslationUnit) -> str:
    return unit.function(
        "load_nibble",
        "unsigned char (const unsigned char* p, long long i)",
        "return p[i >> 1] >> 4 * (i & 1) & 0xf;",
        comment="4-bit element i, the even one in the low half of its byte.",
    )


def _store_nibble(unit: TranslationUnit) -> str:
    return unit.function(
        "store_nibble",
        "void (unsigned char* p, long long i, unsigned char x)",
        "int shift = 4 * (i & 1);",
        "p[i >> 1] = (unsigned char)(p[i >> 1] & ~(0xf << shift) | (x & 0xf) << shift);",
        comment="Reads and writes the whole byte: two threads must not store its halves at the same time.",
    )


# Declarations of local arrays, shared pointers and views.


def local_array(buffer: ir.Buffer, unit: TranslationUnit) -> str:
    """A thread's own array; 16-byte alignment lets vector moves fill it."""
    elements = int(ir.const_value(buffer.shape[0]) or 0)
    count = max(1, -(-elements * buffer.dtype.bits // 8) if buffer.dtype.bits < 8 else elements)
    return f"alignas({max(16, buffer.align)}) {cpp_type(buffer.dtype)} {unit.buffer(buffer)}[{count}];"


def shared_pointer(stmt: ir.AllocBuffer, arena: str, unit: TranslationUnit) -> str:
    """A shared buffer at its place in the CTA's arena."""
    kind = pointer_type(stmt.buffer, unit)
    start = arena if not stmt.offset else f"({arena} + {stmt.offset})"
    return f"{kind} {unit.buffer(stmt.buffer)} = ({kind}){start};"


def view(buffer: ir.Buffer, scope: Scope) -> str:
    """The declaration of a view."""
    assert buffer.data is not None
    kind = pointer_type(buffer, scope.unit)
    start = scope.cpp(buffer.data).cast(kind).text
    scope.unit.declared.add(buffer.name)
    return f"{kind} {scope.unit.buffer(buffer)} = {start};"


# Buffers that are only read


def read_only(kernel: ir.Kernel) -> frozenset[str]:
    """Names of the global buffers and views through which nothing is written.

    A pointer that goes where its use cannot be seen (into a variable, into an instruction that does not say that it
    only reads) counts as written through.
    """
    written: set[str] = set()
    aliases = [(buffer.name, name) for buffer in kernel.buffers for name in _pointers(buffer.data)]
    aliases += [(tensor_map.name, tensor_map.of) for tensor_map in kernel.maps if tensor_map.is_made]
    everything = {buffer.name for buffer in kernel.buffers}
    for stmt in ir.statements(kernel.body):
        match stmt:
            case ir.DeclBuffer(buffer):
                aliases += [(buffer.name, name) for name in _pointers(buffer.data)]
                if buffer.space == "global":
                    everything.add(buffer.name)
            case ir.Store(place, value):
                written |= {place.buffer.name, *_pointers(value)}
            case ir.Bind(_, value) | ir.Assign(_, value):
                written.update(_pointers(value))
        for node in ir.expressions(stmt):
            if isinstance(node, ir.Call):
                written.update(_written_by(bind(node)))
            elif isinstance(node, (ir.Load, ir.AddressOf)) and node.buffer.data is not None:
                aliases += [(node.buffer.name, name) for name in _pointers(node.buffer.data)]
    _spread(written, kernel, aliases)
    return frozenset(everything - written)


def _spread(written: set[str], kernel: ir.Kernel, aliases: list[tuple[str, str]]) -> None:
    """A write to a view writes what it views; and a parameter is written with each buffer matched from it."""
    params = {param.name for param in kernel.params}
    edges = {*aliases, *((root, name) for name, root in aliases if root in params)}
    size = -1
    while size != len(written):
        size = len(written)
        written |= {root for name, root in edges if name in written}


def _pointers(node: ir.Expr | None) -> Iterator[str]:
    """The buffers and pointer variables that a pointer-valued expression may point into."""
    match node:
        case ir.AddressOf():
            yield node.buffer.name
        case ir.Var() if node.dtype.kind == "handle":
            yield node.name
        case ir.Binary() | ir.Select():
            yield from _pointers(node.a)
            yield from _pointers(node.b)
        case ir.Cast() | ir.Reinterpret():
            yield from _pointers(node.a)


def _written_by(bound: Bound) -> Iterator[str]:
    reads = {access.operand for access in bound.form.touched if not access.write}
    writes = {access.operand for access in bound.form.touched if access.write}
    for operand in bound.instruction.operands:
        for node in bound.operands.get(operand.name, ()):
            if operand.name in writes or operand.name not in reads or operand.written:
                yield from _pointers(node)


# The arguments that are ``__restrict__``: no write of the kernel changes them, so that their loads may move.
#
# That holds for an array that the kernel only reads, in a call where no array that it writes overlaps it (the launch
# checks that; another call gets the text without the word), and as long as no other kernel writes it meanwhile. A
# kernel that can see while it runs that another thread has written (it polls memory, or has a fence) gets no such
# promise.


GRID_WAIT = "ptx.griddepcontrol.wait"


def restricted(kernel: ir.Kernel, constant: frozenset[str] | None = None) -> frozenset[str]:
    """The parameters whose arrays are only read, where some other array is written. constant: see `written`."""
    pointers = _pointers_of_kernel(kernel)
    unknown = any(param.dtype == "handle" and param.name not in pointers for param in kernel.params)
    asked_not = kernel.attr("tirx.noalias") is False
    if unknown or asked_not or len(pointers) < 2:
        return frozenset()
    writes = written(kernel, constant)
    return frozenset(pointers) - writes if writes and not _hears_of_others(kernel.body) else frozenset()


def written(kernel: ir.Kernel, constant: frozenset[str] | None = None) -> frozenset[str]:
    """The parameters whose arrays the kernel may write. constant: what `read_only` says of it, where that is known."""
    constant = read_only(kernel) if constant is None else constant
    return frozenset(
        name for name, buffers in _pointers_of_kernel(kernel).items() if any(b.name not in constant for b in buffers)
    )


def begins_early(kernel: ir.Kernel) -> bool:
    """Does the kernel wait for the grids before it at a place of its own, so that it may begin before they end?"""
    return any(bound.instruction.name == GRID_WAIT for _, bound in calls_in(kernel.body))


def _pointers_of_kernel(kernel: ir.Kernel) -> dict[str, list[ir.Buffer]]:
    """The buffers of each handle parameter."""
    pointers: dict[str, list[ir.Buffer]] = {}
    maps = {tensor_map.name for tensor_map in kernel.maps}
    for buffer in kernel.buffers:
        if isinstance(buffer.data, ir.Var) and buffer.name not in maps:
            pointers.setdefault(buffer.data.name, []).append(buffer)
    return pointers


def _hears_of_others(body: ir.Body) -> bool:
    """Is there a fence beyond the CTA, or a loop that may wait for what it reads from memory?"""
    for stmt in ir.statements(body):
        if isinstance(stmt, (ir.While, ir.For)) and _may_wait(stmt) and any(map(_is_heard, _inside(stmt))):
            return True
        for node in ir.expressions(stmt):
            if isinstance(node, ir.Call) and (node.op == GRID_WAIT or _reaches_others(bind(node))):
                return True
            if isinstance(node, (ir.Load, ir.Reinterpret)) and node.dtype.kind == "handle":
                return True
    return False


def _reaches_others(bound: Bound) -> bool:
    """May a call release to, or acquire from, other CTAs or kernels?"""
    fence = bound.fence
    if isinstance(fence, ProxyFence):
        return fence.proxy != "tmem"
    sems = {bound.word(access.sem) for access in bound.form.accesses}
    return (fence is not None and fence.scope != "cta") or not sems.isdisjoint(("acquire", "acq_rel"))


def _may_wait(loop: ir.While | ir.For) -> bool:
    return isinstance(loop, ir.While) or any(isinstance(stmt, ir.Break) for stmt in ir.statements(loop.body))


def _inside(loop: ir.While | ir.For) -> Iterator[object]:
    if isinstance(loop, ir.While):
        yield from ir.walk(loop.cond)
    for stmt in ir.statements(loop.body):
        yield from ir.expressions(stmt)


def _is_heard(node: object) -> bool:
    """Does it read global memory, by a load or through a pointer?"""
    if isinstance(node, ir.Call):
        return any(access.space in ("global", "generic") and not access.write for access in bind(node).form.accesses)
    return isinstance(node, ir.Load) and node.buffer.space == "global"
