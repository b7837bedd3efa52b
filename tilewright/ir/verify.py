"""Is a kernel well formed? What every later stage relies on, checked at the kernel's own lines.

At stage "tile" these are rules for users, and the errors speak their language; at stage "lowered" they are the contract
between `lower` and the back ends, so that a broken pass is found where it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tilewright.dtypes import BOOL, INT32, DType
from tilewright.errors import KernelError, choices, located
from tilewright.ir.buffer import Buffer, Region
from tilewright.ir.expr import AddressOf, Call, Expr, Load, Value, Var, const_value
from tilewright.ir.launch import launch_of
from tilewright.ir.origins import check_origins, chosen, pointers
from tilewright.ir.placement import check_written
from tilewright.ir.stmt import (
    AllocBuffer,
    Assign,
    Assume,
    Attr,
    Bind,
    Body,
    Break,
    Continue,
    DeclBuffer,
    DeviceEntry,
    Evaluate,
    For,
    If,
    Kernel,
    Launch,
    ScopeId,
    Stmt,
    Store,
    TileCallStmt,
    While,
)
from tilewright.ir.unrolling import rounds_written_out
from tilewright.ir.walk import assigned, expressions, introduced, statements, walk
from tilewright.records import replace

# Are the places that a kernel names with numbers inside of their buffers?


def check_regions(stmt: TileCallStmt) -> None:
    """Raises KernelError for a region of a call that is empty, or lies outside and may not leave its buffer."""
    for region, role in stmt.tiles:
        keywords = dict(stmt.config)
        _check_box(region, stmt, leaves=role.may_leave(keywords), asked=role.is_asked(keywords), hint=role.asking)
    for _, value in stmt.config:
        if isinstance(value, Region):
            _check_box(value, stmt, leaves=False, asked=False, hint=None)


def _check_box(region: Region, stmt: Stmt, *, leaves: bool, asked: bool, hint: str | None) -> None:
    """leaves: the region may leave its buffer in some runs; asked: also where numbers say that it always does."""
    buffer = region.buffer
    for axis, ((start, extent), size) in enumerate(zip(region.box, buffer.shape, strict=True)):
        first, count, limit = const_value(start), const_value(extent), const_value(size)
        stop = None if first is None or count is None else first + count
        always = not asked and stop is not None and limit is not None and stop > limit
        beyond = always or (limit is not None and not leaves and count is not None and count > limit)
        if beyond or (first is not None and first < 0 and not asked) or (count is not None and count <= 0):
            raise KernelError(
                f"the region {region} lies outside of {region.name}",
                given=f"{start}:{start + extent} in dimension {axis - region.rests}",
                allowed=f"within 0:{size}, not empty",
                hint=hint if beyond or (first is not None and first < 0) else None,
                at=stmt.at,
            )


def check_index(buffer: Buffer, axis: int, index: Expr, extent: Value, stmt: Stmt, *, past: bool) -> None:
    """Raises KernelError for an index that is no integer, or is known to be outside."""
    if not index.dtype.is_integer or index.dtype.lanes != 1:
        raise KernelError(f"an index of {buffer.name} is an integer", given=f"{index.dtype}: {index}", at=stmt.at)
    number, limit = const_value(index), const_value(extent)
    if number is None or (number >= 0 and (limit is None or number < limit + past)):
        return
    raise KernelError(
        f"index {number} is outside of {buffer.name}",
        given=f"{number} in dimension {axis}",
        allowed=f"0 to {extent - 1}",
        hint=f"{extent} - {-int(number)}, which counts from the end" if number < 0 else None,
        at=stmt.at,
    )


# What holds once a kernel is lowered: flat storage, special registers, a planned arena. The back ends rely on it.


GONE = {DeviceEntry: "T.device_entry", ScopeId: "a scope id", TileCallStmt: "a tile call"}
MOST_THREADS = 1024


def verify_lowered(kernel: Kernel) -> None:
    """Check the invariants of stage "lowered". Raises KernelError, at the kernel's line: a pass of ours is wrong."""
    launch = kernel.launch
    if launch is None or not 1 <= launch.threads <= MOST_THREADS:
        raise KernelError(
            f"{kernel.name} has no launch", given=str(launch), allowed="1 to 1024 threads per CTA", at=kernel.at
        )
    for stmt in statements(kernel.body):
        _check_statement(stmt)
        for node in expressions(stmt):
            if isinstance(node, (Load, AddressOf)):
                _check_flat(node, stmt)
    _check_arena(kernel, launch)


def _check_statement(stmt: Stmt) -> None:
    if type(stmt) in GONE:
        raise KernelError(f"{GONE[type(stmt)]} in a lowered kernel", given=type(stmt).__name__, at=stmt.at)
    if isinstance(stmt, Attr) and any(key not in ("comment", "trace") for key, _ in stmt.settings):
        raise KernelError(
            "an attribute in a lowered kernel", given=str(stmt.settings), allowed="comment, trace", at=stmt.at
        )
    if isinstance(stmt, For) and stmt.kind == "vectorized":
        raise KernelError(
            "a vectorized loop in a lowered kernel", given=stmt.var.name, allowed="serial, unroll", at=stmt.at
        )


def _check_flat(node: Load | AddressOf, stmt: Stmt) -> None:
    buffer = node.buffer
    count = len(node.indices)
    if buffer.layout is not None or len(buffer.shape) != 1 or count > 1 or (count == 0 and isinstance(node, Load)):
        raise KernelError(
            f"{buffer.name} is not flat in a lowered kernel",
            given=f"layout {buffer.layout}, shape {buffer.shape}, {count} indices",
            allowed="no layout, one dimension, one index",
            at=stmt.at,
        )


def _check_arena(kernel: Kernel, launch: Launch) -> None:
    """Shared buffers lie inside the arena, aligned, and none on top of another, unless they begin in one place."""
    placed: list[tuple[int, int, AllocBuffer]] = []
    for stmt in statements(kernel.body):
        if not isinstance(stmt, AllocBuffer) or not stmt.buffer.is_shared:
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


LOOPS = ("serial", "unroll", "vectorized")
TILE_SCOPES = ("thread", "warp", "warpgroup", "cta", "cluster")


def verify(kernel: Kernel) -> None:
    """Check a kernel of either stage. Raises KernelError at the first statement that breaks a rule."""
    _Verifier(kernel).run()
    if kernel.stage == "lowered":
        verify_lowered(kernel)
    else:
        launch_of(kernel)


@dataclass(frozen=True)
class _Scope:
    """The names in sight at one place. mutable: which of the variables may be assigned to."""

    vars: Mapping[str, Var] = field(default_factory=dict)
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    mutable: frozenset[str] = frozenset()
    loop: For | While | None = None
    unrolled: int = 1  # how often this place is written out

    def with_var(self, var: Var, *, mutable: bool = False) -> _Scope:
        return replace(
            self, vars={**self.vars, var.name: var}, mutable=self.mutable | {var.name} if mutable else self.mutable
        )

    def with_buffer(self, buffer: Buffer) -> _Scope:
        return replace(self, buffers={**self.buffers, buffer.name: buffer})


class _Verifier:
    """Goes through a kernel once; remembers which names exist anywhere, so that a wrong use can say why it is wrong."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.taken: set[str] = set()
        self.assigned = assigned(kernel.body)
        self.defined_somewhere = {name for stmt in statements(kernel.body) for name in introduced(stmt)}
        self.arguments = {var.name for var in kernel.passed}

    def run(self) -> None:
        scope = _Scope()
        for var in self.kernel.passed:
            self._claim(var.name, self.kernel)
            scope = scope.with_var(var)
        for buffer in self.kernel.buffers:
            if buffer.name not in self.arguments:
                self._claim(buffer.name, self.kernel)
            scope = scope.with_buffer(buffer)
        self.body(self.kernel.body, scope)

    def body(self, body: Body, scope: _Scope) -> None:
        for stmt in body:
            check: Callable[[_Verifier, Any, _Scope], _Scope] = _CHECKS[type(stmt)]
            self._expressions(stmt, scope)
            scope = check(self, stmt, scope)

    # Names

    def _claim(self, name: str, at: Stmt | Kernel) -> None:
        """A name is introduced once in a kernel."""
        if name in self.taken:
            raise KernelError(
                f"the name {name} is taken", given=f"a second {name}", allowed="one of each name", at=at.at
            )
        self.taken.add(name)

    def _missing(self, name: str, what: str, stmt: Stmt) -> KernelError:
        if name in self.taken:
            reason, hint = "it was introduced in a block that has ended", f"introduce {name} before that block"
        elif name in self.defined_somewhere:
            reason, hint = "it is introduced further down", f"move the line that introduces {name} up"
        else:
            reason, hint = "nothing introduces it", None
        return KernelError(f"{what} {name} is not defined here", given=reason, hint=hint, at=stmt.at)

    # Expressions

    def _expressions(self, stmt: Stmt, scope: _Scope) -> None:
        for node in _used(stmt):
            if isinstance(node, Var):
                self._variable(node, stmt, scope)
            elif isinstance(node, (Load, AddressOf)):
                self._place(node, stmt, scope)

    def _variable(self, var: Var, stmt: Stmt, scope: _Scope) -> None:
        known = scope.vars.get(var.name)
        if known is None:
            raise self._missing(var.name, "variable", stmt)
        if known.dtype != var.dtype:
            raise KernelError(f"{var.name} has two dtypes", given=var.dtype, allowed=known.dtype, at=stmt.at)

    def _buffer(self, buffer: Buffer, stmt: Stmt, scope: _Scope) -> None:
        """Declared, or a view of something: what that points at is checked by itself."""
        known = scope.buffers.get(buffer.name)
        if known is None and buffer.data is None:
            raise self._missing(buffer.name, "buffer", stmt)
        if known is not None and known.dtype != buffer.dtype:
            raise KernelError(f"{buffer.name} has two dtypes", given=buffer.dtype, allowed=known.dtype, at=stmt.at)

    def _place(self, node: Load | AddressOf, stmt: Stmt, scope: _Scope) -> None:
        buffer = node.buffer
        self._buffer(buffer, stmt, scope)
        named_only = isinstance(stmt, (DeclBuffer, TileCallStmt)) and isinstance(
            node, AddressOf
        )  # a view names its origin
        if buffer.space == "tmem" and not named_only:
            raise KernelError(
                f"{buffer.name} is in tensor memory, which threads do not load from or store to",
                given=str(node),
                allowed=f"Tx.copy_async to or from a region of it, or {buffer.name}.allocated_addr[0]",
                hint=f"Tx.wg.copy_async(R[:, :], {buffer.name}[:, :]) and T.ptx.tcgen05.wait.ld() read it",
                at=stmt.at,
            )
        if isinstance(node, AddressOf) and not node.indices:
            return
        with located(stmt.at):
            buffer.check_rank(len(node.indices))
        past = isinstance(node, AddressOf)  # a pointer may stand right behind the last element
        for axis, (index, extent) in enumerate(zip(node.indices, buffer.shape, strict=True)):
            check_index(buffer, axis, index, extent, stmt, past=past)

    def _region(self, region: Region, stmt: Stmt, scope: _Scope) -> None:
        buffer = region.buffer
        self._buffer(buffer, stmt, scope)
        if len(region.box) != len(buffer.shape):
            raise KernelError(
                f"{buffer.name} has {len(buffer.shape)} dimensions", given=f"the region {region}", at=stmt.at
            )

    # Statements

    def plain(self, _: Stmt, scope: _Scope) -> _Scope:
        return scope

    def scope_id(self, stmt: ScopeId, scope: _Scope) -> _Scope:
        for var in stmt.vars:
            self._claim(var.name, stmt)
            if var.dtype != INT32:
                raise KernelError(f"T.{stmt.kind} gives int32", given=f"{var.name} of {var.dtype}", at=stmt.at)
            scope = scope.with_var(var)
        return scope

    def alloc(self, stmt: AllocBuffer, scope: _Scope) -> _Scope:
        buffer = stmt.buffer
        self._claim(buffer.name, stmt)
        if buffer.space == "global":
            raise KernelError(
                f"{buffer.name} cannot be allocated in global memory",
                given='scope="global"',
                allowed="shared, shared.dyn, local, tmem",
                hint="pass it as a parameter",
                at=stmt.at,
            )
        with located(stmt.at):
            buffer.storage_size()
        return scope.with_buffer(buffer)

    def decl(self, stmt: DeclBuffer, scope: _Scope) -> _Scope:
        buffer = stmt.buffer
        self._claim(buffer.name, stmt)
        moving = next((node for node in walk(buffer) if isinstance(node, Var) and node.name in self.assigned), None)
        if moving is not None:
            raise KernelError(
                f"the view {buffer.name} depends on {moving.name}, which is assigned to",
                given=f"{moving.name} changes while {buffer.name} exists",
                allowed="values that stay as they are",
                hint=f"fixed: T.let = {moving.name}, and the view of that",
                at=stmt.at,
            )
        pointer = chosen(buffer)
        if pointer is not None and self.kernel.stage != "lowered":
            check_origins(buffer, pointer, pointers(self.kernel.body), stmt.at)
        return scope.with_buffer(buffer)

    def bind(self, stmt: Bind, scope: _Scope) -> _Scope:
        self._claim(stmt.var.name, stmt)
        _check_dtype(f"{stmt.var.name} is {stmt.var.dtype}", stmt.var.dtype, stmt.value, stmt)
        return scope.with_var(stmt.var, mutable=stmt.mutable)

    def assign(self, stmt: Assign, scope: _Scope) -> _Scope:
        name = stmt.var.name
        if name not in scope.mutable:
            raise KernelError(
                f"{name} cannot be assigned to",
                given=_kind_of(name, self.kernel, scope),
                allowed="a scalar of the kernel: x = value, or x: T.int32 = value",
                hint=f"another name for the new value, or {name}: T.{stmt.var.dtype} = ... instead of T.let",
                at=stmt.at,
            )
        _check_dtype(f"{name} is {stmt.var.dtype}", stmt.var.dtype, stmt.value, stmt)
        return scope

    def store(self, stmt: Store, scope: _Scope) -> _Scope:
        buffer = stmt.place.buffer
        _check_dtype(f"elements of {buffer.name} are {buffer.dtype}", buffer.dtype, stmt.value, stmt)
        return scope

    def tile_call(self, stmt: TileCallStmt, scope: _Scope) -> _Scope:
        if stmt.scope not in TILE_SCOPES:
            raise KernelError(
                f"unknown scope of {stmt.primitive}",
                given=stmt.scope,
                allowed=choices(stmt.scope, TILE_SCOPES),
                at=stmt.at,
            )
        if not stmt.written:
            given = ", ".join(map(str, stmt.args)) or "nothing"
            raise KernelError(
                f"{stmt.primitive} writes to a buffer",
                given=given,
                allowed=f"Tx.{stmt.primitive}(destination, ...)",
                at=stmt.at,
            )
        for arg in (*stmt.args, *(value for _, value in stmt.config)):
            if isinstance(arg, Region):
                self._region(arg, stmt, scope)
        check_regions(stmt)
        with located(stmt.at):
            for region in stmt.written:
                check_written(region)
        return scope

    def assume(self, stmt: Assume, scope: _Scope) -> _Scope:
        _check_condition("T.assume", stmt.cond, stmt)
        numbers = [var.name for var in (*self.kernel.params, *self.kernel.symbols) if var.dtype != "handle"]
        for node in walk(stmt.cond):
            if isinstance(node, (Load, AddressOf, Call)) or (isinstance(node, Var) and node.name not in self.arguments):
                raise KernelError(
                    "T.assume states a fact about the arguments, which the call checks",
                    given=str(node),
                    allowed=", ".join(numbers) or f"numbers among the parameters, of which {self.kernel.name} has none",
                    hint=f"if {stmt.cond}: ...",
                    at=stmt.at,
                )
        return scope

    def loop(self, stmt: For, scope: _Scope) -> _Scope:
        self._claim(stmt.var.name, stmt)
        if stmt.kind not in LOOPS:
            raise KernelError(
                f"unknown kind of loop {stmt.kind}", given=stmt.kind, allowed=choices(stmt.kind, LOOPS), at=stmt.at
            )
        if not stmt.step:
            raise KernelError(
                f"the loop over {stmt.var.name} never ends", given="step 0", allowed="another step", at=stmt.at
            )
        for end, value in (("start", stmt.start), ("stop", stmt.stop)):
            _check_dtype(
                f"{stmt.var.name} is {stmt.var.dtype}, and so is the {end} of its loop", stmt.var.dtype, value, stmt
            )
        if not stmt.var.dtype.is_integer:
            raise KernelError(f"{stmt.var.name} counts", given=stmt.var.dtype, allowed="an integer dtype", at=stmt.at)
        rounds = rounds_written_out(stmt, scope.unrolled)
        inner = replace(scope.with_var(stmt.var), loop=stmt, unrolled=rounds)
        self.body(stmt.body, inner)
        return scope

    def repeat(self, stmt: While, scope: _Scope) -> _Scope:
        _check_condition("while", stmt.cond, stmt)
        self.body(stmt.body, replace(scope, loop=stmt))
        return scope

    def branch(self, stmt: If, scope: _Scope) -> _Scope:
        _check_condition("if", stmt.cond, stmt)
        self.body(stmt.then, scope)
        self.body(stmt.orelse, scope)
        return scope

    def leave(self, stmt: Break | Continue, scope: _Scope) -> _Scope:
        word = type(stmt).__name__.lower()
        if scope.loop is None:
            raise KernelError(f"`{word}` outside of a loop", given=word, allowed="inside for or while", at=stmt.at)
        if isinstance(scope.loop, For) and scope.loop.kind == "vectorized":
            raise KernelError(
                f"`{word}` inside of T.vectorized",
                given="lanes that go together",
                allowed="T.serial, T.unroll",
                at=stmt.at,
            )
        return scope


_CHECKS: dict[type, Callable[..., _Scope]] = {
    DeviceEntry: _Verifier.plain,
    ScopeId: _Verifier.scope_id,
    AllocBuffer: _Verifier.alloc,
    DeclBuffer: _Verifier.decl,
    Bind: _Verifier.bind,
    Assign: _Verifier.assign,
    Store: _Verifier.store,
    Evaluate: _Verifier.plain,
    TileCallStmt: _Verifier.tile_call,
    Assume: _Verifier.assume,
    Attr: _Verifier.plain,
    For: _Verifier.loop,
    While: _Verifier.repeat,
    If: _Verifier.branch,
    Break: _Verifier.leave,
    Continue: _Verifier.leave,
}


def _used(stmt: Stmt) -> Sequence[Expr]:
    """The expressions that a statement evaluates: not the names it introduces."""
    if isinstance(stmt, Bind):
        return walk(stmt.value)
    if isinstance(stmt, For):
        return walk((stmt.start, stmt.stop))
    if isinstance(stmt, ScopeId):
        return walk(stmt.extents)
    return expressions(stmt)


def _kind_of(name: str, kernel: Kernel, scope: _Scope) -> str:
    if name in {var.name for var in kernel.params}:
        return f"{name} is a parameter"
    return f"{name} is bound for good" if name in scope.vars else f"{name} is not defined here"


def _check_dtype(what: str, kind: DType, value: Expr, stmt: Stmt) -> None:
    if value.dtype != kind:
        raise KernelError(
            what, given=f"{value.dtype}: {value}", allowed=kind, hint=f'T.cast({value}, "{kind}")', at=stmt.at
        )


def _check_condition(what: str, cond: Expr, stmt: Stmt) -> None:
    if cond.dtype != BOOL:
        raise KernelError(
            f"{what} takes a condition", given=f"{cond.dtype}: {cond}", allowed="bool", hint=f"{cond} != 0", at=stmt.at
        )
