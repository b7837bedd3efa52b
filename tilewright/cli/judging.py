"""The commands that judge a kernel: what to change in its layouts, and whether it is right."""

from __future__ import annotations

from tilewright.cli.options import Arch, Const, Place, Seed, Sizes, Values

__all__ = ["advise"]


def advise(
    place: Place,
    arg: Values = None,
    size: Sizes = None,
    const: Const = None,
    arch: Arch = None,
    seed: Seed = 0,
) -> None:
    """Say which lines cost more passes of memory than they need, and which layout takes that away.

    The kernel's source, and under each line what its accesses take: wavefronts of shared memory and sectors of global
    memory, against the ideal, and which lanes meet. Then, for each buffer of shared memory with conflicts, the swizzle
    or padding with the fewest, found by what all accesses of the buffer need; each was compiled and run, with equal
    results. Or why none is better.

    \b
    Examples:
      tilewright advise examples/transpose.py:plain
      tilewright advise kernels.py:stage --size n=1000 --arch sm_90a
    """
    from tilewright.cli.running import Inputs, advised
    from tilewright.view.terminal import say

    say(str(advised(place, arch, const or [], Inputs(arg or [], size or [], seed))))
