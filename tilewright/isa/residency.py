"""How many CTAs a GPU has room for at once, and which launches none takes.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Thread Block Clusters".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.errors import TargetError
from tilewright.isa.arch import Arch

__all__ = [
    "MOST_CLUSTER",
    "MOST_REGISTERS",
    "PORTABLE_CLUSTER",
    "check_cluster",
    "ctas_of_an_sm",
    "most_registers",
    "resident_ctas",
]

PORTABLE_CLUSTER, MOST_CLUSTER = 8, 16  # CTAs; more than 8 only for a kernel that allows sizes that are not portable
MOST_REGISTERS = 255  # of a thread
RESERVED = 1024  # bytes of shared memory that the driver keeps for itself in each CTA


def ctas_of_an_sm(on: Arch, threads: int, shared_bytes: int, registers: int = 0) -> Mapping[str, int]:
    """The CTAs that an SM has room for, by each of its limits. registers: of a thread, 0 where they are not known."""
    warps = -(-threads // 32)
    limits = {
        "CTAs": on.sm_ctas,
        "threads": on.sm_threads // (warps * 32),
        "shared memory": on.sm_shared_bytes // (shared_bytes + RESERVED),
    }
    if registers:
        limits["registers"] = on.sm_registers // (-(-registers // 8) * 8 * 32 * warps)
    return limits


def resident_ctas(on: Arch, threads: int, shared_bytes: int, cluster: int, registers: int = 0) -> int:
    """The CTAs that the largest GPU of an architecture runs at once, whole clusters. registers: of a thread, 0 where
    they are not known.
    """
    count = min(ctas_of_an_sm(on, threads, shared_bytes, registers).values())
    return max(1, on.sms * count // cluster) * cluster


def most_registers(on: Arch, threads: int, ctas: int) -> int:
    """The registers of a thread with which an SM has room for so many CTAs: no more are in code for these bounds."""
    return min(MOST_REGISTERS, on.sm_registers // (-(-threads // 32) * 32 * ctas) // 8 * 8)


def check_cluster(name: str, cluster: tuple[int, int, int], on: Arch, *, non_portable: bool, hint: str) -> None:
    """Raises TargetError for a cluster that no GPU of an architecture launches. non_portable: has the kernel asked for
    a size that not every GPU has? hint: how it does.
    """
    ctas, text = prod(cluster), f"cluster {cluster}"
    if ctas > MOST_CLUSTER or (ctas > 1 and not on.has_clusters):
        most = f"{MOST_CLUSTER} CTAs ({PORTABLE_CLUSTER} where the size is to be portable)"
        allowed = most if on.has_clusters else "sm_90 and later"
        raise TargetError(f"{name}: no {on} launches clusters of {ctas} CTAs", given=text, allowed=allowed)
    if ctas > PORTABLE_CLUSTER and not non_portable:
        raise TargetError(
            f"{name}: clusters of {ctas} CTAs are launched where the kernel asks for a size that is not portable",
            given=text,
            allowed=f"{PORTABLE_CLUSTER} CTAs",
            hint=hint,
        )
