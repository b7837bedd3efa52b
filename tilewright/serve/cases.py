"""The cases that a submission is judged on: sizes drawn from its declaration, and arrays of these sizes.

Ragged sizes come first, then the least ones, the largest, each size at its least with the others ragged, then drawn
ones. What a kernel is to write holds random bits before, so that an element that it leaves out cannot be right by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.errors import ArgumentError
from tilewright.explain import Finding
from tilewright.inputs import check_room
from tilewright.serve.submission import Declared, Size, Submission, evaluated

__all__ = ["Case", "cases_of"]

MOST_ELEMENTS = 1 << 18  # of a case whose sizes are drawn: a simulated kernel of so many takes a second at most
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3e38, 1.0)


@dataclass(frozen=True)
class Case:
    """One set of arguments. memory: of each array all bytes, ``arrays`` what the kernel shall see of it."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]
    memory: Mapping[str, NDArray[Any]]
    before: Mapping[str, bytes]
    numbers: Mapping[str, int | float]

    def inputs(self, arguments: tuple[Declared, ...]) -> dict[str, Any]:
        """What a reference gets: copies of what the kernel reads, and the numbers."""
        read = {each.name: self.arrays[each.name].copy() for each in arguments if each.is_array and each.role != "out"}
        return {**read, **self.numbers}

    def touched(self, arguments: tuple[Declared, ...]) -> Iterator[Finding]:
        """Findings for bytes that no kernel may change: inputs, and the gaps between rows."""
        for each in (each for each in arguments if each.is_array):
            now = self.memory[each.name].view(np.uint8).reshape(-1)
            then = np.frombuffer(self.before[each.name], np.uint8)
            changed = now != then
            if each.role != "in" and each.pitch is not None:
                itemsize = self.memory[each.name].itemsize
                used = np.zeros(self.memory[each.name].shape, bool)
                used[..., : self.arrays[each.name].shape[-1]] = True
                changed &= ~np.repeat(used.reshape(-1), itemsize)
            elif each.role != "in":
                continue
            if changed.any():
                what = "changes its input" if each.role == "in" else "writes between the rows of"
                at = f"{each.name}, byte {int(np.argmax(changed))}"
                yield Finding("results", f"the kernel {what} {each.name}", buffer=each.name, given=at,
                              allowed=f"role {each.role!r}")  # fmt: skip

    def unwritten(self, name: str, wrong: NDArray[np.bool_]) -> int:
        """How many of these wrong elements still hold what was there before the run."""
        memory = self.memory[name]
        now = memory.view(np.uint8).reshape(*memory.shape, -1)
        then = np.frombuffer(self.before[name], np.uint8).reshape(now.shape)
        kept = (now == then).all(axis=-1)
        return int(((kept[..., : wrong.shape[-1]] if wrong.ndim else kept) & wrong).sum())


def cases_of(submission: Submission) -> Iterator[Case]:
    """As many cases as asked for, the same ones for the same seed."""
    for number, sizes in enumerate(_sizes(submission)):
        random = np.random.default_rng([submission.seed, number])
        memory = {each.name: _memory(each, sizes, submission, random) for each in submission.arguments if each.is_array}
        arrays = {each.name: _seen(memory[each.name], each, sizes) for each in submission.arguments if each.is_array}
        before = {name: array.tobytes() for name, array in memory.items()}
        numbers = {each.name: _number(each, sizes) for each in submission.arguments if not each.is_array}
        yield Case(sizes, arrays, memory, before, numbers)


# Sizes


def _sizes(submission: Submission) -> list[dict[str, int]]:
    """Distinct sets of sizes; fewer than asked for where the declaration has no more, but one at least."""
    random = np.random.default_rng([submission.seed, 1 << 20])
    declared = submission.sizes

    def drawn(how: Mapping[str, str]) -> dict[str, int]:
        return _fitting(
            submission, {name: _drawn(size, how.get(name, "ragged"), random) for name, size in declared.items()}
        )

    ways: list[dict[str, str]] = [{}, dict.fromkeys(declared, "least"), dict.fromkeys(declared, "most")]
    ways += [{name: "least"} for name in declared]
    ways += [dict.fromkeys(declared, "any") for _ in range(4 * submission.cases)]
    every = {tuple(sizes.items()): sizes for sizes in map(drawn, ways)}
    wanted = submission.cases if declared else 1
    return [*every.values()][:wanted]


def _drawn(size: Size, how: str, random: np.random.Generator) -> int:
    if size.among:
        return {"least": min(size.among), "most": max(size.among)}.get(how) or int(random.choice(size.among))
    least, most = -(-size.start // size.of), size.end // size.of
    if how == "least":
        return max(least, min(1, most)) * size.of
    if how == "most":
        return most * size.of
    low = max(least, 1)
    found = int(np.exp(random.uniform(np.log(low), np.log(max(most, low) + 1)))) if most > low else most
    found = min(max(found, least), most)
    return (found - 1 if how == "ragged" and found % 2 == 0 and found > least else found) * size.of


def _fitting(submission: Submission, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes, the largest of them halved until the case is small enough to simulate."""
    made = dict(sizes)

    def elements() -> int:
        shapes = ([evaluated(extent, made) for extent in each.shape] for each in submission.arguments if each.is_array)
        return sum(int(np.prod(shape, dtype=object)) for shape in shapes)

    free = [name for name, size in submission.sizes.items() if not size.among]
    while free and elements() > MOST_ELEMENTS:
        name = max(free, key=lambda each: made[each])
        size = submission.sizes[name]
        smaller = max(made[name] // 2 // size.of * size.of, -(-size.start // size.of) * size.of)
        if smaller >= made[name]:
            free.remove(name)
        made[name] = min(made[name], smaller)
    return made


# Arrays


def _memory(
    each: Declared, sizes: Mapping[str, int], submission: Submission, random: np.random.Generator
) -> NDArray[Any]:
    assert each.dtype is not None, "it is an array"
    shape = [evaluated(extent, sizes) for extent in each.shape]
    if min(shape, default=0) < 0:
        raise ArgumentError(
            f"{each.name} has a negative extent", given=f"{shape} for {dict(sizes)}", allowed="0 or more"
        )
    if each.pitch is not None:
        pitch = evaluated(each.pitch, sizes)
        if not shape or pitch < shape[-1]:
            raise ArgumentError(
                f"the rows of {each.name} overlap", given=f"pitch {pitch}", allowed=f"{shape[-1:]} or more"
            )
        shape[-1] = pitch
    check_room(each.name, tuple(shape), each.dtype)
    if sum(shape) and int(np.prod(shape)) * each.dtype.numpy.itemsize * 8 > submission.nbytes:
        raise ArgumentError(
            f"{each.name} is larger than the limit", given=f"shape {shape}", allowed=f"{submission.nbytes} bytes in all"
        )
    return _filled(each, tuple(shape), each.dtype, random)


def _filled(each: Declared, shape: tuple[int, ...], kind: DType, random: np.random.Generator) -> NDArray[Any]:
    count = int(np.prod(shape))
    if each.role == "out":
        return _bits(count, kind, random).reshape(shape)
    if not kind.is_float:
        ends = {"zeros": (0, 1), "ones": (1, 2)}.get(
            each.contents, (0 if kind.numpy.kind in "ub" else -100, 2 if kind.numpy.kind == "b" else 100)
        )
        values: NDArray[Any] = np.arange(count) if each.contents == "ramp" else random.integers(*ends, count)
        return values.astype(kind.numpy).reshape(shape)
    normal = random.standard_normal
    makers: dict[str, Callable[[], NDArray[Any]]] = {
        "normal": lambda: normal(count), "uniform": lambda: random.random(count),
        "integers": lambda: random.integers(-8, 9, count), "zeros": lambda: np.zeros(count),
        "ones": lambda: np.ones(count), "ramp": lambda: np.arange(count),
        "special": lambda: np.where(random.random(count) < 0.2, random.choice(SPECIAL, count), normal(count)),
    }  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        return makers[each.contents]().astype(kind.numpy).reshape(shape)


def _bits(count: int, kind: DType, random: np.random.Generator) -> NDArray[Any]:
    """Elements of random bits; booleans, and floats of less than a byte, hold values that they have."""
    if kind.numpy.kind == "b" or kind.bits < 8:
        return random.integers(0, 2, count).astype(kind.numpy)
    return np.frombuffer(random.bytes(count * kind.numpy.itemsize), kind.numpy).copy()


def _seen(memory: NDArray[Any], each: Declared, sizes: Mapping[str, int]) -> NDArray[Any]:
    return memory if each.pitch is None else memory[..., : evaluated(each.shape[-1], sizes)]


def _number(each: Declared, sizes: Mapping[str, int]) -> int | float:
    if isinstance(each.value, float):
        return each.value
    if each.value is None:
        raise ArgumentError(f"argument {each.name} has no value", given="null", allowed='7, 0.5 or "n"')
    return evaluated(each.value, sizes)
