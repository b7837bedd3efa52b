"""NVRTC and nvdisasm as the compiler uses them, on a machine that has no GPU."""

from __future__ import annotations

import sys

import pytest

import tilewright as tw
from tilewright import T
from tilewright.cuda import nvrtc
from tilewright.cuda.nvrtc import architectures, assemble, sass
from tilewright.errors import TargetError, ToolError

if sys.platform == "darwin":
    pytest.skip("NVIDIA publishes no wheels for macOS", allow_module_level=True)

LDMATRIX = """\
extern "C" __global__ void copy_tile(const uint4* a, unsigned int* b) {
    __shared__ __align__(128) unsigned short tile[512];
    unsigned int lane = threadIdx.x;
    *(uint4*)&tile[lane * 8] = a[lane];
    __syncthreads();
    unsigned int r[4];
    unsigned int p = (unsigned int)__cvta_generic_to_shared(&tile[lane * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p) : "memory");
    for (int i = 0; i < 4; ++i) b[lane * 4 + i] = r[i];
}
"""
LOCAL_ARRAY = """\
extern "C" __global__ void gather(const int* a, int* b, int n) {
    int x[64];
    for (int i = 0; i < n; ++i) x[i & 63] = a[i];
    b[threadIdx.x] = x[a[threadIdx.x] & 63];
}
"""
MULTIPLY_ADD = 'extern "C" __global__ void axpy(float* y, float a, float x) { *y = a * x + *y; }'
EMPTY = 'extern "C" __global__ void empty() {}'


@pytest.fixture
def fresh_caches(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Monkeypatching that finds the tools again, and leaves nothing found behind."""
    for name in ("_nvrtc", "_nvdisasm", "architectures"):
        monkeypatch.setattr(nvrtc, name, getattr(nvrtc, name).__wrapped__)
    return monkeypatch


@pytest.mark.parametrize("arch", architectures())
def test_every_listed_architecture_assembles(arch: str) -> None:
    assert assemble(EMPTY, arch).cubin.startswith(b"\x7fELF")


def test_the_architectures_reach_from_turing_to_blackwell_with_their_suffixes() -> None:
    assert {"sm_75", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_121a"} <= set(architectures())
    assert not {"sm_89a", "sm_90f"} & set(architectures())


def test_ldmatrix_assembles_to_one_ldsm() -> None:
    assembly = assemble(LDMATRIX, "sm_75")

    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in assembly.ptx
    assert [line.count("LDSM.16.MT88.4") for line in sass(assembly.cubin).splitlines() if "LDSM" in line] == [1]


def test_resources_of_a_kernel_that_stays_in_registers() -> None:
    resources = assemble(LDMATRIX, "sm_90a").resources("copy_tile")

    assert 8 <= resources.registers <= 32
    assert (resources.local_bytes, resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0, 0)
    assert (resources.shared_bytes, resources.barriers) == (1024, 1)


def test_an_array_indexed_at_run_time_shows_as_local_bytes() -> None:
    assert assemble(LOCAL_ARRAY, "sm_90a").resources("gather").local_bytes == 256


def test_registers_that_do_not_fit_show_as_spills() -> None:
    terms = " ".join(f"float v{i} = a[{i} * n];" for i in range(96))
    sums = " + ".join(f"v{i} * v{95 - i}" for i in range(96))
    source = f'extern "C" __global__ void wide(float* a, int n) {{ {terms} __syncthreads(); *a = {sums}; }}'

    resources = assemble(source, "sm_90a", options=("--maxrregcount=24",)).resources("wide")

    assert resources.spill_store_bytes > 0
    assert resources.spill_load_bytes > 0


def test_resources_are_those_of_the_kernel_asked_for() -> None:
    assembly = assemble(LDMATRIX + LOCAL_ARRAY, "sm_90a")

    assert assembly.resources("copy_tile").local_bytes == 0
    assert assembly.resources("gather").local_bytes == 256


def test_resources_of_an_unknown_kernel_name_the_nearest() -> None:
    with pytest.raises(ToolError, match=r"(?s)'copytile'.*did you mean 'copy_tile'"):
        assemble(LDMATRIX, "sm_90a").resources("copytile")


def test_multiply_and_add_round_twice_unless_fast_math() -> None:
    assert "FFMA" not in sass(assemble(MULTIPLY_ADD, "sm_90a").cubin)
    assert "FFMA" in sass(assemble(MULTIPLY_ADD, "sm_90a", fast_math=True).cubin)


def test_fast_math_takes_approximations_and_says_so() -> None:
    @T.prim_func
    def powers(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        B[lane] = T.exp(A[lane]) / B[lane]

    exact, fast = (tw.compile(powers, target="sm_90a", fast_math=fast) for fast in (False, True))

    assert " expf(" in exact.source("cuda")
    assert "one rounding per operation" in exact.source("cuda")
    assert " __expf(" in fast.source("cuda")
    assert "quotients and roots approximate" in fast.source("cuda")
    assert "CALL" in exact.source("sass")  # a division that is exact has a slow path
    assert "CALL" not in fast.source("sass")


def test_a_compile_error_shows_the_line() -> None:
    with pytest.raises(ToolError, match=r"(?s)line 10: identifier \"i\" is undefined\n +for \(; i < 4; \+\+i\) b\["):
        assemble(LDMATRIX.replace("(int i = 0;", "(;"), "sm_90a")


def test_an_instruction_that_ptxas_refuses_shows_its_line_in_the_text() -> None:
    source = LDMATRIX.replace("m8n8.x4.trans.shared.b16", "m16n16.x2.trans.shared.b8")

    with pytest.raises(ToolError, match=r"(?s)line 8: Feature .*not supported on .target 'sm_90a'\n +asm volatile"):
        assemble(source, "sm_90a")


def test_an_unknown_architecture_names_the_nearest() -> None:
    with pytest.raises(TargetError, match=r"(?s)no architecture 'sm_90b'.*did you mean 'sm_90'"):
        assemble(EMPTY, "sm_90b")


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ToolError, match="unrecognized option --no-such-thing"):
        assemble(EMPTY, "sm_90a", options=("--no-such-thing",))


def test_without_the_extra_the_error_says_how_to_install_it(fresh_caches: pytest.MonkeyPatch) -> None:
    fresh_caches.setitem(sys.modules, "cuda.bindings", None)

    with pytest.raises(ToolError, match=r"(?s)NVRTC is not installed.*try: +pip install 'tilewright\[cuda\]'"):
        assemble(EMPTY, "sm_90a")


def test_without_nvdisasm_the_error_says_how_to_install_it(fresh_caches: pytest.MonkeyPatch) -> None:
    fresh_caches.setattr("cuda.pathfinder.find_nvidia_binary_utility", lambda name: None)

    with pytest.raises(ToolError, match=r"(?s)nvdisasm is not installed.*pip install"):
        sass(b"")


def test_bytes_that_are_no_cubin_are_refused() -> None:
    with pytest.raises(ToolError, match="nvdisasm cannot read the cubin"):
        sass(b"not an ELF file")


def test_a_text_that_comes_from_nvrtc_s_own_cache_is_assembled_again_for_its_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assembled = nvrtc._compiled

    def cached(source: str, arch: str, flags: list[str]) -> nvrtc.Assembly:
        made = assembled(source, arch, flags)
        return made if "--no-cache" in flags else nvrtc.Assembly(arch, made.cubin, made.ptx, "")

    monkeypatch.setattr(nvrtc, "_compiled", cached)
    assert assemble(MULTIPLY_ADD, "sm_90a").resources("axpy").registers > 0


def test_a_fault_of_ptxas_itself_is_told_and_no_warning_is() -> None:
    """mbarrier.pending_count of a constant is one, in ptxas 13.5."""
    log = 'kernel.cu(1): warning #177-D: variable "l" was unused\nptxas fatal   : (C7907) Internal compiler error.\n'

    assert nvrtc._refusal("int l;", "sm_90a", log, "").given == "ptxas fatal   : (C7907) Internal compiler error."
