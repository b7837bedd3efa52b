"""Structured statements of random graphs: each thread does the same, and threads meet where they met before."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tilewright.dtypes import BOOL, INT32
from tilewright.ir import (
    Assign,
    Binary,
    Bind,
    Block,
    Body,
    Branch,
    Break,
    Const,
    Continue,
    Evaluate,
    Exit,
    Expr,
    Graph,
    If,
    Jump,
    Stmt,
    Unary,
    Var,
    While,
    deep_recursion,
    statements,
)
from tilewright.ir.structure import body_of, structured

UNDEFINED = -1000  # what a register holds that nobody has written
LONGEST = 400  # steps of a thread that are compared: its loops may be endless
Ways = Callable[[int], bool]  # does a thread take the first way, where it comes to the branch of a block?


def graph(*successors: tuple[int, ...]) -> Graph:
    """A block for each of these: it says its number, and goes on with one or two others, or ends."""
    return Graph(tuple(Block((say(k),), ending(k, after)) for k, after in enumerate(successors)))


def say(number: int) -> Evaluate:
    return Evaluate(Const(number, INT32))


def ending(number: int, after: tuple[int, ...]) -> Jump | Branch | Exit:
    if not after:
        return Exit()
    return Jump(after[0]) if len(after) == 1 else Branch(Var(f"c{number}", BOOL), *after)


# A thread on its way


def ways(seed: int) -> Ways:
    """For each block a row of decisions of its own."""
    rows: dict[int, random.Random] = {}
    return lambda block: rows.setdefault(block, random.Random(f"{seed} {block}")).random() < 0.6


def walked(given: Graph, way: Ways) -> Iterator[int | type[Stmt]]:
    """What a thread says on its way through a graph."""
    thread, number = Thread(way), 0
    while True:
        yield from thread.run(given.blocks[number].body)
        end = given.blocks[number].end
        if isinstance(end, Exit):
            return
        targets = end.targets
        number = targets[0] if len(set(targets)) == 1 or way(number) else targets[1]


class Thread:
    """Executes structured statements as they say, one after the other."""

    def __init__(self, way: Ways) -> None:
        self.way = way
        self.variables: dict[str, int | bool] = {}

    def run(self, body: Body) -> Iterator[int | type[Stmt]]:
        """The numbers that it says; last, how it leaves the body, if by a jump."""
        for stmt in body:
            for one in self.one(stmt):
                yield one
                if one in (Break, Continue):
                    return

    def one(self, stmt: Stmt) -> Iterator[int | type[Stmt]]:
        if isinstance(stmt, Evaluate):
            yield int(self.value(stmt.value))
        elif isinstance(stmt, (Bind, Assign)):
            self.variables[stmt.var.name] = self.value(stmt.value)
        elif isinstance(stmt, If):
            yield from self.run(stmt.then if self.value(stmt.cond) else stmt.orelse)
        elif isinstance(stmt, While):
            yield from self.turns(stmt)
        else:
            yield type(stmt)

    def turns(self, loop: While) -> Iterator[int | type[Stmt]]:
        idle = 0
        while self.value(loop.cond) and idle < 3:
            idle += 1
            for one in self.run(loop.body):
                if one is Break:
                    return
                if one is not Continue:
                    idle = 0
                    yield one

    def value(self, expr: Expr) -> int | bool:
        if isinstance(expr, Const):
            return int(expr.value)
        if isinstance(expr, Unary):
            return not self.value(expr.a)
        if isinstance(expr, Binary):
            a, b = self.value(expr.a), self.value(expr.b)
            return a == b if expr.op == "==" else a + b
        assert isinstance(expr, Var)
        return self.way(int(expr.name[1:])) if expr.name[0] == "c" else self.variables.get(expr.name, UNDEFINED)


def said(steps: Iterator[int | type[Stmt]]) -> list[object]:
    return [step for step, _ in zip(steps, range(LONGEST), strict=False)]


def check(given: Graph, seeds: int = 6, form: Callable[[Graph], Body] = structured) -> Body:
    """Every thread says the same in both forms."""
    body = form(given)
    for seed in range(seeds):
        expected, found = said(walked(given, ways(seed))), said(Thread(ways(seed)).run(body))
        assert found == expected, (seed, expected[:30], found[:30])
    return body


def kinds(body: Body) -> Counter[str]:
    return Counter(type(stmt).__name__ for stmt in statements(body))


# Graphs


def random_graph(rng: random.Random, *, back: float, size: int = 12) -> Graph:
    """Edges to any later block, some to any block: a share of ``back``."""

    def target(k: int) -> int:
        later = range(k + 1, size)
        return rng.randrange(1, size) if rng.random() < back or not later else rng.choice(later[:4])

    ends = [
        () if k == size - 1 or rng.random() < 0.1 else tuple(target(k) for _ in range(rng.choice((1, 2, 2))))
        for k in range(size)
    ]
    return graph(*ends)


@pytest.mark.parametrize("back", [0.0, 0.15, 0.4, 1.0])
def test_threads_do_the_same_in_random_graphs(back: float) -> None:
    """Of loops in one another, with several exits and several entries."""
    for seed in range(250):
        rng = random.Random(seed)
        check(random_graph(rng, back=back, size=rng.choice((4, 8, 12, 20))), seeds=3)


def with_registers(given: Graph, rng: random.Random) -> Graph:
    """Blocks that say what a register holds, give one another value, and do both."""
    names = [Var(name, INT32) for name in "xyz"]

    def body() -> Iterator[Stmt]:
        for _ in range(rng.randrange(4)):
            to, of = rng.choice(names), rng.choice(names)
            value = rng.choice((Const(rng.randrange(9), INT32), of + rng.randrange(9)))
            yield rng.choice((Evaluate(of), Assign(to, value), Assign(to, value)))

    return Graph(tuple(Block((*block.body, *body()), block.end) for block in given.blocks))


@pytest.mark.parametrize("back", [0.0, 0.15, 0.5])
def test_registers_that_are_bound_where_they_live_hold_what_they_held(back: float) -> None:
    for seed in range(150):
        rng = random.Random(seed)
        check(with_registers(random_graph(rng, back=back, size=10), rng), seeds=3, form=body_of)


def masks(body: Body, lanes: dict[int, Ways]) -> list[tuple[int, frozenset[int]]]:
    """What lanes say together that execute a body without loops: each statement once, for those that come to it."""
    threads = {lane: Thread(way) for lane, way in lanes.items()}
    found: list[tuple[int, frozenset[int]]] = []

    def go(body: Body, now: frozenset[int]) -> None:
        for stmt in body:
            if isinstance(stmt, If):
                yes = frozenset(lane for lane in now if threads[lane].value(stmt.cond))
                go(stmt.then, yes)
                go(stmt.orelse, now - yes)
            else:
                found.extend((int(n), now) for n in [*{n for lane in now for n in threads[lane].one(stmt)}])  # type: ignore[arg-type]  # it says numbers

    go(body, frozenset(lanes))
    return found


def test_lanes_that_have_parted_are_together_in_every_block_that_both_come_to() -> None:
    for seed in range(250):
        given = random_graph(random.Random(seed), back=0.0)
        lanes = {lane: ways(100 * seed + lane) for lane in range(8)}
        expected = {lane: {*walked(given, ways(100 * seed + lane))} for lane in lanes}

        together = masks(structured(given), lanes)

        assert len({number for number, _ in together}) == len(together), "a block is executed once"
        for number, now in together:
            assert now == {lane for lane, blocks in expected.items() if number in blocks}


# Shapes


def test_a_branch_whose_ways_join_is_an_if_without_a_flag() -> None:
    body = check(graph((1, 2), (3,), (3,), ()))

    assert kinds(body) == {"Evaluate": 4, "If": 1}


def test_a_side_that_ends_stands_in_its_branch() -> None:
    body = check(graph((1, 2), (), (3, 1), ()))

    assert kinds(body)["If"] == 3  # for two ways to block 1: the flag says which threads end there
    assert kinds(check(graph((1, 2), (), (3,), ()))) == {"Evaluate": 4, "If": 1}


def test_early_ends_at_one_block_need_no_flag() -> None:
    assert kinds(check(graph((3, 1), (3, 2), (3,), ()))) == {"Evaluate": 4, "If": 2}


def test_a_loop_that_is_tested_first_has_its_condition() -> None:
    first, last = Block((), Jump(1)), Block((), Exit())
    head, turn = Block((), Branch(Var("c1", BOOL), 2, 3)), Block((say(2),), Jump(1))
    body = structured(Graph((first, head, turn, last)))

    assert body == (While(Var("c1", BOOL), (say(2),)),)


def test_a_loop_that_is_tested_last_breaks() -> None:
    (_, loop, _) = check(graph((1,), (1, 2), ()))

    assert isinstance(loop, While)
    assert loop.body == (say(1), If(Unary("not", Var("c1", BOOL), BOOL), (Break(),)))


def test_exits_of_a_loop_to_two_places_have_a_flag() -> None:
    body = check(graph((1,), (2, 3), (1, 4), (4,), ()))

    assert kinds(body)["Bind"] == 1
    assert kinds(body)["Break"] == 2


def test_a_way_out_of_two_loops_leaves_the_inner_one_first() -> None:
    body = check(graph((1,), (2,), (3, 5), (2, 4), (1,), ()))

    outer = next(stmt for stmt in body if isinstance(stmt, While))
    inner = next(stmt for stmt in statements(outer.body) if isinstance(stmt, While))
    assert sum(isinstance(stmt, Break) for stmt in statements(inner.body)) == 2
    assert sum(isinstance(stmt, Break) for stmt in statements(outer.body)) == 3


def test_a_loop_with_two_entries_has_a_goal() -> None:
    body = check(graph((1, 2), (2, 3), (1, 3), ()))

    assert {stmt.var.name[:5] for stmt in statements(body) if isinstance(stmt, Assign)} >= {"goal."}
    assert kinds(body)["While"] == 1


def test_a_long_chain_of_branches_is_no_matter() -> None:
    """As of a jump through a table of a thousand blocks."""
    n = 1000
    chain = [(n + k, k + 1) for k in range(n - 1)]
    given = graph(*chain, (2 * n,), *((2 * n,) for _ in range(n)), ())

    with deep_recursion():
        assert kinds(check(given, seeds=1))["If"] == n - 1
