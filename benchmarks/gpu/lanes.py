"""Must the addresses of lanes that supply no row be valid? ldmatrix and stmatrix x1 and x2 take 8 and 16 of 32.

Each question is a process of its own, since a fault ends the context:
``python -m benchmarks.gpu.lanes ld 1 misaligned``.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.gpu.measure import HandWritten, Table

ADDRESSES = {  # what the lanes beyond the rows hold
    "valid": "base",
    "misaligned": "base + 2 * lane + 1",
    "outside of the CTA's shared memory": "0x40000u + 16 * lane",
    "outside of any memory": "0xfffffff0u",
}
SOURCE = """
extern "C" __global__ void probe(unsigned* out) {{
  __shared__ __align__(128) unsigned tile[1024];
  const unsigned lane = threadIdx.x, base = (unsigned)__cvta_generic_to_shared(tile);
  for (unsigned i = lane; i < 1024; i += 32) tile[i] = i;
  __syncwarp();
  unsigned r0 = lane, r1 = lane;
  const unsigned at = lane < {rows} ? base + 16 * lane : {other};
  {move}
  __syncwarp();
  out[lane] = {stores} ? tile[lane] : r0;
}}
"""


def probe(verb: str, num: int, other: str) -> str:
    import torch

    registers = ("r0", "r1")[:num]
    holes = ", ".join(f"%{i + (verb == 'st')}" for i in range(num))
    if verb == "ld":
        outputs = ", ".join(f'"=r"({r})' for r in registers)
        move = f'asm volatile("ldmatrix.sync.aligned.m8n8.x{num}.shared.b16 {{{holes}}}, [%{num}];"'
        move += f' : {outputs} : "r"(at) : "memory");'
    else:
        inputs = ", ".join(f'"r"({r})' for r in registers)
        move = f'asm volatile("stmatrix.sync.aligned.m8n8.x{num}.shared.b16 [%0], {{{holes}}};"'
        move += f' :: "r"(at), {inputs} : "memory");'
    stores = int(verb == "st")
    made = HandWritten(SOURCE.format(rows=8 * num, other=ADDRESSES[other], move=move, stores=stores), "probe", 32)
    out = torch.zeros(32, dtype=torch.int32, device="cuda")
    made(1, out)
    torch.cuda.synchronize()
    return "right" if out.tolist() == list(range(32)) else f"wrong: {out.tolist()[:8]}"


def asked(verb: str, num: int, other: str) -> str:
    command = [sys.executable, "-m", "benchmarks.gpu.lanes", verb, str(num), other]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.splitlines()[-1]
    failed = [line for line in done.stderr.splitlines() if "CUDA error" in line or "CUDA_ERROR" in line]
    return (failed or done.stderr.splitlines() or ["failed"])[-1][-100:]


def run() -> Table:
    rows = [
        (f"{verb}matrix.x{num}", other, asked(verb, num, other))
        for verb in ("ld", "st")
        for num in (1, 2)
        for other in ADDRESSES
    ]
    return Table("Addresses of lanes that supply no row", ("instruction", "they hold", "result"), tuple(rows))


if __name__ == "__main__":
    print(probe(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
