"""The conditions of variants on a call, apart from its layouts: each a sentence and a check; and the changes with which
a call would meet them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilewright.ir import Binary, Const, Expr, Region, Var, const_value, walk
from tilewright.layout import ComposeLayout, Iter, Layout, TileLayout
from tilewright.primitives.elements import VECTOR_BYTES
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change, Condition, Decline, condition
from tilewright.tile.owners import open_dimensions
from tilewright.tile.partition import missing_fact, places, storage_start
from tilewright.tile.scope import SPOKEN

if TYPE_CHECKING:
    from tilewright.isa import Form
    from tilewright.tile.partition import Places

# Changes that might let a better variant take a call. The dispatcher tries them, and shows only one that works.


def check_target(call: TileCall, name: str, form: Form) -> None:
    """A form that the target lacks is no error here: another variant may take the call. Raises Decline."""
    if not form.arch.admits(call.arch):
        first = form.arch.archs()[0]
        raise Decline(
            f"{name} exists on {form.arch}, not on {call.arch}",
            allowed=str(form.arch),
            changes=[Change(f'target="{first}"', replace(call, arch=first))],
        )


def alignments(call: TileCall, side: Side, where: Places, length: int, *, run: int | None = None) -> Iterator[Change]:
    """Changes that might make each start in ``side`` a multiple of ``length`` elements, the smallest first.

    run: how many elements stay together from such a start on, if not all.
    """
    nbytes = length * side.dtype.bits // 8
    yield from _promises(call, side, where, length)
    if (moved := _moved(side, length)) is not None:
        yield Change(f"{moved}, which begins at a multiple of {length}", _with_region(call, side, moved))
    if (padded := _padded(side.buffer.layout, length, run or length)) is not None:
        buffer = replace(side.buffer, layout=padded)
        text = f"{padded} for {side.name}, which makes its strides multiples of {nbytes} bytes"
        yield Change(text, _with_region(call, side, Region(buffer, side.region.box)))


def _promises(call: TileCall, side: Side, where: Places, length: int) -> Iterator[Change]:
    """Promises that a kernel can make without other changes: facts about its values, the alignment of a buffer."""
    nbytes, facts = length * side.dtype.bits // 8, call.facts
    before = storage_start(side.buffer, facts)[1]
    start = facts.simplify(before + where.seen_base * side.dtype.bits)
    strides = zip(where.units[1:], np.gcd.reduce(where.steps[1:], axis=1).tolist(), strict=True)
    missing = [missing_fact(facts, start, 8 * nbytes)]
    missing += [missing_fact(facts, unit * times, length) for unit, times in strides]
    wanted = {str(fact): fact for fact in missing if isinstance(fact, Expr) and call.scope.keeps_together(fact)}
    if wanted:
        for fact in wanted.values():
            facts = facts.with_condition(fact)
        yield Change(" and ".join(stated(call, fact) for fact in wanted.values()), replace(call, facts=facts))
    if side.buffer.align:
        aligned = replace(side.buffer, align=nbytes)
        yield Change(f"align={nbytes} on {side.name}", _with_region(call, side, Region(aligned, side.region.box)))


class PlannedAccesses(Protocol):
    """A plan of accesses of so many bytes each."""

    @property
    def nbytes(self) -> int: ...


def wider(call: TileCall, plan: PlannedAccesses, planner: Callable[[TileCall], PlannedAccesses]) -> str | None:
    """A promise of the kernel for wider accesses: the one with which ``planner`` plans the widest."""
    if call.option("vec_len") is not None:
        return None
    for nbytes in VECTOR_BYTES:
        for side in call.tiles:
            length = 8 * nbytes // side.dtype.bits
            if nbytes <= plan.nbytes or side.space == "local" or not length:
                continue
            for change in _promises(call, side, places(side, call.facts), length):
                if _planned(planner, change.call) >= nbytes:
                    return change.text
    return None


def _planned(planner: Callable[[TileCall], PlannedAccesses], call: TileCall) -> int:
    """The bytes of an access of the plan; 0 where there is none."""
    try:
        return planner(call).nbytes
    except Decline:
        return 0


def stated(call: TileCall, fact: Expr) -> str:
    """How a kernel says so: a fact about the arguments once and for all, any other by a condition."""
    spelled_out = call.scope.control.spelled_out(fact)
    if {type(node) for node in walk(spelled_out)} <= {Binary, Const, Var} and all(
        node.name in call.arguments for node in walk(spelled_out) if isinstance(node, Var)
    ):
        return f"T.assume({spelled_out})"
    return f"`if {fact}:` around the call"


def _with_region(call: TileCall, side: Side, region: Region) -> TileCall:
    return call.with_side(side, side_of(region, call.facts))


def _moved(side: Side, length: int) -> Region | None:
    """The region moved back to a start that ``length`` divides along its last dimension; None where it has one."""
    *before, (start, extent) = side.region.box
    number = const_value(start)
    if number is None or not number % length:
        return None
    return Region(side.buffer, (*before, (int(number) - int(number) % length, extent)))


def _padded(layout: Layout | None, length: int, run: int) -> Layout | None:
    """The layout with each stride beyond a run of elements rounded up to a multiple of ``length``; None if all are."""
    if isinstance(layout, ComposeLayout):
        tile = _padded(layout.tile, length, run)
        return ComposeLayout(layout.swizzle, tile) if isinstance(tile, TileLayout) else None
    if not isinstance(layout, TileLayout) or any(const_value(it.stride) is None for it in layout.shard):
        return None
    strides: dict[int, int] = {}
    end = 1
    for stride, extent in sorted((int(it.stride), int(it.extent)) for it in layout.shard if int(it.extent) > 1):
        wanted = stride if stride < run else -(-max(stride, end) // length) * length
        strides[stride] = wanted
        end = max(end, (extent - 1) * wanted + end)
    shard = [Iter(it.extent, strides.get(int(it.stride), it.stride), it.axis) for it in layout.shard]
    return None if strides == {old: old for old in strides} else replace(layout, shard=tuple(shard))


# The conditions.


def between(first: str, other: str) -> Condition:
    """The two sides are in these memories, in either order."""

    @condition(f"one side is in {first} memory, the other in {other}")
    def check(call: TileCall) -> str | None:
        if sorted(call.spaces) == sorted((first, other)):
            return None
        spaces = f"{call['src'].name} is in {call['src'].space} memory and {call['dst'].name} in {call['dst'].space}"
        return f"{spaces}, not {first} and {other}"

    return check


def between_in_order(src: str, dst: str) -> Condition:
    """The source is in the first memory, the destination in the second."""

    @condition(f"the source is in {src} memory, the destination in {dst}")
    def check(call: TileCall) -> str | None:
        if (call["src"].space, call["dst"].space) == (src, dst):
            return None
        return f"copies from {call['src'].space} to {call['dst'].space} memory, not from {src} to {dst}"

    return check


def element_bits(*widths: int) -> Condition:
    """All elements have one of these widths, in bits."""
    listed = " or ".join(map(str, widths))

    @condition(f"elements have {listed} bits")
    def check(call: TileCall) -> str | None:
        return None if call.dtype.bits in widths else f"{call.dtype} has {call.dtype.bits} bits, not {listed}"

    return check


@condition("vec_len= asks for no vectors")
def one_by_one(call: TileCall) -> str | None:
    asked = call.option("vec_len")
    return None if asked in (None, 1) else f"vec_len={asked}, and it goes element by element"


def only_in(*spaces: str) -> Condition:
    """Each tile is in one of these memories."""
    listed = " or ".join(spaces)

    @condition(f"all tiles are in {listed} memory")
    def check(call: TileCall) -> str | None:
        outside = next((side for side in call.tiles if side.space not in spaces), None)
        return None if outside is None else f"{outside.name} is in {outside.space} memory, not in {listed}"

    return check


def misplaced(call: TileCall, **wanted: Sequence[str]) -> str | None:
    """The operand that is in none of the memories that its name has here."""
    wrong = next((name for name, spaces in wanted.items() if call[name].space not in spaces), None)
    if wrong is None:
        return None
    name = "" if call[wrong].name == wrong else f", {call[wrong].name},"
    return f"{wrong}{name} is in {call[wrong].space} memory"


@condition("both sides have one dtype")
def bits_only(call: TileCall) -> str | None:
    dst, src = call["dst"], call["src"]
    return None if dst.dtype == src.dtype else f"{src.dtype} becomes {dst.dtype}, which is computed"


@condition("the region is known to be inside of its buffer")
def kept_inside(call: TileCall) -> str | None:
    for side in call.tiles:
        if dims := open_dimensions(call, side):
            return f"the region {side} may leave dimension {dims[0]} of {side.name}"
    return None


@condition("whole warps execute the call together: Tx.warp, Tx.wg, Tx.cta")
def whole_warps(call: TileCall) -> str | None:
    if call.scope.lanes == 32:
        return None
    return f"a {call.scope.kind} has {call.scope.lanes} of the 32 lanes that must execute the instruction together"


@condition("several threads execute the call together")
def by_several(call: TileCall) -> str | None:
    return "a thread alone holds all that it needs" if call.scope.kind == "thread" else None


@condition("all extents are numbers")
def constant_extents(call: TileCall) -> str | None:
    for side in call.tiles:
        if unknown := [extent for extent in side.extents if const_value(extent) is None]:
            return f"the extent {unknown[0]} of {side.name} is no constant"
    return None


@condition("elements that are written to memory have whole bytes")
def whole_bytes(call: TileCall) -> str | None:
    dst = call["dst"]
    return f"two elements of {dst.name} share a byte" if dst.space != "local" and dst.dtype.bits < 8 else None


@condition("the memory that is written holds each element once")
def one_place_each(call: TileCall) -> str | None:
    for side in call.written:
        if side.space != "local" and side.tile is not None and side.tile.replica:
            return f"{side.name} holds each element in several places: {side.tile}"
    return None


FOR_LOADS, FOR_STORES = ("mbar", "cta_mask"), ("use_tma_reduce",)


@condition("a load tells an m-barrier when it is complete (mbar=bar.ptr_to([0])); a store may reduce instead")
def one_way_keywords(call: TileCall) -> str | None:
    loads = call["dst"].space == "shared"
    if loads and call.option("mbar") is None:
        return "a load tells an m-barrier when it is complete"
    wrong = next((key for key in (FOR_STORES if loads else FOR_LOADS) if call.option(key)), None)
    return None if wrong is None else f"{wrong}= is not for {'loads' if loads else 'stores'}"


@condition("the tensor memory has an address: allocated_addr=")
def tmem_address(call: TileCall) -> str | None:
    side = call.side("tmem")
    return f"{side.name} has no allocated_addr" if side.buffer.allocated_addr is None else None


def _by_one_thread(call: TileCall) -> Iterator[Change]:
    """The same call made by a single thread."""
    first = np.arange(call.scope.cta_threads) == np.flatnonzero(call.scope.active)[0]
    scope = replace(call.scope, kind="thread", threads=1, active=first)
    yield Change(
        f"Tx.{call.stmt.primitive} in one thread: `if T.ptx.elect_sync():` in one warp", replace(call, scope=scope)
    )


def several_issuers(call: TileCall, kinds: Sequence[str], what: str) -> str | None:
    """Why not one thread, warp or other of ``kinds`` alone issues what a call does."""
    kind = call.scope.kind
    if kind not in kinds:
        return f"the threads of a {SPOKEN[kind]} execute the call together"
    starts = [start for side in call.tiles for start in side.starts]
    count = call.scope.alike(starts) // call.scope.threads
    return f"{count} {kind}s get here, and each would issue the same {what}" if count > 1 else None


@condition("one thread issues the copy", changes=_by_one_thread)
def single_thread(call: TileCall) -> str | None:
    return several_issuers(call, ("thread",), "copy")


@condition("the registers have a layout without a swizzle")
def plain_registers(call: TileCall) -> str | None:
    local = call.side("local")
    return None if local.swizzle is None else f"{local.name} is swizzled"


@condition("regions of registers are known to be inside of their buffers")
def registers_inside(call: TileCall) -> str | None:
    for side in call.tiles:
        if side.space != "local":
            continue
        dims = [dim for dim in open_dimensions(call, side) if const_value(side.extents[dim]) is not None]
        if dims:  # those whose extents only the run knows end with the registers: see `distribution.covered`
            return f"the region {side} may leave dimension {dims[0]} of {side.name}"
    return None


def source_in(*spaces: str) -> Condition:
    """The source is in one of these memories."""

    @condition("the source is in registers" if "local" in spaces else f"the source is in {' or '.join(spaces)} memory")
    def check(call: TileCall) -> str | None:
        src = call["src"]
        return None if src.space in spaces else f"{src.name} is in {src.space} memory"

    return check


from_registers = source_in("local")
