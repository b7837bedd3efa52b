"""A kernel alone that waits for the launch before: what it touches until then, whatever that launch is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.commands import ran
from tilewright.verdict import Verdict

WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
SCALE = """
#define I (blockIdx.x * 32 + threadIdx.x)
__constant__ float table[4];
__global__ void k(const float* x, const float* scale, float* out) {
    BEFORE
    WAIT
    AFTER
    out[I] = x[I] * s + table[0];
}
"""
READ, WRITE = "float s = scale[0] + table[1];", "out[I] = 0;"


def checked(before: str, after: str = "", wait: str = WAIT) -> Verdict:
    text = SCALE.replace("BEFORE", before).replace("WAIT", wait).replace("AFTER", after)
    return tw.check(tw.load_cu(text)["k"], *(np.ones(n, np.float32) for n in (64, 1, 64)), grid=2, block=32)


def test_a_read_before_the_wait_is_a_warning() -> None:
    found = checked(READ)

    (one,) = found.findings
    assert (found.status, one.severity, one.line) == ("clean", "warning", 5)
    assert "reads element 0 of scale before the wait for the launch before" in one.message


def test_a_write_before_the_wait_is_an_error() -> None:
    found = checked(WRITE, READ)

    (one,) = found.findings
    assert (found.status, one.kind, one.line, one.buffer) == ("wrong", "races", 5, "out")


@pytest.mark.parametrize("wait", [WAIT, f"if (threadIdx.x == 0) {{ {WAIT} }} __syncthreads();", ""])
def test_what_comes_behind_the_wait_of_any_thread_is_right(wait: str) -> None:
    before, after = (READ, "") if not wait else ("", READ)  # a kernel that waits for nobody is launched like any other

    assert checked(before, after, wait).findings == ()


def test_a_launch_that_may_begin_early_is_told_of_every_access(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("__global__ void k(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }")
    launch = [file, "--block", "32", "--arg", "x:f32[32]", "--arg", "out:f32[32]"]

    plain, (code, out, _) = ran("check", *launch), ran("check", *launch, "--pdl")

    assert plain[0] == 0
    assert code == 1
    assert "before the wait for the launch before" in out


def test_a_value_that_depends_by_shuffles_is_an_idiom_behind_a_wait_and_in_pairs_of_numbers() -> None:
    """The other run that finds it out has the same times, and values of several numbers."""
    text = f"""
    #include <cuda_fp8.h>
    __global__ void k(const float* x, __nv_fp8_e4m3* out) {{
        extern __shared__ float s[];
        {WAIT}
        float v = x[threadIdx.x];
        s[threadIdx.x] = v;
        __syncthreads();
        if (threadIdx.x < 32) {{
            v = s[threadIdx.x];
            for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
            s[0] = v;
        }}
        __syncthreads();
        __nv_fp8_e4m3 four[4];
        for (int n = 0; n < 4; ++n) four[n] = __nv_fp8_e4m3(s[0] * n);
        ((int*)out)[threadIdx.x] = *(int*)four;
    }}
    """
    x, out = np.ones(64, np.float32), np.zeros(256, np.uint8)

    tw.check(tw.load_cu(text)["k"], x, out, grid=1, block=64, shared_bytes=256).assert_clean()


IN_PLACE = """
__global__ void k(float* x, const float* scale) {
    EARLY
    asm volatile("griddepcontrol.wait;" ::: "memory");
    LATE
    x[threadIdx.x] = v * scale[0];
}
"""
READS = "float v = x[threadIdx.x];"


@pytest.mark.parametrize(("early", "late", "status"), [(READS, "", "wrong"), ("", READS, "clean")])
def test_what_the_kernel_itself_changes_is_no_weight_that_may_be_read_early(early: str, late: str, status: str) -> None:
    module = tw.load_cu(IN_PLACE.replace("EARLY", early).replace("LATE", late))

    assert tw.check(module["k"], *(np.ones(n, np.float32) for n in (32, 1)), grid=1, block=32).status == status
