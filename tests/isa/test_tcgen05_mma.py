"""tcgen05.mma: from descriptors and cells to D, against the manual's tables, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed, form_of
from tests.isa.machines import PlainMachine
from tests.isa.tmem_machines import PlainUnit
from tests.isa.umma_oracles import CODES, OURS, RESULTS, K, Product, Tile, lanes_of_a, place_of_d, put_in_tmem
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, const_value, row_major
from tilewright.isa import MatrixDescriptor
from tilewright.isa.descriptors import InstructionDescriptor, product_widths
from tilewright.isa.table import Bound

Array = NDArray[Any]
MMA = isa.lookup("ptx.tcgen05.mma")
SHARED = 1 << 17
DTYPES = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
WIDTHS = {"f32": np.uint32, "f16": np.uint16, "s32": np.uint32}


def bound_of(
    kind: str,
    ctas: int,
    *,
    in_tmem: bool = False,
    masked: bool = False,
    pred: bool = False,
    scale: int = 0,
    ashift: bool = False,
) -> Bound:
    """The form of a product, with its modifiers."""
    first = OURS[next(iter(CODES[kind]))]
    mods: dict[str, Any] = {"a_dtype": first, "b_dtype": first, "d_dtype": OURS[RESULTS[kind][0]], "cta_group": ctas}
    mods |= {"use_a_tmem": in_tmem, "scale_input_d": scale, "collector": "", "ashift": ashift}
    mods |= {"lanes": "given" if masked else None, "pred": "given" if pred else None}
    return Bound(MMA, next(form for form in MMA.forms if form.fits(mods)), mods, {})


def chosen(kind: str, ctas: int, in_tmem: bool, rng: np.random.Generator) -> Product:
    """Some product of a kind."""
    pick = lambda some: some[int(rng.integers(len(some)))]  # noqa: E731  # a word for it
    flags = [bool(flag) for flag in rng.integers(0, 2, 4)]
    trans_a, trans_b = flags[0] and not in_tmem, flags[1]
    d = pick(RESULTS[kind])
    types = [each for each in CODES[kind] if (each, d) != ("bf16", "f16")]
    n = pick([n for n in product_widths(kind, ctas, trans_b=trans_b) if n <= 64])
    neg_a, neg_b = flags[2:] if kind != "i8" else [False, False]
    m = 64 * ctas * (1 + int(rng.integers(2)))
    return Product(kind, d, pick(types), pick(types), m, n, trans_a, trans_b, neg_a, neg_b, ctas=ctas)


def tile(start: int, count: int, trans: bool, kind: str, mode: int) -> Tile:
    """A place for a matrix of so many rows or columns."""
    if trans and kind == "tf32":
        return Tile(start, 1024, 512, 3, "MN", atom=32)
    span = 16 << mode
    if trans:
        groups = K[kind] // 8
        return (
            Tile(start, 128, 128 * groups, 0, "MN")
            if mode == 0
            else Tile(start, 8 * span * groups, 8 * span, mode, "MN")
        )
    return Tile(start, 16 * count, 128, 0, "K") if mode == 0 else Tile(start, 16, 8 * span, mode, "K")


def descriptor(made: Tile) -> int:
    return MatrixDescriptor(made.start, made.leading, made.stride, swizzle=made.mode, atom=made.atom).encode()


class Issue:
    """One product, with its operands in the memories of a CTA, or of both CTAs of a pair."""

    def __init__(
        self, product: Product, unit: PlainUnit, cta: int, rng: np.random.Generator, *, in_tmem: bool, origin: int = 0
    ) -> None:
        self.product, self.cta, self.origin = product, cta, origin
        self.a, self.b = (rng.integers(-2 if "u8" not in kind else 0, 3, (rows, product.k))
                          for rows, kind in ((product.m, product.a), (product.n, product.b)))  # fmt: skip
        self.before = rng.integers(-8, 9, (product.m, product.n))
        mode = int(rng.integers(4))
        here = product.m // product.ctas, product.n // product.ctas
        self.tiles = [tile(1024, here[0], product.trans_a, product.kind, mode),
                      tile(1 << 16, here[1], product.trans_b, product.kind, mode)]  # fmt: skip
        for rank in range(product.ctas):
            shared, words = unit.bytes[cta + rank], unit.words[cta + rank]
            self.tiles[1].put(shared, self.b[here[1] * rank : here[1] * (rank + 1)], product.b, product.k)
            if not in_tmem:
                self.tiles[0].put(shared, self.a[here[0] * rank : here[0] * (rank + 1)], product.a, product.k)
                continue
            for m, lanes in lanes_of_a(product, rank, origin):
                put_in_tmem(words, 300, lanes, self.a[[m] * len(lanes)], product.a, product.k)
        for (m, n), value in np.ndenumerate(self.before):
            self.cells(unit)[self.place(m, n)] = np.array(value, DTYPES[product.d]).view(WIDTHS[product.d])
        self.in_tmem = in_tmem

    def cells(self, unit: PlainUnit) -> Array:
        return unit.words[self.cta : self.cta + self.product.ctas]

    def place(self, m: int, n: int) -> tuple[int, int, int]:
        rank, lane, column = place_of_d(self.product.m, self.product.ctas, self.product.n, m, n)
        return rank, lane + self.origin, column + 32

    def result(self, unit: PlainUnit) -> Array:
        kind = self.product.d
        found = [self.cells(unit)[self.place(m, n)] for m, n in np.ndindex(self.before.shape)]
        return np.array(found, np.uint32).astype(WIDTHS[kind]).view(DTYPES[kind]).reshape(self.before.shape)

    def operands(self) -> dict[str, Any]:
        a = (self.origin << 16) + 300 if self.in_tmem else descriptor(self.tiles[0])
        return {"d": (self.origin << 16) + 32, "a": a, "b_desc": descriptor(self.tiles[1]), "i_desc": self.product.word}


def memory(rng: np.random.Generator, ctas: int = 4) -> PlainUnit:
    noise = rng.integers(0, 255, (ctas, SHARED), dtype=np.uint8)
    return PlainUnit(noise, rng.integers(0, 1 << 32, (ctas, 128, 512), dtype=np.uint32), [])


def run(bound: Bound, unit: PlainUnit, issues: list[Issue], **more: Any) -> None:
    """Issue them together."""
    unit.ctas = np.array([issue.cta for issue in issues])
    unit.rank, unit.warp = unit.ctas % 2, np.zeros(len(issues), np.int64)
    kinds = {
        "d": np.uint32,
        "a": np.uint32 if bound.mods["use_a_tmem"] else np.uint64,
        "b_desc": np.uint64,
        "i_desc": np.uint32,
    }
    operands: dict[str, Array] = {
        name: np.array([issue.operands()[name] for issue in issues], kind) for name, kind in kinds.items()
    }
    order = [each.name for each in bound.given]
    operands |= {"enable_input_d": np.ones(len(issues), np.bool_), **more}
    unit.completed(bound, {name: operands[name] for name in order})


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("in_tmem", [False, True])
@pytest.mark.parametrize("kind", K)
def test_a_product_is_what_its_oracle_says(kind: str, in_tmem: bool, ctas: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit, product = memory(rng, 2), chosen(kind, ctas, in_tmem, rng)
    origin = 16 if (product.m, ctas) == (64, 1) and seed % 2 else 0
    issue = Issue(product, unit, 0, rng, in_tmem=in_tmem, origin=origin)
    enabled = bool(seed % 3)
    others = unit.words.copy()
    scale = seed if kind in ("f16", "tf32") else 0

    run(bound_of(kind, ctas, in_tmem=in_tmem, scale=scale), unit, [issue], enable_input_d=np.array([enabled]))

    before = issue.before / 2**scale if enabled else np.zeros_like(issue.before)
    assert np.array_equal(issue.result(unit), product.wanted(issue.a, issue.b, before))
    for at in (issue.place(m, n) for m, n in np.ndindex(issue.before.shape)):
        others[at] = unit.words[at]
    assert np.array_equal(others, unit.words)  # no other cell


@pytest.mark.parametrize("kind", K)
def test_issuers_may_have_products_of_different_shapes(kind: str) -> None:
    rng = np.random.default_rng(7)
    unit = memory(rng)
    issues = [Issue(chosen(kind, 1, False, rng), unit, cta, rng, in_tmem=False) for cta in range(4)]
    assert len({issue.product for issue in issues}) == 4

    run(bound_of(kind, 1, pred=True), unit, issues, pred=np.array([True, True, False, True]))

    for number, issue in enumerate(issues):
        wanted = issue.before if number == 2 else issue.product.wanted(issue.a, issue.b, issue.before)
        assert np.array_equal(issue.result(unit), wanted)


@pytest.mark.parametrize("ctas", [1, 2])
def test_rows_of_a_shift_within_32_of_them(ctas: int) -> None:
    rng = np.random.default_rng(9)
    unit = memory(rng, 2)
    issue = Issue(Product("f16", "f32", "bf16", "bf16", 128 * ctas, 32, ctas=ctas), unit, 0, rng, in_tmem=True)

    run(bound_of("f16", ctas, in_tmem=True, ashift=True), unit, [issue])

    shifted = np.array([issue.a[m if m % 32 == 31 else m + 1] for m in range(128 * ctas)])
    assert np.array_equal(issue.result(unit), issue.product.wanted(shifted, issue.b, issue.before))


def test_rows_of_a_half_do_not_shift() -> None:
    rng = np.random.default_rng(9)
    unit = memory(rng, 2)
    issue = Issue(GOOD._replace(m=64), unit, 0, rng, in_tmem=True)

    with pytest.raises(SimulationError, match="M is 64; with ashift it is 128"):
        run(bound_of("f16", 1, in_tmem=True, ashift=True), unit, [issue])


def test_disabled_lanes_keep_what_they_have() -> None:
    rng = np.random.default_rng(3)
    for ctas, m in ((1, 64), (1, 128), (2, 128), (2, 256)):
        unit = memory(rng)
        issue = Issue(Product("f16", "f32", "bf16", "bf16", m, 32, ctas=ctas), unit, 2, rng, in_tmem=False)
        masks = rng.integers(0, 1 << 32, (1, 4 * ctas), dtype=np.uint32)

        run(bound_of("f16", ctas, masked=True), unit, [issue], lanes=masks)

        wanted, found = issue.product.wanted(issue.a, issue.b, issue.before), issue.result(unit)
        for at in np.ndindex(wanted.shape):
            rank, lane, _ = issue.place(*at)
            disabled = int(masks[0, 4 * rank + lane // 32]) >> lane % 32 & 1
            assert found[at] == (issue.before if disabled else wanted)[at]


def test_integers_wrap_or_are_clamped() -> None:
    for saturate in (False, True):
        rng = np.random.default_rng(5)
        unit = memory(rng)
        issue = Issue(Product("i8", "s32", "s8", "u8", 64, 8, saturate=saturate), unit, 0, rng, in_tmem=False)
        issue.before[:] = 2**31 - 1
        for m, n in np.ndindex(issue.before.shape):
            issue.cells(unit)[issue.place(m, n)] = 2**31 - 1

        run(bound_of("i8", 1), unit, [issue])

        exact = issue.product.wanted(issue.a, issue.b, issue.before)
        assert (issue.a @ issue.b.T > 0).any()
        assert np.array_equal(issue.result(unit), exact if saturate else (exact + 2**31) % 2**32 - 2**31)


GOOD = Product("f16", "f32", "bf16", "bf16", 128, 32)
BAR = Buffer("bar", dtype("int32"), (1,), "shared", row_major((1,)))
WIDE_ATOMS = MatrixDescriptor(0, swizzle=3, atom=32).encode()


@pytest.mark.parametrize(
    ("kind", "bits", "message"),
    [
        ("f16", GOOD._replace(m=64, n=0).word, "N is 0; it may be a multiple of 8, 8 to 256, for kind f16"),
        ("f16", GOOD._replace(m=96).word, "M is 96; it may be 64, 128"),
        ("f16", GOOD._replace(m=256).word, "M is 256; it may be 64, 128"),
        ("f16", GOOD._replace(d="f16").word, "d_dtype is float16 with bfloat16 operands; it may be float32"),
        ("f16", GOOD.word + (1 << 7), r"a_dtype is code 2 in bits 7-9; it may be 0 \(float16\), 1 \(bfloat16\)"),
        (
            "f16",
            GOOD.word | 1 << 5,
            r"d_dtype is code 3 in bits 4-5; it may be 1 \(float32\), 0 \(float16\) for kind f16",
        ),
        ("f16", GOOD.word | 1 << 2, "sparse is set, and the instruction has no metadata"),
        ("f16", GOOD.word | 1 << 23, "reserved bits is 0x.*, which sets bits 23; it may be 0 there"),
        ("f16", GOOD.word | 1 << 3, "sat_d is set; it may be clear: only integers are clamped"),
        ("tf32", GOOD.word, "a_dtype is code 1 in bits 7-9; it may be 2 \\(tf32\\) for kind tf32"),
        ("i8", Product("i8", "s32", "s8", "s8", 64, 24).word | 1 << 13, "neg_a is set; it may be clear: integers"),
        ("i8", Product("i8", "s32", "s8", "s8", 64, 40).word, r"N is 40; .*16, 8 to 256, or one of \(8, 16, 24\)"),
        ("i8", Product("i8", "s32", "s8", "s8", 64, 24, trans_b=True).word, "N is 24; .* a multiple of 16"),
    ],
)
def test_a_descriptor_of_no_product_stops_the_kernel(kind: str, bits: int, message: str) -> None:
    unit = memory(np.random.default_rng(0))
    issues = [Issue(GOOD, unit, cta, np.random.default_rng(0), in_tmem=False) for cta in (0, 1)]
    bound = bound_of(kind, 1)
    element = next(iter(CODES[kind]))
    codes = np.array([bits, Product(kind, RESULTS[kind][0], element, element, 64, 16).word], np.uint32)

    with pytest.raises(SimulationError, match=f"instruction descriptor: {message}") as error:
        run(bound, unit, issues, i_desc=codes)
    assert error.value.given == "issuers [0]"


@pytest.mark.parametrize(
    ("product", "more", "in_tmem", "message"),
    [
        (GOOD, {"d": 16 << 16}, False, "d is in lane 16; with M 128 it is 0"),
        (GOOD._replace(m=64), {"d": 32 << 16}, False, "d is in lane 32; with M 64 it is 0 or 16"),
        (GOOD._replace(m=64), {"a": 16 << 16}, True, "a is in lane 16 and d in lane 0; they are in the same"),
        (GOOD._replace(trans_a=True), {}, True, "trans_a is set; A in tensor memory is K-major"),
        (GOOD, {"a": 0}, False, "a: matrix descriptor: constant"),
        (GOOD, {"b_desc": WIDE_ATOMS}, False, "b_desc: matrix descriptor: atom is 32"),
        (Product("tf32", "f32", "tf32", "tf32", 64, 32, trans_b=True),
         {"b_desc": MatrixDescriptor(0, swizzle=3).encode()}, False,
         "b_desc: matrix descriptor: atoms are of 32 bytes for MN-major tf32, and of 16 for all else"),
        (GOOD._replace(trans_b=True), {"b_desc": WIDE_ATOMS}, False,
         "b_desc: matrix descriptor: atoms are of 32 bytes for MN-major tf32"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_the_product_stop_the_kernel(
    product: Product, more: dict[str, int], in_tmem: bool, message: str
) -> None:
    rng = np.random.default_rng(0)
    unit = memory(rng)
    issue = Issue(product._replace(trans_a=product.trans_a and not in_tmem), unit, 0, rng, in_tmem=in_tmem)
    issue.product = product

    wrong = {name: np.array([value], np.uint64 if value >> 32 else np.uint32) for name, value in more.items()}
    with pytest.raises(SimulationError, match=message):
        run(bound_of(product.kind, 1, in_tmem=in_tmem), unit, [issue], **wrong)


# Instruction descriptors


def encoded(product: Product, **more: Any) -> Bound:
    """The call that makes a product's descriptor."""
    types = {f"{name}_dtype": OURS[getattr(product, name)] for name in "dab"}
    flags = {name: getattr(product, name) for name in ("trans_a", "trans_b", "neg_a", "neg_b")}
    keywords = {**types, "M": product.m, "N": product.n, "K": product.k, **flags, "sat_d": product.saturate}
    word = Buffer("word", dtype("uint32"), (1,), "local", row_major((1,)))
    keywords |= {"n_cta_groups": product.ctas, **more}
    return form_of("ptx.tcgen05.encode_instr_descriptor", word, **keywords)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("kind", K)
def test_an_instruction_descriptor_has_the_manuals_bits(kind: str, ctas: int) -> None:
    machine = PlainMachine(np.zeros((2, 16), np.uint8), np.ones((2, 32), np.bool_))
    for seed in range(20):
        product = chosen(kind, ctas, False, np.random.default_rng(seed))._replace(
            saturate=kind == "i8" and seed % 2 == 1
        )
        bound = encoded(product)
        values = [np.array(const_value(bound.operands[each.name][0])) for each in bound.read]

        found = executed(bound.form, bound.mods, machine, *values)

        assert np.unique(found).tolist() == [product.word]
        decoded = InstructionDescriptor.decode(product.word, kind, ctas)
        assert decoded.encode() == product.word
        assert (decoded.M, decoded.N, decoded.d_dtype) == (product.m, product.n, OURS[product.d])


def test_the_worked_value() -> None:
    assert InstructionDescriptor("f16", "float32", "bfloat16", "bfloat16", M=128, N=256).encode() == 0x08400490


@pytest.mark.parametrize(
    ("mods", "message"),
    [
        ({"M": 256}, "instruction descriptor: M"),
        ({"N": 12}, "instruction descriptor: N"),
        ({"K": 8}, "no form with these modifiers"),
        ({"a_dtype": "int8"}, "no form with these modifiers"),
        ({"d_dtype": "float16"}, "no form with these modifiers"),
        ({"sat_d": True}, "instruction descriptor: sat_d"),
        ({"is_sparse": True}, "no form with these modifiers"),
        ({"is_sparse": True, "K": 32, "M": 64}, "instruction descriptor: M"),
        ({"neg_a": BAR[0] > 0}, "neg_a"),
    ],
)
def test_a_constant_product_that_no_instruction_computes_is_refused(mods: dict[str, Any], message: str) -> None:
    assert encoded(GOOD)
    with pytest.raises(InstructionError, match=message):
        encoded(GOOD, **mods)
