"""What device code needs of a file and its headers: the pieces that its kernels name, themselves or by way of others.

A name stands for every piece that declares it, in whatever namespace: too much does no harm. Of a function that no word
says to be for the GPU the declaration is enough, as device code may name it but not call it; a member of a class whose
body is outside of it is for the GPU where the class says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tilewright.load.cu_cut import host_members
from tilewright.load.cu_host import macros_of
from tilewright.load.cu_tree import (
    Chunk,
    Macros,
    Tree,
    below,
    defined,
    pieces,
    template_parameters,
    tree_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD = re.compile(r"[^\W\d]\w*")
_OF_LIBRARIES = re.compile(  # names that are none of a file's own, but where it adds to the library
    r"\b(at|c10|cooperative_groups|cub|cuda|cute|cutlass|nvcuda|std|thrust|torch)\s*::\s*(?:\w+\s*::\s*)*(\w+)"
)
_MEMBERS = re.compile(r"(?:(?<!\.)\.(?!\.)|->)\s*(?:template\s+)?[^\W\d]\w*")  # behind a dot or an arrow
_CALLED = re.compile(r"(\w+)\s*(?:\(|::)")
_MISSES = re.compile(  # what NVRTC says of a name that it does not know
    r'identifier "(\w+)" is undefined|has no member "(\w+)"|incomplete type "(?:\w+::)*(\w+)|(\w+) is not a template'
)
_OF_TORCH = {"acc_type": {"at::"}, "opmath_type": {"at::"}}  # templates of types, where no text declares them
_PASTED = re.compile(r"\w+(?:\s*##\s*\w+)+")
_FUNCTION = ("function_declarator", "operator_cast")  # of a declarator
_HELD = ("pointer_declarator", "reference_declarator", "parenthesized_declarator", "init_declarator")
_NEVER = ("static_assert_declaration", "template_instantiation")
_OF_HOST = ("<<<", "cudaLaunch", "cudaMalloc", "cudaMemcpy", "cudaFree")
_NAMESPACE = re.compile(r"\bnamespace\s+(\w+)\s*\{")
_USED = re.compile(r"\busing\s+namespace\s+(\w+)")
_NOTHING: Set[str] = frozenset()
_LEAST = 3  # letters of a word that macros paste to others, to tell what they name


@dataclass(frozen=True, eq=False)
class Declaration:
    """A piece of a text. text: the number of that. names: what it declares. says: words in it, what others declare
    among them. body: what may be left out of it. is_taken: is it needed where it is named? is_root: is it needed in
    any case? is_odd: may it declare more, as the grammar does not understand all of it?
    """

    text: int
    piece: Chunk
    names: frozenset[str] = frozenset()
    says: frozenset[str] = frozenset()
    body: Chunk | None = None
    is_taken: bool = True
    is_root: bool = False
    is_odd: bool = False

    @property
    def space(self) -> str:
        """The outermost namespace around it; empty where none has a name."""
        return self.piece.scope.partition("::")[0]


class Needs:
    """The pieces of texts, and those of them that are needed so far: more, as names are taken. names: of kernels."""

    def __init__(self, texts: Sequence[str], macros: Macros, names: Iterable[str]) -> None:
        self._spaces = frozenset(name for text in texts for name in _NAMESPACE.findall(text))
        self._open = frozenset(name for text in texts for name in _USED.findall(text))
        self.declarations = [
            entry for number, text in enumerate(texts) for entry in _declarations(number, text, macros, self._spaces)
        ]
        self._spaces |= frozenset(entry.space for entry in self.declarations)
        self._by_name = defaultdict[str, list[Declaration]](list)
        for entry in self.declarations:
            for name in (*entry.names, *(f"{entry.space}::{name}" for name in entry.names)):
                self._by_name[name].append(entry)
        self._of_macros = _words_of_macros(texts, self._by_name)
        self._needed, self._done = set[Declaration](), set[tuple[str, frozenset[str]]]()
        self.take(names, [entry for entry in self.declarations if entry.is_root])

    def take(self, names: Iterable[str], declarations: Iterable[Declaration] = ()) -> None:
        """Take declarations, those of names, and what they name in turn: in their own namespace, or one that is opened,
        or named beside it.
        """
        todo, words = [*declarations], [(name, self._spaces) for name in names]
        while todo or words:
            if todo:
                entry = todo.pop()
                seen = self._open | {entry.space} | (self._spaces & entry.says)
                words += [(name, seen) for name in entry.says if entry not in self._needed]
                self._needed.add(entry)
            elif (word := words.pop()) not in self._done:
                self._done.add(word)
                name, spaces = word
                more = self._of_macros.get(name, _NOTHING)
                words += [(other, spaces | (self._spaces & more)) for other in more]
                todo += [entry for entry in self._by_name.get(name, ()) if entry.is_taken
                         and ("::" in name or not entry.space or entry.space in spaces)]  # fmt: skip

    def restored(self, messages: Iterable[str]) -> list[Declaration]:
        """Take what declares the names that NVRTC misses, and is not needed so far."""
        before, words = {*self._needed}, {*filter(None, chain(*_MISSES.findall("\n".join(messages))))}
        odd = [entry for entry in self.declarations if entry.is_odd and words & entry.says]
        self.take(words, [entry for name in words for entry in self._by_name.get(name, odd)])
        return [entry for entry in self.declarations if entry in self._needed and entry not in before]

    def qualified(self, instance: str) -> str:
        """An instance of a template, the arguments with the namespaces in which they are declared, if in one alone."""
        name, angle, rest = instance.partition("<")

        def spelled(word: re.Match[str]) -> str:
            scopes = {entry.piece.scope for entry in self.of(word[0]) if not entry.piece.kernel}
            scopes = scopes or _OF_TORCH.get(word[0], set())
            return "".join(scopes) + word[0] if len(scopes) == 1 else word[0]

        return name + angle + re.sub(r"(?<![\w:])[^\W\d]\w*(?!\w|\s*::)", spelled, rest)

    def of(self, name: str) -> list[Declaration]:
        """The declarations of a name."""
        return self._by_name.get(name, [])

    def left_out(self, text: int) -> Iterator[Chunk]:
        """The pieces of a text that nobody needs, and the bodies of those whose declarations are enough."""
        for entry in self.declarations:
            if entry.text == text and (gone := entry.piece if entry not in self._needed else entry.body) is not None:
                yield gone


def _declarations(number: int, text: str, macros: Macros, spaces: Collection[str]) -> Iterator[Declaration]:
    tree = tree_of(text, macros)
    for piece in pieces(text, macros):
        if piece.kernel:
            yield Declaration(number, piece, _words(tree, piece.start, piece.stop), _said(tree, piece), is_root=True)
        elif piece.node is None:
            yield _made(number, tree, piece, spaces)
        else:
            yield _declaration(number, tree, piece, piece.node, spaces)


def _inside(node: Node) -> Node:
    """A declaration without the heads of templates before it."""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    return node


def _made(number: int, tree: Tree, piece: Chunk, spaces: Collection[str]) -> Declaration:
    """What a macro declares that makes functions or types: by its body, and by what it is called with."""
    name, *words = _WORD.findall(tree.clean[piece.start : piece.stop])
    body = tree.macros.bodies[name].replace("\\\n", "  ")
    inner = tree_of(body.replace("##", "__"), tree.macros)
    nodes = (entry.node for entry in pieces(inner.text, tree.macros) if entry.node is not None)
    names = {entry for node in nodes for entry in _names(inner, node, spaces)}
    names |= {*words} if not names or names & {*tree.macros.parameters[name]} else set()
    return Declaration(number, piece, frozenset(names), frozenset({name, *words}), is_root="##" in body)


def _declaration(number: int, tree: Tree, piece: Chunk, node: Node, spaces: Collection[str]) -> Declaration:
    says = _said(tree, piece)
    if _inside(node).type in _NEVER:
        return Declaration(number, piece, says=says, is_taken=False)
    names, node = frozenset(_names(tree, node, spaces)), _inside(node)
    body, declarator = (node.child_by_field_name(part) for part in ("body", "declarator"))
    if not piece.is_host or declarator is None or not any(below(declarator, *_FUNCTION)):
        head = tree.between(piece.start, piece.stop if body is None else body.start_byte)
        is_root = not names and not piece.is_host and bool(re.search(r"\boperator\b|^using namespace\b", head))
        is_odd = not piece.is_host and not is_root and (not names or "ERROR" in {entry.type for entry in node.children})
        return Declaration(number, piece, names, says, None, not piece.is_host, is_root, is_odd)
    name, text = _innermost(declarator), tree.text[piece.start : piece.stop]
    is_member = name.type == "qualified_identifier"
    if name.type == "operator_name" or (is_member and any(sign in text for sign in _OF_HOST)):
        return Declaration(number, piece, names, says, is_taken=False)
    if is_member or body is None:
        return Declaration(number, piece, names, says)
    said = _words(tree, piece.start, body.start_byte)
    return Declaration(number, piece, names, said, Chunk(body.start_byte, body.end_byte, False))


def _said(tree: Tree, piece: Chunk) -> frozenset[str]:
    """The words of a piece, but those of the host's functions in it, and the names of its parameters and variables."""
    said, start = set[str](), piece.start
    members = host_members(piece, tree) if piece.node is not None else []
    for member in sorted(members, key=lambda entry: entry.start):
        if member.start >= start:
            said |= _words(tree, start, member.start)
            start = member.stop
    said |= _words(tree, start, piece.stop)
    return frozenset(said - _local(tree, piece))


def _local(tree: Tree, piece: Chunk) -> set[str]:
    """The names that a piece declares for itself, and does not call."""
    if piece.node is None:
        return set()
    inner = _inside(piece.node)
    kinds = ("parameter_declaration", *(("declaration",) if inner.type == "function_definition" else ()))
    places = (entry for node in below(inner, *kinds) for entry in node.children_by_field_name("declarator"))
    names = {tree.of(name) for name in map(_innermost, places) if name.type == "identifier"}
    names -= {*_CALLED.findall(tree.clean[piece.start : piece.stop])}
    return names | {*(template_parameters(piece.node, tree) or ())}


def _words(tree: Tree, start: int, stop: int) -> frozenset[str]:
    return _mentioned(tree.clean[start:stop])


def _mentioned(text: str) -> frozenset[str]:
    """The names in a text: ``min`` of ``min(a.x, b->y)``, and ``std::min`` of what is of a library."""
    text = _MEMBERS.sub(" ", text)
    return frozenset((*("::".join(entry) for entry in _OF_LIBRARIES.findall(text)),
                      *_WORD.findall(_OF_LIBRARIES.sub(" ", text))))  # fmt: skip


def _names(tree: Tree, node: Node, spaces: Collection[str]) -> Iterator[str]:
    """The names that a piece declares: of an operator those of what it takes, of a member outside of its class that of
    the class.
    """
    parameters, node = template_parameters(node, tree) or (), _inside(node)
    if node.type == "using_declaration":
        yield from _WORD.findall(tree.of(node))[-1:] if "using namespace" not in tree.of(node) else ()
        return
    for place in (node, node.child_by_field_name("type")):
        if place is not None and place.type.endswith(("_specifier", "_definition", "alias_declaration")):
            name = place.child_by_field_name("name")
            yield from _WORD.findall(_plain(tree.of(name))) if name is not None else ()
            yield from (tree.of(entry.named_children[0]) for entry in below(place, "enumerator"))
    for declarator in node.children_by_field_name("declarator"):
        name = _innermost(declarator)
        if name.type in ("operator_name", "operator_cast"):
            types = {tree.of(entry) for entry in below(declarator, "type_identifier")}
            yield from types - {*parameters}
        words = _WORD.findall(_plain(tree.of(name)))
        while len(words) > 1 and words[0] in spaces:
            words = words[1:]
        yield from words[:1]


def _innermost(declarator: Node) -> Node:
    """The name that a declarator has inside."""
    while True:
        inner = declarator.child_by_field_name("declarator")
        if inner is None and declarator.type in _HELD and declarator.named_children:
            inner = declarator.named_children[-1]
        if inner is None:
            return declarator
        declarator = inner


def _plain(name: str) -> str:
    """A name without the arguments of templates in it."""
    before = ""
    while before != name:
        before, name = name, re.sub(r"<[^<>]*>", "", name)
    return name.partition("<")[0]


def _words_of_macros(texts: Iterable[str], names: Mapping[str, object]) -> Mapping[str, Set[str]]:
    """The words of macros' bodies, by name; of words that they paste together, all names that these may become."""
    found = defaultdict[str, set[str]](set)
    for text in texts:
        for name, _, body in defined(text):
            found[name] |= _mentioned(body)
        for name, parameters, body in macros_of(text) if "##" in text else ():
            for pasted in _PASTED.findall(body):
                parts = [entry.strip() for entry in pasted.split("##")]
                plain = [entry for entry in parts if entry not in parameters]
                if max(map(len, plain), default=0) >= _LEAST:
                    pattern = re.compile("".join(entry if entry in plain else r"\w*" for entry in parts))
                    found[name] |= {*filter(pattern.fullmatch, names)}
    return found
