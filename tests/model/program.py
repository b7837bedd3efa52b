"""Tiny concurrent programs as text, one line for each warp, that an oracle walks and a printer turns into kernels.

    program("mp", {"0.0": "W x; W.rel.gpu f=1", "1.0": "R.acq.gpu f=1; R x"})

A key is CTA and warp. Lane 0 acts unless an operation begins with another one (``1: W x``) or with all (``*: ...``);
what only a whole warp can do is done by all. Names: ``s``.. lies in shared memory, ``b``.. is an m-barrier there,
``t``.. lies in tensor memory, all others in global memory; ``s@1`` is the one of CTA 1. ``?r=1 W x``:
only where register r holds 1.

    W[.sem.scope] x[=1]     a store; of a number, a register, or ``r+1``; ``.b64``: of 8 bytes, ``.v2``: of two words
    R[.sem.scope] x[=1]     a load; with a value: again and again until it is that. ``->r`` keeps it
    add, exch, red          atomics of 1, ``=n`` for another number; cas x=0>1: until 0 was found, then 1 is there
    F.sem.scope             a fence; Fs.rel.cluster: of shared memory alone; fpa: proxy fence (fpa.rel.cluster: a half)
                            of shared memory, fpag: of global memory;
                            before, after: those of tensor memory; initf: of m-barriers
    sync                    all warps of the CTA; bar 1/2, bararr 1/2: named barrier 1 of two warps; ws: of the warp
    carr[.rlx], cwait       the cluster's barrier
    init b=2, arr b, wait b=0   m-barriers, with the count and the parity; ``arr.rlx.cta``, ``wait.acq.cluster``
    cp t s, commit b        tcgen05.cp and its commit; tld t, tst t, wld, wst: loads, stores, and their waits; use: of
                            the registers that were loaded
    cpa s x, cpcom          cp.async and its commit_group; cpwait=0: wait_group 0; cparr b: mbarrier.arrive.noinc
    g2s s x/b               a bulk copy of x to s, whose bytes b waits for from the start
    s2g x s, radd x s       a bulk copy of s to x, or its sum into x; bcom, bwait=0, bread=0: commit_group, wait_group,
                            wait_group.read
    put s b, get s b        an asynchronous unit writes or reads s, and then arrives at b (`tests.model.unit`)
    shfl                    a shuffle
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

SEMS = {"rlx": "relaxed", "acq": "acquire", "rel": "release", "ar": "acq_rel", "vol": "volatile", "sc": "sc"}
SCOPES = ("cta", "cluster", "gpu", "sys")
MEMORY = ("W", "R", "add", "exch", "cas", "red")
BULK = ("g2s", "s2g", "radd")
WHOLE_WARP = (
    "sync",
    "bar",
    "bararr",
    "ws",
    "shfl",
    "carr",
    "cwait",
    "tld",
    "tst",
    "wld",
    "wst",
    "use",
    "before",
    "after",
)
DEFAULTS = {
    **dict.fromkeys(("add", "exch", "cas", "red"), ("relaxed", "gpu")),
    "F": ("acq_rel", "gpu"),
    "arr": ("release", "cta"),
    "wait": ("acquire", "cta"),
    "carr": ("release", "cluster"),
}
WORDS = re.compile(
    r"(?:(?P<lane>\d|\*):)?(?:\?(?P<reg>\w+)=(?P<is>\d+))?\s*(?P<head>[\w.]+)"
    r"(?:\s+(?P<place>[\w@]+))?(?:\s+(?P<source>[a-z]\w*))?(?:[=/](?P<value>[\w+>]+))?(?:->(?P<into>\w+))?"
)


@dataclass(frozen=True)
class Op:
    """One operation. place: what it is done to, or the number of a barrier. lane: None for all of the warp."""

    kind: str
    place: str = ""
    sem: str = "weak"
    scope: str = ""
    value: str = ""
    lane: int | None = 0
    into: str = ""
    guard: tuple[str, int] | None = None
    nbytes: int = 4
    source: str = ""
    is_pair: bool = False

    @property
    def writes(self) -> bool:
        return self.kind in ("W", "add", "exch", "cas", "red", "init")

    @property
    def reads(self) -> bool:
        return self.kind in ("R", "add", "exch", "cas", "red")


def parsed(text: str) -> Op:
    """``1: W.rel.gpu f=1`` as an `Op`."""
    found = WORDS.fullmatch(text.strip())
    assert found, f"{text!r} is no operation"
    kind, *words = found["head"].split(".")
    sem, scope = DEFAULTS.get(kind, ("weak", ""))
    for word in words:
        sem, scope = SEMS.get(word, sem), word if word in SCOPES else scope
    lane = None if found["lane"] == "*" or kind in WHOLE_WARP else int(found["lane"] or 0)
    guard = (found["reg"], int(found["is"])) if found["reg"] else None
    value = found["value"] or ("1" if kind in ("W", *MEMORY[2:]) else "")
    scope = "sys" if sem == "volatile" else scope
    return Op(
        kind,
        found["place"] or "",
        sem,
        scope,
        value,
        lane,
        found["into"] or "",
        guard,
        8 if "b64" in words else 4,
        found["source"] or "",
        "v2" in words,
    )


Warp = tuple[int, int]


@dataclass(frozen=True)
class Program:
    """warps: (CTA, warp) -> its operations. counts: of the m-barriers that are there from the start, by name."""

    name: str
    warps: dict[Warp, tuple[Op, ...]]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ctas(self) -> int:
        return 1 + max(cta for cta, _ in self.warps)

    @property
    def has_cluster(self) -> bool:
        return any(op.kind in ("carr", "cwait") or "@" in op.place or op.scope == "cluster" for op in self.ops)

    @property
    def has_tmem(self) -> bool:
        return any(op.kind in ("cp", "tld", "tst") for op in self.ops)

    @property
    def ops(self) -> list[Op]:
        return [op for ops in self.warps.values() for op in ops]

    def lanes(self, warp: Warp) -> tuple[int, ...]:
        """The lanes that act by themselves."""
        return tuple(sorted({op.lane for op in self.warps[warp] if op.lane is not None} | {0}))

    def thread(self, warp: Warp, lane: int) -> tuple[Op, ...]:
        """The operations of one lane."""
        return tuple(op for op in self.warps[warp] if op.lane in (None, lane))

    def with_warp(self, warp: Warp, ops: tuple[Op, ...], name: str) -> Program:
        return replace(self, name=name, warps={**self.warps, warp: ops})


def program(name: str, warps: dict[str, str], **counts: int) -> Program:
    """A program from its text; counts: of m-barriers."""
    made = {
        (int(where[0]), int(where[2:])): tuple(parsed(op) for op in text.split(";") if op.strip())
        for where, text in warps.items()
    }
    return Program(name, made, counts)


def home(place: str, cta: int) -> tuple[str, int]:
    """The place that a thread of ``cta`` names: its name, and the CTA that has it (-1: all CTAs)."""
    name, _, rank = place.partition("@")
    return name, (int(rank) if rank else cta) if name[0] in "sbt" else -1
