"""Kernels in tilewright's language, for the benchmarks."""
