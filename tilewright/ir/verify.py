"""Is a kernel well formed? What every later stage relies on, checked at the kernel's own lines: regions, layouts, loops
that are written out, what holds once it is lowered, and then all of its statements.

At stage "tile" these are rules for users, and the errors speak their language; at stage "lowered" they are the contract
between `lower` and the back ends, so that a broken pass is found where it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tilewright import ir
from tilewright.dtypes import BOOL, INT32, DType
from tilewright.errors import KernelError, LayoutError, choices, located
from tilewright.ir.debts import check_origins, chosen, pointers
from tilewright.layout import Axis, Layout, TCol, TileLayout, TLane, m
from tilewright.records import replace

# Are the places that a kernel names with numbers inside of their buffers?


def check_regions(stmt: ir.TileCallStmt) -> None:
    """Raises KernelError for a region of a call that is empty, or lies outside and may not leave its buffer."""
    keywords = dict(stmt.config)
    with located(stmt.at):
        for region, role in stmt.tiles:
            _check_box(region, leaves=role.may_leave(keywords), asked=role.is_asked(keywords), hint=role.asking)
        for value in keywords.values():
            if isinstance(value, ir.Region):
                _check_box(value, leaves=False, asked=False, hint=None)


def _check_box(region: ir.Region, *, leaves: bool, asked: bool, hint: str | None) -> None:
    """leaves: the region may leave its buffer in some runs; asked: also where numbers say that it always does."""
    buffer = region.buffer
    for axis, ((start, extent), size) in enumerate(zip(region.box, buffer.shape, strict=True)):
        first, count, limit = ir.const_value(start), ir.const_value(extent), ir.const_value(size)
        stop = None if first is None or count is None else first + count
        always = not asked and stop is not None and limit is not None and stop > limit
        beyond = always or (limit is not None and not leaves and count is not None and count > limit)
        if beyond or (first is not None and first < 0 and not asked) or (count is not None and count <= 0):
            raise KernelError(
                f"the region {region} lies outside of {region.name}",
                given=f"{start}:{start + extent} in dimension {axis - region.rests}",
                allowed=f"within 0:{size}, not empty",
                hint=hint if beyond or (first is not None and first < 0) else None,
            )


def check_index(buffer: ir.Buffer, axis: int, index: ir.Expr, extent: ir.Value, *, past: bool) -> None:
    """Raises KernelError for an index that is no integer, or is known to be outside."""
    if not index.dtype.is_integer or index.dtype.lanes != 1:
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"{index.dtype}: {index}")
    number, limit = ir.const_value(index), ir.const_value(extent)
    if number is None or (number >= 0 and (limit is None or number < limit + past)):
        return
    raise KernelError(
        f"index {number} is outside of {buffer.name}",
        given=f"{number} in dimension {axis}",
        allowed=f"0 to {extent - 1}",
        hint=f"{extent} - {-int(number)}, which counts from the end" if number < 0 else None,
    )


# Does a layout place a buffer's elements: as many as the shape has, inside the storage, each in its own place?


COUNTED = {
    "local": ("thread", "block", "device"),
    "shared": ("block", "device"),
    "shared.dyn": ("block", "device"),
    "tmem": ("block", "device"),
    "global": ("device",),
}
"""By memory space: the kinds of axes that lead to other storage. Places in it are told apart by `PLACES`."""

PLACES = {"tmem": (TLane, TCol)}
UNITS = {"local": "in register slot", "tmem": "in column"}


def check_placement(buffer: ir.Buffer) -> None:
    """Raises KernelError where the layout has another size than the shape, or does not fit storage of its own.

    A view and a parameter name memory that is there: their elements may overlap, as those of a broadcast row do.
    """
    layout = buffer.layout
    if layout is None:
        return
    buffer.check_size()
    if buffer.data is not None or buffer.space in ("global", "tmem") or _is_dense(layout):
        return
    try:
        layout.verify_well_formed()
    except LayoutError as error:
        raise KernelError(
            f"the layout of {buffer.name}: {error.what}", given=error.given, allowed=error.allowed
        ) from None
    _check_start(buffer, layout)
    _check_apart(buffer, layout, [0] * len(buffer.shape), buffer.shape)


def _is_dense(layout: Layout) -> bool:
    """Is each element just behind the one before it, from 0 on?"""
    if not isinstance(layout, TileLayout) or layout.replica or layout.offset:
        return False
    size = 1
    for it in reversed(layout.shard):
        if it.axis is not m or it.stride != size or type(it.extent) is not int:
            return False
        size *= it.extent
    return True


def check_written(region: ir.Region) -> None:
    """Raises KernelError where a tile call would write two elements to one place: the layout of a view may do that."""
    buffer, layout = region.buffer, region.buffer.layout
    if layout is None or layout.collision(_counts(buffer)) is None:
        return
    try:
        part = layout.part(buffer.shape, region.box)
    except LayoutError:
        return
    _check_apart(buffer, part, [start for start, _ in region.box], region.extents)


def _counts(buffer: ir.Buffer) -> Callable[[Axis], bool]:
    places, kinds = PLACES.get(buffer.space, (m,)), COUNTED[buffer.space]
    return lambda axis: axis in places or axis.kind in kinds


def _check_apart(buffer: ir.Buffer, layout: Layout, starts: Sequence[ir.Value], extents: Sequence[ir.Value]) -> None:
    """No two elements of a region of ``extents`` from ``starts``, which has this layout, are in one place."""
    collision = layout.collision(_counts(buffer))
    if collision is None:
        return
    word, _, unit = UNITS.get(buffer.space, "at address").partition(" ")
    pair = (_element(buffer, index, starts, extents) for index in (collision.first, collision.second))
    axis, *_ = reversed(PLACES.get(buffer.space, (m,)))
    others = [f"{name} {value}" for name, value in collision.place.items() if name != axis.name]
    raise KernelError(
        f"{buffer.name} has two elements {word} one {unit}",
        given=f"{' and '.join(pair)} {word} {unit} {collision.place.get(axis.name, 0)}"
        f"{' of ' + ', '.join(others) if others else ''}, by {layout}",
        allowed=f"one element {word} each {unit}, on axis {axis}; copies of one are replicas: + R[extents : strides]",
    )


def _check_start(buffer: ir.Buffer, layout: Layout) -> None:
    tile = layout.parted(buffer.shape)[1]  # a swizzle keeps the sign of an address
    low = ir.const_value(tile.cosize(m) - tile.span(m))
    if low is not None and low < 0:
        raise KernelError(
            f"the layout of {buffer.name} begins before its storage",
            given=f"an element at {low}, by {layout}",
            allowed="offsets of at least 0",
            hint=f"{layout} + {-low}" if isinstance(layout, TileLayout) else None,
        )


def _element(buffer: ir.Buffer, index: ir.Value, starts: Sequence[ir.Value], extents: Sequence[ir.Value]) -> str:
    """The logical coordinate of the region's element ``index`` in row-major order."""
    digits: list[str] = []
    for start, extent in zip(reversed(starts), reversed(extents), strict=True):
        digits.insert(0, str(start + index % extent))
        index //= extent
    return f"{buffer.name}[{', '.join(digits)}]"


# How often a loop may be written out, in the program that NVRTC gets or while a kernel is parsed.


MOST_UNROLLED = 16_384


def rounds_written_out(loop: ir.For, around: int) -> int:
    """The times that the body of a loop stands in the program, in loops that are written out ``around`` times.

    Raises KernelError for more than `MOST_UNROLLED`.
    """
    start, stop = ir.const_value(loop.start), ir.const_value(loop.stop)
    if loop.kind == "serial" or start is None or stop is None:
        return around
    rounds = around * max(1, len(range(int(start), int(stop), loop.step)))
    if rounds > MOST_UNROLLED:
        raise KernelError(
            f"the loop over {loop.var.name} is written out too often",
            given=f"{rounds:,} rounds, with those of the loops around it",
            allowed=f"{MOST_UNROLLED:,} rounds",
            hint=f"range({loop.start}, {loop.stop}, {loop.step})",
            at=loop.at,
        )
    return rounds


# What holds once a kernel is lowered: flat storage, special registers, a planned arena. The back ends rely on it.


GONE = {ir.DeviceEntry: "T.device_entry", ir.ScopeId: "a scope id", ir.TileCallStmt: "a tile call"}


def verify_lowered(kernel: ir.Kernel) -> None:
    """Check the invariants of stage "lowered". Raises KernelError, at the kernel's line: a pass of ours is wrong."""
    launch = kernel.launch
    if launch is None or not 1 <= launch.threads <= ir.MAX_THREADS:
        what, allowed = f"{kernel.name} has no launch", f"1 to {ir.MAX_THREADS} threads per CTA"
        raise KernelError(what, given=str(launch), allowed=allowed, at=kernel.at)
    for stmt in ir.statements(kernel.body):
        with located(stmt.at):
            _check_statement(stmt)
            for node in ir.expressions(stmt):
                if isinstance(node, (ir.Load, ir.AddressOf)):
                    _check_flat(node)
    _check_arena(kernel, launch)


def _check_statement(stmt: ir.Stmt) -> None:
    if type(stmt) in GONE:
        raise KernelError(f"{GONE[type(stmt)]} in a lowered kernel", given=type(stmt).__name__)
    if isinstance(stmt, ir.Attr) and any(key not in ("comment", "trace") for key, _ in stmt.settings):
        raise KernelError("an attribute in a lowered kernel", given=str(stmt.settings), allowed="comment, trace")
    if isinstance(stmt, ir.For) and stmt.kind == "vectorized":
        raise KernelError("a vectorized loop in a lowered kernel", given=stmt.var.name, allowed="serial, unroll")


def _check_flat(node: ir.Load | ir.AddressOf) -> None:
    buffer = node.buffer
    count = len(node.indices)
    if buffer.layout is not None or len(buffer.shape) != 1 or count > 1 or (count == 0 and isinstance(node, ir.Load)):
        raise KernelError(
            f"{buffer.name} is not flat in a lowered kernel",
            given=f"layout {buffer.layout}, shape {buffer.shape}, {count} indices",
            allowed="no layout, one dimension, one index",
        )


def _check_arena(kernel: ir.Kernel, launch: ir.Launch) -> None:
    """Shared buffers lie inside the arena, aligned, and none on top of another, unless they begin in one place."""
    placed: list[tuple[int, int, ir.AllocBuffer]] = []
    for stmt in ir.statements(kernel.body):
        if not isinstance(stmt, ir.AllocBuffer) or not stmt.buffer.is_shared:
            continue
        buffer = stmt.buffer
        size = buffer.storage_bytes()
        start = -1 if stmt.offset is None else stmt.offset
        if start < 0 or start + size > launch.shared_bytes or start % max(buffer.align, 1):
            raise KernelError(
                f"{buffer.name} is not placed in shared memory",
                given=f"offset {stmt.offset}, {size} bytes, align={buffer.align}",
                allowed=f"inside {launch.shared_bytes} bytes, aligned",
                at=stmt.at,
            )
        placed.append((start, start + size, stmt))
    placed.sort(key=lambda place: place[:2])
    for (first, end, before), (start, _, stmt) in pairwise(placed):
        if first < start < end:
            raise KernelError(
                f"{stmt.buffer.name} overlaps {before.buffer.name} in shared memory",
                given=f"offset {start}",
                allowed=f"{end} or later",
                at=stmt.at,
            )


# A kernel, statement by statement.


LOOPS = ("serial", "unroll", "vectorized")
TILE_SCOPES = ("thread", "warp", "warpgroup", "cta", "cluster")


def verify(kernel: ir.Kernel) -> None:
    """Check a kernel of either stage. Raises KernelError at the first statement that breaks a rule."""
    _Verifier(kernel).run()
    if kernel.stage == "lowered":
        verify_lowered(kernel)
    else:
        ir.launch_of(kernel)


@dataclass(frozen=True)
class _Scope:
    """The names in sight at one place. mutable: which of the variables may be assigned to."""

    vars: Mapping[str, ir.Var] = field(default_factory=dict)
    buffers: Mapping[str, ir.Buffer] = field(default_factory=dict)
    mutable: frozenset[str] = frozenset()
    loop: ir.For | ir.While | None = None
    unrolled: int = 1  # how often this place is written out

    def with_var(self, var: ir.Var, *, mutable: bool = False) -> _Scope:
        return replace(
            self, vars={**self.vars, var.name: var}, mutable=self.mutable | {var.name} if mutable else self.mutable
        )

    def with_buffer(self, buffer: ir.Buffer) -> _Scope:
        return replace(self, buffers={**self.buffers, buffer.name: buffer})


class _Verifier:
    """Goes through a kernel once; remembers which names exist anywhere, so that a wrong use can say why it is wrong."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.taken: set[str] = set()
        self.assigned = ir.assigned(kernel.body)
        self.defined_somewhere = {name for stmt in ir.statements(kernel.body) for name in ir.introduced(stmt)}
        self.arguments = {var.name for var in kernel.passed}

    def run(self) -> None:
        scope = _Scope()
        with located(self.kernel.at):
            for var in self.kernel.passed:
                self._claim(var.name)
                scope = scope.with_var(var)
            for buffer in self.kernel.buffers:
                if buffer.name not in self.arguments:
                    self._claim(buffer.name)
                scope = scope.with_buffer(buffer)
        self.body(self.kernel.body, scope)

    def body(self, body: ir.Body, scope: _Scope) -> None:
        for stmt in body:
            check: Callable[[_Verifier, Any, _Scope], _Scope] | None = _CHECKS.get(type(stmt))
            with located(stmt.at):
                self._expressions(stmt, scope)
                scope = scope if check is None else check(self, stmt, scope)

    # Names

    def _claim(self, name: str) -> None:
        """A name is introduced once in a kernel."""
        if name in self.taken:
            raise KernelError(f"the name {name} is taken", given=f"a second {name}", allowed="one of each name")
        self.taken.add(name)

    def _missing(self, name: str, what: str) -> KernelError:
        if name in self.taken:
            reason, hint = "it was introduced in a block that has ended", f"introduce {name} before that block"
        elif name in self.defined_somewhere:
            reason, hint = "it is introduced further down", f"move the line that introduces {name} up"
        else:
            reason, hint = "nothing introduces it", None
        return KernelError(f"{what} {name} is not defined here", given=reason, hint=hint)

    # Expressions

    def _expressions(self, stmt: ir.Stmt, scope: _Scope) -> None:
        for node in _used(stmt):
            if isinstance(node, ir.Var):
                self._variable(node, scope)
            elif isinstance(node, (ir.Load, ir.AddressOf)):
                self._place(node, stmt, scope)

    def _variable(self, var: ir.Var, scope: _Scope) -> None:
        declared = scope.vars.get(var.name)
        if declared is None:
            raise self._missing(var.name, "variable")
        if declared.dtype != var.dtype:
            raise KernelError(f"{var.name} has two dtypes", given=var.dtype, allowed=declared.dtype)

    def _buffer(self, buffer: ir.Buffer, scope: _Scope) -> None:
        """Declared, or a view of something: what that points at is checked by itself."""
        declared = scope.buffers.get(buffer.name)
        if declared is None and buffer.data is None:
            raise self._missing(buffer.name, "buffer")
        if declared is not None and declared.dtype != buffer.dtype:
            raise KernelError(f"{buffer.name} has two dtypes", given=buffer.dtype, allowed=declared.dtype)

    def _place(self, node: ir.Load | ir.AddressOf, stmt: ir.Stmt, scope: _Scope) -> None:
        buffer = node.buffer
        self._buffer(buffer, scope)
        names_origin = isinstance(stmt, (ir.DeclBuffer, ir.TileCallStmt)) and isinstance(node, ir.AddressOf)
        if buffer.space == "tmem" and not names_origin:
            raise KernelError(
                f"{buffer.name} is in tensor memory, which threads do not load from or store to",
                given=str(node),
                allowed=f"Tx.copy_async to or from a region of it, or {buffer.name}.allocated_addr[0]",
                hint=f"Tx.wg.copy_async(R[:, :], {buffer.name}[:, :]) and T.ptx.tcgen05.wait.ld() read it",
            )
        if isinstance(node, ir.AddressOf) and not node.indices:
            return
        buffer.check_rank(len(node.indices))
        past = isinstance(node, ir.AddressOf)  # a pointer may stand right behind the last element
        for axis, (index, extent) in enumerate(zip(node.indices, buffer.shape, strict=True)):
            check_index(buffer, axis, index, extent, past=past)

    def _region(self, region: ir.Region, scope: _Scope) -> None:
        buffer = region.buffer
        self._buffer(buffer, scope)
        if len(region.box) != len(buffer.shape):
            raise KernelError(f"{buffer.name} has {len(buffer.shape)} dimensions", given=f"the region {region}")

    # Statements

    def scope_id(self, stmt: ir.ScopeId, scope: _Scope) -> _Scope:
        for var in stmt.vars:
            self._claim(var.name)
            if var.dtype != INT32:
                raise KernelError(f"T.{stmt.kind} gives int32", given=f"{var.name} of {var.dtype}")
            scope = scope.with_var(var)
        return scope

    def alloc(self, stmt: ir.AllocBuffer, scope: _Scope) -> _Scope:
        buffer = stmt.buffer
        self._claim(buffer.name)
        if buffer.space == "global":
            raise KernelError(
                f"{buffer.name} cannot be allocated in global memory",
                given='scope="global"',
                allowed="shared, shared.dyn, local, tmem",
                hint="pass it as a parameter",
            )
        buffer.storage_size()
        return scope.with_buffer(buffer)

    def decl(self, stmt: ir.DeclBuffer, scope: _Scope) -> _Scope:
        buffer = stmt.buffer
        self._claim(buffer.name)
        variables = (node for node in ir.walk(buffer) if isinstance(node, ir.Var))
        moving = next((var for var in variables if var.name in self.assigned), None)
        if moving is not None:
            raise KernelError(
                f"the view {buffer.name} depends on {moving.name}, which is assigned to",
                given=f"{moving.name} changes while {buffer.name} exists",
                allowed="values that stay as they are",
                hint=f"fixed: T.let = {moving.name}, and the view of that",
            )
        pointer = chosen(buffer)
        if pointer is not None and self.kernel.stage != "lowered":
            check_origins(buffer, pointer, pointers(self.kernel.body), stmt.at)
        return scope.with_buffer(buffer)

    def bind(self, stmt: ir.Bind, scope: _Scope) -> _Scope:
        self._claim(stmt.var.name)
        _check_dtype(f"{stmt.var.name} is {stmt.var.dtype}", stmt.var.dtype, stmt.value)
        return scope.with_var(stmt.var, mutable=stmt.mutable)

    def assign(self, stmt: ir.Assign, scope: _Scope) -> _Scope:
        name = stmt.var.name
        if name not in scope.mutable:
            raise KernelError(
                f"{name} cannot be assigned to",
                given=_kind_of(name, self.kernel, scope),
                allowed="a scalar of the kernel: x = value, or x: T.int32 = value",
                hint=f"another name for the new value, or {name}: T.{stmt.var.dtype} = ... instead of T.let",
            )
        _check_dtype(f"{name} is {stmt.var.dtype}", stmt.var.dtype, stmt.value)
        return scope

    def store(self, stmt: ir.Store, scope: _Scope) -> _Scope:
        buffer = stmt.place.buffer
        _check_dtype(f"elements of {buffer.name} are {buffer.dtype}", buffer.dtype, stmt.value)
        return scope

    def tile_call(self, stmt: ir.TileCallStmt, scope: _Scope) -> _Scope:
        if stmt.scope not in TILE_SCOPES:
            raise KernelError(
                f"unknown scope of {stmt.primitive}", given=stmt.scope, allowed=choices(stmt.scope, TILE_SCOPES)
            )
        if not stmt.written:
            text = ", ".join(map(str, stmt.args)) or "nothing"
            raise KernelError(
                f"{stmt.primitive} writes to a buffer", given=text, allowed=f"Tx.{stmt.primitive}(destination, ...)"
            )
        for arg in (*stmt.args, *(value for _, value in stmt.config)):
            if isinstance(arg, ir.Region):
                self._region(arg, scope)
        check_regions(stmt)
        for region in stmt.written:
            check_written(region)
        return scope

    def assume(self, stmt: ir.Assume, scope: _Scope) -> _Scope:
        _check_condition("T.assume", stmt.cond)
        numbers = [var.name for var in (*self.kernel.params, *self.kernel.symbols) if var.dtype != "handle"]
        for node in ir.walk(stmt.cond):
            if isinstance(node, (ir.Load, ir.AddressOf, ir.Call)) or (
                isinstance(node, ir.Var) and node.name not in self.arguments
            ):
                raise KernelError(
                    "T.assume states a fact about the arguments, which the call checks",
                    given=str(node),
                    allowed=", ".join(numbers) or f"numbers among the parameters, of which {self.kernel.name} has none",
                    hint=f"if {stmt.cond}: ...",
                )
        return scope

    def loop(self, stmt: ir.For, scope: _Scope) -> _Scope:
        self._claim(stmt.var.name)
        if stmt.kind not in LOOPS:
            raise KernelError(f"unknown kind of loop {stmt.kind}", given=stmt.kind, allowed=choices(stmt.kind, LOOPS))
        if not stmt.step:
            raise KernelError(f"the loop over {stmt.var.name} never ends", given="step 0", allowed="another step")
        for end, value in (("start", stmt.start), ("stop", stmt.stop)):
            _check_dtype(f"{stmt.var.name} is {stmt.var.dtype}, and so is the {end} of its loop", stmt.var.dtype, value)
        if not stmt.var.dtype.is_integer:
            raise KernelError(f"{stmt.var.name} counts", given=stmt.var.dtype, allowed="an integer dtype")
        rounds = rounds_written_out(stmt, scope.unrolled)
        inner = replace(scope.with_var(stmt.var), loop=stmt, unrolled=rounds)
        self.body(stmt.body, inner)
        return scope

    def repeat(self, stmt: ir.While, scope: _Scope) -> _Scope:
        _check_condition("while", stmt.cond)
        self.body(stmt.body, replace(scope, loop=stmt))
        return scope

    def branch(self, stmt: ir.If, scope: _Scope) -> _Scope:
        _check_condition("if", stmt.cond)
        self.body(stmt.then, scope)
        self.body(stmt.orelse, scope)
        return scope

    def leave(self, stmt: ir.Break | ir.Continue, scope: _Scope) -> _Scope:
        word = type(stmt).__name__.lower()
        if scope.loop is None:
            raise KernelError(f"`{word}` outside of a loop", given=word, allowed="inside for or while")
        if isinstance(scope.loop, ir.For) and scope.loop.kind == "vectorized":
            raise KernelError(
                f"`{word}` inside of T.vectorized", given="lanes that go together", allowed="T.serial, T.unroll"
            )
        return scope


_CHECKS: dict[type, Callable[..., _Scope]] = {  # those of statements that have more than expressions
    ir.ScopeId: _Verifier.scope_id,
    ir.AllocBuffer: _Verifier.alloc,
    ir.DeclBuffer: _Verifier.decl,
    ir.Bind: _Verifier.bind,
    ir.Assign: _Verifier.assign,
    ir.Store: _Verifier.store,
    ir.TileCallStmt: _Verifier.tile_call,
    ir.Assume: _Verifier.assume,
    ir.For: _Verifier.loop,
    ir.While: _Verifier.repeat,
    ir.If: _Verifier.branch,
    ir.Break: _Verifier.leave,
    ir.Continue: _Verifier.leave,
}


def _used(stmt: ir.Stmt) -> Sequence[ir.Expr]:
    """The expressions that a statement evaluates: not the names it introduces."""
    if isinstance(stmt, ir.Bind):
        return ir.walk(stmt.value)
    if isinstance(stmt, ir.For):
        return ir.walk((stmt.start, stmt.stop))
    if isinstance(stmt, ir.ScopeId):
        return ir.walk(stmt.extents)
    return ir.expressions(stmt)


def _kind_of(name: str, kernel: ir.Kernel, scope: _Scope) -> str:
    if name in {var.name for var in kernel.params}:
        return f"{name} is a parameter"
    return f"{name} is bound for good" if name in scope.vars else f"{name} is not defined here"


def _check_dtype(what: str, kind: DType, value: ir.Expr) -> None:
    if value.dtype != kind:
        raise KernelError(what, given=f"{value.dtype}: {value}", allowed=kind, hint=f'T.cast({value}, "{kind}")')


def _check_condition(what: str, cond: ir.Expr) -> None:
    if cond.dtype != BOOL:
        raise KernelError(
            f"{what} takes a condition", given=f"{cond.dtype}: {cond}", allowed="bool", hint=f"{cond} != 0"
        )
