"""Texts that NVRTC has not optimised (``-G``): their local variables by name, and bytes of padding that it marks.

Such a text keeps all local variables of a function in one depot. Its debug data say which variable begins where, so
that each becomes a variable of its own: an index past one of them is outside, though a neighbour lies there. A load
of which the program uses only some bytes says so in a pragma; the others are padding, and no uninitialised value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.ptx.tree import (
    Address,
    Block,
    Body,
    Directive,
    Function,
    Immediate,
    Instruction,
    Module,
    Name,
    Operand,
    Statement,
    Variable,
    Vector,
)

_VARIABLE = re.compile(
    r"^\.b8 3\n\.b64 (?P<depot>\w+)\n\.b8 35\n(?P<rest>(?:\.b8 [\d, ]+\n){2,80}?)(?=\.b8 0\n)", re.MULTILINE
)  # DW_OP_addr, the depot, DW_OP_plus_uconst, the offset as ULEB128; then the name
_DEPOT = "__local_depot"
_STACK = ("%SP", "%SPL")
_MASK = re.compile(r'\.pragma\s+"used_bytes_mask (\w+)"')
_MOVES = ("mov", "cvta")
_WORD = 8  # bytes


def unoptimised(module: Module, text: str) -> Module:
    """The module of a text, its depots split by the debug data, its loads of padding without those bytes."""
    places = _places(text)
    functions = tuple(_function(each, places) for each in module.functions)
    return replace(module, functions=functions)


def _places(text: str) -> dict[str, dict[int, str]]:
    """The variables in each depot: name by offset."""
    found: dict[str, dict[int, str]] = {}
    for match in _VARIABLE.finditer(text):
        octets = [int(part) for part in re.findall(r"\d+", match["rest"].replace(".b8", ""))]
        offset, shift = 0, 0
        while octets:
            octet = octets.pop(0)
            offset |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        name = bytes(octets).decode(errors="replace")
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            found.setdefault(match["depot"], {}).setdefault(offset, name)
    return found


def _function(function: Function, places: Mapping[str, Mapping[int, str]]) -> Function:
    if function.body is None:
        return function
    body = _without_padding(function.body)
    depot = next((each for each in body if isinstance(each, Variable) and each.name.startswith(_DEPOT)), None)
    if depot is not None and depot.name in places:
        split = _Depot.of(depot, places[depot.name], _used(body))
        body = tuple(split.rewritten(body)) if split.fits(body) else body
    return replace(function, body=body)


def _used(body: Body) -> Iterator[int]:
    """The places of the depot that instructions name."""
    for ins in _instructions(body):
        if (offset := _Depot.sum_of(ins)) is not None:
            yield offset
        yield from (each.offset for each in ins.operands if isinstance(each, Address) and each.base
                    and each.base.text in _STACK)  # fmt: skip


# Bytes of padding, which are read and not used.


def _without_padding(body: Body) -> Body:
    """The statements; behind a load of some of whose bytes the program makes no use, these are zeros."""
    made: list[Statement] = []
    mask: int | None = None
    for each in body:
        if isinstance(each, Block):
            made.append(replace(each, body=_without_padding(each.body)))
            continue
        made.append(each)
        if isinstance(each, Directive) and (found := _MASK.search(each.text)):
            mask = int(found[1], 0)
        elif isinstance(each, Instruction) and mask is not None:
            made += _masked(each, mask)
            mask = None
    return tuple(made)


def _masked(load: Instruction, mask: int) -> Iterator[Statement]:
    """Instructions that clear the bytes of a load that a mask does not name."""
    bits = next((int(word[1:]) for word in load.modifiers if re.fullmatch(r"[bsuf](?:16|32|64)", word)), 0)
    target = load.operands[0] if load.operands else None
    parts = target.parts if isinstance(target, Vector) else (target,)
    for part in parts if load.opcode == "ld" and bits else ():
        own, mask = mask & (1 << bits // 8) - 1, mask >> bits // 8
        kept = sum(255 << 8 * n for n in range(bits // 8) if own >> n & 1)
        if isinstance(part, Name) and own != (1 << bits // 8) - 1 and not {"f32", "f64"} & {*load.modifiers}:
            operands = (part, part, Immediate(str(kept), kept))
            yield Instruction(f"and.b{bits}", operands, load.guard, load.line, load.column)


# Local variables: each in storage of its own.


@dataclass(frozen=True, slots=True)
class _Depot:
    """declared: the variable that holds all. parts: those that it becomes, by their offsets. pads: bytes before some,
    which keep what lies in them at multiples of eight bytes, as variables without a name that follow one do.
    """

    declared: Variable
    parts: Mapping[int, Variable]
    pads: Mapping[int, int]

    @classmethod
    def of(cls, declared: Variable, names: Mapping[int, str], used: Iterable[int]) -> _Depot:
        size = declared.extents[0] or 0
        starts = sorted({0, *(offset for offset in names if offset < size)})
        owners = ((max(each for each in starts if each <= offset), offset) for offset in used)
        pads = {start: start % _WORD for start, offset in owners if offset % _WORD == 0 and (offset - start) % _WORD}
        parts, taken = {}, set[str]()
        for start, end in zip(starts, [*starts[1:], size], strict=True):
            name = names.get(start, declared.name)
            name = name if name not in taken else f"{name}_{start}"
            taken.add(name)
            align, size = max(declared.align or 1, 16), end - start + pads.get(start, 0)
            parts[start] = replace(declared, name=name, extents=(size,), align=align)
        return cls(declared, parts, pads)

    def fits(self, body: Body) -> bool:
        """Is every use of the stack's registers one that can be rewritten?"""
        return all(self._is_known(each) for each in _instructions(body))

    def _is_known(self, ins: Instruction) -> bool:
        if not any(name in _STACK or name == self.declared.name for name in _named(ins.operands)):
            return True
        if ins.operands and isinstance(ins.operands[0], Name) and ins.operands[0].text in _STACK:
            return ins.opcode in _MOVES
        return self._address(ins) or self.sum_of(ins) is not None

    @staticmethod
    def _address(ins: Instruction) -> bool:
        """Is it a load or a store at a place of the depot, and no other use of it?"""
        others = [each for each in ins.operands if not isinstance(each, Address)]
        return ins.opcode in ("ld", "st") and not any(name in _STACK for name in _named(others))

    @staticmethod
    def sum_of(ins: Instruction) -> int | None:
        """The offset whose address it makes."""
        match ins.operands:
            case (Name(), Name(base), Immediate(value=offset)) if ins.opcode == "add" and base in _STACK:
                return offset
            case (Name(), Name(base)) if ins.opcode == "mov" and base in _STACK:
                return 0
        return None

    def _at(self, offset: int) -> tuple[Variable, int]:
        start = max(each for each in self.parts if each <= offset)
        return self.parts[start], offset - start + self.pads.get(start, 0)

    def rewritten(self, body: Body) -> Iterator[Statement]:
        """The statements with a variable for each part."""
        for each in body:
            if each is self.declared:
                yield from self.parts.values()
            elif isinstance(each, Block):
                yield replace(each, body=tuple(self.rewritten(each.body)))
            elif isinstance(each, Instruction):
                yield from self._instruction(each)
            else:
                yield each

    def _instruction(self, ins: Instruction) -> Iterator[Instruction]:
        names = [*_named(ins.operands)]
        target = ins.operands[0] if ins.operands else None
        if not any(name in _STACK or name == self.declared.name for name in names):
            yield ins
        elif isinstance(target, Name) and target.text in _STACK:
            return
        elif (offset := self.sum_of(ins)) is not None:
            yield from self._made(ins, offset)
        else:
            word = ins.mnemonic if ins.space else ins.mnemonic.replace(f"{ins.opcode}.", f"{ins.opcode}.local.", 1)
            operands = tuple(self._moved(each) if isinstance(each, Address) else each for each in ins.operands)
            yield replace(ins, mnemonic=word.replace(".volatile.local", ".local"), operands=operands)

    def _made(self, ins: Instruction, offset: int) -> Iterator[Instruction]:
        """The address of a place of the depot: generic, or in local memory, as it was before."""
        part, rest = self._at(offset)
        target, base = ins.operands[0], ins.operands[1]
        assert isinstance(base, Name), "an address is made of a register"
        word = "u64" if "64" in ins.mnemonic else "u32"
        yield replace(ins, mnemonic=f"mov.{word}", operands=(target, Name(part.name)))
        if base.text == "%SP":
            yield replace(ins, mnemonic=f"cvta.local.{word}", operands=(target, target))
        if rest:
            number = Immediate(str(rest), rest)
            yield replace(ins, mnemonic=f"add.{word}", operands=(target, target, number))

    def _moved(self, at: Address) -> Address:
        if at.base is None or at.base.text not in (*_STACK, self.declared.name):
            return at
        part, rest = self._at(at.offset)
        return replace(at, base=Name(part.name), offset=rest)


def _instructions(body: Body) -> Iterator[Instruction]:
    for each in body:
        if isinstance(each, Block):
            yield from _instructions(each.body)
        elif isinstance(each, Instruction):
            yield each


def _named(operands: Sequence[Operand | None]) -> Iterator[str]:
    """The names in operands."""
    for each in operands:
        match each:
            case Name(text):
                yield text
            case Address(base=Name(text)):
                yield text
            case Vector(parts):
                yield from _named(parts)
            case _:
                base = getattr(each, "name", None)
                if isinstance(base, Name):
                    yield base.text
