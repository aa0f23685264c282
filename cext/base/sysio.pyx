"""System calls on files and eventfds: EINTR, short transfers and errno handled once.

What each function promises is in sysio.pxd. The libc functions are called by their own names
(pwrite, fdatasync, fallocate ...), so that the fault shim of tests/support/faultio can be put
between this module and the kernel.

`zero_range` has three ways, tried in order: FALLOC_FL_ZERO_RANGE (ext4, xfs: only metadata moves),
a punched hole that is allocated again (tmpfs), zeros written (everything else).
"""

from libc.errno cimport EINTR, EIO, ENOSPC, ENOSYS, EOPNOTSUPP, errno

from cext.base.status cimport Status

cdef extern from "<errno.h>" nogil:
    enum: EDQUOT

cdef extern from "<fcntl.h>" nogil:
    int c_open "open" (const char* path, int flags, ...)
    int c_fallocate "fallocate" (int fd, int mode, int64_t offset, int64_t size)
    enum: O_CLOEXEC, O_RDONLY, O_DIRECTORY
    enum: FALLOC_FL_ZERO_RANGE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t c_pwritev "pwritev" (int fd, const iovec* parts, int count, int64_t offset)

cdef extern from "<sys/stat.h>" nogil:
    cdef struct c_stat "stat":
        int64_t st_size
        int64_t st_blocks           # of 512 bytes
    int fstat(int fd, c_stat* out)

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int start, int flags)
    enum: EFD_CLOEXEC, EFD_NONBLOCK

cdef extern from "<poll.h>" nogil:
    cdef struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* items, unsigned long count, int timeout_ms)
    enum: POLLIN

cdef extern from "<unistd.h>" nogil:
    int c_close "close" (int fd)
    ssize_t c_read "read" (int fd, void* out, size_t size)
    ssize_t c_write "write" (int fd, const void* bytes, size_t size)
    ssize_t c_pread "pread" (int fd, void* out, size_t size, int64_t offset)
    ssize_t c_pwrite "pwrite" (int fd, const void* bytes, size_t size, int64_t offset)
    int c_fdatasync "fdatasync" (int fd)
    int c_fsync "fsync" (int fd)
    int c_truncate "ftruncate" (int fd, int64_t size)

cdef enum:
    ZERO_WRITE_BYTES = 1 << 20  # size of one write when zeros must really be written

cdef uint8_t ZEROS[ZERO_WRITE_BYTES]    # never written to: all of it is the system's one zero page


cdef inline int status_of(int error) noexcept nogil:
    if error == ENOSPC or error == EDQUOT:
        return Status.NO_SPACE
    return Status.IO_ERROR


cdef int open_file(const char* path, int flags, int* error) noexcept nogil:
    cdef int fd
    while True:
        fd = c_open(path, flags | O_CLOEXEC, 0o644)
        error[0] = errno if fd < 0 else 0
        if fd >= 0 or error[0] != EINTR:
            return fd


cdef void close_file(int fd) noexcept nogil:
    if fd >= 0:
        c_close(fd)      # EINTR on Linux: the descriptor is gone all the same


cdef int write_at(int fd, const uint8_t* bytes, uint64_t size, int64_t offset, int* error,
                  uint64_t* done) noexcept nogil:
    cdef uint64_t written = 0
    cdef ssize_t count
    error[0] = 0
    while written < size:
        count = c_pwrite(fd, bytes + written, size - written, offset + <int64_t>written)
        if count > 0:
            written += <uint64_t>count
            continue
        if count < 0:
            error[0] = errno
            if error[0] == EINTR:
                continue
        else:
            error[0] = EIO       # pwrite took 0 bytes, and no errno says why
        break
    if done != NULL:
        done[0] = written
    if written == size:
        error[0] = 0
        return Status.OK
    return status_of(error[0])


cdef int write_with_zeros_at(int fd, const uint8_t* bytes, uint64_t size, uint64_t zeros,
                             int64_t offset, int* error, uint64_t* done) noexcept nogil:
    cdef uint64_t nothing = 0
    cdef uint64_t rest = 0
    cdef iovec parts[2]
    cdef ssize_t count
    cdef int status
    parts[0].iov_base = <void*>bytes
    parts[0].iov_len = size
    parts[1].iov_base = &nothing
    parts[1].iov_len = zeros if zeros < 8 else 8
    error[0] = 0
    done[0] = 0
    count = c_pwritev(fd, parts, 2, offset)
    if count < 0 and errno != EINTR:
        error[0] = errno
        return status_of(error[0])
    if count > 0:
        done[0] = <uint64_t>count
    if done[0] < size:                   # the kernel took only a part: write the rest
        status = write_at(fd, bytes + done[0], size - done[0], offset + <int64_t>done[0], error,
                          &rest)
        done[0] += rest
        if status != Status.OK:
            return status
    if done[0] < size + parts[1].iov_len:
        status = write_at(fd, <const uint8_t*>&nothing, size + parts[1].iov_len - done[0],
                          offset + <int64_t>done[0], error, &rest)
        done[0] += rest
        return status
    return Status.OK


cdef int64_t read_at(int fd, uint8_t* out, uint64_t size, int64_t offset,
                     int* error) noexcept nogil:
    cdef uint64_t got = 0
    cdef ssize_t count
    error[0] = 0
    while got < size:
        count = c_pread(fd, out + got, size - got, offset + <int64_t>got)
        if count > 0:
            got += <uint64_t>count
            continue
        if count == 0:
            break
        error[0] = errno
        if error[0] != EINTR:
            return Status.IO_ERROR
    error[0] = 0
    return <int64_t>got


cdef int sync_data(int fd, int* error) noexcept nogil:
    if c_fdatasync(fd) == 0:
        error[0] = 0
        return Status.OK
    error[0] = errno
    return status_of(error[0])


cdef int sync_file(int fd, int* error) noexcept nogil:
    if c_fsync(fd) == 0:
        error[0] = 0
        return Status.OK
    error[0] = errno
    return status_of(error[0])


cdef int sync_directory(const char* path, int* error) noexcept nogil:
    cdef int fd = open_file(path, O_RDONLY | O_DIRECTORY, error)
    cdef int status
    if fd < 0:
        return status_of(error[0])
    status = sync_file(fd, error)
    close_file(fd)
    return status


cdef int fallocate_retrying(int fd, int mode, int64_t offset, int64_t size,
                            int* error) noexcept nogil:
    while True:
        if c_fallocate(fd, mode, offset, size) == 0:
            error[0] = 0
            return Status.OK
        error[0] = errno
        if error[0] != EINTR:
            return status_of(error[0])


cdef int write_zeros(int fd, int64_t offset, int64_t size, int* error) noexcept nogil:
    cdef int64_t done = 0
    cdef uint64_t part
    cdef int status = Status.OK
    error[0] = 0
    while done < size and status == Status.OK:
        part = <uint64_t>(size - done)
        if part > ZERO_WRITE_BYTES:
            part = ZERO_WRITE_BYTES
        status = write_at(fd, ZEROS, part, offset + done, error, NULL)
        done += <int64_t>part
    return status


cdef int allocate(int fd, int64_t offset, int64_t size, int* error) noexcept nogil:
    cdef int status = fallocate_retrying(fd, 0, offset, size, error)
    if status != Status.OK and (error[0] == EOPNOTSUPP or error[0] == ENOSYS):
        return write_zeros(fd, offset, size, error)
    return status


cdef int set_file_size(int fd, int64_t size, int* error) noexcept nogil:
    while c_truncate(fd, size) != 0:
        error[0] = errno
        if error[0] != EINTR:
            return status_of(error[0])
    error[0] = 0
    return Status.OK


cdef int punch_range(int fd, int64_t offset, int64_t size, int* error) noexcept nogil:
    error[0] = 0
    if size <= 0:
        return Status.OK
    return fallocate_retrying(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size, error)


cdef int zero_range(int fd, int64_t offset, int64_t size, int* error) noexcept nogil:
    cdef int status
    error[0] = 0
    if size <= 0:
        return Status.OK
    status = fallocate_retrying(fd, FALLOC_FL_ZERO_RANGE, offset, size, error)
    if status == Status.OK or (error[0] != EOPNOTSUPP and error[0] != ENOSYS):
        return status
    status = punch_range(fd, offset, size, error)
    if status == Status.OK:
        return fallocate_retrying(fd, 0, offset, size, error)
    if error[0] != EOPNOTSUPP and error[0] != ENOSYS:
        return status
    return write_zeros(fd, offset, size, error)


cdef int64_t file_size(int fd, int* error) noexcept nogil:
    cdef c_stat out
    if fstat(fd, &out) != 0:
        error[0] = errno
        return Status.IO_ERROR
    error[0] = 0
    return out.st_size


cdef int64_t file_disk_bytes(int fd, int* error) noexcept nogil:
    cdef c_stat out
    if fstat(fd, &out) != 0:
        error[0] = errno
        return Status.IO_ERROR
    error[0] = 0
    return out.st_blocks * 512


cdef int event_open(int* error) noexcept nogil:
    cdef int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    error[0] = errno if fd < 0 else 0
    return fd


cdef void event_signal(int fd) noexcept nogil:
    cdef uint64_t one = 1
    while c_write(fd, &one, 8) < 0 and errno == EINTR:
        pass             # EAGAIN: the count is at its maximum, so the waiter is awake anyway


cdef uint64_t event_drain(int fd) noexcept nogil:
    cdef uint64_t count = 0
    while True:
        if c_read(fd, &count, 8) == 8:
            return count
        if errno != EINTR:
            return 0


cdef uint64_t event_wait(int fd, int timeout_ms) noexcept nogil:
    cdef pollfd item
    item.fd = fd
    item.events = POLLIN
    item.revents = 0
    poll(&item, 1, timeout_ms)       # EINTR counts as a timeout: every caller looks again
    return event_drain(fd)
