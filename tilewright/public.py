"""Checks of public functions' arguments: a table from annotations to tests, and a decorator that applies them.

A room has one `Public` with its own words. Arguments are checked where users call, and the code behind relies on it; of
a room that the compiler itself calls all the time (``inside=True``) not in calls from there:

    public = Public(LayoutError, {"Value": Kind("an int or an integer expression", is_value)})

    @public
    def wg_local_layout(cols: int, rows: int = 128) -> TileLayout: ...
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from os import sep
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from tilewright.errors import Span, TilewrightError, choices, described

# Shorter tracebacks: the user's own frames, and the kernel's line at the end; none of tilewright's.
#
# Public functions are an *edge*: an error that leaves them for other code loses the frames inside. Pytest and notebooks
# hide the edge, too. A warning of what goes stands at the user's line, too.


F = TypeVar("F", bound=Callable[..., Any])
OURS = str(Path(__file__).parent)
GENERATED = "<segments of "
INSIDE = tuple(f"{OURS}{sep}{room}{sep}" for room in ("layout", "ir", "tile", "lower", "cuda", "sim", "ptx"))


def at_the_edge(function: F) -> F:
    """Decorator: errors leave the function without the frames behind it, unless its caller is ours."""

    @wraps(function)
    def edge(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            return function(*args, **named)
        except TilewrightError as error:
            raise edge_error(error, sys._getframe(1)) from error.__cause__

    return cast("F", edge)


def edge_error(error: TilewrightError, caller: FrameType) -> TilewrightError:
    """The error as it leaves a public function for its caller."""
    return shortened(error) if from_outside(caller) else error


def from_outside(caller: FrameType) -> bool:
    """Is the caller other code than tilewright's?"""
    return not _is_ours(caller)


def from_inside(caller: FrameType) -> bool:
    """Is the caller in a room of the compiler or the simulator, whose arguments are no user's? The parser's are."""
    return caller.f_code.co_filename.startswith(INSIDE)


def shortened(error: TilewrightError) -> TilewrightError:
    """The error, whose traceback has the frames of users only, and ends with the kernel's line."""
    last = _line_of(error.at) if error.at is not None else None
    if error.__cause__ is not None:  # an error that the user's own code raised
        error.__cause__.__traceback__ = _own(error.__cause__.__traceback__, None)
    else:
        error.__suppress_context__ = True
    return error.with_traceback(_own(error.__traceback__, last))


def _own(traceback: TracebackType | None, last: TracebackType | None) -> TracebackType | None:
    """The frames of users, followed by ``last``."""
    kept = list(_kept(traceback))
    if last is not None and not (kept and (kept[-1][0].f_code.co_filename, kept[-1][1]) == _place(last)):
        kept.append((last.tb_frame, last.tb_lineno, last.tb_lasti))
    shorter: TracebackType | None = None
    for frame, line, instruction in reversed(kept):
        shorter = TracebackType(shorter, frame, instruction, line)
    return shorter


def _kept(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int, int]]:
    while traceback is not None:
        if not _is_ours(traceback.tb_frame) and not _is_torchs(traceback.tb_frame):
            yield traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti
        traceback = traceback.tb_next


def _place(traceback: TracebackType) -> tuple[str, int]:
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((OURS, GENERATED))


def _is_torchs(frame: FrameType) -> bool:
    """Is it between ours, where torch carries out an operator of ours?"""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch"


def _line_of(at: Span) -> TracebackType | None:
    """A frame that stands at a line of a kernel, which Python never runs; None where there is no such line."""
    if not at.excerpt():
        return None
    try:
        exec(_raising(at), {"error": TilewrightError("at a line of a kernel")})
    except TilewrightError as raised:
        return raised.__traceback__.tb_next if raised.__traceback__ is not None else None
    return None


def _raising(at: Span) -> CodeType:
    """``raise error`` at that line, and at its columns."""
    tree = ast.parse("raise error")
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = at.line
            node.col_offset, node.end_col_offset = at.column, max(at.end_column, at.column + 1)
    return compile(tree, at.file, "exec").replace(co_name="kernel")


def deprecated(what: str, *, since: str, gone: str, instead: str) -> None:
    """Warn of the use of something that goes, at the line of the user who calls it.

    what: as users write it, "simulate(..., trace=)"; since, gone: versions; instead: what to write. The warning is a
    DeprecationWarning, which Python shows in a user's own program and pytest in its tests.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     deprecated("simulate(trace=)", since="0.2", gone="0.3", instead="simulate(record=)")
    >>> print(told[0].message)
    simulate(trace=) is deprecated since tilewright 0.2 and goes with 0.3: write simulate(record=)
    """
    level, caller = 2, sys._getframe(1)
    while not from_outside(caller) and caller.f_back is not None:
        level, caller = level + 1, caller.f_back
    text = f"{what} is deprecated since tilewright {since} and goes with {gone}: write {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


C = TypeVar("C", bound=type)


MISFIT = object()  # the answer for a value that a kind does not take


@dataclass(frozen=True, slots=True)
class Kind:
    """The test for an annotation. allowed: its meaning in words, for errors. plain: what a value is taken as."""

    allowed: str
    fits: Callable[[Any], bool]  # `Any`: the test finds out what it is
    plain: Callable[[Any], Any] = lambda value: value

    def taken(self, value: Any) -> Any:
        """The value as the function gets it, `MISFIT` where it is none of this kind."""
        if self.fits(value):
            return value
        plain = self.plain(value)
        return plain if plain is not value and self.fits(plain) else MISFIT


def plain_number(value: Any) -> Any:
    """NumPy's integers as Python's, which do not wrap, alone and in tuples and lists; all else as it is."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(plain_number, value))
    return value


def instances(allowed: str, *types: type) -> Kind:
    """The instances of these types."""
    return Kind(allowed, lambda value: isinstance(value, types))


ANYTHING = Kind("any value", lambda value: True)

GENERAL = {
    "": ANYTHING,
    "object": ANYTHING,
    "Any": ANYTHING,
    "None": Kind("None", lambda value: value is None),
    "int": Kind("an int", lambda value: isinstance(value, int), plain_number),
    "float": instances("a number", int, float, np.integer, np.floating),
    "bool": instances("True or False", bool, np.bool_),
    "str": instances("a string", str),
}


class Public:
    """The decorator of a room: ``kinds`` by annotation, or by ``parameter: annotation`` where a parameter is special.

    Unions, ``Sequence[...]``, ``Iterable[...]`` and ``Mapping[...]`` of these are understood.
    """

    def __init__(self, error: type[TilewrightError], kinds: Mapping[str, Kind], *, inside: bool = False) -> None:
        self._error = error
        self._kinds = {**GENERAL, **kinds}
        self._inside = inside

    def __call__(self, function: F) -> F:
        """The function, its arguments checked by annotation, and their names. How many there are is for Python."""
        plan: list[Parameters] = []  # made at the first call: an import costs nothing
        inside = self._inside  # torch.compile goes through public kernels, and cannot ask who calls

        @wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            if inside and from_inside(sys._getframe(1)):
                return function(*args, **named)
            if not plan:
                plan.append(self._parameters(function))
            parameters = plan[0]
            try:
                if not parameters.fit(args, named):
                    args, named = self._taken(function, parameters, args, named)
                return function(*args, **named)
            except TilewrightError as error:
                raise edge_error(error, sys._getframe(1)) from error.__cause__

        return cast("F", checked)

    def names(self, function: F) -> F:
        """The function, the names of its arguments checked alone."""
        plan: list[Parameters] = []

        @wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            try:
                if named:
                    plan[:] = plan or [self._parameters(function)]
                    parameters = plan[0]
                    if not parameters.others and not named.keys() <= parameters.named.keys():
                        odd = next(name for name in named if name not in parameters.named)
                        raise self._unknown(function, args, odd, parameters)
                return function(*args, **named)
            except TilewrightError as error:
                raise edge_error(error, sys._getframe(1)) from error.__cause__

        return cast("F", checked)

    def learn(self, annotation: str, kind: Kind) -> None:
        """One more row of the table."""
        self._kinds[annotation] = kind

    def kind_of(self, allowed: str) -> Callable[[C], C]:
        """A class whose name is an annotation: its instances fit, ``allowed`` in words."""

        def known(cls: C) -> C:
            self._kinds[cls.__name__] = instances(allowed, cls)
            return cls

        return known

    def constructor(self, cls: C) -> C:
        """A class whose constructor is checked."""
        cls.__init__ = self(cls.__init__)  # type: ignore[misc]  # dataclasses make theirs the same way
        return cls

    def fields(self, cls: C) -> C:
        """A class of whose constructor the names of the arguments are checked: one that is called often."""
        cls.__init__ = self.names(cls.__init__)  # type: ignore[misc]  # likewise
        return cls

    def methods(self, cls: C) -> C:
        """A class whose public methods are checked."""
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(member, FunctionType):
                setattr(cls, name, self(member))
            elif isinstance(member, classmethod | staticmethod):
                setattr(cls, name, type(member)(self(member.__func__)))
        return cls

    def kind(self, annotation: str, name: str = "") -> Kind:
        """What an annotation, a string of source, stands for; anything at all, where the table lacks it."""
        row = self._kinds.get(f"{name}: {annotation}") or self._kinds.get(annotation)
        if row is not None:
            return row
        parts = list(_alternatives(annotation))
        if len(parts) > 1:
            kinds = [self.kind(part) for part in parts]
            return Kind(
                " or ".join(kind.allowed for kind in kinds), _any_of([kind.fits for kind in kinds]), _first_of(kinds)
            )
        outer, _, inner = annotation.removesuffix("]").partition("[")
        generic = GENERIC.get(outer)
        if generic is None:
            return ANYTHING  # tests/house checks that every annotation is known
        return generic(
            self.kind(inner.removesuffix(", ...")) if outer in ("Sequence", "Iterable", "tuple") else ANYTHING
        )

    def knows(self, annotation: str, name: str) -> bool:
        """Is there a row for the annotation, or for each of its parts?"""
        annotation = _text(annotation)
        special = (f"{stars}{name}: {annotation}" for stars in ("", "*", "**"))
        if annotation in self._kinds or any(row in self._kinds for row in special):
            return True
        parts = list(_alternatives(annotation))
        if len(parts) > 1:
            return all(self.knows(part, "") for part in parts)
        return annotation.partition("[")[0] in GENERIC

    def _parameters(self, function: Callable[..., Any]) -> Parameters:
        plain = inspect.unwrap(function)  # of functools.cache
        code, written = plain.__code__, plain.__annotations__
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:count]
        kinds = {name: self.kind(_text(written.get(name, "")), name) for name in names}
        positional = tuple((name, kinds[name]) for name in names[: code.co_argcount])
        starred = list(code.co_varnames[count:])
        rest = starred.pop(0) if code.co_flags & inspect.CO_VARARGS else None
        others = starred[0] if code.co_flags & inspect.CO_VARKEYWORDS else None
        return Parameters(
            positional,
            tuple(None if kind is ANYTHING else kind.fits for _, kind in positional),
            (rest, self.kind(_text(written.get(rest, "")), f"*{rest}")) if rest else None,
            kinds,
            self.kind(_text(written.get(others, "")), f"**{others}") if others else None,
        )

    def _taken(
        self, function: Callable[..., Any], parameters: Parameters, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the function gets them. Raises the room's error for the first that is not of its kind."""

        def taken(name: str, kind: Kind, value: Any) -> Any:
            taken_value = kind.taken(value)
            if taken_value is MISFIT:
                raise self._refused(function, args, name, kind, value)
            return taken_value

        expected = parameters.of(args)
        placed = [taken(name, kind, value) for (name, kind), value in zip(expected, args, strict=False)]
        others = {}
        for name, value in named.items():
            kind = parameters.named.get(name) or parameters.others
            if kind is None:
                raise self._unknown(function, args, name, parameters)
            others[name] = taken(name, kind, value)
        return (*placed, *args[len(placed) :]), others

    def _refused(
        self, function: Callable[..., Any], args: tuple[Any, ...], name: str, kind: Kind, value: object
    ) -> TilewrightError:
        label = _label(function, args)
        return self._error(f"{label} does not take this {name}", given=described(value), allowed=kind.allowed)

    def _unknown(
        self, function: Callable[..., Any], args: tuple[Any, ...], name: str, parameters: Parameters
    ) -> TilewrightError:
        names = [parameter for parameter in parameters.named if parameter not in ("self", "cls")]
        label = _label(function, args)
        return self._error(f"{label} has no parameter {name!r}", given=name, allowed=choices(name, names) or "none")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The kinds of a function's parameters: positional ones in order, what ``*rest`` takes, by name, ``**others``, None
    where no other name is taken.

    tests: of the positional ones, None for those that take anything.
    """

    positional: tuple[tuple[str, Kind], ...]
    tests: tuple[Callable[[Any], bool] | None, ...]
    rest: tuple[str, Kind] | None
    named: Mapping[str, Kind]
    others: Kind | None

    def fit(self, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Do all arguments fit as they are? A call on a short way."""
        if self.rest is not None:
            return False
        for fits, value in zip(self.tests, args, strict=False):
            if fits is not None and not fits(value):
                return False
        for name, value in named.items():
            kind = self.named.get(name)
            if kind is None or not kind.fits(value):
                return False
        return True

    def of(self, args: tuple[Any, ...]) -> Sequence[tuple[str, Kind]]:
        """A kind for each positional argument, as far as there are parameters."""
        beyond = len(args) - len(self.positional)
        return (*self.positional, *[self.rest] * beyond) if self.rest and beyond > 0 else self.positional


def _label(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that are only given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def _text(annotation: object) -> str:
    """The annotation, in which ``ir.Value`` is ``Value``."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\bir\.", "", text)


def _alternatives(annotation: str) -> Iterator[str]:
    """The members of a union: ``A[B | C] | D`` has two."""
    depth, start = 0, 0
    for place, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            yield annotation[start:place].strip()
            start = place + 1
    yield annotation[start:].strip()


def _any_of(tests: list[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: any(test(value) for test in tests)


def _first_of(kinds: list[Kind]) -> Callable[[Any], Any]:
    """What the first kind that takes a value makes of it."""
    return lambda value: next((taken for kind in kinds if (taken := kind.taken(value)) is not MISFIT), value)


def sequence_of(of: Kind) -> Kind:
    """Tuples, lists and ranges of what fits ``of``."""

    def plain(value: Any) -> Any:
        return type(value)(map(of.plain, value)) if type(value) in (tuple, list) else value

    def fits(value: Any) -> bool:
        return isinstance(value, tuple | list | range) and all(map(of.fits, value))

    return Kind(f"a tuple or list, each entry {of.allowed}", fits, plain)


def _iterable(of: Kind) -> Kind:
    """A generator fits without a look at its items, which would use it up."""

    def fits(value: Any) -> bool:
        if isinstance(value, tuple | list):
            return all(map(of.fits, value))
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | np.ndarray)

    return Kind(f"a tuple or list, each entry {of.allowed}", fits)


GENERIC: Mapping[str, Callable[[Kind], Kind]] = {
    "Sequence": sequence_of,
    "tuple": lambda of: Kind(
        f"a tuple, each entry {of.allowed}", lambda v: isinstance(v, tuple) and all(map(of.fits, v)), plain_number
    ),
    "Iterable": _iterable,
    "Mapping": lambda of: instances("a mapping", Mapping),
    "Callable": lambda of: Kind("a function", callable),
}
