"""copy: moves a tile from one memory to another."""

from __future__ import annotations

from typing import Annotated, Any

from numpy.typing import NDArray

from tilewright.primitives.elements import all_of, convertible, equal_extents, whole_vectors
from tilewright.primitives.table import Role, primitive

CLIP, FILL = "clip", "fill"
ASKED = (CLIP, FILL)
To = Annotated[NDArray[Any], Role("out", written=True, if_asked=ASKED)]
From = Annotated[NDArray[Any], Role("in", if_asked=ASKED)]


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
