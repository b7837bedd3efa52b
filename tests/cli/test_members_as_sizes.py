"""The members of a structure that another file fills are sizes of their own, and rows by its strides lie apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import ran

PARAMS = """
struct Params { unsigned rows, length, x_stride, row_stride; const float* x; float* out; };
template <int N> struct Traits { static constexpr int kBytes = N * sizeof(float); };
template <typename T> __global__ void carry(Params p) {
    extern __shared__ float last[];
    const float* x = p.x + blockIdx.x * p.x_stride;
    float* out = p.out + blockIdx.x * p.row_stride;
    for (int i = threadIdx.x; i < p.length; i += blockDim.x) {
        last[threadIdx.x] = x[i];
        __syncthreads();
        out[i] = last[threadIdx.x ^ 1];
        SYNC
    }
}
template <int N> void launch(Params& params, cudaStream_t stream) {
    constexpr int bytes = Traits<N>::kBytes;
    carry<Traits<N>><<<params.rows, N, bytes, stream>>>(params);
}
template void launch<64>(Params& params, cudaStream_t stream);
"""


@pytest.mark.parametrize(("sync", "told"), [("__syncthreads();", None), ("", "race")])
def test_a_loop_over_a_member_turns_and_rows_of_other_ctas_are_apart(
    sync: str, told: str | None, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(PARAMS.replace("SYNC", sync))

    code, out, error = ran("check", tmp_path / "k.cu", "--no-both")

    assert (code, "race" in out) == (int(told is not None), told is not None), out + error
    assert "--size params.length=" in out
    assert told is None or "k.cu:9: race" in out
