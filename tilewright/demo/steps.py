"""The demo: one real job, every step shown, no GPU needed."""

from __future__ import annotations

import inspect
import re
import struct
import textwrap
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import Executable, compile
from tilewright.demo import kernel as demo_kernel
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError, TilewrightError
from tilewright.layout import S, laneid
from tilewright.terminal import code, grid, heading, say, with_progress
from tilewright.view import layout_grid, svg

if TYPE_CHECKING:
    from tilewright.sim import Run

# The picture that the demo transposes, made by formula, and the little that it takes to write a PNG.


def picture(n: int = 1024) -> NDArray[np.float16]:
    """An n x n picture, 0 black to 1 white: a lit sphere at the upper right over waves that run down to the left.

    Nothing in it is symmetric about the diagonal, so that a transposition shows.
    """
    y, x = np.mgrid[0:n, 0:n].astype(np.float32) / n
    waves = 0.45 + 0.2 * np.sin(40 * (y - 0.35 * x) ** 2 + 9 * x) - 0.25 * y
    dx, dy, radius = x - 0.66, y - 0.34, 0.27
    inside = dx**2 + dy**2 < radius**2
    height = np.sqrt(np.maximum(radius**2 - dx**2 - dy**2, 0))
    light = np.clip((-0.5 * dx - 0.6 * dy + 0.62 * height) / radius, 0, 1)
    shadow = np.exp(-(((x - 0.42) / 0.25) ** 2 + ((y - 0.72) / 0.05) ** 2))
    ground = waves * (1 - 0.6 * shadow)
    shade: NDArray[np.float16] = np.clip(np.where(inside, 0.08 + 0.9 * light, ground), 0, 1).astype(np.float16)
    return shade


def write_png(path: Path, image: NDArray[np.float16]) -> None:
    """Write a greyscale picture, values 0 to 1, with 8 bits a pixel.

    A PNG of one kind is a header, one compressed stream and three checksums; an imaging library would be the largest
    dependency of the project. Source: W3C, "Portable Network Graphics (PNG) Specification", chunks IHDR, IDAT, IEND.
    """
    height, width = image.shape
    pixels = np.rint(image.astype(np.float32) * 255).astype(np.uint8)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)  # filter 0 before each row
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks)))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, data = part
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


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
