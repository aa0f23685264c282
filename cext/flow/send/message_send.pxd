"""Message send: from the frame in the receive buffer to the record in the log's write buffer.

    header fields -> topic, queue, sizes checked -> record written once, in place, at the log's end
    -> a dispatch entry (written to its consume queue at the end of the turn)
    -> a pending ack (answered when the log has reached its mark: promise.pxd)

Nothing is copied twice: the body goes from the receive buffer into the log's tail, and the
properties are unescaped from JSON straight into their place in the record.

Sends that came while a write to the log was stuck are refused: SYSTEM_BUSY, [TIMEOUT_CLEAN_QUEUE]
from send_wait_ms on, [PCBUSY_CLEAN_QUEUE] from page_cache_busy_ms on. The duration of the write is
passed on like this:

    dispatch.pyx        measures the write (Appender.write_us); the poll after a long one does not
                        sleep, so it finds what came during the write and nothing later
    log_turn.pyx        makes it TurnContext.stalled_ms when the next turn begins, and forgets it
    accept_send()       looks at stalled_ms before anything is done for the send
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_send(SendService s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil
