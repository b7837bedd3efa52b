"""Triton's kernels: its own compiler makes the PTX, which takes no GPU, and the simulator runs that."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from inspect import getsourcelines, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import host
from tilewright.errors import ArgumentError, SimulationError, Span, ToolError, choices, described
from tilewright.explain import TRITON
from tilewright.ir.tensor_map import ELEMENTS, MapFields
from tilewright.isa import ARCHS, arch
from tilewright.load.module import LoadedKernel, LoadedModule, public
from tilewright.ptx import parse
from tilewright.terms import is_named

if TYPE_CHECKING:
    from tilewright.explain import Finding
    from tilewright.sim import Run

# The arguments of a Triton kernel: their types as Triton names them, and the parameters that its PTX has for them.


POINTERS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    **{f"{name}int{bits}": f"{letter}{bits}" for name, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Triton's names of the element types."""
DIVISIBLE = [["tt.divisibility", 16]]  # Triton's word for a multiple of 16
CONSTANT = "constexpr"
FLAGS: dict[str, object] = {"padding": "nan", "round_f32_to_tf32": True}
"""Parameters for fields of a descriptor, with the value that sets each. Triton 3.6 has the first one only."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An argument as Triton specialises a kernel to it. name: of its type. attributes: such as divisibility."""

    name: str
    attributes: list[list[object]]

    @property
    def is_constant(self) -> bool:
        """Is it part of the code?"""
        return self.name == CONSTANT


def typed(param: Any, value: Any) -> Typed:
    """The type of an argument. Constants are arguments that are declared so, None, and the number 1."""
    fixed = getattr(param, "annotation_type", "")
    is_one = type(value) is int and value == 1 and not (param.do_not_specialize or fixed)
    if param.is_constexpr or value is None or is_one:
        return Typed(CONSTANT, [])
    if param.do_not_specialize or getattr(param, "do_not_specialize_on_alignment", False):
        return Typed(fixed or _type(param.name, value), [])
    address = host.array_info(value).address if host.is_array(value) else value
    even = (type(address) is int and address % 16 == 0) or address is None
    return Typed(fixed or _type(param.name, value), DIVISIBLE if even else [])


def _type(name: str, value: Any) -> str:
    if _is_descriptor(value):
        return f"tensordesc<{_pointed(name, value.base)}{list(value.block_shape)}>"
    if host.is_array(value):
        return f"*{_pointed(name, value)}"
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise _unknown(name, value)


def _pointed(name: str, array: Any) -> str:
    element = host.array_info(array).dtype
    if element not in POINTERS:
        raise _unknown(name, array)
    return POINTERS[element]


def _unknown(name: str, value: Any) -> ArgumentError:
    return ArgumentError(
        f"argument {name} has a type that Triton lacks",
        given=described(value),
        allowed="arrays and tensors of the CPU, triton.tools.tensor_descriptor.TensorDescriptor, numbers, None",
    )


def _is_descriptor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape"))


# The parameters of the PTX


def laid_out(values: Iterable[tuple[str, Any]], maps: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The parameters of the PTX, with the names that reports have for them.

    maps: what Triton says of the tensor map of each descriptor; empty where it makes pointers of descriptors.
    """
    by_map = iter(maps)
    found: list[tuple[str, Any]] = []
    for name, value in values:
        if _is_descriptor(value):
            found += _of_descriptor(name, value, next(by_map, None))
        else:
            found.append((name, value))
    return found


def _of_descriptor(name: str, value: Any, map_: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """A descriptor as a tensor map, or as a pointer with the map's other fields; then its shape and strides."""
    sizes = [(f"{name}.{what}[{k}]", int(size)) for what in ("shape", "strides")
             for k, size in enumerate(getattr(value, what))]  # fmt: skip
    if map_ is not None:
        yield name, host.TensorMap.of(value.base, _fields(name, value, map_))
    else:
        yield name, value.base
        yield from sizes
        for flag, set_by in FLAGS.items():
            if hasattr(value, flag):
                yield f"{name}.{flag}", getattr(value, flag) == set_by
    yield from sizes


def _fields(name: str, value: Any, map_: Mapping[str, Any]) -> MapFields:
    if map_["fp4_padded"] or map_.get("is_im2col"):
        what = "padded elements of 4 bits" if map_["fp4_padded"] else "im2col"
        raise ArgumentError(f"argument {name}: its tensor map", given=what, allowed="boxes of whole bytes")
    kind, element = next((kind, element) for kind, element in ELEMENTS.items() if element.ptx == map_["elem_type"])
    strides = tuple(int(stride) * element.nbytes for stride in value.strides[-2::-1])
    oob = getattr(value, "padding", "zero")
    box = tuple(map_["block_size"][::-1])
    return MapFields(kind, tuple(map(int, value.shape[::-1])), strides, box, map_["swizzle"], (), oob)


# A kernel compiled by Triton, with the arguments of a call, and run.


OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug")
JIT = "what @triton.jit made, or @triton.autotune and @triton.heuristics of that"
MOST_MODULES = 32  # that are kept
OWN_MEMORY = ("global_smem", "shared memory")  # Triton's; threads that hold the same element all store it there


@public
def check_triton(
    kernel: Any,
    grid: int | Sequence[int] | Any,
    *args: Any,
    target: str = "sm_90a",
    check: str | Iterable[str] = "all",
    config: int = 0,
    limit_s: float | None = None,
    **named: Any,
) -> Run:
    """Compile a ``@triton.jit`` kernel with Triton, and run its PTX on the simulator with every check.

    grid: programs along x, y, z, or a function of the arguments, as for Triton. args, named: what the kernel is
    launched with, NumPy arrays or tensors of the CPU, which are changed in place; ``num_warps`` and other options of
    Triton are options here. config: of an autotuned kernel, which of its configurations. `Any`: those are Triton's.
    Raises SimulationError, at the kernel's line, where a check finds something; ToolError where Triton refuses it.
    """
    loaded = load_triton(kernel, *args, target=target, config=config, **named)
    return loaded.simulate(grid, check=check, limit_s=limit_s)


@dataclass(frozen=True, slots=True)
class TritonText:
    """What Triton made of a kernel, as data: PTX, and what it says of its launch. name: of the entry. shared: bytes.
    The sizes are bytes for each CTA, tensordesc_meta says how the tensor map of each descriptor is laid out.
    """

    ptx: str
    name: str
    shared: int = 0
    num_ctas: int = 1
    global_scratch_size: int = 0
    profile_scratch_size: int = 0
    tensordesc_meta: Sequence[Mapping[str, Any]] = ()


class LoadedTriton:
    """What Triton made of a kernel for a call: its PTX, and the call's arguments as that takes them.

    values: all arguments by name. passed: the names of those that are no constants.
    """

    def __init__(self, text: TritonText, values: Mapping[str, Any], passed: Iterable[str]) -> None:
        self.ptx, self.metadata = text.ptx, text
        self.values, self.passed = dict(values), tuple(passed)
        self.arguments = laid_out([(name, values[name]) for name in self.passed], text.tensordesc_meta)

    def simulate(self, grid: Any, *, ptx: str = "", check: str | Iterable[str] = "all",
                 limit_s: float | None = None) -> Run:  # fmt: skip
        """Run the PTX, or another one in its place, with these arguments. See `check_triton`."""
        entry, values, launch = self.call(grid, ptx)
        try:
            run = entry.simulate(*values, **launch, check=check, limit_s=limit_s)
        except SimulationError as error:
            error.hint = error.hint if is_named(error.hint) else None
            raise
        copies = {each.message for each in run.findings if _is_of_copies(each)}
        run.warnings[:] = [text for text in run.warnings if text not in copies]
        run.findings[:] = [each for each in run.findings if each.message not in copies]
        return run

    def call(self, grid: Any, ptx: str = "") -> tuple[LoadedKernel, list[Any], dict[str, Any]]:
        """The kernel of the PTX, or of another one in its place, with its arguments and its launch."""
        programs = grid(self.values) if callable(grid) else grid
        ctas = tuple(programs) if isinstance(programs, (tuple, list)) else (programs,)
        cluster = self.metadata.num_ctas
        whole = (ctas[0] * cluster, *ctas[1:]) if isinstance(ctas[0], (int, np.integer)) else ctas
        entry = _entry(ptx or self.ptx, self.metadata.name)
        passed = [*self.arguments, *self._scratch(len(entry.entry.params) - len(self.arguments), whole)]
        entry.call_parameters([name for name, _ in passed])
        launch = {"grid": whole, "cluster": cluster, "non_portable_cluster": True, "shared_bytes": self.metadata.shared}
        return entry, [value for _, value in passed], launch

    def _scratch(self, count: int, ctas: Sequence[int]) -> list[tuple[str, Any]]:
        """The hidden parameters: scratch memory that a kernel needs, so many bytes for each CTA."""
        made = []
        for name in ("global scratch", "profile scratch")[:count]:
            size = getattr(self.metadata, f"{name.replace(' ', '_')}_size") * int(np.prod(ctas))
            made.append((f"{name} of Triton", np.zeros(size, np.uint8) if size else None))
        return made


def _is_of_copies(found: Finding) -> bool:
    """Is it about several threads that store one value to Triton's own memory, as its layouts have them do?

    Where Triton fuses a product with the first sum of a reduction, their values differ by a rounding.
    """
    return found.idiom == "equal-values" and found.buffer in OWN_MEMORY


@lru_cache(maxsize=MOST_MODULES)
def _entry(ptx: str, name: str) -> LoadedKernel:
    return LoadedModule(parse(ptx), dialect=TRITON)[name]


@public
def load_triton(kernel: Any, *args: Any, target: str = "sm_90a", config: int = 0, **named: Any) -> LoadedTriton:
    """A ``@triton.jit`` kernel, compiled for an architecture and these arguments. See `check_triton`."""
    if target not in ARCHS:
        raise ArgumentError(f"unknown architecture {target!r}", given=target, allowed=", ".join(ARCHS))
    function, named = _innermost(kernel, args, named, config)
    own = {param.name for param in function.params}
    options = {name: named.pop(name) for name in OPTIONS if name in named and name not in own}
    values = _bound(function, args, named)
    types = {param.name: typed(param, values[param.name]) for param in function.params}
    text = _compiled(function, values, types, target, options)
    return LoadedTriton(text, values, (name for name, one in types.items() if not one.is_constant))


def _innermost(kernel: Any, args: Sequence[Any], named: Mapping[str, Any], config: int) -> tuple[Any, dict[str, Any]]:
    """The function that was decorated first, and what its decorators add to the arguments by name."""
    given, added, hooks = dict(named), dict[str, Any](), []
    while not hasattr(kernel, "params") and hasattr(kernel, "fn") and hasattr(kernel, "arg_names"):
        here = {**dict(zip(kernel.arg_names, args, strict=False)), **added, **given}
        if hasattr(kernel, "configs"):
            if config not in range(len(kernel.configs)):
                allowed = f"0 to {len(kernel.configs) - 1}"
                raise ArgumentError("config is the number of a configuration", given=f"{config}", allowed=allowed)
            chosen = kernel.configs[config]
            added |= chosen.all_kwargs()
            hooks += [chosen.pre_hook] if chosen.pre_hook is not None else []
        elif isinstance(getattr(kernel, "values", None), dict):
            added |= {name: made(here) for name, made in kernel.values.items()}
        else:
            break
        kernel = kernel.fn
    if not (hasattr(kernel, "params") and hasattr(kernel, "arg_names")):
        interpreted = type(kernel).__name__ == "InterpretedFunction"
        hint = "leave TRITON_INTERPRET out of the environment: the kernel is compiled here" if interpreted else None
        raise ArgumentError("this is no kernel of Triton", given=described(kernel), allowed=JIT, hint=hint)
    both = {**added, **given}
    for hook in hooks:
        hook({**dict(zip(kernel.arg_names, args, strict=False)), **both})
    return kernel, both


def _bound(kernel: Any, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, defaults among them, in the kernel's order."""
    names = [param.name for param in kernel.params]
    twice = [name for name in names[: len(args)] if name in named]
    values = dict(zip(names, args, strict=False)) | dict(named)
    for param in kernel.params:
        if param.name not in values and param.has_default:
            values[param.name] = param.default
    unknown, missing = [name for name in values if name not in names], [name for name in names if name not in values]
    if len(args) <= len(names) and not (unknown or missing or twice):
        return {name: values[name] for name in names}
    given = [f"{len(args)} arguments"] if len(args) > len(names) else []
    given += [f"no {', '.join(missing)}"] if missing else []
    given += [f"{name} twice" for name in twice] + unknown
    allowed = choices(unknown[0], [*names, *OPTIONS]) if unknown else ", ".join(names)
    what = f"{kernel.__name__} takes {len(names)} arguments"
    raise ArgumentError(what, given="; ".join(given), allowed=allowed)


PTX_VERSION = 90  # that of Triton's own ptxas, which only a process could be asked for
_KEPT: dict[object, TritonText] = {}  # the last texts, by their source and options


def _compiled(
    kernel: Any, values: Mapping[str, Any], types: Mapping[str, Typed], target: str, options: dict[str, Any]
) -> TritonText:
    """The kernel, compiled by Triton for an architecture."""
    try:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise ToolError("Triton is not installed", given=str(error), hint="pip install triton") from None
    ordered = list(types.items())
    source = ASTSource(
        fn=kernel,
        signature={name: one.name for name, one in ordered},
        constexprs={(at,): values[name] for at, (name, one) in enumerate(ordered) if one.is_constant},
        attrs={(at,): one.attributes for at, (_, one) in enumerate(ordered) if one.attributes},
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            key = source.hash(), target, str(sorted(options.items()))
            if key not in _KEPT:
                made = _by_stages(source, GPUTarget("cuda", arch(target).number, 32), options)
                _KEPT[key] = made
                if len(_KEPT) > MOST_MODULES:
                    del _KEPT[next(iter(_KEPT))]
            return _KEPT[key]
    except Exception as error:  # Triton has no one class of errors
        what, given = f"Triton refuses {kernel.__name__}", str(error).strip() or type(error).__name__
        raise ToolError(what, given=given, at=_place(kernel, error)) from None


def _place(kernel: Any, error: Exception) -> Span | None:
    """The line that Triton's error names, which it counts from the one with ``def``."""
    number = getattr(getattr(error, "node", None), "lineno", None)
    if number is None:
        return None
    lines, first = getsourcelines(kernel.fn)
    before = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return Span(kernel.fn.__code__.co_filename, first + before + number - 1)


def _by_stages(source: Any, target: Any, options: Mapping[str, Any]) -> TritonText:
    """PTX by Triton's own stages: without its driver, the cache that it writes, and ptxas, which is a process.

    Versions of Triton differ in what the stages are called with; each is given what it names.
    """
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(target)
    chosen = backend.parse_options({"ptx_version": PTX_VERSION, **options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    offered = {
        "target": target, "options": chosen, "context": context, "stages": stages,
        "language": getattr(source, "language", None), "codegen_fns": backend.get_codegen_implementation(chosen),
        "module_map": backend.get_module_map(),
    }  # fmt: skip
    module = source.make_ir(*[offered[name] for name in signature(source.make_ir).parameters])
    backend.add_stages(*[offered[name] for name in signature(backend.add_stages).parameters])
    said = dict(vars(chosen))
    for name in list(stages)[list(stages).index(source.ext) :]:
        module = stages[name](module, said)
        if name == "ptx":
            break
    kept = {each.name: said[each.name] for each in fields(TritonText) if said.get(each.name) is not None}
    return TritonText(str(module), **kept)
