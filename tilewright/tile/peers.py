"""Tiles that are spread over several GPUs: copied in the memory of the GPU that has them, or to all that do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.ir import AddressOf, DeclBuffer, Load, Value, as_expr, binary
from tilewright.primitives.copy import ASKED
from tilewright.tile.boxes import device_of, devices_of, is_everywhere, on_device, spread_sides
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import bits_only, constant_extents, element_bits
from tilewright.tile.dispatch import Decline, across_gpus, condition, counted, variant
from tilewright.tile.scope import INDEX
from tilewright.tile.steps import CallSteps, emit_steps, in_steps, inner_call


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """The tile of an operand as it lies on one GPU."""

    operand: str
    rank: Value | str
    side: Side

    def allocated(self, call: TileCall, out: Builder) -> Side:
        """The same tile under a name of its own."""
        spread = call[self.operand]
        side = on_device(call, spread, self.rank, name=out.names.new(f"{spread.name}_peer"))
        out.add(DeclBuffer(side.buffer, at=out.at))
        return side


def _on_peers(call: TileCall, ranks: Sequence[dict[str, Value | str]]) -> CallSteps:
    """A call for each entry, which says on which GPU the tiles of operands are."""
    peers = {
        f"{operand} {turn}": Peer(operand, rank, on_device(call, call[operand], rank))
        for turn, there in enumerate(ranks)
        for operand, rank in there.items()
    }

    def calls(call: TileCall, sides: Mapping[str, Side]) -> list[TileCall]:
        turns = ({operand: sides[f"{operand} {turn}"] for operand in there} for turn, there in enumerate(ranks))
        return [inner_call(call, call.stmt.primitive, {**call.sides, **there}, **dict(call.config)) for there in turns]

    plan = in_steps(call, calls, peers)
    several = f", {counted(len(ranks), 'GPU')}" if len(ranks) > 1 else ""
    return replace(plan, words=f"there by {plan.chosen[0].variant.name}{several}")


@variant(
    "copy",
    "copy_async",
    priority=30,
    keywords=("vec_len", *ASKED, "mbar", "cta_mask", "cache_hint", "use_tma_reduce"),
    when=[across_gpus],
)
def peer(call: TileCall) -> CallSteps:
    """In the memory of the GPU that has the tile, through a pointer into it: as one of that memory would be."""
    ranks = {key: device_of(side) for key, side in spread_sides(call).items()}
    for key in ranks:
        if key == "dst" and (count := len(devices_of(call[key]))) > 1:
            raise Decline(f"{count} GPUs have {call[key].name}", allowed="a destination on one GPU")
    return _on_peers(call, [ranks])


peer.emit(emit_steps)


@condition("all GPUs have the destination")
def everywhere(call: TileCall) -> str | None:
    return None if is_everywhere(call["dst"]) else f"{call['dst'].name} is not on all GPUs alike"


@condition("the target has multimem")
def has_multimem(call: TileCall) -> str | None:
    return None if call.arch.has_clusters else f"{call.arch} has no multimem; sm_90 is the first that has"


@condition("the source is in shared or global memory of the GPU itself")
def from_memory(call: TileCall) -> str | None:
    src = call["src"]
    return None if src.space in ("shared", "global") and "src" not in spread_sides(call) else f"{src} is not"


@dataclass(frozen=True, slots=True)
class MultimemPlan:
    """threads: that share the elements, ``size`` of them."""

    threads: int
    size: int

    def summary(self) -> str:
        """``64 elements, to all GPUs``."""
        return f"{counted(self.size, 'element')}, to all GPUs at once"


@variant(
    "copy",
    priority=20,
    when=[across_gpus, everywhere, has_multimem, bits_only, element_bits(32, 64), from_memory, constant_extents],
)
def multimem(call: TileCall) -> MultimemPlan:
    """multimem.st: the switch stores each element in the memory of all GPUs; only where it is asked for."""
    if call.stmt.dispatch is None:
        raise Decline("not every machine has a switch with multicast", allowed='dispatch="multimem"')
    return MultimemPlan(call.scope.threads, int(call["dst"].size or 0))


@multimem.emit
def _(plan: MultimemPlan, call: TileCall, out: Builder) -> None:
    dst = on_device(call, call["dst"], call["dst"].buffer.peers, name=out.names.new(f"{call['dst'].name}_all"))
    out.add(DeclBuffer(dst.buffer, at=out.at))
    with out.loop("i", -(-plan.size // plan.threads)) as i:
        element = i * plan.threads + INDEX[call.scope.kind] if plan.threads > 1 else as_expr(i)
        with out.when(binary("<", element, plan.size) if plan.size % plan.threads else None):
            places = [side.at(element, call.facts) for side in (dst, call["src"])]
            there = AddressOf(dst.buffer.flat(), (as_expr(places[0]),))
            value = Load(call["src"].buffer.flat(), (as_expr(places[1]),))
            out.call("multimem.st", there, value, sem="weak")


@condition("several GPUs have the destination")
def on_several(call: TileCall) -> str | None:
    try:
        is_one = "dst" not in spread_sides(call) or len(devices_of(call["dst"])) == 1
    except Decline as declined:
        return declined.reason
    return f"{call['dst'].name} is on one GPU" if is_one else None


@variant("copy", priority=11, keywords=("vec_len", *ASKED), when=[across_gpus, on_several])
def replicas(call: TileCall) -> CallSteps:
    """The destination is copied to each GPU that has it, one after the other."""
    others = {key: device_of(side) for key, side in spread_sides(call).items() if key != "dst"}
    return _on_peers(call, [{**others, "dst": rank} for rank in devices_of(call["dst"])])


replicas.emit(emit_steps)
