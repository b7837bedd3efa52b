"""ldstmatrix finds a fit whenever there is one.

The oracle is the definition, evaluated on `table()` without any of the variant's code. f(l, e) is the shared byte
address of the element in storage slot e of lane l = 4g+t; register j is slots 2j and 2j+1, its half h the slot 2j+h.
N-servable: f = A(g) + 2(2t+h), T-servable: f = A(2t+h) + 2g, with 16 | A. A copy fits when its region covers whole
registers of whole warps and all are N-servable or all are T-servable; a store also needs f to be injective.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.samples import sampled
from tests.tile.kernels import buffer, copy, kernel
from tests.tile.machine import Ints, Machine
from tests.tile.oracle import copied, fresh_memory, holders, placed
from tests.tile.strategies import THREADS, regions, registers
from tilewright import tile
from tilewright.errors import DispatchError
from tilewright.ir import Evaluate, Region, statements
from tilewright.layout import Axis, ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout

MISSING = -1


def addresses(local: Region, shared: Region, threads: int, *, store: bool) -> list[Ints]:
    """f as (32, slots) byte addresses for each warp that holds something, MISSING where it holds no element."""
    place, memory = placed(local), placed(shared)["m"][:, 0]
    held = holders(place, threads)
    tables = np.full((threads, local.buffer.storage_size()), MISSING)
    for element, replica in np.ndindex(place["m"].shape):
        who = np.flatnonzero(held[element, replica])
        if store:
            who = who[:1] if replica == 0 else who[:0]
        tables[who, place["m"][element, replica]] = 2 * memory[element]
    warps = tables.reshape(-1, 32, tables.shape[1])
    return [warp for warp in warps if (warp != MISSING).any()]


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
    covered = {tuple(lane != MISSING) for f in tables for lane in f}
    if len(covered) != 1:
        return None
    slots = np.flatnonzero(covered.pop())
    numbers = slots[::2] // 2
    if not np.array_equal(slots, np.stack([2 * numbers, 2 * numbers + 1], axis=1).reshape(-1)):
        return None
    for trans in (False, True):
        if all(is_served(f, j, trans=trans) for f in tables for j in numbers):
            used = np.concatenate([f[:, slots].reshape(-1) for f in tables])
            return None if store and len(set(used.tolist())) < len(used) else numbers
    return None


def check(local: Region, shared: Region, scope: str, *, store: bool) -> bool:
    """The variant takes the copy exactly if the oracle says so, with the widest num, and moves the right elements."""
    threads = THREADS[scope]
    tables = addresses(local, shared, threads, store=store)
    numbers = fitting(tables, store=store)
    dst, src = (shared, local) if store else (local, shared)
    made = kernel(copy(dst, src, scope, dispatch="ldstmatrix"), threads=threads)
    note = f"{local} of {local.buffer.layout}, {shared} of {shared.buffer.layout}"
    if numbers is None:
        with pytest.raises(DispatchError, match="does not fit"):
            pytest.fail(f"{note}: took it: {tile.resolve(made, 'sm_90a')[1]}")
        return False
    resolved, _ = tile.resolve(made, "sm_90a")
    (call,) = [s.value for s in statements(resolved.body) if isinstance(s, Evaluate)]
    num = max(n for n in (4, 2, 1) if len(numbers) % n == 0)
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


@st.composite
def fragments(draw: st.DrawFn) -> tuple[str, TileLayout, Layout, tuple[int, ...]]:
    """A register fragment and a shared layout over the same digits: rows of eight, or nearly so."""
    scope = draw(st.sampled_from(["warp", "warpgroup", "cta"]))
    digits: dict[str, tuple[int, int, str]] = {"g": (8, 4, "laneid"), "t": (4, 1, "laneid"), "h": (2, 1, "m")}
    if scope == "warpgroup":
        digits["w"] = (4, 1, "wid_in_wg")
    elif scope == "cta" and draw(st.booleans()):
        digits["w"] = (2, 1, "warpid")
    stride = 2
    outers = draw(st.lists(st.sampled_from([2, 2, 3, 4, 5]), max_size=3))
    for number, extent in enumerate(draw(st.permutations(outers))):
        digits[f"o{number}"] = (extent, stride, "m")
        stride *= extent * draw(st.sampled_from([1, 1, 1, 2]))
    order = draw(st.permutations(list(digits)))
    near = draw(st.sampled_from([["h", "t"], ["g"], ["h", "t"], ["g"], ["t", "h"], []]))
    far = draw(st.permutations([name for name in digits if name not in near]))
    strides, step = {}, 1
    for name in [*near, *far]:
        strides[name] = step
        step *= digits[name][0]
        if draw(st.integers(0, 11)) == 0:
            step += draw(st.sampled_from([8, 8, 16, 4]))
    if draw(st.integers(0, 15)) == 0:
        strides[draw(st.sampled_from(list(digits)))] = 0
    local = TileLayout([Iter(digits[n][0], digits[n][1], Axis.get(digits[n][2])) for n in order])
    shared: Layout = TileLayout([Iter(digits[n][0], strides[n]) for n in order])
    if draw(st.integers(0, 2)) == 0:
        length = draw(st.integers(1, 3))
        swizzle = SwizzleLayout(draw(st.sampled_from([3, 3, 3, 4, 2])), length, length + draw(st.integers(0, 1)))
        shared = ComposeLayout(swizzle, shared)
    shape = tuple(digits[n][0] for n in order)
    return scope, local, shared, shape


@sampled(100, of=250)
@given(fragments(), st.booleans(), st.data())
def test_fragments_fit_exactly_where_the_oracle_says_so(made, store: bool, data: st.DataObject) -> None:
    scope, local_layout, shared_layout, shape = made
    local, shared = buffer("R", "local", shape, local_layout), buffer("A", "shared", shape, shared_layout)
    box = tuple((0, extent) for extent in shape)
    if data.draw(st.integers(0, 3)) == 0:  # a part of the registers, of the lanes, or of the warps
        dim = data.draw(st.integers(0, len(shape) - 1))
        start = data.draw(st.integers(0, shape[dim] - 1))
        box = (*box[:dim], (start, data.draw(st.integers(1, shape[dim] - start))), *box[dim + 1 :])

    check(Region(local, box), Region(shared, box), scope, store=store)


@sampled(40, of=100)
@given(st.sampled_from(["warp", "warpgroup", "cta"]), st.booleans(), st.data())
def test_any_registers_fit_exactly_where_the_oracle_says_so(scope: str, store: bool, data: st.DataObject) -> None:
    layout, shape = data.draw(registers(scope))
    local = buffer("R", "local", shape, layout).region()

    check(local, data.draw(regions("A", "shared", shape, "float16")), scope, store=store)
