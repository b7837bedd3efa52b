"""Small PTX programs with what they store: each reads words of ``input`` and writes words of ``output``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tilewright as tw

REGISTERS = """.reg .b64 ai, ao, d<9>; .reg .b32 r<20>; .reg .b16 h<9>; .reg .pred p<9>; .reg .f32 f<9>;
.reg .v2 .u32 pair;
ld.param.u64 ai, [input]; ld.param.u64 ao, [output];"""


@dataclass(frozen=True)
class Program:
    """name: the rule. body: what follows `REGISTERS`. given, wanted: words of 32 bits. before: of the module."""

    name: str
    body: str
    given: tuple[int, ...]
    wanted: tuple[int, ...]
    before: str = ""
    target: str = "sm_90a"
    version: str = "8.6"
    block: int = 1

    @property
    def text(self) -> str:
        head = f".version {self.version}\n.target {self.target}\n.address_size 64\n{self.before}\n"
        return (
            f"{head}.visible .entry k(.param .u64 input, .param .u64 output)\n{{\n{REGISTERS}\n{self.body}\nret;\n}}\n"
        )


def words(*values: int) -> NDArray[np.uint32]:
    return np.array([value & 0xFFFFFFFF for value in values], np.uint32)


def ran(program: Program) -> list[int]:
    """The words that the program stores."""
    out = np.zeros(len(program.wanted), np.uint32)
    kernel = tw.load_ptx(program.text)["k"]
    kernel.simulate(words(*program.given), out, block=program.block, shared_bytes=256)
    return out.tolist()


TRANSPOSED = tuple(
    np.arange(32, dtype=np.uint32).view(np.uint16).reshape(8, 8).T.copy().view(np.uint32).ravel().tolist()
)

PROGRAMS = (
    Program("types of registers and parameters need no blank before them",
            "ld.u32 r1, [ai]; ld.u32 r2, [ai+4]; call (r3, r4), both, (r1, r2); st.v2.u32 [ao], {r3, r4};",
            (3, 4), (7, 12),
            ".func (.reg.u32 sum, .reg.u32 product) both(.reg.u32 x, .reg.u32 y)"
            "{ add.u32 sum, x, y; mul.lo.u32 product, x, y; ret; }", "sm_30", "6.5"),
    Program("a call takes numbers and gives predicates",
            "call (r2, p0), next, (41); st.u32 [ao], r2; @p0 st.u32 [ao+4], 123;", (0,), (42, 123),
            ".func (.reg .u32 a, .reg .pred b) next(.reg .u32 x) { add.u32 a, x, 1; setp.eq.u32 b, 0, 0; ret; }"),
    Program("registers may look like hexadecimal digits in the list of a call",
            "ld.u64 d0, [ai]; call put, (d0); ld.shared.u64 d1, [dyn]; st.u64 [ao], d1;", (5, 6), (5, 6),
            ".extern .shared .align 8 .b8 dyn[]; .func put(.reg .u64 x) { st.shared.u64 [dyn], x; ret; }"),
    Program("a call through a pointer knows its targets",
            "ld.u32 r1, [ai]; mul.wide.u32 d0, r1, 8; mov.u64 d1, table; add.u64 d1, d1, d0; ld.global.u64 d2, [d1];"
            "T: .calltargets one, two; call (r0), d2, (r1), T; st.u32 [ao], r0;", (1,), (101,),
            ".func (.reg .u32 o) one(.reg .u32 i) { add.u32 o, i, 10; ret; }"
            ".func (.reg .u32 o) two(.reg .u32 i) { add.u32 o, i, 100; ret; } .global .u64 table[2] = {one, two};"),
    Program("addresses stand among initial values, nested and with offsets",
            "ld.global.u64 d0, [t+32]; ld.global.u32 r0, [d0+8]; ld.global.u64 d1, [g+8]; ld.u32 r1, [d1];"
            "st.v2.u32 [ao], {r0, r1};", (0,), (3, 2),
            ".global .u32 a[4][2] = {{-1, 2}, {3}}; .global .u64 t[4][2] = {{-1, 2}, {3}, {a}};"
            ".global .u64 g[2] = {generic(a), generic(a)+4};"),
    Program("a mask takes one byte of an address",
            "ld.global.u8 r0, [m]; ld.global.u8 r1, [m+1]; mov.b32 r3, 256; mad.lo.u32 r0, r1, r3, r0; mov.u64 d0, a;"
            "cvt.u32.u64 r2, d0; and.b32 r2, r2, 0xffff; sub.u32 r0, r0, r2; st.u32 [ao], r0;", (0,), (0,),
            ".global .u32 a[4]; .global .u8 m[] = {0xff(a), 0xFF00(a)};", version="7.1"),
    Program("a variable of a body has its initial value",
            ".global .b32 from[4] = {1, 2, 3, 4}; ld.global.u32 r0, [from+8]; st.u32 [ao], r0;", (0,), (3,)),
    Program("a constant may stand in a bank", "ld.const.u32 r0, [c]; st.u32 [ao], r0;", (0,), (3,),
            ".const[2] .u32 c = 3;", "sm_20", "2.0"),
    Program("a vector register is moved, loaded and stored by its name",
            ".reg .v4 .u32 v, w; ld.v4.u32 v, [ai]; mov.v4.u32 w, v; mov.u32 w.y, 9; st.v4.u32 [ao], w;"
            "add.u32 r0, v.r, v.a; st.u32 [ao], r0;", (1, 2, 3, 4), (5, 9, 3, 4), "", "sm_50", "6.5"),
    Program("vectors are moved at once",
            "mov.u32 r0, 1; mov.u32 r1, 2; mov.v2.u32 {r0, r1}, {r1, r0}; st.v2.u32 [ao], {r0, r1};", (0,), (2, 1)),
    Program("%tid is a vector of four",
            ".reg .v4 .u32 v; mov.v4.u32 v, %tid; mad.wide.u32 d0, v.x, 4, ao; st.u32 [d0], v.x;", (0,),
            tuple(range(32)), "", "sm_30", "6.5", 32),
    Program("registers of 128 bits are loaded, moved and stored",
            ".reg .b128 q; ld.global.b128 q, [ai]; mov.b128 {d0, d1}, q; mov.b128 q, {d1, d0}; st.global.b128 [ao], q;",
            (1, 2, 3, 4), (3, 4, 1, 2)),
    Program("atomics work on 128 bits",
            ".reg .b128 q, w, z; ld.b128 q, [ai]; mov.u64 d0, 5; mov.u64 d1, 6; mov.b128 w, {d0, d1};"
            "atom.exch.b128 z, [ai], w; atom.global.cas.b128 z, [ai], w, q; st.b128 [ao], z;",
            (1, 2, 3, 4), (5, 0, 6, 0)),
    Program("the carry goes from one instruction to the next",
            "ld.u32 r1, [ai]; add.cc.u32 r2, r1, 1; addc.cc.u32 r3, r1, 0; addc.u32 r4, 0, 0; sub.cc.u32 r5, 0, 1;"
            "subc.u32 r6, 0, 0; st.v4.u32 [ao], {r2, r3, r4, r6};", (0xFFFFFFFF,), (0, 0, 1, 0xFFFFFFFF)),
    Program("products carry", "mad.lo.cc.u32 r1, -1, 2, 3; madc.hi.u32 r2, -1, 2, 0; st.v2.u32 [ao], {r1, r2};",
            (0,), (1, 2)),
    Program("an address is told apart by its memory",
            "cvta.const.u64 d0, c; isspacep.const p0, d0; isspacep.global p1, d0; cvta.param.u64 d1, input;"
            "isspacep.param p2, d1; isspacep.global p3, ao; selp.u32 r0, 1, 0, p0; @p1 or.b32 r0, r0, 2;"
            "@p2 or.b32 r0, r0, 4; @p3 or.b32 r0, r0, 8; st.u32 [ao], r0;", (0,), (13,), ".const .u32 c = 3;"),
    Program("atomics take a shared variable by its name",
            ".shared .u32 s; st.shared.u32 [s], 5; atom.shared.add.u32 r0, [s], 3;"
            "atom.shared::cta.cas.b32 r1, [s], 8, 1;"
            "ld.shared.u32 r2, [s]; st.v2.u32 [ao], {r0, r1}; st.u32 [ao+8], r2;", (0,), (5, 8, 1)),
    Program("cp.async copies as many bytes as it says, and zeros behind them",
            ".shared .align 16 .b32 to[4]; cp.async.ca.shared.global [to], [ai], 16, 12; cp.async.wait_all;"
            "ld.shared.v4.u32 {r0, r1, r2, r3}, [to]; st.v4.u32 [ao], {r0, r1, r2, r3};", (1, 2, 3, 4), (1, 2, 3, 0)),
    Program("lop3 tells whether a bit is set",
            "setp.eq.u32 p1, 0, 1; lop3.or.b32 r0|p0, 5, 3, 0, 0xc0, p1; lop3.and.b32 _|p2, 4, 3, 0, 0xc0, !p1;"
            "selp.u32 r1, 1, 0, p0; selp.u32 r2, 1, 0, p2; st.v2.u32 [ao], {r0, r1}; st.u32 [ao+8], r2;",
            (0,), (1, 1, 0)),
    Program("video instructions take parts of registers, and a second operation",
            "ld.v2.u32 {r1, r2}, [ai]; vadd.u32.u32.s32.sat r3, r1.b1, r2.h0; vmin.u32.u32.u32 r4.b2, 5, 3, -1;"
            "vmax.s32.s32.s32.max r5, -5, 3, 9; vmad.s32.s32.s32 r6, -r2, r2, 7; st.v4.u32 [ao], {r3, r4, r5, r6};",
            (0xFE00, 0xFFFF), (0xFD, 0xFF03FFFF, 9, 0x20006), target="sm_30", version="6.5"),
    Program("min takes three numbers, and the number of operands tells",
            "ld.v2.f32 {f0, f1}, [ai]; min.f32 f2, f0, f1, 0fC1000000; max.f32 f3, f0, f1; st.v2.f32 [ao], {f2, f3};",
            (0x3F800000, 0x40000000), (0xC1000000, 0x40000000), target="sm_100a", version="8.8"),
    Program("votes and shuffles had no mask before sm_70",
            "mov.u32 r3, %tid.x; setp.lt.u32 p0, r3, 5; vote.ballot.b32 r1, p0; shfl.bfly.b32 r2|p1, r3, 1, 31;"
            "add.u32 r1, r1, r2; mad.wide.u32 d0, r3, 4, ao; st.u32 [d0], r1;", (0,),
            tuple(31 + (lane ^ 1) for lane in range(32)), "", "sm_30", "6.0", 32),
    Program("a barrier counts, and tells whether all or any hold",
            "mov.u32 r3, %tid.x; setp.lt.u32 p0, r3, 10; bar.red.popc.u32 r1, 0, p0; bar.red.and.pred p1, 0, p0;"
            "barrier.cta.red.or.pred.aligned p2, 1, 64, !p0; selp.u32 r4, 100, 0, p1; selp.u32 r5, 1000, 0, p2;"
            "add.u32 r1, r1, r4; add.u32 r1, r1, r5; mad.wide.u32 d0, r3, 4, ao; st.u32 [d0], r1;", (0,),
            (1010,) * 64, block=64),
    Program("accesses of 128 bits have an order",
            ".reg .b128 q; ld.relaxed.gpu.global.b128 q, [ai]; st.release.gpu.global.b128 [ao], q;",
            (1, 2, 3, 4), (1, 2, 3, 4)),
    Program("video instructions on parts take parts of both operands, and leave others as they are",
            "ld.v2.u32 {r1, r2}, [ai]; vadd2.u32.u32.u32 r3, r1.h30, r2.h21, 0; vadd4.u32.u32.u32 r4.b20, r1, r2, -1;"
            "vavrg4.u32.u32.u32 r5.b3210, r1.b0123, r2, 0; st.v4.u32 [ao], {r3, r4, r5, r5};",
            (0x00010002, 0x00030004), (0x00070003, 0xFF04FF06, 0x01020102, 0x01020102), target="sm_30", version="6.5"),
    Program("an offset is a constant expression, in octal too",
            "ld.global.u32 r0, [ai+4*2-010]; ld.global.u32 r1, [ai + (1 << 2)]; st.u32 [ao+WARP_SZ-28], r0;"
            "st.u32 [ao+0U], r1;", (5, 6), (6, 5)),
    Program("an element of an array is an operand, as its address or as what lies there",
            ".global .v2 .u32 g[3] = {1, 2, 3, 4, 5, 6}; mov.u64 d0, g[1]; ld.global.u32 r0, g[2];"
            "ld.global.u32 r1, [d0+4]; st.v2.u32 [ao], {r0, r1};", (0,), (5, 4)),
    Program("constant expressions have the types of PTX, and floats",
            "mov.f32 f0, 1.5*2.0-0.5; st.f32 [ao], f0; mov.u32 r0, (-1/2U)>>60;"
            "mov.u32 r1, (~0>>1)==0x7fffffffffffffff;"
            "mov.u32 r2, (.s64)-1<(.u64)1; mov.b32 r3, -7%4U; st.u32 [ao+4], r0; st.u32 [ao+8], r1;"
            "st.u32 [ao+12], r2; st.u32 [ao+16], r3;", (0,), (0x40200000, 7, 1, 0, 1)),
    Program("the type of an access may stand before its space and its vector",
            "ld.u32.global.v2 {r0, r1}, [ai]; st.u32.v2.global [ao], {r1, r0};", (3, 4), (4, 3)),
    Program("four registers of 32 bits are one of 128",
            ".reg .b128 q; ld.v4.u32 {r0, r1, r2, r3}, [ai]; mov.b128 q, {r3, r2, r1, r0};"
            "mov.b128 {r4, r5, r6, r7}, q; st.v4.u32 [ao], {r4, r5, r6, r7};", (1, 2, 3, 4), (4, 3, 2, 1)),
    Program("an alias stands for its function",
            "{ .param .b32 x; call (x), other; ld.param.b32 r0, [x]; st.u32 [ao], r0; }", (0,), (7,),
            ".visible .func (.param .b32 r) one() { st.param.b32 [r], 7; ret; }"
            ".visible .func (.param .b32 r) other(); .alias other, one;"),
    Program("attributes nest, and stand before functions, too",
            "ld.global.u32 r0, [m]; call one; st.u32 [ao], r0;", (0,), (5,),
            ".global .attribute(.managed, .unified(1, 2)) .align 8 .u32 m = 5;"
            ".func .attribute(.unified(0xAB, 0xCD)) one() { ret; }"),
    Program("variables of the module in local memory are each thread's own",
            "mov.u32 r0, %tid.x; st.local.u32 [own+4], r0; ld.local.u32 r1, [own+4]; mad.wide.u32 d0, r0, 4, ao;"
            "st.u32 [d0], r1;", (0,), tuple(range(32)), ".local .align 4 .b8 own[8];", block=32),
    Program("the numbers of CTAs in a cluster are vectors of four, too",
            "mov.v4.u32 {r0, r1, r2, r3}, %cluster_nctaid; mov.u32 r4, %clusterid.w; st.v4.u32 [ao], {r0, r1, r2, r3};"
            "st.u32 [ao+16], r4;", (0,), (1, 1, 1, 0, 0)),
    Program("a fence may say no more than its scope, and lanes that are apart may arrive at a barrier",
            "mov.u32 r3, %tid.x; fence.gpu; fence.cta; setp.lt.u32 p0, r3, 32; @p0 bra FIRST; barrier.sync 1, 64;"
            "ld.shared.u32 r0, [dyn]; st.u32 [ao], r0; bra DONE; FIRST: st.shared.u32 [dyn], 9; barrier.arrive 1, 64;"
            "DONE:", (0,), (9,), ".extern .shared .b8 dyn[];", block=64),
    Program("a barrier's number and its count may be in registers",
            "mov.u32 r4, %tid.x; setp.lt.u32 p0, r4, 32; @p0 bra FIRST; mov.u32 r4, 5; mov.u32 r5, 64;"
            "barrier.sync r4, r5; ld.shared.u32 r0, [dyn]; st.u32 [ao], r0; bra DONE;"
            "FIRST: st.shared.u32 [dyn], 9; mov.u32 r4, 5; barrier.arrive r4, 64;"
            "DONE:", (0,), (9,), ".extern .shared .b8 dyn[];", block=64),
    Program("a comparison may give halves",
            "ld.v2.u32 {r1, r2}, [ai]; set.lt.f16.s32 h0, r1, r2; set.gt.bf16.u32 h1, r1, r2;"
            "mov.b32 r0, {h0, h1}; st.u32 [ao], r0;", (-1, 1), (0x3F803C00,)),
    Program("integers are packed to fewer than 8 bits",
            "mov.u32 r1, 100; mov.u32 r2, -3; cvt.pack.sat.u4.s32.b32 r3, r1, r2, 0x12;"
            "cvt.pack.sat.s2.s32.b32 r4, r2, 1, 1;"
            "st.v2.u32 [ao], {r3, r4};", (0,), (0x12F0, 0x19)),
    Program("special registers that no value shows are numbers",
            "mov.u32 r0, %pm0; mov.u64 d0, %pm1_64; mov.b32 r1, %envreg0; mov.b32 r1, %reserved_smem_offset_1;"
            "mov.u32 r2, %lanemask_le; st.u32 [ao], r2;", (0,), (1,)),
    Program("vectors of registers are arguments and results",
            "ld.v2.u32 pair, [ai]; call (pair), turned, (pair); mov.b64 d0, pair; st.u64 [ao], d0;", (3, 4), (4, 7),
            ".func (.reg .v2 .u32 out) turned(.reg .v2 .u32 in)"
            "{ .reg .v2 .u32 t; mov.u32 t.x, in.y; add.u32 t.y, in.x, in.y; mov.v2.u32 out, t; ret; }"),
    Program("vectors of registers go through a function that calls itself",
            "ld.v2.u32 pair, [ai]; call (pair), down, (pair); st.v2.u32 [ao], pair;", (3, 4), (0, 7),
            ".func (.reg .v2 .u32 out) down(.reg .v2 .u32 in) { .reg .pred q; mov.v2.u32 out, in;"
            "setp.eq.u32 q, in.x, 0; @q ret; sub.u32 in.x, in.x, 1; add.u32 in.y, in.y, 1;"
            "call (out), down, (in); ret; }"),
    Program("what a difference borrows is a carry that is not set",
            "sub.cc.u32 r0, 0, 1; addc.u32 r1, 0, 0; subc.u32 r2, 2, 0; sub.cc.u32 r0, 1, 1; addc.u32 r3, 0, 0;"
            "add.cc.u32 r0, -1, 1; subc.cc.u32 r4, 2, 0; madc.lo.u32 r5, 0, 0, 0; st.v4.u32 [ao], {r1, r2, r3, r4};"
            "st.u32 [ao+16], r5;", (0,), (0, 1, 1, 2, 1)),
    Program("a register and a number are a value",
            "ld.u32 r0, [ai]; st.u32 [ao], r0 + 4; add.u32 r1, r0-1, 0; st.u32 [ao+4], r1;", (5,), (9, 4)),
    Program("words go through tensor memory",
            "mov.u32 r0, %tid.x; setp.lt.u32 p0, r0, 32; @!p0 bra HAS; mov.u32 r1, dyn;"
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], 32; HAS: bar.sync 0;"
            "ld.shared.u32 r2, [dyn]; and.b32 r3, r0, 96; shl.b32 r3, r3, 16; add.u32 r3, r2, r3;"
            "tcgen05.st.sync.aligned.32x32b.x1.b32 [r3+4], {r0}; tcgen05.wait::st.sync.aligned;"
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r4}, [r3 + 4]; tcgen05.wait::ld.sync.aligned;"
            "mad.wide.u32 d0, r0, 4, ao; st.u32 [d0], r4; bar.sync 0;"
            "@p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 r2, 32;",
            (0,), tuple(range(128)), ".extern .shared .align 4 .b8 dyn[];", "sm_100a", block=128),
    Program("matrices are loaded and stored by generic addresses, too",
            "mov.u32 r0, %laneid; shl.b32 r1, r0, 4; mov.u64 d0, dyn; cvta.shared.u64 d0, d0; cvt.u64.u32 d1, r1;"
            "add.u64 d1, d0, d1; mul.wide.u32 d2, r0, 4; add.u64 d2, d0, d2; st.u32 [d2], r0; bar.warp.sync -1;"
            "ldmatrix.sync.aligned.m8n8.x1.b16 {r2}, [d1]; bar.warp.sync -1;"
            "stmatrix.sync.aligned.m8n8.x1.trans.b16 [d1+128], {r2}; bar.warp.sync -1; ld.u32 r3, [d2+128];"
            "mul.wide.u32 d3, r0, 4; add.u64 d3, ao, d3; st.u32 [d3], r3;",
            (0,), TRANSPOSED, ".extern .shared .align 16 .b8 dyn[];", block=32),
    Program("bytes that an m-barrier expects need no scope",
            "mov.u32 r1, dyn; mbarrier.init.shared.b64 [r1], 1; mbarrier.expect_tx.shared::cta.b64 [r1], 8;"
            "mbarrier.arrive.shared.b64 d0, [r1]; mbarrier.test_wait.shared.b64 p0, [r1], d0;"
            "mbarrier.complete_tx.shared::cta.b64 [r1], 8; mbarrier.test_wait.shared.b64 p1, [r1], d0;"
            "selp.u32 r2, 1, 0, p0; selp.u32 r3, 1, 0, p1; st.v2.u32 [ao], {r2, r3};",
            (0,), (0, 1), ".extern .shared .align 8 .b8 dyn[];"),
    Program("texts for sm_1x leave out how they round",
            "ld.f32 f1, [ai]; mad.f32 f2, f1, f1, f1; div.f32 f3, f2, f1; rcp.f32 f4, f1; sqrt.f32 f5, f1;"
            "st.v4.f32 [ao], {f2, f3, f4, f5};", (0x40800000,), (0x41A00000, 0x40A00000, 0x3E800000, 0x40000000),
            target="sm_13", version="1.4"),
)  # fmt: skip
