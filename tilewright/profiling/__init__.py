"""Lower bounds of a kernel's time, and an estimate of it, without a GPU.

In the order in which to read: bounds (with the table of GPUs); acts (what instructions cost; a recording as what is
played), play (on one SM, with its figures), estimate (the whole grid).
"""

from tilewright.profiling.bounds import GPUS, Gpu, Occupancy, Profile, gpu, profile, profile_loaded
from tilewright.profiling.estimate import Estimate, estimate, estimate_loaded

__all__ = [
    "GPUS", "Estimate", "Gpu", "Occupancy", "Profile", "estimate", "estimate_loaded", "gpu", "profile",
    "profile_loaded",
]  # fmt: skip
