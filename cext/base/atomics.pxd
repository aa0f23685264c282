"""Atomics: loads and stores that are ordered between threads (cext/c/atomics.h). No .pyx."""
from libc.stdint cimport int32_t, int64_t, uint64_t

cdef extern from "atomics.h" nogil:
    int64_t load_acquire_i64 "rmq_load_acquire_i64" (const int64_t* at)
    void store_release_i64 "rmq_store_release_i64" (int64_t* at, int64_t value)
    uint64_t load_acquire_u64 "rmq_load_acquire_u64" (const uint64_t* at)
    void store_release_u64 "rmq_store_release_u64" (uint64_t* at, uint64_t value)
    int32_t load_acquire_i32 "rmq_load_acquire_i32" (const int32_t* at)
    void store_release_i32 "rmq_store_release_i32" (int32_t* at, int32_t value)
    int32_t exchange_i32 "rmq_exchange_i32" (int32_t* at, int32_t value)
    int32_t load_seq_i32 "rmq_load_seq_i32" (const int32_t* at)
    void store_seq_i32 "rmq_store_seq_i32" (int32_t* at, int32_t value)
    void fence "rmq_fence" ()
