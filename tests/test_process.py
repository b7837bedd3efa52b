"""Limits of the process: a run takes one thread of BLAS, and gives back what was there."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits

from tests.sim.build import Lowered, tid
from tilewright.process import one_blas_thread
from tilewright.sim import Program, parse_checks


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


def test_a_run_multiplies_with_one_thread_and_gives_the_others_back() -> None:
    k, seen = Lowered(), list[set[int]]()
    k.store(k.array("a", "int32", 32), tid, tid)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        Program(k.kernel(), parse_checks("all")).run(
            {"a_ptr": np.zeros(32, np.int32)}, {}, progress=lambda *_: seen.append(blas_threads())
        )
        assert blas_threads() == before == {2}
    assert seen == [{1}]


def test_runs_that_overlap_give_the_threads_back_once_the_last_one_ends() -> None:
    with threadpool_limits(2, "blas"):
        first: Any = one_blas_thread()
        second: Any = one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
