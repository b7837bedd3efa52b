"""One run of a kernel, from its program to its counts.

program             a lowered kernel compiled for the simulator
execution           its arguments, its waves of CTAs, and what it leaves behind
schedule, stuck     which batch goes next; what is told when none can
limits, progress    what a run may take; how far it has come
printed             what the kernel printed
"""
