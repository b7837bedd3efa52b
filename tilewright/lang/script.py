"""Scripts: a kernel as text, as `ir.printer.script` writes it, back to the kernel."""

from __future__ import annotations

import ast
import re

from tilewright import layout
from tilewright.errors import KernelError
from tilewright.ir import Kernel
from tilewright.lang.functions import parse
from tilewright.lang.parser import Source, read_text
from tilewright.lang.t import T
from tilewright.lang.tx import Tx

_NAMES: dict[str, object] = {"T": T, "Tx": Tx, "range": range, "slice": slice}
_NAMES.update((name, getattr(layout, name)) for name in layout.__all__)
_COMMENT = re.compile(r"^( +)# (.*)$", re.MULTILINE)


def parse_script(text: str) -> Kernel:
    """The kernel that a printed script describes: equal to the one that was printed.

    What is written is taken as it is: nothing is folded, and an indented line ``# ...`` is a comment of the kernel. The
    script sees ``T``, ``Tx`` and the names of `tilewright.layout`.
    """
    source = read_text(_COMMENT.sub(lambda comment: f'{comment[1]}T.attr({{"comment": {comment[2]!r}}})', text))
    return parse(source, _NAMES.__getitem__, {}, stage=_stage(source), exact=True)


def _stage(source: Source) -> str:
    """The stage that the decorator states."""
    for decorator in source.function.decorator_list:
        if ast.unparse(decorator).startswith("T.prim_func"):
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            stages = [ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg == "stage"]
            return stages[0] if stages else "tile"
    raise KernelError("the script's function is no kernel", allowed="@T.prim_func", at=source.span(source.function))
