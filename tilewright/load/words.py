"""The words of reports: the simulator names functions of `T`, which authors of a .cu file or of PTX do not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.explain import Finding
from tilewright.isa import INSTRUCTIONS

__all__ = ["CUDA", "NUMBA", "PTX", "TRITON", "Words", "in_words", "reworded", "said"]

Words = Sequence[tuple[str, "str | Callable[[re.Match[str]], str]"]]

_FLAG = "; or tell of it by a flag, with {0} before it is set and after it is seen"
_STRONG = r"""T\.ptx\.(st|ld)\((?:\.\.\.|ptr, value), sem=['"]\w+['"](?:, scope=['"]\w+['"])?\)(, or stronger,)?"""


def _in_ptx(found: re.Match[str]) -> str:
    """``T.ptx.cp_async.wait_group(1)`` as PTX spells it: ``cp.async.wait_group 1``. A call with other arguments than
    numbers and modifiers stays as it is, also one that names a place of compiled code (``b, byte 8``).
    """
    name, row = found[1], INSTRUCTIONS.get(f"ptx.{found[1]}")
    try:
        call = ast.parse(f"f({found[2]})", mode="eval").body
    except SyntaxError:
        return f"{name}({found[2]})"
    assert isinstance(call, ast.Call)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if row is None or not all(isinstance(one, ast.Constant) for one in given):
        return f"{name}({found[2]})"
    values = [one.value for one in given if isinstance(one, ast.Constant)]
    names = [*row.params[: len(call.args)], *row.keywords][: len(call.args)]
    mods: dict[str, Any] = {
        **row.keywords,
        **dict(zip([*names, *(str(one.arg) for one in call.keywords)], values, strict=False)),
    }
    numbers = "".join(f" {value}" for value in values if type(value) is int)
    fitting = (form.mnemonic(mods) for form in row.forms if form.fits(mods) and ... not in values)
    return next(fitting, row.forms[0].wording.template.partition("{")[0].rstrip(".")) + numbers


_CALL = r"T\.ptx\.(\w[\w.]*)\(([^()]*)\)"
_ADD = r"T\.cuda\.atomic_add\((\w+)\.ptr_to\(\[\.\.\.\]\), value\)"
_FENCE = r"T\.ptx\.fence\('acq_rel', '(\w+)'\)"
_GPU_FENCE, _CTA_FENCE = (_FENCE.replace(r"(\w+)", scope) for scope in ("gpu", "cta"))
_NO_BARRIER = r"(no barrier orders CTAs: .* split the kernel in two)"
CUDA: Words = (
    (_ADD, "atomicAdd(&{0}[...], value)"),
    (r"T\.cuda\.cta_sync\(\)|T\.cuda\.cta_sync\(\.\.\.\)", "__syncthreads()"),
    (r"T\.cuda\.warp_sync\(\)", "__syncwarp()"),
    (r"T\.cuda\.cluster_sync\(\)", "cooperative_groups::this_cluster().sync()"),
    (r"(?:T\.)?cuda\.cta_sync", "__syncthreads"),
    (r"(?:T\.)?ptx\.bar\.warp\.sync", "__syncwarp"),
    (r"ptx\.(?:atom|red)\.(add|min|max|and|or|xor|exch|inc|dec|cas)\b", "atomic {0}"),
    (r"ptx\.ld\.\w+", "volatile load"),
    (r"ptx\.st\.\w+", "volatile store"),
    (r"ptx\.(shfl|vote|match|redux)\.sync", "__{0}_sync"),
    (_STRONG, "an atomic or volatile access"),
    (_GPU_FENCE, "__threadfence()"),
    (_CTA_FENCE, "__threadfence_block()"),
    (_FENCE, "asm volatile(\"fence.acq_rel.{0};\" ::: \"memory\")"),
    (_NO_BARRIER, "{0}" + _FLAG.format("__threadfence()")),
    (r"T\.cuda\.trap\(\)", "__trap()"),
    (_CALL, _in_ptx),
    (r"T\.ptx\.cp_async\b", "cp.async"),
    (r"if T\.thread_id\(\) == 0: \.\.\.", "if (threadIdx.x == 0) ..."),
    (r"if T\.cta_id\(\) == 0: \.\.\.", "if (blockIdx.x == 0) ..."),
    (r"if T\.cta_id\(\) == 0 and T\.thread_id\(\) == 0: \.\.\.", "if (blockIdx.x == 0 && threadIdx.x == 0) ..."),
)  # fmt: skip
"""Patterns of the simulator's words, and their replacements for a .cu file."""
_AFTER_BARRIERS: Words = (
    (r"(?:T\.)?cuda\.trap(?:\(\))?", "trap"),
    (r"(?:T\.)?ptx\.(?=[a-z])", ""),
)
PTX: Words = (
    (_ADD, "atom.add"),
    (r"(?:T\.)?cuda\.cta_sync(?:\((?:\.\.\.)?\))?", "bar.sync 0"),
    (r"T\.cuda\.warp_sync\(\)", "bar.warp.sync"),
    (r"T\.cuda\.cluster_sync\(\)", "barrier.cluster"),
    (_STRONG, "{0}.relaxed"),
    (_FENCE, "fence.acq_rel.{0}"),
    (_NO_BARRIER, "{0}" + _FLAG.format("fence.acq_rel.gpu")),
    (_CALL, _in_ptx),
    *_AFTER_BARRIERS,
)
"""The same for PTX."""
NUMBA: Words = (
    (_ADD, "cuda.atomic.add({0}, ..., value)"),
    (r"(?:T\.)?cuda\.cta_sync(?:\((?:\.\.\.)?\))?|__syncthreads(?:\(\))?", "cuda.syncthreads()"),
    (r"T\.cuda\.warp_sync\(\)", "cuda.syncwarp()"),
    (r"if T\.thread_id\(\) == 0: \.\.\.", "if cuda.threadIdx.x == 0: ..."),
    (r"if T\.cta_id\(\) == 0: \.\.\.", "if cuda.blockIdx.x == 0: ..."),
    (r"if T\.cta_id\(\) == 0 and T\.thread_id\(\) == 0: \.\.\.", "if cuda.grid(1) == 0: ..."),
    (_GPU_FENCE, "cuda.threadfence()"),
    (_CTA_FENCE, "cuda.threadfence_block()"),
    (_NO_BARRIER, "{0}" + _FLAG.format("cuda.threadfence()")),
    *_AFTER_BARRIERS,
)
"""The same for kernels of Numba."""


TRITON: Words = (
    (_ADD, "tl.atomic_add({0} + ..., value)"),
    (r"(?:T\.)?cuda\.(?:cta|warp)_sync(?:\((?:\.\.\.)?\))?", "tl.debug_barrier()"),
    (_STRONG, "an atomic"),
    (_FENCE + r" before (line \d+)", "sem='release' at {1}"),
    (_FENCE + r" after (line \d+)", "sem='acquire' at {1}"),
    (
        _NO_BARRIER,
        "{0}; or tell of it by an atomic with sem='release', and look for it by one with sem='acquire'",
    ),
    *_AFTER_BARRIERS,
)
"""The same for Triton."""


def said(text: str, words: Words) -> str:
    """A text in other words.

    >>> said("T.cuda.cta_sync() between line 3 and line 4", CUDA)
    '__syncthreads() between line 3 and line 4'
    >>> said("T.ptx.cp_async.bulk.wait_group(1, read=False) by the thread that issued it", PTX)
    'cp.async.bulk.wait_group 1 by the thread that issued it'
    >>> said("T.ptx.fence.proxy_async('global') belongs before the copy", PTX)
    'fence.proxy.async.global belongs before the copy'
    >>> said("T.ptx.mbarrier.arrive.expect_tx(b, byte 8, 256) in CTA (0, 0, 0)", CUDA)
    'mbarrier.arrive.expect_tx(b, byte 8, 256) in CTA (0, 0, 0)'
    """
    for pattern, word in words:
        text = re.sub(pattern, _filled(word) if isinstance(word, str) else word, text)
    return text


def _filled(word: str) -> Callable[[re.Match[str]], str]:
    return lambda found: word.format(*found.groups(""))


def in_words(finding: Finding, words: Words) -> Finding:
    """The same finding, its fields in other words."""
    given, allowed, hint = (text and said(text, words) for text in (finding.given, finding.allowed, finding.hint))
    return replace(finding, message=said(finding.message, words), given=given, allowed=allowed, hint=hint)


def reworded(error: TilewrightError, words: Words) -> TilewrightError:
    """The same error, its fields in other words."""
    error.what = said(error.what, words)
    error.args = (error.what,)
    error.given, error.allowed = (
        said(value, words) if isinstance(value, str) else value for value in (error.given, error.allowed)
    )
    error.hint = said(error.hint, words) if error.hint else error.hint
    if error.is_told:
        error.findings = tuple(in_words(one, words) for one in error.findings)
    if (seen := error.recording) is not None:
        error.recording = replace(seen, kernel=said(seen.kernel, words), findings=error.findings)
    return error
