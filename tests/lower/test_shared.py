"""The shared-memory plan: where each buffer of a CTA starts."""

from __future__ import annotations

import pytest

from tilewright.dtypes import dtype
from tilewright.errors import KernelError
from tilewright.ir import AllocBuffer, Buffer
from tilewright.layout import Layout, S, mma_shared_layout
from tilewright.lower import plan_shared, shared_alignment


def shared(
    name: str, shape: tuple[int, ...], kind: str = "float16", layout: Layout | None = None, align: int = 0
) -> AllocBuffer:
    return AllocBuffer(Buffer(name, dtype(kind), shape, "shared", layout or S[shape], align=align))


def test_buffers_follow_each_other_from_multiples_of_16_bytes() -> None:
    offsets, size = plan_shared((shared("A", (3,)), shared("B", (5,)), shared("C", (8,))))

    assert offsets == {"A": 0, "B": 16, "C": 32}
    assert size == 48


def test_a_swizzled_buffer_starts_where_its_pattern_starts() -> None:
    swizzled = shared("B", (64, 64), layout=mma_shared_layout("float16", 3, (64, 64)))

    offsets, _ = plan_shared((shared("A", (8,)), swizzled))

    assert shared_alignment(swizzled.buffer) == 1024
    assert offsets["B"] == 1024


def test_a_declared_alignment_is_kept() -> None:
    offsets, size = plan_shared((shared("A", (8,)), shared("B", (8,), align=256)))

    assert offsets["B"] == 256
    assert size == 272


def test_padding_between_rows_is_storage_too() -> None:
    assert shared("A", (8, 8), layout=S[(8, 8) : (12, 1)]).buffer.storage_bytes() == (7 * 12 + 8) * 2


def test_4_bit_elements_lie_two_to_a_byte() -> None:
    assert shared("A", (33,), "float4_e2m1fn").buffer.storage_bytes() == 17


def test_an_offset_that_a_pool_gave_is_kept() -> None:
    placed = AllocBuffer(shared("A", (8,)).buffer, offset=512)

    assert plan_shared((placed,)) == ({"A": 512}, 528)


def test_an_offset_off_the_alignment_is_refused() -> None:
    with pytest.raises(KernelError, match="A is not aligned in shared memory"):
        plan_shared((AllocBuffer(shared("A", (8,)).buffer, offset=8),))


def test_more_than_any_cta_can_have_is_refused() -> None:
    with pytest.raises(KernelError, match="more shared memory than a CTA can have"):
        plan_shared((shared("A", (1024, 128)),))


def test_registers_take_no_shared_memory() -> None:
    registers = AllocBuffer(Buffer("R", dtype("float32"), (8,), "local", S[(8,)]))

    assert plan_shared((registers,)) == ({}, 0)
