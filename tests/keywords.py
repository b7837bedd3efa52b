"""The values of keywords of tile calls, as types: what a kernel closes over has them, too."""

from __future__ import annotations

from typing import Literal, TypeAlias

TmaReduction: TypeAlias = Literal["", "add", "min", "max", "inc", "dec", "and", "or", "xor"]
NarrowFloat: TypeAlias = Literal["", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]
CtaGroup: TypeAlias = Literal[1, 2]
