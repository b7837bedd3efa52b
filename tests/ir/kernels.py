"""Kernels of any form, for property tests: expressions as passes may leave them, and statements of both stages."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tilewright.dtypes import BOOL, HANDLE, DType, dtype
from tilewright.ir import (
    SPECIALS,
    AddressOf,
    AllocBuffer,
    Assign,
    Assume,
    Attr,
    Binary,
    Bind,
    Body,
    Break,
    Buffer,
    Call,
    Cast,
    Const,
    Continue,
    DeclBuffer,
    DeviceEntry,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Launch,
    Load,
    Region,
    Reinterpret,
    ScopeId,
    Select,
    Special,
    Stmt,
    Store,
    TileCallStmt,
    Unary,
    Var,
    While,
    row_major,
)
from tilewright.layout import S, laneid

INT32, INT64, UINT8, FLOAT16, FLOAT32 = map(dtype, ("int32", "int64", "uint8", "float16", "float32"))
KINDS = (INT32, INT64, UINT8, FLOAT16, FLOAT32)
VARS = {kind: Var(f"a_{kind}", kind) for kind in KINDS}
POINTER = Var("A_ptr", HANDLE)
N = Var("n", INT32)


def identical(a: object, b: object) -> bool:
    """Structural equality down to dtypes and signs of zero, without asking expressions whether they are equal."""
    if is_dataclass(a) and not isinstance(a, type):
        names = [field.name for field in fields(a) if field.compare or isinstance(a, Expr)]
        return type(a) is type(b) and all(identical(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(identical, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


def constants(kind: DType) -> SearchStrategy[Const]:
    if kind == BOOL:
        return st.booleans().map(lambda value: Const(value, kind))
    if kind.is_float:
        values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 65504.0, float("inf"), float("-inf"), float("nan")])
        return values.map(lambda value: Const(value, kind))
    low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.is_signed else (0, (1 << kind.bits) - 1)
    return st.one_of(st.sampled_from([low, high, 0, 1, 2]), st.integers(low, high)).map(lambda v: Const(v, kind))


class Expressions:
    """Strategies for expressions of a dtype over the variables and buffers that are there."""

    def __init__(self, buffers: tuple[Buffer, ...], leaves: tuple[Expr, ...]) -> None:
        self.buffers, self.leaves = buffers, leaves
        self.made: dict[tuple[DType, int], SearchStrategy[Expr]] = {}

    def of(self, kind: DType, depth: int = 3) -> SearchStrategy[Expr]:
        """Any expression of this dtype, folded or not."""
        if (kind, depth) not in self.made:
            self.made[kind, depth] = st.deferred(lambda: self.any(kind, depth))
        return self.made[kind, depth]

    def any(self, kind: DType, depth: int) -> SearchStrategy[Expr]:
        leaves = [leaf for leaf in self.leaves if leaf.dtype == kind]
        choices: list[SearchStrategy[Expr]] = [constants(kind), *([st.sampled_from(leaves)] if leaves else [])]
        if depth > 0:
            choices += self.logic(depth - 1) if kind == BOOL else self.arithmetic(kind, depth - 1)
            choices.append(
                st.sampled_from([k for k in (*KINDS, BOOL) if k != kind]).flatmap(self._cast(kind, depth - 1))
            )
            choices.append(
                st.builds(
                    Select, self.of(BOOL, depth - 1), self.of(kind, depth - 1), self.of(kind, depth - 1), st.just(kind)
                )
            )
            choices += [self.element(buffer, depth - 1) for buffer in self.buffers if buffer.dtype == kind]
        return st.one_of(choices)

    def _cast(self, kind: DType, depth: int):
        return lambda other: st.builds(Cast, self.of(other, depth), st.just(kind))

    def logic(self, depth: int) -> list[SearchStrategy[Expr]]:
        def compare(kind: DType) -> SearchStrategy[Expr]:
            ops = st.sampled_from(Binary.COMPARISONS)
            return st.builds(Binary, ops, self.of(kind, depth), self.of(kind, depth), st.just(BOOL))

        logic = st.builds(
            Binary, st.sampled_from(Binary.LOGIC), self.of(BOOL, depth), self.of(BOOL, depth), st.just(BOOL)
        )
        return [
            st.sampled_from(KINDS).flatmap(compare),
            logic,
            st.builds(Unary, st.just("not"), self.of(BOOL, depth), st.just(BOOL)),
        ]

    def arithmetic(self, kind: DType, depth: int) -> list[SearchStrategy[Expr]]:
        floats, ints = (
            ("+", "-", "*", "/", "min", "max"),
            ("+", "-", "*", "//", "%", "truncdiv", "truncmod", "min", "max"),
        )
        ops = st.sampled_from(floats if kind.is_float else (*ints, *Binary.BITS))
        inner = self.of(kind, depth)
        made = [
            st.builds(Binary, ops, inner, inner, st.just(kind)),
            st.builds(Unary, st.sampled_from("-" if kind.is_float else "-~"), inner, st.just(kind)),
        ]
        same_size = {INT32: FLOAT32, FLOAT32: INT32}.get(kind)
        if same_size:
            made.append(st.builds(Reinterpret, self.of(same_size, depth), st.just(kind)))
        if kind == FLOAT32:
            made.append(st.builds(lambda x: Call("exp", (x,), (), FLOAT32), inner))
        return made

    def element(self, buffer: Buffer, depth: int) -> SearchStrategy[Load]:
        index = st.tuples(*(self.index(extent, depth) for extent in buffer.shape))
        return st.builds(Load, st.just(buffer), index)

    def index(self, extent: object, depth: int) -> SearchStrategy[Expr]:
        """An index that is not known to be outside."""
        most = extent - 1 if isinstance(extent, int) else 7
        inside = st.integers(0, most).map(lambda value: Const(value, INT32))
        return st.one_of(inside, self.of(INT32, depth).filter(lambda value: not isinstance(value, Const)))


class Bodies:
    """Strategies for statements; names stay unique because each gets the next number."""

    def __init__(self, draw, stage: str) -> None:
        self.draw, self.stage, self.number = draw, stage, 0

    def name(self, stem: str) -> str:
        self.number += 1
        return f"{stem}_{self.number}"

    def buffer(self, space: str, kind: DType = FLOAT16, data: Expr | None = None) -> Buffer:
        name = self.name("buf")
        if self.stage == "lowered":
            return Buffer(name, kind, (64,), space, None, data=data)
        shape = self.draw(st.sampled_from([(64,), (32, 2)]))
        layout = self.draw(st.sampled_from([row_major(shape), S[shape : (1, 32) if len(shape) == 2 else (2,)]]))
        if space == "local" and data is None and shape == (32, 2):
            layout = S[(32, 2) : (1 @ laneid, 1)]
        return Buffer(name, kind, shape, space, layout, data=data, align=self.draw(st.sampled_from([0, 16])))

    def body(self, vars: tuple[Expr, ...], buffers: tuple[Buffer, ...], depth: int, *, loop: bool) -> Body:
        made: list[Stmt] = []
        for _ in range(self.draw(st.integers(0, 4))):
            stmt, vars, buffers = self.statement(vars, buffers, depth, loop=loop)
            made.append(stmt)
        return tuple(made)

    def statement(
        self, vars: tuple[Expr, ...], buffers: tuple[Buffer, ...], depth: int, *, loop: bool
    ) -> tuple[Stmt, tuple[Expr, ...], tuple[Buffer, ...]]:
        """One statement, and what is there after it."""
        draw, here = self.draw, Expressions(buffers, vars)
        kinds = ["bind", "let", "alloc", "view", "store", "sync", "assume", "evaluate", "comment"]
        kinds += ["for", "while", "if"] if depth else []
        kinds += ["break", "continue"] if loop else []
        kinds += ["tile"] if self.stage == "tile" else []
        kinds += ["assign"] if any(isinstance(var, Var) and var.name.startswith("x") for var in vars) else []
        choice = draw(st.sampled_from(kinds))
        kind = draw(st.sampled_from((*KINDS, BOOL)))
        if choice in ("bind", "let"):
            var = Var(self.name("x" if choice == "bind" else "y"), kind)
            return Bind(var, draw(here.of(kind, 2)), mutable=choice == "bind"), (*vars, var), buffers
        if choice in ("alloc", "view"):
            root = draw(st.sampled_from(buffers))
            data = draw(st.sampled_from([AddressOf(root), AddressOf(root, tuple(Const(0, INT32) for _ in root.shape))]))
            space = draw(st.sampled_from(["local", "shared"]))
            made = self.buffer(space, draw(st.sampled_from(KINDS)), None if choice == "alloc" else data)
            offset = 1024 if self.stage == "lowered" and space == "shared" else None
            return AllocBuffer(made, offset) if choice == "alloc" else DeclBuffer(made), vars, (*buffers, made)
        return self.simple(choice, here, depth, loop=loop), vars, buffers

    def simple(self, choice: str, here: Expressions, depth: int, *, loop: bool) -> Stmt:
        draw, buffers, vars = self.draw, here.buffers, here.leaves
        if choice == "for":
            var = Var(self.name("i"), draw(st.sampled_from([INT32, INT64])))
            start, stop = draw(constants(var.dtype)), draw(here.of(var.dtype, 1))
            body = self.body((*vars, var), buffers, depth - 1, loop=True)
            how = draw(st.sampled_from(["serial", "unroll", "vectorized"]))
            notes = () if how == "vectorized" else draw(st.sampled_from([(), (("unroll", 4),), (("unroll", True),)]))
            return For(var, start, stop, body, how, draw(st.sampled_from([1, 2, -1])), notes)
        if choice == "while":
            return While(draw(here.of(BOOL, 2)), self.body(vars, buffers, depth - 1, loop=True))
        if choice == "if":
            then = self.body(vars, buffers, depth - 1, loop=loop)
            return If(draw(here.of(BOOL, 2)), then, self.body(vars, buffers, depth - 1, loop=loop))
        if choice == "store":
            place = draw(here.element(draw(st.sampled_from(buffers)), 1))
            return Store(place, draw(here.of(place.dtype, 2)))
        if choice == "assign":
            var = draw(st.sampled_from([v for v in vars if isinstance(v, Var) and v.name.startswith("x")]))
            return Assign(var, draw(here.of(var.dtype, 2)))
        if choice == "tile":
            regions = (self.region(here), self.region(here))
            scope = draw(st.sampled_from(["thread", "warp", "warpgroup", "cta"]))
            return TileCallStmt("copy", scope, regions, draw(st.sampled_from([None, "reg"])), (("vec_len", 4),))
        if choice == "evaluate":
            return Evaluate(draw(here.of(FLOAT32, 2)))
        plain: dict[str, list[Stmt]] = {
            "sync": [
                Evaluate(Call("cuda.cta_sync", (), (), dtype("void"))),
                Evaluate(Call("ptx.bar.sync", (Const(1, INT32), Const(128, INT32)), (), dtype("void"))),
            ],
            "assume": [Assume(Binary("<", N, Const(99, INT32), BOOL))],
            "comment": [
                Attr((("comment", "copy/reg: stage.py:21"),)),
                Attr((("comment", ' "odd\n text '),)),
                Attr((("hint", "level=(1, None)"), ("tirx.launch_bounds_min_blocks_per_sm", 2))),
            ],
            "break": [Break()],
            "continue": [Continue()],
        }
        chosen: Stmt = draw(st.sampled_from(plain[choice]))
        return chosen

    def region(self, here: Expressions) -> Region:
        buffer = self.draw(st.sampled_from(here.buffers))
        box = []
        for extent in buffer.shape:
            start = self.draw(here.index(1, 1))
            number = start.value if isinstance(start, Const) else start
            size = self.draw(
                st.one_of(
                    st.integers(1, extent if isinstance(extent, int) else 8),
                    here.of(INT32, 1).filter(lambda e: not isinstance(e, Const)),
                )
            )
            box.append((number, size))
        return Region(buffer, tuple(box))


@st.composite
def kernels(draw, stage: str) -> Kernel:
    """A kernel of this stage. It need not make sense, but each name is defined before it is used."""
    make = Bodies(draw, stage)
    shape = (N, 4) if stage == "tile" else (Binary("*", N, Const(4, INT32), INT32),)
    layout = row_major(shape) if stage == "tile" else None
    argument = Buffer("A", FLOAT16, shape, "global", layout, data=POINTER, align=16)
    leaves: tuple[Expr, ...] = (*VARS.values(), N)
    first: Body = (
        DeviceEntry(),
        ScopeId("cta_id", (Var("bx"), Var("by")), (N, 4)),
        ScopeId("lane_id", (Var("l"),), (None,)),
    )
    launch = None
    if stage == "tile":
        leaves = (*leaves, Var("bx"), Var("l"))
    else:
        first, leaves = (), (*leaves, *(Special(name) for name in SPECIALS))
        launch = draw(
            st.sampled_from([Launch((4, 1, 1), 128), Launch((N, 2, 1), 32, cluster=(2, 1, 1), shared_bytes=2048)])
        )
    body = (*first, *make.body(leaves, (argument,), 2, loop=False))
    attrs = draw(st.sampled_from([(), (("global_symbol", "main"), ("tirx.noalias", True))]))
    return Kernel("k", (POINTER, *VARS.values()), (argument,), body, (N,), stage, launch, attrs)
