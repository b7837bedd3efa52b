"""PTX programs of many scalar rows: one instruction's result is the next one's operand, in branches and loops too.

The value that each thread stores is computed beside the text, row by row from the table, without the reader of PTX.
Together the programs have every row with every modifier that the GPU has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.gpu.ptx_programs import (
    HEAD,
    Case,
    cases,
    is_approximate,
    read_of,
    register,
    result_width,
    rows,
    simulated,
    width_of,
    word_of,
)
from tests.isa.scalar_inputs import corners

Array = NDArray[Any]
LENGTH = 12  # rows of a program
PROGRAMS = 500
GIVEN = {16: 2, 32: 3, 64: 2}  # registers that a thread loads, by their width
MOST_TURNS = 3


@dataclass
class Chain:
    """A program: its text so far, the registers with what each thread has in them, and those that it stores."""

    number: int
    count: int
    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    held: dict[int, list[tuple[str, Array]]] = field(default_factory=lambda: {16: [], 32: [], 64: []})
    names: int = 0

    def fresh(self, bits: int) -> str:
        self.names += 1
        self.lines.append(f".reg .b{bits} v{self.names};")
        return f"v{self.names}"

    def keep(self, name: str, bits: int, values: Array) -> None:
        self.held[bits].append((name, values.astype(f"u{bits // 8}")))

    def any_of(self, bits: int) -> tuple[str, Array]:
        held = self.held[bits]
        return held[int(self.rng.integers(max(0, len(held) - 6), len(held)))]

    # Code around a row

    def add(self, case: Case) -> None:
        """The row as it is, under a condition, or in a loop whose turns differ by thread."""
        operands = [self.any_of(register(case, one.name)) for one in read_of(case)]
        bits = max(16, result_width(case))
        widths = [register(case, one.name) for one in read_of(case)]
        way = int(self.rng.integers(0, 4))
        if way == 0:
            self._under_condition(case, operands, bits)
        elif way == 1 and bits in widths:
            self._in_loop(case, operands, bits, widths.index(bits))
        else:
            target = self.fresh(bits)
            self._write(case, [name for name, _ in operands], target)
            self.keep(target, bits, self._values(case, [values for _, values in operands]))

    def _under_condition(self, case: Case, operands: list[tuple[str, Array]], bits: int) -> None:
        target, (other, before), (chosen, decides) = self.fresh(bits), self.any_of(bits), self.any_of(32)
        label = f"L{self.names}"
        self.lines += [f"mov.b{bits} {target}, {other}; setp.lt.u32 q, {chosen}, 0x80000000; @!q bra {label};"]
        self._write(case, [name for name, _ in operands], target)
        self.lines.append(f"{label}:")
        found = self._values(case, [values for _, values in operands])
        self.keep(target, bits, np.where(decides < 0x80000000, found, before))

    def _in_loop(self, case: Case, operands: list[tuple[str, Array]], bits: int, place: int) -> None:
        """The result is the next turn's operand."""
        target, turns, (chosen, decides) = self.fresh(bits), self.fresh(32), self.any_of(32)
        start, end = f"L{self.names}", f"E{self.names}"
        (first, values), names = operands[place], [name for name, _ in operands]
        names[place] = target
        self.lines += [f"mov.b{bits} {target}, {first}; and.b32 {turns}, {chosen}, {MOST_TURNS};"]
        self.lines += [f"{start}: setp.eq.u32 q, {turns}, 0; @q bra {end};"]
        self._write(case, names, target)
        self.lines += [f"sub.u32 {turns}, {turns}, 1; bra.uni {start};", f"{end}:"]
        arrays = [one for _, one in operands]
        for turn in range(MOST_TURNS):
            arrays[place] = values
            values = np.where((decides & MOST_TURNS) > turn, self._values(case, arrays), values)
        self.keep(target, bits, values)

    def _write(self, case: Case, names: list[str], target: str) -> None:
        texts = {one.name: name for one, name in zip(read_of(case), names, strict=True)}
        texts |= {name: str(value) for name, value in case.constants.items()}
        code = case.bound.code({**texts, "result": target})
        self.lines.append(code if code.rstrip().endswith((";", "}")) else f"{code};")
        if result_width(case) == 8:  # of which the upper half of a register may be anything
            self.lines.append(f"and.b16 {target}, {target}, 255;")

    def _values(self, case: Case, given: list[Array]) -> Array:
        """The value by the table, as wide as the register."""
        narrow = [(values != 0).astype(np.uint8) if word_of(case, one.name) == "pred"
                  else values.astype(f"u{max(8, width_of(case, one.name)) // 8}")
                  for one, values in zip(read_of(case), given, strict=True)]  # fmt: skip
        found: Array = simulated(case, narrow).astype(f"u{max(16, result_width(case)) // 8}")
        return found


def arrays(count: int, rng: np.random.Generator) -> Iterator[tuple[int, Array]]:
    """Random bits and corners of numbers, as wide as registers."""
    words = {16: ("u16", "f16"), 32: ("u32", "f32"), 64: ("u64", "f64")}
    for bits, many in GIVEN.items():
        ends = np.array([each for word in words[bits] for each in corners(word)], np.uint64).astype(f"u{bits // 8}")
        for _ in range(many):
            values = rng.integers(0, 1 << bits, count, np.uint64, endpoint=False) if bits < 64 else rng.integers(
                0, np.iinfo(np.uint64).max, count, np.uint64)  # fmt: skip
            values = values.astype(f"u{bits // 8}")
            places = rng.random(count) < 0.5
            values[places] = rng.choice(ends, int(places.sum()))
            yield bits, values


@dataclass(frozen=True)
class Program:
    """A text, the arrays that it reads, and the one that it writes: (rows, threads), a row for each case."""

    number: int
    cases: list[Case]
    text: str
    given: list[Array]
    wanted: Array


def chain(number: int, each: list[Case], count: int) -> Program:
    made = Chain(number, count, np.random.default_rng(number))
    given = list(arrays(count, made.rng))
    for place, (bits, values) in enumerate(given):
        name = made.fresh(bits)
        made.lines.append(f"ld.param.u64 at, [p{place}]; mad.wide.u32 at, i, {bits // 8}, at;")
        made.lines.append(f"ld.global.b{bits} {name}, [at];")
        made.keep(name, bits, values)
    for case in each:
        made.add(case)
    results = [(name, bits, values) for bits, held in made.held.items() for name, values in held[GIVEN[bits] :]]
    results.sort(key=lambda one: int(one[0][1:]))
    made.lines.append(f"ld.param.u64 at, [p{len(given)}]; mad.wide.u32 at, i, 8, at;")
    for place, (name, bits, _) in enumerate(results):
        made.lines.append(f"cvt.u64.u{bits} wide, {name}; st.global.u64 [at+{8 * count * place}], wide;")
    params = ", ".join(f".param .u64 p{k}" for k in range(len(given) + 2))
    head = [f".visible .entry k({params}) {{", ".reg .pred q; .reg .b32 i, n, c; .reg .b64 at, wide;"]
    head.append("mov.u32 i, %tid.x; mov.u32 c, %ctaid.x; mov.u32 n, %ntid.x; mad.lo.u32 i, c, n, i;")
    wanted = np.stack([values.astype(np.uint64) for _, _, values in results])
    text = HEAD + "\n".join([*head, *made.lines, "ret;", "}", ""])
    return Program(number, each, text, [values for _, values in given], wanted)


def exact() -> list[Case]:
    """Every row with its modifiers whose bits are promised, of any operands and among other instructions."""
    return [case for row in rows() for case in cases(row) if not (is_approximate(case) or is_alone(case))]


def is_alone(case: Case) -> bool:
    """Whether a row is compared in a program of its own only, with operands that it is defined for.

    `fns` is undefined for a base above 31; a conversion of a float to its own type copies NaN or not, as the assembler
    optimises.
    """
    mods = case.mods
    copies = case.row.name == "ptx.cvt" and mods.get("type") == mods.get("atype") and str(mods["type"])[0] in "fb"
    return case.row.name == "ptx.fns" or copies


def programs(count: int, first: int = 0, step: int = 1) -> Iterator[Program]:
    """Every n-th of the programs, for so many threads."""
    every = exact()
    order = np.random.default_rng(18).permutation(max(len(every), PROGRAMS * LENGTH)) % len(every)
    for number in range(first, -(-len(order) // LENGTH), step):
        chosen = [every[place] for place in order[number * LENGTH : (number + 1) * LENGTH]]
        yield chain(number, chosen, count)
