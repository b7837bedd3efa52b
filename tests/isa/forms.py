"""Rows of the table as tests use them: a call bound to its form, and a form that is executed."""

from __future__ import annotations

from typing import Any

from tilewright import isa
from tilewright.ir import Call
from tilewright.isa.forms import Form, Mods
from tilewright.isa.table import Bound


def form_of(name: str, *args: Any, **keywords: Any) -> Bound:
    """The form of ``T.<name>(*args, **keywords)``, with its modifiers and operands."""
    node = isa.call(name, *args, **keywords)
    assert isinstance(node, Call)
    return isa.bind(node)


def executed(form: Form, mods: Mods, *operands: Any) -> Any:
    """What the meaning of a form gives for operands, and for those of the modifiers that it asks for."""
    assert form.meaning.execute is not None
    return form.meaning.execute(*operands, **{name: mods[name] for name in form.meaning.passes})
