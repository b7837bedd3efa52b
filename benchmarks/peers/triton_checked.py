"""Ten Triton kernels under every check: their results are compared with NumPy's float64, and they get no warning."""

import json

from benchmarks.measure import median_ms

TARGETS = ("sm_80", "sm_90a")


def main():
    try:
        import triton  # noqa: F401

        from benchmarks.peers.triton_ten import CASES, product, product_tma
    except ImportError:
        return {}
    import tilewright as tw

    def checked(make, target):
        def call():
            case = make()
            run = tw.check_triton(case.kernel, case.grid, *case.args, target=target, **case.options)
            assert case.right()
            assert run.warnings == []

        return call

    times = {f"{name}, {target}": median_ms(checked(make, target), repeats=1)
             for name, make in CASES.items() for target in TARGETS}  # fmt: skip
    large = {
        "512^3 product, sm_90a": lambda: product(512, 128, 128, 32),
        "512^3 product by TMA, sm_90a": lambda: product_tma((512, 512, 512), 128, 128, 64),
    }
    return times | {name: median_ms(checked(make, "sm_90a"), repeats=1) for name, make in large.items()}


if __name__ == "__main__":
    print(json.dumps(main()))
