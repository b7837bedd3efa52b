"""Grid and block that a function of the host returns, in a structure, a pair or a tuple, are those of the launch."""

from __future__ import annotations

import pytest

from tilewright.load.cu_launches import launched

KERNEL = "__global__ void k(float* x, int n);\n"
CONFIG = """
struct Config { dim3 grid; dim3 block; size_t shared; };
Config config_of(unsigned count, int room = 0) {
    int block = 64;
    if (count > 4096) block = 256;
    int grid = (count + block - 1) / block;
    return RETURNED;
}
"""
FILLED = "Config c; c.grid = grid; c.block = dim3(block); return c;"


@pytest.mark.parametrize("text", ["{dim3(grid), dim3(block), 0}", "Config{grid, block, 0}", "c"])
@pytest.mark.parametrize("kind", ["Config", "auto", "const auto"])
def test_a_launch_by_a_structure_that_a_function_returns_has_its_grid(text: str, kind: str) -> None:
    config = CONFIG.replace("return RETURNED;", FILLED if text == "c" else f"return {text};")
    host = f"void run(float* x) {{ int n = 8192; {kind} c = config_of(n); k<<<c.grid, c.block>>>(x, n); }}"

    (shape,) = launched(f"{KERNEL}{config}{host}", "k")

    assert (shape.grid, shape.block) == ((32,), (256,))


@pytest.mark.parametrize("made", ["std::make_tuple(grid, dim3(block, 2))", "{grid, dim3(block, 2)}"])
def test_a_launch_by_names_that_are_bound_to_what_a_function_returns_has_its_grid(made: str) -> None:
    text = f"""{KERNEL}
std::tuple<int, dim3> sides(int count) {{ const int block = 64, grid = count / block; return {made}; }}
void run(float* x) {{ auto [g, b] = sides(640); k<<<g, b>>>(x, 640); }}
"""
    (shape,) = launched(text, "k")

    assert (shape.grid, shape.block) == ((10,), (64, 2))


def test_what_lacks_of_a_returned_grid_is_asked_for_by_the_callers_name() -> None:
    config = CONFIG.replace("RETURNED", "{dim3(grid), dim3(block), 0}")
    host = "void run(float* x, unsigned many) { auto c = config_of(many); k<<<c.grid, c.block>>>(x, many); }"

    (shape,) = launched(f"{KERNEL}{config}{host}", "k")

    assert shape.lacks == ("many",)


def test_what_lacks_of_a_grid_is_asked_for_as_a_member_of_what_a_pointer_points_to() -> None:
    host = "void run(const T* q, float* x) { dim3 grid(q->ne[1], 2); k<<<grid, 64>>>(x, q->ne[0]); }"

    (shape,) = launched(f"{KERNEL}{host}", "k")
    (said,) = launched(f"{KERNEL}{host}", "k", given={"q->ne[1]": 3, "q->ne[0]": 8})

    assert shape.sizes == ["q->ne[1]", "q->ne[0]"]
    assert (said.grid, said.arguments[1]) == ((3, 2), 8)


def test_a_number_that_a_loop_makes_of_a_parameter_is_asked_for_by_that_parameter() -> None:
    host = """void run(float* x, int rows, int length) {
    int width = 32;
    while (width < length && width < 256) width *= 2;
    k<<<rows / (256 / width), 256>>>(x, width);
}"""
    (shape,) = launched(f"{KERNEL}{host}", "k")
    (said,) = launched(f"{KERNEL}{host}", "k", given={"length": 100, "rows": 64})

    assert (shape.lacks, shape.needs["width"]) == (("length", "rows"), ("length",))
    assert (said.grid, said.arguments[1]) == ((32,), 128)


TRAITS = """
template <int kThreads_, typename T> struct Traits {
    using type = T;
    static constexpr int kThreads = kThreads_;
    static constexpr int kBytes = kThreads * sizeof(type) * 4;
};
template <typename Traits> __global__ void t(float* x);
template <int N, typename T> void run(float* x) {
    using Kind = Traits<N, T>;
    constexpr int bytes = Kind::kBytes;
    auto f = &t<Kind>;
    f<<<2, Kind::kThreads, bytes>>>(x);
}
void all(float* x) { run<64, double>(x); }
"""


def test_shared_memory_by_a_constant_of_a_type_is_that_of_the_types_arguments() -> None:
    (shape,) = launched(TRAITS, "t")

    assert (shape.block, shape.shared_bytes) == ((64,), 64 * 8 * 4)


@pytest.mark.parametrize(("groups", "many"), [(64, 16), (24, 8), (12, 4), (6, 2), (7, 1)])
def test_a_number_that_branches_choose_one_behind_the_other_is_that_of_its_branch(groups: int, many: int) -> None:
    host = """void run(float* x, int groups) {
    int many = 1;
    if (groups % 16 == 0) { many = 16; }
    else if (groups % 8 == 0) { many = 8; }
    else if (groups % 4 == 0) many = 4;
    else if (groups % 2 == 0) many = 2;
    k<<<groups / many, many * 16>>>(x, many);
}"""
    (shape,) = launched(f"{KERNEL}{host}", "k", given={"groups": groups})

    assert (shape.grid, shape.block) == ((groups // many,), (many * 16,))
    assert launched(f"{KERNEL}{host}", "k")[0].lacks == ("groups",)
