"""Headers that a .cu file may ask for: NVIDIA's from wheels, C's by tiny stand-ins, others of the host as nothing.

NVRTC knows the language without any header, and refuses those of C. An include is taken from the folders that the
caller names, from the wheels of the extra ``cu``, or from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tilewright.errors import ToolError

# The texts of headers that stand in memory: C's and some of C++'s, and empty ones for headers of the host alone.
#
# NVRTC knows the language without any header, and refuses those of C.


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
_INTEGER_NAMES = re.findall(r"\w+_t(?=;)", _INTEGERS)
_INTEGERS_IN_STD = f"namespace std {{ {' '.join(f'using ::{name};' for name in _INTEGER_NAMES)} }}\n"
_SIZES_IN_STD = """namespace std {
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
"""
_LIMITS = """#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
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
_FLOATS = """#define FLT_DIG 6
#define DBL_DIG 15
#define FLT_MANT_DIG 24
#define DBL_MANT_DIG 53
#define FLT_RADIX 2
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_MATH = """#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define HUGE_VALF INFINITY
"""
_MATH_NAMES = """abs acos asin atan atan2 cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin
fmod hypot isfinite isinf isnan ldexp lgamma llround log log10 log1p log2 lround nearbyint pow remainder rint round
signbit sin sinh sqrt tan tanh tgamma trunc"""
_MATH_IN_STD = f"namespace std {{ {' '.join(f'using ::{name};' for name in _MATH_NAMES.split())} }}\n"
_ALGORITHMS = """namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& v, const T& low, const T& high) {
  return v < low ? low : high < v ? high : v;
}
template <class T> __host__ __device__ void swap(T& a, T& b) { T c = a; a = b; b = c; }
template <class T> __host__ __device__ constexpr T max(initializer_list<T> every) {
  T most = *every.begin(); for (const T& v : every) most = most < v ? v : most; return most;
}
template <class T> __host__ __device__ constexpr T min(initializer_list<T> every) {
  T least = *every.begin(); for (const T& v : every) least = v < least ? v : least; return least;
}
}
"""
_CONSTANTS = """#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define CUDART_MIN_DENORM_F __int_as_float(1)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_LN2_F 0.693147181f
#define CUDART_LN10_F 2.302585093f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LG2E_F 0.434294482f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ULL)
#define CUDART_SQRT_TWO 1.4142135623730951e+0
#define CUDART_LN2 6.9314718055994529e-1
#define CUDART_L2E 1.4426950408889634e+0
#define CUDART_PIO2 1.5707963267948966e+0
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_PI 3.1415926535897931e+0
"""

_C = {"stdint": _INTEGERS, "inttypes": _INTEGERS, "limits": _LIMITS, "float": _FLOATS, "math": _MATH,
      **dict.fromkeys(("stdio", "stdlib", "string", "assert", "stddef", "time", "ctype", "errno"), "")}  # fmt: skip
STANDARD = {
    **{f"{name}.h": f"#pragma once\n{text}" for name, text in _C.items()},
    **{f"c{name}": f'#pragma once\n#include "{name}.h"\n' for name in _C},
    **dict.fromkeys(("cstdint", "cinttypes"), f"#pragma once\n#include <stdint.h>\n{_INTEGERS_IN_STD}"),
    "cstddef": f"#pragma once\n{_SIZES_IN_STD}",
    "cstring": "#pragma once\n#include <cstddef>\nnamespace std { using ::memcpy; using ::memset; }\n",
    "cmath": f"#pragma once\n#include <math.h>\n{_MATH_IN_STD}",
    "algorithm": f"#pragma once\n{_ALGORITHMS}",
    "math_constants.h": f"#pragma once\n{_CONSTANTS}",
    "stdbool.h": "#pragma once\n",
}
IMPLICIT = "tilewright/implicit.h"
"""What nvcc includes before any file, and what every file may use. Templates give way to NVIDIA's own functions."""
STANDARD[IMPLICIT] = """#pragma once
#include <cmath>
#include <cstddef>
#include <cuda.h>
#include <limits.h>
#include <stdint.h>
#define __extension__
#define __asm__ asm
#define __volatile__ volatile
#define TILEWRIGHT_OF_BITS(end, kind, bits) \
  template <class T = void> __host__ __device__ constexpr int __builtin_clz##end(unsigned kind v) { \
    int n = bits - 1; while (n > 0 && !(v >> n & 1)) --n; return bits - 1 - n; } \
  template <class T = void> __host__ __device__ constexpr int __builtin_ctz##end(unsigned kind v) { \
    int n = 0; while (n < bits - 1 && !(v >> n & 1)) ++n; return n; } \
  template <class T = void> __host__ __device__ constexpr int __builtin_popcount##end(unsigned kind v) { \
    int n = 0; for (; v; v &= v - 1) ++n; return n; }
TILEWRIGHT_OF_BITS(, int, 32) TILEWRIGHT_OF_BITS(l, long, 64) TILEWRIGHT_OF_BITS(ll, long long, 64)
typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TILEWRIGHT_OF_GRIDS(text) asm volatile(text ::: "memory")
#else
#define TILEWRIGHT_OF_GRIDS(text)
#endif
template <class T = void> __device__ inline void cudaGridDependencySynchronize() {
  TILEWRIGHT_OF_GRIDS("griddepcontrol.wait;");
}
template <class T = void> __device__ inline void cudaTriggerProgrammaticLaunchCompletion() {
  TILEWRIGHT_OF_GRIDS("griddepcontrol.launch_dependents;");
}
"""
STANDARD["cuda_device_runtime_api.h"] = f"#pragma once\n#include <{IMPLICIT}>\n"
_NOTHING = """
alloca.h any atomic barrier bitset cfenv charconv chrono ciso646 clocale codecvt compare concepts condition_variable
coroutine csetjmp csignal cstdarg ctgmath cublas.h cublas_v2.h cublasLt.h cuchar cuda_gl_interop.h cuda_profiler_api.h
cuda_runtime.h cuda_runtime_api.h cudaGL.h cudaProfiler.h cudaTypedefs.h cudnn.h curand.h cusolverDn.h cusolverMg.h
cusolverSp.h cusparse.h cusparse_v2.h cutensor.h cwchar cwctype cxxabi.h deque device_functions.h
device_launch_parameters.h dirent.h dlfcn.h exception execinfo.h execution expected fcntl.h fenv.h filesystem format
forward_list fstream future getopt.h GL/gl.h GL/glew.h GL/glut.h helper_cuda.h helper_functions.h immintrin.h iomanip
ios iosfwd iostream iso646.h iterator latch list locale locale.h malloc.h map math_functions.h memory memory.h
memory_resource mpi.h mutex nccl.h netdb.h new numbers numeric nvml.h nvToolsExt.h nvtx3/nvToolsExt.h omp.h optional
ostream print pthread.h queue random ranges regex sched.h scoped_allocator semaphore set setjmp.h shared_mutex
signal.h sm_20_atomic_functions.h source_location sstream stack stdarg.h stdexcept stop_token string string_view
strings.h strstream syncstream sys/file.h sys/ioctl.h sys/mman.h sys/param.h sys/resource.h sys/socket.h sys/stat.h
sys/syscall.h sys/sysinfo.h sys/time.h sys/times.h sys/types.h sys/utsname.h sys/wait.h system_error thread typeindex
typeinfo unistd.h unordered_map unordered_set valarray variant vector vector_functions.h vector_types.h version
wchar.h wctype.h windows.h x86intrin.h xlocale.h
"""
DRIVER = "tilewright/driver.h"  # of tensor maps
_TRANSFORMS = """typedef float cufftReal; typedef double cufftDoubleReal;
typedef float2 cufftComplex; typedef double2 cufftDoubleComplex;
"""
EMPTY = dict.fromkeys(_NOTHING.split(), "#pragma once\n") | {
    "cuda.h": f"#pragma once\n#ifndef CUDA_VERSION\n#define CUDA_VERSION CUDART_VERSION\n#endif\n#include <{DRIVER}>\n",
    "cufft.h": f"#pragma once\n{_TRANSFORMS}",
}
"""Headers of which device code needs nothing, or some types alone: tensor maps of the driver's, numbers of cuFFT's."""
_OF_BLOCKS = """adjacent_difference discontinuity exchange histogram load merge_sort radix_rank radix_sort reduce
run_length_decode scan shuffle store"""
_CUB = [f"block/block_{name}" for name in _OF_BLOCKS.split()]
_CUB += [f"warp/warp_{name}" for name in ("exchange", "load", "merge_sort", "reduce", "scan", "store")]
OF_WHEELS = {
    **{name: f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
       for name in ("type_traits", "limits", "utility", "tuple", "array", "functional", "initializer_list", "bit",
                    "complex", "concepts", "numbers", "ratio", "span")},
    "cub/cub.cuh": "#pragma once\n" + "".join(f"#include <cub/{name}.cuh>\n" for name in _CUB),
}  # fmt: skip
"""Headers that libcu++ has under its own name, and CUB's header of everything, which NVRTC refuses as a whole."""

_OF_EXTRAS = ("curand.h",)  # of those without contents, what others of its wheel need, where that is installed
CUTLASS = ("cute/", "cutlass/")  # how its headers begin
_WORDS_OF_CUTLASS = ("cutlass/detail/helper_macros.hpp", "cute/config.hpp")
_OF_TUPLES = r"template\s*<[^<>]*>(\s*)struct tuple_(?:size|element);"
_GET = r"(template <[^<>]*>\s*\[\[nodiscard\]\] _CCCL_API constexpr \w+) get(?=\(integer_sequence)"
_OF_HOST = r"!defined\(__CUDACC_RTC__\)"
_QUERY = r"#if !defined\(__CUDACC_RTC__\)\n\s*static inline int(?=\s+query_device_multiprocessor_count)"
_MULTIPROCESSORS = (
    "static int query_device_multiprocessor_count(int = 0) { return __CUDA_ARCH__ >= 1000 ? 148 : 132; }\n#if 0"
)
_DRIVER_CALL = r"CUTLASS_CUDA_DRIVER_WRAPPER_CALL\((\w+)\)"


def _lines_of(text: re.Match[str]) -> str:
    """As many lines, without what is in them."""
    return ";" + "\n" * text[0].count("\n")


MENDED: Mapping[str, Sequence[tuple[str, str | Callable[[re.Match[str]], str]]]] = {
    **dict.fromkeys((f"cute/{name}.hpp" for name in (
        "container/array", "container/array_subbyte", "container/tuple", "container/type_list",
        "numeric/arithmetic_tuple")), ((_OF_TUPLES, r"\1"),)),
    "cuda/std/__utility/integer_sequence.h": ((_GET, r"\1 get_of_sequence"),),
    "cute/arch/copy_sm90_desc.hpp": ((_OF_HOST, "1"), (r"throw [^;]*;", "__trap();")),
    "cutlass/kernel_hardware_info.h": ((_QUERY, _MULTIPROCESSORS),),
    "cute/atom/copy_traits_sm90_tma.hpp": (
        (_OF_HOST, "1"), (_DRIVER_CALL, r"::\1"), (r"std::cerr\b[^;]*;", _lines_of)),
}  # fmt: skip
"""Headers by name, patterns in them and what stands in their place: what CUTLASS 4.2 declares as CCCL 13.3 does not, or
both define; and what makes tensor maps, which runs on the simulator, as code of the device."""


INSTALL = "pip install 'tilewright[cu]'"
TORCH, _TEXTS = "tilewright/torch.h", Path(__file__).parent / "headers"
CUB = "tilewright/cub.h"  # names that CCCL 3 lacks
THRUST = "tilewright/thrust.h"  # for headers that NVRTC refuses
OLD_CUB = re.compile(
    r"\bcub::(?:Sum|Difference|Division|Max|Min|Equality|Inequality|Int2Type|LaneId|WarpId|CTA_|WARP_)"
)
_OF_TORCH = re.compile(r"(?:ATen|c10|torch|THC|TH|pybind11)/")  # headers for which that one stands

_MACRO_OF_HEADERS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(\s*(\w+)\s*\))?[ \t]+([<\"][^>\"\n]*[>\"])[ \t]*$", re.MULTILINE
)
_CALL = re.compile(r"(\w+)\s*\(\s*([\w./+-]+)\s*\)\s*")
_DIRECTIVE = re.compile(
    r'^[ \t]*(?:#|%:)[ \t]*(include|include_next|import|embed)\b[ \t]*(<[^>\n]*>|"[^"\n]*"|[^\n]*)', re.MULTILINE
)
_ASKS = re.compile(r"[ \t]*(?:\*|//|(?:#|%:)[ \t]*(?:include|if|ifdef|ifndef|elif)\b)")  # lines that define nothing


class Include:
    """An ``#include`` of a text. name: what is included. quoted: in quotes. start, stop: where the line is."""

    def __init__(self, found: re.Match[str]) -> None:
        self.word, self.named = found[1], found[2].strip()
        self.start, self.stop = found.span()

    @property
    def name(self) -> str:
        """The path between quotes or angles; empty for a macro."""
        return self.named[1:-1] if self.named[:1] in ('"', "<") else ""

    @property
    def macro(self) -> str:
        """The macro that makes the path; empty where none does."""
        called = _CALL.fullmatch(self.named)
        return called[1] if called else self.named if self.named.isidentifier() else ""

    def resolve(self, macros: Mapping[str, tuple[str, str]]) -> None:
        """Take the path that its macro makes, if that is one of these, as `header_macros` has them."""
        if self.macro in macros:
            (word, header), called = macros[self.macro], _CALL.fullmatch(self.named)
            self.named = re.sub(rf"\b{word}\b", called[2], header) if called and word else header


def includes(text: str, macros: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> Iterator[Include]:
    """The includes of a text. macros: those that make the name of a header, as `header_macros` has them. What is
    made by none of them has no name.

    Raises ToolError for what is no name of a header, and no macro.
    """
    for found in _DIRECTIVE.finditer(_spliced(text)):
        include = Include(found)
        include.resolve(macros)
        if include.word == "embed" or not (include.name or include.macro):
            raise _astray(include, "FOLDER")
        yield include


def _spliced(text: str) -> str:
    """The text, as long as it is, with blanks where a line goes on."""
    return text.replace("\\\r\n", "  \n").replace("\\\n", " \n")


def header_macros(text: str) -> dict[str, tuple[str, str]]:
    """The macros of a text that stand for the name of a header, by their names: parameter and header, such as
    ``#define STD_HEADER(name) <cuda/std/name>``, or ``#define EXECINFO <execinfo.h>``, without a parameter.
    """
    found = sorted(_MACRO_OF_HEADERS.finditer(text), key=lambda each: _leads_out(each[3][1:-1]))
    return {each[1]: (each[2] or "", each[3]) for each in found}  # of several, one that leads out


def _leads_out(path: str) -> bool:
    return path.startswith(("/", "~")) or ":" in path or ".." in Path(path).parts


def _astray(include: Include, folder: str) -> ToolError:
    return ToolError(
        "an #include leads out of the folders that were named",
        given=f"#{include.word} {include.named}",
        allowed="a path below a folder of include=, by its name",
        hint=f"include=[{folder!r}], or -I {folder}" if folder != "FOLDER" else "include=[FOLDER]",
    )


def own_header(include: Include, beside: Path, folders: Sequence[Path]) -> Path | None:
    """The file that an include means: beside the one that has it, or in a folder; None where there is none.

    Raises ToolError where it is there, and below none of the folders.
    """
    path = include.name
    places = [folder / path for folder in (beside, *folders)]
    inside = [each for each in places if any(each.resolve().is_relative_to(folder.resolve()) for folder in folders)]
    is_nowhere = include.named == f'"{path}"' and path.startswith("../") and not (beside / path).exists()
    if path.startswith(("/", "~")) or ":" in path or (".." in Path(path).parts and not inside and not is_nowhere):
        raise _astray(include, str((beside / path).resolve().parent))
    return next((each.resolve() for each in inside if each.is_file()), None)


@cache
def wheel_folders() -> tuple[Path, ...]:
    """The folders of NVIDIA's headers, where their wheels are installed."""
    for place in map(Path, sys.path):
        for folder in sorted(place.glob("nvidia/cu*/include")):
            if (folder / "cuda_fp16.h").is_file():
                return (folder, *filter(Path.is_dir, [folder / "cccl"]), *cutlass_folders())
    return cutlass_folders()


@cache
def cutlass_folders() -> tuple[Path, ...]:
    """The folder of CUTLASS's headers, where its wheel is installed."""
    folders = (Path(place) / "cutlass_library/source/include" for place in sys.path)
    return tuple(folder for folder in folders if (folder / "cute/tensor.hpp").is_file())[:1]


_OF_LIBCU = re.compile(r"\bcuda\s*(?:::|;|=)|\bthread_scope|\b_CG_")


def lighter(texts: Sequence[str]) -> list[str]:
    """The options by which NVIDIA's headers say the same and are read in a fraction of the time: lists of types are
    unrolled as nvcc has them, and cooperative groups, which include libcu++ for a constant, go without it where no text
    speaks of it.
    """
    alone = any("cooperative_groups" in text for text in texts) and not any(_OF_LIBCU.search(text) for text in texts)
    return ["-D_CCCL_META_UNROLL_LIMIT=10", *["-D_CG_LIMIT_INCLUDED_DEPENDENCIES"] * alone]


def words_of_cutlass(names: Iterable[str]) -> list[str]:
    """The texts of the wheel that define CUTLASS's words for ``__device__``, where its headers are named."""
    if not any(name.startswith(CUTLASS) for name in names):
        return []
    places = (folder / name for folder in cutlass_folders() for name in _WORDS_OF_CUTLASS)
    return [path.read_text(encoding="utf-8", errors="replace") for path in places if path.is_file()]


def mended(name: str, text: str) -> str:
    """A header of CUTLASS or CCCL, mended where it does not fit the others."""
    for pattern, instead in MENDED.get(name, ()):
        text = re.sub(pattern, instead, text)
    return text


def _mended() -> Iterator[tuple[str, str]]:
    """Headers of wheels that are mended: their names and texts."""
    for name in MENDED:
        path = next((each / name for each in wheel_folders() if (each / name).is_file()), None)
        if path is not None:
            yield name, f'#line 1 "{path}"\n{mended(name, path.read_text(encoding="utf-8", errors="replace"))}'


def absent(name: str) -> str:
    """The text of a header that is nowhere. The compiler's log has it where that header is reached."""
    return f'#pragma once\n#warning "there is no header {name}"\n'


@cache
def _of_torch() -> dict[str, str]:
    """The texts that stand for torch's headers, by name."""
    return {f"tilewright/{path.name}": path.read_text(encoding="utf-8") for path in _TEXTS.glob("*.h")}


@cache
def wheel_versions() -> tuple[str, ...]:
    """NVIDIA's wheels beside those folders, with their versions: what decides what the headers in them say."""
    sites = dict.fromkeys(folder.parents[2] for folder in wheel_folders() if folder.name == "include")
    return tuple(sorted(str(each) for site in sites for each in site.glob("nvidia_*.dist-info")))


def _are_in(folders: Sequence[Path], name: str) -> bool:
    return any((each / name).is_file() for each in folders)


def headers(
    text: str, beside: Path, folders: Sequence[Path], *, is_whole: bool = True
) -> tuple[dict[str, Path], dict[str, str]]:
    """The headers that a text and its own headers include, by the names in them: files below ``folders``, and the texts
    of headers in memory, `absent` for those that are nowhere. beside: the folder of the text. is_whole: are these all
    folders? Else a macro that makes the name of a header may be defined elsewhere.
    """
    wheels, own = wheel_folders(), dict[str, Path]()
    found = {name: text for name, text in STANDARD.items() if not _are_in(wheels, name)}
    found |= {name: text for name, text in EMPTY.items() if name not in _OF_EXTRAS or not _are_in(wheels, name)}
    found |= _of_torch() | (OF_WHEELS if any(folder.name == "cccl" for folder in wheels) else {})
    for name, path in _reached(text, beside, folders, own, is_whole=is_whole):
        if path is not None:
            own.setdefault(name, path)
        elif name.startswith(CUTLASS) and cutlass_folders():
            found |= dict(_mended())
        elif name not in found and not _are_in(wheels, name):
            found[name] = f"#pragma once\n#include <{TORCH}>\n" if _OF_TORCH.match(name) else absent(name)
    return own, {name: text for name, text in found.items() if name not in own}


def _reached(
    text: str, beside: Path, folders: Sequence[Path], own: Mapping[str, Path], *, is_whole: bool
) -> Iterator[tuple[str, Path | None]]:
    """The headers that a text and those in ``own`` include: names, and the files that they mean."""
    todo, macros, texts = [(text, beside)], dict[str, tuple[str, str]](), list[str]()
    nameless = list[tuple[Include, Path]]()  # words that no text so far defines
    while todo or any(entry.macro in macros for entry, _ in nameless):
        inner, folder = todo.pop() if todo else ("", beside)
        texts.append(inner)
        outside = {name: each for name, each in macros.items() if _leads_out(each[1][1:-1])}
        macros |= header_macros(inner) | outside
        every = [*nameless, *((each, folder) for each in includes(inner, macros))]
        nameless = [entry for entry in every if not entry[0].name and entry[0].macro not in macros]
        for include, at in every:
            include.resolve(macros)
            if not include.name:
                continue
            path = own_header(include, at, folders)
            if path is not None and path not in own.values():
                todo.append((path.read_text(encoding="utf-8", errors="replace"), path.parent))
            yield include.name, path
    for include, _ in nameless:  # of a word that nobody defines the preprocessor says so itself, where it is reached
        lines = (line for entry in texts for line in _spliced(entry).splitlines() if include.macro in line)
        if is_whole and (include.macro != include.named or not all(map(_ASKS.match, lines))):
            raise _astray(include, "FOLDER")
