"""Looking into a queue for one reply. See queue_entry_scan.pxd."""
from libc.string cimport memcmp

from cext.base.byteorder cimport load_i32, load_i64, load_u32
from cext.base.prefetch cimport prefetch
from cext.base.status cimport ABSENT, CLOSED, CORRUPT, OK
from cext.flow.pull.pull_service cimport SCAN_ENTRIES_AT_ONCE
from cext.flow.tables.sql_filter cimport SqlFilter
from cext.flow.tables.subscription_table cimport Subscription, subscription_find
from cext.flow.tables.tag_filter cimport tag_filter_passes
from cext.store.log.record cimport record_parse
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, QueueEntry, queue_entry_check, queue_entry_is_blank, queue_entry_load)
from cext.store.queues.ext_address cimport is_ext_address
from cext.wire.properties cimport find_property, tags_code
from cext.wire.sql_program cimport SQL_FAILED, SQL_TRUE, sql_program_run
from cext.wire.system_topics cimport RETRY_PREFIX_BYTES
from cext.wire.text cimport Text

cdef enum:
    PLAIN_ENTRIES = 64              # read at once without a filter
    FIRST_ENTRIES = 256             # read first with a filter, then twice as many each time
    NO_LIMIT = 0x7fffffff           # maxMsgBytes of RocketMQ's pull consumers
    NEAR_BYTES = 1 << 20            # records so close to each other are asked for ahead
    LARGE_PULL_BYTES = 1 << 20      # of a reply when the client asks for more than is configured


cdef bint is_of_queue(const RecordView* view, const PullJob* job, int64_t offset) noexcept nogil:
    return (view.queue_offset == offset and view.queue_id == job.queue_id
            and view.topic_bytes == job.topic.name_length
            and memcmp(view.topic, job.topic.name, view.topic_bytes) == 0)


# ------------------------------------------------------------------- filters

cdef SqlFilter* filter_of_real_topic(PullService s, PullJob* job,
                                     const RecordView* view) noexcept nogil:
    """The group's filter for the topic that a retried message came from; NULL: it passes."""
    cdef Text real
    cdef Subscription* known
    if not find_property(view.properties, view.properties_bytes, b"RETRY_TOPIC", &real):
        return NULL
    known = subscription_find(&s.tables.subscriptions,
                              <const uint8_t*> job.topic.name + RETRY_PREFIX_BYTES,
                              job.topic.name_length - RETRY_PREFIX_BYTES, real.bytes, real.length)
    return known.sql if known != NULL else NULL


cdef bint record_passes(PullService s, PullJob* job, const RecordView* view) noexcept nogil:
    cdef Text tag
    cdef SqlFilter* filter = job.sql
    cdef int result
    if not job.tags.all:
        if not find_property(view.properties, view.properties_bytes, b"TAGS", &tag):
            return tag_filter_passes(&job.tags, 0)
        return tag_filter_passes(&job.tags, tags_code(tag.bytes, tag.length))
    if filter != NULL and job.by_real_topic:
        filter = filter_of_real_topic(s, job, view)
    if filter == NULL:
        return True
    result = sql_program_run(filter.program, view.properties, view.properties_bytes)
    s.turn.counters.filter_failures += result == SQL_FAILED
    return result == SQL_TRUE


cdef bint arrival_passes(PullService s, PullJob* job, int64_t code, int64_t physical_offset,
                         int32_t size) noexcept nogil:
    cdef RecordView view
    cdef const uint8_t* at
    if job.sql == NULL:
        return tag_filter_passes(&job.tags, code)
    # A record that cannot be read here is looked at when the pull is answered.
    return (s.append.log.view(physical_offset, size, &at) != OK
            or record_parse(at, size, physical_offset, False, &view) != OK
            or record_passes(s, job, &view))


# ------------------------------------------------------------------- one record

cdef bint note_damage(Found* found, const QueueEntry* entry, int64_t offset,
                      int status) noexcept nogil:
    found.corrupt_offset = offset
    found.corrupt_physical = entry.physical_offset
    found.corrupt_reason = status
    return False


cdef bint check_record(PullService s, const uint8_t* at, const QueueEntry* entry, Found* found,
                       const PullJob* job, int64_t offset) noexcept nogil:
    """Checks a record before it is sent: it is the queue entry's, and it is whole."""
    cdef RecordView view
    cdef bint in_ring = (at >= s.append.log.ring.base and at < s.append.log.ring.base
                         + 2 * s.append.log.ring.size)
    cdef int status
    if in_ring:
        # This run of the process wrote it, and it was never read back from anywhere.
        if (load_u32(at) == <uint32_t> entry.size and load_i64(at + 28) == entry.physical_offset
                and load_i64(at + 20) == offset and load_i32(at + 12) == job.queue_id):
            return True
        status = -7
    else:
        status = record_parse(at, entry.size, entry.physical_offset, True, &view)
        if status == OK and view.total_bytes == <uint32_t> entry.size \
                and is_of_queue(&view, job, offset):
            return True
    return note_damage(found, entry, offset, status)


cdef bint judge(PullService s, const uint8_t* at, const QueueEntry* entry, Found* found,
                PullJob* job, int64_t offset, bint* passes) noexcept nogil:
    """Runs the filter over the record, which must be the queue entry's. False: it is damaged."""
    cdef RecordView view
    cdef int status = record_parse(at, entry.size, entry.physical_offset, False, &view)
    s.scan_cost_left -= RECORD_COST
    if status != OK or not is_of_queue(&view, job, offset):
        return note_damage(found, entry, offset, status)
    passes[0] = record_passes(s, job, &view)
    return True


cdef bint take(PullService s, PullJob* job, const QueueEntry* entry, const QueueEntry* following,
               int64_t offset, Found* found) noexcept nogil:
    """Adds the entry's record unless its properties do not pass. False: take no more. `following`:
    the entry after it as it was read; its size is 0 when there is none."""
    cdef const uint8_t* at
    cdef int64_t apart
    cdef bint passes = True
    cdef int status
    if found.count > 0 and found.bytes + entry.size > <uint64_t> found.bytes_limit:
        return False
    if entry.size > found.record_max and entry.physical_offset >= s.append.log.min_offset():
        found.absent_offset = offset        # no matter where it is, or what its properties are
        found.large_bytes = entry.size
        return False
    status = s.append.log.view(entry.physical_offset, entry.size, &at)
    if status == ABSENT:
        found.absent_offset = offset
        return False
    if status != OK:
        # Retention deleted it after the queue was read, or it is out of range.
        if entry.physical_offset >= s.append.log.min_offset():
            return note_damage(found, entry, offset, status)
        return True
    if following.size > 0:
        apart = following.physical_offset - entry.physical_offset
        if 0 < apart < NEAR_BYTES:
            prefetch(at + apart, <uint64_t> following.size)
    if job.sql != NULL or (not job.tags.all and is_ext_address(entry.tags_code)):
        if not judge(s, at, entry, found, job, offset, &passes):
            return False
    if not passes:
        s.turn.counters.entries_skipped += 1
        return True
    if not check_record(s, at, entry, found, job, offset):
        return False
    found.at[found.count] = at
    found.sizes[found.count] = entry.size
    found.count += 1
    found.bytes += entry.size
    return True


# ------------------------------------------------------------------- many

cdef inline bint in_bulk(PullService s, const PullJob* job) noexcept nogil:
    """Whether the client asks for more at a time than is configured. Clients of RocketMQ ask for
    256 KiB, or for as much as an int holds, which means that they have no limit of their own; these
    get what is configured."""
    return s.turn.options.pull_max_bytes < job.max_bytes < NO_LIMIT


cdef int64_t bytes_limit(PullService s, const PullJob* job) noexcept nogil:
    if not in_bulk(s, job):
        return s.turn.options.pull_max_bytes
    return job.max_bytes if job.max_bytes < LARGE_PULL_BYTES else LARGE_PULL_BYTES


cdef int32_t limit_of(PullService s, const PullJob* job) noexcept nogil:
    cdef int32_t limit = job.max_messages
    if limit > s.turn.options.pull_max_messages and not in_bulk(s, job):
        limit = s.turn.options.pull_max_messages
    if limit > FOUND_MAX:
        limit = FOUND_MAX
    return limit if limit > 1 else 1


cdef inline int32_t next_candidate(PullService s, const PullJob* job, int32_t i, int32_t count,
                                   QueueEntry* entry) noexcept nogil:
    """The next entry from `i` on that may pass, judged by the entry alone; `count`: none does;
    -1 - n: what is at index n is no entry."""
    cdef bint by_one_tag = job.tags.count == 1 and not job.tags.all
    cdef int64_t code = job.tags.codes[0]
    cdef bint passes
    while i < count:
        queue_entry_load(s.raw_entries + i * QUEUE_ENTRY_BYTES, entry)
        if queue_entry_check(entry, s.append.queues.log_end) != OK:
            s.append.queues.counts.corrupt_reads += 1
            return -1 - i
        passes = entry.tags_code == code if by_one_tag else tag_filter_passes(&job.tags,
                                                                              entry.tags_code)
        if (passes or is_ext_address(entry.tags_code)) and entry.size > 0:
            return i
        i += 1
    return i


cdef int take_entries(PullService s, PullJob* job, int64_t offset, int32_t count, int32_t limit,
                      Found* found) noexcept nogil:
    """Takes what passes of the `count` entries that were read from `offset` on. OK. CLOSED: the
    reply takes no more, or `found` says what is absent or damaged. CORRUPT: what is at
    found.next_offset is no entry."""
    cdef bint filtered = is_filtered(job)
    cdef int status = OK
    cdef int32_t i = 0
    cdef int32_t candidate
    cdef QueueEntry entry, following
    while i < count and found.count < limit and (s.scan_cost_left > 0 or not filtered):
        candidate = next_candidate(s, job, i, count, &entry)
        if candidate < 0:
            status = CORRUPT
            candidate = -1 - candidate
        if filtered:
            s.scan_cost_left -= candidate - i + (candidate < count and status == OK)
            s.turn.counters.entries_skipped += candidate - i
        i = candidate
        if i == count or status != OK:
            break
        following.size = 0
        if i + 1 < count:
            queue_entry_load(s.raw_entries + (i + 1) * QUEUE_ENTRY_BYTES, &following)
        if not take(s, job, &entry, &following, offset + i, found):
            status = CLOSED
            break
        i += 1
    found.next_offset = offset + i
    i += status == CLOSED           # it was looked at, too
    job.scanned += i
    if i > 0:
        queue_entry_load(s.raw_entries + (i - 1) * QUEUE_ENTRY_BYTES, &entry)
        if not queue_entry_is_blank(&entry):
            job.last_physical = entry.physical_offset
    return status


cdef int scan_entries(PullService s, PullJob* job, Queue* queue, int64_t record_max,
                      Found* found) noexcept nogil:
    cdef bint filtered = is_filtered(job)
    cdef int32_t limit = limit_of(s, job)
    cdef int32_t at_once = FIRST_ENTRIES
    cdef int32_t wanted
    cdef int count, status
    found.count = 0
    found.bytes = 0
    found.bytes_limit = bytes_limit(s, job)
    found.record_max = record_max
    found.large_bytes = 0
    found.absent_offset = -1
    found.corrupt_offset = -1
    found.corrupt_physical = -1
    found.unfinished = False
    found.next_offset = job.offset
    while (found.count < limit and found.next_offset < queue.max_offset
            and job.scanned < SCAN_ENTRIES_MAX):
        if filtered and s.scan_cost_left <= 0:
            found.unfinished = True
            return OK
        wanted = at_once
        at_once = min(2 * at_once, <int32_t> SCAN_ENTRIES_AT_ONCE)
        if not filtered:
            wanted = limit - found.count if limit - found.count < PLAIN_ENTRIES else PLAIN_ENTRIES
        if wanted > SCAN_ENTRIES_MAX - job.scanned:
            wanted = SCAN_ENTRIES_MAX - <int32_t> job.scanned
        count = s.append.queues.read_entries(queue, found.next_offset, wanted, s.raw_entries)
        if count == ABSENT and found.count > 0:
            return OK               # gives what it has; the next pull gets the rest
        if count < 0:
            return count
        if count == 0:
            return OK
        status = take_entries(s, job, found.next_offset, count, limit, found)
        if status == CORRUPT:
            # Gives what it has; the next pull meets the damage again.
            return OK if found.count > 0 else <int> CORRUPT
        if status == CLOSED:
            return OK
    return OK
