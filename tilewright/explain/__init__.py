"""What users are told as data: a finding, what would mend it, and the findings of one run.

finding    one thing that a check has found, with its place, its threads and the other access
advice     a hint in words that has its remedy
collected  the findings of a run: alike ones counted, those that follow from another one kept apart
"""

from tilewright.explain.advice import Advice, advised, joined
from tilewright.explain.collected import Collected
from tilewright.explain.finding import Facts, Finding, OtherAccess, Remedy, Threads

__all__ = ["Advice", "Collected", "Facts", "Finding", "OtherAccess", "Remedy", "Threads", "advised", "joined"]
