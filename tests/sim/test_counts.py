"""The counts of a run: instructions, bytes, and the wavefronts of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, cta, get, lane, tid
from tests.sim.test_asynchrony import copied
from tests.sim.tmem_kernels import TILE
from tilewright import T
from tilewright.sim import Run
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.sites import default_phase, wavefronts


def distinct_words(addresses: np.ndarray, width: int, phase: int) -> int:
    """The definition: per phase the bank with the most distinct words decides."""
    total = 0
    for start in range(0, len(addresses), phase):
        banks: dict[int, set[int]] = {}
        for address in addresses[start : start + phase]:
            for word in range(int(address) // 4, (int(address) + width - 1) // 4 + 1):
                banks.setdefault(word % 32, set()).add(word)
        total += max(map(len, banks.values()))
    return total


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("seed", range(5))
def test_wavefronts_are_the_most_words_of_a_bank(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    addresses = rng.integers(0, 64 * 4 ** (seed % 3), 32) * width

    passes, ideal = wavefronts(Address(0, Part(addresses.reshape(1, 1, 32))), 32, width, default_phase(width), None)

    assert passes == distinct_words(addresses, width, default_phase(width))
    assert ideal == 32 // default_phase(width)


@pytest.mark.parametrize(
    ("lanes", "active", "doubled"),
    [
        (np.arange(32) // 2, None, True),
        (np.arange(32) // 4 * 2 + np.arange(32) % 2, None, True),
        (np.arange(32) // 2, np.arange(32) % 2 == 0, True),
        (np.arange(32) // 4 * 2 + np.arange(32) % 2, np.arange(32) // 2 % 2 == 1, True),
        (np.arange(32) % 16, None, False),
        (np.where(np.arange(32) < 16, np.arange(32) // 2, np.arange(32)), None, False),
        (np.arange(32), np.arange(32) < 16, False),
    ],
    ids=["pairs", "pairs by two", "even lanes", "bit 1 set", "halves alike", "pairs in one half", "one half"],
)
@pytest.mark.parametrize("width", [8, 16])
def test_a_wide_load_of_lanes_that_ask_for_the_same_has_half_the_phases(
    lanes: np.ndarray, active: np.ndarray | None, doubled: bool, width: int
) -> None:
    """As ncu counts on an H200."""
    at = Address(0, Part((lanes * width).reshape(1, 1, 32)))
    taking_part = None if active is None else active.reshape(1, 1, 32)

    found = [wavefronts(at, 32, width, default_phase(width), taking_part, pairs=pairs) for pairs in (True, False)]

    alone = found[1][1]
    assert found[0] == ((alone // 2, alone // 2) if doubled else found[1])


def matrix_rows(pitch: int) -> Run:
    k = Lowered(threads=64, grid=3)
    s, r = k.shared("s", "float16", 32 * pitch // 2), k.local("r", "float16", 8)
    k.do("ptx.ldmatrix", False, 4, ".b16", at(s, lane * (pitch // 2)), *(get(r, 2 * m) for m in range(4)))
    return k.run("none")


@pytest.mark.parametrize(("pitch", "degree"), [(128, 8), (144, 1), (16, 1), (64, 4)])
def test_the_pitch_of_matrix_rows_decides_their_conflicts(pitch: int, degree: int) -> None:
    (line,) = matrix_rows(pitch).counts.lines

    assert line.ideal_wavefronts == 4 * 2 * 3
    assert line.wavefronts == degree * line.ideal_wavefronts
    assert line.bank_conflicts == (degree - 1) * line.ideal_wavefronts


def test_lanes_that_are_not_active_make_no_conflicts() -> None:
    k = Lowered()
    s = k.shared("s", "int32", 1024)
    with k.when(lane < 2):
        k.store(s, lane * 32, lane)
    (line,) = k.run().counts.lines

    assert (line.accesses, line.wavefronts, line.ideal_wavefronts) == (2, 2, 1)


def test_instructions_and_bytes_are_counted_per_warp_and_memory() -> None:
    k = Lowered(threads=128, grid=4)
    a, s = k.array("a", "float16", 4096), k.shared("s", "float16", 1024)
    k.do("cuda.copy_bytes", at(s, tid * 8), at(a, (cta * 128 + tid) * 8), 16)
    k.do("cuda.cta_sync")

    counts = k.run(a=np.zeros(4096, np.float16)).counts

    assert counts.instructions == {"cuda.copy_bytes": 16, "cuda.cta_sync": 16}
    assert counts.bytes_read == {"global": 8192}
    assert counts.bytes_written == {"shared": 8192}


def test_a_second_run_counts_anew() -> None:
    first, second = matrix_rows(128).counts, matrix_rows(128).counts

    assert first.wavefronts == second.wavefronts


@T.prim_func
def positive(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    lane = T.thread_id([32])
    if A[lane] > 0:
        B[lane] = 1


def test_the_counts_of_a_run_stay_when_the_kernel_runs_again() -> None:
    made, b = tw.compile(positive), np.zeros(32, np.int32)

    first = made.simulate(np.ones(32, np.int32), b).counts
    made.simulate(np.zeros(32, np.int32), b)

    assert [line.accesses for line in first.lines if line.write] == [32]


def test_counts_read_as_a_table() -> None:
    text = str(matrix_rows(128).counts)

    assert "ptx.ldmatrix" in text
    assert "wavefronts  ideal  conflicts" in text


def test_bytes_of_tensor_memory_and_of_asynchronous_copies_are_counted() -> None:
    k = copied(ctas=3)

    counts = tw.compile(k, target="sm_100a").simulate(TILE, np.zeros((3, 4, 32, 4), np.uint32)).counts

    of_copies = {(line.op, line.space, line.write): line for line in counts.lines if "tcgen05" in line.op}
    read = of_copies["ptx.tcgen05.cp", "shared", False]
    assert (read.buffer, read.accesses, read.nbytes) == ("source", 3 * 32, 3 * 512)
    assert of_copies["ptx.tcgen05.cp", "tmem", True].nbytes == 3 * 4 * 512  # into all four quarters
    assert counts.bytes_written["tmem"] == 3 * 4 * 512
    assert counts.bytes_read["tmem"] == 3 * 4 * 512
    assert counts.instructions["ptx.tcgen05.cp"] == 3
    assert counts.instructions["ptx.tcgen05.ld"] == 12
    assert "tmem" in str(counts)
    assert "ptx.tcgen05.ld read" in str(counts)
    assert read.bank_conflicts == 0


@T.prim_func
def written_out(A: T.Buffer((32, 8), "int32"), B: T.Buffer((32, 8), "int32")):
    T.cta_id([1])
    lane = T.lane_id([32])
    row = T.alloc_shared((32, 8), "int32")
    for j in (0, 1, 2, 3, 4, 5, 6, 7):
        row[lane, j] = A[lane, j]
        B[lane, j] = row[lane, j]


def test_a_line_that_is_written_out_while_parsing_has_one_row() -> None:
    a, b = np.zeros((32, 8), np.int32), np.zeros((32, 8), np.int32)

    counts = tw.simulate(written_out, a, b).counts

    assert [(line.op, line.buffer, line.accesses, line.nbytes) for line in counts.lines] == [
        ("load", "A", 256, 1024), ("store", "row", 256, 1024), ("load", "row", 256, 1024), ("store", "B", 256, 1024),
    ]  # fmt: skip
    assert counts.bytes_read == {"global": 1024, "shared": 1024}
    assert counts.instructions["load global"] == 8
