"""Constant memory and a kernel's parameters are read, never written, by whatever instruction and pointer."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InstructionError, SimulationError, TilewrightError

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.const .align 16 .b8 c[64];
.global .align 16 .b8 d[64];
.shared .align 16 .b8 s[64];
.visible .entry k(.param .u64 out, .param .align 16 .b8 p[32]) {
    .reg .b64 %%o, %%c; .reg .b32 %%s, %%v, %%w; .reg .f32 %%f;
    ld.param.u64 %%o, [out]; mov.u32 %%s, s; mov.b32 %%v, 1; st.shared.b32 [%%s], %%v;
    %s
    ret;
}
"""
CONST, PARAM, GLOBAL = (
    "mov.u64 %c, c; cvta.const.u64 %c, %c;",
    "mov.b64 %c, p; cvta.param.u64 %c, %c;",
    "mov.u64 %c, d;",
)
WRITES = {
    "st": "st.b32 [%c], %v;",
    "st.global": "st.global.b32 [%c], %v;",
    "st.v2": "st.v2.b32 [%c], {%v, %v};",
    "st.release": "st.release.gpu.b32 [%c], %v;",
    "st.volatile": "st.volatile.b32 [%c], %v;",
    "atom": "atom.add.u32 %w, [%c], %v;",
    "atom.cas": "atom.cas.b32 %w, [%c], %v, %v;",
    "red": "red.global.add.u32 [%c], %v;",
    "a bulk copy": "fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%c], [%s], 16;",
    "a bulk reduction": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%c], [%s], 16;",
}


def run(body: str) -> None:
    tw.load_ptx(TEXT % body)["k"].simulate(np.zeros(16, np.float32), bytes(32), grid=1, block=1, check="bounds")


@pytest.mark.parametrize("pointer", [CONST, PARAM])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_of_a_constant_is_told(write: str, pointer: str) -> None:
    name = "c" if pointer == CONST else "p"
    with pytest.raises(SimulationError, match=f"writes {name}, which no thread may write"):
        run(pointer + WRITES[write])


@pytest.mark.parametrize("write", WRITES)
def test_the_same_write_of_a_global_variable_is_clean(write: str) -> None:
    run(GLOBAL + WRITES[write])


@pytest.mark.parametrize("pointer", [CONST, PARAM])
def test_a_constant_is_read_through_a_generic_pointer(pointer: str) -> None:
    run(pointer + "ld.b32 %v, [%c]; st.global.b32 [%o], %v;")


def test_a_store_that_names_constant_memory_is_refused() -> None:
    with pytest.raises(InstructionError, match="writes constant memory"):
        run("st.const.b32 [c], %v;")


@pytest.mark.parametrize("text", ["st.param.b32 [p], %v;", "st.param.b32 [p+4], %v;", "st.param.b64 [out], %o;"])
def test_a_store_to_the_kernels_parameters_is_told(text: str) -> None:
    with pytest.raises(TilewrightError, match="which no thread may write"):
        run(text)


@pytest.mark.parametrize(
    "body", ["*(int*)(c + 1) = a", "atomicAdd((int*)c, a)", "int* nowhere = nullptr; *nowhere = a"]
)
def test_a_trap_that_the_compiler_puts_in_the_place_of_a_write_is_not_called_the_authors(body: str) -> None:
    text = "__constant__ int c[4];\n__global__ void k(int* o) { int a = o[0];\n  if (a == 0)\n    { BODY; }\n}"
    text = text.replace("BODY", body)

    with pytest.raises(SimulationError, match=r"the compiler's own trap was reached(?s:.*)tilewright check"):
        tw.load_cu(text)["k"].simulate(np.zeros(32, np.int32), grid=1, block=32)


def test_a_trap_of_the_author_is_called_by_its_name() -> None:
    text = "__global__ void k(int* o) {\n  if (o[0] == 0)\n    __trap();\n}"

    with pytest.raises(SimulationError, match=r"__trap\(\) was reached"):
        tw.load_cu(text)["k"].simulate(np.zeros(32, np.int32), grid=1, block=32)
