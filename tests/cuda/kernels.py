"""Small lowered kernels, built by hand: what the emitter's tests emit, assemble and keep as golden texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.sim.build import flat, get, lowered, parameter, run, store
from tilewright import isa
from tilewright.dtypes import BOOL, HANDLE, DType, dtype
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Attr,
    Binary,
    Bind,
    Break,
    Buffer,
    Cast,
    Continue,
    DeclBuffer,
    Expr,
    For,
    If,
    Kernel,
    Launch,
    Select,
    Unary,
    Var,
    While,
    as_expr,
    special,
)

LANE, TID = special("laneid"), special("tid")
NAMES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 tf32 float64 float8_e4m3fn float8_e5m2
float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn
"""
SCALARS = tuple(map(dtype, NAMES.split()))
ARITHMETIC = Binary.ARITHMETIC
WRITTEN_DIV = tuple(op for op in ARITHMETIC if op != "/")


def comment(text: str) -> Attr:
    return Attr((("comment", text),))


def mapped(name: str, inputs: Sequence[str], *values: Callable[..., Expr]) -> Kernel:
    """``out_k[tid] = value_k(a[tid], b[tid] ...)`` for each of ``values``; one thread an element."""
    sources = [parameter(letter, kind) for letter, kind in zip("abc", inputs, strict=False)]
    loads = [get(source, TID) for source in sources]
    results = [value(*loads) for value in values]
    outs = [parameter(f"out_{i}", result.dtype) for i, result in enumerate(results)]
    stores = (store(out, TID, result) for out, result in zip(outs, results, strict=True))
    return lowered(name, (*sources, *outs), stores, launch=Launch((1, 1, 1), 256))


def operators(kind: DType) -> list[Callable[[Expr, Expr], Expr]]:
    """Every binary operator that ``kind`` has, as functions of two expressions."""
    ops = Binary.COMPARISONS
    if kind.is_float:
        ops = (*ARITHMETIC, *ops)
    elif kind.is_integer:
        ops = (*WRITTEN_DIV, *Binary.BITS, *ops)
    else:
        ops = ("&", "|", "^", "and", "or", *ops)
    return [lambda a, b, op=op: Binary(op, a, b, BOOL if op in Binary.COMPARISONS else kind) for op in ops]  # type: ignore[misc]


def signs(kind: DType) -> list[Callable[[Expr], Expr]]:
    """Every unary operator that ``kind`` has."""
    ops = ("-",) if kind.is_float else ("-", "~") if kind.is_integer else ("not",)
    return [lambda a, op=op: Unary(op, a, kind) for op in ops]  # type: ignore[misc]


def casts(kind: DType) -> list[Callable[[Expr], Expr]]:
    """To every other dtype."""
    return [lambda a, to=to: Cast(a, to) for to in SCALARS if to != kind]  # type: ignore[misc]


# Whole kernels, by name; `CORPUS` gives the first architecture that has them.


def ldmatrix_tile(num: int = 2, *, trans: bool = False) -> Kernel:
    """Rows of 16 bytes go to shared memory, matrices from there to registers, registers to global memory."""
    count = 64 * num
    a, b = parameter("A", "float16", count), parameter("B", "float16", count)
    tile, fragment = flat("A_smem", "float16", count, "shared"), flat("R", "float16", 2 * num, "local")
    outer, i = Var("outer"), Var("i")
    pointer = Var("smem_ptr", HANDLE)
    registers = [fragment.ptr_to([outer * 2 * num + 2 * r]) for r in range(num)]
    return lowered(
        "ldmatrix_tile",
        (a, b),
        (
            AllocBuffer(tile, 0),
            AllocBuffer(fragment),
            If(8 * num > LANE, (run("cuda.copy_bytes", tile.ptr_to([LANE * 8]), a.ptr_to([LANE * 8]), 16),)),
            run("cuda.cta_sync"),
            comment("copy/ldstmatrix: stage.py:21"),
            Bind(pointer, tile.ptr_to([LANE % (8 * num) * 8]), mutable=False),
            For(
                outer, as_expr(0), as_expr(1), (run("ptx.ldmatrix", trans, num, ".b16", pointer, *registers),), "unroll"
            ),
            For(i, as_expr(0), as_expr(2 * num), (store(b, LANE * (2 * num) + i, get(fragment, i)),)),
        ),
        launch=Launch((1, 1, 1), 32, shared_bytes=2 * count),
    )


def stmatrix_tile(num: int = 4, *, trans: bool = True) -> Kernel:
    """Registers to shared memory as matrices, and from there out in rows."""
    count = 64 * num
    a, b = parameter("A", "float16", count), parameter("B", "float16", count)
    tile, fragment = flat("B_smem", "float16", count, "shared"), flat("R", "float16", 2 * num, "local")
    registers = [fragment.ptr_to([2 * r]) for r in range(num)]
    return lowered(
        "stmatrix_tile",
        (a, b),
        (
            AllocBuffer(tile, 0),
            AllocBuffer(fragment),
            run("cuda.copy_bytes", AddressOf(fragment), a.ptr_to([LANE * (2 * num)]), 4 * num),
            comment("copy/ldstmatrix: stage.py:30"),
            run("ptx.stmatrix", trans, num, ".b16", tile.ptr_to([LANE % (8 * num) * 8]), *registers),
            run("cuda.warp_sync"),
            run("cuda.copy_bytes", b.ptr_to([LANE * (2 * num)]), tile.ptr_to([LANE * (2 * num)]), 4 * num),
        ),
        launch=Launch((1, 1, 1), 32, shared_bytes=2 * count),
    )


def register_copy(nbytes: int = 16) -> Kernel:
    """Global to shared to registers and back, ``nbytes`` at a time, in serial loops."""
    vector = nbytes // 4
    a, b = parameter("A", "float32", 32 * 2 * vector), parameter("B", "float32", 32 * 2 * vector)
    rows, mine = flat("A_smem", "float32", 32 * 2 * vector, "shared"), flat("R", "float32", 2 * vector, "local")
    f, g, h = Var("f"), Var("g"), Var("h")
    start, row = LANE * vector, 32 * vector

    def moved(loop: Var, target: Buffer, to: Expr, source: Buffer, at: Expr) -> For:
        move = run("cuda.copy_bytes", target.ptr_to([to]), source.ptr_to([at]), nbytes)
        return For(loop, as_expr(0), as_expr(2), (move,))

    return lowered(
        "register_copy",
        (a, b),
        (
            AllocBuffer(rows, 0),
            AllocBuffer(mine),
            moved(f, rows, start + f * row, a, start + f * row),
            run("cuda.warp_sync"),
            comment("copy/reg: reg.py:12"),
            moved(g, mine, g * vector, rows, start + g * row),
            moved(h, b, start + h * row, mine, h * vector),
        ),
        launch=Launch((1, 1, 1), 32, shared_bytes=32 * 2 * vector * 4),
    )


def axpy() -> Kernel:
    """A grid over a symbolic extent; a guarded load."""
    n = Var("n")
    x = Buffer("x", dtype("float32"), (n,), "global", None, Var("x_ptr", HANDLE))
    y = Buffer("y", dtype("float32"), (n,), "global", None, Var("y_ptr", HANDLE))
    scale, i = Var("scale", dtype("float32")), Var("i")
    value = Select(i < n, get(x, i), as_expr(0.0, dtype("float32")), dtype("float32"))
    return lowered(
        "axpy",
        (x, y),
        (
            Bind(i, special("ctaid.x") * 256 + TID, mutable=False),
            If(i < n, (store(y, i, value * scale + get(y, i)),)),
        ),
        scalars=(scale,),
        symbols=(n,),
        launch=Launch(((n + 255) // 256, 1, 1), 256, min_blocks_per_sm=4),
    )


def control() -> Kernel:
    """Every statement that steers: loops up and down, while, break, continue, else if, a bound that changes."""
    a, out = parameter("a", "int32"), parameter("out", "int32")
    total, limit, i, j, k = Var("total"), Var("limit"), Var("i"), Var("j"), Var("k")
    return lowered(
        "control",
        (a, out),
        (
            Bind(total, as_expr(0)),
            Bind(limit, get(a, 0)),
            For(i, as_expr(0), limit, (Assign(limit, limit - 1), Assign(total, total + get(a, i)))),
            For(j, as_expr(9), as_expr(-1), (If(get(a, j) == 7, (Continue(),)), Assign(total, total + j)), step=-3),
            For(k, as_expr(0), as_expr(8), (If(get(a, k) < 0, (Break(),)),), kind="unroll", step=2),
            While(total > 100, (Assign(total, total // 2), If(total % 3 == 0, (Break(),)))),
            If(
                total < 0,
                (store(out, TID, -1),),
                (If(Binary("and", total < 10, TID != 0, BOOL), (store(out, TID, 0),), (store(out, TID, total),)),),
            ),
            run("printf", 'total of "%d" is %d\n', TID, total),
        ),
    )


def pointers() -> Kernel:
    """Pointers as values: bound, moved by bytes, compared, cast; views of other dtypes."""
    a, out = parameter("a", "float16"), parameter("out", "uint64")
    tile, mine = flat("tile", "float16", 256, "shared"), flat("mine", "float16", 8, "local")
    p, q = Var("p", HANDLE), Var("q", HANDLE)
    words = flat("words", "uint32", 128, "shared", tile.ptr_to([as_expr(0)]))
    raw = flat("raw", "uint32", 4, "global", p)
    pairs = flat("pairs", "uint32", 4, "local", AddressOf(mine))
    i = Var("i")
    return lowered(
        "pointers",
        (a, out),
        (
            AllocBuffer(tile, 1024),
            AllocBuffer(mine),
            Bind(p, a.ptr_to([TID * 2])),
            Assign(p, p + 64),
            Bind(q, Select(p == q_null(), tile.pointer, p, HANDLE), mutable=False),
            DeclBuffer(words),
            DeclBuffer(raw),
            DeclBuffer(pairs),
            store(words, TID, get(raw, 0)),
            For(i, as_expr(0), as_expr(4), (store(pairs, i, get(words, i)),)),
            store(out, TID, Cast(q, dtype("uint64")) + Cast(Cast(get(mine, 3), dtype("int32")), dtype("uint64"))),
        ),
        launch=Launch((1, 1, 1), 32, shared_bytes=2048),
    )


def q_null() -> Expr:
    return as_expr(0, HANDLE)


def nibbles() -> Kernel:
    """4-bit elements: loads, stores, addresses and registers, two elements a byte."""
    a, out = parameter("a", "float4_e2m1fn"), parameter("out", "float4_e2m1fn")
    mine, i = flat("mine", "float4_e2m1fn", 32, "local"), Var("i")
    return lowered(
        "nibbles",
        (a, out),
        (
            AllocBuffer(mine),
            run("cuda.copy_bytes", AddressOf(mine), a.ptr_to([TID * 32]), 16),
            For(i, as_expr(0), as_expr(32), (store(mine, i, get(mine, i) + 0.5),)),
            run("cuda.copy_bytes", out.ptr_to([TID * 32]), AddressOf(mine), 16),
        ),
    )


def warp_talk() -> Kernel:
    """Shuffles and votes of several dtypes; atomics and mathematics."""
    a, h, out, bits = (
        parameter("a", "float32"),
        parameter("h", "float16"),
        parameter("out", "float32"),
        parameter("bits", "uint32"),
    )
    x, y = Var("x", dtype("float32")), Var("y", dtype("float16"))
    return lowered(
        "warp_talk",
        (a, h, out, bits),
        (
            Bind(x, isa.call("exp", get(a, TID))),
            Bind(y, isa.call("fma", get(h, TID), get(h, TID), get(h, 0))),
            Assign(x, x + isa.call("cuda.shfl_xor_sync", 0xFFFFFFFF, x, 16)),
            Assign(y, isa.call("cuda.shfl_down_sync", 0xFFFFFFFF, y, 1)),
            store(bits, TID, isa.call("cuda.ballot_sync", 0xFFFFFFFF, x > 1.0)),
            run("cuda.atomic_add", out.ptr_to([as_expr(0)]), x),
            store(out, TID + 1, isa.call("sqrt", Cast(y, dtype("float32")))),
            run("cuda.thread_fence"),
        ),
    )


def barriers() -> Kernel:
    """Named barriers of part of a CTA."""
    out = parameter("out", "int32")
    return lowered(
        "barriers",
        (out,),
        (
            If(special("warpid") < 4, (run("cuda.warpgroup_sync", 1),)),
            If(special("warpid") == 4, (run("ptx.bar.arrive", 2, 64),), (run("ptx.bar.sync", 2, 64),)),
            run("cuda.cta_sync"),
            store(out, TID, TID),
        ),
        launch=Launch((1, 1, 1), 192),
    )


def cluster() -> Kernel:
    """Clusters of two CTAs, one elected lane, and more shared memory than a CTA has without asking."""
    out = parameter("out", "int32")
    tile = flat("tile", "int32", 16384, "shared.dyn")
    return lowered(
        "cluster",
        (out,),
        (
            AllocBuffer(tile, 0),
            store(tile, TID, special("cluster_ctarank") + special("cluster_ctaid.y")),
            run("cuda.cluster_sync"),
            If(isa.call("ptx.elect.sync", out="p"), (store(out, special("clusterid.x"), get(tile, TID)),)),
        ),
        launch=Launch((4, 1, 1), 64, cluster=(2, 1, 1), shared_bytes=65536),
    )


def awkward_names() -> Kernel:
    """Names that C++, CUDA or the text itself already have."""
    double, smem = parameter("double", "float16"), parameter("smem", "float16")
    tile = flat("threadIdx", "float16", 32, "shared")
    tid, helper = Var("tid"), Var("add_float16")
    return lowered(
        "main",
        (double, smem),
        (
            AllocBuffer(tile, 0),
            Bind(tid, TID * 2, mutable=False),
            Bind(helper, as_expr(3), mutable=False),
            Bind(Var("λ"), as_expr(4), mutable=False),
            Bind(Var("expf", dtype("float32")), isa.call("exp", Cast(tid, dtype("float32")))),
            store(tile, TID, get(double, tid) + 1.0),
            store(smem, tid + helper, get(tile, TID)),
        ),
        launch=Launch((1, 1, 1), 32, shared_bytes=64),
    )


CORPUS: dict[str, tuple[str, Callable[[], Kernel]]] = {
    "ldmatrix_x1": ("sm_75", lambda: ldmatrix_tile(1)),
    "ldmatrix_x2_trans": ("sm_75", lambda: ldmatrix_tile(2, trans=True)),
    "ldmatrix_x4": ("sm_75", lambda: ldmatrix_tile(4)),
    "stmatrix_x1": ("sm_90", lambda: stmatrix_tile(1)),
    "stmatrix_x4_trans": ("sm_90", stmatrix_tile),
    **{f"register_copy_{n}": ("sm_75", lambda n=n: register_copy(n)) for n in (4, 8, 16)},  # type: ignore[misc]
    "register_copy_32": ("sm_100", lambda: register_copy(32)),
    "axpy": ("sm_75", axpy),
    "control": ("sm_75", control),
    "pointers": ("sm_75", pointers),
    "nibbles": ("sm_75", nibbles),
    "warp_talk": ("sm_75", warp_talk),
    "barriers": ("sm_75", barriers),
    "cluster": ("sm_90", cluster),
    "awkward_names": ("sm_75", awkward_names),
}
