"""cp.async: how it is spelled, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.isa.forms import form_of
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.ir import Buffer, Var, row_major

TILE = Buffer("tile", dtype("uint8"), (64,), "shared", row_major((64,)))
SOURCE = Buffer("source", dtype("uint8"), (64,), "global", row_major((64,)))
COPY = "cp.async.{}.shared.global{} [d], [s], {};"


def spelled(n: int, **given: Any) -> str:
    bound = form_of("ptx.cp_async", TILE.ptr_to([0]), SOURCE.ptr_to([0]), n, **given)
    return bound.code(
        {"dst": "d", "src": "s", **{name: f"%{name}" for name in bound.operands}} | {"dst": "d", "src": "s"}
    )


@pytest.mark.parametrize(
    ("n", "given", "text"),
    [
        (4, {}, COPY.format("ca", "", "4")),
        (16, {}, COPY.format("cg", "", "16")),
        (16, {"cache": "cg"}, COPY.format("cg", "", "16")),
        (8, {"cache": "ca"}, COPY.format("ca", "", "8")),
        (16, {"cache": "ca", "prefetch_size": 128}, COPY.format("ca", ".L2::128B", "16")),
        (16, {"src_size": 3}, COPY.format("cg", "", "16, %src_size")),
        (8, {"cache_policy": 1 << 60}, COPY.format("ca", ".L2::cache_hint", "8, %cache_policy")),
        (
            *(4, {"predicate": Var("p", dtype("bool"))}),
            "{ .reg .pred copies; setp.ne.b32 copies, %predicate, 0; @copies " + COPY.format("ca", "", "4") + " }",
        ),
        (
            *(4, {"predicate": Var("p", dtype("bool")), "fill_mode": "zero"}),
            "{ .reg .pred none; setp.eq.b32 none, %predicate, 0; " + COPY.format("ca", "", "4, none") + " }",
        ),
        (
            *(16, {"cache_hint": "evict_first"}),
            "{ .reg .b64 policy; mov.b64 policy, 0x12f0000000000000; "
            + COPY.format("cg", ".L2::cache_hint", "16, policy")
            + " }",
        ),
    ],
)
def test_a_copy_is_spelled_as_the_manual_has_it(n: int, given: dict[str, Any], text: str) -> None:
    assert spelled(n, **given) == text


@pytest.mark.parametrize("given", [{"n": 2}, {"n": 4, "cache": "cg"}, {"n": 16, "prefetch_size": 32}])
def test_what_the_assembler_would_refuse_is_an_error(given: dict[str, Any]) -> None:
    with pytest.raises(InstructionError, match="no form with these modifiers"):
        spelled(**given)


@pytest.mark.parametrize(("n", "size"), [(16, 17), (4, 8), (16, -1)])
def test_a_copy_reads_no_more_than_it_copies(n: int, size: int) -> None:
    with pytest.raises(InstructionError, match="cp_async: src_size") as error:
        spelled(n, src_size=size)

    assert error.value.allowed == f"0..{n} bytes, those of the copy"


def test_a_wait_is_for_a_number_of_groups() -> None:
    with pytest.raises(InstructionError, match=r"T\.ptx\.cp_async\.wait_group: n"):
        isa.call("ptx.cp_async.wait_group", -1)
