"""Random expressions over a few variables with known ranges, and their values."""

from __future__ import annotations

from hypothesis import strategies as st

from tilewright.dtypes import INT32, DType
from tilewright.ir import Binary, Cast, Expr, Select, Unary, Var
from tilewright.ir.build import binary, const
from tilewright.ir.ranges import RangeFacts

BOUNDS = {"i": (0, 7), "j": (0, 63), "k": (-5, 11), "n": (0, 2**31 - 1), "w": (-(2**31), 2**31 - 1), "s": (1, 9)}
ARITHMETIC = ("+", "-", "*", "//", "%", "min", "max", "&", "|", "^", "<<", ">>", "truncdiv", "truncmod")
NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 31, 32, 56, 63, 64, 96, 128, -1, -2, -8, 255, 65536, 2**31 - 1]
)


def facts() -> RangeFacts:
    known = RangeFacts()
    for name, (low, high) in BOUNDS.items():
        known = known.with_range(Var(name), low, high)
    return known


def environments() -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(low, high) for name, (low, high) in BOUNDS.items()})


def integers(kind: DType = INT32, leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Integer expressions, wrapping ones too."""
    atoms = st.one_of(
        st.sampled_from([Var(name) for name in BOUNDS]).map(lambda var: var if kind == var.dtype else Cast(var, kind)),
        NUMBERS.map(lambda number: const(number, kind)),
    )
    return st.recursive(
        atoms, lambda parts: st.one_of(_binaries(parts), _with_constants(parts), _others(parts)), max_leaves=leaves
    )


def _binaries(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(binary, st.sampled_from(ARITHMETIC), parts, parts)


def _with_constants(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Expressions such as addresses are made of."""
    return st.builds(binary, st.sampled_from(("+", "-", "*", "//", "%", "&", "^", ">>", "<<")), parts, NUMBERS)


def _others(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(lambda op, a: Unary(op, a, a.dtype), st.sampled_from("-~"), parts),
        st.builds(lambda c, a, b: Select(c, a, b, a.dtype), _conditions(parts), parts, parts),
    )


def _conditions(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(binary, st.sampled_from(Binary.COMPARISONS), parts, parts)


def conditions() -> st.SearchStrategy[Expr]:
    return st.recursive(
        _conditions(integers(leaves=5)),
        lambda parts: st.one_of(
            st.builds(binary, st.sampled_from(("and", "or")), parts, parts),
            st.builds(lambda a: Unary("not", a, a.dtype), parts),
        ),
        max_leaves=4,
    )
