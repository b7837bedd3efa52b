"""Random layouts, the slow meaning of a layout, and an expression class that knows nothing but structure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from tilewright.layout import ComposeLayout, Iter, SwizzleLayout, TCol, TileLayout, laneid, m, tid_in_wg, wid_in_wg
from tilewright.layout.axes import OnAxis

AXES = st.sampled_from([m, m, laneid, TCol])
EXTENTS = st.sampled_from([1, 2, 2, 3, 4, 4, 6])
STRIDES = st.integers(-3, 40)


def iters(max_size=4, axes=AXES, extents=EXTENTS, strides=STRIDES):
    return st.lists(st.builds(Iter, extents, strides, axes), max_size=max_size)


@st.composite
def tiles(draw, axes=AXES, extents=EXTENTS, strides=STRIDES, replicas=2, offsets=True):
    """Layouts in which row-major runs, gaps, unit iters, replicas and offsets all occur."""
    shard = draw(iters(3, axes, extents, strides))
    if draw(st.booleans()):
        shard = [Iter(it.extent, 1 if it is shard[-1] else it.stride, it.axis) for it in shard]
    if len(shard) > 1 and draw(st.booleans()):
        last = shard[-1]
        shard[-2] = Iter(shard[-2].extent, last.extent * last.stride, last.axis)
    replica = draw(iters(replicas, axes, st.sampled_from([1, 2, 2, 3]), st.integers(0, 40)))
    offset = draw(st.lists(st.builds(OnAxis, st.integers(-5, 50), axes), max_size=2)) if offsets else []
    return TileLayout(shard, replica, offset)


def permutations(max_bits=7):
    """Layouts that put each of 2**n elements at its own address below 2**n."""

    @st.composite
    def build(draw):
        order = draw(st.permutations(range(draw(st.integers(0, max_bits)))))
        return TileLayout([Iter(2, 1 << bit) for bit in order])

    return build()


THREADED = st.sampled_from([m, laneid, wid_in_wg, tid_in_wg])

SWIZZLES = st.builds(
    lambda keep, bits, more, inner: SwizzleLayout(keep, bits, bits + more, swizzle_inner=inner),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.booleans(),
)


def composed(**kwargs):
    """A swizzle over a tile layout of non-negative addresses."""
    return st.builds(
        ComposeLayout, SWIZZLES, tiles(strides=st.integers(0, 40), offsets=False, **kwargs).map(lambda tile: tile + 8)
    )


@st.composite
def shapes_of(draw, layout):
    """A shape that the layout has, one that may cut its iters."""
    rest = layout.size()
    shape: list[int] = []
    while rest > 1 and len(shape) < 3:
        entry = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        shape.append(entry)
        rest //= entry
    return (*shape, rest)


def splits(layout):
    """Shapes that the layout's iters fall into: neighbours multiplied."""

    @st.composite
    def build(draw):
        shape = [1]
        for it in layout.shard:
            if draw(st.booleans()):
                shape.append(it.extent)
            else:
                shape[-1] *= it.extent
        return tuple(shape)

    return build()


@st.composite
def regions_of(draw, shape):
    region = []
    for extent in shape:
        start = draw(st.integers(0, extent - 1))
        region.append((start, draw(st.integers(1, extent - start))))
    return region


def places(layout, shape):
    """The table as sets, by the definition alone: loops over digits, no code of the library but the iters."""
    tile = layout if isinstance(layout, TileLayout) else layout.tile
    out = []
    for digits in product(*(range(it.extent) for it in tile.shard)):
        held = set()
        for copies in product(*(range(it.extent) for it in tile.replica)):
            where = {term.axis.name: term.value for term in tile.offset}
            for digit, it in zip((*digits, *copies), (*tile.shard, *tile.replica), strict=True):
                where[it.axis.name] = where.get(it.axis.name, 0) + digit * it.stride
            if layout is not tile:
                where["m"] = xored(layout.swizzle, where.get("m", 0))
            held.add(frozenset((axis, value) for axis, value in where.items() if value))
        out.append(frozenset(held))
    return np.array([*out, None], dtype=object)[:-1].reshape(shape)


def xored(swizzle, address):
    """Bit by bit, as the definition has it."""
    low, high = swizzle.per_element, swizzle.per_element + swizzle.atom_len
    for bit in range(swizzle.swizzle_len):
        source, target = (high + bit, low + bit) if swizzle.swizzle_inner else (low + bit, high + bit)
        address ^= ((address >> source) & 1) << target
    return address


def held(layout, shape):
    """What `table` says, in the form of `places`."""
    table = layout.table(shape)
    copies = max((values.shape[-1] for values in table.values()), default=1)
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = frozenset(
            frozenset((axis, int(v[(*index, r)])) for axis, v in table.items() if v[(*index, r)]) for r in range(copies)
        )
    return out


def same(a, b):
    return a.shape == b.shape and bool(np.all(a == b))


@dataclass(frozen=True)
class Sym:
    """An expression as the layouts may meet one: operators, and an `==` that compares structure."""

    text: str

    def __str__(self):
        return self.text

    def value(self, **variables):
        return eval(self.text, {}, variables)


def _binary(op, mirrored=False):
    def build(self, other):
        if not isinstance(other, Sym | int):
            return NotImplemented
        left, right = (other, self) if mirrored else (self, other)
        return Sym(f"({left} {op} {right})")

    return build


for _name, _op in {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    setattr(Sym, f"__{_name}__", _binary(_op))
    setattr(Sym, f"__r{_name}__", _binary(_op, mirrored=True))


@dataclass(frozen=True)
class Sampled:
    """Facts found by trying all values of the variables: proven, for the ranges given."""

    ranges: tuple[tuple[str, range], ...]

    def _values(self, *values):
        names = [name for name, _ in self.ranges]
        for point in product(*(values_of for _, values_of in self.ranges)):
            variables = dict(zip(names, point, strict=True))
            yield [v.value(**variables) if isinstance(v, Sym) else v for v in values]

    def divides(self, n, value):
        return all(v % d == 0 for d, v in self._values(n, value))

    def equal(self, a, b):
        return all(x == y for x, y in self._values(a, b))

    def less(self, a, b):
        return all(x < y for x, y in self._values(a, b))

    def simplify(self, value):
        found = {v for (v,) in self._values(value)}
        return found.pop() if len(found) == 1 else value


def at(value, **variables):
    """A layout's value once the variables are known."""
    return value.value(**variables) if isinstance(value, Sym) else value


def filled(layout, **variables):
    """A layout of expressions once the variables are known."""
    tile = layout if isinstance(layout, TileLayout) else layout.tile
    shard, replica = (
        [Iter(at(it.extent, **variables), at(it.stride, **variables), it.axis) for it in its]
        for its in (tile.shard, tile.replica)
    )
    numeric = TileLayout(shard, replica, [OnAxis(at(o.value, **variables), o.axis) for o in tile.offset])
    return numeric if layout is tile else ComposeLayout(layout.swizzle, numeric)
