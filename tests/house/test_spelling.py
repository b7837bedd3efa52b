"""PTX is spelled in the instruction table alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.sources import Source, parse, sources
from tools.size import PACKAGE, docstrings

ROOMS = ("cuda", "sim", "tile", "lower", "view")

# An opcode that moves data or orders it, and at least one modifier that only PTX has. Conversions and arithmetic
# are not here: how a dtype computes is the emitter's own business.
OPCODE = re.compile(
    r"""(?<![\w.])
    (ldmatrix|stmatrix|movmatrix|mma|wgmma|tcgen05|mbarrier|cp|ld|st|ldu|red|atom|bar|barrier|fence|membar|shfl|vote|elect|setmaxnreg)
    (\.[a-z][a-z0-9_:]*)*?
    \.(sync|aligned|async|bulk|shared|global|local|param|const|volatile|relaxed|acquire|release|proxy|warp|cta|cluster|gl|sys
       |v[248]|[bsu](8|16|32|64|128)|f(16|32|64)|bf16|m\d+n\d+(k\d+)?|alloc|dealloc|commit|wait|inc|dec)
    (?![a-z])""",
    re.VERBOSE,
)


def spelled(source: Source) -> list[str]:
    """Where a string literal that is no docstring spells a PTX opcode with its modifiers."""
    documentation = set(map(id, docstrings(source.tree)))
    return [
        f"{source.path.name}:{node.lineno} {match[0]}"
        for node in source.nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
        if (match := OPCODE.search(node.value))
    ]


def test_back_ends_and_variants_take_ptx_from_the_table() -> None:
    rooms = [source for source in sources() if source.path.relative_to(PACKAGE).parts[0] in ROOMS]

    assert [place for source in rooms for place in spelled(source)] == []


@pytest.mark.parametrize(
    "text",
    [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];",
        "ld.shared.v4.u32 {%0}, [%1];",
        "cp.async.bulk.tmem.2d",
        "tcgen05.cp.cta_group::1.128x256b",
        "bar.sync 0;",
        "mma.sync.aligned",
    ],
)
def test_a_spelled_opcode_is_found(text: str) -> None:
    assert spelled(parse(Path("emit.py"), f"x = f'  {text.replace('{', '{{').replace('}', '}}')} '")) != []


@pytest.mark.parametrize("text", ["kernel.cta", "sim.shared", "red, green and blue", "the bar.", "layout.st"])
def test_an_ordinary_word_is_not(text: str) -> None:
    assert spelled(parse(Path("emit.py"), f"x = {text!r}")) == []


def test_a_docstring_may_name_an_opcode() -> None:
    assert spelled(parse(Path("emit.py"), '"""ldmatrix.sync.aligned moves rows."""')) == []
