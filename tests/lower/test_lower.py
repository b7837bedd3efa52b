"""The lowered stage: flat storage, special registers, one offset per access."""

from __future__ import annotations

import pytest

from tilewright import T
from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Bind, DeclBuffer, Kernel, ScopeId, Store, expressions, statements
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout
from tilewright.lower import lower


def stores(kernel: Kernel) -> list[str]:
    """Every store of the lowered kernel as text, ``A[index] = value``."""
    return [f"{s.place} = {s.value}" for s in statements(lower(kernel).body) if isinstance(s, Store)]


def test_scope_ids_become_special_registers() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((4, 128), "int32")):
        bx = T.cta_id([4])
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        A[bx, warp * 32 + lane] = lane

    assert stores(kernel) == ["A[T.ctaid.x * 128 + T.warpid * 32 + T.laneid] = T.laneid"]
    assert not any(isinstance(s, ScopeId) for s in statements(lower(kernel).body))


def test_the_launch_follows_from_the_scope_ids() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((8, 256), "int32")):
        bx, by = T.cta_id([4, 2])
        wg = T.warpgroup_id([2])
        tid = T.thread_id_in_wg([128])
        A[by * 4 + bx, wg * 128 + tid] = 0

    launch = lower(kernel).launch

    assert launch is not None
    assert (launch.grid, launch.threads, launch.shared_bytes) == ((4, 2, 1), 256, 0)


def test_the_size_of_a_symbolic_buffer_is_written_in_its_simplest_form() -> None:
    @T.prim_func
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n,), "int32")
        B = T.match_buffer(B_ptr, (16, n), "int32")
        T.cta_id([1])
        T.lane_id([32])
        A[0] = B[0, 0]

    assert [str(buffer.shape[0]) for buffer in lower(kernel).buffers] == ["n", "n * 16"]


def test_a_swizzled_index_becomes_an_exclusive_or() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float16")):
        T.cta_id([1])
        lane = T.lane_id([32])
        A_smem = T.alloc_buffer((8, 64), "float16", scope="shared", layout=mma_shared_layout("float16", 3, (8, 64)))
        A_smem[lane % 8, 8] = A[lane]

    (text,) = stores(kernel)

    assert "^" in text


def test_a_view_of_the_same_dtype_is_an_offset_into_what_it_views() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        A_smem = T.alloc_shared((64,), "float32")
        upper = T.decl_buffer((32,), "float32", data=A_smem.ptr_to([32]), scope="shared")
        upper[lane] = A[lane]

    assert stores(kernel) == ["A_smem[T.laneid + 32] = A[T.laneid]"]
    assert not any(isinstance(s, DeclBuffer) for s in statements(lower(kernel).body))


def test_a_view_of_another_dtype_stays_a_buffer_over_the_same_bytes() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        R = T.alloc_local((2,), "float16")
        R[0] = T.float16(1)
        R[1] = T.float16(2)
        words = R.view("uint32")
        A[lane] = words[0]

    lowered = lower(kernel)
    (view,) = (s.buffer for s in statements(lowered.body) if isinstance(s, DeclBuffer))

    assert (view.dtype, view.shape, str(view.data)) == ("uint32", (1,), "T.address_of(R[0])")


def test_a_pool_gives_views_of_one_arena() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        X = pool.alloc((32,), "float16")
        Y = pool.alloc((32,), "float32", align=128)
        pool.commit()
        X[lane] = T.float16(0)
        Y[lane] = A[lane]

    lowered = lower(kernel)
    views = {s.buffer.name: str(s.buffer.data) for s in statements(lowered.body) if isinstance(s, DeclBuffer)}

    assert lowered.launch is not None
    assert lowered.launch.shared_bytes == 256
    assert [text.rpartition("[")[2] for text in views.values()] == ["0])", "128])"]
    assert stores(kernel) == ["X[T.laneid] = T.float16(0.0)", "Y[T.laneid] = A[T.laneid]"]


def test_a_view_that_starts_inside_an_element_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        R = T.alloc_local((4,), "float32")
        halves = T.decl_buffer((2,), "float16", data=R.data, elem_offset=1, scope="local")
        halves[0] = T.float16(0)
        A[lane] = R[0]

    with pytest.raises(KernelError, match="halves starts inside an element"):
        lower(kernel)


def test_registers_keep_only_what_one_thread_holds() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32, 8), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        R = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
        R[lane, 3] = A[lane, 3]

    (alloc,) = (s.buffer for s in statements(lower(kernel).body) if isinstance(s, AllocBuffer))

    assert alloc.shape == (8,)
    assert stores(kernel) == ["R[3] = A[T.laneid * 8 + 3]"]


def test_a_scalar_that_nothing_assigns_again_is_a_let() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        once = lane * 2
        often = lane
        often += once
        A[lane] = often

    binds = {s.var.name: s.mutable for s in statements(lower(kernel).body) if isinstance(s, Bind)}

    assert binds == {"once": False, "often": True}


def test_symbolic_extents_stay_symbolic() -> None:
    @T.prim_func
    def kernel(A_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n, 32), "float32")
        bx = T.cta_id([n])
        lane = T.lane_id([32])
        A[bx, lane] = T.float32(0)

    lowered = lower(kernel)

    assert [str(symbol) for symbol in lowered.symbols] == ["n"]
    assert str(lowered.launch and lowered.launch.grid[0]) == "n"
    assert stores(kernel) == ['A[T.cast(T.ctaid.x, "int64") * 32 + T.cast(T.laneid, "int64")] = 0.0']


def test_nothing_of_the_tile_stage_is_left() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((2, 16), "float16")):
        T.device_entry()
        T.cta_id([1])
        lane = T.lane_id([32])
        row = lane // 16
        A[row, lane % 16] = T.float16(0)

    lowered = lower(kernel)
    buffers = {node.buffer for s in statements(lowered.body) for node in expressions(s) if hasattr(node, "buffer")}

    assert lowered.stage == "lowered"
    assert all(buffer.layout is None for buffer in buffers)


def test_too_much_shared_memory_is_an_error_at_the_line_of_the_buffer() -> None:
    @T.prim_func
    def large(A: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        A_smem = T.alloc_shared((1 << 20,), "float32")
        A_smem[lane] = A[lane]

    with pytest.raises(KernelError, match="more shared memory than a CTA can have") as caught:
        lower(large)

    assert caught.value.at is not None
    assert "T.alloc_shared" in "".join(caught.value.at.excerpt())
