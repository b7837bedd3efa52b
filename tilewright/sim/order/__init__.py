"""Order: which accesses happen before which, for every memory, scope, proxy and thread; no instruction is named.

knowledge     what threads know of each other, and how they hand it on
races         two accesses to one place: may they meet?
asynchronous  operations that run beside the threads, and their completion
proxies       accesses of threads and of units to one memory, and the fences between them
rules         what holds in every schedule: barriers, m-barriers, the memory of other CTAs, constants
reports       what users are told: errors, warnings, and the step that is missing
bounds        how much of the past is kept
wave          all of these for one wave of CTAs
engine        the events of a run, and what each of them changes

Start here: one access. `RaceDetector.access` has the bytes that a batch of lanes touches and makes a record of it
(`places.access`). `_judge` fetches the tags of the places: the last writes, and before a write the reads since then.
`judge.clash_of` keeps the pairs of threads whose times the clocks do not know, and tells races from strong accesses
that may meet; the pair that is farthest apart becomes a `Clash`. `race.report` puts that into words, with the missing
step. Without a clash the places remember the access, and locations and fences learn what it published.

Source: PTX ISA, "Memory Consistency Model".
"""
