"""For other programs: a judge of what strangers submit, findings as SARIF, commands as tools for agents.

A judge, in the order in which to read:

    submission      what is sent: a kernel, a declaration of its arguments, a reference; all of it data; sizes drawn
                    from the declaration, and the arrays of each
    confine         the walls around a process, and a witness of what it tries; work in a forked process, with limits;
                    one that has never seen the request
    judge           the author's Python behind walls, and the kernel that it hands on: ours, or Triton's; one
                    submission, from JSON to a verdict on every case
    server          processes that have imported everything, and fork for each submission; lines of JSON, and
                    HTTP on this machine

Besides:

    contest         the problem of a competition: a folder with a task, a reference and a submission; a verdict a
                    test; torch without a GPU, and its ``load_inline`` without a compiler
    sarif           findings for code hosts
    mcp             commands, and the documentation searched, as tools of the Model Context Protocol
"""
