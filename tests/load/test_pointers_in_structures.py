"""Structures and tables whose fields are pointers: where addresses have 32 bits, and as a GPU gets them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.load import load_cu, load_ptx
from tilewright.load.arguments import given
from tilewright.load.on_gpu import _with_addresses

SHORT = """.version 7.0
.target sm_75
.address_size 32
.visible .entry fields(.param .align 4 .b8 q[12])
{
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [q];
    ld.param.u32 %r2, [q+4];
    ld.param.u32 %r3, [q+8];
    ld.global.u32 %r4, [%r1];
    add.u32 %r5, %r4, %r3;
    st.global.u32 [%r2], %r5;
    ret;
}
.visible .entry table(.param .u32 q)
{
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [q];
    ld.global.u32 %r2, [%r1];
    ld.global.u32 %r3, [%r1+4];
    ld.global.u32 %r4, [%r2];
    st.global.u32 [%r3], %r4;
    ret;
}
"""


@pytest.mark.parametrize(("kernel", "argument", "found"), [("fields", (np.int32(5),), 12), ("table", (), 7)])
def test_pointers_of_32_bits_lie_in_structures_and_tables(
    kernel: str, argument: tuple[object, ...], found: int
) -> None:
    a, b = np.full(4, 7, np.uint32), np.zeros(4, np.uint32)

    run = load_ptx(SHORT)[kernel].simulate([a, b, *argument], grid=1, block=1)

    assert run.warnings == []
    assert b.tolist() == [found, 0, 0, 0]


PAIR = """
struct Pair { const int* in; int n; int* out; };
extern "C" __global__ void structure(Pair p) { for (int i = 0; i < p.n; ++i) p.out[i] = 2 * p.in[i]; }
extern "C" __global__ void table(int** rows) { rows[1][0] = rows[0][3]; }
"""


@pytest.mark.parametrize(("name", "argument"), [("structure", (0, 4, 1)), ("table", (0, 1))])
def test_a_gpu_gets_its_own_addresses_in_structures_and_tables(name: str, argument: tuple[int, ...]) -> None:
    """The bytes that `tilewright.load.on_gpu.launch` hands to the driver."""
    kernel, arrays = load_cu(PAIR)[name], [np.arange(4, dtype=np.int32), np.zeros(4, np.int32)]
    value = tuple(arrays[k] if name == "table" or place != 1 else k for place, k in enumerate(argument))
    bound = given(kernel.name, kernel.entry.params, kernel.written, [list(value) if name == "table" else value], {})
    held = {each: 0x1000 * number for number, each in enumerate(bound.arrays, 1)}

    data = _with_addresses(bound, held)

    (param, pointers), *_ = bound.pointers.items()
    octets = data[param] if param in data else bound.arrays[param].tobytes()
    assert [int.from_bytes(octets[at : at + 8], "little") for at, _ in pointers] == [held[of] for _, of in pointers]
    assert len(pointers) == 2
