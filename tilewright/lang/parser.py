"""The parser of kernels: it walks the syntax tree of a function, evaluates what Python knows, and builds IR from the
rest.

Before it stand what may be computed while a kernel is parsed, a function's text and syntax tree, and what its names
mean. Each kind of syntax node has a handler in one of two tables, filled by `expressions`, `statements` and
`assignments`. An expression's handler returns a Python value: an IR expression, a buffer, or anything else that Python
code may hold while it runs.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeVar

from tilewright.dtypes import VOID
from tilewright.errors import KernelError, Span, TilewrightError, choices
from tilewright.ir import Expr
from tilewright.lang.builder import KernelBuilder
from tilewright.lang.instructions import hint_for_python, hint_for_undefined
from tilewright.lang.moments import OpenBlock
from tilewright.layout.axes import AXES

# What a kernel computes while it is parsed: numbers and sequences that fit a machine, in so many steps.


MOST_BITS = 4096  # of a Python integer; those of a kernel have 64
MOST_ENTRIES = 1 << 20  # of a sequence that an operator repeats
MOST_STEPS = 1 << 20  # statements and rounds of comprehensions


BINARY: Mapping[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def _product(left: object, right: object) -> tuple[int, int]:
    """Bits and entries of ``left * right``."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, tuple, list)) and isinstance(times, int):
            return 0, len(sequence) * max(times, 0)
    return _bits(left) + _bits(right), 0


def _power(left: object, right: object) -> tuple[int, int]:
    if not isinstance(left, int) or not isinstance(right, int) or abs(left) < 2:
        return 0, 0
    return (left.bit_length() - 1) * max(right, 0), 0


def _shifted(left: object, right: object) -> tuple[int, int]:
    return (_bits(left) + right, 0) if isinstance(right, int) and isinstance(left, int) and left else (0, 0)


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


GROWING: Mapping[type[ast.operator], Callable[[object, object], tuple[int, int]]] = {
    ast.Mult: _product,
    ast.Pow: _power,
    ast.LShift: _shifted,
}


def computed(op: ast.operator, left: object, right: object) -> object:
    """``left op right``. Raises KernelError for a number or a sequence that no kernel has a use for."""
    size = GROWING.get(type(op))
    bits, entries = size(left, right) if size is not None else (0, 0)
    if bits > MOST_BITS:
        amount, allowed = f"more than {bits:,} bits", "constants of a kernel have at most 64"
        raise KernelError("a number grows out of bounds", given=amount, allowed=allowed)
    if entries > MOST_ENTRIES:
        amount, allowed = f"{entries:,} entries", f"{MOST_ENTRIES:,} entries"
        raise KernelError("a sequence grows out of bounds", given=amount, allowed=allowed)
    return BINARY[type(op)](left, right)


def too_many_steps() -> KernelError:
    """The error for a kernel whose parse takes more than `MOST_STEPS`."""
    return KernelError(
        "the kernel takes too many steps to parse",
        given=f"more than {MOST_STEPS:,} statements and rounds of comprehensions",
        allowed=f"{MOST_STEPS:,}",
        hint="range(...), which loops at run time",
    )


# The text of a kernel: from a Python function to its syntax tree, with the places of nodes in the user's own file.
#
# Only the lines of the function itself are parsed, never the whole file, and equal text is parsed once.


_END_OF_LINE = 1 << 16  # a span that goes on to the next line is shown to the end of its first


@dataclass(frozen=True, slots=True)
class Source:
    """A function's syntax tree. ``offset`` turns the tree's line numbers into those of ``file``."""

    file: str
    offset: int
    function: ast.FunctionDef

    def span(self, node: ast.AST) -> Span:
        """The place of a node; of a call, the name that is called."""
        if isinstance(node, ast.Expr):
            node = node.value
        if isinstance(node, ast.Call):
            node = node.func
            if isinstance(node, ast.Attribute):
                end = node.end_col_offset or 0
                return Span(self.file, (node.end_lineno or node.lineno) + self.offset, end - len(node.attr), end)
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        same_line = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", column) if same_line else _END_OF_LINE
        return Span(self.file, line + self.offset, column, end)


def read(function: object) -> Source:
    """The source of a Python function.

    Raises KernelError where the function has no text that can be read, or is no plain ``def``.
    """
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise KernelError(
            "a kernel is a Python function",
            given=f"{function!r}",
            allowed="`def` with @T.prim_func, @T.jit or @T.inline",
        )
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno - 1
    if first >= len(lines):
        raise KernelError(
            f"the source of {function.__name__} cannot be read",
            given=code.co_filename,
            allowed="a function in a file or a notebook cell",
            hint="write the kernel to a .py file and import it, or use tilewright.lang.parse_script(text)",
        )
    indented = lines[first][:1].isspace()
    for text in _candidates(lines, first):
        tree = _parsed(text, indented)
        if tree is not None and tree.name == function.__name__:
            return Source(code.co_filename, first - indented, tree)
    raise KernelError(
        f"the source of {function.__name__} is not where it was",
        given=f"{code.co_filename}, line {first + 1}",
        hint="the file changed after it was imported: import it again",
    )


def _candidates(lines: list[str], first: int) -> Iterator[str]:
    """Texts from line ``first`` to each line that could be the one after the function, the shortest first.

    A line that is indented no deeper than ``def`` ends the function, unless it is inside brackets or a string: then the
    text before it does not parse, and the next candidate is tried.
    """
    indent = _indent(lines[first])
    inside = False
    for number in range(first, len(lines)):
        line = lines[number]
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or _indent(line) > indent:
            continue
        if inside:
            yield "".join(lines[first:number])
        inside = inside or stripped.startswith(("def ", "async def "))
    yield "".join(lines[first:])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@lru_cache(maxsize=256)
def _parsed(text: str, indented: bool) -> ast.FunctionDef | None:
    """The function that ``text`` defines, or None. Indented text goes under an ``if``, so that columns stay right."""
    try:
        body: list[ast.stmt] = ast.parse(f"if 1:\n{text}" if indented else text).body
    except SyntaxError:
        return None
    first = body[0].body[0] if indented and isinstance(body[0], ast.If) else body[0]
    return first if isinstance(first, ast.FunctionDef) else None


def read_text(text: str) -> Source:
    """The source of the one function in a script's text, under a file name of its own that `linecache` knows.

    Raises KernelError where the text is not Python, or has no function.
    """
    file = f"<script {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        at = Span(file, error.lineno or 1, max(0, (error.offset or 1) - 1), error.end_offset or _END_OF_LINE)
        raise KernelError(f"the script is not Python: {error.msg}", at=at) from None
    for node in body:
        if isinstance(node, ast.FunctionDef):
            return Source(file, 0, node)
    raise KernelError("the script has no function", allowed="one function with @T.prim_func", at=Span(file, 1))


# What names mean while a kernel is parsed: its own definitions, block by block, then those of the Python around it.


Outer = Callable[[str], object]
"""Finds a name of the Python around a kernel; raises KeyError."""


@dataclass(frozen=True, slots=True)
class NameEntry:
    """What a name stands for. kind says what an assignment to it means:

    scalar (a variable: assign), place (an element of memory: store), and those that stay as they are: let, loop, scope,
    parameter, buffer, python.
    """

    value: object
    kind: str


@dataclass(slots=True)
class Environment:
    """Names by block, innermost last; mutable. ``ended`` remembers where names of finished blocks were defined."""

    outer: Outer
    frames: list[dict[str, NameEntry]] = field(default_factory=lambda: [{}])
    ended: dict[str, int] = field(default_factory=dict)

    def define(self, name: str, value: object, kind: str) -> None:
        self.frames[-1][name] = NameEntry(value, kind)

    def find(self, name: str) -> NameEntry | None:
        """The kernel's own definition of a name, the innermost one."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return None

    def is_outside(self, name: str) -> bool:
        """Is the name defined by the kernel, but in a block around the current one?"""
        return name not in self.frames[-1] and any(name in frame for frame in self.frames)

    def leave(self, line: int) -> None:
        """Forget the innermost block, which began at ``line``."""
        self.ended.update(dict.fromkeys(self.frames.pop(), line))

    def lookup(self, name: str) -> object:
        """The value of a name. Raises KernelError with the nearest one where there is none."""
        entry = self.find(name)
        if entry is not None:
            return entry.value
        try:
            return self.outer(name)
        except KeyError:
            pass
        names = [names for frame in self.frames for names in frame]
        if name in self.ended:
            hint = f"it was defined in a block that has ended (line {self.ended[name]}): define it before that block"
            raise KernelError(f"{name} is not defined here", hint=hint)
        from difflib import get_close_matches  # slow to import, and only errors need it

        axis = next(iter(get_close_matches(name, AXES, n=1, cutoff=0.8)), None)
        raise KernelError(
            f"{name} is not defined",
            given=name,
            allowed=choices(name, names) if names else None,
            hint=hint_for_undefined(name, axis),
        )


def around(function: FunctionType, frame: Mapping[str, object]) -> Outer:
    """The names that ``function`` sees: its closure, its globals, the locals of the frame that defines it, builtins.

    The frame is for names that only annotations mention: Python puts those into no closure, and finds them there before
    it looks into the globals.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    in_body = (function.__globals__, frame, vars(builtins))
    in_annotations = (frame, function.__globals__, vars(builtins))

    def find(name: str) -> object:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:  # a closure cell that is still empty
                raise KeyError(name) from None
        for space in in_body if name in function.__code__.co_names else in_annotations:
            if name in space:
                return space[name]
        raise KeyError(name)

    return find


# The parser, and the tables of its handlers.


EXPRESSIONS: dict[type[ast.AST], Callable[[Parser, ast.expr], object]] = {}
STATEMENTS: dict[type[ast.AST], Callable[[Parser, ast.stmt], None]] = {}
_ALLOWED_STATEMENTS = "assignments, for, while, if, break, continue, pass, assert, calls, @T.inline functions"
_ALLOWED_EXPRESSIONS = (
    "operators, comparisons, `a if c else b`, calls, indices, tuples, lists, dicts, comprehensions, lambda"
)

_DEEPEST = 64

Handler = TypeVar("Handler", bound="Callable[..., object]")


def _handlers(table: dict[type[ast.AST], Any]) -> Callable[..., Callable[[Handler], Handler]]:
    """The decorator that registers the handler of some kinds of nodes in a table."""

    def of(*kinds: type[ast.AST]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            table.update(dict.fromkeys(kinds, handler))
            return handler

        return register

    return of


expression, statement = _handlers(EXPRESSIONS), _handlers(STATEMENTS)


class Return(BaseException):
    """``return`` on its way to the function that it ends; never leaves this room."""

    def __init__(self, value: object) -> None:
        self.value = value


class LoopSignal(BaseException):
    """``break`` (``ends``) or ``continue`` on its way to a loop that is gone through while parsing."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends


class Parser:
    """One kernel being parsed; mutable. source and env change while an inline function is parsed at its call."""

    def __init__(self, source: Source, env: Environment, *, stage: str = "tile", exact: bool = False) -> None:
        self.source = source
        self.env = env
        self.builder = KernelBuilder(self, stage, exact=exact)
        self.loops: list[tuple[str, int]] = []  # of each loop at work: its kind, and the depth of its body
        self.keeps_meta: ast.expr | None = None  # the call whose T.meta_var an assignment wants to see
        self.calls: list[int] = [1]  # the depth of each function at work
        self.steps = 0

    def eval(self, node: ast.expr, *, may_be_void: bool = False) -> object:
        """The value of an expression; an error gets the place of the innermost expression that caused it.

        may_be_void: its statement does without a value.
        """
        try:
            value = EXPRESSIONS.get(type(node), _refuse_expression)(self, node)
        except TilewrightError as error:
            error.located(self.source.span(node))
            raise
        except Exception as error:  # raised by the user's own Python code, or by an operator on its values
            raise self.failed(node, error) from error
        if not may_be_void and isinstance(value, Expr) and value.dtype is VOID:
            raise KernelError(
                f"`{ast.unparse(node)}` has no value",
                given="a call without a result",
                allowed="a statement of its own",
                at=self.source.span(node),
            )
        return value

    def failed(self, node: ast.AST, error: Exception) -> KernelError:
        """The error for an exception of Python's own, with what raised it."""
        text = ast.unparse(node).partition("\n")[0]
        hint = hint_for_python(node) if isinstance(error, TypeError | ValueError) else None
        return KernelError(f"`{text}` fails: {error}", given=type(error).__name__, hint=hint, at=self.source.span(node))

    def step(self) -> None:
        """One more statement or round. Raises KernelError beyond `MOST_STEPS`."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise too_many_steps()

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Parse statements into the current block."""
        builder = self.builder
        for node in body:
            builder.at = self.source.span(node)
            builder.hints = ()
            builder.fresh.clear()
            try:
                self.step()
                STATEMENTS.get(type(node), _refuse_statement)(self, node)
            except TilewrightError as error:
                error.located(self.source.span(node))
                raise
            except Exception as error:  # a Python value that does not do what the statement asks of it
                raise self.failed(node, error) from error

    @contextmanager
    def block(self, start: ast.AST) -> Iterator[OpenBlock]:
        """A block of run-time control flow: statements of its own, and names that end with it."""
        with self.frame(start), self.builder.block() as block:
            yield block

    @contextmanager
    def frame(self, start: ast.AST) -> Iterator[None]:
        """A frame of names."""
        env = self.env
        env.frames.append({})
        try:
            yield
        finally:
            env.leave(getattr(start, "lineno", 0) + self.source.offset)

    @contextmanager
    def loop(self, kind: str) -> Iterator[None]:
        """While the body of a loop is parsed. kind: run, grid (one of several at once) or python."""
        self.loops.append((kind, self.builder.depth))
        try:
            yield
        finally:
            self.loops.pop()

    @contextmanager
    def inside(self, source: Source, env: Environment) -> Iterator[None]:
        """While the text of another function is parsed into this kernel."""
        builder = self.builder
        if len(self.calls) > _DEEPEST:
            raise KernelError("inline functions call each other without end", given=f"{_DEEPEST} calls deep")
        saved = self.source, self.env, self.loops, builder.at, builder.hints, builder.fresh
        self.source, self.env, self.loops, builder.fresh = source, env, [], set()
        self.calls.append(builder.depth)
        try:
            yield
        finally:
            self.calls.pop()
            fresh = builder.fresh
            self.source, self.env, self.loops, builder.at, builder.hints, builder.fresh = saved
            builder.fresh |= fresh

    def function(self, body: Sequence[ast.stmt]) -> object:
        """Parse the body of a function; what it returns."""
        try:
            self.run(body)
        except Return as result:
            return result.value
        return None


def _refuse_expression(parser: Parser, node: ast.expr) -> object:
    raise KernelError(
        f"a kernel has no {_words(node)} expression",
        given=ast.unparse(node),
        allowed=_ALLOWED_EXPRESSIONS,
        hint=f"{ast.unparse(node.target)} = {ast.unparse(node.value)} as a statement of its own"
        if isinstance(node, ast.NamedExpr)
        else None,
    )


def _refuse_statement(parser: Parser, node: ast.stmt) -> None:
    raise KernelError(
        f"a kernel has no `{_words(node)}` statement",
        given=ast.unparse(node).splitlines()[0],
        allowed=_ALLOWED_STATEMENTS,
    )


def _words(node: ast.AST) -> str:
    """What Python calls a node: ``With`` is "with", ``NamedExpr`` is "named"."""
    return type(node).__name__.removesuffix("Expr").lower()
