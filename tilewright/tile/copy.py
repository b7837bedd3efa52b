"""The variants of `copy` alone: between memories, of registers, by ldmatrix and stmatrix, by the names of atoms, and of
tiles that are spread over several GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tilewright import isa
from tilewright.errors import DispatchError
from tilewright.ir import AddressOf, DeclBuffer, Load, Value, as_expr, binary
from tilewright.isa import ATOMS, CopyAtom
from tilewright.primitives.copy import ASKED
from tilewright.tile.boxes import device_of, devices_of, is_everywhere, on_device, spread_sides
from tilewright.tile.call import Side, TileCall
from tilewright.tile.conditions import (
    between,
    bits_only,
    check_target,
    constant_extents,
    element_bits,
    one_place_each,
    only_in,
    plain_registers,
    whole_warps,
)
from tilewright.tile.dispatch import (
    Change,
    Decline,
    Plan,
    Variant,
    across_gpus,
    by_name,
    choose,
    condition,
    counted,
    variant,
)
from tilewright.tile.distribution import (
    Distribution,
    dealt_out,
    goes_longer,
    held_by,
    in_memory_order,
    unless_longer,
    widened,
)
from tilewright.tile.matrices import MatrixKind, MatrixPlan, emit_matrices, fitting, plan_matrices
from tilewright.tile.owners import accesses
from tilewright.tile.round_loops import emit_copies
from tilewright.tile.scope import INDEX
from tilewright.tile.steps import Builder, CallSteps, by_fewer_accesses, emit_steps, in_steps, inner_call

# The variants of `copy` alone: between memories, of registers, by ldmatrix and stmatrix, by the names of atoms.


# Between global and shared memory: the threads of the scope share the elements out in the order of the global side.


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[between("global", "shared"), bits_only, constant_extents, one_place_each],
)
def gmem_smem(call: TileCall) -> Distribution:
    """Neighbouring threads copy neighbouring runs of global memory, in accesses of up to 128 bits."""
    return unless_longer(call, widened(call, lambda wide: dealt_out(wide, in_memory_order(wide.side("global")))))


gmem_smem.emit(emit_copies)


# Registers to or from any other memory: each thread copies what the register layout says is its own.


@condition("exactly one side is in registers, the other in shared or global memory")
def one_side_in_registers(call: TileCall) -> str | None:
    if call.spaces.count("local") == 1 and "tmem" not in call.spaces:
        return None
    return f"copies from {call['src'].space} to {call['dst'].space} memory; exactly one side must be in registers"


@variant(
    "copy",
    priority=10,
    keywords=("vec_len",),
    when=[one_side_in_registers, bits_only, constant_extents, plain_registers, one_place_each],
)
def reg(call: TileCall) -> Distribution:
    """Each thread copies the elements it holds, in accesses of up to 128 bits."""
    plan = widened(call, lambda wide: held_by(wide, wide.side("local")))
    if better := by_fewer_accesses(call, plan):
        raise better
    if plan.limit and call.stmt.dispatch is None and goes_longer(call, call.side("local"), plan.vector):
        raise Decline(f"{plan.vector} elements at a time; in the order of the memory, not of the registers, more")
    return plan


reg.emit(emit_copies)


# Registers from or to shared memory by ldmatrix and stmatrix: a warp moves 8x8 matrices of 16-bit elements.
#
# Lane 4g+t holds in each half h of its register row g, column 2t+h of a matrix, or with ``trans`` row 2t+h, column g.
# The eight elements of a row lie in 16 aligned bytes of shared memory, whose address one lane supplies. How registers
# and rows are matched is in `tilewright.tile.matrices`.
#
# Other elements are parts of such matrices: a matrix copy moves bits. Without ``trans`` a register is four neighbouring
# bytes of a row, whatever they mean: one element of 32 bits, a quarter of the row; four of 8 bits; eight of 4. With
# ``trans`` units of 16 bits go to different lanes, so no element may be larger. Bytes have forms of their own, on some
# architectures, which distribute single bytes of 16 (ldmatrix) or 8 (stmatrix) rows.


@variant(
    "copy",
    priority=10,
    when=[between("local", "shared"), bits_only, whole_warps, element_bits(16), constant_extents, one_place_each],
)
def ldstmatrix(call: TileCall) -> MatrixPlan:
    """ldmatrix or stmatrix: one instruction moves up to four 8x8 matrices of 16-bit elements."""
    op = "ptx.ldmatrix" if call["dst"].space == "local" else "ptx.stmatrix"
    return plan_matrices(call, [MatrixKind(op, "m8n8", trans, ".b16") for trans in (False, True)])


ldstmatrix.emit(emit_matrices)


WORDS = {op: MatrixKind(op, "m8n8", trans=False, type=".b16") for op in ("ptx.ldmatrix", "ptx.stmatrix")}
BYTES = {
    "ptx.ldmatrix": MatrixKind("ptx.ldmatrix", "m16n16", trans=True, type=".b8"),
    "ptx.stmatrix": MatrixKind("ptx.stmatrix", "m16n8", trans=True, type=".b8"),
}


@condition("plain accesses would move less than 128 bits at a time")
def narrow_accesses(call: TileCall) -> str | None:
    try:
        nbytes = accesses(call, call.side("local"))[2] * call.dtype.bits // 8
    except Decline:
        return None  # no matrix at all
    return None if nbytes < 16 else f"each thread moves {nbytes} bytes at a time without it"


@variant(
    "copy",
    priority=10,
    when=[
        between("local", "shared"),
        bits_only,
        whole_warps,
        element_bits(4, 8, 32),
        constant_extents,
        one_place_each,
        narrow_accesses,
    ],
)
def ldstmatrix_bits(call: TileCall) -> MatrixPlan:
    """ldmatrix or stmatrix for other elements: words and bytes as parts of 16-bit matrices, bytes also transposed."""
    op = "ptx.ldmatrix" if call["dst"].space == "local" else "ptx.stmatrix"
    return plan_matrices(call, [WORDS[op], BYTES[op]] if call.dtype.bits == 8 else [WORDS[op]])


ldstmatrix_bits.emit(emit_matrices)


# Registers to registers of other threads, by a variant of `permute_layout`.


@variant("copy", priority=1, when=[only_in("local"), bits_only, constant_extents])
def permuted(call: TileCall) -> CallSteps:
    """The threads hand elements to those that hold them in the destination."""
    plan = in_steps(call, lambda call, _: [inner_call(call, "permute_layout", dict(call.sides))])
    return replace(plan, words=f"permute_layout/{plan.chosen[0].variant.name}: {plan.summary()}")


permuted.emit(emit_steps)


# Copies by one of CuTe's atoms, requested by its name: ``dispatch="SM75_U16x8_LDSM_T"`` is that instruction and no
# other.
#
# The layouts of both sides still say what is copied. The atom fits if its matrices can be found in them; several
# instructions may be needed, each with as many matrices as the name says.


def forced_atom(call: TileCall) -> CopyAtom:
    """The atom that the call names."""
    return isa.atom(str(call.stmt.dispatch))


def kind_of(atom: CopyAtom) -> MatrixKind:
    """The kind of matrices that an atom moves."""
    shape, trans, type_ = (atom.mods[name] for name in ("shape", "trans", "type"))
    return MatrixKind(atom.instruction.name, str(shape), bool(trans), str(type_), atom.recombines)


def plan_atom(call: TileCall) -> Plan:
    """The copy by the named atom; or of a call that was changed to try it, by the variant that it names then."""
    if call.stmt.dispatch not in ATOMS:
        return choose(call).plan
    atom = forced_atom(call)
    try:
        _check_direction(call, atom)
        _check_elements(call, kind_of(atom))
        check_target(call, kind_of(atom).name, kind_of(atom).form)
        return plan_matrices(call, [kind_of(atom)], int(str(atom.mods["num"])))
    except Decline as declined:
        changes = chain(declined.changes, _other_atoms(call, atom), _without_atoms(call))
        raise Decline(declined.reason, allowed=declined.allowed or fitting([kind_of(atom)]), changes=changes) from None


def _check_direction(call: TileCall, atom: CopyAtom) -> None:
    sides = {"ptx.ldmatrix": ("shared", "local"), "ptx.stmatrix": ("local", "shared")}
    if atom.instruction.name not in sides:
        raise Decline(f"{atom.name} is no copy from or to memory", allowed=f"T.{atom.instruction.name}(...)")
    source, destination = sides[atom.instruction.name]
    if call.spaces != (destination, source):
        spaces = f"{call['src'].name} is in {call['src'].space} memory and {call['dst'].name} in {call['dst'].space}"
        raise Decline(spaces, allowed=f"{atom.name} copies from {source} to {destination} memory")


def _check_elements(call: TileCall, kind: MatrixKind) -> None:
    """No element is split between two threads or wider than a register; narrow ones have the width that is unpacked."""
    widest = kind.unit_bits if kind.trans else 32
    if kind.unpacks and call.dtype.value_bits != kind.packed_bits:
        wanted = f"elements of {kind.packed_bits} bits, which get a byte of a register each"
        raise Decline(f"{call.dtype} has {call.dtype.value_bits} bits", allowed=wanted)
    if call.dtype.bits > widest:
        why = f".trans deals out units of {widest} bits, and a wider element would be split between two threads"
        allowed = f"at most {widest} bits: {why if kind.trans else 'those of a register'}"
        raise Decline(f"{call.dtype} has {call.dtype.bits} bits", allowed=allowed)


def _other_atoms(call: TileCall, atom: CopyAtom) -> Iterator[Change]:
    """The same call with other atoms, first those that move as much."""
    others = [candidate for candidate in ATOMS.values() if candidate is not atom]
    for other in sorted(others, key=lambda candidate: abs(candidate.registers - atom.registers)):
        forced = replace(call.stmt, dispatch=other.name)
        yield Change(f'dispatch="{other.name}"', replace(call, stmt=forced))


def _without_atoms(call: TileCall) -> Iterator[Change]:
    """The same call by the variant that it would have without a name, unless that is element by element."""
    try:
        variant = choose(replace(call, stmt=replace(call.stmt, dispatch=None))).variant.name
    except DispatchError:
        return
    if variant != "fallback":
        yield Change(f'dispatch="{variant}"', replace(call, stmt=replace(call.stmt, dispatch=variant)))


CONDITIONS = (whole_warps, bits_only, constant_extents, one_place_each)


@by_name("copy")
def copy_by_atom(name: str) -> Variant | None:
    """A copy atom under the name that CuTe gives it, ``SM75_U32x4_LDSM_N``."""
    if not re.match(r"SM\d+_", name):
        return None
    variant = Variant(name, 0, CONDITIONS, plan_atom, str(isa.atom(name)))
    variant.emit(emit_matrices)
    return variant


# Tiles that are spread over several GPUs: copied in the memory of the GPU that has them, or to all that do.


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
