"""Asynchronous operations: agents beside the threads, ordered by their completion.

operations  their parts, the places that those touch, and what their completion publishes
completion  an operation begins: are those before it complete?
issue_order kinds that keep the order of their issue
in_flight   threads touch what an operation may still use
on_behalf   accesses of operations as those of their issuers
"""
