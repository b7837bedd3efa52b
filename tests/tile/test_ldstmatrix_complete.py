"""ldstmatrix finds a fit whenever there is one.

The oracle is the definition, evaluated on `table()` without any of the variant's code. f(l, e) is the shared byte
address of the element in storage slot e of lane l = 4g+t; register j is slots 2j and 2j+1, its half h the slot 2j+h.
N-servable: f = A(g) + 2(2t+h), T-servable: f = A(2t+h) + 2g, with 16 | A. A copy fits when its region covers whole
registers of whole warps and all are N-servable or all are T-servable; a store also needs f to be injective.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.samples import sampled
from tests.tile.kernels import buffer, copy, kernel
from tests.tile.machine import Ints, Machine
from tests.tile.oracle import addresses, copied, covered_registers, fresh_memory, is_injective
from tests.tile.strategies import THREADS, boxes, fragments, regions, registers
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Call, Evaluate, Region, statements


def is_served(f: Ints, j: int, *, trans: bool) -> bool:
    for lane in range(32):
        g, t = divmod(lane, 4)
        for h in range(2):
            row, column = (2 * t + h, g) if trans else (g, 2 * t + h)
            start = f[row // 2, 2 * j + row % 2] if trans else f[4 * row, 2 * j]
            if start % 16 or f[lane, 2 * j + h] != start + 2 * column:
                return False
    return True


def rows_of(f: Ints, numbers: Ints) -> set[int]:
    """The byte addresses A of all rows of these registers, if they are served."""
    trans = not is_served(f, int(numbers[0]), trans=False)
    return {int(f[row // 2, 2 * j + row % 2] if trans else f[4 * row, 2 * j]) for j in numbers for row in range(8)}


def fitting(tables: list[Ints], *, store: bool) -> Ints | None:
    """The numbers of a lane's registers, if the copy fits; None if it does not."""
    numbers = covered_registers(tables, 16)
    if numbers is None or (store and not is_injective(tables)):
        return None
    ways = (all(is_served(f, j, trans=trans) for f in tables for j in numbers) for trans in (False, True))
    return numbers if any(ways) else None


def check(local: Region, shared: Region, scope: str, *, store: bool) -> bool:
    """The variant takes the copy exactly if the oracle says so, with the widest num, and moves the right elements."""
    threads = THREADS[scope]
    tables = addresses(local, shared, threads, 2, store=store)
    numbers = fitting(tables, store=store)
    dst, src = (shared, local) if store else (local, shared)
    made = kernel(copy(dst, src, scope=scope, dispatch="ldstmatrix"), threads=threads)
    note = f"{local} of {local.buffer.layout}, {shared} of {shared.buffer.layout}"
    if numbers is None:
        with pytest.raises(DispatchError, match="does not fit"):
            pytest.fail(f"{note}: took it: {tile.resolve(made, 'sm_90a')[1]}")
        return False
    resolved, _ = tile.resolve(made, "sm_90a")
    (call,) = [s.value for s in statements(resolved.body) if isinstance(s, Evaluate)]
    num = max(n for n in (4, 2, 1) if len(numbers) % n == 0)
    assert isinstance(call, Call)
    assert call.args[1] == num
    memory = fresh_memory([local.buffer, shared.buffer], threads)
    expected = copied(dst, src, memory, threads)
    machine = Machine(resolved, memory).run()
    for name, tags in expected.items():
        assert (memory[name] == tags).all(), note
    (executed,) = machine.executed.values()
    assert executed % (32 * len(numbers) // num) == 0
    supplied = {2 * int(at) for lanes in machine.rows for at in lanes[: 8 * num]}
    assert supplied == set().union(*(rows_of(f, numbers) for f in tables)), note
    return True


DIGITS = {"g": (8, 4, "laneid"), "t": (4, 1, "laneid"), "h": (2, 1, "m")}
HALVES = st.sampled_from([["h", "t"], ["g"]]).flatmap(lambda row: fragments(DIGITS, row, [8, 8, 16, 4], 3))


@sampled(50, of=250)
@given(st.booleans(), st.data())
def test_fragments_fit_exactly_where_the_oracle_says_so(store: bool, data: st.DataObject) -> None:
    scope, local_layout, shared_layout, shape = data.draw(HALVES)
    local, shared = buffer("R", "local", shape, local_layout), buffer("A", "shared", shape, shared_layout)
    box = data.draw(boxes(shape))

    check(Region(local, box), Region(shared, box), scope, store=store)


@sampled(40, of=100)
@given(st.sampled_from(["warp", "warpgroup", "cta"]), st.booleans(), st.data())
def test_any_registers_fit_exactly_where_the_oracle_says_so(scope: str, store: bool, data: st.DataObject) -> None:
    layout, shape = data.draw(registers(scope))
    local = buffer("R", "local", shape, layout).region()

    check(local, data.draw(regions("A", "shared", shape, "float16")), scope, store=store)
