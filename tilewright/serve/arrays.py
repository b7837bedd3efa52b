"""Results of a submission as bytes: arrays, tensors and numbers in tuples, lists and dictionaries, read by no pickle.

What a stranger's process hands on is read where results are judged; so the format holds numbers and names alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError, described

PLAIN = (bool, int, float, str, type(None))


def packed(value: Any) -> bytes:
    """The value as bytes. Raises ArgumentError for what is no array, tensor or number."""
    arrays: list[Any] = []
    text = json.dumps(_shape(value, arrays)).encode()
    into = io.BytesIO()
    np.savez(into, text=np.frombuffer(text, np.uint8), **{f"a{n}": array for n, array in enumerate(arrays)})
    return into.getvalue()


def unpacked(data: bytes) -> Any:
    """The value. Inverse of `packed`; tensors are tensors of the host."""
    held = np.load(io.BytesIO(data), allow_pickle=False)
    return _value(json.loads(held["text"].tobytes()), held)


def _shape(value: Any, arrays: list[Any]) -> dict[str, Any]:
    if isinstance(value, PLAIN):
        return {"plain": value}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_shape(part, arrays) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[str(name), _shape(part, arrays)] for name, part in value.items()]}
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        arrays.append(_octets_of(tensor))
        return {"torch": len(arrays) - 1, "dtype": str(tensor.dtype).partition(".")[2], "shape": list(tensor.shape)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.names is None and value.dtype != np.dtype(object):
        arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        return {"numpy": len(arrays) - 1, "dtype": value.dtype.name, "shape": list(value.shape)}
    raise ArgumentError("a result of custom_kernel", given=described(value), allowed="arrays, tensors, numbers, tuples")


def _octets_of(tensor: Any) -> Any:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy()


def _value(shape: Any, held: Any) -> Any:
    ((kind, what), *_) = shape.items()
    if kind == "plain":
        return what
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(_value(part, held) for part in what)
    if kind == "dict":
        return {name: _value(part, held) for name, part in what}
    octets = held[f"a{int(what)}"]
    if kind == "numpy":
        return octets.view(np.dtype(shape["dtype"])).reshape(shape["shape"])
    import torch

    return torch.from_numpy(octets.copy()).view(getattr(torch, shape["dtype"])).reshape(shape["shape"])
