"""The device code of a .cu file: its top-level pieces, which of them are for the GPU, and what their kernels take.

Host functions are blanked, so that every line stays where it was. NVRTC judges what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.load.cu_tree import Macros, Tree, below, defined, tree_of
from tilewright.load.declared import Parameter, number_name

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "Chunk",
    "blanked",
    "explicit_instances",
    "host_in_macros",
    "kernels",
    "parameters",
    "pieces",
    "qualified",
    "template_names",
]

_SCOPES = ("namespace_definition", "linkage_specification")
_BRANCHES = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "ERROR")
_NOTHING = ("comment", ";", "{", "}", "preproc_include", "preproc_def", "preproc_function_def", "preproc_call")
_TYPES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")
_KEPT = (*_TYPES, "type_definition", "alias_declaration", "using_declaration", "static_assert_declaration",
         "concept_definition", "namespace_alias_definition")  # fmt: skip
_FUNCTION, _LIST = "function_declarator", "parameter_list"
_BODIES = ("compound_statement", "try_statement", "field_declaration_list", "enumerator_list", "initializer_list")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level piece of a file. start, stop: where it is. device: is it for the GPU? scope: the namespaces around it
    that have names, ``a::b::``. node: its syntax, None of a call of a macro.
    """

    start: int
    stop: int
    device: bool
    kernel: bool = False
    scope: str = ""
    node: Node | None = None


def pieces(text: str, macros: Macros | None = None) -> list[Chunk]:
    """The pieces of a file in order, those inside of namespaces by themselves; directives for the preprocessor in
    between belong to none. macros: those of its headers, too.
    """
    tree = tree_of(text, macros)
    heads = ((start, stop, tree.between(start, stop).partition("(")[0]) for start, stop in tree.made)
    made = [Chunk(start, stop, True, bool(tree.macros.kernel.search(head))) for start, stop, head in heads]
    return sorted([*_within(tree, tree.root, ""), *made], key=lambda piece: piece.start)


def _within(tree: Tree, root: Node, scope: str) -> Iterator[Chunk]:
    todo = [(child, scope) for child in reversed(root.children)]
    while todo:
        node, scope = todo.pop()
        body = node.child_by_field_name("body")
        if node.type in _SCOPES and body is not None and body.type == "declaration_list":
            name = node.child_by_field_name("name")
            inner = f"{scope}{tree.of(name)}::" if name is not None and node.type == "namespace_definition" else scope
            todo += [(child, inner) for child in reversed(body.children)]
        elif node.type in _BRANCHES:
            todo += [(child, scope) for child in reversed(node.children)]
        elif node.is_named and node.type not in _NOTHING and not tree.is_directive(node):
            yield _piece(tree, node, scope)


def _piece(tree: Tree, node: Node, scope: str) -> Chunk:
    body, before = next(below(node, *_BODIES), None), node.prev_sibling
    begun = before.end_byte if before is not None else node.start_byte  # macros and attributes before it are its own
    start = max([begun, *(stop for stop in tree.ends if stop <= node.start_byte)])
    head = tree.between(start, body.start_byte if body is not None else node.end_byte)
    device = bool(tree.macros.device.search(head)) or _is_kept(tree, node)
    follows = node.next_sibling
    stop = follows.end_byte if follows is not None and follows.type == ";" else node.end_byte
    return Chunk(start, stop, device, bool(tree.macros.kernel.search(head)), scope, node)


def _is_kept(tree: Tree, node: Node) -> bool:
    """Is it a type or a constant, which code of the GPU may need?"""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    words = {tree.of(child) for child in node.children if child.type == "type_qualifier"}
    if node.type == "function_definition":
        return "constexpr" in words
    holds = node.child_by_field_name("type")
    is_type = holds is not None and holds.type in _TYPES and next(below(holds, *_BODIES), None) is not None
    return node.type in _KEPT or is_type or bool(words & {"const", "constexpr", "alignas"})


def blanked(text: str, dropped: Sequence[Chunk]) -> str:
    """The text with blanks in the place of pieces, its lines where they were."""
    for piece in dropped:
        inside = re.sub(r"\\(?!\n)|[^\n\\]", " ", text[piece.start : piece.stop])
        text = text[: piece.start] + inside + text[piece.stop :]
    return text


def host_in_macros(text: str, macros: Macros) -> list[Chunk]:
    """The host functions in macros that make functions of the GPU, as a kernel and the function that launches it."""
    found = []
    for name, start, body in defined(text):
        if name in macros.makers:
            plain = body.replace("\\\n", "  ").replace("##", "__")
            inner = [piece for piece in pieces(plain, macros) if not piece.device]
            found += [Chunk(start + each.start, start + each.stop, False) for each in inner]
    return found


def template_names(text: str) -> dict[str, tuple[str, ...]]:
    """The names of the parameters of each kernel's template, by the kernel's name."""
    tree, found = tree_of(text), dict[str, tuple[str, ...]]()
    for piece in pieces(text):
        listed = piece.node.child_by_field_name("parameters") if piece.node is not None else None
        head = next(below(piece.node, _FUNCTION), None) if piece.kernel and piece.node is not None else None
        name = head.child_by_field_name("declarator") if head is not None else None
        if listed is not None and name is not None and listed.type == "template_parameter_list":
            found[tree.of(name)] = tuple(tree.of(each).partition("=")[0].split()[-1] for each in listed.named_children)
    return found


def kernels(text: str) -> list[str]:
    """The names of the ``__global__`` functions, as they are written."""
    return list(dict.fromkeys(name for _, name, _ in _declared(text)))


def qualified(name: str, texts: Sequence[str]) -> str:
    """An instance of a template with the namespaces of its kernel, as texts declare it: ``a::k<4>`` of ``k<4>``.

    As it is where none of them does, or several.
    """
    path, angle, arguments = name.partition("<")
    scoped = {f"{piece.scope}{declared}" for text in texts for piece, declared, _ in _declared(text)}
    found = [each for each in scoped if f"::{each}".endswith(f"::{path.strip()}")]
    return f"{found[0]}{angle}{arguments}" if len(found) == 1 else name


def parameters(text: str) -> dict[str, tuple[Parameter, ...]]:
    """Each kernel's parameters, by its name. Of several kernels of one name: the names that the first one has."""
    found = dict[str, tuple[Parameter, ...]]()
    for _, name, parts in _declared(text):
        written = [_parameter(part) for part in parts]
        own = tuple(each for each in written if each)
        if len(own) == len(parts):
            other = found.setdefault(name, own)
            if [(each.type, each.element) for each in other] != [(each.type, each.element) for each in own]:
                found[name] = tuple(Parameter(each.name, "") for each in other)
    return found


def _parameter(text: str) -> Parameter | None:
    """One parameter out of its text; None where it has no name."""
    found = re.search(r"^(.*?)\b(\w+)\s*((?:\[[^\]]*\]\s*)*)(?:=.*)?$", text, re.DOTALL)
    if found is None or not found[1].strip():
        return None
    plain = re.sub(r"\b(?:__restrict__|__restrict)\b", " ", found[1])
    kind = re.sub(r"\s*([*&])\s*", r"\1", " ".join(plain.split())) + "*" * bool(found[3])
    pointee = re.sub(r"\b(?:const|volatile)\b", " ", kind)
    return Parameter(found[2], kind, number_name(pointee[:-1]) if pointee[-1] == "*" else "")


def _declared(text: str) -> Iterator[tuple[Chunk, str, list[str]]]:
    """The piece of each kernel, its name, and the text of each of its parameters."""
    tree = tree_of(text)
    for piece in pieces(text):
        declarator = next(below(piece.node, _FUNCTION), None) if piece.kernel and piece.node is not None else None
        if declarator is None or _is_instance(piece):
            continue
        name, listed = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
        if name is not None and listed is not None:
            given = [tree.of(each) for each in listed.named_children if each.type.endswith("parameter_declaration")]
            yield piece, tree.of(name), given


def _is_instance(piece: Chunk) -> bool:
    return piece.node is not None and piece.node.type == "template_instantiation"


def explicit_instances(text: str) -> list[str]:
    """The instances of templates of kernels that a text makes itself: ``template __global__ void k<128>(...)``."""
    tree = tree_of(text)
    made = [node for piece in pieces(text) if piece.kernel and _is_instance(piece) and piece.node is not None
            for node in below(piece.node, _FUNCTION)]  # fmt: skip
    named = (tree.of(name) for each in made if (name := each.child_by_field_name("declarator")) is not None)
    return [name for name in named if "<" in name]
