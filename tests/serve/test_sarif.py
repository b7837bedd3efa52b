"""Findings as SARIF."""

from __future__ import annotations

from pathlib import Path

from tilewright.explain import Finding, OtherAccess
from tilewright.serve.sarif import sarif
from tilewright.verdict import Report, Verdict

STORE = OtherAccess("store", "written", "/home/me/k/rev.py", 10)
RACE = Finding("races", "race: load reads row[63]", file="/home/me/k/rev.py", line=11, column=4,
               hint="T.cuda.cta_sync()", other=STORE)  # fmt: skip
WARNED = Finding("warning", "a fallback", "warning", file="/elsewhere/x.py")


def test_each_finding_is_a_result_at_its_place() -> None:
    run = sarif([Report("rev.py", (Verdict("reverse", "wrong", findings=(RACE, WARNED)),))], Path("/home/me"))["runs"][
        0
    ]
    first, second = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "k/rev.py"}, "region": {"startLine": 11, "startColumn": 5}}, "from 1"
    assert first["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 10}
    assert (first["level"], second["level"]) == ("error", "warning")
    assert "try: T.cuda.cta_sync()" in first["message"]["text"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["races", "warning"]
    assert [each["ruleIndex"] for each in run["results"]] == [0, 1]


def test_a_clean_run_has_no_results() -> None:
    assert sarif([Report("a.py", (Verdict("k", "clean"),))], Path("/"))["runs"][0]["results"] == []


def test_a_finding_keeps_its_fingerprint_when_lines_move() -> None:
    def prints(line: int) -> object:
        moved = Finding("races", "race: load reads row[63]", file="/a.py", line=line)
        return sarif([Report("a.py", (Verdict("k", "wrong", findings=(moved,)),))], Path("/"))["runs"][0]["results"][0][
            "partialFingerprints"
        ]

    assert prints(11) == prints(25)
