"""tensormap: threads change fields of a tensor map, and hand it on; plain accesses to the words that have the fields.

Source: PTX ISA, "Data Movement and Conversion Instructions: tensormap.replace", "Parallel Synchronization and
Communication Instructions: tensormap.cp_fenceproxy"; where the fields are: `tilewright.ir.tensor_map`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import isa
from tilewright.errors import InstructionError, choices
from tilewright.ir import Assign, Evaluate, Expr, If, Stmt, Var, binary, cast, const
from tilewright.isa.arch import only, since
from tilewright.isa.tensor_map_fields import MAP_FIELDS
from tilewright.ptx.special import special_register
from tilewright.ptx.state import UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Address, Immediate, Operand
from tilewright.ptx.values import element, number_of, pointer, read, stored

__all__ = ["change_map"]

MAP_BYTES, WORD_BYTES = 128, 4
REPLACING = ("sm_90a", *(f"sm_{number}{suffix}" for number in (100, 103, 110, 120, 121) for suffix in "af"))


def change_map(low: Lowering, step: Step) -> Sequence[Stmt]:
    """``tensormap.replace`` or ``tensormap.cp_fenceproxy``."""
    return _replaced(low, step) if step.ins.modifiers[0] == "replace" else _handed_on(low, step)


def _replaced(low: Lowering, step: Step) -> Sequence[Stmt]:
    words = step.ins.modifiers
    low.check_target(step.ins.mnemonic, only(*REPLACING))
    field = MAP_FIELDS.get(words[2]) if words[1:2] == ("tile",) else None
    address, *rest = step.ins.operands
    if field is None or not isinstance(address, Address) or len(rest) != 1 + bool(field.ordinals):
        name = words[2] if len(words) > 2 else ""
        raise InstructionError(f"{step.ins.mnemonic} is not supported", given=name, allowed=choices(name, MAP_FIELDS))
    index = rest[0].value if field.ordinals and isinstance(rest[0], Immediate) else 0
    space, kind = step.ins.space, UINT64 if words[-1] == "b64" else UINT32
    value = Var(low.fresh("field"), UINT64)
    made: list[Stmt] = [
        Assign(value, binary("-", cast(read(low, rest[-1], step, kind), UINT64), const(field.less, UINT64)), at=step.at)
    ]
    start = _start(low, address, step, space, made)
    for place in field.places(index):
        part = cast(binary(">>", value, const(place.after, UINT64)), UINT32)
        mask = (1 << place.bits) - 1
        at = start + const(WORD_BYTES * place.word, start.dtype)
        if place.bits < 32:
            kept = element(low, at, UINT32, space) & const(~(mask << place.shift) & 0xFFFFFFFF, UINT32)
            part = kept | binary("<<", part & const(mask, UINT32), const(place.shift, UINT32))
        made.append(stored(low, at, [part], UINT32, space, step.at))
    return made


def _start(low: Lowering, address: Operand, step: Step, space: str, made: list[Stmt]) -> Var:
    """The address in a register of its own."""
    assert isinstance(address, Address)
    number: Expr = number_of(pointer(low, address, step, space), space)
    held = Var(low.fresh("map"), number.dtype)
    made.append(Assign(held, number, at=step.at))
    return held


def _handed_on(low: Lowering, step: Step) -> Sequence[Stmt]:
    """The first lane copies the map from shared to global memory; then all of the warp release it."""
    low.check_target(step.ins.mnemonic, since("sm_90"))
    target, source, size = step.ins.operands
    scope = next((word for word in step.ins.modifiers if word in ("cta", "cluster", "gpu", "sys")), "")
    if not isinstance(size, Immediate) or size.value != MAP_BYTES or not scope:
        raise InstructionError(f"{step.ins.mnemonic} has other operands", allowed=f"[dst], [src], {MAP_BYTES}")
    made: list[Stmt] = []
    to = _start(low, target, step, "global", made)
    start = _start(low, source, step, "shared", made)
    lane = special_register("%laneid", low.machine)
    assert lane is not None
    copies = [
        stored(low, to + const(at, UINT64), [element(low, start + const(at, UINT32), UINT64, "shared")], UINT64,
               "global", step.at)
        for at in range(0, MAP_BYTES, 8)
    ]  # fmt: skip
    released = isa.call("ptx.fence.proxy_tensormap.release", scope)
    return [*made, If(binary("==", lane, const(0, UINT32)), tuple(copies), at=step.at), Evaluate(released, at=step.at)]
