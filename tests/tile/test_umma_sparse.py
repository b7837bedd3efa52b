"""gemm_async with a sparse A, kept columns of B, collectors, signs and a scaled D: results, plans, declines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.tile.sparse_kernels import SparseCase, compressed, multiplied
from tilewright import T, Tx
from tilewright.cuda.nvrtc import assemble
from tilewright.errors import SimulationError
from tilewright.layout import (
    S,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    sp_meta_smem_layout,
    sp_meta_tmem_layout,
)

TARGET = "sm_100a"
E4M3, E2M1 = "float8_e4m3fn", "float4_e2m1fn"
DENSE = SparseCase(sparse=False, k=32)
CASES = {
    "bf16": SparseCase(),
    "f16, metadata stored by warps": SparseCase("float16", stored=True),
    "one product, metadata stored": SparseCase(k=32, stored=True),
    "A in tensor memory": SparseCase(through=True),
    "tf32": SparseCase("tf32", k=64),
    "e4m3": SparseCase(E4M3),
    "s8": SparseCase("int8"),
    "mxfp8": SparseCase(E4M3, k=256, block=32),
    "mxfp4": SparseCase(E2M1, k=256, block=32),
    "added": SparseCase(accum=True, keywords=(("negate", True),)),
    "B's columns kept, sparse": SparseCase(ws=True, n=64),
    "B's columns kept": SparseCase(sparse=False, ws=True, n=128, k=32),
    "B's columns kept, 64 rows": SparseCase(sparse=False, ws=True, m=64, n=64, k=32),
    "B's columns kept, 32 rows": SparseCase(sparse=False, ws=True, m=32, n=64, k=32),
    "64 rows, A in tensor memory": SparseCase(sparse=False, ws=True, m=64, n=64, k=32, through=True),
    "32 rows, A in tensor memory": SparseCase(sparse=False, ws=True, m=32, n=64, k=32, through=True),
    "A negated": SparseCase(sparse=False, k=32, keywords=(("negateA", True),)),
    "B negated": SparseCase(sparse=False, k=32, accum=True, keywords=(("negateB", True),)),
    "all negated": SparseCase(keywords=(("negate", True), ("negateA", True), ("negateB", True))),
    "D scaled": SparseCase(sparse=False, k=32, accum=True, keywords=(("scale_input_d", 2),)),
    "D scaled, sparse": SparseCase(accum=True, keywords=(("scale_input_d", 15), ("negateB", True))),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_product_is_right_and_no_check_speaks(case: SparseCase) -> None:
    full, a, b, meta, sa, sb, c = case.inputs()
    wanted = case.wanted(full, b, sa, sb, c)
    compiled = tw.compile(multiplied(case), TARGET if case.kind != E2M1 else "sm_100a")

    run = compiled.simulate(a, b, meta, sa, sb, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, wanted)
    assert "gemm_async/tcgen05" in str(compiled.report)
    assert assemble(compiled.source("cuda"), TARGET).cubin


def text_of(case: SparseCase, target: str = TARGET, stage: str = "cuda") -> str:
    return str(tw.compile(multiplied(case), target).source(stage))


def test_steps_of_k_take_both_columns_of_metadata_by_turns() -> None:
    text = text_of(SparseCase(), stage="lowered")

    assert text.count("T.ptx.tcgen05.mma.sp(") == 4
    assert text.count("encode_instr_descriptor(") == 2  # selector 0 and 1


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("a::fill", ["fill", "use", "use"]),
        ("a::use", ["use", "use", "use"]),
        ("a::lastuse", ["use", "use", "lastuse"]),
        ("a::discard", ["discard"] * 3),
    ],
)
def test_products_of_a_call_share_a_collector(word: str, said: list[str]) -> None:
    text = text_of(SparseCase(sparse=False, n=264, k=16, keywords=(("collector", word),)), stage="lowered")

    assert [part.split('"')[0] for part in text.split('collector="a::')[1:]] == said


def test_kept_columns_have_one_of_four_collectors() -> None:
    text = text_of(SparseCase(sparse=False, ws=True, n=64, k=16, keywords=(("collector", "b2::fill"),)))

    assert "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::fill" in text


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (SparseCase(sparse=False, keywords=(("collector", "a::fill"),)), "8 matrices of A, and a buffer of the tensor"),
        (SparseCase(sparse=False, ws=True, n=64, keywords=(("collector", "b0::use"),)), "8 matrices of B"),
        (SparseCase(sparse=False, keywords=(("collector", "b0::fill"),)), "without ws it is"),
        (SparseCase(sparse=False, ws=True, n=64, keywords=(("collector", "a::fill"),)), "with ws it is"),
        (SparseCase(sparse=False, ws=True, n=32), "N is 32"),
        (SparseCase(ws=True, n=96), "N is 96"),
        (SparseCase(sparse=False, ws=True, n=64, keywords=(("cta_group", 2),)), "half of D's columns"),
        (SparseCase(sparse=False, ws=True, n=64, keywords=(("scale_input_d", 1),)), "scale_input_d=1 and kind f16"),
        (SparseCase(sparse=False, keywords=(("scale_input_d", 16),)), "scale_input_d is 16"),
        (SparseCase(E4M3, keywords=(("scale_input_d", 1),)), "scale_input_d=1 and kind f8f6f4"),
        (SparseCase(E4M3, sparse=False, k=128, block=32, ws=True, n=64), "ws=True and scales"),
        (SparseCase("int8", keywords=(("negateB", True),)), "i8 has no signs"),
    ],
)
def test_a_product_that_does_not_exist_is_declined(case: SparseCase, said: str) -> None:
    with pytest.raises(tw.TilewrightError) as error:
        tw.compile(multiplied(case), TARGET)

    assert said in str(error.value)


@pytest.mark.parametrize(
    ("case", "there", "elsewhere"),
    [
        (SparseCase("int8"), "sm_110a", "sm_103a"),
        (SparseCase(E2M1, k=256, block=32), "sm_103a", "sm_100f"),
        (SparseCase(accum=True, keywords=(("scale_input_d", 1),)), "sm_103a", "sm_110a"),
        (SparseCase(), "sm_110f", "sm_90a"),
    ],
)
def test_a_product_is_refused_where_it_does_not_exist(case: SparseCase, there: str, elsewhere: str) -> None:
    assert assemble(text_of(case, there), there).cubin

    with pytest.raises(tw.TilewrightError, match=r"tcgen05\.\S* exists? on|exists on"):
        tw.compile(multiplied(case), elsewhere)


def declined(kind: str, shape: tuple[int, int], layout: Any, **more: Any) -> Any:
    """Why a call with these metadata does not fit."""
    where, dtype, k = more.get("where", "tmem"), more.get("dtype", "uint8"), more.get("k", 128)

    @T.prim_func
    def one() -> None:
        T.cta_id([1])
        tid = T.thread_id([128])
        A = T.alloc_shared((128, 64), kind, layout=mma_shared_layout(kind, 2, (128, 64)), align=1024)
        B = T.alloc_shared((32, k), kind, layout=mma_shared_layout(kind, 2, (32, k)), align=1024)
        addr = T.alloc_shared([1], "uint32")
        D = T.decl_buffer((128, 32), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=TileLayout(S[(128, 32) : (1 @ TLane, 1 @ TCol)]))  # fmt: skip
        M = T.decl_buffer(shape, dtype, scope="tmem", allocated_addr=addr[0] + 64, layout=layout)
        E = T.alloc_shared(shape, dtype)
        if tid == 0:
            Tx.gemm_async(D, A, B, sp_meta=M if where == "tmem" else E)

    with pytest.raises(tw.TilewrightError) as error:
        tw.compile(one, TARGET)
    return error.value


def test_metadata_that_do_not_fit_are_told_why() -> None:
    right, rows = sp_meta_tmem_layout(128, 16, "bfloat16"), TileLayout(S[(128, 16) : (1 @ TLane, 1 @ TCol)])

    assert "M is in shared memory" not in str(declined("bfloat16", (128, 16), right, where="shared"))
    assert "sp_meta, E, is in shared memory" in str(declined("bfloat16", (128, 16), right, where="shared"))
    assert "metadata have another type" in str(declined("bfloat16", (128, 16), rows, dtype="int8"))
    assert "a sparse A has half of the elements along K" in str(declined("bfloat16", (128, 16), right, k=64))
    wrong = str(declined("bfloat16", (128, 8), TileLayout(S[(128, 8) : (1 @ TLane, 1 @ TCol)])))
    assert "metadata of bfloat16 are a code for each 4 along K, two in a byte" in wrong
    assert "(128, 16)" in wrong
    error = declined("bfloat16", (128, 16), rows)
    assert "M is not in tensor memory as the product takes metadata" in str(error)
    assert 'layout=sp_meta_tmem_layout(128, 16, "bfloat16") for M' in str(error.hint)
    assert 'layout=sp_meta_tmem_layout(128, 16, "float8_e4m3fn")' in str(declined(E4M3, (128, 16), right).hint)


def of_a_pair(k: int = 128, n: int = 64) -> Any:
    """C = A B.T of 256 rows by two CTAs: each has its rows of a sparse A, their metadata, and half of B's columns."""
    nbytes, half = k // 8, n // 2
    layouts = [mma_shared_layout("bfloat16", 3, shape) for shape in ((128, k // 2), (half, k))]

    @T.prim_func
    def product(
        a: T.Buffer((256, k // 2), "bfloat16"), e: T.Buffer((256, nbytes), "uint8"), b: T.Buffer((n, k), "bfloat16"),
        c: T.Buffer((256, n), "float32"),
    ):  # fmt: skip
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((128, k // 2), "bfloat16", layout=layouts[0], align=1024)
        B = T.alloc_shared((half, k), "bfloat16", layout=layouts[1], align=1024)
        E = T.alloc_shared((128, nbytes), "uint8", layout=sp_meta_smem_layout(128, nbytes, "bfloat16"), align=128)
        addr, done, word = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64"), T.alloc_local((n,), "uint32")
        if warp == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=128, cta_group=2)
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A, a[rank * 128 : rank * 128 + 128, :])
        Tx.cta.copy(E, e[rank * 128 : rank * 128 + 128, :])
        Tx.cta.copy(B, b[rank * half : rank * half + half, :])
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        D = T.decl_buffer((128, n), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=TileLayout(S[(128, n) : (1 @ TLane, 1 @ TCol)]))  # fmt: skip
        M = T.decl_buffer((128, nbytes), "uint8", scope="tmem", allocated_addr=addr[0] + n,
                          layout=sp_meta_tmem_layout(128, nbytes, "bfloat16"))  # fmt: skip
        if rank == 0 and tid == 0:
            Tx.copy_async(M, E, cta_group=2)
            Tx.gemm_async(D, A, B, sp_meta=M, cta_group=2)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=2, cta_mask=3)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], word, shape="32x32b", num=n, row=warp * 32)
        T.ptx.tcgen05.wait.ld()
        for j in T.unroll(n):
            c[rank * 128 + tid, j] = T.reinterpret("float32", word[j])
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cluster_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=128, cta_group=2)

    return product


def test_a_pair_multiplies_a_sparse_matrix_by_the_metadata_of_each_cta() -> None:
    full, a, meta = compressed(np.random.default_rng(4), 256, 128, 4)
    b = np.random.default_rng(5).integers(-2, 3, (64, 128))
    c = np.zeros((256, 64), np.float32)
    compiled = tw.compile(of_a_pair(), TARGET)

    run = compiled.simulate(a.astype("bfloat16"), meta, b.astype("bfloat16"), c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, full @ b.T)
    assert "sparse m256n64k32, of a pair" in str(compiled.report)
    assert assemble(compiled.source("cuda"), TARGET).cubin


LISTED = "0b0100, 0b0110, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110"


@pytest.mark.parametrize(
    ("case", "code", "legal"),
    [
        (SparseCase(), 0b0001, LISTED),  # places 1 and 0
        (SparseCase(), 0b1010, LISTED),
        (SparseCase(through=True), 0, LISTED),
        (SparseCase("tf32", k=64), 0b1001, "0b0100, 0b1110"),
        (SparseCase(E4M3), 0b1111, LISTED),
        (SparseCase(E2M1, k=256, block=32), 0b0010, LISTED),
        (SparseCase(ws=True, n=64), 0b0101, LISTED),
    ],
    ids=str,
)
def test_codes_that_the_manual_does_not_list_are_told(case: SparseCase, code: int, legal: str) -> None:
    _, a, b, meta, sa, sb, c = case.inputs()
    meta[37, 1] = meta[37, 1] & 15 | code << 4  # chunk 3

    with pytest.raises(SimulationError, match="metadata that leave its result undefined") as error:
        tw.compile(multiplied(case), TARGET).simulate(a, b, meta, sa, sb, c, check="all")

    assert error.value.allowed == legal
    assert str(error.value.given).startswith(
        f"0b{code:04b} for chunk 3 of row 37 of A, in a product that CTA (0, 0, 0)"
    )


def test_nobody_asks_for_codes_by_default() -> None:
    _, a, b, meta, sa, sb, c = SparseCase().inputs()
    meta[37, 1] = meta[37, 1] & 15 | 1 << 4  # places 1 and 0

    tw.compile(multiplied(SparseCase()), TARGET).simulate(a, b, meta, sa, sb, c, check="default")
