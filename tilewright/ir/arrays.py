"""An array that is passed to a kernel, without its data: what a call is checked by, wherever the data lives."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

__all__ = ["ArrayInfo"]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array that is passed, without its data.

    dtype: its element type by name. strides: in elements, not always whole; None where it is C-contiguous.
    address: in bytes, or any number that is a multiple of the same powers of two; None where it is not known.
    device: "cpu", "cuda:0". is_tensor: of torch's kind, with `.to` in the place of `.astype`.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[float, ...] | None = None
    address: int | None = None
    device: str = "cpu"
    readonly: bool = False
    is_tensor: bool = False

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Row major without gaps; strides of extents of one mean nothing."""
        if self.strides is None or not self.size:
            return True
        pairs = zip(self.shape, self.strides, _row_major(self.shape), strict=True)
        return all(extent == 1 or stride == step for extent, stride, step in pairs)

    @property
    def steps(self) -> tuple[float, ...]:
        """The strides, of a C-contiguous array too."""
        return _row_major(self.shape) if self.strides is None else self.strides

    @property
    def span(self) -> int:
        """Elements from the first to the last in memory."""
        reach = sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        return int(reach) + 1 if self.size else 0

    @property
    def alignment(self) -> int:
        """The largest power of two, up to 1024 bytes, that the address is a multiple of."""
        return 1024 if not self.address else min(1024, self.address & -self.address)

    def converted(self, dtype: str) -> str:
        """A hint for the caller: how to convert the array to another dtype, or to reinterpret its bits."""
        if self.is_tensor:
            return f".to(torch.{dtype}) on the tensor; .view(torch.{dtype}) where its bits are meant"
        return f".astype({dtype!r}) on the array; .view({dtype!r}) where its bits are meant"

    def __str__(self) -> str:
        return f"{self.dtype} of shape ({', '.join(map(str, self.shape))})"


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
