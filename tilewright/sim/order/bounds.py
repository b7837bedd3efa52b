"""How much of the past is kept, so that a long run needs no more memory than a short one. What is older is forgotten.

A race with an access whose record is forgotten is found all the same; its report does not name the line.
"""

RECORDS = 4096  # of accesses to one memory
RECORD_BYTES = 1 << 24  # of their addresses
LATE_ACCESSES = 64  # of one memory, that no tag shows yet
WAITS = 16  # for groups of operations, of a wave
SIGNALS = 1024  # arrivals and waits at m-barriers, of a wave
PROXY_FENCES = 64  # of one kind in a CTA
OBSERVATIONS = 256  # of other threads by one CTA, or at one counter
STATES = 4096  # of a location
STRONG_WRITES = 4096  # of warps, where threads poll and read by volatile loads
GLOBAL_OPERATIONS = 256  # on global memory
REMOTE_OPERATIONS = 64  # before those that are known to be complete are left out
MBARRIER_CHECKS = 256  # that have passed
FAR_TIMES = 1 << 21  # of threads, of which it is remembered what they make together
FAR_CTAS = 1 << 17  # the same for what is known of whole CTAs
