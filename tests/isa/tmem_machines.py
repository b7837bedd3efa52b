"""Machines with tensor memory, small enough to be obviously right."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tests.isa.machines import PlainMachine
from tilewright.errors import SimulationError
from tilewright.isa import Access, Addresses, Bound

Array = NDArray[Any]


class PlainTmem:
    """The columns of tensor memory: allocations are only recorded."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def reserve(self, columns: Array, requested: Array, pair: bool) -> Array:
        return np.ones(columns.shape, np.bool_)

    def allocate(self, columns: Array, requested: Array, pair: bool) -> Array:
        self.asked.append(("allocate", columns[0, 0], requested[0, 0], pair))
        return np.full(columns.shape, 64, np.uint32)

    def free(self, address: Array, columns: Array, pair: bool) -> None:
        self.asked.append(("free", address[0, 0], columns[0, 0], pair))

    def relinquish(self, pair: bool) -> None:
        self.asked.append(("relinquish", pair))


class TmemMachine(PlainMachine):
    """A machine whose warps are all of one CTA, the first of them number ``warp``."""

    def __init__(self, *, warp: int = 0, warps: int = 1, active: Array | None = None) -> None:
        super().__init__(np.zeros((warps, 64), np.uint8), np.ones((warps, 32), bool) if active is None else active)
        self.tmem = PlainTmem()
        self.warp = warp + np.arange(warps)[:, None]

    def on_rank(self, address: Array, rank: Array) -> Array:
        remote: Array = address + (rank + 1 << 24)
        return remote


class PlainUnit:
    """What `tilewright.isa.machine.Unit` asks for: issuer i is of CTA ``ctas[i]``, two of which are a cluster, and its
    warp. It reads and writes its memory when an operation is complete.
    """

    cluster_ctas = 2

    def __init__(self, shared: Array, words: Array, ctas: list[int], warps: list[int] | None = None) -> None:
        self.bytes = shared  # (CTAs, bytes)
        self.words = words  # (CTAs, 128, 512)
        self.ctas = np.array(ctas)
        self.rank = self.ctas % 2
        self.buffers: dict[str, Array] = {}
        self.warp = np.array(warps or [0] * len(ctas))

    @property
    def cta(self) -> Array:
        return self.ctas

    def kept(self, buffer: str) -> Array:
        return self.buffers.setdefault(buffer, np.zeros(len(self.bytes), np.uint64))

    def fault(self, what: str, issuers: NDArray[np.bool_], *, address: int | None = None) -> NoReturn:
        raise SimulationError(what, given=f"issuers {np.flatnonzero(issuers).tolist()}")

    def where(self, found: Addresses) -> tuple[Array, Array]:
        """The CTA of each place, and the places."""
        issuer = np.arange(len(self.ctas)) if found.issuer is None else found.issuer
        ctas = self.ctas[issuer]
        ctas = ctas if found.rank is None else ctas // 2 * 2 + found.rank
        return np.broadcast_to(ctas.reshape(-1, *[1] * (found.at.ndim - 1)), found.at.shape), found.at

    def completed(self, bound: Bound, operands: dict[str, Array], meaning: Any = None) -> Any:
        """Do what a form says; returns what goes to registers."""
        form, keywords = bound.form, {name: bound.mods[name] for name in bound.form.meaning.passes}
        assert form.async_meaning.addresses is not None
        found = form.async_meaning.addresses(self, *operands.values(), **keywords)
        sources = [self.loaded(access, found[access.operand]) for access in form.touched if not access.write]
        taken = [found[name].at if name in found else operands[name] for name in form.async_meaning.takes]
        execute: Any = meaning or form.meaning.execute
        results = execute(*sources, *taken, **keywords)
        for access in form.touched:
            if access.write:
                self.write(found[access.operand], results)
        return results

    def write(self, found: Addresses, results: Array) -> None:
        """Cells, as far as they count."""
        assert found.column is not None
        ctas, lane = self.where(found)
        if found.nbytes is None:
            self.words[ctas, lane, found.column] = results
            return
        for place in np.argwhere(np.broadcast_to(found.nbytes, lane.shape) == 4):
            at = tuple(place)
            self.words[ctas[at], lane[at], found.column[at]] = results[at]

    def loaded(self, access: Access, found: Addresses) -> Array:
        ctas, at = self.where(found)
        nbytes = np.broadcast_to(int(access.nbytes) if found.nbytes is None else found.nbytes, at.shape)  # type: ignore[arg-type]  # a number
        if access.space == "tmem":
            assert found.column is not None
            words = self.words[ctas, at, np.minimum(found.column, self.words.shape[2] - 1)]
            return np.where(nbytes == 4, words, np.where(nbytes == 2, words & 0xFFFF, 0)).astype(words.dtype)
        octets = self.bytes[ctas[..., None], at[..., None] + np.arange(int(access.nbytes))]  # type: ignore[arg-type]  # a number
        return np.where(nbytes[..., None] > 0, octets, 0).astype(np.uint8)
