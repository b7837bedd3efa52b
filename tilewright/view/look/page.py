"""The page of a recorded run: one file that needs no server and no network, with its data compressed inside.

Browsers decompress it themselves (DecompressionStream: Chromium 80, Firefox 113, Safari 16.4).
"""

from __future__ import annotations

import base64
import json
import zlib
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentError
from tilewright.view.look.data import data_of, measured_rows, steps_of

if TYPE_CHECKING:
    from tilewright.sim.record.recording import Recording
    from tilewright.tracing import Trace

FILES = Path(__file__).parent / "static"
SCRIPTS = ("layouts.js", "tools.js", "timeline.js", "steps.js", "findings.js", "waits.js", "explorer.js", "main.js")
MOST_BYTES = 1_900_000
"""Of a page."""

MOST_STEPS = (6000, 1500, 400, 100)
"""Statements of a warp that are shown one by one: as many of these as there is room for."""


def page_of(
    recording: Recording, *, view: str = "timeline", needed: list[dict[str, Any]] | None = None,
    measured: Trace | None = None,
) -> str:  # fmt: skip
    """The HTML of a recording. view: that it opens with. needed: rows of `tilewright.needed`, where they were made.
    measured: marks that were stamped on a GPU, to stand beside it.
    """
    data = data_of(recording) | {"view": view, "needed": needed or []}
    if measured is not None:
        data |= {"measured": measured_rows(recording, measured), "measured_unit": measured.unit,
                 "differs": measured.differs_from(recording), "waits": measured.waits()}  # fmt: skip
    packed = _packed(data)
    room, kept = MOST_BYTES - len(packed) - _own_bytes(), []
    for steps in recording.stepped:
        for most in MOST_STEPS:
            text = _packed(steps_of(steps, most, last=bool(recording.moments)))
            if len(text) <= room:
                kept.append(text)
                room -= len(text)
                break
    return _html(f"{recording.kernel}: a recorded run", packed, kept)


def written(path: str | Path | None, text: str) -> str:
    """The text, also written into a file where a path is given. Raises ArgumentError where that is not possible."""
    try:
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
    except (OSError, TypeError) as error:
        why = getattr(error, "strerror", None) or "no path"
        raise ArgumentError(f"no file can be written there: {why.lower()}", given=repr(str(path)),
                            allowed="the path of a file, in a folder that is there") from None  # fmt: skip
    return text


def explorer() -> str:
    """The explorer of layouts as a page of its own."""
    return _html("Layouts: an explorer", _packed({"view": "layout", "kernel": ""}), [])


def _packed(data: dict[str, Any]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 6)).decode()


@cache
def _own(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _own_bytes() -> int:
    """Of a page without any data."""
    return sum(len(_own(name)) for name in ("look.html", "look.css", *SCRIPTS))


def _html(title: str, packed: str, stepped: list[str]) -> str:
    script = "\n".join(map(_own, SCRIPTS)).replace("</script", "<\\/script")
    parts = {"TITLE": escape(title), "STYLE": _own("look.css"), "SCRIPT": script, "DATA": packed,
             "STEPS": json.dumps(stepped, separators=(",", ":"))}  # fmt: skip
    page = _own("look.html")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def in_a_frame(page: str, height: int = 640) -> str:
    """The page inside of another one, as in a cell of a notebook."""
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:6px"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}" title="a recorded run"></iframe>'
