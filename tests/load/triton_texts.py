"""PTX that Triton made of kernels of `benchmarks.peers.triton_ten`, kept for tests that run without Triton.

python -m tests.load.triton_texts      # makes them again; needs Triton and torch
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

TEXTS = Path(__file__).parent / "triton"
KEPT = (("matmul", "sm_80"), ("matmul", "sm_90a"), ("matmul TMA", "sm_90a"), ("attention", "sm_90a"),
        ("histogram", "sm_80"), ("layer norm", "sm_90a"))  # fmt: skip


def path_of(name: str, target: str) -> Path:
    return TEXTS / f"{name.replace(' ', '_')}.{target}.ptx.gz"


def text_of(name: str, target: str) -> tuple[str, int]:
    """The PTX of a kernel, and the bytes of dynamic shared memory that a launch of it needs."""
    text = gzip.decompress(path_of(name, target).read_bytes()).decode()
    return text, int(re.match(r"// shared memory: (\d+) bytes", text)[1])  # type: ignore[index]  # `main` wrote it


def main() -> None:
    import tilewright.load.triton as ours
    from benchmarks.peers.triton_ten import CASES

    TEXTS.mkdir(exist_ok=True)
    for name, target in KEPT:
        case = CASES[name]()
        loaded = ours.load_triton(case.kernel, *case.args, target=target, **case.options)
        text = re.sub(r"\t\.section\t\.debug_.*", "", loaded.ptx, flags=re.DOTALL)
        text = re.sub(r'(\.file\t\d+ )".*/(\w+\.py)"', r'\1"\2"', text)
        text = f"// shared memory: {loaded.metadata.shared} bytes\n{text}"
        path_of(name, target).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
