"""`tilewright check` of kernels that take tensors with their sizes, from a file that does not say these."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

ACCESSORS = """
#include <torch/extension.h>
template <typename scalar_t>
__global__ void gated(const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> gates,
                      const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> cell,
                      torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out) {
    int n = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c GUARD gates.size(2)) out[n][c] = gates[n][0][c] * cell[n][c] + gates[n][1][c];
}
torch::Tensor host(torch::Tensor gates, torch::Tensor cell) {
    auto out = torch::zeros_like(cell);
    const dim3 blocks((cell.size(1) + 127) / 128, cell.size(0));
    AT_DISPATCH_FLOATING_TYPES(gates.type(), "gated", ([&] {
        gated<scalar_t><<<blocks, 128>>>(
            gates.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
            cell.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    }));
    return out;
}
"""
INFOS = """
#include <ATen/cuda/detail/IndexUtils.cuh>
#include <torch/extension.h>
__global__ void taken(const float* x, const at::cuda::detail::TensorInfo<int64_t, int> places, float* out, int many) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i GUARD many) out[i] = x[places.data[i]];
}
void host(torch::Tensor x, torch::Tensor index, torch::Tensor out) {
    auto info = at::cuda::detail::getTensorInfo<int64_t, int>(index);
    int many = index.numel();
    taken<<<(many + 127) / 128, 128>>>(x.data_ptr<float>(), info, out.data_ptr<float>(), many);
}
"""


@pytest.mark.parametrize("text", [ACCESSORS, INFOS], ids=["accessors", "infos"])
@pytest.mark.parametrize(("guard", "status"), [("<", "clean"), ("<=", "wrong")])
def test_a_tensor_with_its_sizes_is_proposed(text: str, guard: str, status: str, tmp_path: Path) -> None:
    (one,) = verdicts_on(text.replace("GUARD", guard), tmp_path)

    assert one["status"] == status, one


def test_the_extents_of_tensors_with_sizes_are_equal_and_few(tmp_path: Path) -> None:
    (one,) = verdicts_on(ACCESSORS.replace("GUARD", "<"), tmp_path)

    sizes = {option.rpartition("=")[2].strip("'") for option in one["proposed"]}
    assert sizes == {"32"}


BY_TYPEDEF = """
#include <torch/extension.h>
typedef torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> matrix;
using counts = torch::PackedTensorAccessor32<int32_t, 1, torch::RestrictPtrTraits>;
__global__ void sums(const matrix x, const counts lengths, matrix out) {
    int row = blockIdx.x, column = threadIdx.x;
    float sum = 0;
    for (int i = 0; i GUARD lengths[row]; i++) sum += x[row][i + x.size(1) - lengths[row]];
    out[row][column] = sum;
}
void host(torch::Tensor x, torch::Tensor lengths, torch::Tensor out) {
    sums<<<x.size(0), out.size(1)>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                                     lengths.packed_accessor32<int32_t, 1, torch::RestrictPtrTraits>(),
                                     out.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
}
"""


@pytest.mark.parametrize(("guard", "status"), [("<", "clean"), ("<=", "wrong")])
def test_a_tensor_whose_type_has_a_name_of_its_own_is_proposed(guard: str, status: str, tmp_path: Path) -> None:
    (verdict,) = verdicts_on(BY_TYPEDEF.replace("GUARD", guard), tmp_path)

    assert verdict["status"] == status, verdict


def test_integers_that_a_tensor_has_are_places_in_the_others(tmp_path: Path) -> None:
    (verdict,) = verdicts_on(BY_TYPEDEF.replace("GUARD", "<"), tmp_path)

    assert not any("a branch of line 8" in line for line in verdict["coverage"]["lines_not_reached"]), verdict


BESIDE = """
#include <torch/extension.h>
typedef torch::PackedTensorAccessor32<float, 3, torch::RestrictPtrTraits> batch;
__global__ void scores(const batch queries, const batch keys, batch out) {
    extern __shared__ float row[];
    int n = blockIdx.x / queries.size(1), l = blockIdx.x % queries.size(1);
    row[threadIdx.x] = queries[n][l][threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int e = 0; e < queries.size(2); e++) sum += row[e] * keys[n][l][e];
    out[n][l][threadIdx.x] = sum;
}
void host(torch::Tensor Q, torch::Tensor K, torch::Tensor out) {
    int E = Q.size(2);
    scores<<<Q.size(0) * Q.size(1), E, E * sizeof(float)>>>(
        Q.packed_accessor32<float, 3, torch::RestrictPtrTraits>(),
        K.packed_accessor32<float, 3, torch::RestrictPtrTraits>(),
        out.packed_accessor32<float, 3, torch::RestrictPtrTraits>());
}
"""


def test_tensors_beside_one_that_decides_on_threads_are_as_wide(tmp_path: Path) -> None:
    (verdict,) = verdicts_on(BESIDE, tmp_path)

    assert verdict["status"] == "clean", verdict
    sizes = {option.rpartition("=")[2].strip("'") for option in verdict["proposed"] if ".size(2)" in option}
    assert len(sizes) == 1


CHECKED = """
#include <torch/extension.h>
typedef torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> matrix;
__global__ void shifted(const matrix x, const matrix planes, matrix out) {
    int row = blockIdx.x, plane = threadIdx.x;
    float sum = planes[plane][x.size(1) WHERE];
    for (int i = 0; i < x.size(1); i++) sum += x[row][i] * planes[plane][i];
    out[row][plane] = sum;
}
void host(torch::Tensor x, torch::Tensor planes, torch::Tensor out) {
    int wide = x.size(1);
    CHECK
    shifted<<<x.size(0), planes.size(0)>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                                           planes.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                                           out.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
}
"""


@pytest.mark.parametrize(
    "check",
    [
        'assert(((void)"one more for the bias", wide + 1 == planes.size(1)));',
        'TORCH_CHECK(x.dim() == 2 && planes.size(1) == wide + 1, "one more for the bias");',
        "TORCH_CHECK(x.size(1) == wide, 1); AT_ASSERT(planes.size(1) == x.size(1) + 1);",
    ],
)
@pytest.mark.parametrize(("where", "status"), [("", "clean"), ("+ 1", "wrong")])
def test_extents_are_what_host_code_checks_them_to_be(check: str, where: str, status: str, tmp_path: Path) -> None:
    (verdict,) = verdicts_on(CHECKED.replace("CHECK", check).replace("WHERE", where), tmp_path)

    assert verdict["status"] == status, verdict


POINTS = """
#include <torch/extension.h>
__global__ void centred(const float* points, float* out, int n) {
    int batch = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i GUARD n) for (int k = 0; k < 3; k++) out[(batch * n + i) * 3 + k] = points[(batch * n + i) * 3 + k] - 1;
}
torch::Tensor host(torch::Tensor points) {
    int n = points.size(1);
    torch::Tensor out = torch::zeros_like(points);
    centred<<<dim3((n + 255) / 256, points.size(0)), 256>>>(points.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""


@pytest.mark.parametrize(("guard", "status"), [("<", "clean"), ("<=", "wrong")])
def test_a_tensor_like_one_of_more_extents_than_are_asked_for_is_as_large(
    guard: str, status: str, tmp_path: Path
) -> None:
    (verdict,) = verdicts_on(POINTS.replace("GUARD", guard), tmp_path)

    assert verdict["status"] == status, verdict
