"""A kernel run once under every check, how what two runs leave is compared; and what else arrays and variables may hold
when a launch begins, and whether what it leaves depends on that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
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
from tilewright.load.cu_host import clears
from tilewright.load.cu_life import HostAround
from tilewright.load.declared import Field
from tilewright.sim.machine.device import Footprint, GridsMeet
from tilewright.verdict import Verdict, verdict_on

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim import Run
    from tilewright.sim.machine.counts import Line


# A kernel run once under every check, and how what two runs leave is compared.


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
        yield name, value.array if isinstance(value, host.TensorMap) else value
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


def _places(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Where two arrays differ, as numbers of elements. Pieces with the same bytes are not looked at again."""
    flat, other = left.reshape(-1), right.reshape(-1)
    bounds = {(piece.start, piece.stop) for array in (flat, other) for piece in host.touched(array)}
    pieces = [slice(start // flat.itemsize, stop // flat.itemsize) for start, stop in sorted(bounds)]
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


# What else arrays and variables may hold when a launch begins, and whether what it leaves depends on that.
#
# A variation says how a launch begins once more, and what a difference means. Each is one row of `VARIATIONS`; all are
# run, and compared with the first run, in one way (`EndedRun.differs`).


SETS = ("cudaMemcpyToSymbol", "cudaGetSymbolAddress")  # by which host code sets variables


@dataclass(frozen=True, slots=True)
class Variation:
    """Other contents that a launch begins with. arrays, variables: those that differ. left_out: arrays whose ends say
    nothing. words: for the first run and for this one. told: what it is, with that they differ in added.
    """

    arrays: Mapping[str, Any]
    words: tuple[str, str]
    told: Callable[[Finding], Finding]
    variables: Mapping[str, Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class EndedRun:
    """A run that came to its end, to be compared with others. variables: of the module before it and after it. before,
    ended: arrays before it and after it. around: what host code does around it.
    """

    trial: TrialRun
    variables: tuple[Mapping[str, Any], Mapping[str, Any]]
    before: Mapping[str, Any]
    ended: Mapping[str, Any]
    lines: Sequence[Line]
    seconds: float
    around: HostAround = HostAround()

    @property
    def kernel(self) -> LoadedKernel:
        assert isinstance(self.trial.subject, LoadedKernel)
        return self.trial.subject

    @cached_property
    def arrays(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arrays before the run and after it, by name; ``g.row`` of one in a structure."""
        return named_arrays(self.kernel, self.before), named_arrays(self.kernel, self.ended)

    def line_of(self, name: str, *, write: bool | None = None) -> Span | None:
        """The first line that reads or writes an array or a variable."""
        lines = (line for line in self.lines if line.buffer == name and (write is None or line.write is write))
        return next((line.at for line in lines if line.at is not None), None)

    def differs(self, variation: Variation) -> Finding | None:
        """What a run that begins otherwise finds, or leaves otherwise; None where that is nothing. Places that both
        runs leave as they began are alike.
        """
        began = copies_of(with_named(self.kernel, self.before, variation.arrays))
        values = copies_of(began)
        verdict = self._again(values, variation.variables)
        if not verdict:
            first = next((finding for finding in verdict.findings if finding.severity == "error"), None)
            is_told = verdict.status == "wrong" and first is not None  # one that was stopped says nothing
            shown = f"{variation.words[1]}: {first.message}" if first is not None else None
            return variation.told(Finding("results", "", given=shown)) if is_told else None
        started, left = named_arrays(self.kernel, began), named_arrays(self.kernel, values)
        for name in variation.arrays:
            if isinstance(left[name], np.ndarray):
                keeps = (self.arrays[1][name] == self.arrays[0][name]) & (left[name] == started[name])
                left[name] = np.where(keeps, self.arrays[1][name], left[name])
        ends = {name: value for name, value in self.arrays[1].items() if name not in variation.left_out}
        return next(map(variation.told, apart(ends, left, variation.words)), None)

    def _again(self, values: Mapping[str, Any], variables: Mapping[str, Any]) -> Verdict:
        """The verdict on a run with other arrays, in one order, from the same variables on, but for those given."""
        kernel, now = self.kernel, variables_of(self.kernel)
        kernel.module._put_globals({**self.variables[0], **variables})
        limits = {**self.trial.limits, "explore": 0, "replay": "forwards", "limit_s": seconds_left(self.seconds, None)}
        limits |= {"grids": None} if "grids" in limits else {}  # of a sequence
        verdict, _ = replace(self.trial, limits=limits).run(values)
        kernel.module._put_globals(now)
        return verdict


def told_of_host(run: EndedRun) -> Iterator[Finding]:
    """What host code lacks around a launch, up to what is an error."""
    yield from _inputs_unset(run)
    for rule in VARIATIONS:
        differences = [*filter(None, map(run.differs, rule(run)))]
        yield from differences
        if any(finding.severity == "error" for finding in differences):
            return


def _inputs_unset(run: EndedRun) -> Iterator[Finding]:
    """Inputs that nothing sets: programs that measure times alone leave them like that."""
    changed = {line.buffer for line in run.lines if line.write}
    for name, allocated in run.around.unset.items():
        at = run.line_of(name, write=False)
        if at is not None and name not in changed:
            what = f"{at}: reads {name}, which nothing sets between its allocation in line {allocated} and the launch"
            yield _at(at, Finding("poison", f"{what} in line {run.around.line}", "warning", buffer=name))


def _begins_unset(run: EndedRun) -> Iterator[Variation]:
    """An array that host code has only allocated holds anything."""
    changed = {line.buffer for line in run.lines if line.write}
    for name in run.around.unset:
        begins = run.arrays[0].get(name)
        if name in changed and isinstance(begins, np.ndarray) and run.line_of(name, write=False) is not None:
            told = partial(_unset, run, name)
            yield Variation({name: _others(begins)}, ("with one content", "with another"), told)


def _begins_in_part(run: EndedRun) -> Iterator[Variation]:
    """An array of which host code sets the first bytes holds anything behind them."""
    for name, part in run.around.in_part.items():
        begins = run.arrays[0].get(name)
        is_read = run.line_of(name, write=False) is not None
        if isinstance(begins, np.ndarray) and is_read and part.nbytes < begins.nbytes:
            flat, first = begins.reshape(-1), -(-part.nbytes // begins.itemsize)
            otherwise = np.concatenate([flat[:first], _others(flat[first:])]).reshape(begins.shape)
            yield Variation({name: otherwise}, ("with one end", "with another"), partial(_in_part, run, name))


def _in_part(run: EndedRun, name: str, differs: Finding) -> Finding:
    part = run.around.in_part[name]
    finding = Finding(
        "poison", f"{name} is not set as a whole before the launch, and what its end holds decides the results",
        buffer=name, given=f"line {part.line} sets {part.nbytes} of {part.allocated} bytes; {differs.given}",
        allowed="an array that the host has set: cudaMalloc leaves anything in it",
        hint=f"{part.allocated} bytes in line {part.line}", numbers={"set": part.nbytes, "allocated": part.allocated},
    )  # fmt: skip
    return _at(run.line_of(name, write=False), finding)


def _unset(run: EndedRun, name: str, differs: Finding) -> Finding:
    around, launch = run.around, run.around.line
    finding = Finding(
        "poison", f"{name} is not set before the launch, and what it holds decides the results", buffer=name,
        given=f"allocated in line {around.unset[name]}, launched in line {launch}, not set in between; {differs.given}",
        allowed="an array that the host, or a launch before, has set: cudaMalloc leaves anything in it",
        hint=f"cudaMemset({around.words.get(name, name)}, 0, ...) before line {launch}, or a copy of what it is to "
        "begin with",
    )  # fmt: skip
    return _at(run.line_of(name, write=False), finding)


def _others(array: NDArray[Any]) -> NDArray[Any]:
    """An array of large numbers, as memory that others have used may hold them."""
    narrow = array.dtype.itemsize < (4 if array.dtype.kind == "f" else 2)
    large: Any = 95 if narrow else 1e30 if array.dtype.kind == "f" else 12345
    return np.full_like(array, large) if array.dtype.kind in "iuf" else array


def _next_turn(run: EndedRun) -> Iterator[Variation]:
    """The next turn of a loop of the host finds counters and sums that no turn sets as the last has left them, where
    that is all that changes.
    """
    around, left = run.around, [*_left_changed(run)] if run.around.loop else []
    if not left:
        return
    name, is_counter = left[0]

    def told(differs: Finding) -> Finding:
        what = f"finds {name} as the last has left it" if is_counter else f"adds to what the last has left in {name}"
        finding = Finding(
            "results", f"each turn of the loop at line {around.loop} {what}", "error" if is_counter else "warning",
            buffer=name, given=differs.given, allowed="the same results for the same arguments in each turn",
            hint=f"cudaMemset({around.words.get(name, name)}, 0, ...) in the loop, before line {around.line}",
        )  # fmt: skip
        return _at(run.line_of(name), finding)

    counters = frozenset(name for name, is_counter in left if is_counter)
    arrays = {name: run.arrays[1][name] for name, _ in left}
    yield Variation(arrays, ("after one turn", "after the next"), told, left_out=counters)


def _left_changed(run: EndedRun) -> Iterator[tuple[str, bool]]:
    """The arrays that a launch changes by atomics alone and no turn of the loop sets: counters, whose old values the
    kernel uses, and sums, which the host uses, where nothing else that it reads has changed. Counters come first.
    """
    by_kind: dict[str, set[str]] = {"atom": set(), "red": set(), "": set(), "read": set()}
    for line in run.lines:
        kind = next((part for part in line.op.split(".") if part in ("atom", "red")), "")
        by_kind[kind if line.write or kind else "read"].add(line.buffer)
    arrays = {name: value for name, value in run.arrays[1].items() if isinstance(value, np.ndarray)}
    changed = {name for name, value in arrays.items() if value.tobytes() != run.arrays[0][name].tobytes()}
    plain = by_kind[""] | by_kind["read"]
    counters = (by_kind["atom"] - plain) & changed & run.around.kept
    sums = (by_kind["red"] - by_kind["atom"] - plain) & changed & run.around.looked_at
    yield from ((name, True) for name in sorted(counters))
    if not changed & by_kind[""] & by_kind["read"]:
        yield from ((name, False) for name in sorted(sums))


VARIATIONS: tuple[Callable[[EndedRun], Iterator[Variation]], ...] = (_begins_unset, _begins_in_part, _next_turn)


# A launch that comes again: it finds variables, and counters of CTAs, as the first one has left them.


def told_of_the_next(run: EndedRun, *, is_launched: bool = True) -> Finding | None:
    """What a launch leaves otherwise where it comes again. is_launched: variables, and counters of a kernel that the
    text launches; else those of one whose host code is elsewhere.
    """
    kernel, (then, later) = run.kernel, run.variables
    text, shown = "\n".join(kernel.module.texts), kernel.module.module.shown
    changed = [name for name, value in later.items() if name not in then or (then[name] != value).any()]
    changed = [] if not is_launched or any(word in text for word in SETS) else changed
    counters = [name for name in _counters(run) if not clears(text, name)]
    counters = counters if counters and _launches(kernel) == is_launched else []  # of others they may be set back
    names = [*(shown.get(name, name) for name in changed), *counters]
    left = ", ".join(names)

    def told(differs: Finding) -> Finding:
        leaves = f"leaves other values in {differs.buffer}" if differs.buffer else "goes wrong"
        mended = f"{left} set back at the end of the kernel{', or by the host before each launch' * bool(counters)}"
        finding = Finding(
            "results", f"the launch comes again and {leaves}: it finds what the first has left in {left}",
            buffer=differs.buffer, given=differs.given, allowed="the same results for the same arguments", hint=mended,
        )  # fmt: skip
        return _at(next(filter(None, (run.line_of(name, write=True) for name in names)), None), finding)

    arrays, variables = {name: run.arrays[1][name] for name in counters}, later if changed else {}
    variation = Variation(arrays, ("at first", "then"), told, variables, frozenset(counters))
    return run.differs(variation) if names else None


def _launches(kernel: LoadedKernel) -> bool:
    """Do the texts of a kernel launch it?"""
    from tilewright.load.cu_launches import launched

    return any(launched(text, kernel.name, around=kernel.module.texts) for text in kernel.module.texts)


def _counters(run: EndedRun) -> Iterator[str]:
    """Arguments of integers of which a launch has changed one alone, to which each CTA has added one."""
    grid = run.trial.launch.get("grid", 1)
    ctas = prod(grid) if isinstance(grid, Iterable) else grid
    for name, value in run.arrays[1].items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and ctas > 1:
            added = (value - run.arrays[0][name]).ravel()
            if (changed := added[added != 0]).size == 1 and changed[0] == ctas:
                yield name


def _at(at: Span | None, finding: Finding) -> Finding:
    return replace(finding, file=at.file, line=at.line) if at is not None else finding
