"""Global to shared memory by cp.async: the threads of the scope take runs of 16, 8 or 4 bytes in turns, and go on.

Groups, waits and barriers are the caller's. With ``fill=0`` a run reads those of its bytes that are inside of the
source, and the hardware makes zeros of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.ir import AddressOf, Expr, Value, as_expr, binary, cast, select
from tilewright.primitives import WITHIN_A_CTA
from tilewright.primitives.copy import ASKED, FILL
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall, own_digits
from tilewright.tile.conditions import between_in_order, constant_extents, one_place_each
from tilewright.tile.dispatch import Change, Decline, condition, variant
from tilewright.tile.hints import alignments, check_target, wider
from tilewright.tile.inside import inside_tests, open_dimensions, splits
from tilewright.tile.owners import all_hold
from tilewright.tile.partition import places
from tilewright.tile.round_loops import Step, Writer
from tilewright.tile.rounds import Rounds, by_turns
from tilewright.tile.shares import in_memory_order
from tilewright.tile.walks import Ints, digits_of

__all__ = ["ldgsts"]

OP = "ptx.cp_async"
NAME = OP.removeprefix("ptx.")
LEAST = 4  # bytes that one cp.async moves
ALIGNED = "runs of 16, 8 or 4 bytes, aligned to as many, that are contiguous in both memories"


@dataclass(frozen=True, slots=True)
class LdgstsPlan:
    """rounds: the runs of each thread. nbytes: of a run. along: the dimension of the source in which runs lie, if it
    may end inside of one. widened: what would make runs longer.
    """

    rounds: Rounds
    nbytes: int
    along: int | None
    widened: str | None = None

    def summary(self) -> str:
        """``cp_async.cg of 16 bytes: 2 x 8 elements for each of 128 threads``."""
        zeros = ", zeros for the rest of a run" if self.along is not None else ""
        return f"{NAME}.{'cg' if self.nbytes == 16 else 'ca'} of {self.nbytes} bytes: {self.rounds.summary()}{zeros}"


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
    when=[between_in_order("global", "shared"), within_a_cta, constant_extents, one_place_each, filled_with_zeros],
)
def ldgsts(call: TileCall) -> LdgstsPlan:
    """Neighbouring threads have neighbouring runs of global memory copied by cp.async, 16, 8 or 4 bytes at a time."""
    check_target(call, NAME, isa.lookup(OP).forms[0])
    try:
        plan = _plan(call)
    except Decline as declined:
        raise Decline(declined.reason, allowed=ALIGNED, changes=_aligned(call)) from None
    return replace(plan, widened=wider(call, plan, _plan)) if plan.rounds.limit else plan


def _plan(call: TileCall) -> LdgstsPlan:
    plan = by_turns(call, lambda order, length: _cut(call, order, length), LEAST)
    along = _along(call, plan.vector) if plan.parts else None
    return LdgstsPlan(replace(plan, batch=plan.rounds), plan.vector * call.dtype.bits // 8, along)


def _aligned(call: TileCall) -> Iterator[Change]:
    """The call with starts at which even the shortest runs are aligned."""
    length = 8 * LEAST // call.dtype.bits
    for side in call.tiles if length else ():
        yield from alignments(call, side, places(side, call.facts), length)


def _cut(call: TileCall, order: Ints, length: int) -> str | None:
    """Why a buffer may end inside of a run in the destination; cp.async can leave out bytes of its source alone."""
    dst, src = call["dst"], call["src"]
    if call.option(FILL) is None or call.dtype.bits < 8:
        return splits(call, dst, order, length) or splits(call, src, order, length)
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
    _Issuing(plan, call, out).write()


class _Issuing(Writer):
    """Writes the copies of each run. (Mutable: the builder.)"""

    def __init__(self, plan: LdgstsPlan, call: TileCall, out: Builder) -> None:
        super().__init__(plan.rounds, call, out)
        self.nbytes, self.along = plan.nbytes, plan.along

    def prepare(self, _: Sequence[str]) -> None:
        """Nothing to prepare: no element goes through registers."""

    def steps(self) -> list[Step]:
        return [self.issue]

    def issue(self, _: Value, __: Value, access: Value, asked: bool) -> None:
        """The copy of a run."""
        dst, src = (AddressOf(self.call[name].buffer.flat(), (as_expr(self.at(name, access)),)) for name in
                    ("dst", "src"))  # fmt: skip
        filled = self.fill is not None
        tiles = [self.call["dst"]] if filled else self.call.tiles
        tests = self.tests(access, tiles)(0, self.plan.vector - 1) if asked else []
        with self.out.when(all_hold(tests)):
            size = {"src_size": self.size(access)} if asked and filled else {}
            self.out.call(OP, dst, src, self.nbytes, **size)

    def size(self, access: Value) -> Expr:
        """How many bytes of a run are inside of the source."""
        assert self.number is not None, "asked first"
        call, src = self.call, self.call["src"]
        digits = own_digits(src, digits_of(self.number(access), call["dst"].extents), call["dst"].extents)
        if self.along is None:
            size = as_expr(self.nbytes)
        else:
            left = as_expr(src.buffer.shape[self.along]) - (src.starts[self.along] + as_expr(digits[self.along]))
            size = binary("min", left, self.plan.vector) * (call.dtype.bits // 8)
        inside = all_hold(inside_tests(call, src, digits, digits))
        return cast(size if inside is None else select(inside, size, 0), dtype("uint32"))
