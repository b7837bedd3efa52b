"""A public function answers for any arguments, or refuses in words: no other exception reaches the caller."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.samples import sampled
from tests.wrong.values import LAYOUTS, any_value
from tilewright import T, TilewrightError, Tx, isa, layout
from tilewright.dtypes import dtype
from tilewright.layout import Iter, LinearLayout, R, S, laneid


@T.prim_func
def plus(A: T.Buffer((64,), "float32"), n: T.int32):
    T.cta_id([1])
    tid = T.thread_id([64])
    A[tid] = A[tid] + T.cast(n, "float32")


@T.jit
def filled(A: T.Buffer((64,), "float32"), *, N: T.constexpr):
    T.cta_id([1])
    tid = T.thread_id([64])
    A[tid] = T.float32(N)


EXECUTABLE = tw.compile(plus)
ABSTRACT = ("Facts", "Layout", "Region", "Table", "Value", "ScopeName", "SwizzleMode")  # these are not called
OPERATORS = ("__add__", "__radd__", "__matmul__", "__rmatmul__", "__getitem__")


def of_layout() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in layout.__all__:
        if callable(getattr(layout, name)) and name not in ABSTRACT:
            yield name, getattr(layout, name)
    linear = LinearLayout.of(S[8, 4], (8, 4))
    for value in (*LAYOUTS, S, R, laneid, Iter(4, 1), 3 @ laneid, linear):
        for name in dir(value):
            member = getattr(value, name) if name in OPERATORS or not name.startswith("_") else None
            if callable(member):
                yield f"{type(value).__name__}.{name}", member


def of_language(space: Any = T, path: str = "T") -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(space):
        found = getattr(space, name)
        if callable(found) and name != "SwizzleMode":
            yield f"{path}.{name}", found
        if type(found).__name__ in ("Instructions", "TileNamespace"):
            yield from of_language(found, f"{path}.{name}")


def of_compiler() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from (("compile", tw.compile), ("simulate", tw.simulate), ("specialize", filled.specialize), ("dtype", dtype))
    yield "Executable", tw.Executable
    yield "an executable", EXECUTABLE
    for name in dir(EXECUTABLE):
        if not name.startswith("_") and callable(getattr(tw.Executable, name, None)):  # properties stay unasked
            yield f"Executable.{name}", getattr(EXECUTABLE, name)
    others = ("autotune", "check", "check_numba", "check_triton", "load_ptx", "torch_op", "TensorMap")
    yield from ((name, getattr(tw, name)) for name in others)
    for name in ("arch", "atom", "lookup", "majorness", "mma_atom", "spelled"):
        yield f"isa.{name}", getattr(isa, name)


Call = tuple[str, Callable[..., Any], list[Any], dict[str, Any]]
PUBLIC = [*of_layout(), *of_language(), *of_language(Tx, "Tx"), *of_compiler()]
FITTING = [plus, EXECUTABLE, "sm_90a", "all", "tile", np.zeros(64, np.float32), 3, (8, 8), "ptx.mma", "float16"]


@st.composite
def calls(draw: st.DrawFn) -> Call:
    name, function = PUBLIC[draw(st.integers(0, len(PUBLIC) - 1))]
    value = any_value | st.sampled_from(range(len(FITTING))).map(FITTING.__getitem__)
    args, named = [], {}
    for param in inspect.signature(function).parameters.values():
        if param.kind is param.KEYWORD_ONLY:
            if param.default is param.empty or draw(st.booleans()):
                named[param.name] = draw(value)
        elif param.kind is param.VAR_POSITIONAL:
            args += draw(st.lists(value, max_size=4))
        elif param.kind is not param.VAR_KEYWORD:
            args.append(draw(value))
    return name, function, args, named


def refuses_in_words(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            repr(function(*args, **named))
        except TilewrightError as error:
            str(error)


SEARCHING = settings.default is not settings.get_profile("repeatable")


@sampled(1500, of=100_000)
@given(calls())
def test_a_public_function_answers_or_refuses_in_words(
    call: tuple[str, Callable[..., Any], list[Any], dict[str, Any]],
) -> None:
    refuses_in_words(*call[1:])


@settings(max_examples=20_000 if SEARCHING else 400)
@given(st.lists(any_value | st.sampled_from([3, 1.0]), max_size=3), st.sampled_from(["simulate", "bind", "__call__"]))
def test_a_call_of_a_kernel_runs_or_refuses_in_words(args: list[Any], how: str) -> None:
    refuses_in_words(getattr(EXECUTABLE, how), args, {})
    refuses_in_words(getattr(EXECUTABLE, how), [np.zeros(64, np.float32), *args[:1]], {})


SYMPTOMS: dict[str, Callable[[], object]] = {
    "a target that is a number": lambda: tw.compile(plus, target=90),  # type: ignore[arg-type]
    "a target in a list": lambda: tw.compile(plus, target=["sm_90a"]),  # type: ignore[arg-type]
    "a check that is None": lambda: tw.simulate(plus, np.zeros(64, np.float32), 1, check=None),  # type: ignore[arg-type]
    "a layout without its colon": lambda: layout.parse_layout("S[(8, 4) (4, 1)]"),
    "a lone surrogate": lambda: layout.parse_layout("\ud800"),
    "a layout of a number": lambda: layout.TileLayout(3),  # type: ignore[arg-type]
    "CuTe's notation of a number": lambda: layout.from_cute(3),  # type: ignore[arg-type]
    "an element that is a number": lambda: layout.mma_shared_layout(1, 3, (8, 64)),  # type: ignore[arg-type]
    "a masked array": lambda: EXECUTABLE(np.ma.masked_array(np.zeros(64, np.float32)), 1),
    "a region of no buffer": lambda: T.region(3),
    "a swizzle that is mirrored by a list": lambda: layout.SwizzleLayout(1, 1, 2, [3]),  # type: ignore[arg-type]
    "a fragment of vectors": lambda: layout.wgmma_fragment(128, 8, "A", "float32x4"),
    "an atom of nothing": lambda: layout.mma_atom_layout("void", 3),
    "a vector of pointers": lambda: dtype("handlex2"),
    "a node that does not exist": lambda: T.exactly("@", 3),
}


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_wrong_type_is_refused_in_words(symptom: str) -> None:
    with pytest.raises(TilewrightError):
        SYMPTOMS[symptom]()


def test_an_instruction_has_a_signature_and_no_private_names() -> None:
    assert list(inspect.signature(T.ptx.mma).parameters) == ["shape", "types", "d", "a", "b", "c", "saturate"]
    with pytest.raises(AttributeError):
        getattr(T.ptx.mma, "_repr_html_")  # noqa: B009  # the access is the test


def test_every_annotation_of_a_public_function_is_known() -> None:
    """An annotation that the tables lack would accept any value."""
    for name, function in PUBLIC:
        found = getattr(function, "__closure__", None)
        if getattr(function, "__wrapped__", None) is None or found is None:
            continue
        room = next((cell.cell_contents for cell in found if isinstance(cell.cell_contents, tw.public.Public)), None)
        for parameter, annotation in function.__annotations__.items():
            if room is not None and parameter != "return":
                assert room.knows(str(annotation), parameter), f"{name}: {parameter}: {annotation}"
