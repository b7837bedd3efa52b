"""The documentation, searched by words: sections of its pages, the ones that hold the most and rarest words first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.errors import ToolError

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "serve" / "pages", PACKAGE.parent / "docs")  # of a wheel; of the project's own folder
WORD = re.compile(r"[a-z_]+[a-z0-9_]*")


@dataclass(frozen=True)
class Section:
    """A part of a page, from one heading to the next. page: its file below the folder of the documentation."""

    page: str
    heading: str
    text: str

    @property
    def words(self) -> Counter[str]:
        """How often it has each word; those of the heading count five times."""
        return Counter(WORD.findall(self.text.lower())) + Counter(WORD.findall(self.heading.lower()) * 5)


def search(query: str, most: int = 5) -> list[Section]:
    """The sections that fit a query best, the best first. Raises ToolError where the pages are not installed."""
    sections, counts, rarity = _index()
    asked = set(WORD.findall(query.lower()))
    scores = [
        sum(rarity.get(word, 0.0) * count[word] / (count[word] + 1.0) for word in asked) / math.log2(64 + count.total())
        for count in counts
    ]
    best = sorted(range(len(sections)), key=lambda place: -scores[place])
    return [sections[place] for place in best[:most] if scores[place] > 0]


@cache
def _index() -> tuple[list[Section], list[Counter[str]], dict[str, float]]:
    """All sections, the words of each, and how rare each word is."""
    folder = next((candidate for candidate in FOLDERS if (candidate / "index.md").is_file()), None)
    if folder is None:
        raise ToolError(
            "the pages of the documentation are not installed", hint="pip install --force-reinstall tilewright"
        )
    files = [file for file in sorted(folder.rglob("*.md")) if file.parent.name != "api"]  # they are filled elsewhere
    sections = [part for file in files for part in _sections(file, folder)]
    counts = [section.words for section in sections]
    holders = Counter(word for count in counts for word in count)
    return sections, counts, {word: math.log(len(sections) / many) for word, many in holders.items()}


def _sections(file: Path, folder: Path) -> Iterator[Section]:
    page = file.relative_to(folder).as_posix()
    heading, lines, fenced = "", list[str](), False
    for line in [*file.read_text(encoding="utf-8").splitlines(), "# "]:
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            if any(lines):
                yield Section(page, heading, "\n".join(lines).strip())
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)
