"""A tiny program as a kernel of tilewright: its source, and the simulator's verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, groupby
from typing import Any
from unittest.mock import patch

import numpy as np

import tilewright as tw
from tests.model.program import BULK, Op, Program, Warp, home
from tests.model.unit import UNITS
from tests.texts import executed
from tilewright import T, Tx
from tilewright.errors import SimulationError, TilewrightWarning
from tilewright.isa import INSTRUCTIONS
from tilewright.layout import R, S, TCol, TileLayout, TLane

IN_EVERY_QUARTER = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
NUMBERS = count()
BULK_BYTES = 16
TMEM_STRIDE = 4  # warps 0 and 4 see the same lanes of tensor memory
Run = tuple[str, str, dict[str, int]]


def _at_once(ops: tuple[Op, ...]) -> Iterator[tuple[Op, int]]:
    """The operations, with the lanes that do each in one statement: ``0:F; 1:F`` is a fence of the first two lanes."""
    for _, several in groupby(ops, lambda op: replace(op, lane=0) if op.kind == "F" and op.lane is not None else op):
        alike = [*several]
        if len(alike) > 1 and [op.lane for op in alike] == [*range(len(alike))]:
            yield alike[0], len(alike)
        else:
            yield from ((op, 1) for op in alike)


class Printer:
    """The text of a kernel. results: the variables that the oracle knows by (warp, lane, operation) -> index in out."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stride = TMEM_STRIDE if program.has_tmem else 1
        self.warps = (1 + max(warp for _, warp in program.warps)) * self.stride
        self.warps = max(self.warps, 8) if program.has_tmem else self.warps
        names = sorted({home(op.place, 0)[0] for op in program.ops if op.place and not op.place[0].isdigit()})
        names = sorted({*names, *program.counts, *(op.source for op in program.ops if op.source)})
        self.wide = {op.place for op in program.ops if op.nbytes == 8}
        self.barriers = [name for name in names if name[0] == "b"]
        self.shared = [name for name in names if name[0] == "s"]
        self.globals = [name for name in names if name[0] not in "bst"]
        self.results = sum(recorded(ops) for ops in program.warps.values())

    def kind(self, name: str) -> str:
        return "uint64" if name in self.wide else "uint32"

    def length(self, name: str) -> int:
        if any(name in (op.place, op.source) for op in self.program.ops if op.kind in BULK):
            return BULK_BYTES // 4
        return 1 + any(op.is_pair for op in self.program.ops if op.place == name)

    # The whole

    def text(self) -> str:
        arrays = [f'{name}: T.Buffer(({self.length(name)},), "{self.kind(name)}")' for name in self.globals]
        lines = ["@T.prim_func", f"def kernel({', '.join([*arrays, self._out()])}):"]
        body = [*self._places(), *self._declarations(), *self._setup()]
        for warp, ops in self.program.warps.items():
            body += [f"if cta == {warp[0]}:", f"    if warp == {warp[1] * self.stride}:"]
            body += [f"        {line}" for line in self._warp(warp, ops)]
        return "\n".join([*lines, *(f"    {line}" for line in [*body, *self._teardown()])]) + "\n"

    def _out(self) -> str:
        return f'out: T.Buffer(({max(1, self.results)},), "uint32")'

    def _places(self) -> Iterator[str]:
        if self.program.has_cluster:
            yield "T.cluster_id([1])"
            yield f"cta = T.cta_id_in_cluster([{self.program.ctas}])"
        else:
            yield f"cta = T.cta_id([{self.program.ctas}])"
        yield f"warp = T.warp_id([{self.warps}])"
        yield "lane = T.lane_id([32])"

    def _declarations(self) -> Iterator[str]:
        for name in self.shared:
            if self.program.has_tmem:
                yield f'{name} = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)'
            else:
                yield f'{name} = T.alloc_shared(({self.length(name)},), "uint32", align={BULK_BYTES})'
        for name in self.barriers:
            yield f'{name} = T.alloc_shared((1,), "uint64")'
        for register in sorted({op.into for op in self.program.ops if op.into}):
            yield f"{register}: T.uint32 = 0"
        if self.program.has_tmem:
            yield 'addr = T.alloc_shared((1,), "uint32")'
            yield 'words = T.alloc_local((4,), "uint32")'
            yield 'zeros = T.alloc_local((4,), "uint32")'

    def _setup(self) -> Iterator[str]:
        """Everything is zero, and the m-barriers that the program does not make itself are made."""
        first = [f"T.ptx.mbarrier.init({name}.ptr_to([0]), {n})" for name, n in self.program.counts.items()]
        armed = [op.value for op in self.program.ops if op.kind == "g2s"]
        first += [f"T.ptx.mbarrier.arrive.expect_tx({name}.ptr_to([0]), {BULK_BYTES})" for name in armed]
        if not self.program.has_tmem:
            first += [f"{name}[{i}] = 0" for name in self.shared for i in range(self.length(name))]
        if first:
            yield "if warp == 0:"
            yield "    if lane == 0:"
            yield from (f"        {line}" for line in first)
            yield "T.ptx.fence.mbarrier_init()"
        if any(op.kind in ("put", "get", *BULK) for op in self.program.ops):
            yield "T.ptx.fence.proxy_async()"
        if self.program.has_tmem:
            yield from self._tensor_setup()
        elif first:
            yield "T.cuda.cluster_sync()" if self.program.has_cluster else "T.cuda.cta_sync()"

    def _tensor_setup(self) -> Iterator[str]:
        yield "if warp == 0:"
        yield "    T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)"
        for name in self.shared:
            yield f"    for c in range(16):\n            {name}[lane, c] = 0"
        yield "T.ptx.fence.proxy_async()"
        yield from MEETING
        yield "for w in range(4):\n        zeros[w] = 0"
        yield "if warp < 4:"
        yield "    T.ptx.tcgen05.st(addr[0], *[zeros[j] for j in range(4)], shape='32x32b', num=4, row=warp * 32)"
        yield "    T.ptx.tcgen05.wait.st()"
        yield from MEETING
        if self.program.has_cluster:
            yield "T.cuda.cluster_sync()"
        yield ('t = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)')

    def _teardown(self) -> Iterator[str]:
        if self.program.has_cluster:
            yield "T.cuda.cluster_sync()"
        if self.program.has_tmem:
            yield from MEETING
            yield "if warp == 0:"
            yield "    T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)"

    # A warp

    def _warp(self, warp: Warp, ops: tuple[Op, ...]) -> Iterator[str]:
        self.index = sum(recorded(them) for other, them in self.program.warps.items() if other < warp)
        open_lane: int | None = None
        for op, lanes in _at_once(ops):
            if lanes > 1:
                yield f"if lane < {lanes}:"
            elif op.lane is not None and op.lane != open_lane:
                yield f"if lane == {op.lane}:"
            open_lane = op.lane if lanes == 1 else None
            indent = "" if op.lane is None else "    "
            if op.guard:
                yield f"{indent}if {op.guard[0]} == {op.guard[1]}:"
                indent += "    "
            yield from (indent + line for line in self.statement(op))
        if not ops:
            yield "pass"

    def statement(self, op: Op) -> list[str]:
        return STATEMENTS[op.kind](self, op)

    def record(self, op: Op, value: str) -> list[str]:
        line = f"out[{self.index}] = {value}"
        self.index += 1
        return [line] if op.lane is not None else ["if lane == 0:", f"    {line}"]

    # Operands

    def pointer(self, op: Op) -> tuple[str, str]:
        """Where an operation acts, and the keyword of its state space."""
        name, rank = home(op.place, -2)
        index = "[0, 0]" if self.program.has_tmem and name[0] == "s" else "[0]"
        own = f"{name}.ptr_to({index})"
        if "@" in op.place:
            return f"T.ptx.mapa({own}, {rank})", ', space="shared::cluster"'
        return own, ""

    def order(self, op: Op) -> str:
        if op.sem == "weak":
            return ""
        return f', sem="{op.sem}"' + (f', scope="{op.scope}"' if op.sem != "volatile" else "")


def recorded(ops: tuple[Op, ...]) -> int:
    """How many values a warp leaves behind."""
    return sum(op.kind in ("R", "use") for op in ops)


MEETING = (
    "T.ptx.tcgen05.fence.before_thread_sync()",
    "T.cuda.cta_sync()",
    "T.ptx.tcgen05.fence.after_thread_sync()",
)


def _value(op: Op, printer: Printer) -> str:
    return (
        f"T.uint64({op.value})"
        if printer.kind(op.place) == "uint64"
        else f"T.uint32({op.value})"
        if op.value.isdigit()
        else op.value
    )


def _store(printer: Printer, op: Op) -> list[str]:
    pointer, space = printer.pointer(op)
    if op.is_pair:
        return [f"T.ptx.st.v2({pointer}, T.uint32({op.value}), T.uint32({op.value}){printer.order(op)})"]
    if op.sem == "weak" and not space:
        name = op.place
        return [f"{name}[{'0, 0' if printer.program.has_tmem and name[0] == 's' else '0'}] = {op.value}"]
    return [f"T.ptx.st({pointer}, {_value(op, printer)}{printer.order(op)}{space})"]


def _load(printer: Printer, op: Op) -> list[str]:
    pointer, space = printer.pointer(op)
    narrow = ', dtype="uint32"' if space or (printer.kind(op.place) == "uint64" and op.nbytes == 4) else ""
    value = f"T.ptx.ld({pointer}{printer.order(op)}{space}{narrow})"
    if op.sem == "weak" and not space:
        value = f"{op.place}[{'0, 0' if printer.program.has_tmem and op.place[0] == 's' else '0'}]"
    if op.value:
        return [f"while {value} != {op.value}:", "    pass", *printer.record(op, op.value)]
    if op.into:
        return [f"{op.into} = {value}", *printer.record(op, op.into)]
    return printer.record(op, value if op.nbytes == 4 else f"T.cast({value}, 'uint32')")


def _atomic(printer: Printer, op: Op) -> list[str]:
    pointer, space = printer.pointer(op)
    if op.kind == "cas":
        old, new = op.value.split(">")
        call = f"T.ptx.atom.cas({pointer}, T.uint32({old}), T.uint32({new}){printer.order(op)}{space})"
        return [f"while {call} != {old}:", "    pass"]
    name = {"add": "atom.add", "exch": "atom.exch", "red": "red.add"}[op.kind]
    call = f"T.ptx.{name}({pointer}, T.uint32({op.value}){printer.order(op)}{space})"
    return [f"{op.into} = {call}" if op.into else call]


def _barrier(name: str) -> Callable[[Printer, Op], list[str]]:
    return lambda printer, op: [f"T.ptx.bar.{name}({op.place}, {32 * int(op.value)})"]


def _arrive(printer: Printer, op: Op) -> list[str]:
    pointer, space = printer.pointer(op)
    is_plain = (op.sem, op.scope) == ("release", "cta") and not space  # remote ones have another default
    order = "" if is_plain else f', sem="{op.sem}", scope="{op.scope}"'
    return [f"T.ptx.mbarrier.arrive({pointer}{order}{space})"]


def _proxy_fence(printer: Printer, op: Op) -> list[str]:
    if op.sem == "weak":
        return ['T.ptx.fence.proxy_async("shared::cta")']
    return [f'T.ptx.fence.proxy_async.sync_restrict("{op.sem}")']


def _wait(printer: Printer, op: Op) -> list[str]:
    order = f', sem="{op.sem}", scope="{op.scope}"' if (op.sem, op.scope) != ("acquire", "cta") else ""
    return [f"T.ptx.mbarrier.try_wait({op.place}.ptr_to([0]), {op.value}{order})"]


def _tensor(name: str) -> Callable[[Printer, Op], list[str]]:
    values = "*[words[j] for j in range(4)]" if name == "ld" else "*[zeros[j] for j in range(4)]"
    row = "(warp % 4) * 32"

    def statement(printer: Printer, op: Op) -> list[str]:
        call = f"T.ptx.tcgen05.{name}(addr[0], {values}, shape='32x32b', num=4, row={row})"
        return [f"zeros[0] = {op.value or 1}", call] if name == "st" else [call]

    return statement


def _copy(printer: Printer, op: Op) -> list[str]:
    pointer, _ = printer.pointer(op)
    return [f"T.ptx.cp_async({pointer}, {op.source}.ptr_to([0]), 4)"]


def _unit(printer: Printer, op: Op) -> list[str]:
    pointer, _ = printer.pointer(op)
    name = op.kind + ("" if op.place[0] == "s" else "_global")
    value = f", T.uint32({op.value or 1})" if op.kind == "put" else ""
    return [f"T.ptx.toy.{name}({pointer}, {op.source}.ptr_to([0]){value})"]


def _bulk(printer: Printer, op: Op) -> list[str]:
    to, source = f"{op.place}.ptr_to([0])", f"{op.source}.ptr_to([0])"
    if op.kind == "g2s":
        return [f"T.ptx.cp_async.bulk.g2s_cta({to}, {source}, {BULK_BYTES}, {op.value}.ptr_to([0]))"]
    if op.kind == "radd":
        return [f'T.ptx.cp_reduce_async.bulk.s2g({to}, {source}, {BULK_BYTES}, "add", "uint32")']
    return [f"T.ptx.cp_async.bulk.s2g({to}, {source}, {BULK_BYTES})"]


def _said(*lines: str) -> Callable[[Printer, Op], list[str]]:
    return lambda printer, op: [line.format(op=op) for line in lines]


STATEMENTS: dict[str, Callable[[Printer, Op], list[str]]] = {
    "W": _store,
    "R": _load,
    **dict.fromkeys(("add", "exch", "cas", "red"), _atomic),
    "F": _said('T.ptx.fence("{op.sem}", "{op.scope}")'),
    "Fs": _said('T.ptx.fence.sync_restrict("{op.sem}")'),
    "sync": _said("T.cuda.cta_sync()"),
    "bar": _barrier("sync"),
    "bararr": _barrier("arrive"),
    "ws": _said("T.cuda.warp_sync()"),
    "shfl": _said("T.cuda.shfl_xor_sync(0xFFFFFFFF, lane, 1)"),
    "carr": _said('T.ptx.barrier.cluster.arrive(sem="{op.sem}")'),
    "cwait": _said("T.ptx.barrier.cluster.wait()"),
    "init": _said("T.ptx.mbarrier.init({op.place}.ptr_to([0]), {op.value})"),
    "inval": _said("T.ptx.mbarrier.inval({op.place}.ptr_to([0]))"),
    "arr": _arrive,
    "wait": _wait,
    "fpa": _proxy_fence,
    "fpag": _said('T.ptx.fence.proxy_async("global")'),
    "initf": _said("T.ptx.fence.mbarrier_init()"),
    "cp": _said("Tx.copy_async(t[:, :], {op.source}[:, :], cta_group=1)"),
    "commit": _said("T.ptx.tcgen05.commit({op.place}.ptr_to([0]), cta_group=1)"),
    "cpa": _copy,
    "cpcom": _said("T.ptx.cp_async.commit_group()"),
    "cpwait": _said("T.ptx.cp_async.wait_group({op.value})"),
    "cparr": _said("T.ptx.cp_async.mbarrier.arrive({op.place}.ptr_to([0]), noinc=True)"),
    **dict.fromkeys(("put", "get"), _unit),
    **dict.fromkeys(BULK, _bulk),
    "bcom": _said("T.ptx.cp_async.bulk.commit_group()"),
    "bwait": _said("T.ptx.cp_async.bulk.wait_group({op.value}, read=False)"),
    "bread": _said("T.ptx.cp_async.bulk.wait_group({op.value}, read=True)"),
    "tld": _tensor("ld"),
    "tst": _tensor("st"),
    "wld": _said("T.ptx.tcgen05.wait.ld()"),
    "wst": _said("T.ptx.tcgen05.wait.st()"),
    "use": lambda printer, op: printer.record(op, "words[0]"),
    "before": _said("T.ptx.tcgen05.fence.before_thread_sync()"),
    "after": _said("T.ptx.tcgen05.fence.after_thread_sync()"),
}


def kernel(text: str, name: str) -> Any:
    """A program, parsed from its text."""
    name = f"<model {next(NUMBERS)}: {name}>"
    return executed(text, name, T=T, Tx=Tx, IN_EVERY_QUARTER=IN_EVERY_QUARTER)["kernel"]


def simulated(program: Program, text: str = "") -> Run:
    """The simulator's verdict with every check on: "ok", "warned" or the kind of error; its words; final values.

    text: of the kernel, where it is not the printer's.
    """
    printer = Printer(program)
    arrays = [np.zeros(printer.length(name), printer.kind(name)) for name in printer.globals]
    out = np.zeros(max(1, printer.results), np.uint32)
    target = "sm_100a" if program.has_tmem else "sm_90a"
    with warnings.catch_warnings(record=True) as heard, patch.dict(INSTRUCTIONS, UNITS):
        warnings.simplefilter("always", TilewrightWarning)
        try:
            run = tw.compile(kernel(text or printer.text(), program.name), target=target).simulate(
                *arrays, out, check="all"
            )
        except SimulationError as error:
            lacks_fences = all("without a proxy fence" in each.message for each in error.findings)
            return "warned" if lacks_fences else "error", str(error), {}
    words = [*run.warnings, *(str(each.message) for each in heard)]
    values = {name: int(array[0]) for name, array in zip(printer.globals, arrays, strict=True)}
    return ("warned" if words else "ok"), "\n".join(words), values
