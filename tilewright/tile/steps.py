"""Calls inside of a call: a variant brings tiles of its own, or cuts one that no layout describes, and has others carry
out the parts of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Protocol, TypeAlias

from tilewright import ir
from tilewright.dtypes import DType
from tilewright.errors import DispatchError, LayoutError
from tilewright.ir.launch import ELEMENT
from tilewright.layout import Iter, Layout, TileLayout
from tilewright.primitives.copy import ASKED
from tilewright.records import replace
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, dimensions_of, side_of
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import ELEMENTWISE, FILLS, Chosen, Decline, Plan, choose, condition, keywords_of, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.elements import indexed
from tilewright.tile.partition import vector_lengths
from tilewright.tile.scope import which_of_its_kind
from tilewright.tile.walks import times

MOST_BYTES = 96 * 1024  # bytes of scratch memory for one call
APART = 1024  # bytes: each scope's part begins at a multiple, where every swizzle's pattern begins


def inner_call(call: TileCall, primitive: str, sides: dict[str, Side], **config: ir.Argument) -> TileCall:
    """A call by the same threads, in the place of a part of ``call``."""
    settings = tuple(config.items())
    regions = tuple(side.region for side in sides.values())
    stmt = replace(call.stmt, primitive=primitive, args=regions, dispatch=None, config=settings)
    return replace(call, stmt=stmt, sides=sides, config=settings, scalars={})


def planned(call: TileCall) -> Chosen:
    """The variant that takes it. Raises Decline where none does, or only element by element."""
    try:
        chosen = choose(call)
    except DispatchError as error:
        raise Decline(f"{error.what}: {error.given}") from None
    if chosen.variant.name == "fallback":
        raise Decline(f"{call.text} would go element by element")
    return chosen


class Scratch(Protocol):
    """A tile that the calls bring: ``side`` while planning, `allocated` in the code."""

    @property
    def side(self) -> Side: ...

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile under a name of its own."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ScratchRegisters:
    """Scratch registers of a layout."""

    side: Side

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in registers of its own."""
        buffer = replace(self.side.buffer, name=out.names.new(self.side.name))
        out.add(ir.AllocBuffer(buffer, at=out.at))
        return side_of(buffer.region(), call.facts)


@dataclass(frozen=True, slots=True, eq=False)
class Staging:
    """Scratch memory of ``count`` elements, of which a view has a layout."""

    side: Side
    count: int

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile in scratch memory of the call."""
        base, start = out.scratch(call, "scratch", self.count, str(self.side.dtype), align=APART)
        view = replace(
            self.side.buffer, name=out.names.new("staged"), data=ir.AddressOf(base, (ir.as_expr(start),)), align=0
        )
        out.add(ir.DeclBuffer(view, at=out.at))
        return side_of(view.region(), call.facts)


def staging(call: TileCall, shape: tuple[int, ...], kind: DType, layout: Layout | None = None) -> Staging:
    """Scratch memory for a tile of this shape, row-major unless a layout is given. Raises Decline if too large."""
    buffer = ir.Buffer("scratch", kind, shape, "shared", layout or ir.row_major(shape))
    unit = max(1, APART * 8 // kind.bits)
    count = -(-buffer.storage_size() // unit) * unit
    groups = call.scope.cta_threads // call.scope.threads
    if count * kind.bits // 8 * groups > MOST_BYTES:
        needed = prod(shape) * kind.bits // 8 * groups
        raise Decline(f"{needed} bytes of scratch memory, at most {MOST_BYTES} are taken")
    base = ir.Buffer("scratch", kind, (count * groups,), "shared", ir.row_major((count * groups,)), align=APART)
    view = replace(buffer, data=ir.AddressOf(base, (ir.as_expr(times(which_of_its_kind(call.scope), count)),)))
    return Staging(side_of(view.region(), call.facts), count)


Calls: TypeAlias = Callable[[TileCall, Mapping[str, Side]], Sequence[TileCall]]
"""The calls in the place of one, on its tiles and on those that they bring, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSteps:
    """Calls one after the other. chosen: what carries each of them out. words: of the report."""

    scratch: Mapping[str, Scratch]
    calls: Calls
    chosen: tuple[Chosen, ...]
    words: str = ""

    def summary(self) -> str:
        """The words, else what each call does: ``2 x 16 bytes per thread; 4 shuffles``."""
        return self.words or "; ".join(step.plan.summary() for step in self.chosen)


def in_steps(call: TileCall, calls: Calls, scratch: Mapping[str, Scratch] | None = None) -> CallSteps:
    """The plan of calls with this scratch. Raises Decline where one of them has none."""
    rooms = scratch or {}
    sides = {name: room.side for name, room in rooms.items()}
    return CallSteps(rooms, calls, tuple(map(planned, calls(call, sides))))


def through_memory(call: TileCall, *names: str) -> CallSteps:
    """The plan of the call with these tiles in scratch memory. Raises Decline."""
    plan = in_steps(call, on_scratch, {name: staging(call, call[name].shape, call[name].dtype) for name in names})
    return replace(plan, words=f"through shared memory: {plan.summary()}")


def bringing(scratch: Side) -> str:
    """What brings an operand to scratch registers or memory."""
    return "permute_layout" if scratch.space == "local" else "copy"


def on_scratch(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    """The call on scratch tiles, with what brings its sources there, and what brings dst from there."""
    sources = ((call[name], there) for name, there in scratch.items() if name != "dst")
    before = [inner_call(call, bringing(there), {"dst": there, "src": side}) for side, there in sources]
    work = replace(call, stmt=replace(call.stmt, dispatch=None), sides={**call.sides, **scratch})
    after = [inner_call(call, "copy", {"dst": call["dst"], "src": scratch["dst"]})] if "dst" in scratch else []
    return [*before, work, *after]


def emit_steps(plan: CallSteps, call: TileCall, out: Builder) -> None:
    """Writes the calls. The threads meet between two that touch the same scratch memory, and before they leave it."""
    sides = {name: room.allocated(call, out) for name, room in plan.scratch.items()}
    memory = {sides[name].name for name, room in plan.scratch.items() if isinstance(room, Staging)}
    touched = set[str]()
    for chosen, step in zip(plan.chosen, plan.calls(call, sides), strict=True):
        names = memory & {side.name for side in step.tiles}
        if touched & names:
            out.meet(call)
            touched.clear()
        chosen.write(step, out)
        touched |= names
    if touched:
        out.meet(call)


# A part of a register tile that no layout describes, as boxes that layouts describe. With eight elements in a thread
# ``x[0:1001]`` is all registers of 125 threads and one of another. Each box is a tile call of its own. So are the runs
# of a line that is no multiple of an access: of 127 elements 124 go by 16 bytes, two by 8 bytes, and one by itself.


MOST_PIECES = 16
Box = tuple[tuple[int, int], ...]


@condition("a tile in registers is a part of its buffer, or has lines that are no multiple of an access")
def registers_cut(call: TileCall) -> str | None:
    cut = any(map(_is_cut, call.tiles)) or len(_boxes(call, _longest_run(call))) > 1
    return None if cut else "no tile in registers is cut"


def in_pieces(call: TileCall) -> CallSteps:
    """The plans of the boxes, cut into runs where that makes fewer accesses.

    Raises Decline where one box is all, or there are too many, or one has no plan.
    """
    if any(ir.const_value(extent) is None for extent in call["dst"].extents):
        raise Decline("registers have extents that are numbers")
    coarse, fine = _boxes(call), _boxes(call, _longest_run(call))
    several = [boxes for boxes in dict.fromkeys((fine, coarse)) if 1 < len(boxes) <= MOST_PIECES]
    if not several:
        raise Decline(f"the region makes {len(coarse)} boxes of registers, not 2 to {MOST_PIECES}")
    plans = (in_steps(call, partial(_pieces, boxes=boxes)) for boxes in several)
    plan = min(plans, key=accesses_of)
    parts = "; ".join(f"{piece.variant.name}, {piece.plan.summary()}" for piece in plan.chosen)
    return replace(plan, words=f"in {len(plan.chosen)} parts: {parts}")


def accesses_of(plan: Plan) -> int:
    """Of a thread, as far as they are counted."""
    if isinstance(plan, CallSteps):
        return sum(accesses_of(piece.plan) for piece in plan.chosen)
    return plan.rounds if isinstance(plan, Distribution) else 0


def by_fewer_accesses(call: TileCall, plan: Distribution) -> Decline | None:
    """Why the plan is left to `in_pieces`: whole runs of its lines, and what is left of them, are fewer accesses."""
    asked = call.stmt.dispatch is not None or call.option("vec_len") is not None
    if not plan.limit or asked or _has_whole_lines(call) or len(_boxes(call, _longest_run(call))) < 2:
        return None
    try:
        pieces = in_pieces(call)
    except Decline:
        return None
    accesses, simple = accesses_of(pieces), all(isinstance(piece.plan, Distribution) for piece in pieces.chosen)
    fewer = simple and accesses < plan.rounds
    return Decline(f"{accesses} accesses in {len(pieces.chosen)} parts, here {plan.rounds}") if fewer else None


def _has_whole_lines(call: TileCall) -> bool:
    """Are all registers whole buffers whose lines are multiples of the widest access? Then there is nothing to cut."""
    run = _longest_run(call)
    local = [side for side in call.tiles if side.space == "local"]
    return all(not _is_cut(side) and int(ir.const_value(side.extents[-1]) or 1) % run == 0 for side in local)


def _boxes(call: TileCall, run: int = 1) -> tuple[Box, ...]:
    """The boxes of dst; their runs along registers are multiples of ``run``, or shorter ones at either end."""
    extents = call["dst"].extents
    cuts: list[set[int]] = [{0, int(ir.const_value(extent) or 0)} for extent in extents]
    for side in call.tiles:
        if side.space == "local" and (run > 1 or _is_cut(side)):
            for side_dim, dim in dimensions_of(side, extents):
                cuts[dim].update(_cuts(side, side_dim, run))
    return tuple(product(*(list(pairwise(sorted(places))) for places in cuts)))


def _longest_run(call: TileCall) -> int:
    """Elements of the widest access to memory; 1 where all tiles are in registers."""
    return 1 if set(call.spaces) == {"local"} else max(vector_lengths(call), default=1)


def emit_pieces(plan: CallSteps, call: TileCall, out: Builder) -> None:
    """Writes one box after the other; values are computed once, before the first."""
    scalars = {
        name: value if isinstance(value, ir.Const) or indexed(value) else out.let(name, value)
        for name, value in call.scalars.items()
    }
    emit_steps(plan, replace(call, scalars=scalars), out)


def parts(call: TileCall) -> CallSteps:
    """A part of registers that no layout describes goes in several boxes that layouts describe."""
    return in_pieces(call)


for _names, _priority, _keywords in (
    (("copy",), 2, ("vec_len", *ASKED)),
    (FILLS, 5, ("vec_len",)),
    (ELEMENTWISE, 15, keywords_of(*ELEMENTWISE)),
):
    _when = [registers_cut, only_in("local", "shared", "global")]
    variant(*_names, priority=_priority, keywords=_keywords, when=_when)(parts).emit(emit_pieces)


def _is_cut(side: Side) -> bool:
    return side.space == "local" and side.extents != side.buffer.shape


def _cuts(side: Side, dim: int, run: int) -> list[int]:
    """Where a region of registers is cut in a dimension, counted from its begin: see `_between` and `_runs`."""
    begin, count, shape = ir.const_value(side.starts[dim]), ir.const_value(side.extents[dim]), side.buffer.shape
    tile = side.buffer.layout.parted(shape)[1] if side.buffer.layout is not None else None
    if begin is None or count is None or not isinstance(tile, TileLayout):
        return []
    try:
        grouped, ends = tile.canonicalize().group(shape)
    except LayoutError:
        return []
    iters = grouped.shard[ends[dim] : ends[dim + 1]]
    cuts = _between([int(ir.const_value(it.extent) or 1) for it in iters], int(begin), int(begin + count))
    return [cut - int(begin) for part in pairwise(sorted({*cuts})) for cut in (*part, *_runs(iters, *part, run))]


def _runs(iters: Sequence[Iter], begin: int, end: int, run: int) -> list[int]:
    """Where a piece of one line of neighbouring registers is cut, so that the longest part is a multiple of ``run``."""
    if run == 1 or not iters or iters[-1].axis.name != "m" or iters[-1].stride != 1:
        return []
    line = int(ir.const_value(iters[-1].extent) or 1)
    if begin // line != (end - 1) // line:
        return []
    cuts, at, last = list[int](), begin % line, begin % line + end - begin
    while at < last:
        step = next(size for size in _powers(run) if at % size == 0 and at + size <= last)
        at += (last - at) // run * run if step == run else step
        cuts.append(at - begin % line + begin)
    return cuts


def _powers(most: int) -> list[int]:
    """The powers of two up to ``most``, from there down."""
    return [1 << bit for bit in reversed(range(most.bit_length()))]


def _between(extents: Sequence[int], begin: int, end: int) -> list[int]:
    """The cuts between ``begin`` and ``end``: in a piece one digit varies, and those after it take all their values."""
    size = 1
    for extent in extents[1:]:
        size *= extent
    if begin >= end or size == 1:
        return [begin, end]
    first, last = -(-begin // size) * size, end // size * size
    if first > last:  # inside of one block
        block = begin // size * size
        return [block + cut for cut in _between(extents[1:], begin - block, end - block)]
    head = [first - size + cut for cut in _between(extents[1:], begin - first + size, size)] if begin < first else []
    tail = [last + cut for cut in _between(extents[1:], 0, end - last)] if last < end else []
    return [*head, begin if begin == first else first, last, *tail]


def _pieces(call: TileCall, _: Mapping[str, Side], boxes: Sequence[Box]) -> list[TileCall]:
    return [_piece(call, box) for box in boxes]


def _piece(call: TileCall, box: Box) -> TileCall:
    """The call for one box of dst."""
    extents, sides = call["dst"].extents, dict[str, Side]()
    for name, side in call.sides.items():
        parts = list(side.region.box)
        for side_dim, dim in dimensions_of(side, extents):
            low, high = box[dim]
            parts[side_dim] = (side.starts[side_dim] + low, high - low)
        sides[name] = side_of(ir.Region(side.buffer, tuple(parts)), call.facts)

    def moved(node: ir.Expr) -> ir.Expr | None:
        if isinstance(node, ir.Special) and node.name in ELEMENT:
            return node + box[ELEMENT.index(node.name)][0]
        return None

    values = {name: ir.rewrite(value, moved) if indexed(value) else value for name, value in call.scalars.items()}
    stmt = replace(call.stmt, dispatch=None)
    return replace(call, stmt=stmt, sides=sides, scalars=values)
