"""Binary searches over queue files. See queue_scan.pxd. Any thread, with QueueFiles of its own.

Reads may block; nothing here runs in the reactor while it serves.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from cext.base.status cimport Status
from cext.store.consume_queue cimport QueueEntry, UNIT_BYTES, unit_is_blank, unit_load

cdef enum:
    BLOCK_UNITS = 204               # one page: the last step of a search reads it whole

cdef int64_t ANY_OFFSET = 0x7FFFFFFFFFFFFFFF


cdef inline bint is_over(const QueueEntry* entry, int64_t log_offset) noexcept nogil:
    """True for what is no unit and for units of records at or above log_offset."""
    if unit_is_blank(entry):
        return False
    return entry.size <= 0 or entry.physical_offset < 0 or entry.physical_offset >= log_offset


cdef int load_one(QueueFiles files, const QueueName* name, int64_t offset,
                  QueueEntry* entry) noexcept nogil:
    """1 and the unit, 0 past the end of a short file, or a Status below 0."""
    cdef uint8_t unit[UNIT_BYTES]
    cdef int got = files.read_units(name, offset, 1, False, unit)
    entry.size = 0
    entry.physical_offset = 0
    if got == 1:
        unit_load(unit, entry)
    return got


cdef int64_t first_unit(QueueFiles files, const QueueName* name, int64_t file, int64_t low,
                        int64_t high, int64_t log_offset) noexcept nogil:
    cdef int64_t base = file * files.entries_per_file
    cdef int64_t end = high
    cdef int64_t middle, probe
    cdef QueueEntry entry
    cdef int got
    # Most queues are short: their end is in the first page, one read.
    middle = scan_block(files, name, base, low, min(high, low + BLOCK_UNITS), log_offset)
    if middle < min(high, low + BLOCK_UNITS):
        return middle
    low = middle
    while high - low > BLOCK_UNITS:
        middle = low + (high - low) // 2
        probe = middle
        got = load_one(files, name, base + middle, &entry)
        if got == 1 and unit_is_blank(&entry):
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
    # The search may have stopped on a blank to the left of the unit that is meant.
    return middle if middle < 0 else scan_past_blanks(files, name, base, middle, end)


cdef int64_t scan_block(QueueFiles files, const QueueName* name, int64_t base, int64_t low,
                        int64_t high, int64_t log_offset) noexcept nogil:
    """First index in [low, high), at most BLOCK_UNITS apart, that is over; high when none."""
    cdef uint8_t units[BLOCK_UNITS * UNIT_BYTES]
    cdef QueueEntry entry
    cdef int64_t i
    cdef int got
    if high <= low:
        return high
    got = files.read_units(name, base + low, <int32_t> (high - low), False, units)
    if got < 0:
        return got
    for i in range(got):
        unit_load(units + i * UNIT_BYTES, &entry)
        if is_over(&entry, log_offset):
            return low + i
    return low + got


cdef int64_t scan_past_blanks(QueueFiles files, const QueueName* name, int64_t base, int64_t low,
                              int64_t high) noexcept nogil:
    """First index in [low, high) that is no blank; high when all are."""
    cdef uint8_t units[BLOCK_UNITS * UNIT_BYTES]
    cdef QueueEntry entry
    cdef int64_t i
    cdef int got
    while low < high:
        got = files.read_units(name, base + low, <int32_t> min(high - low, <int64_t> BLOCK_UNITS),
                               False, units)
        if got < 0:
            return got
        if got == 0:
            return high
        for i in range(got):
            unit_load(units + i * UNIT_BYTES, &entry)
            if not unit_is_blank(&entry):
                return low + i
        low += got
    return high


cdef int scan_queue(QueueFiles files, const QueueName* name, QueueState* state) noexcept nogil:
    cdef int64_t count, length, index
    cdef int status
    memset(state, 0, sizeof(QueueState))
    state.last_physical = state.garbled_offset = -1
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
        state.mended = 1
        if length >= UNIT_BYTES:
            # What is there counts; what is missing reads as zeros from now on.
            status = files.clear_from(name, state.last_file * files.entries_per_file
                                      + length // UNIT_BYTES)
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
    index = first_unit(files, name, state.last_file, 0, files.entries_per_file, ANY_OFFSET)
    if index < 0:
        return <int> index
    status = is_garbled(files, name, state, index, ANY_OFFSET)
    if status != 0:
        return status if status < 0 else <int> Status.OK
    return note_end(files, name, state, state.last_file * files.entries_per_file + index)


cdef int is_garbled(QueueFiles files, const QueueName* name, QueueState* state, int64_t index,
                    int64_t log_offset) noexcept nogil:
    """1 and `damaged` when the unit at this end of the last file is a garbled one; 0; a Status."""
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
        garbled = got == 1 and not is_over(&entry, log_offset) and not unit_is_blank(&entry)
    if garbled:
        state.damaged = 1
        state.garbled_offset = offset
    return garbled


cdef int note_end(QueueFiles files, const QueueName* name, QueueState* state,
                  int64_t end_offset) noexcept nogil:
    """Sets end_offset and what the last unit says; blanks at the end say nothing."""
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
    if got == 1 and not is_over(&entry, ANY_OFFSET) and not unit_is_blank(&entry):
        state.last_physical = entry.physical_offset
        state.last_size = entry.size
    return Status.OK


cdef int cut_queue(QueueFiles files, const QueueName* name, QueueState* state, int64_t log_offset,
                   bint thorough) noexcept nogil:
    cdef int64_t index, base
    cdef int status
    if state.first_file < 0 or (not thorough and state.last_physical < log_offset):
        return Status.OK
    while True:
        base = state.last_file * files.entries_per_file
        index = first_unit(files, name, state.last_file, 0, files.entries_per_file, log_offset)
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
        status = files.remove_file(name, first)
        if status != Status.OK and status != Status.NOT_FOUND:
            return status
        first += 1
    high = min(files.entries_per_file, end_offset - first * files.entries_per_file)
    if high <= 0:
        min_offset[0] = min(end_offset, first * files.entries_per_file)
        return Status.OK
    index = first_unit(files, name, first, 0, high, log_min)
    if index < 0:
        return <int> index
    min_offset[0] = first * files.entries_per_file + index
    return Status.OK
