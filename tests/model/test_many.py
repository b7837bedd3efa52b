"""Many threads touch one place, barriers of CTAs or warps between, then one of them does: is the pair that races seen?

The oracle knows of each thread how far it comes after each other one, and looks at all pairs of accesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tilewright as tw
from tests.samples import sampled
from tests.texts import executed
from tilewright import T
from tilewright.errors import SimulationError

LANES = 32
Bools: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
ALL = -1


@dataclass(frozen=True)
class Access:
    """cta, warp, lane: who; `ALL` for all of them. scope: of a strong one, "" for a plain one."""

    kind: str
    scope: str = ""
    cta: int = ALL
    warp: int = ALL
    lane: int = ALL

    def acts(self, shape: Shape) -> Bools:
        """Which threads of the grid?"""
        warp, lane = np.divmod(np.arange(shape.ctas * shape.warps * LANES), LANES)
        found = np.ones(len(warp), np.bool_)
        for only, number in ((self.cta, warp // shape.warps), (self.warp, warp % shape.warps), (self.lane, lane)):
            found &= (only == ALL) | (number == only)
        return found

    def text(self, place: str, number: int) -> str:
        value = f"T.uint32({number * 1000 + 1}) + T.cast(cta * 100 + warp * 32 + lane, 'uint32')"
        if not self.scope:
            return {"load": f"seen = seen + {place}[0]", "store": f"{place}[0] = {value}"}[self.kind]
        order = f'sem="relaxed", scope="{self.scope}"'
        return {
            "load": f"seen = seen + T.ptx.ld({place}.ptr_to([0]), {order})",
            "store": f"T.ptx.st({place}.ptr_to([0]), {value}, {order})",
            "add": f"T.ptx.red.add({place}.ptr_to([0]), T.uint32(1), {order})",
            "take": f"seen = seen + T.ptx.atom.add({place}.ptr_to([0]), T.uint32(1), {order})",
        }[self.kind]


@dataclass(frozen=True)
class Shape:
    """place: "g", of all CTAs, or "s", of the shared memory of each. cluster: CTAs that have a barrier in common."""

    ctas: int
    warps: int
    cluster: int
    place: str


BARRIERS = {"cta": "T.cuda.cta_sync()", "warp": "T.cuda.warp_sync()", "cluster": "T.cuda.cluster_sync()"}


def source(shape: Shape, steps: tuple[Access | str, ...]) -> str:
    first = f"T.cluster_id([{shape.ctas // shape.cluster}])" if shape.cluster > 1 else ""
    lines = [first] if first else []
    lines += [f"cta = T.cta_id([{shape.ctas}])", f"warp = T.warp_id([{shape.warps}])", "lane = T.lane_id([32])"]
    lines += ['s = T.alloc_shared((1,), "uint32")', "seen: T.uint32 = 0"]
    for number, step in enumerate(steps):
        if isinstance(step, str):
            lines.append(BARRIERS[step])
            continue
        indent = ""
        for axis in ("cta", "warp", "lane"):
            if (only := getattr(step, axis)) != ALL:
                lines.append(f"{indent}if {axis} == {only}:")
                indent += "    "
        lines.append(indent + step.text(shape.place, number))
    lines.append(f"out[(cta * {shape.warps} + warp) * 32 + lane] = seen")
    head = '@T.prim_func\ndef kernel(g: T.Buffer((1,), "uint32"), out: T.Buffer((N,), "uint32")):\n    '
    return head.replace("N", str(shape.ctas * shape.warps * LANES)) + "\n    ".join(lines) + "\n"


def races(shape: Shape, steps: tuple[Access | str, ...]) -> bool | None:
    """Are there two accesses of one place, one a write, that nothing orders and that are not morally strong? None where
    it depends on what a thread has observed by a strong read of its own.
    """
    each = np.arange(shape.ctas * shape.warps * LANES)
    warp = each // LANES
    cta = warp // shape.warps
    members = {"warp": warp, "cta": cta, "cluster": cta // shape.cluster}
    home = cta if shape.place == "s" else np.zeros_like(cta)
    near = cta[:, None] == cta
    known = np.full((len(each), len(each)), -1)  # the last step of the second thread that comes before the first one
    read = {scope: np.full(len(each), -1) for scope in ("cta", "gpu")}  # the last strong read
    done: list[tuple[int, Access, Bools]] = []
    doubtful = False
    for now, step in enumerate(steps):
        if isinstance(step, str):
            for group in np.unique(members[step]):
                those = members[step] == group
                known[those] = known[those].max(0)
                known[np.ix_(those, those)] = now
            continue
        acts = step.acts(shape)
        done.append((now, step, acts))
        for time, other, acted in done:
            if step.kind == other.kind == "load":
                continue
            meet = acts[:, None] & acted[None, :] & (each[:, None] != each) & (home[:, None] == home) & (known < time)
            if step.scope and other.scope:
                meet &= ~near & ("cta" in (step.scope, other.scope))
            elif other.scope and other.kind != "load":
                seen = (read["gpu"][:, None] >= time) & (near | (other.scope == "gpu"))
                seen |= (read["cta"][:, None] >= time) & near
                doubtful |= bool((meet & seen).any())
                meet &= ~seen
            if meet.any():
                return True
        if step.scope and step.kind in ("load", "take"):
            read[step.scope][acts] = now
    return None if doubtful else False


def is_told(shape: Shape, steps: tuple[Access | str, ...]) -> bool:
    kernel = executed(source(shape, steps), "<many>", T=T)["kernel"]
    out = np.zeros(shape.ctas * shape.warps * LANES, np.uint32)
    try:
        tw.compile(kernel, target="sm_90a").simulate(np.zeros(1, np.uint32), out, check="races")
    except SimulationError:
        return True
    return False


KINDS = [
    ("load", ""),
    ("store", ""),
    *((kind, scope) for kind in ("load", "store", "add", "take") for scope in ("gpu", "cta")),
]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Shape, tuple[Access | str, ...]]:
    cluster = draw(st.sampled_from((1, 1, 2)))
    shape = Shape(
        draw(st.sampled_from((1, 2, 3, 4))) * cluster, draw(st.integers(1, 3)), cluster, draw(st.sampled_from("ggs"))
    )
    barriers = st.sampled_from(("cta", "cta", "warp") + (("cluster",) if cluster > 1 else ()))
    ends = [st.sampled_from(sorted({0, count // 2, count - 1})) for count in (shape.ctas, shape.warps, LANES)]

    def access() -> Access:
        kind = draw(st.sampled_from(KINDS))
        return Access(*kind, *(draw(st.one_of(st.just(ALL), end)) for end in ends))

    steps: list[Access | str] = []
    for _ in range(draw(st.integers(1, 4))):
        steps.append(access())
        steps += draw(st.lists(barriers, max_size=1))
    return shape, (*steps, access())


@sampled(60, 3000)
@given(programs())
def test_a_race_is_told_whoever_of_many_accesses_the_place_last(given: tuple[Shape, tuple[Access | str, ...]]) -> None:
    shape, steps = given
    wanted = races(shape, steps)
    assume(wanted is not None)

    assert is_told(shape, steps) == wanted, source(shape, steps)


@pytest.mark.every(3)
@pytest.mark.parametrize("begin", KINDS)
@pytest.mark.parametrize("cta", [0, 1, 2])
def test_a_race_that_all_ctas_begin_is_told_whichever_of_them_accesses_last(begin: tuple[str, str], cta: int) -> None:
    for last in KINDS:
        shape, steps = Shape(3, 2, 1, "g"), (Access(*begin), "cta", Access(*last, cta, 0, 0))

        assert is_told(shape, steps) == (races(shape, steps) is not False), source(shape, steps)


STORES = {
    "plain": "{0}[0] = T.uint32(7)",
    "relaxed": 'T.ptx.st({0}.ptr_to([0]), T.uint32(7), sem="relaxed", scope="gpu")',
    "volatile": 'T.ptx.st({0}.ptr_to([0]), T.uint32(7), sem="volatile")',
    "exchanged": "T.ptx.atom.exch({0}.ptr_to([0]), T.uint32(7))",
    "or": "T.ptx.red.or_({0}.ptr_to([0]), T.uint32(7))",
}


@pytest.mark.parametrize("place", ["g", "s"])
@pytest.mark.parametrize("one", STORES)
@pytest.mark.parametrize("other", STORES)
def test_equal_values_excuse_plain_stores_alone(place: str, one: str, other: str) -> None:
    first, last = ("cta == 0", "cta == 1") if place == "g" else ("warp == 0", "warp == 1")
    first, last = (f"{of} and tid == {32 * (of[:4] == 'warp' and of[-1] == '1')}" for of in (first, last))
    lines = [f"if {first}:", f"    {STORES[one].format(place)}"]
    lines += [f"if {last}:", f"    {STORES[other].format(place)}"]
    head = ["cta = T.cta_id([2])", "warp = T.warp_id([2])", "tid = T.thread_id([64])"]
    body = [
        *head,
        's = T.alloc_shared((1,), "uint32")',
        "if tid == 0:\n        s[0] = 7",
        "T.cuda.cta_sync()",
        *lines,
    ]
    text = "\n    ".join(['@T.prim_func\ndef kernel(g: T.Buffer((1,), "uint32")):', *body]) + "\n"
    kernel = tw.compile(executed(text, "<equal>", T=T)["kernel"])

    if {one, other} == {"plain"}:
        assert "equal values" in "".join(kernel.simulate(np.full(1, 7, np.uint32), check="races").warnings)
    elif "plain" in (one, other):
        with pytest.raises(SimulationError, match="race"):
            kernel.simulate(np.full(1, 7, np.uint32), check="races")
    else:
        assert not kernel.simulate(np.full(1, 7, np.uint32), check="races").warnings
