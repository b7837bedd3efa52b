"""Passes over the statements of a kernel before its tile calls are resolved: the alignment of shared tiles, the
swizzles of tensor maps, the pool of registers, and variables for scalars in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright import ir, isa
from tilewright.errors import KernelError
from tilewright.ir.launch import BLOCKS_PER_SM, launch_of
from tilewright.isa import shared_alignment
from tilewright.layout import SwizzleMode
from tilewright.tile.scope import ControlFlow, Reach
from tilewright.tile.smem_descriptors import mode_of

if TYPE_CHECKING:
    from tilewright.errors import Span

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
