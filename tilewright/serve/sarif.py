"""Findings as SARIF, which code hosts and editors show at the lines.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tilewright
from tilewright.explain import Finding
from tilewright.verdict import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://pypi.org/project/tilewright/"


def sarif(reports: Iterable[Report], root: Path) -> dict[str, Any]:
    """One run with the findings of all reports. root: the folder that files are named from."""
    findings = [(report, finding) for report in reports for verdict in report.verdicts for finding in verdict.findings]
    kinds = sorted({finding.kind for _, finding in findings})
    driver = {
        "name": "tilewright", "version": tilewright.__version__, "informationUri": HOME,
        "rules": [{"id": kind, "shortDescription": {"text": f"{kind}, found by running the kernel"}} for kind in kinds],
    }  # fmt: skip
    results = [_result(finding, report, kinds.index(finding.kind), root) for report, finding in findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, report: Report, rule: int, root: Path) -> dict[str, Any]:
    lines = [finding.message]
    named = (("given", finding.given), ("allowed", finding.allowed), ("try", finding.hint))
    lines += [f"{name}: {text}" for name, text in named if text]
    where = _place(finding.file or report.file, finding.line, finding.column, root)
    related = []
    if (other := finding.other) is not None:
        said = {"message": {"text": f"{other.op}: {other.did}"}}
        related = [{**_place(other.file or report.file, other.line, None, root), **said}]
    key = f"{finding.kind} {finding.file} {finding.buffer} {finding.message}"
    return {
        "ruleId": finding.kind, "ruleIndex": rule, "level": "error" if finding.severity == "error" else "warning",
        "message": {"text": "\n".join(lines)}, "locations": [where],
        "relatedLocations": related,
        "partialFingerprints": {"finding/v1": hashlib.sha256(key.encode()).hexdigest()[:16]},
    }  # fmt: skip


def _place(file: str, line: int | None, column: int | None, root: Path) -> dict[str, Any]:
    path = Path(file.partition(".py:")[0] + ".py" if ".py:" in file else file)
    inside = path.is_absolute() and path.is_relative_to(root)
    place: dict[str, Any] = {"artifactLocation": {"uri": (path.relative_to(root) if inside else path).as_posix()}}
    if line:
        place["region"] = {"startLine": line} if column is None else {"startLine": line, "startColumn": column + 1}
    return {"physicalLocation": place}
