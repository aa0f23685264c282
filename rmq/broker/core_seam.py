"""Core seam: what the control thread calls of the shard's core, a Protocol for each noun.

This is the one place that says what a call is. ShardCore of cext/flow has all of them (compiled in
cext/flow/control, a file for each Protocol; its stub repeats the signatures for mypy), tests stand
in `tests/support/fake_core.py`, and tests/source/test_core_seam.py holds all three to this page.
Whoever calls the core names the Protocols it needs, not Core.

Names are bytes, times milliseconds, offsets whole numbers. A call raises StoreError, or what its
status stands for (cext/base/status.pxd), when it cannot be done. Every call takes at most one turn
of the reactor, unless it says that it waits for the disk. It is for the control thread alone; only
read_record(), queue_snapshot() and sync_log() may be called from any thread.

Example: core.put_topic(b"t", 4, 4, 6, 0); core.queue_range(b"t", 0) -> (0, 17) or None.
"""

from typing import Any, Protocol

# What poll() brings; ToControl of cext/flow/context/control_link.pxd.
REQUEST = 0  # payload: a frame without its length bytes
CLOSED = 1  # payload: empty
# payload: b"ip:port", or b"ip:port\nname" of who has proved to be that one; comes before the first
# frame of the connection
OPENED = 2
EVENT = 3  # payload: text that the log should carry
FUNCTION_PULL = 5  # payload: cext/flow/pull/function_pull.pyx
# payload: a topic that messages of the core go to and that is not there: delayed and timed ones,
# and the retry topic of popped ones; connection: queues it needs
WANT_TOPIC = 4
REFUSED = 7  # payload: lines, of a request: peer, code, known, user, and why it is refused
DRAINED = 6  # payload: empty; after report_drained(): all that was sent to the client has left

# What half_state() says; HalfState of cext/flow/control/transaction_calls.pyx.
HALF_ENDED, HALF_OPEN, HALF_DOUBTED = range(3)

# Why the connection to the master ended, as ha_client() says it; HAFailure of
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
    """Clients' connections: what they sent, and what is sent to them. Nothing here waits."""

    @property
    def port(self) -> int: ...
    @property
    def control_fd(self) -> int:
        """Readable when poll() has something."""

    def poll(self) -> list[tuple[int, int, bytes]]:
        """What has come for the control thread: (kind, connection, payload)."""

    def send(self, connection: int, frame: bytes) -> None:
        """Sends a whole frame (with its length bytes); dropped if the connection is gone."""

    def resubmit(self, connection: int, frame: bytes) -> None:
        """Gives a frame (without its length bytes) to the hot path once more."""

    def send_done(self, connection: int) -> None:
        """A send that control was given is answered or given back: its client may go on."""

    def hold(self, connection: int) -> None:
        """The client's socket is not read until release(): enough of its requests wait here."""

    def release(self, connection: int) -> None:
        """After hold(): it is read again."""

    def report_drained(self, connection: int) -> None:
        """After hold(): poll() brings DRAINED when all that was sent to the client has left."""

    def close_connection(self, connection: int) -> None:
        """Closes after what is queued for it has been sent."""

    def put_client(self, client_id: bytes, connection: int) -> None:
        """The connection of a client id, for replies pushed to it; 0: it has none."""


class TopicCalls(Protocol):
    """The reactor's table of topics."""

    def queue_names(self) -> list[tuple[bytes, int]]:
        """(topic, queue id) of all queues, also of those that a start has made anew and no file has
        yet. Before the first put_topic() only: from then on the reactor changes them."""

    def put_topic(
        self, name: bytes, read_queues: int, write_queues: int, perm: int, order: int
    ) -> None: ...
    def remove_topic(self, name: bytes, kept_from: int = 2**63 - 1) -> int | None:
        """Queues and their files go, the log stays, held pulls are answered TOPIC_NOT_EXIST; the
        log offset below which all its messages are, or None when it never had one. As slave:
        queues whose first record came at `kept_from` of the log or behind stay."""

    def put_queue_mapping(self, topic: bytes, mapping: bytes) -> None:
        """The logical queues of a static topic, as QueueMapping.packed(); b"": it is plain. What is
        in the store pool is dispatched, so that queue ranges say where the queues end, and held
        pulls are answered. A topic that is unknown stays so."""

    def topic_stats(self, topic: bytes) -> tuple[int, int, int, int] | None:
        """Since the start: (messages in, bytes in, messages out, bytes out), or None."""

    def topic_table(
        self,
    ) -> dict[bytes, tuple[int, int, int, int, list[tuple[int, int] | None], list[int]]]:
        """Every topic's counters and queues: (messages in, bytes in, messages out, bytes out,
        [(min, max offset) or None of each queue], TopicNumbers). Some topics a turn."""


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
        """The broker ids: where its consumers pull, and where those that are far behind."""

    def put_retries(self, group: bytes, queues: int, times_max: int, levels: bytes) -> None:
        """The group's retries: the delay level of each; empty: 3, 4, 5 .."""

    def lock_group(self, group: bytes, ms: int) -> None:
        """Clients of the group hold locks of queues for so long; 0: none does."""

    def remove_group(self, name: bytes) -> None:
        """The group and its subscriptions."""

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
        """What pulls that bring this SQL92 expression along are filtered by."""

    def remove_subscriptions(self, group: bytes) -> None: ...
    def deliveries(self) -> dict[tuple[bytes, bytes], tuple[int, int]]:
        """{(group, topic): (messages, bytes)} delivered since the start. Some groups a turn."""


class OffsetCalls(Protocol):
    """Consumer offsets."""

    @property
    def offsets_version(self) -> int:
        """Grows with each change of an offset; read without a call to the reactor."""

    def commit_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None: ...
    def reset_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None:
        """Moves the offset; the group's next pull of the queue is answered 21 with it."""

    def query_offset(self, group: bytes, topic: bytes, queue_id: int) -> int:
        """-1: there is none."""

    def offsets(self, which: int = 0) -> dict[bytes, dict[int, int]]:
        """A copy of all consumer offsets: {b"topic@group": {queue id: offset}}. 1: up to where each
        queue was pulled; 2: resets that no pull has been answered with yet."""

    def offset_entries(self) -> bytes:
        """All consumer offsets and the resets that no pull has been answered with, of one moment,
        in the form of rmq/broker/tables/offset_entries.py."""

    def take_changed_offsets(self) -> bytes:
        """The entries that have changed or were removed since the last call, each in full."""

    def put_offsets(self, entries: bytes) -> None:
        """commit_offset() and reset_offset() of whole entries."""

    def pulled(self, group: bytes, topic: bytes) -> dict[int, int]:
        """{queue id: offset up to which the group has pulled it since the start}."""

    def remove_offsets(self, group: bytes | None, topic: bytes | None) -> None:
        """Of the group, of the topic, or of both together."""


class PopCalls(Protocol):
    """What pops in order hold."""

    @property
    def pop_orders_version(self) -> int:
        """Grows with each change of what pops in order hold; read without a call to the reactor."""

    def pop_orders(self, open_only: bool = False) -> list[tuple[bytes, bytes, int, bytes]]:
        """(topic, group, queue id, block), blocks as they lie. open_only: without those of which
        all is acknowledged."""

    def put_pop_order(self, topic: bytes, group: bytes, queue_id: int, block: bytes) -> None:
        """A block of pop_orders(), of another run or another broker; b"": there is none any more.
        RmqError: the topic is not there, or there is no room; ProtocolError: it is no block."""


class QueueCalls(Protocol):
    """Consume queues."""

    def queue_range(self, topic: bytes, queue_id: int) -> tuple[int, int] | None:
        """(min, max offset), or None. A slave may have a queue before it knows the topic."""

    def queue_ranges(self, topic: bytes, count: int) -> list[tuple[int, int]]:
        """(min, max offset) of the queues from 0 on; (0, 0) of one that holds nothing yet, and of
        all of a topic that is unknown. Some queues a turn."""

    def queues_without_topic(self) -> list[tuple[bytes, int, int]]:
        """(topic, queue id, log offset of the last message or -1) of those that hold messages of a
        topic that is unknown, as a slave has them before it knows it, and when it was deleted
        before. Some queues a turn."""

    def drop_older_queues(self, topic: bytes, end: int) -> int:
        """Of a topic, known or not, that was deleted when the log ended there, and made anew since:
        how many queues have gone, those whose newest message is older. Held pulls are answered."""

    def queue_snapshot(self, topic: bytes, queue_id: int) -> tuple[int, int, int, bytes] | None:
        """(min, max, first offset in memory, 20-byte entries from there on), or None."""


class LogCalls(Protocol):
    """The commit log."""

    def log_range(self) -> tuple[int, int, int]:
        """(first offset, offset behind the last written byte, durable offset)."""

    def log_copies(self) -> tuple[int, int, int]:
        """(offset behind the last appended byte; up to where those have the log whose copies an
        answer waits for, 2 ** 63 - 1 where it waits for none; 1: fewer follow than are to)."""

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
        """Stores a message; (physical offset, queue offset) once written, not synced. StoreError,
        with the text that a send is refused with: nothing is taken just now, as at a slave, after
        a lease, on a full disk, with too few in sync (cext/flow/context/role.pxd)."""

    def sync_log(self, end: int = 0) -> None:
        """Returns when all that is written by now, and the log up to `end`, is on the disk,
        whatever the flush mode. Waits for the disk; StoreError when the log is poisoned or the
        disk stands still."""

    def read_record(self, physical_offset: int, or_fail: int = 0) -> bytes | None:
        """One stored record, checked; None when there is none at this offset, or the disk does not
        give it: with `or_fail` that is a StoreError. May wait for disk."""

    def is_in_memory(self, physical_offset: int) -> bool:
        """A record there can be read without the disk."""

    def popped_since(self, start: int) -> dict[tuple[bytes, bytes, int], int]:
        """{(topic, group, queue id): next offset} of the pops whose check points are in the log
        from `start` on. May wait for disk."""


class RetentionCalls(Protocol):
    """The oldest files of the log, and whether it takes more."""

    def drop_segments(self, before_ms: int, max_count: int, force: int) -> int:
        """Deletes the oldest log files last modified before a time (any time when forced); how
        many. Never the last one."""

    def set_writable(self, flag: int, reason: bytes) -> None:
        """Whether sends are taken; else they are refused with the reason."""


class IndexCalls(Protocol):
    """The key index: questions, and answers that come later."""

    @property
    def index_fd(self) -> int:
        """Readable when index_answers() has something; -1 without an index."""

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
        """Asks the key index (there is one) for records; False: too many questions wait. kind: 0
        unique key or key, 1 tag. The answer comes in index_answers()."""

    def index_answers(self) -> list[tuple[int, str, list[bytes], int, int]]:
        """(number, "" or a failure, records newest first, store time and log offset of the newest
        message indexed): the answers that have come."""


class DelayCalls(Protocol):
    """Delayed and timed messages."""

    def set_delay_levels(self, delays_ms: list[int], offsets: list[int]) -> None:
        """Starts the delivery of delayed messages; level 1 is the first of both lists."""

    def delay_offsets(self, stop: int = 0) -> tuple[list[int], int]:
        """(per level the offset of the first message not delivered, end of the log that holds
        what was delivered): the offsets may be kept once the log is durable up to there. `stop`
        ends the delivery in the same moment."""

    def timers_delivered(self) -> tuple[int, int, int, int, int, int] | None:
        """How far timed messages are delivered: those due before a time of the wall clock (ms), and
        at it those below a place in the log; the same of those that wait for a span of time; all
        but what is in their queue from this offset on; and the end of the log that holds what was
        delivered. None: timerWheelEnable is off."""

    def set_timers_delivered(self, position: tuple[int, int, int, int, int, int]) -> None:
        """What the master of this slave said, once the log is here up to its end. StoreError:
        this is no slave."""

    def restart_timers(self, is_damaged: int = 1) -> None:
        """They are read from their queue again: a file of them was found damaged, or this core is
        to lead, and to go on where its master was."""


class TransactionCalls(Protocol):
    """Half messages."""

    def start_transactions(self, first: int, serve: int) -> None:
        """serve 0: all half messages below `first` are ended, control will mark more by
        end_halves(); serve 1: half messages and their ends are taken from now on."""

    def end_halves(self, offsets: list[int], with_op: int) -> int:
        """Marks half messages ended, with an op message or because there is one; how many of
        them were open until now."""

    def open_halves(self, after: int, limit: int) -> tuple[int, int, list[int]]:
        """(everything below is ended, where to go on, offsets of open half messages)."""

    def half_state(self, offset: int, log_offset: int) -> int:
        """Of the half message that is, or was, at this place: HALF_ENDED; HALF_OPEN, there or where
        it was stored anew; HALF_DOUBTED: it may be open at a place that the core does not know."""

    def move_half(self, offset: int, log_offset: int, to_offset: int, to_log_offset: int) -> None:
        """The half message that is, or was, at this place was stored anew by control and is open
        there: an end that names an older place counts for the new one, and is none of control's.
        Where it was open still, it is ended there, with an op message."""

    def put_producers(self, group: bytes, connections: dict[int, bytes]) -> None:
        """The connections to which check backs of the group's transactions may go, each with the
        name of its user; empty: it was let in without a name. One that was goes to whose user may
        end the transaction alone."""

    def check_halves(
        self, after: int, end: int, rules: tuple[int, int, int, int, bool]
    ) -> tuple[int, int, int, int, list[int]]:
        """Sends check backs (39) for some of the open half messages from `after` on. rules:
        began_ms, young_ms, times_max, age_max_ms, leave_full
        (cext/flow/transaction/check_backs.pxd).
        Returns: where to go on, how many checks were sent, how many half messages were stored anew
        without a producer to ask, what hinders it (a CheckStop of check_backs.pxd), and the offsets
        that control is to set aside."""


class StatCalls(Protocol):
    """Counters since the start; plain reads, each exact, not all of the same moment."""

    def stats(self) -> dict[str, int]: ...
    def reactor_turn(self) -> tuple[int, bytes]:
        """(turns so far, the step that the reactor is in): as plain, and of any thread."""

    def pools(self) -> dict[str, tuple[int, int, int, int, int]]:
        """{pool: (buffer bytes, buffers, in use, most ever in use, refusals)}."""

    def message_sizes(self) -> list[int]:
        """Records stored by size: [n]: of less than 2 ** n bytes and not of less than half that."""

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
        """KeyError for one that is not changeable at run time."""


class AuthCalls(Protocol):
    """Who may ask for what (cext/flow/auth), of the requests that the reactor serves."""

    def put_user(
        self, name: bytes, password: bytes, is_super: bool, is_enabled: bool, packed: bytes,
        white: bytes,
    ) -> None:  # fmt: skip
        """In the place of one of the name; packed: its policies, white:
        from where its name is enough (both by rmq/auth/packed.py). Counts from
        the next request on."""

    def set_white_list(self, packed: bytes) -> None:
        """From where anybody is let in, in the place of what was said before (packed.py)."""

    def remove_user(self, name: bytes) -> None: ...
    def remove_users(self) -> None:
        """All of them. Until set_auth() control judges every request."""

    def set_auth(
        self,
        authenticates: bool,
        authorizes: bool,
        unauthenticated: list[int],
        unauthorized: list[int],
    ) -> None:
        """Whether requests need a signature, and a permission; the codes that need none."""

    def set_tls(self, context: Any, is_permissive: bool) -> None:
        """A TlsContext for the connections from now on, of a core that was made with one; whether
        plain clients are served, too."""


class HACalls(Protocol):
    """Slaves and the master of this core (cext/flow/replication). Sockets come from here, bytes of
    the log go without us."""

    def adopt_slave(self, fd: int, broker_id: int = 0, tls: Any = None) -> int:
        """A slave is served by this connected, non-blocking socket (with TCP_NODELAY), which is the
        core's from now on; the id of its connection. `broker_id`: who it is, as its handshake said,
        which has been read; 0 where there is none. `tls`: a TlsStream on this socket, whose
        handshake is over; it is the core's from now on, too."""

    def follow_master(self, fd: int, whole: int, tls: Any = None) -> int:
        """The log comes by this connected, non-blocking socket (with TCP_NODELAY), which is the
        core's from now on; the id of its connection. One before it is closed. StoreError: this
        core is no slave. A promotion ends it. When it ends poll() says CLOSED_CONNECTION of the
        id, and ha_client() why. `whole`: the master is RocketMQ's, and its log begins at 0: an
        empty log here is to have all of it, not its last file alone."""

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
        """As master: answers wait for so many slaves (0: none); each is sent so many bytes of the
        log in a turn at most. Both: a sign of life each `heartbeat_ms`, and a connection is closed
        that has said nothing for `silence_ms`. As slave: what is said to be here is on the disk."""

    def ha_connections(self) -> list[tuple[int, bytes, int, int, int, int]]:
        """Of each slave: its connection, its address (as a record's host), the offset of the next
        byte that it is sent, the end of its log as it said last (-1: not yet), for how many ms it
        has not had all that is written, and its broker id (0: it did not say)."""

    def ha_client(self) -> tuple[int, int, int, int, int, int, int]:
        """The connection to the master (0: none), the end of this log, what the master was told,
        for how many ms it has said nothing, why the last connection ended (HA_..) and where,
        and up to where the master says it is confirmed."""

    # Under a controller.

    def set_auto_switch(self, on: int) -> None:
        """Streams from now on are those of controlled brokers (cext/wire/ha_stream.pxd)."""

    def set_epochs(self, epochs: list[tuple[int, int]]) -> None:
        """(epoch, where in the log it begins), neither ever falling; all of the log's."""

    def set_sync_state(self, others: list[int] | None, short: int, sends_wait: int = 0) -> int:
        """As master: every answer waits for each of these broker ids, and consumers see only what
        all of them have; None: for as many slaves as set_ha() says, whoever they are. `short`: too
        few are in sync, so that nothing is taken, and what waits for broker ids is answered
        SLAVE_NOT_AVAILABLE. `sends_wait`: sends come to the control thread for the moment. Returns
        the offset that one who is new in it must have: all that was answered without it is below.
        """

    def set_lease(self, end_ms: int) -> None:
        """As master: nothing is taken or answered from this moment of the monotonic clock on;
        2 ** 63 - 1: there is no lease."""


class RoleCalls(Protocol):
    """A core's role: master from the start, or slave, whose log is a copy of another core's
    (cext/flow/context/role.pxd)."""

    def set_replicated(self, offset: int) -> None:
        """Every slave that counts has the log up to here. ProtocolError when it is more than
        there is of it: what a slave reports is checked. StoreError when it is less than before,
        and this core leads."""

    def set_visible(self, offset: int) -> None:
        """Of a slave: consumers may be given what is below this offset of the log, and nothing
        else. StoreError: this core leads, and sees to that itself; ProtocolError: below 0."""

    def promote(self) -> bool:
        """Makes a master of a slave: all of the log is visible, sends are taken, what waits for
        its time goes on. False: not all is dispatched yet, it is a slave still; ask again."""

    def demote(self) -> bool:
        """Makes a slave of a master, at once: nothing is appended any more but by append_raw().
        False: answers still wait for the disk or for slaves (each is in the log); ask again.
        Between open() and start() the core starts as one."""

    def refuse_answers(self, reason: bytes) -> None:
        """Whoever waits for an answer is refused with SERVICE_NOT_AVAILABLE; what they sent is in
        the log and may stay there."""

    def set_unconfirmed(self) -> None:
        """Of a slave: what is in its queues may be cut, so pulls are refused until the master
        has confirmed all of it, or this core is promoted. StoreError: this core leads."""

    def check_truncation(self, offset: int) -> None:
        """Whether the log can be cut there now. StoreError, with the reason: this is not a
        slave, demote() is not True, no record starts at `offset` (nor does the last one end
        there), or what is above it is confirmed (below set_replicated() or set_visible())."""

    def check_beginning(self, start: int) -> None:
        """Whether begin_log() may be called now. StoreError: this is not a slave, demote() is
        not True, or the log has something; ConfigError: no segment begins there."""


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
    """All that rmq.broker calls: for Broker, which gives each room its part."""


class ReplicaCalls(RoleCalls, Protocol):
    """A log that is a copy of another one (cext/flow/slave_replay.pxd)."""

    def append_raw(self, offset: int, data: bytes) -> int:
        """Bytes of another log that belong at `offset`, the end of this one; the new end. Whole
        records are taken: the next bytes belong at what is returned.

        Only for a slave (StoreError). StoreCorruptError: what stands at the end
        is no record of there, or `offset` is not the end; ProtocolError: a record larger than this
        broker takes. What is returned is less than was given also when the log has no room now.
        """

    def truncate(
        self,
        offset: int,
        note: bytes = b"",
        due_ms: int = 0,
        timers_end: int = 0,
        deleted: dict[bytes, tuple[int, int]] | None = None,
    ) -> dict[str, Any]:
        """Cuts a slave's log: nothing from `offset` on is left of it, nor of what was derived
        from it. The core is stopped and opened again: what open() returns. Connections are closed,
        the tables are empty, the port, the options and the role are as before.

        StoreError of check_truncation(): nothing has happened. After any other failure the process
        must end; its next start finishes the truncation: open() does, whenever one was begun.

        `note`: kept with the truncation, for who finishes it. Timed messages due before `due_ms`,
        and below the offset `timers_end` of their queue, were delivered below `offset`; zeros: not
        known, all are delivered again. `deleted`: the topics that are deleted by now, as the core
        was given them when it was made; None: no others."""

    def begin_log(self, start: int) -> dict[str, Any]:
        """A slave's log without a byte begins at `start`, where its master's does. The core is
        stopped and opened again, as by truncate(). Errors of check_beginning(): nothing has
        happened; after any other one the process must end, and its next start finds an empty log,
        there or nowhere."""

    def queue_ends(self) -> dict[tuple[bytes, int], int]:
        """(topic, queue id) -> end of every queue there is, whether its topic is known or not;
        between open() and start() alone."""

    @property
    def truncation(self) -> bytes | None:
        """After open() or truncate(): the note of a truncation that is to be finished, or None."""

    def finish_truncation(self) -> None:
        """All is done that the note asked for. start() wants it: nothing appends before."""
