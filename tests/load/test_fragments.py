"""Fragments of compiled products in storage: what is computed and told does not depend on where registers lie."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.ir import Call, Evaluate, Expr, Load, statements
from tilewright.isa import bind
from tilewright.sim.fast.copies import Loads

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 data)
.maxntid 32
{
.reg .b32 %r<96>; .reg .b64 %p, %o; .reg .pred %q;
.shared .align 16 .b8 s[2048];
ld.param.u64 %o, [out]; ld.param.u64 %p, [data];
mov.u32 %r90, %tid.x; mul.wide.u32 %o, %r90, 16; add.u64 %p, %p, %o;
shl.b32 %r91, %r90, 4; mov.u32 %r95, s; add.u32 %r92, %r95, %r91;
ld.global.v4.b32 {%r80, %r81, %r82, %r83}, [%p];
st.shared.v4.b32 [%r92], {%r80, %r81, %r82, %r83};
st.shared.v4.b32 [%r92+512], {%r83, %r82, %r81, %r80};
bar.warp.sync 0xffffffff;
mul.wide.u32 %p, %r90, 4; ld.param.u64 %o, [out]; add.u64 %o, %o, %p;
"""
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def braces(first: int, count: int = 4) -> str:
    return "{" + ", ".join(f"%r{first + k}" for k in range(count)) + "}"


def stored(sums: int) -> str:
    """Each of four sums goes where no other program stores."""
    lines = [f"st.global.b32 [%o+{128 * k}], %r{sums + k};" for k in range(4)]
    return "\n".join([*lines, "add.u64 %o, %o, 512;"])


def program(seed: int) -> str:
    """Products whose sums and fragments go through registers by chance, in a loop."""
    random = Random(seed)
    a, b, sums = (0, 4, 8), (12, 16), (20, 24, 28, 32)
    lines = [f"mov.b32 %r{k}, 0;" for k in range(20, 36)]
    lines += [f"{LDMATRIX} {braces(each)}, [%r92+{512 * (each // 4 % 2)}];" for each in (*a, *b)]
    lines += ["mov.b32 %r93, 0;", "again:"]
    for _ in range(8):
        before, after = random.choice(sums), random.choice(sums)
        way = random.random()
        if way < 0.5:
            half = random.choice((0, 2))
            left, right = braces(random.choice(a)), braces(random.choice(b) + half, 2)
            lines.append(f"{MMA} {braces(after)}, {left}, {right}, {braces(before)};")
        elif way < 0.7:
            lines += [f"mov.b32 %r{after + k}, %r{before + k};" for k in range(4)]
        elif way < 0.9:
            to, of = random.choice(a), random.choice((*a, *b))
            lines += [f"mov.b32 %r{to + k}, %r{of + k};" for k in range(4)]
        else:
            lines.append(f"{LDMATRIX} {braces(random.choice((*a, *b)))}, [%r92+{random.choice((0, 512))}];")
    lines += ["add.u32 %r93, %r93, 1; setp.lt.u32 %q, %r93, 2;", "@%q bra again;"]
    return "\n".join([HEAD, *lines, *(stored(each) for each in sums), "ret;", "}"])


def result(text: str) -> NDArray[np.uint32]:
    data = np.random.default_rng(1).integers(-1, 2, 256).astype(np.float16)
    out = np.zeros(16 * 32, np.uint32)
    tw.load_ptx(text)["k"].simulate(out, data, block=32)
    return out


@pytest.mark.parametrize("seed", [*range(10), 258])
def test_registers_that_share_places_hold_what_they_would_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = result(program(seed))
    monkeypatch.setattr(import_module("tilewright.ptx.lower"), "place_fragments", lambda low: None)

    assert (found == result(program(seed))).all()


def products(text: str) -> list[dict[str, tuple[Expr, ...]]]:
    kernel = tw.load_ptx(text)["k"].lowered(np.zeros(512, np.uint32), np.zeros(256, np.float16), block=32)
    calls = [
        bind(stmt.value)
        for stmt in statements(kernel.body)
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)
    ]
    return [dict(call.operands) for call in calls if call.form.meaning.product]


def place(register: Expr) -> tuple[object, ...]:
    assert isinstance(register, Load)
    return (register.buffer.data,)


def test_a_sum_that_gets_another_name_stays_in_its_place() -> None:
    first = f"{LDMATRIX} {braces(0)}, [%r92]; {LDMATRIX} {braces(4)}, [%r92+512];"
    chain = [f"{MMA} {braces(d)}, {braces(0)}, {braces(b, 2)}, {braces(c)};" for d, b, c in ((12, 4, 8), (16, 6, 12))]
    zeros = " ".join(f"mov.b32 %r{8 + k}, 0;" for k in range(4))

    one, two = products("\n".join([HEAD, first, zeros, *chain, stored(16), "ret;", "}"]))

    places = [list(map(place, operands)) for operands in (one["c"], one["d"], two["c"], two["d"])]
    assert all(each == places[0] for each in places)


def test_a_sum_that_is_read_later_keeps_a_place_of_its_own() -> None:
    first = f"{LDMATRIX} {braces(0)}, [%r92]; {LDMATRIX} {braces(4)}, [%r92+512];"
    zeros = " ".join(f"mov.b32 %r{8 + k}, 0;" for k in range(4))
    chain = f"{MMA} {braces(12)}, {braces(0)}, {braces(4, 2)}, {braces(8)};"

    found = result("\n".join([HEAD, first, zeros, chain, stored(12), stored(8), "ret;", "}"])).reshape(4, -1)

    assert found[0].any()
    assert not found[1].any()


def test_loads_with_addresses_computed_in_between_are_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[bool, int]] = []
    at_once = Loads._at_once

    def noted(self: Loads, team: Any, turns: Any) -> bool:
        done.append((at_once(self, team, turns), len(turns)))
        return done[-1][0]

    monkeypatch.setattr(Loads, "_at_once", noted)
    first = f"{LDMATRIX} {braces(0)}, [%r92]; xor.b32 %r94, %r92, 512; {LDMATRIX} {braces(4)}, [%r94];"
    zeros = " ".join(f"mov.b32 %r{8 + k}, 0;" for k in range(4))
    chain = f"{MMA} {braces(8)}, {braces(0)}, {braces(4, 2)}, {braces(8)};"
    text = "\n".join([HEAD, first, zeros, chain, stored(8), "ret;", "}"])

    found = result(text)

    assert done == [(True, 2)]
    monkeypatch.setattr(Loads, "_at_once", lambda *_: False)
    assert (found == result(text)).all()


def test_an_uninitialised_register_in_storage_is_told_by_its_name() -> None:
    first = f"{LDMATRIX} {braces(0)}, [%r92]; {LDMATRIX} {braces(4)}, [%r92+1024];"
    zeros = " ".join(f"mov.b32 %r{8 + k}, 0;" for k in range(4))
    chain = f"{MMA} {braces(8)}, {braces(0)}, {braces(4, 2)}, {braces(8)};"

    with pytest.raises(SimulationError, match="`r4` is uninitialised") as raised:
        result("\n".join([HEAD, first, zeros, chain, stored(8), "ret;", "}"]))

    assert raised.value.given == "an operand of mma, in CTA (0, 0, 0), warp 0, all lanes"


FILLED = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.maxntid 128
{
.reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p;
.shared .align 128 .b8 s[4096];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 5; mov.u32 %r2, s; add.u32 %r3, %r2, %r1; mov.b32 %r4, 0x3F803F80;
st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
st.shared.v4.b32 [%r3+16], {%r4, %r4, %r4, %r4};
fence.proxy.async; bar.sync 0;
shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd1, %r5; or.b64 %rd1, %rd1, 0x1000080000;
mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
setp.ne.u32 %p, 0, 1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, %p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mov.f32 %f4, %f0;
ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3;
st.global.f32 [%rd2], %f4;
ret;
}
"""


def test_a_copy_of_a_register_that_an_operation_has_filled_is_what_it_filled_in() -> None:
    out = np.zeros(128, np.float32)

    tw.load_ptx(FILLED)["k"].simulate(out, block=128)

    assert (out == 16).all()
