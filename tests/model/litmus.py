"""Litmus tests of the memory model: programs of a few operations, each with its verdict and the rule behind it.

Verdicts: O everything that conflicts is ordered, R a race, P a proxy fence is missing, E an error of protocol, W a race
by the manual's words that does no harm in practice, so that the simulator only warns. A row's variants stand behind it.
Rows of TMA, wgmma and the tensor cores' products come with those instructions; outcomes of weak memory (store
buffering, load buffering, IRIW) are not shown by a simulator that interleaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.program import Program, program


class Litmus(NamedTuple):
    program: Program
    verdict: str
    rule: str


def row(name: str, verdict: str, rule: str, *warps: str, ctas: bool = True, **counts: int) -> Litmus:
    """warps: of CTAs of their own, or of one."""
    where = {f"{i}.0" if ctas else f"0.{i}": text for i, text in enumerate(warps)}
    return Litmus(program(name, where, **counts), verdict, rule)


def placed(name: str, verdict: str, rule: str, **warps: str) -> Litmus:
    """The same with keys such as ``w01``: CTA 0, warp 1."""
    return Litmus(program(name, {f"{key[1]}.{key[2]}": text for key, text in warps.items()}), verdict, rule)


def by_sc(name: str, verdict: str, **warps: str) -> Litmus:
    """A warp stores and fences, another one of its CTA tells; where one hears it, another warp fences and reads."""
    usual = {"w00": "W x; F.sc.gpu; bar 1/2", "w01": "bar 1/2; W.rlx.gpu f"}
    usual |= {"w10": "R.rlx.gpu f=1; bar 1/2", "w11": "bar 1/2; F.sc.gpu; R x"}
    return placed(f"sc-bar{name}", verdict, "S1a", **usual | warps)


def all_fence(cta: int, own: str, other: str) -> dict[str, str]:
    """A CTA that may be the last: the warp that counts is not the one that stores and reads."""
    last = f"?q=1 F.sc.gpu; ?q=1 R {other}"
    return {
        f"w{cta}0": "bar 1/2; add.rlx.gpu c->r; W s=r; bar 1/2",
        f"w{cta}1": f"W {own}; F.sc.gpu; bar 1/2; bar 1/2; R s->q; {last}",
    }


SPIN = "cas.acq.gpu l=0>1; R x->r; W x=r+1; W.rel.gpu l=0"
TICKET = "add.rlx.gpu q->r; R.acq.gpu o=r; R x->v; W x=v+1; add.rel.gpu o"
LAST = "W {}; F.gpu; add.rlx.gpu c->r; ?r=1 F.gpu; ?r=1 R {}"

COPY = "cp t s; commit b; *:wait b=0"
TOLD, HEARD = "arr.rlx.cluster ba", "wait.rlx.cluster ba=0"
NEAR: dict[str, Any] = {"ctas": False, "ba": 1}
PUT = "put s ba; wait ba=0"
GET, OVER = "get x b; wait b=0", "put x b; wait b=0"


def fetched(name: str, verdict: str, **warps: str) -> Litmus:
    """A CTA stores to global memory, the unit of another one reads there."""
    usual = {"w00": "W x; W.rel.gpu f", "w10": f"R.acq.gpu f=1; {GET}"}
    made = {f"{key[1]}.{key[2]}": text for key, text in (usual | warps).items()}
    return Litmus(program(f"px-global{name}", made, b=1), verdict, "P2")


LITMUS = (
    row("mp-rel-acq", "O", "S2", "W x; W.rel.gpu f", "R.acq.gpu f=1; R x"),
    row("mp-fence", "O", "S2", "W x; F.gpu; W.rlx.gpu f", "R.rlx.gpu f=1; F.gpu; R x"),
    row("mp-volatile", "R", "O1", "W x; W.vol f", "R.vol f=1; R x"),
    row("mp-volatile: membar.gl on both sides", "O", "O1", "W x; F.sc.gpu; W.vol f", "R.vol f=1; F.sc.gpu; R x"),
    row("mp-no-acq", "R", "S2", "W x; W.rel.gpu f", "R.rlx.gpu f=1; R x"),
    row("mp-no-acq: no release", "R", "S2", "W x; W.rlx.gpu f", "R.acq.gpu f=1; R x"),
    row("mp-scope", "R", "O6", "W x; W.rel.cta f", "R.acq.gpu f=1; R x"),
    row("mp-scope: in one CTA", "O", "O6", "W x; W.rel.cta f", "R.acq.gpu f=1; R x", ctas=False),
    row("mp-scope-fence", "R", "S1d", "W x; F.cta; W.rlx.gpu f", "R.rlx.gpu f=1; F.gpu; R x"),
    row("mp-scope-fence: of the reader", "R", "S1d", "W x; F.gpu; W.rlx.gpu f", "R.rlx.gpu f=1; F.cta; R x"),
    row("mp-other-var", "R", "S2", "W x; W.rel.gpu f; W.rlx.gpu g", "R.acq.gpu g=1; R x"),
    row("mp-rel-rlx", "O", "S2", "W x; W.rel.gpu f=1; W.rlx.gpu f=2", "R.acq.gpu f=2; R x"),
    row("mp-store", "R", "S3", "W x; W.rel.gpu f=1", "R.rlx.gpu f=1; W.rlx.gpu f=2", "R.acq.gpu f=2; R x"),
    row("mp-rmw", "O", "S3", "W x; W.rel.gpu f=1", "cas.rlx.gpu f=1>2", "R.acq.gpu f=2; R x"),
    row("mp-rmw: atom.cta", "R", "S3", "W x; W.rel.gpu f=1", "cas.rlx.cta f=1>2", "R.acq.gpu f=2; R x"),
    row("mp-red", "R", "S2", "W x; W.rel.gpu f", "red.rlx.gpu f; F.gpu; R x"),
    row("red-read", "R", "S2", "red.rlx.gpu x", "red.rlx.gpu x; R x"),
    row("rel-rel: both of one CTA", "O", "S3", "W x; add.rel.gpu f", "add.rel.gpu f", "R.acq.gpu f=2; R x", ctas=False),
    row("rel-rel: one relaxed", "R", "S2", "W x; add.rlx.gpu f", "add.rel.gpu f", "R.acq.gpu f=2; R x", ctas=False),
    placed("wrc", "O", "S4", w00="W x; W.rel.cta f", w01="R.acq.cta f=1; W.rel.gpu g", w10="R.acq.gpu g=1; R x"),
    row("rlx-data", "O", "O8", "W.rlx.gpu x; W.rlx.gpu f", "R.rlx.gpu f=1; R.rlx.gpu x"),
    row("mixed-size", "R", "O6", "W.rlx.gpu.b64 x", "R.rlx.gpu.b32 x"),
    row("mixed-size: a vector of two", "O", "O3", "W.rlx.gpu.v2 x", "R.rlx.gpu x"),
    row("rmw-scopes", "R", "O7", "add.rlx.cta x", "add.rlx.gpu x"),
    row("sb-sc", "R", "S1a", "W x; F.sc.gpu; R y", "W y; F.sc.gpu; R x"),
    row("rlx-after", "O", "S6", "W.rlx.gpu f=1", "R.rlx.gpu f=1; W f=2"),
    row("spin", "O", "S2", SPIN, SPIN),
    row(
        "spin: default atoms",
        "R",
        "O1",
        SPIN.replace("acq", "rlx").replace("W.rel", "W.rlx"),
        SPIN.replace("acq", "rlx"),
    ),
    row("spin: ticket", "O", "S2", TICKET, TICKET),
    row("last-block", "O", "S3", LAST.format("x", "y"), LAST.format("y", "x")),
    row("last-block: no second fence", "R", "S3", *(LAST.replace("?r=1 F.gpu; ", "").format(*p) for p in ("xy", "yx"))),
    placed("bar-F-flag", "O", "S4", w00="W x; bar 1/2", w01="bar 1/2; F.gpu; W.rlx.gpu f", w10="R.acq.gpu f=1; R x"),
    placed(
        "F-bar-flag", "R", "S2", w00="W x; F.gpu; bar 1/2", w01="F.gpu; bar 1/2; W.rlx.gpu f", w10="R.acq.gpu f=1; R x"
    ),
    by_sc("", "O"),
    by_sc(": of the system", "O", w00="W x; F.sc.sys; bar 1/2"),
    by_sc(": nothing before", "R", w00="W x; bar 1/2"),
    by_sc(": nothing after", "R", w11="bar 1/2; R x"),
    by_sc(": acq_rel before", "R", w00="W x; F.gpu; bar 1/2"),
    by_sc(": acq_rel after", "R", w11="bar 1/2; F.gpu; R x"),
    by_sc(": of the CTA before", "R", w00="W x; F.sc.cta; bar 1/2"),
    by_sc(": of the cluster after", "O", w11="bar 1/2; F.sc.cluster; R x"),
    by_sc(": of the CTA after", "R", w11="bar 1/2; F.sc.cta; R x"),
    by_sc(": before the store", "R", w00="F.sc.gpu; W x; bar 1/2"),
    by_sc(": after the barrier", "R", w00="W x; bar 1/2; F.sc.gpu"),
    by_sc(": before the other barrier", "R", w11="F.sc.gpu; bar 1/2; R x"),
    by_sc(": told weakly", "R", w01="bar 1/2; W f"),
    by_sc(": told to the CTA", "R", w01="bar 1/2; W.rlx.cta f"),
    by_sc(": told by an atomic", "O", w01="bar 1/2; add.rlx.gpu f"),
    by_sc(": handed on by an atomic", "O", w10="R.rlx.gpu f=2; bar 1/2", w20="cas.rlx.gpu f=1>2"),
    by_sc(": handed on by a store", "O", w10="R.rlx.gpu f=2; bar 1/2", w20="R.rlx.gpu f=1; W.rlx.gpu f=2"),
    by_sc(": handed on by a flag", "R", w10="R.rlx.gpu g=1; bar 1/2", w20="R.rlx.gpu f=1; W.rlx.gpu g"),
    by_sc(": handed on by fences", "O", w10="R.rlx.gpu g=1; bar 1/2", w20="R.rlx.gpu f=1; F.sc.gpu; W.rlx.gpu g"),
    placed(
        "sc-bar: in one CTA",
        "O",
        "S1a",
        w00="W s; F.sc.cta; bar 1/2",
        w01="bar 1/2; W.rlx.cta f",
        w02="R.rlx.cta f=1; bar 2/2",
        w03="bar 2/2; F.sc.cta; R s",
    ),
    row("sc-warp", "O", "S1a", "W x; F.sc.gpu; ws; 1:W.rlx.gpu f", "R.rlx.gpu f=1; ws; 1:F.sc.gpu; 1:R x"),
    row(
        "sc-warp: no bar.warp.sync", "R", "S1a", "W x; F.sc.gpu; 1:W.rlx.gpu f", "R.rlx.gpu f=1; ws; 1:F.sc.gpu; 1:R x"
    ),
    placed("last-block: all fence", "O", "S1a", **all_fence(0, "x", "y"), **all_fence(1, "y", "x")),
    placed("rlx-bar-F", "R", "S2", w00="W x; W.rel.gpu f", w10="R.rlx.gpu f=1; bar 1/2", w11="bar 1/2; F.gpu; R x"),
    row("bar", "O", "S1b", "W s; bar 1/2", "bar 1/2; R s", ctas=False),
    row("bar: ids differ", "R", "S1b", "W s; bar 1/1", "bar 2/1; R s", ctas=False),
    row("bar-arrive", "O", "S1b", "W s; bararr 1/2", "bar 1/2; R s", ctas=False),
    row("bar-arrive: write after the arrive", "R", "S1b", "bararr 1/2; W s", "bar 1/2; R s", ctas=False),
    row("bar-arrive: read before the sync", "R", "S1b", "W s; bararr 1/2", "R s; bar 1/2", ctas=False),
    row("warp", "R", "S7", "W s; shfl; 1:R s"),
    row("warp: bar.warp.sync", "O", "S7", "W s; ws; 1:R s"),
    row("cl-bar", "O", "S1c", "W x; carr; cwait", "carr; cwait; R x"),
    row("cl-bar: arrive.relaxed", "R", "S1c", "W x; carr.rlx; cwait", "carr; cwait; R x"),
    row("cl-bar: a fence before it", "O", "S1c", "W x; F.cluster; carr.rlx; cwait", "carr; cwait; R x"),
    row("cl-bar: a fence of the CTA before it", "R", "S1c", "W x; F.cta; carr.rlx; cwait", "carr; cwait; R x"),
    placed(
        "cl-bar: a fence of the CTA, in one CTA",
        "O",
        "S1c",
        w00="W s; F.cta; carr.rlx; cwait",
        w01="carr; cwait; R s",
        w10="carr; cwait",
        w11="carr; cwait",
    ),
    row("mb-elect", "R", "M3", "W s; 1:W sb; arr b", "wait b=0; R sb", ctas=False, b=1),
    row("mb-elect: bar.warp.sync before", "O", "M3", "W s; 1:W sb; ws; arr b", "wait b=0; R sb", ctas=False, b=1),
    row("mb-one-waits", "R", "M1", "W s; arr b", "wait b=0; 1:R s", ctas=False, b=1),
    row("mb-one-waits: bar.warp.sync after", "O", "M1", "W s; arr b", "wait b=0; ws; 1:R s", ctas=False, b=1),
    row("mb-rlx", "R", "M2", "W s; arr.rlx.cta b", "wait b=0; R s", ctas=False, b=1),
    row("mb-rlx: fences", "O", "M2", "W s; F.cta; arr.rlx.cta b", "wait.rlx.cta b=0; F.cta; R s", ctas=False, b=1),
    row("mb-remote", "R", "M3", "W x; arr.cluster b@1", "wait b=0; R x", b=1),
    row("mb-remote: .cluster at both ends", "O", "M3", "W x; arr.cluster b@1", "wait.cluster b=0; R x", b=1),
    row("mb-remote: after a read", "W", "M3", "R x; arr b@1", "wait b=0; W x", b=1),
    row("mb-remote: after reads of two warps", "W", "M3", "R x; ws; 1:R x; 1:arr b@1; arr b@1", "wait b=0; W x", b=2),
    row(
        "mb-remote: after a read, .cluster at both ends",
        "O",
        "M3",
        "R x; arr.cluster b@1",
        "wait.cluster b=0; W x",
        b=1,
    ),
    row("mb-remote: after a read, told before it", "R", "M3", "arr b@1; R x", "wait b=0; W x", b=1),
    row("mb-remote: after a read, relaxed", "R", "M3", "R x; arr.rlx.cluster b@1", "wait b=0; W x", b=1),
    row("mb-gap", "R", "M4", "arr b; W s; wait b=0", "arr b; wait b=0; R s", ctas=False, b=2),
    row("mb-gap: cluster barrier", "R", "M4", "carr; W x; cwait", "carr; cwait; R x"),
    row("mb-init", "O", "M6", "init b=2; sync; arr b; wait b=0", "sync; arr b; wait b=0", ctas=False),
    row("mb-init: no barrier", "R", "M6", "init b=1; wait b=0", "arr b", ctas=False),
    row(
        "mb-init: another's arrival", "R", "M6", "init b=2; arr b; sync; wait b=0", "arr b; sync; wait b=0", ctas=False
    ),
    row("mb-init: a wait before it", "R", "M6", "init b=1; arr b", "wait b=0", ctas=False),
    row("px-store", "O", "P1", "W s; fpa; bar 1/2", "bar 1/2; cp t s; commit b; *:wait b=0", ctas=False, b=1),
    row(
        "px-store: fence after the barrier",
        "O",
        "P1",
        "W s; bar 1/2",
        "bar 1/2; fpa; cp t s; commit b; *:wait b=0",
        ctas=False,
        b=1,
    ),
    row("px-none", "P", "P3", "W s; bar 1/2", "bar 1/2; cp t s; commit b; *:wait b=0", ctas=False, b=1),
    row("px-none: one thread", "P", "P3", "W s; cp t s; commit b; *:wait b=0", b=1),
    row("px-none: fence before the store", "P", "P3", "fpa; W s; cp t s; commit b; *:wait b=0", b=1),
    row(
        "px-store: fence by another warp, before the operation",
        "O",
        "P1",
        "W s; bar 1/2",
        "bar 1/2; fpa; bar 2/2",
        "bar 2/2; cp t s; commit b; *:wait b=0",
        ctas=False,
        b=1,
    ),
    row(
        "px-none: fence by another warp, unordered with the operation",
        "P",
        "P1",
        "W s; bar 1/3",
        "bar 1/3; cp t s; commit b; *:wait b=0",
        "bar 1/3; fpa",
        ctas=False,
        b=1,
    ),
    row("px-none: fence by another lane", "P", "P1", "W s; ws; 1:fpa; cp t s; commit b; *:wait b=0", b=1),
    row("px-store: fence by another lane, met", "O", "P1", "W s; ws; 1:fpa; ws; cp t s; commit b; *:wait b=0", b=1),
    row("px-none: fence of global memory", "P", "P1", "W s; fpag; cp t s; commit b; *:wait b=0", b=1),
    row("px-cluster", "P", "P2", "W s@1; fpa; arr.cluster ba@1", f"wait.cluster ba=0; {COPY}", b=1, ba=1),
    row("px-cluster: fence there", "O", "P2", "W s@1; arr.cluster ba@1", f"wait.cluster ba=0; fpa; {COPY}", b=1, ba=1),
    row("px-pair", "O", "P2", "W s; fpa.rel.cluster; bar 1/2", f"bar 1/2; fpa.acq.cluster; {COPY}", ctas=False, b=1),
    row("px-pair: no acquire", "P", "P2", "W s; fpa.rel.cluster; bar 1/2", f"bar 1/2; {COPY}", ctas=False, b=1),
    row("px-pair: no release", "P", "P2", "W s; bar 1/2", f"bar 1/2; fpa.acq.cluster; {COPY}", ctas=False, b=1),
    row(
        "px-pair: release before the store",
        "P",
        "P2",
        "fpa.rel.cluster; W s; bar 1/2",
        f"bar 1/2; fpa.acq.cluster; {COPY}",
        ctas=False,
        b=1,
    ),
    row(
        "px-pair: relaxed",
        "O",
        "P2",
        "W s; fpa.rel.cluster; arr.rlx.cluster ba",
        f"wait.rlx.cluster ba=0; fpa.acq.cluster; {COPY}",
        ctas=False,
        b=1,
        ba=1,
    ),
    row("px-load", "O", "P4", "put s b", "wait b=0; R s; W s", ctas=False, b=1),
    row("px-load: another lane", "R", "M1", "put s b", "wait b=0; 1:R s", ctas=False, b=1),
    row("px-load: another lane, bar.warp.sync", "O", "M1", "put s b", "wait b=0; ws; 1:R s", ctas=False, b=1),
    row("px-load: relaxed wait", "R", "P7", "put s b", "wait.rlx.cta b=0; R s", ctas=False, b=1),
    row("px-load: no wait", "R", "S8", "put s b; R s", b=1),
    row("px-war", "P", "P3", "R s; arr b", f"wait b=0; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: fence before the arrive", "O", "P3", "R s; fpa; arr b", f"wait b=0; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: fence after the wait", "O", "P3", "R s; arr b", f"wait b=0; fpa; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: fence before the load", "P", "P3", "fpa; R s; arr b", f"wait b=0; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: fence of global memory", "P", "P1", "R s; fpag; arr b", f"wait b=0; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: a store", "P", "P3", "W s; arr b", f"wait b=0; {PUT}", ctas=False, b=1, ba=1),
    row("px-war: one thread", "P", "P3", f"R s; {PUT}", ba=1),
    row("px-war: no arrive", "R", "S8", "R s", PUT, ctas=False, ba=1),
    row("px-war: after cp.async", "P", "P3", f"cpa s x; cpcom; cpwait=0; {PUT}", ba=1),
    row("px-war: after cp.async, fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpa; {PUT}", ba=1),
    row("px-war: two writes", "R", "S8", f"put s b; {PUT}; wait b=0", b=1, ba=1),
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
    row(
        "px-global: in one CTA, fence by the writer",
        "O",
        "P1",
        "W x; fpag; bar 1/2",
        f"bar 1/2; {GET}",
        ctas=False,
        b=1,
    ),
    row("px-global: in one CTA", "P", "P3", "W x; bar 1/2", f"bar 1/2; {GET}", ctas=False, b=1),
    row("px-global: one thread", "P", "P3", f"W x; {GET}", b=1),
    row("px-global: one thread, fence", "O", "P1", f"W x; fpag; {GET}", b=1),
    row("px-global: an atomic", "P", "P3", f"add.rlx.gpu x; {GET}", b=1),
    row("px-global: after the unit's write", "O", "P4", f"{OVER}; R x; W x", b=1),
    row("px-global: two units' turns", "O", "P5", f"{OVER}; get x ba; wait ba=0", b=1, ba=1),
    row("px-global: two units, no wait between", "R", "P5", "put x b; get x ba; wait b=0; wait ba=0", b=1, ba=1),
    row("px-global: two units write", "R", "P5", "put x b; put x ba; wait b=0; wait ba=0", b=1, ba=1),
    row("px-global: a unit writes what another reads", "R", "P5", "get x b; put x ba; wait b=0; wait ba=0", b=1, ba=1),
    row("px-global-war", "P", "P3", f"R x; {OVER}", b=1),
    row("px-global-war: fence", "O", "P1", f"R x; fpag; {OVER}", b=1),
    row("px-global-war: fence before the load", "P", "P3", f"fpag; R x; {OVER}", b=1),
    row("px-global-war: fence of shared memory", "P", "P1", f"R x; fpa; {OVER}", b=1),
    row("px-global-war: a store", "P", "P3", f"W x; {OVER}", b=1),
    row("px-global-war: of another CTA", "P", "P2", "R x; W.rel.gpu f", f"R.acq.gpu f=1; {OVER}", b=1),
    row("px-global-war: of another CTA, fence", "O", "P2", "R x; W.rel.gpu f", f"R.acq.gpu f=1; fpag; {OVER}", b=1),
    row("px-global-war: of another CTA, its fence", "P", "P2", "R x; fpag; W.rel.gpu f", f"R.acq.gpu f=1; {OVER}", b=1),
    row(
        "px-global-war: two loads", "P", "P3", "R x; bar 1/3", "R x; fpag; bar 1/3", f"bar 1/3; {OVER}", ctas=False, b=1
    ),
    row(
        "px-global-war: two loads, fences",
        "O",
        "P1",
        "R x; fpag; bar 1/3",
        "R x; fpag; bar 1/3",
        f"bar 1/3; {OVER}",
        ctas=False,
        b=1,
    ),
    row(
        "px-global: two atomics",
        "P",
        "P3",
        "add.rlx.gpu x; bar 1/3",
        "add.rlx.gpu x; fpag; bar 1/3",
        f"bar 1/3; {GET}",
        ctas=False,
        b=1,
    ),
    row("px-global-war: a copy's load", "P", "P3", f"cpa s x; cpcom; cpwait=0; {OVER}", b=1),
    row("px-global-war: a copy's load, fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpag; {OVER}", b=1),
    row("px-none: fence by another lane than the store's", "P", "P1", f"1:W s; fpa; ws; {COPY}", b=1),
    row("px-store: fence by another lane than the store's, met", "O", "P1", f"1:W s; ws; fpa; {COPY}", b=1),
    row("px-war: fence by another lane than the load's", "P", "P1", f"1:R s; fpa; ws; {PUT}", ba=1),
    row("px-war: fence by another lane than the load's, met", "O", "P1", f"1:R s; ws; fpa; {PUT}", ba=1),
    row(
        "px-store: sc chain",
        "O",
        "S1a",
        "W s; fpa; F.sc.cta; bar 1/2",
        "bar 1/2; W.rlx.cta f",
        "R.rlx.cta f=1; bar 2/2",
        f"bar 2/2; F.sc.cta; {COPY}",
        ctas=False,
        b=1,
    ),
    row(
        "px-store: sc chain, fence after it",
        "P",
        "S1a",
        "W s; F.sc.cta; fpa; bar 1/2",
        "bar 1/2; W.rlx.cta f",
        "R.rlx.cta f=1; bar 2/2",
        f"bar 2/2; F.sc.cta; {COPY}",
        ctas=False,
        b=1,
    ),
    row(
        "px-store: sc chain of the GPU",
        "O",
        "S1a",
        "W s; fpa; F.sc.gpu; bar 1/2",
        "bar 1/2; W.rlx.gpu f",
        "R.rlx.gpu f=1; bar 2/2",
        f"bar 2/2; F.sc.gpu; {COPY}",
        ctas=False,
        b=1,
    ),
    row(
        "px-load: sc chain",
        "O",
        "S1a",
        "put s b; wait b=0; F.sc.cta; bar 1/2",
        "bar 1/2; W.rlx.cta f",
        "R.rlx.cta f=1; bar 2/2",
        "bar 2/2; F.sc.cta; R s",
        ctas=False,
        b=1,
    ),
    row(
        "px-load: sc chain, waited after it",
        "R",
        "S1a",
        "put s b; F.sc.cta; bar 1/2; wait b=0",
        "bar 1/2; W.rlx.cta f",
        "R.rlx.cta f=1; bar 2/2",
        "bar 2/2; F.sc.cta; R s",
        ctas=False,
        b=1,
    ),
    row("px-get", "O", "P1", "W s; fpa; get s b; wait b=0", b=1),
    row("px-get: no fence", "P", "P3", "W s; get s b; wait b=0", b=1),
    row("px-get: no wait", "R", "S8", "W s; fpa; get s b; W s; wait b=0", b=1),
    row("tma-past", "R", "P7", "W sb; put s b", "wait b=0; R sb", ctas=False, b=1),
    row("cpa", "O", "P7", "cpa s x; cpcom; cpwait=0; bar 1/2", "bar 1/2; R s", ctas=False),
    row("cpa: wait after the barrier", "R", "P7", "cpa s x; cpcom; bar 1/2; cpwait=0", "bar 1/2; R s", ctas=False),
    row("cpa: no barrier", "R", "P7", "cpa s x; cpcom; cpwait=0", "R s", ctas=False),
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
    row("cpa: after another's load", "R", "S8", "R s", "cpa s x; cpcom; cpwait=0", ctas=False),
    row("cpa: for a unit", "P", "P3", f"cpa s x; cpcom; cpwait=0; {COPY}", b=1),
    row("cpa: for a unit, proxy fence", "O", "P1", f"cpa s x; cpcom; cpwait=0; fpa; {COPY}", b=1),
    row("cpa: for a unit, proxy fence before the wait", "P", "P1", f"cpa s x; cpcom; fpa; cpwait=0; {COPY}", b=1),
    row("cpa-mb", "O", "P7", "W sb; cpa s x; cparr b", "wait b=0; R s", ctas=False, b=1),
    row("cpa-mb: what the thread did besides", "R", "P7", "W sb; cpa s x; cparr b", "wait b=0; R sb", ctas=False, b=1),
    row("cpa-mb: copy after the arrive", "R", "P7", "cparr b; cpa s x", "wait b=0; R s", ctas=False, b=1),
    row("cpa-mb: another thread's copy", "R", "P7", "cpa s x; ws; 1:cparr b", "wait b=0; R s", ctas=False, b=1),
    row("cpa-mb: relaxed wait", "R", "P7", "cpa s x; cparr b", "wait.rlx.cta b=0; R s", ctas=False, b=1),
    row("cpa-mb: another lane waits", "R", "M1", "cpa s x; cparr b", "wait b=0; 1:R s", ctas=False, b=1),
    row("cpa-mb: source overwritten", "O", "P7", "cpa s x; cparr b", "wait b=0; W x", ctas=False, b=1),
    row("cpa-mb: for a unit", "P", "P3", "cpa s x; cparr ba", f"wait ba=0; {COPY}", ctas=False, b=1, ba=1),
    row(
        "cpa-mb: for a unit, proxy fence",
        "O",
        "P1",
        "cpa s x; cparr ba",
        f"wait ba=0; fpa; {COPY}",
        ctas=False,
        b=1,
        ba=1,
    ),
    row("px-pair: for threads", "O", "P2", f"W s; fpa.rel.cluster; {TOLD}", f"{HEARD}; fpa.acq.cluster; R s", **NEAR),
    row("px-pair: global data", "R", "P2", f"W x; fpa.rel.cluster; {TOLD}", f"{HEARD}; fpa.acq.cluster; R x", **NEAR),
    row("sync_restrict", "O", "P2", f"W s; Fs.rel.cluster; {TOLD}", f"{HEARD}; Fs.acq.cluster; R s", **NEAR),
    row(
        "sync_restrict: global data", "R", "P2", f"W x; Fs.rel.cluster; {TOLD}", f"{HEARD}; Fs.acq.cluster; R x", **NEAR
    ),
    row("sync_restrict: release alone", "R", "P2", f"W x; Fs.rel.cluster; {TOLD}", f"{HEARD}; F.cta; R x", **NEAR),
    row("sync_restrict: acquire alone", "R", "P2", f"W x; F.cta; {TOLD}", f"{HEARD}; Fs.acq.cluster; R x", **NEAR),
    row("sync_restrict: with a fence", "O", "P2", f"W s; F.cta; {TOLD}", f"{HEARD}; Fs.acq.cluster; R s", **NEAR),
    row(
        "sync_restrict: a fence besides",
        "O",
        "S2",
        f"W x; F.cta; Fs.rel.cluster; {TOLD}",
        f"{HEARD}; F.cta; R x",
        **NEAR,
    ),
    row(
        "sync_restrict: handed on",
        "O",
        "S4",
        f"W s; Fs.rel.cluster; {TOLD}",
        f"{HEARD}; Fs.acq.cluster; bar 1/2",
        "bar 1/2; R s",
        **NEAR,
    ),
    row("tc-commit", "O", "T3", "cp t s; commit b; *:wait b=0", "*:wait b=0; after; tld t; wld; use", ctas=False, b=1),
    row(
        "tc-commit: no after", "T", "T3", "cp t s; commit b; *:wait b=0", "*:wait b=0; tld t; wld; use", ctas=False, b=1
    ),
    row("tc-commit: no after in the same warp", "T", "T3", "cp t s; commit b; *:wait b=0; tld t; wld; use", b=1),
    row(
        "tc-ld-cp",
        "O",
        "T4",
        "tld t; wld; use; before; arr b",
        "*:wait b=0; after; cp t s; commit ba; *:wait ba=0",
        ctas=False,
        b=1,
        ba=1,
    ),
    row(
        "tc-ld-cp: no wait::ld",
        "R",
        "T4",
        "tld t; before; arr b; wld; use",
        "*:wait b=0; after; cp t s; commit ba; *:wait ba=0",
        ctas=False,
        b=1,
        ba=1,
    ),
    row(
        "tc-cross",
        "O",
        "T2",
        "tst t; wst; before; arr.rlx.cta b",
        "*:wait.rlx.cta b=0; after; tld t; wld; use",
        ctas=False,
        b=1,
    ),
    row(
        "tc-cross: no before",
        "R",
        "T2",
        "tst t; wst; arr.rlx.cta b",
        "*:wait.rlx.cta b=0; after; tld t; wld; use",
        ctas=False,
        b=1,
    ),
    row(
        "tc-cross: no before, and no relaxed meeting",
        "T",
        "T2",
        "tst t; wst; arr b",
        "*:wait b=0; after; tld t; wld; use",
        ctas=False,
        b=1,
    ),
    row("tc-smem", "O", "T3", "cp t s; commit b; *:wait b=0", "wait b=0; W s", ctas=False, b=1),
    row("tc-smem: no wait", "R", "T3", "cp t s; commit b; *:wait b=0", "W s", ctas=False, b=1),
)
