"""Which proposed sizes host code rounds up to whole CTAs, and what each is rounded to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.cli.arguments import kernel_of
from tilewright.cli.proposals import Proposals, tensors_of
from tilewright.load.cu_guards import asks_for_multiples, shares

MOST_SIZE = 1 << 14  # of a size that is made a multiple of the threads of a CTA
PARTS = 10  # halves of the threads of a CTA: where elements of several sizes are numbered by one index
ODD = 3  # how much less than a multiple a size is


@dataclass(frozen=True)
class RoundedSizes:
    """The proposed sizes of the only launch that host code rounds up."""

    proposals: Proposals

    def rounded(self) -> dict[str, tuple[int, int]]:
        """The sizes that host code rounds up to whole CTAs, each with a multiple of what it is rounded to, and that; 0
        of sizes whose product alone it rounds up.
        """
        proposals, texts = self.proposals, self.proposals.module.texts
        if tensors_of(kernel_of(proposals.module, proposals.launch().request)):
            return {}  # the extents of several may have to be equal, and a thread behind them is outside in any case
        names = proposals.of_grid - proposals.of_block
        sizes = {name: size for name, size in proposals.options.sizes.items() if name in names
                 and not asks_for_multiples(texts, name) and not self.is_shared_out(name)}  # fmt: skip
        multiples = {name: self._multiple(name, size) for name, size in sizes.items()}
        alone = {name: multiple for name, multiple in multiples.items() if multiple is not None}
        return alone or {name: (size, 0) for name, size in self._together(sizes).items()}

    def _together(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Two sizes of which host code rounds up the product with others, where a CTA has less than one of them."""
        grid = self.proposals.grid
        whole = prod(grid())
        pair = [name for name, size in sizes.items() if prod(grid(**{name: 2 * size})) == 2 * whole > 0][:2]
        exact = whole * prod((sizes[name] - ODD) / sizes[name] for name in pair)
        least = prod(grid(**{name: sizes[name] - ODD for name in pair}))
        is_rounded = len(pair) == 2 and exact != int(exact) and least == int(exact) + 1
        return {name: sizes[name] for name in pair} if is_rounded else {}

    def _multiple(self, name: str, size: int) -> tuple[int, int] | None:
        """A number from ``size`` on with which one more takes more CTAs, where a CTA has a thread for each, or for a
        few, and how many; None of any other size, as that of a tile, whose kernels are rarely meant for a part of one.
        """
        block = tuple(self.proposals.launch().request.block or ())
        place = self.proposals.only, name, block
        if place not in self.proposals.read:
            self.proposals.read[place] = next(self._widths(name, size, block), None)
        width: int | None = self.proposals.read[place]
        return None if width is None else (_multiple(size, width), width)

    def cut(self) -> dict[str, tuple[int, int]]:
        """The sizes that host code rounds down to whole CTAs: one that is no multiple, and the CTAs for it."""
        proposals, grid, cut = self.proposals, self.proposals.grid, dict[str, tuple[int, int]]()
        for name in sorted(proposals.options.sizes.keys() & (proposals.of_grid - proposals.of_block)):
            size = proposals.options.sizes[name]
            whole, twice, less = (prod(grid(**{name: many}) or (0,)) for many in (size, 2 * size, size - ODD))
            exact = whole * (size - ODD) / size
            is_free = not asks_for_multiples(proposals.module.texts, name)
            if is_free and twice == 2 * whole > 0 and exact > less == int(exact):
                cut[name] = size - ODD, less
        return cut

    def is_shared_out(self, name: str) -> bool:
        """Do texts divide a size by another one, as channels by groups, which is then to divide it?"""
        words, texts = self.proposals.words, self.proposals.module.texts
        others = {word for other in self.proposals.options.sizes if other != name for word in words(other)}
        return any(shares(texts, word, others - words(name)) for word in words(name))

    def _widths(self, name: str, size: int, block: Sequence[int]) -> Iterator[int]:
        proposals, grid = self.proposals, self.proposals.grid
        if not proposals.decides_grid(name):
            return
        threads = sorted({prod(block), *block} - {1})
        vectors = (1, 2, 4, 8) if proposals.has_vectors else (1, 2) if proposals.is_made_up else (1,)  # 2: loops turn
        wholes = [vector * many for vector in vectors for many in threads]
        parts = [prod(block) >> shift for shift in range(1, PARTS) if not prod(block) % (1 << shift)]
        for width in dict.fromkeys([*wholes, *(part for part in parts if part > 1)]):
            multiple = _multiple(size, width)
            if multiple > MOST_SIZE:
                break
            whole = grid(**{name: multiple})
            if (whole != grid(**{name: multiple + 1}) and whole == grid(**{name: multiple + 1 - width})
                    and whole != grid(**{name: multiple - width})):  # fmt: skip
                yield width


def _multiple(size: int, width: int) -> int:
    """A multiple of ``width`` of about a size: two CTAs at least."""
    return 2 * width if size <= width else -(-size // width) * width
