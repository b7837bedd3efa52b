"""The SIMT machine: lanes, addresses, memories, what an instruction sees, and operations under way.

batch, masks, wave  lanes at one segment; which of them are active; the CTAs that run together
address, places, overlaps
                    the addresses of a batch, where each buffer lives, and arguments that share memory
memory, registers, tmem, remote, nibbles
                    global and shared memory, registers, tensor memory, other CTAs' shared memory, elements of 4 bits
sites, counts       the places of a kernel that touch memory, and what is counted there
arithmetic, convert, floats
                    what NumPy or Python computes otherwise than a GPU
instructions, facets, gathered
                    a row of the instruction table, the machine as it sees it, and lanes that execute it together
pending, units      asynchronous operations between issue and completion, and what they act on
sync, turns         where threads meet; loops that turn on the spot
uniform             warps that hold the same
"""
