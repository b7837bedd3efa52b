"""The variables of a .cu file in global and constant memory, with the dtypes of their elements.

PTX knows no signs of integers, and has arrays of structures as bytes: the author's declaration says what the bits mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tilewright.load.cu_pieces import pieces
from tilewright.load.cu_tree import Tree, below, tree_of
from tilewright.load.declared import number_name

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["variables"]

_MOST_ALIASES = 8  # one of the other


def variables(text: str) -> dict[str, str]:
    """The dtypes of ``__constant__`` and ``__device__`` variables of plain numbers, by their names with namespaces."""
    tree = tree_of(text)
    aliases = dict(_aliases(tree))
    found = dict[str, str]()
    for piece in pieces(text):
        node = piece.node
        while node is not None and node.type == "template_declaration":
            node = node.named_children[-1]
        if node is not None and node.type == "declaration" and piece.device and not piece.kernel:
            kind = _number(node.child_by_field_name("type"), tree, aliases)
            found |= {f"{piece.scope}{name}": kind for name in _names(node, tree) if kind}
    return found


def _aliases(tree: Tree) -> Iterator[tuple[str, Node | None]]:
    """The names that a text gives to types."""
    for node in below(tree.root, "alias_declaration", "type_definition"):
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if name is not None:
            yield tree.of(name), node.child_by_field_name("type")


def _names(node: Node, tree: Tree) -> Iterator[str]:
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
