"""tcgen05.mma with scales of blocks, a sparse A, and kept columns of B, against the manual's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.forms import executed, form_of
from tests.isa.machines import PlainMachine
from tests.isa.scaled_oracles import SCALES, Scaled, chosen_places, in_lanes, put_matrix
from tests.isa.test_tcgen05_mma import descriptor, memory, tile
from tests.isa.umma_oracles import OURS
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, const_value, row_major
from tilewright.isa.descriptors import InstructionDescriptor
from tilewright.isa.table import Bound

Array = NDArray[Any]
D, A, SFA, SFB, META = 0, 256, 288, 320, 360
"""Columns of the operands in tensor memory."""


def row_of(product: Scaled) -> isa.Instruction:
    words = ["mma"] + ["ws"] * product.ws + ["sp"] * product.sparse + ["block_scale"] * bool(product.sf)
    return isa.lookup(f"ptx.tcgen05.{'.'.join(words)}")


class Setting:
    """A product whose operands are in the memories of a CTA or of a pair."""

    def __init__(self, product: Scaled, seed: int, *, in_tmem: bool = False, mode: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.product, self.in_tmem = product, in_tmem
        self.unit = memory(rng, 2)
        low = {"u8": 0}
        self.a = rng.integers(low.get(product.a, -2), 3, (product.m, product.k))
        self.b = rng.integers(low.get(product.b, -2), 3, (product.n, product.k))
        self.before = rng.integers(-8, 9, (product.m, product.n))
        blocks = product.k // (2 if product.sparse else 1) // product.block if product.block else 0
        codes = {"ue8m0": (124, 131), "ue4m3": (40, 80), "": (0, 1)}[product.sf]
        self.sa, self.sb = (rng.integers(*codes, (rows, blocks)) for rows in (product.m, product.n))
        self.tiles = [tile(start, rows, False, "i8", mode) for start, rows in
                      ((1024, product.rows), (1 << 16, product.n // product.ctas))]  # fmt: skip
        stored = self.a
        if product.sparse:
            self.codes, kept = chosen_places(rng, product)
            stored = self.a[kept].reshape(product.m, -1)
            self.a[~kept] = 0
        for cta in range(product.ctas):
            self.put(cta, stored)
        for (m, n), value in np.ndenumerate(self.before):
            self.unit.words[self.place(m, n)] = (
                np.int32(value).view(np.uint32) if product.d == "s32" else np.float32(value).view(np.uint32)
            )

    def put(self, cta: int, stored: Array) -> None:
        product, words = self.product, self.unit.words[cta]
        a = stored[product.rows * cta : product.rows * (cta + 1)]
        half = product.n // product.ctas
        put_matrix(self.unit.bytes[cta], self.tiles[1], self.b[half * cta : half * (cta + 1)], product.b, product.bits)
        if self.in_tmem:
            octets = np.array([list(in_lanes(line, product.a, product.bits)) for line in a], np.uint8)
            cells = octets.view(np.uint32)
            words[:, A : A + cells.shape[1]] = np.tile(cells, (product.parts, 1))
        else:
            put_matrix(self.unit.bytes[cta], self.tiles[0], a, product.a, product.bits)
        octets = words.view(np.uint8).reshape(128, 512, 4)
        for which, base, codes in (("a", SFA, self.sa[product.rows * cta :][: product.rows]), ("b", SFB, self.sb)):
            for (row, number), code in np.ndenumerate(codes):
                for lane, column, byte in product.scale_cells(which, row, number):
                    octets[lane, base + column, byte] = code
        if product.sparse:
            for (row, chunk), code in np.ndenumerate(self.codes[product.rows * cta :][: product.rows]):
                lane, column, nibble = product.code_cell(row, chunk)
                words[lane, META + column] &= np.uint32(~(15 << 4 * nibble) & 0xFFFFFFFF)
                words[lane, META + column] |= np.uint32(code << 4 * nibble)

    def place(self, m: int, n: int) -> tuple[int, int, int]:
        cta, lane, column = self.product.lane_of(m, n)
        return cta, lane, D + column

    def run(self, *, enabled: bool = True, **changed: int) -> Array:
        """D after the product, exact."""
        product, row = self.product, row_of(self.product)
        mods: dict[str, Any] = product.mods() | {"use_a_tmem": self.in_tmem}
        mods |= {"pred": None, "lanes": None, "scale_input_d": 0, "collector": "", "ashift": False}
        mods["zero_column_mask"] = "given" if "zero_column_mask" in changed else None
        form = next(form for form in row.forms if form.fits({k: v for k, v in mods.items()}))
        bound = Bound(row, form, mods, {})
        a = A if self.in_tmem else descriptor(self.tiles[0])
        given = {"d": D, "a": a, "b_desc": descriptor(self.tiles[1]), "i_desc": product.word, "sfa": SFA, "sfb": SFB}
        given |= {"sp_meta": META, **changed}
        wide = {"b_desc", "zero_column_mask", *(() if self.in_tmem else ("a",))}
        operands: dict[str, Array] = {n: np.array([v], np.uint64 if n in wide else np.uint32) for n, v in given.items()}
        operands["enable_input_d"] = np.array([enabled])
        self.unit.ctas, self.unit.rank = np.array([0]), np.array([0])
        self.unit.completed(bound, {each.name: operands[each.name] for each in bound.given})
        kind = np.int32 if product.d == "s32" else np.float32
        cells = [self.unit.words[self.place(m, n)] for m, n in np.ndindex(self.before.shape)]
        return np.array(cells, np.uint32).view(kind).reshape(self.before.shape)

    def wanted(self, *, enabled: bool = True) -> Array:
        before = self.before if enabled else np.zeros_like(self.before)
        return self.product.wanted(self.a, self.b, before, self.sa, self.sb).astype(float)


MX = "mxf8f6f4"
PRODUCTS = {
    "mxfp8": Scaled(MX, "e4m3", "e5m2", 128, 32, "ue8m0", 32),
    "mxfp8, the third scale of a cell": Scaled(MX, "e4m3", "e4m3", 128, 16, "ue8m0", 32, first=(2, 3)),
    "6 by 4 bits": Scaled(MX, "e3m2", "e2m1", 128, 16, "ue8m0", 32, negative=True),
    "mxfp4": Scaled("mxf4", "e2m1", "e2m1", 128, 16, "ue8m0", 32, first=(2, 0)),
    "mxfp4 by the other kind": Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 16, "ue8m0", 32),
    "blocks of 16, ue8m0": Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 8, "ue8m0", 16),
    "nvfp4": Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 136, "ue4m3", 16),
    "K of 96": Scaled("mxf4", "e2m1", "e2m1", 128, 16, "ue8m0", 32, wide=True, first=(1, 3)),
    "K of 96, nvfp4": Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 16, "ue4m3", 16, wide=True, first=(2, 0)),
    "a pair, mxfp8": Scaled(MX, "e4m3", "e4m3", 256, 32, "ue8m0", 32, ctas=2),
    "a pair of 64 rows each": Scaled(MX, "e4m3", "e4m3", 128, 64, "ue8m0", 32, ctas=2),
    "a pair, nvfp4": Scaled("mxf4nvf4", "e2m1", "e2m1", 256, 32, "ue4m3", 16, ctas=2),
    "sparse bf16": Scaled("f16", "bf16", "bf16", 128, 16, sparse=True, selector=1),
    "sparse tf32": Scaled("tf32", "tf32", "tf32", 128, 16, sparse=True),
    "sparse int8": Scaled("i8", "s8", "u8", 128, 16, sparse=True, d="s32"),
    "sparse fp8, a pair": Scaled("f8f6f4", "e4m3", "e5m2", 256, 32, sparse=True, ctas=2),
    "sparse mxfp8": Scaled(MX, "e4m3", "e4m3", 128, 16, "ue8m0", 32, sparse=True, first=(1, 2)),
    "sparse nvfp4": Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 16, "ue4m3", 16, sparse=True),
    "kept, 32 rows": Scaled("f16", "f16", "f16", 32, 64, ws=True),
    "kept, 64 rows": Scaled("i8", "s8", "s8", 64, 64, ws=True, d="s32"),
    "kept, 128 rows": Scaled("tf32", "tf32", "tf32", 128, 64, ws=True),
    "kept, sparse": Scaled("f8f6f4", "e4m3", "e4m3", 128, 64, sparse=True, ws=True),
}


WORDS = {name: product.word for name, product in PRODUCTS.items()}


@pytest.mark.parametrize("in_tmem", [False, True])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_a_product_is_what_its_oracle_says(product: Scaled, in_tmem: bool) -> None:
    mode = 0 if product.wide else 3
    setting = Setting(product, product.m + product.n, in_tmem=in_tmem, mode=mode)
    others = setting.unit.words.copy()
    enabled = product.first == (0, 0)

    found = setting.run(enabled=enabled)

    assert np.array_equal(found, setting.wanted(enabled=enabled).astype(np.float32))
    for at in (setting.place(m, n) for m, n in np.ndindex(setting.before.shape)):
        others[at] = setting.unit.words[at]
    assert np.array_equal(others, setting.unit.words)


def test_the_upper_bits_of_an_address_of_scales_do_not_count() -> None:
    setting = Setting(PRODUCTS["mxfp8"], 5)

    found = setting.run(sfa=SFA | 3 << 30, sfb=SFB | 1 << 30)

    assert np.array_equal(found, setting.wanted().astype(np.float32))


def test_a_scale_that_is_no_number_makes_its_rows_none() -> None:
    setting = Setting(PRODUCTS["mxfp8"], 6)
    octets = setting.unit.words[0].view(np.uint8).reshape(128, 512, 4)
    for quarter in range(4):
        octets[5 + 32 * quarter, SFA + 1, 0] = 255

    found = setting.run()

    assert np.isnan(found[37]).all()
    assert not np.isnan(np.delete(found, 37, axis=0)).any()


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("mxfp4", {"i_desc": PRODUCTS["mxfp4"]._replace(first=(1, 0)).word}, "sfa_id is 1; with 2 scales it is 0, 2"),
        ("nvfp4", {"i_desc": PRODUCTS["nvfp4"]._replace(first=(0, 2)).word}, "sfb_id is 2; with 4 scales it is 0"),
        ("nvfp4", {"i_desc": WORDS["nvfp4"] | 1 << 31, "sfa": 1 << 16}, "sfa is in lane 1; scales of blocks begin"),
        ("nvfp4", {"i_desc": WORDS["nvfp4"] | 1 << 15}, "trans_a is set; it may be clear: 4-bit elements"),
        ("nvfp4", {"i_desc": WORDS["nvfp4"] | 1 << 28}, "M is 384; it may be 128"),
        ("mxfp8", {"i_desc": WORDS["mxfp8"] & ~(1 << 23)}, "sf_dtype is code 0"),
        ("mxfp8", {"i_desc": WORDS["mxfp8"] | 1 << 31}, "wide is set; it may be clear"),
        ("mxfp8", {"i_desc": WORDS["mxfp8"] | 1 << 2}, "sparse is set, and the instruction has no metadata"),
        ("sparse bf16", {"i_desc": WORDS["sparse bf16"] & ~4}, "selector is 1; it may be 0"),
        ("sparse tf32", {"i_desc": WORDS["sparse tf32"] & ~4}, "sparse is clear, and the instruction has"),
        ("sparse bf16", {"sp_meta": META + 1}, "sp_meta is in column 361; it begins in an even one"),
        ("sparse bf16", {"i_desc": PRODUCTS["sparse bf16"]._replace(m=64).word}, "M is 64; it may be 128"),
        ("sparse int8", {"i_desc": WORDS["sparse int8"] | 1}, "selector is 1; it may be 0"),
        ("kept, 32 rows", {"i_desc": PRODUCTS["kept, 32 rows"]._replace(n=32).word}, "N is 32; it may be 64, 128, 256"),
        ("kept, sparse", {"i_desc": PRODUCTS["kept, sparse"]._replace(n=256).word}, "N is 256; it may be 64, 128"),
    ],
)  # fmt: skip
def test_operands_that_are_no_product_stop_the_kernel(name: str, changed: dict[str, int], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        Setting(PRODUCTS[name], 0).run(enabled=True, **changed)


def test_ue4m3_has_blocks_of_16_alone() -> None:
    product = PRODUCTS["nvfp4"]._replace(sf="ue8m0", block=32)

    with pytest.raises(
        SimulationError, match="sf_dtype is float8_e4m3fn, with which a block is block16 or 4X, not block32"
    ):
        Setting(product, 0).run(i_desc=PRODUCTS["nvfp4"].word)


# Instruction descriptors


def encoded(product: Scaled, **more: Any) -> Bound:
    """The call that makes a product's descriptor."""
    keywords: dict[str, Any] = {f"{name}_dtype": OURS[getattr(product, name)] for name in "dab"}
    keywords |= {"M": product.m, "N": product.n, "K": product.k, "neg_a": product.negative}
    keywords |= {"is_sparse": product.sparse, "n_cta_groups": product.ctas}
    name = "encode_instr_descriptor"
    if product.sf:
        name += "_block_scaled"
        keywords |= {"sfa_id": product.first[0], "sfb_id": product.first[1]}
        keywords |= dict.fromkeys(("sfa_dtype", "sfb_dtype"), SCALES[product.sf])
    else:
        keywords |= {"selector": product.selector, "ws": product.ws}
    word = Buffer("word", dtype("uint32"), (1,), "local", row_major((1,)))
    return form_of(f"ptx.tcgen05.{name}", word, **{**keywords, **more})


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_an_instruction_descriptor_has_the_manuals_bits(product: Scaled) -> None:
    machine = PlainMachine(np.zeros((2, 16), np.uint8), np.ones((2, 32), np.bool_))
    bound = encoded(product)
    values = [np.array(const_value(bound.operands[each.name][0])) for each in bound.read]

    found = executed(bound.form, bound.mods, machine, *values)

    assert np.unique(found).tolist() == [product.word]
    decoded = InstructionDescriptor.decode(product.word, product.kind, product.ctas, keeps_b=product.ws)
    assert decoded.encode() == product.word


def test_the_worked_values() -> None:
    e4m3, e2m1 = "float8_e4m3fn", "float4_e2m1fn"
    mxfp8 = InstructionDescriptor("mxf8f6f4", "float32", e4m3, e4m3, M=128, N=128, sf_dtype="float8_e8m0fnu")

    assert mxfp8.encode() == 0x08A00000
    assert encoded(Scaled("mxf4nvf4", "e2m1", "e2m1", 128, 128, "ue4m3", 16))
    nvfp4 = InstructionDescriptor("mxf4nvf4", "float32", e2m1, e2m1, M=128, N=128, sf_dtype=e4m3)
    assert nvfp4.encode() == 0x08200480


@pytest.mark.parametrize(
    ("mods", "message"),
    [
        ({"M": 64}, "instruction descriptor: M"),
        ({"K": 16}, "no form with these modifiers"),
        ({"sfb_dtype": "float8_e4m3fn"}, "no form with these modifiers"),
        ({"sfa_id": 4}, "instruction descriptor: sfa_id"),
    ],
)
def test_a_scaled_product_that_no_instruction_computes_is_refused(mods: dict[str, Any], message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        encoded(PRODUCTS["mxfp8"], **mods)


def test_the_bytes_of_scales_change_in_a_descriptor() -> None:
    row = isa.lookup("cuda.runtime_instr_desc")
    words = np.array([PRODUCTS["mxfp8"].word] * 4, np.uint32)

    found = executed(row.forms[0], {}, words, np.arange(4, dtype=np.uint32))

    assert found.tolist() == [PRODUCTS["mxfp8"]._replace(first=(k, k)).word for k in range(4)]


@pytest.mark.parametrize(("m", "sparse"), [(32, False), (64, False), (128, False), (128, True)])
def test_columns_of_a_kept_b_count_as_zeros_by_a_mask(m: int, sparse: bool) -> None:
    """Column by column, as the manual's examples have it: spans of used and of zeroed columns take turns."""
    rng = np.random.default_rng(m)
    product = Scaled("f16", "bf16", "bf16", m, 64, ws=True, sparse=sparse)
    setting, parts = Setting(product, m), 128 // m
    starts, firsts = rng.integers(0, 3, 4), rng.integers(0, 2, 4)
    skip, use = 2, 4
    word = 1 << 39 | skip << 40 | use << 48
    word |= sum(int(starts[i]) << 8 * i | int(firsts[i]) << 32 + i for i in range(4))

    found = setting.run(zero_column_mask=word)

    for n in range(64):
        part, column = divmod(n, 64 // parts)
        place = (column + int(starts[part])) % (skip + 1 + use + 1)
        if place < skip + 1 if firsts[part] else place >= use + 1:
            setting.b[n] = 0
    assert not setting.b.all(axis=1).all()
    assert np.array_equal(found, product.wanted(setting.a, setting.b, setting.before, setting.sa, setting.sb))


def test_a_mask_that_is_off_or_shifts_columns() -> None:
    product = Scaled("f16", "bf16", "bf16", 128, 64, ws=True)
    setting = Setting(product, 1)

    found = setting.run(zero_column_mask=3 << 40)

    assert np.array_equal(found, product.wanted(setting.a, setting.b, setting.before, setting.sa, setting.sb))
    with pytest.raises(SimulationError, match="bits 56 to 61 are 0"):
        Setting(product, 1).run(zero_column_mask=1 << 39 | 8 << 56)


@pytest.mark.parametrize("m", [32, 64])
def test_sparse_products_of_fewer_rows_are_refused_by_the_manuals_figures(m: int) -> None:
    with pytest.raises(SimulationError, match="in figures alone"):
        Setting(Scaled("f16", "bf16", "bf16", m, 64, ws=True, sparse=True), m).run()
