"""copy: moves a tile from one memory to another."""

from __future__ import annotations

from tilewright.primitives.elements import all_of, one_dtype, whole_vectors
from tilewright.primitives.shapes import equal_extents
from tilewright.primitives.table import In, Out, primitive

__all__ = ["copy"]


@primitive(shapes=equal_extents, elements=all_of(one_dtype, whole_vectors))
def copy(dst: Out, src: In, *, vec_len: int | None = None) -> None:
    """When the call returns, the calling threads have moved the elements of `src` to `dst`.

    vec_len: elements of one access; the widest that fits, if left out.
    """
    dst[...] = src.reshape(dst.shape)
