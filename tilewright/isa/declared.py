"""What a row says of itself, checked where it is declared: each name is one of its own, each word is in its table.

`check_row` looks at one row; `check_links` at what a form says of other rows, once all of them are declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.errors import InstructionError, choices, described
from tilewright.ir import Argument
from tilewright.isa.agreement import IN_BRACES, disagreement
from tilewright.isa.effects import (
    GENERIC,
    SCOPES,
    SEMS,
    SIGNALS,
    SPACES,
    Access,
    Commit,
    Consults,
    Effect,
    Fence,
    Issue,
    ProxyFence,
    Signal,
    Sync,
    Wait,
)
from tilewright.isa.meanings import NOTHING, RUNS_ON, AsyncMeaning, Meaning, Undefined
from tilewright.isa.operands import KINDS, Operand
from tilewright.isa.wording import Spellings

if TYPE_CHECKING:
    from tilewright.isa.forms import Form
    from tilewright.isa.table import Instruction

__all__ = ["check_links", "check_row", "misdeclared"]

NONE: Mapping[str, Spellings] = MappingProxyType({})
EFFECTS = Effect.__args__  # the members of the union
IN_TEXT = (("pattern", "result"), ("pattern", "mnemonic"))  # stand in the text, and are no operands
PROXIES = tuple(dict.fromkeys(proxy for space in SPACES.values() for proxy in space.proxies))
Words = tuple[tuple[str, Iterable[str]], ...]

WORDS: Mapping[type, Words] = {
    Operand: (("kind", KINDS),),
    Meaning: (("on", RUNS_ON),),
    AsyncMeaning: (("on", RUNS_ON),),
    Access: (("space", (*SPACES, GENERIC)), ("sem", SEMS), ("scope", ("", *SCOPES))),
    Sync: (("scope", ("warp", "warpgroup", "cta", "named", "cluster", "poll")),),
    Fence: (
        ("sem", ("sc", "acq_rel", "acquire", "release")),
        ("scope", ("warp", *SCOPES)),
        ("only", ("", "mbarrier.init", "shared")),
    ),
    ProxyFence: (
        ("proxy", (*PROXIES[1:], "alias")),
        ("space", ("", "global", "shared::cta", "shared::cluster")),
        ("side", ("both", "release", "acquire")),
        ("scope", ("", *SCOPES)),
    ),
    Signal: (("kind", SIGNALS), ("scope", SCOPES)),
    Consults: (("proxy", PROXIES),),
}
"""The fields that hold a word, or a function of the modifiers that gives one, and the table of each."""

OPERANDS: Mapping[type, tuple[str, ...]] = {
    Meaning: ("blind",),
    AsyncMeaning: ("blind",),
    Undefined: ("operand",),
    Access: ("operand",),
    Sync: ("barrier", "threads"),
    ProxyFence: ("at",),
    Signal: ("barrier", "amount"),
    Issue: ("holds", "accumulates"),
    Consults: ("operand",),
    Wait: ("pending",),
}
"""The fields that hold names of operands; "" is none."""

TUPLES: Mapping[type, tuple[str, ...]] = {
    Meaning: ("passes",),
    AsyncMeaning: ("passes", "takes"),
    Issue: ("holds", "alike", "in_order_after"),
}
"""The fields that hold several names, where a lone string would be taken for its letters."""


def misdeclared(name: str, field: str, what: str, given: object, allowed: object) -> InstructionError:
    """The error for the field of a row."""
    return InstructionError(f"{name}: {field} {what}", given=given, allowed=allowed)


def check_row(row: Instruction, lanes: Iterable[str]) -> None:
    """Raises InstructionError for a name that the row does not have, a word that is in no table, and fields that do
    not go together.
    """
    if row.lanes not in lanes:
        raise misdeclared(row.name, "lanes", "is not in its table", repr(row.lanes), choices(row.lanes, lanes))
    operands = [one.name for one in row.operands]
    for operand in row.operands:
        _check_words(row.name, operand)
    _check_text(row, operands)
    for form in row.forms:
        _check_effects(row.name, form.effects)
        modifiers = (*form.wording.modifiers, *row.keywords)
        _check_meaning(row.name, form, operands, modifiers)
        for effect in form.effects:
            _check_words(row.name, effect, form.wording.modifiers)
            if not (isinstance(effect, Access) and effect.computed):  # `addresses` names its places
                _check_names(row.name, effect, OPERANDS, operands, "operand")
            if isinstance(effect, Access):
                _check_proxy(row.name, effect)
            elif isinstance(effect, Signal):
                _check_signal(row.name, effect, begins=form.begins_operation)
            elif isinstance(effect, Issue):
                takes = form.async_meaning.takes
                _check_names(row.name, effect, {Issue: ("alike",)}, (*modifiers, *operands, *takes), "value")
    if (wrong := disagreement(row)) is not None:
        field, given, allowed = wrong
        raise misdeclared(row.name, field, "does not fit", given, allowed)


def _check_effects(name: str, effects: object) -> None:
    if not isinstance(effects, tuple) or not all(isinstance(one, EFFECTS) for one in effects):
        raise misdeclared(name, "Form.effects", "is no tuple of effects", repr(effects), "(Access(...), Issue(), ...)")


def _check_text(row: Instruction, operands: list[str]) -> None:
    """Raises InstructionError where arguments or the pattern name what the row does not have."""
    if twice := [name for k, name in enumerate(operands) if name in operands[:k]]:
        raise misdeclared(row.name, "operands", "has two of one name", repr(twice[0]), "a name for each")
    known = {*operands, *row.keywords, *(name for form in row.forms for name in form.wording.modifiers)}
    named = {"params": [name.lstrip("*") for name in row.params], "pattern": IN_BRACES.findall(row.pattern)}
    for field, names in named.items():
        for name in names:
            if name not in known and (field, name) not in IN_TEXT:
                what = "names no operand or modifier of the row"
                raise misdeclared(row.name, field, what, repr(name), choices(name, sorted(known)))


def _check_meaning(name: str, form: Form, operands: list[str], modifiers: tuple[str, ...]) -> None:
    meaning = form.meaning
    if meaning is NOTHING:
        return
    if isinstance(meaning, AsyncMeaning) != form.begins_operation:
        given = f"{type(meaning).__name__}, effects {', '.join(type(one).__name__ for one in form.effects) or 'none'}"
        what = "does not fit the effects"
        raise misdeclared(name, "meaning", what, given, "AsyncMeaning with Issue, or with Commit and Signal")
    _check_words(name, meaning)
    for part in (meaning, meaning.undefined):
        _check_names(name, part, OPERANDS, operands, "operand")
    if isinstance(meaning, AsyncMeaning) and meaning.addresses is None:  # which may add names
        _check_names(name, meaning, {AsyncMeaning: ("takes",)}, operands, "operand")
    _check_names(name, meaning, {type(meaning): ("passes",)}, modifiers, "modifier")


def _check_words(name: str, part: object, modifiers: Mapping[str, Spellings] = NONE) -> None:
    for field, allowed in WORDS.get(type(part), ()):
        given = getattr(part, field)
        if isinstance(given, str) and given in allowed:
            continue
        label = f"{type(part).__name__}.{field}"
        for word, where in _words(name, label, given, modifiers):
            if not isinstance(word, str) or word not in allowed:
                known = choices(word, (one for one in allowed if one))
                raise misdeclared(name, label, "is not in its table", repr(word) + where, known)


class _Asked(Mapping[str, Argument]):
    """Modifiers that remember which of them were asked for."""

    def __init__(self, mods: Mapping[str, Argument]) -> None:
        self.mods = mods
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> Argument:
        value = self.mods[name]
        self.names[name] = None
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.mods)

    def __len__(self) -> int:
        return len(self.mods)


def _words(name: str, field: str, word: Any, modifiers: Mapping[str, Spellings]) -> Iterator[tuple[object, str]]:
    """The words that a field may hold, with the modifiers; a function is asked for every value of those it reads."""
    if not callable(word):
        yield word, ""
        return
    first = {modifier: next(iter(table)) for modifier, table in modifiers.items()}
    done, left = set[tuple[tuple[str, Argument], ...]](), [first]
    while left:
        mods = _Asked(left.pop())
        try:
            found = word(mods)
        except KeyError as error:
            allowed = choices(error.args[0], modifiers) or "none: the form has none"
            raise misdeclared(name, field, "reads no modifier of the form", repr(error.args[0]), allowed) from None
        asked = tuple((modifier, mods.mods[modifier]) for modifier in mods.names)
        if asked in done:
            continue
        done.add(asked)
        yield found, "".join(f", {modifier}={value!r}" for modifier, value in asked)
        left += [{**mods.mods, modifier: value} for modifier in mods.names for value in modifiers[modifier]]


def _check_names(
    name: str, part: object, fields: Mapping[type, tuple[str, ...]], known: Iterable[str], kind: str
) -> None:
    """Raises InstructionError for a name in ``fields`` that is not ``known``."""
    for field in fields.get(type(part), ()):
        value = getattr(part, field)
        if field in TUPLES.get(type(part), ()) and not isinstance(value, tuple):
            raise misdeclared(name, f"{type(part).__name__}.{field}", "is no tuple", described(value), "a tuple")
        for one in _names(value):
            if one not in known:
                what = f"names no {kind} of the row"
                allowed = choices(one, known) or "none: the row has none"
                raise misdeclared(name, f"{type(part).__name__}.{field}", what, repr(one), allowed)


def _names(value: Any) -> Iterator[str]:
    """The names in a field that holds one, several, or a number in the place of one."""
    if isinstance(value, str):
        yield from (value,) if value else ()
    elif isinstance(value, tuple):
        yield from value


def _check_proxy(name: str, access: Access) -> None:
    proxies = PROXIES if access.space == GENERIC else SPACES[access.space].proxies
    if access.proxy not in proxies:
        what = f"does not lead to {access.space} memory"
        raise misdeclared(name, "Access.proxy", what, repr(access.proxy), choices(access.proxy, proxies))


def _check_signal(name: str, signal: Signal, *, begins: bool) -> None:
    if signal.sem not in SIGNALS[signal.kind]:
        what, allowed = f"does not fit the kind {signal.kind!r}", choices(signal.sem, SIGNALS[signal.kind])
        raise misdeclared(name, "Signal.sem", what, repr(signal.sem), allowed)
    if (signal.change is not None) != begins:
        what = "is missing: an operation changes the m-barrier by it" if begins else "is for operations alone"
        allowed = "a function of the m-barrier's bits and the amount, see `mbarrier_state`" if begins else "None"
        raise misdeclared(name, "Signal.change", what, described(signal.change), allowed)


_LINKED: set[str] = set()  # groups that some row issues to, and some row commits or waits for


def check_links(name: str, form: Form, table: Mapping[str, Instruction]) -> None:
    """Raises InstructionError where an operation comes after an instruction that ``table`` lacks, or where nobody
    counts the group that a form issues to, or issues to the group that it counts.
    """
    for earlier in form.issue.in_order_after if form.issue else ():
        if earlier not in table or not any(form.issue for form in table[earlier].forms):
            begin = (other for other, row in table.items() if any(form.issue for form in row.forms))
            what, allowed = "names no row that begins an operation", choices(earlier, begin)
            raise misdeclared(name, "Issue.in_order_after", what, repr(earlier), allowed)
    for one in (form.issue, form.commit, form.wait):
        if one is not None and one.group and one.group not in _LINKED:
            issues = isinstance(one, Issue)
            others = (Commit, Wait) if issues else (Issue,)
            effects = (effect for row in table.values() for form in row.forms for effect in form.effects)
            groups = dict.fromkeys(effect.group for effect in effects if isinstance(effect, others))
            if one.group not in groups:
                what = f"is none that {'a Commit or Wait' if issues else 'an Issue'} names"
                allowed = choices(one.group, filter(None, groups))
                raise misdeclared(name, f"{type(one).__name__}.group", what, repr(one.group), allowed)
            _LINKED.add(one.group)
