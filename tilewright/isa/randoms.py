"""Random numbers that a counter decides: Philox, and a hash of 32 bits. The bits are the same on the GPU and here.

Each number is a function of a seed and of its own number, so that threads need no state, and a run can be repeated.
Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (Philox-4x32-10); the hash is the
finalizer of MurmurHash3.
"""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Meaning, reads, single

SOURCE = 'Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"'
ROUNDS = 10
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
MIXERS = (0x85EBCA6B, 0xC2B2AE35)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
INTEGERS = ("int32", "uint32", "int64", "uint64")

PHILOX = f"""\
__device__ __forceinline__ unsigned int tw_philox(unsigned long long seed, unsigned long long offset, int word) {{
  unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
  unsigned int c0 = (unsigned int)offset, c1 = (unsigned int)(offset >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int i = 0; i < {ROUNDS}; ++i) {{
    const unsigned int h0 = __umulhi({MULTIPLIERS[0]}u, c0), l0 = {MULTIPLIERS[0]}u * c0;
    const unsigned int h1 = __umulhi({MULTIPLIERS[1]}u, c2), l1 = {MULTIPLIERS[1]}u * c2;
    c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += {WEYL[0]}u; k1 += {WEYL[1]}u;
  }}
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}}
"""
HASH = f"""\
__device__ __forceinline__ unsigned int tw_hash(unsigned int x) {{
  x ^= x >> 16; x *= {MIXERS[0]}u; x ^= x >> 13; x *= {MIXERS[1]}u;
  return x ^ x >> 16;
}}
"""


def philox(seed: Lanes, offset: Lanes, word: int = 0) -> Lanes:
    """A word of Philox-4x32-10 whose key is ``seed`` and whose counter is ``offset``, both of 64 bits."""
    key, counter = (value.astype(np.int64).view(np.uint64) if value.dtype.kind == "i" else value.astype(np.uint64)
                    for value in (seed, offset))  # fmt: skip
    k0, k1, c0, c1 = key & LOW, key >> HALF, counter & LOW, counter >> HALF
    c2 = c3 = np.zeros_like(c0)
    first, second = map(np.uint64, MULTIPLIERS)
    for _ in range(ROUNDS):
        product, other = first * c0, second * c2  # of 32 bits each, so that nothing is lost
        c0, c1, c2, c3 = other >> HALF ^ c1 ^ k0, other & LOW, product >> HALF ^ c3 ^ k1, product & LOW
        k0, k1 = k0 + np.uint64(WEYL[0]) & LOW, k1 + np.uint64(WEYL[1]) & LOW
    return (c0, c1, c2, c3)[word].astype(np.uint32)


def uniform(seed: Lanes, offset: Lanes, word: int = 0) -> Lanes:
    """The upper 24 bits of that word as a float32 from 0 on, below 1."""
    return (philox(seed, offset, word) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def hashed(x: Lanes) -> Lanes:
    """32 bits mixed, each of which depends on all of x."""
    bits = x.astype(np.uint32)
    for shift, mixer in zip((16, 13), MIXERS, strict=True):
        bits = (bits ^ bits >> np.uint32(shift)) * np.uint32(mixer)
    return bits ^ bits >> np.uint32(16)


WORDS = {word: str(word) for word in range(4)}
WORD = dtype("uint32")
for _name, _text, _meaning, _result, _doc in (
    ("randint", "{}", philox, WORD, "A random uint32"),
    ("rand", "((float)({} >> 8) * 5.9604644775390625e-8f)", uniform, dtype("float32"), "A random float32 in [0, 1)"),
):
    single(
        _name,
        Cuda(
            _text.format("{dtype}({seed}, {offset}, {word})"),
            {"dtype": dict.fromkeys(INTEGERS, "tw_philox"), "word": WORDS},
            helper=PHILOX,
        ),
        since("sm_75"),
        SOURCE,
        Meaning(_meaning, passes=("word",)),
        keywords={"word": 0},
        operands=(reads("seed", "typed"), reads("offset", "typed")),
        doc=f"{_doc} that seed and offset, of up to 64 bits, decide by Philox-4x32-10; word: which of four, 0 to 3.",
        result=_result,
    )
single(
    "hash32",
    Cuda("{dtype}({x})", {"dtype": dict.fromkeys(("int32", "uint32"), "tw_hash")}, helper=HASH),
    since("sm_75"),
    'MurmurHash3, "fmix32"',
    Meaning(hashed),
    operands=(reads("x", "typed"),),
    doc="The 32 bits of x mixed to a uint32, each bit of which depends on all of them; 0 stays 0.",
    result=WORD,
)
