"""What the hardware does: one file per instruction family; a row has its spelling, its rules and its exact meaning."""

import importlib
import pkgutil

from tilewright.isa.arch import *  # noqa: F403  # the room's public names are its modules' __all__
from tilewright.isa.atoms import *  # noqa: F403
from tilewright.isa.calls import *  # noqa: F403
from tilewright.isa.descriptors import *  # noqa: F403
from tilewright.isa.fragments import *  # noqa: F403
from tilewright.isa.machine import *  # noqa: F403
from tilewright.isa.majorness import *  # noqa: F403
from tilewright.isa.mbarrier_state import *  # noqa: F403
from tilewright.isa.spelling import *  # noqa: F403
from tilewright.isa.table import *  # noqa: F403
from tilewright.isa.tensor_alloc import *  # noqa: F403
from tilewright.isa.tensor_cp import *  # noqa: F403
from tilewright.isa.tensor_ldst import *  # noqa: F403

for _module in sorted(info.name for info in pkgutil.iter_modules(__path__)):  # noqa: F405  # Python's own
    importlib.import_module(f"{__name__}.{_module}")
