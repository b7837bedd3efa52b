"""A compiler for GPU tile primitives: declare where every element of a tile lives, and write `copy`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError, TilewrightWarning

if TYPE_CHECKING:
    from tilewright.checking import check
    from tilewright.compiler import Executable, compile, simulate, torch_op
    from tilewright.deleting import needed
    from tilewright.host import TensorMap, Texture
    from tilewright.inputs import Symmetric
    from tilewright.lang import T, Tx
    from tilewright.load import check_numba, check_triton, load_cu, load_ptx
    from tilewright.sequences import launch, sequence
    from tilewright.sim import RecordingOptions
    from tilewright.tuning import autotune

__version__ = "0.1.0"

__all__ = [
    "Executable", "RecordingOptions", "Symmetric", "T", "TensorMap", "Texture", "TilewrightError", "TilewrightWarning",
    "Tx", "autotune", "check", "check_numba", "check_triton", "compile", "launch", "load_cu", "load_ptx", "needed",
    "sequence", "simulate", "torch_op",
]  # fmt: skip

# The rooms, and NumPy with them, are imported when they are first asked for: `import tilewright` alone is quick.
_COMPILER = ("Executable", "compile", "simulate", "torch_op")
_LOADED = ("check_numba", "check_triton", "load_cu", "load_ptx")
_HOMES = {
    "check": "checking",
    "launch": "sequences",
    "sequence": "sequences",
    "needed": "deleting",
    "RecordingOptions": "sim",
    "T": "lang",
    "autotune": "tuning",
    "Symmetric": "inputs",
    "TensorMap": "host",
    "Texture": "host",
    "Tx": "lang",
    **dict.fromkeys(_COMPILER, "compiler"),
    **dict.fromkeys(_LOADED, "load"),
}
_ROOMS = (
    "advise", "checking", "compiler", "cuda", "dtypes", "ir", "isa", "kernels", "lang", "layout", "load", "lower",
    "primitives", "profiling", "ptx", "public", "sim", "tile", "verdict", "view",
)  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
