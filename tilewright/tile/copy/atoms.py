"""Copies by one of CuTe's atoms, requested by its name: ``dispatch="SM75_U16x8_LDSM_T"`` is that instruction and no
other.

The layouts of both sides still say what is copied. The atom fits if its matrices can be found in them; several
instructions may be needed, each with as many matrices as the name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from tilewright import isa
from tilewright.errors import DispatchError
from tilewright.isa import ATOMS, CopyAtom
from tilewright.tile.call import TileCall
from tilewright.tile.conditions import bits_only, check_target, constant_extents, one_place_each, whole_warps
from tilewright.tile.dispatch import Change, Decline, Plan, Variant, by_name, choose
from tilewright.tile.matrices import MatrixKind, emit_matrices, fitting, plan_matrices


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
