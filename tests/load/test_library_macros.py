"""Words of libraries for __device__, and macros that declare types: what code of the GPU needs is not left out."""

from __future__ import annotations

from tilewright.load.cu_cut import host_in_macros
from tilewright.load.cu_headers import MENDED, mended, words_of_cutlass
from tilewright.load.cu_tree import Macros, parameters, pieces

WORDS = """
#if defined(__CUDACC__)
#define LIB_DEVICE __forceinline__ __device__
#else
#define LIB_DEVICE inline
#endif
"""
FUNCTION = "namespace lib { template <int N> LIB_DEVICE int first(int i) { return N * i; } }\n"
HAS = """
#define DEFINE_HAS(member) \\
  template <class T, class = void> struct has_##member { static constexpr bool value = false; };
"""


def test_a_word_that_one_branch_defines_for_the_gpu_makes_functions_of_the_gpu() -> None:
    (function,) = pieces(FUNCTION, Macros.of([WORDS, FUNCTION]))

    assert function.device
    assert not pieces(FUNCTION, Macros.of([FUNCTION]))[0].device


def test_a_macro_that_declares_a_type_is_not_of_the_host() -> None:
    text = "DEFINE_HAS(scale)\nvoid launch() {}\n"

    made, launch = pieces(text, Macros.of([HAS, text]))

    assert not made.is_host
    assert launch.is_host
    assert pieces(text)[0].is_host


def test_parameters_of_a_macro_may_go_on_in_the_next_line() -> None:
    text = "#define TRANSFORM(name, \\\n    ...) \\\n  template <class T> __device__ T name(T x) { __VA_ARGS__ }\n"

    macros = Macros.of([text])

    assert macros.makers == {"TRANSFORM"}
    assert host_in_macros(text, macros) == []


def test_words_of_cutlass_are_read_where_its_headers_are_named() -> None:
    assert words_of_cutlass(["stdint.h", "cuda_fp16.h"]) == []


def test_code_that_makes_tensor_maps_is_left_in_line_by_line() -> None:
    text = (
        "#if !defined(__CUDACC_RTC__)\nif (bad) {\n  std::cerr << 1\n    << 2;\n}\n"
        "CUTLASS_CUDA_DRIVER_WRAPPER_CALL(f)(1);\n#endif\n"
    )

    made = mended("cute/atom/copy_traits_sm90_tma.hpp", text)

    assert made.splitlines()[0] == "#if 1"
    assert made.count("\n") == text.count("\n")
    assert "::f(1);" in made
    assert "cerr" not in made
    assert mended("cute/tensor.hpp", text) == text
    assert "cute/tensor.hpp" not in MENDED


def test_the_count_of_multiprocessors_is_there_without_a_driver() -> None:
    text = "#if !defined(__CUDACC_RTC__)\n  static inline int\n  query_device_multiprocessor_count(int i) {}\n#endif\n"

    made = mended("cutlass/kernel_hardware_info.h", text)

    assert made.startswith("static int query_device_multiprocessor_count(int = 0) {")
    assert made.splitlines()[1] == "#if 0"
    assert made.count("\n") == text.count("\n")


def test_a_macro_of_launch_bounds_by_a_name_is_not_the_name_of_the_kernel() -> None:
    head = "const int MANY = 128;\ntemplate <class T> C10_LAUNCH_BOUNDS_1(MANY)\n"

    assert [*parameters(head + "__global__ void twice(T* x) { *x *= 2; }\n")] == ["twice"]
