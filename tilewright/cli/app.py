"""The commands. Each is thin: it finds what is named, asks the compiler, and shows the answer."""

from __future__ import annotations

import atexit
import gc
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import judging, serving
from tilewright.cli.options import Arch, Const, Json, Limit, Place, Seed, Sizes, Svg, Values
from tilewright.errors import ArgumentError, DispatchError, TilewrightError, choices
from tilewright.terminal import code, complain, grid, say, with_progress

if TYPE_CHECKING:
    from tilewright.layout import Layout
    from tilewright.view import Grid

app = typer.Typer(
    epilog="Start with: tilewright demo. A command's own examples: tilewright COMMAND --help",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line, and leave with its exit code."""
    gc.set_threshold(100_000, 20, 50)  # of what a command makes little is garbage, and it all goes in the end:
    atexit.register(gc.freeze)  # Python would look through it several times
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `tilewright lower ... | head` ends without a word
    warnings.showwarning = lambda message, *_: complain(f"warning: {message}")
    try:
        _tree()()
    except (TilewrightError, MemoryError, OSError) as error:
        raise SystemExit(_told(error)) from None


@cache
def _tree() -> Any:
    """The commands with their options, of which a process that runs several reads the signatures once."""
    return typer.main.get_command(app)


def _told(error: TilewrightError | MemoryError | OSError) -> int:
    """Say what has ended a command. Returns its exit code."""
    from tilewright.explain import COMMAND, reworded
    from tilewright.verdict import EXIT_CODES, status_of

    if isinstance(error, TilewrightError):
        complain(str(reworded(error, COMMAND)))
        return EXIT_CODES[status_of(error)]
    if isinstance(error, MemoryError):  # NumPy says how much it asked for
        complain(f"not enough memory: {error}")
        return EXIT_CODES["stopped"]
    complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return EXIT_CODES["refused"]  # a file of the command line that cannot be read or written


def _say_version(wanted: bool) -> None:
    if wanted:
        import tilewright

        say(f"tilewright {tilewright.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version, and leave.")
    ] = False,
) -> None:
    """Declare where every element of a tile lives, write copy(dst, src), and see what becomes of it."""


@contextmanager
def _from_the_command_line() -> Iterator[None]:
    """Word errors as those of the command line: there is no kernel in which they could have been made."""
    try:
        yield
    except TilewrightError as error:
        raise ArgumentError(error.what, given=error.given, allowed=error.allowed, hint=error.hint) from error


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("tilewright-demo")) -> None:
    """Transpose a picture, and show every step.

    A picture of 1024 x 1024 float16 goes tile by tile through shared memory and registers, by ldmatrix and stmatrix, on
    the simulator. Needs no GPU and a few seconds.

    \b
    Examples:
      tilewright demo
      tilewright demo --out /tmp/pictures
    """
    from tilewright.demo import run_demo

    run_demo(out)


@app.command()
def run(
    place: Place,
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    check: Annotated[str, typer.Option(help="all, default, none, or names with commas.")] = "all",
    seed: Seed = 0,
    gpu: Annotated[bool, typer.Option("--gpu", help="Run on the GPU instead of the simulator.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write every array, as NAME.npy, into this folder.")] = None,
    limit: Limit = None,
    profile: Annotated[
        str | None, typer.Option(metavar="GPU", help="Also its least time on an H200, B200, ...")
    ] = None,
) -> None:
    """Run a kernel on the simulator, every check on.

    Prints what the kernel printed, then counts: instructions, bytes, and the bank conflicts of each line. A race, an
    access out of bounds, a value that nobody wrote: the kernel's line, the lanes, and exit code 1; 2 for what is no
    kernel or does not fit the call, 3 at a limit; Ctrl-C says which line was running, exit code 130.

    \b
    Examples:
      tilewright run examples/transpose.py
      tilewright run kernels.py:scale --size n=1000 --arg s=2.5
      tilewright run kernels.py:scale --arg A=input.npy --out results
      tilewright run kernels.py:scale --size n=1000 --check bounds,races
      tilewright run kernels.py:scale --size n=1000 --limit 30s --limit 2GiB
    """
    from tilewright.cli.kernels import Inputs, arch_for, compiled, profile_kernel, run_kernel
    from tilewright.inputs import parse_limits

    limits = parse_limits(limit or [])
    inputs = Inputs(arg or [], size or [], seed)
    exe = compiled(place, arch or arch_for(profile), const or [])
    if profile is not None:
        profile_kernel(exe, inputs, profile)
        return
    again = inputs.command(place, arch, const or [])
    run_kernel(exe, inputs, again=again, check=check, gpu=gpu, out=out, limits=limits)


@app.command()
def lower(
    place: Place,
    stage: Annotated[str, typer.Option(help="tile, lowered, cuda, ptx or sass.")] = "cuda",
    arch: Arch = None,
    const: Const = None,
) -> None:
    """Print a kernel at a stage of its way.

    \b
    tile     as authored: layouts, logical indices, tile calls
    lowered  on flat storage: what the simulator runs and the CUDA says
    cuda     one self-contained file
    ptx      what NVRTC makes of it, without a GPU
    sass     the machine code of the GPU

    \b
    Examples:
      tilewright lower examples/transpose.py --stage lowered
      tilewright lower examples/transpose.py:transpose --stage sass --arch sm_90a
    """
    from tilewright.cli.kernels import compiled

    languages = {"tile": "python", "lowered": "python", "cuda": "cuda"}
    exe = compiled(place, arch, const or [])
    text = with_progress(f"making stage {stage}", lambda _: exe.source(stage))
    code(text.rstrip("\n"), languages.get(stage, "text"))


@app.command()
def explain(place: Place, arch: Arch = None, const: Const = None) -> None:
    """Say which instruction each tile call became, and why.

    Lists the variants that were tried before and the reason why each declined; `try:` is the smallest change with which
    a better one takes the call.

    \b
    Examples:
      tilewright explain examples/transpose.py
      tilewright explain examples/transpose.py --arch sm_80
    """
    from tilewright.cli.kernels import compiled

    exe = compiled(place, arch, const or [])
    say(str(exe.report))


@app.command()
def layout(
    text: Annotated[str, typer.Argument(metavar="LAYOUT", help="S[(8, 4, 2):(4@laneid, 1@laneid, 1)]")],
    shape: Annotated[str | None, typer.Option(help="The tile's extents, 8,8; those of its iters if left out.")] = None,
    dtype: Annotated[str, typer.Option(help="The element type: gives registers and banks.")] = "float16",
    by: Annotated[str, typer.Option(help="Colour by lane, register or bank.")] = "lane",
    memory: Annotated[bool, typer.Option("--memory", help="Draw the memory: what each 32-bit cell holds.")] = False,
    svg: Svg = None,
    json: Json = False,
) -> None:
    """Show where a layout puts each element.

    T4V1:R0 is value 1 of thread 4, in its register 0; a number is an offset in memory, in elements. With --memory the
    other way round: 5,8..9 are elements 8 and 9 of row 5, in their bank of shared memory or cell of tensor memory.

    \b
    Examples:
      tilewright layout 'S[(8,4,2,2):(4@laneid,1@laneid,2,1)]' --shape 8,16
      tilewright layout 'S[(16,32):(40,1)]' --by bank --svg padded.svg
      tilewright layout 'SwizzleLayout(3, 3, 3)' --shape 8,64
      tilewright layout 'S[(4,8)] + R[2:4@warpid]' --json
      tilewright layout 'Sw<3,4,3> o 0 o (8,64):(64,1)'
      tilewright layout 'S[(32,16):(1@TLane,1@TCol)] + R[4:32@TLane]' --dtype uint8 --memory
    """
    from tilewright.dtypes import dtype as dtype_named
    from tilewright.view import layout_grid, memory_grid

    with _from_the_command_line():
        parsed, whole = _layout(text)
        extents, kind = _extents(shape) if shape else whole, dtype_named(dtype)
        picture = memory_grid(parsed, extents, kind) if memory else layout_grid(parsed, extents, kind, by=by)
    _draw([picture], svg, json=json)


@app.command()
def tma(
    text: Annotated[str, typer.Argument(metavar="LAYOUT", help="Of the tile in shared memory.")],
    shape: Annotated[
        str | None, typer.Option(help="The tile's extents, 64,64; those of its iters if left out.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The element type.")] = "float16",
    box: Annotated[bool, typer.Option("--box", help="Draw which 16 bytes of which box go where.")] = False,
    svg: Svg = None,
    json: Json = False,
) -> None:
    """Show the boxes that the copy engine moves a tile by.

    The tensor map of an array of rows, where each box begins in it and in shared memory; or why no boxes make the tile,
    and a layout that they would. With --box a picture: cell 9 of box 0 lands in the 16 bytes from 144 on.

    \b
    Examples:
      tilewright tma 'SwizzleLayout(3, 3, 3)' --shape 64,64 --box
      tilewright tma 'S[(64,128):(128,1)]' --dtype float32
      tilewright tma 'S[(8,64):(72,1)]' --box --svg boxes.svg
      tilewright tma 'Sw<3,3,3> o 0 o (8,64):(64,1)' --box
    """
    from tilewright.dtypes import dtype as dtype_named
    from tilewright.explain import reworded
    from tilewright.terms import Dialect
    from tilewright.view.boxes import boxes_of, tma_grid

    with _from_the_command_line():
        (parsed, whole), kind = _layout(text), dtype_named(dtype)
        extents = _extents(shape) if shape else whole
        try:
            boxes = boxes_of(parsed, extents, kind)
        except DispatchError as error:
            options = f"--shape {','.join(map(str, extents))} --dtype {kind}"
            again = Dialect({"layout": lambda layout, *_: f"tilewright tma {str(layout)!r} {options}"})
            raise reworded(error, again) from None
        grids = [tma_grid(parsed, extents, kind, boxes)] if box or svg else []
    lines = [f"{name}: {fact}" for name, fact in boxes.facts.items()]
    _draw(grids, svg, json=json, above=(*lines, *([""] if grids else [])), facts=boxes.facts)


def _layout(text: str) -> tuple[Layout, tuple[int, ...]]:
    """A layout in tilewright's notation or CuTe's, and the extents that it has itself."""
    from tilewright.layout import cute_shape, from_cute, parse_layout
    from tilewright.view import picture_shape

    is_cute = text.lstrip()[:1] in "(_0123456789" or text.lstrip().startswith(("Sw<", "Swizzle<"))
    parsed = from_cute(text) if is_cute else parse_layout(text)
    return parsed, cute_shape(text) if is_cute and ":" in text else picture_shape(parsed)


def _extents(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace("x", ",").strip("() ,").split(","))
    except ValueError:
        raise ArgumentError("the shape is not a list of extents", given=text, allowed="8,16") from None


@app.command()
def atom(
    name: Annotated[str, typer.Argument(metavar="NAME", help="SM75_U16x8_LDSM_T")],
    by: Annotated[str, typer.Option(help="Colour by lane or register.")] = "lane",
    svg: Svg = None,
    json: Json = False,
) -> None:
    """One copy or mma instruction by CuTe's name.

    Its PTX, where it exists, which thread holds each element of each matrix (T4V1:R0 is value 1 of thread 4, in its
    register 0), and which thread's address names each row in shared memory.

    \b
    Examples:
      tilewright atom SM75_U32x4_LDSM_N
      tilewright atom SM90_U16x8_STSM_T --by register --svg stsm.svg
      tilewright atom SM80_16x8x16_F32F16F16F32_TN
      tilewright atom SM90_64x16x16_F32BF16BF16_RS
    """
    from tilewright import isa
    from tilewright.view import atom_grids, mma_grids, opposite_grid

    if by not in ("lane", "register"):
        raise ArgumentError(f"unknown colouring {by!r}", given=by, allowed=choices(by, ["lane", "register"]))
    with _from_the_command_line():
        find = isa.wgmma_atom if re.match(r"SM90_64x", name) else isa.mma_atom
        row = find(name) if re.match(r"SM\d+_\d", name) else isa.atom(name)
    facts = {"name": row.name, "ptx": row.mnemonic, "exists_on": str(row.arch)}
    if isinstance(row, isa.MmaAtom | isa.WgmmaAtom):
        places = {operand: str(row.fragment(operand)) for operand in row.shapes}
        grids = mma_grids(row, by=by)
    else:
        places = {"source": row.source_cute, "destination": row.destination_cute}
        grids = [*atom_grids(row, by=by), opposite_grid(row)]
    width = max(map(len, places))
    words = [f"{name:<{width}}  {place}" for name, place in places.items()]
    above = (f"{row.name}: {row.mnemonic}", f"exists on {row.arch}", *words, "")
    _draw(grids, svg, json=json, above=above, facts={**facts, **places})


def _draw(
    grids: list[Grid], svg: Path | None, *, json: bool, above: tuple[str, ...] = (), facts: dict[str, str] | None = None
) -> None:
    """Print the pictures, under the lines ``above``, or for programs beside the same ``facts``; ``svg`` is a file to
    draw all of them into.
    """
    from tilewright.view import as_json
    from tilewright.view import svg as svg_of

    if svg:  # before any output: the file may not be writable
        svg.write_text(svg_of(*grids), encoding="utf-8")
    if json:
        say(as_json(*grids, facts=facts))
        return
    for line in above:
        say(line)
    for index, picture in enumerate(grids):
        if index:
            say()
        grid(picture)


@app.command()
def doctor() -> None:
    """Say what this machine can do, and what to install for more.

    Exit code 1 where the simulator itself does not work.
    """
    from tilewright.cli.doctor import examine

    broken = False
    for finding in examine():
        say(str(finding))
        broken |= finding.needed and not finding.works
    if broken:
        raise typer.Exit(1)


for _command in (judging.advise, judging.check, judging.judge, judging.tune, serving.ci, serving.serve, serving.mcp,
                 judging.look, judging.needed):  # fmt: skip  # in the order of the help
    app.command()(_command)
