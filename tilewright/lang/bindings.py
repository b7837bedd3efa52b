"""CUDA's names for where a thread stands: ``T.launch_thread("threadIdx.x", 32)`` and ``T.thread_binding``.

Each makes a scope id of one axis: several of them together say how large the grid and the CTA are.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import KernelError, choices
from tilewright.ir import Value, Var
from tilewright.lang.scopes import defined

__all__ = ["EXPORTS", "Binding"]

_KINDS = {"blockIdx": "cta_id", "threadIdx": "thread_id", "clusterCtaIdx": "cta_id_in_cluster"}
THREADS = {f"{name}.{axis}": (kind, "xyz".index(axis)) for name, kind in _KINDS.items() for axis in "xyz"}


@dataclass(frozen=True, slots=True)
class Binding:
    """The iterable of a ``for`` over ``T.thread_binding``: each thread runs one round."""

    thread: str
    extent: Value

    def launched(self) -> Var:
        """The scope id, under the name of its target."""
        return launch_thread(self.thread, self.extent)


def launch_thread(thread: str, extent: Value) -> Var:
    """Where the thread stands on one axis of the launch, which has this extent: "blockIdx.x", "threadIdx.y"."""
    if thread not in THREADS:
        raise KernelError("T.launch_thread names an axis", given=repr(thread), allowed=choices(thread, THREADS))
    kind, axis = THREADS[thread]
    least = 2 if kind == "thread_id" else 1  # a single thread_id counts through all axes
    extents = [extent if k == axis else None for k in range(max(least, axis + 1))]
    names = ["" if k == axis else thread.partition(".")[0] for k in range(len(extents))]
    return defined(kind, tuple(extents), names)[axis]


def thread_binding(*bounds: Value, thread: str) -> Binding:
    """``for tx in T.thread_binding(32, thread="threadIdx.x")``: the body is done by every thread, once."""
    if not 1 <= len(bounds) <= 2 or (len(bounds) == 2 and bounds[0] != 0):
        raise KernelError(
            "T.thread_binding counts from 0", given=f"{bounds}", allowed="an extent: T.thread_binding(32, ...)"
        )
    return Binding(thread, bounds[-1])


EXPORTS: dict[str, object] = {"launch_thread": launch_thread, "thread_binding": thread_binding}
"""The names of ``T`` that this file defines, with what they stand for."""
