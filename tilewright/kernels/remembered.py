"""Calls of an operator on torch's tensors that are like one before: they allocate and launch, and decide nothing.

The first call with tensors of some dtypes, shapes, strides, alignment and device is recorded (`recording`), and becomes
a function. That of ``softmax(x)`` reads

    def again(args, other):
        a0, = args
        if not (alike(a0)): return other(args)
        p0 = a0.data_ptr()
        if (p0 ^ 0) & 15: return other(args)
        wanted = stream(0)
        t1 = empty(shape, strides, dtype)
        p1 = t1.data_ptr()
        ...  # the launch, as in `tilewright.cuda.quick`
        return t1

``alike`` are torch's `TensorGuards`, which compare all that distinguishes tensors for torch: type, element type, shape,
strides, device, whether a gradient is wanted, and the dispatcher's keys, which say under which transformation, tracer,
mode, or autocast the call is made. Calls that torch must see as an operator are not recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from tilewright.cuda.quick import MOST_PLANS, tensor_guards
from tilewright.cuda.tensors import torch_stream
from tilewright.kernels.recording import Notes, is_plain, is_watched, recorder, reseated

__all__ = ["MISSED", "SAVED", "RememberedCalls", "unsaved"]

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
            known = self._calls.get(_key(args), ())
        except TypeError:  # an argument without a hash, which is refused later
            return MISSED
        for again in known:
            found = again(args, _missed)
            if found is not MISSED:
                self.again = again
                return found
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
        notes, made = self._noted(args)
        names = notes.results(made if isinstance(made, tuple) else (made,))
        if notes.is_whole:
            again = self._again(notes, args, names, graded=graded)
            if self.count >= MOST_PLANS:
                self._calls.clear()
            self._calls.setdefault(_key(args), []).append(again)
            self.again = again
        return self._graded_apply()(lambda args: made, args, unsaved(args), *tensors) if graded else made

    def _noted(self, args: Arguments) -> tuple[Notes, Any]:
        """What a call does, and its results."""
        notes = Notes()
        with sys.modules["torch"].no_grad():
            given = [reseated(value) if hasattr(value, "data_ptr") else value for value in args]
            for i, value in enumerate(given):
                if hasattr(value, "data_ptr"):
                    notes.add(f"a{i}", value)
            with recorder()(notes):
                return notes, self._direct(*given, launch=notes.launch)

    def _again(self, notes: Notes, args: Arguments, names: Sequence[str], *, graded: bool) -> Again:
        """The function for calls like the one that was noted."""
        text = source(args, notes.lines, names, notes.mask, graded=graded)
        tensors = {id(value): value for value in _tensors(args)}.values()
        guards = tensor_guards()
        assert guards is not None
        found = {
            **notes.values,
            **{f"T{i}": type(value) for i, value in enumerate(args)},
            **{f"V{i}": value for i, value in enumerate(args) if not hasattr(value, "data_ptr")},
            "alike": guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check,
            "stream": torch_stream(),
            "device": max(0, _tensors(args)[0].get_device()),
            "apply": self._graded_apply() if graded else None,
            "rest": unsaved(args),
        }
        exec(_compiled(text), found)
        again: Again = found["again"]
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
                    made, ctx.args = carried_out(args), rest
                    ctx.save_for_backward(*tensors, *(made if isinstance(made, tuple) else (made,)))
                    return made

                @staticmethod
                def backward(ctx: Any, *slopes: Any) -> Any:
                    assert backward is not None
                    found = backward(ctx, *slopes)
                    return None, None, None, *(one for one, arg in zip(found, ctx.args, strict=True) if arg is SAVED)

            self._graded = super(function, Graded).apply  # type: ignore[misc]  # likewise
        applied: Callable[..., Any] = self._graded
        return applied


def source(args: Arguments, lines: Sequence[str], names: Sequence[str], mask: int, *, graded: bool) -> str:
    """The text of ``again``. lines: what it does; names: what it returns; mask: the bits of addresses that decide.

    A tensor that is passed twice has to be again, since guards refuse it: no other compares two of the arguments.
    """
    tensors = [i for i, value in enumerate(args) if hasattr(value, "data_ptr")]
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
    return tuple([SAVED if hasattr(value, "data_ptr") else value for value in args])


def _missed(args: Arguments) -> Any:
    return MISSED


def _tensors(args: Arguments) -> list[Any]:
    return [value for value in args if hasattr(value, "data_ptr")]


def _key(args: Arguments) -> Arguments:
    return tuple([value.shape if hasattr(value, "data_ptr") else value for value in args])
