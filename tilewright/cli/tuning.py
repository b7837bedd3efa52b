"""`tilewright tune`: configurations of a kernel, ranked by estimated time, with what bounds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from json import dumps
from typing import Annotated, Any

import typer

from tilewright.cli.options import Arch, Const, Json, Place, Seed, Values
from tilewright.errors import ArgumentError, choices

SHOWN = 20


def tune(
    place: Place,
    gpu: Annotated[str, typer.Option(help="For which GPU: H200, A100, ...")] = "H200",
    shape: Annotated[
        list[str] | None, typer.Option("--shape", "--size", help="Symbolic extents: n=4096 or m=64,n=4096; repeatable.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--try", help="BLOCK=64,128,256 of a @T.jit kernel; repeatable.")
    ] = None,
    const: Const = None,
    arg: Values = None,
    arch: Arch = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Rank the configurations of a kernel by the time that each is estimated to take, and say what bounds it.

    KERNEL is what tw.autotune made, with its own configurations, or a @T.jit kernel with --try for the constants to
    try. Needs no GPU: a few CTAs of each configuration run on the simulator, and are played with the GPU's figures. On
    a GPU, tw.autotune then measures the first eight.

    \b
    Examples:
      tilewright tune kernels.py:scale --shape n=1000000
      tilewright tune kernels.py:scale --gpu A100 --shape n=1000000 --try THREADS=128,256 --try RUN=4,8
    """
    from tilewright.cli.kernels import tunable_named
    from tilewright.cli.options import constants
    from tilewright.inputs import make_arguments, parse_sizes
    from tilewright.tuning import Tuned, autotune
    from tilewright.view.terminal import say, with_progress

    tunable = tunable_named(place)
    if not isinstance(tunable, Tuned) or values:
        kernel = tunable.make if isinstance(tunable, Tuned) else tunable
        tunable = autotune(kernel, configs=_configs(values or [], constants(const or [])), target=arch, gpu=gpu)
    first = next(iter(tunable._executables().values()))
    sizes = parse_sizes(constants([word for text in shape or [] for word in text.split(",")]))
    args = tuple(make_arguments(first.kernel, constants(arg or []), sizes, seed).values())
    trials = with_progress(f"tuning {tunable.__name__}", lambda _: tunable.estimates(args, gpu=gpu))
    ranked = sorted(trials, key=lambda trial: trial.rank)
    say(_as_json(tunable.__name__, gpu, ranked) if json else _as_table(tunable.__name__, gpu, ranked))


def _as_json(name: str, gpu: str, ranked: Sequence[Any]) -> str:
    rows = [{"config": dict(trial.config), "seconds": trial.estimated, "why": trial.why, "refused": trial.refused}
            for trial in ranked]  # fmt: skip
    return dumps({"kernel": name, "gpu": gpu, "trials": rows}, indent=2, default=str)


def _as_table(name: str, gpu: str, ranked: Sequence[Any]) -> str:
    lines = [f"{name} on {gpu}, estimated, not measured: {len(ranked)} configurations"]
    for number, trial in enumerate(ranked[:SHOWN], 1):
        more = _more_stages(trial, ranked)
        lines.append(f"{number:4}  {trial}".replace(", not measured", "") + (f"; {more}" if more else ""))
    return "\n".join([*lines, *([f"      and {len(ranked) - SHOWN} more"] if len(ranked) > SHOWN else [])])


def _configs(values: Sequence[str], fixed: Mapping[str, object]) -> list[dict[str, Any]]:
    """All combinations of the values that are to be tried. `Any`: values of compile time."""
    from tilewright.cli.options import constants

    names, several = [], []
    for text in values:
        name, equals, listed = text.partition("=")
        if not equals or not listed:
            raise ArgumentError(f"{text!r} tries nothing", given=text, allowed="NAME=VALUE,VALUE,...")
        names.append(name)
        several.append([constants([f"{name}={text}"])[name] for text in listed.split(",")])
    if not names:
        raise ArgumentError("there is nothing to try", given="no --try", allowed=choices(None, ["--try NAME=64,128"]))
    return [{**fixed, **dict(zip(names, choice, strict=True))} for choice in product(*several)]


def _more_stages(trial: Any, trials: Sequence[Any]) -> str:
    """What one more stage of a ring would do, where it was among those that were tried and threads wait for copies."""
    from tilewright.cli.kernels import STAGES

    name = next((name for name in trial.config if STAGES in name.lower()), None)
    if name is None or trial.estimated is None or not trial.why.startswith("waits for"):
        return ""
    more = {**trial.config, name: trial.config[name] + 1}
    other = next((trial for trial in trials if dict(trial.config) == more), None)
    if other is None:
        return ""
    if other.refused:
        return f"{name}={more[name]} does not fit"
    gain = 1 - other.estimated / trial.estimated
    return f"{name}={more[name]} would fit, and take {abs(gain):.0%} {'less' if gain > 0 else 'more'}"
