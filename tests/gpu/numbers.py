"""Corner cases of arithmetic, of every element type, and kernels that compute with each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sim.build import Lowered, cta, get, tid
from tilewright.dtypes import DType, dtype
from tilewright.ir import Expr

Array = NDArray[Any]
THREADS = 256
EACH = 2  # elements of a thread: neighbours, so that the two halves of a byte are one thread's
ROUND = THREADS * EACH
FLOAT_CORNERS = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.1, 3.0, 1e-5, 6e-8, 1e-40, 7.0, 127.5, 255.5, 448.0, 464.0, 65504.0,
                 65520.0, 2147483648.0, 4294967296.0, 9.3e18, 3.4e38, 1e300, 5e-324, np.inf, np.nan]  # fmt: skip


def corners(kind: DType) -> Array:
    """Zero, one, the ends of the range and their neighbours; of floats both signs, halves, subnormals, NaN."""
    if kind.kind == "bool":
        return np.array([False, True])
    if kind.is_float:
        with np.errstate(all="ignore"):
            both = np.array([sign * value for value in FLOAT_CORNERS for sign in (1, -1)])
            return both.astype(kind.numpy)
    ends = np.iinfo(str(kind))
    near = {0, 1, 2, 3, 5, 7, 10, -1, -2, -3, -7, ends.min, ends.min + 1, ends.max, ends.max - 1, ends.max // 2}
    return np.array(sorted(value for value in near if ends.min <= value <= ends.max), kind.numpy)


def patterns(kind: DType, count: int, rng: np.random.Generator) -> Array:
    """Random bits; every pattern, where there are no more than 65536."""
    width = kind.numpy.itemsize
    if kind.kind == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    if kind.value_bits <= 16:
        every = np.arange(1 << kind.value_bits).astype(f"u{width}")
        return every.view(kind.numpy)
    return rng.integers(0, 256, count * width, dtype=np.uint8).view(kind.numpy)


def halfway(rng: np.random.Generator, kind: DType) -> Array:
    """Numbers half way between two neighbours of a narrower type, where rounding decides, and their neighbours."""
    if kind not in ("float32", "float64"):
        return np.zeros(0, kind.numpy)
    made = []
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn"):
        narrow = dtype(name)
        bits = rng.integers(0, 1 << narrow.value_bits, 256).astype(f"u{narrow.numpy.itemsize}")
        with np.errstate(all="ignore"):
            values = bits.view(narrow.numpy).astype(kind.numpy)
            following = (bits + 1).astype(bits.dtype).view(narrow.numpy).astype(kind.numpy)
            middle = ((values + following) / 2).astype(kind.numpy)
            made += [middle, np.nextafter(middle, kind.numpy.type(np.inf)), np.nextafter(middle, kind.numpy.type(0))]
    return np.concatenate(made)


def whole_rounds(values: Array) -> Array:
    """Repeated from the start until every thread has its elements."""
    return np.resize(values, -(-values.size // ROUND) * ROUND)


def single(kind: DType, rng: np.random.Generator) -> Array:
    """Arguments of a function of one number."""
    return whole_rounds(np.concatenate([corners(kind), halfway(rng, kind), patterns(kind, 4096, rng)]))


def pairs(kind: DType, rng: np.random.Generator) -> tuple[Array, Array]:
    """Arguments of an operator: each corner with each, and random ones."""
    special = corners(kind)
    left, right = np.repeat(special, special.size), np.tile(special, special.size)
    more = patterns(kind, 4096, rng)
    if more.size > 4096:
        more = rng.choice(more, 4096)
    left, right = np.concatenate([left, more]), np.concatenate([right, rng.permutation(more)])
    return whole_rounds(left), whole_rounds(right)


def computing(
    inputs: Mapping[str, tuple[DType, Array]], values: Mapping[str, Callable[..., Expr]]
) -> tuple[Lowered, dict[str, Array]]:
    """A kernel that stores each of ``values`` of the inputs, element by element, to an array of its name."""
    size = next(iter(inputs.values()))[1].size
    k = Lowered("computing", threads=THREADS, grid=size // ROUND)
    arrays = {name: as_bytes(values_in, kind) for name, (kind, values_in) in inputs.items()}
    sources = [k.array(name, str(kind), size) for name, (kind, _) in inputs.items()]
    first = (cta * THREADS + tid) * EACH
    outs = {}
    for name, value in values.items():
        kind = value(*(get(source, first) for source in sources)).dtype
        outs[name] = k.array(name, str(kind), size)
        arrays[name] = as_bytes(np.zeros(size, kind.numpy), kind)
    with k.loop("i", 0, EACH) as i:
        for name, value in values.items():
            k.store(outs[name], first + i, value(*(get(source, first + i) for source in sources)))
    return k, arrays


def as_bytes(values: Array, kind: DType) -> Array:
    """As a call passes it: 4-bit elements packed."""
    if kind.bits >= 8:
        return values
    nibbles = values.view(np.uint8)
    return nibbles[0::2] | nibbles[1::2] << 4
