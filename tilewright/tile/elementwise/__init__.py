"""The variants of the elementwise primitives, which they share: the threads of elements, and accesses."""
