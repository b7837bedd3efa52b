"""Whole files with mistakes: each ends in a run, or in an error of tilewright's own, and soon."""

from __future__ import annotations

import contextlib
import gzip
import random
import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.load.programs import FOLDER
from tilewright.errors import TilewrightError
from tilewright.load import LoadedModule

TOKEN = re.compile(r"\s+|[\w$%.:]+|[^\w\s]")
TRITON = [
    gzip.decompress(path.read_bytes()).decode() for path in sorted((Path(__file__).parent / "triton").glob("*.gz"))
]
CUDA = [path.read_text() for path in sorted(Path(FOLDER).glob("*.cu"))]


def garbled(text: str, source: random.Random) -> str:
    """The text with a few tokens lost, doubled, swapped or replaced."""
    tokens = TOKEN.findall(text)
    for _ in range(source.randint(1, 4)):
        at, other, length = source.randrange(len(tokens)), source.randrange(len(tokens)), source.choice((1, 1, 3, 10))
        change = source.randrange(4)
        if change == 0:
            del tokens[at : at + length]
        elif change == 1:
            tokens[at:at] = tokens[at : at + length]
        elif change == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens[at] = tokens[other]
    return "".join(tokens)


def run(module: LoadedModule) -> None:
    """Run the kernels of a module with arguments of some kind."""
    for kernel in module:
        given = [np.zeros(256, np.uint8) if param.type in ("u64", "b8") else 1 for param in kernel.entry.params]
        kernel.simulate(*given, grid=1, block=32, limit_s=1)


@pytest.mark.parametrize("seed", range(12))
def test_garbled_ptx_ends_in_an_error_of_ours(seed: int) -> None:
    source = random.Random(seed)
    text = garbled(source.choice(TRITON), source)

    with contextlib.suppress(TilewrightError):  # any other exception fails
        run(tw.load_ptx(text))


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_garbled_cuda_ends_in_an_error_of_ours(seed: int) -> None:
    source = random.Random(seed)
    text = garbled(source.choice(CUDA), source)

    with contextlib.suppress(TilewrightError):  # any other exception fails
        run(tw.load_cu(text))
