"""The files of an addition: one of each kind is made in a copy of the package, its files are counted, and it runs.

This is the promise of CONTRIBUTING.md. Each addition is written as a contributor would write it; nothing else of the
copy changes, so that every reader of it has found it by discovery.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tools.size import ROOT

INSTRUCTION = """
from tilewright.isa.arch import since
from tilewright.isa.forms import Form, Meaning, Ptx, reads, writes
from tilewright.isa.table import ANY_LANES, instruction

instruction(
    "ptx.average", params=("d", "a", "b"), operands=(writes("d", "b32"), reads("a", "b32"), reads("b", "b32")),
    pattern="{d}, {a}, {b}", lanes=ANY_LANES, doc="The mean of two numbers.",
    forms=(Form(Ptx("average.u32"), since("sm_75"), "this test", Meaning(lambda a, b: (a + b) // 2)),),
)
"""
PRIMITIVE = '''
from tilewright.primitives.elements import equal_extents
from tilewright.primitives.table import InOut, Scalar, primitive


@primitive(shapes=equal_extents)
def scale(dst: InOut, by: Scalar) -> None:
    """Every element of `dst` is multiplied by `by`."""
    dst *= by
'''
SCALE = '''
from tilewright.ir import Load, as_expr
from tilewright.tile.conditions import constant_extents, only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.distribution import Distribution, dealt_out, in_memory_order
from tilewright.tile.round_loops import emit_runs


@variant("scale", priority=10, when=[only_in("global"), constant_extents])
def turns(call) -> Distribution:
    """The threads of the scope take turns."""
    return dealt_out(call, in_memory_order(call["dst"]))


@turns.emit
def _(plan, call, out) -> None:
    flat = call["dst"].buffer.flat()

    def scaled(writer, turn) -> None:
        start = writer.at("dst", turn)
        with out.loop("e", plan.vector) as e:
            place = as_expr(start) + e
            out.store(flat, place, Load(flat, (place,)) * call.scalars["by"])

    emit_runs(plan, call, out, scaled)
'''
VARIANT = '''
from tilewright.tile.conditions import constant_extents, only_in
from tilewright.tile.dispatch import variant
from tilewright.tile.distribution import Distribution, dealt_out, in_memory_order
from tilewright.tile.round_loops import emit_copies


@variant("copy", priority=5, when=[only_in("global"), constant_extents])
def gmem_gmem(call) -> Distribution:
    """Neighbouring threads copy neighbouring runs."""
    return dealt_out(call, in_memory_order(call["dst"]))


gmem_gmem.emit(emit_copies)
'''
CHECK = """
from tilewright.errors import SimulationError
from tilewright.sim.checks.base import Check, register


class NoStores(Check):
    def watch(self, site):
        if not site.write:
            return None

        def look(event):
            raise SimulationError("a store", at=site.at)

        return look


register("stores", "every store", NoStores)
"""
AXIS = 'shelf = _axis("shelf")  # of a memory with shelves\n'
# A thread axis with a level of its own: where a table is derived from the rows, the new ones must stand before it.
THREAD_AXES = (
    ('"warp": 32,', '"quad": 4, "warp": 32,'),
    ('cbx = ', 'in_quad = _axis("in_quad", "thread", "quad", "thread")\n'
               'quad = _axis("quad", "thread", "warp", "quad")\n\ncbx = '),
)  # fmt: skip

# For each kind of addition: the files that are new, and the lines that files get.
ADDITIONS: dict[str, dict[str, str]] = {
    "instruction": {"isa/average.py": INSTRUCTION},
    "primitive": {"primitives/scale.py": PRIMITIVE, "tile/scale.py": SCALE},
    "variant": {"tile/gmem_gmem.py": VARIANT},
    "check": {"sim/checks/stores.py": CHECK},
    "axis": {"layout/axes.py": AXIS},
}  # fmt: skip
CHANGES = {"layout/axes.py": THREAD_AXES}
FILES = {"instruction": 1, "primitive": 2, "variant": 1, "check": 1, "axis": 1}
KERNELS = """
import inspect

import numpy as np

import tilewright as tw
from tilewright import T, Tx
from tilewright.errors import SimulationError
from tilewright.ir import COORDINATES
from tilewright.layout import Axis, S


@T.prim_func
def copies(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.cta_id([1])
    T.thread_id([32])
    Tx.cta.copy(B, A)


@T.prim_func
def scales(A: T.Buffer((256,), "float32")):
    T.cta_id([1])
    T.thread_id([32])
    Tx.cta.scale(A, 3)


@T.prim_func
def averages(A: T.Buffer((32,), "uint32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    d = T.alloc_local((1,), "uint32")
    T.ptx.average(d[0], A[lane], T.uint32(4))
    A[lane] = d[0]


def instruction():
    a = np.arange(32, dtype=np.uint32)
    made = tw.compile(averages, target="sm_90a")
    made.simulate(a, check="default")
    return (a == (np.arange(32) + 4) // 2).all() and "average.u32" in made.source("cuda")


def primitive():
    a = np.arange(256, dtype=np.float32)
    made = tw.compile(scales, target="sm_90a")
    made.simulate(a, check="default")
    return (a == 3 * np.arange(256)).all() and list(inspect.signature(Tx.cta.scale).parameters)[:2] == ["dst", "by"]


def variant():
    made, a, b = tw.compile(copies, target="sm_90a"), np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    made.simulate(a, b, check="default")
    return (a == b).all() and made.report.entries[0].variant == "gmem_gmem"


def check():
    try:
        one = np.zeros(256, np.float32)
        tw.compile(copies, target="sm_90a").simulate(one, one.copy(), check="stores")
    except SimulationError as error:
        return "a store" in str(error)


@T.prim_func
def quads(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    T.cta_id([1])
    T.thread_id([64])
    R = T.alloc_buffer((8, 4), "float32", scope="local", layout=S[(8, 4) : (1 @ Axis.quad, 1 @ Axis.in_quad)])
    Tx.cta.copy(R, A)
    Tx.cta.copy(B, R)


@T.prim_func
def of_one_quad(B: T.Buffer((4,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    R = T.alloc_buffer((4,), "float32", scope="local", layout=S[4 : 1 @ Axis.in_quad])
    R[lane % 4] = T.float32(lane // 4)
    Tx.warp.copy(B, R)


@T.prim_func
def of_another(B: T.Buffer((4,), "float32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    R = T.alloc_buffer((4,), "float32", scope="local", layout=S[4 : 1 @ Axis.in_quad])
    R[(lane + 1) % 4] = T.float32(1)


def axis():
    return str(S[8 : 2 @ Axis.shelf]) == "S[8:2@shelf]"


def thread_axis():
    a, b, first = np.arange(32, dtype=np.float32).reshape(8, 4), np.zeros((8, 4), np.float32), np.ones(4, np.float32)
    made = tw.compile(quads, target="sm_90a")
    made.simulate(a, b, check="default")
    tw.compile(of_one_quad, target="sm_90a").simulate(first, check="default")
    composed = S[(8, 4) : (1 @ Axis.quad, 1 @ Axis.in_quad)].canonicalize() == S[32 : 1 @ Axis.laneid]
    return composed and (a == b).all() and not first.any() and str(COORDINATES["in_quad"]) == "T.laneid % 4"


def owner():
    try:
        tw.compile(of_another, target="sm_90a").simulate(np.zeros(4, np.float32), check="default")
    except SimulationError as error:
        return "(T.laneid + 1) % 4 == T.laneid % 4" in str(error)


for works in (instruction, primitive, variant, check, axis, thread_axis, owner):
    print(works.__name__, bool(works()))
"""


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of each addition, all of them made in one copy."""
    home = tmp_path_factory.mktemp("additions")
    shutil.copytree(ROOT / "tilewright", home / "tilewright", ignore=shutil.ignore_patterns("__pycache__"))
    for files in ADDITIONS.values():
        for name, text in files.items():
            path = home / "tilewright" / name
            path.parent.mkdir(exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
    for name, changes in CHANGES.items():
        path = home / "tilewright" / name
        text = path.read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    script = home / "kernels.py"
    script.write_text(KERNELS, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(home)}, capture_output=True, text=True,
        check=False, cwd=home,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return dict(line.split() for line in run.stdout.splitlines())


@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_is_found_without_another_line(kind: str, worked: dict[str, str]) -> None:
    assert worked[kind] == "True"
    assert len(ADDITIONS[kind]) == FILES[kind]


def test_a_thread_axis_is_a_row_and_every_reader_of_axes_knows_it(worked: dict[str, str]) -> None:
    """Copies distribute by it, of several holders the first one stores, it composes, and has a number in kernels."""
    assert worked["thread_axis"] == "True"


def test_a_new_thread_axis_loses_no_check(worked: dict[str, str]) -> None:
    """An element that another thread holds is refused when the kernel runs."""
    assert worked["owner"] == "True"


def test_contributing_says_how_many_files_each_addition_touches() -> None:
    rows = [line.split("|") for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()]
    told = {cells[1].strip(): int(cells[2]) for cells in rows if len(cells) > 3 and cells[2].strip().isdigit()}

    assert told == FILES


def test_the_house_has_no_other_place_for_a_primitive_s_name() -> None:
    """Code for all primitives walks the table: only their own folders and declarations name them."""
    outside = [
        path
        for path in (ROOT / "tilewright").rglob("*.py")
        if not {"primitives", "fill"} & set(path.parts) and '"fill"' in path.read_text(encoding="utf-8")
    ]
    assert not outside, outside
