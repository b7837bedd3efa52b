"""Constants of types, ``static constexpr int kBytes = kThreads * sizeof(T);``, by the arguments of their templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.load.cu_tree import bare, below, split, template_parameters, tree_of, with_values

_TYPES = ("struct_specifier", "class_specifier")
_DEPTH = 6  # of constants and names of types that stand for others


def constant_of(texts: Sequence[str], name: str, bound: Mapping[str, str]) -> str | None:
    """The expression that a constant of a type is, ``Traits<128, float>::kBytes``, without names of the type's own;
    None where no text declares it. bound: the types that names stand for around.
    """
    owner, _, member = name.removeprefix("typename ").rpartition("::")
    kind = with_values(bound.get(owner, owner), bound)
    words = _declared(tuple(texts), bare(kind.partition("<")[0]))
    if words is None or member not in words[1]:
        return None
    given = dict(zip(words[0], split(kind.partition("<")[2].rpartition(">")[0]), strict=False))
    text = words[1][member]
    for _ in range(_DEPTH):
        text = with_values(text, words[1])
    return with_values(text, given)


def _declared(texts: tuple[str, ...], kind: str) -> tuple[Sequence[str], dict[str, str]] | None:
    """The names of a type's template parameters, and its constants and names of types, by their names."""
    for tree in (tree_of(text) for text in texts if kind and kind in text):
        for node in below(tree.root, *_TYPES):
            named, body, above = node.child_by_field_name("name"), node.child_by_field_name("body"), node.parent
            if named is None or body is None or above is None or tree.of(named) != kind:
                continue
            words = dict[str, str]()
            for child in body.named_children:
                name, value = child.child_by_field_name("declarator"), child.child_by_field_name("default_value")
                if child.type == "field_declaration" and name is not None and value is not None:
                    words[tree.of(name)] = f"({tree.of(value)})"
                if child.type == "alias_declaration" and (other := child.child_by_field_name("type")) is not None:
                    words[tree.of(child.child_by_field_name("name") or child)] = tree.of(other)
            return template_parameters(above, tree) or [], words
    return None
