"""Times of launches with a cold cache; arrays that kernels write get their old values back."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p
from itertools import chain
from typing import Any

from tilewright import host
from tilewright.cuda import driver
from tilewright.cuda.launch import span_bytes
from tilewright.cuda.tensors import inspected, stream_of
from tilewright.errors import ToolError
from tilewright.ir.arguments import ArrayInfo

FLUSH_BYTES = 1 << 28  # more than any second-level cache

Call = Callable[[], object]


def stream_in_use(args: Sequence[Any]) -> int:
    """The stream that a launch on these arguments goes to."""
    arrays = [array for array in map(host.behind, args) if host.is_array(array)]
    streams = (stream_of(array, host.ordinal(host.device_of(array))) for array in arrays)
    return next((stream for stream in streams if stream is not None), 0)


def is_captured(args: Sequence[Any]) -> bool:
    """Is the stream of these arguments being captured into a graph, where nothing can be timed?"""
    status = c_int()
    driver.call("cuStreamIsCapturing", c_void_p(stream_in_use(args)), byref(status))
    return bool(status.value)


@contextmanager
def current(args: Sequence[Any]) -> Iterator[driver.GpuDevice]:
    """The device of these arguments, to which this thread's calls go."""
    places = [host.device_of(value) for value in map(host.behind, args) if host.is_array(value)]
    device = driver.device(host.ordinal(next(place for place in places if place != "cpu")))
    with device.current():
        yield device


@contextmanager
def kept(arrays: Sequence[Any]) -> Iterator[None]:
    """A context at whose end these arrays get their old values back."""
    descriptors = [inspected(array, 0).descriptor for array in arrays]
    spans = [(info.address or 0, span_bytes(info)) for info in descriptors if isinstance(info, ArrayInfo)]
    driver.synchronize()
    copies = [driver.allocate(nbytes) for _, nbytes in spans]
    try:
        for (address, nbytes), copy in zip(spans, copies, strict=True):
            _copy(copy, address, nbytes)
        yield
        driver.synchronize()
        for (address, nbytes), copy in zip(spans, copies, strict=True):
            _copy(address, copy, nbytes)
    finally:
        driver.synchronize()
        for copy in copies:
            driver.free(copy)


def _copy(target: int, source: int, nbytes: int) -> None:
    driver.call("cuMemcpyDtoD_v2", c_void_p(target), c_void_p(source), c_size_t(nbytes))


def cold_seconds(calls: Sequence[Call], stream: int, rounds: int, done: Call) -> list[float]:
    """The median time of each call over rounds in which they take turns; before each, the cache is filled with other
    memory.

    done: called after each round. Raises ToolError where a call fails.
    """
    flushed = driver.allocate(FLUSH_BYTES)
    events = [[(_event(), _event()) for _ in range(rounds)] for _ in calls]
    try:
        for call in calls:  # load the kernel outside of the timing
            call()
        for turn in range(rounds):
            for call, pairs in zip(calls, events, strict=True):
                begin, end = pairs[turn]
                driver.call("cuMemsetD32Async", c_void_p(flushed), c_uint(turn), c_size_t(FLUSH_BYTES // 4),
                            c_void_p(stream))  # fmt: skip
                driver.call("cuEventRecord", begin, c_void_p(stream))
                call()
                driver.call("cuEventRecord", end, c_void_p(stream))
            driver.synchronize()
            done()
        return [statistics.median(_seconds(*pair) for pair in pairs) for pairs in events]
    finally:
        for event in chain.from_iterable(chain.from_iterable(events)):
            driver.call("cuEventDestroy_v2", event)
        driver.free(flushed)


def _event() -> c_void_p:
    event = c_void_p()
    driver.call("cuEventCreate", byref(event), c_uint(0))
    return event


def _seconds(begin: c_void_p, end: c_void_p) -> float:
    passed = c_float()
    driver.call("cuEventElapsedTime", byref(passed), begin, end)
    if passed.value <= 0:
        raise ToolError("a launch took no time", given=f"{passed.value} ms between two events")
    return passed.value / 1000
