"""The pictures of the course: for each step, who does what, from left to right. Numbers are stages or accumulators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilewright.view import Cell, Grid, svg
from tools.size import ROOT

__all__ = ["course_pictures"]

FOLDER = ROOT / "docs" / "pictures"
Rows = Mapping[str, str]  # by actor, what it does in each column, parted by |

RING = {
    "copy engine": "fills 0|fills 1|waits for empty 0|fills 0",
    "tensor cores": "wait for full 0|read 0|read 1|wait for full 0",
}
DRAWN: Mapping[int, tuple[str, Rows]] = {
    1: ("one product", {
        "128 threads": "store a, b|fence, meet|wait for done|load their rows",
        "tensor cores": "||multiply|",
        "tensor memory": "|is empty|is written|is read",
    }),
    2: ("steps along K: phases of one m-barrier", {
        "128 threads": "store k = 0|wait for phase 0|store k = 1|wait for phase 1",
        "tensor cores": "|D = A B||D += A B",
    }),
    3: ("the copy engine brings the operands", {
        "one thread": "announces, asks|waits for full|starts the product|waits for done",
        "copy engine": "|writes a, b||",
        "tensor cores": "|||multiply",
    }),
    4: ("a ring of two stages", RING),
    5: ("roles, and a tile for each CTA", {
        "warp 4": "asks for 0|asks for 1|waits for empty 0|has done",
        "warp 5": "waits for full 0|multiplies 0|multiplies 1|commits done",
        "warps 0 to 3": "wait for done|wait for done|wait for done|load, store",
    }),
    6: ("CTAs that stay: one accumulator", {
        "tensor cores": "tile 0|wait for free|tile 1|wait for free",
        "warps 0 to 3": "wait for done|load tile 0|store tile 0|load tile 1",
    }),
    7: ("two accumulators take turns", {
        "tensor cores": "tile 0 in 0|tile 1 in 1|tile 2 in 0|tile 3 in 1",
        "warps 0 to 3": "wait for done 0|load, store 0|load, store 1|load, store 0",
    }),
    8: ("a pair computes one tile", {
        "CTA 0, copies": "rows 0 to 127 of A, columns 0 to 63 of B|||",
        "CTA 1, copies": "rows 128 to 255 of A, columns 64 to 127 of B|||",
        "CTA 0, tensor cores": "|256 x 128 for both||",
        "both": "||load their 128 rows|store them",
    }),
    9: ("a ring for two: the commit goes to both", {
        "CTA 0, copies": "fills 0|fills 1|waits for empty 0|fills 0",
        "CTA 1, copies": "fills 0|fills 1|waits for empty 0|fills 0",
        "leading thread": "waits for full 0|reads 0 of both|commits to both|reads 1 of both",
    }),
    10: ("pairs that stay, with two accumulators", {
        "copies": "tile 0|tile 1|tile 2|tile 3",
        "tensor cores": "|tile 0 in 0|tile 1 in 1|tile 2 in 0",
        "warps 0 to 3": "||tile 0 from 0|tile 1 from 1",
    }),
}  # fmt: skip


def course_pictures() -> Mapping[Path, str]:
    """Every picture, with its text."""
    return {FOLDER / f"course_{n:02}.svg": svg(_drawn(*drawn)) + "\n" for n, drawn in DRAWN.items()}


def _drawn(title: str, rows: Rows) -> Grid:
    cells = {actor: tuple(map(_cell, told.split("|"))) for actor, told in rows.items()}
    heads = tuple(f"then {k}" if k else "first" for k in range(4))
    return Grid(title, tuple(cells.values()), heads, tuple(cells), "")


def _cell(told: str) -> Cell:
    """Coloured by the number that it names; who waits has no colour."""
    number = re.search(r"\d+", told)
    waits = not told or told.startswith("wait")
    return Cell(told, -1 if waits else int(number[0]) % 8 if number else 8)
