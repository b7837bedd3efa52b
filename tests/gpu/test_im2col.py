"""The copy engine in im2col mode, on maps that threads change, and in large clusters: hardware beside the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.hardware import Bench
from tests.gpu.test_tma import compare
from tests.isa.tma_oracles import REDUCTIONS
from tests.sim.im2col_programs import KINDS, changes, images
from tests.sim.tma_kernels import changed, passed_on, pixels_loaded, pixels_stored, roles

pytestmark = pytest.mark.gpu

LARGE = (2, 3, 4, 8, 12, 16)


@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_are_loaded(rank: int, seed: int, bench: Bench) -> None:
    one = images(rank, seed)

    compare(bench, pixels_loaded(rank, one.coords, one.offsets, one.nbytes), one.map_of(one.array(seed)),
            np.zeros((1, one.nbytes), np.uint8))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_of_every_type_are_loaded(rank: int, kind: str, bench: Bench) -> None:
    one = images(rank, 200 + KINDS.index(kind), kind)

    compare(bench, pixels_loaded(rank, one.coords, one.offsets, one.nbytes), one.map_of(one.array(1)),
            np.zeros((1, one.nbytes), np.uint8))  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("op", ["", *REDUCTIONS])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_are_stored_and_combined(rank: int, op: str, seed: int, bench: Bench) -> None:
    one = images(rank, 300 + seed, "uint32", store=True)
    source = np.random.default_rng(seed).integers(0, 256, one.nbytes, dtype=np.uint8)

    compare(bench, pixels_stored(rank, one.coords, one.nbytes, op), one.map_of(one.array(seed)), source)


@pytest.mark.parametrize("mask", [0b11, 0b101, 0b1010, 0xFF, 0b100000000001, 0xA5C3, 0xFFFF])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_come_to_each_cta_of_a_mask(rank: int, mask: int, bench: Bench) -> None:
    one = images(rank, 400 + mask % 7)
    out = np.zeros((mask.bit_length(), one.nbytes), np.uint8)

    compare(bench, pixels_loaded(rank, one.coords, one.offsets, one.nbytes, mask=mask), one.map_of(one.array(2)), out)


@pytest.mark.parametrize("by_one", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_maps_are_changed_by_threads(seed: int, by_one: bool, bench: Bench) -> None:
    source, rank, coords, edits, nbytes = changes(seed)

    compare(
        bench,
        changed(rank, coords, edits, nbytes, by_one=by_one),
        source,
        np.zeros(256, np.uint8),
        np.zeros(nbytes, np.uint8),
    )


@pytest.mark.parametrize("how", ["st", "red", "s2c"])
@pytest.mark.parametrize("hop", [1, 2, 5])
@pytest.mark.parametrize("ctas", LARGE)
def test_bytes_are_passed_on_through_clusters(ctas: int, hop: int, how: str, bench: Bench) -> None:
    a = np.random.default_rng(ctas).integers(0, 1 << 31, (ctas, 32), dtype=np.uint32)

    compare(bench, passed_on(ctas, hop, how), a, np.zeros_like(a))


@pytest.mark.parametrize("terms", [4, 17, 64])
@pytest.mark.parametrize("counts", [(24, 240), (40, 232), (24, 240, 240), (40, 224, 224), (64, 200, 200)])
def test_warpgroups_take_and_give_registers(counts: tuple[int, ...], terms: int, bench: Bench) -> None:
    threads = 128 * len(counts)
    a = np.random.default_rng(terms).integers(-4, 5, (terms, threads)).astype(np.float32)

    compare(bench, roles(counts, terms), a, np.zeros(threads, np.float32))


@pytest.mark.parametrize("seed", range(12))
def test_the_driver_makes_the_words_that_the_simulator_reads(seed: int) -> None:
    """Of maps in im2col mode: all but the words that only the driver fills, and the bits of L2 promotion."""
    from tilewright.cuda import driver, launch

    one = images(3 + seed % 3, 500 + seed)
    fields = one.map_of(one.array(seed)).fields
    with driver.device(0).current():
        theirs = np.frombuffer(launch.encoded(fields, 1 << 20), np.uint32)[:16].copy()
    theirs[2] &= ~np.uint32(7 << 17)
    ours = np.frombuffer(fields.at(1 << 20).encode(), np.uint32)[:16]

    assert [hex(word) for word in theirs] == [hex(word) for word in ours]
