# Native thread: a thread that never holds the GIL, like the flusher, preparer and disk readers.
#
# A native thread runs one nogil function with one pointer as its argument. It has every signal
# blocked, so that Python's handlers run where Python expects them, and a name of up to 15
# characters, which top and gdb show. Its owner stops it with a flag of its own and then joins it;
# a native thread is never cancelled.
#
# Example:
#     native_thread_start(&self.thread, &run, <void*>&self.state, "rmq-flusher")
#     store_release_i32(&self.state.stopping, 1); event_signal(fd); native_thread_join(&self.thread)

ctypedef void (*NativeBody)(void* argument) noexcept nogil

cdef struct NativeThread:
    size_t handle        # pthread_t
    NativeBody body      # owned by the starter; must stay valid until joined
    void* argument
    char name[16]
    bint running         # started and not joined; read and written by the starter only

# OK | IO_ERROR (errno in *error). `thread` must stay where it is until joined.
cdef int native_thread_start(NativeThread* thread, NativeBody body, void* argument,
                             const char* name, int* error) noexcept nogil
# Waits for the end of the body. Does nothing when the thread is not running. Call without the GIL.
cdef void native_thread_join(NativeThread* thread) noexcept nogil
