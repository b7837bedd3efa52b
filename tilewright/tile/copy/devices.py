"""Tiles that are spread over several GPUs: copied in the memory of the GPU that has them, or to all that do."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import AddressOf, DeclBuffer, Load, Value, as_expr
from tilewright.primitives.copy import ASKED
from tilewright.tile.boxes import device_of, devices_of, is_everywhere, on_device, spread_sides
from tilewright.tile.builder import Builder, inner_call, planned
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, constant_extents, element_bits
from tilewright.tile.dispatch import Decline, across_gpus, condition, counted, variant
from tilewright.tile.scope import INDEX


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """ranks: by operand, the GPU that has its tile; of a destination that several have, each of them in turn. inner:
    the variant that copies there.
    """

    ranks: tuple[dict[str, Value | str], ...]
    inner: str

    def summary(self) -> str:
        """``there by gmem_smem``."""
        return f"there by {self.inner}" + (f", {counted(len(self.ranks), 'GPU')}" if len(self.ranks) > 1 else "")


def _there(call: TileCall, ranks: dict[str, Value | str], out: Builder | None = None) -> TileCall:
    """The call on the tiles as they lie; with ``out`` their names are declared."""
    sides = dict(call.sides)
    for key, rank in ranks.items():
        name = "" if out is None else out.names.new(f"{call[key].name}_peer")
        sides[key] = on_device(call, call[key], rank, name=name)
        if out is not None:
            out.add(DeclBuffer(sides[key].buffer, at=out.at))
    return inner_call(call, call.stmt.primitive, sides, **dict(call.config))


def plan_peer(call: TileCall) -> PeerPlan:
    """On the one GPU that has each tile. Raises Decline where several have the destination, or parts of a tile."""
    ranks = {key: device_of(side) for key, side in spread_sides(call).items()}
    for key in ranks:
        if key == "dst" and (count := len(devices_of(call[key]))) > 1:
            raise Decline(f"{count} GPUs have {call[key].name}", allowed="a destination on one GPU")
    return PeerPlan((ranks,), planned(_there(call, ranks)).variant.name)


def emit_peer(plan: PeerPlan, call: TileCall, out: Builder) -> None:
    for ranks in plan.ranks:
        inner = _there(call, ranks, out)
        planned(inner).write(inner, out)


@variant("copy", priority=30, keywords=("vec_len", *ASKED), when=[across_gpus])
def peer(call: TileCall) -> PeerPlan:
    """Loads and stores through a pointer into the memory of the GPU that has the tile."""
    return plan_peer(call)


peer.emit(emit_peer)


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
        with out.when(element < plan.size if plan.size % plan.threads else None):
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


@variant("copy", priority=10, keywords=("vec_len", *ASKED), when=[across_gpus, on_several])
def replicas(call: TileCall) -> PeerPlan:
    """The destination is copied to each GPU that has it, one after the other."""
    others = {key: device_of(side) for key, side in spread_sides(call).items() if key != "dst"}
    ranks = tuple({**others, "dst": rank} for rank in devices_of(call["dst"]))
    return PeerPlan(ranks, planned(_there(call, ranks[0])).variant.name)


replicas.emit(emit_peer)
