"""Which fields of an effect go together, with each other and with the operands and the meaning of its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.isa.effects import Access, Consults, Issue, Signal, Sync, Wait
from tilewright.isa.meanings import AsyncMeaning
from tilewright.isa.operands import Operand

if TYPE_CHECKING:
    from tilewright.isa.forms import Form

__all__ = ["disagreement"]

Operands = Mapping[str, Operand]
Rule: TypeAlias = "tuple[str, Callable[[Any, Form, Operands], bool], str]"
MEMORIES = ("shared", "tmem", "global")  # kinds of operands that lead to one memory, which has their name
READS, WRITES = ("acquire",), ("release",)


def _leads(effect: Any, name: str, operands: Operands, *spaces: str) -> bool:
    """May an operand lead to one of these memories?"""
    operand = operands.get(name)
    return operand is None or operand.kind in spaces or operand.kind not in (*MEMORIES, "imm")


def _has_addresses(access: Access, form: Form) -> bool:
    given = isinstance(form.meaning, AsyncMeaning) and form.meaning.addresses is not None
    return given or not (access.computed or access.sized)


def _is_count(value: Any, most: int) -> bool:
    return callable(value) or (isinstance(value, int) and 0 < value <= most)


def _in_registers(issue: Issue, operands: Operands) -> bool:
    held = [operands[name] for name in issue.holds if name in operands]
    return all(one.in_register and one.read and one.kind not in (*MEMORIES, "generic") for one in held)


def _pending(wait: Wait, operands: Operands) -> bool:
    if isinstance(wait.pending, str):
        return wait.pending not in operands or operands[wait.pending].kind == "imm"
    return wait.pending is None or wait.pending >= 0


RULES: Mapping[type, tuple[Rule, ...]] = {
    Access: (
        ("nbytes", lambda one, form, operands: _is_count(one.nbytes, 1 << 30), "a positive number of bytes"),
        ("lanes", lambda one, form, operands: _is_count(one.lanes, 32), "1..32"),
        ("sem", lambda one, form, operands: not (one.sem in READS and one.write and not one.rmw), "that of a write"),
        ("sem", lambda one, form, operands: not (one.sem in WRITES and not (one.write or one.rmw)), "that of a read"),
        (
            "scope",
            lambda one, form, operands: one.sem != "weak" or callable(one.scope) or not one.scope,
            "'', as the access is weak",
        ),
        (
            "space",
            lambda one, form, operands: one.computed or _leads(one, one.operand, operands, one.space),
            "the memory that the operand leads to",
        ),
        (
            "computed",
            lambda one, form, operands: _has_addresses(one, form),
            "False, or a form with Issue whose AsyncMeaning has addresses; likewise sized",
        ),
    ),
    Issue: (
        ("holds", lambda one, form, operands: _in_registers(one, operands), "operands that are read from registers"),
        ("in_order_after", lambda one, form, operands: isinstance(one.in_order_after, tuple), "a tuple of names"),
    ),
    Signal: (
        ("barrier", lambda one, form, operands: _leads(one, one.barrier, operands, "shared"), "one in shared memory"),
    ),
    Wait: (("pending", lambda one, form, operands: _pending(one, operands), "0 or more, or an operand of kind imm"),),
    Sync: (
        ("barrier", lambda one, form, operands: one.scope != "named" or bool(one.barrier), "the operand that names it"),
        ("wait_only", lambda one, form, operands: not (one.arrive_only and one.wait_only), "False with arrive_only"),
    ),
    Consults: (
        ("operand", lambda one, form, operands: _leads(one, one.operand, operands, "global"), "one in global memory"),
        ("operand", lambda one, form, operands: form.issue is not None, "a form with Issue"),
    ),
}  # fmt: skip
"""For each kind of effect the fields that something else limits, whether they agree, and what would."""


def disagreement(form: Form, operands: Operands) -> tuple[str, object, str] | None:
    """The first field of an effect that does not fit: its name, what it is, what is allowed; None where all fit."""
    for effect in form.effects:
        for field, agrees, allowed in RULES.get(type(effect), ()):
            if not agrees(effect, form, operands):
                return f"{type(effect).__name__}.{field}", getattr(effect, field), allowed
    return None
