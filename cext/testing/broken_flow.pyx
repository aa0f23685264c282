"""Broken flow: invariants above the store that are broken on purpose: network, answers, dispatch,
role, the client.

    PLANTS["ack_order"]()       does not return (broken_invariant.pyx)
"""
cdef extern from *:
    """
    #ifndef RMQ_DEBUG
    #define RMQ_DEBUG 1
    #endif
    """

from libc.stdlib cimport calloc
from libc.string cimport memset

from cext.client.link cimport link_connected, link_drop
from cext.client.slots cimport slot_release, slots_open
from cext.client.state cimport LINK_OPEN, EngineState, Link
from cext.flow.append.ack_queue cimport (
    AckQueue, ack_queue_arena_bytes, ack_queue_open, ack_queue_pop, ack_queue_push,
    ack_queue_reserve)
from cext.flow.append.appender cimport Appender, Dispatch
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.log_marks cimport (
    replicated_lower, replicated_raise, visible_limit, visible_lower, visible_raise)
from cext.flow.context.control_link cimport (
    CLOSED_CONNECTION, EVENT, ControlLink, link_arena_bytes, link_open, link_push)
from cext.flow.context.role cimport (
    FACT_SLAVE, FACT_REPLICATING, FACT_SENDS_WAIT, FACT_SLAVES_MISSING, Role, refuse_remark,
    role_doubt, role_demote, role_promote, role_open, role_set)
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.pull.pull_job cimport JOB_DEFERRED, JOB_HELD, JOB_READY, PullJob, job_move
from cext.flow.replication.ha_client cimport report_step
from cext.flow.replication.ha_service cimport HAService
from cext.memory.arena cimport SharedArena
from cext.net.connection cimport IN_REPLY_BUFFER, Connection, OutPiece, ReplyBuffer
from cext.net.connection_table cimport ConnectionTable
from cext.net.half_frames cimport HalfFrames, halves_add, halves_open, halves_remove
from cext.net.handshake_thread cimport HandshakeStep
from cext.net.openssl cimport SSL
from cext.net.stalled_list cimport StalledList, stalled_join
from cext.net.tls cimport (
    OfferedTls, TlsServer, tls_offer, tls_offered_open, tls_server_open, tls_server_set)
from cext.net.tls_stream cimport TlsClientContext
from cext.store.log.commit_log cimport CommitLog

import socket
import tempfile


# ------------------------------------------------------------------- the network

def _connections():
    """A connection is counted that no slot has."""
    cdef ConnectionTable table = ConnectionTable()
    table.connection_count = 1
    table.close_idle()


def _unread():
    cdef ConnectionTable table = ConnectionTable()
    table.unread_counts[2] = 3
    table.close_idle()


def _slots():
    cdef ConnectionTable table = ConnectionTable()
    table.free_count = 1
    table.close_idle()


def _reply_buffer():
    """A piece of a reply points into a buffer that has been given back."""
    cdef ConnectionTable table = ConnectionTable()
    cdef Connection c
    cdef OutPiece piece
    cdef ReplyBuffer buffer
    memset(&c, 0, sizeof(c))
    memset(&piece, 0, sizeof(piece))
    memset(&buffer, 0, sizeof(buffer))
    buffer.used = 120
    piece.kind = IN_REPLY_BUFFER
    piece.owner = &buffer
    c.first = c.last = &piece
    table.drop_piece(&c)


def _half_frames():
    """There is one large frame more than may be kept."""
    cdef Connection* list[4]
    cdef Connection c
    cdef HalfFrames halves
    cdef int _i
    memset(&halves, 0, sizeof(halves))
    memset(&c, 0, sizeof(c))
    halves_open(&halves, list, 4)
    for _i in range(5):
        halves_add(&halves, &c, 0)


def _half_bytes():
    cdef Connection* list[4]
    cdef Connection c
    cdef HalfFrames halves
    memset(&halves, 0, sizeof(halves))
    memset(&c, 0, sizeof(c))
    halves_open(&halves, list, 4)
    halves_add(&halves, &c, 0)
    c.jumbo_counted = 9
    halves_remove(&halves, &c)


def _list_ends():
    cdef StalledList stalled
    cdef Connection c, other
    memset(&stalled, 0, sizeof(stalled))
    memset(&c, 0, sizeof(c))
    memset(&other, 0, sizeof(other))
    stalled.last = &other
    stalled_join(&stalled, &c)


# ------------------------------------------------------------------- TLS

cdef Connection accepted(TlsServer* server, int fd):
    """A client of the server that has not been read."""
    cdef Connection c
    memset(&c, 0, sizeof(c))
    c.id = 1 << 20
    c.fd = fd
    tls_server_open(server)
    c.transport = &server.transport
    server.transport.open(server, &c)
    return c


def _tls_handshake():
    """A handshake goes on while the thread is at a step of it."""
    cdef TlsServer server
    cdef Connection c = accepted(&server, -1)
    (<HandshakeStep*> c.transport_state).is_out = True
    server.transport.handshake(&c)


def _tls_receive():
    cdef TlsServer server
    cdef Connection c = accepted(&server, -1)
    cdef char room[8]
    (<HandshakeStep*> c.transport_state).is_out = True
    server.transport.receive(&c, room, 8)


def _tls_send():
    cdef TlsServer server
    cdef Connection c = accepted(&server, -1)
    (<HandshakeStep*> c.transport_state).is_out = True
    server.transport.send(&c, NULL, 0)


def _tls_state():
    """The state of a client that has left is freed while the thread is at a step of it."""
    ours, theirs = socket.socketpair()
    cdef TlsServer server
    cdef Connection c = accepted(&server, ours.fileno())
    cdef TlsClientContext context = TlsClientContext(None, False, None, None, None)
    cdef HandshakeStep* step = <HandshakeStep*> c.transport_state
    tls_server_set(&server, context.context, True)
    theirs.send(b"\x16")                    # a client hello begins so
    server.transport.handshake(&c)
    step.is_out = True
    step.drop(step)


def _tls_offered():
    """A second connection is offered before the first is added."""
    cdef TlsServer server
    cdef OfferedTls offered
    tls_server_open(&server)
    tls_offered_open(&offered, &server)
    tls_offer(&offered, <SSL*> &server)
    tls_offer(&offered, <SSL*> &server)


def _tls_added():
    """A connection is added that was never offered."""
    cdef TlsServer server
    cdef OfferedTls offered
    cdef Connection c = accepted(&server, -1)
    tls_offered_open(&offered, &server)
    offered.transport.open(&offered, &c)


# ------------------------------------------------------------------- answers and dispatch

def _ack_order():
    """The answer to a later request waits for an earlier end."""
    cdef SharedArena memory = SharedArena(ack_queue_arena_bytes(64))
    cdef AckQueue queue
    ack_queue_open(&queue, &memory.arena, 64)
    ack_queue_reserve(&queue).end = 500
    ack_queue_push(&queue)
    ack_queue_reserve(&queue).end = 400
    ack_queue_push(&queue)


def _ack_ring():
    cdef SharedArena memory = SharedArena(ack_queue_arena_bytes(64))
    cdef AckQueue queue
    ack_queue_open(&queue, &memory.arena, 64)
    ack_queue_pop(&queue)


cdef Appender new_appender():
    cdef Appender s = Appender()
    s.log = CommitLog(tempfile.mkdtemp(prefix="rmq-planted-"), 1 << 20, 1 << 20,
                      max_record_bytes=4096)
    s.log.load()
    s.log.set_end(0)
    s.turn = TurnContext()
    return s


def _dispatch_list():
    """The list of appended records begins after its end."""
    cdef Appender s = new_appender()
    s.dispatch_first = 3
    write_and_dispatch(s)


def _dispatched():
    """Queues have entries for records that are not written."""
    cdef Appender s = new_appender()
    s.log.marks.dispatched = 10
    write_and_dispatch(s)


def _dispatched_back():
    """The list of appended records begins with one that has its queue entry already."""
    cdef Appender s = new_appender()
    cdef Dispatch d
    memset(&d, 0, sizeof(d))
    d.size = 40
    s.log.marks.appended = s.log.marks.written = s.log.marks.dispatched = 96
    s.dispatches = &d
    s.dispatch_max = s.dispatch_count = 1
    write_and_dispatch(s)


# ------------------------------------------------------------------- the control link

cdef ControlLink new_control_link(SharedArena memory):
    """For 16 messages and the closes that they may bring."""
    cdef ControlLink link
    link_open(&link, &memory.arena, 16, 1000, 0)
    return link


def _control_bytes():
    """The control thread has taken bytes that nobody gave it."""
    cdef SharedArena memory = SharedArena(link_arena_bytes(16, 0))
    cdef ControlLink link = new_control_link(memory)
    link.bytes_out = 5
    link_push(&link, EVENT, 0, NULL, 0)


def _control_room():
    """More connections close than control was ever told of."""
    cdef SharedArena memory = SharedArena(link_arena_bytes(16, 0))
    cdef ControlLink link = new_control_link(memory)
    cdef int i
    for i in range(65):
        link_push(&link, CLOSED_CONNECTION, i, NULL, 0)


# ------------------------------------------------------------------- marks of replicas

def _replicated():
    """A slave has bytes that were never appended."""
    cdef Appender s = new_appender()
    s.log.marks.appended = 400
    replicated_raise(s, 500)


def _replicated_back():
    """At a master, slaves have less than before."""
    cdef Appender s = new_appender()
    s.log.marks.appended = 1000
    replicated_raise(s, 500)
    replicated_raise(s, 300)                # one of the slaves has just come back
    replicated_lower(s, 400)


def _visible_limit():
    """There is a limit to what consumers see, and another one is set."""
    cdef Appender s = new_appender()
    s.log.marks.dispatched = 700
    visible_limit(s, 700)
    visible_limit(s, 0)


def _visible_hidden():
    """A limit is beyond what was dispatched: consumers would see more than anybody allowed."""
    cdef Appender s = new_appender()
    s.log.marks.dispatched = 700
    visible_limit(s, 701)


def _visible_back():
    """A master hides again what consumers have seen."""
    cdef Appender s = new_appender()
    s.log.marks.dispatched = 700
    visible_limit(s, 700)
    visible_raise(s, 900)
    visible_lower(s, 800)


# ------------------------------------------------------------------- the role

def _role():
    """A master is told that a part of its log is unconfirmed."""
    cdef Role r
    role_open(&r)
    role_doubt(&r)


def _role_facts():
    """A master has the facts of a slave."""
    cdef Role r
    role_open(&r)
    r.facts |= FACT_SLAVE
    role_set(&r, FACT_SENDS_WAIT, True)


def _role_moved():
    """A slave has the facts of a master, and becomes one."""
    cdef Role r
    role_open(&r)
    role_demote(&r)
    r.facts = 0
    role_promote(&r)


def _role_set():
    """The fact that a master's log comes is set apart from the state."""
    cdef Role r
    role_open(&r)
    role_set(&r, FACT_REPLICATING, True)


def _role_refuses():
    """A master that takes records is asked why it takes none."""
    cdef Role r
    role_open(&r)
    role_set(&r, FACT_SLAVES_MISSING | FACT_SENDS_WAIT, True)
    refuse_remark(&r)


def _stream():
    """A master takes more of another master's log."""
    cdef HAService s = HAService()
    cdef Connection c
    cdef Step step = report_step(s)
    memset(&c, 0, sizeof(c))
    s.turn = TurnContext()
    s.master.connection = &c
    step.run(step.service)


def _pull():
    """A pull that is held already is made to wait for its client."""
    cdef PullJob job
    memset(&job, 0, sizeof(job))
    job.state = JOB_HELD
    job_move(&job, JOB_DEFERRED, 1 << JOB_READY)


# ------------------------------------------------------------------- the client

def _slot():
    """Seen only by debug builds: a free slot is freed."""
    cdef EngineState* state = <EngineState*> calloc(1, sizeof(EngineState))
    slots_open(state)
    slot_release(state, &state.slots[5])


def _link():
    """A connection that is open already is connected again."""
    cdef EngineState* state = <EngineState*> calloc(1, sizeof(EngineState))
    cdef Link link
    cdef int error = 0
    memset(&link, 0, sizeof(link))
    link.fd = -1
    link.state = LINK_OPEN
    link_connected(state, &link, &error)


def _link_dropped():
    """A connection breaks that is in none of the states."""
    cdef EngineState* state = <EngineState*> calloc(1, sizeof(EngineState))
    cdef Link link
    memset(&link, 0, sizeof(link))
    link.fd = -1
    link.state = 5
    link_drop(state, &link)


PLANTS = {
    "connections": _connections, "unread": _unread, "slots": _slots,
    "reply_buffer": _reply_buffer, "half_frames": _half_frames, "half_bytes": _half_bytes,
    "list_ends": _list_ends, "tls_handshake": _tls_handshake, "tls_receive": _tls_receive,
    "tls_send": _tls_send, "tls_state": _tls_state, "tls_offered": _tls_offered,
    "tls_added": _tls_added, "ack_order": _ack_order, "ack_ring": _ack_ring,
    "control_bytes": _control_bytes, "control_room": _control_room,
    "dispatch_list": _dispatch_list, "dispatched": _dispatched,
    "dispatched_back": _dispatched_back, "pull": _pull, "replicated": _replicated,
    "replicated_back": _replicated_back, "visible_limit": _visible_limit,
    "visible_hidden": _visible_hidden, "visible_back": _visible_back, "role": _role,
    "role_facts": _role_facts, "role_moved": _role_moved, "role_set": _role_set,
    "role_refuses": _role_refuses, "stream": _stream,
    "slot": _slot, "link": _link, "link_dropped": _link_dropped,
}
