"""What users are told as data: a finding, what would mend it, and the findings of one run.

dialects   what the terms of `tilewright.terms` are called in other languages
remedy     what would mend a finding, as changes of a text
finding    one thing that a check has found, with its place, its threads and the other access
idioms     what is benign by policy, and why
collected  the findings of a run: alike ones counted, those that follow from another one kept apart
rules      what holds in every schedule, and what is said where it is broken
tales      why a phase of an m-barrier never ends, by its signals
handovers  what a handover in a kernel's text lacks: flags, m-barriers, the cluster's barrier
statements the statements that wait, commit or fence, found by what rows say they do
steps      the step that is missing between two lines of a kernel: a barrier, a wait, a fence, a handover
"""

from tilewright.explain.collected import Collected
from tilewright.explain.dialects import COMMAND, CUDA, NUMBA, PTX, TRITON
from tilewright.explain.finding import BUILDS, Facts, Finding, OtherAccess, Threads, reworded
from tilewright.explain.idioms import IDIOMS, parse_idioms
from tilewright.explain.remedy import (
    Edit,
    Remedy,
    Way,
    advised,
    at_once,
    between,
    either,
    insert,
    instruction,
    joined,
    keyword,
    move,
    operand,
    other_parity,
    replaced,
)

__all__ = [
    "BUILDS", "COMMAND", "CUDA", "IDIOMS", "NUMBA", "PTX", "TRITON", "Collected", "Edit", "Facts",
    "Finding", "OtherAccess", "Remedy", "Threads", "Way", "advised", "at_once",
    "between", "either", "insert", "instruction", "joined", "keyword", "move", "operand",
    "other_parity", "parse_idioms", "replaced", "reworded",
]  # fmt: skip
