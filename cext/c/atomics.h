/* Atomics: the few atomic operations the project uses, spelled once. Rings and watermarks are the
   only places where threads meet; each names the order it needs and why. */
#ifndef RMQ_ATOMICS_H
#define RMQ_ATOMICS_H
#include <stdint.h>

static inline int64_t rmq_load_acquire_i64(const int64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void rmq_store_release_i64(int64_t *at, int64_t v)
{
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}

static inline uint64_t rmq_load_acquire_u64(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void rmq_store_release_u64(uint64_t *at, uint64_t v)
{
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}

static inline int32_t rmq_load_acquire_i32(const int32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void rmq_store_release_i32(int32_t *at, int32_t v)
{
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}

static inline int32_t rmq_exchange_i32(int32_t *at, int32_t v)
{
    return __atomic_exchange_n(at, v, __ATOMIC_SEQ_CST);
}

static inline int32_t rmq_load_seq_i32(const int32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static inline void rmq_store_seq_i32(int32_t *at, int32_t v)
{
    __atomic_store_n(at, v, __ATOMIC_SEQ_CST);
}

/* Between "publish my word" and "look at the other's flag" on both sides of a sleep: without it
   both may miss each other (store then load of two places may swap, even on x86). */
static inline void rmq_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif
