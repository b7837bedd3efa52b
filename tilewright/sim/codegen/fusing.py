"""Finding runs of matrix products among a kernel's statements, for `tilewright.sim.fast.products` to do all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.isa import Bound, bind
from tilewright.sim.codegen.addressing import owes, place_of, terms_of
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.substitution import own_register
from tilewright.sim.codegen.values import acts, given_in, names_in, read_by
from tilewright.sim.fast.copies import is_load, says_no_memory
from tilewright.sim.fast.products import Fragments, ProductRun

if TYPE_CHECKING:
    from tilewright.isa.mma import MatrixProduct
    from tilewright.sim.codegen.source import Emitter
    from tilewright.sim.machine import Place

OPERANDS = "abcd"
MOST_BETWEEN = 128  # statements of a run of loads
INTO_SHARED = ("global", "shared")
MOST_TURNS = 32  # of a loop, that are done at once


@dataclass(frozen=True, slots=True)
class Copied:
    """A value that is loaded from one place, and stored at another one."""

    load: ir.Bind
    source: ir.Load
    store: ir.Store

    @property
    def sides(self) -> tuple[tuple[ir.Stmt, ir.Load], ...]:
        """Both statements, and the place that each accesses."""
        return (self.load, self.source), (self.store, self.store.place)


@dataclass(frozen=True, slots=True)
class ProductKind:
    """What the products of a run have in common. places: of A, B and of C and D."""

    name: str
    product: MatrixProduct
    places: tuple[Place, Place, Place]


@dataclass(frozen=True, slots=True)
class _Starts:
    """Where the products of some statements start. text: items of a Python tuple; free: variables that it mentions."""

    kind: ProductKind
    text: str
    free: frozenset[str]
    is_several: bool


def loads(emitter: Emitter, body: ir.Body) -> tuple[int, list[ir.Stmt]]:
    """How many statements a body begins with that load matrices, or compute between two of them, at least 1; and those
    of them that read what was loaded, and may do so behind all of the loads.
    """
    length, reads, behind = 1, list[ir.Bind](), list[ir.Stmt]()
    for number, stmt in enumerate(body[:MOST_BETWEEN]):
        is_register = number > 0 and isinstance(stmt, ir.Bind) and own_register(stmt.value) is not None
        names = {read.var.name for read in reads}
        if not names.isdisjoint(names_in(read_by(stmt)) | {assigned.var.name for assigned in given_in((stmt,))}):
            break
        if is_load(stmt) and not any(_may_fail(emitter, node) for node in ir.expressions(stmt)):
            buffers = {node.buffer.name for node in ir.expressions(stmt) if isinstance(node, (ir.Load, ir.AddressOf))}
            if any(own_register(read.value) in buffers for read in reads):
                break
            length, behind = number + 1, [*reads]
        elif is_register and isinstance(stmt, ir.Bind):
            reads.append(stmt)
        elif number == 0 or not _computes(emitter, stmt):
            break
    return length, behind


def copies(emitter: Emitter, body: ir.Body) -> tuple[int, list[Copied]]:
    """How many statements a body begins with that copy values which nothing else reads, or compute in between; and the
    copies. From global to shared memory there are several, of one line, whose stores may take place behind all of the
    loads; from shared to global memory one.
    """
    waiting: dict[str, tuple[ir.Bind, ir.Load]] = {}
    pairs: list[Copied] = []
    longest: tuple[int, list[Copied]] = (0, [])
    for number, stmt in enumerate(body[:MOST_BETWEEN]):
        if isinstance(stmt, ir.Store) and isinstance(stmt.value, ir.Var) and stmt.value.name in waiting:
            pairs.append(Copied(*waiting.pop(stmt.value.name), stmt))
            spaces = _spaces(emitter, pairs[-1])
            if (pairs[0].load.at, pairs[0].store.at) != (pairs[-1].load.at, stmt.at) or not spaces:
                break
            if not waiting:
                longest = number + 1, [*pairs]
            if spaces != INTO_SHARED:
                break
        elif (
            isinstance(stmt, ir.Bind)
            and isinstance(stmt.value, ir.Load)
            and _passes_on(emitter, stmt.var.name, stmt.value)
        ):
            waiting[stmt.var.name] = stmt, stmt.value
        elif number == 0 or not _computes(emitter, stmt):
            break
    return longest


def _spaces(emitter: Emitter, pair: Copied) -> tuple[str, ...]:
    """The memories of a copy that may be done at once: the buffer in shared memory is known before the kernel runs."""
    buffers = pair.source.buffer, pair.store.place.buffer
    spaces = tuple(buffer.space for buffer in buffers)
    if spaces not in (INTO_SHARED, INTO_SHARED[::-1]) or pair.source.dtype != pair.store.place.dtype:
        return ()
    place = place_of(emitter, ir.AddressOf(buffers[spaces.index("shared")], ()))
    return spaces if place is not None and place.space == "shared" and place != emitter.places.arena else ()


def _passes_on(emitter: Emitter, name: str, load: ir.Load) -> bool:
    """Is a value loaded for one other statement, at an address that no check looks at before?"""
    if name not in emitter.program.passed_on or load.dtype.bits < 8 or owes(load):
        return False
    return not any(acts(node) or _may_fail(emitter, node) for node in ir.walk((load.indices, load.buffer.data)))


def is_loop_of_turns(emitter: Emitter, loop: ir.For) -> bool:
    """Is it a loop (or a nest) of few turns that may be done at once: each is one load of matrices, or one copy from
    global to shared memory, at addresses that depend on no memory?
    """
    turns = 1
    stmt: ir.Stmt = loop
    while isinstance(stmt, ir.For):
        start, stop = ir.const_value(stmt.start), ir.const_value(stmt.stop)
        inner = [nested for nested in stmt.body if not isinstance(nested, (ir.Attr, ir.DeclBuffer))]
        if start is None or stop is None or len(inner) != 1:
            return False
        turns *= len(range(int(start), int(stop), stmt.step))
        (stmt,) = inner
    if turns > MOST_TURNS or not isinstance(stmt, ir.Evaluate) or not isinstance(stmt.value, ir.Call):
        return False
    return is_load(stmt) or (is_fill(emitter, bound := bind(stmt.value)) and _is_certain(emitter, bound))


def is_fill(emitter: Emitter, bound: Bound) -> bool:
    """Is it a copy from a buffer in global memory to one in shared memory?"""
    if not bound.form.is_copy or bound.form.issue:
        return False
    places = [place_of(emitter, bound.operands[access.operand][0]) for access in bound.form.accesses]
    return [place and place.space for place in places] == ["global", "shared"]


def _is_certain(emitter: Emitter, bound: Bound) -> bool:
    """Are the addresses of a copy known before it, and is nothing left to check?"""
    pointers = [bound.operands[access.operand][0] for access in bound.form.accesses]
    may_fail = any(_may_fail(emitter, node) for node in ir.walk(tuple(pointers)))
    return says_no_memory(*pointers) and not may_fail and not any(map(owes, pointers))


def _computes(emitter: Emitter, stmt: ir.Stmt) -> bool:
    """Does a statement only compute, without a look at memory or at a check?"""
    if not isinstance(stmt, (ir.Assign, ir.Bind, ir.Evaluate)):
        return False
    nodes = ir.walk(stmt.value)
    return not any(acts(node) or _may_fail(emitter, node) for node in nodes)


def _may_fail(emitter: Emitter, node: ir.Expr) -> bool:
    """May a check report what is computed?"""
    unknown = isinstance(node, ir.Var) and node.name in emitter.program.shadowed
    return unknown or emitter.is_checked(node) or emitter.program.may_be_open(node)


class Fusing:
    """Looks at statements for one emitter of a segment."""

    def __init__(self, emitter: Emitter, mask: str) -> None:
        self.emitter = emitter
        self.mask = mask

    def at(self, body: ir.Body, first: int) -> tuple[int, str] | None:
        """The longest run of products from a statement of a body on: how many statements, and the text of a condition
        that holds once they have been done at once. None where there are not two products.
        """
        run: list[_Starts] = []
        length = 0
        for k, stmt in enumerate(body[first:]):
            if isinstance(stmt, (ir.Attr, ir.DeclBuffer)) and run:
                continue
            starts = self._starts(stmt)
            if starts is None or (run and starts.kind != run[0].kind):
                break
            run.append(starts)
            length = k + 1
        if not run or (len(run) == 1 and not run[0].is_several):
            return None
        return length, self._call(run)

    def _call(self, run_starts: list[_Starts]) -> str:
        program, kind = self.emitter.program, run_starts[0].kind
        left, right, total = kind.places
        product = kind.product
        run = ProductRun(
            Fragments(left, product.left, product.left_kind),
            Fragments(right, product.right, product.right_kind),
            Fragments(total, product.total, "float32"),
            program.with_shadows,
            program.add_tally(kind.name),
        )
        names = sorted(frozenset().union(*(start.free for start in run_starts)))
        key = "".join(f"{self.emitter.variable(name)}, " for name in names)
        starts = "".join(start.text for start in run_starts)
        return f"{self.emitter.out.constant('X', run)}({self.mask}, ({key}), lambda: ({starts}))"

    # One statement

    def _starts(self, stmt: ir.Stmt) -> _Starts | None:
        if isinstance(stmt, ir.For):
            return self._loop(stmt)
        if isinstance(stmt, ir.Evaluate) and isinstance(stmt.value, ir.Call):
            bound = bind(stmt.value)
            product = bound.form.meaning.product(bound.mods) if bound.form.meaning.product else None
            return self._call_starts(bound, product) if product is not None else None
        return None

    def _loop(self, loop: ir.For) -> _Starts | None:
        """A loop with constant bounds around nothing but products of one kind."""
        bounds = ir.const_value(loop.start), ir.const_value(loop.stop)
        inner = [self._starts(stmt) for stmt in loop.body if not isinstance(stmt, (ir.Attr, ir.DeclBuffer))]
        if None in bounds or not inner or inner[0] is None:
            return None
        kind, text, free = inner[0].kind, "", frozenset[str]()
        for start in inner:
            if start is None or start.kind != kind:
                return None
            text += start.text
            free |= start.free
        turns = f"range({bounds[0]}, {bounds[1]}, {loop.step})"
        item = f"*(x for {self.emitter.variable(loop.var.name)} in {turns} for x in ({text})), "
        return _Starts(kind, item, free - {loop.var.name}, True)

    def _call_starts(self, bound: Bound, product: MatrixProduct) -> _Starts | None:
        places, texts = [], []
        free: set[str] = set()
        for name in OPERANDS:
            start = self._start(bound.operands[name])
            if start is None:
                return None
            places.append(start[0])
            texts.append(start[1])
            free |= start[2]
        a, b, c, d = places
        if c != d:
            return None
        kind = ProductKind(bound.instruction.name, product, (a, b, d))
        return _Starts(kind, f"({', '.join(texts)}), ", frozenset(free), False)

    def _start(self, registers: tuple[ir.Expr, ...]) -> tuple[Place, str, set[str]] | None:
        """The buffer, the text of the first register's address, and its variables, of registers side by side."""
        pointers = [ir.AddressOf(reg.buffer, reg.indices) if isinstance(reg, ir.Load) else reg for reg in registers]
        if not all(isinstance(ptr, ir.AddressOf) and self.emitter.axes.of(ptr) == UNIFORM for ptr in pointers):
            return None
        nodes = [node for pointer in pointers for node in ir.walk(pointer)]
        names = names_in(nodes)
        if any(isinstance(node, (ir.Load, ir.Call)) for node in nodes) or names & self.emitter.program.shadowed:
            return None
        sums = [terms_of(self.emitter, pointer, self.mask) for pointer in pointers]
        place, terms = sums[0]
        if place is None or place.space != "local" or terms.groups:
            return None
        for k, (other, more) in enumerate(sums):
            if other != place or more.uniform != terms.uniform or more.constant != terms.constant + 4 * k:
                return None
        return place, " + ".join([str(terms.constant), *terms.uniform]), names
