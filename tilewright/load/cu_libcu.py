"""Findings of kernels that use libcu++'s pipelines and barriers, in the words of these, not in those of m-barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from linecache import getlines

from tilewright.explain import WAITING, Finding
from tilewright.load.cu_tree import Tree, bare, below, tree_of

_COPY = "memcpy_async"
_USES = re.compile(r"#\s*include\s*<cuda/(?:std/)?(?:barrier|pipeline)>|cooperative_groups/memcpy_async\.h")
_HANDS = re.compile(
    r"(\w+)\s*(?:\.|->)\s*(arrive_and_wait|arrive|wait|consumer_wait|producer_acquire|wait_parity)\s*\("
)
_WAITS = {
    "consumer_wait": "{0}.producer_commit() by all producers for each {0}.producer_acquire()",
    "producer_acquire": "{0}.consumer_release() by all consumers for each {0}.consumer_wait()",
    "arrive_and_wait": "init(&{0}, ...) with as many arrivals as each phase gets",
    "wait": "as many arrivals at {0} in each phase as init(&{0}, ...) says",
}


def in_words_of_libcu(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings, those in lines of libcu++ in its words; without warnings of proxies, for which its copies care."""
    for finding in findings:
        text = "".join(getlines(finding.file)) if finding.file else ""
        if not _USES.search(text) or not finding.line:
            yield finding
            continue
        tree = tree_of(text)
        is_of_proxy = finding.remedy is not None and finding.remedy.step == "proxy_fence"
        if not (is_of_proxy and finding.severity == "warning" and _copied_by(tree, finding.line)):
            yield replace(finding, hint=_hint(finding, tree) or finding.hint)


def _hint(finding: Finding, tree: Tree) -> str:
    """What would mend it, by the object that the copy or the wait is of; "" where the text does not say."""
    line, other = finding.line or 0, (finding.other.line if finding.other is not None else 0) or 0
    if finding.kind == "races" and (name := _copied_by(tree, other)) and line != other:
        if _is_of_a_thread(name, tree):  # which waits for its own copies, so that others need a barrier as well
            return ""
        wait = "consumer_wait" if _is_pipeline(name, tree) else "arrive_and_wait"
        return f"{name}.{wait}() between line {other} and line {line}, by the threads that read"
    if finding.kind == "races" and other and (name := _copied_by(tree, line)):
        if _is_pipeline(name, tree):
            return f"{name}.consumer_release() behind line {other}, and {name}.producer_acquire() before line {line}"
        return f"{name}.arrive_and_wait(), or another barrier of all that read, between line {other} and line {line}"
    words = tree.text.split("\n")[line - 1] if line <= tree.text.count("\n") + 1 else ""
    for call in _HANDS.finditer(words) if finding.kind in (*WAITING, "simulation") else ():
        if call[2] in _WAITS:
            return _WAITS[call[2]].format(call[1])
    return ""


def _copied_by(tree: Tree, line: int) -> str:
    """The pipeline or the barrier of the asynchronous copy in a line; "" for none."""
    for call in below(tree.root, "call_expression"):
        called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        is_here = call.start_point[0] < line <= call.end_point[0] + 1
        name = bare(tree.of(called)) if called is not None else ""
        if is_here and name == _COPY and listed is not None and listed.named_children:
            return re.sub(r"^[&*\s]+", "", tree.of(listed.named_children[-1]))
    return ""


def _is_of_a_thread(name: str, tree: Tree) -> bool:
    """Is it a pipeline of each thread by itself?"""
    declared = rf"\b{re.escape(name)}\s*=\s*(?:cuda::)?make_pipeline\s*\(\s*\)"
    return re.search(rf"{declared}|\bthread_scope_thread\s*>\s*{re.escape(name)}\b", tree.text) is not None


def _is_pipeline(name: str, tree: Tree) -> bool:
    """Does a text use a name as that of a pipeline?"""
    return re.search(rf"{re.escape(name)}\s*(?:\.|->)\s*(?:producer|consumer)_|pipeline[^;]*\b{re.escape(name)}\b",
                     tree.text) is not None  # fmt: skip
