"""PTX texts that tests share: bodies in both dialects, and a module with every declaration."""

from __future__ import annotations

__all__ = ["IN_BODY", "MODULE", "module"]


def module(body: str) -> str:
    """A module of one entry with this body, which begins in line 2."""
    return (
        f".version 8.7 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a, .param .u32 n) {{\n{body}\n}}\n"
    )


IN_BODY = (
    ".reg .pred %p<2>; .reg .f32 %f<9>; .reg .v4 .f32 %v; .reg .b64 x, y;",
    ".shared .align 16 .b8 tile[1024]; .local .align 8 .b8 depot[16]; .extern .shared .align 16 .b8 dyn[];",
    "atom.global.cta.add.u32 %r1, [%rd1], 1; atom.add.release.gpu.u32 %r1, [%rd1+4], %r2;",
    "st.shared::cta.v2.f32 [%r1], {%f1, %f2}; mov.b32 {%rs1, %rs2}, %r1;",
    "setp.lt.and.f32 %p1|%p2, %f1, %f2, !%p3; @!%p1 st.global.u32 [%rd1+-4], 7;",
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1; elect.sync _|%p1, 0xffffffff;",
    "{ .reg .b32 temp_param_reg; .param .b64 param0; st.param.b64 [param0], %rd1; .param .b32 retval0;"
    " call.uni (retval0), f, (param0); ld.param.b32 %r1, [retval0]; }",
    "prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _); call (r), %rd1, (p), prototype_0;",
    "table: .branchtargets L0, L1; brx.idx %r1, table; L0: ret; L1: exit;",
    ".loc 1 5 3\n.loc 2 7 9, function_name $L__info_string0, inlined_at 1 5 3\nmov.u32 %r1, %tid.x;",
    '.pragma "nounroll"; mov.f64 %fd1, 0d3FF0000000000000; mov.f32 %f1, 0f3F800000; fma.rn.f32 %f1, %f1, -1.5, %f2;',
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
    "mov.u64 %rd1, tile+16; ld.global.u32 %r1, [64]; vadd.s32.s32.s32 %r1, -%r2.b0, %r3.h1;",
)

MODULE = """
// both dialects
.version 8.7
.target sm_90a
.address_size 64

.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.global .align 1 .b8 $str[4] = {104, 105, 10, 0};
.const .align 4 .b8 table[4] = {0, 0, 128, 63};
.visible .global .align 8 .u64 pointers[2] = {generic(table), f};
.extern .shared .align 16 .b8 dyn[];
.weak .func (.param .b32 retval0) f(.param .b32 x) .noreturn;
.func (.param .b32 retval0) f(.param .b32 x)
{
	.reg .b32 %r<2>;
	ld.param.b32 %r1, [x];
	st.param.b32 [retval0], %r1;
	ret;
}
.visible .entry k(
	.param .u64 .ptr .global .align 16 k_param_0,
	.param .align 4 .b8 k_param_1[24]
)
.maxntid 128, 1, 1
.reqntid 128, 1, 1
.minnctapersm 2
{
	.reg .b32 %r<2>;
	.shared .align 4 .b8 _ZZ1kE1s[128];
	ld.param.u32 %r1, [k_param_1+8];
	ret;
}
	.file	1 "/tmp/k.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,102,0
	}
"""
