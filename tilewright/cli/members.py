"""The members of a structure that a kernel takes, which host code does not say."""

from __future__ import annotations

from dataclasses import replace

from tilewright.load.cu_host import Host
from tilewright.load.cu_numbers import is_name
from tilewright.load.declared import Parameter

INTEGERS = ("int32", "uint32", "int64", "uint64")


def members_lacking(param: Parameter, word: str, host: Host | None) -> set[str]:
    """The names that decide the numbers which host code puts into a structure, where those are not known."""
    if host is None:
        return set()
    numbers, words = replace(host.numbers, lacks=set()), host.members(word)
    for member in param.fields:
        if member.kind in INTEGERS and member.name in words:
            numbers.of(words[member.name])
    return set(filter(is_name, numbers.lacks))


def members_unsaid(param: Parameter, word: str, host: Host | None) -> set[str]:
    """The whole numbers of a structure of which host code says nothing, as another function of it hands them on."""
    if host is None or not word.isidentifier() or host.members(word):
        return set()
    return {f"{word}.{member.name}" for member in param.fields if member.kind in INTEGERS and not member.count}
