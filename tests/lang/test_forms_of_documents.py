"""Forms that kernels written for TIRx use, each with what it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.running import simulate
from tests.toys import ptx
from tilewright import T, Tx
from tilewright.errors import InstructionError, KernelError, LayoutError, SimulationError
from tilewright.layout import S, SwizzleLayout, TileLayout, laneid, mma_shared_layout, tx, warpid

TARGET = "sm_90a"
SWIZZLED = mma_shared_layout("float16", 3, (64, 64))


def filled(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).random(shape).astype(np.float16)


# The copy engine


@pytest.mark.parametrize("way", ["its own", "aligned less", "in bytes", "a view", "a pool", "not swizzled"])
def test_the_alignment_that_the_copy_engine_needs_is_found(way: str) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
        T.cta_id([1])
        tid = T.thread_id([128])
        first = T.alloc_shared((8,), "float16")
        if way == "its own":
            tile = T.alloc_buffer((64, 64), "float16", scope="shared", layout=SWIZZLED)
        elif way == "aligned less":
            tile = T.alloc_buffer((64, 64), "float16", scope="shared", layout=SWIZZLED, align=16)
        elif way == "in bytes":
            memory = T.alloc_buffer((2 * 8192,), "uint8", scope="shared.dyn")
            tile = T.decl_buffer((64, 64), "float16", data=memory.data, elem_offset=1024, scope="shared.dyn",
                                 layout=SWIZZLED)  # fmt: skip
        elif way == "a view":
            tile = T.alloc_shared((4096,), "float16").view(64, 64, layout=SWIZZLED)
        elif way == "a pool":
            pool = T.SMEMPool()
            pool.alloc((8,), "float16")
            tile = pool.alloc((64, 64), "float16", layout=SWIZZLED)
            pool.commit()
        else:
            tile = T.alloc_shared((64, 64), "float16")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            first[0] = A[0, 0]
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8192)
            Tx.copy_async(tile[:, :], A[:, :], dispatch="tma", mbar=bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B, tile)

    a, b = filled((64, 64)), np.zeros((64, 64), np.float16)
    assert simulate(kernel, a, b) == []
    assert np.array_equal(a, b)


def test_a_copy_with_oob_may_be_of_a_region_that_leaves_its_buffer() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((60, 64), "float16"), B: T.Buffer((64, 64), "float16")):
        T.cta_id([1])
        tid = T.thread_id([128])
        tile, bar = T.alloc_shared((64, 64), "float16"), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8192)
            Tx.copy_async(tile[:, :], A[0:64, :], dispatch="tma", mbar=bar.ptr_to([0]), oob="zero")
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B, tile)

    a, b = filled((60, 64)), np.ones((64, 64), np.float16)
    assert simulate(kernel, a, b) == []
    assert np.array_equal(b, np.pad(a, ((0, 4), (0, 0))))


def test_without_oob_such_a_region_is_refused() -> None:
    with pytest.raises(KernelError, match="lies outside of A"):

        @T.prim_func
        def kernel(A: T.Buffer((60, 64), "float16")):
            tile = T.alloc_shared((64, 64), "float16")
            Tx.copy_async(tile[:, :], A[0:64, :], dispatch="tma")


def test_oob_says_nothing_of_a_store() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16")):
        T.cta_id([1])
        tid = T.thread_id([128])
        tile = T.alloc_shared((64, 64), "float16")
        Tx.cta.fill(tile, 1.0)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if tid == 0:
            Tx.copy_async(A[:, :], tile[:, :], dispatch="tma", oob="zero")
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    a = np.zeros((64, 64), np.float16)
    assert simulate(kernel, a) == []
    assert a.all()


@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (2, 0, 1, 3), (1, 2, 0, 3)])
@pytest.mark.parametrize("by", ["view", "layout"])
def test_a_box_of_four_dimensions_may_be_transposed(perm: tuple[int, ...], by: str) -> None:
    shape = (2, 8, 4, 64)
    turned = tuple(shape[dim] for dim in perm)
    steps = [64 * int(np.prod(turned[place + 1 : 3])) for place in range(3)]
    tile_layout = TileLayout(S[shape : (*(steps[perm.index(dim)] for dim in range(3)), 1)])
    layout = T.ComposeLayout(SwizzleLayout(3, 3, 3), tile_layout)

    @T.prim_func
    def kernel(A: T.Buffer(shape, "float16"), B: T.Buffer(turned, "float16")):
        T.cta_id([1])
        tid = T.thread_id([128])
        bar = T.alloc_shared([1], "uint64")
        plain = T.alloc_shared(turned, "float16")
        tile = T.alloc_shared(shape, "float16", layout=layout)
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8192)
            if by == "view":
                Tx.copy_async(plain, A.permute(*perm), dispatch="tma", mbar=bar.ptr_to([0]))
            else:
                Tx.copy_async(tile, A, dispatch="tma", mbar=bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(B, plain if by == "view" else tile.permute(*perm))

    a, b = filled(shape), np.zeros(turned, np.float16)
    assert simulate(kernel, a, b) == []
    assert np.array_equal(b, a.transpose(perm))


def test_the_text_has_tensor_maps_as_the_driver_calls_them() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((64, 64), "float16")
        if tid == 0:
            Tx.copy_async(A, tile, dispatch="tma")

    assert "const __grid_constant__ CUtensorMap A_map" in tw.compile(kernel, TARGET).source("cuda")


# Scalars in objects


@T.meta_class
class Counter:
    """Counts from what it is given."""

    def __init__(self, x: Any) -> None:
        self.x = x

    @T.inline
    def step(self):
        self.x = self.x + 1

    def twice(self) -> None:
        self.x = self.x + 1
        self.x = self.x + 1


@pytest.mark.parametrize("given", ["an argument", "a scalar", "a scalar in memory"])
def test_a_field_that_was_passed_in_is_assigned_also_in_a_loop(given: str) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((2,), "int32"), n: T.int32):
        T.cta_id([1])
        tid = T.thread_id([32])
        v: T.int32 = n
        cell = T.local_scalar("int32")
        cell = n
        if given == "an argument":
            counter = T.meta_var(Counter(n))
        elif given == "a scalar":
            counter = T.meta_var(Counter(v))
        else:
            counter = T.meta_var(Counter(cell))
        for _ in range(3):
            counter.step()
        counter.twice()
        if tid == 0:
            A[0] = counter.x
            A[1] = n

    a = np.zeros(2, np.int32)
    assert simulate(kernel, a, 10) == []
    assert a.tolist() == [15, 10]


# Loops, buffers, regions


def test_a_loop_of_a_grid_may_begin_elsewhere() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((8, 8), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        for i, j in T.grid((2, 5), 4):
            A[i, j] = 10 * i + j

    a = np.full((8, 8), -1, np.int32)
    assert simulate(kernel, a) == []
    wanted = np.full((8, 8), -1, np.int32)
    wanted[2:5, :4] = 10 * np.arange(2, 5)[:, None] + np.arange(4)
    assert np.array_equal(a, wanted)


def test_a_loop_of_a_grid_has_two_ends_at_most() -> None:
    with pytest.raises(KernelError, match="grid does not take this extents"):

        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32")):
            for i in T.grid((0, 4, 2)):
                A[i] = 0


def test_annotations_of_other_compilers_change_nothing() -> None:
    @T.prim_func(persistent=True)  # type: ignore[call-overload]  # a keyword elsewhere
    def kernel(A: T.Buffer((4,), "int32")):
        T.cta_id([1])
        T.thread_id([1])
        for i in T.serial(4, annotations={"pragma_import_llvm": 1, "tirx.stage": "x"}):
            A[i] = i

    a = np.zeros(4, np.int32)
    assert simulate(kernel, a) == []
    assert a.tolist() == [0, 1, 2, 3]


def test_a_misspelt_annotation_is_refused_still() -> None:
    with pytest.raises(KernelError, match="no setting 'unrol'"):

        @T.prim_func
        def kernel(A: T.Buffer((4,), "int32")):
            for i in T.serial(4, annotations={"unrol": 2}):
                A[i] = i


def test_a_buffer_with_data_is_a_view() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([8])
        B = T.Buffer((8, 8), "float32", data=A.data)
        B[tid, tid] = 1.0

    a = np.zeros(64, np.float32)
    assert simulate(kernel, a) == []
    assert np.array_equal(a.reshape(8, 8), np.eye(8))


def test_a_region_has_regions_and_elements() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((16, 64), "float32"), B: T.Buffer((4, 32), "float32"), C: T.Buffer((2,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        part = A[4:12, 8:60]
        Tx.cta.copy(B[:, :], part[2:6, 4:36])
        if tid == 0:
            C[0] = part[1, 2]
            C[1] = A[2:9][3, 4]

    a = np.random.default_rng(1).random((16, 64)).astype(np.float32)
    b, c = np.zeros((4, 32), np.float32), np.zeros(2, np.float32)
    assert simulate(kernel, a, b, c) == []
    assert np.array_equal(b, a[6:10, 12:44])
    assert c.tolist() == [a[5, 10], a[5, 4]]


@pytest.mark.parametrize("index", ["A[4:12, 8:60][0, 0, 0]", "A[4:12, 8:60][::2]"])
def test_a_region_has_no_further_dimensions_and_no_steps(index: str) -> None:
    with pytest.raises(KernelError, match="A\\[4:12, 8:60\\]"):

        @T.prim_func
        def kernel(A: T.Buffer((16, 64), "float32")):
            if index.endswith("0]"):
                T.evaluate(A[4:12, 8:60][0, 0, 0])
            else:
                Tx.cta.fill(A[4:12, 8:60][::2], 0.0)


def test_the_default_layout_is_row_major() -> None:
    @T.prim_func
    def kernel(A_ptr: T.handle, B: T.Buffer((16, 8), "float32", layout="default")):
        A = T.match_buffer(A_ptr, (16, 8), "float32", layout="default")
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_buffer((16, 8), "float32", scope="shared", layout="default")
        wide = tile.view(8, 16, layout="default")
        Tx.cta.copy(tile, A)
        T.cuda.cta_sync()
        if tid < 8:
            for j in range(8):
                B[2 * tid, j] = wide[tid, j]
                B[2 * tid + 1, j] = wide[tid, 8 + j]

    a, b = np.random.default_rng(2).random((16, 8)).astype(np.float32), np.zeros((16, 8), np.float32)
    assert simulate(kernel, a, b) == []
    assert np.array_equal(a, b)


# Kernels for some values


def test_a_kernel_is_specialized_by_name_and_by_variable() -> None:
    @T.prim_func
    def kernel(A_ptr: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(A_ptr, (n,), "int32")
        T.cta_id([1])
        tid = T.thread_id([32])
        if tid < n:
            A[tid] = m

    by_name, by_variable = kernel.specialize(n=16), kernel.specialize({kernel.params[1]: 16, "m": 3})

    a = np.zeros(16, np.int32)
    assert simulate(by_name, a, 7) == []
    assert a.tolist() == [7] * 16
    assert simulate(by_variable, a) == []
    assert a.tolist() == [3] * 16
    assert by_name.buffers[0].shape == (16,)


@pytest.mark.parametrize("given", [{"k": 1}, {"A_ptr": 1}, {"n": "x"}])
def test_only_numbers_take_the_place_of_scalars(given: dict[str, Any]) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n

    with pytest.raises(KernelError, match=r"kernel\.specialize"):
        kernel.specialize(**given)


def test_a_jit_kernel_without_constants_is_specialized_too() -> None:
    @T.jit(persistent=True)  # type: ignore[call-overload]  # a keyword elsewhere
    def kernel(A: T.Buffer((4,), "int32")):
        T.cta_id([1])
        A[T.thread_id([4])] = 1

    a = np.zeros(4, np.int32)
    simulate(kernel.specialize(), a)
    assert a.tolist() == [1] * 4


# Layouts over threads


@pytest.mark.parametrize(
    ("outer", "whole", "shape", "outer_shape", "inner"),
    [
        (S[(4, 32) : (1 @ warpid, 1 @ laneid)], S[(128, 4) : (1 @ tx, 1)], (512,), (128,), S[4:1]),
        (S[(128,) : (1 @ tx,)], S[(4, 32, 4) : (1 @ warpid, 1 @ laneid, 1)], (512,), (128,), S[4:1]),
        (S[(4,) : (1 @ warpid,)], S[(128, 2) : (1 @ tx, 1)], (256,), (4,), S[(32, 2) : (1 @ laneid, 1)]),
        (S[(4,) : (32 @ tx,)], S[(4, 32) : (1 @ warpid, 1 @ laneid)], (128,), (4,), S[(32,) : (1 @ laneid,)]),
        (S[(2, 2) : (2 @ warpid, 1 @ warpid)], S[(2, 8, 2, 4) : (64 @ tx, 4 @ tx, 32 @ tx, 1 @ tx)], (16, 8), (2, 2),
         S[(8, 4) : (4 @ laneid, 1 @ laneid)]),
    ],
)  # fmt: skip
def test_the_inner_layout_is_found_across_threads_and_warps_with_lanes(
    outer: Any, whole: Any, shape: tuple[int, ...], outer_shape: tuple[int, ...], inner: Any
) -> None:
    found = TileLayout(outer).is_tile_outer(TileLayout(whole), shape, outer_shape)

    assert found == TileLayout(inner)
    inner_shape = tuple(all_ // part for all_, part in zip(shape, outer_shape, strict=True))
    assert found.is_tile_inner(TileLayout(whole), shape, inner_shape) is not None


def test_a_layout_of_other_threads_is_no_tile() -> None:
    assert TileLayout(S[(4,) : (1 @ warpid,)]).is_tile_outer(TileLayout(S[(64,) : (1 @ tx,)]), (64,), (4,)) is None
    with pytest.raises(LayoutError):
        TileLayout(S[(4,) : (1 @ warpid,)]).is_tile_outer(TileLayout(S[(64,) : (1 @ tx,)]), (64, 1), (4,))


# What these forms refuse


def test_a_region_begins_before_its_buffer_only_where_the_call_fills_what_is_outside() -> None:
    with pytest.raises(KernelError, match="lies outside of A") as refused:

        @T.prim_func
        def kernel(A: T.Buffer((60, 64), "float16")):
            tile = T.alloc_shared((10, 64), "float16")
            Tx.cta.copy(tile[:, :], A[-1:9, :])

    assert refused.value.hint == "fill=0, the value of what is outside"


def test_an_end_counted_from_behind_is_no_index() -> None:
    with pytest.raises(KernelError, match="index -8 is outside A"):

        @T.prim_func
        def kernel(A: T.Buffer((60, 64), "float16")):
            Tx.cta.fill(A[-8:, :], 0.0)


def test_a_misspelt_setting_of_a_function_is_refused_still() -> None:
    with pytest.raises(KernelError, match=r"no setting 'tirx\.noalais'"):

        @T.prim_func
        def kernel(A: T.Buffer((4,), "int32")):
            T.func_attr({"tirx.noalais": True})


def test_a_tile_that_zero_does_not_read_is_as_large() -> None:
    with pytest.raises(KernelError, match="as large as what is written"):

        @T.prim_func
        def kernel(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 8), "float32")):
            Tx.cta.zero(A, B)


def test_an_assertion_of_the_device_fails_with_its_message() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        T.cta_id([1])
        tid = T.thread_id([4])
        T.cuda.device_assert(A[tid] > 0, "only positive numbers")

    simulate(kernel, np.ones(4, np.int32))
    with pytest.raises(SimulationError, match="device_assert failed: only positive numbers"):
        simulate(kernel, np.zeros(4, np.int32))


@pytest.mark.parametrize("bounds", [(32,), (1, 32, "threadIdx.x"), ("threadIdx.x",), (8, "threadIdx.x", "threadIdx.y")])
def test_a_thread_binding_has_an_extent_and_one_axis(bounds: tuple[Any, ...]) -> None:
    with pytest.raises(KernelError, match="counts from 0 along one axis"):

        @T.prim_func
        def kernel(A: T.Buffer((32,), "int32")):
            for tx in T.thread_binding(*bounds):
                A[tx] = tx


def test_a_in_registers_is_not_transposed() -> None:
    with pytest.raises(InstructionError, match="A in registers is not transposed"):
        ptx.wgmma.mma_async.rs(0, M=64, N=8, K=16, in_dtype="float16", transA=True)


SHAPE = (64, 32, 128, 64, 8, 1, 1)  # two sizes, a stride, a box, element strides


@pytest.mark.parametrize(
    ("name", "fields", "what"),
    [
        ("runtime.other", (), "calls the host"),
        ("runtime.cuTensorMapEncodeTiled", ("float16", 2), "takes the fields of a map"),
        ("runtime.cuTensorMapEncodeTiled", ("float16", 2, "data", *SHAPE, 1, 3, 0, 0), "has no interleave"),
        ("runtime.cuTensorMapEncodeTiled", ("float4_e2m1fn", 2, "data", *SHAPE, 0, 3, 0, 0), "share bytes"),
        ("runtime.cuTensorMapEncodeTiled", ("float16", 2, 5, *SHAPE, 0, 3, 0, 0), "is of an argument"),
    ],
)
def test_the_host_encodes_maps_of_arguments_alone(name: str, fields: tuple[Any, ...], what: str) -> None:
    with pytest.raises(KernelError, match=what):

        @T.prim_func
        def kernel(A: T.Buffer((32, 64), "float16")):
            m: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(name, m, *[A.data if field == "data" else field for field in fields])


def test_a_tensor_map_is_used_once_it_is_encoded() -> None:
    with pytest.raises(KernelError, match="m is no tensor map yet"):

        @T.prim_func
        def kernel(A: T.Buffer((32, 64), "float16")):
            m: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.evaluate(T.address_of(m))


@pytest.mark.parametrize("part", [(slice(4, 8),), (3,), (0, slice(0, 70))])
def test_a_row_is_a_region_of_full_rank_and_its_parts_lie_in_it(part: tuple[Any, ...]) -> None:
    with pytest.raises(KernelError, match=r"a part of `A\[2:3, 0:64\]` lies outside of it"):

        @T.prim_func
        def kernel(A: T.Buffer((16, 64), "float32")):
            Tx.cta.fill(A[2][part], 0.0)


@pytest.mark.parametrize(
    ("way", "fits", "leaves", "what"),
    [
        ("load", 8, 9, r"load reads outside of A\[2:14, 0:64\]"),
        ("store", 8, -1, r"store writes outside of B\[2:14, 0:64\]"),
        ("nested", 1, 2, r"load reads outside of A\[6:11, 0:64\]"),
        ("to n", 8, 7, r"load reads outside of A\[2:n \+ 2, 0:64\]"),
        ("pointer", 8, 9, r"ptx.ld reads outside of A\[2:14, 0:64\]"),
    ],
)
def test_an_element_of_a_region_lies_in_it_at_run_time_too(way: str, fits: int, leaves: int, what: str) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16, 64), "float32"), n: T.int32):
        T.cta_id([1])
        t = T.thread_id([32])
        if way == "load":
            B[0, t] = A[2:14][n + 3, t]
        elif way == "store":
            B[2:14][n, t] = 1.0
        elif way == "nested":
            B[0, t] = A[2:14][4:9][n + 3, t]
        elif way == "to n":
            B[0, t] = A[2 : 2 + n][7, t]
        else:
            pointer: T.let = T.address_of(A[2:14][n + 3, t])
            B[0, t] = T.ptx.ld(pointer, type="f32")

    check_part(kernel, fits, leaves, what)


def check_part(kernel: Any, fits: int, leaves: int, what: str) -> None:
    a, b = np.ones((2, 16, 64), np.float32)
    assert not simulate(kernel, a, b, fits)
    with pytest.raises(SimulationError, match=what):
        simulate(kernel, a, b, leaves)


@pytest.mark.parametrize(
    ("way", "leaves", "what"),
    [
        ("copy", 9, r"Tx.cta.copy reads outside of A\[2:14, 0:64\]"),
        ("clipped", 9, r"Tx.cta.copy reads outside of A\[2:14, 0:64\]"),
        ("fill", -1, r"Tx.cta.fill writes outside of B\[2:14, 0:64\]"),
        ("tma", 9, r"Tx.copy_async goes outside of A\[2:14, 0:64\]"),
    ],
)
def test_a_tile_in_a_region_lies_in_it_at_run_time_too(way: str, leaves: int, what: str) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16, 64), "float32"), n: T.int32):
        T.cta_id([1])
        t = T.thread_id([32])
        tile, bar = T.alloc_shared((4, 64), "float32", align=128), T.alloc_shared([1], "uint64")
        if way == "copy":
            Tx.cta.copy(B[0:4], A[2:14][n : n + 4])
        elif way == "clipped":
            Tx.cta.copy(B[0:4], A[2:14][n : n + 4], clip=True)
        elif way == "fill":
            Tx.cta.fill(B[2:14][n : n + 4], 1.0)
        else:
            if t == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.cuda.cta_sync()
            if t == 0:
                Tx.copy_async(tile[:, :], A[2:14][n : n + 4], mbar=bar.ptr_to([0]), dispatch="tma")
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)

    check_part(kernel, 8, leaves, what)


@pytest.mark.parametrize("mode", range(4))
def test_parts_of_regions_with_steps_count_what_the_kernel_counts(mode: int) -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16"), B: T.Buffer((8, 64), "float16"), n: T.int32):
        T.cta_id([1])
        t = T.thread_id([64])
        tile = T.alloc_shared((64, 64), "float16", layout=mma_shared_layout("float16", mode, (64, 64)))
        Tx.cta.copy(tile, A)
        T.cuda.cta_sync()
        Tx.cta.copy(B[0:4], tile[2::4][n : n + 4])
        Tx.cta.copy(B[4:6, 0:4], tile[3::4, ::2][n : n + 2, 4:8])
        B[6, t] = A[1::2][n, t]

    a, b = filled((64, 64)), np.zeros((8, 64), np.float16)
    assert not simulate(kernel, a, b, 5)
    assert np.array_equal(b[:4], a[2::4][5:9])
    assert np.array_equal(b[4:6, :4], a[3::4, ::2][5:7, 4:8])
    assert np.array_equal(b[6], a[1::2][5])
    with pytest.raises(SimulationError, match=r"Tx.cta.copy reads outside of tile\[2::4, :\]"):
        simulate(kernel, a, b, 13)


def test_a_region_with_steps_has_the_name_that_the_kernel_gives_it() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
        T.cta_id([1])
        T.thread_id([64])
        Tx.cta.copy(B[0:20], A[::2])

    with pytest.raises(tw.TilewrightError, match=r"Tx.cta.copy\(B\[0:20, 0:64\], A\[::2, :\]\)") as error:
        tw.compile(kernel, TARGET)
    assert "_steps" not in str(error.value)
