"""The advice for one kernel: its lines with what each access costs, and changes of layouts that a run has proved.

Candidates for the layout of each tile of shared memory are made and costed; a run with the best ones is the proof.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright import host
from tilewright.advise.accesses import IDLE, Accesses, Sectors, cause, record
from tilewright.dtypes import DType
from tilewright.errors import LayoutError, SimulationError, Span, TilewrightError
from tilewright.explain import Finding
from tilewright.inputs import make_arguments
from tilewright.ir import AddressOf, AllocBuffer, Buffer, DeclBuffer, Kernel, const_value, map_buffers, statements
from tilewright.isa.machine import SECTOR_BYTES, default_phase
from tilewright.layout import ComposeLayout, Iter, Layout, S, SwizzleLayout, SwizzleMode, TileLayout, mma_shared_layout
from tilewright.records import NotebookText, replace
from tilewright.sim.machine.address import Address, Part
from tilewright.sim.machine.sites import wavefronts

if TYPE_CHECKING:
    from tilewright.compiler import Executable
    from tilewright.sim import Run
    from tilewright.sim.machine.sites import Line
    from tilewright.tuning import InTime

# A tile of shared memory as its kernel allocates it, and the kernel with another layout in its place.


class Cannot(Exception):
    """A buffer cannot take another layout, for this reason."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A buffer of shared memory.

    place, start: the storage that it lies in, and from which byte. growing: may it take more bytes?
    """

    buffer: Buffer
    place: str
    start: int
    growing: bool
    at: Span | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, as numbers."""
        return tuple(int(str(const_value(extent))) for extent in self.buffer.shape)

    @property
    def swizzle(self) -> SwizzleLayout:
        """The swizzle of its layout; one that moves nothing where it has none."""
        return self.buffer.layout.swizzle if isinstance(self.buffer.layout, ComposeLayout) else SwizzleLayout(0, 0, 0)

    @property
    def tile(self) -> TileLayout:
        """Its layout before the swizzle."""
        layout = self.buffer.layout
        plain = layout.tile if isinstance(layout, ComposeLayout) else layout
        if not isinstance(plain, TileLayout):
            raise Cannot(f"{self.buffer.name} has the layout {layout}")
        return plain

    def before_swizzle(self) -> NDArray[np.int64]:
        """The place of each element in elements, before the swizzle."""
        table = self.tile.table(self.shape)["m"]
        if table.shape[-1] != 1:
            raise Cannot(f"{self.buffer.name} has its elements in several places")
        return table.reshape(-1)


def tiles_of(kernel: Kernel) -> Iterator[SharedTile]:
    """The buffers of shared memory that are no views of others, but for the bytes of a pool."""
    for stmt in statements(kernel.body):
        if not isinstance(stmt, (AllocBuffer, DeclBuffer)):
            continue
        buffer = stmt.buffer
        fixed = all(isinstance(const_value(extent), int) for extent in buffer.shape)
        if not buffer.is_shared or buffer.layout is None or not fixed or len(buffer.shape) < 1:
            continue
        if isinstance(stmt, AllocBuffer):
            yield SharedTile(buffer, buffer.name, 0, growing=True, at=stmt.at)
        elif (pool := _pool(buffer)) and isinstance(offset := const_value(buffer.elem_offset), int):
            yield SharedTile(buffer, pool.name, offset * buffer.dtype.bits // 8, growing=False, at=stmt.at)


def _pool(buffer: Buffer) -> Buffer | None:
    """The bytes out of which a pool dealt this buffer."""
    parent = buffer.data.buffer if isinstance(buffer.data, AddressOf) and not buffer.data.indices else None
    is_pool = parent is not None and parent.data is None and parent.dtype == "uint8" and len(parent.shape) == 1
    return parent if is_pool else None


def with_layout(kernel: Kernel, tile: SharedTile, layout: Layout) -> Kernel:
    """The kernel whose ``tile`` has another layout, and whose views of it follow.

    Raises Cannot where a view cannot.
    """
    follow = _following(tile, layout)

    def change(buffer: Buffer) -> Buffer:
        if buffer.name == tile.buffer.name:
            return replace(buffer, layout=layout)
        if not _views(buffer, tile):
            return buffer
        data = buffer.data
        assert isinstance(data, AddressOf)
        if data.indices and all(const_value(extent) == 1 for extent in buffer.shape):
            return buffer  # a vector at an element: it follows the element
        if data.indices or const_value(buffer.elem_offset) != 0 or buffer.layout is None:
            raise Cannot(f"{buffer.name} views a part of {tile.buffer.name}")
        return replace(buffer, layout=follow(buffer))

    return replace(kernel, body=tuple(map_buffers(stmt, change) for stmt in kernel.body))


def _views(buffer: Buffer, tile: SharedTile) -> bool:
    while isinstance(buffer.data, AddressOf):
        buffer = buffer.data.buffer
        if buffer.name == tile.buffer.name:
            return True
    return False


def _following(tile: SharedTile, layout: Layout) -> Callable[[Buffer], Layout]:
    """The new layout of a view."""
    new = layout.tile if isinstance(layout, ComposeLayout) else layout
    assert isinstance(new, TileLayout)
    swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else SwizzleLayout(0, 0, 0)

    def follow(view: Buffer) -> Layout:
        plain = view.layout.tile if isinstance(view.layout, ComposeLayout) else view.layout
        if not isinstance(plain, TileLayout):
            raise Cannot(f"the view {view.name} has the layout {view.layout}")
        if new != tile.tile:
            plain = _restrided(plain, tile, new, view)
        return _in_units_of(swizzle, tile.buffer.dtype, view.dtype).after(plain) if swizzle.swizzle_len else plain

    return follow


def _in_units_of(swizzle: SwizzleLayout, kind: DType, view: DType) -> SwizzleLayout:
    return swizzle.pack(view.bits // kind.bits) if view.bits >= kind.bits else swizzle.unpack(kind.bits // view.bits)


def _restrided(layout: TileLayout, tile: SharedTile, new: TileLayout, view: Buffer) -> TileLayout:
    """A view's iters with the strides that the iters of the tile have now."""
    strides = {
        old.stride: it.stride for old, it in zip(tile.tile.shard, new.shard, strict=False) if old.extent == it.extent
    }
    sizes = {old.stride: old.extent for old in tile.tile.shard}
    if len(tile.tile.shard) != len(new.shard) or view.dtype != tile.buffer.dtype or layout.replica or layout.offset:
        raise Cannot(f"the view {view.name} of {tile.buffer.name} does not follow")
    if any(sizes.get(it.stride) != it.extent or it.stride not in strides for it in layout.shard if it.extent != 1):
        raise Cannot(f"the view {view.name} of {tile.buffer.name} cuts its rows otherwise")
    return TileLayout([Iter(it.extent, strides.get(it.stride, it.stride), it.axis) for it in layout.shard])


# The layouts that are tried for a tile of shared memory: swizzles, padded rows, and those that hardware units read.


BANK_BITS = 7  # of an address, that say the byte in the 128 bytes that all banks have together
MOST_PADDING = 128  # bytes of a row: as many again lead to the same banks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout to try. extra: bytes that it takes beyond those of the tile. rank: simpler ones have less."""

    layout: Layout
    extra: int
    rank: tuple[int, ...]

    def places(self, tile: SharedTile, plain: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each element, row major, in elements. plain: those of the tile without a swizzle."""
        if isinstance(self.layout, ComposeLayout) and self.layout.tile == tile.tile:
            swizzled: NDArray[np.int64] = self.layout.swizzle.address(plain)
            return swizzled
        return self.layout.table(tile.shape)["m"].reshape(-1)


def candidates(tile: SharedTile, *, for_units: bool) -> Iterator[Candidate]:
    """Every layout that is tried. for_units: only those that the copy engine and wgmma read."""
    if for_units:
        yield from _of_hardware(tile)
        return
    size = tile.buffer.storage_bytes()
    yield Candidate(tile.tile, 0, (0,))
    for bits, first, distance in _swizzles(tile):
        swizzle = SwizzleLayout(first, bits, distance)
        extra = -size % (swizzle.block * tile.buffer.dtype.bits // 8)
        if tile.growing or not extra:
            is_hardware = first + _element_bits(tile) == 4 and distance == 3
            yield Candidate(swizzle.after(tile.tile), extra, (1, not is_hardware, bits, abs(distance - 3), -first))
    if tile.growing:
        yield from _padded(tile)


def _element_bits(tile: SharedTile) -> int:
    """The logarithm of an element's bytes; -1 of half a byte."""
    return tile.buffer.dtype.bits.bit_length() - 4


def _swizzles(tile: SharedTile) -> Iterator[tuple[int, int, int]]:
    """(swizzle_len, per_element, atom_len) of every swizzle that changes banks, by bits that the tile has."""
    unit = _element_bits(tile)
    address_bits = max(1, (tile.buffer.storage_size() - 1)).bit_length()
    for first in range(max(0, -unit), BANK_BITS - unit):
        for bits in range(1, BANK_BITS - unit - first + 1):
            for distance in range(bits, address_bits - first):
                yield bits, first, distance


def _padded(tile: SharedTile) -> Iterator[Candidate]:
    """Layouts with padded rows: for each stride that divides all longer ones, longer by some elements."""
    plain, bits = tile.tile, tile.buffer.dtype.bits
    strides = sorted({int(str(it.stride)) for it in plain.shard if it.extent != 1})
    for row in strides[1:]:
        if any(stride > row and stride % row for stride in strides) or plain.replica or plain.offset:
            continue
        for elements in range(1, MOST_PADDING * 8 // bits + 1):
            yield _with_padding(tile, row, elements)


def _with_padding(tile: SharedTile, row: int, elements: int) -> Candidate:
    def moved(stride: int) -> int:
        return stride // row * (row + elements) if stride % row == 0 else stride

    layout = TileLayout([Iter(it.extent, moved(int(str(it.stride))), it.axis) for it in tile.tile.shard])
    extra = (int(str(layout.cosize("m"))) - tile.buffer.storage_size()) * tile.buffer.dtype.bits // 8
    nbytes = elements * tile.buffer.dtype.bits // 8
    return Candidate(layout, extra, (2, nbytes & -nbytes != nbytes, elements))


def _of_hardware(tile: SharedTile) -> Iterator[Candidate]:
    """The swizzles of 32, 64 and 128 bytes, over the tile as it is and over stripes as wide as they are."""
    unit = _element_bits(tile)
    yield Candidate(tile.tile, 0, (0,))
    for mode in SwizzleMode:
        bits = int(mode)
        if not 0 <= bits <= 3:
            continue
        if bits and unit <= 4:
            yield Candidate(SwizzleLayout(4 - unit, bits, 3).after(tile.tile), 0, (1, 3 - bits))
        try:
            yield Candidate(mma_shared_layout(str(tile.buffer.dtype), mode, tile.shape), 0, (2, 3 - bits))
        except LayoutError:
            continue  # this tile has no such stripes


# The cost of each candidate: the passes of shared memory that the accesses of a run would take with it.


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate and the passes that it costs each access, in their order. splits: would some be cut?"""

    candidate: Candidate
    passes: tuple[int, ...]
    splits: bool

    @property
    def total(self) -> int:
        """Passes of all accesses."""
        return sum(self.passes)

    @property
    def key(self) -> tuple[object, ...]:
        """Less is better: fewer passes, no narrower accesses, less memory, then what is simpler."""
        return self.total, self.splits, self.candidate.extra, self.candidate.rank


def search(tile: SharedTile, accesses: Sequence[Accesses], *, for_units: bool = False) -> list[Choice]:
    """The candidates that every access can use, the best first."""
    asked = [_Asked(tile, access) for access in accesses]
    choices: list[Choice] = []
    plain = tile.before_swizzle()
    for candidate in candidates(tile, for_units=for_units):
        costs = _costs(candidate.places(tile, plain), asked)
        if costs is not None:
            choices.append(Choice(candidate, tuple(passes for passes, _ in costs), any(cut for _, cut in costs)))
    return sorted(choices, key=lambda choice: choice.key)


def cost_now(tile: SharedTile, accesses: Accesses) -> int:
    """Passes that the accesses take with the layout that the tile has."""
    cost = _Asked(tile, accesses).cost(_swizzled(tile))
    assert cost is not None, "the kernel has run with this layout"
    return cost[0]


def _costs(places: NDArray[np.int64], asked: Iterable[_Asked]) -> list[tuple[int, bool]] | None:
    """The passes of each access, and whether it is cut; None where one does not fit."""
    costs = []
    for access in asked:
        if (cost := access.cost(places)) is None:
            return None
        costs.append(cost)
    return costs


class _Asked:
    """One site's patterns as elements of the tile, so that any layout can say where they are."""

    def __init__(self, tile: SharedTile, accesses: Accesses) -> None:
        self.accesses = accesses
        self.bits = tile.buffer.dtype.bits
        old = _swizzled(tile)
        element_at = np.full(int(old.max()) + 1, -1, np.int64)
        element_at[old] = np.arange(len(old))
        rows = accesses.rows
        self.active = rows != IDLE
        first = np.where(self.active, rows - tile.start, 0)
        # An idle lane gets the address of the first active one.
        at = np.where(self.active, first, first[np.arange(len(rows)), self.active.argmax(1)][:, None])
        self.each = max(1, accesses.width * 8 // self.bits)  # elements of a lane
        places = at[..., None] * 8 // self.bits + np.arange(self.each)
        self.elements = element_at[np.clip(places, 0, len(element_at) - 1)]
        self.partial = not self.active[:, : accesses.lanes].all()
        self.times = accesses.times

    def cost(self, places: NDArray[np.int64]) -> tuple[int, bool] | None:
        """(passes, is it cut?), or None where a matrix row or a narrow element would not stay together."""
        now = places[self.elements]
        run = self._run(now)
        nbytes = run * self.bits // 8
        if nbytes * 8 != run * self.bits or nbytes == 0 or (run < self.each and self.accesses.is_matrix):
            return None
        return self._passes(now[..., ::run] * self.bits // 8, nbytes), run < self.each

    def _run(self, now: NDArray[np.int64]) -> int:
        """Elements that are neighbours and start at a multiple of their number."""
        run = self.each
        while run > 1:
            runs = now.reshape(*now.shape[:-1], -1, run)
            if (runs[..., 0] % run == 0).all() and (np.diff(runs, axis=-1) == 1).all():
                break
            run //= 2
        return run

    def _passes(self, at: NDArray[np.int64], nbytes: int) -> int:
        """The passes of accesses of that many bytes; the last axis of ``at`` has the pieces of a lane's access."""
        a = self.accesses
        phase = a.phase if nbytes == a.width else default_phase(nbytes)
        total = 0
        for times in np.unique(self.times).tolist():
            which = self.times == times
            rows = np.moveaxis(at[which], -1, 0).reshape(-1, 1, 32)
            active = np.tile(self.active[which], (at.shape[-1], 1))[:, None, :] if self.partial else None
            total += times * wavefronts(Address(0, Part(rows)), a.lanes, nbytes, phase, active, pairs=a.pairs)[0]
        return total


def _swizzled(tile: SharedTile) -> NDArray[np.int64]:
    """The place of each element as the kernel has it."""
    tile.before_swizzle()  # raises Cannot where elements have several places
    layout = tile.buffer.layout
    assert layout is not None
    return layout.table(tile.shape)["m"].reshape(-1)


MOST_PROOFS = 6
"""How many candidates for one buffer are compiled and run, the most promising first."""


NO_PROOF = "in a run", "the results are equal in that one order of threads, which proves nothing of a wrong kernel"


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """Another layout for a buffer, with which the kernel ran and gave the same results.

    text: what to write. before, after: passes of shared memory that the buffer's accesses took. tried: how many
    layouts fit. other: a padding that does as well, proved too. rest: why conflicts are left, if any are.
    is_proof: are results of the kernel those of every order of its threads, as no check finds anything?
    """

    buffer: str
    at: Span | None
    layout: Layout
    text: str
    before: int
    after: int
    ideal: int
    extra_bytes: int
    tried: int
    other: str = ""
    rest: str = ""
    is_proof: bool = True

    def __str__(self) -> str:
        ran, equal = ("proved by a run", "the results are equal") if self.is_proof else NO_PROOF
        more = f", {self.extra_bytes:,} bytes more" if self.extra_bytes else ""
        left = f" ({self.ideal:,} ideal)" if self.after != self.ideal else ", no conflicts"
        lines = [
            f"{self.buffer}: layout={self.text}",
            f"  {ran}: {self.before:,} -> {self.after:,} wavefronts{left}{more}; {equal}",
            f"  found among {self.tried:,} layouts by what all accesses of {self.buffer} need",
        ]
        other = self.other if self.is_proof else self.other.replace("proved too", "in a run too")
        return "\n".join([*lines, *(f"  {more}" for more in (other, self.rest) if more)])


@dataclass(frozen=True, slots=True)
class Refused:
    """A buffer with conflicts that no layout takes away, and why."""

    buffer: str
    why: str

    def __str__(self) -> str:
        return f"{self.buffer}: no better layout\n  {self.why}"


@dataclass(frozen=True, slots=True, repr=False)
class Advice(NotebookText):
    """The cost of a kernel's accesses, line by line, and changes that lower it.

    lines: as counted. causes: of lines with conflicts, which lanes meet in which bank. sectors: of global memory.
    kernel: with all changes made. findings: what all checks of the simulator find in the kernel as it is. ran: for
    each change in words the kernel with those up to it. times: by estimate, where they were asked for.
    """

    name: str
    target: str
    at: Span | None
    lines: tuple[Line, ...]
    causes: tuple[str, ...]
    sectors: tuple[Sectors, ...]
    changes: tuple[LayoutChange, ...]
    refused: tuple[Refused, ...]
    kernel: Kernel
    findings: tuple[Finding, ...] = ()
    ran: tuple[tuple[str, Executable], ...] = ()
    times: InTime | None = None

    @property
    def bank_conflicts(self) -> int:
        """Passes beyond the ideal, of the kernel as it is."""
        return sum(line.bank_conflicts for line in self.lines)

    def __repr__(self) -> str:
        text = f"{len(self.changes)} changes, {len(self.refused)} buffers without a better layout"
        return f"<Advice: {self.name} for {self.target}: {self.bank_conflicts:,} bank conflicts, {text}>"

    def __str__(self) -> str:
        notes = list(_notes(self.lines, self.causes, self.sectors))
        wrong = [f"the kernel is wrong, whatever its layouts:\n{finding}\n" for finding in self.findings]
        title = f"{self.name} for {self.target}: {self.bank_conflicts:,} bank conflicts"
        text = [*wrong, title, *_annotated(self.at, notes)]
        changes = [*map(str, self.changes), *map(str, self.refused)] or ["shared memory has no conflicts"]
        return "\n".join([*text, "", *changes, *([] if self.times is None else ["", str(self.times)])])


def advise(exe: Executable, args: tuple[Any, ...], sizes: Mapping[str, int], seed: int) -> Advice:
    """Run the kernel on copies of its arguments, look for better layouts, and run it with each that looks best."""
    from tilewright.sim import Program, parse_checks

    if not args:
        args = tuple(make_arguments(exe.kernel, {}, sizes, seed).values())
    findings = _findings(exe, args)
    program = Program(exe.lowered, parse_checks("default"))
    accesses, sectors = record(program)
    before = _Proof(exe, args, exe.run_program(program, copies := _copies(args)), copies)
    lines = before.run.counts.lines
    changes: list[LayoutChange] = []
    refused: list[Refused] = []
    ran: list[tuple[str, Executable]] = []
    for tile in tiles_of(exe.kernel):
        mine = _within(tile, accesses)
        if not any(line.buffer == tile.place and line.bank_conflicts for line in lines) or not mine:
            continue
        try:
            change, before = _better(before, tile, mine, for_units=tile.place in _read_by_units(lines))
        except Cannot as reason:
            refused.append(Refused(tile.buffer.name, str(reason)))
            continue
        if isinstance(change, LayoutChange):
            changes.append(replace(change, is_proof=not findings))
            ran.append((f"with layout={change.text} of {change.buffer}", before.exe))
        elif change.why:
            refused.append(change)
    causes = tuple(cause(_at(line, accesses)) for line in lines)
    return Advice(exe.name, str(exe.target), exe.kernel.at, tuple(lines), causes, _joined(sectors), tuple(changes),
                  tuple(refused), before.exe.kernel, findings, tuple(ran))  # fmt: skip


def _findings(exe: Executable, args: tuple[Any, ...]) -> tuple[Finding, ...]:
    """The error that ends a run under every check, if one does."""
    try:
        exe.simulate(*_copies(args), check="all")
    except SimulationError as error:
        return error.findings
    return ()


@dataclass(frozen=True, slots=True)
class _Proof:
    """A kernel that ran, and its results. args: as they were before."""

    exe: Executable
    args: tuple[Any, ...]
    run: Run
    results: tuple[Any, ...]

    def agrees(self, results: Sequence[Any]) -> bool:
        """Are these the same results, bit for bit?"""
        pairs = zip(self.results, results, strict=True)
        return all(_bytes(mine) == _bytes(other) for mine, other in pairs if host.is_array(mine))


def _bytes(array: Any) -> bytes:
    return np.asarray(host.behind(array)).tobytes()


def _copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(host.copies(args))


def _better(
    before: _Proof, tile: SharedTile, accesses: list[Accesses], *, for_units: bool
) -> tuple[LayoutChange | Refused, _Proof]:
    """The best layout of a tile that a run proves, and that run; or why there is none."""
    choices = search(tile, accesses, for_units=for_units)
    now, ideal = _passes(before.run, tile), _passes(before.run, tile, ideal=True)
    total = sum(cost_now(tile, access) for access in accesses)
    failed: list[str] = []
    best: tuple[int, Choice, _Proof] | None = None
    for choice in [choice for choice in choices if choice.total < total][:MOST_PROOFS]:
        try:
            proof = _proved(before, tile, choice.candidate.layout)
        except (TilewrightError, Cannot) as error:
            failed.append(error.what if isinstance(error, TilewrightError) else str(error))
            continue
        took = _passes(proof.run, tile)
        if took < (best[0] if best else now):
            best = took, choice, proof
        if took <= now - total + choice.total:
            break
    rest = _why(tile, accesses, choices, ideal - (now - total), for_units=for_units)
    if best is None:
        fails = f"{len(failed)} that would do better were tried, and failed: {failed[0]}" if failed else ""
        return Refused(tile.buffer.name, fails or rest or ""), before
    took, choice, proof = best
    left = _passes(proof.run, tile, ideal=True)
    change = LayoutChange(tile.buffer.name, tile.at, choice.candidate.layout, _text(tile, choice.candidate.layout), now,
                    took, left, choice.candidate.extra, len(choices), _padding(before, tile, choices, took),
                    rest if took > left else "")  # fmt: skip
    return change, proof


def _padding(before: _Proof, tile: SharedTile, choices: list[Choice], took: int) -> str:
    """A padding that takes no more passes than the best layout, where that is none."""
    padded = [choice.candidate for choice in choices if choice.candidate.extra and choice.total == choices[0].total]
    if choices[0].candidate.extra or not padded:
        return ""
    try:
        proved = _passes(_proved(before, tile, padded[0].layout).run, tile) <= took
    except (TilewrightError, Cannot):
        return ""
    text = _text(tile, padded[0].layout)
    return f"or layout={text}, proved too: {padded[0].extra:,} bytes more" if proved else ""


def _proved(before: _Proof, tile: SharedTile, layout: Layout) -> _Proof:
    """The kernel with that layout, run. Raises Cannot where it gives other results."""
    from tilewright.compiler import compile

    exe = compile(with_layout(before.exe.kernel, tile, layout), before.exe.target, fast_math=before.exe.fast_math)
    run = exe.simulate(*(copies := _copies(before.args)), check="default")
    if not before.agrees(copies):
        raise Cannot("the results change: the kernel forms addresses in it by hand")
    return _Proof(exe, before.args, run, copies)


def _passes(run: Run, tile: SharedTile, *, ideal: bool = False) -> int:
    mine = [line for line in run.counts.lines if line.buffer == tile.place]
    return sum(line.ideal_wavefronts if ideal else line.wavefronts for line in mine)


def _why(tile: SharedTile, accesses: list[Accesses], choices: list[Choice], ideal: int, *, for_units: bool) -> str:
    """Why no candidate is without conflicts: one access that none serves, or two that want different ones."""
    kinds = "swizzles that the copy engine and wgmma know" if for_units else "swizzles and paddings"
    if not choices:
        return f"none of the {kinds} keeps together what each access needs"
    if choices[0].total <= ideal:
        return ""
    least = [min(passes) for passes in zip(*(choice.passes for choice in choices), strict=True)]
    best = choices[0]
    worse = [number for number, passes in enumerate(best.passes) if passes > least[number]]
    if not worse:
        number = max(range(len(least)), key=lambda n: least[n] - _ideal(accesses[n]))
        where = f"{accesses[number].at}, {accesses[number].op}"
        return (
            f"{where} alone takes at least {least[number]:,} wavefronts with each of {len(choices):,} {kinds}: "
            f"{_ideal(accesses[number]):,} would be ideal"
        )
    number = worse[0]
    other = min(choices, key=lambda choice: (choice.passes[number], choice.key))
    loser = max(range(len(least)), key=lambda n: other.passes[n] - best.passes[n])
    wants, loses = accesses[number], accesses[loser]
    return (
        f"{wants.at}, {wants.op}, would take {least[number]:,} wavefronts instead of {best.passes[number]:,} with "
        f"{_text(tile, other.candidate.layout)}, but then {loses.at}, {loses.op}, takes {other.passes[loser]:,} "
        f"instead of {best.passes[loser]:,}: none of {len(choices):,} {kinds} serves both"
    )


def _ideal(accesses: Accesses) -> int:
    """The fewest passes: one for each phase with an active lane."""
    groups = accesses.rows[:, : accesses.lanes].reshape(len(accesses.patterns), -1, min(accesses.phase, accesses.lanes))
    return int(((groups != IDLE).any(2).sum(1) * accesses.times).sum())


def _within(tile: SharedTile, accesses: Iterable[Accesses]) -> list[Accesses]:
    """The accesses to a tile; for a tile of a pool the patterns that lie in it."""
    inside_tile = []
    for access in accesses:
        if access.place != tile.place or not access.patterns:
            continue
        rows = access.rows
        inside = ((rows == IDLE) | ((rows >= tile.start) & (rows < tile.start + tile.buffer.storage_bytes()))).all(1)
        kept = {key: times for (key, times), is_in in zip(access.patterns.items(), inside, strict=True) if is_in}
        if kept:
            inside_tile.append(replace(access, patterns=kept))
    return inside_tile


def _read_by_units(lines: Iterable[Line]) -> set[str]:
    """Buffers that the copy engine or a tensor core accesses by itself, whose passes are not counted."""
    return {line.buffer for line in lines if line.space == "shared" and line.accesses and not line.ideal_wavefronts}


def _at(line: Line, accesses: Iterable[Accesses]) -> list[Accesses]:
    """The accesses that a counted line has, where it has conflicts."""
    if not line.bank_conflicts:
        return []
    key = (str(line.at), line.op, line.buffer, line.write)
    return [a for a in accesses if (str(a.at), a.op, a.place, a.write) == key and a.patterns]


def _joined(sectors: Iterable[Sectors]) -> tuple[Sectors, ...]:
    """One row for what a line does to a buffer."""
    rows: dict[tuple[object, ...], Sectors] = {}
    for row in sectors:
        key = (str(row.at), row.op, row.place, row.write)
        old = rows.get(key)
        rows[key] = row if old is None else replace(
            row if row.step else old, touched=row.touched + old.touched, ideal=row.ideal + old.ideal
        )  # fmt: skip
    return tuple(row for row in rows.values() if row.touched)


# The advice as text.


def _text(tile: SharedTile, layout: Layout) -> str:
    """A layout as a kernel writes it."""
    kind, shape = str(tile.buffer.dtype), tile.shape
    for mode in SwizzleMode:
        if len(shape) >= 2 and isinstance(layout, ComposeLayout) and layout.tile != S[shape]:
            try:
                if mma_shared_layout(kind, mode, shape) == layout:
                    return f'mma_shared_layout("{kind}", {int(mode)}, {shape})'
            except TilewrightError:
                continue
    if isinstance(layout, ComposeLayout) and layout.tile == S[shape]:
        swizzle = layout.swizzle
        return f"SwizzleLayout({swizzle.per_element}, {swizzle.swizzle_len}, {swizzle.atom_len})"
    return str(layout)


def _notes(
    lines: Iterable[Line], causes: Iterable[str], sectors: Iterable[Sectors]
) -> Iterator[tuple[Span | None, str]]:
    """The notes for each line of the kernel."""
    for line, blame in zip(lines, causes, strict=True):
        verb = "writes" if line.write else "reads"
        if line.ideal_wavefronts:
            counts = (
                f"{line.wavefronts:,} wavefronts, {line.ideal_wavefronts:,} ideal, {line.bank_conflicts:,} conflicts"
            )
            yield line.at, f"{line.op} {verb} {line.buffer}: {counts}" + (f": {blame}" if blame else "")
    for row in sectors:
        verb = "writes" if row.write else "reads"
        yield row.at, f"{row.op} {verb} {row.place}: {row.touched:,} sectors, {row.ideal:,} ideal{_blame(row)}"


def _blame(row: Sectors) -> str:
    """Why more sectors are touched than would do."""
    if not row.step or row.touched <= row.ideal:
        return ""
    if abs(row.step) == row.width:
        return f": what neighbouring lanes touch begins or ends inside of a sector, of {SECTOR_BYTES} bytes"
    return f": neighbouring lanes are {row.step:,} bytes apart"


def _annotated(at: Span | None, notes: list[tuple[Span | None, str]]) -> Iterator[str]:
    """The kernel's source from its first line to the last that has a note, each note under its line."""
    files = dict.fromkeys(span.file for span, _ in notes if span)
    for file in files:
        by_line: dict[int, list[str]] = {}
        for span, note in notes:
            if span and span.file == file:
                by_line.setdefault(span.line, []).append(note)
        first = at.line if at and at.file == file else min(by_line)
        for number in range(min(first, *by_line), max(by_line) + 1):
            yield f"{number:5} | {linecache.getline(file, number).rstrip()}".rstrip()
            yield from (f"      > {note}" for note in by_line.get(number, ()))
    yield from (f"      > {note}" for span, note in notes if span is None)
