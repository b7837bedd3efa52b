"""The variants of `fill` and `zero`: a value in registers, or by accesses to memory, or element by element."""
