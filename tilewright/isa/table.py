"""The instruction table: what a row holds, and the errors of calls that no row takes.

An `Instruction` is a name of the language (``T.ptx.ldmatrix``) with one `Form` for each shape it exists in. A form has
its spelling as a function of its modifiers, the architectures that have it, which bytes it touches, which lanes take
part, and its meaning on a batch of warps. The emitter, the simulator, the dispatcher, ``T.ptx`` and the reference
pages all read these rows; none of them names an instruction. `tilewright.isa.calls` finds the row of a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ParamSpec

from tilewright.dtypes import VOID, DType, dtype
from tilewright.errors import InstructionError, TargetError, choices, described
from tilewright.ir import Buffer, Expr, Region
from tilewright.isa import declared
from tilewright.isa.arch import Arch, Requirement
from tilewright.isa.forms import (
    NOTHING,
    Access,
    Count,
    Cuda,
    Effect,
    Fence,
    Form,
    Meaning,
    Mods,
    Operand,
    ProxyFence,
    Ptx,
    Word,
    counted,
    value_dtype,
    worded,
)
from tilewright.public import Public
from tilewright.terms import option, told

__all__ = [
    "ALL_LANES", "ANY_LANES", "BY_MASK", "INSTRUCTIONS", "REQUIRED", "WARPGROUP", "WHOLE_WARP", "Bound", "Instruction",
    "Touch", "instruction", "lookup", "misused", "no_form", "single", "usage", "written",
]  # fmt: skip


WARPGROUP = "warpgroup"  # all lanes of four warps, the first of which is a multiple of 4
WHOLE_WARP = "warp"  # all 32 lanes, converged (`.sync.aligned`)
ALL_LANES = 0xFFFFFFFF  # a mask that names a whole warp
BY_MASK = "mask"  # the lanes that the operand `mask` names, all of them, converged
ANY_LANES = "any"  # whichever lanes are active, each for itself
LANES = (ANY_LANES, WHOLE_WARP, WARPGROUP, BY_MASK)
public = Public(InstructionError, {})
"""The decorator of this room's public functions."""

REQUIRED = object()  # a keyword without a default
BY_OPERANDS = ("...",)  # of `Instruction.params`
IN_ORDER = "..."  # of `Instruction.pattern`
_Row = ParamSpec("_Row")


@dataclass(frozen=True, slots=True)
class Instruction:
    """A name of the language and its forms.

    operands: in the order of the assembler. params: arguments in the language's order, modifiers and operands mixed,
    ``*r`` takes the rest; by default the operands that are no keywords. keywords: name -> default or `REQUIRED`; an
    operand with the default None may be left out, see `LEFT_OUT`. pattern: how operands stand after the mnemonic, by
    default in order, addresses in brackets; or where it holds ``{mnemonic}``, the whole text, with modifiers that are
    no part of the mnemonic. ``{result}`` is the register of the call's value. folds: keywords that are added to an
    operand, so many bits up, when the call is made: ``{"row": ("taddr", 16)}``. widens: narrow floats are computed in
    float32 and rounded once at the end. check: raises InstructionError for what modifiers and register counts do not
    tell. agrees: a modifier that all such rows of a kernel must have in common. hints: patterns of words of PTX that
    its mnemonic may hold and that mean nothing to what it does. also: what may stand in its mnemonic in the place of a
    word, "" for nothing. written: is it an opcode as compilers write it? Such a row is what a spelling means that
    others share.
    """

    name: str
    params: tuple[str, ...] = BY_OPERANDS
    operands: tuple[Operand, ...] = ()
    forms: tuple[Form, ...] = ()
    keywords: Mapping[str, object] = field(default_factory=dict)
    pattern: str = IN_ORDER
    lanes: str = ANY_LANES
    widens: bool = False
    check: Callable[[Bound], None] | None = None
    folds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    agrees: str = ""
    doc: str = ""
    hints: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    written: bool = False

    def __post_init__(self) -> None:
        declared.check_types(self)
        if self.params is BY_OPERANDS:
            positional = (operand for operand in self.operands if operand.name not in self.keywords)
            object.__setattr__(self, "params", tuple("*" * operand.many + operand.name for operand in positional))
        if self.pattern is IN_ORDER:
            object.__setattr__(self, "pattern", self._operands_in_order())
        if declared.at_once:
            declared.check_row(self, LANES)

    def _operands_in_order(self) -> str:
        """The pattern of forms in PTX that have none of their own, behind the value that the first of them gives."""
        forms = [form for form in self.forms if isinstance(form.wording, Ptx) and not form.wording.pattern]
        if not forms:
            return ""
        result = ["{result}"] if forms[0].result != VOID else []
        return ", ".join(result + [operand.in_text for operand in self.operands if operand.kind != "note"])

    def operand(self, name: str) -> Operand | None:
        """The operand of that name; None for a modifier."""
        return next((operand for operand in self.operands if operand.name == name), None)

    def pattern_of(self, form: Form) -> str:
        """How the operands of a form in PTX stand."""
        return (form.wording.pattern if isinstance(form.wording, Ptx) else "") or self.pattern


@dataclass(frozen=True, slots=True)
class Touch:
    """How a statement touches bytes: an `Access` with the modifiers of a call, or a plain load or store.

    atomic: does it read and write as one access? sem, scope: its order, see `Access`. element: bytes of each operation
    that a vector consists of; 0 for all. phase: lanes that shared memory serves together; 0: from the width.
    collective: does a warp do it together? is_signal: of an m-barrier; ends: that m-barrier. goes_on: does an
    asynchronous operation touch the bytes later? sized: may some lanes touch fewer bytes, or none? observes: does the
    kernel see what it reads? compares: does it write only where it finds the expected value? constant: does it read
    what nobody may write while the kernel runs? by_unit: does an asynchronous unit do it, through a proxy of its own?
    replicated: does the address name a place of each GPU? lanes: how many lanes' addresses count, lane 0 first. moves:
    does it copy bits without looking at them?
    """

    atomic: bool = False
    sem: str = "weak"
    scope: str = ""
    element: int = 0
    phase: int = 0
    collective: bool = False
    is_signal: bool = False
    ends: bool = False
    goes_on: bool = False
    sized: bool = False
    observes: bool = True
    compares: bool = False
    constant: bool = False
    by_unit: bool = False
    replicated: bool = False
    lanes: int = 32
    moves: bool = False


@dataclass(frozen=True)  # without slots, as it keeps what it is asked for again and again
class Bound:
    """A call with its row: what the emitter and the simulator work from.

    operands: one expression each, or the registers of a vector. texts: the operands of kind "text".
    """

    instruction: Instruction
    form: Form
    mods: Mods
    operands: Mapping[str, tuple[Expr, ...]]
    texts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def mnemonic(self) -> str:
        """The opcode with the modifiers of the call."""
        return self.form.mnemonic(self.mods)

    @property
    def reaches_cluster(self) -> bool:
        """May its shared addresses lead to other CTAs of the cluster?"""
        return ".shared::cluster" in self.mnemonic

    def count(self, what: Count) -> int:
        """A number of the form, with the modifiers of the call."""
        return counted(what, self.mods)

    def word(self, what: Word) -> str:
        """A word of the form, with the modifiers of the call."""
        return worded(what, self.mods)

    def touch(self, access: Access) -> Touch:
        """One of its accesses, with the modifiers of the call. m-barriers never race: their scope holds everyone."""
        is_signal = access.operand in {signal.barrier for signal in self.form.signals}
        return Touch(
            atomic=access.rmw,
            sem=self.word(access.sem),
            scope="sys" if is_signal else self.word(access.scope),
            element=self.count(access.element_bytes),
            phase=access.phase_lanes,
            collective=self.instruction.lanes in (WARPGROUP, WHOLE_WARP),
            is_signal=is_signal,
            ends=any(signal.kind == "inval" for signal in self.form.signals),
            goes_on=self.form.issue is not None and not is_signal,
            sized=access.sized,
            observes=self.form.result != VOID,
            compares=access.compares,
            constant=access.constant,
            replicated=access.replicated,
            lanes=self.count(access.lanes),
            moves=self.form.meaning.moves,
        )

    def registers_of(self, operand: str) -> int:
        """The length of the vector ``operand``."""
        return self.form.registers_of(operand, self.mods)

    @property
    def fence(self) -> Fence | ProxyFence | None:
        """The fence that the call is, if it is one."""
        return self.form.fence_of(self.mods)

    @cached_property
    def given(self) -> tuple[Operand, ...]:
        """The operands that the call has: the row's, less those that were left out, each place of its own kind."""
        return tuple(
            row.resolved(self.mods) for row in self.instruction.operands if self.mods.get(row.name, row) is not None
        )

    @cached_property
    def read(self) -> tuple[Operand, ...]:
        """The operands that `execute` gets."""
        return tuple(operand for operand in self.given if operand.read)

    @cached_property
    def arguments(self) -> tuple[Operand, ...]:
        """The operands whose values come with the call: an operation reads what it updates when it is complete."""
        return tuple(operand for operand in self.read if not (operand.written and self.form.issue))

    @property
    def registers(self) -> int:
        """The length of the one vector operand; ask `Form.registers_of` where there are several."""
        vector = next((operand.name for operand in self.instruction.operands if operand.many), "")
        return self.registers_of(vector) if vector else 1

    @property
    def result(self) -> DType:
        """The dtype of the call's value, VOID for none."""
        result = self.form.result
        if callable(result):
            return value_dtype(result(self.mods))
        if isinstance(result, DType):
            return result
        return self.operands[result][0].dtype if result in self.operands else dtype(str(self.mods[result]))

    @property
    def result_registers(self) -> int:
        """How many registers the call's value is in: those of a vector are several."""
        several = callable(self.form.result) and ":" in self.form.result(self.mods)
        return self.result.lanes if several else 1

    def code(self, operands: Mapping[str, str | Sequence[str]]) -> str:
        """The text with ``operands`` put in: assembly for "ptx" (with ``result`` where there is one), else C++.

        A vector is a sequence: ``{%0, %1}`` in assembly, ``, a, b`` in C++ (an argument list goes on with it). Texts
        come by themselves.
        """
        wording = self.form.wording
        vector = (lambda parts: f"{{{', '.join(parts)}}}") if isinstance(wording, Ptx) else _continued
        joined = {name: value if isinstance(value, str) else vector(value) for name, value in operands.items()}
        joined |= {row.name: self._text(row) for row in self.instruction.operands if row.name in self.texts}
        if isinstance(wording, Cuda):
            return wording.template.format(**{**self.form.spellings(self.mods), **joined}).replace("(, ", "(", 1)
        pattern = self.instruction.pattern_of(self.form)
        if "{mnemonic}" in pattern:
            return pattern.format(mnemonic=self.mnemonic, **{**self.form.spellings(self.mods), **joined})
        return f"{self.mnemonic} {pattern.format(**joined)}".rstrip() + ";"

    def _text(self, operand: Operand) -> str:
        text = self.texts[operand.name]
        return text if operand.kind == "symbol" else json.dumps(text, ensure_ascii=False)  # which C escapes alike

    @property
    def helper(self) -> str:
        """The C++ functions that the text uses."""
        helper = self.form.wording.helper if isinstance(self.form.wording, Cuda) else ""
        return self.texts.get(helper, helper)

    def check_arch(self, target: Arch) -> None:
        """Raises TargetError, naming the first architecture that has the form, where ``target`` lacks it."""
        if not self.form.arch.admits(target):
            name = self.mnemonic if isinstance(self.form.wording, Ptx) else self.instruction.name
            raise TargetError(
                f"{name} does not exist on {target}",
                given=str(target),
                allowed=str(self.form.arch),
                hint=told("{}", option("target", str(self.form.arch.archs()[0]))),
            )


def _continued(arguments: Sequence[str]) -> str:
    return "".join(f", {argument}" for argument in arguments)


INSTRUCTIONS: dict[str, Instruction] = {}


def _registering(make: Callable[_Row, Instruction]) -> Callable[_Row, Instruction]:
    """The same with a place in the table for what it makes: mypy sees the keywords of `Instruction`."""

    def instruction(*args: _Row.args, **fields: _Row.kwargs) -> Instruction:
        """Register a row, see `Instruction`; called by the modules of this room as they are imported."""
        row = make(*args, **fields)
        if row.name in INSTRUCTIONS:
            raise InstructionError(f"two rows for {row.name}", given=row.name, allowed="a name without a row")
        INSTRUCTIONS[row.name] = row
        return row

    return instruction


instruction = _registering(Instruction)


def single(
    name: str,
    wording: Ptx | Cuda,
    arch: Requirement,
    source: str,
    meaning: Meaning = NOTHING,
    *,
    effects: tuple[Effect, ...] = (),
    registers: Count | Mapping[str, Count] = 1,
    result: DType | str | Callable[[Mods], str] = VOID,
    **row: Any,
) -> Instruction:
    """Register a row of one form, which is given by the fields of `Form`; row: the others of `Instruction`."""
    return instruction(name, forms=(Form(wording, arch, source, meaning, effects, registers, result),), **row)


def lookup(name: str) -> Instruction:
    """The row called ``name`` ("ptx.ldmatrix"). Raises InstructionError with the nearest name."""
    if not isinstance(name, str) or name not in INSTRUCTIONS:
        raise InstructionError(
            f"T.{name} is not an instruction", given=f"T.{name}", allowed=choices(name, INSTRUCTIONS)
        )
    return INSTRUCTIONS[name]


# Errors of instruction calls: how the row is called, what was given, which forms there are.


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
        values = dict.fromkeys(chain.from_iterable(form.wording.modifiers.get(name, ()) for form in row.forms))
        if values and value not in values and row.operand(name) is None:
            return _spoken(row, name, list(values))
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
