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
Sizes = Annotated[list[str] | None, typer.Option("--size", help="NAME=NUMBER for a symbolic extent.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random arguments.")]
Limit = Annotated[list[str] | None, typer.Option("--limit", help="30s, 1000000steps or 2GiB; repeatable.")]


def constants(settings: list[str]) -> dict[str, object]:
    """``N=64`` as a Python value by name: ints, floats, booleans, and strings for the rest."""
    values: dict[str, object] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"{setting!r} sets nothing", given=setting, allowed="NAME=VALUE")
        values[name] = _value(text)
    return values


WORDS = {"true": True, "false": False, "inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def _value(text: str) -> object:
    try:
        value: object = literal_eval(text)
    except (ValueError, SyntaxError):
        return WORDS.get(text.lower(), text)
    return value
