"""A kernel as a function on arrays: of NumPy on the simulator, of CuPy and torch on the GPU, there also as an operator.

A `TorchOperator` says which arrays it makes and how they are filled; torch gets it with fake tensors (shapes without
data) and with its gradient, so that torch.compile and autograd know it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright import host
from tilewright.compiler import Executable
from tilewright.errors import ArgumentError
from tilewright.kernels.arrays import Array, seen_torch
from tilewright.kernels.recording import MISSED, SAVED, RememberedCalls, is_tensor, unsaved

Arrays = tuple[Array, ...]
Launch = tuple[Executable, tuple[Any, ...]]
"""A kernel and its arguments."""
Launches = Iterator[Launch]
OPERATORS: dict[str, TorchOperator] = {}
REGISTERED: set[str] = set()


def carried_out(compiled: Executable, arguments: tuple[Any, ...]) -> None:
    compiled(*arguments)


@dataclass(frozen=True)
class TorchOperator:
    """schema: the arguments and results as torch spells them. outputs: new arrays for the results, from the arguments;
    raises ArgumentError where these do not fit. run: the launches that fill them, from them and the arguments, each
    carried out before the next is asked for; beside them it takes views, makes arrays and copies, and decides by
    shapes, strides, dtypes, numbers and the bits of addresses in `recording.DECIDING`. gradient: from the arguments,
    the results and their gradients those of the arguments; None where there is none. mutates: the arguments that it
    writes to. calls: those that are remembered. runs_on_nothing: is it run on empty arguments, too?
    """

    name: str
    schema: str
    outputs: Callable[..., Arrays]
    run: Callable[..., Launches]
    gradient: Callable[[Arrays, Arrays, Arrays], Arrays] | None = None
    runs_on_nothing: bool = False
    mutates: tuple[str, ...] = ()
    calls: RememberedCalls = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        OPERATORS[self.name] = self
        object.__setattr__(self, "calls", RememberedCalls(self.direct, self.backward if self.gradient else None))

    def __call__(self, *args: Any) -> Any:
        torch = seen_torch()
        if torch is None:
            return self.direct(*args)
        if not torch.compiler.is_dynamo_compiling():
            if not torch._C._len_torch_function_stack() and torch.autograd.forward_ad._current_level < 0:
                result = self.calls.again(args, self.calls.looked_up)
                if result is not MISSED:
                    return result
            if not any(isinstance(value, torch.Tensor) for value in args):
                return self.direct(*args)
            refuse_tangents(self.name, args)
            result = self.calls.recorded(args, may_grade=True)
            if result is not MISSED:
                return result
        register(self.name)
        return getattr(torch.ops.tilewright, self.name).default(*args)

    def registered(self, *args: Any) -> Any:
        """The operator as torch calls it, for a call that autograd and torch's modes have seen."""
        result = self.calls.again(args, self.calls.looked_up)
        if result is MISSED:
            result = self.calls.recorded(args, may_grade=False)
        return self.direct(*args) if result is MISSED else result

    def direct(self, *args: Any, launch: Callable[[Executable, tuple[Any, ...]], None] = carried_out) -> Any:
        """The operator on arrays of any library; sums of no elements are 0. launch: carries out a launch."""
        results = self.outputs(*args)
        devices = {host.device_of(value) for value in args if host.is_array(value)}
        if len(devices) > 1:
            raise host.different_devices(self.name, devices)
        needed = results if self.runs_on_nothing else [value for value in args if host.is_array(value)]
        if all(0 not in value.shape for value in needed):
            for compiled, arguments in self.run(results, *args):
                launch(compiled, arguments)
        else:
            for result in results:
                result[...] = 0
        return results if len(results) > 1 else results[0]

    def shapes(self, *args: Any) -> Any:
        """The results without their data."""
        results = self.outputs(*args)
        return results if len(results) > 1 else results[0]

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        """The gradient as torch calls it. `Any`: torch's types."""
        assert self.gradient is not None
        saved = iter(ctx.saved_tensors)
        args = tuple(next(saved) if value is SAVED else value for value in ctx.args)
        return self.gradient(args, tuple(saved), gradients)


def refuse_tangents(name: str, args: Arrays) -> None:
    """Raises ArgumentError where torch's forward mode wants a derivative: it would be taken for zero."""
    forward = sys.modules["torch"].autograd.forward_ad
    if forward._current_level < 0:
        return
    if any(forward.unpack_dual(value).tangent is not None for value in args if is_tensor(value)):
        raise ArgumentError(f"{name} has no derivative in forward mode", given="an argument with a tangent",
                            allowed="arguments without one; gradients in reverse mode")  # fmt: skip


def keep(ctx: Any, inputs: Arrays, output: Any) -> None:
    """Keep the arguments and the results for the gradient. `Any`: torch's types."""
    tensors = tuple(value for value in inputs if is_tensor(value))
    ctx.args = unsaved(inputs)
    ctx.save_for_backward(*tensors, *(output if isinstance(output, tuple) else (output,)))


def register(name: str) -> bool:
    """Register an operator with torch, the first time. Torch may be imported after this file, or not at all."""
    if name not in REGISTERED:
        import torch

        this = OPERATORS[name]
        operator = torch.library.custom_op(f"tilewright::{name}", this.registered, mutates_args=this.mutates,
                                        schema=this.schema)  # fmt: skip
        operator.register_fake(this.shapes)
        if this.gradient is not None:
            operator.register_autograd(this.backward, setup_context=keep)
        REGISTERED.add(name)
    return True


# What `torch.compiler.assume_constant_result` does: torch.compile, which cannot trace a registration, then calls the
# function while it traces the caller. The mark is set by hand because torch may not be there.
register._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch's name
