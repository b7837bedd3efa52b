"""copy, copy_async, im2col_async, permute_layout: elements move; fill, memset, zero: they all get one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.layout.axes import Facts, as_int
from tilewright.primitives.elements import all_of, convertible, equal_extents, one_dtype, shown, whole_vectors
from tilewright.primitives.table import (
    WITHIN_A_CTA,
    Clipped,
    In,
    Keywords,
    Mismatch,
    Out,
    Role,
    Scalar,
    Shapes,
    Tiles,
    Unread,
    primitive,
)

# copy: moves a tile from one memory to another.


CLIP, FILL = "clip", "fill"
ASKED = (CLIP, FILL)
LEAVING = (*ASKED, "oob")  # the keywords with which a region may leave its buffer, as far as a primitive has them
To = Annotated[NDArray[Any], Role("out", written=True, if_asked=LEAVING)]
From = Annotated[NDArray[Any], Role("in", if_asked=LEAVING)]


@primitive(shapes=equal_extents, elements=all_of(convertible, whole_vectors))
def copy(
    dst: To, src: From, *, vec_len: int | None = None, clip: bool = False, fill: float | int | None = None
) -> None:
    """When the call returns, the calling threads have copied `src` to `dst`, converted to its dtype.

    vec_len: elements of one access; the widest that fits, if left out. clip: the regions may leave their buffers;
    elements that are outside on either side are left alone. fill: the same, but elements of `dst` whose source is
    outside get this number.
    """
    dst[...] = src.reshape(dst.shape)


# fill, memset and zero: give every element of a tile one value.


@primitive(elements=whole_vectors)
def fill(dst: Clipped, value: Scalar, *, vec_len: int | None = None) -> None:
    """Every element of `dst` gets `value`, converted to its dtype; nothing is stored outside of the buffer.

    vec_len: elements of one access; the widest that fits, if left out.
    """
    dst[...] = value


@primitive(elements=whole_vectors)
def memset(dst: Clipped, value: Scalar, *, vec_len: int | None = None) -> None:
    """Every element of `dst` gets `value`: `fill` under another name.

    vec_len: elements of one access; the widest that fits, if left out.
    """
    dst[...] = value


@primitive(elements=whole_vectors)
def zero(dst: Clipped, src: Unread = None, *, vec_len: int | None = None) -> None:
    """Every element of `dst` becomes 0; nothing is stored outside of the buffer. `src`, as large, is not read.

    vec_len: elements of one access; the widest that fits, if left out.
    """
    dst[...] = 0


# copy_async: begins to move a tile from one memory to another.


def unpacked(tiles: Tiles, keywords: Keywords) -> Mismatch | None:
    """All tiles have one dtype, but a copy to tensor memory may expand elements of 4 or 6 bits to 8."""
    dst, src = tiles["dst"], tiles["src"]
    into_tensor_memory = (dst.space, src.space) == ("tmem", "shared")
    if fmt := keywords.get("fmt"):
        bits = int(str(fmt)[1])
        if not into_tensor_memory or dst.dtype.bits != 8 or src.dtype.value_bits not in (bits, 8):
            return Mismatch(
                f"fmt={fmt!r} takes {bits} bits apart",
                f"{src.dtype} in {src.space} memory, {dst.dtype} in {dst.space}",
                f"bytes or elements of {bits} bits in shared memory, elements of 8 bits in tmem",
            )
    narrow = src.dtype.value_bits in (4, 6) and dst.dtype.value_bits == 8
    return None if narrow and into_tensor_memory else one_dtype(tiles, keywords)


@primitive(scopes=(*WITHIN_A_CTA, "cluster"), shapes=equal_extents, elements=unpacked)
def copy_async(
    dst: To,
    src: From,
    *,
    cta_group: Literal[1, 2] = 1,
    fmt: Literal["", "b4x16_p64", "b6x16_p32"] = "",
    vec_len: int | None = None,
    clip: bool = False,
    fill: float | int | None = None,
    mbar: object = None,
    cta_mask: object = None,
    cache_hint: Literal["", "evict_first", "evict_last", "evict_normal"] = "",
    oob: Literal["", "zero", "nan"] = "",
    use_tma_reduce: Literal["", "add", "min", "max", "inc", "dec", "and", "or", "xor"] = "",
    remote_cta_id: object = None,
) -> None:
    """The call begins to move the elements of `src` to `dst`; waiting for its completion is the caller's.

    cta_group: CTAs that work on one tensor memory together. fmt: how the source is packed, 16 values in 16 bytes.
    vec_len: elements of one access. clip, fill: as in `copy`. mbar: the m-barrier at which a bulk copy to shared memory
    completes its bytes. cta_mask: the CTAs of the cluster that get them. oob: what is loaded from outside of the array.
    use_tma_reduce: how stored elements are combined with what is there. remote_cta_id: the CTA of the cluster whose
    shared memory is written.
    """
    dst[...] = src.reshape(dst.shape)


# im2col_async: begins to bring the pixels that a tap of a convolution meets to shared memory, each with its channels.
#
# Images are (N, D, H, W, C), or without D, or without D and H. All settings but `pixel`, `channel` and `tap`, which may
# change while a kernel runs, are numbers; each has an entry for every dimension between N and C.


class Window:
    """The settings of a convolution over so many dimensions, those that were left out in their place."""

    def __init__(self, dimensions: int, settings: Mapping[str, object]) -> None:
        self.taps, self.padding, self.stride, self.dilation = (
            _whole(name, settings.get(name), dimensions, default)
            for name, default in (("taps", 1), ("padding", 0), ("stride", 1), ("dilation", 1))
        )

    @property
    def lower(self) -> tuple[int, ...]:
        """Where the window begins at the first pixel."""
        return tuple(-pad for pad in self.padding)

    @property
    def upper(self) -> tuple[int, ...]:
        """Where it begins at the last one at most, counted from an image's last element."""
        sizes = zip(self.padding, self.taps, self.dilation, strict=True)
        return tuple(pad - (taps - 1) * dilation for pad, taps, dilation in sizes)

    def outputs(self, extents: Sequence[int]) -> Iterator[int]:
        """How often the window fits each dimension of an image."""
        for extent, low, up, stride in zip(extents, self.lower, self.upper, self.stride, strict=True):
            yield max(0, -(-(extent + up - low) // stride))


def _whole(name: str, setting: object, dimensions: int, default: int) -> tuple[int, ...]:
    numbers = (default,) * dimensions if setting is None or setting == () else setting
    if (
        not isinstance(numbers, tuple)
        or len(numbers) != dimensions
        or not all(isinstance(number, int) for number in numbers)
    ):
        raise ValueError(f"{name}={setting}: {dimensions} numbers, one for each dimension between N and C")
    return numbers


def pixels_and_channels(tiles: Tiles, facts: Facts, keywords: Keywords) -> Shapes:
    """`dst` is (pixels, channels); `src` is images of 3 to 5 dimensions; the settings have an entry for each of them
    between N and C.
    """
    dst, src = tiles["dst"], tiles["src"]
    dimensions = len(src.extents) - 2
    if dimensions not in (1, 2, 3):
        return Mismatch(f"{src.name} is no array of images", shown(src), "(N, D, H, W, C), (N, H, W, C) or (N, W, C)")
    if len([extent for extent in dst.extents if as_int(extent) != 1]) != 2:
        return Mismatch(f"{dst.name} is no matrix", shown(dst), "pixels x channels, both above 1")
    try:
        Window(dimensions, keywords)
    except ValueError as error:
        text, _, allowed = str(error).partition(": ")
        return Mismatch("a setting does not fit the images", text, allowed)
    for name, count in (("pixel", dimensions + 1), ("tap", dimensions)):
        value = keywords.get(name)
        if value is not None and not (isinstance(value, tuple) and len(value) == count):
            return Mismatch(f"{name}= has another number of entries", f"{name}={value}", f"{count} numbers")
    return {name: tile.extents for name, tile in tiles.items()}


@primitive(scopes=("thread",), shapes=pixels_and_channels, elements=one_dtype)
def im2col_async(
    dst: Out,
    src: In,
    *,
    pixel: object = None,
    channel: object = None,
    tap: object = None,
    taps: tuple[int, ...] | None = None,
    padding: tuple[int, ...] | None = None,
    stride: tuple[int, ...] | None = None,
    dilation: tuple[int, ...] | None = None,
    mbar: object = None,
    cta_mask: object = None,
    cta_group: Literal[1, 2] = 1,
    cache_hint: Literal["", "evict_first", "evict_last", "evict_normal"] = "",
) -> None:
    """The call begins to bring to row i of `dst` the channels that a filter's tap meets at the i-th pixel.

    pixel: the first output pixel, (image, [depth, [row,]] column); the others follow in row-major order. channel: the
    first one. tap: the place in the filter, (depth, row, column). taps: how many the filter has along each dimension.
    padding: zeros in front of and behind each dimension. stride: input pixels from one output pixel to the next.
    dilation: input pixels from one tap to the next. mbar: the m-barrier at which the copy completes its bytes.
    cta_mask: the CTAs of the cluster that get them. cta_group: 2 where the m-barrier may be that of the pair's other
    CTA.
    """
    spatial = src.shape[1:-1]
    window = Window(len(spatial), {"taps": taps, "padding": padding, "stride": stride, "dilation": dilation})
    outputs = (src.shape[0], *window.outputs(spatial))
    first = np.ravel_multi_index(_ints(pixel, len(outputs)), outputs)
    begin = 0 if channel is None else int(channel)  # type: ignore[call-overload]  # an int, outside of kernels
    rows = dst.reshape(-1, dst.shape[-1])
    for number, row in enumerate(rows, start=int(first)):
        row[...] = 0
        if number >= np.prod(outputs):
            continue
        image, *places = np.unravel_index(number, outputs)
        where = [
            int(place) * step - pad + at * apart
            for place, step, pad, at, apart in zip(
                places, window.stride, window.padding, _ints(tap, len(spatial)), window.dilation, strict=True
            )
        ]
        if all(0 <= i < extent for i, extent in zip(where, spatial, strict=True)):
            met = src[(int(image), *where)][begin : begin + len(row)]
            row[: len(met)] = met


def _ints(value: object, count: int) -> tuple[int, ...]:
    return tuple(map(int, value)) if isinstance(value, tuple) else (0,) * count


# permute_layout: the same elements in another layout.


@primitive(shapes=equal_extents, elements=one_dtype)
def permute_layout(dst: Out, src: In) -> None:
    """`dst` gets the elements of `src`, in its own layout. All are read before any is written."""
    dst[...] = src.reshape(dst.shape).copy()
