"""Recursive functions: each function of a cycle of calls is lowered once, and a stack holds the frames of its calls.

The functions of a cycle make up a loop. At its head each thread jumps to the block that is its goal: a function that it
calls, or what follows a call that has returned. A frame of the stack holds the goal of the caller, the parameters, the
results and the variables of the function; behind the frame, a call saves the registers that are read later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright import ir, isa
from tilewright.dtypes import BOOL
from tilewright.ir import binary, cast, const, statements
from tilewright.ir.flow import live_before
from tilewright.ptx.bits import raw_dtype
from tilewright.ptx.names import Memory, Scope, element_bytes, identifier, nbytes, register_dtype
from tilewright.ptx.state import CLOCK, UINT8, UINT32, Lowering, Step
from tilewright.ptx.tree import Body, Function, Variable
from tilewright.ptx.values import element, stored

STACK_BYTES = 1 << 15  # the stack of one thread
SAVED_BYTES = 8  # that a register takes on the stack
ALIGN = 16  # each frame begins at a multiple of so many bytes
WriteBody = Callable[[Lowering, Body, Scope, int | None], None]


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
        low.allocated.append(ir.AllocBuffer(self.buffer, at=low.lines.current))

    def begin(self) -> list[ir.Stmt]:
        """The statements that come first in the kernel: the stack is empty."""
        return [ir.Assign(self.top, const(0, UINT32)), ir.Assign(self.depth, const(0, UINT32))]

    def word(self, offset: int) -> Memory:
        """The place that lies so many bytes behind the start of the current frame."""
        return Memory(self.buffer, start=self.top, offset=offset)


class Frame:
    """The places that the variables of a function have on the stack, in bytes from where its frame begins."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.used = stack, SAVED_BYTES  # the caller's goal comes first
        self.size = self.used

    def place(self, declared: Variable) -> Memory:
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

    function: Function
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

    def instance(self, function: Function) -> Instance:
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

    def call(self, function: Function, step: Step) -> tuple[Site, Mapping[str, Memory]]:
        """Begin a call. Returns it, and where its parameters and results will lie: behind the caller's frame."""
        low = self.low
        site = Site(low.new(), low.new(), low.frame, ir.Var(low.fresh("room"), UINT32))
        self.sites.append(site)
        self.following[site.block] = (site.back,)
        low.end(ir.Jump(site.block, at=step.at), site.block)
        start = binary("+", low.stack.top, site.room)
        places = self.instance(function).places
        return site, {name: replace(place, start=start) for name, place in places.items()}

    def go(self, site: Site, function: Function, step: Step) -> None:
        """Emit the call itself. The code after it takes the results."""
        low, stack, instance = self.low, self.low.stack, self.instance(function)
        low.add([
            ir.Assign(stack.top, binary("+", stack.top, site.room), at=step.at),
            ir.Assign(stack.depth, binary("+", stack.depth, const(1, UINT32)), at=step.at),
        ])  # fmt: skip
        back = const(self._target(site.back), UINT32)
        low.add([stored(low, stack.word(0).at(), [back], UINT32, "local", step.at)])
        low.add([ir.Assign(self.goal, const(instance.goal, UINT32), at=step.at)])
        low.end(ir.Jump(self.head, at=step.at), site.back)

    def finish(self, body: WriteBody, step: Step) -> None:
        """Lower the functions that are called, and the head of the loop. The block that is open comes after it."""
        low = self.low
        behind, before, here = low.open, low.frame, low.lines.current
        while self.waiting:
            self._function(self.waiting.pop(), body, step)
        low.frame, low.lines.current = before, here
        for instance in self.instances.values():
            self._turn_at_head(self.targets[instance.goal])
        low.open = self.head
        for number, block in enumerate(self.targets[:-1]):
            following = low.new()
            low.end(ir.Branch(binary("==", self.goal, const(number, UINT32)), block, following, at=step.at), following)
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
                goal = const(self._target(first), UINT32)
                self.following[new] = (first,)
                self.low.ended[new] = ir.Block((ir.Assign(self.goal, goal, at=end.at),), ir.Jump(self.head, at=end.at))
                turned = end.renumbered(lambda way, first=first, new=new: new if way == first else way)  # type: ignore[misc]
                self.low.ended[last] = replace(self.low.ended[last], end=turned)

    def _function(self, instance: Instance, body: WriteBody, step: Step) -> None:
        low, function = self.low, instance.function
        low.frame, low.open = instance.frame, self.targets[instance.goal]
        scope, leave = Scope(None, f"__{self.goal.name}_{instance.goal}"), low.new()
        for variable in (*function.params, *function.returns):
            symbol = instance.places[variable.name]
            if variable.space != "reg":
                scope.symbols[variable.name] = symbol
                continue
            register = ir.Var(identifier(variable.name, scope.suffix), register_dtype(variable.type))
            scope.symbols[variable.name] = register
            if variable in function.params:
                kind = raw_dtype(variable.type)
                low.add([ir.Assign(register, cast(element(low, symbol.at(), kind), register.dtype), at=step.at)])
        scope.gather(tuple(scope.symbols))
        body(low, function.body or (), scope, leave)
        low.end(ir.Jump(leave, at=step.at), leave)
        for result in function.returns:
            register_of = scope.symbols[result.name]
            if isinstance(register_of, ir.Var):
                kind = raw_dtype(result.type)
                at, value = instance.places[result.name].at(), cast(register_of, kind)
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


# What calls save


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
        changed = {stmt.var for block in inside for stmt in statements(block.body)
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
    call = isa.call("cuda.out_of_stack", instance.function.name, stack.depth, const(STACK_BYTES, UINT32))
    full = binary(">=", stack.top, const(max(0, last), UINT32))
    low.ended[entry] = replace(block, body=(ir.If(full, (ir.Evaluate(call, at=at),), at=at), *block.body))


def _complete(low: Lowering, site: Site, saved: Sequence[ir.Var]) -> int:
    """Make a call save registers and the block after it restore them. Returns the bytes between the two frames."""
    stack, begin = low.stack, site.frame.room if site.frame else 0
    room = const(-(-(begin + SAVED_BYTES * len(saved)) // ALIGN) * ALIGN, UINT32)
    call, back = low.ended[site.block], low.ended[site.back]
    assert call.end.at is not None
    places = [stack.word(begin + SAVED_BYTES * number).at() for number in range(len(saved))]
    kinds = [UINT32 if var.dtype == BOOL else var.dtype for var in saved]
    at = call.end.at
    saves = [stored(low, place, [cast(var, kind)], kind, "local", at)
             for place, var, kind in zip(places, saved, kinds, strict=True)]  # fmt: skip
    low.ended[site.block] = ir.Block((ir.Assign(site.room, room, at=at), *saves, *call.body), call.end)
    first = [
        ir.Assign(site.room, room, at=at),
        ir.Assign(stack.top, binary("-", stack.top, room), at=at),
        ir.Assign(stack.depth, binary("-", stack.depth, const(1, UINT32)), at=at),
        *(ir.Assign(var, cast(element(low, place, kind), var.dtype), at=at)
          for place, var, kind in zip(places, saved, kinds, strict=True)),
    ]  # fmt: skip
    low.ended[site.back] = ir.Block((*first, *back.body), back.end)
    return int(room.value)
