"""Order: which accesses happen before which, for every memory, scope, proxy and thread; no instruction is named.

knowledge       what threads know of each other, and how they hand it on
races           two accesses to one place: may they meet?
asynchronous    operations that run beside the threads, and their completion
proxies         accesses of threads and of units to one memory, and the fences between them
rules           what holds in every schedule: barriers, m-barriers, the memory of other CTAs, constants
reports         what users are told: errors, warnings, and the step that is missing
engine          all of these for one wave of CTAs; the events of a run, and what each of them changes
grids           launches that begin before the one before them has ended

Start here: one access. The machine hands over an `AccessEvent`: these threads, these bytes, at this time.
`RaceDetector.access` makes a record of it (`TaggedPlaces.access`). `_judge` fetches the tags of the places: the last
writes, and before a write the reads since then. `clash_of` keeps the pairs of threads whose times the clocks do not
know, and tells races from strong accesses that may meet; the pair that is farthest apart becomes a `Clash`.
`reports.race.report` puts that into words, with the missing step. Without a clash the places remember the access, and
locations and fences learn what it published.

Of the past no more is kept than constants say, beside what is kept, so that a long run needs no more memory than a
short one. What is older is forgotten: a race with an access whose record is forgotten is found all the same; its report
does not name the line.

Each fact has one owner. Whoever changes a rule begins where the fact is kept that it asks about:

what a thread comes after: other threads, by time       Clocks.known, far     everybody
    of operations: complete, offered, heard, ordered    Clocks.parts          asynchronous, SharedStores
    after a fence of kind sc, or a proxy fence          columns of the clocks, flags of parts
what is handed on: by barriers, phases, locations       meetings, phases, locations
    by older values, that decide a branch alike         History               locations
    by the fences of a thread                           Fences                strong writes, relaxed arrivals
    of each fence by itself                             FencePoints           proxies of global memory
    by the cluster's barrier, though it is relaxed      ClusterMeetings       MBarrierRules, RemoteAccesses
who touched a place last                                places                detector, GlobalAccesses
    each warp, where units read and write, too          SharedStores          operations that begin
    which operation                                     Scoreboard            operations
which statement that was, and all of its lanes          records               detector, reports
which m-barriers are alive, and since when              MBarrierRules         arrivals, waits, operations
who was observed without an acquire                     VolatileReads, Tickets
arrivals and waits, with their lines                    signal_history        reports, mbarrier.inval

Source: PTX ISA, "Memory Consistency Model".
"""
