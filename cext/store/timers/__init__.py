"""Timers: messages that wait for their time.

    timer_heap          in memory
    timer_run           a sorted file
    timer_keeper        the thread
    timer_checkpoint, timer_position    how far

What is delivered when is decided in cext/flow/delay.
"""
