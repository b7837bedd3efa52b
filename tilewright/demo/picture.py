"""The picture that the demo transposes, made by formula, and the little that it takes to write a PNG."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def picture(n: int = 1024) -> NDArray[np.float16]:
    """An n x n picture, 0 black to 1 white: a lit sphere at the upper right over waves that run down to the left.

    Nothing in it is symmetric about the diagonal, so that a transposition shows.
    """
    y, x = np.mgrid[0:n, 0:n].astype(np.float32) / n
    waves = 0.45 + 0.2 * np.sin(40 * (y - 0.35 * x) ** 2 + 9 * x) - 0.25 * y
    dx, dy, radius = x - 0.66, y - 0.34, 0.27
    inside = dx**2 + dy**2 < radius**2
    height = np.sqrt(np.maximum(radius**2 - dx**2 - dy**2, 0))
    light = np.clip((-0.5 * dx - 0.6 * dy + 0.62 * height) / radius, 0, 1)
    shadow = np.exp(-(((x - 0.42) / 0.25) ** 2 + ((y - 0.72) / 0.05) ** 2))
    ground = waves * (1 - 0.6 * shadow)
    shade: NDArray[np.float16] = np.clip(np.where(inside, 0.08 + 0.9 * light, ground), 0, 1).astype(np.float16)
    return shade


def write_png(path: Path, image: NDArray[np.float16]) -> None:
    """Write a greyscale picture, values 0 to 1, with 8 bits a pixel.

    A PNG of one kind is a header, one compressed stream and three checksums; an imaging library would be the largest
    dependency of the project. Source: W3C, "Portable Network Graphics (PNG) Specification", chunks IHDR, IDAT, IEND.
    """
    height, width = image.shape
    pixels = np.rint(image.astype(np.float32) * 255).astype(np.uint8)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)  # filter 0 before each row
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks)))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, data = part
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
