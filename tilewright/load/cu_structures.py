"""The structures of a .cu file as far as C++ lays them out as C does: plain numbers, pointers, arrays and each other.

Functions of a structure change nothing of its layout, ``alignas`` does in a known way; what does otherwise (a base, a
virtual function, a bit-field) is named, so that an error can say why the fields are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import dtype
from tilewright.load.cu_kept import kept
from tilewright.load.cu_tree import Tree, below, pieces, tree_of
from tilewright.load.declared import POINTER, Field, Parameter, number_name

if TYPE_CHECKING:
    from tree_sitter import Node

# The variables of a .cu file in global and constant memory, with the dtypes of their elements.
#
# PTX knows no signs of integers, and has arrays of structures as bytes: the author's declaration says what the bits
# mean.


_MOST_ALIASES = 8  # one of the other


@kept
def variables(texts: tuple[str, ...]) -> dict[str, str]:
    """The dtypes of ``__constant__`` and ``__device__`` variables of plain numbers, by their names with namespaces."""
    text = "\n".join(texts)
    tree = tree_of(text)
    aliases = dict(_aliases(tree))
    found = dict[str, str]()
    for piece in pieces(text):
        node = piece.node
        while node is not None and node.type == "template_declaration":
            node = node.named_children[-1]
        if node is not None and node.type == "declaration" and piece.device and not piece.kernel:
            kind = _number(node.child_by_field_name("type"), tree, aliases)
            found |= {f"{piece.scope}{name}": kind for name in _names_of_variable(node, tree) if kind}
    return found


def _aliases(tree: Tree) -> Iterator[tuple[str, Node | None]]:
    """The names that a text gives to types."""
    for node in below(tree.root, "alias_declaration", "type_definition"):
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if name is not None:
            yield tree.of(name), node.child_by_field_name("type")


def _names_of_variable(node: Node, tree: Tree) -> Iterator[str]:
    """The names that a declaration of variables declares; none of pointers, references and functions."""
    for each in node.children_by_field_name("declarator"):
        one: Node | None = each
        while one is not None and one.type in ("init_declarator", "array_declarator"):
            one = one.child_by_field_name("declarator")
        if one is not None and one.type == "identifier":
            yield tree.of(one)


def _number(kind: Node | None, tree: Tree, aliases: Mapping[str, Node | None]) -> str:
    """The dtype of a type; "" of one that is no number."""
    for _ in range(_MOST_ALIASES):
        if kind is None:
            return ""
        if kind.type == "type_descriptor":
            kind = kind.child_by_field_name("type")
            continue
        word = tree.of(kind)
        if name := number_name(word):
            return name
        kind = aliases.get(word.rpartition(":")[2])
    return ""


_KINDS = ("struct_specifier", "class_specifier", "union_specifier")
_BODY = "field_declaration_list"
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|mutable|__restrict__|__restrict|struct|class|final|typename|__grid_constant__)\b"
)
_ALIGN = re.compile(r"\b(?:alignas|__align__|__builtin_align__|aligned)\s*\(\s*(\w+)\s*\)")
_OTHERS = {"bitfield_clause": "bit-fields", "reference_declarator": "references"}
_VECTORS = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "longlong": 8, "ulonglong": 8,
            "float": 4, "double": 8}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Structure:
    """problem: why its fields are not known; empty where they are."""

    fields: tuple[Field, ...] = ()
    align: int = 0
    problem: str = ""

    def nbytes(self) -> tuple[int, int]:
        """Its size and alignment, as C has them."""
        size, most = 0, max(1, self.align)
        for field in self.fields:
            each, align = (8, 8) if field.kind == POINTER else _Structure(field.inner, field.whole).nbytes()
            if field.kind not in ("", POINTER):
                each = align = dtype(field.kind).bits // 8
            align = max(align, field.align)
            size += -size % align + each * max(1, field.count)
            most = max(most, align)
        return size + -size % most, most


def _of_cuda() -> Iterator[tuple[str, _Structure]]:
    """CUDA's own: ``float4``, ``dim3`` and their kin, and tensor maps."""
    for name, size in _VECTORS.items():
        kind = f"{'u' * (name[0] == 'u')}int{8 * size}" if name not in ("float", "double") else f"float{8 * size}"
        for count in range(1, 5):
            align = min(16, count * size) if count != 3 else size
            yield f"{name}{count}", _Structure(tuple(Field(each, kind) for each in "xyzw"[:count]), align)
    yield "dim3", _Structure(tuple(Field(each, "uint32") for each in "xyz"))
    yield "CUtensorMap", _Structure((Field("opaque", "uint64", 16),), 64)


def with_fields(
    parameters: Mapping[str, tuple[Parameter, ...]], texts: tuple[str, ...]
) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel, with the fields of those that are structures which texts declare."""
    known = {name: _Structure(_fields(own), align, problem) for name, (own, align, problem) in _declared(texts).items()}
    return {kernel: tuple(_described(each, known) for each in own) for kernel, own in parameters.items()}


@kept
def _declared(texts: tuple[str, ...]) -> dict[str, tuple[list[dict[str, Any]], int, str]]:
    """The structures that texts declare, and CUDA's own: fields, alignment and problem by name."""
    tree, structures = tree_of("\n".join(texts)), dict(_of_cuda())
    for node in below(tree.root, *_KINDS):
        if node.child_by_field_name("body") is not None:
            structures |= dict.fromkeys(_names(node, tree), _structure(node, tree, structures))
    return {name: ([*map(asdict, whole.fields)], whole.align, whole.problem) for name, whole in structures.items()}


def _fields(said: Sequence[Mapping[str, Any]]) -> tuple[Field, ...]:
    return tuple(Field(**{**field, "inner": _fields(field["inner"])}) for field in said)


def _described(each: Parameter, known: Mapping[str, _Structure]) -> Parameter:
    name = _QUALIFIERS.sub(" ", each.type).strip()
    if name.endswith("*"):
        pointed = known.get(name[:-1].strip())
        return replace(each, element_bytes=pointed.nbytes()[0]) if pointed and not pointed.problem else each
    title = name.partition("<")[0].rpartition("::")[2].strip()
    found = known.get(name.split("<")[0], _Structure())
    is_empty = known.get(title) == _Structure() and not any(other.startswith(f"{title}<") for other in known)
    problem = "it is an instance of a template" if "<" in name else found.problem
    fields = () if problem else found.fields
    return replace(each, fields=fields, align=found.align, problem=problem, is_empty=is_empty)


def _names(node: Node, tree: Tree) -> list[str]:
    """The names of a structure: its own, and those of a typedef around it."""
    around = node.parent
    aliases = around.children_by_field_name("declarator") if around and around.type == "type_definition" else []
    return [tree.of(each) for each in (node.child_by_field_name("name"), *aliases) if each is not None]


def _structure(node: Node, tree: Tree, known: Mapping[str, _Structure]) -> _Structure:
    """What is in a structure."""
    body = node.child_by_field_name("body")
    assert body is not None, "it was asked for"
    title = next(iter(_names(node, tree)), "the structure")
    head = tree.between(node.start_byte, body.start_byte)
    aligns = _ALIGN.findall(head + tree.between(node.end_byte, _end(node)))
    base = next((child for child in node.children if child.type == "base_class_clause"), None)
    if base is not None:
        return _Structure(problem=f"{title} has a base, {tree.of(base).lstrip(': ')}")
    fields: list[Field] = []
    for child in body.named_children:
        if problem := _read(child, tree, known, fields):
            return _Structure(problem=f"{title} has {problem}")
    if not all(map(str.isdigit, aligns)):
        return _Structure(problem=f"{title} has an alignment that is no number")
    return _Structure(tuple(fields), max([0, *map(int, aligns)]))


def _end(node: Node) -> int:
    """Where attributes behind the braces of a structure end."""
    behind = node.next_sibling
    return behind.start_byte if behind is not None else node.end_byte


def _read(node: Node, tree: Tree, known: Mapping[str, _Structure], fields: list[Field]) -> str:
    """Add the fields of a declaration; returns what is in the way of that, empty for nothing."""
    if node.type not in ("field_declaration", "function_definition", "declaration"):
        return ""
    words = {tree.of(child) for child in node.children if child.type in ("storage_class_specifier", "type_qualifier")}
    if words & {"static", "constexpr"}:
        return ""
    declarators = node.children_by_field_name("declarator")
    parts = {child.type for child in node.children} | {each.type for each in declarators}
    functions = [each for each in declarators if next(below(each, "function_declarator"), None)]
    if node.type == "function_definition" or functions:
        if "virtual" in parts:
            return "virtual functions"
        is_pointer = any(next(below(each, "parenthesized_declarator"), None) for each in functions)
        return "a pointer to a function" if is_pointer else ""
    if problem := next((what for part, what in _OTHERS.items() if part in parts), ""):
        return problem
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _KINDS and kind.child_by_field_name("body") is not None:
        return "a union or a structure inside" if declarators or kind.child_by_field_name("name") is None else ""
    before = node.prev_sibling
    whole = tree.between(before.end_byte if before is not None else node.start_byte, node.end_byte)
    aligns = [int(each) for each in _ALIGN.findall(whole) if each.isdigit()]
    for each in declarators:
        field = _field(each, tree, _QUALIFIERS.sub(" ", tree.of(kind)).strip() if kind is not None else "", known)
        if field is None:
            return f"a field of another kind, `{tree.of(node).rstrip(';')}`"
        fields.append(replace(field, align=max([0, *aligns])))
    return ""


def _field(declarator: Node, tree: Tree, kind: str, known: Mapping[str, _Structure]) -> Field | None:
    """A field of a type by its declarator; None where C lays it out in another way, or nobody knows how."""
    count, one, is_pointer = 0, declarator, False
    while one.type in ("array_declarator", "pointer_declarator"):
        inner, size = one.child_by_field_name("declarator"), one.child_by_field_name("size")
        if one.type == "pointer_declarator":
            is_pointer = True
        elif count or size is None or not tree.of(size).isdigit():
            return None
        else:
            count = int(tree.of(size))
        if inner is None:
            return None
        one = inner
    structure = known.get(kind, _Structure())
    if one.type != "field_identifier" or not (is_pointer or number_name(kind) or structure.fields):
        return None
    if is_pointer:
        return Field(tree.of(one), POINTER, count)
    return Field(tree.of(one), number_name(kind), count, structure.fields, 0, structure.align)
