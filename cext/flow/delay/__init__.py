"""Delay: messages that are delivered later.

How messages get here, and whether they may (the highest level, timerMaxDelaySec, messages that are
due already), is in the redirect of cext/flow/transaction, because half messages go the same way.

    delay_service       the service

Delay levels

    delay_level         what the reactor keeps of a level
    schedule            delivery from SCHEDULE_TOPIC_XXXX, level by level

Timed messages, to the millisecond

    timer               what the reactor keeps of them
    timer_feed          from their queue into the heaps: when each is due, and by which clock
    timer_turn          what timed messages do in a turn
    timer_delivery      messages that are due: delivered, stored anew, or dropped
    recall_table        recalled messages, until they would have been due
    timer_lifecycle     the start and the stop

The heaps and files themselves are in cext/store (its timer files).
"""
