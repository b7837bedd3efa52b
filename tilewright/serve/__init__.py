"""For other programs: a judge of what strangers submit, findings as SARIF, commands as tools for agents.

A judge, in the order in which to read:

    submission      what is sent: a kernel, a declaration of its arguments, a reference; all of it data; sizes drawn
                    from the declaration, and the arrays of each
    confine         the walls around a process, and a witness of what it tries
    apart           work in a forked process, with limits
    unaware         a process that has never seen the request
    reading         the author's Python behind walls, and the kernel that it hands on
    jitted          a kernel of Triton, whose compiler works behind walls, too
    judge           one submission, from JSON to a verdict on every case
    workers         processes that have imported everything, and fork for each submission
    server          lines of JSON, and HTTP on this machine

Problems of competitions:

    problem         a folder with a task, a reference and a submission
    arrays          results as bytes that no pickle reads
    on_cpu          torch without a GPU; inline: its ``load_inline``
    contest         a verdict for each test

Besides: ``sarif`` (findings for code hosts), ``answers`` (a command in a process of its own), ``pages`` (the
documentation, searched), ``mcp`` (both as tools of the Model Context Protocol).
"""
