"""The syntax of a .cu file, by tree-sitter's grammar of CUDA, which reads on behind what it does not understand.

Macros that stand for words of a declaration (``#define DEVICE __device__ inline``), or that make whole functions, are
blanks to the grammar: it sees plain declarations, at their own places.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from tilewright.errors import ToolError

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Macros", "Tree", "below", "closed", "defined", "parsed", "split", "tree_of", "without_comments"]

_SKIP = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z)
    |R"(?P<tag>[^()\s\\"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.VERBOSE,
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^()\n]*\))?((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_MACRO_LINE = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)\b(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_DEVICE = r"\b__(?:global|device|constant|managed|shared)__\b"
_WORDS = re.compile(  # of a declaration, beside its type and name
    r"""__(?:global|device|host|constant|managed|shared|forceinline|noinline|inline|inline_hint|restrict)__
    |inline|static|extern|constexpr|const|volatile|"C"|__restrict|(?:__launch_bounds__|__maxnreg__|__cluster_dims__
    |__attribute__|__align__|alignas)[ \t]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[\[[^\[\]]*\]\]|\\?\s""",
    re.VERBOSE,
)


_BESIDES = re.compile(  # what stands beside a declaration, and the grammar does not know everywhere
    r"\b(?:alignas|__align__|__builtin_align__|__attribute__|__declspec|__launch_bounds__|__cluster_dims__|__maxnreg__"
    r"|__block_size__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\b__grid_constant__\b"
)


def without_comments(text: str) -> str:
    """The text with blanks for comments and quotes for strings, every place where it was."""
    return _SKIP.sub(lambda found: re.sub(r"[^\n]", " " if found[0][0] == "/" else '"', found[0]), text)


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


@dataclass(frozen=True, eq=False)
class Macros:
    """The macros of a text and its headers: by name, what each stands for."""

    bodies: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Macros:
        """Those that texts define."""
        return cls({name: body for text in texts for name, _, body in defined(text)})

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
        """Macros that make whole functions of the GPU."""
        return frozenset(name for name, body in self.bodies.items() if "{" in body and self.device.search(body))

    @cached_property
    def words(self) -> frozenset[str]:
        """Macros that stand for words of a declaration, or for nothing."""
        found = {name for name, body in self.bodies.items() if not _WORDS.sub("", body)}
        for _ in range(2):
            known = re.compile(rf"\b(?:{'|'.join(map(re.escape, found)) or '-'})\b")
            found |= {name for name, body in self.bodies.items() if not _WORDS.sub("", known.sub("", body))}
        return frozenset(found)

    def _having(self, words: str) -> re.Pattern[str]:
        pattern, names = re.compile(words), set[str]()
        for _ in range(3):
            names |= {name for name, body in self.bodies.items() if pattern.search(body)}
            pattern = re.compile("|".join([words, *(rf"\b{name}\b" for name in sorted(names))]))
        return pattern


class Tree:
    """A text and its syntax. made: calls of macros that make functions, by place. ends: of those and of ``#define``
    lines, which the grammar does not see.
    """

    def __init__(self, text: str, macros: Macros) -> None:
        self.text, self.macros = text, macros
        self._clean = without_comments(text)
        self.made = list(self._makers())
        self.ends = [stop for _, stop in self.made] + [each.end() for each in _MACRO_LINE.finditer(self._clean)]
        self.root = parsed(self._plain())

    def of(self, node: Node) -> str:
        """The text of a node, in one line, without comments."""
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, stop: int) -> str:
        """The text of a stretch, in one line, without comments."""
        return " ".join(_SKIP.sub(lambda found: " " if found[0][0] == "/" else found[0], self.text[start:stop]).split())

    def is_directive(self, node: Node) -> bool:
        """Does a node stand in a line for the preprocessor, as the name behind ``#ifdef`` does?"""
        before = self._clean[: node.start_byte].replace("\\\n", "  ").rpartition("\n")[2]
        return before.lstrip().startswith("#")

    def _makers(self) -> Iterator[tuple[int, int]]:
        """Where makers are called, with the semicolon behind."""
        if not self.macros.makers:
            return
        called = re.compile(rf"\b(?:{'|'.join(sorted(self.macros.makers))})[ \t]*\(")
        stop = 0
        for found in called.finditer(self._clean):
            line = self._clean[self._clean.rfind("\n", 0, found.start()) + 1 : found.start()]
            if found.start() >= stop and not line.lstrip().startswith("#"):
                stop = closed(self._clean, found.end())
                behind = re.compile(r"\s*;").match(self._clean, stop)
                stop = behind.end() if behind else stop
                yield found.start(), stop

    def _plain(self) -> str:
        """What the grammar reads: every place as in the text, one byte for each letter."""
        plain = _MACRO_LINE.sub(lambda found: _blank(found[0]), _SKIP.sub(_plainly, self.text))
        plain = _BESIDES.sub(lambda found: _blank(found[0]), plain)
        for start, stop in self.made:
            plain = plain[:start] + re.sub(r"[^\n]", " ", plain[start:stop]) + plain[stop:]
        used = {word for word in set(re.findall(r"\w+", plain)) & self.macros.words}
        if used:
            named = re.compile(rf"^[ \t]*#.*|\b(?:{'|'.join(sorted(used))})\b(?:[ \t]*\([^()]*\))?", re.MULTILINE)
            plain = named.sub(lambda found: found[0] if found[0].lstrip()[:1] == "#" else _blank(found[0]), plain)
        return plain


def _plainly(found: re.Match[str]) -> str:
    """A comment as blanks; a string, or a letter, as one without anything in it that looks like code."""
    if found[0][0] == "/" or len(found[0]) < 2:
        return _blank(found[0])
    quote = "'" if found[0][0] == "'" else '"'
    return quote + re.sub(r"[^\n]", "x", found[0][1:-1]) + quote


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@lru_cache(maxsize=32)
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


def below(node: Node, *kinds: str) -> Iterator[Node]:
    """The nodes of these kinds in and below a node, in their order."""
    todo = [node]
    while todo:
        one = todo.pop()
        if one.type in kinds:
            yield one
        todo.extend(reversed(one.children))
