"""NVIDIA's headers say the same in a fraction of the time: by options of their own."""

from __future__ import annotations

import pytest

from tilewright.load import load_cu
from tilewright.load.cu_headers import lighter

TEXT = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void total(int* out, const int* in) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int sum = cg::reduce(warp, in[block.thread_rank()], cg::plus<int>());
    if (warp.thread_rank() == 0) *out = sum + REST;
}
"""


def names(rest: str) -> str:
    """The variables of the PTX of the text."""
    return " ".join(load_cu(TEXT.replace("REST", rest)).module.variable_of)


def test_groups_are_read_without_libcu_where_no_text_speaks_of_it() -> None:
    assert "4cuda3std" not in names("0")


def test_a_text_that_speaks_of_libcu_has_it_with_groups() -> None:
    assert "4cuda3std" in names("static_cast<int>(decltype(block)::thread_scope)")


@pytest.mark.parametrize(
    ("words", "of_libcu"),
    [
        ("cuda::std::min(1, 2)", True),
        ("using namespace cuda;", True),
        ("namespace c = cuda ;", True),
        ("#define _CG_LIMIT_INCLUDED_DEPENDENCIES", True),
        ("nvcuda::wmma::fill_fragment(c, 0.0f); #include <cuda_fp16.h>", False),
    ],
)
def test_any_text_of_the_author_may_speak_of_libcu(words: str, of_libcu: bool) -> None:
    assert any("_CG_" in option for option in lighter([TEXT, words])) is not of_libcu
    assert not any("_CG_" in option for option in lighter([words]))


def test_lists_of_types_are_unrolled_as_nvcc_has_them() -> None:
    """More often, they take NVRTC a second and a half."""
    assert load_cu(
        """#include <cuda/std/type_traits>
static_assert(_CCCL_META_UNROLL_LIMIT == 10, "as nvcc has it");
__global__ void k(int* out) { *out = cuda::std::is_same<int, int>::value; }
"""
    )["k"]
