"""Accesses of threads and of units to one memory, and the proxy fences between them.

Each class hears of fences, and is asked what an operation that begins does not see.

shared_stores    what units may not see yet of shared memory
global_accesses  and of global memory, and what they may not overwrite yet there
tensor_maps      tensor maps that threads change, which units read through a proxy of their own
"""
