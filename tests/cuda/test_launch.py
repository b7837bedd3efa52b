"""Launching, on a driver that runs nothing: its calls, their number, and the errors when it refuses."""

from __future__ import annotations

from ctypes import c_double, c_int, c_short, c_uint64
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cuda.fake_driver import CONTEXTS, FakeDriver, GpuArray, Tensor
from tilewright import T
from tilewright.cuda import driver
from tilewright.errors import ArgumentError, TargetError, ToolError
from tilewright.isa import ARCHS, runs_on

POINTER = c_uint64


@T.prim_func
def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.assume(n % 32 == 0)
    bx = T.cta_id([n // 32])
    i = T.thread_id([32])
    B[bx * 32 + i] = A[bx * 32 + i] * s


@T.prim_func
def many(A: T.Buffer((32,), "float32", align=128), m: T.int16, h: T.float16, d: T.float64, b: T.bfloat16, k: T.int32):
    T.cta_id([k])
    i = T.thread_id([32])
    if i < m:
        A[i] = T.cast(h, "float32") + T.cast(d, "float32") + T.cast(b, "float32")


@T.prim_func
def large(A: T.Buffer((16384,), "float32")):
    T.func_attr({"non_portable_cluster": True})
    T.cluster_id([2])
    T.cta_id_in_cluster([16])
    i = T.thread_id([32])
    tile = T.alloc_shared((16384,), "float32")
    tile[i] = A[i]
    A[i] = tile[i]


@T.prim_func
def following(A: T.Buffer((32,), "float32")):
    T.cta_id([1])
    i = T.thread_id([32])
    T.ptx.griddepcontrol.wait()
    A[i] = A[i] + 1
    T.ptx.griddepcontrol.launch_dependents()


@pytest.fixture
def exe(fake: FakeDriver) -> Any:
    return tw.compile(scale, target="sm_90a")


# The driver's calls in a launch


def test_a_launch_has_the_grid_the_stream_and_the_packed_arguments(fake: FakeDriver, exe: Any) -> None:
    exe(Tensor((64,), address=0x1000), Tensor((64,), address=0x2000), 1.5)

    (seen,) = fake.launches
    assert (seen.grid, seen.block, seen.shared_bytes) == ((2, 1, 1), (32, 1, 1), 0)
    assert seen.values == [0x1000, 0x2000, 1.5, 64]
    assert seen.stream == 0x51


def test_a_kernel_is_loaded_once(fake: FakeDriver, exe: Any) -> None:
    for size in (32, 64, 64):
        exe(Tensor((size,)), Tensor((size,), address=0x9000), 1.0)

    assert fake.loaded == [(CONTEXTS[0], b"cubin", "scale")]
    assert [seen.values[-1] for seen in fake.launches] == [32, 64, 64]


def test_arguments_like_those_before_are_not_checked_again(
    fake: FakeDriver, exe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe(Tensor((64,)), Tensor((64,)), 1.0)
    monkeypatch.setattr("tilewright.ir.arguments.Signature.bind", None)

    exe(Tensor((64,), address=0x5000), Tensor((64,), address=0x6000), 2.5)

    assert fake.launches[-1].values == [0x5000, 0x6000, 2.5, 64]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Tensor((33,)), r"(?s)disagree on n.*33"),
        (Tensor((64,), address=0x1004), "aligned to 16 bytes"),
        (Tensor((64,), contiguous=False), "C-contiguous"),
        (Tensor((64, 1)), "1 dimensions"),
        (Tensor((64,), index=-1), "different devices"),
        (np.zeros(64, np.float32), "different devices"),
        (3, "is an array"),
    ],
)
def test_arguments_unlike_those_before_are_checked(fake: FakeDriver, exe: Any, tensor: object, message: str) -> None:
    exe(Tensor((64,)), Tensor((64,)), 1.0)

    with pytest.raises(ArgumentError, match=message):
        exe(tensor, Tensor((64,)), 1.0)
    assert len(fake.launches) == 1


def test_the_errors_are_those_of_the_simulator(fake: FakeDriver, exe: Any) -> None:
    with pytest.raises(ArgumentError) as on_host:
        exe(np.zeros(64, np.float32), np.zeros(33, np.float32), 1.0)
    with pytest.raises(ArgumentError) as on_gpu:
        exe(Tensor((64,)), Tensor((33,)), 1.0)

    assert str(on_gpu.value) == str(on_host.value)


def test_an_assumption_is_checked(fake: FakeDriver, exe: Any) -> None:
    with pytest.raises(ArgumentError, match="assumption"):
        exe(Tensor((48,)), Tensor((48,)), 1.0)


def test_a_grid_without_ctas_launches_nothing(fake: FakeDriver, exe: Any) -> None:
    exe(Tensor((0,)), Tensor((0,)), 1.0)

    assert not fake.launches


def test_numbers_are_packed_as_their_dtypes(fake: FakeDriver) -> None:
    fake.kinds = (POINTER, c_short, c_short, c_double, c_short, c_int)
    exe = tw.compile(many, target="sm_90a")

    exe(Tensor((32,)), -7, 1.0, 0.1, 1.0, 3)
    exe(Tensor((32,)), np.int64(7), np.float32(-2), 2, np.float64(-2), np.int8(2))

    assert fake.launches[0].values == [0x1000, -7, 0x3C00, 0.1, 0x3F80, 3]
    assert fake.launches[1].values == [0x1000, 7, 0xC000 - 65536, 2.0, 0xC000 - 65536, 2]
    assert [seen.grid[0] for seen in fake.launches] == [3, 2]


@pytest.mark.parametrize("value", [3, True, 3.0])
def test_a_float_that_c_has_no_type_for_is_packed_alike_each_time(fake: FakeDriver, value: float) -> None:
    fake.kinds = (POINTER, c_short, c_short, c_double, c_short, c_int)
    exe = tw.compile(many, target="sm_90a")

    for _ in range(3):
        exe(Tensor((32,)), 1, 1.0, 1.0, value, 1)

    bits = int(np.float32(value).view(np.uint32)) >> 16
    assert [seen.values[4] for seen in fake.launches] == [bits] * 3


def test_a_number_that_does_not_fit_is_refused_each_time(fake: FakeDriver) -> None:
    exe = tw.compile(many, target="sm_90a")
    exe(Tensor((32,)), 1, 1.0, 1.0, 1.0, 1)

    for value in (40000, 1.5, "1", None):
        with pytest.raises(ArgumentError, match="argument m of many"):
            exe(Tensor((32,)), value, 1.0, 1.0, 1.0, 1)


def test_a_float_beyond_the_range_of_its_dtype_is_refused_each_time(fake: FakeDriver, exe: Any) -> None:
    exe(Tensor((32,)), Tensor((32,)), float("inf"))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="does not fit float32"):
            exe(Tensor((32,)), Tensor((32,)), 1e300)

    assert [seen.values[2] for seen in fake.launches] == [float("inf")]


def test_a_buffer_that_asks_for_more_alignment_gets_it_checked_each_time(fake: FakeDriver) -> None:
    exe = tw.compile(many, target="sm_90a")
    exe(Tensor((32,), address=0x1000), 1, 1.0, 1.0, 1.0, 1)

    with pytest.raises(ArgumentError, match="aligned to 128 bytes"):
        exe(Tensor((32,), address=0x1040), 1, 1.0, 1.0, 1.0, 1)


def test_a_kernel_that_waits_for_the_grids_before_it_may_begin_before_they_end(fake: FakeDriver, exe: Any) -> None:
    fake.kinds = (POINTER,)
    tw.compile(following, target="sm_90a")(Tensor((32,)))
    exe(Tensor((64,), address=0x1000), Tensor((64,), address=0x2000), 1.5)

    programmatic_stream_serialization = 6
    assert [seen.asked for seen in fake.launches] == [[(programmatic_stream_serialization, 1)], []]


def test_shared_memory_and_clusters_beyond_the_usual_are_asked_for(fake: FakeDriver) -> None:
    fake.kinds = (POINTER,)

    tw.compile(large, target="sm_90a")(Tensor((16384,)))

    assert fake.attributes == [(8, 65536), (14, 1)]
    assert (fake.launches[0].shared_bytes, fake.launches[0].grid) == (65536, (32, 1, 1))


# Devices, contexts, streams


def test_the_device_of_the_tensors_decides(fake: FakeDriver, exe: Any) -> None:
    fake.devices = (90, 90)

    for index in (0, 1, 1):
        exe(Tensor((64,), index=index), Tensor((64,), index=index, address=0x9000), 1.0)

    assert [(seen.context, seen.stream) for seen in fake.launches] == [
        (CONTEXTS[0], 0x51),
        (CONTEXTS[1], 0x52),
        (CONTEXTS[1], 0x52),
    ]
    assert fake.current == [CONTEXTS[0]]
    assert len(fake.loaded) == 2


def test_tensors_of_two_devices_are_refused(fake: FakeDriver, exe: Any) -> None:
    fake.devices = (90, 90)

    with pytest.raises(ArgumentError, match=r"(?s)different devices.*cuda:0, cuda:1"):
        exe(Tensor((64,)), Tensor((64,), index=1), 1.0)


def test_a_thread_without_a_context_gets_one_for_the_launch(fake: FakeDriver, exe: Any) -> None:
    fake.current[:] = [0]

    exe(Tensor((64,)), Tensor((64,)), 1.0)

    assert [seen.context for seen in fake.launches] == [CONTEXTS[0]]
    assert fake.current == [0]


def test_arrays_with_an_interface_are_launched_on_the_stream_they_name(fake: FakeDriver, exe: Any) -> None:
    exe(GpuArray((64,), stream=0x77), GpuArray((64,)), 1.0)
    exe(GpuArray((64,)), GpuArray((64,)), 1.0)

    assert [seen.stream for seen in fake.launches] == [0x77, None]


def test_a_stream_waits_for_that_of_another_array(fake: FakeDriver, exe: Any) -> None:
    exe(GpuArray((64,), stream=0x77), GpuArray((64,), stream=0x78), 1.0)

    assert fake.waits == [(0x77, 0x78)]


def test_a_read_only_array_may_be_read_but_not_written(fake: FakeDriver, exe: Any) -> None:
    exe(GpuArray((64,), readonly=True), GpuArray((64,)), 1.0)

    with pytest.raises(ArgumentError, match="argument B of scale is written"):
        exe(GpuArray((64,)), GpuArray((64,), readonly=True), 1.0)


def test_one_4_bit_element_a_byte_is_refused(fake: FakeDriver, exe: Any) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)one 4-bit element a byte.*uint8"):
        exe(GpuArray((64,), "float4_e2m1fn"), GpuArray((64,)), 1.0)


def test_host_arrays_are_copied_when_the_gpu_is_asked_for(fake: FakeDriver, exe: Any) -> None:
    a, b = np.zeros(64, np.float32), np.ones(64, np.float32)

    exe(a, b, 1.0, on="gpu")

    assert fake.launches[0].values[0] not in (a.ctypes.data, b.ctypes.data)
    assert fake.launches[0].values[2:] == [1.0, 64]
    assert (b == 1).all()
    assert not fake.memory


def test_calls_at_the_same_time_have_buffers_of_their_own(
    fake: FakeDriver, exe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads the arguments while another thread, or a signal's handler, launches too."""
    exe(Tensor((64,)), Tensor((64,)), 1.0)
    launch = fake.cuLaunchKernelEx

    def interrupted(*args: Any) -> int:
        monkeypatch.setattr(fake, "cuLaunchKernelEx", launch)
        exe(Tensor((64,), address=0x9000), Tensor((64,)), 3.0)
        return launch(*args)

    other = tw.compile(scale, target="sm_90a")
    monkeypatch.setattr(fake, "cuLaunchKernelEx", interrupted)
    exe, other = other, exe
    exe(Tensor((64,), address=0x8000), Tensor((64,)), 2.0)

    assert [seen.values[2] for seen in fake.launches] == [1.0, 3.0, 2.0]


# Refusals of the driver


def test_an_error_of_the_driver_has_its_name_and_text(
    fake: FakeDriver, exe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "cuLaunchKernelEx", lambda *args: 1)

    with pytest.raises(
        ToolError, match=r"(?s)cuLaunchKernelEx of scale.*CUDA_ERROR_INVALID_VALUE \(1\): what it means"
    ):
        exe(Tensor((64,)), Tensor((64,)), 1.0)


def test_an_error_that_stays_says_so(fake: FakeDriver, exe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "cuModuleLoadData", lambda *args: 700)

    with pytest.raises(ToolError, match=r"(?s)takes no more work.*ILLEGAL_ADDRESS.*new process.*simulate"):
        exe(Tensor((64,)), Tensor((64,)), 1.0)
    assert fake.current == [CONTEXTS[0]]


def test_code_for_another_architecture_is_refused_with_one_that_runs(fake: FakeDriver) -> None:
    exe = tw.compile(scale, target="sm_100a")

    with pytest.raises(TargetError, match=r"(?s)compiled for sm_100a.*Fake GPU, sm_90.*target='sm_90a'"):
        exe(Tensor((64,)), Tensor((64,)), 1.0)


@pytest.mark.parametrize(
    ("target", "runs", "refuses"),
    [
        ("sm_80", (80, 86, 89), (75, 90)),
        ("sm_86", (86, 89), (80,)),
        ("sm_90a", (90,), (100,)),
        ("sm_100a", (100,), (103,)),
        ("sm_100f", (100, 103), (120, 90)),
    ],
)
def test_code_runs_on_the_devices_of_its_kind(target: str, runs: tuple[int, ...], refuses: tuple[int, ...]) -> None:
    assert all(runs_on(ARCHS[target], capability) for capability in runs)
    assert not any(runs_on(ARCHS[target], capability) for capability in refuses)


def test_constants_are_those_of_the_driver_s_header() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")

    functions, devices = bindings.CUfunction_attribute, bindings.CUdevice_attribute
    assert functions.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == driver.MAX_DYNAMIC_SHARED
    assert functions.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED == driver.LARGE_CLUSTERS
    assert devices.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == driver.MULTIPROCESSOR_MAJOR
    assert devices.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == driver.MULTIPROCESSOR_MINOR
    assert bindings.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == driver.POINTER_DEVICE
    assert bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED == driver.RELAXED_CAPTURE
    assert bindings.CUevent_flags.CU_EVENT_DISABLE_TIMING == driver.EVENT_WITHOUT_TIME
    codes = {int(code): code.name for code in bindings.CUresult}
    assert {"CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED"} <= {codes[c] for c in driver.BROKEN_CONTEXT}
    assert {codes[c] for c in driver.WRONG_CONTEXT} == {
        "CUDA_ERROR_INVALID_CONTEXT",
        "CUDA_ERROR_INVALID_HANDLE",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    }
