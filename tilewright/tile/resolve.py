"""The pass that replaces every tile call by the body that the chosen variant writes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright import ir, isa
from tilewright.errors import DispatchError, Span, TilewrightError, choices, warn
from tilewright.ir import Assume, Bind, Body, For, If, Kernel, Region, Stmt, While, as_expr
from tilewright.ir.debts import owing
from tilewright.ir.ranges import RangeFacts
from tilewright.primitives import PRIMITIVES
from tilewright.records import NotebookText
from tilewright.tile.builder import Builder, FreshNames, Preparations
from tilewright.tile.call import TileCall, call_name, checked, side_of, without_clip
from tilewright.tile.dispatch import Chosen, Tried, Widens, alike, check_keywords, choose
from tilewright.tile.passes import aligned, with_variables
from tilewright.tile.scope import ControlFlow, MeetingPlaces, Reach

if TYPE_CHECKING:
    from tilewright.isa import Arch

# The report: for each tile call of a kernel the variant that took it, and why others did not.


@dataclass(frozen=True, slots=True)
class Entry:
    """One tile call. call: as the kernel has it. variant: the chosen one; plan: its decision in a few words. tried: the
    variants before it, each with its reason and, for a near miss, a change of the call that makes it fit. widened: a
    change of the call that makes the chosen variant move more at a time.
    """

    at: Span | None
    primitive: str
    call: str
    scope: str
    variant: str
    plan: str
    tried: tuple[Tried, ...] = ()
    widened: str | None = None

    @property
    def line(self) -> int:
        """The kernel's line, 0 if it is not known."""
        return self.at.line if self.at else 0

    @property
    def hints(self) -> tuple[str, ...]:
        """Changes with which a better variant would have taken the call; if there are none, the chosen one's."""
        better = tuple(attempt.hint for attempt in self.tried if attempt.hint)
        return better or ((self.widened,) if self.widened else ())

    def __str__(self) -> str:
        head = f"{self.at}: {self.call}" if self.at else self.call
        lines = [head, f"  {self.primitive}/{self.variant}: {self.plan}"]
        lines += [f"    try: {self.widened}"] if self.widened else []
        for names, attempt in alike(self.tried, "reason", "hint"):
            lines.append(f"  not {names}: {attempt.reason}")
            lines += [f"    try: {attempt.hint}"] if attempt.hint else []
        return "\n".join(lines)

    __repr__ = __str__


def entry_of(call: TileCall, chosen: Chosen) -> Entry:
    """The entry of one call."""
    stmt, plan = call.stmt, chosen.plan
    widened = plan.widened if isinstance(plan, Widens) else None
    return Entry(
        stmt.at, stmt.primitive, call.text, stmt.scope, chosen.variant.name, plan.summary(), chosen.tried, widened
    )


@dataclass(frozen=True, slots=True)
class DispatchReport(NotebookText):
    """The entries of a kernel's tile calls, in the order of the kernel, for a target."""

    entries: tuple[Entry, ...] = ()
    kernel: str = ""
    target: str = ""

    def __str__(self) -> str:
        title = [f"{self.kernel} for {self.target}"] if self.kernel else []
        return "\n".join([*title, *(map(str, self.entries) if self.entries else ["no tile calls"])])

    __repr__ = __str__


def resolve(kernel: Kernel, arch: Arch | str) -> tuple[Kernel, DispatchReport]:
    """The kernel without tile calls, and the report on how each was carried out.

    Before: tile calls are nodes. After: each is a comment and the chosen variant's statements, on flat storage, at the
    call's line. Raises DispatchError for a call that no variant takes, a forced variant that does not fit, and a
    collective that control flow keeps from some of its threads.
    """
    target = isa.arch(arch) if isinstance(arch, str) else arch
    kernel = aligned(with_variables(kernel))
    if not any(isinstance(stmt, ir.TileCallStmt) for stmt in ir.statements(kernel.body)):
        return kernel, DispatchReport((), kernel.name, str(target))
    resolver = _Resolver(kernel, target)
    body = resolver.body(kernel.body, resolver.control.everyone(), RangeFacts.of_kernel(kernel))
    maps = resolver.preparations.maps.values()
    resolved = replace(
        kernel,
        body=resolver.meeting.placed(resolver.preparations.placed(body)),
        buffers=(*kernel.buffers, *(buffer for _, buffer in maps)),
        maps=(*kernel.maps, *(tensor_map for tensor_map, _ in maps)),
    )
    return resolved, DispatchReport(tuple(resolver.entries), kernel.name, str(target))


class _Resolver:
    """One walk over a kernel, which knows the threads of each statement. (Mutable: collects the report.)"""

    def __init__(self, kernel: Kernel, arch: Arch) -> None:
        self.arch = arch
        self.arguments = frozenset(var.name for var in (*kernel.params, *kernel.symbols))
        self.control = ControlFlow(kernel)
        self.names = FreshNames(kernel)
        self.preparations = Preparations()
        self.meeting = MeetingPlaces(kernel, self.control)
        self.changing = ir.assigned(kernel.body)
        self.entries: list[Entry] = []

    def body(self, body: Body, reach: Reach, facts: RangeFacts) -> Body:
        result: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, ir.TileCallStmt):
                result += self.call(stmt, reach, facts)
            else:
                result.append(self.around(stmt, reach, facts))
            reach = self.control.after(reach, stmt)
            if isinstance(stmt, Bind) and stmt.var.name not in self.changing:
                facts = facts.with_binding(stmt.var, stmt.value)
            elif isinstance(stmt, Assume):
                facts = facts.with_condition(stmt.cond)
        return tuple(result)

    def around(self, stmt: Stmt, reach: Reach, facts: RangeFacts) -> Stmt:
        """A statement with the tile calls inside it resolved."""
        if isinstance(stmt, If):
            then = self.control.behind(reach, stmt.cond, stmt.at, taken=True)
            orelse = self.control.behind(reach, stmt.cond, stmt.at, taken=False)
            return replace(
                stmt,
                then=self.body(stmt.then, then, facts.with_condition(stmt.cond)),
                orelse=self.body(stmt.orelse, orelse, facts),
            )
        if isinstance(stmt, For):
            inside = facts.with_loop(stmt.var, stmt.start, stmt.stop, stmt.step)
            return replace(stmt, body=self.body(stmt.body, self.control.inside(reach, stmt), inside))
        if isinstance(stmt, While):
            return replace(stmt, body=self.body(stmt.body, self.control.inside(reach, stmt), facts))
        return stmt

    def call(self, stmt: ir.TileCallStmt, reach: Reach, facts: RangeFacts) -> Body:
        """The statements that carry out one tile call."""
        try:
            call = self.context(stmt, reach, facts)
            chosen = self.chosen(call, reach, facts)
            out = Builder(self.names, stmt.at, facts, self.preparations, self.meeting)
            label = f"{stmt.primitive}/{chosen.variant.name}"
            out.comment(f"{label} ({stmt.at})" if stmt.at else label)
            chosen.write(call, out)
        except TilewrightError as error:
            raise error.located(stmt.at) from None
        self.entries.append(entry_of(call, chosen))
        _warn_of_repetition(call)
        body = out.body
        for operand, side in call.operands:
            leaves = operand.role.may_leave(dict(call.config))
            body = owing(body, side.region, facts, call_name(stmt), operand.role.asking, leaves=leaves)
        return body

    def chosen(self, call: TileCall, reach: Reach, facts: RangeFacts) -> Chosen:
        """The variant that takes a call. An error for a call by one thread says which scope would be taken."""
        try:
            return choose(call)
        except DispatchError as error:
            wider = ("cta", "warpgroup", "warp") if call.stmt.scope == "thread" and error.hint is None else ()
            for stmt in (replace(call.stmt, scope=scope) for scope in wider):
                with suppress(TilewrightError):
                    choose(self.context(stmt, reach, facts))
                    error.hint = f"{call_name(stmt)}(...): as it stands, each thread makes the call by itself"
                    break
            raise

    def context(self, stmt: ir.TileCallStmt, reach: Reach, facts: RangeFacts) -> TileCall:
        """The call as variants see it, checked."""
        name = call_name(stmt)
        if stmt.primitive not in PRIMITIVES:
            names = choices(stmt.primitive, PRIMITIVES)
            raise DispatchError(f"{name} is no tile primitive", given=stmt.primitive, allowed=names)
        row = PRIMITIVES[stmt.primitive]
        check_keywords(stmt)
        pairs = zip(stmt.args, row.operands, strict=False)
        fits = all(operand.role.admits(tile=isinstance(part, Region)) for part, operand in pairs)
        if not fits or not row.required <= len(stmt.args) <= len(row.operands):
            passed, allowed = ", ".join(map(str, stmt.args)), f"{name}{row.signature}"
            raise DispatchError(f"{name} takes {' and '.join(stmt.names)}", given=passed, allowed=allowed)
        operands = {
            operand.name: part
            for operand, part in zip(row.operands, stmt.args, strict=False)
            if not (operand.role.absent and part == stmt.args[0])  # left out, with others behind it
        }
        operands |= {
            operand.name: stmt.args[0] if operand.default is None else as_expr(operand.default)
            for operand in row.operands[len(stmt.args) :]
            if not operand.absent
        }
        sides = {key: side_of(part, facts) for key, part in operands.items() if isinstance(part, Region)}
        scalars = {key: part for key, part in operands.items() if not isinstance(part, Region)}
        scope = self.control.scope(stmt.scope, reach, name)
        return without_clip(
            checked(TileCall(stmt, sides, scope, self.arch, facts, stmt.config, self.arguments, scalars))
        )


def _warn_of_repetition(call: TileCall) -> None:
    """Warn where several threads each work on all of one tile of a memory: one thread was meant, or a scope."""
    stored = next((side for side in call.written if side.space != "local"), None)
    if call.scope.kind != "thread" or stored is None:
        return
    count = call.scope.alike(stored.starts)
    if count > 1:
        name = call.stmt.primitive
        warn(
            f"{call_name(call.stmt)} is one thread's, and {count} threads each do all of it, on {stored}: "
            f"Tx.cta.{name} shares it out, `if T.thread_id() == 0:` leaves it to one",
            call.at,
        )
