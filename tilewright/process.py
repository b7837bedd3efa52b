"""What a process may take: the one place that says so to the system.

It stands alone: a process that shall import nothing else runs this file by its path.
"""

from contextlib import suppress

__all__ = ["hold"]


def hold(seconds: int | None = None, nbytes: int | None = None) -> None:
    """This process gets no more time and address space than that, where the system can say so."""
    with suppress(ImportError, ValueError, OSError):  # Windows; a limit above that of the parent
        import resource

        for which, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, nbytes)):
            if most is not None:
                resource.setrlimit(which, (most, resource.getrlimit(which)[1]))
