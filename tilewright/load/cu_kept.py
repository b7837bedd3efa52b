"""What was read out of texts, kept on disk: the second check of a file reads no syntax of its headers again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from tilewright.cuda.cache import Cache, sources_version

Found = TypeVar("Found")  # plain JSON


def kept(read: Callable[[tuple[str, ...]], dict[str, Found]]) -> Callable[[tuple[str, ...]], dict[str, Found]]:
    """A reading of texts that is done once for the same texts, by this room as it is: in this process, or in any."""

    @lru_cache(maxsize=256)
    @wraps(read)
    def reading(texts: tuple[str, ...]) -> dict[str, Found]:
        store, version = Cache.of_environment(), sources_version(Path(__file__).parent)
        key = sha256(json.dumps([read.__module__, read.__qualname__, texts, version]).encode()).hexdigest()
        try:
            note: Any = json.loads(store.note(key) or "")
        except ValueError:  # none, or one that is not whole
            note = None
        if isinstance(note, dict):
            return note
        facts = read(texts)
        store.keep_note(key, json.dumps(facts))
        return facts

    return reading
