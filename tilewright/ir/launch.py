"""Where a thread stands: the special registers, the launch that follows from the scope ids of a kernel; and over what a
value varies: the CTAs of a grid, the warps of a CTA, the lanes of a warp, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import or_
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.errors import KernelError, Span
from tilewright.ir.build import as_expr
from tilewright.ir.expr import Expr, Special, Value, const_value, same
from tilewright.ir.stmt import Attr, Kernel, Launch, ScopeId
from tilewright.ir.walk import statements
from tilewright.layout import AXES, SCOPES, THREADS_IN, Axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tilewright.ir.expr import Argument

__all__ = [
    "COARSER", "COORDINATES", "ELEMENT", "MAX_THREADS", "NARROWER", "RANK", "RESERVED", "SIMULATED", "SPECIALS",
    "SpecialRow", "coordinate", "launch_of", "scope_id_exprs", "special",
]  # fmt: skip


# Where a thread stands: the special registers, and the grid, CTA and cluster that follow from the scope ids of a
# kernel.
#
# A kernel says what it needs, ``T.warp_id([4])`` or ``T.cta_id([n // 64, 8])``, in any order; each extent that follows
# from others may be left out, and two that disagree are an error.
#
# Special registers: where a thread stands in the grid. One row each; those that count threads are rows of axes.
#
# The lowered stage has only these; scope ids of a kernel and coordinates of layouts become arithmetic on them.
# ``varies`` says over what a value differs, so that it is born with the smallest shape: per lane, per warp, per CTA, or
# one for all.


UNIFORM, LANE, WARP, CTA, WARPGROUP = 0, 1, 2, 4, 8  # over what a value varies: a sum of these
ALL = CTA | WARP | LANE
RESERVED = "reserved shared memory"  # which CUDA sets to 0, and gives to cooperative groups
MAX_THREADS = 1024  # of a CTA
_LAST_GPU = 31  # of those that reach each other's memory
_LAST_RANK = 15  # in the largest cluster


@dataclass(frozen=True, slots=True)
class SpecialRow:
    """A special register.

    name: as in ``T.laneid``. cuda: the C++ expression, an int. low, high: its values in any launch. axis: of layouts,
    where it is the number on one.
    """

    name: str
    cuda: str
    varies: int
    meaning: str
    high: int
    low: int = 0
    axis: Axis | None = None


def _of_axis(axis: Axis) -> SpecialRow:
    """The register with a thread's number on an axis: the arithmetic of `Axis.of_thread`, in C++."""
    last = (axis.bound or MAX_THREADS // axis.each) - 1
    text = f"threadIdx.x{f' / {axis.each}' * (axis.each > 1)}{f' % {axis.bound}' if axis.bound else ''}"
    return SpecialRow(
        axis.register,
        f"(int)({text})" if " " in text else f"(int){text}",
        LANE * (axis.each < 32) | WARP * (last * axis.each >= 32),
        f"{axis.subscope} of its {axis.scope}",
        last,
        axis=axis,
    )


def _along(name: str, cuda: str, varies: int, meaning: str, low: int = 0, most: int | None = None) -> list[SpecialRow]:
    """A register for each axis of the grid: at most ``most`` values, or as many as a grid has CTAs along that axis.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    """
    return [
        SpecialRow(f"{name}.{x}", cuda.format(x), varies, f"{meaning}, {which} axis", low + (most or ctas) - 1, low)
        for x, which, ctas in (("x", "first", 2**31 - 1), ("y", "second", 65535), ("z", "third", 65535))
    ]


SPECIALS = {
    row.name: row
    for row in (
        *(_of_axis(axis) for axis in AXES.values() if axis.register),
        *_along("ctaid", "(int)blockIdx.{}", CTA, "CTA of the grid"),
        *_along("nctaid", "(int)gridDim.{}", UNIFORM, "CTAs of the grid", low=1),
        SpecialRow("ntid", "(int)blockDim.x", UNIFORM, "threads of a CTA", MAX_THREADS, low=1),
        *_along("cluster_ctaid", "tw_cluster_ctaid_{}()", CTA, "CTA in its cluster", most=_LAST_RANK + 1),
        SpecialRow("cluster_ctarank", "tw_cluster_ctarank()", CTA, "rank of the CTA in its cluster", _LAST_RANK),
        *_along("clusterid", "tw_clusterid_{}()", CTA, "cluster of the grid"),
    )
}

RANK = "rank"
SIMULATED = SPECIALS | {RANK: SpecialRow(RANK, "", CTA, "GPU among several", _LAST_GPU)}
"""Those of the simulator, which runs the CTAs of several GPUs: there a parameter for the rank is one."""

ELEMENT = ("element.i", "element.j", "element.k", "element.l")
"""The coordinates of an element in the region that a tile call writes; only values of tile calls contain them."""


def special(name: str) -> Special:
    """The special register ``name``, an int32."""
    return Special(name if name in ELEMENT else SIMULATED[name].name)


def coordinate(scope: str, subscope: str, threads_in: Mapping[str, int] = THREADS_IN) -> Expr:
    """Which ``subscope`` of its ``scope`` the calling thread is in: a register, or arithmetic on a finer one.

    threads_in: the threads of each scope.
    """
    if scope == subscope:
        return as_expr(0)
    size, rank = threads_in[subscope], SCOPES.index
    registers = [row.axis for row in SPECIALS.values() if row.axis is not None and size % row.axis.each == 0]
    wide = [axis for axis in registers if rank(scope) <= rank(axis.scope)]
    axis = min(wide, key=lambda axis: (rank(axis.scope), -axis.each))
    number = special(axis.register) // (size // axis.each)
    return number if axis.scope == scope else number % (threads_in[scope] // size)


_REGISTERS = [row.axis for row in SPECIALS.values() if row.axis is not None]
COARSER = [
    (fine.register, coarse.register, coarse.each // fine.each)
    for fine in _REGISTERS
    for coarse in _REGISTERS
    if fine.scope == coarse.scope and coarse.each > fine.each and coarse.each % fine.each == 0
]
"""Registers that count in one scope: the finer one, the coarser one, and how many of the one are one of the other."""
NARROWER = [
    (wide.register, narrow.register, narrow.bound)
    for wide in _REGISTERS
    for narrow in _REGISTERS
    if wide.each == narrow.each and narrow.bound and SCOPES.index(narrow.scope) < SCOPES.index(wide.scope)
]
"""Registers that count the same: in a wider scope, in a narrower one, and how many the narrower one has."""

COORDINATES = {axis.name: coordinate(axis.scope, axis.subscope) for axis in AXES.values() if axis.is_thread()}
"""What the calling thread is on each thread axis of layouts."""


BLOCKS_PER_SM, NON_PORTABLE_CLUSTER = "tirx.launch_bounds_min_blocks_per_sm", "non_portable_cluster"
MAX_REGISTERS = "max_registers_of_a_thread"

# Scope ids that count threads: what each counts, and inside what; naming one promises that there is such a scope.
COUNTS = {
    "thread_id": ("thread", "cta"),
    "warp_id": ("warp", "cta"),
    "warpgroup_id": ("warpgroup", "cta"),
    "lane_id": ("thread", "warp"),
    "warp_id_in_wg": ("warp", "warpgroup"),
    "thread_id_in_wg": ("thread", "warpgroup"),
}
COUNTED = tuple(kind for kind, (_, scope) in COUNTS.items() if scope == "cta")  # they say how large the CTA is
BLOCKS = ("cta_id", "cluster_id", "cta_id_in_cluster")
WARP_THREADS = THREADS_IN["warp"]
WARPS_OF_GROUP = THREADS_IN["warpgroup"] // WARP_THREADS  # unless T.warp_id_in_wg says otherwise


# The launch of a kernel, and the values of its scope ids.


_TID = special("tid")
_REGISTER = {"cta_id": "ctaid", "cluster_id": "clusterid", "cta_id_in_cluster": "cluster_ctaid"}


def scope_id_exprs(kernel: Kernel) -> dict[str, Expr]:
    """The value of each scope id of the kernel in special registers, by the id's name.

    The first of several ids counts along x; a single ``cta_id_in_cluster`` is the rank.
    """
    ids = _scope_ids(kernel)
    warps, block = _warps_of_group(ids), _thread_block(ids)
    return {var.name: value for stmt in ids for var, value in zip(stmt.vars, _values(stmt, warps, block), strict=True)}


def _values(stmt: ScopeId, warps: int, block: Sequence[int]) -> list[Expr]:
    if stmt.kind == "thread_id" and len(stmt.vars) > 1:
        return _threads_along(block)[: len(stmt.vars)]
    if stmt.kind in COUNTS:
        counted, scope = COUNTS[stmt.kind]
        return [coordinate(scope, counted, _threads_in(warps))]
    if stmt.kind == "cta_id_in_pair":
        return [special("cluster_ctarank") % 2]
    if stmt.kind == "cta_id_in_cluster" and len(stmt.vars) == 1:
        return [special("cluster_ctarank")]
    return [special(f"{_REGISTER[stmt.kind]}.{axis}") for axis, _ in zip("xyz", stmt.vars, strict=False)]


def _threads_in(warps: int) -> dict[str, int]:
    """The threads of each scope, by the warps of a warpgroup."""
    return {**THREADS_IN, "warpgroup": WARP_THREADS * warps}


def launch_of(kernel: Kernel) -> Launch:
    """Grid, threads and cluster of a kernel; its shared memory is not planned here.

    Raises KernelError, at the scope id's line, where extents disagree or one that is needed does not follow.
    """
    ids = _scope_ids(kernel)
    cluster, grid = _blocks(ids)
    settings = _settings(kernel)
    names = (BLOCKS_PER_SM, NON_PORTABLE_CLUSTER, MAX_REGISTERS)
    blocks, wide, registers = (int(const_value(settings.get(name)) or 0) for name in names)
    return Launch(grid, _threads(ids), cluster, min_blocks_per_sm=blocks, non_portable_cluster=bool(wide),
                  max_registers=registers)  # fmt: skip


def _scope_ids(kernel: Kernel) -> Sequence[ScopeId]:
    return [stmt for stmt in statements(kernel.body) if isinstance(stmt, ScopeId)]


def _settings(kernel: Kernel) -> dict[str, Argument]:
    """Those of the function, and of its statements."""
    settings = dict(kernel.attrs)
    for stmt in statements(kernel.body):
        if isinstance(stmt, Attr):
            settings.update(stmt.settings)
    return settings


# How many threads a CTA has, and how its scope ids number them.


def _threads(ids: Sequence[ScopeId]) -> int:
    said: tuple[int, ScopeId] | None = None
    whole, asked, warps = 1, None, _warps_of_group(ids)
    for stmt in ids:
        if stmt.kind in COUNTS and stmt.kind not in COUNTED:
            _check_inside(stmt, warps)
            if (needs := _threads_in(warps)[COUNTS[stmt.kind][1]]) > whole:
                whole, asked = needs, stmt
        elif (count := _count(ids, stmt, warps)) is not None:
            if said and said[0] != count:
                raise _disagree(f"{count} threads per CTA", stmt, f"{said[0]} threads", said[1])
            said = count, stmt
    if said is None:
        return _only_inside(ids, whole)
    count, stmt = said
    if not 1 <= count <= MAX_THREADS:
        raise KernelError(f"a CTA of {count} threads", given=_text(stmt), allowed=f"1 to {MAX_THREADS}", at=stmt.at)
    if asked is not None and (count < whole or (asked.kind != "lane_id" and count % whole)):
        raise _disagree(f"T.{asked.kind} counts in groups of {whole} threads", asked, f"{count} threads", stmt)
    return count


def _count(ids: Sequence[ScopeId], stmt: ScopeId, warps: int) -> int | None:
    """The threads of a CTA by one scope id; None where it does not say."""
    if stmt.kind not in COUNTED or all(extent is None for extent in stmt.extents):
        return None
    if len(stmt.extents) > 1:
        return prod(_thread_block(ids))
    return _number(stmt, stmt.extents[0]) * _threads_in(warps)[COUNTS[stmt.kind][0]]  # type: ignore[arg-type]  # it is the one that is said


def _thread_block(ids: Sequence[ScopeId]) -> list[int]:
    """The threads of a CTA along x, y and z, by the thread ids that tell them apart; 1 where nothing is said."""
    said: dict[int, tuple[int, ScopeId]] = {}
    stmts = [stmt for stmt in ids if stmt.kind == "thread_id" and len(stmt.extents) > 1]
    for stmt in stmts:
        for axis, extent in enumerate(stmt.extents):
            if extent is not None:
                number = _number(stmt, extent)
                before = said.setdefault(axis, (number, stmt))
                if before[0] != number:
                    raise _disagree(f"{number} threads along {'xyz'[axis]}", stmt, f"{before[0]}", before[1])
    if stmts and not said:
        raise _does_not_follow(stmts[0])
    return [said[axis][0] if axis in said else 1 for axis in range(3)]


def _threads_along(block: Sequence[int]) -> list[Expr]:
    """A thread's coordinates: those along x are neighbours."""
    x, y, _ = block
    return [_TID % x, _TID // x % y, _TID // (x * y)]


def _warps_of_group(ids: Sequence[ScopeId]) -> int:
    """How many warps T.warpgroup_id counts as one: four, or what T.warp_id_in_wg says."""
    said = [stmt for stmt in ids if stmt.kind == "warp_id_in_wg" and stmt.extents[0] is not None]
    counts = [_number(stmt, stmt.extents[0]) for stmt in said if stmt.extents[0] is not None]
    for stmt, count in zip(said, counts, strict=True):
        if count != counts[0]:
            raise _disagree(f"{count} warps of a warpgroup", stmt, f"{counts[0]}", said[0])
    return counts[0] if counts else WARPS_OF_GROUP


def _only_inside(ids: Sequence[ScopeId], whole: int) -> int:
    """Without any extent: one warp for lanes, one warpgroup for what counts inside one, else a single thread."""
    for stmt in ids:
        if stmt.kind in COUNTED:
            raise _does_not_follow(stmt)
    return whole


def _does_not_follow(stmt: ScopeId) -> KernelError:
    return KernelError(
        f"the extent of T.{stmt.kind} does not follow from the other scope ids",
        given=_text(stmt),
        allowed="an extent on one of " + ", ".join(f"T.{kind}" for kind in COUNTED),
        at=stmt.at,
    )


def _check_inside(stmt: ScopeId, warps: int) -> None:
    counted, scope = (_threads_in(warps)[name] for name in COUNTS[stmt.kind])
    fixed = scope // counted
    extent = stmt.extents[0]
    if extent is not None and const_value(extent) != fixed:
        raise KernelError(f"T.{stmt.kind} has {fixed} values", given=_text(stmt), allowed=f"[{fixed}]", at=stmt.at)


def _number(stmt: ScopeId, extent: Value) -> int:
    number = const_value(extent)
    if number is None:
        raise KernelError(
            f"the extent of T.{stmt.kind} must be a constant", given=_text(stmt), allowed="a number", at=stmt.at
        )
    return int(number)


# How many CTAs the grid and a cluster have along each axis.


def _blocks(ids: Sequence[ScopeId]) -> tuple[tuple[int, int, int], tuple[Value, Value, Value]]:
    """The cluster and the grid, in CTAs, along x, y, z."""
    said = _block_extents(ids)
    stmts = {stmt.kind: stmt for stmt in ids}
    grid, cluster = [], []
    for axis in range(3):
        ctas, clusters, inside = (said[kind][axis] for kind in BLOCKS)
        size = _cluster_size(ctas, clusters, inside)
        total: Value = ctas if ctas is not None else size if clusters is None else clusters * size
        stmt = stmts.get("cta_id")
        if ctas is None and stmt is not None and axis < len(stmt.vars) and clusters is None:
            raise KernelError("the extent of T.cta_id does not follow from the other scope ids", given=_text(stmt),
                              allowed="an extent, or T.cluster_id and T.cta_id_in_cluster", at=stmt.at)  # fmt: skip
        _check_grid(total, clusters, size, stmts)
        grid.append(total)
        cluster.append(size)
    return (cluster[0], cluster[1], cluster[2]), (grid[0], grid[1], grid[2])


def _block_extents(ids: Sequence[ScopeId]) -> dict[str, list[Value | None]]:
    """The extents of each kind of block id along x, y, z; None where the kernel does not say."""
    said: dict[str, list[Value | None]] = {kind: [None, None, None] for kind in BLOCKS}
    seen: dict[str, ScopeId] = {}
    for stmt in ids:
        if stmt.kind not in BLOCKS:
            continue
        for axis, extent in enumerate(stmt.extents):
            before = said[stmt.kind][axis]
            if extent is not None and stmt.kind == "cta_id_in_cluster":
                extent = _number(stmt, extent)
            if before is not None and extent is not None and not same(before, extent):
                raise _disagree(_text(stmt), stmt, _text(seen[stmt.kind]), seen[stmt.kind])
            said[stmt.kind][axis] = extent if before is None else before
        seen[stmt.kind] = stmt
    return said


def _cluster_size(ctas: Value | None, clusters: Value | None, inside: Value | None) -> int:
    """CTAs of a cluster along one axis: what is said, else what follows from the grid and the number of clusters."""
    if inside is not None:
        return int(const_value(inside) or 0)
    total, count = const_value(ctas), const_value(clusters)
    return int(total) // int(count) if total is not None and count else 1


def _check_grid(total: Value, clusters: Value | None, size: int, stmts: dict[str, ScopeId]) -> None:
    """The grid must be whole clusters, as many as T.cluster_id says."""
    count, said = const_value(total), const_value(clusters)
    wrong = count is not None and (int(count) % size or (said is not None and int(said) * size != int(count)))
    if wrong:
        blocks = [stmts[kind] for kind in BLOCKS if kind in stmts]
        raise _disagree(", ".join(map(_text, blocks)), blocks[0], f"clusters of {size} CTAs", blocks[-1])


def _disagree(what: str, stmt: ScopeId, other: str, before: ScopeId) -> KernelError:
    return KernelError(
        f"scope ids disagree: {what}",
        given=_text(stmt) if stmt is before else f"{_text(stmt)}, and {_text(before)}{_line(before.at)}: {other}",
        allowed="extents of one launch: threads = 32 * warps = 128 * warpgroups; CTAs = clusters * CTAs of a cluster",
        at=stmt.at,
    )


def _line(at: Span | None) -> str:
    return f" in line {at.line}" if at else ""


def _text(stmt: ScopeId) -> str:
    extents = [] if all(extent is None for extent in stmt.extents) else [", ".join(map(str, stmt.extents))]
    return f"T.{stmt.kind}({''.join(f'[{text}]' for text in extents)})"


# Over what a value varies: the CTAs of a grid, the warps of a CTA, the lanes of a warp, or nothing.
#
# Known before a kernel runs, for every scalar variable; a variable that is assigned under a condition varies at least
# as that condition does. The dispatcher derives from it which threads pass a condition, the simulator the shapes of its
# arrays.


class Uniformity:
    """The axes of every variable of a kernel, found by going over it until nothing changes. Ask with `of`.

    Rooms that know more override `_derived`, or a rule.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        self._settle(lambda: self._body(kernel.body))

    def _settle(self, go_over: Callable[[], None]) -> None:
        self.variables: dict[str, int] = {}
        self._depth: dict[str, int] = {}  # of the variable's declaration: how many conditions stood around it
        self._conditions: list[tuple[int, int, frozenset[str]]] = []  # see `_under`
        self._answers: dict[int, tuple[ir.Expr, int]] = {}  # by ``id``, until a variable varies more than it did
        before: dict[str, int] | None = None
        while before != self.variables:
            before = dict(self.variables)
            go_over()

    def of(self, expr: ir.Expr) -> int:
        """The axes over which the value of ``expr`` may differ."""
        answer = self._answers.get(id(expr))
        if answer is None:
            answer = self._answers[id(expr)] = (expr, self._derived(expr))
        return answer[1]

    def of_all(self, exprs: Iterable[ir.Expr]) -> int:
        """The axes over which any of the values may differ."""
        return reduce(or_, map(self.of, exprs), UNIFORM)

    def _derived(self, expr: ir.Expr) -> int:
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        parts = expr.parts if isinstance(expr, ir.Vector) else ir.parts(expr)  # it computes with these alone
        return self.of_all(parts)  # type: ignore[arg-type]  # expressions, of which an expression is made

    # Expressions

    def _var(self, expr: ir.Var) -> int:
        return self.variables.get(expr.name, UNIFORM)

    def _special(self, expr: ir.Special) -> int:
        return ir.SIMULATED[expr.name].varies

    def _load(self, expr: ir.Load) -> int:
        if expr.buffer.space == "local":
            return ALL
        axes = CTA if expr.buffer.is_shared else UNIFORM
        return axes | self._address(ir.AddressOf(expr.buffer, expr.indices))

    def _address(self, expr: ir.AddressOf) -> int:
        data = expr.buffer.data
        return self.of_all(expr.indices) | (self.of(data) if data is not None else UNIFORM)

    def _call(self, expr: ir.Call) -> int:
        """What an instruction gives is up to the room that knows instructions."""
        return ALL

    # Statements

    def _body(self, body: ir.Body) -> None:
        for stmt in body:
            self._statement(stmt)

    def _statement(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Bind):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.value))
        elif isinstance(stmt, ir.Assign):
            around = self._conditions[self._depth.get(stmt.var.name, 0) :]
            axes = (within if stmt.var.name in names else axes for axes, within, names in around)
            self._join(stmt.var, reduce(or_, axes, self.of(stmt.value)))
        elif isinstance(stmt, ir.If):
            self._under(self.of(stmt.cond), stmt.then)
            self._under(self.of(stmt.cond), stmt.orelse)
        elif isinstance(stmt, ir.For):
            self._depth[stmt.var.name] = len(self._conditions)
            self._join(stmt.var, self.of(stmt.start))
            self._turns(stmt)
        elif isinstance(stmt, ir.While):
            self._turns(stmt)

    def _turns(self, loop: ir.For | ir.While) -> None:
        """What a loop is given in its turns. Lanes that have left the loop need none of the variables of its own."""
        within = self._leaving(loop.body, UNIFORM, (ir.Continue,))
        self._under(self.divergence(loop), loop.body, within, self._own_of(loop))

    def _own_of(self, loop: ir.For | ir.While) -> frozenset[str]:
        """Variables that lanes need no more once they have left a loop: a room may know some."""
        return frozenset()

    def _under(self, axes: int, body: ir.Body, within: int = UNIFORM, names: frozenset[str] = frozenset()) -> None:
        """Statements under a condition over these axes; ``within``, as far as the variables ``own`` are concerned."""
        self._conditions.append((axes, within, names))
        self._body(body)
        self._conditions.pop()

    def _join(self, var: ir.Var, axes: int) -> None:
        if axes & ~self.variables.setdefault(var.name, UNIFORM):
            self.variables[var.name] |= axes
            self._answers.clear()

    def divergence(self, loop: ir.For | ir.While) -> int:
        """The axes over which the lanes of a loop diverge: by its bounds or condition, and by break and continue."""
        entry = self.of_all((loop.start, loop.stop)) if isinstance(loop, ir.For) else self.of(loop.cond)
        return entry | self._leaving(loop.body, UNIFORM, (ir.Break, ir.Continue))

    def _leaving(self, body: ir.Body, around: int, jumps: tuple[type[ir.Stmt], ...]) -> int:
        axes = UNIFORM
        for stmt in body:
            if isinstance(stmt, jumps):
                axes |= around
            elif isinstance(stmt, ir.If):
                inner = around | self.of(stmt.cond)
                axes |= self._leaving(stmt.then, inner, jumps) | self._leaving(stmt.orelse, inner, jumps)
        return axes


_RULES: dict[type[ir.Expr], Callable[..., int]] = {
    ir.Var: Uniformity._var,
    ir.Special: Uniformity._special,
    ir.Load: lambda self, expr: self._load(expr),
    ir.AddressOf: Uniformity._address,
    ir.Call: lambda self, expr: self._call(expr),
}
