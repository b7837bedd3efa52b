"""How values and constants are written in C++: the type of each dtype, literals, and pieces of code with precedence.

Half, bfloat16 and the narrow floats have no type without headers: they are carried as bits in unsigned integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir import Const

# Names: the user's own, as far as C++ allows them.


_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_MACROS = "NULL assert linux unix i386"
_USED = """
threadIdx blockIdx blockDim gridDim warpSize dim3 printf min max fminf fmaxf fmin fmax floorf floor truncf trunc fmodf
fmod rintf rint fabsf fabs copysignf copysign size_t uint2 uint4
"""
# What CUDA declares without a header: functions that also exist with the suffix f (and l), then the others.
_MATH = """
abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc
erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf
isnan j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
nexttoward norm norm3d norm4d normcdf normcdfinv pow powi rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round
rsqrt scalbln scalbn signbit sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 y1 yn
"""
_DECLARED = """
abort alloca aligned all any ballot calloc clock clock64 enumKind exit free labs llabs libraryPropertyType llmax llmin
main malloc memchr memcmp memcpy memmove memset mulhi mul24 mul64hi operator_new realloc saturate std strlen syncthreads
trap ullmax ullmin umax umin umulhi umul24 umul64hi usad va_arg va_copy va_end va_list va_start wait
MAJOR_VERSION MINOR_VERSION PATCH_LEVEL
"""
# Reserved for the implementation, or declared by CUDA under a common prefix.
_FAMILIES = re.compile(r"__.*|tw_.*|_[A-Z].*|(cuda|NV_)[A-Z_].*|CUDA(RT)?_.*|CUDARTAPI|CU_.*|CUdev.*|CUuuid.*")
_DECLARED_FAMILIES = re.compile(
    r"atomic[A-Z].*|(tex|surf)[123C].*|(make_)?u?(char|short|int|long|longlong|float|double)[1-4](_(16|32)a)?"
)

RESERVED = frozenset(f"{_KEYWORDS} {_MACROS} {_USED}".split())  # what no name of the text may be
DECLARED = frozenset((*_DECLARED.split(), *(base + suffix for base in _MATH.split() for suffix in ("", "f", "l"))))


def identifiers(text: str) -> set[str]:
    """Every identifier in a piece of C++."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def renamed(text: str, name: str) -> str:
    """A piece of C++ with an underscore behind an identifier, strings and comments left alone.

    >>> renamed('f(x); // f', "f")
    'f_(x); // f'
    """
    parts = rf'"(?:\\.|[^"\\])*"|//[^\n]*|\b({re.escape(name)})\b'
    return re.sub(parts, lambda match: f"{name}_" if match[1] else match[0], text)


class Names:
    """Gives each name of a kernel one in C++. Mutable: it remembers what is taken.

    A keyword, a name of CUDA or of a helper, and a name that is taken get a trailing underscore.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.taken = {*RESERVED, *reserved}
        self.given: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The C++ name for the kernel's ``name``, always the same."""
        if name not in self.given:
            self.given[name] = self.fresh(name)
        return self.given[name]

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has: ``wanted``, or it with underscores."""
        name = _spelled(wanted)
        name += "_" if _FAMILIES.fullmatch(name) else ""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _spelled(wanted: str) -> str:
    """The name in letters that C++ and PTX have."""
    if wanted.isascii() and wanted.isidentifier():
        return wanted
    name = re.sub(r"[^A-Za-z0-9_]", lambda match: f"u{ord(match[0]):x}", wanted)
    return f"_{name}" if not name or name[0].isdigit() else name


def entry(wanted: str) -> str:
    """The name of a kernel's entry, which shares its scope with all that CUDA declares (`norm` is a function there).

    >>> entry("scale"), entry("norm"), entry("template")
    ('scale', 'norm_', 'template_')
    """
    name = _spelled(wanted)
    clashes = name in RESERVED or name in DECLARED or _FAMILIES.fullmatch(name) or _DECLARED_FAMILIES.fullmatch(name)
    return f"{name}_" if clashes else name


class Level:
    """How tightly C++ operators bind: the higher, the tighter."""

    ANY = 0
    CONDITIONAL = 2
    OR = 3
    AND = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    EQUALITY = 8
    RELATION = 9
    SHIFT = 10
    SUM = 11
    PRODUCT = 12
    UNARY = 14
    ATOM = 16


LEVELS = {
    **dict.fromkeys(("*", "/", "%"), Level.PRODUCT),
    **dict.fromkeys(("+", "-"), Level.SUM),
    **dict.fromkeys(("<<", ">>"), Level.SHIFT),
    **dict.fromkeys(("<", "<=", ">", ">="), Level.RELATION),
    **dict.fromkeys(("==", "!="), Level.EQUALITY),
    "&": Level.BIT_AND,
    "^": Level.BIT_XOR,
    "|": Level.BIT_OR,
    "&&": Level.AND,
    "||": Level.OR,
}
"""How tightly each operator of C++ binds."""


class Cpp(NamedTuple):
    """A C++ expression and how tightly its outermost operator binds."""

    text: str
    level: int = Level.ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than ``level``."""
        return self.text if self.level >= level else f"({self.text})"

    def cast(self, kind: str) -> Cpp:
        """Converted to the C++ type ``kind``."""
        return Cpp(f"({kind}){self.at(Level.UNARY)}", Level.UNARY)


def called(name: str, *args: Cpp) -> Cpp:
    """A call of a function."""
    return Cpp(f"{name}({', '.join(arg.text for arg in args)})")


_UNSIGNED = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int", 64: "unsigned long long"}


def unsigned_type(bits: int) -> str:
    """The unsigned integer of so many bits."""
    return _UNSIGNED[bits]


def computed_through_float(kind: DType) -> bool:
    """Has the dtype no C++ type to compute with (half, bfloat16, the narrow floats)?"""
    return kind.is_float and not kind.cuda


def cpp_type(kind: DType) -> str:
    """The C++ type of a value: bits for what is computed through float, a struct of that name for a vector."""
    if kind.lanes > 1:
        return str(kind)
    if kind.kind == "handle":
        return "void*"
    return kind.cuda or kind.storage


_INFINITY = {32: "__int_as_float(0x7f800000)", 64: "__longlong_as_double(0x7ff0000000000000ll)"}
_NAN = {32: "__int_as_float(0x7fffffff)", 64: "__longlong_as_double(0x7fffffffffffffffll)"}
_SUFFIX = {"int32": "", "int64": "ll", "uint32": "u", "uint64": "ull", "handle": "ll"}


def literal(const: Const) -> Cpp:
    """A constant of a scalar dtype."""
    kind, value = const.dtype, const.value
    if kind.kind == "bool":
        return Cpp("true" if value else "false")
    if kind.is_float:
        return _bits(float(value), kind) if computed_through_float(kind) else _float(float(value), kind)
    if kind.kind == "handle":
        return Cpp(f"(void*){int(value)}", Level.UNARY)
    return _integer(int(value), kind)


def _integer(value: int, kind: DType) -> Cpp:
    suffix = _SUFFIX.get(kind, "")
    if kind.is_signed and kind.bits >= 32 and value == -(1 << kind.bits - 1):
        return Cpp(f"-{-value - 1}{suffix} - 1", Level.SUM)  # C++ has no negative literals: -2147483648 is a long
    digits = f"{value:#x}" if kind.kind == "uint" and value >= 1 << 31 else str(value)  # a mask, most likely
    return Cpp(f"{digits}{suffix}", Level.UNARY if value < 0 else Level.ATOM)


def _rounded_to_tf32(value: float) -> float:
    """Eleven significant bits, ties away from zero, as a cast to tf32 rounds."""
    fraction, exponent = math.frexp(abs(value))
    return math.copysign(math.ldexp(math.floor(fraction * 2048 + 0.5), exponent - 11), value)


def _float(value: float, kind: DType) -> Cpp:
    if kind == "tf32" and math.isfinite(value):
        value = _rounded_to_tf32(value)
    if math.isnan(value):
        return Cpp(_NAN[kind.bits])
    if math.isinf(value):
        return Cpp(_INFINITY[kind.bits]) if value > 0 else Cpp(f"-{_INFINITY[kind.bits]}", Level.UNARY)
    digits = str(np.float32(value)) if kind.bits == 32 else repr(value)
    text = digits if set(digits) & set(".e") else f"{digits}.0"
    return Cpp(text + ("f" if kind.bits == 32 else ""), Level.UNARY if text.startswith("-") else Level.ATOM)


def _bits(value: float, kind: DType) -> Cpp:
    with np.errstate(all="ignore"):
        code = np.asarray(value, np.float64).astype(kind.numpy).view(f"u{kind.numpy.itemsize}")
    return Cpp(f"0x{int(code):0{kind.numpy.itemsize * 2}x} /* {value:g} */")
