"""What users are told as data: a finding, what would mend it, and the findings of one run.

dialects   what the terms of `tilewright.terms` are called in other languages
finding    one thing that a check has found, with its place, its threads and the other access; what would mend it, as
           changes of a text; what is benign by policy; the findings of a run: alike ones counted, those that follow
           from another one kept apart
rules      what holds in every schedule, and what is said where it is broken; why a phase of an m-barrier never ends
steps      the step that is missing between two lines of a kernel: a barrier, a wait, a fence, a handover; the text
           around a line of compiled code, as its author indents it
"""

from tilewright.explain.finding import *  # noqa: F403
from tilewright.explain.rules import *  # noqa: F403  # the room's public names are its modules' __all__
