"""From a lowered kernel to Python: it is cut into segments, and each becomes one function over arrays.

prepare, loops      what is done before the cut; loops that wait
segments            the cuts, at places where threads may wait
axes                over what each value varies: CTAs, warps, lanes, or nothing
compiled            all of it: a kernel with a function for each segment
emitter, source, nesting
                    what the parts of the generator share; the text, and text that is nested too deep for Python
functions           statements
expressions, addressing, calls
                    values, addresses in parts, calls of the instruction table
fusing              runs of products that `tilewright.sim.fast` does at once
"""
