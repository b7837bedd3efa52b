"""The stub of ``T``, made from what the namespace itself reads: `tilewright/lang/t.pyi`.

In a kernel every value is `Any`, as no Python runs there. The stub says which names there are, what they take and do.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from textwrap import wrap

from tilewright import layout
from tilewright.dtypes import HANDLE, NAMES, VOID
from tilewright.isa.table import INSTRUCTIONS, Instruction
from tilewright.lang import T, builder, meta
from tilewright.lang.instructions import FORMS, Instructions
from tools.size import ROOT

__all__ = ["LANGUAGE_STUB", "language_stub"]

LANGUAGE_STUB = ROOT / "tilewright" / "lang" / "t.pyi"

_STUB = '''\
"""What type checkers and editors see of ``T``. Made by `make docs` from the tables of `isa/` and `lang/`.

``T`` is a class here, and `T.let` and `T.int32` are `Any`, so that they may stand in annotations.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from tilewright.ir import Kernel
from tilewright.lang.functions import JitKernel
{imports}

__all__ = ["T"]

Value = Any  # a number, a scalar, an element of a buffer
Flag = bool
C = TypeVar("C", bound=type[object])

class XYZ:
    x: Any
    y: Any
    z: Any

{namespaces}

class _Vectors:
{vectors}

class T(_Vectors):
    @overload
    @staticmethod
    def prim_func(function: Callable[..., object], /) -> Kernel: ...
    @overload
    @staticmethod
    def prim_func(
        *, check_well_formed: Flag = True, private: Flag = False, stage: str = "tile"
    ) -> Callable[[Callable[..., object]], Kernel]: ...
    @overload
    @staticmethod
    def jit(function: Callable[..., object], /) -> JitKernel: ...
    @overload
    @staticmethod
    def jit(
        *, check_well_formed: Flag = True, private: Flag = False
    ) -> Callable[[Callable[..., object]], JitKernel]: ...
    @staticmethod
    def inline(function: Callable[..., object]) -> Any:
        """A function whose statements are put where a kernel calls it."""
    @staticmethod
    def meta_class(cls: C) -> C:
        """A class whose methods are inlined: its objects exist while a kernel is parsed."""
{names}
'''
_DECORATORS = ("inline", "jit", "meta_class", "prim_func")
WIDTH = 120
_PLAIN = {"int": "int", "int | None": "int | None", "bool": "Flag"}
"""Annotations of what is no value of a kernel; ``T.bool`` hides Python's."""


def language_stub() -> str:
    """The text of `t.pyi`."""
    found = {name: getattr(T, name) for name in dir(T) if name not in _DECORATORS}
    classes = {name: value for name, value in found.items() if _is_class(value)}
    spaces = [name for name, value in found.items() if isinstance(value, Instructions) and dir(value)]
    return _STUB.format(
        imports="\n".join(
            sorted(
                (f"from {each.__module__} import {each.__name__} as _{name}" for name, each in classes.items()),
                key=str.lower,
            )
        ),
        namespaces="\n\n".join("\n".join(_namespace(name)) for name in _nested(spaces)),
        vectors="\n".join(f"    {name}: Any" for name in vectors()),
        names="\n".join(line for name, value in found.items() for line in _name(name, value)),
    )


def vectors() -> Iterator[str]:
    """The names of the types of vectors, which `dir` of ``T`` leaves out."""
    numbers = [name for name in NAMES if name not in (str(HANDLE), str(VOID))]
    return (f"{name}x{lanes}" for name in numbers for lanes in (2, 4, 8))


def _is_class(value: object) -> bool:
    """Does a kernel make objects of it whose methods it calls?"""
    return isinstance(value, type) and (meta.is_meta(value) or value.__module__.startswith(layout.__name__))


def _nested(names: list[str]) -> Iterator[str]:
    """The namespaces of these names, each after those inside of it."""
    for name in names:
        inside = [f"{name}.{each}" for each in dir(Instructions(name))]
        yield from _nested([each for each in inside if dir(Instructions(each))])
        yield name


def _namespace(name: str) -> Iterator[str]:
    """A class for a dotted name, with what can be called and the names inside of it."""
    yield f"class {_class_of(name)}:"
    if name in INSTRUCTIONS:
        yield from _callable("__call__", Instructions(name), method=True)
    for each in dir(Instructions(name)):
        yield from _name(each, Instructions(f"{name}.{each}"))


def _class_of(name: str) -> str:
    return "_" + name.replace(".", "_")


def _name(name: str, value: object) -> Iterator[str]:
    """The lines that declare a name of a namespace."""
    if isinstance(value, Instructions) and dir(value):
        yield f"    {name}: {_class_of(_dotted(value))}"
    elif _is_class(value):
        yield f"    {name} = _{name}"
    elif isinstance(value, builder.TypeName):
        yield f"    {name}: Any"
    elif isinstance(value, type(T.ctaid)):
        yield f"    {name}: XYZ"
    elif callable(value):
        yield from _callable(name, value, method=False)
    else:
        yield f"    {name}: Any"


def _callable(name: str, value: object, *, method: bool) -> Iterator[str]:
    signature = inspect.signature(value)  # type: ignore[arg-type]  # `callable` said so
    parameters = [*(["self"] if method else []), *_parameters(signature.parameters)]
    yield from ([] if method else ["    @staticmethod"])
    line = f"    def {name}({', '.join(parameters)}) -> Any:"
    if len(line) <= WIDTH:
        yield line
    else:
        yield from (f"    def {name}(", *(f"        {each}," for each in parameters), "    ) -> Any:")
    yield from _docstring(_said(value))


def _docstring(text: str) -> Iterator[str]:
    lines = wrap(text, WIDTH - len('        """"""'))
    yield f'        """{lines[0]}' + ('"""' if len(lines) == 1 else "")
    yield from (f"        {line}" for line in lines[1:])
    yield from ([] if len(lines) == 1 else ['        """'])


def _parameters(parameters: Mapping[str, inspect.Parameter]) -> Iterator[str]:
    starred = False
    for each in parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        kind = _PLAIN.get(each.annotation, "Value")
        default = "" if each.default is each.empty else " = ..."
        yield f"{star}{each.name}: {kind}{default}"


def _said(value: object) -> str:
    """The first paragraph of what it says of itself, and which modifiers an instruction takes."""
    row = INSTRUCTIONS.get(_dotted(value)) if isinstance(value, Instructions) else None
    function = FORMS[_dotted(value)] if isinstance(value, Instructions) and row is None else value
    text = " ".join([row.doc, *_words(row)]) if row else (inspect.getdoc(function) or "").split("\n\n")[0]
    return " ".join(text.replace("\\", "\\\\").split())


def _words(row: Instruction) -> Iterator[str]:
    """What each modifier of a call may be, in all forms: "num: 1, 2, 4."."""
    asked = {*row.params, *row.keywords}
    words: dict[str, dict[object, None]] = {}
    for form in row.forms:
        for key, texts in form.wording.modifiers.items():
            words.setdefault(key, {}).update(dict.fromkeys(texts))
    yield from (f"{key}: {', '.join(map(repr, given))}." for key, given in words.items() if key in asked)


def _dotted(value: Instructions) -> str:
    return repr(value).removeprefix("T.")
