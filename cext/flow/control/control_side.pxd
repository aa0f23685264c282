"""Control side: how the control thread reaches a shard's reactor, post by post or call by call.

Two ways lead there, both through the control link. A post (send, resubmit, close) is pushed and
forgotten. A call is a struct on the caller's stack, with what it is given and room for what comes
of it, and a C function that fills it: the function is pushed, and the caller sleeps until the
reactor has run it between two frames, a turn at most. While no reactor runs it is done on the spot.

One thread may use it, the control thread; a lock makes a second caller wait rather than corrupt a
ring.

A noun's calls have a file: topic_calls, group_calls, ..; each with, for every call, its struct,
what runs in the reactor, and what Python calls. What a call promises to Python is said in
rmq/broker/core_seam.py, a Protocol for each file. A new call is these three in one file, and a
method there (its signature also in shard_calls.pyi and tests/support/fake_core.py:
tests/source/test_core_seam.py compares them).

A compiled class has one base, so the classes of the files are a chain, from ControlSide to
ShardCalls; the order means nothing.
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
    cdef TurnContext turn       # its link is the way there
    # What calls work on: ShardCalls sets them.
    cdef Tables tables
    cdef Appender appender
    cdef PullService pulls
    cdef DelayService delays
    cdef TransactionService transactions
    cdef ReplyService replies
    cdef PopService pops
    cdef HAService ha
    cdef AuthService auth
    cdef bint running           # the reactor is
    cdef object lock

    cdef _wake(self)
    # Has the reactor (or this thread, when none runs) do `function` with the service that it works
    # on and the caller's struct.
    cdef int _call(self, CallFn function, void* service, void* call) except -1
    cdef _post(self, int32_t kind, uint64_t connection, bytes data)

# A call's view of the caller's bytes, which outlive the call.
cdef inline Text borrowed(bytes given):
    return text_of(<const uint8_t*> <const char*> given, <uint32_t> len(given))
