"""What host code says at one place: the values of names in scope there, and the bytes that it has allocated.

Host code is read, not run: a name has the value that its declaration or its last plain assignment gives it. Of a loop
the first turn counts, of ``main`` a call without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.isa import ARCHS
from tilewright.load.cu_allocations import ALLOCATES_ROWS, allocation, base_of, pitch_of
from tilewright.load.cu_kept import kept
from tilewright.load.cu_numbers import MULTIPROCESSORS, HostNumbers, Number, expression, literal, said
from tilewright.load.cu_returned import returned
from tilewright.load.cu_statics import constant_of
from tilewright.load.cu_tensors import Tensors
from tilewright.load.cu_tree import (
    LOOPS,
    Tree,
    bare,
    below,
    defined,
    outwards,
    split,
    template_parameters,
    tree_of,
    with_values,
    without_comments,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,.\\]*)\)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_IF = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_OF_HEADERS = re.compile(r"_|CU[A-Z]|CCCL|THRUST|NV[A-Z]")  # how names of macros begin that compilers and headers have
_HEADS = ("function_declarator", "lambda_declarator")
_FUNCTION, _BLOCKS = "function_definition", ("compound_statement", "for_statement", "lambda_expression")
_REPEATED = (*LOOPS, "case_statement", "lambda_expression")
_HOLDS_MANY = re.compile(r"(?:std|thrust)\s*::\s*(?:\w+_)?vector\s*<(.+)>$", re.DOTALL)
_EXTENT = re.compile(r"\[[^\[\]]*\]")
_POINTS = re.compile(  # what is a pointer to a type by its own words: a tensor's, or one that is cast
    r".*\b(?:(?:const_|mutable_)?data_ptr|data)\s*<\s*(?:const\s+)?([\w:]+)\s*>\s*\(\s*\)$"
    r"|\(\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*\s*\)[^,]*$"
    r"|(?:static|reinterpret)_cast\s*<\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*\s*>[^,]*$"
)
_CLEARS = r"emset|\bzeros?_?\b|\bfill|Memcpy\w*\s*\([^,;]*\b{}\b"  # by which it sets arguments
_ASKED: Mapping[str, tuple[Number, ...]] = {  # functions of CUDA, by what their first arguments are afterwards
    "cudaGetDevice": (0,), "cudaGetDeviceCount": (1,), "cudaOccupancyMaxActiveBlocksPerMultiprocessor": (1,),
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": (1,),
    "cudaOccupancyMaxPotentialBlockSize": (MULTIPROCESSORS, 256),
}  # fmt: skip
_SETS = {"cudaMemcpyToSymbol": 0, "cudaMemcpyToSymbolAsync": 0, "cudaLaunchKernel": 0, "cuLaunchKernel": 0,
         "cudaLaunchCooperativeKernel": 0, "printf": 0, "memset": 1, "cudaMemset": 1}  # fmt: skip
"""How many of their first arguments functions write through: copies the first, any other perhaps all."""
_ATTRIBUTES: Mapping[str, Number] = {  # of cudaDeviceGetAttribute
    "cudaDevAttrMultiProcessorCount": MULTIPROCESSORS, "cudaDevAttrWarpSize": 32,
    "cudaDevAttrMaxThreadsPerBlock": 1024, "cudaDevAttrMaxSharedMemoryPerBlock": 48 << 10,
    "cudaDevAttrMaxSharedMemoryPerBlockOptin": ARCHS["sm_90"].shared_bytes, "cudaDevAttrCooperativeLaunch": 1,
}  # fmt: skip
_LONG = 4000  # letters of an expression that conditions make
_DEPTH = 6  # of functions that call each other on the way to a launch
_OF_MAIN: Mapping[str, Number] = {"argc": 1}


def clears(text: str, name: str) -> bool:
    """Does host code set memory, perhaps that of an argument of this name, before a launch?"""
    return bool(re.search(_CLEARS.format(name), text))


_OF_LAMBDA = re.compile(r"(?:typename\s+)?(?:std::decay_t<\s*)?decltype\s*\(\s*(\w+)\s*\)\s*>?(?:::(\w+))?")
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*([^;{}]+?)\s*;")
_NAMES_ASKED = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|elif)\b(.*)$", re.MULTILINE)


def macros_of(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Macros with parameters: name, parameters and body."""
    for name, parameters, body in _MACRO.findall(without_comments(text)):
        yield (
            name,
            tuple(each.strip(" \t\\\n") for each in parameters.split(",")),
            re.sub('"+', '""', body.replace("\\\n", " ")).strip(),
        )


def chosen(texts: Sequence[str], defines: Mapping[str, object]) -> list[str]:
    """Texts with blanks in the branches of ``#if`` that the preprocessor leaves out, as far as the macros of a command
    line and of the texts themselves say. Where other headers may have a say both branches stay.
    """
    anywhere = {name for text in texts for name, _, _ in defined(text)}
    macros = {name: None if value is None else str(value) for name, value in defines.items()}
    return [_chosen(text, dict(macros), anywhere) for text in texts]


def switches(text: str, sign: str, defines: Mapping[str, object]) -> list[str]:
    """The macros without which the preprocessor leaves out all of a text that has a sign in it, as ``#ifdef USE_CUDA``
    does; none where some stays, or where these are not enough.
    """
    if sign not in without_comments(text) or sign in without_comments(chosen([text], defines)[0]):
        return []
    asked = _NAMES_ASKED.findall(without_comments(text))
    names = dict.fromkeys(word for line in asked for word in re.findall(r"[^\W\d]\w*", line))
    with_all = [name for name in names if name != "defined" and name not in defines and not _OF_HEADERS.match(name)]
    needed = [name for name in with_all if sign in without_comments(chosen([text], {**defines, name: 1})[0])]
    return needed[:1]


def _chosen(text: str, macros: dict[str, str | None], anywhere: set[str]) -> str:
    lines, plain = text.split("\n"), without_comments(text).replace("\\\n", " \n").split("\n")
    branches = list[tuple[bool | None, bool | None]]()  # is this one read? was one of these before it? None: who knows
    for number, line in enumerate(plain):
        directive = _IF.match(line)
        word = directive[1] if directive else ""
        if directive and word in ("if", "ifdef", "ifndef"):
            branches.append(((holds := _condition(word, directive[2], macros, anywhere)), holds))
        elif directive and branches and word in ("else", "elif"):
            holds = _condition("if", directive[2] if word == "elif" else "1", macros, anywhere)
            before = branches[-1][1]
            read = False if before or holds is False else None if before is None or holds is None else True
            branches[-1] = read, before or (None if before is None else holds)
        elif word == "endif" and branches:
            branches.pop()
        elif any(read is False for read, _ in branches):
            lines[number] = " " * len(lines[number])  # what follows stays where it is
        elif directive and word in ("define", "undef"):
            name, body = (*directive[2].split(None, 1), "")[:2]
            if word == "undef" or any(read is None for read, _ in branches):
                macros.pop(name.partition("(")[0], None)
            else:
                macros[name.partition("(")[0]] = body.strip()
    return "\n".join(lines)


def _condition(word: str, text: str, macros: Mapping[str, str | None], anywhere: set[str]) -> bool | None:
    """Does the condition of a directive hold? None where macros count of which nothing is known."""
    if word != "if":
        text = f"{'!' if word == 'ifndef' else ''}defined({text.strip()})"
    unknown = set[str]()

    def known(name: str) -> bool:
        if name not in macros and (name in anywhere or _OF_HEADERS.match(name)):
            unknown.add(name)
        return name in macros

    text = _DEFINED.sub(lambda found: str(int(known(found[1] or found[2]))), text)
    words = set(re.findall(r"\b[A-Za-z_]\w*", text))
    numbers = HostNumbers({name: (macros[name] or "1") if known(name) else 0 for name in words})
    value = numbers.of(text)
    return None if unknown or value is None else bool(value)


@kept
def calls_of(texts: tuple[str, ...]) -> dict[str, tuple[Sequence[str], str]]:
    """Macros with parameters, and functions that return one expression, of texts: parameters and body by name."""
    found = dict[str, tuple[Sequence[str], str]]()
    for text in texts:
        tree = tree_of(text)
        found |= {name: (parameters, body) for name, parameters, body in macros_of(text)}
        for node in below(tree.root, _FUNCTION, "init_declarator"):
            function = node.child_by_field_name("value") if node.type == "init_declarator" else node
            if function is None or function.type not in (_FUNCTION, "lambda_expression"):
                continue
            body = function.child_by_field_name("body")
            returned = [each for each in body.named_children if each.type != "comment"] if body is not None else []
            head = next(below(function, *_HEADS), None)
            named = head if function is node else node.child_by_field_name("declarator")
            if len(returned) == 1 and returned[0].type == "return_statement" and head is not None and named is not None:
                names = tuple(name for name, _ in _parameters(head, tree))
                found[bare(tree.of(named).partition("(")[0])] = names, tree.of(returned[0])[6:].strip(" ;")
    return found


@kept
def constants_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Macros of texts, and the constants that stand in no function of them; of one name, that of the last text."""
    found = dict[str, str]()
    for tree in map(tree_of, texts):
        found |= {name: body.strip() for name, body in tree.macros.bodies.items()}
        for node in below(tree.root, "init_declarator", passing=(_FUNCTION,)):
            found |= dict(_declared(node, tree))
    return found


def _parameters(head: Node, tree: Tree) -> Iterator[tuple[str, str]]:
    """The names of a function's parameters, and what they are where nothing is passed."""
    listed = head.child_by_field_name("parameters")
    for each in listed.named_children if listed is not None else ():
        name = each.child_by_field_name("declarator")
        while name is not None and name.type != "identifier":
            name = name.child_by_field_name("declarator") or next(iter(name.named_children), None)
        if name is not None:
            standard = each.child_by_field_name("default_value")
            yield tree.of(name), tree.of(standard) if standard is not None else ""


@dataclass(frozen=True, eq=False)
class Host:
    """Host code at a node of a text. around: the other texts of the file, for their macros and functions. given: values
    of names that callers know. bound: the arguments of the template that is around the node, by their names.
    """

    tree: Tree
    node: Node
    around: tuple[str, ...]
    given: Mapping[str, Number]
    bound: Mapping[str, str]
    depth: int = 0  # of calls that lead to it
    via: tuple[Host, dict[str, str]] | None = None  # the call that leads to it, where it is not the first one
    is_word: bool = False  # is its tree that of a word, and no text of the file's?

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts of the file, in an order that is the same wherever the node is: what was read of them is kept."""
        return tuple(dict.fromkeys((*self.around, *self._own_text)))

    @property
    def _own_text(self) -> tuple[str, ...]:
        return () if self.is_word else (self.tree.text,)

    @cached_property
    def function(self) -> Node | None:
        """The function around the node."""
        return function_around(self.node)

    def with_aliases(self) -> Host:
        """The same code, in which the types that its function has named before the node are bound as arguments are."""
        names = {**dict(self._in_macros()), **self.bound}
        for alias in below(self.function, "alias_declaration") if self.function is not None else ():
            block = next((outer for outer in outwards(alias) if outer.type in _BLOCKS), None)
            name, kind = alias.child_by_field_name("name"), alias.child_by_field_name("type")
            if name is not None and kind is not None and block is not None and block.id in self.around_node:
                names[self.tree.of(name)] = with_values(self._visited(self.tree.of(kind)), names)
        return replace(self, bound=names) if names != self.bound else self

    def _visited(self, kind: str) -> str:
        """A type by what ``std::visit`` hands to a lambda, ``decltype(x)::Type``: the variant's first choice."""
        asked = _OF_LAMBDA.fullmatch(kind)
        for call in (entry for entry in outwards(self.node) if entry.type == "call_expression") if asked else ():
            listed = call.child_by_field_name("arguments")
            parts = [self.tree.of(entry) for entry in listed.named_children] if listed is not None else []
            if asked is None or not self.tree.of(call).startswith(("std::visit", "visit")) or len(parts) < 2:
                continue
            taken = re.findall(r"auto\s*(?:&&?\s*)?(\w+)", parts[0].partition("(")[2].partition(")")[0])
            if asked[1] not in taken or taken.index(asked[1]) + 1 >= len(parts):
                continue
            variant = parts[taken.index(asked[1]) + 1]
            name, before = re.escape(variant), self.tree.clean[: call.start_byte]
            ways = (rf"<([^;{{}}=()]*)>\s+{name}\b", rf"\b{name}\s*=\s*[\w:]+\s*<([^;{{}}()]*)>\s*\(")
            found = [*(entry for way in ways for entry in re.findall(way, before)[-1:]),
                     *re.findall(r"^[\w:]+\s*<(.*)>\s*\(.*\)$", variant)]  # fmt: skip
            if found:
                return self._member_type(split(found[0])[0], asked[2] or "")
        return kind

    def _member_type(self, kind: str, member: str) -> str:
        """A type that a structure has by a name, as in ``template <class I> struct Tag { using Type = I; }``."""
        named = re.compile(rf"\bstruct\s+{re.escape(bare(kind))}\b")
        for tree in (tree_of(text) for text in (*self._own_text, *self.around) if named.search(text)):
            for node in below(tree.root, "struct_specifier"):
                above, name = node.parent, node.child_by_field_name("name")
                alias = next((entry for entry in below(node, "alias_declaration")
                              if tree.of(entry).split()[1:2] == [member]), None)  # fmt: skip
                if above is not None and name is not None and tree.of(name) == bare(kind) and alias is not None:
                    names = template_parameters(above, tree) or ()
                    given = dict(zip(names, split(kind.partition("<")[2].rpartition(">")[0]), strict=False))
                    return with_values(tree.of(alias).partition("=")[2].strip("; "), given)
        return kind

    def _in_macros(self) -> Iterator[tuple[str, str]]:
        """The types that are named before the node among the arguments of a macro, as no call of C++ has them."""
        start, stop = (self.function.start_byte, self.node.start_byte) if self.function is not None else (0, 0)
        for alias in _ALIAS.finditer(self.tree.clean, start, stop):
            at = self.tree.root.descendant_for_byte_range(alias.start(), alias.end())
            if at is not None and not any(outer.type == "alias_declaration" for outer in (at, *outwards(at))):
                yield alias[1], with_values(alias[2].removeprefix("typename "), self.bound)

    @cached_property
    def numbers(self) -> HostNumbers:
        """The values of names at the node."""
        return HostNumbers({**self.outside, **self.local, **self.given}, calls_of(self.texts),
                       types={**self._structures, **self._sized, **self.bound}, read=self._as_run,
                           instead=self.tensors.instead, behind=self._behind)  # fmt: skip

    @cached_property
    def tensors(self) -> Tensors:
        """The tensors of the function around the node."""
        text = self.tree.of(self.function) if self.function is not None and "ensor" in self.tree.text else ""
        return Tensors(text, {**self.outside, **self.local})

    def _as_run(self, name: str) -> Number | None:
        """What a number is by the loops and functions that run before the node, or of a type by its declaration."""
        from tilewright.load.cu_contents import number_of

        if "::" in name and (word := constant_of(self.texts, name, self.bound)) is not None:
            return self.numbers.of(word)
        return number_of(self, name) if self.function is not None else None

    def _behind(self, name: str) -> set[str]:
        """The names that are not known and that the loops ask for which run before the node and change a number."""
        if self.function is None or name not in self.types or name in self.parameters:
            return set()
        sets = re.compile(rf"\b{re.escape(name)}\b\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|\b{re.escape(name)}\s*(?:\+\+|--)")
        loops = [loop for loop in below(self.function, *LOOPS)
                 if loop.end_byte <= self.node.start_byte and sets.search(self.tree.of(loop))]  # fmt: skip
        asked = replace(self.numbers, lacks=set(), behind=lambda name: ())
        for word in {self.tree.of(node) for loop in loops for node in below(loop, "identifier")} - {name}:
            asked.of(word)
        return {word for word in asked.lacks if re.split(r"\.|->", word)[0] in self.parameters}

    def _members_as_run(self, word: str) -> dict[str, str]:
        """The members of a structure that are numbers by the code that runs before the node."""
        from tilewright.load.cu_contents import members_at

        return {name: str(value) for name, value in members_at(self, word).items()}

    @cached_property
    def _structures(self) -> dict[str, str]:
        """The structures of the texts, and other names of numbers, by their sizes."""
        from tilewright.load.cu_structures import structure_bytes

        is_named = members_of(self.texts) or any("typedef" in text or "using" in text for text in self.texts)
        sizes = structure_bytes(self.texts) if is_named else {}
        return {name: f"{size} bytes" for name, size in sizes.items()}

    @cached_property
    def outside(self) -> dict[str, str | Number]:
        """Macros, and the constants of the file."""
        return dict(constants_of((*self.texts, *self._own_text)))

    @cached_property
    def around_node(self) -> list[int]:
        """The numbers of the nodes around the node."""
        return [each.id for each in outwards(self.node)]

    @cached_property
    def local(self) -> dict[str, str | Number]:
        """The names of the function before the node, and the arguments of its template."""
        found: dict[str, str | Number] = {name: word for name, word in self.bound.items() if literal(word) is not None}
        if self.function is None:
            return found
        head = next(below(self.function, "function_declarator"), None)
        found |= {name: word for name, word in _parameters(head, self.tree) if word} if head is not None else {}
        found |= self._passed
        found |= _OF_MAIN if head is not None and self.tree.of(head).startswith("main") else {}
        found |= self._of_lambdas
        kinds = ("declaration", "assignment_expression", "update_expression", "call_expression")
        for each in below(self.function, *kinds):
            if each.start_byte < self.node.start_byte:
                self._take(each, found)
        return found

    @cached_property
    def _of_lambdas(self) -> dict[str, str | Number]:
        """The parameters of the lambda functions around the node, as the first call of each passes them."""
        values: dict[str, str | Number] = {}
        for around in outwards(self.node):
            named = around.parent.child_by_field_name("declarator") if around.parent is not None else None
            head = around.child_by_field_name("declarator") if around.type == "lambda_expression" else None
            if named is None or head is None:
                continue
            names = [name for name, _ in _parameters(head, self.tree)]
            for call in below(self.function or self.tree.root, "call_expression"):
                called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
                if called is not None and listed is not None and self.tree.of(called) == self.tree.of(named):
                    words = [self.tree.of(word) for word in listed.named_children]
                    values = {**dict(zip(names, words, strict=False)), **values}
                    break
        return values

    @cached_property
    def call(self) -> tuple[Host, dict[str, str]] | None:
        """Where the function around the node is called first, and what is passed there, by its parameters' names."""
        here = ((host, dict(zip(self.parameters, words, strict=False))) for host, words in self._calls((self.tree,)))
        return self.via or next(here, None)

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the parameters of the function around the node."""
        head = next(below(self.function, "function_declarator"), None) if self.function is not None else None
        return [name for name, _ in _parameters(head, self.tree)] if head is not None else []

    @property
    def calls(self) -> list[tuple[Host, list[str]]]:
        """Where texts call the function around the node, and what is passed there."""
        return self._calls(tree_of(text) for text in dict.fromkeys((self.tree.text, *self.around)))

    def _calls(self, trees: Iterable[Tree]) -> list[tuple[Host, list[str]]]:
        """The calls of the function; those whose arguments decide on another instance of its template come last."""
        calls = [*self._all_calls(trees)]
        return sorted(calls, key=lambda call: not self._is_decided(*call)) if self.bound and len(calls) > 1 else calls

    def _is_decided(self, caller: Host, words: list[str]) -> bool:
        """Do the types of a call's arguments agree with the arguments of the template that are bound?"""
        head = next(below(self.function, "function_declarator"), None) if self.function is not None else None
        match = decided(kinds_of(head, self.tree), words, caller) if head is not None else {}
        return all(match.get(name, word) == word for name, word in self.bound.items())

    def _all_calls(self, trees: Iterable[Tree]) -> Iterator[tuple[Host, list[str]]]:
        head = next(below(self.function, "function_declarator"), None) if self.function is not None else None
        if head is None or self.function is None or self.depth >= _DEPTH:
            return
        name = bare(self.tree.of(head).partition("(")[0])
        for tree in trees:
            for call in below(tree.root, "call_expression") if name in tree.text else ():
                called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
                if called is None or listed is None or re.split(r"\.|->", bare(tree.of(called)))[-1] != name:
                    continue
                if tree.text != self.tree.text or self._leads_here(call):
                    words = [tree.of(word) for word in listed.named_children if word.type != "comment"]
                    yield Host(tree, call, self.texts, self.given, {}, self.depth + 1), words

    def _leads_here(self, call: Node) -> bool:
        """Is a call outside of the function itself, and does it name the arguments of the template that are bound?"""
        listed = next(below(call.child_by_field_name("function") or call, "template_argument_list"), None)
        given = [self.tree.of(each) for each in listed.named_children] if listed is not None else []
        is_inside = self.function is not None and self.function.start_byte <= call.start_byte < self.function.end_byte
        return not is_inside and all(a == b for a, b in zip(given, self.bound.values(), strict=False))

    @cached_property
    def _passed(self) -> dict[str, str | Number]:
        """The numbers that parameters of the function around the node have where it is called first."""
        if self.call is None:
            return {}
        caller, words = self.call
        values: dict[str, Number | str | None] = {name: caller.number(word) for name, word in words.items()}
        for name, word in words.items() if self.via is not None else ():
            values[name] = caller.shown(word)
            values |= {f"{name}.{part}": caller.shown(text) for part, text in caller.members(word).items()}
        return {name: value for name, value in values.items() if value is not None}

    def _take(self, node: Node, found: dict[str, str | Number]) -> None:
        """A statement before the node changes what names stand for."""
        tree, inside = self.tree, self.around_node
        if node.type == "declaration":
            block = next((each for each in outwards(node) if each.type in _BLOCKS), None)
            if block is None or block.id in inside:
                for each in node.children_by_field_name("declarator"):
                    found |= self._members(node, each)
                    found |= dict(_declared(each, tree))
            return
        if node.type == "call_expression":
            for name in _set_elsewhere(node, tree) if self._runs(node, inside, found) is not False else ():
                found.pop(name, None)
            found |= dict(_asked(node, tree))
            return
        left = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if left is None or any(each.type == "for_statement" and each.id in inside and node.id in
                               {one.id for one in _update(each)} for each in outwards(node)):  # fmt: skip
            return
        name, right = re.sub(r"\s", "", tree.of(left)), node.child_by_field_name("right")
        runs = self._runs(node, inside, found)
        if runs is None and (both := self._either(node, name, found)) is not None:
            found[name] = both
        elif runs is None or (runs and (right is None or tree.of(node.child_by_field_name("operator") or node) != "=")):
            found.pop(name, None)
        elif runs and right is not None:  # ``n = min(n, 8)``: of what it was before
            itself = rf"\b{name}\b" if name.isidentifier() else r"(?!)"
            found[name] = re.sub(itself, f"({found.get(name, name)})".replace("\\", ""), tree.of(right))

    def _either(self, node: Node, name: str, found: Mapping[str, str | Number]) -> str | None:
        """What a name is behind ``if (n > 8) n = 8; else if (n < 2) n = 2;``, by the conditions; None where a loop has
        that, or it is new.
        """
        outer = [entry for entry in outwards(node) if entry.id not in self.around_node]
        choices = [entry for entry in outer if entry.type == "if_statement"]
        right = node.child_by_field_name("right")
        is_set = right is not None and self.tree.of(node.child_by_field_name("operator") or node) == "="
        is_repeated = {entry.type for entry in outer} & {*_REPEATED}
        if not is_set or right is None or name not in found or not choices or is_repeated:
            return None
        before, itself = f"({found[name]})".replace("\\", ""), rf"(?<![\w.]){re.escape(name)}\b"
        asked = list[str]()
        for choice in choices:
            condition, then = (choice.child_by_field_name(part) for part in ("condition", "consequence"))
            asked.append(f"{'!' * (then not in outer)}{self.tree.of(condition) if condition is not None else ''}")
        words = [re.sub(itself, before, text) for text in ("&&".join(asked), self.tree.of(right))]
        return f"(({words[0]}) ? {words[1]} : {before})" if len(before) < _LONG else None

    def _members(self, node: Node, declarator: Node) -> dict[str, str]:
        """The members of a variable that is a structure of the texts, as its declaration sets them."""
        kind = node.child_by_field_name("type")
        named = declarator.child_by_field_name("declarator") or declarator
        value = declarator.child_by_field_name("value")
        if value is not None and value.type == "call_expression" and self.depth < _DEPTH:
            here = replace(self, node=node, depth=self.depth + 1)
            if words := dict(returned(here, value, named, members_of(self.texts))):
                return words
        fields = members_of(self.texts).get(self.tree.of(kind) if kind is not None else "")
        if fields is None:
            return {}
        text = self.tree.of(value) if value is not None else ""
        parts = split(text[1:-1]) if text[:1] == "(" else parts_of(text, self.tree.of(kind) if kind else "") or []
        return {f"{self.tree.of(named)}.{name}": word for name, word in _filled(fields, parts)}

    def _runs(self, node: Node, inside: list[int], found: Mapping[str, str | Number]) -> bool | None:
        """Does a statement run before the node is reached? None where the text does not say."""
        below_it = node
        for each in outwards(node):
            if each.id in inside:
                break
            if each.type in _REPEATED:
                return None
            if each.type == "if_statement":
                condition = each.child_by_field_name("condition")
                word = self.tree.of(condition) if condition is not None else ""
                value = HostNumbers({**self.outside, **found, **self.given}).of(word)
                if value is None:
                    return None
                then = each.child_by_field_name("consequence")
                if below_it.id != (condition.id if condition is not None else 0) and bool(value) != (
                    then is not None and then.id == below_it.id
                ):
                    return False
            below_it = each
        return True

    def word(self, name: str) -> str:
        """What a name stands for, as the text has it; the name itself where that is not known."""
        found = {**self.outside, **self.local}.get(name)
        return found if isinstance(found, str) else name

    def number(self, word: str) -> Number | None:
        return self.numbers.of(word)

    def extents(self, word: str) -> tuple[int, ...] | None:
        """One to three numbers of a ``dim3``; None where the text does not say them."""
        name, seen = word.strip(), set[str]()
        while (inner := self.word(name)) != name and re.fullmatch(r"[\w.]+", inner) and name not in seen:
            seen.add(name)
            name = inner
        parts = parts_of(self.word(name), "dim3")
        values: list[Number | None] = (
            [self.number(part) for part in parts] if parts is not None else [self.number(word)]
        )
        for place, axis in enumerate("xyz"):
            if f"{name}.{axis}" in self.local:
                values += [1] * (place + 1 - len(values))
                values[place] = self.number(f"{name}.{axis}")
        values = values or [1]
        return tuple(int(value) for value in values if value is not None) if None not in values else None

    def shown(self, word: str) -> Number | str | None:
        """A number, or the numbers of a ``dim3``, in words that say it anywhere."""
        if (value := self.number(word)) is not None or (extents := self.extents(word)) is None:
            return value
        return f"dim3({', '.join(map(str, extents))})"

    def members(self, word: str) -> Mapping[str, str]:
        """What the members of a structure are, by their names, as far as the text says: of ``f`` and ``Axpb{2, 1}``."""
        prefix = f"{word}."
        if values := {name[len(prefix) :]: str(value) for name, value in self.local.items() if name.startswith(prefix)}:
            return values
        if values := self._members_as_run(word):
            return values
        kind, _, rest = word.partition("{")
        fields = members_of(self.texts).get(kind.strip(), {})
        return dict(_filled(fields, parts_of(f"{{{rest}", "") or [])) if fields and rest else {}

    def allocation(self, word: str) -> str | None:
        """How many bytes an array has been allocated with, as an expression; None where the text does not say."""
        return allocation(self, word)

    @cached_property
    def names(self) -> Mapping[str, str | Number]:
        """What names stand for: numbers, or texts."""
        return self.numbers.names

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of names at the node, as they are declared."""
        return {name: _EXTENT.sub("*", kind) for name, kind in self._sized.items()}

    @cached_property
    def _sized(self) -> dict[str, str]:
        """The types of names at the node, with the extents of arrays."""
        kinds = ("declaration", "parameter_declaration", "field_declaration")
        nodes = [each for each in below(self.tree.root, *kinds) if function_around(each) in (None, self.function)]
        return {name: kind for each in nodes for name, kind in sized(each, self.tree)}

    def type_of(self, word: str) -> str:
        """The type of an expression, "" where the text does not say."""
        if literal(word) is not None:
            return "float" if word[-1:] in "fF" else "double" if "." in word else "int"
        if points := _POINTS.match(word):
            kind = points[1] or points[2] or points[3]
            return f"{self.bound.get(kind, kind)}*"
        kind = self.types.get(base_of(word), "")
        many = _HOLDS_MANY.match(kind)
        if found := re.fullmatch(r"(\w+(?:<[\w\s:,]*>)?)\s*[{(].*[)}]", word, re.DOTALL):
            return found[1] if not many else ""
        return with_values(f"{many[1].strip()}*" if many else kind, self.bound)


def kinds_of(head: Node, tree: Tree) -> tuple[str, ...]:
    """The types that a function takes, in order."""
    listed = head.child_by_field_name("parameters")
    parameters = listed.named_children if listed is not None else ()
    return tuple(next((kind for _, kind in typed(word, tree)), "") for word in parameters)


def decided(kinds: Sequence[str], arguments: Sequence[str], host: Host) -> dict[str, str]:
    """What the types of a call's arguments make of those that a function takes: float of ``T`` in ``const T* x``."""
    return matched(kinds, [host.type_of(word) for word in arguments])


def matched(kinds: Sequence[str], types: Sequence[str]) -> dict[str, str]:
    """What some types make of those that a function takes.

    >>> matched(["const T*", "Op<kind, U>"], ["float*", "Op<MAX, int>"])
    {'kind': 'MAX', 'U': 'int', 'T': 'float', 'Op<kind,U>': 'Op<MAX, int>'}
    """
    match = dict[str, str]()
    for kind, of_argument in zip(kinds, types, strict=False):
        pattern = re.sub(r"\bconst\b|\s", "", kind)
        plain = re.sub(r"\bconst\b|\s*(?=\*)", "", of_argument).strip()
        if plain and plain.count("*") >= pattern.count("*"):
            match.setdefault(pattern.rstrip("*&"), plain[: len(plain) - pattern.count("*")])
            (name, _, listed), (own, _, parts) = (text.rstrip("*& ").partition("<") for text in (pattern, plain))
            if listed and name == own:
                match = matched(split(listed.removesuffix(">")), split(parts.removesuffix(">"))) | match
    return match


@kept
def members_of(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The members of structures of texts, in their order, with what they are to begin with, "" where that is open."""
    structures = dict[str, dict[str, str]]()
    for tree in (tree_of(text) for text in texts if "struct" in text):
        for node in below(tree.root, "struct_specifier"):
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            fields = [child for child in body.named_children if child.type == "field_declaration"] if body else []
            if name is not None and fields:
                structures[tree.of(name)] = dict(pair for child in fields for pair in _begun(child, tree))
    return structures


def _begun(node: Node, tree: Tree) -> Iterator[tuple[str, str]]:
    """The names of a member's declaration, with what they are to begin with."""
    value = node.child_by_field_name("default_value")
    for name, _ in typed(node, tree):
        yield name, tree.of(value) if value is not None else ""


def _filled(fields: Mapping[str, str], parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The members that a list sets, in order or as ``.name = value``, and those that have a value to begin with."""
    named = [re.fullmatch(r"\.(\w+)\s*=\s*(.*)", part, re.DOTALL) for part in parts]
    values = {match[1]: match[2] for match in named if match} or dict(zip(fields, parts, strict=False))
    for name, word in fields.items():
        if text := values.get(name, word or "0" * bool(parts)):
            yield name, text


def _set_elsewhere(call: Node, tree: Tree) -> Iterator[str]:
    """The variables that a function may set through their addresses: what a copy writes, or any that is handed on."""
    called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    words = [tree.of(child) for child in listed.named_children] if listed is not None else []
    name = tree.of(called).rpartition("::")[2] if called is not None else ""
    for word in words[: _SETS.get(name, 1 if "emcpy" in name else len(words))]:
        if address := re.fullmatch(r"(?:\(\s*[\w:]+\s*\*+\s*\)\s*)?&\s*(\w+)", word):
            yield address[1]


def _asked(call: Node, tree: Tree) -> Iterator[tuple[str, str | Number]]:
    """The variables that a function of CUDA sets through their addresses."""
    called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    words = [tree.of(child) for child in listed.named_children] if listed is not None else []
    name = tree.of(called) if called is not None else ""
    values: Sequence[str | Number] = _ASKED.get(name.partition("<")[0], ())
    if name == ALLOCATES_ROWS and len(words) > 3:
        words, values = words[1:], (pitch_of(words[2]),)
    if name == "cudaDeviceGetAttribute" and len(words) > 1 and words[1] in _ATTRIBUTES:
        values = (_ATTRIBUTES[words[1]],)
    for word, value in zip(words, values, strict=False):
        if word[:1] == "&":
            yield word[1:].strip(), value


def function_around(node: Node) -> Node | None:
    """The function around a node, the outermost one."""
    found = [each for each in outwards(node) if each.type == _FUNCTION]
    return found[-1] if found else None


def variables_outside(tree: Tree) -> frozenset[str]:
    """The variables that stand in no function."""
    nodes = (node for node in below(tree.root, "declaration", passing=(_FUNCTION,)))
    return frozenset(name for node in nodes for name, _ in sized(node, tree))


def typed(node: Node, tree: Tree) -> Iterator[tuple[str, str]]:
    """The names of a declaration, with their types: ``float*`` of ``const float *x``, and of ``float x[4]``."""
    yield from ((name, _EXTENT.sub("*", kind)) for name, kind in sized(node, tree))


def sized(node: Node, tree: Tree) -> Iterator[tuple[str, str]]:
    """The names of a declaration, with their types, those of arrays with their extents: ``float[4]``."""
    kind = node.child_by_field_name("type")
    for each in node.children_by_field_name("declarator") if kind is not None else ():
        stars, extents = "", ""
        one: Node | None = each
        while one is not None and one.type not in ("identifier", "field_identifier"):
            if one.type == "array_declarator" and node.type != "parameter_declaration":
                size = one.child_by_field_name("size")
                extents = f"[{tree.of(size) if size is not None else ''}]{extents}"
            elif one.type in ("pointer_declarator", "array_declarator"):
                stars += "*"
            inner = one.named_children[-1:] if one.type == "reference_declarator" else ()
            one = next(iter(inner), one.child_by_field_name("declarator"))
        if one is not None and kind is not None:
            yield tree.of(one), f"{tree.of(kind)}{stars}{extents}"


def _update(loop: Node) -> Iterable[Node]:
    update = loop.child_by_field_name("update")
    return [] if update is None else [update, *below(update, "assignment_expression", "update_expression")]


def _declared(node: Node, tree: Tree) -> Iterator[tuple[str, str]]:
    """The names that a declarator declares, with what they stand for: ``n = 4``, ``dim3 grid(2, 3)``."""
    kind = node.parent.child_by_field_name("type") if node.parent is not None else None
    word = tree.of(kind) if kind is not None else ""
    name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
    if node.type == "function_declarator":
        value = node.child_by_field_name("parameters")
    while name is not None and name.type in ("pointer_declarator", "reference_declarator", "array_declarator"):
        name = name.child_by_field_name("declarator")
    if node.type == "identifier":
        if word.endswith("dim3"):
            yield tree.of(node), "dim3()"
    elif name is not None and value is not None:
        text = tree.of(value)
        is_dim3 = word.endswith("dim3") and text[:1] in ("(", "{")
        yield tree.of(name), f"dim3({text[1:-1]})" if is_dim3 else text
        if (many := _HOLDS_MANY.match(word)) and value.type != "initializer_list" and value.named_children:
            yield f"{tree.of(name)}.size()", tree.of(value.named_children[0])
            yield f"{tree.of(name)}[0]", many[1].strip()


def parts_of(word: str, kind: str) -> list[str] | None:
    """The parts of ``kind(a, b)``, ``kind{a, b}`` or ``{a, b}``; None of any other text."""
    node = expression(word)
    if node is None:
        return None
    if node.type == "call_expression" and word.partition("(")[0].strip() == kind:
        node = node.child_by_field_name("arguments") or node
    elif node.type == "compound_literal_expression" and word.partition("{")[0].strip() == kind:
        node = node.child_by_field_name("value") or node
    elif node.type != "initializer_list":
        return None
    return [said(each, word) for each in node.named_children]
