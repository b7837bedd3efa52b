"""What stands for torch's headers: 16-bit floats, accessors, macros and atomics of device code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.load import LoadedModule, load_cu

TEXT = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
using torch::PackedTensorAccessor32;
template <typename scalar_t> using Rows = PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits>;
struct Shape { Shape(const at::Tensor& t) : rows(t.defined() ? t.size(0) : 0) {} int rows; };

template <typename scalar_t> __global__ void sums(const Rows<scalar_t> x, PackedTensorAccessor32<float, 1> out, int n) {
    CUDA_KERNEL_LOOP(i, n) {
        at::acc_type<scalar_t, true> sum = 0;
        for (int j = 0; j < x.size(1); ++j) sum += x[i][j] * scalar_t(2);
        out[i] = sum > scalar_t(0) ? static_cast<float>(sum) : std::numeric_limits<float>::infinity();
    }
}
template <typename scalar_t> __global__ void total(const scalar_t* x, scalar_t* out, int n) {
    CUDA_KERNEL_LOOP(i, n) gpuAtomicAdd(out, x[i]);
}
__global__ void picked(const at::cuda::detail::TensorInfo<int64_t, int> info, int64_t* out) {
    out[threadIdx.x] = info.data[at::cuda::detail::IndexToOffset<int64_t, int, -1>::get(threadIdx.x, info)];
}

torch::Tensor forward(torch::Tensor x, std::vector<int64_t> sizes) {
    TORCH_CHECK(x.is_cuda(), "x lies on the host");
    auto out = torch::empty({x.size(0)}, x.options());
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "sums", ([&] {
        sums<scalar_t><<<1, 32>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                                  out.packed_accessor32<float, 1>(), x.size(0));
    }));
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
NARROW = ("float", "at::Half", "c10::BFloat16")


@pytest.fixture(scope="module")
def module() -> LoadedModule:
    kernels = [f"{kernel}<{kind}>" for kernel in ("sums", "total") for kind in (*NARROW, "int64_t", "uint8_t")]
    return load_cu(TEXT, kernels=kernels)


def dtype_of(kind: str) -> np.dtype[Any]:
    ml_dtypes: Any = pytest.importorskip("ml_dtypes")
    named: dict[str, Any] = {
        "at::Half": np.float16,
        "c10::BFloat16": ml_dtypes.bfloat16,
        "int64_t": np.int64,
        "uint8_t": np.uint8,
    }
    made: np.dtype[Any] = np.dtype(named.get(kind, np.float32))
    return made


@pytest.mark.parametrize("kind", NARROW)
def test_an_array_is_an_accessor_of_the_tensor_with_its_strides(module: LoadedModule, kind: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype_of(kind)).T  # rows of 3 elements, 4 apart
    out = np.zeros(4, np.float32)

    module[f"sums<{kind}>"].simulate(x, out, 4, grid=1, block=32)

    assert out.tolist() == (2 * x.astype(np.float32)).sum(1).tolist()


@pytest.mark.parametrize("kind", [*NARROW, "int64_t", "uint8_t"])
def test_atomics_add_in_any_type(module: LoadedModule, kind: str) -> None:
    out = np.zeros(8, dtype_of(kind))[1:]  # not at a whole word

    module[f"total<{kind}>"].simulate(np.arange(8).astype(out.dtype), out, 8, grid=1, block=32)

    assert out[0] == 28


def test_an_array_is_a_tensor_info(module: LoadedModule) -> None:
    index, out = np.arange(12).reshape(3, 4).T, np.zeros(12, np.int64)

    module["picked"].simulate(index, out, grid=1, block=12)

    assert out.tolist() == index.ravel().tolist()


def test_what_happens_in_a_stand_in_is_told_at_the_line_that_calls_it() -> None:
    text = """
    #include <ATen/ATen.h>
    __global__ void widened(const at::Half* x, float* out) {
        out[threadIdx.x] = static_cast<float>(x[threadIdx.x]);
    }
    """
    x, out = np.zeros(31, np.float16), np.zeros(32, np.float32)

    verdict = tw.check(load_cu(text)["widened"], x, out, grid=1, block=32)

    assert [(each.kind, each.line, each.builds) for each in verdict.findings] == [("bounds", 4, verdict.builds)]
    assert "called from" not in str(verdict.findings[0])


def test_limits_say_what_libraries_of_vectors_ask_for() -> None:
    text = """
#include <torch/extension.h>
#include <limits>
template <class T> __device__ int told() {
    using L = std::numeric_limits<T>;
    static_assert(L::is_specialized && L::is_bounded && L::radix == 2, "");
    return L::is_iec559 + 2 * L::is_integer + 4 * L::is_exact + 8 * L::is_modulo + 100 * L::digits10;
}
__global__ void k(int* out) {
    out[0] = told<float>();
    out[1] = told<double>();
    out[2] = told<int>();
    out[3] = told<unsigned>();
}
"""
    out = np.zeros(4, np.int32)

    tw.load_cu(text)["k"].simulate(out, grid=1, block=1)

    assert out.tolist() == [601, 1501, 906, 914]


def test_traits_that_come_with_torch_are_there() -> None:
    text = """#include <torch/all.h>
enum class Word : unsigned short { low };
struct Base {};
struct Derived : Base { int x; };
__global__ void k(float* x) {
    static_assert(std::is_pod_v<float> && std::is_trivially_copyable<Derived>::value && std::is_class<Derived>::value);
    static_assert(std::is_enum_v<Word> && std::is_same_v<std::underlying_type_t<Word>, unsigned short>);
    static_assert(std::is_base_of_v<Base, Derived> && !std::is_base_of_v<Derived, Base>);
    static_assert(std::is_convertible<int, float>::value && std::is_empty_v<Base> && !std::is_empty_v<Derived>);
    static_assert(std::is_array_v<int[3]> && std::is_const_v<const int> && std::is_reference_v<int&>);
    unsigned lane;
    __asm__ __volatile__("mov.u32 %0, %%laneid;" : "=r"(lane));
    x[lane] = 1;
}
"""

    assert load_cu(text).kernels == ["k"]


def test_narrow_floats_are_changed_in_place_by_wider_ones() -> None:
    text = (
        "#include <torch/extension.h>\ntemplate <typename T> __global__ void k(T* x) { T v = x[threadIdx.x];\n"
        "v += __shfl_down_sync(0xffffffff, float(v), 0); v *= 2; v -= 1.0; x[threadIdx.x] = v; }\n"
    )
    x = np.full(32, 1.5, np.float16)

    load_cu(text, kernels=["k<at::Half>"])["k<at::Half>"].simulate(x, grid=1, block=32)

    assert x.tolist() == [5.0] * 32


def test_storage_of_a_size_and_alignment_is_there() -> None:
    text = (
        "#include <torch/extension.h>\n__global__ void k(int* x) {\n"
        "std::aligned_storage<16, 8>::type room; x[0] = sizeof(room) + alignof(std::aligned_storage_t<4, 4>); }\n"
    )
    x = np.zeros(1, np.int32)

    load_cu(text)["k"].simulate(x, grid=1, block=1)

    assert x.tolist() == [20]
