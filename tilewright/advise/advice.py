"""The advice for one kernel: its lines with what each access costs, and changes of layouts that a run has proved."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.advise.accesses import IDLE, Accesses, Sectors, cause, record
from tilewright.advise.search import Choice, cost_now, search
from tilewright.advise.tiles import Cannot, SharedTile, tiles_of, with_layout
from tilewright.errors import SimulationError, TilewrightError
from tilewright.explain import Finding
from tilewright.inputs import make_arguments
from tilewright.layout import ComposeLayout, Layout, S, SwizzleMode, mma_shared_layout
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.errors import Span
    from tilewright.ir import Kernel
    from tilewright.profiling.gains import InTime
    from tilewright.sim import Run
    from tilewright.sim.machine.counts import Line

__all__ = ["Advice", "LayoutChange", "Refused", "advise"]

MOST_PROOFS = 6
"""How many candidates for one buffer are compiled and run, the most promising first."""


NO_PROOF = "in a run", "the results are equal in that one order of threads, which proves nothing of a wrong kernel"


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """Another layout for a buffer, with which the kernel ran and gave the same results.

    text: what to write. before, after: passes of shared memory that the buffer's accesses took. tried: how many
    layouts fit. other: a padding that does as well, proved too. rest: why conflicts are left, if any are.
    is_proof: are results of the kernel those of every order of its threads, as no check finds anything?
    """

    buffer: str
    at: Span | None
    layout: Layout
    text: str
    before: int
    after: int
    ideal: int
    extra_bytes: int
    tried: int
    other: str = ""
    rest: str = ""
    is_proof: bool = True

    def __str__(self) -> str:
        ran, equal = ("proved by a run", "the results are equal") if self.is_proof else NO_PROOF
        more = f", {self.extra_bytes:,} bytes more" if self.extra_bytes else ""
        left = f" ({self.ideal:,} ideal)" if self.after != self.ideal else ", no conflicts"
        lines = [
            f"{self.buffer}: layout={self.text}",
            f"  {ran}: {self.before:,} -> {self.after:,} wavefronts{left}{more}; {equal}",
            f"  found among {self.tried:,} layouts by what all accesses of {self.buffer} need",
        ]
        other = self.other if self.is_proof else self.other.replace("proved too", "in a run too")
        return "\n".join([*lines, *(f"  {more}" for more in (other, self.rest) if more)])


@dataclass(frozen=True, slots=True)
class Refused:
    """A buffer with conflicts that no layout takes away, and why."""

    buffer: str
    why: str

    def __str__(self) -> str:
        return f"{self.buffer}: no better layout\n  {self.why}"


@dataclass(frozen=True, slots=True, repr=False)
class Advice:
    """The cost of a kernel's accesses, line by line, and changes that lower it.

    lines: as counted. causes: of lines with conflicts, which lanes meet in which bank. sectors: of global memory.
    kernel: with all changes made. findings: what all checks of the simulator find in the kernel as it is. ran: for
    each change in words the kernel with those up to it. times: by estimate, where they were asked for.
    """

    name: str
    target: str
    at: Span | None
    lines: tuple[Line, ...]
    causes: tuple[str, ...]
    sectors: tuple[Sectors, ...]
    changes: tuple[LayoutChange, ...]
    refused: tuple[Refused, ...]
    kernel: Kernel
    findings: tuple[Finding, ...] = ()
    ran: tuple[tuple[str, Executable], ...] = ()
    times: InTime | None = None

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal, of the kernel as it is."""
        return sum(line.bank_conflicts for line in self.lines)

    def __repr__(self) -> str:
        found = f"{len(self.changes)} changes, {len(self.refused)} buffers without a better layout"
        return f"<Advice: {self.name} for {self.target}: {self.bank_conflicts:,} bank conflicts, {found}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines with what they cost, and the changes."""
        from tilewright.view import preformatted  # upwards, and only when a notebook asks

        return preformatted(str(self))

    def __str__(self) -> str:
        notes = list(_notes(self.lines, self.causes, self.sectors))
        wrong = [f"the kernel is wrong, whatever its layouts:\n{finding}\n" for finding in self.findings]
        title = f"{self.name} for {self.target}: {self.bank_conflicts:,} bank conflicts"
        text = [*wrong, title, *_annotated(self.at, notes)]
        found = [*map(str, self.changes), *map(str, self.refused)] or ["shared memory has no conflicts"]
        return "\n".join([*text, "", *found, *([] if self.times is None else ["", str(self.times)])])


def advise(exe: Executable, args: tuple[Any, ...], sizes: Mapping[str, int], seed: int) -> Advice:
    """Run the kernel on copies of its arguments, look for better layouts, and run it with each that looks best."""
    from tilewright.sim import Program, parse_checks

    if not args:
        args = tuple(make_arguments(exe.kernel, {}, sizes, seed).values())
    findings = _findings(exe, args)
    program = Program(exe.lowered, parse_checks("default"))
    accesses, sectors = record(program)
    before = _Proof(exe, args, exe.run_program(program, own := _copies(args)), own)
    lines = before.run.counts.lines
    changes: list[LayoutChange] = []
    refused: list[Refused] = []
    ran: list[tuple[str, Executable]] = []
    for tile in tiles_of(exe.kernel):
        mine = _within(tile, accesses)
        if not any(line.buffer == tile.place and line.bank_conflicts for line in lines) or not mine:
            continue
        try:
            change, before = _better(before, tile, mine, for_units=tile.place in _read_by_units(lines))
        except Cannot as reason:
            refused.append(Refused(tile.buffer.name, str(reason)))
            continue
        if isinstance(change, LayoutChange):
            changes.append(replace(change, is_proof=not findings))
            ran.append((f"with layout={change.text} of {change.buffer}", before.exe))
        elif change.why:
            refused.append(change)
    causes = tuple(cause(_at(line, accesses)) for line in lines)
    return Advice(exe.name, str(exe.target), exe.kernel.at, tuple(lines), causes, _joined(sectors), tuple(changes),
                  tuple(refused), before.exe.kernel, findings, tuple(ran))  # fmt: skip


def _findings(exe: Executable, args: tuple[Any, ...]) -> tuple[Finding, ...]:
    """The error that ends a run under every check, if one does."""
    try:
        exe.simulate(*_copies(args), check="all")
    except SimulationError as error:
        return error.findings
    return ()


@dataclass(frozen=True, slots=True)
class _Proof:
    """A kernel that ran, and its results. given: the arguments before."""

    exe: Executable
    given: tuple[Any, ...]
    run: Run
    results: tuple[Any, ...]

    def agrees(self, results: Sequence[Any]) -> bool:
        """Are these the same results, bit for bit?"""
        pairs = zip(self.results, results, strict=True)
        return all(_bytes(mine) == _bytes(other) for mine, other in pairs if host.is_array(mine))


def _bytes(array: Any) -> bytes:
    return np.asarray(host.behind(array)).tobytes()


def _copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(host.copied, args))


def _better(
    before: _Proof, tile: SharedTile, accesses: list[Accesses], *, for_units: bool
) -> tuple[LayoutChange | Refused, _Proof]:
    """The best layout of a tile that a run proves, and that run; or why there is none."""
    choices = search(tile, accesses, for_units=for_units)
    now, ideal = _passes(before.run, tile), _passes(before.run, tile, ideal=True)
    total = sum(cost_now(tile, each) for each in accesses)
    failed: list[str] = []
    best: tuple[int, Choice, _Proof] | None = None
    for choice in [choice for choice in choices if choice.total < total][:MOST_PROOFS]:
        try:
            proof = _proved(before, tile, choice.candidate.layout)
        except (TilewrightError, Cannot) as error:
            failed.append(error.what if isinstance(error, TilewrightError) else str(error))
            continue
        took = _passes(proof.run, tile)
        if took < (best[0] if best else now):
            best = took, choice, proof
        if took <= now - total + choice.total:
            break
    rest = _why(tile, accesses, choices, ideal - (now - total), for_units=for_units)
    if best is None:
        fails = f"{len(failed)} that would do better were tried, and failed: {failed[0]}" if failed else ""
        return Refused(tile.buffer.name, fails or rest or ""), before
    took, choice, proof = best
    left = _passes(proof.run, tile, ideal=True)
    change = LayoutChange(tile.buffer.name, tile.at, choice.candidate.layout, _text(tile, choice.candidate.layout), now,
                    took, left, choice.candidate.extra, len(choices), _padding(before, tile, choices, took),
                    rest if took > left else "")  # fmt: skip
    return change, proof


def _padding(before: _Proof, tile: SharedTile, choices: list[Choice], took: int) -> str:
    """A padding that takes no more passes than the best layout, where that is none."""
    padded = [choice.candidate for choice in choices if choice.candidate.extra and choice.total == choices[0].total]
    if choices[0].candidate.extra or not padded:
        return ""
    try:
        proved = _passes(_proved(before, tile, padded[0].layout).run, tile) <= took
    except (TilewrightError, Cannot):
        return ""
    text = _text(tile, padded[0].layout)
    return f"or layout={text}, proved too: {padded[0].extra:,} bytes more" if proved else ""


def _proved(before: _Proof, tile: SharedTile, layout: Layout) -> _Proof:
    """The kernel with that layout, run. Raises Cannot where it gives other results."""
    from tilewright.compiler import compile

    exe = compile(with_layout(before.exe.kernel, tile, layout), before.exe.target, fast_math=before.exe.fast_math)
    run = exe.simulate(*(own := _copies(before.given)), check="default")
    if not before.agrees(own):
        raise Cannot("the results change: the kernel forms addresses in it by hand")
    return _Proof(exe, before.given, run, own)


def _passes(run: Run, tile: SharedTile, *, ideal: bool = False) -> int:
    mine = [line for line in run.counts.lines if line.buffer == tile.place]
    return sum(line.ideal_wavefronts if ideal else line.wavefronts for line in mine)


def _why(tile: SharedTile, accesses: list[Accesses], choices: list[Choice], ideal: int, *, for_units: bool) -> str:
    """Why no candidate is without conflicts: one access that none serves, or two that want different ones."""
    kinds = "swizzles that the copy engine and wgmma know" if for_units else "swizzles and paddings"
    if not choices:
        return f"none of the {kinds} keeps together what each access needs"
    if choices[0].total <= ideal:
        return ""
    least = [min(passes) for passes in zip(*(choice.passes for choice in choices), strict=True)]
    best = choices[0]
    worse = [number for number, passes in enumerate(best.passes) if passes > least[number]]
    if not worse:
        number = max(range(len(least)), key=lambda n: least[n] - _ideal(accesses[n]))
        where = f"{accesses[number].at}, {accesses[number].op}"
        return (
            f"{where} alone takes at least {least[number]:,} wavefronts with each of {len(choices):,} {kinds}: "
            f"{_ideal(accesses[number]):,} would be ideal"
        )
    number = worse[0]
    other = min(choices, key=lambda choice: (choice.passes[number], choice.key))
    loser = max(range(len(least)), key=lambda n: other.passes[n] - best.passes[n])
    wants, loses = accesses[number], accesses[loser]
    return (
        f"{wants.at}, {wants.op}, would take {least[number]:,} wavefronts instead of {best.passes[number]:,} with "
        f"{_text(tile, other.candidate.layout)}, but then {loses.at}, {loses.op}, takes {other.passes[loser]:,} "
        f"instead of {best.passes[loser]:,}: none of {len(choices):,} {kinds} serves both"
    )


def _ideal(accesses: Accesses) -> int:
    """The fewest passes: one for each phase with an active lane."""
    groups = accesses.rows[:, : accesses.lanes].reshape(len(accesses.patterns), -1, min(accesses.phase, accesses.lanes))
    return int(((groups != IDLE).any(2).sum(1) * accesses.times).sum())


def _within(tile: SharedTile, accesses: Iterable[Accesses]) -> list[Accesses]:
    """The accesses to a tile; for a tile of a pool the patterns that lie in it."""
    found = []
    for each in accesses:
        if each.place != tile.place or not each.patterns:
            continue
        rows = each.rows
        inside = ((rows == IDLE) | ((rows >= tile.start) & (rows < tile.start + tile.buffer.storage_bytes()))).all(1)
        kept = {key: times for (key, times), is_in in zip(each.patterns.items(), inside, strict=True) if is_in}
        if kept:
            found.append(replace(each, patterns=kept))
    return found


def _read_by_units(lines: Iterable[Line]) -> set[str]:
    """Buffers that the copy engine or a tensor core accesses by itself, whose passes are not counted."""
    return {line.buffer for line in lines if line.space == "shared" and line.accesses and not line.ideal_wavefronts}


def _at(line: Line, accesses: Iterable[Accesses]) -> list[Accesses]:
    """The accesses that a counted line has, where it has conflicts."""
    if not line.bank_conflicts:
        return []
    key = (str(line.at), line.op, line.buffer, line.write)
    return [each for each in accesses if (str(each.at), each.op, each.place, each.write) == key and each.patterns]


def _joined(sectors: Iterable[Sectors]) -> tuple[Sectors, ...]:
    """One row for what a line does to a buffer."""
    rows: dict[tuple[object, ...], Sectors] = {}
    for each in sectors:
        key = (str(each.at), each.op, each.place, each.write)
        old = rows.get(key)
        rows[key] = each if old is None else replace(
            each, touched=each.touched + old.touched, ideal=each.ideal + old.ideal, step=each.step or old.step
        )  # fmt: skip
    return tuple(row for row in rows.values() if row.touched)


# As text


def _text(tile: SharedTile, layout: Layout) -> str:
    """A layout as a kernel writes it."""
    kind, shape = str(tile.buffer.dtype), tile.shape
    for mode in SwizzleMode:
        if len(shape) >= 2 and isinstance(layout, ComposeLayout) and layout.tile != S[shape]:
            try:
                if mma_shared_layout(kind, mode, shape) == layout:
                    return f'mma_shared_layout("{kind}", {int(mode)}, {shape})'
            except TilewrightError:
                continue
    if isinstance(layout, ComposeLayout) and layout.tile == S[shape]:
        swizzle = layout.swizzle
        return f"SwizzleLayout({swizzle.per_element}, {swizzle.swizzle_len}, {swizzle.atom_len})"
    return str(layout)


def _notes(
    lines: Iterable[Line], causes: Iterable[str], sectors: Iterable[Sectors]
) -> Iterator[tuple[Span | None, str]]:
    """The notes for each line of the kernel."""
    for line, blame in zip(lines, causes, strict=True):
        verb = "writes" if line.write else "reads"
        if line.ideal_wavefronts:
            counts = (
                f"{line.wavefronts:,} wavefronts, {line.ideal_wavefronts:,} ideal, {line.bank_conflicts:,} conflicts"
            )
            yield line.at, f"{line.op} {verb} {line.buffer}: {counts}" + (f": {blame}" if blame else "")
    for each in sectors:
        verb = "writes" if each.write else "reads"
        blame = f": neighbouring lanes are {each.step:,} bytes apart" if each.step and each.touched > each.ideal else ""
        yield each.at, f"{each.op} {verb} {each.place}: {each.touched:,} sectors, {each.ideal:,} ideal{blame}"


def _annotated(at: Span | None, notes: list[tuple[Span | None, str]]) -> Iterator[str]:
    """The kernel's source from its first line to the last that has a note, each note under its line."""
    files = dict.fromkeys(span.file for span, _ in notes if span)
    for file in files:
        own: dict[int, list[str]] = {}
        for span, note in notes:
            if span and span.file == file:
                own.setdefault(span.line, []).append(note)
        first = at.line if at and at.file == file else min(own)
        for number in range(min(first, *own), max(own) + 1):
            yield f"{number:5} | {linecache.getline(file, number).rstrip()}".rstrip()
            yield from (f"      > {note}" for note in own.get(number, ()))
    yield from (f"      > {note}" for span, note in notes if span is None)
