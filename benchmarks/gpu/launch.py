"""The host's time for a launch: one small kernel, called from Python in six ways that take turns."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_char, c_void_p
from struct import Struct, pack_into
from typing import Any

from benchmarks.gpu.measure import ARCH, Claim, Table, host_microseconds
from tilewright.cuda import driver

SIZE, THREADS = 1024, 128
CALLS, ROUNDS = 200, 60  # so few calls at a time that the queue never fills


def ours(a: Any, b: Any) -> Callable[[], object]:
    import tilewright as tw
    from benchmarks.gpu.scale import kernel

    exe = tw.compile(kernel, target=ARCH)
    return lambda: exe(a, b, 2.0)


def mapped(a: Any, b: Any) -> Callable[[], object]:
    """With a tensor map of ``a``, which the launch has made before."""
    import tilewright as tw
    from benchmarks.gpu.scale import by_map

    exe = tw.compile(by_map, target=ARCH)
    return lambda: exe(a, b, 2.0)


def triton(a: Any, b: Any) -> Callable[[], object]:
    from benchmarks.gpu.scale_triton import scale

    return lambda: scale[(SIZE // THREADS,)](a, b, 2.0, SIZE, BLOCK=THREADS)


SOURCE = """
extern "C" __global__ void scale(const float* a, float* b, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * s;
}
"""


def cupy(a: Any, b: Any) -> Callable[[], object]:
    import cupy
    import numpy as np

    kernel = cupy.RawKernel(SOURCE, "scale")
    x, y = cupy.asarray(a), cupy.asarray(b)
    factor, size = np.float32(2), np.int32(SIZE)
    return lambda: kernel((SIZE // THREADS,), (THREADS,), (x, y, factor, size))


def cuda_core(a: Any, b: Any) -> Callable[[], object]:
    import numpy as np
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    from tilewright.cuda.nvrtc import assemble

    device = Device()
    device.set_current()
    kernel = ObjectCode.from_cubin(assemble(SOURCE, ARCH).cubin).get_kernel("scale")
    stream, config = device.default_stream, LaunchConfig(grid=SIZE // THREADS, block=THREADS)
    factor, size = np.float32(2), np.int32(SIZE)
    return lambda: launch(stream, config, kernel, a.data_ptr(), b.data_ptr(), factor, size)


def bare(a: Any, b: Any) -> Callable[[], object]:
    """cuLaunchKernelEx through ctypes, all arguments prepared: the least time of any Python code."""
    from tilewright.cuda.nvrtc import assemble

    function = driver.load_function(driver.device(0), assemble(SOURCE, ARCH).cubin, "scale", 0, 1)
    packed = (c_char * 24)()
    pack_into("QQfi", packed, 0, a.data_ptr(), b.data_ptr(), 2.0, SIZE)
    pointers = (c_void_p * 4)(*(addressof(packed) + offset for offset in (0, 8, 16, 20)))
    config = driver.LaunchConfig((SIZE // THREADS, 1, 1), (THREADS, 1, 1), 0, None, None, 0)
    call = driver.library().cuLaunchKernelEx
    places = (addressof(config), function, addressof(pointers))
    prepared = (*map(c_void_p.from_param, places), None)
    kept = (packed, pointers, config)  # what `prepared` points to
    return lambda: call(*prepared) if kept else None


def in_python(a: Any, b: Any) -> Callable[[], object]:
    """As little Python as can launch on tensors: reads their addresses and the stream, packs, calls; checks nothing."""
    import torch

    from tilewright.cuda.nvrtc import assemble

    function = driver.load_function(driver.device(0), assemble(SOURCE, ARCH).cubin, "scale", 0, 1)
    packed = (c_char * 24)()
    pointers = (c_void_p * 4)(*(addressof(packed) + offset for offset in (0, 8, 16, 20)))
    config = driver.LaunchConfig((SIZE // THREADS, 1, 1), (THREADS, 1, 1), 0, None, None, 0)
    call, pack, stream = driver.library().cuLaunchKernelEx, Struct("QQfi").pack_into, torch._C._cuda_getCurrentRawStream
    configured, launched, values = map(c_void_p.from_param, (addressof(config), function, addressof(pointers)))

    def launch(x: Any, y: Any, factor: float) -> None:
        pack(packed, 0, x.data_ptr(), y.data_ptr(), factor, SIZE)
        config.stream = stream(0)
        call(configured, launched, values, None)

    return lambda: launch(a, b, 2.0) if pointers else None  # `values` points to them


WAYS: dict[str, Callable[[Any, Any], Callable[[], object]]] = {
    "tilewright: exe(a, b, s)": ours,
    "tilewright: the same, with a tensor map": mapped,
    "Triton: kernel[grid](a, b, s, n, BLOCK=)": triton,
    "CuPy: RawKernel(grid, block, args)": cupy,
    "cuda-core: launch(stream, config, kernel, *args), all prepared": cuda_core,
    "the least Python: addresses, stream, packing, driver call; no checks": in_python,
    "bare driver call, all prepared": bare,
}


def run() -> Table:
    import torch

    a = torch.randn(SIZE, device="cuda")
    calls = {}
    for name, make in WAYS.items():
        b = torch.zeros_like(a)
        calls[name] = make(a, b)
        calls[name]()
        torch.cuda.synchronize()
        assert torch.equal(b, a * 2), name
    found = host_microseconds(calls, each=CALLS, rounds=ROUNDS)
    mine, with_map, *others = found.values()
    rows = [(name, f"{time:.2f}", f"{mine / time:.2f}") for name, time in found.items()]
    claims = (
        Claim("a call of ours, of cuda-core's with all prepared", mine / others[2], 1.1, most=True),
        Claim("a call with a cached tensor map, of one without", with_map / mine, 1.3, most=True),
        Claim("a call of ours, microseconds", mine, 3.0, most=True),
    )
    return Table("Launch overhead", ("called by", "us per call on the host", "ours / this"), tuple(rows), claims)
