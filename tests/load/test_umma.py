"""tcgen05.mma in PTX, as compilers write it: read back it computes the same, and the same mistakes are found."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.sim.kept_mistakes import SPARSE, Kept, changed, kept
from tests.sim.umma_kernels import operands as matrices
from tests.sim.umma_kernels import product, through_tmem
from tilewright.cuda import entry_name
from tilewright.errors import TilewrightError
from tilewright.ptx.instructions import written
from tilewright.ptx.text import operands
from tilewright.ptx.tree import Name

TEXT = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k() {{ .reg .pred p; .reg .b32 r<4>; .reg .b64 d<3>;
mov.b64 d1, 0; mov.b64 d2, 0; mov.b32 r1, 0; mov.b32 r2, 0; mov.b32 r3, 0; setp.ne.b32 p, r1, r2;
{body}; ret; }}
"""


def there_and_back(kernel: object, *args: np.ndarray, without: str = "") -> list[str]:
    """Runs the PTX of a kernel on the arguments, and returns the warnings."""
    made = tw.compile(kernel, "sm_100a")
    launch, text = made.lowered.launch, made.source("ptx")
    assert launch is not None
    assert without in text
    loaded = tw.load_ptx(text.replace(without, "") if without else text)[entry_name(made.lowered)]
    return loaded.simulate(*args, grid=1, block=launch.threads).warnings


@pytest.mark.parametrize(("kernel", "turns"), [(product(), 2), (through_tmem(), 1)], ids=["shared", "tmem"])
def test_a_product_gives_the_same_by_its_ptx(kernel: object, turns: int) -> None:
    a, b, wanted = matrices(turns)
    c = np.zeros((128, 32), np.float32)

    assert there_and_back(kernel, a, b, c) == []
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("case", [SPARSE, Kept(ws=32), Kept(collected=True)], ids=["sparse", "ws", "collector"])
def test_sparse_and_kept_products_give_the_same_by_their_ptx(case: Kept) -> None:
    *args, wanted = case.inputs()

    assert there_and_back(kept(case), *args) == []
    assert np.array_equal(args[-1], wanted)


def test_a_collector_whose_matrix_has_changed_is_told_of_a_text() -> None:
    a, b = np.ones((128, 16)).astype("bfloat16"), np.ones((64, 16)).astype("bfloat16")

    with pytest.raises(TilewrightError, match="uses a collector whose matrix has changed"):
        there_and_back(changed("shared"), a, b, np.zeros((128, 64), np.float32))


def test_a_fence_that_the_text_lacks_is_a_warning() -> None:
    a, b, wanted = matrices(2)

    c = np.zeros((128, 32), np.float32)
    said = there_and_back(product(), a, b, c, without="tcgen05.fence::after_thread_sync;")

    assert any("tcgen05.ld touches tensor memory that the tcgen05.mma at" in one for one in said)
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize(
    ("mnemonic", "given", "wanted"),
    [
        ("cta_group::1.kind::f16", "[r1], d1, d2, r2, p", {"use_a_tmem": False, "scale_input_d": 0, "cta_group": 1}),
        ("cta_group::1.kind::f16", "[r1], d1, d2, r2, p, 3", {"a_dtype": "float16", "scale_input_d": 3}),
        ("cta_group::1.kind::tf32", "[r1], [r3], d2, r2, p, 15", {"use_a_tmem": True, "scale_input_d": 15}),
        ("cta_group::1.kind::f8f6f4.collector::a::use", "[r1], d1, d2, r2, {r3, r3, r3, r3}, p", {"lanes": "given"}),
        ("kind::i8.cta_group::2", "[r1], [r2], d2, r2, {r3, r3, r3, r3, r3, r3, r3, r3}, p", {"cta_group": 2}),
    ],
)  # fmt: skip
def test_every_way_to_write_it_is_read(mnemonic: str, given: str, wanted: dict[str, object]) -> None:
    found = written(f"tcgen05.mma.{mnemonic}", operands(given), lambda operand: operand == Name("p"))

    assert wanted.items() <= found.mods.items()
    assert found.operands["enable_input_d"] == Name("p")


@pytest.mark.parametrize(
    ("mnemonic", "given", "wanted"),
    [
        ("kind::mxf8f6f4.block_scale", "[r1], d1, d2, r2, [r3], [r4], p", {"scale_vec": None}),
        ("kind::mxf8f6f4.block_scale.scale_vec::1X.collector::a::fill", "[r1], [r4], d2, r2, [r3], [r4], p",
         {"scale_vec": "1X", "use_a_tmem": True, "kind": None}),
        ("kind::mxf4.block_scale.block32", "[r1], d1, d2, r2, [r3], [r4], p", {"sfa_dtype": "float8_e8m0fnu"}),
        ("kind::mxf4nvf4.block_scale.scale_vec::4X", "[r1], d1, d2, r2, [r3], [r4], p", {"b_dtype": "float4_e2m1fn"}),
        ("kind::mxf4nvf4.block_scale.scale_vec::2X", "[r1], d1, d2, r2, [r3], [r4], p",
         {"sfa_dtype": "float8_e8m0fnu", "kind": "mxf4nvf4"}),
        ("sp.kind::mxf4.block_scale.scale_vec::2X", "[r1], d1, d2, [r5], r2, [r3], [r4], p", {"scale_vec": "2X"}),
        ("sp.kind::f16", "[r1], d1, d2, [r5], r2, p, 7", {"scale_input_d": 7}),
        ("sp.kind::i8", "[r1], d1, d2, [r5], r2, {r3, r3, r3, r3}, p", {"lanes": "given"}),
        ("ws.kind::tf32.collector::b2::lastuse", "[r1], [r4], d2, r2, p", {"use_a_tmem": True}),
        ("ws.sp.kind::f8f6f4", "[r1], d1, d2, [r5], r2, p", {"use_a_tmem": False}),
        ("ws.kind::f16", "[r1], d1, d2, r2, p, d1", {"zero_column_mask": "given"}),
        ("ws.sp.kind::f16.collector::b0::fill", "[r1], [r4], d2, [r5], r2, p, d1", {"zero_column_mask": "given"}),
        ("kind::f16.ashift.collector::a::lastuse", "[r1], [r4], d2, r2, p", {"ashift": True}),
    ],
)  # fmt: skip
def test_every_family_of_products_is_read(mnemonic: str, given: str, wanted: dict[str, object]) -> None:
    words = mnemonic.split("kind")
    opcode = f"tcgen05.mma.{words[0]}cta_group::1.kind{words[1]}"

    found = written(opcode, operands(given), lambda operand: operand == Name("p"))

    assert wanted.items() <= found.mods.items()
    assert found.operands["i_desc"] == Name("r2")
    assert str(found.operands.get("sp_meta", "r5")).count("r5") == 1
    assert str(found.operands.get("sfb", "r4")).count("r4") == 1


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("tcgen05.mma.ws.cta_group::2.kind::f16 [r1], d1, d2, r2, p", "no instruction is spelled"),
        ("tcgen05.mma.ws.cta_group::1.kind::mxf4.block_scale [r1], d1, d2, r2, [r3], [r3], p", "no instruction is"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X [r1], d1, d2, r2, [r3], [r3], p",
         "no instruction is spelled"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [r1], d1, d2, r2, [r3], [r3], p", "no instruction is"),
        ("tcgen05.mma.cta_group::1.kind::f16 [r1], d1, d2, r2", "has other operands"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_by_name(body: str, what: str) -> None:
    with pytest.raises(TilewrightError) as error:
        tw.load_ptx(TEXT.format(body=body))["k"].simulate(grid=1, block=32)

    assert what in f"{error.value}"
