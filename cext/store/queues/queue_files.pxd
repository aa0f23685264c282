"""Queue files: the files of consume queues, used by one thread through a few descriptors.

    <directory>/<topic>/<queueId>/<first byte of the file, 20 digits>

Every file is exactly entries_per_file * 20 bytes (6,000,000 by default), made sparse by ftruncate,
because Apache RocketMQ refuses a store with any other length. Entries for which there never was a
record (in a queue that starts at offset 7 after its older records were deleted) are written as
blanks (0, MAX31, 0).

Descriptors are kept least-recently-used: 50,000 queues cost `capacity` descriptors, not 50,000.
Each thread has a QueueFiles of its own, so none of them needs a lock.

Example: entries_per_file 300,000, entry 650,000 -> file 2, "00000000000012000000", byte 1,000,000.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from cext.store.queues.consume_queue cimport Chunk, Queue

cdef enum:
    QUEUE_PATH_BYTES = 4096         # of a file's path with its NUL

cdef struct QueueName:
    const char* topic               # borrowed, ends with a NUL, already validated
    int32_t queue_id
    uint64_t serial                 # key in the cache; never used for two queues

cdef struct FileSlot:
    uint64_t serial                 # 0: the slot is empty
    int64_t file                    # number of the file: its first entry / entries_per_file
    int32_t fd                      # owned
    int32_t newer, older            # neighbours in the order of use; -1 at the ends
    int32_t next_in_bucket          # -1 at the end

cdef class QueueFiles:
    cdef bytes directory_bytes      # keeps `directory` alive
    cdef const char* directory      # .../consumequeue, no slash at the end
    cdef int64_t entries_per_file
    cdef int64_t file_bytes         # entries_per_file * 20
    cdef bint writable              # descriptors are opened for reading and writing
    cdef FileSlot* slots            # owned; `capacity` of them
    cdef int32_t* buckets           # owned; first slot of each bucket or -1
    cdef int32_t capacity, used, bucket_mask, newest, oldest
    cdef int last_errno             # of the last call that returned IO_ERROR or NO_SPACE
    cdef int64_t opens              # open() calls so far
    cdef int64_t writes             # pwritev() calls so far

    # Where the entry at `offset` is: writes the path of its file (QUEUE_PATH_BYTES at most) and
    # returns its first byte in that file.
    cdef int64_t entry_place(self, const QueueName* name, int64_t offset, char* path) noexcept nogil
    # Descriptor of an existing file, or NOT_FOUND | IO_ERROR.
    cdef int open_file(self, const QueueName* name, int64_t file) noexcept nogil
    # Descriptor of a file, which is made when it is missing, or NO_SPACE | IO_ERROR. Entries just
    # before `index` that were never written become blanks.
    cdef int create_file(self, const QueueName* name, int64_t file, int64_t index) noexcept nogil
    # Writes entries [offset, offset + count), the first of which is in `chunk`. Of earlier entries
    # only those below the queue's `min_offset` may become blanks: zeros among the others are
    # damage, and a blank would make consumers skip their messages. OK | NO_SPACE | IO_ERROR.
    cdef int write_entries(self, const QueueName* name, const Chunk* chunk, int64_t offset,
                           int64_t count, int64_t min_offset) noexcept nogil
    # Writes entries that are already in file form, all of one file. OK | NO_SPACE | IO_ERROR.
    cdef int write_block(self, const QueueName* name, const uint8_t* entries, int64_t offset,
                         int64_t count, int64_t min_offset) noexcept nogil
    # Reads up to `count` entries from one file in file form. Returns how many (0: past the file's
    # end) | NOT_FOUND | IO_ERROR | ABSENT: with `no_wait`, the page cache has none of them.
    cdef int read_entries(self, const QueueName* name, int64_t offset, int32_t count, bint no_wait,
                          uint8_t* out) noexcept nogil
    # Sets every entry from `offset` to the end of its file to zero. OK | IO_ERROR | NOT_FOUND.
    cdef int clear_from(self, const QueueName* name, int64_t offset) noexcept nogil
    # Gives a file its right length. OK | IO_ERROR | NOT_FOUND.
    cdef int fit_file(self, const QueueName* name, int64_t file) noexcept nogil
    # 1: a page of the file after the one with entry `offset` was written; 0: none was; or a Status.
    cdef int has_data_behind(self, const QueueName* name, int64_t offset) noexcept nogil
    # Removes one file, and with the last one the directories. OK | NOT_FOUND | IO_ERROR.
    cdef int remove_file(self, const QueueName* name, int64_t file) noexcept nogil
    # Removes all files of a queue and its directory (and the topic's, when it is the last).
    cdef int remove_queue(self, const QueueName* name) noexcept nogil
    # The lowest and highest file number and how many files there are; NOT_FOUND: there are none.
    # Names that are not twenty digits, or no multiple of the file length, count in *odd.
    cdef int list_files(self, const QueueName* name, int64_t* first, int64_t* last, int64_t* count,
                        int64_t* odd) noexcept nogil
    # Length of a file in bytes, or NOT_FOUND | IO_ERROR.
    cdef int64_t file_length(self, const QueueName* name, int64_t file) noexcept nogil
    # Closes the open files of a queue, or all.
    cdef void forget(self, uint64_t serial) noexcept nogil
    cdef void close_all(self) noexcept nogil

    cdef int _path(self, const QueueName* name, int64_t file, char* out) noexcept nogil
    cdef int _find(self, uint64_t serial, int64_t file) noexcept nogil
    cdef int _keep(self, uint64_t serial, int64_t file, int fd) noexcept nogil
    cdef void _unlink_slot(self, int32_t at) noexcept nogil
    cdef void _drop_slot(self, int32_t at) noexcept nogil
    cdef int _fail(self) noexcept nogil
    cdef int _make_directories(self, const QueueName* name) noexcept nogil
    cdef int _fill_blanks(self, int fd, int64_t index) noexcept nogil


cdef inline QueueName name_of(const Queue* queue) noexcept nogil:
    cdef QueueName name
    name.topic = queue.topic
    name.queue_id = queue.queue_id
    name.serial = queue.serial
    return name
