"""Runs the benchmarks that are named, or all of them; writes their tables into benchmarks/RESULTS.md."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks import page
from benchmarks.measure import machine, save


def names() -> list[str]:
    """The modules here that have a ``run``."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)
    return [name for name in found if name != "__main__" and hasattr(_module(name), "run")]


def _module(name: str) -> object:
    return importlib.import_module(f"benchmarks.{name}")


def main(wanted: list[str]) -> int:
    known = names()
    if unknown := set(wanted) - set(known):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print("\n".join(f"{key}: {value}" for key, value in machine().items()))
    for name in wanted or known:
        table = _module(name).run()  # type: ignore[attr-defined]  # names() looked
        print(f"\n{table}\n  written to {save(name, table)}", flush=True)
    page.rewrite()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
