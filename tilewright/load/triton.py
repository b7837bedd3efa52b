"""Triton's kernels: its own compiler makes the PTX, which takes no GPU, and the simulator runs that."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import host
from tilewright.errors import ArgumentError, ToolError, described
from tilewright.isa import ARCHS, arch
from tilewright.load.module import LoadedModule
from tilewright.ptx import parse

if TYPE_CHECKING:
    from tilewright.sim import Run

__all__ = ["check_triton"]

POINTERS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    **{f"{name}int{bits}": f"{letter}{bits}" for name, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""What Triton calls the element types."""
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
DIVISIBLE = [["tt.divisibility", 16]]  # Triton's word for a multiple of 16


def check_triton(
    kernel: Any,
    grid: int | Sequence[int] | Any,
    *args: Any,
    target: str = "sm_90a",
    check: str | Iterable[str] = "all",
    limit_s: float | None = None,
    **named: Any,
) -> Run:
    """Compile a ``@triton.jit`` kernel with Triton, and run its PTX on the simulator with every check.

    grid: programs along x, y, z, or a function of the constants, as for Triton. args, named: what the kernel is
    launched with; arrays are changed in place; ``num_warps`` and other options of Triton are options here. `Any`: those
    are Triton's.
    Raises SimulationError, at the kernel's line, where a check finds something; ToolError where Triton refuses it.
    """
    options = {name: named.pop(name) for name in OPTIONS if name in named}
    values = _bound(kernel, args, named)
    constants = {name: value for name, value in values.items() if _is_constant(kernel, name, value)}
    compiled = _compiled(kernel, values, constants, target, options)
    made = LoadedModule(parse(compiled.asm["ptx"]))
    entry = made[compiled.metadata.name]
    given = [value for name, value in values.items() if name not in constants]
    hidden = [None] * (len(entry.entry.params) - len(given))  # scratch memory, which these kernels do not ask for
    names = [name for name in values if name not in constants]
    entry.parameters = (*names, *(param.name for param in entry.entry.params[len(names) :]))
    programs = grid(constants) if callable(grid) else grid
    cluster = getattr(compiled.metadata, "num_ctas", 1) or 1
    ctas = tuple(programs) if isinstance(programs, (tuple, list)) else (programs,)
    whole = (ctas[0] * cluster, *ctas[1:])
    return entry.simulate(
        *given,
        *hidden,
        grid=whole,
        shared_bytes=compiled.metadata.shared,
        cluster=cluster,
        check=check,
        limit_s=limit_s,
    )


def _bound(kernel: Any, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, defaults among them, in the kernel's order."""
    names = getattr(kernel, "arg_names", None)
    if names is None:
        given = described(kernel)
        raise ArgumentError("this is no kernel of Triton", given=given, allowed="what @triton.jit made")
    values = dict(zip(names, args, strict=False)) | named
    for param in kernel.params:
        if param.name not in values and getattr(param, "has_default", False):
            values[param.name] = param.default
    if len(args) > len(names) or set(values) != set(names):
        odd = sorted(set(values) ^ set(names)) or [f"{len(args)} arguments"]
        what = f"{kernel.__name__} takes {len(names)} arguments"
        raise ArgumentError(what, given=", ".join(odd), allowed=", ".join(names))
    return {name: values[name] for name in names}


def _is_constant(kernel: Any, name: str, value: Any) -> bool:
    """Is it part of the code, as Triton has it: what is declared so, None, and the number 1?"""
    param = next(each for each in kernel.params if each.name == name)
    return bool(
        param.is_constexpr or value is None or (type(value) is int and value == 1 and not param.do_not_specialize)
    )


def _type(name: str, value: Any) -> str:
    if host.is_array(value):
        element = host.array_info(value).dtype
        if element in POINTERS:
            return f"*{POINTERS[element]}"
    elif isinstance(value, bool):
        return "i1"
    elif isinstance(value, int):
        return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
    elif isinstance(value, float):
        return "fp32"
    what = f"argument {name} has a type that Triton lacks"
    raise ArgumentError(what, given=described(value), allowed="arrays, numbers")


def _compiled(
    kernel: Any, values: dict[str, Any], constants: dict[str, Any], target: str, options: dict[str, Any]
) -> Any:
    """What Triton makes of a kernel for an architecture."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise ToolError("Triton is not installed", given=str(error), hint="pip install triton") from None
    if target not in ARCHS:
        raise ArgumentError(f"unknown architecture {target!r}", given=target, allowed=", ".join(ARCHS))
    types = {name: "constexpr" if name in constants else _type(name, value) for name, value in values.items()}
    places = list(values)
    even = {
        (places.index(name),): DIVISIBLE
        for name, value in values.items()
        if name not in constants and (host.is_array(value) or (type(value) is int and value % 16 == 0))
    }
    fixed = {(places.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=types, constexprs=fixed, attrs=even)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return triton.compile(source, target=GPUTarget("cuda", arch(target).number, 32), options=options)
    except Exception as error:  # Triton has no one class of errors
        raise ToolError(f"Triton refuses {kernel.__name__}", given=str(error).strip() or type(error).__name__) from None
