"""Names of C++ from their symbols, as far as names of functions, of variables and of their templates' arguments go.

Source: "Itanium C++ ABI", chapter "External Names (a.k.a. Mangling)"; NVRTC's names of scopes of one file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

MANGLED = r"(?<![\w$])_Z[\w$]+"
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "z": "...",
    "Dn": "std::nullptr_t", "Dh": "__half", "DF16_": "_Float16", "DF16b": "__bf16", "Di": "char32_t", "Ds": "char16_t",
    "Du": "char8_t",
}  # fmt: skip
_OF_NUMBERS = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}  # what follows a literal
_AROUND = {"P": "{}*", "R": "{}&", "O": "{}&&", "K": "{} const", "V": "{} volatile", "r": "{}", "Dp": "{}..."}
_STANDARD = {"St": "std", "Sa": "std::allocator", "Ss": "std::string", "Sb": "std::basic_string"}
_OPERATORS = {"cl": "()", "ix": "[]", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "aS": "=", "pL": "+=",
              "mI": "-=", "mL": "*=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "pt": "->",
              "ls": "<<", "rs": ">>", "an": "&", "or": "|", "eo": "^", "nt": "!", "co": "~", "pp": "++", "mm": "--",
              "ng": "-", "de": "*", "nw": " new", "dl": " delete"}  # fmt: skip
_OF_ONE_FILE = re.compile(r"_GLOBAL__N_|_INTERNAL_")  # scopes that no text names


def plain_name(symbol: str) -> str:
    """The name of a function or a variable in its C++ source, from its symbol; any other symbol as it is.

    >>> plain_name("_ZN4mine5scaleIfLi128EEEvPT_S1_"), plain_name("_ZZ6matmulILi64EEvPKfS1_PfiE2As"), plain_name("tile")
    ('scale', 'As', 'tile')
    """
    return (_parts(symbol) or ((symbol, ""),))[-1][0]


def qualified_name(symbol: str) -> str:
    """The name with its namespaces and the arguments of templates.

    >>> qualified_name("_ZN4mine5scaleIfLi128EEEvPT_S1_"), qualified_name("_ZN3BufIiE5tableE"), qualified_name("tile")
    ('mine::scale<float, 128>', 'Buf<int>::table', 'tile')
    """
    return _joined(_parts(symbol)) or symbol


@lru_cache(maxsize=1 << 12)
def signature(symbol: str) -> str:
    """The name with the types of what a plain function takes; of all else its name alone.

    >>> signature("_Z4copyPKdPdj"), signature("_Z4stopv"), signature("_Z1kIiEvv")
    ('copy(double const*, double*, unsigned int)', 'stop()', 'k<int>')
    """
    name = qualified_name(symbol)
    if not symbol.startswith("_Z") or name.endswith(">"):
        return name
    reader, kinds = _Reader(symbol[2:]), list[str]()
    try:
        reader.name()
        while reader.at < len(reader.text):
            kinds.append(_joined(reader.type()))
    except (_Unreadable, RecursionError):
        return name
    return f"{name}({', '.join(kinds if kinds != ['void'] else ())})" if kinds else name


def shown_names(symbols: Iterable[str]) -> dict[str, str]:
    """The name by which users see each symbol: its plain one, unless several have that.

    >>> shown_names(["_Z1kIiEvv", "_Z1kIfEvv", "_ZN1a4tileE", "_Z1cPi", "_Z1cPd"])
    {'_Z1kIiEvv': 'k<int>', '_Z1kIfEvv': 'k<float>', '_ZN1a4tileE': 'tile', '_Z1cPi': 'c(int*)', '_Z1cPd': 'c(double*)'}
    """
    names = {symbol: (plain_name(symbol), qualified_name(symbol), signature(symbol), symbol) for symbol in symbols}
    counted = Counter(name for parts in names.values() for name in set(parts))
    return {symbol: next((name for name in parts if counted[name] == 1), symbol) for symbol, parts in names.items()}


class _Unreadable(Exception):
    """The symbol has what is not read here: expressions that depend on arguments, for one."""


_Parts = tuple[tuple[str, str], ...]  # each scope of a name, and the arguments of a template


def _joined(parts: _Parts) -> str:
    return "::".join(f"{name}{arguments}" for name, arguments in parts if not _OF_ONE_FILE.match(name))


@lru_cache(maxsize=1 << 12)
def _parts(symbol: str) -> _Parts:
    """The parts of a symbol's name; none of what is no C++ symbol."""
    if not symbol.startswith("_Z"):
        return ()
    reader = _Reader(symbol[2:])
    try:
        return reader.name()
    except (_Unreadable, RecursionError):
        return next(((*parts[:-1], (parts[-1][0], "<...>")) for parts in reader.heads), ())


class _Reader:
    """Reads a symbol from left to right. seen: what substitutions (``S_``, ``S0_``) stand for. heads: what arguments of
    templates have followed.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.seen: list[_Parts] = []
        self.heads: list[_Parts] = []

    def take(self, pattern: str) -> str:
        """What matches here, and is read; "" for nothing."""
        match = re.compile(pattern).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[0] if match else ""

    def until_end(self, read: Callable[[], object]) -> list[object]:
        """What ``read`` reads, as often as it takes to the letter E."""
        parts = []
        while not self.take("E"):
            parts.append(read())
        return parts

    def name(self) -> _Parts:
        if self.take("N"):
            self.take("[rVK]*[RO]?")
            return self._nested()
        if self.take("Z"):
            around = self.name()
            self.until_end(self.type)
            inner = () if self.take("s") else self.name()
            self.take(r"_\d+|__\d+_")
            return (*around, *inner)
        parts = self._substitution() if self.text.startswith("S", self.at) else ()
        parts = (*parts, (self._word(), "")) if not parts or parts == (("std", ""),) else parts
        if self.text.startswith("I", self.at):
            self.seen.append(parts)
            parts = self._with_arguments(parts)
        return parts

    def _nested(self) -> _Parts:
        parts: _Parts = ()
        while not self.take("E"):
            if self.text.startswith("I", self.at):
                parts = self._with_arguments(parts)
            elif not parts and self.text.startswith(("S", "T"), self.at):
                parts = self._substitution()
                continue
            else:
                parts = (*parts, (self._word(), ""))
            self.seen.append(parts)
        self.seen.pop()  # the whole of it is no prefix: as a type it is added by `type`
        return parts

    def _with_arguments(self, parts: _Parts) -> _Parts:
        if not parts:
            raise _Unreadable
        self.heads.append(parts)
        return (*parts[:-1], (parts[-1][0], self._arguments()))

    def _word(self) -> str:
        """One name without scopes."""
        self.take("L")
        if number := self.take(r"\d+"):
            start, self.at = self.at, self.at + int(number)
            if self.at > len(self.text):
                raise _Unreadable
            return self.text[start : self.at]
        if self.take(r"[CD][0-5]"):
            return "{constructor}"
        if self.take("Ul"):
            self.until_end(self.type)
            return "{lambda}" + self.take(r"\d*_")[:0]
        if self.take("Ut"):
            return "{unnamed}" + self.take(r"\d*_")[:0]
        if self.take("cv"):
            return f"operator {_joined(self.type())}"
        if operator := self.take("|".join(_OPERATORS)):
            return f"operator{_OPERATORS[operator]}"
        raise _Unreadable

    def _substitution(self) -> _Parts:
        if standard := self.take("S[tasb]"):
            return ((_STANDARD[standard], ""),)
        if self.take("T"):
            return ((f"T{self.take('[0-9A-Z]*_')[:-1]}", ""),)
        number = self.take("S[0-9A-Z]*_")[1:-1]
        place = int(number, 36) + 1 if number else 0
        if place >= len(self.seen):
            raise _Unreadable
        return self.seen[place]

    def _arguments(self) -> str:
        self.at += 1
        return f"<{', '.join(filter(None, map(str, self.until_end(self._argument))))}>"

    def _argument(self) -> str:
        if self.take("J"):
            return ", ".join(map(str, self.until_end(self._argument)))
        if not self.take("L"):
            return _joined(self.type())
        if self.take("_?Z"):
            parts = self.name()
            self.until_end(self.type)
            return _joined(parts)
        letter = self.text[self.at : self.at + 1]
        kind = _joined(self.type())
        value = self.take(r"n?\w*?(?=E)").replace("n", "-", 1) if letter not in "fd" else self.take("[0-9a-f]*")
        self.take("E")
        if letter == "b":
            return {"0": "false", "1": "true"}.get(value, value)
        return f"{value}{_OF_NUMBERS[letter]}" if letter in _OF_NUMBERS else f"({kind}){value}"

    def type(self) -> _Parts:
        parts: _Parts
        if around := self.take("Dp|[PROKVr]"):
            parts = ((_AROUND[around].format(_joined(self.type())), ""),)
        elif builtin := self.take("D(?:F16[_b]|[nhisu])|[a-z]"):
            return ((_BUILTIN.get(builtin) or self._word(), ""),)  # u: a vendor's own
        elif self.take("A"):
            extent = self.take(r"\d*_")[:-1]
            parts = ((f"{_joined(self.type())}[{extent}]", ""),)
        elif self.take("F"):
            result, *arguments = (_joined(part) for part in self.until_end(self.type))  # type: ignore[arg-type]  # parts
            parts = ((f"{result}({', '.join(arguments)})", ""),)
        elif self.text.startswith(("S", "T"), self.at) and not self.text.startswith("St", self.at):
            parts = self._substitution()
            if parts[0][0][:1] != "T" and not self.text.startswith("I", self.at):
                return parts
            if self.text.startswith("I", self.at):
                parts = self._with_arguments(parts)
        else:
            parts = self.name()
        self.seen.append(parts)
        return parts
