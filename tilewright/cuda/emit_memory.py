"""Buffers as C++: typed pointers and arrays, their elements, and which of them a kernel only reads."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import ir
from tilewright.cuda.emit_unit import Cpp, Level, Scope, TranslationUnit, cpp_type
from tilewright.isa import Bound, ProxyFence, bind, calls_in

ADDRESSES = ("shared", "global", "generic")


def pointer_type(buffer: ir.Buffer, unit: TranslationUnit) -> str:
    """``const float*`` where the kernel only reads the buffer, else ``float*``."""
    if buffer.name not in unit.read_only:
        return f"{cpp_type(buffer.dtype)}*"
    kind = cpp_type(buffer.dtype)
    return f"{kind} const*" if kind.endswith("*") else f"const {kind}*"


# Elements


def load(node: ir.Load, scope: Scope) -> Cpp:
    """The element as a value."""
    start = _start(node.buffer, scope)
    index = scope.cpp(node.indices[0])
    if node.buffer.dtype.bits < 8:
        return Cpp.call(_load_nibble(scope.unit), start, index)
    return Cpp(f"{start.at(Level.ATOM)}[{index.text}]")


def store(node: ir.Load, value: Cpp, scope: Scope) -> str:
    """The statement that writes the element."""
    if node.buffer.dtype.bits < 8:
        start = _start(node.buffer, scope)
        index = scope.cpp(node.indices[0])
        return f"{_store_nibble(scope.unit)}({start.text}, {index.text}, {value.text});"
    return f"{load(node, scope).text} = {value.text};"


def address(node: ir.AddressOf, scope: Scope) -> Cpp:
    """A pointer to an element, or to the start of storage."""
    start = _start(node.buffer, scope)
    if not node.indices or ir.const_value(node.indices[0]) == 0:
        return start
    index, bits = scope.cpp(node.indices[0]), node.buffer.dtype.bits
    if bits < 8:
        index = Cpp(f"{index.at(Level.PRODUCT)} / {8 // bits}", Level.PRODUCT)
    return Cpp(f"&{start.at(Level.ATOM)}[{index.text}]", Level.UNARY)


def _start(buffer: ir.Buffer, scope: Scope) -> Cpp:
    """The pointer to a buffer's start: its name, or for an undeclared view the pointer that it views."""
    if buffer.data is not None and buffer.name not in scope.unit.declared:
        return scope.cpp(buffer.data).cast(pointer_type(buffer, scope.unit))
    return Cpp(scope.unit.buffer(buffer))


def _load_nibble(unit: TranslationUnit) -> str:
    return unit.function(
        "load_nibble",
        "unsigned char (const unsigned char* p, long long i)",
        "return p[i >> 1] >> 4 * (i & 1) & 0xf;",
        comment="4-bit element i, the even one in the low half of its byte.",
    )


def _store_nibble(unit: TranslationUnit) -> str:
    return unit.function(
        "store_nibble",
        "void (unsigned char* p, long long i, unsigned char x)",
        "int shift = 4 * (i & 1);",
        "p[i >> 1] = (unsigned char)(p[i >> 1] & ~(0xf << shift) | (x & 0xf) << shift);",
        comment="Reads and writes the whole byte: two threads must not store its halves at the same time.",
    )


# Declarations


def local_array(buffer: ir.Buffer, unit: TranslationUnit) -> str:
    """A thread's own array; 16-byte alignment lets vector moves fill it."""
    elements = int(ir.const_value(buffer.shape[0]) or 0)
    count = max(1, -(-elements * buffer.dtype.bits // 8) if buffer.dtype.bits < 8 else elements)
    return f"alignas({max(16, buffer.align)}) {cpp_type(buffer.dtype)} {unit.buffer(buffer)}[{count}];"


def shared_pointer(stmt: ir.AllocBuffer, arena: str, unit: TranslationUnit) -> str:
    """A shared buffer at its place in the CTA's arena."""
    kind = pointer_type(stmt.buffer, unit)
    start = arena if not stmt.offset else f"({arena} + {stmt.offset})"
    return f"{kind} {unit.buffer(stmt.buffer)} = ({kind}){start};"


def view(buffer: ir.Buffer, scope: Scope) -> str:
    """The declaration of a view."""
    assert buffer.data is not None
    kind = pointer_type(buffer, scope.unit)
    start = scope.cpp(buffer.data).cast(kind).text
    scope.unit.declared.add(buffer.name)
    return f"{kind} {scope.unit.buffer(buffer)} = {start};"


# Buffers that are only read


def read_only(kernel: ir.Kernel) -> frozenset[str]:
    """Names of the global buffers and views through which nothing is written.

    A pointer that goes where its use cannot be seen (into a variable, into an instruction that does not say that it
    only reads) counts as written through.
    """
    written: set[str] = set()
    aliases = [(buffer.name, name) for buffer in kernel.buffers for name in _pointers(buffer.data)]
    aliases += [(tensor_map.name, tensor_map.of) for tensor_map in kernel.maps if tensor_map.is_made]
    everything = {buffer.name for buffer in kernel.buffers}
    for stmt in ir.statements(kernel.body):
        match stmt:
            case ir.DeclBuffer(buffer):
                aliases += [(buffer.name, name) for name in _pointers(buffer.data)]
                if buffer.space == "global":
                    everything.add(buffer.name)
            case ir.Store(place, value):
                written |= {place.buffer.name, *_pointers(value)}
            case ir.Bind(_, value) | ir.Assign(_, value):
                written.update(_pointers(value))
        for node in ir.expressions(stmt):
            if isinstance(node, ir.Call):
                written.update(_written_by(bind(node)))
            elif isinstance(node, (ir.Load, ir.AddressOf)) and node.buffer.data is not None:
                aliases += [(node.buffer.name, name) for name in _pointers(node.buffer.data)]
    _spread(written, kernel, aliases)
    return frozenset(everything - written)


def _spread(written: set[str], kernel: ir.Kernel, aliases: list[tuple[str, str]]) -> None:
    """A write to a view writes what it views; and a parameter is written with each buffer matched from it."""
    params = {param.name for param in kernel.params}
    edges = {*aliases, *((root, name) for name, root in aliases if root in params)}
    size = -1
    while size != len(written):
        size = len(written)
        written |= {root for name, root in edges if name in written}


def _pointers(node: ir.Expr | None) -> Iterator[str]:
    """The buffers and pointer variables that a pointer-valued expression may point into."""
    match node:
        case ir.AddressOf():
            yield node.buffer.name
        case ir.Var() if node.dtype.kind == "handle":
            yield node.name
        case ir.Binary():
            yield from _pointers(node.a)
            yield from _pointers(node.b)
        case ir.Select():
            yield from _pointers(node.a)
            yield from _pointers(node.b)
        case ir.Cast() | ir.Reinterpret():
            yield from _pointers(node.a)


def _written_by(bound: Bound) -> Iterator[str]:
    reads = {access.operand for access in bound.form.touched if not access.write}
    writes = {access.operand for access in bound.form.touched if access.write}
    for operand in bound.instruction.operands:
        for node in bound.operands.get(operand.name, ()):
            if operand.name in writes or operand.name not in reads or operand.written:
                yield from _pointers(node)


# The arguments that are ``__restrict__``: no write of the kernel changes them, so that their loads may move.
#
# That holds for an array that the kernel only reads, in a call where no array that it writes overlaps it (the launch
# checks that; another call gets the text without the word), and as long as no other kernel writes it meanwhile. A
# kernel that can see while it runs that another thread has written (it polls memory, or has a fence) gets no such
# promise.


GRID_WAIT = "ptx.griddepcontrol.wait"


def restricted(kernel: ir.Kernel, constant: frozenset[str] | None = None) -> frozenset[str]:
    """The parameters whose arrays are only read, where some other array is written. constant: see `written`."""
    pointers = _pointers_of_kernel(kernel)
    unknown = any(param.dtype == "handle" and param.name not in pointers for param in kernel.params)
    asked_not = kernel.attr("tirx.noalias") is False
    if unknown or asked_not or len(pointers) < 2:
        return frozenset()
    writes = written(kernel, constant)
    return frozenset(pointers) - writes if writes and not _hears_of_others(kernel.body) else frozenset()


def written(kernel: ir.Kernel, constant: frozenset[str] | None = None) -> frozenset[str]:
    """The parameters whose arrays the kernel may write. constant: what `read_only` says of it, where that is known."""
    constant = read_only(kernel) if constant is None else constant
    return frozenset(
        name for name, buffers in _pointers_of_kernel(kernel).items() if any(b.name not in constant for b in buffers)
    )


def begins_early(kernel: ir.Kernel) -> bool:
    """Does the kernel wait for the grids before it at a place of its own, so that it may begin before they end?"""
    return any(bound.instruction.name == GRID_WAIT for _, bound in calls_in(kernel.body))


def _pointers_of_kernel(kernel: ir.Kernel) -> dict[str, list[ir.Buffer]]:
    """The buffers of each handle parameter."""
    pointers: dict[str, list[ir.Buffer]] = {}
    maps = {tensor_map.name for tensor_map in kernel.maps}
    for buffer in kernel.buffers:
        if isinstance(buffer.data, ir.Var) and buffer.name not in maps:
            pointers.setdefault(buffer.data.name, []).append(buffer)
    return pointers


def _hears_of_others(body: ir.Body) -> bool:
    """Is there a fence beyond the CTA, or a loop that may wait for what it reads from memory?"""
    for stmt in ir.statements(body):
        if isinstance(stmt, (ir.While, ir.For)) and _may_wait(stmt) and any(map(_is_heard, _inside(stmt))):
            return True
        for node in ir.expressions(stmt):
            if isinstance(node, ir.Call) and (node.op == GRID_WAIT or _reaches_others(bind(node))):
                return True
            if isinstance(node, (ir.Load, ir.Reinterpret)) and node.dtype.kind == "handle":
                return True
    return False


def _reaches_others(bound: Bound) -> bool:
    """May a call release to, or acquire from, other CTAs or kernels?"""
    fence = bound.fence
    if isinstance(fence, ProxyFence):
        return fence.proxy != "tmem"
    sems = {bound.word(access.sem) for access in bound.form.accesses}
    return (fence is not None and fence.scope != "cta") or not sems.isdisjoint(("acquire", "acq_rel"))


def _may_wait(loop: ir.While | ir.For) -> bool:
    return isinstance(loop, ir.While) or any(isinstance(stmt, ir.Break) for stmt in ir.statements(loop.body))


def _inside(loop: ir.While | ir.For) -> Iterator[object]:
    if isinstance(loop, ir.While):
        yield from ir.walk(loop.cond)
    for stmt in ir.statements(loop.body):
        yield from ir.expressions(stmt)


def _is_heard(node: object) -> bool:
    """Does it read global memory, by a load or through a pointer?"""
    if isinstance(node, ir.Call):
        return any(access.space in ("global", "generic") and not access.write for access in bind(node).form.accesses)
    return isinstance(node, ir.Load) and node.buffer.space == "global"
