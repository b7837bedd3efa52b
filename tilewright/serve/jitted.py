"""A submission in Triton: its compiler runs behind walls, as it runs the author's Python, and hands on PTX as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ToolError
from tilewright.load.triton import LoadedTriton, TritonText, load_triton
from tilewright.serve.reading import UNREADABLE, Load, handed_on, no_kernel
from tilewright.serve.submission import Case, Submission
from tilewright.serve.unaware import Read

ROOM = 4 << 30  # bytes of address space that its libraries and threads reserve without using it
OPTIONS = ("num_warps", "num_stages", "num_ctas")


def is_at_hand() -> bool:
    """Is Triton installed?"""
    return find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class Jitted:
    """The kernel of a case. names: what its grid may name: sizes, and constants that are whole numbers."""

    loaded: LoadedTriton
    names: Mapping[str, int]


def jitted(submission: Submission, cases: Sequence[Case], load: Load, folder: Path, read: Read) -> list[Jitted]:
    """What Triton makes of the kernel for each case. Raises SubmissionRefused where there is none, ToolError where
    Triton is not installed.
    """
    if not is_at_hand():
        raise ToolError("Triton is not installed", hint="pip install triton")
    options = {name: value for name in OPTIONS if (value := getattr(submission.launch, name)) is not None}
    options |= {"target": submission.target or "sm_90a", "config": submission.launch.config}
    types = [
        ({name: (array.shape, array.dtype) for name, array in case.memory.items()}, case.numbers) for case in cases
    ]
    make = partial(_texts, types, {**submission.constants, **options}, load)
    data = handed_on(submission, make, folder, read, more_bytes=ROOM)
    try:
        told = json.loads(bytes(data))
        texts = [_text(text) for text in told["texts"]]
        rows = [(texts[int(number)], list(map(str, passed)), _numbers(more)) for number, passed, more in told["cases"]]
        return [_jitted(submission, case, *row) for case, row in zip(cases, rows, strict=True)]
    except UNREADABLE as error:
        raise no_kernel(submission, error) from None


Types = tuple[Mapping[str, tuple[tuple[int, ...], "np.dtype[Any]"]], Mapping[str, "int | float"]]
"""Of a case: shape and type of each array, and the numbers."""


def _texts(cases: Sequence[Types], options: Mapping[str, Any], load: Load, place: str) -> bytes:
    """In the process behind walls: the texts, and of each case its text, the arguments that are passed, and the numbers
    that are none of the submission's arguments.
    """
    kernel = load(place, [])
    texts, rows = list[TritonText](), list[Any]()
    for arrays, numbers in cases:
        declared = {**{name: np.zeros(*of) for name, of in arrays.items()}, **numbers}
        loaded = load_triton(kernel, **{**declared, **options})
        if loaded.metadata not in texts:
            texts.append(loaded.metadata)
        more = {name: value for name, value in loaded.values.items()
                if name not in declared and isinstance(value, (int, float))}  # fmt: skip
        rows.append([texts.index(loaded.metadata), loaded.passed, more])
    return json.dumps({"texts": list(map(asdict, texts)), "cases": rows}).encode()


def _text(fields: Mapping[str, Any]) -> TritonText:
    """From JSON, in which nothing is taken for granted. No argument of a submission is a descriptor, with a map."""
    text = TritonText(**{**fields, "tensordesc_meta": ()})
    numbers = (text.shared, text.num_ctas, text.global_scratch_size, text.profile_scratch_size)
    if not (
        type(text.ptx) is type(text.name) is str and all(type(number) is int and number >= 0 for number in numbers)
    ):
        raise ValueError("a field of another type")
    return text


def _numbers(numbers: Mapping[str, Any]) -> dict[str, int | float]:
    if unfit := [name for name, value in numbers.items() if not isinstance(value, (int, float))]:
        raise ValueError(f"{unfit[0]} is no number")
    return dict(numbers)


def _jitted(
    submission: Submission, case: Case, text: TritonText, passed: Sequence[str], more: Mapping[str, int | float]
) -> Jitted:
    numbers = {name: value for name, value in more.items() if type(value) is int}
    loaded = LoadedTriton(text, {**more, **case.memory, **case.numbers}, passed)
    return Jitted(loaded, {**numbers, **submission.names(case.sizes)})
