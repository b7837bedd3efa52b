"""The variants of the elementwise primitives, which they share: who computes which element, and by which accesses."""
