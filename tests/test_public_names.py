"""A keyword that a public function does not have is refused with the nearest one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import T, kernels
from tilewright.errors import ArgumentError
from tilewright.layout import ComposeLayout, Iter, S, SwizzleLayout, TileLayout, m


@T.prim_func
def kernel(A: T.Buffer((32,), "float32")):
    A[T.thread_id([32])] = 2.0


ARRAY = np.zeros(32, np.float32)
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "simulate": (lambda: tw.simulate(kernel, ARRAY, checks="all"), "check"),
    "compile": (lambda: tw.compile(kernel, traget="sm_80"), "target"),
    "call": (lambda: tw.compile(kernel)(ARRAY, o="sim"), "on"),
    "advise": (lambda: tw.compile(kernel).advise(ARRAY, size={}), "sizes"),
    "profile": (lambda: tw.compile(kernel).profile(ARRAY, gpus="H200"), "gpu"),
    "autotune": (lambda: tw.autotune(kernel, config=[]), "configs"),
    "load_cu": (lambda: tw.load_cu("\n", includes=[]), "include"),
    "load_ptx": (lambda: tw.load_ptx(txt="\n"), "text"),
    "TensorMap": (lambda: tw.TensorMap(ARRAY, [32], swizle=3), "swizzle"),
    "Texture": (lambda: tw.Texture(ARRAY, filtr="linear"), "filter"),
    "softmax": (lambda: kernels.softmax(xx=ARRAY), "x"),
    "layer_norm": (lambda: kernels.layer_norm(ARRAY, ARRAY, ARRAY, epsilon=1e-5), "eps"),
    "matmul": (lambda: kernels.matmul(ARRAY, ARRAY, dtyp="float32"), "dtype"),
    "TileLayout": (lambda: TileLayout(S[4:1], ofset=1), "offset"),
    "SwizzleLayout": (lambda: SwizzleLayout(per_elemnt=3, swizzle_len=3, atom_len=3), "per_element"),
    "ComposeLayout": (lambda: ComposeLayout(swizle=SwizzleLayout(3, 3, 3)), "swizzle"),
    "Iter": (lambda: Iter(4, 1, axes=m), "axis"),
    "torch_op": (lambda: tw.torch_op("a::b", kernel, mutate=()), "mutates"),
}


@pytest.mark.parametrize("name", kernels.__all__)
def test_every_kernel_names_its_parameters(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} has no parameter 'nonsense'"):
        getattr(kernels, name)(nonsense=1)


@pytest.mark.parametrize("name", CALLS)
def test_a_keyword_that_does_not_exist_gets_the_nearest(name: str) -> None:
    call, nearest = CALLS[name]

    with pytest.raises(tw.TilewrightError, match="has no parameter") as raised:
        call()

    assert str(raised.value.allowed).endswith(f"(did you mean {nearest!r}?)")
