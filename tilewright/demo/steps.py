"""The demo: one real job, every step shown, no GPU needed."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import Executable, compile
from tilewright.demo import kernel as demo_kernel
from tilewright.demo.picture import picture, write_png
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError, TilewrightError
from tilewright.layout import S, laneid
from tilewright.terminal import code, grid, heading, say, with_progress
from tilewright.view import layout_grid, svg

if TYPE_CHECKING:
    from tilewright.sim import Run

MATRIX = S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]  # one 8 x 8 matrix in the registers of a warp


def run_demo(out: Path, n: int = 1024) -> None:
    """Transpose an n x n picture on the simulator, with plain and with swizzled tiles; pictures go to ``out``.

    Raises SimulationError where the result is not NumPy's, bit for bit.
    """
    out.mkdir(parents=True, exist_ok=True)
    image = picture(n)
    plain = compile(demo_kernel.make(n, swizzled=False), "sm_90a")
    swizzled = compile(demo_kernel.make(n, swizzled=True), "sm_90a")
    show_kernel()
    show_dispatch(swizzled)
    show_cuda(swizzled)
    show_fragment(out)
    runs = {name: transpose(exe, image) for name, exe in (("plain rows", plain), ("128-byte swizzle", swizzled))}
    show_conflicts({name: run for name, (run, _) in runs.items()})
    show_result(image, runs["128-byte swizzle"][1], out)
    show_assembly(swizzled)


def show_kernel() -> None:
    heading("1. The kernel")
    say("Layouts say where each element lives; copy says what moves. Which instruction moves it is not written.")
    code(textwrap.dedent(inspect.getsource(demo_kernel.make)), "python")


def show_dispatch(exe: Executable) -> None:
    heading("2. The dispatch report")
    say("Each copy, the instruction found for it, and why the other variants did not take it.")
    say(str(exe.report))


def show_cuda(exe: Executable) -> None:
    heading("3. The CUDA of the copies between shared memory and registers")
    lines = exe.source("cuda").splitlines()
    first = next(i for i, line in enumerate(lines) if "copy/ldstmatrix" in line)
    last = max(i for i, line in enumerate(lines) if "stmatrix_" in line)
    code(textwrap.dedent("\n".join(lines[first : last + 2])), "cuda")


def show_fragment(out: Path) -> None:
    heading("4. Who holds what: one 8 x 8 matrix in a warp's registers")
    say("T4V1:R0 is value 1 of thread 4, in its register 0. ldmatrix.trans deals columns out in the same way.")
    picture_of_matrix = layout_grid(MATRIX, (8, 8), dtype("float16"))
    grid(picture_of_matrix)
    (out / "fragment.svg").write_text(svg(picture_of_matrix), encoding="utf-8")


def transpose(exe: Executable, image: NDArray[np.float16]) -> tuple[Run, NDArray[np.float16]]:
    """Run on the simulator with every check; the result must be NumPy's."""
    result = np.zeros_like(image)
    run = with_progress(
        f"simulating {exe.name}", lambda report: exe.simulate(image, result, check="all", progress=report)
    )
    if not np.array_equal(result.view(np.uint16), image.T.view(np.uint16)):
        raise SimulationError(f"the result of {exe.name} is not the transpose", at=exe.kernel.at)
    return run, result


def show_conflicts(runs: dict[str, Run]) -> None:
    heading("5. Shared memory: plain rows against the swizzle")
    say("A wavefront is one pass over the 32 banks. Rows of 128 bytes all start in bank 0, so the eight rows of a")
    say("matrix take eight passes; the swizzle spreads them over all banks.")
    names = list(runs)
    say(f"{'line':<12} {'access':<24}{'ideal':>9}" + "".join(f"{name:>20}" for name in names))
    for lines in zip(*(run.counts.lines for run in runs.values()), strict=True):
        if lines[0].ideal_wavefronts:
            access = f"{lines[0].op.removeprefix('ptx.').removeprefix('cuda.')} {'write' if lines[0].write else 'read'}"
            place = f"line {lines[0].at.line}" if lines[0].at else ""
            counted = "".join(f"{line.wavefronts:>20,}" for line in lines)
            say(f"{place:<12} {access:<24}{lines[0].ideal_wavefronts:>9,}{counted}")
    conflicts = "".join(f"{sum(line.bank_conflicts for line in run.counts.lines):>20,}" for run in runs.values())
    say(f"{'conflicts':<46}{conflicts}")


def show_result(image: NDArray[np.float16], result: NDArray[np.float16], out: Path) -> None:
    heading("6. The result")
    say(f"{image.shape[0]} x {image.shape[1]} float16, every check on: equal to NumPy's transpose, bit for bit.")
    write_png(out / "before.png", image)
    write_png(out / "after.png", result)
    say(f"written: {out}/before.png, {out}/after.png, {out}/fragment.svg")


def show_assembly(exe: Executable) -> None:
    heading("7. Assembled by NVRTC, for a GPU that need not be here")
    try:
        used = exe.resources
        sass = exe.source("sass")
    except TilewrightError as error:
        say(f"not shown: {error}")
        return
    loads, stores = len(re.findall(r"\bLDSM\b", sass)), len(re.findall(r"\bSTSM\b", sass))
    memory = f"{used.local_bytes} bytes of local memory, {used.shared_bytes} of shared"
    say(f"{exe.target}: {used.registers} registers, {memory};")
    say(f"{loads} LDSM and {stores} STSM instructions, one for each ldmatrix and stmatrix.")
