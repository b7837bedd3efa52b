"""The syntax of a .cu file, by tree-sitter's grammar of CUDA, which reads on behind what it does not understand; and
what of the file is device code.

Macros that stand for words of a declaration (``#define DEVICE __device__ inline``), or that make whole functions, are
blanks to the grammar: it sees plain declarations, at their own places.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.errors import ToolError
from tilewright.load.cu_kept import kept
from tilewright.load.declared import Parameter, number_name

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
KEPT = 256  # texts of which the syntax is kept: a file and its headers, each with two sets of macros
SKIPPED = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z)
    |R"(?P<tag>[^()\s\\"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.VERBOSE,
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\((?:[^()\n\\]|\\\n)*\))?((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_MACRO_LINE = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)\b(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_OF_C = re.compile(  # the brackets of a header that C reads, too; strings are those of the grammar's text
    r"^[ \t]*#[ \t]*if(?:def[ \t]+|[ \t]+defined\b[ \t(]*)__cplusplus\b[^\n]*\n"
    r'\s*(?:extern\s*"x"\s*\{|\}[ \t]*;?)\s*^[ \t]*#[ \t]*endif\b[^\n]*',
    re.MULTILINE,
)
_CONDITION = re.compile(
    r"^[ \t]*#[ \t]*(?:(if|ifdef|ifndef)|(elif|elifdef|elifndef|else)|(endif))\b(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE
)
_DEVICE = r"\b__(?:global|device|constant|managed|shared)__\b"
_TYPE = re.compile(r"[\s\\]*(?:template|struct|class|enum|using)\b")  # how a body begins that declares types
_WORDS = re.compile(  # of a declaration, beside its type and name
    r"""__(?:global|device|host|constant|managed|shared|forceinline|noinline|inline|inline_hint|restrict)__
    |inline|static|extern|constexpr|const|volatile|"C"|__restrict|(?:__launch_bounds__|__maxnreg__|__cluster_dims__
    |__attribute__|__align__|alignas)[ \t]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[\[[^\[\]]*\]\]|\\?\s""",
    re.VERBOSE,
)


_SCOPE = re.compile(r'(?:inline\s+)?namespace\b\s*[\w:]*\s*\{|extern\s*"C"\s*\{|\}|using\s+namespace\s+[\w:]+\s*;')
_BESIDES = re.compile(  # what stands beside a declaration, and the grammar does not know everywhere
    r"\b(?:alignas|__align__|__builtin_align__|__attribute__|__declspec|__launch_bounds__|__cluster_dims__|__maxnreg__"
    r"|__block_size__|\w+_LAUNCH_BOUNDS\w*)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\b__grid_constant__\b|(?<=&)\s*__restrict(?:__)?\b"
)


def bare(name: str) -> str:
    """A name without namespaces and arguments of its template.

    >>> bare("a::k<b::c, 2>")
    'k'
    """
    return name.partition("<")[0].rpartition("::")[2].strip()


def without_comments(text: str) -> str:
    """The text with blanks for comments and quotes for strings, every place where it was."""
    return SKIPPED.sub(lambda found: re.sub(r"[^\n]", " " if found[0][0] == "/" else '"', found[0]), text)


def defined(text: str) -> Iterator[tuple[str, int, str]]:
    """The macros that a text defines: name, where the body begins, and the body."""
    return ((found[1], found.start(3), found[3]) for found in _DEFINE.finditer(without_comments(text)))


def closed(text: str, start: int, brackets: str = "()") -> int:
    """Behind the bracket that closes the one before ``start``."""
    depth = 1
    for mark in re.compile(f"[{re.escape(brackets)}]").finditer(text, start):
        depth += 1 if mark[0] == brackets[0] else -1
        if not depth:
            return mark.end()
    return len(text)


def split(text: str) -> list[str]:
    """The parts between commas that stand in no brackets.

    >>> split("a<b, c>, (d, e)")
    ['a<b, c>', '(d, e)']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


_LAUNCH = re.compile(r"<<(\s*)<([^;{}]*?)>>(\s*)>(\s*\()")


def with_plain_launches(text: str) -> str:
    """A text whose launches have no space in their brackets, as some formatters put there; each place stays.

    >>> with_plain_launches("k << <n / 32, 32 >> > (x);")
    'k <<< n / 32, 32 >>>  (x);'
    """
    return _LAUNCH.sub(r"<<<\1\2>>>\3\4", text) if "<<" in text else text


def with_values(text: str, values: Mapping[str, str]) -> str:
    """A text with what names stand for in their places.

    >>> with_values("T* [N + 1]", {"T": "float", "N": "32"})
    'float* [32 + 1]'
    """
    return re.sub(r"\w+", lambda word: values.get(word[0], word[0]), text)


@dataclass(frozen=True, eq=False)
class Macros:
    """The macros of a text and its headers: by name, what each stands for. wrappers: those that add words to one of
    their arguments, a declaration, with the number of that one: ``#define DEPRECATED(what, hint) what``. parameters:
    their names, of each.
    """

    bodies: Mapping[str, str] = field(default_factory=dict)
    wrappers: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Macros:
        """Those that texts define."""
        found = [each for text in texts for each in _DEFINE.finditer(without_comments(text))]
        found.sort(key=lambda macro: bool(re.search(_DEVICE, macro[3])))  # of several, one for the GPU
        return cls({each[1]: each[3] for each in found},
                   {entry[1]: place for entry in found if entry[2] and (place := _wrapped(entry)) is not None},
                   {entry[1]: re.findall(r"\w+", entry[2] or "") for entry in found})  # fmt: skip

    @cached_property
    def device(self) -> re.Pattern[str]:
        """Words of a GPU's code: CUDA's, and macros that have them, at first, second or third hand."""
        return self._having(_DEVICE)

    @cached_property
    def kernel(self) -> re.Pattern[str]:
        """``__global__``, and macros that have it."""
        return self._having(r"\b__global__\b")

    @cached_property
    def makers(self) -> frozenset[str]:
        """Macros that make whole functions of the GPU, or types that these may need."""
        return frozenset(
            name
            for name, body in self.bodies.items()
            if 0 < body.count("{") == body.count("}") and (self.device.search(body) or _TYPE.match(body))
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """Macros that stand for words of a declaration, or for nothing."""
        found = {name for name, body in self.bodies.items() if not _WORDS.sub("", body)}
        for _ in range(2):
            known = re.compile(rf"\b(?:{'|'.join(map(re.escape, found)) or '-'})\b")
            found |= {name for name, body in self.bodies.items() if not _WORDS.sub("", known.sub("", body))}
        return frozenset(found)

    @cached_property
    def scopes(self) -> Mapping[str, Sequence[str]]:
        """Macros that open namespaces, or close them, and do nothing else: the brackets, with what opens them."""
        bodies = {name: body.replace("\\\n", " ") for name, body in self.bodies.items() if re.search(r"[{}]", body)}
        return {name: [found[0] for found in _SCOPE.finditer(body)] for name, body in bodies.items()
                if not _WORDS.sub("", _SCOPE.sub("", body))}  # fmt: skip

    def _having(self, words: str) -> re.Pattern[str]:
        pattern, names = re.compile(words), set[str]()
        for _ in range(3):
            names |= {name for name, body in self.bodies.items() if pattern.search(body)}
            pattern = re.compile("|".join([words, *(rf"\b{name}\b" for name in sorted(names))]))
        return pattern


def _wrapped(macro: re.Match[str]) -> int | None:
    """The number of the parameter that a macro only adds words to."""
    parameters = [each.strip(" \t\\\n") for each in macro[2][1:-1].split(",")]
    rest = _WORDS.sub("", _BESIDES.sub("", macro[3]))
    return parameters.index(rest) if rest in parameters else None


class Tree:
    """A text and its syntax. made: calls of macros that make functions, by place. ends: of those and of ``#define``
    lines, which the grammar does not see.
    """

    def __init__(self, text: str, macros: Macros) -> None:
        self.text, self.macros = text, macros
        self.clean = without_comments(text)
        self._directives = [entry.span() for entry in DIRECTIVE.finditer(self.clean)]
        self.made = list(self._makers())
        self._scopes = list(self._of_macros())
        self.ends = [stop for _, stop in self.made] + [entry.end() for entry in _MACRO_LINE.finditer(self.clean)]
        self.ends += [stop for _, stop, _ in self._scopes]
        self.plain = self._plain()
        self.root = parsed(self.plain)
        self._stretches = dict[tuple[int, int], str]()
        self.ends.sort()

    def of(self, node: Node) -> str:
        """The text of a node, in one line, without comments."""
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, stop: int) -> str:
        """The text of a stretch, in one line, without comments."""
        if (start, stop) not in self._stretches:
            plain = SKIPPED.sub(lambda found: " " if found[0][0] == "/" else found[0], self.text[start:stop])
            self._stretches[start, stop] = " ".join(plain.split())
        return self._stretches[start, stop]

    def is_directive(self, node: Node) -> bool:
        """Does a node stand in a line for the preprocessor, as the name behind ``#ifdef`` does?"""
        return self._in_directive(node.start_byte)

    def _in_directive(self, start: int) -> bool:
        place = bisect_right(self._directives, (start, len(self.clean))) - 1
        return place >= 0 and start < self._directives[place][1]

    def calls(self, names: Iterable[str]) -> Iterator[tuple[str, int, int]]:
        """Where macros are called, outside of directives: the name, its place, and the one behind the bracket."""
        if not (every := sorted(names)):
            return
        for found in re.finditer(rf"\b({'|'.join(every)})[ \t]*\(", self.clean):
            if not self._in_directive(found.start()):
                yield found[1], found.start(), closed(self.clean, found.end())

    def _makers(self) -> Iterator[tuple[int, int]]:
        """Where makers are called, with the semicolon behind, and tables from their first macro to their last one."""
        tables, closing = ([name for name, body in self.macros.bodies.items() if pattern.search(body)]
                           for pattern in (_OPENS_TABLE, _CLOSES_TABLE))  # fmt: skip
        ends = [stop for _, _, stop in self.calls(closing)] if tables else []
        last = 0
        for name, start, stop in self.calls({*self.macros.makers, *tables}):
            if name in tables:
                stop = next((end for end in ends if end > stop), stop)
            if start >= last:
                behind = re.compile(r"\s*;").match(self.clean, stop)
                last = behind.end() if behind else stop
                yield start, last

    def _of_macros(self) -> Iterator[tuple[int, int, Sequence[str]]]:
        """Where macros open or close namespaces: from where to where, and what they do."""
        named = {word for word in re.findall(r"\w+", self.clean)} & self.macros.scopes.keys()
        called = re.compile(rf"\b({'|'.join(sorted(named))})\b(?:[ \t]*\([^()]*\))?")
        for found in called.finditer(self.clean) if named else ():
            if not self._in_directive(found.start()):
                yield found.start(), found.end(), self.macros.scopes[found[1]]

    def scope_of_macros(self, place: int) -> str:
        """The namespaces around a place that macros have opened: ``a::b::``."""
        opened = list[str]()
        for bracket in (entry for start, _, does in self._scopes if start < place for entry in does):
            if bracket == "}":
                opened = opened[:-1]
            elif bracket[-1] == "{":
                name = re.search(r"namespace\s+([\w:]+)", bracket)
                opened.append(f"{name[1]}::" if name and "inline" not in bracket else "")
        return "".join(opened)

    def _plain(self) -> str:
        """What the grammar reads: every place as in the text, one byte for each letter."""
        plain = _MACRO_LINE.sub(lambda found: blank(found[0]), SKIPPED.sub(_plainly, self.text))
        plain = _BESIDES.sub(lambda found: blank(found[0]), plain)
        self.ends += [each.end() for each in _OF_C.finditer(plain)]
        plain = _OF_C.sub(lambda found: blank(found[0]), plain)
        plain = _one_branch(self._unwrapped(plain))
        for start, stop in (*self.made, *((start, stop) for start, stop, _ in self._scopes)):
            plain = plain[:start] + re.sub(r"[^\n]", " ", plain[start:stop]) + plain[stop:]
        used = {word for word in set(re.findall(r"\w+", plain)) & self.macros.words}
        if used:
            named = re.compile(rf"^[ \t]*#.*|\b(?:{'|'.join(sorted(used))})\b(?:[ \t]*\([^()]*\))?", re.MULTILINE)
            plain = named.sub(lambda found: found[0] if found[0].lstrip()[:1] == "#" else blank(found[0]), plain)
        return plain

    def _unwrapped(self, plain: str) -> str:
        """The text with the declarations alone of those that macros wrap."""
        names = self.macros.wrappers.keys() & set(re.findall(r"\w+", plain))
        if not names:
            return plain
        called = re.compile(rf"^[ \t]*#.*|\b({'|'.join(sorted(names))})[ \t]*\(", re.MULTILINE)
        parts, last = list[str](), 0
        for found in called.finditer(plain):
            if found[1] is None or found.start() < last:
                continue
            stop = closed(plain, found.end())
            begin, place = found.end(), self.macros.wrappers[found[1]]
            arguments = _spans(plain, begin, stop - 1)
            first, end = arguments[place] if place < len(arguments) else (begin, stop - 1)
            parts += [plain[last : found.start()], blank(plain[found.start() : first]), plain[first:end],
                      blank(plain[end:stop])]  # fmt: skip
            last = stop
        return "".join([*parts, plain[last:]])


def _one_branch(plain: str) -> str:
    """The text with one branch of each ``#if`` that the grammar has no branches for: of those that open or close
    brackets which they do not close or open themselves, as ``if (a) {`` here and ``if (b) {`` there, of those
    between the arguments of a call, and of those with what a constructor initialises.
    """
    opened, gone = list[list[re.Match[str]]](), list[tuple[int, int]]()
    for mark in _CONDITION.finditer(plain):
        if mark[1]:
            opened.append([mark])
        elif opened:
            opened[-1].append(mark)
        if not (mark[3] and opened):
            continue
        marks = opened.pop()
        texts = {branch: _without(plain, gone, *branch)
                 for branch in ((first.end(), last.start()) for first, last in itertools.pairwise(marks))}  # fmt: skip
        kept = [branch for branch, text in texts.items() if not _closes_itself(text)]
        initialises = any(_INITIALISES.match(text) for text in texts.values())
        if not kept and (initialises or _is_between_brackets(plain, gone, marks[0].start())):
            kept = sorted(texts, key=lambda branch: bool(texts[branch].strip()))
        for start, stop in kept[-1:]:  # a piece that ends in the last one holds the others
            gone += [(marks[0].start(), start), (stop, mark.end())]
    return _without(plain, gone, 0, len(plain))


def _is_between_brackets(plain: str, gone: Sequence[tuple[int, int]], place: int) -> bool:
    """Does a statement have brackets before a place that it closes behind it?"""
    begin = max(plain.rfind(mark, 0, place) for mark in ";{}") + 1
    return _without(plain, gone, begin, place).count("(") > _without(plain, gone, begin, place).count(")")


def _without(text: str, gone: Sequence[tuple[int, int]], start: int, stop: int) -> str:
    """The text from a place to another, with blanks in the stretches that are gone."""
    for first, last in gone:
        if start <= first and last <= stop:
            text = text[:first] + blank(text[first:last]) + text[last:]
    return text[start:stop]


def _closes_itself(text: str) -> bool:
    """Is each bracket of a text closed behind it, and opened before it?"""
    depths = [*itertools.accumulate(1 if mark in "{([" else -1 for mark in re.findall(r"[{}()\[\]]", text))]
    return min(depths, default=0) >= 0 == sum(depths[-1:])


def _spans(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Where the arguments of a call are, between commas that stand in no brackets."""
    marks, depth = [start - 1], 0
    for place in range(start, stop):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if text[place] == "," and not depth:
            marks.append(place)
    return [(a + 1, b) for a, b in zip(marks, [*marks[1:], stop], strict=True)]


def _plainly(found: re.Match[str]) -> str:
    """A comment as blanks; a string, or a letter, as one without anything in it that looks like code."""
    if found[0][0] == "/" or len(found[0]) < 2:
        return blank(found[0])
    quote = "'" if found[0][0] == "'" else '"'
    return quote + re.sub(r"[^\n]", "x", found[0][1:-1]) + quote


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@lru_cache(maxsize=KEPT)
def tree_of(text: str, macros: Macros | None = None) -> Tree:
    """The syntax of a text. macros: those of the text alone, where they are left out.

    Raises ToolError where the grammar is not installed.
    """
    return Tree(text, macros or Macros.of([text]))


def parsed(text: str) -> Node:
    try:
        import tree_sitter
        import tree_sitter_cuda
    except ImportError:
        raise ToolError("the grammar of CUDA C++ is not installed", hint="pip install 'tilewright[cu]'") from None
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    return parser.parse(text.encode("ascii", "replace")).root_node


def below(node: Node, *kinds: str, passing: Sequence[str] = ()) -> Iterator[Node]:
    """The nodes of these kinds in and below a node, in their order. passing: kinds in which none are looked for."""
    return iter(_below(node, kinds, tuple(passing)))


@lru_cache(maxsize=1 << 14)
def _below(node: Node, kinds: tuple[str, ...], passing: tuple[str, ...]) -> tuple[Node, ...]:
    """The same, walked once: the values of a launch are looked for in the same functions again and again."""
    inside: list[Node] = []
    todo = [node]
    while todo:
        node = todo.pop()
        if node.type in kinds:
            inside.append(node)
        if node.type not in passing:
            todo.extend(reversed(node.children))
    return tuple(inside)


def outwards(node: Node) -> Iterator[Node]:
    """The nodes around a node, from the inside out."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


# The device code of a .cu file: its top-level pieces, which of them are for the GPU, and what their kernels take.
#
# Host functions are blanked, so that every line stays where it was. NVRTC judges what is left.


_INITIALISES = re.compile(r"\s*(?::(?!:)|,)")
_SCOPES = ("namespace_definition", "linkage_specification")
_BRANCHES = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "ERROR")
_NOTHING = ("comment", ";", "{", "}", "preproc_include", "preproc_def", "preproc_function_def", "preproc_call")
TYPES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")
_KEPT = (*TYPES, "type_definition", "alias_declaration", "using_declaration", "static_assert_declaration",
         "concept_definition", "namespace_alias_definition")  # fmt: skip
_WHOLE = ("declaration", "template_declaration", "call_expression")
FUNCTION, _LIST = "function_declarator", "parameter_list"
_OF_TEMPLATES = ("template_parameter_list",)
_OPENS_TABLE, _CLOSES_TABLE = re.compile(r"=\s*\{[\s\\]*\Z"), re.compile(r"\A[\s\\]*\}\s*;[\s\\]*\Z")  # of macros
_TEMPLATE = re.compile(r"\btemplate\s*\Z")
_REST = re.compile(r"[ \t(),]*;")  # of a declaration that the grammar has taken to pieces
_BODIES = ("compound_statement", "try_statement", "field_declaration_list", "enumerator_list", "initializer_list")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level piece of a file. start, stop: where it is. device: is it for the GPU? scope: the namespaces around it
    that have names, ``a::b::``. node: its syntax, None of a call of a macro.
    """

    start: int
    stop: int
    device: bool
    kernel: bool = False
    scope: str = ""
    node: Node | None = None

    @property
    def is_host(self) -> bool:
        """Is it code of the host for sure? Words that make no declaration may be what macros make something of."""
        kind = self.node.type if self.node is not None else ""
        return not self.device and (kind in _WHOLE or kind.endswith(("_statement", "_definition", "_instantiation")))


@lru_cache(maxsize=KEPT)
def pieces(text: str, macros: Macros | None = None) -> tuple[Chunk, ...]:
    """The pieces of a file in order, those inside of namespaces by themselves; directives for the preprocessor in
    between belong to none. macros: those of its headers, too.
    """
    tree = tree_of(text, macros)
    heads = ((start, stop, tree.between(start, stop).partition("(")[0]) for start, stop in tree.made)
    made = [Chunk(start, stop, True, bool(tree.macros.kernel.search(head))) for start, stop, head in heads]
    parts = sorted([*_within(tree, tree.root, ""), *made], key=lambda piece: piece.start)
    return tuple(_whole(tree, [*_balanced(tree, [*_with_bodies(parts)])]))


def _with_bodies(parts: Sequence[Chunk]) -> Iterator[Chunk]:
    """Pieces with the heads and bodies that the grammar has parted from them, as it does behind a word that it does not
    know, and beside ``#if``.
    """
    start = None
    for number, piece in enumerate(parts):
        kind = piece.node.type if piece.node is not None else ""
        follows = parts[number + 1] if number + 1 < len(parts) else None
        if kind == "template_parameter_list" and follows is not None:
            start = piece.start if start is None else start
            continue
        if number and _is_body(piece):
            continue
        stop = follows.stop if follows is not None and _is_body(follows) else piece.stop
        yield replace(piece, start=piece.start if start is None else start, stop=stop)
        start = None


def _balanced(tree: Tree, parts: Sequence[Chunk]) -> Iterator[Chunk]:
    """Pieces that close the braces which they open, and no others, where the grammar has lost count of them."""
    last = 0
    for number, piece in enumerate(parts):
        if piece.start < last:
            continue
        depth, stop = 0, piece.stop
        for brace in re.finditer(r"[{}]", tree.plain[piece.start : piece.stop]):
            depth += 1 if brace[0] == "{" else -1
            if depth < 0:
                stop = piece.start + brace.start()
                break
        if depth > 0:
            whole = _stop_of(tree.plain, piece.stop, depth)
            stop = piece.stop if any(entry.kernel and entry.start < whole for entry in parts[number + 1 :]) else whole
        last = stop
        yield replace(piece, stop=stop) if stop > piece.start else piece


def _stop_of(text: str, start: int, depth: int) -> int:
    """Behind the brace that closes the last of so many open ones, and the semicolon behind that."""
    for _ in range(depth):
        start = closed(text, start, "{}")
    behind = re.compile(r"\s*;").match(text, start)
    return behind.end() if behind else start


def _is_body(piece: Chunk) -> bool:
    return piece.node is not None and piece.node.type == "compound_statement"


def _whole(tree: Tree, parts: Sequence[Chunk]) -> Iterator[Chunk]:
    """Pieces of the host as one where none ends before the next begins: what the grammar makes of
    ``extern INSTANCE(4, 1);``, whose macro is a declaration.
    """
    first = 0
    for last, (piece, follows) in enumerate(itertools.zip_longest(parts, parts[1:])):
        if follows is not None and not (piece.device or follows.device) and _is_open(tree.text, piece, follows):
            continue
        rest = _REST.match(tree.text, piece.stop) if last > first else None
        yield replace(piece, start=parts[first].start, stop=rest.end() if rest else piece.stop)
        first = last + 1


def _is_open(text: str, piece: Chunk, follows: Chunk) -> bool:
    """Has a piece not ended where the next one begins?"""
    body = text[piece.start : piece.stop].strip()
    return body[-1:] not in (";", "}", ")") and not re.search(r"[;})\n]", text[piece.stop : follows.start])


def _within(tree: Tree, root: Node, scope: str) -> Iterator[Chunk]:
    todo = [(child, scope) for child in reversed(root.children)]
    while todo:
        node, scope = todo.pop()
        body = node.child_by_field_name("body")
        if node.type in _SCOPES and body is not None and body.type == "declaration_list":
            name = node.child_by_field_name("name")
            inner = f"{scope}{tree.of(name)}::" if name is not None and node.type == "namespace_definition" else scope
            todo += [(child, inner) for child in reversed(body.children)]
        elif node.type in _BRANCHES:
            todo += [(child, scope) for child in reversed(node.children)]
        elif node.is_named and node.type not in _NOTHING and tree.of(node) != ";" and not tree.is_directive(node):
            yield _piece(tree, node, scope)


def _piece(tree: Tree, node: Node, scope: str) -> Chunk:
    body, before = next(below(node, *_BODIES), None), node.prev_sibling
    begun = before.end_byte if before is not None else node.start_byte  # macros and attributes before it are its own
    ended = bisect_right(tree.ends, node.start_byte)
    start = max(begun, tree.ends[ended - 1]) if ended else begun
    if (word := _TEMPLATE.search(tree.plain, max(0, start - 40), start)) is not None:
        start = word.start()  # of a declaration that the grammar has taken to pieces
    head = tree.between(start, body.start_byte if body is not None else node.end_byte)
    device = bool(tree.macros.device.search(head)) or _is_kept(tree, node)
    follows = node.next_sibling
    stop = follows.end_byte if follows is not None and follows.type == ";" else node.end_byte
    scope = tree.scope_of_macros(node.start_byte) + scope
    return Chunk(start, stop, device, bool(tree.macros.kernel.search(head)), scope, node)


def _is_kept(tree: Tree, node: Node) -> bool:
    """Is it a type or a constant, which code of the GPU may need?"""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    words = {tree.of(child) for child in node.children if child.type == "type_qualifier"}
    if node.type == "function_definition":
        return "constexpr" in words
    holds = node.child_by_field_name("type")
    is_type = holds is not None and holds.type in TYPES and next(below(holds, *_BODIES), None) is not None
    return node.type in _KEPT or is_type or bool(words & {"const", "constexpr", "alignas"})


class _Kernel(NamedTuple):
    """A kernel as a text declares it. scope: the namespaces around it. parameters: their texts. template: the names of
    its template's parameters, None of a plain function. has_body: is it defined there?
    """

    scope: str
    name: str
    parameters: Sequence[str]
    template: Sequence[str] | None
    has_body: bool


_NUMBERS = re.compile(r"[A-Z]\w?|\w+_t|\w*(?:[Ss]calar|[Tt]ype|[Rr]eal|[Ff]loat)\w*")  # types of numbers, as named
_INDICES = re.compile(r"I\d?|\w*(?:[Ii]ndex|[Ii]dx|[Ii]nt(?![a-z]))\w*")  # types of integers
_WAYS_PAST = ("if_statement", "for_statement", "while_statement", "do_statement", "switch_statement")


def is_passed_by(text: str, line: int) -> bool:
    """Does a kernel call something in this line in a branch or a loop, so that threads may come to the kernel's end
    without it, and does none of them return before, or in a loop around it?
    """
    tree = tree_of(text)
    for kernel in below(tree.root, "function_definition"):
        head = tree.between(kernel.start_byte, kernel.end_byte).partition("{")[0]
        if kernel.start_point[0] < line <= kernel.end_point[0] + 1 and tree.macros.kernel.search(head):
            calls = [call for call in below(kernel, "call_expression") if call.start_point[0] + 1 == line]
            ways = [way for way in below(kernel, *_WAYS_PAST) if calls and way.start_byte < calls[0].start_byte
                    and calls[0].end_byte <= way.end_byte]  # fmt: skip
            ends = below(kernel, "return_statement", "gnu_asm_expression", passing=("lambda_expression",))
            return bool(ways) and not any(end.start_byte < ways[0].end_byte for end in ends)
    return False


def template_names(text: str) -> Mapping[str, tuple[str, ...]]:
    """The names of the parameters of each kernel's template, by the kernel's name."""
    return {kernel.name: tuple(kernel.template) for kernel in _declared(text) if kernel.template is not None}


def kernels(text: str) -> list[str]:
    """The names of the ``__global__`` functions, as they are written."""
    return list(dict.fromkeys(kernel.name for kernel in _declared(text)))


def qualified(name: str, texts: Sequence[str]) -> str:
    """An instance of a template with the namespaces of its kernel, as texts declare it: ``a::k<4>`` of ``k<4>``.

    As it is where none of them does, or several.
    """
    path, angle, arguments = name.partition("<")
    scoped = {f"{kernel.scope}{kernel.name}" for text in texts for kernel in _declared(text)}
    found = [kernel for kernel in scoped if f"::{kernel}".endswith(f"::{path.strip()}")]
    return f"{found[0]}{angle}{arguments}" if len(found) == 1 else name


def parted(name: str) -> tuple[str, str | None]:
    """An instance of a template, and the types of its parameters where its name has them.

    >>> parted("k<float>(float*, int)"), parted("k<(4)>")
    (('k<float>', 'float*, int'), ('k<(4)>', None))
    """
    whole = re.fullmatch(r"(.*>)\s*\(([^()]*)\)\s*", name, re.DOTALL)
    return (whole[1], whole[2]) if whole else (name, None)


@lru_cache(maxsize=KEPT)
def parameters(text: str) -> Mapping[str, tuple[Parameter, ...]]:
    """Each kernel's parameters, by its name. Of several kernels of one name: the names that the first one has. What is
    declared in another way than it is defined, as an old header may have it, is the defined one.
    """
    found, declared = dict[str, tuple[Parameter, ...]](), _declared(text)
    defined = {kernel.name for kernel in declared if kernel.has_body}
    for each in (kernel for kernel in declared if kernel.has_body or kernel.name not in defined):
        written = [_parameter(part) for part in each.parameters]
        own = tuple(param for param in written if param)
        if len(own) == len(written):
            other = found.setdefault(each.name, own)
            if [(param.type, param.element) for param in other] != [(param.type, param.element) for param in own]:
                found[each.name] = tuple(Parameter(param.name, "") for param in other)
    return found


def overloads(text: str) -> list[tuple[str, Sequence[str], list[Parameter]]]:
    """The kernels of a text: name, names of a template's parameters, and parameters, all of which have names."""
    every = ((kernel, [*map(_parameter, kernel.parameters)]) for kernel in _declared(text))
    return [
        (kernel.name, kernel.template or (), [param for param in params if param])
        for kernel, params in every
        if all(params)
    ]


def _parameter(text: str) -> Parameter | None:
    """One parameter out of its text; None where it has no name."""
    found = re.search(r"^(.*?)\b(\w+)\s*((?:\[[^\]]*\]\s*)*)(?:=.*)?$", text, re.DOTALL)
    if found is None or not found[1].strip():
        return None
    plain = re.sub(r"\b(?:__restrict__|__restrict)\b", " ", found[1])
    plain = re.sub(r"\*\s*(?:const|volatile)\s*$", "*", plain)  # of the pointer itself
    kind = re.sub(r"\s*([*&])\s*", r"\1", " ".join(plain.split())) + "*" * bool(found[3])
    pointee = re.sub(r"\b(?:const|volatile)\b", " ", kind)
    return Parameter(found[2], kind, number_name(pointee[:-1]) if pointee[-1] == "*" else "")


def explicit_instances(text: str) -> list[str]:
    """The instances of templates of kernels that a text makes itself: ``template __global__ void k<128>(...)``."""
    return [name for name, *_ in _read(text).get("instances", ()) if "<" in name]


def _declared(text: str) -> list[_Kernel]:
    return [_Kernel(*kernel) for kernel in _read(text).get("kernels", ())]


def _read(text: str) -> dict[str, list[tuple[Any, ...]]]:
    """What a text says of kernels. One without the word, as most headers, is not even read."""
    return _kernels((text,)) if "__global__" in text else {}


def kernel_name(piece: Chunk, tree: Tree) -> str:
    """The name of a kernel, with the arguments of its template where it is an instance; empty of what a macro makes."""
    head = next(below(piece.node, FUNCTION, passing=_OF_TEMPLATES), None) if piece.node is not None else None
    name = head.child_by_field_name("declarator") if head is not None else None
    return tree.of(name) if name is not None else ""


@kept
def _kernels(texts: tuple[str, ...]) -> dict[str, list[tuple[Any, ...]]]:
    """The kernels that texts declare, as `_Kernel` has them, and the instances that they make."""
    declared, instances = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for tree, piece in ((tree_of(text), piece) for text in texts for piece in pieces(text) if piece.kernel):
        head = next(below(piece.node, FUNCTION, passing=_OF_TEMPLATES), None) if piece.node is not None else None
        name = head.child_by_field_name("declarator") if head is not None else None
        listed = head.child_by_field_name("parameters") if head is not None else None
        if piece.node is None or name is None or listed is None:
            continue
        if piece.node.type == "template_instantiation":
            instances.append((tree.of(name),))
            continue
        taken = [tree.of(param) for param in listed.named_children if param.type.endswith("parameter_declaration")]
        has_body = "{" in tree.between(head.end_byte if head is not None else piece.start, piece.stop)
        declared.append((piece.scope, tree.of(name), taken, template_parameters(piece.node, tree), has_body))
    return {"kernels": declared, "instances": instances}


def template_parameters(node: Node, tree: Tree) -> list[str] | None:
    """The names of a template's parameters; None of what is no template."""
    heads = _template_heads(node, tree)
    return None if heads is None else [template_name(" ".join(words)) for words in heads]


def template_name(parameter: str) -> str:
    """The name of a template's parameter.

    >>> template_name("typename T"), template_name("T (*ACT)(const T&)")
    ('T', 'ACT')
    """
    function = re.search(r"\(\s*\*\s*(\w+)\s*\)", parameter)
    return function[1] if function else parameter.split()[-1]


def _template_heads(node: Node, tree: Tree) -> list[list[str]] | None:
    """The words of each parameter of a template, without its default: ``["typename", "T"]``."""
    listed = node.child_by_field_name("parameters")
    if listed is None or listed.type != "template_parameter_list":
        return None
    heads = (tree.of(parameter).partition("=")[0].split() for parameter in listed.named_children)  # none of a comment
    return [words for words in heads if words]


def example_of(name: str, texts: Sequence[str]) -> str:
    """An instance of a kernel's template as it may be asked for: ``k<float, 128>``; a type that only the file can name
    stands by the name of its parameter.
    """
    for text in texts:
        for piece in pieces(text):
            head = (
                next(below(piece.node, FUNCTION, passing=_OF_TEMPLATES), None)
                if piece.kernel and piece.node is not None
                else None
            )
            declarator = head.child_by_field_name("declarator") if head is not None else None
            if piece.node is not None and declarator is not None and tree_of(text).of(declarator) == name:
                heads = _template_heads(piece.node, tree_of(text)) or []
                return f"{name}<{', '.join(_example(words) for words in heads)}>"
    return name


def _example(words: Sequence[str]) -> str:
    kind, name = words[0].rstrip("."), template_name(" ".join(words))
    if kind in ("typename", "class"):
        return "int" if _INDICES.fullmatch(name) else "float" if _NUMBERS.fullmatch(name) else name
    numbers = {"bool": "true", **dict.fromkeys(("int", "unsigned", "size_t", "uint32_t", "int64_t", "long"), "128")}
    return numbers.get(kind, name)


def overload(function: str) -> tuple[str, ...]:
    """The name of a function and the types that it takes, the same for all of their spellings.

    >>> overload("k(const float * __restrict__, unsigned)") == overload("k(float const*, uint32_t)")
    True
    """
    name, bracket, kinds = function.strip().partition("(")
    taken = re.split(r",(?![^<]*>)", kinds.removesuffix(")")) if kinds.strip(" )") else []
    return (re.sub(r"\s", "", name) + bracket, *map(_spelled, taken))


def _spelled(kind: str) -> str:
    """A type in one spelling: what it points to is constant or not, it is itself either."""
    pointee, marks = re.split(r"(?=[*&])|$", re.sub(r"\b__restrict(?:__)?\b", " ", kind), maxsplit=1)
    plain = re.sub(r"\b(?:const|volatile|struct)\b", " ", pointee)
    constant = "const" * bool(marks and re.search(r"\bconst\b", pointee))
    return constant + (number_name(plain) or re.sub(r"\s", "", plain)) + re.sub(r"const$|\s", "", marks.strip())
