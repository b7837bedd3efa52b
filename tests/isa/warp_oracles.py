"""The meaning of what a warp's lanes do together by the manual: shuffles, votes and reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from tests.isa.registry import Warp, Words, oracle


def shuffled(warp: Warp, mode: str, a: list[Any], b: Words, c: Words) -> list[tuple[bool, Any]]:
    """Whether each lane has a source, and what it gets. c: the clamp, and from bit 8 on the mask of segments."""
    found = []
    for lane in range(32):
        end, segment, by = c[lane] & 31, c[lane] >> 8 & 31, b[lane] & 31
        last, first = (lane & segment) | (end & ~segment & 31), lane & segment
        j = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | (by & ~segment & 31)}[mode]
        inside = j >= last if mode == "up" else j <= last
        found.append((inside, a[j if inside else lane]))
    return found


@oracle("ptx.shfl.sync")
def written_shfl(warp: Warp, a: list[Any], b: Words, c: Words, mask: Words) -> list[Any]:
    return [found[warp.mods["out"] != "p"] for found in shuffled(warp, warp.mods["mode"], a, b, c)]


@oracle(*(f"cuda.shfl{way}_sync" for way in ("", "_up", "_down", "_xor")))
def shfl(warp: Warp, mask: Words, value: list[Any], by: Words, width: Words) -> list[Any]:
    mode = {"": "idx", "_up": "up", "_down": "down", "_xor": "bfly"}[warp.mods["name"][9:-5]]
    c = [32 - lanes << 8 | (0 if mode == "up" else 31) for lanes in width]
    return [found for _, found in shuffled(warp, mode, value, by, c)]


def answers(warp: Warp, a: list[bool]) -> dict[str, int]:
    """What a vote of each kind says."""
    given = [a[lane] for lane in warp.lanes]
    ballot = sum(1 << lane for lane in warp.lanes if a[lane])
    return {"all": all(given), "any": any(given), "uni": len(set(given)) == 1, "ballot": ballot}


@oracle("ptx.vote.sync")
def written_vote(warp: Warp, a: list[bool], mask: Words) -> list[int]:
    return [answers(warp, a)[warp.mods["mode"]]] * 32


@oracle(*(f"cuda.{mode}_sync" for mode in ("all", "any", "ballot")))
def vote(warp: Warp, mask: Words, cond: list[bool]) -> list[int]:
    return [answers(warp, cond)[warp.mods["name"][5:-5]]] * 32


JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "add": sum,
    "min": min,
    "max": max,
    "and": partial(reduce, lambda x, y: x & y),
    "or": partial(reduce, lambda x, y: x | y),
    "xor": partial(reduce, lambda x, y: x ^ y),
}


@oracle(*(f"cuda.reduce_{name}_sync" for name in JOINS))
def redux(warp: Warp, mask: Words, value: list[int]) -> list[int]:
    return [JOINS[warp.mods["name"].split("_")[1]]([value[lane] for lane in warp.lanes])] * 32


@oracle("ptx.redux.sync")
def written_redux(warp: Warp, a: list[Any], mask: Words) -> list[Any]:
    return [JOINS[warp.mods["op"]]([abs(a[lane]) if warp.mods["magnitude"] else a[lane] for lane in warp.lanes])] * 32


@oracle("ptx.match.sync")
def written_match(warp: Warp, a: Words, mask: Words) -> list[int]:
    if warp.mods["mode"] == "any":
        return [sum(1 << other for other in warp.lanes if a[other] == a[lane]) for lane in range(32)]
    alike = len({a[lane] for lane in warp.lanes}) == 1
    return [alike if warp.mods["out"] == "p" else alike * sum(1 << lane for lane in warp.lanes)] * 32


@oracle("ptx.activemask", "cuda.activemask")
def active(warp: Warp) -> Words:
    return [sum(1 << lane for lane in warp.lanes)] * 32


@oracle("ptx.elect.sync")
def elected(warp: Warp, mask: Words) -> list[int]:
    return [lane == warp.lanes[0] if warp.mods["out"] == "p" else warp.lanes[0] for lane in range(32)]
