"""Branches, ends and calls: the instructions that end blocks.

A function is inlined at each of its calls; `tilewright.ptx.recursion` lowers recursive functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd

from tilewright import isa
from tilewright.errors import KernelError, choices
from tilewright.ir import Assign, Branch, Evaluate, Exit, Expr, Jump, Load, Stmt, Store, Var, cast, const
from tilewright.isa.arch import since
from tilewright.ptx.alloca import allocates
from tilewright.ptx.bits import raw_dtype, unsigned
from tilewright.ptx.callgraph import addressed, call_parts
from tilewright.ptx.declare import variable
from tilewright.ptx.names import (
    Memory,
    Scope,
    Symbol,
    element_bytes,
    identifier,
    lanes_of,
    nbytes,
    part_names,
    register_dtype,
)
from tilewright.ptx.recursion import Cycle
from tilewright.ptx.state import UINT8, UINT32, UINT64, Lowering, Step
from tilewright.ptx.tree import Address, Body, Function, Name, Operand, Targets, Variable, Vector
from tilewright.ptx.values import assigned, element, lookup, number_of, pointer, read, stored

# Functions that a PTX text calls and that the driver has: printf, assertions; and the end of a launch.


def _argument(low: Lowering, operand: Operand, step: Step) -> Load | object:
    """The bits of an argument, which lies in a variable of the call or is a register."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory):
        kind = UINT64 if symbol.buffer.storage_size() >= 8 else UINT32
        return element(low, symbol.at(), kind)
    return read(low, operand, step, UINT64)


def _row(name: str, count: int) -> Callable[[Lowering, Sequence[Operand], Step], Sequence[Stmt]]:
    def made(low: Lowering, arguments: Sequence[Operand], step: Step) -> Sequence[Stmt]:
        values = [_argument(low, operand, step) for operand in arguments[:count]]
        return [Evaluate(isa.call(name, *values), at=step.at)]

    return made


OUTSIDE: Mapping[str, Callable[[Lowering, Sequence[Operand], Step], Sequence[Stmt]]] = {
    "vprintf": _row("cuda.vprintf", 2),
    "__assertfail": _row("cuda.assert_fail", 4),
    "trap": _row("cuda.trap", 0),
}
"""The functions that write a call, by the callee's name."""


MOST_CALLS = 2000  # calls that a kernel makes, those inside of functions among them
REFUSED = {
    **dict.fromkeys(("malloc", "free"), "a heap on the device"),
    **dict.fromkeys(
        ("cudaGetParameterBuffer", "cudaGetParameterBufferV2", "cudaLaunchDevice", "cudaLaunchDeviceV2",
         "cudaDeviceSynchronize"),
        "a launch from the device",
    ),
}  # fmt: skip

Bodies = Callable[[Lowering, Body, Scope, "int | None"], None]
inlined: list[Bodies] = []  # the function that lowers a body, set by `tilewright.ptx.lower`, which imports this file


def _target(operand: Operand, step: Step) -> int:
    name = operand.text if isinstance(operand, Name) else str(operand)
    target = step.scope.label(name)
    if target is None:
        labels = [label for scope in step.scope.around() for label in scope.labels]
        raise KernelError(f"there is no label {name}", given=name, allowed=choices(name, labels), at=step.at)
    return target


def branch(low: Lowering, step: Step) -> None:
    """``bra``"""
    target = _target(step.ins.operands[0], step)
    if step.guard is None:
        low.end(Jump(target, at=step.at))
    else:
        after = low.new()
        low.end(Branch(step.guard, target, after, at=step.at), after)


def leave(low: Lowering, step: Step) -> None:
    """``ret`` and ``exit``: the end of the thread, or of an inlined function."""
    out = step.returns if step.ins.opcode == "ret" else None
    ending = Exit(at=step.at) if out is None else Jump(out, at=step.at)
    if step.guard is None:
        low.end(ending)
        return
    inside, after = low.new(), low.new()
    low.end(Branch(step.guard, inside, after, at=step.at), inside)
    low.end(ending, after)


def table(low: Lowering, step: Step) -> None:
    """``brx.idx``: a jump through a table is a chain of branches."""
    index, named = step.ins.operands
    targets = step.scope.named(named)
    if not isinstance(targets, Targets):
        raise KernelError("a jump through a table needs .branchtargets", given=str(named), at=step.at)
    value, after = read(low, index, step, UINT32), low.new()
    _guarded(low, step, after)
    for number, name in enumerate(targets.names):
        following = low.new()
        low.end(Branch(value == number, _target(Name(name), step), following, at=step.at), following)
    low.end(Exit(at=step.at), after)


def clear(low: Lowering, step: Step) -> None:
    """``st.bulk``: bytes of shared memory become 0, eight at a time."""
    low.check_target(step.ins.mnemonic, since("sm_100"))
    address, size, _ = step.ins.operands
    assert isinstance(address, Address)
    space = "shared" if "shared::cta" in step.ins.modifiers else ""
    after, head, inside = low.new(), low.new(), low.new()
    _guarded(low, step, after)
    start = number_of(pointer(low, address, step, space), space)
    at, end = Var(low.fresh("cleared"), start.dtype), Var(low.fresh("end"), start.dtype)
    low.add([Assign(at, start, at=step.at), Assign(end, at + read(low, size, step, start.dtype), at=step.at)])
    low.end(Jump(head, at=step.at), head)
    low.end(Branch(at < end, inside, after, at=step.at), inside)
    low.add([stored(low, at, [const(0, UINT64)], UINT64, space, step.at), Assign(at, at + 8, at=step.at)])
    low.end(Jump(head, at=step.at), after)


def _guarded(low: Lowering, step: Step, after: int) -> None:
    """Begin a block for the lanes of the guard; the others go on at ``after``."""
    if step.guard is not None:
        inside = low.new()
        low.end(Branch(step.guard, inside, after, at=step.at), inside)


# Calls


def call(low: Lowering, step: Step) -> None:
    """``call (results), function, (arguments)``"""
    low.calls += 1
    if low.calls > MOST_CALLS:
        raise KernelError(f"{low.entry.name} makes too many calls", allowed=f"{MOST_CALLS}", at=step.at)
    after = low.new()
    _guarded(low, step, after)
    results, callee, arguments = call_parts(step.ins)
    target = lookup(low, callee.text, step.scope)
    results, arguments = (tuple(_by_part(operand, step)) for operand in (results, arguments))
    if isinstance(target, Function) and target.body is not None:
        _called(low, _of_parts(target), results, arguments, step)
    elif isinstance(target, Var):
        _through_pointer(low, target, results, arguments, step)
    elif callee.text in OUTSIDE:
        low.add(OUTSIDE[callee.text](low, arguments, step))
    else:
        reason = REFUSED.get(callee.text, "a function whose body is somewhere else")
        raise KernelError(f"a call of {callee.text} is not supported", given=reason, at=step.at)
    low.end(Jump(after, at=step.at), after)


def _through_pointer(
    low: Lowering, pointer: Var, results: Sequence[Operand], arguments: Sequence[Operand], step: Step
) -> None:
    """A call through a pointer: a branch on the pointer for each function whose address is taken."""
    after = low.new()
    listed = step.scope.named(step.ins.operands[-1])
    names = listed.names if isinstance(listed, Targets) else addressed(low.module)
    for name in names:
        function = _of_parts(low.module.function_of[name])
        if (len(function.params), len(function.returns)) != (len(arguments), len(results)):
            continue
        inside, following = low.new(), low.new()
        cond = pointer == const(low.function_address(function), UINT64)
        low.end(Branch(cond, inside, following, at=step.at), inside)
        _called(low, function, results, arguments, step)
        low.end(Jump(after, at=step.at), following)
    low.add([Evaluate(element(low, pointer, UINT8), at=step.at)])  # no memory is there, which a check of bounds tells
    low.add(OUTSIDE["trap"](low, (), step))
    low.end(Exit(at=step.at), after)


def _of_parts(function: Function) -> Function:
    """A function whose parameters and results are single registers, and variables: a vector of registers is several."""
    wide = any(variable.space == "reg" and lanes_of(variable) > 1 for variable in (*function.params, *function.returns))
    return replace(function, params=_parts(function.params), returns=_parts(function.returns)) if wide else function


def _parts(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    return tuple(
        replace(var, type=var.type.replace("b128", "b64"), name=name, vector=1) if name != var.name else var
        for var in variables
        for name in (part_names(var.name, lanes_of(var)) if var.space == "reg" and lanes_of(var) > 1 else (var.name,))
    )


def _by_part(operands: Sequence[Operand], step: Step) -> Iterator[Operand]:
    """Operands of a call, of vectors of registers their parts."""
    for operand in operands:
        spread = step.scope.spread(operand)
        yield from spread.parts if isinstance(spread, Vector) else (spread,)


def _called(
    low: Lowering, function: Function, results: Sequence[Operand], arguments: Sequence[Operand], step: Step
) -> None:
    """Lower a call of a function: its body takes the place of the call, unless the function may call itself."""
    if function.name not in low.cycles:
        _inline(low, function, results, arguments, step)
        return
    lowered = low.stack.lowered
    is_inside = bool(lowered) and function.name in lowered[-1].names
    if not is_inside:
        lowered.append(Cycle(low, low.cycles[function.name]))
        low.stack.cycles.append(lowered[-1])
    site, places = lowered[-1].call(function, step)
    for param, operand in zip(function.params, arguments, strict=True):
        symbol = step.scope.named(operand)
        source = symbol if isinstance(symbol, Memory) and param.space == "param" else None
        _copied(low, param, places[param.name], source or read(low, operand, step, register_dtype(param.type)), step)
    lowered[-1].go(site, function, step)
    if not is_inside:
        lowered[-1].finish(inlined[0], step)
        lowered.pop()
    for result, operand in zip(function.returns, results, strict=True):
        symbol = step.scope.named(operand)
        if isinstance(symbol, Memory):
            _copied(low, result, symbol, places[result.name], step)
        else:
            kind = raw_dtype(result.type)
            low.add(assigned(low, operand, element(low, places[result.name].at(), kind), step))


def _copied(low: Lowering, declared: Variable, to: Memory, value: Memory | Expr, step: Step) -> None:
    """Copy a parameter or result to another place."""
    if not isinstance(value, Memory):
        kind = raw_dtype(declared.type)
        low.add([stored(low, to.at(), [cast(value, kind)], kind, "local", step.at)])
        return
    width = gcd(max(declared.align, element_bytes(declared.type)), nbytes(declared), 8)
    kind = unsigned(8 * width)
    low.add([
        stored(low, to.at(offset), [element(low, value.at(offset), kind)], kind, "local", step.at)
        for offset in range(0, nbytes(declared), width)
    ])  # fmt: skip


def _inline(
    low: Lowering, function: Function, results: Sequence[Operand], arguments: Sequence[Operand], step: Step
) -> None:
    """The body of a function in the place of a call."""
    inner = Scope(None, f"__{low.fresh('call')}")
    for param, operand in zip(function.params, arguments, strict=True):
        inner.symbols[param.name] = _passed(low, param, operand, inner, step)
    for result, operand in zip(function.returns, results, strict=True):
        inner.symbols[result.name] = _place_of_result(low, result, operand, inner, step)
    inner.gather(tuple(inner.symbols))
    after = low.new()
    before = Var(low.fresh("used"), UINT32)
    if allocates(function):
        low.add([Assign(before, low.room_used, at=step.at)])
    with low.lines.inlined():
        inlined[0](low, function.body or (), inner, after)
        low.end(Jump(after, at=step.at), after)
    if allocates(function):
        low.add([Assign(low.room_used, before, at=step.at)])
    for result, operand in zip(function.returns, results, strict=True):
        if isinstance(step.scope.named(operand), Var):
            symbol = inner.symbols[result.name]
            low.add(assigned(low, operand, symbol if isinstance(symbol, Var) else _whole(low, symbol, result), step))


def _passed(low: Lowering, param: Variable, operand: Operand, inner: Scope, step: Step) -> Symbol:
    """The value of a parameter: the caller's variable itself, or a copy of a register."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory) and param.space == "param":
        return symbol
    place = _place_of_result(low, param, operand, inner, step)
    value = read(low, operand, step, register_dtype(param.type))
    if isinstance(place, Var):
        low.add([Assign(place, value, at=step.at)])
    else:
        low.add([Store(_whole(low, place, param), cast(value, raw_dtype(param.type)), at=step.at)])
    return place


def _place_of_result(low: Lowering, result: Variable, operand: Operand, inner: Scope, step: Step) -> Symbol:
    """The place of a result: the caller's variable itself, a register, or a variable of its own."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory) and result.space == "param":
        return symbol
    if result.space == "reg":
        return Var(identifier(result.name, inner.suffix), register_dtype(result.type))
    return variable(low, replace(result, space="local"), inner)


def _whole(low: Lowering, symbol: Symbol, declared: Variable) -> Load:
    """The one number that a variable is."""
    assert isinstance(symbol, Memory)
    return element(low, symbol.at(), raw_dtype(declared.type))


FLOW: Mapping[str, Callable[[Lowering, Step], None]] = {
    "bra": branch,
    "ret": leave,
    "exit": leave,
    "brx": table,
    "call": call,
    "st.bulk": clear,
}
"""The functions for instructions that end a block, by opcode."""
