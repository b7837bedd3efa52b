"""The commands that judge a kernel: what to change in its layouts, and whether it is right."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright.cli.options import Arch, Const, Place, Seed, Sizes, Values

__all__ = ["advise", "check"]


def advise(
    place: Place,
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    seed: Seed = 0,
) -> None:
    """Say which lines cost more passes of memory than they need, and which layout takes that away.

    The kernel's source, and under each line what its accesses take: wavefronts of shared memory and sectors of global
    memory, against the ideal, and which lanes meet. Then, for each buffer of shared memory with conflicts, the swizzle
    or padding with the fewest, found by what all accesses of the buffer need; each was compiled and run, with equal
    results. Or why none is better.

    \b
    Examples:
      tilewright advise examples/transpose.py:plain
      tilewright advise kernels.py:stage --size n=1000 --arch sm_90a
    """
    from tilewright.cli.running import Inputs, advised
    from tilewright.view.terminal import say

    say(str(advised(place, arch, const or [], Inputs(arg or [], size or [], seed))))


def check(
    place: str,
    arg: list[str] | None,
    size: list[str] | None,
    const: list[str] | None,
    arch: str | None,
    seed: int,
    checks: str,
    limit: list[str] | None,
    *,
    as_json: bool,
    write: Path | None,
) -> None:
    """Print the report on a .py file and exit with its code; with ``write``, make it in this process."""
    from json import dumps

    from tilewright.cli import verdicts
    from tilewright.inputs import parse_limits
    from tilewright.view.terminal import say

    limits = parse_limits(limit or [])
    if write is not None:
        made = verdicts.judged_here(
            place, arch=arch, const=const or [], given=(arg or [], size or [], seed), checks=checks, limits=limits
        )
        verdicts.write(made, write)
        return
    named = {"--arg": arg, "--size": size, "--const": const, "--limit": limit, "--arch": [arch] if arch else []}
    options = [text for name, values in named.items() for value in values or [] for text in (name, value)]
    report = verdicts.judged_apart(place, [*options, "--seed", str(seed), "--check", checks], limits)
    say(dumps(report.as_dict(), indent=2) if as_json else str(report))
    raise typer.Exit(report.exit_code)
