"""The state of the lowering of a PTX entry: blocks, buffers, names; which functions of a module call which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.dtypes import BOOL, HANDLE, dtype
from tilewright.errors import Span, TargetError
from tilewright.ir import const
from tilewright.isa.arch import Requirement, nearest
from tilewright.ptx.lines import Lines
from tilewright.ptx.names import Scope, all_statements, identifier, nbytes, start_of
from tilewright.ptx.special import Machine
from tilewright.ptx.tree import Body, Function, Immediate, Instruction, Module, Name, Operand, Targets, Variable, Vector

if TYPE_CHECKING:
    from tilewright.ptx.flow import Frame, Stack


# Which functions of a module call which: a call through a pointer may reach each function whose address is taken.


def call_parts(ins: Instruction) -> tuple[Sequence[Operand], Name, Sequence[Operand]]:
    """Results, callee and arguments of ``call (results), function, (arguments)``."""
    rest = [_listed(operand) for operand in ins.operands]
    results = rest.pop(0) if isinstance(rest[0], Vector) else None
    callee = rest.pop(0)
    arguments = rest.pop(0) if rest and isinstance(rest[0], Vector) else None
    assert isinstance(callee, Name)
    return (
        (results.parts if isinstance(results, Vector) else ()),
        callee,
        (arguments.parts if isinstance(arguments, Vector) else ()),
    )


def _listed(operand: Operand) -> Operand:
    """The operand as a list: ``(41)`` is a list of one argument here, and a number elsewhere."""
    if isinstance(operand, Immediate) and operand.text.startswith("("):
        return Vector((replace(operand, text=operand.text[1:-1]),), "()")
    return operand


def addressed(module: Module) -> list[str]:
    """The functions whose address the module takes, in code or in variables."""
    used: set[str] = set()
    for variable in module.variables:
        used |= set(variable.initial.translate(str.maketrans("{},()", "     ")).split()) if variable.initial else set()
    for function in module.functions:
        for statement in all_statements(function.body or ()):
            if isinstance(statement, Instruction) and statement.opcode not in ("call", "bra"):
                used |= {operand.text for operand in statement.operands if isinstance(operand, Name)}
    return [name for name, function in module.function_of.items() if name in used and function.body is not None]


def cycles(module: Module) -> Mapping[str, frozenset[str]]:
    """For each function that may call itself, directly or through others: the functions of the same cycles of calls."""
    pointed = addressed(module)
    calls = {name: set(_called(module, function, pointed)) for name, function in module.function_of.items()}
    reached = {name: _reached(calls, name) for name in calls}
    return {
        name: frozenset(other for other in names if name in reached[other])
        for name, names in reached.items()
        if name in names
    }


def _called(module: Module, function: Function, pointed: Sequence[str]) -> Iterator[str]:
    listed = {label.name: label.names for label in all_statements(function.body or ()) if isinstance(label, Targets)}
    for statement in all_statements(function.body or ()):
        if isinstance(statement, Instruction) and statement.opcode == "call":
            results, callee, arguments = call_parts(statement)
            if callee.text in module.function_of:
                yield callee.text
                continue
            last = statement.operands[-1]
            names = listed.get(last.text, pointed) if isinstance(last, Name) else pointed
            counts = len(results), len(arguments)
            yield from (name for name in names if _counts(module.function_of[name]) == counts)


def _counts(function: Function) -> tuple[int, int]:
    return len(function.returns), len(function.params)


def _reached(calls: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = list(calls[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += calls[name]
    return reached


# The state of the lowering of a PTX entry: blocks, buffers, names. The parts of the lowering are functions over it.


UINT8, UINT32, UINT64 = dtype("uint8"), dtype("uint32"), dtype("uint64")
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
        self.globals: dict[str, Variable] = {}  # of the module, as far as they are named
        self.in_bytes: dict[str, Variable] = {}  # parameters that lie in memory
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
        inside = (statement for function in self.module.functions for statement in all_statements(function.body or ()))
        local = (getattr(statement, "space", "") == "local" or getattr(statement, "opcode", "") == "alloca"
                 for statement in (*self.module.variables, *inside))  # fmt: skip
        return bool(self.cycles) or any(local)

    @cached_property
    def room_used(self) -> ir.Var:
        """The bytes that `alloca` has given away."""
        used = ir.Var(self.fresh("used"), UINT32)
        self.beginnings[used] = const(0, UINT32)
        return used

    @cached_property
    def cycles(self) -> Mapping[str, frozenset[str]]:
        """The functions that may call themselves, each with the functions of the same cycles of calls."""
        return cycles(self.module)

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

    def global_bytes(self, name: str, size: int, align: int, *, constant: bool = False) -> ir.Buffer:
        """A buffer of bytes in global memory, which the caller of the kernel fills. constant: no thread writes it."""
        data = ir.Var(identifier(name, "_ptr"), HANDLE)
        return self.add_buffer(
            ir.Buffer(name, UINT8, (size,), "global", None, data=data, align=align, constant=constant)
        )

    def add_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        if buffer.name not in self.buffers:
            self.buffers[buffer.name] = buffer
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
