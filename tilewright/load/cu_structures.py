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
from tilewright.load.cu_host import calls_of, constants_of
from tilewright.load.cu_kept import kept
from tilewright.load.cu_numbers import HostNumbers
from tilewright.load.cu_tree import (
    Tree,
    bare,
    below,
    defined,
    outwards,
    pieces,
    split,
    template_parameters,
    tree_of,
    with_values,
)
from tilewright.load.declared import POINTER, TENSOR_MAP, Field, Parameter, number_name

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
    aliases = dict(aliases_of(tree))
    found = dict[str, str]()
    for piece in pieces(text):
        node = piece.node
        while node is not None and node.type in ("template_declaration", "linkage_specification"):
            node = node.named_children[-1]
        if node is not None and node.type == "declaration" and piece.device and not piece.kernel:
            kind = _number(node.child_by_field_name("type"), tree, aliases)
            found |= {f"{piece.scope}{name}": kind for name in _names_of_variable(node, tree) if kind}
    return found


def aliases_of(tree: Tree) -> Iterator[tuple[str, Node | None]]:
    """The names that a text gives to types; those of enumerations with the type of their numbers, None for int."""
    for node in below(tree.root, "alias_declaration", "type_definition"):
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if name is not None:
            yield tree.of(name), node.child_by_field_name("type")
    for node in below(tree.root, "enum_specifier"):
        base = node.child_by_field_name("base")
        if base is not None or node.child_by_field_name("body") is not None:
            yield from ((name, base) for name in _names(node, tree))


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
        while kind is not None and kind.type == "type_descriptor":
            kind = kind.child_by_field_name("type")
        if kind is None:
            return ""
        name = tree.of(kind).rpartition(":")[2]
        if (number := number_name(tree.of(kind))) or name not in aliases:
            return number or _NARROW.get(name, "")
        if aliases[name] is None:
            return "int32"
        kind = aliases[name]
    return ""


KINDS = ("struct_specifier", "class_specifier", "union_specifier")
_BODY = "field_declaration_list"
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|mutable|__restrict__|__restrict|struct|class|final|typename|__grid_constant__)\b"
)
_ALIGN = re.compile(r"\b(?:alignas|__align__|__builtin_align__|aligned)\s*\(\s*(\w+)\s*\)")
_OTHERS = {"bitfield_clause": "bit-fields", "reference_declarator": "references"}
_VECTORS = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "longlong": 8, "ulonglong": 8,
            "float": 4, "double": 8}  # fmt: skip
_NARROW = {**dict.fromkeys(("__half", "half", "nv_half", "Half"), "float16"),
           **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "BFloat16"), "bfloat16")}  # fmt: skip


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
    """CUDA's own: ``float4``, ``dim3`` and their kin, numbers of 16 bits, and tensor maps."""
    for name, kind in _NARROW.items():
        spaces = ("at::", "c10::") if name[0].isupper() else ("",)
        yield from ((space + name, _Structure((Field("x", kind),), 2)) for space in spaces)
    for name, size in _VECTORS.items():
        kind = f"{'u' * (name[0] == 'u')}int{8 * size}" if name not in ("float", "double") else f"float{8 * size}"
        for count in range(1, 5):
            align = min(16, count * size) if count != 3 else size
            yield f"{name}{count}", _Structure(tuple(Field(each, kind) for each in "xyzw"[:count]), align)
    yield "dim3", _Structure(tuple(Field(each, "uint32") for each in "xyz"))
    yield "CUtensorMap", _Structure(TENSOR_MAP, 64)


def with_fields(
    parameters: Mapping[str, tuple[Parameter, ...]], texts: tuple[str, ...]
) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel, with the fields of those that are structures which texts declare."""
    known = {name: _Structure(_fields(own), align, problem) for name, (own, align, problem) in _declared(texts).items()}
    numbers, instances = _aliased(texts), _aliased_instances(texts)
    words = {**instances, **_numbers_of_macros(texts)}
    parameters = {kernel: tuple(spelled_out(param, words) for param in written)
                  for kernel, written in parameters.items()}  # fmt: skip
    for kind in {plain_type(param.type) for written in parameters.values() for param in written}:
        if kind.endswith(">") and (structure := _instance(texts, kind, known)) is not None:
            known[kind] = structure
    return {kernel: tuple(_described(each, known, numbers) for each in own) for kernel, own in parameters.items()}


@dataclass(frozen=True)
class _Reader:
    """Reads structures of a text. structures: those so far, by name. numbers: what extents come to. aliases: other
    names of types. bound: the arguments of the template around, by the names of its parameters.
    """

    tree: Tree
    structures: dict[str, _Structure]
    numbers: HostNumbers
    aliases: Mapping[str, Node | None]
    bound: Mapping[str, str]

    @staticmethod
    def of(
        texts: tuple[str, ...], structures: Mapping[str, _Structure], bound: Mapping[str, str] | None = None
    ) -> _Reader:
        tree = tree_of("\n".join(texts))
        names = {**constants_of(texts), **(bound or {})}
        return _Reader(tree, dict(structures), HostNumbers(names, calls_of(texts)), dict(aliases_of(tree)), bound or {})

    def kind(self, node: Node | None) -> str:
        """The words of a type, those of the template replaced by its arguments."""
        words = self.tree.of(node) if node is not None else ""
        return plain_type(with_values(words, self.bound))

    def number(self, kind: str) -> str:
        """The dtype of a number by its type's words, that of an enumeration among them; "" of another type."""
        name = kind.rpartition(":")[2]
        if name in self.aliases and self.aliases[name] is None:
            return "int32"
        return number_name(kind) or _number(self.aliases.get(name), self.tree, self.aliases)

    def extent(self, node: Node | None) -> int:
        """The extent of an array; 0 where nobody knows it."""
        value = self.numbers.of(self.tree.of(node)) if node is not None else None
        return value if isinstance(value, int) and value > 0 else 0


def plain_type(kind: str) -> str:
    """The words of a type without qualifiers."""
    return " ".join(_QUALIFIERS.sub(" ", kind).split())


@kept
def _declared(texts: tuple[str, ...]) -> dict[str, tuple[list[dict[str, Any]], int, str]]:
    """The structures that texts declare, and CUDA's own: fields, alignment and problem by name."""
    read = _Reader.of(texts, dict(_of_cuda()))
    for node in below(read.tree.root, *KINDS):
        if node.child_by_field_name("body") is not None:
            read.structures.update(dict.fromkeys(_names(node, read.tree), _structure(node, read)))
    return {name: ([*map(asdict, whole.fields)], whole.align, whole.problem) for name, whole in read.structures.items()}


@kept
def structure_bytes(texts: tuple[str, ...]) -> dict[str, int]:
    """The sizes of the structures that texts declare, where their fields are known, and of other names of numbers."""
    declared = _declared(texts).items()
    numbers = {name: dtype(number).bits // 8 for name, number in _aliased(texts).items()}
    return numbers | {name: _Structure(_fields(fields), align).nbytes()[0]
                      for name, (fields, align, problem) in declared if fields and not problem}  # fmt: skip


def _instance(texts: tuple[str, ...], name: str, structures: Mapping[str, _Structure]) -> _Structure | None:
    """An instance of a template of structures, ``List<4>``; None of what texts declare no template of."""
    title_of, arguments = bare(name), split(name.partition("<")[2][:-1])
    tree, structure = tree_of("\n".join(texts)), _Structure()
    for node in below(tree.root, *KINDS):
        around, title = node.parent, next(iter(_names(node, tree)), "")
        if title.startswith(f"{title_of}<") and structures.get(title) != _Structure():
            return _Structure(problem="it is an instance of a template that has specialisations")
        names = template_parameters(around, tree) if around is not None and title == title_of else None
        if names and len(names) == len(arguments) and node.child_by_field_name("body") is not None:
            structure = _structure(node, _Reader.of(texts, structures, dict(zip(names, arguments, strict=True))))
    return structure if structure.fields or structure.problem else None


def _fields(said: Sequence[Mapping[str, Any]]) -> tuple[Field, ...]:
    return tuple(Field(**{**field, "inner": _fields(field["inner"])}) for field in said)


@kept
def _aliased(texts: tuple[str, ...]) -> dict[str, str]:
    """The dtypes of other names of numbers, ``hist_t`` of ``typedef float hist_t``."""
    aliases = dict(aliases_of(tree := tree_of("\n".join(texts))))
    return {name: number for name, kind in aliases.items() if (number := _number(kind, tree, aliases))}


def _numbers_of_macros(texts: tuple[str, ...]) -> dict[str, str]:
    """The words of numbers for which macros stand, ``float`` of ``#define DTYPE float``."""
    macros = (macro for text in texts for macro in defined(text))
    return {name: " ".join(body.split()) for name, _, body in macros if number_name(body)}


def spelled_out(param: Parameter, words: Mapping[str, str]) -> Parameter:
    """A parameter whose type has what names stand for in their places."""
    kind = with_values(param.type, words)
    pointee = re.sub(r"\b(?:const|volatile)\b|\*$", " ", kind)
    return replace(param, type=kind, element=number_name(pointee) if kind[-1:] == "*" else param.element)


@kept
def _aliased_instances(texts: tuple[str, ...]) -> dict[str, str]:
    """What other names of instances of templates stand for, ``matrix`` of ``typedef Accessor<float, 2> matrix``."""
    aliases = dict(aliases_of(tree := tree_of("\n".join(texts))))
    return {name: words for name, kind in aliases.items()
            if kind is not None and (words := tree.of(kind)).endswith(">") and not _is_in_template(kind)}  # fmt: skip


def _is_in_template(node: Node) -> bool:
    return any(outer.type == "template_declaration" for outer in outwards(node))


def _described(each: Parameter, known: Mapping[str, _Structure], numbers: Mapping[str, str]) -> Parameter:
    name = plain_type(each.type)
    if name.endswith("*") and not each.element and (number := numbers.get(name[:-1].strip().rpartition(":")[2])):
        return replace(each, element=number)
    if name.endswith("*"):
        pointed = known.get(name[:-1].strip())
        return replace(each, element_bytes=pointed.nbytes()[0]) if pointed and not pointed.problem else each
    title = bare(name)
    structure = known.get(name, known.get(name.split("<")[0], _Structure()))
    problem = "it is an instance of a template" if "<" in name and name not in known else structure.problem
    alike = [known[other] for other in known if other == title or other.startswith(f"{title}<")]
    is_empty = bool(alike) and all(other == _Structure() for other in alike)
    fields = () if problem else structure.fields
    return replace(each, fields=fields, align=structure.align, problem=problem, is_empty=is_empty)


def _named(node: Node) -> Iterator[Node]:
    """The names of a structure or an enumeration: its own, and those of a typedef around it."""
    around = node.parent
    aliases = around.children_by_field_name("declarator") if around and around.type == "type_definition" else []
    yield from (name for name in (node.child_by_field_name("name"), *aliases) if name is not None)


def _names(node: Node, tree: Tree) -> list[str]:
    return [tree.of(each) for each in _named(node)]


def _structure(node: Node, read: _Reader) -> _Structure:
    """What is in a structure."""
    tree = read.tree
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
        if problem := _read(child, read, fields):
            return _Structure(problem=f"{title} has {problem}")
    if not all(map(str.isdigit, aligns)):
        return _Structure(problem=f"{title} has an alignment that is no number")
    return _Structure(tuple(fields), max([0, *map(int, aligns)]))


def _end(node: Node) -> int:
    """Where attributes behind the braces of a structure end."""
    behind = node.next_sibling
    return behind.start_byte if behind is not None else node.end_byte


def _read(node: Node, read: _Reader, fields: list[Field]) -> str:
    """Add the fields of a declaration; returns what is in the way of that, empty for nothing."""
    tree = read.tree
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
    if kind is not None and kind.type in KINDS and kind.child_by_field_name("body") is not None:
        return "a union or a structure inside" if declarators or kind.child_by_field_name("name") is None else ""
    before = node.prev_sibling
    whole = tree.between(before.end_byte if before is not None else node.start_byte, node.end_byte)
    aligns = [int(each) for each in _ALIGN.findall(whole) if each.isdigit()]
    for each in declarators:
        field = _field(each, read, read.kind(kind))
        if field is None:
            return f"a field of another kind, `{tree.of(node).rstrip(';')}`"
        fields.append(replace(field, align=max([0, *aligns])))
    return ""


def _field(declarator: Node, read: _Reader, kind: str) -> Field | None:
    """A field of a type by its declarator; None where C lays it out in another way, or nobody knows how."""
    extents, is_pointer = list[int](), False
    while declarator.type in ("array_declarator", "pointer_declarator"):
        if declarator.type == "pointer_declarator":
            is_pointer = True
        else:
            extents.append(read.extent(declarator.child_by_field_name("size")))
        inner = declarator.child_by_field_name("declarator")
        if inner is None or (extents and not extents[-1]):
            return None
        declarator = inner
    structure = read.structures.get(kind, _Structure())
    number = POINTER if is_pointer else read.number(kind)
    if declarator.type != "field_identifier" or not (number or structure.fields):
        return None
    align = structure.align if not number else 0
    element = read.number(kind) if is_pointer else ""
    field = Field(read.tree.of(declarator), number, 0, () if number else structure.fields, 0, align, element=element)
    for extent in extents[:-1]:  # an array of arrays is one of structures of equal fields
        field = replace(field, kind="", inner=tuple(replace(field, name=f"[{k}]") for k in range(extent)))
    return replace(field, count=extents[-1]) if extents else field
