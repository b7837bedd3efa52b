"""What host code does with arrays around a launch: which of them nothing sets before it, and which a loop around it
leaves as the last turn has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.load.cu_allocations import (
    ALLOCATES,
    ALLOCATES_ROWS,
    allocating,
    base_of,
    definitions,
    homes,
    is_address_of,
)
from tilewright.load.cu_tree import LOOPS, bare, below, parameters, tree_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host

_LOOKS = ("cudaFree", "cudaFreeAsync", "printf", "fprintf", "assert", "cudaMemAdvise", "cudaMemPrefetchAsync",
          "cudaPointerGetAttributes", "cudaStreamAttachMemAsync")  # fmt: skip
_COPIES = ("cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cudaMemcpyPeer")  # to the first argument, from the second
_FILLS = {"cudaMemset": 1, "cudaMemsetAsync": 1, "cudaMemset2D": 2, "cudaMemset2DAsync": 2}  # where the value stands
_IN_ROW = ("cudaMemset", "cudaMemsetAsync", "cudaMemcpy", "cudaMemcpyAsync")  # as many bytes as the third argument says
_AROUND_NAMES = ("pointer_declarator", "reference_declarator", "pointer_expression", "cast_expression")
_FREES = ("cudaFree", "cudaFreeAsync")


@dataclass(frozen=True)
class LaunchLoop:
    """A loop that launches a kernel with the same arguments in each turn. line: where it begins. kept: the words of
    arrays that a turn does not set. looked_at: of those, what host code uses behind the launch.
    """

    line: int
    kept: tuple[str, ...]
    looked_at: tuple[str, ...]


class SetPart(NamedTuple):
    """How much of an array host code sets before a launch: bytes of the allocated ones, in this line."""

    line: int
    nbytes: int
    allocated: int


@dataclass(frozen=True, slots=True)
class HostAround:
    """What host code does around a launch, by the names of parameters. line: of the launch. unset: arrays that nothing
    sets before it, with the lines that allocate them. in_part: arrays whose end nothing sets. by_launches: arrays that
    launches alone set before it, with their lines; rest: the bytes of those that these leave as they are, where that is
    known. loop: the line of a loop that launches it again with the same arguments, 0 for none. kept: arrays that its
    turns do not set; looked_at: those of them that are used behind it.
    """

    line: int = 0
    unset: Mapping[str, int] = field(default_factory=dict)
    in_part: Mapping[str, SetPart] = field(default_factory=dict)
    by_launches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rest: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    loop: int = 0
    kept: frozenset[str] = frozenset()
    looked_at: frozenset[str] = frozenset()
    words: Mapping[str, str] = field(default_factory=dict)


def unset(host: Host, word: str) -> int | None:
    """The line where an array is allocated that nothing sets before the launch; None of any other array."""
    every = [*homes(host, word)]
    return _allocated(word, every) if not [*_setting(every)] else None


def by_launches(host: Host, word: str) -> frozenset[int]:
    """The lines of the launches that alone set an array before this one, once each; none where anything else may, or
    where other turns of a loop set other parts.
    """
    every = [*homes(host, word)]
    calls = [(_called(use, home)[2], home) for use, home in _setting(every)]
    lines = {call.start_point[0] + 1 for call, home in calls
             if call is not None and _is_launch(call) and _is_made_once(call, home, host)}  # fmt: skip
    return frozenset(lines) if len(lines) == len(calls) and _allocated(word, every) is not None else frozenset()


def _is_made_once(call: Node, home: Host, host: Host) -> bool:
    """Does host code come to a call once before a launch: in no loop, and in no function that is called again?"""
    if _is_in_loop(call):
        return False
    if home.function is None or home.function == host.function:
        return True
    head = next(below(home.function, "function_declarator"), None)
    name = bare(home.tree.of(head).partition("(")[0]) if head is not None else ""
    trees = (home.tree, *(tree_of(text) for text in home.around if name and name in text))
    callers = [caller for tree in trees for caller in below(tree.root, "call_expression")
               if bare(tree.of(caller).partition("(")[0]) == name]  # fmt: skip
    return len(callers) == 1 and not _is_in_loop(callers[0])


def _is_in_loop(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type not in ("function_definition", "lambda_expression"):
        if above.type in LOOPS:
            return True
        above = above.parent
    return False


def _setting(homes: Sequence[tuple[Host, str]]) -> Iterator[tuple[Node, Host]]:
    """The places before a launch that may set an array."""
    return ((use, home) for home, name in homes for use in _uses_before(home, name) if _sets(use, home, homes))


def _is_launch(call: Node) -> bool:
    return any(child.type == "kernel_call_syntax" for child in call.children)


def _allocated(word: str, homes: Sequence[tuple[Host, str]]) -> int | None:
    """The line where an array is allocated."""
    if not re.fullmatch(r"\w+(?:\.\w+)?", base_of(word).replace("->", ".")):
        return None
    for home, name in homes:
        for call, words in allocating(home.function, home.tree) if home.function is not None else ():
            if is_address_of(words[0], name, home):
                return call.start_point[0] + 1
    return None


def set_in_part(host: Host, word: str) -> SetPart | None:
    """How much of an array is set, where one call sets the first bytes of it, and fewer than are allocated."""
    every = [*homes(host, word)]
    before = [*_setting(every)]
    if len(before) != 1:
        return None
    use, home = before[0]
    name = next(name for place, name in every if place is home)
    called, place, words = _call_at(use, home)
    if called not in _IN_ROW or place != 0 or len(words) < 3 or base_of(words[0]).replace("->", ".") != name:
        return None
    nbytes, text = home.number(words[2]), host.allocation(word)
    allocated = host.number(text) if text is not None else None
    if nbytes is None or allocated is None or not 0 < nbytes < allocated:
        return None
    return SetPart(use.start_point[0] + 1, int(nbytes), int(allocated))


def is_copied_to(host: Host, word: str) -> bool:
    """Does host code copy numbers to an array, or write them there itself?"""
    every = ((use, home) for home, name in homes(host, word) for use in _uses(home, name))
    return any((called in _COPIES and place == 0) or _is_written(use)
               for use, home in every for called, place, _ in [_called(use, home)])  # fmt: skip


def _is_written(use: Node) -> bool:
    """Is it the array in ``a[i] = 1``?"""
    element = use.parent
    above = element.parent if element is not None and element.type == "subscript_expression" else None
    return above is not None and above.type == "assignment_expression" and above.child_by_field_name("left") == element


def filled_with(host: Host, word: str) -> int:
    """The byte that host code fills an array with, where that is what sets it last before the launch; else 0."""
    every = [*homes(host, word)]
    for home, name in every:
        if before := [use for use in _uses_before(home, name) if _sets(use, home, every)]:
            called, place, words = _call_at(before[-1], home)
            if called in _FILLS and place == 0 and len(words) > 2:
                return int(home.number(words[_FILLS[called]]) or 0) & 0xFF
            return 0
    return 0


def launch_loop(host: Host, words: Sequence[str]) -> LaunchLoop | None:
    """The loop around a launch with these arguments; None where there is none, or where turns differ in them."""
    loop = host.node.parent
    while loop is not None and loop.type not in LOOPS:
        if loop.type in ("lambda_expression", "function_definition"):
            return None
        loop = loop.parent
    if loop is None:
        return None
    changed = _changed(loop, host)
    if any(set(re.findall(r"\w+", word)) & changed for word in (host.tree.of(host.node), *words)):
        return None
    kept, looked_at = list[str](), list[str]()
    for word in words:
        uses = [use for use in _uses(host, base_of(word)) if not _is_in(use, host.node)]
        if re.fullmatch(r"[A-Za-z_]\w*", base_of(word)) and not any(
            _sets(use, host) for use in uses if _is_in(use, loop)
        ):
            kept.append(word)
            later = (use for use in uses if use.start_byte > host.node.end_byte)
            looked_at += [word] * any(_called(use, host)[0] not in _FREES for use in later)
    return LaunchLoop(loop.start_point[0] + 1, tuple(kept), tuple(looked_at))


def _is_in(node: Node, whole: Node) -> bool:
    return whole.start_byte <= node.start_byte and node.end_byte <= whole.end_byte


def _uses(host: Host, name: str) -> Iterator[Node]:
    """Where the function names a variable; of a member of a structure also where it names the whole structure."""
    root, dot, _ = name.partition(".")
    for node in below(host.function, "identifier", "field_expression") if host.function is not None else ():
        words = re.sub(r"\s", "", host.tree.of(node)).replace("->", ".")
        if words == name or (bool(dot) and words == root and (_method(node, host) or not _is_of_member(node))):
            yield node


def _is_of_member(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "field_expression"


def _method(node: Node, host: Host) -> str:
    """The function of its class that is called on an object, ``g.reset()``; "" for none."""
    above = node.parent.parent if node.parent is not None and _is_of_member(node) else None
    called = above.child_by_field_name("function") if above is not None and above.type == "call_expression" else None
    return re.split(r"\.|->", host.tree.of(called))[-1] if called is not None and called == node.parent else ""


def _uses_before(host: Host, name: str) -> Iterator[Node]:
    """Where the function names a variable before the host's place."""
    return (use for use in _uses(host, name) if use.start_byte < host.node.start_byte)


def _changed(loop: Node, host: Host) -> set[str]:
    """The names that a turn of a loop declares or changes."""
    names = set[str]()
    for node in below(loop, "init_declarator", "assignment_expression", "update_expression", "call_expression"):
        sides = [node.child_by_field_name(side) for side in ("declarator", "left", "argument")]
        names |= {word for side in sides if side is not None for word in re.findall(r"\w+", host.tree.of(side))[:1]}
        if node.type == "call_expression" and re.search(r"\bswap\s*\(", host.tree.of(node)):
            names |= set(re.findall(r"\w+", host.tree.of(node)))
    variable = loop.child_by_field_name("declarator")
    return names | (set(re.findall(r"\w+", host.tree.of(variable))) if variable is not None else set())


def _called(use: Node, host: Host) -> tuple[str, int, Node | None]:
    """The function whose argument a name stands in, "" for none, the number of the argument, and the call."""
    node = use
    while node.parent is not None and node.parent.type not in ("compound_statement", "function_definition"):
        call = node.parent.parent
        if node.parent.type == "argument_list" and call is not None and call.type == "call_expression":
            function = call.child_by_field_name("function")
            place = [child.id for child in node.parent.named_children].index(node.id)
            name = host.tree.of(function) if function is not None else ""
            return bare(name), place, call
        node = node.parent
    return "", 0, None


def _call_at(use: Node, host: Host) -> tuple[str, int, list[str]]:
    """As `_called`, with the words of the arguments."""
    called, place, call = _called(use, host)
    listed = call.child_by_field_name("arguments") if call is not None else None
    return called, place, [host.tree.of(child) for child in listed.named_children] if listed is not None else []


def _sets(use: Node, host: Host, homes: Sequence[tuple[Host, str]] = ()) -> bool:
    """May the code at a name set what the variable points to? True wherever that is not clear. homes: where the array
    lives besides, functions that are called among them.
    """
    name, place, call = _called(use, host)
    named = name or _assigned_by(use, host) or _method(use, host)
    if any(home.function == each.node for home, _ in homes for each in (definitions(host, named) if named else ())):
        return False  # what that function does is looked at there
    if call is None:
        return not _is_bare(use, host)
    if name in (*ALLOCATES, ALLOCATES_ROWS, *_LOOKS) or (name in _COPIES and place == 1):
        return False
    if _is_launch(call):
        texts = host.texts
        declared = next((parameters(text)[name] for text in texts if name in parameters(text)), ())
        return not (place < len(declared) and "const" in declared[place].type.partition("*")[0])
    return True


def _assigned_by(use: Node, host: Host) -> str:
    """The function whose result is assigned to a name; "" for none."""
    above = use.parent
    right = above.child_by_field_name("right") if above is not None and above.type == "assignment_expression" else None
    is_call = right is not None and right.type == "call_expression"
    return host.tree.of(right).partition("(")[0].strip() if right is not None and is_call else ""


def _is_bare(use: Node, host: Host) -> bool:
    """Is a name only declared, compared, returned, or put into a list of a launch's arguments?"""
    node, above = use, use.parent
    while above is not None and above.type in _AROUND_NAMES:
        node, above = above, above.parent
    if above is None:
        return False
    if above.type == "init_declarator" and above.child_by_field_name("declarator") == node:
        value = above.child_by_field_name("value")
        return value is None or host.tree.of(value) in ("nullptr", "NULL", "0") or "(" in host.tree.of(value)
    if above.type == "initializer_list":
        declared = above.parent.parent if above.parent is not None else None
        return declared is not None and "void" in host.tree.of(declared).partition("=")[0]
    words = host.tree.of(above)
    return above.type in ("declaration", "function_declarator", "parameter_declaration", "return_statement") or (
        above.type == "binary_expression" and bool(re.search(r"[=!]=", words))
    )
