"""What the Blackwell examples have in common: how a kernel begins and ends, its rows of D, operands as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import T, Tx
from tilewright.layout import S, tid_in_wg


@T.inline
def begin(addr, columns, warp_id, tid, *bars):
    """Tensor memory and m-barriers are there for all. bars: those of one arrival; of others (bar, arrivals)."""
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=columns, cta_group=1)
    if tid == 0:
        for one in bars:
            bar, count = T.meta_var(one if isinstance(one, tuple) else (one, 1))
            for i in T.unroll(bar.shape[0]):
                T.ptx.mbarrier.init(bar.ptr_to([i]), count)
    T.ptx.fence.mbarrier_init()
    meet()


@T.inline
def meet():
    """All threads of the CTA meet, with the fences of tensor memory."""
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()


@T.inline
def end(addr, columns, warp_id):
    """Tensor memory is given back once nobody uses it."""
    meet()
    if warp_id == 0:
        T.ptx.tcgen05.dealloc(addr[0], n_cols=columns, cta_group=1)


@T.inline
def store_rows(C, row, acc, bar, phase):
    """A warpgroup waits for the accumulator and stores it, a row for each thread."""
    width = T.meta_var(acc.shape[1])
    T.ptx.mbarrier.try_wait(bar, phase)
    T.ptx.tcgen05.fence.after_thread_sync()
    mine = T.alloc_buffer((128, width), "float32", scope="local", layout=S[(128, width) : (1 @ tid_in_wg, 1)])
    Tx.wg.copy_async(mine[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    Tx.wg.copy(C[row : row + 128, :], mine[:, :])


POLYNOMIAL = (1.0, 0.6951461434364319, 0.22764469683170319, 0.07711908966302872)  # 2**f for f from 0 to 1


def exp2_by_polynomial(x: Any) -> Any:
    """2**x for x <= 0 without the unit for exponentials: the whole part goes to the exponent's bits."""
    x = T.max(x, -126.0)
    whole = T.floor(x)
    f = x - whole
    value = POLYNOMIAL[0] + f * (POLYNOMIAL[1] + f * (POLYNOMIAL[2] + f * POLYNOMIAL[3]))
    return T.reinterpret("float32", T.reinterpret("int32", value) + (T.cast(whole, "int32") << 23))


def pair_of_bf16(low: Any, high: Any) -> Any:
    """Two numbers as bfloat16 in a word."""
    words = [T.cast(T.reinterpret("uint16", T.cast(each, "bfloat16")), "uint32") for each in (low, high)]
    return words[0] | words[1] << 16


def in_blocks(scales: np.ndarray[Any, Any], together: int) -> np.ndarray[Any, Any]:
    """Scales, (rows, blocks), as cuBLAS has them: 128 rows by 4 blocks in 512 bytes, byte 16 (r % 32) + 4 (r / 32) + k.

    together: scales of a row that a stage brings, a multiple of 4. Returns (rows / 128, stages, bytes).
    """
    rows, count = scales.shape
    parts = scales.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(parts).reshape(rows // 128, count // together, -1)


def as_bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Elements as memory has them: of 4 bits two in a byte, the low one first."""
    octets = values.view(np.uint8)
    return octets[:, ::2] | octets[:, 1::2] << 4 if "float4" in str(values.dtype) else octets


def scaled_inputs(made: Any, rows: tuple[int, ...], k: int) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """A, B and their scales as blackwell_scaled.py takes them, of so many rows each, and the product of all by all."""
    rng = np.random.default_rng(0)
    values = [rng.integers(-2, 3, (each, k)).astype(made.element) for each in rows]
    scales = [rng.choice([0.5, 1, 2], (-(-each // 128) * 128, k // 128 * made.scales)) for each in rows]
    a, b = (
        value.astype(np.float32) * scale[: len(value)].astype(np.float32).repeat(128 // made.scales, 1)
        for value, scale in zip(values, scales, strict=True)
    )
    blocks = [in_blocks(each.astype(made.scale), made.scales) for each in scales]
    return [*map(as_bytes, values), *blocks], a @ b.T
