"""Which sizes the text of a kernel compares with anything, as a guard of the last CTA does: ``if (i < n) return``,
``min(i, n - 1)``, ``LOOP(i, n)`` of a macro with a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import lcm
from typing import TYPE_CHECKING

from tilewright.load.cu_host import macros_of
from tilewright.load.cu_tree import bare, below, closed, pieces, tree_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from tilewright.load.cu_tree import Tree

COMPARES = ("<", ">", "<=", ">=", "==", "!=")
_CLAMPS = re.compile(r"\b(?:min|max|fmin|fmax|clamp)\w*\b|[\w)\]]\s*(?:<=?|>=?|[!=]=)\s*[\w(]")
_CALL = re.compile(r"\b(?!(?:if|while|switch|return|sizeof)\b)(\w+)\s*\(")
PLAIN = re.compile(r"\b(?:u?int\d*_t|int|unsigned|long|float|double|size_t|const|static_cast|auto)\b")
_OF_THREADS = frozenset({"threadIdx", "blockIdx"})
_VECTORS = re.compile(r"\b(?:u?(?:char|short|int|long)[248]|float[24]|double2|(?:__)?half2|\w*bfloat162)\b")
_IN_VECTORS = re.compile(rf"{_VECTORS.pattern}|/\s*[48]\b")
_LARGEST = re.compile(r"\bU?INT(?:32)?_MAX\b|\b2147483647\b|0x7fffffff|32BitIndex|numeric_limits<\s*u?int", re.I)
_DEPTH = 3  # of functions and macros that call each other
MOST_MULTIPLE = 1024  # that a size is asked to be one of
MOST_PARTS = 8  # of a row, where its size is divided by as many


def compares(texts: Sequence[str], kernel: str, names: Collection[str]) -> bool | None:
    """Does a kernel compare a size, or what it makes of sizes alone? names: parameters, or members of such, that hold
    it. None where it does not even use it.
    """
    for tree, node in kernel_nodes(texts, bare(kernel)):
        body = node.child_by_field_name("body")
        if body is None:
            continue
        words = {tree.of(name) for name in below(body, "identifier", "field_identifier")}
        if not words & {*names}:
            return None
        sizes = _with_products(tree, body, names)
        return _is_compared(tree, body, sizes) or _is_handed_on(tree.of(body), texts, sizes, _DEPTH)
    return True  # of a kernel that is not seen nothing is sure


def guards(texts: Sequence[str], kernel: str, names: Collection[str]) -> bool:
    """Does a kernel whose threads do not go on by all CTAs compare a size in the condition of a branch?"""
    for tree, node in kernel_nodes(texts, bare(kernel)):
        if "gridDim" not in tree.of(node):
            return any(operator in COMPARES and names_in(f"{left} {right}") & {*names} and _is_condition(compared)
                       for compared, left, operator, right in operations(tree, node))  # fmt: skip
    return False


def lets_in(texts: Sequence[str], kernel: str, names: Collection[str]) -> bool:
    """Does a kernel let an index be as large as a size, ``if (i <= n)`` or ``if (i > n) return``, or as what it makes
    of sizes alone, in texts that speak of no ``n + 1`` that would be meant? names: what hold the size, members of
    structures by their own names.
    """
    for tree, node in kernel_nodes(texts, bare(kernel)) if names else ():
        body = node.child_by_field_name("body")
        sizes = _with_products(tree, body, names) if body is not None else {*names}
        listed = "|".join(map(re.escape, sizes))
        one_more = re.compile(rf"\b(?:{listed})\s*\+\s*1\b|\b1\s*\+\s*(?:{listed})\b")
        if any(one_more.search(text) for text in texts):
            return False
        for compared, left, operator, right in operations(tree, node):
            if (operator in ("<=", ">") and _member(right) in sizes and left.isidentifier()) or (
                operator in (">=", "<") and _member(left) in sizes and right.isidentifier()
            ):
                return _is_condition(compared) or _is_of_threads(tree, node, compared)
    return False


def _member(text: str) -> str:
    """``n`` of ``p.n`` and ``p->n``; any other text itself."""
    return re.sub(r"^[\w.]+(?:\.|->)(?=\w+$)", "", text)


def _is_of_threads(tree: Tree, kernel: Node, compared: Node) -> bool:
    """Is a comparison the condition of a loop that each thread begins elsewhere, ``for (i = threadIdx.x; i <= n; ...``,
    also by a variable that is made of these?
    """
    loop = compared.parent
    if loop is None or loop.type != "for_statement":
        return False
    begin = tree.of(loop).partition(";")[0]
    words = {*re.findall(r"[^\W\d]\w*", begin)}
    declared = re.findall(r"(\w+)\s*=([^;=]*\b(?:threadIdx|blockIdx)\b)", tree.of(kernel))
    return bool(words & {*_OF_THREADS, *(name for name, _ in declared)})


def holds_addresses(texts: Sequence[str], kernel: str, name: str) -> bool:
    """Does a kernel make pointers of the elements of an array: ``(const float*)ptrs[i]``?"""
    cast = re.compile(rf"\*\s*(?:(?:const|__restrict__)\s*)*(?:>\s*\(|\))\s*{re.escape(name)}\s*\[")
    return any(cast.search(tree.of(node)) for tree, node in kernel_nodes(texts, bare(kernel)))


def holds_ranges(text: str, name: str) -> bool:
    """Are an array's elements where ranges begin: does a text read ``a[i]``, or ``a[i + 0]``, and ``a[i + 1]``?"""
    inner = rf"\b{re.escape(name)}\s*\[((?:[^\[\]]|\[[^\[\]]*\])+)\]"
    places = {re.sub(r"\s|\+\s*0\s*$", "", place) for place in re.findall(inner, text)}
    return any(f"{place}+1" in places or f"1+{place}" in places for place in places)


def compares_neighbours(text: str, name: str) -> bool:
    """Does a text ask whether neighbours are equal, ``a[i] != a[i + 1]``, and make no ranges of them?"""
    element = rf"\b{re.escape(name)}\s*\[[^\[\]]*\]"
    compared, used = rf"{element}\s*[!=]=\s*{element}", rf"[-<]=?\s*{element}|{element}\s*-|=\s*{element}"
    return bool(re.search(compared, text)) and not re.search(used, re.sub(compared, "", text))


def asks_for_multiples(texts: Sequence[str], name: str) -> bool:
    """Do texts ask whether a size, or what they call it, ``n = x.size(0)``, is a multiple of something?"""
    words = "|".join(map(re.escape, _called(texts, name)))
    asks = re.compile(rf"(?<![\w.])(?:{words})\s*\)?\s*%\s*\w+\s*\)?\s*[!=]=\s*0|!\s*\(\s*(?:{words})\s*%")
    return any(map(asks.search, texts))


def _called(texts: Sequence[str], name: str) -> list[str]:
    """What texts call a size: by its name, and by others that it is put into, ``n = x.size(0)``."""
    called = rf"\b(\w+)\s*=\s*(?:\(\w+\)|static_cast<\w+>\(|\w+\()?\s*{re.escape(name)}\s*\)?\s*[;,]"
    return list(dict.fromkeys([name, *(word for text in texts for word in re.findall(called, text))]))


def multiple_of(texts: Sequence[str], name: str) -> int:
    """The constant of which texts ask a size to be a multiple, ``assert(n % 128 == 0)``; 1 where they ask for none."""
    names = "|".join(map(re.escape, _called(texts, name)))
    size = rf"(?<![\w.>])(?:{names})\s*\)?\s*%\s*(\w+)\s*\)?\s*==\s*0"
    asks = re.compile(rf"(?:ASSERT|CHECK|assert)\w*\s*\([^;]*?{size}")
    words = {word for text in texts if "%" in text for word in asks.findall(text)}
    said = {word: re.search(rf"\b{word}\s*=\s*(\d+)\s*;", "\n".join(texts)) for word in words}
    constants = [int(match[1] if match is not None else word) for word, match in said.items()
                 if word.isdecimal() or match is not None]  # fmt: skip
    return lcm(*constants) if all(0 < constant <= MOST_MULTIPLE for constant in constants) else 1


def asks_for_32_bits(texts: Sequence[str]) -> bool:
    """Do texts speak of the largest number of 32 bits, as of one below which sizes stay?"""
    return any(map(_LARGEST.search, texts))


def has_vectors(texts: Sequence[str], *, divided: bool = False) -> bool:
    """Do texts name vectors of a few elements? divided: or divide anything into such?"""
    return any(map((_IN_VECTORS if divided else _VECTORS).search, texts))


def divisor_of(texts: Sequence[str], name: str) -> int:
    """The constant by which texts divide a size, as halves of a row, rounding nothing up: ``x.size(-1) / 2``; 1 of any
    other. Any extent from behind may be meant, and so may all elements.
    """
    tensor, _, place = name.partition(".size(")
    asked = rf"(?:size\s*\(\s*(?:{re.escape(place[:-1])}|-\d)\s*\)|numel\s*\(\s*\))"
    size = re.escape(tensor) + (rf"\s*\.\s*{asked}" if place else "")
    divided = re.compile(rf"(?<![\w.)])(?<![-+*/%])(?<![-+*/%]\s){size}\s*/\s*(\d+)\b(?!\s*[+.])")
    constants = {int(constant) for text in texts for constant in divided.findall(text)} - {0}
    return lcm(*constants) if all(constant <= MOST_PARTS for constant in constants) else 1


def first_of(texts: Sequence[str], name: str) -> int | None:
    """The number below 0 that kernels ask elements of an array for, ``a[i] == -1`` and ``atomicCAS(&a[i], -1, ...)``,
    as of what nobody has set yet.
    """
    word = re.escape(name)
    asked = rf"\b{word}\s*\[[^;{{}}]*?\]\s*[!=]=\s*(-\d+)|\batomicCAS\s*\(\s*&?\s*{word}\b[^,;]*,\s*(-\d+)"
    numbers = [int(first or then) for text in texts if name in text for first, then in re.findall(asked, text)]
    return numbers[0] if numbers else None


def only_reads(texts: Sequence[str], kernel: str, name: str) -> bool:
    """Does a kernel take elements of an array, ``a[i]``, and do nothing else with it?"""
    word = rf"(?<![\w.]){re.escape(name)}\b"
    place = r"\[(?:[^\[\];]|\[[^\[\]]*\])*\]"
    changes = r"(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    sets = re.compile(rf"(?:&|\+\+|--)\s*{word}|{word}\s*{place}\s*{changes}|{word}(?!\s*\[)")
    bodies = [tree.of(body) for tree, node in kernel_nodes(texts, bare(kernel))
              if (body := node.child_by_field_name("body")) is not None]  # fmt: skip
    return any(re.search(word, text) for text in bodies) and not any(map(sets.search, bodies))


def is_count(text: str, name: str) -> bool:
    """Does a kernel read one element of an array alone, ``*n`` or ``n[0]``, as of a number that another has counted?"""
    word = re.escape(name)
    element = rf"\*\s*(?:(?:const|__restrict__|__restrict)\s+)*{word}\b(?!\s*\[)|\b{word}\s*\[\s*0\s*\]"
    every = len(re.findall(rf"\b{word}\b", text))
    is_set = re.search(rf"(?:{element})\s*\)?\s*(?:[-+*/|&^]?=(?!=)|\+\+|--)|&\s*(?:{element})", text)
    return every > 1 and len(re.findall(element, text)) == every and not is_set


def shares(texts: Sequence[str], name: str, others: Collection[str]) -> bool:
    """Do texts divide a number by one of others, ``channels / groups``, rounding it up by nothing?"""
    listed = "|".join(re.escape(other) for other in others if other.isidentifier())
    divided = re.compile(rf"(?<![\w.)])(?<![/%])(?<![/%]\s){re.escape(name)}\s*[/%]\s*(?:{listed})\b(?!\s*[+(.])")
    return bool(listed) and any(divided.search(text) for text in texts)


def choice_of(texts: Sequence[str], name: str) -> int | None:
    """The first constant that texts compare a number with, where they do nothing else with it but hand it on, as with
    the number of an axis or of a mode: ``if (axis == 1)``, ``case 1:``. None of any other number.
    """
    if not name.isidentifier():
        return None
    constants = list[int]()
    for text in texts:
        tree = tree_of(text) if name in text else None
        for node in below(tree.root, "identifier") if tree is not None else ():
            if tree is None or tree.of(node) != name:
                continue
            chosen = _compared_with(tree, node)
            if chosen is None and not _is_handed(node):
                return None
            constants += chosen or []
    return constants[0] if constants else None


def _compared_with(tree: Tree, node: Node) -> list[int] | None:
    """The constants with which a switch, or a comparison for equality, compares a name; None of any other place."""
    above = node.parent
    while above is not None and above.type in ("parenthesized_expression", "condition_clause"):
        node, above = above, above.parent
    if above is not None and above.type == "switch_statement" and above.child_by_field_name("condition") == node:
        cases = (case.child_by_field_name("value") for case in below(above, "case_statement"))
        return [int(tree.of(value)) for value in cases if value is not None and tree.of(value).isdigit()]
    if above is None or above.type != "binary_expression":
        return None
    operator = above.child_by_field_name("operator")
    if operator is None or tree.of(operator) not in ("==", "!="):
        return None
    sides = (above.child_by_field_name(side) for side in ("left", "right"))
    words = [tree.of(side) for side in sides if side is not None and side != node]
    return [int(word) for word in words] if all(word.isdigit() for word in words) else None


def _is_handed(node: Node) -> bool:
    """Is a name declared, or an argument of a call or a launch?"""
    return node.parent is not None and node.parent.type in ("parameter_declaration", "argument_list", "init_declarator")


def _is_condition(node: Node) -> bool:
    """Does a comparison stand in the condition of a branch, and not in that of a loop?"""
    above = node.parent
    while above is not None and above.type in ("binary_expression", "parenthesized_expression", "condition_clause"):
        above = above.parent
    return above is not None and above.type == "if_statement"


def kernel_nodes(texts: Sequence[str], name: str) -> Iterator[tuple[Tree, Node]]:
    """The definitions of a kernel, by its bare name, in their trees."""
    for text in texts:
        for piece in pieces(text) if "__global__" in text else ():
            for node in below(piece.node, "function_definition") if piece.kernel and piece.node is not None else ():
                head = next(below(node, "function_declarator"), None)
                declarator = head.child_by_field_name("declarator") if head is not None else None
                if declarator is not None and bare(tree_of(text).of(declarator)) == name:
                    yield tree_of(text), node


def _with_products(tree: Tree, body: Node, names: Collection[str]) -> set[str]:
    """The names, and those of variables that are made of them and of no variable that differs between threads."""
    made = [(tree.of(declared), {*re.findall(r"[^\W\d]\w*", PLAIN.sub("", tree.of(value)))})
            for declarator in below(body, "init_declarator")
            if (declared := declarator.child_by_field_name("declarator")) is not None
            and (value := declarator.child_by_field_name("value")) is not None]  # fmt: skip
    sizes, local = {*names}, {name for name, _ in made}
    for name, words in made:
        if words & sizes and not words & ((local - sizes) | _OF_THREADS):
            sizes.add(name)
    return sizes


def _is_compared(tree: Tree, body: Node, sizes: Collection[str]) -> bool:
    """Does a comparison, not what stands between brackets in it, name one of these?"""
    return any(operator in COMPARES and names_in(tree.of(node)) & {*sizes}
               for node, _, operator, _ in operations(tree, body))  # fmt: skip


def operations(tree: Tree, body: Node) -> Iterator[tuple[Node, str, str, str]]:
    """The operations on two values, each with its left side, its operator and its right side."""
    for node in below(body, "binary_expression"):
        sides = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
        left, operator, right = (tree.of(side) if side is not None else "" for side in sides)
        yield node, left, operator, right


def names_in(text: str) -> set[str]:
    """The names in a text but those between square brackets."""
    plain = re.sub(r"\[[^\[\]]*\]", " ", re.sub(r"\[[^\[\]]*\]", " ", text))
    return {*re.findall(r"[^\W\d]\w*", plain)}


def _is_handed_on(body: str, texts: Sequence[str], sizes: Collection[str], depth: int) -> bool:
    """Does a function or macro with a comparison, or a minimum, get one of these?"""
    macros = {name: body for text in texts for name, _, body in macros_of(text)}
    for call in _CALL.finditer(body):
        handed = body[call.end() : closed(body, call.end()) - 1]
        if names_in(handed) & {*sizes} and _may_compare(call[1], macros, texts, depth):
            return True
    return False


def _may_compare(name: str, macros: Mapping[str, str], texts: Sequence[str], depth: int) -> bool:
    if _CLAMPS.fullmatch(name):
        return True
    body = macros.get(name) or next(_bodies(name, texts), "")
    if _CLAMPS.search(body):
        return True
    return depth > 0 and any(_may_compare(call[1], macros, texts, depth - 1) for call in _CALL.finditer(body))


def _bodies(name: str, texts: Sequence[str]) -> Iterator[str]:
    """The bodies of the functions of a name."""
    for text in texts:
        for start in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
            behind = closed(text, start.end())
            if opening := re.compile(r"\s*(?:const\s*|noexcept\s*)*\{").match(text, behind):
                yield text[opening.end() : closed(text, opening.end(), "{}")]
