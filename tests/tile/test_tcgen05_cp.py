"""Copies from shared to tensor memory: their code, their conditions, and their reasons when they decline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tile.kernels import AT, BX, LANE, TID, WARP, buffer, by_one_thread, copy_async, kernel, tensor
from tests.tile.tmem_machine import TmemMachine
from tilewright import isa, tile
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError
from tilewright.ir import Argument, Buffer, Evaluate, For, If, Kernel, Region, Stmt, Var, as_expr, binary, statements
from tilewright.layout import (
    ComposeLayout,
    Layout,
    R,
    S,
    SwizzleLayout,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    tmem_datapath_layout,
)
from tilewright.tile import Entry


def scales(columns: int = 16, kind: str = "uint8") -> Buffer:
    """32 rows, each in the lanes of all four warps."""
    return tensor("tmem", (32, columns), S[(32, columns) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane], kind)


def shared(shape: tuple[int, ...], layout: Layout | None = None, kind: str = "uint8") -> Buffer:
    return buffer("A_smem", "shared", shape, layout, kind)


def resolved(*stmts: Stmt, arch: str = "sm_100a", threads: int = 128) -> tuple[Kernel, list[Entry]]:
    done, report = tile.resolve(kernel(*stmts, threads=threads), arch)
    return done, list(report.entries)


def copied(dst: Buffer | Region, src: Buffer | Region, **config: Argument) -> tuple[list[str], Entry]:
    """The instructions of a copy by thread 0, as text, and the report's entry."""
    done, entries = resolved(by_one_thread(copy_async(dst, src, scope="thread", **config)))
    return instructions(done), entries[-1]


def instructions(done: Kernel) -> list[str]:
    return [str(stmt.value) for stmt in statements(done.body) if isinstance(stmt, Evaluate)]


def refused(dst: Buffer | Region, src: Buffer | Region, **config: Argument) -> DispatchError:
    with pytest.raises(DispatchError, match="copy_async") as raised:
        copied(dst, src, **config)
    return raised.value


def test_a_tile_of_32_rows_of_16_bytes_is_one_descriptor_and_one_instruction() -> None:
    found, said = copied(scales(), shared((32, 16)), cta_group=1)

    assert found == [
        "T.ptx.tcgen05.encode_matrix_descriptor(cp_desc.data, T.address_of(A_smem[0]), 16, 8, 0)",
        "T.ptx.tcgen05.cp(tmem_addr[0], T.smem_desc_add_16B_offset(cp_desc[0], 0), "
        'shape="32x128b", cta_group=1, multicast="warpx4")',
    ]
    assert (said.variant, said.plan) == ("tcgen05_cp", "32x128b.warpx4, 1 instruction; no swizzle")


def test_the_descriptor_is_encoded_behind_the_allocation_where_every_thread_has_it() -> None:
    done, _ = resolved(by_one_thread(copy_async(scales(), shared((32, 16)))))

    names = [stmt.buffer.name for stmt in done.body if hasattr(stmt, "buffer")]
    assert names[-2:] == ["A_smem", "cp_desc"]
    assert isinstance(done.body[-1], If)


def test_nothing_commits_and_nothing_waits() -> None:
    found, _ = copied(scales(64), shared((32, 64), mma_shared_layout("uint8", 2, (32, 64))))

    assert [line for line in found if "commit" in line or "wait" in line] == []


@pytest.mark.parametrize(
    "kind",
    ["uint8", "int8", "float8_e4m3fn", "float8_e8m0fnu", "uint16", "float16", "bfloat16", "uint32", "int32", "float32",
     "tf32", "float64", "float4_e2m1fn", "float6_e2m3fn"],
)  # fmt: skip
def test_the_elements_of_128_bits_follow_from_the_dtype(kind: str) -> None:
    columns = 128 // dtype(kind).bits

    found, said = copied(scales(columns, kind), shared((32, columns), kind=kind))

    assert said.variant == "tcgen05_cp"
    assert found[0].endswith("A_smem[0]), 16, 8, 0)")
    assert len(found) == 2


@pytest.mark.parametrize(("mode", "fields"), [(0, "16, 8, 0"), (1, "1, 16, 1"), (2, "1, 32, 2"), (3, "1, 64, 3")])
def test_the_swizzle_of_shared_memory_is_that_of_the_descriptor(mode: int, fields: str) -> None:
    columns = 16 << mode

    found, said = copied(scales(columns), shared((32, columns), mma_shared_layout("uint8", mode, (32, columns))))

    assert found[0].endswith(f"A_smem[0]), {fields})")
    assert said.plan.endswith("no swizzle" if not mode else f"{columns}-byte swizzle")


def test_more_tiles_are_an_unrolled_loop_that_bumps_column_and_descriptor() -> None:
    done, entries = resolved(
        by_one_thread(copy_async(scales(64), shared((32, 64), mma_shared_layout("uint8", 0, (32, 64)))))
    )

    (loop,) = [stmt for stmt in statements(done.body) if isinstance(stmt, For)]
    assert (str(loop.stop), loop.kind) == ("4", "unroll")
    assert str(loop.body[0].value).startswith(  # type: ignore[union-attr]
        'T.ptx.tcgen05.cp(tmem_addr[0] + T.cast(tile * 4, "uint32"), '
        "T.smem_desc_add_16B_offset(cp_desc[0], tile * 32), "
    )
    assert entries[-1].plan == "32x128b.warpx4, 4 instructions; no swizzle"


def test_regions_begin_where_they_begin_on_both_sides() -> None:
    tmem, rows = scales(64), shared((64, 64), mma_shared_layout("uint8", 0, (64, 64)))

    found, _ = copied(Region(tmem, ((0, 32), (32, 16))), Region(rows, ((32, 32), (16, 16))))

    assert found[1].startswith("T.ptx.tcgen05.cp(tmem_addr[0] + 8, T.smem_desc_add_16B_offset(cp_desc[0], 96), ")


def test_a_region_may_begin_at_a_value_of_run_time() -> None:
    stage = Var("stage")
    tmem = tensor("tmem", (4, 32, 16), S[(4, 32, 16) : (16 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    rows = Region(shared((4, 32, 16)), ((stage, 1), (0, 32), (0, 16)))
    call = copy_async(Region(tmem, ((stage, 1), (0, 32), (0, 16))), rows)

    done, _ = resolved(For(stage, as_expr(0), as_expr(4), (by_one_thread(call),)))

    assert instructions(done)[1].startswith(
        'T.ptx.tcgen05.cp(tmem_addr[0] + T.cast(stage * 4, "uint32"), '
        "T.smem_desc_add_16B_offset(cp_desc[0], stage * 32), "
    )


def test_one_descriptor_serves_all_copies_with_the_same_fields() -> None:
    tmem, rows = scales(64), shared((32, 64), mma_shared_layout("uint8", 2, (32, 64)))
    parts = [copy_async(Region(tmem, ((0, 32), (k, 16))), Region(rows, ((0, 32), (k, 16)))) for k in (0, 16, 48)]

    found = instructions(resolved(*map(by_one_thread, parts))[0])

    assert len([line for line in found if "encode" in line]) == 1
    assert [line.partition("cp_desc[0], ")[2].partition(")")[0] for line in found[1:]] == ["0", "1", "3"]


def test_other_buffers_and_other_fields_have_descriptors_of_their_own() -> None:
    tmem, rows = scales(32), shared((64, 16))
    other = replace(shared((32, 32), mma_shared_layout("uint8", 1, (32, 32))), name="B_smem")
    calls = [
        copy_async(Region(tmem, ((0, 32), (0, 16))), Region(rows, ((0, 32), (0, 16)))),
        copy_async(tmem, other),
    ]

    found = instructions(resolved(*map(by_one_thread, calls))[0])

    assert [line.partition("(")[2].partition(")")[0] for line in found if "encode" in line] == [
        "cp_desc.data, T.address_of(A_smem[0]",
        "cp_desc_1.data, T.address_of(B_smem[0]",
    ]


@pytest.mark.parametrize("group", [1, 2])
def test_the_cta_group_is_the_calls(group: int) -> None:
    found, _ = copied(scales(), shared((32, 16)), cta_group=group)

    assert f"cta_group={group}" in found[1]


# The other shapes


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_datapath_d_takes_rows_of_32_bytes_where_there_are_such(mode: int) -> None:
    columns = 8 << mode
    layout = mma_shared_layout("float16", mode, (128, columns))

    _, said = copied(
        tensor("acc", (128, columns), tmem_datapath_layout("D", 128, columns), "float16"),
        shared((128, columns), layout, "float16"),
    )

    assert said.variant == "tcgen05_cp_128"
    assert said.plan.startswith(f"128x256b, {'1 instruction' if mode == 1 else f'{columns // 16} instructions'}; ")


def test_without_a_swizzle_the_leading_offset_leads_to_the_second_16_bytes() -> None:
    layout = mma_shared_layout("float16", 0, (128, 16))

    found, said = copied(
        tensor("acc", (128, 16), tmem_datapath_layout("D", 128, 16), "float16"), shared((128, 16), layout, "float16")
    )

    assert said.plan == "128x256b, 1 instruction; no swizzle"
    assert found[0].endswith("A_smem[0]), 128, 8, 0)")


def test_an_odd_number_of_16_bytes_takes_the_narrow_shape() -> None:
    layout = mma_shared_layout("float16", 0, (128, 24))

    _, said = copied(
        tensor("acc", (128, 24), tmem_datapath_layout("D", 128, 24), "float16"), shared((128, 24), layout, "float16")
    )

    assert said.plan == "128x128b, 3 instructions; no swizzle"


def test_datapath_f_is_filled_lane_by_lane_in_all_four_warps() -> None:
    lanes = S[(4, 16, 32) : (32, 256, 1)]  # the rows of an instruction 32 bytes apart, in 128 bytes that do not swizzle

    rows = replace(shared((64, 32), lanes), align=256)

    found, said = copied(tensor("acc", (64, 32), tmem_datapath_layout("F", 64, 32)), rows)

    assert (said.variant, said.plan) == ("tcgen05_cp_4", "4x256b, 16 instructions; 32-byte swizzle")
    assert 'tmem_addr[0] + T.cast(tile * 65536, "uint32")' in found[1]
    assert "cp_desc[0], tile * 16)" in found[1]


@pytest.mark.parametrize(
    ("lanes", "replica", "pairs"),
    [
        (S[(64, 16) : (1 @ TLane, 1 @ TCol)], R[2 : 64 @ TLane], "02_13"),
        (S[(2, 32, 16) : (64 @ TLane, 1 @ TLane, 1 @ TCol)], R[2 : 32 @ TLane], "01_23"),
    ],
)
def test_two_replicas_are_for_pairs_of_warps(lanes: Layout, replica: Layout, pairs: str) -> None:
    found, said = copied(tensor("tmem", (64, 16), lanes + replica), shared((64, 16)))  # type: ignore[operator]

    assert said.variant == "tcgen05_cp_64"
    assert found[1].endswith(f'shape="64x128b", cta_group=1, multicast="warpx2::{pairs}")')


# Packed sources


def test_four_bits_in_shared_memory_become_bytes() -> None:
    packed = S[(32, 16) : (32, 1)]  # 16 elements in 8 bytes, and 8 bytes of padding

    found, said = copied(scales(16), shared((32, 16), packed, "float4_e2m1fn"))

    assert found[1].endswith('multicast="warpx4", fmt="b4x16_p64")')
    assert said.plan == "32x128b.warpx4, b4x16_p64, 1 instruction; no swizzle"


def test_six_bits_are_bytes_of_a_packed_row_to_the_layout() -> None:
    found, _ = copied(scales(16), shared((32, 16), kind="float6_e3m2fn"))

    assert found[1].endswith('fmt="b6x16_p32")')


@pytest.mark.parametrize("fmt", ["b4x16_p64", "b6x16_p32"])
def test_a_call_may_say_how_its_bytes_are_packed(fmt: str) -> None:
    wide = tensor("acc", (128, 32), tmem_datapath_layout("D", 128, 32))

    found, _ = copied(wide, shared((128, 32), mma_shared_layout("uint8", 1, (128, 32))), fmt=fmt)

    assert found[1].endswith(f'shape="128x256b", cta_group=1, fmt="{fmt}")')


def test_four_bits_without_padding_are_declined() -> None:
    error = refused(scales(16), shared((32, 16), kind="float4_e2m1fn"))

    assert "accesses to A_smem start 8 bytes apart, which is no multiple of 16" in str(error)


# The issuing thread


def test_an_elected_thread_of_one_warp_may_issue() -> None:
    call = copy_async(scales(), shared((32, 16)))
    elected = If(binary("==", WARP, 0), (If(isa.call("ptx.elect.sync", out="p"), (call,)),), at=AT)

    assert resolved(elected)[1][-1].variant == "tcgen05_cp"


def test_threads_may_issue_copies_of_their_own() -> None:
    tmem = tensor("tmem", (4, 32, 16), S[(4, 32, 16) : (16 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    own = [Region(side, ((TID, 1), (0, 32), (0, 16))) for side in (tmem, shared((4, 32, 16)))]
    call = copy_async(own[0], own[1])

    assert resolved(If(binary("<", TID, 4), (call,), at=AT))[1][-1].variant == "tcgen05_cp"


@pytest.mark.parametrize(
    ("cond", "count"),
    [(None, 128), (binary("==", WARP, 0), 32), (binary("==", LANE, 0), 4), (isa.call("ptx.elect.sync", out="p"), 4)],
)
def test_several_threads_may_not_issue_the_same_copy(cond: object, count: int) -> None:
    call = copy_async(scales(), shared((32, 16)))

    with pytest.raises(DispatchError, match=f"tcgen05_cp_4: {count} threads get here, and each would") as raised:
        resolved(call if cond is None else If(cond, (call,), at=AT))  # type: ignore[arg-type]

    assert raised.value.hint == "Tx.copy_async in one thread: `if T.ptx.elect_sync():` in one warp"


@pytest.mark.parametrize(("scope", "named"), [("warp", "warp"), ("warpgroup", "warpgroup"), ("cta", "CTA")])
def test_a_collective_call_is_declined(scope: str, named: str) -> None:
    with pytest.raises(DispatchError, match=f"tcgen05_cp_4: the threads of a {named} execute the call together"):
        resolved(copy_async(scales(), shared((32, 16)), scope=scope))


# Further conditions


@pytest.mark.parametrize(
    ("replica", "given"),
    [
        (None, "no replica"),
        (R[2 : 32 @ TLane], "R[2:32@TLane]"),
        (R[4 : 16 @ TLane], "R[4:16@TLane]"),
        (R[4 : 32 @ TCol], "R[4:32@TCol]"),
    ],
)
def test_the_replica_is_exactly_that_of_the_four_warps(replica: TileLayout | None, given: str) -> None:
    rows = S[(32, 16) : (1 @ TLane, 1 @ TCol)]
    tmem = tensor("tmem", (32, 16), rows if replica is None else rows + replica)

    error = refused(tmem, shared((32, 16)), dispatch="tcgen05_cp")

    assert error.given == f"needs R[4:32@TLane] on tmem, which has {given}"
    assert error.allowed == "the tensor memory holds each element in all four warps' lanes: exactly R[4 : 32 @ TLane]"
    if replica is None:
        assert error.hint == "layout=S[(32, 16):(1@TLane, 1@TCol)] + R[4:32@TLane] for tmem"


def test_two_iters_that_mean_the_same_replica_will_do() -> None:
    tmem = tensor("tmem", (32, 16), S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[(2, 2) : (64 @ TLane, 32 @ TLane)])

    assert copied(tmem, shared((32, 16)))[1].variant == "tcgen05_cp"


def test_tensor_memory_has_an_address() -> None:
    error = refused(replace(scales(), allocated_addr=None), shared((32, 16)))

    assert "tcgen05_cp_4: tmem has no allocated_addr" in str(error)


def test_the_target_has_tensor_memory() -> None:
    with pytest.raises(DispatchError, match="not on sm_90a") as raised:
        resolved(by_one_thread(copy_async(scales(), shared((32, 16)))), arch="sm_90a")

    assert raised.value.hint == 'target="sm_100a"'


@pytest.mark.parametrize(
    ("tmem", "source", "reason"),
    [
        (scales(16), shared((32, 16), S[(32, 16) : (24, 1)]), "start 24 bytes apart, which is no multiple of 16"),
        (
            scales(16),
            shared((32, 16), S[(32, 16) : (1, 32)]),
            "the 16 elements of 16 bytes of a lane are no neighbours",
        ),
        (scales(16), shared((32, 16), S[(32, 16) : (32, 1)]), "the first ones start 32 bytes apart"),
        (scales(8), shared((32, 8)), "but tmem[0:32, 0:8] has shorter runs"),
        (Region(scales(32), ((0, 32), (2, 16))), shared((32, 16)), "begins inside a 32-bit column"),
        (Region(scales(16), ((0, 16), (0, 16))), shared((16, 16)), "is in lanes 0-15, 32-47, 64-79, 96-111"),
    ],
)
def test_what_does_not_fit_says_why(tmem: Buffer | Region, source: Buffer, reason: str) -> None:
    assert reason in str(refused(tmem, source, dispatch="tcgen05_cp"))


def test_a_near_miss_names_the_layout_that_would_do() -> None:
    error = refused(scales(64), shared((32, 64)))

    assert error.hint == 'layout=mma_shared_layout("uint8", SwizzleMode.SWIZZLE_64B_ATOM, (32, 64)) for A_smem'


def test_a_swizzle_wants_its_pattern_to_begin_where_it_repeats() -> None:
    swizzled = ComposeLayout(SwizzleLayout(4, 3, 3), S[32, 128])
    pool = buffer("pool", "shared", (8192,), kind="uint8")
    view = replace(pool.view(32, 128, layout=swizzled, name="A_smem"), align=0)

    error = refused(scales(128), view)

    assert "A_smem is aligned to 16 bytes, and its swizzle repeats every 1024" in str(error)
    assert error.hint == "align=1024 on A_smem"


def test_a_swizzled_region_may_begin_anywhere_in_the_pattern() -> None:
    rows = shared((32, 64), mma_shared_layout("uint8", 2, (32, 64)))
    call = copy_async(scales(16), Region(rows, ((0, 32), (BX * 16, 16))))
    done, (said,) = resolved(by_one_thread(call))

    assert said.plan == "32x128b.warpx4, 1 instruction; 64-byte swizzle"
    for block in range(4):
        machine = TmemMachine(done, {}, {"bx": block}, arena={"A_smem": 1024}).run()
        assert isinstance(machine, TmemMachine)
        wanted = rows.layout.table((32, 64))["m"][:, 16 * block : 16 * block + 16, 0]  # type: ignore[union-attr]
        assert {(lane, byte): where - 1024 for (lane, byte), (_, where) in machine.written.items()} == {
            (row + 32 * warp, byte): wanted[row, byte] for row in range(32) for byte in range(16) for warp in range(4)
        }


def test_another_swizzle_than_the_hardwares_is_declined_where_the_start_is_unknown() -> None:
    rows = shared((32, 64), ComposeLayout(SwizzleLayout(4, 2, 2), S[32, 64]))

    assert "no descriptor leads to the rows of A_smem" in str(
        refused(scales(16), Region(rows, ((0, 32), (BX * 16, 16))))
    )


@pytest.mark.parametrize(
    ("word", "value", "allowed"),
    [("cta_group", 3, "cta_group= 1, 2"), ("fmt", "b2", "fmt= '', 'b4x16_p64', 'b6x16_p32'")],
)
def test_a_keyword_has_the_values_it_has(word: str, value: int | str, allowed: str) -> None:
    assert refused(scales(), shared((32, 16)), **{word: value}).allowed == allowed


def test_dtypes_are_the_same_but_for_packed_sources() -> None:
    with pytest.raises(DispatchError, match="the dtypes differ"):
        copied(scales(8, "uint16"), shared((32, 8), kind="float16"))


def test_rows_of_four_bits_are_padded_to_16_bytes_by_the_hint() -> None:
    error = refused(scales(16), shared((32, 16), kind="float4_e2m1fn"))

    assert error.allowed == "tcgen05_cp: rows that start at multiples of 16 bytes"
    assert error.hint == "S[(32, 16):(32, 1)] for A_smem, which makes its strides multiples of 16 bytes"
    padded = shared((32, 16), S[(32, 16) : (32, 1)], "float4_e2m1fn")
    assert copied(scales(16), padded)[1].variant == "tcgen05_cp"


@pytest.mark.parametrize(
    ("dst", "src", "given"),
    [
        (scales(8, "float16"), shared((32, 8), kind="float16"), "float16 in shared memory, float16 in tmem"),
        (scales(16), shared((32, 16), kind="float6_e3m2fn"), "float6_e3m2fn in shared memory, uint8 in tmem"),
        (buffer("R", "local", (32, 16), kind="uint8"), scales(16), "uint8 in tmem memory, uint8 in local"),
    ],
)
def test_a_packing_that_the_elements_cannot_have_is_refused(dst: Buffer, src: Buffer, given: str) -> None:
    error = refused(dst, src, fmt="b4x16_p64")

    assert error.what.endswith("fmt='b4x16_p64' takes 4 bits apart")
    assert error.given == given


def test_no_loop_converts_on_the_way_to_tensor_memory() -> None:
    assert refused(scales(16), shared((32, 16), kind="int8")).hint is None


def test_a_tile_that_only_the_kernel_knows_moves_addresses_by_whole_units() -> None:
    stage = Var("stage")  # no loop says how large it is
    tmem = tensor("tmem", (4, 32, 16), S[(4, 32, 16) : (16 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    sides = (Region(side, ((stage, 1), (0, 32), (0, 16))) for side in (tmem, shared((4, 32, 16))))
    call = by_one_thread(copy_async(*sides))

    done, _ = tile.resolve(kernel(call, threads=128, symbols=(stage,)), "sm_100a")

    assert instructions(done)[1].startswith(
        'T.ptx.tcgen05.cp(tmem_addr[0] + T.cast(stage * 4, "uint32"), '
        "T.smem_desc_add_16B_offset(cp_desc[0], stage * 32), "
    )


@pytest.mark.parametrize("layout", [S[(32, 16) : (24, 1)], S[(32, 16) : (1, 32)], S[(32, 16) : (32, 1)]])
def test_rows_that_no_descriptor_reaches_are_told_of_a_layout_that_one_does(layout: Layout) -> None:
    hint = str(refused(scales(), shared((32, 16), layout)).hint)

    assert hint == 'layout=mma_shared_layout("uint8", SwizzleMode.SWIZZLE_NONE, (32, 16)) for A_smem'
    assert copied(scales(), shared((32, 16), mma_shared_layout("uint8", 0, (32, 16))))[1].variant == "tcgen05_cp"


@pytest.mark.parametrize(
    ("tmem", "kind", "plain", "plan"),
    [
        (tmem_datapath_layout("F", 64, 32), "uint8", S[(4, 16, 2, 16) : (16, 128, 64, 1)], "4x256b, 16 instructions"),
        (tmem_datapath_layout("F", 64, 32), "float32", S[(4, 16, 8, 4) : (4, 128, 16, 1)], "4x256b, 64 instructions"),
        (
            S[(2, 32, 32) : (64 @ TLane, 1 @ TLane, 1 @ TCol)] + R[2 : 32 @ TLane],
            "float32",
            S[(2, 32, 8, 4) : (128, 4, 256, 1)],
            "64x128b.warpx2::01_23, 8 instructions",
        ),
    ],
)
def test_lanes_that_no_ready_made_layout_feeds_get_one_of_their_own(
    tmem: Layout, kind: str, plain: Layout, plan: str
) -> None:
    accumulator, columns = tensor("acc", (64, 32), tmem, kind), S[(64, 32) : (1, 64)]

    hint = str(refused(accumulator, shared((64, 32), columns, kind)).hint)

    assert copied(accumulator, shared((64, 32), plain, kind))[1].plan == f"{plan}; no swizzle"
    assert hint == f"layout={plain} for A_smem" or "mma_shared_layout" in hint
    assert ("mma_shared_layout" in hint) == ("64x128b" in plan)


def test_kernels_written_for_tirx_may_call_it_by_their_name() -> None:
    found, said = copied(scales(), shared((32, 16)), dispatch="smem->tmem")

    assert found == copied(scales(), shared((32, 16)))[0]
    assert said.variant == "smem->tmem"
    assert "needs R[4:32@TLane]" in str(refused(rows_of_lanes(), shared((32, 16)), dispatch="smem->tmem").given)
    assert "has no variant 'smem->smem'" in str(refused(scales(), shared((32, 16)), dispatch="smem->smem"))


def rows_of_lanes() -> Buffer:
    """A row in a single lane each."""
    return tensor("tmem", (32, 16), S[(32, 16) : (1 @ TLane, 1 @ TCol)])
