"""What else arrays and variables may hold when a launch begins, and whether what it leaves depends on that.

A variation says how a launch begins once more, and what a difference means. Each is one row of `VARIATIONS`; all are
run, and compared with the first run, in one way (`EndedRun.differs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from linecache import getlines
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.explain import Finding
from tilewright.ir import Kernel
from tilewright.load import LoadedKernel
from tilewright.load.cu_host import clears
from tilewright.load.cu_idioms import fills_in_part, is_only_counted
from tilewright.load.cu_life import HostAround
from tilewright.sim.checks import Check
from tilewright.sim.machine import spread
from tilewright.trials import TrialRun, apart, copies_of, named_arrays, seconds_left, variables_of, with_named
from tilewright.verdict import Verdict

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.machine import AccessEvent, Address, Hook, Ints, MeetingEvent, Site, Subject, Team, Wave
    from tilewright.sim.machine.sites import Line

SETS = ("cudaMemcpyToSymbol", "cudaGetSymbolAddress")  # by which host code sets variables


@dataclass(frozen=True, slots=True)
class Variation:
    """Other contents that a launch begins with. arrays, variables: those that differ. left_out: arrays whose ends say
    nothing. change: what else is otherwise about the kernel. words: for the first run and for this one. told: what it
    is, with that they differ in added.
    """

    arrays: Mapping[str, Any]
    words: tuple[str, str]
    told: Callable[[Finding], Finding]
    variables: Mapping[str, Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    change: Callable[[Kernel], Kernel] | None = None


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

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The variables that it leaves otherwise, unless the host sets variables: by their symbols."""
        then, later = self.variables
        names = (name for name, value in later.items() if name not in then or (then[name] != value).any())
        return () if any(word in self.text for word in SETS) else (*names,)

    @property
    def text(self) -> str:
        return "\n".join(self.kernel.module.texts)

    @property
    def only_counts(self) -> bool:
        """Does it leave variables otherwise, and does the text that launches it do nothing but count them on?"""
        shown, texts = self.kernel.module.module.shown, self.kernel.module.texts
        names = [shown.get(name, name) for name in self.changed]
        return bool(names) and all(is_only_counted(texts, name) for name in names) and _launches(self.kernel)

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
        verdict = self._again(values, variation)
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

    def _again(self, values: Mapping[str, Any], variation: Variation) -> Verdict:
        """The verdict on a run with other arrays, in one order, from the same variables on, but for those given."""
        kernel, now = self.kernel, variables_of(self.kernel)
        kernel.module._put_globals({**self.variables[0], **variation.variables})
        subject = kernel if variation.change is None else kernel.changed(variation.change)
        limits = {**self.trial.limits, "explore": 0, "replay": "forwards", "limit_s": seconds_left(self.seconds, None)}
        limits["passes"] = False
        limits |= {"grids": None} if "grids" in limits else {}  # of a sequence
        verdict, _ = replace(self.trial, subject=subject, limits=limits).run(values)
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
            yield Variation({name: others(begins)}, ("with one content", "with another"), told)


def _begins_in_part(run: EndedRun) -> Iterator[Variation]:
    """An array of which host code sets the first bytes holds anything behind them."""
    for name, part in run.around.in_part.items():
        begins = run.arrays[0].get(name)
        is_read = run.line_of(name, write=False) is not None
        if isinstance(begins, np.ndarray) and is_read and part.nbytes < begins.nbytes:
            flat, first = begins.reshape(-1), -(-part.nbytes // begins.itemsize)
            otherwise = np.concatenate([flat[:first], others(flat[first:])]).reshape(begins.shape)
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


def _begins_with_rest(run: EndedRun) -> Iterator[Variation]:
    """An array that launches before have set in part alone holds anything elsewhere."""
    for name, rest in run.around.rest.items():
        begins = run.arrays[0].get(name)
        if isinstance(begins, np.ndarray) and begins.nbytes == rest.size and run.line_of(name, write=False) is not None:
            where = rest.reshape(-1, begins.itemsize).any(1).reshape(begins.shape)
            told = partial(_by_launches, run, name, int(where.sum()))
            yield Variation({name: np.where(where, others(begins), begins)}, ("with one content", "with another"), told)


def _by_launches(run: EndedRun, name: str, many: int, differs: Finding) -> Finding:
    around, lines = run.around, sorted(run.around.by_launches[name])
    before, word = ", ".join(map(str, lines)), around.words.get(name, name)
    finding = Finding(
        "poison", f"{name} is set in part by the launches before, and what the rest of it holds decides the results",
        buffer=name,
        given=f"{many:,} of {run.arrays[0][name].size:,} elements that line {before} leaves as they are, and nothing "
        f"else sets; {differs.given}", allowed="an array that is set as a whole: cudaMalloc leaves anything in it",
        hint=f"cudaMemset({word}, 0, ...) before line {lines[0]}, or a kernel that stores to all of it",
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


def others(array: NDArray[Any]) -> NDArray[Any]:
    """An array of large numbers, as memory that others have used may hold them; integers differ from each other."""
    narrow = array.dtype.itemsize < (4 if array.dtype.kind == "f" else 2)
    large: Any = 95 if narrow else 1e30 if array.dtype.kind == "f" else 12345
    if array.dtype.kind not in "iu" or narrow:
        return np.full_like(array, large) if array.dtype.kind in "iuf" else array
    return np.asarray((large + np.arange(array.size) % 97).astype(array.dtype).reshape(array.shape))


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


def _left_over(run: EndedRun) -> Iterator[Variation]:
    """What a turn of a loop leaves in a tile that the next one fills in part may be anything."""
    texts = run.kernel.module.texts
    if not any(fills_in_part(text) for text in texts):
        return
    from tilewright.variations import Leftovers

    checks = list[Leftovers]()

    def watched(program: Subject) -> Leftovers:
        checks.append(Leftovers(program))
        return checks[-1]

    def told(differs: Finding) -> Finding:
        at, buffer = next(((at, buffer) for check in checks for at, buffer in check.replaced.items()), (None, ""))
        finding = Finding(
            "poison", f"a turn of the loop stores to a part of {buffer}, and what the one before has left in the rest "
            "decides the results", buffer=buffer, given=differs.given, allowed="a tile that each turn fills as a whole",
            hint="zeros, or what else changes no result, where the condition of this store does not hold",
        )  # fmt: skip
        return _at(at, finding)

    yield Variation({}, ("with what the turn before has left", "with other bytes in its place"), told,
                    change=lambda kernel: replace(kernel, checks=(watched,)))  # fmt: skip


VARIATIONS: tuple[Callable[[EndedRun], Iterator[Variation]], ...] = (
    _begins_unset, _begins_in_part, _begins_with_rest, _next_turn, _left_over,
)  # fmt: skip


# A launch that comes again: it finds variables, and counters of CTAs, as the first one has left them.


def told_of_the_next(run: EndedRun, *, is_launched: bool = True) -> Finding | None:
    """What a launch leaves otherwise where it comes again. is_launched: variables, and counters of a kernel that the
    text launches; else those of one whose host code is elsewhere.
    """
    kernel, later = run.kernel, run.variables[1]
    text, shown = run.text, kernel.module.module.shown
    changed = run.changed if is_launched else ()
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


# Tiles in shared memory that a turn of a loop fills in part alone: does what the turn before has left matter?
#
# A kernel that copies the part of a tile which is inside of a matrix, and computes with the whole tile, finds in the
# rest what the turn before has left there. Where a store replaces what it has stored some turns before, all that it
# stored in that turn is over: a run under `Leftovers` puts other bytes there, and a result that differs depends on
# them.


OTHER = 0x47  # bytes in whose place it is: finite floats of any width, and no small integers


class Leftovers(Check):
    """turns: by wave, how often each CTA has met. last: by wave, for each byte of shared memory, the turn of its last
    store and the number of its line. replaced: the lines whose leftovers were replaced, with the buffer.
    """

    def __init__(self, program: Subject) -> None:
        super().__init__(program)
        self.turns: dict[Wave, Ints] = {}
        self.last: dict[Wave, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
        self.lines: dict[Span | None, int] = {None: 0}
        self.replaced: dict[Span, str] = {}

    def start(self, wave: Wave) -> None:
        shape = (wave.ctas, wave.shared.data.shape[1])
        self.turns[wave] = np.ones(wave.ctas, np.int64)
        self.last[wave] = np.zeros(shape, np.int32), np.zeros(shape, np.int32)

    def ended(self, wave: Wave) -> None:
        del self.turns[wave], self.last[wave]

    def acquired(self, event: MeetingEvent) -> None:
        self.turns[event.wave][event.ctas] += 1

    def all_met(self, wave: Wave, ctas: slice) -> None:
        self.turns[wave][ctas] += 1

    def watch(self, site: Site) -> Hook | None:
        if not site.write or site.place is None or site.place.space != "shared":
            return None
        text = "".join(getlines(site.at.file)) if site.at is not None else ""
        is_copy = site.at is not None and site.op == "store" and fills_in_part(text, site.at.line)
        line = self.lines.setdefault(site.at if is_copy else None, len(self.lines))

        def hook(event: AccessEvent) -> None:
            for at in event.every:
                self._stored(site, line, event.team, at)

        return hook

    def _stored(self, site: Site, line: int, team: Team, at: Address) -> None:
        """Lanes are about to store."""
        wave, active = team.wave, team.full
        rows = spread(np.asarray(team.look.rows(1)), active.shape)[active]
        octets = spread(at.full(), active.shape)[active][:, None] + np.arange(site.width)
        (turn, by), now = self.last[wave], self.turns[wave]
        for row in np.unique(rows).tolist():
            here = octets[rows == row].reshape(-1)
            before = np.unique(turn[row, here][by[row, here] == line]) if line else np.zeros(0, np.int32)
            over = (by[row] == line) & np.isin(turn[row], before[(before > 0) & (before < now[row])])
            over[here] = False
            if line and over.any():
                wave.shared.data[row, over] = OTHER
                by[row, over] = 0
                assert site.at is not None, "it has a line"
                self.replaced[site.at] = site.line.buffer
            turn[row, here], by[row, here] = now[row], line
