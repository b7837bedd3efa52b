"""The CUDA text assembles for all names that a Python program may use."""

from __future__ import annotations

import keyword
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.cuda.together import together
from tilewright import T
from tilewright.cuda import entry_name
from tilewright.cuda.emit_unit import DECLARED, RESERVED
from tilewright.cuda.nvrtc import assemble
from tilewright.lang import parse_script

# Everything that the text names on its own behalf, keywords of other languages, and what looks like C++'s own.
_ODD = """
NULL half asm register template main norm exp abs rsqrt min max printf threadIdx float int smem tid laneid
ldmatrix_x4 load_nibble store_nibble float32x4 float16x2 add_float16 float16_from_float32 shared_address
broadcast_float32x2 d a p i x y k __x __restrict__ _Bool _Pragma _Z3abs linux unix __CUDACC__ __syncthreads
__shfl_sync atomicAdd make_float4 float4 size_t std cudaMalloc CUDA_R_16F CU_UUID_HAS_BEEN_DEFINED NV_IF_TARGET
char8_t co_await requires concept typeof restrict tw_ctarank π größe 名前 self cls None_ lambda_ print type id
list dict str object float32 T_ Tx_ range_ slice_ n_end i_end
"""
ODD = _ODD.split()
SCRIPT = """
@T.prim_func
def {kernel}({array}_ptr: T.handle, {scalar}: T.float32):
    {extent} = T.int32()
    {array} = T.match_buffer({array}_ptr, ({extent},), "float32")
    T.device_entry()
    {lane} = T.thread_id([32])
    {shared} = T.alloc_shared((32,), "float32")
    {regs} = T.alloc_local((4,), "float16")
    {mutable}: T.float32 = {scalar}
    for {loop} in range({extent}):
        {mutable} = {mutable} + T.exp({array}[{loop}]) * T.rsqrt({scalar})
    {shared}[{lane}] = T.max(T.abs({mutable}), {scalar})
    {regs}[0] = T.cast({mutable}, "float16") + T.cast({scalar}, "float16")
    T.cuda.cta_sync()
    T.cuda.printf("%f {kernel} {loop}", {mutable})
    {array}[{lane} % {extent}] = {shared}[{lane}] + T.cast({regs}[0], "float32")
"""
ROLES = ("kernel", "array", "scalar", "extent", "lane", "shared", "regs", "mutable", "loop")


def legal(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in ("T", "Tx", "range", "slice")


NAMES = sorted({name for name in (*RESERVED, *DECLARED, *ODD) if legal(name)})


def text_of(names: dict[str, str]) -> str:
    """The CUDA text of a kernel with these names."""
    kernel = parse_script(SCRIPT.format(**names))
    return tw.compile(kernel, "sm_90a").source("cuda")


def plain() -> dict[str, str]:
    return {role: f"the_{role}" for role in ROLES}


@pytest.mark.every(3)
@pytest.mark.parametrize("first", range(len(ROLES)))
def test_every_name_of_cpp_and_cuda_may_name_a_local_thing(first: int) -> None:
    """Each name in one role after the other, as many at once as there are roles."""
    names = [name for name in NAMES if name in RESERVED or name in ODD or len(name) < 4]
    texts = []
    for start in range(first, len(names), len(ROLES)):
        chosen = [names[(start + k) % len(names)] for k in range(len(ROLES))]
        wanted = dict(zip(ROLES[first:] + ROLES[:first], chosen, strict=True))
        texts.append(text_of({**wanted, "kernel": f"k{start}"}))

    assert together(texts, "sm_90a").cubin


def test_every_name_of_cpp_and_cuda_may_name_a_kernel() -> None:
    """All entries in one text: NVRTC refuses it where one of them is declared already."""
    one = parse_script("@T.prim_func\ndef k(a: T.int32):\n    pass\n")
    entries = {entry_name(replace(one, name=name)): name for name in NAMES}

    heads = [f'extern "C" __global__ void {entry}(int* p) {{}}' for entry in entries]
    assert len(entries) > len(NAMES) * 0.99  # names may differ in trailing underscores only
    assert assemble("\n".join(heads), "sm_90a").cubin


@pytest.mark.parametrize("name", ["norm", "exp", "abs", "rsqrt", "float32x4", "shared_address", "f32_max", "template"])
def test_a_kernel_keeps_a_readable_name_in_profilers(name: str) -> None:
    text = text_of({**plain(), "kernel": name})

    assert assemble(text, "sm_90a").resources(name if f"\n{name}(" in text else f"{name}_").registers


def test_a_kernel_named_like_a_helper_keeps_its_name_and_the_helper_yields() -> None:
    @T.prim_func
    def float32x4(A: T.Buffer((4,), "float32x4")):
        A[0] = A[1] + A[2]

    text = tw.compile(float32x4, "sm_90a").source("cuda")

    assert "float32x4(float32x4_* A)" in text
    assert assemble(text, "sm_90a").resources("float32x4").registers


def test_parameters_and_locals_keep_names_that_only_functions_have() -> None:
    text = text_of({**plain(), "array": "norm", "mutable": "exp", "scalar": "log"})

    assert "(float* norm, float log, " in text
    assert "float exp = log;" in text


def test_the_global_symbol_is_the_name_of_the_entry() -> None:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "scale_rows"})
        A[0] = 1

    exe = tw.compile(k)

    assert "\nscale_rows(float* A)" in exe.source("cuda").replace(" __restrict__", "")
    assert exe.resources.registers


identifiers = st.from_regex(r"[^\W\d]\w{0,4}", fullmatch=True).filter(legal)


@settings(max_examples=10, deadline=None)
@given(st.lists(identifiers, min_size=len(ROLES), max_size=len(ROLES), unique=True))
def test_any_identifiers_of_python_assemble(names: list[str]) -> None:
    from unicodedata import normalize

    normal = [normalize("NFKC", name) for name in names]
    if len({*normal, *(f"{name}_ptr" for name in normal)}) < 2 * len(normal) or not all(map(legal, normal)):
        return
    assert assemble(text_of(dict(zip(ROLES, normal, strict=True))), "sm_90a").cubin
