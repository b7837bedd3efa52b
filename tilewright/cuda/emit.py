"""From a lowered kernel to CUDA: one translation unit that includes no header, meant to be read.

Its parts, in order: what it is and how to launch it; the helper functions it uses; the kernel, with its special
registers, its shared memory and its registers declared before its statements. Names are the kernel's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tilewright import ir
from tilewright.cuda.emit_call import in_flight, settled
from tilewright.cuda.emit_expr import expression
from tilewright.cuda.emit_unit import (
    LINE_LENGTH,
    Cpp,
    LazyFacts,
    Level,
    Names,
    Scope,
    TranslationUnit,
    cpp_type,
    local_array,
    pointer_type,
    read_only,
    restricted,
    shared_pointer,
    store,
    view,
)
from tilewright.errors import TargetError
from tilewright.ir.ranges import RangeFacts
from tilewright.ir.tensor_map import MAP_ALIGNMENT, MAP_BYTES
from tilewright.isa import STATIC_SHARED_BYTES, Arch, since
from tilewright.records import replace
from tilewright.terms import option, told

__all__ = ["STATIC_SHARED_BYTES", "dynamic_shared_bytes", "emit", "entry_name"]

ARENA_ALIGNMENT = 1024
INDENT = "  "
CLUSTERS = since("sm_90")
_EXACT = "one rounding per operation: compile with --fmad=false"
_FAST = "a * b + c may be rounded once, quotients and roots approximate, subnormal numbers count as zero"


def emit(kernel: ir.Kernel, arch: Arch, *, fast_math: bool = False, may_alias: bool = False) -> str:
    """The CUDA text of a lowered kernel for ``arch``; ``extern "C"``, under the name `entry_name`.

    may_alias: for calls whose arguments overlap: none is ``__restrict__``.

    It means what the kernel means when it is assembled without contraction of multiplications and additions, which
    ``fast_math`` allows. Raises TargetError where ``arch`` lacks what the kernel uses.
    """
    assert kernel.stage == "lowered", f"{kernel.name} is at stage {kernel.stage}"
    constant, flying = read_only(kernel), in_flight(kernel)
    apart = frozenset[str]() if may_alias else restricted(kernel, constant)
    reserved: set[str] = set()
    while True:
        names = Names({entry_name(kernel), *reserved})
        unit = TranslationUnit(arch, names, expression, constant, apart, flying, fast_math)
        body = _kernel(kernel, unit)
        clashes = unit.clashes()
        if not clashes:
            break
        reserved |= clashes
    helpers, name = list(unit.helpers.values()), entry_name(kernel)
    if name in unit.helpers:  # the kernel keeps its name, a helper is ours
        helpers = [_renamed(text, name) for text in helpers]
        body = [_renamed(line, name) for line in body]
        body[0] = body[0].replace(f"\n{name}_(", f"\n{name}(")
    return "\n\n".join([_header(kernel, unit), *helpers, "\n".join(body)]) + "\n"


def _renamed(text: str, name: str) -> str:
    """A piece of C++ with an underscore behind an identifier, strings and comments left alone.

    >>> _renamed('f(x); // f', "f")
    'f_(x); // f'
    """
    parts = rf'"(?:\\.|[^"\\])*"|//[^\n]*|\b({re.escape(name)})\b'
    return re.sub(parts, lambda match: f"{name}_" if match[1] else match[0], text)


def entry_name(kernel: ir.Kernel) -> str:
    """The name of the kernel's entry in the text: its own, or with an underscore where C++ or CUDA has that name."""
    return Names.entry(str(kernel.attr("global_symbol") or kernel.name))


def dynamic_shared_bytes(launch: ir.Launch) -> int:
    """Bytes of shared memory that a launch must ask for."""
    return launch.shared_bytes if launch.shared_bytes > STATIC_SHARED_BYTES else 0


def _launch(kernel: ir.Kernel) -> ir.Launch:
    assert kernel.launch is not None, f"{kernel.name} has no launch"
    return kernel.launch


# The header comment


def _header(kernel: ir.Kernel, unit: TranslationUnit) -> str:
    launch = _launch(kernel)
    grid = ", ".join(map(str, launch.grid))
    shared = dynamic_shared_bytes(launch)
    arguments = ", ".join(unit.names.of(var.name) for var in kernel.passed)
    sizes = f"dim3({grid}), {launch.threads}" + (f", {shared}" if shared else "")
    place = f" ({kernel.at})" if kernel.at else ""
    lines = [
        f"{kernel.name}{place} for {unit.arch}, made by tilewright.",
        f"Launch: {entry_name(kernel)}<<<{sizes}>>>({arguments})",
    ]
    if shared:
        lines.append(f"Dynamic shared memory: {shared} bytes; allow them with cudaFuncSetAttribute first.")
    elif launch.shared_bytes:
        lines.append(f"Shared memory: {launch.shared_bytes} bytes.")
    lines.append(f"Floating point: {_FAST if unit.fast_math else _EXACT}.")
    if unit.restricted:
        lines.append(
            "Nothing that is written overlaps what is __restrict__: a call where it does gets a text without that."
        )
    return "\n".join(f"// {line}" for line in lines)


# The kernel


def _kernel(kernel: ir.Kernel, unit: TranslationUnit) -> list[str]:
    _claim_names(kernel, unit)
    _declare_vectors(kernel, unit)
    scope = Scope(unit, LazyFacts(None, lambda _: _facts(kernel)), kernel.at)
    signature = _signature(kernel, unit)
    storage = list(_storage(kernel, unit))
    body = lines_of(kernel.body, scope)
    top = [*_special_registers(unit, kernel), *storage]
    return [f"{signature} {{", *(INDENT + line for line in (*top, *body)), "}"]


def _claim_names(kernel: ir.Kernel, unit: TranslationUnit) -> None:
    """The kernel's own names come before those that the text adds."""
    for buffer in kernel.buffers:
        unit.buffer(buffer)
    for stmt in ir.statements(kernel.body):
        match stmt:
            case ir.AllocBuffer(buffer) | ir.DeclBuffer(buffer):
                unit.buffer(buffer)
            case ir.Bind(var) | ir.For(var):
                unit.names.of(var.name)


def _facts(kernel: ir.Kernel) -> RangeFacts:
    """What holds in the whole kernel: of its assumptions only those about arguments, which the call has checked."""
    arguments = {var.name for var in (*kernel.params, *kernel.symbols)}
    kept = tuple(
        stmt
        for stmt in ir.statements(kernel.body)
        if isinstance(stmt, ir.Assign)  # the facts must know which variables change
        or (isinstance(stmt, ir.Assume) and all(_is_argument(node, arguments) for node in ir.walk(stmt.cond)))
    )
    return RangeFacts.of_kernel(replace(kernel, body=kept))


def _is_argument(node: ir.Expr, arguments: set[str]) -> bool:
    return (
        node.name in arguments
        if isinstance(node, ir.Var)
        else not isinstance(node, (ir.Special, ir.Load, ir.AddressOf, ir.Call))
    )


def _signature(kernel: ir.Kernel, unit: TranslationUnit) -> str:
    launch = _launch(kernel)
    bounds = f"{launch.threads}, {launch.min_blocks_per_sm}" if launch.min_blocks_per_sm else f"{launch.threads}"
    cluster = ""
    if launch.cluster != (1, 1, 1):
        _check_clusters(kernel, unit.arch)
        cluster = f"__cluster_dims__({', '.join(map(str, launch.cluster))}) "
    params = [_parameter(kernel, var, unit) for var in kernel.passed]
    line = f"{entry_name(kernel)}({', '.join(params)})"
    if len(line) > LINE_LENGTH:
        line = f"{entry_name(kernel)}(\n{2 * INDENT}" + f",\n{2 * INDENT}".join(params) + ")"
    limit = f"__launch_bounds__({bounds})"
    if launch.max_registers:  # NVRTC takes one of the two
        if launch.min_blocks_per_sm:
            settings = f"max_registers={launch.max_registers} and min_blocks={launch.min_blocks_per_sm}"
            what = f"{kernel.name} limits its registers twice"
            raise TargetError(what, given=settings, allowed="one of them", at=kernel.at)
        limit = f"__maxnreg__({launch.max_registers})"
    return f'extern "C" __global__ void {cluster}{limit}\n{line}'


MAP_TYPE = "CUtensorMap"
MAP_STRUCT = f"""\
// What the driver makes of a tensor map: only the copy engine reads it.
struct alignas({MAP_ALIGNMENT}) {MAP_TYPE} {{ unsigned char bytes[{MAP_BYTES}]; }};"""


def _map_parameter(var: ir.Var, unit: TranslationUnit) -> str:
    """The 128 bytes themselves: `_storage` has the pointer to them."""
    unit.helper(MAP_TYPE, MAP_STRUCT)
    unit.declared.add(var.name)
    unit.specials[f"map {var.name}"] = unit.names.fresh(f"{var.name}_bytes")
    return f"const __grid_constant__ {MAP_TYPE} {unit.specials[f'map {var.name}']}"


def _parameter(kernel: ir.Kernel, var: ir.Var, unit: TranslationUnit) -> str:
    """A scalar, or the pointer of the first buffer that was matched from it, under the buffer's name."""
    if any(tensor_map.name == var.name for tensor_map in kernel.maps):
        return _map_parameter(var, unit)
    for buffer in kernel.buffers:
        if isinstance(buffer.data, ir.Var) and buffer.data.name == var.name:
            unit.declared.add(buffer.name)
            unit.names.spellings[var.name] = unit.buffer(buffer)
            restrict = " __restrict__" if var.name in unit.restricted else ""
            return f"{pointer_type(buffer, unit)}{restrict} {unit.buffer(buffer)}"
    return f"{cpp_type(var.dtype)} {unit.names.of(var.name)}"


def _storage(kernel: ir.Kernel, unit: TranslationUnit) -> Iterator[str]:
    """Shared memory and registers live as long as the kernel runs, wherever it names them first."""
    arena = ""
    launch = _launch(kernel)
    allocated = [stmt for stmt in ir.statements(kernel.body) if isinstance(stmt, ir.AllocBuffer)]
    unit.declared.update(stmt.buffer.name for stmt in allocated)
    for name in (tensor_map.name for tensor_map in kernel.maps):
        yield f"const unsigned char* {unit.names.of(name)} = {unit.specials[f'map {name}']}.bytes;"
    if launch.shared_bytes:
        arena = unit.names.fresh("smem")
        unit.specials["shared arena"] = arena
        if dynamic_shared_bytes(launch):
            yield f"extern __shared__ __align__({ARENA_ALIGNMENT}) unsigned char {arena}[];"
        else:
            yield f"__shared__ __align__({ARENA_ALIGNMENT}) unsigned char {arena}[{launch.shared_bytes}];"
    for stmt in allocated:
        if stmt.buffer.is_shared:
            yield shared_pointer(stmt, arena, unit)
        elif stmt.buffer.space == "local":
            yield local_array(stmt.buffer, unit)


def _special_registers(unit: TranslationUnit, kernel: ir.Kernel) -> Iterator[str]:
    for name, row in ir.SPECIALS.items():
        if name in unit.specials:
            text = row.cuda
            if unit.in_flight and row.axis is not None and row.axis.each % 32 == 0:
                yield "// broadcast: ptxas then knows it to be one value of the warp, for its uniform registers"
                text = f"__shfl_sync(0xffffffffu, {text}, 0)"
            yield f"const int {unit.specials[name]} = {text};"
            if row.cuda.startswith("tw_"):
                _check_clusters(kernel, unit.arch)
                unit.function(
                    row.cuda.removesuffix("()"),
                    "int ()",
                    "int d;",
                    f'asm("mov.u32 %0, %%{name};" : "=r"(d));',
                    "return d;",
                    comment=f"{row.meaning[0].upper()}{row.meaning[1:]}.",
                )


def _check_clusters(kernel: ir.Kernel, arch: Arch) -> None:
    if not CLUSTERS.admits(arch):
        raise TargetError(
            f"{kernel.name} uses thread block clusters, which {arch} lacks",
            given=str(arch),
            allowed=str(CLUSTERS),
            hint=told("{}", option("target", str(CLUSTERS.first))),
            at=kernel.at,
        )


def _declare_vectors(kernel: ir.Kernel, unit: TranslationUnit) -> None:
    """Structs of the vector dtypes, before any function that takes one."""
    dtypes = {buffer.dtype: None for buffer in kernel.buffers}
    for stmt in ir.statements(kernel.body):
        if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
            dtypes[stmt.buffer.dtype] = None
        dtypes.update((node.dtype, None) for node in ir.expressions(stmt))
    for kind in dtypes:
        if kind.lanes > 1:
            unit.vector(kind)


# Statements as lines of C++: one rule per statement.


def lines_of(body: ir.Body, scope: Scope) -> list[str]:
    """The lines of a body. Facts from a binding or a condition hold for the statements after or under it."""
    lines: list[str] = []
    for stmt in body:
        scope = replace(scope, at=stmt.at or scope.at)
        lines += _RULES[type(stmt)](stmt, scope)
        if isinstance(stmt, ir.Bind) and not stmt.mutable:
            scope = scope.knowing(partial(RangeFacts.with_binding, var=stmt.var, value=stmt.value))
    return lines


def _block(head: str, body: ir.Body, scope: Scope) -> Iterator[str]:
    yield f"{head} {{".lstrip()
    for line in lines_of(body, scope):
        yield INDENT + line
    yield "}"


def _comment(stmt: ir.Attr, scope: Scope) -> list[str]:
    return [f"// {line}" for key, text in stmt.settings if key == "comment" for line in str(text).splitlines()]


def _view(stmt: ir.DeclBuffer, scope: Scope) -> list[str]:
    return [view(stmt.buffer, scope)] if stmt.buffer.space != "tmem" and stmt.buffer.data is not None else []


def _bind(stmt: ir.Bind, scope: Scope) -> list[str]:
    kind = cpp_type(stmt.var.dtype)
    const = "" if stmt.mutable else "const " if kind != "void*" else ""
    return [f"{const}{kind} {scope.unit.names.of(stmt.var.name)} = {expression(stmt.value, scope).text};"]


def _assign(stmt: ir.Assign, scope: Scope) -> list[str]:
    return [f"{scope.unit.names.of(stmt.var.name)} = {expression(stmt.value, scope).text};"]


def _store(stmt: ir.Store, scope: Scope) -> list[str]:
    return [store(stmt.place, expression(stmt.value, scope), scope)]


def _evaluate(stmt: ir.Evaluate, scope: Scope) -> list[str]:
    value = expression(stmt.value, scope)
    if isinstance(stmt.value, ir.Call):
        return [f"{value.text};", *settled(stmt.value, scope)]
    return [f"(void){value.at(Level.UNARY)};"]


def _for(stmt: ir.For, scope: Scope) -> list[str]:
    if _is_one_round(stmt):
        return list(_block("", stmt.body, scope))
    kind, name = cpp_type(stmt.var.dtype), scope.unit.names.of(stmt.var.name)
    start = expression(stmt.start, scope).text
    stop = expression(stmt.stop, scope)
    init = f"{kind} {name} = {start}"
    if not _is_fixed(stmt.stop, stmt.body):
        end = scope.unit.names.fresh(f"{stmt.var.name}_end")
        init, stop = f"{init}, {end} = {stop.text}", Cpp(end)
    step = {1: f"++{name}", -1: f"--{name}"}.get(stmt.step)
    step = step or (f"{name} += {stmt.step}" if stmt.step > 0 else f"{name} -= {-stmt.step}")
    head = f"for ({init}; {name} {'<' if stmt.step > 0 else '>'} {stop.at(Level.SHIFT)}; {step})"
    inner = scope.knowing(lambda facts: facts.with_loop(stmt.var, stmt.start, stmt.stop, stmt.step))
    return [*_pragma(stmt), *_block(head, stmt.body, inner)]


def _is_one_round(loop: ir.For) -> bool:
    """Is the body a block that runs once, and without the loop's variable, in whose place its value stands?"""
    start, stop = ir.const_value(loop.start), ir.const_value(loop.stop)
    if start is None or stop is None or not 0 < stop - start <= loop.step:
        return False
    inside = list(ir.statements(loop.body))
    nodes = (node for stmt in inside for node in ir.expressions(stmt))
    uses = any(isinstance(node, ir.Var) and node.name == loop.var.name for node in nodes)
    return not uses and not any(isinstance(stmt, (ir.Break, ir.Continue)) for stmt in inside)


def _pragma(loop: ir.For) -> list[str]:
    """The pragma that unrolls the loop as the kernel asks, or because its index selects registers."""
    asked = dict(loop.annotations).get("unroll", loop.kind != "serial" or _indexes_registers(loop) or None)
    if asked is None:
        return []
    return ["#pragma unroll" if asked is True else f"#pragma unroll {asked or 1}"]


def _if(stmt: ir.If, scope: Scope) -> list[str]:
    inner = scope.knowing(lambda facts: facts.with_condition(stmt.cond))
    lines = list(_block(f"if ({expression(stmt.cond, scope).text})", stmt.then, inner))
    if not stmt.orelse:
        return lines
    if len(stmt.orelse) == 1 and isinstance(stmt.orelse[0], ir.If):
        first, *rest = lines_of(stmt.orelse, scope)
        return [*lines[:-1], f"}} else {first}", *rest]
    return [*lines[:-1], *_block("} else", stmt.orelse, scope)]


def _is_fixed(stop: ir.Expr, body: ir.Body) -> bool:
    """Does the end of a range keep its value while the body runs? Python evaluates it once."""
    assigned = ir.assigned(body)
    plain = (ir.Const, ir.Var, ir.Special, ir.Binary, ir.Unary, ir.Cast)
    return all(isinstance(node, plain) and getattr(node, "name", "") not in assigned for node in ir.walk(stop))


def _indexes_registers(loop: ir.For) -> bool:
    """Does an index of a local array depend on the loop? Registers have no addresses: then it must unroll."""
    varying = {loop.var.name}
    for stmt in ir.statements(loop.body):
        if (isinstance(stmt, (ir.Bind, ir.Assign)) and _mentions(stmt.value, varying)) or (
            isinstance(stmt, ir.For) and (_mentions(stmt.start, varying) or _mentions(stmt.stop, varying))
        ):
            varying.add(stmt.var.name)
        for node in ir.expressions(stmt):
            if (
                isinstance(node, (ir.Load, ir.AddressOf))
                and node.buffer.space == "local"
                and _mentions(node.indices, varying)
            ):
                return True
    return False


def _mentions(node: object, names: set[str]) -> bool:
    return not names.isdisjoint(ir.names_in(node))


_RULES: dict[type, Callable[..., Iterable[str]]] = {
    ir.AllocBuffer: lambda stmt, scope: [],  # storage is declared at the kernel's top
    ir.Assume: lambda stmt, scope: [],  # the call has checked it
    ir.Attr: _comment,
    ir.DeclBuffer: _view,
    ir.Bind: _bind,
    ir.Assign: _assign,
    ir.Store: _store,
    ir.Evaluate: _evaluate,
    ir.For: _for,
    ir.While: lambda stmt, scope: _block(f"while ({expression(stmt.cond, scope).text})", stmt.body, scope),
    ir.If: _if,
    ir.Break: lambda stmt, scope: ["break;"],
    ir.Continue: lambda stmt, scope: ["continue;"],
}
