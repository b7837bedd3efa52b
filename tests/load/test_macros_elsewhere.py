"""Types and constants that macros declare whose header lacks, as of a project's own dispatch."""

from __future__ import annotations

import pytest

from tilewright.load.cu_launches import instances, launched

HEAD = """#include "dispatch_utils.h"
template <typename T, int N = 32> __global__ void k(T* x, int n);
"""


@pytest.mark.parametrize(
    ("opens", "launch", "name"),
    [
        ('VLLM_DISPATCH_FLOATING_TYPES(x.scalar_type(), "k", [&] {', "k<scalar_t>", "k<float>"),
        ('VLLM_DISPATCH_FLOATING_TYPES(x.scalar_type(), "k", [&] {', "auto f = k<scalar_t, 64>; f", "k<float, 64>"),
        ('VLLM_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "k", [&] {', "auto f = k<scalar_t>; f", "k<int>"),
        ("DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP16(x.dtype(), c_type, [&] {", "k<c_type>", "k<half>"),
        ("DISPATCH_HEAD_DIM(head_dim, HEAD_DIM, {", "k<float, HEAD_DIM>", "k<float, 64>"),
        ("FP16_SWITCH(!is_bf16, [&] {", "k<float>", "k<float>"),
    ],
)
def test_what_a_macro_of_a_header_that_lacks_declares_is_a_plain_choice(opens: str, launch: str, name: str) -> None:
    body = f"{opens} {launch}<<<1, 32>>>(p, n); }});"

    assert instances(f"{HEAD}void run(T x, void* p, int n, int head_dim) {{ {body} }}") == [name]


def test_a_constant_of_a_switch_whose_header_lacks_is_true() -> None:
    text = "template <bool Causal> __global__ void k(float* x);\n"
    body = "BOOL_SWITCH(p.causal, Is_causal, [&] { auto f = &k<Is_causal>; f<<<1, 32>>>(p.x); });"

    assert instances(f"{text}void run(P& p) {{ {body} }}") == ["k<true>"]


LOCAL = """
template <typename T> __global__ void q(T* x, int n);
#define LAUNCH(T) do { \\
    const int threads = many * 16; \\
    dim3 grid(n / many); \\
    dim3 block(threads, 2); \\
    q<T><<<grid, block, threads * 4>>>((T*)x, n); \\
} while (0)
void run(void* x, int n, int many) {
    DISPATCH_TYPES_FLOAT_FP16(x.scalar_type(), scalar_t, [&] { LAUNCH(scalar_t); return true; });
}
"""


def test_a_launch_of_a_macro_has_the_grid_that_the_macro_declares() -> None:
    (shape,) = launched(LOCAL, "q", given={"n": 64, "many": 4})

    assert (shape.kernel, shape.grid, shape.block, shape.shared_bytes) == ("q<float>", (16,), (64, 2), 256)
