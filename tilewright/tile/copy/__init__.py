"""The variants of `copy`."""
