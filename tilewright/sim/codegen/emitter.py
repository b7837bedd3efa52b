"""What the parts of the code generator share: the text, what is known of the kernel, and each other's rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.errors import Span
    from tilewright.ir import Expr, Var
    from tilewright.sim.codegen.axes import Axes
    from tilewright.sim.codegen.compiled import Compiled
    from tilewright.sim.codegen.source import Source
    from tilewright.sim.machine.places import Places
    from tilewright.sim.machine.sites import Site

__all__ = ["Emitter", "Operand"]


@dataclass(frozen=True, slots=True)
class Operand:
    """text: a Python expression. shadow: that of its flags, None where it is surely initialised.

    origin: texts of the site and the address that it was loaded from, for a report.
    """

    text: str
    shadow: str | None = None
    origin: str = ""


class Emitter(ABC):
    """A mutable writer of one segment. known: what has been computed already, and is not to be read again."""

    def __init__(self, program: Compiled, out: Source) -> None:
        self.program = program
        self.out = out
        self.known: dict[Expr, Operand] = {}

    @property
    def at(self) -> Span | None:
        """The kernel's line that is being written."""
        return self.out.at

    @at.setter
    def at(self, at: Span | None) -> None:
        self.out.at = at

    @property
    def axes(self) -> Axes:
        """Over what values vary."""
        return self.program.axes

    @property
    def places(self) -> Places:
        """Where buffers live."""
        return self.program.places

    @property
    def with_shadows(self) -> bool:
        """Are uninitialised values followed?"""
        return self.program.with_shadows

    def variable(self, var: Var) -> str:
        """The Python name of a kernel's variable."""
        return "v_" + var.name.replace(".", "__")

    def site(self, site: Site) -> str:
        """Registers a site and gives its name in the text."""
        return self.out.constant("S", self.program.add_site(site))

    def count(self, name: str, mask: str) -> None:
        """Emits the counting of an instruction."""
        self.out.line(f"tally[{self.program.add_tally(name)}] += {mask}.warps")

    def may_be_poison(self, expr: Expr) -> bool:
        """Could this value hold bits that nobody wrote?"""
        return self.program.may_be_poison(expr)

    @abstractmethod
    def value(self, expr: Expr, mask: str) -> Operand:
        """The value of ``expr`` in the lanes of ``mask``."""

    @abstractmethod
    def sound(self, expr: Expr, mask: str, use: str = "arithmetic") -> str:
        """The text of a value that is looked at: uninitialised bits in it are an error under checks."""

    @abstractmethod
    def array(self, expr: Expr, text: str) -> str:
        """``text`` as something with the dtype of ``expr``, even where it is a Python number."""

    @abstractmethod
    def unpacked(self, expr: Expr, text: str) -> str:
        """An array whose elements are all the same as the number that uniform values are."""

    @abstractmethod
    def valid(self, kind: DType) -> str:
        """The flags of an initialised value."""
