"""The variants of `permute_layout`: each counts what it costs, and leaves the call to a cheaper one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright import isa
from tilewright.dtypes import DType
from tilewright.ir import AddressOf, Expr, Load, Value, as_expr, binary, select, special
from tilewright.isa import ALL_LANES
from tilewright.layout import ComposeLayout, Iter, Layout, S, SwizzleLayout, TileLayout
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import by_several, constant_extents, element_bits, one_place_each, only_in, whole_warps
from tilewright.tile.dispatch import (
    SHUFFLE,
    Chosen,
    CostedPlan,
    Decline,
    cheapest,
    matrix_wavefronts,
    meeting_cost,
    variant,
    vector_wavefronts,
)
from tilewright.tile.distribution import Distribution, dealt_out, in_memory_order
from tilewright.tile.matrices import MatrixPlan
from tilewright.tile.owners import Owners, owners, registers_of
from tilewright.tile.partition import one_storage, places
from tilewright.tile.reductions import spread
from tilewright.tile.round_loops import Turn, Writer, emit_copies, emit_runs
from tilewright.tile.steps import Builder, CallSteps, emit_steps, in_steps, inner_call, staging
from tilewright.tile.walks import Ints, Offset, linear, plus, times

# Between memories: threads read all elements, meet, and write them; the same memory may be both.


MOST_BYTES = 256  # bytes of a thread's registers


@dataclass(frozen=True, slots=True, eq=False)
class ReadAndWrite(CostedPlan):
    """share: the elements of each thread. at_once: all is read before anything is written."""

    share: Distribution
    at_once: bool


@variant("permute_layout", priority=10, when=[only_in("shared", "global"), constant_extents, one_place_each])
def memory(call: TileCall) -> ReadAndWrite:
    """The threads read everything into registers, meet, and write it."""
    at_once = one_storage(call)
    how = ", all read before any is written" if at_once else ""
    plans = [
        ReadAndWrite(f"{share.summary()}{how}", _cost(call, share, order), share, at_once)
        for order in map(in_memory_order, call.tiles)
        for share in [dealt_out(call, order)]
    ]
    plan = min(plans, key=lambda candidate: candidate.cost)
    nbytes = plan.share.rounds * plan.share.nbytes
    if at_once and nbytes > MOST_BYTES:
        raise Decline(f"each thread would hold {nbytes} bytes at a time, at most {MOST_BYTES}")
    return plan


def _cost(call: TileCall, share: Distribution, order: Ints) -> int:
    """Accesses of a warp with the turns that banks need for them; global memory is counted as if it had banks, too."""
    total, threads = 2 * share.rounds + 2 * meeting_cost(call), call.scope.threads
    for side in call.tiles:
        first = places(side, call.facts).seen[0][order][:: share.vector] * side.dtype.bits // 8
        whole = len(first) // threads * threads
        total += vector_wavefronts(first[:whole].reshape(-1, threads).T, share.nbytes) if whole else 1
    return total


@memory.emit
def _(plan: ReadAndWrite, call: TileCall, out: Builder) -> None:
    share = plan.share
    if not plan.at_once:
        emit_copies(share, call, out)
        out.meet(call)
        return
    registers = out.local("run", share.rounds * share.vector, str(call.dtype)).flat()
    for name in ("src", "dst"):

        def moved(writer: Writer, turn: Turn, name: str = name) -> None:
            (there,) = writer.pointers(turn, name)
            here = AddressOf(registers, (as_expr(times(turn.round, share.vector)),))
            out.call("cuda.copy_bytes", *((here, there) if name == "src" else (there, here)), share.nbytes)

        emit_runs(share, call, out, moved)
        out.meet(call)


# Registers to registers of the same thread: moves.


def _holders(call: TileCall) -> list[Owners]:
    """The threads that hold the destination, and those that hold the source."""
    return [owners(call, side, loading=True) for side in call.tiles]


def _slots(call: TileCall, held: Owners, slots: Ints) -> Offset:
    """The slots one after the other. Raises Decline where they follow no pattern."""
    if (offset := held.offset_of(slots)) is None:
        raise Decline(f"the slots of {call['dst'].name} and {call['src'].name} follow no common pattern")
    return offset


@dataclass(frozen=True, slots=True, eq=False)
class Moves(CostedPlan):
    """dst, src: the slots of each move, which costs one issue slot. guard: holds in threads with some of dst."""

    dst: Offset
    src: Offset
    guard: Expr | None


@variant("permute_layout", priority=10, when=[only_in("local"), constant_extents])
def moves(call: TileCall) -> Moves:
    """Each thread has what it needs already, and moves it."""
    (dst, src), (into, held) = call.tiles, _holders(call)
    wanted, has = spread(call, into, into.elements), spread(call, held, held.elements)
    fits = ((wanted[:, :, None] == has[:, None, :]) | (wanted < 0)[:, :, None]).all(axis=0)
    if not fits.any(axis=1).all():
        raise Decline(f"elements of {src.name} are held by other threads in {dst.name}, or in registers that differ")
    to, source = _slots(call, into, into.slots), _slots(call, held, held.slots[fits.argmax(axis=1)])
    count = len(into.slots)
    return cheapest(call, "moves", Moves(f"{count} moves per thread", count, to, source, into.guard(storing=False)))


@moves.emit
def _(plan: Moves, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", plan.cost, str(call.dtype)).flat()
    with out.when(plan.guard):
        to, source = out.offsets(plan.dst, "r"), out.offsets(plan.src, "r")
        with out.loop("j", plan.cost) as j:
            out.store(run, j, Load(src, (as_expr(source(j)),)))
        with out.loop("j", plan.cost) as j:
            out.store(dst, to(j), Load(run, (as_expr(j),)))


# Registers to registers of other lanes by movmatrix: a warp transposes 8x8 matrices of 16-bit elements.


@dataclass(frozen=True, slots=True, eq=False)
class Transposes(CostedPlan):
    """count: of instructions, each of which costs as much as a shuffle and a move. dst, src: the first slots of its
    registers in the destination and in the source.
    """

    count: int
    dst: Offset
    src: Offset


@variant("permute_layout", priority=10, when=[only_in("local"), whole_warps, element_bits(16), constant_extents])
def movmatrix(call: TileCall) -> Transposes:
    """Warps transpose 8x8 matrices of 16-bit elements in their registers."""
    (dst, src), (into, held) = call.tiles, _holders(call)
    wanted, has = registers_of(call, dst, into, 16), registers_of(call, src, held, 16)
    if (
        len(wanted) != len(has)
        or not np.array_equal(into.threads, held.threads)
        or len(into.threads) < call.scope.threads
    ):
        raise Decline(f"{dst.name} and {src.name} are held by different warps")
    warps, _, registers, _ = has.shape
    turned = has.reshape(warps, 8, 4, registers, 2).transpose(0, 3, 1, 2, 4).reshape(warps, registers, 8, 8)
    offered = turned.swapaxes(-1, -2).reshape(warps, registers, 32, 2)
    asked = wanted.transpose(0, 2, 1, 3)
    fits = (asked[:, :, None] == offered[:, None]).all(axis=(0, 3, 4))
    if not fits.any(axis=1).all():
        raise Decline(f"the registers of {dst.name} are no transposed matrices of {src.name}")
    to, source = _slots(call, into, into.slots[::2]), _slots(call, held, held.slots[::2][fits.argmax(axis=1)])
    count = len(fits)
    return cheapest(call, "movmatrix", Transposes(f"{count} movmatrix", count * (SHUFFLE + 1), count, to, source))


@movmatrix.emit
def _(plan: Transposes, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", 2 * plan.count, str(call.dtype)).flat()
    to, source = out.offsets(plan.dst, "r"), out.offsets(plan.src, "r")
    with out.loop("j", plan.count) as j:
        place, source_value = (Load(flat, (as_expr(at),)) for flat, at in ((run, plus(j, j)), (src, source(j))))
        out.call("ptx.movmatrix", place, source_value, shape="m8n8", trans=True, type=".b16")
    with out.loop("j", plan.count) as j:
        for half in (0, 1):
            out.store(dst, plus(to(j), half), Load(run, (as_expr(plus(plus(j, j), half)),)))


# Registers to registers of other lanes: each register of the destination comes by shuffles from one lane each.


@dataclass(frozen=True, slots=True)
class Fetch:
    """How one register of the destination is filled.

    lane: the lane that each lane asks. sources: the registers that lanes give by turns; of several, ``which`` is the
    one that a lane wants.
    """

    slot: int
    lane: Value
    sources: tuple[int, ...]
    which: Value


@dataclass(frozen=True, slots=True, eq=False)
class Shuffles(CostedPlan):
    """One fetch for each register. bases: what is added to the slots of the destination and of the source."""

    fetches: tuple[Fetch, ...]
    bases: tuple[Value, Value]
    guard: Expr | None


@variant("permute_layout", priority=10, when=[only_in("local"), whole_warps, constant_extents])
def shuffles(call: TileCall) -> Shuffles:
    """Lanes get what they need from lanes of their own warp."""
    (dst, src), (into, held) = call.tiles, _holders(call)
    lane, slot = _sources(spread(call, into, into.elements), spread(call, held, held.elements), dst.name)
    fetches = []
    for column, to in enumerate(into.slots.tolist()):
        used, which = np.unique(slot[:, column], return_inverse=True)
        asked, wanted = (linear(values.reshape(-1), [special("laneid")]) for values in (lane[:, column], which))
        if asked is None or wanted is None:
            raise Decline(f"the lanes that hold {src.name} follow no pattern")
        fetches.append(Fetch(to, asked, tuple(held.slots[used].tolist()), wanted))
    count, registers = sum(len(fetch.sources) for fetch in fetches), len(fetches)
    cost = count * SHUFFLE + 2 * (count - registers) + registers  # a selection for each further source of a register
    bases, guard = (into.base, held.base), into.guard(storing=False)
    return cheapest(call, "shuffles", Shuffles(f"{count} shuffles", cost, tuple(fetches), bases, guard))


def _sources(wanted: Ints, has: Ints, name: str) -> tuple[Ints, Ints]:
    """For each lane and register the lane and the number of the register that it comes from: (32, registers).

    Raises Decline unless that is the same in all warps, and in the own warp.
    """
    sources = None
    for first in range(0, len(wanted), 32):
        mine, theirs = wanted[first : first + 32], has[first : first + 32]
        place = np.full(max(int(wanted.max()), int(has.max())) + 1, -1)
        lanes = np.arange(32)
        for column in range(theirs.shape[1]):
            held = theirs[:, column] >= 0
            place[theirs[held, column]] = lanes[held] * theirs.shape[1] + column
        place = np.where(place < 0, -1, place)
        asked = np.where(mine >= 0, place[mine], 0)
        if (asked < 0).any():
            raise Decline(f"{name} needs elements that other warps have")
        if sources is not None and not np.array_equal(sources, asked):
            raise Decline("warps would shuffle in different ways")
        sources = asked
    assert sources is not None
    lane, slot = np.divmod(sources, has.shape[1])
    return lane, slot


@shuffles.emit
def _(plan: Shuffles, call: TileCall, out: Builder) -> None:
    dst, src = call["dst"].buffer.flat(), call["src"].buffer.flat()
    run = out.local("run", len(plan.fetches), str(call.dtype)).flat()
    for number, fetch in enumerate(plan.fetches):
        lane = out.let("lane", fetch.lane)
        values: list[Expr] = []
        for source in fetch.sources:
            value = Load(src, (as_expr(plus(plan.bases[1], source)),))
            values.append(out.let("other", isa.call("cuda.shfl_sync", ALL_LANES, value, lane)))
        total = values[-1]
        for position in reversed(range(len(values) - 1)):
            total = select(binary("==", fetch.which, position), values[position], total)
        out.store(run, number, total)
    with out.when(plan.guard):
        for number, fetch in enumerate(plan.fetches):
            out.store(dst, plus(plan.bases[0], fetch.slot), Load(run, (as_expr(number),)))


# Registers to registers of any thread, through shared memory, in a layout of it without bank conflicts.
#
# Two copies do it, each by the variant that takes it: vectors, or stmatrix and ldmatrix.


@dataclass(frozen=True, slots=True, eq=False)
class ThroughScratch(CostedPlan):
    """The copy to scratch memory and the one from there."""

    steps: CallSteps


@variant("permute_layout", priority=10, when=[only_in("local"), by_several, constant_extents])
def scratch(call: TileCall) -> ThroughScratch:
    """Threads store to shared memory, meet, and load what they need."""
    best: ThroughScratch | None = None
    reason = ""
    shape = tuple(extent for extent in call["dst"].shape if extent != 1) or (1,)
    for layout in _layouts(shape, call.dtype):
        room = staging(call, shape, call.dtype, layout)
        try:
            steps = in_steps(call, _copies, {"memory": room})
            ends = zip(steps.chosen, ("src", "dst"), strict=True)
            cost = sum(_cost_of_copy(call, room.side, copy, name) for copy, name in ends) + 2 * meeting_cost(call)
        except Decline as declined:
            reason = declined.reason
            continue
        if best is None or cost < best.cost:
            ways = ", then ".join(f"{step.variant.name} {step.plan.summary()}" for step in steps.chosen)
            best = ThroughScratch(f"through shared memory as {room.side.buffer.layout}: {ways}", cost, steps)
    if best is None:
        raise Decline(reason)
    return cheapest(call, "scratch", best)


def _layouts(shape: tuple[int, ...], kind: DType) -> Iterator[Layout]:
    """Row-major and column-major memory, plain, padded and swizzled by 16 bytes."""
    rows, columns = prod(shape[:-1]), shape[-1]
    vector = max(1, 128 // kind.bits)
    yield S[shape]
    for outer, inner, turned in ((rows, columns, False), (columns, rows, True)):
        if min(outer, inner) == 1:
            continue
        pitches = (inner, -(-inner // vector) * vector + vector, inner + max(1, 32 // kind.bits))
        for pitch in pitches:
            yield TileLayout([Iter(rows, 1), Iter(columns, pitch)] if turned else [Iter(rows, pitch), Iter(columns, 1)])
        period = vector.bit_length() - 1
        bits = min(3, (inner // vector).bit_length() - 1)
        if not turned and inner & (inner - 1) == 0 and bits > 0:
            shift = max(bits, (inner // vector).bit_length() - 1)
            yield ComposeLayout(SwizzleLayout(period, bits, shift), S[rows, columns])


def _copies(call: TileCall, scratch: Mapping[str, Side]) -> tuple[TileCall, TileCall]:
    store = inner_call(call, "copy", {"dst": scratch["memory"], "src": call["src"]})
    return store, inner_call(call, "copy", {"dst": call["dst"], "src": scratch["memory"]})


def _cost_of_copy(call: TileCall, memory: Side, chosen: Chosen, name: str) -> int:
    """The cost of one of the two copies, for a warp."""
    plan = chosen.plan
    held = owners(call, call[name], loading=name == "dst")
    bits = call.dtype.bits
    addresses = places(memory, call.facts).seen[0][held.elements] * bits // 8
    if isinstance(plan, MatrixPlan):
        return plan.rounds + matrix_wavefronts(addresses, 32 // bits)
    assert isinstance(plan, Distribution)
    return plan.rounds + vector_wavefronts(addresses[:, :: plan.vector], plan.nbytes)


scratch.emit(lambda plan, call, out: emit_steps(plan.steps, call, out))
