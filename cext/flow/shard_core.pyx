"""ShardCore: one shard's compiled half, the one class that Python sees: its life and its numbers.

    core = ShardCore(options)       all memory is taken here
    core.open()                     recovers the store, binds the port
    core.start()                    reactor, flusher and helper threads run, none holds the GIL
    core.poll() / core.send() ...   the control thread's side: control/control_side.pxd
    core.stop()                     answers what is under way, syncs, writes the checkpoint
    core.truncate(offset, ..)       at a slave: stops it and opens it again with a shorter log
    core.begin_log(start)           the same with an empty log that begins elsewhere

__init__, open, start and stop are for the shard's owner, everything else for the control thread;
only read_record(), queue_snapshot() and sync_log() may be called from any thread. A lock makes a
second caller wait, so that no ring is corrupted.
"""
import contextlib
import os
import pathlib
import socket
import time

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint16_t, uint64_t
from libc.string cimport memcpy
from posix.unistd cimport getpid

from cext.base.atomics cimport load_acquire_i64, store_release_i32
from cext.base.clock cimport wall_ms
from cext.base.native_thread cimport (
    NativeBody,
    NativeThread,
    native_thread_join,
    native_thread_start,
)
from cext.base.status cimport CLOSED, NOT_READY, OK, raise_status
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.turn_room cimport room_open
from cext.flow.connection_events cimport serve
from cext.flow.context.options cimport Options
from cext.flow.context.role cimport role_demote, slaves_missing
from cext.flow.context.rpc_times cimport rpc_rows
from cext.flow.context.turn_context cimport SIZE_BUCKETS
from cext.flow.delay.timer_lifecycle cimport timers_open, timers_start, timers_stop
from cext.flow.pop.pop_journal cimport popped_since
from cext.flow.shard_calls cimport ShardCalls
from cext.flow.shard_memory cimport free_memory, seal_memory, take_memory
from cext.flow.shard_metrics cimport histograms_of, latencies_of, pools_of, stats_of
from cext.flow.shard_state cimport ShardState
from cext.flow.turn cimport run_turns, step_name
from cext.net.handshake_thread cimport handshake_thread_start
from cext.net.reactor cimport Reactor
from cext.store.index.indexer cimport Indexer
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.committer cimport Committer
from cext.store.log.disk_reader cimport DiskReader
from cext.store.log.flusher cimport Flusher
from cext.store.log.log_cursor cimport LogCursor
from cext.store.log.preparer cimport Preparer
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_store cimport QueueStore
from cext.wire.message_id cimport unique_key_maker_open

from cext.base.page_cache import of_file
from cext.store.recovery import recover
from cext.store.truncation import (
    begin_truncation,
    truncate_store,
    end_truncation,
    forget_end,
    wanted_truncation,
)
from rmq.base import atomic_file
from rmq.base.durable_directory import sync_directory
from rmq.base.first_segment import check_start, forget_queues, move_log
from rmq.errors import StoreError, StorePoisonedError

SYNC_S = 60.0                       # longest wait for the disk


def write_abort(path):
    """Writes the file `abort`, which is there until a clean stop. It is synced, because after a
    power cut in the first moments the next start would otherwise take the store for a stopped
    one."""
    atomic_file.write_synced(path, b"%d" % os.getpid())
    sync_directory(path.parent)


cdef bint is_boundary(CommitLog log, int64_t offset) except -1:
    """Whether a record starts at `offset`, or the last record of its segment ends there."""
    cdef LogCursor tail = LogCursor(log)
    cdef RecordView view
    cdef int status = OK
    tail.seek(max(offset - offset % log.segment_bytes, log.min_offset()))
    with nogil:
        while tail.position < offset and status == OK:
            status = tail.next(&view)
    if status != NOT_READY:
        raise_status(status, f"the log at {tail.position}")
    return tail.position == offset


def bound(host, port, backlog):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}; is "
                      f"another broker running there? Choose another listenPort") from error
    listener.listen(backlog)
    listener.setblocking(False)
    return listener


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class ShardCore(ShardCalls):
    cdef NativeThread reactor_thread
    cdef Indexer indexer            # None: messageIndexEnable=false
    cdef object listener
    cdef object fast_listener       # None: there is no such port
    cdef dict given
    cdef readonly object port
    cdef readonly object fast_port  # 0: there is no such port
    cdef readonly dict report
    cdef object note                # of an unfinished truncation; None: there is none

    def __init__(self, dict options):
        self.given = options
        self.port = self.fast_port = 0
        self.report = {}
        take_memory(self.s.services, self.s.turn, options)

    def __dealloc__(self):
        # Without `memory` (there was none, or a setting was missing) nothing is open yet.
        if self.s is not None and self.s.turn.memory is not None:
            if self.s.turn.net is not None:
                with nogil:
                    self.s.turn.net.drop_transports()   # before their owner is freed
            free_memory(self.s.services)

    # ---------------------------------------------------------------- building

    cdef _set_store_host(self):
        """brokerIP1 and the port, as records and message ids hold them."""
        cdef ShardState s = self.s
        cdef bytes ip = self.given["store_ip"]
        cdef bytes host = ip + int(self.port).to_bytes(4, "big")
        memcpy(s.turn.options.store_host, <const char*> host, len(host))
        s.turn.options.store_host_bytes = len(host)
        unique_key_maker_open(&s.append.key_maker, s.turn.options.store_host, len(ip),
                              <uint16_t> (getpid() & 0xFFFF), s.turn.random)

    def open(self):
        """Binds the port, recovers the store; returns the recovery report.

        Raises OSError when the address is taken, StoreError when the store cannot be used.
        """
        self.listener = bound(self.given["listen_host"], self.given["listen_port"],
                              self.given["listen_backlog"])
        self.port = self.listener.getsockname()[1]
        self._bind_fast()
        return self._open_store()

    def _open_store(self):
        cdef ShardState s = self.s
        given = self.given
        self._set_store_host()
        cut = wanted_truncation(given["root"])
        if cut is not None:
            truncate_store(given["root"], given["commitlog_dir"], given["index_dir"],
                           given["segment_bytes"], cut)
        s.append.log = CommitLog(given["commitlog_dir"], given["segment_bytes"],
                                 given["pool_bytes"] or given["ring_bytes"],
                                 given["record_max_bytes"],
                                 pooled=given["pool_bytes"] > 0, warm=given["warm_segments"],
                                 node=given["node"], ahead_bytes=given["ahead_bytes"])
        s.append.queues = QueueStore(given["consumequeue_dir"], given["queue_file_entries"],
                                     given["queue_chunks"], given["checkpoint"], s.turn.memory)
        abort = pathlib.Path(given["root"], "abort")
        s.append.log.load()
        clean = not abort.exists() and cut is None
        self.report = recover(s.append.log, s.append.queues, given["root"], clean,
                              given["delay_levels_ms"], deleted=given.get("deleted_topics"))
        self.note = None
        if cut is not None:
            self._note_cut(cut)
        s.append.queues.repair_from(s.append.log, given["delay_levels_ms"])
        if given["index_dir"]:
            self._open_index(clean or self.report["row"] == "S4")
        write_abort(abort)
        s.turn.net = Reactor()
        s.turn.net.memory = s.turn.memory
        s.fetch.readers = DiskReader(s.append.log, given["disk_readers"])
        s.turn.net.add_wake_fd(s.append.log.link.notify_event)
        s.turn.net.add_wake_fd(s.fetch.readers.event_fd())
        if given["tls"] is not None:
            s.turn.net.handshakes = &s.auth.handshakes
            s.turn.net.add_wake_fd(s.auth.handshakes.done_fd)
        s.turn.net.idle_ms = given["idle_ms"]
        s.turn.net.busy_poll_us = given["busy_poll_us"]
        s.turn.net.halves.bytes = given["half_frame_bytes"]
        s.turn.net.halves.bytes_of_address = given["half_frame_bytes_of_address"]
        s.turn.net.large.bytes_max = given["large_bytes"]
        s.turn.net.addresses.connections = given["connections_per_address"]
        s.turn.net.addresses.handshakes = given["handshakes_per_address"]
        s.turn.net.addresses.rate = given["handshake_rate_per_address"]
        if s.turn.net.open(s.turn.options.frame_max_bytes, given["connections_max"],
                           given["jumbo_buffers"], given["reply_buffers"]) != OK:
            raise MemoryError("no memory or descriptors for the reactor")
        s.fetch.pool.connect(s.fetch.readers, &s.turn.net.jumbo_pool, s.turn.net.jumbo_bytes,
                             &s.turn.net.large)
        seal_memory(s.turn)
        s.append.preparer = Preparer(s.append.log)
        s.append.flusher = Flusher(s.append.log, sync_mode=given["sync_flush"],
                                   interval_ms=given["flush_interval_ms"],
                                   least_pages=given["flush_least_pages"],
                                   thorough_ms=given["flush_thorough_ms"])
        if s.append.log.pooled:
            s.append.committer = Committer(s.append.log, least_pages=given["commit_least_pages"],
                                           interval_ms=given["commit_interval_ms"],
                                           thorough_ms=given["commit_thorough_ms"])
        room_open(s.append)
        timers_open(s.delay, given)
        for each in (self.listener, self.fast_listener):
            if each is not None and serve(s.events, each.fileno(), s.auth) != OK:
                raise MemoryError("no memory for the reactor's listener")
        return self.report

    def _open_index(self, trusted):
        """`trusted`: the files are as this broker left them (index_store.pxd)."""
        given = self.given
        self.indexer = Indexer(self.s.append.log, given["index_dir"], slots=given["index_slots"],
                               entries=given["index_entries"])
        self.indexer.open(trusted, self.s.append.queues.checkpoint.index_ms)
        self.s.append.queues.index_safe_ms = self.indexer.safe_ms()
        self.report["index_row"] = self.indexer.row()

    def _note_cut(self, cut):
        """After recovery: reports the cut. The log may end below it, if a power cut took more, but
        not above."""
        self.report["truncated_to"] = cut.offset
        self.note = cut.note
        if self.report["log_end"] > cut.offset:
            raise StoreError(f"the log was cut at {cut.offset}, but ends at "
                             f"{self.report['log_end']}")

    def _bind_fast(self):
        """Opens the port where RocketMQ's slaves ask for their master's tables. If it is taken, the
        shard goes without."""
        self.fast_listener = None
        if self.given.get("fast_port") and self.port > 2:
            with contextlib.suppress(OSError):
                self.fast_listener = bound(self.given["listen_host"], self.port - 2,
                                           self.given["listen_backlog"])
        self.fast_port = self.port - 2 if self.fast_listener is not None else 0

    def start(self):
        """Starts the threads; from now on clients are served."""
        cdef ShardState s = self.s
        cdef int error = 0
        if self.note is not None:
            raise StoreError("the truncation of the log is not finished: finish_truncation() "
                             "comes before start()")
        s.append.preparer.start()
        s.append.flusher.start()
        if s.append.log.pooled:
            s.append.committer.start()
        s.fetch.readers.start()
        s.append.queues.start()
        timers_start(s.delay)
        if self.indexer is not None:
            self.indexer.start()
        if (s.turn.net.handshakes != NULL
                and handshake_thread_start(s.turn.net.handshakes, &error) != OK):
            raise OSError(error, "cannot start the handshake thread")
        if native_thread_start(&self.reactor_thread, <NativeBody> run_turns, <void*> self.loop,
                               b"rmq-reactor", &error) != OK:
            raise OSError(error, "cannot start the reactor thread")
        self.running = True
        Py_INCREF(self)         # until stop(): running threads use this object

    def stop(self):
        """Stops accepting, answers what is under way, syncs log and queues; idempotent."""
        self._stop(True)

    cdef _stop(self, bint for_good):
        cdef ShardState s = self.s
        cdef int status = OK
        if not self.running:
            return
        store_release_i32(&s.turn.stopping, 1)
        self._wake()
        with nogil:
            native_thread_join(&self.reactor_thread)
            s.turn.net.drop_transports()
        self.running = False
        Py_DECREF(self)
        if for_good:
            self.listener.close()
            if self.fast_listener is not None:
                self.fast_listener.close()
        s.fetch.readers.stop()
        if s.append.log.pooled:
            s.append.committer.stop()                  # writes everything in the pool
            write_and_dispatch(s.append)
        s.append.flusher.stop()                        # syncs everything written
        timers_stop(s.delay)
        if self.indexer is not None:
            self.indexer.stop()
        if not s.append.log.poisoned():
            with nogil:
                status = s.append.queues.flush_all(wall_ms(), s.append.log.durable(), 10000)
        s.append.queues.stop()
        s.append.preparer.stop()
        if status != OK:
            raise StoreError("the consume queues could not be written; they are rebuilt from the "
                             "commit log at the next start")
        if not s.append.log.poisoned():
            pathlib.Path(self.given["root"], "abort").unlink(missing_ok=True)

    # ---------------------------------------------------------------- truncation
    # rmq/broker/core_seam.py says what each promises; the steps are in cext/store/truncation.pyx.

    def truncate(self, int64_t offset, bytes note=b"", int64_t due_ms=0, int64_t timers_end=0,
                 deleted=None):
        self.check_truncation(offset)
        begin_truncation(self.given["root"], offset, note, (due_ms, timers_end))
        self._stop(False)
        if deleted is not None:
            self.given = {**self.given, "deleted_topics": deleted}
        self._renew()
        return self._open_store()

    def begin_log(self, int64_t start):
        self.check_beginning(start)
        self._stop(False)
        self._check_blank(start)
        forget_end(self.given["root"])
        forget_queues(pathlib.Path(self.given["root"]))
        move_log(pathlib.Path(self.given["commitlog_dir"]), start, self.given["segment_bytes"])
        write_abort(pathlib.Path(self.given["root"], "abort"))      # no file is trusted
        self._renew()
        return self._open_store()

    def check_beginning(self, int64_t start):
        self._check_slave()
        self._check_blank(start)
        check_start(start, self.given["segment_bytes"])

    cdef _check_blank(self, int64_t start):
        low, end, _ = self.log_range()
        if low != end:
            raise StoreError(f"the log does not begin anew at {start}: it has what lies from {low} "
                             f"to {end}")

    def check_truncation(self, int64_t offset):
        cdef CommitLog log = self.s.append.log
        cdef int64_t end = load_acquire_i64(&log.marks.written)
        cdef int64_t low = self._check_slave()
        if not low <= offset <= end:
            raise StoreError(f"the log cannot be cut at {offset}: it ends at {end}, and below "
                             f"{low} everything is confirmed or has been deleted")
        if not is_boundary(log, offset):
            raise StoreError(f"the log cannot be cut at {offset}: no record starts there")

    cdef int64_t _check_slave(self) except -1:
        """Returns an offset: everything below it is confirmed, or has been deleted."""
        status, low = self._log_floor()
        if status == CLOSED:
            raise StoreError("the log of a master is not cut: demote() makes a slave of it")
        if status == NOT_READY:
            raise StoreError("the log is not cut while answers wait for it: demote() says when "
                             "none does any more")
        raise_status(status, "the log")
        return low

    cdef _renew(self):
        """Makes a new shard to replace the stopped one: the same options and port, no connections,
        empty tables, and the role slave."""
        cdef Options options = self.s.turn.options
        cdef Flusher flusher = self.s.append.flusher
        self.given = {**self.given, "timer_max_delay_ms": self.s.delay.timers.max_delay_ms,
                      "timer_roll_ms": self.s.delay.timers.roll_ms,     # set_option() changes it
                      "flush_interval_ms": flusher.state.interval_ms,
                      "flush_least_pages": flusher.state.least_pages,
                      "flush_thorough_ms": flusher.state.thorough_ms}
        self.indexer = None
        free_memory(self.s.services)
        self._take_shard(ShardState())
        take_memory(self.s.services, self.s.turn, self.given)
        self.s.turn.options = options
        role_demote(&self.s.turn.role)

    def queue_ends(self):
        cdef QueueStore queues = self.s.append.queues
        cdef const Queue* queue
        cdef int64_t i
        ends = {}
        for i in range(queues.queue_top):
            queue = queues.queues[i]
            if queue != NULL:
                ends[(<char*> queue.topic)[:queue.topic_length], queue.queue_id] = queue.max_offset
        return ends

    @property
    def truncation(self):
        return self.note

    def finish_truncation(self):
        end_truncation(self.given["root"])
        self.note = None

    # ---------------------------------------------------------------- looking at it
    # rmq/broker/core_seam.py says what each promises.

    def pools(self):
        return pools_of(self.s.services)

    def message_sizes(self):
        cdef int i
        return [self.s.turn.counters.sizes[i] for i in range(SIZE_BUCKETS)]

    def latencies(self):
        return latencies_of(self.s.append)

    def histograms(self):
        return histograms_of(self.s.transaction)

    def rpc_times(self):
        return rpc_rows(&self.s.turn.rpc)

    def page_cache(self, int files):
        resident = dirty = size = 0
        directory = pathlib.Path(self.given["commitlog_dir"])
        for path in sorted(directory.glob("[0-9]" * 20), reverse=True)[:files]:
            try:
                one = of_file(str(path))
            except FileNotFoundError:
                continue                    # retention has deleted the file meanwhile
            resident += one[0]
            dirty = -1 if one[1] < 0 else dirty + one[1]
            size += one[2]
        return resident, dirty, size

    def queue_names(self):
        return self.s.append.queues.queue_names()

    def log_range(self):
        return (self.s.append.log.min_offset(), load_acquire_i64(&self.s.append.log.marks.written),
                load_acquire_i64(&self.s.append.log.marks.durable))

    def log_copies(self):
        return (load_acquire_i64(&self.s.append.log.marks.appended),
                load_acquire_i64(&self.s.append.log.marks.replicated)
                if self.s.turn.options.sync_replicas else INT64_MAX,
                int(slaves_missing(&self.s.turn.role)))

    def sync_log(self, int64_t end=0):
        deadline = time.monotonic() + SYNC_S
        while self.s.append.flusher.flush(SYNC_S) < end:
            if self.s.append.log.poisoned():           # what was appended will never be written
                raise StorePoisonedError(str(self.s.append.log.poison_cause()))
            if time.monotonic() > deadline:
                raise StoreError(f"the log is not written up to {end} after {SYNC_S} s")
            if self.s.append.committer is not None:
                self.s.append.committer.hurry()     # each time: pages may be offered a moment later
            time.sleep(0.001)                   # appended bytes are about to be written

    def popped_since(self, int64_t start):
        return popped_since(self.s.append.log, self.given["revive_topic"], start,
                            load_acquire_i64(&self.s.append.log.marks.written))

    def read_record(self, int64_t physical_offset, int or_fail=0):
        return self.s.append.log.read_record(physical_offset, or_fail)

    @property
    def index_fd(self):
        return -1 if self.indexer is None else self.indexer.answers_fd

    def ask_index(self, int64_t number, bytes topic, bytes key, int32_t kind, int32_t hits_max,
                  int64_t begin_ms, int64_t end_ms, uint64_t body_max):
        return self.indexer.ask(number, topic, key, kind, hits_max, begin_ms, end_ms, body_max)

    def index_answers(self):
        return self.indexer.answers()

    def stats(self):
        return stats_of(self.s.services)

    def reactor_turn(self):
        return self.s.turn.counters.turns, step_name(self.loop)
