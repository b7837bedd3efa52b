"""Apache TVM's TIRx: from Python source to CUDA text."""

from __future__ import annotations

import json

from benchmarks.measure import median_ms

NAMES = ("TIRx, parse and compile", "TIRx, compile only")


def main() -> dict[str, float | None]:
    try:
        import tvm
    except ImportError:
        return dict.fromkeys(NAMES)
    from benchmarks.peers.tirx_kernel import build

    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})

    def text(kernel):
        executable = tvm.compile(tvm.IRModule({"main": kernel}), target=target, tir_pipeline="tirx")
        return executable.mod.imports[0].inspect_source()

    parsed = build()
    assert "ldmatrix.sync.aligned.m8n8.x2.shared.b16" in text(parsed)
    calls = (lambda: text(build()), lambda: text(parsed))
    return {name: median_ms(call, repeats=15) for name, call in zip(NAMES, calls, strict=True)}


if __name__ == "__main__":
    print(json.dumps(main()))
