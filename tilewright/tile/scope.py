"""The threads of a tile call: the scope that the kernel names, narrowed by the control flow around the call.

A condition over scope ids and constants is evaluated for all threads of the CTA at once, which shows exactly which
threads go on. Of any other condition only its *level* is known: between which threads its value may differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from tilewright import ir, isa
from tilewright.errors import DispatchError, Span
from tilewright.ir import AllocBuffer, Body, Buffer, Call, DeviceEntry, Kernel, ScopeId, Value, statements
from tilewright.ir.launch import ALL, LANE, UNIFORM, WARP, WARPGROUP, Uniformity, launch_of, scope_id_exprs, special
from tilewright.ir.operators import OPERATORS, UNARY
from tilewright.ir.walk import expressions
from tilewright.layout import THREADS_IN
from tilewright.records import replace
from tilewright.tile.walks import plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilewright.ir import AddressOf
    from tilewright.tile.call import TileCall

# Scratch in shared memory, and barriers, for the threads of one tile call alone.
#
# All CTA-wide calls share one place for their scratch: each ends with a barrier, so that the next one may write
# there. Warps and warpgroups may be in different calls at a time; each of their calls has scratch of its own.

LEAST_ALIGNMENT = 16  # bytes, of each part of a workspace
NAMED = range(1, 16)  # barrier 0 is that of the whole CTA

_OF_ITS_KIND: dict[str, Value] = {
    "warp": special("warpid"),
    "warpgroup": special("warpid") // 4,
    "cta": 0,
    "thread": special("tid"),
}


def which_of_its_kind(scope: ExecScope) -> Value:
    """The number of the calling warp or warpgroup in its CTA; 0 where there is one."""
    return _OF_ITS_KIND[scope.kind] if scope.cta_threads > scope.threads else 0


def in_workspace(call: TileCall, scratch: Buffer, taken: int) -> tuple[Buffer, int]:
    """``scratch`` as a view of the shared memory that the caller offers, and the bytes of it that are then in use.

    Raises DispatchError where ``workspace=`` offers none, or too little.
    """
    pairs = cast("tuple[tuple[str, AddressOf], ...]", call.option("workspace"))
    offered = [address.buffer for _, address in pairs]
    shared = next((buffer for buffer in offered if buffer.is_shared), None)
    if shared is None:
        raise DispatchError(
            f"{call.stmt.primitive} needs scratch memory, and workspace= offers none",
            given=", ".join(f"{buffer.name} in {buffer.space} memory" for buffer in offered),
            allowed="a buffer of shared memory; without workspace=, the compiler finds it",
        )
    begin = -(-taken // LEAST_ALIGNMENT) * LEAST_ALIGNMENT
    end = begin + scratch.storage_bytes()
    has = shared.storage_bytes()
    if end > has:
        raise DispatchError(
            f"workspace= is too small for {call.stmt.primitive}",
            given=f"{shared.name} of {has} bytes",
            allowed=f"at least {end} bytes of shared memory; without workspace=, the compiler finds it",
        )
    return replace(scratch, data=shared.pointer, elem_offset=begin * 8 // scratch.dtype.bits, align=0), end


class MeetingPlaces:
    """The scratch memory and the barriers of a kernel's tile calls. (Mutable.)"""

    def __init__(self, kernel: Kernel, control: ControlFlow) -> None:
        self.kernel, self.control = kernel, control
        self._scratch: list[AllocBuffer] = []

    def reserve(self, buffer: Buffer, scope: ExecScope, turn: int, at: Span | None) -> None:
        """Allocate shared memory for a call of this scope: the turn-th buffer of the call."""
        self._scratch.append(AllocBuffer(buffer, at=at, lies_with=f"cta {turn}" if scope.kind == "cta" else ""))

    @cached_property
    def barrier(self) -> Value:
        """The number of the calling warpgroup's barrier. Raises DispatchError where the kernel leaves none free."""
        groups = self.control.threads // 128
        taken = set(self._taken())
        starts = range(NAMED.start, NAMED.stop - groups + 1)
        free = [start for start in starts if not taken & set(range(start, start + groups))]
        if not free:
            raise DispatchError(
                "no barriers are left for the warpgroups",
                given=f"the kernel uses {', '.join(map(str, sorted(taken)))}",
                allowed=f"{groups} numbers in a row, of 1 to 15, that it does not use",
            )
        return plus(_OF_ITS_KIND["warpgroup"], free[-1]) if groups > 1 else free[-1]

    def _taken(self) -> Iterable[int]:
        """The barriers that the kernel names. Raises DispatchError where that depends on more than the thread."""
        for stmt in statements(self.kernel.body):
            for node in expressions(stmt):
                if not isinstance(node, Call):
                    continue
                bound = isa.bind(node)
                sync = bound.form.sync
                if sync is None or not sync.barrier:
                    continue
                value = self.control.value(bound.operands[sync.barrier][0])
                if value is None:
                    raise DispatchError(
                        "which barriers are free is not known",
                        given=f"`{node}`",
                        allowed="constants or arithmetic on scope ids, where tile calls need barriers of their own",
                        at=getattr(stmt, "at", None),
                    )
                yield from np.unique(np.asarray(value)).tolist()

    def placed(self, body: Body) -> Body:
        """``body`` with the scratch memory allocated at its start."""
        heads = [position for position, stmt in enumerate(body) if isinstance(stmt, (DeviceEntry, ScopeId))]
        start = heads[-1] + 1 if heads else 0
        return (*body[:start], *self._scratch, *body[start:])


Threads = NDArray[np.bool_]  # bools, one for each thread of the CTA

# Levels: the groups of threads inside which a value is the same. KNOWN: its value in each thread is known.
KNOWN, PER_CTA, PER_WARPGROUP, PER_WARP, PER_THREAD = -1, 0, 1, 2, 3
SPOKEN = {"warp": "warp", "warpgroup": "warpgroup", "cta": "CTA", "cluster": "cluster"}
# The coarsest level at which a condition around a collective may stay unknown.
NEEDS = {"thread": PER_THREAD, "warp": PER_WARP, "warpgroup": PER_WARPGROUP, "cta": PER_CTA, "cluster": PER_CTA}
VOTES = dict.fromkeys(("cuda.ballot_sync", "cuda.any_sync", "cuda.all_sync"), WARP)
ELECT = "ptx.elect.sync"

# Which thread of its scope the caller is: of a cluster, too, the thread of its CTA.
INDEX: dict[str, ir.Value] = {kind: ir.coordinate(kind, "thread") for kind in (*THREADS_IN, "cta")}
INDEX["cluster"] = INDEX["cta"]


@dataclass(frozen=True, slots=True, eq=False)
class Narrowing:
    """A condition on the way to a statement, as a message quotes it, and the threads that may be active after it."""

    text: str
    at: Span | None
    active: Threads
    level: int


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The threads of the CTA that may reach a statement, and the finest level at which that is not known."""

    active: Threads
    level: int = KNOWN
    narrowed: tuple[Narrowing, ...] = ()

    def where(self, active: Threads, level: int, text: str, at: Span | None) -> Reach:
        """The reach of what stands behind one more condition."""
        both = self.active & active
        if level <= PER_CTA and bool((both == self.active).all()):
            return self
        step = Narrowing(text, at, both, level)
        return Reach(both, max(self.level, level), (*self.narrowed, step))


@dataclass(frozen=True, slots=True, eq=False)
class ExecScope:
    """The threads that execute one tile call together.

    kind: thread, warp, warpgroup, cta or cluster. threads: in one such scope. active: which threads of the CTA may get
    here. control: knows the values of scope ids.
    level: the finest level at which it is not known which threads get here.
    """

    kind: str
    threads: int
    active: Threads
    control: ControlFlow
    level: int = KNOWN

    @property
    def cta_threads(self) -> int:
        """Threads of the CTA."""
        return len(self.active)

    @property
    def lanes(self) -> int:
        """Lanes of the last warp that execute together: 32 in whole warps, 1 where each thread is on its own."""
        return 1 if self.kind == "thread" else (self.threads - 1) % 32 + 1

    @property
    def index(self) -> ir.Value:
        """Which thread of its scope the caller is."""
        return INDEX[self.kind]

    def always(self, value: ir.Value, equals: ir.Expr) -> bool:
        """Is ``value`` known to be ``equals`` in every thread that gets here?"""
        mine, theirs = self.control.value(ir.as_expr(value)), self.control.value(equals)
        return mine is not None and theirs is not None and bool(np.all((mine == theirs) | ~self.active))

    def alike(self, values: Iterable[ir.Value]) -> int:
        """How many threads of a CTA get here with the same ``values``, as far as that is known."""
        keys = [self._apart(self.level), *(self._told_by(ir.as_expr(value)) for value in values)]
        groups = np.stack(keys)[:, self.active]
        return int(np.unique(groups, axis=1, return_counts=True)[1].max(initial=0))

    def _told_by(self, expr: ir.Expr) -> NDArray[np.generic]:
        value = self.control.value(expr)
        return self._apart(self.control.level(expr)) if value is None else np.broadcast_to(value, self.active.shape)

    def _apart(self, level: int) -> NDArray[np.generic]:
        """The number of each thread's group at this level; the threads of a group cannot be distinguished."""
        size = {PER_THREAD: 1, PER_WARP: 32, PER_WARPGROUP: 128}.get(level, self.cta_threads)
        return np.arange(self.cta_threads) // size

    def keeps_together(self, cond: ir.Expr) -> bool:
        """Would the same call be fine under ``cond``, with no thread of the scope left out?"""
        return self.control.level(cond) <= NEEDS[self.kind]


class _Known(Uniformity):
    """The axes over which values vary in a CTA, exact where each thread's value is known."""

    def __init__(self, kernel: ir.Kernel, control: ControlFlow) -> None:
        self.control = control
        super().__init__(kernel)

    def _derived(self, expr: ir.Expr) -> int:
        value = self.control.value(expr)
        if value is None:
            return super()._derived(expr)
        values = np.broadcast_to(value, (self.control.threads,))
        for axis, size in ((UNIFORM, len(values)), (WARPGROUP, 128), (WARP, 32)):
            if all(bool((values[at : at + size] == values[at]).all()) for at in range(0, len(values), size)):
                return axis
        return LANE

    def _call(self, expr: ir.Call) -> int:
        if expr.op in VOTES:
            return VOTES[expr.op]
        bound = isa.bind(expr)
        pure = bound.form.meaning.execute is not None and not bound.form.meaning.on and not bound.form.accesses
        return self.of_all(part for parts in bound.operands.values() for part in parts) if pure else ALL


class ControlFlow:
    """What a kernel's control flow says about its threads. Built once per kernel, then asked."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.threads = launch_of(kernel).threads
        self.ids = scope_id_exprs(kernel)
        tid = np.arange(self.threads)
        self._registers: dict[str, NDArray[np.int64]] = {
            name: row.axis.of_thread(tid) for name, row in ir.SPECIALS.items() if row.axis is not None
        }
        assigned = {stmt.var.name for stmt in ir.statements(kernel.body) if isinstance(stmt, ir.Assign)}
        self._bound = {
            stmt.var.name: stmt.value
            for stmt in ir.statements(kernel.body)
            if isinstance(stmt, ir.Bind) and stmt.var.name not in assigned
        }
        self._uniformity = _Known(kernel, self)

    def everyone(self) -> Reach:
        """The start of the kernel: all threads."""
        return Reach(np.ones(self.threads, np.bool_))

    # What is known of a value

    def value(self, expr: ir.Expr) -> NDArray[np.generic] | None:
        """The value in every thread of the CTA, or None where it depends on more than scope ids inside the CTA."""
        if isinstance(expr, ir.Const):
            return np.asarray(expr.value)
        if isinstance(expr, ir.Special):
            return self._registers.get(expr.name)
        if isinstance(expr, ir.Var):
            bound = self.ids.get(expr.name, self._bound.get(expr.name))
            return None if bound is None else self.value(bound)
        if isinstance(expr, ir.Call) and expr.op == ELECT and dict(expr.attrs).get("out") == "p":
            return np.equal(self._registers["laneid"], 0)  # one lane of each warp; which one is not known
        if isinstance(expr, (ir.Binary, ir.Unary, ir.Cast, ir.Select)):
            return self._computed(expr)
        return None

    def _computed(self, expr: ir.Binary | ir.Unary | ir.Cast | ir.Select) -> NDArray[np.generic] | None:
        parts = [expr.cond, expr.a, expr.b] if isinstance(expr, ir.Select) else [expr.a]
        parts += [expr.b] if isinstance(expr, ir.Binary) else []
        values = [value for value in map(self.value, parts) if value is not None]
        if len(values) < len(parts) or expr.dtype.is_float:
            return None
        if isinstance(expr, ir.Select):
            return np.where(values[0].astype(np.bool_), values[1], values[2])
        if isinstance(expr, ir.Cast):
            return values[0].astype(expr.dtype.numpy)
        if isinstance(expr, ir.Unary):
            return np.asarray(UNARY[expr.op].array(values[0]))
        with np.errstate(all="ignore"):
            return np.asarray(OPERATORS[expr.op].array(*values))

    def spelled_out(self, expr: ir.Expr) -> ir.Expr:
        """The expression with the values of names that never change in their place."""
        return ir.rewrite(expr, lambda node: self._value_of(node) if isinstance(node, ir.Var) else None)

    def _value_of(self, var: ir.Var) -> ir.Expr | None:
        value = self._bound.get(var.name)
        return None if value is None else self.spelled_out(value)

    def level(self, expr: ir.Expr) -> int:
        """Inside which groups of threads the value is the same."""
        varies = self._uniformity.of(expr)
        levels = ((LANE, PER_THREAD), (WARP, PER_WARP), (WARPGROUP, PER_WARPGROUP))
        return next((level for axis, level in levels if varies & axis), PER_CTA)

    # What control flow does to the threads

    def behind(self, reach: Reach, cond: ir.Expr, at: Span | None, *, taken: bool) -> Reach:
        """The reach of the body of ``if cond`` (taken) or of its else-branch."""
        active, level = self._split(cond, taken)
        return reach.where(active, level, f"`if {cond}`" if taken else f"the else of `if {cond}`", at)

    def _split(self, cond: ir.Expr, taken: bool) -> tuple[Threads, int]:
        """The threads that may find ``cond`` to be ``taken``, and the level down to which that is not known."""
        if isinstance(cond, ir.Unary) and cond.op == "not":
            return self._split(cond.a, not taken)
        if isinstance(cond, ir.Binary) and cond.op in ir.Binary.LOGIC:
            (a, level_a), (b, level_b) = self._split(cond.a, taken), self._split(cond.b, taken)
            if (cond.op == "and") == taken:
                return a & b, max(level_a, level_b)
            is_known = level_a == level_b == KNOWN
            return a | b, KNOWN if is_known else max(self.level(cond.a), self.level(cond.b))
        value = self.value(cond)
        if value is not None:
            return np.broadcast_to(value.astype(np.bool_) == taken, (self.threads,)), KNOWN
        return np.ones(self.threads, np.bool_), self.level(cond)

    def head_level(self, loop: ir.For | ir.While) -> int:
        """How finely the bounds or the condition of a loop may differ."""
        heads = [loop.start, loop.stop] if isinstance(loop, ir.For) else [loop.cond]
        return max([PER_CTA, *map(self.level, heads)])

    def inside(self, reach: Reach, loop: ir.For | ir.While) -> Reach:
        """The reach of a loop's body: threads whose bounds allow it, and that have not left it in an earlier round."""
        head = (
            f"while {loop.cond}"
            if isinstance(loop, ir.While)
            else f"for {loop.var} in range({loop.start}, {loop.stop})"
        )
        reach = reach.where(reach.active, self.head_level(loop), f"`{head}`", loop.at)
        for step in _conditions_of(loop.body, ir.Break):
            level = max(PER_CTA, self.level(step.cond))
            reach = reach.where(reach.active, level, f"`if {step.cond}` with its break", step.at)
        return reach

    def after(self, reach: Reach, stmt: ir.Stmt) -> Reach:
        """The reach of what follows a statement: an ``if`` with ``break`` or ``continue`` lets only some go on."""
        if not isinstance(stmt, ir.If):
            return reach
        for branch, taken in ((stmt.then, True), (stmt.orelse, False)):
            if branch and isinstance(branch[-1], (ir.Break, ir.Continue)):
                reach = self.behind(reach, stmt.cond, stmt.at, taken=not taken)
            elif any(_leaves(inner, (ir.Break, ir.Continue)) for inner in branch):
                reach = reach.where(reach.active, max(PER_CTA, self.level(stmt.cond)), f"`if {stmt.cond}`", stmt.at)
        return reach

    def scope(self, kind: str, reach: Reach, name: str) -> ExecScope:
        """The execution scope of a call that names ``kind``.

        Raises DispatchError, at the condition's line, for a collective that a condition keeps from some of its threads.
        """
        size = THREADS_IN.get(kind, self.threads)
        if kind != "thread":
            self._check_whole(kind, size, reach, name)
        return ExecScope(kind, size, reach.active, self, reach.level)

    def _check_whole(self, kind: str, group: int, reach: Reach, name: str) -> None:
        if self.threads % group:
            raise DispatchError(
                f"{name} needs whole {SPOKEN[kind]}s",
                given=f"{self.threads} threads per CTA",
                allowed=f"a multiple of {group}",
            )
        for step in reach.narrowed:
            groups = step.active.reshape(-1, group)
            broken = groups[groups.any(axis=1) & ~groups.all(axis=1)]
            if len(broken):
                cause = f"{step.text} leaves {int(broken[0].sum())} of the {group} threads of a {SPOKEN[kind]}"
            elif step.level > NEEDS[kind]:
                cause = f"{step.text}, which may differ between the threads of a {SPOKEN[kind]}"
            else:
                continue
            raise DispatchError(
                f"{name} needs all threads of its {SPOKEN[kind]}",
                given=cause,
                allowed=f"a condition that keeps each {SPOKEN[kind]} whole",
                hint=_by_fewer(name.rpartition(".")[2], reach),
                at=step.at,
            )


def _by_fewer(primitive: str, reach: Reach) -> str | None:
    """The primitive in the scope of the one smaller group that reaches it, all of its threads: ``Tx.warp.copy``."""
    for smaller, size in reversed(THREADS_IN.items()):
        if smaller in SPOKEN and len(reach.active) % size == 0 and reach.level <= NEEDS[smaller]:
            groups = reach.active.reshape(-1, size)
            if groups.any(axis=1).sum() == 1 and int(groups.sum()) == size:
                return f"Tx.{smaller}.{primitive}"
    return None


def _leaves(stmt: ir.Stmt, kinds: type | tuple[type, ...]) -> bool:
    """Does a statement contain such a jump out of the loop around it?"""
    if isinstance(stmt, ir.If):
        return any(_leaves(inner, kinds) for inner in (*stmt.then, *stmt.orelse))
    return isinstance(stmt, kinds)


def _conditions_of(body: ir.Body, kind: type) -> Iterator[ir.If]:
    """The conditions under which a body jumps out of its loop."""
    for stmt in body:
        if isinstance(stmt, ir.If) and _leaves(stmt, kind):
            yield stmt
            yield from _conditions_of((*stmt.then, *stmt.orelse), kind)
