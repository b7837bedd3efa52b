"""Shared and global memory with layouts whose places follow no pattern: element by element, threads in turns."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from tilewright.errors import warn
from tilewright.ir import Const, Expr, Load, Value, as_expr, binary, const_value
from tilewright.tile.builder import Builder
from tilewright.tile.call import TileCall, own_digits
from tilewright.tile.conditions import one_by_one, one_place_each, only_in
from tilewright.tile.dispatch import Decline, elementwise
from tilewright.tile.elements import Computation, Moving, computation, indexed
from tilewright.tile.flow import extents_of_run
from tilewright.tile.inside import inside_tests
from tilewright.tile.owners import all_hold, axes_of, check_own
from tilewright.tile.round_loops import once_each
from tilewright.tile.walks import digits_of, plus, times


@dataclass(frozen=True, slots=True)
class OneByOne:
    """extents: of dst. threads: that take turns. guard: holds in those that take part."""

    computing: Computation | Moving
    extents: tuple[Value, ...]
    threads: int
    guard: Expr | None

    def summary(self) -> str:
        """``element by element, 32 threads in turns``."""
        turns = f", {self.threads} threads in turns" if self.threads > 1 else ""
        return f"element by element{turns}{self.computing.summary()}"


@elementwise(priority=0, when=[only_in("local", "shared", "global"), one_by_one, one_place_each])
def fallback(call: TileCall) -> OneByOne:
    """Element by element, by threads in turns."""
    dst, threads, guard = call["dst"], call.scope.threads, None
    for side in call.tiles:
        if side.space == "local":
            check_own(call, side)
            if any(axis.is_thread() for axis in axes_of(side.buffer.layout)):
                raise Decline(f"threads hold parts of {side.name}")
    shares_bytes = dst.dtype.bits < 8 and dst.space != "local"
    if "local" in call.spaces or shares_bytes:
        guard = binary("==", call.scope.index, 0) if threads > 1 and dst.space != "local" else None
        threads = 1
    return OneByOne(computation(call), extents_of_run(call), threads, guard)


@fallback.emit
def _(plan: OneByOne, call: TileCall, out: Builder) -> None:
    warn(f"{call.stmt.primitive}/fallback goes element by element: {call.text}", call.at)
    size: Value = 1
    for extent in plan.extents:
        size = times(size, extent)
    size = call.facts.simplify(size)
    rounds = call.facts.simplify((as_expr(size) + (plan.threads - 1)) // plan.threads)
    values: dict[str, Expr] = {}
    for name, value in call.scalars.items():
        typed = plan.computing.typed(name, value)
        values[name] = typed if isinstance(typed, Const) or indexed(typed) else out.let(name, typed)
    with ExitStack() as stack:
        stack.enter_context(out.when(plan.guard))
        turn = stack.enter_context(out.loop("i", rounds))
        element = out.let("element", plus(times(turn, plan.threads), call.scope.index)) if plan.threads > 1 else turn
        even = const_value(size) is not None and int(const_value(size) or 0) % plan.threads == 0
        stack.enter_context(out.when(None if even else binary("<", element, size)))
        digits = digits_of(element, plan.extents)
        tests: list[Expr] = []
        for side in call.tiles:
            coords = own_digits(side, digits, plan.extents)
            tests += inside_tests(call, side, coords, coords)
        stack.enter_context(out.when(all_hold(once_each(tests))))
        places = {
            name: as_expr(side.place(own_digits(side, digits, plan.extents), call.facts).get("m", 0))
            for name, side in call.sides.items()
        }
        loads = {name: Load(side.buffer.flat(), (places[name],)) for name, side in call.sides.items() if name != "dst"}
        if isinstance(plan.computing, Computation):
            values = plan.computing.at(values, digits)
        out.store(call["dst"].buffer.flat(), places["dst"], plan.computing.of(loads, values))
