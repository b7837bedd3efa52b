"""Calls on tensors of torch and CuPy: streams, graphs, devices, torch.compile, errors, overhead's invariants."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.gpu.hardware import library
from tilewright import T, Tx
from tilewright.errors import ArgumentError, TargetError, TilewrightWarning

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # what torch warns of is its own affair


@pytest.fixture(scope="module")
def cupy() -> ModuleType:
    return library("cupy")


def scale(kind: str = "float32") -> Any:
    @T.prim_func
    def scale_kernel(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n,), kind)
        B = T.match_buffer(B_ptr, (n,), kind)
        T.assume(n % 128 == 0)
        bx = T.cta_id([n // 128])
        i = T.thread_id([128])
        B[bx * 128 + i] = T.cast(T.cast(A[bx * 128 + i], "float32") * s, kind)

    return scale_kernel


@T.prim_func
def big_shared(A: T.Buffer((50000,), "float32"), B: T.Buffer((50000,), "float32")):
    T.cta_id([1])
    i = T.thread_id([250])
    tile = T.alloc_buffer((50000,), "float32", scope="shared.dyn")
    for j in range(200):
        tile[j * 250 + i] = A[j * 250 + i]
    T.cuda.cta_sync()
    for j in range(200):
        B[j * 250 + i] = tile[49999 - (j * 250 + i)]


@T.prim_func
def clustered(out: T.Buffer((64,), "int32")):
    cluster = T.cluster_id([8])
    rank = T.cta_id_in_cluster([8])
    i = T.thread_id([32])
    T.cuda.cluster_sync()
    if i == 0:
        out[cluster * 8 + rank] = cluster * 100 + rank


@T.prim_func
def out_of_bounds(A: T.Buffer((32,), "float32"), i: T.int32):
    T.cta_id([1])
    t = T.thread_id([32])
    A[t + i] = 1.0


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float64"])
def test_torch_tensors_of_every_float(torch: Any, kind: str) -> None:
    a = torch.randn(1024, device="cuda").to(getattr(torch, kind))
    b = torch.zeros_like(a)

    tw.compile(scale(kind))(a, b, 2.0)

    assert torch.equal(b.float(), (a.float() * 2).to(b.dtype).float())


def test_cupy_arrays(cupy: Any) -> None:
    a, b = cupy.random.random(1024, dtype=cupy.float32), cupy.zeros(1024, cupy.float32)
    exe = tw.compile(scale())
    stream = cupy.cuda.Stream(non_blocking=True)

    for factor in (2.0, 3.0):
        exe(a, b, factor)
        assert (cupy.asnumpy(b) == cupy.asnumpy(a) * np.float32(factor)).all()
    with stream:
        exe(a, b, 4.0)
    stream.synchronize()
    assert (cupy.asnumpy(b) == cupy.asnumpy(a) * np.float32(4)).all()


class OnlyDLPack:
    """A tensor that shows nothing but its capsule."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> object:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.tensor.__dlpack_device__()
        return found


class OnlyInterface:
    """An array that shows nothing but the CUDA array interface."""

    def __init__(self, tensor: Any) -> None:
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_any_dlpack_object(torch: Any, kind: str) -> None:
    a = torch.randn(1024, device="cuda", dtype=getattr(torch, kind))
    b = torch.zeros_like(a)

    tw.compile(scale(kind))(OnlyDLPack(a), OnlyDLPack(b), 2.0)

    torch.cuda.synchronize()
    assert torch.equal(b, a * 2)


def test_any_object_with_the_cuda_array_interface(torch: Any) -> None:
    a, b = torch.randn(1024, device="cuda"), torch.zeros(1024, device="cuda")

    tw.compile(scale())(OnlyInterface(a), OnlyInterface(b), 2.0)

    torch.cuda.synchronize()
    assert torch.equal(b, a * 2)


def test_a_launch_waits_for_what_is_in_its_stream(torch: Any) -> None:
    exe = tw.compile(scale())
    a, b = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    exe(a, b, 1.0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())

    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        a.fill_(3.0)
        exe(a, b, 2.0)
        done = torch.cuda.Event()
        done.record()
    finished_at_once = done.query()
    stream.synchronize()

    assert not finished_at_once
    assert (b == 6).all()


def test_a_graph_replays_the_launch(torch: Any) -> None:
    exe = tw.compile(scale())
    a, b = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()

    with torch.cuda.graph(graph):  # the first call: even loading the kernel is allowed here
        exe(a, b, 2.0)
        exe(b, b, 2.0)
    before = float(b.sum())
    a.fill_(5.0)
    graph.replay()
    torch.cuda.synchronize()

    assert before == 0
    assert (b == 20).all()


def test_a_thread_that_never_used_the_gpu_launches(torch: Any) -> None:
    exe = tw.compile(scale())
    a, b = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
    exe(a, b, 1.0)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            exe(a, b, 7.0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()

    assert not failures
    assert (b == 7).all()


def test_many_threads_at_once_mix_nothing_up(torch: Any) -> None:
    exe = tw.compile(scale())
    ones = torch.ones(1024, device="cuda")
    outs = [torch.zeros(1024, device="cuda") for _ in range(8)]

    def work(number: int) -> None:
        for _ in range(300):
            exe(ones, outs[number], float(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()

    assert [float(out[0]) for out in outs] == [float(number) for number in range(8)]
    assert all((out == out[0]).all() for out in outs)


def test_shared_memory_over_48_kib(torch: Any) -> None:
    a, b = torch.randn(50000, device="cuda"), torch.zeros(50000, device="cuda")

    tw.compile(big_shared)(a, b)

    assert torch.equal(b, a.flip(0))


def test_clusters(torch: Any) -> None:
    out = torch.zeros(64, dtype=torch.int32, device="cuda")

    tw.compile(clustered)(out)

    assert out.tolist() == [cluster * 100 + rank for cluster in range(8) for rank in range(8)]


def test_arguments_are_refused_as_by_the_simulator(torch: Any) -> None:
    exe = tw.compile(scale())
    a = torch.ones(1024, device="cuda")
    exe(a, torch.zeros_like(a), 1.0)

    wrong = [
        ((a.half(), a, 1.0), "dtype"),
        ((a[:1000], a[:1000], 1.0), "assumption"),
        ((a[1:513], a[:512], 1.0), "aligned"),
        ((a[::2], a[:512], 1.0), "C-contiguous"),
        ((a, a[:512], 1.0), "disagree"),
        ((a, a.cpu(), 1.0), "different devices"),
        ((a, a), "takes 3 arguments"),
        ((a, a, "x"), "is a number"),
    ]
    for args, message in wrong:
        with pytest.raises(ArgumentError, match=message):
            exe(*args)


def test_every_gpu_runs_what_is_on_it(torch: Any) -> None:
    exe = tw.compile(scale())
    for index in range(torch.cuda.device_count()):
        a = torch.full((1024,), float(index + 1), device=f"cuda:{index}")
        b = torch.zeros_like(a)
        for _ in range(2):
            exe(a, b, 2.0)
        torch.cuda.synchronize(index)
        assert (b == 2 * (index + 1)).all()
    assert torch.cuda.current_device() == 0


def test_code_for_another_architecture_is_refused(torch: Any) -> None:
    a = torch.ones(1024, device="cuda")

    with pytest.raises(TargetError, match=r"compiled for sm_100a, which cuda:0"):
        tw.compile(scale(), target="sm_100a")(a, a, 1.0)


def test_cuda_tensors_may_be_simulated(torch: Any) -> None:
    a, b = torch.randn(1024, device="cuda"), torch.zeros(1024, device="cuda")

    tw.compile(scale())(a, b, 2.0, on="sim")

    assert torch.equal(b, a * 2)


def test_cpu_tensors_warn_once(torch: Any) -> None:
    exe = tw.compile(scale())
    a = torch.ones(128)
    tw.compiler._warn_of_idle_gpu.cache_clear()

    with pytest.warns(TilewrightWarning, match="run on the simulator, though this machine has a GPU"):
        exe(a, a, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TilewrightWarning)
        exe(a, a, 1.0)
        exe(a, a, 1.0, on="sim")


def test_an_operator_of_torch_compiles(torch: Any) -> None:
    operator = tw.torch_op("tilewright_test::scale", tw.compile(scale()), mutates=("B",))

    def doubled(x: Any) -> Any:
        y = torch.empty_like(x)
        operator(x, y, 2.0)
        return y + 1

    x = torch.randn(1024, device="cuda")
    assert torch.equal(doubled(x), x * 2 + 1)
    assert torch.equal(torch.compile(doubled, fullgraph=True)(x), x * 2 + 1)
    torch.library.opcheck(operator, (x, torch.zeros_like(x), 2.0))


BROKEN = """
import torch, tilewright as tw
from tests.gpu.test_runtime import out_of_bounds
exe = tw.compile(out_of_bounds)
a = torch.zeros(32, device="cuda")
exe(a, 0)
exe(a, 1 << 29)
try:
    torch.cuda.synchronize()
except Exception:
    pass
try:
    exe(a, 0)
except tw.TilewrightError as error:
    print(error)
"""


def test_a_broken_context_is_reported_with_what_to_do(torch: Any) -> None:
    """In a process of its own, which it breaks."""
    root = Path(__file__).parents[2]

    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, cwd=root, check=False)

    assert "takes no more work" in done.stdout, done.stderr
    assert "CUDA_ERROR_" in done.stdout  # which one depends on what lies at that address
    assert "tw.simulate" in done.stdout


def test_a_tile_kernel_on_torch_tensors(torch: Any) -> None:
    from tilewright.layout import S, laneid

    @T.prim_func
    def through_registers(A: T.Buffer((8, 16), "float16"), B: T.Buffer((8, 16), "float16")):
        T.cta_id([1])
        T.lane_id([32])
        tile = T.alloc_shared((8, 16), "float16")
        fragment = S[(8, 2, 4, 2) : (4 @ laneid, 2, 1 @ laneid, 1)]
        R = T.alloc_buffer((8, 16), "float16", scope="local", layout=fragment)
        Tx.warp.copy(tile[:, :], A[:, :])
        T.cuda.cta_sync()
        Tx.warp.copy(R[:, :], tile[:, :])
        Tx.warp.copy(B[:, :], R[:, :])

    exe = tw.compile(through_registers)
    a = torch.randn(8, 16, device="cuda", dtype=torch.float16)
    b = torch.zeros_like(a)

    exe(a, b)

    assert torch.equal(a, b)
    assert "ldmatrix" in exe.source("cuda")
