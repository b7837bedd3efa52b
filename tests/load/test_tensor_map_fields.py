"""tensormap.replace changes the fields that it names, tensormap.cp_fenceproxy hands maps on, st.bulk clears memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InstructionError, KernelError
from tilewright.ir.tensor_map import MapFields

FIELDS = MapFields("float16", (64, 32, 8), (128, 4096), (32, 16, 4), 2, address=1 << 40)
HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 a) {\n"
KERNEL = """.reg .b64 %p, %d, %o; .reg .b32 %t, %s, %v; .reg .pred %q;
.shared .align 128 .b8 map[128];
ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mov.u32 %s, map; mul.wide.u32 %o, %t, 4; add.s64 %o, %p, %o;
ld.global.b32 %v, [%o]; shl.b32 %t, %t, 2; add.u32 %t, %t, %s; st.shared.b32 [%t], %v; bar.warp.sync -1;
mov.u32 %t, %tid.x; setp.eq.u32 %q, %t, 0; mov.b32 %v, 48; mov.b64 %d, 0x1230000000;
"""
HANDED_ON = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
CHANGES = {
    "global_address.{space}.b1024.b64 [{at}], %d": {"address": 0x1230000000},
    "global_dim.{space}.b1024.b32 [{at}], 1, %v": {"dims": (64, 48, 8)},
    "global_stride.{space}.b1024.b64 [{at}], 1, %d": {"strides": (128, 0x1230000000)},
    "box_dim.{space}.b1024.b32 [{at}], 0, 16": {"box": (16, 16, 4)},
    "box_dim.{space}.b1024.b32 [{at}], 2, 7": {"box": (32, 16, 7)},
    "element_stride.{space}.b1024.b32 [{at}], 1, 2": {"steps": (1, 2, 1)},
    "swizzle_mode.{space}.b1024.b32 [{at}], 3": {"swizzle": 3},
    "fill_mode.{space}.b1024.b32 [{at}], 1": {"oob": "nan"},
    "elemtype.{space}.b1024.b32 [{at}], 10": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("space", ["global", "shared::cta"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_field_of_a_map_is_replaced(change: str, space: str) -> None:
    at = "%p" if space == "global" else "%s"
    text = f"{HEAD}{KERNEL}@%q tensormap.replace.tile.{change.format(space=space, at=at)};\nbar.warp.sync -1;\n"
    if space != "global":
        text += (
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%p], [%s], 128;\n"
        )
    data = np.frombuffer(bytearray(FIELDS.encode()), np.uint8)

    tw.load_ptx(f"{text}ret; }}\n")["k"].simulate(data, grid=1, block=32, check="all")

    assert data.tobytes() == replace(FIELDS, **CHANGES[change]).encode()  # type: ignore[arg-type]  # fields


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("tensormap.replace.tile.box.global.b1024.b32 [%p], 0, 1;", InstructionError, "box_dim"),
        (f"{HANDED_ON} [%p], [%s], 64;", InstructionError, "128"),
        ("multimem.red.relaxed.sys.global.add.u32 [%p], %v;", KernelError, "memory that several GPUs"),
        ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %x;", InstructionError, "reads no answer"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_error_at_its_line(line: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        tw.load_ptx(f"{HEAD}{KERNEL}{line}\nret; }}\n")["k"].lowered(np.zeros(128, np.uint8), block=32)

    assert raised.value.at.line == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [64, 0, 8])
def test_bytes_of_shared_memory_are_cleared(size: int) -> None:
    text = f"""{HEAD}.reg .b64 %p; .reg .b32 %t, %s, %v, %n; .reg .pred %q;
.shared .align 16 .b8 tile[128];
ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s;
mov.b32 %v, -1; st.shared.b32 [%s], %v;
bar.warp.sync -1; mov.b32 %n, {size}; setp.eq.u32 %q, %t, 0;
mov.u32 %v, tile;
@%q st.bulk.weak.shared::cta [%v+16], {size}, 0;
bar.warp.sync -1; ld.shared.b32 %v, [%s]; mul.wide.u32 %p, %t, 4;
.reg .b64 %a; ld.param.u64 %a, [a]; add.s64 %p, %p, %a; st.global.b32 [%p], %v; ret; }}
"""
    out = np.zeros(32, np.int32)

    tw.load_ptx(text)["k"].simulate(out, grid=1, block=32, check="all")

    expected = np.full(32, -1, np.int32)
    expected[4 : 4 + size // 4] = 0
    assert (out == expected).all()
