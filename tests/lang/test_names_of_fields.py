"""Memory that an object of parse time makes is called, in CUDA and in findings, by the object and its field."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.ir import Kernel


@T.meta_class
class Pair:
    """Two scalars, and what the kernel has named before."""

    def __init__(self, table: object) -> None:
        self.low, self.high = T.local_scalar("int32"), T.local_scalar("int32")
        self.table = table


@T.meta_class
class One:
    """A single scalar, two objects deep."""

    def __init__(self) -> None:
        self.value = T.local_scalar("int32")


@T.meta_class
class Around:
    """An object around one thing."""

    def __init__(self) -> None:
        self.one = One()


def declared(kernel: Kernel) -> set[str]:
    """The scalars and arrays that the CUDA text of a kernel declares."""
    text = tw.compile(kernel, target="sm_90a").source("cuda")
    return set(re.findall(r"^\s+(?:alignas\(\d+\) )?(?:unsigned )?(?:int|long long)\*? (\w+)[ \[]", text, re.M))


def test_fields_are_called_by_their_object() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        table = T.alloc_local((2,), "int32")
        table[lane % 2] = lane
        pair = Pair(table)
        pair.low = lane
        pair.high = table[lane % 2]
        for _ in range(lane):
            pair.low += 1
            pair.high += pair.low
        A[lane] = pair.low + pair.high

    names = declared(kernel)
    assert {"pair_low", "pair_high"} <= names
    assert "table" in names  # it had a name before the object
    assert not {name for name in names if name.startswith("buffer")}


def test_an_object_with_one_thing_gives_it_its_own_name() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        count = Around()
        count.one.value = 0
        for _ in range(lane):
            count.one.value += 2
        A[lane] = count.one.value

    assert "count" in declared(kernel)


def test_a_taken_name_gets_a_number() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        pair_low: T.int32 = 5
        pair = Pair(None)
        pair.low = lane
        pair.high = 0
        for _ in range(lane):
            pair.low += 1
            pair.high += pair_low
            pair_low += 1
        A[lane] = pair.low + pair.high + pair_low

    assert {"pair_low", "pair_low_1", "pair_high"} <= declared(kernel)


def test_a_finding_names_the_barriers_of_a_ring_by_their_field() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        ring = T.Pipeline(pool, 2, full="mbar", init_empty=32)
        ring.ready()
        ring.empty.wait(0, 0)  # nobody arrives there
        A[lane] = 1.0

    with pytest.raises(tw.TilewrightError, match=r"ring_empty\[0\]"):
        tw.compile(kernel, target="sm_90a").simulate(np.zeros(32, np.float32), check="all")


def test_an_array_of_a_handle_is_called_by_its_parameter() -> None:
    def rows(pointer: Any, n: Any) -> Any:  # `Any`: values of the language
        return T.match_buffer(pointer, (n, 32), "float32")

    @T.prim_func
    def kernel(source: T.handle, result: T.handle):
        n = T.int32()
        arrays = [rows(source, n), rows(result, n)]
        T.cta_id([1])
        lane = T.lane_id([32])
        arrays[1][0, lane] = arrays[0][0, lane]

    text = tw.compile(kernel, target="sm_90a").source("cuda")
    assert re.search(r"const float\*[ \w]* source\w*,", text)
    assert re.search(r"\bfloat\*[ \w]* result\w*,", text)
