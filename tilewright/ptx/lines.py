"""From ``.loc`` to the author's source: each instruction's line, and for inlined code the lines it was called from."""

from __future__ import annotations

from tilewright.errors import Span
from tilewright.ptx.tree import Instruction, Loc, Module

__all__ = ["Lines"]

_WHOLE_LINE = 1 << 16


class Lines:
    """Follows the `.loc` directives of a body, from one instruction to the next."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.files = dict(module.files)
        self.current: Span | None = None
        self._spans: dict[tuple[int, int, int], Span] = {}  # the last of each place: calls come before what they inline

    def move(self, loc: Loc) -> None:
        """The following instructions come from this line. Line 0 is none: the last one stays."""
        if loc.line and loc.file in self.files:
            outer = self._spans.get(loc.outer) if loc.outer is not None else None
            if outer is None and loc.outer is not None and loc.outer[1]:
                outer = self._span(*loc.outer)
            self.current = self._spans[loc.file, loc.line, loc.column] = self._span(
                loc.file, loc.line, loc.column, outer
            )

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
    """Is it a header of NVIDIA's, or Triton's own library?"""
    inside = ("/nvidia/", "/cuda/include/", "/targets/", "/triton/language/")
    return path.startswith("cuda_") or any(folder in path for folder in inside)
