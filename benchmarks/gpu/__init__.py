"""Benchmarks that need a GPU: speed against its limits, and its memories. ``make bench-gpu`` runs all of it."""
