"""No row of the instruction table that the GPU has is without a comparison. Needs no GPU."""

from __future__ import annotations

from tests.gpu.rows import IN_PROGRAMS, WITHOUT_VALUES, admitted, forms
from tests.isa.assembling import every_form


def test_every_row_of_the_gpu_is_compared_with_it_or_leaves_nothing_to_compare() -> None:
    on_their_own = {bound.instruction.name for bound in forms()}
    everything = {bound.instruction.name for bound in admitted()}

    assert not on_their_own & (IN_PROGRAMS | WITHOUT_VALUES)
    assert everything <= on_their_own | IN_PROGRAMS | WITHOUT_VALUES
    assert on_their_own | IN_PROGRAMS | WITHOUT_VALUES <= {bound.instruction.name for bound in every_form()}
    assert not [bound.instruction.name for bound in forms() if bound.form.sync or bound.form.signals]
