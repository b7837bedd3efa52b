"""The adviser finds the best layout that an exhaustive search finds, says why there is none, and proves its words."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tests.examples.compute import module
from tests.samples import sampled
from tilewright import T, Tx
from tilewright.cli import main
from tilewright.errors import KernelError
from tilewright.ir import Kernel
from tilewright.layout import S, SwizzleLayout

PAGE = Path(__file__).parents[2] / "docs" / "advice.md"


# The oracle: tries every swizzle and padding, counts words per bank in Python, and knows nothing of tilewright.


def passes(addresses: list[int], width: int) -> int:
    """Wavefronts of one access of the lanes with these addresses."""
    together = min(32, 128 // max(4, width))
    total = 0
    for first in range(0, len(addresses), together):
        words = defaultdict(set)
        for address in addresses[first : first + together]:
            for byte in range(0, max(width, 4), 4):
                words[(address + byte) // 4 % 32].add((address + byte) // 4)
        total += max(map(len, words.values()))
    return total


def best(rows: int, columns: int, bits: int, asked: list[tuple[list[tuple[int, int]], int]]) -> int:
    """The fewest passes that all accesses (elements of the lanes, bytes of each) take with any layout."""
    nbytes, found = bits // 8, []
    size = rows * columns
    for base, length, shift in product(range(7), range(1, 6), range(1, 12)):
        if shift < length or base + length + shift > size.bit_length() or size % (1 << (base + length)):
            continue
        mask = ((1 << length) - 1) << base
        if all((1 << base) * nbytes >= width for _, width in asked):
            places = [
                [(a ^ (a >> shift & mask)) * nbytes for a in (r * columns + c for r, c in lanes)] for lanes, _ in asked
            ]
            found.append(sum(passes(at, width) for at, (_, width) in zip(places, asked, strict=True)))
    for pad in range(128 // nbytes + 1):
        places = [[(r * (columns + pad) + c) * nbytes for r, c in lanes] for lanes, _ in asked]
        if all(a % width == 0 for at, (_, width) in zip(places, asked, strict=True) for a in at):
            found.append(sum(passes(at, width) for at, (_, width) in zip(places, asked, strict=True)))
    return min(found)


KINDS = {8: "uint8", 16: "float16", 32: "float32"}


def matrices(rows: int, columns: int, step: int, instruction: str) -> Kernel:
    """stmatrix or ldmatrix of rows that are ``step`` apart, and the rows go out as vectors of 16 bytes."""

    @T.prim_func
    def kernel(A: T.Buffer((rows, columns), "float16"), B: T.Buffer((32, 2), "float16")):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((rows, columns), "float16")
        r = T.alloc_local((2,), "float16")
        Tx.cta.copy(tile[:, :], A[:, :])
        T.cuda.cta_sync()
        r[0] = T.float16(0)
        r[1] = T.float16(0)
        getattr(T.ptx, instruction)(False, 1, ".b16", tile.ptr_to([lane % 8 * step % rows, 0]), T.address_of(r[0]))
        B[lane, 0] = r[0]
        B[lane, 1] = r[1]

    return kernel


def after(kernel: Kernel) -> tuple[int, int]:
    """Passes before and after the adviser's changes."""
    made = tw.compile(kernel, target="sm_90a")
    began = process_time()
    advice = made.advise()
    assert process_time() - began < 1, "seconds that advice on a pair of accesses may take"
    before = sum(line.wavefronts for line in advice.lines)
    return before, before - sum(change.before - change.after for change in advice.changes)


@sampled(25, of=100)
@given(
    rows=st.sampled_from([32, 64]),
    columns=st.sampled_from([16, 32, 64, 128]),
    bits=st.sampled_from([8, 16, 32]),
    row_step=st.sampled_from([1, 2, 3, 4]),
    column_step=st.sampled_from([0, 1, 2, 8]),
    other=st.sampled_from([(0, 1), (1, 0), (1, 1), (2, 4)]),
)
def test_the_best_layout_of_two_accesses_is_that_of_an_exhaustive_search(
    rows: int, columns: int, bits: int, row_step: int, column_step: int, other: tuple[int, int]
) -> None:
    def elements(by_row: int, by_column: int) -> list[tuple[int, int]]:
        return [(lane * by_row % rows, lane * by_column % columns) for lane in range(32)]

    @T.prim_func
    def kernel(A: T.Buffer((32,), KINDS[bits]), B: T.Buffer((32,), KINDS[bits])):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((rows, columns), KINDS[bits])
        tile[lane * row_step % rows, lane * column_step % columns] = A[lane]
        T.cuda.cta_sync()
        B[lane] = tile[lane * other[0] % rows, lane * other[1] % columns]

    asked = [(elements(row_step, column_step), bits // 8), (elements(*other), bits // 8)]

    before, found = after(kernel)

    assert before == sum(passes([(r * columns + c) * bits // 8 for r, c in lanes], width) for lanes, width in asked)
    assert found <= best(rows, columns, bits, asked)


@sampled(10, of=100)
@given(
    rows=st.sampled_from([16, 32, 64]),
    columns=st.sampled_from([16, 32, 64, 128]),
    step=st.sampled_from([1, 2, 3, 4]),
    instruction=st.sampled_from(["ldmatrix", "stmatrix"]),
)
def test_the_best_layout_of_matrices_and_vectors_is_that_of_an_exhaustive_search(
    rows: int, columns: int, step: int, instruction: str
) -> None:
    each = rows * columns // 256  # of 32 lanes by 16 bytes
    vectors = [([divmod((i * 32 + lane) * 8, columns) for lane in range(32)], 16) for i in range(each)]
    matrix = [(lane % 8 * step % rows, 0) for lane in range(8)]

    _, found = after(matrices(rows, columns, step, instruction))

    assert found <= best(rows, columns, 16, [*vectors, (matrix, 16)])


def test_a_line_that_no_layout_serves_is_named() -> None:
    @T.prim_func
    def kernel(A: T.Buffer((64, 32), "float32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((64, 32), "float32")
        for i in range(64):
            tile[i, lane] = A[i, lane]
        T.cuda.cta_sync()
        A[0, lane] = tile[lane, 0] + tile[lane % 8 * 4, lane // 8 * 8] + tile[lane * 2, lane * 3 % 32]

    advice = tw.compile(kernel, target="sm_90a").advise()

    assert len(advice.changes) == 1
    assert advice.changes[0].after <= advice.changes[0].before
    if advice.changes[0].after > advice.changes[0].ideal:
        assert "wavefronts" in advice.changes[0].rest


def test_arguments_are_left_alone_and_the_changed_kernel_gives_their_results() -> None:
    kernel = module("conflicts").halves_by_columns
    a = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float16)
    b = np.zeros_like(a)

    advice = tw.compile(kernel, target="sm_90a").advise(a, b)

    assert not b.any()
    run = tw.simulate(advice.kernel, a, b)
    assert np.array_equal(b, a.T)
    assert run.counts.bank_conflicts == 0


def test_a_tile_of_the_copy_engine_gets_a_swizzle_of_the_hardware() -> None:
    advice = tw.compile(module("conflicts").brought_by_tma, target="sm_90a").advise()

    assert advice.changes[0].layout == SwizzleLayout(3, 3, 3).after(S[64, 64])


def commands() -> list[tuple[str, str]]:
    """Each command of the page, with the output that stands under it."""
    found = re.findall(r"^```text\n\$ tilewright (.*?)\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [(command, text) for command, text in found]


@pytest.mark.parametrize("command", range(6))
def test_the_page_shows_what_the_commands_say(
    command: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line, text = commands()[command]
    monkeypatch.setattr("sys.argv", ["tilewright", *line.split()])
    monkeypatch.chdir(PAGE.parents[1])

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 0
    said = capsys.readouterr().out
    assert all(part.strip("\n") in said for part in text.split("...\n"))


@T.prim_func
def without_barrier(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")):
    T.cta_id([1])
    warp, lane = T.warp_id([4]), T.lane_id([32])
    tile = T.alloc_shared((32, 32), "float32")
    for i in range(8):
        tile[i * 4 + warp, lane] = A[i * 4 + warp, lane]
    for i in range(8):
        B[i * 4 + warp, lane] = tile[lane, i * 4 + warp]


def test_a_kernel_with_findings_is_told_so_first_and_nothing_is_called_proved() -> None:
    advice = tw.compile(without_barrier).advise()

    (finding,) = advice.findings
    assert finding.kind == "races"
    assert str(advice).startswith("the kernel is wrong, whatever its layouts:\n")
    assert advice.changes
    assert "proved" not in str(advice)


def test_advice_in_time_says_what_a_layout_and_an_order_of_lanes_would_gain() -> None:
    @T.prim_func
    def turned(A: T.Buffer((1024, 32, 32), "float32"), B: T.Buffer((1024, 32, 32), "float32")):
        cta, lane = T.cta_id([1024]), T.lane_id([32])
        tile = T.alloc_shared((32, 32), "float32")
        for i in range(32):
            tile[i, lane] = A[cta, i, lane]
        T.cuda.warp_sync()
        for i in range(32):
            B[cta, lane, i] = tile[lane, i]

    exe = tw.compile(turned, "sm_90a")
    assert exe.advise().times is None
    times = exe.advise(gpu="H200").times

    assert times is not None
    ran = [gain for gain in times.gains if gain.was_run]
    played = [gain for gain in times.gains if not gain.was_run]
    assert [gain.seconds < times.now.seconds for gain in (*ran, *played)] == [True] * len(times.gains)
    assert any("if neighbouring lanes touched neighbouring bytes where it writes B" in gain.what for gain in played)
    assert "us on H200" in str(times)


def of_vectors(threads: int, vector: int, added: int = 0) -> tw.Executable:
    @T.prim_func
    def moved(a: T.handle, b: T.handle):
        n = T.int32()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        T.assume(n % (threads * vector) == 0)
        at: T.let = (T.cta_id([n // (threads * vector)]) * threads + T.thread_id([threads])) * vector
        held = T.alloc_local((vector,), "float32")
        Tx.copy(held[:], A[at : at + vector])
        for i in T.unroll(vector):
            held[i] = held[i] + added
        Tx.copy(B[at : at + vector], held[:])

    return tw.compile(moved, "sm_90a")


def test_advice_in_time_tells_variants_that_gain_and_give_the_same_results() -> None:
    others = {"vectors of 4": of_vectors(64, 4), "wrong": of_vectors(64, 4, 1), "narrow CTAs": of_vectors(32, 1)}

    times = of_vectors(64, 1).advise(sizes={"n": 1 << 17}, gpu="H200", variants=others).times

    assert times is not None
    ran = {gain.what: gain for gain in times.gains if gain.was_run}
    assert set(ran) == {"vectors of 4"}
    assert ran["vectors of 4"].seconds < 0.9 * times.now.seconds
    assert times.no_gain == ("narrow CTAs",)
    assert times.refused == {"wrong": "it gives other results"}
    assert "  tried without gain: narrow CTAs\n  left out: wrong: it gives other results" in str(times)


def test_variants_need_not_be_compiled_and_those_that_do_not_fit_are_told() -> None:
    @T.prim_func
    def filled(A: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        t = T.thread_id([32])
        for k in T.unroll(32):
            A[k * 32 + t] = 1.0

    @T.prim_func
    def too_large(A: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        T.alloc_shared((1 << 20,), "float32")
        A[T.thread_id([32])] = 1.0

    exe = tw.compile(filled, "sm_90a")

    @T.prim_func
    def racing(A: T.Buffer((1024,), "float32")):
        T.cta_id([1])
        t = T.thread_id([64])
        part = T.alloc_shared((64,), "float32")
        part[t] = 1.0
        for k in T.unroll(16):
            A[k * 64 + t] = part[63 - t]

    others = {"the same": filled, "large": too_large, "racing": racing}
    times = exe.advise(gpu="H200", variants=others).times

    assert times is not None
    assert times.no_gain == ("the same",)
    assert "large" in times.refused
    assert "race" in times.refused["racing"]
    with pytest.raises(KernelError, match="this is not a kernel"):
        exe.advise(gpu="H200", variants={"no kernel": 7})


# Limits of registers


def turning(held: int, ctas: int, limit: dict[str, int], meetings: int = 0, turns: int = 12) -> tw.Executable:
    """A kernel whose threads hold so many values in a loop, and in each turn wait for a load and for each other."""

    @T.prim_func
    def turned(A: T.Buffer((held, 128), "float32"), N: T.Buffer((256,), "int32"), B: T.Buffer((ctas, 128), "float32")):
        T.func_attr(limit)
        cta, t = T.cta_id([ctas]), T.thread_id([128])
        own, at = T.alloc_local((held,), "float32"), T.alloc_local((1,), "int32")
        at[0] = t
        for i in T.unroll(held):
            own[i] = A[i, t]
        for _ in range(turns):
            at[0] = N[at[0] % 256]
            if T.meta_var(meetings > 0):
                for _ in T.unroll(meetings):
                    T.cuda.cta_sync()
            half = own[0] * 0.5
            for i in T.unroll(held):
                own[i] = own[i] * half + own[(i + 7) % held]
        own[0] = T.float32(at[0])
        for i in T.unroll(held - 1):
            own[0] = own[0] * own[i + 1] + own[i + 1]
        B[cta, t] = own[0]

    return tw.compile(turned, "sm_90a")


@pytest.mark.parametrize("limit", [{"max_registers": 32}, {"min_blocks": 14}])
def test_advice_in_time_takes_away_a_limit_that_spills(limit: dict[str, int]) -> None:
    exe = turning(64, 16, limit, turns=40)

    times = exe.advise(gpu="H200").times

    assert exe.resources.spill_store_bytes
    assert times is not None
    assert times.now.unit == "spilled registers"
    (gain,) = [gain for gain in times.gains if "none spilled" in gain.what]
    assert gain.was_run
    assert gain.seconds < 0.8 * times.now.seconds


def test_advice_in_time_proposes_more_ctas_of_an_sm_where_nothing_spills_with_them() -> None:
    exe = turning(64, 924, {}, meetings=16)

    times = exe.advise(gpu="H200").times

    assert times is not None
    more = times.now.occupancy.ctas + 1
    assert turning(64, 924, {"min_blocks": more}, meetings=16).resources.spill_store_bytes == 0
    (gain,) = [gain for gain in times.gains if gain.was_run]
    assert f"min_blocks={more} " in gain.what
    assert gain.seconds < times.now.seconds


def test_advice_in_time_proposes_no_limit_that_spills() -> None:
    exe = turning(32, 1320, {})

    times = exe.advise(gpu="H200").times

    assert times is not None
    assert times.now.occupancy.limit == "registers"
    assert turning(32, 1320, {"min_blocks": times.now.occupancy.ctas + 1}).resources.spill_store_bytes
    assert not [gain for gain in times.gains if gain.was_run]


@pytest.mark.parametrize(
    ("step", "first", "why"),
    [
        (1, 0, ""),
        (1, 1, ": what neighbouring lanes touch begins or ends inside of a sector, of 32 bytes"),
        (2, 0, ": neighbouring lanes are 8 bytes apart"),
    ],
)
def test_why_a_line_touches_more_sectors_than_it_needs(step: int, first: int, why: str) -> None:
    @T.prim_func
    def shifted(A: T.Buffer((128,), "float32"), B: T.Buffer((32,), "float32")):
        lane = T.lane_id([32])
        B[lane] = A[lane * step + first]

    lines = str(tw.compile(shifted, target="sm_90a").advise()).splitlines()

    (line,) = (line for line in lines if "reads A" in line)
    assert line.partition(" ideal")[2] == why
