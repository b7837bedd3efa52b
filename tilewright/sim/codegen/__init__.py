"""From a lowered kernel to Python: it is cut into segments, and each becomes one function over arrays.

prepare, loops      what is done before the cut; loops that wait
segments            the cuts, at places where threads may wait
graphs, pieces, live, divergence, regions, rounds
                    the same for a kernel that is a graph: its blocks cut where threads may wait, what is alive and how
                    it varies, which pieces are one function, and that function under masks
axes                over what each value varies: CTAs, warps, lanes, or nothing
analysis            all of that, what is alive where, and what may be poison
emitter, source, nesting
                    what the parts of the generator share; the text, and text that is nested too deep for Python
expressions, addressing, calls, pure, substitution, lifting
                    values, addresses in parts, calls of the instruction table: plain functions over one emitter; in
                    compiled code addresses are written out first, and then taken apart
unknowns            in compiled code, the bits that nobody wrote and what becomes of them
functions           statements, and the function of a segment
fusing              runs of products that `tilewright.sim.fast` does at once
compiled            a kernel with its functions
"""
