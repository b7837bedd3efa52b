"""A kernel as a function on arrays: of NumPy on the simulator, of CuPy and torch on the GPU, there also as an operator.

A `TorchOperator` says which arrays it makes and how they are filled; torch gets it with fake tensors (shapes without
data) and with its gradient, so that torch.compile and autograd know it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import CodeType
from typing import Any

from tilewright import host
from tilewright.compiler import Executable
from tilewright.cuda import driver
from tilewright.cuda.emit_unit import written
from tilewright.cuda.launch import MOST_PLANS, LaunchPlan, launch_text, tensor_guards
from tilewright.cuda.tensors import torch_stream
from tilewright.errors import ArgumentError
from tilewright.kernels.arrays import Array, seen_torch

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
    shapes, strides, dtypes, numbers and the bits of addresses in `DECIDING`. gradient: from the arguments,
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


# What a call of an operator did, noted while torch's tensors go through it (allocations, copies, launches), and the
# function that does it again for calls that are like it.
#
# Each tensor is named by the memory that it lies in. An address is noted as that of its memory's first tensor and so
# many bytes beyond, which holds for all calls with tensors of the same shapes and strides. Whatever torch did that the
# notes cannot say makes them not whole, and the call is not remembered.


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
        first = self.firsts.get(tensor.untyped_storage()._cdata)
        self.is_whole = self.is_whole and first is not None
        return first or ("", tensor)

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
            self.touches([arg for arg in args if is_tensor(arg) and arg is not result], [result])
        else:
            self.is_whole = self.is_whole and (func.is_view or operation in ASKED)

    def makes(self, tensor: Any, text: str) -> None:
        """A tensor in a memory of its own, which the expression makes."""
        number = 1 + max((int(name[1:]) for name, _ in self.firsts.values()), default=-1)  # arguments may be None
        self.add(f"t{number}", tensor)
        self.lines += [f"t{number} = {text}", f"p{number} = t{number}.data_ptr()"]

    def shown(self, value: Any) -> str:
        """An argument of an operation: a value, or a tensor as a view of its memory's first."""
        if not is_tensor(value):
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
        self.is_whole = self.is_whole and apart and not plan.maps.are_passed
        self.mask |= plan.mask
        stores = written(exe.lowered)
        arrays = [(param.name, arg) for param, arg in zip(exe.lowered.params, args, strict=True) if is_tensor(arg)]
        self.touches(
            [arg for name, arg in arrays if name not in stores], [arg for name, arg in arrays if name in stores]
        )
        self.lines += launch_text(plan.is_plain, shown, self.named(plan))

    def touches(self, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Tensors that are read, and others that are written then. What nothing here wrote was written unnoticed."""
        read = {self.first_of(tensor)[0] for tensor in reads}
        self.is_whole = self.is_whole and all(name in self.filled for name in read if name.startswith("t"))
        self.filled |= {self.first_of(tensor)[0] for tensor in writes}

    def named(self, plan: LaunchPlan) -> dict[str, str]:
        """The names of the parts of a plan."""
        parts = {"plan": plan, "frames": plan.frames}
        return {name: self.value(part) for name, part in parts.items()}

    def address(self, value: Any, arg: Any) -> str:
        """The value of a parameter: a number, or where an array begins."""
        if not is_tensor(arg):
            return self.value(value)
        name, first = self.first_of(arg)
        return f"p{name[1:]} + {value - first.data_ptr()}".removesuffix(" + 0")

    def results(self, tensors: Sequence[Any]) -> list[str]:
        """The names of the results, each of which must have a memory to itself."""
        firsts = [self.first_of(tensor) for tensor in tensors]
        pairs = zip(firsts, tensors, strict=True)
        alone = [name.startswith("t") and first is tensor for (name, first), tensor in pairs]
        self.is_whole = self.is_whole and all(alone)
        self.touches(tensors, ())
        return [name for name, _ in firsts]


def is_tensor(value: Any) -> bool:
    """Is it one of torch, or an array that is as one? Its memory is at ``data_ptr()``."""
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
    keys = []
    for inference in (True, False):
        with torch.inference_mode(inference):
            keys.append(torch._C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return tuple(keys)


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


# Calls of an operator on torch's tensors that are like one before: they allocate and launch, and decide nothing.
#
# The first call with tensors of some dtypes, shapes, strides, alignment and device is recorded (`recorder`), and
# becomes a function. That of ``softmax(x)`` reads
#
#     def again(args, other):
#         a0, = args
#         if not (alike(a0)): return other(args)
#         p0 = a0.data_ptr()
#         if (p0 ^ 0) & 15: return other(args)
#         wanted = stream(0)
#         t1 = empty(shape, strides, dtype)
#         p1 = t1.data_ptr()
#         ...  # the launch, as in `tilewright.cuda.launch`
#         return t1
#
# ``alike`` are torch's `TensorGuards`, which compare all that distinguishes tensors for torch: type, element type,
# shape, strides, device, whether a gradient is wanted, and the dispatcher's keys, which say under which transformation,
# tracer, mode, or autocast the call is made. Calls that torch must see as an operator are not recorded.


MISSED = object()  # the answer where no call like this one is remembered
SAVED = object()  # in the place of a tensor that autograd keeps
MOST_ALIKE = 64  # calls with equal shapes and numbers

Arguments = tuple[Any, ...]
Other = Callable[[Arguments], Any]
Again = Callable[[Arguments, Other], Any]


class RememberedCalls:
    """The calls of one operator that have been recorded. A cache, which threads share.

    direct: carries out a call, ``launch=`` each of its launches. backward: from an autograd context and the slopes of
    the results those of the arguments; None where there is no gradient. `Any`: torch's classes and tensors.
    """

    def __init__(self, direct: Callable[..., Any], backward: Callable[..., Sequence[Any]] | None) -> None:
        self._direct, self._backward = direct, backward
        self.again: Again = lambda args, other: other(args)  # the last one that fitted
        self._calls: dict[Arguments, list[Again]] = {}
        self._graded: Any = None

    @property
    def count(self) -> int:
        """How many calls are remembered."""
        return sum(map(len, self._calls.values()))

    def looked_up(self, args: Arguments) -> Any:
        """The result of a call like one before, though not like the last; `MISSED` where there was none."""
        try:
            calls = self._calls.get(_key(args), ())
        except TypeError:  # an argument without a hash, which is refused later
            return MISSED
        for again in calls:
            result = again(args, _missed)
            if result is not MISSED:
                self.again = again
                return result
        return MISSED

    def recorded(self, args: Arguments, *, may_grade: bool) -> Any:
        """The result of a call unlike those before, which is then remembered; `MISSED` where it cannot be.

        may_grade: is it autograd's affair, if an argument wants a gradient?
        """
        torch, tensors = sys.modules["torch"], _tensors(args)
        if tensor_guards() is None or is_watched() or not all(map(is_plain, tensors)):
            return MISSED
        graded = may_grade and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if (graded and self._backward is None) or len(self._calls.get(_key(args), ())) >= MOST_ALIKE:
            return MISSED
        notes, result = self._noted(args)
        names = notes.results(result if isinstance(result, tuple) else (result,))
        if notes.is_whole:
            again = self._again(notes, args, names, graded=graded)
            if self.count >= MOST_PLANS:
                self._calls.clear()
            self._calls.setdefault(_key(args), []).append(again)
            self.again = again
        return self._graded_apply()(lambda args: result, args, unsaved(args), *tensors) if graded else result

    def _noted(self, args: Arguments) -> tuple[Notes, Any]:
        """What a call does, and its results."""
        notes = Notes()
        with sys.modules["torch"].no_grad():
            values = [reseated(value) if is_tensor(value) else value for value in args]
            for i, value in enumerate(values):
                if is_tensor(value):
                    notes.add(f"a{i}", value)
            with recorder()(notes):
                return notes, self._direct(*values, launch=notes.launch)

    def _again(self, notes: Notes, args: Arguments, names: Sequence[str], *, graded: bool) -> Again:
        """The function for calls like the one that was noted."""
        text = source(args, notes.lines, names, notes.mask, graded=graded)
        tensors = {id(value): value for value in _tensors(args)}.values()
        guards = tensor_guards()
        assert guards is not None
        space = {
            **notes.values,
            **{f"T{i}": type(value) for i, value in enumerate(args)},
            **{f"V{i}": value for i, value in enumerate(args) if not is_tensor(value)},
            "alike": guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check,
            "stream": torch_stream(),
            "device": max(0, _tensors(args)[0].get_device()),
            "apply": self._graded_apply() if graded else None,
            "rest": unsaved(args),
        }
        exec(_compiled(text), space)
        again: Again = space["again"]
        return again

    def _graded_apply(self) -> Callable[..., Any]:
        """The operator for autograd, without the layers of a registered one: those of transformations above all, under
        which no call is remembered.
        """
        if self._graded is None:
            backward, function = self._backward, sys.modules["torch"].autograd.Function

            class Graded(function):  # type: ignore[misc,valid-type]  # torch may not be there
                @staticmethod
                def forward(ctx: Any, carried_out: Other, args: Arguments, rest: Arguments, *tensors: Any) -> Any:
                    result, ctx.args = carried_out(args), rest
                    ctx.save_for_backward(*tensors, *(result if isinstance(result, tuple) else (result,)))
                    return result

                @staticmethod
                def backward(ctx: Any, *slopes: Any) -> Any:
                    assert backward is not None
                    gradients = backward(ctx, *slopes)
                    pairs = zip(gradients, ctx.args, strict=True)
                    return None, None, None, *(gradient for gradient, arg in pairs if arg is SAVED)

            self._graded = super(function, Graded).apply  # type: ignore[misc]  # likewise
        applied: Callable[..., Any] = self._graded
        return applied


def source(args: Arguments, lines: Sequence[str], names: Sequence[str], mask: int, *, graded: bool) -> str:
    """The text of ``again``. lines: what it does; names: what it returns; mask: the bits of addresses that decide.

    A tensor that is passed twice has to be again, since guards refuse it: no other compares two of the arguments.
    """
    tensors = [i for i, value in enumerate(args) if is_tensor(value)]
    firsts = {i: next(j for j in tensors if args[j] is args[i]) for i in tensors}
    same = [f"type(a{i}) is T{i} and a{i} == V{i}" for i in range(len(args)) if i not in tensors]
    same += [f"a{i} is a{first}" for i, first in firsts.items() if first != i]
    same.append(f"alike({', '.join(f'a{i}' for i in tensors if firsts[i] == i)})")
    unpack, pointers = (
        f"{', '.join(f'a{i}' for i in range(len(args)))}, = args",
        [f"p{i} = a{i}.data_ptr()" for i in tensors],
    )
    low = " | ".join(f"p{i} ^ {args[i].data_ptr() & mask}" for i in tensors)
    done = ["wanted = stream(device)", *lines, f"return {', '.join(names)}"]
    head = [
        unpack,
        f"if not ({' and '.join(same)}): return other(args)",
        *pointers,
        f"if ({low}) & {mask}: return other(args)",
    ]
    if not graded:
        return _function_text("again(args, other)", [*head, *done])
    call = f"return apply(carried_out, args, rest, {', '.join(f'a{i}' for i in tensors)})"
    inner = _function_text("carried_out(args)", [unpack, *pointers, *done])
    return f"{_function_text('again(args, other)', [*head, call])}\n{inner}"


def _function_text(head: str, lines: Sequence[str]) -> str:
    return "\n ".join([f"def {head}:", *lines])


@lru_cache(maxsize=MOST_PLANS)
def _compiled(text: str) -> CodeType:
    return compile(text, "<calls like those before>", "exec")


def unsaved(args: Arguments) -> Arguments:
    """The arguments, `SAVED` in the place of each tensor."""
    return tuple([SAVED if is_tensor(value) else value for value in args])


def _missed(args: Arguments) -> Any:
    return MISSED


def _tensors(args: Arguments) -> list[Any]:
    return [value for value in args if is_tensor(value)]


def _key(args: Arguments) -> Arguments:
    return tuple([value.shape if is_tensor(value) else value for value in args])
