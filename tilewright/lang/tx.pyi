"""What type checkers and editors see of ``Tx``. Made by `make docs` from `tilewright/primitives/`."""

from typing import Any, Literal

__all__ = ["Tx"]

Tile = Any  # a buffer, or a region of one
Value = Any  # a number, a scalar, an element of a buffer

class TileFunctions:
    @staticmethod
    def abs(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The magnitude of `src`."""
    @staticmethod
    def add(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        rounding_mode: Literal["rn", "rz", "rm", "rp"] = "rn",
        workspace: object = None,
    ) -> None:
        """The sum."""
    @staticmethod
    def all(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` becomes true where no element of `src` along `axes` is 0."""
    @staticmethod
    def any(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` becomes true where some element of `src` along `axes` is not 0."""
    @staticmethod
    def argmax(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        workspace: object = None,
    ) -> None:
        """`dst` gets the position of the first largest element of `src` along `axes`; a NaN is the largest."""
    @staticmethod
    def argmin(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        workspace: object = None,
    ) -> None:
        """`dst` gets the position of the first smallest element of `src` along `axes`; a NaN is the smallest."""
    @staticmethod
    def bitand(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The bits that both sides have; of bools, whether both hold."""
    @staticmethod
    def bitor(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The bits that a side has; of bools, whether one holds."""
    @staticmethod
    def bitxor(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The bits that differ; of bools, whether they differ."""
    @staticmethod
    def cast(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        overflow: Literal["", "saturate"] = "",
        workspace: object = None,
    ) -> None:
        """`src` in the dtype of `dst`: floats to nearest even, floats to integers as C does, saturating."""
    @staticmethod
    def ceil(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The smallest integer not below `src`."""
    @staticmethod
    def compute(
        dst: Tile,
        a: Tile,
        b: Tile = None,
        c: Tile = None,
        d: Tile = None,
        e: Tile = None,
        f: Tile = None,
        g: Tile = None,
        h: Tile = None,
        i: Tile = None,
        j: Tile = None,
        k: Tile = None,
        l: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        formula: str = "",
        workspace: object = None,
    ) -> None:
        """Each element of `dst` gets what `formula`, an expression over the sources `a`, `b`, `c` ..., comes to."""
    @staticmethod
    def copy(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        clip: bool = False,
        fill: float | int | None = None,
        workspace: object = None,
    ) -> None:
        """When the call returns, the calling threads have copied `src` to `dst`, converted to its dtype."""
    @staticmethod
    def copy_async(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        cta_group: Literal[1, 2] = 1,
        fmt: Literal["", "b4x16_p64", "b6x16_p32"] = "",
        vec_len: int | None = None,
        clip: bool = False,
        fill: float | int | None = None,
        mbar: object = None,
        cta_mask: object = None,
        cache_hint: Literal["", "evict_first", "evict_last", "evict_normal"] = "",
        oob: Literal["", "zero", "nan"] = "",
        use_tma_reduce: Literal["", "add", "min", "max", "inc", "dec", "and", "or", "xor"] = "",
        remote_cta_id: object = None,
        workspace: object = None,
    ) -> None:
        """The call begins to move the elements of `src` to `dst`; waiting for its completion is the caller's."""
    @staticmethod
    def cos(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The cosine of radians."""
    @staticmethod
    def eq(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether the sides are equal."""
    @staticmethod
    def erf(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The error function."""
    @staticmethod
    def exp(
        dst: Tile,
        src: Tile = None,
        bias: Tile = None,
        scale: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """e to the power `src * scale + bias`."""
    @staticmethod
    def exp2(
        dst: Tile,
        src: Tile = None,
        bias: Tile = None,
        scale: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """2 to the power `src * scale + bias`."""
    @staticmethod
    def fdiv(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        rounding_mode: Literal["rn", "rz", "rm", "rp"] = "rn",
        workspace: object = None,
    ) -> None:
        """The quotient of floats."""
    @staticmethod
    def fill(
        dst: Tile,
        value: Value,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Every element of `dst` gets `value`, converted to its dtype; nothing is stored outside of the buffer."""
    @staticmethod
    def floor(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The largest integer not above `src`."""
    @staticmethod
    def floordiv(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The quotient of integers, rounded down; of no meaning where `src2` is 0."""
    @staticmethod
    def fma(
        dst: Tile,
        src: Tile,
        scale: Tile,
        bias: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        rounding_mode: Literal["rn", "rz", "rm", "rp"] = "rn",
        workspace: object = None,
    ) -> None:
        """src * scale + bias, of floats rounded once."""
    @staticmethod
    def ge(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether `src1` is greater or equal."""
    @staticmethod
    def gelu(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        approximate: Literal["none", "tanh"] = "none",
        workspace: object = None,
    ) -> None:
        """src by the normal distribution below it."""
    @staticmethod
    def gemm(
        D: Tile,
        A: Tile,
        B: Tile,
        C: Tile = None,
        transpose_A: bool = False,
        transpose_B: bool = False,
        alpha: Value = 1.0,
        beta: Value = 0.0,
        *,
        dispatch: str | None = None,
        workspace: object = None,
    ) -> None:
        """`D` becomes `alpha * A @ B + beta * C`; with `beta` 0 `C` is not read. `C` is `D` if left out."""
    @staticmethod
    def gemm_async(
        D: Tile,
        A: Tile,
        B: Tile,
        accum: Value = False,
        SFA: Tile = None,
        SFB: Tile = None,
        sp_meta: Tile = None,
        *,
        dispatch: str | None = None,
        transA: bool = False,
        transB: bool = False,
        negate: bool = False,
        negateA: bool = False,
        negateB: bool = False,
        scale_input_d: int = 0,
        ws: bool = False,
        collector: str = "",
        sync: bool = False,
        cta_group: Literal[1, 2] = 1,
        a_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
        b_dtype: Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] = "",
        workspace: object = None,
    ) -> None:
        """The call begins to compute `D = A @ B.T`, or `D += A @ B.T` where `accum`; waiting for it is the caller's."""
    @staticmethod
    def gt(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether `src1` is greater."""
    @staticmethod
    def im2col_async(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        pixel: object = None,
        channel: object = None,
        tap: object = None,
        taps: tuple[int, ...] | None = None,
        padding: tuple[int, ...] | None = None,
        stride: tuple[int, ...] | None = None,
        dilation: tuple[int, ...] | None = None,
        mbar: object = None,
        cta_mask: object = None,
        cta_group: Literal[1, 2] = 1,
        cache_hint: Literal["", "evict_first", "evict_last", "evict_normal"] = "",
        workspace: object = None,
    ) -> None:
        """The call begins to bring to row i of `dst` the channels that a filter's tap meets at the i-th pixel."""
    @staticmethod
    def invert(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The bits that `src` has not; of bools, the other one."""
    @staticmethod
    def le(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether `src1` is less or equal."""
    @staticmethod
    def log(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The natural logarithm."""
    @staticmethod
    def log2(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The logarithm to base 2."""
    @staticmethod
    def lt(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether `src1` is less."""
    @staticmethod
    def max(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        nan: Literal["propagate", "number"] = "propagate",
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the largest elements of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def maximum(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        nan: Literal["propagate", "number"] = "propagate",
        workspace: object = None,
    ) -> None:
        """The larger one."""
    @staticmethod
    def memset(
        dst: Tile,
        value: Value,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Every element of `dst` gets `value`: `fill` under another name."""
    @staticmethod
    def min(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        nan: Literal["propagate", "number"] = "propagate",
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the smallest elements of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def minimum(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        nan: Literal["propagate", "number"] = "propagate",
        workspace: object = None,
    ) -> None:
        """The smaller one."""
    @staticmethod
    def mod(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """What `floordiv` leaves over, with the sign of `src2`; of no meaning where that is 0."""
    @staticmethod
    def mul(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        rounding_mode: Literal["rn", "rz", "rm", "rp"] = "rn",
        workspace: object = None,
    ) -> None:
        """The product."""
    @staticmethod
    def ne(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Whether the sides differ."""
    @staticmethod
    def neg(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src` with the other sign."""
    @staticmethod
    def permute_layout(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        workspace: object = None,
    ) -> None:
        """`dst` gets the elements of `src`, in its own layout. All are read before any is written."""
    @staticmethod
    def pow(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src1` to the power `src2`."""
    @staticmethod
    def prod(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the products of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def reciprocal(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """1 / src, correctly rounded."""
    @staticmethod
    def reduce(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        formula: str = "",
        identity: float | int = 0,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the elements of `src` along `axes` joined by `formula`, an expression over `a` and `b`."""
    @staticmethod
    def relu(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src` where it is positive, else 0; NaN stays."""
    @staticmethod
    def rint(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The nearest integer, halves to even."""
    @staticmethod
    def rsqrt(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """1 / sqrt(src)."""
    @staticmethod
    def scan(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axis: int = -1,
        op: Literal["sum", "prod", "max", "min"] = "sum",
        exclusive: bool = False,
        workspace: object = None,
    ) -> None:
        """Each element of `dst` gets the sum, or `op`, of the elements of `src` along `axis` up to its own."""
    @staticmethod
    def select(
        dst: Tile,
        true: Tile,
        false: Tile,
        pred: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`true` where `pred` is not 0, else `false`."""
    @staticmethod
    def shl(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src1 * 2**src2` of integers, modulo their range; `src2` is from 0 to their bits - 1."""
    @staticmethod
    def shr(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src1 / 2**src2` of integers, rounded down; `src2` is from 0 to their bits - 1."""
    @staticmethod
    def sigmoid(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """1 / (1 + exp(-src))."""
    @staticmethod
    def silu(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """src / (1 + exp(-src))."""
    @staticmethod
    def sin(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The sine of radians."""
    @staticmethod
    def sqrt(
        dst: Tile,
        src: Tile = None,
        bias: Tile = None,
        scale: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The square root of `src * scale + bias`."""
    @staticmethod
    def sub(
        dst: Tile,
        src1: Tile,
        src2: Tile,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        rounding_mode: Literal["rn", "rz", "rm", "rp"] = "rn",
        workspace: object = None,
    ) -> None:
        """The difference."""
    @staticmethod
    def sum(
        dst: Tile,
        src: Tile,
        *,
        dispatch: str | None = None,
        axes: int | tuple[int, ...] = -1,
        accum: bool = False,
        thread_reduce: bool = False,
        workspace: object = None,
    ) -> None:
        """`dst` gets the sums of `src` along `axes`; what is outside of its buffer counts nothing."""
    @staticmethod
    def tanh(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """The hyperbolic tangent."""
    @staticmethod
    def trunc(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """`src` without its fraction."""
    @staticmethod
    def zero(
        dst: Tile,
        src: Tile = None,
        *,
        dispatch: str | None = None,
        vec_len: int | None = None,
        workspace: object = None,
    ) -> None:
        """Every element of `dst` becomes 0; nothing is stored outside of the buffer. `src`, as large, is not read."""

class Scope(TileFunctions):
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

class TileNamespace(TileFunctions):
    thread: Scope
    warp: Scope
    wg: Scope
    warpgroup: Scope
    cta: Scope
    cluster: Scope

Tx: TileNamespace
