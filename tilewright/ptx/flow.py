"""Branches, ends and calls of a PTX body, of recursive functions too; memory that functions take until they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeAlias

from tilewright import ir, isa
from tilewright.dtypes import BOOL
from tilewright.errors import KernelError, UnsupportedError, choices
from tilewright.ir.flow import live_before
from tilewright.isa.arch import since
from tilewright.ptx import tree
from tilewright.ptx.declare import lookup, variable
from tilewright.ptx.names import (
    Memory,
    Scope,
    Symbol,
    element_bytes,
    identifier,
    lanes_of,
    nbytes,
    part_names,
    raw_dtype,
    register_dtype,
    unsigned,
)
from tilewright.ptx.state import CLOCK, UINT8, UINT32, UINT64, Lowering, Step
from tilewright.ptx.values import assigned, element, number_of, pointer, read, stored

# Recursive functions: each function of a cycle of calls is lowered once, and a stack holds the frames of its calls.
#
# The functions of a cycle make up a loop. At its head each thread jumps to the block that is its goal: a function that
# it calls, or what follows a call that has returned. A frame of the stack holds the goal of the caller, the parameters,
# the results and the variables of the function; behind the frame, a call saves the registers that are read later.


STACK_BYTES = 1 << 15  # the stack of one thread
SAVED_BYTES = 8  # that a register takes on the stack
ALIGN = 16  # each frame begins at a multiple of so many bytes


@dataclass(frozen=True, slots=True)
class Site:
    """A call: the block that makes it, the block after it, the caller's frame. room: the bytes that the caller has."""

    block: int
    back: int
    frame: Frame | None
    room: ir.Var


class Stack:
    """The stack of each thread of a kernel, for recursive calls. top: where the current frame begins, in bytes."""

    def __init__(self, low: Lowering) -> None:
        self.buffer = ir.Buffer(low.fresh("stack"), UINT8, (STACK_BYTES,), "local", None, align=16)
        self.top, self.depth = ir.Var(low.fresh("top"), UINT32), ir.Var(low.fresh("depth"), UINT32)
        self.cycles: list[Cycle] = []
        self.lowered: list[Cycle] = []  # those that are being lowered, the innermost last
        low.allocate(ir.AllocBuffer(self.buffer, at=low.lines.current))

    def begin(self) -> list[ir.Stmt]:
        """The statements that come first in the kernel: the stack is empty."""
        return [ir.Assign(self.top, ir.const(0, UINT32)), ir.Assign(self.depth, ir.const(0, UINT32))]

    def word(self, offset: int) -> Memory:
        """The place that lies so many bytes behind the start of the current frame."""
        return Memory(self.buffer, start=self.top, offset=offset)


class Frame:
    """The places that the variables of a function have on the stack, in bytes from where its frame begins."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.used = stack, SAVED_BYTES  # the caller's goal comes first
        self.size = self.used

    def place(self, declared: tree.Variable) -> Memory:
        """A place for a variable."""
        align = max(declared.align, element_bytes(declared.type) * declared.vector)
        start = -(-self.used // align) * align
        self.used = start + nbytes(declared)
        self.size = max(self.size, self.used)
        return self.stack.word(start)

    @property
    def room(self) -> int:
        """The size of the frame in bytes."""
        return -(-self.size // SAVED_BYTES) * SAVED_BYTES


@dataclass(frozen=True, slots=True)
class Instance:
    """A function of a cycle. goal: its number at the head of the loop. places: of its parameters and results."""

    function: tree.Function
    goal: int
    frame: Frame
    places: Mapping[str, Memory]


class Cycle:
    """The loop of functions that call each other, as one call from outside enters it."""

    def __init__(self, low: Lowering, names: frozenset[str]) -> None:
        self.low, self.names = low, names
        self.goal = ir.Var(low.fresh("goal"), UINT32)
        self.head = self.last = low.new()
        self.targets: list[int] = []
        self.sites: list[Site] = []
        self.following: dict[int, tuple[int, ...]] = {}  # where a function goes on behind blocks that lead to the head
        self.instances: dict[str, Instance] = {}
        self.waiting: list[Instance] = []

    def instance(self, function: tree.Function) -> Instance:
        """The one instance of the function: made at the first call."""
        if function.name not in self.instances:
            frame = Frame(self.low.stack)
            places = {variable.name: frame.place(variable) for variable in (*function.params, *function.returns)}
            instance = Instance(function, self._target(self.low.new()), frame, places)
            self.instances[function.name] = instance
            self.waiting.append(instance)
        return self.instances[function.name]

    def _target(self, block: int) -> int:
        self.targets.append(block)
        return len(self.targets) - 1

    def call(self, function: tree.Function, step: Step) -> tuple[Site, Mapping[str, Memory]]:
        """Begin a call. Returns it, and where its parameters and results will lie: behind the caller's frame."""
        low = self.low
        site = Site(low.new(), low.new(), low.frame, ir.Var(low.fresh("room"), UINT32))
        self.sites.append(site)
        self.following[site.block] = (site.back,)
        low.end(ir.Jump(site.block, at=step.at), site.block)
        start = ir.binary("+", low.stack.top, site.room)
        places = self.instance(function).places
        return site, {name: replace(place, start=start) for name, place in places.items()}

    def go(self, site: Site, function: tree.Function, step: Step) -> None:
        """Emit the call itself. The code after it takes the results."""
        low, stack, instance = self.low, self.low.stack, self.instance(function)
        low.add([
            ir.Assign(stack.top, ir.binary("+", stack.top, site.room), at=step.at),
            ir.Assign(stack.depth, ir.binary("+", stack.depth, ir.const(1, UINT32)), at=step.at),
        ])  # fmt: skip
        back = ir.const(self._target(site.back), UINT32)
        low.add([stored(low, stack.word(0).at(), [back], UINT32, "local", step.at)])
        low.add([ir.Assign(self.goal, ir.const(instance.goal, UINT32), at=step.at)])
        low.end(ir.Jump(self.head, at=step.at), site.back)

    def finish(self, step: Step) -> None:
        """Lower the functions that are called, and the head of the loop. The block that is open comes after it."""
        low = self.low
        behind, before, here = low.open, low.frame, low.lines.current
        while self.waiting:
            self._function(self.waiting.pop(), step)
        low.frame, low.lines.current = before, here
        for instance in self.instances.values():
            self._turn_at_head(self.targets[instance.goal])
        low.open = self.head
        for number, block in enumerate(self.targets[:-1]):
            following = low.new()
            low.end(
                ir.Branch(ir.binary("==", self.goal, ir.const(number, UINT32)), block, following, at=step.at), following
            )
        self.last = low.new()
        low.end(ir.Jump(self.targets[-1], at=step.at), self.last)
        low.end(ir.Exit(at=step.at), behind)

    def after(self, block: int) -> tuple[int, ...]:
        """The blocks that follow in the same function: those of the functions that it calls are left out."""
        return self.following.get(block, self.low.ended[block].end.targets)

    def _turn_at_head(self, entry: int) -> None:
        """Send the back edges of loops that call a function of the cycle through the head, too."""
        before, backs = _walked(entry, self.after)
        for last, first in backs:
            inside = {first}
            todo = [last]
            while todo:
                block = todo.pop()
                if block not in inside:
                    inside.add(block)
                    todo += before[block]
            if any(site.block in inside for site in self.sites[1:]):
                new, end = self.low.new(), self.low.ended[last].end
                goal = ir.const(self._target(first), UINT32)
                self.following[new] = (first,)
                self.low.ended[new] = ir.Block((ir.Assign(self.goal, goal, at=end.at),), ir.Jump(self.head, at=end.at))
                turned = end.renumbered(lambda way, first=first, new=new: new if way == first else way)  # type: ignore[misc]
                self.low.ended[last] = replace(self.low.ended[last], end=turned)

    def _function(self, instance: Instance, step: Step) -> None:
        low, function = self.low, instance.function
        low.frame, low.open = instance.frame, self.targets[instance.goal]
        scope, leave = Scope(None, f"__{self.goal.name}_{instance.goal}"), low.new()
        for parameter in (*function.params, *function.returns):
            symbol = instance.places[parameter.name]
            if parameter.space != "reg":
                scope.symbols[parameter.name] = symbol
                continue
            register = ir.Var(identifier(parameter.name, scope.suffix), register_dtype(parameter.type))
            scope.symbols[parameter.name] = register
            if parameter in function.params:
                kind = raw_dtype(parameter.type)
                low.add([ir.Assign(register, ir.cast(element(low, symbol.at(), kind), register.dtype), at=step.at)])
        scope.gather(tuple(scope.symbols))
        low.lower_body(low, function.body or (), scope, leave)
        low.end(ir.Jump(leave, at=step.at), leave)
        for result in function.returns:
            register_of = scope.symbols[result.name]
            if isinstance(register_of, ir.Var):
                kind = raw_dtype(result.type)
                at, value = instance.places[result.name].at(), ir.cast(register_of, kind)
                low.add([stored(low, at, [value], kind, "local", step.at)])
        low.add([ir.Assign(self.goal, element(low, low.stack.word(0).at(), UINT32), at=step.at)])
        low.end(ir.Jump(self.head, at=step.at))
        self.following[leave] = ()


def _walked(entry: int, after: Callable[[int], Sequence[int]]) -> tuple[dict[int, list[int]], list[tuple[int, int]]]:
    """For each block that an entry reaches, the blocks before it; and the edges that lead back, each as (from, to)."""
    before: dict[int, list[int]] = {entry: []}
    backs: list[tuple[int, int]] = []
    path, todo = {entry}, [(entry, iter(after(entry)))]
    while todo:
        block, rest = todo[-1]
        to = next(rest, None)
        if to is None:
            path.remove(todo.pop()[0])
            continue
        if to in path:
            backs.append((block, to))
        elif to not in before:
            path.add(to)
            todo.append((to, iter(after(to))))
        before.setdefault(to, []).append(block)
    return before, backs


# What calls of recursive functions save, and restore behind them.


def save_registers(low: Lowering) -> None:
    """Put into each call, once all blocks exist, how much room its caller takes, and the registers that it saves."""
    cycles = low.stack.cycles
    following = {number: low.ended[number].end.targets for number in low.ended}
    for cycle in cycles:
        following |= cycle.following
    live = live_before(low.ended, following)
    kept = {low.stack.top, low.stack.depth, CLOCK, *(cycle.goal for cycle in cycles)}
    for cycle in cycles:
        inside = (low.ended[number] for number in range(cycle.head, cycle.last))
        changed = {stmt.var for block in inside for stmt in ir.statements(block.body)
                   if isinstance(stmt, (ir.Assign, ir.Bind))} - kept  # fmt: skip
        rooms = [
            _complete(low, site, sorted(live[site.back] & changed, key=lambda var: var.name) if number else [])
            for number, site in enumerate(cycle.sites)
        ]
        most = max(*rooms, *(instance.frame.room for instance in cycle.instances.values()))
        for instance in cycle.instances.values():
            _check(low, instance, cycle.targets[instance.goal], STACK_BYTES - 2 * most)


def _check(low: Lowering, instance: Instance, entry: int, last: int) -> None:
    """Emit an error for a frame that begins so late that it, or the parameters it passes on, would find no room."""
    stack, block = low.stack, low.ended[entry]
    at = low.module.span(instance.function.line)
    call = isa.call("cuda.out_of_stack", instance.function.name, stack.depth, ir.const(STACK_BYTES, UINT32))
    full = ir.binary(">=", stack.top, ir.const(max(0, last), UINT32))
    low.ended[entry] = replace(block, body=(ir.If(full, (ir.Evaluate(call, at=at),), at=at), *block.body))


def _complete(low: Lowering, site: Site, saved: Sequence[ir.Var]) -> int:
    """Make a call save registers and the block after it restore them. Returns the bytes between the two frames."""
    stack, begin = low.stack, site.frame.room if site.frame else 0
    room = ir.const(-(-(begin + SAVED_BYTES * len(saved)) // ALIGN) * ALIGN, UINT32)
    call, back = low.ended[site.block], low.ended[site.back]
    assert call.end.at is not None
    places = [stack.word(begin + SAVED_BYTES * number).at() for number in range(len(saved))]
    kinds = [UINT32 if var.dtype == BOOL else var.dtype for var in saved]
    at = call.end.at
    saves = [stored(low, place, [ir.cast(var, kind)], kind, "local", at)
             for place, var, kind in zip(places, saved, kinds, strict=True)]  # fmt: skip
    low.ended[site.block] = ir.Block((ir.Assign(site.room, room, at=at), *saves, *call.body), call.end)
    first = [
        ir.Assign(site.room, room, at=at),
        ir.Assign(stack.top, ir.binary("-", stack.top, room), at=at),
        ir.Assign(stack.depth, ir.binary("-", stack.depth, ir.const(1, UINT32)), at=at),
        *(ir.Assign(var, ir.cast(element(low, place, kind), var.dtype), at=at)
          for place, var, kind in zip(places, saved, kinds, strict=True)),
    ]  # fmt: skip
    low.ended[site.back] = ir.Block((*first, *back.body), back.end)
    return int(room.value)


# alloca: local memory of a size that the run knows, from one block of bytes of each thread, freed as functions return.
#
# Source: PTX ISA, "Stack Manipulation Instructions: stacksave, stackrestore, alloca".


ROOM = 1 << 14  # bytes of each thread


def allocates(function: tree.Function) -> bool:
    """Does the function ask for such memory?"""
    return any(isinstance(stmt, tree.Instruction) and stmt.opcode == "alloca" for stmt in function.statements)


def allocate(low: Lowering, step: Step) -> Sequence[ir.Stmt]:
    """``alloca d, size, alignment``: bounds are those of all bytes that a thread has for this."""
    target, size, *more = step.ins.operands
    align = more[0].value if more and isinstance(more[0], tree.Immediate) else 8
    used = low.room_used
    if low.room is None:
        low.room = ir.Buffer(low.fresh("alloca"), UINT8, (ROOM,), "local", None, align=16)
        low.allocate(ir.AllocBuffer(low.room, at=step.at))
    start = ir.Var(low.fresh("allocated"), UINT32)
    up = ir.binary("&", used + ir.const(align - 1, UINT32), ir.const(-align & 0xFFFFFFFF, UINT32))
    address = ir.cast(ir.AddressOf(low.room, (start,)), UINT64)
    wide = step.ins.modifiers[-1] == "u64"
    return [
        ir.Assign(start, up, at=step.at),
        ir.Assign(used, start + ir.cast(read(low, size, step, UINT64 if wide else UINT32), UINT32), at=step.at),
        *assigned(low, target, address if wide else ir.cast(address, UINT32), step),
    ]


def save(low: Lowering, step: Step) -> Sequence[ir.Stmt]:
    """``stacksave``: how much is in use."""
    wide = step.ins.modifiers[-1] == "u64"
    return assigned(low, step.ins.operands[0], ir.cast(low.room_used, UINT64) if wide else low.room_used, step)


def restore(low: Lowering, step: Step) -> Sequence[ir.Stmt]:
    """``stackrestore``: what was allocated since ``stacksave`` is free again."""
    wide = step.ins.modifiers[-1] == "u64"
    before = ir.cast(read(low, step.ins.operands[0], step, UINT64 if wide else UINT32), UINT32)
    return [ir.Assign(low.room_used, before, at=step.at)]


# Functions that a PTX text calls and that the driver has: printf, assertions; and the end of a launch.


def _argument(low: Lowering, operand: tree.Operand, step: Step) -> ir.Load | object:
    """The bits of an argument, which lies in a variable of the call or is a register."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory):
        kind = UINT64 if symbol.buffer.storage_size() >= 8 else UINT32
        return element(low, symbol.at(), kind)
    return read(low, operand, step, UINT64)


def _row(name: str, count: int) -> Callable[[Lowering, Sequence[tree.Operand], Step], Sequence[ir.Stmt]]:
    def made(low: Lowering, arguments: Sequence[tree.Operand], step: Step) -> Sequence[ir.Stmt]:
        values = [_argument(low, operand, step) for operand in arguments[:count]]
        return [ir.Evaluate(isa.call(name, *values), at=step.at)]

    return made


OUTSIDE: Mapping[str, Callable[[Lowering, Sequence[tree.Operand], Step], Sequence[ir.Stmt]]] = {
    "vprintf": _row("cuda.vprintf", 2),
    "__assertfail": _row("cuda.assert_fail", 4),
    "trap": _row("cuda.trap", 0),
}
"""The functions that write a call, by the callee's name."""


# Branches and ends: the instructions that end blocks.


MOST_CALLS = 2000  # calls that a kernel makes, those inside of functions among them
REFUSED = {
    **dict.fromkeys(("malloc", "free"), "a heap on the device"),
    **dict.fromkeys(
        ("cudaGetParameterBuffer", "cudaGetParameterBufferV2", "cudaLaunchDevice", "cudaLaunchDeviceV2",
         "cudaDeviceSynchronize"),
        "a launch from the device",
    ),
}  # fmt: skip


def _target(operand: tree.Operand, step: Step) -> int:
    name = operand.text if isinstance(operand, tree.Name) else str(operand)
    target = step.scope.label(name)
    if target is None:
        labels = [label for scope in step.scope.around() for label in scope.labels]
        raise KernelError(f"there is no label {name}", given=name, allowed=choices(name, labels), at=step.at)
    return target


def branch(low: Lowering, step: Step) -> None:
    """``bra``"""
    target = _target(step.ins.operands[0], step)
    if step.guard is None:
        low.end(ir.Jump(target, at=step.at))
    else:
        after = low.new()
        low.end(ir.Branch(step.guard, target, after, at=step.at), after)


def leave(low: Lowering, step: Step) -> None:
    """``ret`` and ``exit``: the end of the thread, or of an inlined function."""
    out = step.returns if step.ins.opcode == "ret" else None
    ending = ir.Exit(at=step.at) if out is None else ir.Jump(out, at=step.at)
    if step.guard is None:
        low.end(ending)
        return
    inside, after = low.new(), low.new()
    low.end(ir.Branch(step.guard, inside, after, at=step.at), inside)
    low.end(ending, after)


def table(low: Lowering, step: Step) -> None:
    """``brx.idx``: a jump through a table is a chain of branches."""
    index, named = step.ins.operands
    targets = step.scope.named(named)
    if not isinstance(targets, tree.Targets):
        raise KernelError("a jump through a table needs .branchtargets", given=str(named), at=step.at)
    value, after = read(low, index, step, UINT32), low.new()
    _guarded(low, step, after)
    for number, name in enumerate(targets.names):
        following = low.new()
        low.end(ir.Branch(value == number, _target(tree.Name(name), step), following, at=step.at), following)
    low.end(ir.Exit(at=step.at), after)


def clear(low: Lowering, step: Step) -> None:
    """``st.bulk``: bytes of shared memory become 0, eight at a time."""
    low.check_target(step.ins.mnemonic, since("sm_100"))
    address, size, _ = step.ins.operands
    assert isinstance(address, tree.Address)
    space = "shared" if "shared::cta" in step.ins.modifiers else ""
    after, head, inside = low.new(), low.new(), low.new()
    _guarded(low, step, after)
    start = number_of(pointer(low, address, step, space), space)
    at, end = ir.Var(low.fresh("cleared"), start.dtype), ir.Var(low.fresh("end"), start.dtype)
    low.add([ir.Assign(at, start, at=step.at), ir.Assign(end, at + read(low, size, step, start.dtype), at=step.at)])
    low.end(ir.Jump(head, at=step.at), head)
    low.end(ir.Branch(at < end, inside, after, at=step.at), inside)
    low.add([stored(low, at, [ir.const(0, UINT64)], UINT64, space, step.at), ir.Assign(at, at + 8, at=step.at)])
    low.end(ir.Jump(head, at=step.at), after)


def _guarded(low: Lowering, step: Step, after: int) -> None:
    """Begin a block for the lanes of the guard; the others go on at ``after``."""
    if step.guard is not None:
        inside = low.new()
        low.end(ir.Branch(step.guard, inside, after, at=step.at), inside)


# Calls. A function is inlined at each of its calls, unless it may call itself.


def call(low: Lowering, step: Step) -> None:
    """``call (results), function, (arguments)``"""
    low.calls += 1
    if low.calls > MOST_CALLS:
        raise KernelError("its text makes too many calls", allowed=f"{MOST_CALLS}", at=step.at, kind="limit")
    after = low.new()
    _guarded(low, step, after)
    results, callee, arguments = tree.call_parts(step.ins)
    target = lookup(low, callee.text, step.scope)
    results, arguments = (tuple(_by_part(operand, step)) for operand in (results, arguments))
    if isinstance(target, tree.Function) and target.body is not None:
        _called(low, _of_parts(target), results, arguments, step)
    elif isinstance(target, ir.Var):
        _through_pointer(low, target, results, arguments, step)
    elif callee.text in OUTSIDE:
        low.add(OUTSIDE[callee.text](low, arguments, step))
    else:
        reason = REFUSED.get(callee.text, "a function whose body is somewhere else")
        raise UnsupportedError(f"a call of {callee.text} is not supported", given=reason, at=step.at)
    low.end(ir.Jump(after, at=step.at), after)


def _through_pointer(
    low: Lowering, pointer: ir.Var, results: Sequence[tree.Operand], arguments: Sequence[tree.Operand], step: Step
) -> None:
    """A call through a pointer: a branch on the pointer for each function whose address is taken."""
    after = low.new()
    listed = step.scope.named(step.ins.operands[-1])
    names = listed.names if isinstance(listed, tree.Targets) else low.module.addressed
    for name in names:
        function = _of_parts(low.module.function_of[name])
        if (len(function.params), len(function.returns)) != (len(arguments), len(results)):
            continue
        inside, following = low.new(), low.new()
        cond = pointer == ir.const(low.function_address(function), UINT64)
        low.end(ir.Branch(cond, inside, following, at=step.at), inside)
        _called(low, function, results, arguments, step)
        low.end(ir.Jump(after, at=step.at), following)
    low.add(
        [ir.Evaluate(element(low, pointer, UINT8), at=step.at)]
    )  # no memory is there, which a check of bounds tells
    low.add(OUTSIDE["trap"](low, (), step))
    low.end(ir.Exit(at=step.at), after)


def _of_parts(function: tree.Function) -> tree.Function:
    """A function whose parameters and results are single registers, and variables: a vector of registers is several."""
    wide = any(variable.space == "reg" and lanes_of(variable) > 1 for variable in (*function.params, *function.returns))
    return replace(function, params=_split(function.params), returns=_split(function.returns)) if wide else function


def _split(variables: Sequence[tree.Variable]) -> tuple[tree.Variable, ...]:
    return tuple(
        replace(var, type=var.type.replace("b128", "b64"), name=name, vector=1) if name != var.name else var
        for var in variables
        for name in (part_names(var.name, lanes_of(var)) if var.space == "reg" and lanes_of(var) > 1 else (var.name,))
    )


Operands: TypeAlias = Sequence[tree.Operand]


def _by_part(operands: Operands, step: Step) -> Iterator[tree.Operand]:
    """Operands of a call, of vectors of registers their parts."""
    for operand in operands:
        spread = step.scope.spread(operand)
        yield from spread.parts if isinstance(spread, tree.Vector) else (spread,)


def _called(low: Lowering, function: tree.Function, results: Operands, arguments: Operands, step: Step) -> None:
    """Lower a call of a function: its body takes the place of the call, unless the function may call itself."""
    if function.name not in low.module.cycles:
        _inline(low, function, results, arguments, step)
        return
    lowered = low.stack.lowered
    is_inside = bool(lowered) and function.name in lowered[-1].names
    if not is_inside:
        lowered.append(Cycle(low, low.module.cycles[function.name]))
        low.stack.cycles.append(lowered[-1])
    site, places = lowered[-1].call(function, step)
    for param, operand in zip(function.params, arguments, strict=True):
        symbol = step.scope.named(operand)
        source = symbol if isinstance(symbol, Memory) and param.space == "param" else None
        _copied(low, param, places[param.name], source or read(low, operand, step, register_dtype(param.type)), step)
    lowered[-1].go(site, function, step)
    if not is_inside:
        lowered[-1].finish(step)
        lowered.pop()
    for result, operand in zip(function.returns, results, strict=True):
        symbol = step.scope.named(operand)
        if isinstance(symbol, Memory):
            _copied(low, result, symbol, places[result.name], step)
        else:
            kind = raw_dtype(result.type)
            low.add(assigned(low, operand, element(low, places[result.name].at(), kind), step))


def _copied(low: Lowering, declared: tree.Variable, to: Memory, value: Memory | ir.Expr, step: Step) -> None:
    """Copy a parameter or result to another place."""
    if not isinstance(value, Memory):
        kind = raw_dtype(declared.type)
        low.add([stored(low, to.at(), [ir.cast(value, kind)], kind, "local", step.at)])
        return
    width = gcd(max(declared.align, element_bytes(declared.type)), nbytes(declared), 8)
    kind = unsigned(8 * width)
    low.add([
        stored(low, to.at(offset), [element(low, value.at(offset), kind)], kind, "local", step.at)
        for offset in range(0, nbytes(declared), width)
    ])  # fmt: skip


def _inline(low: Lowering, function: tree.Function, results: Operands, arguments: Operands, step: Step) -> None:
    """The body of a function in the place of a call."""
    inner = Scope(None, f"__{low.fresh('call')}")
    for param, operand in zip(function.params, arguments, strict=True):
        inner.symbols[param.name] = _passed(low, param, operand, inner, step)
    for result, operand in zip(function.returns, results, strict=True):
        inner.symbols[result.name] = _place_of_result(low, result, operand, inner, step)
    inner.gather(tuple(inner.symbols))
    after = low.new()
    before = ir.Var(low.fresh("used"), UINT32)
    if allocates(function):
        low.add([ir.Assign(before, low.room_used, at=step.at)])
    with low.lines.inlined():
        low.lower_body(low, function.body or (), inner, after)
        low.end(ir.Jump(after, at=step.at), after)
    if allocates(function):
        low.add([ir.Assign(low.room_used, before, at=step.at)])
    for result, operand in zip(function.returns, results, strict=True):
        if isinstance(step.scope.named(operand), ir.Var):
            symbol = inner.symbols[result.name]
            low.add(assigned(low, operand, symbol if isinstance(symbol, ir.Var) else _whole(low, symbol, result), step))


def _passed(low: Lowering, param: tree.Variable, operand: tree.Operand, inner: Scope, step: Step) -> Symbol:
    """The value of a parameter: the caller's variable itself, or a copy of a register."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory) and param.space == "param":
        return symbol
    place = _place_of_result(low, param, operand, inner, step)
    value = read(low, operand, step, register_dtype(param.type))
    if isinstance(place, ir.Var):
        low.add([ir.Assign(place, value, at=step.at)])
    else:
        low.add([ir.Store(_whole(low, place, param), ir.cast(value, raw_dtype(param.type)), at=step.at)])
    return place


def _place_of_result(low: Lowering, result: tree.Variable, operand: tree.Operand, inner: Scope, step: Step) -> Symbol:
    """The place of a result: the caller's variable itself, a register, or a variable of its own."""
    symbol = step.scope.named(operand)
    if isinstance(symbol, Memory) and result.space == "param":
        return symbol
    if result.space == "reg":
        return ir.Var(identifier(result.name, inner.suffix), register_dtype(result.type))
    return variable(low, replace(result, space="local"), inner)


def _whole(low: Lowering, symbol: Symbol, declared: tree.Variable) -> ir.Load:
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
