"""PTX text assembled without a GPU, by the linker that comes as a wheel."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tilewright.cuda.nvrtc import sass

__all__ = ["assembled", "has_linker"]


def has_linker() -> bool:
    """Is nvJitLink's wheel installed, which the extra ``test`` names?"""
    places = (find_spec("nvidia") or find_spec("os")).submodule_search_locations or ()  # type: ignore[union-attr]
    return any(next(Path(place).glob("cu*/**/*nvJitLink*"), None) for place in places)


def assembled(text: str, arch: str) -> str:
    """The machine code of a PTX text, one instruction a line."""
    from cuda.bindings import nvjitlink

    data = text.encode() + b"\0"
    handle = nvjitlink.create(1, [f"-arch={arch}"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "text.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    finally:
        nvjitlink.destroy(handle)
    return sass(bytes(cubin))
