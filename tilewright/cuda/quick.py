"""The path of every launch but the first: a function written for the types of the arguments, without a loop.

For ``exe(a, b, 2.0)`` with two tensors of torch and a number it reads

    def again(args):
        try: a0, a1, a2, = args
        except ValueError: return False
        alike, frames, ordinal, plan, n = last
        if type(a2) is T2 and alike(a0, a1):
            p0 = a0.data_ptr()
            p1 = a1.data_ptr()
            wanted = stream(ordinal)
            ...  # pack into a frame, call the driver
            return True
        return looked_up(args)

`TensorGuards` are torch's own: ``alike`` compares type, element type, shape, strides and device of all tensors in one
call into C++, in a third of the time that Python takes to read them; torch.compile uses them before every call of
compiled code. Values equal to those that a frame was last used with are packed, are aligned and overlap as little as
then. ``looked_up`` finds a call unlike the last one, by those facts, in a dictionary of checked calls.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cuda.tensors import QUICK, TORCH, Reader

if TYPE_CHECKING:
    from tilewright.cuda.launch import LaunchPlan

__all__ = ["MOST_PLANS", "QuickCalls", "launch_text", "tensor_guards"]

MOST_PLANS = 1024  # argument shapes that a process uses at once; beyond that they are checked again

NEVER = (lambda *tensors: False), None, 0, None, ()  # no call has been checked yet

Again = Callable[[tuple[Any, ...]], bool]
Stream = Callable[[int], int]


class QuickCalls:
    """The calls of one kernel that have been checked. A cache.

    decides: for each parameter, does the value of a number (not only its type) decide on a check or on the grid?
    mask: the bits of an address that an alignment may ask to be zero. apart: pairs of parameters whose arrays must not
    overlap, see `tilewright.cuda.launch.LaunchPlan`. largest: for each parameter the largest number that it holds; None
    where packing the number checks it.
    """

    def __init__(
        self,
        decides: Sequence[bool],
        mask: int,
        apart: Sequence[tuple[int, int]] = (),
        largest: Sequence[float | None] | None = None,
    ) -> None:
        self.decides = tuple(decides)
        self.largest = tuple(largest or (None,) * len(self.decides))
        self.mask = mask
        self.apart = tuple(apart)
        self.again: Again = self.of_other_types  # launches what has been checked before; False for anything else
        self._patterns: dict[tuple[type, ...], _Pattern] = {}

    def remember(self, args: tuple[Any, ...], plan: LaunchPlan) -> None:
        """Arguments like these fit ``plan``; where one is of a type without a quick `Reader`, nothing happens."""
        types = tuple(map(type, args))
        readers = [reader for kind in types if (reader := QUICK[kind]) is not None]
        streams = [reader.stream for reader in readers if reader.stream]
        if len(readers) < len(types) or not streams:
            return
        if types not in self._patterns:
            self._patterns[types] = _Pattern(types, readers, streams[0], self)
        self._patterns[types].add(args, plan)
        self.again = self._patterns[types].again

    def of_other_types(self, args: tuple[Any, ...]) -> bool:
        """Arguments of other types than last time."""
        found = self._patterns.get(tuple(map(type, args)))
        return found is not None and found.again(args)


class _Pattern:
    """The calls with arguments of some types, and the functions written for them."""

    def __init__(self, types: tuple[type, ...], readers: Sequence[Reader], stream: Stream, calls: QuickCalls) -> None:
        self._plans: dict[Hashable, LaunchPlan] = {}
        self._arrays = [i for i, reader in enumerate(readers) if reader.pointer]
        whole = not any(calls.decides[i] for i in range(len(types)) if i not in self._arrays)
        self._guards = tensor_guards() if whole and all(readers[i].facts == TORCH[1] for i in self._arrays) else None
        self._mask = calls.mask
        self._names: dict[str, Any] = {
            "plans": self._plans,
            "stream": stream,
            "other": calls.of_other_types,
            "NotHeld": (struct.error, OverflowError),
            "last": NEVER,
            **{f"T{i}": kind for i, kind in enumerate(types)},
        }
        exec(source(readers, calls), self._names)
        self.again: Again = self._names["looked_up" if self._guards is None else "again"]

    def add(self, args: tuple[Any, ...], plan: LaunchPlan) -> None:
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[self._names["key"](args)] = plan
        if self._guards is not None and plan.is_plain:
            tensors = [args[i] for i in self._arrays]
            guards = self._guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            if not any(tensor.data_ptr() & self._mask for tensor in tensors):
                self._names["last"] = guards.check, plan.frames, plan.ordinal, plan, plan.spans


def tensor_guards() -> Callable[..., Any] | None:
    """The guards of torch's tensors; None where this torch has none, so that the dictionary answers alone."""
    guards = getattr(sys.modules["torch"]._C, "_dynamo", None)
    return getattr(getattr(guards, "guards", None), "TensorGuards", None)


def source(readers: Sequence[Reader], calls: QuickCalls) -> str:
    """The text of ``again``, ``looked_up``, and ``key``, which gives what ``looked_up`` finds plans by."""
    args = [f"a{i}" for i in range(len(readers))]
    pointers = {i: reader.pointer.format(args[i]) for i, reader in enumerate(readers) if reader.pointer}
    facts: list[str] = []
    for i, reader in enumerate(readers):
        facts += [fact.format(args[i]) for fact in reader.facts]
        if i in pointers:
            facts.append(f"p{i} & {calls.mask}")
        elif calls.decides[i]:
            facts.append(args[i])
    values = [f"p{i}" if i in pointers else name for i, name in enumerate(args)]
    parts = {
        "unpack": f"{', '.join(args)}, = args",
        "values": ", ".join(values),
        "tensors": ", ".join(args[i] for i in pointers),
        "numbers": "".join(f"type({name}) is T{i} and " for i, name in enumerate(args) if i not in pointers),
        "unlike": " or ".join(f"type({name}) is not T{i}" for i, name in enumerate(args)),
        "facts": "".join(f"{fact}, " for fact in facts),
        "held": "".join(f"{-most!r} <= a{i} <= {most!r} and " for i, most in enumerate(calls.largest) if most),
    }
    names = {name: name for name in ("plan", "frames")}
    addresses = " | ".join(f"p{i}" for i in pointers)
    overlap = "".join(f" or -n[{j}] < p{j} - p{i} < n[{i}]" for i, j in calls.apart)
    within = "".join(f" or not {-most!r} <= a{i} <= {most!r}" for i, most in enumerate(calls.largest) if most)
    check = f"\n  if ({addresses}) & {calls.mask}{overlap}{within}: frames.append(frame); return looked_up(args)"
    launch = launch_text(True, values, names, check)
    reads = {deep: f"\n{' ' * deep}".join(f"p{i} = {text}" for i, text in pointers.items()) for deep in (4, 8)}
    return TEXT.format(**parts, reads=reads[4], deep_reads=reads[8], launch=f"\n{' ' * 12}".join(launch))


def launch_text(is_plain: bool, values: Sequence[str], names: Mapping[str, str], check: str = "") -> list[str]:
    """The lines that launch a checked call in the stream ``wanted``, as `LaunchPlan.launch` does.

    is_plain: of the plan. values: of the parameters, as source. names: of the plan and of its parts. check: what
    is done about values unlike the last.
    """
    if not is_plain:
        return [f"{names['plan']}.launch(({', '.join(values)},), wanted)"]
    return LAUNCH.format(**names, values=", ".join(values), check=check).strip().splitlines()


LAUNCH = """
try: frame = {frames}.pop()
except IndexError: frame = {plan}.new_frame(({values},))  # the first call, or several at the same time
call, held = frame
if held != ({values}, wanted):{check}
  {plan}.fill(frame, ({values}, wanted))
status = call()
if status: {plan}.recover(status, frame)
{frames}.append(frame)
"""

TEXT = """
def again(args):
    try: {unpack}
    except ValueError: return False
    alike, frames, ordinal, plan, n = last
    if {numbers}alike({tensors}):
        {deep_reads}
        wanted = stream(ordinal)
        try:
            {launch}
        except NotHeld: return False  # a number that its parameter does not hold
        return True
    return looked_up(args)

def looked_up(args):
    try: {unpack}
    except ValueError: return False
    if {unlike}: return other(args)
    if not ({held}True): return False  # the check says what is wrong
    {reads}
    plan = plans.get(({facts}))
    if plan is None: return False
    try: return plan.launch(({values},), stream(plan.ordinal))
    except NotHeld: return False

def key(args):
    {unpack}
    {reads}
    return ({facts})
"""
