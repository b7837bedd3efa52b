"""What terms are called in other languages: a table for each.

A kind of term that a table does not have stays for another table: options are named by the command line alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.isa import INSTRUCTIONS
from tilewright.terms import NO_BARRIER, OURS, Dialect, Keywords, Operand, Operands, Spelling, listed


def _in_ptx(name: str, operands: Operands, keywords: Keywords) -> str:
    """``cp.async.wait_group 1``: a call as PTX spells it, whose operands are numbers and modifiers; one that names a
    place has no spelling of its own there.
    """
    row = INSTRUCTIONS.get(name)
    name = name.removeprefix("ptx.")
    values = [*operands, *(value for _, value in keywords)]
    if row is None or any(isinstance(value, Operand) for value in values):
        return f"{name}({listed(operands, keywords)})"
    names = [*row.params[: len(operands)], *row.keywords][: len(operands)]
    mods: dict[str, Any] = {**row.keywords, **dict(zip(names, operands, strict=False)), **dict(keywords)}
    numbers = "".join(f" {value}" for value in values if type(value) is int)
    fitting = (form.mnemonic(mods) for form in row.forms if form.fits(mods) and ... not in values)
    return next(fitting, row.forms[0].wording.template.partition("{")[0].rstrip(".")) + numbers


_OF_GRIDS = {"ptx.griddepcontrol.wait": "cudaGridDependencySynchronize()"}


def _called_in_cuda(name: str, operands: Operands, keywords: Keywords) -> str:
    """A call by the function that CUDA has for it, or as PTX spells it."""
    return _OF_GRIDS.get(name) or _in_ptx(name, operands, keywords)


def _met_in_ptx(name: str) -> str:
    return _in_ptx(name, (...,), ())


def _plain(name: str) -> str:
    """An instruction without the name of its room."""
    return name.removeprefix("ptx.").replace("cp_async", "cp.async")


_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")
_COLLECTIVES = ("shfl", "vote", "match", "redux")


def _in_cuda(name: str) -> str:
    """An instruction as a .cu file has it; that of a function of its own in PTX keeps its name."""
    match name.split("."):
        case ["cuda", "cta_sync"]:
            return "__syncthreads"
        case ["ptx", "bar", "warp", "sync"]:
            return "__syncwarp"
        case ["ptx", "atom" | "red", op, *more] if op in _ATOMICS:
            return ".".join([f"atomic {op}", *more])
        case ["ptx", "ld" | "st" as op, *_]:
            return f"volatile {'load' if op == 'ld' else 'store'}"
        case ["ptx", kind, "sync", *more] if kind in _COLLECTIVES:
            return ".".join([f"__{kind}_sync", *more])
    return _plain(name)


def _met_in_cuda(name: str) -> str:
    return {"cuda.cta_sync": "__syncthreads()", "ptx.bar.warp.sync": "__syncwarp(...)"}.get(name) or _met_in_ptx(name)


_FLAG = "; or tell of it by a flag, with {0} before it is set and after it is seen"
_GRID = "; or, where the launch is cooperative, cooperative_groups::this_grid().sync()"


def _apart(flag: str) -> dict[str, str]:
    """How CTAs are told of something, beside what holds for all of them."""
    return {f"no barrier {kind}": text + flag for kind, text in NO_BARRIER.items()}


def _by_barrier(word: str, met: Callable[[str], str] = _met_in_ptx) -> dict[str, str | Callable[[str], str]]:
    """The rows that name the barrier of a CTA. met: how else threads meet."""
    return {
        "barrier cta": word,
        "operation": lambda name: {"cuda.cta_sync": word, "cuda.trap": "trap"}.get(name) or _plain(name),
        "meeting": lambda name: word if name == "cuda.cta_sync" else met(name),
    }


_AS_IN_PTX: dict[str, Spelling] = {
    "named": _plain,
    "register": "a value",
    "fence at": "{2} {0} line {1}",
    "one is enough": OURS.spellings["one is enough"],
    "advice": OURS.spellings["advice"],
    "call": _in_ptx,
    "trap": "trap",
}
"""What those share who write PTX, or a language that its instructions are known by."""


CUDA = Dialect({
    **_AS_IN_PTX,
    "barrier warp": "__syncwarp()",
    "barrier cta": "__syncthreads()",
    "barrier cluster": "cooperative_groups::this_cluster().sync()",
    "fence": "asm volatile(\"fence.acq_rel.{0};\" ::: \"memory\")",
    "fence gpu": "__threadfence()",
    "fence cta": "__threadfence_block()",
    "fence sys": "__threadfence_system()",
    "call": _called_in_cuda,
    "operation": _in_cuda,
    "meeting": _met_in_cuda,
    "atomic": "atomic{0}(&{1}[...], value)",
    "atomic add": "atomicAdd(&{1}[...], value)",
    "strong": "an atomic or volatile access",
    "only if cta": "if (blockIdx.x == 0) ...",
    "only if thread": "if (threadIdx.x == 0) ...",
    "only if cta thread": "if (blockIdx.x == 0 && threadIdx.x == 0) ...",
    **_apart(_FLAG.format("__threadfence()") + _GRID),
    "trap": "__trap()",
}, end=";")  # fmt: skip
"""CUDA C++."""
PTX = Dialect({
    **_AS_IN_PTX,
    "register": "{0}",
    "barrier warp": "bar.warp.sync",
    **_by_barrier("bar.sync 0"),
    "barrier cluster": "barrier.cluster",
    "fence": "fence.acq_rel.{0}",
    "atomic": "atom.{0}",
    "strong": "{0}.relaxed",
    "only if cta": "a branch of CTA 0 alone",
    "only if thread": "a branch of thread 0 alone",
    "only if cta thread": "a branch of thread 0 of CTA 0 alone",
    **_apart(_FLAG.format("fence.acq_rel.gpu")),
}, end=";")  # fmt: skip
"""PTX."""
NUMBA = Dialect({
    **_AS_IN_PTX,
    "barrier warp": "cuda.syncwarp()",
    **_by_barrier("cuda.syncthreads()"),
    "barrier cluster": "the barrier of the cluster",
    "fence": "cuda.threadfence()",
    "fence cta": "cuda.threadfence_block()",
    "fence sys": "cuda.threadfence_system()",
    "atomic": "cuda.atomic.{0}({1}, ..., value)",
    "strong": "an atomic access",
    "only if cta": "if cuda.blockIdx.x == 0: ...",
    "only if thread": "if cuda.threadIdx.x == 0: ...",
    "only if cta thread": "if cuda.grid(1) == 0: ...",
    **_apart(_FLAG.format("cuda.threadfence()")),
})  # fmt: skip
"""Kernels of Numba."""
TRITON = Dialect({
    "named": _plain,
    "register": "a value",
    "call": lambda name, operands, keywords: f"{_plain(name)}({listed(operands, keywords)})",
    "fence at before": "sem='release' at line {1}",
    "fence at after": "sem='acquire' at line {1}",
    "barrier warp": "tl.debug_barrier()",
    **_by_barrier("tl.debug_barrier()", lambda name: f"{_plain(name)}(...)"),
    "atomic": "tl.atomic_{0}({1} + ..., value)",
    "strong": "an atomic",
    "one is enough": "",
    "advice": "",
    **_apart("; or tell of it by an atomic with sem='release', and look for it by one with sem='acquire'"),
    "trap": "trap",
})  # fmt: skip
"""Triton, whose compiler places barriers: what it has no word for is no advice to its users."""


def _array_option(name: str, how: str, dtype: str) -> str:
    """``--arg x:f32[...]``."""
    short = {"bfloat16": "bf16"}.get(dtype) or dtype.replace("float", "f").replace("uint", "u").replace("int", "i")
    return f"--arg {name}:{short}[...]"


COMMAND = Dialect({
    **{f"option {name}": f"--{name} {{1}}" for name in ("block", "grid", "cluster")},
    "option non_portable_cluster": "--non-portable-cluster",
    "option shared_bytes": "--smem {1}",
    "option limit_s": "--limit {1}s",
    "option limit_steps": "--limit {1}steps",
    "option limit_bytes": "--limit {1}B",
    "option target": "--arch {1}",
    "array as": _array_option,
    "bytes of a structure": "FILE.npy of its bytes, or numbers with their types, i32(7)",
    "typed number": "a number with its type, i32(7)",
})  # fmt: skip
"""The command line of `tilewright check`."""
