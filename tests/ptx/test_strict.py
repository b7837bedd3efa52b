"""Lines with mistakes are refused as ptxas refuses them; what it takes is taken; -G builds print to what it takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.load.programs import FOLDER
from tests.ptx.assembling import assembled, has_linker
from tests.ptx.garbling import REFUSED, TAKEN, assembler_says, garbled, is_taken
from tilewright.load.cu_process import answer
from tilewright.ptx import parse, script

SHARE = 0.02  # of garbled lines that may be taken
UNDECIDED = ("?", "it ended")


@pytest.mark.parametrize(
    "line",
    ["ld.sync.param.u64 %rd0, [a];", "mov.ftz.u32 %r0, %r1;", "ld.u64 %rd0, [a];", "add.s32 %r0, %r1, %f0;",
     "ld.global.gpu.u32 %r0, [%rd0];", "mul.u32.hi %r0, %r1, %r2;", "bar.sync 16;", "mov.b32 %r0, {%r1};",
     "st.const.u32 [c], %r0;", "cvta.u64 %rd0, %rd1;", "ld.shared.u32 %r0, [g];", "selp.b32 _, 1, 0, %p0;",
     "ld.global.v2.b32 {%r0, %fd1}, [%rd0];", "add.u32 %r0, %r1, %tid.x;", "mov.u32 %r0, 0f3F800000;",
     "ld.local.v2.u32 {%f0, %f1}, [%rd0];", "ld.global.u32 _, [%rd0];", "bar.sync.warp %r0;",
     "barrier.cluster.aligned.release.arrive;", "cp.reduce.bulk.async.global.shared::cta.add.u32 [%rd1], [%r1], 16;",
     "mapa.shared::cluster.u32 %r0, %rd1, 1;", "getctarank.u32 %r0, %rd1;", "fence.sc;",
     "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, %r1], [%r0];",
     "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", "ld.mmio.sys.global.u32 %r0, [%rd0];",
     "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], %r0;", "ld.mmio.relaxed.gpu.global.u32 %r0, [%rd0];",
     "ld.shared.L1::evict_last.u32 %r0, [sh];", "cvta.global.u64 %rd0, %f1;", "ld.bulk.local.u32 %r0, [%rd1];"],
)  # fmt: skip
def test_a_line_that_ptxas_refuses_is_refused(line: str) -> None:
    assert not is_taken(line)


def test_garbled_lines_of_the_table_are_refused() -> None:
    taken = [line for line in REFUSED[::8] if is_taken(line)]

    assert len(taken) <= SHARE * len(REFUSED[::8]), taken


def test_right_lines_of_the_table_are_taken() -> None:
    assert [line for line in TAKEN[::4] if not is_taken(line)] == []


@pytest.mark.parametrize(
    "line",
    ["mul.sat.sat.f32 %f0, %f1, %f2;", "ex2.f32.approx.approx %f0, %f1;", "neg.f32.pred %f0, %f1;",
     "atom.pred.global.add.u32 %r0, [%rd0], 1;", "ld.global.v2.u32 {%f0, %r0}, [%rd0];",
     "st.global.v2.u32 [%rd0], {%r0, %f0};", "bar.red.popc.u32 %r0, 0, %p0;", "bar.sync.sync 0;",
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 16;",
     "barrier.cluster.arrive.release.aligned;", "cp.async.bulk.wait_group.read 0;",
     "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 16;", "mapa.u32 %r0, %r1, 1;",
     "mapa.u32 %r0, sh, 0;", "mapa.shared::cluster.u64 %rd0, %rd1, 1;", "mapa.u64.shared::cluster %rd0, sh, 0;",
     "getctarank.u64 %r0, %rd1;", "getctarank.u32 %r0, %r1;", "getctarank.shared::cluster.u64 %r0, %rd1;",
     "ld.mmio.relaxed.sys.global.u32 %r0, [%rd0];", "st.mmio.relaxed.sys.global.u32 [%rd0], %r0;"],
)  # fmt: skip
def test_a_line_that_ptxas_takes_is_taken(line: str) -> None:
    assert is_taken(line)


@pytest.mark.long
@pytest.mark.skipif(not has_linker(), reason="needs nvJitLink")
def test_garbled_lines_are_refused_where_ptxas_refuses_them() -> None:
    source = random.Random(5)
    lines = list(dict.fromkeys(garbled(source.choice(TAKEN), source) for _ in range(3000)))

    told = dict(zip(lines, assembler_says(lines), strict=True))
    refused = [line for line, said in told.items() if said and said not in UNDECIDED]
    taken = [line for line in refused if is_taken(line)]
    right = [line for line, said in told.items() if not said]
    astray = [line for line in right if not is_taken(line)]

    assert len(taken) <= SHARE * len(refused), taken
    assert len(astray) <= SHARE / 2 * len(right), astray


@pytest.mark.skipif(not has_linker(), reason="needs nvJitLink")
@pytest.mark.parametrize("name", ["reduce", "scan", "transpose", "divergent", "local_array", "last_block"])
def test_what_a_build_for_debuggers_prints_assembles(name: str) -> None:
    text = (Path(FOLDER) / f"{name}.cu").read_text()
    options = ["--gpu-architecture=compute_90a", "--std=c++17", "-G", "--device-as-default-execution-space"]
    made = answer({"source": text, "file": f"{name}.cu", "headers": {}, "names": [], "options": options})
    assert made["ptx"], made["log"]

    module = parse(made["ptx"])

    assert "debug" in module.target
    assert assembled(script(module), "sm_90a")
