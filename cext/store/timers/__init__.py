"""Timers: messages that wait for their time.

    timer_heap          entries in memory
    timer_run           a sorted file of entries
    timer_keeper        the thread and its checkpoint
    keeper_state        the thread's memory, and what it shares with the reactor
    keeper_runs, keeper_batches, keeper_merge   makes runs; hands entries back; merges runs
    timer_checkpoint, timer_position    which runs there are; how far messages are delivered

cext/flow/delay decides what is delivered when.
"""
