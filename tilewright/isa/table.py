"""The instruction table: what a row holds.

An `Instruction` is a name of the language (``T.ptx.ldmatrix``) with one `Form` for each shape it exists in. A form has
its spelling as a function of its modifiers, the architectures that have it, which bytes it touches, which lanes take
part, and its meaning on a batch of warps. The emitter, the simulator, the dispatcher, ``T.ptx`` and the reference
pages all read these rows; none of them names an instruction. `tilewright.isa.calls` finds the row of a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import VOID, DType, dtype
from tilewright.errors import InstructionError, TargetError, choices
from tilewright.ir import Argument, Expr
from tilewright.isa.arch import Arch, Requirement
from tilewright.isa.effects import Access, Async, Count, Fence, Mods, ProxyFence, Signal, Sync, Word
from tilewright.public import Public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.isa.machine import Lanes
    from tilewright.isa.products import MatrixProduct

__all__ = [
    "ALL_LANES",
    "ANY_LANES",
    "BY_MASK",
    "CONSTRAINTS",
    "GIVEN",
    "INSTRUCTIONS",
    "KINDS",
    "LEFT_OUT",
    "REQUIRED",
    "RUNS_ON",
    "SPACE_KINDS",
    "WHOLE_WARP",
    "Access",
    "Async",
    "Bound",
    "Fence",
    "Form",
    "Instruction",
    "Mods",
    "Operand",
    "ProxyFence",
    "Signal",
    "Spellings",
    "Sync",
    "counts",
    "instruction",
    "lookup",
    "reads",
    "register_kind",
    "writes",
]

Spellings = Mapping[Any, str]  # what a modifier means (a Python value) -> how it is spelled

WHOLE_WARP = "warp"  # all 32 lanes, converged (`.sync.aligned`)
ALL_LANES = 0xFFFFFFFF  # a mask that names a whole warp
BY_MASK = "mask"  # the lanes that the operand `mask` names, all of them, converged
ANY_LANES = "any"  # whichever lanes are active, each for itself
public = Public(InstructionError, {})
"""The decorator of this room's public functions."""

REQUIRED = object()  # a keyword without a default

# Operand kinds that are registers or addresses of inline assembly, with its constraint letter.
# Pointers are told apart by what the address means.
CONSTRAINTS = {
    "b16": "h",
    "b32": "r",
    "b64": "l",
    "f32": "f",
    "f64": "d",
    "shared": "r",
    "tmem": "r",
    "global": "l",
    "generic": "l",
}
KINDS = {
    **dict.fromkeys(("b16", "b32", "b64", "f32", "f64"), "a register; `execute` gets unsigned bits (f32, f64: floats)"),
    "shared": "an offset in the CTA's shared window; a handle is converted to one",
    "tmem": "an address of tensor memory: the lane in bits 16 to 31, the 32-bit column in bits 0 to 15",
    "global": "a handle that points to global memory",
    "generic": "a handle that points anywhere",
    "place": "an address in the memory that the modifier `space` names, see `SPACE_KINDS`",
    "pred": "a condition; `execute` gets bools",
    "typed": "a value; all typed operands of a call are brought to one dtype, which is the modifier `dtype`",
    "value": "a value of whatever dtype it has; `execute` gets a tuple of arrays for ``*args``",
    "text": "a Python string; `execute` gets it as it is",
    "symbol": "a Python string that stands in C++ as it is: a name, or the text of functions",
    "imm": "an integer constant that stands in the text itself",
    "note": "a number for the simulator alone: it never reaches the text",
}

SPACE_KINDS: Mapping[Argument, str] = {None: "generic", "global": "global"}
"""The kind of a "place" by its modifier ``space``: "shared" for all others."""

RUNS_ON = {
    "": "nothing but its operands",
    "shared": "`Machine.shared`, the shared memory of the CTA",
    "memory": "`Machine.memory`, generic addresses",
    "machine": "the whole `Machine`",
    "bulk": "`Bulk`, memory as the asynchronous units see it, on behalf of the threads that issue",
}
"""What `Form.on` may be, and what `execute` then gets first."""

# Two forms tell by these whether a call gives an operand whose keyword has the default None.
LEFT_OUT: Spellings = {None: ""}
GIVEN: Spellings = {"given": ""}


def register_kind(kind: DType) -> str:
    """The kind of register that holds a value of a dtype: a float that assembly knows, else its bits."""
    return f"f{kind.bits}" if kind.is_float and kind.cuda else f"b{max(16, kind.bits)}"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. kind: a key of `KINDS`. many: a vector of `Form.registers`, or any number of kind "value".

    counts: an integer, where a register of kind b16, b32 or b64 may hold any bits.
    """

    name: str
    kind: str
    written: bool = False
    many: bool = False
    counts: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"operand {self.name} has no kind {self.kind!r}")

    @property
    def in_register(self) -> bool:
        """Does assembly get it in a register, a value or an address?"""
        return self.kind in CONSTRAINTS or self.kind in ("pred", "typed")


def reads(name: str, kind: str) -> Operand:
    """An operand that is read; ``*r`` is a vector of registers."""
    return Operand(name.lstrip("*"), kind, many=name.startswith("*"))


def counts(name: str, kind: str = "b32") -> Operand:
    """An operand that is read and must be an integer: a number of something, a mask, a parity."""
    return Operand(name, kind, counts=True)


def writes(name: str, kind: str) -> Operand:
    """A register operand that is written: a place, `ptr_to` or element of a local buffer."""
    return Operand(name.lstrip("*"), kind, written=True, many=name.startswith("*"))


@dataclass(frozen=True, slots=True)
class Form:
    """One form of an instruction. Its meaning is one of: `execute`, `sync`, `fence`, or a plain copy of bytes.

    text: the PTX mnemonic with a ``{hole}`` per modifier, or a C++ expression with a ``{hole}`` per operand and
    modifier when ``language`` is "cuda". modifiers: for each, what it means -> how it is spelled; ``dtype`` is set by
    the operands of kind "typed". helper: C++ functions that the text uses, emitted once.
    It may be the name of an operand of kind "symbol" that has them.
    registers: length of the vector operand, or of each by name.

    on: a key of `RUNS_ON`. `execute` gets that first, see `tilewright.isa.machine`; then the operands it reads, in the
    order of the row's operands, as arrays (..., 32), vectors as (..., registers, 32); then the modifiers named in
    ``passes`` as keywords. It returns what it writes: the value of the call where there is a ``result``, else the
    written operands, a tuple where there are several; arrays of 1 instead of 32 are equal in all lanes. Where each lane
    stands for itself (`ANY_LANES`) and ``on`` is "", arrays of any shapes that broadcast will do.
    result: the dtype of the call's value, or the operand whose dtype it has, or the modifier that names it.
    accesses: the memory it touches. moves: copies bits without looking at them, so that uninitialised bits travel
    along; with a read and a write access and no `execute`, the bytes of the first go to the second. Run on memory and
    registers whose bytes say 1 for valid and 0 for not, `execute` then gives the validity of what it writes; where
    bits do not stay in bytes of their own, `validity` does.
    source_lane: of a form that reads other lanes' values: gets what `execute` gets, tells which lane each reads.
    pattern: instead of the row's, where this form's operands stand otherwise.
    fence: which of the thread's accesses before it it orders against which of those after it.
    product: the product of matrices that a call's registers hold, for forms that are nothing else.
    ready: of a form that may have to wait for others: gets what `execute` gets, tells in which lanes that may take
    place, and keeps for them what they waited for.
    signal: what it does to an m-barrier. asynchronous: how it goes on after it was issued.
    source: the section that says so.
    """

    text: str
    arch: Requirement
    source: str
    modifiers: Mapping[str, Spellings] = field(default_factory=dict)
    execute: Callable[..., object] | None = None
    on: str = ""
    passes: tuple[str, ...] = ()
    registers: Count | Mapping[str, Count] = 1
    accesses: tuple[Access, ...] = ()
    moves: bool = False
    validity: Callable[..., object] | None = None
    product: Callable[[Mods], MatrixProduct | None] | None = None
    sync: Sync | None = None
    fence: Fence | ProxyFence | None = None
    ready: Callable[..., object] | None = None
    source_lane: Callable[..., Lanes] | None = None
    signal: Signal | None = None
    asynchronous: Async | None = None
    language: str = "ptx"
    helper: str = ""
    pattern: str = ""
    result: DType | str = VOID

    def __post_init__(self) -> None:
        if self.on not in RUNS_ON:
            raise ValueError(f"{self.text} cannot run on {self.on!r}")

    def fits(self, mods: Mods) -> bool:
        """True where every modifier has a spelling here."""
        return all(name in mods and mods[name] in table for name, table in self.modifiers.items())

    def spellings(self, mods: Mods) -> dict[str, str]:
        """How each modifier is spelled."""
        return {name: table[mods[name]] for name, table in self.modifiers.items()}

    def mnemonic(self, mods: Mods) -> str:
        """The opcode with its modifiers, ``ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16``."""
        return self.text.format(**self.spellings(mods))

    def all_mods(self) -> Iterator[dict[str, Argument]]:
        """Every combination of modifiers, for tests and pages that walk the table."""
        combinations: list[dict[str, Argument]] = [{}]
        for name, table in self.modifiers.items():
            combinations = [{**mods, name: value} for mods in combinations for value in table]
        yield from combinations

    def count(self, what: Count, mods: Mods) -> int:
        """A number that may depend on the modifiers."""
        return what(mods) if callable(what) else what

    def word(self, what: Word, mods: Mods) -> str:
        """A word that may depend on the modifiers."""
        return what(mods) if callable(what) else what

    def fence_of(self, mods: Mods) -> Fence | ProxyFence | None:
        """The fence that it is with these modifiers: all words are strings."""
        fence = self.fence
        if isinstance(fence, Fence):
            return Fence(self.word(fence.sem, mods), self.word(fence.scope, mods), fence.only)
        if isinstance(fence, ProxyFence):
            return ProxyFence(fence.proxy, *(self.word(one, mods) for one in (fence.space, fence.side, fence.scope)))
        return None

    def registers_of(self, operand: str, mods: Mods) -> int:
        """The length of the vector ``operand``."""
        counts = self.registers
        return self.count(counts[operand] if isinstance(counts, Mapping) else counts, mods)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A name of the language and its forms.

    params: arguments in the language's order, modifiers and operands mixed, ``*r`` takes the rest; keywords: name ->
    default or `REQUIRED`; an operand with the default None may be left out, see `LEFT_OUT`. operands: in the order of
    the assembler. pattern: how they stand after the mnemonic, or where it holds ``{mnemonic}``, the whole text;
    ``{result}`` is the register of the call's value.
    folds: keywords that are added to an operand, so many bits up, when the call is made: ``{"row": ("taddr", 16)}``.
    widens: narrow floats are computed in float32 and rounded once at the end. check: raises InstructionError for what
    modifiers and register counts do not tell. agrees: a modifier that all such rows of a kernel must have in common.
    """

    name: str
    params: tuple[str, ...]
    operands: tuple[Operand, ...]
    forms: tuple[Form, ...]
    keywords: Mapping[str, object] = field(default_factory=dict)
    pattern: str = ""
    lanes: str = ANY_LANES
    widens: bool = False
    check: Callable[[Bound], None] | None = None
    folds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    agrees: str = ""
    doc: str = ""

    def operand(self, name: str) -> Operand | None:
        """The operand of that name; None for a modifier."""
        return next((operand for operand in self.operands if operand.name == name), None)


@dataclass(frozen=True, slots=True)
class Bound:
    """A call with its row: what the emitter and the simulator work from.

    operands: one expression each, or the registers of a vector. texts: the operands of kind "text".
    """

    instruction: Instruction
    form: Form
    mods: Mods
    operands: Mapping[str, tuple[Expr, ...]]
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def mnemonic(self) -> str:
        """The opcode with the modifiers of the call."""
        return self.form.mnemonic(self.mods)

    @property
    def reaches_cluster(self) -> bool:
        """May its shared addresses lead to other CTAs of the cluster?"""
        return ".shared::cluster" in self.mnemonic

    @property
    def given(self) -> tuple[Operand, ...]:
        """The operands that the call has: the row's, less those that were left out, each place of its own kind."""
        return tuple(
            replace(one, kind=SPACE_KINDS.get(self.mods["space"], "shared")) if one.kind == "place" else one
            for one in self.instruction.operands
            if self.mods.get(one.name, one) is not None
        )

    @property
    def read(self) -> tuple[Operand, ...]:
        """The operands that `execute` gets."""
        return tuple(operand for operand in self.given if not operand.written)

    @property
    def registers(self) -> int:
        """The length of the one vector operand; ask `Form.registers_of` where there are several."""
        vector = next((operand.name for operand in self.instruction.operands if operand.many), "")
        return self.form.registers_of(vector, self.mods) if vector else 1

    @property
    def result(self) -> DType:
        """The dtype of the call's value, VOID for none."""
        result = self.form.result
        if isinstance(result, DType):
            return result
        return self.operands[result][0].dtype if result in self.operands else dtype(str(self.mods[result]))

    def code(self, operands: Mapping[str, str | Sequence[str]]) -> str:
        """The text with ``operands`` put in: assembly for "ptx" (with ``result`` where there is one), else C++.

        A vector is a sequence: ``{%0, %1}`` in assembly, ``, a, b`` in C++ (an argument list goes on with it). Texts
        come by themselves.
        """
        ptx = self.form.language == "ptx"
        vector = _braced if ptx else _continued
        joined = {name: value if isinstance(value, str) else vector(value) for name, value in operands.items()}
        joined |= {one.name: self._text(one) for one in self.instruction.operands if one.name in self.texts}
        if not ptx:
            return self.form.text.format(**self.form.spellings(self.mods), **joined).replace("(, ", "(", 1)
        pattern = self.form.pattern or self.instruction.pattern
        if "{mnemonic}" in pattern:
            return pattern.format(mnemonic=self.mnemonic, **joined)
        return f"{self.mnemonic} {pattern.format(**joined)}".rstrip() + ";"

    def _text(self, operand: Operand) -> str:
        text = self.texts[operand.name]
        return text if operand.kind == "symbol" else _quoted(text)

    @property
    def helper(self) -> str:
        """The C++ functions that the text uses."""
        return self.texts.get(self.form.helper, self.form.helper)

    def check_arch(self, target: Arch) -> None:
        """Raises TargetError, naming the first architecture that has the form, where ``target`` lacks it."""
        if not self.form.arch.admits(target):
            name = self.mnemonic if self.form.language == "ptx" else self.instruction.name
            raise TargetError(
                f"{name} does not exist on {target}",
                given=str(target),
                allowed=str(self.form.arch),
                hint=f"target={str(self.form.arch.archs()[0])!r}",
            )


def _braced(registers: Sequence[str]) -> str:
    return "{" + ", ".join(registers) + "}"


def _continued(arguments: Sequence[str]) -> str:
    return "".join(f", {argument}" for argument in arguments)


def _quoted(text: str) -> str:
    """A C string literal: JSON escapes what C must escape; bytes beyond ASCII stay as they are."""
    return json.dumps(text, ensure_ascii=False)


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(name: str, **row: object) -> Instruction:
    """Register a row; called by the modules of this room as they are imported."""
    made = Instruction(name, **row)  # type: ignore[arg-type]  # checked by the dataclass's own users
    if name in INSTRUCTIONS:
        raise ValueError(f"two rows for {name}")
    INSTRUCTIONS[name] = made
    return made


def lookup(name: str) -> Instruction:
    """The row called ``name`` ("ptx.ldmatrix"). Raises InstructionError with the nearest name."""
    if not isinstance(name, str) or name not in INSTRUCTIONS:
        raise InstructionError(
            f"T.{name} is not an instruction", given=f"T.{name}", allowed=choices(name, INSTRUCTIONS)
        )
    return INSTRUCTIONS[name]
