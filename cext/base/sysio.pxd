# System I/O: system calls on files and eventfds. Three things are done here once: EINTR is retried,
# a short transfer is continued, and errno is copied on the line after the failing call.
#
# Every function returns a Status (or a count >= 0) and, where it can fail, stores the errno in
# *error (0 when fine). ENOSPC and EDQUOT are NO_SPACE, every other errno is IO_ERROR. Nothing here
# retries a sync: after a failed fsync the kernel may have dropped the dirty pages, so a second,
# successful call would prove nothing.
#
# Example: 400 bytes at offset 1000, of which the kernel takes 100 and then 300:
#     write_at(fd, bytes, 400, 1000, &error) -> OK after two pwrite calls

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# Opens a file. fd >= 0, or -1 with *error set. O_CLOEXEC is always added.
cdef int open_file(const char* path, int flags, int* error) noexcept nogil
cdef void close_file(int fd) noexcept nogil

# Writes all `size` bytes at `offset`. OK | NO_SPACE | IO_ERROR. When it fails, some leading part
# may have been written: *done (may be NULL) says how many bytes.
cdef int write_at(int fd, const uint8_t* bytes, uint64_t size, int64_t offset, int* error,
                  uint64_t* done) noexcept nogil

# The same with `zeros` zero bytes (at most 8) after them, in one system call unless the kernel
# takes only a part. *done counts the bytes of both.
cdef int write_with_zeros_at(int fd, const uint8_t* bytes, uint64_t size, uint64_t zeros,
                             int64_t offset, int* error, uint64_t* done) noexcept nogil

# Reads `size` bytes at `offset`. Returns the count (less only at the end of the file) | IO_ERROR.
cdef int64_t read_at(int fd, uint8_t* out, uint64_t size, int64_t offset, int* error) noexcept nogil

# fdatasync: data and the size needed to read it. OK | IO_ERROR | NO_SPACE. Never retried.
cdef int sync_data(int fd, int* error) noexcept nogil
# fsync: everything. Never retried.
cdef int sync_file(int fd, int* error) noexcept nogil
# fsync of a directory: makes creations, renames and removals in it survive a power cut.
cdef int sync_directory(const char* path, int* error) noexcept nogil

# Reserves blocks for [offset, offset + size) with fallocate; bytes already there are kept. Where
# the file system cannot do that, zeros are written, so the range must not hold anything yet.
cdef int allocate(int fd, int64_t offset, int64_t size, int* error) noexcept nogil
# Sets the size; bytes added to the file are a hole. OK | NO_SPACE | IO_ERROR
cdef int set_file_size(int fd, int64_t size, int* error) noexcept nogil
# Really writes zeros, so that the blocks count as written and not only as allocated.
cdef int write_zeros(int fd, int64_t offset, int64_t size, int* error) noexcept nogil
# Makes [offset, offset + size) read as zeros, inside a file that is already that large.
cdef int zero_range(int fd, int64_t offset, int64_t size, int* error) noexcept nogil
# Makes [offset, offset + size) read as zeros and gives its blocks back. OK | IO_ERROR, with
# EOPNOTSUPP or ENOSYS where the file system cannot do that.
cdef int punch_range(int fd, int64_t offset, int64_t size, int* error) noexcept nogil
# Size in bytes | IO_ERROR.
cdef int64_t file_size(int fd, int* error) noexcept nogil
# Bytes of the disk that the file holds (blocks, not size) | IO_ERROR.
cdef int64_t file_disk_bytes(int fd, int* error) noexcept nogil

# eventfd, non-blocking, close-on-exec. fd | -1.
cdef int event_open(int* error) noexcept nogil
# Adds one to the count and wakes the thread that waits; never blocks.
cdef void event_signal(int fd) noexcept nogil
# Sets the count to 0. Returns the count before.
cdef uint64_t event_drain(int fd) noexcept nogil
# Sleeps until the eventfd is signalled or `timeout_ms` (-1: no limit) has passed, and sets the
# count to 0. Returns the count before (0: timeout).
cdef uint64_t event_wait(int fd, int timeout_ms) noexcept nogil
