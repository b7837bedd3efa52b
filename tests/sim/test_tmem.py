"""Tensor memory as a resource: taking columns, giving them back, and their contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.tmem_kernels import TARGET, give_back, line, refusal, simulate, take
from tilewright import T
from tilewright.errors import InstructionError

# Taking and giving back. Kernels of one warp, or of one warp per CTA.


def taken(*columns: int, ctas: int = 1) -> Any:
    """Takes each of these in turn, writes where, and gives all back."""

    @T.prim_func
    def take_all(B: T.Buffer((ctas, len(columns)), "uint32")):
        cta_id = T.cta_id([ctas])
        T.warp_id([1])
        lane_id = T.lane_id([32])
        addr = T.alloc_shared([len(columns)], "uint32")
        for i, count in enumerate(columns):
            T.ptx.tcgen05.alloc(addr.ptr_to([i]), n_cols=count, cta_group=1)  # an alloc
        T.cuda.warp_sync()
        if lane_id == 0:
            for i in range(len(columns)):
                B[cta_id, i] = addr[i]
        for i, count in enumerate(columns):
            T.ptx.tcgen05.dealloc(addr[i], n_cols=count, cta_group=1)

    return take_all


@pytest.mark.parametrize("columns", [(32,), (64,), (512,), (256, 256), (256, 128, 64, 32, 32), (128, 128, 128, 128)])
def test_columns_are_handed_out_until_all_512_are_taken(columns: tuple[int, ...]) -> None:
    found = np.zeros((3, len(columns)), np.uint32)

    assert simulate(taken(*columns, ctas=3), found) == []
    for cta in found.tolist():
        spans = [set(range(first, first + count)) for first, count in zip(cta, columns, strict=True)]
        assert len(set().union(*spans)) == sum(columns)
        assert max(set().union(*spans)) < 512


def test_no_alloc_takes_more_than_the_one_before() -> None:
    error = refusal(taken(32, 64), np.zeros((1, 2), np.uint32))

    assert error.what == "64 columns of tensor memory after 32: no alloc may take more than the last"


def test_columns_that_were_given_back_are_taken_again() -> None:
    @T.prim_func
    def again():
        T.cta_id([2])
        T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        for _ in range(5):
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=512, cta_group=1)
            T.cuda.warp_sync()
            T.ptx.tcgen05.dealloc(addr[0], n_cols=512, cta_group=1)
            T.cuda.warp_sync()

    assert simulate(again) == []


@pytest.mark.parametrize("columns", [0, 513, 1024])
def test_a_constant_beyond_the_hardware_is_refused_when_compiling(columns: int) -> None:
    with pytest.raises(InstructionError, match="n_cols") as raised:
        tw.compile(taken(columns), target=TARGET)

    assert raised.value.given == f"{columns} columns"
    assert raised.value.allowed == "a power of two from 32 to 512"


def take_at_run_time() -> Any:
    @T.prim_func
    def take_some(n: T.int32):
        T.cta_id([1])
        T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=n, cta_group=1)  # a number of run time
        T.cuda.warp_sync()
        T.ptx.tcgen05.dealloc(addr[0], n_cols=n, cta_group=1)

    return take_some


@pytest.mark.parametrize("columns", [32, 64, 512])
def test_a_power_of_two_of_run_time_is_taken(columns: int) -> None:
    assert simulate(take_at_run_time(), columns) == []


@pytest.mark.parametrize("columns", [0, 16, 31, 48, 100, 513, 1024])
def test_any_other_number_of_run_time_is_refused_and_never_rounded(columns: int) -> None:
    error = refusal(take_at_run_time(), columns, check="none")

    assert error.what == f"n_cols is a power of two from 32 to 512, not {columns}"
    assert str(error.at) == line("a number of run time")


def given_back(how: str) -> Any:
    @T.prim_func
    def give():
        T.cta_id([1])
        T.warp_id([1])
        lane_id = T.lane_id([32])
        addr = T.alloc_shared([2], "uint32")
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=64, cta_group=1)  # takes 64
        T.cuda.warp_sync()
        if how == "half":
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)  # half
        elif how == "elsewhere":
            T.ptx.tcgen05.dealloc(addr[0] + 32, n_cols=32, cta_group=1)  # elsewhere
        elif how == "in a lane":
            T.ptx.tcgen05.dealloc(addr[0] + (32 << 16), n_cols=64, cta_group=1)  # in a lane
        elif how == "beyond":
            T.ptx.tcgen05.dealloc(addr[0] + 1000, n_cols=64, cta_group=1)  # beyond
        elif how == "different lanes":
            T.ptx.tcgen05.dealloc(addr[0] + T.cast(lane_id, "uint32"), n_cols=64, cta_group=1)  # different lanes
        elif how == "part of the warp":
            if lane_id < 16:
                T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)  # part of the warp
        else:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)
            T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)  # twice

    return give


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("half", "dealloc of 32 columns where alloc at {takes 64} took 64"),
        ("elsewhere", "dealloc of what no alloc gave: address 0x20; the CTA has 64 columns from column 0"),
        ("in a lane", "dealloc of what no alloc gave: address 0x200000; the CTA has 64 columns from column 0"),
        ("beyond", "dealloc of what no alloc gave: address 0x3e8; the CTA has 64 columns from column 0"),
        ("different lanes", "addr is the same in all lanes of the warp"),
        ("part of the warp", "divergence: ptx.tcgen05.dealloc without lanes 16..31"),
        ("twice", "dealloc of what no alloc gave: address 0x0; the CTA has nothing"),
    ],
)
def test_what_is_given_back_is_what_one_alloc_gave(how: str, what: str) -> None:
    error = refusal(given_back(how))

    assert error.what == what.replace("{takes 64}", line("takes 64"))
    assert str(error.at) == line(how)


@pytest.mark.parametrize("order", ["dealloc after", "alloc after"])
def test_after_relinquishing_nothing_is_taken_but_all_may_be_given_back(order: str) -> None:
    @T.prim_func
    def relinquish():
        T.cta_id([2])
        T.warp_id([1])
        addr = T.alloc_shared([2], "uint32")
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        if order == "alloc after":
            T.ptx.tcgen05.alloc(addr.ptr_to([1]), n_cols=32, cta_group=1)  # too late
        T.cuda.warp_sync()
        T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    if order == "dealloc after":
        assert simulate(relinquish) == []
        return
    error = refusal(relinquish)
    assert error.what == "tensor memory is asked for after relinquish_alloc_permit"
    assert str(error.at) == line("too late")


def test_only_the_ctas_that_relinquish_take_no_more() -> None:
    @T.prim_func
    def one_relinquishes():
        cta_id = T.cta_id([2])
        T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        if cta_id == 1:
            T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        else:
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)
            T.cuda.warp_sync()
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    assert simulate(one_relinquishes) == []


# Pairs of CTAs


def pair(*, cluster: int = 2, gives_back: bool = True) -> Any:
    @T.prim_func
    def take_together(B: T.Buffer((4,), "uint32")):
        cta_id = T.cta_id([4])
        rank = T.cta_id_in_cluster([cluster])
        T.warp_id([1])
        lane_id = T.lane_id([32])
        addr = T.alloc_shared([1], "uint32")
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=128, cta_group=2)  # together
        T.cuda.warp_sync()
        if lane_id == 0:
            B[cta_id] = addr[0]
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=2)
        if gives_back or rank == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=128, cta_group=2)

    return take_together


def test_a_warp_of_each_cta_of_a_pair_takes_the_same_columns() -> None:
    found = np.ones(4, np.uint32)

    assert simulate(pair(), found) == []
    assert found.tolist() == [0, 0, 0, 0]


def test_each_of_them_gives_them_back() -> None:
    error = refusal(pair(gives_back=False), np.zeros(4, np.uint32))

    assert error.what == "the CTA ends with tensor memory that it has not given back"
    assert error.given == "128 columns from column 0, CTA (1, 0, 0)"


def test_a_pair_needs_a_cluster() -> None:
    error = refusal(pair(cluster=1), np.zeros(4, np.uint32))

    assert error.what == "cta_group=2 is for pairs of CTAs: the cluster has an even number of them"


# Legal accesses, and contents


def touched(what: str, *, column: int = 0, row: int = 0, columns: int = 32, ctas: int = 1) -> Any:
    """Warps 0 to 3 load or store 4 columns."""

    @T.prim_func
    def touch(B: T.Buffer((ctas, 128, 4), "uint32")):
        cta_id = T.cta_id([ctas])
        warp_id, tid = T.warp_id([4]), T.thread_id([128])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((4,), "uint32")
        take(addr, warp_id, columns)
        for i in range(4):
            words[i] = T.cast(1000 * cta_id + 4 * tid + i, "uint32")
        if what != "load only":
            T.ptx.tcgen05.st(addr[0], words, shape="32x32b", num=4, row=warp_id * 32 + row, col=column)  # touches
            T.ptx.tcgen05.wait.st()
        if what != "store only":
            T.ptx.tcgen05.ld(addr[0], words, shape="32x32b", num=4, row=warp_id * 32 + row, col=column)
            T.ptx.tcgen05.wait.ld()
        for i in range(4):
            B[cta_id, tid, i] = words[i]  # looks
        give_back(addr, warp_id, columns)

    return touch


@pytest.mark.parametrize("ctas", [1, 2, 70])
def test_each_cta_has_cells_of_its_own(ctas: int) -> None:
    b = np.zeros((ctas, 128, 4), np.uint32)

    assert simulate(touched("both", ctas=ctas), b) == []
    assert np.array_equal(b, (1000 * np.arange(ctas)[:, None] + np.arange(512)).reshape(ctas, 128, 4))


@pytest.mark.parametrize(
    ("column", "columns", "what"),
    [
        (28, 32, None),
        (30, 32, "tensor memory that is not allocated: lanes 0..31, columns 32..33"),
        (510, 512, "outside of tensor memory: lanes 0..31, columns 512..513; it has 128 lanes, 512 columns"),
        (100, 64, "tensor memory that is not allocated: lanes 0..31, columns 100..103"),
    ],
)
def test_columns_that_were_not_taken_are_not_there(column: int, columns: int, what: str | None) -> None:
    made, b = touched("store only", column=column, columns=columns), np.zeros((1, 128, 4), np.uint32)
    if what is None:
        assert simulate(made, b) == []
        return
    error = refusal(made, b, check="default")

    assert error.what == what
    assert "CTA (0, 0, 0), warp 0" in str(error.given)


@pytest.mark.parametrize("what", ["address", "descriptor"])
def test_an_operand_that_nobody_has_written_is_told_when_the_operation_is_issued(what: str) -> None:
    @T.prim_func
    def forget():
        T.cta_id([1])
        tid = T.thread_id([32])
        T.warp_id([1])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        desc = T.alloc_local((1,), "uint64")
        if what != "address":
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32)
            T.cuda.warp_sync()
        if what != "descriptor":
            T.ptx.tcgen05.encode_matrix_descriptor(desc.ptr_to([0]), source.ptr_to([0, 0]), 1, 8, 0)
        if tid == 0:
            T.ptx.tcgen05.cp(addr[0], desc[0], shape="32x128b", multicast="warpx4")  # relies on both

    error = refusal(forget)

    assert error.what == {"address": "addr[0] is uninitialised", "descriptor": "a value is uninitialised"}[what]
    named = {"address": "an operand", "descriptor": "desc, an operand"}[what]
    assert str(error.given).startswith(f"{named} of ptx.tcgen05.cp, in CTA (0, 0, 0), warp 0, lane 0")
    assert str(error.at) == line("relies on both")


def test_what_was_given_back_is_not_there_any_more() -> None:
    @T.prim_func
    def use_after():
        T.cta_id([1])
        T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((1,), "uint32")
        words[0] = T.uint32(1)
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)
        T.cuda.warp_sync()
        T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)  # gives back
        T.ptx.tcgen05.st(addr[0], words[0], shape="32x32b", num=1)  # after that
        T.ptx.tcgen05.wait.st()

    error = refusal(use_after)

    gone = f"given back at {line('gives back')}"
    assert error.what == f"tensor memory that is not allocated: lanes 0..31, column 0, {gone}"
    assert str(error.at) == line("after that")


@pytest.mark.filterwarnings("ignore::tilewright.errors.TilewrightWarning")
def test_columns_beyond_the_request_are_not_there_though_hardware_gives_them() -> None:
    b = np.zeros((1, 128, 4), np.uint32)
    assert simulate(touched("both", column=12, columns=16), b) == []

    error = refusal(touched("both", column=13, columns=16), b)

    assert error.what.startswith("tensor memory beyond the 16 columns asked for at ")
    assert error.what.endswith("lanes 0..31, column 16; the last is 15")


@pytest.mark.filterwarnings("ignore::tilewright.errors.TilewrightWarning")
def test_without_checks_they_are_as_on_hardware() -> None:
    simulate(touched("both", column=13, columns=16), np.zeros((1, 128, 4), np.uint32), check="none")


def test_a_warp_reaches_its_own_quarter() -> None:
    error = refusal(touched("store only", row=32), np.zeros((1, 128, 4), np.uint32))

    assert error.what == "taddr is in lane 32; warp 0 reaches 0..31 and begins at lane 0"


def test_cells_that_nobody_has_written_are_uninitialised() -> None:
    error = refusal(touched("load only"), np.zeros((1, 128, 4), np.uint32))

    assert error.what.endswith("is uninitialised")
    assert "a store to B" in str(error.given)
    assert str(error.at) == line("looks")


def test_so_are_cells_that_are_taken_again() -> None:
    @T.prim_func
    def again(B: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        T.warp_id([1])
        lane_id = T.lane_id([32])
        addr = T.alloc_shared([1], "uint32")
        word = T.alloc_local((1,), "uint32")
        word[0] = T.uint32(7)
        for i in range(2):
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)
            T.cuda.warp_sync()
            if i == 0:
                T.ptx.tcgen05.st(addr[0], word[0], shape="32x32b", num=1)
                T.ptx.tcgen05.wait.st()
            T.ptx.tcgen05.ld(addr[0], word[0], shape="32x32b", num=1)
            T.ptx.tcgen05.wait.ld()
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)
            T.cuda.warp_sync()
        B[lane_id] = word[0]  # what the second round found

    error = refusal(again, np.zeros(32, np.uint32))

    assert error.what.endswith("is uninitialised")
    assert str(error.at) == line("what the second round found")


def halves(*, initialised: bool) -> Any:
    """Stores of packed halves, and a load that packs them again."""

    @T.prim_func
    def pack(A: T.Buffer((32, 2), "uint32"), B: T.Buffer((32, 2), "uint32")):
        T.cta_id([1])
        T.warp_id([1])
        lane_id = T.lane_id([32])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((2,), "uint32")
        for i in range(2):
            words[i] = A[lane_id, i]
        T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)
        T.cuda.warp_sync()
        T.ptx.tcgen05.st(addr[0], words[0], words[1], shape="32x32b", num=2, unpack=True)
        T.ptx.tcgen05.wait.st()
        if initialised:
            T.ptx.tcgen05.ld(addr[0], words[0], words[1], shape="32x32b", num=2, pack=True)
        else:
            T.ptx.tcgen05.ld(addr[0], words[0], words[1], shape="32x32b", num=2)
        T.ptx.tcgen05.wait.ld()
        for i in range(2):
            B[lane_id, i] = words[i]
        T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    return pack


def test_halves_of_registers_go_to_cells_of_their_own_and_come_back() -> None:
    a, b = np.random.default_rng(0).integers(0, 1 << 32, (32, 2), np.uint32), np.zeros((32, 2), np.uint32)

    assert simulate(halves(initialised=True), a, b) == []
    assert np.array_equal(a, b)


def test_the_upper_halves_of_such_cells_are_uninitialised() -> None:
    error = refusal(halves(initialised=False), np.zeros((32, 2), np.uint32), np.zeros((32, 2), np.uint32))

    assert error.what.endswith("is uninitialised")
