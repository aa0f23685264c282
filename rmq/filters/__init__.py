"""Message filters: SQL92 expressions, and functions of the broker's owner in a process apart.

    sql92               from an expression's text to what the reactor runs, by way of
    tokens, parser, tree    text -> words -> tree
    program             tree -> instructions, which the reactor runs for each message
    functions           the owner's functions, named in the settings
    worker              the process in which one of them runs

The reactor runs the programs; nothing of this runs for a message but the worker.
"""
