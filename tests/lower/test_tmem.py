"""Allocations of tensor memory have sizes that the hardware has, whatever constant the kernel names."""

from __future__ import annotations

import warnings

import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import InstructionError, TilewrightWarning
from tilewright.ir import Kernel


def kernel(columns: object, freed: object = None, group: int = 1, other: int = 1) -> Kernel:
    back = columns if freed is None else freed

    @T.prim_func
    def k():
        T.cta_id([1])
        T.thread_id([32])
        addr = T.alloc_shared([1], "uint32")
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=columns, cta_group=group)
        T.ptx.tcgen05.dealloc(addr[0], n_cols=back, cta_group=other)

    return k


def sizes(made: Kernel) -> list[str]:
    return [
        line.strip()
        for line in tw.compile(made, "sm_100a").source("lowered").splitlines()
        if "alloc(" in line and "ptx" in line
    ]


@pytest.mark.parametrize("columns", [32, 64, 128, 256, 512])
def test_a_size_of_the_hardware_stays_as_it_is(columns: int) -> None:
    assert sizes(kernel(columns)) == [
        f"T.ptx.tcgen05.alloc(T.address_of(addr[0]), {columns}, cta_group=1)",
        f"T.ptx.tcgen05.dealloc(addr[0], {columns}, cta_group=1)",
    ]


@pytest.mark.parametrize(("columns", "size"), [(1, 32), (16, 32), (33, 64), (48, 64), (100, 128), (300, 512)])
def test_any_other_constant_is_rounded_up_with_one_warning(columns: int, size: int) -> None:
    with pytest.warns(TilewrightWarning, match=f"{columns} columns of tensor memory are rounded up to {size}") as told:
        found = sizes(kernel(columns))

    assert len(told) == 1
    assert found == [
        f"T.ptx.tcgen05.alloc(T.address_of(addr[0]), {size}, cta_group=1, requested={columns})",
        f"T.ptx.tcgen05.dealloc(addr[0], {size}, cta_group=1)",
    ]


def test_a_value_of_run_time_is_never_rounded() -> None:
    @T.prim_func
    def k(n: T.int32):
        T.cta_id([1])
        T.thread_id([32])
        addr = T.alloc_shared([1], "uint32")
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=n, cta_group=1)
        T.ptx.tcgen05.dealloc(addr[0], n_cols=n, cta_group=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sizes(k)[0] == "T.ptx.tcgen05.alloc(T.address_of(addr[0]), n, cta_group=1)"


@pytest.mark.parametrize("columns", [0, -4, 513, 1024])
def test_there_is_no_such_number_of_columns(columns: int) -> None:
    with pytest.raises(InstructionError, match="n_cols"):
        kernel(columns)


def test_one_kernel_has_one_cta_group() -> None:
    with pytest.raises(InstructionError, match="has another cta_group") as raised:
        tw.compile(kernel(32, group=2, other=1), "sm_100a")

    assert raised.value.at is not None
