"""copy_async: begins to move a tile from one memory to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from tilewright.primitives.copy import ASKED
from tilewright.primitives.elements import equal_extents, one_dtype
from tilewright.primitives.table import WITHIN_A_CTA, Array, Mismatch, Role, Tile, primitive

ASKED_OF_TMA = (*ASKED, "oob")
To = Annotated[Array, Role("out", written=True, if_asked=ASKED_OF_TMA)]
From = Annotated[Array, Role("in", if_asked=ASKED_OF_TMA)]


def unpacked(tiles: Mapping[str, Tile], keywords: Mapping[str, object]) -> Mismatch | None:
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
