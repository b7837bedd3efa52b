"""Budgets on the size of files, of functions and of the compiler."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from tests.house.sources import function_lines, parse, setting, sources, table_lines
from tools.size import lines_per_room

FILE_LINES = 400
FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 10


def test_no_file_is_longer_than_400_lines_beyond_its_tables() -> None:
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


def test_the_compiler_stays_under_its_ceiling() -> None:
    rooms = lines_per_room()

    counted = sum(rooms[room] for room in ast.literal_eval(setting("counted_rooms")))

    assert counted <= int(setting("max_code_lines")), "raise the ceiling in pyproject.toml, and say why in the commit"


def test_a_table_of_rows_does_not_count_towards_the_length_of_its_file() -> None:
    source = parse(Path("rows.py"), "ROWS = {\n    1: 2,\n    3: 4,\n}\n\n\ndef f():\n    x = (\n        1\n    )\n")

    assert table_lines(source.tree) == 3
