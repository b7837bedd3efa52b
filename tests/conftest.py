"""Fixtures and settings of all tests: golden texts, a repeatable hypothesis, and tests that need a GPU."""

from __future__ import annotations

import difflib
import gc
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from inspect import isfunction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

GOLDEN = Path(__file__).parent / "golden"

# The default finds the same examples on every run; `make test-long` goes through more of them in the profile "whole";
# `pytest --hypothesis-profile=search` looks for new ones, and longer.
FEW, ALL = 15, 100
settings.register_profile(
    "repeatable",
    max_examples=FEW,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)
settings.register_profile("whole", settings.get_profile("repeatable"), max_examples=ALL)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the texts in tests/golden; then read the diff"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Examples do not depend on the numbers that stand in the sources of the modules that happen to be imported: to
    parse all of them takes seconds in each worker, and no two orders of tests would have the same examples.

    Tests are collected without looking for garbage: there is none, and the search takes a fifth of the time.

    Later it is looked for a hundred times less often: the house tests parse sources seven times as fast.
    """
    gc.disable()
    gc.set_threshold(100_000, 20, 50)
    if config.getoption("--hypothesis-profile") != "search":
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples in docstrings are those of the package: to look for them here took a tenth of the collection."""
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, obj: object) -> list[pytest.Item] | None:
    """A test whose mark is not asked for gets no cases: in each process thousands were made, and put away."""
    if any("::" in path for path in collector.config.args):  # named by somebody, who is told of what is left out
        return None
    asked = str(collector.config.getoption("markexpr"))
    marks = {mark.name for mark in getattr(obj, "pytestmark", ())} if isfunction(obj) else set()
    return [] if any(f"not {mark}" in asked for mark in marks & {"gpu", "long", "pages"}) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A property whose examples nobody has counted draws few of them here, and all in `make test-long`; of a test that
    says so every n-th case runs here, the others there; those that are long anyway do not count.
    """
    cases = Counter[str]()
    for item in items:
        rule = item.nodeid.partition("[")[0]
        if (every := item.get_closest_marker("every")) and not item.get_closest_marker("long"):
            if cases[rule] % every.args[0]:
                item.add_marker(pytest.mark.long)
            cases[rule] += 1
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test) and not item.get_closest_marker("gpu"):
            usual = settings().max_examples
            if getattr(test, "_hypothesis_internal_use_settings", settings()).max_examples == usual:
                item.add_marker(pytest.mark.sampled)


def pytest_collection_finish() -> None:
    """What is there now stays, and no later search goes through it."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """What is there at the end goes with the process; Python would look through it several times."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not has_cuda_device():
        pytest.skip("this machine has no usable CUDA device")


# Of NVRTC's own process: what it takes and how it ends, and files that may end it.
APART = ("test_cu_process.py", "test_garbled_files.py")


@pytest.fixture(autouse=True, scope="module")
def _nvrtc_is_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """NVRTC works in this process, as it does in a judge's: to start one takes four times as long as a small file."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in APART:
            from tilewright.load import cu_compile, cu_process

            patch.setattr(cu_compile, "answered", cu_process.answer)
        yield


@cache
def has_cuda_device() -> bool:
    try:
        from cuda.bindings import driver
    except ImportError:
        return False
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # libcuda is not there at all
        return False
    return bool(status == driver.CUresult.CUDA_SUCCESS)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("cuda/copy.cu", text)`` compares with that file in tests/golden and shows the difference."""

    def check(name: str, text: str) -> None:
        __tracebackhide__ = True
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no tests/golden/{name}: run pytest --update-golden, and read what it writes")
        elif (expected := path.read_text(encoding="utf-8")) != text:
            diff = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm=""
            )
            pytest.fail("\n".join(diff), pytrace=False)

    return check
