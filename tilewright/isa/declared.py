"""What a row says of itself, checked where it is declared: each name is one of its own, each word is in its table, and
fields go together; and what its functions take and give, checked as they run.

`check_row` looks at one row; `check_links` at what a form says of other rows, once all of them are declared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from tilewright.dtypes import VOID, DType
from tilewright.errors import InstructionError, choices, described
from tilewright.ir import Argument
from tilewright.isa.arch import Requirement
from tilewright.isa.forms import (
    ADDRESSES,
    GENERIC,
    KINDS,
    NOTHING,
    RUNS_ON,
    SCOPES,
    SEMS,
    SIGNALS,
    SPACES,
    Access,
    AsyncMeaning,
    Commit,
    Consults,
    Effect,
    Fence,
    Form,
    Issue,
    Meaning,
    Operand,
    ProxyFence,
    Ptx,
    RegisterFence,
    Signal,
    Spellings,
    Sync,
    Undefined,
    Wait,
    Wording,
)
from tilewright.isa.machine import Addresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.errors import Span
    from tilewright.isa.table import Bound, Instruction


# What goes together in a row: fields of an effect with each other and with the operands, the effects of a form, the
# names of the row.


Operands = Mapping[str, Operand]
EffectRule: TypeAlias = "tuple[str, Callable[[Any, Form, Operands], bool], str]"
FormRule: TypeAlias = "tuple[str, Callable[[Form, Instruction], str], str]"
RowRule: TypeAlias = "tuple[str, Callable[[Instruction], str], str]"
IN_BRACES = re.compile(r"\{(\w+)\}")
MEMORIES = ("shared", "tmem", "global")  # kinds of operands that lead to one memory, which has their name
READS, WRITES = ("acquire", "acq_rel"), ("release", "acq_rel")
NUMBERS = ("b16", "b32", "b64", "imm")
STEPS = (Issue, Commit, Wait, Sync, Fence, ProxyFence, RegisterFence)
"""The effects of which a form has one; a `Commit` may stand beside a `Wait`."""


# What an effect says.


def _is_of(kinds: Iterable[str], name: object, operands: Operands) -> bool:
    """Is an operand of one of these kinds? True for what names none."""
    return not isinstance(name, str) or name not in operands or operands[name].kind in kinds


def _is_address(access: Access, operands: Operands) -> bool:
    return access.computed or _is_of(ADDRESSES, access.operand, operands)


def _leads(access: Access, operands: Operands) -> bool:
    """May the operand lead to the memory of the access?"""
    kind = operands[access.operand].kind if access.operand in operands else ""
    return access.computed or kind not in MEMORIES or kind == access.space


def _has_addresses(access: Access, form: Form) -> bool:
    computes = isinstance(form.meaning, AsyncMeaning) and form.meaning.addresses is not None
    return computes or not (access.computed or access.sized)


def _is_width(access: Access) -> bool:
    unit = SPACES[access.space].unit if access.space in SPACES else 1
    size = access.nbytes
    return callable(size) or (isinstance(size, int) and size >= unit and size.bit_count() == 1)


def _has_elements(access: Access) -> bool:
    size, element = access.nbytes, access.element_bytes
    return callable(size) or callable(element) or not element or (element > 0 and size % element == 0)


def _has_its_read(access: Access, form: Form) -> bool:
    """Is there the read that a write is one with?"""

    def key(access: Access) -> object:
        return access.operand, access.space, access.nbytes, access.sem, access.scope, access.proxy

    reads = (other for other in form.touched if other.rmw and not other.write)
    return not (access.rmw and access.write) or any(key(other) == key(access) for other in reads)


def _is_reached(access: Access, form: Form) -> bool:
    """Does the machine reach the memory: an operation needs to know it, a thread has no way to tensor memory."""
    return access.space in MEMORIES if form.issue else access.space != "tmem"


def _in_registers(issue: Issue, operands: Operands) -> bool:
    held = [operands[name] for name in issue.holds if name in operands]
    return all(operand.in_register and operand.read and operand.kind not in ADDRESSES for operand in held)


def _accumulates(issue: Issue, operands: Operands) -> bool:
    updated = any(operand.read and operand.written for operand in operands.values())
    return not issue.accumulates or (updated and _is_of(("pred",), issue.accumulates, operands))


def _pending(wait: Wait, operands: Operands) -> bool:
    if isinstance(wait.pending, str):
        return _is_of(("imm",), wait.pending, operands)
    return wait.pending is None or (isinstance(wait.pending, int) and wait.pending >= 0)


def _is_amount(signal: Signal, operands: Operands) -> bool:
    amount = signal.amount
    if isinstance(amount, str):
        return _is_of(NUMBERS, amount, operands)
    return callable(amount) or (isinstance(amount, int) and amount > 0)


GROUP: EffectRule = ("group", lambda e, form, operands: isinstance(e.group, str) and e.group != "", "its name")
RULES: Mapping[type, tuple[EffectRule, ...]] = {
    Access: (
        ("nbytes", lambda e, form, operands: _is_width(e),
         "a positive number of bytes at each place, a power of two; of tensor memory 4 or more"),
        ("lanes", lambda e, form, operands: callable(e.lanes) or e.lanes in range(1, 33), "1..32"),
        ("phase_lanes", lambda e, form, operands: e.phase_lanes in (0, 8, 16, 32), "8, 16, 32, or 0 for the usual"),
        ("element_bytes", lambda e, form, operands: _has_elements(e), "a number that divides nbytes, or 0"),
        ("sem", lambda e, form, operands: not (e.sem in READS and e.write and not e.rmw), "that of a write"),
        ("sem", lambda e, form, operands: not (e.sem in WRITES and not (e.write or e.rmw)), "that of a read"),
        ("scope", lambda e, form, operands: e.sem != "weak" or callable(e.scope) or not e.scope,
         "'', as the access is weak"),
        ("scope", lambda e, form, operands: e.sem == "weak" or callable(e.sem) or e.scope != "",
         "one, as the access is strong"),
        ("operand", lambda e, form, operands: isinstance(e.operand, str) and _is_address(e, operands),
         "an address, or a name of `AsyncMeaning.addresses`, with computed=True"),
        ("space", lambda e, form, operands: _leads(e, operands), "the memory that the operand leads to"),
        ("space", lambda e, form, operands: _is_reached(e, form),
         "of an operation shared, tmem or global; of other forms tmem is none"),
        ("computed", lambda e, form, operands: _has_addresses(e, form),
         "False, or a form with Issue whose AsyncMeaning has addresses; likewise sized"),
        ("rmw", lambda e, form, operands: _has_its_read(e, form), "False, or with a read that is else the same"),
        ("compares", lambda e, form, operands: e.rmw or not e.compares, "False, as the access is not rmw"),
        ("constant", lambda e, form, operands: not (e.constant and e.write), "False, as the access writes"),
    ),
    Issue: (
        ("group", lambda e, form, operands: isinstance(e.group, str), "its name, '' for none"),
        ("holds", lambda e, form, operands: _in_registers(e, operands), "operands that are read from registers"),
        ("accumulates", lambda e, form, operands: _accumulates(e, operands),
         "an operand of kind pred, in a row that updates registers"),
        ("in_order_after", lambda e, form, operands: isinstance(e.in_order_after, tuple), "a tuple of names"),
    ),
    Commit: (GROUP,),
    Signal: (
        ("barrier", lambda e, form, operands: _is_of(("shared", "b32"), e.barrier, operands),
         "one in shared memory"),
        ("kind", lambda e, form, operands: not form.begins_operation or e.kind in ("arrive", "bytes"),
         "of an operation 'arrive' or 'bytes'"),
        ("amount", lambda e, form, operands: _is_amount(e, operands), "1 or more, or an operand that is a number"),
    ),
    Wait: (
        GROUP,
        ("pending", lambda e, form, operands: _pending(e, operands), "0 or more, or an operand of kind imm"),
    ),
    ProxyFence: (
        ("scope", lambda e, form, operands: (e.side != "both" and e.proxy != "tmem") == bool(e.scope),
         "one for each fence of a pair, '' for others"),
        ("space", lambda e, form, operands: e.proxy != "tmem" or not e.space, "'', as it is for tmem"),
        ("at", lambda e, form, operands: _is_of(ADDRESSES, e.at, operands), "an operand that is an address"),
    ),
    Sync: (
        ("barrier", lambda e, form, operands: e.scope != "named" or bool(e.barrier), "the operand that names it"),
        ("barrier", lambda e, form, operands: _is_of(NUMBERS, e.barrier, operands), "an operand that is a number"),
        ("threads", lambda e, form, operands: _is_of(NUMBERS, e.threads, operands), "an operand that is a number"),
        ("wait_only", lambda e, form, operands: not (e.arrive_only and e.wait_only), "False with arrive_only"),
    ),
    Consults: (
        ("operand", lambda e, form, operands: _is_of(("global", "generic", "place"), e.operand, operands),
         "one in global memory"),
        ("operand", lambda e, form, operands: form.issue is not None, "a form with Issue"),
        ("nbytes", lambda e, form, operands: e.nbytes > 0 and e.nbytes % 16 == 0, "a multiple of 16"),
    ),
}  # fmt: skip
"""For each kind of effect the fields that something else limits, whether they agree, and what would."""


# What a form says.


def _several(form: Form, row: Instruction) -> str:
    steps = [type(effect) for effect in form.effects if isinstance(effect, STEPS)]
    fits = len(steps) < 2 or (set(steps) == {Commit, Wait} and len(steps) == 2)
    return "" if fits else ", ".join(step.__name__ for step in steps)


def _beside(form: Form, row: Instruction) -> str:
    """What a form that only meets, commits or waits would not do."""
    meets = form.sync is not None and form.sync.scope != "poll"
    if form.begins_operation or not (meets or form.register_fence or form.concerns_operations):
        return ""
    more = [type(effect).__name__ for effect in form.effects if isinstance(effect, Access | Signal)]
    return ", ".join([*more, *(("execute",) if form.meaning.execute else ())])


def _unanswered(form: Form, row: Instruction) -> str:
    """What a form gives without an `execute` that makes it."""
    if form.meaning.execute is not None:
        return ""
    answers = [repr(operand.name) for operand in row.operands if operand.written]
    answers += ["the value of the call"] if form.result is not VOID else []
    answers += [] if form.begins_operation else [f"what {signal.kind!r} finds" for signal in form.signals]
    answers += ["whether to go on"] if form.sync is not None and form.sync.scope == "poll" else []
    return "None, for " + ", ".join(answers) if answers else ""


def _uncalled(form: Form, row: Instruction) -> str:
    functions = {"execute": form.meaning.execute, "addresses": form.async_meaning.addresses}
    changes = [signal.change for signal in form.signals]
    functions |= {"Signal.change": next((change for change in changes if not callable(change)), None)}
    return ", ".join(f"{name}={what!r}" for name, what in functions.items() if what is not None and not callable(what))


def _uncopied(form: Form, row: Instruction) -> str:
    """What an operation without `execute` touches, where that is no copy."""
    if form.issue is None or form.meaning.execute is not None:
        return ""
    reads, writes = ([access for access in form.touched if access.write is write] for write in (False, True))
    copies = len(reads) == len(writes) == 1 and reads[0].nbytes == writes[0].nbytes
    if copies if form.meaning.moves else not writes:
        return ""
    bytes_of = [f"{'write' if access.write else 'read'} of {access.nbytes} bytes" for access in (*reads, *writes)]
    return f"moves={form.meaning.moves}, {', '.join(bytes_of) or 'no access'}"


def _unregistered(form: Form, row: Instruction) -> str:
    counts = form.registers if isinstance(form.registers, Mapping) else {"": form.registers}
    names = {"", *_names(row)}
    return ", ".join(repr(name) if name else str(count) for name, count in counts.items()
                     if name not in names or (isinstance(count, int) and count < 1))  # fmt: skip


def _unknown_result(form: Form, row: Instruction) -> str:
    names = {*form.wording.modifiers, *(operand.name for operand in row.operands)}
    unknown = isinstance(form.result, str) and not isinstance(form.result, DType) and form.result not in names
    return repr(form.result) if unknown else ""


def _unspelled(form: Form, row: Instruction) -> str:
    """Holes of a template that nothing fills, and modifiers without a value."""
    names = {"result", *form.wording.modifiers, *(() if isinstance(form.wording, Ptx) else _names(row))}
    tables = form.wording.modifiers
    holes = (name for name in IN_BRACES.findall(form.wording.template) if name not in names)
    empty = (name for name, table in tables.items() if not isinstance(table, Mapping) or not table)
    return ", ".join(map(repr, (*holes, *empty)))


def _unreachable(form: Form, row: Instruction) -> str:
    """Modifiers that no call can give."""
    typed = {"dtype"} if any(operand.kind == "typed" for operand in row.operands) else set()
    names = {*typed, *row.keywords, *_names(row), *(name.lstrip("*") for name in row.params)}
    return ", ".join(repr(name) for name in form.wording.modifiers if name not in names)


FORM_RULES: tuple[FormRule, ...] = (
    ("Form.effects", _several, "one of these in a form, or a Commit and a Wait"),
    ("Form.effects", _beside, "Sync, RegisterFence, Commit or Wait alone: the rest in a row of its own"),
    ("Meaning.execute", _unanswered, "a function that gives it"),
    ("Meaning", _uncalled, "functions"),
    ("AsyncMeaning.moves", _uncopied, "execute; or moves=True with one read and one write of as many bytes"),
    ("Form.registers", _unregistered, "1 or more, or that for operands by their names"),
    ("Form.result", _unknown_result, "a dtype, or an operand or a modifier that tells it"),
    ("Form.wording", _unspelled, "a table of spellings for each name in braces"),
    ("Form.wording", _unreachable, "modifiers that params or keywords have; dtype with operands of kind typed"),
)


# What a row says, and the check of all three.


def _names(row: Instruction) -> tuple[str, ...]:
    return tuple(operand.name for operand in row.operands)


def _modifiers(row: Instruction) -> set[str]:
    return {name for form in row.forms for name in form.wording.modifiers}


def _unnamed(row: Instruction) -> str:
    wrong = [name for name in (*row.name.split("."), *_names(row)) if not name.isidentifier() or iskeyword(name)]
    return ", ".join(map(repr, wrong))


def _misplaced(row: Instruction) -> str:
    """Arguments that come twice, and vectors that leave nothing to those behind them."""
    names = [name.lstrip("*") for name in row.params]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    return ", ".join(map(repr, [*twice, *(name for name in row.params[:-1] if name.startswith("*"))]))


def _unreached(row: Instruction) -> str:
    names = {name.lstrip("*") for name in row.params} | row.keywords.keys()
    return ", ".join(repr(name) for name in _names(row) if name not in names)


def _unknown_keywords(row: Instruction) -> str:
    names = {*_names(row), *_modifiers(row), *row.folds}
    return ", ".join(f"{name!r}, not {choices(name, names)}" for name in row.keywords if name not in names)


def _unfolded(row: Instruction) -> str:
    return ", ".join(f"{name!r}: {into!r}" for name, into in row.folds.items()
                     if name not in row.keywords or into[0] not in _names(row))  # fmt: skip


ROW_RULES: tuple[RowRule, ...] = (
    ("name", _unnamed, "words as Python has names, not its keywords: of the row's name, with dots between them"),
    ("forms", lambda row: "" if row.forms else "none", "one or more"),
    ("params", _misplaced, "each argument once, and a vector as the last of them"),
    ("params", _unreached, "each operand, here or in keywords"),
    ("keywords", _unknown_keywords, "operands and modifiers"),
    ("folds", _unfolded, "a keyword, and the operand that it is added to"),
    ("agrees", lambda row: row.agrees if row.agrees not in {"", *_modifiers(row)} else "", "a modifier"),
    ("lanes", lambda row: repr(row.lanes) if row.lanes == "mask" and "mask" not in _names(row) else "",
     "a row with an operand 'mask'"),
)  # fmt: skip


def disagreement(row: Instruction) -> tuple[str, str, str] | None:
    """The first field of a row that does not fit: its name, what it is, what is allowed; None where all fit."""
    for field, wrong, allowed in ROW_RULES:
        if text := wrong(row):
            return field, text, allowed
    operands = {operand.name: operand for operand in row.operands}
    for form in row.forms:
        for effect in form.effects:
            for field, agrees, allowed in RULES.get(type(effect), ()):
                if not agrees(effect, form, operands):
                    return f"{type(effect).__name__}.{field}", repr(getattr(effect, field)), allowed
        for field, unfit, allowed in FORM_RULES:
            if text := unfit(form, row):
                return field, text, allowed
    return None


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


ROW_TYPES: tuple[tuple[str, type, type, str], ...] = (
    ("name", str, str, "a string"),
    ("operands", tuple, Operand, "a tuple of operands: reads(...), writes(...)"),
    ("forms", tuple, Form, "a tuple of forms: Form(...)"),
    ("params", tuple, str, "a tuple of names"),
    ("keywords", Mapping, str, "a dictionary by names"),
)
FORM_TYPES = (("wording", Wording), ("arch", Requirement), ("meaning", Meaning))
"""The fields of a row and of a form that others take apart: the type of each, and of what is in it."""


def check_types(row: Instruction) -> None:
    """Raises InstructionError for a field of another type than the checks of the others count on."""
    for field, kind, inner, allowed in ROW_TYPES:
        value: Any = getattr(row, field)
        if not issubclass(type(value), kind) or not all(isinstance(item, inner) for item in value):
            raise misdeclared(str(row.name), field, "is of another type", described(value), allowed)
    for form in row.forms:
        for field, kind in FORM_TYPES:
            content = getattr(form, field)
            if not isinstance(content, kind):
                what, allowed = "is of another type", f"a {kind.__name__}"
                raise misdeclared(row.name, f"Form.{field}", what, described(content), allowed)


def misdeclared(name: str, field: str, what: str, value: object, allowed: object) -> InstructionError:
    """The error for the field of a row."""
    return InstructionError(f"{name}: {field} {what}", given=value, allowed=allowed)


# Are rows checked where they are declared? Those of this room are by its tests: that took a third of the import.
at_once = False


def check_row(row: Instruction, lanes: Iterable[str]) -> None:
    """Raises InstructionError for a name that the row does not have, a word that is in no table, and fields that do
    not go together.
    """
    if row.lanes not in lanes:
        raise misdeclared(row.name, "lanes", "is not in its table", repr(row.lanes), choices(row.lanes, lanes))
    operands = [operand.name for operand in row.operands]
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
        field, text, allowed = wrong
        raise misdeclared(row.name, field, "does not fit", text, allowed)


def _check_effects(name: str, effects: object) -> None:
    if not isinstance(effects, tuple) or not all(isinstance(effect, EFFECTS) for effect in effects):
        raise misdeclared(name, "Form.effects", "is no tuple of effects", repr(effects), "(Access(...), Issue(), ...)")


def _check_text(row: Instruction, operands: list[str]) -> None:
    """Raises InstructionError where arguments or the pattern name what the row does not have."""
    if twice := [name for k, name in enumerate(operands) if name in operands[:k]]:
        raise misdeclared(row.name, "operands", "has two of one name", repr(twice[0]), "a name for each")
    words = {*operands, *row.keywords, *(name for form in row.forms for name in form.wording.modifiers)}
    named = {"params": [name.lstrip("*") for name in row.params], "pattern": IN_BRACES.findall(row.pattern)}
    for field, names in named.items():
        for name in names:
            if name not in words and (field, name) not in IN_TEXT:
                what = "names no operand or modifier of the row"
                raise misdeclared(row.name, field, what, repr(name), choices(name, sorted(words)))


def _check_meaning(name: str, form: Form, operands: list[str], modifiers: tuple[str, ...]) -> None:
    meaning = form.meaning
    if meaning is NOTHING:
        return
    if isinstance(meaning, AsyncMeaning) != form.begins_operation:
        text = f"{type(meaning).__name__}, effects {', '.join(type(e).__name__ for e in form.effects) or 'none'}"
        what = "does not fit the effects"
        raise misdeclared(name, "meaning", what, text, "AsyncMeaning with Issue, or with Commit and Signal")
    _check_words(name, meaning)
    for part in (meaning, meaning.undefined):
        _check_names(name, part, OPERANDS, operands, "operand")
    if isinstance(meaning, AsyncMeaning):
        names = operands if meaning.addresses is None else meaning.takes  # it may add names
        _check_names(name, meaning, {AsyncMeaning: ("takes",)}, names, "operand")
    _check_names(name, meaning, {type(meaning): ("passes",)}, modifiers, "modifier")


def _check_words(name: str, part: object, modifiers: Mapping[str, Spellings] = NONE) -> None:
    for field, allowed in WORDS.get(type(part), ()):
        value = getattr(part, field)
        if isinstance(value, str) and value in allowed:
            continue
        label = f"{type(part).__name__}.{field}"
        for word, where in _words(name, label, value, modifiers):
            if not isinstance(word, str) or word not in allowed:
                listed = choices(word, (item for item in allowed if item))
                raise misdeclared(name, label, "is not in its table", repr(word) + where, listed)


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
            text = word(mods)
        except KeyError as error:
            allowed = choices(error.args[0], modifiers) or "none: the form has none"
            raise misdeclared(name, field, "reads no modifier of the form", repr(error.args[0]), allowed) from None
        asked = tuple((modifier, mods.mods[modifier]) for modifier in mods.names)
        if asked in done:
            continue
        done.add(asked)
        yield text, "".join(f", {modifier}={value!r}" for modifier, value in asked)
        left += [{**mods.mods, modifier: value} for modifier in mods.names for value in modifiers[modifier]]


def _check_names(
    name: str, part: object, fields: Mapping[type, tuple[str, ...]], names: Iterable[str], kind: str
) -> None:
    """Raises InstructionError for a name in ``fields`` that is not among ``names``."""
    for field in fields.get(type(part), ()):
        value = getattr(part, field)
        if field in TUPLES.get(type(part), ()) and not isinstance(value, tuple):
            raise misdeclared(name, f"{type(part).__name__}.{field}", "is no tuple", described(value), "a tuple")
        for item in value if isinstance(value, tuple) else (value,) if isinstance(value, str) and value else ():
            if item not in names:
                what = f"names no {kind} of the row"
                allowed = choices(item, names) or "none: the row has none"
                raise misdeclared(name, f"{type(part).__name__}.{field}", what, repr(item), allowed)


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
        allowed = "a function of the m-barrier's bits and the amount, see `mbarrier`" if begins else "None"
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
    for step in (form.issue, form.commit, form.wait):
        if step is not None and step.group and step.group not in _LINKED:
            issues = isinstance(step, Issue)
            others = (Commit, Wait) if issues else (Issue,)
            effects = (effect for row in table.values() for form in row.forms for effect in form.effects)
            groups = dict.fromkeys(effect.group for effect in effects if isinstance(effect, others))
            if step.group not in groups:
                what = f"is none that {'a Commit or Wait' if issues else 'an Issue'} names"
                allowed = choices(step.group, filter(None, groups))
                raise misdeclared(name, f"{type(step).__name__}.group", what, repr(step.group), allowed)
            _LINKED.add(step.group)


# What the functions of a row take and give, checked as they run: names, shapes and types that fit its effects.


if TYPE_CHECKING:
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
