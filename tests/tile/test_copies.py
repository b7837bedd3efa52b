"""Whatever variant takes a copy: the right elements arrive, nothing else changes, every access is legal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.samples import sampled
from tests.tile.checking import entry
from tests.tile.kernels import buffer
from tests.tile.strategies import KINDS, THREADS, regions, registers
from tilewright.errors import DispatchError


@sampled(100, of=300)
@given(st.data())
def test_copies_between_registers_and_memory(data: st.DataObject) -> None:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    layout, shape = data.draw(registers(scope))
    local = buffer("R", "local", shape, layout, kind).region()
    memory = data.draw(regions("A", data.draw(st.sampled_from(["shared", "global"])), shape, kind))

    loads = data.draw(st.booleans())
    try:
        entry(*((local, memory) if loads else (memory, local)), scope, THREADS[scope])
    except DispatchError as refused:
        if loads or "share bytes" not in str(refused):
            raise


@sampled(50, of=150)
@given(st.data())
def test_copies_between_global_and_shared_memory(data: st.DataObject) -> None:
    scope, kind = data.draw(st.sampled_from(list(THREADS))), data.draw(st.sampled_from(KINDS))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 8, 16, 24]), min_size=1, max_size=3)))
    there, shared = (data.draw(regions(name, space, shape, kind)) for name, space in (("G", "global"), ("A", "shared")))

    entry(*((there, shared) if data.draw(st.booleans()) else (shared, there)), scope, THREADS[scope])
