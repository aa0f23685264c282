"""Message filters: SQL92 expressions, and functions of the broker's owner.

    sql92               compiles an expression's text to a program, by way of
    tokens, parser, tree    text -> words -> tree
    program             tree -> instructions
    functions           the owner's functions, named in the settings
    worker              the process in which one of these functions runs

The reactor runs the programs, in compiled code. Of the code here only the worker runs once for each
message.
"""
