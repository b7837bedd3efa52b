"""A kernel run once under every check, and how what two runs leave is compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright import host
from tilewright.compiler import Executable, unseen
from tilewright.errors import TilewrightError, TilewrightWarning, described
from tilewright.explain import BUILDS, Finding
from tilewright.inputs import shown
from tilewright.load import LoadedKernel
from tilewright.load.declared import Field
from tilewright.sim.machine.device import Footprint, GridsMeet
from tilewright.verdict import Verdict, verdict_on

if TYPE_CHECKING:
    from tilewright.sim import Run

ALWAYS_LEFT = (
    "other inputs: the verdict is about those above",
    "outcomes of weak memory that no interleaving has",
    "speed",
)
SAMPLED = 4_000_000  # instructions of warps that one run of a kernel of others may take: ten seconds or so


@dataclass(frozen=True, slots=True)
class Wanted:
    """What arrays hold after a run, by the names of arguments, and how far off they may be."""

    arrays: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True)
class TrialRun:
    """What runs, and how."""

    name: str
    subject: Executable | LoadedKernel
    checks: tuple[str, ...]
    launch: Mapping[str, Any]
    limits: Mapping[str, Any]
    wanted: Wanted
    pdl: bool = False

    def _of_others(self, values: Iterable[str]) -> dict[str, Any]:
        """Of a kernel of others: large launches run in part, where no results are asked for; and what is known of the
        launches around.
        """
        if not isinstance(self.subject, LoadedKernel) or "grids" in self.limits:
            return {}
        alone = GridsMeet(Footprint(self.name), alone="early" if self.pdl else "waits", arguments=frozenset(values))
        return {"grids": alone} | ({} if self.wanted.arrays else {"sample": SAMPLED})

    def run(self, values: Mapping[str, Any]) -> tuple[Verdict, Run | TilewrightError | MemoryError]:
        """The verdict on a run that changes these arguments, and what came of it."""
        began = monotonic()
        fields: dict[str, Any] = {"checks": self.checks, "target": str(self.subject.target)}
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", TilewrightWarning)
            try:
                fields["inputs"] = {name: shown(value) for name, value in values.items()}
                limits = {**self._of_others(values), **self.limits}
                run = self.subject.simulate(*values.values(), check=self.checks, progress=unseen, **self.launch,
                                         **limits)  # fmt: skip
            except (TilewrightError, MemoryError) as error:
                fields["seconds"] = monotonic() - began
                return verdict_on(self.name, error, _warned(heard), **fields), error
        fields["seconds"] = monotonic() - began
        told = [*_differences(values, self.wanted), *_warned(heard)]
        return finished(self.name, run, told, self.wanted, fields), run


TIMES, LEAST_SECONDS = 2.0, 3.0  # as long as the optimised build the other one may take, and always so many seconds


def seconds_left(taken: float, limit: float | None) -> float:
    """Seconds that the other build may take where the optimised one has taken some: both together the limit, or little
    more.

    >>> seconds_left(4.0, None), seconds_left(4.0, 60.0), seconds_left(50.0, 60.0), seconds_left(60.0, 60.0)
    (8.0, 8.0, 10.0, 3.0)
    """
    seconds = max(TIMES * taken, LEAST_SECONDS)
    return seconds if limit is None else min(seconds, limit, max(LEAST_SECONDS, limit - taken))


def finished(name: str, run: Run, told: Iterable[Finding], wanted: Wanted, fields: Mapping[str, Any]) -> Verdict:
    """The verdict on a run that came to its end. told: differences from the expected arrays, and warnings."""
    findings = (*told, *run.findings)
    left = (f"{run.left_out:,} CTAs, which did not run: the launch is a large one",) if run.left_out else ()
    return Verdict(
        name, "wrong" if any(finding.severity == "error" for finding in findings) else "clean", findings=findings,
        not_covered=(*left, *_left(fields["checks"], wanted.arrays)), instructions=run.counts.instructions,
        bank_conflicts=run.counts.bank_conflicts, output=run.output, orders=run.orders, **fields,
    )  # fmt: skip


def _warned(heard: Iterable[warnings.WarningMessage]) -> list[Finding]:
    return [
        Finding("warning", str(warning.message), "warning", warning.filename, warning.lineno)
        for warning in heard
        if issubclass(warning.category, TilewrightWarning)
    ]


def _differences(values: Mapping[str, Any], wanted: Wanted) -> Iterable[Finding]:
    """Findings for arrays that differ from the expected ones."""
    for name, expected in wanted.arrays.items():
        have = values.get(name, values.get(f"{name}_ptr"))
        if not isinstance(have, np.ndarray):
            yield Finding("results", f"there is no array {name} to compare", given=name, allowed=", ".join(values))
            continue
        try:
            want = np.asarray(expected, np.float64)
        except (TypeError, ValueError) as error:
            yield Finding("results", f"{name} cannot be compared", given=f"{described(expected)}: {error}", buffer=name)
            continue
        if have.shape != want.shape:
            yield Finding("results", f"{name} has another shape", buffer=name, given=f"{want.shape} expected",
                          allowed=f"{have.shape}")  # fmt: skip
        elif (unequal := differing(name, have, want, wanted.rtol, wanted.atol)) is not None:
            yield unequal


def differing(
    name: str, have: NDArray[Any], want: NDArray[Any], rtol: float, atol: float, *, exact: bool = False,
    kept: Callable[[NDArray[np.bool_]], int] | None = None,
) -> Finding | None:  # fmt: skip
    """A finding where elements of an array, of equal shapes, are not what is wanted.

    exact: without tolerances, as integers. kept: how many of wrong elements, marked in an array, nobody has written.
    """
    with np.errstate(invalid="ignore"):  # random bits of what nobody wrote may be a signalling NaN
        left, right = (have, want) if exact else (have.astype(np.float64), want.astype(np.float64))
    close = left == right if exact else np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    wrong = ~np.asarray(close)
    if not wrong.any():
        return None
    first = tuple(int(axis[0]) for axis in np.nonzero(wrong)) if wrong.ndim else ()
    numbers = {"wrong": int(wrong.sum()), "elements": wrong.size, **({"unwritten": kept(wrong)} if kept else {})}
    many, unwritten = numbers["wrong"], numbers.get("unwritten", 0)
    message = f"{many:,} of {wrong.size:,} elements of {name} differ" + "s" * (many == 1)
    if unwritten:
        which = f"{unwritten:,} of them" if unwritten < many else "it" if many == 1 else "they"
        message += f"; {which} {'was' if unwritten == 1 else 'were'} never written"
    place = f"{name}{list(first)}"
    return Finding("results", message, buffer=name, place=place, given=f"{place} = {left[first]}",
                   allowed=f"{right[first]}", numbers=numbers)  # fmt: skip


def _left(checks: Iterable[str], expect: Mapping[str, Any]) -> Iterable[str]:
    from tilewright.sim import CHECKS

    if missing := sorted({*CHECKS} - {*checks}):
        yield f"checks left out: {', '.join(missing)}"
    if not expect:
        yield "results: nothing was expected of them"
    yield from ALWAYS_LEFT


def variables_of(kernel: LoadedKernel) -> dict[str, Any]:
    """Copies of the variables of a kernel's module."""
    return {name: value.copy() for name, value in kernel.module.set_globals().items()}


def copies_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with copies of their arrays, also of those in structures; arrays that overlap do so again."""
    copies = iter(host.copies(host.arrays_in(values)))
    return {name: host.with_arrays(value, copies) for name, value in values.items()}


def named_arrays(kernel: LoadedKernel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, those in structures by ``g.row``."""
    fields = {param.name: param.fields for param in kernel.written}
    return dict(pair for name, value in values.items() for pair in _leaves(name, value, fields.get(name, ())))


def _leaves(name: str, value: Any, fields: Sequence[Field]) -> Iterator[tuple[str, Any]]:
    """What `host.arrays_in` finds in an argument, with names."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if not isinstance(value, (list, tuple)):
        yield name, value.array if isinstance(value, host.DESCRIBED) else value
        return
    for place, part in enumerate(value):
        field = fields[place] if place < len(fields) else None
        yield from _leaves(f"{name}.{field.name if field is not None else place}", part, field.inner if field else ())


def with_named(kernel: LoadedKernel, values: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with other arrays in the place of some, by the names that `named_arrays` gives them."""
    arrays = iter({**named_arrays(kernel, values), **changed}.values())
    return {name: host.with_arrays(value, arrays) for name, value in values.items()}


# Two runs of one kernel: what they leave in their arrays.


RELATIVE = 1e-3  # of two floats, and of a float and the largest one of its array, that fused sums do not explain


def apart(
    first: Mapping[str, Any], second: Mapping[str, Any], words: tuple[str, ...] = (*BUILDS,)
) -> Iterable[Finding]:
    """Findings for arrays that hold other values after the second run; floats may differ by rounding. words: for the
    one and the other.
    """
    for name, left, right in _arrays(first, second):
        if not (wrong := _places(left, right)).size:
            continue
        place = np.unravel_index(int(wrong[0]), np.shape(left))
        where = "".join(f"[{i}]" for i in place)
        yield Finding(
            "results", f"{wrong.size:,} of {np.size(left):,} elements of {name} differ between the builds",
            buffer=name, given=f"{name}{where} = {left[place]} {words[0]}, {right[place]} {words[1]}",
            allowed="one value: no finding explains two", hint="what the language leaves undefined there",
        )  # fmt: skip


def _touched(left: NDArray[Any], right: NDArray[Any]) -> list[slice]:
    """The elements of two flat arrays of equal size that are not surely zeros in both, in pieces."""
    bounds = {(piece.start, piece.stop) for array in (left, right) for piece in host.touched(array)}
    return [slice(start // left.itemsize, stop // left.itemsize) for start, stop in sorted(bounds)]


def differ(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Do two arrays of one type and size hold other bytes?"""
    flat, other = left.reshape(-1), right.reshape(-1)
    return any(flat[piece].tobytes() != other[piece].tobytes() for piece in _touched(flat, other))


def _places(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Where two arrays differ, as numbers of elements. Pieces with the same bytes are not looked at again."""
    flat, other = left.reshape(-1), right.reshape(-1)
    pieces = _touched(flat, other)
    doubtful = [piece for piece in pieces if flat[piece].tobytes() != other[piece].tobytes()]
    is_float = flat.dtype.kind == "f"
    most = max((_largest(flat[piece]) for piece in pieces), default=0.0) if doubtful and is_float else 0.0
    places = [piece.start + np.flatnonzero(_differ(flat[piece], other[piece], most)) for piece in doubtful]
    return np.concatenate(places) if places else np.zeros(0, np.int64)


def _largest(values: NDArray[Any]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _arrays(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    """The arrays of numbers of two runs by the names of arguments, those of structures among them, once each."""
    seen = set[tuple[int, int]]()
    for name, value in first.items():
        for left, right in zip(host.arrays_in(value), host.arrays_in(second[name]), strict=True):
            if isinstance(left, np.ndarray) and left.dtype.names is None and left.dtype.kind in "biuf":
                place = (left.ctypes.data, left.nbytes)
                if place not in seen:
                    yield name, left, right
                seen.add(place)


def _differ(left: NDArray[Any], right: NDArray[Any], most: float) -> NDArray[Any]:
    if left.dtype.kind != "f":
        return np.asarray(left != right)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        a, b = left.astype(np.float64), right.astype(np.float64)
    return np.asarray(~np.isclose(a, b, rtol=RELATIVE, atol=RELATIVE * most, equal_nan=True))
