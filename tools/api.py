"""The pages of the API: for each public module its names in the order of a reader, filled by mkdocstrings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType

from tilewright.layout import Axis
from tools.size import ROOT

__all__ = ["api_files"]

FOLDER = ROOT / "docs" / "api"
ELSEWHERE = {"T": "[Names of T](../names.md)", "Tx": "[Tile primitives](../primitives.md)"}


@dataclass(frozen=True, slots=True)
class Page:
    """A page. names: left out, what the module exports."""

    file: str
    module: str
    says: str
    names: tuple[str, ...] = ()


PAGES = (
    Page("tilewright", "tilewright", "Compile, simulate, check, load, tune: what `import tilewright as tw` gives."),
    Page("errors", "tilewright.errors", "What calls raise; each has what was given, what is allowed, and a hint."),
    Page("run", "tilewright.sim", "What a simulation returns.", ("Run", "Recording", "RecordingOptions")),
    Page(
        "tracing",
        "tilewright.tracing",
        "Marks with the clock. [Read a pipeline](../howto/pipeline.md) has more.",
        ("Trace", "Mark"),
    ),
    Page("deleting", "tilewright.deleting", "Which lines a kernel needs.", ("needed", "Needed")),
    Page("layout", "tilewright.layout", "Where an element lives. [Layouts](../layouts.md) explains the notation."),
    Page(
        "kernels",
        "tilewright.kernels",
        "Kernels to call. [Kernels](../kernels.md) says which shapes and dtypes they take.",
    ),
    Page("view", "tilewright.view", "Pictures of layouts and atoms, as text, in a terminal, as SVG, HTML and JSON."),
    Page("verdict", "tilewright.verdict", "What a check found, as data. [A verdict](../verdict.md) has the schema."),
    Page("pytest", "tilewright.pytest_plugin", "The fixture for tests of kernels."),
)


def api_files() -> Mapping[Path, str]:
    """Every page of the API, with its text."""
    return {FOLDER / f"{page.file}.md": "\n".join(_text(page)) for page in PAGES}


def _text(page: Page) -> Iterator[str]:
    module = import_module(page.module)
    yield from (f"# {page.module}", "", page.says, "")
    axes = []
    for name in page.names or module.__all__:
        value = getattr(module, name)
        if page.file == "errors" and not (isinstance(value, type) and issubclass(value, Exception | Warning)):
            continue  # what finds words for them is no part of the API
        if isinstance(value, Axis):
            axes.append(name)
        elif name in ELSEWHERE:
            yield from (f"## {name}", "", f"The language: {ELSEWHERE[name]}.", "")
        else:
            yield from (f"::: {_path(page.module, name, value)}", "")
    if axes:
        yield from ("## Axes", "", ", ".join(f"`{name}`" for name in axes) + ": see [Layouts](../layouts.md).", "")


def _path(module: str, name: str, value: object) -> str:
    """Where the source defines a name, for a tool that reads sources."""
    if (
        isinstance(value, type | FunctionType)
        and value.__module__.startswith("tilewright")
        and value.__qualname__ == name
    ):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module}.{name}"
