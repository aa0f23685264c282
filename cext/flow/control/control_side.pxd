"""Control side: how the control thread reaches a shard's reactor, by a post or by a call.

Both go through the control link. A post (send, resubmit, close) is pushed and forgotten. A call is
a struct on the caller's stack, with arguments and room for results, and a C function that fills it.
The function is pushed, and the caller sleeps until the reactor has run it between two frames, which
takes at most a turn. While no reactor runs, the function is called directly.

Only one thread, the control thread, should use it; a lock makes a second caller wait, so that no
ring is corrupted.

Each noun has a file with its calls: topic_calls, group_calls, ..; for every call the file has its
struct, the function that runs in the reactor, and the method that Python calls. What a call
promises to Python is said in rmq/broker/core_seam.py, a Protocol for each file. A new call needs
these three parts in one file, and a method there (its signature also in shard_calls.pyi and
tests/support/fake_core.py: tests/source/test_core_seam.py compares them).

A compiled class has one base class, so the classes of the files are a chain, from ControlSide to
ShardCalls; its order means nothing.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.flow.append.appender cimport Appender
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pull.pull_service cimport PullService
from cext.flow.replication.ha_service cimport HAService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.wire.text cimport Text, text_of

cdef class ControlSide:
    cdef TurnContext turn       # its control link leads to the reactor
    # What calls work on; set by ShardCalls.
    cdef Tables tables
    cdef Appender appender
    cdef PullService pulls
    cdef DelayService delays
    cdef TransactionService transactions
    cdef ReplyService replies
    cdef PopService pops
    cdef HAService ha
    cdef AuthService auth
    cdef bint running           # whether the reactor runs
    cdef object lock

    cdef _wake(self)
    # Has the reactor (or this thread, when none runs) call `function` with its service and the
    # caller's struct.
    cdef int _call(self, CallFn function, void* service, void* call) except -1
    cdef _post(self, int32_t kind, uint64_t connection, bytes data)

# A view of the caller's bytes, which outlive the call.
cdef inline Text borrowed(bytes given):
    return text_of(<const uint8_t*> <const char*> given, <uint32_t> len(given))
