"""A kernel on the GPU and on the simulator, with equal inputs; and the judgement of what comes out.

Lowered kernels are run as they are: emitted, assembled (through the disk cache), launched with copies of NumPy arrays.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright import isa
from tilewright.cuda import cache, emit
from tilewright.cuda.launch import Launcher, launch_from_host
from tilewright.ir import Kernel, Var
from tilewright.ir.arguments import Signature
from tilewright.sim import Program, Run, parse_checks

Array = NDArray[Any]
ARCH = isa.arch("sm_90a")


def library(name: str) -> ModuleType:
    """A library, or the tests that need it are left out; what it warns of is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: ModuleType = pytest.importorskip(name)
    return module


def on_gpu(kernel: Kernel, arrays: list[Array], scalars: Mapping[str, Any]) -> None:
    """Launch a lowered kernel on arrays in the order of its parameters, which are changed in place."""

    def cubin(*, may_alias: bool) -> bytes:
        return cache.assemble(emit(kernel, ARCH, may_alias=may_alias), str(ARCH)).cubin

    args = _in_order(kernel, arrays, scalars)
    launch_from_host(Launcher(kernel, Signature.of(kernel), ARCH, cubin), args)


def on_simulator(kernel: Kernel, arrays: list[Array], scalars: Mapping[str, Any], check: str) -> Run:
    return Program(kernel, parse_checks(check)).run(_by_handle(kernel, arrays), scalars)


def _by_handle(kernel: Kernel, arrays: list[Array]) -> dict[str, Array]:
    handles = [buffer.data.name for buffer in kernel.buffers if isinstance(buffer.data, Var)]
    return dict(zip(handles, arrays, strict=True))


def _in_order(kernel: Kernel, arrays: list[Array], scalars: Mapping[str, Any]) -> list[Any]:
    arguments = {**_by_handle(kernel, arrays), **scalars}
    return [arguments[param.name] for param in kernel.params]


@dataclass
class Bench:
    """Runs both sides and counts. tally: kernels, dynamic warp instructions, bytes compared, bytes that differ.

    largest: what was measured where equality is not asked for; of several tests the largest counts.
    """

    tally: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)

    def run(
        self,
        kernel: Kernel,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any] | None = None,
        *,
        check: str = "default",
        nan_is_nan: bool = False,
        judged: bool = True,
    ) -> dict[str, tuple[Array, Array]]:
        """(from the GPU, from the simulator) for each array by the name of its buffer; equal bytes, if ``judged``.

        nan_is_nan: whatever the bits of a NaN are.
        """
        names = [buffer.name for buffer in kernel.buffers]
        given = [np.ascontiguousarray(arrays[name]) for name in names]
        hardware, simulated = [one.copy() for one in given], [one.copy() for one in given]
        run = on_simulator(kernel, simulated, scalars or {}, check)
        on_gpu(kernel, hardware, scalars or {})
        self.tally["kernels"] += 1
        self.tally["instructions of warps"] += sum(run.counts.instructions.values())
        found = dict(zip(names, zip(hardware, simulated, strict=True), strict=True))
        if judged:
            for name, (ours, theirs) in found.items():
                self.judge(name, ours, theirs, nan_is_nan=nan_is_nan)
        return found

    def judge(self, name: str, hardware: Array, simulated: Array, *, nan_is_nan: bool = False) -> None:
        """Equal byte by byte; the error shows the first elements that are not."""
        wrong = differing(hardware, simulated, nan_is_nan=nan_is_nan)
        self.tally["bytes compared"] += hardware.nbytes
        self.tally["differences"] += int(wrong.sum())
        if wrong.any():
            first = np.flatnonzero(wrong)[:8]
            shown = [f"[{i}] {bits(hardware)[i]:#x} {bits(simulated)[i]:#x}" for i in first]
            raise AssertionError(
                f"{name}: {int(wrong.sum())} of {wrong.size} {hardware.dtype} elements differ, GPU and simulator: "
                + ", ".join(shown)
            )


def bits(array: Array) -> Array:
    """The elements as unsigned numbers, flat."""
    return array.reshape(-1).view(f"u{array.dtype.itemsize}")


def differing(hardware: Array, simulated: Array, *, nan_is_nan: bool) -> NDArray[np.bool_]:
    wrong = np.asarray(bits(hardware) != bits(simulated))
    if nan_is_nan and hardware.dtype.kind in "fV":
        wrong &= ~both_nan(hardware, simulated)
    return wrong


def ulps_apart(hardware: Array, simulated: Array) -> Array:
    """How many numbers of their dtype lie between two finite floats, plus one; 0 for equal ones and two NaNs."""
    width = hardware.dtype.itemsize
    ordered = []
    for array in (hardware, simulated):
        pattern = array.reshape(-1).view(f"i{width}").astype(object)
        ordered.append(np.where(pattern < 0, -(pattern & ((1 << 8 * width - 1) - 1)), pattern))
    apart = np.abs(ordered[0] - ordered[1])
    return np.where(both_nan(hardware, simulated), 0, apart)


def both_nan(hardware: Array, simulated: Array) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # ml_dtypes says so of NaN itself
        return np.asarray(np.isnan(hardware.reshape(-1)) & np.isnan(simulated.reshape(-1)), np.bool_)
