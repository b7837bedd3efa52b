"""Litmus tests of the memory model: programs of a few operations (`tests.model.program` has the words), each a row with
its verdict and the rule behind it. Between the warps of a CTA stands ``|``, between CTAs ``||``.

Verdicts: O everything that conflicts is ordered, R a race, P a proxy fence is missing, E an error of protocol, W a race
by the manual's words that does no harm in practice, so that the simulator only warns. A row's variants stand behind it.
Outcomes of weak memory (store buffering, load buffering, IRIW) are not shown by a simulator that interleaves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.model.program import Program, home, program


class Litmus(NamedTuple):
    program: Program
    verdict: str
    rule: str


def row(name: str, verdict: str, rule: str, text: str, **counts: int) -> Litmus:
    """text: of CTAs, ``||`` between them, and of their warps, ``|`` between them. An m-barrier that is there from the
    start counts 1 arrival, or as many as ``counts`` says.
    """
    warps = {
        f"{cta}.{warp}": ops for cta, warps in enumerate(text.split("||")) for warp, ops in enumerate(warps.split("|"))
    }
    made = program(name, warps)
    made_there = {op.place for op in made.ops if op.kind == "init"}
    names = {home(place, 0)[0] for op in made.ops for place in (op.place, op.source, op.value) if place[:1] == "b"}
    return Litmus(replace(made, counts=dict.fromkeys(sorted(names - made_there), 1) | counts), verdict, rule)


def by_sc(name: str, verdict: str, **warps: str) -> Litmus:
    """A warp stores and fences, another one of its CTA tells; where one hears it, another warp fences and reads. Keys
    such as ``w01``: CTA 0, warp 1.
    """
    usual = {"w00": "W x; F.sc.gpu; bar 1/2", "w01": "bar 1/2; W.rlx.gpu f"}
    usual |= {"w10": "R.rlx.gpu f=1; bar 1/2", "w11": "bar 1/2; F.sc.gpu; R x"}
    return keyed(f"sc-bar{name}", verdict, "S1a", usual | warps)


def fetched(name: str, verdict: str, **warps: str) -> Litmus:
    """A CTA stores to global memory, the unit of another one reads there."""
    usual = {"w00": "W x; W.rel.gpu f", "w10": f"R.acq.gpu f=1; {GET}"}
    return keyed(f"px-global{name}", verdict, "P2", usual | warps)


def keyed(name: str, verdict: str, rule: str, warps: dict[str, str]) -> Litmus:
    texts = [[warps[key] for warp in "012" if (key := f"w{cta}{warp}") in warps] for cta in "012"]
    return row(name, verdict, rule, " || ".join(" | ".join(cta) for cta in texts if cta))


def all_fence(own: str, other: str) -> str:
    """A CTA that may be the last: the warp that counts is not the one that stores and reads."""
    last = f"?q=1 F.sc.gpu; ?q=1 R {other}"
    return f"bar 1/2; add.rlx.gpu c->r; W s=r; bar 1/2 | W {own}; F.sc.gpu; bar 1/2; bar 1/2; R s->q; {last}"


SPIN = "cas.acq.gpu l=0>1; R x->r; W x=r+1; W.rel.gpu l=0"
UNORDERED_SPIN = SPIN.replace("acq", "rlx").replace("W.rel", "W.rlx")
TICKET = "add.rlx.gpu q->r; R.acq.gpu o=r; R x->v; W x=v+1; add.rel.gpu o"
LAST_UNFENCED = "W {}; F.gpu; add.rlx.gpu c->r; ?r=1 R {}"
LAST = "W {}; F.gpu; add.rlx.gpu c->r; ?r=1 F.gpu; ?r=1 R {}"

CHAIN = "bar 1/2; W.rlx.cta f | R.rlx.cta f=1; bar 2/2 | bar 2/2; F.sc.cta"
COPY = "cp t s; commit b; *:wait b=0"
TOLD, HEARD = "arr.rlx.cluster ba", "wait.rlx.cluster ba=0"
PUT = "put s ba; wait ba=0"
STORED, BROUGHT = "s2g x s; bcom; bwait=0", "g2s s x/b"
FILLED, BACK = f"{BROUGHT}; wait b=0", "g2s sb x/b; wait b=0"
GET, OVER = "get x b; wait b=0", "put x b; wait b=0"


LITMUS = (
    row("mp-rel-acq", "O", "S2", "W x; W.rel.gpu f || R.acq.gpu f=1; R x"),
    row("mp-fence", "O", "S2", "W x; F.gpu; W.rlx.gpu f || R.rlx.gpu f=1; F.gpu; R x"),
    row("mp-fence: of two kinds", "O", "S2", "W x; F.rel.gpu; W.rlx.gpu f || R.rlx.gpu f=1; F.acq.gpu; R x"),
    row("mp-fence: the reader's releases", "R", "S2", "W x; W.rel.gpu f || R.rlx.gpu f=1; F.rel.gpu; R x"),
    row("mp-fence: the writer's acquires", "R", "S2", "W x; F.acq.gpu; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row("mp-fence: of kind sc, and an acquire", "O", "S2", "W x; F.sc.gpu; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row("mp-fence: two flags behind it", "O", "S2", "W x; F.gpu; W.rlx.gpu f; W.rlx.gpu g || R.acq.gpu g=1; R x"),
    row("mp-fence: before the store", "R", "S2", "F.gpu; W x; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row("mp-fence: a weak flag", "R", "O1", "W x; F.gpu; W f || F.gpu; R x"),
    row("mp-fence: no flag", "R", "S2", "W x; F.sc.gpu || F.sc.gpu; R x"),
    row("mp-none", "R", "S2", "W x || R x"),
    row("mp-system", "O", "O6", "W x; W.rel.sys f || R.acq.sys f=1; R x"),
    row("mp-cluster", "O", "O6", "W x; W.rel.cluster f || R.acq.cluster f=1; R x"),
    row("mp-scope: of the reader", "R", "O6", "W x; W.rel.gpu f || R.acq.cta f=1; R x"),
    row("mp-scope: in one CTA, of shared memory", "O", "O6", "W s; W.rel.cta f | R.acq.cta f=1; R s"),
    row("mp-war", "O", "S2", "R x; W.rel.gpu f || R.acq.gpu f=1; W x"),
    row("mp-later-acq", "O", "S2", "W x; W.rel.gpu f || R.rlx.gpu f=1; R.acq.gpu f; R x"),
    row("mp-rmw: add", "O", "S3", "W x; W.rel.gpu f || R.rlx.gpu f=1; add.rlx.gpu f || R.acq.gpu f=2; R x"),
    row("mp-rmw: add of the CTA", "R", "S3", "W x; W.rel.gpu f || R.rlx.gpu f=1; add.rlx.cta f || R.acq.gpu f=2; R x"),
    row("mp-last", "O", "S3", "W x; F.gpu; add.rlx.gpu f || R.rlx.gpu f=1; add.rlx.gpu f; F.gpu; R x"),
    row("mp-last: no second fence", "R", "S3", "W x; F.gpu; add.rlx.gpu f || R.rlx.gpu f=1; add.rlx.gpu f; R x"),
    row("weak-strong", "R", "O6", "W.rlx.gpu x=1 || W x=2"),
    row("told-warp: by a flag", "O", "S2", "1:W s; ws; W.rel.cta f | R.acq.cta f=1; R s"),
    row("told-warp: by a flag, not met", "R", "S2", "1:W s; W.rel.cta f | R.acq.cta f=1; R s"),
    row("told-warp: by an atomic", "O", "S2", "1:W s; ws; F.cta; exch.rlx.cta f | cas.rlx.cta f=1>1; F.cta; R s"),
    row("told-warp: by an atomic, not met", "R", "S2", "1:W s; F.cta; exch.rlx.cta f | cas.rlx.cta f=1>1; F.cta; R s"),
    row("mp-volatile", "R", "O1", "W x; W.vol f || R.vol f=1; R x"),
    row("mp-volatile: membar.gl on both sides", "O", "O1", "W x; F.sc.gpu; W.vol f || R.vol f=1; F.sc.gpu; R x"),
    row("mp-no-acq", "R", "S2", "W x; W.rel.gpu f || R.rlx.gpu f=1; R x"),
    row("mp-no-acq: no release", "R", "S2", "W x; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row("mp-scope", "R", "O6", "W x; W.rel.cta f || R.acq.gpu f=1; R x"),
    row("mp-scope: in one CTA", "O", "O6", "W x; W.rel.cta f | R.acq.gpu f=1; R x"),
    row("mp-scope-fence", "R", "S1d", "W x; F.cta; W.rlx.gpu f || R.rlx.gpu f=1; F.gpu; R x"),
    row("mp-scope-fence: of the reader", "R", "S1d", "W x; F.gpu; W.rlx.gpu f || R.rlx.gpu f=1; F.cta; R x"),
    row("mp-other-var", "R", "S2", "W x; W.rel.gpu f; W.rlx.gpu g || R.acq.gpu g=1; R x"),
    row("mp-rel-rlx", "O", "S2", "W x; W.rel.gpu f=1; W.rlx.gpu f=2 || R.acq.gpu f=2; R x"),
    row("mp-store", "R", "S3", "W x; W.rel.gpu f=1 || R.rlx.gpu f=1; W.rlx.gpu f=2 || R.acq.gpu f=2; R x"),
    row("mp-rmw", "O", "S3", "W x; W.rel.gpu f=1 || cas.rlx.gpu f=1>2 || R.acq.gpu f=2; R x"),
    row("mp-rmw: atom.cta", "R", "S3", "W x; W.rel.gpu f=1 || cas.rlx.cta f=1>2 || R.acq.gpu f=2; R x"),
    row("mp-red", "R", "S2", "W x; W.rel.gpu f || red.rlx.gpu f; F.gpu; R x"),
    row("red-read", "R", "S2", "red.rlx.gpu x || red.rlx.gpu x; R x"),
    row("rel-rel: both of one CTA", "O", "S3", "W x; add.rel.gpu f | add.rel.gpu f | R.acq.gpu f=2; R x"),
    row("rel-rel: one relaxed", "R", "S2", "W x; add.rlx.gpu f | add.rel.gpu f | R.acq.gpu f=2; R x"),
    row("wrc", "O", "S4", "W x; W.rel.cta f | R.acq.cta f=1; W.rel.gpu g || R.acq.gpu g=1; R x"),
    row("rlx-data", "O", "O8", "W.rlx.gpu x; W.rlx.gpu f || R.rlx.gpu f=1; R.rlx.gpu x"),
    row("mixed-size", "R", "O6", "W.rlx.gpu.b64 x || R.rlx.gpu.b32 x"),
    row("mixed-size: a vector of two", "O", "O3", "W.rlx.gpu.v2 x || R.rlx.gpu x"),
    row("rmw-scopes", "R", "O7", "add.rlx.cta x || add.rlx.gpu x"),
    row("cas-write", "R", "O6", "cas.rlx.gpu x=0>1 || W x"),
    row("sb-sc", "R", "S1a", "W x; F.sc.gpu; R y || W y; F.sc.gpu; R x"),
    row("rlx-after", "O", "S6", "W.rlx.gpu f=1 || R.rlx.gpu f=1; W f=2"),
    row("spin", "O", "S2", f"{SPIN} || {SPIN}"),
    row("spin: default atoms", "R", "O1", f"{UNORDERED_SPIN} || {UNORDERED_SPIN}"),
    row("spin: ticket", "O", "S2", f"{TICKET} || {TICKET}"),
    row("last-block", "O", "S3", f"{LAST.format('x', 'y')} || {LAST.format('y', 'x')}"),
    row("last-block: no second fence", "R", "S3", " || ".join(LAST_UNFENCED.format(*names) for names in ("xy", "yx"))),
    row("bar-F-flag", "O", "S4", "W x; bar 1/2 | bar 1/2; F.gpu; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row("F-bar-flag", "R", "S2", "W x; F.gpu; bar 1/2 | F.gpu; bar 1/2; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    by_sc("", "O"),
    by_sc(": of the system", "O", w00="W x; F.sc.sys; bar 1/2"),
    by_sc(": nothing before", "R", w00="W x; bar 1/2"),
    by_sc(": nothing after", "R", w11="bar 1/2; R x"),
    by_sc(": acq_rel before", "R", w00="W x; F.gpu; bar 1/2"),
    by_sc(": acq_rel after", "R", w11="bar 1/2; F.gpu; R x"),
    by_sc(": of the CTA before", "R", w00="W x; F.sc.cta; bar 1/2"),
    by_sc(": of the cluster before", "O", w00="W x; F.sc.cluster; bar 1/2"),
    by_sc(": of the cluster on both sides", "O", w00="W x; F.sc.cluster; bar 1/2", w11="bar 1/2; F.sc.cluster; R x"),
    row(
        "sc-bar: of the CTA before, by another CTA",
        "R",
        "S1a",
        "R.acq.cluster f=1; F.sc.cta; W.rel.cluster g || W x; W.rel.cluster f | "
        "R.acq.cluster g=1; W.rlx.cta h | R.rlx.cta h=1; F.sc.cta; R x",
    ),
    row(
        "sc-bar: of the CTA before, heard there and handed on",
        "R",
        "S1a",
        "W x; F.sc.cta; bar 1/2 | bar 1/2; W.rlx.gpu f | R.rlx.gpu f=1; W.rel.gpu g || R.acq.gpu g=1; F.sc.gpu; R x",
    ),
    by_sc(": of the cluster after", "O", w11="bar 1/2; F.sc.cluster; R x"),
    by_sc(": of the CTA after", "R", w11="bar 1/2; F.sc.cta; R x"),
    by_sc(": before the store", "R", w00="F.sc.gpu; W x; bar 1/2"),
    by_sc(": after the barrier", "R", w00="W x; bar 1/2; F.sc.gpu"),
    by_sc(": before the other barrier", "R", w11="F.sc.gpu; bar 1/2; R x"),
    by_sc(": the teller has fenced before", "O", w01="F.sc.gpu; bar 1/2; W.rlx.gpu f"),
    by_sc(": the teller fences and counts", "O", w01="bar 1/2; F.sc.gpu; add.rlx.gpu f"),
    by_sc(": the hearer fences, too", "O", w10="R.rlx.gpu f=1; F.sc.gpu; bar 1/2"),
    by_sc(": the hearer alone fences", "O", w10="R.rlx.gpu f=1; F.sc.gpu; bar 1/2", w11="bar 1/2; R x"),
    by_sc(": the hearer has fenced before", "O", w10="F.sc.gpu; R.rlx.gpu f=1; bar 1/2"),
    by_sc(": the hearer has fenced, nobody after", "R", w10="F.sc.gpu; R.rlx.gpu f=1; bar 1/2", w11="bar 1/2; R x"),
    by_sc(": told weakly", "R", w01="bar 1/2; W f"),
    by_sc(": told to the CTA", "R", w01="bar 1/2; W.rlx.cta f"),
    by_sc(": told by an atomic", "O", w01="bar 1/2; add.rlx.gpu f"),
    by_sc(": handed on by an atomic", "O", w10="R.rlx.gpu f=2; bar 1/2", w20="cas.rlx.gpu f=1>2"),
    by_sc(": handed on by a store", "O", w10="R.rlx.gpu f=2; bar 1/2", w20="R.rlx.gpu f=1; W.rlx.gpu f=2"),
    by_sc(": handed on by a flag", "R", w10="R.rlx.gpu g=1; bar 1/2", w20="R.rlx.gpu f=1; W.rlx.gpu g"),
    by_sc(": handed on by fences", "O", w10="R.rlx.gpu g=1; bar 1/2", w20="R.rlx.gpu f=1; F.sc.gpu; W.rlx.gpu g"),
    row("sc-bar: in one CTA", "O", "S1a", f"W s; F.sc.cta; bar 1/2 | {CHAIN}; R s"),
    row("sc-warp", "O", "S1a", "W x; F.sc.gpu; ws; 1:W.rlx.gpu f || R.rlx.gpu f=1; ws; 1:F.sc.gpu; 1:R x"),
    row("sc-warp: not met", "R", "S1a", "W x; F.sc.gpu; 1:W.rlx.gpu f || R.rlx.gpu f=1; ws; 1:F.sc.gpu; 1:R x"),
    row(
        "sc-warp: by two lanes at once",
        "O",
        "S1a",
        "W x; F.sc.gpu; ws; 1:W.rlx.gpu f || R.rlx.gpu f=1; ws; F.sc.gpu; 1:F.sc.gpu; 1:R x",
    ),
    row("last-block: all fence", "O", "S1a", f"{all_fence('x', 'y')} || {all_fence('y', 'x')}"),
    row("rlx-bar-F", "R", "S2", "W x; W.rel.gpu f || R.rlx.gpu f=1; bar 1/2 | bar 1/2; F.gpu; R x"),
    row("bar", "O", "S1b", "W s; bar 1/2 | bar 1/2; R s"),
    row("bar: ids differ", "R", "S1b", "W s; bar 1/1 | bar 2/1; R s"),
    row("bar-arrive", "O", "S1b", "W s; bararr 1/2 | bar 1/2; R s"),
    row("bar-arrive: write after the arrive", "R", "S1b", "bararr 1/2; W s | bar 1/2; R s"),
    row("bar-arrive: read before the sync", "R", "S1b", "W s; bararr 1/2 | R s; bar 1/2"),
    row("warp", "R", "S7", "W s; shfl; 1:R s"),
    row("warp: bar.warp.sync", "O", "S7", "W s; ws; 1:R s"),
    row("cl-bar", "O", "S1c", "W x; carr; cwait || carr; cwait; R x"),
    row("cl-bar: arrive.relaxed", "R", "S1c", "W x; carr.rlx; cwait || carr; cwait; R x"),
    row("cl-bar: a fence before it", "O", "S1c", "W x; F.cluster; carr.rlx; cwait || carr; cwait; R x"),
    row("cl-bar: a fence of the CTA before it", "R", "S1c", "W x; F.cta; carr.rlx; cwait || carr; cwait; R x"),
    row(
        "cl-bar: a fence of the CTA, in one CTA",
        "O",
        "S1c",
        "W s; F.cta; carr.rlx; cwait | carr; cwait; R s || carr; cwait | carr; cwait",
    ),
    row("mb-elect", "R", "M3", "W s; 1:W sb; arr b | wait b=0; R sb"),
    row("mb-elect: bar.warp.sync before", "O", "M3", "W s; 1:W sb; ws; arr b | wait b=0; R sb"),
    row("mb-one-waits", "R", "M1", "W s; arr b | wait b=0; 1:R s"),
    row("mb-one-waits: bar.warp.sync after", "O", "M1", "W s; arr b | wait b=0; ws; 1:R s"),
    row("mb-rlx", "R", "M2", "W s; arr.rlx.cta b | wait b=0; R s"),
    row("mb-rlx: fences", "O", "M2", "W s; F.cta; arr.rlx.cta b | wait.rlx.cta b=0; F.cta; R s"),
    row("mb-remote", "R", "M3", "W x; arr.cluster b@1 || wait b=0; R x"),
    row("mb-remote: .cluster at both ends", "O", "M3", "W x; arr.cluster b@1 || wait.cluster b=0; R x"),
    row("mb-remote: after a read", "W", "M3", "R x; arr b@1 || wait b=0; W x"),
    row("mb-remote: after reads of two warps", "W", "M3", "R x; ws; 1:R x; 1:arr b@1; arr b@1 || wait b=0; W x", b=2),
    row("mb-remote: after a read, .cluster at both ends", "O", "M3", "R x; arr.cluster b@1 || wait.cluster b=0; W x"),
    row("mb-remote: after a read, told before it", "R", "M3", "arr b@1; R x || wait b=0; W x"),
    row("mb-remote: after a read, relaxed", "R", "M3", "R x; arr.rlx.cluster b@1 || wait b=0; W x"),
    row("mb-gap", "R", "M4", "arr b; W s; wait b=0 | arr b; wait b=0; R s", b=2),
    row("mb-gap: cluster barrier", "R", "M4", "carr; W x; cwait || carr; cwait; R x"),
    row("mb-init", "O", "M6", "init b=2; sync; arr b; wait b=0 | sync; arr b; wait b=0"),
    row("mb-init: no barrier", "R", "M6", "init b=1; wait b=0 | arr b"),
    row("mb-init: another's arrival", "R", "M6", "init b=2; arr b; sync; wait b=0 | arr b; sync; wait b=0"),
    row("mb-init: a wait before it", "R", "M6", "init b=1; arr b | wait b=0"),
    row("px-store", "O", "P1", "W s; fpa; bar 1/2 | bar 1/2; cp t s; commit b; *:wait b=0"),
    row("px-store: fence after the barrier", "O", "P1", "W s; bar 1/2 | bar 1/2; fpa; cp t s; commit b; *:wait b=0"),
    row("px-none", "P", "P3", "W s; bar 1/2 | bar 1/2; cp t s; commit b; *:wait b=0"),
    row("px-none: one thread", "P", "P3", "W s; cp t s; commit b; *:wait b=0"),
    row("px-none: fence before the store", "P", "P3", "fpa; W s; cp t s; commit b; *:wait b=0"),
    row(
        "px-store: fence by another warp, before the operation",
        "O",
        "P1",
        "W s; bar 1/2 | bar 1/2; fpa; bar 2/2 | bar 2/2; cp t s; commit b; *:wait b=0",
    ),
    row(
        "px-none: fence by another warp, unordered with the operation",
        "P",
        "P1",
        "W s; bar 1/3 | bar 1/3; cp t s; commit b; *:wait b=0 | bar 1/3; fpa",
    ),
    row("px-none: fence by another lane", "P", "P1", "W s; ws; 1:fpa; cp t s; commit b; *:wait b=0"),
    row("px-store: fence by another lane, met", "O", "P1", "W s; ws; 1:fpa; ws; cp t s; commit b; *:wait b=0"),
    row("px-none: fence of global memory", "P", "P1", "W s; fpag; cp t s; commit b; *:wait b=0"),
    row("px-cluster", "P", "P2", f"W s@1; fpa; arr.cluster ba@1 || wait.cluster ba=0; {COPY}"),
    row("px-cluster: fence there", "O", "P2", f"W s@1; arr.cluster ba@1 || wait.cluster ba=0; fpa; {COPY}"),
    row("px-pair", "O", "P2", f"W s; fpa.rel.cluster; bar 1/2 | bar 1/2; fpa.acq.cluster; {COPY}"),
    row("px-pair: no acquire", "P", "P2", f"W s; fpa.rel.cluster; bar 1/2 | bar 1/2; {COPY}"),
    row("px-pair: no release", "P", "P2", f"W s; bar 1/2 | bar 1/2; fpa.acq.cluster; {COPY}"),
    row("px-pair: release first", "P", "P2", f"fpa.rel.cluster; W s; bar 1/2 | bar 1/2; fpa.acq.cluster; {COPY}"),
    row(
        "px-pair: relaxed",
        "O",
        "P2",
        f"W s; fpa.rel.cluster; arr.rlx.cluster ba | wait.rlx.cluster ba=0; fpa.acq.cluster; {COPY}",
    ),
    row("px-load", "O", "P4", "put s b | wait b=0; R s; W s"),
    row("px-load: another lane", "R", "M1", "put s b | wait b=0; 1:R s"),
    row("px-load: another lane, bar.warp.sync", "O", "M1", "put s b | wait b=0; ws; 1:R s"),
    row("px-load: relaxed wait", "R", "P7", "put s b | wait.rlx.cta b=0; R s"),
    row("px-load: no wait", "R", "S8", "put s b; R s"),
    row("px-war", "P", "P3", f"R s; arr b | wait b=0; {PUT}"),
    row("px-war: fence before the arrive", "O", "P3", f"R s; fpa; arr b | wait b=0; {PUT}"),
    row("px-war: fence after the wait", "O", "P3", f"R s; arr b | wait b=0; fpa; {PUT}"),
    row("px-war: fence before the load", "P", "P3", f"fpa; R s; arr b | wait b=0; {PUT}"),
    row("px-war: fence of global memory", "P", "P1", f"R s; fpag; arr b | wait b=0; {PUT}"),
    row("px-war: a store", "P", "P3", f"W s; arr b | wait b=0; {PUT}"),
    row("px-war: one thread", "P", "P3", f"R s; {PUT}"),
    row("px-war: no arrive", "R", "S8", f"R s | {PUT}"),
    row("px-war: after cp.async", "P", "P3", f"cpa s x; cpcom; cpwait=0; {PUT}"),
    row("px-war: after cp.async, fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpa; {PUT}"),
    row("px-war: two writes", "R", "S8", f"put s b; {PUT}; wait b=0"),
    fetched("", "P"),
    fetched(": fence there", "O", w10=f"R.acq.gpu f=1; fpag; {GET}"),
    fetched(": fence by the writer", "P", w00="W x; fpag; W.rel.gpu f"),
    fetched(": fence before the store", "P", w00="fpag; W x; W.rel.gpu f"),
    fetched(": fence there, too early", "P", w10=f"fpag; R.acq.gpu f=1; {GET}"),
    fetched(": fence there, too late", "P", w10="R.acq.gpu f=1; get x b; fpag; wait b=0"),
    fetched(": fence of shared memory", "P", w10=f"R.acq.gpu f=1; fpa; {GET}"),
    fetched(": fence by another lane", "P", w10=f"R.acq.gpu f=1; ws; 1:fpag; {GET}"),
    fetched(": fence by another lane, met", "O", w10=f"R.acq.gpu f=1; ws; 1:fpag; ws; {GET}"),
    fetched(": fence by another warp, met", "O", w11="R.acq.gpu f=1; fpag; bar 1/2", w10=f"bar 1/2; {GET}"),
    fetched(": fence by another warp, not met", "P", w11="R.acq.gpu f=1; fpag"),
    fetched(": fence by another warp, before it heard", "P", w11="fpag; bar 1/2", w10=f"R.acq.gpu f=1; bar 1/2; {GET}"),
    fetched(": fence in a third CTA", "P", w10=f"R.acq.gpu g=1; {GET}", w20="R.acq.gpu f=1; fpag; W.rel.gpu g"),
    fetched(": handed on by a third CTA", "O", w10=f"R.acq.gpu g=1; fpag; {GET}", w20="R.acq.gpu f=1; W.rel.gpu g"),
    fetched(
        ": and back",
        "O",
        w10="R.acq.gpu f=1; fpag; W.rel.gpu g",
        w11=f"R.acq.gpu h=1; {GET}",
        w20="R.acq.gpu g=1; W.rel.gpu h",
    ),
    fetched(": not released", "R", w00="W x; W.rlx.gpu f"),
    fetched(": another store after the fence", "P", w00="W x; bar 1/2", w01=f"bar 1/2; fpag; W x; {GET}", w10=""),
    row("px-global: in one CTA, fence by the writer", "O", "P1", f"W x; fpag; bar 1/2 | bar 1/2; {GET}"),
    row("px-global: in one CTA", "P", "P3", f"W x; bar 1/2 | bar 1/2; {GET}"),
    row("px-global: one thread", "P", "P3", f"W x; {GET}"),
    row("px-global: one thread, fence", "O", "P1", f"W x; fpag; {GET}"),
    row("px-global: an atomic", "P", "P3", f"add.rlx.gpu x; {GET}"),
    row("px-global: after the unit's write", "O", "P4", f"{OVER}; R x; W x"),
    row("px-global: two units' turns", "O", "P5", f"{OVER}; get x ba; wait ba=0"),
    row("px-global: two units, no wait between", "R", "P5", "put x b; get x ba; wait b=0; wait ba=0"),
    row("px-global: two units write", "R", "P5", "put x b; put x ba; wait b=0; wait ba=0"),
    row("px-global: a unit writes what another reads", "R", "P5", "get x b; put x ba; wait b=0; wait ba=0"),
    row("px-global-war", "P", "P3", f"R x; {OVER}"),
    row("px-global-war: fence", "O", "P1", f"R x; fpag; {OVER}"),
    row("px-global-war: fence before the load", "P", "P3", f"fpag; R x; {OVER}"),
    row("px-global-war: fence of shared memory", "P", "P1", f"R x; fpa; {OVER}"),
    row("px-global-war: a store", "P", "P3", f"W x; {OVER}"),
    row("px-global-war: of another CTA", "P", "P2", f"R x; W.rel.gpu f || R.acq.gpu f=1; {OVER}"),
    row("px-global-war: of another CTA, fence", "O", "P2", f"R x; W.rel.gpu f || R.acq.gpu f=1; fpag; {OVER}"),
    row("px-global-war: of another CTA, its fence", "P", "P2", f"R x; fpag; W.rel.gpu f || R.acq.gpu f=1; {OVER}"),
    row("px-global-war: two loads", "P", "P3", f"R x; bar 1/3 | R x; fpag; bar 1/3 | bar 1/3; {OVER}"),
    row("px-global-war: two loads, fences", "O", "P1", f"R x; fpag; bar 1/3 | R x; fpag; bar 1/3 | bar 1/3; {OVER}"),
    row("px-global: two atomics", "P", "P3", f"add.rlx.gpu x; bar 1/3 | add.rlx.gpu x; fpag; bar 1/3 | bar 1/3; {GET}"),
    row("px-global-war: a copy's load", "P", "P3", f"cpa s x; cpcom; cpwait=0; {OVER}"),
    row("px-global-war: a copy's load, fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpag; {OVER}"),
    row("px-none: fence by another lane than the store's", "P", "P1", f"1:W s; fpa; ws; {COPY}"),
    row("px-store: fence by another lane than the store's, met", "O", "P1", f"1:W s; ws; fpa; {COPY}"),
    row("px-war: fence by another lane than the load's", "P", "P1", f"1:R s; fpa; ws; {PUT}"),
    row("px-war: fence by another lane than the load's, met", "O", "P1", f"1:R s; ws; fpa; {PUT}"),
    row("px-store: sc chain", "O", "S1a", f"W s; fpa; F.sc.cta; bar 1/2 | {CHAIN}; {COPY}"),
    row("px-store: sc chain, fence after it", "P", "S1a", f"W s; F.sc.cta; fpa; bar 1/2 | {CHAIN}; {COPY}"),
    row(
        "px-store: sc chain of the GPU",
        "O",
        "S1a",
        f"W s; fpa; F.sc.gpu; bar 1/2 | {CHAIN.replace('cta', 'gpu')}; {COPY}",
    ),
    row("px-load: sc chain", "O", "S1a", f"put s b; wait b=0; F.sc.cta; bar 1/2 | {CHAIN}; R s"),
    row("px-load: sc chain, waited after it", "R", "S1a", f"put s b; F.sc.cta; bar 1/2; wait b=0 | {CHAIN}; R s"),
    row("px-get", "O", "P1", "W s; fpa; get s b; wait b=0"),
    row("px-get: no fence", "P", "P3", "W s; get s b; wait b=0"),
    row("px-get: no wait", "R", "S8", "W s; fpa; get s b; W s; wait b=0"),
    row("tma-past", "R", "P7", "W sb; put s b | wait b=0; R sb"),
    row("tma-store", "O", "P1", f"W s; fpa; bar 1/2 | bar 1/2; {STORED}"),
    row("tma-store: fence after the barrier", "O", "P1", f"W s; bar 1/2 | bar 1/2; fpa; {STORED}"),
    row("tma-store: no fence", "P", "P3", f"W s; bar 1/2 | bar 1/2; {STORED}"),
    row("tma-store: fence before the store", "P", "P3", f"fpa; W s; bar 1/2 | bar 1/2; {STORED}"),
    row("tma-store: fence of global memory", "P", "P1", f"W s; fpag; bar 1/2 | bar 1/2; {STORED}"),
    row("tma-store: fence by another warp", "P", "P1", f"W s; bar 1/3 | bar 1/3; {STORED} | bar 1/3; fpa"),
    row("tma-store: fence by another warp, met", "O", "P1", f"W s; bar 1/2; bar 2/2 | bar 1/2; fpa; bar 2/2; {STORED}"),
    row("tma-store: fence by another lane", "P", "P1", f"W s; ws; 1:fpa; {STORED}"),
    row("tma-store: no barrier", "R", "S8", f"W s; fpa | {STORED}"),
    row("tma-load", "O", "P4", f"{BROUGHT} | *:wait b=0; R s; 1:R s"),
    row("tma-load: one lane waits, and meets", "O", "M1", f"{BROUGHT} | wait b=0; ws; 1:R s"),
    row("tma-load: one lane waits", "R", "M1", f"{BROUGHT} | wait b=0; 1:R s"),
    row("tma-load: no wait", "R", "S8", f"{BROUGHT} | R s; wait b=0"),
    row("tma-load: what its thread did besides", "R", "P7", f"W sb; {BROUGHT} | wait b=0; R sb"),
    *(
        row(f"tma-war: {name}, {fence}", verdict, "P3", f"{first.format(f'{kind} s')} | {then}")
        for kind, name in (("R", "a load"), ("W", "a store"))
        for fence, verdict, first, then in (
            ("fence before the arrive", "O", "{}; fpa; arr ba", f"wait ba=0; {FILLED}"),
            ("fence after the wait", "O", "{}; arr ba", f"wait ba=0; fpa; {FILLED}"),
            ("no fence", "P", "{}; arr ba", f"wait ba=0; {FILLED}"),
            ("fence before it", "P", "fpa; {}; arr ba", f"wait ba=0; {FILLED}"),
            ("no wait", "R", "{}; fpa; arr ba", FILLED),
        )
    ),
    row("tma-war: two loads", "P", "P3", f"R s; bar 1/3 | R s; fpa; bar 1/3 | bar 1/3; {FILLED}"),
    row("tma-war: two loads, fences", "O", "P1", f"R s; fpa; bar 1/3 | R s; fpa; bar 1/3 | bar 1/3; {FILLED}"),
    row("tma-war: two loads, fence there", "O", "P1", f"R s; bar 1/3 | R s; bar 1/3 | bar 1/3; fpa; {FILLED}"),
    row("tma-read", "O", "P7", "W s; fpa; s2g x s; bcom; bread=0; W s=2; bwait=0"),
    row("tma-read: written", "O", "P7", "W s; fpa; s2g x s; bcom; bwait=0; W s=2"),
    row("tma-read: no wait", "R", "S8", "W s; fpa; s2g x s; bcom; W s=2; bwait=0"),
    row("tma-read: another lane", "R", "P7", "W s; fpa; s2g x s; bcom; bread=0; 1:W s=2; bwait=0"),
    row("tma-read: another lane, met", "O", "P7", "W s; fpa; s2g x s; bcom; bwait=0; ws; 1:W s=2"),
    row("tma-dst", "O", "P7", f"W s; fpa; {STORED}; F.gpu; W.rlx.gpu f || R.acq.gpu f=1; R x"),
    row(
        "tma-dst: read",
        "R",
        "P7",
        "W s; fpa; s2g x s; bcom; bread=0; F.gpu; W.rlx.gpu f; bwait=0 || R.acq.gpu f=1; R x",
    ),
    row("tma-global", "P", "P2", f"W x; W.rel.gpu f || R.acq.gpu f=1; {FILLED}"),
    row("tma-global: fence there", "O", "P2", f"W x; W.rel.gpu f || R.acq.gpu f=1; fpag; {FILLED}"),
    row("tma-global: fence by the writer", "P", "P2", f"W x; fpag; W.rel.gpu f || R.acq.gpu f=1; {FILLED}"),
    row("tma-global: fence, then no store", "O", "P1", f"W x; fpag; bar 1/2 | bar 1/2; {FILLED}"),
    row("tma-global: fence, then a store", "P", "P1", f"W x; fpag; W x=2; bar 1/2 | bar 1/2; {FILLED}"),
    *(
        row(f"tma-passed-on: {name}{where}", verdict, "P5", text.format(f"W s; fpa; {op} x s; bcom; bwait=0", BACK))
        for name, op in (("a store", "s2g"), ("a sum", "radd"))
        for where, verdict, text in (
            (", fence there", "O", "{}; W.rel.gpu f || R.acq.gpu f=1; fpag; {}"),
            ("", "P", "{}; W.rel.gpu f || R.acq.gpu f=1; {}"),
            (", fence by the writer", "P", "{}; fpag; W.rel.gpu f || R.acq.gpu f=1; {}"),
            (" in one CTA", "O", "{}; W.rel.gpu f | R.acq.gpu f=1; {}"),
        )
    ),
    row("cpa", "O", "P7", "cpa s x; cpcom; cpwait=0; bar 1/2 | bar 1/2; R s"),
    row("cpa: wait after the barrier", "R", "P7", "cpa s x; cpcom; bar 1/2; cpwait=0 | bar 1/2; R s"),
    row("cpa: no barrier", "R", "P7", "cpa s x; cpcom; cpwait=0 | R s"),
    row("cpa: one thread", "O", "P7", "cpa s x; cpcom; cpwait=0; R s"),
    row("cpa: one thread, no wait", "R", "S8", "cpa s x; cpcom; R s"),
    row("cpa: one thread, no commit", "R", "P7", "cpa s x; cpwait=0; R s"),
    row("cpa: another lane", "R", "P7", "cpa s x; cpcom; *:cpwait=0; 1:R s"),
    row("cpa: another lane, bar.warp.sync", "O", "P7", "cpa s x; cpcom; *:cpwait=0; ws; 1:R s"),
    row("cpa: the older of two groups", "O", "P7", "cpa s x; cpcom; cpa sb y; cpcom; cpwait=1; R s; cpwait=0"),
    row("cpa: the newer of two groups", "R", "P7", "cpa s x; cpcom; cpa sb y; cpcom; cpwait=1; R sb; cpwait=0"),
    row("cpa: two to one place", "R", "S8", "cpa s x; cpa s y; cpcom; cpwait=0"),
    row("cpa: source overwritten", "R", "S8", "cpa s x; W x; cpcom; cpwait=0"),
    row("cpa: source overwritten after the wait", "O", "P7", "cpa s x; cpcom; cpwait=0; W x"),
    row("cpa: after a store", "O", "S8", "W s; cpa s x; cpcom; cpwait=0; R s"),
    row("cpa: after another's load", "R", "S8", "R s | cpa s x; cpcom; cpwait=0"),
    row("cpa: for a unit", "P", "P3", f"cpa s x; cpcom; cpwait=0; {COPY}"),
    row("cpa: for a unit, proxy fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpa; {COPY}"),
    row("cpa: for a unit, proxy fence before the wait", "P", "P1", f"cpa s x; cpcom; fpa; cpwait=0; {COPY}"),
    row("cpa-mb", "O", "P7", "W sb; cpa s x; cparr b | wait b=0; R s"),
    row("cpa-mb: what the thread did besides", "R", "P7", "W sb; cpa s x; cparr b | wait b=0; R sb"),
    row("cpa-mb: copy after the arrive", "R", "P7", "cparr b; cpa s x | wait b=0; R s"),
    row("cpa-mb: another thread's copy", "R", "P7", "cpa s x; ws; 1:cparr b | wait b=0; R s"),
    row("cpa-mb: relaxed wait", "R", "P7", "cpa s x; cparr b | wait.rlx.cta b=0; R s"),
    row("cpa-mb: another lane waits", "R", "M1", "cpa s x; cparr b | wait b=0; 1:R s"),
    row("cpa-mb: source overwritten", "O", "P7", "cpa s x; cparr b | wait b=0; W x"),
    row("cpa-mb: for a unit", "P", "P3", f"cpa s x; cparr ba | wait ba=0; {COPY}"),
    row("cpa-mb: for a unit, proxy fence", "O", "P1", f"cpa s x; cparr ba | wait ba=0; fpa; {COPY}"),
    row("px-pair: for threads", "O", "P2", f"W s; fpa.rel.cluster; {TOLD} | {HEARD}; fpa.acq.cluster; R s"),
    row("px-pair: global data", "R", "P2", f"W x; fpa.rel.cluster; {TOLD} | {HEARD}; fpa.acq.cluster; R x"),
    row("sync_restrict", "O", "P2", f"W s; Fs.rel.cluster; {TOLD} | {HEARD}; Fs.acq.cluster; R s"),
    row("sync_restrict: global data", "R", "P2", f"W x; Fs.rel.cluster; {TOLD} | {HEARD}; Fs.acq.cluster; R x"),
    row("sync_restrict: release alone", "R", "P2", f"W x; Fs.rel.cluster; {TOLD} | {HEARD}; F.cta; R x"),
    row("sync_restrict: acquire alone", "R", "P2", f"W x; F.cta; {TOLD} | {HEARD}; Fs.acq.cluster; R x"),
    row("sync_restrict: with a fence", "O", "P2", f"W s; F.cta; {TOLD} | {HEARD}; Fs.acq.cluster; R s"),
    row("sync_restrict: a fence besides", "O", "S2", f"W x; F.cta; Fs.rel.cluster; {TOLD} | {HEARD}; F.cta; R x"),
    row(
        "sync_restrict: handed on",
        "O",
        "S4",
        f"W s; Fs.rel.cluster; {TOLD} | {HEARD}; Fs.acq.cluster; bar 1/2 | bar 1/2; R s",
    ),
    row("tc-commit", "O", "T3", "cp t s; commit b; *:wait b=0 | *:wait b=0; after; tld t; wld; use"),
    row("tc-commit: no after", "T", "T3", "cp t s; commit b; *:wait b=0 | *:wait b=0; tld t; wld; use"),
    row("tc-commit: no after in the same warp", "T", "T3", "cp t s; commit b; *:wait b=0; tld t; wld; use"),
    row("tc-ld-cp", "O", "T4", "tld t; wld; use; before; arr b | *:wait b=0; after; cp t s; commit ba; *:wait ba=0"),
    row(
        "tc-ld-cp: no wait::ld",
        "R",
        "T4",
        "tld t; before; arr b; wld; use | *:wait b=0; after; cp t s; commit ba; *:wait ba=0",
    ),
    row("tc-cross", "O", "T2", "tst t; wst; before; arr.rlx.cta b | *:wait.rlx.cta b=0; after; tld t; wld; use"),
    row("tc-cross: no before", "R", "T2", "tst t; wst; arr.rlx.cta b | *:wait.rlx.cta b=0; after; tld t; wld; use"),
    row(
        "tc-cross: no before, and no relaxed meeting",
        "T",
        "T2",
        "tst t; wst; arr b | *:wait b=0; after; tld t; wld; use",
    ),
    row("tc-smem", "O", "T3", "cp t s; commit b; *:wait b=0 | wait b=0; W s"),
    row("tc-smem: no wait", "R", "T3", "cp t s; commit b; *:wait b=0 | W s"),
)
