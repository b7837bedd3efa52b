"""`T.ptx` and `T.cuda` with the rows that a test adds, and the forms that others write: the stub has ours alone."""

from __future__ import annotations

from typing import Any

from tilewright import T

ptx: Any = T.ptx
cuda: Any = T.cuda
