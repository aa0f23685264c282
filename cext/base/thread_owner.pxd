# Thread owner: the thread that an object belongs to, for debug_check.
#
# A thread that takes an object over notes itself as the owner, and clears the note when it gives
# the object up. In between, a use by another thread ends the process in a build with RMQ_DEBUG; in
# other builds all of this costs nothing. An object without an owner may be used by any thread, as
# before a reactor starts and after it has ended.
#
# Example: the reactor notes itself in its buffer pools; when the control thread releases a buffer,
# the process ends with a line that has both threads' numbers.

from libc.stdint cimport int32_t

from cext.base.check cimport debug_check

cdef extern from *:
    """
    #include <sys/syscall.h>
    #include <unistd.h>
    #ifdef RMQ_DEBUG
    static __thread int32_t rmq_thread_number;
    static inline int32_t rmq_this_thread(void)
    {
        if (rmq_thread_number == 0)
            rmq_thread_number = (int32_t) syscall(SYS_gettid);
        return rmq_thread_number;
    }
    #else
    #define rmq_this_thread() 0
    #endif
    """
    int32_t this_thread "rmq_this_thread" () noexcept nogil


cdef inline void thread_note(int32_t* owner) noexcept nogil:
    owner[0] = this_thread()


cdef inline void thread_clear(int32_t* owner) noexcept nogil:
    owner[0] = 0


cdef inline void thread_check(const int32_t* owner, const char* text) noexcept nogil:
    debug_check(owner[0] == 0 or owner[0] == this_thread(), text, owner[0], this_thread())
