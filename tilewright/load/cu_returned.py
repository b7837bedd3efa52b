"""What a variable's members are that a function of the host returns: ``LaunchConfig c = config_of(n)``, and the names
of ``auto [grid, block] = config_of(n)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.load.cu_allocations import Definition, definitions
from tilewright.load.cu_numbers import literal
from tilewright.load.cu_tree import bare, below, split, with_values

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host

_BINDS = "structured_binding_declarator"
_LISTS = re.compile(
    r"(?:(?:std\s*::\s*)?(?:make_pair|make_tuple|pair|tuple)\b|(\w+))?\s*(?:<[^{}()]*>)?\s*[({](.*)[)}]$", re.DOTALL
)
_DEPTH = 8  # of names that stand for others in a function


def returned(
    host: Host, call: Node, declared: Node, members: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The members of a variable with what a function returns in them, in the words of its caller, which is ``host``.
    declared: the variable, or the names that are bound; members: those of the structures of the texts.
    """
    called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    function = next(definitions(host, bare(host.tree.of(called))), None) if called is not None else None
    if function is None or listed is None:
        return
    words = [host.tree.of(word) for word in listed.named_children if word.type != "comment"]
    passed = dict(zip(function.names, words, strict=False))
    kind = function.node.child_by_field_name("type")
    fields = members.get(bare(function.tree.of(kind)) if kind is not None else "", {})
    name = host.tree.of(declared)
    names = [host.tree.of(part) for part in declared.named_children] if declared.type == _BINDS else []
    for place, (field, word) in enumerate(_parts(function, host, passed, fields)):
        target = f"{name}.{field}" if not names else names[place] if place < len(names) else ""
        if target:
            yield target, word


def _parts(
    function: Definition, host: Host, passed: Mapping[str, str], fields: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The parts of what a function returns at last, by the names of fields, "" of those that have none."""
    ends = [node for node in below(function.node, "return_statement") if node.named_children]
    if not ends:
        return
    via = host, dict(passed)
    inside = replace(host, tree=function.tree, node=ends[-1], around=host.texts, bound={}, via=via)
    word = function.tree.of(ends[-1].named_children[0])
    if word.isidentifier():
        parts = {field: inside.word(f"{word}.{field}") for field in fields if f"{word}.{field}" in inside.local}
    elif (match := _LISTS.match(word)) and (not match[1] or fields):
        listed = split(match[2])
        parts = dict(zip(fields, listed, strict=False)) if fields else {str(n): part for n, part in enumerate(listed)}
    else:
        return
    for field, part in parts.items():
        yield field, with_values(_expanded(part, inside), {name: f"({word})" for name, word in passed.items()})


def _expanded(word: str, inside: Host) -> str:
    """An expression by the parameters of the function that it stands in, as far as its own names are said."""
    own = {name: str(value) if literal(str(value)) else f"({value})" for name, value in inside.local.items()
           if name.isidentifier() and name not in inside.parameters and not str(value).startswith("dim3")}  # fmt: skip
    dims = {name: str(value) for name, value in inside.local.items() if str(value).startswith("dim3")}
    for _ in range(_DEPTH):
        before, word = word, with_values(dims.get(word.strip(), word), own)
        if word == before:
            break
    return word
