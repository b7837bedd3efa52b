"""How a form is written: a template, with a hole for each modifier, and what the modifiers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

__all__ = ["GIVEN", "LEFT_OUT", "Cuda", "Ptx", "Spellings", "Wording", "spoken"]

Spellings = Mapping[Any, str]  # what a modifier means (a Python value) -> how it is spelled

# Two forms that differ in whether a call gives an operand whose keyword has the default None.
LEFT_OUT: Spellings = {None: ""}
GIVEN: Spellings = {"given": ""}


def spoken(word: str) -> str:
    """A word of PTX as a row's name has it: Python keeps some for itself.

    >>> spoken("or"), spoken("xor")
    ('or_', 'xor')
    """
    return f"{word}_" if iskeyword(word) else word


@dataclass(frozen=True)
class Wording:
    """The words of a form: of `Ptx` or of `Cuda`.

    template: the text, with a ``{hole}`` per modifier. modifiers: for each, what it means -> how it is spelled;
    ``dtype`` is set by the operands of kind "typed".
    """

    template: str
    modifiers: Mapping[str, Spellings] = field(default_factory=dict)


@dataclass(frozen=True)
class Ptx(Wording):
    """A mnemonic of PTX. pattern: instead of the row's, where the operands of this form stand otherwise."""

    pattern: str = ""


@dataclass(frozen=True)
class Cuda(Wording):
    """An expression of C++, with a ``{hole}`` per operand, too.

    helper: C++ functions that the text uses, emitted once; it may be the name of an operand of kind "symbol" that has
    them.
    """

    helper: str = ""
