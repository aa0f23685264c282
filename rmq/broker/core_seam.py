"""Core seam: the calls of a shard's core that the control thread uses, a Protocol for each noun.

This is the one place that documents the calls. ShardCore of cext/flow implements all of them (in
cext/flow/control, a file for each Protocol; its stub repeats the signatures for mypy). Tests use
the stand-in `tests/support/fake_core.py`, and tests/source/test_core_seam.py compares core, stub
and stand-in with this page. Code that calls the core names the Protocols it needs, not Core.

Names are bytes, times milliseconds, offsets whole numbers. A call that cannot be done raises
StoreError, or the exception of its status (cext/base/status.pxd). Every call takes at most one turn
of the reactor, unless it says that it waits for the disk. Calls are for the control thread alone,
but for four that any thread may make: read_record(), queue_snapshot() and sync_log(), and
reactor_turn(), which the reactor's watch asks in a thread of its own.

Example: core.put_topic(b"t", 4, 4, 6, 0); core.queue_range(b"t", 0) -> (0, 17) or None.
"""

from typing import Any, Protocol

# Kinds of what poll() returns; ToControl of cext/flow/context/control_link.pxd.
REQUEST = 0  # payload: a frame without its length bytes
CLOSED = 1  # payload: empty
# payload: b"ip:port", or b"ip:port\nname" where the client's certificate has proved that name;
# comes before the first frame of the connection
OPENED = 2
EVENT = 3  # payload: text to be logged
FUNCTION_PULL = 5  # payload: cext/flow/pull/function_pull.pyx
# The core has messages for a topic that does not exist: delayed or timed messages, or popped ones
# for a retry topic. payload: the topic's name; connection: how many queues it needs
WANT_TOPIC = 4
REFUSED = 7  # payload: lines about a refused request: peer, code, known, user, and the reason
DRAINED = 6  # payload: empty; after report_drained(): all that was sent to the client has left

# What half_state() returns; HalfState of cext/flow/control/transaction_calls.pyx.
HALF_ENDED, HALF_OPEN, HALF_DOUBTED = range(3)

# Why the connection to the master ended, as ha_client() tells; HAFailure of
# cext/flow/replication/ha_service.pxd.
HA_NO_FAILURE = 0
HA_CLOSED = 1
HA_MALFORMED = 2
HA_ELSEWHERE = 3
HA_CORRUPT = 4
HA_NO_ROOM = 5
HA_POISONED = 6
HA_TOO_LARGE = 7
HA_NEW_EPOCH = 8


class ConnectionCalls(Protocol):
    """Clients' connections: what they sent, and what is sent to them. No call here waits."""

    @property
    def port(self) -> int: ...
    @property
    def control_fd(self) -> int:
        """A descriptor that is readable when poll() has something."""

    def poll(self) -> list[tuple[int, int, bytes]]:
        """What has come for the control thread: (kind, connection, payload)."""

    def send(self, connection: int, frame: bytes) -> None:
        """Sends a whole frame (with its length bytes); dropped if the connection is gone."""

    def resubmit(self, connection: int, frame: bytes) -> None:
        """Gives a frame (without its length bytes) to the hot path once more."""

    def send_done(self, connection: int) -> None:
        """Says that a send given to control is answered or given back: its client may go on."""

    def hold(self, connection: int) -> None:
        """Stops reading the client's socket until release(), because many of its requests wait."""

    def release(self, connection: int) -> None:
        """Ends hold(): the socket is read again."""

    def report_drained(self, connection: int) -> None:
        """After hold(): makes poll() return DRAINED when all that was sent to the client has
        left."""

    def close_connection(self, connection: int) -> None:
        """Closes the connection after everything queued for it has been sent."""

    def put_client(self, client_id: bytes, connection: int) -> None:
        """Sets the connection of a client id, to which replies are pushed; 0: it has none."""


class TopicCalls(Protocol):
    """The reactor's table of topics."""

    def queue_names(self) -> list[tuple[bytes, int]]:
        """(topic, queue id) of all queues, including queues that the start has made anew and that
        have no file yet. Only before the first put_topic(): after it the reactor changes them."""

    def put_topic(
        self, name: bytes, read_queues: int, write_queues: int, perm: int, order: int
    ) -> None: ...
    def remove_topic(self, name: bytes, kept_from: int = 2**63 - 1) -> int | None:
        """Removes the topic with its queues and their files; the log stays, and held pulls are
        answered TOPIC_NOT_EXIST. Returns the log offset below which all its messages are, or None
        when it never had any. At a slave, queues whose first record is at or behind the log offset
        `kept_from` stay."""

    def put_queue_mapping(self, topic: bytes, mapping: bytes) -> None:
        """Sets the logical queues of a static topic, as QueueMapping.packed(); b"": it is a plain
        topic. The store pool's content is dispatched, so that queue ranges say where the queues
        end, and held pulls are answered. It does not create a topic that is unknown."""

    def topic_stats(self, topic: bytes) -> tuple[int, int, int, int] | None:
        """Since the start: (messages in, bytes in, messages out, bytes out), or None."""

    def topic_table(
        self,
    ) -> dict[bytes, tuple[int, int, int, int, list[tuple[int, int] | None], list[int]]]:
        """Every topic's counters and queues: (messages in, bytes in, messages out, bytes out,
        [(min, max offset) or None of each queue], TopicNumbers). It looks at some topics per turn
        of the reactor."""


class GroupCalls(Protocol):
    """The reactor's tables of groups, their subscriptions, and filters."""

    def put_group(
        self,
        name: bytes,
        consume_enable: int,
        broadcast_enable: int,
        broker_id: int = 0,
        slow_broker_id: int = 1,
    ) -> None:
        """broker_id: the broker from which its consumers pull; slow_broker_id: the broker for
        consumers that are far behind."""

    def put_retries(self, group: bytes, queues: int, times_max: int, levels: bytes) -> None:
        """Sets the group's retries. levels: the delay level of each; empty: 3, 4, 5 .."""

    def lock_group(self, group: bytes, ms: int) -> None:
        """Says that clients of the group hold queue locks for `ms` from now; 0: none does."""

    def remove_group(self, name: bytes) -> None:
        """Removes the group and its subscriptions."""

    def put_subscription(
        self,
        group: bytes,
        topic: bytes,
        sub_version: int,
        codes: list[int] | None,
        broadcasting: int,
        program: bytes = b"",
        function: int = 0,
    ) -> None:
        """codes: the tags' hash codes, None for all messages; program: SQL92, instead of them."""

    def put_expression(self, text: bytes, program: bytes, function: int = 0) -> None:
        """The filter for pulls that carry this SQL92 expression."""

    def remove_subscriptions(self, group: bytes) -> None: ...
    def deliveries(self) -> dict[tuple[bytes, bytes], tuple[int, int]]:
        """{(group, topic): (messages, bytes)} delivered since the start. It looks at some groups
        per turn of the reactor."""


class OffsetCalls(Protocol):
    """Consumer offsets."""

    @property
    def offsets_version(self) -> int:
        """Grows with each change of an offset; read without a call to the reactor."""

    def commit_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None: ...
    def reset_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None:
        """Moves the offset; the group's next pull of the queue is answered 21 with it."""

    def query_offset(self, group: bytes, topic: bytes, queue_id: int) -> int:
        """The offset; -1: there is none."""

    def offsets(self, which: int = 0) -> dict[bytes, dict[int, int]]:
        """A copy of all consumer offsets: {b"topic@group": {queue id: offset}}. which=1: up to
        where each queue was pulled; 2: resets that no pull has been answered with yet."""

    def offset_entries(self) -> bytes:
        """All consumer offsets and the resets that no pull has been answered with, as of one
        moment, in the form of rmq/broker/tables/offset_entries.py."""

    def take_changed_offsets(self) -> bytes:
        """The entries that have changed or were removed since the last call, each in full."""

    def put_offsets(self, entries: bytes) -> None:
        """Does commit_offset() and reset_offset() for whole entries."""

    def pulled(self, group: bytes, topic: bytes) -> dict[int, int]:
        """{queue id: offset up to which the group has pulled it since the start}."""

    def remove_offsets(self, group: bytes | None, topic: bytes | None) -> None:
        """Removes the offsets of the group, of the topic, or of the group on the topic."""


class PopCalls(Protocol):
    """Batches that consumers have popped in order and hold."""

    @property
    def pop_orders_version(self) -> int:
        """Grows with each change of these batches; read without a call to the reactor."""

    def pop_orders(self, open_only: bool = False) -> list[tuple[bytes, bytes, int, bytes]]:
        """(topic, group, queue id, block), the blocks as they are in memory. open_only: without
        batches that are acknowledged completely."""

    def put_pop_order(self, topic: bytes, group: bytes, queue_id: int, block: bytes) -> None:
        """Sets a block of pop_orders(), which comes from another run or another broker; b"" removes
        it. RmqError: the topic does not exist, or there is no room; ProtocolError: it is no
        block."""


class QueueCalls(Protocol):
    """Consume queues."""

    def queue_range(self, topic: bytes, queue_id: int) -> tuple[int, int] | None:
        """(min, max offset), or None. A slave may have a queue before it knows the topic."""

    def queue_ranges(self, topic: bytes, count: int) -> list[tuple[int, int]]:
        """(min, max offset) of the queues from 0 on; (0, 0) for a queue that is empty, and for all
        queues of a topic that is unknown. It looks at some queues per turn of the reactor."""

    def queues_without_topic(self) -> list[tuple[bytes, int, int]]:
        """(topic, queue id, log offset of the last message or -1) of queues that hold messages of a
        topic that is unknown. A slave has such queues before it knows the topic, and after the
        topic was deleted. It looks at some queues per turn of the reactor."""

    def drop_older_queues(self, topic: bytes, end: int) -> int:
        """For a topic, known or not, that was deleted when the log ended at `end` and was made anew
        since: drops the queues whose newest message is older, and returns how many. Held pulls are
        answered."""

    def queue_snapshot(self, topic: bytes, queue_id: int) -> tuple[int, int, int, bytes] | None:
        """(min, max, first offset in memory, the 20-byte entries from that offset on), or None."""


class LogCalls(Protocol):
    """The commit log."""

    def log_range(self) -> tuple[int, int, int]:
        """(first offset, offset behind the last written byte, durable offset)."""

    def log_copies(self) -> tuple[int, int, int]:
        """(offset behind the last appended byte; up to where all slaves that answers wait for have
        the log, 2 ** 63 - 1 where answers wait for none; 1: fewer slaves follow than must)."""

    def append(
        self,
        topic: bytes,
        queue_id: int,
        body: bytes,
        properties: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_offset: int,
        tags_code: int | None = None,
    ) -> tuple[int, int]:
        """Stores a message; returns (physical offset, queue offset) once it is written, not synced.
        StoreError, with the text with which a send is refused: the broker takes no messages just
        now, because it is a slave, its lease is over, its disk is full, or too few are in sync
        (cext/flow/context/role.pxd)."""

    def sync_log(self, end: int = 0) -> None:
        """Returns when everything written so far, and the log up to `end`, is on the disk, whatever
        the flush mode. Waits for the disk; StoreError when the log is poisoned or the disk does not
        answer."""

    def read_record(self, physical_offset: int, or_fail: int = 0) -> bytes | None:
        """One stored record, checked; None when there is none at this offset, or the disk cannot
        read it (with `or_fail` the latter is a StoreError). May wait for the disk."""

    def is_in_memory(self, physical_offset: int) -> bool:
        """Whether a record at this offset can be read without the disk."""

    def popped_since(self, start: int) -> dict[tuple[bytes, bytes, int], int]:
        """{(topic, group, queue id): next offset} of the pops whose check points are in the log
        from `start` on. May wait for the disk."""


class RetentionCalls(Protocol):
    """The oldest files of the log, and whether the log takes sends."""

    def drop_segments(self, before_ms: int, max_count: int, force: int) -> int:
        """Deletes the oldest log files that were last modified before a time (any time with
        `force`), but never the last file; returns how many."""

    def set_writable(self, flag: int, reason: bytes) -> None:
        """Sets whether sends are taken; if not, they are refused with the reason."""


class IndexCalls(Protocol):
    """The key index: questions, and answers that come later."""

    @property
    def index_fd(self) -> int:
        """A descriptor that is readable when index_answers() has something; -1: no index."""

    def ask_index(
        self,
        number: int,
        topic: bytes,
        key: bytes,
        kind: int,
        hits_max: int,
        begin_ms: int,
        end_ms: int,
        body_max: int,
    ) -> bool:
        """Asks the key index for records; False: too many questions wait. Only where there is an
        index. kind: 0 unique key or key, 1 tag. index_answers() returns the answer later."""

    def index_answers(self) -> list[tuple[int, str, list[bytes], int, int]]:
        """The answers that have come: (number, "" or a failure, records, the newest first, store
        time and log offset of the newest message indexed)."""


class DelayCalls(Protocol):
    """Delayed and timed messages."""

    def set_delay_levels(self, delays_ms: list[int], offsets: list[int]) -> None:
        """Starts the delivery of delayed messages; level 1 is the first of both lists."""

    def delay_offsets(self, stop: int = 0) -> tuple[list[int], int]:
        """(for each level the offset of the first message not delivered, end of the log that holds
        what was delivered). The offsets may be saved once the log is durable up to that end. `stop`
        ends the delivery at the same moment."""

    def timers_delivered(self) -> tuple[int, int, int, int, int, int] | None:
        """How far timed messages are delivered. The numbers: (1, 2) messages due before a time of
        the wall clock (ms), and at that time those below a place in the log; (3, 4) the same for
        messages that wait for a span of time; (5) the offset in their queue from which on messages
        are not included; (6) the end of the log that holds what was delivered. None:
        timerWheelEnable is off."""

    def set_timers_delivered(self, position: tuple[int, int, int, int, int, int]) -> None:
        """Sets what the master of this slave said, once this log has reached the position's log
        end. StoreError: this is no slave."""

    def restart_timers(self, is_damaged: int = 1) -> None:
        """Reads timed messages from their queue again: one of their files was found damaged, or
        this core will lead, and must go on where its master was."""


class TransactionCalls(Protocol):
    """Half messages."""

    def start_transactions(self, first: int, serve: int) -> None:
        """serve 0: all half messages below `first` are ended, and control will mark more of them
        by end_halves(); serve 1: half messages and their ends are taken from now on."""

    def end_halves(self, offsets: list[int], with_op: int) -> int:
        """Marks half messages as ended. with_op: appends an op message for each; otherwise there is
        one already. Returns how many of them were open until now."""

    def open_halves(self, after: int, limit: int) -> tuple[int, int, list[int]]:
        """(offset below which all are ended, where to go on, offsets of open half messages)."""

    def half_state(self, offset: int, log_offset: int) -> int:
        """The state of the half message that is, or was, at this place: HALF_ENDED; HALF_OPEN, here
        or where it was stored anew; HALF_DOUBTED: it may be open at a place that the core does not
        know."""

    def move_half(self, offset: int, log_offset: int, to_offset: int, to_log_offset: int) -> None:
        """Says that control has stored the half message of this place anew, and that it is open at
        the new place: an end that names an older place then counts for the new one, without asking
        control. If the message is still open at the old place, it is ended there, with an op
        message."""

    def put_producers(self, group: bytes, connections: dict[int, bytes]) -> None:
        """Sets the connections to which check backs of the group's transactions may go, each with
        the name of its user (empty: it was let in without a name). A connection with a user is
        asked only about transactions that this user may end."""

    def check_halves(
        self, after: int, end: int, rules: tuple[int, int, int, int, bool]
    ) -> tuple[int, int, int, int, list[int]]:
        """Sends check backs (39) for some of the open half messages from `after` on. rules:
        began_ms, young_ms, times_max, age_max_ms, leave_full
        (cext/flow/transaction/check_backs.pxd).
        Returns: where to go on, how many checks were sent, how many half messages were stored anew
        because there was no producer to ask, why the run stopped (a CheckStop of check_backs.pxd),
        and the offsets that control must set aside."""


class StatCalls(Protocol):
    """Counters since the start. They are read without the reactor: each is exact, but they are not
    all of the same moment."""

    def stats(self) -> dict[str, int]: ...
    def reactor_turn(self) -> tuple[int, bytes]:
        """(turns so far, the step that the reactor is in), also read without the reactor; may be
        called from any thread."""

    def pools(self) -> dict[str, tuple[int, int, int, int, int]]:
        """{pool: (buffer bytes, buffers, in use, most ever in use, refusals)}."""

    def message_sizes(self) -> list[int]:
        """Records stored, by size: [n] counts those of at least 2 ** (n - 1) and less than 2 ** n
        bytes."""

    def latencies(self) -> dict[str, tuple[list[int], int]]:
        """{"append" | "flush" | ..: ([events per bucket], sum)} in us; buckets of
        cext/base/latency."""

    def histograms(self) -> dict[str, tuple[list[int], int]]:
        """{"finish": ([events between RocketMQ's bounds], sum)}: transactions, in s."""

    def rpc_times(self) -> dict[tuple[int, int, bool], tuple[list[int], int]]:
        """{(request code, response code, held): ([answers between bounds], sum)} in ms."""

    def page_cache(self, files: int) -> tuple[int, int, int]:
        """(bytes in memory, dirty bytes or -1, bytes looked at) of the newest log files."""


class OptionCalls(Protocol):
    """Options that change while the core runs."""

    def set_option(self, name: str, value: int) -> None:
        """Sets an option; KeyError if it cannot be changed at run time."""


class AuthCalls(Protocol):
    """Who may ask for what, among the requests that the reactor serves (cext/flow/auth)."""

    def put_user(
        self, name: bytes, password: bytes, is_super: bool, is_enabled: bool, packed: bytes,
        white: bytes,
    ) -> None:  # fmt: skip
        """Adds a user, or replaces the one of this name. packed: its policies; white: the addresses
        from where its name is enough (both by rmq/auth/packed_policies.py). Counts from the next
        request on."""

    def set_white_list(self, packed: bytes) -> None:
        """Replaces the addresses from where everybody is let in (packed_policies.py)."""

    def remove_user(self, name: bytes) -> None: ...
    def remove_users(self) -> None:
        """Removes all users. Until set_auth() control judges every request."""

    def set_auth(
        self,
        authenticates: bool,
        authorizes: bool,
        unauthenticated: list[int],
        unauthorized: list[int],
    ) -> None:
        """Sets whether requests need a signature, and whether they need a permission; for each, the
        request codes that need none."""

    def set_tls(self, context: Any, is_permissive: bool) -> None:
        """Sets the TlsContext for connections from now on, of a core that was made with one, and
        whether plain clients are served, too."""


class HACalls(Protocol):
    """Slaves and the master of this core (cext/flow/replication). Control hands over the sockets;
    the bytes of the log do not pass control."""

    def adopt_slave(self, fd: int, broker_id: int = 0, tls: Any = None) -> int:
        """Serves a slave on this connected, non-blocking socket (with TCP_NODELAY), which belongs
        to the core from now on; returns the id of its connection. `broker_id`: the slave's id, as
        its HA handshake said, which has been read; 0 where there is no such handshake. `tls`: a
        TlsStream on this socket, whose TLS handshake is over; it belongs to the core as well."""

    def follow_master(self, fd: int, whole: int, tls: Any = None) -> int:
        """Receives the log on this connected, non-blocking socket (with TCP_NODELAY), which belongs
        to the core from now on; returns the id of its connection. An earlier connection to a master
        is closed. StoreError: this core is no slave. A promotion ends the connection. When it ends,
        poll() returns CLOSED for the id, and ha_client() tells why. `whole`: the master is
        RocketMQ's and its log begins at 0: an empty log here must get all of it, not only its last
        file."""

    def leave_master(self) -> None:
        """Closes the connection to the master, if there is one."""

    def set_ha(
        self,
        slaves_needed: int,
        send_bytes: int,
        heartbeat_ms: int,
        silence_ms: int,
        ack_durable: int,
    ) -> None:
        """As master: answers wait for `slaves_needed` slaves (0: none), and each slave is sent at
        most `send_bytes` of the log per turn. As master and as slave: a sign of life is sent each
        `heartbeat_ms`, and a connection that was silent for `silence_ms` is closed. As slave, with
        `ack_durable`: only what is on the disk is reported to the master."""

    def ha_connections(self) -> list[tuple[int, bytes, int, int, int, int]]:
        """For each slave: its connection, its address (as a record's host), the offset of the next
        byte that it will be sent, the end of its log as it said last (-1: not yet), for how many ms
        it has lacked something that is written, and its broker id (0: it did not say)."""

    def ha_client(self) -> tuple[int, int, int, int, int, int, int]:
        """(the connection to the master, 0: none; the end of this log; the end that the master was
        told; for how many ms the master has been silent; why the last connection ended (HA_..); at
        which offset; up to which offset the master says that its log is confirmed)."""

    # Under a controller.

    def set_auto_switch(self, on: int) -> None:
        """Makes HA streams from now on those of controlled brokers (cext/wire/ha_stream.pxd)."""

    def set_epochs(self, epochs: list[tuple[int, int]]) -> None:
        """Sets all epochs of the log: (epoch, where in the log it begins); neither ever falls."""

    def set_sync_state(self, others: list[int] | None, short: int, sends_wait: int = 0) -> int:
        """As master: every answer waits for each of these broker ids, and consumers see only what
        all of them have; None: answers wait for as many slaves as set_ha() says, whoever they are.
        `short`: too few are in sync, so no sends are taken, and requests that wait for broker ids
        are answered SLAVE_NOT_AVAILABLE. `sends_wait`: sends go to the control thread for the
        moment. Returns the offset that a new member of the set must have reached: everything that
        was answered without it is below that.
        """

    def set_lease(self, end_ms: int) -> None:
        """As master: from this moment on, in milliseconds of clock.boot(), no sends are taken and
        none are answered; 2 ** 63 - 1: there is no lease."""


class RoleCalls(Protocol):
    """A core's role: master from the start, or slave, whose log is a copy of another core's
    (cext/flow/context/role.pxd)."""

    def set_replicated(self, offset: int) -> None:
        """Says that every slave that counts has the log up to here. ProtocolError when this log
        does not reach that far: what a slave reports is checked. StoreError when it is less than
        before, and this core leads."""

    def set_visible(self, offset: int) -> None:
        """At a slave: consumers get only what is below this offset of the log. StoreError: this
        core leads, and decides that itself; ProtocolError: below 0."""

    def promote(self) -> bool:
        """Makes a master of a slave: all of the log is visible, sends are taken, and delayed, timed
        and popped messages go on. False: not everything is dispatched yet, so it is still a slave;
        ask again."""

    def demote(self) -> bool:
        """Makes a slave of a master, at once: only append_raw() appends from now on. False: some
        requests, all of them in the log, still wait for the disk or for slaves; ask again.
        Called between open() and start(), it makes the core start as a slave."""

    def refuse_answers(self, reason: bytes) -> None:
        """Refuses every request that waits for an answer with SERVICE_NOT_AVAILABLE; what these
        requests sent is in the log and may stay there."""

    def set_unconfirmed(self) -> None:
        """At a slave: what is in its queues may be cut, so pulls are refused until the master
        has confirmed all of it, or this core is promoted. StoreError: this core leads."""

    def check_truncation(self, offset: int) -> None:
        """Checks that the log can be cut at `offset` now. StoreError, with the reason: this is not
        a slave, demote() is not True, no record starts at `offset` (nor does the last one end
        there), or something above it is confirmed (below set_replicated() or set_visible())."""

    def check_beginning(self, start: int) -> None:
        """Checks that begin_log() may be called now. StoreError: this is not a slave, demote() is
        not True, or the log is not empty; ConfigError: no segment begins at `start`."""


class Core(
    ConnectionCalls,
    TopicCalls,
    GroupCalls,
    OffsetCalls,
    PopCalls,
    QueueCalls,
    LogCalls,
    RetentionCalls,
    IndexCalls,
    DelayCalls,
    TransactionCalls,
    StatCalls,
    OptionCalls,
    HACalls,
    AuthCalls,
    RoleCalls,
    Protocol,
):
    """All calls that rmq.broker uses; only Broker names it, and gives each room its part."""


class ReplicaCalls(RoleCalls, Protocol):
    """A log that is a copy of another one (cext/flow/slave_replay.pxd)."""

    def append_raw(self, offset: int, data: bytes) -> int:
        """Appends bytes of another log at `offset`, which must be the end of this log. It takes
        whole records and returns the new end, where the next bytes belong. That may be less than
        was given, also because the log has no room now.

        Only for a slave (StoreError). StoreCorruptError: the bytes are not a record that belongs at
        this place, or `offset` is not the end; ProtocolError: a record is larger than this broker
        takes.
        """

    def truncate(
        self,
        offset: int,
        note: bytes = b"",
        due_ms: int = 0,
        timers_end: int = 0,
        deleted: dict[bytes, tuple[int, int]] | None = None,
    ) -> dict[str, Any]:
        """Cuts a slave's log: nothing is left of it from `offset` on, nor of what was derived from
        that part. The core is stopped and opened again; returns what open() returns. Connections
        are closed and the tables are empty; the port, the options and the role are as before.

        StoreError as of check_truncation(): nothing has happened. After any other failure the
        process must end, and its next start finishes the truncation: open() finishes whatever was
        begun.

        `note`: kept with the truncation, for the start that finishes it. Timed messages due before
        `due_ms` and below the offset `timers_end` of their queue were delivered below `offset`;
        zeros: not known, so all are delivered again. `deleted`: the topics that are deleted by now,
        in the form in which the core gets them when it is made; None: no others."""

    def begin_log(self, start: int) -> dict[str, Any]:
        """Lets the empty log of a slave begin at `start`, where its master's does. The core is
        stopped and opened again, as by truncate(). Errors as of check_beginning(): nothing has
        happened. After any other error the process must end, and its next start finds an empty log
        that begins at `start`, or none."""

    def queue_ends(self) -> dict[tuple[bytes, int], int]:
        """(topic, queue id) -> end of every queue, whether its topic is known or not; only between
        open() and start()."""

    @property
    def truncation(self) -> bytes | None:
        """After open() or truncate(): the note of a truncation that must be finished, or None."""

    def finish_truncation(self) -> None:
        """Says that all is done that the note asked for. It must be called before start(), so that
        nothing is appended before."""
