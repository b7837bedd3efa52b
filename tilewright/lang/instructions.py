"""``T.ptx``, ``T.cuda`` and the math functions: every row of the instruction table by its dotted name."""

from __future__ import annotations

import inspect
from functools import cache

from tilewright.errors import choices
from tilewright.ir import Call, Expr
from tilewright.isa import INSTRUCTIONS, REQUIRED, bind, call, lookup, usage
from tilewright.lang.builder import building
from tilewright.lang.types import UnknownInstruction

__all__ = ["Instructions", "instructions"]


class Instructions:
    """A dotted name of the table: a row to call, a namespace of rows, or both (``T.ptx.mbarrier.arrive``)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = INSTRUCTIONS[name].doc if name in INSTRUCTIONS else f"The instructions T.{name}.*"

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect` shows: the parameters of the row."""
        return _signature(self._name)

    def __getattr__(self, name: str) -> Instructions:
        if name.startswith("_"):  # Python and its tools ask for these
            raise AttributeError(name)
        return instructions(f"{self._name}.{name}")

    def __dir__(self) -> list[str]:
        depth = self._name.count(".") + 1
        return sorted({name.split(".")[depth] for name in INSTRUCTIONS if name.startswith(self._name + ".")})

    def __repr__(self) -> str:
        return f"T.{self._name}"

    def __call__(self, *args: object, **kwargs: object) -> Expr:
        """The call as an expression; in a kernel, one without a value is a statement."""
        made = call(self._name, *args, **kwargs)
        builder = building()
        if builder is not None and isinstance(made, Call):
            builder.made(made, has_effect=_has_effect(made))
        return made


def _has_effect(made: Call) -> bool:
    bound = bind(made)
    form = bound.form
    strong = (access.write or form.word(access.sem, bound.mods) != "weak" for access in form.accesses)
    return form.sync is not None or any(strong)


@cache
def instructions(name: str) -> Instructions:
    """The row or namespace ``name`` ("ptx.ldmatrix", "ptx"). Raises InstructionError with the nearest name."""
    if name in INSTRUCTIONS or any(row.startswith(name + ".") for row in INSTRUCTIONS):
        return Instructions(name)
    space, _, last = name.rpartition(".")
    known = dir(Instructions(space)) or [row for row in INSTRUCTIONS if row.rpartition(".")[2] == last]
    raise UnknownInstruction(
        f"T.{name} is not an instruction",
        given=f"T.{name}",
        allowed=choices(last, known) or usage(lookup(space)),
    )


def _signature(name: str) -> inspect.Signature:
    """Of a row; a namespace without one takes nothing."""
    row = INSTRUCTIONS.get(name)
    if row is None:
        return inspect.Signature()
    plain, starred = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    listed = [inspect.Parameter(p.lstrip("*"), starred if p.startswith("*") else plain) for p in row.params]
    kind = inspect.Parameter.KEYWORD_ONLY if any(p.startswith("*") for p in row.params) else plain
    named = [
        inspect.Parameter(key, kind, default=inspect.Parameter.empty if default is REQUIRED else default)
        for key, default in row.keywords.items()
    ]
    return inspect.Signature([*listed, *named], return_annotation="Expr")
