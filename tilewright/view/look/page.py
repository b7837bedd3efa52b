"""The page of a recorded run: one file that needs no server and no network, with its data compressed inside.

Browsers decompress it themselves (DecompressionStream: Chromium 80, Firefox 113, Safari 16.4).
"""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.view.look.data import data_of, measured_rows

if TYPE_CHECKING:
    from tilewright.sim.record.recording import Recording
    from tilewright.tracing import Trace

__all__ = ["explorer", "in_a_frame", "page_of"]

FILES = Path(__file__).parent / "static"
SCRIPTS = ("layouts.js", "tools.js", "timeline.js", "steps.js", "findings.js", "explorer.js", "main.js")
MOST_BYTES = 1_900_000
"""Of a page."""


def page_of(
    recording: Recording, *, view: str = "timeline", needed: list[dict[str, Any]] | None = None,
    measured: Trace | None = None,
) -> str:  # fmt: skip
    """The HTML of a recording. view: that it opens with. needed: rows of `tilewright.needed`, where they were made.
    measured: marks that were stamped on a GPU, to stand beside it.
    """
    for steps in (4000, 1500, 500, 150, 0):
        data = data_of(recording, steps) | {"view": view, "needed": needed or []}
        if measured is not None:
            data |= {"measured": measured_rows(recording, measured), "measured_unit": measured.unit,
                     "differs": measured.differs_from(recording), "waits": measured.waits()}  # fmt: skip
        text = _html(f"{recording.kernel}: a recorded run", data)
        if len(text) <= MOST_BYTES:
            break
    return text


def explorer() -> str:
    """The explorer of layouts as a page of its own."""
    return _html("Layouts: an explorer", {"view": "layout", "kernel": ""})


def _html(title: str, data: dict[str, Any]) -> str:
    packed = base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)).decode()
    script = "\n".join((FILES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    parts = {"TITLE": escape(title), "STYLE": (FILES / "look.css").read_text(encoding="utf-8"),
             "SCRIPT": script.replace("</script", "<\\/script"), "DATA": packed}  # fmt: skip
    page = (FILES / "look.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def in_a_frame(page: str, height: int = 640) -> str:
    """The page inside of another one, as in a cell of a notebook."""
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:6px"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}" title="a recorded run"></iframe>'
