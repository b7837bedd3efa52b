"""Boxes of 4- and 6-bit elements: 16 of them are packed in the array, and spread over 16 bytes in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.isa.tma_oracles import swizzled
from tilewright import T
from tilewright.errors import ArgumentError, SimulationError

TARGET = "sm_100a"


def brought(nbytes: int, x: int, y: int, words: int, *, step: int = 1) -> Any:
    """The box at (x, y) as shared memory has it: of each four words the first ``step``."""

    @T.prim_func
    def kernel(m: T.TensorMap(), out: T.Buffer((nbytes // 4,), "uint32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile, bar = T.alloc_shared((nbytes // 4,), "uint32", align=1024), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
            T.ptx.cp_async.bulk.tensor.g2c(2, tile.ptr_to([0]), bar.ptr_to([0]), T.address_of(m), 0, -1, "", x, y)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        for i in T.serial(words // 32):
            at = (i * 32 + tid) // step * 4 + (i * 32 + tid) % step
            out[at] = tile[at]

    return kernel


PACKED = {"16U4_ALIGN8B": (8, 8), "16U4_ALIGN16B": (8, 16), "16U6_ALIGN16B": (12, 16)}
"""Bytes of 16 elements in the array and in shared memory."""


def test_a_map_of_packed_elements_is_an_argument_of_several_gpus() -> None:
    a = np.arange(8 * 128, dtype=np.uint8).reshape(8, 128)
    tensor_map, out = tw.TensorMap(a, (4, 128), dtype="16U4_ALIGN8B"), [np.zeros(64, np.uint32) for _ in range(3)]
    kernel = brought(256, 0, 0, 64, step=4)

    tw.simulate(kernel, [tensor_map, tensor_map], out[:2], target=TARGET, ranks=2)
    tw.simulate(kernel, tensor_map, out[2], target=TARGET)

    assert out[2].any()
    np.testing.assert_array_equal(out[:2], [out[2], out[2]])


@pytest.mark.parametrize("swizzle", [0, 3])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (128, 3), (128, 6), (256, -1), (0, 40)])
@pytest.mark.parametrize("dtype", PACKED)
def test_groups_of_a_box_come_where_the_manual_says(dtype: str, x: int, y: int, swizzle: int) -> None:
    here, there = PACKED[dtype]
    rng = np.random.default_rng(x + y)
    a = rng.integers(1, 255, (8, 256 // 16 * here), dtype=np.uint8)
    rows, groups = 4, 8
    nbytes = rows * groups * there
    out = np.zeros(nbytes // 4, np.uint32)
    words = here // 4 * rows * groups if there == 16 else nbytes // 4
    kernel = brought(nbytes, x, y, words, step=here // 4 if there == 16 else 4)

    row_swizzle = swizzle if there == 16 else 0
    run = tw.compile(kernel, TARGET).simulate(tw.TensorMap(a, (rows, 128), row_swizzle, dtype=dtype), out, check="all")

    assert run.warnings == []
    found = out.view(np.uint8)
    for row in range(rows):
        for group in range(groups):
            for byte in range(here):
                column = (x // 16 + group) * here + byte
                inside = 0 <= y + row < 8 and column < a.shape[1]
                at = swizzled((row * groups + group) * there + byte, row_swizzle)
                assert found[at] == (a[y + row, column] if inside else 0)


@pytest.mark.parametrize("dtype", ["16U4_ALIGN16B", "16U6_ALIGN16B"])
def test_the_rest_of_a_group_is_undefined(dtype: str) -> None:
    a, out = np.ones((8, 192 if "6_" in dtype else 128), np.uint8), np.zeros(128, np.uint32)

    with pytest.raises(SimulationError, match="uninitialised"):
        tw.compile(brought(512, 0, 0, 128, step=4), TARGET).simulate(
            tw.TensorMap(a, (4, 128), 0, dtype=dtype), out, check="all"
        )


@pytest.mark.parametrize(
    ("columns", "box", "more", "said"),
    [
        (64, (4, 64), {}, "box[0]"),
        (96, (4, 128), {}, "dims[0]"),
        (64, (4, 128), {"swizzle": 2}, "box[0]"),
        (64, (4, 128), {"oob": "nan"}, "oob"),
    ],
)
def test_a_map_that_the_driver_does_not_make_is_refused(
    columns: int, box: tuple[int, int], more: dict[str, Any], said: str
) -> None:
    a = np.zeros((8, columns), np.uint8)

    with pytest.raises(ArgumentError) as error:
        tw.TensorMap(a, box, more.pop("swizzle", 0), dtype="16U4_ALIGN16B", **more)
    assert said in str(error.value)


def test_strides_and_coordinates_are_whole_groups() -> None:
    with pytest.raises(ArgumentError, match="strides"):
        tw.TensorMap(np.zeros((8, 80), np.uint8)[:, :64], (4, 128), 0, dtype="16U4_ALIGN16B")
    a, out = np.zeros((8, 128), np.uint8), np.zeros(128, np.uint32)

    with pytest.raises(SimulationError, match="16U4_ALIGN16B takes multiples of 128"):
        tw.compile(brought(512, 64, 0, 128), TARGET).simulate(tw.TensorMap(a, (4, 128), 0, dtype="16U4_ALIGN16B"), out)
