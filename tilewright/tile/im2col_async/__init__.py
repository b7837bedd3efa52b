"""The variants of ``Tx.im2col_async``."""
