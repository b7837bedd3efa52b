"""What a tile primitive is: a NumPy function whose signature is the primitive's, with rules for its operands.

The parameters with a role are the operands; the others are the keywords, each with its type and its default. Those
before ``*`` may be given by position. The body is the meaning, and the first line of the docstring tells users. ``Tx``,
the dispatcher, the reference page and the tests read the same row.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, get_args, get_origin

from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.layout.axes import Facts, Value

if TYPE_CHECKING:
    from tilewright.primitives.elementwise import Formula

__all__ = [
    "COMMON", "PRIMITIVES", "WITHIN_A_CTA", "Clipped", "In", "InOut", "Keyword", "Mismatch", "Out", "Primitive", "Role",
    "Scalar", "Seen", "TileOperand", "operand_names", "primitive",
]  # fmt: skip

# What the keywords of tile calls mean: the words of their declarations, and of those that several share.


SHARED = {
    "dispatch": "the name of the variant that is to take the call; an error says why it does not",
    "workspace": "a dict of buffers; the first in shared memory is the scratch memory of a call that needs some; "
    "left out, the compiler finds it",
    "vec_len": "elements of one access; the widest that fits, if left out",
    "rounding_mode": "to nearest, to zero, down or up: rn, rz, rm, rp; of float32 alone",
    "nan": '"propagate" gives NaN where a side is NaN, "number" the other side',
    "overflow": '"saturate" gives floats of 8, 6 and 4 bits their largest value, where the others have NaN or infinity',
    "approximate": '"tanh" is the formula with tanh, "none" the one with erf',
    "formula": "the text of an expression over the sources, which are a, b, c, ... in their order",
    "cache_hint": "how long the L2 cache is to keep what is moved",
}
"""Of keywords that their declarations do not describe."""

_ENTRY = re.compile(r"(?:^|(?<=\. ))((?:\w+(?:, | and ))*\w+): ")


def described_in(text: str) -> dict[str, str]:
    """The keywords that a docstring describes, as in "clip: regions may leave. fill, oob: what is outside."."""
    parts = _ENTRY.split(" ".join(text.split()))[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: said.strip().removesuffix(".") for names, said in pairs for name in re.split(", | and ", names)}


WITHIN_A_CTA = ("thread", "warp", "warpgroup", "cta")
"""The scopes whose threads share memory; those of most primitives."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a call does with an operand. tile: the operand is a region, else a value; value: it may be either. clipped:
    the region may leave its buffer, and nothing outside is read or written; if_asked: the same, in calls with one of
    these keywords. absent: a call that leaves it out has nothing in its place. unread: only its extents are looked at.
    """

    name: str
    written: bool = False
    tile: bool = True
    clipped: bool = False
    value: bool = False
    if_asked: tuple[str, ...] = ()
    absent: bool = False
    unread: bool = False

    def may_leave(self, keywords: Mapping[str, object]) -> bool:
        """May the region of a call with these keywords leave its buffer?"""
        return self.clipped or self.is_asked(keywords)

    def is_asked(self, keywords: Mapping[str, object]) -> bool:
        """Do the keywords of a call say that the region leaves its buffer?"""
        asked = (keywords.get(key) for key in self.if_asked)
        return any(value is not None and value is not False for value in asked)  # fill=0 asks, too

    def admits(self, *, tile: bool) -> bool:
        """May the operand be a tile, or a value?"""
        return self.value or self.tile is tile

    @property
    def asking(self) -> str | None:
        """The keyword with which a region may leave its buffer, in words for an error; None where there is none."""
        if not self.if_asked:
            return None
        return (
            "clip=True, and only what is inside is stored" if self.written else "fill=0, the value of what is outside"
        )


Array: TypeAlias = NDArray[Any]
Out = Annotated[Array, Role("out", written=True)]
In = Annotated[Array, Role("in")]
InOut = Annotated[Array, Role("in-out", written=True)]
Clipped = Annotated[Array, Role("out, clipped", written=True, clipped=True)]
Seen = Annotated[Array, Role("in, clipped", clipped=True)]
Unread = Annotated[Array | None, Role("as large", unread=True)]
Scalar = Annotated[Any, Role("scalar", tile=False)]
Factor = Annotated[Any, Role("scalar of any type", tile=False, value=True)]

Shape: TypeAlias = tuple[Value, ...]


class Tile(Protocol):
    """What a rule may ask of a region."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def space(self) -> str: ...
    @property
    def extents(self) -> Shape: ...


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why operands do not go together, as the fields of an error."""

    what: str
    given: str
    allowed: str
    hint: str | None = None


Tiles = Mapping[str, Tile]
Keywords = Mapping[str, object]
Shapes: TypeAlias = "Mapping[str, Shape] | Mismatch"
ElementRule = Callable[[Tiles, Keywords], "Mismatch | None"]
ShapeRule = Callable[[Tiles, Facts, Keywords], Shapes]
"""The shapes of the tiles by name, with numbers where another operand knows them. The last argument: the keywords."""


@dataclass(frozen=True, slots=True)
class TileOperand:
    """A parameter of a primitive that is no keyword. default: the number in its place if a call leaves it out. A tile
    without a default is then `dst`, or missing altogether if ``absent``.
    """

    name: str
    role: Role
    optional: bool = False
    default: float | None = None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Keyword:
    """A setting that variants read. type: its annotation; rule: a further check of its value, and ``words`` say what
    passes. described: what it does, if the docstring of its primitive says so.
    """

    name: str
    type: object
    default: object
    rule: Callable[[object], bool] | None = None
    words: str = ""
    described: str = ""

    @property
    def meaning(self) -> str:
        """What it does, in words: as its declaration has it, else as it is for all."""
        return self.described or SHARED.get(self.name, "")

    @property
    def kinds(self) -> tuple[object, ...]:
        """The types, or for a Literal the values, that it may have, without None."""
        listed = get_args(self.type) or (self.type,)
        return tuple(kind for kind in listed if kind is not NoneType)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if self.words:
            return f"{self.name}= {self.words}"
        if get_origin(self.type) is Literal:
            return f"{self.name}= {', '.join(map(repr, self.kinds))}"
        return f"{self.name}= {' or '.join(f'of type {kind.__name__}' for kind in self.kinds)}"  # type: ignore[attr-defined]  # all types

    def admits(self, value: object) -> bool:
        """May it be that value?"""
        if self.rule is not None:
            return self.rule(value)
        if get_origin(self.type) is Literal:
            return value in self.kinds
        types = tuple(get_origin(kind) or kind for kind in self.kinds)
        if isinstance(value, bool):
            return bool in types or object in types
        return object in types or isinstance(value, types)  # type: ignore[arg-type]  # all types


@dataclass(frozen=True, slots=True)
class Primitive:
    """A tile primitive. meaning: a function on NumPy arrays, which changes those that are written. shapes, elements:
    what the tiles must have in common. formula: of a primitive that computes each element by itself, how. unread:
    tiles that a call may name, of the extents of the first operand, and that nothing reads.
    """

    name: str
    doc: str
    operands: tuple[TileOperand, ...]
    keywords: tuple[Keyword, ...]
    scopes: tuple[str, ...]
    meaning: Callable[..., None]
    shapes: ShapeRule | None = None
    elements: ElementRule | None = None
    formula: Formula | None = None
    by_position: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of what may be given by position: the operands, and keywords that stand among them."""
        return self.by_position or tuple(operand.name for operand in self.operands)

    @property
    def tiles(self) -> tuple[TileOperand, ...]:
        """The operands that are regions."""
        return tuple(operand for operand in self.operands if operand.role.tile)

    @property
    def by_element(self) -> bool:
        """Does it compute each place of its tiles, aligned at the right, by itself? Then places may be left out."""
        return self.formula is not None or len(self.tiles) == 1

    @property
    def required(self) -> int:
        """The number of operands that every call has."""
        return sum(not operand.optional for operand in self.operands)

    @property
    def help(self) -> str:
        """What `help` shows below the signature."""
        keywords = (f"{keyword.name}: {keyword.meaning}." for keyword in (DISPATCH, *self.keywords, *COMMON))
        return "\n".join([self.doc, "", *keywords])

    def keyword(self, name: str) -> Keyword | None:
        """The keyword with this name."""
        return next((keyword for keyword in (*COMMON, *self.keywords) if keyword.name == name), None)

    @property
    def signature(self) -> inspect.Signature:
        """The signature with which a kernel calls it."""
        plain, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = {
            row.name: inspect.Parameter(
                row.name,
                plain,
                default=(row.default if self.by_position else None) if row.optional else inspect.Parameter.empty,
                annotation="Tile" if not row.role.admits(tile=False) else "Value",
            )
            for row in self.operands
        }
        for name in self.unread:
            parameters[name] = inspect.Parameter(name, plain, default=None, annotation="Tile")
        for row in (DISPATCH, *self.keywords, *COMMON):
            how = plain if row.name in self.positional else named
            parameters[row.name] = inspect.Parameter(row.name, how, default=row.default, annotation=row.type)
        ordered = [parameters.pop(name) for name in self.positional]
        return inspect.Signature([*ordered, *parameters.values()], return_annotation=None)


PRIMITIVES: dict[str, Primitive] = {}

DISPATCH = Keyword("dispatch", str | None, None)


def _are_buffers(value: object) -> bool:
    """Is it a dict of buffers, as a call keeps it: pairs of a name and an address?"""
    pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return pairs and all(hasattr(address, "buffer") for _, address in value)  # type: ignore[attr-defined]  # a tuple


COMMON = (Keyword("workspace", object, None, _are_buffers, 'a dict of buffers: {"scratch": buffer}'),)
"""Keywords that every call may have. `Builder.scratch` takes from ``workspace`` what a variant needs."""


def primitive(
    *, scopes: tuple[str, ...] = WITHIN_A_CTA, shapes: ShapeRule | None = None, elements: ElementRule | None = None
) -> Callable[[Callable[..., None]], Primitive]:
    """Decorator: the function is the meaning of a primitive with its name, its parameters and its first line."""

    def register(meaning: Callable[..., None]) -> Primitive:
        hints = inspect.get_annotations(meaning, eval_str=True)
        operands, keywords, by_position, unread = [], [], [], []
        doc, _, rest = (inspect.getdoc(meaning) or "").partition("\n\n")
        said = described_in(rest)
        for param in inspect.signature(meaning).parameters.values():
            role = next((part for part in get_args(hints[param.name]) if isinstance(part, Role)), None)
            if param.kind is not inspect.Parameter.KEYWORD_ONLY:
                by_position.append(param.name)
            if role is not None and role.unread:
                unread.append(param.name)
            elif role is None:
                described = said.get(param.name, "")
                keywords.append(Keyword(param.name, hints[param.name], param.default, described=described))
            else:
                optional = param.default is not inspect.Parameter.empty
                default = param.default if optional else None
                operands.append(TileOperand(param.name, role, optional, default, role.absent))
        row = Primitive(
            meaning.__name__,
            " ".join(doc.split()),
            tuple(operands),
            tuple(keywords),
            scopes,
            meaning,
            shapes,
            elements,
            by_position=tuple(by_position),
            unread=tuple(unread),
        )
        PRIMITIVES[row.name] = row
        return row

    return register


def operand_names(name: str) -> tuple[str, ...]:
    """The names of the operands of a primitive; none of one that does not exist."""
    row = PRIMITIVES.get(name)
    return tuple(operand.name for operand in row.operands) if row is not None else ()
