"""What a verdict leaves open where the numbers in arrays are proposed."""

from __future__ import annotations

from tilewright.explain import WAITING
from tilewright.verdict import Verdict


def has_update(verdict: Verdict) -> bool:
    """Do several threads change one place without an atomic, where integers are equal? Places that an author knows to
    be different ones, as of a permutation, are stored to, not changed.
    """
    return any(finding.remedy is not None and finding.remedy.step == "atomic" for finding in verdict.findings)


def is_apart(verdict: Verdict) -> bool:
    """Are all errors such that a barrier of a CTA, or of a warp, would mend them?"""
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    return bool(errors) and all(finding.remedy is not None and finding.remedy.step == "barrier"
                                and finding.remedy.scope in ("cta", "warp") for finding in errors)  # fmt: skip


def is_by_data(verdict: Verdict) -> bool:
    """Is something wrong that other numbers in the arrays may mend?"""
    kinds = {finding.kind for finding in verdict.findings if finding.severity == "error"}
    return verdict.status not in ("clean", "wrong") or bool(kinds & {"bounds", "alignment", "limit", *WAITING})
