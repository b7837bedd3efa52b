"""Generated Python: lines, indentation, the constants that they name, and code that is nested too deep for Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir import Call, Expr, Load, Reinterpret, Stmt, Unary, walk
from tilewright.sim.codegen.axes import UNIFORM
from tilewright.sim.machine import flags_of, initialised, unknown_of, width_of

if TYPE_CHECKING:
    from tilewright.errors import Span
    from tilewright.sim.codegen.compiled import Compiled

# The state that parts of the code generator share: the text, the analysis of the kernel, the rules of expressions.
#
# A value is text plus, where it may hold uninitialised bits, the text of its shadow: flags that travel with it and
# stand in the same places (see `tilewright.sim.machine.unknown`). Code that uses a value, and does not only move it,
# calls `Emitter.sound`, which emits the test of the shadow.


LONGEST = 800  # letters of an expression, as Python reads 200 brackets in one another


def is_number(kind: DType) -> bool:
    """Is a uniform value of this dtype a Python int or bool?"""
    return not kind.is_float and kind.lanes == 1


def is_window(value: Expr) -> bool:
    """May the array of this value be a view of memory?"""
    while isinstance(value, Reinterpret):
        value = value.a
    return isinstance(value, Load)


@cache
def wrapper(kind: DType) -> Callable[[int], int]:
    """The function that brings a Python integer into the range of an integer dtype."""
    if kind.kind == "bool":
        return bool
    mask, half = (1 << kind.bits) - 1, 1 << (kind.bits - 1)
    if kind.kind == "uint":
        return lambda value: value & mask
    return lambda value: ((value + half) & mask) - half


@dataclass(frozen=True, slots=True)
class Operand:
    """text: a Python expression. shadow: that of its flags, None where it is certainly initialised.

    origin: texts of the site and the address that it was loaded from, for a report.
    """

    text: str
    shadow: str | None = None
    origin: str = ""


class Emitter:
    """A mutable writer of one segment. rules: the writer of each kind of expression. spread: the writer of one that may
    have unknown bits, in compiled code (``unknowns``).

    known: texts of values that have been computed already. collected: the name of a list, inside of a loop whose
    loads or copies are done after it.
    """

    rules: ClassVar[Mapping[type[Expr], Callable[..., Operand]]]
    spread: ClassVar[Callable[..., Operand | None]]

    def __init__(self, program: Compiled, out: PySource) -> None:
        self.program = program
        self.out = out
        self.axes = program.axes
        self.places = program.places
        self.with_shadows = program.with_shadows
        self.unknowns = program.with_shadows and program.raw
        self.may_be_poison = program.may_be_poison
        self.known: dict[Expr, Operand] = {}
        self.collected: str | None = None
        self.stmt: Stmt | None = None
        self.uncounted = False  # has an earlier text of the same code been counted?

    @property
    def at(self) -> Span | None:
        """The kernel's line that is being written."""
        return self.out.at

    def variable(self, name: str) -> str:
        """The Python name of a kernel's variable."""
        return "v_" + name.replace(".", "__")

    def do_collected(self, mask: str) -> None:
        """Emits the loads or copies that were collected."""
        self.out.line(f"if {self.collected}: {self.collected}[0][0]({mask}, {self.collected})")

    def count(self, name: str, mask: str) -> None:
        """Emits the counting of an instruction."""
        if not self.uncounted:
            self.out.line(f"tally[{self.program.add_tally(name)}] += {mask}.warp_count")

    # Values

    def value(self, expr: Expr, mask: str) -> Operand:
        """The value of ``expr`` in the lanes of ``mask``."""
        if self.known and (operand_known := self.known.get(expr)) is not None:
            return operand_known
        operand = None
        if self.unknowns and self.may_be_poison(expr):
            operand = self.spread(expr, mask)
        if operand is None:
            operand = self.rules[type(expr)](self, expr, mask)
        if len(operand.text) > LONGEST:
            return replace(operand, text=self.out.named("v", operand.text))
        return operand

    def sound(self, expr: Expr, mask: str, use: str = "arithmetic") -> str:
        """The text of a value that is used: uninitialised bits in it are an error under checks."""
        operand = self.value(expr, mask)
        if operand.shadow is not None:
            text = self.out.named("v", operand.text)
            of = expr.a if isinstance(expr, Unary) and expr.op == "not" else expr  # which has unknown bits
            need = self.out.constant("N", self.program.hears("use", of, use, self.at))
            if self.unknowns:
                bits_known = f"({operand.shadow} == 0){'.all(-1)' * (expr.dtype.lanes > 1)}{operand.origin}"
                self.out.line(f"if {operand.shadow} is not None: {need}({mask}, {bits_known})")
            else:
                self.out.line(f"{need}({mask}, {operand.shadow}{operand.origin})")
            return text
        return operand.text

    def array(self, expr: Expr, text: str) -> str:
        """``text`` as something with the dtype of ``expr``, even where it is a Python number."""
        if self.axes.of(expr) == UNIFORM and is_number(expr.dtype):
            return f"{self.out.constant('D', expr.dtype.numpy.type)}({text})"
        return text

    def stays_guarded(self, expr: Expr) -> bool:
        """Must this expression not be evaluated in inactive lanes?"""
        return any(isinstance(node, (Load, Call)) or self.is_checked(node) for node in walk(expr))

    def is_checked(self, expr: Expr) -> bool:
        """Does a check examine the operands of this operation?"""
        return self.program.hears("operands", expr) is not None

    def guarded(self, expr: Expr, test: str, mask: str, use: str = "") -> Operand:
        """The value of ``expr`` in the lanes where ``test`` holds; anything of its dtype in the others."""
        inner, name = self.out.fresh("m"), self.out.fresh("v")
        self.out.line(f"{inner} = {mask}.narrowed({test})")
        self.out.line(f"if {inner} is None: {name} = {self._zero(expr)}")
        flags = f"{name}_s" if not use and self.may_be_poison(expr) else None
        if flags:
            self.out.line(f"if {inner} is None: {flags} = {self.valid(expr.dtype)}")
        with self.out.block(f"if {inner} is not None:"):
            if flags:
                operand = self.value(expr, inner)
                self.out.line(f"{name}, {flags} = {operand.text}, {operand.shadow or self.valid(expr.dtype)}")
            else:
                self.out.line(f"{name} = {self.sound(expr, inner, use or 'arithmetic')}")
        return Operand(name, flags)

    def _zero(self, expr: Expr) -> str:
        if self.axes.of(expr) == UNIFORM and is_number(expr.dtype):
            return "False" if expr.dtype.kind == "bool" else "0"
        return self.out.constant("K", np.zeros((), expr.dtype.numpy)[()])

    def unpacked(self, expr: Expr, text: str) -> str:
        """An array whose elements are all the same as the number that uniform values are."""
        if self.axes.of(expr) != UNIFORM:
            return text
        if expr.dtype.lanes > 1:
            return f"{text}.copy()"
        return f"{text}.item(0)" if is_number(expr.dtype) else f"{text}.reshape(-1)[0]"

    def shadow(self, kind: DType, flags: str, mask: str) -> str:
        """The shadow of a value that memory's flags make."""
        if not self.unknowns:
            return self.out.named("s", flags)
        return self.out.named("s", f"{self.out.constant('U', unknown_of(kind))}({flags}, {mask})")

    def flags(self, kind: DType, shadow: str | None) -> str | None:
        """The flags for memory that a shadow stands for; None for no shadow, or without checks of initialisation."""
        if not self.unknowns:
            return shadow if shadow != "None" else None
        return f"{self.out.constant('U', flags_of(kind))}({shadow})" if shadow else None

    def valid(self, kind: DType) -> str:
        """The shadow of an initialised value."""
        if self.unknowns:
            return "None"
        return self.out.constant("V", initialised(width_of(kind))[0, 0, 0])


class PySource:
    """A mutable text of Python functions. `namespace` is what the text is executed in."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.namespace = namespace
        self.lines: list[str] = []
        self.at: Span | None = None  # the kernel's line that is written
        self.spans: list[Span | None] = []  # of each line
        self._indent = 0
        self._names = 0
        self._constants: dict[tuple[str, int], str] = {}

    def line(self, text: str) -> None:
        """One line, at the depth of the open blocks."""
        self.lines.append("    " * self._indent + text)
        self.spans.append(self.at)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A line that ends in a colon, and what stands under it."""
        self.line(head)
        self._indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1

    def indent(self) -> int:
        """The depth, to come back to with `dedent` from however many open blocks."""
        return self._indent

    def open(self, head: str) -> None:
        """A block that stays open until `dedent`."""
        self.line(head)
        self._indent += 1

    def dedent(self, depth: int) -> None:
        """Close all blocks that were opened since `indent` gave ``depth``."""
        self._indent = depth

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet: ``m7``."""
        self._names += 1
        return f"{stem}{self._names}"

    def named(self, stem: str, text: str) -> str:
        """The text's value under a name; a name stays as it is."""
        if text.isidentifier():
            return text
        name = self.fresh(stem)
        self.line(f"{name} = {text}")
        return name

    def constant(self, stem: str, value: object) -> str:
        """A name for a Python object."""
        key = (stem, id(value))
        if key not in self._constants:
            name = f"{stem}_{len(self._constants)}"
            self._constants[key] = name
            self.namespace[name] = value  # kept alive here, so that its id is not reused
        return self._constants[key]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


# Python reads a hundred levels of indentation and compiles twenty loops in one another. Its syntax tree has no limit of
# indentation: deeper lines are parsed on their own and put where they belong. A loop too many becomes a function.

SHALLOW = 16  # levels that any text may have: so many loops in one another compile
AT_ONCE = 60  # levels of indentation that are parsed together
INDENT = 4  # spaces of a level


def compiled(lines: list[str], name: str) -> CodeType:
    """The code of these lines, however deep they are nested; line numbers stay."""
    if all(_depth(line) <= SHALLOW for line in lines):
        return compile("\n".join(lines) + "\n", name, "exec")
    tree = ast.Module(_parsed(lines, 0, 1), type_ignores=[])
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            _LoopsAsFunctions().apply(function)
    return compile(ast.fix_missing_locations(tree), name, "exec")


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // INDENT


def _parsed(lines: list[str], base: int, first: int) -> list[ast.stmt]:
    """The statements of lines from the depth ``base`` on; the number of the first line is ``first``."""
    text: list[str] = []
    deeper: dict[int, list[str]] = {}  # by the number of the line where they start
    start = 0
    for number, line in enumerate(lines, 1):
        if _depth(line) < base + AT_ONCE:
            text.append(line[base * INDENT :])
            start = 0
        else:
            text.append("" if start else " " * AT_ONCE * INDENT + "pass")
            start = start or number
            deeper.setdefault(start, []).append(line)
    tree = ast.parse("\n".join(text) + "\n")
    ast.increment_lineno(tree, first - 1)
    inner = {first - 1 + at: _parsed(block, base + AT_ONCE, first - 1 + at) for at, block in deeper.items()}
    return list(_InPlace(inner).visit(tree).body)


class _InPlace(ast.NodeTransformer):
    """Statements in place of the `pass` that stands in their first line."""

    def __init__(self, blocks: dict[int, list[ast.stmt]]) -> None:
        self.blocks = blocks

    def visit_Pass(self, node: ast.Pass) -> ast.stmt | list[ast.stmt]:
        return self.blocks.get(node.lineno, node)


class _LoopsAsFunctions(ast.NodeTransformer):
    """Each sixteenth loop of a nest as a function of its own that changes the variables of the one around it."""

    def __init__(self) -> None:
        self.loops = 0
        self.made = 0
        self.changed: set[str] = set()

    def apply(self, function: ast.FunctionDef) -> None:
        """Change the function; every variable of the new ones is known to it."""
        self.generic_visit(function)
        names = [ast.Name(name, ast.Store()) for name in sorted(self.changed)]
        function.body[:0] = [ast.Assign([name], ast.Constant(None)) for name in names]

    def loop(self, node: ast.For | ast.While) -> ast.stmt | list[ast.stmt]:
        """The loop, or a function of it and its call."""
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1
        if not self.loops or self.loops % SHALLOW:
            return node
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        self.changed |= names
        self.made += 1
        name = f"nest{self.made}"
        plain = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        body: list[ast.stmt] = [ast.Nonlocal(sorted(names)), node]
        function = ast.FunctionDef(name, plain, body, decorator_list=[], lineno=node.lineno, col_offset=0)
        return [function, ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))]

    visit_For = visit_While = loop
