"""Ping-pong: frames to and fro over loopback, the lower bound of every send latency here.

One side sends `request_bytes`; the other reads them and sends `reply_bytes` back. Both block in
recv, and nothing is parsed. What remains is two socket writes, two wake-ups and two reads, which no
broker on the same kernel can avoid. The two sides must be two processes (or threads), as client and
broker are.

    echo(server_side_socket.fileno(), 660, 230)                  # in the child; returns at EOF
    histogram = ping(client_socket.fileno(), 660, 230, 1.0)      # in the parent
"""
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from cext.load.histogram cimport Histogram
from cext.load.epoll cimport now_ns

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void* to, size_t bytes, int flags)
    ssize_t send(int fd, const void* data, size_t bytes, int flags)
    enum:
        MSG_NOSIGNAL


cdef bint read_whole(int fd, uint8_t* to, size_t bytes) noexcept nogil:
    """False when the other side is gone."""
    cdef size_t have = 0
    cdef ssize_t got
    while have < bytes:
        got = recv(fd, to + have, bytes - have, 0)
        if got > 0:
            have += <size_t>got
        elif got == 0 or errno != EINTR:
            return False
    return True


cdef bint send_whole(int fd, const uint8_t* data, size_t bytes) noexcept nogil:
    cdef size_t done = 0
    cdef ssize_t sent
    while done < bytes:
        sent = send(fd, data + done, bytes - done, MSG_NOSIGNAL)
        if sent > 0:
            done += <size_t>sent
        elif errno != EINTR:
            return False
    return True


cdef uint8_t* take_buffer(request_bytes, reply_bytes) except NULL:
    cdef uint8_t* buffer
    if not 0 < request_bytes <= 1 << 24 or not 0 < reply_bytes <= 1 << 24:
        raise ValueError(f"sizes {request_bytes} and {reply_bytes}")
    buffer = <uint8_t*>calloc(max(request_bytes, reply_bytes), 1)
    if buffer == NULL:
        raise MemoryError()
    return buffer


def echo(int fd, size_t request_bytes, size_t reply_bytes):
    """Answers until the other side closes; returns the number of rounds. fd blocks."""
    cdef uint8_t* buffer = take_buffer(request_bytes, reply_bytes)
    cdef int64_t rounds = 0
    with nogil:
        while read_whole(fd, buffer, request_bytes) and send_whole(fd, buffer, reply_bytes):
            rounds += 1
    free(buffer)
    return rounds


def ping(int fd, size_t request_bytes, size_t reply_bytes, double seconds):
    """Plays ping-pong for `seconds`; returns the histogram of the round trips."""
    cdef uint8_t* buffer = take_buffer(request_bytes, reply_bytes)
    cdef Histogram histogram = Histogram()
    cdef int64_t start = now_ns(), before = start, after
    cdef int64_t until = start + <int64_t>(seconds * 1e9)
    cdef bint whole = True
    with nogil:
        while before < until:
            whole = send_whole(fd, buffer, request_bytes) and read_whole(fd, buffer, reply_bytes)
            if not whole:
                break
            after = now_ns()
            histogram.record(after - before)
            before = after
    free(buffer)
    if not whole:
        raise ConnectionError("the other side of the ping-pong is gone")
    return histogram
