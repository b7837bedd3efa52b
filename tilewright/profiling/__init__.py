"""Lower bounds of a kernel's time, without a GPU. In the order in which to read: gpus (a table of figures), bounds."""

from tilewright.profiling.bounds import Occupancy, Profile, profile
from tilewright.profiling.gpus import GPUS, Gpu, gpu

__all__ = ["GPUS", "Gpu", "Occupancy", "Profile", "gpu", "profile"]
