"""What type checkers and editors see of ``Tx``. Made by `make docs` from `tilewright/primitives/`."""

from typing import Any, Literal

__all__ = ["Tx"]

Tile = Any  # a buffer, or a region of one
Value = Any  # a number, a scalar, an element of a buffer

class TileFunctions:
    @staticmethod
    def all(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` becomes true where no element of `src` along `axes` is 0."""
    @staticmethod
    def any(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` becomes true where some element of `src` along `axes` is not 0."""
    @staticmethod
    def argmax(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        workspace: object = None,
    ) -> None:
        """`dst` gets the position of the first largest element of `src` along `axes`; a NaN is the largest."""
    @staticmethod
    def argmin(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        workspace: object = None,
    ) -> None:
        """`dst` gets the position of the first smallest element of `src` along `axes`; a NaN is the smallest."""
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
    def max(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        nan: Literal["propagate", "number"] = "propagate",
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the largest elements of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def min(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        nan: Literal["propagate", "number"] = "propagate",
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the smallest elements of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def permute_layout(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        workspace: object = None,
    ) -> None:
        """`dst` gets the elements of `src`, in its own layout. All are read before any is written."""
    @staticmethod
    def prod(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the products of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def scan(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axis: int = -1,
        op: Literal["sum", "prod", "max", "min"] = "sum",
        exclusive: bool = False,
        workspace: object = None,
    ) -> None:
        """Each element of `dst` gets what the elements of `src` along `axis` come to, up to its own."""
    @staticmethod
    def sum(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the sums of `src` along `axes`; what is outside of its buffer counts nothing."""
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
