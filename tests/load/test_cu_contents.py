"""What host code has put into its arrays where it launches a kernel, as its statements say."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tilewright.load.cu_contents import MOST_TURNS, contents
from tilewright.load.cu_launches import launched

COPY = "int* d; cudaMalloc(&d, 4 * sizeof(int)); cudaMemcpy(d, h, 4 * sizeof(int), cudaMemcpyHostToDevice);"
HEAD = """
#define N 4
#define CHECK(call) do { cudaError_t e = (call); if (e) exit(1); } while (0)
__global__ void k(int* d) {}
__global__ void look(const int* d) {}
__global__ void fill(int* d) {}
struct Graph { int n; int* rows; };
int* all;
void begin_all() { all = (int*)malloc(N * sizeof(int)); for (int i = 0; i < N; ++i) all[i] = 7; }
int sum_to(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i; return s; }
int degree(int i) { if (i % 2) return 3; return 1; }
void offsets(int* rows, int n) { rows[0] = 0; for (int i = 0; i < n; ++i) rows[i + 1] = rows[i] + degree(i); }
void begin(int** p, int n) { cudaMalloc(p, n * sizeof(int)); cudaMemset(*p, 0xff, n * sizeof(int)); }
Graph graph(int n) { Graph g; g.n = n; cudaMalloc(&g.rows, n * sizeof(int)); cudaMemset(g.rows, 1, 4); return g; }
"""
ONES = 0x01010101


def held(body: str, word: str = "d") -> list[int] | None:
    (launch,) = launched(f"{HEAD}\nint main(int argc, char** argv) {{\n{body}\nk<<<1, 4>>>({word});\n}}\n", "k")
    assert launch.host is not None
    octets = contents(launch.host, word)
    return None if octets is None else octets.view(np.int32).tolist()


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("int h[N]; for (int i = 0; i < N; i++) h[i] = 5 * i;", [0, 5, 10, 15]),
        ("int* h = (int*)malloc(N * sizeof(int)); int k = 7; while (k--) if (k < N) h[k] = -k;", [0, -1, -2, -3]),
        ("std::vector<int> h; for (int i = 0; i < N; ++i) { if (i == 1) continue; h.push_back(i); } h.push_back(9);",
         [0, 2, 3, 9]),
        ("std::vector<int> h(N, INT_MAX); h[1] = 0; h.back();", [2**31 - 1, 0, 2**31 - 1, 2**31 - 1]),
        ("auto h = new int[N]; std::fill(h, h + N, 6); std::swap(h, h); h[0] += 2;", [8, 6, 6, 6]),
        ("std::vector<int> h = {4, 3, 2, 1}; for (auto& v : h) v = v * 2;", [8, 6, 4, 2]),
        ("int h[] = {1, 2, 3, 4}; unsigned s = 1; s = s * 2654435761u; h[3] = s % 7; h[2] = s >> 16;",
         [1, 2, 2654435761 >> 16, 2654435761 % 7]),
        ("int h[N]; offsets(h, N - 1);", [0, 1, 4, 5]),
        ("int h[N]; for (int i = 0; i < N; ++i) { offsets(h, i); h[i] += sum_to(i); }", [0, 1, 4, 8]),
        ("int h[N]; memset(h, 0xff, sizeof(h)); *h = N;", [4, -1, -1, -1]),
        ("int h[N]; int n = 0; do { h[n++] = 1 + n; if (n == 2) break; } while (n < N); h[3] = n > 1 ? 8 : 9;",
         [1, 2, 0, 8]),
        ("std::unique_ptr<int[]> h(new int[N]); h[2] = argc;", [0, 0, 1, 0]),
        ("int* p = new int[2 * N]; int* h = p + N; int** rows = new int*[2];"
         "for (int i = 0; i < 2; ++i) rows[i] = h + 2 * i;"
         "for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) rows[i][j] = 10 * i + j;", [0, 1, 10, 11]),
        ("begin_all(); int* h = all;", [7, 7, 7, 7]),
        ("{ int N4 = 1; } int h[N] = {0}; { int h[N]; h[0] = 5; } for (int k = 0; k < 1; ++k) h[1] = 1;",
         [0, 1, 0, 0]),
        ("float x = 2.75f; int h[N] = {(int)x, static_cast<int>(-x), 7 / -2, -7 % 4};", [2, -2, -3, -3]),
    ],
)  # fmt: skip
def test_what_loops_and_fills_leave_is_read(body: str, numbers: list[int]) -> None:
    assert held(body + COPY) == numbers


@pytest.mark.parametrize(
    ("body", "word", "numbers"),
    [
        ("int* d; CHECK(cudaMalloc((void**)&d, 16)); CHECK(cudaMemset(d, 1, 8));", "d", [ONES, ONES, 0, 0]),
        ("int* d; begin(&d, N);", "d", [-1] * 4),
        ("int* d; cudaMallocManaged(&d, 16); for (int i = 0; i < N; ++i) d[i] = i;", "d", [0, 1, 2, 3]),
        ("Graph g = graph(N);", "g.rows", [ONES, 0, 0, 0]),
        ("Graph g; cudaMalloc(&g.rows, 16); int s = 3; cudaMemcpy(g.rows + 1, &s, 4, kind);", "g.rows", [0, 3, 0, 0]),
        ("int* d[2]; for (int i = 0; i < 2; ++i) { cudaMalloc((void**)&d[i], 8); cudaMemset(d[i], i, 8); }"
         "int s = 0, t = 1; std::swap(s, t);", "d[s]", [ONES, ONES]),
        ("int h[N] = {1, 2, 3, 4}; int* d; cudaMalloc(&d, 16); cudaMemcpy(d + 2, h, 8, kind); look<<<1, 1>>>(d);", "d",
         [0, 0, 1, 2]),
    ],
)  # fmt: skip
def test_what_the_device_has_been_handed_is_read(body: str, word: str, numbers: list[int]) -> None:
    assert held(body, word) == numbers


@pytest.mark.parametrize(
    "between",
    ["fread(h, 4, N, file);", "fill<<<1, 1>>>(d);", "if (argv[1][0] == 'x') h[0] = 3;", "h[atoi(argv[1])] = 3;",
     "std::sort(h, h + N);", 'scanf("%d", &h[0]);', "for (int i = 0; i < count(); ++i) h[i] = 1;", "cin >> h[0];"],
)  # fmt: skip
def test_what_may_have_changed_an_array_otherwise_makes_it_unknown(between: str) -> None:
    body = f"int h[N] = {{1, 2, 3, 4}}; int* d; cudaMalloc(&d, 16); {between} {COPY[8:]}"
    if "fill" in between:
        body = f"int h[N] = {{1, 2, 3, 4}}; {COPY} {between}"

    assert held(body) is None


def test_an_array_that_is_only_allocated_has_no_contents() -> None:
    assert held("int* d; cudaMalloc(&d, 16);") is None


def test_numbers_by_chance_are_in_their_range() -> None:
    body = "std::mt19937 gen(0); std::uniform_int_distribution<int> in(3, 5); int h[N];"

    drawn = held(f"{body} for (int i = 0; i < N; ++i) h[i] = i % 2 ? in(gen) : rand() % 3 + 3; {COPY}")

    assert drawn is not None
    assert {*drawn} <= {3, 4, 5}


@pytest.mark.parametrize("turns", [f"int i = 0; i < {MOST_TURNS} * 1000; ++i", "int i = 0; ; i += 1"])
def test_a_loop_of_too_many_turns_is_given_up_and_what_follows_is_read(turns: str) -> None:
    assert held(f"int big[N]; int h[N]; for ({turns}) big[i % N] = i; h[0] = 2; {COPY}") == [2, 0, 0, 0]


def test_turns_of_a_function_that_a_loop_calls_count_with_the_loop_s() -> None:
    """Else a file whose functions are called for each image of many takes as long as it says."""
    both = f"int many[N]; for (int i = 0; i < 1000; ++i) many[i % N] = sum_to({MOST_TURNS} / 1000);"

    assert held(both + COPY.replace(" h,", " many,")) is None
    assert held(both + f"int h[N]; h[0] = 2; {COPY}") == [2, 0, 0, 0]


def test_a_loop_that_says_how_many_turns_it_has_is_given_up_at_once() -> None:
    start = time.process_time()

    held(f"int big[N]; for (int i = 0; i < {MOST_TURNS} * 1000; ++i) big[i % N] = i; {COPY.replace(' h,', ' big,')}")

    assert time.process_time() - start < 1


def test_a_launch_in_a_function_has_what_its_caller_set() -> None:
    text = f"{HEAD}void run(int* x, Graph g) {{ k<<<1, 4>>>(x); }}\nint main() {{ int h[N] = {{1, 2, 3, 4}}; {COPY} "
    (launch,) = launched(text + "Graph g = graph(N); run(d, g); }", "k")

    assert launch.host is not None
    octets, rows = contents(launch.host, "x"), contents(launch.host, "g.rows")
    assert octets is not None
    assert rows is not None
    assert octets.view(np.int32).tolist() == [1, 2, 3, 4]
    assert rows.view(np.int32).tolist() == [ONES, 0, 0, 0]
