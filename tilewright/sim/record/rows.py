"""The statements of a lowered kernel as rows of a recording: their text, and what one execution counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.dtypes import VOID
from tilewright.isa import Bound, Ptx, bind
from tilewright.sim.record.recording import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilewright.errors import Span

KINDS: dict[type[ir.Stmt], str] = {
    ir.Bind: "let", ir.Assign: "let", ir.Store: "store", ir.Evaluate: "call", ir.If: "if", ir.For: "loop",
    ir.While: "loop",
}  # fmt: skip


def row_of(stmt: ir.Stmt, text: str) -> Row:
    """The row of a statement; what is inside of a loop or branch has rows of its own."""
    calls = [node for node in ir.expressions(stmt) if isinstance(node, ir.Call)]
    bounds = [bind(call) for call in calls]
    commits = next((b.form.commit.group for b in bounds if b.form.commit and not b.form.signals), "")
    told = [b for b in bounds if isinstance(b.form.wording, Ptx)]
    mnemonic = next((b.mnemonic for b in sorted(told, key=lambda b: not b.form.concerns_operations)), "")
    kind = KINDS.get(type(stmt), "other")
    signals = tuple(dict.fromkeys(name for b in bounds for name in _told(b)))
    return Row(text, kind, stmt.at, _counts(ir.expressions(stmt), stmt), commits, mnemonic, signals)


def _told(bound: Bound) -> Iterable[str]:
    """The buffers whose m-barriers a call tells, or the operation that it begins."""
    for signal in bound.form.signals:
        for operand in bound.operands.get(signal.barrier, ()) if signal.kind in ("arrive", "bytes") else ():
            yield from (node.buffer.name for node in ir.walk(operand) if isinstance(node, ir.AddressOf))


def row_of_call(call: ir.Call, kind: str, text: str, at: Span | None) -> Row:
    """The row of a call at which threads wait. kind: "meet" or "ask"."""
    return Row(text, kind, at, {bind(call).instruction.name: 1})


def _counts(nodes: Iterable[ir.Expr], stmt: ir.Stmt) -> dict[str, int]:
    nodes = tuple(nodes)
    inner = {id(part) for node in nodes if isinstance(node, ir.Load | ir.AddressOf)
             for index in node.indices for part in ir.walk(index)}  # fmt: skip
    target = id(stmt.place) if isinstance(stmt, ir.Store) else 0
    total: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ir.Call):
            total[bind(node).instruction.name] += 1
        elif isinstance(node, ir.Load):
            if node.buffer.space != "local":
                total[f"{'store' if id(node) == target else 'load'} {node.buffer.space.partition('.')[0]}"] += 1
        elif isinstance(node, ir.Binary | ir.Unary | ir.Select | ir.Cast) and node.dtype is not VOID:
            if id(node) in inner:
                total["address"] += 1
            else:
                total[_operator(node)] += node.dtype.lanes
    return dict(total)


def _operator(node: ir.Binary | ir.Unary | ir.Select | ir.Cast) -> str:
    kind = node.dtype if not isinstance(node, ir.Binary) or node.dtype.kind != "bool" else node.a.dtype
    word = {ir.Select: "select", ir.Cast: "cast"}.get(type(node)) or getattr(node, "op", "")
    return f"{str(kind).partition('x')[0]} {word}"
