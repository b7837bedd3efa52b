"""Arguments that a kernel of the same text makes, as host code would: structures with tensor maps, of any layout.

A library's kernel takes a structure that its own code makes of plain arguments (``to_underlying_arguments``). That code
runs on the simulator, by one thread, and writes each argument through a pointer. An address of an array in what it has
written stands for that array again, so that the other kernel gets it at an address of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import ArgumentError, described
from tilewright.load.arguments import WordStructure
from tilewright.load.module import LoadedKernel
from tilewright.ptx.names import nbytes, number_dtype
from tilewright.ptx.tree import Variable

WORD = 8  # bytes


def arguments_by(kernel: LoadedKernel, maker: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments of a kernel that another one makes. args, named: the maker's, behind those for what it writes."""
    if not isinstance(maker, LoadedKernel):
        raise ArgumentError("arguments are made by a kernel of the same text", given=described(maker),
                            allowed='module["arguments"]')  # fmt: skip
    params = kernel.entry.params
    rooms = [np.zeros(-(-nbytes(param) // WORD) * WORD, np.uint8) for param in params]
    values = maker.ordered((*rooms, *args), named, ())
    starts = maker.run_by_one_thread(values)
    arrays = {name: (start, array) for name, (start, array) in starts.items() if not any(array is r for r in rooms)}
    return [_argument(param, room, arrays) for param, room in zip(params, rooms, strict=True)]


def _argument(param: Variable, room: NDArray[np.uint8], arrays: Mapping[str, tuple[int, Any]]) -> Any:
    """What was written for a parameter: a structure, a number, or the array that its address is of."""
    if nbytes(param) % WORD and param.extents:  # too short for an address at its end, so that there is none at all
        return room[: nbytes(param)].tobytes()
    words = WordStructure(_words(room.view(np.uint64), arrays))
    if param.extents:
        return words
    (value,) = words.values()
    return room.view(number_dtype(param.type).numpy)[0] if isinstance(value, np.uint64) else value


def _words(room: NDArray[np.uint64], arrays: Mapping[str, tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    taken = dict[str, int]()
    for place, word in enumerate(room):
        for name, (start, array) in arrays.items():
            if 0 <= (offset := int(word) - start) < max(1, array.nbytes):
                taken[name] = number = taken.get(name, 0) + 1
                yield name if number == 1 else f"{name} ({number})", _from(array, offset)
                break
        else:
            yield f"byte {WORD * place}", word


def _from(array: Any, offset: int) -> Any:
    """The array from a byte on."""
    return array.reshape(-1).view(np.uint8)[offset:] if offset else array
