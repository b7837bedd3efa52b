"""`tilewright check` of a .cu file with several kernels: each has its share of the time, and is told as it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ran
from tilewright.cli import checking, clock, verdicts
from tilewright.cli.clock import FileClock
from tilewright.load import cu_contents
from tilewright.load.cu_guards import compares
from tilewright.verdict import Report, Verdict

TWO = """
__global__ void first(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void second(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[0] += x[i];
}
void host(const float* x, float* y, int n) {
    first<<<(n + 127) / 128, 128>>>(x, y, n);
    second<<<(n + 127) / 128, THREADS>>>(x, y, n);
}
"""


def file(folder: Path, threads: str = "128") -> Path:
    place = folder / "k.cu"
    place.write_text(TWO.replace("THREADS", threads))
    return place


def test_a_kernel_whose_time_is_spent_is_told_as_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        clock.FileClock, "share", lambda self, kernels: clock.KernelClock(60.0 * (kernels == 1) or 1e-9)
    )
    code, out, _ = ran("check", file(tmp_path))

    assert "first: stopped\nnot judged: it takes longer than 0 s of the processor" in out
    assert "second: wrong" in out
    assert code == 1, out


def test_a_file_of_which_a_kernel_is_not_judged_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        clock.FileClock, "share", lambda self, kernels: clock.KernelClock(60.0 * (kernels == 2) or 1e-9)
    )
    assert ran("check", file(tmp_path))[0] == 3


def test_what_is_left_of_a_file_s_time_is_divided_among_its_kernels() -> None:
    shares = [FileClock(100.0).share(kernels).seconds or 0.0 for kernels in (1, 2, 4, 20)]
    assert [round(share) for share in shares] == [60, 50, 25, 15]
    assert [FileClock(0.5).share(2).seconds, FileClock(1e-9).share(2).seconds] == [pytest.approx(0.5, abs=0.1), 0.0]


def test_a_launch_that_fails_does_not_keep_others_from_a_verdict(tmp_path: Path) -> None:
    code, out, _ = ran("check", file(tmp_path, "n < 0 ? n : 4096"))

    assert code == 1
    assert "first: clean" in out
    assert "this launch of second fails" in out


def test_a_launch_runs_once_with_the_numbers_that_show_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[str]()
    run = checking.LaunchCheck._run

    def counted(self: checking.LaunchCheck) -> Any:
        runs.append(str(self.request.kernel))
        return run(self)

    monkeypatch.setattr(checking.LaunchCheck, "_run", counted)
    ran("check", file(tmp_path))
    assert runs == ["first", "second"]


def test_a_report_is_kept_as_far_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Report("k.cu", (Verdict("first", "wrong"),))

    def hangs(arguments: Any, seconds: float, into: Path) -> tuple[None, tuple[()]]:
        into.write_text(dumps(asdict(part)))
        return None, ()

    monkeypatch.setattr(verdicts, "_process", hangs)
    report = verdicts.judged_apart("k.cu", (), ())

    assert [verdict.status for verdict in report.verdicts] == ["wrong", "stopped"]
    assert "longer than 120 s" in report.verdicts[1].findings[0].message
    assert report.exit_code == 1


GUARDS = """
#define LOOP(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
struct Sizes { int rows, columns; };
__device__ bool is_inside(int i, int n) { return i < n; }
__device__ int twice(int i) { return i * 2; }
template <typename T>
__global__ void k(T* x, Sizes sizes, int product, int stride, int handed, int plain, int place, int least, int vain) {
    const int total = product * 4;
    int i = blockIdx.x * stride + threadIdx.x;
    if (i < total) x[i] = 1;
    LOOP(j, sizes.columns) x[j] = 2;
    if (is_inside(i, handed)) x[i] = twice(plain);
    atomicAdd(&x[place * 4 + i], T(1));
    x[min(i, least - 1)] = 0;
}
"""


@pytest.mark.parametrize(("name", "is_compared"), [
    ("product", True), ("stride", False), ("columns", True), ("handed", True), ("plain", False), ("place", False),
    ("least", True), ("vain", None), ("rows", None),
])  # fmt: skip
def test_what_a_kernel_compares_with_a_size_is_read_from_its_text(name: str, is_compared: bool | None) -> None:
    assert compares([GUARDS], "k<float>", {name}) is is_compared


UNTIL_DONE = """
#include <cstdio>
__global__ void step(int* flag, float* x) { x[threadIdx.x] += 1; }
int more(int* flag);
void host(int* flag, float* x) {
    int a = 0, b = 0, c = 0;
    for (;;) {
        step<<<1, 32>>>(flag, x);
        a = more(flag), b = more(flag), c = more(flag);
        if (a + b + c == 0) break;
    }
    step<<<2, 32>>>(flag, x);
}
"""


def test_a_loop_of_the_host_whose_end_is_not_known_is_left_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, forget = list[int](), cu_contents._Reader.forget

    def counted(self: cu_contents._Reader, names: Iterable[str]) -> None:
        forgotten.append(1)
        forget(self, names)

    monkeypatch.setattr(cu_contents._Reader, "forget", counted)
    (tmp_path / "k.cu").write_text(UNTIL_DONE)
    assert ran("check", tmp_path / "k.cu")[0] == 0
    assert len(forgotten) < 20_000


APART = """
__global__ void none() { __shared__ int s; s = threadIdx.x == 0 ? 1 : s; }
__global__ void plain(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
struct Unknown;
Unknown& device_of(int id);
__global__ void far(const float* x, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * ((long long)i * n) ;
}
void host(const float* x, float* y, int n) {
    none<<<1, 1>>>();
    plain<<<(n + 127) / 128, 128>>>(x, y, n);
    far<<<device_of(n).many, device_of(n).threads[0], device_of(n).bytes()>>>(x, y, n, device_of(n).many);
}
"""


def test_a_kernel_that_cannot_be_launched_does_not_keep_others_from_a_verdict(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(APART)
    code, out, error = ran("check", tmp_path / "k.cu")

    assert "plain: clean" in out, out + error
    assert "none: clean" in out, out
    assert "far: refused" in out, out
    assert code == 2


WIDE = """
__global__ void far(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i * 1000000] = 1;
}
void host(float* x, int n) { far<<<(n + 127) / 128, 128>>>(x, n); }
"""


def test_what_is_outside_of_arrays_that_are_proposed_too_short_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(WIDE)
    code, out, error = ran("check", tmp_path / "k.cu")

    assert code == 2, out + error
    assert "not judged: it reaches further than arrays are proposed" in out + error
    assert "outside" not in out + error


RAND = """
#include <torch/extension.h>
__global__ void pick(const float* rand, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(int)(rand[i] * n)];
}
void host(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    auto rand = torch::rand({n}, x.options());
    pick<<<(n + 127) / 128, 128>>>(rand.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), n);
}
"""


def test_a_tensor_of_torch_rand_holds_numbers_from_0_to_1(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RAND)
    code, out, error = ran("check", tmp_path / "k.cu")
    assert code == 0, out + error
