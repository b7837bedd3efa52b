"""The registry of variants, the choice among them, and the unit in which they count what they cost.

A variant answers a tile call with a frozen plan or a `Decline`. Candidates are tried by falling priority, then by
module and function name; the first plan wins. Writing the code from the plan decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from tilewright.errors import DispatchError, choices
from tilewright.ir import const_value
from tilewright.primitives import COMMON, PRIMITIVES
from tilewright.primitives.copy import copy, copy_async, fill, memset, zero
from tilewright.primitives.elements import lengths_of
from tilewright.records import replace
from tilewright.tile.call import TileCall, call_name
from tilewright.tile.walks import Ints

if TYPE_CHECKING:
    from tilewright import ir
    from tilewright.layout import Layout
    from tilewright.tile.call import Side
    from tilewright.tile.steps import Builder


class Plan(Protocol):
    """What a variant has decided. Frozen; each variant has its own fields."""

    def summary(self) -> str:
        """The decision in a few words, for the report."""


def counted(count: int, what: str = "instruction") -> str:
    """``4 instructions``, for a summary."""
    return f"{count} {what}{'s' if count != 1 else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change of the call that might let a variant take it, as the user would write it."""

    text: str
    call: TileCall


def relaid(call: TileCall, side: Side, layout: Layout, text: str = "") -> Change:
    """The same call with another layout of a side. text: as a kernel writes it, where that is no sum of iters."""
    return Change(f"layout={text or layout} for {side.name}", call.with_buffer(side, layout=layout))


class Decline(Exception):  # no error: the variant leaves the call to the next one
    """The variant does not take the call: the reason, what would fit, and changes that might help. The report shows a
    change only if the variant plans the changed call.
    """

    def __init__(self, reason: str, *, allowed: str | None = None, changes: Iterable[Change] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.allowed = allowed
        self.changes = changes


@dataclass(frozen=True, slots=True)
class Condition:
    """A sentence that must hold, and the check: None, or the reason why it does not. changes: where it might hold."""

    sentence: str
    check: Callable[[TileCall], str | None]
    changes: Callable[[TileCall], Iterable[Change]] = lambda _: ()


def condition(
    sentence: str, changes: Callable[[TileCall], Iterable[Change]] = lambda _: ()
) -> Callable[[Callable[[TileCall], str | None]], Condition]:
    """Name a check, so that a page can list it."""
    return lambda check: Condition(sentence, check, changes)


@condition("the call is a thread's, a warp's, a warpgroup's or a CTA's")
def one_of_its_scopes(call: TileCall) -> str | None:
    return None if call.scope.kind in call.row.scopes else "the CTAs of a cluster do not share their shared memory"


def is_spread(buffer: ir.Buffer) -> bool:
    """Is it an array of several GPUs, of which a layout says which of them has what?"""
    return bool(buffer.peers) and buffer.layout is not None and any(it.kind == "device" for it in buffer.layout.axes)


def spread_over_gpus(call: TileCall) -> str | None:
    """The name of an array of the call that lies on several GPUs."""
    return next((side.name for side in call.sides.values() if is_spread(side.buffer)), None)


@condition("a tile is of an array that lies on several GPUs")
def across_gpus(call: TileCall) -> str | None:
    return None if spread_over_gpus(call) else "no tile lies on another GPU"


@dataclass(eq=False)
class Variant:
    """A way to carry out a primitive: a row of a registry. Made by `variant`; `emit` registers its second half."""

    name: str
    priority: int
    when: Sequence[Condition]
    planner: Callable[[TileCall], Any]
    doc: str
    keywords: tuple[str, ...] = ()
    emitter: Callable[[Any, TileCall, Builder], None] = field(init=False)

    def __post_init__(self) -> None:
        self.when = (*self.when[:1], one_of_its_scopes, *self.when[1:])  # first in which memories

    def emit(self, emitter: Callable[[Any, TileCall, Builder], None]) -> Callable[[Any, TileCall, Builder], None]:
        """Decorator: the function that writes the code of a plan."""
        self.emitter = emitter
        return emitter

    def plan(self, call: TileCall) -> Plan:
        """The plan for a call. Raises Decline."""
        for key, value in call.config:
            if key not in self.keywords and call.row.keyword(key) not in COMMON:
                raise Decline(
                    f"{key}={value} is nothing that it reads", allowed=", ".join(self.keywords) or "no keywords"
                )
        for condition in self.when:
            reason = condition.check(call)
            if reason:
                raise Decline(reason, allowed=condition.sentence, changes=condition.changes(call))
        plan: Plan = self.planner(call)
        return plan


@dataclass(frozen=True, slots=True)
class Registered:
    """What carries a primitive out. declared: the names of its keywords. named: make further variants that only
    ``dispatch="name"`` chooses.
    """

    declared: frozenset[str] = frozenset()
    variants: list[Variant] = field(default_factory=list)
    named: list[Callable[[str], Variant | None]] = field(default_factory=list)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords that some variant reads, of those that the primitive has."""
        read = (key for variant in self.variants for key in variant.keywords)
        return tuple(dict.fromkeys(key for key in read if key in self.declared))


VARIANTS: dict[str, Registered] = {
    name: Registered(frozenset(keyword.name for keyword in row.keywords)) for name, row in PRIMITIVES.items()
}


def variant(
    *of: str, priority: int, when: Sequence[Condition] = (), keywords: tuple[str, ...] = ()
) -> Callable[[Callable[[TileCall], Any]], Variant]:
    """Decorator: the function plans a call of the primitives ``of``, or raises Decline. Its name is the variant's.

    keywords: those that it reads; a call with another one is not for it.
    """

    def made(planner: Callable[[TileCall], Any]) -> Variant:
        doc = (planner.__doc__ or "").partition("\n")[0]
        return register(Variant(planner.__name__, priority, when, planner, doc, keywords), *of)

    return made


FILLS = (fill.name, memset.name, zero.name)
ELEMENTWISE = tuple(row.name for row in PRIMITIVES.values() if row.formula is not None)


def keywords_of(*names: str) -> tuple[str, ...]:
    """The keywords of these primitives."""
    return tuple(dict.fromkeys(keyword.name for name in names for keyword in PRIMITIVES[name].keywords))


def elementwise(*, priority: int, when: Sequence[Condition] = ()) -> Callable[[Callable[[TileCall], Any]], Variant]:
    """Decorator: the function plans a call of any elementwise primitive. It reads all of their keywords."""
    return variant(*ELEMENTWISE, priority=priority, when=when, keywords=keywords_of(*ELEMENTWISE))


def register(variant: Variant, *of: str) -> Variant:
    """Let a variant be tried for calls of the primitives ``of``."""
    for name in of:
        VARIANTS[name].variants.append(variant)
        VARIANTS[name].variants.sort(key=lambda v: (-v.priority, v.planner.__module__, v.name))
    return variant


def by_name(of: str) -> Callable[[Callable[[str], Variant | None]], Callable[[str], Variant | None]]:
    """Decorator: the function makes the variant of the primitive ``of`` that a name means; None if it means none."""

    def register(make: Callable[[str], Variant | None]) -> Callable[[str], Variant | None]:
        VARIANTS[of].named.append(make)
        return make

    return register


def check_keywords(stmt: ir.TileCallStmt) -> None:
    """Raises DispatchError for a keyword that no variant reads, and names those that some do."""
    keywords = (*(keyword.name for keyword in COMMON), *VARIANTS[stmt.primitive].keywords)
    for key, value in stmt.config:
        if key not in keywords:
            name, allowed = call_name(stmt), choices(key, ("dispatch", *keywords))
            raise DispatchError(f"{name} has no keyword {key!r}", given=f"{key}={value}", allowed=allowed)


@dataclass(frozen=True, slots=True)
class Tried:
    """A variant that declined: why, what would fit, and the smallest change with which it would have taken the call."""

    variant: str
    reason: str
    hint: str | None = None
    allowed: str | None = None


def alike(tried: Iterable[Tried], *fields: str) -> list[tuple[str, Tried]]:
    """The declined variants without repetitions: the names of all that agree in these fields, and the first of them."""
    said: dict[tuple[str | None, ...], list[Tried]] = {}
    for attempt in tried:
        said.setdefault(tuple(getattr(attempt, name) for name in fields), []).append(attempt)
    return [(", ".join(attempt.variant for attempt in same), same[0]) for same in said.values()]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The variant that takes a call, its plan, and those that were tried before it."""

    variant: Variant
    plan: Plan
    tried: tuple[Tried, ...] = ()

    def write(self, call: TileCall, out: Builder) -> None:
        """Write the call as it is planned."""
        self.variant.emitter(self.plan, call, out)


def choose(call: TileCall) -> Chosen:
    """The first variant that plans the call, or the one that ``dispatch=`` names.

    Raises DispatchError where the named one declines or does not exist, and where all decline.
    """
    forced = call.stmt.dispatch
    tried: list[Tried] = []
    for variant in _candidates(call):
        plan = _attempt(variant, call)
        if not isinstance(plan, Tried):
            return Chosen(variant, plan, tuple(tried))
        tried.append(plan)
    raise _refused(call, forced, tried)


def _attempt(candidate: Variant, call: TileCall) -> Plan | Tried:
    try:
        return candidate.plan(call)
    except Decline as declined:
        hint = _first_that_helps(candidate, declined.changes)
        return Tried(candidate.name, declined.reason, hint, declined.allowed)


def _candidates(call: TileCall) -> Sequence[Variant]:
    """The variants to try: all that are registered, or the one that the call names. Arrays that lie on several GPUs are
    for those alone that are made for them, and these for nothing else.
    """
    row, forced, spread = VARIANTS[call.stmt.primitive], call.stmt.dispatch, spread_over_gpus(call)
    every = [variant for variant in row.variants if (across_gpus in variant.when) == bool(spread)]
    if spread and not every:
        raise DispatchError(
            f"{call_name(call.stmt)} works on memory of one GPU",
            given=f"{spread}, which lies on several GPUs",
            allowed="copy and copy_async of its tiles; other calls of tiles that were copied",
            at=call.at,
        )
    if forced is None:
        return every
    named = (make(forced) for make in row.named) if not spread else ()
    chosen = next((variant for variant in (*every, *named) if variant is not None and variant.name == forced), None)
    if chosen is not None:
        return [chosen]
    raise DispatchError(
        f"{call_name(call.stmt)} has no variant {forced!r}" + (f" for {spread}, on several GPUs" if spread else ""),
        given=f"dispatch={forced!r}",
        allowed=choices(forced, [variant.name for variant in every]) or "none yet",
        at=call.at,
    )


def _first_that_helps(candidate: Variant, changes: Iterable[Change]) -> str | None:
    """The text of the first change with which the variant plans: each hint has been tried."""
    for change in changes:
        try:
            candidate.plan(change.call)
        except Decline:
            continue
        return change.text
    return None


def _refused(call: TileCall, forced: str | None, tried: list[Tried]) -> DispatchError:
    if forced is not None:
        (only,) = tried
        what = f'{call.text}: dispatch="{forced}" does not fit'
        return DispatchError(
            what, given=only.reason, allowed=only.allowed, hint=only.hint or _other_lengths(call), at=call.at
        )
    reasons = "\n".join(f"{names}: {attempt.reason}" for names, attempt in alike(tried, "reason"))
    near = max((_nearness(call, attempt) for attempt in tried), default=(False, 0))
    nearest = [attempt for attempt in tried if _nearness(call, attempt) == near]
    allowed = "\n".join(f"{names}: {last.allowed}" for names, last in alike(nearest, "allowed") if last.allowed)
    return DispatchError(
        f"no variant takes {call.text}",
        given=reasons or f"{call.stmt.primitive} has no variants yet",
        allowed=allowed or None,
        hint=next((attempt.hint for attempt in nearest), None) or _instead(call),
        at=call.at,
    )


def _instead(call: TileCall) -> str | None:
    """A hint: tiles with constant extents; or the synchronous primitive, if one of its variants takes the call."""
    if (lengths := _other_lengths(call)) or call.option("vec_len") is not None:
        return lengths
    symbolic = next((side for side in call.tiles if side.size is None), None)
    if symbolic is not None:
        extent = next(extent for extent in symbolic.extents if const_value(extent) is None)
        return (
            f"tiles of numbers, {symbolic.name}[i * 16 : i * 16 + 16]; T.assume({extent} % 16 == 0) where they fill it"
        )
    if call.stmt.primitive != copy_async.name:
        return None
    stmt = replace(call.stmt, primitive=copy.name, config=())
    try:
        choose(replace(call, stmt=stmt, config=()))
    except DispatchError:
        return None
    return f"{call_name(stmt)}(...), which has copied when it returns: nothing copies from there to there by itself"


def _other_lengths(call: TileCall) -> str | None:
    """The values of ``vec_len=`` with which some variant takes the call that asks for another."""
    fit: list[str] = []
    if call.option("vec_len") is None:
        return None
    for length in sorted({length for side in call.tiles for length in lengths_of(side.dtype.bits)}):
        config = tuple((key, length if key == "vec_len" else value) for key, value in call.config)
        asked = replace(call, config=config)
        if not all(isinstance(_attempt(variant, asked), Tried) for variant in _candidates(asked)):
            fit.append(f"vec_len={length}")
    return " or ".join(fit) or None


def _nearness(call: TileCall, tried: Tried) -> tuple[bool, int]:
    """How near a variant came to taking the call: is there a change that helps, and how many conditions held."""
    row = next(variant for variant in VARIANTS[call.stmt.primitive].variants if variant.name == tried.variant)
    held = next((count for count, condition in enumerate(row.when) if condition.check(call)), len(row.when))
    return tried.hint is not None, held


# The costs of variants, of which the cheapest takes a call.
#
# The unit is an issue slot of a warp: a plain instruction or a register move is 1, a shuffle 2, as it passes half as
# many lanes in a cycle; an access to shared memory is as many as it needs wavefronts, and one for itself.


SHUFFLE = 2
BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True, slots=True, eq=False)
class CostedPlan:
    """What plans have in common whose costs are compared. words: the decision. cost: for a warp. others: the costs of
    other variants, by name.
    """

    words: str
    cost: int
    others: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)

    def summary(self) -> str:
        """``8 moves per thread; cost 8, scratch 12, shuffles 22``."""
        costs = ", ".join(f"{name} {cost}" for name, cost in (("cost", self.cost), *self.others))
        return f"{self.words}; {costs}"


Made = TypeVar("Made", bound=CostedPlan)


def meeting_cost(call: TileCall) -> int:
    """The cost of a barrier: about as long as a warp waits for the others."""
    return {"thread": 0, "warp": 4, "warpgroup": 20, "cta": 30}[call.scope.kind]


def cheapest(call: TileCall, name: str, plan: Made) -> Made:
    """The plan, with the costs of the other variants of the primitive. Raises Decline if one of them costs less.

    A call that names its variant has no other.
    """
    if call.stmt.dispatch is not None:
        return plan
    others: list[tuple[str, int]] = []
    for other in VARIANTS[call.stmt.primitive].variants:
        if other.name == name:
            continue
        try:
            rival = other.plan(replace(call, stmt=replace(call.stmt, dispatch=other.name)))
        except Decline:
            continue
        others.append((other.name, cast(CostedPlan, rival).cost))
    if (least := min(others, key=lambda pair: pair[1], default=None)) is not None and least[1] < plan.cost:
        raise Decline(f"it costs {plan.cost} issue slots of a warp, {least[0]} {least[1]}")
    return replace(plan, others=tuple(others))


def wavefronts(addresses: Ints, nbytes: int, lanes: int) -> int:
    """Wavefronts of a warp's accesses to these byte addresses, (threads, rounds), of ``nbytes`` each.

    The lanes of a phase go at a time, and each bank gives one word at a time. The mean over several warps.
    """
    inside = np.arange(max(1, nbytes // BANK_BYTES))
    total = 0
    for first in range(0, len(addresses), lanes):
        words = addresses[first : first + lanes] // BANK_BYTES
        total += sum(_busiest(np.unique(np.add.outer(column, inside))) for column in words.T)
    return -(-total // max(1, len(addresses) // 32))


def vector_wavefronts(addresses: Ints, nbytes: int) -> int:
    """Wavefronts of vector accesses: those of 8 or 16 bytes go in two or four turns."""
    return wavefronts(addresses, nbytes, max(1, min(32, BANKS * BANK_BYTES // nbytes)))


def matrix_wavefronts(addresses: Ints, elements: int) -> int:
    """Wavefronts of matrix copies: ``elements`` of each lane make a register, the registers of all lanes a matrix."""
    threads, count = addresses.shape
    matrices = addresses.reshape(-1, 32, count // elements, elements).swapaxes(1, 2)
    total = sum(_busiest(np.unique(matrix // BANK_BYTES)) for matrix in matrices.reshape(-1, 32 * elements))
    return -(-total * 32 // int(threads))


def _busiest(words: Ints) -> int:
    """The number of words in the bank that has the most of them."""
    most: int = np.bincount(words % BANKS).max().item()
    return most
