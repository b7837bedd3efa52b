"""What a kernel is: expressions, buffers, statements, and the walks over them."""

from tilewright.ir.buffer import *  # noqa: F403  # the room's public names are its modules' __all__  # noqa: F403
from tilewright.ir.build import *  # noqa: F403
from tilewright.ir.expr import *  # noqa: F403
from tilewright.ir.flow import *  # noqa: F403
from tilewright.ir.launch import *  # noqa: F403
from tilewright.ir.placement import *  # noqa: F403
from tilewright.ir.stmt import *  # noqa: F403
from tilewright.ir.tiles import *  # noqa: F403
from tilewright.ir.walk import *  # noqa: F403
