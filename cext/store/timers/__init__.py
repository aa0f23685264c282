"""Timers: messages that wait for their time.

    timer_heap          in memory
    timer_run           a sorted file
    timer_keeper        the thread and its checkpoint
    keeper_state        what it has in memory, and what goes between it and the reactor
    keeper_runs, keeper_batches, keeper_merge   its files: made, handed back, merged
    timer_checkpoint, timer_position    how far

What is delivered when is decided in cext/flow/delay.
"""
