"""The variants of `gemm`."""
