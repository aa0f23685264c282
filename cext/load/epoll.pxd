"""epoll: waiting for sockets with timeouts in nanoseconds, and the clock for it; each is one call.

`wait_events` sleeps with nanosecond timeouts (epoll_pwait2, Linux 5.11): an open-loop producer at
20,000/s has 50 us between two sends, which the milliseconds of epoll_wait cannot express. On an
older kernel it falls back to whole milliseconds, rounded down, so a rate costs CPU there but keeps
its schedule. `fine_timers` asks the kernel not to add its 50 us of slack to this thread's sleeps.

Example: wait_events(fd, events, 64, 50_000) returns 0 after 50 us when nothing happened.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/epoll.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    static inline int64_t rmq_load_now_ns(void)
    {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }

    static inline int rmq_load_wait(int epoll_fd, struct epoll_event *events, int most,
                                    int64_t nanoseconds)
    {
    #ifdef SYS_epoll_pwait2
        struct timespec timeout = {nanoseconds / 1000000000, nanoseconds % 1000000000};
        int count = (int)syscall(SYS_epoll_pwait2, epoll_fd, events, most, &timeout, NULL, 0);
        if (count >= 0 || errno != ENOSYS)
            return count < 0 ? 0 : count;
    #endif
        int late = epoll_wait(epoll_fd, events, most, (int)(nanoseconds / 1000000));
        return late < 0 ? 0 : late;
    }

    static inline void rmq_load_fine_timers(void)
    {
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    }
    """
    ctypedef union epoll_data_t:
        void* ptr
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    enum:
        EPOLLIN
        EPOLLOUT
        EPOLLHUP
        EPOLLERR
        EPOLL_CTL_ADD
        EPOLL_CTL_MOD
        EPOLL_CTL_DEL
        EPOLL_CLOEXEC
    int epoll_create1(int flags) noexcept nogil
    int epoll_ctl(int epoll_fd, int operation, int fd, epoll_event* event) noexcept nogil
    int64_t now_ns "rmq_load_now_ns" () noexcept nogil
    # The number of events; 0 after the timeout or a signal.
    int wait_events "rmq_load_wait" (int epoll_fd, epoll_event* events, int most,
                                     int64_t nanoseconds) noexcept nogil
    void fine_timers "rmq_load_fine_timers" () noexcept nogil
