"""Tensor memory in the kernel language: names for what an allocation hands out, and what may be done with them."""

# ruff: noqa: F841  the names of a kernel are read by its parser

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Buffer, DeclBuffer, Kernel
from tilewright.layout import R, S, TCol, TileLayout, TLane, laneid, tcgen05_atom_layout

ROWS = S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]


def declared(made: Kernel, name: str) -> Buffer:
    buffers = [stmt.buffer for stmt in made.body if isinstance(stmt, AllocBuffer | DeclBuffer)]
    return next(buffer for buffer in buffers if buffer.name == name)


@pytest.mark.parametrize("how", ["element", "buffer", "list", "number"])
def test_the_address_is_an_element_of_shared_memory_or_a_number(how: str) -> None:
    @T.prim_func
    def k():
        addr = T.alloc_shared([1], "uint32")
        where = T.meta_var({"element": addr[0], "buffer": addr, "list": [addr[0]], "number": 0}[how])
        tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=where, layout=ROWS)

    assert str(declared(k, "tmem").allocated_addr) == ("0" if how == "number" else "addr[0]")


def test_a_fragment_has_the_layout_of_its_shape() -> None:
    @T.prim_func
    def k():
        regs = T.alloc_tcgen05_ldst_frag("16x256b", (64, 32), "float32")

    assert declared(k, "regs").space == "local"
    assert declared(k, "regs").layout == tcgen05_atom_layout("16x256b", (64, 32), "float32")


def test_views_of_tensor_memory_are_copied_like_it() -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.warp_id([4])
        addr = T.alloc_shared([1], "uint32")
        regs = T.alloc_buffer((32, 4), "uint32", scope="local", layout=S[(32, 4) : (1 @ laneid, 1)])
        tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=addr[0], layout=ROWS)
        words = tmem.view("uint32")
        Tx.wg.copy_async(regs[:, :], words[:, :])

    assert tw.compile(k, "sm_100a").report.entries[0].plan == "tcgen05.ld 32x32b.x4, 1 instruction per warp"


def test_sub_word_columns_count_elements() -> None:
    @T.prim_func
    def k():
        T.cta_id([1])
        T.warp_id([4])
        addr = T.alloc_shared([1], "uint32")
        regs = T.alloc_buffer((32, 8), "float16", scope="local", layout=S[(32, 8) : (1 @ laneid, 1)])
        layout = TileLayout(S[(32, 64) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
        tmem = T.decl_buffer([32, 64], "float16", scope="tmem", allocated_addr=addr[0], layout=layout)
        Tx.wg.copy_async(regs[:, :], tmem[:, 16:24])

    assert "65536 + 8, T.address_of(regs[0])" in tw.compile(k, "sm_100a").source("lowered")


def refused(make: object) -> KernelError:
    with pytest.raises(KernelError, match="tmem") as raised:
        make()  # type: ignore[operator]
    assert raised.value.at is not None
    return raised.value


def test_an_element_of_tensor_memory_is_no_threads() -> None:
    def load() -> None:
        @T.prim_func
        def k(A: T.Buffer((4,), "uint8")):
            T.thread_id([32])
            addr = T.alloc_shared([1], "uint32")
            tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=addr[0], layout=ROWS)
            A[0] = tmem[3, 4]

        tw.compile(k, "sm_100a")

    def store() -> None:
        @T.prim_func
        def k(A: T.Buffer((4,), "uint8")):
            T.thread_id([32])
            addr = T.alloc_shared([1], "uint32")
            tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=addr[0], layout=ROWS)
            tmem[3, 4] = A[0]

        tw.compile(k, "sm_100a")

    for make in (load, store):
        error = refused(make)
        assert error.what == "tmem is in tensor memory, which threads do not load from or store to"
        assert "Tx.copy_async" in str(error.allowed)
        assert "Tx.wg.copy_async(R[:, :], tmem[:, :])" in str(error.hint)


@pytest.mark.parametrize("points", [True, False])
def test_tensor_memory_is_named_by_an_address(points: bool) -> None:
    def make() -> None:
        @T.prim_func
        def k():
            storage = T.alloc_shared((512,), "uint8")
            data = T.meta_var(storage.data if points else None)
            tmem = T.decl_buffer([32, 16], "uint8", data=data, scope="tmem", layout=ROWS)

    error = refused(make)
    assert (error.given, error.hint) == ("no allocated_addr", None)


@pytest.mark.parametrize("layout", [None, S[32, 16], S[(32, 16) : (1 @ TLane, 1)]])
def test_its_layout_is_in_lanes_and_columns(layout: TileLayout | None) -> None:
    def make() -> None:
        @T.prim_func
        def k():
            addr = T.alloc_shared([1], "uint32")
            tmem = T.decl_buffer([32, 16], "uint8", scope="tmem", allocated_addr=addr[0], layout=layout)

    error = refused(make)
    assert error.given == ("none" if layout is None else str(layout))
    assert error.hint == "S[(rows, columns) : (1 @ TLane, 1 @ TCol)], one row per lane"


def test_there_are_512_columns_of_32_bits() -> None:
    def make(columns: int, kind: str) -> Kernel:
        @T.prim_func
        def k():
            addr = T.alloc_shared([1], "uint32")
            layout = S[(128, columns) : (1 @ TLane, 1 @ TCol)]
            tmem = T.decl_buffer((128, columns), kind, scope="tmem", allocated_addr=addr[0], layout=layout)

        return k

    assert declared(make(1024, "float16"), "tmem").shape == (128, 1024)
    error = refused(lambda: make(1025, "float16"))
    assert (error.given, error.allowed) == ("1025 elements of float16 in a lane", "512 columns of 32 bits")


def test_a_fragment_has_two_constant_extents() -> None:
    with pytest.raises(KernelError, match="a fragment of tensor memory has rows and columns"):

        @T.prim_func
        def k():
            regs = T.alloc_tcgen05_ldst_frag("32x32b", (128,), "float32")
