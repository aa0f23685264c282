"""Batches of pulls. See pull_batch.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memmove

from cext.base.status cimport ABSENT, OK
from cext.flow.context.role cimport is_slave
from cext.flow.fetch.disk_fetch cimport (
    DiskFetch,
    FetchDone,
    FetchPool,
    fetch_add,
    fetch_begin,
    fetch_entries,
    fetch_into,
)
from cext.flow.pull.held_pulls cimport drop_fetch, free_job, is_outdated, make_ready
from cext.flow.pull.pull_answer cimport (
    answer_damage,
    answer_fetched,
    answer_following,
    answer_found,
    answer_nothing,
    answer_too_large,
    answer_unreadable,
    nothing_new,
    refuse_busy,
    refuse_job,
)
from cext.flow.pull.pull_job cimport JOB_READING, JOB_READY, job_move
from cext.flow.pull.queue_entry_scan cimport (
    RECORD_COST,
    SCAN_ENTRIES_MAX,
    Found,
    is_of_queue,
    record_passes,
    scan_entries,
)
from cext.flow.tables.queue_mapping cimport logic_item_end
from cext.flow.tables.tag_filter cimport tag_filter_passes
from cext.flow.tables.topic_table cimport topic_queue
from cext.store.log.disk_reader cimport READ_FILE, READ_RECORDS_MAX
from cext.store.log.record cimport RecordView, record_parse
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.store.queues.ext_address cimport is_ext_address
from cext.wire.codes cimport (
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    TOPIC_NOT_EXIST,
)

cdef enum:
    ENTRIES_AT_ONCE = 64
    ENTRY_READS_MAX = 8             # fetches of queue entries, then the pull is given up


# ------------------------------------------------------------------- to the disk

cdef void submit(PullService s, PullJob* job) noexcept nogil:
    if s.fetch.pool.submit(job.fetch) != OK:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: the disk "
                    b"readers are behind")
        return
    job_move(job, JOB_READING, 1 << JOB_READY | 1 << JOB_READING)
    s.turn.counters.pulls_from_disk += 1


cdef bint may_pass(PullJob* job, int64_t tags_code) noexcept nogil:
    """Whether the message may pass, judged by its queue entry alone."""
    if not job.tags.all and is_ext_address(tags_code):
        job.tags_from_records = True
        return True
    return tag_filter_passes(&job.tags, tags_code)


cdef int32_t add_records(PullService s, PullJob* job, const QueueEntry* entries,
                         int32_t count) noexcept nogil:
    """Adds as many of the queue's next entries, from job.offset on, as the reply may hold, and sets
    next_offset; returns -1. If the first that may pass is larger than the buffer, returns its index
    and sets job.offset to it."""
    cdef DiskFetch* fetch = job.fetch
    cdef int32_t limit = job.max_messages if job.max_messages > 0 else 1
    cdef int64_t offset = job.offset
    cdef int32_t i
    if limit > s.turn.options.disk_max_messages:
        limit = s.turn.options.disk_max_messages
    if job.sql != NULL:
        limit = READ_RECORDS_MAX            # most records will not pass
    fetch_begin(fetch, True)
    for i in range(count):
        if fetch.read.count >= limit:
            break
        if entries[i].size > 0 and may_pass(job, entries[i].tags_code) \
                and entries[i].physical_offset >= s.append.log.min_offset():
            if fetch.read.count > 0 and (fetch.wanted_bytes + entries[i].size
                                         > <uint64_t> s.turn.options.disk_max_bytes):
                break
            if not fetch_add(fetch, entries[i].physical_offset, entries[i].size, offset):
                if fetch.read.count == 0:
                    job.offset = offset
                    return i
                break
        if entries[i].size > 0:
            job.last_physical = entries[i].physical_offset
        offset += 1
    job.next_offset = offset
    return -1


cdef void read_large(PullService s, PullJob* job, const QueueEntry* entry) noexcept nogil:
    """Reads the record at job.offset alone, into a block of its own. Only stores of other brokers
    have such records."""
    drop_fetch(s, job)
    if <uint64_t> entry.size > s.turn.net.large.bytes_max:
        answer_too_large(s, job, entry)
        return
    job.fetch = s.fetch.pool.take_bare(<FetchDone> read_done, <void*> s, job)
    if job.fetch != NULL:
        job.fetch.large = s.turn.net.take_large(job.connection, entry.size)
    if job.fetch == NULL or job.fetch.large == NULL:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: a message "
                    b"larger than any buffer is on its way to this client, or too many are to "
                    b"others")
        return
    fetch_into(job.fetch, job.fetch.large.data, <uint32_t> entry.size)
    fetch_begin(job.fetch, True)
    fetch_add(job.fetch, entry.physical_offset, entry.size, job.offset)
    job.last_physical = entry.physical_offset
    job.next_offset = job.offset + 1
    submit(s, job)


cdef void read_from_disk(PullService s, PullJob* job, Queue* queue) noexcept nogil:
    """Records (or queue entries) are not in memory: has a disk reader fetch the next few."""
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef int count
    cdef int32_t large
    if job.fetch == NULL:
        job.fetch = s.fetch.pool.take(<FetchDone> read_done, <void*> s, job)
        job.entry_reads = 0
    if job.fetch == NULL:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: too many "
                    b"pulls read from disk")
        return
    count = s.append.queues.read(queue, job.offset, ENTRIES_AT_ONCE, entries)
    if count == ABSENT and job.entry_reads < ENTRY_READS_MAX:
        job.entry_reads += 1
        fetch_entries(job.fetch, s.append.queues.reader_files, queue, job.offset, ENTRIES_AT_ONCE)
        submit(s, job)
        return
    if count <= 0:
        answer_unreadable(s, job)
        return
    large = add_records(s, job, entries, count)
    if large >= 0:
        read_large(s, job, &entries[large])
    elif job.fetch.read.count > 0:
        submit(s, job)
    else:                                   # the first of many were read, and do not pass
        s.turn.counters.entries_skipped += job.next_offset - job.offset
        job.scanned += job.next_offset - job.offset
        go_on(s, job)


# ------------------------------------------------------------------- back from the disk

cdef bint all_whole(PullJob* job, uint64_t* total, Found* found) noexcept nogil:
    """Whether the records that a disk reader brought (and checked) are those of the entries."""
    cdef RecordView view
    cdef DiskFetch* fetch = job.fetch
    cdef uint64_t at = 0
    cdef int32_t i
    found.corrupt_offset = -1
    found.corrupt_physical = -1
    for i in range(fetch.read.done_count):
        if record_parse(fetch.read.buffer + at, fetch.read.sizes[i], fetch.read.offsets[i], False,
                        &view) != OK or view.total_bytes != fetch.read.sizes[i] \
                or not is_of_queue(&view, job, fetch.queue_offsets[i]):
            found.corrupt_offset = fetch.queue_offsets[i]
            found.corrupt_physical = fetch.read.offsets[i]
            job.next_offset = fetch.queue_offsets[i]
            fetch.read.done_count = i
            break
        at += fetch.read.sizes[i]
    total[0] = at
    return found.corrupt_offset < 0


cdef uint64_t sieve(PullService s, PullJob* job) noexcept nogil:
    """Keeps the records in the buffer that pass, at most a reply's; returns their bytes."""
    cdef RecordView view
    cdef DiskFetch* fetch = job.fetch
    cdef int32_t limit = s.turn.options.disk_max_messages
    cdef int32_t i, kept = 0
    cdef uint64_t at = 0, end = 0
    if job.max_messages < limit:
        limit = job.max_messages if job.max_messages > 0 else 1
    for i in range(fetch.read.done_count):
        if record_parse(fetch.read.buffer + at, fetch.read.sizes[i], fetch.read.offsets[i], False,
                        &view) == OK and record_passes(s, job, &view):
            if kept == limit:
                job.next_offset = fetch.queue_offsets[i]
                break
            if end != at:
                memmove(fetch.read.buffer + end, fetch.read.buffer + at, fetch.read.sizes[i])
            end += fetch.read.sizes[i]
            at += fetch.read.sizes[i]
            fetch.read.sizes[kept] = fetch.read.sizes[i]
            kept += 1
        else:
            s.turn.counters.entries_skipped += 1
            at += fetch.read.sizes[i]
    job.scanned += RECORD_COST * fetch.read.done_count
    fetch.read.done_count = kept
    return end


cdef void go_on(PullService s, PullJob* job) noexcept nogil:
    """No record that was read has passed the filter: reads on, or answers without a message."""
    if job.scanned >= SCAN_ENTRIES_MAX:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE", job.next_offset)
        return
    job.offset = job.next_offset
    job.entry_reads = 0
    make_ready(s, job)


cdef void read_done(PullService s, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    cdef PullJob* job = <PullJob*> fetch.owner
    cdef Found found
    cdef uint64_t bytes = 0
    cdef bint whole
    found.corrupt_physical = -1
    if job.connection.id != job.connection_id:
        free_job(s, job)
        return
    if fetch.read.kind == READ_FILE:
        make_ready(s, job)                  # the entries are now in the page cache: look again
        return
    if 0 <= fetch.read.done_count < fetch.read.count:
        job.next_offset = fetch.queue_offsets[fetch.read.done_count]
    whole = all_whole(job, &bytes, &found)
    if fetch.read.done_count <= 0:
        if whole:
            found.corrupt_offset = fetch.queue_offsets[0]
            found.corrupt_physical = fetch.read.offsets[0]
        answer_damage(s, job, &found)
        return
    if job.sql != NULL or job.tags_from_records:
        bytes = sieve(s, job)
        if fetch.read.done_count == 0:
            go_on(s, job)
            return
    answer_fetched(s, job, bytes)


# ------------------------------------------------------------------- the batch

cdef void answer_pull(PullService s, PullJob* job) noexcept nogil:
    cdef Found found
    cdef Queue* queue
    cdef int64_t offset
    cdef int status
    if job.topic.use.removed:
        if not refuse_job(s, job, TOPIC_NOT_EXIST, b"the topic was deleted"):
            s.turn.net.close_connection(job.connection)
        free_job(s, job)
        return
    if is_outdated(s, job):
        # "Not found" would tell a pull that was not held that the queue ends here; readers that
        # read up to the end would stop.
        answer_nothing(s, job, PULL_NOT_FOUND if job.held else PULL_RETRY_IMMEDIATELY,
                       b"NO_NEW_MESSAGE", job.offset)
        return
    queue = topic_queue(job.topic, s.append.queues, job.queue_id)
    if queue == NULL:
        answer_nothing(s, job, PULL_NOT_FOUND, b"NO_MATCHED_LOGIC_QUEUE", job.offset)
    elif (job.logic.mapped and job.logic.following >= 0
            and job.offset >= logic_item_end(&job.logic, queue.max_offset)):
        answer_following(s, job)
    elif job.logic.mapped and not job.logic.oldest and job.offset < queue.min_offset:
        # Retention took the beginning of an item: no reset, the client goes on after the gap.
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"OFFSET_TOO_SMALL", queue.min_offset)
    elif job.offset == queue.max_offset:
        nothing_new(s, job, queue)
    elif is_slave(&s.turn.role) and job.offset > queue.max_offset:
        nothing_new(s, job, queue)          # this slave may be behind: no offset is reset
    elif is_slave(&s.turn.role) and job.offset < queue.min_offset:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"OFFSET_TOO_SMALL", job.offset)
    elif queue.max_offset == 0:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"NO_MESSAGE_IN_QUEUE", 0)
    elif job.offset > queue.max_offset:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"OFFSET_OVERFLOW_BADLY", queue.max_offset)
    elif job.offset < queue.min_offset:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"OFFSET_TOO_SMALL", queue.min_offset)
    else:
        status = scan_entries(s, job, queue, <int64_t> s.fetch.pool.buffer_bytes, &found)
        if found.count > 0:
            answer_found(s, job, &found)
        elif found.unfinished:
            job.offset = found.next_offset
            make_ready(s, job)              # in the next turn
        elif status == ABSENT or found.absent_offset >= 0:
            # What lies before it did not pass. Entries may be absent as well as a record.
            offset = found.absent_offset if status == OK else found.next_offset
            if offset > job.offset:
                job.offset = offset
                job.entry_reads = 0
            read_from_disk(s, job, queue)
        elif found.corrupt_offset >= 0:
            answer_damage(s, job, &found)
        elif status < 0:
            job.offset = found.next_offset      # what lies before it did not pass
            answer_unreadable(s, job)
        else:
            answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE",
                           found.next_offset)
