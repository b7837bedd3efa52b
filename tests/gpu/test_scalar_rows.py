"""Every scalar row on hardware: generated PTX programs, a million values of each row, all bits as the table has them.

Approximations must be within the bounds of `tilewright.isa.scalar.arithmetic`; their largest errors are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest

from tests.gpu.hardware import Bench
from tests.gpu.ptx_programs import HEAD, Array, Case, cases, inputs, is_approximate, launched, program, rows, simulated
from tilewright.isa.forms import TYPES
from tilewright.isa.scalar.arithmetic import ERRORS
from tilewright.isa.table import Instruction

pytestmark = pytest.mark.gpu

VALUES = 1 << 20  # of each row
LEAST = 1 << 13  # of each program
SHOWN = 12


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_scalar_row_does_on_hardware_what_the_table_says(row: Instruction, bench: Bench) -> None:
    made = cases(row)
    each = max(LEAST, -(-VALUES // len(made)))
    wrong: list[str] = []
    for case in made:
        given = inputs(case, each, np.random.default_rng([crc32(str(case).encode()), len(made)]))
        ours = simulated(case, given)
        theirs = launched(HEAD + program(case), given, ours.dtype)
        bench.tally["scalar programs"] += 1
        bench.tally["values of scalar rows"] += each
        if is_approximate(case):
            wrong += beyond(case, given, theirs, ours, bench)
        else:
            bench.tally["bytes compared"] += ours.nbytes
            wrong += unlike(case, given, theirs, ours, bench)
    assert not wrong, f"{len(wrong)} of {len(made)} programs differ\n" + "\n".join(wrong)


def unlike(case: Case, given: Sequence[Array], theirs: Array, ours: Array, bench: Bench) -> list[str]:
    if "pred" in str(case.form.result):
        theirs, ours = theirs != 0, ours != 0
    differs = np.flatnonzero(theirs != ours)
    bench.tally["differences"] += len(differs)
    return [told(case, given, theirs, ours, differs)] if len(differs) else []


def told(case: Case, given: Sequence[Array], theirs: Array, ours: Array, differs: Array) -> str:
    lines = [f"{case}: {len(differs)} of {len(ours)}, operands, GPU, table:"]
    for place in differs[:: max(1, len(differs) // SHOWN)][:SHOWN]:
        operands = " ".join(f"{int(one[place]):#x}" for one in given)
        lines.append(f"    {operands}: {int(theirs[place]):#x} {int(ours[place]):#x}")
    return "\n".join(lines)


def beyond(case: Case, given: Sequence[Array], theirs: Array, ours: Array, bench: Bench) -> list[str]:
    """Infinite or not a number where the table says so, and near to it elsewhere; sines near to 0 alone."""
    word = str(case.mods["type"]).removesuffix("x2")
    name = case.row.name.partition(".")[2]
    relative, absolute = ERRORS[name, word]
    with np.errstate(all="ignore"):
        found, wanted, operand = (one.view(TYPES[word].numpy).astype(np.float64) for one in (theirs, ours, given[0]))
        apart = np.abs(found - wanted)
        size = np.abs(wanted)
        tiny = float(np.finfo(np.float64 if word == "f64" else np.float32).tiny) if word != "f16" else 2.0**-24
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        near = same | (apart <= np.maximum(relative * size, absolute)) | (apart <= tiny)
        inside = np.abs(operand) <= 2 * np.pi if name in ("sin", "cos") else np.ones_like(operand, bool)
        measured = ~same & inside & (size > tiny) & np.isfinite(apart)
        key = f"{case.form.mnemonic(case.mods)}"
        bench.largest[f"relative error of {key}"] = float((apart / size)[measured].max(initial=0.0))
        bench.largest[f"absolute error of {key}"] = float(apart[measured].max(initial=0.0))
    bench.tally["values of approximations within their bounds"] += int((near | ~inside).sum())
    bench.tally["values of approximations equal to the last bit"] += int(same.sum())
    differs = np.flatnonzero(~near & inside)
    repeated = [np.repeat(one, len(ours.view(TYPES[word].numpy)) // len(one)) for one in given]
    kind = f"u{TYPES[word].bits // 8}"
    return [told(case, repeated, theirs.view(kind), ours.view(kind), differs)] if len(differs) else []
