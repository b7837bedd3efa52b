"""Which launches host code comes to, by the conditions around them and before them."""

from __future__ import annotations

import pytest

from tilewright.load.cu_launches import launched, unreached

HEAD = """
__global__ void fast(float* x, int n) {}
__global__ void slow(float* x, int n) {}
template <int N> __global__ void sized(float* x, int n) {}
"""


def reached(body: str, head: str = "int main(int argc, char** argv)", behind: str = "") -> list[str]:
    text = f"{HEAD}{head} {{\n{body}\n}}\n{behind}"
    return [shape.kernel for shape in launched(text)]


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        ("int n = 1001; if (n % 4 == 0) fast<<<1, 32>>>(x, n); else slow<<<1, 32>>>(x, n);", ["slow"]),
        ("int n = 1000; if (n % 4 == 0) { fast<<<1, 32>>>(x, n); } else { slow<<<1, 32>>>(x, n); }", ["fast"]),
        ("int n = 1001; if (n % 4) { slow<<<1, 32>>>(x, n); return 0; } fast<<<1, 32>>>(x, n);", ["slow"]),
        ("int n = atoi(argv[1]); if (n % 4) fast<<<1, 32>>>(x, 4); else slow<<<1, 32>>>(x, 4);", ["fast", "slow"]),
        ("int k = 2; switch (k) { case 1: fast<<<1, 32>>>(x, 4); break; case 2: slow<<<1, 32>>>(x, 4); }", ["slow"]),
        ("int k = 1; switch (k) { case 1: fast<<<1, 32>>>(x, 4); break; default: slow<<<1, 32>>>(x, 4); }", ["fast"]),
        ("int k = 3; switch (k) { case 1: fast<<<1, 32>>>(x, 4); break; default: slow<<<1, 32>>>(x, 4); }", ["slow"]),
        ("int n = 3; if (n > 4) fast<<<1, 32>>>(x, n);", ["fast"]),  # of no other launch: better than nothing
    ],
)
def test_a_branch_that_host_code_does_not_take_launches_nothing(body: str, kernels: list[str]) -> None:
    assert reached(body) == kernels


@pytest.mark.parametrize(
    "form", ["if (size == 64) A else if (size == 128) B", "switch (size) { case 64: A case 128: B }"]
)
def test_a_branch_for_one_value_of_a_parameter_is_taken_with_that_value(form: str) -> None:
    body = form.replace("A", "{ sized<64><<<n / size, size>>>(x, n); break; }").replace(
        "B", "{ sized<128><<<n / size, size>>>(x, n); break; }"
    )
    text = f"{HEAD}void run(float* x, int size, int n) {{ {body} }}\nint main() {{ run(x, 128, 1024); }}"

    assert [(shape.kernel, shape.grid, shape.block) for shape in launched(text)] == [
        ("sized<64>", (16,), (64,)), ("sized<128>", (8,), (128,)),
    ]  # fmt: skip


def test_a_branch_for_one_value_of_a_proposed_number_is_taken_with_that_value() -> None:
    body = """int threads = chosen(n);
    switch (threads) {
        case 128: sized<128><<<1, threads>>>(x, n); break;
        case 64: sized<64><<<1, threads>>>(x, n); break;
        default: sized<256><<<1, threads>>>(x, n);
    }"""
    text = f"{HEAD}void run(float* x, int n) {{ {body} }}"

    shapes = launched(text, given={"threads": 128, "n": 64})

    assert [(shape.kernel, shape.block) for shape in shapes] == [("sized<128>", (128,)), ("sized<64>", (64,))]


def test_a_launch_that_is_not_reached_is_named_with_its_condition() -> None:
    text = f"{HEAD}int main() {{ int n = 6;\nif (n % 4 == 0) fast<<<1, 32>>>(x, n);\nelse slow<<<1, 32>>>(x, n); }}"

    assert [(shape.kernel, shape.unless) for shape in unreached(text, {}, ())] == [("fast", "(n % 4 == 0)")]
