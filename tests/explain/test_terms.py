"""Terms of a sentence are named by each language, and nobody reads the sentence for that."""

from __future__ import annotations

import copy
import pickle

import pytest

from tilewright.errors import SimulationError
from tilewright.explain import COMMAND, CUDA, NUMBA, PTX, TRITON, advised, between, joined, reworded
from tilewright.terms import (
    OURS,
    Dialect,
    Operand,
    Term,
    atomic,
    barrier,
    call,
    fence,
    is_named,
    meeting,
    only_if,
    operation,
    option,
    register,
    strong,
    symbol,
    told,
)

EVERY = [
    *(barrier(scope) for scope in ("warp", "cta", "cluster")),
    *(fence(scope) for scope in ("cta", "cluster", "gpu", "sys")),
    *(fence("gpu", where, 3) for where in ("before", "after")),
    *(only_if(cta=cta, thread=thread) for cta, thread in ((True, False), (False, True), (True, True))),
    *(Term("no barrier", (kind,)) for kind in ("between", "any")),
    *(call("ptx.cp_async.wait_group", 0), call("ptx.mbarrier.init", Operand("bar"), 1)),
    *(operation("ptx.atom.add"), meeting("cuda.cta_sync"), atomic("add", "x"), strong("ld", "relaxed", "gpu")),
    *(Term("one is enough", ("x",)), Term("advice", ("x",)), Term("trap"), Term("named", ("ptx.mbarrier.inval",))),
]


@pytest.mark.parametrize("dialect", [CUDA, PTX, NUMBA], ids=["CUDA", "PTX", "Numba"])
@pytest.mark.parametrize("term", EVERY, ids=str)
def test_a_language_names_every_term_in_its_own_way(term: Term, dialect: Dialect) -> None:
    said = dialect.said(told("{}", term))

    assert is_named(said)
    assert "T." not in said


def test_a_term_that_a_language_has_no_name_for_stays_one() -> None:
    assert not is_named(TRITON.said(told("{} behind it", barrier("cluster"))))


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        (OURS, "T.cuda.cta_sync() between line 3 and line 4"),
        (CUDA, "__syncthreads() between line 3 and line 4"),
        (PTX, "bar.sync 0 between line 3 and line 4"),
        (NUMBA, "cuda.syncthreads() between line 3 and line 4"),
        (TRITON, "tl.debug_barrier() between line 3 and line 4"),
    ],
)
def test_a_sentence_is_said_in_each_language(dialect: Dialect, said: str) -> None:
    assert dialect.said(told("{} between line {} and line {}", barrier("cta"), 3, 4)) == said


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (call("ptx.cp_async.bulk.wait_group", 1, read=False), "cp.async.bulk.wait_group 1"),
        (call("ptx.fence.proxy_async", "global"), "fence.proxy.async.global"),
        (call("ptx.mbarrier.arrive.expect_tx", Operand("b, byte 8"), 256), "mbarrier.arrive.expect_tx(b, byte 8, 256)"),
    ],
)
def test_a_call_is_spelled_as_ptx_does_unless_it_names_a_place(term: Term, said: str) -> None:
    assert PTX.said(told("{}", term)) == said


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (option("block", 256), "--block 256"),
        (option("shared_bytes", 7), "--smem 7"),
        (option("limit_s", "2.5"), "--limit 2.5s"),
        (option("target", "sm_90a"), "--arch sm_90a"),
        (Term("array as", ("x", "view", "bfloat16")), "--arg x:bf16[...]"),
        (Term("array as", ("x", "astype", "uint32")), "--arg x:u32[...]"),
    ],
)
def test_the_command_line_has_options_for_arguments(term: Term, said: str) -> None:
    assert COMMAND.said(told("{}", term)) == said


def test_symbols_have_the_names_of_their_authors() -> None:
    assert CUDA.with_names({"_Z1k": "k"}.__getitem__).said(told("{} ends", symbol("_Z1k"))) == "k ends"
    assert CUDA.said(told("{} is late", register("`p1`"))) == "a value is late"
    assert PTX.said(told("{} is late", register("`p1`"))) == "`p1` is late"


def test_an_error_is_reworded_with_its_remedy() -> None:
    hint = advised(told("{} before line 4", barrier("cta")), "barrier", "cta", (4,), barrier("cta"))

    error = reworded(SimulationError("race", hint=hint, kind="races"), CUDA)

    assert error.hint == "__syncthreads() before line 4"
    assert error.facts["remedy"].code == "__syncthreads();"
    assert error.facts["remedy"].ways[0][0].text == "__syncthreads();"


def test_hints_that_belong_together_are_one_remedy() -> None:
    one, other = (advised(f"line {line}", "fence", ways=[between("f()", line)]) for line in (3, 7))

    remedy = joined([one, None, other]).remedy

    assert remedy is not None
    assert [edit.line for way in remedy.ways for edit in way] == [3, 7]


def test_a_sentence_can_be_copied_and_sent() -> None:
    sentence = told("{} and {}", barrier("cta"), symbol("k"))

    for other in (copy.deepcopy(sentence), pickle.loads(pickle.dumps(sentence))):
        assert (other, other.parts) == (sentence, sentence.parts)
