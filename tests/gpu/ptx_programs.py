"""PTX programs around one scalar row: each thread loads its registers, executes the row once, and stores the value.

The text is made from the row: its pattern, its mnemonic, the widths of its registers. The driver assembles it. Shares
nothing with the emitter, nor with the reader of PTX.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa.scalar_inputs import covering, operands, registers
from tilewright import isa
from tilewright.cuda import driver
from tilewright.isa.forms import TYPES, Form, value_dtype
from tilewright.isa.scalar.arithmetic import ERRORS
from tilewright.isa.table import Bound, Instruction

Array = NDArray[Any]
ARCH = isa.arch("sm_90a")
THREADS = 256
LUTS = 40  # constants of an instruction that has one in its text
HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n"
OPTIMIZATION_LEVEL = 7  # CUjit_option of the driver
APPROXIMATE = ("approx", "full")  # what is not rounded as arithmetic is
VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad")  # on whole words


@dataclass(frozen=True)
class Case:
    """A row with its modifiers, and constants of its text."""

    row: Instruction
    form: Form
    mods: dict[str, Any]
    constants: dict[str, int]

    @property
    def bound(self) -> Bound:
        return Bound(self.row, self.form, self.mods, {})

    def __str__(self) -> str:
        shown = "".join(f" {name}={value:#x}" for name, value in self.constants.items())
        out = f" out={self.mods['out']}" if "out" in self.mods else ""
        return f"{self.form.mnemonic(self.mods)}{out}{shown}"


def cases(row: Instruction) -> list[Case]:
    """Every form that the GPU has, each modifier with others beside it."""
    rng = np.random.default_rng(len(row.name))
    found = []
    for form in row.forms:
        for mods in covering(form) if form.arch.admits(ARCH) else ():
            names = [operand.name for operand in row.operands if operand.kind == "imm"]
            turns = LUTS if names else 1
            found += [Case(row, form, mods, {n: int(rng.integers(0, 256)) for n in names}) for _ in range(turns)]
    return [case for case in found if not departs(case)]


def departs(case: Case) -> bool:
    """Whether the assembler for this GPU leaves the manual's meaning, or gives a NaN that the manual leaves open.

    The assembler has no video instruction any more, and writes a sequence of others. `vadd.u32.u32.u32.sat` of
    0xfffffffe and 2 is 0 there and not 0xffffffff; a part `.h1` of c is lost; min and max as the second operation, and
    the scales of `vmad`, take the wrong sign. Found with the assembler of CUDA 13.0. `cvt.rna.satfinite.tf32` of some
    NaN gives other bits than the table.
    """
    mods = case.mods
    second = mods.get("op2") in ("min", "max") and not case.row.name.startswith("ptx.vset")
    odd = mods.get("sat") or mods.get("scale") or mods.get("d_part") == "h1" or second
    narrow = case.row.name == "ptx.cvt" and mods["type"] == "tf32" and mods.get("finite") and mods["rnd"] == "rna"
    return bool(narrow or (case.row.name.split(".")[1] in VIDEO and odd))


def is_approximate(case: Case) -> bool:
    """Whether the bits of its result are not promised."""
    name = case.row.name.partition(".")[2]
    return case.mods.get("rnd", "approx") in APPROXIMATE and any(op == name for op, _ in ERRORS)


def rows() -> list[Instruction]:
    """The rows whose value follows from registers alone, and which this GPU has."""
    return [row for row in isa.INSTRUCTIONS.values() if row.forms[0].meaning.of_lanes is not None and cases(row)]


def program(case: Case, name: str = "k") -> str:
    """The text of a kernel with a pointer for each register that is read, and one for the value."""
    widths = [max(8, width_of(case, operand.name)) for operand in read_of(case)]
    result = result_width(case)
    params = ", ".join(f".param .u64 p{i}" for i in range(len(widths) + 2))
    lines = [f".visible .entry {name}({params}) {{", ".reg .pred out_of; .reg .b32 i, n, c, t;", ".reg .b64 at, w;"]
    lines += [f".reg .b{register(case, operand.name)} r{i};" for i, operand in enumerate(read_of(case))]
    lines += [f".reg .b{max(16, result)} d;"]
    lines += ["mov.u32 i, %tid.x; mov.u32 c, %ctaid.x; mov.u32 n, %ntid.x; mad.lo.u32 i, c, n, i;"]
    lines += [f"ld.param.u64 w, [p{len(widths) + 1}]; cvt.u32.u64 t, w; setp.ge.u32 out_of, i, t; @out_of bra DONE;"]
    for i, width in enumerate(widths):
        lines.append(f"ld.param.u64 at, [p{i}]; mul.wide.u32 w, i, {width // 8}; add.u64 at, at, w;")
        lines.append(f"ld.global.{'u8' if width == 8 else f'b{width}'} r{i}, [at];")
    names: dict[str, str] = {operand.name: f"r{i}" for i, operand in enumerate(read_of(case))}
    texts = {**names, **{name: str(value) for name, value in case.constants.items()}, "result": "d"}
    lines.append(case.bound.code(texts))
    lines.append(f"ld.param.u64 at, [p{len(widths)}]; mul.wide.u32 w, i, {result // 8}; add.u64 at, at, w;")
    lines += [f"st.global.b{result} [at], d;", "DONE: ret;", "}"]
    return "\n".join(lines)


def read_of(case: Case) -> list[Any]:
    return [operand for operand in operands(case.row, case.mods) if operand.kind != "imm"]


def word_of(case: Case, name: str) -> str:
    operand = case.row.operand(name)
    assert operand is not None
    return "pred" if operand.kind == "pred" else operand.type_of(case.mods)


def width_of(case: Case, name: str) -> int:
    """Bits of a register in memory."""
    return TYPES[word_of(case, name)].bits


def register(case: Case, name: str) -> int:
    """Bits of a register; a predicate is a number outside of the instruction, and a byte in memory."""
    return 32 if word_of(case, name) == "pred" else max(16, width_of(case, name))


def result_width(case: Case) -> int:
    assert callable(case.form.result)
    kind = value_dtype(case.form.result(case.mods))
    return 32 if kind.kind == "bool" else kind.bits


def launched(text: str, inputs: Sequence[Array], result: np.dtype[Any], rows: int = 0, level: int = 4) -> Array:
    """The program on the GPU: one thread for each element; it stores one value, or as many as there are rows.

    ``level`` is how far the driver's assembler optimises: 0 to 4.
    """
    count = len(inputs[0])
    out = np.zeros((rows, count) if rows else count, result)
    device = driver.device(0)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with device.current():
        option, setting = ctypes.c_int(OPTIMIZATION_LEVEL), ctypes.c_void_p(level)
        given = (1, ctypes.byref(option), ctypes.byref(setting))
        driver.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode() + b"\0", *given)
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        places = [driver.allocate(array.nbytes) for array in (*inputs, out)]
        try:
            for place, array in zip(places, inputs, strict=False):
                driver.copy_to_device(place, np.ascontiguousarray(array).ctypes.data, array.nbytes)
            values = [ctypes.c_uint64(value) for value in (*places, count)]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            blocks = -(-count // THREADS)
            shape = [ctypes.c_uint(n) for n in (blocks, 1, 1, THREADS, 1, 1, 0)]
            driver.call("cuLaunchKernel", function, *shape, None, pointers, None)
            driver.synchronize()
            driver.copy_from_device(out.ctypes.data, places[-1], out.nbytes)
        finally:
            for place in places:
                driver.free(place)
            driver.call("cuModuleUnload", module)
    return out


def inputs(case: Case, count: int, rng: np.random.Generator) -> list[Array]:
    """Registers as they lie in memory; predicates are bytes."""
    found = registers(case.row, case.form, case.mods, count, rng)
    kept = [one for one, operand in zip(found, operands(case.row, case.mods), strict=True) if operand.kind != "imm"]
    return [one.astype(np.uint8) if one.dtype == bool else one for one in kept]


def simulated(case: Case, given: Sequence[Array]) -> Array:
    """The values by the table, as the bits that the program stores."""
    values = iter(given)
    arguments = []
    for operand in operands(case.row, case.mods):
        if operand.kind == "imm":
            arguments.append(np.array(case.constants[operand.name]))
            continue
        value = next(values)
        is_pred = operand.kind == "pred" or operand.type_of(case.mods) == "pred"
        arguments.append(value != 0 if is_pred else value)
    assert case.form.meaning.of_lanes is not None
    with np.errstate(all="ignore"):
        found = np.broadcast_to(np.asarray(case.form.meaning.of_lanes(case.mods)(*arguments)), len(given[0]))
    if found.dtype == bool:
        return found.astype(np.uint32)
    return np.ascontiguousarray(found).view(f"u{found.dtype.itemsize}")
