"""The commands. Each is thin: it finds what is named, asks the compiler, and shows the answer."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import ArgumentError, InstructionError, LayoutError, TargetError, TilewrightError, choices

__all__ = ["app", "main"]

app = typer.Typer(
    help="Declare where every element of a tile lives, write copy(dst, src), and see what becomes of it.",
    epilog="Start with: tilewright demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

CALLED_WRONGLY = (ArgumentError, InstructionError, LayoutError, TargetError)  # unless a kernel's line is to blame

Place = Annotated[str, typer.Argument(metavar="FILE.py[:KERNEL]", help="A Python file, and the kernel in it.")]
Arch = Annotated[str | None, typer.Option("--arch", help="sm_75 ... sm_121f; the first that fits if left out.")]
Const = Annotated[list[str] | None, typer.Option("--const", help="NAME=VALUE for a @T.jit kernel; repeatable.")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Also draw it into this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print it for programs.")]


def main() -> None:
    """Run the command line, and leave with its exit code."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `tilewright lower ... | head` ends without a word
    try:
        app()
    except TilewrightError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2 if isinstance(error, CALLED_WRONGLY) and error.at is None else 1) from None


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("tilewright-demo")) -> None:
    """Transpose a picture with ldmatrix and stmatrix, and show every step. Needs no GPU."""
    from tilewright.demo import run_demo

    run_demo(out)


@app.command()
def run(
    place: Place,
    arg: Annotated[list[str] | None, typer.Option(help="NAME=FILE.npy or NAME=NUMBER; the rest is random.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="NAME=NUMBER for a symbolic extent.")] = None,
    const: Const = None,
    arch: Arch = None,
    check: Annotated[str, typer.Option(help="all, default, none, or names with commas.")] = "all",
    seed: Annotated[int, typer.Option(help="Of the random arguments.")] = 0,
    gpu: Annotated[bool, typer.Option("--gpu", help="Run on the GPU instead of the simulator.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write every array, as NAME.npy, into this folder.")] = None,
) -> None:
    """Run a kernel on the simulator, every check on.

    Prints what the kernel printed, then counts: instructions, bytes, and the bank conflicts of each line.

    Example: tilewright run examples/transpose.py
    """
    from tilewright.cli.running import run_kernel

    run_kernel(place, arg or [], size or [], const or [], arch, check=check, seed=seed, gpu=gpu, out=out)


@app.command()
def lower(
    place: Place,
    stage: Annotated[str, typer.Option(help="tile, lowered, cuda, ptx or sass.")] = "cuda",
    arch: Arch = None,
    const: Const = None,
) -> None:
    """Print a kernel at a stage of its way: as authored, on flat storage, as CUDA, PTX or machine code.

    Example: tilewright lower examples/transpose.py --stage lowered
    """
    from tilewright.cli.kernels import kernel_named
    from tilewright.compiler import compile
    from tilewright.view.terminal import code

    languages = {"tile": "python", "lowered": "python", "cuda": "cuda"}
    code(compile(kernel_named(place, const or []), arch).source(stage), languages.get(stage, "text"))


@app.command()
def explain(place: Place, arch: Arch = None, const: Const = None) -> None:
    """Say which instruction each tile call became, and why the others did not fit.

    Example: tilewright explain examples/transpose.py --arch sm_80
    """
    from tilewright.cli.kernels import kernel_named
    from tilewright.compiler import compile
    from tilewright.view.terminal import say

    made = compile(kernel_named(place, const or []), arch)
    say(f"{made.name} for {made.target}")
    say(str(made.report))


@app.command()
def layout(
    text: Annotated[str, typer.Argument(metavar="LAYOUT", help="S[(8, 4, 2):(4@laneid, 1@laneid, 1)]")],
    shape: Annotated[str | None, typer.Option(help="The tile's extents, 8,8; the layout's own if left out.")] = None,
    dtype: Annotated[str, typer.Option(help="The element type: gives registers and banks.")] = "float16",
    by: Annotated[str, typer.Option(help="Colour by lane, register or bank.")] = "lane",
    svg: Svg = None,
    json: Json = False,
) -> None:
    """Show where a layout puts each element: T4V1:R0 is value 1 of thread 4, in its register 0.

    Example: tilewright layout 'S[(8,4,2):(4@laneid,1@laneid,1)]' --shape 8,8
    """
    from tilewright.dtypes import dtype as dtype_named
    from tilewright.layout import parse_layout
    from tilewright.view import layout_grid

    if by not in ("lane", "register", "bank"):
        raise ArgumentError(f"unknown colouring {by!r}", given=by, allowed=choices(by, ["lane", "register", "bank"]))
    parsed = parse_layout(text)
    extents = _extents(shape) if shape else getattr(parsed, "extents", None) or (int(parsed.size()),)
    _draw([layout_grid(parsed, extents, dtype_named(dtype), by=by)], svg, json=json)


def _extents(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace("x", ",").strip("()").split(","))
    except ValueError:
        raise ArgumentError("the shape is not a list of extents", given=text, allowed="8,16") from None


@app.command()
def atom(
    name: Annotated[str, typer.Argument(metavar="NAME", help="SM75_U16x8_LDSM_T")],
    by: Annotated[str, typer.Option(help="Colour by lane or register.")] = "lane",
    svg: Svg = None,
    json: Json = False,
) -> None:
    """One copy instruction by CuTe's name: its PTX, where it exists, and who reads and receives what.

    Example: tilewright atom SM75_U32x4_LDSM_N
    """
    from tilewright import isa
    from tilewright.view import atom_grids
    from tilewright.view.terminal import say

    found = isa.atom(name)
    if not json:
        say(f"{found.name}: {found.mnemonic}")
        say(f"exists on {found.arch}")
        say(f"source       {found.source_cute}")
        say(f"destination  {found.destination_cute}")
        say()
    _draw(atom_grids(found, by=by), svg, json=json)


def _draw(grids: list, svg: Path | None, *, json: bool) -> None:  # type: ignore[type-arg]  # view is imported late
    from tilewright.view import as_json
    from tilewright.view import svg as svg_of
    from tilewright.view.terminal import grid, say

    if json:
        say(as_json(grids[0]) if len(grids) == 1 else "[" + ",\n".join(map(as_json, grids)) + "]")
    else:
        for index, picture in enumerate(grids):
            if index:
                say()
            grid(picture)
    if svg:
        svg.write_text("".join(map(svg_of, grids[:1])), encoding="utf-8")
        for index, picture in enumerate(grids[1:], 2):
            svg.with_stem(f"{svg.stem}-{index}").write_text(svg_of(picture), encoding="utf-8")


@app.command()
def doctor() -> None:
    """Say what this machine can do, and what to install for more."""
    from tilewright.cli.doctor import examine
    from tilewright.view.terminal import say

    for finding in examine():
        say(str(finding))
