"""Texture fetches of the hardware beside the table's: texels, means of texels, and what stands for places outside."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.gpu.hardware import Bench, library

pytestmark = pytest.mark.gpu

COUNT = 1024  # fetches of a kernel
SHAPES = {1: (37,), 2: (9, 21), 3: (5, 7, 11)}
FETCH = {
    1: ("tex1D<{kind}>(t, x[i])", "tex1DLod<{kind}>(t, x[i], 0.0f)"),
    2: ("tex2D<{kind}>(t, x[i], y[i])", "tex2DLod<{kind}>(t, x[i], y[i], 0.0f)"),
    3: ("tex3D<{kind}>(t, x[i], y[i], z[i])", "tex3DLod<{kind}>(t, x[i], y[i], z[i], 0.0f)"),
}
KERNEL = """
extern "C" __global__ void fetch(cudaTextureObject_t t, const float* x, const float* y, const float* z, {kind}* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = {fetch};
}}
"""
KINDS = {"float": np.float32, "int": np.int32, "unsigned": np.uint32, "unsigned char": np.uint8, "short": np.int16}


@pytest.fixture
def cupy() -> ModuleType:
    return library("cupy")


def on_hardware(cupy: Any, source: str, texture: tw.Texture, arguments: list[Any], out: Any) -> Any:
    """What the GPU gives. `Any`: arrays of CuPy."""
    fields, array = texture.fields, texture.array
    ways, runtime = cupy.cuda.texture, cupy.cuda.runtime
    kind = {"f": runtime.cudaChannelFormatKindFloat, "i": runtime.cudaChannelFormatKindSigned}.get(
        array.dtype.kind, runtime.cudaChannelFormatKindUnsigned
    )
    held = ways.CUDAarray(ways.ChannelFormatDescriptor(8 * array.itemsize, 0, 0, 0, kind), *array.shape[::-1])
    held.copy_from(cupy.asarray(array))
    address = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}[fields.address]
    described = ways.TextureDescriptor(
        (address,) * array.ndim, int(fields.filter == "linear"), int(fields.floats),
        normalizedCoords=int(fields.normalized),
    )  # fmt: skip
    made = ways.TextureObject(ways.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=held), described)
    result = cupy.asarray(out)
    cupy.RawKernel(source, "fetch")((COUNT // 128,), (128,), (made, *map(cupy.asarray, arguments), result))
    return cupy.asnumpy(result)


def places(rng: np.random.Generator, extent: int, *, normalized: bool) -> Any:
    """Coordinates inside, at edges and middles of texels, and some outside."""
    numbers = rng.uniform(-1.5 * extent, 2.5 * extent, COUNT)
    numbers[::3] = rng.integers(-extent, 2 * extent, numbers[::3].shape) / 2
    numbers[1::3] = rng.uniform(0, extent, numbers[1::3].shape)
    return (numbers / extent if normalized else numbers).astype(np.float32)


def compared(cupy: Any, bench: Bench, source: str, texture: tw.Texture, kind: Any, rng: Any) -> tuple[Any, Any]:
    """What hardware and simulator give for the same places."""
    extents = (*texture.fields.extents, 1, 1)[:3]
    arguments = [places(rng, extent, normalized=texture.fields.normalized) for extent in extents]
    hardware, simulated = np.zeros(COUNT, kind), np.zeros(COUNT, kind)
    hardware = on_hardware(cupy, source, texture, arguments, hardware)
    tw.load_cu(source)["fetch"].simulate(texture, *arguments, simulated, grid=COUNT // 128, block=128)
    bench.tally["kernels"] += 1
    return hardware, simulated


@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address", ["wrap", "clamp", "mirror", "border"])
@pytest.mark.parametrize("normalized", [False, True])
def test_a_texel_is_the_one_that_the_hardware_reads(
    cupy: ModuleType, bench: Bench, dims: int, kind: str, address: str, normalized: bool
) -> None:
    rng = np.random.default_rng(dims)
    texels = rng.integers(0, 100, SHAPES[dims]).astype(KINDS[kind])
    texture = tw.Texture(texels, "point", address, normalized=normalized)
    for fetch in FETCH[dims]:
        source = KERNEL.format(kind=kind, fetch=fetch.format(kind=kind))
        bench.judge("out", *compared(cupy, bench, source, texture, KINDS[kind], rng))


@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("kind", ["float", "unsigned char", "short"])
@pytest.mark.parametrize(("address", "normalized"), list(itertools.product(["clamp", "border"], [False, True])))
def test_a_mean_of_texels_is_as_near_as_weights_of_eight_bits_are(
    cupy: ModuleType, bench: Bench, dims: int, kind: str, address: str, normalized: bool
) -> None:
    rng = np.random.default_rng(dims)
    texels = rng.integers(0, 100, SHAPES[dims]).astype(KINDS[kind])
    texture = tw.Texture(texels, "linear", address, normalized=normalized, floats=kind != "float")
    source = KERNEL.format(kind=kind, fetch=FETCH[dims][0].format(kind=kind))
    source = source.replace(f"<{kind}>", "<float>").replace(f"{kind}* out", "float* out")

    hardware, simulated = compared(cupy, bench, source, texture, np.float32, rng)

    largest = {"float": 100.0, "unsigned char": 100 / 255, "short": 100 / 32767}[kind]
    apart = np.abs(hardware - simulated).max() / largest
    bench.tally["means of texels"] += COUNT
    bench.tally["means of texels equal to the last bit"] += int((hardware == simulated).sum())
    bench.largest["difference of means of texels, of the largest texel"] = float(apart)
    assert apart <= (dims + 1) / 256, "each weight may be off by its last bit"


def test_a_texel_by_its_number_is_the_one_that_the_hardware_reads(cupy: ModuleType, bench: Bench) -> None:
    fetch = "tex1Dfetch<float>(t, i * 7 % 37)"
    texels = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    source, texture = KERNEL.format(kind="float", fetch=fetch), tw.Texture(texels)
    unused, simulated = [np.zeros(COUNT, np.float32)] * 3, np.zeros(COUNT, np.float32)
    linear = cupy.cuda.texture.ResourceDescriptor(
        cupy.cuda.runtime.cudaResourceTypeLinear, arr=cupy.asarray(texels),
        chDesc=cupy.cuda.texture.ChannelFormatDescriptor(32, 0, 0, 0, cupy.cuda.runtime.cudaChannelFormatKindFloat),
        sizeInBytes=texels.nbytes,
    )  # fmt: skip
    made = cupy.cuda.texture.TextureObject(linear, cupy.cuda.texture.TextureDescriptor())
    result = cupy.zeros(COUNT, cupy.float32)
    cupy.RawKernel(source, "fetch")((COUNT // 128,), (128,), (made, *map(cupy.asarray, unused), result))
    tw.load_cu(source)["fetch"].simulate(texture, *unused, simulated, grid=COUNT // 128, block=128)

    bench.judge("out", cupy.asnumpy(result), simulated)
