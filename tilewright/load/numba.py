"""Numba's kernels: its own compiler makes the PTX, which takes libnvvm and no GPU, and the simulator runs that."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.errors import ArgumentError, ToolError, described
from tilewright.explain import NUMBA
from tilewright.isa import arch
from tilewright.load.module import LoadedModule
from tilewright.ptx import parse

if TYPE_CHECKING:
    from tilewright.sim import Run


def check_numba(
    kernel: Any,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *args: Any,
    target: str = "sm_90a",
    shared_bytes: int = 0,
    check: str | Iterable[str] = "all",
    limit_s: float | None = None,
) -> Run:
    """Compile a ``@cuda.jit`` kernel with Numba, and run its PTX on the simulator with every check.

    kernel: what ``numba.cuda.jit`` made, or a function; `Any`: that is Numba's. args: what the kernel is launched with;
    arrays are changed in place.
    Raises SimulationError, at the kernel's line, where a check finds something; ToolError where Numba refuses it.
    """
    function = getattr(kernel, "py_func", kernel)
    if not hasattr(function, "__code__"):
        raise ArgumentError("this is no kernel of Numba", given=described(kernel), allowed="what @cuda.jit made")
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if len(names) != len(args):
        raise ArgumentError(f"{function.__name__} takes {len(names)} arguments", given=f"{len(args)} arguments",
                            allowed=", ".join(names) or "none")  # fmt: skip
    (entry,) = LoadedModule(parse(_compiled(function, args, target)), dialect=NUMBA)
    values = [pair for name, value in zip(names, args, strict=True) for pair in _passed(name, value)]
    entry.call_parameters([name for name, _ in values])
    given = [value for _, value in values]
    return entry.simulate(*given, grid=grid, block=block, shared_bytes=shared_bytes, check=check, limit_s=limit_s)


def _passed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What Numba passes for an argument: for an array its owner, parent, size, item size, data, shape and strides.

    A tuple is passed part by part; of complex numbers and records the array is one of bytes here.
    """
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _passed(f"{name}[{place}]", part)
        return
    if not host.is_array(value):
        yield name, value
        return
    size, strides = value.dtype.itemsize, _strides(value)
    data = value[..., None].view(np.uint8) if getattr(value.dtype, "kind", "") in ("c", "V") else value
    yield from ((f"{name}.meminfo", None), (f"{name}.parent", None), (f"{name}.size", value.size))
    yield from ((f"{name}.itemsize", size), (name, data))
    yield from ((f"{name}.shape[{k}]", extent) for k, extent in enumerate(value.shape))
    yield from ((f"{name}.strides[{k}]", stride) for k, stride in enumerate(strides))


def _strides(value: Any) -> Sequence[int]:
    """In bytes."""
    if isinstance(value, np.ndarray):
        return value.strides
    return [step * value.dtype.itemsize for step in host.array_info(value).steps]


@contextmanager
def _compiling_for(number: int) -> Iterator[None]:
    """Numba asks the GPU what to compile a function of the device for: here it is told, without one."""
    asking: Any = importlib.import_module("numba.cuda.dispatcher")
    own = asking.get_current_device
    asking.get_current_device = lambda: SimpleNamespace(compute_capability=(number // 10, number % 10))
    try:
        yield
    finally:
        asking.get_current_device = own


def _compiled(function: Any, args: Sequence[Any], target: str) -> str:
    try:
        import numba
        from numba import cuda
    except ImportError as error:
        raise ToolError("Numba is not installed", given=str(error), hint="pip install numba") from None
    number = arch(target).number
    try:
        with warnings.catch_warnings(), _compiling_for(number):
            warnings.simplefilter("ignore")
            types = tuple(numba.typeof(value) for value in args)
            text, _ = cuda.compile_ptx(function, types, cc=(number // 10, number % 10), lineinfo=True)
    except Exception as error:  # Numba has no one class of errors; without libnvvm it says so
        given = str(error).strip() or type(error).__name__
        raise ToolError(f"Numba refuses {function.__name__}", given=given) from None
    return str(text)
