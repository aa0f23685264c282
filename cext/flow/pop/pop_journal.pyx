"""Where groups that pop go on in their queues. See pop_journal.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.byteorder cimport load_u32
from cext.base.status cimport NOT_FOUND, NOT_READY, OK
from cext.store.log.commit_log cimport segment_end
from cext.store.log.log_window cimport LogWindow, window_at
from cext.store.log.record cimport (
    AT_MAGIC,
    RECORD_BYTES_MIN,
    RecordView,
    is_record_magic,
    record_parse,
)
from cext.wire.properties cimport find_property
from cext.wire.revive_entry cimport ReviveEntry, read_revive_entry
from cext.wire.system_topics cimport TIMER_TOPIC, TIMER_TOPIC_BYTES, is_named
from cext.wire.text cimport Text, text_equals, text_i64

from rmq.errors import StoreError

cdef enum:
    WINDOW_BYTES = 4 << 20


cdef int next_record(LogWindow window, int64_t* at, int64_t end, RecordView* out) noexcept nogil:
    """The record at `at`, which then moves behind it. NOT_READY: there are no more."""
    cdef int64_t stop, size
    cdef int status
    while at[0] < end:
        stop = min(segment_end(window.log, at[0]), end)
        status = window.fill(at[0], min(stop - at[0], <int64_t> RECORD_BYTES_MIN), stop)
        if status != OK:
            return status
        if stop - at[0] >= RECORD_BYTES_MIN:
            size = load_u32(window_at(window, at[0]))
            if (is_record_magic(load_u32(window_at(window, at[0] + AT_MAGIC)))
                    and size <= stop - at[0]):
                status = window.fill(at[0], size, stop)
                if status != OK:
                    return status
        status = record_parse(window_at(window, at[0]),
                              <uint64_t> min(stop - at[0], window.end - at[0]), at[0], False, out)
        if status == OK:
            at[0] += out.total_bytes
            return OK
        if status != NOT_FOUND:
            return NOT_READY
        at[0] = segment_end(window.log, at[0])
    return NOT_READY


cdef bint is_pop(const RecordView* view, const uint8_t* revive, uint32_t revive_bytes,
                 int64_t* following) noexcept nogil:
    """Whether the record is a check point where its pop wrote it."""
    cdef Text found
    if is_named(view.topic, view.topic_bytes, TIMER_TOPIC, TIMER_TOPIC_BYTES):
        if not find_property(view.properties, view.properties_bytes, b"REAL_TOPIC", &found) or (
                not text_equals(&found, <const char*> revive, revive_bytes)):
            return False
    elif view.topic_bytes != revive_bytes or memcmp(view.topic, revive, revive_bytes) != 0:
        return False
    if find_property(view.properties, view.properties_bytes, b"TIMER_ENQUEUE_MS", &found):
        return False
    return (find_property(view.properties, view.properties_bytes, b"POP_NEXT", &found)
            and text_i64(&found, following) == OK and following[0] >= 0)


cdef bint pop_of_record(const RecordView* view, const uint8_t* revive, uint32_t revive_bytes,
                        ReviveEntry* e, int64_t* following) noexcept nogil:
    cdef uint32_t used = 0
    return (is_pop(view, revive, revive_bytes, following)
            and read_revive_entry(view.body, view.body_bytes, e, &used) == OK
            and e.topic.bytes != NULL and e.group.bytes != NULL
            and not e.topic.escaped and not e.group.escaped)


cdef int next_pop(LogWindow window, const uint8_t* revive, uint32_t revive_bytes, int64_t* at,
                  int64_t end, ReviveEntry* e, int64_t* following) noexcept nogil:
    """Finds the next check point; its texts are valid until the next call."""
    cdef RecordView view
    cdef int status
    while True:
        status = next_record(window, at, end, &view)
        if status != OK:
            return status
        if pop_of_record(&view, revive, revive_bytes, e, following):
            return OK


cdef dict popped_since(CommitLog log, bytes revive_topic, int64_t start, int64_t end):
    cdef LogWindow window = LogWindow(log, WINDOW_BYTES)
    cdef const uint8_t* revive = <const uint8_t*> <char*> revive_topic
    cdef uint32_t revive_bytes = <uint32_t> len(revive_topic)
    cdef int64_t at = start, following = 0
    cdef ReviveEntry e
    cdef int status
    found = {}
    while True:
        with nogil:
            status = next_pop(window, revive, revive_bytes, &at, end, &e, &following)
        if status == NOT_READY:
            return found
        if status != OK:
            raise StoreError(f"the log at offset {at} cannot be read (status {status})")
        key = ((<char*> e.topic.bytes)[:e.topic.length], (<char*> e.group.bytes)[:e.group.length],
               e.queue_id)
        if following > found.get(key, -1):
            found[key] = following
