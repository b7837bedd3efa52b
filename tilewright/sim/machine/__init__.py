"""The SIMT machine: lanes, addresses, memories, what an instruction sees, and operations under way.

subject, device     a kernel before any run; the device that runs it, its events and its output (events, printed)
batch, masks, wave  lanes at one segment; which of them are active; the CTAs that run together
address, places, overlaps
                    the addresses of a batch, where each buffer lives, and arguments that share memory
memory, registers, tmem, remote, elsewhere, nibbles, shadows, unknown
                    global and shared memory, registers, tensor memory, other CTAs' shared memory, elements of 4 bits;
                    which of their bytes are initialised; which bits of a value are unknown
sites, counts       the places of a kernel that touch memory, and what is counted there
arrays              the kinds of arrays, by name
coordinates         bytes as elements of the kernel's buffers, for messages
convert             between the values of a kernel and the bits in memory
instructions, register_files, operands, facets, gathered
                    a row of the instruction table, the machine as it sees it, and lanes that execute it together
pending, operation, issuers, units
                    asynchronous operations between issue and completion; one of them, its issuers, its places
awaiting            the statements by which threads learn that one is complete, for messages
answers             what the functions of an asynchronous row give, checked as they run
sync, turns, precedence
                    barriers; loops that turn on the spot; which batch goes first where several may
uniform             warps that hold the same
"""
