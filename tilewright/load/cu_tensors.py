"""The shapes of tensors in host code of extensions: what ``x.size(0)`` and ``x.numel()`` come to, and how a tensor was
made.

Of a tensor that a function is handed the extents are numbers by the names ``x.size(0)``, ``x.size(1)``; it has as many
as the function asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.load.cu_numbers import Number, is_name, type_bytes
from tilewright.load.cu_tree import closed, split, with_values

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
_CHECKS = re.compile(r"\b(?:assert|\w*(?:CHECK|ASSERT)\w*)\s*\(")
_EXTENT = re.compile(r"(\w+)(?:\.|->)size\(\d+\)")  # as it stands in an expression without spaces
_PLAIN = re.compile(r"[\w.>()+*/-]+")
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
        if (equal := self.equal.get(re.sub(r"\s", "", word))) is not None:
            return equal
        asked = _ASKED.fullmatch(re.sub(r"\s", "", word))
        is_stride = asked is not None and asked[2] == "stride"
        if asked is None or (is_name(word) and not is_stride and self.made(asked[1]) is None
                             and self._same_as(asked[1]) == asked[1]):  # fmt: skip
            return None
        if is_stride and self._has_more(asked[1]):
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
        return self._extents(root, self._rank(root))

    def _extents(self, root: str, rank: int) -> tuple[str, ...]:
        """Those of a tensor that the function is handed."""
        names = (f"{root}.size({place})" for place in range(rank))
        return tuple(self.equal.get(name, name) for name in names)

    @cached_property
    def equal(self) -> dict[str, str]:
        """What the function checks extents to be, each of one tensor by an expression without it."""
        equal = dict[str, str]()
        for check in _CHECKS.finditer(self.text):
            inside = re.sub(r"\s", "", self.text[check.end() : closed(self.text, check.end()) - 1])
            while inside.startswith("(") and closed(inside, 1) == len(inside):
                inside = inside[1:-1]
            for term in (term for part in split(inside) for term in part.split("&&")):
                sides = term.split("==")
                sides.sort(key=lambda side: _EXTENT.fullmatch(side) is not None)
                name = _EXTENT.fullmatch(sides[-1]) if len(sides) == 2 and _PLAIN.fullmatch(sides[0]) else None
                value = equal.get(sides[0], sides[0])
                if name is not None and value != name[0] and name[1] not in sides[0] and self.made(name[1]) is None:
                    equal.setdefault(name[0], value)
        return equal

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
        handed, or makes like one of which it does not say how many extents that has.
        """
        data = _DATA.match(re.sub(r"\s+", " ", word).strip())
        if data is None or self.made(data[1]) is None or self._is_like_a_guess(data[1]):
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
            shape = self._extents(tensor, rank)
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

    def _is_like_a_guess(self, tensor: str) -> bool:
        """Is a tensor made like one that the function is handed, and of which it asks for some extents alone?"""
        like = _LIKE.match(str(self.names.get(self._same_as(tensor), "")))
        root = self._same_as(like[2]) if like is not None else ""
        if not root or self.made(root) is not None or self._checked_rank(root) is not None:
            return False
        whole = rf"\b{re.escape(root)}\s*(?:\.|->)\s*(?:n(?:umel|element)\s*\(|sizes\s*\(|\w*accessor)"
        return re.search(whole, self.text) is None

    def _has_more(self, tensor: str) -> bool:
        """Has a tensor that the function is handed more extents than it asks for: does it ask for the last one's
        stride? Then its strides are numbers of their own.
        """
        root = self._same_as(tensor)
        if root != tensor or self.made(root) is not None or self._checked_rank(root) is not None:
            return False
        strides = re.findall(rf"\b{re.escape(root)}\s*(?:\.|->)\s*stride\s*\(\s*(\d+)\s*\)", self.text)
        return any(int(place) + 1 >= self._rank(root) for place in strides)

    def _checked_rank(self, tensor: str) -> int | None:
        """How many extents a tensor has, as the function checks it."""
        dim = r"\s*(?:\.|->)\s*(?:dim|ndimension)\s*\(\s*\)\s*(?:==|,)\s*(\d)\b"
        checked = re.search(rf"\b{re.escape(tensor)}{dim}", self.text)
        return int(checked[1]) if checked is not None else None

    def _rank(self, tensor: str) -> int:
        """How many extents a tensor has, as the function checks or asks for them."""
        name = rf"\b{re.escape(tensor)}\s*(?:\.|->)\s*"
        if (checked := self._checked_rank(tensor)) is not None:
            return checked
        places = [int(place) for place in re.findall(name + r"size\s*\(\s*(-?\d+)\s*\)", self.text)]
        places += [int(place) for place in re.findall(name + r"sizes\s*\(\s*\)\s*\[\s*(\d+)\s*\]", self.text)]
        is_counted = bool(re.search(name + r"n(?:umel|element)\s*\(", self.text))
        least = max((place + 1 if place >= 0 else -place for place in places), default=1)
        return least + (is_counted and bool(places) and all(place < 0 for place in places))


def _product(parts: Sequence[str]) -> str:
    return "(" + (" * ".join(f"({part})" for part in parts) or "1") + ")"
