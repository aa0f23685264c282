"""Collector: how often processes of rmq look for garbage; imported before everything else.

A start makes some 50,000 objects that stay (modules, classes, functions), and with Python's 700
eighty collections would look through all of them, a tenth of the start.
"""

import gc

gc.set_threshold(20_000)
