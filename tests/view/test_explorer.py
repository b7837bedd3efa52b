"""The explorer's JavaScript computes what our Python computes: places of layouts, the algebra, wavefronts."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from math import prod
from typing import Any

import numpy as np
import pytest

from tilewright.errors import LayoutError
from tilewright.layout import ComposeLayout, Iter, Layout, R, SwizzleLayout, TileLayout, cute_shape, from_cute
from tilewright.layout.axes import Axis
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.sites import default_phase, wavefronts
from tilewright.view.look.page import FILES, explorer

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")

DRIVER = """
const look = require(process.argv[1]);
const asked = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const does = {
  table: ([text, shape]) => look.tableOf(look.parseLayout(text), shape),
  composed: ([a, b]) => look.write(look.composition(look.parseLayout(a), look.parseLayout(b))),
  complement: ([a, most]) => look.write(look.complement(look.parseLayout(a), most)),
  wavefronts: (given) => { const found = look.wavefronts(...given); return [found.total, found.ideal]; },
};
const answers = asked.map(([what, given]) => {
  try { return { ok: does[what](given) }; } catch (problem) { return { problem: problem.message }; }
});
console.log(JSON.stringify(answers));
"""


def answers(asked: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["node", "-e", DRIVER, str(FILES / "layouts.js")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def random_tile(pick: random.Random) -> TileLayout:
    """Extents up to 8, strides on memory, lanes and warps, perhaps replicas and offsets."""
    axes = [Axis.get(name) for name in ("m", "laneid", "warpid")]
    iters = [
        Iter(pick.choice((1, 2, 3, 4, 8)), pick.choice((0, 1, 2, 3, 8, 16, 64)), pick.choice(axes))
        for _ in range(pick.randint(1, 4))
    ]
    made = TileLayout(iters)
    if pick.random() < 0.3:
        made = made + R[(pick.choice((2, 4)),) : (pick.choice((1, 4)) @ pick.choice(axes),)]
    return made + pick.randint(1, 9) @ pick.choice(axes) if pick.random() < 0.3 else made


def random_layout(pick: random.Random) -> tuple[str, Layout, tuple[int, ...]]:
    """A text of either notation, the layout that Python reads in it, and a shape of it."""
    kind = pick.randrange(3)
    if kind == 0:
        made: Layout = random_tile(pick)
        extents = [int(it.extent) for it in made.shard]  # type: ignore[attr-defined]  # a TileLayout
        cut = pick.randint(0, len(extents))
        return str(made), made, tuple(n for n in (prod(extents[:cut]), prod(extents[cut:])) if n > 1) or (1,)
    extents = [pick.choice((1, 2, 3, 4, 8)) for _ in range(4)]
    strides = [pick.choice((0, 1, 2, 5, 8, 16, 64)) for _ in range(4)]
    a, b, c, d = extents
    text = f"(({a},{b}),({c},{d})):(({strides[0]},{strides[1]}),({strides[2]},{strides[3]}))"
    if kind == 2:
        bits = pick.randint(1, 3)
        text = f"Sw<{bits},{pick.randint(0, 4)},{pick.randint(bits, 4)}> o {pick.choice((0, 0, 8))} o {text}"
    return text, from_cute(text), tuple(cute_shape(text))


def test_places_are_those_of_a_thousand_layouts_in_python() -> None:
    pick = random.Random(2)
    cases = [random_layout(pick) for _ in range(1200)]
    found = answers([("table", (text, shape)) for text, _, shape in cases])
    for (text, made, shape), answer in zip(cases, found, strict=True):
        wanted = {axis: table.reshape(prod(shape), -1)[:, 0].tolist() for axis, table in made.table(shape).items()}
        assert "ok" in answer, (text, answer)
        got = {axis: places for axis, places in answer["ok"].items() if any(places) or axis in wanted}
        assert got == wanted, text


def test_a_swizzle_in_our_own_notation_is_read() -> None:
    made = ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout([Iter(8, 64), Iter(64, 1)]))
    (answer,) = answers([("table", (str(made), (8, 64)))])
    assert answer["ok"]["m"] == made.table((8, 64))["m"].reshape(-1).tolist()


def values(text: str) -> list[int]:
    """The offsets of a CuTe layout by its index, first extent fastest."""
    shape = tuple(cute_shape(text))
    table = np.asarray(from_cute(text).table(shape)["m"]).reshape(shape)
    return [int(x) for x in table.reshape(-1, order="F")]


def test_a_composition_is_what_its_parts_do_one_after_the_other() -> None:
    pick = random.Random(3)
    cases: list[tuple[str, str]] = []
    while len(cases) < 600:
        a = [pick.choice((2, 3, 4, 6, 8)) for _ in range(2)]
        most, strides = prod(a), (pick.choice((1, 2, 8)), pick.choice((1, 16, 40)))
        b, stride = pick.choice((1, 2, 3, 4, 6)), pick.choice((1, 2, 3, 4, 6, 8))
        if (b - 1) * stride < most:
            cases.append((f"({a[0]},{a[1]}):({strides[0]},{strides[1]})", f"{b}:{stride}"))
    found = answers([("composed", case) for case in cases])
    right = 0
    for (left, by), answer in zip(cases, found, strict=True):
        if "ok" in answer:
            right += 1
            outer = values(left)
            assert values(answer["ok"]) == [outer[at] for at in values(by)], (left, by, answer)
        else:
            assert "is no layout" in answer["problem"]
    assert right > 300


def test_a_complement_fills_what_a_layout_leaves_out() -> None:
    pick = random.Random(4)
    cases: list[tuple[str, int]] = []
    while len(cases) < 400:
        gaps = [pick.choice((1, 2, 3, 4)) for _ in range(2)]
        extents = [pick.choice((2, 3, 4)) for _ in range(2)]
        strides = (gaps[0], gaps[0] * extents[0] * gaps[1])
        reach = strides[1] * extents[1]
        cases.append((f"({extents[0]},{extents[1]}):({strides[0]},{strides[1]})", reach * pick.choice((1, 2, 3))))
    for (a, most), answer in zip(cases, answers([("complement", case) for case in cases]), strict=True):
        both = [x + y for x in values(a) for y in values(answer["ok"])]
        assert sorted(both) == list(range(most)), (a, most, answer)


def test_wavefronts_are_those_that_the_simulator_counts() -> None:
    pick = random.Random(5)
    asked, wanted = [], []
    for _ in range(600):
        width, store = pick.choice((2, 4, 8, 16)), pick.random() < 0.5
        step, start = pick.choice((0, 1, 2, 4, 8, 32)), pick.randrange(8)
        at = [width * (start + lane * step if pick.random() < 0.9 else pick.randrange(256)) for lane in range(32)]
        on = [pick.random() < 0.8 for _ in range(32)] if pick.random() < 0.4 else [True] * 32
        on[0] = True
        asked.append(("wavefronts", ([a if o else None for a, o in zip(at, on, strict=True)], width, {"store": store})))
        active = None if all(on) else np.array(on).reshape(1, 1, 32)
        where = Address(0, Part(np.array(at, np.int64).reshape(1, 1, 32)))
        wanted.append(list(wavefronts(where, 32, width, default_phase(width), active, pairs=not store)))
    assert [answer["ok"] for answer in answers(asked)] == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [("(8,4):(1", "bracket"), ("(8,4):1", "differ"), ("S[(8):(x)]", "no number"), ("Sw<3,4,2> o 0 o 8:1", "overlap")],
)
def test_what_is_no_layout_is_refused_with_a_reason(text: str, said: str) -> None:
    (answer,) = answers([("table", (text, [8]))])
    assert said in answer["problem"]
    with pytest.raises(LayoutError, match=r"\S"):
        from_cute(text)


def test_the_explorer_is_one_page_that_loads_nothing() -> None:
    text = explorer()
    assert text.count("<script") == 1
    assert "src=" not in text.split("<script")[0]
