"""Dispatch hook: what is above the log hears of what is dispatched, and dispatch knows none of it.

    news       a record can be read by consumers: who waits for it is woken
    replayed   the same of a record that was read from the log (replay.pxd), before its entry is
               made: memory that goes with it moves; the answer is the entry's tags code

Set once, before the reactor starts, each with the owner that its function is given.
"""
from libc.stdint cimport int64_t

from cext.flow.append.appender cimport Appender, Dispatch, OnNews, OnReplayed
from cext.store.record cimport RecordView

cdef inline void dispatch_hook(Appender s, OnNews news, void* news_owner, OnReplayed replayed,
                               void* replay_owner) noexcept nogil:
    s.on_news = news
    s.news_owner = news_owner
    s.on_replayed = replayed
    s.replay_owner = replay_owner

cdef inline int64_t dispatch_replayed(Appender s, const RecordView* view) noexcept nogil:
    return s.on_replayed(s.replay_owner, view)

# Costs two looks where nobody waits.
cdef inline void dispatch_news(Appender s, const Dispatch* d) noexcept nogil:
    if d.queue.waiters != NULL or (d.topic != NULL and (d.topic.pop_waiting != NULL
                                                        or d.topic.pop_retry_of != NULL)):
        s.on_news(s.news_owner, d)
