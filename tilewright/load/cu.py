"""CUDA files: NVRTC compiles their device code, without a GPU, to PTX, which is loaded as any other."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.errors import ArgumentError, Span, ToolError, choices
from tilewright.isa import ARCHS
from tilewright.load.cu_advice import in_words_of_text
from tilewright.load.cu_compile import MadePtx, compile_cu
from tilewright.load.cu_dialect import dialect_of
from tilewright.load.cu_idioms import spares
from tilewright.load.cu_launches import made_functions
from tilewright.load.cu_structures import spelled_out, variables, with_fields
from tilewright.load.cu_tree import bare, overload, overloads, parameters, parted, split
from tilewright.load.cu_variables import IndexedVariables
from tilewright.load.declared import Parameter
from tilewright.load.module import LoadedModule, public, text_of
from tilewright.load.unoptimised import unoptimised
from tilewright.ptx import parse
from tilewright.ptx.tree import Module

if TYPE_CHECKING:
    from tilewright.cuda.nvrtc import Assembly

WIDE_CLUSTERS = "NonPortableClusterSizeAllowed"  # of CUDA's attribute of a function, that host code sets

DEFAULT = "sm_90a"
DEBUG, UNFUSED = "-G", "--fmad=false"  # options of NVRTC: nothing is optimised; no product and sum are one
MOST_LINES = 100_000  # of a text that is not optimised
MOST_BRANCHES = 250  # of a kernel that is not optimised: it calls a function for each step of a library
UNOPTIMISED = ", debug\n"  # of the target, by -G
_OURS = re.compile(
    r"--?(?:gpu-architecture|arch|include-path|define-macro|pre-include|extensible-whole|relocatable|rdc|dlto|lto|[ID])"
)


@public
def load_cu(
    source: str | Path,
    target: str = DEFAULT,
    *,
    defines: Mapping[str, object] = {},
    include: Sequence[str | Path] = (),
    kernels: Sequence[str] = (),
    options: Sequence[str] = (),
    name: str = "kernel.cu",
) -> LoadedModule:
    """The kernels of a .cu file, or of a text of CUDA C++; host code in it is left out.

    defines: macros. include: the folders that its headers may come from; that of the file is one. kernels: instances of
    templates, ``"k<128>"``, besides those that the file launches itself; where any is named, a kernel that is not and
    that does not compile is left out. options: of NVRTC: ``"--device-int128"``.
    name: what reports call a text.
    Raises ToolError, at the file's line, where NVRTC refuses device code.
    """
    if unfit := [each for each in options if not each.startswith("-") or _OURS.match(each)]:
        allowed = "options of NVRTC, such as --std=c++20, --device-int128, --use_fast_math; target=, defines=, include="
        raise ArgumentError("load_cu does not hand this option on", given=unfit[0], allowed=allowed)
    if target not in ARCHS:
        raise ArgumentError(f"unknown architecture {target!r}", given=target, allowed=choices(target, ARCHS))
    is_path = isinstance(source, Path) or ("\n" not in source and source.endswith((".cu", ".cuh", ".h")))
    path = Path(source).resolve() if is_path else None
    text = text_of(path) if path else str(source)
    folders = [Path(each).resolve() for each in include] + ([path.parent] if path else [])
    file = str(path) if path else _remembered(text, name)
    linecache.checkcache(file)  # reports have its lines as they are now

    compiled = partial(compile_cu, text, file, target, defines=defines, include=folders, names=kernels, left_out={})

    def made(options: Sequence[str]) -> LoadedModule:
        module = _module(compiled(options=options))
        if DEBUG not in options:  # of such a build the GPU's room is of no interest
            module.registers_of = _Registers(partial(compiled, options=options, assembled=True), target)
        return module

    def as_written() -> LoadedModule:
        ptx = compiled(options=[*options, DEBUG])
        if (many := ptx.ptx.count("\n")) > MOST_LINES:
            raise ToolError("its text is too long to run", given=f"{many:,} lines", allowed=f"{MOST_LINES:,}")
        module = _module(ptx)
        module.most_branches = MOST_BRANCHES
        return module

    module = made(options)
    if DEBUG not in options:
        module.builds = {"unoptimised": as_written, "exact": lambda: made([*options, UNFUSED])}
    return module


class _Registers:
    """How many registers a thread of a kernel has, by its symbol; 0 where that cannot be found out. Compiles once."""

    def __init__(self, compiled: Callable[[], MadePtx], target: str) -> None:
        self._compiled, self._target = compiled, target
        self._made: Assembly | None = None

    def __call__(self, symbol: str) -> int:
        from tilewright.cuda.nvrtc import Assembly

        try:
            if self._made is None:
                made = self._compiled()
                self._made = Assembly(self._target, b"", made.ptx, made.log)
            return self._made.resources(symbol).registers
        except ToolError:
            return 0


def _module(made: MadePtx) -> LoadedModule:
    """The module of a text that NVRTC has made."""
    tree = unoptimised(parse(made.ptx), made.ptx) if UNOPTIMISED in made.ptx else parse(made.ptx)
    by_macros = parameters("\n".join(made_functions(made.texts)))
    written = with_fields({**by_macros, **parameters(made.text), **_instances(made, tree)}, made.texts)
    module = LoadedModule(tree, made.names, written, variables(made.texts), dialect_of(made.texts))
    module.texts, module.in_its_words = made.texts, in_words_of_text
    module.refused = {name: _refused(*complaint) for name, complaint in made.refused.items()}
    module.indexed = partial(IndexedVariables, made.texts)
    module.spares = spares
    module.non_portable_cluster = any(WIDE_CLUSTERS in text for text in made.texts)
    return module


def _refused(file: str, line: int, message: str) -> ToolError:
    return ToolError("NVRTC refuses this kernel", given=message, at=Span(file, line) if line else None)


def _instances(made: MadePtx, tree: Module) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of kernels that share their name, by their symbols; in instances of templates the arguments stand
    in the place of the template's names.
    """
    declared = [each for text in made.texts for each in overloads(text)]
    taken = {entry.name: len(entry.params) for entry in tree.entries}
    plain = {overload(f"{name}({_kinds(params)})"): params
             for name, names, params in declared if not names}  # fmt: skip
    shown = {entry.name: tree.shown[entry.name].rpartition("::")[2] for entry in tree.entries}
    found = {symbol: tuple(plain[overload(name)]) for symbol, name in shown.items()
             if "(" in name and overload(name) in plain}  # fmt: skip
    for name, symbol in made.names.items():
        instance, kinds = parted(name)
        listed = instance.partition("<")[2]
        arguments = split(listed.strip()[:-1])
        for kernel, names, params in declared:
            if names and kernel == bare(instance) and arguments:
                whole = _unpacked(params, taken.get(symbol, len(params)), arguments[len(names) - 1 :])
                bound = dict(zip(names, arguments, strict=False))
                mine = tuple(spelled_out(param, bound) for param in whole)
                is_other = kinds is not None and overload(f"({kinds})") != overload(f"({_kinds(mine)})")
                if (
                    len(whole) == taken.get(symbol, len(whole))
                    and not is_other
                    and (whole != params or len(names) >= len(arguments))
                ):
                    found[symbol] = mine
    return found


def _kinds(params: Iterable[Parameter]) -> str:
    return ", ".join(param.type for param in params)


def _unpacked(params: list[Parameter], count: int, kinds: Sequence[str]) -> list[Parameter]:
    """The parameters with those of a pack at their end, ``args_0`` and so on. count: of all. kinds: of the pack's, by
    the template's arguments.
    """
    if not params or not params[-1].type.endswith("..."):
        return params
    more, name = range(count - len(params) + 1), params[-1].name
    return [*params[:-1], *(Parameter(f"{name}_{k}", kinds[k] if k < len(kinds) else "") for k in more)]


def _remembered(text: str, name: str) -> str:
    """A name for a text without a file, by which reports find its lines: always the same, so that what NVRTC made of it
    is found again.
    """
    import hashlib

    digest = hashlib.sha256(text.encode(errors="backslashreplace")).digest()
    file = f"/text-{int.from_bytes(digest[:6], 'big')}/{name}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file
