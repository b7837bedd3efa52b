"""Names: the user's own, as far as C++ allows them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names", "entry", "identifiers", "renamed"]

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
