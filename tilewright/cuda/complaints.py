"""Messages of ptxas about kernels whose operations hold registers, though it assembles them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tilewright.errors import Span, TargetError
from tilewright.ir import Kernel
from tilewright.isa import calls_in

if TYPE_CHECKING:
    from tilewright.cuda.nvrtc import Assembly

__all__ = ["check_log"]


class Complaint(NamedTuple):
    """A message of ptxas, by its code: what it means, what is right, and what to try."""

    what: str
    allowed: str
    hint: str


COMPLAINTS = {
    "C7508": Complaint(
        "setmaxnreg is ignored: the registers at entry are not known",
        "a kernel that says how many CTAs a multiprocessor runs at least",
        'T.attr({"min_blocks": 1})',
    ),
    "C7511": Complaint(
        "products run one after the other: their registers do not fit",
        "accumulators, A in registers and all else in at most 255 registers of a thread",
        "fewer columns or rows for each warpgroup, or one more warpgroup",
    ),
    "C7515": Complaint(
        "products run one after the other: something else defines their accumulators on the way",
        "accumulators that nothing but products writes between a fence and the wait",
        "the assignment before the fence, or scaleD=False (accum=False) on the first product instead of zeros",
    ),
    "C7517": Complaint(
        "a wait is put in: accumulators are used before the kernel waits for them",
        "uses after a wait that covers their group; a fence before the first product on each accumulator",
        "T.ptx.wgmma.wait_group(0) before the use, or T.ptx.wgmma.fence() before each accumulator's first product",
    ),
    "C7519": Complaint(
        "a fence is put in: registers were used since the last one",
        "a fence between other uses of accumulators and the next product",
        "T.ptx.wgmma.fence() before the product",
    ),
}
CODE = r"\((C75\d\d)\)(.*)"
LINE = r"line (\d+)"


def check_log(assembly: Assembly, kernel: Kernel, entry: str) -> None:
    """Raises TargetError, at the product's line, where ptxas complains of fenced operations, or spills."""
    calls = [(bound, stmt.at) for stmt, bound in calls_in(kernel.body)]
    issues = [(bound.mnemonic, at) for bound, at in calls if bound.form.issue and bound.form.issue.fenced]
    for code, text in re.findall(CODE, assembly.log):
        if code in COMPLAINTS:
            found = COMPLAINTS[code]
            at = _line_of(assembly.ptx, text, issues) or kernel.at
            given = f"ptxas {code}:{text.rstrip()}"
            raise TargetError(
                f"{kernel.name}: {found.what}", given=given, allowed=found.allowed, hint=found.hint, at=at
            )
    if not issues:
        return
    resources = assembly.resources(entry)
    if resources.spill_store_bytes + resources.spill_load_bytes:
        raise TargetError(
            f"{kernel.name}: registers are spilled to memory",
            given=f"{resources.spill_store_bytes} bytes stored, {resources.spill_load_bytes} loaded by each thread",
            allowed="none in a kernel with products that hold registers",
            hint=COMPLAINTS["C7511"].hint,
            at=issues[0][1] or kernel.at,
        )


def _line_of(ptx: str, text: str, issues: list[tuple[str, Span | None]]) -> Span | None:
    """The kernel's line: of the last product at or before the line of PTX that a message names, or of the first."""
    named = re.search(LINE, text)
    before = "\n".join(ptx.splitlines()[: int(named[1])]) if named else ""
    last = max(issues, key=lambda issue: before.rfind(f"{issue[0]} "), default=("", None))
    return last[1]
