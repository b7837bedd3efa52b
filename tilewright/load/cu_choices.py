"""What the names of a template's arguments stand for around host code: what instantiations and calls give, and what
macros that choose between types (``AT_DISPATCH_FLOATING_TYPES``, a project's own ``DISPATCH``) declare.

Of several choices of a macro one counts: ``float`` where it is among them, else the first; and one of 16 bits besides,
where the text has code for some types alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from tilewright.load.cu_host import Host, decided, kinds_of, macros_of, matched
from tilewright.load.cu_numbers import Number, literal
from tilewright.load.cu_tree import Tree, bare, below, split, template_name, template_parameters, tree_of, with_values

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH = 4  # of macros, and of templates of functions, that call each other
MOST = 4  # instances of a function that are followed
_TEMPLATE = "template_declaration"
_CLASSES = ("struct_specifier", "class_specifier")
_SMALL = 2  # beyond the least of a range of numbers: an instance of it that is none of its ends
_SCALARS = {"Double": "double", "Float": "float", "Half": "at::Half", "BFloat16": "at::BFloat16", "Int": "int",
            "Long": "int64_t", "Short": "int16_t", "Byte": "uint8_t", "Char": "int8_t", "Bool": "bool"}  # fmt: skip
_OF_TORCH = (  # its macros, by a word in their names: what they declare
    ("INDEX", "index_t", "int"), ("INTEGRAL", "scalar_t", "int"), ("REDUCED", "scalar_t", "at::Half"),
    ("", "scalar_t", "float"),
)  # fmt: skip
_DISPATCHES = re.compile(r"\b(?:AT|THO)_DISPATCH_\w+")
_ELSEWHERE = re.compile(r"\b(?!(?:AT|THO)_)(?=\w*(?:DISPATCH|SWITCH))[A-Z][A-Z0-9_]{3,}(?=[ \t]*\()")
_OF_PROJECTS = (  # macros of headers that lack, by a word in their names: the type that they declare, and the constant
    ("BOOL", "bool", "true"), ("INTEGRAL", "int", "64"), ("IDTYPE", "int", "64"), ("INT", "int", "64"),
    ("FLOAT", "float", "64"), ("FP16", "half", "64"), ("HALF", "half", "64"), ("BF16", "half", "64"),
    ("", "float", "64"),
)  # fmt: skip
_TYPE = re.compile(r"\w*_(?:t|type)|[A-Z]|D?Type\w*|\w*T(?:ype)?", re.ASCII)
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+|k[A-Z]\w*|[A-Z]\w*")
_CASE = re.compile(r"\bScalarType::(\w+)\s*(?:,\s*([A-Za-z_]\w*)\s*(?=[,)]))?")
_DECLARES = re.compile(
    r"\busing\s+(\w+)\s*=\s*([^;{}]+?)\s*;|\btypedef\s+([^;{}]+?)\s+(\w+)\s*;"
    r"|\bconst(?:expr)?\s+(?:static\s+)?(?:const(?:expr)?\s+)?[\w:]+\s+(\w+)\s*=\s*(\w+)\s*;"
)
_NARROW = (
    "at::Half",
    "c10::Half",
    "__half",
    "half",
    "nv_half",
    "at::BFloat16",
    "c10::BFloat16",
    "__nv_bfloat16",
    "nv_bfloat16",
)
_FOR_TYPES = re.compile(
    r"\bif\s+constexpr\b|\bis_same|\btemplate\s*<\s*>|\w(?:half|bfloat16)2\b|\bsizeof\s*\(\s*(?:scalar_t|T)\s*\)"
)
_BODY = "__BODY__"  # what a macro is handed to stand behind its declarations


def expanded(names: Sequence[str], body: str, arguments: Sequence[str]) -> str:
    """What a call of a macro stands for."""
    values = dict(zip(names, arguments, strict=False))
    if names and names[-1].endswith("..."):
        values[names[-1][:-3] or "__VA_ARGS__"] = ", ".join(arguments[len(names) - 1 :])
    return re.sub(r"(?:##?\s*)?\b([A-Za-z_]\w*)", lambda word: values.get(word[1], word[0]), body).replace("##", "")


def host_of(
    tree: Tree, node: Node, around: tuple[str, ...], sizes: Mapping[str, Number], depth: int = DEPTH
) -> list[Host]:
    """Host code at a node: once, or for each instance that the texts make of the template around it."""
    texts = tuple(dict.fromkeys((tree.text, *around)))
    every = [*_chosen(tree, node, macros_with_parameters(texts))]
    ways = [{name: kinds[0] for name, kinds in every}, {name: kinds[-1] for name, kinds in every}]
    ways = ways[: 1 + (ways[0] != ways[1] and any(map(_FOR_TYPES.search, texts)))]
    return [host for chosen in ways for host in _with(chosen, tree, node, around, sizes, depth)]


def _with(
    chosen: dict[str, str], tree: Tree, node: Node, around: tuple[str, ...], sizes: Mapping[str, Number], depth: int
) -> list[Host]:
    """Host code at a node with what macros around it declare."""
    texts = tuple(dict.fromkeys((tree.text, *around)))
    plain = Host(tree, node, around, sizes, chosen)
    template = _template_around(plain.function) if plain.function is not None and depth else None
    head = next(below(template, "function_declarator", *_CLASSES), None) if template is not None else None
    listed = template.child_by_field_name("parameters") if template is not None else None
    if head is None or listed is None:
        return [plain.with_aliases()]
    words = [tree.of(word).partition("=") for word in listed.named_children]
    names = [template_name(word) for word, _, _ in words]
    standard = {name: value.strip() for name, (_, equals, value) in zip(names, words, strict=True) if equals}
    if head.type in _CLASSES:
        called = head.child_by_field_name("name")
        function = _Function(tree.of(called) if called is not None else "", tuple(names), ())
    else:
        function = _Function(bare(tree.of(head).partition("(")[0]), tuple(names), kinds_of(head, tree))
    every = [*islice(_said(function, texts, sizes, depth - 1), MOST)] if function.name else []
    if head.type in _CLASSES and not every:
        is_type = [word.split()[0] in ("typename", "class") for word, _, _ in words]
        every = [*islice(_handed(function.name, is_type, texts, sizes, depth - 1), MOST)]
    instances = dict.fromkeys(every)
    bound = [{**chosen, **standard, **dict(zip(names, args, strict=False))} for args in instances]
    return [replace(plain, bound=names).with_aliases() for names in bound or [chosen]]


def _template_around(function: Node) -> Node | None:
    """The template that a function is, or that of the class that it is a member of."""
    node = function.parent
    if node is not None and node.type == "field_declaration_list":
        node = node.parent and node.parent.parent
    return node if node is not None and node.type == _TEMPLATE else None


def _handed(
    name: str, is_type: Sequence[bool], texts: tuple[str, ...], sizes: Mapping[str, Number], depth: int
) -> Iterator[tuple[str, ...]]:
    """The arguments of a class template that is handed on by its name, ``dispatch<Kernel, float, 1, 8>(n)``: types, and
    numbers or the least and the most of each.
    """
    for text in (text for text in texts if name in text):
        tree, around = tree_of(text), tuple(word for word in texts if word != text)
        for listed in below(tree.root, "template_argument_list"):
            parts = [tree.of(part) for part in listed.named_children]
            if name not in parts:
                continue
            for host in host_of(tree, listed, around, sizes, depth):
                said = [argument(part, host) for part in parts[parts.index(name) + 1 :]]
                numbers = [int(number) for part in said if (number := host.number(part)) is not None]
                kinds = [part for part in said if host.number(part) is None]
                count = len(is_type) - sum(is_type)
                if count and len(numbers) == 2 * count:
                    numbers = [min(least + _SMALL, most) for least, most in zip(*[iter(numbers)] * 2, strict=True)]
                if len(numbers) >= count and len(kinds) >= sum(is_type):
                    rest = iter(kinds), iter(map(str, numbers))
                    yield tuple(next(rest[not is_kind]) for is_kind in is_type)


def argument(part: str, host: Host) -> str:
    """An argument of a template without names of the function that it stands in."""
    part = with_values(part, host.bound)
    words = set(re.findall(r"\b[A-Za-z_]\w*", part))
    local = words & host.local.keys() if literal(part) is None else set()
    if local and (value := host.number(part)) is not None:
        return str(value)
    values = {word: str(value) for word in local if (value := host.number(word)) is not None}
    return with_values(part, values)  # ``Traits<kRows, float>``


@dataclass(frozen=True, slots=True)
class _Function:
    """A template of a function: the names of its parameters, and the types of what the function takes."""

    name: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]


def deduced(names: Sequence[str], kinds: Sequence[str], arguments: Sequence[str], host: Host) -> tuple[str, ...]:
    """The arguments of a template that those of a call decide, by the types that the function takes; () where one stays
    open.
    """
    return _all_of(names, decided(kinds, arguments, host))


def _all_of(names: Sequence[str], match: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(match[word] for word in names) if all(word in match for word in names) else ()


def _said(
    function: _Function, texts: tuple[str, ...], sizes: Mapping[str, Number], depth: int
) -> Iterator[tuple[str, ...]]:
    """The arguments with which a template of a function is made, or called."""
    named, macros = re.compile(rf"\b{function.name}\s*[<(]"), macros_with_parameters(texts)
    for text in (text for text in texts if named.search(text)):
        tree, around = tree_of(text), tuple(word for word in texts if word != text)
        for node, parts in _listed(function.name, tree):
            yield from _with_hosts(parts, tree, node, around, sizes, depth)
        for types in _instantiated(function.name, tree):
            yield from filter(None, [_all_of(function.names, matched(function.kinds, types))])
        for call, words in _called(function.name, tree) if depth else ():
            hosts = host_of(tree, call, around, sizes, depth)
            yield from filter(None, (deduced(function.names, function.kinds, words, host) for host in hosts))
    makers = {maker: macro for maker, macro in macros.items() if named.search(macro[1])}
    for text in (text for text in texts if any(maker in text for maker in makers)):
        tree, around = tree_of(text), tuple(word for word in texts if word != text)
        for maker, start, stop in tree.calls(makers):
            body = expanded(*makers[maker], split(tree.between(start, stop).partition("(")[2][:-1]))
            at = tree.root.descendant_for_byte_range(start, stop - 1)
            if at is not None:
                for _, parts in _listed(function.name, tree_of(body)):
                    yield from _with_hosts(parts, tree, at, around, sizes, depth)


def _with_hosts(
    parts: Sequence[str], tree: Tree, node: Node, around: tuple[str, ...], sizes: Mapping[str, Number], depth: int
) -> list[tuple[str, ...]]:
    """The arguments of a template as code at a node has them, for each instance of the code around it."""
    if all(literal(part) is not None for part in parts):
        return [tuple(parts)]
    hosts = host_of(tree, node, around, sizes, depth)
    made = [(tuple(argument(part, host) for part in parts), _open_names(host)) for host in hosts]
    return [entry for entry, names in made if not names & {*re.findall(r"\w+", " ".join(entry))}]


def _open_names(host: Host) -> set[str]:
    """The names of the template around host code for which nobody has given an argument."""
    around = host.function.parent if host.function is not None else None
    names = template_parameters(around, host.tree) if around is not None else None
    return {*(names or ())} - host.bound.keys()


def _listed(name: str, tree: Tree) -> Iterator[tuple[Node, list[str]]]:
    """Where a template is named with its arguments."""
    for node in below(tree.root, "template_function", "template_type"):
        called, listed = node.child_by_field_name("name"), node.child_by_field_name("arguments")
        if called is not None and listed is not None and bare(tree.of(called)) == name:
            yield node, [tree.of(word) for word in listed.named_children]


def _instantiated(name: str, tree: Tree) -> Iterator[tuple[str, ...]]:
    """The types of what a function takes in ``template void launch(float* y, int n);``."""
    for node in below(tree.root, "template_instantiation"):
        head = next(below(node, "function_declarator"), None)
        if head is not None and bare(tree.of(head).partition("(")[0]) == name:
            yield kinds_of(head, tree)


def _called(name: str, tree: Tree) -> Iterator[tuple[Node, list[str]]]:
    """Where a function is called without arguments of its template."""
    for call in below(tree.root, "call_expression"):
        called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if called is not None and listed is not None and tree.of(called).rpartition("::")[2] == name:
            yield call, [tree.of(word) for word in listed.named_children]


Macros = Mapping[str, tuple[tuple[str, ...], str]]


@lru_cache(maxsize=8)
def macros_with_parameters(texts: tuple[str, ...]) -> Macros:
    return {name: (names, body) for text in texts for name, names, body in macros_of(text)}


def _chosen(tree: Tree, node: Node, macros: Macros) -> Iterator[tuple[str, tuple[str, str]]]:
    """What the macros declare in whose arguments a node stands, the outer ones first: the choice that counts, and one
    of 16 bits, or the same again.
    """
    dispatches = {*macros, *_DISPATCHES.findall(tree.text), *_ELSEWHERE.findall(tree.text)}
    for name, start, stop in tree.calls(dispatches & set(re.findall(r"\w+", tree.text))):
        if start < node.start_byte and node.end_byte <= stop:
            choices = dict[str, list[str]]()
            for declared, value in _declared(name, tree.between(start, stop), macros, DEPTH):
                choices.setdefault(declared, []).append(value)
            for declared, values in choices.items():
                first = "float" if "float" in values else values[0]
                yield declared, (first, next((value for value in values if value in _NARROW), first))


def with_choices(name: str, tree: Tree, node: Node, macros: Macros) -> str:
    """A kernel's name with what macros around its launch declare in the place of names."""
    if "<" not in name:
        return name
    bound = {declared: kinds[0] for declared, kinds in _chosen(tree, node, macros)}
    constants = {match[5]: match[6] for match in _DECLARES.finditer(tree.text, 0, node.start_byte) if match[5]}
    return with_values(name, {**constants, **bound})


def _declared(name: str, call: str, macros: Macros, depth: int) -> Iterator[tuple[str, str]]:
    """The names that a macro declares in front of its body, and what they stand for."""
    if name not in macros and not _DISPATCHES.fullmatch(name):
        yield from _declared_elsewhere(name, call)
        return
    if name not in macros:
        words = _OF_TORCH if _DISPATCHES.fullmatch(name) and not re.search("SWITCH|CASE", name) else ()
        chosen = [(declared, kind) for word, declared, kind in words if word in name][:1]
        is_narrow = chosen and re.search("HALF|kHalf|::Half", f"{name} {split(call)[:4]}")
        yield from [*chosen, *([(chosen[0][0], "at::Half")] if is_narrow else [])] or _cases(call)
        return
    names, body = macros[name]
    text = expanded(names, body, [*split(call.partition("(")[2][:-1])[: len(names) - 1], _BODY])
    said = [(match[1] or match[4] or match[5], match[2] or match[3] or match[6]) for match in _DECLARES.finditer(text)]
    inner = {*re.findall(r"\b[A-Za-z_]\w*(?=\s*\()", text)} & {*macros, *_DISPATCHES.findall(text)} - {name}
    for macro, start, stop in tree_of(text).calls(inner) if depth else ():
        said += _declared(macro, text[start:stop], macros, depth - 1)
    yield from said or _cases(text)


def _declared_elsewhere(name: str, call: str) -> Iterator[tuple[str, str]]:
    """What a macro declares whose definition is in no text: the name that it is handed last before its body, of a type
    or a constant as it is written, ``DISPATCH_HEAD_DIM(head_dim, HEAD_DIM, [&] {``, else ``scalar_t`` where the body
    has that.
    """
    words = split(call.partition("(")[2][:-1])
    body = next((place for place, word in enumerate(words) if re.match(r"[\[{]", word.strip())), len(words))
    kind, number = next((kind, number) for word, kind, number in _OF_PROJECTS if word in name)
    handed = [word.strip() for word in words[1:body] if word.strip().isidentifier()][-1:]
    for declared in handed:
        if _TYPE.fullmatch(declared) or _CONSTANT.fullmatch(declared):
            yield declared, kind if _TYPE.fullmatch(declared) and kind != "bool" else number
    inner = ",".join(words[body:])
    if not handed and (word := re.search(r"\b(?:scalar|index)_t\b", inner)):
        yield word[0], kind


def _cases(text: str) -> Iterator[tuple[str, str]]:
    """The types of a text by the numbers that Torch gives them, ``CASE(at::ScalarType::Half, scalar_t, ...)``."""
    for match in _CASE.finditer(text):
        yield match[2] if match[2] not in (None, _BODY) else "scalar_t", _SCALARS.get(match[1], f"at::{match[1]}")
