"""Tile calls: regions, scopes, and what a call says to the dispatcher."""

from __future__ import annotations

import pytest

from tests.lang.kernels import body, line_of, statement
from tilewright.errors import KernelError
from tilewright.ir import AddressOf, AllocBuffer, Kernel, Region, TileCallStmt, Var
from tilewright.lang import T, Tx, parse_script
from tilewright.lang.tile_assignments import SCOPES


def regions(kernel: Kernel, place: int) -> list[Region]:
    """The tiles of a call."""
    return [arg for arg in statement(kernel, place, TileCallStmt).args if isinstance(arg, Region)]


@pytest.mark.parametrize("scope", ["", *SCOPES])
def test_the_prefix_is_the_scope(scope: str) -> None:
    prefix = getattr(Tx, scope) if scope else Tx

    @T.prim_func
    def k(A: T.Buffer((8, 4), "float16")):
        B = T.alloc_shared((8, 4), "float16")
        prefix.copy(B, A)

    call, memory = statement(k, 1, TileCallStmt), statement(k, 0, AllocBuffer).buffer
    assert call.scope == SCOPES.get(scope, "thread")
    assert call.args == (Region(memory, ((0, 8), (0, 4))), Region(k.buffers[0], ((0, 8), (0, 4))))
    assert body(k)


def test_regions_are_slices_tuples_of_slices_and_indices() -> None:
    full = (slice(0, 8), slice(0, 4))

    @T.prim_func
    def k(A: T.Buffer((64, 4), "float16"), i: T.int32):
        B = T.alloc_shared((8, 4), "float16")
        Tx.warp.copy(B[full], A[8:16, :])
        Tx.cta.copy(B[:, :], A[i * 8 : (i + 1) * 8, 0:4])
        Tx.copy(B[i, 0:2], A[i, 2:4])
        Tx.copy(B[0, 1], A[i, 1])

    assert body(k).splitlines()[1:] == [
        "Tx.warp.copy(B[0:8, 0:4], A[8:16, 0:4])",
        "Tx.cta.copy(B[0:8, 0:4], A[i * 8:i * 8 + 8, 0:4])",
        "Tx.copy(B[i:i + 1, 0:2], A[i:i + 1, 2:4])",
        "Tx.copy(B[0:1, 1:2], A[i:i + 1, 1:2])",
    ]
    assert regions(k, 2)[1].extents == (8, 4)


def test_a_symbolic_extent_stays_symbolic() -> None:
    @T.prim_func
    def k(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16"), a: T.int32, n: T.int32):
        Tx.copy(A[a : a + n], B[a:n])

    first, second = regions(k, 0)
    assert first.extents == (Var("n"),)
    assert str(second.extents[0]) == "n - a"
    assert body(k)


def test_what_a_call_tells_the_variants() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float16")):
        B = T.alloc_shared((8,), "float16")
        bar = T.alloc_shared((1,), "uint64")
        Tx.cta.copy(B, A, dispatch="gmem_smem", vec_len=8)
        Tx.copy_async(
            dst=B[:],
            src=A[0:8],
            mbar=bar.ptr_to([0]),
            cta_group=1,
            workspace={"scratch": B},
            cache_hint=None,  # type: ignore[arg-type]  # as others write it
        )

    first, second = statement(k, 2, TileCallStmt), statement(k, 3, TileCallStmt)
    assert (first.dispatch, first.config) == ("gmem_smem", (("vec_len", 8),))
    assert second.dispatch is None
    assert dict(second.config)["workspace"] == (("scratch", AddressOf(statement(k, 0, AllocBuffer).buffer)),)
    assert body(k).splitlines()[-2] == 'Tx.cta.copy(B[0:8], A[0:8], dispatch="gmem_smem", vec_len=8)'


def test_the_place_of_a_tile_call_is_its_primitive() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        Tx.warp.copy(A, B)

    at = k.body[0].at
    assert at is not None
    code, carets = at.excerpt()
    assert code[carets.index("^") : carets.rindex("^") + 1] == "copy"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: Tx.warp.convolve(A, A), "Tx.warp.convolve is not a tile primitive"),  # type: ignore[attr-defined]  # none
        (lambda A: Tx.warp.cta.copy(A, A), "Tx.warp.cta is not a tile primitive"),  # type: ignore[attr-defined]  # none
        (lambda A: Tx.copy(A), "Tx.copy takes dst and src"),  # type: ignore[call-arg]  # wrong on purpose
        (lambda A: Tx.copy(A, 3), "copy: src is a tile"),
        (lambda A: Tx.copy(A[0] + 1, A), "copy: dst is a tile"),
    ],
)
def test_a_call_that_is_none(call, message: str) -> None:
    with pytest.raises(KernelError, match=message) as raised:

        @T.prim_func
        def k(A: T.Buffer((8,), "float16")):
            call(A)

    assert line_of(raised.value).excerpt()[0].endswith("call(A)")


@pytest.mark.parametrize("index", ["{}", "T", "0.5", "0.5:8"])
def test_an_index_of_a_region_is_an_integer(index: str) -> None:
    with pytest.raises(KernelError, match="an index of A is an integer"):
        parse_script(f'@T.prim_func\ndef k(A: T.Buffer((8, 8), "float32")):\n    Tx.copy(A[0], A[{index}])\n')


@pytest.mark.parametrize("name", ["[1]", "3", "T", "{}"])
def test_a_variant_is_named_by_a_string(name: str) -> None:
    with pytest.raises(KernelError, match=r"Tx\.copy: dispatch is the name of a variant"):
        parse_script(
            f'@T.prim_func\ndef k(A: T.Buffer((8, 8), "float32")):\n    Tx.copy(A[0], A[1], dispatch={name})\n'
        )
