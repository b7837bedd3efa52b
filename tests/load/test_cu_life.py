"""What host code does with arrays around a launch: what nothing sets, and what a loop leaves as the last turn has."""

from __future__ import annotations

import pytest

from tilewright.load.cu_launches import LaunchShape, launched
from tilewright.load.cu_life import (
    LaunchLoop,
    SetPart,
    filled_with,
    is_copied_to,
    launch_loop,
    set_in_part,
    unset,
)

HEAD = """
__global__ void k(const float* x, float* y, int n) {}
__global__ void begin(float* y) {}
__global__ void look(const float* y) {}
"""


def shape(body: str) -> LaunchShape:
    (launch,) = launched(f"{HEAD}void more(float*);\nint main() {{\n{body}\n}}\n", "k")
    return launch


def test_an_array_that_is_only_allocated_is_unset() -> None:
    launch = shape("float* y;\nCHECK(cudaMalloc((void**)&y, 400));\nk<<<1, 32>>>(x, y, 100);")

    assert launch.host is not None
    assert unset(launch.host, "y") == 8


@pytest.mark.parametrize(
    "between",
    ["cudaMemcpy(h, y, 400, cudaMemcpyDeviceToHost);", "look<<<1, 32>>>(y);", "if (y == nullptr) return 1;",
     "void* list[] = {&y};"],
)  # fmt: skip
def test_what_only_looks_at_an_array_does_not_set_it(between: str) -> None:
    launch = shape(f"float* y; cudaMalloc(&y, 400); {between} k<<<1, 32>>>(x, y, 100);")

    assert launch.host is not None
    assert unset(launch.host, "y") == 7


@pytest.mark.parametrize(
    "between",
    ["cudaMemset(y, 0, 400);", "cudaMemcpy(y, h, 400, cudaMemcpyHostToDevice);", "begin<<<1, 32>>>(y);", "more(y);",
     "float* z = y;", "y[0] = 1;", "std::swap(x, y);", "if (argc > 1) cudaMemsetAsync(y, 0, 400);"],
)  # fmt: skip
def test_what_may_set_an_array_does(between: str) -> None:
    launch = shape(f"float* y; cudaMalloc(&y, 400); {between} k<<<1, 32>>>(x, y, 100);")

    assert launch.host is not None
    assert unset(launch.host, "y") is None


@pytest.mark.parametrize("call", ["cudaMemset(y, 0, {});", "CHECK(cudaMemcpyAsync(y, h, {}, h2d, s));"])
def test_an_array_whose_first_bytes_are_set_is_set_in_part(call: str) -> None:
    part, whole = (shape(f"float* y;\ncudaMalloc(&y, 400);\n{call.format(n)}\nk<<<1, 32>>>(x, y, 100);").host
                   for n in (100, 400))  # fmt: skip

    assert part is not None
    assert set_in_part(part, "y") == SetPart(9, 100, 400)
    assert whole is not None
    assert set_in_part(whole, "y") is None


@pytest.mark.parametrize(
    "calls",
    ["cudaMemset(y, 0, 100); cudaMemset(y + 25, 0, 300);", "cudaMemset(y, 0, 100); begin<<<1, 32>>>(y);",
     "cudaMemcpy(y + 25, h, 300, h2d);", "cudaMemset(y, 0, unknown);", "cudaMemset2D(y, 100, 0, 20, 4);"],
)  # fmt: skip
def test_an_array_that_several_calls_set_or_an_unknown_part_of_it_counts_as_whole(calls: str) -> None:
    launch = shape(f"float* y; cudaMalloc(&y, 400); {calls} k<<<1, 32>>>(x, y, 100);")

    assert launch.host is not None
    assert set_in_part(launch.host, "y") is None


def test_an_array_of_the_caller_is_looked_for_there() -> None:
    text = """
__global__ void k(const float* x, float* y, int n) {}
void run(const float* x, float* y) { k<<<1, 32>>>(x, y, 100); }
int main() { float *a, *b; cudaMalloc(&a, 400); cudaMalloc(&b, 400); cudaMemset(a, 0, 400); run(a, b); }
"""
    (launch,) = launched(text, "k")

    assert launch.host is not None
    assert (unset(launch.host, "x"), unset(launch.host, "y")) == (None, 4)


@pytest.mark.parametrize(
    ("loop", "around"),
    [
        ("for (int i = 0; i < 9; ++i) { k<<<1, 32>>>(x, y, 100); }", LaunchLoop(7, ("x", "y"), ())),
        ("while (more()) k<<<1, 32>>>(x, y, 100); cudaMemcpy(h, y, 4, d2h);", LaunchLoop(7, ("x", "y"), ("y",))),
        ("for (int i = 0; i < 9; ++i) { cudaMemset(y, 0, 4); k<<<1, 32>>>(x, y, 100); }", LaunchLoop(7, ("x",), ())),
        ("for (int i = 0; i < 9; ++i) k<<<1, 32>>>(x, y, i);", None),
        ("for (int i = 0; i < 9; ++i) { k<<<1, 32>>>(x, y, 100); std::swap(x, y); }", None),
        ("for (int n = 32; n < 99; n *= 2) k<<<n / 32, 32>>>(x, y, 100);", None),
        ("k<<<1, 32>>>(x, y, 100);", None),
    ],
)
def test_a_loop_that_launches_the_same_again_keeps_what_it_does_not_set(loop: str, around: LaunchLoop | None) -> None:
    launch = shape(loop)

    assert launch.host is not None
    assert launch_loop(launch.host, ("x", "y", "100") if around else launch.words) == around


STRUCTURE = """
struct List { int* items; int* count; int room; };
__global__ void k(List list, int n) {}
"""


def of_structure(body: str, before: str = "") -> LaunchShape:
    text = f"{STRUCTURE}\n{before}\nint main() {{\nList list;\n{body}\nk<<<1, 32>>>(list, 100);\n}}\n"
    (launch,) = launched(text, "k")
    return launch


FILLED = {
    "here": ("cudaMalloc(&list.items, 400); SET", ""),
    "in a function by reference": ("begin(list);", "void begin(List& l) { cudaMalloc(&l.items, 400); SET }"),
    "in a function by address": ("begin(&list);", "void begin(List* l) { cudaMalloc(&l->items, 400); SET }"),
    "in one that returns it": ("list = begin();", "List begin() { List l; cudaMalloc(&l.items, 400); SET return l; }"),
}


@pytest.mark.parametrize("place", FILLED)
@pytest.mark.parametrize(
    ("set_by", "copied", "byte"),
    [("", False, 0), ("cudaMemset(L.items, 0xff, 400);", False, 255), ("cudaMemcpy(L.items, h, 400, kind);", True, 0)],
)
def test_members_of_a_structure_hold_what_host_code_sets_them_to(
    place: str, set_by: str, copied: bool, byte: int
) -> None:
    name = "list" if place == "here" else "l"
    written = set_by.replace("L.", f"{name}->" if place == "in a function by address" else f"{name}.")
    body, before = (text.replace("SET", written) for text in FILLED[place])

    host = of_structure(body, before).host

    assert host is not None
    assert host.number(host.allocation("list.items") or "") == 400
    assert (is_copied_to(host, "list.items"), filled_with(host, "list.items")) == (copied, byte)
    assert (unset(host, "list.items") is not None) == (not set_by)


def test_an_array_has_what_the_function_that_makes_it_fills_it_with() -> None:
    text = """
__global__ void k(int* x) {}
int* table(int n) { int* t; cudaMalloc(&t, n * sizeof(int)); cudaMemset(t, 0xff, n * sizeof(int)); return t; }
void run(int* x) { k<<<1, 32>>>(x); }
int main() { int* x = table(100); run(x); }
"""
    (launch,) = launched(text, "k")

    assert launch.host is not None
    assert (launch.allocated, filled_with(launch.host, "x"), unset(launch.host, "x")) == ({"x": 400}, 255, None)


@pytest.mark.parametrize("object_made", ["Work w(100);", "auto w = Work(100);", "Work w; w.begin(100);"])
@pytest.mark.parametrize(
    ("set_by", "later", "line"),
    [("", "", 5), ("cudaMemset(items, 0, 400);", "", None), ("", "w.clear();", None), ("", "w.unknown();", None)],
)
def test_an_array_that_a_constructor_only_allocates_is_unset(
    object_made: str, set_by: str, later: str, line: int | None
) -> None:
    text = f"""
__global__ void k(int* x) {{}}
struct Work {{
    int* items; Work() {{}}
    Work(int n) {{ cudaMalloc(&items, n * sizeof(int)); {set_by} }}
    void begin(int n) {{ cudaMalloc(&items, n * sizeof(int)); {set_by} }}
    void clear() {{ cudaMemset(items, 0, 400); }}
}};
int main() {{ {object_made} {later} k<<<1, 32>>>(w.items); }}
"""
    (launch,) = launched(text, "k")

    assert launch.host is not None
    assert launch.allocated == {"w.items": 400}
    assert unset(launch.host, "w.items") == (line and (6 if "begin" in object_made else line))
