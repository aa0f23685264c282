"""Check backs: producers are asked about half messages that nobody ended.

Control says when (rmq/broker/tasks/transaction_checks.py) and by what rules. A call looks at some
half messages, and does this for each that is open and old enough:

    its record, with TRANSACTION_CHECK_TIMES + 1, is stored anew at the end of the half queue
    the old one is ended; an end that is on its way counts for the new one (open_halves.pxd)
    39 CHECK_TRANSACTION_STATE goes to a connection of its producer group (check_table.pxd), with
    the new place, and with the record as if it stood in its real topic

A call is bounded by the messages it looks at, those it stores, and their bytes, so that sends of
the same turn wait no longer than for a large batch. It ends with a write; the questions leave at
the end of the turn. A call also ends at a record that is not in memory: a disk reader fetches it
and those behind it (readahead.pxd), and control calls again. A half message whose queue entry is
damaged and cannot be made anew for now is left for a later round. Control is handed what should be
given up: a record that is damaged or names no place to go, and a transaction that was checked too
often or is too old.

A producer that does not read its check backs is not asked more: the call ends there, and control
either calls again or has half messages of such producers left for later.

Example: half 17 is open and 10 s old: stored anew as 90, and asked about as 90.
"""
from libc.stdint cimport int64_t

from cext.flow.context.call_block cimport Block
from cext.flow.transaction.transaction_service cimport TransactionService

cdef enum:
    CHECKS_MAX = 256                # half messages stored anew in a call
    LOOKED_MAX = 1024               # records looked at
    PASSED_MAX = 65536              # half messages passed, ended ones included
    CHECK_BYTES_MAX = 1048576       # of records stored anew; the last one may go beyond
    CONTROLS_MAX = 256              # half messages handed to control in a call

cdef enum CheckStop:                # why a call ended before its bounds
    NOT_STOPPED = 0
    PRODUCERS_FULL = 1              # a producer has not read its earlier check backs
    LOG_FULL = 2                    # the log takes nothing now
    RECORDS_ON_DISK = 3             # records must be read from the disk first

cdef struct CheckRules:
    int64_t began_ms                # what was stored since is not asked about in this round
    int64_t young_ms                # nobody is asked earlier, unless its properties say so
    int64_t times_max               # given up after so many checks
    int64_t age_max_ms              # given up at this age
    bint leave_full                 # leave for later what full producers would be asked about
cdef struct CheckHalves:
    int64_t after               # the half queue's offset at which to begin
    int64_t end                 # and the one at which to end
    CheckRules rules
    # results
    int status                  # OK, POOL_EMPTY
    int64_t following           # where to go on
    int64_t asked               # stored anew, and their producers asked
    int64_t unasked             # stored anew while nobody could be asked
    CheckStop check_stop
    Block block                 # i64 offsets that control must look at

# The reactor half of the control thread's check_halves().
cdef void check_backs_run(TransactionService s, CheckHalves* x) noexcept nogil
