"""Recorded runs of the site: of each tutorial step and how-to, of ten kernels, and of ten mistakes.

The pages are recorded when the site is built; they are no files of the repository.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.isa import INSTRUCTIONS
from tilewright.sim import Recording, RecordingOptions, Run
from tilewright.view.look import explorer, page_of
from tools.size import ROOT

__all__ = ["BUGS", "EXPLORER", "GALLERY", "Bug", "embedded", "gallery_pages", "recorded", "run_of_page"]

GALLERY = (
    "elementwise", "row_sum", "softmax", "stencil", "scan", "layer_norm", "matmul_ring", "ring", "hopper_attention",
    "blackwell_matmul",
)  # fmt: skip
"""Examples whose runs the gallery shows."""

EXPLORER = "explorer"
KEPT = RecordingOptions(ctas=2, events=40_000, nbytes=4 << 20)


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake in an example: a text of it, and what stands there instead. kind: of the finding that follows."""

    name: str
    example: str
    right: str
    wrong: str
    kind: str
    lesson: str


WAIT = "T.ptx.mbarrier.try_wait(full.ptr_to([stage]), turn % 2)"
FREE = "T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn % 2)"
BEHIND = "        T.ptx.cp_async.wait_group(STAGES - 2)\n"
BUGS = (
    Bug("no_wait_for_the_group", "matmul_ring", BEHIND, "", "races", "a copy that nobody has waited for"),
    Bug("waits_for_one_too_few", "matmul_ring", "wait_group(STAGES - 2)", "wait_group(STAGES - 1)", "races",
        "the newest group that may be open is one too many"),
    Bug("no_barrier_behind_the_wait", "matmul_ring", "        T.cuda.cta_sync()\n", "", "races",
        "a wait is for the copies of the waiting thread alone"),
    Bug("no_wait_for_the_bytes", "ring", f"            {WAIT}\n", "", "races",
        "a stage that is read before its bytes come"),
    Bug("the_wrong_parity", "ring", WAIT, WAIT.replace("turn % 2", "1 - turn % 2"), "races",
        "the phase before the first counts as over"),
    Bug("too_many_bytes", "ring", "expect_tx(full.ptr_to([stage]), BYTES)",
        "expect_tx(full.ptr_to([stage]), 2 * BYTES)", "deadlock", "bytes that no copy brings"),
    Bug("a_count_too_high", "ring", "empty.ptr_to([n]), 32)", "empty.ptr_to([n]), 33)", "deadlock",
        "an m-barrier that waits for one arrival too many"),
    Bug("no_wait_for_a_free_stage", "ring", f"                {FREE}\n", "", "simulation",
        "a stage that is filled while it is still being read"),
    Bug("no_barrier_behind_the_init", "ring", "    T.cuda.cta_sync()\n", "", "races",
        "a wait at an m-barrier that may not be there yet"),
    Bug("no_barrier_behind_the_tile", "stencil", "        T.cuda.cta_sync()\n", "", "races",
        "a tile that warps read before the others have written it"),
)  # fmt: skip


@contextmanager
def recorded(kept: RecordingOptions = KEPT) -> Iterator[list[Recording]]:
    """Every simulation inside is recorded, into the list, also one that a finding ends."""
    runs: list[Recording] = []
    own = tw.Executable.simulate

    def simulate(self: tw.Executable, *args: Any, **named: Any) -> Run:
        if (named.get("ranks") or self.kernel.attr("ranks")) is not None:
            return own(self, *args, **named)  # a recording looks at one GPU
        try:
            run = own(self, *args, **(named | {"record": kept}))
        except TilewrightError as error:
            runs.extend([] if error.recording is None else [error.recording])
            raise
        runs.extend([] if run.recording is None else [run.recording])
        return run

    tw.Executable.simulate = simulate  # type: ignore[method-assign]
    try:
        yield runs
    finally:
        tw.Executable.simulate = own  # type: ignore[method-assign]


def _last(runs: list[Recording]) -> Recording | None:
    """The run that has the most to show, of those at the end."""
    return max(runs[-4:], key=lambda run: sum(len(stream.events) for stream in run.streams), default=None)


def run_of_page(page: Path) -> Recording | None:
    """The run that a page's own Python ends with; None of a page that runs nothing."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks)
    if not any(word in text for word in ("simulate(", "exe(", "check(", "kernels.")):
        return None
    known = dict(INSTRUCTIONS)
    with TemporaryDirectory() as folder, recorded() as runs:
        path = Path(folder, f"run_of_{page.stem}.py")
        path.write_text(text, encoding="utf-8")
        try:
            _quietly(lambda: _imported(path))
        finally:  # some pages add instructions
            INSTRUCTIONS.clear()
            INSTRUCTIONS.update(known)
        return _last(runs)


def _quietly(call: Callable[[], object]) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        call()


def _imported(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


def run_of_example(name: str, bug: Bug | None = None) -> Recording:
    """The run of an example's main, or of what a mistake makes of it."""
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    if bug is not None:
        assert text.count(bug.right) == 1, f"{bug.name}: its text is not there once"
        text = text.replace(bug.right, bug.wrong)
    with TemporaryDirectory() as folder, recorded() as runs:
        path = Path(folder, f"{bug.name if bug else name}.py")
        path.write_text(text, encoding="utf-8")
        made = _imported(path)
        try:
            _quietly(made.main)
        except (TilewrightError, AssertionError):
            if bug is None:
                raise
        found = _last(runs)
    assert found is not None, name
    return found


def gallery_pages() -> Iterator[tuple[str, str]]:
    """The name and the HTML of each page of the gallery, and the explorer of layouts."""
    yield EXPLORER, explorer()
    for name in GALLERY:
        yield name, page_of(run_of_example(name))
    for bug in BUGS:
        yield bug.name, page_of(run_of_example(bug.example, bug), view="findings")


def embedded(page: str) -> tuple[str, str] | None:
    """The name and the HTML of the run of a tutorial step or a how-to; None where it has none."""
    found = run_of_page(ROOT / "docs" / page)
    return None if found is None else (f"run_of_{Path(page).stem}", page_of(found))
