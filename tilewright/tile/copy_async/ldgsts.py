"""Global to shared memory by cp.async: the threads of the scope take runs of 16, 8 or 4 bytes in turns, and go on.

Groups, waits and barriers are the caller's. Where a row or a buffer ends inside of a run, its elements are copied one
by one. With ``fill=0`` a run reads those of its bytes that are inside of the source, and the hardware makes zeros of
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.ir import AddressOf, Expr, Load, Value, as_expr, binary, cast, select
from tilewright.primitives import WITHIN_A_CTA
from tilewright.primitives.copy import ASKED, FILL
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall, own_digits
from tilewright.tile.conditions import alignments, between_in_order, check_target, one_place_each, wider
from tilewright.tile.dispatch import Change, Decline, condition, variant
from tilewright.tile.distribution import Distribution, in_memory_order
from tilewright.tile.flow import by_runs
from tilewright.tile.inside import inside_tests, open_dimensions, splits
from tilewright.tile.owners import all_hold
from tilewright.tile.partition import places
from tilewright.tile.round_loops import Writer, emit_runs
from tilewright.tile.walks import Ints, digits_of, plus

OP = "ptx.cp_async"
NAME = OP.removeprefix("ptx.")
LEAST = 4  # bytes that one cp.async moves
ALIGNED = "runs of 16, 8 or 4 bytes, aligned to as many, that are contiguous in both memories"


@dataclass(frozen=True, slots=True)
class LdgstsPlan:
    """runs: of each thread. nbytes: of a run. along: the dimension of the source in which runs lie, if it may end
    inside of one and the hardware makes zeros of the rest. widened: what would make runs longer.
    """

    runs: Distribution
    nbytes: int
    along: int | None
    widened: str | None = None

    def summary(self) -> str:
        """``cp_async.cg of 16 bytes: 2 x 8 elements for each of 128 threads``."""
        zeros = ", zeros for the rest of a run" if self.along is not None else ""
        return f"{NAME}.{'cg' if self.nbytes == 16 else 'ca'} of {self.nbytes} bytes: {self.runs.summary()}{zeros}"


@condition("fill= is 0")
def filled_with_zeros(call: TileCall) -> str | None:
    fill = call.option(FILL)
    return None if fill is None or str(fill) in ("0", "0.0") else f"{NAME} fills with zeros, not with {fill}"


@condition("the call is a thread's, a warp's, a warpgroup's or a CTA's")
def within_a_cta(call: TileCall) -> str | None:
    return None if call.scope.kind in WITHIN_A_CTA else "the CTAs of a cluster do not share their shared memory"


@variant(
    "copy_async",
    priority=20,
    keywords=("vec_len", *ASKED),
    when=[between_in_order("global", "shared"), within_a_cta, one_place_each, filled_with_zeros],
)
def ldgsts(call: TileCall) -> LdgstsPlan:
    """Neighbouring threads have neighbouring runs of global memory copied by cp.async, 16, 8 or 4 bytes at a time."""
    check_target(call, NAME, isa.lookup(OP).forms[0])
    try:
        plan = _plan(call)
    except Decline as declined:
        raise Decline(declined.reason, allowed=ALIGNED, changes=_aligned(call)) from None
    return replace(plan, widened=wider(call, plan, _plan)) if plan.runs.limit and not plan.runs.rows else plan


def _plan(call: TileCall) -> LdgstsPlan:
    plan = by_runs(call, lambda order, length: _cut(call, order, length), LEAST)
    nbytes = plan.vector * call.dtype.bits // 8
    if plan.rows is not None:
        return LdgstsPlan(plan, nbytes, None)
    filled = call.option(FILL) is not None
    return LdgstsPlan(replace(plan, batch=plan.rounds), nbytes, _along(call, plan.vector) if filled else None)


def _aligned(call: TileCall) -> Iterator[Change]:
    """The call with starts at which even the shortest runs are aligned."""
    length = 8 * LEAST // call.dtype.bits
    for side in call.tiles if length and call["dst"].size is not None else ():
        yield from alignments(call, side, places(side, call.facts), length)


def _cut(call: TileCall, order: Ints, length: int) -> str | None:
    """Why a buffer may end inside of a run in the destination; cp.async can leave out bytes of its source alone."""
    dst, src = call["dst"], call["src"]
    if call.dtype.bits < 8:
        return splits(call, dst, order, length) or splits(call, src, order, length)
    if call.option(FILL) is None:
        return None
    dim = _along(call, length)
    if dim is None or call.facts.less(-1, src.starts[dim]):
        return splits(call, dst, order, length)
    if not call.facts.divides(length, src.starts[dim]):
        return f"{length} elements may begin before {src.name} does, in dimension {dim}"
    return splits(call, dst, order, length)


def _along(call: TileCall, length: int) -> int | None:
    """The dimension in which runs of so many elements lie, if the source may leave its buffer there."""
    src = call["src"]
    runs = np.unravel_index(in_memory_order(src).reshape(-1, length), src.shape)
    return next((dim for dim in open_dimensions(call, src) if (runs[dim] != runs[dim][:, :1]).any()), None)


@ldgsts.emit
def _(plan: LdgstsPlan, call: TileCall, out: Builder) -> None:
    emit_runs(plan.runs, call, out, partial(_issue, plan))


def _issue(plan: LdgstsPlan, writer: Writer, _: Value, __: Value, access: Value, asked: bool) -> None:
    """The copy of a run; of one that is partly outside, the copies of its elements."""
    call, out = writer.call, writer.out
    dst, src = (call[name].buffer.flat() for name in ("dst", "src"))
    to, source = (writer.at(name, access) for name in ("dst", "src"))

    def issued(e: Value, nbytes: int, **size: Expr) -> None:
        places = (AddressOf(b, (as_expr(plus(at, e)),)) for b, at in ((dst, to), (src, source)))
        out.call(OP, *places, nbytes, **size)

    def whole() -> None:
        issued(0, plan.nbytes)

    def one(e: Value) -> None:
        if call.dtype.bits // 8 in (4, 8, 16):
            issued(e, call.dtype.bits // 8)
        else:
            out.store(dst, plus(to, e), Load(src, (as_expr(plus(source, e)),)))

    def zero(e: Value) -> None:
        out.store(dst, plus(to, e), cast(0, call.dtype))

    if not asked:
        whole()
    elif writer.fill is None:
        writer.asked(access, call.tiles, whole, one)
    elif plan.runs.rows is None:
        with out.when(all_hold(writer.tests(access, [call["dst"]])(0, plan.runs.vector - 1))):
            issued(0, plan.nbytes, src_size=_size(plan, writer, access))
    else:
        inside = writer.tests(access, [call["src"]])
        writer.asked(
            access,
            [call["dst"]],
            lambda: writer.asked(access, [call["src"]], whole, one, zero),
            lambda e: out.either(all_hold(inside(e, e)), lambda: one(e), lambda: zero(e)),
        )


def _size(plan: LdgstsPlan, writer: Writer, access: Value) -> Expr:
    """How many bytes of a run are inside of the source."""
    assert writer.number is not None, "asked first"
    call, src = writer.call, writer.call["src"]
    digits = own_digits(src, digits_of(writer.number(access), call["dst"].extents), call["dst"].extents)
    if plan.along is None:
        size = as_expr(plan.nbytes)
    else:
        left = as_expr(src.buffer.shape[plan.along]) - (src.starts[plan.along] + as_expr(digits[plan.along]))
        size = binary("min", left, plan.runs.vector) * (call.dtype.bits // 8)
    inside = all_hold(inside_tests(call, src, digits, digits))
    return cast(size if inside is None else select(inside, size, 0), dtype("uint32"))
