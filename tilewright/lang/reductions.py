"""Reductions by name, ``T.cuda.warp_reduce(v, "sum")``: several instructions each; every thread holds the result."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, choices
from tilewright.ir import Buffer, Expr, Value, Var, as_expr, binary, cast, const_value, special
from tilewright.lang.builder import current
from tilewright.lang.forms import where
from tilewright.lang.instructions import form, row_call
from tilewright.lang.memory import decl_buffer

OPERATORS = {"sum": "+", "prod": "*", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^"}
WHOLE = 0xFFFFFFFF
WIDTHS = (1, 2, 4, 8, 16, 32)


def _joins(op: str, what: str) -> Callable[[Value, Value], Expr]:
    if op not in OPERATORS:
        raise InstructionError(f"{what} of this operation", given=repr(op), allowed=choices(op, OPERATORS))
    return lambda a, b: binary(OPERATORS[op], a, b)


def _kept(value: Value) -> Var:
    """A value as a name of the kernel: it is computed once, here."""
    return current("a reduction").bind("part", as_expr(value))


@form("cuda.warp_reduce")
def warp_reduce(value: Value, op: str, width: int = 32) -> Expr:
    """The sum, or what ``op`` says, over each ``width`` neighbouring lanes of the warp; all 32 take part."""
    join = _joins(op, "T.cuda.warp_reduce")
    if const_value(width) not in WIDTHS:
        raise InstructionError("T.cuda.warp_reduce over these lanes", given=f"width={width}",
                               allowed=", ".join(map(str, WIDTHS)))  # fmt: skip
    total, step = _kept(value), int(width) // 2
    while step:
        total = _kept(join(total, row_call("cuda.shfl_xor_sync", WHOLE, total, step)))
        step //= 2
    return total


@form("cuda.cta_reduce")
def cta_reduce(value: Value, op: str, num_warps: int, scratch: Expr | Buffer) -> Expr:
    """The sum, or what ``op`` says, over the whole CTA of ``num_warps`` warps, each of which leaves its part at
    ``scratch``, in shared memory. Two barriers of the CTA stand inside, so that ``scratch`` is free again afterwards.
    """
    join, warps = _joins(op, "T.cuda.cta_reduce"), const_value(num_warps)
    if not isinstance(warps, int) or not 1 <= warps <= 32:
        raise InstructionError("T.cuda.cta_reduce over these warps", given=f"num_warps={num_warps}", allowed="1 to 32")
    part = warp_reduce(value, op)
    parts = decl_buffer((warps,), part.dtype, scratch, scope="shared")
    builder = current("T.cuda.cta_reduce")
    where(special("laneid") == 0, lambda: builder.write(parts[special("warpid")], part))  # type: ignore[arg-type]
    row_call("cuda.cta_sync")
    total: Expr = parts[0]  # type: ignore[assignment]  # one dimension
    for warp in range(1, warps):
        total = join(total, parts[warp])  # type: ignore[arg-type]  # one dimension
    total = _kept(total)
    row_call("cuda.cta_sync")
    return total


def _register_reduction(name: str) -> None:
    def reduce(mask: Value, value: Value) -> Expr:
        return row_call(f"cuda.reduce_{name}_sync", mask, cast(value, dtype("uint32")))

    reduce.__doc__ = f"`T.cuda.reduce_{name}_sync` of uint32."
    form(f"cuda.reduce_{name}_sync_u32")(reduce)


for _name in ("add", "min", "max"):
    _register_reduction(_name)

EXPORTS: dict[str, object] = {}
"""What ``T`` has of this file beside its forms: nothing."""
