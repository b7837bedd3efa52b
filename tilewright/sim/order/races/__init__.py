"""Two accesses to one place of which neither is known to come first.

accesses  one access, and the tags that it leaves
places    the last accesses of each place in shared and in global memory
records   their statements
clash     a race: both accesses and their threads
judge     which pairs of accesses race
observed  what a thread observes by a strong read comes before its next access of that place
volatile_reads
          rely on an order that they have not got
tickets   numbers that threads take at counters, with a fence on one side alone
"""
