"""The variants of `permute_layout`: each counts what it costs, and leaves the call to a cheaper one."""
