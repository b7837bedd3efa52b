"""Every elementwise primitive on ragged tiles: hardware against simulator, within the bounds of the functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError
from tilewright.primitives import PRIMITIVES
from tilewright.primitives.elementwise import ELEMENTWISE

pytestmark = pytest.mark.gpu

KINDS = ("float32", "float16", "bfloat16", "float64", "int32", "int8")
BOOLS = ("eq", "ne", "lt", "le", "gt", "ge")
SIZE = 4099
PLACES = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}  # of functions, relative
WITH_RANGE = {"floordiv": (1, 100), "mod": (1, 100), "shl": (0, 8), "shr": (0, 8)}


def ragged(name: str, kind: str, to: str) -> Any:
    """A kernel with a tail that no run divides."""
    function = getattr(Tx.cta, name)
    count = sum(operand.name not in ("bias", "scale") or name == "fma" for operand in PRIMITIVES[name].operands[1:])

    @T.prim_func
    def kernel(a: T.handle, b: T.handle, p: T.handle, c: T.handle):
        n = T.int32()
        A, B, P = T.match_buffer(a, (n,), kind), T.match_buffer(b, (n,), kind), T.match_buffer(p, (n,), kind)
        C = T.match_buffer(c, (n,), to)
        bx = T.cta_id([T.ceildiv(n, 1024)])
        T.thread_id([128])
        start, end = T.meta_var(bx * 1024), T.meta_var(bx * 1024 + 1024)
        if count == 1:
            function(C[start:end], A[start:end])
        if count == 2:
            function(C[start:end], A[start:end], B[start:end])
        if count == 3:
            function(C[start:end], A[start:end], B[start:end], P[start:end])

    return kernel


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_hardware_computes_what_the_simulator_does(name: str, kind: str) -> None:
    to = "bool" if name in BOOLS else kind
    try:
        made = tw.compile(ragged(name, kind, to), target="sm_90a")
        made.report  # noqa: B018  a call that means nothing is refused here
    except DispatchError:
        pytest.skip(f"{name} means nothing for {kind}")
    random = np.random.default_rng(1)
    given = [(random.standard_normal(SIZE) * 4).astype(dtype(kind).numpy) for _ in range(3)]
    if dtype(kind).kind in ("int", "uint") and name in WITH_RANGE:  # other right operands are errors on the simulator
        given[1] = random.integers(*WITH_RANGE[name], SIZE).astype(dtype(kind).numpy)
    found, expected = (np.zeros(SIZE, dtype(to).numpy) for _ in range(2))

    made(*given, found)
    made.simulate(*given, expected)

    if to in PLACES:
        wide = (found.astype(np.float64), expected.astype(np.float64))
        small = 1e-6 if name == "gelu" else 1e-30  # 1 + erf(x) cancels out
        np.testing.assert_allclose(*wide, rtol=PLACES[to], atol=small, equal_nan=True)
    else:
        assert np.array_equal(found, expected)
