"""Housekeeping. See housekeeping.pxd."""
cimport cython
from libc.stdint cimport int32_t, uint64_t
from libc.stdio cimport snprintf

from cext.flow.append.disk_alerts cimport log_disk_alerts
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport NextWait, RunStep
from cext.flow.request_reply.reply_push cimport push_expire
from cext.flow.send.pending_topic_sends cimport pending_sends_expire
from cext.memory.use_count cimport removed_list_free
from cext.net.connection_table cimport NetCounters

from rmq.errors import not_copied

cdef enum:
    LATE_MS = 500
    FAILED_READS_S = 60         # between two lines about reads that fail

cdef struct Report:
    size_t counter              # place of the counter in NetCounters
    const char* line            # gets the number of connected clients and the counter's growth
    bint has_address            # the line begins with the address that was refused last

cdef NetCounters FIELDS         # counts nothing: it only serves to find its fields' places

cdef Report[REPORTS] reports = [
    Report(<char*> &FIELDS.accept_failures - <char*> &FIELDS,
           b"no file descriptors: %u clients are connected, others wait; raise the limit "
           b"(ulimit -n)", False),
    Report(<char*> &FIELDS.closed_slow - <char*> &FIELDS,
           b"%u clients are connected; large requests that did not get on held what they may: "
           b"%llu clients have been closed for others", False),
    Report(<char*> &FIELDS.closed_deaf - <char*> &FIELDS,
           b"%u clients are connected; buffers for answers, or the memory for messages beyond 16 "
           b"MiB, ran out: %llu clients that did not take theirs have been closed; for the buffers "
           b"raise rmqReplyBuffers", False),
    Report(<char*> &FIELDS.refused_full - <char*> &FIELDS,
           b"%u clients are connected, which is the limit: %llu have been closed; raise "
           b"rmqMaxConnections or the limit of open files (ulimit -n)", False),
    Report(<char*> &FIELDS.refused_address - <char*> &FIELDS,
           b"%u clients are connected; %llu have been closed because their address has as many "
           b"connections as it may, this one the last; raise rmqMaxConnectionsPerAddress, or say "
           b"in rmqProxyProtocolFrom that it is a balancer", True),
    Report(<char*> &FIELDS.refused_handshakes - <char*> &FIELDS,
           b"%u clients are connected; %llu have been closed because their address has begun as "
           b"many TLS handshakes as it may, this one the last; raise rmqMaxHandshakesPerAddress "
           b"or rmqHandshakeRatePerAddress", True),
    Report(<char*> &FIELDS.refused_words - <char*> &FIELDS,
           b"%u clients are connected; %llu have been closed because rmqProxyProtocolFrom lists "
           b"their address, this one the last, and it did not say by the PROXY protocol who comes "
           b"by it; have it do so (send-proxy), or set rmqProxyProtocol=optional", True),
    Report(<char*> &FIELDS.displaced - <char*> &FIELDS,
           b"%u clients are connected, and a limit is reached: %llu that asked for nothing have "
           b"been closed for others; raise rmqMaxConnections, rmqMaxConnectionsPerAddress or "
           b"rmqMaxHandshakesPerAddress, or the limit of open files (ulimit -n)", False),
]


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class Housekeeping:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")


cdef void report_counters(Housekeeping s) noexcept nogil:
    """Logs a line for each counter that has grown."""
    cdef char line[320]
    cdef uint64_t count
    cdef int i
    for i in range(REPORTS):
        count = (<uint64_t*> (<char*> &s.turn.net.counters + reports[i].counter))[0]
        if count != s.reported[i]:
            snprintf(line, sizeof(line), reports[i].line, s.turn.net.connection_count,
                     <unsigned long long> (count - s.reported[i]))
            s.reported[i] = count
            log_event(s.turn, &s.turn.net.refused if reports[i].has_address else NULL, line)


cdef void report_failed_reads(Housekeeping s) noexcept nogil:
    """Failed reads end nothing: only these lines say why messages that are due do not come."""
    cdef char line[320]
    cdef uint64_t count = s.fetch.pool.failed
    if count == s.failed_reads or s.last_second < s.failed_reads_second:
        return
    snprintf(line, sizeof(line), b"the disk could not be read %llu times (I/O error, no descriptor "
             b"or no memory): delayed, timed, popped and half messages that lie there wait and are "
             b"read again until it can, pulls are refused",
             <unsigned long long> (count - s.failed_reads))
    s.failed_reads = count
    s.failed_reads_second = s.last_second + FAILED_READS_S
    log_event(s.turn, NULL, line)


cdef void report_dropped_lines(Housekeeping s) noexcept nogil:
    cdef char line[80]
    s.turn.events_this_second = 0
    if s.turn.events_dropped > 0:
        snprintf(line, sizeof(line), b"%llu more lines of this second were not logged",
                 <unsigned long long> s.turn.events_dropped)
        s.turn.events_dropped = 0
        log_event(s.turn, NULL, line)
        s.turn.events_this_second = 0


cdef void housekeeping_turn(Housekeeping s) noexcept nogil:
    cdef int64_t second = s.turn.now_ms // 1000
    if second == s.last_second:
        return
    s.last_second = second
    s.turn.net.close_idle()
    s.turn.net.resume_accepting()
    s.turn.net.trim()
    if s.turn.net.is_short():
        s.turn.net.close_deaf()
    removed_list_free(&s.tables.removed)
    pending_sends_expire(s.send)
    push_expire(s.reply)
    report_counters(s)
    report_failed_reads(s)
    log_disk_alerts(&s.append.alerts, s.turn, s.append.log, s.append.queues)
    report_dropped_lines(s)


cdef int32_t housekeeping_wait(Housekeeping s) noexcept nogil:
    return LATE_MS


cdef Step housekeeping_step(Housekeeping s) noexcept:
    return Step(b"housekeeping", <void*> s, <RunStep> housekeeping_turn,
                <NextWait> housekeeping_wait, NULL)
