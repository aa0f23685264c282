"""Append status: why a message became no record, where Status (cext/base/status.pxd) has no word.

append_message(), append_redirected() and what calls them return OK, a Status, or one of these. The
numbers do not meet those of Status. What a client is told for each: the tables of refusals of the
handlers (cext/flow/context/refusal.pxd).
"""

cdef enum AppendStatus:
    # Properties or sys flag ask for a delay, a timer or a transaction, and the message says
    # plain_only: it has to be stored under another topic first (redirect.pxd).
    SPECIAL = -100
    # The sys flag says "transaction", the properties do not, or transactions are rejected.
    NO_TRANSACTION = -101
    # Delay levels or system topics are not known yet: the broker is starting.
    NOT_STARTED = -102
    # More half messages than are kept account of lie behind the oldest open one.
    TOO_MANY_OPEN = -103
    # The delay is no number, or longer than timerMaxDelaySec; or a deletion comes too late.
    TIMER_ILLEGAL = -104
    # timerWheelEnable=false
    TIMER_OFF = -105
    # NOT_READY of a log with a store pool: the pool is full.
    STORE_POOL_FULL = -106
    # It is to delete a timed message of another topic.
    DELETES_ELSEWHERE = -108
    # The log is a copy of another core's (cext/flow/context/role.pxd).
    NOT_MASTER = -107
