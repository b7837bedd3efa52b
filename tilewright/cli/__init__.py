"""The command line: `tilewright demo`, `run`, `lower`, `explain`, `advise`, `layout`, `atom`, `doctor`.

Exit codes: 0 all is well, 1 something is wrong with a kernel, 2 nothing was judged, 3 stopped at a limit.
"""

from tilewright.cli.app import main

__all__ = ["main"]
