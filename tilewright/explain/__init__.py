"""What users are told as data: a finding, what would mend it, and the findings of one run.

finding    one thing that a check has found, with its place, its threads and the other access
idioms     what is benign by policy, and why
advice     a hint in words that has its remedy
collected  the findings of a run: alike ones counted, those that follow from another one kept apart
"""

from tilewright.explain.advice import AdvisedStep, advised, joined
from tilewright.explain.collected import Collected
from tilewright.explain.finding import BUILDS, Facts, Finding, OtherAccess, Remedy, Threads
from tilewright.explain.idioms import IDIOMS, parse_idioms

__all__ = [
    "BUILDS", "IDIOMS", "AdvisedStep", "Collected", "Facts", "Finding", "OtherAccess", "Remedy", "Threads", "advised",
    "joined", "parse_idioms",
]  # fmt: skip
