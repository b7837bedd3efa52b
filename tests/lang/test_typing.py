"""What type checkers are told of `T` is what there is. `make lint` has mypy read `typed_kernels.py`."""

from __future__ import annotations

import ast
import inspect

from tests.lang import typed_kernels
from tilewright import T
from tools.language_stub import LANGUAGE_STUB, vectors

CLASSES = {each.name: each for each in ast.parse(LANGUAGE_STUB.read_text()).body if isinstance(each, ast.ClassDef)}


def declared(space: ast.ClassDef) -> set[str]:
    names = {each.name for each in space.body if isinstance(each, ast.FunctionDef)}
    names |= {
        each.target.id for each in space.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return names | {
        name.id
        for each in space.body
        if isinstance(each, ast.Assign)
        for name in each.targets
        if isinstance(name, ast.Name)
    }


def test_the_typed_kernel_runs() -> None:
    assert typed_kernels.run.counts


def test_every_name_of_the_language_is_declared_and_no_other() -> None:
    assert declared(CLASSES["T"]) == set(dir(T))
    assert declared(CLASSES["_ptx"]) == set(dir(T.ptx))
    assert declared(CLASSES["_ptx_mbarrier_arrive"]) == {"__call__", *dir(T.ptx.mbarrier.arrive)}


def test_every_type_of_vectors_is_declared() -> None:
    assert declared(CLASSES["_Vectors"]) == {*vectors()}
    assert {name: getattr(T, name).lanes for name in vectors()} == {name: int(name[-1]) for name in vectors()}


def test_help_shows_the_parameters_of_functions_that_are_no_instruction() -> None:
    assert str(inspect.signature(T.relu)).startswith("(*")
