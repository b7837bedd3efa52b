"""Every row of the instruction table that the GPU has, on hardware and on the simulator."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tests.gpu.hardware import Bench, on_gpu, on_simulator, ulps_apart
from tests.gpu.rows import RowKernel, collision_kernel, collisions, forms, named, spaces
from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.dtypes import dtype
from tilewright.ir import as_expr, cast
from tilewright.isa import call
from tilewright.isa.arith import ULP
from tilewright.isa.forms import ELEMENTS
from tilewright.isa.table import Bound

pytestmark = pytest.mark.gpu

CASES = [pytest.param(bound, space, id=f"{named(bound)}-{space}") for bound in forms() for space in spaces(bound)]
COLLISIONS = [pytest.param(*case, id=f"{named(case[0])}-{case[1]}") for case in collisions()]
SIMULATOR_ULP = {"float32": 1, "float64": 2}  # how far the simulator's own functions may be from the true value
ROUNDS = 3  # of other random contents


@pytest.mark.parametrize(("bound", "space"), CASES)
def test_a_form_does_on_hardware_what_the_table_says(bound: Bound, space: str, bench: Bench) -> None:
    for turn in range(ROUNDS):
        made = RowKernel(bound, space, np.random.default_rng([crc32(named(bound).encode()), turn]))
        product = bound.instruction.name.startswith("ptx.mma") and bound.instruction.name != "ptx.mma.f64"
        approximate = product or any(ULP.get(bound.instruction.name, (0, 0)))

        found = bench.run(made.kernel.kernel(), made.arrays, nan_is_nan=True, judged=not approximate)

        if product:
            judge_product(bound, made, *found["out_d"], bench)
        elif approximate:
            judge_ulps(bound, *found["out"])


def judge_ulps(bound: Bound, hardware: np.ndarray, simulated: np.ndarray) -> None:
    kind = str(bound.mods["dtype"])
    allowed = ULP[bound.instruction.name][kind == "float64"] + SIMULATOR_ULP[kind]

    assert ulps_apart(hardware, simulated).max() <= allowed


def judge_product(bound: Bound, made: RowKernel, hardware: np.ndarray, simulated: np.ndarray, bench: Bench) -> None:
    """Integers are equal; floats are as near as a sum in another order, with the hardware's own rounding, can be."""
    kind = dtype(ELEMENTS[str(bound.mods["types"]).split(".")[0]])
    if kind.is_integer:
        bench.judge("d", hardware, simulated)
        return
    ours, theirs = (array.view(kind.numpy).astype(np.float64) for array in (hardware, simulated))
    terms = 32 * 4.0 * 4.0  # of numbers that are rarely beyond 4
    bound_of_error = terms * (2.0**-11 if str(kind) == "float16" else 2.0**-20)

    bench.tally["products of matrices within the bound"] += ours.size
    bench.tally["products of matrices equal to the last bit"] += int((ours == theirs).sum())
    apart = int(ulps_apart(hardware.view(kind.numpy), simulated.view(kind.numpy)).max())
    relative = float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-30)).max())
    bench.largest[f"ulp between products of matrices in {kind}"] = apart
    bench.largest[f"relative difference of products of matrices in {kind}"] = relative
    bench.largest[f"difference of products of matrices in {kind}, of the bound"] = float(
        np.abs(ours - theirs).max() / bound_of_error
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound_of_error)


@pytest.mark.parametrize(("bound", "space"), COLLISIONS)
def test_atomics_that_meet_at_one_place_all_count(bound: Bound, space: str, bench: Bench) -> None:
    kernel, arrays = collision_kernel(bound, space, np.random.default_rng(crc32(named(bound).encode())))

    bench.run(kernel.kernel(), arrays)


WAYS = {  # how one CTA signals another: the steps before and at the flag, and those of the other at and after it
    "release and acquire": (None, ("release", "gpu"), ("acquire", "gpu"), None),
    "at system scope": (None, ("release", "sys"), ("acquire", "sys"), None),
    "in a cluster": (None, ("release", "cluster"), ("acquire", "cluster"), None),
    "by fences": (("acq_rel", "gpu"), ("relaxed", "gpu"), ("relaxed", "gpu"), ("acq_rel", "gpu")),
    "by one-sided fences": (("release", "gpu"), ("relaxed", "gpu"), ("relaxed", "gpu"), ("acquire", "gpu")),
    "by fences and volatile": (("sc", "gpu"), ("volatile", None), ("volatile", None), ("sc", "gpu")),
}


def telling(way: str) -> Lowered:
    """Two CTAs of a cluster exchange 256 values 20 times, each time by one thread's flag."""
    before, told, asked, after = WAYS[way]
    k = Lowered("telling", threads=256, grid=2, cluster=2)
    data, flag, out = k.array("data", "int32", 512), k.array("flag", "uint32", 2), k.array("out", "int32", 512)
    value = k.bind("x", cta * 256 + tid)
    with k.loop("i", 0, 20) as i:
        with k.when(as_expr((i + cta) % 2 == 0)):
            k.store(data, i % 2 * 256 + tid, value)
            k.do("cuda.cta_sync")
            with k.when(tid == 0):
                if before:
                    k.do("ptx.fence", *before)
                k.do("ptx.st", at(flag, cta), i + 1, sem=told[0], scope=told[1])
        with k.otherwise():
            with k.when(tid == 0):
                with k.repeat(
                    call("ptx.ld", at(flag, 1 - cta), sem=asked[0], scope=asked[1]) != cast(i + 1, dtype("uint32"))
                ):
                    pass
                if after:
                    k.do("ptx.fence", *after)
            k.do("cuda.cta_sync")
            k.assign(value, get(data, i % 2 * 256 + (tid * 5 + 3) % 256) + tid)
    k.store(out, cta * 256 + tid, value)
    return k


@pytest.mark.parametrize("way", WAYS)
def test_a_flag_lets_values_through(way: str, bench: Bench) -> None:
    arrays = {"data": np.zeros(512, np.int32), "flag": np.zeros(2, np.uint32), "out": np.zeros(512, np.int32)}

    bench.run(telling(way).kernel(), arrays, check="all")


def test_a_tensor_map_is_fenced(bench: Bench) -> None:
    k = Lowered("fenced")
    maps = k.array("maps", "uint64", 16)
    for scope in ("cta", "cluster", "gpu", "sys"):
        k.do("ptx.fence.proxy_tensormap.release", scope)
        k.do("ptx.fence.proxy_tensormap.acquire", at(maps, 0), scope)

    room = np.arange(32, dtype=np.uint64)
    first = -room.ctypes.data % 128 // 8  # a map begins at a multiple of 128 bytes; a copy of the array may not
    some = room[first : first + 16]
    before = some.copy()
    for run in (lambda: on_simulator(k.kernel(), [some], {}, "default"), lambda: on_gpu(k.kernel(), [some], {})):
        run()
        bench.judge("maps", some, before)


def meeting(scope: str) -> Lowered:
    """Values travel through shared memory across one kind of barrier, 20 times, each time to another thread."""
    k = Lowered("meeting", threads=256, grid=4, cluster=2)
    out, tile = k.array("out", "int32", 1024), k.shared("tile", "int32", 256)
    group = {"warp": 32, "lanes": 32, "named lanes": 32, "warpgroup": 128, "named": 64}.get(scope, 256)
    value = k.bind("x", cta * 256 + tid)

    def meet() -> None:
        calls: dict[str, tuple[str, list[Any]]] = {
            "warp": ("cuda.warp_sync", []),
            "lanes": ("ptx.bar.warp.sync", [0xFFFFFFFF]),
            "named lanes": ("cuda.warp_sync", []),
            "warpgroup": ("cuda.warpgroup_sync", [1 + warp // 4]),
            "named": ("ptx.bar.sync", [1 + warp // 2, 64]),
            "cta": ("cuda.cta_sync", []),
            "cluster": ("cuda.cluster_sync", []),
        }
        name, operands = calls[scope]
        k.do(name, *operands, **({"mask": 0xFFFFFFFF} if scope == "named lanes" else {}))

    with k.loop("i", 0, 20):
        k.store(tile, tid, value)
        meet()
        k.assign(value, get(tile, tid // group * group + (tid % group * 5 + 3) % group) + tid)
        meet()
    k.store(out, cta * 256 + tid, value)
    return k


@pytest.mark.parametrize("scope", ["warp", "lanes", "named lanes", "warpgroup", "named", "cta", "cluster"])
def test_barriers_let_values_through(scope: str, bench: Bench) -> None:
    bench.run(meeting(scope).kernel(), {"out": np.zeros(1024, np.int32)}, check="all")


@pytest.mark.parametrize("arrive", ["ptx.bar.arrive", "ptx.barrier.arrive"])
def test_who_only_arrives_at_a_barrier_lets_the_others_through(arrive: str, bench: Bench) -> None:
    k = Lowered("arriving", threads=64)
    out, tile = k.array("out", "int32", 32), k.shared("tile", "int32", 32)
    with k.when(warp == 0):
        k.store(tile, lane, lane * lane)
        k.do(arrive, 3, 64)
    with k.otherwise():
        k.do("ptx.bar.sync", 3, 64)
        k.store(out, lane, get(tile, 31 - lane))

    bench.run(k.kernel(), {"out": np.zeros(32, np.int32)}, check="all")
