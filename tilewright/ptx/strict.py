"""What an assembler refuses though it could be understood: words and registers that an instruction does not take.

The tables are of opcodes that are no rows of `tilewright.isa`. Source: PTX ISA, "Operand Size Exceeding
Instruction-Type Size", "ld", "st", "mov", "cvta"; where that is silent, what ptxas 13.5 takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tilewright.errors import InstructionError, KernelError, choices
from tilewright.ptx.declare import lookup
from tilewright.ptx.names import Memory, Parameter, Symbol, element_bytes
from tilewright.ptx.parser import WORDS
from tilewright.ptx.state import Lowering, Step
from tilewright.ptx.tree import Address, Immediate, Instruction, Name, Not, Operand, Vector

NUMBERS = " ".join(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64)) + " f32 f64 b128"
SCOPES = "cta cluster gpu sys"
SPACES = "global shared shared::cta shared::cluster local const param param::entry param::func"
HINTS = (
    "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "L2::evict_normal L2::evict_first L2::evict_last", "L2::cache_hint", "L2::64B L2::128B L2::256B",
)  # fmt: skip
TAKEN: Mapping[str, tuple[str, ...]] = {  # of the words in each string an instruction has one at most
    "ld": ("weak volatile relaxed acquire", "weak volatile acquire mmio", SCOPES, SPACES, "ca cg cs lu cv", "nc",
           "unified", "v2 v4 v8", *HINTS, NUMBERS),
    "st": ("weak volatile relaxed release", "weak volatile release mmio", SCOPES, SPACES, "wb cg cs wt", "v2 v4 v8",
           *HINTS[:3], NUMBERS),
    "mov": ("v2 v4", "pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f32 f64",),
    "cvta": ("to", SPACES, "u32 u64"),
    **dict.fromkeys(("bar", "barrier"), ("sync arrive red", "popc and or", "aligned", "warp cta", "pred u32")),
}  # fmt: skip
OF_GLOBAL = frozenset(" ".join(HINTS).split())
ORDERED = frozenset(("relaxed", "acquire", "release", "mmio"))
WIDENING = frozenset(("ld", "st", "cvt", "ldu"))  # whose registers may be wider than the type
SECOND: Mapping[str, tuple[frozenset[str], ...]] = {  # words of the opcode's own, which stand right behind it
    **dict.fromkeys(("mul", "mad", "mul24", "mad24"), (frozenset(("lo", "hi", "wide")),)),
    "cvta": (frozenset(("to",)),),
    "fence": (frozenset(("proxy",)),),
    "wgmma": (frozenset(("fence", "mma_async", "commit_group", "wait_group")),),
    "mbarrier": (frozenset(("init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count")),
                 frozenset(("expect_tx", "noComplete"))),
    "cp": (frozenset(("async", "reduce")), frozenset(("bulk", "mbarrier", "commit_group", "wait_group", "wait_all")),
           frozenset(("commit_group", "wait_group"))),
    "bar": (frozenset(("warp",)),),
    "barrier.cluster": (frozenset(("cluster",)), frozenset(("arrive", "wait"))),
    "cp.reduce": (frozenset(("reduce",)), frozenset(("async",)), frozenset(("bulk",))),
}  # fmt: skip
VALUES = frozenset(("mov", "cvt", "cvta", "isspacep", "call"))  # that take special registers and addresses
NO_SINK = frozenset(
    ("abs", "add", "and", "cvt", "cvta", "div", "fma", "ld", "mad", "max", "min", "mov", "mul", "neg", "not", "or",
     "rcp", "selp", "setp", "shl", "shr", "sqrt", "sub", "xor")
)  # whose result must go to a register  # fmt: skip
OF_ROWS = (("barrier", "cluster"), ("st", "async"), ("st", "bulk"))  # of which each word is in a row
CACHED = frozenset(("ca", "cg", "cs", "lu", "cv", "wb", "wt"))
FLOATS = re.compile(r"b?f(?:16|16x2|32|64|32x2)|tf32")
TWICE = frozenset(("sync", "sat", "approx", "NaN", "relu"))  # which mean twice what they mean once
UNTYPED = frozenset(
    ("abs", "add", "atom", "cos", "cvt", "ex2", "fma", "ldmatrix", "lg2", "max", "min", "neg", "rcp", "red", "rsqrt",
     "set", "setp", "sin", "sqrt", "sub", "tanh")
)  # which take a ``.pred`` that means nothing  # fmt: skip
MIXED = frozenset(("testp", "set", "vote", "mma", "wmma", "wgmma"))  # whose results have types of their own
SAME = {"tf32": "b32", "pred": ""}  # a register of this type is as good as one of that; "" is told elsewhere


def without_idle(ins: Instruction) -> Instruction:
    """The instruction without the words that assemblers take and that mean nothing."""
    words = [
        word
        for at, word in enumerate(ins.modifiers)
        if not (word in TWICE and word in ins.modifiers[:at]) and not (word == "pred" and ins.opcode in UNTYPED)
    ]
    return ins if len(words) == len(ins.modifiers) else replace(ins, mnemonic=".".join((ins.opcode, *words)))


def is_mixed(parts: Sequence[Operand], step: Step) -> bool:
    """Does a vector hold floats and integers, so that its registers count as bits?"""
    declared = [step.scope.type_of(part.text) for part in parts if isinstance(part, Name)]
    return len({FLOATS.fullmatch(kind) is None for kind in declared if kind}) > 1


def check_words(ins: Instruction) -> None:
    """Raises InstructionError where an opcode has a modifier that it does not take, or two of one kind."""
    if ins.operands[:1] == (Name("_"),) and ins.opcode in NO_SINK:
        raise InstructionError(f"{ins.mnemonic} needs a register for its result", given="_", allowed="a register")
    _check_mnemonic(ins.mnemonic)


@lru_cache(maxsize=4096)
def _check_mnemonic(mnemonic: str) -> None:
    ins = Instruction(mnemonic)
    if ins.opcode == "cvta" and not (ins.space and {"u32", "u64"}.intersection(ins.modifiers)):
        raise InstructionError(
            f"{ins.mnemonic} has no memory or no type", given=ins.mnemonic, allowed="cvta.to.shared.u64"
        )
    _check_places(ins)
    groups = [group.split() for group in TAKEN.get(ins.opcode, ())]
    if not groups or (ins.opcode, *ins.modifiers[:1]) in OF_ROWS:
        return
    legal = {word for group in groups for word in group}
    for word in ins.modifiers:
        if word not in legal and not re.fullmatch(r"const\[\d+\]", word):
            raise InstructionError(f"{ins.opcode} has no .{word}", given=ins.mnemonic, allowed=choices(word, legal))
    for group in groups:
        several = [word for word in ins.modifiers if word in group]
        if len(several) > 1:
            raise InstructionError(f"{ins.mnemonic} has several of a kind", given=f".{', .'.join(several)}",
                                   allowed="one of them")  # fmt: skip
    if ins.opcode in ("ld", "st"):
        _check_order(ins)


def _check_places(ins: Instruction) -> None:
    """Raises InstructionError where a word of the opcode's own stands behind modifiers."""
    places = SECOND.get(".".join((ins.opcode, *ins.modifiers[:1]))) or SECOND.get(ins.opcode, ())
    for place, words in enumerate(places):
        late = [word for word in ins.modifiers[place + 1 :] if word in words and word not in ins.modifiers[: place + 1]]
        if late and not (
            0 < place < len(places) - 1 and late[0] in places[-1] and late[0] in ins.modifiers[: place + 2]
        ):
            raise InstructionError(f"{late[0]} belongs to the opcode {ins.opcode}", given=ins.mnemonic,
                                   allowed=".".join((ins.opcode, *ins.modifiers[:place], late[0])))  # fmt: skip


def check_source(low: Lowering, operand: Operand, word: str, step: Step, register: str = "") -> None:
    """Raises the error for a source that an instruction of this type does not take. register: another type, of its
    registers.
    """
    _check_value(low, operand, step)
    check_number(operand, word, step)
    check_register(operand, register or word, step)


def _check_value(low: Lowering, operand: Operand, step: Step) -> None:
    """Raises InstructionError where an instruction takes a register, and no address or special register."""
    if not isinstance(operand, Name) or step.ins.opcode in VALUES:
        return
    symbol = lookup(low, operand.text, step.scope)
    if isinstance(symbol, Memory) or (symbol is None and operand.text.startswith("%")):
        raise InstructionError(f"{step.ins.mnemonic} takes no {operand.text}", given=operand.text,
                               allowed=f"a register: mov ..., {operand.text}")  # fmt: skip


def check_together(parts: Sequence[Operand], step: Step) -> None:
    """Raises InstructionError where the registers of a vector have several widths."""
    declared = {step.scope.type_of(part.text) for part in parts if isinstance(part, Name)} - {""}
    if len({element_bytes(kind) for kind in declared if kind != "pred"}) > 1:
        raise InstructionError(f"{step.ins.mnemonic} has registers of several widths",
                               given=", ".join(sorted(declared)), allowed="one width")  # fmt: skip


def _check_order(ins: Instruction) -> None:
    """An order goes with a scope and with no cache's policy; ``volatile`` goes with neither."""
    words = set(ins.modifiers)
    ordered, scopes, cached = words & ORDERED, words & set(SCOPES.split()), words & CACHED
    wrong = (
        (bool(scopes) and not ordered, "a scope without an order"),
        (bool(ordered) and not scopes, "an order without a scope"),
        ("mmio" in words and not {"relaxed", "sys"} <= words, "mmio without relaxed.sys"),
        (bool(cached) and bool(ordered | words & {"volatile"}), "a cache's policy with an order"),
        ("nc" in words and "global" not in words, "nc without global"),
        (bool(words & OF_GLOBAL) and ins.space not in ("", "global"), "a hint for global memory"),
        ("volatile" in words and any(word.startswith("L1::") for word in words), "a hint and volatile"),
    )
    for is_so, what in wrong:
        if is_so:
            allowed = ", ".join(f"{ins.opcode}.{words}" for words in ("relaxed.gpu", "volatile", "global"))
            raise InstructionError(f"{ins.mnemonic} has {what}", given=ins.mnemonic, allowed=allowed)


def check_address(low: Lowering, address: Address, symbol: Symbol | None, step: Step, space: str) -> None:
    """Raises InstructionError where the memory that an access names is not that of its variable, or where a register is
    too narrow for its address.
    """
    if address.base is None:
        if space != "local":
            raise InstructionError("a number is no address here", given=f"[{address.offset}]", allowed="a register")
        return
    actual, space = _space_of(low, address.base.text, symbol), space.partition("::")[0]
    if actual and (space != actual if space else actual in ("const", "param")):
        raise InstructionError(f"{address.base.text} is not in the memory of {step.ins.mnemonic}", given=f".{actual}",
                               allowed=f"{step.ins.opcode}.{actual}")  # fmt: skip
    declared = step.scope.type_of(address.base.text)
    if FLOATS.fullmatch(declared) or declared == "pred":
        raise InstructionError(f"{address.base.text} is no address", given=f".{declared}", allowed=".b64, .u64, .s64")


def _space_of(low: Lowering, name: str, symbol: Symbol | None) -> str:
    """The memory of a variable; "" where the name is of something else."""
    if isinstance(symbol, Parameter) or name in low.in_bytes:
        return "param"
    declared = low.module.variable_of.get(name)
    if isinstance(symbol, Memory):
        return "shared" if symbol.shared else declared.space if declared is not None else ""
    return ""


def check_number(operand: Operand, word: str, step: Step) -> None:
    """Raises KernelError where an integer stands for a float, or a float for an integer, as no assembler takes it: are
    its bits meant, or it?
    """
    if not isinstance(operand, Immediate):
        return
    is_float, bits = FLOATS.fullmatch(word) is not None, element_bytes(word) * 8 if word != "pred" else 0
    if is_float and not operand.bits:
        allowed = {"f32": f"{operand.value:.1f}, or 0f and 8 hexadecimal digits",
                   "f64": f"{operand.value:.1f}, or 0d and 16 hexadecimal digits"}.get(word, "a register")  # fmt: skip
        raise KernelError(
            f"{step.ins.mnemonic}: {operand.text} is an integer", given=operand.text, allowed=allowed, at=step.at
        )
    if not is_float and operand.bits and (word[0] != "b" or operand.bits != bits):
        raise KernelError(f"{step.ins.mnemonic}: {operand.text} is a float", given=operand.text,
                          allowed=f"an integer of {bits} bits", at=step.at)  # fmt: skip


def check_register(operand: Operand, word: str, step: Step) -> None:
    """Raises KernelError where a register is not of an instruction's type: floats are no integers, and but for loads,
    stores and conversions the widths are equal. Registers of bits may hold either.
    """
    if isinstance(operand, Not) and operand.sign == "!" and word != "pred":
        raise KernelError(
            f"{step.ins.mnemonic} takes no !", given=f"!{operand.name.text}", allowed="a register", at=step.at
        )
    declared = step.scope.type_of(operand.text) if isinstance(operand, Name) else ""
    declared, word = SAME.get(declared, declared), SAME.get(word, word)
    if not declared or not word or declared == "b128":
        return
    have, want = (FLOATS.fullmatch(kind) is not None for kind in (declared, word))
    bits, needed = (max(16, 8 * element_bytes(kind)) for kind in (declared, word))
    fits = bits == needed or (step.ins.opcode in WIDENING and bits > needed and not (have and want))
    if not fits:
        raise KernelError(f"{step.ins.mnemonic}: {operand.text} has {bits} bits", given=f"{bits} bits",  # type: ignore[union-attr]  # a Name
                          allowed=f"a register of {needed} bits", at=step.at)  # fmt: skip
    if _differ(declared, word):
        raise KernelError(f"{step.ins.mnemonic}: {operand.text} is of another type", given=f".{declared}",  # type: ignore[union-attr]  # a Name
                          allowed=f".{word}, or .b{needed}", at=step.at)  # fmt: skip


def _differ(declared: str, word: str) -> bool:
    """Is one type a float and the other an integer, or another float? Bits are as good as either."""
    have, want = (FLOATS.fullmatch(kind) is not None for kind in (declared, word))
    if re.fullmatch(r"b\d+", declared) or re.fullmatch(r"b\d+", word):
        return False
    return have != want or (have and declared != word)


def check_result(operand: Operand, step: Step) -> None:
    """The same for the register that a result goes to, of an instruction with one type, or of a conversion."""
    words = [word for word in step.ins.modifiers if word in WORDS]
    first = step.ins.operands[0] if step.ins.operands else operand
    if isinstance(first, Vector) and (operand != first.parts[0] or is_mixed(first.parts, step)):
        return  # of a vector the first register counts
    declared = step.scope.type_of(operand.text) if isinstance(operand, Name) else ""
    word = words[0] if len(words) == 1 or (words and step.ins.opcode == "cvt") else ""
    if not declared or not word or "pred" in (declared, word):
        return
    if _differ(declared, word) and step.ins.opcode not in MIXED:
        raise KernelError(f"{step.ins.mnemonic} does not fit into {operand.text}", given=f"a register of .{declared}",  # type: ignore[union-attr]  # a Name
                          allowed=f".{word}, or a register of bits", at=step.at)  # fmt: skip
