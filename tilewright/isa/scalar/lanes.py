"""Exchange between the lanes of a warp, as compilers write it: shfl, vote, match, redux, activemask, elect.

The lanes that ``mask`` names must all be there. What they mean is what CUDA's functions mean, `tilewright.isa.warp`; a
shuffle has its segments and its end in one register, and returns whether it stayed inside. Source: PTX ISA,
"shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import BOOL, dtype
from tilewright.isa.arch import since, suffixed
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.scalar.floats import extreme
from tilewright.isa.scalar.rows import flag, predicate_pattern, words
from tilewright.isa.table import (
    ALL_LANES,
    BY_MASK,
    REQUIRED,
    Form,
    Meaning,
    Operand,
    Ptx,
    Spellings,
    counts,
    instruction,
    reads,
    single,
)
from tilewright.isa.warp import activemask, all_of, any_of, ballot, elect, of_lanes, reduced_by, voters

LANE = np.arange(32)
MOVING = "Data Movement and Conversion Instructions"
PARALLEL = "Parallel Synchronization and Communication Instructions"
UINT32 = dtype("uint32")
WORDS: Spellings = dict.fromkeys(("uint32", "int32", "float32"), "")
MODES = words("up", "down", "bfly", "idx")


def _reached(b: Lanes, c: Lanes, mode: str) -> tuple[Lanes, Lanes]:
    """The lane that each lane reads from, and whether that is inside of its segment; else its own."""
    by, low, high = (register.astype(np.int64) for register in (b & 31, c & 31, c >> 8 & 31))
    last, first = (LANE & high) | (low & ~high), LANE & high
    source = {"up": LANE - by, "down": LANE + by, "bfly": LANE ^ by, "idx": first | (by & ~high)}[mode]
    inside = source >= last if mode == "up" else source <= last
    return np.where(inside, source, LANE), inside


def shuffled(a: Lanes, b: Lanes, c: Lanes, mask: Lanes, *, mode: str) -> Lanes:
    """The value of the lane that is reached."""
    return of_lanes(a, _reached(b, c, mode)[0])


def _source(a: Lanes, b: Lanes, c: Lanes, mask: Lanes, *, mode: str) -> Lanes:
    return _reached(b, c, mode)[0]


def is_inside(b: Lanes, c: Lanes, mask: Lanes, *, mode: str) -> Lanes:
    """Is the lane that is reached inside of the segment?"""
    return _reached(b, c, mode)[1]


def _second(listed: str) -> str:
    """The text of a call whose value is the predicate that the instruction writes beside a number."""
    call = f"{{mnemonic}} t_|d_, {listed}; selp.b32 {{result}}, 1, 0, d_;"
    return f"{{{{ .reg .pred d_; .reg .b32 t_; {call} }}}}"


def _shuffle_form(mode: str) -> Form:
    return Form(
        Ptx(
            "shfl.sync{mode}.b32",
            {"mode": {mode: f".{mode}"}, "dtype": WORDS, "out": {"d": ""}},
            pattern="{result}, {a}, {b}, {c}, {mask}",
        ),
        since("sm_75"),
        f'PTX ISA, "{MOVING}: shfl.sync"',
        Meaning(
            lambda a, b, c, mask: shuffled(a, b, c, mask, mode=mode),
            moves=True,
            source_lane=lambda a, b, c, mask: _source(a, b, c, mask, mode=mode),
        ),
        result="a",
    )


def _inside_form(mode: str) -> Form:
    return Form(
        Ptx(
            "shfl.sync{mode}.b32",
            {"mode": {mode: f".{mode}"}, "dtype": WORDS, "out": {"p": ""}},
            pattern=_second("{a}, {b}, {c}, {mask}"),
        ),
        since("sm_75"),
        f'PTX ISA, "{MOVING}: shfl.sync"',
        Meaning(lambda a, b, c, mask: is_inside(b, c, mask, mode=mode), blind="a"),
        result=BOOL,
    )


instruction(
    "ptx.shfl.sync",
    keywords={"mode": REQUIRED, "out": "d"},
    operands=(reads("a", "typed"), counts("b"), counts("c"), counts("mask")),
    lanes=BY_MASK,
    written=True,
    doc="The value of another lane; c: the end (bits 0 to 4) and segments (8 to 12); ``out='p'``: whether inside.",
    forms=(*map(_shuffle_form, MODES), *map(_inside_form, MODES)),
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
