"""Findings name an element of a variable as the author of a .cu file indexes it, in both of its builds."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.checking import check
from tilewright.load import load_cu

KERNEL = """{head}
__global__ void k(float* a) {{
    {declared};
    int i = threadIdx.x, j = (i + 1) % 32;
    {written} = i;
    a[i] = {read};
}}
"""


def places(text: str, kernel: str = "k", shared_bytes: int = 0) -> set[str]:
    """What the races of each build touch."""
    module = load_cu(text)
    found = set()
    for built in (module, module.built("unoptimised")):
        a = np.zeros(128, np.float32)
        verdict = check(built[kernel], a, grid=1, block=32, shared_bytes=shared_bytes)
        for finding in verdict.findings:
            assert finding.kind == "races"
            assert f" {finding.place}, which another thread has " in finding.message
            found.add(str(finding.place))
    return found


@pytest.mark.parametrize(
    ("head", "declared", "place", "name"),
    [
        ("", "__shared__ float s[64]", "s[{} + 8]", "s[9]"),
        ("", "__shared__ float s[2][33], t[4]; t[i % 4] = 0", "s[1][{}]", "s[1][1]"),
        ("", "__shared__ alignas(16) short s[2][3][32]", "s[1][2][{}]", "s[1][2][1]"),
        ("", "__shared__ float* s[32]; float* p = a; float r", "*(long long*)&s[{}]", "s[1]"),
        ("", "__shared__ float4 s[32]", "s[{}].x", "s[1]"),
        ("#define N 16\n#define W(n) ((n) * 2 + 1)", "__shared__ float s[2][W(N)]", "s[1][{}]", "s[1][1]"),
        ("", "constexpr int N = 32; __shared__ double s[2][N + 1]", "s[1][{}]", "s[1][1]"),
        ("namespace n { using real = double; typedef real number; }", "__shared__ n::number s[40]", "s[{}]", "s[1]"),
        ("enum Way { UP, DOWN };", "__shared__ Way s[32]", "*(int*)&s[{}]", "s[1]"),
    ],
)  # fmt: skip
def test_an_element_of_a_shared_array_is_named_by_its_indices(head: str, declared: str, place: str, name: str) -> None:
    declared = declared.replace("i %", "threadIdx.x %")
    text = KERNEL.format(head=head, declared=declared, written=place.format("i"), read=place.format("j"))

    assert places(text) == {name}


@pytest.mark.parametrize(
    ("head", "declared", "place", "name"),
    [
        ("struct P { float a, b; };", "__shared__ P s[32]", "s[{}].b", "s, byte 12"),
        ("typedef struct { float a; } P;", "__shared__ P s[32]", "s[{}].a", "s, byte 4"),
        ("struct P { float a; }; typedef struct P Q;", "__shared__ Q s[32]", "s[{}].a", "s, byte 4"),
        ("", "__shared__ float s[32]", "((char*)s)[{}]", "s, byte 1"),
        ("struct C { static const int N = 32; };", "__shared__ float s[2][C::N]", "s[1][{}]", "s, byte 132"),
    ],
)
def test_a_byte_of_which_the_text_says_no_element_stays_one(head: str, declared: str, place: str, name: str) -> None:
    text = KERNEL.format(head=head, declared=declared, written=place.format("i"), read=place.format("j"))

    assert places(text) == {name}


def test_a_shared_number_is_named_without_an_index() -> None:
    assert places(KERNEL.format(head="", declared="__shared__ int s", written="s", read="s")) == {"s"}


@pytest.mark.parametrize(("kind", "name"), [("float", "s[1]"), ("unsigned char", "s, byte 4")])
def test_a_dynamic_array_has_elements_and_a_pool_bytes(kind: str, name: str) -> None:
    text = KERNEL.format(head="", declared=f"extern __shared__ {kind} s[]", written="((float*)s)[i]",
                         read="((float*)s)[j]")  # fmt: skip

    assert places(text, shared_bytes=256) == {name}


TEMPLATE = """
template <typename T, int W> __device__ T turned(T* a) {
    __shared__ T s[2][W + 1];
    int i = threadIdx.x;
    s[1][i] = a[i];
    return s[1][(i + 1) % 32];
}
template <typename T, int W> __global__ void k(float* a) { a[threadIdx.x] = turned<T, W>((T*)(a + 32)); }
struct P { float x; __device__ operator float() { return x; } };
template __global__ void k<float, 32>(float*);
template __global__ void k<short, 40>(float*);
template __global__ void k<P, 32>(float*);
"""


@pytest.mark.parametrize(
    ("kernel", "name"), [("k<float, 32>", "s[1][1]"), ("k<short, 40>", "s[1][1]"), ("k<P, 32>", "s, byte 136")]
)
def test_the_arguments_of_a_template_say_what_its_array_holds(kernel: str, name: str) -> None:
    assert places(TEMPLATE, kernel) == {name}


PAIR = """
__global__ void rows(float* a) {
    __shared__ float s[4][32];
    int i = threadIdx.x;
    s[2][i] = a[i];
    a[i] = s[2][(i + 1) % 32];
}
__global__ void columns(float* a) {
    __shared__ float s[32][4];
    int i = threadIdx.x;
    s[i][2] = a[i];
    a[i] = s[(i + 1) % 32][2];
}
"""


@pytest.mark.parametrize(("kernel", "name"), [("rows", "s[2][1]"), ("columns", "s[1][2]")])
def test_arrays_of_one_name_have_the_shape_of_their_kernel(kernel: str, name: str) -> None:
    assert places(PAIR, kernel) == {name}


def test_two_declarations_in_one_kernel_that_differ_name_bytes() -> None:
    text = """
__global__ void k(float* a) {
    int i = threadIdx.x, j = (i + 1) % 32;
    { __shared__ float s[2][32]; s[1][i] = a[i]; a[i] = s[1][j]; }
    { __shared__ float s[32][2]; s[i][1] = a[i]; a[i] = s[j][1]; }
}
"""

    found = places(text)

    assert len(found) == 2
    assert all(", byte " in place for place in found)


def test_elements_that_the_compiler_makes_variables_of_keep_their_index() -> None:
    text = """
__global__ void k(float* a) {
    __shared__ float s[4][2];
    if (threadIdx.x == 5) s[1][1] = a[40];
    if (threadIdx.x == 6) s[3][0] = a[41];
    a[threadIdx.x] = s[1][1] + s[3][0];
}
"""

    assert places(text) == {"s[1][1]", "s[3][0]"}


@pytest.mark.parametrize(
    ("declared", "read", "element", "room"),
    [
        ("__constant__ float f[2 * 3]", "f[i]", "f[6]", "f[0] to f[5], 24 bytes"),
        ("__device__ int t[3][5]", "t[2][i]", "t[3][0]", "t[0][0] to t[2][4], 60 bytes"),
        ("namespace n { __device__ double d[4]; } using namespace n", "d[i]", "d[4]", "d[0] to d[3], 32 bytes"),
    ],
)
def test_an_element_outside_of_a_variable_is_named_by_its_indices(
    declared: str, read: str, element: str, room: str
) -> None:
    kernel = load_cu(f"{declared};\n__global__ void k(float* a) {{ int i = threadIdx.x; a[i] = {read}; }}")["k"]

    (finding,) = check(kernel, np.zeros(32, np.float32), grid=1, block=32).findings

    assert str(finding.given).startswith(f"{element} in CTA (0, 0, 0)")
    assert finding.allowed == room
