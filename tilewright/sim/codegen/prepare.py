"""What is done to a lowered kernel before it is cut, and which variables live on between blocks.

Collectives are moved out of the conditions of branches and loops, so that lanes can reconverge before them. Named
pointers and indices are replaced by their expressions: a name for ``address_of(A[4 * tid])`` would hide from the
addressing code what a pointer points into and how it varies. Scalars that an operation holds until it is complete
become buffers in registers, of which the checks see every access.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.dtypes import BOOL, INT32
from tilewright.ir import Assign, Bind, Body, For, bodies
from tilewright.ir.launch import CTA, SIMULATED, UNIFORM
from tilewright.isa import bind
from tilewright.sim.codegen.values import acts, calls_of, given_in, is_closed, is_collective, names_in, put_in, read_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tilewright.ir import Block
    from tilewright.ir.flow import Flow

# Liveness: for each block of a graph the variables that it, or a later block, may read.


def live_in(blocks: Sequence[Block], flow: Flow, parameters: frozenset[str]) -> dict[int, frozenset[str]]:
    """By block. A variable that is assigned under a condition keeps its earlier value in other lanes."""
    used, assigned = {}, {}
    for number in flow.line:
        used[number], assigned[number] = _summary(blocks[number], parameters)
    live: dict[int, frozenset[str]] = dict.fromkeys(flow.line, frozenset())
    todo = set(flow.line)
    for number in _backwards(flow, todo):
        after = frozenset().union(*(live[k] for k in flow.successors[number]))
        now = used[number] | (after - assigned[number])
        if now != live[number]:
            live[number] = now
            todo.update(flow.predecessors[number])
    return live


def _backwards(flow: Flow, todo: set[int]) -> Iterable[int]:
    while todo:
        for number in reversed(flow.line):
            if number in todo:
                todo.discard(number)
                yield number


def _summary(block: Block, parameters: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The variables whose earlier values a block reads, and those that it gives values in all of its lanes."""
    used: set[str] = set()
    assigned: set[str] = set()
    _go(block.body, used, assigned, sure=True)
    used |= names_in(block.end.reads) - assigned
    return frozenset(used - parameters), frozenset(assigned)


def _go(body: Body, used: set[str], assigned: set[str], *, sure: bool) -> None:
    """Adds the variables that statements read and assign. One that is bound under a condition ends there."""
    for stmt in body:
        used |= names_in(read_by(stmt)) - assigned
        if isinstance(stmt, Bind) or (isinstance(stmt, Assign) and sure):
            assigned.add(stmt.var.name)
        elif isinstance(stmt, Assign):
            used |= {stmt.var.name} - assigned
        for inner in bodies(stmt):
            _go(inner, used, assigned | ({stmt.var.name} if isinstance(stmt, For) else set()), sure=False)


# Loads of compiled code in the lanes that need them.
#
# Triton reads a scalar in every thread of a program, and stores one in its first thread. Threads that do nothing with
# what they read do not race: from an address that is the same for all, only those load that use the value.


Uses: TypeAlias = "dict[str, dict[ir.Expr | str | None, None]]"

LARGEST = 32  # nodes of a condition


def needed(body: ir.Body, parameters: frozenset[str]) -> ir.Body:
    """The statements, with each load of a scalar under the conditions under which its value is used."""
    stmts = ir.statements(body)
    loads = [stmt for stmt in given_in(stmts) if _is_scalar(stmt.value, parameters)]
    if not loads:
        return body
    used, places = _uses(body, _of_threads(stmts))
    guarded: dict[int, ir.Body] = {}
    for stmt in loads:
        conditions = _conditions(stmt.var.name, used)
        if conditions and places.get(id(stmt)) not in conditions:
            cond = reduce(lambda a, b: ir.Binary("or", a, b, BOOL), conditions)
            first = (ir.Bind(stmt.var, ir.Const(0, stmt.var.dtype), at=stmt.at),) if isinstance(stmt, ir.Bind) else ()
            guarded[id(stmt)] = (*first, ir.If(cond, (ir.Assign(stmt.var, stmt.value, at=stmt.at),), (), at=stmt.at))
    return ir.map_body(body, lambda stmt: guarded.get(id(stmt)))


def _is_scalar(value: ir.Expr, parameters: frozenset[str]) -> bool:
    """Is it a load from global memory, at an address that all threads of a CTA have in common?"""
    acting = [node for node in ir.walk(value) if acts(node)]
    if len(acting) != 1 or not isinstance(load := acting[0], ir.Load) or load.buffer.space != "global":
        return False
    return load.buffer.data is not None and all(
        is_closed(node, parameters)
        and not (isinstance(node, ir.Special) and SIMULATED[node.name].varies not in (UNIFORM, CTA))
        for node in ir.walk(load.buffer.data)
    )


def _of_threads(stmts: Sequence[ir.Stmt]) -> dict[str, ir.Expr]:
    """The expressions of registers that are assigned once, and depend on thread numbers alone."""
    stmts_given = given_in(stmts)
    counts = Counter(stmt.var.name for stmt in stmts_given)
    values: dict[str, ir.Expr] = {}
    for stmt in stmts_given:
        value = put_in(stmt.value, values) if counts[stmt.var.name] == 1 else stmt.var
        if _is_condition(value):
            values[stmt.var.name] = value
    return values


def _is_condition(value: ir.Expr) -> bool:
    """Can it be a condition on thread numbers: of few nodes, all of them closed?"""
    nodes = ir.walk(value)
    return len(nodes) <= LARGEST and all(is_closed(node, frozenset()) for node in nodes)


def _uses(body: ir.Body, values: Mapping[str, ir.Expr]) -> tuple[Uses, dict[int, ir.Expr]]:
    """For what each variable is used: a condition, under it; the name of what it computes; None, for anything else.

    And by their ``id`` the conditions of the statements that have one.
    """
    used: Uses = defaultdict(dict)
    places: dict[int, ir.Expr] = {}

    def add(nodes: Sequence[ir.Expr], use: ir.Expr | str | None) -> None:
        for name in names_in(nodes):
            used[name][use] = None

    def go(body: ir.Body, under: ir.Expr | None) -> None:
        for stmt in body:
            if under is not None:
                places[id(stmt)] = under
            if isinstance(stmt, (ir.Assign, ir.Bind)) and under is None and not any(map(acts, ir.walk(stmt.value))):
                add(ir.walk(stmt.value), stmt.var.name)
                continue
            add(read_by(stmt), under)
            cond = put_in(stmt.cond, values) if isinstance(stmt, ir.If) and _is_predicated(stmt) else None
            for inner in ir.bodies(stmt):
                go(inner, cond if cond is not None and _is_condition(cond) else under)

    go(body, None)
    return used, places


def _is_predicated(stmt: ir.If) -> bool:
    """Is it one instruction under a predicate, and no branch?"""
    return not stmt.orelse and all(inner.at == stmt.at for inner in ir.statements(stmt.then))


def _conditions(name: str, used: Uses) -> list[ir.Expr]:
    """The conditions under which a value is used, directly or for others; none where it is used without one."""
    conditions: dict[ir.Expr, None] = {}
    todo, seen = [name], {name}
    while todo:
        for use in used.get(todo.pop(), ()):
            if use is None:
                return []
            if not isinstance(use, str):
                conditions[use] = None
            elif use not in seen:
                seen.add(use)
                todo.append(use)
    return list(conditions)


# The kernel as it is cut: names that hide addresses are gone, and collectives stand in front of branches.


def prepared(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with every statement an object of its own, collectives out of the conditions of branches, and names
    of addresses put in where they are used.

    ``if elect(): ...`` becomes ``cond = elect(); if cond: ...``, since lanes may have to reconverge before the call.
    """
    if kernel.compiled:
        return replace(kernel, body=_apart(kernel.body))
    loaded = ir.map_body(kernel.body, _loads_apart)
    return replace(kernel, body=_apart(_in_registers(_inlined(loaded, _definitions(loaded)))))


def _loads_apart(stmt: ir.Stmt) -> ir.Body | None:
    """A named pointer whose address is made of loaded values, with names for these: it can then be put in where it is
    used, and brings what its indices owe.
    """
    if not (isinstance(stmt, ir.Bind) and isinstance(stmt.value, ir.AddressOf) and stmt.value.owed) or stmt.mutable:
        return None
    names: dict[ir.Expr, ir.Var] = {}

    def named(node: ir.Expr) -> ir.Expr | None:
        if not isinstance(node, ir.Load):
            return None
        return names.setdefault(node, ir.Var(f"{stmt.var.name}.{len(names)}", node.dtype))

    value = ir.rewrite(stmt.value, named)
    if not names:
        return None
    loads = (ir.Bind(var, load, mutable=False, at=stmt.at) for load, var in names.items())
    return (*loads, replace(stmt, value=value))


def _definitions(body: ir.Body) -> dict[str, ir.Expr]:
    """Variables that only ever stand for one expression without memory or calls: what each stands for."""
    changed = ir.assigned(body)
    definitions: dict[str, ir.Expr] = {}
    for stmt in ir.statements(body):
        if isinstance(stmt, ir.Bind) and stmt.var.name not in changed:
            value = put_in(stmt.value, definitions)
            nodes = ir.walk(value)
            changing = not names_in(nodes).isdisjoint(changed)
            if not changing and not any(isinstance(node, (ir.Load, ir.Call)) for node in nodes):
                definitions[stmt.var.name] = value
    return definitions


def _inlined(body: ir.Body, definitions: Mapping[str, ir.Expr]) -> ir.Body:
    """Pointers everywhere, integers in indices only: elsewhere a name saves computing them again."""
    pointers = {name: expr for name, expr in definitions.items() if expr.dtype.kind == "handle"}

    def change(node: ir.Expr) -> ir.Expr | None:
        if isinstance(node, ir.Var):
            return pointers.get(node.name)
        if isinstance(node, (ir.Load, ir.AddressOf)):
            indices, owed = put_in(node.indices, definitions), put_in(node.owed, definitions)
            is_kept = indices is node.indices and owed is node.owed
            return None if is_kept else replace(node, indices=indices, owed=owed)
        return None

    named = ir.map_body(body, lambda stmt: () if isinstance(stmt, ir.Bind) and stmt.var.name in pointers else None)
    return ir.rewrite(named, change)


def _in_registers(body: ir.Body) -> ir.Body:
    """Scalars that change, and that some operation reads while it is under way, as buffers of one element."""
    changed = ir.assigned(body)
    held = {var.name: var for stmt in ir.statements(body) for call in calls_of(stmt) for var in _held_by(call)}
    buffers = {name: ir.Buffer(name, var.dtype, (1,), "local", None) for name, var in held.items() if name in changed}
    if not buffers:
        return body
    places = {name: ir.Load(buffer, (ir.Const(0, INT32),)) for name, buffer in buffers.items()}

    def stored(stmt: ir.Stmt) -> ir.Body | None:
        if isinstance(stmt, (ir.Bind, ir.Assign)) and stmt.var.name in places:
            return (ir.Store(places[stmt.var.name], stmt.value, at=stmt.at),)
        return None

    stores = ir.rewrite(
        ir.map_body(body, stored), lambda node: places.get(node.name) if isinstance(node, ir.Var) else None
    )
    return (*map(ir.AllocBuffer, buffers.values()), *stores)


def _held_by(call: ir.Call) -> list[ir.Var]:
    """The scalars that the operation which a call issues reads until it is complete."""
    bound = bind(call)
    names = bound.form.issue.holds if bound.form.issue is not None else ()
    return [operand for name in names for operand in bound.operands[name] if isinstance(operand, ir.Var)]


def _apart(body: ir.Body) -> ir.Body:
    """Every statement an object of its own, and collectives in front of the branches that depend on them."""
    result: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.If):
            cond = stmt.cond
            if any(map(is_collective, calls_of(stmt))):
                cond = ir.Var(f"cond.{id(stmt):x}", BOOL)
                result.append(ir.Bind(cond, stmt.cond, mutable=False, at=stmt.at))
            stmt = replace(stmt, cond=cond, then=_apart(stmt.then), orelse=_apart(stmt.orelse))
        elif isinstance(stmt, ir.While) and any(map(is_collective, calls_of(stmt))):
            leave = ir.If(ir.unary("not", stmt.cond), (ir.Break(at=stmt.at),), at=stmt.at)
            stmt = ir.While(ir.Const(True, BOOL), _apart((leave, *stmt.body)), at=stmt.at)
        elif isinstance(stmt, (ir.For, ir.While)):
            stmt = replace(stmt, body=_apart(stmt.body))
        else:
            stmt = replace(stmt)
        result.append(stmt)
    return tuple(result)
