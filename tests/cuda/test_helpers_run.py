"""What the helper functions of the CUDA text mean: NVRTC's PTX of a kernel, loaded and run by the simulator.

The numbers that they must give are NumPy's and ml_dtypes', not those of the simulator's own tables.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tilewright as tw
from tilewright.dtypes import dtype
from tilewright.lang import T

OLD, SINGLE, NEW = "sm_75", "sm_80", "sm_90"
TARGETS = (OLD, SINGLE, NEW)
COUNT = 512


def run(kernel: object, target: str, *arrays: np.ndarray) -> None:
    """Run the text that the kernel is printed as."""
    text = tw.compile(kernel, target=target).source("ptx")
    tw.load_ptx(text)["k"].simulate(*arrays, block=COUNT)


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Are the bits the same, but for those of a NaN?"""
    bits = f"u{found.dtype.itemsize}"
    with np.errstate(all="ignore"):
        nan = np.isnan(found) & np.isnan(wanted)
    return bool(((found.view(bits) == wanted.view(bits)) | nan).all())


def edges(name: str) -> np.ndarray:
    """Numbers of float32 about every tie between neighbours of the dtype, of which there are at most COUNT // 4."""
    kind = dtype(name)
    storage = np.dtype(f"u{kind.bits // 8 or 1}")
    span = 1 << min(kind.value_bits, 16)
    patterns = np.unique(np.linspace(0, span - 1, COUNT // 4).astype(np.int64))
    values = patterns.astype(storage).view(kind.numpy).astype(np.float32)
    following = ((patterns + 1) % span).astype(storage).view(kind.numpy).astype(np.float32)
    with np.errstate(all="ignore"):
        ties = ((values.astype(np.float64) + following) / 2).astype(np.float32)
        made = np.concatenate(
            [values, ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, -np.float32(np.inf))]
        )
    return np.resize(made, COUNT).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_floats_round_to_nearest_even_in_the_text_for_every_architecture(name: str, target: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), "float32"), b: T.Buffer((COUNT,), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        b[t] = T.cast(a[t], name)

    a = edges(name)
    b, c = np.zeros(COUNT, dtype(name).numpy), np.zeros(COUNT, dtype(name).numpy)
    run(k, target, a, b)
    tw.simulate(k, a, c)

    assert same(b, rounded(a, name))
    assert same(c, rounded(a, name))


def rounded(a: np.ndarray, name: str) -> np.ndarray:
    """ml_dtypes' rounding. It gives e8m0 no zeros and no negative numbers either."""
    with np.errstate(all="ignore"):
        return a.astype(dtype(name).numpy)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_narrow_floats_become_the_same_numbers_of_float32(name: str, target: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), name), b: T.Buffer((COUNT,), "float32")):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        b[t] = T.cast(a[t], "float32")

    step = max(1, (1 << dtype(name).bits) // COUNT)
    a = (np.arange(COUNT) * step).astype(f"u{dtype(name).bits // 8}").view(dtype(name).numpy)
    b = np.zeros(COUNT, np.float32)
    run(k, target, a, b)

    assert same(b, a.astype(np.float32))


WIDE = {
    "int32": np.array([0, 1, -1, 2049, -2049, 4097, 65519, 65520, 65521, 1 << 30, -(1 << 31), (1 << 31) - 1]),
    "int64": np.array([0, 1, -1, (1 << 24) + 1, (1 << 40) + (1 << 16), (1 << 62) + (1 << 38) + 1, -(1 << 63), 65520]),
    "uint64": np.array([0, 1, (1 << 24) + 1, (1 << 63) + (1 << 39) + 1, (1 << 64) - 1, 65520], np.uint64),
    "float64": np.array([0.0, -0.0, 1 + 2.0**-9 + 2.0**-40, 1 + 2.0**-9, 1 + 2.0**-11 + 2.0**-40, 65520.0, -65519.99999,
                         1e300, np.inf, np.nan, 2.0**-133, 2.0**-149 * 0.75]),
}  # fmt: skip


@pytest.mark.parametrize("target", [OLD, NEW])
@pytest.mark.parametrize(("source", "name"), [*product(WIDE, ["float16", "bfloat16"])])
def test_what_is_wider_than_float32_is_rounded_once(source: str, name: str, target: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), source), b: T.Buffer((COUNT,), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        b[t] = T.cast(a[t], name)

    a = np.resize(WIDE[source].astype(source), COUNT)
    b = np.zeros(COUNT, dtype(name).numpy)
    run(k, target, a, b)

    assert same(b, np.array([once(value, name) for value in a.tolist()], dtype(name).numpy))


def once(value: float, name: str) -> float:
    """The number of the dtype that is nearest to an exact one, the even one of two."""
    if isinstance(value, float) and not np.isfinite(value):
        return value
    kind, exact = dtype(name).numpy, Fraction(value)
    with np.errstate(all="ignore"):
        near = np.array([float(value)]).astype(kind)
    bits = int(near.view(np.uint16)[0])
    found = []
    for each in {bits, bits + 1, max(bits - 1, bits & 0x8000)}:
        number = float(np.array([each], np.uint16).view(kind)[0])
        if np.isinf(number):
            number = np.copysign(2.0**16 if name == "float16" else 2.0**128, number)
        if not np.isnan(number):
            found.append((abs(Fraction(number) - exact), each & 1, each))
    return float(np.array([min(found)[2]], np.uint16).view(kind)[0])


FLOATS = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 2.0**-9, -448.0])


@pytest.mark.parametrize("target", [OLD, NEW])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_max_of_a_nan_is_a_nan_of_scalars_in_the_text_and_in_the_simulator(name: str, target: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), name), b: T.Buffer((COUNT,), name), c: T.Buffer((2, COUNT), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        c[0, t] = T.max(a[t], b[t])
        c[1, t] = T.min(a[t], b[t])

    pairs = np.array(list(product(FLOATS, FLOATS)))
    a, b = (np.resize(pairs[:, side], COUNT).astype(dtype(name).numpy) for side in (0, 1))
    found, simulated = (np.zeros((2, COUNT), a.dtype) for _ in range(2))
    run(k, target, a, b, found)
    tw.simulate(k, a, b, simulated)

    nan = np.isnan(a) | np.isnan(b)
    left, right = a[~nan], b[~nan]
    below = (left < right) | ((left == right) & np.signbit(left) & ~np.signbit(right))
    for c in (found, simulated):
        assert np.isnan(c[:, nan]).all()
        assert same(c[0][~nan], np.where(below, right, left))
        assert same(c[1][~nan], np.where(below, left, right))


SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")


def ends(name: str) -> list[int]:
    """Numbers about 0 and about both ends of an integer type."""
    low, high = np.iinfo(name).min, np.iinfo(name).max
    return sorted({*range(max(low, -9), 10), low, low + 1, low + 7, high, high - 1, high - 7})


@pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
def test_division_rounds_down_for_all_signs_at_run_time(name: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), name), b: T.Buffer((COUNT,), name), c: T.Buffer((2, COUNT), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        c[0, t] = a[t] // b[t]
        c[1, t] = a[t] % b[t]

    pairs = [(x, y) for x, y in product(ends(name), ends(name)) if y]
    for start in range(0, len(pairs), COUNT):
        part = [pairs[(start + i) % len(pairs)] for i in range(COUNT)]
        a, b = (np.array([pair[side] for pair in part], name) for side in (0, 1))
        found, simulated = (np.zeros((2, COUNT), name) for _ in range(2))
        run(k, SINGLE, a, b, found)
        tw.simulate(k, a, b, simulated)
        exact = [[x // y for x, y in part], [x % y for x, y in part]]
        wanted = np.array([[wrapped(value, name) for value in row] for row in exact], name)
        assert np.array_equal(found, wanted)
        assert np.array_equal(simulated, wanted)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_division_of_floats_rounds_down_for_all_signs_at_run_time(name: str) -> None:
    @T.prim_func
    def k(a: T.Buffer((COUNT,), name), b: T.Buffer((COUNT,), name), c: T.Buffer((2, COUNT), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        c[0, t] = a[t] // b[t]
        c[1, t] = a[t] % b[t]

    numbers = [sign * each for sign in (1, -1) for each in (0.0, 0.1, 0.5, 0.75, 1, 1.5, 2, 7, 7.5, 1e5, np.inf)]
    pairs = np.array(list(product(numbers, numbers)), name)
    a, b = np.resize(pairs, (COUNT, 2)).T.copy()
    found, simulated = (np.zeros((2, COUNT), name) for _ in range(2))
    run(k, SINGLE, a, b, found)
    tw.simulate(k, a, b, simulated)
    with np.errstate(all="ignore"):
        wanted = np.stack([np.floor_divide(a, b), np.mod(a, b)])
    assert same(found, wanted)
    assert same(simulated, wanted)


def wrapped(value: int, name: str) -> int:
    """The value that is left of it in an integer type."""
    bits, low = np.iinfo(name).bits, np.iinfo(name).min
    return (value - low) % (1 << bits) + low


DIVISORS, FIRST = (-1, -2, -3, -8, -100, 1, 3, 8), (0, -40)


@pytest.mark.parametrize("name", SIGNED)
def test_division_by_a_number_rounds_down_where_ranges_are_known(name: str) -> None:
    cases = tuple(product(DIVISORS, FIRST))

    @T.prim_func
    def k(c: T.Buffer((len(cases), 6, COUNT), name)):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        for case, (divisor, first) in enumerate(cases):
            x: T.let = T.cast(t % 80 + first, name)
            c[case, 0, t] = x // divisor
            c[case, 1, t] = x % divisor
            c[case, 2, t] = (x * 4 + 3) // divisor // 2
            c[case, 3, t] = x // 2 // divisor
            c[case, 4, t] = (x % 16) // divisor
            c[case, 5, t] = T.truncdiv(x, divisor)

    found, simulated = (np.zeros((len(cases), 6, COUNT), name) for _ in range(2))
    run(k, SINGLE, found)
    tw.simulate(k, simulated)

    for case, (divisor, first) in enumerate(cases):
        x = [t % 80 + first for t in range(COUNT)]
        wide = [wrapped(each * 4 + 3, name) for each in x]
        rows = [
            [each // divisor for each in x],
            [each % divisor for each in x],
            [each // divisor // 2 for each in wide],
            [each // 2 // divisor for each in x],
            [each % 16 // divisor for each in x],
            [int(np.trunc(each / divisor)) for each in x],
        ]
        wanted = np.array([[wrapped(value, name) for value in row] for row in rows], name)
        assert np.array_equal(found[case], wanted)
        assert np.array_equal(simulated[case], wanted)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_floats_saturate_as_integers_and_nan_is_0(source: str) -> None:
    @T.prim_func
    def k(
        a: T.Buffer((COUNT,), source),
        i8: T.Buffer((COUNT,), "int8"),
        i16: T.Buffer((COUNT,), "int16"),
        i32: T.Buffer((COUNT,), "int32"),
        i64: T.Buffer((COUNT,), "int64"),
        u8: T.Buffer((COUNT,), "uint8"),
        u16: T.Buffer((COUNT,), "uint16"),
        u32: T.Buffer((COUNT,), "uint32"),
        u64: T.Buffer((COUNT,), "uint64"),
    ):
        T.cta_id([1])
        t = T.thread_id([COUNT])
        for each in (i8, i16, i32, i64, u8, u16, u32, u64):
            each[t] = T.cast(a[t], each.dtype)

    made = [np.zeros(COUNT, name) for name in (*SIGNED, *UNSIGNED)]
    limits = [float(end) for b in made for end in (np.iinfo(b.dtype).min, np.iinfo(b.dtype).max)]
    values = [0.0, -0.0, 0.99, -0.99, 1.5, -1.5, 127.9, 128.0, -128.9, 300.0, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        a = np.resize(np.array([*values, *limits, *(2 * end for end in limits)]), COUNT).astype(dtype(source).numpy)
    run(k, OLD, a, *made)

    def exact(value: float, low: int, high: int) -> int:
        return 0 if np.isnan(value) else high if value >= float(high) else low if value <= float(low) else int(value)

    for b in made:
        low, high = int(np.iinfo(b.dtype).min), int(np.iinfo(b.dtype).max)
        assert b.tolist() == [exact(float(value), low, high) for value in a]
