"""Any pair of memories: element by element, correct but slow, with a warning."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import warn
from tilewright.ir import Expr, Load, Value, as_expr, binary, const_value, coordinate
from tilewright.layout import Axis
from tilewright.tile.builder import Builder
from tilewright.tile.call import Side, TileCall, own_digits
from tilewright.tile.conditions import one_by_one
from tilewright.tile.dispatch import Decline, condition, variant
from tilewright.tile.elements import computation
from tilewright.tile.owners import all_hold, axes_of, check_own, gaps, held_here, owners
from tilewright.tile.scope import INDEX

if TYPE_CHECKING:
    from tilewright.layout import Iter


@condition("no side is in tensor memory")
def addressable(call: TileCall) -> str | None:
    return "tensor memory has no element-wise access: use Tx.copy_async" if "tmem" in call.spaces else None


@dataclass(frozen=True, slots=True)
class ElementPlan:
    """extents: of the loops over the elements. replicas: of the destination, further loops. guard: holds in the threads
    that may copy; elements in registers are copied by the threads that hold them. size: elements, None if symbolic.
    """

    extents: tuple[Value, ...]
    replicas: tuple[Iter, ...]
    guard: Expr | None
    size: int | None

    def summary(self) -> str:
        """``512 elements, one by one``."""
        return f"{'all' if self.size is None else self.size} elements, one by one"


@variant("copy", priority=0, keywords=("vec_len",), when=[addressable, one_by_one])
def fallback(call: TileCall) -> ElementPlan:
    """Element by element: by the scope's first thread, or by the thread whose register holds the element."""
    for side in call.tiles:
        if side.space == "local":
            check_own(call, side)
            _check_reach(call, side)
    if call.spaces == ("local", "local"):
        _check_same_threads(call)
    if call.dtype.bits < 8 and call["dst"].space != "local" and call["src"].space == "local" and _axes(call["src"]):
        raise Decline(
            f"threads that hold single {call.dtype} elements of {call['src'].name} share bytes of {call['dst'].name}"
        )
    dst = call["dst"]
    replicas = dst.tile.replica if dst.tile is not None else ()
    if replicas and dst.swizzle is not None:
        raise Decline(f"{dst.name} is swizzled and holds each element in several places")
    extents = tuple(extent for extent in dst.extents if const_value(extent) != 1)
    return ElementPlan(extents, tuple(replicas), _guard(call), dst.size)


def _axes(side: Side) -> set[str]:
    """The thread axes of a register side."""
    return {axis.name for axis in axes_of(side.buffer.layout) if axis.is_thread()}


def _check_reach(call: TileCall, side: Side) -> None:
    """The threads that the layout names must exist."""
    for name in _axes(side):
        last = const_value(side.tile.cosize(name)) if side.tile is not None else None
        if last is not None and (int(last) - 1) * Axis.get(name).each >= call.scope.cta_threads:
            raise Decline(f"{side.name} has {last} places on axis {name}; the CTA has {call.scope.cta_threads} threads")


def _check_same_threads(call: TileCall) -> None:
    """Raises Decline where a copy between registers would need another thread's elements."""
    held = [owners(call, side, loading=False) for side in call.tiles]
    dst, src = (np.empty(owner.elements.size, np.int64) for owner in held)
    for owner, thread in zip(held, (dst, src), strict=True):
        thread[owner.elements] = owner.threads[:, None]
    if held[0].space != held[1].space or not np.array_equal(dst, src):
        raise Decline(f"elements of {call['src'].name} are held by other threads in {call['dst'].name}")


def _guard(call: TileCall) -> Expr | None:
    """Of several threads that could do the same, the first; None where each has its own elements."""
    if call["dst"].space == "local" or call.scope.kind == "thread":
        return None
    if call["src"].space != "local":
        return binary("==", INDEX[call.scope.kind], 0)
    open_levels = gaps(_axes(call["src"]), call.scope.kind)
    return all_hold([binary("==", coordinate(*level), 0) for level in open_levels])


@fallback.emit
def _(plan: ElementPlan, call: TileCall, out: Builder) -> None:
    warn(f"copy/fallback copies element by element: {call.text}", call.at)
    with ExitStack() as inside:
        inside.enter_context(out.when(plan.guard))
        digits = [inside.enter_context(out.loop("i", extent)) for extent in plan.extents]
        copies = [inside.enter_context(out.loop("r", it.extent)) for it in plan.replicas]
        dst, src = (dict(side.place(own_digits(side, digits, plan.extents), call.facts)) for side in call.tiles)
        for it, digit in zip(plan.replicas, copies, strict=True):
            dst[it.axis.name] = dst.get(it.axis.name, 0) + digit * it.stride
        tests = [*held_here(call["dst"], dst), *held_here(call["src"], src)]
        inside.enter_context(out.when(all_hold(tests)))
        out.store(
            call["dst"].buffer.flat(),
            dst.get("m", 0),
            computation(call).of({"src": Load(call["src"].buffer.flat(), (as_expr(src.get("m", 0)),))}, {}),
        )
