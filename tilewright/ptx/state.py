"""The state of the lowering of a PTX entry: the launch, the author's lines, blocks, buffers, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.dtypes import BOOL, HANDLE, DType, dtype
from tilewright.errors import Span, TargetError
from tilewright.ir import Const, Expr, Launch, as_expr, binary, cast, const, const_value, special
from tilewright.isa.arch import Requirement, nearest
from tilewright.ptx.names import VECTORS, Scope, identifier, nbytes, start_of
from tilewright.ptx.tree import Body, Function, Instruction, Loc, Module, Name, Operand, Variable

if TYPE_CHECKING:
    from tilewright.ptx.flow import Frame, Stack


UINT8, UINT32, UINT64 = dtype("uint8"), dtype("uint32"), dtype("uint64")

# Special registers, as arithmetic on those of the lowered stage. Source: PTX ISA, "Special Registers".

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


# From ``.loc`` to the author's source: each instruction's line, and for inlined code the lines it was called from.


_WHOLE_LINE = 1 << 16
STAND_INS = "tilewright/stand_ins/"
"""How the names of headers begin, in debug data, that stand for others: their lines are nobody's."""


class Lines:
    """Follows the `.loc` directives of a body, from one instruction to the next."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.files = dict(module.files)
        self.current: Span | None = None
        self.caller: Span | None = None  # of the function whose body takes the place of a call
        self.own: Span | None = None  # the last line of this body that is the author's
        self._spans: dict[tuple[int, int, int], Span] = {}  # the last of each place: calls come before what they inline

    def move(self, loc: Loc) -> None:
        """The following instructions come from this line. Line 0 is none: the last one stays."""
        if loc.line and loc.file in self.files:
            outer = self._spans.get(loc.outer) if loc.outer is not None else self.caller
            if outer is self.caller and _is_foreign(self.files[loc.file]):  # -G says of inlined code not who has called
                outer = self.own or self.caller
            if outer is None and loc.outer is not None and loc.outer[1]:
                outer = self._span(*loc.outer)
            self.current = self._spans[loc.file, loc.line, loc.column] = self._span(
                loc.file, loc.line, loc.column, outer
            )
            if not _is_foreign(self.files[loc.file]):
                self.own = self.current

    @contextmanager
    def inlined(self) -> Iterator[None]:
        """What follows is the body of a function that is called here."""
        here, own_line, caller = self.current, self.own, self.caller
        self.caller, self.own = here, None
        yield
        self.current, self.own, self.caller = here, own_line, caller

    def _span(self, file: int, line: int, column: int, outer: Span | None = None) -> Span:
        path = self.files[file]
        if outer is not None and _is_foreign(path):  # the author's own line counts
            return outer
        return Span(path, line, max(0, column - 1), _WHOLE_LINE, outer)

    def of(self, instruction: Instruction) -> Span:
        """The author's line of an instruction; its line of PTX where nothing says more."""
        if self.current is not None:
            return self.current
        end = instruction.column + len(instruction.mnemonic)
        return self.module.span(instruction.line, instruction.column, end)


def _is_foreign(path: str) -> bool:
    """Is it a header of NVIDIA's libraries, one that stands for another, or Triton's own library?"""
    inside = (
        "/nvidia/",
        "/cuda/include/",
        "/targets/",
        "/triton/language/",
        "/cutlass/",
        "/cute/",
        "/cub/",
        "/thrust/",
        f"/{STAND_INS}",
    )
    return path.startswith("cuda_") or any(folder in path for folder in inside)


# The state itself, over which the parts of the lowering are functions.


WORKSPACE = Variable("global", "b8", "grid barrier", (64,))
CLOCK = ir.Var("clock__n", UINT64)
FUNCTION_ADDRESSES = 0x7E0000000000  # an address where no memory is


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction and its scope. returns: the block after the call, in an inlined function."""

    ins: Instruction
    scope: Scope
    returns: int | None
    guard: ir.Expr | None
    at: Span

    def spelled(self, mnemonic: str, *operands: Operand) -> Step:
        """Another instruction in the place of this one."""
        return replace(self, ins=replace(self.ins, mnemonic=mnemonic, operands=operands))

    def name(self, var: ir.Var) -> Name:
        """The operand for a register that no text names."""
        self.scope.symbols[var.name] = var
        return Name(var.name)


LowerBody: TypeAlias = "Callable[[Lowering, Body, Scope, int | None], None]"
"""Lowers the statements of a scope; in an inlined function the block after the call comes last."""


class Lowering(ir.Blocks):
    """The state: blocks, and what they name. arrays: the buffers that parameters point to, by name."""

    def __init__(
        self, module: Module, entry: Function, arrays: Mapping[str, ir.Buffer], machine: Machine, lower_body: LowerBody
    ) -> None:
        super().__init__()
        self.lower_body = lower_body
        self.module, self.entry, self.arrays, self.machine = module, entry, arrays, machine
        self.lines = Lines(module)
        self.buffers: dict[str, ir.Buffer] = {}  # in global memory, by name
        self.params: list[ir.Var] = []
        self.allocated: list[ir.AllocBuffer] = []
        self.taken = {array.name for array in arrays.values()}  # the names of buffers
        self.globals: dict[str, Variable] = {}  # of the module, as far as they are named
        self.in_bytes: dict[str, Variable] = {}  # parameters that lie in memory
        self.parameter_buffers: dict[str, ir.Buffer] = {}  # theirs
        self.said: Mapping[str, str] = {}  # what their author calls parameters
        self.outside = Scope()  # the module's names
        self.shared_end = 0
        self.dynamic: list[ir.Buffer] = []  # the names of dynamic shared memory, each a buffer of its own
        self.functions: dict[str, int] = {}
        self.room: ir.Buffer | None = None  # what `alloca` takes from
        self.frame: Frame | None = None  # of the recursive function that is being lowered
        self.scopes = self.calls = self.labels = 0
        self.in_flight: dict[ir.Expr, ir.Load] = {}  # registers that are places of storage, and such places
        self.beginnings: dict[ir.Var, ir.Expr] = {}  # what registers that no text names hold at first
        self.carries: dict[str, ir.Var] = {}  # the carry flag of each function's instance

    @cached_property
    def has_local(self) -> bool:
        """Does any function of the module have variables in local memory?"""
        inside = (statement for function in self.module.functions for statement in function.statements)
        local = (getattr(statement, "space", "") == "local" or getattr(statement, "opcode", "") == "alloca"
                 for statement in (*self.module.variables, *inside))  # fmt: skip
        return bool(self.module.cycles) or any(local)

    @cached_property
    def room_used(self) -> ir.Var:
        """The bytes that `alloca` has given away."""
        used = ir.Var(self.fresh("used"), UINT32)
        self.beginnings[used] = const(0, UINT32)
        return used

    @cached_property
    def stack(self) -> Stack:
        """The stack of each thread for calls of these functions."""
        from tilewright.ptx.flow import Stack  # which is made of lowerings

        return Stack(self)

    @cached_property
    def target_number(self) -> int:
        """Of the architecture that the text is for."""
        return int("".join(filter(str.isdigit, "".join(self.module.target[:1]))) or "0")

    def check_target(self, mnemonic: str, needs: Requirement) -> None:
        """Raises TargetError where the architecture of the text lacks an instruction."""
        target = self.module.target[0] if self.module.target else ""
        if not needs.admits(nearest(target)):
            raise TargetError(f"{mnemonic} is not there on {target}", given=f".target {target}", allowed=str(needs))

    # Names and statements

    def fresh(self, name: str) -> str:
        """A name that nothing has."""
        self.labels += 1
        return f"{name}_{self.labels}"

    def add(self, statements: Sequence[ir.Stmt]) -> None:
        """Statements of the current block."""
        self.statements += statements

    # Memory

    def allocate(self, allocation: ir.AllocBuffer) -> None:
        self.allocated.append(allocation)
        self.taken.add(allocation.buffer.name)

    def places(self, name: str, kind: DType, count: int, at: Span) -> list[ir.Load]:
        """Storage of each thread for so many values."""
        buffer = ir.Buffer(self.fresh(name), kind, (count,), "local", None)
        self.allocate(ir.AllocBuffer(buffer, at=at))
        return [ir.Load(buffer, (as_expr(index),)) for index in range(count)]

    def global_bytes(self, name: str, size: int, align: int, *, constant: bool = False) -> ir.Buffer:
        """A buffer of bytes in global memory, which the caller of the kernel fills. constant: no thread writes it."""
        data = ir.Var(identifier(name, "_ptr"), HANDLE)
        return self.add_buffer(
            ir.Buffer(name, UINT8, (size,), "global", None, data=data, align=align, constant=constant)
        )

    def add_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        if buffer.name not in self.buffers:
            self.buffers[buffer.name] = buffer
            self.taken.add(buffer.name)
            assert isinstance(buffer.data, ir.Var)
            self.params.append(buffer.data)
        return self.buffers[buffer.name]

    def function_address(self, function: Function) -> int:
        """The number that stands for a function in pointers."""
        return FUNCTION_ADDRESSES + 16 * self.functions.setdefault(function.name, len(self.functions) + 1)

    def workspace(self) -> ir.Expr:
        """The address of the counter of grid-wide barriers, which the driver provides."""
        self.globals[WORKSPACE.name] = WORKSPACE
        return start_of(self.global_bytes(WORKSPACE.name, nbytes(WORKSPACE), 256))

    def carry(self, scope: Scope) -> ir.Var:
        """The carry flag of the function that a scope belongs to."""
        *_, function = scope.around()
        return self.carries.setdefault(function.suffix, ir.Var(f"carry{function.suffix}__n", BOOL))

    def now(self) -> ir.Var:
        """The thread's clock: it goes on with each read, so that a loop which waits for it ends."""
        self.beginnings.setdefault(CLOCK, const(0, UINT64))
        return CLOCK
