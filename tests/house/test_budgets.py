"""Budgets on the size of files, of functions and of the compiler."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.house.sources import Source, function_lines, parse, setting, sources, table_lines
from tools.size import code_lines

FILE_LINES = 800
FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 10
PARAMETERS = 7
WIDE = {
    "kernels": 36, "isa": 2, "cli": 5, "lang": 6, "primitives": 4, "checking.py": 2, "compiler.py": 2, "load": 2,
    "host.py": 1, "serve": 1, "sim": 1,
}  # fmt: skip
"""Functions of more than seven parameters, by room: these numbers only fall."""


def test_no_file_is_longer_than_800_lines_beyond_its_tables() -> None:
    lengths = {source.name: len(source.text.splitlines()) - table_lines(source.tree) for source in sources()}

    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    lengths = {
        f"{source.name}:{function.lineno} {function.name}": function_lines(function)
        for source in sources()
        for function in source.functions()
    }

    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_the_median_function_has_at_most_10_lines() -> None:
    lengths = [function_lines(function) for source in sources() for function in source.functions()]

    assert median(lengths) <= MEDIAN_FUNCTION_LINES


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller gives: the object of a method is not among them."""
    named = function.args
    every = [*named.posonlyargs, *named.args, *named.kwonlyargs]
    return len([parameter for parameter in every if parameter.arg not in ("self", "cls")])


def test_fewer_and_fewer_functions_have_more_than_seven_parameters() -> None:
    wide = Counter(
        source.name.split("/")[1]
        for source in sources()
        for function in source.functions()
        if parameters(function) > PARAMETERS
    )

    assert {room: number for room, number in wide.items() if number > WIDE.get(room, 0)} == {}


def test_the_object_of_a_method_is_no_parameter_and_a_keyword_is_one() -> None:
    source = parse(Path("rows.py"), "class C:\n    def f(self, a, /, b, *rest, c=1, **more):\n        pass\n")

    assert [parameters(function) for function in source.functions()] == [3]


def test_the_compiler_stays_under_its_ceiling() -> None:
    rooms = ast.literal_eval(setting("counted_rooms"))

    counted = sum(code_lines(source.text, source.tree) for source in sources() if source.name.split("/")[1] in rooms)

    assert counted <= int(setting("max_code_lines")), "raise the ceiling in pyproject.toml, and say why in the commit"


def test_the_rooms_of_the_simulator_stay_under_their_ceilings() -> None:
    ceilings = dict(ast.literal_eval(setting("sim_code_lines")))

    found: Counter[str] = Counter()
    for source in simulator():
        found[room_of(source)] += code_lines(source.text, source.tree)

    assert found.keys() == {*ceilings, "__init__.py"}
    assert {room: lines for room, lines in found.items() if lines > ceilings.get(room, 10)} == {}


def test_types_of_the_simulator_say_any_at_the_edges_of_numpy_only() -> None:
    ceilings = dict(ast.literal_eval(setting("sim_any")))

    found: Counter[str] = Counter()
    for source in simulator():
        found[room_of(source)] += sum(isinstance(node, ast.Name) and node.id == "Any" for node in source.nodes())

    assert {room: number for room, number in found.items() if number > ceilings.get(room, 0)} == {}


def simulator() -> Iterator[Source]:
    return (source for source in sources() if source.name.startswith("tilewright/sim/"))


def room_of(source: Source) -> str:
    return source.name.split("/")[2]


def test_a_table_of_rows_does_not_count_towards_the_length_of_its_file() -> None:
    source = parse(Path("rows.py"), "ROWS = {\n    1: 2,\n    3: 4,\n}\n\n\ndef f():\n    x = (\n        1\n    )\n")

    assert table_lines(source.tree) == 3
