"""Advice without a GPU: the accesses that cause bank conflicts and extra sectors, and the layout without them.

In the order in which to read: accesses (the addresses of a run), advice (a buffer of shared memory, layouts to try,
what each would cost, and those that a run has proved).
"""

from tilewright.advise.advice import Advice, Choice, LayoutChange, Refused, advise, search

__all__ = ["Advice", "Choice", "LayoutChange", "Refused", "advise", "search"]
