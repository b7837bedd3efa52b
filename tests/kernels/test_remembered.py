"""Calls like one before: what they do, how little it is, what is never remembered; on a driver that runs nothing."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from ctypes import c_float, c_int, c_uint64
from importlib import import_module
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver, Tensor, torch_module
from tilewright import kernels
from tilewright.compiler import Executable
from tilewright.cuda import driver
from tilewright.cuda.tensors import QUICK
from tilewright.errors import ArgumentError
from tilewright.kernels import operators
from tilewright.kernels.operators import OPERATORS, RememberedCalls

recorders: list[Any] = []
addresses = iter(range(1 << 20, 1 << 40, 1 << 16))


class Storage(SimpleNamespace):
    @property
    def _cdata(self) -> int:
        return id(self)


class Dense(Tensor):
    """A tensor of the fake torch that makes others, and tells the recorder so."""

    device, requires_grad, is_cuda = "cuda:0", False, True
    storage: Storage

    def __init__(
        self, shape: tuple[int, ...], *, address: int = 0x1000, like: Dense | None = None, **named: Any
    ) -> None:
        super().__init__(shape, address=address, **named)
        self.storage = like.storage if like else Storage()

    def untyped_storage(self) -> Storage:
        return self.storage

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def reshape(self, *shape: int) -> Dense:
        found = np.empty(self.shape, np.int8).reshape(*shape).shape
        return Dense(found, address=self.address, like=self)

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> Dense:
        made = Dense(shape, address=next(addresses))
        for recorder in recorders:
            recorder.torch_did(Operation("aten.new_empty.default"), (self,), {}, made)
        return made

    def __setitem__(self, where: Any, value: Any) -> None:
        for recorder in recorders:
            recorder.torch_did(Operation("aten.index_put_.default"), (self,), {}, self)


class Operation(str):
    is_view = False


class Recorder:
    """Tells the notes what tensors do."""

    def __init__(self, notes: Any) -> None:
        self.notes = notes

    def __enter__(self) -> None:
        recorders.append(self.notes)

    def __exit__(self, *error: object) -> None:
        recorders.remove(self.notes)


def empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> Dense:
    return Dense(shape, address=next(addresses))


def fake_torch() -> ModuleType:
    module: Any = torch_module(guards=True)
    module.Tensor, module.float32 = Dense, "torch.float32"
    Dense.__module__ = "torch"
    module.compiler = SimpleNamespace(is_dynamo_compiling=bool)
    module.autograd = SimpleNamespace(forward_ad=SimpleNamespace(_current_level=-1))
    module.is_grad_enabled, module.no_grad = bool, nullcontext
    module._C._len_torch_function_stack = int
    module._C._dynamo.guards._empty_strided_cuda = empty
    module.ops = SimpleNamespace(
        tilewright=SimpleNamespace(softmax=SimpleNamespace(default=lambda *args: "registered"))
    )
    found: ModuleType = module
    return found


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A machine with one GPU and a fake torch, where nothing is remembered yet."""
    made = FakeDriver(kinds=(c_uint64, c_uint64, c_int, c_int))
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    monkeypatch.setattr("tilewright.kernels.arrays.SEEN", [])
    monkeypatch.setattr(Executable, "cubin", b"cubin")
    monkeypatch.setattr(operators, "is_plain", lambda tensor: type(tensor) is Dense and tensor.numel() > 0)
    monkeypatch.setattr(operators, "is_watched", lambda: False)
    monkeypatch.setattr(operators, "reseated", lambda tensor: Dense(tensor.shape, address=tensor.address))
    monkeypatch.setattr(operators, "recorder", lambda: Recorder)
    monkeypatch.setattr(operators, "register", lambda name: None)
    softmax = OPERATORS["softmax"]
    monkeypatch.setitem(softmax.__dict__, "calls", RememberedCalls(softmax.direct, softmax.backward))
    forward = import_module("tilewright.kernels.softmax").forward  # whose executables know the driver
    caches = (driver.device, driver.device_count, driver.is_usable, forward)
    for cached in caches:
        cached.cache_clear()
    yield made
    for cached in caches:
        cached.cache_clear()
    QUICK.pop(Dense, None)


def pointers(fake: FakeDriver) -> list[Any]:
    return [seen.values[:2] for seen in fake.launches]


def test_a_call_like_one_before_launches_with_its_own_addresses(fake: FakeDriver) -> None:
    results = [kernels.softmax(Dense((8, 64), address=at)) for at in (0x1000, 0x5000, 0x5000)]

    assert pointers(fake) == [[at, y.address] for at, y in zip((0x1000, 0x5000, 0x5000), results, strict=True)]
    assert len({y.address for y in results}) == 3
    assert OPERATORS["softmax"].calls.count == 1


def test_calls_that_differ_are_remembered_apart(fake: FakeDriver) -> None:
    for _ in range(3):
        for shape, address in (((8, 64), 0x1000), ((8, 32), 0x1000), ((8, 64), 0x1004), ((4, 2, 64), 0x1000)):
            assert kernels.softmax(Dense(shape, address=address)).shape == shape

    assert OPERATORS["softmax"].calls.count == 4
    assert [seen.grid for seen in fake.launches[:4]] == [seen.grid for seen in fake.launches[4:8]]
    assert [at for at, _ in pointers(fake)] == [0x1000, 0x1000, 0x1004, 0x1000] * 3


def test_a_remembered_call_makes_few_calls(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget: what the function of a remembered call does; whoever adds to it sees it here."""
    texts: list[str] = []

    def compiled(text: str) -> CodeType:
        texts.append(text)
        return compile(text, "<again>", "exec")

    monkeypatch.setattr(operators, "_compiled", compiled)
    x = Dense((8, 64))
    kernels.softmax(x)
    before = len(fake.launches)

    kernels.softmax(x)

    assert len(texts) == 1
    assert len(fake.launches) == before + 1
    calls = [each for each in re.findall(r"(\w+)\(", texts[0]) if each not in ("again", "if", "not", "return")]
    assert len(calls) <= 14, calls


def test_what_the_notes_cannot_say_is_not_remembered(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = OPERATORS["softmax"]
    run = softmax.run

    def clearing(results: Any, x: Any) -> Any:
        results[0][...] = 0
        yield from run(results, x)

    monkeypatch.setitem(softmax.__dict__, "run", clearing)
    for _ in range(3):
        kernels.softmax(Dense((8, 64)))

    assert len(fake.launches) == 3
    assert softmax.calls.count == 0


def test_a_launch_that_the_notes_do_not_have_is_noticed(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = OPERATORS["softmax"]
    run = softmax.run

    def copied_first(results: Any, x: Any) -> Any:
        copy = x.new_empty(x.shape, x.dtype)
        for compiled, arguments in run((copy,), x):
            compiled(*arguments)
        yield from run(results, copy)

    monkeypatch.setitem(softmax.__dict__, "run", copied_first)
    for _ in range(2):
        kernels.softmax(Dense((8, 64)))

    assert len(fake.launches) == 4
    assert softmax.calls.count == 0


def test_an_array_from_elsewhere_is_not_remembered(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax, other = OPERATORS["softmax"], Dense((8, 64), address=0x9000)
    run = softmax.run
    monkeypatch.setitem(softmax.__dict__, "run", lambda results, x: run(results, other))

    kernels.softmax(Dense((8, 64)))

    assert softmax.calls.count == 0


def test_torch_gets_the_operator_where_it_must_see_it(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.softmax(Dense((8, 64)))
    torch: Any = sys.modules["torch"]

    torch.compiler.is_dynamo_compiling = lambda: True
    assert kernels.softmax(Dense((8, 64))) == "registered"
    torch.compiler.is_dynamo_compiling = lambda: False
    torch._C._len_torch_function_stack = lambda: 1
    monkeypatch.setattr(operators, "is_watched", lambda: True)
    assert kernels.softmax(Dense((8, 64))) == "registered"
    assert len(fake.launches) == 1


def test_the_memory_is_bounded(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "MOST_PLANS", 5)
    for rows in range(1, 20):
        kernels.softmax(Dense((rows, 64)))
        assert OPERATORS["softmax"].calls.count <= 5
    for low in range(0, 128, 4):
        kernels.softmax(Dense((8, 64), address=0x1000 + low))
    assert OPERATORS["softmax"].calls.count <= 5


def test_an_argument_that_does_not_fit_is_refused_each_time(fake: FakeDriver) -> None:
    fake.kinds = (c_uint64, c_uint64, c_uint64, c_float)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="the shape of weight does not fit"):
            kernels.rms_norm(Dense((8, 64)), Dense((32,)))


def test_notes_name_a_view_by_what_it_is_a_view_of() -> None:
    notes = operators.Notes()
    whole = Dense((8, 64), address=0x2000)
    notes.add("a0", whole)

    assert notes.address(0x2000, whole.reshape(512)) == "p0"
    assert notes.address(0x2040, Dense((4,), address=0x2040, like=whole)) == "p0 + 64"
    assert notes.is_whole
    notes.address(0x3000, Dense((4,), address=0x3000))
    assert not notes.is_whole


def test_what_a_call_makes_has_no_name_of_an_argument_behind_none() -> None:
    notes = operators.Notes()
    notes.add("a0", Dense((8, 64)))
    notes.add("a2", Dense((8, 64)))  # the second argument is None

    notes.makes(Dense((8, 64)), "empty")

    assert sorted(name[1:] for name, _ in notes.firsts.values()) == ["0", "2", "3"]


def test_whatever_alternates_a_remembered_call_launches_what_a_first_one_would(fake: FakeDriver) -> None:
    draw, softmax = random.Random(0), OPERATORS["softmax"]
    fake.kinds = (c_uint64, c_uint64, c_int, c_int, c_int, c_int)  # x, y, and the symbols: extents and pitches
    for _ in range(300):
        shape = draw.choice([(1, 64), (8, 64), (8, 61), (2, 4, 64), (8, 1024), (3, 20000)])
        x = Dense(shape, address=0x10000 + 16 * draw.randrange(3) + 4 * draw.choice((0, 0, 1)))

        y = kernels.softmax(x)
        softmax.direct(x)

        mine, first = fake.launches[-2:]
        assert mine.values[:2] == [x.address, y.address]
        assert (mine.function, mine.grid, mine.block, mine.shared_bytes, mine.stream, mine.asked, mine.values[2:]) == (
            first.function, first.grid, first.block, first.shared_bytes, first.stream, first.asked, first.values[2:]
        )  # fmt: skip
    assert softmax.calls.count > 12
    assert len(fake.launches) == 600
