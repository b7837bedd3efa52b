"""The variants that copies, fills and computations have alike, runs, calls through scratch, and element by element; and
those of fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import numpy as np

from tilewright.errors import warn
from tilewright.ir import Buffer, Const, Expr, Load, Region, Value, as_expr, binary, const_value, coordinate
from tilewright.layout import Axis, ComposeLayout, Iter, TileLayout
from tilewright.primitives.copy import ASKED, FILL, copy
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, own_digits, side_of
from tilewright.tile.conditions import (
    bits_only,
    by_several,
    constant_extents,
    one_by_one,
    one_place_each,
    only_in,
    registers_inside,
)
from tilewright.tile.dispatch import ELEMENTWISE, FILLS, Decline, condition, elementwise, keywords_of, variant
from tilewright.tile.distribution import (
    Distribution,
    by_holders,
    by_runs,
    by_turns,
    extents_of_run,
    flowing,
    held_elsewhere,
    in_memory_order,
    registers_alike,
    unless_longer,
    widened,
)
from tilewright.tile.elements import Computation, Moving, computation, indexed
from tilewright.tile.owners import all_hold, axes_of, check_own, gaps, held_here, inside_tests, owners
from tilewright.tile.partition import places
from tilewright.tile.round_loops import emit_runs, once_each
from tilewright.tile.steps import (
    Builder,
    CallSteps,
    Scratch,
    ScratchRegisters,
    bringing,
    by_fewer_accesses,
    emit_steps,
    in_steps,
    inner_call,
    on_scratch,
    planned,
    staging,
)
from tilewright.tile.walks import Ints, digits_of, plus, times

# Runs of any memories: the copies, fills and computations that are one `Distribution` each, and when they fit.


ADDRESSED = only_in("local", "shared", "global")


@condition("clip= or fill= says that regions may leave their buffers")
def asked(call: TileCall) -> str | None:
    if any(operand.role.may_leave(dict(call.config)) for operand in call.row.operands):
        return None
    return "neither clip=True nor fill= is given"


@condition("the sides have different dtypes")
def dtypes_differ(call: TileCall) -> str | None:
    return None if call["dst"].dtype != call["src"].dtype else f"both sides are of {call.dtype}"


@condition("fill= is a number that the source could have")
def converted_as_well(call: TileCall) -> str | None:
    fill, kind = call.option(FILL), call["src"].dtype
    if not isinstance(fill, (int, float)):
        return None
    with np.errstate(all="ignore"):
        kept = np.asarray(fill).astype(kind.numpy).astype(np.float64) == fill
    return None if kept else f"fill={fill} is no {kind}"


@condition("a tile is in registers")
def some_registers(call: TileCall) -> str | None:
    return None if "local" in call.spaces else "all tiles are in shared or global memory"


# Copies by runs, of one dtype or converted.


@variant("copy", priority=4, keywords=("vec_len",), when=[bits_only, ADDRESSED, one_place_each])
def rows(call: TileCall) -> Distribution:
    """Runs in the order of a memory, threads in turns; extents may be those of the run."""
    plan = by_runs(call)
    if "local" in call.spaces and (better := by_fewer_accesses(call, plan)):
        raise better
    return plan


@variant(
    "copy",
    priority=3,
    keywords=("vec_len", *ASKED),
    when=[asked, ADDRESSED, bits_only, one_place_each, registers_inside],
)
def clipped(call: TileCall) -> Distribution:
    """Runs of up to 128 bits, of which those that a buffer ends in are copied element by element."""
    return by_runs(call)


@variant(
    "copy",
    priority=1,
    keywords=("vec_len", *ASKED),
    when=[dtypes_differ, ADDRESSED, one_place_each, registers_inside, converted_as_well],
)
def converted(call: TileCall) -> Distribution:
    """Runs of up to 128 bits are loaded, converted as by `cast`, and stored."""
    return by_runs(call)


# Computations by runs.


@elementwise(priority=20, when=[some_registers, ADDRESSED, constant_extents, one_place_each, registers_inside])
def holders(call: TileCall) -> Distribution:
    """Each thread computes the elements that it holds, with runs of memory of up to 128 bits."""
    leading = registers_alike(call)
    plan = by_turns(call) if leading is None else by_holders(call, leading)
    if better := by_fewer_accesses(call, plan):
        raise better
    return plan


@elementwise(priority=20, when=[only_in("shared", "global"), constant_extents, one_place_each])
def turns(call: TileCall) -> Distribution:
    """Neighbouring threads compute neighbouring runs, loaded and stored by accesses of up to 128 bits."""
    return unless_longer(call, by_turns(call))


@elementwise(priority=10, when=[ADDRESSED, one_place_each])
def flow(call: TileCall) -> Distribution:
    """Runs of rows whose length only the run knows, or of regions too large to be listed; the ends are tested."""
    return by_runs(call) if call["dst"].size is None else flowing(call)


for _row in (rows, clipped, converted, holders, turns, flow):
    _row.emit(emit_runs)


# Registers that other threads hold: copies bring them to the threads that compute, then another variant takes the
# call.
#
# An operand as large as the result goes to scratch registers by `permute_layout`. One that broadcasts goes to shared
# memory, where each thread finds what it needs.


CONDITIONS = (some_registers, only_in("local", "shared", "global"), by_several, constant_extents, one_place_each,
              registers_inside)  # fmt: skip


def plan_staged(call: TileCall) -> CallSteps:
    """The operands that other threads hold are brought to those that compute. Raises Decline."""
    leading = registers_alike(call)
    names = [] if leading is None else held_elsewhere(call, leading)
    if leading is None or not names:
        raise Decline("no tile is held by other threads than those that compute")
    plan = in_steps(call, on_scratch, {name: _scratch(call, call[name], leading) for name in names})
    *ways, rest = plan.chosen
    told = "; ".join(
        f"{call[name].name} by {bringing(room.side, call[name])}/{way.variant.name} ({way.plan.summary()})"
        for (name, room), way in zip(plan.scratch.items(), ways, strict=True)
    )
    return replace(plan, words=f"{told}, then {rest.variant.name}: {rest.plan.summary()}")


def _scratch(call: TileCall, side: Side, leading: Side) -> Scratch:
    """Registers of the threads that compute, if `permute_layout` brings the operand there; else memory."""
    if side.size == leading.size == call["dst"].size and leading.tile is not None and leading.swizzle is None:
        layout = TileLayout(
            leading.tile.shard, leading.tile.replica, [term for term in leading.tile.offset if term.axis.name != "m"]
        )
        buffer = Buffer("staged", side.dtype, side.shape, "local", layout)
        registers = ScratchRegisters(side_of(buffer.region(), call.facts))
        with suppress(Decline):  # every thread finds it in shared memory
            planned(inner_call(call, "permute_layout", {"dst": registers.side, "src": side}))
            return registers
    return staging(call, side.shape, side.dtype)


@elementwise(priority=5, when=CONDITIONS)
def staged(call: TileCall) -> CallSteps:
    """Operands that other threads hold are brought to those that compute, by permute_layout or shared memory."""
    return plan_staged(call)


@variant("copy", priority=1, when=[dtypes_differ, *CONDITIONS])
def permuted_and_converted(call: TileCall) -> CallSteps:
    """The elements are brought to the threads that hold them in the destination, and converted there."""
    return plan_staged(call)


staged.emit(emit_steps)
permuted_and_converted.emit(emit_steps)


# Any layouts: element by element. For places that follow no pattern, and registers that a region may leave.


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
        return [stack.enter_context(out.loop("i", extent)) for extent in plan.extents]
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


# The variants of fills: a value in memory, or in registers.


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("shared", "global")])
def memory(call: TileCall) -> Distribution:
    """Threads store neighbouring runs of up to 128 bits; those that the buffer ends in element by element."""
    return widened(call, lambda other: by_runs(_everywhere(other), order=_each_place_once(other)))


@variant(*FILLS, priority=10, keywords=("vec_len",), when=[only_in("local"), registers_inside])
def registers(call: TileCall) -> Distribution:
    """Each thread stores to the registers that it holds, all replicas among them."""
    return by_runs(call)


registers.emit(emit_runs)


@memory.emit
def _(plan: Distribution, call: TileCall, out: Builder) -> None:
    emit_runs(plan, _everywhere(call), out)


def _everywhere(call: TileCall) -> TileCall:
    """The call on a view in which each place of an element is one of its own: replicas are further dimensions."""
    dst = call["dst"]
    layout = dst.buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile, TileLayout) or not tile.replica:
        return call
    copies = tuple(it.extent for it in tile.replica)
    wide = TileLayout((*tile.replica, *tile.shard), (), tile.offset)
    view = replace(
        dst.buffer,
        shape=(*copies, *dst.buffer.shape),
        layout=ComposeLayout(layout.swizzle, wide) if isinstance(layout, ComposeLayout) else wide,
    )
    box = (*((0, count) for count in copies), *dst.region.box)
    return call.with_side(dst, side_of(Region(view, box), call.facts))


def _each_place_once(call: TileCall) -> Ints | None:
    """The elements in the order of the memory, of several in one place the first; None where each has its own."""
    side = _everywhere(call)["dst"]
    if side is call["dst"] or side.size is None:
        return None
    order, where = in_memory_order(side), places(side, call.facts)
    first = np.sort(np.unique(where.seen[0, order], return_index=True)[1])
    return order[first] if len(where.units) == 1 else order
