"""The launches of a .cu file: ``k<<<dim3(n / 32, 4), 128>>>(...)``, ``cudaLaunchKernelEx(&config, k, ...)``.

Their extents are numbers where the text, or the caller, says what ``n`` is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tilewright.load.cu_choices import (
    Macros,
    argument,
    deduced,
    expanded,
    host_of,
    macros_with_parameters,
    with_choices,
)
from tilewright.load.cu_conditions import assumed, conditions
from tilewright.load.cu_contents import array_of
from tilewright.load.cu_host import Host, macros_of
from tilewright.load.cu_kept import kept
from tilewright.load.cu_numbers import HostNumbers, Number, expression, is_name, said
from tilewright.load.cu_tree import (
    Tree,
    bare,
    below,
    defined,
    explicit_instances,
    kernels,
    parameters,
    split,
    template_names,
    tree_of,
    with_values,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEPTH = 4  # of macros that call each other
_MOST = 1 << 31  # of a number between the angles
_CAST = re.compile(r"^\((?:const )?[\w: ]+\*+\s*\)\s*(?=\w+$)|^(?:reinterpret|static)_cast<[^<>]*\*>(?=\(\w+\)$)")
_PDL = "cudaLaunchAttributeProgrammaticStreamSerialization"
_FIELDS = ("gridDim", "blockDim", "dynamicSmemBytes", "stream", "attrs", "numAttrs")  # of cudaLaunchConfig_t


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch as the file has it: the kernel's name with its template's arguments, and what stands between the angles:
    grid, block, bytes of shared memory, stream. line: where it is. arguments: as they are written. config: the name of
    the structure that says all of that.
    """

    kernel: str
    words: tuple[str, ...]
    line: int
    arguments: tuple[str, ...] = ()
    config: str = ""
    listed: str = ""  # the array that holds the arguments' addresses


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """A launch in numbers. line: of the file. arguments: the numbers that the text says, other words as they are.
    lacks: the names without which its extents are not known. pdl: may it begin before the last one ends? allocated: the
    bytes of arguments that are arrays, by their words. needs: the names without which an argument's value or size is
    not known. numbers: names of the function whose integers decide all of that.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    line: int
    kernel: str = ""
    arguments: tuple[str | Number, ...] = ()
    words: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    pdl: bool = False
    cluster: tuple[int, ...] | None = None
    allocated: Mapping[str, int] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sized: frozenset[str] = frozenset()  # arguments that are arrays which host code allocates
    of_block: frozenset[str] = frozenset()  # the names without which the block is not known
    of_shared: frozenset[str] = frozenset()  # those without which the shared memory alone is not known
    of_grid: frozenset[str] = frozenset()  # those without which the grid is not known
    numbers: Mapping[str, int] = field(default_factory=dict)
    host: Host | None = field(default=None, compare=False, repr=False)  # the code around it
    unless: str = ""  # the condition by which the host code does not come to it

    @property
    def sizes(self) -> list[str]:
        """The names of host code that decide it, and are no pointers."""
        types = self.host.numbers.types if self.host is not None else {}
        names = (*self.numbers, *self.lacks, *chain(*self.needs.values()))
        return [name for name in names if is_name(name) and not types.get(name, "").endswith("*")]


# Launches as they are written


def launches(text: str) -> list[HostLaunch]:
    """The launches of a file's host code, in their order."""
    return [launch for _, _, launch in _launches(text)]


def _launches(text: str, around: Sequence[str] = ()) -> Iterator[tuple[Tree, Node, HostLaunch]]:
    """The launches of a text. One without a sign of any, as most headers, is not even read."""
    macros = _launchers(tuple(around) if text in around else (text, *around))  # the same for all texts of a file
    if any(sign in text for sign in (*_signs(), *macros.launching)):
        tree = tree_of(text)
        yield from ((tree, call, launch) for call, launch in _of_tree(tree, macros, _DEPTH))


def _signs() -> tuple[str, ...]:
    return "<<<", *_FORMS


_Bodies = dict[str, tuple[tuple[str, ...], str]]  # of macros, by name: parameters and body


class _Launchers(NamedTuple):
    """Macros that launch, ``LAUNCH(kernel, grid, block, ...)``, and those that call a macro which they are given,
    ``DISPATCH(dtype, LAUNCH)``.
    """

    launching: _Bodies
    calling: _Bodies
    every: Macros

    def called(self, name: str, arguments: Sequence[str]) -> tuple[tuple[str, ...], str] | None:
        """The macro of a call that launches, if it is one."""
        is_given = any(word in self.launching for word in arguments)
        return self.launching.get(name) or (self.calling.get(name) if is_given else None)


@lru_cache(maxsize=8)
def _launchers(texts: tuple[str, ...]) -> _Launchers:
    """The macros of texts that launch."""
    every = [macro for text in texts if any(sign in text for sign in _signs()) for macro in macros_of(text)]
    launching = _Bodies()
    for _ in range(_DEPTH):  # a macro may call another one
        launching |= {name: (names, body) for name, names, body in every
                      if any(sign in body for sign in (*_signs(), *launching))}  # fmt: skip
    others = (macro for text in texts if launching for macro in macros_of(text))
    calling = {name: (names, body) for name, names, body in others if _calls(body, names)}
    return _Launchers(launching, calling, macros_with_parameters(texts))


def _calls(body: str, names: Iterable[str]) -> bool:
    return any(re.search(rf"\b{name}\s*\(", body) for name in names if name.isidentifier())


def made_functions(texts: Sequence[str]) -> Iterator[str]:
    """What calls of macros stand for that make kernels, with plain macros as what these stand for."""
    texts_of_kernels = [text for text in texts if "__global__" in text]
    every = {name: (names, body) for text in texts_of_kernels for name, names, body in macros_of(text)}
    macros = {name: macro for name, macro in every.items() if "__global__" in macro[1]}
    words = {name: body for text in texts_of_kernels for name, _, body in defined(text) if name not in every}
    for tree in (tree_of(text) for text in texts if any(name in text for name in macros)):
        for start, stop in tree.made:
            name, _, listed = tree.text[start:stop].rstrip("; \n").partition("(")
            if (macro := macros.get(name.strip())) is not None:
                made = expanded(*macro, split(listed[: listed.rfind(")")]))
                yield expanded([*words], made, [*words.values()])


def _of_tree(tree: Tree, macros: _Launchers, depth: int) -> Iterator[tuple[Node, HostLaunch]]:
    """The launches of a syntax tree with the nodes where they are, in their order."""
    every = [*_written(tree), *(_of_macros(tree, macros, depth) if depth else ())]
    yield from sorted(every, key=lambda each: each[0].start_byte)


def _written(tree: Tree) -> Iterator[tuple[Node, HostLaunch]]:
    for call in below(tree.root, "call_expression"):
        called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if called is None or listed is None:
            continue
        line, given = call.start_point[0] + 1, tuple(tree.of(each) for each in listed.named_children)
        angles = next((child for child in call.children if child.type == "kernel_call_syntax"), None)
        form = _FORMS.get(bare(tree.of(called)))
        if angles is not None:
            words = tuple(tree.of(each) for each in angles.named_children)
            yield call, HostLaunch(tree.of(called), words, line, given)
        elif form is not None and len(given) > 1:
            yield call, form(given, line)


def _of_macros(tree: Tree, macros: _Launchers, depth: int) -> Iterator[tuple[Node, HostLaunch]]:
    """The launches of macros, which may have types as arguments, as no call of C++ has."""
    for name, start, stop in tree.calls([*macros.launching, *macros.calling]):
        node = tree.root.descendant_for_byte_range(start, start + len(name))
        if node is not None and (macro := macros.called(name, given := _arguments_of(tree, node, start, stop))):
            line, inner = node.start_point[0] + 1, tree_of(f"void expanded() {{ {expanded(*macro, given)}; }}")
            for at, each in _of_tree(inner, macros, depth - 1):
                kernel, values = with_choices(each.kernel, inner, at, macros.every), _values_before(at, inner)
                numbers = {name: value for name, value in values.items() if value.isdecimal()}
                words, handed = (tuple(with_values(word, values) for word in each_of)
                                 for each_of in (_declared_in(inner, at, each), each.arguments))  # fmt: skip
                kernel = with_values(kernel, numbers) if "<" in kernel else kernel
                yield node, replace(each, line=line, kernel=kernel, words=words, arguments=handed)


def _values_before(node: Node, tree: Tree) -> dict[str, str]:
    """What the variables stand for that a macro's body declares before a node, as numbers where these are known."""
    values = dict[str, str]()
    for declared in below(tree.root, "init_declarator"):
        name, value = (declared.child_by_field_name(side) for side in ("declarator", "value"))
        if name is None or value is None or name.type != "identifier" or declared.end_byte > node.start_byte:
            continue
        above, text = declared.parent, with_values(tree.of(value), values)
        kind = above.child_by_field_name("type") if above is not None else None
        number = HostNumbers({}).of(text) if value.type != "argument_list" else None
        made = f"{tree.of(kind)}{text}" if kind is not None and value.type == "argument_list" else f"({text})"
        values[tree.of(name)] = str(number) if isinstance(number, int) and number >= 0 else made
    return values


def _declared_in(inner: Tree, at: Node, launch: HostLaunch) -> tuple[str, ...]:
    """Grid, block and shared memory of a launch of a macro, without the names that the macro itself declares."""
    local = {name: word for name, word in Host(inner, at, (), {}, {}).local.items() if isinstance(word, str)}
    plain = {name: f"({word})" for name, word in local.items() if name.isidentifier() and word[:4] != "dim3"}
    places = [f"{launch.config}.{name}" for name in _FIELDS[:3]]
    words = launch.words or (tuple(places) if launch.config and places[0] in local else ())
    return tuple(with_values(local.get(word, word), plain) for word in words)


def _arguments_of(tree: Tree, node: Node, start: int, stop: int) -> list[str]:
    """The arguments of a macro's call: those of a call of C++ where it looks like one, else parts between commas."""
    call = node.parent
    listed = call.child_by_field_name("arguments") if call is not None and call.type == "call_expression" else None
    if listed is not None and not listed.has_error:
        return [tree.of(each) for each in listed.named_children]
    whole = tree.between(start, stop)
    return split(whole[whole.find("(") + 1 : -1])


def _by_addresses(given: tuple[str, ...], line: int) -> HostLaunch:
    kernel, grid, block, listed, *rest = (*given, "", "", "")[:6]
    return HostLaunch(_function(kernel), (grid, block, *filter(None, rest)), line, listed=listed)


def _by_config(given: tuple[str, ...], line: int) -> HostLaunch:
    return HostLaunch(_function(given[1]), (), line, given[2:], config=given[0].lstrip("&* "))


_FORMS: Mapping[str, Callable[[tuple[str, ...], int], HostLaunch]] = {
    "cudaLaunchKernel": _by_addresses, "cudaLaunchCooperativeKernel": _by_addresses, "cudaLaunchKernelEx": _by_config,
}  # fmt: skip


def _function(word: str) -> str:
    """A kernel's name out of ``(const void*)&k<4>``."""
    plain = re.sub(r"^\s*(?:\((?:const\s+)?void\s*(?:const\s*)?\*\s*\)|reinterpret_cast<[^<>]*>)\s*", "", word).strip()
    return (plain[1:-1] if plain[:1] == "(" and plain[-1:] == ")" else plain).lstrip("&* ")


# What they are in numbers


def launched(
    text: str, kernel: str | None = None, *, given: Mapping[str, Number] = MappingProxyType({}),
    around: Sequence[str] = (),
) -> list[LaunchShape]:  # fmt: skip
    """The launches of a kernel, or of all, in order; those in a template for each instance of that. kernel: as it is
    written, or its bare name. given: what names of host code are. around: texts of its headers.
    """
    shapes = [*_shapes(text, tuple(given.items()), tuple(around), bare(kernel or ""))]
    shapes = [shape for shape in shapes if shape.kernel == kernel] or shapes
    return [shape for shape in shapes if not shape.unless] or shapes


def unreached(text: str, numbers: Mapping[str, Number], around: Sequence[str]) -> list[LaunchShape]:
    """The launches that host code does not come to, where it comes to others."""
    every = _shapes(text, tuple(numbers.items()), tuple(around))
    lines = {shape.line for shape in every if not shape.unless}
    return [shape for shape in every if lines and shape.line not in lines]


@lru_cache(maxsize=4096)
def _shapes(
    text: str, numbers: tuple[tuple[str, Number], ...], around: tuple[str, ...], kernel: str = ""
) -> tuple[LaunchShape, ...]:
    """All launches of a text, or those of a kernel, by its bare name."""
    shapes = list[LaunchShape]()
    for placed in _placed(text, around, dict(numbers), kernel):
        if kernel and bare(placed.name) != kernel:
            continue
        shape = _in_numbers(placed)
        shapes += [shape] if shape not in shapes else []
    return tuple(shapes)


class _Placed(NamedTuple):
    """A launch where it stands. host: the code around it; outer: that which says its arguments, the caller's where
    a function launches the kernel that it is handed.
    """

    launch: HostLaunch
    host: Host
    outer: Host

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.launch.arguments or _listed(self.launch, self.host)

    @property
    def name(self) -> str:
        return _named(self.launch.kernel, self.arguments, self.outer)


def _placed(text: str, around: Sequence[str], given: Mapping[str, Number], kernel: str = "") -> Iterator[_Placed]:
    """The launches where they stand. kernel: the only one that is wanted, whose launches may call it otherwise."""
    others = _kernels_of((text, *around)) - {kernel} if kernel else frozenset[str]()
    for tree, node, launch in _launches(text, around):
        if bare(launch.kernel) in others:
            continue
        for host in map(assumed, host_of(tree, node, tuple(around), given)):
            yield from [*_handed_on(launch, host)] or [_Placed(launch, host, host)]


@lru_cache(maxsize=8)
def _kernels_of(texts: tuple[str, ...]) -> frozenset[str]:
    """The names of the kernels that texts define."""
    return frozenset(bare(name) for text in texts for name in kernels(text))


def _handed_on(launch: HostLaunch, host: Host) -> Iterator[_Placed]:
    """The launches of a function that is handed its kernel, ``launch(kernel, grid, args...)``: one for each call."""
    names = host.parameters
    if launch.kernel not in names:
        return
    for caller, words in host.calls:
        passed = dict(zip(names, words, strict=False))
        rest = ", ".join(words[len(names) - 1 :])
        listed = [rest if word.endswith("...") else passed.get(word, word) for word in launch.arguments]
        handed = replace(launch, kernel=_function(passed.get(launch.kernel, "")), line=caller.node.start_point[0] + 1,
                         arguments=tuple(filter(None, split(", ".join(listed)))))  # fmt: skip
        for outer in host_of(caller.tree, caller.node, caller.around, caller.given):
            yield _Placed(handed, replace(host, via=(outer, passed)), outer)


def _in_numbers(placed: _Placed) -> LaunchShape:
    (launch, host, outer), kernel = placed, placed.name
    words, arguments = launch.words or _configured(launch.config, host), placed.arguments
    arguments = tuple(re.sub(r"^\((\w+)\)$", r"\1", _CAST.sub("", word)) for word in arguments)
    of_grid, of_block, of_shared = (_lacking(word, host) for word in (*words, "0", "0", "0")[:3])
    shapes = [host.extents(word) for word in words[:3]]
    host.numbers.lacks.discard("")
    lacks = tuple(sorted(_asked_outside(host.numbers.lacks, host))) or tuple(
        word for word, each in zip(words, shapes, strict=False) if each is None
    )
    known = [each if each is not None and all(0 <= n < _MOST for n in each) else None for each in shapes]
    complete = len(known) > 1 and None not in known
    grid, block, *rest = [each or () for each in known] if complete else [(), ()]
    values = tuple(word if (value := outer.number(word)) is None else value for word in arguments)
    sizes = {word: said for word in arguments if (said := outer.allocation(word)) is not None}
    allocated = {word: int(size) for word, said in sizes.items() if (size := outer.number(said)) is not None}
    unsaid = [word for word, value in zip(arguments, values, strict=True) if isinstance(value, str)]
    arrays = ((word, array_of(outer, word)) for word in unsaid if word not in allocated)
    allocated |= {word: array.values.nbytes for word, array in arrays if array is not None}
    return LaunchShape(
        grid, block, rest[0][0] if rest and rest[0] else 0, launch.line, kernel, values, arguments,
        () if complete else lacks or ("grid", "block"), _has_pdl(launch, host), _cluster(launch, host), allocated,
        {word: _needed(sizes.get(word, word), outer) for word in arguments},
        frozenset({*sizes, *allocated}), of_block, of_shared - of_grid - of_block, of_grid,
        {name: value for name, value in outer.numbers.used.items() if name in outer.local or name in outer.given},
        outer, next((text for text, holds in conditions(host) if holds is False), ""),
    )  # fmt: skip


def _lacking(word: str, host: Host) -> frozenset[str]:
    """The names without which extents are not known."""
    host.numbers.lacks.clear()
    extents = host.extents(word)
    lacks = _asked_outside(host.numbers.lacks, host) if extents is None else frozenset()
    host.numbers.lacks.clear()
    return lacks


def _asked_outside(names: Iterable[str], host: Host) -> frozenset[str]:
    """The names that are not known: in a function that launches what it is handed, those of the caller in place of
    parameters that it passes an expression for, as it says the kernel's arguments, too.
    """
    outer, passed = host.via or (None, {})
    asked = set[str]()
    for name in names:
        inner = _lacking(passed[name], outer) if outer is not None and name in passed else frozenset()
        asked |= inner or {name}
    return frozenset(asked)


def _needed(word: str, host: Host) -> tuple[str, ...]:
    asked = replace(host.numbers, lacks=set())
    return tuple(sorted(asked.lacks)) if asked.of(word) is None else ()


def _configured(config: str, host: Host) -> tuple[str, ...]:
    """Grid, block and bytes of shared memory of a ``cudaLaunchConfig_t``."""
    node = expression(whole := host.word(config))
    inner = [said(each, whole) for each in node.named_children] if node is not None else []
    named = dict(each.lstrip(". ").split("=", 1) for each in inner if each.lstrip().startswith(".") and "=" in each)
    fields = dict(zip(_FIELDS, inner, strict=False)) if not named and len(inner) > 1 else named
    fields = {name.strip(): word.strip() for name, word in fields.items()}
    fields |= {name: word for name in _FIELDS if (word := host.word(f"{config}.{name}")) != f"{config}.{name}"}
    return tuple(fields.get(name, "0" if name == "dynamicSmemBytes" else name) for name in _FIELDS[:3])


def _listed(launch: HostLaunch, host: Host) -> tuple[str, ...]:
    """The arguments whose addresses an array holds."""
    whole, places = host.word(launch.listed), re.compile(rf"{re.escape(launch.listed)}\[\d+\]")
    elements = [name for name in host.local if launch.listed and places.fullmatch(name)]
    if elements:
        ordered = sorted(elements, key=lambda name: int(name.rpartition("[")[2][:-1]))
        return tuple(_function(host.word(name)) for name in ordered)
    node = expression(whole) if launch.listed else None
    if node is None or node.type != "initializer_list":
        return ()
    return tuple(_function(said(each, whole)) for each in node.named_children)


def _attributes(launch: HostLaunch, host: Host) -> Iterator[tuple[str, str]]:
    """The fields of attributes that are set before a launch by a structure."""
    if launch.config:
        yield from ((name, str(word)) for name, word in host.local.items() if re.search(r"(\.id|\.val\.\w+.*)$", name))


def _has_pdl(launch: HostLaunch, host: Host) -> bool:
    """Has it the attribute of programmatic dependent launch? Also where a name decides whether it is switched on."""
    fields = dict(_attributes(launch, host))
    switched = [word for name, word in fields.items() if name.endswith("programmaticStreamSerializationAllowed")]
    return any(_PDL in word for word in fields.values()) and not any(host.number(word) == 0 for word in switched)


def _cluster(launch: HostLaunch, host: Host) -> tuple[int, ...] | None:
    fields = dict(_attributes(launch, host))
    sizes = [
        next((word for name, word in fields.items() if name.endswith(f"clusterDim.{axis}")), "1") for axis in "xyz"
    ]
    values = [host.number(word) for word in sizes]
    found = tuple(int(value) for value in values if value is not None)
    return found if len(found) == 3 and found != (1, 1, 1) else None


# The kernels that they launch


@kept
def launched_instances(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """The instances of templates that texts launch, or make, under one name."""
    return {"names": [name for text in texts for name in instances(text, texts)]}


def instances(text: str, around: Sequence[str] = ()) -> list[str]:
    """The instances of templates that the file itself launches, ``k<128>`` of ``k<128><<<...>>>``, or makes."""
    made = [placed.name for placed in _placed(text, around, {})]
    return list(dict.fromkeys(name for name in (*made, *explicit_instances(text)) if "<" in name))


def _named(kernel: str, arguments: Sequence[str], host: Host) -> str:
    """The kernel's name: that of a variable's value, with arguments of its template that are known outside, too."""
    name, seen = _function(kernel), set[str]()
    while name not in seen and re.fullmatch(r"\w+", name):
        seen.add(name)
        name = _function(_taken(host.word(name), host))
    name = _returned(_assigned(name, host), host)
    node = expression(name)
    listed = next(below(node, "template_argument_list"), None) if node is not None else None
    parts = [argument(said(each, name), host) for each in listed.named_children] if listed is not None else []
    more = _deduced(name.partition("<")[0], len(parts), arguments, host)
    return f"{name.partition('<')[0]}<{', '.join([*parts, *more])}>" if parts or more else name


def _assigned(word: str, host: Host) -> str:
    """The kernel that a variable is first set to, where branches set it to others; other words themselves."""
    around = host.tree.of(host.function) if host.function is not None and word.isidentifier() else ""
    first = re.search(rf"\b{re.escape(word)}\s*=\s*&?\s*([\w:]+\s*<[^;=]*>)\s*;", around)
    return first[1] if first else word


def _returned(word: str, host: Host) -> str:
    """The kernel that a function returns, ``pick(n)``: the first one that it names; other words themselves."""
    called = re.fullmatch(r"(\w+)\s*\(.*\)", word, re.DOTALL)
    name = called[1] if called else ""
    for tree in (tree_of(text) for text in (host.tree.text, *host.around) if name and name in text):
        for function in below(tree.root, "function_definition"):
            head = next(below(function, "function_declarator", passing=("compound_statement",)), None)
            if head is None or bare(tree.of(head).partition("(")[0]) != name:
                continue
            said = (tree.of(entry).removeprefix("return").strip("; ") for entry in below(function, "return_statement"))
            if kernel := next((_function(entry) for entry in said if re.fullmatch(r"[&\w:\s]+<.*>", entry)), ""):
                return kernel
    return word


def _taken(word: str, host: Host) -> str:
    """The kernel that ``c ? &k<1> : &k<2>`` is: the first one where host code does not say."""
    node = expression(word)
    if node is None or node.type != "conditional_expression":
        return word
    condition, *kernels = (said(node.child_by_field_name(part), word)
                           for part in ("condition", "consequence", "alternative"))  # fmt: skip
    return kernels[host.number(condition) == 0]


def _deduced(name: str, explicit: int, arguments: Sequence[str], host: Host) -> list[str]:
    """The arguments of a kernel's template that the arguments of its call decide, behind some explicit ones."""
    for text in (host.tree.text, *host.around):
        names = template_names(text).get(bare(name), ())[explicit:]
        if names:
            kinds = [each.type for each in parameters(text).get(bare(name), ())]
            if found := deduced(names, kinds, arguments, host):
                return [*found]
    return []
