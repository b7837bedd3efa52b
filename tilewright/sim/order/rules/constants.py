"""What is read through the cache of constants, `ld.global.nc`, is not written while the kernel runs, ordered or not.

That cache sees no writes; compilers read through it what `const T* __restrict__` and `__ldg` name. Where a thread reads
a place before it writes there itself, and nobody else does, practice lives with it: a warning.

Source: PTX ISA, "Data Movement and Conversion Instructions: ld.global.nc".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.sim.order.knowledge.actors import THREADS
from tilewright.sim.order.reports.constants import constant_rewritten, constant_written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilewright.sim.machine.subject import Subject
    from tilewright.sim.machine.wave import Wave
    from tilewright.sim.order.races.places import TaggedPlaces

__all__ = ["check_constants"]


def check_constants(program: Subject, buffers: Iterable[TaggedPlaces], wave: Wave) -> None:
    """Raises SimulationError where bytes of a buffer were read as constants, and written."""
    for places in buffers if any(site.constant for site in program.sites) else ():
        _check_buffer(places, wave)


def _check_buffer(places: TaggedPlaces, wave: Wave) -> None:
    records = places.log.newest_first()[::-1]
    reads = [record for record in records if record.site.constant]
    writes = [record for record in records if record.site.write]
    if not (reads and writes):
        return
    each = [record.places(places.grain) for record in writes]
    place, writer = (np.concatenate([arrays[k] for arrays in each]) for k in range(2))
    which = np.repeat(np.arange(len(writes)), [len(arrays[0]) for arrays in each])
    order = np.lexsort((which, writer, place))
    place, writer, which = place[order], writer[order], which[order]
    times = np.array([record.time for record in writes])
    for read in reads:
        own, reader = read.places(places.grain)
        first, last = np.searchsorted(place, own), np.searchsorted(place, own, "right") - 1
        (hits,) = np.nonzero(first <= last)
        first, last, own, reader = first[hits], last[hits], own[hits], reader[hits]
        alone = (writer[first] == reader) & (writer[last] == reader) & (times[which[first]] > read.time)
        if len(hits):
            k = int(np.argmin(alone))
            write, address = writes[which[first[k]]], int(own[k]) * places.grain
            if not alone[k]:
                one, other = (divmod(int(number), THREADS) for number in (reader[k], writer[first[k]]))
                error = constant_written(wave, read, write, one, other, address)
                wave.run.tell(error, str(read.site.at), str(write.site.at))
                continue
            wave.run.warn(constant_rewritten(wave, read, write, address), "constant", read.site.line.buffer)
