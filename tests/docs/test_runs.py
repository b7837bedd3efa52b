"""The gallery of the site: ten kernels and ten mistakes, each mistake with the finding that its row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.runs import BUGS, GALLERY, Bug, run_of_example, run_of_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_mistake_of_the_gallery_has_its_finding(bug: Bug) -> None:
    found = run_of_example(bug.example, bug)
    assert bug.kind in {one.kind for one in found.findings}
    assert any(stream.events for stream in found.streams)


def test_the_gallery_names_every_run_that_is_made() -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    assert (len(GALLERY), len(BUGS)) == (10, 10)
    assert all(f'href="runs/{name}.html"' in text for name in (*GALLERY, *(bug.name for bug in BUGS)))


def test_a_page_without_simulations_has_no_run() -> None:
    assert run_of_page(DOCS / "howto" / "index.md") is None


def test_the_run_of_a_tutorial_step_is_that_of_its_own_code() -> None:
    found = run_of_page(DOCS / "tutorial" / "06_banks.md")
    assert found is not None
    assert any(site.space == "shared" for site in found.sites)
