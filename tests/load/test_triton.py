"""Calls of Triton kernels: types, constants, decorators; and, where Triton is installed, whole calls."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import host
from tilewright.errors import ArgumentError, SimulationError, ToolError
from tilewright.load.triton import _innermost, laid_out, load_triton, typed

X = np.zeros(64, np.float32)


def parameter(name: str = "x", *, constant: bool = False, fixed: str = "", general: bool = False) -> Any:
    return SimpleNamespace(name=name, is_constexpr=constant, annotation_type=fixed, do_not_specialize=general,
                           do_not_specialize_on_alignment=False, has_default=False)  # fmt: skip


def kernel(*names: str) -> Any:
    """A stand-in for a function of @triton.jit."""
    params = [parameter(name, constant=name.isupper()) for name in names]
    return SimpleNamespace(params=params, arg_names=list(names), __name__="k")


@pytest.mark.parametrize(
    ("value", "name", "even"),
    [(X, "*fp32", True), (X.astype(np.uint8), "*u8", True), (32, "i32", True), (33, "i32", False),
     (1 << 40, "i64", True), (1 << 63, "u64", True), (True, "u1", False), (0.5, "fp32", False), (1, "constexpr", False),
     (None, "constexpr", False)],
)  # fmt: skip
def test_arguments_have_the_types_that_triton_gives_them(value: object, name: str, even: bool) -> None:
    found = typed(parameter(), value)

    assert (found.name, bool(found.attributes)) == (name, even)


def test_what_a_kernel_declares_of_a_parameter_counts() -> None:
    assert typed(parameter(fixed="i64"), 1).name == "i64"
    assert typed(parameter(general=True), 16).attributes == []
    assert typed(parameter(constant=True), 7).is_constant


def test_a_view_that_begins_in_between_is_not_taken_to_be_aligned() -> None:
    assert typed(parameter(), X[1:]).attributes == []


def test_a_type_that_triton_lacks_is_told_with_the_argument() -> None:
    with pytest.raises(ArgumentError, match="argument x has a type that Triton lacks"):
        typed(parameter(), "text")


def test_a_descriptor_becomes_a_tensor_map_or_a_pointer_with_its_shape_and_strides() -> None:
    base = np.zeros((32, 64), np.float16)
    given = SimpleNamespace(base=base, shape=[32, 64], strides=[64, 1], block_shape=[16, 64], padding="nan",
                            round_f32_to_tf32=False)  # fmt: skip
    map_ = {"swizzle": 3, "elem_type": 6, "block_size": [16, 64], "fp4_padded": False}

    by_map = laid_out([("a", given), ("n", 3)], [map_])
    by_pointer = laid_out([("a", given)], [])

    assert typed(parameter(), given).name == "tensordesc<fp16[16, 64]>"
    assert isinstance(by_map[0][1], host.TensorMap)
    assert str(by_map[0][1].fields) == "boxes of 16 x 64 in 32 x 64 float16, 128-byte swizzle"
    assert [value for _, value in by_map[1:]] == [32, 64, 64, 1, 3]
    assert [value for _, value in by_pointer[1:]] == [32, 64, 64, 1, True, False, 32, 64, 64, 1]
    assert by_map[1][0] == "a.shape[0]"


def test_a_descriptor_has_parameters_for_the_flags_that_its_triton_knows() -> None:
    given = SimpleNamespace(base=X.reshape(8, 8), shape=[8, 8], strides=[8, 1], block_shape=[8, 8], padding="zero")

    names = [name for name, _ in laid_out([("a", given)], [])]

    assert "a.padding" in names
    assert "a.round_f32_to_tf32" not in names


def test_decorators_add_their_constants() -> None:
    inner = kernel("x", "n", "BLOCK")
    configs = [SimpleNamespace(all_kwargs=lambda size=size: {"BLOCK": size, "num_warps": 2}, pre_hook=None)
               for size in (16, 32)]  # fmt: skip
    heuristic = SimpleNamespace(fn=inner, arg_names=inner.arg_names, values={"EVEN": lambda of: of["n"] % of["BLOCK"]})
    tuned = SimpleNamespace(fn=heuristic, arg_names=inner.arg_names, configs=configs)

    found, named = _innermost(tuned, (X, 48), {}, 1)

    assert found is inner
    assert named == {"BLOCK": 32, "num_warps": 2, "EVEN": 16}
    assert _innermost(tuned, (X, 48), {"BLOCK": 8}, 0)[1]["BLOCK"] == 8
    with pytest.raises(ArgumentError, match="config is the number of a configuration"):
        _innermost(tuned, (X, 48), {}, 2)


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [((X,), {}, "no n, BLOCK"), ((X, 1), {"BLOK": 2}, "no BLOCK; BLOK"), ((X, 1, 2, 3), {}, "4 arguments"),
     ((X, 1), {"n": 2, "BLOCK": 4}, "n twice")],
)  # fmt: skip
def test_wrong_arguments_are_told_by_name(args: tuple[Any, ...], named: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match="k takes 3 arguments") as raised:
        load_triton(kernel("x", "n", "BLOCK"), *args, **named)

    assert raised.value.given == text


def test_a_function_without_triton_jit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="this is no kernel of Triton") as raised:
        tw.check_triton(lambda x: x, 1, X)

    assert "@triton.jit" in str(raised.value.allowed)


@pytest.mark.parametrize(
    ("assembly", "shown"),
    [
        ("\t.loc\t1 5 2\n\tmov.u32 %r1, 0;\n\t.loc\t1 6 2\n\tst.global.u32 [%rd1+64], %r1;\n", 5),
        ("\t\n\t.loc\t1 6 2\n        mov.u32 %r1, 0;\n\n        st.global.u32 [%rd1+64], %r1;\n", 5),
        ("\t\n\n\t.loc\t1 7 2\n\tmov.u32 %r1, 0;\n\t.loc\t1 8 2\n\tst.global.u32 [%rd1+64], %r1;\n", 5),
        ("\tst.global.u32 [%rd1+64], 0;\n", 4),
    ],
)
def test_inline_assembly_has_the_line_that_its_author_wrote_it_on(assembly: str, shown: int) -> None:
    text = (
        '.version 8.0\n.target sm_90\n.address_size 64\n.file 1 "k.py"\n.entry k(.param .u64 a)\n{\n.reg .b32 %r<3>;\n'
        ".reg .b64 %rd<3>;\n\t.loc\t1 4 2\n\tld.param.u64 %rd1, [a];\n"
        f"\t// begin inline asm\n{assembly}\t// end inline asm\n\tret;\n}}\n"
    )

    with pytest.raises(SimulationError) as raised:
        tw.load_ptx(text)["k"].simulate(np.zeros(16, np.uint32), grid=1, block=1)

    assert raised.value.at is not None
    assert raised.value.at.line == shown


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is installed")
def test_a_missing_triton_is_told_with_what_to_install() -> None:
    with pytest.raises(ToolError, match="Triton is not installed") as raised:
        tw.check_triton(kernel("x", "n", "BLOCK"), 1, X, 64, BLOCK=64)

    assert raised.value.hint == "pip install triton"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_ten_kernels_are_right_and_clean(target: str) -> None:
    from benchmarks.peers.triton_ten import CASES

    for name, make in CASES.items():
        case = make()
        found = tw.check_triton(case.kernel, case.grid, *case.args, target=target, **case.options)

        assert case.right(), name
        assert found.warnings == [], name
