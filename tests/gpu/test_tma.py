"""The copy engine on hardware: boxes of every rank and swizzle, at every edge, multicast, reductions, bulk copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.gpu.hardware import Bench
from tests.isa.tma_oracles import REDUCTIONS
from tests.sim.tma_kernels import loaded, sent, stored, streamed, summed, there_and_back
from tests.tile.test_bulk import LAYOUTS, through
from tests.tile.test_bulk import sent as exchanged
from tilewright.cuda import driver, launch
from tilewright.layout import SwizzleMode, mma_shared_layout

pytestmark = pytest.mark.gpu

STORED = ("uint32", "int64", "float32")
KINDS = ("uint8", "uint16", "float16", "bfloat16", "float32", "int64")
MODES = list(SwizzleMode)


def compare(bench: Bench, kernel: Any, *args: Any, generated: bool = True) -> None:
    """A kernel on both sides, on equal arguments; all arrays are judged. generated: is it a program of its own?"""
    exe = kernel if isinstance(kernel, tw.Executable) else tw.compile(kernel, target="sm_90a")
    here, there = ([_copied(arg) for arg in args] for _ in range(2))
    run = exe.simulate(*here)
    exe(*there, on="gpu")
    bench.tally["kernels"] += 1
    bench.tally["generated programs of TMA"] += generated
    bench.tally["instructions of warps"] += sum(run.counts.instructions.values())
    for i, (ours, theirs) in enumerate(zip(there, here, strict=True)):
        if not isinstance(ours, int):
            bench.judge(f"argument {i}", tw.host.behind(ours), tw.host.behind(theirs))


def _copied(arg: Any) -> Any:
    if isinstance(arg, tw.TensorMap):
        return tw.TensorMap.of(arg.array.copy(), arg.fields)
    return arg.copy() if isinstance(arg, np.ndarray) else arg


def made(kind: str, mode: int, rank: int, rng: np.random.Generator) -> tuple[tw.TensorMap, tuple[int, ...]]:
    """A map of random bytes, and where a box begins: inside, or across any edge."""
    dtype = tw.dtypes.dtype(kind).numpy
    inner = (16 << mode if mode else 16 * int(rng.integers(1, 4))) // dtype.itemsize
    extents = [inner, *rng.integers(1, 9, rank - 1).tolist()]
    dims = [
        max(16 // dtype.itemsize, 16 * int(rng.integers(1, 9)) // dtype.itemsize),
        *rng.integers(1, 12, rank - 1).tolist(),
    ]
    steps = [1, *rng.integers(1, 4, rank - 1).tolist()]
    octets = rng.integers(0, 256, (*reversed(dims), dtype.itemsize), dtype=np.uint8)
    array: NDArray[Any] = octets.view(dtype)[..., 0]
    step = 16 // dtype.itemsize  # the copy engine begins at whole 16 bytes of a row
    first = int(rng.integers(-extents[0] // step, -(-dims[0] // step))) * step
    starts = (first, *(int(rng.integers(-extent, dim)) for extent, dim in zip(extents[1:], dims[1:], strict=True)))
    return tw.TensorMap(np.ascontiguousarray(array), extents[::-1], mode, steps=steps[::-1]), starts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_boxes_are_loaded(kind: str, mode: SwizzleMode, rank: int, seed: int, bench: Bench) -> None:
    source, starts = made(kind, mode, rank, np.random.default_rng([seed, rank, mode, KINDS.index(kind)]))
    nbytes = source.fields.box_bytes

    compare(bench, loaded(rank, starts, nbytes), source, np.zeros((1, nbytes), np.uint8))


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["", *REDUCTIONS])
def test_boxes_are_stored_and_combined(op: str, mode: SwizzleMode, rank: int, bench: Bench) -> None:
    rng = np.random.default_rng([7, rank, mode, len(op)])
    target, starts = made("uint32", mode, rank, rng)
    source = rng.integers(0, 256, -(-target.fields.box_bytes // 32) * 32, dtype=np.uint8)

    compare(bench, stored(rank, tuple(max(start, 0) for start in starts), len(source), op), target, source)


@pytest.mark.parametrize("kind", KINDS[::2])
@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("mode", MODES)
def test_a_box_is_brought_to_both_ctas_of_a_cluster(mode: SwizzleMode, rank: int, kind: str, bench: Bench) -> None:
    source, starts = made(kind, mode, rank, np.random.default_rng([5, mode, rank, KINDS.index(kind)]))
    nbytes = source.fields.box_bytes

    compare(bench, loaded(rank, starts, nbytes, mask=3), source, np.zeros((2, nbytes), np.uint8))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32"])
@pytest.mark.parametrize("multiple", [1, 64])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [(0, 0), (16, 64), (120, 192)])
def test_tiles_go_there_and_back(
    at: tuple[int, int], mode: SwizzleMode, multiple: int, dtype: str, bench: Bench
) -> None:
    shape, tile = (128, 256), (64, 128)
    kind = tw.dtypes.dtype(dtype).numpy
    a = np.random.default_rng(8).integers(0, 100, shape).astype(kind)
    kernel = there_and_back(shape, tile, mma_shared_layout(dtype, mode, tile), dtype, multiple)

    compare(bench, kernel, a, np.zeros_like(a), *at)


@pytest.mark.parametrize(
    ("how", "kind"),
    [*(("st", kind) for kind in STORED), *(("s2c", kind) for kind in STORED), ("vec", "uint32"), ("pointer", "uint32")],
)
def test_bytes_are_sent_to_another_cta(how: str, kind: str, bench: Bench) -> None:
    a = np.random.default_rng(9).integers(0, 1000, (2, 32)).astype(kind)

    compare(bench, sent(how, kind), a, np.zeros_like(a))


@pytest.mark.parametrize("how", ["red", "reduce"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_bytes_are_combined_in_another_cta(op: str, how: str, bench: Bench) -> None:
    a = np.random.default_rng(10).integers(0, 100, (2, 32), dtype=np.uint32)

    compare(bench, sent(how, "uint32", op), a, np.zeros_like(a))


@pytest.mark.parametrize("how", ["g2s_cta", "g2s_cluster"])
def test_stretches_are_copied(how: str, bench: Bench) -> None:
    a = np.random.default_rng(11).integers(0, 1 << 30, 256, dtype=np.uint32)

    compare(bench, streamed(how), a, np.zeros((2 if how == "g2s_cluster" else 1, 256), np.uint32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_go_as_stretches(layout: str, bench: Bench) -> None:
    rng = np.random.default_rng(14)
    a, b = (rng.integers(0, 100, shape).astype("bfloat16") for shape in ((32, 128), (2, 16, 64)))

    compare(bench, through(layout), a, np.zeros((16, 64), a.dtype))
    compare(bench, exchanged(layout), b, np.zeros_like(b))


@pytest.mark.parametrize("way", ["tma", "bulk"])
def test_ctas_reduce_into_one_place(way: str, bench: Bench) -> None:
    compare(bench, summed(way, read=True), np.zeros((8, 32), np.float32))


ADDED = ("uint32", "int32", "uint64", "float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(("op", "kind"), [*(("add", kind) for kind in ADDED), *((op, "uint32") for op in REDUCTIONS)])
def test_stretches_are_combined_with_global_memory(op: str, kind: str, bench: Bench) -> None:
    rng = np.random.default_rng(12)
    a, out = (rng.integers(0, 64, shape).astype(tw.dtypes.dtype(kind).numpy) for shape in (256, (1, 256)))

    compare(bench, streamed("reduce", kind, op), a, out)


def test_the_driver_makes_the_bytes_that_the_simulator_reads() -> None:
    """All but the words that only the driver fills, and the bits of L2 promotion."""
    rng = np.random.default_rng(13)
    for rank in range(1, 6):
        for mode in MODES:
            source, _ = made("bfloat16", mode, rank, rng)
            with driver.device(0).current():
                theirs = np.frombuffer(launch.encoded(source.fields, 1 << 20), np.uint32)[:15].copy()
            theirs[2] &= ~np.uint32(3 << 17)
            ours = np.frombuffer(source.fields.at(1 << 20).encode(), np.uint32)[:15]

            assert theirs[2] & 0xFFF0 == ours[2] & 0xFFF0
            assert np.array_equal(theirs[3:], ours[3:])


def test_maps_are_those_of_the_arrays_of_each_call() -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.gpu.scale import by_map

    exe = tw.compile(by_map)
    inputs = [torch.full((size,), float(k), device="cuda") for k, size in enumerate((1024, 1024, 256))]
    for k in (0, 1, 1, 0, 2, 2, 1, 0):
        out = torch.empty_like(inputs[k])
        exe(inputs[k], out, 3.0)
        assert (out == 3.0 * k).all()
