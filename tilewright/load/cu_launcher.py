"""The launch of a kernel that no text launches, as the text of a host function that does.

What a kernel makes of blockIdx.x and compares with a size, or counts rows of such a size with, says how many CTAs there
are along x: a thread, or a CTA, for each number below it. Arrays in shared memory that have an element for each thread,
``__launch_bounds__`` and constants that are called so say how many threads. What nothing says is a parameter of the
function, so that a value is proposed for it as for those of any host code.

What a kernel compares with nothing host code divides without a rest: such kernels are for multiples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.load.cu_guards import COMPARES, PLAIN, kernel_nodes, names_in, operations
from tilewright.load.cu_host import constants_of
from tilewright.load.cu_tree import bare, below, example_of, split, template_names, with_values

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_tree import Tree

_AXES = "xyz"
_INDEX = re.compile(r"\b(blockIdx|threadIdx)\s*\.\s*([xyz])\b")
_OF_THREAD = re.compile(r"\s*(?:\(int\)\s*)?threadIdx\s*\.\s*([xyz])\s*")
_SUBSCRIPTS = re.compile(r"(\w+)\s*((?:\[[^\[\]]*\]\s*)+)")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*(\w+)")
_WHOLE = re.compile(r"(?:const\s+)?(?:unsigned(?:\s+\w+)?|u?int\d*(?:_t)?|size_t|long(?:\s+\w+)?)\s+(?:const\s+)?\w+$")
_STEP = re.compile(r"(\w+)\s*\+=\s*(\w+)")
_BESIDE = re.compile(r"\[\s*threadIdx\s*\.\s*([xyz])\s*\+\s*(\w+)\s*\]")
_PER = re.compile(r"(?:threadIdx\s*\.\s*x|\))\s*(?:/\s*(\w+)|>>\s*([1-9]))")
_SCALED = re.compile(r"\)\s*\*\s*\w+\s*$")
_WARP = ("warpsize", "warp_size", "kwarpsize")
_DIVIDED = re.compile(r"threadIdx[^;]*(?:/|>>)")
_THREADS = re.compile(r"block|thread|tile|tpb|warps|bs$|dim$", re.IGNORECASE)  # in the name of a number of them
_OF_BLOCK = re.compile(  # the name of a constant that is one
    r"k?_?(?:num|n)?_?(?:block|threads?|tpb|cta)(?:_?(?:size|dim|x|per_block|threads))*", re.IGNORECASE
)


def launcher(texts: Sequence[str], kernel: str) -> str:
    """A host function that launches a kernel, in the line where that stands; "" of one that is not seen. kernel: with
    the arguments of its template.
    """
    names = next((every[bare(kernel)] for every in map(template_names, texts) if bare(kernel) in every), ())
    words = split(kernel.partition("<")[2].rpartition(">")[0])
    numbers = {name: word for name, word in zip(names, words, strict=False) if word.isdigit()}
    for tree, node in kernel_nodes(texts, bare(kernel)):
        body, head = node.child_by_field_name("body"), next(below(node, "function_declarator"), None)
        listed = head.child_by_field_name("parameters") if head is not None else None
        if body is not None and listed is not None:
            constants = {**constants_of(tuple(texts)), **numbers}
            text = _Unlaunched(tree, node, body, listed, constants, numbers).launcher(kernel)
            return "\n" * node.start_point[0] + text  # in the kernel's line
    return ""


def instances_of_templates(texts: Sequence[str]) -> list[str]:
    """Of each template of the first text an instance, of those that have types alone, or numbers of threads:
    ``k<float, 128>``.
    """
    templates = template_names(texts[0])
    examples = {name: example_of(name, texts[:1]) for name in templates}
    words = {name: split(example.partition("<")[2].rpartition(">")[0]) for name, example in examples.items()}
    return [examples[name] for name in templates if all(map(_is_plain, templates[name], words[name]))]


def _is_plain(name: str, word: str) -> bool:
    """Is this the word of a type, a choice, or a number of threads, and not the name of the parameter itself?"""
    return word != name and (not word.isdigit() or bool(_THREADS.search(name)))


@dataclass(frozen=True)
class _Unlaunched:
    """A kernel's text. listed: its parameters. constants: of texts and of its template, by name; numbers: of that."""

    tree: Tree
    node: Node
    body: Node
    listed: Node
    constants: Mapping[str, str]
    numbers: Mapping[str, str]

    def launcher(self, kernel: str) -> str:
        """The function, in a line. kernel: its name."""
        block = [self.threads.get(axis, "1") for axis in _AXES]
        grid = [self.ctas(axis) for axis in _AXES]
        shared = ["shared_bytes"] * ("extern" in self.tree.of(self.body))
        launch = ", ".join([*(f"dim3({', '.join(words)})" for words in (grid, block)), *shared, "0"][:3])
        unknown = [word for word in dict.fromkeys((*grid, *block, *shared)) if word in self.unsaid]
        params = ", ".join([self.tree.of(self.listed)[1:-1], *(f"int {name}" for name in unknown)]).lstrip(", ")
        call = f"{kernel}<<<{with_values(launch, {**self._local, **self.numbers})}>>>({', '.join(self.names)});"
        return f"void launch_{bare(kernel)}({params}) {{ {call} }}"

    @cached_property
    def names(self) -> list[str]:
        """Of the parameters."""
        return [self.tree.of(name) for param in self.listed.named_children
                for name in [*below(param, "identifier", passing=("array_declarator",))][-1:]]  # fmt: skip

    @cached_property
    def unsaid(self) -> dict[str, tuple[str, str]]:
        """The names of what the text may not say: of CTAs and threads along the axes that it uses."""
        used = {("threadIdx", "x"), ("blockIdx", "x"), *_INDEX.findall(self.tree.of(self.body))}
        words = {"threadIdx": "threads", "blockIdx": "ctas"}
        named = {words[what] + f"_{axis}" * (axis != "x"): (what, axis) for what, axis in sorted(used)}
        return {f"{name}_of_launch" if name in self.names else name: place for name, place in named.items()} | {
            "shared_bytes": ("", "")
        }

    def _name(self, what: str, axis: str) -> str:
        return next((name for name, place in self.unsaid.items() if place == (what, axis)), "1")

    # Threads

    @cached_property
    def threads(self) -> dict[str, str]:
        """Of a CTA, by axis."""
        axes = [axis for axis in _AXES if self._name("threadIdx", axis) != "1"]
        said = {axis: self._name("threadIdx", axis) for axis in axes}
        if axes == ["x"]:
            bounds = _BOUNDS.search(self.tree.between(self.node.start_byte, self.body.start_byte))
            words = [*([bounds[1]] if bounds else []), *self._constants_of_block]
            said["x"] = next(filter(self._is_number, words), said["x"])
        return said | self._with_elements | self._steps

    @cached_property
    def _local(self) -> dict[str, str]:
        """The constants that the kernel declares, and what they are."""
        return {name: text for name, text in self._declared if text.isdigit() and self._is_constant(name)}

    def _is_constant(self, name: str) -> bool:
        text = self.tree.of(self.body)
        return bool(re.search(rf"\b(?:constexpr|const)\b[^;]*\b{re.escape(name)}\s*=", text))

    @property
    def _steps(self) -> dict[str, str]:
        """By axis, the step of loops whose counters stand beside the threads along it: ``tile[threadIdx.y + j]``."""
        loops = [self.tree.of(node) for node in below(self.body, "assignment_expression")]
        steps = {step[1]: step[2] for step in map(_STEP.fullmatch, loops) if step and self._is_number(step[2])}
        beside = _BESIDE.findall(self.tree.of(self.body))
        return {axis: steps[counter] for axis, counter in beside if counter in steps}

    @property
    def _constants_of_block(self) -> Iterator[str]:
        """The constants in the text that are called as numbers of threads are."""
        words = dict.fromkeys(re.findall(r"[^\W\d]\w*", self.tree.of(self.body)))
        return (word for word in words if _OF_BLOCK.fullmatch(word) and self._is_number(word))

    def _is_number(self, word: str) -> bool:
        number = self._local.get(word, self.constants.get(word, word)).strip("()uU ")
        return number.isdigit() and 1 <= int(number) <= 1024

    @cached_property
    def _with_elements(self) -> dict[str, str]:
        """By axis, the extent of the arrays in shared memory of which each thread has an element along it."""
        declared = [text for node in below(self.body, "declaration") if "__shared__" in (text := self.tree.of(node))]
        arrays = {name: _BRACKETS.findall(extents) for text in declared for name, extents in _SUBSCRIPTS.findall(text)}
        axes = {name: value[1] for name, text in self._declared if (value := _OF_THREAD.fullmatch(text))}
        parts = {name for name, text in self._declared if _DIVIDED.search(text)}
        extents, others = dict[tuple[str, int, str], None](), set[tuple[str, int]]()
        for node in below(self.body, "subscript_expression"):
            name, _, indices = self.tree.of(node).partition("[")
            for place, index in enumerate(_BRACKETS.findall(f"[{indices}")):
                thread = _OF_THREAD.fullmatch(index)
                if axis := thread[1] if thread else axes.get(index.strip()):
                    extents[name.strip(), place, axis] = None
                elif _DIVIDED.search(index) or names_in(index) & parts:
                    others.add((name.strip(), place))  # an element for each warp
        said = dict[str, list[str]]()
        for name, place, axis in extents:
            dims = arrays.get(name, [])
            if (name, place) not in others and place < len(dims) and (extent := _without_padding(dims[place])):
                said.setdefault(axis, []).append(extent)
        return {axis: min(every, key=lambda extent: (len(extent), extent)) for axis, every in said.items()}

    @cached_property
    def _declared(self) -> list[tuple[str, str]]:
        """What variables are made of, in order."""
        pairs = ((node.child_by_field_name(first), node.child_by_field_name(then))
                 for node in below(self.body, "init_declarator", "assignment_expression")
                 for first, then in (("declarator", "value"), ("left", "right")))  # fmt: skip
        return [(self.tree.of(name), self.tree.of(value)) for name, value in pairs if name and value]

    # CTAs

    def ctas(self, axis: str) -> str:
        """Of the grid, along an axis."""
        if self._name("blockIdx", axis) == "1" or axis not in self._sizes:
            return self._name("blockIdx", axis)
        size, count, is_compared = self._sizes[axis]
        threads = self.threads.get(min(count.threads, default=""))
        if threads is None:
            return f"(({size}) + 1) / 2" if self.turns(axis) > 1 else size
        wanted = f"({size}) * {count.per}" if count.per else f"({size})"
        threads = f"({self.turns(axis)} * {threads})" if self.turns(axis) > 1 else threads
        is_rounded = is_compared and not count.is_scaled
        return f"({wanted} + {threads} - 1) / {threads}" if is_rounded else f"{wanted} / {threads}"

    def turns(self, axis: str) -> int:
        """Of a loop that goes on by all CTAs along an axis."""
        return 2 if re.search(rf"\bgridDim\s*\.\s*{axis}\b", self.tree.of(self.body)) else 1

    @cached_property
    def _counts(self) -> dict[str, _Count]:
        """What variables count."""
        counts = dict[str, _Count]()
        for name, text in self._declared:
            if name not in counts and "[" not in text:
                counts[name] = _Count.of(text, counts)
        return counts

    @cached_property
    def _sizes(self) -> dict[str, tuple[str, _Count, bool]]:
        """By axis, the size below which a count of CTAs stays, and that count: what it is compared with, or what the
        count beside it is multiplied by, as in ``row * n + column``; is it compared?
        """
        compared, multiplied = dict[str, tuple[str, _Count, bool]](), dict[str, tuple[str, _Count, bool]]()
        for _, first, operator, second in operations(self.tree, self.body):
            for text, other in ((first, second), (second, first)):
                count, words = _Count.of(text, self._counts), names_in(PLAIN.sub("", other))
                if len(count.ctas) != 1 or "[" in text:
                    continue
                axis = min(count.ctas)
                if operator in COMPARES[:4] and words and words <= {*self.names}:
                    compared.setdefault(axis, (other, count, True))
                elif operator == "+":
                    sizes = [word.strip() for word in other.split("*") if word.strip() in self.names]
                    multiplied |= {axis: (sizes[-1], count, False)} if len(sizes) == 1 else {}
        return {**self._forgotten, **multiplied, **compared}

    @property
    def _forgotten(self) -> dict[str, tuple[str, _Count, bool]]:
        """By the only axis of CTAs, the only whole number that the kernel is handed and does not use: its guard is
        forgotten.
        """
        words = {*re.findall(r"[^\W\d]\w*", self.tree.of(self.body))}
        unused = [name for name in self._integers if name not in words]
        counts = [count for count in self._counts.values() if count.ctas and count.threads]
        axes = {axis for count in counts for axis in count.ctas}
        return {min(axes): (unused[0], counts[0], True)} if len(unused) == len(axes) == 1 else {}

    @property
    def _integers(self) -> list[str]:
        """The parameters that are whole numbers."""
        declared = (self.tree.of(param) for param in self.listed.named_children)
        return [name for name, text in zip(self.names, declared, strict=False) if _WHOLE.match(text)]


@dataclass(frozen=True)
class _Count:
    """The axes along which a number counts CTAs and threads. per: threads that it counts as one, as those of a warp.
    is_scaled: is it the first of several that each is for, as of a tile?
    """

    ctas: frozenset[str] = frozenset()
    threads: frozenset[str] = frozenset()
    per: str = ""
    is_scaled: bool = False

    @classmethod
    def of(cls, text: str, counts: Mapping[str, _Count]) -> _Count:
        """Of an expression of variables."""
        inner = [counts[name] for name in names_in(text) if name in counts]
        axes = [{axis for what, axis in _INDEX.findall(text) if what == index} for index in ("blockIdx", "threadIdx")]
        ctas, threads = map(frozenset, axes)
        divided = _PER.search(text)
        per = (divided[1] or str(1 << int(divided[2]))) if divided else next((count.per for count in inner), "")
        return cls(ctas.union(*(count.ctas for count in inner)), threads.union(*(count.threads for count in inner)),
                   "32" if per.lower() in _WARP else per,
                   bool(_SCALED.search(text)) or any(count.is_scaled for count in inner))  # fmt: skip


def _without_padding(extent: str) -> str:
    """The extent of an array without the one element by which its rows are longer, where it is one word; else "".

    >>> _without_padding("TILE + 1"), _without_padding("33"), _without_padding("N + 2")
    ('TILE', '32', '')
    """
    word = re.sub(r"\s*\+\s*1\s*$", "", extent.strip())
    if word.isdigit() and int(word) % 8 == 1 < int(word):
        return str(int(word) - 1)
    return word if re.fullmatch(r"\w+", word) else ""
