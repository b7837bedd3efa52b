"""ldmatrix and stmatrix by hand: one, two and four 8x8 matrices of 16-bit numbers, between shared memory and a warp.

Each lane supplies the shared address of one row: lanes 0 to 7 those of the first matrix, 8 to 15 those of the second.
Lane 4g+t then holds numbers 2t and 2t+1 of row g of every matrix, both in one 32-bit register. Every lane prints, for
each matrix: its number, the shared memory that its register should equal, and the two halves of the register.

    tilewright run examples/ldmatrix_by_hand.py:load_x1
"""

import tilewright as tw
from tilewright import T

MATRIX = 64  # numbers of an 8x8 matrix
LINE = "%d -> %d  %d   %d   \n"


def shared_address(smem, num):
    """Three ways from a pointer to a shared address, with one result; each kernel uses another one."""
    if num == 1:
        return T.cast(T.cuda.cvta_generic_to_shared(smem.ptr_to([0])), "uint32")
    if num == 2:
        return T.cast(T.ptx.cvta.to.shared.u64(smem.ptr_to([0])), "uint32")
    return T.cuda.cast_smem_ptr_to_uint(smem.ptr_to([0]))


def row_bytes(tid, num):
    """Where the row begins whose address lane ``tid`` supplies. Lanes beyond the last matrix repeat the first ones."""
    row, matrix = tid % 8, tid // 8 % num
    return T.cast(2 * (8 * row + MATRIX * matrix), "uint32")


def load(num):
    """A kernel that fills shared memory with 0, 1, 2, ... and loads ``num`` matrices of it."""

    @T.prim_func
    def load_matrices():
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        smem = T.alloc_shared((num * MATRIX,), "uint16")
        fragment = T.alloc_local((num,), "uint32")
        for i in range(2 * num):
            smem[32 * i + tid] = T.cast(32 * i + tid, "uint16")
        T.cuda.cta_sync()
        address: T.let = shared_address(smem, num) + row_bytes(tid, num)
        T.ptx.ldmatrix(False, num, ".b16", address, *[fragment[m] for m in range(num)])
        for m in range(num):
            T.printf(LINE, tid, smem[2 * tid + MATRIX * m], fragment[m] & 0xFFFF, fragment[m] >> 16)

    return load_matrices


def store(num):
    """A kernel whose lanes make up ``num`` matrices, 0, 1, 2, ... together, and store them to shared memory."""

    @T.prim_func
    def store_matrices():
        T.device_entry()
        T.cta_id([1])
        tid = T.thread_id([32])
        smem = T.alloc_shared((num * MATRIX,), "uint16")
        fragment = T.alloc_local((num,), "uint32")
        for m in range(num):
            first: T.let = T.cast(2 * tid + MATRIX * m, "uint32")
            fragment[m] = first | (first + 1) << 16
        address: T.let = shared_address(smem, num) + row_bytes(tid, num)
        T.ptx.stmatrix(False, num, ".b16", address, *[fragment[m] for m in range(num)])
        T.cuda.cta_sync()
        for m in range(num):
            T.printf(LINE, tid, smem[2 * tid + MATRIX * m], fragment[m] & 0xFFFF, fragment[m] >> 16)

    return store_matrices


load_x1, load_x2, load_x4 = load(1), load(2), load(4)
store_x1, store_x2, store_x4 = store(1), store(2), store(4)


def main() -> None:
    for kernel in (load_x1, store_x1):
        print(tw.simulate(kernel).output)


if __name__ == "__main__":
    main()
