"""PTX's special registers, as arithmetic on those of the lowered stage. Source: PTX ISA, "Special Registers"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.dtypes import dtype
from tilewright.ir import Const, Expr, Launch, as_expr, binary, cast, const, const_value, special

UINT32, UINT64 = dtype("uint32"), dtype("uint64")
VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
"""Special registers of four parts, the last of which is 0."""
MULTIPROCESSORS = 132  # multiprocessors that a launch is spread over; nothing depends on how many there are


@dataclass(frozen=True, slots=True)
class Machine:
    """The launch that a kernel is lowered for. block: threads along x, y, z. dynamic_bytes: of shared memory."""

    launch: Launch
    block: tuple[int, int, int]
    dynamic_bytes: int = 0

    @property
    def grid(self) -> tuple[int, int, int]:
        x, y, z = (int(const_value(extent) or 1) for extent in self.launch.grid)
        return x, y, z


def _number(value: int, kind: object = UINT32) -> Expr:
    return const(value, kind)  # type: ignore[arg-type]  # a dtype


def _register(name: str) -> Expr:
    return cast(special(name), UINT32)


def _tid(machine: Machine, axis: int) -> Expr:
    x, y, z = machine.block
    tid = _register("tid")
    if (x, y, z)[axis] == 1:
        return _number(0)
    if axis == 0:
        return tid if y * z == 1 else tid % x
    if axis == 1:
        return tid // x if z == 1 else tid // x % y
    return tid // (x * y)


def _mask(compare: str) -> Callable[[Machine], Expr]:
    """The lanes of a warp before, at or after the calling one, as bits."""

    def mask(_: Machine) -> Expr:
        bit = binary("<<", _number(1), _register("laneid"))
        below = bit - 1
        return {"eq": bit, "lt": below, "le": bit | below, "gt": ~(bit | below), "ge": ~below}[compare]

    return mask


_COUNTED: Mapping[str, Callable[[Machine, int], Expr]] = {
    "tid": _tid,
    "ntid": lambda machine, axis: _number(machine.block[axis]),
    "nctaid": lambda machine, axis: _number(machine.grid[axis]),
    "cluster_nctaid": lambda machine, axis: _number(machine.launch.cluster[axis]),
    "nclusterid": lambda machine, axis: _number(machine.grid[axis] // machine.launch.cluster[axis]),
}


def _along(kind: str, axis: int) -> Callable[[Machine], Expr]:
    counted = _COUNTED.get(kind)
    return lambda machine: counted(machine, axis) if counted else _register(f"{kind}.{'xyz'[axis]}")


def _cluster_ctas(machine: Machine) -> int:
    x, y, z = machine.launch.cluster
    return x * y * z


_PLAIN: Mapping[str, Callable[[Machine], Expr]] = {
    "laneid": lambda _: _register("laneid"),
    "warpid": lambda _: _register("warpid"),
    "nwarpid": lambda machine: _number(machine.launch.warps),
    "smid": lambda machine: cta_number(machine) % MULTIPROCESSORS,
    "nsmid": lambda _: _number(MULTIPROCESSORS),
    "gridid": lambda _: _number(1, UINT64),
    "cluster_ctarank": lambda _: _register("cluster_ctarank"),
    "cluster_nctarank": lambda machine: _number(_cluster_ctas(machine)),
    "is_explicit_cluster": lambda machine: Const(_cluster_ctas(machine) > 1, dtype("bool")),
    "dynamic_smem_size": lambda machine: _number(machine.dynamic_bytes),
    "total_smem_size": lambda machine: _number(machine.launch.shared_bytes),
    "aggr_smem_size": lambda machine: _number(machine.launch.shared_bytes),
    **{f"envreg{number}": lambda _: _number(0) for number in range(32)},
    **{f"pm{number}": lambda _: _number(0) for number in range(8)},
    **{f"pm{number}_64": lambda _: _number(0, UINT64) for number in range(8)},
    "current_graph_exec": lambda _: _number(0, UINT64),
    **{f"lanemask_{compare}": _mask(compare) for compare in ("eq", "lt", "le", "gt", "ge")},
    **{f"{kind}.{'xyz'[axis]}": _along(kind, axis)
       for kind in VECTORS for axis in range(3)},
    **{f"{kind}.w": lambda _: _number(0) for kind in VECTORS},
}  # fmt: skip


def cta_number(machine: Machine) -> Expr:
    """The number of the CTA in the grid."""
    x, y, _ = machine.grid
    return _register("ctaid.x") + _register("ctaid.y") * x + _register("ctaid.z") * (x * y)


def special_register(name: str, machine: Machine) -> Expr | None:
    """The value of ``%tid.x`` or another special register, bits of 32 or 64; None for other names."""
    reader = _PLAIN.get(name.removeprefix("%")) if name.startswith("%") else None
    return as_expr(reader(machine)) if reader is not None else None
