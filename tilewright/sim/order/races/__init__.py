"""Two accesses to one place of which neither is known to come first.

records         lanes about to touch memory; one access, and the tags that it leaves; pairs of accesses that may race,
                and the race that is reported of them; their statements
places          the last accesses of each place in shared and in global memory; places that several threads have
                touched, unordered; accesses by one thread of what many CTAs touch, by numbers instead of arrays
permitted       pairs that may meet in any order; what a thread observes by a strong read comes before its next access
                of that place; reads that lead to what a compare-and-swap does
detector        which pairs race; rely on an order that they have not got; numbers that threads take at counters, with
                a fence on one side alone; all of these for one run
"""
