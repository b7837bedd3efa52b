"""What a .cu file calls the instructions that its reports name: by its own functions and macros, by the library that it
uses, or as an asm statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilewright.explain import CUDA
from tilewright.load.cu_host import macros_of
from tilewright.load.cu_kept import kept
from tilewright.load.cu_tree import below, defined, tree_of, without_comments
from tilewright.terms import Dialect, Term

_ASM = re.compile(r'\basm\b[\s\w]*\(\s*"\s*([a-z][\w.:]*)\s*([%\w]*)[^"]*"')
_PIPELINE = re.compile(r"\b(\w+)\s*=\s*cuda::make_pipeline|\bcuda::pipeline<[^;{}]*>\s+(\w+)")
_GROUP = re.compile(r"\bmemcpy_async\s*\(\s*(\w+)\s*,")
_COOPERATIVE = r"\bcudaLaunchCooperativeKernel\b|\bcudaLaunchAttributeCooperative\b|\bthis_grid\s*\("
WAIT, COMMIT = "cp.async.wait_group", "cp.async.commit_group"


@kept
def wrappers(texts: tuple[str, ...]) -> dict[str, str]:
    """How texts call the functions and macros that are one instruction each, by what that is: ``wait<{}>()`` by
    ``cp.async.wait_group``, ``wait_all()`` by ``cp.async.wait_group 0``.
    """
    names = dict[str, str]()
    for text in (text for text in texts if "asm" in text):
        for name, call, body in (*_macros(text), *_functions(text)):
            instructions = _ASM.findall(body)
            if len(instructions) == 1:
                word, operand = instructions[0]
                names.setdefault(f"{word} {operand}" if operand.isdigit() else word, f"{name}{call}")
    return names


def _macros(text: str) -> Iterator[tuple[str, str, str]]:
    """Macros: name, how they are called, body."""
    called = {name: "({})" if parameters != ("",) else "()" for name, parameters, _ in macros_of(text)}
    return ((name, called.get(name, ""), text[start : start + len(body)]) for name, start, body in defined(text))


def _functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Functions of the device: name, how they are called, body."""
    tree = tree_of(text)
    for node in below(tree.root, "function_definition"):
        head, body = next(below(node, "function_declarator"), None), node.child_by_field_name("body")
        if head is not None and body is not None and "__global__" not in tree.of(node).partition("{")[0]:
            listed, above = head.child_by_field_name("parameters"), node.parent
            is_template = above is not None and above.type == "template_declaration"
            takes = "({})" if listed is not None and listed.named_children else "()"
            name = re.split(r"[\s(]", tree.of(head))[0]
            yield name, "<{}>()" if is_template and takes == "()" else takes, text[body.start_byte : body.end_byte]


def dialect_of(texts: Sequence[str]) -> Dialect:
    """CUDA's dialect, with what these texts call the waits and commits of copies, and other instructions."""
    wrapped = wrappers(tuple(texts))
    whole = "\n".join(map(without_comments, texts))

    def called(name: str, operands: tuple[object, ...], keywords: tuple[tuple[str, object], ...]) -> str:
        plain = CUDA.of(Term("call", (name, operands, keywords))) or name
        word, _, number = plain.partition(" ")
        if not re.fullmatch(r"\d*", number) or not word.startswith("cp.async"):
            return plain
        if (form := wrapped.get(plain) or wrapped.get(word)) is not None:
            return form.format(number)
        library = next((of for sign, of in _LIBRARIES if re.search(sign, whole)), None)
        if library is not None and word in (WAIT, COMMIT):
            return library(whole, word == WAIT, int(number or 0))
        return f'asm volatile("{plain};" ::: "memory")'

    grid = _of_grids(whole) if re.search(_COOPERATIVE, whole) else {}
    return replace(CUDA, spellings={**CUDA.spellings, **grid, "call": called})


def _of_grids(text: str) -> dict[str, str]:
    """What orders CTAs of a launch that is cooperative: the barrier of its grid first of all."""
    declared = re.search(r"\bgrid_group\s+(\w+)|\b(\w+)\s*=\s*(?:\w+::)?this_grid\s*\(", text)
    name = (declared[1] or declared[2]) if declared else "cooperative_groups::this_grid()"
    return {kind: f"{name}.sync() between the two, as the launch is cooperative; or {other}"
            for kind, other in (("no barrier between", "a second array, which nobody reads, to write to"),
                                ("no barrier any", "different places, or atomics"))}  # fmt: skip


def _by_primitives(_: str, waits: bool, number: int) -> str:
    return f"__pipeline_wait_prior({number})" if waits else "__pipeline_commit()"


def _by_pipeline(text: str, waits: bool, number: int) -> str:
    declared = _PIPELINE.search(text)
    name = (declared[1] or declared[2]) if declared else "pipeline"
    if not waits:
        return f"{name}.producer_commit()"
    return f"cuda::pipeline_consumer_wait_prior<{number}>({name})" if number else f"{name}.consumer_wait()"


def _by_group(text: str, waits: bool, number: int) -> str:
    call = _GROUP.search(text)
    group = call[1] if call else "group"
    if not waits:
        return "cooperative_groups::memcpy_async(...)"
    space = "cg" if re.search(r"\bcg\s*=\s*cooperative_groups", text) else "cooperative_groups"
    return f"{space}::wait_prior<{number}>({group})" if number else f"{space}::wait({group})"


_LIBRARIES: tuple[tuple[str, Callable[[str, bool, int], str]], ...] = (
    (r"\b__pipeline_memcpy_async\b", _by_primitives),
    (r"\bcuda::pipeline\b|\bmake_pipeline\b", _by_pipeline),
    (r"\bcooperative_groups\b[\s\S]*\bmemcpy_async\b", _by_group),
)
