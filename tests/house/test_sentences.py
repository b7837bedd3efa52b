"""No code of ours reads sentences of ours: findings are fields until a person reads them."""

from __future__ import annotations

import ast

from tests.house.sources import Source, sources

ROOMS = (
    "explain",
    "sim",
    "load",
    "advise",
    "cli",
    "checking.py",
    "trials.py",
    "variations.py",
    "verdict.py",
    "errors.py",
    "pytest_plugin.py",
)
OTHER_TEXTS = {  # files whose patterns read what users write, or code
    "load/cu_cut.py",
    "load/cu_needed.py",
    "load/module.py",
    "cli/app.py",
    "cli/argument_spec.py",
    "cli/arguments.py",
    "cli/launching.py",
    "cli/proposals.py",
    "cli/proposing.py",
    "load/unoptimised.py",
    "sim/codegen/loops.py",
    *(
        f"load/cu{part}.py"
        for part in (
            "",
            "_advice",
            "_textures",
            "_allocations",
            "_compile",
            "_conditions",
            "_contents",
            "_dialect",
            "_guards",
            "_headers",
            "_host",
            "_idioms",
            "_choices",
            "_launcher",
            "_launches",
            "_libcu",
            "_life",
            "_numbers",
            "_pieces",
            "_returned",
            "_stand_ins",
            "_structures",
            "_tensors",
            "_tree",
            "_variables",
        )
    ),
}


def test_no_file_matches_patterns_in_messages() -> None:
    files = {source.name.removeprefix("tilewright/"): source for source in sources()}
    read = {name: source for name, source in files.items() if name.split("/")[0] in ROOMS}

    assert len(read) > 100
    assert {name for name, source in read.items() if _imports_patterns(source)} <= OTHER_TEXTS


def _imports_patterns(source: Source) -> bool:
    nodes = source.nodes() if "import re" in source.text else ()
    return any(isinstance(node, ast.Import) and any(name.name == "re" for name in node.names) for node in nodes)
