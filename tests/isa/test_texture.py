"""Every form of a texture fetch means what the manual says, for each way to reach and to mix texels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.machines import PlainMemory
from tests.isa.texture_oracles import Sampled, fetched
from tilewright.ir.tensor_map import ADDRESSES, TEXTURE_BYTES, TextureFields
from tilewright.isa import lookup

DIMS = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
EXTENTS = (5, 3, 2)
START = 64


def execute(fields: TextureFields, texels: NDArray[Any], coords: NDArray[np.uint32], **mods: str) -> NDArray[np.uint32]:
    """The bits of four channels, (4, 32). coords: (coordinates, 32) bits."""
    data = np.zeros((1, 4096), np.uint8)
    data[0, :TEXTURE_BYTES] = np.frombuffer(fields.at(START).encode(), np.uint8)
    data[0, START : START + texels.nbytes] = np.ascontiguousarray(texels).view(np.uint8).reshape(-1)
    memory = PlainMemory(data, np.ones((1, 32), np.bool_))
    form = next(form for form in lookup("ptx.tex").forms if form.fits(mods))
    assert form.meaning.execute is not None
    result = form.meaning.execute(memory, np.zeros((1, 32), np.int64), coords[None], **mods)
    bits: NDArray[np.uint32] = np.asarray(result)[0]
    return bits


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(("filter", "normalized"), [*itertools.product(("point", "linear"), (False, True))])
def test_a_fetch_is_what_the_manual_says(dim: str, address: str, filter: str, normalized: bool) -> None:
    count, is_layered = DIMS[dim]
    extents, channels = EXTENTS[: count + is_layered], 2 if dim == "2d" else 1
    rng = np.random.default_rng(len(dim) + len(address))
    texels = rng.standard_normal((*extents[::-1], channels)).astype(np.float32)
    fields = TextureFields(extents, "float32", channels, filter, address, normalized)
    drawn = rng.uniform(-1.5, 2.5, (count, 32)) if normalized else rng.uniform(-3, 8, (count, 32))
    numbers = (np.round(drawn * 64) / 64).astype(np.float32)
    layers = rng.integers(0, 4, (1, 32), dtype=np.uint32)
    unread = np.zeros((int(dim in ("3d", "a2d")), 32), np.uint32)
    coords = np.concatenate([*([layers] if is_layered else []), numbers.view(np.uint32), unread])

    result = execute(fields, texels, coords, dim=dim, type="f32", coord="f32").view(np.float32)

    texture = Sampled({index[::-1]: texels[index].tolist() for index in np.ndindex(*texels.shape[:-1])}, extents,
                      filter == "linear", address, normalized)  # fmt: skip
    for lane in range(32):
        layer = int(layers[0, lane]) if is_layered else None
        wanted = fetched(texture, numbers[:, lane].tolist(), layer)
        np.testing.assert_allclose(result[:, lane], wanted, rtol=1e-5, atol=1e-6)


def test_linear_memory_ends_with_zeros() -> None:
    texels = np.arange(1, 6, dtype=np.int32)
    places = np.arange(-2, 30, dtype=np.int32).view(np.uint32)[None]

    got = execute(TextureFields((5,), "int32"), texels, places, dim="1d", type="s32", coord="s32")

    assert got[0].tolist() == [0, 0, 1, 2, 3, 4, 5, *[0] * 25]
    assert not got[1:].any()


def test_bytes_are_read_as_numbers_from_0_to_1_where_the_texture_says_so() -> None:
    texels = np.array([[0, 255, 51, 102]], np.uint8)
    places = np.zeros((1, 32), np.uint32)

    plain = execute(TextureFields((1,), "uint8", 4), texels, places, dim="1d", type="u32", coord="s32")
    floats = execute(TextureFields((1,), "uint8", 4, floats=True), texels, places, dim="1d", type="f32", coord="s32")

    assert plain[:, 0].tolist() == [0, 255, 51, 102]
    np.testing.assert_allclose(floats[:, 0].view(np.float32), [0, 1, 0.2, 0.4], rtol=1e-6)


ON_AN_H200 = {  # between two texels, 0 and 1, at -2.25, -2, ...: by the address mode, and are coordinates normalized?
    ("wrap", True): "1 .5 0 .5 1 .5 0 .5 1 .5 0 .5 1 .5 0 .5 1 .5 0 .5 1 .5 0 .5",
    ("clamp", False): "0 0 0 0 0 0 0 0 0 0 0 0 .25 .5 .75 1 1 1 1 1 1 1 1 1",
    ("clamp", True): "0 0 0 0 0 0 0 0 0 0 0 .5 1 1 1 1 1 1 1 1 1 1 1 1",
    ("mirror", True): "0 0 0 .5 1 1 1 .5 0 0 0 .5 1 1 1 .5 0 0 0 .5 1 1 1 .5",
    ("border", False): "0 0 0 0 0 0 0 0 0 0 0 0 .25 .5 .75 1 .75 .5 .25 0 0 0 0 0",
    ("border", True): "0 0 0 0 0 0 0 0 0 0 0 .5 1 .5 0 0 0 0 0 0 0 0 0 0",
}


def two_texels(xs: Sequence[float], address: str, normalized: bool) -> list[float]:
    """What a fetch gives at up to 32 places."""
    numbers = np.full((2, 32), 0.5, np.float32)
    numbers[0, : len(xs)] = xs
    fields = TextureFields((2, 1), "float32", 1, "linear", address, normalized)
    bits = execute(fields, np.array([0, 1], np.float32), numbers.view(np.uint32), dim="2d", type="f32", coord="f32")
    mixed: list[float] = bits[0].view(np.float32)[: len(xs)].tolist()
    return mixed


@pytest.mark.parametrize(("address", "normalized"), ON_AN_H200)
def test_two_texels_are_mixed_as_an_h200_mixes_them(address: str, normalized: bool) -> None:
    got = two_texels([-2.25 + 0.25 * step for step in range(24)], address, normalized)

    assert got == [*map(float, ON_AN_H200[address, normalized].split())]


def test_weights_are_rounded_to_the_nearest_256th_as_an_h200_does() -> None:
    got = two_texels([0.5 + step / 4096 for step in range(32)], "clamp", normalized=False)

    assert [value * 256 for value in got] == [*[0] * 8, *[1] * 16, *[2] * 8]
