"""Names: the user's own, as far as C++ lets them be."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names", "identifiers"]

_TAKEN = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq
threadIdx blockIdx blockDim gridDim warpSize dim3 printf min max fminf fmaxf fmin fmax floorf floor truncf trunc fmodf
fmod rintf rint fabsf fabs copysignf copysign size_t uint2 uint4
"""
RESERVED = frozenset(_TAKEN.split())  # C++'s keywords, and what CUDA declares without a header


def identifiers(text: str) -> set[str]:
    """Every identifier in a piece of C++."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


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
        name = re.sub(r"[^A-Za-z0-9_]", lambda match: f"u{ord(match[0]):x}", wanted)
        if not name or name[0].isdigit():
            name = f"_{name}"
        while name in self.taken or (name.startswith(("__", "tw_")) and not name.endswith("_")):
            name += "_"
        self.taken.add(name)
        return name
