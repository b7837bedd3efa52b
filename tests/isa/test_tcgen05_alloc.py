"""Taking and giving back tensor memory, and the rows that only order or wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.forms import executed, form_of
from tests.isa.tmem_machines import TmemMachine
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError, TargetError
from tilewright.ir import Buffer, Const, Var, row_major
from tilewright.isa.forms import Cuda, Issue, ProxyFence, Sync, Wait
from tilewright.isa.table import Bound

ADDR = Buffer("addr", dtype("uint32"), (1,), "shared", row_major((1,)))


def form(name: str, **mods: Any) -> Bound:
    return next(
        bound
        for bound in every_form()
        if bound.instruction.name == f"ptx.{name}" and mods.items() <= bound.mods.items()
    )


def run(bound: Bound, machine: TmemMachine, *operands: int | NDArray[Any]) -> None:
    lanes = [np.full((1, 32), value, np.uint32) if isinstance(value, int) else value for value in operands]
    executed(bound.form, bound.mods, machine, *lanes)


@pytest.mark.parametrize(("group", "pair"), [(1, False), (2, True)])
def test_an_allocation_leaves_its_address_in_shared_memory(group: int, pair: bool) -> None:
    machine = TmemMachine()

    run(form("tcgen05.alloc", cta_group=group), machine, 8, 128, 0)

    assert machine.tmem.asked == [("allocate", 128, 128, pair)]
    assert machine.shared.data[0].view(np.uint32).tolist() == [0, 0, 64, *[0] * 13]


def test_an_allocation_that_was_rounded_up_tells_what_was_asked_for() -> None:
    machine = TmemMachine()

    run(form("tcgen05.alloc", cta_group=1), machine, 0, 32, 16)

    assert machine.tmem.asked == [("allocate", 32, 16, False)]


def test_giving_back_and_giving_up() -> None:
    machine = TmemMachine()

    run(form("tcgen05.dealloc", cta_group=2), machine, 64, 32)
    run(form("tcgen05.relinquish_alloc_permit", cta_group=1), machine)

    assert machine.tmem.asked == [("free", 64, 32, True), ("relinquish", False)]


@pytest.mark.parametrize("columns", [0, 16, 31, 48, 513, 1024, 0xFFFF_FFE0])
@pytest.mark.parametrize("name", ["alloc", "dealloc"])
def test_a_size_of_run_time_that_does_not_exist_stops_the_kernel(name: str, columns: int) -> None:
    operands = (0, columns, 0) if name == "alloc" else (0, columns)

    with pytest.raises(SimulationError, match=f"n_cols is a power of two from 32 to 512, not {columns}"):
        run(form(f"tcgen05.{name}"), TmemMachine(), *operands)


def test_a_warp_takes_one_size() -> None:
    columns = np.full((1, 32), 32, np.uint32)
    columns[0, 5] = 64

    with pytest.raises(SimulationError, match="n_cols is the same in all lanes of the warp"):
        run(form("tcgen05.alloc"), TmemMachine(), 0, columns, 0)


@pytest.mark.parametrize("columns", [0, -32, 513, 1024])
@pytest.mark.parametrize("name", ["alloc", "dealloc"])
def test_a_constant_beyond_tensor_memory_is_an_error_at_once(name: str, columns: int) -> None:
    where = ADDR if name == "alloc" else ADDR[0]

    with pytest.raises(InstructionError, match=f"T.ptx.tcgen05.{name}: n_cols"):
        isa.call(f"ptx.tcgen05.{name}", where, n_cols=columns)


def test_a_constant_that_can_be_rounded_up_and_one_of_run_time_are_calls() -> None:
    for columns in (1, 16, 48, 512, Var("n")):
        assert form_of("ptx.tcgen05.alloc", ADDR, n_cols=columns).operands["n_cols"]


def test_what_was_asked_for_never_reaches_the_assembler() -> None:
    bound = form_of("ptx.tcgen05.alloc", ADDR, 32, requested=16)

    assert bound.code({"ptr": "%0", "n_cols": "%1"}) == (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
    )
    (requested,) = bound.operands["requested"]
    assert isinstance(requested, Const)
    assert requested.value == 16


def test_every_row_of_tensor_memory_agrees_on_its_cta_group() -> None:
    rows = [row for name, row in isa.INSTRUCTIONS.items() if name.startswith("ptx.tcgen05.")]

    assert [
        row.name for row in rows if any("cta_group" in form.wording.modifiers for form in row.forms) != bool(row.agrees)
    ] == []


@pytest.mark.parametrize("name", [name for name in isa.INSTRUCTIONS if name.startswith("ptx.tcgen05.")])
def test_another_architecture_is_told_which_one_has_it(name: str) -> None:
    row = isa.INSTRUCTIONS[name]
    bound = Bound(row, row.forms[0], next(row.forms[0].all_mods()), {})
    if isinstance(bound.form.wording, Cuda):  # arithmetic on descriptors
        bound.check_arch(isa.arch("sm_90a"))
        return

    bound.check_arch(isa.arch("sm_100a"))
    for target in ("sm_90a", "sm_100", "sm_120a"):
        with pytest.raises(TargetError, match=f"does not exist on {target}") as error:
            bound.check_arch(isa.arch(target))
        assert error.value.hint == "target='sm_100a'"


@pytest.mark.parametrize(
    ("name", "mnemonic", "group"),
    [
        ("wait.ld", "tcgen05.wait::ld.sync.aligned", "tmem.load"),
        ("wait.st", "tcgen05.wait::st.sync.aligned", "tmem.store"),
    ],
)
def test_a_wait_is_for_what_its_instruction_issues(name: str, mnemonic: str, group: str) -> None:
    issued = form(f"tcgen05.{name.removeprefix('wait.')}").form.issue
    waits = form_of(f"ptx.tcgen05.{name}")

    assert (waits.mnemonic, waits.form.effects) == (mnemonic, (Wait(group),))
    assert issued == Issue(group, stalls=name == "wait.ld")


def test_the_fences_are_spelled_as_the_manual_has_them() -> None:
    fences = [form_of(f"ptx.tcgen05.fence.{side}_thread_sync") for side in ("before", "after")]

    assert [(one.mnemonic, one.form.fence) for one in fences] == [
        ("tcgen05.fence::before_thread_sync", ProxyFence("tmem", side="release")),
        ("tcgen05.fence::after_thread_sync", ProxyFence("tmem", side="acquire")),
    ]


# Clusters.


@pytest.mark.parametrize(
    ("name", "dtype", "opcode"),
    [
        ("ptx.mapa", "uint32", "mapa.shared::cluster.u32"),
        ("ptx.map_shared_rank", "uint64", "mapa.u64"),
    ],
)
def test_an_address_in_another_cta(name: str, dtype: str, opcode: str) -> None:
    bound = form_of(name, ADDR, Var("rank"))

    found = executed(bound.form, bound.mods, TmemMachine(), np.full((1, 32), 24), np.arange(32)[None] % 2)

    assert (found.dtype, found[0, :2].tolist()) == (np.dtype(dtype), [24 + (1 << 24), 24 + (2 << 24)])
    assert bound.code({"ptr": "%1", "rank": "%2", "result": "%0"}) == f"{opcode} %0, %1, %2;"


@pytest.mark.parametrize(
    ("name", "mods", "mnemonic", "sync"),
    [
        ("arrive", {}, "barrier.cluster.arrive.release.aligned", Sync("cluster", arrive_only=True)),
        (
            "arrive",
            {"sem": "relaxed", "aligned": False},
            "barrier.cluster.arrive.relaxed",
            Sync("cluster", arrive_only=True, orders=False),
        ),
        ("wait", {}, "barrier.cluster.wait.acquire.aligned", Sync("cluster", wait_only=True)),
    ],
)
def test_a_cluster_barrier_is_two_steps(name: str, mods: dict[str, Any], mnemonic: str, sync: Sync) -> None:
    bound = form_of(f"ptx.barrier.cluster.{name}", **mods)

    assert (bound.mnemonic, bound.form.sync) == (mnemonic, sync)


@pytest.mark.parametrize("mask", [0, -1, 1 << 16])
def test_a_mask_of_ctas_has_16_bits(mask: int) -> None:
    with pytest.raises(InstructionError, match="commit: cta_mask") as error:
        isa.call("ptx.tcgen05.commit", ADDR, cta_mask=mask)

    assert str(error.value.given).startswith(str(mask))
    assert form_of("ptx.tcgen05.commit", ADDR, cta_mask=0xFFFF).operands["cta_mask"]
