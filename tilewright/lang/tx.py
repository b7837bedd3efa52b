"""``Tx``: tile calls. What type checkers see of it is in `tx.pyi`, which `make docs` writes from the declarations."""

from tilewright.lang.tiles import TileNamespace

__all__ = ["Tx"]

Tx = TileNamespace("thread", "Tx")
