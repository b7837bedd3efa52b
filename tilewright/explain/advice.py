"""A hint that a person reads, and what it says as data."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.explain.finding import Remedy

__all__ = ["AdvisedStep", "advised", "joined"]


class AdvisedStep(str):
    """The words of a hint, with its `Remedy`. An error that gets it as ``hint`` has the remedy in its facts."""

    remedy: Remedy


def advised(
    text: str, step: str, scope: str | None = None, where: tuple[int, ...] = (), code: str | None = None
) -> AdvisedStep:
    """A hint and the fields of its remedy."""
    made = AdvisedStep(text)
    made.remedy = Remedy(step, scope, where, code=code)
    return made


def joined(texts: Iterable[str | None]) -> str:
    """Hints one after the other, with the remedy of the first that has one; empty where there is none."""
    given = [text for text in texts if text]
    made = AdvisedStep("; ".join(given))
    made.remedy = next((each.remedy for each in given if isinstance(each, AdvisedStep)), Remedy("other"))
    return made
