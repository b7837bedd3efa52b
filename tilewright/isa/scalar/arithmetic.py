"""add, sub, mul, mad, fma, div, rem, abs, neg, min, max and their like: integers and floats of all widths."""

from __future__ import annotations

from tilewright.isa.forms import Undefined
from tilewright.isa.operands import Operand
from tilewright.isa.scalar import floats, integers
from tilewright.isa.scalar.approximate import near
from tilewright.isa.scalar.rows import flag, maybe, registers, scalar, words
from tilewright.isa.table import GIVEN

BOTH = "Integer Arithmetic Instructions, Floating Point Instructions"
INTEGERS, FLOATS = "Integer Arithmetic Instructions", "Floating Point Instructions"
WHOLE = words("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = words("s16", "s32", "s64")
PAIRS = words("u16x2", "s16x2")
NARROW = words("u16", "s16", "u32", "s32")
ROUNDINGS = maybe("rn", "rz", "rm", "rp")
WRITTEN = words("rn", "rz", "rm", "rp")
NEAREST = maybe("rn")
RN = words("rn")
F32, F64, BRAIN, PACKED = words("f32"), words("f64"), words("bf16", "bf16x2"), words("f32x2")
HALVES = words("f16", "f16x2")
BY_ZERO = Undefined("b", lambda b: b == 0, "divides by zero", "a divisor other than 0; by 0 the result may be any")
FTZ, SAT, RELU = flag("ftz"), flag("sat"), {True: ".relu"}

for _name, _doc in (("add", "The sum of a and b"), ("sub", "The difference of a and b")):
    _float = floats.arithmetic(_name)
    scalar(
        _name,
        "a b",
        (f"{_name}{{type}}", {"type": WHOLE}, getattr(integers, _name)),
        (f"{_name}.sat{{type}}", {"type": words("s32"), "sat": {True: ""}}, getattr(integers, f"{_name}_saturated")),
        (f"{_name}{{rnd}}{{ftz}}{{sat}}{{type}}", {"type": F32, "rnd": ROUNDINGS, "ftz": FTZ, "sat": SAT}, _float),
        (f"{_name}{{rnd}}{{type}}", {"type": F64, "rnd": ROUNDINGS}, _float),
        (f"{_name}{{rnd}}{{ftz}}{{sat}}{{type}}", {"type": HALVES, "rnd": NEAREST, "ftz": FTZ, "sat": SAT}, _float),
        (f"{_name}{{rnd}}{{type}}", {"type": BRAIN, "rnd": NEAREST}, _float, "sm_90"),
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": PACKED, "rnd": ROUNDINGS, "ftz": FTZ}, _float, "sm_100"),
        *(((f"{_name}{{type}}", {"type": PAIRS}, integers.add, "sm_90"),) if _name == "add" else ()),
        doc=f"{_doc}: integers modulo their width, or clamped; floats rounded once.",
        chapter=BOTH,
    )

_mul, _fma, _oob = floats.arithmetic("mul"), floats.arithmetic("fma"), floats.out_of_bounds("fma")
scalar(
    "mul",
    "a b",
    ("mul{half}{type}", {"type": WHOLE, "half": words("lo", "hi")}, integers.mul),
    ("mul{half}{type}", {"type": NARROW, "half": words("wide")}, integers.mul),
    ("mul{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": ROUNDINGS, "ftz": FTZ, "sat": SAT}, _mul),
    ("mul{rnd}{type}", {"type": F64, "rnd": ROUNDINGS}, _mul),
    ("mul{rnd}{ftz}{sat}{type}", {"type": HALVES, "rnd": NEAREST, "ftz": FTZ, "sat": SAT}, _mul),
    ("mul{rnd}{type}", {"type": BRAIN, "rnd": NEAREST}, _mul, "sm_90"),
    ("mul{rnd}{ftz}{type}", {"type": PACKED, "rnd": ROUNDINGS, "ftz": FTZ}, _mul, "sm_100"),
    doc="The product of a and b: of integers its low or high half, or all of it; of floats rounded once.",
    chapter=BOTH,
    result=integers.wide,
)
scalar(
    "mad",
    (*registers("a b"), Operand("c", "bits", of=integers.wide)),
    ("mad{half}{type}", {"type": WHOLE, "half": words("lo", "hi")}, integers.mad),
    ("mad{half}{type}", {"type": NARROW, "half": words("wide")}, integers.mad),
    ("mad{half}.sat{type}", {"type": words("s32"), "half": words("hi"), "sat": {True: ""}}, integers.mad),
    ("mad{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ, "sat": SAT}, _fma),
    ("mad{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _fma),
    doc="The product of a and b, or half of it, and c; of floats rounded once, as fma.",
    chapter=BOTH,
    result=integers.wide,
)
scalar(
    "fma",
    "a b c",
    ("fma{rnd}{ftz}{sat}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ, "sat": SAT}, _fma),
    ("fma{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _fma),
    ("fma{rnd}{ftz}{sat}{type}", {"type": HALVES, "rnd": RN, "ftz": FTZ, "sat": SAT}, _fma),
    ("fma{rnd}{ftz}.relu{type}", {"type": HALVES, "rnd": RN, "ftz": FTZ, "relu": {True: ""}}, _fma, "sm_80"),
    ("fma{rnd}{type}", {"type": BRAIN, "rnd": RN}, _fma, "sm_80"),
    ("fma{rnd}.relu{type}", {"type": BRAIN, "rnd": RN, "relu": {True: ""}}, _fma, "sm_80"),
    ("fma{rnd}{ftz}{type}", {"type": PACKED, "rnd": WRITTEN, "ftz": FTZ}, _fma, "sm_100"),
    *(
        (f"fma{{rnd}}.oob{word}{{type}}", {"type": types, "rnd": RN, "oob": {True: ""}, **more}, _oob, "sm_90")
        for types, word, more in (
            ({**HALVES, **BRAIN}, "", {}),
            ({**HALVES, **BRAIN}, ".relu", {"relu": {True: ""}}),
            (HALVES, ".sat", {"sat": {True: ""}}),
        )
    ),
    doc="The value of a * b + c, rounded once; with ``oob`` 0 where one of them is the NaN of what is out of bounds.",
    chapter=FLOATS,
)
for _name, _operands in (("mul24", "a b"), ("mad24", "a b c")):
    _add = ", and c" if _name == "mad24" else ""
    _clamped = {"type": words("s32"), "half": words("hi"), "sat": {True: ""}}
    scalar(
        _name,
        _operands,
        (f"{_name}{{half}}{{type}}", {"type": words("u32", "s32"), "half": words("lo", "hi")}, integers.mul24),
        *(((f"{_name}{{half}}.sat{{type}}", _clamped, integers.mul24),) if _add else ()),
        doc=f"Of the product of 24-bit numbers the low 32 bits, or bits 16 to 47{_add}.",
        chapter=INTEGERS,
    )
scalar(
    "sad",
    (*registers("a b"), *registers("c")),
    ("sad{type}", {"type": WHOLE}, integers.difference_sum),
    doc="The sum of c and the magnitude of a - b.",
    chapter=INTEGERS,
)

_div = floats.arithmetic("div")
scalar(
    "div",
    "a b",
    ("div{type}", {"type": WHOLE}, integers.divided, "sm_75", "", BY_ZERO),
    ("div{rnd}{ftz}{type}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ}, _div),
    ("div{rnd}{type}", {"type": F64, "rnd": WRITTEN}, _div),
    ("div{rnd}{ftz}{type}", {"type": F32, "rnd": words("approx", "full"), "ftz": FTZ}, near("div")),
    doc="The quotient: of integers toward zero, all ones by 0; of floats rounded once, or approximately.",
    chapter=BOTH,
)
scalar(
    "rem",
    "a b",
    ("rem{type}", {"type": WHOLE}, integers.remainder, "sm_75", "", BY_ZERO),
    doc="The remainder of a / b, with the sign of a; all ones by 0.",
    chapter=INTEGERS,
)
for _name, _doc in (("sqrt", "The square root"), ("rcp", "The reciprocal")):
    scalar(
        _name,
        "a",
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": F32, "rnd": WRITTEN, "ftz": FTZ}, floats.arithmetic(_name)),
        (f"{_name}{{rnd}}{{type}}", {"type": F64, "rnd": WRITTEN}, floats.arithmetic(_name)),
        (f"{_name}{{rnd}}{{ftz}}{{type}}", {"type": F32, "rnd": words("approx"), "ftz": FTZ}, near(_name)),
        *(
            (("rcp{rnd}.ftz{type}", {"type": F64, "rnd": words("approx"), "ftz": {True: ""}}, near("rcp")),)
            if _name == "rcp"
            else ()
        ),
        doc=f"{_doc}, rounded once, or approximately.",
        chapter=FLOATS,
    )
for _name, _doc, _whole, _float in (
    ("abs", "The magnitude of a; the smallest integer stays as it is.", integers.absolute, floats.magnitude),
    ("neg", "The other sign; the smallest integer stays as it is.", integers.negated, floats.opposite),
):
    scalar(
        _name,
        "a",
        (f"{_name}{{type}}", {"type": SIGNED}, _whole),
        (f"{_name}{{ftz}}{{type}}", {"type": F32, "ftz": FTZ}, _float),
        (f"{_name}{{type}}", {"type": F64}, _float),
        (f"{_name}{{ftz}}{{type}}", {"type": HALVES, "ftz": FTZ}, _float),
        (f"{_name}{{type}}", {"type": BRAIN}, _float, "sm_80"),
        doc=_doc,
        chapter=BOTH,
    )
for _name, _doc, _whole in (
    ("min", "The smaller one", integers.smaller_of),
    ("max", "The larger one", integers.larger_of),
):
    _float = floats.extreme(_name)
    _nan, _xor = flag("NaN"), {"xorsign": ".xorsign.abs"}
    scalar(
        _name,
        "a b c",
        (f"{_name}{{type}}", {"type": WHOLE}, _whole),
        (f"{_name}{{type}}", {"type": PAIRS}, _whole, "sm_90"),
        (f"{_name}.relu{{type}}", {"type": words("s32", "s16x2"), "relu": {True: ""}}, _whole, "sm_90"),
        (f"{_name}{{ftz}}{{type}}", {"type": F32, "ftz": FTZ}, _float),
        (f"{_name}{{ftz}}.NaN{{type}}", {"type": F32, "ftz": FTZ, "nan": {True: ""}}, _float, "sm_80"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": F32, "ftz": FTZ, "nan": _nan, "magnitudes": _xor},
            _float,
            "sm_86",
        ),
        (f"{_name}{{type}}", {"type": F64}, _float),
        (f"{_name}{{ftz}}{{nan}}{{type}}", {"type": HALVES, "ftz": FTZ, "nan": _nan}, _float, "sm_80"),
        (f"{_name}{{nan}}{{type}}", {"type": BRAIN, "nan": _nan}, _float, "sm_80"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": HALVES, "ftz": FTZ, "nan": _nan, "magnitudes": _xor},
            _float,
            "sm_86",
        ),
        (f"{_name}{{nan}}{{magnitudes}}{{type}}", {"type": BRAIN, "nan": _nan, "magnitudes": _xor}, _float, "sm_86"),
        (
            f"{_name}{{ftz}}{{nan}}{{magnitudes}}{{type}}",
            {"type": F32, "ftz": FTZ, "nan": _nan, "magnitudes": {None: "", "abs": ".abs"}, "c": GIVEN},
            _float,
            "sm_100",
        ),
        doc=f"{_doc}, or of three; of floats the number where one is NaN, unless ``nan``; -0 is less than +0.",
        chapter=BOTH,
    )
_mixed = {"atype": words("f16", "bf16"), "rnd": ROUNDINGS, "sat": SAT}
for _name, _operands, _table in (
    ("add", "a:atype b:f32", _mixed),
    ("sub", "a:atype b:f32", _mixed),
    ("fma", "a:atype b:atype c:f32", _mixed | {"rnd": WRITTEN}),
):
    scalar(
        f"{_name}.mixed",
        _operands,
        (f"{_name}{{rnd}}{{sat}}.f32{{atype}}", _table, floats.mixed(_name), "sm_100"),
        doc=f"{_name} of numbers of 16 bits and the last one of 32, rounded once.",
        chapter="Mixed Precision Floating Point Instructions",
        result="f32",
    )
scalar(
    "copysign",
    "a b",
    ("copysign{type}", {"type": words("f32", "f64")}, floats.copied_sign),
    doc="The magnitude of b with the sign of a.",
    chapter=FLOATS,
)
scalar(
    "testp",
    "a",
    (
        "testp{test}{type}",
        {
            "type": words("f32", "f64"),
            "test": words("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
        },
        floats.tested,
    ),
    doc="Whether a is a number of this kind; zeros are normal.",
    chapter=FLOATS,
    result="pred",
)
