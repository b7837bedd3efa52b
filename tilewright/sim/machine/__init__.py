"""The SIMT machine: lanes, addresses, memories, what an instruction sees, and operations under way.

subject, device
                a kernel before any run; the device that runs it: its events and its output; the statements by which
                threads learn that one is complete, for messages; what a launch did, for the one behind it
team, event     threads that execute a statement together, and their warps; a team at one segment, with its values; what
                they are about to touch, and their signals at m-barriers, for checks
wave            the CTAs that run together, and their memories
address, places
                the addresses of a batch; where each buffer lives, with arguments that share memory, and the shared
                memory of other CTAs; bytes as elements of the kernel's buffers, and units that leave one, for messages
memory, registers, tmem, unknown
                global and shared memory, a row for each CTA, or one for all until they differ; registers, tensor
                memory; which of their bytes are initialised; which bits of a value are unknown; does what a thread
                stores depend on what another one has read?
sites           the statements of a kernel that touch memory; what is counted there
arrays          the kinds of arrays, by name
convert         between the values of a kernel and the bits in memory, elements of 4 bits too
instructions, facets
                a row of the instruction table, the machine as it sees it, bytes in one memory, and lanes that execute
                it together
operation, units
                asynchronous operations between issue and completion; one of them, its issuers, its places
sync, precedence
                barriers; what a run may choose: which batch goes first where several may; waits that answer no at
                first; who came to barriers, and who went on behind one without having come to it
uniform         warps that hold the same
"""

from tilewright.sim.machine.address import *  # noqa: F403  # the room's public names are its modules' __all__
from tilewright.sim.machine.arrays import *  # noqa: F403
from tilewright.sim.machine.convert import *  # noqa: F403
from tilewright.sim.machine.device import *  # noqa: F403
from tilewright.sim.machine.event import *  # noqa: F403
from tilewright.sim.machine.facets import *  # noqa: F403
from tilewright.sim.machine.instructions import *  # noqa: F403
from tilewright.sim.machine.memory import *  # noqa: F403
from tilewright.sim.machine.operation import *  # noqa: F403
from tilewright.sim.machine.places import *  # noqa: F403
from tilewright.sim.machine.precedence import *  # noqa: F403
from tilewright.sim.machine.registers import *  # noqa: F403
from tilewright.sim.machine.sites import *  # noqa: F403
from tilewright.sim.machine.subject import *  # noqa: F403
from tilewright.sim.machine.sync import *  # noqa: F403
from tilewright.sim.machine.team import *  # noqa: F403
from tilewright.sim.machine.tmem import *  # noqa: F403
from tilewright.sim.machine.uniform import *  # noqa: F403
from tilewright.sim.machine.units import *  # noqa: F403
from tilewright.sim.machine.unknown import *  # noqa: F403
from tilewright.sim.machine.wave import *  # noqa: F403
