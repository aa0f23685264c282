"""Collector: how often processes of rmq collect garbage; imported before everything else.

A start makes some 50,000 objects that stay: modules, classes, functions. With Python's thresholds
eighty collections would look through all of them, which takes a tenth of the time of the start.
Others would follow at the end of the process, which gives its memory back anyway.
"""

import atexit
import gc

gc.set_threshold(20_000)
atexit.register(gc.freeze)
