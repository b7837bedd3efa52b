"""The variables of a .cu file's device code as their author indexes them: ``tile[3][5]`` for a byte of ``float
tile[32][33]``.

PTX has them as bytes. What the text declares under a name counts where it fits the bytes that PTX has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.ir import AllocBuffer, Indexed, Kernel, const_value, statements
from tilewright.load.cu_host import calls_of, constants_of, function_around
from tilewright.load.cu_kept import kept
from tilewright.load.cu_numbers import HostNumbers, type_bytes
from tilewright.load.cu_structures import KINDS, aliases_of, plain_type
from tilewright.load.cu_tree import Tree, bare, below, split, template_parameters, tree_of, with_values
from tilewright.ptx.mangled import plain_name, qualified_name

if TYPE_CHECKING:
    from tree_sitter import Node

STRUCTURE = "struct"  # what stands for any type with fields
_MOST_ALIASES = 8  # one of the other
_ELEMENT = "_$_"  # before an index, in the symbol of a part of an array
_WIDTHS = (1, 2, 4, 8, 16)  # bytes of an element whose type is known to nobody
_INNERMOST = re.compile(r"(?:.*::)?(\w+)(?:<(.*)>)?")  # of a function's name


class _Declared(NamedTuple):
    """A variable of device code in a text. function: around it, "" for none; template: the names of its template's
    parameters. extents: their texts, "" for one that is left out. constants: of the function, by their names.
    """

    function: str
    template: Sequence[str]
    kind: str
    extents: Sequence[str]
    is_extern: bool
    constants: Mapping[str, str]


def _whole(symbol: str) -> tuple[str, list[int]]:
    """The symbol of an array, and the indices of the one element that is left of it: NVRTC has ``s_$_3`` for ``s[3]``
    where the indices of all accesses are constants.
    """
    whole, *parts = symbol.split(_ELEMENT)
    return (whole, [*map(int, parts)]) if all(map(str.isdigit, parts)) else (symbol, [])


@kept
def _device_variables(texts: tuple[str, ...]) -> dict[str, list[tuple[Any, ...]]]:
    """The variables of ``__shared__``, ``__constant__`` and ``__device__`` memory that texts declare, by name."""
    rows = dict[str, list[tuple[Any, ...]]]()
    for tree in map(tree_of, texts):
        for node in below(tree.root, "declaration"):
            before = node.prev_sibling
            head = tree.between(before.end_byte if before is not None else node.start_byte, node.end_byte)
            if not tree.macros.device.search(head):
                continue
            function = function_around(node)
            around = _around(function, tree) if function is not None else ("", (), {})
            kind, is_extern = node.child_by_field_name("type"), bool(re.search(r"\bextern\b", head))
            for declarator in node.children_by_field_name("declarator"):
                if (parts := _parts(declarator, tree)) is not None and kind is not None:
                    name, pointer, extents = parts
                    words = STRUCTURE if kind.type in KINDS else plain_type(tree.of(kind)) + pointer
                    rows.setdefault(name, []).append((*around[:2], words, extents, is_extern, around[2]))
    return rows


def _around(function: Node, tree: Tree) -> tuple[str, Sequence[str], dict[str, str]]:
    """The name of a function, the names of its template's parameters, and its constants."""
    head = next(below(function, "function_declarator"), None)
    name = head.child_by_field_name("declarator") if head is not None else None
    template = template_parameters(function.parent, tree) if function.parent is not None else None
    values, words = dict[str, set[str]](), r"\bconst(?:expr)?\b"
    for node in below(function, "declaration"):
        for declarator in node.children_by_field_name("declarator") if re.search(words, tree.of(node)) else ():
            value = declarator.child_by_field_name("value")
            constant = declarator.child_by_field_name("declarator")
            if value is not None and constant is not None:
                values.setdefault(tree.of(constant), set()).add(tree.of(value))
    only = {constant: next(iter(texts)) for constant, texts in values.items() if len(texts) == 1}
    return tree.of(name).rpartition("::")[2] if name is not None else "", template or (), only


def _parts(node: Node, tree: Tree) -> tuple[str, str, list[str]] | None:
    """Name, ``*`` of a pointer, and extents of a declarator; None of a reference, a function, a pointer to an array."""
    extents, pointer = list[str](), ""
    while node.type in ("array_declarator", "pointer_declarator"):
        size, inner = node.child_by_field_name("size"), node.child_by_field_name("declarator")
        if inner is None:
            return None
        if node.type == "pointer_declarator":
            pointer = "*"
        else:
            extents.insert(0, tree.of(size) if size is not None else "")
        node = inner
    return (tree.of(node), pointer, extents) if node.type == "identifier" else None


@kept
def _types(texts: tuple[str, ...]) -> dict[str, str]:
    """What the names of types stand for: other words, or a structure."""
    types = dict[str, str]()
    for tree in map(tree_of, texts):
        structures = (node.child_by_field_name("name") for node in below(tree.root, *KINDS))
        types |= {tree.of(name).partition("<")[0]: STRUCTURE for name in structures if name is not None}
        for name, kind in aliases_of(tree):
            if kind is not None:
                has_fields = any(node.child_by_field_name("body") is not None for node in below(kind, *KINDS))
                types.setdefault(name, STRUCTURE if has_fields else plain_type(tree.of(kind)))
    return types


@dataclass(frozen=True)
class IndexedVariables(Mapping[str, Indexed]):
    """How the author of a kernel indexes its variables, by their names in reports; read out of the texts where a report
    asks. names: of its variables in reports, by symbol.
    """

    texts: tuple[str, ...]
    kernel: Kernel
    names: Mapping[str, str]

    def __getitem__(self, name: str) -> Indexed:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _rows(self) -> Mapping[str, Indexed]:
        symbols = {name: symbol for symbol, name in self.names.items()}
        shared = (stmt.buffer for stmt in statements(self.kernel.body) if isinstance(stmt, AllocBuffer))
        rows = dict[str, Indexed]()
        for buffer in (*(each for each in shared if each.is_shared), *self.kernel.buffers):
            if buffer.name not in symbols:
                continue
            symbol, parts = _whole(symbols[buffer.name])
            read = {*self._read(symbol, len(parts), int(const_value(buffer.shape[0]) or 0))}
            if len(read) == 1 and (strides := read.pop()) is not None:
                name = plain_name(symbol) if parts else buffer.name
                rows[buffer.name] = Indexed(f"{name}{''.join(f'[{index}]' for index in parts)}", strides)
        return rows

    def _read(self, symbol: str, depth: int, nbytes: int) -> Iterator[tuple[int, ...] | None]:
        """What each declaration of a variable says; None for one that says nothing, or what does not fit."""
        around = _INNERMOST.fullmatch(qualified_name(symbol).rpartition("::")[0]) if symbol.startswith("_ZZ") else None
        for row in _device_variables(self.texts).get(plain_name(symbol), ()):
            declared = _Declared(*row)
            if (around is None or declared.function == around[1]) and depth <= len(declared.extents):
                bound = dict(zip(declared.template, split((around and around[2]) or ""), strict=False))
                inner = declared._replace(extents=declared.extents[depth:])
                yield self._strides(inner, bound, nbytes)

    def _strides(self, declared: _Declared, bound: Mapping[str, str], nbytes: int) -> tuple[int, ...] | None:
        names = {**constants_of(self.texts), **declared.constants, **bound}
        numbers = HostNumbers(names, calls_of(self.texts))
        first, *inner = [numbers.of(text) if text else None for text in declared.extents] or [1]
        extents = [extent for extent in inner if isinstance(extent, int) and extent > 0]
        if len(extents) < len(inner):
            return None
        width, rest = self._width(with_values(declared.kind, bound)), prod(extents)
        total = first * rest if isinstance(first, int) and first > 0 else None
        if width is None and total is not None and nbytes % total == 0:
            width = nbytes // total if nbytes // total in _WIDTHS else None
        if not width or nbytes % (width * rest) or (total is not None and total * width != nbytes):
            return None
        if declared.is_extern and width == 1:  # a pool: its bytes are called so
            return None
        return tuple(width * prod(extents[place:]) for place, _ in enumerate(declared.extents))

    def _width(self, kind: str) -> int | None:
        """The bytes of a type; 0 of a structure, None of one that texts do not declare."""
        types = _types(self.texts)
        for _ in range(_MOST_ALIASES):
            if kind == STRUCTURE:
                return 0
            if (size := type_bytes(kind)) is not None:
                return size
            name = bare(kind)
            if name not in types:
                return None
            kind = types[name]
        return None
