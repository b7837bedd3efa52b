"""Reports on mistakes in pipelines of the copy engine name the cause; right pipelines are silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.sim.tma_pipelines import COLS, ROWS, casting, ring, storing
from tilewright.errors import SimulationError

SHAPES = {ring: ((5 * ROWS, COLS), (ROWS, COLS)), storing: ((3 * ROWS, COLS), (ROWS, COLS)),
          casting: ((ROWS, COLS), (2, ROWS, COLS))}  # fmt: skip
LOADING = "load reads shared memory that cp_async.bulk.tensor.g2c may still be writing"
READING = "store overwrites shared memory that cp_async.bulk.tensor.s2g may still be reading"
STUCK = "deadlock: no thread can go on"
TWICE = "may still not have written"
NEXT = "for its next phase, and nobody has seen the last one over"

MISTAKES: dict[Callable[..., Any], dict[str, str]] = {
    ring: {
        "consumer's phase": LOADING,
        "consumer does not wait": LOADING,
        "one lane waits": LOADING,
        "no bytes": LOADING,
        "another stage": LOADING,
        "another barrier": LOADING,
        "another place": TWICE,
        "producer's phase": STUCK,
        "no arrival": STUCK,
        "no copy": STUCK,
        "few bytes": STUCK,
        "many bytes": STUCK,
        "full count 2": STUCK,
        "empty count 3": STUCK,
        "no arrival of consumers": STUCK,
        "empty count 1": NEXT,
        "arrives twice": NEXT,
        "producer does not wait": "more arrivals than its phase waited for",
        "arrives before it reads": "race: cp_async.bulk.tensor.g2c writes tile[0, 6, 0], which another thread has read",
        "lanes not together": "race: cp_async.bulk.tensor.g2c writes tile[0, 6, 0], which another thread has read",
        "made twice": "empty[0] is initialised again",
        "no barrier after init": "a wait at full[0], which may not have been initialised",
        "last one not awaited": "the CTA ends while cp_async.bulk.tensor.g2c is under way",
    },
    storing: {
        "no barrier before the store": "race: cp_async.bulk.tensor.s2g reads tile[6, 0], which another thread",
        "no proxy fence": "reads tile, stored by warp 0 without a proxy fence",
        "fence of other memory": "reads tile, stored by warp 0 without a proxy fence",
        "no commit": READING,
        "no wait": READING,
        "another thread waits": READING,
        "one group too few": READING,
        "no barrier after the wait": "race: store writes tile[0, 1], which another thread has read",
        "written to the end": "load reads global memory that cp_async.bulk.tensor.s2g may still be writing",
    },
    casting: {
        "peer expects nothing": STUCK,
        "half of the bytes": STUCK,
        "mask without the peer": STUCK,
        "mask beyond the cluster": "cta_mask has bit 2, but the ranks of the cluster's CTAs are 0..1",
        "both cast": TWICE,
        "peer does not wait": LOADING,
        "peer not ready": "cp_async.bulk.tensor.g2c tells bar[0] of another CTA, which may not have initialised it",
    },
}
# The cause where no thread can go on.
BLAMED: dict[Callable[..., Any], dict[str, str]] = {
    ring: {
        "producer's phase": "an arrival at empty[0], where nobody has ever arrived; or parity 1, if this is the first",
        "no arrival": "expect_tx alone announces bytes to full[0], and arrives nowhere",
        "no copy": "a copy that tells full[0] of CTA (0, 0, 0): 1024 bytes were announced",
        "few bytes": "1024 bytes announced at {}, not 1008: so many came to full[0]",
        "many bytes": "1024 bytes announced at {}, not 1040: so many came to full[0]",
        "full count 2": "1 more at full[0], or a count of 1 in mbarrier.init",
        "empty count 3": "1 more at empty[0], or a count of 2 in mbarrier.init",
        "no arrival of consumers": "an arrival at empty[0], where nobody has ever arrived",
    },
    casting: {
        "peer expects nothing": "T.ptx.mbarrier.arrive.expect_tx(bar[0], 1024) in CTA (1, 0, 0)",
        "half of the bytes": "1024 bytes announced at {}, not 512: so many came to bar[0]",
        "mask without the peer": "a copy that tells bar[0] of CTA (1, 0, 0): 1024 bytes were announced",
    },
}
# What to change where a wait, or an arrival, stands there already.
HINTS = {
    "consumer's phase": "parity 0 of full[0], of the phase that the cp_async.bulk.tensor.g2c of line {} completes",
    "another barrier": "a wait for full[1], which the cp_async.bulk.tensor.g2c of line {} signals",
    "no bytes": "T.ptx.mbarrier.arrive.expect_tx(full[0], bytes) where a thread arrives there",
    "arrives before it reads": "the arrival of line {} at empty[0] behind line",
    "producer does not wait": "where a thread arrives for the next phase, a wait for the end of this one before",
}
WARNINGS: dict[Callable[..., Any], dict[str, str]] = {
    ring: {
        "no fence of readers": "T.ptx.fence.proxy_async() belongs between line 74 and the arrival of line 83",
    },
}


def run(kernel: Any, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], list[NDArray[Any]]]:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, shape).astype(np.float32) for shape in shapes]
    return tw.simulate(kernel, *arrays, target="sm_90a").warnings, arrays


@pytest.mark.parametrize(
    ("made", "mistake", "cause"), [(made, *one) for made, known in MISTAKES.items() for one in known.items()]
)
def test_a_mistake_is_told_by_its_cause(made: Callable[..., Any], mistake: str, cause: str) -> None:
    with pytest.raises(SimulationError) as error:
        run(made(mistake), SHAPES[made])

    assert cause in error.value.what


@pytest.mark.parametrize(
    ("made", "mistake", "hint"), [(made, *one) for made, known in BLAMED.items() for one in known.items()]
)
def test_a_deadlock_names_the_m_barrier_that_is_to_blame(made: Callable[..., Any], mistake: str, hint: str) -> None:
    with pytest.raises(SimulationError, match=STUCK) as error:
        run(made(mistake), SHAPES[made])

    before, _, behind = hint.partition("{}")
    assert before in str(error.value.hint)
    assert behind in str(error.value.hint)


@pytest.mark.parametrize(("mistake", "hint"), HINTS.items())
def test_where_a_wait_stands_the_hint_says_why_it_lets_threads_pass(mistake: str, hint: str) -> None:
    with pytest.raises(SimulationError) as error:
        run(ring(mistake), SHAPES[ring])

    for part in hint.split("{}"):
        assert part in str(error.value.hint)


@pytest.mark.parametrize(
    ("made", "mistake", "cause"), [(made, *one) for made, known in WARNINGS.items() for one in known.items()]
)
def test_what_practice_gets_away_with_is_a_warning(made: Callable[..., Any], mistake: str, cause: str) -> None:
    warnings, _ = run(made(mistake), SHAPES[made])

    assert any(cause in warning for warning in warnings)


@pytest.mark.parametrize(("stages", "turns"), [(1, 1), (1, 4), (2, 5), (3, 2), (3, 7), (4, 4)])
def test_a_ring_of_stages_is_right(stages: int, turns: int) -> None:
    warnings, (a, out) = run(ring(stages=stages, turns=turns), ((turns * ROWS, COLS), (ROWS, COLS)))

    assert warnings == []
    assert np.array_equal(out, a.reshape(turns, ROWS, COLS).sum(0))


@pytest.mark.parametrize("turns", [1, 4])
def test_a_tile_that_is_stored_again_and_again_is_right(turns: int) -> None:
    warnings, (out, back) = run(storing(turns=turns), ((turns * ROWS, COLS), (ROWS, COLS)))

    assert warnings == []
    assert np.array_equal(out.reshape(turns, ROWS, COLS)[:, :, 0] % 100, np.tile(np.arange(ROWS), (turns, 1)))
    assert np.array_equal(back[:, 0], out[-ROWS:, 0])


@pytest.mark.parametrize("leaves", ["", "peer leaves early"])
def test_a_tile_that_is_brought_to_both_ctas_is_right(leaves: str) -> None:
    """A CTA that has waited for all its bytes may end."""
    warnings, (a, out) = run(casting(leaves), SHAPES[casting])

    assert warnings == []
    assert np.array_equal(out, np.stack([a, a]))


@pytest.mark.parametrize("made", [ring, casting])
def test_a_meeting_after_the_making_of_an_m_barrier_is_enough(made: Callable[..., Any]) -> None:
    """Of the CTA, or of the cluster with release and acquire."""
    assert run(made("no fence after init"), SHAPES[made])[0] == []
