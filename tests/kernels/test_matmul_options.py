"""`kernels.matmul` with all checks of the simulator on: every pair of options, types, sizes and ways that arrays lie.

A case names one level of each factor. The cases of the sweep hold every pair of levels of two factors; the long test
goes through all combinations of types and of what follows the product.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, cycle, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import kernels
from tilewright.compiler import Executable
from tilewright.kernels import products
from tilewright.kernels.forms import Tiles

Array = NDArray[Any]
Case = dict[str, Any]
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"

TYPES: Mapping[str, tuple[Any, ...]] = {
    "kinds": (("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "float32"), (E4M3, E4M3), (E4M3, E5M2)),
    "result": (None, "float32", "float16"),
    "bias": (None, "float32", "bfloat16", "float16"),
    "residual": (None, "float32", "bfloat16", "float16"),
    "activation": (None, "relu", "gelu", "silu"),
    "scales": (None, "numbers", "tensor", "rows"),
}
PLACES: Mapping[str, tuple[Any, ...]] = {
    "m": (1, 9, 72),
    "n": (1, 8, 67),
    "k": (0, 5, 136),
    "batch": ("none", "flat", "both"),
    "a_lies": ("plain", "turned", "gaps"),
    "b_lies": ("plain", "turned", "backwards"),
    "tiles": (
        None,
        (Tiles(128, 32, cluster=2, stages=2), False),
        (Tiles(64, 16, cluster=1, parts=2), True),
        (Tiles(64, 24, cluster=1, stages=2, pingpong=True), False),
    ),
}
FACTORS = {**TYPES, **PLACES}
LIES: dict[str, Callable[[Array], Array]] = {
    "plain": np.ascontiguousarray,
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "gaps": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}
ACTIVATIONS: dict[Any, Callable[[Array], Array]] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x * 0.5**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
PRECISION = {"float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1.2e-2}


def pairwise(factors: Mapping[str, tuple[Any, ...]], seed: int = 0) -> list[Case]:
    """Few cases that hold each pair of levels: each case takes, of some drawn ones, the most pairs still missing."""
    rng = random.Random(seed)
    numbered = {name: range(len(levels)) for name, levels in factors.items()}
    missing = {
        ((one, i), (other, j))
        for one, other in combinations(numbered, 2)
        for i, j in product(numbered[one], numbered[other])
    }
    cases = []
    while missing:
        start = dict(rng.choice(sorted(missing)))
        drawn = [{**{name: rng.choice(levels) for name, levels in numbered.items()}, **start} for _ in range(200)]
        best = max(drawn, key=lambda case: len(missing.intersection(combinations(case.items(), 2))))
        missing -= set(combinations(best.items(), 2))
        cases.append({name: factors[name][level] for name, level in best.items()})
    return cases


def integers(rng: np.random.Generator, kind: str, *shape: int) -> Array:
    return rng.integers(-2, 3, shape).astype(np.float32).astype(kind)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run with all checks, and without a warning."""

    def run(exe: Executable, *args: Any) -> None:
        assert exe.simulate(*args, check="all").warnings == []

    monkeypatch.setattr(Executable, "__call__", run)


def scales_of(rng: np.random.Generator, how: str | None, rows: int, columns: int) -> tuple[Any, Any, Array | float]:
    """scale_a, scale_b, and what a result is multiplied by."""
    if how is None:
        return None, None, 1.0
    if how == "numbers":
        return 0.5, 4, 2.0
    a, b = (2.0 ** integers(rng, "float32", extent if how == "rows" else 1) for extent in (rows, columns))
    return a, b, wide(a)[:, None] * wide(b)[None, :]


def verify(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(len(str(case)))
    m, n, k = case["m"], case["n"], case["k"]
    a_lead, b_lead = {"none": ((), ()), "flat": ((2,), ()), "both": ((2,), (2,))}[case["batch"]]
    if case["tiles"] and case["tiles"][0].parts <= k // 64:  # each part of K has a step, as those chosen have
        monkeypatch.setattr(products, "chosen", lambda *_, **__: (case["tiles"],))
    a = LIES[case["a_lies"]](integers(rng, case["kinds"][0], *a_lead, m, k))
    b = LIES[case["b_lies"]](integers(rng, case["kinds"][1], *b_lead, k, n))
    bias = case["bias"] and integers(rng, case["bias"], 2 * n)[::2]
    residual = case["residual"] and LIES["gaps"](integers(rng, case["residual"], *a_lead, m, n))
    scale_a, scale_b, scale = scales_of(rng, case["scales"], math.prod(a_lead) * m, n)
    c = kernels.matmul(a, b, bias=bias, residual=residual, scale_a=scale_a, scale_b=scale_b,
                       activation=case["activation"], dtype=case["result"])  # fmt: skip
    sums = (wide(a) @ wide(b)).reshape(-1, n) * scale + (0 if bias is None else wide(bias))
    wanted = ACTIVATIONS[case["activation"]](sums).reshape(*a_lead, m, n)
    wanted = wanted + (0 if residual is None else wide(residual))
    kind = case["result"] or ("bfloat16" if case["kinds"][0] == E4M3 else case["kinds"][0])
    assert c.dtype == np.dtype(kind)
    assert c.shape == wanted.shape
    assert np.allclose(wide(c), wanted, rtol=PRECISION[kind], atol=PRECISION[kind])


@pytest.mark.every(8)
@pytest.mark.parametrize("case", pairwise(FACTORS), ids=lambda case: "-".join(map(str, case.values())).replace(" ", ""))
def test_every_pair_of_options_is_right_under_all_checks(
    case: Case, checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify(case, monkeypatch)


def all_types() -> Iterator[Case]:
    """All that `TYPES` has, each at one of the places."""
    places = cycle(pairwise(PLACES))
    for levels in product(*TYPES.values()):
        yield {**dict(zip(TYPES, levels, strict=True)), **next(places)}


@pytest.mark.long
@pytest.mark.parametrize("part", range(64))
def test_all_options_are_right_under_all_checks(part: int, checked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, case in enumerate(all_types()):
        if number % 64 == part:
            with monkeypatch.context() as patched:
                verify(case, patched)


def test_the_sweep_has_every_pair() -> None:
    cases = pairwise(FACTORS)
    for one, other in combinations(FACTORS, 2):
        levels = [(case[one], case[other]) for case in cases]
        assert all(pair in levels for pair in product(FACTORS[one], FACTORS[other]))
