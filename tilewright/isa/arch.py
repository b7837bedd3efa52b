"""Architectures, what an instruction asks of one, and how many CTAs one has room for at once.

Source: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, ".target" (suffix ``a``: features of this
architecture only; ``f``: features of its family).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from tilewright.errors import TargetError, choices, described

__all__ = [
    "ARCHS", "BARRIERS", "GPU_ARCHS", "MOST_CLUSTER", "MOST_REGISTERS", "PORTABLE_CLUSTER", "STATIC_SHARED_BYTES",
    "Arch", "Requirement", "arch", "check_cluster", "clusters_on", "ctas_of_an_sm", "default_arch", "gpu_named",
    "most_registers", "nearest", "not_run", "only", "resident_ctas", "runs_on", "since", "suffixed",
]  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """An architecture: number 90 and suffix "a" for sm_90a. shared_bytes: the most a CTA can have.

    sms: of its largest GPU. sm_threads, sm_ctas: the most that an SM runs at once, which share its sm_shared_bytes.
    """

    number: int
    suffix: str
    shared_bytes: int = 101376
    sms: int = 188
    sm_threads: int = 1536
    sm_ctas: int = 24
    sm_shared_bytes: int = 100 << 10
    sm_registers: int = 65536

    @property
    def has_clusters(self) -> bool:
        """Do its launches have clusters of CTAs?"""
        return self.number >= 90

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


ARCHS = {
    str(row): row
    for row in (
        Arch(75, "", 65536, 72, 1024, 16, 64 << 10),
        Arch(80, "", 166912, 108, 2048, 32, 164 << 10),
        Arch(86, "", 101376, 84, 1536, 16),
        Arch(87, "", 166912, 16, 1536, 16, 164 << 10),
        Arch(88, "", 101376, 16, 1536, 16),
        Arch(89, "", 101376, 142),
        Arch(90, "", 232448, 132, 2048, 32, 228 << 10),
        Arch(90, "a", 232448, 132, 2048, 32, 228 << 10),
        Arch(100, "", 232448, 148, 2048, 32, 228 << 10),
        Arch(100, "a", 232448, 148, 2048, 32, 228 << 10),
        Arch(100, "f", 232448, 148, 2048, 32, 228 << 10),
        Arch(103, "", 232448, 160, 2048, 32, 228 << 10),
        Arch(103, "a", 232448, 160, 2048, 32, 228 << 10),
        Arch(103, "f", 232448, 160, 2048, 32, 228 << 10),
        Arch(110, "", 232448, 20, 1536, 24, 228 << 10),
        Arch(110, "a", 232448, 20, 1536, 24, 228 << 10),
        Arch(110, "f", 232448, 20, 1536, 24, 228 << 10),
        Arch(120, ""),
        Arch(120, "a"),
        Arch(120, "f"),
        Arch(121, "", sms=48),
        Arch(121, "a", sms=48),
        Arch(121, "f", sms=48),
    )
}


GPU_ARCHS = {
    "T4": "sm_75",
    "A100": "sm_80",
    "A10": "sm_86",
    "RTX 3090": "sm_86",
    "L4": "sm_89",
    "L40S": "sm_89",
    "RTX 4090": "sm_89",
    "H100": "sm_90a",
    "H200": "sm_90a",
    "B200": "sm_100a",
    "RTX 5090": "sm_120a",
}
"""The architecture of GPUs that people call by their names."""


def gpu_named(name: str) -> str | None:
    """The name in `GPU_ARCHS` that is meant: in any case, without spaces, with or without what stands before it.

    >>> gpu_named("h100"), gpu_named("NVIDIA GeForce RTX4090"), gpu_named("sm_90")
    ('H100', 'RTX 4090', None)
    """
    asked = _folded(name)
    names = [name for name in GPU_ARCHS if asked.endswith(_folded(name)) or asked == _folded(name).removeprefix("rtx")]
    return max(names, key=len, default=None)


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


@dataclass(frozen=True, slots=True)
class Requirement:
    """Where a form exists: every architecture from ``first`` on, or only those of ``names``."""

    first: str
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.first, *self.names):
            arch(name)

    def admits(self, target: Arch) -> bool:
        """True where ``target`` has the form."""
        if self.names:
            return str(target) in self.names
        return target.number >= ARCHS[self.first].number

    def archs(self) -> tuple[Arch, ...]:
        """All architectures of the table that have the form, the first one first."""
        return _having(self)

    def __str__(self) -> str:
        return ", ".join(self.names) if self.names else f"{self.first} and later"


@cache
def _having(requirement: Requirement) -> tuple[Arch, ...]:
    return tuple(row for row in ARCHS.values() if requirement.admits(row))


def since(first: str) -> Requirement:
    """Every architecture from ``first`` on."""
    return Requirement(first)


def only(*names: str) -> Requirement:
    """Just these: features that need the ``a`` or ``f`` suffix."""
    return Requirement(names[0], names)


def suffixed(*numbers: int) -> Requirement:
    """These architectures, each with the suffix ``a`` or ``f``."""
    return only(*(f"sm_{number}{suffix}" for number in numbers for suffix in "af"))


def arch(name: str) -> Arch:
    """The architecture called ``name`` ("sm_90a"). Raises TargetError with the known ones."""
    if isinstance(name, str) and name in ARCHS:
        return ARCHS[name]
    if not isinstance(name, str):
        raise TargetError("a target is a string", given=described(name), allowed=choices(f"sm_{name}", ARCHS))
    gpu = gpu_named(name)
    hint = None if gpu is None else f'target="{GPU_ARCHS[gpu]}", which is the architecture of {gpu}'
    raise TargetError(
        f"unknown architecture {name!r}",
        given=name,
        allowed=", ".join(ARCHS) if gpu else choices(name, ARCHS),
        hint=hint,
    )


def nearest(name: str) -> Arch:
    """The architecture of a ``.target``; for one that is not in the table the last one before it, or the oldest.

    >>> str(nearest("sm_61")), str(nearest("sm_90a"))
    ('sm_75', 'sm_90a')
    """
    if name in ARCHS:
        return ARCHS[name]
    digits = "".join(filter(str.isdigit, name))
    before = [row for row in ARCHS.values() if digits and row.number <= int(digits) and not row.suffix]
    return before[-1] if before else next(iter(ARCHS.values()))


def default_arch(requirements: tuple[Requirement, ...]) -> Arch:
    """sm_90a where it meets every requirement, else the first architecture that does.

    Raises TargetError where none does.
    """
    for row in (ARCHS["sm_90a"], *ARCHS.values()):
        if all(requirement.admits(row) for requirement in requirements):
            return row
    raise TargetError(
        "no architecture has every instruction of the kernel", given="; ".join(sorted(set(map(str, requirements))))
    )


def runs_on(target: Arch, capability: int, *, as_ptx: bool = False) -> bool:
    """Does code for ``target`` run on a device of that compute capability (90 for 9.0): machine code, or what the
    driver makes of PTX?

    Plain machine code runs on later devices of its major version, plain PTX on all later ones, code with "f" on those
    of its family, with "a" on its own.

    >>> runs_on(ARCHS["sm_80"], 86), runs_on(ARCHS["sm_90a"], 100), runs_on(ARCHS["sm_80"], 90, as_ptx=True)
    (True, False, True)
    """
    if target.suffix == "a":
        return target.number == capability
    least = 0 if as_ptx and not target.suffix else capability // 10 * 10
    return least <= target.number <= capability


def not_run(name: str, target: Arch, capability: int, device: object) -> TargetError:
    """A kernel is compiled for what a device does not run."""
    fitting = [str(row) for row in ARCHS.values() if runs_on(row, capability)]
    return TargetError(f"{name} is compiled for {target}, which {device} does not run", given=str(target),
                       allowed=", ".join(fitting) or "no architecture that tilewright knows",
                       hint=f"tw.compile(kernel, target={fitting[-1]!r})" if fitting else None)  # fmt: skip


# How many CTAs a GPU has room for at once, and which launches none takes.
#
# Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Thread Block Clusters".

PORTABLE_CLUSTER, MOST_CLUSTER = 8, 16  # CTAs; more than 8 only for a kernel that allows sizes that are not portable
MOST_REGISTERS = 255  # of a thread
BARRIERS = 16  # of a CTA, by numbers
STATIC_SHARED_BYTES = 48 << 10  # of a CTA, that a kernel has without asking for more at its launch
RESERVED = 1024  # bytes of shared memory that the driver keeps for itself in each CTA
# Clusters of so many CTAs that an H200 runs at once, a CTA on each of its 132 SMs: measured.
H200_SMS, H200_CLUSTERS = 132, {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 16: 7}


def clusters_on(sms: int, ctas: int) -> float:
    """The clusters of so many CTAs that a GPU of so many SMs runs at once, a CTA on each, if it is built as an H200."""
    return sms * H200_CLUSTERS.get(ctas, H200_SMS / ctas) / H200_SMS


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
