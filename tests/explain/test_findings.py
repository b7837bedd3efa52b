"""A run tells all that it finds: several mistakes at their lines, one mistake once, and nothing of a clean kernel."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.sim.build import Lowered, get, tid
from tilewright.errors import ArgumentError, SimulationError
from tilewright.explain import Finding
from tilewright.explain.steps import commit_call, wait_call
from tilewright.host import Limits


def planted(*, race: bool = True, outside: bool = True) -> Lowered:
    """A neighbour's value is read without a barrier (line 3 and 4), and an input one element too far (line 5)."""
    k = Lowered(threads=64)
    out, x, s = k.array("out", "int32", 128), k.array("x", "int32", 64), k.shared("s", "int32", 64)
    k.store(s, tid, tid)
    if not race:
        k.do("cuda.cta_sync")
    k.store(out, tid, get(s, (tid + 33) % 64))
    k.store(out, 64 + tid, get(x, tid + 1 if outside else tid))
    return k


def findings(k: Lowered, limits: Limits | None = None, **arrays: Any) -> tuple[Finding, ...]:
    with pytest.raises(SimulationError) as raised:
        k.limited(limits, "all", **arrays)
    return raised.value.findings


def arrays() -> dict[str, Any]:
    return {"out": np.zeros(128, np.int32), "x": np.arange(64, dtype=np.int32)}


def test_two_mistakes_are_told_with_their_lines() -> None:
    with pytest.raises(SimulationError, match="race: load reads s") as raised:
        planted().run(**arrays())

    race, outside = raised.value.findings
    assert (race.kind, race.buffer, outside.kind, outside.buffer) == ("races", "s", "bounds", "x")
    assert race.other is not None
    assert race.line is not None
    assert (race.other.did, race.other.line) == ("written", race.line - 1)
    assert outside.line == race.line + 1
    assert outside.numbers == {"bytes": 256, "last": 259}
    assert [(each.warps, each.lanes) for each in outside.threads] == [((1, 1), (31, 31))]
    assert "1 more finding" in str(raised.value)


def test_after_the_first_of_one_wanted_finding_the_run_stops() -> None:
    (race,) = findings(planted(), Limits(findings=1), **arrays())

    assert race.kind == "races"


def test_no_finding_is_no_limit() -> None:
    with pytest.raises(ArgumentError, match="max_findings is no limit"):
        Limits(findings=0)


def test_a_kernel_without_mistakes_has_no_finding() -> None:
    assert planted(race=False, outside=False).run(**arrays()).findings == []


def test_a_mistake_in_a_loop_is_one_finding_with_a_count() -> None:
    k = Lowered(threads=64)
    out, s = k.array("out", "int32", 64), k.shared("s", "int32", 64)
    with k.loop("i", 0, 5) as i:
        k.store(s, tid, tid + i)
        k.store(out, tid, get(s, (tid + 33) % 64))
        k.do("cuda.cta_sync")

    (race,) = findings(k, out=np.zeros(64, np.int32))

    assert race.count == 5


@pytest.mark.parametrize(("away", "scope", "where"), [(2, "warp", (3, 5)), (33, "cta", (4, 5))])
def test_one_barrier_is_named_that_is_wide_enough_for_both_of_two_races(
    away: int, scope: str, where: tuple[int, int]
) -> None:
    k = Lowered(threads=64)
    out, a, b = k.array("out", "int32", 64), k.shared("a", "int32", 64), k.shared("b", "int32", 64)
    k.store(a, tid, tid)
    k.store(b, tid, tid)
    k.store(out, tid, get(a, tid ^ 1) + get(b, (tid ^ 2) if away == 2 else (tid + away) % 64))

    first, second = findings(k, out=np.zeros(64, np.int32))

    assert (first.buffer, second.buffer) == ("a", "b")
    assert first.remedy is not None
    assert (first.remedy.step, first.remedy.scope, first.remedy.where) == ("barrier", scope, where)


def test_later_reads_of_what_a_race_leaves_follow_from_it() -> None:
    k = Lowered(threads=64)
    out, s = k.array("out", "int32", 128), k.shared("s", "int32", 64)
    k.store(s, tid, tid)
    k.store(out, tid, get(s, (tid + 33) % 64))
    k.store(out, 64 + tid, get(s, (tid + 34) % 64))

    (race,) = findings(k, out=np.zeros(128, np.int32))

    assert race.follows == 1


def test_a_finding_comes_back_from_json() -> None:
    for each in findings(planted(), **arrays()):
        assert Finding.from_dict(json.loads(json.dumps(asdict(each)))) == each


def test_the_statement_of_a_step_is_looked_for_once() -> None:
    assert wait_call("wgmma") is wait_call("wgmma")
    assert commit_call("wgmma", signals=False) is commit_call("wgmma", signals=False)
