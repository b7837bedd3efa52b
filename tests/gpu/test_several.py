"""Kernels of several GPUs on one: each rank on a stream of its own, the memory of its peers that of the same GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright.kernels.shots import MOST_CTAS, PACKETS, one_shot, two_shot, two_shot_packets

pytestmark = pytest.mark.gpu

RANKS, WORDS, SHARE = 3, 4096, 1024
ROOMS: dict[str, tuple[tuple[tuple[int, ...], str], ...]] = {
    "one_shot": (((2, RANKS, MOST_CTAS, PACKETS), "uint64"),),
    "two_shot": (
        ((RANKS, MOST_CTAS, SHARE), "uint32"), ((RANKS, MOST_CTAS, SHARE), "uint32"), ((2, MOST_CTAS, RANKS), "uint32"),
    ),
    "two_shot_packets": (((2, RANKS, MOST_CTAS, PACKETS), "uint64"),) * 2,
}  # fmt: skip


def made(name: str) -> tw.Executable:
    if name == "two_shot":
        return two_shot(RANKS, "float32", 256, SHARE)
    return one_shot(RANKS, "float32") if name == "one_shot" else two_shot_packets(RANKS, "float32")


def zeros(torch: Any, shape: tuple[int, ...], kind: str) -> list[Any]:
    """Of each rank."""
    filled = {"uint32": torch.int32, "uint64": torch.int64}[kind]
    return [torch.zeros(shape, dtype=filled, device="cuda").view(getattr(torch, kind)) for _ in range(RANKS)]


@pytest.mark.parametrize("name", ROOMS)
def test_an_all_reduce_of_ranks_on_one_gpu_has_the_bits_of_the_sum(torch: Any, name: str) -> None:
    exe, streams = made(name), [torch.cuda.Stream() for _ in range(RANKS)]
    rooms = [tw.Symmetric.on_one_gpu(zeros(torch, *shape)) for shape in ROOMS[name]]
    calls = zeros(torch, (MOST_CTAS,), "uint32")
    assert exe.assembly
    for _ in range(3):
        x = [torch.randn(WORDS, device="cuda") for _ in range(RANKS)]
        y = [torch.empty_like(part) for part in x]
        torch.cuda.synchronize()
        for rank, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                words = [parts[rank].view(torch.uint32) for parts in (x, y)]
                exe(*words, calls[rank], *(room[rank] for room in rooms), 4)
        torch.cuda.synchronize()
        total = torch.zeros(WORDS, device="cuda")
        for part in x:
            total = total + part
        assert all(bool((part == total).all()) for part in y)
