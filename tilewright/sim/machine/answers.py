"""What the functions of an asynchronous row give, checked as they run: names, shapes and types that fit its effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import InstructionError, described
from tilewright.isa import Addresses

if TYPE_CHECKING:
    from tilewright.sim.machine.arrays import Array
    from tilewright.sim.machine.operation import Operation
    from tilewright.sim.machine.units import Touched

__all__ = ["check_addresses", "check_results"]


def _refused(operation: Operation, what: str, given: object, allowed: object) -> InstructionError:
    return InstructionError(f"{operation.name}: {what}", given=given, allowed=allowed, at=operation.instruction.at)


def check_addresses(operation: Operation, found: object) -> None:
    """Raises InstructionError where `AsyncMeaning.addresses` lacks a name or gives places of another shape."""
    if not isinstance(found, Mapping):
        raise _refused(operation, "addresses gave no mapping", described(found), "a dictionary of `Addresses`")
    names = ", ".join(map(repr, found)) or "no names"
    for name in _needed(operation):
        if name not in found:
            raise _refused(operation, f"addresses gave no {name!r}", names, f"{name!r} too: `Addresses` of its places")
    for name, where in found.items():
        if not isinstance(where, Addresses):
            raise _refused(operation, f"addresses gave no `Addresses` for {name!r}", described(where), "`Addresses`")
        if name not in operation.meaning.takes:
            _check_places(operation, name, where)


def _needed(operation: Operation) -> Iterable[str]:
    """The names that the operands alone do not give an address."""
    form, given = operation.form, operation.arguments
    if form.issue:
        yield from (one.operand for one in form.touched if one.computed or one.sized)
    yield from (one.barrier for one in form.signals if one.barrier not in given or given[one.barrier].ndim != 1)
    yield from (name for name in operation.meaning.takes if name not in given)


def _check_places(operation: Operation, name: str, where: Addresses) -> None:
    count = len(operation.issuers.rows) if where.issuer is None else len(where.issuer)
    at = np.asarray(where.at)
    whose = "issuers" if where.issuer is None else "entries of `issuer`"
    if not at.ndim or (len(at) and count % len(at)) or at.dtype.kind not in "iu":
        given, allowed = f"{at.dtype} of shape {at.shape}", f"integers, a row for each of the {count} {whose}"
        raise _refused(operation, f"addresses gave no places for {name!r}", given, allowed)
    if where.rank is not None and np.shape(where.rank) not in ((count,), ()):
        given, allowed = f"shape {np.shape(where.rank)}", f"({count},): one for each of the {whose}"
        raise _refused(operation, f"addresses gave another number of ranks for {name!r}", given, allowed)


def check_results(operation: Operation, writes: Sequence[Touched], results: Sequence[Array], issuers: int) -> None:
    """Raises InstructionError where `execute` gives another number of values than is written, or other shapes."""
    wanted = [one.effect.operand for one in writes if hasattr(one.effect, "operand")]
    written = [one.name for one in operation.instruction.bound.given if one.written]
    if len(results) != len(wanted) + len(written):
        allowed = ", ".join(map(repr, (*wanted, *written))) or "none"
        raise _refused(operation, "execute gave another number of values than it writes", len(results), allowed)
    for one, name, data in zip(writes, wanted, results, strict=False):
        is_tmem = one.space == "tmem"
        shape = one.shape if is_tmem else (*one.shape, one.width)
        kind = np.dtype(np.uint32 if is_tmem else np.uint8)
        if not _fits(np.shape(data), shape, issuers) or np.asarray(data).dtype.itemsize != kind.itemsize:
            given = f"{np.asarray(data).dtype} of shape {np.shape(data)}"
            raise _refused(operation, f"execute gave other values for {name!r}", given, f"{kind} of shape {shape}")
    lanes = () if operation.issuers.lanes == 1 else (operation.issuers.lanes,)
    for name, data in zip(written, results[len(writes) :], strict=True):
        shape = np.shape(data)
        if shape[:1] != (issuers,) or shape[len(shape) - len(lanes) :] != lanes:
            allowed = str((issuers, "registers", *lanes)).replace("'", "")
            raise _refused(operation, f"execute gave other values for {name!r}", f"shape {shape}", f"shape {allowed}")


def _fits(given: tuple[int, ...], wanted: tuple[int, ...], issuers: int) -> bool:
    """Can values be spread to the places? There is a row for each row of places, or for each issuer."""
    if not given or given[0] not in (wanted[0], issuers) or len(given) > len(wanted):
        return False
    spread = (wanted[0], *given[1:])
    return all(own in (1, most) for own, most in zip(reversed(spread), reversed(wanted), strict=False))
