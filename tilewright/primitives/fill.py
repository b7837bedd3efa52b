"""fill, memset and zero: give every element of a tile one value."""

from __future__ import annotations

from tilewright.primitives.elements import whole_vectors
from tilewright.primitives.table import Clipped, Scalar, Unread, primitive


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
