"""cp.async.bulk: a thread issues the copy of a run of bytes, or a reduction into its destination, without a tensor map.

From global memory to shared memory of the own CTA or of several of the cluster, and from shared memory to that of
another CTA, an m-barrier at the destination counts the bytes. To global memory the copies of a thread are bulk groups.
Addresses and sizes are multiples of 16 bytes. All data is accessed through the async proxy.

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk, cp.reduce.async.bulk,
cp.async.bulk.prefetch".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.cp_async import HINTS, Hint
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import completed
from tilewright.isa.places import nbytes
from tilewright.isa.table import (
    GIVEN,
    LEFT_OUT,
    Access,
    AsyncMeaning,
    Effect,
    Form,
    Issue,
    Meaning,
    Mods,
    Ptx,
    Signal,
    Spellings,
    counts,
    instruction,
    may_lack,
    reads,
    single,
    spoken,
)
from tilewright.isa.tma import GROUP, combined, nothing
from tilewright.isa.units import access_of_unit, combined_by_unit, in_ctas

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'
UNIT = 16


def stretches(
    unit: Unit, dst: Lanes, src: Lanes, n: Lanes, *more: Lanes, cta_mask: str | None = None, **mods: object
) -> Mapping[str, Addresses]:
    """16 bytes at a time, from both addresses on; in each CTA of the mask, as the bytes that its m-barrier counts."""
    nbytes = n.astype(np.int64)
    for name, value in (("dst", dst), ("src", src), ("n", nbytes)):
        wrong = value.astype(np.int64) % UNIT != 0
        if wrong.any() and name == "n":
            unit.fault(f"n of a bulk copy is a multiple of {UNIT} bytes, not {int(value[wrong][0])}", wrong)
        if wrong.any():
            what = f"{name} of a bulk copy is at no multiple of {UNIT} bytes"
            unit.fault(what, wrong, address=int(value[wrong][0]))
    offset = UNIT * np.arange(int(nbytes.max()) // UNIT)
    kept = np.where(offset < nbytes[:, None], UNIT, 0)
    into, source = (where.astype(np.int64)[:, None] + offset for where in (dst, src))
    places = {"src": Addresses(source, nbytes=kept), "dst": Addresses(into, nbytes=kept)}
    if more and cta_mask is None:
        places["bar"] = Addresses(more[0], nbytes=nbytes)
    elif more:
        there, bars = in_ctas(unit, into, more[1]), in_ctas(unit, more[0], more[1])
        assert there.issuer is not None
        places["dst"] = Addresses(there.at, issuer=there.issuer, rank=there.rank, nbytes=kept[there.issuer])
        places["bar"] = Addresses(bars.at, issuer=bars.issuer, rank=bars.rank, nbytes=nbytes[there.issuer])
    return places


def chosen_bytes(unit: Unit, dst: Lanes, src: Lanes, n: Lanes, *more: Lanes) -> Mapping[str, Addresses]:
    """The same with a mask, the last operand: byte i of each 16 is copied where bit i is set. One byte at a time."""
    whole = stretches(unit, dst, src, n)
    byte = np.arange(UNIT)
    chosen = more[-1].astype(np.int64)[:, None, None] >> byte & 1
    kept = np.where(np.asarray(whole["src"].nbytes)[..., None] > 0, chosen, 0)
    return {name: Addresses(place.at[..., None] + byte, nbytes=kept, width=1) for name, place in whole.items()}


class Way(NamedTuple):
    """From where to where. source, target: memories, and how they are spelled. counted: by an m-barrier. masked: may
    bytes be left out?
    """

    name: str
    target: str
    source: str
    text: str
    doc: str
    counted: bool = True
    masks: tuple[Spellings, ...] = ()
    hints: tuple[Hint, ...] = ()
    masked: bool = False


WAYS = (
    Way("g2s_cta", "shared", "global", ".shared::cta.global", "global memory to the CTA's shared memory", hints=HINTS),
    Way(
        "g2s_cluster",
        "shared",
        "global",
        ".shared::cluster.global",
        "global memory to shared memory of the cluster",
        masks=(LEFT_OUT, GIVEN),
        hints=HINTS,
    ),
    Way("s2c", "shared", "shared", ".shared::cluster.shared::cta", "shared memory to that of a CTA of the cluster"),
    Way(
        "s2g",
        "global",
        "shared",
        ".global.shared::cta",
        "shared memory to global memory",
        counted=False,
        hints=HINTS,
        masked=True,
    ),
)
COMPLETION = {True: ".mbarrier::complete_tx::bytes", False: ".bulk_group"}
NO_HINT = Hint(spelling="", more="")


def _effects(way: Way, *, rmw: bool = False) -> tuple[Effect, ...]:
    source = access_of_unit("src", way.source, write=False)
    target = combined_by_unit("dst", way.target) if rmw else (access_of_unit("dst", way.target, write=True),)
    told = (Signal("bar", "bytes", "release", "cluster", completed), Issue()) if way.counted else (Issue(GROUP),)
    return (source, *target, *told)


def _copy_form(way: Way, hint: Hint, mask: Spellings | None, *, chosen: bool = False) -> Form:
    cast = ".multicast::cluster" if mask is GIVEN else ""
    operands = "[{dst}], [{src}], {n}" + (", [{bar}]" if way.counted else "") + (", {cta_mask}" if cast else "")
    mods: dict[str, Spellings] = {"cta_mask": mask} if mask is not None else {}
    if way.hints:
        mods |= hint.modifiers()
    if way.masked:
        mods["byte_mask"] = GIVEN if chosen else LEFT_OUT
    last, places = (", {byte_mask}", chosen_bytes) if chosen else ("", stretches)
    return Form(
        Ptx(
            f"cp.async.bulk{way.text}{COMPLETION[way.counted]}{cast}"
            + ("{cache_hint}" if way.hints else "")
            + ".cp_mask" * chosen,
            mods,
            pattern=hint.text % f"{{mnemonic}} {operands}{hint.more}{last};",
        ),
        since("sm_100" if chosen else "sm_90"),
        SOURCE.format("cp.async.bulk"),
        AsyncMeaning(addresses=places, passes=("cta_mask",) if mask is not None else (), moves=True),
        effects=_effects(way),
    )


for _way in WAYS:
    _bar = (reads("bar", "shared"),) if _way.counted else ()
    _keywords = {"cta_mask": None} if _way.masks else {}
    instruction(
        f"ptx.cp_async.bulk.{_way.name}",
        keywords={
            **_keywords,
            **({"cache_hint": "", "cache_policy": None} if _way.hints else {}),
            **({"byte_mask": None} if _way.masked else {}),
        },
        operands=(
            reads("dst", _way.target),
            reads("src", _way.source),
            counts("n"),
            *_bar,
            *((counts("cta_mask", "b16"),) if _way.masks else ()),
            *((counts("cache_policy", "b64"),) if _way.hints else ()),
            *((may_lack(counts("byte_mask", "b16")),) if _way.masked else ()),
        ),
        doc=f"A thread has ``n`` bytes copied from {_way.doc}"
        + ("; with ``byte_mask`` of each 16 bytes those whose bits are set." if _way.masked else "."),
        forms=tuple(
            _copy_form(_way, hint, mask, chosen=chosen)
            for chosen in ((False, True) if _way.masked else (False,))
            for hint in _way.hints or (NO_HINT,)
            for mask in _way.masks or (None,)
        ),
    )

ORDERED = {
    "uint32": ".u32", "int32": ".s32", "uint64": ".u64", "int64": ".s64", "float16": ".f16", "bfloat16": ".bf16",
}  # fmt: skip
INTO_GLOBAL: Mapping[str, Spellings] = {
    "add": {
        "uint32": ".u32", "int32": ".s32", "uint64": ".u64", "float16": ".noftz.f16", "bfloat16": ".noftz.bf16",
        "float32": ".f32", "float64": ".f64",
    },
    "min": ORDERED,
    "max": ORDERED,
    "inc": {"uint32": ".u32"},
    "dec": {"uint32": ".u32"},
    "and": {"uint32": ".b32", "uint64": ".b64"},
    "or": {"uint32": ".b32", "uint64": ".b64"},
    "xor": {"uint32": ".b32", "uint64": ".b64"},
}  # fmt: skip
INTO_CTA: Mapping[str, Spellings] = {
    "add": {"uint32": ".u32", "int32": ".s32", "uint64": ".u64"},
    "min": {"uint32": ".u32", "int32": ".s32"},
    "max": {"uint32": ".u32", "int32": ".s32"},
    "inc": {"uint32": ".u32"},
    "dec": {"uint32": ".u32"},
    "and": {"uint32": ".b32"},
    "or": {"uint32": ".b32"},
    "xor": {"uint32": ".b32"},
}


def reduce_stretch(new: Lanes, old: Lanes, *, op: str, kind: str) -> Lanes:
    """The old bytes reduced with those of the source; one issuer at a time."""
    return combined(op, str(dtype(kind)), old, new)


for _way, _kinds in ((WAYS[3], INTO_GLOBAL), (WAYS[2], INTO_CTA)):
    _bar = (reads("bar", "shared"),) if _way.counted else ()
    instruction(
        f"ptx.cp_reduce_async.bulk.{_way.name}",
        params=("dst", "src", "n", *(operand.name for operand in _bar), "op", "kind"),
        operands=(reads("dst", _way.target), reads("src", _way.source), counts("n"), *_bar),
        doc=f"A thread has ``n`` bytes combined, as elements of a dtype, from {_way.doc}.",
        hints=("L2::cache_hint",),
        forms=tuple(
            Form(
                Ptx(
                    f"cp.reduce.async.bulk{_way.text}{COMPLETION[_way.counted]}{{op}}{{kind}}",
                    {"op": {op: f".{op}"}, "kind": kinds},
                ),
                since("sm_90"),
                SOURCE.format("cp.reduce.async.bulk"),
                AsyncMeaning(reduce_stretch, addresses=stretches, passes=("op", "kind")),
                effects=_effects(_way, rmw=True),
            )
            for op, kinds in _kinds.items()
        ),
    )

single(
    "ptx.cp_async.bulk.prefetch",
    Ptx("cp.async.bulk.prefetch.L2.global"),
    since("sm_90"),
    SOURCE.format("cp.async.bulk.prefetch"),
    Meaning(nothing, on="machine"),
    operands=(reads("src", "global"), counts("n")),
    doc="Has ``n`` bytes of global memory brought to the L2 cache; no value changes.",
    hints=("L2::cache_hint",),
)

# st.async and red.async: a thread stores to, or combines with, shared memory of another CTA of the cluster.
#
# An m-barrier of that CTA counts the bytes once they are there; threads that wait at it may read them. Both are
# accesses of the generic proxy. The address and the m-barrier are addresses of the cluster's window, of one CTA;
# `mapa` makes them.
#
# Source: PTX ISA, "Data Movement and Conversion Instructions: st.async, red.async".

WHERE = ".shared::cluster.mbarrier::complete_tx::bytes"
STORED = {
    "uint32": ".u32", "int32": ".s32", "uint64": ".u64", "int64": ".s64", "float32": ".f32", "float64": ".f64",
}  # fmt: skip


def registers(mods: Mods) -> int:
    """Registers of a vector."""
    return int(str(mods["vec"]))


def vector_bytes(mods: Mods) -> int:
    """Bytes of a vector."""
    return 4 * registers(mods)


def as_bytes(value: Lanes, **mods: object) -> Lanes:
    """(n,) numbers as (n, bytes)."""
    return np.ascontiguousarray(value).reshape(len(value), -1).view(np.uint8)


def _told(amount: object) -> tuple[Signal, Issue]:
    return Signal("bar", "bytes", "release", "cluster", completed, amount=amount), Issue()  # type: ignore[arg-type]  # a Count


single(
    "ptx.st_async",
    Ptx(f"st.async.weak{WHERE}{{dtype}}", {"dtype": STORED}),
    since("sm_90"),
    SOURCE.format("st.async"),
    AsyncMeaning(as_bytes, takes=("value",)),
    operands=(reads("ptr", "shared"), reads("value", "typed"), reads("bar", "shared")),
    doc="A thread has ``value`` stored in the shared memory of a CTA of the cluster; ``bar`` there counts its bytes.",
    effects=(Access("ptr", "shared", nbytes, write=True), *_told(nbytes)),
)
single(
    "ptx.st_async.vec",
    Ptx(f"st.async.weak{WHERE}{{vec}}.b32", {"vec": {2: ".v2", 4: ".v4"}}),
    since("sm_90"),
    SOURCE.format("st.async"),
    AsyncMeaning(as_bytes, takes=("values",)),
    params=("vec", "ptr", "bar", "*values"),
    operands=(reads("ptr", "shared"), reads("*values", "b32"), reads("bar", "shared")),
    doc="A thread has 2 or 4 registers stored in the shared memory of a CTA of the cluster; ``bar`` counts the bytes.",
    effects=(Access("ptr", "shared", vector_bytes, write=True, element_bytes=4), *_told(vector_bytes)),
    registers=registers,
)


def _reducing(op: str, kinds: Spellings) -> Form:
    def execute(old: Lanes, value: Lanes) -> Lanes:
        return combined(op, value.dtype.name, old, as_bytes(value))

    return Form(
        Ptx(f"red.async.relaxed.cluster{WHERE}.{op}{{dtype}}", {"dtype": kinds}),
        since("sm_90"),
        SOURCE.format("red.async"),
        AsyncMeaning(execute, takes=("value",)),
        effects=(*read_and_written("ptr", "shared", nbytes, scope="cluster"), *_told(nbytes)),
    )


for _op, _dtypes in INTO_CTA.items():
    instruction(
        f"ptx.red_async.{spoken(_op)}",
        operands=(reads("ptr", "shared"), reads("value", "typed"), reads("bar", "shared")),
        doc="A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes.",
        forms=(_reducing(_op, _dtypes),),
    )
