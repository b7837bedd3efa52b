"""What PTX declares: registers, variables, parameters, and the headers of functions.

Source: PTX ISA, "State Spaces, Types, and Variables", "Kernel and Function Directives".
"""

from __future__ import annotations

import re

from tilewright.errors import KernelError
from tilewright.ptx.lexer import NAME, Scanner
from tilewright.ptx.tree import Directive, Function, Prototype, Registers, Variable

SPACES = ("global", "const", "shared", "local", "param")
LINKAGES = ("visible", "weak", "extern", "common")
WORDS = (
    *(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64)), "b128", "f16", "f32", "f64", "bf16", "f16x2",
    "bf16x2", "tf32", "pred",
)  # fmt: skip
NUMBERED = (
    "maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "reqnctapercluster", "maxclusterrank",
)  # fmt: skip
OPAQUE = ("texref", "samplerref", "surfref")

_TYPE = r"\.(?:" + "|".join(WORDS) + ")"


def registers(scan: Scanner, line: int) -> Registers:
    """What follows ``.reg``."""
    vector = 1
    kind = scan.of(rf"\.v[248]|{_TYPE}", "the type of a register")
    if kind[1] == "v":
        vector, kind = int(kind[2:]), scan.of(_TYPE, "the type of a register")
    names = scan.listed(lambda: _register(scan))
    scan.expect(";")
    return Registers(kind[1:], tuple(names), vector, line)


def _register(scan: Scanner) -> tuple[str, int | None]:
    """The name of a register, and of a family ``%r<9>`` how many it has."""
    name = scan.name("the name of a register")
    if not scan.accept("<"):
        return name, None
    count = scan.integer()
    scan.expect(">")
    return name, count


def variables(scan: Scanner, space: str, linkage: str, line: int) -> list[Variable]:
    """What follows ``.global`` or another space: one variable, or several of one type."""
    if space == "const":  # a bank has its number in old texts
        _extents(scan)
    align, vector, kind, attributes = _qualifiers(scan)

    def variable() -> Variable:
        name, extents = scan.name("the name of a variable"), _extents(scan)
        initial = _initial(scan) if scan.accept("=") else ""
        if extents[:1] == (None,) and initial:
            extents = (_count(initial), *extents[1:])
        return Variable(space, kind, name, extents, align, vector, linkage, attributes, initial, line)

    declared = scan.listed(variable)
    scan.expect(";")
    return declared


def _qualifiers(scan: Scanner) -> tuple[int, int, str, tuple[str, ...]]:
    """Alignment, elements of a vector, type and other words, in whatever order they stand before the name."""
    align, vector, kind, attributes = 0, 1, "", []
    while (word := scan.peek()).startswith("."):
        if word == ".align":
            scan.next()
            number = scan.integer("an alignment in bytes")
            if ".ptr" in attributes:
                attributes.append(f".align {number}")
            else:
                align = number
        elif re.fullmatch(r"\.v[248]", word):
            scan.next()
            vector = int(word[2:])
        elif re.fullmatch(_TYPE, word):
            scan.next()
            kind = word[1:]
        elif word == ".attribute":
            attributes.append(_attribute(scan))
        elif word[1:] in OPAQUE:
            raise KernelError(
                f"{word} is not supported: the simulator has no textures",
                given=word, allowed="arrays in global memory", at=scan.text.span(scan.text.skipped(scan.position)),
            )  # fmt: skip
        else:
            attributes.append(scan.next())
    if not kind:
        raise scan.text.expected("a type: .b8, .u32, .f32, ...", scan.position)
    return align, vector, kind, tuple(attributes)


def _attribute(scan: Scanner) -> str:
    """``.attribute(.managed, .unified(1, 2))``, with what stands in its parentheses."""
    scan.expect(".attribute")
    scan.expect("(")
    text = scan.until(")")
    while text.count("(") >= text.count(")") + 1:
        text += f"){scan.until(')')}"
    return f".attribute({text})"


def _extents(scan: Scanner) -> tuple[int | None, ...]:
    extents: list[int | None] = []
    while scan.accept("["):
        extents.append(None if scan.peek() == "]" else scan.integer())
        scan.expect("]")
    return tuple(extents)


def _initial(scan: Scanner) -> str:
    """The text of an initial value: with its braces, if it has some."""
    start = depth = 0
    start = scan.text.skipped(scan.position)
    for mark in re.compile(r"[{},;]").finditer(scan.text.clean, start, scan.end):
        if depth < 0 or (mark[0] == ";" and depth):
            raise scan.text.expected("an initial value whose braces close", mark.start())
        if mark[0] == ";" or (mark[0] == "," and not depth):
            scan.position = mark.start()
            return scan.text.clean[start : mark.start()].strip()
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
    raise scan.text.expected("`;` after an initial value", scan.end)


def _count(initial: str) -> int:
    """The values in the outermost braces, which are as many as an array of open extent has."""
    inner = re.sub(r"\([^()]*\)", "", initial.strip()[1:-1])
    while (fewer := re.sub(r"\{[^{}]*\}", "0", inner)) != inner:
        inner = fewer
    return len([value for value in inner.split(",") if value.strip()])


def params(scan: Scanner) -> tuple[Variable, ...]:
    """Parameters in parentheses, in registers or in the space of parameters; none where there are no parentheses."""
    parameters: list[Variable] = []
    if not scan.accept("("):
        return ()
    while not scan.accept(")"):
        if parameters:
            scan.expect(",")
        line = scan.text.line(scan.text.skipped(scan.position))
        space = scan.of(r"\.param|\.reg", "`.param` or `.reg`")[1:]
        align, vector, kind, attributes = _qualifiers(scan)
        name = scan.name("the name of a parameter")
        parameters.append(Variable(space, kind, name, _extents(scan), align, vector, "", attributes, "", line))
    return tuple(parameters)


def header(scan: Scanner, kind: str, linkage: str, line: int) -> Function:
    """What follows ``.entry`` or ``.func``, up to its body or ``;``."""
    attributes = []
    while scan.peek() in (".noreturn", ".attribute"):
        attributes.append(_attribute(scan) if scan.peek() == ".attribute" else scan.next())
    returns = params(scan)
    name = scan.name("the name of a function")
    parameters = params(scan)
    names = [param.name for param in (*returns, *parameters)]
    if twice := next((param for param in names if names.count(param) > 1), ""):
        raise KernelError(f"{name} has two parameters of one name", given=twice, at=scan.text.span(scan.position))
    directives = [Directive(text, line) for text in attributes]
    while (word := scan.peek()).startswith("."):
        at = scan.text.line(scan.text.skipped(scan.position))
        scan.next()
        rest = ", ".join(map(str, scan.listed(scan.integer))) if word[1:] in NUMBERED else _tail(scan)
        directives.append(Directive(f"{word} {rest}".strip(), at))
        if word == ".pragma":
            scan.accept(";")
    return Function(name, kind == "entry", parameters, returns, tuple(directives), linkage, None, line)


def _tail(scan: Scanner) -> str:
    """The numbers, names or strings of a directive, up to the next directive, the body or the end."""
    parts = []
    while (token := scan.peek()) and token not in ("{", ";") and not token.startswith("."):
        parts.append(scan.next())
    return " ".join(parts).replace(" ,", ",")


def prototype(scan: Scanner, name: str, line: int) -> Prototype:
    """What follows ``name: .callprototype``."""
    returns = params(scan)
    scan.of(rf"_|{NAME}", "`_`")
    parameters = params(scan)
    attributes = []
    while (word := scan.peek()).startswith("."):
        scan.next()
        attributes.append(f"{word} {_tail(scan)}".strip())
    scan.expect(";")
    return Prototype(name, returns, parameters, tuple(attributes), line)
