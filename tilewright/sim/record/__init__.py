"""A run that is kept to be looked at: which warp did what, in which order, and what it waited for.

recording       what is kept, as plain data; the events of one warp while they are written; barriers and phases that
                they refer to
rows            the statements of a kernel, with what one execution of each counts
recorder        what one access of a warp costs: bytes, wavefronts, sectors; the subscriber of a run's events
"""

from tilewright.sim.record.recorder import Recorder
from tilewright.sim.record.recording import Recording, RecordingOptions, Row
from tilewright.sim.record.rows import row_of, row_of_call

__all__ = ["Recorder", "Recording", "RecordingOptions", "Row", "row_of", "row_of_call"]
