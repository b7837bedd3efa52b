"""Values that no public function expects, and some that it does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from tilewright import T, Tx
from tilewright.layout import INTS, ComposeLayout, Iter, R, S, SwizzleLayout, laneid, m, warpid

RECORDS = np.zeros(4, dtype=[("a", "f4"), ("b", "i2")])
READ_ONLY = np.arange(8, dtype=np.float32)
READ_ONLY.flags.writeable = False


class Comparing:
    """Its comparison is no truth."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])


class TensorLike:
    """Looks like a tensor of torch, without memory."""

    shape = (8, 8)
    dtype = "torch.float32"

    def data_ptr(self) -> str:
        return "nowhere"

    def stride(self) -> int:
        return 1


NUMBERS = [
    True,
    0,
    1,
    -1,
    7,
    2**31,
    2**64,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    1j,
    np.int64(3),
    np.int8(-1),
]
NUMBERS += [np.float32(2), np.bool_(True), np.datetime64("2020"), ml_dtypes.bfloat16(1)]
TEXTS = ["", "x", "laneid", "sm_90a", "\ud800", "a\x00", "float16", "S[8", "S[8] : 3", "-" * 5000, b"", bytearray(b"m")]
GROUPS: list[Any] = [
    (),
    [],
    {},
    set(),
    (1,),
    (8, 8),
    [8, 8],
    (-1, 4),
    (2.5,),
    ("a",),
    (None,),
    ((1, 2), (3, 4)),
    [(0, 4)],
    [(0, "a")],
]
GROUPS += (range(3), slice(0, 4), (10**9, 10**9), (2**70,))
ARRAYS = [np.array(3), np.arange(4), np.arange(8)[::-2], np.zeros((2, 2), ">f4"), np.zeros(0), RECORDS, RECORDS[0]]
ARRAYS += [READ_ONLY, np.array(["a"]), np.array([object()]), np.ma.masked_array([1, 2], [False, True]), np.ma.masked]
OBJECTS = [
    None,
    object(),
    int,
    print,
    Ellipsis,
    NotImplemented,
    Exception(),
    Comparing(),
    TensorLike(),
    memoryview(b"ab"),
]
LAYOUTS: list[Any] = [
    S[8],
    S[8, 8],
    S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)],
    S[(8, 4)] + R[2 : 4 @ warpid] + 5 @ warpid,
    S[8:-1],
]
LAYOUTS += [SwizzleLayout(3, 3, 3), ComposeLayout(SwizzleLayout(3, 3, 3), S[8, 64]), R[2 : 8 @ laneid]]
PARTS = [laneid, m, Iter(4, 1), 3 @ laneid, INTS, T, T.ptx, Tx, T.float32]

VALUES: list[Any] = [*NUMBERS, *TEXTS, *GROUPS, *ARRAYS, *OBJECTS, *LAYOUTS, *PARTS]

any_value = st.integers(0, len(VALUES) - 1).map(VALUES.__getitem__) | st.builds(lambda: (n for n in range(3)))
