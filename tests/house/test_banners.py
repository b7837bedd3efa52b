"""A file of several parts says what each part is by a banner: a comment with two empty lines above it and one below."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import Source, parse, sources

BESIDES = (ast.Import, ast.ImportFrom, ast.Expr)  # statements that define nothing


def banners(source: Source) -> Iterator[tuple[int, int, str]]:
    """The first and the last line of each banner, and its text."""
    for match in re.finditer(r"(?<=\n\n\n)(?:#.*\n)+(?=\n|\Z)", source.text):
        first = source.text.count("\n", 0, match.start()) + 1
        comment = match[0].splitlines()
        yield first, first + len(comment) - 1, " ".join(line[2:] for line in comment)


def wrong(source: Source) -> list[str]:
    """What is wrong with the banners of a file."""
    bars = [*banners(source)]
    starts = [node.lineno for node in source.tree.body if not isinstance(node, BESIDES)]
    ends = [*(first for first, *_ in bars[1:]), len(source.text)]
    stranded = [
        f"{source.name}:{first}: nothing is defined below this banner"
        for (first, last, _), end in zip(bars, ends, strict=False)
        if not any(last < start < end for start in starts)
    ]
    return stranded + [f"{source.name}:{first}: one word says little" for first, _, text in bars if " " not in text]


def test_a_banner_stands_above_definitions_and_says_what_they_are() -> None:
    assert sum(1 for source in sources() for _ in banners(source)) > 250
    assert [sentence for source in sources() for sentence in wrong(source)] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import ast\n\n\n# How far.\n\nFAR = 1\n\n\n# How near.\n\n\ndef near(): ...\n", []),
        (
            "FAR = 1\n\n\n# How far.\n\n\n# How near.\n\n\ndef near(): ...\n",
            ["4: nothing is defined below this banner"],
        ),
        ("FAR = 1\n\n\n# How near.\n\n", ["4: nothing is defined below this banner"]),
        ("FAR = 1\n\n\n# Sizes\n\nNEAR = 1\n", ["4: one word says little"]),
        ("FAR = 1\n\n\n# of a definition\nNEAR = 1\n", []),
    ],
)
def test_banners_that_are_stacked_stranded_or_one_word_are_told(text: str, told: list[str]) -> None:
    source = parse(sources()[0].path.parent / Path("parts.py"), text)

    assert [sentence.partition(":")[2] for sentence in wrong(source)] == told
