"""Asynchronous operations: agents beside the threads, ordered by their completion.

scoreboard      shares of threads and warps in them, by numbers; which come before others, as kinds that keep the order
                of their issue; the parts that each place remembers
operations      what their completion publishes, and who has waited for it; accesses of operations as those of their
                issuers; writes of global memory by operations that are under way; an operation
                begins: are those before it complete?; threads touch what an operation may still use
"""
