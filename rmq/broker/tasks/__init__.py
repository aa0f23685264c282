"""Tasks: what runs by time or at the start.

    retention           deletes old log files; stops sends while the disk is full
    write_stops         why sends are refused, where there are several reasons
    transaction_checks  when producers are asked about open transactions, and what is given up
    moved_halves        where half messages are whose places nobody remembers
    pop_recovery        after a kill, the offsets of pops that no file has
    truncation          what the files say of a log that is cut back

Each is a task on the control thread's loop that the broker starts and stops.
"""
