"""What `custom_kernel` gets, and what it returns."""

from typing import TypedDict

import numpy as np

input_t = tuple[np.ndarray, np.ndarray]
output_t = np.ndarray


class TestSpec(TypedDict):
    rows: int
    columns: int
    seed: int
