"""Simplifying: the same value in a simpler form, for every value that the facts admit."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.exprs import conditions, environments, facts, integers
from tilewright.dtypes import BOOL, INT32, dtype
from tilewright.errors import KernelError
from tilewright.ir import AddressOf, Binary, Buffer, Call, Expr, Load, Select, Var, as_expr, row_major, same
from tilewright.ir.build import binary, cast, const, select, unary
from tilewright.ir.launch import special
from tilewright.ir.numbers import evaluate
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.rules import ANY, INTEGER, LOGIC, Rule, root_of, simplify

UINT32, INT64, FLOAT16, FLOAT32 = map(dtype, ("uint32", "int64", "float16", "float32"))
NAMES: dict[str, object] = {
    **{name: Var(name) for name in ("i", "j", "k", "n", "w", "s", "x", "y")},
    **{name: special(name) for name in ("tid", "laneid", "warpid")},
    **{name: Var(name, BOOL) for name in ("p", "q")},
    **{name: Var(name, FLOAT32) for name in ("f", "g")},
    "h": Var("h", FLOAT16),
    "u": Var("u", UINT32),
    "select": select,
    "cast": lambda value, kind: cast(value, dtype(kind)),
    "both": lambda a, b: binary("and", a, b),
    "either": lambda a, b: binary("or", a, b),
    "no": lambda a: unary("not", a),
    "min": lambda a, b: binary("min", a, b),
    "max": lambda a, b: binary("max", a, b),
    "truncdiv": lambda a, b: binary("truncdiv", a, b),
    "truncmod": lambda a, b: binary("truncmod", a, b),
}


def parsed(text: str) -> Expr:
    return as_expr(eval(text, {"__builtins__": {}}, NAMES))


def simplified(expr: Expr, known: RangeFacts | None = None) -> Expr:
    return simplify(expr, known or facts())


# i is 0..7, j 0..63, k -5..11, s 1..9, n 0 or more, w anything; x and y as well.
LINES = [
    # sums
    ("x - x", "0"),
    ("x + y - x", "y"),
    ("x * 2 + x * 3", "x * 5"),
    ("(x + 1) * 16 - x * 16", "16"),
    ("x - (y - x) - 3", "x * 2 - y - 3"),
    ("-(-x)", "x"),
    ("~(~x)", "x"),
    ("~x", "-x - 1"),
    ("5 - x - 5", "-x"),
    ("0 - x + y", "y - x"),
    ("x * y - y * x", "0"),
    ("x * 4 * y", "x * y * 4"),
    ("(x + y) * n", "(x + y) * n"),
    ("x * 65536 * 65536", "0"),
    # digits of one number
    ("x // 4 * 4 + x % 4", "x"),
    ("x // 4 % 8 * 4 + x % 4", "x % 32"),
    ("x // 32 * 32 + x // 4 % 8 * 4 + x % 4", "x"),
    ("x // 8 * 16 + x % 8 * 2 + y", "x * 2 + y"),
    # division
    ("(i * 64 + j) // 64", "i"),
    ("(x * 12 + y) // 4", "(x * 12 + y) // 4"),  # the sum may wrap
    ("(i * 12 + k + 9) // 4", "i * 3 + (k + 1) // 4 + 2"),
    ("(i * 64 + j) // 128", "i // 2"),
    ("(i * 6 + 1) // 4", "i * 3 // 2"),
    ("x // 4 // 8", "x // 32"),
    ("x % 32 // 8", "x // 8 % 4"),
    ("i // 8", "0"),
    ("k // 16", "k // 16"),
    ("i * s // s", "i"),
    ("(i * s + s) // s", "i + 1"),
    ("truncdiv(i, 4)", "i // 4"),
    ("truncdiv(k, 4)", "truncdiv(k, 4)"),
    # remainder
    ("(i * 64 + j) % 64", "j"),
    ("(x * 64 + j) % 64", "j"),  # a power of two divides what wraps away
    ("(x * 12 + j) % 12", "(x * 12 + j) % 12"),
    ("(i * 12 + j) % 12", "j % 12"),
    ("(i * 64 + j) % 128", "i % 2 * 64 + j"),
    ("(x % 16 + y) % 8", "(x + y) % 8"),
    ("(x + 17) % 8", "(x + 1) % 8"),
    ("(x * 5) % 4", "x % 4"),
    ("x % 32 % 8", "x % 8"),
    ("i % 8", "i"),
    ("i * s % s", "0"),
    ("(i * s + j) % s", "j % s"),
    ("truncmod(i, 4)", "i % 4"),
    # a thread's place
    ("tid // 32", "warpid"),
    ("tid // 128", "warpid // 4"),
    ("tid % 32", "laneid"),
    ("tid % 4", "laneid % 4"),
    ("tid // 4 % 8", "laneid // 4"),
    ("tid % 128", "tid % 128"),
    ("laneid // 4 * 4 + laneid % 4", "laneid"),
    # bits
    ("x << 3", "x * 8"),
    ("x >> 3", "x // 8"),
    ("x >> 31", "x >> 31"),
    ("x & 7", "x % 8"),
    ("x & 56", "x // 8 % 8 * 8"),
    ("x & -8", "x // 8 * 8"),
    ("x & -1", "x"),
    ("x & 5", "x & 5"),
    ("x & 21 & 7", "x & 5"),
    ("x & x", "x"),
    ("x | x", "x"),
    ("x ^ x", "0"),
    ("x ^ y ^ y", "x"),
    ("x ^ y ^ x", "y"),
    ("y ^ (x ^ y)", "x"),
    ("x ^ 5 ^ 3", "x ^ 6"),
    ("x | 5 | 3", "x | 7"),
    ("i * 8 | j // 8", "i * 8 + j // 8"),
    ("i * 8 ^ j // 8", "i * 8 + j // 8"),
    ("i * 8 & j // 8", "0"),
    ("(x * 64 + j) ^ (i * 8)", "x * 64 + (j ^ i * 8)"),
    ("(i * 8 + 3) ^ (j * 8)", "(i ^ j) * 8 + 3"),
    # the smaller and the greater
    ("min(i, 9)", "i"),
    ("max(i, 9)", "9"),
    ("min(i, j)", "min(i, j)"),
    ("min(min(x, 8), 5)", "min(x, 5)"),
    ("max(max(x, 8), 5)", "max(x, 8)"),
    ("min(x, x)", "x"),
    ("min(i, i + 1)", "i"),
    # comparisons
    ("i < 8", "True"),
    ("i > 8", "False"),
    ("i == 9", "False"),
    ("i != 9", "True"),
    ("i * 4 == 6", "False"),
    ("i * 4 == 8", "i == 2"),
    ("i * 4 < 9", "i < 3"),
    ("i * 4 <= 9", "i <= 2"),
    ("i * 4 > 9", "i > 2"),
    ("i * 4 >= 9", "i >= 3"),
    ("x * 4 < 9", "x * 4 < 9"),  # x * 4 may wrap
    ("i + j < i + 4", "j < 4"),
    ("x + y < x + 4", "x + y < x + 4"),
    ("x + y == x + 4", "y == 4"),
    ("5 < i", "i > 5"),
    ("i + 3 < 5", "i < 2"),
    # conditions
    ("no(no(p))", "p"),
    ("no(x < y)", "x >= y"),
    ("no(f < g)", "no(f < g)"),  # a NaN is neither
    ("both(p, p)", "p"),
    ("either(p, no(p))", "True"),
    ("both(p, no(p))", "False"),
    ("both(both(p, q), q)", "both(p, q)"),
    ("both(i < 8, p)", "p"),
    ("p == True", "p"),
    # choices and conversions
    ("select(i < 9, x, y)", "x"),
    ("select(p, f, f)", "f"),
    ("select(no(p), f, g)", "select(p, g, f)"),
    ("select(p, True, False)", "p"),
    ("cast(cast(x, 'int64'), 'int32')", "x"),
    ("cast(cast(x, 'uint32'), 'int32')", "x"),
    ("cast(cast(x, 'int8'), 'int32')", "cast(cast(x, 'int8'), 'int32')"),
    ("cast(cast(i, 'int8'), 'int64')", "cast(i, 'int64')"),
    ("cast(cast(h, 'float32'), 'float16')", "h"),
    ("cast(cast(f, 'float16'), 'float32')", "cast(cast(f, 'float16'), 'float32')"),
    # floats are left alone
    ("f + g - f", "f + g - f"),
    ("f * 0.0", "f * 0.0"),
    # unsigned
    ("u - u", "u * 0"),
    ("u - 1 + 1", "u"),
    ("u // 4 * 4 + u % 4", "u"),
    ("u & 4294967288", "u // 8 * 8"),
]


@pytest.mark.parametrize(("before", "after"), LINES)
def test_one_line_a_rule(before: str, after: str) -> None:
    result = simplified(parsed(before))

    assert same(result, parsed(after)), f"{before} is {result}"


@given(st.one_of(integers(), integers(UINT32), integers(INT64), conditions()), st.lists(environments(), min_size=3))
def test_the_value_stays_the_same(expr: Expr, samples: list[dict[str, int]]) -> None:
    after = simplified(expr)

    assert after.dtype == expr.dtype
    for env in samples:
        if (value := evaluated(expr, env)) is not None:
            assert evaluate(after, env) == value


@given(conditions(), st.one_of(integers(leaves=6), conditions()), st.lists(environments(), min_size=4))
def test_under_a_condition_the_value_stays_the_same_where_it_holds(
    cond: Expr, expr: Expr, samples: list[dict[str, int]]
) -> None:
    after = simplified(expr, facts().with_condition(cond))

    for env in samples:
        if evaluated(cond, env) and (value := evaluated(expr, env)) is not None:
            assert evaluate(after, env) == value


@given(st.one_of(integers(), conditions()))
def test_simplifying_twice_changes_nothing(expr: Expr) -> None:
    once = simplified(expr)

    assert same(simplified(once), once)


def evaluated(expr: Expr, env: dict[str, int]) -> object:
    """The value, or None where it has none (a division by zero)."""
    try:
        return evaluate(expr, env)
    except KernelError:
        return None


# The table itself: each row, instantiated with small numbers in all ways, must fit somewhere and keep the value there.

TEXT_RULES = [rule for rule in (*INTEGER, *LOGIC, *ANY) if isinstance(rule.result, str)]
CONSTANTS = (1, 2, 3, 4, 6, 7, 8, 24, 32, -8, -1, 2**31 - 1)
RANGES = ((0, 3), (0, 7), (-3, 3), (8, 8), (1, 4))


def instances(rule: Rule) -> list[tuple[Expr, RangeFacts]]:
    """The pattern over constants and variables of several ranges."""
    kind = BOOL if rule in LOGIC else INT32
    names = [name for name in "xyzp" if name in rule.pattern.replace("max", "").replace("min", "")]
    found = []
    for ranges, c, d in itertools.product(itertools.product(RANGES, repeat=len(names)), CONSTANTS, CONSTANTS):
        if ("c" not in rule.pattern and c != 1) or ("d" not in rule.pattern.replace("tid", "") and d != 1):
            continue
        variables = {name: Var(name, BOOL if name == "p" else kind) for name in names}
        known = RangeFacts()
        for name, (low, high) in zip(names, ranges, strict=True):
            if variables[name].dtype == INT32:
                known = known.with_range(variables[name], low, high)
        found.append((built(rule, {**variables, "c": const(c, INT32), "d": const(d, INT32)}), known))
    return found


def built(rule: Rule, names: dict[str, Expr]) -> Expr:
    text = rule.pattern
    for word, call in ((" and ", "both"), (" or ", "either")):
        if word in text:
            left, _, right = text.rpartition(word)
            return NAMES[call](*(parsed_with(part, names) for part in (left, right)))  # type: ignore[operator,no-any-return]
    return parsed_with(text, names)


def parsed_with(text: str, names: dict[str, Expr]) -> Expr:
    if text.startswith("(") and text.endswith(")") and (" and " in text or " or " in text):
        return built(Rule(text[1:-1], "x"), names)
    if text.startswith("not "):
        return unary("not", parsed_with(text[4:], names))
    return as_expr(eval(text.replace("select(not p", "select(no(p)"), {"__builtins__": {}}, {**NAMES, **names}))


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: f"{rule.pattern} -> {rule.result}")
def test_each_row_of_the_table_fits_somewhere_and_keeps_the_value(rule: Rule) -> None:
    fitted = 0
    for expr, known in instances(rule):
        after = rule.apply(expr, known) if root_of(expr)[0] == rule.op else None  # else it was folded as it was built
        if after is None:
            continue
        fitted += 1
        for env in values_of(expr, known):
            if (value := evaluated(expr, env)) is not None:
                assert evaluate(cast(as_expr(after, expr.dtype), expr.dtype), env) == value, f"{expr} -> {after}, {env}"

    assert fitted


def values_of(expr: Expr, known: RangeFacts) -> list[dict[str, int]]:
    names = {name: known.ranges.get(name) for name in "xyzp" if name in str(expr)}
    choices = {
        name: (0, 1) if r is None else sorted({r.low, r.high, (r.low + r.high) // 2}) for name, r in names.items()
    }
    threads = [{"tid": t, "laneid": t % 32, "warpid": t // 32} for t in (0, 37, 1000)]
    return [
        {**dict(zip(choices, numbers, strict=True)), **thread}
        for numbers in itertools.product(*choices.values())
        for thread in threads
    ]


# What is around the rules


def test_a_call_is_never_dropped_or_merged() -> None:
    ask = Call("cuda.atomic_add", (Var("i"),), (), INT32)

    result = simplified(Binary("-", ask, ask, INT32))

    assert isinstance(result, Binary)
    assert result.op == "-"


def test_the_arguments_of_a_call_are_simplified() -> None:
    call = Call("exp", (Var("x") + 1 - 1,), (), INT32)

    result = simplified(call)

    assert isinstance(result, Call)
    assert result.args[0] is not call.args[0]
    assert same(result.args[0], Var("x"))


def test_an_index_is_simplified_and_the_buffer_left_alone() -> None:
    buffer = Buffer("A", FLOAT32, (64,), "shared", row_major((64,)))

    load, address = Load(buffer, (Var("x") - Var("x"),)), AddressOf(buffer, (Var("i") % 8,))

    after, pointer = simplified(load), simplified(address)

    assert isinstance(after, Load)
    assert after.buffer is buffer
    assert same(after.indices, (as_expr(0),))
    assert isinstance(pointer, AddressOf)
    assert same(pointer.indices, (Var("i"),))


def test_an_expression_without_a_simpler_form_is_returned_as_it_is() -> None:
    expr = Select(Var("p", BOOL), Var("x") + Var("y") * 4, Var("x") // 3, INT32)

    assert simplified(expr) is expr


def test_simplify_of_the_facts_gives_an_int_for_a_constant() -> None:
    assert facts().simplify(Var("i") // 8) == 0
    assert isinstance(facts().simplify(Var("i") // 8), int)
    assert facts().simplify(7) == 7


def test_a_swizzled_row_keeps_its_xor_small() -> None:
    row, half, step = special("laneid") % 8, special("laneid") // 16, Var("i") % 4
    address = row * 64 + (step * 2 + half) * 8

    result = simplified(address ^ (address >> 3) & 56)

    assert same(result, row * 64 + (step * 2 + half ^ row) * 8)


def test_sharing_is_worth_it_a_deep_expression_takes_linear_time() -> None:
    expr: Expr = Var("x")
    for _ in range(60):  # 2**60 nodes as a tree
        expr = binary("max", expr // 3, expr // 5)

    assert simplified(expr).dtype == INT32
