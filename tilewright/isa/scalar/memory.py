"""mov and cvta, from register to register and from window to window; ld and st: one access of memory, weak as a plain
load or store, or strong, with which threads may synchronise; copy_bytes.

A strong access names its scope: the threads whose strong accesses of the same bytes are atomic with it. ``release``
publishes what the thread has done before, ``acquire`` takes over what the writer of the value released, ``relaxed``
does neither. ``volatile`` and ``mmio`` are relaxed at system scope. Cache operators and priorities have no effect on
values, and a prefetch has none at all. No thread may write what ``nc`` reads while the kernel runs. Source: PTX ISA,
"Data Movement and Conversion Instructions: ld, ld.global.nc, ldu, st, prefetch" and "Memory Consistency Model".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.forms import (
    GIVEN,
    LEFT_OUT,
    TYPES,
    Access,
    Cuda,
    Form,
    Meaning,
    Mods,
    Numbers,
    Operand,
    Ptx,
    Spellings,
    reads,
    value_dtype,
    writes,
)
from tilewright.isa.machine import Lanes, Machine, Memory
from tilewright.isa.places import (
    NO_SCOPE,
    SCOPES,
    SHARED,
    Scopes,
    SpaceReach,
    check_place,
    everywhere,
    newer,
    scope_of,
    sem_of,
)
from tilewright.isa.scalar.rows import FLAG, maybe, registers, scalar, words
from tilewright.isa.table import REQUIRED, instruction, single

# mov, cvta, isspacep: bits from register to register, and addresses from window to window.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: mov, cvta, isspacep".

CHAPTER = "Data Movement and Conversion Instructions"
MOVED = words("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def _moved(**_: object) -> Callable[[Numbers], Numbers]:
    return lambda a: a


scalar(
    "mov",
    "a",
    ("mov{type}", {"type": MOVED}, _moved),
    ("mov{type}", {"type": words("pred")}, _moved),
    doc="The bits of a.",
    chapter=CHAPTER,
)
PARTS = {"pack2": {"b32": "b16", "b64": "b32"}, "pack4": {"b32": "b8", "b64": "b16"}}
"""The type of each part by that of the whole."""


def _joined(*, type: str, **_: object) -> Callable[..., Numbers]:
    """Registers side by side, the first in the low bits."""
    kind = TYPES[type].unsigned.type

    def execute(*parts: Numbers) -> Numbers:
        width = TYPES[type].bits // len(parts)
        total = parts[0].astype(kind)
        for place, part in enumerate(parts[1:], 1):
            total = total | part.astype(kind) << kind(width * place)
        return total

    return execute


def _part(*, type: str, out: int, inner: str, **_: object) -> Callable[[Numbers], Numbers]:
    """One of the equal parts of a register; part 0 is in its low bits."""
    kind, width = TYPES[type].unsigned.type, TYPES[inner].bits
    return lambda a: (a >> kind(width * out)).astype(TYPES[inner].unsigned)


def pack_text(part: str, names: str) -> str:
    """Inline assembly has no registers of 8 bits: the text makes its own."""
    listed = ", ".join(f"{{{name}}}" if part != "b8" else f"b_{name}" for name in names)
    if part != "b8":
        return f"{{result}}, {{{{{listed}}}}}"
    text = " ".join(f"cvt.u8.u16 b_{name}, {{{name}}};" for name in names)
    return f"{{{{ .reg .b8 {listed}; {text} {{mnemonic}} {{result}}, {{{{{listed}}}}}; }}}}"


def unpack_text(part: str, places: list[str]) -> str:
    """The text of a call that keeps one part of a register."""
    listed = f"{{{{{', '.join(places)}}}}}, {{a}}"
    if part != "b8":
        return listed
    return f"{{{{ .reg .b8 d_; {{mnemonic}} {listed}; cvt.u16.u8 {{result}}, d_; }}}}"


def _rows_of_parts(name: str, parts: dict[str, str]) -> None:
    count = int(name[-1])
    names = "abcd"[:count]

    def inner(mods: Mods) -> str:
        return parts[str(mods["type"])]

    scalar(
        f"mov.{name}",
        tuple(Operand(name, "bits", of=inner) for name in names),
        *(
            ("mov{type}", {"type": words(whole)}, _joined, "sm_75", pack_text(part, names))
            for whole, part in parts.items()
        ),
        doc=f"{count} registers side by side in one, the first in its low bits.",
        chapter=CHAPTER,
    )
    shapes = []
    for whole, part in parts.items():
        for out in range(count):
            places = ["_"] * count
            places[out] = "{result}" if part != "b8" else "d_"
            table = {"type": words(whole), "out": {out: ""}, "inner": {part: ""}}
            shapes.append(("mov{type}", table, _part, "sm_75", unpack_text(part, places)))
    scalar(
        f"mov.un{name}",
        registers("a"),
        *shapes,
        doc=f"One of the {count} equal parts of a register; part 0 is in its low bits.",
        chapter=CHAPTER,
        result=lambda mods: str(mods["inner"]),
    )


for _name, _parts in PARTS.items():
    _rows_of_parts(_name, _parts)

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'
CACHES = ("c[agsv]", "lu", "w[bt]", r"L[12]::\w+", "unified", "weak")
"""Words about caches, and words for a weak access, which have no effect."""

KINDS = [f"{letter}{bits}" for bits in (8, 16, 32, 64) for letter in "bus"] + ["f32", "f64"]
PAIRS = [name for name in KINDS if name[1:] == "64"]
ONE: Spellings = {1: ""}
WEAK: Spellings = {"weak": ""}
VOLATILE: Spellings = {"volatile": ".volatile"}
ANYWHERE = SpaceReach(maybe("global"), "generic", "memory")
OWN: dict[str, Spellings] = {"ld": words("local", "const", "param"), "st": words("local", "param")}


def nbytes(mods: Mods) -> int:
    """Bytes of an access, of its whole vector."""
    return TYPES[str(mods["type"])].bits // 8 * int(str(mods["vec"]))


def element_bytes(mods: Mods) -> int:
    """Bytes of each register of a vector."""
    return TYPES[str(mods["type"])].bits // 8


def value_word(mods: Mods) -> str:
    """PTX's word for the type of a value, also of a vector."""
    return str(mods["type"]) if mods["vec"] == 1 else f"{mods['type']}:{mods['vec']}"


def load(memory: Memory, address: Lanes, *, type: str, vec: int = 1) -> Lanes:
    """The element at each address, or the vector, whose elements lie along the last axis."""
    kind = value_dtype(f"{type}:{vec}")
    values = memory.rows(address, kind.bits // 8).view(kind.numpy)
    return values[..., 0] if kind.lanes == 1 else values


def store(memory: Memory, address: Lanes, value: Lanes, *, type: str = "") -> None:
    """Writes the element at each address, of the value's own type or of ``type``."""
    values = np.broadcast_to(value, np.broadcast_shapes(value.shape, address.shape))
    bits = values.astype(TYPES[type].unsigned) if type else values
    memory.store_rows(address, np.ascontiguousarray(bits)[..., None].view(np.uint8))


def store_vector(memory: Memory, address: Lanes, registers: Lanes, *, type: str = "b64") -> None:
    """Writes the registers one behind the other."""
    words = np.ascontiguousarray(np.moveaxis(registers.astype(TYPES[type].unsigned), -2, -1))
    memory.store_rows(address, words.view(np.uint8))


def load_wide(memory: Memory, address: Lanes) -> Lanes:
    """16 bytes from each address on, the low half in the first of two registers."""
    return np.moveaxis(memory.rows(address, 16).view(np.uint64), -1, -2)


def _orders(name: str, ordered: str) -> Iterator[tuple[Spellings, SpaceReach, Scopes]]:
    """Every way to access memory: the modifier ``sem``, the memory and the scopes."""
    strong: Spellings = {"relaxed": ".relaxed", ordered: f".{ordered}"}
    yield WEAK, SpaceReach(OWN[name], "generic", "memory"), NO_SCOPE[0]
    for sems, scopes in ((WEAK, NO_SCOPE), (VOLATILE, NO_SCOPE), (strong, SCOPES)):
        yield from ((sems, space, scope) for space, scope in everywhere(scopes, (ANYWHERE, *SHARED)))
    yield {"mmio": ".mmio.relaxed.sys"}, ANYWHERE, NO_SCOPE[0]


def _vectors(sems: Spellings, spaces: Spellings) -> Iterator[tuple[Spellings, Spellings, str]]:
    """Lengths, with the types that go at each, and since when."""
    yield ONE, words(*KINDS), "sm_75"
    if "mmio" in sems:
        return
    yield {2: ".v2"}, words(*KINDS), "sm_75"
    yield {4: ".v4"}, words(*(name for name in KINDS if name not in PAIRS)), "sm_75"
    if None in spaces:
        yield {4: ".v4"}, words(*PAIRS), "sm_100"
        yield {8: ".v8"}, words(*(name for name in KINDS if name[1:] == "32")), "sm_100"


def _one_of(vec: Spellings, make: Callable[..., Mapping[str, Any]]) -> bool:
    """Does this row have vectors of this length? Stores of one register and of several are two rows."""
    return make is _loading or (1 in vec) == (make is _storing)


def _forms(name: str, ordered: str, make: Callable[..., Mapping[str, Any]]) -> Iterator[Form]:
    for sems, (spaces, space, on, first), (scopes, newest) in _orders(name, ordered):
        for vec, types, since_when in _vectors(sems, spaces):
            if not _one_of(vec, make):
                continue
            constant = name == "ld" and "weak" in sems and space == "generic"
            yield Form(
                Ptx(
                    f"{name}{{sem}}{{scope}}{{space}}{'{nc}' if constant else ''}{{vec}}{{type}}",
                    {
                        "type": types,
                        "vec": vec,
                        "space": spaces,
                        "sem": sems,
                        "scope": scopes,
                        **({"nc": FLAG} if name == "ld" else {}),
                    },
                ),
                newer(first, newest, since_when),
                SOURCE.format(name),
                effects=(_access(space, write=name == "st"),),
                **make(vec, on),
            )


def _access(space: str, *, write: bool) -> Access:
    return Access("ptr", space, nbytes, write=write, sem=sem_of, scope=scope_of, element_bytes=element_bytes)


def _loading(vec: Spellings, on: str) -> Mapping[str, Any]:
    return {"meaning": Meaning(load, on, ("type", "vec"), moves=1 in vec), "result": value_word}


def _storing(vec: Spellings, on: str) -> Mapping[str, Any]:
    return {"meaning": Meaning(store, on, ("type",))}


def _storing_vectors(vec: Spellings, on: str) -> Mapping[str, Any]:
    (lanes,) = vec
    return {"meaning": Meaning(store_vector, on, ("type",)), "registers": lanes}


ORDERED = {"sem": "weak", "scope": None, "space": None, "type": None, "vec": 1}
CONSTANT = tuple(
    Form(
        Ptx(
            f"{text}{{vec}}{{type}}",
            {
                "type": types,
                "vec": vec,
                "space": {"global": ""},
                "sem": {"weak": ""},
                "scope": {None: ""},
                "nc": {True: ""},
            },
        ),
        since("sm_75"),
        SOURCE.format(text),
        effects=(Access("ptr", "global", nbytes, write=False, element_bytes=element_bytes, constant=True),),
        **_loading(vec, "memory"),
    )
    for text in ("ld.global.nc", "ldu.global")
    for vec, types, _ in _vectors(WEAK, {})
)

instruction(
    "ptx.ld",
    keywords={**ORDERED, "nc": False},
    operands=(reads("ptr", "place"),),
    check=check_place,
    doc="The element that ``ptr`` points to, of its buffer's dtype or of ``type``, or a vector of some; strong unless "
    "``sem`` is weak; with ``nc`` nobody writes it meanwhile.",
    forms=(*_forms("ld", "acquire", _loading), *CONSTANT[:3]),
    hints=CACHES,
    written=True,
)
instruction(
    "ptx.ldu",
    keywords={**ORDERED, "space": "global", "nc": True},
    operands=(reads("ptr", "place"),),
    doc="A register, or a vector of some, from an address that all lanes share, and that nobody writes meanwhile.",
    forms=CONSTANT[3:],
    hints=CACHES,
    written=True,
)
instruction(
    "ptx.st",
    keywords=ORDERED,
    operands=(reads("ptr", "place"), Operand("value", "bits", of="type")),
    check=check_place,
    doc="Stores ``value`` where ``ptr`` points, of the buffer's dtype or of ``type``; strong unless ``sem`` is weak.",
    forms=tuple(_forms("st", "release", _storing)),
    hints=CACHES,
    written=True,
)
instruction(
    "ptx.st.vec",
    keywords={**ORDERED, "type": REQUIRED, "vec": REQUIRED},
    operands=(reads("ptr", "place"), Operand("value", "bits", of="type", many=True)),
    check=check_place,
    doc="Several registers to where ``ptr`` points; each is an access of its own.",
    forms=tuple(_forms("st", "release", _storing_vectors)),
    hints=CACHES,
    written=True,
)


def _wide(name: str, ordered: str, meaning: Meaning) -> Iterator[Form]:
    """An element of 128 bits, of each memory, order and scope."""
    for sems, (spaces, space, on, first), (scopes, newest) in _orders(name, ordered):
        if spaces is not OWN[name]:
            yield Form(
                Ptx(f"{name}{{sem}}{{scope}}{{space}}.b128", {"sem": sems, "scope": scopes, "space": spaces}),
                newer(first, newest),
                SOURCE.format(name),
                replace(meaning, on=on),
                effects=(Access("ptr", space, 16, write=name == "st", sem=sem_of, scope=scope_of),),
                registers=2,
            )


WIDE = "{{{{ .reg .b128 q; {} }}}}"
PLACED = {key: ORDERED[key] for key in ("sem", "scope", "space")}
instruction(
    "ptx.ld.b128",
    params=("ptr", "*r"),
    keywords=PLACED,
    operands=(writes("*r", "b64"), reads("ptr", "place")),
    pattern=WIDE.format("{mnemonic} q, [{ptr}]; mov.b128 {r}, q;"),
    check=check_place,
    doc="One element of 128 bits from where ``ptr`` points, the low half in the first of two registers.",
    forms=tuple(_wide("ld", "acquire", Meaning(load_wide))),
    hints=CACHES,
)
instruction(
    "ptx.st.b128",
    keywords=PLACED,
    operands=(reads("ptr", "place"), reads("*r", "b64")),
    pattern=WIDE.format("mov.b128 q, {r}; {mnemonic} [{ptr}], q;"),
    check=check_place,
    doc="One element of 128 bits to where ``ptr`` points, the low half in the first of two registers.",
    forms=tuple(_wide("st", "release", Meaning(store_vector))),
    hints=CACHES,
)
for _text, _kind, _table in (
    ("prefetch", "place", {"level": words("L1", "L2"), "space": maybe("global", "local")}),
    ("prefetchu", "generic", {"level": words("L1")}),
):
    single(
        f"ptx.{_text}",
        Ptx(f"{_text}{'{space}' if _kind == 'place' else ''}{{level}}", _table),
        since("sm_75"),
        SOURCE.format("prefetch, prefetchu"),
        Meaning(lambda address: None),
        keywords={"level": REQUIRED, **({"space": None} if _kind == "place" else {})},
        operands=(reads("ptr", _kind),),
        doc="A line of a cache is asked for; nothing else happens.",
        hints=("L2::.*",),
        written=True,
    )
single(
    "ptx.createpolicy",
    Ptx(
        "createpolicy.fractional{level}{other}.b64",
        {
            "level": words("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"),
            "other": maybe("L2::evict_first", "L2::evict_unchanged"),
            "fraction": {**LEFT_OUT, **GIVEN},
        },
    ),
    since("sm_80"),
    SOURCE.format("createpolicy"),
    Meaning(lambda *fraction: np.zeros((1, 1, 1), np.uint64)),
    params=("level",),
    keywords={"other": None, "fraction": None},
    operands=(reads("fraction", "note"),),
    doc="How caches are to treat an access, which means nothing to what it does.",
    written=True,
    result=value_dtype("b64"),
)


# copy_bytes: one thread moves 1 to 32 bytes with one access on either side.
#
# The width of the type that is read and written decides the machine instruction: 16 bytes become one ``LDG.128``, one
# ``LDS.128`` or four registers, depending on what the pointers point into. Source: CUDA C++ Programming Guide, "Device
# Memory Accesses" (size and alignment requirement).


SIZES = 'CUDA C++ Programming Guide, "Size and Alignment Requirement"'
WIDTHS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
COPY = "*({nbytes}*)({dst}) = *(const {nbytes}*)({src})"


def _copied(mods: Mods) -> int:
    return int(mods["nbytes"])  # type: ignore[arg-type]  # a key of the modifier's table


ACCESSES = (Access("src", "generic", _copied, write=False), Access("dst", "generic", _copied, write=True))

instruction(
    "cuda.copy_bytes",
    params=("dst", "src", "nbytes"),
    operands=(reads("dst", "generic"), reads("src", "generic")),
    doc="A thread copies ``nbytes`` bytes from ``src`` to ``dst``, both aligned to their number, with one access each.",
    forms=(
        Form(Cuda(COPY, {"nbytes": WIDTHS}), since("sm_75"), SIZES, Meaning(moves=True), effects=(*ACCESSES,)),
        Form(
            Cuda(COPY, {"nbytes": {32: "ulonglong4_32a"}}),
            since("sm_100"),
            'PTX ISA, "Data Movement and Conversion Instructions: ld" (256-bit accesses of global memory)',
            Meaning(moves=True),
            effects=(*ACCESSES,),
        ),
    ),
)

# Three ways from a pointer to a shared address, with the same result: the offset in the CTA's shared window.
#
# Memory is one generic address space with windows in it; an instruction with ``.shared`` wants the place inside the
# window. In a cluster the upper bits of that place are the rank of the CTA, also for the thread's own CTA: code that
# builds a matrix descriptor from such an address has to mask them out. Seen on an H200.
#
# Sources: CUDA C++ Programming Guide, "Address Space Conversion Functions"; PTX ISA, "Data Movement and Conversion
# Instructions: cvta".

GUIDE = 'CUDA C++ Programming Guide, "Address Space Conversion Functions"'
CVTA = 'PTX ISA, "Data Movement and Conversion Instructions: cvta"'


def to_shared_64(machine: Machine, address: Lanes) -> Lanes:
    """The offset in the shared window as a 64-bit number."""
    return machine.with_rank(machine.to_shared(address)).astype("uint64")


def to_shared_32(machine: Machine, address: Lanes) -> Lanes:
    """The offset in the shared window; its upper 32 bits are zero, so that nothing is lost."""
    return machine.with_rank(machine.to_shared(address)).astype("uint32")


single(
    "cuda.cvta_generic_to_shared",
    Cuda("__cvta_generic_to_shared((const void*)({ptr}))"),
    since("sm_75"),
    GUIDE,
    Meaning(to_shared_64, on="machine"),
    operands=(reads("ptr", "generic"),),
    doc="The shared address of a pointer, as CUDA's ``size_t``.",
    result=dtype("uint64"),
)
single(
    "ptx.cvta.to.shared.u64",
    Ptx("cvta.to.shared.u64"),
    since("sm_75"),
    CVTA,
    Meaning(to_shared_64, on="machine"),
    operands=(reads("ptr", "generic"),),
    pattern="{result}, {ptr}",
    doc="The shared address of a pointer, 64 bits wide.",
    result=dtype("uint64"),
)
single(
    "cuda.cast_smem_ptr_to_uint",
    Ptx("cvta.to.shared.u64"),
    since("sm_75"),
    CVTA,
    Meaning(to_shared_32, on="machine"),
    operands=(reads("ptr", "generic"),),
    pattern="{{ .reg .u64 wide; {mnemonic} wide, {ptr}; cvt.u32.u64 {result}, wide; }}",
    doc="The shared address of a pointer, narrowed to the 32 bits that the instructions on shared memory take.",
    result=dtype("uint32"),
)
