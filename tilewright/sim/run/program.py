"""A lowered kernel that runs on the simulator, as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tilewright.host import Limits
from tilewright.ir.tensor_map import MapFields, mapped
from tilewright.sim.codegen.compiled import Compiled
from tilewright.sim.machine.places import Group, groups_of
from tilewright.sim.machine.precedence import OTHERS, PATIENT, Precedence
from tilewright.sim.run.execution import Execution, Run

if TYPE_CHECKING:
    from tilewright.ir import Kernel, Number
    from tilewright.sim.machine.arrays import Array

__all__ = ["Program"]


class Program:
    """``run`` executes the kernel on arrays. It is compiled once, and once more for arguments that share memory.

    kernel: of stage "lowered". checks: names out of `CHECKS`.
    """

    def __init__(self, kernel: Kernel, checks: frozenset[str]) -> None:
        self._lowered = kernel
        self._checks = checks
        self.compiled = Compiled(kernel, checks)
        self._by_groups: dict[tuple[Group, ...], Compiled] = {(): self.compiled}  # by the arguments that share memory

    @property
    def source(self) -> str:
        """The Python functions of the kernel's segments."""
        return self.compiled.source

    def base_of(self, name: str, arrays: Mapping[str, Array]) -> int:
        """The address of a buffer's first byte, where the arguments are these arrays."""
        return self._of(groups_of(arrays)).places.by_name[name].base

    def _of(self, groups: tuple[Group, ...]) -> Compiled:
        if groups not in self._by_groups:
            self._by_groups[groups] = Compiled(self._lowered, self._checks, groups)
        return self._by_groups[groups]

    def run(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        maps: Mapping[str, MapFields] = {},
        *,
        progress: Callable[[int, int], None] | None = None,
        limits: Limits | None = None,
    ) -> Run:
        """Execute the whole grid; arrays are changed in place.

        arrays: by the name of the handle parameter, C-contiguous, with the buffer's bytes. scalars: parameters and
        symbols by name. maps: the tensor maps that are arguments; ``arrays`` has their arrays as `mapped`.
        progress: called with CTAs done and CTAs in all. limits: what the run may take.
        Raises SimulationError for what a check finds, and at a limit.
        """
        own = {each.name for each in self._lowered.maps}
        named = {
            buffer.name: arrays[handle.name] for buffer, handle in self.compiled.handles() if buffer.name not in own
        }
        program = self._of(groups_of(named))
        named |= {name: np.frombuffer(data, np.uint8).copy() for name, data in _encoded(program, maps, scalars)}
        return _run(program, named, scalars, progress, limits or Limits())


def _encoded(
    program: Compiled, maps: Mapping[str, MapFields], scalars: Mapping[str, Number]
) -> Iterator[tuple[str, bytes]]:
    """The 128 bytes of each tensor map, with the address that its array has here."""
    for each in program.kernel.maps:
        fields = each.fields(scalars) if each.is_made else maps[each.name]
        base = program.places.by_name[each.of if each.is_made else mapped(each.name)].base
        yield each.name, fields.at(base + (each.start(scalars) if each.is_made else 0)).encode()


def _run(
    program: Compiled,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Number],
    progress: Callable[[int, int], None] | None,
    limits: Limits,
) -> Run:
    for site in program.sites:
        site.reset()
    watched = "races" in program.checks and not program.groups and any(site.sem != "weak" for site in program.sites)
    before = {name: array.copy() for name, array in arrays.items()} if watched else arrays
    with np.errstate(all="ignore"):
        execution = Execution(program, arrays, scalars, limits)
        execution.run(progress)
        result = execution.result()
        for precedence in _other_orders(program, execution) if watched else ():
            again = {name: array.copy() for name, array in before.items()}
            other = Execution(program, again, scalars, limits, precedence=precedence)
            other.run(lambda done, ctas: None)
            result.warnings.extend(text for text in other.warnings if text not in result.warnings)
        return result


def _other_orders(program: Compiled, run: Execution) -> Iterator[Precedence]:
    """Do threads see which came first? Then the race check makes runs in other orders as well."""
    if any(site.asks or (site.sem != "weak" and site.observes and not site.is_signal) for site in program.sites):
        yield from OTHERS if run.ctas * run.warps > 1 else OTHERS[:1]
    if any(check.doubtful for check in program.own_checks):
        yield PATIENT
