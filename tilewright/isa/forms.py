"""What a row is made of: operands and their types, the effects of a form, and forms: how each is written and means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from tilewright.dtypes import VOID, DType, dtype
from tilewright.ir import Argument
from tilewright.isa.arch import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tilewright.isa.machine import Addresses, Lanes
    from tilewright.isa.mma import Accumulator, MatrixProduct

__all__ = [
    "CONSTRAINTS", "FILL", "GIVEN", "KEEPING", "KINDS", "LAST_USE", "LEFT_OUT", "RUNS_ON", "SPACE_KINDS", "USE",
    "Access", "AsyncMeaning", "Commit", "Consults", "Count", "Cuda", "Effect", "Fence", "Form", "Issue", "Keeps",
    "Meaning", "Mods", "Operand", "OperandKind", "ProxyFence", "Ptx", "RegisterFence", "Signal", "Spellings", "Sync",
    "Unlisted", "Wait", "counts", "may_lack", "reads", "register_kind", "spoken", "updates", "writes",
]  # fmt: skip


# PTX's words for types: how wide a register of the type is, and which numbers its bits are.
#
# Registers have widths, instructions have types. A narrow pair (``f16x2``) is one register of bits, as is a number
# that NumPy lacks. Source: PTX ISA, "Types".

OUTSIDE = 0x7FF7  # the NaN of what is out of bounds of a tensor, its 16 bits repeated: found on an H200

Numbers: TypeAlias = Any  # an array, or a number of NumPy: each meaning knows its dtype


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class PtxType:
    """A type. name: of the dtype that a value of it has. element: of each number in it. lanes: how many there are."""

    name: str
    element: str
    lanes: int = 1

    @cached_property
    def dtype(self) -> DType:
        """The dtype of a value of this type."""
        return dtype(self.name)

    @cached_property
    def bits(self) -> int:
        """Bits of a register of this type."""
        return self.dtype.bits

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of one number."""
        return dtype(self.element).numpy

    @cached_property
    def unsigned(self) -> np.dtype[np.generic]:
        """The unsigned NumPy dtype of the register's bits."""
        return np.dtype(f"u{self.bits // 8}")

    @property
    def signed(self) -> bool:
        """Is it an integer with a sign?"""
        return dtype(self.element).is_signed


NUMBERS: dict[str, str] = {
    **{f"{letter}{bits}": f"{name}{bits}"
       for letter, name in (("u", "uint"), ("s", "int"), ("b", "uint")) for bits in (8, 16, 32, 64)},
    **{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
}  # fmt: skip
"""The dtypes that registers hold as numbers, by PTX's word."""
ELEMENTS: dict[str, str] = {
    **NUMBERS, "tf32": "tf32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "e2m3": "float6_e2m3fn", "e3m2": "float6_e3m2fn", "e2m1": "float4_e2m1fn",
}  # fmt: skip
"""Those of the elements of matrices."""
NARROW = {f"{word}x2": ELEMENTS[word] for word in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")}
"""The dtypes of the numbers in pairs of narrow floats, by PTX's word."""
WORDS = {name: word for word, name in reversed(ELEMENTS.items())}
"""PTX's word for a dtype: u32 of what b32 is, too."""
TYPES: dict[str, PtxType] = {
    "pred": PtxType("bool", "bool"),
    **{word: PtxType(name, name) for word, name in NUMBERS.items()},
    "b128": PtxType("uint64x2", "uint64", 2),
    "tf32": PtxType("uint32", "uint32"),
    "f16x2": PtxType("uint32", "float16", 2),
    "bf16x2": PtxType("uint32", "bfloat16", 2),
    "u16x2": PtxType("uint32", "uint16", 2),
    "s16x2": PtxType("uint32", "int16", 2),
    "f32x2": PtxType("uint64", "float32", 2),
    "e4m3x2": PtxType("uint16", "float8_e4m3fn", 2),
    "e5m2x2": PtxType("uint16", "float8_e5m2", 2),
    "ue8m0x2": PtxType("uint16", "float8_e8m0fnu", 2),
    "e2m3x2": PtxType("uint16", "uint8", 2),
    "e3m2x2": PtxType("uint16", "uint8", 2),
    "e2m1x2": PtxType("uint8", "uint8"),
    **{f"{word}x4": PtxType("uint32", "uint32") for word in ("e4m3", "e5m2", "e2m3", "e3m2")},
    "e2m1x4": PtxType("uint16", "uint16"),
}  # fmt: skip


def register_word(kind: DType) -> str:
    """PTX's word for the type of a register that holds a value of a dtype: its bits, where PTX has no such number.

    >>> register_word(dtype("int32")), register_word(dtype("float16"))
    ('s32', 'b16')
    """
    word = WORDS.get(str(kind), "")
    return word if word and (kind.is_integer or kind.bits >= 32) else f"b{kind.bits}"


def value_dtype(word: str) -> DType:
    """The dtype of a value of a type; ``b32:4`` is a vector of four.

    >>> str(value_dtype("f32:4"))
    'float32x4'
    """
    name, _, lanes = word.partition(":")
    return TYPES[name].dtype.with_lanes(int(lanes)) if lanes else TYPES[name].dtype


@dataclass(frozen=True, slots=True)
class OperandKind:
    """What an operand may be. letter: the constraint of inline assembly; none where it is no register. ctype: of the
    register in C++. nbytes: of a register that holds bits (floats too); 0 for addresses and all else.
    """

    doc: str
    letter: str = ""
    ctype: str = ""
    nbytes: int = 0


_BITS, _FLOAT = "a register; `execute` gets unsigned bits", "a register; `execute` gets floats"
_GENERIC = "const void*"
KINDS = {
    "b8": OperandKind(_BITS, "h", "unsigned short", 1),
    "b16": OperandKind(_BITS, "h", "unsigned short", 2),
    "b32": OperandKind(_BITS, "r", "unsigned int", 4),
    "b64": OperandKind(_BITS, "l", "unsigned long long", 8),
    "f32": OperandKind(_FLOAT, "f", "float", 4),
    "f64": OperandKind(_FLOAT, "d", "double", 8),
    "shared": OperandKind("an offset in the CTA's shared window; a handle is converted to one", "r", "unsigned int"),
    "tmem": OperandKind("an address of tensor memory: lane in bits 16 to 31, 32-bit column below", "r", "unsigned int"),
    "global": OperandKind("a handle that points to global memory", "l", _GENERIC),
    "generic": OperandKind("a handle that points anywhere", "l", _GENERIC),
    "place": OperandKind("an address in the memory that the modifier `space` names, see `SPACE_KINDS`"),
    "pred": OperandKind("a condition; `execute` gets bools"),
    "typed": OperandKind(
        "a value; all typed operands of a call are brought to one dtype, which is the modifier `dtype`"
    ),
    "bits": OperandKind("a register as wide as its type, see `Operand.of`; `execute` gets unsigned bits"),
    "value": OperandKind("a value of whatever dtype it has; `execute` gets a tuple of arrays for ``*args``"),
    "text": OperandKind("a Python string; `execute` gets it as it is"),
    "symbol": OperandKind("a Python string that stands in C++ as it is: a name, or the text of functions"),
    "imm": OperandKind("an integer constant that stands in the text itself"),
    "note": OperandKind("a number for the simulator alone: it never reaches the text"),
}
CONSTRAINTS = {name: kind.letter for name, kind in KINDS.items() if kind.letter}
"""The operand kinds that inline assembly gets in registers of their own, and the letter of each."""

ADDRESSES = ("shared", "tmem", "global", "generic", "place")
"""The operand kinds that are addresses."""

SPACE_KINDS: Mapping[Argument, str] = {
    None: "generic",
    "global": "global",
    **dict.fromkeys(("local", "const", "param"), "generic"),
}
"""The kind of a "place" by its modifier ``space``: "shared" for all others."""


def register_kind(kind: DType) -> str:
    """The kind of register that holds a value of a dtype: a float that assembly knows, else its bits."""
    return f"f{kind.bits}" if kind.is_float and kind.cuda else f"b{max(16, kind.bits)}"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. kind: a key of `KINDS`. many: a vector of `Form.registers`, or any number of kind "value".

    read, written: by the instruction; a register may be both. counts: an integer, where a register of kind b16, b32
    or b64 may hold any bits. optional: left out where it is None or the constant 0, see `LEFT_OUT`. of: of kind "bits",
    PTX's word for its type, or the modifier that is one, or what tells it from the modifiers.
    """

    name: str
    kind: str
    read: bool = True
    written: bool = False
    many: bool = False
    counts: bool = False
    optional: bool = False
    of: str | Callable[[Mapping[str, Argument]], str] = ""

    @property
    def in_register(self) -> bool:
        """Does assembly get the operand in a register, as a value or an address?"""
        return self.kind in CONSTRAINTS or self.kind in ("pred", "typed", "bits")

    @property
    def in_text(self) -> str:
        """The operand in a pattern, an address in brackets."""
        return f"[{{{self.name}}}]" if self.kind in ADDRESSES else f"{{{self.name}}}"

    def resolved(self, mods: Mapping[str, Argument]) -> Operand:
        """The operand with a kind that no longer depends on modifiers: that of its memory, or of its register."""
        if self.kind == "place":
            return replace(self, kind=SPACE_KINDS.get(mods["space"], "shared"))
        if self.kind == "bits":
            word = self.type_of(mods)
            return replace(self, kind="pred" if word == "pred" else f"b{TYPES[word].bits}")
        return self

    def type_of(self, mods: Mapping[str, Argument]) -> str:
        """PTX's word for the type of an operand of kind "bits"."""
        return self.of(mods) if callable(self.of) else str(mods.get(self.of, self.of))


def reads(name: str, kind: str) -> Operand:
    """An operand that is read; ``*r`` is a vector of registers."""
    return Operand(name.lstrip("*"), kind, many=name.startswith("*"))


def counts(name: str, kind: str = "b32") -> Operand:
    """An operand that is read and must be an integer: a number of something, a mask, a parity."""
    return Operand(name, kind, counts=True)


def may_lack(operand: Operand) -> Operand:
    """An operand in the middle of a call's arguments that None or 0 leaves out."""
    return replace(operand, optional=True)


def writes(name: str, kind: str) -> Operand:
    """A register operand that is written: a place, `ptr_to` or element of a local buffer."""
    return Operand(name.lstrip("*"), kind, read=False, written=True, many=name.startswith("*"))


def updates(name: str, kind: str) -> Operand:
    """A register operand that is read and written, such as an accumulator."""
    return Operand(name.lstrip("*"), kind, written=True, many=name.startswith("*"))


# What a form does besides computing: the bytes it touches, the threads it meets, the signals it sends, the operations
# it begins.
#
# A form has one tuple of effects, `Form.effects`. The simulator's checks, its counts and its scheduler read them, and
# so do the emitter and the parser; `execute` does not show them. None of the readers knows an instruction by its name.


Mods = Mapping[str, Argument]
Count = int | Callable[[Mods], int]
Word = str | Callable[[Mods], str]


def counted(what: Count, mods: Mods) -> int:
    """A number that may depend on the modifiers."""
    return what(mods) if callable(what) else what


def worded(what: Word, mods: Mods) -> str:
    """A word that may depend on the modifiers."""
    return what(mods) if callable(what) else what


# How strong an access is, see PTX ISA, "Memory Consistency Model".
SEMS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
SCOPES = ("cta", "cluster", "gpu", "sys")  # the narrowest first
SIGNALS: Mapping[str, tuple[str, ...]] = {
    "init": ("relaxed",),
    "inval": ("relaxed",),
    "arrive": ("relaxed", "release"),
    "bytes": ("relaxed", "release"),
    "wait": ("relaxed", "acquire"),
}
"""What may be done to an m-barrier, and the orders that each may have."""


@dataclass(frozen=True, slots=True)
class Space:
    """A memory. unit: the fewest bytes that an access touches. owner: what each has a memory of its own. window: does a
    generic address reach it? proxies: through which it is accessed.
    """

    unit: int
    owner: str
    window: bool
    proxies: tuple[str, ...]


SPACES: Mapping[str, Space] = {
    "global": Space(1, "device", True, ("generic", "async", "tensormap")),
    "shared": Space(1, "cta", True, ("generic", "async")),
    "local": Space(1, "thread", True, ("generic",)),
    "tmem": Space(4, "cta", False, ("tmem",)),
}
GENERIC = "generic"  # as a space: the one that the pointer leads into


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that a form touches. The checks of bounds, alignment, races, proxies, poison and banks read it.

    operand: the address; of a ``computed`` access, the name under which `AsyncMeaning.addresses` gives its addresses.
    space: a key of `SPACES`, or generic (what the pointer points into). nbytes: per address. sized: these addresses
    say how many of them count in each lane, none perhaps. lanes: how many lanes' addresses count, lane 0 first (32:
    all active). proxy: through which the memory is accessed. phase_lanes: lanes served together by shared memory (0:
    from the width: 32 for 4 bytes, 16 for 8, 8 for 16). sem: one of `SEMS`. scope: of a strong access, one of
    `SCOPES`. rmw: the read and the write are one atomic access. element_bytes: of each operation that a vector consists
    of (0: it is one). constant: no thread writes the bytes while the kernel runs. compares: does it write only where it
    finds the expected value? replicated: the address names a place of each GPU, all of which are accessed. unfenced: do
    published programs leave out the proxy fence before it?
    """

    operand: str
    space: str
    nbytes: Count
    write: bool
    lanes: Count = 32
    phase_lanes: int = 0
    sem: Word = "weak"
    scope: Word = ""
    rmw: bool = False
    element_bytes: Count = 0
    proxy: str = "generic"
    computed: bool = False
    sized: bool = False
    constant: bool = False
    compares: bool = False
    unfenced: bool = False
    replicated: bool = False


def read_and_written(
    operand: str, space: str, nbytes: Count, *, sem: Word = "relaxed", scope: Word = "gpu", compares: bool = False
) -> tuple[Access, Access]:
    """The accesses of an atomic: a read and a write of one place, as one access."""
    read = Access(operand, space, nbytes, write=False, sem=sem, scope=scope, rmw=True, compares=compares)
    return read, replace(read, write=True)


@dataclass(frozen=True, slots=True)
class Fence:
    """A form that orders the thread's accesses before it against those after it, as the threads of ``scope`` see them.

    sem: sc, acq_rel, acquire or release. only: what alone it orders; "mbarrier.init": the initialisation of m-barriers;
    "shared": accesses of shared memory.
    """

    sem: Word
    scope: Word
    only: str = ""

    @property
    def is_of_shared(self) -> bool:
        """Does it order accesses of shared memory alone?"""
        return self.only == "shared"


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A form that orders accesses through the generic proxy against those through another one.

    proxy: async, tensormap or tmem (not a proxy, but ordered in the same way). space: global, shared::cta or
    shared::cluster, where that alone is ordered. side: "both", or "release" and "acquire" for a pair with a barrier in
    between. scope: of a fence of a pair. at: the operand whose bytes are ordered.
    """

    proxy: str
    space: Word = ""
    side: Word = "both"
    scope: Word = ""
    at: str = ""

    @property
    def is_of_shared(self) -> bool:
        """Is it one of a pair, and so also a fence of the generic accesses of shared memory?"""
        return self.side != "both" and str(self.space).startswith("shared")


@dataclass(frozen=True, slots=True)
class RegisterFence:
    """A form that orders what a warp did to its registers before it against the operations of a group after it, which
    are ``fenced``.
    """

    group: str


@dataclass(frozen=True, slots=True)
class Sync:
    """A form at which threads meet. Barriers have no `execute`: the simulator runs the meeting.

    scope: warp, warpgroup, cta, named, cluster, or "poll": each thread waits for itself until the form's `execute` is
    true for it. arrive_only: goes on without waiting. wait_only: waits for the meeting at which the thread has arrived.
    orders: does it release what the thread has done to those who wait? False for a relaxed arrival. barrier, threads:
    the operands that name a barrier and count the threads that meet (none: barrier 0, all threads of the scope).
    """

    scope: str
    arrive_only: bool = False
    wait_only: bool = False
    orders: bool = True
    barrier: str = ""
    threads: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a form does to the m-barrier at the address ``barrier``, an operand.

    kind: "init" and "inval" begin and end its life; "arrive" counts an arrival, and with sem release releases what the
    thread has done; "wait" with sem acquire acquires what the arriving threads have released, in the lanes where
    `execute` is true; "bytes" counts bytes. sem: see `SIGNALS`. scope: of it, one of `SCOPES`.

    Of an operation, which has no `execute` for this: ``change`` makes the m-barrier's 64 bits from those before and
    ``amount`` (a number, or an operand) once the operation is complete, or all operations that a `Commit` beside it
    covers; the signal releases that completion. at_issue: it changes at once instead, and releases nothing.
    """

    barrier: str
    kind: str
    sem: str = "relaxed"
    scope: Word = "cta"
    change: Callable[[Any, Any], Any] | None = None
    amount: Count | str = 1
    at_issue: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    """The form begins an *operation*, which goes on by itself, unordered with all others.

    It begins after what its issuers have done, reads its sources and writes its destinations at some later point, and
    other accesses are ordered after it by its completion alone: by a `Wait` for its group, by the `Signal` of a
    `Commit` of its group, or by a `Signal` of its own. Until then its destinations are in flight and its sources held,
    memory and registers alike.

    group: what is counted together by the thread, warp or warpgroup that issues it; "" for none.
    in_order_after: instructions whose operations come first without a wait, where the same thread, warp or warpgroup
    has issued both, and they agree in what is ``alike`` and both have: modifiers; of a thread's operations also
    operands, and what `AsyncMeaning.takes` beside them. holds: operands whose registers it reads until it is complete;
    registers of other operands are read at the issue. accumulates: a condition among the operands; where it is false,
    registers that the form updates are written and not read. fenced: a `RegisterFence` of the group must stand between
    other accesses of its registers and the operation, and only operations of the group may touch them before the wait,
    not even a read. stalls: registers that it fills may be read before the wait, whose absence there is a warning.
    takes_over: it may take the place of CTAs that have not begun, so that only some of them begin at first.
    """

    group: str = ""
    in_order_after: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    accumulates: str = ""
    fenced: bool = False
    stalls: bool = False
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Consults:
    """A read of an operation: the ``nbytes`` of global memory at an operand say what it does. They are read as it
    begins, through a proxy of their own; `execute` does not get them.
    """

    operand: str
    nbytes: int
    proxy: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The form closes what was issued to a group since the last commit, for a `Wait` that counts commits. A `Signal`
    beside it comes when all that was issued to the group before is complete; then the form closes nothing.
    """

    group: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The form waits until at most the newest ``pending`` commits of the group are incomplete. pending: a number, or an
    operand of kind imm; None: until all operations are complete, committed or not. reads: only until their sources have
    been read.
    """

    group: str
    pending: int | str | None = None
    reads: bool = False


KEEPING = ("::fill", "::use", "::lastuse")  # what an operation does with a buffer, behind its name
FILL, USE, LAST_USE = KEEPING


@dataclass(frozen=True, slots=True)
class Keeps:
    """The unit keeps what an operation has read of ``operand`` in a buffer, for later operations. modifier: whose word
    says in which, and which of `KEEPING` it is there, ``a::fill``; other words keep nothing.
    """

    operand: str
    modifier: str


Effect = Access | Sync | Fence | ProxyFence | RegisterFence | Signal | Issue | Consults | Commit | Wait | Keeps


# A form: how one shape of an instruction is written, where it exists, what it means, and what it does besides.
#
# How a form is written: a template, with a hole for each modifier, and what the modifiers mean.


Spellings = Mapping[Any, str]  # what a modifier means (a Python value) -> how it is spelled

# Two forms that differ in whether a call gives an operand whose keyword has the default None.
LEFT_OUT: Spellings = {None: ""}
GIVEN: Spellings = {"given": ""}


def spoken(word: str) -> str:
    """A word of PTX as a row's name has it: Python keeps some for itself.

    >>> spoken("or"), spoken("xor")
    ('or_', 'xor')
    """
    return f"{word}_" if iskeyword(word) else word


@dataclass(frozen=True)
class Wording:
    """The words of a form: of `Ptx` or of `Cuda`.

    template: the text, with a ``{hole}`` per modifier. modifiers: for each, what it means -> how it is spelled;
    ``dtype`` is set by the operands of kind "typed".
    """

    template: str
    modifiers: Mapping[str, Spellings] = field(default_factory=dict)


@dataclass(frozen=True)
class Ptx(Wording):
    """A mnemonic of PTX. pattern: instead of the row's, where the operands of this form stand otherwise."""

    pattern: str = ""


@dataclass(frozen=True)
class Cuda(Wording):
    """An expression of C++, with a ``{hole}`` per operand, too.

    helper: C++ functions that the text uses, emitted once; it may be the name of an operand of kind "symbol" that has
    them.
    """

    helper: str = ""


# What a form makes of values: at once, or as an operation that goes on by itself.


RUNS_ON = {
    "": "nothing but its operands",
    "shared": "`Machine.shared`, the shared memory of the CTA",
    "memory": "`Machine.memory`, generic addresses",
    "machine": "the whole `Machine`",
}
"""What `Meaning.on` may be, and what `execute` then gets first."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """The values of ``operand`` with which an instruction ``does`` what leaves its result open; allowed: the others."""

    operand: str
    where: Callable[[Lanes], Lanes]
    does: str
    allowed: str


@dataclass(frozen=True, slots=True, eq=False)
class Unlisted:
    """Values of matrices that leave the result open. where: in which of the first axes; value: the first of them, in
    words; allowed: the others.
    """

    where: Lanes
    value: str
    allowed: str


@dataclass(frozen=True)
class Meaning:
    """What a form does with values, in arrays over the lanes of warps. Without `execute` it copies bytes, or nothing.

    on: a key of `RUNS_ON`. `execute` gets that first, see `tilewright.isa.machine`; then the operands it reads, in the
    order of the row's operands, as arrays (..., 32), vectors as (..., registers, 32); then the modifiers named in
    ``passes`` as keywords. It returns what it writes: the value of the call where there is a result, else the written
    operands, a tuple where there are several; arrays of 1 instead of 32 are equal in all lanes. Where each lane
    computes by itself (`ANY_LANES`) and ``on`` is "", arrays of any shapes that broadcast will do.

    moves: copies bits without looking at them, so that uninitialised bits travel along; with a read and a write access
    and no `execute`, the bytes of the first go to the second. Run on memory and registers whose bytes say 1 for valid
    and 0 for not, `execute` then gives the validity of what it writes; where bits do not stay in bytes of their own,
    `validity` does.
    blind: an operand that the result does not depend on.
    undefined: of a form that only computes, for which values of an operand its result is any.
    unlisted: gets what `execute` gets, returns which of it leaves the result open, or None.
    source_lane: where other lanes' values are read: gets what `execute` gets, returns the lane that each reads.
    ready: where a form may have to wait for others: gets what `execute` gets, returns in which lanes the form may run,
    and reserves for them what they waited for.

    Two faster ways to the same values, by the modifiers. of_lanes: of a form that only computes, each lane for itself,
    `execute` as a function of the operands alone. product: of a form that only multiplies matrices in registers, what
    `tilewright.isa.mma` says of it.
    """

    execute: Callable[..., object] | None = None
    on: str = ""
    passes: tuple[str, ...] = ()
    moves: bool = False
    validity: Callable[..., object] | None = None
    blind: str = ""
    undefined: Undefined | None = None
    unlisted: Callable[..., Unlisted | None] | None = None
    source_lane: Callable[..., Lanes] | None = None
    ready: Callable[..., object] | None = None
    of_lanes: Callable[[Mods], Callable[..., Lanes]] | None = None
    product: Callable[[Mods], MatrixProduct | None] | None = None


@dataclass(frozen=True)
class AsyncMeaning(Meaning):
    """What an operation (`Issue`) does: it computes its addresses when it is issued, and executes when it completes.

    addresses: ``addresses(unit, *operands, **passes)`` gives the `Addresses` of computed and sized accesses by their
    operands' names. At completion `execute` gets what the read accesses found, in their order (uint8, an access's bytes
    along the last axis; cells of tensor memory as uint32), then the operands named in ``takes``, then registers that
    are read and written. It returns what goes to the written accesses, then what goes to the written registers. The
    first axis of all counts issuers: threads, whose operands are (n,) or (n, registers); warps, (n, 32) or (n,
    registers, 32); warpgroups, the same with 128. Without `execute`, the bytes of the one read access go to the one
    written.

    accumulator: of an operation of all lanes that updates one vector, the matrix in that vector and how the operation
    adds to it; None where only `execute` does it.
    joined: of several operations in a row that update the same registers, the sources of one operation that does the
    same, made from the list of their sources and the modifiers in ``passes``; None if there is none.
    """

    addresses: Callable[..., Mapping[str, Addresses]] | None = None
    takes: tuple[str, ...] = ()
    accumulator: Callable[[Mods], Accumulator | None] | None = None
    joined: Callable[..., list[NDArray[Any]] | None] | None = None


NOTHING = Meaning()  # of a form that has effects alone


_E = TypeVar("_E")


def _all(kind: type[_E]) -> cached_property[tuple[_E, ...]]:
    """The effects of one kind that a form declares."""
    return cached_property(lambda form: tuple(effect for effect in form.effects if isinstance(effect, kind)))


def _only(kind: type[_E]) -> cached_property[_E | None]:
    """The one effect of a kind that a form declares, None where it declares none."""
    return cached_property(lambda form: next((effect for effect in form.effects if isinstance(effect, kind)), None))


@dataclass(frozen=True)  # no slots: the cached properties need a dict
class Form:
    """One form of an instruction. Where it only has effects, it has no meaning of its own.

    source: the section of the manual.
    effects: what it does besides computing, see `Effect`.
    registers: length of the vector operand, or of each by name.
    result: the dtype of the call's value, or the operand whose dtype it has, or the modifier that names it, or what
    tells PTX's word for its type from the modifiers.
    """

    wording: Ptx | Cuda
    arch: Requirement
    source: str
    meaning: Meaning = NOTHING
    effects: tuple[Effect, ...] = ()
    registers: Count | Mapping[str, Count] = 1
    result: DType | str | Callable[[Mods], str] = VOID

    touched = _all(Access)
    signals = _all(Signal)
    consults = _all(Consults)
    sync = _only(Sync)
    register_fence = _only(RegisterFence)
    issue = _only(Issue)
    commit = _only(Commit)
    wait = _only(Wait)
    keeps = _only(Keeps)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses whose addresses are operands."""
        return tuple(access for access in self.touched if not access.computed)

    @cached_property
    def fence(self) -> Fence | ProxyFence | None:
        """The fence that the form is, if it is one; `fence_of` has its words."""
        return next((effect for effect in self.effects if isinstance(effect, Fence | ProxyFence)), None)

    def signal_of(self, *kinds: str) -> Signal | None:
        """The first signal of one of these kinds, if the form sends any."""
        return next((signal for signal in self.signals if signal.kind in kinds), None)

    @cached_property
    def begins_operation(self) -> bool:
        """Does something take place after the form was issued: an operation, or the signals of a commit?"""
        return self.issue is not None or (self.commit is not None and bool(self.signals))

    @cached_property
    def async_meaning(self) -> AsyncMeaning:
        """What takes place then; of a form without one the effects say all of it."""
        return self.meaning if isinstance(self.meaning, AsyncMeaning) else AsyncMeaning()

    @cached_property
    def concerns_operations(self) -> bool:
        """Does the form issue operations, commit them or wait for them?"""
        return bool(self.issue or self.commit or self.wait)

    @property
    def is_copy(self) -> bool:
        """Do bytes go as they are from the access that it reads to the one that it writes?"""
        return self.meaning.moves and self.meaning.execute is None

    @cached_property
    def does_more_than_compute(self) -> bool:
        """Does the form run on memory or on the machine, or have effects? The others may be repeated or left out."""
        return bool(self.meaning.on or self.effects)

    def fits(self, mods: Mods) -> bool:
        """True where every modifier has a spelling here."""
        try:
            return all(name in mods and mods[name] in table for name, table in self.wording.modifiers.items())
        except TypeError:  # unhashable, so no modifier
            return False

    def spellings(self, mods: Mods) -> dict[str, str]:
        """How each modifier is spelled."""
        return {name: table[mods[name]] for name, table in self.wording.modifiers.items()}

    def mnemonic(self, mods: Mods) -> str:
        """The opcode with its modifiers, ``ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16``."""
        return self.wording.template.format(**self.spellings(mods))

    def all_mods(self) -> Iterator[dict[str, Argument]]:
        """Every combination of modifiers, for tests and pages that walk the table."""
        combinations: list[dict[str, Argument]] = [{}]
        for name, table in self.wording.modifiers.items():
            combinations = [{**mods, name: value} for mods in combinations for value in table]
        yield from combinations

    def fence_of(self, mods: Mods) -> Fence | ProxyFence | None:
        """The fence that it is with these modifiers: all words are strings."""
        fence = self.fence
        if isinstance(fence, Fence):
            return Fence(worded(fence.sem, mods), worded(fence.scope, mods), fence.only)
        if isinstance(fence, ProxyFence):
            space, side, scope = (worded(word, mods) for word in (fence.space, fence.side, fence.scope))
            return ProxyFence(fence.proxy, space, side, scope, fence.at)
        return None

    def registers_of(self, operand: str, mods: Mods) -> int:
        """The length of the vector ``operand``."""
        counts = self.registers
        return counted(counts.get(operand, 1) if isinstance(counts, Mapping) else counts, mods)
