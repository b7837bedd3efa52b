"""The kernel and the architecture that `tilewright.compile` is called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.errors import KernelError, Span, TargetError, located
from tilewright.ir import Kernel, TileCallStmt, statements
from tilewright.ir.launch import NON_PORTABLE_CLUSTER
from tilewright.isa import ATOMS, Arch, Requirement, arch, calls_in, check_cluster, default_arch


def kernel_of(kernel: Any) -> Kernel:
    """The kernel that a decorator's wrapper has. Raises KernelError for what is none."""
    found = kernel if isinstance(kernel, Kernel) else getattr(kernel, "kernel", None)
    if not isinstance(found, Kernel):
        hint = "call .specialize(...) first" if hasattr(kernel, "specialize") else "decorate it with @T.prim_func"
        given = f"{getattr(kernel, '__name__', kernel)}, a {type(kernel).__name__}"
        raise KernelError("this is not a kernel", given=given, allowed="what @T.prim_func made", hint=hint)
    return found


def target_of(target: str | Mapping[str, str] | Arch | None, kernel: Kernel) -> Arch:
    """The architecture that is named; left out, the first that has the kernel's explicit instructions."""
    if isinstance(target, Arch):
        return target
    if isinstance(target, Mapping):
        if not {*target} <= {"kind", "arch"} or target.get("kind", "cuda") != "cuda":
            raise TargetError(
                "unknown kind of target", given=repr(dict(target)), allowed='{"kind": "cuda", "arch": "sm_90a"}'
            )
        target = target.get("arch", "cuda")
    if target is None or (isinstance(target, str) and target == "cuda"):
        return default_arch(tuple(_written(kernel)))
    return arch(target)


def _written(kernel: Kernel) -> Iterator[Requirement]:
    """The requirements of the instructions that a kernel names, copy atoms among them."""
    yield from (bound.form.arch for _, bound in calls_in(kernel.body))
    for stmt in statements(kernel.body):
        if isinstance(stmt, TileCallStmt) and stmt.dispatch in ATOMS:
            yield ATOMS[stmt.dispatch].arch


def check_target(lowered: Kernel, target: Arch, at: Span | None) -> None:
    """Raises TargetError where an architecture lacks what a lowered kernel needs. at: the kernel as authored."""
    for stmt, bound in calls_in(lowered.body):
        with located(stmt.at):
            bound.check_arch(target)
    if lowered.launch is not None:
        with located(at):
            wide = lowered.launch.non_portable_cluster
            hint = f'T.func_attr({{"{NON_PORTABLE_CLUSTER}": True}})'
            check_cluster(lowered.name, lowered.launch.cluster, target, non_portable=wide, hint=hint)
    if lowered.launch is not None and lowered.launch.shared_bytes > target.shared_bytes:
        raise TargetError(
            f"{lowered.name} needs more shared memory than a CTA of {target} can have",
            given=f"{lowered.launch.shared_bytes} bytes",
            allowed=f"{target.shared_bytes} bytes",
            at=at,
        )
