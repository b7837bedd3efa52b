"""The page in Chromium: each view is driven by mouse and by keyboard; `make test-pages` runs these."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.test_recording import TURNS, example, ring
from tests.view.test_look import racing
from tilewright.deleting import needed
from tilewright.errors import SimulationError
from tilewright.view.look import explorer, page_of
from tools.runs import BUGS, run_of_example

pytestmark = pytest.mark.pages

FIRST_PICTURE = 2.0  # seconds
SETS = 'return document.documentElement.dataset.ready === "yes"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of a product of 16 CTAs, a ring, a race, mistakes in the ring, and the explorer."""
    made = tmp_path_factory.mktemp("pages")
    a, b = np.ones((256, 64), np.float16), np.ones((256, 64), np.float16)
    product = example("matmul_ring").matmul
    tw.simulate(product, a, b, np.zeros((256, 256), np.float16), record=16).page(made / "product.html")
    ones = np.ones((TURNS, 128), np.float32), np.zeros(128, np.float32)
    rows = [
        {"line": one.line, "text": one.text, "needed": one.needed, "finding": one.finding}
        for one in needed(ring, *ones)
    ]
    recording = tw.simulate(ring, *ones, record=True).recording
    assert recording is not None
    (made / "ring.html").write_text(page_of(recording, needed=rows), encoding="utf-8")
    with pytest.raises(SimulationError, match="race") as caught:
        tw.simulate(racing, np.zeros(64, np.float32), record=True)
    (made / "race.html").write_text(page_of(caught.value.recording, view="findings"), encoding="utf-8")
    for name, bug in (
        ("parity", "the_wrong_parity"),
        ("deadlock", "too_many_bytes"),
        ("init", "no_barrier_behind_the_init"),
    ):
        (one,) = (each for each in BUGS if each.name == bug)
        (made / f"{name}.html").write_text(page_of(run_of_example("ring", one), view="findings"), encoding="utf-8")
    (made / "explorer.html").write_text(explorer(), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


class Page:
    """A page in the browser. said: errors on the console, which are asked for once."""

    def __init__(self, driver: Any, file: Path, fragment: str = "") -> None:
        self.driver = driver
        driver.get("about:blank")
        driver.get_log("browser")
        began = time.monotonic()
        driver.get(f"file://{file}{fragment}")
        while not driver.execute_script(SETS):
            assert time.monotonic() - began < 30
            time.sleep(0.02)
        self.seconds = time.monotonic() - began

    def run(self, script: str, *args: Any) -> Any:
        return self.driver.execute_script(script, *args)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def keys(self, *keys: str) -> None:
        """To whatever has the focus, as a user types."""
        from selenium.webdriver import ActionChains

        actions = ActionChains(self.driver)
        for key in keys:
            actions = actions.send_keys(key)
        actions.perform()

    def text(self, selector: str) -> str:
        return str(self.driver.find_element("css selector", selector).text)

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements("css selector", selector))

    def pixels(self) -> int:
        """How many different colours the timeline has."""
        return int(
            self.run("""
            const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d");
            const data = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
            return new Set(data).size;""")
        )

    def check_quiet(self) -> None:
        loud = [line for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        assert loud == []


@pytest.fixture
def opened(chromium: Any, folder: Path) -> Iterator[Any]:
    """Opens a page of the folder; nothing may stand on the console at the end."""
    pages: list[Page] = []

    def open_(name: str, fragment: str = "") -> Page:
        pages.append(Page(chromium, folder / name, fragment))
        return pages[-1]

    yield open_
    pages[-1].check_quiet()


def test_the_first_picture_of_16_ctas_is_there_in_two_seconds(opened: Any) -> None:
    page = opened("product.html")
    assert page.seconds < FIRST_PICTURE
    assert page.pixels() > 8
    assert page.count("#cta option") == 17


def test_zoom_and_keys_move_the_timeline(opened: Any) -> None:
    page = opened("ring.html")
    span = "return [look.view.from, look.view.to]"
    page.run("look.view.canvas.focus()")
    whole = page.run(span)
    page.keys("+", "+")
    near = page.run(span)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 4)
    page.keys("\ue014")  # the right arrow
    assert page.run(span)[0] > near[0]
    page.keys("0")
    assert page.run(span) == whole
    page.keys("u")
    assert page.run("return look.view.units") == "order"
    assert page.pixels() > 8


def test_a_bar_leads_to_its_line_its_cause_and_its_step(opened: Any) -> None:
    page = opened("ring.html")
    page.run("look.view.canvas.focus()")
    page.keys("\ue015")  # down: the second warp
    wait = page.run('return look.view.shown[1].bars.kind.indexOf("wait")')
    page.keys(*["n"] * (wait + 1))
    assert "waits for phase 0 of full[0]" in page.text("#detail")
    assert page.count("#source .row.on") >= 1
    page.keys("c")
    assert "TMA" in page.text("#detail")
    page.keys("c")
    assert "issues" in page.text("#detail")
    line = page.run("return look.line")
    page.keys("2")
    assert page.run("return look.name") == "step"
    page.click("#back")
    page.click("#forward")
    assert page.run("return look.line") > 0
    assert line > 0


def test_search_finds_bars(opened: Any) -> None:
    page = opened("ring.html")
    page.run("look.view.canvas.focus()")
    page.keys("/")
    page.keys(*"full[1]")
    found = page.run("return look.view.found.length")
    assert found > 4
    page.keys("\ue007")
    assert "full[1]" in page.text("#detail")
    page.keys("\ue00c")  # escape leaves the field


def test_steps_go_forward_and_back_with_registers_and_banks(opened: Any) -> None:
    page = opened("product.html", "#view=step")
    page.run("look.view.seekLine(47)")
    while not page.run("return look.view.one.touched[look.view.at].length"):
        page.click("#forward")
    assert page.count("table.banks td[style]") >= 32
    assert "4 wavefronts, 4 ideal" in page.text("#view")
    page.click("#swizzle")
    assert "16 wavefronts, 4 ideal" in page.text("#view")
    assert page.count("#register-table td.hot") >= 32
    at = page.run("return look.view.at")
    page.keys("\ue014")
    assert page.run("return look.view.at") == at + 1
    page.keys("\ue012")
    assert page.run("return look.view.at") == at
    page.click("#lanes td")
    assert page.count("#lanes td.hot") == 1


def test_a_line_of_the_source_leads_to_its_statement(opened: Any) -> None:
    page = opened("product.html", "#view=step")
    page.run("look.lines.get(45)[0].click()")
    assert page.text("#statement") == "T.cuda.cta_sync()"
    assert page.run("return look.line") == 45


def test_a_finding_shows_both_accesses_and_what_lacks(opened: Any) -> None:
    page = opened("race.html")
    assert page.run("return look.name") in ("findings", "timeline")
    page.click("#tab-findings")
    text = page.text("#finding-0")
    assert "race" in text
    assert "other access" in text
    assert page.count("#finding-0 path.lacks") == 1
    assert page.count("#finding-0 circle") >= 2
    page.click("#finding-0 .link")
    assert page.run("return look.line") > 0


def test_a_race_is_marked_at_the_two_accesses_that_race_not_at_the_last_of_their_lines(opened: Any) -> None:
    page = opened("parity.html")
    accesses = page.run("return [...document.querySelectorAll('#finding-0 g.access')].map((one) => one.dataset.key)")
    assert len(accesses) == 2
    writer, reader = ([int(part) for part in each.split(",")] for each in accesses)
    again = """const [stream, k, line] = arguments, one = look.data.streams[stream], { ran, rows } = look.data;
        const ranLines = (n) => n < 0 ? [] : ran[n][0].map(([row]) => rows[row][3]);
        const lines = (at) => [one.line[at], ...ranLines(one.ran[at])];
        return one.line.filter((_, at) => at > k && lines(at).includes(line)).length"""
    assert page.run(again, *reader, 45) > 0, "the line runs again behind the race"
    assert page.run(again, *writer, 35) > 0, "so does the copy"
    assert "still under way" in page.text("#finding-0 svg")


def test_one_click_leads_from_the_finding_to_its_bar_and_to_its_statement(opened: Any) -> None:
    page = opened("parity.html")
    page.click("#finding-0 .ways .link")
    assert page.run("return look.name") == "timeline"
    assert page.run("return [look.view.selected.row.stream, look.view.selected.k]") == page.run(
        "return look.data.moments[0][0].slice(0, 2)"
    )
    assert "finding 1" in page.text("#detail")
    assert page.run("return look.line") == 45
    page.click("#tab-findings")
    page.click("#finding-0 .ways .link:nth-of-type(2)")
    assert page.run("return look.name") == "step"
    assert page.run("return look.view.at + look.view.one.start") == page.run("return look.data.moments[0][0][2]")
    assert page.run("return look.line") == 45
    assert page.count("#lanes td.hot") == 1


def test_step_begins_at_the_finding(opened: Any) -> None:
    page = opened("parity.html", "#view=step")
    assert page.run("return look.view.at + look.view.one.start") == page.run("return look.data.moments[0][0][2]")
    assert "finding 1" in page.text("#view")


def test_what_a_finding_cut_off_is_drawn_as_cut_off(opened: Any) -> None:
    words = "return look.data.streams.flatMap((one) => one.open.map((k) => look.data.words[one.word[k]]))"
    for name in ("parity.html", "init.html"):
        cut = opened(name).run(words)
        assert cut
        assert all(each.endswith("cut off: the run ends here, at what was found") for each in cut)
    never = opened("deadlock.html").run(words)
    assert len(never) == 2
    assert all(each.endswith("never over") for each in never)


def test_an_mbarrier_that_nobody_signals_has_a_row_with_its_count(opened: Any) -> None:
    page = opened("deadlock.html", "#view=timeline")
    assert "empty[0]" in page.run("return look.view.shown.map((row) => row.label)")
    phase = page.run("""const row = look.view.shown.find((one) => one.label === "empty[0]");
        return [look.data.words[row.bars.word[0]], row.open.has(0)]""")
    assert phase == ["phase 0: 0 of 32 arrivals, not over", True]


def test_a_deadlock_is_drawn_who_waits_for_what_and_who_would_tell_it(opened: Any) -> None:
    page = opened("deadlock.html")
    assert page.count(".waits .thing") == 2
    text = page.text(".waits")
    assert "empty[0]" in text
    assert "0 of 32 arrivals came" in text
    assert "512 bytes of 1 KiB announced came" in text
    assert "nobody has come here" in text
    assert page.count(".waits path.awaits") == 2
    assert page.count(".waits path.waits-itself") >= 2
    page.click(".waits .link:nth-of-type(2)")
    assert page.run("return look.name") == "timeline"


def test_a_wait_without_time_stays_in_sight_below_a_mark(opened: Any) -> None:
    page = opened("ring.html")
    found = page.run("""const view = look.view, row = view.shown[0];
        const k = row.bars.kind.indexOf("mark"), y = 24 + 22 * view.shown.indexOf(row);
        view.from = row.bars.c[k] - 2; view.to = row.bars.c[k] + 20; view.draw();
        const x = view.x(row.bars.c[k]);
        return [row.bars.kind[view.hit(x, y + 4).k], row.bars.kind[view.hit(x, y + 16).k], view.span(row, k)]""")
    assert found[0] == "mark"
    assert found[1] == "wait"


def test_what_is_looked_at_stands_in_the_address(opened: Any) -> None:
    page = opened("parity.html", "#view=timeline")
    page.run("look.view.canvas.focus()")
    page.keys("+", "\ue015", "n", "n")
    time.sleep(0.4)
    fragment, state = page.run("return [location.hash, look.view.state()]")
    assert "at=w1.1" in fragment
    assert "span=" in fragment
    again = opened("parity.html", fragment)
    assert again.run("return look.view.state()") == state
    again.keys("2", "\ue014")
    time.sleep(0.4)
    fragment, state = again.run("return [location.hash, look.view.state()]")
    assert "view=step" in fragment
    assert f"step={state['step']}" in fragment
    assert opened("parity.html", fragment).run("return look.view.state()") == state


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("#view=foo", 'no view "foo"; it has timeline, step, findings, layout'),
        ("#view=timeline&cta=7", "CTA 7 is not recorded"),
        ("#view=timeline&at=w0.9999", "no bar w0.9999"),
        ("#view=step&warp=0.5", "no statements of CTA and warp 0.5"),
        ("#view=findings&finding=9", "no finding 9"),
    ],
)
def test_an_address_that_asks_in_vain_is_told_so(opened: Any, fragment: str, said: str) -> None:
    page = opened("parity.html", fragment)
    assert said in page.text("#notice")
    assert page.run("return document.getElementById('view').children.length") == 1


@pytest.mark.parametrize("sought", ["stage, turn", "stages", "total[j]", "warp 1", "computes", "full[0]"])
def test_search_finds_names_of_the_source_of_buffers_and_of_warps(opened: Any, sought: str) -> None:
    page = opened("parity.html", "#view=timeline")
    page.run("look.view.canvas.focus()")
    page.keys("/", *sought)
    assert page.run("return look.view.found.length") > 0


def test_long_lines_of_the_source_are_shown_whole(opened: Any) -> None:
    page = opened("parity.html")
    assert page.count("#source .text") > 50
    cut = "(one) => one.scrollWidth > one.clientWidth + 1"
    assert page.run(f"return [...document.querySelectorAll('#source .text')].filter({cut}).length") == 0


def test_lines_that_are_needed_are_listed(opened: Any) -> None:
    page = opened("ring.html", "#view=findings")
    assert page.count("#needed tr") == 6
    assert "needed:" in page.text("#needed")


def test_a_link_to_a_layout_is_a_question_with_its_answer(opened: Any, folder: Path) -> None:
    page = opened("explorer.html", "#view=layout&l=(6,2):(8,2)&op=compose&b=(4,3):(3,1)")
    assert "((2,2),3):((24,2),8)" in page.text("#answer")
    assert page.count("#answer ol li") >= 3
    page.run("""const fields = look.view.fields;
        fields.l.value = "Sw<3,3,3> o 0 o (64,64):(64,1)";
        fields.op.value = "show";
        fields.access.value = "rows";
        look.view.changed();""")
    assert page.text("#wavefronts") == "4 wavefronts, 4 ideal"
    fragment = page.run("return location.hash")
    again = opened("explorer.html", fragment)
    assert again.text("#wavefronts") == "4 wavefronts, 4 ideal"
    again.run('look.view.fields.l.value = "(8,4"; look.view.changed();')
    assert "bracket" in again.text("#answer [role=alert]")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [420, 1400])
def test_light_and_dark_wide_and_narrow_fit(opened: Any, chromium: Any, width: int, dark: bool) -> None:
    chromium.set_window_size(width, 900)
    try:
        page = opened("ring.html")
        page.run("look.theme(arguments[0])", dark)
        for name in ("timeline", "step", "findings", "layout"):
            page.click(f"#tab-{name}")
            assert page.run("return document.documentElement.scrollWidth") <= page.run("return window.innerWidth") + 1
        ink, back = (
            page.run(f"return getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
        )
        assert ink != back
    finally:
        chromium.set_window_size(1400, 900)


def test_colours_of_wavefronts_differ_in_lightness_too(opened: Any) -> None:
    page = opened("ring.html")
    shades = page.run("""return WAVES.map((hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)))
        .map(([r, g, b]) => 0.3 * r + 0.59 * g + 0.11 * b)""")
    assert len(set(shades)) == len(shades)
    assert all(abs(shades[k] - shades[k + 1]) > 12 for k in range(len(shades) - 1))
