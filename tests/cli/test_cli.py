"""The commands, as a user calls them: their output and their exit codes."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"

SYMBOLIC = """
from tilewright import T


@T.prim_func
def scaled(A_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    bx = T.cta_id([(n + 255) // 256])
    tid = T.thread_id([256])
    i = bx * 256 + tid
    if i < n:
        A[i] = A[i] * s
    if i == 0:
        T.printf("first %d\\n", i)


@T.prim_func
def broken(A: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    row = T.alloc_shared((64,), "float32")
    row[tid] = A[tid]
    A[tid] = row[63 - tid]


@T.jit
def filled(A: T.Buffer((32,), "int32"), *, N: T.constexpr):
    T.cta_id([1])
    lane = T.lane_id([32])
    A[lane] = N
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(SYMBOLIC, encoding="utf-8")
    return path


def call(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which has most imports behind it."""
    out, errors, modules = StringIO(), StringIO(), set(sys.modules)
    argv, sys.argv = sys.argv, ["tilewright", *map(str, words)]
    broken_pipe = signal.getsignal(signal.SIGPIPE)
    code: object = 0
    try:
        with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(errors):
            warnings.simplefilter("default")
            main()
    except SystemExit as left:
        code = left.code or 0
    finally:
        sys.argv = argv
        signal.signal(signal.SIGPIPE, broken_pipe)
        for name in {"kernels", "transpose"} & (set(sys.modules) - modules):  # files of the command line
            del sys.modules[name]
    assert isinstance(code, int)
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), errors.getvalue())


def in_a_process(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tilewright.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def printed(*words: object) -> str:
    done = call(*words)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout, "a pipe gets plain text"
    return done.stdout


@pytest.mark.parametrize("words", [("atom", "SM75_U16x4_LDSM_T"), ("run", "nowhere.py")])
def test_a_process_prints_and_leaves_as_a_call_does(words: tuple[str, ...]) -> None:
    done, here = in_a_process(*words), call(*words)

    assert (done.returncode, done.stdout, done.stderr) == (here.returncode, here.stdout, here.stderr)


def test_run_counts_what_the_kernel_did() -> None:
    text = printed("run", EXAMPLES / "transpose.py")

    assert "ptx.ldmatrix" in text
    assert "conflicts" in text


def test_run_takes_sizes_and_numbers_and_prints_what_the_kernel_prints(file: Path) -> None:
    text = printed("run", f"{file}:scaled", "--size", "n=1000", "--arg", "s=2.0")

    assert "(1000,)" in text
    assert "first 0" in text


def test_what_run_says_to_call_for_its_conflicts_can_be_called(tmp_path: Path) -> None:
    path = tmp_path / "two words.py"
    path.write_text(
        "from tilewright import T\n\n\n@T.jit\n"
        "def column(x: T.handle, y: T.handle, *, N: T.constexpr):\n"
        "    n = T.int32()\n"
        "    X, Y = T.match_buffer(x, (n,), 'float32'), T.match_buffer(y, (n,), 'float32')\n"
        "    lane = T.lane_id([32])\n"
        "    s = T.alloc_shared((32, N), 'float32')\n"
        "    if lane < n:\n"
        "        s[lane, 0] = X[lane]\n"
        "        Y[lane] = s[lane, 0]\n"
    )
    _, _, words = printed("run", f"{path}:column", "--const", "N=32", "--size", "n=30").partition("`tilewright ")

    assert "bank conflicts" in printed(*shlex.split(words.partition("`")[0]))


def test_run_takes_files_and_writes_arrays(file: Path, tmp_path: Path) -> None:
    data = np.arange(300, dtype=np.float32)
    np.save(tmp_path / "a.npy", data)

    printed("run", f"{file}:scaled", "--arg", f"A={tmp_path / 'a.npy'}", "--arg", "s=3.0", "--out", tmp_path / "out")

    assert np.array_equal(np.load(tmp_path / "out" / "A_ptr.npy"), data * 3)


def test_run_specialises_a_jit_kernel(file: Path, tmp_path: Path) -> None:
    printed("run", f"{file}:filled", "--const", "N=7", "--out", tmp_path)

    assert (np.load(next(tmp_path.glob("*.npy"))) == 7).all()


def test_a_check_that_fails_leaves_with_1_and_the_kernels_line(file: Path) -> None:
    done = call("run", f"{file}:broken")

    assert done.returncode == 1
    assert "kernels.py:" in done.stderr
    assert "race" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nowhere.py"], "no file nowhere.py"),
        (["run", "{file}:nothing"], "no kernel 'nothing'"),
        (["run", "{file}"], "several kernels"),
        (["run", "{file}:scaled"], "--size n=256"),
        (["run", "{file}:filled"], "--const"),
        (["run", "{file}:broken", "--check", "rases"], "did you mean 'races'"),
        (["run", "{file}:broken", "--arg", "Q=1"], "no parameter 'Q'"),
        (["lower", "{file}:broken", "--stage", "cubin"], "unknown stage"),
        (["lower", "{file}:broken", "--arch", "sm_91"], "sm_90"),
        (["layout", "S[(8, 4):(1)]", "--shape", "8,4"], "given"),
        (["layout", "S[(8, 4)]", "--by", "colour"], "lane, register, bank"),
        (["layout", "S[(8, 4):(4@laneid, 1@laneid)]", "--memory"], "registers have no memory"),
        (["layout", "S[(8, 4)]", "--svg", "nowhere/a.svg"], "nowhere/a.svg: No such file"),
        (["atom", "SM75_U32x4_LDSM_N", "--by", "bank"], "lane, register"),
        (["atom", "SM75_U32x4_LDSM_T"], "split between two threads"),
        (["atom", "SM80_16x8x16_F32F16F16F32_NT"], "SM80_16x8x16_F32F16F16F32_TN"),
        (["frobnicate"], "No such command"),
    ],
)
def test_a_wrong_call_leaves_with_2_and_says_what_is_allowed(words: list[str], message: str, file: Path) -> None:
    done = call(*(word.format(file=file) for word in words))

    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_lower_prints_each_stage(file: Path) -> None:
    place = f"{EXAMPLES / 'transpose.py'}:transpose"

    assert "Tx.cta.copy" in printed("lower", place, "--stage", "tile")
    assert "T.ptx.ldmatrix(T.bool(True), 4" in printed("lower", place, "--stage", "lowered")
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in printed("lower", place)
    assert ".target sm_90a" in printed("lower", place, "--stage", "ptx", "--arch", "sm_90a")
    assert "LDSM" in printed("lower", place, "--stage", "sass", "--arch", "sm_90a")


def test_explain_says_why_stmatrix_was_not_taken() -> None:
    text = printed("explain", f"{EXAMPLES / 'transpose.py'}:transpose", "--arch", "sm_80")

    assert "copy/ldstmatrix" in text
    assert "stmatrix exists on sm_90 and later, not on sm_80" in text


def test_layout_draws_a_table(golden, tmp_path: Path) -> None:
    drawn = tmp_path / "fragment.svg"

    text = printed("layout", "S[(8,4,2):(4@laneid,1@laneid,1)]", "--shape", "8,8", "--svg", drawn)

    golden("cli/layout.txt", text)
    assert drawn.read_text(encoding="utf-8").startswith("<svg")


def test_layout_draws_the_memory_as_well(tmp_path: Path) -> None:
    drawn = tmp_path / "tensor.svg"
    place = "S[(32, 16):(1@TLane, 1@TCol)] + R[4:32@TLane]"

    lines = printed("layout", place, "--dtype", "uint8", "--memory", "--svg", drawn).splitlines()

    assert lines[1].split()[:3] == ["lane", "/", "column"]
    assert lines[2 + 33].split() == ["33", "1,0..3", "1,4..7", "1,8..11", "1,12..15"]
    assert len(lines) == 2 + 128
    assert "31,12..15" in drawn.read_text(encoding="utf-8")


def test_all_pictures_of_an_atom_go_into_one_file(tmp_path: Path) -> None:
    drawn = tmp_path / "atom.svg"

    printed("atom", "SM75_U32x4_LDSM_N", "--svg", drawn)

    text = drawn.read_text(encoding="utf-8")
    assert all(f"SM75_U32x4_LDSM_N, matrix {k}" in text for k in range(4))
    assert "source in shared memory" in text
    assert list(tmp_path.iterdir()) == [drawn]


def test_layout_gives_json() -> None:
    grid = json.loads(printed("layout", "S[(4, 8):(8, 1)]", "--json"))

    assert [cell["words"] for cell in grid["rows"][1]["cells"]] == [str(i) for i in range(8, 16)]


@pytest.mark.parametrize(
    ("text", "row"),
    [("(4,8):(8,1)", range(8, 16)), ("(4,8):(1,4)", range(1, 32, 4)), ("((4,2),8):((1,32),4)", range(1, 32, 4)),
     ("Sw<3,4,3> o 0 o (8,64):(64,1)", range(64, 128))],
)  # fmt: skip
def test_layout_reads_the_notation_of_cute(text: str, row: range) -> None:
    grid = json.loads(printed("layout", text, "--json"))

    assert [cell["words"] for cell in grid["rows"][1]["cells"]] == [str(i) for i in row]


@pytest.mark.parametrize("text", ["(4,8):(8", "(4,8)", "(4,8):(8,1,2)", "Sw<3,4 o 0 o 8:1"])
def test_layout_says_what_is_wrong_with_a_text_of_cute(text: str) -> None:
    done = call("layout", text)

    assert done.returncode != 0
    assert "CuTe" in done.stderr
    assert "Traceback" not in done.stderr


def test_atom_draws_who_holds_what(golden) -> None:
    golden("cli/atom.txt", printed("atom", "SM75_U16x4_LDSM_T"))


def test_atom_draws_the_operands_of_an_mma(golden) -> None:
    golden("cli/atom_mma.txt", printed("atom", "SM75_16x8x8_F32F16F16F32_TN"))


def test_doctor_names_the_base_packages() -> None:
    assert "numpy" in printed("doctor")


def test_help_teaches_every_command() -> None:
    text = printed("--help")

    for command in ("demo", "run", "lower", "explain", "layout", "atom", "doctor"):
        assert command in text
        assert "Usage" in printed(command, "--help")


def test_tma_draws_where_each_box_lands() -> None:
    text = printed("tma", "SwizzleLayout(3, 3, 3)", "--shape", "8,64", "--box")

    assert "plan: g2c: a box of 8 x 64, 1024 bytes; 128-byte swizzle" in text
    assert "box 0: at (0, 0), to bytes 0 to 1023" in text
    assert ["1", "9", "8", "11", "10", "13", "12", "15", "14"] in [line.split() for line in text.splitlines()]


def test_tma_reads_the_notation_of_cute() -> None:
    own = printed("tma", "SwizzleLayout(3, 3, 3)", "--shape", "8,64", "--box").splitlines()
    cute = printed("tma", "Sw<3,3,3> o 0 o (8,64):(64,1)", "--box").splitlines()

    titles = [number for number, (one, other) in enumerate(zip(own, cute, strict=True)) if one != other]
    assert ["the 16 bytes of shared memory" in cute[number] for number in titles] == [True]


def test_tma_folds_a_tile_that_is_wider_than_a_box() -> None:
    facts = json.loads(printed("tma", "S[(8,512):(512,1)]", "--json"))

    assert facts["plan"] == "g2c: a box of 8 x 2 x 256, 8192 bytes; no swizzle"  # 256 elements at most


def test_tma_says_what_would_be_a_box() -> None:
    done = call("tma", "S[(8,64):(72,1)]")

    assert done.returncode == 2
    assert "8 boxes, one of them 144 bytes after the first" in done.stderr
    hint = done.stderr.partition("try:")[2].strip()
    assert hint.startswith("tilewright tma 'mma_shared_layout(\"float16\", SwizzleMode.SWIZZLE_128B_ATOM, (8, 64))'")
    assert "128-byte swizzle" in printed(*shlex.split(hint)[1:])


def test_the_version_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tilewright", "--version"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert capsys.readouterr().out == f"tilewright {tilewright.__version__}\n"
