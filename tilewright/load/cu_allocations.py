"""How many bytes an array of host code has been allocated with: by a call of cudaMalloc here, in a function that is
called for it, in the constructor of its class, or in the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.load.cu_numbers import Number, expression, said, type_bytes
from tilewright.load.cu_tree import KEPT, Tree, bare, below, template_parameters, tree_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_host import Host

ALLOCATES = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaMallocHost", "cudaHostAlloc")
ALLOCATES_ROWS = "cudaMallocPitch"  # address, address of the pitch, bytes of a row, rows
ROW_BYTES = 512  # of which a pitch is a multiple: cudaDeviceProp.textureAlignment of sm_50 and later
_DEPTH = 8  # of functions that are called for an allocation
_CLASSES = ("class_specifier", "struct_specifier")


def base_of(word: str) -> str:
    """The array in ``thrust::raw_pointer_cast(d.data())``, ``(float*)d``, ``&d[0]`` and ``d.get()``."""
    plain = re.sub(r"\s", "", word)
    match = re.search(r"(\w+)(?:\.(?:data|get|ptr|device_ptr)\(\)|\[0\])", plain)
    match = match or re.fullmatch(r"(?:\([\w:*]+\))?([\w.]+(?:->\w+)?)", plain)
    return match[1] if match and not re.fullmatch(r"\w+\[\d+\]", plain) else plain


def allocation(host: Host, word: str) -> str | None:
    """The bytes, as an expression of the host code; None where the text does not say."""
    if (tensor := host.tensors.allocated(word, host.bound)) is not None:
        return tensor
    name = base_of(word)
    if (many := host.names.get(f"{name}.size()")) is not None:
        size = type_bytes(str(host.names.get(f"{name}[0]", "")))
        return f"({many}) * {size}" if size else None
    every = [*homes(host, word)]
    functions = [(home, array, home.function) for home, array in every if home.function is not None]
    anywhere = [
        (home, array, home.tree.root) for home, array in every if array.partition(".")[0] not in home.parameters
    ]
    for home, array, node in (*functions, *anywhere):
        for call, words in allocating(node, home.tree):
            if _is_address_of(words[0], array, call, home.tree) or is_address_of(words[0], array, home):
                value = words[1] if home is host else replace(home, node=call).number(words[1])
                return value if isinstance(value, str) or value is None else str(int(value))
    by_class = (_by_class(home, array) for home, array in every)
    return next((str(int(value)) for value in by_class if value is not None), None)


def homes(host: Host, word: str) -> Iterator[tuple[Host, str]]:
    """Where the array of a word lives, with its name there: here, in functions that are called for it, in callers; of a
    member of an object also in the constructor, and in other functions of the class that are called.

    Of a function that is called the place is its end, or where it returns the array.
    """
    name = base_of(word).replace("->", ".")
    yield host, name
    yield from _callees(host, name)
    yield from _methods(host, name)
    root, dot, member = name.partition(".")
    if host.depth < _DEPTH and host.call is not None and root in host.call[1]:
        caller, passed = host.call
        yield from homes(caller, f"{passed[root].lstrip('&*')}{dot}{member}")


def first_home(host: Host, word: str) -> tuple[str, int, str]:
    """Where the array of a word comes from, the same for all launches that are passed it: the outermost function's
    text and place, and the name there.
    """
    root, dot, member = base_of(word).replace("->", ".").partition(".")
    while host.depth < _DEPTH and (call := host.call) is not None and root in call[1]:
        host, passed = call[0], call[1][root].lstrip("&*")
        root, inner, rest = base_of(passed).replace("->", ".").partition(".")
        dot, member = ".", ".".join(filter(None, (rest, member))) if inner or dot else ""
    return host.tree.text, host.function.start_byte if host.function is not None else 0, f"{root}.{member}".rstrip(".")


def _callees(host: Host, name: str) -> Iterator[tuple[Host, str]]:
    """The functions that are called with the address of an array, or with the structure that it is a member of, and
    those that return it.
    """
    if host.depth >= _DEPTH:
        return
    root, dot, member = name.partition(".")
    for call, called, words in _calls(host.function if host.function is not None else host.tree.root, host.tree):
        places = [k for k, word in enumerate(words) if _hands(word, name, call, host.tree)]
        if places and call.id != host.node.id and called not in ALLOCATES:
            for definition in definitions(host, called):
                at = _within(host, _end_of(definition), definition, words, _kinds(host.tree.of(call)))
                array = f"{definition.names[places[0]]}{dot}{member}" if places[0] < len(definition.names) else ""
                yield at, array
                yield from _callees(at, array)
    for part in dict.fromkeys((name, root)):
        called, words = _called(host.word(part))
        for definition in definitions(host, called) if called else ():
            for end in below(definition.node, "return_statement"):
                result = definition.tree.of(end)[len("return") :].strip(" ;")
                at = _within(host, end, definition, words, _kinds(host.word(part)))
                array = base_of(result) + name[len(part) :]
                yield at, array
                yield from _callees(at, array)


def _methods(host: Host, name: str) -> Iterator[tuple[Host, str]]:
    """The constructor of an object, and the functions of its class that are called on it, of a member."""
    root, _, member = name.partition(".")
    if host.function is None or host.depth >= _DEPTH or not re.fullmatch(r"\w+", member):
        return
    kind = bare(host.type_of(root).strip("* "))
    made = re.match(r"(?:new\s+)?([\w:]*)(?:<[^()]*>)?\s*[({](.*)[)}]$", host.word(root), re.DOTALL)
    calls = ((re.split(r"\.|->", called), words) for _, called, words in _calls(host.function, host.tree))
    asked = [(path[-1], words) for path, words in calls if path[:-1] == [root]]
    if made is not None:
        text = f"f({made[2]})"
        asked.insert(0, (bare(made[1]) or kind, [said(child, text) for child in _listed(text)]))
    for called, words in asked:
        for definition in definitions(host, called):
            at = _within(host, _end_of(definition), definition, words, [])
            yield at, member
            yield from _callees(at, member)


def _called(word: str) -> tuple[str, list[str]]:
    """The function that an expression calls, without namespaces and arguments of a template, and what it is passed."""
    node = expression(word)
    if node is None or node.type != "call_expression":
        return "", []
    called = said(node.child_by_field_name("function"), word)
    return bare(called), [said(child, word) for child in _listed(word)]


def _hands(word: str, name: str, call: Node, tree: Tree) -> bool:
    """Does an argument hand on an array's address, or the structure that it is a member of?"""
    root, dot, _ = name.partition(".")
    return _is_address_of(word, name, call, tree) or (bool(dot) and _address(word).lstrip("&") == root)


def _end_of(definition: Definition) -> Node:
    """The last place in a function."""
    body = definition.node.child_by_field_name("body")
    return body.children[-1] if body is not None and body.children else definition.node


def allocating(node: Node, tree: Tree) -> Iterator[tuple[Node, list[str]]]:
    """The calls below a node that allocate, with the words of their arguments."""
    for call, name, words in _calls(node, tree):
        if name in ALLOCATES and len(words) > 1:
            yield call, words
        elif name == ALLOCATES_ROWS and len(words) > 3:
            yield call, [words[0], f"{pitch_of(words[2])} * ({words[3]})"]


def pitch_of(width: str) -> str:
    """The bytes from a row of cudaMallocPitch to the next, of rows with as many bytes, as an expression."""
    return f"(({width}) + {ROW_BYTES - 1}) / {ROW_BYTES} * {ROW_BYTES}"


@lru_cache(maxsize=1 << 10)
def _calls(node: Node, tree: Tree) -> Sequence[tuple[Node, str, list[str]]]:
    """The calls below a node: name without namespaces and arguments of a template, and the words of the arguments."""
    calls: list[tuple[Node, str, list[str]]] = []
    for call in below(node, "call_expression"):
        called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if called is not None and listed is not None:
            words = [tree.of(child) for child in listed.named_children if child.type != "comment"]
            calls.append((call, bare(tree.of(called)), words))
    return calls


def _address(word: str) -> str:
    """``&a`` of ``(void**)&a`` and ``(void**)(&a)``."""
    return re.sub(r"\s|\([^()&]*\)|\w+_cast<[^<>]*>", "", word).strip("()")


def is_address_of(word: str, name: str, host: Host) -> bool:
    """Is a word the address of an array's variable: ``&a``, and ``p`` of a parameter ``T** p``?"""
    plain = _address(word).replace("->", ".")
    return plain == f"&{name}" or (plain.lstrip("*") == name and name in host.parameters)


def _is_address_of(word: str, name: str, call: Node, tree: Tree) -> bool:
    """Is the first argument of a call the address of a variable, of an element of an array of variables, or of each
    variable of a loop's list?
    """
    plain = _address(word).replace("->", ".")
    if plain == f"&{name}":
        return True
    if "[" in name and (element := re.fullmatch(r"&(\w+)\[(\w+)\]", plain)):
        return element[1] == name.partition("[")[0] and not element[2].isdigit()
    loop = call.parent
    while loop is not None and loop.type != "for_range_loop":
        loop = loop.parent
    variable, listed = (loop.child_by_field_name(side) for side in ("declarator", "right")) if loop else (None, None)
    if variable is None or listed is None or tree.of(variable).strip("*& ") != plain:
        return False
    return f"&{name}" in [re.sub(r"\s", "", tree.of(child)) for child in listed.named_children]


@dataclass(frozen=True)
class Definition:
    """A function of the host that is called for an allocation."""

    tree: Tree
    node: Node
    names: list[str]
    template: list[str]


def definitions(host: Host, name: str) -> Iterator[Definition]:
    """The functions of this name in the texts."""
    for tree in (host.tree, *(tree_of(text) for text in host.around if name in text)):
        yield from _definitions(tree).get(name, ())


@lru_cache(maxsize=KEPT)
def _definitions(tree: Tree) -> Mapping[str, Sequence[Definition]]:
    """The functions of a text by their names."""
    functions = dict[str, list[Definition]]()
    for node in below(tree.root, "function_definition"):
        head = next(below(node, "function_declarator"), None)
        declared = head.child_by_field_name("declarator") if head is not None else None
        if head is not None and declared is not None:
            name = tree.of(declared).rpartition("::")[2]
            functions.setdefault(name, []).append(Definition(tree, node, _names(head, tree), _template(node, tree)))
    return functions


def _names(head: Node, tree: Tree) -> list[str]:
    """The names of a function's parameters."""
    listed = head.child_by_field_name("parameters")
    texts = [tree.of(child).partition("=")[0] for child in listed.named_children] if listed is not None else []
    return [words[-1] if (words := re.findall(r"\w+", text)) else "" for text in texts]


def _template(node: Node, tree: Tree) -> list[str]:
    above = node.parent
    return (template_parameters(above, tree) or []) if above is not None else []


def _within(host: Host, place: Node, definition: Definition, words: list[str], kinds: list[str]) -> Host:
    """Host code at a place of a function that is called with these words, and types for its template."""
    values = {name: host.number(word) for name, word in zip(definition.names, words, strict=False)}
    numbers: Mapping[str, Number] = {name: value for name, value in values.items() if value is not None}
    bound = dict(zip(definition.template, kinds, strict=False))
    if definition.template and not bound:
        bound = _deduced(host, definition, words)
    return replace(host, tree=definition.tree, node=place, given=numbers, bound=bound, depth=host.depth + 1)


def _deduced(host: Host, definition: Definition, words: list[str]) -> dict[str, str]:
    """The types of a template that the arguments decide: T of ``T** p`` where a ``float*`` is passed by its address."""
    head = next(below(definition.node, "function_declarator"), None)
    listed = head.child_by_field_name("parameters") if head is not None else None
    for parameter, word in zip(listed.named_children if listed is not None else (), words, strict=False):
        text, kind = definition.tree.of(parameter), host.type_of(_address(word).lstrip("&")) + "*" * ("&" in word)
        for name in definition.template:
            if re.search(rf"\b{name}\b", text) and kind.strip("* "):
                return {name: kind[: len(kind) - text.count("*")]}
    return {}


def _kinds(word: str) -> list[str]:
    """The arguments of the template in ``f<float, 2>(n)``."""
    node = expression(word)
    listed = next(below(node, "template_argument_list"), None) if node is not None else None
    return [said(child, word) for child in listed.named_children] if listed is not None else []


def _by_class(host: Host, name: str) -> Number | None:
    """``Buffer<float> a(n)``: by the constructor of its class."""
    kind = host.type_of(name)
    plain, listed = bare(kind), re.search(r"<(.*)>", kind)
    word = host.word(name)
    arguments = re.fullmatch(r"[\w:<>, ]*[({](.*)[)}]", word, re.DOTALL)
    words = [said(child, f"f({arguments[1]})") for child in _listed(f"f({arguments[1]})")] if arguments else []
    for tree in (host.tree, *(tree_of(text) for text in host.around if plain and plain in text)):
        for node in below(tree.root, *_CLASSES) if plain else ():
            named = node.child_by_field_name("name")
            if named is None or tree.of(named) != plain:
                continue
            for method in below(node, "function_definition"):
                head = next(below(method, "function_declarator"), None)
                if head is not None and tree.of(head).partition("(")[0].strip() == plain:
                    definition = Definition(tree, method, _names(head, tree), _template(node, tree))
                    for inner, inner_words in allocating(method, tree):
                        at = _within(host, inner, definition, words, [listed[1]] if listed else [])
                        return at.number(inner_words[1])
    return None


def _listed(word: str) -> list[Node]:
    node = expression(word)
    arguments = node.child_by_field_name("arguments") if node is not None else None
    return arguments.named_children if arguments is not None else []


def variables_set(host: Host) -> Iterator[tuple[str, str]]:
    """The variables of the device that host code copies to, with what it copies: ``&n``, ``h``."""
    for _, name, words in _calls(host.tree.root, host.tree):
        if name in ("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync") and len(words) > 1:
            yield words[0].lstrip("&* "), words[1]
