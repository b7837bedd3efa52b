"""Two builds of one kernel, as the compiler optimises it and as it is written: their findings as one verdict.

What the compiler removes or joins no run of the optimised text shows; what it moves or vectorises no run of the other.
A finding says which build has it. Where neither has one, both give the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.explain import BUILDS, Finding
from tilewright.host import touched
from tilewright.verdict import Verdict

RELATIVE = 1e-3  # of two floats, and of a float and the largest one of its array, that fused sums do not explain
OPTIMISED, UNOPTIMISED = BUILDS
STOPS = ("limit", "deadlock", "livelock", "divergence")


def joined(one: Verdict, other: Verdict) -> Verdict:
    """The verdict on both builds: counts and output are those of the optimised one, which comes first."""
    left, found = [*other.findings], []
    late = [each for each in left if each.kind == "limit"]
    alone = () if late else (OPTIMISED,)  # of a build that did not come to its end nobody knows
    for each in one.findings:
        same = _same(each, left)
        if same is not None:
            left.remove(same)
        found.append(replace(each, builds=alone if same is None else (OPTIMISED, UNOPTIMISED)))
    hidden = [replace(each, builds=(UNOPTIMISED,)) for each in left if each.kind != "limit"]
    found += [each for each in hidden if not _repeats(each, found)]
    told = tuple(f"{UNOPTIMISED} code: {each.message}" for each in late)
    is_wrong = any(each.severity == "error" for each in found)
    status = one.status if one.status not in ("clean", "wrong") else "wrong" if is_wrong else "clean"
    return replace(
        one, status=status, findings=tuple(found), not_covered=(*told, *one.not_covered),
        seconds=one.seconds + other.seconds, builds=(OPTIMISED, UNOPTIMISED),
    )  # fmt: skip


def _lines(finding: Finding) -> frozenset[tuple[str | None, int | None]]:
    """The lines that it is about."""
    here = {(finding.file, finding.line)} if finding.line else set()
    there = {(finding.other.file, finding.other.line)} if finding.other is not None and finding.other.line else set()
    return frozenset(here | there)


def _same(finding: Finding, others: Iterable[Finding]) -> Finding | None:
    """The finding of another build that says the same: of the same lines, or of one of them and the same buffer."""
    alike = [each for each in others if each.kind == finding.kind and each.severity == finding.severity]
    rules: Sequence[Callable[[Finding], bool]] = (
        lambda each: _lines(each) == _lines(finding) and bool(_lines(each)),
        lambda each: bool(_lines(each) & _lines(finding)) and each.buffer == finding.buffer,
        lambda each: each.message == finding.message,
    )
    return next((each for rule in rules for each in alike if rule(each)), None)


def _repeats(finding: Finding, known: Iterable[Finding]) -> bool:
    """Is a finding of one build the same mistake as one of both, seen at another of its lines?"""
    both = (each for each in known if len(each.builds) > 1 and each.severity == finding.severity)
    return any(_lines(each) & _lines(finding) and each.kind == finding.kind for each in both)


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[Finding]:
    """Findings for arrays that hold other values after the unoptimised build; floats may differ by rounding."""
    for name, left, right in _arrays(one, other):
        if not (wrong := _places(left, right)).size:
            continue
        first = np.unravel_index(int(wrong[0]), np.shape(left))
        where = "".join(f"[{i}]" for i in first)
        yield Finding(
            "results", f"{wrong.size:,} of {np.size(left):,} elements of {name} differ between the builds",
            buffer=name, given=f"{name}{where} = {left[first]} optimised, {right[first]} unoptimised",
            allowed="one value: no finding explains two", hint="what the language leaves undefined there",
        )  # fmt: skip


def _places(left: Any, right: Any) -> np.ndarray[Any, Any]:
    """Where two arrays differ, as numbers of elements. Pieces with the same bytes are not looked at again."""
    flat, other = left.reshape(-1), right.reshape(-1)
    bounds = {(each.start, each.stop) for array in (flat, other) for each in touched(array)}
    pieces = [slice(start // flat.itemsize, stop // flat.itemsize) for start, stop in sorted(bounds)]
    doubtful = [each for each in pieces if flat[each].tobytes() != other[each].tobytes()]
    most = max((_largest(flat[each]) for each in pieces), default=0.0) if doubtful and flat.dtype.kind == "f" else 0.0
    found = [each.start + np.flatnonzero(_differ(flat[each], other[each], most)) for each in doubtful]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _largest(values: np.ndarray[Any, Any]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    for name, left in one.items():
        right = other[name]
        if isinstance(left, np.ndarray) and left.dtype.names is None and left.dtype.kind in "biuf":
            yield name, left, right


def _differ(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], most: float) -> np.ndarray[Any, Any]:
    if left.dtype.kind != "f":
        return np.asarray(left != right)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        a, b = left.astype(np.float64), right.astype(np.float64)
    return np.asarray(~np.isclose(a, b, rtol=RELATIVE, atol=RELATIVE * most, equal_nan=True))
