"""Two accesses to one place of which neither is known to come first.

records         one access, and the tags that it leaves
places          the last accesses of each place in shared and in global memory
records         their statements
clash           pairs of accesses, and the race that is reported of them
permitted       pairs that may meet in any order
observed        what a thread observes by a strong read comes before its next access of that place
places          places that several threads have touched, unordered
detector        which pairs race
detector        rely on an order that they have not got
detector        numbers that threads take at counters, with a fence on one side alone
detector        all of these for one run
"""
