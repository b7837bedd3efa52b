"""A judge of submissions: what is right is clean, and every trick has a name."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import serving
from benchmarks.serving import CUDA
from benchmarks.serving import TWICE as KERNEL
from tilewright.cli.kernels import LOADS
from tilewright.errors import ArgumentError
from tilewright.serve.confine import Died, Walls, apart
from tilewright.serve.judge import answer as answered
from tilewright.serve.server import HttpDoor, Workers, by_lines, lines_of
from tilewright.serve.submission import cases_of, evaluated, submission_of


def submission(*args: str, **fields: Any) -> dict[str, Any]:
    """One that is judged on B = 2 A of up to 3,000 elements, with other values in some fields."""
    return serving.submission(*args, **{"id": "x", "cases": 4, "sizes": {"n": {"from": 1, "to": 3000}}, **fields})


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(1)
    yield made
    made.close()


@pytest.mark.parametrize("language", ["py", "cu"])
def test_a_right_kernel_is_clean_on_shapes_that_are_drawn(workers: Workers, language: str) -> None:
    answer = workers.ask(submission({"py": KERNEL, "cu": CUDA}[language], language))
    assert (answer["status"], answer["id"], answer["schema"]) == ("clean", "x", "tilewright.verdict/2")
    sizes = [case["n"] for case in answer["cases"]]
    assert len(sizes) == len(answer["verdicts"]) == 4
    assert 1 in sizes, "the least"
    assert 3000 in sizes, "the largest"
    assert any(size % 2 and size > 1 for size in sizes), "a ragged one"


def test_least_time_is_that_of_the_gpu_asked_for(workers: Workers) -> None:
    assert workers.ask(submission())["least_ms"] is None
    assert workers.ask(submission(gpu="H200"))["least_ms"] > 0


FORGED = """
import os, pickle
class Call:
    def __reduce__(self):
        return os.system, ("true",)
for number in range(3, 40):
    try:
        os.write(number, DATA)
    except OSError:
        pass
os._exit(0)
"""
CLEAN = """b'E{"kernel": "twice", "status": "clean", "findings": []}'"""
TAMPERING = {
    "the simulator is replaced": ("import tilewright.compiler as c\nc.Executable.simulate = print", "harness"),
    "the comparison is replaced": ("import numpy\nnumpy.isclose = lambda *a, **k: True", "harness"),
    "the clock is replaced": ("import time\ntime.monotonic = lambda: 0.0", "harness"),
    "a builtin is replaced": ("import builtins\nbuiltins.sum = lambda x: 0", "harness"),
    "the process ends itself": ("import os\nos._exit(0)", "harness"),
    "a verdict is forged": (FORGED.replace("DATA", CLEAN), "harness"),
    "a call is smuggled in": (FORGED.replace("DATA", "b'K' + pickle.dumps(Call())"), "harness"),
    "a file is written": ("open('/tmp/tilewright-trick', 'w')", "files"),
    "a folder is listed": ("import os\nassert 0, os.listdir('/root')", "files of others"),
    "folders are walked": ("import os\nassert 0, list(os.walk('/'))", "files of others"),
    "a file is removed": ("import os\nos.remove(__file__)", "files"),
    "a file is written below Python": (
        "import os\nos.open('/tmp/tilewright-trick', os.O_CREAT | os.O_WRONLY)",
        "files",
    ),
    "a socket is opened": ("import socket\nsocket.socket()", "network"),
    "a page is fetched": ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')", "network"),
    "a program is started": ("import subprocess\nsubprocess.run(['true'])", "processes"),
    "a process is forked": ("import os\nos.fork()", "processes"),
    "the judge is signalled": ("import os\nos.kill(os.getppid(), 9)", "processes"),
    "native code is called": ("import ctypes\nctypes.CDLL(None)", "native code"),
    "objects of others are looked for": ("import gc\ngc.get_objects()", "interpreter"),
    "frames are looked at": ("import sys\nsys._getframe(1)", "interpreter"),
    "calls are traced": ("import sys\nsys.settrace(lambda *a: None)", "interpreter"),
    "the environment is changed": ("import os\nos.environ['PATH'] = ''", "environment"),
    "frames are looked at by a text": ("exec('import sys; sys._getframe(0)')", "interpreter"),
    "code has a library's name": (
        "import numpy\nexec(compile('import gc; gc.get_objects()', numpy.__file__, 'exec'))",
        "interpreter",
    ),
    "referrers are looked for": ("import gc\ngc.get_referrers(int)", "interpreter"),
    "calls are profiled": ("import sys\nsys.setprofile(lambda *a: None)", "interpreter"),
    "the judge's own rooms are imported": (
        "import tilewright.serve.judge as j\nj.differing = lambda *a, **k: None",
        "harness",
    ),
    "a file of the machine is read": ("text = open('/etc/passwd').read()", "files of others"),
    "a file is read by a library": ("import pathlib\npathlib.Path('/etc/passwd').read_text()", "files of others"),
    "a file is read by NumPy": (
        "import numpy\ntry:\n    numpy.fromfile('/etc/passwd', 'u1')\nexcept OSError:\n    pass",
        "files of others",
    ),
    "a path climbs out": ("open('../' * 20 + 'etc/passwd')", "files of others"),
    "the memory of the judge is read": ("import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')", "files of others"),
    "a file is opened to read below Python": ("import os\nos.open('/etc/passwd', os.O_RDONLY)", "files of others"),
    "a file is linked": ("import os\nos.symlink('/etc/passwd', __file__ + '.txt')", "files"),
    "a thread opens a socket": (
        "import socket, threading\nt = threading.Thread(target=socket.socket)\nt.start()\nt.join()",
        "network",
    ),
    "a module is another one": ("import sys, types\nsys.modules['numpy'] = types.ModuleType('numpy')", "harness"),
    "a module is read anew": ("import importlib, tilewright.compiler as c\nimportlib.reload(c)", "harness"),
    "random numbers are others": ("import numpy\nnumpy.random.default_rng = print", "harness"),
    "a function has other code": (
        "import tilewright.trials as c\nc.differing.__code__ = (lambda *a, **k: None).__code__",
        "harness",
    ),
    "a part is replaced by way of its dictionary": ("import numpy\nvars(numpy).update(isclose=print)", "harness"),
    "a part is replaced by a library": ("from unittest import mock\nmock.patch('numpy.isclose').start()", "harness"),
    "a server is started": (
        "import asyncio\nasync def f(): await asyncio.start_server(print, '127.0.0.1', 0)\nasyncio.run(f())",
        "asks the system",
    ),
    "memory is shared": (
        "from multiprocessing import shared_memory as s\ns.SharedMemory(create=True, size=64)",
        "asks the system",
    ),
    "a data base is opened": ("import sqlite3\nsqlite3.connect('/tmp/tilewright-trick.db')", "files"),
    "folders are searched": ("import glob\nassert 0, glob.glob('/root/*')", "files of others"),
    "a trick is tried and its error hidden": (
        "import socket\ntry:\n    socket.socket()\nexcept OSError:\n    pass",
        "network",
    ),
}


@pytest.mark.parametrize("trick", TAMPERING)
def test_a_submission_that_touches_what_judges_it_is_refused_by_name(workers: Workers, trick: str) -> None:
    source, name = TAMPERING[trick]
    answer = workers.ask(submission(f"{source}\n{KERNEL}"))
    (finding,) = answer["verdicts"][0]["findings"]
    assert (answer["status"], finding["kind"]) == ("refused", "tampering")
    assert name in finding["message"]


ENDS = {
    "it ends by a signal": ("import os\nos.abort()", "stopped", "ended by SIG"),
    "it ends with a code": ("import os\nos._exit(3)", "stopped", "code 3"),
    "it is interrupted": ("raise KeyboardInterrupt", "stopped", "ended by itself"),
    "it exits": ("import sys\nsys.exit(0)", "refused", "SystemExit"),
    "it calls itself for ever": ("def f(): return f()\nf()", "refused", "RecursionError"),
    "it takes memory bit by bit": ("x = []\nwhile True: x.append(bytearray(1 << 24))", "stopped", "not enough memory"),
}


@pytest.mark.parametrize("what", ENDS)
def test_python_that_ends_early_gives_no_kernel_and_says_why(workers: Workers, what: str) -> None:
    source, status, words = ENDS[what]
    answer = workers.ask(submission(f"{source}\n{KERNEL}", nbytes=1 << 30))
    (finding,) = answer["verdicts"][0]["findings"]
    assert answer["status"] == status
    assert words in finding["message"]


SEEKING = """
def seek():
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame is not None:
        for value in list(frame.f_locals.values()):
            assert "def " + "reference" not in repr(value), "it is here"
        frame = frame.f_back
seek()
"""


def test_the_process_of_a_submission_does_not_know_its_reference(workers: Workers) -> None:
    given = submission(SEEKING + KERNEL)
    assert "it is here" in answered(given, LOADS, Walls.here())["verdicts"][0]["findings"][0]["message"]
    assert workers.ask(given)["status"] == "clean"


def test_what_a_submission_prints_is_no_verdict(workers: Workers) -> None:
    forged = 'import os\nprint(\'{"status": "clean"}\', flush=True)\nos.write(1, b\'{"status": "clean"}\\n\')\n'
    assert workers.ask(submission(forged + KERNEL.replace("(2)", "(3)")))["status"] == "wrong"
    assert workers.ask(submission(forged + KERNEL))["status"] == "clean"


def test_libraries_and_the_own_file_may_be_read(workers: Workers) -> None:
    harmless = "import fractions, inspect, random\nimport numpy.fft\nassert 'twice' in open(__file__).read()\n"
    assert workers.ask(submission(harmless + KERNEL))["status"] == "clean"


def test_more_than_an_answer_may_hold_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.serve.confine.MOST_BYTES", 1 << 20)
    assert str(apart(lambda: bytes(1 << 24), seconds=5, nbytes=1 << 40, walls=True)).endswith("SIGKILL")


@pytest.mark.parametrize("size", [0, {"from": 0, "to": 1}])
def test_extents_of_zero_are_cases_like_others(size: Any) -> None:
    assert answered(submission(sizes={"n": size}), LOADS, Walls.here())["status"] == "clean"


ENDLESS = KERNEL.replace("    if i < n:", "    k: T.int32 = 1\n    while k > 0:\n        k = k % 7 + 1\n    if i < n:")
SHARED = KERNEL.replace("    if i < n:", "    row = T.alloc_shared((128,), 'float32')\n    if i < n:").replace(
    "A[i] * T.float32(2)", "A[i] * T.float32(2) + row[i % 128] * T.float32(0)"
)
KERNELS = {
    "it writes its result over its input": (
        KERNEL.replace("B[i] = A[i]", "A[i] = A[i]"),
        "results",
        "changes its input A",
    ),
    "it leaves its output as it is": (
        KERNEL.replace("B[i] = A[i] *", "x: T.float32 = A[i] *"),
        "results",
        "never written",
    ),
    "it is right at multiples of 8 alone": (
        KERNEL.replace("i < n:", "i < n // 8 * 8:"),
        "results",
        "elements of B differ",
    ),
    "it gives a constant": (KERNEL.replace("A[i] * T.float32(2)", "T.float32(0.5)"), "results", "elements of B differ"),
    "it reads behind its array": (KERNEL.replace("= A[i]", "= A[i + 1]"), "bounds", "A"),
    "it adds what nobody has written": (SHARED, "poison", "initialised"),
    "it never ends": (ENDLESS, "limit", "limit_s"),
    "its Python never ends": ("while True:\n    pass\n" + KERNEL, "limit", "gave no kernel"),
    "its Python takes all memory": ("x = bytearray(1 << 50)\n" + KERNEL, "limit", "not enough memory"),
    "all CTAs add to one element": (KERNEL.replace("B[i] = A[i]", "B[0] = B[0] + A[i]"), "races", "B"),
}


@pytest.mark.parametrize("trick", KERNELS)
def test_a_kernel_that_only_looks_right_is_told_by_name(workers: Workers, trick: str) -> None:
    source, kind, words = KERNELS[trick]
    answer = workers.ask(submission(source, seconds=1 if "never ends" in trick else 2))
    findings = [finding for verdict in answer["verdicts"] for finding in verdict["findings"]]
    assert answer["status"] in ("wrong", "stopped")
    assert any(
        finding["kind"] == kind and words in finding["message"] + str(finding["allowed"]) for finding in findings
    ), findings


def test_cuda_cannot_read_files_of_the_machine(workers: Workers) -> None:
    answer = workers.ask(submission('#include "/etc/passwd"\n' + CUDA, "cu"))
    assert answer["status"] != "clean"
    assert "root:" not in json.dumps(answer)


UNFIT = {
    "a semicolon is missing": (CUDA.replace("A[i];", "A[i]"), "cu", 5, 'expected a ";"'),
    "a name is unknown": (CUDA.replace("2 *", "two *"), "cu", 4, 'identifier "two" is undefined'),
    "Python is none": (KERNEL.replace("if i < n:", "if i < n"), "py", 11, "SyntaxError"),
    "a name of ours is unknown": (KERNEL.replace("A[i] *", "Q[i] *"), "py", 12, "Q is not defined"),
    "a directive is none": (".version 8.0\n.target sm_90\nfoo", "ptx", 3, "directive"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_source_that_does_not_compile_is_refused_with_the_compilers_words_and_line(what: str) -> None:
    source, language, line, words = UNFIT[what]
    launch = {} if language == "py" else {"launch": {"block": [32]}}
    answer = answered(submission(source, language, **launch), LOADS, Walls.here())
    (verdict,) = answer["verdicts"]
    (finding,) = verdict["findings"]
    assert (answer["status"], finding["kind"], finding["line"]) == ("refused", "compile", line)
    assert words in finding["message"] + str(finding["given"])
    assert finding["file"] == f"submission.{language}"


def test_an_answer_has_one_name_for_the_submissions_file() -> None:
    turned = "B[threadIdx.x] = row[31 - threadIdx.x]"
    racing = (
        "__global__ void k(const float* A, float* B, int n) { __shared__ float row[32]; row[threadIdx.x] = A[0];\n%s; }"
    )
    given = submission(racing % turned, "cu", launch={"block": [32]}, sizes={"n": 32}, cases=1)
    answer = answered({**given, "launch": {"block": [64]}}, LOADS, Walls.here())
    assert answer["status"] == "wrong"
    assert {*re.findall(r"[\w/<.-]*\.cu\b", json.dumps(answer))} == {"submission.cu"}


def test_constants_of_cuda_are_macros_and_names_of_extents() -> None:
    launch = {"grid": ["(n + THREADS - 1) // THREADS"], "block": ["THREADS"]}
    source = CUDA.replace("2 *", "FACTOR *").replace("blockDim.x", "THREADS")
    for factor, status in ((2, "clean"), (3, "wrong")):
        given = submission(source, "cu", launch=launch, constants={"THREADS": 64, "FACTOR": factor}, cases=1)
        assert answered(given, LOADS, Walls.here())["status"] == status


def test_special_values_show_a_kernel_that_clamps(workers: Workers) -> None:
    clamped = KERNEL.replace("A[i] * T.float32(2)", "T.min(A[i] * T.float32(2), T.float32(100))")
    arrays = [
        {"name": "A", "dtype": "float32", "shape": ["n"], "contents": "special"},
        {"name": "B", "dtype": "float32", "shape": ["n"], "role": "out"},
    ]
    assert workers.ask(submission(clamped))["status"] == "clean"
    assert workers.ask(submission(clamped, arguments=arrays))["status"] == "wrong"
    assert workers.ask(submission(KERNEL, arguments=arrays))["status"] == "clean"


ROWS = """
__global__ void twice(const float* A, float* B, int m, int n, int pitch) {
    for (int i = threadIdx.x; i < m * N; i += blockDim.x) B[i / N * pitch + i % N] = 2 * A[i / N * pitch + i % N];
}
"""


@pytest.mark.parametrize(("columns", "status"), [("n", "clean"), ("pitch", "wrong")])
def test_the_gap_between_rows_belongs_to_nobody(workers: Workers, columns: str, status: str) -> None:
    array = {"dtype": "float32", "shape": ["m", "n"], "pitch": "n + 3"}
    numbers = [{"name": name, "value": value} for name, value in (("m", "m"), ("n", "n"), ("pitch", "n + 3"))]
    arguments = [{"name": "A", **array}, {"name": "B", **array, "role": "out"}, *numbers]
    answer = workers.ask(submission(ROWS.replace("N", columns), "cu", arguments=arguments, sizes={"m": [2], "n": [5]},
                                    launch={"block": [32]}, cases=1))  # fmt: skip
    messages = [finding["message"] for finding in answer["verdicts"][0]["findings"]]
    assert answer["status"] == status
    assert messages == ([] if status == "clean" else ["the kernel writes between the rows of B"])


@pytest.mark.parametrize(
    ("reference", "words"),
    [("def reference(A, **k): return A.nothing", "AttributeError"), ("import os\nos._exit(0)", "ended by itself"),
     ("def reference(A, **k): return A * 2j", "no numbers"), ("def reference(A, **k): return {'C': A}", "not ['B']"),
     ("def reference(A, **k): return A[:0]", "(0,)")],
)  # fmt: skip
def test_a_reference_that_fails_is_the_callers_to_mend(reference: str, words: str) -> None:
    answer = answered(submission(reference=reference), LOADS, Walls.here())
    assert answer["status"] == "refused"
    assert words in answer["verdicts"][0]["findings"][0]["given"]


BEHIND = """
def reference(A, **sizes):
    import os, socket
    for tried in (lambda: open("/tmp/tilewright-trick", "w"), os.fork, socket.socket, lambda: os.kill(os.getppid(), 9)):
        try:
            tried()
        except OSError:
            continue
        raise RuntimeError("it is not behind walls")
    return 2 * A
"""
SCRIBBLING = """
import os
for file in range(3, 40):
    try:
        os.write(file, b'{"status": "clean"}\\n\\n7\\n')
        os.read(file, 1 << 20)
    except OSError:
        pass
os._exit(0)
"""
LAST = {
    "behind walls": (BEHIND, "clean", ""),
    "ends its process": ("import os\nos._exit(0)", "refused", "its process has ended"),
    "never ends": ("while True: pass", "refused", "took longer than"),
    "needs more than there is": ("x = bytearray(1 << 45)", "refused", "MemoryError"),
    "changes its inputs": ("def reference(A, **k):\n    A *= 2\n    return A", "clean", ""),
}


@pytest.mark.parametrize("what", LAST)
def test_a_reference_runs_last_in_the_process_that_judges(workers: Workers, what: str) -> None:
    reference, status, words = LAST[what]
    answer = workers.ask(submission(reference=reference, seconds=0.5 if "never" in what else 20))
    findings = [each for verdict in answer["verdicts"] for each in verdict["findings"]]
    assert (answer["status"], answer["id"]) == (status, "x"), findings
    assert not words or words in findings[0]["given"]


def test_a_reference_that_writes_and_reads_everywhere_harms_its_own_answer_alone(workers: Workers) -> None:
    workers.ask(submission(reference=SCRIBBLING))
    for number in range(2):
        answer = workers.ask(submission(id=number))
        assert (answer["status"], answer["id"]) == ("clean", number)


# Submissions, cases, processes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"language": "rust"}, "unknown language 'rust'"),
        ({"sorce": ""}, "has no 'sorce'"),
        ({"cases": 0}, "cases is out of range"),
        ({"sizes": {"n": {"from": 5, "to": 4}}}, "size n is no size"),
        ({"arguments": [{"name": "A", "dtype": "float31", "shape": []}]}, "float31"),
        ({"arguments": [{"name": "A", "dtype": "float32", "shape": ["k"]}]}, "an extent names k"),
        ({"arguments": [{"name": "A", "dtype": "float32", "shape": ["__import__('os')"]}]}, "this is no extent"),
        ({"arguments": [{"name": "A"}]}, "neither an array nor a number"),
        ({"arguments": [{"name": "A", "dtype": ["float32"], "shape": []}]}, "the dtype of A: a dtype is a name"),
        ({"arguments": [{"name": "A", "dtype": "float32", "shape": [4], "pitch": 4.5}]}, "pitch of A is no number"),
        ({"arguments": [{"name": "n", "value": [1]}]}, "value of n is no number"),
        ({"language": "cu", "launch": {"block": 32, "shared_bytes": 1.5}}, "shared_bytes of a launch is no number"),
        ({"launch": {"block": 32}}, "a launch of 'py' has no 'block'"),
        ({"language": "cu", "launch": {"block": 32, "num_warps": 4}}, "a launch of 'cu' has no 'num_warps'"),
        ({"language": "cu", "launch": {"block": 32, "grid": "(m + 31) // 32"}}, "names m, which is no size"),
        ({"language": "triton", "launch": {"num_warps": 4}}, "'triton' lacks a launch"),
        ({"language": "triton", "launch": {"grid": 1, "num_warps": 4.5}}, "num_warps of a launch is no number"),
        ({"language": "ptx", "launch": {"block": 1}, "constants": {"N": 4}}, "PTX has no constants"),
        ({"constants": {"N": [4]}}, "constant N has another type"),
        ({"constants": {"N": float("inf")}}, "constant N has another type"),
        ({"rtol": float("inf")}, "rtol is out of range"),
        ({"sizes": {"n": {"from": 1, "to": 10**30}}}, "size n is no size"),
        ({"source": "x = '\ud800'"}, "source is no text"),
        ({"arguments": [{"name": "A", "dtype": "float32", "shape": [1] * 40}]}, "A has too many dimensions"),
        ({"arguments": [{"name": "A", "value": 1}] * 2}, "two arguments are called A"),
        ({"arguments": [{"name": "A", "dtype": "float32", "shape": ["+".join(["n"] * 9999)]}]}, "this is no extent"),
        ({"constants": {"N=1 -I/etc": 4}}, "the name of a constant is no name"),
        ({"language": "cu", "launch": {}}, "lacks a launch"),
        ({"language": "cu", "launch": {"grid": 4}}, "lacks a launch"),
        ({"gpu": "H20"}, "unknown GPU 'H20'"),
        ({"rtol": float("nan")}, "rtol is out of range"),
        ({"atol": -1}, "atol is out of range"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        submission_of(submission(**change))


def test_extents_are_arithmetic_and_nothing_else() -> None:
    assert evaluated("max((n + 7) // 8 * 8, 64) - 1", {"n": 100}) == 103
    with pytest.raises(ArgumentError, match="no extent"):
        evaluated("n ** n", {"n": 100})


def test_cases_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    first, again, other = (
        [(dict(case.sizes), case.before) for case in cases_of(submission_of(submission(seed=seed)))]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert [before for _, before in first] != [before for _, before in other]


def test_drawn_sizes_keep_to_what_is_declared() -> None:
    sizes = {"n": {"from": 16, "to": 4096, "of": 16}}
    drawn = [case.sizes["n"] for case in cases_of(submission_of(submission(sizes=sizes, cases=12)))]
    assert len(set(drawn)) == 12
    assert {size % 16 for size in drawn} == {0}
    assert (min(drawn), max(drawn)) == (16, 4096)


def test_work_apart_ends_with_its_limits() -> None:
    def forever() -> bytes:
        while True:
            pass

    assert apart(lambda: b"x" * 100_000, seconds=5, nbytes=1 << 40, walls=True) == b"x" * 100_000
    assert apart(forever, seconds=0.2, nbytes=1 << 40, walls=True) == Died(seconds=0.2)


def test_walls_that_do_not_stand_are_said() -> None:
    assert [*Walls(True, True, False, True, True, True).missing()] == [
        "a submission's Python code can reach the network"
    ]
    assert [*Walls(True, True, True, True, True, True).missing()] == []


# Doors


def test_lines_are_answered_by_their_ids(workers: Workers) -> None:
    lines = [json.dumps(submission(id=number)).encode() for number in range(3)]
    odd = [b"{", b"7", b'{"id": 8, "rtol": NaN}', b'{"id": 8, "rtol": 1e999}', b"\xff\xfe", b"[" * 100_000]
    answers = io.StringIO()
    by_lines(workers, [*lines, b"", *odd], answers, jobs=2)
    found = [json.loads(answer) for answer in answers.getvalue().splitlines()]
    assert {answer["id"]: answer["status"] for answer in found} == {0: "clean", 1: "clean", 2: "clean", None: "refused"}
    assert len(found) == len(lines) + len(odd)


def test_a_line_that_is_too_long_is_refused_and_the_next_one_answered(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.serve.server.MOST_BYTES", 2000)
    long = json.dumps(submission(id=0, source=KERNEL + "#" * 9000)).encode()
    stream = io.BytesIO(long + b"\n" + json.dumps(submission(id=1)).encode())
    answers = io.StringIO()
    by_lines(workers, lines_of(stream), answers, jobs=1)
    assert [json.loads(each)["status"] for each in answers.getvalue().splitlines()] == ["refused", "clean"]


METHODS: dict[tuple[str, str, str], tuple[int, str | None, bool]] = {
    ("POST", "/judge", "bearer secret"): (200, None, True),  # schemes have no case
    ("POST", "/judge", "Basic secret"): (401, None, True),
    ("PUT", "/judge", "Bearer secret"): (405, "POST", True),
    ("GET", "/judge", ""): (405, "POST", True),
    ("POST", "/health", ""): (405, "GET, HEAD", True),
    ("BREW", "/coffee", ""): (404, None, True),
    ("HEAD", "/health", ""): (200, None, False),
}


def asked(door: HttpDoor, method: str, path: str, authorization: str) -> tuple[int, str | None, bool]:
    """The status, the methods that are allowed, and whether the body is JSON; all answers say that they are."""
    connection = http.client.HTTPConnection("127.0.0.1", door.server_address[1], timeout=60)
    connection.request(method, path, "{}", {"Authorization": authorization})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.getheader("Content-Type") == "application/json"
    return response.status, response.getheader("Allow"), bool(body and json.loads(body))


AUTHORISED = {401: {}, 413: {"Authorization": "Bearer secret"}}


def test_http_asks_for_the_token(workers: Workers) -> None:
    door = HttpDoor(workers, 0, "secret")
    threading.Thread(target=door.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{door.server_address[1]}"

    def post(token: str, path: str = "/judge") -> Any:
        request = urllib.request.Request(
            place + path, json.dumps(submission()).encode(), {"Authorization": f"Bearer {token}"}
        )
        return json.load(urllib.request.urlopen(request, timeout=60))

    assert json.load(urllib.request.urlopen(f"{place}/health", timeout=60)) == {"status": "ready"}
    assert post("secret")["status"] == "clean"
    for token, path, code in (("guess", "/judge", 401), ("secret", "/other", 404)):
        with pytest.raises(urllib.error.HTTPError, match=str(code)) as refused:
            post(token, path)
        refused.value.close()
    for headers, code in ({}, 401), ({"Content-Length": "9" * 9}, 413), ({"Content-Length": "²"}, 413):
        with pytest.raises(urllib.error.HTTPError, match=str(code)) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{place}/judge", b"{}", {**headers, **AUTHORISED[code]}))
        refused.value.close()
    assert [asked(door, *each) for each in METHODS] == [*METHODS.values()]
    with ThreadPoolExecutor(4) as pool:
        assert {each["status"] for each in pool.map(post, ["secret"] * 4)} == {"clean"}
    door.shutdown()
    door.server_close()


def test_a_signalling_nan_among_results_warns_nobody() -> None:
    kernel = "__global__ void twice(const float* A, float* B, int n) { ((int*)B)[threadIdx.x] = 0x7f800001; }"
    given = submission(kernel, "cu", launch={"block": [32]}, sizes={"n": 32}, cases=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answered(given, LOADS, Walls.here())["status"] == "wrong"


@pytest.mark.skipif(not Walls.here().reading, reason="the system has no rules on paths")
def test_work_behind_walls_reads_libraries_and_its_own_folders_alone(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "text").write_text("read")

    def tried() -> bytes:
        files = [own / "text", other / "text", Path(json.__file__), Path("/etc/passwd"), Path("/proc/1/environ")]
        return json.dumps([_opens(each) for each in (*files, own, other)]).encode()

    told = apart(tried, seconds=5, nbytes=1 << 40, walls=True, reads=[str(own)])
    assert isinstance(told, bytes), told
    assert json.loads(told) == [True, False, True, False, False, True, False]


def _opens(file: Path) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY))
    except PermissionError:
        return False
    return True


def test_work_behind_walls_cannot_lift_its_limits() -> None:
    def lifting() -> bytes:
        import resource

        for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
            soft, hard = resource.getrlimit(which)
            assert soft == hard
        return b"held"

    assert apart(lifting, seconds=5, nbytes=1 << 40, walls=True) == b"held"
