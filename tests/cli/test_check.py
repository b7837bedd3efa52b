"""`tilewright check`: a kernel of a .cu or PTX file, on made arguments, with a verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ran
from tilewright.cli.argument_spec import argument_spec
from tilewright.errors import ArgumentError
from tilewright.verdict import SCHEMA, report_from

VADD = """
__global__ void vadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < LIMIT) c[i] = a[i] + b[i];
}
"""
ARGS = ["--grid", "4", "--block", "32", "--arg", "a:f32[100]=random", "--arg", "b:f32[100]=ramp", "--arg", "c:f32[100]",
        "--arg", "n=100"]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vadd.cu"
    path.write_text(VADD)
    return path


def test_a_clean_kernel_leaves_with_code_0(file: Path) -> None:
    code, out, _ = ran("check", file, *ARGS, "-D", "LIMIT=n")

    assert (code, out.splitlines()[0]) == (0, "vadd: clean")


def test_a_mistake_is_told_at_its_line_with_code_1(file: Path) -> None:
    code, out, err = ran("check", file, *ARGS, "-D", "LIMIT=n+1")

    assert code == 1
    assert "vadd.cu:4: load reads outside of b" in out
    assert (out.splitlines()[0], err) == ("vadd: wrong", "")  # a verdict is one stream


def test_programs_get_the_verdict_as_json(file: Path) -> None:
    code, out, _ = ran("check", file, *ARGS, "-D", "LIMIT=n+1", "--json")

    report = report_from(json.loads(out))
    (verdict,) = report.verdicts
    (finding,) = verdict.findings
    assert json.loads(out)["schema"] == SCHEMA
    assert (code, report.status, verdict.kernel, verdict.target) == (1, "wrong", "vadd", "sm_90a")
    assert (finding.kind, finding.line, finding.buffer) == ("bounds", 4, "b")


def test_a_variable_of_the_kernel_is_the_buffer_of_a_finding(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(float* a) {\n    __shared__ float tile[32];\n    tile[threadIdx.x] = a[threadIdx.x];\n"
        "    a[threadIdx.x] = tile[31 - threadIdx.x];\n}\n"
    )

    _, out, _ = ran("check", tmp_path / "k.cu", "--block", "32", "--arg", "f32[32]", "--json")

    (finding,) = report_from(json.loads(out)).verdicts[0].findings
    assert (finding.kind, finding.line, finding.buffer) == ("races", 4, "tile")


def test_what_cannot_be_run_is_part_of_the_json(file: Path) -> None:
    code, out, _ = ran("check", file, "--block", "32", "-D", "LIMIT=n", "--json")

    (verdict,) = report_from(json.loads(out)).verdicts
    assert (code, verdict.status, verdict.findings[0].kind) == (2, "refused", "argument")


@pytest.mark.parametrize(("begin", "code", "said"), [("0", 3, "stopped"), ("x[n]", 1, "wrong")])
def test_a_check_that_names_no_limit_ends_all_the_same(
    begin: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.cu"
    path.write_text(f"""__global__ void k(int* x, int n) {{
    int sum = {begin};
    for (unsigned u = 0; u < 4000000000u; ++u) {{ sum += x[u % n]; x[sum % n & 1] = u; __syncthreads(); }}
    x[0] = sum;
}}""")
    monkeypatch.setattr("tilewright.cli.verdicts.DEFAULT_SECONDS", 0.5)

    left, out, _ = ran("check", path, "--block", "1", "--arg", "x:i32[4]", "--arg", "n=4", "--no-both")

    assert left == code
    assert f"k: {said}" in out


def test_ptx_has_the_same_report_and_a_limit_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "spin.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry spin()\n"
                    "{ .reg .u64 t; .reg .pred p;\n"
                    "L: mov.u64 t, %clock64; setp.ne.u64 p, t, 1; @p bra L; ret; }\n")  # fmt: skip

    code, out, _ = ran("check", path, "--block", "32", "--limit", "100steps", "--json")

    report = report_from(json.loads(out))
    assert (code, report.status, report.verdicts[0].findings[0].kind) == (3, "stopped", "limit")


def test_a_toml_file_beside_it_says_what_is_run(file: Path) -> None:
    args = [text for text in ARGS if ":" in text or "=" in text]
    file.with_suffix(".toml").write_text(f"[[check]]\ngrid = 4\nblock = 32\nargs = {json.dumps(args)}\n")

    code, out, _ = ran("check", file, "-D", "LIMIT=n")

    assert (code, out.splitlines()[0]) == (0, "vadd: clean")


def test_a_missing_argument_and_an_unknown_kernel_leave_with_code_2(file: Path) -> None:
    code, _, err = ran("check", file, "--block", "32", "-D", "LIMIT=n")
    assert code == 2
    assert "try:     --arg a:f32[1024]=random" in err

    code, _, err = ran("check", file, "--kernel", "vad", *ARGS, "-D", "LIMIT=n")
    assert code == 2
    assert "did you mean 'vadd'" in err


def test_an_example_of_a_structure_is_one_that_it_takes(tmp_path: Path) -> None:
    text = """
struct Part { const float* x; int n; };
struct Queue { int* items; unsigned char* ready; Part parts[2]; float scale; };
__global__ void k(Queue q) { q.items[0] += q.ready[0] + q.parts[1].n * q.scale + q.parts[0].x[1]; }
"""
    (tmp_path / "k.cu").write_text(text)

    code, _, err = ran("check", tmp_path / "k.cu", "--block", "1")
    example = re.search("--arg '(.*)'", err)

    assert (code, example and example[1]) == (2, "q={i32[1024], u8[1024], {{f32[1024]=random, 7}, "
                                              "{f32[1024]=random, 7}}, 0.5}")  # fmt: skip
    assert example
    assert ran("check", tmp_path / "k.cu", "--block", "1", "--arg", example[1])[0] == 0


def test_a_structure_with_a_base_that_lacks_is_to_be_made_by_a_kernel(tmp_path: Path) -> None:
    text = "struct A { int n; };\nstruct B : A { float* x; };\n__global__ void k(B b) { b.x[0] = b.n; }\n"
    (tmp_path / "k.cu").write_text(text)

    code, _, err = ran("check", tmp_path / "k.cu", "--block", "1")

    assert code == 2
    assert "try:     --made-by KERNEL, a kernel of the file that makes b: B has a base, A" in err


def test_a_launch_of_a_sequence_that_is_given_no_array_of_it_says_so(file: Path) -> None:
    file.with_suffix(".toml").write_text(
        '[[sequence]]\narrays = ["x:f32[64]", "out:f32[64]"]\nlaunches = [\n'
        '  {kernel = "vadd", grid = 1, block = 64, args = ["x", "x", "ot", "n=64"]},\n]\n'
    )

    code, _, err = ran("check", file, "-D", "LIMIT=n")

    assert code == 2
    assert "no array of the sequence is called ot" in err
    assert "did you mean 'out'?" in err


def test_an_unknown_name_of_an_argument_is_no_argument_by_position(file: Path) -> None:
    code, _, err = ran("check", file, *ARGS[:-1], "nn=100", "-D", "LIMIT=n")

    assert code == 2
    assert "vadd has no parameter 'nn'" in err
    assert "allowed: a, b, c, n (did you mean 'n'?)" in err


def test_arguments_without_names_take_the_places_that_are_left(file: Path) -> None:
    args = ["--arg", "n=100", "--arg", "f32[100]=random", "--arg", "f32[100]=ones", "--arg", "f32[100]"]

    assert ran("check", file, "--grid", "4", "--block", "32", "-D", "LIMIT=n", *args)[0] == 0


NAMELESS = """.version 8.0\n.target sm_90\n.address_size 64
.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 a; .reg .b32 r; ld.param.u64 a, [k_param_0]; mov.u32 r, %tid.x; mad.wide.u32 a, r, 4, a;
    ld.global.u32 r, [a]; st.global.u32 [a], r; ret;
}
"""


def test_where_nobody_named_the_parameters_arguments_go_by_position_and_name_them(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(NAMELESS)

    _, out, _ = ran("check", path, "--block", "32", "--arg", "rows:i32[31]")

    assert "reads outside of rows" in out


DYNAMIC = """
__global__ void turned(float* x) {
    __shared__ float first[8];
    extern __shared__ float tile[];
    if (threadIdx.x < 8) first[threadIdx.x] = x[threadIdx.x];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x] + first[0];
}
"""


@pytest.mark.parametrize("smem", [0, 64])
def test_too_little_dynamic_shared_memory_says_how_much_is_needed(smem: int, tmp_path: Path) -> None:
    path = tmp_path / "turned.cu"
    path.write_text(DYNAMIC)
    args = [path, "--block", "64", "--arg", "x:f32[64]"]

    code, out, _ = ran("check", *args, "--smem", smem)

    assert code == 1
    assert f"allowed: {smem} bytes of dynamic shared memory, from byte 32 on" in out
    hint = out.partition("try:")[2].split()
    assert hint == ["--smem", "256"]
    assert ran("check", *args, *hint)[0] == 0


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        (("--no-propose", "--arg", "c:f32[100]", "--arg", "n=100"), "--grid 4 --block 256"),
        (("--block", "32", "--arg", "c:i32[100]", "--arg", "n=100"), "--arg c:f32[...]"),
        (("--block", "32"), "--arg c:f32[1024]=random --arg n=7"),
    ],
)
def test_hints_on_the_command_line_are_options(more: tuple[str, ...], hint: str, file: Path) -> None:
    given = ["--arg", "a:f32[100]", "--arg", "b:f32[100]", "-D", "LIMIT=n", *more]

    _, _, err = ran("check", file, *given)
    assert err.splitlines()[-1] == f"  try:     {hint}"

    _, out, _ = ran("check", file, *given, "--json")
    assert json.loads(out)["verdicts"][0]["findings"][0]["hint"] == hint


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("x:f32[2,2]=ones", "x", np.ones((2, 2), np.float32)),
        ("x:i8[3]", "x", np.zeros(3, np.int8)),
        ("u16[4]=7", None, np.full(4, 7, np.uint16)),
        ("n=0x10", "n", 16),
        ("s:f32=-1.5", "s", -1.5),
        ("3", None, 3),
        ("i:i64[3]=0,300,-6", "i", np.array([0, 300, -6])),
        ("y:f32[2,2]={1, 2.5, 3, inf}", "y", np.array([[1, 2.5], [3, np.inf]], np.float32)),
    ],
)
def test_arguments_are_read_as_they_are_written(text: str, name: str | None, value: object) -> None:
    spec = argument_spec(text)
    found, made = spec.name, spec.made(np.random.default_rng(0))

    assert found == name
    assert np.array_equal(made, value)  # type: ignore[arg-type]
    assert np.asarray(made).dtype == np.asarray(value).dtype


def test_a_structure_is_its_fields_in_braces() -> None:
    spec = argument_spec("g={7, {1, 2}, w:i32[2,2]=ramp, null}")
    name, (n, (x, y), array, nothing) = spec.name, spec.made(np.random.default_rng(0))

    assert (name, n, x, y, array.tolist(), nothing) == ("g", 7, 1, 2, [[0, 1], [2, 3]], None)


def test_random_numbers_have_the_range_that_is_asked_for() -> None:
    spec = argument_spec("s={7, x:i32[1000]=random(3,6)}")
    name, (n, made) = spec.name, spec.made(np.random.default_rng(0))

    assert (name, n, {*made.tolist()}) == ("s", 7, {3, 4, 5})


REVERSE = """
import tilewright as tw
from tilewright import T

@T.prim_func
def k(A: T.Buffer((32,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([32])
    A[tid] = A[31 - tid]
"""
NOT_JUDGED = {
    "a header is missing": (
        "k.cu",
        '#include "absent.h"\n__global__ void k(int* a) { a[0] = there(); }',
        "there is no header absent.h",
    ),
    "NVRTC refuses the text": ("k.cu", "__global__ void k(int* a) { a[0] = oops; }", "NVRTC refuses the device code"),
    "no kernel is in the file": ("k.cu", "int main() { return 0; }", "the file has no kernel"),
    "another kernel is asked for": ("k.cu:q", "__global__ void k() {}", "no kernel"),
    "a surface is read": (
        "k.cu", "__global__ void k(cudaSurfaceObject_t t, float* a) { *a = surf1Dread<float>(t, 0); }", "not supported",
    ),
    "PTX does not parse": ("k.ptx", ".version 8.0\n.target sm_90\n.entry k( { }", "PTX expects"),
    "Python does not parse": ("k.py", "def f(:", "SyntaxError"),
    "the file fails": ("k.py", "raise RuntimeError('at once')", "RuntimeError: at once"),
    "no kernel is in a module": ("k.py", "", "has no kernels"),
    "a kernel has an unknown name": ("k.py", REVERSE.replace("A[31", "Q[31"), "Q is not defined"),
    "the file is not there": ("absent.py", "", "there is no file"),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_JUDGED)
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_where_nothing_was_judged_the_exit_code_is_2(what: str, option: tuple[str, ...], tmp_path: Path) -> None:
    name, text, why = NOT_JUDGED[what]
    if not name.startswith("absent"):
        (tmp_path / name.partition(":")[0]).write_text(text)
    launch = [] if ".py" in name else ["--grid", "1", "--block", "32"]
    arguments = ["--arg", "t=0"] * ("Surface" in text) + ["--arg", "a:f32[32]"] * ("* a" in text)

    code, out, err = ran("check", tmp_path / name, *launch, *arguments, "--no-both", *option)

    assert code == 2
    assert why in out + err
    if option:
        assert json.loads(out)["status"] == "refused"


@pytest.mark.parametrize("launch", [["--size", "grid(n)=1"], ["--size", "m=1"], ["--block", "32", "--size", "n=1"]])
def test_a_size_that_nothing_reads_is_refused(launch: list[str], tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("""
        __global__ void k(int* a, int n) { if (threadIdx.x < n) a[threadIdx.x] = 1; }
        int grid(int n);
        void host(int* a, int n) { k<<<grid(n), 32>>>(a, n); }
    """)

    code, _, err = ran("check", path, *launch, "--arg", "a:i32[32]", "--arg", "n=32")

    assert code == 2
    assert f"--size {launch[-1].partition('=')[0]}" in err


@pytest.mark.parametrize(
    ("size", "told"),
    [("q=64", "allowed: count, width; "), ("cout=64", "allowed: count, width (did you mean 'count'?); ")],
)
def test_a_size_that_host_code_lacks_is_refused_with_those_that_it_has(size: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("""
        __global__ void k(int* a, int n) { if (threadIdx.x < n) a[threadIdx.x] = 1; }
        void host(int* a, int count, int width) { k<<<(count * width + 255) / 256, 256>>>(a, count * width); }
    """)

    code, _, err = ran("check", path, "--size", size)

    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("sizes", "hint"),
    [(("n=64",), "try:     --arg n=64\n"), (("n=64", "m=2"), "try:     --arg n=64\n"), (("a=64",), None)],
)
def test_a_size_beside_a_grid_is_refused_with_the_argument_that_it_may_be(
    sizes: tuple[str, ...], hint: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(int* a, int n) { if (threadIdx.x < n) a[threadIdx.x] = 1; }")

    code, _, err = ran("check", path, "--grid", "1", "--block", "64", *(f"--size={size}" for size in sizes))

    assert code == 2
    assert "this launch is not from there" in err
    assert ("try:" in err) == (hint is not None)
    assert hint is None or hint in err


def test_an_argument_may_be_the_array_of_another_one(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("__global__ void k(const float* a, float* c) { c[threadIdx.x] = a[63 - threadIdx.x]; }")
    launch = [file, "--block", "64", "--arg", "a:f32[64]=ramp"]

    apart, (code, out, _) = ran("check", *launch, "--arg", "c:f32[64]"), ran("check", *launch, "--arg", "c=a")

    assert apart[0] == 0
    assert (code, "race" in out) == (1, True)


def test_an_array_takes_memory_where_it_is_used() -> None:
    made = argument_spec("x:i8[8000000000]").made(np.random.default_rng(0))
    other = argument_spec("x:f32[3000000000]=random").made(np.random.default_rng(0))

    assert (made.nbytes, other.nbytes) == (8_000_000_000, 12_000_000_000)
    assert other[0]
    assert other[-1]


@pytest.mark.parametrize("text", ["x:f33[2]", "x:f32[2]=many", "x=word", "x=absent.npy", "x:i32[3]=1,2",
                                  "x:i8[2]=1,300", "x:i32[4]=random(5,5)", "x:i8[99999999999999]"])  # fmt: skip
def test_what_is_no_argument_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        argument_spec(text).made(np.random.default_rng(0))


@pytest.mark.parametrize("name", [".", "/", "", "no/such/folder/kernel"])
def test_what_is_no_file_is_refused_in_words(name: str) -> None:
    code, _, err = ran("check", name)

    assert code == 2
    assert "there is no file" in err
    assert "allowed: FILE.py, FILE.cu or FILE.ptx" in err


KERNELS = """
from tilewright import T


@T.prim_func
def scaled(x: T.handle):
    rows = T.int32()
    X = T.match_buffer(x, (rows, 32), "float32")
    row = T.cta_id([rows])
    lane = T.thread_id([32])
    X[row, lane] = X[row, lane] * 2.0


@T.prim_func
def plain(A: T.Buffer((32,), "float32")):
    T.cta_id([1])
    lane = T.thread_id([32])
    A[lane] = 1.0
"""


@pytest.mark.parametrize(
    ("sizes", "statuses"),
    [
        ([], {"scaled": "refused", "plain": "clean"}),
        (["--size", "rows=3"], {"scaled": "clean", "plain": "clean"}),
        (["--size", "colums=3"], {"scaled": "refused", "plain": "refused"}),
    ],
)
def test_each_kernel_of_a_file_has_a_verdict(sizes: list[str], statuses: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)

    _, out, _ = ran("check", path, "--json", *sizes)

    assert {each["kernel"]: each["status"] for each in json.loads(out)["verdicts"]} == statuses


@pytest.mark.parametrize("option", [("--sequence",), ("--grid", "4"), ("--profile", "H200"), ("-D", "N=4")])
def test_an_option_that_a_python_file_does_not_read_is_refused(option: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    code, out, err = ran("check", path, *option, "--size", "rows=3")
    assert (code, out) == (2, "")
    assert f"these options are of .cu and .ptx files [argument]\n  given:   {option[0]}\n" in err


def test_wide_clusters_are_asked_for_by_an_option(file: Path) -> None:
    given = ["--grid", "16", "--cluster", "16", *ARGS[2:], "-D", "LIMIT=n", "--no-both"]

    code, _, err = ran("check", file, *given)
    assert code == 2
    assert "try:     --non-portable-cluster" in err

    code, out, _ = ran("check", file, *given, "--non-portable-cluster")
    assert (code, out.splitlines()[0]) == (0, "vadd: clean")


def test_an_unknown_gpu_is_refused_before_the_run(file: Path) -> None:
    code, out, err = ran("check", file, "-D", "LIMIT=n", *ARGS, "--profile", "H20")
    assert (code, out) == (2, "")
    assert "unknown GPU 'H20'" in err


@pytest.mark.parametrize(
    ("launch", "why"),
    [("n / 2 / 32, 32", "grid is one to three numbers"),
     ("dim3(1, 70000 * n), 32", "grid is larger than a launch takes"),
     ("1, dim3(64 * n, 32)", "too many threads")],
)  # fmt: skip
def test_a_launch_of_host_code_that_a_gpu_refuses_is_a_mistake_at_its_line(
    launch: str, why: str, tmp_path: Path
) -> None:
    kernel = "__global__ void half(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] /= 2; }"
    (tmp_path / "half.cu").write_text(f"{kernel}\nvoid halve(float* x, int n) {{\n    half<<<{launch}>>>(x, n);\n}}\n")

    code, _, complaints = ran("check", tmp_path / "half.cu", "--size", "n=1", "--arg", "x:f32[1]")

    assert code == 1
    assert re.search(rf"half\.cu:3: this launch of half fails: .*{why}", complaints)


def test_structures_of_the_command_line_may_hold_others() -> None:
    spec = argument_spec("lists={{{f32[2]=ramp},{f32[3]}},{2,3},{},0}")
    name, lists = spec.name, spec.made(np.random.default_rng(0))

    ((first,), (second,)), *others = lists
    assert (name, first.tolist(), second.shape) == ("lists", [0, 1], (3,))
    assert others == [(2, 3), (), 0]


def test_headers_come_from_the_project_where_one_alone_has_the_name(file: Path) -> None:
    (file.parent / "setup.py").touch()
    for folder in ("include/parts", "src"):
        (file.parent / folder).mkdir(parents=True)
    (file.parent / "include/parts/limit.h").write_text('#include "word.h"\n#define LIMIT WORD\n')
    (file.parent / "include/word.h").write_text("#define WORD n\n")
    moved = file.parent / "src/vadd.cu"
    moved.write_text(f'#include "parts/limit.h"\n{file.read_text()}')

    assert ran("check", moved, *ARGS)[0] == 0

    for copy in ("built/include", "built/src", "src/include"):  # the nearest one is that beside the file
        (file.parent / copy / "parts").mkdir(parents=True)
        (file.parent / copy / "parts/limit.h").write_text("#error" if "built" in copy else "#define LIMIT n\n")
    assert ran("check", moved, *ARGS)[0] == 0

    (file.parent / "include/limit.h").touch()
    moved.write_text(moved.read_text().replace("parts/", "gone/"))
    code, _, err = ran("check", moved, *ARGS)
    assert code
    assert "there is no header gone/limit.h" in err


SEQUENCE = """
[[sequence]]
arrays = ["x:f32[64]"]
launches = [
  {kernel = "fill", grid = 1, block = 64, args = ["x"]},
  {kernel = "turn", grid = 1, block = 64, args = ["x"]},
]
"""
TURN = """
__global__ void fill(float* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void turn(float* x) {
    x[threadIdx.x] = x[63 - threadIdx.x];
}
"""


def test_a_finding_of_a_sequence_has_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(TURN)
    (tmp_path / "turn.toml").write_text(SEQUENCE)

    code, out, _ = ran("check", tmp_path / "turn.cu")

    assert code == 1
    assert "   4 |     x[threadIdx.x] = x[63 - threadIdx.x];\n     |     ^" in out


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('args = ["x"]},\n]', 'args = ["y"]},\n]', "turn.toml:6: no array of the sequence is called y"),
        ("x:f32[64]", "x:f33[64]", "turn.toml:3: unknown type 'f33'"),
        ('"turn", grid', '"turn", gird', "turn.toml:6: unknown key gird"),
        ('kernel = "turn"', 'kernel = "tun"', "turn.toml:6: tun is no kernel of this module"),
        ('block = 64, args = ["x"]},\n  {', 'block = "b", args = ["x"]},\n  {', "turn.toml:5: these are no numbers"),
        ('arrays = ["x:f32[64]"]', 'arrays = "x:f32[64]"', "turn.toml:3: arrays is a list"),
        ("[[sequence]]", "sequence = 3", "turn.toml: sequence is no table"),
    ],
)
def test_what_is_wrong_in_a_toml_file_is_told_at_its_line(right: str, wrong: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(TURN)
    (tmp_path / "turn.toml").write_text(SEQUENCE.replace(right, wrong))

    code, _, err = ran("check", tmp_path / "turn.cu")

    assert code == 2
    assert said in err


HOST = """
struct Line { float a, b; };
struct Queue { int* items; int* head; int room; };
__constant__ float taps[3];
__device__ int limit;
__global__ void k(float* x, Line line, Queue q, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i < limit) x[i] = line.a * taps[i % 3] + line.b;
    if (i < q.room) q.items[i] = *q.head;
}
int main() {
    const int n = 100;
    float h[] = {1.f, 2.f, 3.f};
    int most = 50;
    cudaMemcpyToSymbol(taps, h, sizeof(h));
    cudaMemcpyToSymbol(limit, &most, sizeof(int));
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    Line line{2.f, 0.5f};
    Queue q;
    q.room = 20;
    cudaMalloc(&q.items, q.room * sizeof(int));
    cudaMalloc(&q.head, sizeof(int));
    cudaMemset(q.head, 0, sizeof(int));
    k<<<(n + 63) / 64, 64>>>(x, line, q, n);
}
"""


def test_structures_and_variables_are_as_host_code_fills_them(tmp_path: Path) -> None:
    (tmp_path / "host.cu").write_text(HOST)

    code, out, err = ran("check", tmp_path / "host.cu")

    assert (code, out.splitlines()[0]) == (0, "k: clean")
    assert "x:f32[100]=random line={2.0, 0.5} q={i32[20], i32[1], 20} n=100 taps:f32[3]=1.0,2.0,3.0 limit=50" in err


def test_a_structure_that_host_code_does_not_fill_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "host.cu").write_text(HOST.replace("    q.room = 20;\n", "").replace("q.room *", "20 *"))

    code, _, err = ran("check", tmp_path / "host.cu", "--no-propose")

    assert code == 2
    assert "no value of Queue q" in err
    assert "--arg 'q={i32[1024], i32[1024], 7}'" in err


@pytest.mark.parametrize(
    ("parameters", "words", "said"),
    [
        ("float* x, int n", "taken(), 300", "--arg x:f32[300]=random"),
        ("float* x, int rows, int cols", "taken(), 30, 40", "--arg x:f32[1200]=random"),
        ("double* x", "taken()", "--arg x:f64[256]=random"),
    ],
)
def test_an_array_that_host_code_does_not_say_has_the_size_that_the_bounds_ask_for(
    parameters: str, words: str, said: str, tmp_path: Path
) -> None:
    text = f"__global__ void k({parameters}) {{ x[0] = 1; }}\nint main() {{ k<<<4, 64>>>({words}); }}\n"
    (tmp_path / "k.cu").write_text(text)

    assert said in ran("check", tmp_path / "k.cu", "--no-propose")[2]
