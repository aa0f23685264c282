"""Message filters: SQL92 expressions, and functions of the broker's owner in a process apart.

    sql92               an expression, compiled: what the reactor runs, and which function
    tokens, parser, tree, program    the steps from its text to that
    functions           the owner's functions, named in the settings
    worker              the process in which one of them runs

The reactor runs the programs; nothing of this runs for a message but the worker.
"""
