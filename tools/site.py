"""The site beside its pages: the files of the repository that they link to, as pages of their own.

MkDocs calls the functions named ``on_...`` (see ``hooks`` of mkdocs.yml).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parents[1])
sys.path.insert(0, HERE)  # the command `mkdocs` does not find the folder; and it takes back what a hook adds here

from tools.runs import embedded, gallery_pages  # noqa: E402

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURE = re.compile(r"^!\[.*\]\(.*\.svg\)$", re.MULTILINE)
CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["\']?((?:https?:)?//[^"\'\s>]+)')
RUN = """

## Its last run

Recorded when this page was built; <a href="../howto/pipeline.html">how to read it</a> tells what the rows mean.

<iframe src="{}" title="the last run of this page" style="width:100%;height:640px;border:1px solid #8884"></iframe>
"""
_RUNS: dict[str, str] = {}  # by the page, the name of the run that is shown below it
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")  # no web address: those have a colon


@cache
def outside() -> dict[Path, str]:
    """Each file outside of docs/ that a page leads to, itself or by another such file, and its address in the site."""
    found: dict[Path, str] = {}
    waiting = sorted(DOCS.rglob("*.md"))
    while waiting:
        page = waiting.pop()
        for target, _ in LINK.findall(_prose(page)):
            path = (page.parent / target).resolve()
            if path.is_file() and not path.is_relative_to(DOCS) and path not in found:
                found[path] = f"repository/{path.relative_to(ROOT)}".removesuffix(".md") + ".md"
                waiting.append(path)
    return found


def _prose(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.suffix == ".md" else ""


def address(path: Path) -> str:
    """Where the site has a file of the repository."""
    return outside().get(path) or str(path.relative_to(DOCS))


def relinked(markdown: str, page: Path) -> str:
    """The page's text with links that lead to where the site has their files."""

    def moved(link: re.Match[str]) -> str:
        path = (page.parent / link[1]).resolve()
        if path not in outside() and not path.is_relative_to(DOCS):
            return link[0]
        return f"]({os.path.relpath(address(path), Path(address(page)).parent)}{link[2] or ''})"

    return LINK.sub(moved, markdown)


def unplaced(nav: Any) -> list[str]:
    """The pages of docs/ that the navigation does not name."""
    named = set(re.findall(r"[\w/]+\.md", str(nav)))
    return sorted({str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - named)


def sections(nav: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Every section of the navigation, an outer one before those inside of it: its title and what it holds."""
    for entry in nav:
        for title, inner in entry.items() if isinstance(entry, dict) else ():
            if isinstance(inner, list):
                yield title, inner
                yield from sections(inner)


def on_config(config: Any) -> Any:
    """Gives each page its place: below the page that its folder is named after, or else at the end of How to."""
    rest = unplaced(config["nav"])
    for _, held in sections(config["nav"]):
        files = [next(iter(page.values())) if isinstance(page, dict) else page for page in held]
        folders = tuple(f"{file.removesuffix('.md')}/" for file in files if isinstance(file, str))
        held += [page for page in rest if page.startswith(folders)]
        rest = [page for page in rest if page not in held]
    for title, held in sections(config["nav"]):
        held += rest if title == "How to" else []
    sys.path.insert(0, HERE)  # of pages that run examples
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the files outside of docs/: pages as they are, programs as a page with their text."""
    from mkdocs.structure.files import File

    for path, where in outside().items():
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            text = f"# {path.relative_to(ROOT)}\n\n```{path.suffix[1:]}\n{text}```\n"
        files.append(File.generated(config, where, content=text))
    for name, html in gallery_pages():
        files.append(File.generated(config, f"runs/{name}.html", content=html))
    for page in sorted(path for folder in ("tutorial", "howto") for path in (DOCS / folder).glob("*.md")):
        where = str(page.relative_to(DOCS))
        if (own := embedded(where)) is not None:
            _RUNS[where] = own[0]
            files.append(File.generated(config, f"runs/{own[0]}.html", content=own[1]))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fits what is written for any reader of Markdown to this one: links, blocks that fold, words after a fence."""
    source = {where: path for path, where in outside().items()}.get(page.file.src_uri, DOCS / page.file.src_uri)
    text = relinked(markdown, source) if source.suffix == ".md" else markdown
    text = re.sub(r"^```python notest$", "```python", text, flags=re.MULTILINE)
    text = re.sub(r"^```text$", "``` { .text .printed }", text, flags=re.MULTILINE)
    text = CODE.sub(lambda code: code[0].replace("\\|", "|"), text)  # GitHub's tables want the backslash
    text = PICTURE.sub(r'<div class="picture" markdown="1">\n\g<0>\n</div>', text)
    if (run := _RUNS.get(page.file.src_uri)) is not None:
        text += RUN.format(f"../runs/{run}.html")
    return text.replace("<details>", '<details markdown="1">')


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuses a page that a browser would fetch something for: the site works from a file."""
    if fetched := FETCHED.findall(output):
        from mkdocs.exceptions import PluginError

        raise PluginError(
            f"{page.file.src_uri}: its page fetches {', '.join(fetched)}; the site must work without a network"
        )
    return output
