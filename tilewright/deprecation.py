"""How a public name or argument goes: for one minor version its use warns, and says what to write instead."""

from __future__ import annotations

import sys
import warnings

from tilewright.frames import from_outside


def deprecated(what: str, *, since: str, gone: str, instead: str) -> None:
    """Warn of the use of something that goes, at the line of the user who calls it.

    what: as users write it, "simulate(..., trace=)"; since, gone: versions; instead: what to write. The warning is a
    DeprecationWarning, which Python shows in a user's own program and pytest in its tests.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     deprecated("simulate(trace=)", since="0.2", gone="0.3", instead="simulate(record=)")
    >>> print(told[0].message)
    simulate(trace=) is deprecated since tilewright 0.2 and goes with 0.3: write simulate(record=)
    """
    level, caller = 2, sys._getframe(1)
    while not from_outside(caller) and caller.f_back is not None:
        level, caller = level + 1, caller.f_back
    text = f"{what} is deprecated since tilewright {since} and goes with {gone}: write {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)
