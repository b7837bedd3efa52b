"""What threads know of each other, and how they hand it on.

known           knowledge on its way, and the flags of asynchronous operations
clocks          what each thread knows of every other, and of operations
phases          m-barriers hand knowledge on, phase by phase; the last arrivals and waits, for reports
fences          fences with what comes before each, for those that come after; so do strong writes that come after a
                fence
releases        the chain of what strong writes publish
locations       the values that a location held, and how old a one a read may have found; strong reads observe it
                there, and acquire it
fence_sc        what fences of kind sc put in order
"""
