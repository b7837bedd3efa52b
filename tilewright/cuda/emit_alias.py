"""The arguments that are ``__restrict__``: no write of the kernel changes them, so that their loads may move.

That holds for an array that the kernel only reads, in a call where no array that it writes overlaps it (the launch
checks that; another call gets the text without the word), and as long as no other kernel writes it meanwhile. A kernel
that can see while it runs that another thread has written (it polls memory, or has a fence) gets no such promise.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import ir
from tilewright.cuda.emit_memory import read_only
from tilewright.ir import expressions, statements, walk
from tilewright.isa import Bound, ProxyFence, bind, calls_in

__all__ = ["begins_early", "restricted", "written"]

GRID_WAIT = "ptx.griddepcontrol.wait"


def restricted(kernel: ir.Kernel, constant: frozenset[str] | None = None) -> frozenset[str]:
    """The parameters whose arrays are only read, where some other array is written. constant: see `written`."""
    pointers = _pointers(kernel)
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
        name for name, buffers in _pointers(kernel).items() if any(b.name not in constant for b in buffers)
    )


def begins_early(kernel: ir.Kernel) -> bool:
    """Does the kernel wait for the grids before it at a place of its own, so that it may begin before they end?"""
    return any(bound.instruction.name == GRID_WAIT for _, bound in calls_in(kernel.body))


def _pointers(kernel: ir.Kernel) -> dict[str, list[ir.Buffer]]:
    """The buffers of each handle parameter."""
    found: dict[str, list[ir.Buffer]] = {}
    maps = {each.name for each in kernel.maps}
    for buffer in kernel.buffers:
        if isinstance(buffer.data, ir.Var) and buffer.name not in maps:
            found.setdefault(buffer.data.name, []).append(buffer)
    return found


def _hears_of_others(body: ir.Body) -> bool:
    """Is there a fence beyond the CTA, or a loop that may wait for what it reads from memory?"""
    for stmt in statements(body):
        if isinstance(stmt, (ir.While, ir.For)) and _may_wait(stmt) and any(map(_is_heard, _inside(stmt))):
            return True
        for node in expressions(stmt):
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
    return isinstance(loop, ir.While) or any(isinstance(stmt, ir.Break) for stmt in statements(loop.body))


def _inside(loop: ir.While | ir.For) -> Iterator[object]:
    if isinstance(loop, ir.While):
        yield from walk(loop.cond)
    for stmt in statements(loop.body):
        yield from expressions(stmt)


def _is_heard(node: object) -> bool:
    """Does it read global memory, by a load or through a pointer?"""
    if isinstance(node, ir.Call):
        return any(access.space in ("global", "generic") and not access.write for access in bind(node).form.accesses)
    return isinstance(node, ir.Load) and node.buffer.space == "global"
