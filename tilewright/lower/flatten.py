"""The lowering pass: scope ids become special registers, layouts become offsets, every expression is simplified, and
rounds that run at once become accesses to vectors; and the plan of shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tilewright import ir, isa
from tilewright.dtypes import HANDLE, INT32, DType
from tilewright.errors import InstructionError, KernelError, located, warn
from tilewright.ir import AddressOf, Buffer, Expr, Value, Var, const_value
from tilewright.ir.debts import Pointers, chosen, is_far, joined, owed, owed_to_origins, pointers, settled, widened
from tilewright.ir.intervals import limits
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import ANY_LANES, LEAST_COLUMNS, bind
from tilewright.layout import ComposeLayout
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.errors import Span


# Memory of a lowered kernel: the plan of shared memory, and sizes of tensor memory that the hardware has.
#
# One arena per CTA, an offset in it for every shared buffer. Both back ends use these offsets, so that bank counts,
# swizzles on address bits and matrix descriptors agree.


MOST_SHARED_BYTES = isa.ARCHS["sm_90"].shared_bytes  # of a CTA; the limit of the target is checked when that is known
LEAST_ALIGNMENT = 16  # bytes: a row of ldmatrix, a 128-bit vector


def shared_alignment(buffer: ir.Buffer) -> int:
    """Bytes: the largest of what was declared, the swizzle's period, at whose multiples its pattern starts, and 16."""
    period = buffer.layout.swizzle.period if isinstance(buffer.layout, ComposeLayout) else 1
    return max(buffer.align, period * buffer.dtype.bits // 8, LEAST_ALIGNMENT)


def plan_shared(body: ir.Body) -> tuple[dict[str, int], int]:
    """Offsets in bytes by buffer name, in order of allocation, and the size of the arena.

    An allocation that has an offset already (of a pool) keeps it; those that lie with each other have one place.
    Raises KernelError where the arena outgrows every GPU.
    """
    offsets: dict[str, int] = {}
    together: dict[str, int] = {}
    end, at = 0, None
    shared = [stmt for stmt in ir.statements(body) if isinstance(stmt, ir.AllocBuffer) and stmt.buffer.is_shared]
    for stmt in sorted(shared, key=_own_places_first):
        alignment = shared_alignment(stmt.buffer)
        offset = stmt.offset if stmt.offset is not None else -(-end // alignment) * alignment
        if stmt.lies_with:
            offset = together.setdefault(stmt.lies_with, offset)
        if offset % alignment:
            raise KernelError(
                f"{stmt.buffer.name} is not aligned in shared memory",
                given=f"offset {offset} bytes",
                allowed=f"a multiple of {alignment} bytes: what was declared, the swizzle's period, {LEAST_ALIGNMENT}",
                at=stmt.at,
            )
        offsets[stmt.buffer.name] = offset
        end, at = max(end, offset + stmt.buffer.storage_bytes()), stmt.at
    _check_size(end, at)
    return offsets, end


def _own_places_first(stmt: ir.AllocBuffer) -> tuple[str, int]:
    """Buffers of one place come one after the other, the most aligned first; those of their own before them."""
    return stmt.lies_with, -shared_alignment(stmt.buffer) if stmt.lies_with else 0


def _check_size(size: int, at: Span | None) -> None:
    if size > MOST_SHARED_BYTES:
        raise KernelError(
            "the kernel needs more shared memory than a CTA can have",
            given=f"{size} bytes",
            allowed=f"{MOST_SHARED_BYTES} bytes",
            at=at,
        )


# Tensor memory: allocations of sizes that the hardware has, and one cta_group for all.


NAMESPACE = "ptx.tcgen05."


def settle_tmem(body: ir.Body) -> ir.Body:
    """``body`` with the constant sizes of allocations rounded up, in alloc and dealloc alike, and one warning about it.

    The kernel's own number stays with the allocation, so that the simulator knows the columns beyond it. A size that is
    known at run time only stays as it is.

    Raises InstructionError where two instructions of the kernel differ in what all must have in common.
    """
    _check_agreement(body)
    first = next((stmt for stmt in ir.statements(body) if _rounded(stmt) is not None), None)
    if first is None:
        return body
    columns = _columns(first)
    warn(
        f"{columns} columns of tensor memory are rounded up to {_size(columns)}: the hardware allocates powers of"
        f" two from {LEAST_COLUMNS} on; those beyond the {columns} are not the kernel's",
        first.at,
    )
    return ir.map_body(body, lambda stmt: None if (new := _rounded(stmt)) is None else (new,))


def _size(columns: int) -> int:
    """The next size that the hardware has."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def _columns(stmt: ir.Stmt) -> int:
    """The constant number of columns that a statement allocates or frees; 0 for any other statement."""
    if not (isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call) and stmt.value.op.startswith(NAMESPACE)):
        return 0
    (columns,) = isa.bind(stmt.value).operands.get("n_cols") or (None,)
    number = None if columns is None else ir.const_value(columns)
    return int(number or 0)


def _rounded(stmt: ir.Stmt) -> ir.Stmt | None:
    """The statement with a size that the hardware has; None where it has one already, or none at all."""
    columns = _columns(stmt)
    if not columns or columns == _size(columns):
        return None
    assert isinstance(stmt, ir.Evaluate)
    assert isinstance(stmt.value, ir.Call)
    bound = isa.bind(stmt.value)
    words: dict[str, object] = {name: parts[0] for name, parts in bound.operands.items() if parts}
    words |= {name: value for name, value in bound.mods.items() if name not in bound.operands}
    words["n_cols"] = _size(columns)
    if bound.instruction.operand("requested") is not None:
        words["requested"] = columns
    return replace(stmt, value=isa.call(stmt.value.op, **words))


def _check_agreement(body: ir.Body) -> None:
    """Raises InstructionError where instructions differ in a modifier that a kernel's must agree in: the cta_group."""
    first: dict[str, tuple[ir.Argument, str, Span | None]] = {}
    for stmt, bound in isa.calls_in(body):
        if not (name := bound.instruction.agrees):
            continue
        value, other, at = first.setdefault(name, (bound.mods[name], bound.instruction.name, stmt.at))
        if bound.mods[name] != value:
            raise InstructionError(
                f"T.{bound.instruction.name} has another {name} than T.{other} before it",
                given=f"{name}={bound.mods[name]} here, {name}={value}" + (f" at {at}" if at else " there"),
                allowed=f"one {name} in all such instructions of a kernel",
                at=stmt.at,
            )


# The lowering pass: scope ids become special registers, layouts become offsets, every expression is simplified, and
# rounds that run at once become accesses to vectors.
#
# From logical coordinates to flat storage: what a buffer views, and the offset of an element in it.


@dataclass(frozen=True, slots=True)
class Storage:
    """The flat buffer in which a buffer's elements lie, and the element offset of its logical zero there.

    views: the flat buffers of other dtypes on the way, outermost last; each needs a declaration. far: some element is
    beyond an offset of 32 bits.
    """

    flat: Buffer
    offset: Value = 0
    views: tuple[Buffer, ...] = ()
    far: bool = False

    def index(self, offset: Value, facts: RangeFacts) -> Expr:
        """The index in ``flat`` of what is ``offset`` elements from the buffer's logical zero."""
        return settled(joined(self.offset, offset, self.far, facts), facts)


def storage_of(buffer: Buffer, facts: RangeFacts) -> Storage:
    """Follow a view to the storage it lies in.

    A view of the same dtype is an offset; one of another dtype, or over a bare pointer, stays a buffer of its own.
    """
    if buffer.data is None or (buffer.space == "global" and isinstance(buffer.data, Var)):
        return Storage(replace(buffer.flat(), elem_offset=0), buffer.elem_offset, far=is_far(buffer, facts))
    if not isinstance(buffer.data, AddressOf):
        pointer = buffer.data + buffer.elem_offset * buffer.dtype.bits // 8
        view = replace(buffer.flat(), data=pointer, elem_offset=0)
        return Storage(view, 0, (view,), is_far(buffer, facts))
    parent = storage_of(buffer.data.buffer, facts)
    offset = offset_of(buffer.data.buffer, buffer.data.indices, facts)
    start = joined(parent.offset, offset, parent.far, facts)
    if buffer.dtype == parent.flat.dtype:
        return replace(parent, offset=joined(start, buffer.elem_offset, parent.far, facts))
    start = joined(start, _rescaled(buffer, parent.flat.dtype), parent.far, facts)
    address = AddressOf(parent.flat, (settled(start, facts),))
    view = replace(buffer.flat(), data=address, elem_offset=0)
    return Storage(view, 0, (*parent.views, view), is_far(buffer, facts))


def _rescaled(view: Buffer, unit: DType) -> Value:
    """The ``elem_offset`` of a view in elements of what it views.

    Raises KernelError where the view would start between two of them.
    """
    if view.dtype.bits % unit.bits == 0:
        return view.elem_offset * (view.dtype.bits // unit.bits)
    ratio = unit.bits // view.dtype.bits
    number = const_value(view.elem_offset)
    if number is None or int(number) % ratio:
        raise KernelError(
            f"{view.name} starts inside an element of what it views",
            given=f"elem_offset {view.elem_offset} of {view.dtype}",
            allowed=f"a multiple of {ratio}: whole elements of {unit}",
        )
    return int(number) // ratio


def offset_of(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> Value:
    """Elements from a buffer's logical zero to ``indices``, by its layout; flat buffers are indexed by it already."""
    if not indices:
        return 0
    if buffer.layout is None:
        return indices[0]
    if is_far(buffer, facts):
        wide = _applied(buffer, tuple(widened(index, facts) for index in indices), facts)
        if not (isinstance(wide, Expr) and facts.ideal(wide).inside(limits(INT32))):
            return wide
    return _applied(buffer, indices, facts)


def _applied(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> Value:
    assert buffer.layout is not None
    offset: Value = buffer.layout.place(*indices, shape=buffer.shape, facts=facts).get("m", 0)
    return offset


def owner_coordinates(buffer: Buffer, indices: tuple[Expr, ...], facts: RangeFacts) -> dict[str, Value]:
    """The coordinates, by axis, of the thread that holds an element in its registers."""
    if buffer.layout is None or buffer.space != "local":
        return {}
    place = buffer.layout.place(*indices, shape=buffer.shape, facts=facts)
    return {axis: value for axis, value in place.items() if axis != "m"}


def flatten(body: ir.Body, ids: Mapping[str, ir.Expr], offsets: Mapping[str, int], facts: RangeFacts) -> ir.Body:
    """``body`` on flat storage, shared buffers at these offsets. Before: tile calls are resolved. After: the invariants
    of the lowered stage hold.
    """
    return _Flattener(ids, offsets, body).body(body, facts)


@dataclass(frozen=True, slots=True)
class LoweredAccess:
    """A lowered access, the original, which stays alive so that the ids of its parts are not reused, and the facts."""

    fields: dict[str, object]
    node: ir.Load | ir.AddressOf
    facts: RangeFacts


class _Flattener:
    """Lowers a kernel in one walk. Holds the scope ids, the offsets of shared buffers, the scalars that change, and the
    views declared on the way.
    """

    def __init__(self, ids: Mapping[str, ir.Expr], offsets: Mapping[str, int], body: ir.Body) -> None:
        self.ids = ids
        self.offsets = offsets
        self._whole = body
        self.changing = ir.assigned(body)
        self.storages: dict[str, Storage] = {}
        self.views: dict[str, ir.Buffer] = {}
        self.places: dict[tuple[int, ...], LoweredAccess] = {}

    @cached_property
    def pointers(self) -> Pointers:
        return pointers(self._whole)

    @cached_property
    def taken(self) -> set[str]:
        """Every name of the kernel, and those that the lowered one gets beside them."""
        names = {*self.ids, *self.changing, *ir.SCRIPT_NAMES}
        for stmt in ir.statements(self._whole):
            declared = [getattr(stmt, "var", None), getattr(stmt, "buffer", None), *ir.expressions(stmt)]
            for node in declared:
                names |= {getattr(node, "name", ""), getattr(getattr(node, "buffer", None), "name", "")}
        return names

    def body(self, body: ir.Body, facts: RangeFacts) -> ir.Body:
        result: list[ir.Stmt] = []
        for stmt in body:
            rule = _RULES.get(type(stmt))
            with located(stmt.at):
                new = (stmt,) if rule is None else rule(self, stmt, facts)
            result += new
            if new and isinstance(new[-1], ir.Bind) and not new[-1].mutable:
                facts = facts.with_binding(new[-1].var, new[-1].value)
        return tuple(result)

    # Expressions

    def expr(self, expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
        return ir.as_expr(facts.simplify(self.lowered(expr, facts)), expr.dtype)

    def lowered(self, expr: ir.Expr, facts: RangeFacts) -> ir.Expr:
        def change(node: ir.Expr) -> ir.Expr | None:
            if isinstance(node, ir.Var):
                return self.ids.get(node.name)
            if isinstance(node, ir.Load | ir.AddressOf):
                return replace(node, **self.place(node, facts))
            if isinstance(node, ir.Cast) and node.dtype == HANDLE and node.a.dtype == INT32 and not facts.exact(node.a):
                return replace(node, a=widened(node.a, facts))  # bytes to be added to a pointer
            return None

        return ir.rewrite(expr, change, (ir.Var, ir.Load, ir.AddressOf, ir.Cast))

    def place(self, node: ir.Load | ir.AddressOf, facts: RangeFacts) -> dict[str, object]:
        """The fields of a flat access; computed once for the same indices under the same facts."""
        key = (isinstance(node, ir.Load), id(node.buffer), *map(id, (*node.indices, *node.owed)))
        hit = self.places.get(key)
        if hit is None or hit.facts is not facts:
            hit = self.places[key] = LoweredAccess(self._place(node, facts), node, facts)
        return hit.fields

    def _place(self, node: ir.Load | ir.AddressOf, facts: RangeFacts) -> dict[str, object]:
        storage = self.storage(node.buffer, facts)
        if isinstance(node, ir.AddressOf) and not node.indices and ir.const_value(storage.offset) == 0:
            return {"buffer": storage.flat, "indices": (), "owed": owed(node, facts)}
        index = storage.index(offset_of(node.buffer, node.indices, facts), facts)
        debts = owed(node, facts)
        pointer = chosen(node.buffer) if storage.views else None
        if pointer is not None:
            place = ir.AddressOf(storage.flat, (index,))
            debts += (*owed_to_origins(pointer, place, self.pointers, lambda node: self.lowered(node, facts)),)
        return {"buffer": storage.flat, "indices": (index,), "owed": debts}

    def storage(self, buffer: ir.Buffer, facts: RangeFacts) -> Storage:
        if buffer.name not in self.storages:
            storage = storage_of(buffer, facts)
            self.storages[buffer.name] = replace(storage, flat=self.views.get(storage.flat.name, storage.flat))
        return self.storages[buffer.name]

    # Statements: each rule gives the statements that stand for one

    def alloc(self, stmt: ir.AllocBuffer, facts: RangeFacts) -> ir.Body:
        offset = self.offsets.get(stmt.buffer.name, stmt.offset)
        return (replace(stmt, buffer=self.storage(stmt.buffer, facts).flat, offset=offset, lies_with=""),)

    def decl(self, stmt: ir.DeclBuffer, facts: RangeFacts) -> ir.Body:
        if stmt.buffer.space == "tmem":  # a name for an address, which the copies contain by now
            return ()
        buffer = ir.rewrite(stmt.buffer, lambda node: self.ids.get(node.name) if isinstance(node, ir.Var) else None)
        views = [view for view in storage_of(buffer, facts).views if view.name == buffer.name]
        self.views |= {view.name: replace(view, data=self.pointer(view, facts)) for view in views}
        self.storages.pop(buffer.name, None)
        self.storage(buffer, facts)
        return tuple(ir.DeclBuffer(self.views[view.name], at=stmt.at) for view in views)

    def pointer(self, view: ir.Buffer, facts: RangeFacts) -> ir.Expr | None:
        return self.expr(view.data, facts) if view.data is not None else None

    def values(self, stmt: ir.Bind | ir.Assign | ir.Evaluate, facts: RangeFacts) -> ir.Body:
        checks = self.owner_checks(stmt.value, stmt, facts)
        return (*checks, replace(stmt, value=self.expr(stmt.value, facts)))

    def bind(self, stmt: ir.Bind, facts: RangeFacts) -> ir.Body:
        """A scalar that nothing assigns again is as good as a `T.let`: its range stays known."""
        return self.values(replace(stmt, mutable=stmt.var.name in self.changing), facts)

    def store(self, stmt: ir.Store, facts: RangeFacts) -> ir.Body:
        checks = (*self.owner_checks(stmt.place, stmt, facts), *self.owner_checks(stmt.value, stmt, facts))
        place = self.lowered(stmt.place, facts)
        assert isinstance(place, ir.Load)
        place = replace(place, indices=tuple(ir.as_expr(facts.simplify(index)) for index in place.indices))
        return (*checks, replace(stmt, place=place, value=self.expr(stmt.value, facts)))

    def owner_checks(self, value: ir.Expr, stmt: ir.Stmt, facts: RangeFacts) -> ir.Body:
        """``R[i, j]`` is right only in the thread that holds it: an `Assume` that the simulator checks."""
        checks: list[ir.Stmt] = []
        for node in ir.walk(value):
            if not (isinstance(node, ir.Load) and node.indices):
                continue
            for axis, coordinate in owner_coordinates(node.buffer, node.indices, facts).items():
                if axis not in ir.COORDINATES:
                    continue
                holds = self.expr(ir.as_expr(coordinate), facts) == ir.COORDINATES[axis]
                if ir.const_value(facts.simplify(holds)) is not True:
                    checks.append(ir.Assume(holds, at=stmt.at, place=str(node)))
        return tuple(checks)

    def loop(self, stmt: ir.For, facts: RangeFacts) -> ir.Body:
        start, stop = self.expr(stmt.start, facts), self.expr(stmt.stop, facts)
        inner = facts.with_loop(stmt.var, start, stop, stmt.step)
        lowered = replace(stmt, start=start, stop=stop, body=self.body(stmt.body, inner))
        return vectorized(lowered, facts, self.taken) if stmt.kind == "vectorized" else (lowered,)

    def while_(self, stmt: ir.While, facts: RangeFacts) -> ir.Body:
        return (replace(stmt, cond=self.expr(stmt.cond, facts), body=self.body(stmt.body, facts)),)

    def if_(self, stmt: ir.If, facts: RangeFacts) -> ir.Body:
        cond = self.expr(stmt.cond, facts)
        truth = ir.const_value(cond)
        if truth is not None:
            return self.body(stmt.then if truth else stmt.orelse, facts)
        then = self.body(stmt.then, facts.with_condition(cond))
        return (replace(stmt, cond=cond, then=then, orelse=self.body(stmt.orelse, facts)),)

    def attr(self, stmt: ir.Attr, facts: RangeFacts) -> ir.Body:
        """Comments, hints and marks stay; the launch has the other settings."""
        comments = [(key, text) if key == "comment" else ("comment", f"hint: {text}")
                    for key, text in stmt.settings if key in ("comment", "hint")]  # fmt: skip
        comments += [(key, text) for key, text in stmt.settings if key == "trace"]
        return (replace(stmt, settings=tuple(comments)),) if comments else ()

    def assume(self, stmt: ir.Assume, facts: RangeFacts) -> ir.Body:
        return (replace(stmt, cond=self.lowered(stmt.cond, facts)),)


_RULES: dict[type, Callable[..., ir.Body]] = {
    ir.DeviceEntry: lambda flattener, stmt, facts: (),
    ir.ScopeId: lambda flattener, stmt, facts: (),
    ir.AllocBuffer: _Flattener.alloc,
    ir.DeclBuffer: _Flattener.decl,
    ir.Bind: _Flattener.bind,
    ir.Assign: _Flattener.values,
    ir.Evaluate: _Flattener.values,
    ir.Store: _Flattener.store,
    ir.For: _Flattener.loop,
    ir.While: _Flattener.while_,
    ir.If: _Flattener.if_,
    ir.Attr: _Flattener.attr,
    ir.Assume: _Flattener.assume,
}


# ``T.vectorized``: rounds that run at once, so that neighbouring elements go by one access where the facts allow it.
#
# Each load and store whose elements follow each other, at a place that is proven to be aligned, becomes an access to a
# vector; what is computed between them stays as it is, component by component. A comment says what became of the loop.


Node = TypeVar("Node", bound=ir.Expr)

LANES = (8, 4, 2)
WIDEST_BYTES = 16


def _fresh(name: str, taken: set[str]) -> str:
    """A name that the kernel does not have yet: from now on it is taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def vectorized(loop: ir.For, facts: RangeFacts, taken: set[str]) -> ir.Body:
    """What stands for a loop over a lowered body. taken: names of the kernel; new ones are added."""
    reason = _reason_against(loop)
    plain = replace(loop, kind="unroll")
    if reason:
        return (_comment(f"T.vectorized: element by element, as {reason}", loop), plain)
    plans = [_Group(loop, lanes, facts, taken) for lanes in LANES if _rounds(loop) % lanes == 0]
    best = max(plans, key=lambda plan: len(plan.together), default=None)
    if best is None or not best.together:
        why = best.apart[0] if best and best.apart else f"{_rounds(loop)} rounds make no vectors"
        return (_comment(f"T.vectorized: element by element, as {why}", loop), plain)
    return best.body()


def _comment(text: str, loop: ir.For) -> ir.Attr:
    return ir.Attr((("comment", text),), at=loop.at)


def _rounds(loop: ir.For) -> int:
    start, stop = ir.const_value(loop.start), ir.const_value(loop.stop)
    return int(stop - start) if start is not None and stop is not None else 0


def _reason_against(loop: ir.For) -> str:
    """Why the rounds cannot be taken together at all; empty where they can."""
    if loop.step != 1:
        return f"it goes in steps of {loop.step}"
    if _rounds(loop) <= 0:
        return "the number of rounds is not constant"
    if any(not isinstance(stmt, (ir.Store, ir.Bind)) or getattr(stmt, "mutable", False) for stmt in loop.body):
        return "its body is more than stores"
    stores = [stmt.place for stmt in loop.body if isinstance(stmt, ir.Store)]
    stored = {place.buffer.root.name for place in stores}
    for stmt in loop.body:
        for node in ir.walk(stmt.value):  # type: ignore[union-attr]  # a Store or a Bind, as was just seen
            if isinstance(node, ir.Call) and not _only_computes(node):
                return f"`{node}` has an effect"
            if isinstance(node, ir.Load) and node.buffer.root.name in stored and stores != [node]:
                return f"it reads {node.buffer.root.name}, which it writes"
    return ""


def _only_computes(node: ir.Call) -> bool:
    form = bind(node).form
    return not form.does_more_than_compute and bind(node).instruction.lanes == ANY_LANES


def _unguarded(node: ir.Expr) -> Iterator[ir.Load]:
    """The loads that every lane makes."""
    if isinstance(node, ir.Load):
        yield node
    guarded = isinstance(node, ir.Select) or (isinstance(node, ir.Binary) and node.op in ir.Binary.LOGIC)
    parts = (node.cond,) if isinstance(node, ir.Select) else (node.a,) if guarded else _operands_of(node)  # type: ignore[attr-defined]
    for part in parts:
        yield from _unguarded(part)


def _operands_of(node: ir.Expr) -> tuple[ir.Expr, ...]:
    """The expressions that a node is made of."""
    if isinstance(node, ir.Call):
        return tuple(part for part in node.args if isinstance(part, ir.Expr))
    sides = (getattr(node, name, None) for name in ("a", "b"))
    return (*(part for part in sides if isinstance(part, ir.Expr)), *getattr(node, "parts", ()))


class _Group:
    """The loop with ``lanes`` rounds at a time. together: the accesses that become one; apart: why others do not."""

    def __init__(self, loop: ir.For, lanes: int, facts: RangeFacts, taken: set[str]) -> None:
        self.loop, self.lanes, self.taken = loop, lanes, taken
        self.counter = ir.Var(_fresh(f"{loop.var.name}_group", {*taken}), loop.var.dtype)
        self.groups = _rounds(loop) // lanes
        self.facts = facts.with_loop(self.counter, 0, self.groups) if self.groups > 1 else facts
        self.first: ir.Value = loop.start if self.groups == 1 else loop.start + self.counter * lanes
        self.bound = {stmt.var.name for stmt in loop.body if isinstance(stmt, ir.Bind)}
        self.word = "_of_"
        while any(self._of_lane(name, lane) in taken for name in self.bound for lane in range(lanes)):
            self.word += "_"
        self.together: dict[ir.Load, ir.Value] = {}  # where the first of them lies, in vectors
        self.apart: list[str] = []
        for stmt in loop.body:
            for node in self._accesses(stmt):
                self._look_at(node)

    def _accesses(self, stmt: ir.Stmt) -> Iterator[ir.Load]:
        if isinstance(stmt, ir.Store):
            yield stmt.place
        yield from _unguarded(stmt.value)  # type: ignore[union-attr]  # a Store or a Bind

    def _look_at(self, node: ir.Load) -> None:
        buffer, lanes = node.buffer, self.lanes
        if buffer.space == "local" or node in self.together or not self._varies(node):
            return
        shown = f"{buffer.root.name}[{node.indices[0]}]"
        nbytes = buffer.dtype.bits * lanes // 8
        start = self.facts.simplify(self.at(node.indices[0], 0))
        align = buffer.align or WIDEST_BYTES
        if (
            buffer.dtype.lanes > 1
            or not 1 < nbytes <= min(WIDEST_BYTES, align)
            or isinstance(buffer.data, ir.AddressOf)
        ):
            self.apart.append(f"{lanes} elements of {shown} make no vector of at most {min(WIDEST_BYTES, align)} bytes")
        elif not all(self.facts.equal(self.at(node.indices[0], k), start + k) for k in range(1, lanes)):
            self.apart.append(f"elements of {shown} do not follow each other")
        elif not self.facts.divides(lanes, start):
            self.apart.append(f"{shown} is not proven to begin at a multiple of {lanes} elements")
        else:
            self.together[node] = self.facts.simplify(ir.as_expr(start) // lanes)

    def _varies(self, node: ir.Load) -> bool:
        names = ir.names_in(node.indices)
        return self.loop.var.name in names and not names & self.bound

    def at(self, expr: Node, lane: int) -> Node:
        """An expression in the round of one lane."""
        counter = ir.as_expr(self.first + lane, self.loop.var.dtype)

        def change(node: ir.Expr) -> ir.Expr | None:
            assert isinstance(node, ir.Var)
            if node.name == self.loop.var.name:
                return counter
            return ir.Var(self._of_lane(node.name, lane), node.dtype) if node.name in self.bound else None

        return ir.rewrite(expr, change, (ir.Var,))

    def _of_lane(self, name: str, lane: int) -> str:
        return f"{name}{self.word}{lane}"

    # The loop's new body

    def body(self) -> ir.Body:
        loop, taken = self.loop, self.taken
        taken.update({self.counter.name, *(self._of_lane(n, k) for n in self.bound for k in range(self.lanes))})
        views: dict[str, ir.Buffer] = {}
        for node in self.together:
            kind = node.buffer.dtype.with_lanes(self.lanes)
            if node.buffer.name not in views:
                views[node.buffer.name] = self._view(node.buffer, kind)
        held = {node: ir.Var(_fresh(f"{node.buffer.name}_{self.lanes}", taken), views[node.buffer.name].dtype)
                for node in self.together if not self._is_only_stored(node)}  # fmt: skip
        stmts: list[ir.Stmt] = [
            ir.Bind(var, self._place(node, views), mutable=False, at=loop.at) for node, var in held.items()
        ]
        for stmt in loop.body:
            stmts += self._grouped(stmt, held, views)
        names_of = dict.fromkeys(node.buffer.root.name for node in self.together)
        text = f"T.vectorized: {', '.join(names_of)} by {self.lanes} elements"
        told = (_comment("; ".join([text, *dict.fromkeys(self.apart)]), loop),)
        decls = tuple(ir.DeclBuffer(view, at=loop.at) for view in views.values())
        if self.groups == 1:
            return (*told, *decls, *stmts)
        zero, end = ir.as_expr(0, loop.var.dtype), ir.as_expr(self.groups, loop.var.dtype)
        return (*told, *decls, ir.For(self.counter, zero, end, tuple(stmts), "unroll", at=loop.at))

    def _view(self, buffer: ir.Buffer, kind: DType) -> ir.Buffer:
        extent = self.facts.simplify(ir.as_expr(buffer.shape[0]) // self.lanes)
        number = ir.const_value(extent)
        name = _fresh(f"{buffer.name}_{kind}", self.taken)
        shape: tuple[ir.Value, ...] = (extent if number is None else int(number),)
        return ir.Buffer(name, kind, shape, buffer.space, None, ir.AddressOf(buffer))

    def _is_only_stored(self, node: ir.Load) -> bool:
        reads = [load for stmt in self.loop.body for load in _unguarded(stmt.value)]  # type: ignore[union-attr]
        return node not in reads

    def _place(self, node: ir.Load, views: dict[str, ir.Buffer]) -> ir.Load:
        return ir.Load(views[node.buffer.name], (ir.as_expr(self.together[node]),), owed=tuple(self._owed(node)))

    def _owed(self, node: ir.Load) -> Iterator[ir.Within]:
        """The debts of an access that stands for several rounds."""
        for debt in node.owed:
            rounds = [self.at(debt.index, lane) for lane in range(self.lanes)]
            if all(self.facts.equal(index, rounds[0] + lane) for lane, index in enumerate(rounds)):
                yield replace(debt, index=rounds[0], span=self.lanes)
                continue
            for lane, index in enumerate(rounds):
                if lane == 0 or not self.facts.equal(index, rounds[0]):
                    yield replace(debt, index=index)

    def _grouped(self, stmt: ir.Stmt, held: dict[ir.Load, ir.Var], views: dict[str, ir.Buffer]) -> Iterator[ir.Stmt]:
        assert isinstance(stmt, (ir.Store, ir.Bind))

        def value(lane: int) -> ir.Expr:
            def loaded(node: ir.Expr) -> ir.Expr | None:
                return ir.Component(held[node], lane) if isinstance(node, ir.Load) and node in held else None

            return ir.as_expr(self.facts.simplify(self.at(ir.rewrite(stmt.value, loaded), lane)))

        if isinstance(stmt, ir.Store) and stmt.place in self.together:
            parts = tuple(value(lane) for lane in range(self.lanes))
            place = self._place(stmt.place, views)
            yield ir.Store(place, ir.as_expr(self.facts.simplify(ir.Vector(parts, place.dtype))), at=stmt.at)
            return
        for lane in range(self.lanes):
            if isinstance(stmt, ir.Bind):
                yield replace(stmt, var=ir.Var(self._of_lane(stmt.var.name, lane), stmt.var.dtype), value=value(lane))
            else:
                place = self.at(stmt.place, lane)
                index = ir.as_expr(self.facts.simplify(place.indices[0]))
                yield replace(stmt, place=replace(place, indices=(index,)), value=value(lane))
