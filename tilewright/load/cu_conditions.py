"""Does host code come to a launch? The conditions around it, and those that leave its function before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host

_LEAVES = ("return_statement", "throw_statement", "continue_statement", "break_statement")
_EQUAL = re.compile(r"\(?\s*(\w+)\s*==\s*([\w:]+)\s*\)?")


def conditions(host: Host) -> Iterator[tuple[str, bool | None]]:
    """What has to hold for host code to come to its place, and whether it does; None where the text does not say."""
    with host.numbers.unasked():
        yield from [(text, _holds(host, text, wanted=wanted)) for text, wanted in _wanted(host)]


def constants_of(host: Host, text: str, names: Collection[str]) -> list[int]:
    """The numbers in a condition that host code says, whatever ``names`` are."""
    words = dict.fromkeys(re.findall(r"(?<![\w.])\w+\b(?!\.)", text))
    with host.numbers.unasked():
        values = [host.number(word) for word in words if word not in names]
    return [int(value) for value in values if value is not None]


def _holds(host: Host, text: str, *, wanted: bool) -> bool | None:
    value = host.number(text)
    return None if value is None else bool(value) is wanted


def _wanted(host: Host) -> Iterator[tuple[str, bool]]:
    """The conditions of the function around a place, and what they have to be."""
    node, above = host.node, host.node.parent
    while above is not None and above.type not in ("function_definition", "lambda_expression"):
        if above.type == "if_statement" and (condition := above.child_by_field_name("condition")) is not None:
            if node.id != condition.id:
                then = above.child_by_field_name("consequence")
                yield host.tree.of(condition), then is not None and then.id == node.id
        elif above.type == "case_statement":
            yield from _chosen(host, above)
        elif above.type == "compound_statement":
            yield from ((text, False) for text in _left(host, above, node))
        node, above = above, above.parent


def _chosen(host: Host, case: Node) -> Iterator[tuple[str, bool]]:
    """The conditions of a case, or of the default: none of the others."""
    label, body = case.child_by_field_name("value"), case.parent
    switch = body.parent if body is not None else None
    chosen = switch.child_by_field_name("condition") if switch is not None else None
    if body is None or chosen is None:
        return
    others = (other.child_by_field_name("value") for other in body.named_children if other.type == "case_statement")
    for other in [label] if label is not None else [other for other in others if other is not None]:
        yield f"{host.tree.of(chosen).strip('()')} == {host.tree.of(other)}", label is not None


def _left(host: Host, block: Node, node: Node) -> Iterator[str]:
    """The conditions by which a block ends before a statement of it."""
    for before in block.named_children:
        if before.start_byte >= node.start_byte:
            return
        condition, then = before.child_by_field_name("condition"), before.child_by_field_name("consequence")
        if before.type == "if_statement" and condition is not None and then is not None:
            last = then.named_children[-1] if then.type == "compound_statement" and then.named_children else then
            if last.type in _LEAVES and before.child_by_field_name("alternative") is None:
                yield host.tree.of(condition)


def assumed(host: Host) -> Host:
    """Host code at a place where parameters of the function, and numbers that are proposed, are what its branch is for:
    ``if (size == 256)``, ``case 4``. A caller may pass them, where the text calls the function otherwise.
    """
    for text, wanted in _wanted(host):
        pair = _EQUAL.fullmatch(text.strip())
        if pair is not None and wanted and pair[1] in {*host.parameters, *host.given}:
            with host.numbers.unasked():
                value, holds = host.number(pair[2]), _holds(host, text, wanted=True)
            if value is not None and holds is False:
                host = replace(host, given={**host.given, pair[1]: value})
    return host
