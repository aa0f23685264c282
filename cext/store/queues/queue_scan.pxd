"""Queue scan: finds where the entries in the files of one queue begin and end, and cuts them.

Entries of a queue are in the order of the commit log, so every question is a binary search over the
physical offsets, 12 to 14 small reads in a file of 300,000 entries, however full it is:

    blank blank | 100  350  600 ... 9,400 | 0 0 0 0          entries of one file
                ^ first with physical >= log min              ^ first that is no entry: the end

A search that meets an entry with a flipped bit takes it for the end. So the entry at an end is
checked: if it has negative numbers, or an entry to its right belongs below the end, the queue is
damaged. A torn write looks different: its size is 0 and zeros follow.

A search that meets a blank entry (0, MAX31, 0) uses the next entry to its right instead.

When the ends are known from elsewhere (queue_ends.pxd, or the log itself) nothing is searched:
check_queue() compares the files with them.

Example: log min 400 -> min offset is the entry of 600; cut at 9,000 -> everything from the first
entry at or above 9,000 becomes zero.
"""
from libc.stdint cimport int64_t, uint8_t

from cext.store.queues.consume_queue cimport QueueEnds, QueueEntry
from cext.store.queues.queue_files cimport QueueFiles, QueueName

cdef struct QueueState:
    int64_t first_file          # lowest file number; -1 without files
    int64_t last_file           # highest
    int64_t min_offset          # first entry that is no blank and is at or above the log's start
    int64_t end_offset          # one above the last entry
    int64_t last_physical       # log offset of the last entry's record; -1 without entries
    int64_t last_size           # size of that record in bytes
    int64_t odd_names           # files in the directory that are not queue files
    uint8_t damaged             # a file is missing or of a wrong length, or an entry is garbled
    int64_t garbled_offset      # of the garbled entry, or where entries are missing; -1: none
    uint8_t known               # `ends` says what the files must hold
    QueueEnds ends
    uint8_t repaired            # the last file was empty or short (crash while made), or too long

# The lowest index in [low, high) of `file` where there is no entry, or one whose record is at or
# above `log_offset`; `high` when there is none. Below 0: a Status.
cdef int64_t first_entry(QueueFiles files, const QueueName* name, int64_t file, int64_t low,
                         int64_t high, int64_t log_offset) noexcept nogil
# Compares the files with state.ends, fills `state`, and cuts entries above the end. It reads the
# names and lengths of the files and the entries around both ends, a whole page each. OK | IO_ERROR.
cdef int check_queue(QueueFiles files, const QueueName* name, int64_t log_min,
                     QueueState* state) noexcept nogil
# Fills `state` except min_offset. OK (also for a queue without files) | IO_ERROR.
cdef int scan_queue(QueueFiles files, const QueueName* name, QueueState* state) noexcept nogil
# Cuts all entries whose record is at or above `log_offset`, and deletes files that become empty.
# With `thorough`, everything after the end is cleared too, even if the last entry seen is below
# (after a power cut some pages of a file may be older than others).
cdef int truncate_queue(QueueFiles files, const QueueName* name, QueueState* state,
                        int64_t log_offset, bint thorough) noexcept nogil
# Deletes files whose last entry is below `log_min` (never the highest file) and finds the first
# offset that is kept; entries at and above `end_offset` are not read. OK | IO_ERROR | CORRUPT: the
# entries cannot be right, so nothing is known.
cdef int trim_files(QueueFiles files, const QueueName* name, int64_t log_min, int64_t end_offset,
                    int64_t* min_offset) noexcept nogil
# Reads one entry: 1; 0: past the end of a short file; below 0: a Status.
cdef int load_one(QueueFiles files, const QueueName* name, int64_t offset,
                  QueueEntry* entry) noexcept nogil
