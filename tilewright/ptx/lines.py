"""From ``.loc`` to the author's source: each instruction's line, and for inlined code the lines it was called from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.errors import Span
from tilewright.ptx.tree import Instruction, Loc, Module

_ASSEMBLY = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_LOC = re.compile(r"^([ \t]*\.loc[ \t]+\d+[ \t]+)(\d+)(.*)$", re.MULTILINE)
_WHOLE_LINE = 1 << 16

STAND_INS = "tilewright/stand_ins/"
"""How the names of headers begin, in debug data, that stand for others: their lines are nobody's."""


def with_lines_of_assembly(text: str) -> str:
    """The text, each piece of inline assembly of one line of its author's: LLVM counts on with the assembly's lines, so
    that an empty first line puts all of it a line too late.
    """
    return _ASSEMBLY.sub(_with_one_line, text) if _LOC.search(text) else text


def _with_one_line(assembly: re.Match[str]) -> str:
    """The assembly with its first `.loc` alone, less the lines before that one."""
    first = _LOC.search(assembly[0])
    if first is None:
        return assembly[0]
    before, after = assembly[0][: first.start()], assembly[0][first.end() :]
    line = max(1, int(first[2]) - before.count("\n") + 1)
    return f"{before}{first[1]}{line}{first[3]}{_LOC.sub('', after)}"


class Lines:
    """Follows the `.loc` directives of a body, from one instruction to the next."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.files = dict(module.files)
        self.current: Span | None = None
        self.caller: Span | None = None  # of the function whose body takes the place of a call
        self.own: Span | None = None  # the last line of this body that is the author's
        self._spans: dict[tuple[int, int, int], Span] = {}  # the last of each place: calls come before what they inline

    def move(self, loc: Loc) -> None:
        """The following instructions come from this line. Line 0 is none: the last one stays."""
        if loc.line and loc.file in self.files:
            outer = self._spans.get(loc.outer) if loc.outer is not None else self.caller
            if outer is self.caller and _is_foreign(self.files[loc.file]):  # -G says of inlined code not who has called
                outer = self.own or self.caller
            if outer is None and loc.outer is not None and loc.outer[1]:
                outer = self._span(*loc.outer)
            self.current = self._spans[loc.file, loc.line, loc.column] = self._span(
                loc.file, loc.line, loc.column, outer
            )
            if not _is_foreign(self.files[loc.file]):
                self.own = self.current

    @contextmanager
    def inlined(self) -> Iterator[None]:
        """What follows is the body of a function that is called here."""
        here, own_line, caller = self.current, self.own, self.caller
        self.caller, self.own = here, None
        yield
        self.current, self.own, self.caller = here, own_line, caller

    def _span(self, file: int, line: int, column: int, outer: Span | None = None) -> Span:
        path = self.files[file]
        if outer is not None and _is_foreign(path):  # the author's own line counts
            return outer
        return Span(path, line, max(0, column - 1), _WHOLE_LINE, outer)

    def of(self, instruction: Instruction) -> Span:
        """The author's line of an instruction; its line of PTX where nothing says more."""
        if self.current is not None:
            return self.current
        end = instruction.column + len(instruction.mnemonic)
        return self.module.span(instruction.line, instruction.column, end)


def _is_foreign(path: str) -> bool:
    """Is it a header of NVIDIA's libraries, one that stands for another, or Triton's own library?"""
    inside = (
        "/nvidia/",
        "/cuda/include/",
        "/targets/",
        "/triton/language/",
        "/cutlass/",
        "/cute/",
        "/cub/",
        "/thrust/",
        f"/{STAND_INS}",
    )
    return path.startswith("cuda_") or any(folder in path for folder in inside)
