"""Append status: why a message became no record, where Status (cext/base/status.pxd) has no word.

append_message(), append_redirected() and the functions that call them return OK, a Status, or one
of these; the numbers of the two do not overlap. What a client is told for each is in the handlers'
tables of refusals (cext/flow/context/refusal.pxd).
"""

cdef enum AppendStatus:
    # Properties or sys flag ask for a delay, a timer or a transaction, and the Message says
    # plain_only: it must be stored under another topic first (redirect.pxd).
    SPECIAL = -100
    # The sys flag says "transaction" and the properties do not, or transactions are rejected.
    NO_TRANSACTION = -101
    # Delay levels or system topics are not known yet: the broker is starting.
    NOT_STARTED = -102
    # Behind the oldest open half message lie more half messages than can be kept track of.
    TOO_MANY_OPEN = -103
    # The delay is not a number, or is longer than timerMaxDelaySec; or a deletion comes too late.
    TIMER_ILLEGAL = -104
    # timerWheelEnable=false
    TIMER_OFF = -105
    # A log with a store pool said NOT_READY: the pool is full.
    STORE_POOL_FULL = -106
    # The message is to delete a timed message of another topic.
    DELETES_ELSEWHERE = -108
    # The log is a copy of another core's (cext/flow/context/role.pxd).
    NOT_MASTER = -107
