"""torch on a machine without a GPU, for code that asks for one: CUDA's devices become the host, and what `load_inline`
would compile runs on the simulator.

Numbers drawn from a seed are then those of the host's generator. Read `redirected` first, then `load_inline`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentError, choices
from tilewright.load import LoadedModule, load_cu
from tilewright.load.cu_launches import launched
from tilewright.load.cu_numbers import HostNumbers
from tilewright.load.cu_tree import below, tree_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_tree import Tree

# Functions of the host in the CUDA text of a `load_inline`, read, not compiled: their launches run on the simulator.
#
# A function is read anew in each call, its questions about tensors (``A.numel()``, ``A.size(0)``) answered with
# numbers; what remains are launches of kernels, tensors that it makes, and what it returns. A function whose launches
# stand under conditions or in loops is refused.
#
# Source: PyTorch, "Custom C++ and CUDA Extensions".


_MADE = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::(empty|zeros|ones)_like\(\s*(\w+)[^;]*;"
)
_SIZED = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::(empty|zeros|ones)"
    r"\(\s*\{([^{}]*)\}\s*,\s*(\w+)\s*\.\s*options\(\)\s*\)\s*;"
)
_NUMBER = re.compile(r"\b(?:auto|int|int64_t|uint32_t|long|size_t|unsigned)\s+(\w+)\s*=\s*([^;]+);")
_DIM3 = re.compile(r"\bdim3\s+(\w+)\s*[({]([^;]*)[)}]\s*;")
_ALIKE = re.compile(r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(\w+)\s*\.\s*(?:contiguous|clone)\(\)\s*;")
_DATA = re.compile(r"\b(\w+)\s*\.\s*(?:mutable_|const_)?data_ptr\b")
_BRANCHES = (*(f"{word}_statement" for word in ("if", "for", "while", "do", "switch")), "lambda_expression")


def host_function(module: LoadedModule, source: str, name: str) -> Callable[..., Any] | None:
    """A function of the host as Python calls it; None where the text has none of that name that can be read."""
    tree = tree_of(source)
    node = next(
        (definition for definition in below(tree.root, "function_definition") if _name(definition, tree) == name), None
    )
    if node is None or any(next(_launches(branch), None) is not None for branch in below(node, *_BRANCHES)):
        return None
    names = [match[1] for part in _parameters(node, tree) if (match := re.search(r"(\w+)\s*$", part))]

    def call(*arguments: Any) -> Any:
        if len(arguments) != len(names):
            raise ArgumentError(
                f"{name} takes {len(names)} arguments", given=f"{len(arguments)}", allowed=", ".join(names)
            )
        return HostCall(name, dict(zip(names, arguments, strict=True))).run(module, source, tree.of(node))

    return call


def _name(node: Node, tree: Tree) -> str:
    head = next(below(node, "function_declarator"), None)
    return tree.of(head).partition("(")[0].rpartition("::")[2].strip() if head is not None else ""


def _parameters(node: Node, tree: Tree) -> list[str]:
    head = next(below(node, "parameter_list"), None)
    return [tree.of(parameter).partition("=")[0] for parameter in head.named_children] if head is not None else []


def _launches(node: Node) -> Iterator[Node]:
    return below(node, "kernel_call_syntax")


class HostCall:
    """A call of a function of the host, as it is read; mutable.

    values: its arguments and the tensors that it makes, by name. numbers: those of them that are numbers, and what else
    it declares, as text or in numbers.
    """

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name, self.values = name, values
        self.numbers: dict[str, Any] = {key: value for key, value in values.items() if not hasattr(value, "shape")}

    def run(self, module: LoadedModule, source: str, text: str) -> Any:
        """Answer what the text asks of tensors, make those that it makes, run its launches; what it returns."""
        text = "".join(map(self._read, re.split(r"(?<=;)", text)))
        numbers = {key: value for key, value in self.numbers.items() if not isinstance(value, str)}
        for shape in launched(text, given=numbers, around=(source,)):
            if shape.lacks:
                raise self._unread(f"a launch of {shape.kernel}, which needs {', '.join(shape.lacks)}")
            module[shape.kernel].simulate(*map(self._argument, shape.arguments), grid=shape.grid, block=shape.block,
                                          shared_bytes=shape.shared_bytes, cluster=shape.cluster)  # fmt: skip
        return self._returned(text)

    def _read(self, statement: str) -> str:
        """A statement with numbers in the place of what it asks of tensors; what it declares is known from here on."""
        for key, value in self.values.items():
            if hasattr(value, "shape"):
                statement = _answered(statement, key, tuple(map(int, value.shape)))
        for pattern, act in _STATEMENTS:
            if match := pattern.search(statement):
                act(self, match)
                break
        return statement

    def _like(self, match: re.Match[str]) -> None:
        tensor = self._tensor(match[3])
        self.values[match[1]] = _new(tensor, match[2], tensor.shape)

    def _sized(self, match: re.Match[str]) -> None:
        extents = [HostNumbers(self.numbers).of(word) for word in match[3].split(",")]
        shape = [int(extent) for extent in extents if extent is not None]
        if len(shape) < len(extents):
            raise self._unread(f"`{match[0].strip()}`")
        self.values[match[1]] = _new(self._tensor(match[4]), match[2], tuple(shape))

    def _alike(self, match: re.Match[str]) -> None:
        tensor = self._tensor(match[2])
        self.values[match[1]] = tensor.clone() if hasattr(tensor, "clone") else tensor.copy()

    def _number(self, match: re.Match[str]) -> None:
        self.numbers.setdefault(match[1], match[2])

    def _dim3(self, match: re.Match[str]) -> None:
        parts = zip("xyz", map(HostNumbers(self.numbers).of, match[2].split(",")), strict=False)
        self.numbers.update({f"{match[1]}.{axis}": value for axis, value in parts if value is not None})

    def _argument(self, word: Any) -> Any:
        """A launch's argument: a number, or the tensor whose data it points to."""
        if not isinstance(word, str):
            return word
        match = _DATA.search(word)
        key = match[1] if match else word.strip()
        if key not in self.values:
            raise self._unread(f"the argument `{word}` of a launch")
        return self.values[key]

    def _tensor(self, key: str) -> Any:
        if not hasattr(self.values.get(key), "shape"):
            raise self._unread(f"the tensor {key}")
        return self.values[key]

    def _returned(self, text: str) -> Any:
        """What the function returns: nothing, a tensor, or several."""
        match = re.search(r"\breturn\b\s*([^;]*);", text)
        words = re.findall(r"\w+", re.sub(r"std::(?:make_tuple|vector<[^>]*>|move)", "", match[1])) if match else []
        tensors = tuple(map(self._tensor, words))
        return None if not tensors else tensors[0] if len(tensors) == 1 else tensors

    def _unread(self, what: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name} is a function of the host, which is read, not compiled", given=what,
            allowed="launches on numbers and tensors: A.numel(), A.size(0), A.data_ptr<float>(), torch::empty_like(A)",
            hint="the module's KERNEL(..., grid=(...), block=(...)), with the kernel's own arguments",
        )  # fmt: skip


_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[[HostCall, re.Match[str]], None]], ...] = (
    (_MADE, HostCall._like),
    (_SIZED, HostCall._sized),
    (_ALIKE, HostCall._alike),
    (_NUMBER, HostCall._number),
    (_DIM3, HostCall._dim3),
)


def _new(tensor: Any, how: str, shape: tuple[int, ...]) -> Any:
    """A tensor of the same elements: of zeros, of ones, or with whatever a new one has."""
    new = tensor.new_empty(shape) if hasattr(tensor, "new_empty") else np.empty(shape, tensor.dtype)
    if how != "empty":
        new[...] = float(how == "ones")
    return new


def _answered(text: str, name: str, shape: tuple[int, ...]) -> str:
    """The text with numbers in the place of what it asks of a tensor."""
    tensor = rf"\b{name}\s*\.\s*"
    text = re.sub(tensor + r"(?:numel\(\)|sizes\(\)\.numel\(\))", str(prod(shape)), text)
    text = re.sub(tensor + r"dim\(\)", str(len(shape)), text)
    asked = tensor + r"(?:size\(\s*(-?\d+)\s*\)|sizes\(\)\s*\[\s*(\d+)\s*\])"
    return re.sub(asked, lambda match: str(shape[int(match[1] or match[2])]), text)


# torch's `load_inline` without a compiler for the host: the kernels of its CUDA text, each called with its launch.
#
# Source: PyTorch, "torch.utils.cpp_extension.load_inline".


TARGET = "sm_90a"


class InlineModule:
    """Kernels by name: ``module.add(a, b, c, n, grid=4, block=256)`` runs one on the simulator."""

    def __init__(self, name: str, source: str, functions: Sequence[str]) -> None:
        self._name, self._functions, self._source = name, functions, source
        self._module = load_cu(source + "\n", TARGET)

    def __getattr__(self, name: str) -> Any:
        if name in self._module.kernels:
            return self._module[name].simulate
        if name in self._functions:
            if (function := host_function(self._module, self._source, name)) is not None:
                return function
            raise ArgumentError(
                f"{self._name}.{name} is a function of the host, which nothing here compiles",
                given=f"functions={list(self._functions)}",
                allowed=choices(name, self._module.kernels),
                hint=f"{self._name}.KERNEL(..., grid=(...), block=(...)), with the kernel's own arguments",
            )
        raise AttributeError(f"{self._name} has no kernel {name}: {', '.join(self._module.kernels)}")


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str] = (),
    cuda_sources: str | Sequence[str] = (),
    functions: Sequence[str] | str | dict[str, str] = (),
    *_: Any,
    **__: Any,
) -> InlineModule:
    """The kernels of ``cuda_sources``; flags for compilers, folders and the host's C++ mean nothing here."""
    sources = [cuda_sources] if isinstance(cuda_sources, str) else [*cuda_sources]
    if not sources:
        raise ArgumentError(f"load_inline({name!r}) has no CUDA text", given="cuda_sources=[]", allowed="a kernel")
    names = [functions] if isinstance(functions, str) else list(functions)
    text = "\n".join(line for line in "\n".join(sources).splitlines() if not _is_of_torch(line))
    return InlineModule(name, text, names)


def _is_of_torch(line: str) -> bool:
    """Does it include a header of torch, which only the host's code needs?"""
    words = line.replace(" ", "")
    return words.startswith("#include") and any(part in words for part in ("torch/", "ATen/", "c10/", "pybind11"))


# CUDA's devices are the host.


def redirected() -> None:
    """From now on, in this process, tensors for a GPU are the host's, and `load_inline` is that of this file.

    Does nothing where torch is not installed.
    """
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        """Calls of torch with the host in the place of a GPU."""

        def __torch_function__(
            self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            """The call, its devices exchanged."""
            if getattr(function, "__name__", "") in ("cuda", "pin_memory"):
                return args[0]
            named = {name: _on_host(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            return function(*map(_on_host, args), **named)

    class HostGenerator(torch.Generator):  # type: ignore[misc]  # likewise; a class, since annotations name it
        """torch's generator, on the host."""

        def __new__(cls, device: Any = "cpu") -> Any:
            """A generator of the host, whatever device is named."""
            return super().__new__(cls, device=_on_host(device))

    torch.Generator = HostGenerator
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.is_cuda = property(lambda self: True)
    for name in ("synchronize", "empty_cache", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, _doing_nothing())
    torch.use_deterministic_algorithms = _doing_nothing()  # torch's own imports a compiler, which walls refuse
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    OnCpu().__enter__()
    with suppress(ImportError):
        import torch.utils.cpp_extension as extensions

        extensions.load_inline = load_inline


def _doing_nothing() -> Callable[..., None]:
    """A function without effect, as there is no GPU to wait for. Each is another: torch keeps a table of its own."""

    def nothing(*_: Any, **__: Any) -> None:
        """Do nothing."""

    return nothing


def _on_host(value: Any) -> Any:
    """The host in the place of a GPU; any other value itself."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return "cpu" if type(value).__name__ == "device" and str(value).startswith("cuda") else value
