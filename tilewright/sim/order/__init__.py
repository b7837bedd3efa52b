"""Order: which accesses happen before which, for every memory, scope, proxy and thread; no instruction is named.

knowledge   what threads hand on; clocks: what each thread knows of every other, and of asynchronous operations
channels    barriers and phases of m-barriers, which hand a clock on; locations: so does any location of memory
releases    what strong writes publish; fence_sc: and the order that fences of kind sc have by it
actors      warps with some of their lanes
places      the last accesses of each place in shared and in global memory; records: and their statements
accesses    one access, and the tags that it leaves
observed    what strong reads have seen; hearsay: and what volatile ones rely on, unordered
races       two accesses: may they meet? constants: reads of memory that the kernel must not write
operations  asynchronous operations and their completion; completion: the places that they touch
            issue_order: kinds that keep the order of their issue
            remote_operations: those that touch the memory of other CTAs
on_behalf   their accesses as those of their issuers; in_flight: accesses of threads meanwhile
protocol    rules that hold in every schedule
missing     the step that is missing between two accesses, in the kernel's own words
reports     race reports; advice: a barrier that can stand there and helps; handover: what flags lack
signalled   arrivals and waits at m-barriers that have been; manner: do two threads change one place?
proxies     accesses of two kinds to one memory, and the fences between them; tensor_maps: through a third one
wave        all of these for one wave of CTAs
engine      the events of a run, and what each of them changes

Start here: one access. `engine._access` has the bytes that a batch of lanes touches and makes a record of it
(`places.access`). `engine._judge` fetches the tags of the places: the last writes, and before a write the reads since
then. `races.clash_of` keeps the pairs of threads whose times the clocks do not know, and tells races from strong
accesses that may meet; the pair that is farthest apart becomes a `Clash`. `reports.report` puts that into words, with
the missing step. Without a clash the places remember the access, and locations and fences learn what it published.

Source: PTX ISA, "Memory Consistency Model".
"""
