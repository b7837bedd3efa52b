"""Memory of a lowered kernel: the plan of shared memory, and sizes of tensor memory that the hardware has.

One arena per CTA, an offset in it for every shared buffer. Both back ends use these offsets, so that bank counts,
swizzles on address bits and matrix descriptors agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import ir, isa
from tilewright.errors import InstructionError, KernelError, warn
from tilewright.layout import ComposeLayout
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span

MOST_SHARED_BYTES = isa.ARCHS["sm_90"].shared_bytes  # of a CTA; the limit of the target is checked when that is known
LEAST_ALIGNMENT = 16  # bytes: a row of ldmatrix, a 128-bit vector


def shared_alignment(buffer: ir.Buffer) -> int:
    """Bytes: the largest of what was declared, the swizzle's period, at whose multiples its pattern starts, and 16."""
    period = buffer.layout.swizzle.period if isinstance(buffer.layout, ComposeLayout) else 1
    return max(buffer.align, period * buffer.dtype.bits // 8, LEAST_ALIGNMENT)


def plan_shared(body: ir.Body) -> tuple[dict[str, int], int]:
    """Offsets in bytes by buffer name, in order of allocation, and the size of the arena.

    An allocation that has an offset already (of a pool) keeps it; those that lie with each other have one place.
    Raises KernelError where the arena outgrows every GPU.
    """
    offsets: dict[str, int] = {}
    together: dict[str, int] = {}
    end, at = 0, None
    shared = [stmt for stmt in ir.statements(body) if isinstance(stmt, ir.AllocBuffer) and stmt.buffer.is_shared]
    for stmt in sorted(shared, key=_own_places_first):
        alignment = shared_alignment(stmt.buffer)
        offset = stmt.offset if stmt.offset is not None else -(-end // alignment) * alignment
        if stmt.lies_with:
            offset = together.setdefault(stmt.lies_with, offset)
        if offset % alignment:
            raise KernelError(
                f"{stmt.buffer.name} is not aligned in shared memory",
                given=f"offset {offset} bytes",
                allowed=f"a multiple of {alignment} bytes: what was declared, the swizzle's period, {LEAST_ALIGNMENT}",
                at=stmt.at,
            )
        offsets[stmt.buffer.name] = offset
        end, at = max(end, offset + stmt.buffer.storage_bytes()), stmt.at
    _check_size(end, at)
    return offsets, end


def _own_places_first(stmt: ir.AllocBuffer) -> tuple[str, int]:
    """Buffers of one place come one after the other, the most aligned first; those of their own before them."""
    return stmt.lies_with, -shared_alignment(stmt.buffer) if stmt.lies_with else 0


def _check_size(size: int, at: Span | None) -> None:
    if size > MOST_SHARED_BYTES:
        raise KernelError(
            "the kernel needs more shared memory than a CTA can have",
            given=f"{size} bytes",
            allowed=f"{MOST_SHARED_BYTES} bytes",
            at=at,
        )


# Tensor memory: allocations of sizes that the hardware has, and one cta_group for all.


LEAST_COLUMNS = 32  # an allocation takes 32, 64, 128, 256 or 512 columns
NAMESPACE = "ptx.tcgen05."


def settle_tmem(body: ir.Body) -> ir.Body:
    """``body`` with the constant sizes of allocations rounded up, in alloc and dealloc alike, and one warning about it.

    The kernel's own number stays with the allocation, so that the simulator knows the columns beyond it. A size that is
    known at run time only stays as it is.

    Raises InstructionError where two instructions of the kernel differ in what all must have in common.
    """
    _check_agreement(body)
    first = next((stmt for stmt in ir.statements(body) if _rounded(stmt) is not None), None)
    if first is None:
        return body
    columns = _columns(first)
    warn(
        f"{columns} columns of tensor memory are rounded up to {_size(columns)}: the hardware allocates powers of"
        f" two from {LEAST_COLUMNS} on; those beyond the {columns} are not the kernel's",
        first.at,
    )
    return ir.map_body(body, lambda stmt: None if (new := _rounded(stmt)) is None else (new,))


def _size(columns: int) -> int:
    """The next size that the hardware has."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def _columns(stmt: ir.Stmt) -> int:
    """The constant number of columns that a statement allocates or frees; 0 for any other statement."""
    if not (isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call) and stmt.value.op.startswith(NAMESPACE)):
        return 0
    (columns,) = isa.bind(stmt.value).operands.get("n_cols") or (None,)
    number = None if columns is None else ir.const_value(columns)
    return int(number or 0)


def _rounded(stmt: ir.Stmt) -> ir.Stmt | None:
    """The statement with a size that the hardware has; None where it has one already, or none at all."""
    columns = _columns(stmt)
    if not columns or columns == _size(columns):
        return None
    assert isinstance(stmt, ir.Evaluate)
    assert isinstance(stmt.value, ir.Call)
    bound = isa.bind(stmt.value)
    words: dict[str, object] = {name: parts[0] for name, parts in bound.operands.items() if parts}
    words |= {name: value for name, value in bound.mods.items() if name not in bound.operands}
    words["n_cols"] = _size(columns)
    if bound.instruction.operand("requested") is not None:
        words["requested"] = columns
    return replace(stmt, value=isa.call(stmt.value.op, **words))


def _check_agreement(body: ir.Body) -> None:
    """Raises InstructionError where instructions differ in a modifier that a kernel's must agree in: the cta_group."""
    first: dict[str, tuple[ir.Argument, str, Span | None]] = {}
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
