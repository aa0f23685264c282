"""Opening, making, reading, writing and removing queue files. See queue_files.pxd.

No call here holds the GIL. Every call may block on the disk, except read_entries with no_wait,
which asks the kernel (preadv2 with RWF_NOWAIT) to give up where it would have to read the disk.
File systems that do not know the flag (tmpfs, FUSE) return EOPNOTSUPP: there the read is an
ordinary one, which may wait. Returning ABSENT instead would never end, because a later read could
not tell that a disk reader has brought the page in.

Nothing here is synced. The files are derived from the commit log; code that wants them durable
syncs the file system and notes how far (queue_persistence, checkpoint).

Example: write_entries(offset 299,990, count 20) writes ten entries at the end of file 0 and ten at
the start of file 1, which it makes.
"""
from libc.errno cimport (
    EAGAIN, EDQUOT, EEXIST, EINTR, ENOENT, ENOSPC, ENXIO, EOPNOTSUPP, errno)
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset, strlen
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, open
from posix.types cimport off_t
from posix.unistd cimport close, ftruncate, lseek, pread, pwrite, rmdir, unlink

from cext.base.status cimport Status
from cext.store.queues.consume_queue cimport (
    BLANK_SIZE, CHUNK_ENTRIES, QUEUE_ENTRY_BYTES, QueueEntry, queue_entry_load, queue_entry_store)

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset)
    ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags)
    int RWF_NOWAIT

cdef extern from "sys/stat.h" nogil:
    int mkdir(const char* path, unsigned int mode)

cdef extern from "dirent.h" nogil:
    ctypedef struct DIR:
        pass
    struct dirent:
        char d_name[256]
    DIR* opendir(const char* path)
    dirent* readdir(DIR* directory)
    int closedir(DIR* directory)

cdef extern from "unistd.h" nogil:
    int SEEK_END
    int SEEK_DATA

cdef enum:
    PAGE_BYTES = 4096
    DIRECTORY_BYTES_MAX = 3700      # leaves room for topic, queue id and file name
    PARTS_MAX = 256                 # chunks in one pwritev: 12,800 entries
    BLANK_RUN = 200                 # entries in one write of blanks


cdef int64_t DIGITS_MAX = 900_000_000_000_000_000   # another digit still fits


cdef int64_t file_number(const char* name, int64_t file_bytes) noexcept nogil:
    """The number of the file called `name`, or -1: that is not the name of a queue file."""
    cdef int64_t value = 0
    cdef int i, digit
    for i in range(20):
        digit = <int> name[i] - 48
        if digit < 0 or digit > 9 or value > DIGITS_MAX:
            return -1
        value = value * 10 + digit
    if name[20] != 0 or value % file_bytes != 0:
        return -1
    return value // file_bytes


cdef extern from "<sys/resource.h>" nogil:
    cdef struct rlimit:
        uint64_t rlim_cur
    int getrlimit(int resource, rlimit* limit)
    enum: RLIMIT_NOFILE

cdef enum:
    FULL_LIMIT = 16384              # a process with so many descriptors may use all of `capacity`
    FILES_LEAST = 4


cdef int32_t files_kept(int32_t capacity) noexcept:
    """How many descriptors to keep: fewer if the process may only have few, since clients and the
    log need some."""
    cdef rlimit limit
    if getrlimit(RLIMIT_NOFILE, &limit) != 0 or limit.rlim_cur >= FULL_LIMIT:
        return capacity
    return max(min(capacity, FILES_LEAST),
               <int32_t> (<int64_t> limit.rlim_cur * capacity // FULL_LIMIT))


cdef class QueueFiles:
    """For one thread only: the first that calls must be the only one."""

    def __cinit__(self, directory, int64_t entries_per_file, int32_t capacity, bint writable):
        self.directory_bytes = directory if isinstance(directory, bytes) else directory.encode()
        if len(self.directory_bytes) > DIRECTORY_BYTES_MAX:
            raise ValueError(f"queue directory longer than {DIRECTORY_BYTES_MAX} bytes")
        if entries_per_file < 1 or entries_per_file > 100_000_000 or capacity < 1:
            raise ValueError(f"entries_per_file {entries_per_file}, capacity {capacity}")
        self.directory = self.directory_bytes
        self.entries_per_file = entries_per_file
        self.file_bytes = entries_per_file * QUEUE_ENTRY_BYTES
        self.writable = writable
        self.capacity = capacity = files_kept(capacity)
        cdef int32_t size = 8
        while size < capacity * 2:
            size *= 2
        self.bucket_mask = size - 1
        self.slots = <FileSlot*> calloc(capacity, sizeof(FileSlot))
        self.buckets = <int32_t*> malloc(size * sizeof(int32_t))
        if self.slots == NULL or self.buckets == NULL:
            raise MemoryError("no memory for the table of queue files")
        memset(self.buckets, 0xFF, size * sizeof(int32_t))
        self.newest = self.oldest = -1

    def __dealloc__(self):
        if self.slots != NULL and self.buckets != NULL:
            self.close_all()
        free(self.slots)
        free(self.buckets)

    # ---- descriptors, least recently used first out

    cdef int _find(self, uint64_t serial, int64_t file) noexcept nogil:
        cdef int32_t at = self.buckets[<int32_t> ((serial * 31 + <uint64_t> file)
                                                  & <uint64_t> self.bucket_mask)]
        cdef FileSlot* slot
        while at >= 0:
            slot = &self.slots[at]
            if slot.serial == serial and slot.file == file:
                if at != self.newest:
                    self._unlink_slot(at)
                    slot.newer = -1
                    slot.older = self.newest
                    if self.newest >= 0:
                        self.slots[self.newest].newer = at
                    self.newest = at
                    if self.oldest < 0:
                        self.oldest = at
                return slot.fd
            at = slot.next_in_bucket
        return -1

    cdef void _unlink_slot(self, int32_t at) noexcept nogil:
        cdef FileSlot* slot = &self.slots[at]
        if slot.newer >= 0:
            self.slots[slot.newer].older = slot.older
        else:
            self.newest = slot.older
        if slot.older >= 0:
            self.slots[slot.older].newer = slot.newer
        else:
            self.oldest = slot.newer

    cdef void _drop_slot(self, int32_t at) noexcept nogil:
        cdef FileSlot* slot = &self.slots[at]
        cdef int32_t* link = &self.buckets[<int32_t> ((slot.serial * 31 + <uint64_t> slot.file)
                                                      & <uint64_t> self.bucket_mask)]
        while link[0] != at:
            link = &self.slots[link[0]].next_in_bucket
        link[0] = slot.next_in_bucket
        self._unlink_slot(at)
        close(slot.fd)
        slot.serial = 0

    cdef int _keep(self, uint64_t serial, int64_t file, int fd) noexcept nogil:
        cdef int32_t at = self.oldest
        cdef int32_t bucket = <int32_t> ((serial * 31 + <uint64_t> file)
                                         & <uint64_t> self.bucket_mask)
        cdef FileSlot* slot
        if self.used < self.capacity:
            at = 0 if self.used == 0 else self.used
            while self.slots[at].serial != 0:       # slots freed by forget() come first
                at = (at + 1) % self.capacity
            self.used += 1
        else:
            self._drop_slot(at)
        slot = &self.slots[at]
        slot.serial = serial
        slot.file = file
        slot.fd = fd
        slot.next_in_bucket = self.buckets[bucket]
        self.buckets[bucket] = at
        slot.newer = -1
        slot.older = self.newest
        if self.newest >= 0:
            self.slots[self.newest].newer = at
        self.newest = at
        if self.oldest < 0:
            self.oldest = at
        return fd

    cdef void forget(self, uint64_t serial) noexcept nogil:
        cdef int32_t at
        for at in range(self.capacity):
            if self.slots[at].serial == serial and serial != 0:
                self._drop_slot(at)
                self.used -= 1

    cdef void close_all(self) noexcept nogil:
        cdef int32_t at
        for at in range(self.capacity):
            if self.slots[at].serial != 0:
                self._drop_slot(at)
                self.used -= 1

    # ---- paths and errors

    cdef int _path(self, const QueueName* name, int64_t file, char* out) noexcept nogil:
        if file < 0:
            return snprintf(out, QUEUE_PATH_BYTES, "%s/%s/%d", self.directory, name.topic,
                            name.queue_id)
        return snprintf(out, QUEUE_PATH_BYTES, "%s/%s/%d/%020lld", self.directory, name.topic,
                        name.queue_id, <long long> (file * self.file_bytes))

    cdef int64_t entry_place(self, const QueueName* name, int64_t offset,
                             char* path) noexcept nogil:
        self._path(name, offset // self.entries_per_file, path)
        return offset % self.entries_per_file * QUEUE_ENTRY_BYTES

    cdef int _fail(self) noexcept nogil:
        self.last_errno = errno
        if self.last_errno == ENOSPC or self.last_errno == EDQUOT:
            return Status.NO_SPACE
        if self.last_errno == ENOENT:
            return Status.NOT_FOUND
        return Status.IO_ERROR

    cdef int _make_directories(self, const QueueName* name) noexcept nogil:
        cdef char path[QUEUE_PATH_BYTES]
        if mkdir(self.directory, 0o750) != 0 and errno != EEXIST:
            return self._fail()
        snprintf(path, QUEUE_PATH_BYTES, "%s/%s", self.directory, name.topic)
        if mkdir(path, 0o750) != 0 and errno != EEXIST:
            return self._fail()
        self._path(name, -1, path)
        if mkdir(path, 0o750) != 0 and errno != EEXIST:
            return self._fail()
        return Status.OK

    # ---- opening and making

    cdef int open_file(self, const QueueName* name, int64_t file) noexcept nogil:
        cdef int fd = self._find(name.serial, file)
        cdef char path[QUEUE_PATH_BYTES]
        if fd >= 0:
            return fd
        self._path(name, file, path)
        fd = open(path, (O_RDWR if self.writable else O_RDONLY) | O_CLOEXEC)
        if fd < 0:
            return self._fail()
        self.opens += 1
        return self._keep(name.serial, file, fd)

    cdef int create_file(self, const QueueName* name, int64_t file, int64_t index) noexcept nogil:
        cdef int fd = self._find(name.serial, file)
        cdef char path[QUEUE_PATH_BYTES]
        cdef int status
        if fd >= 0:
            return fd
        self._path(name, file, path)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        if fd < 0 and errno == ENOENT:
            status = self._make_directories(name)
            if status != Status.OK:
                return status
            fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        if fd < 0:
            status = self._fail()
            return Status.IO_ERROR if status == Status.NOT_FOUND else status
        self.opens += 1
        # A crash between open and ftruncate leaves a short file, which is filled up with zeros.
        if lseek(fd, 0, SEEK_END) != self.file_bytes and ftruncate(fd, self.file_bytes) != 0:
            status = self._fail()
            close(fd)
            return status
        status = self._fill_blanks(fd, index)
        if status != Status.OK:
            close(fd)
            return status
        return self._keep(name.serial, file, fd)

    cdef int _fill_blanks(self, int fd, int64_t index) noexcept nogil:
        """Turns the zero entries that end just before `index` into blanks."""
        cdef uint8_t entries[BLANK_RUN * QUEUE_ENTRY_BYTES]
        cdef QueueEntry entry
        cdef int64_t first = index
        cdef int64_t here, i
        cdef bint zero = True
        while first > 0 and zero:
            here = min(first, BLANK_RUN)
            if pread(fd, entries, <size_t> here * QUEUE_ENTRY_BYTES,
                     (first - here) * QUEUE_ENTRY_BYTES) != here * QUEUE_ENTRY_BYTES:
                return self._fail()
            while here > 0:
                queue_entry_load(entries + (here - 1) * QUEUE_ENTRY_BYTES, &entry)
                if entry.size != 0 or entry.physical_offset != 0:
                    zero = False
                    break
                here -= 1
                first -= 1
        if first == index:
            return Status.OK
        for i in range(BLANK_RUN):
            queue_entry_store(entries + i * QUEUE_ENTRY_BYTES, 0, BLANK_SIZE, 0)
        while first < index:
            here = min(index - first, BLANK_RUN)
            if pwrite(fd, entries, <size_t> here * QUEUE_ENTRY_BYTES,
                      first * QUEUE_ENTRY_BYTES) != here * QUEUE_ENTRY_BYTES:
                return self._fail()
            first += here
        return Status.OK

    # ---- entries

    cdef int write_entries(self, const QueueName* name, const Chunk* chunk, int64_t offset,
                           int64_t count, int64_t min_offset) noexcept nogil:
        cdef iovec parts[PARTS_MAX]
        cdef int64_t index, here, taken
        cdef const Chunk* source
        cdef ssize_t written
        cdef int fd, used
        while count > 0:
            index = offset % self.entries_per_file
            fd = self.create_file(name, offset // self.entries_per_file,
                                  min(index, min_offset - offset + index))
            if fd < 0:
                return fd
            while offset >= chunk.first_offset + CHUNK_ENTRIES:
                chunk = chunk.next
            source = chunk
            taken = 0
            used = 0
            while used < PARTS_MAX and taken < count and index + taken < self.entries_per_file:
                here = source.first_offset + CHUNK_ENTRIES - (offset + taken)
                here = min(here, count - taken, self.entries_per_file - index - taken)
                parts[used].iov_base = <void*> (
                    source.entries + (offset + taken - source.first_offset) * QUEUE_ENTRY_BYTES)
                parts[used].iov_len = <size_t> here * QUEUE_ENTRY_BYTES
                used += 1
                taken += here
                if taken < count:
                    source = source.next
            self.writes += 1
            written = pwritev(fd, parts, used, index * QUEUE_ENTRY_BYTES)
            if written < 0 and errno == EINTR:
                continue
            if written < 0:
                return self._fail()
            if written < QUEUE_ENTRY_BYTES:
                self.last_errno = ENOSPC
                return Status.NO_SPACE
            # After a short write the entry that was cut is written again.
            offset += written // QUEUE_ENTRY_BYTES
            count -= written // QUEUE_ENTRY_BYTES
        return Status.OK

    cdef int write_block(self, const QueueName* name, const uint8_t* entries, int64_t offset,
                         int64_t count, int64_t min_offset) noexcept nogil:
        cdef int64_t index = offset % self.entries_per_file
        cdef int64_t done = 0
        cdef ssize_t written
        cdef int fd = self.create_file(name, offset // self.entries_per_file,
                                       min(index, min_offset - offset + index))
        if fd < 0:
            return fd
        while done < count * QUEUE_ENTRY_BYTES:
            self.writes += 1
            written = pwrite(fd, entries + done, <size_t> (count * QUEUE_ENTRY_BYTES - done),
                             index * QUEUE_ENTRY_BYTES + done)
            if written > 0:
                done += written
            elif written < 0 and errno != EINTR:
                return self._fail()
        return Status.OK

    cdef int read_entries(self, const QueueName* name, int64_t offset, int32_t count, bint no_wait,
                          uint8_t* out) noexcept nogil:
        cdef int64_t index = offset % self.entries_per_file
        cdef int fd = self.open_file(name, offset // self.entries_per_file)
        cdef iovec part
        cdef ssize_t got
        cdef int flags = RWF_NOWAIT if no_wait else 0
        if fd < 0:
            return fd
        part.iov_base = out
        part.iov_len = (<size_t> min(<int64_t> count, self.entries_per_file - index)
                        * QUEUE_ENTRY_BYTES)
        while True:
            got = preadv2(fd, &part, 1, index * QUEUE_ENTRY_BYTES, flags)
            if got >= 0:
                if (got < QUEUE_ENTRY_BYTES and flags != 0
                        and lseek(fd, 0, SEEK_END) >= (index + 1) * QUEUE_ENTRY_BYTES):
                    return Status.ABSENT        # the offset is not past the end of a file cut short
                return <int> (got // QUEUE_ENTRY_BYTES)
            if errno == EINTR:
                continue
            if flags != 0 and errno == EOPNOTSUPP:
                flags = 0
                continue
            if flags != 0 and errno == EAGAIN:
                return Status.ABSENT
            return self._fail()

    cdef int clear_from(self, const QueueName* name, int64_t offset) noexcept nogil:
        cdef int fd = self.open_file(name, offset // self.entries_per_file)
        cdef int64_t at = (offset % self.entries_per_file) * QUEUE_ENTRY_BYTES
        if fd < 0:
            return fd
        if ftruncate(fd, at) != 0 or ftruncate(fd, self.file_bytes) != 0:
            return self._fail()
        return Status.OK

    cdef int fit_file(self, const QueueName* name, int64_t file) noexcept nogil:
        cdef int fd = self.open_file(name, file)
        if fd < 0:
            return fd
        return Status.OK if ftruncate(fd, self.file_bytes) == 0 else self._fail()

    cdef int has_data_behind(self, const QueueName* name, int64_t offset) noexcept nogil:
        cdef int fd = self.open_file(name, offset // self.entries_per_file)
        cdef int64_t at = (offset % self.entries_per_file) * QUEUE_ENTRY_BYTES
        if fd < 0:
            return fd
        at += PAGE_BYTES - at % PAGE_BYTES
        if at >= self.file_bytes:
            return 0
        # If the file system does not know, the pages count as written.
        return lseek(fd, at, SEEK_DATA) >= 0 or errno != ENXIO

    # ---- directories

    cdef int remove_file(self, const QueueName* name, int64_t file) noexcept nogil:
        cdef char path[QUEUE_PATH_BYTES]
        cdef int32_t at
        for at in range(self.capacity):
            if self.slots[at].serial == name.serial and self.slots[at].file == file:
                self._drop_slot(at)
                self.used -= 1
                break
        self._path(name, file, path)
        if unlink(path) != 0:
            return self._fail()
        return Status.OK

    cdef int remove_queue(self, const QueueName* name) noexcept nogil:
        cdef char path[QUEUE_PATH_BYTES]
        cdef char inner[QUEUE_PATH_BYTES]
        cdef DIR* listing
        cdef dirent* entry
        cdef int status = Status.OK
        self.forget(name.serial)
        self._path(name, -1, path)
        listing = opendir(path)
        if listing == NULL:
            return Status.OK if errno == ENOENT else self._fail()
        while True:
            entry = readdir(listing)
            if entry == NULL:
                break
            # Only files with the name of a queue file are removed: a broker makes no others here.
            if file_number(entry.d_name, self.file_bytes) < 0:
                continue
            if strlen(path) + 22 > QUEUE_PATH_BYTES:
                continue
            snprintf(inner, QUEUE_PATH_BYTES, "%.4000s/%.20s", path, entry.d_name)
            if unlink(inner) != 0 and errno != ENOENT:
                status = self._fail()
        closedir(listing)
        if rmdir(path) == 0:
            snprintf(path, QUEUE_PATH_BYTES, "%s/%s", self.directory, name.topic)
            rmdir(path)             # succeeds with the topic's last queue only
        return status

    cdef int list_files(self, const QueueName* name, int64_t* first, int64_t* last, int64_t* count,
                        int64_t* odd) noexcept nogil:
        cdef char path[QUEUE_PATH_BYTES]
        cdef DIR* listing
        cdef dirent* entry
        cdef int64_t number
        first[0] = last[0] = -1
        count[0] = odd[0] = 0
        self._path(name, -1, path)
        listing = opendir(path)
        if listing == NULL:
            return self._fail()
        while True:
            entry = readdir(listing)
            if entry == NULL:
                break
            if entry.d_name[0] == 46:
                continue
            number = file_number(entry.d_name, self.file_bytes)
            if number < 0:
                odd[0] += 1
                continue
            if count[0] == 0 or number < first[0]:
                first[0] = number
            if number > last[0]:
                last[0] = number
            count[0] += 1
        closedir(listing)
        return Status.OK if count[0] > 0 else Status.NOT_FOUND

    cdef int64_t file_length(self, const QueueName* name, int64_t file) noexcept nogil:
        cdef int fd = self.open_file(name, file)
        if fd < 0:
            return fd
        return lseek(fd, 0, SEEK_END)
