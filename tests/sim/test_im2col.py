"""Copies in im2col mode: the oracle goes from pixel to pixel, as the manual says it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.isa.tma_oracles import pixels, pixels_along_w, swizzled
from tests.sim.im2col_programs import Images, changes, images
from tests.sim.tma_kernels import changed, pixels_loaded, pixels_stored
from tilewright.errors import ArgumentError, SimulationError


def at(one: Images, array: NDArray[Any], pixel: tuple[int, ...], channel: int) -> bytes | None:
    """The bytes of an element; None where it is outside."""
    index = (channel, *pixel)
    if all(0 <= i < extent for i, extent in zip(index, reversed(array.shape), strict=True)):
        return bytes(array[tuple(reversed(index))].tobytes())
    return None


def brought(one: Images, array: NDArray[Any], walk: list[tuple[int, ...]]) -> NDArray[np.uint8]:
    size = array.itemsize
    expected = np.full(-(-len(walk) * one.channels * size // 1024) * 1024, 0x55, np.uint8)
    for number, pixel in enumerate(walk):
        for c in range(one.channels):
            value = at(one, array, pixel, one.coords[0] + c) or bytes(size)
            for byte in range(size):
                expected[swizzled((number * one.channels + c) * size + byte, one.mode)] = value[byte]
    return expected[: len(walk) * one.channels * size]


def walk_of(one: Images) -> list[tuple[int, ...]]:
    return list(pixels(one.dims[1:], one.lower, one.upper, one.steps, one.coords[1:], one.offsets, one.pixels))


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_are_loaded_one_after_the_other(rank: int, seed: int) -> None:
    one = images(rank, seed)
    array = one.array(seed)
    out = np.zeros((1, one.nbytes), np.uint8)

    run = tw.simulate(pixels_loaded(rank, one.coords, one.offsets, one.nbytes), one.map_of(array), out, check="all")

    assert run.warnings == []
    assert np.array_equal(out[0], brought(one, array, walk_of(one)))


@pytest.mark.parametrize("op", ["", "add"])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pixels_are_stored_where_the_images_are(rank: int, op: str) -> None:
    one = images(rank, 40, kind="uint32", store=True)
    array = one.array(3)
    source = np.random.default_rng(4).integers(0, 256, one.nbytes, dtype=np.uint8)
    expected = array.copy()
    for number, pixel in enumerate(walk_of(one)):
        for c in range(one.channels):
            if at(one, array, pixel, one.coords[0] + c) is not None:
                place = [swizzled((number * one.channels + c) * 4 + byte, one.mode) for byte in range(4)]
                where = tuple(reversed((one.coords[0] + c, *pixel)))
                new = source[place].view(np.uint32)[0]
                expected[where] = (int(expected[where]) + int(new)) % (1 << 32) if op else new

    tw.simulate(pixels_stored(rank, one.coords, one.nbytes, op), one.map_of(array), source)

    assert np.array_equal(array, expected)


@pytest.mark.parametrize(("lower", "upper"), [((-1, 0), (0, 0)), ((0, 0), (0, 1))])
def test_pixels_are_not_stored_by_a_map_that_leaves_the_images(lower: Any, upper: Any) -> None:
    array = np.zeros((2, 4, 4, 8), np.uint32)
    made = tw.TensorMap.im2col(array, 8, 8, lower, upper)

    with pytest.raises(SimulationError, match="the pixels of a map for stores stay in its images"):
        tw.simulate(pixels_stored(4, (0, 0, 0, 0), 256), made, np.zeros(256, np.uint8))


@pytest.mark.every(4)
@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize(("wide", "pixels", "halo"), [("w", 24, 0), ("w", 16, 3), ("w128", 128, 2)])
def test_a_walk_along_w_stays_in_its_row(wide: str, pixels: int, halo: int, rank: int) -> None:
    dims = (*(64, 40, 3, 2, 5)[: rank - 1], 5)
    array = np.random.default_rng(5).integers(0, 1 << 16, dims[::-1], dtype=np.uint16)
    made = tw.TensorMap.im2col(array, pixels, 64, (-2,), (1,), 3, wide=wide)
    coords = (*(0, 7, 1, 1, 1)[: rank - 1], 1)
    part = 32 if wide == "w128" else pixels
    walk = list(pixels_along_w(dims[1:], (-2, 1), 1, coords[1:], 1, pixels, halo, part))
    nbytes = 128 * len(walk)
    mode = {"w": "im2col::w", "w128": "im2col::w::128"}[wide]
    one = Images(rank, "uint16", 3, dims, 64, pixels, (), (), (), coords, ())
    out = np.zeros((1, nbytes), np.uint8)
    kernel = pixels_loaded(rank, coords, (halo, 1), nbytes, mode=mode)

    run = tw.compile(kernel, "sm_100a").simulate(made, out, check="all")

    assert run.warnings == []
    assert np.array_equal(out[0], brought(one, array, walk))


def test_pixels_come_to_each_cta_of_a_mask() -> None:
    one = images(4, 2)
    out = np.zeros((2, one.nbytes), np.uint8)

    tw.simulate(pixels_loaded(4, one.coords, one.offsets, one.nbytes, mask=3), one.map_of(one.array(2)), out)

    assert np.array_equal(out[0], out[1])
    assert np.array_equal(out[0], brought(one, one.array(2), walk_of(one)))


@pytest.mark.parametrize("by_one", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_map_that_threads_changed_is_as_if_it_had_been_made_so(seed: int, by_one: bool) -> None:
    source, rank, coords, edits, nbytes = changes(seed)
    out = np.zeros(nbytes, np.uint8)

    run = tw.compile(changed(rank, coords, edits, nbytes, by_one=by_one), "sm_90a").simulate(
        source, np.zeros(256, np.uint8), out, check="all"
    )

    assert run.warnings == []
    assert {array.any() for array in (out, source.array)} != {False}


X = np.zeros((2, 6, 8, 64), np.uint16)
MAP = tw.TensorMap.im2col(X, 16, 64, (-1, -1), (-1, -1), 3)


@pytest.mark.parametrize(
    ("coords", "offsets", "announced", "message"),
    [
        ((0, 0, 0, 0), (256, 0), None, r"im2col offsets \[256, 0\]: each is 0..255 in 4 dimensions"),
        ((0, 7, 0, 0), (0, 0), None, "the walk begins at 7 of W; the pixels of the tensor map go from -1 to 6"),
        ((0, 0, -2, 0), (0, 0), None, "the walk begins at -2 of H; the pixels of the tensor map go from -1 to 4"),
        ((4, 0, 0, 0), (0, 0), None, "element 4 of the innermost dimension, 8 bytes"),
        ((0, 0, 0, 0), (0, 0), 4096, "(?s)deadlock|wait"),
    ],
)
def test_a_mistake_of_a_copy_in_im2col_mode_is_told(
    coords: tuple[int, ...], offsets: tuple[int, ...], announced: int | None, message: str
) -> None:
    kernel = pixels_loaded(4, coords, offsets, 16 * 128, announced=announced)

    with pytest.raises(SimulationError, match=message):
        tw.simulate(kernel, MAP, np.zeros((1, 16 * 128), np.uint8))


def test_a_map_of_tiles_gives_no_pixels_nor_the_other_way_round() -> None:
    out = np.zeros((1, 2048), np.uint8)
    with pytest.raises(SimulationError, match="the tensor map is for tiles; the instruction takes one for im2col"):
        tw.simulate(pixels_loaded(4, (0, 0, 0, 0), (0, 0), 2048), tw.TensorMap(X, (1, 2, 8, 64), 3), out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": (-129, 0)}, r"tensor map: lower\[1\]"),
        ({"upper": (0, 128)}, r"tensor map: upper\[0\]"),
        ({"lower": (0,)}, "tensor map: lower"),
        ({"pixels": 1025}, r"tensor map: box\[1\]"),
        ({"wide": "h"}, "tensor map: wide"),
    ],
)
def test_a_map_says_which_field_it_cannot_have(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"pixels": 16, "channels": 64, "lower": (0, 0), "upper": (0, 0), "swizzle": 3}

    with pytest.raises(ArgumentError, match=message):
        tw.TensorMap.im2col(X, **{**fields, **change})
