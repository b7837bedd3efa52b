"""24 pairs of a kernel and a shape, each in all of its configurations: what estimates of time are held to.

A pair makes its kernels and their arguments for a GPU or for the simulator; `Maker` says where arrays are. `FITTED` and
`HELD` are the 24. Constants of the model were chosen by those that are `FITTED`, and by what is `SEEN`; those that are
`HELD` have other shapes, and were measured when the model stood. `benchmarks.gpu.estimate` says what was changed since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from benchmarks.gpu import pair_kernels as own
from benchmarks.gpu import tune_rows
from tilewright.dtypes import dtype

PROCESSORS = 132
BYTES = 2**28  # of arrays of rows
FEW_ROWS = 32
FITTED, SEEN, HELD = "fitted", "seen", "held"


class Maker:
    """Arrays by name, each made once. `Any`: tensors on the GPU, or arrays of NumPy."""

    def __init__(self, *, on_gpu: bool) -> None:
        self.on_gpu, self.held = on_gpu, {}  # type: ignore[var-annotated]

    def __call__(self, name: str, shape: Sequence[int], kind: str, how: str = "normal") -> Any:
        key = (name, tuple(shape), kind)
        if key not in self.held:
            self.held[key] = (self._far if self.on_gpu else self._near)(tuple(shape), kind, how)
        return self.held[key]

    @staticmethod
    def _far(shape: tuple[int, ...], kind: str, how: str) -> Any:
        import torch

        of = getattr(torch, kind)
        if how == "normal":
            return torch.randn(shape, device="cuda", dtype=of if of.is_floating_point else torch.float32).to(of)
        if how == "zero":
            return torch.zeros(shape, device="cuda", dtype=of)
        return torch.randint(int(how), shape, device="cuda", dtype=of)

    @staticmethod
    def _near(shape: tuple[int, ...], kind: str, how: str) -> Any:
        found = np.zeros(shape, dtype(kind).numpy)  # pages of zeros take no memory until they are touched
        few = found.reshape(-1)[: 1 << 18]
        rng = np.random.default_rng(0)
        if how == "normal":
            few[...] = rng.standard_normal(len(few)).astype(few.dtype)
        elif how != "zero":
            few[...] = rng.integers(0, int(how), len(few)).astype(few.dtype)
        return found


@dataclass(frozen=True, slots=True)
class Ours:
    """A kernel of tilewright's language, and how it is compiled. `Any`: an `Executable`."""

    make: Callable[[], Any]

    def call(self, args: Sequence[Any], code: Any = None) -> Callable[[], object]:
        """A launch. code: what `prepared` found, where it has run."""
        return partial(code or self.make(), *args)

    def prepared(self) -> Any:
        """What takes time before the launch, done. Raises where it does not assemble, or spills."""
        exe = self.make()
        assert exe.resources.local_bytes == 0, "spills"
        return exe


@dataclass(frozen=True, slots=True)
class Cuda:
    """A kernel in CUDA, and its launch."""

    text: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]

    def assembled(self) -> Any:
        from benchmarks.gpu.measure import ARCH
        from tilewright.cuda.nvrtc import assemble

        return assemble(self.text, ARCH, fast_math=True)

    def call(self, args: Sequence[Any], code: Any = None) -> Callable[[], object]:
        """As of `Ours`."""
        from benchmarks.gpu.figures import Probe

        probe = Probe(code or self.prepared(), math.prod(self.block), entry=self.entry, block=self.block)
        return partial(probe, self.grid, *args)

    def prepared(self) -> Any:
        """As of `Ours`: the machine code."""
        return self.assembled().cubin


@dataclass(frozen=True, slots=True)
class Triton:
    """A kernel in Triton's language, its grid, constants and options."""

    module: str
    kernel: str
    grid: int
    constants: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, int], ...]

    @property
    def function(self) -> Any:
        return getattr(import_module(f"benchmarks.gpu.{self.module}"), self.kernel)

    def call(self, args: Sequence[Any], code: Any = None) -> Callable[[], object]:
        """As of `Ours`; Triton compiles at the first launch."""
        return partial(self.function[(self.grid,)], *args, **dict(self.constants), **dict(self.options))

    def prepared(self) -> None:
        """As of `Ours`: nothing."""

    def ptx(self, args: Sequence[Any]) -> dict[str, Any]:
        """What Triton makes of it on this machine, with what a launch needs."""
        made = self.call(args)()
        meta = made.metadata  # type: ignore[attr-defined]  # a CompiledKernel
        return {"ptx": made.asm["ptx"], "name": meta.name, "shared": meta.shared, "warps": meta.num_warps}  # type: ignore[attr-defined]


Case = Ours | Cuda | Triton
Config = Any
Built = tuple[Case, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Small:
    """A problem that is recorded in the place of the whole one. args: of the launch; grid: of a kernel in CUDA. tiles,
    steps: that a CTA has of it, one after the other.
    """

    args: tuple[Any, ...]
    tiles: int = 1
    steps: int = 1
    grid: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Whole:
    """How much of that a CTA has of the whole problem."""

    tiles: float = 1
    steps: float = 1


@dataclass(frozen=True, slots=True)
class Pair:
    """name: kernel and shape. group: of the three. configs: by label. build: the kernel of a configuration, and its
    arguments. small: the problems that are recorded instead, and what a CTA has of the whole one: of several, the time
    goes on in a line. shared: pairs of this name have the same small problems; left out, this pair alone has them.
    """

    name: str
    group: str
    configs: dict[str, Config]
    build: Callable[[Config, Maker], Built]
    small: Callable[[Config, Case, tuple[Any, ...]], tuple[list[Small], Whole]]
    shared: str = ""

    @property
    def family(self) -> str:
        """What pairs with the same small problems have in common."""
        return self.shared or self.name


def zeros(*shape: int, kind: str) -> Any:
    return np.zeros(shape, dtype(kind).numpy)


def in_line(make: Callable[[int, int], tuple[Any, ...]], first: int, more: int, *, twice: bool) -> list[Small]:
    """Three problems, or two: so many steps, more of them, and two tiles. make: arguments of (tiles, steps)."""
    shapes = [(1, first), (1, first + more), *([(2, first)] if twice else [])]
    return [Small(make(*shape), *shape) for shape in shapes]


def of_rows(rows: int, weights: int = 0) -> Callable[[Config, Case, tuple[Any, ...]], tuple[list[Small], Whole]]:
    """The first rows of all arrays that have as many as the first one; so many arguments behind it are weights."""

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        many = len(args[0])
        few = (arg if 1 <= number <= weights or getattr(arg, "shape", (0,))[:1] != (many,) else arg[:rows]
               for number, arg in enumerate(args))  # fmt: skip
        return [Small(tuple(few), grid=(2,))], Whole()

    return small


# Products


def matmul_pair(
    name: str, group: str, shape: tuple[int, int, int], *, split: bool | None, turned: bool = False, quick: bool = False
) -> Pair:
    """split: only tiles of which CTAs share K, none of them, or (None) both. quick: record fewer steps along K. Tiles
    that warpgroups take in turns are left out: what is recorded of one tile says nothing of the next one beside it.
    """
    from tilewright.kernels.product_tiles import candidates

    m, n, k = shape
    tiles = [each for each in candidates() if not each.pingpong and split in (None, each.parts > 1)]

    def build(tile: Any, make: Maker) -> Built:
        from tilewright.kernels.forms import MatmulKind
        from tilewright.kernels.matmul import product as multiplied
        from tilewright.kernels.product_tiles import clusters_at_once

        form = MatmulKind("bfloat16", "bfloat16", "bfloat16", (False, False, turned))
        a, b, c = make("a", (m, k), "bfloat16"), make("b", (n, k), "bfloat16"), make("c", (m, n), "bfloat16", "zero")
        down, across = (n, m) if turned else (m, n)
        work = clusters_of(tile, down, across)
        args = (*((b, a) if turned else (a, b)), c, 0, 0, 0, 0, min(work, clusters_at_once(tile, PROCESSORS)))
        return Ours(partial(multiplied, tile, form)), args

    def small(tile: Any, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        from tilewright.kernels.forms import MatmulKind

        stages = MatmulKind("bfloat16", "bfloat16", "bfloat16").stages(tile)
        down, across = (n, m) if turned else (m, n)

        def made(tiles: int, steps: int) -> tuple[Any, ...]:
            rows, columns = tile.m * tile.cluster * tiles, min(tile.n * tile.beside, across)
            depth = 64 * steps * tile.parts
            c = (columns, rows) if turned else (rows, columns)
            arrays = [zeros(*shape, kind="bfloat16") for shape in ((rows, depth), (columns, depth), c)]
            return (*arrays, 0, 0, 0, 0, 1)

        work, most = clusters_of(tile, down, across), args[-1]
        whole = Whole(1 if tile.parts > 1 else -(-work // most), k / 64 / tile.parts)
        first, more = (min(stages, 3) + 1, 3) if quick else (min(stages, 6) + 2, 5)
        return in_line(made, first, more, twice=tile.parts == 1), whole  # of the family's pairs some have several tiles

    labels = {tile_label(each): each for each in tiles}
    shared = f"matmul, turned, of {m} rows" if turned else "matmul"  # a tile is never wider than the product
    return Pair(name, group, labels, build, small, shared)


def tile_label(tile: Any) -> str:
    """The name of a configuration of a product. `Any`: `Tiles`."""
    return f"{tile.m}x{tile.n} c{tile.cluster} p{tile.parts} r{tile.resident}{' square' * (tile.beside > 1)}"


def clusters_of(tile: Any, down: int, across: int) -> int:
    """How many clusters' tiles a product of so many rows and columns has."""
    high, wide = int(tile.m * tile.cluster), int(tile.n * tile.beside)
    return -(-down // high) * -(-across // wide)


def mma_pair(name: str, group: str, shape: tuple[int, int, int]) -> Pair:
    m, n, k = shape
    ways = [((256, 128), (4, 2)), ((128, 256), (2, 4)), ((128, 128), (2, 4)), ((128, 128), (4, 2)),
            ((128, 128), (2, 2)), ((128, 64), (4, 1)), ((128, 64), (2, 2)), ((64, 128), (2, 2)), ((64, 64), (2, 2)),
            ((64, 64), (2, 1)), ((256, 64), (4, 1)), ((64, 256), (1, 4))]  # fmt: skip
    found = [(tile, warps, stages) for tile, warps in ways for stages in (2, 3, 4)
             if stages * sum(tile) * 128 <= 227 << 10]  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        from benchmarks.gpu.mma_kernels import product as multiplied

        tile, warps, stages = config
        args = (make("a", (m, k), "float16"), make("b", (n, k), "float16"), make("d", (m, n), "float16", "zero"))
        return Ours(partial(multiplied, tile[0], tile[1], warps, stages)), args

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        (tm, tn), _, stages = config

        def made(tiles: int, steps: int) -> tuple[Any, ...]:
            shapes = (tm, 64 * steps), (tn, 64 * steps), (tm, tn)
            return tuple(zeros(*shape, kind="float16") for shape in shapes)

        return in_line(made, stages + 1, 3, twice=False), Whole(1, k / 64)

    return Pair(name, group, {f"{t[0]}x{t[1]} {w[0]}x{w[1]} s{s}": (t, w, s) for t, w, s in found}, build, small, "mma")


# Rows


def rows_pair(name: str, group: str, kernel: str, columns: int, kind: str) -> Pair:
    """One of the kernels of `tune_rows`, in all of its ways."""
    item = tune_rows.KINDS[kind]
    weights = tune_rows.weights_of(kernel)
    ways = list(dict.fromkeys([tune_rows.usual(kernel, columns, item), *tune_rows.ways(columns, item, weights)]))
    ways = [*ways, *narrower(ways)]
    rows = BYTES // item // columns

    def build(way: Any, make: Maker) -> Built:
        x = make("x", (rows, columns), kind)
        if kernel == "cross_entropy":
            args: tuple[Any, ...] = (x, make("t", (rows,), "int64", str(columns)), make("l", (rows,), "float32"), -100)
        else:
            lines = tuple(make(f"w{number}", (columns,), kind) for number in range(weights))
            args = (x, *lines, make("y", (rows, columns), kind, "zero"), *((1e-6,) if weights else ()))
        return Ours(partial(tune_rows.made, kernel, way, kind)), args

    return Pair(name, group, {row_label(way): way for way in ways}, build, of_rows(FEW_ROWS, weights))


def narrower(ways: Sequence[Any]) -> Iterator[Any]:
    """The same ways with accesses of fewer elements, as one writes them first; of CTAs that take one row each."""
    for way in ways:
        if way.turns == 1 and not way.resident and way.cluster <= 8:
            for vector in (1, way.vector // 2):
                yield replace(way, vector=vector, runs=way.runs * way.vector // vector)


def row_label(way: Any) -> str:
    turns = f" t{way.turns} a{way.ahead}" if way.turns > 1 else ""
    return f"{way.threads}x{way.runs}x{way.vector} c{way.cluster}{turns} r{way.resident}{' early' * way.early}"


def quantize_pair(name: str, group: str, columns: int, kind: str) -> Pair:
    item = tune_rows.KINDS[kind]
    ways = [way for way in dict.fromkeys(tune_rows.alone_ways(columns, 16 // item, item)) if way.turns == 1]
    ways = [*ways, *narrower(ways)]
    rows = BYTES // item // columns

    def build(way: Any, make: Maker) -> Built:
        from tilewright.kernels.quantize import forward

        shape = rows, columns
        args = make("x", shape, kind), make("q", shape, "int8", "zero"), make("s", (rows,), "float32")
        return Ours(partial(forward, way, kind, "int8")), args

    return Pair(name, group, {row_label(way): way for way in ways}, build, of_rows(FEW_ROWS))


# Moves


def transpose_pair(name: str, group: str, size: int, kind: str) -> Pair:
    bits = dtype(kind).bits
    found = {}
    for side, threads, wide in product((32, 64), (128, 256, 512), (1, 128 // bits)):
        if side * side // wide % threads == 0 and threads >= side // wide:
            for pitch in dict.fromkeys((side, side + 1, side + 32 // bits)):
                found[f"{side} t{threads} v{wide} pitch {pitch}"] = (side, threads, kind, pitch, wide)

    def build(config: Config, make: Maker) -> Built:
        return Ours(partial(own.transposed, *config)), (
            make("x", (size, size), kind),
            make("y", (size, size), kind, "zero"),
        )

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        return [Small(tuple(zeros(*shape, kind=kind) for shape in ((128, 256), (256, 128))))], Whole()

    return Pair(name, group, found, build, small)


def histogram_pair(name: str, group: str, count: int) -> Pair:
    found = {f"part {part} t{threads} v{wide}": (part, threads, wide)
             for part, threads, wide in product((4096, 16384, 65536), (128, 256, 512, 1024), (1, 4, 16))
             if part % (threads * wide) == 0}  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        return Ours(partial(own.counted, *config)), (
            make("x", (count,), "uint8", "256"),
            make("n", (256,), "int32", "zero"),
        )

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        x = np.random.default_rng(0).integers(0, 256, config[0]).astype(np.uint8)
        return [Small((x, args[1]))], Whole()

    return Pair(name, group, found, build, small)


# Attention


def attention_pair(name: str, group: str, width: int, length: int, *, causal: bool) -> Pair:
    from tilewright.kernels.attention_forms import AttentionKind, AttentionTiles

    heads, batch = 2048 // width, 16384 // length
    form = AttentionKind("bfloat16", "bfloat16", width, width, False, causal)
    keys = (64, 96, 128, 160, 192, 224) if width == 64 else (64, 80, 96, 112, 128, 144, 160, 176)
    found = {}
    for groups, many, turns, stages in product((1, 2, 3), keys, (True, False), (2, 3)):
        tiles = AttentionTiles(groups, many, turns=turns and groups > 1, stages=stages)
        shared = 2 * width * (tiles.queries * 2 + 2 * stages * many) + 1024
        held = (many * 3 // 4 + width // 2) * groups
        if shared <= 227 << 10 and held <= (200, 360, 340)[groups - 1]:
            found[f"{groups} groups, {many} keys, s{stages}{', turns' * tiles.turns}"] = tiles

    def build(tiles: Any, make: Maker) -> Built:
        from tilewright.kernels.attention import forward

        shape = (batch, heads, length, width)
        q, k, v = (make(each, shape, "bfloat16") for each in "qkv")
        out, lse = make("out", shape, "bfloat16", "zero"), make("lse", (*shape[:3], 1), "float32", "zero")
        clusters = min(-(-length // tiles.queries) * batch * heads, PROCESSORS)
        section = max(1, min(batch * heads, (32 << 20) // (length * width * 4))) if causal else 1
        none = (0,) * 7  # no counter, no bias, no starts, no gradients
        args = (q, k, v, out, lse, *none, clusters, section, width**-0.5 * math.log2(math.e), 1.0, 0.0,
                -1, 0 if causal else -1, 1)  # fmt: skip
        return Ours(partial(forward, form, tiles)), args

    def small(tiles: Any, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        def made(many: int, steps: int) -> tuple[Any, ...]:
            shapes = [(1, 1, tiles.queries * many, width), *[(1, 1, tiles.keys * steps, width)] * 2]
            q, k, v = (zeros(*shape, kind="bfloat16") for shape in shapes)
            out, lse = zeros(*shapes[0], kind="bfloat16"), zeros(1, 1, shapes[0][2], 1, kind="float32")
            return (q, k, v, out, lse, *args[5:12], 1, 1, *args[14:])

        parts = -(-length // tiles.queries)
        blocks = length / tiles.keys
        each = sum(min(blocks, -(-(at + 1) * tiles.queries // tiles.keys)) for at in range(parts)) / parts
        work, most = parts * batch * heads, args[12]
        whole = Whole(work / most if causal else -(-work // most), each if causal else blocks)
        return in_line(made, tiles.stages + 1, 2, twice=True), whole

    return Pair(name, group, found, build, small)


# What others wrote


def sgemm_pair(name: str, group: str, size: int) -> Pair:
    ways = [(64, 64, 8, 4, 4), (64, 64, 16, 4, 4), (64, 64, 8, 8, 4), (128, 128, 8, 8, 8), (128, 128, 16, 8, 8),
            (128, 64, 8, 8, 4), (128, 64, 8, 8, 8), (32, 32, 32, 2, 2), (32, 32, 32, 1, 1), (64, 128, 16, 4, 8),
            (128, 128, 8, 4, 8), (16, 16, 16, 1, 1)]  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        bm, bn, bk, tm, tn, pad = config
        text = own.cuda_text(own.SGEMM, BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, PAD=pad)
        arrays = [make(each, (size, size), "float32") for each in "abc"]
        return Cuda(text, "sgemm", (size // bn, size // bm), (bm // tm * (bn // tn),)), (*arrays, size, size)

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        bm, bn, bk, *_ = config

        def made(tiles: int, steps: int) -> tuple[Any, ...]:
            shapes = (bm, bk * steps), (bk * steps, bn), (bm, bn)
            return (*(zeros(*shape, kind="float32") for shape in shapes), bn, bk * steps)

        return in_line(made, 2, 2, twice=False), Whole(1, size / bk)

    labels = {f"{'x'.join(map(str, way))} pad {pad}": (*way, pad) for way in ways for pad in (0, 4)}
    return Pair(name, group, labels, build, small, "sgemm")


def reduction_pair(name: str, group: str, count: int) -> Pair:
    found = {f"t{threads} x {ctas}, {many} at once": (threads, ctas, many)
             for threads, ctas, many in product((128, 256, 512, 1024), (1, 2, 4, 8), (1, 4, 8))
             if threads * ctas <= 2048}  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        threads, ctas, many = config
        text = own.cuda_text(own.REDUCTION, THREADS=threads, MANY=many)
        args = make("x", (count,), "float32"), make("y", (1,), "float32", "zero"), count // 4
        return Cuda(text, "reduce", (PROCESSORS * ctas,), (threads,)), args

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        threads, ctas, many = config

        def made(tiles: int, steps: int) -> tuple[Any, ...]:
            return zeros(threads * 4 * steps, kind="float32"), args[1], threads * steps

        return in_line(made, 2 * many, 2 * many, twice=False), Whole(1, count / 4 / threads / ctas / PROCESSORS)

    return Pair(name, group, found, build, small)


def stencil_pair(name: str, group: str, size: int) -> Pair:
    found = {f"{x}x{y}, {rows} rows": (x, y, rows)
             for x, y, rows in product((16, 32, 64, 128), (2, 4, 8, 16), (1, 2, 4, 8))
             if 64 <= x * y <= 1024}  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        x, y, rows = config
        text = own.cuda_text(own.STENCIL, BX=x, BY=y, ROWS=rows)
        args = make("x", (size, size), "float32"), make("y", (size, size), "float32", "zero"), size
        return Cuda(text, "stencil", (size // x, size // (y * rows)), (x, y)), args

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        x, y, rows = config
        side = max(4 * x, y * rows * 2)
        return [Small((*(zeros(side, side, kind="float32") for _ in "xy"), side), grid=(2, 2))], Whole()

    return Pair(name, group, found, build, small, "stencil")


def triton_rows_pair(name: str, group: str, kernel: str, columns: int, kind: str) -> Pair:
    rows = BYTES // tune_rows.KINDS[kind] // columns
    found = {f"{warps} warps": warps for warps in (1, 2, 4, 8, 16, 32)}

    def build(warps: Config, make: Maker) -> Built:
        x, y = make("x", (rows, columns), kind), make("y", (rows, columns), kind, "zero")
        lines = [make("w", (columns,), kind), make("b", (columns,), kind)] if kernel == "layer_norm_rows" else []
        args = (x, *lines, y, columns, *((1e-6,) if lines else ()))
        return Triton("memory_bound_triton", kernel, rows, (("BLOCK", columns),), (("num_warps", warps),)), args

    return Pair(name, group, found, build, of_rows(2, 2 * (kernel == "layer_norm_rows")))


def triton_matmul_pair(name: str, group: str, size: int) -> Pair:
    ways = [(128, 256, 64, 3, 8), (128, 128, 64, 3, 4), (128, 128, 64, 4, 8), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
            (64, 256, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 64, 4, 4), (128, 256, 64, 2, 8), (64, 64, 32, 2, 2),
            (128, 128, 64, 2, 4), (256, 128, 64, 3, 8)]  # fmt: skip

    def build(config: Config, make: Maker) -> Built:
        rows, columns, depth, stages, warps = config
        a, b, c = (make(each, (size, size), "float16") for each in "abc")
        constants = (("ROWS", rows), ("COLUMNS", columns), ("DEPTH", depth), ("BAND", 8))
        options = (("num_warps", warps), ("num_stages", stages))
        grid = -(-size // rows) * -(-size // columns)
        return Triton("pair_triton", "matmul_by_pointers", grid, constants, options), (a, b, c, size, size, size)

    def small(config: Config, case: Case, args: tuple[Any, ...]) -> tuple[list[Small], Whole]:
        rows, columns, depth, stages, _ = config

        def made(tiles: int, steps: int) -> tuple[Any, ...]:
            shapes = (rows, depth * steps), (depth * steps, columns), (rows, columns)
            return (*(zeros(*shape, kind="float16") for shape in shapes), rows, columns, depth * steps)

        return in_line(made, stages + 1, 8, twice=False), Whole(1, size / depth)

    labels = {f"{'x'.join(map(str, w[:3]))} s{w[3]} w{w[4]}": w for w in ways}
    return Pair(name, group, labels, build, small, "Triton matmul 4096^3")


@cache
def pairs() -> tuple[Pair, ...]:
    return tuple(_pairs())


def _pairs() -> Iterator[Pair]:
    yield matmul_pair("matmul 2048^3", FITTED, (2048, 2048, 2048), split=None)
    yield matmul_pair("matmul 4096^3", SEEN, (4096, 4096, 4096), split=False)
    yield matmul_pair("matmul 512 x 4096 x 4096", SEEN, (512, 4096, 4096), split=None)
    yield matmul_pair("matmul 16 x 14336 x 4096, turned", FITTED, (16, 14336, 4096), split=None, turned=True)
    yield matmul_pair("split-K 64 x 4096 x 14336", SEEN, (64, 4096, 14336), split=True)
    yield mma_pair("mma product 4096^3", FITTED, (4096, 4096, 4096))
    yield mma_pair("mma product 1024 x 4096 x 4096", SEEN, (1024, 4096, 4096))
    yield rows_pair("softmax float32 4096", FITTED, "softmax", 4096, "float32")
    yield rows_pair("softmax bfloat16 131072", SEEN, "softmax", 131072, "bfloat16")
    yield rows_pair("rms_norm bfloat16 4096", SEEN, "rms_norm", 4096, "bfloat16")
    yield rows_pair("layer_norm float32 1024", FITTED, "layer_norm", 1024, "float32")
    yield rows_pair("cross_entropy float32 16384", SEEN, "cross_entropy", 16384, "float32")
    yield transpose_pair("transpose float32 8192", FITTED, 8192, "float32")
    yield transpose_pair("transpose bfloat16 8192", SEEN, 8192, "bfloat16")
    yield attention_pair("attention 128, 4096", FITTED, 128, 4096, causal=False)
    yield attention_pair("attention 64, 4096, causal", SEEN, 64, 4096, causal=True)
    yield quantize_pair("quantize bfloat16 4096", SEEN, 4096, "bfloat16")
    yield histogram_pair("histogram", FITTED, 1 << 28)
    yield sgemm_pair("CUDA sgemm 2048^3", SEEN, 2048)
    yield reduction_pair("CUDA reduction", FITTED, 1 << 27)
    yield stencil_pair("CUDA stencil 8192", FITTED, 8192)
    yield triton_rows_pair("Triton softmax float32 4096", FITTED, "softmax_rows", 4096, "float32")
    yield triton_rows_pair("Triton layer_norm bfloat16 8192", SEEN, "layer_norm_rows", 8192, "bfloat16")
    yield triton_matmul_pair("Triton matmul 4096^3", FITTED, 4096)
    yield matmul_pair("matmul 1536 x 6144 x 3072", SEEN, (1536, 6144, 3072), split=False)
    yield matmul_pair("matmul 256 x 8192 x 2048", SEEN, (256, 8192, 2048), split=None)
    yield matmul_pair("split-K 128 x 2048 x 8192", SEEN, (128, 2048, 8192), split=True)
    yield mma_pair("mma product 2048 x 2048 x 8192", SEEN, (2048, 2048, 8192))
    yield rows_pair("softmax bfloat16 16384", SEEN, "softmax", 16384, "bfloat16")
    yield rows_pair("rms_norm float32 8192", SEEN, "rms_norm", 8192, "float32")
    yield rows_pair("cross_entropy bfloat16 4096", SEEN, "cross_entropy", 4096, "bfloat16")
    yield transpose_pair("transpose float32 4096", SEEN, 4096, "float32")
    yield attention_pair("attention 128, 2048, causal", SEEN, 128, 2048, causal=True)
    yield quantize_pair("quantize float32 8192", SEEN, 8192, "float32")
    yield sgemm_pair("CUDA sgemm 3072^3", SEEN, 3072)
    yield triton_rows_pair("Triton layer_norm float32 4096", SEEN, "layer_norm_rows", 4096, "float32")
    yield matmul_pair("matmul 3072 x 3072 x 1024", HELD, (3072, 3072, 1024), split=False)
    yield matmul_pair("matmul 384 x 5120 x 4096", HELD, (384, 5120, 4096), split=None)
    yield matmul_pair("split-K 192 x 1536 x 12288", HELD, (192, 1536, 12288), split=True)
    yield mma_pair("mma product 3072 x 2048 x 2048", HELD, (3072, 2048, 2048))
    yield rows_pair("softmax float32 8192", HELD, "softmax", 8192, "float32")
    yield rows_pair("rms_norm bfloat16 8192", HELD, "rms_norm", 8192, "bfloat16")
    yield rows_pair("cross_entropy float32 4096", HELD, "cross_entropy", 4096, "float32")
    yield transpose_pair("transpose bfloat16 4096", HELD, 4096, "bfloat16")
    yield attention_pair("attention 64, 2048", HELD, 64, 2048, causal=False)
    yield quantize_pair("quantize bfloat16 8192", HELD, 8192, "bfloat16")
    yield stencil_pair("CUDA stencil 4096", HELD, 4096)
    yield triton_matmul_pair("Triton matmul 2048^3", HELD, 2048)
