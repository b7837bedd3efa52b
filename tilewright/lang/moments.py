"""When a value was read: a name, a tuple or a parameter holds what a read gave where it was written.

An expression of a kernel is text that runs where a statement uses it. That is the moment of the read itself as long as
nothing in between changes what it reads. Where something does, the value is bound at its own moment (``old: T.let =
s[0]``), and every use of it means that binding. A call with an effect is bound where a second use, or a use elsewhere,
would repeat or move it; one whose value is never used is a statement where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tilewright import ir
from tilewright.errors import Span
from tilewright.ir import expressions, parts, substituted, walk
from tilewright.isa import bind
from tilewright.isa.table import ANY_LANES

MEMORY = frozenset({"global", "shared", "local"})
SHARED_WITH_OTHERS = frozenset({"global", "shared"})  # what other threads have changed, once a thread has met them


class OpenBlock(list[ir.Stmt]):
    """The statements of a block that is being built. reads: what was read in it.

    home: where its statements went instead; tried: what had been read in it until then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Read] = []
        self.home: tuple[OpenBlock, int] | None = None
        self.tried: list[Read] = []

    @property
    def has_bindings(self) -> bool:
        """Has a value that was read in this block been bound here?"""
        return any(read.kept is not None for read in self.reads)

    def dissolve(self, into: OpenBlock) -> None:
        """Its statements and reads belong to the end of another block."""
        self.home = (into, len(into))
        into += self
        into.reads += self.reads
        self.clear()
        self.tried, self.reads = self.reads, []


@dataclass(slots=True, eq=False)
class Read:
    """A value that depends on its moment: an element, a scalar that changes, a call, or a choice that holds one.

    changes: what it depends on, spaces of memory and names of scalars. tick: how many changes came before it; order:
    twice as many as reads did, so that a choice has room right after its parts. depth: how many loops of run time are
    around it. once: a call that must not be repeated or moved. effect: takes place even if the value is not used.
    name: of its binding.
    """

    node: ir.Expr
    block: OpenBlock
    index: int
    order: int
    tick: int
    depth: int
    at: Span | None
    changes: frozenset[str]
    once: bool = False
    effect: bool = False
    name: str = "old"
    uses: int = 0
    kept: ir.Var | None = None

    def place(self) -> tuple[OpenBlock, int]:
        """The block and the position in it where a binding of this value stands."""
        block, index = self.block, self.index
        while (home := block.home) is not None:
            block, index = home[0], home[1] + index
        return block, index


@dataclass(frozen=True, slots=True)
class Use:
    """A value in a statement. choice: the outermost ``select``, ``and`` or ``or`` that evaluates it or not.

    address: it is part of an index, which lowering may write twice.
    """

    read: Read
    choice: ir.Expr | None
    address: bool


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop of run time that is being parsed. uses: values from before it, which must not change in its rounds."""

    tick: int
    uses: list[Use] = field(default_factory=list)


class Moments:
    """The reads of a kernel, and what has changed since; mutable. unique: gives names that are free."""

    def __init__(self, unique: Callable[[str], str]) -> None:
        self._unique = unique
        self._reads: dict[int, Read] = {}
        self._changed: dict[str, int] = {}
        self._tick = 0
        self._loops: list[_Loop] = []
        self._kept = False
        self._alive: list[ir.Expr] = []  # keeps copies of nodes that were read alive, so that their ids are not reused

    # What happens.

    def read(self, node: ir.Expr, block: OpenBlock, at: Span | None) -> ir.Expr:
        """Take note of an element or a scalar that is read."""
        changes = {node.name} if isinstance(node, ir.Var) else {_space(node)} if isinstance(node, ir.Load) else set()
        self._heard(node, block, at, frozenset(changes))
        return node

    def called(self, call: ir.Call, block: OpenBlock, at: Span | None, *, effect: bool) -> None:
        """Take note of a call with a value."""
        changes, repeatable = _effects(call)
        if repeatable:
            return
        self._change(changes)
        read = self._heard(call, block, at, changes)
        read.once, read.effect, read.name = True, effect, call.op.rpartition(".")[2]

    def chosen(self, choice: ir.Expr, arms: Iterable[Read], block: OpenBlock, at: Span | None) -> None:
        """Take note of a choice: a call in an arm takes place as a part of it, once and where the choice stands."""
        effects = [read for read in arms if read.effect]
        for read in effects:
            read.effect = False
        if effects:
            choosing = self._heard(choice, block, at, frozenset().union(*(read.changes for read in effects)))
            choosing.once, choosing.effect, choosing.name = True, True, "chosen"

    def done(self, stmt: ir.Stmt) -> None:
        """Take note of a statement that takes place now."""
        if isinstance(stmt, ir.Assign):
            self._change({stmt.var.name})
        elif isinstance(stmt, ir.Store):
            self._change({_space(stmt.place)})
        elif isinstance(stmt, ir.TileCallStmt):
            self._change(MEMORY)
        elif isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call):
            self._change(_effects(stmt.value)[0])

    def _heard(self, node: ir.Expr, block: OpenBlock, at: Span | None, changes: frozenset[str]) -> Read:
        read = Read(node, block, len(block), 2 * len(self._reads), self._tick, len(self._loops), at, changes)
        self._reads[id(node)] = read
        block.reads.append(read)
        return read

    def _change(self, what: Iterable[str]) -> None:
        if what:
            self._tick += 1
            self._changed.update(dict.fromkeys(what, self._tick))

    @contextmanager
    def loop(self) -> Iterator[None]:
        """While a loop of run time is parsed, with what it evaluates in each round."""
        self._loops.append(_Loop(self._tick))
        try:
            yield
        finally:
            ended = self._loops.pop()
            for use in ended.uses:
                if any(self._changed.get(key, 0) > ended.tick for key in use.read.changes):
                    self._keep(use)

    # What is used.

    def name(self, value: object, name: str) -> None:
        """The name for a binding of ``value``, should it need one."""
        if (read := self._reads.get(id(value))) is not None:
            read.name = name

    def rebuilt(self, old: object, new: object) -> None:
        """``new`` is ``old`` with other parts: the same read."""
        if (read := self._reads.get(id(old))) is not None and isinstance(new, ir.Expr):
            self._reads[id(new)] = read
            self._alive.append(new)

    def settle(self, node: object, block: OpenBlock) -> None:
        """Judge every value in what is about to be a part of ``block``: one that is old is bound at its moment."""
        uses = list(self._uses(node))
        loads = [use.read.order for use in uses if isinstance(use.read.node, ir.Load)]
        for use in uses:
            read = use.read
            read.uses += 1
            if read.kept is not None:
                continue
            if self._has_moved(use, block, max(loads, default=0)) if read.once else self._is_old(read):
                self._keep(use)
            for loop in self._loops[read.depth :]:
                loop.uses.append(use)

    def _is_old(self, read: Read) -> bool:
        return any(self._changed.get(key, 0) > read.tick for key in read.changes)

    def _has_moved(self, use: Use, block: OpenBlock, last_load: int) -> bool:
        """Would the call happen twice, or elsewhere, or after something that came after it?"""
        read = use.read
        elsewhere = read.place()[0] is not block or read.depth < len(self._loops) or self._tick > read.tick
        return (
            read.uses > 1 or elsewhere or bool(read.changes and last_load > read.order) or (read.effect and use.address)
        )

    def _keep(self, use: Use) -> None:
        """Bind a value at its moment; with the whole choice around it where nothing happened in between."""
        read = use.read
        if use.choice is not None:
            inside = (part.read for part in self._uses(use.choice))
            last = max(inside, key=lambda part: part.order)
            if last.tick == read.tick:
                block, index = last.place()
                read = self._reads.get(id(use.choice)) or self._heard(use.choice, block, last.at, frozenset())
                read.index, read.order = index, last.order + 1
        if read.kept is None:
            read.kept = ir.Var(self._unique(read.name), read.node.dtype)
            self._kept = True

    def _uses(self, node: object) -> Iterator[Use]:
        """The values in a node; one that occurs more than twice comes twice."""
        nodes = walk(node) if isinstance(node, (ir.Expr, tuple, ir.Region)) else expressions(node)  # type: ignore[arg-type]  # a Stmt
        if self._reads.keys().isdisjoint(map(id, nodes)):
            return
        todo: list[tuple[object, ir.Expr | None, bool]] = [(node, None, False)]
        seen: Counter[tuple[int, int, bool]] = Counter()
        while todo:
            node, choice, address = todo.pop()
            key = (id(node), id(choice), address)
            seen[key] += isinstance(node, ir.Expr)
            if seen[key] > 2:
                continue
            if (read := self._reads.get(id(node))) is not None:
                yield Use(read, choice, address)
                if read.kept is not None:
                    continue
            todo += inside(node, choice, address)

    # The result.

    def merged(self, block: OpenBlock) -> None:
        """Put the bindings, and the calls whose values are not used, into a block that is complete."""
        late = [read for read in block.reads if read.kept is not None or (read.effect and not read.uses)]
        for read in sorted(late, key=lambda read: (read.place()[1], read.order), reverse=True):
            value = replace(read.node)  # type: ignore[type-var]  # every node is a dataclass; a copy is no use of itself
            stmt = ir.Evaluate(value, at=read.at) if read.kept is None else ir.Bind(read.kept, value, False, at=read.at)
            block.insert(read.place()[1], stmt)

    def resolved(self, body: ir.Body) -> ir.Body:
        """The body with every value that is bound under its name."""
        if not self._kept:
            return body
        return substituted(body, {key: read.kept for key, read in self._reads.items() if read.kept is not None})


def _space(place: ir.Load) -> str:
    return place.buffer.space.partition(".")[0]


def _effects(call: ir.Call) -> tuple[frozenset[str], bool]:
    """What a call changes, and whether it may be repeated or moved: a value that only its operands make."""
    bound = bind(call)
    form = bound.form
    changes: set[str] = set()
    for access in form.accesses:
        if access.write:
            changes |= MEMORY if access.space == "generic" else {access.space}
    if len(form.accesses) < len(form.effects):
        changes |= MEMORY if form.concerns_operations else SHARED_WITH_OTHERS
    if any(operand.written for operand in bound.instruction.operands):
        changes.add("local")
    repeatable = bound.instruction.lanes == ANY_LANES and not (changes or form.does_more_than_compute)
    return frozenset(changes), repeatable


def inside(node: object, choice: ir.Expr | None, address: bool) -> list[tuple[object, ir.Expr | None, bool]]:
    """The parts of a node with what is around them, the last one first."""
    if isinstance(node, ir.Store):  # the element itself is no value here
        return [
            (node.place.indices, choice, True),
            (node.place.buffer.data, choice, True),
            (node.value, choice, address),
        ]
    if isinstance(node, ir.Binary) and node.op in ir.Binary.LOGIC:
        return [(node.b, node if choice is None else choice, address), (node.a, choice, address)]
    if isinstance(node, ir.Select):
        around = node if choice is None else choice
        return [(node.b, around, address), (node.a, around, address), (node.cond, choice, address)]
    inner = address or isinstance(node, (ir.Load, ir.AddressOf, ir.Region, ir.Buffer))
    return [(part, choice, inner) for part in parts(node)]
