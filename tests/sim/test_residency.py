"""CTAs that wait for each other run at once as far as the target has room for them; launches that no GPU makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError, TargetError
from tilewright.isa import ARCHS, GPU_ARCHS, ctas_of_an_sm, resident_ctas

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 c) { ret; }
"""


def meeting(ctas: int, threads: int, shared: int = 32, cluster: int = 1) -> Any:
    """Every CTA counts itself, and waits until all have."""

    @T.prim_func
    def meet(count: T.Buffer((1,), "uint32")):
        if cluster > 1:
            T.cta_id_in_cluster([cluster])
        T.cta_id([ctas])
        tid = T.thread_id([threads])
        space = T.alloc_shared((shared,), "uint8")
        if tid == 0:
            space[0] = T.uint8(0)
            T.ptx.atom.add(count.ptr_to([0]), T.uint32(1), sem="acq_rel", scope="gpu")
            while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") < ctas:
                pass

    return meet


def run(kernel: Any, target: str = "sm_90a") -> None:
    tw.simulate(kernel, np.zeros(1, np.uint32), target=target, check="default")


@pytest.mark.parametrize(
    ("ctas", "threads", "shared", "target", "most"),
    [
        (280, 1024, 32, "sm_90a", 264),
        (600, 32, 200_000, "sm_90a", 132),
        (220, 1024, 32, "sm_80", 216),
        (143, 1024, 32, "sm_89", 142),
    ],
)
def test_ctas_that_wait_for_some_that_have_no_room_are_told(
    ctas: int, threads: int, shared: int, target: str, most: int
) -> None:
    with pytest.raises(SimulationError, match="nothing changes") as raised:
        run(meeting(ctas, threads, shared), target)
    assert f"{most} CTAs at once" in str(raised.value)
    run(meeting(most, threads, shared), target)  # as the hint says


def test_ctas_of_clusters_have_room_as_whole_clusters() -> None:
    run(meeting(260, 1024, cluster=4))
    with pytest.raises(SimulationError, match="nothing changes"):
        run(meeting(268, 1024, cluster=4))


def test_room_is_that_of_the_largest_gpu() -> None:
    assert resident_ctas(ARCHS["sm_90a"], 1024, 0, 1) == 2 * 132
    assert resident_ctas(ARCHS["sm_90a"], 128, 200_000, 1) == 132
    assert resident_ctas(ARCHS["sm_90a"], 32, 0, 1) == 32 * 132
    assert resident_ctas(ARCHS["sm_75"], 1024, 0, 1) == 72


def test_many_ctas_that_do_not_wait_all_run() -> None:
    @T.prim_func
    def write(out: T.Buffer((600,), "uint32")):
        cta = T.cta_id([600])
        tid = T.thread_id([32])
        space = T.alloc_shared((200_000,), "uint8")
        if tid == 0:
            space[0] = T.uint8(1)
            out[cta] = T.cast(space[0], "uint32")

    out = np.zeros(600, np.uint32)
    tw.simulate(write, out, target="sm_90a", check="default")
    assert out.all()


@pytest.mark.parametrize(("cluster", "target"), [(32, "sm_90a"), (64, "sm_100a"), (2, "sm_80")])
def test_a_cluster_that_no_gpu_launches_is_refused(cluster: int, target: str) -> None:
    with pytest.raises(TargetError, match=f"no {target} launches clusters of {cluster} CTAs"):
        run(meeting(cluster, 32, cluster=cluster), target)


def test_a_cluster_of_compiled_code_is_held_to_the_same() -> None:
    kernel = tw.load_ptx(PTX)["k"]
    kernel.simulate(np.zeros(1, np.uint32), grid=16, block=32, cluster=16, non_portable_cluster=True)
    with pytest.raises(TargetError, match="no sm_90a launches clusters of 32 CTAs"):
        kernel.simulate(np.zeros(1, np.uint32), grid=32, block=32, cluster=32)


def wide(settings):
    @T.prim_func
    def kernel(out: T.Buffer((9,), "int32")):
        T.func_attr(settings)
        rank = T.cta_id_in_cluster([9])
        T.cluster_id([1])
        tid = T.thread_id([32])
        if tid == 0:
            out[rank] = 1

    return kernel


def test_a_cluster_of_nine_is_refused_where_the_kernel_does_not_ask_for_it() -> None:
    out = np.zeros(9, np.int32)
    tw.simulate(wide({"non_portable_cluster": True}), out, target="sm_90a")
    assert out.all()
    with pytest.raises(TargetError, match=r'not portable(?s:.)*try: .*"non_portable_cluster": True'):
        tw.compile(wide({}), target="sm_90a")


HOST = "void start() { cudaFuncSetAttribute(k, cudaFuncAttributeNonPortableClusterSizeAllowed, 1); }"


def test_a_cluster_of_nine_in_a_file_needs_the_attribute_that_its_host_code_sets() -> None:
    text = "__global__ void __cluster_dims__(9, 1, 1) k(int* a) { a[blockIdx.x] = 1; }"
    tw.load_cu(f"{text}\n{HOST}", "sm_90a")["k"].simulate(np.zeros(9, np.int32), grid=9, block=1)
    kernel = tw.load_cu(text, "sm_90a")["k"]
    kernel.simulate(np.zeros(9, np.int32), grid=9, block=1, non_portable_cluster=True)
    with pytest.raises(TargetError, match=r"not portable(?s:.)*try: .*non_portable_cluster=True"):
        kernel.simulate(np.zeros(9, np.int32), grid=9, block=1)


@pytest.mark.parametrize("name", GPU_ARCHS)
def test_a_target_that_is_a_gpu_suggests_its_architecture(name: str) -> None:
    with pytest.raises(TargetError, match="unknown architecture") as raised:
        tw.compile(meeting(1, 32), target=name)
    assert f'target="{GPU_ARCHS[name]}"' in str(raised.value)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("threads", "shared_bytes", "registers", "limit", "most"),
    [(256, 0, 33, "registers", 6), (256, 0, 32, "registers", 8), (32, 32 << 10, 0, "shared memory", 6)],
)
def test_registers_are_given_by_eights_and_a_cta_has_a_kilobyte_for_the_driver(
    threads: int, shared_bytes: int, registers: int, limit: str, most: int
) -> None:
    assert ctas_of_an_sm(ARCHS["sm_90a"], threads, shared_bytes, registers)[limit] == most


def holding(ctas: int, registers: int, promised: int = 0) -> Any:
    """As `meeting`, with values in registers that every thread has before it waits and uses behind that. promised: how
    many CTAs of it a multiprocessor runs.
    """

    @T.prim_func
    def meet(count: T.Buffer((1,), "uint32"), a: T.Buffer((512 * registers,), "float32")):
        if promised:
            T.func_attr({"min_blocks": promised})
        T.cta_id([ctas])
        tid = T.thread_id([512])
        held = T.alloc_local((registers,), "float32")
        for i in T.unroll(registers):
            held[i] = a[i * 512 + tid]
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.atom.add(count.ptr_to([0]), T.uint32(1), sem="acq_rel", scope="gpu")
            while T.ptx.ld(count.ptr_to([0]), sem="acquire", scope="gpu") < ctas:
                pass
        T.cuda.cta_sync()
        for i in T.unroll(registers):
            a[i * 512 + tid] = held[i]

    return meet


def run_holding(ctas: int, registers: int, promised: int = 0) -> bool:
    """Was the kernel assembled, which takes longer than a small run?"""
    exe = tw.compile(holding(ctas, registers, promised), "sm_90a")
    exe.simulate(np.zeros(1, np.uint32), np.zeros(512 * registers, np.float32), check="none")
    return "assembly" in vars(exe)


@pytest.mark.parametrize("promised", [0, 1])
def test_registers_of_threads_count_where_ctas_wait_for_each_other(promised: int) -> None:
    with pytest.raises(SimulationError, match="no thread can go on") as raised:
        run_holding(133, 80, promised)
    assert "132 CTAs at once" in str(raised.value)
    assert run_holding(133, registers=16)


def test_nothing_is_assembled_for_as_many_ctas_as_launch_bounds_promise() -> None:
    assert not run_holding(132, registers=80)
    assert not run_holding(264, registers=16, promised=2)


CUDA = """
extern "C" __global__ void LIMIT k(unsigned* count, float* a) {
    float held[80];
    #pragma unroll
    for (int i = 0; i < 80; ++i) held[i] = a[i * blockDim.x + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) {}
    }
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 80; ++i) a[i * blockDim.x + threadIdx.x] = held[i];
}
"""


def test_a_launch_bound_that_takes_registers_away_makes_room_for_ctas_of_a_cu_file() -> None:
    given = np.zeros(1, np.uint32), np.zeros(256 * 80, np.float32)
    with pytest.raises(SimulationError, match="no thread can go on"):
        tw.load_cu(CUDA.replace("LIMIT", ""))["k"].simulate(*given, grid=265, block=256, check="none")
    given[0][:] = 0
    fits = tw.load_cu(CUDA.replace("LIMIT", "__launch_bounds__(256, 3)"))
    fits["k"].simulate(*given, grid=265, block=256, check="none")


def test_a_cu_file_without_launch_bounds_may_have_threads_with_more_registers_than_its_block_has_room_for() -> None:
    """One CTA of 512 threads has room for 128 registers each; what ptxas gave them here counts."""
    text = CUDA.replace("LIMIT", "").replace("80", "160")
    with pytest.raises(SimulationError, match="no thread can go on"):
        tw.load_cu(text)["k"].simulate(np.zeros(1, np.uint32), np.zeros(512 * 160, np.float32), grid=100, block=512,
                                       check="none")  # fmt: skip
