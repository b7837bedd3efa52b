"""Every intrinsic with a value gives a lane the same, however its operands vary: the table is walked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.build import Lowered, at, cta, get, lane, tid, warp
from tilewright.dtypes import DType, dtype
from tilewright.ir import Expr, Var, as_expr, cast
from tilewright.isa import call
from tilewright.isa.forms import Form, Operand
from tilewright.isa.table import INSTRUCTIONS, REQUIRED, Instruction
from tilewright.sim import CHECKS

THREADS, CTAS, NUMBER = 64, 2, 5
VARIES: dict[str, Callable[[Var], Expr]] = {
    "constant": lambda number: as_expr(NUMBER),
    "uniform": lambda number: number,
    "by warp": lambda number: number + 3 * warp,
    "by thread": lambda number: number + tid + cta,
}
CHANGES = {"cuda.clock"}  # from call to call, as it should
PLAIN = {"typed", "b16", "b32", "b64", "pred"}


def has_a_value(row: Instruction) -> bool:
    """A value that follows from its operands alone, or from memory that it changes for its lane."""
    plain = all(one.kind in PLAIN for one in row.operands)
    alone = not any(one.many for one in row.operands)
    atomic = any(access.rmw for access in row.forms[0].accesses) and "mbarrier" not in row.name and alone
    return row.forms[0].result != dtype("void") and (plain or atomic) and row.name not in CHANGES


ROWS = [name for name, row in INSTRUCTIONS.items() if has_a_value(row)]


def kinds_of(form: Form) -> list[DType]:
    return [dtype(str(kind)) for kind in form.wording.modifiers.get("dtype", {"int32": ""}) if kind != "handle"]


def operand(row: Operand, of: DType, value: Expr, place: Any) -> Any:
    if row.kind in ("generic", "place"):
        return at(place, cta * THREADS + tid)
    if row.name in ("mask", "width"):
        return 0xFFFFFFFF if row.name == "mask" else 32
    if row.kind == "pred":
        return value % 2 == 0
    if row.kind == "typed":
        return cast(value, of)
    return cast(value, dtype("uint64")) if row.kind == "b64" else value


def required(row: Instruction) -> list[dict[str, object]]:
    """Values of the modifiers that a call of the row must name, of each form."""
    names = [key for key, default in row.keywords.items() if default is REQUIRED]
    each = [{name: next(iter(form.wording.modifiers[name])) for name in names} for form in row.forms]
    return [one for place, one in enumerate(each) if one not in each[:place]]


def ran(name: str, of: DType, ways: Iterable[str], check: str, mods: dict[str, Any] | None = None) -> None:
    """Asserts that operands as they vary and operands in registers of each lane give the same value, and leave the same
    in memory; also where the value goes into a variable under a condition. ways: of varying, all in one kernel.
    """
    row, k = INSTRUCTIONS[name], Lowered(threads=THREADS, grid=CTAS)
    arrays: dict[str, NDArray[np.generic]] = {}
    number = k.scalar("number")
    for n, varies in enumerate(ways):
        own, value = k.local(f"own_{n}", "int32", 1), VARIES[varies](number)
        k.store(own, 0, value)
        for way, operands in ((f"direct_{n}", value), (f"by_lane_{n}", get(own, 0))):
            place = k.array(f"place_{way}", str(of), CTAS * THREADS)
            made = call(name, *(operand(one, of, operands, place) for one in row.operands), **(mods or {}))
            out = k.array(way, "int32" if made.dtype.kind == "bool" else str(made.dtype), 2 * CTAS * THREADS)
            changing = k.bind(f"changing_{way}", made, str(made.dtype))
            k.store(out, cta * THREADS + tid, changing)
            with k.when(number == NUMBER):
                k.assign(changing, made)
            k.store(out, (CTAS + cta) * THREADS + tid, changing)
            arrays[place.name] = np.arange(CTAS * THREADS).astype(of.numpy)
            arrays[way] = np.zeros(2 * CTAS * THREADS, out.dtype.numpy)

    k.run(check, number=NUMBER, **arrays)

    for n, varies in enumerate(ways):
        assert arrays[f"direct_{n}"].tobytes() == arrays[f"by_lane_{n}"].tobytes(), f"{of} {varies}, check={check!r}"
        assert arrays[f"place_direct_{n}"].tobytes() == arrays[f"place_by_lane_{n}"].tobytes()


def exists(name: str, mods: dict[str, Any]) -> bool:
    keywords = INSTRUCTIONS[name].keywords
    defaults: dict[str, Any] = {key: default for key, default in keywords.items() if default is not REQUIRED}
    return any(form.fits({**defaults, **mods}) for form in INSTRUCTIONS[name].forms)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ROWS)
def test_an_intrinsic_gives_a_lane_the_same_however_its_operands_vary(name: str) -> None:
    kinds = dict.fromkeys(kind for form in INSTRUCTIONS[name].forms for kind in kinds_of(form))
    for number, of in enumerate(kinds):
        for mods in required(INSTRUCTIONS[name]):
            if not mods or exists(name, {**mods, "dtype": of}):
                for check in ("none", "all") if number == 0 else ("all",):
                    ran(name, of, VARIES, check, mods)


SHUFFLES = [name for name in ROWS if INSTRUCTIONS[name].forms[0].meaning.moves and name.startswith("cuda.")]


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("first", VARIES)
def test_a_changing_scalar_is_shuffled_under_every_check(name: str, first: str) -> None:
    for of in kinds_of(INSTRUCTIONS[name].forms[0]):
        if of.element.numpy.kind not in "iuf":
            continue
        k = Lowered(threads=THREADS)
        value = cast(VARIES[first](k.scalar("number")), of)
        changing, still = k.bind("changing", value, str(of)), k.bind("still", value, str(of))
        with k.loop("turn", 0, 2):
            k.assign(changing, call(name, 0xFFFFFFFF, changing, 1))
        with k.when(lane < 8):
            k.assign(changing, call(name, 0xFF, changing, 1, width=8))
        wanted = call(name, 0xFFFFFFFF, call(name, 0xFFFFFFFF, still, 1), 1)
        for name_of, result in (("changed", changing), ("wanted", wanted)):
            k.store(k.array(name_of, str(of), THREADS), tid, result)
        arrays = {name_of: np.zeros(THREADS, of.numpy) for name_of in ("changed", "wanted")}

        k.run(number=NUMBER, **arrays)

        rest = np.arange(THREADS) % 32 >= 8
        assert arrays["changed"][rest].tolist() == arrays["wanted"][rest].tolist()


@pytest.mark.parametrize("check", ["default", *CHECKS])
@pytest.mark.parametrize("name", ["popcount", "isnan", "exp", "cuda.shfl_xor_sync", "cuda.ballot_sync"])
def test_each_check_by_itself_leaves_an_intrinsic_its_value(check: str, name: str) -> None:
    ran(name, kinds_of(INSTRUCTIONS[name].forms[0])[0], ["uniform"], check)
