"""The variants of ``Tx.gemm_async``."""
