"""The arguments of callers: NumPy arrays, tensors of the host or of a GPU, numbers. Their protocols are known here
alone.

Tensors are recognised by their protocol (``__array_interface__``, ``__cuda_array_interface__``, DLPack), not by their
library; torch's CPU tensors of types that NumPy lacks are read as bytes.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.dtypes import dtype as row
from tilewright.errors import ArgumentError, TilewrightError, described
from tilewright.ir.arguments import ArrayInfo
from tilewright.ir.tensor_map import ELEMENTS, Im2col, MapFields, TextureFields, element_of
from tilewright.public import Kind, Public, sequence_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXTENTS = sequence_of(Kind("an int", lambda value: hasattr(value, "__index__") and not hasattr(value, "shape")))
public = Public(ArgumentError, {"box: Iterable[int]": _EXTENTS, "steps: Iterable[int]": _EXTENTS})

MOST_STEPS = 50_000_000
MOST_FINDINGS = 20
MOST_SECONDS = 1800.0
NORESERVE = 0x4000  # of Linux' mmap: memory that nobody may use is not counted
PIECE_BYTES = 1 << 14
SPARSE_BYTES = 1 << 28  # of an array of which only the pages are copied that hold something
MEMINFO = Path("/proc/meminfo")
CUDA_DEVICE = 2  # DLPack's kDLCUDA
# DLPack first: torch's CUDA array interface raises KeyError for element types that it cannot name, such as float8.
PROTOCOLS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")


@public.constructor
class TensorMap:
    """An array and the boxes of it that a kernel moves: the argument for a parameter ``m: T.TensorMap``.

    box: extents, in the order of the array's dimensions; it may leave the array. swizzle: a `SwizzleMode`, 0 to 3 for
    none, 32, 64 and 128 bytes. steps: for each dimension n, if the box has every n-th element of it. oob: the value of
    elements outside of the array, "zero" or "nan". dtype: of the elements, if the array has another dtype with their
    bits; "16U4_ALIGN8B", "16U4_ALIGN16B" or "16U6_ALIGN16B" for an array of bytes in which elements lie packed.

    Raises ArgumentError, naming the field, for what no tensor map can express.
    """

    def __init__(
        self, array: Any, box: Iterable[int], swizzle: int = 0, *, steps: Iterable[int] = (), oob: str = "zero",
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.array = array
        self.fields = _fields_of(_info_of(array), box, swizzle, steps, oob, dtype)

    @classmethod
    def of(cls, array: Any, fields: MapFields) -> TensorMap:
        """A map of an array with these fields, of any origin: the address is that of the array."""
        if not isinstance(fields, MapFields):
            raise ArgumentError(
                "no fields of a tensor map", given=described(fields), allowed="those of a TensorMap: m.fields"
            )
        tensor_map = cls.__new__(cls)
        tensor_map.array, tensor_map.fields = array, fields.at(_info_of(array).address or 0)
        return tensor_map

    @classmethod
    @public
    def im2col(
        cls, array: Any, pixels: int, channels: int, lower: Iterable[int], upper: Iterable[int], swizzle: int = 0, *,
        steps: Iterable[int] = (), oob: str = "zero", dtype: str | None = None, wide: str = "",
    ) -> TensorMap:  # fmt: skip
        """A map in im2col mode, of an array of images (N, D, H, W, C), without D, or without D and H.

        pixels, channels: that a copy moves. lower, upper: corners of the pixels that it goes through, in the order of
        the array's dimensions between N and C: from ``lower`` to ``extent - 1 + upper``; a convolution has minus its
        padding, and its padding less ``(taps - 1) * dilation``. steps: of the same dimensions, its strides. wide: "w"
        or "w128" for a walk along W alone.

        Raises ArgumentError, naming the field, for what no tensor map can express.
        """
        corners = [tuple(int(number) for number in part)[::-1] for part in (lower, upper)]
        walk = Im2col(corners[0], corners[1], wide)
        inner = tuple(int(number) for number in steps)
        every = (1, *inner, 1) if inner else ()
        return cls.of(array, _fields_of(_info_of(array), (pixels, channels), swizzle, every, oob, dtype, walk))

    def __repr__(self) -> str:
        return f"TensorMap: {self.fields}"


@public.constructor
class Texture:
    """An array that a kernel reads as a texture: the argument for a ``cudaTextureObject_t``.

    array: its dimensions are z, y and x, as many as there are, or a layer before the others; where a texel has several
    channels, these are the last. filter: "point" or "linear". address: "wrap", "clamp", "mirror" or "border", of
    coordinates outside; what is outside of a border is 0. normalized: do coordinates from 0 to 1 reach all of it?
    floats: are integers read as numbers from 0 to 1, or from -1 to 1?

    Raises ArgumentError, naming the field, for what no texture has.
    """

    def __init__(
        self, array: Any, filter: str = "point", address: str = "clamp", *, channels: int = 1,
        normalized: bool = False, floats: bool = False,
    ) -> None:  # fmt: skip
        info = _info_of(array, "texture")
        extents = info.shape if channels == 1 else info.shape[:-1]
        if channels != 1 and info.shape[-1:] != (channels,):
            raise ArgumentError("texture: channels", given=f"{info.shape}", allowed=f"(..., {channels})")
        if not np.asarray(array).flags.c_contiguous:
            raise ArgumentError("texture: an array with gaps", given=described(array), hint="array.copy()")
        texel, reversed_extents = info.dtype, tuple(int(extent) for extent in extents[::-1])
        self.array = array
        self.fields = TextureFields(reversed_extents, texel, channels, filter, address, normalized, floats)

    @classmethod
    def of(cls, array: Any, fields: TextureFields) -> Texture:
        """A texture of another array with the same fields."""
        texture = cls.__new__(cls)
        texture.array, texture.fields = array, fields
        return texture

    def __repr__(self) -> str:
        return f"Texture: {self.fields}"


DESCRIBED = (TensorMap, Texture)
"""Arguments that are a description of an array, ``fields``, with the array."""


def _info_of(array: Any, what: str = "tensor map") -> ArrayInfo:
    if not is_array(array):
        raise ArgumentError(f"a {what} is of an array", given=described(array), allowed="an array or a tensor")
    if device_of(array) != "cpu" and not hasattr(array, "data_ptr"):
        raise ArgumentError(f"a {what} is of an array", given=described(array), allowed="NumPy or torch")
    return array_info(array)


def _fields_of(
    info: ArrayInfo, box: Iterable[int], swizzle: int, steps: Iterable[int], oob: str, dtype: str | None,
    walk: Im2col | None = None,
) -> MapFields:  # fmt: skip
    _check_packed(info, dtype)
    name = dtype or info.dtype
    bits = 8 * ELEMENTS[name].nbytes if name in ELEMENTS else row(name).bits
    kind = element_of(name, bits)
    strides = [int(step) * ELEMENTS[kind].nbytes for step in info.steps]
    if info.shape and info.shape[-1] > 1 and info.steps[-1] != 1:
        raise ArgumentError(
            "tensor map: the innermost dimension", given=f"a stride of {info.steps[-1]} elements", allowed="1 element"
        )
    address = info.address or 0
    inner_first = [tuple(int(number) for number in part)[::-1] for part in (box, steps)]
    dims = [*info.shape[::-1]]
    if (
        of := ELEMENTS[kind]
    ).group > 1:  # of an array of bytes, or of packed elements, of which each has a byte's place
        nbytes = max(8, row(info.dtype.partition("_x")[0]).bits) // 8
        if of.spread and info.device != "cpu" and address % 32:
            raise ArgumentError("tensor map: address", given=f"{address:#x}", allowed=f"a multiple of 32 for {kind}")
        strides, dims[0] = [int(step) * nbytes for step in info.steps], dims[0] * nbytes * of.group // of.nbytes
    return MapFields(
        kind, tuple(dims), tuple(strides[-2::-1]), inner_first[0], swizzle, inner_first[1], oob, address, walk
    )


PACKED = {"float4_e2m1fn": "16U4_ALIGN8B or 16U4_ALIGN16B", "float6_e2m3fn": "16U6_ALIGN16B",
          "float6_e3m2fn": "16U6_ALIGN16B"}  # fmt: skip
"""Types of a map for elements that lie packed, by the dtype whose arrays have a byte for each element, or for two."""


def _check_packed(info: ArrayInfo, dtype: str | None) -> None:
    """Raises ArgumentError where an array has elements that a map would take for bytes, or the other way round."""
    name, _, pairs = info.dtype.partition("_x")
    is_packed = dtype is not None and dtype in ELEMENTS and ELEMENTS[dtype].group > 1
    if name not in PACKED or (is_packed and pairs) or (dtype is not None and not is_packed):
        return
    if dtype is not None:
        raise ArgumentError(
            f"tensor map: dtype {dtype!r} is of bytes in which elements lie packed",
            given=f"{info.dtype}, a byte for each element",
            allowed="an array of uint8 with the elements packed",
            hint="low | high << 4 of the bytes of neighbours, a.view(numpy.uint8)" if "4" in name else None,
        )
    if name == "float4_e2m1fn":
        of = f"{info.dtype}, two elements in a byte" if pairs else f"{info.dtype}, a byte for each element"
        raise ArgumentError(
            "tensor map: elements of 4 bits have no type of their own", given=of,
            allowed=f'dtype="uint8" for its bytes, or {PACKED[name]} for an array of packed bytes',
        )  # fmt: skip


def is_array(value: object, name: str = "an argument") -> bool:
    """Is it an array or tensor, on whatever device? NumPy's scalars speak the protocols of arrays, and are numbers.

    name: of the argument, for the error where a property of it raises one.
    """
    if isinstance(value, np.generic):
        return False
    try:
        return any(hasattr(value, protocol) for protocol in PROTOCOLS)
    except Exception as error:  # foreign code
        raise unreadable(name, error) from None


def unreadable(name: str, error: Exception) -> ArgumentError:
    """The error for an argument that raises one when it is asked what it is."""
    text = f"{type(error).__name__}: {error}"
    return ArgumentError(f"{name} cannot be read", given=text, allowed="an array, a tensor or a number")


def behind(value: Any) -> Any:
    """The array of a tensor map or texture; any other argument itself."""
    return value.array if isinstance(value, DESCRIBED) else value


def descriptor(value: Any) -> Any:
    """An argument of the host without its data: an `ArrayInfo`, the fields of a tensor map or texture, or a number."""
    if isinstance(value, DESCRIBED):
        return value.fields
    return array_info(value) if is_array(value) else value


def is_torch(value: object) -> bool:
    """Is it a tensor of torch?"""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr")


def device_of(value: object) -> str:
    """ "cpu" or "cuda:0" for an array.

    Raises ArgumentError for another kind of device.
    """
    if isinstance(value, np.ndarray):
        return "cpu"
    if hasattr(value, "__dlpack_device__"):
        kind, index = _dlpack_device(value)
        if kind in (1, 3):
            return "cpu"
        if kind in (CUDA_DEVICE, 13):
            return f"cuda:{index}"
        raise ArgumentError(
            "an argument lives on a device of no known kind", given=f"DLPack device type {kind}", allowed="cpu, cuda"
        )
    return "cuda:0" if hasattr(value, "__cuda_array_interface__") else "cpu"


def is_on_gpu(value: object) -> bool:
    """Is it an array on a GPU?"""
    return is_array(value) and device_of(value) != "cpu"


def ordinal(device: str) -> int:
    """The number of the GPU "cuda:1"; 0 of one without a number."""
    return int(device.partition(":")[2] or 0)


def zeros(shape: int | Sequence[int], kind: Any = np.uint8) -> NDArray[Any]:
    """Zeros. Large ones take memory where somebody writes, and may be more than there is memory for."""
    nbytes = int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize
    if nbytes < SPARSE_BYTES or sys.platform != "linux":
        return np.zeros(shape, kind)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    except (OSError, OverflowError):
        raise MemoryError(f"no room for {bytes_text(nbytes)}") from None
    return np.frombuffer(pages, kind).reshape(shape)


def _copied(value: Any) -> Any:
    """A copy of an array, which a run may change; any other argument itself."""
    if isinstance(value, np.ndarray):
        return _copy(value)
    return value.clone() if is_torch(value) else value


def _copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy; of a large array that is mostly zeros one that takes as little memory as itself, as `np.zeros` does."""
    if array.nbytes < SPARSE_BYTES or not array.flags.c_contiguous:
        return array.copy()
    copy = zeros(array.shape, array.dtype)
    whole, there = (side.reshape(-1).view(np.uint8) for side in (array, copy))
    for piece in touched(array):
        if whole[piece].max():
            there[piece] = whole[piece]
    return copy


def touched(array: NDArray[Any]) -> list[slice]:
    """The bytes of an array, in pieces; of a large one those with pages that somebody has read or written, if the
    system tells. The others are zeros.
    """
    starts = np.arange(0, array.nbytes, PIECE_BYTES)
    if array.nbytes >= SPARSE_BYTES:
        first, inside = divmod(array.ctypes.data, mmap.PAGESIZE)
        with suppress(OSError), Path("/proc/self/pagemap").open("rb") as pages:
            pages.seek(8 * first)
            words = np.frombuffer(pages.read(8 * (-(-(inside + array.nbytes) // mmap.PAGESIZE))), np.uint64)
            there = np.flatnonzero(words >> np.uint64(62)) * mmap.PAGESIZE - inside  # in memory, or swapped out
            ends = np.maximum(np.concatenate((there, there + mmap.PAGESIZE - 1)), 0)
            starts = np.unique(np.minimum(ends, array.nbytes - 1) // PIECE_BYTES) * PIECE_BYTES
    return [slice(int(start), int(start) + PIECE_BYTES) for start in starts]


@dataclass(frozen=True, slots=True)
class HostStretch:
    """Memory from the address ``first`` up to ``end``. readonly: no array in it may be written."""

    first: int
    end: int
    readonly: bool = False

    @property
    def nbytes(self) -> int:
        return self.end - self.first


def stretches_of(arrays: Iterable[HostStretch]) -> list[HostStretch]:
    """The memory of some arrays, those that overlap as one stretch.

    >>> arrays = [HostStretch(8, 16), HostStretch(4, 9), HostStretch(16, 20)]
    >>> [(stretch.first, stretch.end) for stretch in stretches_of(arrays)]
    [(4, 16), (16, 20)]
    """
    merged: list[HostStretch] = []
    for stretch in sorted(arrays, key=lambda array: (array.first, array.end)):
        if merged and stretch.first < merged[-1].end:
            last = merged.pop()
            stretch = HostStretch(last.first, max(last.end, stretch.end), last.readonly and stretch.readonly)
        merged.append(stretch)
    return merged


def copies(values: Iterable[Any]) -> list[Any]:
    """Copies of arrays, which a run may change, and other arguments themselves; those of NumPy's arrays that overlap
    share memory as these do.
    """
    listed = list(values)
    arrays = [value for value in listed if isinstance(value, np.ndarray) and value.size]
    starts = [_addresses(value)[0] for value in arrays]
    leads = dict(zip(starts, map(inside_of, arrays), strict=True))
    shared: dict[int, NDArray[np.uint8]] = {}  # by the address of memory that is inside of another array, or of several
    for stretch in stretches_of(HostStretch(*_addresses(value)) for value in arrays):
        low, many = stretch.first - leads[stretch.first], sum(stretch.first <= at < stretch.end for at in starts)
        if many > 1 or low < stretch.first:
            shared[low] = _copy(_bytes_of(low, stretch.end))
    return [
        _shared(value, shared) if isinstance(value, np.ndarray) and value.size else _copied(value) for value in listed
    ]


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays and numbers of an argument: of a structure, or of a list of arrays, those in it."""
    if isinstance(value, DESCRIBED):
        yield value.array
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from arrays_in(part)
    else:
        yield value


def with_arrays(value: Any, arrays: Iterator[Any]) -> Any:
    """The same argument with other arrays and numbers, in the order of `arrays_in`."""
    if isinstance(value, DESCRIBED):
        return type(value).of(next(arrays), value.fields)  # type: ignore[arg-type]  # those of its own kind
    if isinstance(value, dict):
        return type(value)((name, with_arrays(part, arrays)) for name, part in value.items())
    return [with_arrays(part, arrays) for part in value] if isinstance(value, (list, tuple)) else next(arrays)


def _shared(array: NDArray[Any], shared: Mapping[int, NDArray[np.uint8]]) -> NDArray[Any]:
    """A copy of an array: in the copy of memory that it shares with others, or its own."""
    address = array.ctypes.data
    low = next((low for low, memory in shared.items() if low <= address < low + memory.size), None)
    if low is None:
        return _copy(array)
    return np.ndarray(array.shape, array.dtype, shared[low].data, address - low, array.strides)


def _addresses(array: NDArray[Any]) -> tuple[int, int]:
    """The address of an array's first byte, and the one behind its last."""
    steps = [step * (extent - 1) for step, extent in zip(array.strides, array.shape, strict=True)]
    first = array.ctypes.data
    return first + sum(step for step in steps if step < 0), first + array.itemsize + sum(s for s in steps if s > 0)


def inside_of(array: Any) -> int:
    """Where in the middle of another array one begins, in bytes from the last multiple of what an allocation begins at;
    0 for one that is no such view.

    >>> inside_of(np.zeros(100, np.float32)[65:])
    4
    """
    whole = array
    while isinstance(getattr(whole, "base", None), np.ndarray):
        whole = whole.base
    first = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    step = 4 if array.dtype.itemsize == 1 else 1  # atomics on bytes take the word around them
    return int(first) % ALLOCATED // step * step if first > 0 else 0


ALLOCATED = 256  # bytes: what cudaMalloc returns is a multiple of that


def _bytes_of(low: int, high: int) -> NDArray[np.uint8]:
    memory: NDArray[np.uint8] = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    return memory


def _dlpack_device(value: Any) -> tuple[int, int]:
    # torch's meta tensors have no memory at all
    with protocol("an argument does not say where its memory is", "an array on a cpu or cuda device"):
        kind, index = value.__dlpack_device__()
        return int(kind), int(index)


@contextmanager
def protocol(what: str, allowed: str) -> Iterator[None]:
    """Run an argument's own protocol, which is foreign code: an error in it says why the argument cannot be read."""
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        raise ArgumentError(what, given=str(error) or type(error).__name__, allowed=allowed) from None


def different_devices(name: str, devices: Iterable[str]) -> ArgumentError:
    """The error for a call of the kernel ``name`` whose arrays are not all in one place."""
    return ArgumentError(
        f"the arguments of {name} are on different devices",
        given=", ".join(sorted(devices)),
        allowed="all on the host, or all on one GPU",
    )


def array_info(value: Any) -> ArrayInfo:
    """Shape, dtype, strides (elements), address and device of a host array or a tensor of torch, its data untouched.

    `Any`: arrays are known by their attributes.
    """
    if hasattr(value, "data_ptr"):
        return _tensor_info(value)
    array = _viewed(value)
    strides = in_elements(array.strides, array.dtype)
    return ArrayInfo(
        array.shape, element_name(array.dtype), strides, array.ctypes.data, "cpu", not array.flags.writeable
    )


def _tensor_info(value: Any) -> ArrayInfo:
    # a sparse tensor has none
    with protocol("an argument has no memory of its own", "a dense tensor, such as .to_dense() makes"):
        shape, name = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        steps, address = tuple(value.stride()), int(value.data_ptr())
    return ArrayInfo(shape, name, steps, address, device_of(value), False, is_tensor=is_torch(value))


def element_name(kind: np.dtype[Any]) -> str:
    """ "float32"; NumPy's code (">f4") for numbers in the other byte order, which no kernel reads. `Any`: any type."""
    return kind.name if kind.isnative else kind.str


def in_elements(strides: Iterable[int], kind: np.dtype[Any]) -> tuple[float, ...]:
    """Strides of bytes in elements; those of a field in records of another size need not be whole.

    >>> in_elements((32, 6), np.dtype("float32"))
    (8, 1.5)
    """
    width = max(1, kind.itemsize)
    return tuple(stride / width if stride % width else stride // width for stride in strides)


def _viewed(value: Any) -> NDArray[Any]:
    """A host array of any library as one of NumPy's, over the same memory."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            "an argument has a mask, which a kernel would not see",
            given="a masked array",
            allowed="an array without one",
        )
    if isinstance(value, np.ndarray):
        return value
    with protocol("an argument cannot be read as a NumPy array", "element types that NumPy has"):
        return np.asarray(value) if hasattr(value, "__array_interface__") else np.from_dlpack(value)


@contextmanager
def lent(arrays: Mapping[str, Any], kinds: Mapping[str, DType]) -> Iterator[dict[str, NDArray[np.generic]]]:
    """NumPy arrays over the memory of host arrays, by name; arrays that had to be packed are unpacked at the end."""
    views = {name: opened(value, kinds[name]) for name, value in arrays.items()}
    try:
        yield views
    finally:
        for name, value in arrays.items():
            closed(value, views[name], kinds[name])


def opened(value: Any, kind: DType) -> NDArray[np.generic]:
    """A C-contiguous NumPy array over the memory of a host array, nothing copied; one-per-byte 4-bit elements packed.

    The view of an array with gaps has all elements from the first to the last, in one dimension. `Any`: arrays are
    known by their attributes. Give it back with `closed`.
    """
    array = _as_numpy(value, kind)
    return pack_subbyte(array) if _is_unpacked(array, kind) else array


def closed(value: Any, array: NDArray[np.generic], kind: DType) -> None:
    """Unpack, after a run, an array that `opened` had to pack, into the caller's."""
    original = _as_numpy(value, kind)
    if _is_unpacked(original, kind) and original.flags.writeable:
        original[...] = unpack_subbyte(array, original.shape, kind)


def _is_unpacked(array: NDArray[np.generic], kind: DType) -> bool:
    return kind.element.bits < 8 and array.dtype == kind.element.numpy


def _as_numpy(value: Any, kind: DType) -> NDArray[np.generic]:
    if is_torch(value):
        import torch  # the caller's own: this module never needs it

        dense = value.detach()
        whole = (
            dense.reshape(-1)
            if dense.is_contiguous()
            else dense.as_strided((_span(dense.shape, dense.stride()),), (1,))
        )
        flat = whole.view(torch.uint8).numpy()
        shape = value.shape if dense.is_contiguous() else (-1,)
        return np.asarray(flat if kind.element.bits < 8 else flat.view(kind.element.numpy).reshape(shape))
    array = _viewed(value)
    if array.flags.c_contiguous:
        return array
    width = array.itemsize
    bits = array.view(f"u{width}")  # as_strided does not know the types of ml_dtypes
    whole = np.lib.stride_tricks.as_strided(bits, (_span(array.shape, array.strides, width),), (width,))
    return whole.view(array.dtype)


def _span(shape: Iterable[int], strides: Iterable[int], unit: int = 1) -> int:
    """The length of an array from its first element to the end of its last, where strides are in ``unit``."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) // unit


def available_bytes() -> int:
    """The memory that this machine can give without swapping, in bytes; a huge number where that is not known."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 1 << 62


def bytes_text(count: int) -> str:
    """A number of bytes in the unit that fits.

    >>> bytes_text(3 << 29), bytes_text(48)
    ('1.5 GiB', '48 bytes')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >> power:
            return f"{count / (1 << power):,.1f} {unit}"
    return f"{count} bytes"


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """Characters of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of words as lines, their columns aligned; none ends with spaces.

    >>> aligned([("line", "times"), ("7", "1,024")])
    ['line  times', '7     1,024']
    """
    widths = widths_of(rows)
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run on the simulator. None: no limit; of nbytes, the memory of the machine.

    steps: turns of loops, and stretches between waits, by all CTAs that run together. nbytes: of shared memory and
    registers of those CTAs. ctas: that the GPU has room for at once; those of a wave that ended make room. registers:
    of a thread, found out where they decide that; 0 where nobody can tell. findings: the last after which a run goes on
    no further. explore: orders by chance, in which the kernel runs besides. replay:
    the one choice that it makes, by its name. sample: instructions of warps; of a grid that would take more, and whose
    CTAs do not wait for each other, some that are spread over it run. passes: are those of shared memory counted? They
    take a tenth of the time.

    Raises ArgumentError for what is no positive number.
    """

    seconds: float | None = None
    steps: int | None = MOST_STEPS
    nbytes: int | None = None
    ctas: int | None = None
    registers: Callable[[], int] | None = None
    findings: int = MOST_FINDINGS
    explore: int = 0
    replay: str | None = None
    sample: int | None = None
    passes: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.findings, bool) or not isinstance(self.findings, int) or self.findings < 1:
            allowed = "a whole number above 0; 1 stops at the first finding"
            raise ArgumentError("max_findings is no limit", given=repr(self.findings), allowed=allowed)
        if isinstance(self.explore, bool) or not isinstance(self.explore, int) or self.explore < 0:
            raise ArgumentError("explore is a number of orders", given=repr(self.explore), allowed="0 or more")
        for name, value in (("limit_s", self.seconds), ("limit_steps", self.steps), ("limit_bytes", self.nbytes)):
            kinds = (int, float) if name == "limit_s" else (int,)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not value > 0):
                allowed = "a number above 0" if name == "limit_s" else "a whole number above 0"
                raise ArgumentError(f"{name} is no limit", given=repr(value), allowed=f"{allowed}, or None for none")


# 4-bit elements: two to a byte, the first in the low half. NumPy (ml_dtypes) holds one per byte.


def pack_subbyte(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """The elements of a one-per-byte array in row-major order, two to a byte; an odd last one leaves the high half 0.

    >>> pack_subbyte(np.array([0x1, 0x2, 0x3], np.uint8)).tolist()
    [33, 3]
    """
    nibbles = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & 0xF
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return (nibbles[0::2] | nibbles[1::2] << 4).astype(np.uint8)


def unpack_subbyte(packed: NDArray[np.generic], shape: tuple[int, ...], kind: DType) -> NDArray[np.generic]:
    """The elements of packed bytes as a one-per-byte array of ``shape``. Inverse of `pack_subbyte`.

    >>> from tilewright.dtypes import dtype
    >>> unpack_subbyte(np.array([0x72], np.uint8), (2,), dtype("float4_e2m1fn")).tolist()
    [1.0, 6.0]
    """
    data = np.ascontiguousarray(packed).reshape(-1).view(np.uint8)
    nibbles = np.stack([data & 0xF, data >> 4], axis=-1).reshape(-1)
    count = int(np.prod(shape, dtype=np.int64))
    return nibbles[:count].view(kind.numpy).reshape(shape)
