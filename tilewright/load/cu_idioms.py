"""Plain reads beside atomics of the same place that are right all the same, as the text of a kernel has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from linecache import getlines
from typing import TYPE_CHECKING

from tilewright.load.cu_tree import LOOPS, Tree, below, outwards, tree_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.errors import Span

_ZERO = r"(?:\(\w[\w ]*\))?\(?[-+]?0*\.?0+(?:\.0*)?[uUlLfF]*\)?"
_NONE_LEFT = r"~0[uUlL]*|-1|0x[fF]{8}(?:[fF]{8})?[uUlL]*"
_KEEPS = {"add": _ZERO, "sub": _ZERO, "or": _ZERO, "xor": _ZERO, "and": _NONE_LEFT}  # operands that change nothing
_SPARED = re.compile(r"min|max|exch|cas|or|and", re.IGNORECASE)
_COUNTS = ("add", "inc")
_OPERATION = re.compile(r"atomic_?(?:fetch_?)?([a-z]+)", re.IGNORECASE)


def spares(read: Span | None, atomic: Span | None) -> bool:
    """Does an atomic change nothing, as ``atomicAdd(p, 0)``, or decides what is read plainly on nothing but whether it
    is worth while, as in ``if (x < *p) atomicMin(p, x)``?
    """
    if atomic is None or read is None:
        return False
    tree = tree_of("".join(getlines(atomic.file)))
    lines = {span.line for span in _through(read) if span.file == atomic.file}
    return any(_changes_nothing(call, tree) or _is_guarded(call, lines, tree) for call in _atomics(atomic, tree))


def is_only_counted(texts: Sequence[str], variable: str) -> bool:
    """Do texts name a variable of the device in its declaration, and else in atomics alone that count on?"""
    uses = [use for text in texts if variable in text for use in _uses(tree_of(text), variable)]
    return bool(uses) and all(operation in _COUNTS for operation in uses if operation is not None)


def _uses(tree: Tree, variable: str) -> Iterator[str | None]:
    """The atomics that a variable is handed to, "" for any other use; None of its declaration."""
    for node in below(tree.root, "identifier"):
        if tree.of(node) != variable:
            continue
        above = node
        while above.parent is not None and above.parent.type in ("array_declarator", "init_declarator"):
            above = above.parent
        if above.parent is not None and above.parent.type == "declaration":
            yield None
            continue
        call = next((outer for outer in outwards(node) if outer.type == "call_expression"), None)
        yield _operation(call, tree) if call is not None else ""


def _through(span: Span) -> Iterator[Span]:
    """A place, and those of the calls that lead to it."""
    at: Span | None = span
    while at is not None:
        yield at
        at = at.outer


def _atomics(at: Span, tree: Tree) -> Iterator[Node]:
    """The calls of atomics at a place, or of functions with such a name that lead to it."""
    lines = {span.line for span in _through(at) if span.file == at.file}
    for call in below(tree.root, "call_expression"):
        rows = range(call.start_point[0] + 1, call.end_point[0] + 2)
        if not lines.isdisjoint(rows) and _operation(call, tree):
            yield call


def _operation(call: Node, tree: Tree) -> str:
    name = call.child_by_field_name("function")
    operation = _OPERATION.search(tree.of(name).rpartition("::")[2]) if name is not None else None
    return operation[1].lower() if operation is not None else ""


def _operands(call: Node, tree: Tree) -> list[str]:
    listed = call.child_by_field_name("arguments")
    return [_plain(tree.of(child)) for child in listed.named_children] if listed is not None else []


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text)


def _changes_nothing(call: Node, tree: Tree) -> bool:
    words, kind = _operands(call, tree), _operation(call, tree)
    if kind == "cas" and len(words) == 3:
        return words[1] == words[2]
    return len(words) > 1 and kind in _KEEPS and re.fullmatch(_KEEPS[kind], words[1]) is not None


def _is_guarded(call: Node, lines: set[int], tree: Tree) -> bool:
    """Is a call all that a condition decides about which reads its place plainly in one of the lines?"""
    words = _operands(call, tree)
    if not words or not _SPARED.search(_operation(call, tree)):
        return False
    target, node = words[0], call
    array, plus, place = target.partition("+")
    names = {target[1:]} if target[:1] == "&" else {f"*{target}", f"*({target})", f"{array}[{place if plus else 0}]"}
    while (above := node.parent) is not None and above.type not in ("function_definition", "lambda_expression"):
        left = above.child_by_field_name("left") if above.type == "binary_expression" else None
        if left is not None and left != node and "&&" in tree.of(above) and _reads(left, names, lines, tree):
            return True
        if above.type == "if_statement" and node == above.child_by_field_name("consequence"):
            condition = above.child_by_field_name("condition")
            is_all = above.child_by_field_name("alternative") is None and _is_alone(call, node)
            return is_all and condition is not None and _reads(condition, names, lines, tree)
        node = above
    return False


def _is_alone(call: Node, body: Node) -> bool:
    """Is a call, with what follows from its result, all that a branch does?"""
    inside = [child for child in body.named_children if child.type != "comment"] if body.type.startswith("comp") else []
    return len(inside) < 2


def _reads(condition: Node, names: set[str], lines: set[int], tree: Tree) -> bool:
    """Does a condition read one of these places in one of the lines, itself or by a variable that begins with it and is
    used for nothing else?
    """
    text = _plain(tree.of(condition))
    if any(name in text for name in names):
        return not lines.isdisjoint(range(condition.start_point[0] + 1, condition.end_point[0] + 2))
    function = condition
    while function.type != "function_definition" and function.parent is not None:
        function = function.parent
    for declared in below(function, "init_declarator"):
        name, value = (declared.child_by_field_name(side) for side in ("declarator", "value"))
        if name is None or value is None or declared.start_point[0] + 1 not in lines:
            continue
        uses = [node for node in below(function, "identifier") if tree.of(node) == tree.of(name) and node != name]
        inside = [use for use in uses if condition.start_byte <= use.start_byte < condition.end_byte]
        if any(place in _plain(tree.of(value)) for place in names) and uses and len(inside) == len(uses):
            return True
    return False


# Tiles of which a turn of a loop fills the part that is inside of an array.


def fills_in_part(text: str, line: int = 0) -> bool:
    """Does a line, or any, copy to an element where a condition without elements holds, in a loop in which threads
    meet?
    """
    tree = tree_of(text)
    for copy in below(tree.root, "assignment_expression"):
        left, right = (copy.child_by_field_name(side) for side in ("left", "right"))
        is_here = not line or copy.start_point[0] < line <= copy.end_point[0] + 1
        if is_here and left is not None and left.type == "subscript_expression" and right is not None:
            base = tree.of(left).partition("[")[0]
            is_copy = any(base not in tree.of(part) for part in below_or_self(right, *_ELEMENTS))
            if is_copy and base not in tree.of(right) and _is_in_part(copy, tree):
                return True
    return False


_ELEMENTS = ("subscript_expression", "pointer_expression", "call_expression")


def below_or_self(node: Node, *kinds: str) -> Iterator[Node]:
    """The nodes of these kinds below a node, and itself."""
    if node.type in kinds:
        yield node
    yield from below(node, *kinds)


def _is_in_part(copy: Node, tree: Tree) -> bool:
    """Does a copy stand in a branch by a condition without elements, and that in a loop in which threads meet?"""
    node, guarded = copy, False
    while (above := node.parent) is not None and above.type not in ("function_definition", "lambda_expression"):
        condition = above.child_by_field_name("condition") if above.type == "if_statement" else None
        if condition is not None and node == above.child_by_field_name("consequence"):
            if any(below_or_self(condition, *_ELEMENTS)):
                return False
            guarded = True
        if guarded and above.type in LOOPS and re.search(r"__syncthreads|\bsync\s*\(", tree.of(above)):
            return True
        node = above
    return False
