"""The last turn of a loop of host code that launches a kernel: ``for (int k = 0; k < n; k += 16) step<<<...>>>(x, k)``.

Launches are checked as the first turn makes them. What leads out of an array often does so in the last one, where less
than a tile is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.arguments import kernel_of
from tilewright.cli.launching import Launched, launches_of, launches_said
from tilewright.errors import TilewrightError
from tilewright.load import LoadedModule
from tilewright.load.cu_numbers import HostNumbers
from tilewright.load.cu_tree import below, outwards

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host
    from tilewright.load.cu_numbers import Number

MOST_TURNS = 4096
_STEPS = {"++": "+ 1", "--": "- 1"}


def last_turn(module: LoadedModule, launch: Launched, file: Path, sizes: Mapping[str, Number]) -> Launched | None:
    """A launch as the last turn of the loops around it makes it; None where that is no other one, or not known."""
    kernel = kernel_of(module, launch.request)
    shapes = (shape for shape in launches_of(module, kernel.name, sizes) if shape.line == launch.around.line)
    host = next((shape.host for shape in shapes if shape.host is not None), None)
    numbers = _last_numbers(host) if host is not None else {}
    if not numbers:
        return None
    try:
        launches, lacks = launches_said(module, launch.asked, file, {**sizes, **numbers})
    except TilewrightError:
        return None
    last = next((other for other in launches if other.request.kernel == launch.request.kernel), None)
    is_known = last is not None and not lacks.what and last.error is None and last.around.line == launch.around.line
    return last if is_known and last is not None and last.request != launch.request else None


def _last_numbers(host: Host) -> dict[str, Number]:
    """The variables of the loops around a launch, as they are in the last turn of each."""
    numbers: dict[str, Number] = {}
    for loop in reversed([node for node in outwards(host.node) if node.type == "for_statement"]):
        if (last := _last_number(host, loop, numbers)) is not None:
            numbers |= {last[0]: last[1]}
    return numbers


def _last_number(host: Host, loop: Node, numbers: Mapping[str, Number]) -> tuple[str, Number] | None:
    """The variable of a loop and its last value; None where the text does not say it."""
    body, condition, update = (loop.child_by_field_name(part) for part in ("body", "condition", "update"))
    if body is None or condition is None or update is None or update.type not in _UPDATES:
        return None
    name = _set_by(host, update)
    is_kept = not (
        {name} & {_set_by(host, node) for node in below(body, *_UPDATES)} or [*below(body, "break_statement")]
    )
    value = host.number(name) if name.isidentifier() and is_kept else None
    step, last, goes_on = _UPDATES[update.type](host, update, name), value, host.tree.of(condition)
    for _ in range(MOST_TURNS):
        if value is None:
            return None
        names = HostNumbers({**host.numbers.names, **numbers, name: value}, types=host.numbers.types)
        if (asked := names.of(goes_on)) is None:
            return None
        if not asked:
            return (name, last) if last is not None else None
        last, value = value, names.of(step)
    return None


def _set_by(host: Host, update: Node) -> str:
    """The variable that an update is of."""
    named = update.child_by_field_name("left") or update.child_by_field_name("argument")
    return host.tree.of(named) if named is not None else ""


def _assigned(host: Host, update: Node, name: str) -> str:
    right, sign = (update.child_by_field_name(part) for part in ("right", "operator"))
    words, operator = (host.tree.of(part) if part is not None else "" for part in (right, sign))
    return words if operator == "=" else f"{name} {operator.removesuffix('=')} ({words})"


def _stepped(host: Host, update: Node, name: str) -> str:
    return f"{name} {_STEPS[host.tree.of(update).replace(name, '').strip()]}"


_UPDATES = {"assignment_expression": _assigned, "update_expression": _stepped}
