"""Tensor memory in a lowered kernel: allocations of sizes that the hardware has, and one cta_group for all."""

from __future__ import annotations

from dataclasses import replace

from tilewright import isa
from tilewright.errors import InstructionError, Span, warn
from tilewright.ir import Argument, Body, Call, Evaluate, Stmt, const_value, map_body

LEAST_COLUMNS = 32  # an allocation takes 32, 64, 128, 256 or 512 columns
NAMESPACE = "ptx.tcgen05."


def settle_tmem(body: Body) -> Body:
    """``body`` with the constant sizes of allocations rounded up, in alloc and dealloc alike, and one warning about it.

    The kernel's own number stays with the allocation, so that the simulator knows the columns beyond it. A size that is
    known at run time only stays as it is.

    Raises InstructionError where two instructions of the kernel differ in what all must have in common.
    """
    _check_agreement(body)
    rounded: list[Stmt] = []

    def changed(stmt: Stmt) -> Body | None:
        made = _rounded(stmt)
        if made is None:
            return None
        rounded.append(stmt)
        return (made,)

    done = map_body(body, changed)
    if rounded:
        columns = _columns(rounded[0])
        warn(
            f"{columns} columns of tensor memory are rounded up to {_size(columns)}: the hardware allocates powers of"
            f" two from {LEAST_COLUMNS} on; those beyond the {columns} are not the kernel's",
            rounded[0].at,
        )
    return done


def _size(columns: int) -> int:
    """The next size that the hardware has."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def _columns(stmt: Stmt) -> int:
    """The constant number of columns that a statement allocates or frees; 0 for any other statement."""
    if not (isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op.startswith(NAMESPACE)):
        return 0
    (columns,) = isa.bind(stmt.value).operands.get("n_cols") or (None,)
    known = None if columns is None else const_value(columns)
    return int(known or 0)


def _rounded(stmt: Stmt) -> Stmt | None:
    """The statement with a size that the hardware has; None where it has one already, or none at all."""
    columns = _columns(stmt)
    if not columns or columns == _size(columns):
        return None
    assert isinstance(stmt, Evaluate)
    assert isinstance(stmt.value, Call)
    bound = isa.bind(stmt.value)
    words: dict[str, object] = {name: parts[0] for name, parts in bound.operands.items() if parts}
    words |= {name: value for name, value in bound.mods.items() if name not in bound.operands}
    words["n_cols"] = _size(columns)
    if bound.instruction.operand("requested") is not None:
        words["requested"] = columns
    return replace(stmt, value=isa.call(stmt.value.op, **words))


def _check_agreement(body: Body) -> None:
    """Raises InstructionError where instructions differ in a modifier that a kernel's must agree in: the cta_group."""
    first: dict[str, tuple[Argument, str, Span | None]] = {}
    for stmt, bound in isa.calls_in(body):
        if not (name := bound.instruction.agrees):
            continue
        value, other, at = first.setdefault(name, (bound.mods[name], bound.instruction.name, stmt.at))
        if bound.mods[name] != value:
            raise InstructionError(
                f"T.{bound.instruction.name} has another {name} than T.{other} before it",
                given=f"{name}={bound.mods[name]} here, {name}={value}" + (f" at {at}" if at else " there"),
                allowed=f"one {name} in all such instructions of a kernel",
                at=stmt.at,
            )
