"""Random kernels: their text, and what they leave behind by plain NumPy, all threads at once under masks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dtypes import dtype

THREADS = 64
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS = INTS + FLOATS
SHUFFLED = ("int32", "uint32", "int64", "uint64", "float32", "float64")

Array = np.ndarray[Any, Any]
State = dict[str, Array]
Value = tuple[str, Callable[[State], Array]]  # its text, and what it is in all threads
Statement = tuple[list[str], Callable[[State, Array], None]]  # its lines, and what it does in the threads of a mask

ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "//": np.floor_divide, "%": np.mod,
}  # fmt: skip
COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def numpy_of(kind: str) -> np.dtype[Any]:
    return dtype(kind).numpy


def converted(value: Array, kind: str) -> Array:
    """As C converts; floats to integers saturate, NaN is 0."""
    target = numpy_of(kind)
    if value.dtype.kind in "iub" or kind in FLOATS:
        return value.astype(target)
    limits, number = np.iinfo(target), np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf))
    low, high = number <= float(limits.min), number >= float(limits.max)
    inside = np.where(low | high, 0, number).astype(target)
    return np.where(low, limits.min, np.where(high, limits.max, inside)).astype(target)


@dataclass
class Kernel:
    """A kernel that grows; mutable. names: its variables, each with its type."""

    random: random.Random
    names: dict[str, str] = field(default_factory=lambda: {"tid": "int32", "p": "int32"})
    fixed: set[str] = field(default_factory=lambda: {"tid", "p"})
    shared: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, kind: str) -> str:
        self.count += 1
        self.names[f"v{self.count}"] = kind
        return f"v{self.count}"

    # Values

    def leaf(self, kind: str) -> Value:
        """A variable, an element of the input, or a number."""
        known = [name for name, each in self.names.items() if each == kind]
        pick = self.random.random()
        if known and pick < 0.6:
            name = self.random.choice(known)
            return name, lambda state: state[name]
        if kind in ("int32", "float32") and pick < 0.8:
            text, index = self.value("int32", 1)
            array = "I" if kind == "int32" else "F"
            return f"{array}[({text}) % {THREADS}]", lambda state: state[array][index(state) % THREADS]
        number = self.random.choice([0, 1, 2, 3, 7, 31, 100, -1, -3] if kind[0] != "u" else [0, 1, 3, 7, 100, 127])
        return f"T.{kind}({number})", lambda state: np.full(THREADS, number).astype(numpy_of(kind))

    def condition(self, depth: int) -> Value:
        kind, op = self.random.choice(KINDS), self.random.choice(list(COMPARED))
        (a, left), (b, right) = self.value(kind, depth), self.value(kind, depth)
        return f"({a} {op} {b})", lambda state: COMPARED[op](left(state), right(state))

    def value(self, kind: str, depth: int) -> Value:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(kind)
        return self.random.choice([self.sum_of, self.sum_of, self.cast_of, self.choice_of, self.turned])(
            kind, depth - 1
        )

    def sum_of(self, kind: str, depth: int) -> Value:
        op = self.random.choice(["+", "-", "*", "&", "|", "^", "//", "%"] if kind in INTS else ["+", "-", "*"])
        (a, left), (b, right) = self.value(kind, depth), self.value(kind, depth)
        if op in ("//", "%"):  # neither by zero, nor the least number by -1
            number = self.random.choice([1, 2, 3, 7, 8, 100])
            b, right = str(number), lambda state: np.full(THREADS, number).astype(numpy_of(kind))
        return f"({a} {op} {b})", lambda state: ARITHMETIC[op](left(state), right(state)).astype(numpy_of(kind))

    def cast_of(self, kind: str, depth: int) -> Value:
        narrow = kind in ("float16", "bfloat16")  # to which NumPy rounds wide values twice
        other = self.random.choice([each for each in KINDS if not narrow or dtype(each).bits < 32 or each == "float32"])
        text, made = self.value(other, depth)
        return f'T.cast({text}, "{kind}")', lambda state: converted(made(state), kind)

    def choice_of(self, kind: str, depth: int) -> Value:
        (c, cond), (a, left), (b, right) = self.condition(depth), self.value(kind, depth), self.value(kind, depth)
        form = self.random.choice([f"T.select({c}, {a}, {b})", f"({a} if {c} else {b})"])
        return form, lambda state: np.where(cond(state), left(state), right(state)).astype(numpy_of(kind))

    def turned(self, kind: str, depth: int) -> Value:
        """A negation, or a shift."""
        text, made = self.value(kind, depth)
        if kind in FLOATS:
            return f"(-{text})", lambda state: -made(state)
        bits, left = self.random.randrange(dtype(kind).bits), self.random.random() < 0.5
        shift = np.left_shift if left else np.right_shift
        return f"({text} {'<<' if left else '>>'} {bits})", lambda state: shift(made(state), numpy_of(kind).type(bits))

    # Statements

    def block(self, count: int, depth: int) -> Statement:
        outer = dict(self.names)
        made = [self.statement(depth) for _ in range(count)]
        if depth:
            self.names = {name: kind for name, kind in self.names.items() if name in outer}
        indent = "    " * (depth > 0)

        def run_all(state: Any, mask: Any) -> None:
            for _, run in made:
                run(state, mask)

        return [indent + line for lines, _ in made for line in lines], run_all

    def statement(self, depth: int) -> Statement:
        ways = [self.assigned, self.assigned, self.declared, self.declared]
        if depth < 2:
            ways += [self.branch, self.loop]
        if depth == 0:
            ways += [self.shuffled, self.exchanged]
        return self.random.choice(ways)(depth)

    def put(self, name: str, value: Value) -> Callable[[State, Array], None]:
        kind = numpy_of(self.names[name])

        def run(state: State, mask: Array) -> None:
            before = state.get(name, np.zeros(THREADS, kind))
            state[name] = np.where(mask, value[1](state), before).astype(kind)

        return run

    def declared(self, depth: int) -> Statement:
        kind = self.random.choice(KINDS)
        value = self.value(kind, 2)
        name = self.fresh(kind)
        return [f"{name}: T.{kind} = {value[0]}"], self.put(name, value)

    def assigned(self, depth: int) -> Statement:
        open_names = [name for name in self.names if name not in self.fixed]
        if not open_names:
            return self.declared(depth)
        name = self.random.choice(open_names)
        value = self.value(self.names[name], 3)
        return [f"{name} = {value[0]}"], self.put(name, value)

    def branch(self, depth: int) -> Statement:
        text, cond = self.condition(1)
        (then, run_then), (other, run_other) = self.block(2, depth + 1), self.block(1, depth + 1)

        def run(state: State, mask: Array) -> None:
            here = cond(state)
            run_then(state, mask & here)
            run_other(state, mask & ~here)

        return [f"if {text}:", *then, "else:", *other], run

    def loop(self, depth: int) -> Statement:
        """A loop of as many rounds as each thread asks for."""
        text, most = self.value("int32", 1)
        counter = self.fresh("int32")
        self.fixed.add(counter)
        lines, body = self.block(2, depth + 1)
        del self.names[counter]

        def run(state: State, mask: Array) -> None:
            rounds = most(state) % 4
            for turn in range(4):
                state[counter] = np.where(mask & (turn < rounds), turn, state.get(counter, 0)).astype(np.int32)
                body(state, mask & (turn < rounds))

        return [f"for {counter} in range(({text}) % 4):", *lines], run

    def shuffled(self, depth: int) -> Statement:
        kind, lane = self.random.choice(SHUFFLED), self.random.randrange(32)
        text, made = self.value(kind, 2)
        name = self.fresh(kind)
        value = f"T.cuda.shfl_xor_sync(0xFFFFFFFF, {text}, {lane})"
        return [f"{name}: T.{kind} = {value}"], self.put(name, (value, lambda state: made(state)[np.arange(64) ^ lane]))

    def exchanged(self, depth: int) -> Statement:
        """Through shared memory, with barriers."""
        kind = self.random.choice(KINDS)
        (text, made), (at, index) = self.value(kind, 2), self.value("int32", 1)
        name = self.fresh(kind)
        self.shared.append(f's{name} = T.alloc_shared(({THREADS},), "{kind}")')
        lines = [f"s{name}[tid] = {text}", "T.cuda.cta_sync()", f"{name}: T.{kind} = s{name}[({at}) % {THREADS}]"]
        return lines, self.put(name, ("", lambda state: made(state)[index(state) % THREADS]))


@dataclass(frozen=True)
class Made:
    """A finished kernel. arguments: new ones, with room for each variable; wanted: what those then hold."""

    text: str
    arguments: Callable[[], list[Any]]
    wanted: list[Array]


def random_kernel(seed: int) -> Made:
    """The kernel of a seed."""
    kernel = Kernel(random.Random(seed))
    lines, run = kernel.block(8, 0)
    outputs = {name: kind for name, kind in kernel.names.items() if name not in ("tid", "p")}
    params = [f'O{name}: T.Buffer(({THREADS},), "{kind}")' for name, kind in outputs.items()]
    head = [f'I: T.Buffer(({THREADS},), "int32")', f'F: T.Buffer(({THREADS},), "float32")', *params, "p: T.int32"]
    body = ["T.cta_id([1])", f"tid = T.thread_id([{THREADS}])", *kernel.shared, *lines]
    body += [f"O{name}[tid] = {name}" for name in outputs]
    text = "\n".join(["@T.prim_func", f"def k({', '.join(head)}):", *(f"    {line}" for line in body)]) + "\n"

    data = np.random.default_rng(seed)
    inputs = [data.integers(-1000, 1000, THREADS).astype(np.int32), data.standard_normal(THREADS).astype(np.float32)]
    state = {"I": inputs[0], "F": inputs[1], "tid": np.arange(THREADS, dtype=np.int32), "p": np.full(THREADS, 9, "i4")}
    with np.errstate(all="ignore"):
        run(state, np.ones(THREADS, np.bool_))
    return Made(
        text,
        lambda: [*(each.copy() for each in inputs), *(np.zeros(THREADS, numpy_of(k)) for k in outputs.values()), 9],
        [state[name] for name in outputs],
    )
