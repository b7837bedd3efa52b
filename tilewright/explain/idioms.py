"""Benign idioms: what the memory model does not order, and is no finding in kernels of others, since practice does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import ArgumentError, choices


@dataclass(frozen=True, slots=True)
class Idiom:
    """what: a sentence of what the kernel does; reason: why it is no mistake."""

    what: str
    reason: str


IDIOMS = {
    "equal-values": Idiom(
        "Several threads store one value to one place, unordered.",
        "Whichever comes last, the value is the same, also where sums differ in rounding alone.",
    ),
    "last-block": Idiom(
        "The CTA that takes the last number at a counter reads what others wrote before a fence and their number, "
        "without a fence of its own behind the number.",
        "NVIDIA's guide and its sample threadFenceReduction are written like that; on every GPU the atomic and the "
        "branch on its result keep the reads behind it.",
    ),
    "checked-read": Idiom(
        "A place is read plainly, and a compare-and-swap changes it only where it still holds what was read.",
        "An old value costs a turn of the loop, and no more.",
    ),
    "shuffled": Idiom(
        "A lane stores to shared memory where another lane of its warp has read, and what it stores depends by "
        "shuffles on what that lane has read, as in the reduction of a block.",
        "The value is not there before the read has taken place.",
    ),
    "narrow-scope": Idiom(
        "A buffer is filled again by another CTA of the cluster after reads that an m-barrier tells of, at a scope "
        "that does not hold both threads.",
        "Compilers, Triton's for Blackwell among them, leave the scope at that of the CTA: reads are over by then.",
    ),
    "ended-mbarrier": Idiom(
        "One lane ends an m-barrier for all that have used it with it.",
        "libcu++'s pipelines and barriers end theirs like that, once the warp has met.",
    ),
    "ended-lanes": Idiom(
        "The mask of a vote, a shuffle or a barrier of a warp names lanes that have returned.",
        "PTX has the others go on without them; to read from such a lane is an error.",
    ),
}
"""By name: `check` leaves their warnings out, unless it is asked to be strict about them."""


def parse_idioms(given: str | Iterable[str]) -> frozenset[str]:
    """The idioms that are meant: "all", names with commas between them, or several names.

    >>> sorted(parse_idioms("shuffled,last-block"))
    ['last-block', 'shuffled']
    """
    names = given.split(",") if isinstance(given, str) else [*given]
    found: set[str] = set()
    for name in filter(None, (each.strip() for each in names)):
        if name != "all" and name not in IDIOMS:
            raise ArgumentError(f"unknown idiom {name!r}", given=name, allowed=choices(name, ("all", *IDIOMS)))
        found |= IDIOMS.keys() if name == "all" else {name}
    return frozenset(found)
