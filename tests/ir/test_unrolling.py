"""A loop that is written out a million times is refused at its line, before that takes time."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import KernelError

MANY = list(range(1_000_000))


def test_a_million_rounds_of_unroll_are_refused() -> None:
    @T.prim_func
    def once(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        for i in T.unroll(1_000_000):
            A[lane] = i

    with pytest.raises(
        KernelError, match=r"given:   1,000,000 rounds.*\n.*16,384 rounds\n  try:     range\(0, 1000000, 1\)"
    ):
        tw.compile(once)


def test_rounds_of_nested_loops_multiply() -> None:
    @T.prim_func
    def nested(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        for i in T.unroll(1000):
            for j in T.unroll(1000):
                A[lane] = i + j

    with pytest.raises(KernelError, match="the loop over j is written out too often"):
        tw.compile(nested)


def test_a_million_python_values_are_refused_while_parsing() -> None:
    with pytest.raises(KernelError, match="a loop over Python values is written out too often"):

        @T.prim_func
        def over_values(A: T.Buffer((32,), "int32")):
            T.cta_id([1])
            lane = T.lane_id([32])
            for i in MANY:
                A[lane] = i
