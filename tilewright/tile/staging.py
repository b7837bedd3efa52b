"""Matrices of a product that lie in memory: the registers for them, laid out to fit the other operands.

Registers for A have the rows of D, those for B its columns, and along K both go as the one that is in registers does,
if any is. Other warps that share in D hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import LayoutError
from tilewright.ir import AllocBuffer, Argument, Buffer, const_value
from tilewright.layout import Axis, Iter, TileLayout, Value, laneid, mma_fragment_layout
from tilewright.layout.axes import OnAxis
from tilewright.layout.products import expand_threads
from tilewright.primitives.copy import CLIP, FILL
from tilewright.primitives.gemm import sides_of_matrix
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Chosen, Decline
from tilewright.tile.owners import check_own, open_dimensions
from tilewright.tile.steps import Builder, inner_call, planned


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A copy between a tile in memory and registers that are made for it. chosen: the variant of `copy` with its plan.

    call: that copy. local: its side in registers.
    """

    call: TileCall
    chosen: Chosen
    local: Side

    @property
    def how(self) -> str:
        """``ldmatrix x4, 2 instructions per warp``."""
        variant, plan = self.chosen.variant.name, self.chosen.plan.summary().partition(";")[0]
        return plan if variant.startswith("ldstmatrix") else f"{variant}: {plan}"

    @property
    def better(self) -> str | None:
        """A change with which a better variant would take the copy."""
        return next((attempt.hint for attempt in self.chosen.tried if attempt.hint), None)

    def emit(self, out: Builder, registers: Buffer) -> None:
        """The copy, with ``registers`` for its side in registers."""
        side = replace(self.local, region=registers.region())
        self.chosen.write(self.call.with_side(self.local, side), out)


def allocated(buffer: Buffer, out: Builder) -> Buffer:
    """New registers with this layout, under a name that is free."""
    room = replace(buffer, name=out.names.new(buffer.name))
    out.add(AllocBuffer(room, at=out.at))
    return room


def staged(
    call: TileCall, memory: Side, layout: TileLayout, *, loading: bool = True, kind: DType | None = None
) -> Staged:
    """The copy of ``memory`` to registers with this layout, or back; behind the ends of the memory zeros are loaded and
    nothing is stored. kind: of the registers, if another. Raises Decline where no variant of `copy` fits.
    """
    registers = Buffer(f"{memory.name}_fragment", kind or memory.dtype, memory.shape, "local", layout)
    local = side_of(registers.region(), call.facts)
    dst, src = (local, memory) if loading else (memory, local)
    ends: dict[str, Argument] = {FILL: 0} if loading else {CLIP: True}
    copy = inner_call(call, "copy", {"dst": dst, "src": src}, **(ends if open_dimensions(call, memory) else {}))
    return Staged(copy, planned(copy), local)


# The layouts of registers for a product.

PAIR, HALF, ALONG_K, OTHERS = range(4)
"""What neighbouring slots are for, the nearest first: elements of a register, the rows g and g + 8, what follows along
K, further tiles."""


@dataclass(frozen=True, slots=True)
class Digit:
    """An iter of a dimension of a fragment. use: what its slots are for; None where it goes along threads."""

    iter: Iter
    use: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MatrixShape:
    """The two dimensions of a matrix in registers, as iters, and what its layout says beside them."""

    dims: tuple[tuple[Iter, ...], tuple[Iter, ...]]
    replica: tuple[Iter, ...]
    offset: tuple[OnAxis, ...]


def shape_of(call: TileCall, side: Side) -> MatrixShape:
    """The dimensions of a matrix in registers. Raises Decline where its layout has no such groups."""
    long = [extent for extent in side.extents if const_value(extent) != 1]
    if side.tile is None or side.swizzle is not None:
        raise Decline(f"the layout of {side.name} is no plain one, after which others could be made")
    wide = check_own(call, side)
    try:
        tile, (_, middle, _) = expand_threads(side.tile).group(long)
    except LayoutError as error:
        raise Decline(f"{side.name}: {error.what}") from None
    kept = [it for it in tile.shard if it.extent != 1 and it.axis.name not in wide]
    rows = [it for it in tile.shard[:middle] if it in kept]
    columns = [it for it in tile.shard[middle:] if it in kept]
    offset = tuple(term for term in tile.offset if term.axis.is_thread() and term.axis.name not in wide)
    return MatrixShape((tuple(rows), tuple(columns)), tuple(it for it in tile.replica if it.axis.is_thread()), offset)


def in_order(k: int, per_register: int) -> list[Digit]:
    """Shape K so that each lane of four has neighbouring elements."""
    return [
        Digit(Iter(k // (4 * per_register), 0), ALONG_K),
        Digit(Iter(4, 1, laneid)),
        Digit(Iter(per_register, 0), PAIR),
    ]


def as_in(call: TileCall, other: Side, dim: int, per_register: int) -> list[Digit]:
    """Shape K as the other operand's dimension of K is shaped."""
    digits = _of(shape_of(call, other).dims[dim], ALONG_K)
    return _cut(digits, per_register, PAIR, lambda it: it.stride == 1) if per_register > 1 else digits


def fragment_of_a(call: TileCall, d: Side, k: list[Digit]) -> TileLayout:
    """Registers for A, M x K: the rows of D."""
    shape = shape_of(call, d)
    rows = _cut(_of(shape.dims[0], OTHERS), 2, HALF, lambda it: it.extent % 2 == 0)
    return _laid_out([*rows, *k], shape, shape.dims[1])


def fragment_of_b(call: TileCall, d: Side, k: list[Digit]) -> TileLayout:
    """Registers for B, K x N: the columns of D. Lane 4g+t of D has two for each t; of B it has one for each g."""
    shape = shape_of(call, d)
    pairs = _cut(_of(shape.dims[1], OTHERS), 2, PAIR, lambda it: it.stride == 1 and it.extent % 2 == 0)
    columns = [_turned(digit) for digit in pairs]
    return _laid_out([*k, *columns], shape, shape.dims[0])


def fragment_of_d(call: TileCall, sizes: Mapping[str, int]) -> TileLayout:
    """Registers for D, M x N: the rows of A and the columns of B, where these are in registers."""
    places = {name: sides_of_matrix(name, dict(call.config)) for name in "AB"}
    shapes = {name: shape_of(call, call[name]) for name in "AB" if call[name].space == "local"}
    if not shapes:
        return shared_out(call, sizes)
    lines: list[list[Digit]] = []
    for name, other, dim in (("A", "B", "M"), ("B", "A", "N")):
        if name in shapes:
            lines.append(_of(shapes[name].dims[places[name].index(dim)], OTHERS))
        else:
            lines.append(_among(shapes[other].replica, dim, sizes[dim]))
    rows = _cut(lines[0], 2, HALF, lambda it: it.extent % 2 == 0)
    columns = [part for digit in lines[1] for part in _turned_back(digit)]
    return _laid_out([*rows, *columns], MatrixShape(((), ()), (), next(iter(shapes.values())).offset), ())


def _among(shares: Sequence[Iter], dim: str, extent: int) -> list[Digit]:
    """Rows of A or columns of B in their order, among the threads that hold the same of the other operand."""
    pieces = 8 * prod(int(it.extent) for it in shares)
    if extent % pieces:
        raise Decline(f"{dim} is {extent}, no multiple of {pieces}, which is 8 for each of {pieces // 8} warps")
    return [*map(Digit, shares), Digit(Iter(extent // pieces, 0), OTHERS), Digit(Iter(8, 4, laneid))]


def _turned(digit: Digit) -> Digit:
    if digit.use == PAIR:
        return Digit(Iter(2, 4, laneid))
    it = digit.iter
    return Digit(Iter(it.extent, 8 * it.stride, laneid)) if it.axis == laneid else digit


def _turned_back(digit: Digit) -> list[Digit]:
    it = digit.iter
    if it.axis != laneid:
        return [digit]
    if it.stride == 4:
        return [Digit(Iter(it.extent // 2, 1, laneid)), Digit(Iter(2, 0), PAIR)]
    return [Digit(Iter(it.extent, it.stride // 8, laneid))]


def like(call: TileCall, d: Side) -> TileLayout:
    """A layout of registers that go with those of D one by one."""
    shape = shape_of(call, d)
    return TileLayout((*shape.dims[0], *shape.dims[1]), shape.replica, shape.offset)


def _of(iters: Sequence[Iter], use: int) -> list[Digit]:
    return [Digit(it, None if it.axis.is_thread() else use) for it in iters]


def _cut(digits: list[Digit], size: int, use: int, fits: Callable[[Iter], bool]) -> list[Digit]:
    """The digits with the innermost in memory that fits cut in two, ``size`` of it for another use."""
    for position, (it, kind) in reversed([(n, (digit.iter, digit.use)) for n, digit in enumerate(digits)]):
        if kind is not None and fits(it) and it.extent % size == 0:
            outer = Digit(Iter(it.extent // size, it.stride * size), kind)
            return [*digits[:position], outer, Digit(Iter(size, it.stride), use), *digits[position + 1 :]]
    raise Decline(f"no {size} neighbours are in one lane's registers")


def _laid_out(digits: Sequence[Digit], shape: MatrixShape, others: Sequence[Iter]) -> TileLayout:
    """The layout of these digits: slots by their use; threads that ``others`` tells apart hold the same."""
    order = sorted((n for n, digit in enumerate(digits) if digit.use is not None), key=lambda n: (digits[n].use, -n))
    strides, stride = dict[int, Value](), 1
    for n in order:
        strides[n] = stride
        stride *= int(digits[n].iter.extent)
    shard = [Iter(digit.iter.extent, strides[n]) if n in strides else digit.iter for n, digit in enumerate(digits)]
    same = [it for it in others if it.axis.is_thread() and it.axis != laneid]
    return TileLayout([it for it in shard if it.extent != 1], [*shape.replica, *same], shape.offset)


def shared_out(call: TileCall, sizes: Mapping[str, int]) -> TileLayout:
    """Registers for D, M x N, shared out among the warps of the scope so that they load as little as possible.

    Raises Decline where no shares are whole pieces of 16 x 8.
    """
    shares = warp_shares(call)
    whole = [
        (sizes["M"] // m + sizes["N"] // n, (m, n), axis)
        for (m, n), axis in shares
        if sizes["M"] % (16 * m) == 0 and sizes["N"] % (8 * n) == 0
    ]
    if not whole:
        count = call.scope.threads // 32
        shown = f"{sizes['M']} x {sizes['N']} is not shared out among {count} warps in pieces of 16 x 8"
        raise Decline(shown, allowed="Tx.warp.gemm of a part in each warp")
    _, share, axis = min(whole, key=lambda split: split[:2])
    return mma_fragment_layout("D", (sizes["M"], sizes["N"]), str(call["D"].dtype), share, axis)


def warp_shares(call: TileCall) -> list[tuple[tuple[int, int], Axis]]:
    """How the warps of the scope may share out M and N, and the axis that numbers them."""
    count = call.scope.threads // 32
    axis = Axis.wid_in_wg if call.scope.kind == "warpgroup" else Axis.warpid
    return [((m, count // m), axis) for m in range(1, count + 1) if count % m == 0]
