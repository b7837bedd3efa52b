"""Advice without a GPU: the accesses that cause bank conflicts and extra sectors, and the layout without them.

In the order in which to read: accesses (the addresses of a run), tiles (a buffer of shared memory, and the kernel with
another layout of it), candidates (layouts to try), search (what each would cost), advice (proved by a run).
"""

from tilewright.advise.advice import Advice, Choice, LayoutChange, Refused, advise, search

__all__ = ["Advice", "Choice", "LayoutChange", "Refused", "advise", "search"]
