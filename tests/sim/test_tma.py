"""Boxes, bulk copies and remote stores on the simulator: the bytes that they move, against the manual's words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tilewright as tw
from tests.isa.tma_oracles import REDUCTIONS, box, reduced, swizzled
from tests.sim.tma_kernels import loaded, sent, stored, streamed, summed, there_and_back
from tilewright import T
from tilewright.errors import ArgumentError, SimulationError
from tilewright.layout import SwizzleMode, mma_shared_layout

STORED = ("uint32", "int64", "float32")
KINDS = ("uint8", "uint16", "float16", "bfloat16", "float32", "int64")


@st.composite
def boxes(draw: Any) -> dict[str, Any]:
    """A box of an array: dimension 0 first."""
    kind = draw(st.sampled_from(KINDS))
    size = tw.dtypes.dtype(kind).bits // 8
    mode, rank = draw(st.integers(0, 3)), draw(st.integers(1, 5))
    inner = (16 << mode if mode else 16 * draw(st.integers(1, 3))) // size
    extents = [inner, *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    dims = [draw(st.integers(1, 4)) * 16 // min(size, 16), *(draw(st.integers(1, 6)) for _ in range(rank - 1))]
    steps = [1, *(draw(st.integers(1, 3)) for _ in range(rank - 1))]
    whole = 16 // size  # elements of 16 bytes
    first = whole * draw(st.integers(-(inner // whole), dims[0] // whole))
    starts = [first, *(draw(st.integers(-2, dim)) for dim in dims[1:])]
    return {"kind": kind, "mode": mode, "dims": dims, "extents": extents, "steps": steps, "starts": starts}


def array_of(one: dict[str, Any], rng: np.random.Generator) -> NDArray[Any]:
    kind = tw.dtypes.dtype(one["kind"]).numpy
    shape = (*reversed(one["dims"]), kind.itemsize)
    return rng.integers(0, 256, shape, dtype=np.uint8).view(kind)[..., 0]


def map_of(one: dict[str, Any], array: NDArray[Any]) -> tw.TensorMap:
    return tw.TensorMap(array, one["extents"][::-1], one["mode"], steps=one["steps"][::-1])


@settings(max_examples=40, deadline=None)
@given(boxes())
def test_a_box_is_loaded_element_by_element_to_its_swizzled_place(one: dict[str, Any]) -> None:
    a = array_of(one, np.random.default_rng(1))
    made, size = map_of(one, a), a.itemsize
    nbytes = made.fields.box_bytes
    room = -(-nbytes // 1024) * 1024
    expected = np.full(room, 0x55, np.uint8)
    for number, index in box(one["dims"], one["extents"], one["steps"], one["starts"]):
        value = a[tuple(reversed(index))].tobytes() if index is not None else bytes(size)
        for byte in range(size):
            expected[swizzled(number * size + byte, one["mode"])] = value[byte]
    out = np.zeros((1, nbytes), np.uint8)

    run = tw.simulate(loaded(len(one["dims"]), tuple(one["starts"]), nbytes), made, out)

    assert run.warnings == []
    assert np.array_equal(out[0], expected[:nbytes])


@settings(max_examples=25, deadline=None)
@given(boxes(), st.sampled_from(["", "add", "max", "xor"]))
def test_a_box_is_stored_or_combined_where_the_array_is(one: dict[str, Any], op: str) -> None:
    one["kind"] = "uint32" if op else one["kind"]
    size = tw.dtypes.dtype(one["kind"]).bits // 8
    one["extents"][0] = max(16, 16 << one["mode"] if one["mode"] else 16) // size
    one["dims"][0] = max(one["dims"][0] // 4 * 4, 16 // size)
    one["starts"] = [max(start, 0) for start in one["starts"]]
    one["starts"][0] -= one["starts"][0] % (16 // size)
    rng = np.random.default_rng(2)
    a = array_of(one, rng)
    made, before = map_of(one, a), a.copy()
    nbytes = made.fields.box_bytes
    source = rng.integers(0, 256, max(32, -(-nbytes // 32) * 32), dtype=np.uint8)
    expected = before.copy()
    for number, index in box(one["dims"], one["extents"], one["steps"], one["starts"]):
        if index is None:
            continue
        octets = [source[swizzled(number * size + byte, one["mode"])] for byte in range(size)]
        new = np.array(octets, np.uint8).view(a.dtype)[0]
        where = tuple(reversed(index))
        expected[where] = reduced(op, int(before[where]), int(new), 32, signed=False) if op else new

    tw.simulate(stored(len(one["dims"]), tuple(one["starts"]), len(source), op), made, source)

    assert np.array_equal(a.view(np.uint8), expected.view(np.uint8))


def test_a_mask_brings_the_box_to_each_of_its_ctas() -> None:
    a = np.arange(64 * 32, dtype=np.uint32).reshape(64, 32)
    out = np.zeros((2, 1024), np.uint8)

    run = tw.simulate(loaded(2, (8, 3), 1024, mask=3), tw.TensorMap(a, (8, 32), 3), out)

    assert run.warnings == []
    assert np.array_equal(out[0], out[1])
    assert np.array_equal(np.sort(out[0].view(np.uint32))[64:], np.sort(a[3:11, 8:32], axis=None))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_outside_may_read_as_nan(kind: str) -> None:
    a = np.ones((4, 16), tw.dtypes.dtype(kind).numpy)
    size = a.itemsize
    out = np.zeros((1, 4 * 16 * size), np.uint8)

    tw.simulate(loaded(2, (0, 2), out.size), tw.TensorMap(a, (4, 16), oob="nan"), out)

    values = out.view(a.dtype).reshape(4, 16)
    assert (values[:2] == 1).all()
    assert np.isnan(values[2:].astype(np.float64)).all()


@pytest.mark.parametrize("mode", list(SwizzleMode))
@pytest.mark.parametrize(("at", "multiple"), [((0, 0), 64), ((16, 96), 1), ((24, 64), 64)])
def test_a_tile_goes_there_and_back_as_far_as_the_array_goes(
    mode: SwizzleMode, at: tuple[int, int], multiple: int
) -> None:
    layout = mma_shared_layout("bfloat16", mode, (32, 64))
    a = np.random.default_rng(3).standard_normal((40, 128)).astype(ml_dtypes.bfloat16)
    b = np.zeros_like(a)

    kernel = there_and_back((40, 128), (32, 64), layout, "bfloat16", multiple)
    run = tw.simulate(kernel, a, b, *at, target="sm_90a")

    expected = np.zeros_like(a)
    inside = slice(at[0], at[0] + 32), slice(at[1], at[1] + 64)
    expected[inside] = a[inside]
    assert run.warnings == []
    assert np.array_equal(b.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize(
    ("how", "kind"), [*(("st", kind) for kind in STORED), *(("s2c", kind) for kind in STORED), ("vec", "uint32")]
)
def test_bytes_are_sent_to_another_cta(how: str, kind: str) -> None:
    a = np.arange(64).reshape(2, 32).astype(kind)
    out = np.zeros_like(a)

    run = tw.simulate(sent(how, kind), a, out)

    assert run.warnings == []
    assert np.array_equal(out, a[::-1])


@pytest.mark.parametrize("how", ["red", "reduce"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_bytes_are_combined_with_those_of_another_cta(how: str, op: str) -> None:
    a = np.random.default_rng(4).integers(0, 100, (2, 32), dtype=np.uint32)
    out = np.zeros_like(a)

    run = tw.simulate(sent(how, "uint32", op), a, out)

    expected = [[reduced(op, 3 * i + 1, int(a[1 - cta, i]), 32, signed=False) for i in range(32)] for cta in range(2)]
    assert run.warnings == []
    assert out.tolist() == expected


@pytest.mark.parametrize("how", ["g2s_cta", "g2s_cluster"])
def test_a_stretch_of_bytes_is_copied_there_and_back(how: str) -> None:
    a = np.arange(256, dtype=np.uint32)
    out = np.zeros((2 if how == "g2s_cluster" else 1, 256), np.uint32)

    run = tw.simulate(streamed(how), a, out)

    assert run.warnings == []
    assert all(np.array_equal(row, a) for row in out)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_stretch_of_bytes_is_combined_with_global_memory(op: str) -> None:
    rng = np.random.default_rng(5)
    a, out = (rng.integers(0, 100, shape, dtype=np.uint32) for shape in (256, (1, 256)))
    before = out.copy()

    tw.simulate(streamed("reduce", "uint32", op), a, out)

    assert out[0].tolist() == [reduced(op, int(o), int(n), 32, signed=False) for o, n in zip(before[0], a, strict=True)]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_floats_are_added_with_one_rounding(kind: str) -> None:
    rng = np.random.default_rng(6)
    a, out = (rng.standard_normal(shape).astype(tw.dtypes.dtype(kind).numpy) for shape in (256, (1, 256)))
    expected = a + out[0]

    tw.simulate(streamed("reduce", kind), a, out)

    assert np.array_equal(out[0], expected)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("box[0]", {"box": (8, 512)}),
        ("box[1]", {"box": (300, 64)}),
        ("box[0]", {"box": (8, 128), "swizzle": 3}),
        ("box[0]", {"box": (8, 3)}),
        ("box", {"box": (8,)}),
        ("steps[1]", {"box": (8, 64), "steps": (9, 1)}),
        ("swizzle", {"box": (8, 64), "swizzle": 4}),
        ("oob", {"box": (8, 64), "oob": "one"}),
        ("oob", {"box": (8, 64), "oob": "nan", "dtype": "uint16"}),
        ("dims", {"array": np.zeros((1,) * 6, np.float16), "box": (1,) * 6}),
        ("strides[0]", {"array": np.zeros((8, 63), np.float16), "box": (8, 16)}),
        ("the innermost dimension", {"array": np.zeros((64, 64), np.float16).T, "box": (8, 16)}),
    ],
)
def test_a_limit_of_tensor_maps_is_named_by_its_field(field: str, given: dict[str, Any]) -> None:
    array = given.pop("array", np.zeros((64, 512), np.float16))

    with pytest.raises(ArgumentError) as error:
        tw.TensorMap(array, **given)

    assert error.value.what == f"tensor map: {field}"


def test_the_bytes_of_a_map_are_its_fields() -> None:
    made = tw.TensorMap(np.zeros((5, 7, 64), np.float32), (2, 3, 8), 1, steps=(1, 2, 1), oob="nan").fields.at(4096)

    found = type(made).decode(made.encode())

    assert (found, found.address) == (made, 4096)


def test_a_box_begins_at_whole_sixteen_bytes_of_a_row() -> None:
    source = tw.TensorMap(np.zeros((4, 64), np.uint16), (2, 8))

    with pytest.raises(SimulationError, match="begins at element 4 of the innermost dimension, 8 bytes"):
        tw.simulate(loaded(2, (4, 0), 32), source, np.zeros((1, 32), np.uint8))


@pytest.mark.parametrize(
    ("tile_at", "map_at", "told"),
    [
        (64, 0, "dst is no multiple of 128 bytes, at which a box of a tensor map begins"),
        (0, 32, "the tensor map is at 0x[0-9a-f]*20, no multiple of 64 bytes"),
    ],
)
def test_a_box_begins_at_128_bytes_of_shared_memory_and_its_map_at_64(tile_at: int, map_at: int, told: str) -> None:
    @T.prim_func
    def load(maps: T.Buffer((256,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((256,), "uint8", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.cp_async.bulk.tensor.g2c(
                2, tile.ptr_to([tile_at]), bar.ptr_to([0]), maps.ptr_to([map_at]), 0, -1, "", 0, 0
            )

    source = tw.TensorMap(np.zeros((4, 64), np.uint16), (2, 8)).fields.at(0)
    maps = np.zeros(256, np.uint8)
    maps[map_at : map_at + 128] = np.frombuffer(source.encode(), np.uint8)

    with pytest.raises(SimulationError, match=told):
        tw.simulate(load, maps, target="sm_90a")


def test_what_a_reduction_lacks_is_told_of_its_own_issuer() -> None:
    @T.prim_func
    def half(out: T.Buffer((4,), "uint32")):
        cta, lane = T.cta_id([2]), T.thread_id([32])
        tile = T.alloc_shared((4,), "uint32")
        if lane == 0:
            if cta == 0:
                for i in T.unroll(4):
                    tile[i] = T.uint32(1)
            T.ptx.fence.proxy_async("shared::cta")
            T.ptx.cp_reduce_async.bulk.s2g(out.ptr_to([0]), tile.ptr_to([0]), 16, "add", "uint32")
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    with pytest.raises(SimulationError, match="a value is uninitialised") as raised:
        tw.simulate(half, np.zeros(4, np.uint32), target="sm_90", check="all")

    assert raised.value.given == "src, an operand of cp_reduce_async.bulk.s2g, issued by CTA (1, 0, 0), warp 0, lane 0"


@pytest.mark.parametrize("way", ["tma", "bulk"])
@pytest.mark.parametrize("until", ["read", "written"])
def test_ctas_may_reduce_into_one_place_and_use_the_source_anew_once_it_is_read(way: str, until: str) -> None:
    total = np.zeros((8, 32), np.float32)

    run = tw.simulate(summed(way, read=until == "read"), total, target="sm_90a", check="all")

    assert run.warnings == []
    assert np.array_equal(total[:, 0], 2 * (2 * np.arange(8) + 1))


def test_a_pointer_of_64_bits_into_the_cluster_is_converted_like_any_other() -> None:
    a = np.arange(64, dtype=np.uint32).reshape(2, 32)
    out = np.zeros_like(a)

    tw.simulate(sent("pointer"), a, out)

    assert np.array_equal(out, a[::-1])


def test_an_address_beyond_the_cluster_is_told() -> None:
    a = np.zeros((2, 32), np.uint32)

    with pytest.raises(SimulationError, match="an address of CTA 5 of a cluster of 2 CTAs"):
        tw.simulate(sent("beyond"), a, a.copy())


def test_a_map_made_of_fields_has_the_address_of_its_own_array() -> None:
    first, second = np.zeros((2, 8, 64), np.float32)
    fields = tw.TensorMap(first, (8, 32)).fields

    moved = tw.TensorMap.of(second, fields)

    assert fields.address == first.ctypes.data
    assert moved.fields.address == second.ctypes.data
    assert moved.fields == fields
