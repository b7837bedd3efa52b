"""Several GPUs in the language: symmetric arguments, ranks, and what calls pass for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import ArgumentError, KernelError
from tilewright.lang import parse_script


def shifted(ranks=2, count=None):
    @T.prim_func
    def kernel(x: T.SymmetricBuffer((32,), "int32", ranks=ranks), out: T.Buffer((32,), "int32"), by: T.int32):
        T.cta_id([1])
        lane, rank = T.thread_id([32]), T.rank_id([count] if count else None)
        out[lane] = x.peer((rank + by) % ranks)[lane]

    return kernel


def arrays(ranks=2):
    return [np.arange(32, dtype=np.int32) + 100 * rank for rank in range(ranks)]


def test_a_peer_is_the_array_of_that_rank():
    x, out = arrays(3), arrays(3)
    tw.simulate(shifted(3), x, out, 1, ranks=3)
    assert [part[0] for part in out] == [100, 200, 0]


def test_an_array_of_one_dimension_more_is_a_list_of_arrays():
    x, out = np.stack(arrays()), np.zeros((2, 32), np.int32)
    tw.simulate(shifted(), x, out, 1)
    assert out[:, 0].tolist() == [100, 0]


@pytest.mark.parametrize("stage", ["tile", "lowered"])
def test_the_script_of_a_kernel_of_several_gpus_parses_back(stage):
    exe = tw.compile(shifted())
    kernel = exe.kernel if stage == "tile" else exe.lowered
    assert parse_script(exe.source(stage)) == kernel


def test_symmetric_arguments_may_have_symbolic_extents():
    @T.prim_func
    def kernel(a: T.handle, out: T.Buffer((1,), "float32")):
        n = T.int32()
        x = T.match_symmetric(a, (n,), "float32", ranks=2)
        T.cta_id([1])
        T.thread_id([1])
        out[0] = x.peer(1 - T.rank_id([2]))[n - 1]

    x, out = [np.arange(size, dtype=np.float32) + own for size, own in ((5, 0), (5, 10))], [np.zeros(1, "f4")] * 1
    out = [np.zeros(1, np.float32) for _ in range(2)]
    tw.simulate(kernel, x, out)
    assert [float(part[0]) for part in out] == [14, 4]
    with pytest.raises(ArgumentError, match="disagree on n"):
        tw.simulate(kernel, [x[0], x[1][:3].copy()], out)


CALLS: dict[str, tuple[Callable[[Any], tuple[Any, ...]], dict[str, Any], str]] = {
    "one array for all": (lambda x: (x[0], x, 1), {}, "is for 2 GPUs"),
    "too few arrays": (lambda x: (x[:1], x, 1), {}, "is for 2 GPUs"),
    "an argument that is missing": (lambda x: (x, x), {}, "takes 3 arguments"),
    "another number of ranks": (lambda x: (x, x, 1), {"ranks": 3}, "is for 2 GPUs"),
    "memory that arguments share": (lambda x: (x, x, 1), {}, "share memory"),
}


@pytest.mark.parametrize("case", CALLS)
def test_arguments_that_do_not_fit_the_ranks_are_refused(case):
    given, named, words = CALLS[case]
    with pytest.raises(ArgumentError, match=words):
        tw.simulate(shifted(), *given(arrays()), **named)


def wrong(make):
    with pytest.raises(KernelError) as caught:
        make()
    return str(caught.value)


def test_a_kernel_is_for_one_number_of_gpus():
    assert "1 to 32" in wrong(lambda: shifted(0))
    assert "one number of ranks" in wrong(lambda: shifted(2, count=3))


def test_only_symmetric_arguments_have_peers():
    def make():
        @T.prim_func
        def kernel(x: T.Buffer((32,), "int32")):
            T.cta_id([1])
            lane = T.thread_id([32])
            x[lane] = x.peer(1)[lane]

    assert "x is on this GPU alone" in wrong(make)


def test_a_rank_that_is_not_there_is_refused():
    def make():
        @T.prim_func
        def kernel(x: T.SymmetricBuffer((32,), "int32", ranks=2)):
            T.cta_id([1])
            lane = T.thread_id([32])
            x[lane] = x.peer(2)[lane]

    assert "x has no rank 2" in wrong(make)


def test_an_array_that_is_not_symmetric_is_out_of_reach():
    @T.prim_func
    def kernel(x: T.SymmetricBuffer((1,), "int64", ranks=2), own: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane, rank = T.thread_id([32]), T.rank_id([2])
        if lane == 0:
            x.peer(1 - rank)[0] = T.cast(own.ptr_to([0]), "int64")
            T.ptx.fence("acq_rel", "sys")
            T.ptx.st(x.peer(1 - rank).ptr_to([0]), T.cast(own.ptr_to([0]), "int64"), sem="relaxed", scope="sys")
            address: T.int64 = T.int64(0)
            while address == T.int64(0):
                address = T.ptx.ld(x.ptr_to([0]), sem="relaxed", scope="sys")
            where: T.let = address
            there = T.decl_buffer((1,), "int32", data=T.reinterpret("handle", where))
            there[0] = 1

    x, own = [np.zeros(1, np.int64) for _ in range(2)], [np.zeros(32, np.int32) for _ in range(2)]
    with pytest.raises(tw.TilewrightError, match="own on another GPU, which cannot be reached there"):
        tw.simulate(kernel, x, own)


def test_a_recording_is_of_one_gpu():
    with pytest.raises(ArgumentError, match="a recording looks at one GPU\n  given:   kernel, for 2 GPUs"):
        tw.simulate(shifted(), arrays(), arrays(), 1, record=True)


@pytest.mark.parametrize("look", ["estimate", "needed"])
def test_an_estimate_and_needed_are_of_one_gpu(look: str):
    ask: Any = tw.compile(shifted()).estimate if look == "estimate" else partial(tw.needed, shifted())

    with pytest.raises(ArgumentError, match=f"{look} looks at one GPU\n  given:   kernel, for 2 GPUs"):
        ask(arrays(), arrays(), 1)


def test_an_unknown_name_is_answered_with_the_names_that_callers_give():
    (finding,) = tw.check(shifted(), ranks=2).findings
    assert finding.message == "kernel has no parameter 'ranks'"
    assert str(finding.allowed).startswith("x, out, by, expect, ")
