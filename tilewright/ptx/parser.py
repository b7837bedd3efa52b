"""From PTX text to its tree. Source: PTX ISA, "Syntax", "Directives".

Both dialects of NVRTC and Triton's are read alike: modifiers are words in whatever order, scopes nest, and several
statements may share a line. Errors name the line and column, and what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.errors import KernelError
from tilewright.ptx import tree
from tilewright.ptx.text import NAME, STATEMENT, Scanner, Text, Unreadable, operands, with_lines_of_assembly

if TYPE_CHECKING:
    from tilewright.ptx.tree import Operand

# What PTX declares: registers, variables, parameters, and the headers of functions.
#
# Source: PTX ISA, "State Spaces, Types, and Variables", "Kernel and Function Directives".

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


def registers(scan: Scanner, line: int) -> tree.Registers:
    """What follows ``.reg``."""
    vector = 1
    kind = scan.of(rf"\.v[248]|{_TYPE}", "the type of a register")
    if kind[1] == "v":
        vector, kind = int(kind[2:]), scan.of(_TYPE, "the type of a register")
    names = scan.listed(lambda: _register(scan))
    scan.expect(";")
    return tree.Registers(kind[1:], tuple(names), vector, line)


def _register(scan: Scanner) -> tuple[str, int | None]:
    """The name of a register, and of a family ``%r<9>`` how many it has."""
    name = scan.name("the name of a register")
    if not scan.accept("<"):
        return name, None
    count = scan.integer()
    scan.expect(">")
    return name, count


def variables(scan: Scanner, space: str, linkage: str, line: int) -> list[tree.Variable]:
    """What follows ``.global`` or another space: one variable, or several of one type."""
    if space == "const":  # a bank has its number in old texts
        _extents(scan)
    align, vector, kind, attributes = _qualifiers(scan)

    def variable() -> tree.Variable:
        name, extents = scan.name("the name of a variable"), _extents(scan)
        initial = _initial(scan) if scan.accept("=") else ""
        if extents[:1] == (None,) and initial:
            extents = (_count(initial), *extents[1:])
        return tree.Variable(space, kind, name, extents, align, vector, linkage, attributes, initial, line)

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
                f"{word} is not supported: texture references are none of sm_70 and later",
                given=word, allowed="texture objects", at=scan.text.span(scan.text.skipped(scan.position)),
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


def params(scan: Scanner) -> tuple[tree.Variable, ...]:
    """Parameters in parentheses, in registers or in the space of parameters; none where there are no parentheses."""
    parameters: list[tree.Variable] = []
    if not scan.accept("("):
        return ()
    while not scan.accept(")"):
        if parameters:
            scan.expect(",")
        line = scan.text.line(scan.text.skipped(scan.position))
        space = scan.of(r"\.param|\.reg", "`.param` or `.reg`")[1:]
        align, vector, kind, attributes = _qualifiers(scan)
        name = scan.name("the name of a parameter")
        parameters.append(tree.Variable(space, kind, name, _extents(scan), align, vector, "", attributes, "", line))
    return tuple(parameters)


def header(scan: Scanner, kind: str, linkage: str, line: int) -> tree.Function:
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
    directives = [tree.Directive(text, line) for text in attributes]
    while (word := scan.peek()).startswith("."):
        at = scan.text.line(scan.text.skipped(scan.position))
        scan.next()
        rest = ", ".join(map(str, scan.listed(scan.integer))) if word[1:] in NUMBERED else _tail(scan)
        directives.append(tree.Directive(f"{word} {rest}".strip(), at))
        if word == ".pragma":
            scan.accept(";")
    return tree.Function(name, kind == "entry", parameters, returns, tuple(directives), linkage, None, line)


def _tail(scan: Scanner) -> str:
    """The numbers, names or strings of a directive, up to the next directive, the body or the end."""
    parts = []
    while (token := scan.peek()) and token not in ("{", ";") and not token.startswith("."):
        parts.append(scan.next())
    return " ".join(parts).replace(" ,", ",")


def prototype(scan: Scanner, name: str, line: int) -> tree.Prototype:
    """What follows ``name: .callprototype``."""
    returns = params(scan)
    scan.of(rf"_|{NAME}", "`_`")
    parameters = params(scan)
    attributes = []
    while (word := scan.peek()).startswith("."):
        scan.next()
        attributes.append(f"{word} {_tail(scan)}".strip())
    scan.expect(";")
    return tree.Prototype(name, returns, parameters, tuple(attributes), line)


# The statements of a function: most are one match of `STATEMENT`; declarations are read token by token.


_INLINED = re.compile(rf"\s*,\s*function_name\s+({NAME})\s*(?:\+\s*(\d+))?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+)\s*")
MOST_NESTED = 100
_STATEMENT = "an instruction that ends in `;`, a label, a directive or `}`"


def body(scan: Scanner) -> tree.Body:
    """The statements up to the ``}`` that closes the scope; its ``{`` has been read."""
    text, clean = scan.text, scan.text.clean
    statements: list[tree.Statement] = []
    outer: list[tuple[list[tree.Statement], int]] = []  # the scopes around, and the lines where they open
    position, counted, line = scan.position, scan.position, text.line(scan.position)
    while True:
        match = STATEMENT.match(clean, position)
        if match is None:
            raise text.expected(_STATEMENT, position)
        kind = match.lastgroup
        start, position = match.start(_FIRST.get(kind, kind)), match.end()  # type: ignore[arg-type]  # never None
        line += clean.count("\n", counted, start)
        counted = start
        if kind == "operands":
            statements.append(_instruction(text, match, line))
        elif kind == "inlined":
            statements.append(_loc(text, match))
        elif kind == "open":
            if len(outer) == MOST_NESTED:
                raise KernelError("scopes are nested too deeply", allowed=f"{MOST_NESTED}", at=text.span(start))
            outer.append((statements, line))
            statements = []
        elif kind != "close":
            position = _MORE[kind](text, match, line, statements) if kind in _MORE else position
        elif outer:
            (statements, at), inner = outer.pop(), statements
            statements.append(tree.Block(tuple(inner), at))
        else:
            scan.position = position
            return tuple(statements)


_FIRST = {"operands": "mnemonic", "inlined": "file"}  # the group in which a statement begins


def _instruction(text: Text, match: re.Match[str], line: int) -> tree.Instruction:
    guard, mnemonic, listed = match["guard"], match["mnemonic"], match["operands"]
    return tree.Instruction(
        mnemonic, _operands(text, match, listed), guard.replace(" ", "") if guard else "", line,
        text.column(match.start("guard" if guard else "mnemonic")),
    )  # fmt: skip


def _operands(text: Text, match: re.Match[str], listed: str) -> tuple[Operand, ...]:
    try:
        return operands(listed)
    except Unreadable:
        pass
    position = match.start("operands")  # which of them is it?
    for part in re.split(r"(,)(?![^{\[(]*[}\])])", listed):
        try:
            if part != ",":
                operands(part)
        except Unreadable as stop:
            raise text.expected(f"{stop.what}, then `,` or `;`", position + stop.offset) from None
        position += len(part)
    raise text.expected("operands, then `;`", match.start("operands"))


def _loc(text: Text, match: re.Match[str]) -> tree.Loc:
    place = int(match["file"]), int(match["line"]), int(match["column"])
    rest = match["inlined"]
    if not rest or rest.isspace():
        return tree.Loc(*place)
    inlined = _INLINED.fullmatch(rest)
    if inlined is None:
        raise text.expected("`, function_name LABEL, inlined_at FILE LINE COLUMN`", match.start("inlined"))
    label, offset, *outer = inlined.groups()
    return tree.Loc(*place, (label, int(offset or 0)), (int(outer[0]), int(outer[1]), int(outer[2])))


def _label(text: Text, match: re.Match[str], line: int, statements: list[tree.Statement]) -> int:
    """A label, or a list of targets under a name; the position behind it."""
    name = match["label"]
    scan = Scanner(text, match.end())
    word = scan.peek()
    if word in (".branchtargets", ".calltargets"):
        scan.next()
        names = tuple(re.split(r"\s*,\s*", scan.until(";")))
        statements.append(tree.Targets(name, word[1:], names, line))
        return scan.position
    if word == ".callprototype":
        scan.next()
        statements.append(prototype(scan, name, line))
        return scan.position
    statements.append(tree.Label(name, line))
    return match.end()


def _directive(text: Text, match: re.Match[str], line: int, statements: list[tree.Statement]) -> int:
    """A declaration, a hint; the position behind it."""
    word = match["directive"][1:]
    scan = Scanner(text, match.end())
    linkage = ""
    while word in ("extern", "visible", "weak", "common"):
        linkage, word = word, scan.next()[1:]
    if word == "reg":
        statements.append(registers(scan, line))
    elif word in SPACES:
        statements += variables(scan, word, linkage, line)
    elif word in ("pragma", "section", "file"):
        statements.append(tree.Directive(f".{word} {scan.until(';')};" if word == "pragma" else f".{word}", line))
    else:
        raise text.expected(
            "a directive of a body: .reg, .local, .shared, .param, .loc, .pragma", match.start("directive")
        )
    return scan.position


_MORE = {"label": _label, "directive": _directive}


_BYTES = re.compile(r"\s*(?:([\w$]+):)?\s*(?:\.(b8|b16|b32|b64)\s+([^\n]*))?")


def parse(text: str, file: str = "") -> tree.Module:
    """The tree of a PTX text. file: its path, for messages.

    >>> module = parse(".version 8.0 .target sm_90 .address_size 64 .entry k() { ret; }")
    >>> module.entries[0].body
    (Instruction(mnemonic='ret', operands=(), guard='', line=1, column=57),)

    Raises KernelError, at the line and column, where it is no PTX.
    """
    reader = _Reader(Text(with_lines_of_assembly(text), file))
    while reader.scan.peek():
        reader.item()
    for directive, value in ((".version", reader.version), (".target", reader.target)):
        if not value:
            raise reader.text.expected(f"`{directive}`, which every PTX text has at its head", 0)
    return reader.module()


class _Reader:
    """Reads a module item by item, and keeps what it has read."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.scan = Scanner(text)
        self.version = ""
        self.target: tuple[str, ...] = ()
        self.address_size = 64
        self.variables: list[tree.Variable] = []
        self.functions: list[tree.Function] = []
        self.directives: list[tree.Directive] = []
        self.files: list[tuple[int, str]] = []
        self.strings: dict[str, bytes] = {}

    def module(self) -> tree.Module:
        return tree.Module(
            self.version, self.target, self.address_size, tuple(self.variables), tuple(self.functions),
            tuple(self.directives), tuple(self.files), tuple(self.strings.items()), self.text.file,
        )  # fmt: skip

    def item(self) -> None:
        """One directive, variable or function of the module."""
        scan, linkage = self.scan, ""
        start = self.text.skipped(scan.position)
        line = self.text.line(start)
        word = scan.next()
        while word[1:] in LINKAGES:
            linkage, word = word[1:], scan.next()
        name = word[1:] if word.startswith(".") else ""
        if name in SPACES:
            self.variables += variables(scan, name, linkage, line)
        elif name in ("entry", "func"):
            self._function(header(scan, name, linkage, line))
        elif name in _DIRECTIVES:
            _DIRECTIVES[name](self, line)
        elif word != ";":
            raise self.text.expected("a directive of a module: .version, .target, .global, .func, .entry, ...", start)

    def _function(self, function: tree.Function) -> None:
        if self.scan.accept("{"):
            function = replace(function, body=body(self.scan))
        elif not self.scan.accept(";"):
            raise self.text.expected(f"the body of {function.name}, or `;`", self.scan.position)
        self.functions.append(function)

    def _version(self, line: int) -> None:
        self.version = self.scan.of(r"\d+\.\d+", "a version: 8.0")

    def _target(self, line: int) -> None:
        words = [self.scan.of(r"\w+", "an architecture: sm_90a")]
        while self.scan.accept(","):
            words.append(self.scan.of(r"\w+", "an option of the target: debug"))
        self.target = tuple(words)

    def _address_size(self, line: int) -> None:
        start = self.scan.position
        self.address_size = self.scan.integer()
        if self.address_size not in (32, 64):
            at = self.text.span(self.text.skipped(start), 2)
            raise KernelError("addresses have 32 or 64 bits", given=f"{self.address_size}", allowed="32, 64", at=at)

    def _file(self, line: int) -> None:
        number = self.scan.integer()
        path = self.scan.of(r'"[^"]*"', "a path in quotes")[1:-1]
        self.files.append((number, path.replace("\\\\", "\\")))
        while self.scan.accept(","):  # the time and size that the file had
            self.scan.integer()

    def _section(self, line: int) -> None:
        """Debugging information: of it, the strings count."""
        self.scan.of(r"\.[\w$]+", "the name of a section")
        while not self.scan.accept("{"):
            self.scan.of(r"\.[\w$]+", "`{`")
        label = ""
        for match in _BYTES.finditer(self.scan.until("}")):
            label = match[1] or label
            if match[2] == "b8" and label:
                numbers = bytes(int(part, 0) & 255 for part in re.findall(r"-?\b(?:0x[\da-fA-F]+|\d+)\b", match[3]))
                self.strings[label] = self.strings.get(label, b"") + numbers

    def kept(self, word: str, line: int) -> None:
        """A directive that stays as it is written."""
        self.directives.append(tree.Directive(f".{word} {self.scan.until(';')};", line))


_DIRECTIVES: Mapping[str, Callable[[_Reader, int], None]] = {
    "version": _Reader._version,
    "target": _Reader._target,
    "address_size": _Reader._address_size,
    "file": _Reader._file,
    "section": _Reader._section,
    "pragma": lambda reader, line: reader.kept("pragma", line),
    "alias": lambda reader, line: reader.kept("alias", line),
}
