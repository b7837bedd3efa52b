"""``Tx``: tile calls. ``Tx.copy`` is one thread's; ``Tx.warp``, ``Tx.wg``, ``Tx.cta`` are collectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import KernelError, choices
from tilewright.ir import Buffer, Expr, Load, Region, TileCall, as_expr
from tilewright.lang.builder import current
from tilewright.lang.settings import argument
from tilewright.lang.types import UnknownName

__all__ = ["PRIMITIVES", "SCOPES", "Tx"]

PRIMITIVES = {"copy": ("dst", "src"), "copy_async": ("dst", "src")}
"""The tile primitives, and the names of their regions."""

SCOPES = {
    "thread": "thread",
    "warp": "warp",
    "wg": "warpgroup",
    "warpgroup": "warpgroup",
    "cta": "cta",
    "cluster": "cluster",
}
"""The execution scopes, as written and as the IR has them."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """``Tx.warp.copy``: a tile primitive in the hands of a scope."""

    name: str
    scope: str

    def __call__(self, *args: object, dispatch: str | None = None, **config: object) -> None:
        """Make the call a statement of the kernel. config: what the variants read."""
        builder = current(f"Tx.{self.name}")
        names = PRIMITIVES[self.name]
        regions = [*args, *(config.pop(name) for name in names[len(args) :] if name in config)]
        if len(regions) != len(names):
            raise KernelError(f"Tx.{self.name} takes {' and '.join(names)}", given=f"{len(regions)} arguments")
        made = TileCall(
            self.name,
            self.scope,
            tuple(_region(f"{self.name}: {name}", value) for name, value in zip(names, regions, strict=True)),
            dispatch,
            tuple((key, argument(value)) for key, value in config.items() if value is not None),
            at=builder.at,
        )
        builder.emit(made)


def _region(what: str, value: object) -> Region:
    """A tile: a region, a whole buffer, or one element."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Buffer):
        return value.region()
    if isinstance(value, Load):
        return Region.of(value.buffer, tuple(slice(index, index + 1) for index in value.indices))
    given = f"`{as_expr(value)}`" if isinstance(value, Expr) else repr(value)
    raise KernelError(f"{what} is a tile", given=given, allowed="a buffer or a region of one: A, A[0:8, :]")


class TileNamespace:
    """``Tx`` and its scopes."""

    def __init__(self, scope: str, prefix: str) -> None:
        self._scope, self._prefix = scope, prefix

    def __getattr__(self, name: str) -> Any:  # as for T: a kernel is parsed, not run by Python
        if name.startswith("__"):  # Python's own protocols ask for these
            raise AttributeError(name)
        if name in PRIMITIVES:
            return Primitive(name, self._scope)
        if name in SCOPES and self._prefix == "Tx":
            return TileNamespace(SCOPES[name], f"Tx.{name}")
        allowed = choices(name, dir(self))
        raise UnknownName(f"{self._prefix}.{name} is not a tile primitive", given=name, allowed=allowed)

    def __dir__(self) -> list[str]:
        return [*PRIMITIVES, *(SCOPES if self._prefix == "Tx" else ())]

    def __repr__(self) -> str:
        return self._prefix


Tx = TileNamespace("thread", "Tx")
