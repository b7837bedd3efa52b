"""A kernel around one form of the instruction table: every operand comes from memory, every result goes back there.

Three CTAs of one warp, each with shared memory of its own and its own part of global memory, so that no two warps meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa import scalar_oracles, tma_oracles, wgmma_oracles
from tests.isa.assembling import every_form, result_dtype
from tests.isa.inputs import WARPS, active_lanes, operand
from tests.isa.machines import BYTES
from tests.isa.oracles import SCALAR_ORACLES
from tests.isa.umma_oracles import CONSTANTS
from tests.sim.build import Lowered, at, cta, get, lane, tid
from tilewright.dtypes import VOID, dtype
from tilewright.ir import Expr, as_expr
from tilewright.isa import arch, call
from tilewright.isa.forms import Operand
from tilewright.isa.table import Bound

Array = NDArray[Any]
ARCH = arch("sm_90a")
REGISTERS = {"b8": "uint8", "b16": "uint16", "b32": "uint32", "b64": "uint64", "f32": "float32", "f64": "float64"}
ADDRESS_ROWS = ("cuda.cvta_generic_to_shared", "ptx.cvta.to.shared.u64", "cuda.cast_smem_ptr_to_uint")
# Text, the end of the kernel, and time: these have no bits to compare.
WITHOUT_VALUES = {"printf", "cuda.printf", "cuda.vprintf", "cuda.trap", "cuda.device_assert", "cuda.assert_fail"}
WITHOUT_VALUES |= {"cuda.clock", "cuda.func_call", "cuda.out_of_stack"}
WITHOUT_VALUES |= {"ptx.nanosleep", *tma_oracles.CACHES, "ptx.setmaxnreg", "ptx.griddepcontrol.wait"}
WITHOUT_VALUES |= {"ptx.griddepcontrol.launch_dependents"}
WITHOUT_VALUES |= {"multimem.ld_reduce", "multimem.st", "multimem.red"}  # which need several GPUs and a switch
MAPPING = ("ptx.mapa", "ptx.map_shared_rank")
DESCRIBING = ("ptx.wgmma.encode_matrix_descriptor", "ptx.tcgen05.encode_matrix_descriptor")
M_BARRIERS = (
    *("init", "inval", "arrive", "arrive.expect_tx", "expect_tx", "complete_tx", "test_wait", "test_wait.parity"),
    *("try_wait", "try_wait.state", "try_wait_once", "try_wait_once.state", "arrive_drop", "arrive_drop.expect_tx"),
    *("arrive.no_complete", "arrive_drop.no_complete", "pending_count"),
)
# Random bytes are no input for these: test_rows, test_signals and test_cp_async have programs for them.
IN_PROGRAMS = {
    "ptx.barrier.sync",
    *(f"ptx.cp_async{name}" for name in ("", ".commit_group", ".wait_group", ".wait_all", ".mbarrier.arrive")),
    *("cuda.warp_sync", "cuda.warpgroup_sync", "cuda.cta_sync", "cuda.cluster_sync", "ptx.bar.sync", "ptx.bar.arrive"),
    *("ptx.bar.warp.sync", "ptx.barrier.arrive"),
    *("ptx.barrier.cluster.arrive", "ptx.barrier.cluster.wait"),
    *(f"ptx.mbarrier.{name}" for name in M_BARRIERS),
    *MAPPING,
    *DESCRIBING,
    *tma_oracles.COVERED,  # test_tma has programs for them
    *("ptx.cp_async.bulk.commit_group", "ptx.cp_async.bulk.wait_group"),
    *wgmma_oracles.COVERED,
    *(f"ptx.wgmma.{name}" for name in ("fence", "commit_group", "wait_group")),
    *(({*SCALAR_ORACLES} | scalar_oracles.COVERED) - {"ptx.ld", "ptx.st", "ptx.st.vec"}),  # test_scalar_rows
    *("ptx.tex", "ptx.tex.level"),  # test_textures; layers of textures are not compared
    "ptx.fence.proxy_tensormap.acquire",  # of 128 bytes in global memory
}
ME = cta * 32 + lane


def admitted() -> list[Bound]:
    """Every form that the GPU has, with every combination of modifiers."""
    return [bound for bound in every_form() if bound.form.arch.admits(ARCH)]


def forms() -> list[Bound]:
    """Those that one warp can execute on any bytes, and that leave a value behind."""
    return [bound for bound in admitted() if bound.instruction.name not in WITHOUT_VALUES | IN_PROGRAMS]


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *(f"{value}" for value in bound.mods.values())])


def spaces(bound: Bound) -> list[str]:
    """The memories that a form's generic addresses may lead into."""
    touched = {access.space for access in bound.form.accesses}
    return ["global", "shared"] if "generic" in touched else ["global"] if "global" in touched else ["shared"]


@dataclass
class RowKernel:
    """The kernel and its inputs. space: where generic addresses lead."""

    bound: Bound
    space: str
    rng: np.random.Generator
    arrays: dict[str, Array] = field(default_factory=dict)
    kernel: Lowered = field(init=False)

    def __post_init__(self) -> None:
        self.kernel = Lowered("row", threads=32, grid=WARPS)
        self.active = self._active()
        self._memory()
        arguments = {op.name: self._argument(op) for op in self.bound.given}
        outs = self._outs()
        guard = self.array("active", self.active.astype(np.uint8))
        with self.kernel.when(get(guard, ME) != 0):
            self._call(arguments, outs)
        self._spill()

    def array(self, name: str, values: Array, kind: str = "") -> Any:
        self.arrays[name] = np.ascontiguousarray(values).reshape(-1)
        kind = kind or str(values.dtype)
        return self.kernel.array(name, kind, self.arrays[name].size // dtype(kind).lanes)

    def _active(self) -> NDArray[np.bool_]:
        shuffles = "shfl" in self.bound.instruction.name  # what comes from a lane that takes no part is undefined
        return active_lanes(self.bound, self.rng) | shuffles

    def _memory(self) -> None:
        """Random bytes in global memory, copied to shared memory; odd ones make floats ordinary numbers."""
        k = self.kernel
        memory = self.rng.integers(0, 255, (WARPS, BYTES), dtype=np.uint8)
        memory[:, 1::2] = 60
        self.mem = self.array("mem", memory)
        self.before = self.array("before", memory)
        self.after = self.array("after", np.zeros_like(memory))
        self.tile = k.shared("tile", "uint8", BYTES)
        with k.loop("i", 0, BYTES // 512) as i:
            part = (i * 32 + lane) * 16
            k.do("cuda.copy_bytes", at(self.tile, part), at(self.before, cta * BYTES + part), 16)
        k.do("cuda.cta_sync")

    def _spill(self) -> None:
        k = self.kernel
        k.do("cuda.cta_sync")
        with k.loop("j", 0, BYTES // 512) as j:
            part = (j * 32 + lane) * 16
            k.do("cuda.copy_bytes", at(self.after, cta * BYTES + part), at(self.tile, part), 16)

    # Operands

    def _argument(self, which: Operand) -> Any:
        k, name = self.kernel, which.name
        if name == "M" and self.bound.mods.get("n_cta_groups") == 2:
            return 2 * CONSTANTS["M"]  # the rows of both CTAs: every kind has as many
        if name in CONSTANTS:
            return CONSTANTS[name]
        if which.kind in ("shared", "global", "generic"):
            return self._address(which)
        count = self.bound.registers_of(name) if which.many else 1
        if which.written:
            registers = k.local(f"{name}_regs", REGISTERS[which.kind], count)
            return [get(registers, i) for i in range(count)] if which.many else get(registers, 0)
        values = operand(self.bound, which, self.active, self.rng)
        if which.kind == "pred":
            return get(self.array(name, np.broadcast_to(values, (WARPS, 32)).astype(np.uint8)), ME) != 0
        if which.kind == "typed":
            kind = dtype(str(self.bound.mods["dtype"]))
            return get(self.array(name, np.broadcast_to(values, (WARPS, 32)).astype(kind.numpy), str(kind)), ME)
        shaped = np.broadcast_to(values.reshape(WARPS, count, -1), (WARPS, count, 32))
        kind = dtype(REGISTERS[which.kind])
        source = self.array(name, shaped.swapaxes(1, 2).astype(kind.numpy), str(kind))
        registers = k.local(f"{name}_regs", str(kind), count)
        for i in range(count):
            k.store(registers, i, get(source, ME * count + i))
        return [get(registers, i) for i in range(count)] if which.many else get(registers, 0)

    def _address(self, which: Operand) -> Expr:
        """Legal addresses; different ones wherever lanes write."""
        if which.kind == "shared":
            offsets = operand(self.bound, which, self.active, self.rng)
        else:
            places = self.rng.permuted(np.tile(np.arange(BYTES // 16), (WARPS, 1)), axis=1)[:, :32]
            offsets = places * 16
        index = get(self.array(f"{which.name}_at", offsets.astype(np.int32)), ME)
        if which.kind == "shared" and "dtype" not in self.bound.mods:
            return at(self.tile, index)
        either = (self.space == "shared") != (which.name == "src") or self.bound.instruction.name in ADDRESS_ROWS
        in_shared = which.kind == "shared" or (which.kind == "generic" and either)
        place = at(self.tile, index) if in_shared else at(self.mem, cta * BYTES + index)
        return self.kernel.bind(f"{which.name}_pointer", place, "handle")  # of bytes no longer: of any dtype

    # The call and its results

    def _outs(self) -> dict[str, Any]:
        bound, found = self.bound, {}
        for which in bound.instruction.operands:
            if which.written:
                count = bound.registers_of(which.name) if which.many else 1
                kind = REGISTERS[which.kind]
                found[which.name] = self.array(f"out_{which.name}", np.zeros((WARPS, 32, count), kind))
        kind = result_dtype(bound)
        if kind != VOID:
            found[""] = self.array("out", np.zeros((WARPS, 32, kind.lanes), kind.numpy), str(kind))
        return found

    def _call(self, arguments: dict[str, Any], outs: dict[str, Any]) -> None:
        k, bound = self.kernel, self.bound
        typed = any(op.kind == "typed" for op in bound.instruction.operands)
        modifiers = {name: value for name, value in bound.mods.items() if name != "dtype" or not typed}
        made = call(bound.instruction.name, **arguments, **modifiers)
        if "" not in outs:
            k.do(bound.instruction.name, **arguments, **modifiers)
        elif bound.instruction.name in ADDRESS_ROWS:  # where shared memory begins is the hardware's own affair
            base = call(bound.instruction.name, at(self.tile, 0))
            k.store(outs[""], ME, made - base)
        else:
            k.store(outs[""], ME, k.bind("result", made, str(made.dtype)))
        for name, out in outs.items():
            if name:
                registers = arguments[name] if isinstance(arguments[name], list) else [arguments[name]]
                for i, register in enumerate(registers):
                    k.store(out, ME * len(registers) + i, register)


COMMUTE = ("add", "sub", "min", "max", "and", "or", "xor")


def collisions() -> Iterator[tuple[Bound, str]]:
    """Atomics whose outcome does not depend on the order: those of integers that add, compare or combine bits."""
    for bound in forms():
        name = bound.instruction.name
        operation = name.removeprefix("cuda.atomic_").removeprefix("ptx.atom.").removeprefix("ptx.red.")
        anywhere = bound.mods.get("space") is None and bound.mods.get("sem") != "acq_rel"
        if operation in COMMUTE and anywhere and dtype(str(bound.mods["dtype"])).is_integer:
            for space in ("global", "shared"):
                yield bound, space


def collision_kernel(bound: Bound, space: str, rng: np.random.Generator) -> tuple[Lowered, dict[str, Array]]:
    """128 threads of two CTAs on 16 places; shared ones are copied out at the end."""
    kind = dtype(str(bound.mods["dtype"]))
    k = Lowered("collisions", threads=128, grid=2)
    me = cta * 128 + tid
    where, value = k.array("where", "int32", 256), k.array("value", str(kind), 256)
    start, total = k.array("start", str(kind), 16), k.array("total", str(kind), 32)
    place = total
    if space == "shared":
        place = k.shared("place", str(kind), 16)
        with k.when(tid < 16):
            k.store(place, tid, get(start, tid))
        k.do("cuda.cta_sync")
    base = cta * 16 if space == "global" else as_expr(0)
    modifiers = {name: of for name, of in bound.mods.items() if name != "dtype"}
    k.do(bound.instruction.name, at(place, base + get(where, me)), get(value, me), **modifiers)
    if space == "shared":
        k.do("cuda.cta_sync")
        with k.when(tid < 16):
            k.store(total, cta * 16 + tid, get(place, tid))
    arrays: dict[str, Array] = {"where": rng.integers(0, 16, 256, dtype=np.int32)}
    for name, count in (("value", 256), ("start", 16), ("total", 32)):
        arrays[name] = rng.integers(0, 256, count * kind.bits // 8, dtype=np.uint8).view(kind.numpy)
    return k, arrays
