"""What statements give and read, and what expressions depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from tilewright import ir
from tilewright.isa import ANY_LANES, WARPGROUP, bind

if TYPE_CHECKING:
    from tilewright.sim.machine import Array

Given: TypeAlias = "ir.Assign | ir.Bind"
Node = TypeVar("Node")  # an expression, or a tuple of them
Of = TypeVar("Of")


def given_in(stmts: Iterable[ir.Stmt]) -> list[Given]:
    """Those among the statements that give a variable a value."""
    return [stmt for stmt in stmts if isinstance(stmt, (ir.Assign, ir.Bind))]


def read_by(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions that a statement reads. A call that only computes, and whose value is not used, reads nothing."""
    if isinstance(stmt, (ir.Bind, ir.Assign)):
        return ir.walk(stmt.value)
    if isinstance(stmt, ir.For):
        return ir.walk((stmt.start, stmt.stop))
    if isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call) and is_pure(stmt.value):
        return ()
    return ir.expressions(stmt)


def names_in(nodes: Iterable[object]) -> set[str]:
    """The variables among some nodes."""
    return {node.name for node in nodes if isinstance(node, ir.Var)}


def put_in(node: Node, values: Mapping[str, ir.Expr]) -> Node:
    """The expression with these expressions in place of variables."""
    if not any(type(part) is ir.Var and part.name in values for part in ir.walk(node)):
        return node
    return ir.rewrite(node, lambda part: values.get(part.name) if isinstance(part, ir.Var) else None)


class ById(Generic[Of]):
    """A question about expressions, each asked once: an answer is remembered by the identity of what it is about."""

    def __init__(self, question: Callable[[ir.Expr], Of]) -> None:
        self.question = question
        self.answers: dict[int, tuple[ir.Expr, Of]] = {}

    def __call__(self, expr: ir.Expr) -> Of:
        if (answer := self.answers.get(id(expr))) is None:
            answer = self.answers[id(expr)] = expr, self.question(expr)
        return answer[1]


# What is known of calls.


def calls_of(stmt: ir.Stmt) -> list[ir.Call]:
    """The calls in a statement's own expressions."""
    return [expr for expr in ir.expressions(stmt) if isinstance(expr, ir.Call)]


def is_collective(call: ir.Call) -> bool:
    """Does this call concern several lanes together?"""
    bound = bind(call)
    return bound.form.sync is not None or bound.instruction.lanes != ANY_LANES


def waits(stmt: ir.Stmt) -> bool | None:
    """Do threads wait at this statement? None: only where the lanes of a warp can come to it one after the other."""
    answer: bool | None = False
    for call in calls_of(stmt):
        form, lanes = bind(call).form, bind(call).instruction.lanes
        meets = form.sync is not None and form.sync.scope != "warp"
        if meets or form.meaning.ready is not None or lanes == WARPGROUP:
            return True
        if is_collective(call):
            answer = None
    return answer


def is_of_all(call: ir.Call) -> bool:
    """Do all threads of a CTA or a cluster wait here, as many as have not ended?"""
    sync = bind(call).form.sync
    return sync is not None and sync.scope in ("cta", "cluster") and not sync.arrive_only


def is_pure(call: ir.Call) -> bool:
    """Does the row only compute, each lane by itself: is its meaning a function of its operands alone?"""
    return bind(call).form.meaning.of_lanes is not None


@lru_cache(maxsize=1 << 14)
def computed(call: ir.Call) -> tuple[Callable[..., Array], tuple[ir.Expr, ...]]:
    """The function on arrays of any shapes that such a call computes, and its operands."""
    bound = bind(call)
    meaning = bound.form.meaning.of_lanes
    assert meaning is not None, "asked of calls that only compute"
    return meaning(bound.mods), tuple(expr for row in bound.arguments for expr in bound.operands[row.name])


def acts(node: object) -> bool:
    """Does a node of an expression, its parts aside, do more than compute: does it touch memory, or other lanes?"""
    return isinstance(node, ir.Load) or (isinstance(node, ir.Call) and not is_pure(node))


def is_closed(node: ir.Expr, names: frozenset[str]) -> bool:
    """Does an expression's node, its parts aside, depend on these variables and on thread numbers only?"""
    return node.name in names if isinstance(node, ir.Var) else not acts(node)
