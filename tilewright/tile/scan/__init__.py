"""The variants of `scan`: in registers, in memory, and through shared memory."""
