"""The functions of ``T`` that name memory: parameters, allocations, and views of memory that exists; tensor maps, and
memory of several GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import ir
from tilewright.dtypes import HANDLE, INT32, dtype
from tilewright.errors import KernelError, choices, described
from tilewright.ir import AddressOf, Assume, Buffer, Value, Var, as_index, binary, const_value
from tilewright.ir.arguments import strides_of
from tilewright.ir.buffer import map_buffer
from tilewright.ir.intervals import Interval
from tilewright.ir.tensor_map import ELEMENTS, FILLS, Im2col, MapOf, element_of
from tilewright.ir.verify import check_placement
from tilewright.isa import TMEM_COLUMNS
from tilewright.lang.builder import BufferType, KernelBuilder, current
from tilewright.lang.public import export
from tilewright.layout import Layout, S, TileLayout
from tilewright.layout.axes import listed
from tilewright.records import replace

if TYPE_CHECKING:
    from tilewright.layout import Layout

# Tensor maps in a kernel: those that are parameters, and those that every call makes of its array arguments, in our
# words and as TIRx's host code writes them.


def bind_map(builder: KernelBuilder, pointer: Var, tensor_map: MapOf) -> Buffer:
    """The 128 bytes of a tensor map that the kernel gets."""
    buffer = replace(map_buffer(tensor_map.name, flat=builder.stage == "lowered"), data=pointer)
    builder.maps.append(tensor_map)
    builder.buffers.append(builder.register(buffer))
    return buffer


def tensor_map(
    buffer: Buffer,
    *,
    box: tuple[int, ...],
    swizzle: int = 0,
    dtype: str | None = None,
    dims: tuple[Value, ...] | None = None,
    strides: tuple[Value, ...] | None = None,
    oob: str = "zero",
    offset: Value = 0,
    steps: tuple[int, ...] = (),
    im2col: tuple[Any, ...] | None = None,
) -> Buffer:
    """A tensor map of an argument, which every call makes: ``T.ptx.cp_async.bulk.tensor`` takes it.

    All is counted from the innermost dimension, as the instructions count. box: elements. strides: bytes, of the
    dimensions but the innermost; dims and strides are the argument's own, if left out. offset: elements to its start.
    dtype: of the elements, where it is not the argument's: "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B" of packed
    ones. steps: every how many elements of a dimension a box has one. im2col: the lower and the upper corner of the
    pixels, (W, H, D) each, perhaps with "w" or "w128" for a walk along W alone; the box is then (channels, pixels).
    """
    builder = current("T.tensor_map")
    if not isinstance(buffer, Buffer) or not any(buffer is array for array in builder.buffers):
        raise KernelError("T.tensor_map takes an array that is an argument", given=str(buffer), allowed="a T.Buffer")
    if dtype is None and buffer.dtype.bits < 8:
        raise KernelError(
            "a tensor map has no elements of 4 bits by themselves", given=f"{buffer.name} of {buffer.dtype}",
            allowed='dtype="uint8" for its bytes, "16U4_ALIGN8B" or "16U4_ALIGN16B"',
        )  # fmt: skip
    kind = str(dtype or element_of(str(buffer.dtype), buffer.dtype.bits))
    extents_, own_strides = _strided(buffer, kind) if dims is None or strides is None else ((), ())
    spec = MapOf(
        builder.named("map"),
        buffer.name,
        kind,
        tuple(map(number, extents_ if dims is None else dims)),
        tuple(map(number, own_strides if strides is None else strides)),
        tuple(int(const_value(extent) or 0) for extent in box),
        int(swizzle),
        oob,
        number(offset),
        tuple(map(int, steps)),
        None if im2col is None else _walk(*im2col),
    )
    return bind_map(builder, Var(spec.name, HANDLE), spec)


def _walk(lower: Sequence[int], upper: Sequence[int], wide: str = "") -> Im2col:
    return Im2col(tuple(map(int, lower)), tuple(map(int, upper)), wide)


def _strided(buffer: Buffer, kind: str) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Extents in elements of that kind, and strides in bytes but the innermost, from the innermost dimension on."""
    layout = buffer.layout
    steps = strides_of(buffer) if layout is not None else None
    if steps is None or const_value(steps[-1]) != 1:
        raise KernelError(
            f"{buffer.name} has no tensor map of its own",
            given=str(layout),
            allowed="one stride for each dimension, 1 for the innermost",
            hint="T.tensor_map(..., dims=(...), strides=(...))",
        )
    bits, of = buffer.dtype.bits, ELEMENTS.get(kind, ELEMENTS["uint8"])
    of_buffer = 1 if of.group == 1 and bits >= 8 else Fraction(bits * of.group, 8 * of.nbytes)
    inner = buffer.shape[-1] * of_buffer.numerator // of_buffer.denominator
    return (inner, *buffer.shape[-2::-1]), tuple(step * bits // 8 for step in steps[-2::-1])


def number(value: Value) -> Value:
    """A number where it is known."""
    constant = const_value(value)
    return as_index(value) if constant is None else int(constant)


# The same as TIRx's host code writes it: room for a map, and a call of the driver's function with the fields.


ENCODE = "runtime.cuTensorMapEncodeTiled"
ROOM = "tensormap"


class OpenMap:
    """Room for a tensor map, which `call_packed` fills; mutable. buffer: its 128 bytes, once it is filled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffer: Buffer | None = None

    def __str__(self) -> str:
        return self.name

    def filled(self) -> Buffer:
        """Its buffer. Raises KernelError where it has none yet."""
        if self.buffer is None:
            raise KernelError(f"{self.name} is no tensor map yet", given="T.tvm_stack_alloca",
                              allowed=f'T.call_packed("{ENCODE}", {self.name}, ...) before it')  # fmt: skip
        return self.buffer


def tvm_stack_alloca(kind: str, count: int = 1) -> OpenMap:
    """Room for a tensor map: ``m = T.tvm_stack_alloca("tensormap", 1)``, which `T.call_packed` then fills."""
    builder = current("T.tvm_stack_alloca")
    if kind != ROOM or const_value(count) != 1:
        raise KernelError("T.tvm_stack_alloca has room for tensor maps", given=f'"{kind}", {count}',
                          allowed='"tensormap", 1')  # fmt: skip
    return OpenMap(builder.named("map"))


def call_packed(name: str, *fields: object) -> None:
    """Makes a tensor map of an argument: ``T.call_packed("runtime.cuTensorMapEncodeTiled", m, dtype, rank, A.data,
    *sizes, *strides, *box, *element_strides, interleave, swizzle, l2, oob)``, the innermost dimension first, its stride
    left out, strides in bytes.
    """
    builder = current("T.call_packed")
    if name != ENCODE:
        raise KernelError("T.call_packed calls the host", given=repr(name), allowed=f'"{ENCODE}"')
    room, kind, rank, data, *rest = (*fields, *[None] * 4)[: max(4, len(fields))]
    count = const_value(rank)
    if not isinstance(room, OpenMap) or not isinstance(count, int) or not 0 <= len(rest) - 4 * count - 3 <= 1:
        raise KernelError(f'T.call_packed("{ENCODE}") takes the fields of a map', given=f"{len(fields)} values",
                          allowed="m, dtype, rank, A.data, sizes, strides, box, element_strides, interleave, swizzle, "
                          "l2, oob; m of T.tvm_stack_alloca")  # fmt: skip
    sizes, strides, box, steps, modes = _parted(rest, count)
    interleave, swizzle, _, oob, *_ = map(const_value, modes)
    if interleave != 0:
        raise KernelError("a tensor map has no interleave here", given=f"{interleave}", allowed="0")
    element = dtype(str(kind))
    if element.bits < 8:
        raise KernelError(f"a tensor map of {element}, whose elements share bytes", given=str(kind),
                          allowed='"uint8", with sizes and box in bytes')  # fmt: skip
    array = next((candidate for candidate in builder.buffers if _is_data_of(candidate, data)), None)
    if array is None:
        raise KernelError("a tensor map is of an argument", given=f"{data}", allowed="A.data of a T.match_buffer")
    spec = MapOf(
        room.name,
        array.name,
        element_of(str(element), element.bits),
        tuple(map(number, sizes)),
        tuple(map(number, strides)),
        tuple(map(_constant, box)),
        _constant(swizzle),
        FILLS[_constant(oob)],
        0,
        tuple(map(_constant, steps)),
    )
    room.buffer = bind_map(builder, Var(spec.name, HANDLE), spec)


def _parted(values: Sequence[Any], rank: int) -> Iterator[list[Any]]:
    """The values of each list of a map's fields, and what is left."""
    rest = list(values)
    for count in (rank, rank - 1, rank, rank):
        yield rest[:count]
        rest = rest[count:]
    yield rest


def _is_data_of(buffer: Buffer, data: object) -> bool:
    pointed = data.buffer if isinstance(data, AddressOf) else data
    return pointed is buffer or (isinstance(pointed, Var) and pointed is buffer.data)


def _constant(value: Any) -> int:
    number = const_value(value)
    if not isinstance(number, int):
        raise KernelError("this field of a tensor map is a number", given=f"{value}", allowed="a Python int")
    return number


export("Tensor maps", tensor_map, tvm_stack_alloca, call_packed)


# Several GPUs: arguments that each of them has, and the number of the GPU that a kernel runs on.
#
# A rank is one GPU of a group, as torch.distributed counts them. A kernel runs on every rank, with arguments of its
# own.


MOST_RANKS = 32  # GPUs that reach each other's memory


@dataclass(frozen=True, slots=True)
class SymmetricType:
    """``x: T.SymmetricBuffer((1024,), "float32", ranks=4)``: a parameter that each of four GPUs has, in memory that
    the others reach: ``x.peer(r)`` is the one of rank r, ``x`` itself that of the calling GPU.
    """

    shape: object
    dtype: str = "float32"
    ranks: int = 0
    layout: Layout | None = None
    strides: object = None
    align: int = 0


def bind_symmetric(builder: KernelBuilder, name: str, kind: SymmetricType, pointer: Var | None = None) -> Buffer:
    """The array of this GPU, a parameter; the pointers to those of all GPUs are one more."""
    several(builder, kind.ranks, f"T.SymmetricBuffer {name}")
    if pointer is None:
        pointer = Var(builder.unique(f"{name}_ptr"), HANDLE)
        builder.params.append(pointer)
    layout = strided(name, kind.shape, kind.strides, kind.layout)
    buffer = new_buffer(
        builder, name, kind.shape, kind.dtype, "global", layout, data=pointer, align=kind.align, peers=kind.ranks
    )
    bind_parameter(builder, pointer, buffer)
    table = buffer.pointers
    assert isinstance(table.data, Var)
    for taken in (table.name, table.data.name):
        if builder.unique(taken) != taken:
            raise KernelError(f"{taken} is the name of the pointers to {name}", allowed="another name for the other")
    builder.hidden.append(table.data)
    bind_parameter(builder, table.data, table)
    return buffer


def match_symmetric(
    param: Var,
    shape: object,
    dtype: str = "float32",
    *,
    ranks: int,
    layout: Layout | None = None,
    strides: object = None,
    align: int = 0,
) -> Buffer:
    """`T.match_buffer` of an array that each of several GPUs has, as `T.SymmetricBuffer`, also of symbolic extents."""
    builder = current("T.match_symmetric")
    if not isinstance(param, Var) or param not in builder.params or param.dtype != "handle":
        handles = [var.name for var in builder.params if var.dtype == "handle"]
        allowed = choices(param, handles) or "a T.handle"
        raise KernelError("T.match_symmetric takes a parameter", given=str(param), allowed=allowed)
    kind = SymmetricType(shape, dtype, ranks, layout, strides, align)
    return bind_symmetric(builder, builder.named("buffer"), kind, param)


def several(builder: KernelBuilder, ranks: object, what: str) -> int:
    """The number of GPUs that a kernel is for. Raises KernelError where it is none, or another one than before."""
    count = const_value(ranks)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_RANKS:
        raise KernelError(f"{what} is for several GPUs", given=f"ranks={ranks}", allowed=f"1 to {MOST_RANKS}")
    before = builder.attrs.setdefault("ranks", count)
    if before != count:
        raise KernelError(f"{what} is for {count} GPUs", given=f"{before} GPUs before", allowed="one number of ranks")
    return count


def rank_id(counts: object = None) -> Var:
    """The rank of the GPU that runs the kernel: 0 up to its extent, ``rank = T.rank_id([4])``."""
    builder = current("T.rank_id")
    asked = counts if isinstance(counts, (list, tuple)) else [builder.attrs.get("ranks") if counts is None else counts]
    if len(asked) != 1:
        raise KernelError("T.rank_id has one extent", given=str(counts), allowed="[n], the number of GPUs")
    count = several(builder, asked[0], "T.rank_id")
    if name := builder.attrs.get("rank"):
        return next(var for var in builder.hidden if var.name == name)
    var = Var(builder.named("rank"), INT32)
    builder.attrs["rank"] = var.name
    builder.fresh.add(var.name)
    builder.hidden.append(var)
    builder.ranges[var.name] = Interval(0, count - 1)
    builder.emit(Assume(binary("and", var >= 0, var < count), at=builder.at))
    return var


export("Several GPUs", SymmetricBuffer=SymmetricType, match_symmetric=match_symmetric, rank_id=rank_id)


_ALLOCATED = ("local", "shared", "shared.dyn")


def extents(shape: object, what: str) -> tuple[ir.Value, ...]:
    """A shape as IR holds it: ints where they are known. Raises KernelError for what is no extent."""
    values = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    checked: list[ir.Value] = []
    for value in values:
        number = ir.const_value(value)
        if number is None and hasattr(type(value), "__index__") and not isinstance(value, type | np.ndarray):
            number = int(value)
        if number is None and isinstance(value, ir.Expr) and value.dtype.is_integer:
            checked.append(value)
        elif isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 64:
            checked.append(number)
        else:
            raise KernelError(
                f"the shape of {what}",
                given=f"({', '.join(map(described, values))})",
                allowed="positive integers of at most 64 bits",
            )
    return tuple(checked)


def _shown(value: object) -> str:
    """A number that Python does not write, since it has too many digits, in words."""
    return described(value) if isinstance(value, int) and value.bit_length() > 64 else str(value)


DEFAULT = "default"  # as a layout: row major, as without one


def new_buffer(
    builder: KernelBuilder,
    name: str,
    shape: object,
    kind: str,
    space: str,
    layout: Layout | str | None,
    *,
    flat: bool = False,
    **fields: object,
) -> ir.Buffer:
    """A buffer that is not declared yet; row major without a layout, flat in the lowered stage."""
    shape, layout = extents(shape, name), None if isinstance(layout, str) and layout == DEFAULT else layout
    if not isinstance(kind, str):
        raise KernelError(f"the dtype of {name}", given=repr(kind), allowed='a name such as "float16", or T.float16')
    if layout is not None and not isinstance(layout, Layout):
        raise KernelError(
            f"the layout of {name}", given=repr(layout), allowed="S[...], TileLayout, SwizzleLayout, ComposeLayout"
        )
    if layout is None and not flat and builder.stage != "lowered":
        layout = ir.row_major(shape)
    if layout is not None:
        layout = ir.reached(name, shape, layout)
    element = dtype(str(kind))
    if not element.bits:
        raise KernelError(f"{name} has elements without bits", given=element, allowed='a number\'s type, as "float16"')
    buffer = ir.Buffer(name, element, shape, space, layout, **fields)  # type: ignore[arg-type]  # its own fields
    check_placement(buffer)
    return buffer


def strided(name: str, shape: object, strides: object, layout: Layout | None) -> Layout | None:
    """The layout that ``strides=`` asks for, in elements for each dimension; ``layout`` itself without them."""
    if strides is None:
        return layout
    extent, steps = extents(shape, name), tuple(strides) if isinstance(strides, (tuple, list)) else (strides,)
    if layout is not None or len(extent) != len(steps):
        raise KernelError(
            f"the strides of {name}",
            given=listed(steps) + ("" if layout is None else f" and the layout {layout}"),
            allowed=f"one for each of {len(extent)} dimensions, without layout=",
        )
    return TileLayout(S[extent:steps])


def check_argument(name: str, scope: str) -> None:
    """Arguments are arrays in global memory."""
    if scope != "global":
        raise KernelError(f"the argument {name} is in global memory", given=f"scope={scope!r}", allowed='"global"')


def bind_parameter(builder: KernelBuilder, pointer: ir.Var, buffer: ir.Buffer) -> ir.Buffer:
    """Make ``buffer`` the array that a call passes for ``pointer``."""
    if any(other.data is pointer for other in builder.buffers):
        raise KernelError(f"{pointer.name} is matched already", allowed="one T.match_buffer for each handle")
    builder.nameless.discard(buffer.name)  # callers know it
    builder.buffers.append(builder.register(buffer))
    return buffer


def match_buffer(
    param: ir.Var,
    shape: object,
    dtype: str = "float32",
    *,
    layout: Layout | None = None,
    strides: object = None,
    scope: str = "global",
    elem_offset: ir.Value = 0,
    align: int = 0,
    flat: bool = False,
    peers: int = 0,
) -> ir.Buffer:
    """The array behind a handle parameter. Symbolic extents and strides (``n = T.int32()``) take their values from the
    call. strides: in elements, ``(lda, 1)`` for rows that are lda elements apart. peers: of a `T.SymmetricBuffer` in
    printed scripts, its ranks.
    """
    builder = current("T.match_buffer")
    if not isinstance(param, ir.Var) or param not in builder.params or param.dtype != "handle":
        handles = [var.name for var in builder.params if var.dtype == "handle"]
        raise KernelError(
            "T.match_buffer takes a parameter", given=str(param), allowed=choices(param, handles) or "a T.handle"
        )
    name = builder.named_argument(param.name)
    layout = strided(name, shape, strides, layout)
    for step in strides if isinstance(strides, (tuple, list)) else (strides,):
        if isinstance(step, ir.Var) and step.name in builder.nameless:
            builder.rename(step.name, f"stride_{name}")
    check_argument(name, scope)
    buffer = new_buffer(
        builder, name, shape, dtype, scope, layout, data=param, elem_offset=_number(elem_offset), align=align,
        flat=flat, peers=peers,
    )  # fmt: skip
    return bind_parameter(builder, param, buffer)


def alloc_buffer(
    shape: object,
    dtype: str = "float32",
    data: ir.Expr | ir.Buffer | None = None,
    strides: object = None,
    elem_offset: ir.Value = 0,
    byte_offset: ir.Value | None = None,
    scope: str = "",
    *,
    layout: Layout | None = None,
    align: int = 0,
    offset: int | None = None,
    flat: bool = False,
) -> ir.Buffer:
    """Storage for a tile of a logical shape. A local one whose layout has thread axes holds a part in each thread.

    scope: local, shared or shared.dyn. align: bytes. offset: the place in shared memory, in bytes, once it is planned.
    data: memory that exists, of which this is a view, as of `decl_buffer`; elem_offset and byte_offset lead into it.
    """
    builder = current("T.alloc_buffer")
    if data is not None:
        where = None if scope in ("", "global") else scope
        return decl_buffer(shape, dtype, data, strides, elem_offset, byte_offset, where, layout=layout, align=align)
    if scope not in _ALLOCATED:
        raise KernelError(
            "T.alloc_buffer needs a scope to allocate in",
            given=repr(scope) if scope else "none",
            allowed=choices(scope, _ALLOCATED),
            hint='a view of tensor memory is T.decl_buffer(..., scope="tmem", allocated_addr=...)'
            if scope == "tmem"
            else None,
        )
    name = builder.named("buffer")
    if ir.const_value(elem_offset) != 0 or byte_offset is not None:
        asked = f"elem_offset={elem_offset}" if byte_offset is None else f"byte_offset={byte_offset}"
        raise KernelError(f"{name} is storage of its own, which begins at its first element", given=asked,
                          allowed="an offset into data=")  # fmt: skip
    layout = strided(name, shape, strides, layout)
    buffer = new_buffer(builder, name, shape, dtype, scope, layout, align=align, flat=flat)
    if offset is not None and not buffer.is_shared:
        raise KernelError(f"{buffer.name} has no offset", given=f"offset={offset}, scope={scope!r}",
                          allowed="on shared memory, in bytes")  # fmt: skip
    _check_constant(buffer)
    return builder.allocate(buffer, offset)


def _check_constant(buffer: ir.Buffer) -> None:
    for extent in buffer.shape:
        if isinstance(extent, ir.Expr):
            raise KernelError(
                f"the shape of {buffer.name} must be constant",
                given=f"extent {extent}",
                allowed="Python ints, known while the kernel is parsed",
                hint="a name assigned in the kernel is a scalar of run time; T.meta_var(16) keeps a Python value",
            )


def alloc_shared(shape: object, dtype: str = "float32", *, layout: Layout | None = None, align: int = 0) -> ir.Buffer:
    """`alloc_buffer` in shared memory."""
    return alloc_buffer(shape, dtype, scope="shared", layout=layout, align=align)


def alloc_local(shape: object, dtype: str = "float32", *, layout: Layout | None = None, align: int = 0) -> ir.Buffer:
    """`alloc_buffer` in registers."""
    return alloc_buffer(shape, dtype, scope="local", layout=layout, align=align)


class BufferOrView(BufferType):
    """``T.Buffer``: the type of a parameter; with ``data=`` a view of memory that exists, as `decl_buffer` makes."""

    __slots__ = ()

    def __new__(cls, shape: object, dtype: str | None = None, **keywords: object) -> Any:
        if keywords.get("data") is not None:
            return decl_buffer(shape, dtype, **keywords)  # type: ignore[arg-type]  # it refuses what does not fit
        return super().__new__(cls)


def decl_buffer(
    shape: object,
    dtype: str | None = None,
    data: ir.Expr | ir.Buffer | None = None,
    strides: object = None,
    elem_offset: ir.Value = 0,
    byte_offset: ir.Value | None = None,
    scope: str | None = None,
    *,
    layout: Layout | None = None,
    align: int = 0,
    allocated_addr: ir.Value | None = None,
    flat: bool = False,
) -> ir.Buffer:
    """A view of memory that exists: ``data`` points to it, an offset in elements or bytes leads to its first element.

    dtype and scope are those of what ``data`` points into, if left out. Tensor memory is named by ``allocated_addr``.
    """
    builder = current("T.decl_buffer")
    if isinstance(data, ir.Buffer):
        data = data.pointer
    pointer = builder.first.get(data.name, data) if isinstance(data, ir.Var) else data
    root = pointer.buffer if isinstance(pointer, ir.AddressOf) else None
    kind: str = dtype or (root.dtype if root else "float32")
    space = scope or (root.space if root else "tmem" if allocated_addr is not None else "global")
    if data is None and allocated_addr is None and space != "tmem":
        raise KernelError(
            "T.decl_buffer views memory that exists", given="neither data nor allocated_addr", hint="T.alloc_buffer"
        )
    name = builder.named("buffer")
    _check_view(name, space, root, data, allocated_addr)
    if space == "tmem":
        _check_tmem(builder, name, kind, layout, allocated_addr)
    if byte_offset is not None:
        _check_one_offset(name, byte_offset, elem_offset)
        elem_offset = _elements(byte_offset, kind)
    layout = strided(name, shape, strides, layout)
    view = new_buffer(
        builder, name, shape, kind, space, layout, data=data, elem_offset=_number(elem_offset), align=align,
        allocated_addr=_address(allocated_addr), flat=flat,
    )  # fmt: skip
    return builder.declare(view)


def ptr_byte_offset(ptr: ir.Expr | ir.Buffer, offset: ir.Value, dtype: str | None = None) -> ir.Expr:
    """A pointer so many bytes further on; ``dtype`` is for readers."""
    start = ptr.pointer if isinstance(ptr, ir.Buffer) else ptr
    if start.dtype != HANDLE:
        raise KernelError(
            "T.ptr_byte_offset moves a pointer",
            given=f"`{ptr}` of {start.dtype}",
            allowed="A.data, A.ptr_to([i]), a handle",
            hint='T.reinterpret("handle", address)',
        )
    return start + ir.as_index(offset)


def _check_view(name: str, space: str, root: ir.Buffer | None, data: object, address: object) -> None:
    """Raises KernelError where the arguments of a view disagree: its scope with that of ``data``, or two starts."""
    exact = current("T.decl_buffer").exact  # a printed script shows what passes have made
    if not exact and space != "tmem" and root is not None and space.partition(".")[0] != root.space.partition(".")[0]:
        raise KernelError(
            f"{name} views {root.name}, which is in {root.space} memory",
            given=f"scope={space!r}",
            allowed=f'"{root.space}", or no scope=',
        )
    if address is not None and (space != "tmem" or data is not None):
        places = f"allocated_addr={address}, {'scope=' + repr(space) if data is None else 'data='}"
        raise KernelError(
            f"{name} is told two places", given=places, allowed='data=, or allocated_addr= of scope="tmem"'
        )


def _check_one_offset(name: str, byte_offset: ir.Value, elem_offset: ir.Value) -> None:
    if ir.const_value(elem_offset) != 0:
        offsets = f"byte_offset={byte_offset}, elem_offset={elem_offset}"
        raise KernelError(f"the view {name} has two offsets", given=offsets, allowed="one of them")


def _address(value: object) -> ir.Expr | None:
    """The address that ``allocated_addr=`` gives: a value, or an element of a buffer, which is read at each use."""
    if isinstance(value, (tuple, list)) and len(value) == 1:
        value = value[0]
    if isinstance(value, ir.Buffer):
        value = ir.Load(value, tuple(ir.as_expr(0) for _ in value.shape))
    if isinstance(value, ir.Load):
        return replace(value)
    return None if value is None else ir.as_expr(value)  # type: ignore[arg-type]  # as_expr refuses what is no value


def _check_tmem(builder: KernelBuilder, name: str, kind: str, layout: Layout | None, address: object) -> None:
    """Tensor memory has lanes and columns, 128 by 512; only a layout says what is where."""
    if address is None:
        raise KernelError(
            f"{name} is in tensor memory, which an allocation hands out",
            given="no allocated_addr",
            allowed="the address that T.ptx.tcgen05.alloc has written to shared memory: allocated_addr=addr[0]",
        )
    if builder.stage != "lowered" and (not isinstance(layout, TileLayout) or _foreign(layout)):
        raise KernelError(
            f"the layout of {name}, which is in tensor memory",
            given="none" if layout is None else str(layout),
            allowed="lanes on axis TLane, columns (counted in elements) on axis TCol",
            hint="S[(rows, columns) : (1 @ TLane, 1 @ TCol)], one row per lane",
        )
    if isinstance(layout, TileLayout):
        layout.verify_well_formed()
        columns = ir.const_value(layout.cosize("TCol"))
        if columns is not None and columns * dtype(str(kind)).bits > TMEM_COLUMNS * 32:
            raise KernelError(
                f"{name} has more columns than tensor memory",
                given=f"{columns} elements of {kind} in a lane",
                allowed=f"{TMEM_COLUMNS} columns of 32 bits",
            )


def _foreign(layout: TileLayout) -> bool:
    return any(axis.name not in ("TLane", "TCol") for axis in layout.axes)


def _elements(byte_offset: ir.Value, kind: str) -> ir.Value:
    nbytes = max(1, dtype(str(kind)).bits // 8)
    number = ir.const_value(byte_offset)
    if number is not None and number % nbytes:
        raise KernelError(
            "byte_offset cuts an element", given=f"{number} bytes", allowed=f"a multiple of {nbytes} bytes ({kind})"
        )
    return ir.binary("//", byte_offset, nbytes)


def _number(value: ir.Value) -> ir.Value:
    number = ir.const_value(value)
    return ir.as_index(value) if number is None else number


# One value in memory, read and assigned by its name: ``s = T.local_scalar("int32")``, then ``s += 1``.


def alloc_scalar(dtype: str = "float32", scope: str = "local") -> ir.Load:
    """One value in memory of its own, in registers or shared: a name for it reads and assigns that value."""
    return _scalar(alloc_buffer((1,), dtype, scope=scope))


def shared_scalar(dtype: str = "float32") -> ir.Load:
    """`alloc_scalar` in shared memory."""
    return alloc_scalar(dtype, "shared")


def local_scalar(dtype: str = "float32") -> ir.Load:
    """`alloc_scalar` in registers."""
    return alloc_scalar(dtype)


def decl_scalar(
    dtype: str | None = None,
    data: ir.Expr | ir.Buffer | None = None,
    scope: str | None = None,
    elem_offset: ir.Value = 0,
    byte_offset: ir.Value | None = None,
) -> ir.Load:
    """One value in memory that exists: a name for it reads and assigns that value."""
    if data is None:
        raise KernelError("T.decl_scalar names memory that exists", given="no data", hint="T.alloc_scalar")
    return _scalar(decl_buffer((1,), dtype, data, None, elem_offset, byte_offset, scope))


def _scalar(storage: ir.Buffer) -> ir.Load:
    current("a scalar").fresh.add(storage.name)
    return ir.Load(storage, (ir.as_expr(0),))


export(
    "Memory",
    Buffer=BufferOrView,
    match_buffer=match_buffer,
    alloc_buffer=alloc_buffer,
    alloc_shared=alloc_shared,
    alloc_local=alloc_local,
    decl_buffer=decl_buffer,
    ptr_byte_offset=ptr_byte_offset,
    alloc_scalar=alloc_scalar,
    shared_scalar=shared_scalar,
    local_scalar=local_scalar,
    decl_scalar=decl_scalar,
)
