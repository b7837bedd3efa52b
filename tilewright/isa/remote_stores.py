"""st.async and red.async: a thread stores to, or combines with, shared memory of another CTA of the cluster.

An m-barrier of that CTA counts the bytes once they are there; threads that wait at it may read them. Both are accesses
of the generic proxy. The address and the m-barrier are addresses of the cluster's window, of one CTA; `mapa` makes
them.

Source: PTX ISA, "Data Movement and Conversion Instructions: st.async, red.async".
"""

from __future__ import annotations

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.bulk import INTO_CTA
from tilewright.isa.effects import read_and_written
from tilewright.isa.machine import Lanes
from tilewright.isa.mbarrier_state import completed
from tilewright.isa.places import nbytes
from tilewright.isa.table import (
    Access,
    AsyncMeaning,
    Form,
    Issue,
    Mods,
    Ptx,
    Signal,
    Spellings,
    instruction,
    reads,
    single,
    spoken,
)
from tilewright.isa.tma import combined

SOURCE = 'PTX ISA, "Data Movement and Conversion Instructions: {}"'
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


for _op, _kinds in INTO_CTA.items():
    instruction(
        f"ptx.red_async.{spoken(_op)}",
        operands=(reads("ptr", "shared"), reads("value", "typed"), reads("bar", "shared")),
        doc="A thread has ``value`` combined with a place in another CTA; ``bar`` there counts its bytes.",
        forms=(_reducing(_op, _kinds),),
    )
