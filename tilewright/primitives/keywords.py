"""What the keywords of tile calls mean: the words of their declarations, and of those that several share."""

from __future__ import annotations

import re

__all__ = ["described_in", "meaning_of"]

SHARED = {
    "dispatch": "the name of the variant that is to take the call; an error says why it does not",
    "workspace": "a dict of buffers; the first in shared memory is the scratch memory of a call that needs some; "
    "left out, the compiler finds it",
    "vec_len": "elements of one access; the widest that fits, if left out",
    "rounding_mode": "to nearest, to zero, down or up: rn, rz, rm, rp; of float32 alone",
    "nan": '"propagate" gives NaN where a side is NaN, "number" the other side',
    "overflow": '"saturate" gives floats of 8, 6 and 4 bits their largest value, where the others have NaN or infinity',
    "approximate": '"tanh" is the formula with tanh, "none" the one with erf',
    "formula": "the text of an expression over the sources, which are a, b, c, ... in their order",
    "cache_hint": "how long the L2 cache is to keep what is moved",
}
"""Of keywords that their declarations do not describe."""

_ENTRY = re.compile(r"(?:^|(?<=\. ))((?:\w+(?:, | and ))*\w+): ")


def described_in(text: str) -> dict[str, str]:
    """The keywords that a docstring describes, as in "clip: regions may leave. fill, oob: what is outside."."""
    parts = _ENTRY.split(" ".join(text.split()))[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: said.strip().removesuffix(".") for names, said in pairs for name in re.split(", | and ", names)}


def meaning_of(name: str, described: str) -> str:
    """What a keyword means: as its declaration has it, else as it is for all."""
    return described or SHARED.get(name, "")
