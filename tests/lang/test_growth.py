"""What a kernel computes while it is parsed stays small, or an error says what grows."""

from __future__ import annotations

import pytest

from tests.lang.kernels import body
from tilewright.errors import KernelError
from tilewright.lang import T, parse_script, parser

GROWING = {
    "2 ** 10 ** 9": "a number grows out of bounds",
    "1 << 10 ** 12": "a number grows out of bounds",
    "3 ** 3 ** 3 ** 3": "a number grows out of bounds",
    "10 ** 1200 * 10 ** 1200": "a number grows out of bounds",
    "[0] * 10 ** 11": "a sequence grows out of bounds",
    "10 ** 9 * 'a'": "a sequence grows out of bounds",
}


@pytest.mark.parametrize("text", GROWING)
def test_what_grows_is_refused_before_it_is_computed(text: str) -> None:
    with pytest.raises(KernelError, match=GROWING[text]):
        parse_script(f'@T.prim_func\ndef k(A: T.Buffer((8,), "float32")):\n    x = {text}\n')
    with pytest.raises(KernelError, match=r"grows out of bounds|has no"):
        parse_script(f'@T.prim_func\ndef k(A: T.Buffer((8,), "float32")):\n    x = 7\n    x += {text}\n')


def test_python_computes_with_numbers_beyond_64_bits() -> None:
    @T.prim_func
    def k(A: T.Buffer((8,), "int32")):
        T.cta_id([1])
        A[0] = 2**200 % 1000007 + (1 << 64 >> 60) + (-1) ** (10**9)

    assert f"A[0] = {2**200 % 1000007 + 16 + 1}" in body(k)


@pytest.mark.parametrize("place", ["T.alloc_local(({},), 'float32')", "A[{}]", "A[0:{}]", "T.int32({})"])
def test_a_number_of_more_digits_than_python_writes_is_refused_in_words(place: str) -> None:
    number = place.format("int('9' * 5000)")
    with pytest.raises(KernelError) as raised:
        parse_script(f'@T.prim_func\ndef k(A: T.Buffer((8,), "float32")):\n    x = {number}\n')
    assert str(raised.value)


def test_nested_loops_over_python_values_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.lang.parser.MOST_STEPS", 1000)
    with pytest.raises(KernelError, match="too many steps to parse"):

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            for _ in [0] * 100:
                for _ in [0] * 100:
                    pass


def test_a_comprehension_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from itertools import count

    monkeypatch.setattr("tilewright.lang.parser.MOST_STEPS", 1000)
    with pytest.raises(KernelError, match="too many steps to parse"):

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            x = [i for i in count()]  # noqa: F841  # the comprehension is the test


def test_functions_that_call_themselves_twice_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.lang.parser.MOST_STEPS", 1000)

    @T.inline
    def twice(n):
        if n > 0:
            twice(n - 1)
            twice(n - 1)

    with pytest.raises(KernelError, match="too many steps to parse"):

        @T.prim_func
        def k(A: T.Buffer((8,), "float32")):
            twice(40)


def test_a_million_steps_are_allowed() -> None:
    assert parser.MOST_STEPS >= 1_000_000
