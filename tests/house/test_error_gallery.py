"""The gallery of errors: each class as a user meets it, with its whole text in tests/golden/errors/.

To add one: a function that causes the error through the public code, under a name that becomes the golden file's.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tile.kernels import misaligned_fragment
from tilewright import errors
from tilewright.cuda.nvrtc import assemble
from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError
from tilewright.isa.fragments import mma_fragment
from tilewright.layout import S, TileLayout, laneid
from tilewright.tile import resolve

GALLERY: dict[str, tuple[type[TilewrightError], Callable[[], object]]] = {
    "cuda_text_refused": (errors.ToolError, lambda: assemble("__global__ void k() { undeclared = 1; }", "sm_90a")),
    "forced_variant_declines": (errors.DispatchError, lambda: resolve(misaligned_fragment(), "sm_90a")),
    "pack_cut": (errors.LayoutError, lambda: TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]).pack(4)),
    "unknown_architecture": (errors.TargetError, lambda: assemble("", "sm_90b")),
    "unknown_dtype": (errors.KernelError, lambda: dtype("flaot16")),
    "unknown_fragment": (errors.InstructionError, lambda: mma_fragment("m16n8", "A", "float16")),
}

# Nothing in the project raises these yet. A class leaves this set with its first case, and never comes back.
NOT_RAISED_YET: set[type[TilewrightError]] = {
    errors.ArgumentError,
    errors.SimulationError,
}


@pytest.mark.parametrize("name", GALLERY)
def test_the_whole_text_of_an_error(name: str, golden: Callable[[str, str], None]) -> None:
    kind, cause = GALLERY[name]

    with pytest.raises(kind) as raised:  # the golden file matches the whole text
        cause()

    golden(f"errors/{name}.txt", f"{raised.value}\n")


def test_every_error_class_has_a_case() -> None:
    classes = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TilewrightError)}

    shown = {kind for kind, _ in GALLERY.values()}

    assert shown | NOT_RAISED_YET == classes - {TilewrightError}
    assert shown & NOT_RAISED_YET == set()
