"""Statements and kernels. A body is a tuple of statements; each knows the kernel line it came from (``at``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.dtypes import HANDLE
from tilewright.errors import Span
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import Argument, Expr, Load, Node, Value, Var
from tilewright.ir.tensor_map import MapOf
from tilewright.primitives import PRIMITIVES, Role, operand_names
from tilewright.records import NotebookText

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "SCRIPT_NAMES", "AllocBuffer", "Assign", "Assume", "Attr", "Bind", "Body", "Break", "Continue", "DeclBuffer",
    "DeviceEntry", "Evaluate", "For", "If", "Indexed", "Kernel", "Launch", "ScopeId", "Stmt", "Store", "TileCallStmt",
    "While",
]  # fmt: skip


def _at() -> Span | None:
    return field(default=None, compare=False, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceEntry(Node):
    """``T.device_entry()``: from here on the code runs on the device."""

    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class ScopeId(Node):
    """``bx, by = T.cta_id([4, 8])``: names the caller's place. kind: the intrinsic's name; one var per extent.

    An extent of None follows from the other scope ids.
    """

    kind: str
    vars: tuple[Var, ...]
    extents: tuple[Value | None, ...]
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class AllocBuffer(Node):
    """``buf = T.alloc_buffer(...)``: storage for as long as the kernel runs.

    offset: bytes from the start of the CTA's shared arena, once the planner has placed it. lies_with: buffers with the
    same word share one place, and are never in use at the same time.
    """

    buffer: Buffer
    offset: int | None = None
    at: Span | None = _at()
    lies_with: str = ""


@dataclass(frozen=True, slots=True)
class DeclBuffer(Node):
    """``buf = T.decl_buffer(..., data=...)``: a view of storage that exists."""

    buffer: Buffer
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """``x: T.int32 = value`` (mutable) or ``x: T.let = value`` (never assigned again)."""

    var: Var
    value: Expr
    mutable: bool = True
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """``x = value`` for a scalar that exists."""

    var: Var
    value: Expr
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Store(Node):
    """``place.buffer[place.indices] = value``."""

    place: Load
    value: Expr
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Evaluate(Node):
    """An expression for its effect: a call of the instruction table."""

    value: Expr
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class TileCallStmt(Node):
    """``Tx.<scope>.<primitive>(*args, dispatch=..., **config)``, not resolved yet.

    scope: thread, warp, warpgroup, cta or cluster, as written. args: the operands, in the order in which the primitive
    declares them: regions, and values for its scalars.
    """

    primitive: str
    scope: str
    args: tuple[Region | Expr, ...]
    dispatch: str | None = None
    config: tuple[tuple[str, Argument], ...] = ()
    at: Span | None = _at()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operands."""
        return operand_names(self.primitive)

    @property
    def tiles(self) -> tuple[tuple[Region, Role], ...]:
        """The operands that are regions, with their roles."""
        row = PRIMITIVES.get(self.primitive)
        roles = [operand.role for operand in row.operands] if row is not None else [Role("out", written=True)]
        pairs = zip(self.args, roles, strict=False)
        return tuple((part, role) for part, role in pairs if isinstance(part, Region))

    @property
    def written(self) -> tuple[Region, ...]:
        """The regions that the call stores to."""
        return tuple(region for region, role in self.tiles if role.written)


@dataclass(frozen=True, slots=True)
class Assume(Node):
    """``T.assume(cond)``: a fact about the arguments, checked when the kernel is called.

    place: the element of registers, as ``R[i, j]``, that the calling thread holds where ``cond`` holds.
    """

    cond: Expr
    at: Span | None = _at()
    place: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Attr(Node):
    """``T.attr({...})``: a setting of the kernel or of the statements that follow."""

    settings: tuple[tuple[str, Argument], ...]
    at: Span | None = _at()

    @property
    def mark(self) -> str | None:
        """The name of the mark that it is, ``T.trace(name)``."""
        return next((str(text) for key, text in self.settings if key == "trace"), None)


@dataclass(frozen=True, slots=True)
class For(Node):
    """``for var in kind(start, stop, step)``. kind: serial, unroll or vectorized; step is a non-zero constant."""

    var: Var
    start: Expr
    stop: Expr
    body: Body
    kind: str = "serial"
    step: int = 1
    annotations: tuple[tuple[str, Argument], ...] = ()
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class While(Node):
    """``while cond:``"""

    cond: Expr
    body: Body
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class If(Node):
    """``if cond: then``, ``else: orelse``."""

    cond: Expr
    then: Body
    orelse: Body = ()
    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Break(Node):
    """``break`` leaves the innermost loop."""

    at: Span | None = _at()


@dataclass(frozen=True, slots=True)
class Continue(Node):
    """``continue`` goes on with the next round of the innermost loop."""

    at: Span | None = _at()


Stmt: TypeAlias = (
    DeviceEntry
    | ScopeId
    | AllocBuffer
    | DeclBuffer
    | Bind
    | Assign
    | Store
    | Evaluate
    | TileCallStmt
    | Assume
    | Attr
    | For
    | While
    | If
    | Break
    | Continue
)
Body: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a lowered kernel is launched. grid, cluster: x, y, z in CTAs. threads: per CTA. shared_bytes: the arena.
    non_portable_cluster: may a cluster have more CTAs than every GPU takes? max_registers: of a thread, 0 for as many
    as the compiler takes.
    """

    grid: tuple[Value, Value, Value]
    threads: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    min_blocks_per_sm: int = 0
    non_portable_cluster: bool = False
    max_registers: int = 0

    @property
    def warps(self) -> int:
        return -(-self.threads // 32)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A variable as its author indexes it: ``tile``, (132, 4) for ``float tile[32][33]``.

    name: of the variable, or of a part of it, ``tile[1]``. strides: bytes from one to the next, of each index behind.
    """

    name: str
    strides: tuple[int, ...]

    def element_at(self, byte: int) -> str | None:
        """``tile[3][5]`` for byte 416; None where no element begins there."""
        element = self.name
        for stride in self.strides:
            index, byte = divmod(byte, stride)
            element += f"[{index}]"
        return None if byte else element


SCRIPT_NAMES = frozenset({"T", "Tx", "range", "slice"})
"""Names that the script of a kernel uses itself, so that no value of it may have them."""


@dataclass(frozen=True, slots=True)
class Kernel(NotebookText):
    """One kernel at one stage.

    params: in the order of the call; a handle `Var` is bound by the buffer of ``buffers`` whose ``data`` it is, the
    others are scalars.
    symbols: symbolic extents in the shapes of ``buffers``, bound from the arguments and passed after the params.
    stage: "tile" as authored, "lowered" once every access is an offset into flat storage; ``launch`` is set then.
    maps: the tensor maps among ``buffers``; those that the kernel makes of its arguments are passed after ``params``.
    authored: the buffers of the tile stage, so that a report can give logical coordinates.
    indexed: of other buffers that hold the elements of a variable, how its author indexes it, by the buffer's name.
    checks: that are made for this kernel alone, beside those of a run.
    spares: of the lines of a plain read and of an atomic: is the read right all the same, as the author's text has it?
    compiled: is it what a compiler made of the kernel of somebody else? It computes its addresses itself; its registers
    hold raw bits, and one that no `Bind` declares starts without a known bit.
    """

    name: str
    params: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    body: Body
    symbols: tuple[Var, ...] = ()
    stage: str = "tile"
    launch: Launch | None = None
    attrs: tuple[tuple[str, Argument], ...] = ()
    authored: tuple[Buffer, ...] = field(default=(), compare=False, repr=False)
    maps: tuple[MapOf, ...] = ()
    compiled: bool = False
    indexed: Mapping[str, Indexed] = field(default_factory=dict, compare=False, repr=False)
    checks: tuple[Callable[[Any], Any], ...] = field(default=(), compare=False, repr=False)
    spares: Callable[[Span | None, Span | None], bool] | None = field(default=None, compare=False, repr=False)
    at: Span | None = _at()

    def __repr__(self) -> str:
        from tilewright.ir.walk import statements  # which knows the classes of this file

        calls = sum(isinstance(stmt, TileCallStmt) for stmt in statements(self.body))
        where = f", {self.at}" if self.at is not None else ""
        head = f"{self.name}({', '.join(self.arguments)})"
        return f"<kernel {head}: {calls} tile call{'s' * (calls != 1)}, stage {self.stage}{where}>"

    @property
    def passed(self) -> tuple[Var, ...]:
        """What a launch passes: the parameters, the tensor maps that are made of them, the symbols."""
        maps = (Var(tensor_map.name, HANDLE) for tensor_map in self.maps if tensor_map.is_made)
        return *self.params, *maps, *self.symbols

    @property
    def arguments(self) -> tuple[str, ...]:
        """What callers know the parameters by: the names of their buffers, those of numbers their own."""
        buffers = {buffer.data: buffer.name for buffer in self.buffers}
        return tuple(buffers.get(param, param.name) for param in self.params)

    def attr(self, key: str, default: Argument = None) -> Argument:
        """A setting of the kernel, or ``default``."""
        settings: Mapping[str, Argument] = dict(self.attrs)
        return settings.get(key, default)

    def specialize(self, values: Mapping[object, Value] | None = None, **named: Value) -> Kernel:
        """The kernel with numbers in place of some parameters and symbolic extents, given by name or by variable."""
        from tilewright.ir.walk import specialized  # which rewrites kernels; nodes do not know how

        return specialized(
            self, {**{getattr(key, "name", str(key)): value for key, value in (values or {}).items()}, **named}
        )

    def script(self) -> str:
        """The kernel as text that `tilewright.lang.parse_script` reads back."""
        from tilewright.ir.printer import script  # the printer knows every node; nodes do not know the printer

        return script(self)

    def __str__(self) -> str:
        return self.script().rstrip()
