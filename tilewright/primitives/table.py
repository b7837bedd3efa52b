"""What a tile primitive is: a NumPy function whose signature is the primitive's, with rules for its operands.

The positional parameters are the operands, each annotated with its role; the others are the keywords, each with its
type and its default. The body is the meaning, and the first line of the docstring tells users. ``Tx``, the dispatcher,
the reference page and the tests read the same row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, Protocol, TypeAlias, get_args, get_origin, get_type_hints

from numpy.typing import NDArray

from tilewright.dtypes import DType
from tilewright.layout.facts import Facts, Value

__all__ = ["COMMON", "PRIMITIVES", "WITHIN_A_CTA", "Clipped", "In", "InBeyond", "InOut", "Keyword", "Mismatch",
           "Operand", "Out", "OutBeyond", "Primitive", "Role", "Scalar", "Shape", "Tile",
           "operand_names", "primitive"]  # fmt: skip

WITHIN_A_CTA = ("thread", "warp", "warpgroup", "cta")
"""The scopes whose threads share memory; those of most primitives."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a call does with an operand. tile: it is a region, else a value. clipped: of a region that leaves its buffer
    the part outside is left alone. beyond: of an array, it may leave it, if the variant says what that means.
    """

    name: str
    written: bool = False
    tile: bool = True
    clipped: bool = False
    beyond: bool = False


Array: TypeAlias = NDArray[Any]
Out = Annotated[Array, Role("out", written=True)]
In = Annotated[Array, Role("in")]
InOut = Annotated[Array, Role("in-out", written=True)]
OutBeyond = Annotated[Array, Role("out", written=True, beyond=True)]
InBeyond = Annotated[Array, Role("in", beyond=True)]
Clipped = Annotated[Array, Role("out, clipped", written=True, clipped=True)]
Scalar = Annotated[Any, Role("scalar", tile=False)]

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


ElementRule = Callable[[Mapping[str, Tile], Mapping[str, object]], "Mismatch | None"]
ShapeRule = Callable[[Mapping[str, Tile], Facts], "Mapping[str, Shape] | Mismatch"]
"""The shapes of the tiles by name, with numbers where another operand knows them."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What a primitive is called with."""

    name: str
    role: Role
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Keyword:
    """A setting that variants read. type: as annotated, None aside."""

    name: str
    type: object
    default: object

    @property
    def kinds(self) -> tuple[object, ...]:
        """The types, or the values, that it may have; None may stand for the default."""
        listed = get_args(self.type) or (self.type,)
        return tuple(kind for kind in listed if kind is not NoneType)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if get_origin(self.type) is Literal:
            return f"{self.name}= {', '.join(map(repr, self.kinds))}"
        return f"{self.name}= {' or '.join(f'of type {kind.__name__}' for kind in self.kinds)}"  # type: ignore[attr-defined]  # all types

    def admits(self, value: object) -> bool:
        """May it be that value?"""
        if get_origin(self.type) is Literal:
            return value in self.kinds
        return object in self.kinds or (isinstance(value, tuple(self.kinds)) and not isinstance(value, bool))  # type: ignore[arg-type]  # all types


@dataclass(frozen=True, slots=True)
class Primitive:
    """A tile primitive. meaning: on NumPy arrays, it changes those that are written. shapes, elements: what the tiles
    must have in common.
    """

    name: str
    doc: str
    operands: tuple[Operand, ...]
    keywords: tuple[Keyword, ...]
    scopes: tuple[str, ...]
    meaning: Callable[..., None]
    shapes: ShapeRule | None = None
    elements: ElementRule | None = None

    @property
    def tiles(self) -> tuple[Operand, ...]:
        """The operands that are regions."""
        return tuple(operand for operand in self.operands if operand.role.tile)

    @property
    def required(self) -> int:
        """How many operands every call has."""
        return sum(not operand.optional for operand in self.operands)

    def keyword(self, name: str) -> Keyword | None:
        """The keyword with this name."""
        return next((each for each in (*COMMON, *self.keywords) if each.name == name), None)

    @property
    def signature(self) -> inspect.Signature:
        """As a kernel calls it."""
        plain, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        operands = [
            inspect.Parameter(
                each.name,
                plain,
                default=None if each.optional else inspect.Parameter.empty,
                annotation="Tile" if each.role.tile else "Value",
            )
            for each in self.operands
        ]
        keywords = [
            inspect.Parameter(each.name, named, default=each.default, annotation=each.type)
            for each in (DISPATCH, *self.keywords, *COMMON)
        ]
        return inspect.Signature([*operands, *keywords], return_annotation=None)


PRIMITIVES: dict[str, Primitive] = {}

DISPATCH = Keyword("dispatch", str | None, None)
COMMON = (Keyword("workspace", object, None),)
"""Keywords that every call may have."""


def primitive(
    *, scopes: tuple[str, ...] = WITHIN_A_CTA, shapes: ShapeRule | None = None, elements: ElementRule | None = None
) -> Callable[[Callable[..., None]], Primitive]:
    """Decorator: the function is the meaning of a primitive with its name, its parameters and its first line."""

    def register(meaning: Callable[..., None]) -> Primitive:
        hints = get_type_hints(meaning, include_extras=True)
        operands, keywords = [], []
        for each in inspect.signature(meaning).parameters.values():
            if each.kind is inspect.Parameter.KEYWORD_ONLY:
                keywords.append(Keyword(each.name, hints[each.name], each.default))
            else:
                (role,) = (part for part in get_args(hints[each.name]) if isinstance(part, Role))
                operands.append(Operand(each.name, role, each.default is None))
        doc = " ".join((inspect.getdoc(meaning) or "").partition("\n\n")[0].split())
        made = Primitive(meaning.__name__, doc, tuple(operands), tuple(keywords), scopes, meaning, shapes, elements)
        PRIMITIVES[made.name] = made
        return made

    return register


def operand_names(name: str) -> tuple[str, ...]:
    """The names of the operands of a primitive; none of one that does not exist."""
    row = PRIMITIVES.get(name)
    return tuple(operand.name for operand in row.operands) if row is not None else ()
