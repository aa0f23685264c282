"""ShardCore: one shard's compiled half, the one class that Python sees.

    core = ShardCore(options)       all memory is taken here
    core.open()                     recovers the store, binds the port
    core.start()                    reactor, flusher and helper threads run, none holds the GIL
    core.poll() / core.send() ...   the control thread's side
    core.stop()                     answers what is under way, syncs, writes the checkpoint

Every method but __init__, open, start and stop may be called by one thread only, the control
thread; a lock makes a second caller wait rather than corrupt a ring.
"""
import os
import pathlib
import socket
import threading

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.unistd cimport getpid

from cext.base.atomics cimport load_acquire_i64, store_release_i32, store_release_u64
from cext.base.clock cimport wall_ms
from cext.base.native_thread cimport (
    NativeBody, NativeThread, native_thread_join, native_thread_start,
)
from cext.base.status cimport OK, raise_status
from cext.flow.ack_queue cimport ack_queue_close, ack_queue_open
from cext.flow.calls cimport *
from cext.flow.control_link cimport (
    CALL,
    CLOSE,
    RESUBMIT,
    SEND_FRAME,
    CallFn,
    LinkMessage,
    link_close,
    link_make,
    link_open,
    sem_destroy,
    sem_init,
    sem_wait,
)
from cext.flow.delay_level cimport DELAY_LEVELS_MAX, REDIRECT_BYTES
from cext.flow.dispatch cimport write_and_dispatch
from cext.flow.group_table cimport (
    CODES_MAX,
    Subscription,
    group_table_close,
    group_table_open,
)
from cext.flow.observe cimport call_copy_topics, latencies_of, pools_of, read_topics
from cext.flow.offset_table cimport offset_table_close, offset_table_open
from cext.flow.open_halves cimport OP_BYTES_MAX, WINDOW_BITS
from cext.flow.pull_job cimport PullJob
from cext.flow.shard_state cimport (
    BATCH_IDS_BYTES,
    DISPATCH_MAX,
    POOL_DISPATCH_MAX,
    TEXT_MAX,
    TIMER_SLOTS,
    Dispatch,
    ShardState,
)
from cext.flow.turn cimport connect_callbacks, run_turns
from cext.memory.buffer_pool cimport buffer_pool_close, buffer_pool_open
from cext.memory.name_map cimport name_map_close, name_map_open
from cext.memory.spsc_ring cimport spsc_pop, spsc_push
from cext.net.reactor cimport Reactor
from cext.net.socket_api cimport read, write
from cext.store.commit_log cimport CommitLog
from cext.store.committer cimport Committer
from cext.store.disk_reader cimport DiskReader
from cext.store.flusher cimport Flusher
from cext.store.indexer cimport Indexer
from cext.store.preparer cimport Preparer
from cext.store.queue_store cimport QueueStore
from cext.wire.header_shapes cimport header_shapes_close, header_shapes_open
from cext.wire.message_id cimport unique_key_maker_open

from cext.base.page_cache import of_file
from cext.store.recovery import recover
from rmq.errors import ConfigError, StoreError

cdef enum:
    ACKS_WAITING = 65536            # sends of one shard that wait for `written` or `durable`
    LINK_MESSAGES = 65536
    LINK_BYTES = 67108864           # bytes of requests that wait for the control thread


cdef class ShardCore:
    cdef ShardState s
    cdef NativeThread reactor_thread
    cdef bint running
    cdef Indexer indexer            # None: messageIndexEnable=false
    cdef object lock
    cdef object listener
    cdef dict given
    cdef readonly object port
    cdef readonly dict report

    def __init__(self, dict options):
        self.given = options
        self.lock = threading.RLock()
        self.port = 0
        self.report = {}
        self.s = ShardState()
        self._take_memory()
        self._read_options()

    def __dealloc__(self):
        if self.s is None:
            return
        ack_queue_close(&self.s.await_written)
        ack_queue_close(&self.s.await_durable)
        group_table_close(&self.s.groups)
        offset_table_close(&self.s.offsets)
        name_map_close(&self.s.topics)
        buffer_pool_close(&self.s.job_pool)
        link_close(&self.s.link)
        free(self.s.dispatches)
        free(self.s.timer_slots)
        free(self.s.batch_ids)
        header_shapes_close(&self.s.shapes)
        free(self.s.halves.ended)
        free(self.s.halves.ops)
        free(self.s.redirect.before)
        free(self.s.redirect.after)

    # ---------------------------------------------------------------- building

    cdef _take_memory(self):
        cdef ShardState s = self.s
        s.dispatch_max = POOL_DISPATCH_MAX if self.given["pool_bytes"] else DISPATCH_MAX
        s.dispatches = <Dispatch*> calloc(s.dispatch_max, sizeof(Dispatch))
        s.timer_slots = <PullJob**> calloc(TIMER_SLOTS, sizeof(PullJob*))
        s.batch_ids = <uint8_t*> malloc(BATCH_IDS_BYTES)
        s.redirect.before = <uint8_t*> malloc(REDIRECT_BYTES)
        s.redirect.after = <uint8_t*> malloc(REDIRECT_BYTES)
        s.halves.ended = <uint64_t*> calloc(WINDOW_BITS // 64, 8)
        s.halves.ops = <uint8_t*> malloc(OP_BYTES_MAX)
        if (s.halves.ended == NULL or s.halves.ops == NULL
                or s.redirect.before == NULL or s.redirect.after == NULL
                or s.dispatches == NULL or s.timer_slots == NULL or s.batch_ids == NULL
                or ack_queue_open(&s.await_written, ACKS_WAITING) != OK
                or ack_queue_open(&s.await_durable, ACKS_WAITING) != OK
                or group_table_open(&s.groups) != OK
                or offset_table_open(&s.offsets) != OK
                or name_map_open(&s.topics) != OK
                or header_shapes_open(&s.shapes) != OK
                or buffer_pool_open(&s.job_pool, sizeof(PullJob),
                                    self.given["pulls_max"], 0) != OK
                or link_open(&s.link, LINK_MESSAGES, LINK_BYTES,
                             self.given["connections_max"]) != OK):
            raise MemoryError("no memory for the shard's tables")
        s.writable = True
        s.random = <uint32_t> (wall_ms() ^ getpid()) | 1

    cdef _read_options(self):
        cdef ShardState s = self.s
        given = self.given
        s.options.message_max_bytes = given["message_max_bytes"]
        s.options.frame_max_bytes = given["frame_max_bytes"]
        s.options.sync_flush = given["sync_flush"]
        s.options.sync_flush_timeout_ms = given["sync_flush_timeout_ms"]
        s.options.long_polling = given["long_polling"]
        s.options.short_polling_ms = given["short_polling_ms"]
        s.options.suspend_max_ms = given["suspend_max_ms"]
        s.options.pull_max_messages = given["pull_max_messages"]
        s.options.pull_max_bytes = given["pull_max_bytes"]
        s.options.disk_max_messages = min(given["disk_max_messages"], 64)
        s.options.disk_max_bytes = given["disk_max_bytes"]
        s.options.trace_on = given["trace_on"]
        s.options.auto_uniq_key = given["auto_uniq_key"]
        s.options.reject_transactions = given["reject_transactions"]
        s.options.pool_fail_fast = given["pool_fail_fast"]
        s.options.record_crc = given["record_crc"]
        cdef bytes region = given["region"]
        cdef bytes extra = given["extra_properties"]
        if len(region) > TEXT_MAX or len(extra) > sizeof(s.options.extra_properties):
            raise ConfigError("regionId and brokerClusterName together are too long")
        memcpy(s.options.region, <const char*> region, len(region))
        s.options.region_bytes = len(region)
        memcpy(s.options.extra_properties, <const char*> extra, len(extra))
        s.options.extra_properties_bytes = len(extra)

    cdef _set_store_host(self):
        """brokerIP1 and the port, as records and message ids hold them."""
        cdef ShardState s = self.s
        cdef bytes ip = self.given["store_ip"]
        cdef bytes host = ip + int(self.port).to_bytes(4, "big")
        memcpy(s.options.store_host, <const char*> host, len(host))
        s.options.store_host_bytes = len(host)
        unique_key_maker_open(&s.key_maker, s.options.store_host, len(ip),
                              <uint16_t> (getpid() & 0xFFFF), s.random)

    def open(self):
        """Binds the port, recovers the store; returns the recovery report.

        Raises OSError when the address is taken, StoreError when the store cannot be used.
        """
        cdef ShardState s = self.s
        given = self.given
        self._bind(given["listen_host"], given["listen_port"])
        self._set_store_host()
        s.log = CommitLog(given["commitlog_dir"], given["segment_bytes"],
                          given["pool_bytes"] or given["ring_bytes"], given["record_max_bytes"],
                          pooled=given["pool_bytes"] > 0)
        s.queues = QueueStore(given["consumequeue_dir"], given["queue_file_units"],
                              given["queue_chunks"], given["checkpoint"])
        abort = pathlib.Path(given["root"], "abort")
        s.log.load()
        clean = not abort.exists()
        self.report = recover(s.log, s.queues, given["root"], clean)
        if given["index_dir"]:
            self._open_index(clean or self.report["row"] == "S4")
        abort.write_text(str(os.getpid()))      # there until a clean stop (wire.md 4.5)
        s.net = Reactor()
        s.net.listen_fd = self.listener.fileno()
        s.readers = DiskReader(s.log, given["disk_readers"])
        s.net.add_wake_fd(s.log.link.notify_event)
        s.net.add_wake_fd(s.readers.event_fd())
        s.net.idle_ms = given["idle_ms"]
        if s.net.open(s.options.frame_max_bytes, given["connections_max"], given["jumbo_buffers"],
                      given["reply_buffers"]) != OK:
            raise MemoryError("no memory or descriptors for the reactor")
        s.preparer = Preparer(s.log)
        s.flusher = Flusher(s.log, sync_mode=given["sync_flush"],
                            interval_ms=given["flush_interval_ms"],
                            least_pages=given["flush_least_pages"],
                            thorough_ms=given["flush_thorough_ms"])
        if s.log.pooled:
            s.committer = Committer(s.log, least_pages=given["commit_least_pages"],
                                    interval_ms=given["commit_interval_ms"],
                                    thorough_ms=given["commit_thorough_ms"])
        connect_callbacks(s)
        return self.report

    def _open_index(self, trusted):
        """`trusted`: the files are as this broker left them, see cext/store/index_store.pxd."""
        given = self.given
        self.indexer = Indexer(self.s.log, given["index_dir"], slots=given["index_slots"],
                               entries=given["index_entries"])
        self.indexer.open(trusted, self.s.queues.checkpoint.index_ms)
        self.s.queues.index_safe_ms = self.indexer.safe_ms()
        self.report["index_row"] = self.indexer.row()

    def _bind(self, host, port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}; is "
                          f"another broker running there? Choose another listenPort") from error
        listener.listen(4096)
        listener.setblocking(False)
        self.listener = listener
        self.port = listener.getsockname()[1]

    def start(self):
        """Starts the threads; from here on clients are served."""
        cdef int error = 0
        self.s.preparer.start()
        self.s.flusher.start()
        if self.s.log.pooled:
            self.s.committer.start()
        self.s.readers.start()
        self.s.queues.start()
        if self.indexer is not None:
            self.indexer.start()
        if native_thread_start(&self.reactor_thread, <NativeBody> run_turns, <void*> self.s,
                               b"rmq-reactor", &error) != OK:
            raise OSError(error, "cannot start the reactor thread")
        self.running = True

    def stop(self):
        """Stops accepting, answers what is under way, syncs log and queues; idempotent."""
        cdef ShardState s = self.s
        cdef int status = OK
        if not self.running:
            return
        store_release_i32(&s.stopping, 1)
        self._wake()
        with nogil:
            native_thread_join(&self.reactor_thread)
        self.running = False
        self.listener.close()
        s.readers.stop()
        if s.log.pooled:
            s.committer.stop()                  # writes all that is in the pool
            write_and_dispatch(s)
        s.flusher.stop()                        # syncs all that is written
        if self.indexer is not None:
            self.indexer.stop()
        if not s.log.poisoned():
            with nogil:
                status = s.queues.flush_all(wall_ms(), s.log.durable(), 10000)
        s.queues.stop()
        s.preparer.stop()
        if status != OK:
            raise StoreError("the consume queues could not be written; they are rebuilt from the "
                             "commit log at the next start")
        if not s.log.poisoned():
            pathlib.Path(self.given["root"], "abort").unlink(missing_ok=True)

    # ---------------------------------------------------------------- the control thread's side

    cdef _wake(self):
        cdef uint64_t one = 1
        write(self.s.net.wake_fd, &one, 8)

    cdef int64_t _call(self, CallFn function, Arguments* arguments) except? -999:
        """Runs the function in the reactor (or here, when it does not run); its status."""
        cdef LinkMessage message
        cdef bint pushed
        if not self.running:
            function(<void*> self.s, arguments)
            return arguments.status
        memset(&message, 0, sizeof(message))
        message.kind = CALL
        message.call = function
        message.arguments = arguments
        sem_init(&message.done, 0, 0)
        with self.lock:
            pushed = spsc_push(&self.s.link.to_reactor, &message)
            if not pushed:
                raise StoreError("the reactor does not take calls any more")
            self._wake()
            with nogil:
                while sem_wait(&message.done) != 0:
                    pass                    # interrupted by a signal
        sem_destroy(&message.done)
        return arguments.status

    cdef _post(self, int32_t kind, uint64_t connection, bytes data):
        cdef LinkMessage* message = link_make(kind, connection, <const uint8_t*> <char*> data,
                                              len(data))
        if message == NULL:
            raise MemoryError("no memory for a frame to the reactor")
        with self.lock:
            while not spsc_push(&self.s.link.to_reactor, message):
                if not self.running:
                    free(message)
                    return
                self._wake()
                threading.Event().wait(0.001)
            self._wake()

    @property
    def control_fd(self):
        return self.s.link.control_fd

    def poll(self):
        """What has come for the control thread: list of (kind, connection, payload)."""
        cdef LinkMessage* message
        cdef uint64_t ignored
        cdef list out = []
        read(self.s.link.control_fd, &ignored, 8)
        while len(out) < 4096:
            message = <LinkMessage*> spsc_pop(&self.s.link.to_control)
            if message == NULL:
                return out
            out.append((message.kind, message.connection_id,
                        (<char*> message.data)[:message.length]))
            store_release_u64(&self.s.link.bytes_out, self.s.link.bytes_out + message.length)
            free(message)
        ignored = 1
        write(self.s.link.control_fd, &ignored, 8)      # there is more: come again
        return out

    def send(self, uint64_t connection, bytes frame):
        """Sends a whole frame (with its length bytes); dropped if the connection is gone."""
        self._post(SEND_FRAME, connection, frame)

    def resubmit(self, uint64_t connection, bytes frame):
        """Gives a frame (without its length bytes) to the hot path once more."""
        self._post(RESUBMIT, connection, len(frame).to_bytes(4, "big") + frame)

    def close_connection(self, uint64_t connection):
        """Closes after what is queued for it has been sent."""
        self._post(CLOSE, connection, b"")

    def put_topic(self, bytes name, int32_t read_queues, int32_t write_queues, int32_t perm,
                  int32_t order):
        cdef Arguments x
        names(&x, name, b"")
        x.numbers[0] = read_queues
        x.numbers[1] = write_queues
        x.numbers[2] = perm
        x.numbers[3] = order
        raise_status(<int> self._call(<CallFn> call_put_topic, &x), f"topic {name!r}")

    def remove_topic(self, bytes name):
        cdef Arguments x
        names(&x, name, b"")
        self._call(<CallFn> call_remove_topic, &x)

    def put_group(self, bytes name, int32_t consume_enable, int32_t broadcast_enable):
        cdef Arguments x
        names(&x, name, b"")
        x.numbers[0] = consume_enable
        x.numbers[1] = broadcast_enable
        raise_status(<int> self._call(<CallFn> call_put_group, &x), f"group {name!r}")

    def remove_group(self, bytes name):
        cdef Arguments x
        names(&x, name, b"")
        self._call(<CallFn> call_remove_group, &x)

    def put_subscription(self, bytes group, bytes topic, int64_t sub_version, codes,
                         int32_t broadcasting, int32_t by_property=0):
        """codes: the tags' hash codes, None for all messages."""
        cdef Arguments x
        cdef Subscription subscription
        cdef int i
        names(&x, topic, group)
        subscription.version = sub_version
        subscription.broadcasting = broadcasting != 0
        subscription.by_property = by_property != 0
        subscription.filter.all = codes is None or len(codes) > CODES_MAX
        subscription.filter.count = 0
        if not subscription.filter.all:
            subscription.filter.count = len(codes)
            for i, code in enumerate(codes):
                subscription.filter.codes[i] = code
        x.subscription = &subscription
        raise_status(<int> self._call(<CallFn> call_put_subscription, &x), f"group {group!r}")

    def remove_subscriptions(self, bytes group):
        cdef Arguments x
        names(&x, b"", group)
        self._call(<CallFn> call_remove_subscriptions, &x)

    def commit_offset(self, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        cdef Arguments x
        names(&x, topic, group)
        x.numbers[0] = queue_id
        x.numbers[1] = offset
        raise_status(<int> self._call(<CallFn> call_commit_offset, &x),
                     f"offset {offset} of queue {queue_id}")

    def query_offset(self, bytes group, bytes topic, int32_t queue_id):
        cdef Arguments x
        names(&x, topic, group)
        x.numbers[0] = queue_id
        self._call(<CallFn> call_query_offset, &x)
        return x.results[0]

    @property
    def offsets_version(self):
        """Grows with each change of an offset; read without asking the reactor."""
        return self.s.offsets.version

    def offsets(self):
        """A copy of all consumer offsets: {b"topic@group": {queue id: offset}}."""
        cdef Arguments x
        cdef uint64_t at = 0
        cdef uint32_t length
        cdef int32_t slots, i
        cdef int64_t offset
        names(&x, b"", b"")
        raise_status(<int> self._call(<CallFn> call_copy_offsets, &x), "copy of the offsets")
        out = {}
        while at < x.block_bytes:
            memcpy(&length, x.block + at, 4)
            memcpy(&slots, x.block + at + 4, 4)
            name = (<char*> x.block)[at + 8:at + 8 + length]
            at += 8 + length
            queues = {}
            for i in range(slots):
                memcpy(&offset, x.block + at, 8)
                at += 8
                if offset >= 0:
                    queues[i] = offset
            out[name] = queues
        free(x.block)
        return out

    def remove_offsets(self, group, topic):
        cdef Arguments x
        cdef bytes of_group = group or b"", of_topic = topic or b""
        names(&x, of_topic, of_group)
        self._call(<CallFn> call_remove_offsets, &x)

    def queue_range(self, bytes topic, int32_t queue_id):
        cdef Arguments x
        names(&x, topic, b"")
        x.numbers[0] = queue_id
        if self._call(<CallFn> call_queue_range, &x) != OK:
            return None
        return x.results[0], x.results[1]

    def queue_snapshot(self, bytes topic, int32_t queue_id):
        """(min, max, first offset in memory, 20-byte units from there on), or None."""
        cdef Arguments x
        names(&x, topic, b"")
        x.numbers[0] = queue_id
        if self._call(<CallFn> call_queue_snapshot, &x) != OK:
            return None
        units = (<char*> x.block)[:x.block_bytes]
        free(x.block)
        return x.results[0], x.results[1], x.results[2], units

    def topic_stats(self, bytes topic):
        """Since the start: (messages in, bytes in, messages out, bytes out), or None."""
        cdef Arguments x
        names(&x, topic, b"")
        if self._call(<CallFn> call_topic_stats, &x) != OK:
            return None
        return x.results[0], x.results[1], x.results[2], x.results[3]

    def topic_table(self):
        """Every topic's counters and queues: {name: (messages in, bytes in, messages out, bytes
        out, [(min, max offset) or None of each queue])}. A bounded number of topics per turn."""
        cdef Arguments x
        cdef int64_t cursor = 0
        cdef dict out = {}
        while True:
            names(&x, b"", b"")
            x.numbers[0] = cursor
            raise_status(<int> self._call(<CallFn> call_copy_topics, &x), "copy of the topics")
            read_topics(x.block, x.block_bytes, out)
            free(x.block)
            cursor = x.results[0]
            if cursor == 0:
                return out

    def pools(self):
        """{pool: (buffer bytes, buffers, in use, most ever in use, refusals)}."""
        return pools_of(self.s)

    def latencies(self):
        """{"append" | "flush": ([events per bucket], sum in us)}; buckets of cext/base/latency."""
        return latencies_of(self.s)

    def page_cache(self, int files):
        """(bytes in memory, dirty bytes or -1, bytes looked at) of the newest log files."""
        resident = dirty = size = 0
        directory = pathlib.Path(self.given["commitlog_dir"])
        for path in sorted(directory.glob("[0-9]" * 20), reverse=True)[:files]:
            try:
                one = of_file(str(path))
            except FileNotFoundError:
                continue                    # retention was quicker
            resident += one[0]
            dirty = -1 if one[1] < 0 else dirty + one[1]
            size += one[2]
        return resident, dirty, size

    def log_range(self):
        """(first offset, offset behind the last written byte, durable offset)."""
        return (self.s.log.min_offset(), load_acquire_i64(&self.s.log.marks.written),
                load_acquire_i64(&self.s.log.marks.durable))

    def read_record(self, int64_t physical_offset):
        """One stored record, checked; None when there is none at this offset. May wait for disk."""
        return self.s.log.read_record(physical_offset)

    def query_index(self, bytes topic, bytes key, int32_t kind, int32_t hits_max,
                    int64_t begin_ms, int64_t end_ms):
        """(log offsets, newest first; store time and log offset of the newest message indexed), or
        None without an index. kind: 0 unique key or key, 1 tag. Any thread; may wait for disk."""
        if self.indexer is None:
            return None
        return self.indexer.query(topic, key, kind, hits_max, begin_ms, end_ms)

    def index_counters(self):
        """Counters of the indexer, empty without one; plain reads."""
        return {} if self.indexer is None else self.indexer.counters()

    def append(self, bytes topic, int32_t queue_id, bytes body, bytes properties, int32_t flag,
               int32_t sys_flag, int64_t born_ms, bytes born_host, int32_t reconsume_times,
               int64_t prepared_offset, tags_code=None):
        """Stores a message; (physical offset, queue offset) once written. Raises StoreError."""
        cdef Arguments x
        names(&x, topic, born_host)
        x.c = <const uint8_t*> <char*> body
        x.c_bytes = len(body)
        x.d = <const uint8_t*> <char*> properties
        x.d_bytes = len(properties)
        x.numbers[0] = queue_id
        x.numbers[1] = flag
        x.numbers[2] = sys_flag
        x.numbers[3] = born_ms
        x.numbers[4] = reconsume_times
        x.numbers[5] = prepared_offset
        x.numbers[6] = 0 if tags_code is None else tags_code
        x.numbers[7] = tags_code is not None
        raise_status(<int> self._call(<CallFn> call_append, &x), f"append to {topic!r}")
        return x.results[0], x.results[1]

    def is_in_memory(self, int64_t physical_offset):
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = physical_offset
        x.numbers[1] = 91
        self._call(<CallFn> call_is_in_memory, &x)
        return bool(x.results[0])

    def set_writable(self, int32_t flag, bytes reason):
        cdef Arguments x
        names(&x, reason, b"")
        x.numbers[0] = flag
        self._call(<CallFn> call_set_writable, &x)

    def set_delay_levels(self, list delays_ms, list offsets):
        """Starts the delivery of delayed messages; level 1 is the first of both lists."""
        cdef Arguments x
        cdef int64_t numbers[2 * DELAY_LEVELS_MAX]
        cdef int32_t i, count = len(delays_ms)
        if count > DELAY_LEVELS_MAX or len(offsets) != count:
            raise ValueError(f"{count} delay levels, {len(offsets)} offsets")
        names(&x, b"", b"")
        for i in range(count):
            numbers[i] = delays_ms[i]
            numbers[DELAY_LEVELS_MAX + i] = offsets[i]
        x.a = <const uint8_t*> numbers
        x.b = <const uint8_t*> (numbers + DELAY_LEVELS_MAX)
        x.numbers[0] = count
        raise_status(<int> self._call(<CallFn> call_set_delay_levels, &x), "delay levels")

    def delay_offsets(self, int32_t stop=0):
        """(per level the offset of the first message not delivered, end of the log that holds
        what was delivered): the offsets may be kept once the log is durable up to there. `stop`
        ends the delivery in the same moment."""
        cdef Arguments x
        cdef int64_t offset
        cdef uint64_t i
        names(&x, b"", b"")
        x.numbers[0] = stop
        raise_status(<int> self._call(<CallFn> call_delay_offsets, &x), "delay offsets")
        out = []
        for i in range(x.block_bytes // 8):
            memcpy(&offset, x.block + 8 * i, 8)
            out.append(offset)
        free(x.block)
        return out, x.results[0]

    def start_transactions(self, int64_t first, int32_t serve):
        """serve 0: all half messages below `first` are ended, control will mark more by
        end_halves(); serve 1: half messages and their ends are taken from now on."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = first
        x.numbers[1] = serve
        self._call(<CallFn> call_start_transactions, &x)

    def end_halves(self, list offsets, int32_t with_op):
        """Marks half messages ended, with an op message or because there is one; how many of
        them were open until now."""
        cdef Arguments x
        cdef int64_t of_one
        cdef bytearray packed = bytearray(8 * len(offsets))
        cdef char* at = packed
        names(&x, b"", b"")
        for offset in offsets:
            of_one = offset
            memcpy(at, &of_one, 8)
            at += 8
        x.a = <const uint8_t*> <char*> packed
        x.numbers[0] = len(offsets)
        x.numbers[1] = with_op
        self._call(<CallFn> call_end_halves, &x)
        return x.results[0]

    def open_halves(self, int64_t after, int32_t limit):
        """(everything below is ended, where to go on, offsets of open half messages)."""
        cdef Arguments x
        cdef int64_t offset
        cdef uint64_t i
        names(&x, b"", b"")
        x.numbers[0] = after
        x.numbers[1] = limit
        raise_status(<int> self._call(<CallFn> call_open_halves, &x), "open transactions")
        out = []
        for i in range(x.block_bytes // 8):
            memcpy(&offset, x.block + 8 * i, 8)
            out.append(offset)
        free(x.block)
        return x.results[0], x.results[1], out

    def set_option(self, str name, int64_t value):
        """Changes one of the run-time changeable options; KeyError for any other."""
        cdef ShardState s = self.s
        if name == "message_max_bytes":
            s.options.message_max_bytes = value
        elif name == "sync_flush_timeout_ms":
            s.options.sync_flush_timeout_ms = value
        elif name == "long_polling":
            s.options.long_polling = value != 0
        elif name == "short_polling_ms":
            s.options.short_polling_ms = value
        elif name == "suspend_max_ms":
            s.options.suspend_max_ms = value
        elif name == "pull_max_messages":
            s.options.pull_max_messages = <int32_t> value
        elif name == "pull_max_bytes":
            s.options.pull_max_bytes = value
        elif name == "reject_transactions":
            s.options.reject_transactions = value != 0
        elif name == "clock_skew_ms":           # tests move the clock that delays are counted by
            s.schedule.skew_ms = value
        else:
            raise KeyError(name)

    def drop_segments(self, int64_t before_ms, int32_t max_count, int32_t force):
        """Deletes the oldest log files last modified before a time (any time when forced)."""
        cdef Arguments x
        cdef int32_t dropped = 0
        cdef int64_t modified_ms
        while dropped < max_count:
            if not force:
                modified_ms = self.s.log.first_segment_modified_ms()
                if modified_ms < 0 or modified_ms >= before_ms:
                    break
            names(&x, b"", b"")
            if self._call(<CallFn> call_drop_segment, &x) != OK:
                break
            dropped += 1
        return dropped

    def stats(self):
        """Counters since the start; plain reads, each exact, not all of the same moment."""
        cdef ShardState s = self.s
        return {
            "messages_in": s.counters.messages_in,
            "bytes_in": s.counters.bytes_in,
            "messages_out": s.counters.messages_out,
            "bytes_out": s.counters.bytes_out,
            "sends_refused": s.counters.sends_refused,
            "pulls": s.counters.pulls,
            "pulls_found": s.counters.pulls_found,
            "pulls_held": s.counters.pulls_held,
            "pulls_empty": s.counters.pulls_empty,
            "pulls_from_disk": s.counters.pulls_from_disk,
            "pulls_waiting": s.held_count,
            "corrupt_records": s.counters.corrupt_records,
            "control_requests": s.counters.control_requests,
            "busy_replies": s.counters.busy_replies,
            "malformed_frames": s.counters.malformed_frames,
            "turns": s.counters.turns,
            "write_outs": s.counters.write_outs,
            "delayed_delivered": s.schedule.delivered,
            "transactions_committed": s.halves.committed,
            "transactions_rolled_back": s.halves.rolled_back,
            "transactions_repeated": s.halves.repeated,
            "delayed_fetches": s.schedule.fetches,
            "delayed_dropped": s.schedule.dropped,
            "connections": s.net.connection_count,
            "connections_accepted": s.net.counters.accepted,
            "connections_refused": s.net.counters.refused_full,
            "connections_closed_idle": s.net.counters.closed_idle,
            "received_bytes": s.net.counters.received_bytes,
            "sent_bytes": s.net.counters.sent_bytes,
            "socket_stalls": s.net.counters.stalls,
            "log_first": s.log.min_offset(),
            "log_appended": s.log.marks.appended,
            "log_written": load_acquire_i64(&s.log.marks.written),
            "log_durable": load_acquire_i64(&s.log.marks.durable),
            "log_dispatched": s.log.marks.dispatched,
            "log_ring_bytes": s.log.ring.size,
            "log_writes": s.log.writes,
            "log_rolls": s.log.rolls,
            "ring_locked": int(s.log.ring_locked),
            "log_pooled": int(s.log.pooled),
            "log_committable": s.log.link.committable,
            "log_commits": s.committer.state.commits if s.log.pooled else 0,
            "log_syncs": s.flusher.state.syncs,
            "poisoned": int(s.log.poisoned()),
            "writable": int(s.writable),
            "topics": s.topics.live,
            "queue_writes": s.queues.counts.jobs_written,
            "queue_sync_writes": s.queues.counts.sync_writes,
            "queue_write_failures": s.queues.counts.write_failures,
        }


cdef void names(Arguments* x, bytes a, bytes b):
    """Clears the arguments and points to one or two names (alive as long as the caller's bytes)."""
    memset(x, 0, sizeof(Arguments))
    x.a = <const uint8_t*> <char*> a
    x.a_bytes = len(a)
    x.b = <const uint8_t*> <char*> b
    x.b_bytes = len(b)
