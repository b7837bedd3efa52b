"""How long tilewright takes, as ratios to other projects: ``make bench``, or ``python -m benchmarks [name ...]``.

A benchmark is a module here with a function ``run() -> Table``; it is found by discovery. The benchmarks of other
projects are in `peers`, and run in processes of their own. Nothing in the tests depends on a time.
"""
