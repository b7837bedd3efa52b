"""The variants of `copy_async`."""
