"""Queues, locks and barriers that threads build from memory, as rows: each right, and with one step done wrong."""

from __future__ import annotations

from dataclasses import dataclass

PREAMBLE = r"""
typedef unsigned u32;
typedef unsigned long long u64;
#define LOAD(NAME, ORDER) __device__ u32 NAME(const u32* p) { u32 v; \
    asm volatile("ld." ORDER ".u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
#define STORE(NAME, ORDER) __device__ void NAME(u32* p, u32 v) { \
    asm volatile("st." ORDER ".u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
#define ATOM(NAME, OP) __device__ u32 NAME(u32* p, u32 v) { u32 o; \
    asm volatile("atom." OP " %0, [%1], %2;" : "=r"(o) : "l"(p), "r"(v) : "memory"); return o; }
#define CAS(NAME, ORDER) __device__ u32 NAME(u32* p, u32 c, u32 v) { u32 o; \
    asm volatile("atom." ORDER ".cas.b32 %0, [%1], %2, %3;" : "=r"(o) : "l"(p), "r"(c), "r"(v) : "memory"); return o; }
LOAD(look, "relaxed.gpu") LOAD(acquire, "acquire.gpu") LOAD(acquire_cta, "acquire.cta") LOAD(seen, "volatile")
STORE(put, "relaxed.gpu") STORE(release, "release.gpu") STORE(release_cta, "release.cta") STORE(shown, "volatile")
STORE(weakly, "weak")
LOAD(weak, "weak")
ATOM(add, "relaxed.gpu.add.u32") ATOM(add_acquire, "acquire.gpu.add.u32") ATOM(add_release, "release.gpu.add.u32")
ATOM(add_both, "acq_rel.gpu.add.u32") ATOM(swap, "acq_rel.gpu.exch.b32") ATOM(swap_release, "release.gpu.exch.b32")
CAS(cas, "relaxed.gpu") CAS(cas_acquire, "acquire.gpu") CAS(cas_release, "release.gpu")
#define FENCE asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define MEET asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
#define BEGIN MEET
#define END MEET
#define COUNT "red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;"
#define MEET_RELAXED asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory")
__device__ u32 peer(const void* p, u32 rank) { u32 a;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"((u32)__cvta_generic_to_shared(p)), "r"(rank));
    return a; }
"""


@dataclass(frozen=True)
class Pattern:
    """body: of a kernel with arrays a, b, c and out of 256 words, and t and cta of its threads. wanted: what ``out``
    begins with. wrong: what is done instead of a step, ``right -> wrong``, each a race. also: changes that stay right.
    """

    name: str
    ctas: int
    threads: int
    body: str
    wanted: tuple[int, ...]
    wrong: tuple[str, ...]
    also: tuple[str, ...] = ()
    is_cluster: bool = False
    first: tuple[int, ...] = ()  # what a begins with

    def rows(self) -> list[tuple[str, str, bool]]:
        """The name, body, and whether it is right, of the pattern and of each change."""
        changes = [("", True), *((change, True) for change in self.also), *((change, False) for change in self.wrong)]
        return [(f"{self.name}: {change}" if change else self.name, self.changed(change), ok) for change, ok in changes]

    def changed(self, changes: str) -> str:
        body = self.body
        for change in filter(None, changes.split(" AND ")):
            right, wrong = change.split(" -> ")
            assert right in body, f"{self.name} has no {right}"
            body = body.replace(right, wrong)
        return body


QUEUE = """
    if (cta == 0) for (u32 i = 0; i < 6; i++) {
        while (i - acquire(b) >= 2) {} c[i & 1] = i * i + 1; release(a, i + 1); }
    else for (u32 i = 0; i < 6; i++) { while (acquire(a) <= i) {} out[i] = c[i & 1]; release(b, i + 1); }
"""
SHARED_QUEUE = """
    if (cta < 2) for (u32 r = 0; r < 2; r++) {
        u32 at = look(b), s;
        while ((s = acquire(&a[at & 1])) != at || cas(b, at, at + 1) != at) at = look(b);
        c[at & 1] = 2 * cta + r; release(&a[at & 1], at + 1); }
    else for (u32 r = 0; r < 2; r++) {
        u32 at = look(b + 1), s;
        while ((s = acquire(&a[at & 1])) != at + 1 || cas(b + 1, at, at + 1) != at) at = look(b + 1);
        u32 v = c[at & 1]; release(&a[at & 1], at + 2); out[v] = v + 1; }
"""
STACK = """
    if (cta < 2) { u32 n = cta + 1, top = look(a), o; c[n] = 100 + n;
        for (;;) { put(&b[n], top); if ((o = cas_release(a, top, n)) == top) break; top = o; } }
    else for (;;) { u32 top = acquire(a); if (!top) continue;
        if (cas_acquire(a, top, look(&b[top])) == top) { out[top - 1] = c[top]; break; } }
"""
LOCK_OF_A_QUEUE = """
    u32 me = cta + 1, *next = b, *locked = b + 8;
    for (u32 r = 0; r < 2; r++) {
        put(&next[me], 0); put(&locked[me], 1); u32 before = swap(a, me);
        if (before) { release(&next[before], me); while (acquire(&locked[me])) {} }
        *out += 1;
        if (!acquire(&next[me])) { if (cas_release(a, me, 0) == me) continue; while (!acquire(&next[me])) {} }
        release(&locked[look(&next[me])], 0); }
"""
PETERSON = """
    put(&a[cta], 1); put(b, 1 - cta); __threadfence();
    while (acquire(&a[1 - cta]) && acquire(b) == 1 - cta) {}
    *out += 1; release(&a[cta], 0);
"""
SEMAPHORE = """
    u32 free; do { free = look(a); } while (!free || cas_acquire(a, free, free - 1) != free);
    *out += 1; add_release(a, 1);
"""
SEQUENCE = """
    if (cta == 0) for (u32 i = 1; i < 3; i++) {
        put(a, 2 * i - 1); FENCE; put(b, i); put(b + 1, i); release(a, 2 * i); }
    else { u32 x, y, s;
        do { while ((s = acquire(a)) & 1) {} x = look(b); y = look(b + 1); FENCE; } while (look(a) != s);
        *out = x - y; }
"""
SENSE = """
    u32 sense = 0, sum = 0;
    for (u32 r = 0; r < 2; r++) { c[cta] = 10 * r + cta;
        sense ^= 1; if (add_both(a, 1) == 2) { put(a, 0); release(b, sense); } else while (acquire(b) != sense) {}
        sum += c[(cta + 1) % 3];
        sense ^= 1; if (add_both(a, 1) == 2) { put(a, 0); release(b, sense); } else while (acquire(b) != sense) {} }
    out[cta] = sum;
"""
ROUNDS = """
    c[cta] = cta + 1;
    for (u32 r = 0; r < 2; r++) {
        release(&a[4 * r + (cta + (1 << r)) % 4], 1); while (!acquire(&a[4 * r + cta])) {} }
    out[cta] = c[0] + c[1] + c[2] + c[3];
"""
IN_ORDER = """
    u32 sum = 100 * (cta + 1) + t;
    if (cta > 0) { if (t == 0) while (acquire(a) != cta) {} __syncthreads(); sum += c[t]; }
    if (cta < 3) { c[t] = sum; __syncthreads(); if (t == 0) add_release(a, 1); } else out[t] = sum;
"""
LOOK_BACK = """
    __shared__ u32 before; u32 own = cta + 3;
    if (t == 0) { b[cta] = own; release(&a[cta], 1); }
    if (t < 32) { u32 sum = 0, state = 2, v = 0; int at = (int)cta - 1 - (int)t;
        if (at >= 0) { while (!(state = acquire(&a[at]))) {} v = state == 2 ? c[at] : b[at]; }
        u32 full = __ffs(__ballot_sync(~0u, state == 2)) - 1; sum = __reduce_add_sync(~0u, t <= full ? v : 0);
        if (t == 0) { c[cta] = sum + own; release(&a[cta], 2); before = sum; } }
    __syncthreads(); if (t == 63) out[cta] = before;
"""
PERSISTENT = """
    __shared__ u32 next;
    for (;;) { if (t == 0) next = atomicAdd(a, 1); __syncthreads(); u32 i = next; __syncthreads();
        if (i >= 4) break; out[i * 64 + t] = i; }
"""
GRID = """
    c[cta * 32 + t] = cta + 1; __syncthreads();
    if (t == 0) { __threadfence(); u32 old = add(a, cta ? 1 : 0x80000000u - 2);
        while (!((old ^ seen(a)) & 0x80000000u)) {} __threadfence(); }
    __syncthreads(); out[cta * 32 + t] = c[(cta + 1) % 3 * 32 + t];
"""
CLUSTER = """
    __shared__ u32 sums[2]; u32 own = __reduce_add_sync(~0u, t + cta);
    BEGIN;
    if (t < 2) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(peer(&sums[cta], t)), "r"(own) : "memory");
    END;
    if (t == 0) out[cta] = sums[0] + sums[1];
"""
CLUSTER_COUNTS = """
    __shared__ u32 counts[8]; if (t < 8) counts[t] = 0;
    BEGIN;
    asm volatile(COUNT :: "r"(peer(&counts[t % 8], t / 8 % 2)) : "memory");
    END;
    if (t < 8) out[cta * 8 + t] = counts[t];
"""

PATTERNS = (
    Pattern("a queue of one producer", 2, 1, QUEUE, (1, 2, 5, 10, 17, 26), (
        "release(a -> put(a", "acquire(a) -> look(a)", "release(b -> put(b", "acquire(b) -> look(b)",
        "release(a -> release_cta(a",
    ), (">= 2 -> >= 1",)),
    Pattern("a queue of several producers", 4, 1, SHARED_QUEUE, (1, 2, 3, 4), (
        "release(&a[at & 1], at + 1) -> put(&a[at & 1], at + 1)",
        "release(&a[at & 1], at + 2) -> put(&a[at & 1], at + 2)",
        "(s = acquire(&a[at & 1])) != at + 1 -> (s = look(&a[at & 1])) != at + 1",
    ), first=(0, 1)),
    Pattern("a stack", 4, 1, STACK, (101, 102), (
        "cas_release -> cas", "cas_release -> cas_acquire", "acquire(a); -> look(a); AND cas_acquire(a -> cas(a",
    ), ("acquire(a); -> look(a);", "cas_acquire(a -> cas(a")),
    Pattern("a lock whose takers stand in a queue", 3, 1, LOCK_OF_A_QUEUE, (6,), (
        "release(&locked -> put(&locked", "acquire(&locked -> look(&locked", "cas_release -> cas",
        "swap -> swap_release",
    ), ("release(&next -> put(&next",)),
    Pattern("the lock of Peterson", 2, 1, PETERSON, (2,), (
        "release(&a -> put(&a", "acquire(&a[1 - cta]) -> look(&a[1 - cta]) AND acquire(b) -> look(b)",
    )),
    Pattern("a semaphore", 3, 1, SEMAPHORE, (3,), ("cas_acquire -> cas", "add_release -> add"),
            ("cas_acquire -> cas AND *out += 1 -> FENCE; *out += 1",), first=(1,)),
    Pattern("data under a sequence number", 2, 1, SEQUENCE, (0,), (
        "put(b, i) -> weakly(b, i)", "look(b) -> weak(b)", "put(b, i) -> release_cta(b, i)",
    )),
    Pattern("a barrier of CTAs with a sense", 3, 1, SENSE, (12, 14, 10), (
        "add_both -> add_release", "add_both -> add_acquire", "release(b -> put(b", "acquire(b) -> look(b)",
        "== 2) -> == 1)",
    )),
    Pattern("a barrier of CTAs in rounds", 4, 1, ROUNDS, (10, 10, 10, 10), (
        "release(&a -> put(&a", "acquire(&a -> look(&a", "r < 2 -> r < 1",
        "release(&a[4 * r + (cta + (1 << r)) % 4], 1) -> if (r) put(&a[4 + (cta + 2) % 4], 1); else "
        "release(&a[(cta + 1) % 4], 1)",
    )),
    Pattern("CTAs that add up in order", 4, 64, IN_ORDER, tuple(1000 + 4 * t for t in range(64)), (
        "add_release -> add", "acquire(a) -> look(a)", "!= cta) {} __syncthreads() -> != cta) {}",
        "c[t] = sum; __syncthreads() -> c[t] = sum", "!= cta) -> < cta - 1)",
    ), ("add_release(a, 1) -> { __threadfence(); atomicAdd(a, 1); } AND while (acquire(a) != cta) {} -> "
        "{ while (seen(a) != cta) {} __threadfence(); }",)),
    Pattern("a look back at what CTAs have published", 5, 64, LOOK_BACK, (0, 3, 7, 12, 18), (
        "release(&a[cta], 1) -> put(&a[cta], 1)", "release(&a[cta], 2) -> put(&a[cta], 2)", "acquire(&a -> look(&a",
        "__syncthreads() -> ",
    )),
    Pattern("CTAs that take work by a counter", 3, 64, PERSISTENT, tuple(k // 64 for k in range(256)), (
        "i = next; __syncthreads() -> i = next", "__syncthreads(); u32 -> __syncwarp(); u32",
    )),
    Pattern("a barrier of the grid", 3, 32, GRID, (2,) * 32 + (3,) * 32 + (1,) * 32, (
        "{ __threadfence(); u32 -> { u32", "{} __threadfence(); -> {}", "__threadfence() -> __threadfence_block()",
    )),
    Pattern("sums that CTAs of a cluster send each other", 2, 32, CLUSTER, (1024, 1024), (
        "END -> MEET_RELAXED", "END -> __syncthreads()",
    ), ("BEGIN -> MEET_RELAXED",), is_cluster=True),
    Pattern("counts that CTAs of a cluster share", 2, 64, CLUSTER_COUNTS, (8,) * 16, (
        "COUNT -> \"red.relaxed.cta.shared::cluster.add.u32 [%0], 1;\"", "BEGIN -> MEET_RELAXED",
    ), ("COUNT -> \"red.shared::cluster.add.u32 [%0], 1;\"",), is_cluster=True),
)  # fmt: skip
