"""Findings in the words of a .cu file: what its lines say themselves, which its PTX no longer does.

Which atomic an update stands for, the fence that is there and too narrow, the loop that two accesses are turns of, the
variable that has no value at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from linecache import getlines
from typing import TYPE_CHECKING

from tilewright.explain import Finding, Remedy, at_once, replaced
from tilewright.load.cu_host import function_around, typed
from tilewright.load.cu_libcu import in_words_of_libcu
from tilewright.load.cu_numbers import literal
from tilewright.load.cu_tree import LOOPS, Tree, bare, below, tree_of
from tilewright.load.declared import number_name

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, eq=False)
class SourceLine:
    """A line of a text, and the function around it."""

    tree: Tree
    number: int
    function: Node

    def nodes(self, *kinds: str) -> Iterator[Node]:
        """The nodes of these kinds that begin or end in the line, the inner ones last."""
        for node in below(self.function, *kinds):
            if node.start_point[0] < self.number <= node.end_point[0] + 1:
                yield node

    def types(self) -> dict[str, str]:
        """The types of the variables of the function and of the file, by their names."""
        nodes = below(self.tree.root, "declaration", "parameter_declaration")
        near = (node for node in nodes if function_around(node) in (None, self.function))
        return {name: kind for node in near for name, kind in typed(node, self.tree)}


def source_line(file: str | None, line: int | None) -> SourceLine | None:
    """A line of a file's function; None where there is none."""
    if not file or not line or not (text := "".join(getlines(file))):
        return None
    tree = tree_of(text)
    for function in below(tree.root, "function_definition"):
        if function.start_point[0] < line <= function.end_point[0] + 1:
            return SourceLine(tree, line, function)
    return None


def in_words_of_text(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a .cu file, with what the text of their lines says; one for what has one cause."""
    return [*in_words_of_libcu([_in_words(finding) for finding in _causes(findings)])]


def _causes(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings without those that follow from a copy for which nobody has waited, as its values and its end do, or
    from a barrier that some threads skip, as a race around it does.
    """
    copies = [finding for finding in findings if finding.operation and finding.other and finding.kind == "races"]
    skipped = [finding for finding in findings if finding.kind == "divergence"]
    after = {id(finding): copy for copy in copies for finding in findings if _follows(finding, copy)}
    after |= {id(finding): barrier for barrier in skipped for finding in findings if _is_around(finding, barrier)}
    for finding in findings:
        effects = [effect for effect in findings if after.get(id(effect)) is finding]
        if id(finding) not in after:
            follows = finding.follows + sum(effect.count for effect in effects)
            yield replace(finding, follows=follows) if effects else finding


def _follows(finding: Finding, copy: Finding) -> bool:
    if finding.kind == "poison":
        lines = finding.line or 0, copy.line or 0
        return finding.buffer in (None, copy.buffer) and finding.file == copy.file and lines[0] >= lines[1]
    return finding.kind == "leaks" and copy.other is not None and finding.line == copy.other.line


def _is_around(race: Finding, barrier: Finding) -> bool:
    """Are the accesses of a race before a barrier and behind it?"""
    first, line = race.other.line if race.other is not None else None, barrier.line
    is_race = race.kind == "races" and race.file == barrier.file and first and race.line and line
    return bool(is_race) and (first or 0) < (line or 0) < (race.line or 0)


def _in_words(finding: Finding) -> Finding:
    at = source_line(finding.file, finding.line)
    for rule in _RULES if at is not None else ():
        finding = rule(finding, at) if at is not None else finding
    return finding


# An update: a line that reads a place and stores what it makes of it. Of many threads it is one atomic.


_OPERATORS = {"+": "Add", "-": "Sub", "&": "And", "|": "Or", "^": "Xor"}
_CHOICES = {"max": "Max", "fmax": "Max", "fmaxf": "Max", "min": "Min", "fmin": "Min", "fminf": "Min"}
_LOST = "it reads and writes at once; a barrier would not keep two threads apart"


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a text: ``m[i] = max(m[i], x)``. place: what it changes. function: of an atomic, ``Max``, "" where
    none does it at once. value: what it takes. lines: those that it stands in.
    """

    place: str
    function: str
    value: str
    lines: tuple[int, ...]
    is_only_access: bool = True  # else another element of the array is read, too, as in ``s[i] += s[i + 1]``

    @property
    def address(self) -> str:
        """The address of the place, as C++ writes it."""
        plain = self.place
        while plain[:1] == "(" and plain[-1:] == ")":
            plain = plain[1:-1].strip()
        return plain[1:].strip() if plain[:1] == "*" else f"&{plain}"

    @property
    def base(self) -> str:
        """The array, pointer or variable that the place is of."""
        name = re.search(r"[A-Za-z_]\w*", self.place)
        return name[0] if name else ""

    def atomic(self, kind: str) -> str:
        """The atomic, for a place of this type."""
        number = number_name(re.sub(r"\b(?:const|volatile)\b|[*&]", " ", kind))
        function, value, address = self.function, self.value, self.address
        if number.startswith("float") and function == "Sub":
            function, value = "Add", f"-({value})"
        if function == "Add" and number in ("int64", "uint64"):
            return f"atomicAdd((unsigned long long*){address}, {value})"
        if number.startswith("float") and function in ("Max", "Min"):
            word, bits = ("double", "long long") if number == "float64" else ("float", "int")
            cast = f"__{word}_as_{bits.replace(' ', '')}({value})"
            return (f"a loop of atomicCAS ({word} has no atomic{function}; where no number is negative, "
                    f"atomic{function}(({bits}*){address}, {cast}) does)")  # fmt: skip
        if number in ("bool", "int8", "uint8", "int16", "uint16"):
            return f"a variable of int and an atomic ({kind.strip('* ')} has none)"
        return f"atomic{function}({address}, {value})" if function else "a loop of atomicCAS"


def updates(at: SourceLine) -> Iterator[Update]:
    """The updates that a line is part of."""
    for node in at.nodes("assignment_expression", "update_expression"):
        if (update := _update(at, node)) is not None:
            whole = " ".join(at.tree.text.split("\n")[line - 1] for line in update.lines)
            rest = re.sub(r"\s", "", whole).replace(_unwrapped(update.place), "")
            yield replace(update, is_only_access=not re.search(rf"\b{update.base}\b", rest))


def _update(at: SourceLine, node: Node) -> Update | None:
    of, operator = at.tree.of, node.child_by_field_name("operator")
    sign = of(operator) if operator is not None else "="
    left = node.child_by_field_name("argument" if node.type == "update_expression" else "left")
    right, line = node.child_by_field_name("right"), node.start_point[0] + 1
    if left is None:
        return None
    if right is None:
        return Update(of(left), _OPERATORS[sign[0]], "1", (line,))
    if sign != "=":
        return Update(of(left), _OPERATORS.get(sign[:-1], ""), of(right), (line,))
    same = _Same(at, _unwrapped(of(left)))
    function, value = _made_of(right, same) or _guarded(node, right, same)
    return Update(of(left), function, value, tuple(sorted({line, *same.lines}))) if value else None


def _unwrapped(text: str) -> str:
    """A text without blanks and brackets around it."""
    text = re.sub(r"\s", "", text)
    while text[:1] == "(" and text[-1:] == ")" and text.find(")") == len(text) - 1:
        text = text[1:-1]
    return text


class _Same:
    """Texts that stand for the value of a place: the place itself, and variables that begin with it. lines: of those
    that were asked for.
    """

    def __init__(self, at: SourceLine, place: str) -> None:
        self.of, self.lines = at.tree.of, set[int]()
        self._names: dict[str, int | None] = {place: None}
        for node in below(at.function, "init_declarator"):
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if name is not None and value is not None and _unwrapped(self.of(value)) == place:
                self._names[self.of(name)] = node.start_point[0] + 1

    def __call__(self, node: Node | None) -> bool:
        if node is None or (name := _unwrapped(self.of(node))) not in self._names:
            return False
        self.lines |= {line for line in [self._names[name]] if line is not None}
        return True

    def compared(self, condition: str, value: str) -> str:
        """``Max`` or ``Min`` where a condition is that a value is above, or below, what stands in the place."""
        plain = re.sub(r"\s", "", condition)
        for name, line in self._names.items():
            for signs, function in ((("<", ">"), "Max"), ((">", "<"), "Min")):
                texts = (
                    rf"{re.escape(name)}{signs[0]}=?{re.escape(value)}",
                    rf"{re.escape(value)}{signs[1]}=?{re.escape(name)}",
                )
                if re.search(rf"(?<![\w.\]>])(?:{'|'.join(texts)})(?![\w\[(.])", plain):
                    self.lines |= {line for line in [line] if line is not None}
                    return function
        return ""

    def expected(self, condition: str) -> str:
        """What the place must hold, by a condition, before it is changed."""
        plain = re.sub(r"\s", "", condition)
        for name in self._names:
            if match := re.search(rf"(?<![\w.\]]){re.escape(name)}==(\w+)|!{re.escape(name)}(?!\w)", plain):
                return match[1] or "0"
        return ""


def _made_of(right: Node, same: _Same) -> tuple[str, str] | None:
    """The function and the other operand of a value that is made of the place's own."""
    if right.type == "binary_expression":
        a, b, sign = (right.child_by_field_name(name) for name in ("left", "right", "operator"))
        word = same.of(sign) if sign is not None else ""
        operand = b if same(a) else a if word != "-" and same(b) else None
        return (_OPERATORS.get(word, ""), same.of(operand)) if operand is not None else None
    if right.type == "call_expression":
        called, listed = right.child_by_field_name("function"), right.child_by_field_name("arguments")
        words = listed.named_children if listed is not None else []
        function = _CHOICES.get(bare(same.of(called)) if called is not None else "", "")
        rest = [argument for argument in words if not same(argument)]
        return (function, same.of(rest[0])) if function and len(words) == 2 and len(rest) == 1 else None
    if right.type == "conditional_expression":
        ways = [right.child_by_field_name(name) for name in ("consequence", "alternative")]
        condition = right.child_by_field_name("condition")
        chosen = [way for way in ways if way is not None and not same(way)]
        if condition is not None and len(chosen) == 1:
            return same.compared(_unwrapped(same.of(condition)), _unwrapped(same.of(chosen[0]))), same.of(chosen[0])
    return None


def _guarded(node: Node, right: Node, same: _Same) -> tuple[str, str]:
    """The function and the value of a store that stands under a condition of what the place holds."""
    above = node.parent
    while above is not None and above.type != "function_definition":
        condition = above.child_by_field_name("condition") if above.type == "if_statement" else None
        text, value = same.of(condition) if condition is not None else "", same.of(right)
        if text and (function := same.compared(text, _unwrapped(value))):
            same.lines.add(above.start_point[0] + 1)
            return function, value
        if text and (expected := same.expected(text)):
            same.lines.add(above.start_point[0] + 1)
            return "CAS", f"{expected}, {value}"
        above = above.parent
    return "", ""


def _by_update(finding: Finding, at: SourceLine) -> Finding:
    """A race of threads that all change one place: its remedy is the atomic."""
    other, step = finding.other, finding.remedy.step if finding.remedy is not None else "other"
    if finding.kind != "races" or other is None or step not in ("atomic", "barrier", "other"):
        return finding
    lines = {line for line in (finding.line, other.line) if line is not None}
    near = (source_line(finding.file, line) for line in sorted(lines) if other.file == finding.file)
    for update in (update for line in near if line is not None for update in updates(line)):
        if update.base not in (finding.buffer, "") and _is_of_a_thread(update.base, at):
            continue
        if lines <= {*update.lines} and (step == "atomic" or update.is_only_access):
            atomic = update.atomic(at.types().get(update.base, ""))
            where = f"line{'s' * (len(update.lines) > 1)} {' and '.join(map(str, update.lines))}"
            ways = tuple((at_once(line),) for line in update.lines)
            remedy = Remedy("atomic", "gpu", update.lines, code=f"{atomic};", ways=ways)
            return replace(finding, hint=f"{atomic} in place of {where}: {_LOST}", remedy=remedy,
                           allowed="one atomic, where several threads change one place")  # fmt: skip
    return finding


def _is_of_a_thread(name: str, at: SourceLine) -> bool:
    """Is a name that of a number that each thread has of its own?"""
    body = at.function.child_by_field_name("body")
    for node in below(body, "declaration") if body is not None else ():
        if name in (kinds := dict(typed(node, at.tree))):
            return "__shared__" not in at.tree.of(node) and "*" not in kinds[name]
    return False


# Other rules


_FENCES = ("__threadfence_block", "__threadfence", "__threadfence_system")


def _by_fence(finding: Finding, at: SourceLine) -> Finding:
    """A fence that is there, and too narrow: the wider one takes its place."""
    remedy, other = finding.remedy, finding.other
    if remedy is None or remedy.step != "fence" or other is None or not remedy.where or not remedy.code:
        return finding
    wide = remedy.code.strip("();")
    narrow = _FENCES[: _FENCES.index(wide)] if wide in _FENCES else ()
    first, last = sorted((remedy.where[0], (other.line if len(remedy.where) == 1 else finding.line) or 0))
    near = source_line(other.file if len(remedy.where) == 1 else finding.file, remedy.where[0])
    for call in below((near or at).function, "call_expression"):
        word = (near or at).tree.of(call).partition("(")[0]
        line = call.start_point[0] + 1
        if word in narrow and first <= line <= last:
            hint = f"{wide}() in place of the {word}() of line {line}, which is for threads of one CTA alone"
            remedy = replace(remedy, where=(line,), ways=((replaced(line, f"{wide}();"),),))
            return replace(finding, hint=hint, remedy=remedy)
    return finding


def _by_turns(finding: Finding, at: SourceLine) -> Finding:
    """Two accesses of which the later one stands first: they are of different turns of a loop."""
    other, remedy = finding.other, finding.remedy
    first, then = (other.line if other is not None else 0) or 0, finding.line or 0
    if other is None or not then or other.file != finding.file or first < then:
        return finding
    loops = [loop for loop in at.nodes(*LOOPS) if first <= loop.end_point[0] + 1]
    loops = loops or _calling_loops(at, first)
    is_barrier = remedy is not None and remedy.step == "barrier" and remedy.where == (first, then)
    code = (remedy.code or "").rstrip(";") if remedy is not None else ""
    if not loops and is_barrier and first > then and (turn := _calling_turn(at)):
        where = f"behind line {turn[0]}, at the end of each turn of the loop at line {turn[1]}"
        return replace(finding, hint=f"{code} {where}")
    if not loops:
        if remedy is not None and remedy.step == "barrier" and remedy.where == (then, then):
            return replace(finding, hint=f"{code} between the accesses of line {then}, as statements of their own")
        return finding
    loop = f"turn of the loop at line {loops[-1].start_point[0] + 1}"
    if first > then:
        finding = replace(finding, given=f"{finding.given}\nline {then} comes after line {first} in the next {loop}")
    if remedy is not None and remedy.scope == "warp" and _is_for_all_warps(loops[-1], at):
        narrow, wide = remedy.code or "", "__syncthreads();"
        ways = tuple(tuple(replace(edit, text=wide) if edit.text == narrow else edit for edit in way)
                     for way in remedy.ways)  # fmt: skip
        finding = replace(finding, remedy=replace(remedy, scope="cta", code=wide, ways=ways))
        code = wide.rstrip(";")
    if is_barrier:
        behind = f"behind line {first}, at the end" if first > then else "outside of `if`s at the end"
        if any(below(loops[-1], "continue_statement")):
            behind = "outside of `if`s at the beginning"
        return replace(finding, hint=f"{code} {behind} of each {loop}")
    return finding


def _by_calls(finding: Finding, at: SourceLine) -> Finding:
    """Two accesses in different functions: the barrier belongs between the calls, in the function that makes both."""
    other, remedy = finding.other, finding.remedy
    if remedy is None or remedy.step != "barrier" or other is None or other.file != finding.file:
        return finding
    before = source_line(other.file, other.line)
    if before is None or before.function == at.function or remedy.where != (other.line, finding.line):
        return finding
    code = (remedy.code or "").rstrip(";")
    for function in below(at.tree.root, "function_definition"):
        first, then = (_calls_in(function, place) for place in (before, at))
        if len(first) != 1 or len(then) != 1 or first == then:
            continue
        loops = [loop for loop in below(function, *LOOPS)
                 if all(loop.start_point[0] < line <= loop.end_point[0] + 1 for line in (*first, *then))]  # fmt: skip
        if first > then and not loops:
            continue
        hint = f"{code} between line {first[0]} and line {then[0]}"
        if first > then:
            hint = f"{code} behind line {first[0]}, at the end of each turn of the loop at line "
            hint += f"{loops[-1].start_point[0] + 1}"
        return replace(finding, hint=hint, remedy=replace(remedy, where=(first[0], then[0]), ways=()))
    return finding


def _calls_in(function: Node, place: SourceLine) -> list[int]:
    """The lines of a function in which it calls that of a place; the place's own line where it is the same."""
    if function == place.function:
        return [place.number]
    return sorted({call.start_point[0] + 1 for call in _calls_of(place, function)})


def _calls_of(place: SourceLine, root: Node) -> list[Node]:
    """The calls of a place's function below a node."""
    head = next(below(place.function, "function_declarator"), None)
    name = bare(place.tree.of(head).partition("(")[0]) if head is not None else ""
    every = ((call, call.child_by_field_name("function")) for call in below(root, "call_expression"))
    return [call for call, called in every if called is not None and bare(place.tree.of(called)) == name]


def _by_branch(finding: Finding, at: SourceLine) -> Finding:
    """A barrier that is there, in a branch which does not hold both accesses: it belongs in front of it, or behind."""
    other, remedy = finding.other, finding.remedy
    if remedy is None or remedy.step != "barrier" or other is None or remedy.where != (other.line, finding.line):
        return finding
    first, then = remedy.where
    for call in below(at.function, "call_expression"):
        line, branch = call.start_point[0] + 1, call.parent
        if not first < line < then or at.tree.of(call).partition("(")[0] != (remedy.code or "").partition("(")[0]:
            continue
        while branch is not None and branch.type != "if_statement":
            branch = branch.parent
        if branch is not None and not branch.start_point[0] < first < branch.end_point[0] + 1:
            where = f"outside of the `if` of line {branch.start_point[0] + 1}, in which that of line {line} stands"
            return replace(finding, hint=f"{(remedy.code or '').rstrip(';')} {where}")
    return finding


def _is_for_all_warps(loop: Node, at: SourceLine) -> bool:
    """Does a loop hand over between all threads of a CTA, and not of a warp? Its steps go on from 32 or from a number
    that the text has by a name, and no thread has gone another way before it.
    """
    above = loop.parent
    while above is not None and above.type != "function_definition":
        if above.type in (*LOOPS, "if_statement"):
            return False
        above = above.parent
    begin = loop.child_by_field_name("initializer")
    body = loop.child_by_field_name("body")
    head = at.tree.between(loop.start_byte, body.start_byte if body is not None else loop.end_byte)
    start = at.tree.of(begin).rpartition("=")[2].strip("; ") if begin is not None else ""
    number = literal(start)
    is_wide = bool(start) and (number is None or number >= 32) and not re.search(r"warp|WARP|lane", start)
    return is_wide and not re.search(r"threadIdx|\blane|\btid\b", head) and bool(re.search(r">>=|/=|<<=|\*=", head))


def _calling_loops(at: SourceLine, line: int) -> list[Node]:
    """The loops around a line in which the lambda function, or the function, is called that the place stands in."""
    around = [node for node in at.nodes("lambda_expression") if node.parent is not None]
    head = next(below(at.function, "function_declarator"), None)
    named = around[-1].parent.child_by_field_name("declarator") if around and around[-1].parent else None
    word = at.tree.of(named) if named is not None else at.tree.of(head).partition("(")[0] if head is not None else ""
    loops: list[Node] = []
    for call in below(at.tree.root, "call_expression"):
        called, above = call.child_by_field_name("function"), call.parent
        while called is not None and at.tree.of(called) == word and above is not None:
            if above.type in LOOPS and above.start_point[0] < line <= above.end_point[0] + 1:
                loops.insert(0, above)
            above = above.parent
    return loops


def _calling_turn(at: SourceLine) -> tuple[int, int] | None:
    """The only call of the place's function, where it is in a loop: its line, and that of the innermost loop."""
    calls = _calls_of(at, at.tree.root)
    loops = [loop for loop in below(at.tree.root, *LOOPS) if len(calls) == 1
             and loop.start_byte <= calls[0].start_byte and calls[0].end_byte <= loop.end_byte]  # fmt: skip
    return (calls[0].end_point[0] + 1, loops[-1].start_point[0] + 1) if loops else None


def _by_first_value(finding: Finding, at: SourceLine) -> Finding:
    """An uninitialised value that no memory has: the variable that has none at first."""
    if finding.kind != "poison" or finding.hint or finding.buffer is not None:
        return finding
    variables = [*_without_value(at)]
    if not variables and len(arrays := [*_without_value(at, is_first=False)]) == 1:
        name, line, declared = arrays[0]
        hint = f"`{declared} = {{}};` in line {line}, or a value for all of {name}: other arrays have one"
        return replace(finding, hint=hint)
    used = [variable for variable in variables if re.search(rf"\b{variable[0]}\b", _line_text(at))]
    chosen = used if len(used) == 1 else variables if len(variables) == 1 else []
    for name, line, declared in chosen:
        begin = f"{declared} = {{}}" if declared.endswith("]") else f"{declared} = 0"
        message = f"{name} is uninitialised"
        return replace(finding, message=message, hint=f"`{begin};` in line {line}, or what it is to begin with",
                       given=f"{finding.given}; {name} is read before a line has set it")  # fmt: skip
    return finding


def _line_text(at: SourceLine) -> str:
    return at.tree.text.split("\n")[at.number - 1]


def _without_value(at: SourceLine, *, is_first: bool = True) -> Iterator[tuple[str, int, str]]:
    """Local variables that are declared without a value and read by the next statement that names them: name, line,
    and declaration. is_first: else all arrays that are declared so.
    """
    body = at.function.child_by_field_name("body")
    for node in below(body, "declaration") if body is not None else ():
        kind = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            is_plain = declarator.type in ("identifier", "array_declarator") and "__shared__" not in at.tree.of(node)
            name = re.split(r"[\[\s]", at.tree.of(declarator))[0]
            is_meant = _is_read_first(at, name, declarator) if is_first else declarator.type == "array_declarator"
            if kind is not None and is_plain and is_meant:
                yield name, declarator.start_point[0] + 1, f"{at.tree.of(kind)} {at.tree.of(declarator)}"


def _is_read_first(at: SourceLine, name: str, declared: Node) -> bool:
    """Is a variable read by the first statement behind its declaration that has its name?"""
    for node in below(at.function, "identifier"):
        if node.start_byte < declared.end_byte or at.tree.of(node) != name:
            continue
        return _reads(node)
    return False


def _reads(node: Node) -> bool:
    """Is the place that a name begins read? Not where it is assigned to, and not where its address is taken."""
    above = node.parent
    while above is not None and above.type in ("subscript_expression", "parenthesized_expression", "field_expression"):
        if above.type == "subscript_expression" and above.child_by_field_name("argument") != node:
            return True
        node, above = above, above.parent
    if above is None or above.type in ("pointer_expression", "argument_list", "gnu_asm_output_operand"):
        return False
    if above.type == "assignment_expression" and above.child_by_field_name("left") == node:
        return any(child.type != "=" and not child.is_named for child in above.children)
    return True


def _by_shuffle(finding: Finding, at: SourceLine) -> Finding:
    """A shuffle in a branch that the lanes it reads from do not take."""
    for call in at.nodes("call_expression") if finding.kind == "simulation" else ():
        above = call.parent
        while above is not None and above.type != "if_statement":
            above = above.parent
        if at.tree.of(call).startswith("__shfl") and above is not None:
            front = f"the shuffle in front of the `if` of line {above.start_point[0] + 1}, so that all lanes come to it"
            return replace(finding, hint=f"{front}; or {finding.hint}" if finding.hint else front)
    return finding


def _by_shared_array(finding: Finding, at: SourceLine) -> Finding:
    """An access beyond shared memory: the array that the line names, with its declaration."""
    if finding.kind != "bounds" or finding.buffer != "shared memory" or finding.hint:
        return finding
    for node in below(at.tree.root, "declaration"):
        names = dict(typed(node, at.tree)) if "__shared__" in at.tree.of(node) else {}
        for name in names:
            if re.search(rf"\b{name}\b", _line_text(at)):
                where = f"{at.tree.of(node).rstrip(';')} of line {node.start_point[0] + 1}"
                return replace(finding, allowed=f"{finding.allowed}: {where}")
    return finding


_RULES = (_by_update, _by_fence, _by_calls, _by_branch, _by_turns, _by_first_value, _by_shuffle, _by_shared_array)
