"""The page on plans: which variant takes a call of each kind, by how wide accesses, and why not by wider ones.

A *cell* is one call: a primitive, a scope, the memories of its tiles, a dtype, and a form of the region. Its *outcome*
is what the dispatcher makes of it, read from the code that the variant writes. Each outcome is a vector plan, or the
first of `REASONS` that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from warnings import catch_warnings, simplefilter

from tilewright.dtypes import HANDLE, INT32, dtype
from tilewright.errors import DispatchError, TilewrightWarning
from tilewright.ir import (
    AllocBuffer,
    Body,
    Buffer,
    Call,
    DeviceEntry,
    Expr,
    Kernel,
    Region,
    ScopeId,
    TileCallStmt,
    Var,
    as_expr,
    expressions,
    row_major,
    statements,
    walk,
)
from tilewright.ir.expr import Load
from tilewright.layout import Layout, S, laneid, tx
from tilewright.tile import resolve
from tools.size import ROOT

__all__ = ["CELLS", "PLANS_PAGE", "REASONS", "Cell", "Outcome", "kernel_of", "outcome", "plans_page", "reason"]

PLANS_PAGE = ROOT / "docs" / "plans.md"
THREADS = 128
COLUMNS = 64
DTYPES = ("float32", "bfloat16", "int8", "bool")
FORMS = {
    "static": "whole buffers of numbers",
    "run-time": "`[0:n, :]`, where only the run knows `n`",
    "ragged": "`[0:31, 0:63]` of 64 columns: the last access of a row is not full",
    "unaligned": "`[:, 1:65]` of 72 columns: rows start off a multiple of 16 bytes",
}
ROWS = {"thread": 4, "warp": 32, "cta": THREADS}
HELD: dict[str, Callable[[int], Layout]] = {
    "thread": lambda columns: row_major((4, columns)),
    "warp": lambda columns: S[(32, columns) : (1 @ laneid, 1)],
    "cta": lambda columns: S[(THREADS, columns) : (1 @ tx, 1)],
}
"""Tiles in registers: one row a thread, or all rows in the one thread that there is."""

MEMORIES: dict[str, tuple[str, ...]] = {  # of dst and of the sources
    "copy": ("shared global", "global shared", "global global", "local global", "global local", "local shared"),
    "copy_async": ("shared global",),
    "fill": ("global", "shared", "local"),
    "exp": ("global global", "shared shared", "local local", "local global"),
    "add": ("global global global", "shared shared shared", "local local local"),
    "sum": ("shared global", "shared shared", "local local"),
    "max": ("shared global", "shared shared", "local local"),
    "argmax": ("shared global", "shared shared", "local local"),
    "scan": ("shared shared", "local local"),
    "gemm": ("global global global", "global shared shared"),
}
REDUCTIONS, PRODUCTS = ("sum", "max", "argmax"), ("gemm",)
KINDS = {"exp": ("float32", "bfloat16"), "gemm": ("bfloat16",), "copy_async": ("float32", "bfloat16", "int8")}
SCOPES = {"gemm": ("warp", "cta")}


@dataclass(frozen=True, slots=True)
class Cell:
    """One call. memories: of its tiles, dst first. form: of its regions."""

    primitive: str
    memories: tuple[str, ...]
    scope: str
    form: str
    kind: str

    @property
    def held(self) -> bool:
        """Is a tile in registers?"""
        return "local" in self.memories

    @property
    def in_memory(self) -> bool:
        """Is a tile anywhere else?"""
        return set(self.memories) != {"local"}

    @property
    def bytes(self) -> int:
        """Of one element."""
        return dtype(self.kind).bits // 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """variant: that takes the call; refused: why none does. widest: bytes of the widest access to memory, 0 if there
    is none.
    """

    variant: str = ""
    widest: int = 0
    refused: str = ""

    def __str__(self) -> str:
        return "refused" if self.refused else f"{self.variant} {self.widest or ''}".strip()


def _kinds(primitive: str) -> tuple[str, ...]:
    return KINDS.get(primitive, DTYPES)


def _scopes(primitive: str) -> tuple[str, ...]:
    return SCOPES.get(primitive, tuple(ROWS))


CELLS: tuple[Cell, ...] = tuple(
    Cell(primitive, tuple(memories.split()), scope, form, kind)
    for primitive, several in MEMORIES.items()
    for memories, scope, form, kind in product(several, _scopes(primitive), FORMS, _kinds(primitive))
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call is no vector plan. holds: for a cell and its outcome."""

    text: str
    holds: Callable[[Cell, Outcome], bool]


REASONS: dict[str, Reason] = {
    "fragments": Reason(
        "a lane of mma holds two neighbours of a row; whole tiles of shared memory come by ldmatrix",
        lambda cell, found: cell.primitive in PRODUCTS and found.variant == "mma",
    ),
    "unaligned": Reason(
        "rows start off a multiple of 16 bytes, so an access is one element",
        lambda cell, found: cell.form == "unaligned" and found.variant != "fallback" and found.widest > 0,
    ),
    "no unit": Reason(
        "`cp.async` moves 4 bytes at least, and a row begins between two of them: `Tx.copy` takes the call",
        lambda cell, found: cell.primitive == "copy_async" and bool(found.refused) and cell.form == "unaligned",
    ),
}


def outcome(cell: Cell) -> Outcome:
    """What the dispatcher makes of a call."""
    kernel = kernel_of(cell)
    try:
        with catch_warnings():
            simplefilter("ignore", TilewrightWarning)
            made, report = resolve(kernel, "sm_90a")
    except DispatchError as error:
        return Outcome(refused=error.what.partition(": ")[2] or error.what)
    return Outcome(report.entries[0].variant, max(_accesses(made.body), default=0))


def reason(cell: Cell, found: Outcome) -> str:
    """The name of the reason, "vector" for a vector plan, "" where there is none."""
    one_by_one = found.variant == "fallback" or found.refused
    if not one_by_one and (not cell.in_memory or found.widest == 16):
        return "vector"
    return next((name for name, each in REASONS.items() if each.holds(cell, found)), "")


def kernel_of(cell: Cell) -> Kernel:
    """A kernel of one call."""
    n = Var("n", INT32)
    regions = tuple(_region(cell, position, n) for position in range(len(cell.memories)))
    value = as_expr(1.0 if dtype(cell.kind).is_float else 1)
    more = {"fill": (value,), "gemm": (regions[0], as_expr(1.0), as_expr(0.0))}
    operands: tuple[Region | Expr, ...] = (*regions, *more.get(cell.primitive, ()))
    tiles = [region.buffer for region in regions]
    given = [tile for tile in tiles if tile.space == "global"]
    head: Body = (
        DeviceEntry(),
        ScopeId("cta_id", (Var("bx"),), (4,)),
        ScopeId("thread_id", (Var("thread_id"),), (1 if cell.scope == "thread" else THREADS,)),
        *(AllocBuffer(tile) for tile in tiles if tile.space != "global"),
    )
    call = TileCallStmt(cell.primitive, cell.scope, operands, None)
    handles = tuple(tile.data for tile in given if isinstance(tile.data, Var))
    return Kernel("k", handles, tuple(given), (*head, call), (n,))


def _region(cell: Cell, position: int, n: Var) -> Region:
    """The region of an operand; of what a reduction writes a column of results."""
    reduced = cell.primitive in REDUCTIONS and position == 0
    rows, space = ROWS[cell.scope], cell.memories[position]
    columns = 1 if reduced else 72 if cell.form == "unaligned" and space != "local" else COLUMNS
    begin = 1 if columns == 72 else 0
    second = cell.primitive in PRODUCTS and position == 2  # K x N; the others are M x N and M x K
    rows = COLUMNS if second else rows
    first, width = rows, min(columns, COLUMNS)
    if cell.form == "ragged":
        first, width = rows - 1, max(1, width - 1)
    counts = cell.primitive == "argmax" or not dtype(cell.kind).is_float
    counted = position == 0 and cell.primitive in (*REDUCTIONS, "scan") and counts
    kind = "int32" if counted else cell.kind
    dynamic = cell.form == "run-time" and not second
    shape = (n if dynamic and space == "global" and cell.primitive not in PRODUCTS else rows, columns)
    layout = HELD[cell.scope](columns) if space == "local" else row_major(shape)
    data = Var(f"p{position}", HANDLE) if space == "global" else None
    buffer = Buffer("DABC"[position], dtype(kind), shape, space, layout, data=data)
    return Region(buffer, ((0, n if dynamic else first), (begin, width)))


def _accesses(body: Body) -> Iterator[int]:
    """The bytes of each access to shared or global memory."""
    for stmt in statements(body):
        for expr in (node for root in expressions(stmt) for node in walk(root)):
            if isinstance(expr, Call) and expr.op in ("cuda.copy_bytes", "ptx.cp_async"):
                yield int(str(expr.args[2]))
            elif isinstance(expr, Load) and not expr.buffer.space.startswith("local"):
                yield expr.dtype.bits // 8


# The page

PAGE = """\
# Which calls are by vectors

Made by `make docs` from {count} calls, each of which the dispatcher has planned for sm_90a. A number is the bytes of
the widest access to memory that the variant writes; calls of tiles in registers alone have none. Registers hold one
row a thread.

{forms}

A mark names why a call is not by accesses of 16 bytes:

{reasons}

{tables}
"""


def plans_page() -> str:
    """The page, from what the dispatcher does now."""
    found = {cell: outcome(cell) for cell in CELLS}
    return PAGE.format(
        count=len(CELLS),
        forms="\n".join(f"- {name}: {text}" for name, text in FORMS.items()),
        reasons="\n".join(f"- *{name}*: {each.text}" for name, each in REASONS.items()),
        tables="\n\n".join(_table(name, found) for name in MEMORIES),
    )


def _table(primitive: str, found: dict[Cell, Outcome]) -> str:
    head = ["memories", "scope", "elements", *FORMS]
    lines = [f"## {primitive}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for memories, scope in product(MEMORIES[primitive], _scopes(primitive)):
        rows = [(kind, tuple(_shown(each, found[each]) for each in _row(primitive, memories, scope, kind)))
                for kind in _kinds(primitive)]  # fmt: skip
        for texts, alike in groupby(rows, key=lambda row: row[1]):
            kinds = ", ".join(kind for kind, _ in alike)
            lines.append(f"| {_way(memories)} | {scope} | {kinds} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _row(primitive: str, memories: str, scope: str, kind: str) -> list[Cell]:
    return [Cell(primitive, tuple(memories.split()), scope, form, kind) for form in FORMS]


def _way(memories: str) -> str:
    dst, *sources = ("registers" if each == "local" else each for each in memories.split())
    return f"{dst} from {sources[0]}" if sources else dst


def _shown(cell: Cell, found: Outcome) -> str:
    """``reg 4 *unaligned*``."""
    why = reason(cell, found)
    return str(found) if why == "vector" else f"{found} *{why or 'open'}*"
