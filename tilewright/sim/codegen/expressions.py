"""From expressions to Python source over arrays, and calls of the instruction table: what they are given, and what they
write.

Sides of a `select`, ``and`` and ``or`` that touch memory run under a mask of their own, so that a guarded load is safe.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright import ir
from tilewright.dtypes import VOID, DType
from tilewright.ir import AddressOf, Call, Expr, Load, const_value
from tilewright.ir.operators import DIVISIONS, MODULAR, OPERATORS
from tilewright.isa import KINDS, WARPGROUP, WHOLE_WARP, Bound, ProxyFence, bind
from tilewright.isa import Operand as Row
from tilewright.isa.arith import cast
from tilewright.isa.places import is_place
from tilewright.sim.codegen.addressing import (
    access_text,
    address_text,
    advice_of,
    generic_address_text,
    home_of,
    inside,
    owes,
    place_of,
    terms_of,
)
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.codegen.loops import asks
from tilewright.sim.codegen.source import Emitter, Operand, is_number, wrapper
from tilewright.sim.codegen.values import computed, is_pure
from tilewright.sim.fast.copies import Copies, Loads
from tilewright.sim.machine import joined, reinterpret
from tilewright.sim.machine.convert import from_bits, to_bits
from tilewright.sim.machine.instructions import ADDRESSES, CompiledInstruction, check_lanes
from tilewright.sim.machine.registers import RegisterFile
from tilewright.sim.machine.sites import MOVES, Site
from tilewright.terms import operation, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.sim.codegen.addressing import Terms


def _templates(meaning: str) -> dict[str, str]:
    """How a column of operators is written in Python: by its symbol where that is what it means, else as a call."""
    texts = {}
    for op in (*ir.Binary.ARITHMETIC, *ir.Binary.BITS):
        function = getattr(OPERATORS[op], meaning)
        texts[op] = f"{{a}} {op} {{b}}" if function in vars(operator).values() else f"{function.__name__}({{a}}, {{b}})"
    return texts


Files = list[tuple[RegisterFile, str]]
UNIFORM_INTEGER, ARRAYS = _templates("number"), _templates("array")
WRAPS = (*MODULAR, *DIVISIONS)  # of integers: the result may leave the dtype's range
FLOATS = ARRAYS | {"/": "quotient({a}, {b})", "min": "least({a}, {b})", "max": "greatest({a}, {b})"}


# One rule per node


def _const(e: Emitter, expr: ir.Const, mask: str) -> Operand:
    if is_number(expr.dtype):
        return Operand(repr(expr.value) if expr.value >= 0 else f"({expr.value!r})")
    if not expr.dtype.is_float:
        return Operand(e.out.constant("K", expr.dtype.numpy.type(expr.value)))
    constant = cast(DType("float64"), expr.dtype.element)(np.array(expr.value, np.float64))
    return Operand(e.out.constant("K", constant[()]))


def _var(e: Emitter, expr: ir.Var, mask: str) -> Operand:
    name = e.variable(expr.name)
    return Operand(name, f"{name}_s" if expr.name in e.program.shadowed else None)


def _special(e: Emitter, expr: ir.Special, mask: str) -> Operand:
    return Operand(f"special[{expr.name!r}]")


def _unary(e: Emitter, expr: ir.Unary, mask: str) -> Operand:
    a = e.sound(expr.a, mask)
    uniform = e.axes.of(expr) == UNIFORM and is_number(expr.dtype)
    if expr.op == "not":
        return Operand(f"(not {a})" if uniform else f"~{a}")
    text = f"({expr.op}{a})"
    if uniform and expr.dtype.kind != "bool":
        text = f"{e.out.constant('W', wrapper(expr.dtype))}{text}"
    return Operand(text)


def _binary(e: Emitter, expr: ir.Binary, mask: str) -> Operand:
    if expr.op in ir.Binary.LOGIC:
        return _logic(e, expr, mask)
    a, b = e.sound(expr.a, mask), e.sound(expr.b, mask)
    if (check := e.program.hears("operands", expr, e.at)) is not None:
        a, b = e.out.named("v", a), e.out.named("v", b)
        e.out.line(f"{e.out.constant('O', check)}({mask}, {a}, {b})")
    uniform = e.axes.of(expr) == UNIFORM and is_number(expr.a.dtype)
    if expr.op in ir.Binary.COMPARISONS:
        return Operand(f"({a} {expr.op} {b})" if uniform or e.axes.of(expr) else f"bool({a} {expr.op} {b})")
    if uniform:
        divides = expr.op in ("//", "%") and (ir.const_value(expr.b) or 0) > 0
        text = f"{a} {expr.op} {b}" if divides else UNIFORM_INTEGER[expr.op].format(a=a, b=b)
        wraps = expr.op in WRAPS and not divides
        return Operand(f"{e.out.constant('W', wrapper(expr.dtype))}({text})" if wraps else f"({text})")
    if expr.dtype.is_float:
        return Operand(f"({FLOATS[expr.op].format(a=a, b=b)})")
    return Operand(f"({_by_power_of_two(e, expr, a) or ARRAYS[expr.op].format(a=a, b=b)})")


def _by_power_of_two(e: Emitter, expr: ir.Binary, a: str) -> str | None:
    """Division and remainder that floor, by a power of two, as bit operations: several times faster."""
    divisor = ir.const_value(expr.b)
    if expr.op not in ("//", "%") or not isinstance(divisor, int) or divisor <= 0 or divisor & (divisor - 1):
        return None
    return f"{a} >> {divisor.bit_length() - 1}" if expr.op == "//" else f"{a} & {divisor - 1}"


def _logic(e: Emitter, expr: ir.Binary, mask: str) -> Operand:
    uniform = e.axes.of(expr) == UNIFORM
    a = e.sound(expr.a, mask, "a condition")
    if not e.stays_guarded(expr.b):
        b = e.sound(expr.b, mask, "a condition")
    else:
        first = e.out.named("c", a)
        test = first if expr.op == "and" else f"(not {first})" if e.axes.of(expr.a) == UNIFORM else f"~{first}"
        a, b = first, e.guarded(expr.b, test, mask, "a condition").text
    if uniform:
        return Operand(f"({a} {expr.op} {b})")
    return Operand(f"({a} {'&' if expr.op == 'and' else '|'} {b})")


def _select(e: Emitter, expr: ir.Select, mask: str) -> Operand:
    cond = e.out.named("c", e.sound(expr.cond, mask, "a condition"))
    uniform = e.axes.of(expr.cond) == UNIFORM
    sides = []
    for side, test in ((expr.a, cond), (expr.b, f"(not {cond})" if uniform else f"~{cond}")):
        sides.append(e.guarded(side, test, mask) if e.stays_guarded(side) else e.value(side, mask))
    flags = _chosen_flags(e, expr, cond, uniform, sides)
    texts = [side.text for side in sides]
    if e.axes.of(expr) != UNIFORM:
        texts = [e.array(side, text) for side, text in zip((expr.a, expr.b), texts, strict=True)]
    if uniform:
        return Operand(f"({texts[0]} if {cond} else {texts[1]})", flags)
    test = f"{cond}[..., None]" if expr.dtype.lanes > 1 else cond
    return Operand(f"np.where({test}, {texts[0]}, {texts[1]})", flags)


def _chosen_flags(e: Emitter, expr: ir.Select, cond: str, uniform: bool, sides: list[Operand]) -> str | None:
    if all(side.shadow is None for side in sides):
        return None
    a, b = (side.shadow or e.valid(expr.dtype) for side in sides)
    return e.out.named("s", f"({a} if {cond} else {b})" if uniform else f"np.where({cond}, {a}, {b})")


def _cast(e: Emitter, expr: ir.Cast, mask: str) -> Operand:
    source, kind = expr.a.dtype, expr.dtype
    text = e.sound(expr.a, mask)
    uniform = e.axes.of(expr) == UNIFORM
    if uniform and is_number(source) and is_number(kind):
        if kind.kind == "bool":
            return Operand(f"({text} != 0)")
        return Operand(f"{e.out.constant('W', wrapper(kind))}(int({text}))")
    text = f"{e.out.constant('C', cast(source.element, kind.element))}({text})"
    if source.lanes < kind.lanes:
        return Operand(f"{e.out.constant('J', joined(kind))}(*{kind.lanes} * [{text}])")
    if not uniform:
        return Operand(text)
    number = "bool" if kind.kind == "bool" else "int"
    return Operand(f"{number}({text})" if is_number(kind) else f"{text}[()]")


def _reinterpret(e: Emitter, expr: ir.Reinterpret, mask: str) -> Operand:
    a = e.value(expr.a, mask)
    text = f"{e.out.constant('R', reinterpret(expr.a.dtype, expr.dtype))}({a.text})"
    return Operand(e.unpacked(expr, text), a.shadow)


def _vector(e: Emitter, expr: ir.Vector, mask: str) -> Operand:
    parts = ", ".join(e.sound(part, mask) for part in expr.parts)
    return Operand(f"{e.out.constant('J', joined(expr.dtype))}({parts})")


def _component(e: Emitter, expr: ir.Component, mask: str) -> Operand:
    return Operand(e.unpacked(expr, f"component({e.sound(expr.a, mask)}, {expr.index})"))


def _load(e: Emitter, expr: ir.Load, mask: str) -> Operand:
    site, at = access_text(e, expr, mask, write=False)
    poisoned = e.may_be_poison(expr)
    nibbles = expr.dtype.bits < 8
    at = e.out.named("a", at) if poisoned or nibbles else at
    view = f"view_nibbles({site}, {mask}, {at})" if nibbles else f"{site}.view({mask}, {at})"
    view = e.out.named("w", view) if poisoned else view
    bits = f"from_nibbles({view}.load(), {at}.full())" if nibbles else f"{view}.load()"
    text = e.unpacked(expr, f"{e.out.constant('F', from_bits(expr.dtype))}({bits})")
    if not poisoned:
        return Operand(text)
    text = e.out.named("v", text)
    origin = "" if nibbles or not expr.indices else f", {site}, {at}"  # a register has no memory that bits came from
    return Operand(text, e.shadow(expr.dtype, f"{view}.flags()", mask), origin)


def _address_of(e: Emitter, expr: ir.AddressOf, mask: str) -> Operand:
    at = generic_address_text(e, expr, mask)
    if e.axes.of(expr) == UNIFORM:
        return Operand(f"{at}.start")
    return Operand(f"{at}.full()")


def call_value(e: Emitter, expr: Call, mask: str) -> Operand:
    """The call as an expression; what it writes besides is stored at once."""
    bound = bind(expr)
    e.count(bound.instruction.name, mask)
    form = bound.form
    if is_pure(expr):
        return _pure(e, expr, mask)
    if form.is_copy and form.accesses and not form.issue:
        _move(e, bound, mask)
        return Operand("None")
    waits = form.concerns_operations and not form.begins_operation
    orders = (form.sync is not None and form.meaning.execute is None) or form.fence or form.register_fence
    if (waits or orders) and bound.instruction.lanes in (WARPGROUP, WHOLE_WARP):
        together = e.out.constant("X", partial(check_lanes, bound))
        e.out.line(f"{together}({mask}, (), {e.out.constant('A', e.at)})")
    if waits:
        _waited(e, bound, mask)
        return Operand("None")
    if orders:
        if form.meaning.execute is not None:
            executed(e, expr, bound, mask)
        what = e.out.constant("X", form.sync or form.register_fence or bound.fence)
        where = form.fence.at if isinstance(form.fence, ProxyFence) else ""
        more = f", {generic_address_text(e, bound.operands[where][0], mask)}" if where else ""
        if form.fence and form.fence.scope == "warp" and const_value(members := bound.operands["mask"][0]) is None:
            more = f", members=np.asarray({e.sound(members, mask)})"
        e.out.line(f"run.ordered({mask}, {what}, {e.out.constant('A', e.at)}{more})")
        return Operand("None")
    return executed(e, expr, bound, mask)


def _pure(e: Emitter, call: Call, mask: str) -> Operand:
    """A call that only computes, as one call of its function."""
    function, operands = computed(call)
    name = bind(call).instruction.name
    arrays = [e.array(expr, e.sound(expr, mask, f"an operand of {name}")) for expr in operands]
    if not e.unknowns and (check := e.program.hears("result", call, e.at)) is not None:
        arrays = [e.out.named("v", text) for text in arrays]
        e.out.line(f"{e.out.constant('O', check)}.refuse({mask}, {', '.join(arrays)})")
    texts = []
    for expr, text in zip(operands, arrays, strict=True):
        unsigned = expr.dtype.kind in ("uint", "bool")
        texts.append(text if unsigned else f"{e.out.constant('B', to_bits(expr.dtype))}({text})")
    return Operand(e.unpacked(call, f"{e.out.constant('F', function)}({', '.join(texts)})"))


def _waited(e: Emitter, bound: Bound, mask: str) -> None:
    """Threads commit what they have issued, and wait for it."""
    commit, wait = bound.form.commit, bound.form.wait
    if commit is not None:
        e.out.line(f"m0.wave.pending.commit({mask}, {commit.group!r})")
    if wait is not None:
        pending = wait.pending
        if isinstance(pending, str):
            pending = int(const_value(bound.operands[pending][0]) or 0)
        effect = e.out.constant("X", wait)
        e.out.line(f"m0.wave.pending.wait({mask}, {effect}, {pending}, {e.out.constant('A', e.at)})")


def _move(e: Emitter, bound: Bound, mask: str) -> None:
    sites = []
    texts = []
    for access in bound.form.accesses:
        pointer = bound.operands[access.operand][0]
        width = bound.count(access.nbytes)
        with inside(e, pointer, mask, bound.instruction.name, width, write=access.write):
            place, terms = terms_of(e, pointer, mask)
            advice = advice_of(pointer)
            sites.append(Site(e.at, bound.instruction.name, place, width, access.write, MOVES, advice=advice))
            texts.append(address_text(e, terms))
    source, target = map(e.program.add_site, sites)
    copies = e.out.constant("X", Copies(source, target, e.with_shadows))
    if [site.place and site.place.space for site in (source, target)] != ["global", "shared"]:
        e.out.line(f"{copies}.one({mask}, {', '.join(texts)})")
        return
    turn = f"({copies}, {', '.join(texts)})"
    e.out.line(f"{e.collected}.append({turn})" if e.collected else f"{copies}({mask}, [{turn}])")


@contextmanager
def decided(e: Emitter, expr: Call, mask: str) -> Iterator[None]:
    """What is emitted inside knows which way each lane goes by what the call may read, if that decides no more."""
    cond = e.axes.decisions.get(id(expr))
    if cond is None:
        yield
        return
    way, read, before, uncounted = e.out.fresh("d"), e.out.constant("F", from_bits(expr.dtype)), e.known, e.uncounted
    with e.out.block(f"def {way}(bits):"):
        e.known, e.uncounted = {expr: Operand(f"{read}(bits)")}, True
        e.out.line(f"return np.asarray({e.value(cond, mask).text})")
        e.known, e.uncounted = before, uncounted
    e.out.line(f"run.decides = {way}")
    yield
    e.out.line("run.decides = None")


def asked(e: Emitter, expr: Call, bound: Bound) -> str:
    """The text of the lanes in which a call may run now."""
    values = _arguments(e, bound, "m0")[0]
    runs = e.out.constant("X", _instruction(e, bound, [], [], expr))
    return e.out.named("v", f"{runs}.may_go_on(m0, ({''.join(f'{v}, ' for v in values)}))")


def executed(e: Emitter, expr: Call, bound: Bound, mask: str) -> Operand:
    values, flags, sinks, sources = _arguments(e, bound, mask)
    instruction = _instruction(e, bound, [file for file, _ in sinks], [file for file, _ in sources], expr)
    if e.collected:
        if instruction.fills_words:
            loads = e.out.constant("X", Loads(instruction))
            e.out.line(f"{e.collected}.append(({loads}, {values[0]}, {sinks[0][1]}))")
            return Operand("None")
        e.do_collected(mask)
        e.out.line(f"{e.collected} = []")
    runs = e.out.constant("X", instruction)
    sink_texts = "".join(f"{at}, " for _, at in sinks)
    text = f"{runs}({mask}, ({''.join(f'{v}, ' for v in values)}), ({sink_texts})"
    if e.with_shadows and (bound.form.meaning.moves or any(flag != "None" for flag in flags)):
        text += f", ({''.join(f'{f}, ' for f in flags)})"
    if sources:
        text += f", sources=({''.join(f'{at}, ' for _, at in sources)})"
    with decided(e, expr, mask):
        name = e.out.named("v", f"{text})")
    if expr.dtype == VOID:
        return Operand(name)
    if e.may_be_poison(expr):
        return Operand(f"{name}[0]", e.shadow(expr.dtype, f"{name}[1]", mask))
    return Operand(e.unpacked(expr, name))


def _arguments(e: Emitter, bound: Bound, mask: str) -> tuple[list[str], list[str], Files, Files]:
    """What a call reads, the flags of that, where its results go, and the registers that an operation reads."""
    values: list[str] = []
    flags: list[str] = []
    sinks: Files = []
    sources: Files = []
    for row in bound.given:
        exprs = bound.operands.get(row.name, ())
        if row.name in bound.texts:
            values.append(repr(bound.texts[row.name]))
            flags.append("None")
            continue
        if row.written:
            file, at = _file(e, row, exprs, mask)
            assert file is not None, "calls writes registers only"
            sinks.append((file, at))
        elif bound.form.issue and row.name in bound.form.issue.holds:
            sources += _sources(e, row, exprs, mask)
        if row in bound.arguments:
            text, flag = _operand(e, row, exprs, bound, mask)
            values.append(text)
            flags.append(flag)
    return values, flags, sinks, sources


def _instruction(
    e: Emitter, bound: Bound, sinks: list[RegisterFile], sources: list[RegisterFile], expr: Call
) -> CompiledInstruction:
    sites: list[tuple[int, Site]] = []
    read = [row.name for row in bound.arguments]
    led = ("shared", "generic") if e.program.maps else ("shared",)
    homes = {row.name: home_of(e, bound.operands[row.name][0]) for row in bound.given if row.kind in led}
    for access in bound.form.accesses:
        pointer = bound.operands[access.operand][0]
        place = place_of(e, pointer) if access.space != "shared" or pointer.dtype.kind == "handle" else None
        if place is None and access.space == "shared":
            place = e.places.arena
        site = Site(
            e.at,
            bound.instruction.name,
            place,
            bound.count(access.nbytes),
            access.write,
            bound.touch(access),
            asks=asks(expr) and id(e.stmt) not in e.axes.polled,
            polls=id(e.stmt) in e.axes.polled,
            compared=id(e.stmt) in e.axes.compared,
            advice=advice_of(pointer),
            home=homes.get(access.operand),
        )
        sites.append((read.index(access.operand), e.program.add_site(site)))
    result = "bool" if bound.form.sync is not None else str(expr.dtype)  # lanes that may go on
    return CompiledInstruction(
        bound, e.at, tuple(sites), tuple(sinks), tuple(sources), e.with_shadows, result, homes, leaves_open=e.unknowns
    )


def _examined(e: Emitter, row: Row, pointer: Expr, bound: Bound, mask: str) -> AbstractContextManager[None]:
    """The checks of where an address operand leads."""
    access = next((touched for touched in bound.form.accesses if touched.operand == row.name), None)
    if access is None or access.sized:  # a lane that accesses no bytes may give any address; a part of a region may not
        is_part = any(debt.by for debt in owes(pointer))
        return inside(e, pointer, mask, "", 0, write=False) if is_part else nullcontext()
    width, lanes = (bound.count(number) for number in (access.nbytes, access.lanes))
    return inside(e, pointer, mask, bound.instruction.name, width, write=access.write, lanes=lanes)


def _operand(e: Emitter, row: Row, exprs: tuple[Expr, ...], bound: Bound, mask: str) -> tuple[str, str]:
    """The text of what `execute` gets for an operand, and of its flags."""
    if row.kind in ADDRESSES:
        with _examined(e, row, exprs[0], bound, mask):
            return _address_operand(e, row, exprs[0], mask), "None"
    held = bound.form.issue is not None and row.name in bound.form.issue.holds  # checked when issued
    by_name = any(isinstance(expr, Load) and not expr.indices for expr in exprs)  # compiled code's own registers
    if KINDS[row.kind].nbytes and (row.many or is_place(exprs[0])) and not by_name:
        file, at = _file(e, row, exprs, mask)
        if file is not None:
            name = e.out.constant("X", file)
            address = e.out.named("a", at)
            flags = f"{name}.read(m0.wave.shadows, {mask}, {address})" if e.with_shadows else "None"
            return f"{name}.read(m0.wave, {mask}, {address})" if held else f"{name}.load({mask}, {address})", flags
    texts: list[str] = []
    shadows: list[str | None] = []
    moves = bound.form.meaning.moves and e.with_shadows and row.kind != "tmem"  # the operand says where the access is
    for expr in exprs:
        if moves:
            operand = e.value(expr, mask)
            texts.append(_typed(e, row, expr, operand.text))
            shadows.append(e.flags(expr.dtype, operand.shadow))
        elif row.name == bound.form.meaning.blind:
            texts.append(_typed(e, row, expr, e.value(expr, mask).text))
        else:
            texts.append(
                _typed(e, row, expr, e.sound(expr, mask, told("an operand of {}", operation(bound.instruction.name))))
            )
    if row.many and row.kind == "value":
        return f"({''.join(f'{t}, ' for t in texts)})", "None"
    if not any(shadows):
        return f"stacked({', '.join(texts)})" if row.many else texts[0], "None"
    valid = [
        f"lanes({shadow or e.flags(expr.dtype, 'None') or e.valid(expr.dtype)})"
        for shadow, expr in zip(shadows, exprs, strict=True)
    ]
    return (f"stacked({', '.join(texts)})", f"stacked({', '.join(valid)})") if row.many else (texts[0], valid[0])


def _typed(e: Emitter, row: Row, expr: Expr, text: str) -> str:
    """The text of an operand as an array (..., 32): the bits of a register, or a value of its own dtype."""
    text = e.array(expr, text)
    if row.kind in ("b16", "b32", "b64", "tmem", "imm", "note") and expr.dtype.bits >= 16:
        text = f"{e.out.constant('B', to_bits(expr.dtype))}({text})"
    return f"lanes({text})"


def _address_operand(e: Emitter, row: Row, pointer: Expr, mask: str) -> str:
    """The text of an `Address`: for kind "shared" an offset in the CTA's window, else a generic address."""
    if row.kind != "shared":
        return generic_address_text(e, pointer, mask)
    place, terms = terms_of(e, pointer, mask)
    is_offset = place is not None or pointer.dtype.kind != "handle"
    return address_text(e, terms) if is_offset else f"to_shared({address_text(e, terms)})"


# Operands that are registers.


def _sources(e: Emitter, row: Row, exprs: tuple[Expr, ...], mask: str) -> Files:
    """The registers of an operand that an operation reads, where it is in registers."""
    if not KINDS[row.kind].nbytes or not all(is_place(expr) for expr in exprs):
        return []
    file, at = _file(e, row, exprs, mask)
    return [(file, at)] if file is not None else []


def _file(e: Emitter, row: Row, exprs: tuple[Expr, ...], mask: str) -> tuple[RegisterFile | None, str]:
    """The registers that an operand names, and the text of their address or addresses; None where it is a value."""
    width = KINDS[row.kind].nbytes
    pointers = [AddressOf(g.buffer, g.indices) if isinstance(g, Load) else g for g in exprs]
    if not all(isinstance(p, AddressOf) and p.buffer.space == "local" for p in pointers):
        return None, ""
    with ExitStack() as checks:
        for g in exprs:
            checks.enter_context(inside(e, g, mask, "register", width, write=row.written))
        sums = [terms_of(e, p, mask) for p in pointers]
    place = sums[0][0]
    if place is None:
        return None, ""
    steps = [terms.constant - sums[0][1].constant for _, terms in sums]
    alike = all(_rest(terms) == _rest(sums[0][1]) and p is place for p, terms in sums)
    run = alike and steps == [width * k for k in range(len(sums))]
    addresses = [address_text(e, terms) for _, terms in (sums[:1] if run else sums)]
    site = Site(e.at, "register", place, width, row.written, MOVES)
    sites = tuple(e.program.add_site(replace(site, place=p)) for p, _ in (sums[:1] if run else sums))
    file = RegisterFile(sites, len(sums), row.many, run, row.kind)
    return file, addresses[0] if run else f"({''.join(f'{a}, ' for a in addresses)})"


def _rest(terms: Terms) -> tuple[object, ...]:
    return (tuple(terms.uniform), tuple((k, tuple(v)) for k, v in terms.groups.items()))


RULES: dict[type[ir.Expr], Callable[..., Operand]] = {
    ir.Const: _const,
    ir.Var: _var,
    ir.Special: _special,
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Reinterpret: _reinterpret,
    ir.Vector: _vector,
    ir.Component: _component,
    ir.Load: _load,
    ir.AddressOf: _address_of,
    ir.Call: call_value,
}
