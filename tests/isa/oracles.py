"""All oracles: the files of the families, `*_oracles.py`, are found here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.isa.registry import ORACLES, SCALAR_ORACLES, Warp

__all__ = ["ORACLES", "SCALAR_ORACLES", "Warp", "covered"]

FAMILIES = [import_module(f"tests.isa.{path.stem}") for path in sorted(Path(__file__).parent.glob("*_oracles.py"))]


def covered() -> set[str]:
    """The rows that have an oracle of their own beside `ORACLES`, as the families name them."""
    return {*SCALAR_ORACLES}.union(*(getattr(family, "COVERED", ()) for family in FAMILIES))
