"""What host code has put into its arrays where it launches a kernel: loops, copies and fills are read, and so are the
functions that are called for it.

Nothing of the text is run. Its statements are read in order, up to the launch, and of loops around that one turn, with
a limit on turns; numbers are Python's, cut to the type of the variable that takes them. What cannot be read, as a file,
an argument of ``main`` or a class of the host, makes the contents of all that it may change unknown.
"""

from __future__ import annotations

import math
import operator
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.load.cu_allocations import Definition, base_of, definitions
from tilewright.load.cu_arrays import (
    UNKNOWN,
    HostArray,
    HostNames,
    Left,
    NotSaid,
    PointerTable,
    TooLong,
    VariablePlace,
    as_type,
    at_place,
    combined,
    divided,
    element_of,
    octets,
    place_of,
    put_at,
    typed,
)
from tilewright.load.cu_functions import FUNCTIONS, LARGEST, METHODS
from tilewright.load.cu_host import Host, members_of, sized, variables_outside
from tilewright.load.cu_numbers import Number, literal
from tilewright.load.cu_tensor_maps import ENUMERATORS, HostMap, encode, encodes
from tilewright.load.cu_tree import bare, below, parameters, tree_of
from tilewright.load.declared import number_name

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_TURNS = 200_000  # of a loop of the host, and of those in it
TURNS_FORGOTTEN = 300  # for which a statement counts that cannot be read, and is looked for in all that is known
_DEPTH = 6  # of functions that call each other
_VECTOR = re.compile(r"(?:std|thrust)\s*::\s*(?:host_|device_|universal_)?vector\s*<([^<>]*)>$")
_OWNER = re.compile(r"(?:std\s*::\s*)?(?:unique_ptr|make_unique)\s*<([^<>]*)\[\]>$")
_SPREAD = re.compile(r"(?:std\s*::\s*)?(uniform_int|uniform_real|normal)_distribution\s*<?([^<>]*)>?$")
_LOOKS = ("printf", "fprintf", "puts", "free", "cudaFree", "srand", "assert", "exit", "fflush", "perror")
_NAMES = ("identifier", "field_expression", "qualified_identifier")
_LISTS = ("initializer_list", "argument_list", "parameter_list")


def contents(host: Host, word: str) -> NDArray[Any] | None:
    """The bytes of an array of the device where host code launches a kernel; None where the text does not say them."""
    array = array_of(host, word)
    if array is None or not array.root.is_known or not array.root.is_set:
        return None
    return array.values.view(np.uint8)


def array_of(host: Host, word: str) -> HostArray | None:
    """The array that an argument of a launch is; None where the text does not say it."""
    reader = _state(host)
    listed = host.node.child_by_field_name("arguments")
    passed = [node for node in listed.named_children if reader.text(node) == word] if listed is not None else []
    with host.numbers.unasked():
        value = reader.maybe(passed[0]) if passed else UNKNOWN
    value = reader.names.get(base_of(word).replace("->", ".")) if value is UNKNOWN else value
    value = value.array if isinstance(value, HostMap) else value
    return value if isinstance(value, HostArray) else None


def map_of(host: Host, word: str) -> HostMap | None:
    """The tensor map that an argument of a launch is; None where the text does not say it."""
    value = _state(host).names.get(word.replace("->", "."))
    return value if isinstance(value, HostMap) else None


def number_of(host: Host, word: str) -> Number | None:
    """What a name or a call of a function comes to where host code launches a kernel, by all that runs before."""
    names = _state(host).names
    if (value := names.get(word)) is None and not word.isidentifier():
        tree = tree_of(f"auto _ = {word};")
        here = replace(host, tree=tree, node=tree.root, around=host.texts, depth=host.depth + 1, is_word=True)
        for call in below(tree.root, *_CALLS):
            value = _Reader(here, names, depth=1).maybe(call)
            break
    return value if isinstance(value, (int, float)) else None


def members_at(host: Host, name: str) -> dict[str, Number]:
    """The numbers among the members of a structure where host code launches a kernel."""
    members = VariablePlace(_state(host).names, name).members
    return {member: value for member, value in members.items() if isinstance(value, (int, float))}


def _state(host: Host) -> _Reader:
    """What has read the host code up to where it launches a kernel, or calls a function that does."""
    if "contents" not in host.__dict__:
        outer = _state(host.call[0]) if host.call is not None and host.depth < _DEPTH else None
        shared: MutableMapping[str, Any] = outer.names.maps[1] if outer is not None else {}
        reader = host.__dict__["contents"] = _Reader(host, HostNames(shared, variables_outside(host.tree)))
        if outer is not None and host.call is not None:
            for name, word in host.call[1].items():
                value = outer.names.get(word, UNKNOWN)
                reader.put(
                    name, value if value is not UNKNOWN else VariablePlace(outer.names, word.lstrip("&*")).members
                )
        if host.function is not None:
            with host.numbers.unasked():
                reader.read_to(host.function.child_by_field_name("body"), host.node)
    state: _Reader = host.__dict__["contents"]
    return state


def _name(node: Node, text: Callable[[Node], str]) -> str:
    return re.sub(r"\s|^this->", "", text(node)).replace("->", ".")


Act = Callable[[], Any]


@dataclass(eq=False)
class _Reader:
    """Reads the statements of one function. names: what they stand for so far; kinds: types of numbers. depth: of
    functions that have led here. idle: what has read functions that it calls, by these and the types of what they take.
    """

    host: Host
    names: HostNames
    depth: int = 0
    turns: int = 0
    loops: int = 0
    kinds: dict[str, np.dtype[Any]] = field(default_factory=dict)
    acts: dict[int, Act] = field(default_factory=dict)
    idle: dict[tuple[Any, ...], list[_Reader]] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def text(self, node: Node | None) -> str:
        return self.host.tree.of(node) if node is not None else ""

    # Statements

    def read_to(self, node: Node | None, place: Node) -> None:
        """Read what runs before a place."""
        if node is None or node.start_byte >= place.start_byte:
            return
        if not node.start_byte <= place.start_byte < node.end_byte:
            self.statement(node)()
        elif node.type in ("compound_statement", "case_statement", "else_clause"):
            for child in node.named_children:
                self.read_to(child, place)
        else:
            parts = [
                (name, node.child_by_field_name(name)) for name in ("initializer", "consequence", "alternative", "body")
            ]
            for name, part in parts:
                if part is not None and (name in ("initializer", "body") or part.end_byte > place.start_byte):
                    self.read_to(part, place)

    def statement(self, node: Node) -> Act:
        """What reads a statement; where something in it is not said, what it may change is unknown."""
        if node.id not in self.acts:
            self.acts[node.id] = self._guarded(node)
        return self.acts[node.id]

    def _guarded(self, node: Node) -> Act:
        make = _STATEMENTS.get(node.type)
        changed = [*self._changed(node)]
        try:
            act = make(self, node) if make is not None else self._nothing
        except NotSaid:
            return lambda: self.forget(changed)

        def read() -> None:
            try:
                act()
            except (NotSaid, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError):
                self.forget(changed)
            except TooLong:
                if self.loops:
                    raise
                self.turns = 0
                self.forget(changed)

        return read

    def _nothing(self) -> None:
        """What has no say."""

    def forget(self, names: Iterable[str]) -> None:
        """Nothing is known of these, and of the members of structures among them."""
        for name in names:
            self.turns += TURNS_FORGOTTEN if self.loops else 0
            keys = self.names.parts(name)
            for key in keys:
                if isinstance(value := self.names[key], HostArray):
                    value.forget()
                elif isinstance(value, PointerTable):
                    value.clear()
                else:
                    self.names[key] = UNKNOWN
            if not keys:
                self.names[name] = UNKNOWN

    def _changed(self, node: Node) -> Iterator[str]:
        """The names that a statement may change; of what a function is passed, arrays and addresses."""
        for change in (node, *below(node, "assignment_expression", "update_expression", "init_declarator")):
            for side in ("left", "argument", "declarator"):
                target = change.child_by_field_name(side) if change.type not in _CALLS else None
                if target is not None and (words := re.match(r"[*&(\s]*(\w+(?:(?:\.|->)\w+)*)", self.text(target))):
                    yield words[1].replace("->", ".")
        yield from self._passed(node)

    def _passed(self, node: Node) -> Iterator[str]:
        """The arrays and addresses that functions are passed, and what ``in >> a[i]`` reads."""
        inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
        if inner.type == "binary_expression" and self.text(inner.child_by_field_name("operator")) == ">>":
            yield from map(self.text, below(inner, "identifier"))
        calls = [node] if node.type in _CALLS else []
        for call in (*calls, *below(node, *_CALLS)):
            called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
            if bare(self.text(called)) in _LOOKS:
                continue
            if called is not None and called.type == "field_expression":
                yield _name(called, self.text).rpartition(".")[0]
            for name in below(listed, "identifier", "field_expression") if listed is not None else ():
                is_address = name.parent is not None and self.text(name.parent)[:1] == "&"
                if is_address or isinstance(
                    self.names.get(_name(name, self.text), UNKNOWN), (HostArray, PointerTable, VariablePlace)
                ):
                    yield _name(name, self.text)
                elif name.type == "identifier":
                    structure = self.text(name)
                    yield from (part for part in self.names.parts(structure) if part != structure)

    def _all(self, node: Node) -> Act:
        acts = [self.statement(child) for child in node.named_children]
        blocks = [child for child in node.named_children if child.type == "declaration"]
        names = [name for child in blocks for name, _ in sized(child, self.host.tree)]

        def read() -> None:
            local = self.names.maps[0]
            hidden = {name: local[name] for name in names if name in local}
            for act in acts:
                act()
            for name in names:  # they end with their block
                local.pop(name, None)
            local.update(hidden)

        return read

    def _alone(self, node: Node) -> Act:
        return self.of(node.named_children[0]) if node.named_children else self._nothing

    def _if(self, node: Node) -> Act:
        condition = self.of(node.child_by_field_name("condition"))
        ways = [self._branch(node.child_by_field_name(side)) for side in ("alternative", "consequence")]
        return lambda: ways[bool(condition())]()

    def _branch(self, node: Node | None) -> Act:
        if node is not None and node.type == "else_clause":
            return self._all(node)
        return self.statement(node) if node is not None else self._nothing

    def _for(self, node: Node) -> Act:
        first, step = node.child_by_field_name("initializer"), node.child_by_field_name("update")
        begin = self._nothing if first is None else self.statement(first) if ";" in self.text(first) else self.of(first)
        condition = node.child_by_field_name("condition")
        goes_on = self.of(condition) if condition is not None else lambda: True
        sign = self.text(condition.child_by_field_name("operator")) if condition is not None else ""
        if condition is not None and sign == "<" and step is not None and step.type == "update_expression":
            begin = self._counted(begin, condition)
        return self._loop(begin, goes_on, node.child_by_field_name("body"), self.of(step) if step is not None else None)

    def _counted(self, begin: Act, condition: Node) -> Act:
        """The begin of a loop with ``i < n``, which says at once where its turns are too many."""
        low, high = (self.of(condition.child_by_field_name(side)) for side in ("left", "right"))

        def read() -> None:
            begin()
            if combined(operator.sub, high(), low()) > MOST_TURNS:
                raise TooLong

        return read

    def _while(self, node: Node) -> Act:
        goes_on, body = self.of(node.child_by_field_name("condition")), node.child_by_field_name("body")
        begin = self._branch(body) if node.type == "do_statement" else self._nothing
        return self._loop(begin, goes_on, body, None)

    def _loop(self, begin: Act, goes_on: Act, body: Node | None, step: Act | None) -> Act:
        act = self._branch(body)

        def read() -> None:
            begin()
            self.loops += 1
            try:
                while goes_on():
                    self.turns += 1
                    if self.turns > MOST_TURNS:
                        raise TooLong
                    try:
                        act()
                    except Left as left:
                        if left.how == "break":
                            break
                        if left.how != "continue":
                            raise
                    if step is not None:
                        step()
            finally:
                self.loops -= 1
                self.turns = self.turns if self.loops else 0

        return read

    def _over(self, node: Node) -> Act:
        """``for (auto& x : v)``: its elements, which a reference changes."""
        variable, listed = node.child_by_field_name("declarator"), self.of(node.child_by_field_name("right"))
        act = self._branch(node.child_by_field_name("body"))
        word = self.text(variable)
        name = word.lstrip("*& ")

        def read() -> None:
            array = listed()
            if not isinstance(array, HostArray) or array.values.size > MOST_TURNS:
                raise NotSaid
            for place in range(array.values.size):
                self.names[name] = array[place]
                act()
                if "&" in word:
                    array[place] = self._read(name)

        return read

    def _leave(self, node: Node) -> Act:
        how = node.type.partition("_")[0]
        value = self.of(node.named_children[0]) if how == "return" and node.named_children else None
        if how == "return" and self.depth == 0:
            return self._nothing  # of what ends there nobody would ask

        def read() -> None:
            raise Left(how, value() if value is not None else None)

        return read

    def _declare(self, node: Node) -> Act:
        words = self.text(node.child_by_field_name("type"))
        acts = [self._declared(declarator, words) for declarator in node.children_by_field_name("declarator")]

        def read() -> None:
            for act in acts:
                act()

        return read

    def _declared(self, node: Node, words: str) -> Act:
        """A variable of a declaration. words: those of its type."""
        side = {"init_declarator": "value", "function_declarator": "parameters"}.get(
            node.type
        )  # ``vector<int> v(n, 1)``
        value = node.child_by_field_name(side) if side is not None else None
        inner: Node | None = node.child_by_field_name("declarator") if side is not None else node
        stars, extents = 0, list[Act]()
        while inner is not None and inner.type not in _NAMES:
            stars += inner.type == "pointer_declarator"
            if inner.type == "array_declarator":
                extent = inner.child_by_field_name("size")
                extents.append(self.of(extent) if extent is not None else lambda: None)
            inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
        name, element = self.text(inner), _VECTOR.match(words) or _OWNER.match(words)
        if element is not None or extents:
            kind = number_name(element[1] if element is not None else words)
            if stars or (element is not None and element[1].rstrip().endswith("*")):
                return lambda: self.names.__setitem__(name, PointerTable(number_name(element[1] if element else words)))
            return lambda: self.put(name, self._begun(kind, extents, value))
        listed = value.named_children if value is not None and value.type in _LISTS else []
        if spread := _SPREAD.match(words):
            limits = [self.of(child) for child in listed]
            return lambda: self.names.__setitem__(name, (spread[1], *(limit() for limit in limits)))
        if len(listed) > 1:
            members = members_of(self.host.texts).get(words, {})
            parts = [self.of(child) for child in listed]
            return lambda: self.put(name, dict(zip(members, (part() for part in parts), strict=False)))
        return self._number(name, number_name(words), bool(stars), listed[0] if listed else value)

    def _number(self, name: str, kind: str, is_pointer: bool, value: Node | None) -> Act:
        """A number or a pointer of a declaration."""
        begin = self.of(value) if value is not None and value.type not in _LISTS else lambda: UNKNOWN
        if kind and not is_pointer:
            self.kinds[name] = dtype(kind).numpy

        def read() -> None:
            self.names.declare(name)
            try:
                self.put(name, typed(begin(), kind if is_pointer else ""))
            except NotSaid:  # a number that a caller or a word of the command line decides
                number = self.host.number(name)
                self.names[name] = number if number is not None else UNKNOWN
            if name in self.host.given:
                self.names[name] = self.host.given[name]

        return read

    def _begun(self, kind: str, extents: Sequence[Act], value: Node | None) -> HostArray:
        """A vector or an array of a declaration, with what it begins with."""
        listed = value.named_children if value is not None else []
        is_list = value is not None and value.type == "initializer_list"
        values = [self.of(child)() for child in listed] if not (listed and listed[0].type == "new_expression") else []
        if values and isinstance(values[0], HostArray):  # of two iterators, or another one
            return HostArray(values[0].values.copy(), values[0].root.is_set, values[0].root.is_known)
        if listed and not values:
            array = self.of(listed[0])()
            assert isinstance(array, HostArray)
            return array
        if value is not None and value.type not in _LISTS:
            array = self.of(value)()
            if not isinstance(array, HostArray):
                raise NotSaid
            return HostArray(array.values.copy(), array.root.is_set, array.root.is_known)
        many = [extent() for extent in extents]
        size = len(values) if is_list and many in ([], [None]) else math.prod(many) if many else [*values, 0][0]
        array = self.room(kind, size)
        first = values if is_list else []
        for place, number in enumerate(first or ([values[1]] * size if len(values) > 1 else [])):
            array[place] = number
        array.is_set = array.is_set or value is not None
        return array

    def room(self, kind: str, size: int) -> HostArray:
        """An array of so many elements, zeros."""
        if not kind:
            raise NotSaid
        array = typed(octets(size * dtype(kind).numpy.itemsize), kind)
        assert isinstance(array, HostArray)
        return array

    def put(self, name: str, value: Any) -> None:
        """A variable has another value, the members of a structure theirs."""
        if isinstance(value, dict) and not isinstance(value, PointerTable):
            self.names.update({f"{name}.{member}": part for member, part in value.items()})
        elif isinstance(value, (HostArray, VariablePlace, PointerTable)) or value is UNKNOWN or name not in self.kinds:
            self.names[name] = value
        else:
            self.names[name] = as_type(self.kinds[name], value)

    # Expressions

    def of(self, node: Node | None) -> Act:
        """What makes the value of an expression. Raises NotSaid for one of another kind."""
        make = _EXPRESSIONS.get(node.type) if node is not None else None
        if make is None or node is None:
            raise NotSaid
        return make(self, node)

    def _read(self, name: str) -> Any:
        try:
            value = self.names[name]
        except KeyError:
            value = self._outer(name)
        if value is not UNKNOWN:
            return value
        if members := self._members(name):
            return members
        raise NotSaid

    def _members(self, name: str) -> dict[str, Any]:
        """Those of a structure, by their names."""
        return VariablePlace(self.names, name).members

    def _outer(self, name: str) -> Any:
        """A structure's members, or a number that stands outside of the function."""
        if members := self._members(name):
            return members
        if (constant := bare(name)).startswith(ENUMERATORS):
            return constant
        if (number := self.host.number(name)) is not None:
            self.names[name] = number
            return number
        kind = re.fullmatch(r"([\w\s]+)\[(.+)\]", self.host._sized.get(name, ""))
        size = self.host.number(kind[2]) if kind is not None else None
        if kind is None or size is None:
            raise NotSaid
        return self.names.setdefault(name, self.room(number_name(kind[1]), int(size)))

    def _variable(self, node: Node) -> Act:
        name = _name(node, self.text)
        return lambda: self._read(name)

    def _literal(self, node: Node) -> Act:
        number = literal(self.text(node))
        if number is None:
            raise NotSaid
        return lambda: number

    def _inner(self, node: Node) -> Act:
        return self.of(node.child_by_field_name("value") or node.named_children[0])

    def _cast(self, node: Node) -> Act:
        words, value = self.text(node.child_by_field_name("type")), self.of(node.child_by_field_name("value"))
        return self._converted(words, value)

    def _converted(self, words: str, value: Act) -> Act:
        kind = number_name(words.rstrip("* &"))
        if words.rstrip().endswith("*"):
            return lambda: typed(value(), kind)
        if not kind:
            raise NotSaid
        numpy = dtype(kind).numpy
        return lambda: float(value()) if numpy.kind == "f" else as_type(numpy, value())

    def _unary(self, node: Node) -> Act:
        value, sign = self.of(node.child_by_field_name("argument")), self.text(node.child_by_field_name("operator"))
        act = _ONE.get(sign)
        if act is None:
            raise NotSaid
        return lambda: act(value())

    def _binary(self, node: Node) -> Act:
        left, right = (self.of(node.child_by_field_name(side)) for side in ("left", "right"))
        sign = self.text(node.child_by_field_name("operator"))
        if sign in ("&&", "||"):
            return lambda: int(bool(right()) if bool(left()) is (sign == "&&") else sign == "||")
        if sign not in _TWO:
            raise NotSaid
        act = _TWO[sign]
        return lambda: combined(act, left(), right())

    def _choice(self, node: Node) -> Act:
        condition, *ways = (
            self.of(node.child_by_field_name(side)) for side in ("condition", "alternative", "consequence")
        )
        return lambda: ways[bool(condition())]()

    def _element(self, node: Node) -> Act:
        array, place = self.of(node.child_by_field_name("argument")), self._index(node)

        return lambda: element_of(array(), place())

    def _index(self, node: Node) -> Act:
        listed = node.child_by_field_name("indices")
        if listed is None or len(listed.named_children) != 1:
            raise NotSaid
        return self.of(listed.named_children[0])

    def _pointed(self, node: Node) -> Act:
        """``&a`` is the place of a, ``&a[4]`` the array from there on, ``*p`` what is there."""
        inner = node.child_by_field_name("argument")
        if inner is None:
            raise NotSaid
        if self.text(node)[0] == "*":
            value = self.of(inner)
            return lambda: at_place(value())
        if inner.type == "subscript_expression":
            array, place = self.of(inner.child_by_field_name("argument")), self._index(inner)
            return lambda: place_of(array(), place())
        if inner.type not in _NAMES:
            raise NotSaid
        name = _name(inner, self.text)
        kinds = self.host.types
        kind = kinds.get(name, kinds.get(name.rpartition(".")[2], ""))
        return lambda: VariablePlace(self.names, name, kind)

    def _assign(self, node: Node) -> Act:
        target, value = node.child_by_field_name("left"), self.of(node.child_by_field_name("right"))
        sign = self.text(node.child_by_field_name("operator"))[:-1]
        if target is None or (sign and sign not in _TWO):
            raise NotSaid
        before = self.of(target) if sign else None
        store = self._store(target)

        def read() -> Any:
            result = value() if before is None else combined(_TWO[sign], before(), value())
            store(result)
            return result

        return read

    def _store(self, target: Node) -> Callable[[Any], None]:
        if target.type in _NAMES:
            name = _name(target, self.text)
            kind = self.host.types.get(name, "")
            pointee = number_name(kind[:-1]) if kind.endswith("*") else ""
            return lambda value: self.put(name, typed(value, pointee))
        if target.type == "subscript_expression":
            array, place = self.of(target.child_by_field_name("argument")), self._index(target)

            return lambda value: put_at(place_of(array(), place()), value)
        if target.type == "pointer_expression" and self.text(target)[:1] == "*":
            pointer = self.of(target.child_by_field_name("argument"))
            return lambda value: put_at(pointer(), value)
        raise NotSaid

    def _step(self, node: Node) -> Act:
        target, words = node.child_by_field_name("argument"), self.text(node)
        if target is None:
            raise NotSaid
        value, store = self.of(target), self._store(target)
        by, is_before = 1 if "++" in words else -1, words[:1] in "+-"

        def read() -> Any:
            before = value()
            after = combined(operator.add, before, by)
            store(after)
            return after if is_before else before

        return read

    def _both(self, node: Node) -> Act:
        left, right = (self.of(node.child_by_field_name(side)) for side in ("left", "right"))
        return lambda: (left(), right())[1]

    def _size(self, node: Node) -> Act:
        size = self.host.number(self.text(node))
        if size is None:
            raise NotSaid
        return lambda: size

    def _new(self, node: Node) -> Act:
        around = node.parent.parent if node.parent is not None else None  # the grammar has no ``new int*[n]``
        if re.search(r"\bnew\s+[\w\s]+\*\s*\[", self.text(around)):
            pointee = number_name(self.text(node.child_by_field_name("type")))
            return lambda: PointerTable(pointee)
        kind, listed = number_name(self.text(node.child_by_field_name("type"))), node.child_by_field_name("declarator")
        many = self.of(listed.child_by_field_name("length")) if listed is not None else None
        if many is None:
            raise NotSaid
        return lambda: self.room(kind, many())

    # Calls

    def _call(self, node: Node) -> Act:
        called, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or listed is None:
            raise NotSaid
        words = [child for child in listed.named_children if child.type != "comment"]
        if any(child.type == "kernel_call_syntax" for child in node.children):
            return self._launch(self.text(called), words)
        name, kind = bare(self.text(called)), re.fullmatch(r"[\w:]*_cast\s*<(.*)>", self.text(called), re.DOTALL)
        if (act := self._special(name, called, words)) is not None:
            return act
        if called.type == "field_expression":
            word = self.host.tensors.instead(self.text(node))
            extent = self.host.number(word) if word is not None else None
            return self._method(called, words) if extent is None else lambda: extent
        if (kind is not None or number_name(self.text(called))) and len(words) == 1:
            return self._converted(kind[1] if kind is not None else self.text(called), self.of(words[0]))
        for way in (self._defined, self._known):
            if (act := way(name, called, words)) is not None:
                return act
        inside = [self._call(word) for word in words if word.type in _CALLS]  # of ``CHECK(cudaMalloc(...))``
        if not inside and (number := self.host.number(self.text(node))) is not None:
            return lambda: number
        if not inside and not name.startswith("cuda"):
            raise NotSaid
        return lambda: [act() for act in inside][-1:]

    def _special(self, name: str, called: Node, words: Sequence[Node]) -> Act | None:
        """Calls whose arguments are no values alone."""
        if name in _LOOKS:
            return self._nothing
        if encodes(name, [*map(self.text, words)]):
            place = self.of(words[0])
            return lambda: encode(place(), *map(self.maybe, words[1:]))
        if name == "swap" and len(words) == 2:
            return self._swap(*(_name(word, self.text) for word in words))
        if name == "make_unique" and (owner := _OWNER.match(self.text(called))):
            many = self.of(words[0])
            return lambda: self.room(number_name(owner[1]), many())
        if isinstance(self.names.get(name), tuple):
            return lambda: self._drawn(self.names[name])
        return None

    def _defined(self, name: str, called: Node, words: Sequence[Node]) -> Act | None:
        """A function of the text."""
        definition = next(definitions(self.host, name), None)
        if definition is None or self.depth >= _DEPTH or self.text(called).startswith(("std::", "thrust::")):
            return None
        return lambda: self._run(definition, words)

    def _known(self, name: str, called: Node, words: Sequence[Node]) -> Act | None:
        """A function of C, of C++ or of CUDA."""
        if (function := FUNCTIONS.get(name, FUNCTIONS.get(f"std::{name}"))) is None:
            return None
        many, act = function
        parts = [self.of(word) for word in words[:many]]
        return lambda: act(self.random, *(part() for part in parts))

    def _launch(self, kernel: str, words: Sequence[Node]) -> Act:
        """A kernel changes what it is passed by pointers that are not to constants."""
        declared = next((parameters(text)[name] for text in self.host.texts
                         for name in [bare(kernel)] if name in parameters(text)), ())  # fmt: skip
        kept = [k for k, param in enumerate(declared)
                if "const" in param.type.partition("*")[0] or number_name(param.type)]  # fmt: skip
        names = [_name(word, self.text) for k, word in enumerate(words) if k not in kept]
        return lambda: self.forget(name for name in map(base_of, names) if self.names.parts(name))

    def _method(self, called: Node, words: Sequence[Node]) -> Act:
        name, _, method = _name(called, self.text).rpartition(".")
        act = METHODS.get(method.partition("<")[0])
        if act is None:
            raise NotSaid
        parts = [self.of(word) for word in words]

        def read() -> Any:
            array = self._read(name)
            if not isinstance(array, HostArray):
                raise NotSaid
            changed = act(array, *(part() for part in parts))
            if isinstance(changed, np.ndarray):
                self.names[name] = HostArray(changed, is_set=True, is_known=array.root.is_known)
                return None
            return changed

        return read

    def _swap(self, name: str, other: str) -> Act:
        def read() -> None:
            self.names[name], self.names[other] = self._read(other), self._read(name)

        return read

    def _drawn(self, spread: Sequence[Any]) -> Any:
        """A number of a distribution of ``<random>``."""
        how, *limits = spread
        if how == "uniform_int":
            return self.random.randint(*map(int, limits or (0, LARGEST)))
        return self.random.gauss(0, 1) if how == "normal" else self.random.uniform(*(limits or (0.0, 1.0)))

    def _run(self, definition: Definition, words: Sequence[Node]) -> Any:
        """What a function of the text returns; what it does to arrays and structures that it is passed is done."""
        head = next(below(definition.node, "function_declarator"), None)
        listed = head.child_by_field_name("parameters") if head is not None else None
        body = definition.node.child_by_field_name("body")
        if body is None or listed is None or len(words) > len(definition.names):
            raise NotSaid
        passed = [*map(self.maybe, words)]
        key = definition.node.id, *map(type, passed)
        inner = self._reader(definition, body, idle := self.idle.setdefault(key, []))
        standard = (param.child_by_field_name("default_value") for param in listed.named_children[len(words) :])
        passed += map(inner.maybe, filter(None, standard))
        for name, value in zip(definition.names, passed, strict=False):
            inner.names.declare(name)
            inner.put(name, value)
            if isinstance(value, VariablePlace):
                inner.put(name, value.members)
        result = None
        try:
            inner.statement(body)()
        except Left as left:
            result = left.value
        finally:
            self.turns = inner.turns
        idle.append(inner)
        pairs = zip(definition.names, words, passed, listed.named_children, strict=False)
        for name, word, value, param in pairs:
            if isinstance(value, VariablePlace) or "&" in definition.tree.of(param):
                target = (
                    value if isinstance(value, VariablePlace) else VariablePlace(self.names, _name(word, self.text))
                )
                members = VariablePlace(inner.names, name).members
                target.names.update({f"{target.name}.{member}": part for member, part in members.items()})
                if not isinstance(value, VariablePlace) and word.type in _NAMES:
                    target.names[target.name] = inner.names[name]
        return result

    def _reader(self, definition: Definition, body: Node, idle: list[_Reader]) -> _Reader:
        """What reads a function, an idle reader or a new one; its turns, and its call, are of the caller's loop."""
        if not idle:
            host = Host(definition.tree, body, self.host.texts, self.host.given, {}, self.host.depth + 1)
            idle.append(_Reader(host, self.names, self.depth + 1, random=self.random))
            host.__dict__["contents"] = idle[-1]
        inner = idle.pop()
        inner.names = HostNames(self.names.maps[1], variables_outside(inner.host.tree))
        inner.loops, inner.turns, inner.kinds = self.loops, self.turns + bool(self.loops), {}
        return inner

    def maybe(self, node: Node) -> Any:
        """The value of an argument, if the text says it."""
        try:
            return self.of(node)()
        except (NotSaid, ArithmeticError, ValueError, TypeError):
            return UNKNOWN


_ONE: Mapping[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "!": lambda a: int(not a),
                                            "~": operator.invert}  # fmt: skip
_TWO: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": divided, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, ">": operator.gt,
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "%": lambda a, b: int(math.fmod(a, b)),
}  # fmt: skip
_CALLS = ("call_expression",)
_STATEMENTS: Mapping[str, Callable[[_Reader, Node], Act]] = {
    "compound_statement": _Reader._all, "expression_statement": _Reader._alone, "if_statement": _Reader._if,
    "for_statement": _Reader._for, "for_range_loop": _Reader._over, "declaration": _Reader._declare,
    **dict.fromkeys(("while_statement", "do_statement"), _Reader._while),
    **dict.fromkeys(("break_statement", "continue_statement", "return_statement"), _Reader._leave),
}  # fmt: skip
_EXPRESSIONS: Mapping[str, Callable[[_Reader, Node], Act]] = {
    **dict.fromkeys(_NAMES, _Reader._variable), "number_literal": _Reader._literal,
    "true": lambda *_: lambda: 1, "false": lambda *_: lambda: 0, "null": lambda *_: lambda: None,
    "parenthesized_expression": _Reader._inner, "condition_clause": _Reader._inner, "cast_expression": _Reader._cast,
    "unary_expression": _Reader._unary, "binary_expression": _Reader._binary, "new_expression": _Reader._new,
    "conditional_expression": _Reader._choice, "subscript_expression": _Reader._element,
    "pointer_expression": _Reader._pointed, "assignment_expression": _Reader._assign,
    "sizeof_expression": _Reader._size, "parameter_declaration": _Reader._variable,
    "update_expression": _Reader._step, "comma_expression": _Reader._both, "call_expression": _Reader._call,
}  # fmt: skip
