"""The simulator's wavefronts and bank conflicts against the counters of the hardware, as ncu reads them.

Each case is one warp that makes one access to shared memory at given addresses. ncu runs the cases in a process of its
own (``python -m benchmarks.gpu.counters worker``), which launches them in the order of `cases`.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright as tw
from benchmarks.gpu.kernels import BYTES, matrix_access, vector_access
from benchmarks.gpu.measure import ARCH, Claim, Table

SEED = 1  # other numbers than those of seed 0, which the rule for wide loads was found on
RANDOM = 24  # cases of random addresses for each kind of access
METRICS = {
    "wavefronts of loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts of stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "conflicts of loads": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "conflicts of stores": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}
COMMAND = ("ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS.values()))

Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Case:
    """op: "4", "8", "16" bytes of each lane, or "x1", "x2", "x4" matrices. places: bytes; -1: takes no part."""

    op: str
    stores: bool
    pattern: str
    places: Places

    @property
    def name(self) -> str:
        verb = ("st" if self.stores else "ld") + ("matrix " if self.op.startswith("x") else ".shared ")
        return verb + self.op + ("" if self.op.startswith("x") else " bytes")

    def arrays(self) -> tuple[NDArray[Any], ...]:
        words = np.random.default_rng(0).integers(0, 1 << 32, 128, dtype=np.uint32)
        return self.places, words, np.zeros(128, np.uint32)


@cache
def _executable(op: str, stores: bool) -> tw.Executable:
    kernel = matrix_access if op.startswith("x") else vector_access
    return tw.compile(kernel(int(op.removeprefix("x")), stores=stores), target=ARCH)


def executable(case: Case) -> tw.Executable:
    return _executable(case.op, case.stores)


def cases() -> list[Case]:
    """The cases in a fixed order: both sides make them."""
    made = []
    for stores in (False, True):
        for width in (4, 8, 16):
            made += [Case(str(width), stores, name, places) for name, places in vector_patterns(width, stores=stores)]
        for num in (1, 2, 4):
            made += [Case(f"x{num}", stores, name, places) for name, places in row_patterns(stores=stores)]
    return made


def vector_patterns(width: int, *, stores: bool) -> list[tuple[str, Places]]:
    lane = np.arange(32)
    rng = np.random.default_rng([SEED, width])
    found = {f"{way}-way" if way > 1 else "neighbours": lane * width * way for way in (1, 2, 4, 8, 16)}
    found["rows of 128 bytes, padded"] = lane * (128 + width)
    found["rows of 128 bytes, swizzled"] = lane * 128 + (lane * width) % 128
    found["backwards"] = (31 - lane) * width
    for number in range(RANDOM // 4):
        found[f"shuffled {number}"] = rng.permutation(32) * width
        found[f"random {number}"] = rng.choice(BYTES // width, 32, replace=False) * width
        if not stores:
            found[f"random, some twice {number}"] = rng.integers(0, 48, 32) * width * int(rng.choice([1, 2, 4]))
        taken = rng.choice(BYTES // width, 32, replace=False) * width
        found[f"random, not all lanes {number}"] = np.where(rng.random(32) < 0.6, taken, -1)
    found["one place"] = lane * 0
    for name, chosen in SHARED_BY.items():
        found[f"{name}, in order"] = chosen * width
        for number in range(3):
            found[f"{name}, random {number}"] = rng.choice(BYTES // width, 32, replace=False)[chosen] * width
    for name, taking_part in PARTLY.items():
        found[f"{name}, in order"] = np.where(taking_part, (np.cumsum(taking_part) - 1) * width, -1)
        for number in range(3):
            taken = rng.choice(BYTES // width, 32, replace=False) * width
            found[f"{name}, random {number}"] = np.where(taking_part, taken, -1)
    for number in range(6):  # kinds that the rule was not found on
        for name, chosen in (("pairs", LANES // 2), ("pairs by two", LANES // 4 * 2 + LANES % 2)):
            places = rng.choice(BYTES // width, 32, replace=False)[chosen] * width
            found[f"{name}, random lanes out {number}"] = np.where(rng.random(32) < 0.6, places, -1)
            other = places.copy()
            other[rng.integers(32)] = rng.integers(BYTES // width) * width
            found[f"{name}, random lane elsewhere {number}"] = other
        sparse = rng.random(32) < 0.2
        found[f"random, few lanes {number}"] = np.where(sparse, rng.integers(0, BYTES // width, 32) * width, -1)
    return [(name, places.astype(np.int32)) for name, places in found.items()]


LANES = np.arange(32)
LOW_HALF = LANES < 16
SHARED_BY = {  # lanes that name one place together
    "lanes 2i and 2i+1 alike": LANES // 2,
    "lanes 4i+j and 4i+j+2 alike": LANES // 4 * 2 + LANES % 2,
    "lanes 8i+j and 8i+j+4 alike": LANES // 8 * 4 + LANES % 4,
    "lanes 16i+j and 16i+j+8 alike": LANES // 16 * 8 + LANES % 8,
    "lanes j and j+16 alike": LANES % 16,
    "four neighbours alike": LANES // 4,
    "pairs in the lower half": np.where(LOW_HALF, LANES // 2, LANES),
    "pairs, the upper half by two": np.where(LOW_HALF, LANES // 2, 8 + LANES // 4 * 2 + LANES % 2),
    "all pairs but one": np.where(LANES == 31, 31, LANES // 2),
}
PARTLY = {
    "even lanes": LANES % 2 == 0,
    "odd lanes": LANES % 2 == 1,
    "lanes without bit 1": LANES // 2 % 2 == 0,
    "lanes without bit 2": LANES // 4 % 2 == 0,
    "lower half": LOW_HALF,
    "upper half": ~LOW_HALF,
    "lower quarter of each half": LANES % 16 < 8,
    "even lanes below, odd ones above": LANES % 2 == LANES // 16,
    "one of two in a mixed order": (LANES // 2 + LANES) % 2 == 0,
}


def row_patterns(*, stores: bool) -> list[tuple[str, Places]]:
    """Rows of 16 bytes; loads may read one of them twice."""
    lane = np.arange(32)
    rng = np.random.default_rng([SEED, 7])
    found = {f"rows {step} bytes apart": lane * step for step in (16, 32, 64, 128, 256, 512, 80, 144)}
    found["rows of 128 bytes, swizzled"] = lane * 128 + lane % 8 * 16
    for number in range(RANDOM // 3):
        found[f"random rows {number}"] = rng.choice(BYTES // 16, 32, replace=False) * 16
        if not stores:
            found[f"random rows, some twice {number}"] = rng.integers(0, 24, 32) * 16
    if not stores:
        found["one row"] = lane * 0
    return [(name, places.astype(np.int32)) for name, places in found.items()]


# Both sides


def simulated(case: Case) -> tuple[int, ...]:
    """In the order of METRICS."""
    counts = tw.simulate(executable(case), *case.arrays(), check="none").counts
    shared = [line for line in counts.lines if line.space == "shared"]
    sides = [[line for line in shared if line.write is write] for write in (False, True)]
    passes = [sum(line.wavefronts for line in side) for side in sides]
    conflicts = [sum(line.bank_conflicts for line in side) for side in sides]
    return (*passes, *conflicts)


def counted() -> list[tuple[int, ...]] | str:
    """The counters of ncu for each case, or the reason why there are none."""
    if shutil.which("ncu") is None:
        return "this machine has no ncu"
    command = [*COMMAND, sys.executable, "-m", "benchmarks.gpu.counters", "worker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find('"ID"')
    if start < 0:
        return f"ncu read no counters: {(done.stdout + done.stderr).strip()[-300:]}"
    found: dict[int, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        found.setdefault(int(row["ID"]), {})[row["Metric Name"]] = int(float(row["Metric Value"].replace(",", "")))
    return [tuple(found[number][metric] for metric in METRICS.values()) for number in sorted(found)]


def run() -> Table:
    read = counted()
    if isinstance(read, str):
        return Table("Wavefronts and bank conflicts", ("why not",), ((read,),))
    every = cases()
    assert len(read) == len(every), f"{len(read)} launches of {len(every)} were counted"
    rows, wrong = [], 0
    for case, hardware in zip(every, read, strict=True):
        ours = simulated(case)
        wrong += ours != hardware
        side = int(case.stores)
        if ours != hardware or not {"random", "shuffled"} & {word.strip(",") for word in case.pattern.split()}:
            shown = (hardware[side], ours[side], hardware[side + 2], ours[side + 2])
            rows.append((case.name, case.pattern, *map(str, shown)))
    claim = Claim(f"of {len(every)} accesses, those that the simulator counts otherwise", wrong, 0, most=True)
    head = ("access", "addresses", "wavefronts, ncu", "simulator", "conflicts, ncu", "simulator")
    return Table("Wavefronts and bank conflicts", head, tuple(rows), (claim,))


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        for one in cases():
            executable(one)(*one.arrays(), on="gpu")
    else:
        print(run().markdown())
