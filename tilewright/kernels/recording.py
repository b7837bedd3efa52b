"""What a call of an operator did, noted while torch's tensors go through it: allocations, copies, launches.

Each tensor is named by the memory that it lies in. An address is noted as that of its memory's first tensor and so many
bytes beyond, which holds for all calls with tensors of the same shapes and strides. Whatever torch did that the notes
cannot say makes them not whole, and the call is not remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tilewright.compiler import Executable
from tilewright.cuda import driver
from tilewright.cuda.emit_alias import written
from tilewright.cuda.launch import LaunchPlan
from tilewright.cuda.quick import launch_text

__all__ = ["Notes", "is_plain", "is_watched", "recorder", "reseated"]

ASKED = ("aten.is_pinned.default",)  # where the device of a tensor on the host is asked for
DECIDING = 127  # the bits of an address by which operators decide: tensor maps and rows of 128 bytes ask for most
REDONE = ("aten.copy_.default", "aten.clone.default", "aten.fill_.Scalar", "aten.zero_.default")
MADE = ("aten.new_empty.default", "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_strided.default")
SAME_SIZE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}  # types that every version of DLPack has


@dataclass(slots=True)
class Notes:
    """A recorder; `Any`: tensors.

    firsts: by the number that torch has for a memory, its name and its first tensor: a0, a1 of arguments, t2 of one
    that was made. lines: the source. values: what it names. mask: the bits of an address that decide. filled: the
    memories that something wrote. is_whole: has all been noted? kept: tensors that must live, lest torch gives the
    number of their memory again.
    """

    firsts: dict[int, tuple[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    mask: int = DECIDING
    filled: set[str] = field(default_factory=set)
    is_whole: bool = True
    kept: list[Any] = field(default_factory=list)

    def add(self, name: str, tensor: Any) -> None:
        """A memory and its first tensor."""
        self.firsts[tensor.untyped_storage()._cdata] = name, tensor

    def first_of(self, tensor: Any) -> tuple[str, Any]:
        """The name of a tensor's memory, and its first tensor. Of a memory nobody knows the notes are not whole."""
        self.kept.append(tensor)
        found = self.firsts.get(tensor.untyped_storage()._cdata)
        self.is_whole = self.is_whole and found is not None
        return found or ("", tensor)

    def value(self, value: Any) -> str:
        """A name for a value."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return name

    def torch_did(self, func: Any, args: Sequence[Any], named: dict[str, Any], result: Any) -> None:
        """An operation of torch."""
        operation = str(func)
        if operation in MADE:
            self.makes(result, _empty(self.value, result))
        elif operation in REDONE:
            call = f"{self.value(func)}({', '.join(map(self.shown, args))}, **{self.value(named)})"
            if result.untyped_storage()._cdata in self.firsts:
                self.lines.append(call)
            else:
                self.makes(result, call)
            self.touches([each for each in args if _is_tensor(each) and each is not result], [result])
        else:
            self.is_whole = self.is_whole and (func.is_view or operation in ASKED)

    def makes(self, tensor: Any, text: str) -> None:
        """A tensor in a memory of its own, which the expression makes."""
        number = len(self.firsts)
        self.add(f"t{number}", tensor)
        self.lines += [f"t{number} = {text}", f"p{number} = t{number}.data_ptr()"]

    def shown(self, value: Any) -> str:
        """An argument of an operation: a value, or a tensor as a view of its memory's first."""
        if not _is_tensor(value):
            return self.value(value)
        name, first = self.first_of(value)
        self.is_whole = self.is_whole and value.dtype == first.dtype
        begin = f"{name}.storage_offset() + {value.storage_offset() - first.storage_offset()}"
        return f"{name}.as_strided({self.value(tuple(value.shape))}, {self.value(value.stride())}, {begin})"

    def launch(self, exe: Executable, args: tuple[Any, ...]) -> None:
        """Carry out a launch, and note it."""
        plan, values, stream = exe.prepared(args)
        plan.launch(values, stream)
        shown = [self.address(value, arg) for value, arg in zip(values, args, strict=True)]
        # Arrays that are made here overlap with none of the others.
        apart = all(self.first_of(args[written])[0].startswith("t") for _, written in plan.apart)
        self.is_whole = self.is_whole and apart and not plan.maps.are_given
        self.mask |= plan.mask
        stores = written(exe.lowered)
        arrays = [(param.name, arg) for param, arg in zip(exe.lowered.params, args, strict=True) if _is_tensor(arg)]
        self.touches(
            [arg for name, arg in arrays if name not in stores], [arg for name, arg in arrays if name in stores]
        )
        self.lines += launch_text(plan.is_plain, shown, self.named(plan))

    def touches(self, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Tensors that are read, and others that are written then. What nothing here wrote was written unnoticed."""
        read = {self.first_of(each)[0] for each in reads}
        self.is_whole = self.is_whole and all(name in self.filled for name in read if name.startswith("t"))
        self.filled |= {self.first_of(each)[0] for each in writes}

    def named(self, plan: LaunchPlan) -> dict[str, str]:
        """The names of the parts of a plan."""
        parts = {"plan": plan, "frames": plan.frames}
        return {name: self.value(part) for name, part in parts.items()}

    def address(self, value: Any, arg: Any) -> str:
        """The value of a parameter: a number, or where an array begins."""
        if not _is_tensor(arg):
            return self.value(value)
        name, first = self.first_of(arg)
        return f"p{name[1:]} + {value - first.data_ptr()}".removesuffix(" + 0")

    def results(self, made: Sequence[Any]) -> list[str]:
        """The names of the results, each of which must have a memory to itself."""
        found = [self.first_of(each) for each in made]
        alone = [name.startswith("t") and first is each for (name, first), each in zip(found, made, strict=True)]
        self.is_whole = self.is_whole and all(alone)
        self.touches(made, ())
        return [name for name, _ in found]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr")


def _empty(value: Any, like: Any) -> str:
    """An expression for a new tensor like this one, whose elements are any. value: names a value.

    Where there is one GPU, by what torch.compile's code uses: it takes a third of the time, and asks for no device.
    """
    torch = sys.modules["torch"]
    shape, stride, kind, device = map(value, (tuple(like.shape), like.stride(), like.dtype, like.device))
    quick = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    if quick is not None and driver.device_count() == 1:
        return f"{value(quick)}({shape}, {stride}, {kind})"
    return f"{value(torch.empty_strided)}({shape}, {stride}, dtype={kind}, device={device})"


@cache
def recorder() -> Any:
    """The dispatch mode of torch that tells `Notes` what torch does. `Any`: a class; torch may not be there."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch may not be there
        def __init__(self, notes: Notes) -> None:
            super().__init__()
            self.notes = notes

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.notes.torch_did(func, args, kwargs or {}, result)
            return result

    return Recorder


def reseated(tensor: Any) -> Any:
    """The tensor, in what torch takes for a memory of its own: two arguments may be parts of one."""
    torch = sys.modules["torch"]
    bits = tensor.detach().view(getattr(torch, SAME_SIZE[tensor.element_size()]))
    seated = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(bits)).view(tensor.dtype)
    return seated.as_strided(tensor.shape, tensor.stride())  # DLPack says nothing of strides along one element


def is_plain(tensor: Any) -> bool:
    """Is it a dense tensor with elements, on a GPU, without a wrapper (vmap) or lazy operation (negation) around it?"""
    torch = sys.modules["torch"]
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.is_cuda or not tensor.numel():
        return False
    return torch._C._dispatch_keys(tensor).raw_repr() in _plain_keys(tensor.device)


@cache
def _plain_keys(device: Any) -> tuple[int, ...]:
    """What torch's dispatcher reads off dense tensors: made in inference mode, and otherwise."""
    torch = sys.modules["torch"]
    found = []
    for inference in (True, False):
        with torch.inference_mode(inference):
            found.append(torch._C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return tuple(found)


def is_watched() -> bool:
    """Must torch see the operator itself: for a mode, a transformation, a trace?"""
    torch = sys.modules["torch"]
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
    )
