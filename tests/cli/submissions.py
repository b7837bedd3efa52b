"""Files that a program may hand in for a verdict, by number: kernels with slips in them, and junk.

    python -m tests.cli.submissions 0 10000

judges those from 0 to 9999, each in a fork of one warm process, by the entry that `tilewright check` has for the
process that it starts, and prints those that got no verdict in words.
"""

# ruff: noqa: E501, SIM905  texts as they are handed in
from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tests.conftest  # noqa: F401  the profile of hypothesis, which those kernels ask for
from tests.forks import forked
from tests.load.programs import FOLDER, PROGRAMS
from tests.load.ptx_cases import PROGRAMS as PTX_PROGRAMS
from tests.ptx.texts import IN_BODY, MODULE, module
from tests.wrong.test_mutated_kernels import KERNELS, LINES, TOKENS
from tilewright.verdict import EXIT_CODES, SCHEMA, report_from

EXAMPLES = Path(__file__).parents[2] / "examples"
NVRTC = re.compile(r"/load/cu_compile\.py")  # which the command stops, too
LIMITS = ("--limit=3s", "--limit=100000steps", "--limit=512MiB")
SECONDS = 20.0
SHORT_SECONDS = 1.5  # for files that never end


@dataclass(frozen=True)
class Submission:
    """A file and the options that it is checked with. ends: does its process come to an end by itself, with a report?"""

    name: str
    data: bytes
    options: tuple[str, ...] = ()
    ends: bool = True


@dataclass(frozen=True)
class Outcome:
    """report: as JSON has it, None where there is none. complaint: what is wrong with it, "" for nothing."""

    submission: Submission
    report: dict[str, Any] | None
    complaint: str
    seconds: float


# What is handed in


def submission(number: int) -> Submission:
    """The one of this number; the same on every machine."""
    random = Random(number)
    return random.choices((python, cuda, ptx, junk), (4, 3, 4, 2))[0](random)


HEAD = """import numpy as np
import tilewright as tw
from tilewright import T, Tx, layout
from tilewright.layout import *

"""
LANGUAGE_OPTIONS = ("--check=all", "--check=none", "--check=races,bounds", "--check=x", "--check=", "--arch=sm_80", "--arch=sm_1",
                    "--arch=", "--seed=7", "--limit=0s", "--limit=1e9", "--limit=" + "9" * 400, "--limit=" + "9" * 400 + "steps",
                    "--limit=1B", "--limit=1steps")  # fmt: skip
PYTHON_OPTIONS = (*LANGUAGE_OPTIONS, "--size=n=5", "--size=n=-1", "--size=n", "--size=n=99999999999999999999", "--size=m=3",
                  "--arg=A=no.npy", "--arg=A=3", "--arg=n=1e400", "--arg==", "--const=N=3", "--const=N", "--size=n=x")  # fmt: skip
LAUNCH_OPTIONS = (*LANGUAGE_OPTIONS, "--grid=0", "--grid=99999999999", "--grid=1,2,3,4", "--grid=x", "--grid=2147483647,65535,65535",
                  "--block=0", "--block=2000", "--block=-5", "--block=1,1,1025", "--block=x", "--smem=-1", "--smem=999999999999",
                  "--smem=48", "--cluster=3", "--cluster=0", "--cluster=2", "--arg=zz:f32[4]", "--arg=f99[3]", "--arg=f32[99999999999]",
                  "--arg=x=nan", "--arg=7", "--arg=", "--arg=f32[0]", "--arg=i32[2]=1e300", "--const=c:f32[4]=ramp", "--const=q=1",
                  "--kernel=none", "--kernel=k<", "-DBUG", "-D=", "-Iabsent", "-D#", "--kernel=")  # fmt: skip


def some(random: Random, options: Iterable[str]) -> tuple[str, ...]:
    """Mostly none, or one or two of them."""
    return tuple(random.choices(tuple(options), k=random.choices((0, 1, 2), (7, 2, 1))[0]))


def python(random: Random) -> Submission:
    """A kernel of ours with slips."""
    text = random.choice(gallery())
    text = slipped(random, text, [*TOKENS, *LINES], random.randint(0, 4))
    return Submission("kernel.py", text.encode("utf-8", "replace"), some(random, PYTHON_OPTIONS))


@cache
def gallery() -> tuple[str, ...]:
    """Kernels that are right: those of the examples, without what runs them, and two with much of the language."""
    texts = [path.read_text("utf-8").partition("def main(")[0] for path in sorted(EXAMPLES.glob("*.py"))]
    return (*texts, *(HEAD + text for text in KERNELS))


CUDA_TOKENS = ("0 -1 1e30f threadIdx.x blockIdx.y __syncthreads() int float double unsigned char* void* n a b return ; } { ( ) "
               "while(1){} asm(\"trap;\") template<int> #include<vector> #define __shared__ __global__ __device__ extern \"C\" "
               "__launch_bounds__(1) static const volatile goto 0x7fffffff 1u<<31 nullptr this new delete throw "
               "atomicAdd __shfl_sync __half printf(\"%s\") assert(0) 'x' \\ @ $ é").split()  # fmt: skip


def cuda(random: Random) -> Submission:
    """A .cu file with slips, and mostly the arguments that it takes."""
    case = random.choice([case for case in PROGRAMS if not case.headers])
    text = (FOLDER / f"{case.file}.cu").read_text("utf-8")
    text = slipped(random, text, CUDA_TOKENS, random.choice((0, 1, 1, 2, 5)))
    options = [f"--kernel={case.kernel}", f"--grid={extents(case.grid)}", f"--block={extents(case.block)}",
               f"--smem={case.shared_bytes}", *(f"--arg={spelled(value)}" for value in case.args())]  # fmt: skip
    if random.random() < 0.2:
        del options[random.randrange(len(options))]
    return Submission("kernel.cu", text.encode(), (*options, *some(random, LAUNCH_OPTIONS)))


def extents(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def spelled(value: Any) -> str:
    """An argument as the command line has it."""
    if not isinstance(value, np.ndarray):
        return str(value)
    kind = {"f": "f", "i": "i", "u": "u"}.get(value.dtype.kind, "u") + str(8 * value.dtype.itemsize)
    return f"{kind}[{','.join(map(str, value.shape or (1,)))}]=random"


PTX_TOKENS = (".reg .b32 .b64 .pred .u32 .f32 .s64 .v4 .shared .global .param .entry .func .visible .extern .align 0 -1 "
              "0xffffffffffffffffff 0f00000000 %tid.x %r1 r1 ai p0 @p0 @!p0 ; { } [ ] , bra ret; exit; trap; call L: bar.sync "
              "ld.global.u32 st.shared.b64 cvt.rn.f16.f32 mma.sync .sm_90a .version .target 9.9 // /* \"x\" \\ é").split()  # fmt: skip


def ptx(random: Random) -> Submission:
    """A PTX text with slips."""
    text = random.choice([each.text for each in PTX_PROGRAMS] + [MODULE] + [module(body) for body in IN_BODY])
    text = slipped(random, text, PTX_TOKENS, random.choice((0, 1, 1, 2, 3, 8)))
    some_of = ("--block=32", "--smem=256", "--arg=i32[64]=ramp", "--arg=i32[64]")
    options = some_of[: random.choice((0, 1, 3, 4, 4, 4, 4))]
    return Submission("kernel.ptx", text.encode(), (*options, *some(random, LAUNCH_OPTIONS)))


WORD = re.compile(r"\w+|[^\w\s]")


def slipped(random: Random, text: str, words: Iterable[str], slips: int) -> str:
    """A text with words replaced, dropped, repeated or exchanged, and lines dropped or repeated."""
    words = tuple(words)
    for _ in range(slips):
        lines = text.split("\n")
        found = list(WORD.finditer(text))
        how = random.choice(("word", "word", "own", "own", "drop", "line", "repeat", "cut", "insert"))
        if not found or (how == "cut" and random.random() < 0.8):
            continue
        at, other = random.choice(found), random.choice(found)
        line = random.randrange(len(lines))
        if how in ("word", "own", "drop"):
            new = {"word": random.choice(words), "own": other[0], "drop": ""}[how]
            text = text[: at.start()] + new + text[at.end() :]
        elif how == "cut":
            text = text[: at.start()]
        else:
            indent = re.match(r"\s*", lines[line])[0]  # type: ignore[index]  # it always matches
            lines[line : line + 1] = {"line": [], "repeat": [lines[line]] * random.choice((2, 3, 200)),
                                      "insert": [lines[line], indent + random.choice(words)]}[how]  # fmt: skip
            text = "\n".join(lines)
    return text


K = "@T.prim_func\ndef k(A: T.Buffer((32,), 'float32')):\n    i = T.thread_id([32])\n    A[i] = {}\n"
ENDLESS = ("while True: pass\n", "import time\ntime.sleep(1000)\n", "import threading\nthreading.Event().wait()\n",
           "import os\nos.kill(os.getpid(), 19)\n", "def f(): yield from iter(int, 1)\nlist(x for x in f() if x)\n")  # fmt: skip
DYING = ("raise KeyboardInterrupt\n", "import os\nos._exit(0)\n", "import os\nos._exit(7)\n", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
         "import os\nos.abort()\n", "import ctypes\nctypes.string_at(0)\n", "import os\nos.killpg(0, 9)\n",
         "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()\n",
         "import os\nos.closerange(0, 100)\nos._exit(1)\n")  # fmt: skip
ENDING = (
    "", "\n", " ", "\t", "x", "0", "\0", "print(1)\0", "import", "def", "(" * 300, "[" * 100_000, "((((" * 30 + "))))" * 30,
    "-" * 5000 + "1", "x = " + "+".join(["1"] * 20_000), "x = '" + "y" * 3_000_000 + "'", "'" * 7, '"""', "\\", "#" * 1_000_000,
    "if 1:\n" + "".join(" " * n + "if 1:\n" for n in range(1, 99)) + " " * 99 + "pass\n",
    "# -*- coding: no-such -*-\n", "# coding: utf-16\nx = 1\n", "# coding: latin-1\nx = 'é'\n", "\ufeffx = 1\n", "\x0c\x1a\x7f",
    "raise SystemExit\n", "raise SystemExit(0)\n", "exit(3)\n", "raise BaseException('x')\n",
    "raise ValueError('\\ud800')\n", "raise Exception('é' * 100000)\n", "class E(Exception):\n    def __str__(self): raise self\nraise E\n",
    "1 / 0\n", "import nothing_of_that_name\n", "from tilewright import nothing\n", "import tilewright\ntilewright.nothing\n",
    "x = bytearray(1 << 44)\n", "import numpy as np\nx = np.ones(1 << 42)\n", "def f(): f()\nf()\n",
    "import os\nos.write(1, b'x' * 10**7)\n", "print('x' * 10**7)\n", "import sys\nsys.stdout.close()\n", "import sys\nsys.stdout = None\nprint(1)\n",
    "import sys\nsys.stderr = sys.stdout = open('/dev/full', 'w')\nprint('x' * 10**6)\n", "import sys\nsys.exit('x')\n",
    "import atexit, time\natexit.register(time.sleep, 1000)\n", "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n",
    "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n", "import os\nfor n in range(5): os.fork() or os._exit(0)\n",
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "import os\nos.chdir('/')\n", "import os\nos.environ.clear()\n",
    "import sys\nsys.argv.clear()\nsys.path.clear()\nsys.modules.pop('json')\n", "import sys\nsys.setrecursionlimit(50)\n",
    "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('x')\n", "import builtins\ndel builtins.print\n",
    "__name__ = 3\n__file__ = None\n", "k = 3\n", "async def k(): pass\n", "lambda: (yield)\n", "import numpy\nnumpy.seterr(all='raise')\n",
    *(HEAD + K.format(text) for text in (
        "1.0", "A[i + 1]", "A[33]", "A", "B[i]", "i", "1 // 0", "A[i] / 0", "'x'", "None", "np.exp(A[i])", "(yield)", "await A[i]",
        "lambda x: x", "[A[j] for j in range(i)]", "A[i] if i else None", "2 ** 10000", "1e400", "-" * 3000 + "A[i]",
        "+".join(["A[i]"] * 3000), "(" * 80 + "A[i]" + ")" * 80, "A[A[i]]", "A[i, i]", "A[...]", "A[:]", "A[i:]", "A[None]",
        "__import__('os')._exit(0)" * 0 or "0.0", "T", "T.T", "Tx.cta", "T.undefined(3)", "A[T.int64(i) << 62]", "T.float32('nan')",
    )),
    HEAD + K.format("1.0").replace("def k", "def Ünïcödé"), HEAD + K.format("1.0").replace("def k", "def __syncthreads"),
    HEAD + K.format("1.0").replace("def k", "def float"), HEAD + K.format("1.0").replace("(A:", "(int:").replace("A[i]", "int[i]"),
    HEAD + K.format("1.0").replace("def k", "def " + "k" * 5000), HEAD + K.format("1.0").replace("32", "0"), HEAD + K.format("1.0") * 40,
    HEAD + K.format("1.0").replace("32", "-1"), HEAD + K.format("1.0").replace("[32]", "[4096]"), HEAD + K.format("1.0").replace("(32,)", "(10**12,)"),
    HEAD + K.format("1.0").replace("float32", "float\\n32"), HEAD + K.format("1.0").replace("float32", "float4_e2m1fn"),
    HEAD + K.format("1.0") + "    while True: pass\n", HEAD + K.format("1.0") + "    T.cuda.trap()\n",
    HEAD + K.format("1.0") + "    T.printf('%s %n %d', i)\n", HEAD + K.format("1.0") + "    T.alloc_shared((1 << 40,), 'float32')\n",
    HEAD + K.format("1.0") + "    if i < 3:\n        T.cuda.cta_sync()\n", HEAD + K.format("1.0") + "k = [k, k]\nl = k[0]\nm = l\n",
)  # fmt: skip
JUNK_TEXTS = (
    "", "\n", "\0", "x", "{", "}" * 5, "(" * 50_000, "#include <no/such.h>\n", "#error no\n", "#if 0\n", "/*", "\"", "__global__", "__global__ void k() {",
    "__global__ void k() {}\n", "__global__ void k(int*) {}\n", "__global__ void k() { while (true) ; }\n", "template <class T> __global__ void k(T* t) {}\n",
    "__global__ void k(struct S s) {}\n", "struct S { int a[9]; };\n__global__ void k(S s) { if (s.a[0]) __trap(); }\n",
    "template <int N> struct F { static const int v = F<N - 1>::v + F<N - 2>::v; };\n__global__ void k(int* a) { *a = F<100000>::v; }\n",
    "constexpr int f(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i; return s; }\n__global__ void k(int* a) { *a = f(2000000000); }\n",
    "__global__ void k(int* a) { k(a); }\n", "__device__ int f(int n) { return n ? f(n - 1) : 0; }\n__global__ void k(int* a) { *a = f(*a); }\n",
    "extern \"C\" __global__ void k(int n) { __shared__ int s[n]; }\n", "__global__ void k() { __shared__ char s[1 << 30]; s[0] = 1; }\n",
    "__global__ void k() { int a[1 << 28]; a[threadIdx.x] = 1; }\n", "namespace { __global__ void k() {} }\n", "__global__ void k(int a, int a) {}\n",
    "__global__ void k(float* x) { asm volatile(\"nonsense;\"); }\n", "__global__ void k(float* x) { asm volatile(\"brkpt;\"); }\n",
    "__global__ void " + "k" * 5000 + "() {}\n", "__global__ void k(double (*f)(double)) { f(1.0); }\n", "__constant__ int c[3]; __global__ void k(int* a) { *a = c[9]; }\n",
    "#define A A A\n" * 3 + "#define X(n) n n n n n n n n\n__global__ void k() { X(X(X(X(X(X(;)))))) }\n", "int main() {}\n", "\ufeff__global__ void k() {}\n",
    ".version 8.0\n", ".version 99.9\n.target sm_999\n.address_size 64\n", ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { L: bra L; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { bar.sync 0; trap; }\n", ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {" + "{" * 3000 + "}" * 3000 + "}\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {" + "bar.sync 0;" * 5000 + "}\n", ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .b8 x[99999999999]) { ret; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.shared .b8 s[99999999999];\n.visible .entry k() { ret; }\n", ".version 8.0\n.target sm_90\n.address_size 64\n.global .u32 g[9999999999];\n.visible .entry k() { .reg .b32 r; ld.global.u32 r, [g]; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.func f() { call f; }\n.visible .entry k() { call f; }\n", ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .b32 r<99999999>; mov.u32 r5, 1; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .pred p; @p bra L; L: @!p bra M; ret; M: bra L; }\n",
)  # fmt: skip


def junk(random: Random) -> Submission:
    """No kernel at all, or one that harms who runs it."""
    how = random.random()
    if how < 0.04:
        return Submission("file.py", random.choice(ENDLESS).encode(), ends=False)
    if how < 0.10:
        return Submission("file.py", random.choice(DYING).encode(), ends=False)
    if how < 0.25:
        size = random.choice((0, 1, 3, 100, 5000, 200_000))
        name = random.choice(
            ("file.py", "file.cu", "file.ptx", "file", "file.txt", "file.PY", "é 'x\".cu", "-x.py", "a:b.py")
        )
        return Submission(name, random.randbytes(size), some(random, LAUNCH_OPTIONS))
    if how < 0.65:
        text = random.choice(ENDING)
        return Submission(
            random.choice(("file.py", "0.py", "json.py", "tilewright.py", "numpy.py")),
            text.encode("utf-8", "replace"),
            some(random, PYTHON_OPTIONS),
        )
    name = random.choice(("file.cu", "file.ptx", "file.cu"))
    options = ("--block=32", "--arg=i32[64]=ramp")[: random.choice((0, 1, 2, 2))]
    return Submission(name, random.choice(JUNK_TEXTS).encode(), (*options, *some(random, LAUNCH_OPTIONS)))


# What comes of it


def judged(one: Submission, folder: Path) -> Outcome:
    """The outcome of the process that the command would start: here a fork of this one."""
    path, into = folder / one.name, folder / "report.json"
    into.unlink(missing_ok=True)
    path.write_bytes(one.data)
    began = time.monotonic()
    command = ["check", *LIMITS, *one.options, f"--write={into}", "--", str(path)]
    code, _, told = forked(command, SECONDS if one.ends else SHORT_SECONDS, first=_watch_what_files_raise)
    path.unlink()
    report = json.loads(into.read_text("utf-8")) if into.is_file() else None
    return Outcome(one, report, complaint_of(one, report, code is not None, told), time.monotonic() - began)


def _watch_what_files_raise() -> None:
    """An exception of a file is told at its line; one that began in our own code is a mistake of ours: say so."""
    from tilewright.cli import kernels
    from tilewright.errors import TilewrightError

    told: Callable[..., Any] = kernels._line_at_fault

    def watched(path: Path, error: BaseException) -> Any:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        file = last.tb_frame.f_code.co_filename if last is not None else ""
        name = str(last.tb_frame.f_globals.get("__name__", "")) if last is not None else ""
        if name.startswith("tilewright.") and not isinstance(error, (TilewrightError, SyntaxError)):
            print(f"FOREIGN {type(error).__name__}: {error} in {file}", file=sys.stderr, flush=True)
        return told(path, error)

    kernels._line_at_fault = watched


def complaint_of(one: Submission, report: dict[str, Any] | None, ended: bool, told: str) -> str:
    """What is wrong with an outcome: a file that ends has a report, whose statuses and findings fit."""
    last = "\n".join(told.strip().splitlines()[-12:])
    if "FOREIGN" in told:
        return last
    if report is None and one.ends and not (not ended and NVRTC.search(told)):
        return f"{'no report' if ended else 'no end'}: {last}"
    if report is None:
        return ""
    try:
        return "; ".join(faults(report))
    except (KeyError, TypeError, ValueError) as error:
        return f"no schema: {error!r}"


def faults(report: dict[str, Any]) -> Iterator[str]:
    """What a report must not be."""
    made = report_from(report)
    text = json.dumps({**made.as_dict(), "schema": SCHEMA}, allow_nan=False)
    if json.loads(text)["status"] != made.status or made.exit_code != EXIT_CODES[made.status]:
        yield "the status is not that of its verdicts"
    for verdict in made.verdicts:
        errors = [each for each in verdict.findings if each.severity == "error"]
        if bool(errors) != (verdict.status != "clean"):
            yield f"{verdict.kernel} is {verdict.status} with {len(errors)} findings"
        for finding in verdict.findings:
            if not finding.message or re.search(r"\b(Traceback|assert\b.*==|object at 0x)", finding.message):
                yield f"no words for a person: {finding.message}"


def main(first: int, last: int) -> None:
    """Judge those of these numbers, and print what is wrong."""
    import tilewright.checking
    import tilewright.cli.checking  # noqa: F401  what each fork would import again

    counts: dict[str, int] = {}
    with TemporaryDirectory() as folder:
        for number in range(first, last):
            outcome = judged(submission(number), Path(folder))
            status = "none" if outcome.report is None else report_from(outcome.report).status
            counts[status] = counts.get(status, 0) + 1
            if outcome.complaint or (outcome.seconds > SECONDS / 2 and outcome.submission.ends):
                print(f"{number} ({outcome.seconds:.1f} s, {outcome.submission.name}): {outcome.complaint}", flush=True)
            if number % 500 == 499:
                print(number + 1, counts, flush=True)
    print(counts)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
