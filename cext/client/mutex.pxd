"""Mutex: the client's mutex and condition variables (declarations; no .pyx).

The engine thread and Python threads share a few buffers, each time for as long as a copy takes. A
Python thread keeps the GIL while it waits for a mutex: the engine never takes the GIL, so this
cannot hang. Condition variables use the monotonic clock (`condition_open`).
"""
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <pthread.h>
    #include <stdint.h>
    #include <time.h>

    static inline void rmq_condition_open(pthread_cond_t *condition)
    {
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
    }

    /* Sleeps until told or until `until_us` by the machine's monotonic clock (wake_us). */
    static inline void rmq_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                          int64_t until_us)
    {
        struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
        pthread_cond_timedwait(condition, lock, &until);
    }

    static inline void rmq_lock_open(pthread_mutex_t *lock)
    {
        pthread_mutex_init(lock, 0);
    }
    """
    ctypedef struct Lock "pthread_mutex_t":
        pass
    ctypedef struct Condition "pthread_cond_t":
        pass
    void lock_open "rmq_lock_open" (Lock* lock) noexcept nogil
    int lock_close "pthread_mutex_destroy" (Lock* lock) noexcept nogil
    int lock_take "pthread_mutex_lock" (Lock* lock) noexcept nogil
    int lock_release "pthread_mutex_unlock" (Lock* lock) noexcept nogil
    void condition_open "rmq_condition_open" (Condition* condition) noexcept nogil
    int condition_close "pthread_cond_destroy" (Condition* condition) noexcept nogil
    void condition_wait "rmq_condition_wait" (Condition* condition, Lock* lock,
                                              int64_t until_us) noexcept nogil
    int condition_signal "pthread_cond_signal" (Condition* condition) noexcept nogil
    int condition_broadcast "pthread_cond_broadcast" (Condition* condition) noexcept nogil
