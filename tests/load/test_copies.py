"""Copies and addresses of compiled code: done at once, or made once, they give what statement by statement would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cuda import entry_name
from tilewright.demo.kernel import make
from tilewright.errors import SimulationError
from tilewright.sim.fast.copies import Copies

THREADS, CTAS = 64, 3
CHECKS: Sequence[tuple[str, ...] | str] = [(), "all"]
HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 data)
.maxntid 64
{
.reg .b32 %r<64>; .reg .b64 %d<16>; .reg .pred %p;
.shared .align 16 .b8 s[2048];
ld.param.u64 %d0, [out]; ld.param.u64 %d1, [data];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, s;
shl.b32 %r3, %r0, 4; add.u32 %r4, %r2, %r3;
shl.b32 %r5, %r1, 11; add.u32 %r5, %r5, %r3;
cvt.u64.u32 %d2, %r5; add.u64 %d3, %d1, %d2; add.u64 %d4, %d0, %d2;
"""
"""%r4: the thread's 16 bytes in shared memory, of the first 1024. %d3, %d4: in data and out, 2048 for each CTA."""
BACK = """bar.sync 0;
ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r4]; st.global.v4.b32 [%d4], {%r20, %r21, %r22, %r23};
ld.shared.v4.b32 {%r24, %r25, %r26, %r27}, [%r4+1024]; st.global.v4.b32 [%d4+1024], {%r24, %r25, %r26, %r27};
"""
FIRST = "ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%d3]; st.shared.v4.b32 [%r4], {%r8, %r9, %r10, %r11};"
SECOND = FIRST.replace("%d3", "%d3+1024").replace("%r4]", "%r4+1024]")
BOTH = """{ld} {{%r8, %r9, %r10, %r11}}, [%d3]; {ld} {{%r12, %r13, %r14, %r15}}, [%d3+1024];
{st} [%r4], {{%r8, %r9, %r10, %r11}}; {st} [%r4+1024], {{%r12, %r13, %r14, %r15}};
""".format(ld="ld.global.v4.b32", st="st.shared.v4.b32")


def run(body: str, check: tuple[str, ...] | str) -> tuple[np.ndarray, np.ndarray]:
    """Data and out, (CTAs, words)."""
    data = np.random.default_rng(0).integers(0, 1 << 32, (CTAS, 512), np.uint32)
    out = np.zeros_like(data)
    tw.load_ptx(HEAD + body + "\nret;\n}")["k"].simulate(out, data, grid=CTAS, block=THREADS, check=check)
    return data, out


@pytest.mark.parametrize("check", CHECKS)
def test_copies_to_a_shared_buffer_are_done_at_once(
    check: tuple[str, ...] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    fill = Copies._fill

    def counted(self: Copies, team: Any, turns: list[Any], plan: Any) -> None:
        made.append(len(turns))
        fill(self, team, turns, plan)

    monkeypatch.setattr(Copies, "_fill", counted)
    own = tw.compile(make(128, swizzled=True), "sm_90a")
    data = np.random.default_rng(0).integers(0, 1 << 16, (128, 128), np.uint16)
    out = np.zeros_like(data)

    loaded = tw.load_cu(own.source("cuda"), "sm_90a")[entry_name(own.lowered)]
    loaded.simulate(data, out, grid=(2, 2), block=128, check=check)

    assert (out == data.T).all()
    assert made == [4]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("into", [FIRST + "\n" + SECOND, BOTH])
def test_copies_go_where_they_are_told(into: str, check: tuple[str, ...] | str) -> None:
    data, out = run(into + BACK, check)

    assert (out == data).all()


@pytest.mark.parametrize("check", CHECKS)
def test_some_threads_alone_copy_what_is_theirs(check: tuple[str, ...] | str) -> None:
    some = f"{BOTH} bar.sync 0; setp.gt.u32 %p, %r0, 40; @%p bra L; add.u64 %d3, %d1, 0;\n{FIRST}\nL:"

    data, out = run(some + BACK.replace("[%r4+1024]", "[%r4]"), check)

    assert (out[:, :256] == out[:, 256:]).all()
    assert (out[:, 4 * 41 : 256] == data[:, 4 * 41 : 256]).all()
    assert (out[:, : 4 * 41] == np.tile(data[0, :4], 41)).all()


def test_what_goes_from_shared_to_global_memory_has_been_written() -> None:
    half = FIRST + BACK

    run(half, ())
    with pytest.raises(SimulationError, match="is uninitialised") as error:
        run(half, "all")

    assert "store" in str(error.value.given)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("add.u32 %r6, %r0, 0xfffffff0; add.u32 %r6, %r6, 16;", lambda tid: tid),  # there and back over the end
        ("add.u32 %r6, %r0, 0xfffffff0; and.b32 %r6, %r6, 63;", lambda tid: tid - 16 & 63),
        ("shl.b32 %r6, %r0, 1; or.b32 %r6, %r6, 1;", lambda tid: 2 * tid | 1),  # a sum
        ("or.b32 %r6, %r0, 1;", lambda tid: tid | 1),  # none
        ("shl.b32 %r6, %r0, 2; xor.b32 %r6, %r6, 3;", lambda tid: 4 * tid ^ 3),
        ("shl.b32 %r6, %r0, 2; xor.b32 %r6, %r6, 4;", lambda tid: 4 * tid ^ 4),
    ],
)
def test_parts_of_an_address_may_wrap_and_share_bits(steps: str, wanted: object, check: tuple[str, ...] | str) -> None:
    body = f"""{steps} mul.wide.u32 %d5, %r6, 4; add.u64 %d6, %d1, %d5; mov.b32 %r7, 0;
    again: ld.global.b32 %r8, [%d6+64]; st.global.b32 [%d4], %r8; add.u64 %d6, %d6, 128; add.u64 %d4, %d4, 4;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p, %r7, 4; @%p bra again;"""

    data, out = run(body, check)

    places = wanted(np.arange(THREADS)) + 16  # type: ignore[operator]  # a function
    for turn in range(4):
        assert (out[:, turn : 4 * THREADS : 4] == data.reshape(-1)[places + 32 * turn]).all()


@pytest.mark.parametrize("check", CHECKS)
def test_results_of_matrix_loads_are_read_before_they_are_written_again(check: tuple[str, ...] | str) -> None:
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
    again = f"""{load} {{%r30}}, [%r4]; mov.b32 %r31, %r30; {load} {{%r30}}, [%r4+1024]; mov.b32 %r32, %r30;
    {load} {{%r33}}, [%r4]; st.global.b32 [%d4], %r31; st.global.b32 [%d4+4], %r32; st.global.b32 [%d4+8], %r33;"""

    data, out = run(f"{BOTH} bar.sync 0; {again}", check)

    first, second = (data[:, k : k + 256].reshape(CTAS, 2, 128)[..., :32] for k in (0, 256))
    for column, tile in enumerate((first, second, first)):
        assert (out[:, column : 4 * THREADS : 4].reshape(CTAS, 2, 32) == tile).all()
