"""Commands for other programs: what they ask, answered by processes of their own.

Read in this order: ``answers`` (a command in a process, with a limit of time), ``pages`` (the documentation, searched),
``mcp`` (the same as tools of the Model Context Protocol, for agents).
"""
