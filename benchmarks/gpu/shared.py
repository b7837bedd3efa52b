"""Bytes per clock between shared memory and registers, against the limit of 128 and against hand-written CUDA."""

from __future__ import annotations

import statistics

from benchmarks.gpu.kernels import COLUMNS, ROWS, SMS, TILE_BYTES, WARPS, WAYS, Way, moving
from benchmarks.gpu.measure import Claim, HandWritten, Table, compiled

TURNS = 2000
LIMIT = 128.0  # bytes per clock: 32 banks of 4

# The same loop by hand; the swizzle of a row is that of its lane, computed once. {move} moves four times 512 bytes.
SOURCE = """
extern "C" __global__ void __launch_bounds__(1024) by_hand(const uint4* X, uint4* Y, long long* cycles) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem);
  for (unsigned i = tid; i < 4096; i += 1024) ((uint4*)smem)[i ^ ({swizzle})] = X[i];
  __syncthreads();
  unsigned r[16];
  for (int i = 0; i < 16; ++i) r[i] = ((unsigned*)X)[(lane * 16 + i)];
  const unsigned own = base + {lane_offset};
  unsigned place = warp;
  __syncthreads();
  const long long start = clock64();
  #pragma unroll 4
  for (int turn = 0; turn < {turns}; ++turn) {{
    const unsigned at = own + place * 2048;
    {move}
    place = {next};
  }}
  __syncthreads();
  const long long stop = clock64();
  if (tid == 0) cycles[blockIdx.x] = stop - start;
  for (int i = 0; i < 4; ++i)
    Y[(blockIdx.x * 1024 + tid) * 4 + i] = make_uint4(r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]);
}}
"""
OR = " | ".join(f"r[{i}]" for i in range(16))


def by_hand(way: Way) -> HandWritten:
    matrix = way.variant == "ldstmatrix"
    moves = []
    for j in range(4):
        registers = [f"r[{4 * j + i}]" for i in range(4)]
        trans = ".trans" if way.trans else ""
        address = f"at ^ {32 * j}" if matrix else f"at + {512 * j}"
        if matrix:
            opcode = f"{'st' if way.stores else 'ld'}matrix.sync.aligned.m8n8.x4{trans}.shared.b16"
        else:
            opcode = f"{'st' if way.stores else 'ld'}.shared.v4.b32"
        if way.stores:
            inputs = ", ".join(f'"r"({r})' for r in registers)
            text = f'asm volatile("{opcode} [%0], {{%1, %2, %3, %4}};" :: "r"({address}), {inputs} : "memory");'
        else:
            outputs = ", ".join(f'"=r"({r})' for r in registers)
            text = f'asm volatile("{opcode} {{%0, %1, %2, %3}}, [%4];" : {outputs} : "r"({address}) : "memory");'
        moves.append(text)
    source = SOURCE.format(
        swizzle="(i / 8) % 8" if matrix else "0",
        lane_offset="(lane % 16 * 128 + ((lane / 16) ^ (lane % 8)) * 16)" if matrix else "lane * 16",
        turns=TURNS,
        move="\n    ".join(moves),
        next="(place + 1 + (r[0] >> 31)) % 32" if way.stores else f"warp ^ (({OR}) >> 31)",
    )
    return HandWritten(source, "by_hand", 32 * WARPS, WARPS * TILE_BYTES)


def rate(cycles: list[int]) -> float:
    return WARPS * TILE_BYTES * TURNS / statistics.median(cycles)


def run() -> Table:
    import torch

    x = torch.rand(WARPS * ROWS, COLUMNS, device="cuda").half()  # positive: no sign bit, so the place stays
    y = torch.zeros(SMS * WARPS * ROWS, COLUMNS, device="cuda", dtype=torch.half)
    rows, claims, rates = [], [], {}
    for way in WAYS:
        made, hand = compiled(moving(way, TURNS)), by_hand(way)
        found: dict[str, list[int]] = {"ours": [], "by hand": []}
        for _ in range(5):
            cycles = torch.zeros(SMS, dtype=torch.int64, device="cuda")
            made(x, y, cycles)
            found["ours"] += cycles.tolist()
            hand(SMS, x, y, cycles)
            found["by hand"] += cycles.tolist()
        ours, theirs = rate(found["ours"]), rate(found["by hand"])
        rates[way.name] = ours
        rows.append((way.name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / LIMIT:.4f}", f"{ours / theirs:.4f}"))
        claims.append(Claim(f"{way.name}: of 128 bytes per clock", ours / LIMIT, 0.98))
        claims.append(Claim(f"{way.name}: of hand-written CUDA", ours / theirs, 0.98))
    trans = rates["ldmatrix.x4.trans"] / rates["ldmatrix.x4"]
    claims.append(Claim("ldmatrix with .trans: of ldmatrix without", trans, 0.98))
    head = ("instruction", "bytes per clock and SM", "hand-written CUDA", "of 128", "of hand-written")
    note = "One CTA of 1024 threads on each of 132 SMs; clocks by clock64; the median over SMs and five runs."
    return Table("Shared memory and registers", head, tuple(rows), tuple(claims), (note,))
