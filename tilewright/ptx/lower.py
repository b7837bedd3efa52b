"""From a PTX entry to a lowered kernel: its blocks as statements, its variables as buffers, its registers as scalars;
and which accesses must stay in one variable.

Functions are inlined; those that call themselves have a stack. Features that the simulator lacks (surfaces, launches
from the device, a heap) are refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from tilewright import ir
from tilewright.dtypes import BOOL, INT32, INT64
from tilewright.errors import KernelError, Span, TilewrightError, UnsupportedError
from tilewright.ir import as_expr, binary, cast, map_body, rewrite, statements, unary
from tilewright.ir.debts import SUMS, Origins, has_window
from tilewright.ir.structure import body_of
from tilewright.isa import bind
from tilewright.ptx import tree
from tilewright.ptx.declare import are_short, lookup, module_symbol, parameter, place_dynamic, short_address, variable
from tilewright.ptx.flow import FLOW, save_registers
from tilewright.ptx.instructions import instruction
from tilewright.ptx.names import Memory, Scope, named_once, nbytes
from tilewright.ptx.state import UINT64, Lowering, Machine, Step
from tilewright.ptx.values import read
from tilewright.ptx.wmma import place_fragments

UNSUPPORTED = {
    **dict.fromkeys(("tld4", "txq", "istypep"), "queries of textures"),
    **dict.fromkeys(("suld", "sust", "sured", "suq"), "surfaces"),
    "multimem": "memory that several GPUs have in common",
}
"""Why an opcode is not supported, or not with a modifier."""


EARLY = {
    **{f"{name}.f32": f"{name}.approx.ftz.f32" for name in ("div", "rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2")},
    **{f"{name}.f64": f"{name}.rn.f64" for name in ("div", "rcp", "sqrt", "fma", "mad")},
    "rsqrt.f64": "rsqrt.approx.f64",
    "mad.f32": "fma.rn.ftz.f32",
}
"""What texts for sm_1x leave out. Source: PTX ISA, "PTX ISA Notes" and "Target ISA Notes" of these instructions."""


FIRST = frozenset(("sm_10", "sm_11", "sm_12", "sm_13"))


SPREAD = frozenset(("ld", "ldu", "st", "mov", "atom", "clusterlaunchcontrol"))
"""Opcodes that take registers of several parts by one name."""


ACCESSES = frozenset(("ld", "ldu", "st", "atom", "red"))  # what takes an address


SHAPES = (ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError)


@dataclass(frozen=True)
class Lowered:
    """A kernel of stage "lowered".

    globals: the module's variables among its buffers, by symbol; names: of those buffers, and of the shared ones.
    in_bytes: its parameters that lie in memory, structures and those whose address is taken, by name; places: the names
    of the buffers that have their bytes. functions: the number of each function whose address is taken. short: the
    address of each buffer, where those have 32 bits.
    """

    kernel: ir.Kernel
    globals: Mapping[str, tree.Variable]
    names: Mapping[str, str]
    in_bytes: Mapping[str, tree.Variable]
    places: Mapping[str, str]
    functions: Mapping[str, int]
    short: Mapping[str, int]


def lower(
    module: tree.Module, entry: tree.Function, arrays: Mapping[str, ir.Buffer], machine: Machine,
    said: Mapping[str, str] = MappingProxyType({}),
) -> Lowered:  # fmt: skip
    """The entry for a launch. arrays: the buffers that parameters point to, by the parameter's name. said: what their
    author calls parameters.

    Raises KernelError, at the author's line, for what the simulator lacks; InstructionError for an unknown instruction.
    """
    low = Lowering(module, entry, arrays, machine, _body)
    low.said = said
    scope = Scope()
    for param in entry.params:
        parameter(low, param, scope)
    for array in arrays.values():
        low.add_buffer(array)  # those, too, that only pointers in structures lead to
    if are_short(low):  # the ranges of addresses are known before the first of them is looked up
        for name, declared in module.variable_of.items():
            if declared.space in ("global", "const") and not (declared.linkage == "extern" and not nbytes(declared)):
                module_symbol(low, name)
    _body(low, entry.body or (), scope, None)
    low.end(ir.Exit(at=low.lines.current))
    first: list[ir.Stmt] = []
    if "stack" in vars(low):
        save_registers(low)
        first += low.stack.begin()
    launch = replace(machine.launch, shared_bytes=place_dynamic(low))
    first += [ir.Assign(var, value) for var, value in low.beginnings.items()]
    low.ended[0] = replace(low.ended[0], body=(*first, *low.ended[0].body))
    low.ended = {number: _constants_copied(low, block) for number, block in low.ended.items()}
    place_fragments(low)
    if low.in_flight:
        low.ended = {number: _in_storage(low, block) for number, block in low.ended.items()}
    statics = (room.buffer for room in low.allocated if room.buffer.data is None and room.buffer not in low.dynamic)
    low.ended = dict(zip(low.ended, bounded(low.ended.values(), statics), strict=True))
    kernel = ir.Kernel(
        entry.name, tuple(low.params), tuple(low.buffers.values()), (*low.allocated, *body_of(low.graph())),
        stage="lowered", launch=launch, compiled=True, at=module.span(entry.line),
    )  # fmt: skip
    numbers = {name: low.function_address(module.function_of[name]) for name in low.functions}
    short = {buffer.name: short_address(low, buffer) for buffer in low.buffers.values()} if are_short(low) else {}
    names = {name: place.buffer.name for name, place in low.outside.symbols.items() if isinstance(place, Memory)}
    places = {name: buffer.name for name, buffer in low.parameter_buffers.items()}
    return Lowered(kernel, low.globals, names, low.in_bytes, places, numbers, short)


def _in_storage(low: Lowering, block: ir.Block) -> ir.Block:
    """A block in which registers that operations read and write are places of local storage."""

    def place(expr: ir.Expr) -> ir.Load | None:
        return low.in_flight.get(expr) if isinstance(expr, (ir.Var, ir.Load)) else None

    def store(stmt: ir.Stmt) -> ir.Body | None:
        if isinstance(stmt, ir.Assign) and isinstance(stmt.var, ir.Load):
            return () if _is_same(stmt.var, stmt.value) else (ir.Store(stmt.var, stmt.value, at=stmt.at),)
        return None

    end = block.end
    if isinstance(end, ir.Branch):
        end = replace(end, cond=rewrite(end.cond, place))
    return ir.Block(map_body(rewrite(block.body, place), store), end)


def _is_same(place: ir.Load, value: ir.Expr) -> bool:
    """Is a value what a place of storage holds? Registers that share it are views."""
    return isinstance(value, ir.Load) and place.buffer.data is not None and value.buffer.data is place.buffer.data


def _constants_copied(low: Lowering, block: ir.Block) -> ir.Block:
    """A block in which copies of registers that hold a constant are constants; operations change theirs meanwhile."""
    constants: dict[ir.Var, ir.Const] = {}
    body: list[ir.Stmt] = []
    for stmt in block.body:
        new = stmt
        if isinstance(stmt, ir.Assign) and isinstance(stmt.value, ir.Var):
            new = replace(stmt, value=constants.get(stmt.value, stmt.value))
        for inner in statements((new,)):
            if isinstance(inner, (ir.Assign, ir.Bind)):
                constants.pop(inner.var, None)
        if isinstance(new, ir.Assign) and isinstance(new.value, ir.Const) and new.var not in low.in_flight:
            constants[new.var] = new.value
        body.append(new)
    return ir.Block(tuple(body), block.end)


def _body(low: Lowering, body: tree.Body, scope: Scope, returns: int | None) -> None:
    """The statements of a scope. returns: the block after the call, in an inlined function."""
    scope.hold_labels(body, low.new, low.lines.current)
    if scope.outer is None and any(
        isinstance(inner, tree.Instruction) and inner.opcode == "atom" for inner in tree.all_statements(body)
    ):
        scope.unread = named_once(body)
    for statement in body:
        if isinstance(statement, tree.Instruction):
            _instruction(low, statement, scope, returns)
        elif isinstance(statement, tree.Loc):
            low.lines.move(statement)
        elif isinstance(statement, tree.Label):
            low.end(ir.Jump(scope.labels[statement.name], at=low.lines.current), scope.labels[statement.name])
        elif isinstance(statement, tree.Registers):
            scope.declare(statement)
        elif isinstance(statement, tree.Variable):
            scope.symbols[statement.name] = variable(low, statement, scope)
        elif isinstance(statement, tree.Block):
            low.scopes += 1
            used = low.frame.used if low.frame else 0
            _body(low, statement.body, Scope(scope, f"{scope.suffix}__{low.scopes}"), returns)
            if low.frame:
                low.frame.used = used


def _instruction(low: Lowering, ins: tree.Instruction, scope: Scope, returns: int | None) -> None:
    at = low.lines.of(ins)
    if not FIRST.isdisjoint(low.module.target):
        ins = replace(ins, mnemonic=EARLY.get(ins.mnemonic, ins.mnemonic))
    if ins.opcode in SPREAD:
        name = ins.mnemonic.replace(".b128", ".v2.b64") if ins.opcode in ("ld", "st") else ins.mnemonic
        ins = replace(ins, mnemonic=name, operands=tuple(map(scope.spread, ins.operands)))
    ins = _in_bytes(low, ins, scope)
    try:
        _checked(low, ins, scope, returns, at)
    except TilewrightError as error:
        raise error.located(at) from None
    except SHAPES as cause:  # operands of a form that the instruction does not have
        listed = ", ".join(map(tree.operand_text, ins.operands))
        raise KernelError(f"{ins.mnemonic} has other operands", given=listed or "none", at=at) from cause


def _in_bytes(low: Lowering, ins: tree.Instruction, scope: Scope) -> tree.Instruction:
    """An instruction in which elements of arrays, ``a[2]``, are addresses in bytes."""
    operands = list(ins.operands)
    for place, operand in enumerate(operands):
        if isinstance(operand, tree.Sum) and operand.element:
            symbol = lookup(low, operand.name.text, scope)
            offset = operand.offset * (symbol.element if isinstance(symbol, Memory) else 1)
            operand_type = tree.Address if ins.opcode in ACCESSES else tree.Sum
            operands[place] = operand_type(operand.name, offset)
    return ins if operands == list(ins.operands) else replace(ins, operands=tuple(operands))


def _checked(low: Lowering, ins: tree.Instruction, scope: Scope, returns: int | None, at: Span) -> None:
    flow = _flow(ins.mnemonic)
    guard = _guard(low, ins, scope, at)
    step = Step(ins, scope, returns, guard, at)
    if flow is not None:
        flow(low, step)
        return
    stmts = tuple(instruction(low, step))
    low.add(stmts if guard is None or not stmts else [ir.If(guard, stmts, at=at)])


@lru_cache(maxsize=4096)
def _flow(mnemonic: str) -> Callable[[Lowering, Step], None] | None:
    """What lowers an instruction that ends its block, if this is one.

    Raises UnsupportedError for one that the simulator lacks.
    """
    opcode, *words = tree.words_of(mnemonic)
    names = (opcode, *(f"{opcode}.{word}" for word in words))
    reason = next((UNSUPPORTED[name] for name in names if name in UNSUPPORTED), None)
    if reason is not None:
        raise UnsupportedError(f"{mnemonic} is not supported", given=reason)
    return FLOW.get(opcode) or FLOW.get(".".join((opcode, *words[:1])))


def _guard(low: Lowering, ins: tree.Instruction, scope: Scope, at: Span) -> ir.Expr | None:
    if not ins.guard:
        return None
    value = read(low, tree.Name(ins.guard.lstrip("!")), Step(ins, scope, None, None, at), BOOL)
    return unary("not", value) if ins.guard[0] == "!" else value


# Addresses of variables: an access by a register that only ever holds addresses in one variable must stay in that
# variable.
#
# Variables lie side by side in shared and in local memory. An access by a register that was made from the address of
# one of them, in whichever way control came there, has the bounds of that variable; of all others the whole memory is
# the bound.


def bounded(blocks: Iterable[ir.Block], statics: Iterable[ir.Buffer]) -> Iterator[ir.Block]:
    """The blocks with accesses of one shared or local variable held to it. statics: the variables."""
    blocks, variables = tuple(blocks), frozenset(statics)
    if len(variables) < 2:
        yield from blocks
        return
    body = (stmt for block in blocks for stmt in statements(block.body))
    origins = Origins(body, SUMS, lambda buffer: frozenset((buffer,) if buffer.data is None else ()))

    def held(at: ir.Expr) -> ir.Expr | None:
        origin = origins.of(_offset(at))
        if not origin or len(origin) != 1 or not origin <= variables:
            return None
        (variable,) = origin
        start = cast(ir.AddressOf(variable, (as_expr(0),)), UINT64)
        ahead = binary("-", at, cast(start, at.dtype))  # of 32 bits, where the window's start is left out
        return ir.AddressOf(variable, (cast(cast(ahead, INT32) if at.dtype.bits == 32 else ahead, INT64),))

    def operand(call: ir.Call) -> ir.Expr | None:
        bound = bind(call)
        pointers = [bound.operands[row.name][0] for row in bound.given if row.kind == "shared"]
        bounds = {id(pointer): inside for pointer in pointers if (inside := held(pointer)) is not None}
        return replace(call, args=tuple(bounds.get(id(arg), arg) for arg in call.args)) if bounds else None

    def place(expr: ir.Expr) -> ir.Expr | None:
        if isinstance(expr, ir.Call):
            return operand(expr)
        at = expr.buffer.data if isinstance(expr, ir.Load) else None
        if at is None or isinstance(at, ir.AddressOf) or not isinstance(expr, ir.Load):
            return None
        inside = held(at)
        return None if inside is None else replace(expr, buffer=replace(expr.buffer, data=inside))

    for block in blocks:
        yield replace(block, body=rewrite(block.body, place))


def _offset(at: ir.Expr) -> ir.Expr:
    """An address in shared memory without the start of its window, which stands before it."""
    return at.a if isinstance(at, ir.Binary) and has_window(at) else at
