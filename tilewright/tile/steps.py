"""Writing the body of a tile call: statements that know their line, names that are new to the kernel; and calls inside
of a call, for tiles of its own or the parts of one that no layout describes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from tilewright import ir, isa
from tilewright.dtypes import HANDLE, INT32, DType, dtype
from tilewright.errors import DispatchError, LayoutError, Span
from tilewright.ir.buffer import map_buffer
from tilewright.ir.launch import ELEMENT
from tilewright.ir.tensor_map import MapOf
from tilewright.layout import Iter, Layout, TileLayout
from tilewright.primitives.copy import ASKED
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, dimensions_of, side_of
from tilewright.tile.conditions import only_in
from tilewright.tile.dispatch import ELEMENTWISE, FILLS, Chosen, Decline, Plan, choose, condition, keywords_of, variant
from tilewright.tile.distribution import Distribution
from tilewright.tile.elements import indexed
from tilewright.tile.partition import vector_lengths
from tilewright.tile.scope import MeetingPlaces, in_workspace, which_of_its_kind
from tilewright.tile.walks import apart, plus, times

if TYPE_CHECKING:
    from tilewright.ir.ranges import RangeFacts
    from tilewright.tile.walks import LoopTurns, Offset


# Writing the body of a tile call: statements that know their line, names that are new to the kernel.


Made = TypeVar("Made")


class Preparations:
    """Statements for tile calls right behind the declaration of a buffer, each once in a kernel. (Mutable.)"""

    def __init__(self) -> None:
        self._results: dict[tuple[str, Hashable], object] = {}
        self._written: dict[str, ir.Body] = {}
        self.maps: dict[MapOf, tuple[MapOf, ir.Buffer]] = {}

    def tensor_map(self, of: MapOf, names: ir.FreshNames) -> ir.Buffer:
        """The tensor map with these fields, an argument that the kernel gets besides those that it names."""
        if of not in self.maps:
            named = replace(of, name=names.new(f"{of.of}_map"))
            self.maps[of] = named, map_buffer(named.name)
        return self.maps[of][1]

    def once(self, buffer: ir.Buffer, key: Hashable, out: Builder, write: Callable[[Builder], Made]) -> Made:
        """The result of ``write`` for this buffer and key; at the first time, ``out`` takes what it writes."""
        if (buffer.name, key) not in self._results:
            self._results[buffer.name, key] = write(out)
            self._written[buffer.name] = (*self._written.get(buffer.name, ()), *out.body)
        return cast(Made, self._results[buffer.name, key])

    def placed(self, body: ir.Body) -> ir.Body:
        """``body`` with everything behind the declaration it belongs to."""

        def followed(stmt: ir.Stmt) -> ir.Body | None:
            mine = (
                self._written.pop(stmt.buffer.name, None) if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)) else None
            )
            return None if mine is None else (stmt, *mine)

        done = ir.map_body(body, followed) if self._written else body
        assert not self._written, f"no declaration of {', '.join(self._written)}"
        return done


def _picked(values: list[ir.Value], index: ir.Value) -> ir.Value:
    """The value that an index chooses from a list of values."""
    *rest, total = values
    for position, value in reversed(list(enumerate(rest))):
        total = ir.select(ir.binary("==", index, position), value, total)
    return total


class Builder:
    """Collects the statements of one tile call, each at the call's line. (Mutable.)"""

    def __init__(
        self,
        names: ir.FreshNames,
        at: Span | None,
        facts: RangeFacts,
        preparations: Preparations | None = None,
        meeting: MeetingPlaces | None = None,
    ) -> None:
        self.names = names
        self.at = at
        self.facts = facts
        self.preparations = preparations or Preparations()
        self._meeting = meeting
        self._scratches = self._workspace_bytes = 0
        self._bodies: list[list[ir.Stmt]] = [[]]

    @property
    def body(self) -> ir.Body:
        """What has been written so far."""
        return tuple(self._bodies[0])

    def add(self, stmt: ir.Stmt) -> None:
        """Write a statement at the current place."""
        self._bodies[-1].append(stmt)

    def comment(self, text: str) -> None:
        """A line for the reader of the emitted code."""
        self.add(ir.Attr((("comment", text),), at=self.at))

    def let(self, name: str, value: ir.Value) -> ir.Expr:
        """Name a value. A number stays one."""
        expr = ir.as_expr(value)
        var = ir.Var(self.names.new(name), HANDLE if expr.dtype == HANDLE else expr.dtype)
        self.add(ir.Bind(var, expr, mutable=False, at=self.at))
        return var

    def once_behind(self, buffer: ir.Buffer, key: Hashable, write: Callable[[Builder], Made]) -> Made:
        """Put what ``write`` writes right behind the declaration of ``buffer``, once for all calls with this key."""
        return self.preparations.once(buffer, key, Builder(self.names, self.at, self.facts, self.preparations), write)

    def tensor_map(self, of: MapOf) -> ir.Buffer:
        """The 128 bytes of a tensor map with these fields."""
        return self.preparations.tensor_map(of, self.names)

    def local(self, name: str, count: int, kind: str) -> ir.Buffer:
        """New registers: ``count`` elements of each thread."""
        buffer = ir.Buffer(self.names.new(name), dtype(kind), (count,), "local", ir.row_major((count,)))
        self.add(ir.AllocBuffer(buffer, at=self.at))
        return buffer

    def scratch(self, call: TileCall, name: str, count: int, kind: str, align: int = 0) -> tuple[ir.Buffer, ir.Value]:
        """Shared memory that only the threads of the call use until they leave it, and where their part begins.

        ``count`` elements. It may be written at once; a `meet` must be between the last access and the call's end.
        """
        assert self._meeting is not None
        turn, self._scratches = self._scratches, self._scratches + 1
        shape = (count * (call.scope.cta_threads // call.scope.threads),)
        buffer = ir.Buffer(self.names.new(name), dtype(kind), shape, "shared", ir.row_major(shape), align=align)
        if call.option("workspace"):
            buffer, self._workspace_bytes = in_workspace(call, buffer, self._workspace_bytes)
            self.add(ir.DeclBuffer(buffer, at=self.at))
        else:
            self._meeting.reserve(buffer, call.scope, turn, self.at)
        return buffer, times(which_of_its_kind(call.scope), count)

    def meet(self, call: TileCall) -> None:
        """The threads of the call wait for each other; their accesses are ordered. Not twice in a row."""
        scope = call.scope
        whole = scope.kind == "cta" or (scope.kind == "warpgroup" and scope.threads == scope.cta_threads)
        if scope.kind not in ("warp", "warpgroup", "cta"):
            return
        if scope.kind == "warp" or whole:
            sync = isa.call("cuda.cta_sync" if whole else "cuda.warp_sync")
        else:
            assert self._meeting is not None
            sync = isa.call("cuda.warpgroup_sync", self._meeting.barrier)
        last = next(reversed(self._bodies[-1]), None)
        if not (isinstance(last, ir.Evaluate) and ir.same(last.value, sync)):
            self.add(ir.Evaluate(sync, at=self.at))

    def call(self, op: str, *args: object, **modifiers: object) -> None:
        """Write an instruction of the table."""
        self.add(ir.Evaluate(isa.call(op, *args, **modifiers), at=self.at))

    def store(self, buffer: ir.Buffer, offset: ir.Value, value: ir.Expr) -> None:
        """Write an element of flat storage."""
        self.add(ir.Store(ir.Load(buffer, (ir.as_expr(offset),)), value, at=self.at))

    @contextmanager
    def loop(self, name: str, count: ir.Value, kind: str = "serial", *, always: bool = False) -> Iterator[ir.Value]:
        """What is written inside is the body of ``for name in range(count)``; of a single round if ``always``."""
        if ir.const_value(count) == 1 and not always:
            yield 0
            return
        var = ir.Var(self.names.new(name), INT32)
        self._bodies.append([])
        yield var
        body = tuple(self._bodies.pop())
        self.add(ir.For(var, ir.as_expr(0), ir.as_expr(count), body, kind, at=self.at))

    def turns(self, name: str, loops: Iterable[LoopTurns]) -> Iterator[list[ir.Value]]:
        """Go through loops, unrolled, one behind the other: what is written inside has what their tables are."""
        for loop in loops:
            with self.loop(name, loop.count, "unroll") as turn:
                yield [walk.at(turn) for walk in loop.walks]

    @contextmanager
    def when(self, cond: ir.Expr | None) -> Iterator[None]:
        """What is written inside happens where ``cond`` holds; always for None."""
        if cond is None:
            yield
            return
        self._bodies.append([])
        yield
        body = tuple(self._bodies.pop())
        self.add(ir.If(cond, body, at=self.at))

    def either(self, cond: ir.Expr | None, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """What ``then`` writes happens where ``cond`` holds, what ``orelse`` writes elsewhere; for None the first."""
        if cond is None:
            then()
            return
        parts: list[ir.Body] = []
        for write in (then, orelse):
            self._bodies.append([])
            write()
            parts.append(tuple(self._bodies.pop()))
        self.add(ir.If(cond, parts[0], parts[1], at=self.at))

    def offsets(self, offset: Offset, name: str) -> Callable[[ir.Value], ir.Value]:
        """Prepare an offset in front of its loop; the result gives it for a round."""
        if offset.rounds:
            rounds = [self.offsets(place, name) for place in offset.rounds]
            return lambda round: _picked([place(0) for place in rounds], round)
        if offset.through is not None:
            side = offset.through
            return lambda round: side.at(self.let(f"{name}_element", offset.joined(offset.fixed, round)), self.facts)
        if offset.swizzle is None:
            return lambda round: offset.joined(offset.fixed, round)
        address = offset.swizzle.address
        whole, low = apart(offset.fixed, offset.swizzle.period, self.facts)
        if offset.hoisted:
            start = self.let(f"{name}_start", plus(whole, address(self.let(f"{name}_linear", low))))
            return lambda round: offset.joined(start, round)
        return lambda round: plus(whole, address(self.let(f"{name}_linear", offset.joined(low, round))))

    def pointer(self, name: str, storage: ir.Buffer, offset: ir.Value) -> ir.Expr:
        """Name a pointer to an element of flat storage."""
        return self.let(name, ir.AddressOf(storage, (ir.as_expr(offset),)))


# Calls inside of a call: a variant brings tiles of its own, or cuts one that no layout describes, and has others carry
# out the parts of the call.


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


def staging(
    call: TileCall, shape: tuple[int, ...], kind: DType, layout: Layout | None = None, name: str = "scratch"
) -> Staging:
    """Scratch memory for a tile of this shape, row-major unless a layout is given. Raises Decline if too large.

    name: another one for each of several tiles of a call.
    """
    buffer = ir.Buffer(name, kind, shape, "shared", layout or ir.row_major(shape))
    unit = max(1, APART * 8 // kind.bits)
    count = -(-buffer.storage_size() // unit) * unit
    groups = call.scope.cta_threads // call.scope.threads
    if count * kind.bits // 8 * groups > MOST_BYTES:
        needed = prod(shape) * kind.bits // 8 * groups
        raise Decline(f"{needed} bytes of scratch memory, at most {MOST_BYTES} are taken")
    base = ir.Buffer(name, kind, (count * groups,), "shared", ir.row_major((count * groups,)), align=APART)
    view = replace(buffer, data=ir.AddressOf(base, (ir.as_expr(times(which_of_its_kind(call.scope), count)),)))
    return Staging(side_of(view.region(), call.facts), count)


Calls: TypeAlias = Callable[[TileCall, Mapping[str, Side]], Sequence[TileCall]]
"""The calls in the place of one, on its tiles and on those that they bring, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSteps:
    """Calls one after the other. chosen: what carries each of them out. words: of the report. anew: does a plan name
    the tiles that it was made for, so that calls on allocated scratch tiles are planned again?
    """

    scratch: Mapping[str, Scratch]
    calls: Calls
    chosen: tuple[Chosen, ...]
    words: str = ""
    anew: bool = False

    def summary(self) -> str:
        """The words, else what each call does: ``2 x 16 bytes per thread; 4 shuffles``."""
        return self.words or "; ".join(step.plan.summary() for step in self.chosen)


def in_steps(call: TileCall, calls: Calls, scratch: Mapping[str, Scratch] | None = None) -> CallSteps:
    """The plan of calls with this scratch. Raises Decline where one of them has none."""
    rooms = scratch or {}
    sides = {name: room.side for name, room in rooms.items()}
    return CallSteps(rooms, calls, tuple(map(planned, calls(call, sides))))


def through_memory(call: TileCall, *names: str, kind: DType | None = None) -> CallSteps:
    """The plan of the call with these tiles in scratch memory, of a dtype of their own or of theirs. Raises Decline."""
    rooms = {
        name: staging(call, call[name].shape, kind or call[name].dtype, name=f"scratch_{name}" if kind else "scratch")
        for name in names
    }
    plan = in_steps(call, on_scratch, rooms)
    return replace(plan, words=f"through shared memory: {plan.summary()}")


def bringing(scratch: Side, source: Side) -> str:
    """What brings an operand to scratch registers or memory, which may be of another dtype."""
    if scratch.dtype != source.dtype:
        return "cast"
    return "permute_layout" if scratch.space == "local" else "copy"


def on_scratch(call: TileCall, scratch: Mapping[str, Side]) -> list[TileCall]:
    """The call on scratch tiles, with what brings its sources there, and what brings dst from there."""
    sources = ((call[name], there) for name, there in scratch.items() if name != "dst")
    before = [inner_call(call, bringing(there, side), {"dst": there, "src": side}) for side, there in sources]
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
        (planned(step) if plan.anew else chosen).write(step, out)
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
