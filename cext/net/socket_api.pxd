"""Socket API: the system calls on sockets that the reactor uses (declarations only)."""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<errno.h>" nogil:
    int errno
    enum: EINTR, EAGAIN, EWOULDBLOCK, EMFILE, ENFILE, ECONNABORTED, ENOBUFS, ENOMEM

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int fd, const iovec* iov, int count)

cdef extern from "<sys/socket.h>" nogil:
    ctypedef uint32_t socklen_t
    cdef struct sockaddr:
        pass
    cdef struct sockaddr_storage:
        uint16_t ss_family
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    enum: AF_INET, AF_INET6, SOCK_STREAM, SOCK_NONBLOCK, SOCK_CLOEXEC, MSG_NOSIGNAL, MSG_DONTWAIT
    int accept4(int fd, sockaddr* address, socklen_t* length, int flags)
    int getpeername(int fd, sockaddr* address, socklen_t* length)
    ssize_t recv(int fd, void* at, size_t length, int flags)
    ssize_t send(int fd, const void* at, size_t length, int flags)
    ssize_t sendmsg(int fd, const msghdr* message, int flags)
    int setsockopt(int fd, int level, int name, const void* value, socklen_t length)

cdef extern from "<netinet/in.h>" nogil:
    cdef struct in_addr:
        uint32_t s_addr
    cdef struct in6_addr:
        uint8_t s6_addr[16]
    cdef struct sockaddr_in:
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        uint16_t sin6_port
        in6_addr sin6_addr
    enum: IPPROTO_TCP
    uint16_t ntohs(uint16_t value)

cdef extern from "<netinet/tcp.h>" nogil:
    enum: TCP_NODELAY

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void* ptr
        uint64_t u64
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    enum: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP
    const uint32_t EPOLLONESHOT
    enum: EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CLOEXEC
    int epoll_create1(int flags)
    int epoll_ctl(int epoll_fd, int operation, int fd, epoll_event* event)
    int epoll_wait(int epoll_fd, epoll_event* events, int count, int timeout_ms)

cdef extern from "<sys/eventfd.h>" nogil:
    enum: EFD_NONBLOCK, EFD_CLOEXEC
    int eventfd(unsigned int value, int flags)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)
    ssize_t read(int fd, void* at, size_t length)
    ssize_t write(int fd, const void* at, size_t length)
