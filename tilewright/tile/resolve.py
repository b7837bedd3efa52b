"""Passes over a kernel's statements: the alignment of shared tiles, the swizzles of tensor maps, the pool of registers,
variables for scalars; and the one that replaces every tile call by the body that the chosen variant writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import ir, isa
from tilewright.errors import DispatchError, KernelError, Span, TilewrightError, choices, warn
from tilewright.ir import Assume, Bind, Body, For, If, Kernel, Region, Stmt, While, as_expr
from tilewright.ir.debts import owing
from tilewright.ir.launch import BLOCKS_PER_SM, launch_of
from tilewright.ir.ranges import RangeFacts
from tilewright.isa import shared_alignment
from tilewright.layout import SwizzleMode
from tilewright.primitives import PRIMITIVES
from tilewright.records import NotebookText
from tilewright.tile.call import TileCall, call_name, checked, side_of, without_clip
from tilewright.tile.dispatch import Chosen, Tried, alike, check_keywords, choose
from tilewright.tile.scope import ControlFlow, MeetingPlaces, Reach
from tilewright.tile.smem_descriptors import mode_of
from tilewright.tile.steps import Builder, Preparations

if TYPE_CHECKING:
    from tilewright.isa import Arch


# Passes over the statements of a kernel before its tile calls are resolved: the alignment of shared tiles, the swizzles
# of tensor maps, the pool of registers, and variables for scalars in registers.
#
# The pass that aligns shared memory to what the copy engine asks of it: the period of a swizzle.
#
# A greater alignment than a kernel asks for changes nothing that it computes, so that nobody needs to write it down.


def aligned(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with the memory of each shared tile that one thread copies to or from an array so aligned.

    Before: tile calls are nodes. After: `storage_start` of these tiles, and of what lies in the same memory, gives a
    multiple of the alignment, unless the kernel says where in that memory they begin.
    """
    asked: dict[str, int] = {}
    for stmt in ir.statements(kernel.body):
        if isinstance(stmt, ir.TileCallStmt) and stmt.primitive == "copy_async" and stmt.scope == "thread":
            tiles = [part.buffer for part in stmt.args if isinstance(part, ir.Region)]
            shared = [buffer for buffer in tiles if buffer.is_shared]
            if len(shared) == 1 and any(buffer.space == "global" for buffer in tiles):
                root, needed = shared[0].root, _alignment(shared[0], asked_for=stmt.dispatch == "tma")
                asked[root.name] = max(asked.get(root.name, root.align), needed)

    def raised(buffer: ir.Buffer) -> ir.Buffer:
        wanted = asked.get(buffer.name, 0) if buffer.data is None else 0
        return replace(buffer, align=wanted) if wanted > buffer.align else buffer

    return replace(kernel, body=ir.map_buffers(kernel.body, raised)) if asked else kernel


def _alignment(tile: ir.Buffer, *, asked_for: bool) -> int:
    """Of a tile with a swizzle; of another one where the call asks for the copy engine."""
    swizzle, _ = tile.layout.parted(tile.shape) if tile.layout is not None else (None, None)
    mode = mode_of(swizzle, tile.dtype.bits) if swizzle is not None else None
    return shared_alignment(int(mode or SwizzleMode.SWIZZLE_NONE)) if mode or asked_for else 0


# Boxes of a tensor map that the kernel names itself: the map and the layout of the tile have to say the same swizzle.


def with_swizzles(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel whose tensor maps know the swizzles of the tiles that their boxes come from and go to.

    Raises KernelError at a copy between a map that the kernel makes and a tile that its layout swizzles otherwise.
    """
    if not kernel.maps:
        return kernel
    body = list(ir.statements(kernel.body))
    by_layout = {
        part.buffer.name
        for stmt in body
        if isinstance(stmt, ir.TileCallStmt)
        for part in stmt.args
        if isinstance(part, ir.Region)
    }
    tiles: dict[str, dict[str, int]] = {}
    maps = {tensor_map.name: tensor_map for tensor_map in kernel.maps}
    for stmt in body:
        for name, tile in _boxes(stmt):
            mode = _swizzle(tile, by_layout)
            if name not in maps or mode is None:
                continue
            tiles.setdefault(name, {})[tile.name] = mode
            if maps[name].is_made and maps[name].swizzle != mode:
                raise KernelError(
                    f"{name} and {tile.name} have different swizzles",
                    given=f"{name}: {maps[name].swizzle}; {tile.name}: {tile.layout}",
                    allowed=f"swizzle={mode}, which the layout of {tile.name} has",
                    hint=f"swizzle={mode} in T.tensor_map; or another layout= of {tile.name}",
                    at=stmt.at,
                )
    told = (replace(tensor_map, tiles=tuple(tiles.get(name, {}).items())) for name, tensor_map in maps.items())
    return replace(kernel, maps=tuple(told))


def _boxes(stmt: ir.Stmt) -> Iterator[tuple[str, ir.Buffer]]:
    """The copies of boxes that a statement begins: the map, and the tile in shared memory."""
    for expr in ir.expressions(stmt):
        operands = isa.bind(expr).operands if isinstance(expr, ir.Call) and "tensor" in expr.op else {}
        ends = [operands[name][0] for name in ("map", "dst", "src") if name in operands]
        if len(ends) == 2 and isinstance(ends[0], ir.AddressOf) and isinstance(ends[1], ir.AddressOf):
            yield ends[0].buffer.name, ends[1].buffer


def _swizzle(tile: ir.Buffer, by_layout: set[str]) -> int | None:
    """The mode that the layout of a tile has; None where it has another swizzle, or none that the kernel keeps to."""
    swizzle, _ = tile.layout.parted(tile.shape) if tile.layout is not None and tile.is_shared else (None, None)
    if swizzle is not None:
        mode = mode_of(swizzle, tile.dtype.bits)
        return None if mode is None else int(mode)
    return 0 if tile.name in by_layout and tile.is_shared else None


# Registers that `setmaxnreg` moves between warpgroups: are enough given back for those that are requested?
#
# At entry every thread has as many as fit if the promised number of CTAs runs on a multiprocessor. `setmaxnreg` gives
# back to the CTA's pool or takes from it, and waits for ever where the pool will never have enough.


HANDOVER = "ptx.setmaxnreg"
REGISTERS, MOST, STEP = 65536, 256, 8  # registers of a multiprocessor; the most of a thread; the unit of both


class Handover(NamedTuple):
    """registers: of each thread after it. groups: the warpgroups that execute it."""

    at: Span | None
    takes: bool
    registers: int
    groups: tuple[int, ...]


def check_registers(kernel: ir.Kernel) -> None:
    """Raises KernelError at the first `setmaxnreg` that ptxas would refuse, or that could wait for ever."""
    if not _hands_over(kernel):
        return
    control, launch = ControlFlow(kernel), launch_of(kernel)
    handovers = list(_handovers(kernel.body, control.everyone(), control))
    fitting = REGISTERS // (launch.threads * max(1, launch.min_blocks_per_sm)) // STEP * STEP
    entry = launch.max_registers or min(fitting, MOST, max(handover.registers for handover in handovers))
    _check_pool(handovers, entry, launch.threads // 128)


def promised(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with a promise that holds for every launch, one CTA on a multiprocessor, where it has none.

    Without one ptxas does not know how many registers threads have at entry, and ignores `setmaxnreg`.
    """
    if not _hands_over(kernel) or (launch := launch_of(kernel)).min_blocks_per_sm or launch.max_registers:
        return kernel
    return replace(kernel, attrs=(*kernel.attrs, (BLOCKS_PER_SM, 1)))


def _hands_over(kernel: ir.Kernel) -> bool:
    return any(_handover(stmt) is not None for stmt in ir.statements(kernel.body))


def _check_pool(handovers: list[Handover], entry: int, groups: int) -> None:
    has = [entry] * groups
    for handover in handovers:
        for group in handover.groups:
            if (handover.registers < has[group]) if handover.takes else (handover.registers > has[group]):
                raise KernelError(
                    f"T.ptx.setmaxnreg {'takes' if handover.takes else 'gives back'} registers",
                    given=f"{handover.registers} where each thread of warpgroup {group} has {has[group]}",
                    allowed=f"at {'least' if handover.takes else 'most'} {has[group]}",
                    at=handover.at,
                )
            has[group] = handover.registers
    if sum(has) > entry * groups:
        raise KernelError(
            "warpgroups ask for more registers than there are",
            given=f"{' + '.join(map(str, has))} = {sum(has)} for each thread of {groups} warpgroups",
            allowed=f"{groups} x {entry} = {entry * groups}, what they have at entry",
            hint=_fitting(handovers, has, entry * groups),
            at=next(handover.at for handover in reversed(handovers) if handover.takes),
        )


def _fitting(handovers: list[Handover], has: list[int], pool: int) -> str | None:
    """The most registers that the taking warpgroups could have."""
    takers = {group for handover in handovers if handover.takes for group in handover.groups}
    rest = pool - sum(count for group, count in enumerate(has) if group not in takers)
    fits = rest // len(takers) // STEP * STEP
    return f"T.ptx.setmaxnreg(True, {fits})" if fits >= pool // len(has) else None


def _handover(stmt: ir.Stmt) -> ir.Call | None:
    call = stmt.value if isinstance(stmt, ir.Evaluate) else None
    return call if isinstance(call, ir.Call) and call.op == HANDOVER else None


def _handovers(body: ir.Body, reach: Reach, control: ControlFlow) -> Iterator[Handover]:
    """All `setmaxnreg` of a body, with their warpgroups. Raises DispatchError where some of their warps do not."""
    for stmt in body:
        if (call := _handover(stmt)) is not None:
            bound = isa.bind(call)
            scope = control.scope("warpgroup", reach, f"T.{HANDOVER}")
            groups = np.flatnonzero(scope.active.reshape(-1, 128).any(1)).tolist()
            count = int(ir.const_value(bound.operands["n"][0]) or 0)
            yield Handover(stmt.at, bool(bound.mods["inc"]), count, tuple(groups))
        elif isinstance(stmt, ir.If):
            for branch, taken in ((stmt.then, True), (stmt.orelse, False)):
                yield from _handovers(branch, control.behind(reach, stmt.cond, stmt.at, taken=taken), control)
        elif isinstance(stmt, (ir.For, ir.While)):
            yield from _handovers(stmt.body, control.inside(reach, stmt), control)
        reach = control.after(reach, stmt)


# Variables in the place of scalars in registers, ``T.local_scalar``, where only their values are used. The uniformity
# of a variable is known: whether a loop on it keeps warps whole, and how small its array is in the simulator.


def with_variables(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with a variable for every one-element local buffer whose first store comes before every other use.

    One whose address is taken, which an instruction writes or which a tile call has for a tile stays a buffer.
    """
    every = ir.statements(kernel.body)
    scalars = {stmt.buffer.name for stmt in every if isinstance(stmt, ir.AllocBuffer) and _is_scalar(stmt.buffer)}
    for stmt in every if scalars else ():
        scalars -= _held(stmt)
    mentions = _mentions(kernel.body, scalars) if scalars else {}
    first = {name: store for name in scalars if (store := _first_store(kernel.body, name, mentions)) is not None}
    return replace(kernel, body=_rewritten(kernel.body, first)) if first else kernel


def _is_scalar(buffer: ir.Buffer) -> bool:
    return (
        buffer.space == "local"
        and buffer.shape == (1,)
        and buffer.dtype.lanes == 1
        and buffer.data is None
        and (buffer.layout is None or buffer.layout == ir.row_major((1,)))
    )


def _held(stmt: ir.Stmt) -> set[str]:
    """The buffers of which a statement uses more than the value."""
    names: set[str] = set()
    if isinstance(stmt, ir.TileCallStmt):
        names |= {part.buffer.name for part in stmt.args if isinstance(part, ir.Region)}
    for node in ir.expressions(stmt):
        if isinstance(node, ir.AddressOf):
            names.add(node.buffer.name)
        elif isinstance(node, ir.Call):
            bound = isa.bind(node)
            places = (place for operand in bound.given if operand.written for place in bound.operands[operand.name])
            names |= {place.buffer.name for place in places if isinstance(place, ir.Load)}
    return names


def _mentions(body: ir.Body, scalars: set[str]) -> dict[int, set[str]]:
    """The scalars that each statement, given by its `id`, or one inside it, reads or writes."""
    mentions: dict[int, set[str]] = {}
    for stmt in body:
        names = {node.buffer.name for node in ir.expressions(stmt) if isinstance(node, ir.Load)} & scalars
        for inner in ir.bodies(stmt):
            mentions |= _mentions(inner, scalars)
            names |= set().union(*(mentions[id(child)] for child in inner))
        mentions[id(stmt)] = names
    return mentions


def _first_store(body: ir.Body, name: str, mentions: dict[int, set[str]]) -> ir.Store | None:
    """The store that comes before everything else that names the scalar, and whose block holds all of that."""
    stmts = [stmt for stmt in body if name in mentions[id(stmt)]]
    if not stmts:
        return None
    first = stmts[0]
    if isinstance(first, ir.Store):
        is_first = first.place.buffer.name == name and not any(_reads(node, name) for node in ir.walk(first.value))
        return first if is_first else None
    heads = {node.buffer.name for node in ir.expressions(first) if isinstance(node, ir.Load)}
    inner = [part for part in ir.bodies(first) if any(name in mentions[id(stmt)] for stmt in part)]
    alone = len(stmts) == 1 and len(inner) == 1 and name not in heads
    return _first_store(inner[0], name, mentions) if alone else None


def _reads(node: ir.Expr, name: str) -> bool:
    return isinstance(node, ir.Load) and node.buffer.name == name


def _rewritten(body: ir.Body, first: dict[str, ir.Store]) -> ir.Body:
    def value(node: ir.Expr) -> ir.Expr | None:
        return ir.Var(node.buffer.name, node.dtype) if isinstance(node, ir.Load) and node.buffer.name in first else None

    def change(stmt: ir.Stmt) -> ir.Body | None:
        if isinstance(stmt, ir.AllocBuffer) and stmt.buffer.name in first:
            return ()
        if isinstance(stmt, ir.Store) and stmt.place.buffer.name in first:
            var, new = ir.Var(stmt.place.buffer.name, stmt.place.dtype), ir.rewrite(stmt.value, value)
            begins = first[var.name] is stmt
            return (ir.Bind(var, new, at=stmt.at) if begins else ir.Assign(var, new, at=stmt.at),)
        new_stmt = ir.rewrite_values(stmt, value)
        if isinstance(new_stmt, ir.If):
            then, orelse = (ir.map_body(part, change) for part in (new_stmt.then, new_stmt.orelse))
            return (replace(new_stmt, then=then, orelse=orelse),)
        if isinstance(new_stmt, (ir.For, ir.While)):
            return (replace(new_stmt, body=ir.map_body(new_stmt.body, change)),)
        return (new_stmt,)

    return ir.map_body(body, change)


# The pass that replaces every tile call by the body that the chosen variant writes.
#
# The report: for each tile call of a kernel the variant that took it, and why others did not.


@dataclass(frozen=True, slots=True)
class Entry:
    """One tile call. call: as the kernel has it. variant: the chosen one; plan: its decision in a few words. tried: the
    variants before it, each with its reason and, for a near miss, a change of the call that makes it fit. widened: a
    change of the call that makes the chosen variant move more at a time.
    """

    at: Span | None
    primitive: str
    call: str
    scope: str
    variant: str
    plan: str
    tried: tuple[Tried, ...] = ()
    widened: str | None = None

    @property
    def line(self) -> int:
        """The kernel's line, 0 if it is not known."""
        return self.at.line if self.at else 0

    @property
    def hints(self) -> tuple[str, ...]:
        """Changes with which a better variant would have taken the call; if there are none, the chosen one's."""
        better = tuple(attempt.hint for attempt in self.tried if attempt.hint)
        return better or ((self.widened,) if self.widened else ())

    def __str__(self) -> str:
        head = f"{self.at}: {self.call}" if self.at else self.call
        lines = [head, f"  {self.primitive}/{self.variant}: {self.plan}"]
        lines += [f"    try: {self.widened}"] if self.widened else []
        for names, attempt in alike(self.tried, "reason", "hint"):
            lines.append(f"  not {names}: {attempt.reason}")
            lines += [f"    try: {attempt.hint}"] if attempt.hint else []
        return "\n".join(lines)

    __repr__ = __str__


def entry_of(call: TileCall, chosen: Chosen) -> Entry:
    """The entry of one call."""
    stmt, plan = call.stmt, chosen.plan
    widened: str | None = getattr(plan, "widened", None)  # of some plans: a change for wider accesses
    return Entry(
        stmt.at, stmt.primitive, call.text, stmt.scope, chosen.variant.name, plan.summary(), chosen.tried, widened
    )


@dataclass(frozen=True, slots=True)
class DispatchReport(NotebookText):
    """The entries of a kernel's tile calls, in the order of the kernel, for a target."""

    entries: tuple[Entry, ...] = ()
    kernel: str = ""
    target: str = ""

    def __str__(self) -> str:
        title = [f"{self.kernel} for {self.target}"] if self.kernel else []
        return "\n".join([*title, *(map(str, self.entries) if self.entries else ["no tile calls"])])

    __repr__ = __str__


def resolve(kernel: Kernel, arch: Arch | str) -> tuple[Kernel, DispatchReport]:
    """The kernel without tile calls, and the report on how each was carried out.

    Before: tile calls are nodes. After: each is a comment and the chosen variant's statements, on flat storage, at the
    call's line. Raises DispatchError for a call that no variant takes, a forced variant that does not fit, and a
    collective that control flow keeps from some of its threads.
    """
    target = isa.arch(arch) if isinstance(arch, str) else arch
    kernel = aligned(with_variables(kernel))
    if not any(isinstance(stmt, ir.TileCallStmt) for stmt in ir.statements(kernel.body)):
        return kernel, DispatchReport((), kernel.name, str(target))
    resolver = _Resolver(kernel, target)
    body = resolver.body(kernel.body, resolver.control.everyone(), RangeFacts.of_kernel(kernel))
    maps = resolver.preparations.maps.values()
    resolved = replace(
        kernel,
        body=resolver.meeting.placed(resolver.preparations.placed(body)),
        buffers=(*kernel.buffers, *(buffer for _, buffer in maps)),
        maps=(*kernel.maps, *(tensor_map for tensor_map, _ in maps)),
    )
    return resolved, DispatchReport(tuple(resolver.entries), kernel.name, str(target))


class _Resolver:
    """One walk over a kernel, which knows the threads of each statement. (Mutable: collects the report.)"""

    def __init__(self, kernel: Kernel, arch: Arch) -> None:
        self.arch = arch
        self.arguments = frozenset(var.name for var in (*kernel.params, *kernel.symbols))
        self.control = ControlFlow(kernel)
        self.names = ir.FreshNames(ir.defined(kernel))
        self.preparations = Preparations()
        self.meeting = MeetingPlaces(kernel, self.control)
        self.changing = ir.assigned(kernel.body)
        self.entries: list[Entry] = []

    def body(self, body: Body, reach: Reach, facts: RangeFacts) -> Body:
        result: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, ir.TileCallStmt):
                result += self.call(stmt, reach, facts)
            else:
                result.append(self.around(stmt, reach, facts))
            reach = self.control.after(reach, stmt)
            if isinstance(stmt, Bind) and stmt.var.name not in self.changing:
                facts = facts.with_binding(stmt.var, stmt.value)
            elif isinstance(stmt, Assume):
                facts = facts.with_condition(stmt.cond)
        return tuple(result)

    def around(self, stmt: Stmt, reach: Reach, facts: RangeFacts) -> Stmt:
        """A statement with the tile calls inside it resolved."""
        if isinstance(stmt, If):
            then = self.control.behind(reach, stmt.cond, stmt.at, taken=True)
            orelse = self.control.behind(reach, stmt.cond, stmt.at, taken=False)
            return replace(
                stmt,
                then=self.body(stmt.then, then, facts.with_condition(stmt.cond)),
                orelse=self.body(stmt.orelse, orelse, facts),
            )
        if isinstance(stmt, For):
            inside = facts.with_loop(stmt.var, stmt.start, stmt.stop, stmt.step)
            return replace(stmt, body=self.body(stmt.body, self.control.inside(reach, stmt), inside))
        if isinstance(stmt, While):
            return replace(stmt, body=self.body(stmt.body, self.control.inside(reach, stmt), facts))
        return stmt

    def call(self, stmt: ir.TileCallStmt, reach: Reach, facts: RangeFacts) -> Body:
        """The statements that carry out one tile call."""
        try:
            call = self.context(stmt, reach, facts)
            chosen = self.chosen(call, reach, facts)
            out = Builder(self.names, stmt.at, facts, self.preparations, self.meeting)
            label = f"{stmt.primitive}/{chosen.variant.name}"
            out.comment(f"{label} ({stmt.at})" if stmt.at else label)
            chosen.write(call, out)
        except TilewrightError as error:
            raise error.located(stmt.at) from None
        self.entries.append(entry_of(call, chosen))
        _warn_of_repetition(call)
        body = out.body
        for operand, side in call.operands:
            leaves = operand.role.may_leave(dict(call.config))
            body = owing(body, side.region, facts, call_name(stmt), operand.role.asking, leaves=leaves)
        return body

    def chosen(self, call: TileCall, reach: Reach, facts: RangeFacts) -> Chosen:
        """The variant that takes a call. An error for a call by one thread says which scope would be taken."""
        try:
            return choose(call)
        except DispatchError as error:
            wider = ("cta", "warpgroup", "warp") if call.stmt.scope == "thread" and error.hint is None else ()
            for stmt in (replace(call.stmt, scope=scope) for scope in wider):
                with suppress(TilewrightError):
                    choose(self.context(stmt, reach, facts))
                    error.hint = f"{call_name(stmt)}(...): as it stands, each thread makes the call by itself"
                    break
            raise

    def context(self, stmt: ir.TileCallStmt, reach: Reach, facts: RangeFacts) -> TileCall:
        """The call as variants see it, checked."""
        name = call_name(stmt)
        if stmt.primitive not in PRIMITIVES:
            names = choices(stmt.primitive, PRIMITIVES)
            raise DispatchError(f"{name} is no tile primitive", given=stmt.primitive, allowed=names)
        row = PRIMITIVES[stmt.primitive]
        check_keywords(stmt)
        pairs = zip(stmt.args, row.operands, strict=False)
        fits = all(operand.role.admits(tile=isinstance(part, Region)) for part, operand in pairs)
        if not fits or not row.required <= len(stmt.args) <= len(row.operands):
            passed, allowed = ", ".join(map(str, stmt.args)), f"{name}{row.signature}"
            raise DispatchError(f"{name} takes {' and '.join(stmt.names)}", given=passed, allowed=allowed)
        operands = {
            operand.name: part
            for operand, part in zip(row.operands, stmt.args, strict=False)
            if not (operand.role.absent and part == stmt.args[0])  # left out, with others behind it
        }
        operands |= {
            operand.name: stmt.args[0] if operand.default is None else as_expr(operand.default)
            for operand in row.operands[len(stmt.args) :]
            if not operand.absent
        }
        sides = {key: side_of(part, facts) for key, part in operands.items() if isinstance(part, Region)}
        scalars = {key: part for key, part in operands.items() if not isinstance(part, Region)}
        scope = self.control.scope(stmt.scope, reach, name)
        return without_clip(
            checked(TileCall(stmt, sides, scope, self.arch, facts, stmt.config, self.arguments, scalars))
        )


def _warn_of_repetition(call: TileCall) -> None:
    """Warn where several threads each work on all of one tile of a memory: one thread was meant, or a scope."""
    stored = next((side for side in call.written if side.space != "local"), None)
    if call.scope.kind != "thread" or stored is None:
        return
    count = call.scope.alike(stored.starts)
    if count > 1:
        name = call.stmt.primitive
        warn(
            f"{call_name(call.stmt)} is one thread's, and {count} threads each do all of it, on {stored}: "
            f"Tx.cta.{name} shares it out, `if T.thread_id() == 0:` leaves it to one",
            call.at,
        )
