"""Every row of the instruction table goes through the emitter and assembles on the first architecture that has it."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import TID
from tests.cuda.together import together
from tests.isa.umma_oracles import CONSTANTS
from tests.sim.build import flat, get, lowered, parameter
from tilewright import isa
from tilewright.cuda import emit
from tilewright.ir import AllocBuffer, Bind, Evaluate, Launch, Stmt, Var
from tilewright.isa import INSTRUCTIONS, Bound, Form, Mods, Operand

OUT, WIDE = parameter("out", "uint32"), parameter("wide", "uint64")
TILE, R = flat("tile", "uint32", 1024, "shared"), flat("R", "uint32", 128, "local")
WORD = flat("word", "uint64", 2, "local")
B, H = flat("B", "uint8", 16, "local"), flat("H", "uint16", 16, "local")
F, D = flat("F", "float32", 16, "local"), flat("D", "float64", 16, "local")
REGISTERS = {"b8": B, "b16": H, "b32": R, "b64": WIDE, "f32": F, "f64": D}
MOST_FORMS = 12  # of one row: the table's own tests assemble all of them


def argument(operand: Operand, count: int, mods: Mods) -> object:
    """An argument that fits an operand."""
    if operand.name in CONSTANTS:
        return CONSTANTS[operand.name]
    if operand.many and operand.kind in REGISTERS:
        file = WORD if operand.kind == "b64" else REGISTERS[operand.kind]
        return [get(file, i) for i in range(count)]
    if operand.kind in REGISTERS:
        wide = get(WORD, 0) if operand.written else get(WIDE, TID)
        return get(REGISTERS[operand.kind], 0) if operand.kind != "b64" else wide
    if operand.kind == "typed":
        return get(parameter(f"in_{mods['dtype']}", str(mods["dtype"])), TID)
    pointed = parameter(f"in_{mods['dtype']}", str(mods["dtype"])) if "dtype" in mods else WIDE
    values = {
        "shared": get(OUT, TID) if "dtype" in mods else TILE.ptr_to([TID * 4]),
        "global": pointed.ptr_to([TID * 2]),
        "generic": pointed.ptr_to([TID * 2]),
        "pred": TID < 5,
        "value": [TID],
        "tmem": get(OUT, TID),
        "imm": 24,
        "note": 0,
        "text": "%d\n",
        "symbol": "given" if operand.name == "name" else "__device__ int given(int x) { return x; }",
    }
    return values[operand.kind]


def statement(row: isa.Instruction, form: Form, mods: Mods, number: int) -> Stmt:
    """One use of a form; its value, where it has one, goes into a variable."""
    bound = Bound(row, form, mods, {})
    arguments = {
        operand.name: argument(operand, bound.form.registers_of(operand.name, mods), mods) for operand in bound.given
    }
    plain = {name: value for name, value in mods.items() if row.operand(name) is None}
    modifiers = {name: value for name, value in plain.items() if name != "dtype" or not _is_typed(row)}
    call = isa.call(row.name, **arguments, **modifiers)
    return Evaluate(call) if call.dtype == "void" else Bind(Var(f"value_{number}", call.dtype), call)


def _is_typed(row: isa.Instruction) -> bool:
    return any(operand.kind == "typed" for operand in row.operands)


def _agrees(row: isa.Instruction, mods: Mods) -> bool:
    """One kernel may have only one value of the modifier that its rows agree on."""
    return bool(mods.get(row.agrees, 1) == 1)


def uses() -> dict[str, list[str]]:
    """By first architecture the rows that have forms with it."""
    found: dict[str, list[str]] = {}
    for row in INSTRUCTIONS.values():
        for first in dict.fromkeys(str(form.arch.archs()[0]) for form in row.forms):
            found.setdefault(first, []).append(row.name)
    return found


def text_of(name: str, arch: str) -> str:
    """A kernel with the first forms of a row that an architecture is the first to have."""
    row = INSTRUCTIONS[name]
    forms = [form for form in row.forms if str(form.arch.archs()[0]) == arch]
    combinations = [(form, mods) for form in forms for mods in form.all_mods() if _agrees(row, mods)][:MOST_FORMS]
    body = [statement(row, form, mods, i) for i, (form, mods) in enumerate(combinations)]
    dtypes = dict.fromkeys(str(mods["dtype"]) for _, mods in combinations if "dtype" in mods)
    inputs = [parameter(f"in_{kind}", kind) for kind in dtypes]
    storage = [AllocBuffer(TILE, 0), *(AllocBuffer(buffer) for buffer in (R, B, F, D, H, WORD))]
    launch = Launch((1, 1, 1), 128, shared_bytes=4096)
    kernel = lowered(f"k_{name.replace('.', '_')}", (OUT, WIDE, *inputs), (*storage, *body), launch=launch)
    return emit(kernel, isa.arch(arch))


USES = uses()


@pytest.mark.parametrize("arch", USES)
def test_each_row_is_emitted_and_assembles(arch: str) -> None:
    made = together([text_of(name, arch) for name in USES[arch]], arch)

    assert made.cubin
    assert made.ptx.count(".entry") == len(USES[arch])
