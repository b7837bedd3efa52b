"""Arguments of every protocol: read right, or refused with the words that the simulator has for the same mistake."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, addressof, c_int64, c_void_p, cast
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.cuda.fake_driver import FakeDriver, GpuArray, Tensor
from tilewright import T
from tilewright.cuda.tensors import _Managed, _ManagedVersioned, _Tensor
from tilewright.errors import ArgumentError

FLOAT, BFLOAT = 2, 4  # DLPack's codes


@T.prim_func
def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    bx = T.cta_id([n // 32])
    i = T.thread_id([32])
    B[bx * 32 + i] = A[bx * 32 + i] * s


@T.prim_func
def negated(A: T.Buffer((32,), "bfloat16")):
    i = T.thread_id([32])
    A[i] = -A[i]


class Lent:
    """An array that offers nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.array.__dlpack_device__()
        return kind, number


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (c_void_p, ctypes.c_char_p, c_void_p)


class Capsule:
    """A DLPack array of the fake GPU, of any fields. major: None for the capsules of before versions were told."""

    def __init__(
        self,
        shape: tuple[int, ...] = (64,),
        *,
        strides: tuple[int, ...] | None = None,
        address: int | None = 0x4000,
        offset: int = 0,
        kind: tuple[int, int, int] = (FLOAT, 32, 1),
        device: tuple[int, int] = (2, 0),
        major: int | None = 1,
        readonly: bool = False,
    ) -> None:
        self.device, self.is_old = device, major is None
        self.asked: list[int] = []  # streams
        self._extents = (c_int64 * max(1, len(shape)))(*shape)
        self._steps = (c_int64 * max(1, len(shape)))(*strides or ())
        steps = cast(self._steps, POINTER(c_int64)) if strides is not None else None
        tensor = _Tensor(address, *device, len(shape), *kind, cast(self._extents, POINTER(c_int64)), steps, offset)
        self._managed = (
            _Managed(tensor, None, None)
            if major is None
            else _ManagedVersioned(major, 0, None, None, int(readonly), tensor)
        )
        self._name = b"dltensor" if major is None else b"dltensor_versioned"

    def __dlpack__(self, *, stream: int, **options: object) -> object:
        if self.is_old and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(stream)
        return _new_capsule(addressof(self._managed), self._name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.fixture
def exe(fake: FakeDriver) -> Any:
    return tw.compile(scale, target="sm_90a")


def host_array() -> Any:
    return np.zeros(64, np.float32)


# The same mistakes on both sides


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (None, "NoneType None"),
        ("2", "str '2'"),
        ([2.0] * 1000, r"list \[2.0, 2.0, .*\.\.\.\]"),
        (2j, "complex 2j"),
        (np.complex64(2), r"complex \(2\+0j\)"),
        (np.array(2.0), r"float64 of shape \(\)"),
        (10**400, "1000"),
    ],
)
def test_what_is_no_number_is_refused_alike_on_both_sides(exe: Any, number: object, message: str) -> None:
    with pytest.raises(
        ArgumentError, match=rf"(?s)argument s of scale (is a number|does not fit).*given: +{message}"
    ) as on_host:
        exe(host_array(), host_array(), number)
    with pytest.raises(ArgumentError) as on_gpu:
        exe(Tensor((64,)), Tensor((64,)), number)

    assert str(on_gpu.value) == str(on_host.value)


@pytest.mark.parametrize("number", [2, True, np.float16(2), np.bool_(True), ml_dtypes.bfloat16(2), np.longdouble(2)])
def test_numbers_of_python_and_numpy_are_taken_on_both_sides(fake: FakeDriver, exe: Any, number: Any) -> None:
    a, b = np.ones(64, np.float32), host_array()

    exe(a, b, number)
    exe(Tensor((64,)), Tensor((64,)), number)

    assert b[0] == fake.launches[0].values[2] == float(number)


@pytest.mark.parametrize(
    ("host", "gpu", "message"),
    [
        (np.zeros(64), GpuArray((64,), "float64"), "has dtype float32"),
        (np.zeros(64, ">f4"), GpuArray((64,), ">f4"), r"(?s)has dtype float32.*given: +>f4"),
        (np.zeros((8, 8), np.float32), GpuArray((8, 8)), "has 1 dimensions"),
        (np.zeros(128, np.float32)[::2], GpuArray((64,), strides=(8,)), r"C-contiguous.*\n.*strides \(2,\)"),
        (np.zeros(64, "f4,i2")["f0"], GpuArray((64,), strides=(6,)), r"C-contiguous.*\n.*strides \(1\.5,\)"),
    ],
)
def test_arrays_are_refused_alike_on_both_sides(exe: Any, host: Any, gpu: GpuArray, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as on_host:
        exe(host, host_array(), 1.0)
    with pytest.raises(ArgumentError) as on_gpu:
        exe(gpu, GpuArray((64,)), 1.0)

    assert str(on_gpu.value) == str(on_host.value)


def test_an_argument_given_twice_is_refused(exe: Any) -> None:
    a, b = host_array(), host_array()

    exe(a, B=b, s=1.0)
    with pytest.raises(ArgumentError, match=r"(?s)argument A of scale is given twice.*given: +A"):
        exe(a, b, 1.0, A=a)
    with pytest.raises(ArgumentError, match=r"(?s)argument A of scale is given twice.*given: +A, A_ptr"):
        exe(A=a, A_ptr=a, B=b, s=1.0)


# The CUDA array interface


def test_strides_of_the_interface_may_be_spelled_out(fake: FakeDriver, exe: Any) -> None:
    exe(GpuArray((64,), strides=(4,)), GpuArray((64,)), 1.0)

    assert len(fake.launches) == 1


@pytest.mark.parametrize("stream", [1, 2])  # the interface's names for the default streams are the driver's
def test_default_streams_keep_their_names(fake: FakeDriver, exe: Any, stream: int) -> None:
    exe(GpuArray((64,), stream=stream), GpuArray((64,)), 1.0)

    assert fake.launches[0].stream == stream


def test_a_mask_is_refused(exe: Any) -> None:
    masked = GpuArray((64,))
    interface: dict[str, Any] = masked.__cuda_array_interface__
    interface["mask"] = GpuArray((64,), "bool")

    with pytest.raises(ArgumentError, match="has a mask"):
        exe(masked, GpuArray((64,)), 1.0)


def test_an_array_without_memory_is_refused_unless_it_has_no_elements(fake: FakeDriver, exe: Any) -> None:
    exe(GpuArray((64,)), GpuArray((64,)), 1.0)
    exe(GpuArray((0,), address=0), GpuArray((0,), address=0), 1.0)

    with pytest.raises(ArgumentError, match=r"(?s)argument A of scale has no memory.*given: +the address 0"):
        exe(GpuArray((64,), address=0), GpuArray((64,)), 1.0)
    assert len(fake.launches) == 1


def test_a_type_that_the_interface_has_no_code_for_is_named_by_the_array(fake: FakeDriver) -> None:
    fake.kinds = ()
    exe = tw.compile(negated, target="sm_90a")
    array = GpuArray((32,), "bfloat16")
    assert array.__cuda_array_interface__["typestr"] == "<V2"

    exe(array)
    del array.dtype  # an array without a dtype

    with pytest.raises(ArgumentError, match="has dtype bfloat16"):
        exe(array)
    assert len(fake.launches) == 1


# DLPack


@pytest.mark.parametrize(
    ("capsule", "address"),
    [
        (Capsule(), 0x4000),
        (Capsule(major=None), 0x4000),
        (Capsule(offset=64), 0x4040),
        (Capsule(strides=(1,)), 0x4000),
        (Capsule(device=(13, 0)), 0x4000),
        (Capsule(readonly=True), 0x4000),
    ],
    ids=["plain", "before versions", "byte offset", "strides", "managed memory", "read-only"],
)
def test_a_capsule_is_read(fake: FakeDriver, exe: Any, capsule: Capsule, address: int) -> None:
    exe(capsule, Capsule(), 1.0)

    assert fake.launches[0].values[0] == address


@pytest.mark.parametrize(
    ("capsule", "message"),
    [
        (Capsule(major=2), r"(?s)version of DLPack.*given: +2\.0"),
        (Capsule(offset=4), "aligned to 16 bytes"),
        (Capsule(strides=(2,)), "C-contiguous"),
        (Capsule(()), "has 1 dimensions"),
        (Capsule(address=None), "has no memory"),
        (Capsule(kind=(BFLOAT, 16, 1)), r"(?s)has dtype float32.*given: +bfloat16"),
        (Capsule((16,), kind=(FLOAT, 32, 4)), r"(?s)has dtype float32.*given: +float32x4"),
        (Capsule(kind=(99, 32, 1)), r"type code 99, 32 bits"),
        (Capsule(device=(10, 0)), "DLPack device type 10"),
        (Capsule(device=(2, 1)), "different devices"),
    ],
)
def test_a_capsule_that_does_not_fit_is_refused(fake: FakeDriver, exe: Any, capsule: Capsule, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        exe(capsule, Capsule(), 1.0)
    assert not fake.launches


def test_a_read_only_capsule_is_not_written(exe: Any) -> None:
    with pytest.raises(ArgumentError, match="argument B of scale is written"):
        exe(Capsule(), Capsule(readonly=True), 1.0)


def test_the_owner_of_a_capsule_hears_of_the_stream(exe: Any) -> None:
    alone, beside_torch = Capsule(), Capsule()

    exe(alone, Capsule(), 1.0)
    exe(beside_torch, Tensor((64,)), 1.0)

    assert (alone.asked, beside_torch.asked) == ([1], [0x51])


def test_host_arrays_need_nothing_but_dlpack(exe: Any) -> None:
    a, b = np.arange(64, dtype=np.float32), host_array()

    exe(Lent(a), Lent(b), 2.0)

    assert np.array_equal(b, 2 * a)


def test_what_numpy_cannot_read_of_dlpack_is_refused(exe: Any) -> None:
    class Refusing(Lent):
        def __dlpack__(self, **options: Any) -> object:
            raise BufferError("bfloat16 is not lent")

    with pytest.raises(ArgumentError, match=r"(?s)cannot be read.*bfloat16 is not lent"):
        exe(Refusing(host_array()), host_array(), 1.0)


def test_an_array_that_has_no_device_is_refused(exe: Any) -> None:
    class Meta(Lent):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("Unknown device type meta")

    with pytest.raises(ArgumentError, match=r"(?s)where its memory is.*device type meta"):
        exe(Meta(host_array()), host_array(), 1.0)


# Simulating what is on a GPU, and launching what is on the host


def gpu_array_over(array: Any, first: int = 0) -> GpuArray:
    """The fake GPU's memory is the host's, where this machine has it on device 0 or 1 (see `FakeDriver`)."""
    return GpuArray((64,), address=array.ctypes.data + 4 * first)


@pytest.mark.parametrize("lend", [GpuArray, Capsule])
def test_arrays_of_a_gpu_are_simulated_on_copies(fake: FakeDriver, exe: Any, lend: Any) -> None:
    fake.devices = (90, 90)
    a, b = np.arange(64, dtype=np.float32), host_array()
    ordinal = a.ctypes.data >> 40 & 1
    extra = {} if lend is GpuArray else {"device": (2, ordinal)}

    tw.simulate(exe, lend((64,), address=a.ctypes.data, **extra), lend((64,), address=b.ctypes.data, **extra), 2.0)

    assert np.array_equal(b, 2 * a)


def test_simulating_arrays_of_both_places_is_refused(exe: Any) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)different devices.*cpu, cuda:0"):
        tw.simulate(exe, GpuArray((64,)), host_array(), 2.0)


def test_one_gpu_array_passed_twice_stays_one(fake: FakeDriver, exe: Any) -> None:
    fake.devices = (90, 90)
    a = np.arange(64, dtype=np.float32)

    tw.simulate(exe, gpu_array_over(a), gpu_array_over(a), 2.0)

    assert np.array_equal(a, 2 * np.arange(64, dtype=np.float32))


@pytest.mark.parametrize("first", [0, 32])
def test_host_arrays_that_overlap_overlap_on_the_gpu(
    fake: FakeDriver, exe: Any, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    memory = np.arange(96, dtype=np.float32)
    launch = fake.cuLaunchKernelEx

    def run(*args: Any) -> int:
        """The kernel writes its second array, once."""
        status = launch(*args)
        (ctypes.c_float * 64).from_address(fake.launches[-1].values[1])[:] = [7.0] * 64
        return status

    monkeypatch.setattr(fake, "cuLaunchKernelEx", run)

    exe(memory[:64], memory[first : first + 64], 2.0, on="gpu")

    source, target = fake.launches[0].values[:2]
    assert target - source == 4 * first
    assert np.array_equal(memory[first : first + 64], [7.0] * 64)
    assert np.array_equal(memory[:first], np.arange(first))
    assert not fake.memory


def test_a_read_only_host_array_is_never_written_back(fake: FakeDriver, exe: Any) -> None:
    a = host_array()
    a.flags.writeable = False
    written: list[int] = []
    copy = type(fake).cuMemcpyHtoD_v2
    fake.cuMemcpyDtoH_v2 = lambda target, *rest: written.append(target.value) or copy(fake, target, *rest)  # type: ignore

    exe(a, b := host_array(), 2.0, on="gpu")

    assert written == [b.ctypes.data]
