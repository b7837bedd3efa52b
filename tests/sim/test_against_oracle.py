"""Random small kernels mean the same to the simulator and to a loop over lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import in_row
from tests.samples import sampled
from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tests.sim.oracle import Oracle
from tilewright.dtypes import dtype
from tilewright.errors import KernelError
from tilewright.ir import Expr, as_expr, binary, cast, select, unary
from tilewright.sim import Program, parse_checks

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def bytes_of(kind: str, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Random elements: all bit patterns of integers, floats of many sizes without NaN."""
    rng = np.random.default_rng(seed)
    numpy = dtype(kind).numpy
    if kind == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    if not dtype(kind).is_float:
        return rng.integers(0, 256, count * numpy.itemsize, np.uint8).view(numpy)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3, count)
    return values.astype(np.float32).astype(numpy)


def same_bits(
    kernel: Lowered, arrays: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any], check: str = "all"
) -> None:
    """Runs both on copies and compares every byte."""
    made = kernel.kernel()
    ours = {name: array.copy() for name, array in arrays.items()}
    theirs = {name: array.copy() for name, array in arrays.items()}
    Program(made, parse_checks(check)).run({f"{name}_ptr": array for name, array in ours.items()}, scalars)
    Oracle(made, theirs, scalars).run()
    for name in arrays:
        np.testing.assert_array_equal(ours[name].view(np.uint8), theirs[name].view(np.uint8), err_msg=name)


OPERATORS = ("+", "-", "*", "min", "max", "<", "==")


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
def test_an_operator_gives_what_one_lane_computes(kind: str) -> None:
    """All operators of a type in one kernel, each into an array of its own, by which a difference is named."""
    floating = dtype(kind).is_float
    k = Lowered(threads=64)
    a, b = k.array("a", kind, 64), k.array("b", kind, 64)
    x, y = bytes_of(kind, 64, 1), bytes_of(kind, 64, 2)
    if not floating:
        y[y == 0] = 3
    arrays = {"a": x, "b": y}
    more = ("/",) if floating else ("//", "%", "truncdiv", "truncmod", "&", "|", "^")
    for number, op in enumerate((*OPERATORS, *more)):
        out = k.array(f"out_{number}", "bool" if op in ("<", "==") else kind, 64)
        k.store(out, tid, binary(op, get(a, tid), get(b, tid)))
        arrays[out.name] = np.zeros(64, out.dtype.numpy)

    same_bits(k, arrays, {})


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_a_shift_gives_what_one_lane_computes(kind: str, op: str) -> None:
    k = Lowered(threads=64)
    a, out = k.array("a", kind, 64), k.array("out", kind, 64)
    k.store(out, tid, binary(op, get(a, tid), cast(tid % dtype(kind).bits, dtype(kind))))

    same_bits(k, {"a": bytes_of(kind, 64, 1), "out": np.zeros(64, dtype(kind).numpy)}, {})


SOURCES = (*INTEGERS, *FLOATS, "bool", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS, *NARROW, "bool"])
def test_a_cast_follows_the_conversion_rules(kind: str) -> None:
    for source in SOURCES:
        with in_row(f"{source} to {kind}"):
            check_cast(source, kind)


def check_cast(source: str, kind: str) -> None:
    k = Lowered(threads=64)
    a, out = k.array("a", source, 64), k.array("out", kind, 64)
    width = 2 if dtype(kind).bits == 4 else 1  # the halves of a byte belong to one thread, or they race
    with k.when(tid < 64 // width), k.loop("i", 0, width) as i:
        k.store(out, tid * width + i, cast(get(a, tid * width + i), dtype(kind)))
    x = bytes_of(source, 64, 3)
    if dtype(source).is_float:
        special = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, -0.5, 448.0]).astype(np.float32)
        with np.errstate(over="ignore"):
            x[:8] = special.astype(dtype(source).numpy)
        if dtype(kind).is_float:
            x[0] = 1  # the bits of a NaN are the hardware's own
    size = 64 * dtype(kind).bits // 8

    same_bits(k, {"a": x, "out": np.zeros(size, np.uint8)}, {})


@pytest.mark.parametrize(
    ("value", "kind"), [(3e9, "int32"), (-3e9, "int32"), (-5.0, "uint8"), (300.0, "uint8"), (np.nan, "int64")]
)
def test_float_to_int_saturates_and_nan_is_zero(value: float, kind: str) -> None:
    k = Lowered(threads=32)
    a, out = k.array("a", "float32", 32), k.array("out", kind, 32)
    k.store(out, tid, cast(get(a, tid), dtype(kind)))
    result = np.zeros(32, dtype(kind).numpy)

    k.run(a=np.full(32, value, np.float32), out=result)

    low, high = np.iinfo(result.dtype).min, np.iinfo(result.dtype).max
    assert result[0] == (0 if np.isnan(value) else np.clip(value, low, high))


@pytest.mark.parametrize("kind", ["int32", "uint32", "int8", "uint16", "int64"])
def test_uniform_integers_wrap_as_lanes_do(kind: str) -> None:
    k = Lowered(threads=32)
    out, x = k.array("out", kind, 32), k.scalar("x", kind)
    with k.loop("i", 0, 32) as i:
        k.store(out, i, (x * 7 + cast(i, x.dtype)) * x - 13 * x)
    start = wrapped_number(np.iinfo(kind).max)

    same_bits(k, {"out": np.zeros(32, dtype(kind).numpy)}, {"x": start}, check="none")


def wrapped_number(value: int) -> int:
    return int(value)


# Control flow: random programs over a few int32 variables


def conditions(draw: Any, names: list[Expr]) -> Expr:
    a = draw(st.sampled_from(names))
    return binary(
        draw(st.sampled_from(["<", "==", ">="])), a % draw(st.integers(2, 5)), as_expr(draw(st.integers(0, 4)))
    )


def values(draw: Any, names: list[Expr]) -> Expr:
    a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    op = draw(st.sampled_from(["+", "-", "*", "min", "^", "//", "select", "neg"]))
    if op == "select":
        return select(conditions(draw, names), a, b)
    if op == "neg":
        return unary("-", a)
    return binary(op, a, as_expr(draw(st.integers(1, 9))) if op == "//" else b)


def block(draw: Any, k: Lowered, variables: list[Any], names: list[Expr], depth: int, inside: bool) -> None:
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["assign", "assign", "if", "for", "while", "leave", "sync"]))
        if kind == "assign" or (depth == 0 and kind != "leave"):
            k.assign(draw(st.sampled_from(variables)), values(draw, names))
        elif kind == "if":
            with k.when(conditions(draw, names)):
                block(draw, k, variables, names, depth - 1, inside)
            if draw(st.booleans()):
                with k.otherwise():
                    block(draw, k, variables, names, depth - 1, inside)
        elif kind == "for":
            k.line += 1
            stop = draw(st.sampled_from([as_expr(3), draw(st.sampled_from(names)) % 4]))
            with k.loop(f"i{k.line}", 0, stop) as i:
                block(draw, k, variables, [*names, i], depth - 1, True)
        elif kind == "while":
            k.line += 1
            counter = k.bind(f"w{k.line}", draw(st.sampled_from(names)) % 5)
            with k.repeat(counter > 0):
                k.assign(counter, counter - 1)
                block(draw, k, variables, names, depth - 1, True)
        elif kind == "leave" and inside:
            with k.when(conditions(draw, names)):
                k.leave(loop=draw(st.booleans()))
        elif kind == "sync":
            k.do("cuda.cta_sync") if not inside and depth == 3 else None


@st.composite
def programs(draw: Any) -> Lowered:
    k = Lowered(threads=draw(st.sampled_from([32, 48, 64])), grid=3)
    out = k.array("out", "int32", 3 * 64 * 3)
    n = k.scalar("n")
    names: list[Expr] = [tid, lane, warp, cta, n]
    variables = [k.bind(f"x{j}", draw(st.sampled_from([*names, as_expr(7)]))) for j in range(3)]
    block(draw, k, variables, [*names, *variables], 3, False)
    for j, variable in enumerate(variables):
        k.store(out, (cta * 64 + tid) * 3 + j, variable)
    return k


def exchange(k: Lowered, s: Any, x: Any, threads: int) -> None:
    """Every thread takes over its neighbour's value."""
    k.store(s, tid, x)
    k.do("cuda.cta_sync")
    k.assign(x, get(s, (tid + 1) % threads))
    k.do("cuda.cta_sync")


def meetings(draw: Any, k: Lowered, s: Any, variables: list[Any], names: list[Expr], depth: int, inside: bool) -> None:
    """Statements that all threads of a CTA reach together, so that they may meet; CTAs go their own ways."""
    together: list[Expr] = [cta, *(name for name in names if str(name).startswith("i"))]
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["exchange", "block", "if", "for", "leave"]))
        if kind == "exchange":
            exchange(k, s, draw(st.sampled_from(variables)), k.threads)
        elif kind == "block":
            block(draw, k, variables, names, 1, False)
        elif kind == "if" and depth:
            with k.when(conditions(draw, together)):
                meetings(draw, k, s, variables, names, depth - 1, inside)
            with k.otherwise():
                meetings(draw, k, s, variables, names, depth - 1, inside)
        elif kind == "for" and depth:
            k.line += 1
            with k.loop(f"i{k.line}", 0, draw(st.sampled_from([as_expr(2), cta + 1]))) as i:
                meetings(draw, k, s, variables, [*names, i], depth - 1, True)
        elif kind == "leave" and inside:
            with k.when(conditions(draw, together)):
                k.leave(loop=draw(st.booleans()))


@st.composite
def meeting_programs(draw: Any) -> Lowered:
    threads = draw(st.sampled_from([32, 64, 96]))
    k = Lowered(threads=threads, grid=3)
    out, s = k.array("out", "int32", 3 * 96 * 2), k.shared("s", "int32", threads)
    names: list[Expr] = [tid, lane, warp, cta]
    variables = [k.bind(f"x{j}", draw(st.sampled_from(names)) * (j + 1)) for j in range(2)]
    meetings(draw, k, s, variables, [*names, *variables], 3, False)
    for j, variable in enumerate(variables):
        k.store(out, (cta * 96 + tid) * 2 + j, variable)
    return k


@given(meeting_programs())
@sampled(40, of=100)
def test_threads_meet_in_branches_and_loops_that_differ_by_cta(k: Lowered) -> None:
    same_bits(k, {"out": np.zeros(3 * 96 * 2, np.int32)}, {})


@given(programs(), st.integers(-3, 9))
@sampled(40, of=100)
def test_lanes_go_their_own_ways(k: Lowered, n: int) -> None:
    same_bits(k, {"out": np.zeros(3 * 64 * 3, np.int32)}, {"n": n})


@given(st.integers(0, 3), st.booleans(), st.booleans(), st.integers(1, 4), st.sampled_from([16, 24, 40]))
@sampled(12, of=30)
def test_tiles_through_shared_memory(shift: int, trans: bool, back: bool, repeat: int, pitch: int) -> None:
    """Each round: registers or copies in, a barrier, ldmatrix and stmatrix, a barrier, out."""
    k = Lowered(threads=64, grid=2)
    a, b = k.array("a", "uint16", 2 * 64 * 16), k.array("b", "uint16", 2 * 64 * 16)
    s = k.shared("s", "uint16", 64 * pitch)
    r = k.local("r", "uint16", 8)
    with k.loop("round", 0, repeat):
        with k.loop("i", 0, 2) as i:
            k.do("cuda.copy_bytes", at(s, tid * pitch + i * 8), at(a, (cta * 64 + tid) * 16 + i * 8), 16)
        k.do("cuda.cta_sync")
        row = (warp * 32 + lane + 32 * shift) % 64
        k.do("ptx.ldmatrix", trans, 4, ".b16", at(s, row * pitch), *(get(r, 2 * m) for m in range(4)))
        k.do("cuda.cta_sync")
        k.do("ptx.stmatrix", back, 4, ".b16", at(s, row * pitch + 8), *(get(r, 2 * m) for m in range(4)))
        k.do("cuda.cta_sync")
        with k.loop("j", 0, 16) as j:
            k.store(b, (cta * 64 + tid) * 16 + j, get(s, tid * pitch + j))
        k.do("cuda.cta_sync")
    x = bytes_of("uint16", 2 * 64 * 16, 5)

    same_bits(k, {"a": x, "b": np.zeros_like(x)}, {})


def test_an_operator_without_a_common_dtype_is_refused() -> None:
    with pytest.raises(KernelError, match="no common dtype"):
        binary("+", as_expr(1.0, dtype("float16")), as_expr(1.0, dtype("bfloat16")))
