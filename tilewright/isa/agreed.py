"""What the functions of a row take and give, checked as they run: names, shapes and types that fit its effects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tilewright.errors import InstructionError, described
from tilewright.isa.machine import Addresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.isa.effects import Access, Signal
    from tilewright.isa.forms import Form
    from tilewright.isa.table import Bound

    Array = NDArray[Any]

Found = TypeVar("Found")


class Executed(Protocol):
    """A call that runs: its row, its line, the modifiers that its meaning gets."""

    @property
    def bound(self) -> Bound: ...

    @property
    def at(self) -> Span | None: ...

    @property
    def keywords(self) -> Mapping[str, object]: ...


class WrittenPlaces(Protocol):
    """Places that an operation writes. shape: of them; width: bytes of each."""

    @property
    def effect(self) -> Access | Signal: ...

    @property
    def space(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


def _misgiven(row: Executed, what: str, value: object, allowed: object) -> InstructionError:
    name = row.bound.instruction.name.removeprefix("ptx.")
    return InstructionError(f"{name}: {what}", given=value, allowed=allowed, at=row.at)


def asked(row: Executed, what: str, function: Callable[..., Found], operands: Iterable[object]) -> Found:
    """What a function of a row gives, its `addresses` or its `execute`.

    Raises InstructionError where it has other parameters than the row says.
    """
    operands = tuple(operands)
    try:
        return function(*operands, **row.keywords)
    except TypeError:
        parameters = inspect.signature(function)
        try:
            parameters.bind(*operands, **row.keywords)
        except TypeError:
            names = ", ".join([*_parameters(row, what), *(f"{name}=" for name in row.keywords)])
            raise _misgiven(row, f"{what} has other parameters", str(parameters), f"({names})") from None
        raise


def _parameters(row: Executed, what: str) -> Iterator[str]:
    """What a function gets, by the names of the row."""
    form, bound = row.bound.form, row.bound
    barriers = {signal.barrier for signal in form.signals}
    if what == "addresses":
        yield "unit"
        yield from (argument.name for argument in bound.arguments)
    elif form.issue:
        yield from (access.operand for access in form.touched if not access.write and access.operand not in barriers)
        yield from form.async_meaning.takes
        yield from (operand.name for operand in bound.given if operand.read and operand.written)
    else:
        yield from filter(None, [form.meaning.on])
        yield from (operand.name for operand in bound.read)


def check_values(row: Executed, results: object) -> None:
    """Raises InstructionError where `execute` of a form that begins nothing gives other values than the row says."""
    for signal in row.bound.form.signals:
        if signal.kind == "arrive" and getattr(results, "dtype", None) != np.uint64:
            what, allowed = "execute gave no state of the m-barrier", "the 64 bits that each lane found there, uint64"
            raise _misgiven(row, what, described(results), allowed)
    names = [repr(operand.name) for operand in row.bound.given if operand.written] or ["the call"]
    values = results if isinstance(results, tuple) and len(names) > 1 else (results,)
    if len(values) != len(names):
        what = "execute gave another number of values than it writes"
        raise _misgiven(row, what, len(values), f"{len(names)}: {', '.join(names)}")
    for name, value in zip(names, values, strict=True):
        data = np.asarray(value)
        if data.dtype.kind not in "biufcV" or data.shape[-1:] not in ((), (1,), (32,)):
            text = f"{data.dtype} of shape {data.shape}" if isinstance(value, np.ndarray) else described(value)
            raise _misgiven(row, f"execute gave no values for {name}", text, "numbers of shape (..., 32)")


def check_addresses(row: Executed, operands: Mapping[str, Array], issuers: int, places: object) -> None:
    """Raises InstructionError where `AsyncMeaning.addresses` lacks a name or gives places of another shape."""
    if not isinstance(places, Mapping):
        raise _misgiven(row, "addresses gave no mapping", described(places), "a dictionary of `Addresses`")
    names = ", ".join(map(repr, places)) or "no names"
    for name in _needed(row.bound.form, operands):
        if name not in places:
            raise _misgiven(row, f"addresses gave no {name!r}", names, f"{name!r} too: `Addresses` of its places")
    for name, where in places.items():
        if not isinstance(where, Addresses):
            raise _misgiven(row, f"addresses gave no `Addresses` for {name!r}", described(where), "`Addresses`")
        if name not in row.bound.form.async_meaning.takes:
            _check_places(row, issuers, name, where)


def _needed(form: Form, operands: Mapping[str, Array]) -> Iterable[str]:
    """The names that the operands alone do not give an address."""
    if form.issue:
        yield from (access.operand for access in form.touched if access.computed or access.sized)
    barriers = (signal.barrier for signal in form.signals)
    yield from (name for name in barriers if name not in operands or operands[name].ndim != 1)
    yield from (name for name in form.async_meaning.takes if name not in operands)


def _check_places(row: Executed, issuers: int, name: str, where: Addresses) -> None:
    count = issuers if where.issuer is None else len(where.issuer)
    at = np.asarray(where.at)
    whose = "issuers" if where.issuer is None else "entries of `issuer`"
    if not at.ndim or (len(at) and count % len(at)) or at.dtype.kind not in "iu":
        text, allowed = f"{at.dtype} of shape {at.shape}", f"integers, a row for each of the {count} {whose}"
        raise _misgiven(row, f"addresses gave no places for {name!r}", text, allowed)
    if where.rank is not None and np.shape(where.rank) not in ((count,), ()):
        text, allowed = f"shape {np.shape(where.rank)}", f"({count},): one for each of the {whose}"
        raise _misgiven(row, f"addresses gave another number of ranks for {name!r}", text, allowed)


def check_results(
    row: Executed, writes: Sequence[WrittenPlaces], results: Sequence[Array], issuers: int, lanes: int
) -> None:
    """Raises InstructionError where `execute` gives another number of values than is written, or other shapes."""
    wanted = [write.effect.operand for write in writes if hasattr(write.effect, "operand")]
    written = [operand.name for operand in row.bound.given if operand.written]
    if len(results) != len(wanted) + len(written):
        allowed = ", ".join(map(repr, (*wanted, *written))) or "none"
        raise _misgiven(row, "execute gave another number of values than it writes", len(results), allowed)
    for write, name, data in zip(writes, wanted, results, strict=False):
        is_tmem = write.space == "tmem"
        shape = write.shape if is_tmem else (*write.shape, write.width)
        kind = np.dtype(np.uint32 if is_tmem else np.uint8)
        if not _fits(np.shape(data), shape, issuers) or np.asarray(data).dtype.itemsize != kind.itemsize:
            text = f"{np.asarray(data).dtype} of shape {np.shape(data)}"
            raise _misgiven(row, f"execute gave other values for {name!r}", text, f"{kind} of shape {shape}")
    axes = () if lanes == 1 else (lanes,)
    for name, data in zip(written, results[len(writes) :], strict=True):
        shape = np.shape(data)
        if shape[:1] != (issuers,) or shape[len(shape) - len(axes) :] != axes:
            allowed = str((issuers, "registers", *axes)).replace("'", "")
            raise _misgiven(row, f"execute gave other values for {name!r}", f"shape {shape}", f"shape {allowed}")


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...], issuers: int) -> bool:
    """Can values be spread to the places? There is a row for each row of places, or for each issuer."""
    if not shape or shape[0] not in (wanted[0], issuers) or len(shape) > len(wanted):
        return False
    spread = (wanted[0], *shape[1:])
    return all(size in (1, most) for size, most in zip(reversed(spread), reversed(wanted), strict=False))
