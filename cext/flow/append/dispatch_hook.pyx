"""Dispatch hook. See dispatch_hook.pxd."""

cdef OnNews on_news = NULL
cdef OnReplayed on_replayed = NULL


cdef void dispatch_hook(OnNews news, OnReplayed replayed) noexcept nogil:
    global on_news, on_replayed
    on_news = news
    on_replayed = replayed


cdef void dispatch_call(ShardState s, const Dispatch* d) noexcept nogil:
    on_news(s, d)


cdef int64_t dispatch_replayed(ShardState s, const RecordView* view) noexcept nogil:
    return on_replayed(s, view)
