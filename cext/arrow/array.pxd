# Array: grown memory handed over to Arrow through Arrow's C data interface: two structs of
# pointers, and no Python object for any buffer.
#
# An array is opened and given its buffers and children; then it belongs to the code that imports
# it. release() frees everything that was given, from any thread, without the GIL. The importer may
# take a child out and release it by itself.
#
# Example: open(out, 2 rows, 0 nulls, 3 buffers, 0 children), then give offsets (0 2 2) and data
# ("ab"): the binary array ["ab", ""].

from libc.stdint cimport int64_t

from cext.arrow.byte_buffer cimport ByteBuffer

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #include <stdint.h>
    struct ArrowArray {
        int64_t length;
        int64_t null_count;
        int64_t offset;
        int64_t n_buffers;
        int64_t n_children;
        const void **buffers;
        struct ArrowArray **children;
        struct ArrowArray *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    """
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers        # [0] is the validity bitmap; NULL: no row is null
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil     # NULL: nothing is held
        void* private_data

# Opens an array with all buffers NULL and all children zero. False: no memory, nothing is held.
cdef bint array_open(ArrowArray* out, int64_t length, int64_t nulls, int buffers,
                     int children) noexcept nogil
# Moves the memory into buffer `at`; `memory` is empty afterwards.
cdef void array_give(ArrowArray* to, int at, ByteBuffer* memory) noexcept nogil
cdef void array_free(ArrowArray* array) noexcept nogil      # does nothing when nothing is held
