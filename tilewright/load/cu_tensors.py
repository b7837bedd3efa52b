"""The shapes of tensors in host code of extensions: what ``x.size(0)`` and ``x.numel()`` come to, and how a tensor was
made.

Of a tensor that a function is handed the extents are numbers by the names ``x.size(0)``, ``x.size(1)``; it has as many
as the function asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.load.cu_numbers import Number, is_name, type_bytes
from tilewright.load.cu_tree import split, with_values

_ASKED = re.compile(r"(\w+)(?:\.|->)(size|numel|nelement|stride|dim|ndimension|element_size)\((-?\d*)\)"
                    r"|(\w+)(?:\.|->)(?:sizes|shape)\(\)\[(\d+)\]")  # fmt: skip
_MADE = re.compile(r"(?:(?:torch|at)::|[\w.]+\.new_)(empty|zeros|ones|full|rand|randn)\w*\((.*)\)$", re.DOTALL)
_LIKE = re.compile(r"(?:torch|at)::(empty|zeros|ones|full|rand|randn)_like\(\s*(\w+)")
_SAME = re.compile(r"(\w+)\.(?:contiguous|clone|to|cuda|detach|toType|type_as)\(")
_DATA = re.compile(r"(\w+)(?:\.|->)(?:(?:const_|mutable_)?data_ptr|data)\s*<\s*(?:const\s+)?([\w:]+)\s*>\s*\(\s*\)$")
_ACCESSOR = re.compile(r"\b(?:Packed)?TensorAccessor\w*\s*<\s*([\w:]+)\s*,\s*(\d+)")
_INFO = re.compile(r"\bTensorInfo\s*<\s*([\w:]+)\s*,")
_HANDED = re.compile(r"(\w+)(?:\.|->)\w*accessor\w*\s*<|(?:[\w:]+::)?getTensorInfo\s*<.*>\s*\(\s*(\w+)\s*\)",
                     re.DOTALL)  # fmt: skip
_DEPTH = 8  # of tensors that are as others


@dataclass(frozen=True)
class HandedTensor:
    """A tensor as a kernel takes it by value. kind: the type of its elements, in the text's words. shape: its extents,
    as expressions. how: as of `MadeTensor`, "" of one that the function is handed.
    """

    kind: str
    shape: tuple[str, ...]
    how: str = ""


def is_tensor(kind: str) -> bool:
    """Is a parameter of this type an accessor or a TensorInfo, whose sizes go along?"""
    return bool(_ACCESSOR.search(kind) or _INFO.search(kind))


@dataclass(frozen=True)
class MadeTensor:
    """A tensor that host code makes. how: "empty", "zeros" and so on. shape: its extents, as expressions."""

    how: str
    shape: tuple[str, ...]


@dataclass(frozen=True)
class Tensors:
    """The tensors of a function. text: of the function. names: what names stand for in it."""

    text: str
    names: Mapping[str, str | Number]

    def instead(self, word: str) -> str | None:
        """What an expression on a tensor comes to, as one on its extents; None of any other expression."""
        asked = _ASKED.fullmatch(re.sub(r"\s", "", word))
        if asked is None or (is_name(word) and self.made(asked[1]) is None and self._same_as(asked[1]) == asked[1]):
            return None
        tensor, what, place = (asked[1], asked[2], asked[3]) if asked[1] else (asked[4], "size", asked[5])
        shape = self.shape(tensor)
        if what in ("numel", "nelement"):
            return _product(shape)
        if what in ("dim", "ndimension"):
            return str(len(shape))
        if not place or not -len(shape) <= int(place) < len(shape):
            return None
        return shape[int(place)] if what == "size" else _product(shape[int(place) % len(shape) + 1 :])

    def shape(self, tensor: str) -> tuple[str, ...]:
        """The extents of a tensor, as expressions."""
        if (maker := self.made(tensor)) is not None:
            return maker.shape
        root = self._same_as(tensor)
        return tuple(f"{root}.size({place})" for place in range(self._rank(root)))

    def made(self, tensor: str) -> MadeTensor | None:
        """A tensor that the function makes; None of any other."""
        word = str(self.names.get(self._same_as(tensor), ""))
        if like := _LIKE.match(word):
            return MadeTensor(like[1], self.shape(like[2]))
        if (call := _MADE.match(word)) is None:
            return None
        first = split(call[2])[0]
        if sizes := re.fullmatch(r"(\w+)\.sizes\(\)", first):
            return MadeTensor(call[1], self.shape(sizes[1]))
        parts = split(first[1:-1]) if first[:1] == "{" else [first] if first.isidentifier() else []
        return MadeTensor(call[1], tuple(parts)) if parts else None

    def allocated(self, word: str, bound: Mapping[str, str]) -> str | None:
        """The bytes of the tensor whose data a word points to, as an expression; None of one that the function is
        handed.
        """
        data = _DATA.match(re.sub(r"\s+", " ", word).strip())
        if data is None or self.made(data[1]) is None:
            return None
        size = type_bytes(with_values(data[2], bound).rpartition("::")[2])
        return f"{_product(self.shape(data[1]))} * {size}" if size else None

    def handed(self, kind: str, word: str) -> HandedTensor | None:
        """The tensor that a parameter of a type gets where host code passes a word; None of what is none, and of one
        whose extents are not as many as the type says.
        """
        accessor, info = _ACCESSOR.search(kind), _INFO.search(kind)
        named = _HANDED.match(word) or _HANDED.match(str(self.names.get(word, "")))
        if named is None or not (accessor or info):
            return None
        tensor = self._same_as(named[1] or named[2])
        maker, shape = self.made(tensor), self.shape(tensor)
        rank = int(accessor[2]) if accessor else len(shape)
        if maker is None:
            shape = tuple(f"{tensor}.size({place})" for place in range(rank))
        if len(shape) != rank:
            return None
        element = accessor[1] if accessor else info[1] if info else ""
        return HandedTensor(element, shape, maker.how if maker is not None else "")

    def begun(self, word: str) -> str:
        """How the tensor was made whose data a word points to, "" where the function does not make it."""
        data = _DATA.match(re.sub(r"\s+", " ", word).strip())
        maker = self.made(data[1]) if data is not None else None
        return maker.how if maker is not None else ""

    def _same_as(self, tensor: str) -> str:
        """The tensor that has the same shape and is asked for it first."""
        for _ in range(_DEPTH):
            same = _SAME.match(str(self.names.get(tensor, "")))
            if same is None or same[1] == tensor:
                break
            tensor = same[1]
        return tensor

    def _rank(self, tensor: str) -> int:
        """How many extents a tensor has, as the function checks or asks for them."""
        name = rf"\b{re.escape(tensor)}\s*(?:\.|->)\s*"
        if checked := re.search(name + r"(?:dim|ndimension)\s*\(\s*\)\s*(?:==|,)\s*(\d)\b", self.text):
            return int(checked[1])
        places = [int(place) for place in re.findall(name + r"size\s*\(\s*(-?\d+)\s*\)", self.text)]
        places += [int(place) for place in re.findall(name + r"sizes\s*\(\s*\)\s*\[\s*(\d+)\s*\]", self.text)]
        is_counted = bool(re.search(name + r"n(?:umel|element)\s*\(", self.text))
        least = max((place + 1 if place >= 0 else -place for place in places), default=1)
        return least + (is_counted and bool(places) and all(place < 0 for place in places))


def _product(parts: Sequence[str]) -> str:
    return "(" + (" * ".join(f"({part})" for part in parts) or "1") + ")"
