"""The variants of `scan`: in registers, in memory, and by way of shared memory."""
