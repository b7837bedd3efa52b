"""Rules that hold in every schedule, in words: of barriers, m-barriers, other CTAs' memory, operations under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import SimulationError
from tilewright.explain.remedy import advised
from tilewright.terms import Term, Told, barrier, call, told

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.explain.finding import Facts, Threads


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """what: who breaks it does that, with the fields of one finding. allowed, hint: instead."""

    what: str
    allowed: str
    hint: str | None = None
    kind: str = "races"


_KNOWN = "an operation after that one is known to be complete"
RULES: Mapping[str, ScheduleRule] = {
    "by turns": ScheduleRule(
        "{}: a warp {} at the cluster's barrier", "one arrive and one wait, by turns", None, "divergence"
    ),
    "no barrier": ScheduleRule("{}: there is no barrier {}", "0..15", None, "divergence"),
    "whole warps": ScheduleRule(
        "{}: barrier {} is for a whole number of warps", "one positive multiple of 32", None, "divergence"
    ),
    "two counts": ScheduleRule(
        "{}: barrier {} is expected by two counts", "the same count everywhere", None, "divergence"
    ),
    "too many": ScheduleRule("{}: more threads than barrier {} is for", "{} threads", None, "divergence"),
    "lanes apart": ScheduleRule(
        "{}: lanes of a warp name different numbers", "{} for the whole warp", None, "divergence"
    ),
    "part of a warp": ScheduleRule(
        "divergence: a warp meets without all of its lanes", "all lanes of the warp", None, "divergence"
    ),
    "barrier reused": ScheduleRule(
        "barrier {} is used again by a warp that cannot know that its last meeting is over",
        "an arrival after a thread that has waited there: it may be counted in that meeting else",
        "a barrier of another number, or a count of all threads that meet",
    ),
    "ends between": ScheduleRule(
        "a warp ends that has arrived at the cluster's barrier and not waited there",
        "one arrive and one wait, by turns",
    ),
    "initialised twice": ScheduleRule(
        "{} is initialised again, and was not ended before",
        "mbarrier.init once, or mbarrier.inval before it",
        "one m-barrier for all turns, as phases follow each other; or mbarrier.inval before",
    ),
    "uninitialised": ScheduleRule(
        "{} {}, which may not have been initialised",
        "{} after a meeting with the thread of mbarrier.init",
    ),
    "uninitialised far": ScheduleRule(
        "{} {} of another CTA, which may not have initialised it",
        "{} after the CTAs have met behind mbarrier.init",
    ),
    "ended early": ScheduleRule(
        "{} is ended while a thread may still wait there",
        "mbarrier.inval after all threads that use the m-barrier have met",
    ),
    "no data": ScheduleRule(
        "{} {} {}, which is an m-barrier",
        "mbarrier instructions, until mbarrier.inval has ended it",
        told("{} by one thread before it, after the last use", call("ptx.mbarrier.inval", ...)),
    ),
    "early arrival": ScheduleRule(
        "an arrival at {} for its next phase, and nobody has seen the last one over",
        "as many arrivals as mbarrier.init counts, then a wait, then those for the next phase",
    ),
    "cta ended": ScheduleRule(
        "the shared memory of another CTA is touched, which may have ended by then",
        "a CTA that ends after all that others do in its shared memory",
        told("{} before the end of the kernel", barrier("cluster")),
    ),
    "cta not begun": ScheduleRule(
        "the shared memory of another CTA is touched, which may not have begun by then",
        "an access after the CTAs of the cluster have met, as all of them have begun then",
    ),
    "constant written": ScheduleRule(
        "{}",
        "reads through the cache of constants of what nobody writes while the kernel runs",
        "no __ldg, and no __restrict__ or const for an array that is written too",
    ),
    "unfenced": ScheduleRule("{} {}", "reads of an asynchronous unit after a proxy fence that comes after the stores"),
    "early operation": ScheduleRule("{} {} {}, which {} may still not have {}", _KNOWN),
    "early tmem": ScheduleRule("{} touches tensor memory that {} may still not have {}", _KNOWN),
    "freed early": ScheduleRule(
        "tensor memory is given back that {} may still not have {}",
        "dealloc after everyone has waited for their operations, and met",
    ),
    "early use": ScheduleRule(
        "{} is used while {} may not have {} it", "registers after the warp has waited for its loads"
    ),
    "early access": ScheduleRule("{} {} {} that {} may still be {}", "{} after that {} is known to be complete"),
}


def broken(
    rule: str,
    *fields: object,
    at: Span | None,
    who: Threads | None = None,
    given: object = None,
    instead: tuple[str, ...] = (),
    hint: str | None = None,
    **facts: object,
) -> SimulationError:
    """The finding. given: left out, who. instead: the fields of what is allowed. hint: in place of the rule's."""
    row = RULES[rule]
    facts = {name: fact for name, fact in facts.items() if fact is not None} | ({"threads": (who,)} if who else {})
    return SimulationError(
        told(row.what, *fields),
        given=given or str(who),
        allowed=row.allowed.format(*instead),
        hint=hint or row.hint,
        at=at,
        kind=row.kind,
        **facts,
    )


@dataclass(frozen=True, slots=True)
class LackingFence:
    """What an operation may not see, ``reads s, stored by warp 0 without a proxy fence``, and the place of the fence.

    fence: what is missing, and where it belongs, in words. lines: behind which that is, or between which; else right
    before the operation. is_wrong: does hardware give wrong data, so that a warning is not enough? buffer: the one that
    is touched.
    """

    what: str
    fence: Told
    lines: tuple[int, ...] = ()
    is_wrong: bool = False
    buffer: str | None = None

    def warning(self, name: str, at: Span | None) -> Told:
        """The sentence, with the line of the operation."""
        return told("{}: {} {}{}", at, name, self.what, Term("advice", (self.fence,)))

    def remedy(self, at: Span | None) -> Told:
        """The hint."""
        lines = self.lines if len(self.lines) > 1 or at is None else (*self.lines, at.line)
        code = next(part for part in self.fence.parts if isinstance(part, Term))
        return advised(self.fence, "proxy_fence", "cta", lines, code)

    def facts(self, name: str, at: Span | None, who: Threads) -> Facts:
        """The fields of the warning's finding."""
        place = {"file": at.file if at else None, "line": at.line if at else None}
        return {**place, "operation": name, "buffer": self.buffer, "remedy": self.remedy(at).remedy, "threads": (who,)}

    def error(self, name: str, at: Span | None, who: Threads, given: str) -> SimulationError:
        """The finding."""
        hint, buffer = self.remedy(at), self.buffer
        return broken(
            "unfenced", name, self.what, at=at, who=who, given=given, hint=hint, operation=name, buffer=buffer
        )
