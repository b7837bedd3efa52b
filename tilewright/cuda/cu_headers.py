"""Headers that a .cu file may include: NVIDIA's from wheels, tiny stand-ins for C's, empty ones for others of the host.

NVRTC knows the language without any header, and refuses those of C. An include is taken from the folders that the
caller names, from the wheels of the extra ``cu``, or from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tilewright.errors import ToolError

__all__ = ["INSTALL", "Include", "includes", "stand_ins", "wheel_folders"]

INSTALL = "pip install 'tilewright[cu]'"

_INTEGERS = "".join(
    f"typedef {'unsigned ' * (not sign)}{kind} {'' if sign else 'u'}int{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign in (0, 1)
).replace("typedef char", "typedef signed char")
_INTEGERS += """typedef long long intptr_t; typedef unsigned long long uintptr_t; typedef long long intmax_t;
typedef unsigned long long uintmax_t;
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647-1)
#define INT64_MIN (-9223372036854775807LL-1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
"""
_LIMITS = """#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647-1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-LONG_MAX-1)
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX-1)
#define ULLONG_MAX 18446744073709551615ULL
"""
_FLOATS = """#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_MATH = """#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define HUGE_VALF INFINITY
"""
_CONSTANTS = """#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_PI 3.1415926535897931e+0
"""

_C = {"stdint": _INTEGERS, "inttypes": _INTEGERS, "limits": _LIMITS, "float": _FLOATS, "math": _MATH,
      **dict.fromkeys(("stdio", "stdlib", "string", "assert", "stddef", "time", "ctype", "errno"), "")}  # fmt: skip
_STANDARD = {
    **{f"{name}.h": f"#pragma once\n{text}" for name, text in _C.items()},
    **{f"c{name}": f'#pragma once\n#include "{name}.h"\n' for name in _C},
    "math_constants.h": f"#pragma once\n{_CONSTANTS}",
    "stdbool.h": "#pragma once\n",
}
_EMPTY = ("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "device_launch_parameters.h", "math_functions.h",
          "device_functions.h", "vector_types.h", "vector_functions.h", "iostream", "vector", "string", "unistd.h",
          "sys/time.h", "helper_cuda.h", "helper_functions.h", "sm_20_atomic_functions.h")  # fmt: skip
_STD = {  # what libcu++ has under its own name
    name: f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
    for name in ("type_traits", "limits", "utility", "tuple", "array", "functional", "initializer_list")
}

_DIRECTIVE = re.compile(
    r'^[ \t]*(?:#|%:)[ \t]*(include|include_next|import|embed)\b[ \t]*(<[^>\n]*>|"[^"\n]*"|[^\n]*)', re.MULTILINE
)


class Include:
    """An ``#include`` of a text. name: what is included. quoted: in quotes. start, stop: where the line is."""

    def __init__(self, found: re.Match[str]) -> None:
        self.word, self.named = found[1], found[2].strip()
        self.start, self.stop = found.span()

    @property
    def name(self) -> str:
        """The path between quotes or angles; empty for a macro."""
        return self.named[1:-1] if self.named[:1] in ('"', "<") else ""


def includes(text: str) -> Iterator[Include]:
    """The includes of a text. Raises ToolError for those that could lead anywhere."""
    spliced = text.replace("\\\r\n", "  \n").replace("\\\n", " \n")
    for found in _DIRECTIVE.finditer(spliced):
        include = Include(found)
        path = include.name
        if (
            include.word == "embed"
            or not path
            or path.startswith(("/", "~"))
            or ".." in Path(path).parts
            or ":" in path
        ):
            raise ToolError(
                "an #include leads out of the folders that were named",
                given=found[0].strip(),
                allowed="a path below a folder of include=, by its name",
                hint="include=[FOLDER]",
            )
        yield include


@cache
def wheel_folders() -> tuple[Path, ...]:
    """The folders of NVIDIA's headers, where their wheels are installed."""
    for place in map(Path, sys.path):
        for folder in sorted(place.glob("nvidia/cu*/include")):
            if (folder / "cuda_fp16.h").is_file():
                return (folder, folder / "cccl") if (folder / "cccl").is_dir() else (folder,)
    return ()


def stand_ins(text: str, folders: Sequence[Path]) -> Mapping[str, str]:
    """The headers that a text, and its own headers in ``folders``, include and that this file provides, by name."""
    found: dict[str, str] = dict(_STANDARD)
    found |= dict.fromkeys(_EMPTY, "")
    wheels = wheel_folders()
    if len(wheels) > 1:
        found |= _STD
    todo, seen = [text], set[Path]()
    while todo:
        for include in includes(todo.pop()):
            places = [folder / include.name for folder in folders]
            own = next((path for path in places if path.is_file()), None)
            if own is not None:
                found.pop(include.name, None)
                if own not in seen:
                    seen.add(own)
                    todo.append(own.read_text(encoding="utf-8", errors="replace"))
            elif include.name not in found and not any((folder / include.name).is_file() for folder in wheels):
                found[include.name] = ""
    return found
