"""The numbers that host code of a .cu file comes to, as far as its text says them: ``(n + 255) / 256``,
``sizeof(float4) * rows``.

An expression is read by the grammar and never run. Names, macros with parameters and functions of one ``return`` are
looked up; what is not known is remembered by name, so that it can be asked for.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import dtype
from tilewright.isa import ARCHS
from tilewright.load.cu_tree import bare, parsed, with_values
from tilewright.load.declared import number_name

if TYPE_CHECKING:
    from tree_sitter import Node

Number = int | float

_BEFORE = 9  # letters that stand before an expression where it is read
_DEPTH = 40  # of names that lead to names
_MOST = 1 << 63
_LITERAL = re.compile(r"([+-]?0[xX][\da-fA-F]+|[+-]?[\d.]+(?:[eE][+-]?\d+)?)[uUlLzZfF]*")
_TWO: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_OF_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "%": lambda a, b: int(math.fmod(a, b)), "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
_ONE: Mapping[str, Callable[[Any], Number]] = {"-": operator.neg, "+": operator.pos, "!": operator.not_,
                                               "~": operator.invert}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "min": min, "max": max, "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor,
    "abs": abs, **{f"{name}{end}": getattr(math, name) for end in ("", "f")
                   for name in ("sqrt", "log2", "log", "log10", "exp", "exp2", "pow") if hasattr(math, name)},
}  # fmt: skip
_BYTES = {"half": 2, "__half": 2, "__half2": 4, "half2": 4, "__nv_bfloat16": 2, "__nv_bfloat162": 4, "__nv_fp8_e4m3": 1,
          "__nv_fp8_e5m2": 1, "dim3": 12, "bool": 1}  # fmt: skip
MULTIPROCESSORS = 4  # of the GPU that host code asks about: right code is so on any, and few make a run short
_PROPERTIES = {"warpSize": 32, "warp_size": 32, "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 48 << 10,
               "multiProcessorCount": MULTIPROCESSORS, "sharedMemPerBlockOptin": ARCHS["sm_90"].shared_bytes,
               "maxThreadsPerMultiProcessor": 2048}  # fmt: skip
_LIMITS = {"INT_MAX": 2**31 - 1, "INT_MIN": -(2**31), "UINT_MAX": 2**32 - 1, "RAND_MAX": 2**31 - 1, "CHAR_BIT": 8,
           "INT32_MAX": 2**31 - 1, "INT64_MAX": 2**63 - 1, "UINT32_MAX": 2**32 - 1, "LLONG_MAX": 2**63 - 1,
           "SHRT_MAX": 2**15 - 1, "UCHAR_MAX": 255, "UINT8_MAX": 255, "FLT_MAX": 3.4028234663852886e38,
           "FLT_MIN": 1.1754943508222875e-38, "DBL_MAX": 1.7976931348623157e308, "INFINITY": math.inf,
           "M_PI": math.pi}  # fmt: skip
_ARRAY = re.compile(r"([^\[]*)((?:\[[^\[\]]*\])+)")
_ROUNDS = re.compile(r"\w*?(?:ceil_?div|div_?(?:round_?)?up|cdiv|(?P<up>round_?up|align_?up))\w*", re.IGNORECASE)
_OF_TENSOR = re.compile(r"\w+\.(?:size|stride)\(\d+\)")
_OF_POINTEE = re.compile(r"\w+(?:->\w+)+(?:\[\w+\])?|[^\W\d]\w*\.[^\W\d]\w*")
_AXIS = re.compile(r"(\w+)\.([xyz])")
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1-4])")


def is_name(word: str) -> bool:
    """Is it what a number is asked for by: a name, an extent of a tensor, ``x.size(0)``, a member, ``q->ne[1]``?"""
    return _is_plain(word) or bool(_OF_POINTEE.fullmatch(word))


def _is_plain(word: str) -> bool:
    return word.isidentifier() or bool(_OF_TENSOR.fullmatch(word))


def _standing(name: str) -> Number | None:
    """What a limit of C comes to, or a property of the GPU: ``INT_MAX``, ``props.warpSize``."""
    table = _PROPERTIES if re.search(r"\.|->", name) else _LIMITS
    return table.get(re.split(r"\.|->|::", name)[-1])


def type_bytes(kind: str) -> int | None:
    """The size of a type by its words, ``16 bytes`` among them; None of one that is no number, vector or pointer."""
    plain = re.sub(r"\b(?:const|volatile|struct|std::)\b|::", " ", kind).strip()
    if plain.endswith("*"):
        return 8
    if told := re.fullmatch(r"(\d+) bytes", plain):
        return int(told[1])
    if plain in _BYTES:
        return _BYTES[plain]
    if found := _VECTOR.fullmatch(plain):
        base = "long long" if found[1].endswith("longlong") else found[1].removeprefix("u")
        size = type_bytes(base)
        return size * int(found[2]) if size else None
    return dtype(name).bits // 8 if (name := number_name(plain)) else None


def literal(word: str) -> Number | None:
    """A number as C++ writes it; None for any other text."""
    found = _LITERAL.fullmatch(word.replace("'", ""))
    if found is None:
        return None
    digits = found[1]
    try:
        if digits.lstrip("+-")[:2] in ("0x", "0X"):
            return int(digits, 16)
        return float(digits) if re.search(r"[.eE]", digits) else int(digits, 8 if re.match(r"[+-]?0\d", digits) else 10)
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def expression(text: str) -> Node | None:
    """The syntax of an expression; `said` has the texts of its nodes."""
    root = parsed(f"auto _ = {text};")
    made = root.named_children[0] if root.named_children else None
    node = made.child_by_field_name("declarator") if made is not None else None
    return node.child_by_field_name("value") if node is not None and node.type == "init_declarator" else None


def said(node: Node | None, text: str) -> str:
    """The text of a node of `expression`."""
    return text[node.start_byte - _BEFORE : node.end_byte - _BEFORE] if node is not None else ""


@dataclass
class HostNumbers:
    """What names stand for. names: their values, or the texts of these. calls: parameters and body of macros and
    functions. lacks: names that were asked for and are not known. types: of names, as they are declared. used:
    names that were asked for and are integers of no other names. read: what a name is by the code that runs before.
    instead: another expression for one that names cannot say, as of a tensor's extents. behind: the names without which
    the code that runs before does not say one.
    """

    names: Mapping[str, str | Number]
    calls: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    lacks: set[str] = field(default_factory=set)
    types: Mapping[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    read: Callable[[str], Number | None] = lambda name: None
    instead: Callable[[str], str | None] = lambda word: None
    behind: Callable[[str], Collection[str]] = lambda name: ()
    _depth: int = 0

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """What is asked for here is not remembered."""
        lacks, used = {*self.lacks}, {**self.used}
        yield
        self.lacks, self.used = lacks, used

    def of(self, text: str) -> Number | None:
        """The number that an expression comes to, a float where C++ has one; None where the text does not say."""
        node = expression(text)
        if node is None or self._depth > _DEPTH:
            return None
        self._depth += 1
        try:
            found = self._of(node, text)
        except (ArithmeticError, ValueError, TypeError, RecursionError):
            found = None
        self._depth -= 1
        return found if found is not None and abs(found) < _MOST else None

    def _of(self, node: Node | None, text: str) -> Number | None:
        act = _READERS.get(node.type) if node is not None else None
        return act(self, node, text) if act is not None and node is not None else None

    def _name(self, node: Node, text: str) -> Number | None:
        name = re.sub(r"\s", "", said(node, text))
        found = self.names.get(name, self.names.get(name.rpartition("::")[2]))
        if found is None and (extent := _AXIS.fullmatch(name)) and extent[1] in self.names:
            found = self._extent(extent[1], "xyz".index(extent[2]))
        if found is None:
            found = _standing(name) or self.read(name)
        if not isinstance(found, str):
            self.lacks |= {*self.behind(name)} or {name} if found is None else set()
            self.used |= {name: found} if isinstance(found, int) and found > 1 else {}
            return found
        before, many, self.lacks = self.lacks, len(self.used), set()
        if (value := self.of(found)) is None and (value := self.read(name)) is not None:
            self.lacks = set()
        if value is None:  # ask for the names in its text, or for the name itself
            self.lacks = {word for word in self.lacks if _is_plain(word) or self._is_member(word)} or {name}
        self.lacks |= before
        if value is None:
            return None
        if isinstance(value, int) and value > 1 and len(self.used) == many:
            self.used[name] = value
        return value

    def _is_member(self, word: str) -> bool:
        """Is it a member of a structure whose declaration is known?"""
        owner, dot, _ = word.partition(".")
        return bool(dot) and self.types.get(self.types.get(owner, ""), "").endswith(" bytes")

    def _extent(self, name: str, axis: int) -> Number | None:
        """``grid.y`` of ``dim3 grid(a, b)``."""
        word, seen = self.names.get(name), set[str]()
        while isinstance(word, str) and word in self.names and word not in seen:
            seen.add(word)
            word = self.names.get(word)
        node = expression(word) if isinstance(word, str) and re.match(r"dim3\s*[({]|\{", word) else None
        parts = node
        if node is not None and node.type != "initializer_list":
            parts = node.child_by_field_name("arguments") or node.child_by_field_name("value")
        if parts is None:
            return None
        words = [said(child, str(word)) for child in parts.named_children]
        return self.of(words[axis]) if axis < len(words) else 1

    def _element(self, node: Node, text: str) -> Number | None:
        """``{4, 8}[1]``, by the name that stands for the list."""
        if (other := self.instead(re.sub(r"\s", "", said(node, text)))) is not None:
            return self.of(other)
        listed = self.names.get(said(node.child_by_field_name("argument"), text))
        whole = expression(listed) if isinstance(listed, str) else None
        place = next(iter(node.named_children[1:]), None)
        while place is not None and place.type == "subscript_argument_list":
            place = next(iter(place.named_children), None)
        index = self._of(place, text)
        if whole is None or whole.type != "initializer_list" or not isinstance(index, int):
            return self._name(node, text)
        elements = [said(each, str(listed)) for each in whole.named_children]
        return self.of(elements[index]) if 0 <= index < len(elements) else None

    def _inner(self, node: Node, text: str) -> Number | None:
        return self._of(node.named_children[0], text)

    def _one(self, node: Node, text: str) -> Number | None:
        value = self._of(node.child_by_field_name("argument"), text)
        act = _ONE.get(said(node.child_by_field_name("operator"), text))
        return act(value) if act is not None and value is not None else None

    def _stepped(self, node: Node, text: str) -> Number | None:
        """``n++`` is n, ``++n`` the number behind it."""
        value, words = self._of(node.child_by_field_name("argument"), text), said(node, text)
        return value if value is None else value + {"++": 1, "--": -1}.get(words[:2], 0)

    def _both(self, node: Node, text: str) -> Number | None:
        a, b = (self._of(node.child_by_field_name(side), text) for side in ("left", "right"))
        return self._two(said(node.child_by_field_name("operator"), text), a, b)

    def _chosen(self, node: Node, text: str) -> Number | None:
        chosen = self._of(node.child_by_field_name("condition"), text)
        way = "consequence" if chosen else "alternative"
        return None if chosen is None else self._of(node.child_by_field_name(way), text)

    def _cast(self, node: Node, text: str) -> Number | None:
        kind = said(node.child_by_field_name("type"), text)
        return _as(kind, self._of(node.child_by_field_name("value"), text))

    def _size(self, node: Node, text: str) -> Number | None:
        kind = re.sub(r"^sizeof\s*\(?\s*(?:const\s+)?(?:struct\s+)?|\)$", "", said(node, text)).strip()
        name, depth = re.sub(r"^\*\s*|\[0\]", "", kind), kind.startswith("*") + kind.count("[0]")
        if array := _ARRAY.fullmatch(self.types.get(name, "")):
            counts = [self._count(name, words) for words in re.findall(r"\[(.*?)\]", array[2])[depth:]]
            sizes = [type_bytes(self.types.get(array[1], array[1])), *counts]
            return None if None in sizes else math.prod(size for size in sizes if size is not None)
        held = self.names.get(kind) if depth else None  # of a vector
        pointee = self.types.get(name, "")[:-1]
        named = held if isinstance(held, str) else pointee if depth else self.types.get(kind, kind)
        return type_bytes(self.types.get(named, named))

    def _count(self, name: str, extent: str) -> Number | None:
        """How many elements an array has; of one without an extent, as many as its list."""
        words = self.names.get(name)
        listed = expression(words) if isinstance(words, str) and not extent else None
        return self.of(extent) if listed is None else len(listed.named_children)

    def _call(self, node: Node, text: str) -> Number | None:
        listed = node.child_by_field_name("arguments")
        words = [said(each, text) for each in listed.named_children] if listed is not None else []
        whole = re.sub(r"\s", "", said(node, text))
        if (other := self.instead(whole)) is not None:
            return self.of(other)
        if _is_plain(whole):
            return self._name(node, text)
        value = self._called(said(node.child_by_field_name("function"), text), words)
        return value if value is not None else self.read(said(node, text))

    @staticmethod
    def _two(word: str, a: Number | None, b: Number | None) -> Number | None:
        if word in ("&&", "||"):
            known = [bool(each) for each in (a, b) if each is not None]
            decides = word == "||"
            return int(decides) if decides in known else None if len(known) < 2 else int(not decides)
        if a is None or b is None:
            return None
        if word == "/":
            if isinstance(a, float) or isinstance(b, float):
                return a / b
            return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
        if word in _OF_INTEGERS and isinstance(a, int) and isinstance(b, int):
            return _OF_INTEGERS[word](a, b) if word not in ("<<", ">>") or 0 <= b < 63 else None
        return +_TWO[word](a, b) if word in _TWO else None

    def _called(self, name: str, words: list[str]) -> Number | None:
        if found := re.fullmatch(r"(?:static_cast|reinterpret_cast)\s*<(.*)>", name, re.DOTALL):
            return _as(found[1], self.of(words[0])) if words else None
        if name.endswith(".size"):
            size = self.names.get(f"{name}()") if not words else None
            return self.of(size) if isinstance(size, str) else size
        called = bare(name)
        if called in self.calls:
            parameters, body = self.calls[called]
            if len(words) < len(parameters):
                return None  # the rest has values of its own, which the function itself knows
            given = {each: f"({word})" for each, word in zip(parameters, words, strict=False)}
            return self.of(with_values(body, given)) if body else None
        values = [self.of(word) for word in words]
        known = [each for each in values if each is not None]
        if len(known) < len(values) or not known:
            return None
        if called in _FUNCTIONS:
            return _FUNCTIONS[called](*known)
        if len(known) == 2 and (rounded := _ROUNDS.fullmatch(called)):
            many = -(-known[0] // known[1])
            return many * known[1] if rounded["up"] else many
        return _as(name, known[0]) if number_name(name) else None


def _as(kind: str, value: Number | None) -> Number | None:
    """A number cast to a type."""
    if value is None:
        return None
    name = number_name(kind.strip())
    return float(value) if name.startswith("float") else int(value) if name else value


_READERS: Mapping[str, Callable[[HostNumbers, Node, str], Number | None]] = {
    "number_literal": lambda _, node, text: literal(said(node, text)),
    "true": lambda *_: 1,
    "false": lambda *_: 0,
    **dict.fromkeys(("identifier", "qualified_identifier", "field_expression"), HostNumbers._name),
    "subscript_expression": HostNumbers._element,
    **dict.fromkeys(("parenthesized_expression", "condition_clause"), HostNumbers._inner),
    "unary_expression": HostNumbers._one,
    "update_expression": HostNumbers._stepped,
    "binary_expression": HostNumbers._both,
    "conditional_expression": HostNumbers._chosen,
    "cast_expression": HostNumbers._cast,
    "sizeof_expression": HostNumbers._size,
    "call_expression": HostNumbers._call,
}
