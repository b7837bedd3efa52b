"""CUDA texts of the small kernels that `figures` times, one kernel of each text, which is named ``probe``.

A body is repeated in a loop; a kernel notes the clock of each warp before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS, REPEATED = 64, 32  # turns of the loop; bodies of a turn

CLOCKED = """
extern "C" __global__ void __launch_bounds__(1024) probe(unsigned long long* times, unsigned* out, unsigned* data) {
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < SHARED / 4; i += blockDim.x) ((unsigned*)memory)[i] = FILL;
  unsigned r[32], c = out[1] | 1, d = out[2];
  for (int i = 0; i < 32; ++i) r[i] = START;
  __syncthreads();
  SETUP
  __syncthreads();
  unsigned long long t0 = clock64();
  #pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    BODY
  }
  unsigned long long t1 = clock64();
  unsigned sum = 0;
  for (int i = 0; i < 32; ++i) sum += r[i];
  if (sum == 0x12345677u + d) out[0] = sum;
  if (lane == 0) { times[2 * warp] = t0; times[2 * warp + 1] = t1; }
}
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """text: of assembly, with {0} for the register or registers of a chain. registers: of a chain, of which the first
    is read. start: what registers hold at first. operands: of the text behind those. many: instructions of the text.
    """

    name: str
    text: str
    registers: int = 1
    start: str = "threadIdx.x * 77 + i"
    operands: str = '"r"(c), "r"(d)'
    many: int = 1
    fill: str = "0"
    setup: str = ""
    waits: bool = True


OWN_ROW = "base + warp * 1024 + lane * 16"
CHASE = "base + threadIdx.x * 4"
INSTRUCTIONS = (
    Instruction("fma", "fma.rn.f32 {0}, {0}, {c}, {d};"),
    Instruction("add f32", "add.rn.f32 {0}, {0}, {c};"),
    Instruction("integer mad", "mad.lo.s32 {0}, {0}, {c}, {d};"),
    Instruction("min, max", "min.s32 {0}, {0}, {c}; max.s32 {0}, {0}, {d};", many=2),
    Instruction("shift", "shf.l.wrap.b32 {0}, {0}, {0}, {c};"),
    Instruction("fma f16x2", "fma.rn.f16x2 {0}, {0}, {c}, {d};"),
    Instruction("ex2", "ex2.approx.ftz.f32 {0}, {0};"),
    Instruction("rcp", "rcp.approx.ftz.f32 {0}, {0};"),
    Instruction("rsqrt", "rsqrt.approx.ftz.f32 {0}, {0};"),
    Instruction("cvt bf16x2", "cvt.rn.bf16x2.f32 {0}, {0}, {c};"),
    Instruction("cvt f32 of s32", "cvt.rn.f32.s32 {0}, {0};"),
    Instruction("popc", "popc.b32 {0}, {0};"),
    Instruction("shfl", "shfl.sync.bfly.b32 {0}, {0}, 1, 31, -1;"),
    Instruction("redux", "redux.sync.add.s32 {0}, {0}, -1;"),
    Instruction("vote", "{{ .reg .pred p; setp.lt.s32 p, {0}, {c}; vote.sync.ballot.b32 {0}, p, -1; }}"),
    Instruction("selp", "{{ .reg .pred p; setp.lt.s32 p, {0}, {c}; selp.b32 {0}, {d}, {0}, p; }}", many=2),
    Instruction("ld.shared 4", "ld.shared.b32 {0}, [{0}];", start=CHASE, fill="base + i * 4"),
    Instruction("ld.shared 8", "ld.shared.v2.b32 {{{0}, {1}}}, [{0}];", 2, "base + threadIdx.x * 8",
                fill="base + i / 2 * 8"),
    Instruction("ld.shared 16", "ld.shared.v4.b32 {{{0}, {1}, {2}, {3}}}, [{0}];", 4, "base + threadIdx.x * 16",
                fill="base + i / 4 * 16"),
    Instruction("ld.shared 4, 2 ways", "ld.shared.b32 {0}, [{0}];", start="base + threadIdx.x * 8",
                fill="base + i * 4"),
    Instruction("ld.shared 4, 8 ways", "ld.shared.b32 {0}, [{0}];", start="base + lane * 32 + warp * 4",
                fill="base + i * 4"),
    Instruction("ldmatrix x1", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{0}}}, [{0}];", 1, "base + lane % 8 * 16",
                fill="base + i / 4 * 16"),
    Instruction("ldmatrix x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{0}, {1}, {2}, {3}}}, [{0}];", 4,
                "base + lane * 16", fill="base + i / 4 * 16"),
    Instruction("st.shared 4", "st.shared.b32 [{0}], {c};", start=CHASE, waits=False),
    Instruction("st.shared 16", "st.shared.v4.b32 [{0}], {{{c}, {c}, {d}, {d}}};", 1, "base + threadIdx.x * 16",
                waits=False),
    Instruction("stmatrix x4", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{0}], {{{c}, {c}, {d}, {d}}};", 1,
                "base + lane * 16 + warp * 512", waits=False),
    Instruction("atom.shared, own places", "atom.shared.add.u32 {0}, [{0}], 0;", start=CHASE, fill="base + i * 4"),
    Instruction("atom.shared, one place", "atom.shared.add.u32 {0}, [{0}], 0;", start="base", fill="base"),
    Instruction("red.shared, own places", "red.shared.add.u32 [{0}], 1;", start=CHASE, waits=False),
    Instruction("red.shared, one place", "red.shared.add.u32 [{0}], 1;", start="base", waits=False),
    Instruction("red.shared, two of a bank", "red.shared.add.u32 [{0}], 1;", start="base + lane * 8", waits=False),
    Instruction("mma f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{0},{1},{2},{3}}}, {{{c},{c},{d},{d}}},"
                " {{{c},{d}}}, {{{0},{1},{2},{3}}};", 4),
    Instruction("mma tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{0},{1},{2},{3}}}, "
                "{{{c},{c},{d},{d}}}, {{{c},{d}}}, {{{0},{1},{2},{3}}};", 4),
    Instruction("mma s8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{0},{1},{2},{3}}}, {{{c},{c},{d},{d}}},"
                " {{{c},{d}}}, {{{0},{1},{2},{3}}};", 4),
    Instruction("bar.sync", "bar.sync 0;"),
    Instruction("bar.warp.sync", "bar.warp.sync -1;"),
    Instruction("fence.proxy.async", "fence.proxy.async.shared::cta;"),
    Instruction("membar.gl", "membar.gl;"),
    Instruction("mbarrier, arrive and wait", "{{ .reg .b64 s; .reg .pred p; mbarrier.arrive.shared.b64 s, [{1}]; "
                "W: mbarrier.try_wait.shared.b64 p, [{1}], s; @!p bra W; }}", 2, "base",
                setup='if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" '
                      ':: "r"(base), "r"(blockDim.x)); __syncthreads();'),
    Instruction("ld.global, first level", "ld.global.ca.b32 {0}, [%{wide}];", operands='"l"(data + threadIdx.x)'),
    Instruction("red.global, own places", "red.global.add.u32 [%{wide}], 1;", waits=False,
                operands='"l"(data + 1024 * blockIdx.x + threadIdx.x)'),
    Instruction("red.global, one place", "red.global.add.u32 [%{wide}], 1;", waits=False, operands='"l"(data)'),
    Instruction("atom.global, one place", "atom.global.add.u32 {0}, [%{wide}], 1;", operands='"l"(data)'),
)  # fmt: skip


def instruction_text(row: Instruction, chains: int, repeated: int = REPEATED) -> str:
    """The probe of an instruction, with so many chains that do not wait for each other."""
    body = []
    for number in range(repeated):
        names = [f"%{k}" for k in range(row.registers)]
        wide = row.registers
        text = row.text.format(*names, c=f"%{row.registers}", d=f"%{row.registers + 1}", wide=wide)
        first = number % chains * row.registers
        outputs = ", ".join(f'"+r"(r[{first + k}])' for k in range(row.registers))
        body.append(f'asm volatile("{text.replace("W:", "W%=:").replace("bra W;", "bra W%=;")}" : {outputs} '
                    f': {row.operands} : "memory");')  # fmt: skip
    return _clocked("\n    ".join(body), row.start, row.setup, row.fill)


def _clocked(body: str, start: str, setup: str = "", fill: str = "0", shared: int = 65536) -> str:
    text = CLOCKED.replace("ROUNDS", str(ROUNDS)).replace("SHARED", str(shared))
    return text.replace("START", start).replace("SETUP", setup).replace("FILL", fill).replace("BODY", body)


def wgmma_text(n: int, kind: str, *, from_registers: bool = False) -> str:
    """The probe of a product of a warpgroup, 64 x n, committed and waited for four at a time."""
    k, of = {"bf16": (16, "f32.bf16.bf16"), "e4m3": (32, "f32.e4m3.e4m3")}[kind]
    sums = ", ".join(f"%{i}" for i in range(n // 2))
    outputs = ", ".join(f'"+f"(s[{i}])' for i in range(n // 2))
    left = "{" + ", ".join(f"%{n // 2 + 1 + i}" for i in range(4)) + "}" if from_registers else f"%{n // 2 + 1}"
    last = ", 0" if kind == "bf16" else ""
    last = last if from_registers else last * 2
    operands = '"r"(c), "r"(d), "r"(c), "r"(d)' if from_registers else '"l"(a)'
    text = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{of} {{{sums}}}, {left}, %{n // 2}, 1, 1, 1{last};"
    one = f'asm volatile("{text}" : {outputs} : "l"(b), {operands});'
    fence, commit, wait = (f'asm volatile("wgmma.{word}.sync.aligned;" ::: "memory");'
                           for word in ("fence", "commit_group", "wait_group"))  # fmt: skip
    wait = wait.replace("wait_group.sync.aligned", "wait_group.sync.aligned 0")
    setup = (
        f"float s[{n // 2}]; for (int i = 0; i < {n // 2}; ++i) s[i] = d; "
        "unsigned long long b = 0x4000004000010000ull | (base >> 4 & 0x3fff), "
        "a = 0x4000004000010000ull | ((base + 32768 + warp / 4 * 8192) >> 4 & 0x3fff);"
    )
    body = "\n    ".join([fence, *[one] * 4, commit, wait])
    text = _clocked(body, "0", setup, "0")
    kept = "for (int i = 0; i < N; ++i) sum += __float_as_uint(s[i]);".replace("N", str(n // 2))
    return text.replace("unsigned sum = 0;", "unsigned sum = 0; " + kept).replace("bounds__(1024)", "bounds__(384, 1)")


MEMORY = """
struct alignas(16) Four { unsigned x, y, z, w; };
typedef unsigned short Half;
typedef unsigned char Byte;
extern "C" __global__ void __launch_bounds__(THREADS) probe(const TYPE* a, TYPE* b, unsigned long long count) {
  unsigned long long step = (unsigned long long)gridDim.x * THREADS * MANY;
  unsigned sum = 0;
  for (int again = 0; again < AGAIN; ++again)
  for (unsigned long long at = (unsigned long long)blockIdx.x * THREADS * MANY + threadIdx.x; at < count; at += step) {
    TYPE v[MANY];
    #pragma unroll
    for (int k = 0; k < MANY; ++k) {
      if (READS) v[k] = a[at + k * THREADS]; else v[k] = TYPE{VALUE};
    }
    #pragma unroll
    for (int k = 0; k < MANY; ++k) {
      if (WRITES) b[at + k * THREADS] = v[k]; else sum ^= FIRST;
    }
  }
  if (sum == 0x12345677u) *(unsigned*)b = sum;
}
"""


KIND_OF_WIDTH = {
    16: ("Four", "1, 2, 3, sum", "v[k].x ^ v[k].w"), 4: ("unsigned", "sum", "v[k]"),
    2: ("Half", "(Half)sum", "v[k]"), 1: ("Byte", "(Byte)sum", "v[k]"),
}  # fmt: skip


def memory_text(mode: str, threads: int, many: int, *, width: int = 16, again: int = 1) -> str:
    """The probe of memory: each thread has ``many`` accesses of so many bytes on their way. mode: read, write, copy."""
    kind, value, first = KIND_OF_WIDTH[width]
    text = MEMORY.replace("THREADS", str(threads)).replace("MANY", str(many)).replace("AGAIN", str(again))
    text = text.replace("TYPE", kind).replace("VALUE", value).replace("FIRST", first)
    return text.replace("READS", str(int(mode != "write"))).replace("WRITES", str(int(mode != "read")))


CHASED = """
extern "C" __global__ void probe(unsigned long long* times, const unsigned long long* next, unsigned long long steps) {
  unsigned long long at = (unsigned long long)next;
  for (unsigned long long i = 0; i < steps / 4; ++i) asm volatile("ld.global.cg.b64 %0, [%0];" : "+l"(at));
  unsigned long long t0 = clock64();
  for (unsigned long long i = 0; i < steps; ++i) asm volatile("ld.global.cg.b64 %0, [%0];" : "+l"(at));
  times[0] = t0; times[1] = clock64() + (at == 1);
}
"""

# Bulk copies into a ring of stages: one thread issues, one thread waits; `PIECE` bytes each, `STAGES` on their way.
BULK = """
extern "C" __global__ void __launch_bounds__(128) probe(unsigned long long* times, const char* from,
                                                         unsigned long long bytes, unsigned turns) {
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory), bars = base + PIECE * STAGES;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bars + 8 * i));
    asm volatile("fence.mbarrier_init.release.cluster;");
    unsigned long long t0 = clock64(), first = 0;
    for (unsigned i = 0; i < turns + STAGES; ++i) {
      unsigned bar = bars + 8 * (i % STAGES);
      if (i >= STAGES) {
        asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=; }"
                     :: "r"(bar), "r"((i / STAGES - 1) & 1) : "memory");
        if (i == STAGES) first = clock64();
      }
      if (i < turns) {
        unsigned long long at = ((unsigned long long)i * gridDim.x + blockIdx.x) * PIECE % bytes;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(PIECE) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(base + PIECE * (i % STAGES)), "l"(from + at), "r"(PIECE), "r"(bar) : "memory");
      }
    }
    if (blockIdx.x == 0) { times[0] = t0; times[1] = first; times[2] = clock64(); }
  }
}
"""


def bulk_text(piece: int, stages: int) -> str:
    """The probe of bulk copies."""
    return BULK.replace("PIECE", str(piece)).replace("STAGES", str(stages))


EMPTY = """
extern "C" __global__ void __launch_bounds__(1024) probe(unsigned* out) {
  extern __shared__ __align__(16) unsigned memory[];
  PDL
  if (out[1] == 0x12345677u) out[0] = memory[threadIdx.x];
}
"""
OVERLAPPED = 'asm volatile("griddepcontrol.launch_dependents;"); asm volatile("griddepcontrol.wait;" ::: "memory");'

CLUSTERED = """
extern "C" __global__ void __cluster_dims__(CTAS) __launch_bounds__(128) probe(unsigned long long* times) {
  extern __shared__ __align__(16) unsigned memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory), other;
  memory[threadIdx.x] = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(base), "r"(CTAS - 1));
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  unsigned long long t0 = clock64();
  for (int i = 0; i < 64; ++i) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  unsigned long long t1 = clock64();
  unsigned offset = 0;
  for (int i = 0; i < 64; ++i)
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(offset) : "r"(other + offset) : "memory");
  unsigned long long t2 = clock64();
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (blockIdx.x == 0 && threadIdx.x == 0) { times[0] = t0; times[1] = t1; times[2] = t2 + offset; }
}
"""

# Each thread of a CTA sends 16 bytes to each other CTA of its cluster, so many times; then all wait for as many.
SENT = """
extern "C" __global__ void __cluster_dims__(CTAS) __launch_bounds__(THREADS) probe(unsigned long long* times,
                                                                                   unsigned long long rounds) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory), rank, bar = base + CTAS * THREADS * 16;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 :: "r"(bar), "r"((unsigned)rounds * (CTAS - 1) * THREADS * 16) : "memory");
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  unsigned long long t0 = clock64();
  for (unsigned round = 0; round < rounds; ++round) {
    #pragma unroll
    for (unsigned other = 1; other < CTAS; ++other) {
      unsigned to = (rank + other) % CTAS, there, told;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                   : "=r"(there) : "r"(base + (rank * THREADS + threadIdx.x) * 16), "r"(to));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(told) : "r"(bar), "r"(to));
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];"
                   :: "r"(there), "r"(round), "r"(told) : "memory");
    }
  }
  asm volatile("{ .reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W%=; }"
               :: "r"(bar) : "memory");
  unsigned long long t1 = clock64();
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (blockIdx.x == 0 && threadIdx.x == 0) { times[0] = t0; times[1] = t1; }
}
"""

TIMED = """
extern "C" __global__ void probe(unsigned long long* times) {
  unsigned long long g0, g1, c0, c1;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g0)); c0 = clock64();
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g1)); c1 = clock64(); } while (g1 - g0 < 2000000);
  times[0] = g1 - g0; times[1] = c1 - c0;
}
"""

# A copy by pieces of rows, of 256 threads that have 16 bytes each: a CTA's rows follow each other, CTAs go along the
# rows of the array or down its columns.
PIECES = """
struct alignas(16) Four { unsigned x, y, z, w; };
extern "C" __global__ void __launch_bounds__(256) probe(const Four* a, Four* b) {
  const unsigned wide = PIECE / 16, high = 256 / wide, pitch = PITCH / 16;
  unsigned row = threadIdx.x / wide, at = threadIdx.x % wide, id = blockIdx.x;
  unsigned along = (id / (pitch / wide) * high + row) * pitch + id % (pitch / wide) * wide + at;
  unsigned down = (id % (ROWS / high) * high + row) * pitch + id / (ROWS / high) * wide + at;
  Four v = {along, down, 2, 3};
  if (READS) v = a[READ_AT];
  __syncthreads();
  if (WRITES) b[WRITE_AT] = v; else if (v.x == 0x12345677u) b[0] = v;
}
"""


def pieces_text(piece: int, reads: str, writes: str, *, pitch: int, rows: int) -> str:
    """The probe of copies by pieces of so many bytes. reads, writes: "along", "down", or "" for none."""
    text = PIECES.replace("PIECE", str(piece)).replace("PITCH", str(pitch)).replace("ROWS", str(rows))
    text = text.replace("READS", str(int(bool(reads)))).replace("WRITES", str(int(bool(writes))))
    return text.replace("READ_AT", reads or "0").replace("WRITE_AT", writes or "0")


# Each CTA has BYTES copied at once, by cp.async, waits for all of them, and goes on; some CTAs have the same ones.
BURST = """
extern "C" __global__ void __launch_bounds__(256) probe(unsigned long long* times, const char* from,
                                                         unsigned long long bytes, unsigned long long same) {
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned base = (unsigned)__cvta_generic_to_shared(memory);
  __syncthreads();
  unsigned long long at = blockIdx.x / same * BYTES % bytes, step = gridDim.x * BYTES;
  unsigned long long t0 = clock64();
  #pragma unroll 1
  for (unsigned round = 0; round < 32; ++round, at = at + step < bytes ? at + step : at + step - bytes) {
    #pragma unroll
    for (unsigned i = 0; i < BYTES / 4096; ++i)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :: "r"(base + (i * 256 + threadIdx.x) * 16), "l"(from + at + (i * 256 + threadIdx.x) * 16));
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }
  unsigned long long t1 = clock64();
  if (threadIdx.x == 0) times[blockIdx.x] = t1 - t0;
}
"""

RANDOM_HALVES = "(i * 2654435761u & 0x83ff83ffu) | 0x38003800u"  # of both signs, from 0.5 to 1


def busy_text(kind: str, rounds: int) -> str:
    """A probe that keeps one unit of an SM busy, for long, with data that differ: fma, mma or wgmma."""
    if kind == "wgmma":
        text = wgmma_text(256, "bf16")
        return text.replace(f"round < {ROUNDS}", f"round < {rounds}").replace("] = 0;", f"] = {RANDOM_HALVES};")
    if kind == "fma":
        body = "\n    ".join(f"r[{i % 16}] = __float_as_uint(fmaf(__uint_as_float(r[{i % 16}]), "
                             f"__uint_as_float(c), __uint_as_float(d)));" for i in range(64))  # fmt: skip
        text = _clocked(body, "0x3f000000u + threadIdx.x * 7919 + i * 104729", "c = 0x3f7ffff0u - threadIdx.x; d = c;")
    else:
        one = (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%4, %5, %6, %7}}, [%8 + {0}]; "
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%6, %5}}, "
            "{{%0, %1, %2, %3}}; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%0, %1, %2, %3}}, "
            "{{%5, %4, %7, %6}}, {{%7, %4}}, {{%0, %1, %2, %3}};"
        )
        lines = []
        for chain in range(8):
            sums = ", ".join(f'"+r"(r[{chain % 4 * 4 + i}])' for i in range(4))
            parts = ", ".join(f'"+r"(r[{16 + chain % 4 * 4 + i}])' for i in range(4))
            text = one.format(chain * 512).replace("{{", "{").replace("}}", "}")
            lines.append(f'asm volatile("{text}" : {sums}, {parts} : "r"(base + lane * 16 + warp * 4096));')
        text = _clocked("\n    ".join(lines), "0", "", RANDOM_HALVES)
    return text.replace(f"round < {ROUNDS}", f"round < {rounds}")
