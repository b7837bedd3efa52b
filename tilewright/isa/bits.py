"""Counting and turning the bits of integers. Source: CUDA Math API, "Integer Intrinsics"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import INT32
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes
from tilewright.isa.table import Cuda, Form, Meaning, instruction, reads

SOURCE = 'CUDA Math API, "Integer Intrinsics"'
_BYTES = np.arange(256, dtype=np.uint8)
_COUNT = np.unpackbits(_BYTES[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_REVERSED = np.packbits(np.unpackbits(_BYTES[:, None], axis=1), axis=1, bitorder="little")[:, 0]


def _bytes(x: Lanes) -> Lanes:
    """The bytes of each element along a new last axis, the lowest first."""
    bytes_of: Lanes = np.ascontiguousarray(x)[..., None].view(np.uint8)
    return bytes_of


def popcount(x: Lanes) -> Lanes:
    """How many bits are set."""
    counts: Lanes = _COUNT.take(_bytes(x))
    total: Lanes = counts.sum(axis=-1, dtype=np.int32)
    return total


def clz(x: Lanes) -> Lanes:
    """Zero bits above the highest set one; all of them for 0."""
    lit = np.unpackbits(_bytes(x)[..., ::-1], axis=-1)  # the highest bit first
    zeros: Lanes = np.where(lit.any(-1), lit.argmax(-1), lit.shape[-1])
    return zeros.astype(np.int32)


def ffs(x: Lanes) -> Lanes:
    """The place of the lowest set bit, counted from 1; 0 for 0."""
    lit = np.unpackbits(_bytes(x), axis=-1, bitorder="little")
    return np.where(lit.any(-1), lit.argmax(-1) + 1, 0).astype(np.int32)


def brev(x: Lanes) -> Lanes:
    """The bits in reverse order."""
    return np.ascontiguousarray(_REVERSED.take(_bytes(x))[..., ::-1]).view(x.dtype)[..., 0]


def _bits_row(name: str, stem: str, execute: Callable[[Lanes], Lanes], doc: str, *, counts: bool) -> None:
    instruction(
        name,
        operands=(reads("x", "typed"),),
        doc=doc,
        forms=tuple(
            Form(
                Cuda(
                    "{dtype}({x})" if counts else f"({kind}){{dtype}}({{x}})",
                    {"dtype": dict.fromkeys(dtypes, stem + suffix)},
                ),
                since("sm_75"),
                SOURCE,
                Meaning(execute),
                result=INT32 if counts else "x",
            )
            for dtypes, kind, suffix in (
                (("int32",), "int", ""),
                (("uint32",), "unsigned int", ""),
                (("int64",), "long long", "ll"),
                (("uint64",), "unsigned long long", "ll"),
            )
        ),
    )


_bits_row("popcount", "__popc", popcount, "How many bits of x are set, an int32.", counts=True)
_bits_row("clz", "__clz", clz, "Zero bits above the highest set bit of x, an int32.", counts=True)
_bits_row("ffs", "__ffs", ffs, "The place of the lowest set bit of x from 1 on, 0 for none, an int32.", counts=True)
_bits_row("brev", "__brev", brev, "The bits of x in reverse order.", counts=False)
