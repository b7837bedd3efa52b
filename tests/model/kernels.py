"""Small correct kernels with flags, locks, barriers, m-barriers, clusters and tensor memory, as people write them.

Mutants of them (`tests.model.mutants`) measure what a checker of order finds.
"""

from __future__ import annotations

from tests.model.litmus import LAST, SPIN, TICKET
from tests.model.program import Program, program

FENCED_SPIN = "cas.rlx.gpu l=0>1; F.gpu; R x->r; W x=r+1; F.gpu; W.rlx.gpu l=0"
LAST_OF_THREE = "W {0}; F.gpu; add.rlx.gpu c->r; ?r=2 F.gpu; ?r=2 R x; ?r=2 R y; ?r=2 R z"


def ring(stages: int, items: int, *, ahead: bool = True) -> tuple[str, str]:
    """A producer and a consumer that go round ``stages`` buffers with a full and an empty m-barrier each."""
    producer, consumer = [], []
    for item in range(items):
        stage, turn = item % stages, item // stages % 2
        empty = f"wait be{stage}={1 - turn}" if ahead or item >= stages else ""
        producer += [empty, f"W s{stage}={item + 1}", f"arr bf{stage}"]
        consumer += [f"wait bf{stage}={turn}", f"R s{stage}", f"arr be{stage}"]
    return "; ".join(filter(None, producer)), "; ".join(consumer)


def counts(stages: int) -> dict[str, int]:
    return {f"b{kind}{stage}": 1 for kind in "fe" for stage in range(stages)}


def pair(name: str, one: str, other: str, /, **barriers: int) -> Program:
    """Two warps of one CTA."""
    return program(name, {"0.0": one, "0.1": other}, **barriers)


def ctas(name: str, *texts: str, **barriers: int) -> Program:
    """A warp in each of some CTAs."""
    return program(name, {f"{i}.0": text for i, text in enumerate(texts)}, **barriers)


ONE, TWO, THREE = ring(1, 3), ring(2, 4), ring(3, 5, ahead=False)
KERNELS = (
    # Flags and locks in global memory
    ctas("flag", "W x; W.rel.gpu f", "R.acq.gpu f=1; R x"),
    ctas("flag by fences", "W x; F.gpu; W.rlx.gpu f", "R.rlx.gpu f=1; F.gpu; R x"),
    ctas("ping pong", "W x; W.rel.gpu f; R.acq.gpu g=1; R y", "R.acq.gpu f=1; R x; W y; W.rel.gpu g"),
    ctas("relay", "W x; W.rel.gpu f", "R.acq.gpu f=1; R x; W y; W.rel.gpu g", "R.acq.gpu g=1; R x; R y"),
    ctas(
        "relay by fences", "W x; F.gpu; W.rlx.gpu f", "R.rlx.gpu f=1; F.gpu; W.rlx.gpu g", "R.rlx.gpu g=1; F.gpu; R x"
    ),
    ctas("lock", SPIN, SPIN),
    ctas("lock by fences", FENCED_SPIN, FENCED_SPIN),
    ctas("ticket", TICKET, TICKET),
    ctas("last block", LAST.format("x", "y"), LAST.format("y", "x")),
    ctas("last of three", *(LAST_OF_THREE.format(name) for name in "xyz")),
    program(
        "told between fences",
        {
            "0.0": "W x; F.sc.gpu; bar 1/2",
            "0.1": "bar 1/2; add.rlx.gpu f",
            "1.0": "R.rlx.gpu f=1; bar 1/2",
            "1.1": "bar 1/2; F.sc.gpu; R x",
        },
    ),
    ctas("counted in", "W x; red.rel.gpu c", "W y; red.rel.gpu c", "R.acq.gpu c=2; R x; R y"),
    program(
        "CTAs by a flag",
        {
            "0.0": "W x; bar 1/2",
            "0.1": "bar 1/2; F.gpu; W.rlx.gpu f",
            "1.0": "R.rlx.gpu f=1; F.gpu; bar 1/2",
            "1.1": "bar 1/2; R x",
        },
    ),
    # Barriers of a CTA
    pair("handover", "W s; bar 1/2; bar 2/2; W s=2; bar 1/2", "bar 1/2; R s; bar 2/2; bar 1/2; R s"),
    pair("named handover", "W s; bararr 1/2; bar 2/2; W s=2; bararr 1/2", "bar 1/2; R s; bararr 2/2; bar 1/2; R s"),
    pair("double buffer", "W s; sync; R sb; W sc; sync; R sd", "W sb; sync; R s; W sd; sync; R sc"),
    pair("one buffer", "W s; sync; R sb; sync; W s=2; sync; R sb", "W sb; sync; R s; sync; W sb=2; sync; R s"),
    program("sum", {"0.0": "W sa; sync; R sa; R sb; R sc", "0.1": "W sb; sync", "0.2": "W sc; sync"}),
    program(
        "tree",
        {
            "0.0": "W sa; sync; R sb->r; W sa=r+1; sync; R sc",
            "0.1": "W sb; sync; sync",
            "0.2": "W sc; sync; sync; R sa",
        },
    ),
    pair("counter", "red.rlx.cta s; sync; R s", "red.rlx.cta s; sync; R s"),
    program("lanes", {"0.0": "W s; 1:W sb; ws; R sb; 1:R s; ws; W s=2; 1:W sb=2; ws; R sb; 1:R s"}),
    # m-barriers
    pair("told", "W s; arr b", "wait b=0; R s", b=1),
    pair("told by fences", "W s; F.cta; arr.rlx.cta b", "wait.rlx.cta b=0; F.cta; R s", b=1),
    program("two tell", {"0.0": "W s; arr b", "0.1": "W sb; arr b", "0.2": "wait b=0; R s; R sb"}, b=2),
    pair("elected", "W s; 1:W sb; ws; arr b", "wait b=0; ws; R s; 1:R sb", b=1),
    pair(
        "phases",
        "W s; arr b; wait b=0; R sb; arr b; wait b=1; W s=2",
        "W sb; arr b; wait b=0; R s; arr b; wait b=1; W sb=2",
        b=2,
    ),
    pair("ring of one", *ONE, **counts(1)),
    pair("ring of two", *TWO, **counts(2)),
    pair("ring of three", *THREE, **counts(3)),
    pair("made here", "init b=1; sync; W s; arr b", "sync; wait b=0; R s"),
    # Clusters
    ctas("cluster", "W s; carr; cwait; carr; cwait", "carr; cwait; R s@0; carr; cwait"),
    ctas("cluster split", "W x; carr; W y; cwait; carr; cwait", "W z; carr; W v; cwait; R x; carr; cwait; R y"),
    ctas("sent over", "W s@1; carr; cwait", "carr; cwait; R s"),
    ctas("remote", "W x; arr.cluster b@1", "wait.cluster b=0; R x", b=1),
    ctas(
        "remote ring",
        "W s@1=1; arr.cluster bf@1; wait.cluster be=0; W s@1=2; arr.cluster bf@1",
        "wait.cluster bf=0; R s; arr.cluster be@0; wait.cluster bf=1; R s",
        bf=1,
        be=1,
    ),
    # Tensor memory
    pair("copied", "W s; fpa; cp t s; commit b; *:wait b=0", "*:wait b=0; after; tld t; wld; use", b=1),
    pair(
        "copied by another",
        "W s; fpa; bar 1/2; *:wait b=0; after; tld t; wld; use",
        "bar 1/2; cp t s; commit b; *:wait b=0",
        b=1,
    ),
    pair(
        "copied twice",
        "W s; fpa; cp t s; commit b; *:wait be=0; after; W s=2; fpa; cp t s; commit b; *:wait b=1",
        "*:wait b=0; after; tld t; wld; use; before; arr be; *:wait b=1; after; tld t; wld; use",
        b=1,
        be=1,
    ),
    pair("stored", "tst t; wst; before; bar 1/2", "bar 1/2; after; tld t; wld; use"),
    pair("stored and told", "tst t; wst; before; arr b", "*:wait b=0; after; tld t; wld; use", b=1),
    # cp.async
    pair("copied by a thread", "cpa s x; cpcom; cpwait=0; bar 1/2", "bar 1/2; R s"),
    pair(
        "copied ahead",
        "cpa s x; cpcom; cpa sb y; cpcom; cpwait=1; bar 1/2; cpwait=0; bar 2/2",
        "bar 1/2; R s; bar 2/2; R sb",
    ),
    pair(
        "copied and told",
        "cpa s x; cparr bf; wait be=0; cpa s y; cparr bf",
        "wait bf=0; R s; arr be; wait bf=1; R s",
        bf=1,
        be=1,
    ),
    pair("copied for a unit", "cpa s x; cparr bf", "wait bf=0; fpa; cp t s; commit b; *:wait b=0", bf=1, b=1),
    program(
        "staged again",
        {"0.0": "W s; fpa; cp t s; commit b; *:wait b=0; after; W s=2; fpa; cp t s; commit b; *:wait b=1"},
        b=1,
    ),
)
