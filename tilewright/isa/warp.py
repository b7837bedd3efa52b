"""Exchange between the lanes of a warp without memory: shuffles, votes, reductions and the election of one lane, in
CUDA's words and as compilers write them.

The lanes that ``mask`` names must all be there. Sources: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp
Vote Functions"; PTX ISA, "shfl.sync", "vote.sync", "elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import BOOL, dtype
from tilewright.isa.arch import since, suffixed
from tilewright.isa.forms import Cuda, Form, Meaning, Operand, Ptx, Spellings, counts, reads
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.places import constant
from tilewright.isa.scalar.floats import extreme
from tilewright.isa.scalar.rows import flag, predicate_pattern, words
from tilewright.isa.table import ALL_LANES, BY_MASK, REQUIRED, instruction, single

__all__ = [
    "activemask", "all_of", "any_of", "ballot", "elect", "of_lanes", "voters",
]  # fmt: skip


LANE = np.arange(32)
WIDTHS = (1, 2, 4, 8, 16, 32)
SHUFFLE = 'PTX ISA, "Data Movement and Conversion Instructions: shfl.sync"'
VOTE = 'PTX ISA, "Parallel Synchronization and Communication Instructions: vote.sync"'
ELECT = 'PTX ISA, "Parallel Synchronization and Communication Instructions: elect.sync"'

# The C type that carries a dtype through a shuffle: what CUDA has an overload for. Narrow ones travel as an int's bits.
CARRIERS = {
    **{name: dtype(name).cuda for name in ("int32", "uint32", "int64", "uint64", "float32", "float64")},
    **{name: dtype(name).cuda for name in ("bool", "int8", "int16", "uint8", "uint16")},
    **{name: dtype(name).storage for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "handle")},
}


def _reached(b: Lanes, c: Lanes, mode: str) -> tuple[Lanes, Lanes]:
    """The lane that each lane reads from, and whether that is inside of its segment; else its own."""
    by, low, high = (register.astype(np.int64) for register in (b & 31, c & 31, c >> 8 & 31))
    last, first = (LANE & high) | (low & ~high), LANE & high
    source = {"up": LANE - by, "down": LANE + by, "bfly": LANE ^ by, "idx": first | (by & ~high)}[mode]
    inside = source >= last if mode == "up" else source <= last
    return np.where(inside, source, LANE), inside


def of_lanes(value: Lanes, origin: Lanes) -> Lanes:
    """For each lane the value of the lane ``origin``."""
    value = np.broadcast_to(value, (*value.shape[:-1], 32))
    if origin.size == 32:  # the same in every warp
        return value.take(origin.reshape(32), axis=-1)
    shape = np.broadcast_shapes(value.shape, origin.shape)
    return np.take_along_axis(np.broadcast_to(value, shape), np.broadcast_to(origin, shape), axis=-1)


def _segments(width: Lanes, mode: str) -> Lanes:
    """The register with the segments of ``width`` lanes and where they end, as CUDA's functions make it."""
    return (32 - width.astype(np.int64) << 8) | (0 if mode == "up" else 31)


def _shuffle_row(name: str, lane: str, mode: str, doc: str) -> None:
    def origin(mask: Lanes, value: Lanes, lane: Lanes, width: Lanes) -> Lanes:
        return _reached(lane, _segments(width, mode), mode)[0]

    single(
        f"cuda.{name}",
        Cuda(f"({{dtype}})__{name}({{mask}}, {{value}}, {{{lane}}}, {{width}})", {"dtype": CARRIERS}),
        since("sm_75"),
        SHUFFLE,
        Meaning(
            lambda mask, value, *where: of_lanes(value, origin(mask, value, *where)), moves=True, source_lane=origin
        ),
        keywords={"width": 32},
        operands=(counts("mask"), reads("value", "typed"), counts(lane), counts("width")),
        check=constant(
            "width", WIDTHS.__contains__, ", ".join(map(str, WIDTHS)), what="width of a segment", pattern="{} lanes"
        ),
        lanes=BY_MASK,
        doc=doc,
        result="value",
    )


_shuffle_row("shfl_sync", "lane", "idx", "The value of lane ``lane`` of the caller's segment of ``width`` lanes.")
_shuffle_row("shfl_down_sync", "delta", "down", "The value ``delta`` lanes above; one's own past the segment.")
_shuffle_row("shfl_up_sync", "delta", "up", "The value ``delta`` lanes below; one's own before the segment.")
_shuffle_row("shfl_xor_sync", "lane_mask", "bfly", "The value of the lane whose number differs in these bits.")


def voters(machine: Machine, mask: Lanes) -> NDArray[np.bool_]:
    """The lanes that take part: those that ``mask`` names."""
    votes: NDArray[np.bool_] = machine.active & ((mask.astype(np.int64) >> LANE & 1) != 0)
    return votes


def _bits(lanes: NDArray[np.bool_]) -> Lanes:
    """One bit per lane: (..., 32) bools as (..., 1) uint32."""
    return np.packbits(lanes, axis=-1, bitorder="little").view("<u4")


def ballot(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """Bit ``l`` is set where lane ``l`` takes part and its condition holds."""
    return _bits(cond & voters(machine, mask))


def any_of(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """True where the condition holds in a lane that takes part."""
    return np.logical_or.reduce(cond & voters(machine, mask), axis=-1, keepdims=True)


def all_of(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """True where the condition holds in all lanes that take part."""
    return np.logical_and.reduce(cond | ~voters(machine, mask), axis=-1, keepdims=True)


def activemask(machine: Machine) -> Lanes:
    """Bit ``l`` is set where lane ``l`` executes this together with the caller."""
    return _bits(machine.active)


def elect(machine: Machine, mask: Lanes) -> Lanes:
    """True in one lane: the lowest that takes part (the manual leaves open which, but it is always the same)."""
    there = voters(machine, mask)
    first: Lanes = there.argmax(-1)[..., None] == LANE
    return first & there


def _vote_row(name: str, execute: Callable[[Machine, Lanes, Lanes], Lanes], result: str, doc: str) -> None:
    single(
        f"cuda.{name}",
        Cuda(f"__{name}({{mask}}, {{cond}})"),
        since("sm_75"),
        VOTE,
        Meaning(execute, on="machine"),
        operands=(counts("mask"), reads("cond", "pred")),
        lanes=BY_MASK,
        doc=doc,
        result=dtype(result),
    )


_vote_row("ballot_sync", ballot, "uint32", "One bit per lane of ``mask``: whether ``cond`` holds there.")
_vote_row("any_sync", any_of, "bool", "Whether ``cond`` holds in some lane of ``mask``.")
_vote_row("all_sync", all_of, "bool", "Whether ``cond`` holds in every lane of ``mask``.")

single(
    "cuda.activemask",
    Cuda("__activemask()"),
    since("sm_75"),
    'PTX ISA, "Parallel Synchronization and Communication Instructions: activemask"',
    Meaning(activemask, on="machine"),
    doc="One bit per lane of the warp that executes this together with the caller.",
    result=dtype("uint32"),
)

# redux.sync: one instruction joins a 32-bit integer of every lane of a warp.
#
# Source: CUDA C++ Programming Guide, "Warp Reduce Functions".

NUMBERS = {"int32": "int", "uint32": "unsigned int"}


class Join(NamedTuple):
    """How values of lanes are joined. nothing: the number of a dtype that changes no other."""

    join: np.ufunc
    nothing: Callable[[np.dtype[Any]], int]
    doc: str


def _zero(kind: np.dtype[Any]) -> int:
    return 0


JOINS = {
    "add": Join(np.add, _zero, "The sum, modulo 2^32, over the lanes of ``mask``."),
    "min": Join(np.minimum, lambda kind: int(np.iinfo(kind).max), "The smallest of the lanes of ``mask``."),
    "max": Join(np.maximum, lambda kind: int(np.iinfo(kind).min), "The largest of the lanes of ``mask``."),
    "and": Join(np.bitwise_and, lambda kind: int(~kind.type(0)), "The bits that all lanes of ``mask`` have."),
    "or": Join(np.bitwise_or, _zero, "The bits that some lane of ``mask`` has."),
    "xor": Join(np.bitwise_xor, _zero, "The bits that an odd number of lanes of ``mask`` have."),
}


def reduced_by(name: str) -> Callable[[Machine, Lanes, Lanes], Lanes]:
    """The values of all lanes that ``mask`` names, joined; each of these lanes gets the result."""
    join, nothing, _ = JOINS[name]

    def execute(machine: Machine, mask: Lanes, value: Lanes) -> Lanes:
        votes = np.where(voters(machine, mask), value, value.dtype.type(nothing(value.dtype)))
        with np.errstate(over="ignore"):
            total: Lanes = join.reduce(votes, axis=-1, keepdims=True, dtype=value.dtype)
        return np.broadcast_to(total, votes.shape)

    return execute


for _name, _join in JOINS.items():
    single(
        f"cuda.reduce_{_name}_sync",
        Cuda(f"({{dtype}})__reduce_{_name}_sync({{mask}}, {{value}})", {"dtype": NUMBERS}),
        since("sm_80"),
        'CUDA C++ Programming Guide, "Warp Reduce Functions"',
        Meaning(reduced_by(_name), on="machine"),
        operands=(counts("mask"), reads("value", "typed")),
        lanes=BY_MASK,
        doc=_join.doc,
        result="value",
    )


# Exchange as compilers write it: shfl, vote, match, redux, activemask, elect.
#
# The lanes that ``mask`` names must all be there. What they mean is what CUDA's functions above mean;
# a shuffle has its segments and its end in one register, and returns whether it stayed inside. Source: PTX ISA,
# "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync".


MOVING = "Data Movement and Conversion Instructions"
PARALLEL = "Parallel Synchronization and Communication Instructions"
UINT32 = dtype("uint32")
WORDS: Spellings = dict.fromkeys(("uint32", "int32", "float32"), "")
MODES = words("up", "down", "bfly", "idx")


def _second(listed: str) -> str:
    """The text of a call whose value is the predicate that the instruction writes beside a number."""
    call = f"{{mnemonic}} t_|d_, {listed}; selp.b32 {{result}}, 1, 0, d_;"
    return f"{{{{ .reg .pred d_; .reg .b32 t_; {call} }}}}"


def _shuffle_form(mode: str, out: str) -> Form:
    """The value of the lane, or whether it is inside of the segment, for which ``a`` need not be known."""

    def origin(a: Lanes, b: Lanes, c: Lanes, mask: Lanes) -> Lanes:
        return _reached(b, c, mode)[0]

    value = Meaning(lambda a, *where: of_lanes(a, origin(a, *where)), moves=True, source_lane=origin)
    inside = Meaning(lambda a, b, c, mask: _reached(b, c, mode)[1], blind="a")
    listed = "{a}, {b}, {c}, {mask}"
    return Form(
        Ptx(
            "shfl.sync{mode}.b32",
            {"mode": {mode: f".{mode}"}, "dtype": WORDS, "out": {out: ""}},
            pattern=f"{{result}}, {listed}" if out == "d" else _second(listed),
        ),
        since("sm_75"),
        f'PTX ISA, "{MOVING}: shfl.sync"',
        value if out == "d" else inside,
        result="a" if out == "d" else BOOL,
    )


instruction(
    "ptx.shfl.sync",
    keywords={"mode": REQUIRED, "out": "d"},
    operands=(reads("a", "typed"), counts("b"), counts("c"), counts("mask")),
    lanes=BY_MASK,
    written=True,
    doc="The value of another lane; c: the end (bits 0 to 4) and segments (8 to 12); ``out='p'``: whether inside.",
    forms=tuple(_shuffle_form(mode, out) for out in "dp" for mode in MODES),
)


def _same(machine: Machine, mask: Lanes, cond: Lanes) -> Lanes:
    """True where the condition is the same in all lanes that take part."""
    return all_of(machine, mask, cond) | all_of(machine, mask, ~cond)


VOTES: dict[str, Callable[[Machine, Lanes, Lanes], Lanes]] = {
    "all": all_of,
    "any": any_of,
    "uni": _same,
    "ballot": ballot,
}


def _vote(mode: str) -> Form:
    meaning = VOTES[mode]
    is_ballot = mode == "ballot"
    return Form(
        Ptx(
            f"vote.sync{{mode}}.{'b32' if is_ballot else 'pred'}",
            {"mode": {mode: f".{mode}"}},
            pattern=predicate_pattern("{result}" if is_ballot else "d_", "p_a, {mask}"),
        ),
        since("sm_75"),
        f'PTX ISA, "{PARALLEL}: vote.sync"',
        Meaning(lambda machine, a, mask: meaning(machine, mask, a), on="machine"),
        result=UINT32 if is_ballot else BOOL,
    )


instruction(
    "ptx.vote.sync",
    keywords={"mode": REQUIRED},
    operands=(reads("a", "pred"), counts("mask")),
    lanes=BY_MASK,
    written=True,
    doc="Whether a condition holds in all lanes of the mask, in any, alike in all; or a bit for each (ballot).",
    forms=tuple(map(_vote, VOTES)),
)


def matched(machine: Machine, a: Lanes, mask: Lanes) -> Lanes:
    """The lanes that take part and have the same value."""
    there = voters(machine, mask)
    a = np.broadcast_to(a, there.shape)
    same = (a[..., :, None] == a[..., None, :]) & there[..., None, :]
    masks: Lanes = np.packbits(same, axis=-1, bitorder="little").view("<u4")[..., 0]
    return masks


def _all_match(machine: Machine, a: Lanes, mask: Lanes) -> Lanes:
    alike: Lanes = matched(machine, a, mask) == ballot(machine, mask, machine.active)
    return alike


def match_of_all(machine: Machine, a: Lanes, mask: Lanes) -> Lanes:
    """The mask where all lanes have one value, else 0."""
    return np.where(_all_match(machine, a, mask), mask.astype(np.uint32), np.uint32(0))


def _match(text: str, kind: str, out: str | None) -> Form:
    mode = text.split(".")[1]
    meaning = {None: matched, "d": match_of_all, "p": _all_match}[out if mode == "all" else None]
    result = BOOL if out == "p" and mode == "all" else UINT32
    pattern = "{result}, {a}, {mask}"
    if result == BOOL:
        pattern = _second("{a}, {mask}")
    elif mode == "all":
        pattern = "{{ .reg .pred p_; {mnemonic} {result}|p_, {a}, {mask}; }}"
    return Form(
        Ptx(f"{text}{{type}}", {"type": words(kind), "mode": {mode: ""}, "out": {out or "d": ""}}, pattern=pattern),
        since("sm_75"),
        f'PTX ISA, "{PARALLEL}: match.sync"',
        Meaning(meaning, on="machine"),
        result=result,
    )


instruction(
    "ptx.match.sync",
    keywords={"mode": REQUIRED, "type": "b32", "out": "d"},
    operands=(Operand("a", "bits", of="type"), counts("mask")),
    lanes=BY_MASK,
    written=True,
    doc="The lanes of the mask with the same value (any); the mask where all have one, ``out='p'``: whether (all).",
    forms=tuple(
        _match(f"match.{mode}.sync", kind, out)
        for mode, outs in (("any", ("d",)), ("all", ("d", "p")))
        for out in outs
        for kind in ("b32", "b64")
    ),
)


def _redux(op: str, types: dict[str, str]) -> Form:
    reduce = reduced_by(op)
    return Form(
        Ptx(
            "redux.sync{op}{dtype}",
            {"op": {op: f".{op}"}, "dtype": types, "nan": {False: ""}, "magnitude": {False: ""}},
        ),
        since("sm_80"),
        f'PTX ISA, "{PARALLEL}: redux.sync"',
        Meaning(lambda machine, a, mask: reduce(machine, mask, a), on="machine"),
        result="a",
    )


def _float_redux(machine: Machine, a: Lanes, mask: Lanes, *, op: str, nan: bool, magnitude: bool) -> Lanes:
    """The smallest or largest float of the lanes that take part."""
    there = voters(machine, mask)
    values = np.broadcast_to(np.abs(a) if magnitude else a, there.shape)
    joined = extreme(op)(nan=nan)
    nothing = np.float32(np.inf if op == "min" else -np.inf) if nan else np.float32(np.nan)
    totals = np.where(there, values, nothing)
    while totals.shape[-1] > 1:
        half = totals.shape[-1] // 2
        totals = joined(totals[..., :half], totals[..., half:])
    return np.broadcast_to(totals, there.shape)


instruction(
    "ptx.redux.sync",
    keywords={"op": REQUIRED, "nan": False, "magnitude": False},
    operands=(reads("a", "typed"), counts("mask")),
    lanes=BY_MASK,
    written=True,
    doc="What the values of the lanes of the mask come to.",
    forms=(
        *(_redux(op, {"uint32": ".u32", "int32": ".s32"}) for op in ("add", "min", "max")),
        *(_redux(op, {"uint32": ".b32", "int32": ".b32"}) for op in ("and", "or", "xor")),
        Form(
            Ptx(
                "redux.sync{op}{magnitude}{nan}{dtype}",
                {"op": words("min", "max"), "dtype": {"float32": ".f32"}, "nan": flag("NaN"), "magnitude": flag("abs")},
            ),
            suffixed(100, 103),
            f'PTX ISA, "{PARALLEL}: redux.sync"',
            Meaning(_float_redux, on="machine", passes=("op", "nan", "magnitude")),
            result="a",
        ),
    ),
)
single(
    "ptx.activemask",
    Ptx("activemask.b32"),
    since("sm_75"),
    f'PTX ISA, "{PARALLEL}: activemask"',
    Meaning(activemask, on="machine"),
    written=True,
    doc="One bit per lane of the warp that executes this together with the caller.",
    result=UINT32,
)


def _elected(machine: Machine, mask: Lanes) -> Lanes:
    """The lane that is elected, in all lanes."""
    lane: Lanes = elect(machine, mask).argmax(-1)[..., None].astype(np.uint32)
    return lane


instruction(
    "ptx.elect.sync",
    keywords={"mask": ALL_LANES, "out": "d"},
    operands=(counts("mask"),),
    lanes=BY_MASK,
    written=True,
    doc="One lane of the mask, always the same one; ``out='p'``: whether it is the caller.",
    forms=tuple(
        Form(
            Ptx("elect.sync", {"out": {out: ""}}, pattern=pattern),
            since("sm_90"),
            f'PTX ISA, "{PARALLEL}: elect.sync"',
            Meaning(meaning, on="machine"),
            result=result,
        )
        for out, meaning, result, pattern in (
            ("d", _elected, UINT32, "{{ .reg .pred p_; {mnemonic} {result}|p_, {mask}; }}"),
            ("p", elect, BOOL, "{{ .reg .pred one; {mnemonic} _|one, {mask}; selp.b32 {result}, 1, 0, one; }}"),
        )
    ),
)
single(
    "ptx.nanosleep",
    Ptx("nanosleep.u32"),
    since("sm_75"),
    'PTX ISA, "Miscellaneous Instructions: nanosleep"',
    Meaning(lambda ns: None),
    operands=(counts("ns"),),
    written=True,
    doc="The thread rests for about ``ns`` nanoseconds.",
)
