"""Errors: each names what is wrong at the line of the kernel that caused it, marked below with `# here`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lang.kernels import line_of, text
from tests.texts import executed
from tilewright.errors import Span, TilewrightError
from tilewright.lang import T, Tx

CASES: dict[str, tuple[str, str]] = {
    "a with of no context manager": ("with A[0]:  # here\n    pass", "`A\\[0\\]` is no context manager"),
    "a try": ("try:  # here\n    pass\nfinally:\n    pass", "a kernel has no `try` statement"),
    "an import": ("import math  # here", "a kernel has no `import` statement"),
    "a deletion": ("x = 1\ndel x  # here", "a kernel has no `delete` statement"),
    "a class": ("class C:  # here\n    pass", "a kernel has no `classdef` statement"),
    "a walrus": ("x = (y := 3)  # here", "a kernel has no named expression"),
    "an undefined name": ("for i in range(4):\n    A[i] = tidd  # here", "tidd is not defined"),
    "a place of a thread": ("A[tid] = 1  # here", r"(?s)tid is not defined.*try: +tid = T.thread_id\(\[128\]\)$"),
    "a place like an axis": (
        "A[lane_id] = 1  # here",
        r"(?s)lane_id = T.lane_id\(\[32\]\); from .*laneid, for a layout",
    ),
    "an axis that is not": ("x = 4 @ laneidd  # here", "(?s)laneidd is not defined.*import laneid"),
    "a keyword that is none": (
        "x = T.alloc_local((4,), laiout=None)  # here",
        "(?s)alloc_local has no parameter 'laiout'.*did you mean 'layout'",
    ),
    "an argument too few": ("x = T.cast(A[0])  # here", "(?s)cast: missing a required argument.*value, kind"),
    "a keyword by its position": ("m = T.tensor_map(A, (8,))  # here", "(?s)too many positional.*buffer, box="),
    "an augmented operator that is none": ("A[0] **= 2  # here", "`A\\[0\\] \\*\\*= 2` fails"),
    "a name whose block has ended": ("if A[0] > 0:\n    x = 1\nA[0] = x  # here", "x is not defined here"),
    "a let that is assigned": ("x: T.let = 3\nx = 4  # here", "x is a T.let: it cannot be assigned here"),
    "a let that is augmented": ("x: T.let = 3\nx += 4  # here", "x is a T.let: it cannot be assigned here"),
    "a let in a block": ("x: T.let = 3\nif A[0] > 0:\n    x = 4  # here", "x is a T.let"),
    "a let without a value": ("x: T.let  # here", "x cannot have this type"),
    "a counter of an outer loop": ("for i in range(4):\n    if i > 1:\n        i = 0  # here", "i is a loop counter"),
    "a buffer for a scalar": ("x = 1\nif x > 0:\n    x = A  # here", "x is a scalar: a buffer or Python value"),
    "a Python value in a branch": (
        "x = T.meta_var('a')\nif A[0] > 0:\n    x = T.meta_var('b')  # here",
        "x is a Python value: it cannot be assigned here",
    ),
    "a type that is none": ("x: int = 3  # here", "x cannot have this type"),
    "an array with a value": ("x: T.float32[4] = 3  # here", "x cannot have this type"),
    "a scalar that is no number": ("x: T.int32 = 'a'  # here", "x is a scalar"),
    "an element that is no number": ("A[0] = 'a'  # here", "an element of A is a number"),
    "a region that is assigned": ("A[0:4] = 1  # here", "it is not said which threads compute"),
    "an attribute that is assigned": ("A.name = 1  # here", "`A.name` cannot be assigned in a kernel"),
    "a list that is assigned": ("x = [1, 2]\nx[0] = 3  # here", "`x\\[0\\]` is no element of a buffer"),
    "too many values": ("a, b = (1, 2, 3)  # here", "too few or too many values to unpack"),
    "a value that does not unpack": ("a, b = A[0]  # here", "`A\\[0\\]` does not unpack"),
    "too many indices": ("A[0, 1] = 2  # here", "A has 1 dimensions"),
    "an index outside": ("A[8] = 2  # here", "index 8 is outside A"),
    "a negative index": ("A[-1] = 2  # here", "index -1 is outside A"),
    "a region outside": ("Tx.copy(A[0:9], A)  # here", r"the region A\[0:9\] lies outside of A"),
    "a float index": ("A[0.5] = 1  # here", "an index of A is an integer"),
    "a float expression as an index": ("A[A[0]] = 1  # here", "an index of A is an integer"),
    "two coordinates under one name": ("t = T.thread_id([4, 2]); x = t // 2  # here", "`t // 2` is about one value"),
    "two coordinates compared": ("t = T.thread_id([4, 2]); x = 1 if t == 0 else 2  # here", "about one value"),
    "two coordinates as an index": ("t = T.thread_id([4, 2]); A[0, t] = 1  # here", "an index of A is one value"),
    "a list at run time": ("v = [0.0, 1.0]; x = v[T.lane_id()]  # here", "picks from a Python list"),
    "a list that is stored to": ("v = [0.0, 1.0]; v[0] += A[0]  # here", "`v\\[0\\]` is no element of a buffer"),
    "a product of tiles": ("A[:] = A @ A  # here", "tiles have no operator @"),
    "a scalar as a register": (
        'r = T.uint32(0); T.ptx.ldmatrix(False, 1, ".b16", T.alloc_shared((64,), "float16").data, r)  # here',
        "T.ptx.ldmatrix writes r",
    ),
    "a region with steps": ("Tx.copy(A[0:8:-1], A)  # here", "the step of a region"),
    "an attribute that is not there": ("A.lokal()  # here", "`A` has no 'lokal'"),
    "an index of an element": ("x = A[0][1]  # here", "`A\\[0\\]` is an element, it has no index"),
    "a value that is not used": ("A[0] == 3  # here", "the value of `A\\[0\\] == 3.0` is not used"),
    "no value": ("x = T.cuda.cta_sync()  # here", "`T.cuda.cta_sync\\(\\)` has no value"),
    "division of integers": ("x = T.lane_id() / 2  # here", "`/` divides floats only"),
    "bits of floats": ("x = A[0] & 1  # here", "`&` works on bits"),
    "dtypes without a common one": (
        "x = T.float16(A[0]) + T.bfloat16(A[0])  # here",
        "operands of float16 and bfloat16 have no common dtype",
    ),
    "a reinterpretation of another size": ("x = T.reinterpret('uint64', A[0])  # here", "T.reinterpret keeps the bits"),
    "an unknown dtype": ("x = T.cast(A[0], 'flaot16')  # here", "unknown dtype 'flaot16'"),
    "a dtype that is none": ("x = T.cast(A[0], 3)  # here", "not a dtype"),
    "a special register that is none": ("x = T.special('laneidd')  # here", "unknown special register"),
    "a name that T lacks": ("T.alloc_bufer((4,))  # here", "T.alloc_bufer is not in the language"),
    "an instruction that is none": ("T.ptx.ldmatrx()  # here", "T.ptx.ldmatrx is not an instruction"),
    "an instruction without an operand": ("T.ptx.bar.sync(1)  # here", "T.ptx.bar.sync"),
    "an instruction in a form it lacks": (
        "T.ptx.ldmatrix(False, 3, '.b16', 0)  # here",
        "T.ptx.ldmatrix has no form with these modifiers",
    ),
    "a symbolic shape": ("n = 4\nB = T.alloc_shared((n,))  # here", "the shape of B must be constant"),
    "an empty shape": ("B = T.alloc_shared((0,))  # here", "the shape of B"),
    "a shape of strings": ("B = T.alloc_shared(('n',))  # here", "the shape of B"),
    "a scope that is none": (
        "B = T.alloc_buffer((4,), scope='shard')  # here",
        "T.alloc_buffer needs a scope to allocate in",
    ),
    "a layout that is none": ("B = T.alloc_shared((4,), layout=(4,))  # here", "the layout of B"),
    "a layout of another size": (
        "B = T.alloc_shared((4,), layout=T.S[(1, 2) : (2, 1)])  # here",
        "the layout of B does not fit its shape",
    ),
    "a view of nothing": ("B = T.decl_buffer((4,), 'float32')  # here", "T.decl_buffer views memory that exists"),
    "a byte offset that cuts": (
        "B = T.decl_buffer((4,), data=A.data, byte_offset=2)  # here",
        "byte_offset cuts an element",
    ),
    "a view that is too large": ("B = A.view(16)  # here", "a view of A reaches beyond it"),
    "registers of shared memory": ("B = A.local()  # here", "A.local\\(\\) is for registers"),
    "a buffer that is no parameter": ("B = T.match_buffer(A, (4,))  # here", "T.match_buffer takes a parameter"),
    "the address of a scalar": ("x = 1\ny = T.address_of(x)  # here", "`x` has no address"),
    "an assumption that is false": ("T.assume(T.int32(3) > 4)  # here", "T.assume states what is false"),
    "an assertion that fails": ("assert len(A.shape) == 2, 'rank'  # here", "fails: rank"),
    "an assertion of run time": ("assert A[0] == 2  # here", "`assert` checks while the kernel is parsed"),
    "settings that are none": ("T.attr(3)  # here", "T.attr takes a dict"),
    "settings of the function that are none": ("T.func_attr(True)  # here", "T.func_attr takes a dict"),
    "a setting of the kernel that means nothing": (
        "T.attr({'launch_bounds': 2})  # here",
        "T.attr has no setting 'launch_bounds'",
    ),
    "a setting of the function that means nothing": (
        "T.func_attr({'blocks': 2})  # here",
        "T.func_attr has no setting 'blocks'",
    ),
    "a setting with a value that it cannot have": (
        "T.func_attr({'min_blocks': 0})  # here",
        "the setting min_blocks of T.func_attr",
    ),
    "one setting under two names": (
        "T.attr({'min_blocks': 2, 'tirx.launch_bounds_min_blocks_per_sm': 3})  # here",
        "T.attr has tirx.launch_bounds_min_blocks_per_sm twice",
    ),
    "a misspelt annotation": (
        "for i in T.serial(4, annotations={'unrolled': 2}):  # here\n    pass",
        "a serial loop has no setting 'unrolled'",
    ),
    "an annotation of a vectorized loop": (
        "for i in T.vectorized(4, annotations={'unroll': 2}):  # here\n    pass",
        "a vectorized loop has no setting 'unroll'",
    ),
    "a loop that unrolls in two ways": (
        "for i in T.serial(4, unroll=2, annotations={'unroll': 4}):  # here\n    pass",
        "a serial loop has unroll twice",
    ),
    "a loop that unrolls by nothing": (
        "for i in T.serial(4, unroll=0):  # here\n    pass",
        "the setting unroll of a serial loop",
    ),
    "a preferred cluster of something else": (
        "bx = T.cta_id([4], preferred=[2])  # here",
        "T.cta_id has no keyword 'preferred'",
    ),
    "registers with an offset": (
        "B = T.alloc_buffer((4,), scope='local', offset=16)  # here",
        "B has no offset",
    ),
    "a view in another scope than its memory": (
        "B = T.decl_buffer((4,), data=A.data, scope='shared')  # here",
        "B views A, which is in global memory",
    ),
    "a view with two offsets": (
        "B = T.decl_buffer((4,), data=A.data, byte_offset=4, elem_offset=1)  # here",
        "the view B has two offsets",
    ),
    "a view of memory and of tensor memory": (
        "B = T.decl_buffer((4,), data=A.data, allocated_addr=4)  # here",
        "B is told two places",
    ),
    "a loop over nothing": ("for i in A[0]:  # here\n    pass", "`A\\[0\\]` is nothing to loop over"),
    "a loop of floats": ("for i in range(T.float32(2) * A[0]):  # here\n    pass", "the bounds of a loop are integers"),
    "a loop with a step of run time": ("for i in range(0, 8, T.lane_id()):  # here\n    pass", "the step of a loop"),
    "a grid from behind": ("for i in T.grid((4, 2)):  # here\n    pass", "T.grid goes from a bound to one behind it"),
    "a loop with too few names": ("for i in T.grid(2, 4):  # here\n    pass", "a loop has one counter for each extent"),
    "a loop with else": ("for i in range(4):\n    pass\nelse:\n    x = 1  # here", "a kernel has no `else` of `for`"),
    "a break out of a grid": ("for i, j in T.grid(2, 4):\n    break  # here", "`break` leaves one loop"),
    "a break that is late": (
        "for i in (1, 2):\n    if A[i] > 0:\n        break  # here",
        "`break` under a condition of run time",
    ),
    "a return of a value in a loop": ("for i in range(4): return i  # here", "`return` of a value under run-time"),
    "a function inside": ("def f(): pass  # here", "f is a function inside a kernel"),
    "a call of nothing": ("A(1)  # here", "`A\\(1\\)` fails: 'Buffer' object is not callable"),
    "an error of Python": ("x = 3 // 0  # here", "`3 // 0` fails: integer division or modulo by zero"),
    "an error of a helper": ("x = int('a')  # here", "`int\\('a'\\)` fails"),
    "a comprehension of run time": ("x = [i for i in (1, 2) if A[i] > 0]  # here", "a comprehension chooses"),
}


def parse(lines: str) -> tuple[Callable[[], object], int]:
    """A function that defines a kernel with these lines, and the line that is marked."""
    source = "def define():\n    @T.prim_func\n    def k(A: T.Buffer((8,), 'float32')):\n"
    source += "".join(f"        {line}\n" for line in lines.splitlines())
    define = executed(source, f"<case {hash(lines)}>", T=T, Tx=Tx)["define"]
    marked = next(number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# here"))
    return define, marked


@pytest.mark.parametrize("name", CASES)
def test_an_error_stands_at_its_line(name: str) -> None:
    lines, message = CASES[name]
    define, marked = parse(lines)

    with pytest.raises(TilewrightError, match=message) as raised:
        define()

    assert line_of(raised.value).line == marked
    assert line_of(raised.value).column >= 8
    assert "# here" in str(raised.value)


def test_an_error_in_an_inline_function_stands_at_its_own_line() -> None:
    @T.inline
    def put(buffer):
        buffer[0] = missing  # type: ignore[name-defined]  # noqa: F821  in here

    with pytest.raises(TilewrightError, match="missing is not defined") as raised:

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            put(A)

    assert line_of(raised.value).excerpt()[0].endswith("in here")


def test_an_inline_function_wants_its_arguments() -> None:
    @T.inline
    def put(buffer, value):
        buffer[0] = value

    with pytest.raises(TilewrightError, match="put: missing a required argument: 'value'") as raised:

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            put(A)

    assert raised.value.allowed == "put(buffer, value)"
    assert line_of(raised.value).excerpt()[0].endswith("put(A)")


def test_inline_functions_that_call_each_other_end() -> None:
    @T.inline
    def again(n):
        again(n + 1)

    with pytest.raises(TilewrightError, match="inline functions call each other without end"):

        @T.prim_func
        def k():
            again(0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("n", "parameter n needs a type"),
        ("n: int", "parameter n needs a type"),
        ("n: T.constexpr", "parameter n needs a type"),
        ("*n: T.int32", "a kernel has no \\*n"),
        ("n: T.int32 = 3", "the parameters of a kernel have no defaults"),
        ("n: T.Buffer((4,), 'flaot32')", "unknown dtype 'flaot32'"),
        ("n: T.Buffer((0,), 'float32')", "the shape of n"),
    ],
)
def test_a_parameter_that_is_wrong(parameters: str, message: str) -> None:
    source = f"@T.prim_func\ndef k({parameters}):\n    pass\n"

    with pytest.raises(TilewrightError, match=message) as raised:
        executed(source, f"<parameters {parameters}>", T=T)

    assert line_of(raised.value).line == 2


def test_the_whole_text_of_an_error() -> None:
    define, _ = parse("for i in range(4):\n    A[i] = tidd + 1  # here")

    with pytest.raises(TilewrightError, match="tidd") as raised:
        define()

    file = line_of(raised.value).file
    assert str(raised.value) == f"{file}:5: " + text("""
        tidd is not defined
           5 |             A[i] = tidd + 1  # here
             |                    ^^^^
          given:   tidd
          allowed: A, i
    """)


def test_carets_begin_where_the_line_does_if_nobody_knows_the_column(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("{\n    a[i] += 1;\n}\n")

    span = Span.from_column(str(tmp_path / "k.cu"), 2, None)

    assert span is not None
    assert span.excerpt()[1] == "     |     ^^^^^^^^^^"
