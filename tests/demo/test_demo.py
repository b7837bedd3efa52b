"""The demo transposes its picture, and shows every step."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from tilewright.demo import run_demo
from tilewright.demo.steps import picture, write_png


def test_the_demo_transposes_a_picture_and_tells_the_conflicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo(tmp_path, n=128)

    text = capsys.readouterr().out
    conflicts = next(line for line in text.splitlines() if line.startswith("conflicts"))
    assert [int(number.replace(",", "")) for number in conflicts.split()[1:]] == [3584, 0]
    assert "equal to NumPy's transpose, bit for bit" in text
    assert "4 LDSM and 4 STSM" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.png", "before.png", "fragment.svg"]


def test_a_png_holds_the_pixels(tmp_path: Path) -> None:
    image = np.array([[0, 0.5, 1], [1, 0, 0]], np.float16)

    write_png(tmp_path / "a.png", image)

    data = (tmp_path / "a.png").read_bytes()
    start = data.index(b"IDAT") + 4
    length = int.from_bytes(data[start - 8 : start - 4], "big")
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert zlib.decompress(data[start : start + length]) == bytes([0, 0, 128, 255, 0, 255, 0, 0])


def test_the_picture_shows_a_transposition() -> None:
    image = picture(64)

    assert not np.array_equal(image, image.T)
    assert float(image.min()) >= 0
    assert float(image.max()) <= 1
