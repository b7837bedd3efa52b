"""Any layouts: element by element. For places that follow no pattern, and registers that a region may leave."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from tilewright.errors import warn
from tilewright.ir import Const, Expr, Load, Value, as_expr, binary, const_value, coordinate
from tilewright.layout import Axis, ComposeLayout, Iter, TileLayout
from tilewright.primitives.copy import copy
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, own_digits
from tilewright.tile.conditions import one_by_one
from tilewright.tile.dispatch import ELEMENTWISE, FILLS, Decline, condition, keywords_of, variant
from tilewright.tile.elements import Computation, Moving, computation, indexed
from tilewright.tile.flow import extents_of_run
from tilewright.tile.inside import inside_tests
from tilewright.tile.owners import all_hold, axes_of, check_own, gaps, held_here, owners
from tilewright.tile.round_loops import once_each
from tilewright.tile.walks import Ints, digits_of, plus, times

NAMES = (copy.name, *FILLS, *ELEMENTWISE)


@condition("no side is in tensor memory")
def addressable(call: TileCall) -> str | None:
    tensor = next((side.name for side in call.tiles if side.space == "tmem"), None)
    return tensor and f"{tensor} is in tmem memory: tensor memory has no element-wise access: use Tx.copy_async"


@dataclass(frozen=True, slots=True)
class OneByOne:
    """extents: of dst. replicas: how often each of its elements is there. threads: that take turns; with registers each
    thread goes through all elements and takes its own. guard: holds in those that take part.
    """

    computing: Computation | Moving
    extents: tuple[Value, ...]
    replicas: tuple[Iter, ...]
    threads: int
    guard: Expr | None

    def summary(self) -> str:
        """``element by element, 32 threads in turns``."""
        turns = f", {self.threads} threads in turns" if self.threads > 1 else ""
        return f"element by element{turns}{self.computing.summary()}"


@variant(*NAMES, priority=0, keywords=("vec_len", *keywords_of(*ELEMENTWISE)), when=[addressable, one_by_one])
def fallback(call: TileCall) -> OneByOne:
    """Element by element: by threads in turns, or by those whose registers hold the element."""
    dst, threads = call["dst"], call.scope.threads
    local = [side for side in call.tiles if side.space == "local"]
    layout = _plain(dst)
    replicas = layout.replica if layout is not None else ()
    axes = _check_holders(call, local, replicas)
    shares_bytes = dst.dtype.bits < 8 and dst.space != "local"
    if shares_bytes and axes:
        raise Decline(f"threads that hold single {dst.dtype} elements share bytes of {dst.name}")
    turns = 1 if local or shares_bytes else threads
    guard = _first(call, axes) if dst.space != "local" and turns < threads else None
    return OneByOne(computation(call), extents_of_run(call), replicas, turns, guard)


def _first(call: TileCall, axes: set[str]) -> Expr | None:
    """Is the caller the first of the threads that hold the same?"""
    if not axes:
        return binary("==", call.scope.index, 0)
    return all_hold([binary("==", coordinate(*level), 0) for level in gaps(axes, call.scope.kind)])


def _plain(side: Side) -> TileLayout | None:
    """The layout of the buffer without its swizzle."""
    layout = side.buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    return tile if isinstance(tile, TileLayout) else None


def _axes(side: Side) -> set[str]:
    """The thread axes of a register side."""
    return {axis.name for axis in axes_of(side.buffer.layout) if axis.is_thread()}


def _check_holders(call: TileCall, local: Sequence[Side], replicas: Sequence[Iter]) -> set[str]:
    """The thread axes of the tiles in registers. Raises Decline where one is not the threads' own, or they are not
    held by the same threads.
    """
    for side in local:
        check_own(call, side)
        for name in _axes(side):
            last = const_value(side.tile.cosize(name)) if side.tile is not None else None
            if last is not None and (int(last) - 1) * Axis.get(name).each >= call.scope.cta_threads:
                places = f"{side.name} has {last} places on axis {name}"
                raise Decline(f"{places}; the CTA has {call.scope.cta_threads} threads")
    axes = set[str]().union(*map(_axes, local))
    if not axes or len(local) == 1:
        return axes
    spaces, holders = zip(*(_holders(call, side) for side in local), strict=True)
    for side, space, threads in zip(local[1:], spaces[1:], holders[1:], strict=True):
        if replicas or space != spaces[0] or not np.array_equal(threads, holders[0]):
            raise Decline(f"elements of {side.name} are held by other threads in {local[0].name}")
    return axes


def _holders(call: TileCall, side: Side) -> tuple[str, Ints]:
    """The space of threads, and which of them holds each element."""
    held = owners(call, side, loading=False)
    threads = np.empty(held.elements.size, np.int64)
    threads[held.elements] = held.threads[:, None]
    return held.space, threads


@fallback.emit
def _(plan: OneByOne, call: TileCall, out: Builder) -> None:
    if len(call.sides) > 1:
        warn(f"{call.stmt.primitive}/fallback goes element by element: {call.text}", call.at)
    values: dict[str, Expr] = {}
    for name, value in call.scalars.items():
        typed = plan.computing.typed(name, value)
        values[name] = typed if isinstance(typed, Const) or indexed(typed) else out.let(name, typed)
    with ExitStack() as stack:
        stack.enter_context(out.when(plan.guard))
        digits = _digits(plan, call, out, stack)
        here = {name: own_digits(side, digits, plan.extents) for name, side in call.sides.items()}
        tests = [test for name, side in call.sides.items() for test in inside_tests(call, side, here[name], here[name])]
        stack.enter_context(out.when(all_hold(once_each(tests))))
        copies = [(it, stack.enter_context(out.loop("r", it.extent))) for it in plan.replicas]
        places = {
            name: _place(call, side, here[name], copies if name == "dst" else []) for name, side in call.sides.items()
        }
        held = [test for name, side in call.sides.items() for test in held_here(side, places[name])]
        stack.enter_context(out.when(all_hold(once_each(held))))
        at = {name: as_expr(place.get("m", 0)) for name, place in places.items()}
        loads = {name: Load(side.buffer.flat(), (at[name],)) for name, side in call.sides.items() if name != "dst"}
        if isinstance(plan.computing, Computation):
            values = plan.computing.at(values, digits)
        out.store(call["dst"].buffer.flat(), at["dst"], plan.computing.of(loads, values))


def _digits(plan: OneByOne, call: TileCall, out: Builder, stack: ExitStack) -> Sequence[Value]:
    """The coordinates of an element, in loops that are entered."""
    if plan.threads == 1:
        return [stack.enter_context(out.each("i", extent)) for extent in plan.extents]
    size: Value = 1
    for extent in plan.extents:
        size = times(size, extent)
    size = call.facts.simplify(size)
    rounds = call.facts.simplify((as_expr(size) + (plan.threads - 1)) // plan.threads)
    turn = stack.enter_context(out.loop("i", rounds))
    element = out.let("element", plus(times(turn, plan.threads), call.scope.index))
    even = const_value(size) is not None and int(const_value(size) or 0) % plan.threads == 0
    stack.enter_context(out.when(None if even else binary("<", element, size)))
    return digits_of(element, plan.extents)


def _place(
    call: TileCall, side: Side, digits: Sequence[Value], copies: Sequence[tuple[Iter, Value]]
) -> dict[str, Value]:
    """Where an element is, or one of its copies."""
    if not copies:
        return dict(side.place(digits, call.facts))
    place = dict(side.place(digits, call.facts, _plain(side)))
    for it, digit in copies:
        place[it.axis.name] = place.get(it.axis.name, 0) + digit * it.stride
    if isinstance(side.buffer.layout, ComposeLayout) and "m" in place:
        place["m"] = side.buffer.layout.swizzle.address(place["m"])
    return place
