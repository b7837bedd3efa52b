"""What one ``--arg`` says, as data: `argument_spec` reads its text once, and a run makes its value.

x:f32[1024]=random    n=7    g={7, {1, 2}, f32[4]}    m=map(f16[128,64], box=64x32)    c=a    x=FILE.npy
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, choices
from tilewright.host import TensorMap, Texture, zeros
from tilewright.inputs import check_room, saved
from tilewright.load.cu_tree import split

TYPES = {
    **{f"{letter}{bits}": f"{name}{bits}" for letter, name in (("i", "int"), ("s", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "b8": "uint8",
    "bool": "bool",
}  # fmt: skip
SHORT = {name: short for short, name in reversed(TYPES.items())}
"""The first of these words for a type, by its name."""
MOST_RANDOM = 1 << 22  # numbers that are made of one array
OF_MAPS = ("box", "swizzle", "steps", "strides", "oob")
OF_TEXTURES = ("filter", "address", "channels", "normalized", "floats")
ALLOWED = (
    "NAME:f32[1024]=random, NAME:f32[1024][1:] (from its second on), "
    "NAME:i32[8,16] (zeros), NAME:i32[3]=0,5,9, NAME=FILE.npy, NAME=7, null, NAME=OTHER (the "
    "same array), NAME=map(f16[128,64]=random, box=64x32, swizzle=3) (a tensor map; oob=nan, steps=1x2, strides=72x1 "
    "in elements), NAME=texture(f32[64,64]=random, filter=linear, address=border, normalized=1, channels=4, floats=1), "
    "or NAME={FIELD, FIELD} of such, where i32(7) has its type"
)
ALLOWED_FILLS = (
    "zeros, ones, ramp, random, uniform, ramp(9), steps(100), random(0,50), a number, numbers with commas, FILE.npy"
)
_NAMED = re.compile(r"(?:(\w+)\s*([:=]))?\s*(.*)", re.DOTALL)
_ARRAY = re.compile(r"(\w+)\s*\[(\s*\d+\s*(?:[,x]\s*\d+\s*)*)\]\s*(?:\[(\d+):\])?\s*(?:=\s*(.+))?", re.DOTALL)
_CALL = re.compile(r"(\w+)\(([^()]+)\)")


def numbers(text: str | int | Sequence[int]) -> tuple[int, ...]:
    """``4``, ``"4,2"`` or ``[4, 2]`` as numbers."""
    if isinstance(text, int):
        return (text,)
    parts = text.replace("x", ",").split(",") if isinstance(text, str) else text
    try:
        return tuple(int(part) for part in parts)
    except ValueError:
        raise ArgumentError("these are no numbers of threads or CTAs", given=str(text), allowed="4 or 4,2,1") from None


@dataclass(frozen=True)
class Fill:
    """What the elements of an array are. how: zeros, ramp, steps, random, uniform, value (of all), list, file, host.
    numbers: of ramp(9), steps(100), random(0,50), a value or a list. source: the file, or the array of host code.
    octets: of that array.
    """

    how: str = "zeros"
    numbers: tuple[float, ...] = ()
    source: str = ""
    octets: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        inner = ",".join(map(str, self.numbers)) or self.source
        is_plain = self.how in ("value", "list", "file")
        return inner if is_plain else f"{self.how}({inner})" if inner else self.how


ZEROS, RANDOM = Fill(), Fill("random")
BY_CHANCE = ("random", "uniform")  # floats of a normal distribution, and those from 0 to 1
CALLS = (("ramp", 1), ("steps", 1), ("random", 2))  # of fills, with as many numbers
FILLS = {"zeros": ZEROS, "ones": Fill("value", (1,)), "ramp": Fill("ramp"), "random": RANDOM,
         "uniform": Fill("uniform")}  # fmt: skip


@dataclass(frozen=True)
class ArraySpec:
    """An array, ``f32[2,3]=ramp``; without extents one typed number, ``i32(7)``. kind: a word of `TYPES`. first: the
    element that the pointer points to. is_inline: does it lie in a structure, which no pointer leads out of?

    Raises ArgumentError for a type that is none, and for numbers that do not fit it.
    """

    kind: str
    extents: tuple[int, ...]
    fill: Fill = ZEROS
    first: int = 0
    is_inline: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in TYPES:
            raise ArgumentError(f"unknown type {self.kind!r}", allowed=choices(self.kind, TYPES))
        how, listed, limits = self.fill.how, self.fill.numbers, np.iinfo(TYPES[self.kind]) if self._is_whole else None
        if limits and how in ("value", "list") and not all(limits.min <= number <= limits.max for number in listed):
            raise ArgumentError(f"the fill is no {TYPES[self.kind]}", allowed=f"{limits.min} to {limits.max}")
        if how == "list" and len(listed) != prod(self.extents):
            raise ArgumentError("the fill is no list that fits", allowed=f"{prod(self.extents):,} numbers, with commas")
        if how in ("random", "ramp", "steps") and listed and listed[-1] <= (0, *listed[:-1])[-1]:
            allowed = "random(0,50): from 0 to 49; ramp(9): from 0 to 8; steps(100): 0, 100, 200, ..."
            raise ArgumentError("the fill is no range", allowed=allowed)

    def __str__(self) -> str:
        if not self.extents:
            return f"{self.kind}({self.fill})"
        first, fill = f"[{self.first}:]" * bool(self.first), f"={self.fill}" * (self.fill != ZEROS)
        return f"{self.kind}[{','.join(map(str, self.extents))}]{first}{fill}"

    @property
    def _numpy(self) -> np.dtype[Any]:
        return dtype(TYPES[self.kind]).numpy

    @property
    def _is_whole(self) -> bool:
        return self._numpy.kind in "iu"

    def made(self, random: np.random.Generator) -> Any:
        """The array, or the number."""
        whole = self._lazy(random) if self.fill.how in ("zeros", "host", *BY_CHANCE) else self._whole()
        return whole.reshape(-1)[self.first :] if self.first else whole if self.extents else whole[()]

    def _lazy(self, random: np.random.Generator) -> NDArray[Any]:
        """An array that takes memory where it is written: of a very large one random numbers are at its ends."""
        try:
            array = zeros(self.extents, self._numpy)
        except (MemoryError, ValueError):
            allowed = "what this machine has memory for"
            raise ArgumentError("--arg is larger than an array can be", given=f"{self}", allowed=allowed) from None
        flat, octets, ends = array.reshape(-1), self.fill.octets, [slice(None)]
        if octets is not None:
            flat.view(np.uint8)[: octets.size] = octets[: array.nbytes]
        if flat.size > MOST_RANDOM:
            ends = [slice(None, MOST_RANDOM // 2), slice(-MOST_RANDOM // 2, None)]
        for end in ends if self.fill.how in BY_CHANCE else ():
            flat[end] = self._random(flat[end].size, random)
        return array

    def _random(self, count: int, random: np.random.Generator) -> NDArray[Any]:
        if self.fill.how == "uniform" and not self._is_whole:
            return random.random(count)
        if not (self.fill.numbers or self._is_whole):
            return random.standard_normal(count)
        low, high = self.fill.numbers or (0 if self._numpy.kind == "u" else -100, 100)
        return random.integers(int(low), int(high), count)

    def _whole(self) -> NDArray[Any]:
        fill, kind = self.fill, self._numpy
        check_room("--arg", self.extents, dtype(TYPES[self.kind]))
        if fill.how in ("ramp", "steps"):
            ramp, number = np.arange(prod(self.extents)).reshape(self.extents), int((*fill.numbers, 0)[0])
            return (ramp * number if fill.how == "steps" else ramp % number if number else ramp).astype(kind)
        if fill.how == "file":  # its bytes, as an array of this type and shape
            array, needed = saved(fill.source), prod(self.extents) * kind.itemsize
            if array.nbytes != needed:
                size = f"{self}: {array.nbytes} bytes"
                raise ArgumentError("the file has another size", given=size, allowed=f"{needed} bytes")
            return np.frombuffer(bytearray(np.ascontiguousarray(array)), kind).reshape(self.extents)
        with np.errstate(over="ignore"):  # a large float is the infinity of a narrow one
            listed = np.array(fill.numbers, kind)
        return np.full(self.extents, listed.reshape(self.extents) if fill.how == "list" else listed[0], kind)


@dataclass(frozen=True)
class MapSpec:
    """A tensor map of an array. strides: of that, in elements, where its rows are apart; then it has one dimension
    here, and ``extents`` are those of the map.
    """

    array: ArraySpec
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    oob: str = "zero"

    def __str__(self) -> str:
        words = {name: setting for name in OF_MAPS if (setting := getattr(self, name)) != getattr(MapSpec, name, None)}
        shown = {name: "x".join(map(str, word)) if isinstance(word, tuple) else word for name, word in words.items()}
        return f"map({', '.join([f'{self.array}', *(f'{name}={word}' for name, word in shown.items())])})"

    def made(self, random: np.random.Generator) -> TensorMap:
        """The map, with an array of its own."""
        if not self.strides:
            array = self.array.made(random)
        else:
            extents = self.array.extents
            room = 1 + sum((extent - 1) * step for extent, step in zip(extents, self.strides, strict=False))
            line = replace(self.array, extents=(room,)).made(random)
            array = as_strided(line, extents, [step * line.itemsize for step in self.strides])
        return TensorMap(array, self.box, self.swizzle, oob=self.oob, steps=self.steps)


@dataclass(frozen=True)
class TextureSpec:
    """A texture of an array, see `tilewright.Texture`."""

    array: ArraySpec
    filter: str = "point"
    address: str = "clamp"
    channels: int = 1
    normalized: int = 0
    floats: int = 0

    def __str__(self) -> str:
        words = (
            f"{name}={word}" for name in OF_TEXTURES if (word := getattr(self, name)) != getattr(TextureSpec, name)
        )
        return f"texture({', '.join([f'{self.array}', *words])})"

    def made(self, random: np.random.Generator) -> Texture:
        """The texture, with an array of its own."""
        return Texture(self.array.made(random), self.filter, self.address, channels=self.channels,
                       normalized=bool(self.normalized), floats=bool(self.floats))  # fmt: skip


DESCRIBED = (MapSpec, TextureSpec)


@dataclass(frozen=True)
class Saved:
    """The array that np.save wrote to a file."""

    file: str

    def __str__(self) -> str:
        return self.file

    def made(self, random: np.random.Generator) -> NDArray[Any]:
        return saved(self.file)


class Same(str):
    """The array of another argument, or of a sequence, by its name."""


class Null(Enum):
    """A null pointer."""

    NULL = "null"


Value: TypeAlias = "ArraySpec | MapSpec | TextureSpec | Saved | Same | Null | float | tuple[ArgumentSpec, ...]"
"""What an argument is; a tuple is the fields of a structure."""


@dataclass(frozen=True)
class ArgumentSpec:
    """An argument of a launch. name: of its parameter, None where it goes by position. text: as its author wrote it."""

    name: str | None
    value: Value
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        value = "null" if self.value is Null.NULL else str(self.value)
        if isinstance(self.value, tuple):
            value = f"{{{', '.join(map(str, self.value))}}}"
        mark = ":" if isinstance(self.value, ArraySpec) and self.value.extents else "="
        return self.text or (f"{self.name}{mark}{value}" if self.name else value)

    def made(self, random: np.random.Generator) -> Any:
        """Its value. `Any`: an array, a number, None, a `TensorMap`, a `Texture`, or a tuple of such."""
        match self.value:
            case ArraySpec() | MapSpec() | TextureSpec() | Saved():
                return self.value.made(random)
            case tuple():
                return tuple(spec.made(random) for spec in self.value)
            case Same():
                raise ArgumentError("--arg is no argument", given=f"{self}", allowed=ALLOWED)
        return None if self.value is Null.NULL else self.value

    @property
    def number(self) -> float | None:
        """The number that it is, None for anything else."""
        if isinstance(self.value, ArraySpec) and not self.value.extents and self.value.fill.how == "value":
            return self.value.fill.numbers[0]
        return self.value if isinstance(self.value, int | float) else None

    @property
    def parts(self) -> Iterator[Value]:
        """Its value, and those in a structure, and the arrays of tensor maps and textures."""
        yield self.value
        if isinstance(self.value, DESCRIBED):
            yield self.value.array
        for spec in self.value if isinstance(self.value, tuple) else ():
            yield from spec.parts

    @property
    def fills(self) -> set[str]:
        """How its arrays are filled."""
        return {part.fill.how for part in self.parts if isinstance(part, ArraySpec)}

    def filled(self, change: Callable[[Fill], Fill]) -> ArgumentSpec:
        """The same with other fills; itself where none changes."""
        value = self.value
        if isinstance(value, ArraySpec):
            value = replace(value, fill=change(value.fill))
        elif isinstance(value, DESCRIBED):
            value = replace(value, array=replace(value.array, fill=change(value.array.fill)))
        elif isinstance(value, tuple):
            value = tuple(spec.filled(change) for spec in value)
        return self if value == self.value else ArgumentSpec(self.name, value)

    def resized(self, length: Callable[[ArraySpec], int | None]) -> ArgumentSpec:
        """The same with arrays of other lengths, also where a structure points to them; None keeps one as it is."""
        value = self.value
        if (
            isinstance(value, ArraySpec)
            and value.extents
            and not value.is_inline
            and (elements := length(value)) is not None
        ):
            value = replace(value, extents=(elements,))
        elif isinstance(value, tuple):
            value = tuple(spec.resized(length) for spec in value)
        return self if value == self.value else ArgumentSpec(self.name, value)


@dataclass(frozen=True)
class SaidByOptions:
    """What options of a command line say of launches. sizes: values of names in host code. launch: grid and block."""

    args: tuple[ArgumentSpec, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    launch: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def joined(self, other: SaidByOptions) -> SaidByOptions:
        """Both, the other one where they do not agree."""
        args = tuple(dict.fromkeys((*self.args, *other.args)))
        return SaidByOptions(args, {**self.sizes, **other.sizes}, {**self.launch, **other.launch})

    def words(self) -> tuple[str, ...]:
        """The options as a shell takes them, each with its name."""
        return (*self._plain, *(f"--arg {shlex.quote(str(spec))}" for spec in self.args))

    @property
    def hint(self) -> str:
        """The same to be read: arguments first, without quotes where they have no blanks."""
        args = (shlex.quote(text) if " " in text else text for text in map(str, self.args))
        return " ".join((*(f"--arg {text}" for text in args), *self._plain))

    @property
    def _plain(self) -> tuple[str, ...]:
        """Those without arguments."""
        return (*(f"--size {shlex.quote(f'{name}={size}')}" for name, size in self.sizes.items()),
                *(f"--{name} {','.join(map(str, extents))}" for name, extents in self.launch.items()))  # fmt: skip


def argument_spec(text: str) -> ArgumentSpec:
    """An argument as the command line has it. Raises ArgumentError for what is none.

    >>> argument_spec("x:f32[2,3]=ramp").made(np.random.default_rng(0)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    >>> argument_spec("x:i32[5][2:]=ramp").made(np.random.default_rng(0)).tolist()  # a pointer into the middle
    [2, 3, 4]
    """
    try:
        name, mark, words = _NAMED.fullmatch(text.strip()).groups()  # type: ignore[union-attr]  # it matches all texts
        kind, equals, rest = words.partition("=")
        if mark == ":" and equals and kind.strip().isidentifier():  # ``s:f32=7``: a kernel knows its types
            words = rest.strip()
        return ArgumentSpec(name, _value(words), text)
    except ArgumentError as error:
        error.given = text if error.given is None else error.given
        raise


WORDS: dict[str, Value] = {"null": Null.NULL, "true": 1, "false": 0}


def _value(words: str) -> Value:
    if words[:1] == "{" and words[-1:] == "}":
        inner = words[1:-1].strip()
        return tuple(map(argument_spec, split(inner))) if inner else ()
    if words.startswith("map(") and words.endswith(")"):
        return _map(split(words[4:-1]))
    if words.startswith("texture(") and words.endswith(")"):
        return _texture(split(words[8:-1]))
    if (array := _ARRAY.fullmatch(words)) is not None:
        return _array(array)
    if words in WORDS:
        return WORDS[words]
    if words.endswith(".npy"):
        return Saved(words)
    if (typed := _CALL.fullmatch(words)) is not None and typed[1] in TYPES:
        return ArraySpec(typed[1], (), _fill(typed[2].strip(), typed[1]))
    number = _number(words, _whole, float)
    if number is None and not words.isidentifier():
        raise ArgumentError("--arg is no argument", allowed=ALLOWED)
    return Same(words) if number is None else number


def _array(match: re.Match[str]) -> ArraySpec:
    """An array as `_ARRAY` matches it."""
    kind, extents, first, how = match.groups()
    return ArraySpec(kind, numbers(extents), _fill((how or "zeros").strip(), kind), int(first or 0))


def _fill(words: str, kind: str) -> Fill:
    if words in FILLS:
        return FILLS[words]
    if words.endswith(".npy"):
        return Fill("file", source=words)
    call = _CALL.fullmatch(words)
    how, listed = call.groups() if call is not None else ("list" if "," in words else "value", words.strip("{}"))
    is_whole = call is not None or TYPES.get(kind, "").startswith(("int", "uint"))
    values = tuple(_number(part, _whole if is_whole else float) for part in listed.split(","))
    if None in values or (call is not None and (how, len(values)) not in CALLS):
        raise ArgumentError(f"unknown fill {words!r}", allowed=ALLOWED_FILLS)
    return Fill(how, values)  # type: ignore[arg-type]  # none is None


def _number(text: str, *ways: Callable[[str], float]) -> float | None:
    for way in ways:
        with suppress(ValueError):
            return way(text)
    return None


_whole = partial(int, base=0)


def _settings(parts: Sequence[str]) -> dict[str, str]:
    """``box=64x32``, ``swizzle=3`` by their names."""
    return {name.strip(): words.strip() for name, _, words in (part.partition("=") for part in parts)}


def _texture(parts: Sequence[str]) -> TextureSpec:
    """``f32[64,64]=random``, ``filter=linear``: an array, and how coordinates reach its texels."""
    settings = _settings(parts[1:])
    if other := next((name for name in settings if name not in OF_TEXTURES), None):
        raise ArgumentError(f"a texture has no {other}", allowed=choices(other, OF_TEXTURES))
    array = _ARRAY.fullmatch(parts[0].strip())
    counts = {name: _number(settings[name], int) for name in OF_TEXTURES[2:] if name in settings}
    if array is None or None in counts.values():
        raise ArgumentError("a texture is of an array", allowed="texture(f32[64,64], filter=linear, normalized=1)")
    return TextureSpec(_array(array), **{**settings, **counts})  # type: ignore[arg-type]  # numbers are numbers


def _map(parts: Sequence[str]) -> MapSpec:
    """``f16[128,64]=random``, ``box=64x32``, ``swizzle=3``: an array, and the boxes of it that a kernel moves."""
    settings = _settings(parts[1:])
    if other := next((name for name in settings if name not in OF_MAPS), None):
        allowed = "box=64x32, swizzle=0 to 3, steps=1x2, strides=72x1, oob=zero or nan"
        raise ArgumentError(f"a tensor map has no {other}", allowed=allowed)
    array = _ARRAY.fullmatch(parts[0].strip())
    if array is None or "box" not in settings:
        raise ArgumentError("a tensor map is of an array, by a box", allowed="map(f16[128,64], box=64x32)")
    lists = {name: numbers(settings[name]) for name in ("box", "steps", "strides") if name in settings}
    if (swizzle := _number(settings.get("swizzle", "0"), int)) is None:
        raise ArgumentError("a swizzle of a tensor map is a number", allowed="swizzle=0 to 3")
    return MapSpec(_array(array), swizzle=int(swizzle), oob=settings.get("oob", "zero"), **lists)
