"""Instructions in the argument forms of kernels that others wrote, each as calls of rows of the instruction table.

Where a row has another order of arguments under the same name, the form here is what a kernel means; keywords are those
of the row. Reductions by name are several instructions each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tilewright import dtypes, ir
from tilewright.dtypes import BOOL, DType
from tilewright.errors import InstructionError, choices
from tilewright.isa import INSTRUCTIONS, spoken
from tilewright.isa.atomics import KEYWORDS
from tilewright.isa.forms import NUMBERS, WORDS, register_word
from tilewright.isa.table import ALL_LANES
from tilewright.lang.builder import current
from tilewright.lang.instructions import call_form, form, row_call, signature_of_row
from tilewright.lang.memory import decl_buffer
from tilewright.lang.public import export, public
from tilewright.lang.values import reinterpret

REMOTE, FLOAT = "shared::cluster", dtypes.dtype("float32")
SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "e4m3": "float8_e4m3fn"}
SYNC = {"shared": "cuda.cta_sync", "shared.dyn": "cuda.cta_sync", "warp": "cuda.warp_sync"}


def where(cond: ir.Value, action: Callable[[], object]) -> None:
    """Do what ``action`` does where the condition holds."""
    builder = current("a predicate")
    at, test = builder.at, builder.settled(ir.cast(cond, BOOL))
    truth = ir.const_value(test)
    if truth is not None:
        if truth:
            action()
        return
    with builder.block() as then:
        action()
    builder.emit(ir.If(test, tuple(then), (), at=at))


def dtype_of_word(kind: str | None, what: str) -> DType | None:
    """The dtype that PTX calls "u32", "f32", "b64"."""
    if kind is None:
        return None
    if kind.lstrip(".") not in NUMBERS:
        raise InstructionError(f"the type of {what}", given=repr(kind), allowed=choices(kind, NUMBERS))
    return dtypes.dtype(NUMBERS[kind.lstrip(".")])


# Matrix products.


@form("ptx.mma")
def mma(shape: str, layout: str, *rest: object, **keywords: object) -> ir.Expr | None:
    """A warp computes D = A * B + C: ``mma("m16n8k16", "row", "col", d_type, a_type, b_type, c_type, d, a, b, c)`` with
    a pointer for each 32-bit register; without ``c`` it is 0. With PTX's types in one word it is the row itself.
    """
    if layout not in ("row", "col"):
        return row_call(_row_of(shape, layout, keywords), shape, layout, *rest, **keywords)
    return call_form("ptx.mma", _typed_mma, shape, layout, *rest, **keywords)


def _row_of(shape: object, types: object, keywords: Mapping[str, object]) -> str:
    """The first row that has these matrices and keywords: ``ptx.mma`` itself, or one of its families."""
    for name, row in INSTRUCTIONS.items():
        if f"{name}.".startswith("ptx.mma.") and row.params[:2] == ("shape", "types") and not row.operand("e"):
            words = {*row.keywords, *(param.lstrip("*") for param in row.params)}
            for form in row.forms:
                alike = shape in form.wording.modifiers["shape"] and types in form.wording.modifiers["types"]
                has_op = keywords.get("op") is None or keywords["op"] in form.wording.modifiers.get("op", {})
                if alike and has_op and keywords.keys() <= words:
                    return name
    return "ptx.mma"


@public
def _typed_mma(
    shape: str, a_layout: str, b_layout: str, d_type: str, a_type: str, b_type: str, c_type: str,
    d_ptrs: Sequence[object], a_ptrs: Sequence[object], b_ptrs: Sequence[object],
    c_ptrs: Sequence[object] | None = None, saturate: bool = False,
) -> ir.Expr:  # fmt: skip
    if (a_layout, b_layout) != ("row", "col"):
        raise InstructionError(
            "the matrices of T.ptx.mma", given=f"A {a_layout}, B {b_layout}", allowed='A "row", B "col"',
            hint="a B that is row major is loaded by ldmatrix with trans",
        )  # fmt: skip
    types = [WORDS.get(SHORT.get(str(kind), str(kind)), str(kind)) for kind in (d_type, a_type, b_type, c_type)]
    zeros = c_ptrs is None or (isinstance(c_ptrs, (list, tuple)) and not c_ptrs)
    c = [ir.cast(0, dtypes.dtype("uint32")) for _ in d_ptrs] if zeros else c_ptrs
    return row_call("ptx.mma", shape, ".".join(types), d_ptrs, a_ptrs, b_ptrs, c, saturate=saturate)


# M-barriers, and where clusters meet.


def _arrived(name: str, bar: object, more: tuple[object, ...], cta_id: ir.Value | None, pred: ir.Value | None,
             **order: object) -> ir.Expr | None:  # fmt: skip
    """Arrive at a barrier, at the one in the CTA of a rank, where a condition holds."""

    def arrive() -> ir.Expr:
        if cta_id is None:
            return row_call(name, bar, *more, **order)
        return row_call(name, row_call("ptx.mapa", bar, cta_id), *more, **{**order, "space": REMOTE})

    if pred is None:
        return arrive()
    where(pred, arrive)
    return None


@form("ptx.mbarrier.arrive")
def arrive(bar: object, cta_id: ir.Value | None = None, pred: ir.Value | None = None, count: ir.Value | None = None,
           **order: object) -> ir.Expr | None:  # fmt: skip
    """Arrives at an m-barrier; at that of another CTA of the cluster, only where ``pred`` holds, ``count`` times."""
    return _arrived(
        "ptx.mbarrier.arrive", bar, (), cta_id, pred, **({} if count is None else {"count": count}), **order
    )


@form("ptx.mbarrier.arrive.expect_tx")
def expect_tx(bar: object, bytes: ir.Value, cta_id: ir.Value | None = None, pred: ir.Value | None = None,
              **order: object) -> ir.Expr | None:  # fmt: skip
    """Announces bytes to an m-barrier and arrives; at that of another CTA, only where ``pred`` holds."""
    return _arrived("ptx.mbarrier.arrive.expect_tx", bar, (bytes,), cta_id, pred, **order)


@form("ptx.mbarrier.arrive.cluster_count")
def cluster_count(bar: object, cta_id: ir.Value, n: ir.Value, **order: object) -> ir.Expr | None:
    """Arrives ``n`` times at the m-barrier of another CTA of the cluster."""
    return _arrived("ptx.mbarrier.arrive", bar, (), cta_id, None, count=n, **order)


@form("ptx.mbarrier.try_wait_acquire_cluster")
def try_wait_acquire_cluster(bar: object, phase: ir.Value) -> ir.Expr:
    """Waits until a phase is over, and sees what other CTAs of the cluster did before they arrived."""
    return row_call("ptx.mbarrier.try_wait", bar, phase, sem="acquire", scope="cluster")


@form("ptx.barrier.cluster.arrive")
def cluster_arrive(sem: str = "", aligned: bool = True) -> ir.Expr:
    """Counts at the cluster's barrier without waiting; ``relaxed`` publishes nothing of what the thread has done."""
    return row_call("ptx.barrier.cluster.arrive", sem=sem.lstrip(".") or "release", aligned=aligned)


@form("ptx.barrier.cluster.wait")
def cluster_wait(acquire: bool = False, aligned: bool = True) -> ir.Expr:
    """Waits until every thread of the cluster has arrived; it acquires, be that written out or not."""
    return row_call("ptx.barrier.cluster.wait", aligned=aligned)


# Products of warpgroups, and boxes that a tensor map describes.


@form("ptx.wgmma.mma_async.rs")
def product_of_registers(dB: object, *registers: object, transA: bool = False, **how: object) -> ir.Expr:
    """As `.ss`, with A in four registers of each thread, which have it K-major: ``transA`` is False."""
    if transA:
        raise InstructionError("A in registers is not transposed", given="transA=True", allowed="transA=False",
                               hint="T.ptx.wgmma.mma_async.ss, with A in shared memory")  # fmt: skip
    return row_call("ptx.wgmma.mma_async.rs", dB, *registers, **how)


BOX = "ptx.cp_async.bulk.tensor.g2c"


@form(BOX, f"{BOX}_bar_addr")
def load_box(dim: int, dst: object, bar: object, map: object, cta_mask: object = 0, cta_group: int = -1,
             hint: str = "", *coords: object, **more: object) -> ir.Expr:  # fmt: skip
    """A thread has a box brought to shared memory; coordinates innermost first. ``bar``: a pointer to an m-barrier, or
    its address in shared memory. A ``cta_group`` of 1, or none, is the CTA itself.
    """
    group = -1 if ir.const_value(cta_group) == 1 else cta_group
    return row_call(BOX, dim, dst, bar, map, cta_mask, group, hint, *coords, **more)


# Loads, stores and atomics.


@form("ptx.ld")
def load(ptr: object, *how: object, dtype: str | None = None, **keywords: object) -> ir.Expr | None:
    """The element that ``ptr`` points to: ``ld(p, "float32", "f32", space="global")`` or, strong, with ``sem=``; with
    ``dtype`` as that of its bits.
    """
    if len(how) > 1 or "ret" in keywords:
        return call_form("ptx.ld", _typed_load, ptr, *how, **keywords)
    if dtype is None:
        return row_call("ptx.ld", ptr, *how, **keywords)
    wanted = dtypes.dtype(str(dtype))
    return reinterpret(str(wanted), row_call("ptx.ld", ptr, *how, type=register_word(wanted), **keywords))


@public
def _typed_load(ptr: object, ret: str, type: str, space: str = "global", **keywords: object) -> ir.Expr:
    kind = dtype_of_word(type, "T.ptx.ld")
    wanted = dtypes.dtype(SHORT.get(str(ret), str(ret)))
    if kind is not None and kind.bits != wanted.bits:
        raise InstructionError("T.ptx.ld of two sizes", given=f"{ret} by {type}", allowed="as many bits in both")
    return reinterpret(str(wanted), row_call("ptx.ld", ptr, space=space, type=register_word(wanted), **keywords))


def _registers_of(operand: object) -> Iterator[object]:
    """Registers of 32 bits one by one: those of a list, and those of a local buffer."""
    if isinstance(operand, (tuple, list)):
        for part in operand:
            yield from _registers_of(part)
    elif isinstance(operand, ir.Buffer) and operand.space == "local" and len(operand.shape) == 1:
        yield from (operand[i] for i in range(int(ir.const_value(operand.shape[0]) or 0)))
    else:
        yield operand


def _pointed(pointer: ir.AddressOf) -> ir.Load:
    """The element that a pointer leads to: the first one of a buffer, where it says no more."""
    buffer = pointer.buffer
    return ir.Load(buffer, pointer.indices or tuple(ir.as_expr(0) for _ in buffer.shape))


def _fill(name: str, target: object, value: ir.Expr) -> None:
    """Store the bits of a value to an element of a local buffer, or to two of them from a pointer on."""
    place = _pointed(target) if isinstance(target, ir.AddressOf) else target
    many = value.dtype.bits // place.dtype.bits if isinstance(place, ir.Load) else 0
    if not (isinstance(place, ir.Load) and place.buffer.space == "local" and many in (1, 2)):
        bits = value.dtype.bits
        raise InstructionError(f"{name} writes a register of {bits} bits", given=str(target),
                               allowed="an element of a local buffer, or a pointer to one")  # fmt: skip
    builder, kind = current(name), place.dtype if many == 1 else place.dtype.with_lanes(2)
    held = builder.bind("both", reinterpret(str(kind), value)) if many == 2 else reinterpret(str(kind), value)
    *outer, last = place.indices
    for number in range(many):
        at = ir.Load(place.buffer, (*outer, last + number)) if number else place
        builder.write(at, ir.component(held, number) if many == 2 else held)


def _by_registers(vec: int) -> tuple[Callable[..., None], Callable[..., ir.Expr]]:
    """A load to so many registers of 32 bits, and a store of them."""

    def load(ptr: object, *r: object, sem: str = "weak", scope: str | None = None, space: str | None = None) -> None:
        name, places = f"T.ptx.ld.v{vec}", list(_registers_of(r))
        if len(places) != vec:
            raise InstructionError(f"{name} takes {vec} registers for r", given=f"{len(places)}", allowed=f"{vec}")
        words = current(name).bind("words", row_call("ptx.ld", ptr, sem, scope, space, "b32", vec))
        for number, place in enumerate(places):
            _fill(name, place, ir.component(words, number))

    def store(
        ptr: object, *r: object, sem: str = "weak", scope: str | None = None, space: str | None = None
    ) -> ir.Expr:
        return row_call("ptx.st.vec", ptr, *_registers_of(r), sem=sem, scope=scope, space=space, type="b32", vec=vec)

    for function, way in ((load, "from"), (store, "to")):
        function.__doc__ = f"{vec} registers of 32 bits {way} where ``ptr`` points; each is an access of its own."
    return load, store


for _vec in (2, 4):
    for _name, _function in zip(("ld", "st"), _by_registers(_vec), strict=True):
        form(f"ptx.{_name}.v{_vec}")(_function)


@form("ptx.st")
def store(ptr: object, *values: object, space: str | None = None, vec: str = "", ptx_type: str | None = None,
          **keywords: object) -> ir.Expr:  # fmt: skip
    """Stores an element, or with ``vec="v2"`` or "v4" several of 32 bits: ``st(p, a, b, vec="v2", ptx_type="f32")``."""
    kind = dtype_of_word(ptx_type, "T.ptx.st")
    if kind is None and not vec:
        return row_call("ptx.st", ptr, *values, space=space, **keywords)
    place = "shared" if space is None else space
    if vec:
        count = int(str(vec).lstrip(".v"))
        words = [_bits(value, kind) for value in values]
        return row_call("ptx.st.vec", ptr, *words, space=place, type="b32", vec=count, **keywords)
    if len(values) != 1:
        raise InstructionError("T.ptx.st without vec=", given=f"{len(values)} values", allowed="one")
    (value,) = values
    return row_call("ptx.st", _pointer(ptr, kind), _as(value, kind), space=place, **keywords)


def _bits(value: object, kind: DType | None) -> ir.Expr:
    number = _as(value, kind)
    if number.dtype.bits != 32:
        raise InstructionError("a vector of T.ptx.st has elements of 32 bits", given=str(number.dtype),
                               hint="T.uint32x4(...) as an element of a buffer of vectors")  # fmt: skip
    return number


def _as(value: object, kind: DType | None) -> ir.Expr:
    """A value as the instruction's type: the same bits where it has as many of another kind."""
    expr = ir.as_expr(value)  # type: ignore[arg-type]  # as_expr refuses what is no value
    if kind is None or expr.dtype == kind:
        return expr
    same_bits = expr.dtype.bits == kind.bits and expr.dtype.is_float != kind.is_float and ir.const_value(expr) is None
    return reinterpret(kind, expr) if same_bits else ir.cast(expr, kind)


def _pointer(ptr: object, kind: DType | None) -> object:
    """The pointer without its type, where the instruction takes a pointer to another type."""
    pointer = ptr.pointer if isinstance(ptr, ir.Buffer) else ptr
    other = isinstance(pointer, ir.AddressOf) and kind is not None and pointer.buffer.dtype != kind
    return reinterpret("uint64", pointer) if other else ptr  # type: ignore[arg-type]  # an expression


def _atomic(name: str, ptr: object, value: object, op: str, kind: str | None, **order: str) -> ir.Expr:
    wanted = dtype_of_word(kind, f"T.ptx.{name}_scalar")
    words = {key: word.lstrip(".") or KEYWORDS[key] for key, word in order.items()}
    number = value if wanted is None else _as(value, wanted)
    return row_call(f"ptx.{name}.{spoken(op.lstrip('.'))}", _pointer(ptr, wanted), number, **words)


@form("ptx.atom_scalar")
def atom_scalar(ptr: object, value: object, sem: str = "", scope: str = "", space: str = "global", *, op: str,
                ptx_type: str | None = None) -> ir.Expr:  # fmt: skip
    """`T.ptx.atom.*` with the operation as an argument; gives the value that memory held before."""
    return _atomic("atom", ptr, value, op, ptx_type, sem=sem, scope=scope, space=space)


@form("ptx.red_scalar")
def red_scalar(ptr: object, value: object, sem: str = "", scope: str = "", space: str = "global", *, op: str,
               ptx_type: str | None = None) -> ir.Expr:  # fmt: skip
    """`T.ptx.red.*` with the operation as an argument: no value."""
    return _atomic("red", ptr, value, op, ptx_type, sem=sem, scope=scope, space=space)


# Other names of rows, and results by pointers.


def _named(name: str, row: str) -> None:
    def call(*args: object, **keywords: object) -> ir.Expr:
        return row_call(row, *args, **keywords)

    call.__doc__, call.__signature__ = f"`T.{row}`.", signature_of_row(row)  # type: ignore[attr-defined]  # of functions
    form(name)(call)


for _way in ("g2s_cta", "g2s_cluster", "s2c", "s2g"):
    _named(f"ptx.cp_async_bulk_{_way}", f"ptx.cp_async.bulk.{_way}")
_named("cuda.map_shared_rank", "ptx.map_shared_rank")


@form("ptx.elect_sync")
def elect_sync(mask: ir.Value = ALL_LANES) -> ir.Expr:
    """True in exactly one lane of ``mask``, always the same one."""
    return row_call("ptx.elect.sync", mask, out="p")


def _on_pairs(op: str) -> Callable[..., None]:
    def compute(d: object, *operands: ir.Value, rounding: str = "rn", ftz: bool = False) -> None:
        name = f"T.ptx.{op}_f32x2"
        _fill(name, d, row_call(f"ptx.{op}", *operands, type="f32x2", rnd=rounding, ftz=ftz))

    compute.__doc__ = f"`T.ptx.{op}` of both float32 of 64 bits, to where ``d`` points."
    return compute


for _op in ("add", "sub", "mul", "fma"):
    form(f"ptx.{_op}_f32x2")(_on_pairs(_op))


def _of_three(op: str, which: str) -> Callable[..., ir.Expr]:
    def reduce3(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Expr:
        return row_call(f"ptx.{op}", ir.cast(a, FLOAT), ir.cast(b, FLOAT), type="f32", c=ir.cast(c, FLOAT))

    reduce3.__doc__ = f"The {which} of three numbers; NaN only where all are."
    return reduce3


for _op, _which in (("max", "largest"), ("min", "smallest")):
    form(f"ptx.reduce3_{_op}_f32")(_of_three(_op, _which))


@form("cuda.make_float2")
def make_float2(x: ir.Value, y: ir.Value) -> ir.Expr:
    """Two float32 as the 64 bits of a register pair, ``x`` in the low half."""
    return reinterpret("uint64", ir.vector((x, y), dtypes.dtype("float32x2")))


@form("cuda.get_tmem_addr")
def get_tmem_addr(base: ir.Value, row: ir.Value, col: ir.Value) -> ir.Expr:
    """The address of a cell of tensor memory, so many lanes and columns after another."""
    steps = (ir.cast(row, dtypes.dtype("uint32")) << 16) + ir.cast(col, dtypes.dtype("uint32"))
    return ir.cast(base, dtypes.dtype("uint32")) + steps


# Names of `T` itself.


def tvm_storage_sync(scope: str) -> ir.Expr:
    """The barrier that orders accesses to a memory: of the CTA for "shared", of the warp for "warp"."""
    if scope not in SYNC:
        raise InstructionError("T.tvm_storage_sync of this memory", given=repr(scope), allowed=choices(scope, SYNC))
    return row_call(SYNC[scope])


def _shuffle(name: str) -> Callable[..., ir.Expr]:
    def shuffle(mask: ir.Value, value: ir.Value, lane: ir.Value, width: ir.Value = 32, warp_size: int = 32) -> ir.Expr:
        return row_call(f"cuda.{name}", mask, value, lane, width)

    shuffle.__doc__ = f"`T.cuda.{name}`; the size of a warp is 32."
    return shuffle


def tvm_warp_activemask() -> ir.Expr:
    """`T.cuda.activemask`."""
    return row_call("cuda.activemask")


export(
    "Names of kernels written elsewhere",
    tvm_storage_sync,
    tvm_warp_activemask,
    tvm_warp_shuffle=_shuffle("shfl_sync"),
    tvm_warp_shuffle_up=_shuffle("shfl_up_sync"),
    tvm_warp_shuffle_down=_shuffle("shfl_down_sync"),
    tvm_warp_shuffle_xor=_shuffle("shfl_xor_sync"),
)


# Reductions by name, ``T.cuda.warp_reduce(v, "sum")``: several instructions each; every thread holds the result.


OPERATORS = {"sum": "+", "prod": "*", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^"}
WIDTHS = (1, 2, 4, 8, 16, 32)


def _joins(op: str, what: str) -> Callable[[ir.Value, ir.Value], ir.Expr]:
    if op not in OPERATORS:
        raise InstructionError(f"{what} of this operation", given=repr(op), allowed=choices(op, OPERATORS))
    return lambda a, b: ir.binary(OPERATORS[op], a, b)


def _kept(value: ir.Value) -> ir.Var:
    """A value as a name of the kernel: it is computed once, here."""
    return current("a reduction").bind("part", ir.as_expr(value))


@form("cuda.warp_reduce")
def warp_reduce(value: ir.Value, op: str, width: int = 32) -> ir.Expr:
    """The sum, or what ``op`` says, over each ``width`` neighbouring lanes of the warp; all 32 take part."""
    join = _joins(op, "T.cuda.warp_reduce")
    if ir.const_value(width) not in WIDTHS:
        raise InstructionError("T.cuda.warp_reduce over these lanes", given=f"width={width}",
                               allowed=", ".join(map(str, WIDTHS)))  # fmt: skip
    total, step = _kept(value), int(width) // 2
    while step:
        total = _kept(join(total, row_call("cuda.shfl_xor_sync", ALL_LANES, total, step)))
        step //= 2
    return total


@form("cuda.cta_reduce")
def cta_reduce(value: ir.Value, op: str, num_warps: int, scratch: ir.Expr | ir.Buffer) -> ir.Expr:
    """The sum, or what ``op`` says, over the whole CTA of ``num_warps`` warps, each of which leaves its part at
    ``scratch``, in shared memory. Two barriers of the CTA stand inside, so that ``scratch`` is free again afterwards.
    """
    join, warps = _joins(op, "T.cuda.cta_reduce"), ir.const_value(num_warps)
    if not isinstance(warps, int) or not 1 <= warps <= 32:
        raise InstructionError("T.cuda.cta_reduce over these warps", given=f"num_warps={num_warps}", allowed="1 to 32")
    part = warp_reduce(value, op)
    parts = decl_buffer((warps,), part.dtype, scratch, scope="shared")
    builder = current("T.cuda.cta_reduce")
    where(ir.special("laneid") == 0, lambda: builder.write(parts[ir.special("warpid")], part))  # type: ignore[arg-type]
    row_call("cuda.cta_sync")
    total: ir.Expr = parts[0]  # type: ignore[assignment]  # one dimension
    for warp in range(1, warps):
        total = join(total, parts[warp])  # type: ignore[arg-type]  # one dimension
    total = _kept(total)
    row_call("cuda.cta_sync")
    return total


def _register_reduction(name: str) -> None:
    def reduce(mask: ir.Value, value: ir.Value) -> ir.Expr:
        return row_call(f"cuda.reduce_{name}_sync", mask, ir.cast(value, dtypes.dtype("uint32")))

    reduce.__doc__ = f"`T.cuda.reduce_{name}_sync` of uint32."
    form(f"cuda.reduce_{name}_sync_u32")(reduce)


for _name in ("add", "min", "max"):
    _register_reduction(_name)
