"""The command line: `tilewright demo`, `run`, `lower`, `explain`, `advise`, `layout`, `atom`, `doctor`.

Exit codes: 0 all is well, 1 the kernel or a check of it failed, 2 the command was called wrongly.
"""

from tilewright.cli.app import main

__all__ = ["main"]
