"""A row that is declared wrongly is refused where it is declared, by its name and the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.toys import cuda, ptx
from tilewright import T, isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError
from tilewright.isa.forms import (
    Access,
    AsyncMeaning,
    Commit,
    Consults,
    Cuda,
    Effect,
    Fence,
    Form,
    Issue,
    Meaning,
    ProxyFence,
    Ptx,
    Signal,
    Sync,
    Undefined,
    Wait,
    reads,
    writes,
)
from tilewright.isa.machine import Addresses
from tilewright.isa.mbarrier import completed
from tilewright.isa.table import INSTRUCTIONS, Instruction
from tilewright.isa.table import instruction as declare

WRITE = Access("dst", "shared", 4, write=True, proxy="async", computed=True)
BYTES = Signal("bar", "bytes", "release", "cluster", completed)
OPERANDS = (reads("dst", "shared"), reads("bar", "shared"), reads("value", "b32"))
TOY = Issue("toy")


def places(unit: Any, dst: Any, bar: Any, value: Any) -> Any:
    return {"dst": Addresses(dst[:, None])}


def octets(value: Any) -> Any:
    return value.astype(np.uint32).reshape(-1, 1, 1).view(np.uint8)


def meant(execute: Any = octets, addresses: Any = places, takes: tuple[str, ...] = ("value",)) -> AsyncMeaning:
    return AsyncMeaning(execute, addresses=addresses, takes=takes)


def wrong(value: object) -> Any:
    """A value that its field does not take."""
    return value


def row(*effects: Effect, meaning: Meaning | None = None, operands: Any = OPERANDS, **fields: Any) -> Instruction:
    form = Form(Ptx("toy.put"), isa.since("sm_90"), "a test", meaning or meant(), effects)
    return Instruction("ptx.toy.put", tuple(one.name for one in operands), operands, (form,), **fields)


@pytest.mark.parametrize(
    ("declared", "field", "given", "allowed"),
    [
        (lambda: row(WRITE, BYTES, Issue(holds=("valeu",))), "Issue.holds", "'valeu'", "'value'"),
        (lambda: row(WRITE, BYTES, Issue(holds=wrong("value"))), "Issue.holds", "'value', a str", "a tuple"),
        (lambda: row(WRITE, BYTES, Issue(accumulates="scale")), "Issue.accumulates", "'scale'", "dst, bar, value"),
        (lambda: row(WRITE, BYTES, Issue(alike=("N",))), "Issue.alike", "'N'", "dst, bar, value"),
        (lambda: row(WRITE, Signal("br", "bytes", change=completed), Issue()), "Signal.barrier", "'br'", "'bar'"),
        (lambda: row(WRITE, Signal("bar", "byte", change=completed), Issue()), "Signal.kind", "'byte'", "'bytes'"),
        (lambda: row(WRITE, Signal("bar", "bytes", "acquire"), Issue()), "Signal.sem", "'acquire'", "release"),
        (lambda: row(WRITE, Signal("bar", "bytes", scope="clutser"), Issue()), "Signal.scope", "clutser", "'cluster'"),
        (lambda: row(WRITE, Signal("bar", "bytes", "release"), Issue()), "Signal.change", "None", "a function"),
        (lambda: row(Signal("bar", "arrive", change=completed), meaning=Meaning()), "Signal.change", "comp", "None"),
        (lambda: row(Access("dst", "shraed", 4, write=True), Issue()), "Access.space", "'shraed'", "'shared'"),
        (lambda: row(Access("dts", "shared", 4, write=True), Issue()), "Access.operand", "'dts'", "'dst'"),
        (lambda: row(Access("dst", "shared", 4, write=True, sem="relax"), Issue()), "Access.sem", "'relax'", "relaxed"),
        (lambda: row(Access("dst", "local", 4, write=True, proxy="async"), Issue()), "Access.proxy", "asyn", "generic"),
        (lambda: row(Wait("toy", "n"), meaning=Meaning()), "Wait.pending", "'n'", "dst, bar, value"),
        (lambda: row(Sync("wrap"), meaning=Meaning()), "Sync.scope", "'wrap'", "'warp'"),
        (lambda: row(Fence("acq", "gpu"), meaning=Meaning()), "Fence.sem", "'acq'", "acq_rel"),
        (lambda: row(Issue(), meaning=Meaning(octets)), "meaning", "Meaning, effects Issue", "AsyncMeaning with Issue"),
        (lambda: row(), "meaning", "AsyncMeaning, effects none", "AsyncMeaning with Issue"),
        (lambda: row(Issue(), meaning=AsyncMeaning(takes=("q",))), "AsyncMeaning.takes", "'q'", "dst, bar, value"),
        (lambda: row(meaning=Meaning(octets, passes=("num",))), "Meaning.passes", "'num'", "none"),
        (lambda: row(meaning=Meaning(octets, on="disk")), "Meaning.on", "'disk'", "shared"),
        (lambda: row(meaning=Meaning(octets), operands=(reads("x", "b33"),)), "Operand.kind", "'b33'", "'b32'"),
        (lambda: row(WRITE, BYTES, Issue(), lanes="wrap"), "lanes", "'wrap'", "'warp'"),
        (lambda: row(WRITE, Issue(), pattern="[{dts}]"), "pattern", "'dts'", "'dst'"),
        (lambda: row(WRITE, Issue(), operands=OPERANDS[:1] * 2), "operands", "'dst'", "a name for each"),
    ],
)  # fmt: skip
def test_a_name_or_a_word_that_a_row_lacks_is_refused_where_it_is_declared(
    declared: Callable[[], Instruction], field: str, given: str, allowed: str
) -> None:
    check_refused(declared, field, given, allowed)


NARROW, STATE, SOURCE = Access("dst", "shared", 4, write=True), reads("n", "b32"), reads("src", "global")


def made(meaning: Meaning | None = None, **fields: Any) -> Instruction:
    """A synchronous row, some fields of which are given."""
    of_form = {
        "wording": Ptx("toy.put"),
        **{name: fields.pop(name) for name in ("wording", "registers", "result") if name in fields},
    }
    form = Form(arch=isa.since("sm_90"), source="a test", meaning=meaning or Meaning(octets), **of_form)
    return Instruction("ptx.toy.put", forms=(form,), **{"operands": OPERANDS, **fields})


@pytest.mark.parametrize(
    ("declared", "field", "given", "allowed"),
    [
        (lambda: declared_by(Issue()), "Form.effects", "Issue(", "(Access(...), Issue(), ...)"),
        (lambda: declared_by([NARROW]), "Form.effects", "[Access(", "(Access(...), Issue(), ...)"),
        (lambda: row(WRITE, Issue(), Issue("toy")), "Form.effects", "Issue, Issue", "one"),
        (lambda: row(replace(NARROW, nbytes=0), Issue()), "Access.nbytes", "0", "positive"),
        (lambda: row(replace(NARROW, lanes=64), Issue()), "Access.lanes", "64", "1..32"),
        (lambda: row(replace(NARROW, sem="acquire", scope="cta"), Issue()), "Access.sem", "'acquire'", "of a write"),
        (lambda: row(replace(NARROW, write=False, sem="release"), Issue()), "Access.sem", "'release'", "of a read"),
        (lambda: row(replace(NARROW, scope="gpu"), Issue()), "Access.scope", "'gpu'", "weak"),
        (lambda: row(replace(NARROW, space="global"), Issue()), "Access.space", "'global'", "operand leads to"),
        (lambda: row(WRITE, Issue(), meaning=AsyncMeaning()), "Access.computed", "True", "addresses"),
        (lambda: row(WRITE, meaning=Meaning()), "Access.computed", "True", "a form with Issue"),
        (lambda: row(WRITE, Issue(holds=("dst",))), "Issue.holds", "'dst'", "from registers"),
        (lambda: row(WRITE, Issue(in_order_after=wrong("ptx.toy"))), "Issue.in_order_after", "'ptx.toy'", "a tuple"),
        (lambda: row(Wait("toy", -1), meaning=Meaning()), "Wait.pending", "-1", "0 or more"),
        (lambda: row(Wait("toy", "n"), meaning=Meaning(), operands=(STATE,)), "Wait.pending", "'n'", "kind imm"),
        (lambda: row(Sync("named"), meaning=Meaning()), "Sync.barrier", "''", "names it"),
        (lambda: row(Sync("cta", True, True), meaning=Meaning()), "Sync.wait_only", "True", "arrive_only"),
        (lambda: row(WRITE, Issue(), Consults("dst", 128, "tensormap")), "Consults.operand", "'dst'", "global memory"),
        (lambda: row(replace(NARROW, nbytes=12), Issue()), "Access.nbytes", "12", "a power of two"),
        (lambda: row(replace(NARROW, nbytes=2, space="tmem", proxy="tmem", computed=True), Issue()),
         "Access.nbytes", "2", "4 or more"),
        (lambda: row(replace(NARROW, element_bytes=3), Issue()), "Access.element_bytes", "3", "divides nbytes"),
        (lambda: row(replace(NARROW, phase_lanes=7), Issue()), "Access.phase_lanes", "7", "8, 16, 32"),
        (lambda: row(replace(NARROW, sem="relaxed"), Issue()), "Access.scope", "''", "strong"),
        (lambda: row(replace(NARROW, sem="acq_rel", scope="cta"), Issue()), "Access.sem", "'acq_rel'", "of a write"),
        (lambda: row(replace(NARROW, rmw=True), Issue()), "Access.rmw", "True", "with a read"),
        (lambda: row(replace(NARROW, write=False, rmw=True), replace(NARROW, rmw=True, proxy="async"), Issue()),
         "Access.rmw", "True", "else the same"),
        (lambda: row(replace(NARROW, compares=True), Issue()), "Access.compares", "True", "not rmw"),
        (lambda: row(replace(NARROW, constant=True), Issue()), "Access.constant", "True", "writes"),
        (lambda: row(replace(NARROW, operand="value"), Issue()), "Access.operand", "'value'", "an address"),
        (lambda: row(replace(NARROW, operand="p", space="generic"), Issue(), operands=(reads("p", "generic"),)),
         "Access.space", "'generic'", "shared, tmem or global"),
        (lambda: row(replace(NARROW, operand="t", space="tmem", proxy="tmem"), meaning=Meaning(octets),
                     operands=(reads("t", "tmem"),)), "Access.space", "'tmem'", "other forms"),
        (lambda: row(WRITE, Issue(accumulates="value")), "Issue.accumulates", "'value'", "kind pred"),
        (lambda: row(WRITE, Issue(wrong(7))), "Issue.group", "7", "its name"),
        (lambda: row(Commit(""), meaning=Meaning()), "Commit.group", "''", "its name"),
        (lambda: row(WRITE, replace(BYTES, barrier="src"), Issue(), operands=(*OPERANDS, SOURCE)),
         "Signal.barrier", "'src'", "shared memory"),
        (lambda: row(WRITE, replace(BYTES, kind="wait", sem="acquire"), Issue()), "Signal.kind", "'wait'", "'arrive'"),
        (lambda: row(WRITE, replace(BYTES, amount="dst"), Issue()), "Signal.amount", "'dst'", "is a number"),
        (lambda: row(WRITE, replace(BYTES, amount=0), Issue()), "Signal.amount", "0", "1 or more"),
        (lambda: row(ProxyFence("async", "shared::cta", "release"), meaning=Meaning()), "ProxyFence.scope", "", "pair"),
        (lambda: row(ProxyFence("tmem", "global"), meaning=Meaning()), "ProxyFence.space", "'global'", "tmem"),
        (lambda: row(ProxyFence("tensormap", at="value"), meaning=Meaning()), "ProxyFence.at", "'value'", "an address"),
        (lambda: row(Sync("named", barrier="dst"), meaning=Meaning()), "Sync.barrier", "'dst'", "a number"),
        (lambda: row(WRITE, Issue(), Consults("src", 20, "tensormap"), operands=(*OPERANDS, SOURCE)),
         "Consults.nbytes", "20", "a multiple of 16"),
        (lambda: row(WRITE, Issue(), Wait("toy")), "Form.effects", "Issue, Wait", "one of these"),
        (lambda: row(Fence("sc", "cta"), ProxyFence("async"), meaning=Meaning()), "Form.effects", "Proxy", "one of"),
        (lambda: row(Commit("toy"), NARROW, meaning=Meaning()), "Form.effects", "Access", "a row of its own"),
        (lambda: row(Sync("cta"), meaning=Meaning(octets)), "Form.effects", "execute", "a row of its own"),
        (lambda: row(Sync("poll"), meaning=Meaning()), "Meaning.execute", "whether to go on", "a function"),
        (lambda: row(Signal("bar", "arrive"), meaning=Meaning()), "Meaning.execute", "'arrive' finds", "function"),
        (lambda: row(meaning=Meaning(), operands=(writes("d", "b32"),)), "Meaning.execute", "for 'd'", "function"),
        (lambda: row(meaning=Meaning(wrong(7))), "Meaning", "execute=7", "functions"),
        (lambda: row(WRITE, replace(BYTES, change=wrong(3)), Issue()), "Meaning", "Signal.change=3", "functions"),
        (lambda: row(WRITE, Issue(), meaning=meant(None)), "AsyncMeaning.moves", "write of 4 bytes", "moves=True"),
        (lambda: row(replace(NARROW, write=False), replace(WRITE, nbytes=8), Issue(),
                     meaning=AsyncMeaning(addresses=places, moves=True)), "AsyncMeaning.moves", "8 bytes", "as many"),
        (lambda: made(registers={"w": 2}), "Form.registers", "'w'", "by their names"),
        (lambda: made(result="w"), "Form.result", "'w'", "a dtype"),
        (lambda: made(meaning=Meaning(octets, undefined=Undefined("w", wrong(bool), "", ""))),
         "Undefined.operand", "w", ""),
        (lambda: made(wording=Ptx("toy{x}")), "Form.wording", "'x'", "a table"),
        (lambda: made(wording=Ptx("toy{x}", {"x": {}}), keywords={"x": 1}), "Form.wording", "'x'", "a table"),
        (lambda: made(wording=Ptx("toy{x}", {"x": {1: ""}})), "Form.wording", "'x'", "params or keywords"),
        (lambda: made(params=("dst", "bar")), "params", "'value'", "each operand"),
        (lambda: made(params=("dst", "bar", "value", "dst")), "params", "'dst'", "once"),
        (lambda: made(operands=(writes("*r", "b32"), *OPERANDS)), "params", "'*r'", "the last of them"),
        (lambda: made(keywords={"x": 1}), "keywords", "'x'", "operands and modifiers"),
        (lambda: made(keywords={"x": 0}, folds={"x": ("y", 16)}), "folds", "'x': ('y', 16)", "operand"),
        (lambda: made(agrees="x"), "agrees", "x", "a modifier"),
        (lambda: made(operands=OPERANDS[0]), "operands", "Operand(", "a tuple of operands"),
        (lambda: made(operands=("dst",)), "operands", "('dst',)", "a tuple of operands"),
        (lambda: made(keywords=("x",)), "keywords", "('x',)", "a dictionary"),
        (lambda: made(wording="toy"), "Form.wording", "'toy'", "a Wording"),
        (lambda: made(wrong(octets)), "Form.meaning", "a function", "a Meaning"),
        (lambda: row(WRITE, Issue(), meaning=meant(takes=wrong("value"))), "AsyncMeaning.takes", "'value'", "a tuple"),
        (lambda: row(replace(NARROW, nbytes=wrong(4.0)), Issue()), "Access.nbytes", "4.0", "positive"),
        (lambda: row(Wait("toy", wrong(1.5)), meaning=Meaning()), "Wait.pending", "1.5", "0 or more"),
        (lambda: made(lanes="mask"), "lanes", "'mask'", "an operand 'mask'"),
        (lambda: made(operands=(reads("a b", "b32"),)), "name", "'a b'", "Python"),
        (lambda: made(operands=(reads("in", "b32"),)), "name", "'in'", "keywords"),
    ],
)  # fmt: skip
def test_fields_that_do_not_go_together_are_refused_where_they_are_declared(
    declared: Callable[[], Instruction], field: str, given: str, allowed: str
) -> None:
    check_refused(declared, field, given, allowed)


def check_refused(declared: Callable[[], Instruction], field: str, given: str, allowed: str) -> None:
    with pytest.raises(InstructionError) as error:
        declared()

    assert error.value.what.startswith(f"ptx.toy.put: {field} ")
    assert given in str(error.value.given)
    assert allowed in str(error.value.allowed)


def declared_by(effects: Any) -> Instruction:
    """A row whose effects need not be a tuple."""
    form = Form(Ptx("toy.put"), isa.since("sm_90"), "a test", Meaning(), effects)
    return Instruction("ptx.toy.put", (), OPERANDS, (form,))


WIDE: dict[str, dict[Any, str]] = {
    "a": {None: "", "gpu": ".gpu", "gup": ".gup"},
    "b": {True: ".b", False: ""},
    "c": {1: "", 2: ".2"},
}


@pytest.mark.parametrize(
    ("effect", "field", "given", "allowed"),
    [
        (Fence("sc", lambda mods: str(mods["a"] or "cta")), "Fence.scope", "'gup', a='gup'", "'gpu'"),
        (Fence(lambda mods: "sc" if mods["b"] else "s", "cta"), "Fence.sem", "'s', b=False", "sc, acq_rel"),
        (Fence("sc", lambda mods: wrong(mods["a"])), "Fence.scope", "None, a=None", "warp, cta"),
        (
            Fence("sc", lambda mods: "gpu" if mods["b"] or mods["c"] == 1 else "gp"),
            *("Fence.scope", "'gp', b=False, c=2", "'gpu'"),
        ),
        (Signal("ptr", "arrive", "release", lambda mods: "clustr"), "Signal.scope", "'clustr'", "'cluster'"),
        (Fence("sc", lambda mods: str(mods["scope"])), "Fence.scope", "'scope'", "a, b, c"),
        (Access("ptr", "shared", 4, write=True, sem=lambda mods: "strong"), "Access.sem", "'strong'", "weak, relaxed"),
    ],
)  # fmt: skip
def test_a_word_that_depends_on_modifiers_is_refused_where_any_of_them_gives_a_wrong_one(
    effect: Effect, field: str, given: str, allowed: str
) -> None:
    form = Form(Ptx("toy{a}{b}{c}", WIDE), isa.since("sm_90"), "a test", Meaning(), (effect,))
    with pytest.raises(InstructionError, match=f"ptx.toy: {field} ") as error:
        Instruction("ptx.toy", ("ptr",), (reads("ptr", "shared"),), (form,), keywords=dict.fromkeys(WIDE))

    assert given in str(error.value.given)
    assert allowed in str(error.value.allowed)


def test_a_name_has_one_row() -> None:
    one = INSTRUCTIONS["ptx.movmatrix"]
    with pytest.raises(InstructionError, match=r"two rows for ptx\.movmatrix"):
        declare(one.name, params=one.params, operands=one.operands, forms=one.forms, keywords=one.keywords)


def put(monkeypatch: pytest.MonkeyPatch, meaning: AsyncMeaning | None = None, issue: Issue = TOY) -> None:
    """Simulate a kernel that puts a value by such a row."""
    commit = Instruction("ptx.toy.end", (), (), (Form(Ptx("t"), isa.since("sm_90"), "", effects=(Commit("toy"),)),))
    for one in (row(WRITE, BYTES, issue, meaning=meaning), commit):
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)

    @T.prim_func
    def kernel(a: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((32,), "uint32")
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1)
            ptx.toy.put(s.ptr_to([0]), bar.ptr_to([0]), T.uint32(7))
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            a[0] = s[0]

    a = np.zeros(32, np.uint32)
    tw.simulate(kernel, a, target="sm_90a", check="all")
    assert a[0] == 7


def test_a_row_that_is_declared_well_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch)


@pytest.mark.parametrize(
    ("issue", "field", "near"),
    [
        (Issue("toy", in_order_after=("ptx.toy.putt",)), "Issue.in_order_after names no row", "'ptx.toy.put'"),
        (Issue("toy", in_order_after=("ptx.toy.end",)), "Issue.in_order_after names no row", "ptx.toy.put"),
        (Issue("tyo"), "Issue.group is none that a Commit or Wait names", "'toy'"),
    ],
)
def test_what_a_row_says_of_others_is_refused_at_its_first_call(
    monkeypatch: pytest.MonkeyPatch, issue: Issue, field: str, near: str
) -> None:
    with pytest.raises(InstructionError, match=f"ptx.toy.put: {field}") as error:
        put(monkeypatch, issue=issue)

    assert near in str(error.value.allowed)


@pytest.mark.parametrize(("effect", "field"), [(Commit("cp.asink"), "Commit.group"), (Wait("cp.asink"), "Wait.group")])
def test_a_group_that_nobody_issues_to_is_refused_at_the_first_call(
    monkeypatch: pytest.MonkeyPatch, effect: Effect, field: str
) -> None:
    one = row(effect, meaning=Meaning(), operands=())
    monkeypatch.setitem(INSTRUCTIONS, one.name, one)

    with pytest.raises(InstructionError, match=f"{field} is none that an Issue names") as error:

        @T.prim_func
        def kernel(a: T.Buffer((32,), "uint32")):
            T.thread_id([32])
            ptx.toy.put()

    assert "'cp.async'" in str(error.value.allowed)


@pytest.mark.parametrize(
    ("meaning", "what", "given", "allowed"),
    [
        (meant(addresses=lambda *_: {}), "addresses gave no 'dst'", "no names", "'dst' too"),
        (meant(addresses=lambda *_: None), "addresses gave no mapping", "None", "a dictionary"),
        (meant(takes=("q",)), "addresses gave no 'q'", "'dst'", "'q' too"),
        (meant(addresses=lambda u, dst, *_: {"dst": dst}), "addresses gave no `Addresses` for 'dst'", "", "`Addr"),
        (meant(addresses=lambda u, d, *_: {"dst": Addresses(d * 1.5)}), "addresses gave no places", "float", "integer"),
        (
            meant(addresses=lambda u, d, *_: {"dst": Addresses(d[:, None], rank=np.zeros(3, int))}),
            *("addresses gave another number of ranks for 'dst'", "(3,)", "(1,)"),
        ),
        (meant(lambda value: octets(value)[..., :3]), "execute gave other values for 'dst'", "(1, 1, 3)", "(1, 1, 4)"),
        (meant(lambda value: value.reshape(-1, 1)), "execute gave other values for 'dst'", "uint32", "uint8"),
        (meant(lambda value: None), "execute gave another number of values than it writes", "0", "'dst'"),
        (meant(addresses=lambda unit, dst: {}), "addresses has other parameters", "(unit, dst)", "(unit, dst, bar, v"),
        (meant(lambda tile, value: value), "execute has other parameters", "(tile, value)", "(value)"),
    ],
)  # fmt: skip
def test_what_addresses_and_execute_give_is_checked_as_they_run(
    monkeypatch: pytest.MonkeyPatch, meaning: AsyncMeaning, what: str, given: str, allowed: str
) -> None:
    with pytest.raises(InstructionError) as error:
        put(monkeypatch, meaning)

    assert error.value.what.startswith(f"toy.put: {what}")
    assert given in str(error.value.given)
    assert allowed in str(error.value.allowed)
    assert error.value.at is not None


D, E, VALUE = writes("d", "b32"), writes("e", "b32"), reads("value", "b32")


def summed(monkeypatch: pytest.MonkeyPatch, execute: Any, *operands: Any, **fields: Any) -> NDArray[np.uint32]:
    """Simulate a kernel that calls a synchronous row, once with one and once with two registers that it writes."""
    one = made(Meaning(execute, **fields), operands=(*operands, VALUE))
    monkeypatch.setitem(INSTRUCTIONS, one.name, one)

    @T.prim_func
    def kernel(a: T.Buffer((2, 32), "uint32")):
        lane = T.thread_id([32])
        r = T.alloc_local((2,), "uint32")
        r[1] = T.uint32(0)
        if len(operands) == 2:
            ptx.toy.put(r[0], r[1], lane)
        else:
            ptx.toy.put(r[0], lane)
        for i in range(2):
            a[i, lane] = r[i]

    a = np.zeros((2, 32), np.uint32)
    tw.simulate(kernel, a, target="sm_90a", check="all")
    return a


def test_a_synchronous_row_may_compute_several_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    a = summed(monkeypatch, lambda value: (value + 1, 2 * value), D, E)

    assert np.array_equal(a, [np.arange(32) + 1, 2 * np.arange(32)])


@pytest.mark.parametrize(
    ("execute", "operands", "what", "given", "allowed"),
    [
        (lambda value: None, (D,), "execute gave no values for 'd'", "None", "numbers of shape (..., 32)"),
        (lambda value: value[..., :16], (D,), "execute gave no values for 'd'", "(1, 1, 16)", "(..., 32)"),
        (lambda value: value, (D, E), "execute gave another number of values than it writes", "1", "2: 'd', 'e'"),
        (lambda: 7, (D,), "execute has other parameters", "()", "(value)"),
    ],
)
def test_what_a_synchronous_execute_gives_is_checked_as_it_runs(
    monkeypatch: pytest.MonkeyPatch, execute: Any, operands: Any, what: str, given: str, allowed: str
) -> None:
    with pytest.raises(InstructionError) as error:
        summed(monkeypatch, execute, *operands)

    assert error.value.what == f"toy.put: {what}"
    assert given in str(error.value.given)
    assert allowed in str(error.value.allowed)
    assert error.value.at is not None


def test_a_synchronous_arrival_gives_the_state_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = (reads("bar", "shared"),)
    form = Form(Ptx("toy.put"), isa.since("sm_90"), "", Meaning(lambda bar: None), (Signal("bar", "arrive"),))
    monkeypatch.setitem(INSTRUCTIONS, "ptx.toy.put", Instruction("ptx.toy.put", operands=operands, forms=(form,)))

    @T.prim_func
    def kernel(a: T.Buffer((32,), "uint32")):
        T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        ptx.toy.put(bar.ptr_to([0]))

    with pytest.raises(InstructionError, match="execute gave no state of the m-barrier"):
        tw.simulate(kernel, np.zeros(32, np.uint32), target="sm_90a")


@pytest.mark.parametrize(
    ("wording", "bits"),
    [
        (Cuda("made({value}, 3)"), "made(__float_as_uint(a[tid]), 3)"),
        (Ptx("made.b32"), "made(__builtin_bit_cast(unsigned int, a[tid]))"),
    ],
)
def test_a_float_in_a_register_of_bits_is_handed_over_by_its_bits(
    monkeypatch: pytest.MonkeyPatch, wording: Cuda | Ptx, bits: str
) -> None:
    form = Form(wording, isa.since("sm_75"), "a test", Meaning(lambda value: value), result=dtype("uint32"))
    operands = (reads("value", "b32"),)
    made = Instruction("cuda.made", ("value",), operands, (form,), pattern="{result}, {value}")
    monkeypatch.setitem(INSTRUCTIONS, made.name, made)

    @T.prim_func
    def kernel(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        b[tid] = cuda.made(a[tid])

    a, b = np.linspace(-1, 1, 32, dtype=np.float32), np.zeros(32, np.uint32)
    tw.simulate(kernel, a, b)
    assert np.array_equal(b, a.view(np.uint32))
    text = tw.compile(kernel, target="sm_90a").source("cuda")
    assert bits in text
