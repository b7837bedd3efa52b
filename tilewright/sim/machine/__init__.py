"""The SIMT machine: lanes, addresses, memories, what an instruction sees, and operations under way.

subject, device
                a kernel before any run; the device that runs it: its events and its output; the statements by which
                threads learn that one is complete, for messages; what a launch did, for the one behind it
batch, wave     lanes at one segment; which of them are active; the CTAs that run together, and their memories
address, places
                the addresses of a batch; where each buffer lives, with arguments that share memory; bytes as elements
                of the kernel's buffers, and units that leave one, for messages
rows, memory, registers, tmem, remote, shadows, unknown
                a row for each CTA, or one for all until they differ; global and shared memory, registers, tensor
                memory, other CTAs' shared memory; which of their bytes are initialised; which bits of a value are
                unknown; does what a thread stores depend on what another one has read?
sites, counts   the places of a kernel that touch memory, and what is counted there
arrays          the kinds of arrays, by name
convert         between the values of a kernel and the bits in memory, elements of 4 bits too
instructions, facets
                a row of the instruction table, the machine as it sees it, and lanes that execute it together
operation, units
                asynchronous operations between issue and completion; one of them, its issuers, its places
signals         warps that act together, and their signals at m-barriers
sync, precedence
                barriers; what a run may choose: which batch goes first where several may; waits that answer no at
                first; who came to barriers, and who went on behind one without having come to it
uniform         warps that hold the same
"""
