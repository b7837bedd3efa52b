"""Changes with which tensor cores would take a product: other types, words, places, numbers in place of counters."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain

from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.ir import Const, Expr, Region, Var, const_value, rewrite, walk
from tilewright.isa.tcgen05 import DataPath
from tilewright.layout import R, S, TCol, TileLayout, TLane, tmem_datapath_layout
from tilewright.records import replace
from tilewright.tile.call import Side, TileCall, side_of
from tilewright.tile.dispatch import Change
from tilewright.tile.matrices import mma_layouts
from tilewright.tile.partition import COLUMN_BITS
from tilewright.tile.smem_descriptors import long_extents

PACKED = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
MOST_ROUNDS = 16  # of a loop that a hint writes out


def with_option(call: TileCall, **options: object) -> TileCall:
    """The call with these keywords, None for one that is left out."""
    config = {**dict(call.config), **options}
    return replace(call, config=tuple((key, value) for key, value in config.items() if value is not None))


def other_types(call: TileCall) -> Iterator[Change]:
    """tf32 for float32; what bytes hold, where the call says that of one side alone or of none."""
    sides = call["A"], call["B"]
    if all(side.dtype == "float32" for side in sides):
        changed = call
        for name in "AB":
            changed = changed.with_buffer(changed[name], dtype=dtype("tf32"))
        yield Change(f'dtype "tf32" for {sides[0].name} and {sides[1].name}: float32, of which 19 bits count', changed)
    yield from in_bytes(call)
    silent = [name for name in "AB" if call[name].dtype == "uint8" and not call.option(f"{name.lower()}_dtype")]
    for kind in PACKED if silent else ():
        words = [f"{name.lower()}_dtype" for name in silent]
        text = " and ".join(f'{word}="{kind}"' for word in words)
        yield Change(
            f"{text}, or another of {', '.join(PACKED)}: what bytes hold, 16 elements at the low end of 16",
            with_option(call, **dict.fromkeys(words, kind)),
        )


def instead(call: TileCall) -> Iterator[Change]:
    """Changes of where matrices begin, and of what their elements are."""
    return chain(with_numbers(call), in_bytes(call))


def in_bytes(call: TileCall) -> Iterator[Change]:
    """Operands of 4 or 6 bits as bytes: in shared memory packed as TMA lays them, in tensor memory one for each."""
    narrow = [name for name in "AB" if str(call[name].dtype) in PACKED]
    for names in (*([name] for name in narrow), narrow):
        changed: TileCall | None = call
        texts = []
        for name in names:
            changed, text = _in_bytes(changed, name) if changed is not None else (None, "")
            texts.append(text)
        if changed is not None and texts:
            yield Change(" and ".join(texts), changed)


def _in_bytes(call: TileCall, name: str) -> tuple[TileCall | None, str]:
    side, word = call[name], f"{name.lower()}_dtype"
    changed, layout = with_option(call, **{word: str(side.dtype)}), side.buffer.layout
    text = f'{word}="{side.dtype}" and dtype "uint8"'
    if side.space == "shared":
        buffer = replace(side.buffer, dtype=dtype("uint8"))
        spelled, layout, _ = next(mma_layouts(buffer, call.facts), ("", None, None))
        text = f"{text}, {spelled}"
    if layout is None:
        return None, ""
    return changed.with_buffer(changed[name], dtype=dtype("uint8"), layout=layout), f"{text} for {side.name}"


def other_words(call: TileCall) -> Iterator[Change]:
    """The collector's word that is nearest, with ws or without."""
    word, keeps_b = str(call.option("collector") or ""), bool(call.option("ws"))
    if word in isa.collector_words(keeps_b=not keeps_b):
        text = (
            "without ws=True, by which columns of B are kept" if keeps_b else "ws=True, by which columns of B are kept"
        )
        yield Change(text, with_option(call, ws=None if keeps_b else True))
    for near in get_close_matches(word, isa.collector_words(keeps_b=keeps_b)[1:], 1):
        yield Change(f'collector="{near}"', with_option(call, collector=near))


def without_ws(call: TileCall) -> Iterator[Change]:
    """The same product whose columns of B are not kept."""
    if call.option("ws"):
        yield Change("without ws=True", with_option(call, ws=None))


def in_a_datapath(call: TileCall, side: Side, path: DataPath, bits: int, copies: int) -> Iterator[Change]:
    """The same buffer of tensor memory in the layout that the instruction has for so many rows. bits: of a column.
    copies: how often each row is there.
    """
    shape = long_extents(side.buffer.shape)
    parts = path.halves
    rows = len(path.lanes) if copies == 1 and parts == 1 else len(path.lanes) // parts
    if len(shape) != 2 or shape[0] != rows or side.dtype.bits != bits:
        return
    if parts > 1 and copies == 1:
        if shape[1] % parts:
            return
        layout = TileLayout(S[(rows, parts, shape[1] // parts) : (1 @ TLane, rows @ TLane, 1 @ TCol)])
        text = f"layout={layout}"
    elif bits == COLUMN_BITS and parts == 1:
        name = {128: "D", 64: "F"}[rows]
        layout, text = tmem_datapath_layout(name, *shape), f'layout=tmem_datapath_layout("{name}", {rows}, {shape[1]})'
    else:
        layout = TileLayout(
            S[shape : (1 @ TLane, 1 @ TCol)]
            if len(path.lanes) == 128
            else S[(rows // 16, 16, shape[1]) : (32 @ TLane, 1 @ TLane, 1 @ TCol)]
        )
        layout = layout + R[copies : rows @ TLane] if copies > 1 else layout
        text = f"layout={layout}"
    changed = side_of(Region(replace(side.buffer, layout=layout), side.region.box), call.facts)
    yield Change(f"{text} for {side.name}", call.with_side(side, changed))


def one_step(call: TileCall, k: int) -> Iterator[Change]:
    """The first of several calls with a step of K each."""
    sides, whole = dict(call.sides), 0
    for name in "AB":
        side = call[name]
        along = next(dim for dim in range(len(side.extents) - 1, -1, -1) if const_value(side.extents[dim]) != 1)
        along = along if not call.option(f"trans{name}") else next(
            dim for dim, extent in enumerate(side.extents) if const_value(extent) != 1)  # fmt: skip
        box = list(side.region.box)
        whole, box[along] = int(const_value(box[along][1]) or 0), (box[along][0], k)
        sides[name] = side_of(replace(side.region, box=tuple(box)), call.facts)
    starts = ", ".join(map(str, range(0, whole, k)))
    yield Change(
        f"a call for each {k} along K: k to k + {k} of A and B, for k in ({starts})", replace(call, sides=sides)
    )


def with_numbers(call: TileCall) -> Iterator[Change]:
    """The same call in a loop over Python's numbers, whose counter is one of them, where a tile begins at a counter."""
    control = call.scope.control
    starts = [start for side in call.tiles for start in side.starts if isinstance(start, Expr)]
    names = {*control.ids, *call.arguments}
    counters = {node.name: node for start in starts for node in walk(start) if isinstance(node, Var)}
    for name, var in counters.items():
        values = call.facts.interval(var)
        if name in names or const_value(control.spelled_out(var)) is not None:
            continue
        count = values.high - values.low + 1
        if not 1 < count <= MOST_ROUNDS:
            continue
        number = Const(values.low, var.dtype)

        def written(node: Expr, name: str = name, number: Const = number) -> Expr | None:
            return number if isinstance(node, Var) and node.name == name else None

        sides = {
            key: side_of(replace(side.region, box=rewrite(side.region.box, written)), call.facts)
            for key, side in call.sides.items()
        }
        listed = ", ".join(map(str, range(values.low, values.high + 1)))
        yield Change(
            f"for {name} in ({listed}): a loop over Python's numbers, which starts of tiles may come from",
            replace(call, sides=sides),
        )
