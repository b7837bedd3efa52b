"""``Tx``: tile calls. What type checkers see of it is in `tx.pyi`, which `make docs` writes from the declarations."""

from tilewright.lang.tile_assignments import TileNamespace

Tx = TileNamespace("thread", "Tx")
