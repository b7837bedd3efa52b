"""Errors of instruction calls: how the row is called, what was given, which forms there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from tilewright.dtypes import DType
from tilewright.errors import InstructionError, described
from tilewright.ir import Buffer, Expr, Region
from tilewright.isa.table import REQUIRED, Form, Instruction, Mods

__all__ = ["misused", "no_form", "usage", "written"]

MOST_SHOWN = 8  # entries of a list in an error


def usage(row: Instruction) -> str:
    """``T.ptx.ldmatrix(trans, num, type, p, *r, shape='m8n8', space='shared')``."""
    words = [*row.params, *(k if d is REQUIRED else f"{k}={d!r}" for k, d in row.keywords.items())]
    return f"T.{row.name}({', '.join(words)})"


def misused(row: Instruction, how: str, args: Iterable[object], kwargs: dict[str, object]) -> InstructionError:
    listed = [*map(written, args), *(f"{key}={written(value)}" for key, value in kwargs.items())]
    return InstructionError(f"T.{row.name} {how}", given=", ".join(listed) or "nothing", allowed=usage(row))


def written(value: object) -> str:
    """An argument as its user wrote it; of a long list, the first entries."""
    if isinstance(value, (tuple, list)):
        shown = [written(part) for part in value[:MOST_SHOWN]] + ["..."] * (len(value) > MOST_SHOWN)
        return f"[{', '.join(shown)}]" if isinstance(value, list) else f"({', '.join(shown)})"
    if isinstance(value, Buffer):
        return value.name
    return str(value) if isinstance(value, (Expr, Region, str, int, float)) or value is None else described(value)


def no_form(row: Instruction, mods: Mods) -> InstructionError:
    """Names what is given, and the modifier that no form has as it is given; if each alone is fine, the forms that have
    most of it, with the first modifier, the shape, if any has it.
    """
    wrong = {
        id(form): [mods.get(name) not in table for name, table in form.wording.modifiers.items()] for form in row.forms
    }
    least = min((sum(missed) for missed in wrong.values() if not missed[0]), default=None)
    near = [form for form in row.forms if least is None or (not wrong[id(form)][0] and sum(wrong[id(form)]) == least)]
    return InstructionError(
        f"T.{row.name} has no form with these modifiers",
        given=", ".join(_spoken(row, name, [value]) for name, value in mods.items()),
        allowed=_unknown(row, mods) or "\n".join(dict.fromkeys(_choices_of(row, form, mods) for form in near)),
    )


def _unknown(row: Instruction, mods: Mods) -> str:
    """What the first modifier may be that no form has as it is given; empty where there is none."""
    for name, value in mods.items():
        known = dict.fromkeys(chain.from_iterable(form.wording.modifiers.get(name, ()) for form in row.forms))
        if known and value not in known and row.operand(name) is None:
            return _spoken(row, name, list(known))
    return ""


def _choices_of(row: Instruction, form: Form, mods: Mods) -> str:
    """What the modifiers may be: the first, and those that are not as the form has them."""
    tables = form.wording.modifiers.items()
    shown = [(name, table) for k, (name, table) in enumerate(tables) if not k or mods.get(name) not in table]
    return ", ".join(_spoken(row, name, list(table)) for name, table in shown)


def _spoken(row: Instruction, name: str, values: Sequence[object]) -> str:
    """``num in (1, 2)``; an operand that may be left out: ``with split=``, ``without split=``."""
    if row.operand(name) is not None and values in ([None], ["given"]):
        return f"{'with' if values[0] else 'without'} {name}="
    listed = [str(value) if isinstance(value, DType) else repr(value) for value in values]
    return f"{name}={listed[0]}" if len(values) == 1 else f"{name} in ({', '.join(listed)})"
