"""Two accesses to one place of which neither is known to come first.

accesses  one access, and the tags that it leaves
places    the last accesses of each place in shared and in global memory
records   their statements
clash     a race: both accesses and their threads
judge     which pairs of accesses race
observed  writes that a thread has seen by a strong read: it comes after them
hearsay   what volatile reads rely on, unordered
"""
