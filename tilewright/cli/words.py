"""What errors call things on the command line: what Python functions have as arguments are options here."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar

from tilewright.errors import TilewrightError
from tilewright.load.words import Words, in_words, reworded
from tilewright.verdict import Report

__all__ = ["as_command", "as_options", "report_with_options"]

E = TypeVar("E", bound=TilewrightError)

_ARRAY = r"\b(\w+)\.(?:astype|view)\('{}'\)"
OPTIONS: Words = (
    (r"\b(block|grid|cluster)=\((\d+), (\d+)\)", "--{0} {1},{2}"),
    (r"\b(block|grid|cluster)=(\d+)", "--{0} {1}"),
    (r"\bshared_bytes=(\d+)", "--smem {0}"),
    (r"\bnon_portable_cluster=True", "--non-portable-cluster"),
    (r"a NumPy number such as np\.int32\(7\)", "a number with its type, i32(7)"),
    (r"^bytes, or NumPy numbers:", "FILE.npy of its bytes, or numbers with their types, i32(7):"),
    (r"\blimit_s=([\d.]+)", "--limit {0}s"),
    (r"\blimit_steps=(\d+)", "--limit {0}steps"),
    (r"\blimit_bytes=(\d+)", "--limit {0}B"),
    (r"(?<![(\w] )\btarget='(\w+)'$", "--arch {0}"),
    (_ARRAY.format(r"float(\d+)"), "--arg {0}:f{1}[...]"),
    (_ARRAY.format(r"(u?)int(\d+)"), "--arg {0}:{1}i{2}[...]"),
    (r"--arg (\w+):ui(\d+)", "--arg {0}:u{1}"),
    (_ARRAY.format("bfloat16"), "--arg {0}:bf16[...]"),
)
"""Patterns, and the options that say the same."""


def as_options(error: E) -> E:
    """The same error, its fields in the words of the command line."""
    reworded(error, OPTIONS)
    return error


def as_command(error: E, options: str) -> E:
    """The same error; a layout that its hint names is one that `tilewright tma` takes, with these options."""
    found = re.search(r"layout=(.+), align=\d+ for \w+$", error.hint or "")
    error.hint = f"tilewright tma '{found[1]}' {options}" if found else error.hint
    return error


def report_with_options(report: Report) -> Report:
    """The same report, its findings in the words of the command line."""
    verdicts = []
    for each in report.verdicts:
        findings = tuple(in_words(one, OPTIONS) for one in each.findings)
        verdicts.append(replace(each, findings=findings))
    return replace(report, verdicts=tuple(verdicts))
