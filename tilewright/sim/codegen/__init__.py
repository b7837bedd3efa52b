"""From a lowered kernel to Python: it is cut into segments, and each becomes one function over arrays.

values          what statements give and read, what expressions depend on, where threads wait
prepare, loops  the passes before the cut; loops that wait; strong reads that decide a branch, and nothing else; the
                barriers that threads may skip, and what they do behind them; scalars of compiled code, loaded in the
                lanes that use them
axes            over what each value varies: CTAs, warps, lanes, or nothing
cut             the cut: blocks that end where threads may wait; live variables; and which blocks are one segment
source          the state that generators share; the text, and text that is nested too deep for Python
expressions, addressing, substitution
                values, calls of the instruction table, addresses in parts: plain functions over one emitter; in
                compiled code addresses are written out first, those that go on by a step too, and then taken apart
functions       in compiled code, unknown bits and how operations spread them; statements, and the function of a
                segment
fusing          runs of products, loads and copies that `tilewright.sim.fast` does at once
compiled        a kernel with all of that, and what may be poison
"""
