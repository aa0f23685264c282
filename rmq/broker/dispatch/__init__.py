"""Dispatch: from the core's reports to handlers and back, fairly.

    dispatcher          poll, decode, look up the handler, answer
    fair_queue          the connections' requests in turn
    request             what a handler gets and may give back
    topic_creations     topics made as sends, which wait, or the core need them
    body_cache          bodies that are the same for everybody are made once
    response_times      how long control took to answer
    slow_requests       what took long is logged

All of it runs on the control thread's loop.
"""
