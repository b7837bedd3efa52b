"""Ten Triton kernels on the simulator with every check, from Triton's own PTX for sm_80 and sm_90a.

Each call compiles by Triton (whose cache has it) and runs; results are compared with NumPy's, warnings are none.
"""

from __future__ import annotations

from benchmarks.measure import Table, Target, Time, peer_times

LARGE = ("512^3 product, sm_90a", "512^3 product by TMA, sm_90a")
MOST_MS = 2000.0


def run() -> Table:
    times = {**dict.fromkeys(LARGE), **peer_times("triton_checked")}
    targets = tuple(Target(name, MOST_MS) for name in LARGE)
    return Table(__doc__.splitlines()[0].rstrip("."), tuple(Time(*each) for each in times.items()), (), targets)
