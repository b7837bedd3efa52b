"""No code of ours reads sentences of ours: findings are fields until a person reads them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "tilewright"
ROOMS = ("explain", "sim", "load", "advise", "cli", "checking.py", "verdict.py", "errors.py", "pytest_plugin.py")
OTHER_TEXTS = {  # files whose patterns read what users write, or code
    "load/module.py",
    "cli/app.py",
    "cli/arguments.py",
    "cli/launching.py",
    "load/unoptimised.py",
    "sim/codegen/loops.py",
    "explain/steps.py",
    *(
        f"load/cu{part}.py"
        for part in (
            "",
            "_compile",
            "_headers",
            "_host",
            "_launches",
            "_numbers",
            "_pieces",
            "_stand_ins",
            "_structures",
            "_tree",
        )
    ),
}


def test_no_file_matches_patterns_in_messages() -> None:
    files = [
        file for room in ROOMS for file in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
    ]
    using = {str(file.relative_to(ROOT)) for file in files if _imports_patterns(file)}

    assert using <= OTHER_TEXTS


def _imports_patterns(file: Path) -> bool:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return any(isinstance(node, ast.Import) and any(name.name == "re" for name in node.names) for node in nodes)
