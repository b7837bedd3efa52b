"""Every Python block of the README and of docs/ runs, block after block of a page in one namespace."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *PAGES]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, text in enumerate(blocks(page)):
        name = f"{page.name}-{number}.py"  # kernels read their own source, so it must be found
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), namespace)


@pytest.mark.parametrize("page", LINKS, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_documents_name_files_that_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    found = {str(path.relative_to(ROOT / "tilewright")) for path in (ROOT / "tilewright").rglob("*.py")}

    assert [name for name in named if not any(path == name or path.endswith(f"/{name}") for path in found)] == []


def test_code_that_is_shown_and_not_run_is_code_of_the_package() -> None:
    shown = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    kernels = [path.read_text(encoding="utf-8") for path in (ROOT / "tilewright" / "kernels").glob("*.py")]

    assert shown
    assert [text for text in shown if not any(text in source for source in kernels)] == []
