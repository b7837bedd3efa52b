"""How the elements of arrays are distributed to CTAs, whichever rows they are in: for elementwise kernels."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import dtype
from tilewright.kernels.arrays import Array, info_of, matrix
from tilewright.kernels.rows import Rows, common_vector

__all__ = ["blocks"]

BLOCK_THREADS = {1 << 17: 128, 1 << 63: 256}  # of a CTA of an elementwise kernel, by the bytes of an array at most


def blocks(*arrays: Array) -> tuple[Rows, list[Array]]:
    """For elementwise kernels: the distribution of parts of rows, and the arrays as matrices. Arrays without gaps count
    as one row, or as rows of one part.
    """
    views = [matrix(array) for array in arrays]
    infos = [info_of(view) for view in views]
    size, contiguous = infos[0].size, all(info.is_contiguous for info in infos)
    nbytes = size * dtype(infos[0].dtype).bits // 8
    threads = next(threads for most, threads in BLOCK_THREADS.items() if nbytes <= most)
    found = Rows(threads, 1, common_vector(views), whole=False, long=True)
    if contiguous and size % found.part == 0:
        views = [view.reshape(-1, found.part) for view in views]
        return replace(found, whole=True, long=False, exact=True, flat=True), views
    if contiguous and size < 1 << 31:
        views, found = [view.reshape(1, -1) for view in views], replace(found, flat=True)
    columns = views[0].shape[-1]
    return replace(found, whole=columns % found.vector == 0, exact=columns % found.part == 0), views
