"""The findings of one run: alike ones are counted, what follows from another one is not told as a new one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilewright.explain.finding import Finding
from tilewright.explain.remedy import advised
from tilewright.terms import Told, barrier, told

if TYPE_CHECKING:
    from tilewright.errors import SimulationError


@dataclass
class _Entry:
    error: SimulationError
    count: int = 1
    follows: int = 0


@dataclass
class Collected:
    """A mutable list of errors after which a run goes on. most: at the last of so many it stops. heard: is called with
    each that is new.
    """

    most: int
    entries: dict[Hashable, _Entry] = field(default_factory=dict)
    heard: Callable[[SimulationError], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def again(self, key: Hashable) -> bool:
        """Has one of this key been told? Then it is counted once more."""
        if (entry := self.entries.get(key)) is None:
            return False
        entry.count += 1
        return True

    def followed(self, key: Hashable) -> None:
        """Something was found that follows from the finding of this key."""
        self.entries[key].follows += 1

    def about(self, buffer: str) -> Hashable | None:
        """The key of a finding about a buffer; None where there is none."""
        return next((key for key, each in self.entries.items() if each.error.facts.get("buffer") == buffer), None)

    def tell(self, key: Hashable, error: SimulationError) -> None:
        """A finding. One of the same key was told before: this one is it again, or at another line follows from it.

        Raises the error that is the run's, once there are as many as wanted.
        """
        if (entry := self.entries.get(key)) is not None:
            if _line(entry.error) == _line(error):
                entry.count += 1
            else:
                entry.follows += 1
            return
        self.entries[key] = _Entry(error)
        if self.heard is not None:
            self.heard(error)
        if len(self.entries) >= self.most:
            raise self.error()

    def error(self, last: SimulationError | None = None) -> SimulationError:
        """The first error, with the findings of all. last: the one that has ended the run."""
        if last is not None and all(each.error is not last for each in self.entries.values()):
            self._end(last)
        entries = [*self.entries.values()]
        _widen([entry.error for entry in entries])
        first = entries[0].error
        first.findings = tuple(
            replace(Finding.of(each.error), count=each.count, follows=each.follows) for each in entries
        )
        return first

    def _end(self, last: SimulationError) -> None:
        """The error that ended the run. At a limit, or where threads wait after a conflict of counts, it follows."""
        here = (key for key, each in self.entries.items() if _line(each.error) == _line(last) and last.at)
        if (same := next((key for key in here if self.entries[key].error.kind == last.kind), None)) is not None:
            self.followed(same)
            return
        kinds = {each.error.kind: key for key, each in self.entries.items()}
        cause = kinds.get("divergence") if last.kind in WAITING else next(iter(kinds.values()), None)
        if cause is not None and last.kind in (*WAITING, "limit"):
            self.followed(cause)
        else:
            self.entries["end"] = _Entry(last)

    def told_as(self, kind: str, error: SimulationError) -> None:
        """Another run has explained the first finding of a kind: its error takes the place."""
        buffer = error.facts.get("buffer")
        same = [each for each in self.entries.values() if each.error.kind == kind]
        own = [each for each in same if each.error.facts.get("buffer") == buffer]
        for entry in (own or same)[:1]:
            entry.error = error


def _widen(errors: Sequence[SimulationError]) -> None:
    """Where a barrier of a warp would mend one race and one of the CTA another, and one place does for both, the latter
    is enough. Of lines around a loop the later one stands first.
    """
    barriers = [(error, hint.remedy) for error in errors if isinstance(hint := error.hint, Told) and hint.remedy]
    barriers = [(error, remedy) for error, remedy in barriers if remedy.step == "barrier" and len(remedy.where) == 2]
    for error, remedy in barriers:
        for other, wide in barriers if remedy.scope == "warp" else ():
            first, then = max(remedy.where[0], wide.where[0]), min(remedy.where[1], wide.where[1])
            turns = [where[0] > where[1] for where in (remedy.where, wide.where, (first, then))]
            if wide.scope == "cta" and first != then and len({*turns}) == 1 and _file(other) == _file(error):
                text = told("{} between line {} and line {}", barrier("cta"), first, then)
                error.hint = hint = advised(text, "barrier", "cta", (first, then), barrier("cta"))
                error.facts = {**error.facts, "remedy": hint.remedy}
                break


WAITING = ("deadlock", "livelock")


def _file(error: SimulationError) -> str | None:
    return error.at.file if error.at else None


def _line(error: SimulationError) -> object:
    return error.at and (error.at.file, error.at.line)
