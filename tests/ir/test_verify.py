"""The verifier: each rule of a well-formed kernel, kept once and broken once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.dtypes import BOOL, HANDLE, DType, dtype
from tilewright.errors import KernelError, Span
from tilewright.ir import (
    AddressOf,
    AllocBuffer,
    Assign,
    Assume,
    Attr,
    Bind,
    Break,
    Buffer,
    Call,
    Continue,
    DeclBuffer,
    DeviceEntry,
    Evaluate,
    For,
    If,
    Kernel,
    Launch,
    Load,
    ScopeId,
    Stmt,
    Store,
    TileCallStmt,
    Value,
    Var,
    While,
    as_expr,
    row_major,
)
from tilewright.ir.verify import verify

FLOAT16, FLOAT32, INT64 = map(dtype, ("float16", "float32", "int64"))
A_PTR, N, M = Var("A_ptr", HANDLE), Var("n"), Var("m")
X, Y, I_, T_ = Var("x"), Var("y"), Var("i"), Var("t")
AT = Span("stage.py", 21)


def buffer(name: str, *shape: Value, kind: DType = FLOAT32, space: str = "shared", **fields: object) -> Buffer:
    return Buffer(name, kind, shape, space, row_major(shape), **fields)  # type: ignore[arg-type]  # fields of a Buffer


A = buffer("A", N, 64, space="global", data=A_PTR)
B = buffer("B", 8, 64)
R = buffer("R", 4, space="local")


def kernel(*body: Stmt) -> Kernel:
    return Kernel("k", (A_PTR, M), (A,), (ScopeId("thread_id", (T_,), (128,)), *body), symbols=(N,))


def zero(kind: DType = FLOAT32) -> object:
    return as_expr(0, kind)


def loop(*body: Stmt, kind: str = "serial", step: int = 1) -> For:
    return For(I_, as_expr(0), as_expr(8), body, kind=kind, step=step, at=AT)


def store(place: Buffer, *indices: Value, value: object = None) -> Store:
    chosen = zero(place.dtype) if value is None else value
    return Store(Load(place, tuple(map(as_expr, indices))), chosen, at=AT)  # type: ignore[arg-type]


ALLOC = AllocBuffer(B, at=AT)


def test_a_well_formed_kernel_passes() -> None:
    verify(
        kernel(
            DeviceEntry(),
            Assume(N % 8 == 0),
            ALLOC,
            AllocBuffer(R),
            DeclBuffer(buffer("V", 512, data=AddressOf(B))),
            Bind(X, as_expr(0)),
            loop(If(I_ < N, (store(B, I_, T_ % 64), Assign(X, X + 1)), (Continue(),)), Break()),
            While(X < 4, (Assign(X, X + 1),)),
            TileCallStmt("copy", "warp", (B[0:8, :], A[0:8, :])),
            Evaluate(Call("cuda.cta_sync", (), (), dtype("void"))),
        )
    )


BROKEN: dict[str, tuple[Callable[[], tuple[Stmt, ...]], str]] = {
    # names
    "an undefined variable": (lambda: (AllocBuffer(R), store(R, X)), "variable x is not defined here"),
    "a variable used in its own definition": (lambda: (Bind(X, X + 1),), "variable x is not defined here"),
    "a loop variable in its own bounds": (
        lambda: (For(I_, as_expr(0), I_ + 1, ()),),
        "variable i is not defined here",
    ),
    "a variable of a block that has ended": (
        lambda: (AllocBuffer(R), loop(), store(R, I_)),
        "(?s)variable i is not defined here.*in a block that has ended",
    ),
    "a variable before its line": (
        lambda: (AllocBuffer(R), store(R, X), Bind(X, as_expr(0))),
        "(?s)variable x is not defined.*further down",
    ),
    "a name twice": (lambda: (Bind(X, as_expr(0)), Bind(X, as_expr(1))), "the name x is taken"),
    "a buffer with the name of a variable": (
        lambda: (Bind(Var("B"), as_expr(0)), ALLOC),
        "the name B is taken",
    ),
    "a variable of another dtype": (
        lambda: (Bind(X, as_expr(0)), Bind(Y, Var("x", INT64) + 0)),
        "x has two dtypes",
    ),
    "a buffer before its allocation": (
        lambda: (store(B, 0, 0), ALLOC),
        "(?s)buffer B is not defined here.*further down",
    ),
    "a tile call on a buffer that nothing declares": (
        lambda: (TileCallStmt("copy", "warp", (B.region(), A[0:8, :])),),
        "buffer B is not defined here",
    ),
    "a view of a buffer that nothing declares": (
        lambda: (DeclBuffer(buffer("V", 512, data=AddressOf(B))),),
        "buffer B is not defined here",
    ),
    # dtypes
    "a store of another dtype": (
        lambda: (ALLOC, store(B, 0, 0, value=zero(FLOAT16))),
        r"(?s)elements of B are float32.*given: +float16.*try: +T.cast\(",
    ),
    "a binding of another dtype": (lambda: (Bind(X, as_expr(0, INT64)),), "x is int32"),
    "an assignment of another dtype": (
        lambda: (Bind(X, as_expr(0)), Assign(X, as_expr(0, INT64))),
        "x is int32",
    ),
    "an index that is a float": (lambda: (AllocBuffer(R), store(R, as_expr(1.5))), "an index of R is an integer"),
    "a condition that is a number": (lambda: (Bind(X, as_expr(0)), If(X, ())), "if takes a condition"),
    "a while on a number": (lambda: (Bind(X, as_expr(0)), While(X, ())), "while takes a condition"),
    "loop ends of another dtype": (lambda: (For(I_, as_expr(0), as_expr(8, INT64), ()),), "stop of its loop"),
    "a loop over floats": (
        lambda: (For(Var("f", FLOAT32), zero(), zero(), ()),),  # type: ignore[arg-type]
        "f counts",
    ),
    # assignment
    "an assignment to a parameter": (lambda: (Assign(M, as_expr(0)),), "(?s)m cannot be assigned to.*a parameter"),
    "an assignment to a T.let": (
        lambda: (Bind(X, as_expr(0), mutable=False), Assign(X, as_expr(1))),
        "(?s)x cannot be assigned to.*bound for good",
    ),
    "an assignment to a loop variable": (lambda: (loop(Assign(I_, as_expr(1))),), "i cannot be assigned to"),
    "an assignment to a scope id": (lambda: (Assign(T_, as_expr(1)),), "t cannot be assigned to"),
    "a view that depends on what changes": (
        lambda: (
            ALLOC,
            Bind(X, as_expr(0)),
            DeclBuffer(buffer("V", 64, data=AddressOf(B), elem_offset=X)),
            Assign(X, as_expr(64)),
        ),
        "(?s)the view V depends on x, which is assigned to.*T.let",
    ),
    # places
    "too few indices": (lambda: (ALLOC, store(B, 0)), r"(?s)B has 2 dimensions.*1 indices.*shape \(8, 64\)"),
    "an index past the end": (lambda: (ALLOC, store(B, 8, 0)), "(?s)index 8 is outside of B.*dimension 0.*0 to 7"),
    "a negative index": (lambda: (ALLOC, store(B, 0, -1)), "(?s)index -1 is outside of B.*try: +64 - 1"),
    "a region past the end": (
        lambda: (ALLOC, TileCallStmt("copy", "cta", (B[0:9, :], A[0:9, :]))),
        r"(?s)the region B\[0:9, 0:64\] lies outside of B.*within 0:8",
    ),
    "an empty region": (
        lambda: (ALLOC, TileCallStmt("copy", "cta", (B[4:4, :], A[4:4, :]))),
        "lies outside of B",
    ),
    # statements
    "break outside of a loop": (lambda: (Break(),), "`break` outside of a loop"),
    "continue outside of a loop": (lambda: (If(T_ < 1, (Continue(),)),), "`continue` outside of a loop"),
    "break in a vectorized loop": (lambda: (loop(Break(), kind="vectorized"),), "`break` inside of T.vectorized"),
    "a loop that never ends": (lambda: (loop(step=0),), "the loop over i never ends"),
    "an unknown kind of loop": (lambda: (loop(kind="paralel"),), "unknown kind of loop"),
    "an allocation in global memory": (
        lambda: (AllocBuffer(buffer("G", 8, space="global")),),
        "G cannot be allocated in global memory",
    ),
    "an allocation of symbolic size": (
        lambda: (AllocBuffer(buffer("G", N, space="local"), at=AT),),
        "the storage of G must have a constant size",
    ),
    "an assumption about a thread": (lambda: (Assume(T_ < 3),), "T.assume states a fact about the arguments"),
    "an assumption about memory": (
        lambda: (ALLOC, Assume(Load(B, (as_expr(0), as_expr(0))) > 0)),
        "T.assume states a fact about the arguments",
    ),
    "an unknown tile scope": (
        lambda: (ALLOC, TileCallStmt("copy", "wrap", (B.region(), A[0:8, :]))),
        "(?s)unknown scope of copy.*did you mean 'warp'",
    ),
    "a tile call without a destination": (lambda: (TileCallStmt("copy", "warp", ()),), "copy writes to a buffer"),
    "scope ids that disagree": (lambda: (ScopeId("warp_id", (X,), (8,)),), "scope ids disagree"),
    "a scope id of another dtype": (
        lambda: (ScopeId("lane_id", (Var("l", INT64),), (None,)),),
        "T.lane_id gives int32",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_refused(name: str) -> None:
    body, message = BROKEN[name]

    with pytest.raises(KernelError, match=message):
        verify(kernel(*body()))


def test_the_error_stands_at_the_statement() -> None:
    with pytest.raises(KernelError, match=r"stage.py:21: index 9 is outside of B"):
        verify(kernel(ALLOC, store(B, 9, 0)))


def test_a_pointer_may_stand_right_behind_the_last_element() -> None:
    end = Call("cuda.ignore", (AddressOf(B, (as_expr(8), as_expr(0))),), (), dtype("void"))

    verify(kernel(ALLOC, Evaluate(end)))


def test_a_view_written_in_place_needs_no_name() -> None:
    view = buffer("B_view", 512, data=AddressOf(B))

    verify(kernel(ALLOC, store(view, 511)))


def test_a_bool_parameter_is_a_condition() -> None:
    flag = Var("flag", BOOL)

    verify(Kernel("k", (flag,), (), (If(flag, ()),)))


# The lowered stage

FLAT = Buffer("B", FLOAT32, (512,), "shared", None)
OTHER = Buffer("C", FLOAT32, (64,), "shared", None)
LAUNCH = Launch((1, 1, 1), 128, shared_bytes=4096)


def lowered(*body: Stmt, launch: Launch | None = LAUNCH) -> Kernel:
    return Kernel("k", (), (), body, stage="lowered", launch=launch)


def placed(place: Buffer = FLAT, offset: int | None = 0) -> AllocBuffer:
    return AllocBuffer(place, offset)


def test_a_well_formed_lowered_kernel_passes() -> None:
    comment = Attr((("comment", "copy/reg: stage.py:21"),))

    verify(lowered(placed(), placed(OTHER, 2048), comment, store(FLAT, 511), store(OTHER, 0)))


BROKEN_LOWERED: dict[str, tuple[Kernel, str]] = {
    "no launch": (lowered(launch=None), "k has no launch"),
    "too many threads": (lowered(launch=Launch((1, 1, 1), 2048)), "k has no launch"),
    "a tile call": (
        lowered(placed(), TileCallStmt("copy", "warp", (FLAT.region(), FLAT.region()))),
        "a tile call in a",
    ),
    "a scope id": (lowered(ScopeId("lane_id", (X,), (32,))), "a scope id in a lowered kernel"),
    "an attribute": (lowered(Attr((("pragma", 1),))), "an attribute in a lowered kernel"),
    "a vectorized loop": (lowered(loop(kind="vectorized")), "a vectorized loop in a lowered kernel"),
    "a layout": (lowered(placed(buffer("B", 8, 64)), store(buffer("B", 8, 64), 0, 0)), "B is not flat"),
    "an unplaced buffer": (lowered(placed(offset=None)), "B is not placed in shared memory"),
    "a buffer outside of the arena": (lowered(placed(offset=2064)), "B is not placed in shared memory"),
    "two buffers in one place": (lowered(placed(), placed(OTHER, 2032)), "C overlaps B in shared memory"),
}


@pytest.mark.parametrize("name", BROKEN_LOWERED)
def test_a_broken_contract_of_the_lowered_stage_is_refused(name: str) -> None:
    made, message = BROKEN_LOWERED[name]

    with pytest.raises(KernelError, match=message):
        verify(made)
