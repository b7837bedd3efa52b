"""Order: which accesses happen before which, for every memory, scope, proxy and thread; no instruction is named.

knowledge   what is handed on; clocks: what each thread knows of every other, and of asynchronous operations
channels    what hands a clock on: barriers, phases of m-barriers; locations: and any location of memory
releases    what its writes have published; fence_sc: and what fences of kind sc make of that
actors      who does something: warps with some of their lanes
places      what was accessed last where, in shared and in global memory; records: and by which statement
observed    what strong reads have seen
races       two accesses: may they meet?
operations  asynchronous operations and how they are known to be complete; completion: what they touch
on_behalf   the same as accesses of who issued them; in_flight: what threads touch meanwhile
protocol    what must hold whatever the schedule
missing     the step that is missing between two accesses, in the kernel's own words
reports     what a race report says; advice: a barrier that can stand there and helps; handover: what flags lack
proxies     accesses of two kinds to one memory, and the fences between them; tensor_maps: through a third one
wave        all of these for one wave of CTAs
engine      the events of a run, each brought to those that it concerns

Source: PTX ISA, "Memory Consistency Model".
"""
