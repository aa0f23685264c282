"""Binary searches over queue files. See queue_scan.pxd. Any thread that has its own QueueFiles.

Reads may block; the reactor calls nothing here while it serves.
"""
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from cext.base.status cimport Status
from cext.store.queues.consume_queue cimport (
    BLANK_SIZE, QUEUE_ENTRY_BYTES, QueueEnds, QueueEntry, queue_entry_is_blank, queue_entry_load)

cdef enum:
    LOW_ENTRIES = 16                # checked before the first entry that is kept
    BLOCK_ENTRIES = 204             # one page, which the last step of a search reads as a whole

cdef int64_t ANY_OFFSET = 0x7FFFFFFFFFFFFFFF


cdef inline bint is_over(const QueueEntry* entry, int64_t log_offset) noexcept nogil:
    """Whether this is no entry, or one of a record at or above log_offset."""
    if queue_entry_is_blank(entry):
        return False
    return entry.size <= 0 or entry.physical_offset < 0 or entry.physical_offset >= log_offset


cdef int load_one(QueueFiles files, const QueueName* name, int64_t offset,
                  QueueEntry* entry) noexcept nogil:
    """Reads one entry: 1; 0: past the end of a short file; below 0: a Status."""
    cdef uint8_t raw[QUEUE_ENTRY_BYTES]
    cdef int got = files.read_entries(name, offset, 1, False, raw)
    entry.size = 0
    entry.physical_offset = 0
    if got == 1:
        queue_entry_load(raw, entry)
    return got


cdef int64_t first_entry(QueueFiles files, const QueueName* name, int64_t file, int64_t low,
                         int64_t high, int64_t log_offset) noexcept nogil:
    cdef int64_t base = file * files.entries_per_file
    cdef int64_t end = high
    cdef int64_t middle, probe
    cdef QueueEntry entry
    cdef int got
    # Most queues are short: their end is in the first page, which is one read.
    middle = scan_block(files, name, base, low, min(high, low + BLOCK_ENTRIES), log_offset)
    if middle < min(high, low + BLOCK_ENTRIES):
        return middle
    low = middle
    while high - low > BLOCK_ENTRIES:
        middle = low + (high - low) // 2
        probe = middle
        got = load_one(files, name, base + middle, &entry)
        if got == 1 and queue_entry_is_blank(&entry):
            probe = scan_past_blanks(files, name, base, middle, high)
            if probe < 0:
                return probe
            got = 0 if probe >= high else load_one(files, name, base + probe, &entry)
        if got < 0:
            return got
        if got == 0 or is_over(&entry, log_offset):
            high = middle
        else:
            low = probe + 1
    middle = scan_block(files, name, base, low, high, log_offset)
    # The search may have stopped on a blank to the left of the wanted entry.
    return middle if middle < 0 else scan_past_blanks(files, name, base, middle, end)


cdef int64_t scan_block(QueueFiles files, const QueueName* name, int64_t base, int64_t low,
                        int64_t high, int64_t log_offset) noexcept nogil:
    """The first index in [low, high), at most BLOCK_ENTRIES apart, whose entry is over (is_over);
    high when there is none."""
    cdef uint8_t entries[BLOCK_ENTRIES * QUEUE_ENTRY_BYTES]
    cdef QueueEntry entry
    cdef int64_t i
    cdef int got
    if high <= low:
        return high
    got = files.read_entries(name, base + low, <int32_t> (high - low), False, entries)
    if got < 0:
        return got
    for i in range(got):
        queue_entry_load(entries + i * QUEUE_ENTRY_BYTES, &entry)
        if is_over(&entry, log_offset):
            return low + i
    return low + got


cdef int64_t scan_past_blanks(QueueFiles files, const QueueName* name, int64_t base, int64_t low,
                              int64_t high) noexcept nogil:
    """The first index in [low, high) whose entry is no blank; high when all are blanks."""
    cdef uint8_t entries[BLOCK_ENTRIES * QUEUE_ENTRY_BYTES]
    cdef QueueEntry entry
    cdef int64_t i
    cdef int got
    while low < high:
        got = files.read_entries(
            name, base + low, <int32_t> min(high - low, <int64_t> BLOCK_ENTRIES), False, entries)
        if got < 0:
            return got
        if got == 0:
            return high
        for i in range(got):
            queue_entry_load(entries + i * QUEUE_ENTRY_BYTES, &entry)
            if not queue_entry_is_blank(&entry):
                return low + i
        low += got
    return high


cdef void begin_state(QueueState* state) noexcept nogil:
    """Clears the state, except what is known beforehand."""
    cdef QueueEnds ends = state.ends
    cdef uint8_t known = state.known
    memset(state, 0, sizeof(QueueState))
    state.first_file = state.last_file = state.last_physical = state.garbled_offset = -1
    state.known = known
    state.ends = ends


cdef int scan_queue(QueueFiles files, const QueueName* name, QueueState* state) noexcept nogil:
    cdef int64_t count, length, index
    cdef int status
    begin_state(state)
    status = files.list_files(name, &state.first_file, &state.last_file, &count, &state.odd_names)
    if status == Status.NOT_FOUND:
        return Status.OK
    if status != Status.OK:
        return status
    while count > 0:
        length = files.file_length(name, state.last_file)
        if length < 0:
            return <int> length
        if length == files.file_bytes:
            break
        if length > files.file_bytes:
            state.damaged = 1
            return Status.OK
        state.repaired = 1
        if length >= QUEUE_ENTRY_BYTES:
            # The entries that are there count; the missing rest reads as zeros from now on.
            status = files.clear_from(name, state.last_file * files.entries_per_file
                                      + length // QUEUE_ENTRY_BYTES)
            if status != Status.OK:
                return status
            break
        status = files.remove_file(name, state.last_file)
        if status != Status.OK:
            return status
        status = files.list_files(name, &state.first_file, &state.last_file, &count,
                                  &state.odd_names)
        if status == Status.NOT_FOUND:
            return Status.OK
        if status != Status.OK:
            return status
    if count != state.last_file - state.first_file + 1:
        state.damaged = 1
        return Status.OK
    if state.first_file != state.last_file:
        length = files.file_length(name, state.first_file)
        if length != files.file_bytes:
            state.damaged = 1
            return Status.OK
    index = first_entry(files, name, state.last_file, 0, files.entries_per_file, ANY_OFFSET)
    if index < 0:
        return <int> index
    status = is_garbled(files, name, state, index, ANY_OFFSET)
    if status != 0:
        return status if status < 0 else <int> Status.OK
    return note_end(files, name, state, state.last_file * files.entries_per_file + index)


cdef int is_garbled(QueueFiles files, const QueueName* name, QueueState* state, int64_t index,
                    int64_t log_offset) noexcept nogil:
    """1, and sets `damaged`: the entry at this end of the last file is garbled; 0: it is not; below
    0: a Status."""
    cdef int64_t offset = state.last_file * files.entries_per_file + index
    cdef QueueEntry entry
    cdef bint garbled
    cdef int got
    if index >= files.entries_per_file:
        return 0
    got = load_one(files, name, offset, &entry)
    if got != 1 or (entry.size == 0 and entry.physical_offset == 0):
        return got if got < 0 else 0
    garbled = entry.physical_offset < 0 or entry.size < 0
    if not garbled and index + 1 < files.entries_per_file:
        got = load_one(files, name, offset + 1, &entry)
        if got < 0:
            return got
        garbled = got == 1 and not is_over(&entry, log_offset) and not queue_entry_is_blank(&entry)
    if garbled:
        state.damaged = 1
        state.garbled_offset = offset
    return garbled


cdef int note_end(QueueFiles files, const QueueName* name, QueueState* state,
                  int64_t end_offset) noexcept nogil:
    """Sets end_offset and the fields of the last entry; blanks at the end set none."""
    cdef QueueEntry entry
    cdef int got
    state.end_offset = end_offset
    state.last_physical = -1
    state.last_size = 0
    if end_offset == 0 or end_offset <= state.first_file * files.entries_per_file:
        return Status.OK
    got = load_one(files, name, end_offset - 1, &entry)
    if got < 0:
        return got
    if got == 1 and not is_over(&entry, ANY_OFFSET) and not queue_entry_is_blank(&entry):
        state.last_physical = entry.physical_offset
        state.last_size = entry.size
    return Status.OK


cdef int truncate_queue(QueueFiles files, const QueueName* name, QueueState* state,
                        int64_t log_offset, bint thorough) noexcept nogil:
    cdef int64_t index, base
    cdef int status
    if state.first_file < 0 or (not thorough and state.last_physical < log_offset):
        return Status.OK
    while True:
        base = state.last_file * files.entries_per_file
        index = first_entry(files, name, state.last_file, 0, files.entries_per_file, log_offset)
        if index < 0:
            return <int> index
        status = is_garbled(files, name, state, index, log_offset)
        if status != 0:
            return status if status < 0 else <int> Status.OK
        if index > 0 or state.first_file == state.last_file:
            break
        status = files.remove_file(name, state.last_file)
        if status != Status.OK:
            return status
        state.last_file -= 1
    if index < files.entries_per_file:
        status = files.clear_from(name, base + index)
        if status != Status.OK:
            return status
    if index == 0:
        status = files.remove_file(name, state.last_file)
        if status != Status.OK:
            return status
        state.end_offset = base
        state.first_file = state.last_file = -1
        state.last_physical = -1
        return Status.OK
    return note_end(files, name, state, base + index)


cdef int trim_files(QueueFiles files, const QueueName* name, int64_t log_min, int64_t end_offset,
                    int64_t* min_offset) noexcept nogil:
    cdef int64_t first, last, count, odd, index, high
    cdef QueueEntry entry
    cdef int status
    status = files.list_files(name, &first, &last, &count, &odd)
    if status == Status.NOT_FOUND:
        min_offset[0] = end_offset
        return Status.OK
    if status != Status.OK:
        return status
    while first < last and (first + 1) * files.entries_per_file <= end_offset:
        status = load_one(files, name, (first + 1) * files.entries_per_file - 1, &entry)
        if status == Status.NOT_FOUND:
            first += 1
            continue
        if status < 0:
            return status
        if status == 0 or is_over(&entry, log_min):
            break
        # One entry may be damaged; two in a row that agree are right.
        if files.entries_per_file > 1:
            status = load_one(files, name, (first + 1) * files.entries_per_file - 2, &entry)
            if status < 0:
                return status
            if status == 0 or is_over(&entry, log_min):
                return Status.CORRUPT
        status = files.remove_file(name, first)
        if status != Status.OK and status != Status.NOT_FOUND:
            return status
        first += 1
    high = min(files.entries_per_file, end_offset - first * files.entries_per_file)
    if high <= 0:
        min_offset[0] = min(end_offset, first * files.entries_per_file)
        return Status.OK
    index = first_entry(files, name, first, 0, high, log_min)
    if index < 0:
        return <int> index
    status = check_low(files, name, first * files.entries_per_file, index, high, log_min)
    if status == Status.OK:
        min_offset[0] = first * files.entries_per_file + index
    return status


cdef int check_low(QueueFiles files, const QueueName* name, int64_t base, int64_t index,
                   int64_t high, int64_t log_min) noexcept nogil:
    """CORRUPT: a damaged entry has misled the search for the first entry that is kept. Then the
    entries around it are not in the order of the log, or it does not come after two entries that
    are not kept. Otherwise OK."""
    cdef uint8_t entries[LOW_ENTRIES * QUEUE_ENTRY_BYTES]
    cdef int64_t start = max(index - LOW_ENTRIES + 1, <int64_t> 0)
    cdef int64_t count = min(index + 1, high) - start
    cdef QueueEntry entry
    cdef int got = files.read_entries(name, base + start, <int32_t> count, False, entries)
    if got < 0:
        return got
    if got < count or first_misfit(entries, count) < count:
        return Status.CORRUPT
    if index - start >= 2:
        queue_entry_load(entries + (index - 2 - start) * QUEUE_ENTRY_BYTES, &entry)
        if is_over(&entry, log_min):
            return Status.CORRUPT
    return Status.OK


# ---- comparing with known ends

cdef enum:
    BEFORE_ENTRIES = 150            # checked below an end
    TAIL_ENTRIES = BEFORE_ENTRIES + BLOCK_ENTRIES + 1


cdef int bad(QueueState* state, int64_t offset) noexcept nogil:
    state.damaged = 1
    state.garbled_offset = offset
    return Status.OK


cdef int64_t first_misfit(const uint8_t* entries, int64_t count) noexcept nogil:
    """The index of the first entry whose record is not after that of the entry before; `count`:
    none."""
    cdef QueueEntry entry
    cdef int64_t i, end = 0
    for i in range(count):
        queue_entry_load(entries + i * QUEUE_ENTRY_BYTES, &entry)
        if queue_entry_is_blank(&entry):
            continue
        if entry.size <= 0 or entry.physical_offset < end:
            return i
        end = entry.physical_offset + entry.size
    return count


cdef int check_files(QueueFiles files, const QueueName* name, int64_t from_file, int64_t end_file,
                     QueueState* state) noexcept nogil:
    """Checks that all files are there and of the right length; else sets `damaged`."""
    cdef int64_t per_file = files.entries_per_file
    cdef int64_t file, length, entries
    cdef int status
    for file in range(from_file, end_file + 1):
        length = files.file_length(name, file)
        if length == Status.NOT_FOUND:
            return bad(state, file * per_file)
        if length < 0:
            return <int> length
        if length == files.file_bytes:
            continue
        state.repaired = 1
        entries = length // QUEUE_ENTRY_BYTES
        if length < files.file_bytes and (file < end_file
                                          or entries <= (state.ends.end_offset - 1) % per_file):
            return bad(state, file * per_file + entries)
        status = files.fit_file(name, file)
        if status != Status.OK:
            return status
    return Status.OK


cdef int check_tail(QueueFiles files, const QueueName* name, int64_t low,
                    QueueState* state) noexcept nogil:
    """Checks that the last entries are the known ones and that nothing follows them."""
    cdef uint8_t entries[TAIL_ENTRIES * QUEUE_ENTRY_BYTES]
    cdef const QueueEnds* ends = &state.ends
    cdef int64_t last = ends.end_offset - 1
    cdef int64_t base = last - last % files.entries_per_file
    cdef int64_t start = max(base, low, last - BEFORE_ENTRIES + 1)
    cdef int64_t count = min(<int64_t> TAIL_ENTRIES, base + files.entries_per_file - start)
    cdef int64_t at, i
    cdef QueueEntry entry
    cdef bint dirty = False
    cdef int got = files.read_entries(name, start, <int32_t> count, False, entries)
    if got < 0:
        return got
    if got <= last - start:
        return bad(state, start + got)
    at = first_misfit(entries, last - start + 1)
    if at <= last - start:
        return bad(state, start + at)
    queue_entry_load(entries + (last - start) * QUEUE_ENTRY_BYTES, &entry)
    if entry.physical_offset != ends.last_physical or entry.size != ends.last_size:
        return bad(state, last)
    if low == ends.min_offset and low == start:
        queue_entry_load(entries, &entry)
        if entry.physical_offset != ends.first_physical:
            return bad(state, low)
    for i in range((last - start + 1) * QUEUE_ENTRY_BYTES, got * QUEUE_ENTRY_BYTES):
        dirty |= entries[i] != 0
    got = 1 if dirty else files.has_data_behind(name, last)
    if got < 0:
        return got
    if got and (last + 1) % files.entries_per_file != 0:
        return files.clear_from(name, last + 1)
    return Status.OK


cdef int check_head(QueueFiles files, const QueueName* name, int64_t low,
                    QueueState* state) noexcept nogil:
    cdef uint8_t entries[BEFORE_ENTRIES * QUEUE_ENTRY_BYTES]
    cdef int64_t count = min(<int64_t> BEFORE_ENTRIES, state.ends.end_offset - low,
                             files.entries_per_file - low % files.entries_per_file)
    cdef QueueEntry entry
    cdef int64_t at
    cdef int got = files.read_entries(name, low, <int32_t> count, False, entries)
    if got < 0:
        return got
    at = first_misfit(entries, min(<int64_t> got, count))
    if at < count:
        return bad(state, low + at)
    queue_entry_load(entries, &entry)
    if low == state.ends.min_offset and entry.physical_offset != state.ends.first_physical:
        return bad(state, low)
    return Status.OK


cdef int truncate_files(QueueFiles files, const QueueName* name, int64_t end_file,
                        QueueState* state) noexcept nogil:
    """Removes the files above `end_file`, whose messages are dispatched again."""
    cdef int64_t count
    cdef int status = files.list_files(name, &state.first_file, &state.last_file, &count,
                                       &state.odd_names)
    while status == Status.OK and state.last_file > end_file:
        status = files.remove_file(name, state.last_file)
        if status == Status.OK:
            status = files.list_files(name, &state.first_file, &state.last_file, &count,
                                      &state.odd_names)
    return status


cdef int remove_old(QueueFiles files, const QueueName* name, int64_t below,
                    QueueState* state) noexcept nogil:
    cdef int status
    while state.first_file < below:
        status = files.remove_file(name, state.first_file)
        if status != Status.OK and status != Status.NOT_FOUND:
            return status
        state.first_file += 1
    return Status.OK


cdef int check_queue(QueueFiles files, const QueueName* name, int64_t log_min,
                     QueueState* state) noexcept nogil:
    cdef const QueueEnds* ends = &state.ends
    cdef int64_t per_file = files.entries_per_file
    cdef int64_t end_file = max(ends.end_offset - 1, <int64_t> 0) // per_file
    cdef int64_t low = ends.end_offset
    cdef bint alive = ends.end_offset > ends.min_offset and (
        ends.last_physical >= log_min or ends.last_size == BLANK_SIZE)
    cdef int status
    begin_state(state)
    state.min_offset = state.end_offset = ends.end_offset
    status = truncate_files(files, name, end_file, state)
    if status == Status.NOT_FOUND:
        state.first_file = state.last_file = -1
        return bad(state, ends.min_offset) if alive else <int> Status.OK
    if status != Status.OK:
        return status
    if not alive:
        # No entry of these files is read any more. They are kept because they tell RocketMQ's
        # brokers where the queue ends.
        status = check_files(files, name, end_file, end_file, state)
        if status != Status.OK or not state.damaged:
            return status
        state.damaged = 0
        state.repaired = 1
        state.garbled_offset = state.first_file = state.last_file = -1
        return files.remove_queue(name)
    if ends.first_physical >= log_min or ends.min_offset // per_file == end_file:
        status = check_files(files, name, ends.min_offset // per_file, end_file, state)
    else:
        status = check_files(files, name, max(state.first_file, ends.min_offset // per_file),
                             end_file, state)
    if status != Status.OK or state.damaged:
        return status
    low = ends.min_offset
    if ends.first_physical < log_min and ends.first_physical >= 0:
        status = trim_files(files, name, log_min, ends.end_offset, &low)
        if status == Status.CORRUPT:
            return bad(state, max(ends.min_offset, state.first_file * per_file))
        if status != Status.OK:
            return status
        low = max(low, ends.min_offset)
    status = check_tail(files, name, low, state)
    if status == Status.OK and not state.damaged and low < ends.end_offset - BEFORE_ENTRIES:
        status = check_head(files, name, low, state)
    if status != Status.OK or state.damaged:
        return status
    state.min_offset = low
    state.last_file = end_file
    state.last_physical = ends.last_physical
    state.last_size = ends.last_size
    return remove_old(files, name, low // per_file, state)
