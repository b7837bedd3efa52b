"""Textures of .cu files: objects that a caller makes, and references of before CUDA 12."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentError
from tilewright.load.cu_textures import texture_of

HALF_WAY = """
__global__ void between(float* out, cudaTextureObject_t image, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = tex2D<float>(image, 0.5f * i, 1.5f);
}
"""


def test_a_linear_texture_gives_the_mean_of_neighbours_and_ends_as_it_is_told() -> None:
    kernel, image = tw.load_cu(HALF_WAY)["between"], np.arange(12, dtype=np.float32).reshape(3, 4)
    clamped, bordered = np.zeros(12, np.float32), np.zeros(12, np.float32)

    kernel.simulate(clamped, tw.Texture(image, "linear"), 10, grid=1, block=32)
    kernel.simulate(bordered, tw.Texture(image, "linear", "border"), 10, grid=1, block=32)

    assert clamped.tolist() == [4, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7, 7, 0, 0]
    assert bordered.tolist() == [2, 4, 4.5, 5, 5.5, 6, 6.5, 7, 3.5, 0, 0, 0]


REFERENCES = """
texture<float, cudaTextureType3D, cudaReadModeElementType> volume;
texture<uchar4, 2, cudaReadModeNormalizedFloat> picture;
texture<int> table;
__global__ void k(float* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = tex3D(volume, i + 0.5, 0.5, 1.5) + tex2D(picture, i, 3).w;
    else out[i] = tex1Dfetch(table, i);
}
void bound(cudaArray* a, const int* t) {
    volume.filterMode = cudaFilterModeLinear;
    cudaBindTextureToArray(volume, a);
    cudaBindTexture(0, table, t, 64);
}
"""


def test_texture_references_have_texels_of_their_own() -> None:
    module, out = tw.load_cu(REFERENCES), np.zeros(32, np.float32)

    module["k"].simulate(out, 16, grid=1, block=32)

    assert {"volume", "picture", "table"} <= {*module.globals}
    assert len({*out[:16].tolist()}) > 12
    assert (np.abs(out[:16]) < 2).all()  # a float from -1 to 1, and one from 0 to 1
    assert (out[16:] == np.round(out[16:])).all()
    assert len({*out[16:].tolist()}) > 8


@pytest.mark.parametrize(
    ("text", "extents", "texel", "channels"),
    [
        ("tex3D<float>(t, x, y, z)", 3, "float32", 1),
        ("tex2D<uchar4>(t, x, y)", 2, "uint8", 4),
        ("inner(t); } float inner(cudaTextureObject_t other) { return tex1Dfetch<int2>(other, 3);", 1, "int32", 2),
    ],
)
def test_a_texture_is_as_its_fetches_read_it(text: str, extents: int, texel: str, channels: int) -> None:
    fields = texture_of("t", [text, "d.addressMode[0] = cudaAddressModeWrap; d.normalizedCoords = true;"])

    assert (len(fields.extents), fields.texel, fields.channels) == (extents, texel, channels)
    assert (fields.address, fields.normalized) == ("wrap", True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tw.Texture(np.zeros((4, 4), np.float64)), "texel"),
        (lambda: tw.Texture(np.zeros((4, 4), np.float32), "cubic"), "filter"),
        (lambda: tw.Texture(np.zeros((4, 3), np.float32), channels=4), "channels"),
        (lambda: tw.Texture(np.zeros((2, 2, 2, 2), np.float32)), "dimensions"),
        (lambda: tw.Texture(np.zeros((4, 4), np.float32).T[:, ::2]), "gaps"),
    ],
)
def test_what_no_texture_has_is_refused_by_name(make: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make()  # type: ignore[operator]  # a function


def test_a_normalised_coordinate_is_cut_to_21_bits_before_it_is_multiplied() -> None:
    text = HALF_WAY.replace("tex2D<float>(image, 0.5f * i, 1.5f)", "tex1D<float>(image, (i + 1) / 3.0f)")
    out, image = np.zeros(2, np.float32), np.arange(3, dtype=np.float32)

    tw.load_cu(text)["between"].simulate(out, tw.Texture(image, normalized=True), 2, grid=1, block=32)

    assert out.tolist() == [0, 1], "an H200 reads the texel before: float32(1 / 3) is a little more than a third"


def test_a_kernel_that_reads_textures_is_not_launched_on_a_gpu() -> None:
    from tilewright.load.on_gpu import launch

    arguments = [np.zeros(4, np.float32), tw.Texture(np.zeros((3, 4), np.float32)), 4]
    with pytest.raises(ArgumentError, match="its file reads textures"):
        launch(tw.load_cu(HALF_WAY)["between"], arguments, grid=[1], block=[32])
