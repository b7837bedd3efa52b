"""Options that several commands take, and how their texts are read."""

from ast import literal_eval
from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import ArgumentError

Place = Annotated[str, typer.Argument(metavar="FILE.py[:KERNEL]", help="A Python file, and the kernel in it.")]
Arch = Annotated[
    str | None,
    typer.Option("--arch", help="sm_90a (all: tilewright doctor); the first that fits if left out."),
]
Const = Annotated[list[str] | None, typer.Option("--const", help="NAME=VALUE for a @T.jit kernel; repeatable.")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Also draw it into this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print it for programs.")]
Values = Annotated[list[str] | None, typer.Option("--arg", help="NAME=FILE.npy or NAME=NUMBER; the rest is random.")]
Sizes = Annotated[list[str] | None, typer.Option("--size", help="Symbolic extents: n=4096 or m=64,n=4096; repeatable.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random arguments.")]
Limit = Annotated[list[str] | None, typer.Option("--limit", help="30s, 1000000steps or 2GiB; repeatable.")]


def constants(settings: list[str]) -> dict[str, object]:
    """``N=64`` as a Python value by name: ints, floats, booleans, and strings for the rest."""
    values: dict[str, object] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"{setting!r} sets nothing", given=setting, allowed="NAME=VALUE")
        if name in values:
            raise ArgumentError(f"{name} is given twice", given=f"{name}={values[name]} and {setting}",
                                allowed=f"one value of {name}")  # fmt: skip
        values[name] = _value(text)
    return values


def extents(settings: list[str] | None) -> dict[str, int]:
    """What ``--size`` says, by name: ``n=64``, or several with commas; a name may have commas of its own.

    >>> extents(["m=2,n=3", "max(a,b)=4"])
    {'m': 2, 'n': 3, 'max(a,b)': 4}
    """
    from tilewright.inputs import parse_sizes

    words: list[str] = []
    for word in ",".join(settings or []).split(","):
        words += [word] if not words or "=" in words[-1] else [f"{words.pop()},{word}"]
    return parse_sizes(constants(words if settings else []))


WORDS = {"true": True, "false": False, "inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def _value(text: str) -> object:
    try:
        value: object = literal_eval(text)
    except (ValueError, SyntaxError):
        return WORDS.get(text.lower(), text)
    return value
