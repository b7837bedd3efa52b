"""What docstrings, comments and pages name is there: modules, what they define, files, instructions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.house.sources import Source, parse, sources
from tilewright.isa.table import INSTRUCTIONS
from tools.size import PACKAGE, ROOT

OUTSIDE = {"torch", "np", "dataclasses", "benchmarks"}  # names of these are not ours to check
LIBRARIES = {"NumPy", "CuPy", "CuTe"}
SHORT = {"T": "tilewright.lang.T", "Tx": "tilewright.lang.Tx", "tw": "tilewright"}
SUFFIXES = {"py", "pyi", "toml"}
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

DOTTED = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)+)(?:\(\))?`(?!`)")
NAMES = re.compile(r"""`(\w+)`|(?<![\w.`*"(-])(?:[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?![\w.`(")-])""")
LONG_CODE = re.compile(r"``.*?``", re.DOTALL)


@cache
def classes() -> dict[str, list[tuple[str, frozenset[str]]]]:
    """The classes of the package, by their names: the module of each that is called so, and what it sets of itself."""
    places: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for source in sources():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                inside = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
                fields = frozenset(part.attr for part in inside if isinstance(part.ctx, ast.Store))
                places.setdefault(node.name, []).append((module_of(source), fields))
    return places


def module_of(source: Source) -> str:
    return ".".join(source.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def texts(source: Source) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a file, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        is_text = token.type == tokenize.STRING and '"""' in token.string[:5]
        if is_text or token.type == tokenize.COMMENT:
            yield token.start[0], LONG_CODE.sub("", token.string)


def has(path: str) -> bool:
    """Is there such a module, or such a name in one? A field of a class counts."""
    try:
        resolve_name(path)
    except (ImportError, AttributeError):
        owner, _, field = path.rpartition(".")
        try:
            return field in getattr(resolve_name(owner), "__annotations__", ()) if owner else False
        except (ImportError, AttributeError):
            return False
    return True


def is_there(name: str, module: str) -> bool:
    """Does a dotted name mean something where ``module`` says it?"""
    first, _, rest = name.partition(".")
    if rest in SUFFIXES:
        return any(PACKAGE.rglob(name)) or (ROOT / name).exists()
    rooms = module.split(".")
    paths = [".".join((*rooms[:depth], name)) for depth in range(len(rooms), 0, -1)]
    paths += [f"{SHORT[first]}.{rest}"] if first in SHORT else []
    paths += [f"{place}.{name}" for place, _ in classes().get(first, ())]
    paths += [name] if first == "tilewright" else []
    if first in OUTSIDE or any(row.endswith(f".{name}") for row in INSTRUCTIONS):
        return True
    return any(rest in fields for _, fields in classes().get(first, ())) or any(has(path) for path in paths)


def missing(source: Source) -> list[str]:
    """The dotted names of a file that mean nothing there; and its own, left behind where another became part of it."""
    return [
        f"{source.name}:{line + text.count(chr(10), 0, match.start())}: {match[1]}"
        for line, text in texts(source)
        for match in DOTTED.finditer(text)
        if match[1] == module_of(source) or not is_there(match[1], module_of(source))
    ]


def test_dotted_names_in_docstrings_and_comments_are_those_of_the_package() -> None:
    assert [name for source in sources() for name in missing(source)] == []


def test_what_the_docstring_of_a_room_names_is_in_the_room() -> None:
    rooms = [source for source in sources() if source.path.name == "__init__.py"]

    assert len(rooms) > 20
    assert [f"{source.name}: {name}" for source in rooms for name in not_in_room(source)] == []


def not_in_room(source: Source) -> list[str]:
    """The names in backticks, or with an underscore, that neither a module of the room has nor the package itself."""
    folder = source.path.parent
    inside = {name for path in folder.rglob("*.py") for name in names_of(path)} | {
        path.name for path in PACKAGE.iterdir()
    }
    text = LONG_CODE.sub("", ast.get_docstring(source.tree) or "")
    return sorted({match[1] or match[0] for match in NAMES.finditer(text)} - inside - LIBRARIES)


@cache
def by_path() -> dict[Path, Source]:
    return {source.path: source for source in sources()}


@cache
def names_of(path: Path) -> frozenset[str]:
    """A module's name, and all names in it."""
    nodes = by_path()[path].nodes()
    names = {getattr(node, key) for node in nodes for key in ("id", "attr", "name", "arg") if hasattr(node, key)}
    return frozenset({path.stem, path.parent.name, *(name for name in names if isinstance(name, str))})


def test_files_and_modules_that_pages_name_are_there() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|pyi|toml))`", text))
    modules = set(re.findall(r"`(tilewright(?:\.[a-z_]+)+(?:\.[A-Z]\w+)?)[`(]", text))

    assert len(files) > 20
    assert len(modules) > 4
    assert [name for name in sorted(files) if not any(PACKAGE.rglob(name)) and not (ROOT / name).exists()] == []
    assert [name for name in sorted(modules) if not has(name)] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# `tilewright.isa.bind` and `ir.Buffer.dtype`, see `mbarrier.init` and `acts.py`\n", []),
        ('"""`tilewright.isa.bound_again`"""\n', ["1: tilewright.isa.bound_again"]),
        ('"""An order.\n\n`machine.Machine` has it."""\n', ["3: machine.Machine"]),
        ("# as in `tilewright.profiling.costs`\n", ["1: tilewright.profiling.costs"]),
        ("# ``machine.Machine`` is a text\n", []),
        ("x = '`machine.Machine`'\n", []),
    ],
)
def test_a_name_that_is_gone_is_told_with_its_line(text: str, told: list[str]) -> None:
    source = parse(PACKAGE / "profiling" / "acts.py", text)

    assert [sentence.partition(":")[2] for sentence in missing(source)] == told
