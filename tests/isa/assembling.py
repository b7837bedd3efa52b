"""CUDA text for any form of the table, so that the assembler can judge it. Shares nothing with the emitter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from tests.isa.scalar_inputs import covering, is_scalar
from tilewright import isa
from tilewright.cuda.nvrtc import _nvrtc, _read
from tilewright.dtypes import DType, dtype
from tilewright.isa.forms import CONSTRAINTS, Form, Mods, Ptx, register_kind
from tilewright.isa.table import Bound, Instruction

KERNEL = """\
extern "C" __global__ void k{number}(unsigned char* out, unsigned long long address, unsigned int word, double real) {{
  unsigned int words[160]; unsigned long long wide; unsigned short half; float single;
  {body}
}}
"""

REGISTER = {"pred": "b32"}  # of what is no kind of register
LITERALS = {"imm": "24", "note": ""}  # constants in the text itself, and operands that are not in it
OUTPUTS = {"r": '"=r"(words[0])', "h": '"=h"(half)', "l": '"=l"(wide)', "f": '"=f"(single)', "d": '"=d"(real)'}
INPUTS = {"r": "word", "h": "(unsigned short)word", "l": "address", "f": "(float)real", "d": "real"}


TOGETHER = 16  # statements of one kernel; fewer with many registers, whose allocation takes time of its own
UNREACHED = ("const", "param", "local")  # memories that no operand of inline assembly leads to
MOST = 100  # combinations of a row's modifiers that are gone through one by one


def combinations(row: Instruction) -> Iterator[tuple[Form, Mods]]:
    """All forms of a row with all combinations of their modifiers; of a row with very many, every pair of values."""
    if is_scalar(row):
        yield from ((form, mods) for form in row.forms for mods in covering(form) if mods.get("space") not in UNREACHED)
        return
    every = [(form, mods) for form in row.forms for mods in form.all_mods()]
    if len(every) <= MOST:
        yield from every
        return
    pairs = _pairs([mods for _, mods in every])
    covered = dict.fromkeys((form.wording.template for form in row.forms), 0)
    waiting: dict[int, list[int]] = {}  # by how many pairs were new when last looked at; that count only falls
    for number, bits in enumerate(pairs):
        waiting.setdefault(bits.bit_count(), []).append(number)
    for least in range(max(waiting), 0, -1):
        for number in sorted(waiting.pop(least, [])):
            form, mods = every[number]
            new = (pairs[number] & ~covered[form.wording.template]).bit_count()
            if new == least:
                covered[form.wording.template] |= pairs[number]
                yield form, mods
            else:
                waiting.setdefault(new, []).append(number)


def _pairs(every: list[Mods]) -> list[int]:
    """The pairs of items of each of these modifiers, as bits."""
    items = {item: number for number, item in enumerate(dict.fromkeys(item for mods in every for item in mods.items()))}
    sets = []
    for mods in every:
        bits = behind = 0
        for item in reversed([*mods.items()]):
            bits |= behind << (items[item] * len(items))
            behind |= 1 << items[item]
        sets.append(bits)
    return sets


@cache
def every_form() -> tuple[Bound, ...]:
    """Every row, form and combination of modifiers (of very many those that `combinations` chooses)."""
    return tuple(
        Bound(row, form, mods, {}, texts(row, mods))
        for row in isa.INSTRUCTIONS.values()
        for form, mods in combinations(row)
    )


def texts(row: Instruction, mods: Mods) -> dict[str, str]:
    """The operands that are texts: a format, a function of C++."""
    if row.operand("source_code"):
        kind = dtype(str(mods["return_type"]))
        head = "void" if kind == "void" else kind.cuda or kind.storage
        body = "" if kind == "void" else "return 0;"
        name = f"brought_{kind}"
        return {"name": name, "source_code": f"__device__ {head} {name}(unsigned int word) {{ {body} }}"}
    return {operand.name: "%d" for operand in row.operands if operand.kind == "text"}


def translation_unit(bounds: Iterable[Bound]) -> str:
    """One text that uses each of ``bounds``: a few in a kernel, as a kernel takes time; alone where rows must agree."""
    bounds = list(bounds)
    helpers = dict.fromkeys(bound.helper for bound in bounds)
    bodies = [statement(bound) for bound in bounds if bound.instruction.agrees]
    others = list(dict.fromkeys(statement(bound) for bound in bounds if not bound.instruction.agrees))
    together: list[list[str]] = [[]]
    weight = 0
    for text in others:
        weight += 1 + text.count("words[") // 4
        if weight > TOGETHER and together[-1]:
            together.append([])
            weight = 1 + text.count("words[") // 4
        together[-1].append(text)
    bodies += ["\n  ".join(texts) for texts in together if texts]
    return "\n".join([*helpers, *(KERNEL.format(number=i, body=body) for i, body in enumerate(bodies))])


def accepted(bounds: Sequence[Bound], arch: str) -> list[Bound]:
    """Those of ``bounds`` that an architecture has."""
    without = refused([statement(bound) for bound in bounds], arch, *dict.fromkeys(bound.helper for bound in bounds))
    return [bound for number, bound in enumerate(bounds) if number not in without]


def refused(bodies: Sequence[str], arch: str, *helpers: str) -> set[int]:
    """The numbers of the statements that ptxas refuses: one text, a kernel each, and it names the lines."""
    kernels = [KERNEL.format(number=number, body=body) for number, body in enumerate(bodies)]
    log, ptx = _tried("\n".join([*helpers, *kernels]), arch)
    lines = {int(line) for line in re.findall(r"^ptxas .*?, line (\d+); error", log, re.MULTILINE)}
    kernel, found = -1, set()
    for line, words in enumerate(ptx.splitlines(), 1):
        if entry := re.search(r"\.entry k(\d+)\(", words):
            kernel = int(entry[1])
        if line in lines:
            found.add(kernel)
    return found


def _tried(text: str, arch: str) -> tuple[str, str]:
    """The log and the PTX of a text, whether ptxas takes it or not."""
    nvrtc = _nvrtc()
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 2, [f"--gpu-architecture={arch}".encode(), b"--std=c++17"])
    log, ptx = _read(program, "ProgramLog").decode().replace("\0", ""), _read(program, "PTX").decode()
    nvrtc.nvrtcDestroyProgram(program)
    assert ": error:" not in log, log  # of C++: then nothing reaches ptxas
    return log, ptx


def statement(bound: Bound) -> str:
    """The form, used once."""
    return _assembly(bound) if isinstance(bound.form.wording, Ptx) else _expression(bound)


def result_dtype(bound: Bound) -> DType:
    if callable(bound.form.result):
        return bound.result
    result = str(bound.form.result)
    named = "dtype" if bound.instruction.operand(result) else result
    return dtype(str(bound.mods.get(named, named)))


def _assembly(bound: Bound) -> str:
    """Outputs are numbered first, as inline assembly wants them: the result, what is written, what is read."""
    outputs: list[str] = []
    inputs: list[str] = []
    names: dict[str, str | list[str]] = {}
    if (kind := result_dtype(bound)) != "void":
        count = bound.result_registers
        register = CONSTRAINTS[register_kind(kind.element if count > 1 else kind)] if kind != "bool" else "r"
        outputs += [OUTPUTS[register]] * count
        names["result"] = "%0" if count == 1 else [f"%{number}" for number in range(count)]
    for operand in sorted(bound.given, key=lambda operand: not operand.written):
        if operand.kind in LITERALS:
            names[operand.name] = LITERALS[operand.kind]
            continue
        first = len(outputs) + len(inputs)
        length = bound.registers_of(operand.name) if operand.many else 1
        typed = operand.kind == "typed"
        letter = CONSTRAINTS[
            register_kind(dtype(str(bound.mods["dtype"]))) if typed else REGISTER.get(operand.kind, operand.kind)
        ]
        for number in range(first, first + length):
            if operand.written:
                mark = "+" if operand.read else "="
                outputs.append(f'"{mark}r"(words[{number}])' if letter == "r" else OUTPUTS[letter])
            else:
                inputs.append(f'"{letter}"({INPUTS[letter]})')
        numbers = [f"%{number}" for number in range(first, first + length)]
        names[operand.name] = numbers if operand.many else numbers[0]
    return f'asm volatile("{bound.code(names)}" : {", ".join(outputs)} : {", ".join(inputs)} : "memory");'


def _expression(bound: Bound) -> str:
    texts: dict[str, str | list[str]] = {
        "generic": "address",
        "shared": "word",
        "b32": "word",
        "b64": "address",
        "pred": "word != 0",
        "imm": LITERALS["imm"],
        "value": ["word"],
    }
    values: dict[str, str | list[str]] = {}
    for operand in bound.instruction.operands:
        if operand.kind == "typed":
            kind = dtype(str(bound.mods["dtype"]))
            values[operand.name] = f"({kind.cuda or kind.storage}){'real' if kind.is_float else 'address'}"
        elif operand.written:
            values[operand.name] = "wide"
        elif operand.name not in bound.texts:
            values[operand.name] = texts[operand.kind]
    code = bound.code(values)
    kind = result_dtype(bound)
    return f"*({kind.cuda or kind.storage}*)out = {code};" if kind != "void" else f"{code};"
