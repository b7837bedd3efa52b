"""One colour per key, the same in a terminal, in SVG and in HTML: light tints that dark text stays readable on."""

from __future__ import annotations

import colorsys

__all__ = ["tint"]

GOLDEN = 0.61803398875  # part of a turn from key to key, so that neighbours get hues far apart


def tint(key: int) -> str:
    """``#rrggbb`` for a colour key; white for -1.

    >>> tint(-1), tint(0)
    ('#ffffff', '#f2a6a6')
    """
    if key < 0:
        return "#ffffff"
    hue = key * GOLDEN % 1
    lightness = 0.80 if key // 8 % 2 == 0 else 0.87
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
