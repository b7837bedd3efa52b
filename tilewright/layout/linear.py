"""Linear layouts: maps over GF(2), written as what each bit of an input contributes by XOR to each output.

Every layout of power-of-two extents whose digits never carry is a linear layout, swizzled or not, and linear layouts
are closed under composition and inverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import LayoutError, choices
from tilewright.layout.axes import Axis, Value, listed, m, public
from tilewright.layout.base import Layout
from tilewright.layout.iters import Iter, fuse
from tilewright.layout.swizzle import ComposeLayout, SwizzleLayout
from tilewright.layout.tile import TileLayout
from tilewright.public import Kind, sequence_of

Vector = tuple[int, ...]
Inputs = tuple[tuple[str, tuple[Vector, ...]], ...]


def _are_inputs(value: Any) -> bool:
    """`Any`: this function finds out what the values are."""
    pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return pairs and all(isinstance(name, str) and VECTORS.fits(vectors) for name, vectors in value)


VECTORS = sequence_of(sequence_of(public.kind("int")))
public.learn("Inputs", Kind('(name, vectors) for each input: (("lane", ((0, 1), (1, 0))),)', _are_inputs))


@public.methods
@public.constructor
@public.kind_of("LinearLayout(inputs, outputs)")
@dataclass(frozen=True, slots=True)
class LinearLayout:
    """For each named input one vector per bit, lowest first: what a set bit XORs into each of ``outputs``.

    >>> swap = LinearLayout((("lane", ((0, 1), (1, 0))),), ("row", "col"))
    >>> swap(lane=2)
    {'row': 1, 'col': 0}

    Raises LayoutError for a vector that has not one number for each output.
    """

    inputs: Inputs
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, vectors in self.inputs:
            if wrong := [v for v in vectors if len(v) != len(self.outputs) or min(v, default=0) < 0]:
                raise LayoutError(
                    f"input {name} of a linear layout has the vector {wrong[0]}",
                    given=wrong[0],
                    allowed=f"{len(self.outputs)} non-negative ints, for {', '.join(self.outputs)}",
                )

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of all bits, the last input's lowest bit first."""
        return tuple(vector for _, vectors in reversed(self.inputs) for vector in vectors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each input."""
        return tuple(1 << len(vectors) for _, vectors in self.inputs)

    def __call__(self, **inputs: Value) -> dict[str, Value]:
        """The outputs for values of the inputs: ints, arrays or expressions."""
        names = [name for name, _ in self.inputs]
        if unknown := [name for name in inputs if name not in names]:
            raise LayoutError(f"unknown input {unknown[0]!r}", given=unknown[0], allowed=choices(unknown[0], names))
        out: list[Value] = [0] * len(self.outputs)
        for name, vectors in self.inputs:
            for bit, vector in enumerate(vectors):
                for k, by in enumerate(vector):
                    if by and name in inputs:
                        out[k] = out[k] ^ ((inputs[name] >> bit) & 1) * by
        return dict(zip(self.outputs, out, strict=True))

    @classmethod
    def of(cls, layout: Layout, shape: Sequence[int], names: Sequence[str] = ()) -> LinearLayout:
        """The linear layout of a layout: one input for each dimension of ``shape`` (``dim0``, ``dim1``, ...), and
        ``replica`` if there are replicas; one output for each axis.

        >>> from tilewright.layout import S, laneid
        >>> LinearLayout.of(S[(4, 2) : (1 @ laneid, 1)], (4, 2)).inputs
        (('dim0', ((1, 0), (2, 0))), ('dim1', ((0, 1),)))

        Raises LayoutError where an entry is no power of two, or the digits' sums are not their XORs.
        """
        table = layout.table(shape)
        copies = max((values.shape[-1] for values in table.values()), default=1)
        labels = tuple(names) or tuple(f"dim{k}" for k in range(len(shape)))
        sizes = dict(zip((*labels, "replica"), (*shape, copies), strict=True))
        if copies == 1:
            del sizes["replica"]
        flat = np.stack([values.reshape(-1) for values in table.values()] or [np.zeros(prod(shape), np.int64)])
        odd = [size for size in sizes.values() if size & (size - 1)]
        if odd or flat.min() < 0:
            raise LayoutError(
                f"{layout} of shape {listed(shape)} is not linear over GF(2)",
                given=f"{odd[0]} values" if odd else f"coordinate {flat.min()}",
                allowed="extents that are powers of two, and no coordinate below 0",
            )
        linear = cls(_read_off(flat, sizes), tuple(table) or ("m",))
        linear._check(layout, flat)
        return linear

    def _check(self, layout: Layout, flat: NDArray[np.int64]) -> None:
        """Refuse a layout whose table ``flat``, (outputs, elements), is not the one that these vectors make."""
        digits = np.unravel_index(np.arange(flat.shape[1]), self.shape) if self.inputs else ()
        again = self(**{name: values for (name, _), values in zip(self.inputs, digits, strict=True)})
        for expected, (axis, results) in zip(flat, again.items(), strict=True):
            values = np.broadcast_to(results, expected.shape)
            if wrong := np.flatnonzero(values != expected).tolist():
                raise LayoutError(
                    f"{layout} is not linear over GF(2)",
                    given=f"element {wrong[0]} at {expected[wrong[0]]} on axis {axis}",
                    allowed=f"{values[wrong[0]]}, the XOR of what its bits contribute",
                )

    def to_layout(self) -> TileLayout | ComposeLayout:
        """The layout of the same table over the shape `shape`, with the shortest swizzle on axis m that it needs.

        >>> swizzled = ComposeLayout(SwizzleLayout(0, 1, 1), TileLayout([Iter(4, 1)]))
        >>> LinearLayout.of(swizzled, (4,)).to_layout()
        ComposeLayout(SwizzleLayout(per_element=0, swizzle_len=1, atom_len=1), S[4:1])

        Raises LayoutError where no tile layout after one swizzle has these vectors. Outputs must be names of axes.
        """
        axes = [Axis.get(name) for name in self.outputs]
        vectors = self.vectors
        if (plain := _iters(vectors, axes)) is not None:
            return TileLayout(fuse(plain))
        for swizzle in _swizzles(vectors, axes):
            address = axes.index(m)
            moved = [(*v[:address], swizzle.address(v[address]), *v[address + 1 :]) for v in vectors]
            if (under := _iters(moved, axes)) is not None:
                return ComposeLayout(swizzle, TileLayout(fuse(under)))
        raise LayoutError(
            "a linear layout that no tile layout after one swizzle describes",
            given=f"vectors {', '.join(map(str, vectors))} on {', '.join(self.outputs)}",
            allowed="vectors that, before the swizzle, lie on one axis each and share no bits",
        )

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """First ``inner``, whose outputs are inputs of this one.

        >>> swap = LinearLayout((("x", ((2,), (1,))),), ("x",))
        >>> swap.compose(swap)(x=2)
        {'x': 2}
        """
        return LinearLayout(
            tuple(
                (name, tuple(tuple(self(**dict(zip(inner.outputs, v, strict=True))).values()) for v in vectors))
                for name, vectors in inner.inputs
            ),
            self.outputs,
        )

    def inverse(self) -> LinearLayout:
        """The map from outputs back to inputs: of a register layout, from (lane, register) to the element.

        >>> from tilewright.layout import S, laneid
        >>> LinearLayout.of(S[(4, 2) : (1 @ laneid, 1)], (4, 2)).inverse()(laneid=3, m=1)
        {'dim0': 3, 'dim1': 1}

        Raises LayoutError unless each place is reached exactly once.
        """
        bits = [max((v[k].bit_length() for v in self.vectors), default=0) for k in range(len(self.outputs))]
        columns = [(k, bit) for k in range(len(bits)) for bit in range(bits[k])]
        rows = [sum(((v[k] >> bit) & 1) << c for c, (k, bit) in enumerate(columns)) for v in self.vectors]
        solved = _solve(rows, len(columns))
        if solved is None:
            raise LayoutError(
                "a linear layout without inverse",
                given=f"{len(rows)} input bits, {len(columns)} output bits",
                allowed="as many, each place reached once",
            )
        places = [(number, bit) for number, (_, v) in reversed(list(enumerate(self.inputs))) for bit in range(len(v))]

        def element(mask: int) -> Vector:
            values = [0] * len(self.inputs)
            for row, (number, bit) in enumerate(places):
                values[number] |= ((mask >> row) & 1) << bit
            return tuple(values)

        elements = {column: element(mask) for column, mask in zip(columns, solved, strict=True)}
        return LinearLayout(
            tuple((name, tuple(elements[k, bit] for bit in range(bits[k]))) for k, name in enumerate(self.outputs)),
            tuple(name for name, _ in self.inputs),
        )

    def renamed(self, names: Mapping[str, str]) -> LinearLayout:
        """The same map with other names for inputs and outputs: ``{"m": "register", "laneid": "lane"}``."""
        return LinearLayout(
            tuple((names.get(name, name), vectors) for name, vectors in self.inputs),
            tuple(names.get(name, name) for name in self.outputs),
        )


def _read_off(flat: NDArray[np.int64], sizes: Mapping[str, int]) -> tuple[tuple[str, tuple[Vector, ...]], ...]:
    """The vectors of a table ``flat``, (outputs, elements), of inputs of these sizes: its entries at powers of two."""
    inputs = []
    inner = flat.shape[1]
    for name, size in sizes.items():
        inner //= size
        bits = range(size.bit_length() - 1)
        inputs.append((name, tuple(tuple(map(int, flat[:, inner << bit])) for bit in bits)))
    return tuple(inputs)


def _iters(vectors: Sequence[Vector], axes: Sequence[Axis]) -> list[Iter] | None:
    """An iter of extent 2 for each vector, highest bit first; None where a sum of them is not their XOR."""
    seen = [0] * len(axes)
    out: list[Iter] = []
    for vector in vectors:
        live = [k for k, by in enumerate(vector) if by]
        if len(live) > 1 or (live and seen[live[0]] & vector[live[0]]):
            return None
        if live:
            seen[live[0]] |= vector[live[0]]
        k = live[0] if live else 0
        out.insert(0, Iter(2, vector[k] if axes else 0, axes[k] if axes else m))
    return out


def _swizzles(vectors: Sequence[Vector], axes: Sequence[Axis]) -> Iterator[SwizzleLayout]:
    """Every swizzle within the address bits, those of the fewest bits first."""
    if m not in axes:
        return
    bits = max((v[axes.index(m)].bit_length() for v in vectors), default=0)
    for length in range(1, bits // 2 + 1):
        for shift in range(length, bits - length + 1):
            for base in range(bits - length - shift + 1):
                yield SwizzleLayout(base, length, shift)
                yield SwizzleLayout(base, length, shift, swizzle_inner=False)


def _solve(rows: Sequence[int], columns: int) -> list[int] | None:
    """For each column the set of rows whose XOR has that bit alone, by Gauss-Jordan elimination; None if singular."""
    if len(rows) != columns:
        return None
    work = [(row, 1 << k) for k, row in enumerate(rows)]
    for column in range(columns):
        pivot = next((k for k in range(column, columns) if work[k][0] >> column & 1), None)
        if pivot is None:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        row, mask = work[column]
        work = [(r ^ row, s ^ mask) if k != column and r >> column & 1 else (r, s) for k, (r, s) in enumerate(work)]
    return [mask for _, mask in work]
