"""Every Python block of the README and of docs/ runs, a page as one program; every link leads somewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from tests.texts import readable
from tilewright.isa import INSTRUCTIONS
from tools.site import FETCHED, LINK, outside, relinked, unplaced

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
LINKS = [ROOT / "ARCHITECTURE.md", CONTRIBUTING, *PAGES]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _rows_of_a_page_are_taken_back() -> Iterator[None]:
    known = dict(INSTRUCTIONS)
    yield
    INSTRUCTIONS.clear()
    INSTRUCTIONS.update(known)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def claims(page: Path) -> list[list[str]]:
    """For each Python block the lines of the text block right behind it, which the page shows as its output."""
    text = page.read_text(encoding="utf-8")
    behind = re.findall(r"^```python\n.*?^```$(?:\n\n```text\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    return [[line.rstrip() for line in shown.splitlines() if line != "..."] for shown in behind]


@pytest.mark.parametrize("page", [page for page in (CONTRIBUTING, *PAGES) if blocks(page)], ids=name)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page: Path) -> None:
    program, file = "", re.sub(r"^\d+_", "", page.stem).lower() + ".py"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for text, shown in zip(blocks(page), claims(page), strict=True):
        code = "\n" * program.count("\n") + text  # a line has the number that it has in the whole program
        program += text
        readable(program, file)
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, file, "exec"), namespace)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        assert [line for line in shown if line not in lines] == []


@cache
def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them: small letters, signs left out, hyphens for spaces."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def missing(page: Path) -> list[str]:
    """The links of a page whose file or heading does not exist."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = [(page.parent / target, anchor) for target, anchor in LINK.findall(text)]  # pictures among them
    links += [(page, anchor) for anchor in re.findall(r"\]\((#[^)]+)\)", text)]
    return [
        f"{path}{anchor}" for path, anchor in links if not path.exists() or (anchor and anchor[1:] not in anchors(path))
    ]


def test_links_lead_to_a_file_and_a_heading() -> None:
    assert {name(page): links for page in LINKS if (links := missing(page))} == {}


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A head: it's `one`\n[a](#a-head-its-one) [b](#other) [c](page.md#no) [d](nothing.md)\n")

    assert [link.rsplit("/", 1)[1] for link in missing(page)] == ["page.md#no", "nothing.md", "page.md#other"]


def test_the_navigation_names_pages_that_exist_and_the_others_stand_in_how_to() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]

    assert [page for page in re.findall(r"[\w/]+\.md", nav) if not (DOCS / page).is_file()] == []
    assert unplaced([nav.replace("gpu.md", ""), {"Start": "index.md"}]) == sorted({"gpu.md", *unplaced(nav)})


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    assert outside()[ROOT / "examples/scan.py"] == "repository/examples/scan.py.md"

    moved = relinked("[a](../../examples/scan.py) [b](../gpu.md#speed) [c](#d)", DOCS / "howto/index.md")
    assert moved == "[a](../repository/examples/scan.py.md) [b](../gpu.md#speed) [c](#d)"


def test_what_a_browser_would_fetch_is_found() -> None:
    fetching = '<script src="https://a.org/b.js"></script><link rel=stylesheet href=//c.org/d.css>'
    resting = '<a href="https://a.org">a</a><script src="../b.js"></script>'

    assert FETCHED.findall(fetching + resting) == ["https://a.org/b.js", "//c.org/d.css"]


@pytest.mark.parametrize("step", sorted((DOCS / "tutorial").glob("[0-9]*.md")), ids=name)
def test_each_step_of_the_tutorial_has_a_picture_an_output_and_one_exercise_with_its_solution(step: Path) -> None:
    text = step.read_text(encoding="utf-8")

    assert re.search(r"^!\[.+\]\(\.\./pictures/step_\w+\.svg\)$", text, re.MULTILINE)
    assert any(claims(step))
    assert text.count("\n## Exercise\n") == text.count("<details><summary>Solution</summary>") == 1


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/contributing.md"])
def test_the_documents_name_files_that_exist(page: str) -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    rooms = ("tilewright",) if page == "ARCHITECTURE.md" else ("tilewright", "tests", "tools", "benchmarks", "examples")
    found = {f"/{path.relative_to(ROOT)}" for room in rooms for path in (ROOT / room).rglob("*.py")}

    assert [name for name in named if not any(path.endswith(f"/{name}") for path in found)] == []


def test_code_that_is_shown_and_not_run_is_code_of_the_package() -> None:
    shown = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    kernels = [path.read_text(encoding="utf-8") for path in (ROOT / "tilewright" / "kernels").glob("*.py")]

    assert shown
    assert [text for text in shown if not any(text in source for source in kernels)] == []
