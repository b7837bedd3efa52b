"""What type checkers and editors see of ``Tx``. Made by `make docs` from `tilewright/primitives/`."""

from typing import Any, Literal

__all__ = ["Tx"]

Tile = Any  # a buffer, or a region of one
Value = Any  # a number, a scalar, an element of a buffer

class TileFunctions:
    @staticmethod
    def copy(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """When the call returns, the calling threads have moved the elements of `src` to `dst`."""
    @staticmethod
    def copy_async(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        cta_group: Literal[1, 2] = 1,
        fmt: Literal["", "b4x16_p64", "b6x16_p32"] = "",
        mbar: object = None,
        cta_mask: object = None,
        cache_hint: Literal["", "evict_first", "evict_last", "evict_normal"] = "",
        oob: Literal["", "zero", "nan"] = "",
        use_tma_reduce: Literal["", "add", "min", "max", "inc", "dec", "and", "or", "xor"] = "",
        workspace: object = None,
    ) -> None:
        """The call begins to move the elements of `src` to `dst`; waiting for its completion is the caller's."""
    @staticmethod
    def fill(
        dst: Tile,
        value: Value,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Every element of `dst` gets `value`, converted to its dtype; nothing is stored outside of the buffer."""
    @staticmethod
    def zero(
        dst: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Every element of `dst` becomes 0; nothing is stored outside of the buffer."""

class TileNamespace(TileFunctions):
    thread: TileFunctions
    warp: TileFunctions
    wg: TileFunctions
    warpgroup: TileFunctions
    cta: TileFunctions
    cluster: TileFunctions

Tx: TileNamespace
