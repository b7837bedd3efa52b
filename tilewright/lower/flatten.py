"""The lowering pass: scope ids become special registers, layouts become offsets, and every expression is simplified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.dtypes import HANDLE, INT32, DType
from tilewright.errors import KernelError, located
from tilewright.ir import AddressOf, Buffer, Expr, Value, Var, const_value
from tilewright.ir.debts import Pointers, chosen, is_far, joined, owed, owed_to_origins, pointers, settled, widened
from tilewright.ir.intervals import limits
from tilewright.ir.ranges import RangeFacts
from tilewright.lower.vectorize import vectorized
from tilewright.records import replace

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


def flatten(body: ir.Body, ids: Mapping[str, ir.Expr], facts: RangeFacts) -> ir.Body:
    """``body`` on flat storage. Before: tile calls are resolved. After: the invariants of the lowered stage hold."""
    return _Flattener(ids, ir.assigned(body), body).body(body, facts)


@dataclass(frozen=True, slots=True)
class LoweredAccess:
    """A lowered access, the original, which stays alive so that the ids of its parts are not reused, and the facts."""

    fields: dict[str, object]
    node: ir.Load | ir.AddressOf
    facts: RangeFacts


class _Flattener:
    """Lowers a kernel in one walk. Holds the scope ids, the scalars that change, and the views declared on the way."""

    def __init__(self, ids: Mapping[str, ir.Expr], changing: frozenset[str], body: ir.Body) -> None:
        self.ids = ids
        self._whole = body
        self.changing = changing
        self.storages: dict[str, Storage] = {}
        self.views: dict[str, ir.Buffer] = {}
        self.places: dict[tuple[int, ...], LoweredAccess] = {}

    @cached_property
    def pointers(self) -> Pointers:
        return pointers(self._whole)

    @cached_property
    def taken(self) -> set[str]:
        """Every name of the kernel, and those that the lowered one gets beside them."""
        names = {*self.ids, *self.changing, "range", "T", "Tx"}
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

        return ir.rewrite(expr, change)

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
        return (replace(stmt, buffer=self.storage(stmt.buffer, facts).flat),)

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
