"""m-barriers: every row against a model that follows the manual, and what stops a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.forms import executed, form_of
from tests.isa.machines import PlainMachine
from tests.isa.mbarrier_oracles import COVERED, Barrier
from tests.rows import in_row
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Buffer, Var, row_major
from tilewright.isa.mbarrier import announced, arrived, at_once, completed, fresh
from tilewright.isa.table import Bound

FORMS = [bound for bound in every_form() if bound.instruction.name in COVERED]
BAR = Buffer("bar", dtype("uint64"), (4,), "shared", row_major((4,)))
ALL = np.ones((1, 32), bool)
PENDING = "ptx.mbarrier.pending_count"


def named(bound: Bound) -> str:
    return "-".join([bound.instruction.name, *map(str, bound.mods.values())])


def form(name: str, **mods: Any) -> Bound:
    """The first form of ptx.mbarrier.<name> with these modifiers."""
    return next(
        one for one in FORMS if one.instruction.name == f"ptx.mbarrier.{name}" and mods.items() <= one.mods.items()
    )


def memory_of(words: list[int]) -> NDArray[np.uint8]:
    return np.array([words], np.uint64).view(np.uint8)


def words_of(machine: PlainMachine) -> list[int]:
    return [int(word) for word in machine.shared.data[0].view(np.uint64)]


def run(bound: Bound, machine: PlainMachine, barrier: NDArray[Any], *operands: NDArray[Any]) -> Any:
    """The row with lane l at m-barrier ``barrier[l]``."""
    return executed(bound.form, bound.mods, machine, barrier[None] * 8, *(operand[None] for operand in operands))


def applied(bound: Bound, barrier: Barrier, operand: int) -> object:
    """What the row does to the model; returns what it is to answer."""
    before, name = barrier.word, bound.instruction.name.removeprefix("ptx.mbarrier.")
    if name in ("test_wait", "try_wait.state", "try_wait_once.state"):
        return barrier.phase % 4 != operand >> 61 & 3
    if "wait" in name:
        return barrier.is_over(operand)
    if name == "init":
        barrier.__init__(operand)  # type: ignore[misc]  # begins anew
        return None
    change = {
        "arrive": lambda: barrier.arrive(operand if bound.mods.get("count") else 1),
        "arrive.expect_tx": lambda: barrier.arrive_expecting(operand),
        "arrive.no_complete": lambda: barrier.arrive(operand),
        "arrive_drop": lambda: barrier.drop(operand if bound.mods.get("count") else 1),
        "arrive_drop.expect_tx": lambda: barrier.drop_expecting(operand),
        "arrive_drop.no_complete": lambda: barrier.drop(operand),
        "expect_tx": lambda: barrier.expect(operand),
        "complete_tx": lambda: barrier.complete(operand),
    }[name]
    change()
    return before if name.startswith("arrive") and bound.mods["space"] != "shared::cluster" else None


def some_barriers(few: bool) -> list[Barrier]:
    if few:
        return [Barrier(8, 6), Barrier(2, phase=1), Barrier(64, 20, 0, 3), Barrier(4, 2, 0, 2)]
    return [Barrier(80, 70, 32), Barrier(64, phase=1), Barrier(64, 40, -16, 3), Barrier(40, 33, 0, 2)]


def operand_of(bound: Bound, barriers: list[Barrier], where: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Values that keep an m-barrier in its range: counts that divide what it waits for."""
    name = bound.read[1].name if len(bound.read) > 1 else "count"
    if name == "state":
        return np.array([Barrier(5, phase=int(phase)).word for phase in rng.integers(0, 4, 32)], np.uint64)
    if name == "phase":
        return rng.integers(0, 2, 32).astype(np.uint32)
    if name == "bytes":
        return rng.integers(0, 3, 32).astype(np.uint32) * 16
    return np.array([2 if barriers[one].pending % 2 == 0 else 1 for one in where], np.uint32)


@pytest.mark.parametrize("name", sorted(COVERED - {"ptx.mbarrier.inval", PENDING}))
def test_a_row_does_what_the_manual_says_lane_by_lane(name: str) -> None:
    for bound in (bound for bound in FORMS if bound.instruction.name == name):
        for seed in range(3):
            with in_row(f"{named(bound)}, seed {seed}"):
                check_row(bound, seed)


def check_row(bound: Bound, seed: int) -> None:
    rng = np.random.default_rng(seed)
    few = bound.instruction.name == "ptx.mbarrier.arrive"  # enough of them end phases; bytes would keep one open
    barriers = some_barriers(few)
    where, active = rng.integers(0, 4, 32), rng.random((1, 32)) < 0.8
    machine = PlainMachine(memory_of([one.word for one in barriers]), active)
    operand = operand_of(bound, barriers, where, rng)
    if "init" in bound.instruction.name:
        where = np.arange(32) % 4
        operand = (where + 1).astype(np.uint32)
        active[:] = True
    more = [operand, np.full(32, 100, np.uint32)][: len(bound.read) - 1]

    answers = run(bound, machine, where, *more)

    for lane in np.flatnonzero(active[0]):
        expected = applied(bound, barriers[where[lane]], int(operand[lane]))
        if expected is not None:
            assert int(answers[0, lane]) == expected
    assert words_of(machine) == [one.word for one in barriers]


@given(st.lists(st.tuples(st.sampled_from(["arrive", "expect_tx", "complete_tx"]), st.integers(1, 5)), max_size=40))
def test_any_history_leaves_what_the_model_has(history: list[tuple[str, int]]) -> None:
    barrier = Barrier(3)
    machine = PlainMachine(memory_of([barrier.word]), np.arange(32)[None] == 7)
    for name, amount in history:
        at, operands = np.zeros(32, np.int64), [np.full(32, amount, np.uint32)]
        bound = form(name, **({"count": None} if name == "arrive" else {}))
        if name == "arrive" and barrier.pending == 0:
            continue  # would be one too many
        run(bound, machine, at, *(operands if name != "arrive" else ()))
        applied(bound, barrier, amount)
        assert words_of(machine) == [barrier.word]
        state = isa.phase_state(np.array([barrier.word], np.uint64))
        assert [int(part[0]) for part in state] == [
            barrier.pending,
            barrier.expected,
            barrier.tx,
            barrier.phase % 4,
            1,
        ]


def test_a_fresh_barrier_is_past_parity_1_and_not_past_parity_0() -> None:
    machine = PlainMachine(memory_of([Barrier(1).word]), ALL)
    phase = np.arange(32, dtype=np.uint32) % 2

    over = run(form("test_wait.parity"), machine, np.zeros(32, np.int64), phase)

    assert over[0].tolist() == [False, True] * 16


@pytest.mark.parametrize("wait", ["test_wait.parity", "try_wait", "try_wait_once"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_a_parity_is_the_lowest_bit_of_its_operand(wait: str, dtype: type[np.int32] | type[np.uint32]) -> None:
    machine = PlainMachine(memory_of([Barrier(1).word]), ALL)
    phase = np.resize(np.array([2, 3, 4, 1 << 31, 0xFFFFFFFF, 6], np.uint32), 32).view(dtype)

    over = run(form(wait), machine, np.zeros(32, np.int64), phase)

    assert over[0].tolist() == [bool(each & 1) for each in phase.tolist()]


def test_bytes_may_come_before_they_are_announced() -> None:
    machine = PlainMachine(memory_of([Barrier(1).word]), np.arange(32)[None] == 0)
    at, bytes_ = np.zeros(32, np.int64), np.full(32, 16, np.uint32)

    run(form("complete_tx"), machine, at, bytes_)
    early = isa.phase_state(np.array(words_of(machine), np.uint64))
    run(form("arrive.expect_tx"), machine, at, bytes_)

    assert (int(early.tx[0]), int(early.phase[0])) == (-16, 0)
    assert words_of(machine) == [Barrier(1, phase=1).word]


def test_an_ended_barrier_is_recognised() -> None:
    machine = PlainMachine(memory_of([Barrier(1).word]), ALL)

    run(form("inval"), machine, np.zeros(32, np.int64))

    assert isa.trouble(words_of(machine)[0])[0] == "the m-barrier was invalidated"
    assert isa.trouble(Barrier(1).word) == ("", "")


COUNT = np.full(32, 2, np.uint32)
FAULTS: dict[str, tuple[str, int, tuple[NDArray[Any], ...], str]] = {
    "arrive before init": ("arrive", 0, (), "was never initialised"),
    "wait before init": ("try_wait", 0, (COUNT - 1,), "was never initialised"),
    "one arrival too many": ("arrive", Barrier(3, 1).word, (COUNT,), "more arrivals than its phase waited for"),
    "an arrival while only bytes are pending": (
        "arrive.expect_tx",
        Barrier(3).word & ~0xFFFFF | 5 << 40,
        (COUNT,),
        "more arrivals than its phase waited for",
    ),
    "too many bytes": ("expect_tx", Barrier(3, tx=(1 << 20) - 2).word, (COUNT,), "left -1048575..1048575"),
    "more than a million bytes at once": ("expect_tx", Barrier(3).word, (COUNT << 20,), "bytes of an m-barrier is 0"),
    "an initial count of zero": ("init", 0, (COUNT * 0,), "count of an m-barrier is 1..1048575, not 0"),
    "an arrival of nobody": ("arrive", Barrier(3).word, (COUNT * 0,), "count of an m-barrier is 1..1048575, not 0"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_broken_rule_stops_the_kernel_and_names_the_lane(case: str) -> None:
    name, word, operands, message = FAULTS[case]
    given = {"count": "given" if operands else None} if name == "arrive" else {}
    machine = PlainMachine(memory_of([word]), np.arange(32)[None] == 9)

    with pytest.raises(SimulationError, match=message) as error:
        run(form(name, **given), machine, np.zeros(32, np.int64), *operands)

    assert error.value.given == "lanes [9]"


def test_an_arrival_too_many_by_an_asynchronous_unit_is_seen_by_who_waits() -> None:
    word = int(isa.arrived(np.array([Barrier(2, 1).word], np.uint64), np.array([2]))[0])
    machine = PlainMachine(memory_of([word]), ALL)

    with pytest.raises(SimulationError, match="more arrivals than its phase waited for"):
        run(form("try_wait"), machine, np.zeros(32, np.int64), np.zeros(32, np.uint32))


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("init", (0,), "T.ptx.mbarrier.init: count"),
        ("init", (1 << 20,), "T.ptx.mbarrier.init: count"),
        ("arrive", (0,), "T.ptx.mbarrier.arrive: count"),
        ("arrive.expect_tx", (-16,), "T.ptx.mbarrier.arrive.expect_tx: bytes"),
    ],
)
def test_a_constant_out_of_range_is_an_error_at_once(name: str, args: tuple[int, ...], message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        isa.call(f"ptx.mbarrier.{name}", BAR, *args)
    assert form_of(f"ptx.mbarrier.{name}", BAR, Var("n")).operands  # known only later


def test_an_arrival_without_a_count_exists_on_older_architectures() -> None:
    plain, counted = form_of("ptx.mbarrier.arrive", BAR), form_of("ptx.mbarrier.arrive", BAR, 4)

    assert (str(plain.form.arch), str(counted.form.arch)) == ("sm_80 and later", "sm_90 and later")
    assert plain.code({"ptr": "%1", "result": "%0"}) == "mbarrier.arrive.shared.b64 %0, [%1];"
    assert counted.code({"ptr": "%1", "count": "%2", "result": "%0"}) == "mbarrier.arrive.shared.b64 %0, [%1], %2;"


def test_an_arrival_at_another_cta_has_no_value() -> None:
    far: dict[str, str] = {"space": "shared::cluster"}

    assert isa.call("ptx.mbarrier.arrive", Var("far"), **far).dtype == "void"
    assert (
        form_of("ptx.mbarrier.arrive", Var("far"), **far).mnemonic
        == "mbarrier.arrive.release.cluster.shared::cluster.b64"
    )
    assert isa.call("ptx.mbarrier.arrive", BAR).dtype == "uint64"


def test_nobody_waits_at_another_cta() -> None:
    with pytest.raises(InstructionError, match="has no argument 'space'"):
        isa.call("ptx.mbarrier.try_wait", Var("far"), 0, space="shared::cluster")


def test_a_form_orders_as_its_modifiers_say() -> None:
    for bound in (bound for bound in FORMS if bound.instruction.name != PENDING):
        with in_row(named(bound)):
            (signal,) = bound.form.signals
            assert signal is not None
            assert signal.sem == bound.mods.get("sem", "release" if "noComplete" in bound.mnemonic else "relaxed")
            assert bound.word(signal.scope) == ("cluster" if ".cluster" in bound.mnemonic else "cta")


def test_a_state_says_how_many_arrivals_were_pending() -> None:
    (bound,) = (one for one in FORMS if one.instruction.name == PENDING)

    found = executed(bound.form, bound.mods, np.array([[Barrier(9, 4).word, Barrier(3, phase=1).word]], np.uint64))

    assert found.tolist() == [[4, 3]]


def test_an_arrival_that_must_not_end_a_phase_is_an_error_where_it_does() -> None:
    machine = PlainMachine(memory_of([Barrier(2).word]), np.arange(32)[None] == 0)

    with pytest.raises(SimulationError, match="noComplete ends the phase"):
        run(form("arrive.no_complete"), machine, np.zeros(32, np.int64), np.full(32, 2, np.uint32))


@pytest.mark.parametrize(
    ("pending", "tx", "nbytes", "together"),
    [
        (0, 64, (16, 16, 32), True),  # the last of them ends the phase
        (1, 0, (16, 16), True),  # an arrival is missing: none of them does
        (0, 64, (64, 16), False),  # the first does, and the second counts in the next one
        (0, 32, (16, 16, 16), False),
    ],
)
def test_bytes_that_come_together_count_as_one_after_the_other(
    pending: int, tx: int, nbytes: tuple[int, ...], together: bool
) -> None:
    words = fresh(np.array([2], np.uint64))
    words = arrived(announced(words, np.array([tx])), np.array([2 - pending])) if tx or pending else words
    amounts, place = np.array(nbytes, np.uint64), np.zeros(len(nbytes), np.int64)
    in_turns = words
    for amount in amounts:
        in_turns = completed(in_turns, np.array([amount]))

    places, sums = at_once(words, place, amounts)
    for amount in sums:
        words = completed(words, np.array([amount]))

    assert words == in_turns
    assert (len(places) == 1) == together
