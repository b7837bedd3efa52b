"""How long tilewright takes, as ratios to other projects: ``make bench``, or ``python -m benchmarks [name ...]``.

A benchmark is a module here with a function ``run() -> Table``; it is found by being here. What other projects do lies
in `peers` and runs in processes of their own. Nothing in the tests depends on a time.
"""
