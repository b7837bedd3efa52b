"""wgmma.sp: stored elements and metadata against the full matrix that they stand for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.wgmma_oracles import SPARSE
from tests.isa.wgmma_products import assert_product, descriptor, majors_of, named, small
from tilewright.isa.table import Bound

EVERY = [bound for bound in every_form() if bound.instruction.name in SPARSE and bound.mods["N"] in (8, 32)]
FORMS = list({(bound.instruction.name, *bound.mods.values()): bound for bound in EVERY}.values())


def thinned(whole: NDArray[Any], k: int, chunk: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """The matrix with half of each chunk's elements zero, those that are left, and their places in the chunk."""
    full, stored = np.zeros_like(whole), np.zeros((64, k // 2), whole.dtype)
    places = np.zeros((64, k // 2), np.int64)
    for row, first in product(range(64), range(0, k, chunk)):
        chosen = np.sort(rng.choice(chunk, chunk // 2, replace=False))
        for j, place in enumerate(chosen):
            at = first // 2 + j
            full[row, first + place] = whole[row, first + place]
            stored[row, at], places[row, at] = whole[row, first + place], place
    return full, stored, places


def metadata(places: NDArray[Any], selector: int, width: int, rng: np.random.Generator) -> NDArray[Any]:
    """The registers of 128 threads; those that no row is described by hold anything."""
    words = [int(word) for word in rng.integers(0, 1 << 32, 128)]
    for row in range(64):
        fields = [f for p in places[row] for f in ((2 * p, 2 * p + 1) if width == 4 else (p,))]
        for number, field in enumerate(fields):
            bit, r, warp = 2 * number, row % 16, row // 16
            if width > 1:
                lane, shift = r % 8 * 4 + 2 * selector + bit // 16, r // 8 * 16 + bit % 16
            else:
                lane, shift = r % 8 * 4 + r // 8 + 2 * (bit // 32), bit % 32
            thread = 32 * warp + lane
            words[thread] = words[thread] & ~(3 << shift) | int(field) << shift
    return np.array([words], np.uint32)


@pytest.mark.parametrize("bound", FORMS, ids=named)
def test_a_sparse_product_is_that_of_the_full_matrix(bound: Bound) -> None:
    mods, rng = bound.mods, np.random.default_rng(len(named(bound)))
    n, k = int(str(mods["N"])), int(str(mods["K"]))
    kinds = str(mods["in_dtype"]), str(mods["b_dtype"] or mods["in_dtype"])
    width = {"tf32": 4, "float16": 2, "bfloat16": 2}.get(kinds[0], 1)
    (a, octets), (b, b_bytes) = small(kinds[0], (64, k), rng), small(kinds[1], (n, k), rng)
    codes = octets.view(f"u{width}")
    full, stored, places = thinned(codes, k, 2 if width == 4 else 4, rng)
    a = np.where(full == codes, a, 0) * (full != 0)
    majors = majors_of(bound)
    mode = 3 if majors[1] == "K" else n // 8 % 4
    made = [descriptor(1024, mode, 64, majors[0]), descriptor(1 << 16, mode, n, majors[1])]
    if majors[1] == "MN":  # twice as many rows of K as a dense product has
        made[1] = replace(made[1], stride=512) if mode == 0 else replace(made[1], leading=4096)
    a_bytes = np.ascontiguousarray(stored).view(np.uint8)
    words = metadata(places, int(str(mods["selector"])), width, rng)

    assert_product(bound, (a, b), (a_bytes, b_bytes), (made[0], made[1]), rng, metadata=words)
