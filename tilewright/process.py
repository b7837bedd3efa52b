"""Limits of a process: the one place that sets them.

It imports nothing of the package: a process that must not import more runs this file by its path.
"""

from contextlib import suppress

__all__ = ["hold"]


def hold(seconds: int | None = None, nbytes: int | None = None) -> None:
    """Limit the time and the address space of this process, where the system supports it."""
    with suppress(ImportError, ValueError, OSError):  # Windows; a limit above that of the parent
        import resource

        for which, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, nbytes)):
            if most is not None:
                resource.setrlimit(which, (most, resource.getrlimit(which)[1]))
