"""One file of the commit log. Steps and promises are in segment.pxd."""

from libc.errno cimport EEXIST, ENAMETOOLONG, ENOENT, ENOSYS, EOPNOTSUPP, errno
from libc.stdio cimport rename, snprintf
from libc.stdlib cimport calloc, free
from libc.stdint cimport uint8_t

from cext.base.status cimport Status
from cext.base.sysio cimport (
    allocate, close_file, file_disk_bytes, file_size, open_file, punch_range, set_file_size,
    sync_data, sync_directory, sync_file, write_at, write_zeros, zero_range)
from cext.store.log.log_link cimport FILE_PATH_MAX

cdef extern from "<fcntl.h>" nogil:
    enum: O_RDWR, O_RDONLY, O_CREAT, O_TRUNC, O_DIRECTORY

cdef extern from "<unistd.h>" nogil:
    int unlink(const char* path)

cdef extern from "<sys/stat.h>" nogil:
    int mkdir(const char* path, unsigned int mode)

cdef enum:
    WARM_STEP_BYTES = 4 << 20   # written between two syncs, so that syncs of other files get a turn

# The name, in the spare directory, of a file that is not whole yet.
cdef const char* UNFINISHED = "preparing"


cdef int segment_path(char* out, size_t size, const char* directory, int64_t start) noexcept nogil:
    cdef int length = snprintf(out, size, "%s/%020lld", directory, <long long>start)
    return Status.OK if 0 < length < <int>size else Status.TOO_LARGE


cdef int make_directory(const char* path, int* error) noexcept nogil:
    if mkdir(path, 0o750) != 0:
        error[0] = errno
        if error[0] != EEXIST:
            return Status.IO_ERROR
    error[0] = 0
    return Status.OK


cdef int write_whole(int fd, int64_t segment_bytes, int* error) noexcept nogil:
    """Writes zeros over the whole file and syncs them."""
    cdef int64_t done = 0
    cdef int status = Status.OK
    while done < segment_bytes and status == Status.OK:
        status = write_zeros(fd, done, min(<int64_t> WARM_STEP_BYTES, segment_bytes - done), error)
        done += WARM_STEP_BYTES
        if status == Status.OK:
            status = sync_data(fd, error)
    return status


cdef int new_file(const char* path, int64_t segment_bytes, int64_t room_bytes, bint warm, int* fd,
                  int* error) noexcept nogil:
    """Makes a synced file of zeros at `path`; a failure leaves no file."""
    cdef int status
    fd[0] = open_file(path, O_RDWR | O_CREAT | O_TRUNC, error)
    if fd[0] < 0:
        return Status.IO_ERROR
    status = set_file_size(fd[0], segment_bytes, error)
    if status == Status.OK:
        status = allocate(fd[0], 0, segment_bytes if warm else min(room_bytes, segment_bytes),
                          error)
    if status == Status.OK and warm:
        status = write_whole(fd[0], segment_bytes, error)
    if status == Status.OK:
        status = sync_file(fd[0], error)
    if status != Status.OK:
        close_file(fd[0])
        fd[0] = -1
        unlink(path)
    return status


cdef int reused_file(const char* path, int64_t segment_bytes, int* fd, int* error) noexcept nogil:
    """Zeroes and syncs the first page of the spare file at `path`; after a failure the file is
    removed."""
    cdef uint8_t* zeros
    cdef int status = Status.CORRUPT
    fd[0] = open_file(path, O_RDWR, error)
    if fd[0] < 0:
        return Status.IO_ERROR
    zeros = <uint8_t*>calloc(1, SEGMENT_HEAD_BYTES)
    if zeros != NULL and file_size(fd[0], error) == segment_bytes:
        status = write_at(fd[0], zeros, SEGMENT_HEAD_BYTES, 0, error, NULL)
        if status == Status.OK:
            status = sync_file(fd[0], error)
    free(zeros)
    if status != Status.OK:
        close_file(fd[0])
        fd[0] = -1
        unlink(path)
    return status


cdef int prepare_in(int directory_fd, const char* directory, const char* spare_directory,
                    int64_t start, int64_t segment_bytes, int64_t room_bytes, int64_t spare_start,
                    bint warm, int* fd, int* error, bint* directory_sync_failed) noexcept nogil:
    cdef char made[FILE_PATH_MAX]
    cdef char final[FILE_PATH_MAX]
    cdef int status = Status.NOT_FOUND
    if (segment_path(final, FILE_PATH_MAX, directory, start) != Status.OK or snprintf(
            made, FILE_PATH_MAX, "%s/%s", spare_directory, UNFINISHED) >= FILE_PATH_MAX):
        error[0] = ENAMETOOLONG
        return Status.IO_ERROR
    if make_directory(spare_directory, error) != Status.OK:
        return Status.IO_ERROR
    if spare_start >= 0:
        segment_path(made, FILE_PATH_MAX, spare_directory, spare_start)
        status = reused_file(made, segment_bytes, fd, error)
    if status != Status.OK:
        snprintf(made, FILE_PATH_MAX, "%s/%s", spare_directory, UNFINISHED)
        status = new_file(made, segment_bytes, room_bytes, warm, fd, error)
    if status != Status.OK:
        return status
    if rename(made, final) != 0:
        error[0] = errno
        close_file(fd[0])
        fd[0] = -1
        unlink(made)
        return Status.IO_ERROR
    status = sync_file(directory_fd, error)
    if status != Status.OK:
        directory_sync_failed[0] = True
        close_file(fd[0])
        fd[0] = -1
    return status


cdef int segment_prepare(const char* directory, const char* spare_directory, int64_t start,
                         int64_t segment_bytes, int64_t room_bytes, int64_t spare_start, bint warm,
                         int* fd, int* error, bint* directory_sync_failed) noexcept nogil:
    # The directory is opened before anything is changed, because a lack of descriptors is no failed
    # sync: it passes.
    cdef int directory_fd = open_file(directory, O_RDONLY | O_DIRECTORY, error)
    cdef int status
    directory_sync_failed[0] = False
    fd[0] = -1
    if directory_fd < 0:
        return Status.IO_ERROR
    status = prepare_in(directory_fd, directory, spare_directory, start, segment_bytes, room_bytes,
                        spare_start, warm, fd, error, directory_sync_failed)
    close_file(directory_fd)
    return status


cdef int segment_settle(int fd, int64_t end, int64_t segment_bytes, int64_t room_bytes,
                        bint zero_rest, int64_t* room, int* error) noexcept nogil:
    # Blocks are allocated from the front on, so the file is taken to have blocks for as many bytes
    # as it holds on the disk. If that is wrong (a file system that compresses, another broker's
    # file with holes), the price is an fallocate of blocks that are there.
    cdef int64_t held = file_disk_bytes(fd, error)
    cdef int64_t to
    cdef int64_t less
    cdef int status
    if held < 0:
        return Status.IO_ERROR
    held = max(end, min(held, segment_bytes))
    if not zero_rest:
        status = zero_range(fd, end, min(<int64_t>8, segment_bytes - end), error)
    else:
        status = zero_range(fd, end, held - end, error)
        if status == Status.OK:
            status = punch_range(fd, held, segment_bytes - held, error)
            if error[0] == EOPNOTSUPP or error[0] == ENOSYS:
                status = zero_range(fd, held, segment_bytes - held, error)
    if status != Status.OK:
        return Status.IO_ERROR
    room[0] = segment_bytes
    if held == segment_bytes:
        return Status.OK
    to = min(segment_bytes, max(held, end + room_bytes))
    status = allocate(fd, end, to - end, error)
    while status == Status.NO_SPACE and to > end:
        less = end + (to - end) // 2
        to = held if less < held < to else less         # the blocks it already has are sure
        status = allocate(fd, end, to - end, error) if to > end else Status.OK
    room[0] = to
    return Status.OK if status == Status.OK else Status.IO_ERROR


cdef int segment_add_room(const char* directory, int64_t start, int64_t segment_bytes,
                          int64_t from_, int64_t to, int* error) noexcept nogil:
    cdef int fd = segment_open(directory, start, segment_bytes, True, error)
    cdef int ignored
    cdef int status
    if fd < 0:
        return fd if fd == Status.NOT_FOUND else Status.IO_ERROR
    status = allocate(fd, from_, to - from_, error)
    if status != Status.OK:             # a part may be allocated: others need the space more
        punch_range(fd, from_, to - from_, &ignored)
    close_file(fd)
    return status


cdef int segment_set_aside(const char* directory, const char* spare_directory, int64_t start,
                           int* error) noexcept nogil:
    cdef char old[FILE_PATH_MAX]
    cdef char new[FILE_PATH_MAX]
    if make_directory(spare_directory, error) != Status.OK:
        return Status.IO_ERROR
    if (segment_path(old, FILE_PATH_MAX, directory, start) != Status.OK
            or segment_path(new, FILE_PATH_MAX, spare_directory, start) != Status.OK):
        error[0] = ENAMETOOLONG
        return Status.IO_ERROR
    if rename(old, new) != 0:
        error[0] = errno
        return Status.IO_ERROR
    return sync_directory(directory, error)


cdef int segment_remove(const char* directory, int64_t start, int* error) noexcept nogil:
    cdef char path[FILE_PATH_MAX]
    if segment_path(path, FILE_PATH_MAX, directory, start) != Status.OK:
        error[0] = ENAMETOOLONG
        return Status.IO_ERROR
    if unlink(path) != 0:
        error[0] = errno
        if error[0] != ENOENT:
            return Status.IO_ERROR
    return sync_directory(directory, error)


cdef int segment_open(const char* directory, int64_t start, int64_t segment_bytes, bint writable,
                      int* error) noexcept nogil:
    cdef char path[FILE_PATH_MAX]
    cdef int fd
    cdef int64_t size
    if segment_path(path, FILE_PATH_MAX, directory, start) != Status.OK:
        error[0] = ENAMETOOLONG
        return Status.IO_ERROR
    fd = open_file(path, O_RDWR if writable else O_RDONLY, error)
    if fd < 0:
        return Status.NOT_FOUND if error[0] == ENOENT else Status.IO_ERROR
    size = file_size(fd, error)
    if size == segment_bytes:
        return fd
    close_file(fd)
    return Status.IO_ERROR if size < 0 else Status.CORRUPT
