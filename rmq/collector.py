"""Collector: when processes of rmq look for garbage; imported before everything else.

A start makes some 50,000 objects that stay: modules, classes, functions. With Python's own figures
eighty collections would look through all of them, a tenth of the start, and some more at the end of
the process, which gives its memory back anyway.
"""

import atexit
import gc

gc.set_threshold(20_000)
atexit.register(gc.freeze)
