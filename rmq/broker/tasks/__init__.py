"""Tasks: what runs at intervals, or once at the start.

    retention           deletes old log files; stops sends while the disk is full
    write_stops         the reasons why sends are refused; there may be several at once
    transaction_checks  asks producers about open transactions, and gives up what is too old
    moved_halves        finds half messages that were stored anew and whose places are forgotten
    pop_recovery        after a kill, finds the offsets of pops that no file has
    truncation          corrects what the files say when the log is cut back

Each is a task on the control thread's loop that the broker starts and stops.
"""
