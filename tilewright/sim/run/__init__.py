"""One run of a kernel, from its program to its counts.

program             a lowered kernel that runs as often as one likes
execution           its arguments, its waves of CTAs, and its results
execution           several GPUs in one run: where each has its arrays
schedule, stuck     which batch goes next; the error when none can
schedule            a thread that others overtake before its strong accesses
schedule            which warps are whole where lanes meet, and what of lanes that have ended meanwhile
limits              what a run may take; how far it has come
"""
