"""Transaction: half messages, their ends, and the questions about open ones.

    transaction_service     the service
    redirect                sends that are stored under another topic first: half, delayed, timed
    open_halves             which half messages are open, a bit for each
    transaction_end         commit and rollback (37)
    check_backs             producers are asked about what stays open (39)
    check_table             which connections of a producer group may be asked

Control says when producers are asked and by which rules: rmq/broker/tasks.
"""
