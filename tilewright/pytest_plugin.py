"""A pytest plugin: the fixture `tilewright_check`, whose failure shows the report of a kernel, and no frames of
tilewright; and the mark `tilewright`, which repeats a test over sizes and architectures.

Pytest loads it at its start, wherever tilewright is installed: the compiler is imported by the first test that asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.verdict import Verdict

__all__ = ["tilewright_case", "tilewright_check"]

MARK = "tilewright(sizes=[{'n': 1}, {'n': 1000}], targets=['sm_80', 'sm_90a']): repeats a test for each of them"


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the mark."""
    config.addinivalue_line("markers", MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the mark runs once for each of its sizes and targets; `tilewright_case` has them."""
    mark = metafunc.definition.get_closest_marker("tilewright")
    if mark is None:
        return
    if mark.args or {*mark.kwargs} - {"sizes", "targets"}:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: the mark is {MARK.partition(':')[0]}")
    cases = [
        {"sizes": dict(sizes), "target": target}
        for sizes in mark.kwargs.get("sizes") or [{}]
        for target in mark.kwargs.get("targets") or [None]
    ]
    metafunc.fixturenames.append("tilewright_case")
    metafunc.parametrize("tilewright_case", cases, indirect=True, ids=map(_name, cases))


def _name(case: Mapping[str, Any]) -> str:
    parts = [f"{name}={size}" for name, size in case["sizes"].items()]
    return "-".join([*parts, *([case["target"]] if case["target"] else [])]) or "default"


@pytest.fixture
def tilewright_case(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The sizes and the target of this repetition: ``{"sizes": {"n": 1000}, "target": "sm_90a"}``."""
    case: Mapping[str, Any] = getattr(request, "param", {"sizes": {}, "target": None})
    return case


@pytest.fixture
def tilewright_check(tilewright_case: Mapping[str, Any]) -> Callable[..., Verdict]:
    """`tilewright.check` of a kernel: whatever it finds fails the test. Returns the verdict, which is clean.

    Under the mark `tilewright` a kernel of ours is compiled for the case's target, and arguments that are left out have
    the case's sizes.
    """

    def check(kernel: Any, *args: Any, **named: Any) -> Verdict:
        __tracebackhide__ = True
        import tilewright

        verdict = tilewright.check(kernel, *args, **_of_case(tilewright_case, args, named), **named)
        if not verdict:
            pytest.fail(str(verdict))
        return verdict

    return check


def _of_case(case: Mapping[str, Any], args: Iterable[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """What the case adds to a call that does not say it itself."""
    added = {"target": case["target"]} if case["target"] and "target" not in named else {}
    return {**added, "sizes": case["sizes"]} if case["sizes"] and not args and "sizes" not in named else added
