"""Dispatch: from the core's reports to handlers and back, fairly.

    dispatcher          poll, decode, look up the handler, answer
    fair_queue          takes requests from all connections in turn
    request             what a handler gets and may give back
    topic_creations     makes topics that waiting sends, or the core, ask for
    body_cache          keeps response bodies that are the same for every client
    response_times      how long control took to answer
    slow_requests       logs requests that took long

All of it runs on the control thread's loop.
"""
