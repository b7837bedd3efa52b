"""One run of a kernel, from its program to its counts.

program         a lowered kernel that runs as often as one likes
execution       its arguments, its waves of CTAs, and its results; several GPUs in one run: where each has its arrays
schedule, stuck
                which batch goes next; the error when none can; a thread that others overtake before its strong
                accesses; which warps are whole where lanes meet, and what of lanes that have ended meanwhile
limits          what a run may take; how far it has come
"""
