"""SqlProgram: runs a compiled SQL92 filter expression (rmq/filters/program.py) over one message.

    sql_program_check(bytes, length) == OK          once, when control hands the program in
    sql_program_run(program, properties, n)         per message, over the stored property string

Values are null, true, false, int, long, double and text. As in Apache RocketMQ 5.5.0:

    =           both null: true; left null: null; right null: false; a text is read as the type of
                the other side (number or boolean), and the evaluation fails when it is not one
    < <= > >=   one side null: null; two texts: compared as doubles; else as for =
    NOT null is null; AND and OR follow three-valued logic; IN of null is null; a search
    (CONTAINS ..) in null or for '' is false, negated or not; a property used as a condition is
    false, or null
    a failed evaluation matches nothing, even inside a NOT: NOT (a > 1) with a = "x"

Example: "a > 5" with a=7: true; with a=7.0: fails, since 5 is an int; without a: null.

The program is borrowed and never changed; any thread, no allocation.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    SQL_NAMES_MAX = 64
    SQL_STACK_MAX = 128
    SQL_PROGRAM_BYTES_MAX = 1048576

# The result of an evaluation. Only SQL_TRUE lets a message pass.
cdef enum SqlResult:
    SQL_FAILED = -1
    SQL_FALSE = 0
    SQL_TRUE = 1
    SQL_NULL = 2

# OK | MALFORMED: the bytes are not a program that can safely be run.
cdef int sql_program_check(const uint8_t* program, uint64_t length) noexcept nogil

# Returns a SqlResult. The program must have been checked.
cdef int sql_program_run(const uint8_t* program, const uint8_t* properties,
                         uint32_t properties_bytes) noexcept nogil
