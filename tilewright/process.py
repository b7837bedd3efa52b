"""Limits of a process: the one place that sets them.

It imports nothing of the package: a process that must not import more runs this file by its path.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadpoolctl import ThreadpoolController


def hold(
    seconds: int | None = None, nbytes: int | None = None, file_bytes: int | None = None, *, for_good: bool = False
) -> None:
    """Limit the time, the address space and the files of this process, where the system supports it.

    file_bytes: of a file that it writes, and of what it leaves where it dies. for_good: it cannot lift them itself.
    """
    with suppress(ImportError, ValueError, OSError):  # Windows; a limit above that of the parent
        import resource

        limits = (("CPU", seconds), ("AS", nbytes), ("FSIZE", file_bytes), ("CORE", file_bytes))
        for name, most in limits:
            if most is not None:
                which = getattr(resource, f"RLIMIT_{name}")
                resource.setrlimit(which, (most, most if for_good else resource.getrlimit(which)[1]))


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries that are loaded, NumPy's among them; to look for them takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


_lock = Lock()
_holders = 0  # how many callers ask for one thread now
_held = ExitStack()  # the threads that were there before are back when it closes


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small products by one thread each: to hand their parts to others takes longer than to multiply, the more so where
    these wait for a core. The limit is the process's; the last of several callers lifts it.
    """
    global _holders
    with _lock:
        if not _holders:
            _held.enter_context(_blas().limit(limits=1))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _held.close()
