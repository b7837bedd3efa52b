"""Headers that a .cu file may ask for: NVIDIA's from wheels, C's by tiny stand-ins, others of the host as nothing.

NVRTC knows the language without any header, and refuses those of C. An include is taken from the folders that the
caller names, from the wheels of the extra ``cu``, or from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tilewright.errors import ToolError
from tilewright.load.cu_stand_ins import CUTLASS, EMPTY, MENDED, OF_WHEELS, STANDARD

__all__ = ["INSTALL", "Include", "absent", "headers", "includes", "wheel_folders", "wheel_versions"]

INSTALL = "pip install 'tilewright[cu]'"
TORCH, _TEXTS = "tilewright/torch.h", Path(__file__).parent / "headers"
_OF_TORCH = re.compile(r"(?:ATen|c10|torch|THC|TH|pybind11)/")  # headers for which that one stands

_MACRO_OF_HEADERS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(\s*(\w+)\s*\)[ \t]+([<\"][^>\"\n]*[>\"])[ \t]*$", re.MULTILINE
)
_CALL = re.compile(r"(\w+)\s*\(\s*([\w./+-]+)\s*\)\s*")
_DIRECTIVE = re.compile(
    r'^[ \t]*(?:#|%:)[ \t]*(include|include_next|import|embed)\b[ \t]*(<[^>\n]*>|"[^"\n]*"|[^\n]*)', re.MULTILINE
)


class Include:
    """An ``#include`` of a text. name: what is included. quoted: in quotes. start, stop: where the line is."""

    def __init__(self, found: re.Match[str]) -> None:
        self.word, self.named = found[1], found[2].strip()
        self.start, self.stop = found.span()

    @property
    def name(self) -> str:
        """The path between quotes or angles; empty for a macro."""
        return self.named[1:-1] if self.named[:1] in ('"', "<") else ""


def includes(text: str, macros: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> Iterator[Include]:
    """The includes of a text. macros: those that make the name of a header of a word, as `header_macros` has them.

    Raises ToolError for includes without a name.
    """
    spliced = text.replace("\\\r\n", "  \n").replace("\\\n", " \n")
    for found in _DIRECTIVE.finditer(spliced):
        include = Include(found)
        called = _CALL.fullmatch(include.named)
        if called and called[1] in macros:
            word, header = macros[called[1]]
            include.named = re.sub(rf"\b{word}\b", called[2], header)
        if include.word == "embed" or not include.name:
            raise _astray(include, "FOLDER")
        yield include


def header_macros(text: str) -> dict[str, tuple[str, str]]:
    """The macros of a text that stand for the name of a header, by their names: parameter and header, such as
    ``#define STD_HEADER(name) <cuda/std/name>``.
    """
    return {found[1]: (found[2], found[3]) for found in _MACRO_OF_HEADERS.finditer(text)}


def _astray(include: Include, folder: str) -> ToolError:
    return ToolError(
        "an #include leads out of the folders that were named",
        given=f"#{include.word} {include.named}",
        allowed="a path below a folder of include=, by its name",
        hint=f"include=[{folder!r}], or -I {folder}" if folder != "FOLDER" else "include=[FOLDER]",
    )


def own_header(include: Include, beside: Path, folders: Sequence[Path]) -> Path | None:
    """The file that an include means: beside the one that has it, or in a folder; None where there is none.

    Raises ToolError where it is below none of the folders.
    """
    path = include.name
    places = [folder / path for folder in (beside, *folders)]
    inside = [each for each in places if any(each.resolve().is_relative_to(folder.resolve()) for folder in folders)]
    if path.startswith(("/", "~")) or ":" in path or (".." in Path(path).parts and not inside):
        raise _astray(include, str((beside / path).resolve().parent))
    return next((each.resolve() for each in inside if each.is_file()), None)


@cache
def wheel_folders() -> tuple[Path, ...]:
    """The folders of NVIDIA's headers, where their wheels are installed."""
    for place in map(Path, sys.path):
        for folder in sorted(place.glob("nvidia/cu*/include")):
            if (folder / "cuda_fp16.h").is_file():
                return (folder, *filter(Path.is_dir, [folder / "cccl"]), *cutlass_folders())
    return cutlass_folders()


@cache
def cutlass_folders() -> tuple[Path, ...]:
    """The folder of CUTLASS's headers, where its wheel is installed."""
    folders = (Path(place) / "cutlass_library/source/include" for place in sys.path)
    return tuple(folder for folder in folders if (folder / "cute/tensor.hpp").is_file())[:1]


def _mended() -> Iterator[tuple[str, str]]:
    """Headers of CUTLASS and CCCL that do not fit each other, mended: their names and texts."""
    for name, pattern, instead in MENDED:
        path = next((each / name for each in wheel_folders() if (each / name).is_file()), None)
        if path is not None:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield name, f'#line 1 "{path}"\n{re.sub(pattern, instead, text)}'


def absent(name: str) -> str:
    """The text of a header that is nowhere. The compiler's log has it where that header is reached."""
    return f'#pragma once\n#warning "there is no header {name}"\n'


@cache
def _of_torch() -> dict[str, str]:
    """The texts that stand for torch's headers, by name."""
    return {f"tilewright/{path.name}": path.read_text(encoding="utf-8") for path in _TEXTS.glob("*.h")}


@cache
def wheel_versions() -> tuple[str, ...]:
    """NVIDIA's wheels beside those folders, with their versions: what decides what the headers in them say."""
    sites = dict.fromkeys(folder.parents[2] for folder in wheel_folders() if folder.name == "include")
    return tuple(sorted(str(each) for site in sites for each in site.glob("nvidia_*.dist-info")))


def headers(text: str, beside: Path, folders: Sequence[Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """The headers that a text and its own headers include, by the names in them: files below ``folders``, and the texts
    of headers in memory, `absent` for those that are nowhere. beside: the folder of the text.
    """
    wheels, own = wheel_folders(), dict[str, Path]()
    found = {name: text for name, text in STANDARD.items() if not any((each / name).is_file() for each in wheels)}
    found |= EMPTY | _of_torch() | (OF_WHEELS if any(folder.name == "cccl" for folder in wheels) else {})
    todo, macros = [(text, beside)], dict[str, tuple[str, str]]()
    while todo:
        inner, folder = todo.pop()
        macros |= header_macros(inner)
        for include in includes(inner, macros):
            path = own_header(include, folder, folders)
            if path is not None and path not in own.values():
                todo.append((path.read_text(encoding="utf-8", errors="replace"), path.parent))
            if path is not None:
                own.setdefault(include.name, path)
            elif include.name.startswith(CUTLASS) and cutlass_folders():
                found |= dict(_mended())
            elif include.name not in found and not any((each / include.name).is_file() for each in wheels):
                is_torchs = _OF_TORCH.match(include.name)
                found[include.name] = f"#pragma once\n#include <{TORCH}>\n" if is_torchs else absent(include.name)
    return own, {name: text for name, text in found.items() if name not in own}
