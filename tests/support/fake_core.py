"""Fake core: an in-memory stand-in for the compiled ShardCore, and a control side on top of it.

FakeCore keeps what control tells it (topics, groups, subscriptions, offsets, records) in plain
dictionaries, and notes what control sends and resubmits. FakeClient is one connection to it: call()
puts a request in and waits for the reply.

    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(30, topic="t", queueId=0)

Requests that the reactor serves itself cannot be tested with it; tests/process does that with the
real core.
"""

import asyncio
import itertools
import os
import struct
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from support import driven_clock
from support.waiting import HANG_S, machine_sleep

from rmq.broker.broker import Broker
from rmq.broker.tables.offset_entries import Offsets, decoded, encoded
from rmq.config import load_properties
from rmq.errors import StoreError
from rmq.format.message import (
    Host,
    StoredMessage,
    decode_message,
    decode_properties,
    encode_message,
    tags_code,
)
from rmq.format.remoting import Command, decode, encode, field_texts

SEGMENT_BYTES = 1 << 30


class FakeCore:
    """rmq.broker.core_seam.Core in memory; tests/source/test_core_seam.py compares the two."""

    def __init__(self) -> None:
        self.port = 26911
        self.control_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.lone_ends: dict[bytes, int] = {}  # topic -> log offset of its last message
        self.reports: list[tuple[int, int, bytes]] = []
        self.sent: list[tuple[int, Command]] = []
        self.resubmitted: list[tuple[int, Command]] = []
        self.sends_done: list[int] = []
        self.closed: list[int] = []
        self.held: set[int] = set()  # connections that are not read
        self.undrained: set[int] = set()  # connections to be reported when they are drained
        self.drains = True  # whether clients read their answers at once
        self.topics: dict[bytes, tuple[int, int, int, int]] = {}
        self.groups: dict[bytes, tuple[int, int]] = {}
        self.retries: dict[bytes, tuple[int, int, bytes]] = {}
        self.group_locks: dict[bytes, int] = {}
        self.slaves = 0  # adopted so far
        self.following = 0  # the connection to the master
        self.ha = (0, 0, 0, 0, 0)  # the last arguments of set_ha()
        self.resets: list[tuple[bytes, bytes, int, int]] = []
        self.subscriptions: dict[tuple[bytes, bytes], tuple[int, list[int] | None, int]] = {}
        self.programs: dict[tuple[bytes, bytes], tuple[bytes, int]] = {}
        self.expressions: dict[bytes, tuple[bytes, int]] = {}
        self.offset_table: dict[bytes, dict[int, int]] = {}
        self.pulled_table: dict[bytes, dict[int, int]] = {}
        self.offsets_version = 0
        self.changed_offsets: set[bytes] = set()
        self.mappings: dict[bytes, bytes] = {}
        self.orders: dict[tuple[bytes, bytes, int], bytes] = {}
        self.pop_orders_version = 0
        self.records: dict[int, bytes] = {}
        self.queues: dict[tuple[bytes, int], list[bytes]] = {}
        self.queue_minimum: dict[tuple[bytes, int], int] = {}
        self.memory_from: dict[tuple[bytes, int], int] = {}
        self.out_of_memory: set[int] = set()  # physical offsets that are on disk only
        self.withheld: set[int] = set()  # physical offsets that the disk fails to read
        self.log_end = 0
        self.copied: int | None = None  # the offset up to which slaves have the log; None: no slave
        self.copies_short = 0
        self.log_syncs = 0
        self.turn, self.stands = 0, False  # the reactor's turn, and whether it is stuck
        self.counters: dict[str, int] = {"messages_in": 0, "bytes_in": 0, "messages_out": 0}
        self.delays_ms: list[int] = []
        self.delivered_to: list[int] = []  # the next offset of each delay level
        self.first_half = 0
        self.serves_transactions = False
        self.ended_halves: set[int] = set()
        self.doubted_below = 0  # half offset: an ended one below it may be open elsewhere
        self.moved_halves: list[tuple[int, int, int, int]] = []  # as told by control
        self.clients_told: dict[bytes, int] = {}
        self.producers_told: dict[bytes, dict[int, bytes]] = {}
        self.ops: list[int] = []  # half offsets that an op message was written for
        self.options: dict[str, int] = {}
        self.writable: tuple[int, bytes] = (1, b"")
        self.drops: list[tuple[int, int, int]] = []
        self.droppable = 0
        self.refuse_appends: str | None = None
        self.index = True
        self.index_failure = ""
        self.index_found: list[tuple[int, str, list[bytes], int, int]] = []
        self._index_fd = os.eventfd(0, os.EFD_NONBLOCK)
        for fd in (self.control_fd, self._index_fd):
            weakref.finalize(self, os.close, fd)
        self.index_questions: list[tuple[bytes, bytes, int, int, int, int]] = []
        self._numbers = itertools.count(1)
        self._arrived = asyncio.Event()

    # ---- for tests

    def client(self, language: str = "JAVA", version: int = 479) -> "FakeClient":
        client = FakeClient(self, next(self._numbers), language, version)
        self.report(2, client.number, f"10.0.0.9:{50_000 + client.number}".encode())
        return client

    def report(self, kind: int, number: int, payload: bytes) -> None:
        self.reports.append((kind, number, payload))
        os.eventfd_write(self.control_fd, 1)

    async def until(self, condition: Any, timeout_s: float = HANG_S) -> None:
        """Waits until condition() holds; looks again after each command that control sends."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("waited in vain")
            self._arrived.clear()
            if driven_clock.is_still():  # time-outs of the loop do not happen
                await machine_sleep(0.005)
                continue
            try:
                await asyncio.wait_for(self._arrived.wait(), 0.02)
            except asyncio.TimeoutError:
                continue

    def store(self, topic: str, queue_id: int, body: bytes = b"x", **fields: Any) -> StoredMessage:
        """A message as a producer would have stored it; fields are those of StoredMessage."""
        message = StoredMessage(topic=topic, queue_id=queue_id, body=body, **fields)
        physical, _ = self._append(message, None)
        return decode_message(self.records[physical])[0]

    # ---- the broker's side

    def poll(self) -> list[tuple[int, int, bytes]]:
        with suppress(BlockingIOError):
            os.eventfd_read(self.control_fd)
        reports, self.reports = self.reports, []
        return reports

    def send(self, connection: int, frame: bytes) -> None:
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        self.sent.append((connection, decode(frame[4:])))
        self._arrived.set()

    def put_client(self, client_id: bytes, connection: int) -> None:
        if connection:
            self.clients_told[client_id] = connection
        else:
            self.clients_told.pop(client_id, None)

    def resubmit(self, connection: int, frame: bytes) -> None:
        self.resubmitted.append((connection, decode(frame)))

    def send_done(self, connection: int) -> None:
        self.sends_done.append(connection)
        self._arrived.set()

    def hold(self, connection: int) -> None:
        self.held.add(connection)

    def release(self, connection: int) -> None:
        self.held.discard(connection)

    def report_drained(self, connection: int) -> None:
        self.undrained.add(connection)
        if self.drains:
            self.drain(connection)

    def drain(self, connection: int) -> None:
        """Lets the client read all that was sent to it."""
        self.undrained.discard(connection)
        self.report(6, connection, b"")

    def close_connection(self, connection: int) -> None:
        self.closed.append(connection)

    def put_topic(
        self, name: bytes, read_queues: int, write_queues: int, perm: int, order: int
    ) -> None:
        self.topics[name] = (read_queues, write_queues, perm, order)

    def remove_topic(self, name: bytes, kept_from: int = 2**63 - 1) -> int | None:
        self.topics.pop(name, None)
        self.mappings.pop(name, None)
        if kept_from == 2**63 - 1:
            for key in [key for key in self.queues if key[0] == name]:
                del self.queues[key]
        return min(self.log_end, kept_from)

    def put_user(
        self, name: bytes, password: bytes, is_super: bool, is_enabled: bool, packed: bytes,
        white: bytes,
    ) -> None: ...  # fmt: skip
    def set_white_list(self, packed: bytes) -> None: ...
    def remove_user(self, name: bytes) -> None: ...
    def remove_users(self) -> None: ...
    def set_auth(
        self,
        authenticates: bool,
        authorizes: bool,
        unauthenticated: list[int],
        unauthorized: list[int],
    ) -> None: ...
    def set_tls(self, context: Any, is_permissive: bool) -> None: ...

    def put_queue_mapping(self, topic: bytes, mapping: bytes) -> None:
        if topic in self.topics:
            self.mappings[topic] = mapping

    def put_group(
        self,
        name: bytes,
        consume_enable: int,
        broadcast_enable: int,
        broker_id: int = 0,
        slow_broker_id: int = 1,
    ) -> None:
        self.groups[name] = (consume_enable, broadcast_enable)

    def put_retries(self, group: bytes, queues: int, times_max: int, levels: bytes) -> None:
        self.retries[group] = (queues, times_max, levels)

    def lock_group(self, group: bytes, ms: int) -> None:
        self.group_locks[group] = ms

    def remove_group(self, name: bytes) -> None:
        self.groups.pop(name, None)
        self.retries.pop(name, None)

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
        self.subscriptions[group, topic] = (sub_version, codes, broadcasting)
        self.programs[group, topic] = (program, function)

    def put_expression(self, text: bytes, program: bytes, function: int = 0) -> None:
        self.expressions[text] = (program, function)

    def remove_subscriptions(self, group: bytes) -> None:
        for key in [key for key in self.subscriptions if key[0] == group]:
            del self.subscriptions[key]

    def reset_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None:
        self.resets.append((group, topic, queue_id, offset))
        self.offset_table.setdefault(topic + b"@" + group, {})[queue_id] = offset
        self._offsets_changed(topic + b"@" + group)

    def commit_offset(self, group: bytes, topic: bytes, queue_id: int, offset: int) -> None:
        self.offset_table.setdefault(topic + b"@" + group, {})[queue_id] = offset
        self._offsets_changed(topic + b"@" + group)

    def query_offset(self, group: bytes, topic: bytes, queue_id: int) -> int:
        return self.offset_table.get(topic + b"@" + group, {}).get(queue_id, -1)

    def pop_orders(self, open_only: bool = False) -> list[tuple[bytes, bytes, int, bytes]]:
        return [(*key, block) for key, block in self.orders.items()]

    def put_pop_order(self, topic: bytes, group: bytes, queue_id: int, block: bytes) -> None:
        self.orders[topic, group, queue_id] = block
        self.pop_orders_version += 1

    def message_sizes(self) -> list[int]:
        return [0] * 32

    def offsets(self, which: int = 0) -> dict[bytes, dict[int, int]]:
        if which == 2:
            marked: dict[bytes, dict[int, int]] = {}
            for group, topic, queue_id, offset in self.resets:
                marked.setdefault(topic + b"@" + group, {})[queue_id] = offset
            return marked
        if which == 1:
            return {key: dict(queues) for key, queues in self.pulled_table.items()}
        return {key: dict(queues) for key, queues in self.offset_table.items()}

    def pulled(self, group: bytes, topic: bytes) -> dict[int, int]:
        return dict(self.pulled_table.get(topic + b"@" + group, {}))

    def remove_offsets(self, group: bytes | None, topic: bytes | None) -> None:
        for key in list(self.offset_table):
            of_topic, _, of_group = key.partition(b"@")
            if group in (None, of_group) and topic in (None, of_topic):
                del self.offset_table[key]
                self._offsets_changed(key)

    def _offsets_changed(self, pair: bytes) -> None:
        self.offsets_version += 1
        self.changed_offsets.add(pair)

    def _entry(self, pair: bytes) -> bytes:
        committed, resets = self.offset_table.get(pair), self.offsets(2).get(pair, {})
        return encoded(pair, committed and Offsets(committed, resets))

    def offset_entries(self) -> bytes:
        return b"".join(map(self._entry, self.offset_table))

    def take_changed_offsets(self) -> bytes:
        changed, self.changed_offsets = self.changed_offsets, set()
        return b"".join(map(self._entry, sorted(changed)))

    def put_offsets(self, entries: bytes) -> None:
        for pair, offsets in decoded(entries):
            topic, _, group = pair.partition(b"@")
            for queue_id, offset in (offsets.committed if offsets else {}).items():
                is_reset = offsets is not None and queue_id in offsets.resets
                put = self.reset_offset if is_reset else self.commit_offset
                put(group, topic, queue_id, offset)

    def queue_range(self, topic: bytes, queue_id: int) -> tuple[int, int] | None:
        entries = self.queues.get((topic, queue_id))
        if entries is None:
            return None
        return self.queue_minimum.get((topic, queue_id), 0), len(entries)

    def queue_ranges(self, topic: bytes, count: int) -> list[tuple[int, int]]:
        return [self.queue_range(topic, queue_id) or (0, 0) for queue_id in range(count)]

    def queues_without_topic(self) -> list[tuple[bytes, int, int]]:
        return [
            (topic, queue_id, self.lone_ends.get(topic, -1))
            for (topic, queue_id), entries in sorted(self.queues.items())
            if topic not in self.topics
            and len(entries) > self.queue_minimum.get((topic, queue_id), 0)
        ]

    def drop_older_queues(self, topic: bytes, end: int) -> int:
        older = [each for each in self.queues
                 if each[0] == topic and self.lone_ends.get(topic, -1) < end]  # fmt: skip
        for each in older:
            del self.queues[each]
        return len(older)

    def queue_snapshot(self, topic: bytes, queue_id: int) -> tuple[int, int, int, bytes] | None:
        found = self.queue_range(topic, queue_id)
        if found is None:
            return None
        first = self.memory_from.get((topic, queue_id), found[0])
        return (*found, first, b"".join(self.queues[topic, queue_id][first:]))

    def queue_names(self) -> list[tuple[bytes, int]]:
        return sorted(self.queues)

    def log_range(self) -> tuple[int, int, int]:
        return min(self.records, default=0), self.log_end, self.log_end

    def log_copies(self) -> tuple[int, int, int]:
        return self.log_end, 2**63 - 1 if self.copied is None else self.copied, self.copies_short

    def sync_log(self, end: int = 0) -> None:
        self.log_syncs += 1

    def popped_since(self, start: int) -> dict[tuple[bytes, bytes, int], int]:
        return {}

    def read_record(self, physical_offset: int, or_fail: int = 0) -> bytes | None:
        if or_fail and physical_offset in self.withheld:
            raise StoreError(f"the log cannot be read at {physical_offset} now")
        return None if physical_offset in self.withheld else self.records.get(physical_offset)

    @property
    def index_fd(self) -> int:
        """There is no index while `index` is False."""
        return self._index_fd if self.index else -1

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
        """Looks at every record."""
        self.index_questions.append((topic, key, kind, hits_max, begin_ms, end_ms))
        hits, last_ms, last_offset = self._query_index(*self.index_questions[-1])
        records: list[bytes] = []
        for offset in hits:
            if records and sum(map(len, records)) + len(self.records[offset]) > body_max:
                break
            records.append(self.records[offset])
        self.index_found.append((number, self.index_failure, records, last_ms, last_offset))
        os.eventfd_write(self._index_fd, 1)
        return True

    def index_answers(self) -> list[tuple[int, str, list[bytes], int, int]]:
        os.eventfd_read(self._index_fd)
        found, self.index_found = self.index_found, []
        return found

    def _query_index(
        self, topic: bytes, key: bytes, kind: int, hits_max: int, begin_ms: int, end_ms: int
    ) -> tuple[list[int], int, int]:
        hits, last_ms, last_offset = [], 0, 0
        for offset, record in sorted(self.records.items()):
            message = decode_message(record)[0]
            pairs = decode_properties(message.properties_bytes)
            keys = [pairs.get("UNIQ_KEY"), *pairs.get("KEYS", "").split(" ")]
            last_ms, last_offset = message.store_timestamp_ms, offset
            if (
                message.topic == topic.decode()
                and begin_ms <= message.store_timestamp_ms <= end_ms
                and key.decode() in ([pairs.get("TAGS")] if kind else keys)
            ):
                hits.append(offset)
        return hits[::-1][:hits_max], last_ms, last_offset

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
        if self.refuse_appends is not None:
            raise StoreError(self.refuse_appends)
        known = self.topics.get(topic)
        if known is None or not 0 <= queue_id < max(known[0], known[1]):
            raise StoreError(f"append to {topic!r}: no such queue")
        assert len(born_host) == 8
        message = StoredMessage(
            topic=topic.decode(), queue_id=queue_id, body=body, properties_bytes=properties,
            flag=flag, sys_flag=sys_flag, born_timestamp_ms=born_ms,
            reconsume_times=reconsume_times, prepared_offset=prepared_offset,
        )  # fmt: skip
        return self._append(message, tags_code)

    def is_in_memory(self, physical_offset: int) -> bool:
        return physical_offset not in self.out_of_memory

    def topic_table(
        self,
    ) -> dict[bytes, tuple[int, int, int, int, list[tuple[int, int] | None], list[int]]]:
        table = {}
        for name, (read, write, _, _) in self.topics.items():
            spans = [self.queue_range(name, queue_id) for queue_id in range(max(read, write))]
            count = sum(span[1] for span in spans if span is not None)
            table[name] = (count, 10 * count, 0, 0, spans, [0] * 20)
        return table

    def deliveries(self) -> dict[tuple[bytes, bytes], tuple[int, int]]:
        return {}

    def histograms(self) -> dict[str, tuple[list[int], int]]:
        return {"finish": ([0] * 10, 0)}

    def rpc_times(self) -> dict[tuple[int, int, bool], tuple[list[int], int]]:
        return {(310, 0, False): ([4] + [0] * 9, 0)}

    def pools(self) -> dict[str, tuple[int, int, int, int, int]]:
        return {"reply": (16384, 100, 3, 7, 0)}

    def latencies(self) -> dict[str, tuple[list[int], int]]:
        return {"append": ([0] * 35 + [4] + [0] * 64, 4000), "flush": ([0] * 100, 0)}

    def page_cache(self, files: int) -> tuple[int, int, int]:
        return 4096, 0, 8192

    def timers_delivered(self) -> tuple[int, int, int, int, int, int] | None:
        return 0, 0, 0, 0, 0, 0

    def set_timers_delivered(self, position: tuple[int, int, int, int, int, int]) -> None: ...

    def restart_timers(self, is_damaged: int = 1) -> None:
        raise NotImplementedError

    def set_delay_levels(self, delays_ms: list[int], offsets: list[int]) -> None:
        self.delays_ms, self.delivered_to = delays_ms, offsets

    def delay_offsets(self, stop: int = 0) -> tuple[list[int], int]:
        return list(self.delivered_to), self.log_end

    def start_transactions(self, first: int, serve: int) -> None:
        if not serve:
            self.first_half = first
        self.serves_transactions = bool(serve)

    def end_halves(self, offsets: list[int], with_op: int) -> int:
        fresh = len(set(offsets) - self.ended_halves)
        self.ended_halves.update(offsets)
        self.ops += [offset for offset in offsets if with_op]
        while self.first_half in self.ended_halves:
            self.first_half += 1
        return fresh

    def open_halves(self, after: int, limit: int) -> tuple[int, int, list[int]]:
        after = max(after, self.first_half)
        end = len(self.queues.get((b"RMQ_SYS_TRANS_HALF_TOPIC", 0), []))
        found = [n for n in range(after, end) if n not in self.ended_halves][:limit]
        return self.first_half, found[-1] + 1 if len(found) == limit else max(after, end), found

    def half_state(self, offset: int, log_offset: int) -> int:
        if offset in self.open_halves(offset, 1)[2]:
            return 1
        return 2 if offset < self.doubted_below else 0

    def move_half(self, offset: int, log_offset: int, to_offset: int, to_log_offset: int) -> None:
        self.moved_halves.append((offset, log_offset, to_offset, to_log_offset))
        self.end_halves([offset], 1)

    def put_producers(self, group: bytes, connections: dict[int, bytes]) -> None:
        self.producers_told[group] = connections

    def check_halves(
        self, after: int, end: int, rules: tuple[int, int, int, int, bool]
    ) -> tuple[int, int, int, int, list[int]]:
        """Gives up all half messages before `end`."""
        _, following, halves = self.open_halves(after, 256)
        return following, 0, 0, 0, [offset for offset in halves if offset < end]

    def stats(self) -> dict[str, int]:
        return dict(self.counters)

    def reactor_turn(self) -> tuple[int, bytes]:
        if not self.stands:
            self.turn += 1
        return self.turn, b"write" if self.stands else b"poll"

    def topic_stats(self, topic: bytes) -> tuple[int, int, int, int] | None:
        if topic not in self.topics:
            return None
        count = sum(len(q) for (name, _), q in self.queues.items() if name == topic)
        return count, count, 0, 0

    def set_option(self, name: str, value: int) -> None:
        self.options[name] = value

    def adopt_slave(self, fd: int, broker_id: int = 0, tls: Any = None) -> int:
        os.close(fd)
        self.slaves += 1
        return 1000 + self.slaves

    def follow_master(self, fd: int, whole: int, tls: Any = None) -> int:
        os.close(fd)
        self.following = 2000
        return self.following

    def leave_master(self) -> None:
        self.following = 0

    def set_ha(
        self,
        slaves_needed: int,
        send_bytes: int,
        heartbeat_ms: int,
        silence_ms: int,
        ack_durable: int,
    ) -> None:
        self.ha = (slaves_needed, send_bytes, heartbeat_ms, silence_ms, ack_durable)

    def ha_connections(self) -> list[tuple[int, bytes, int, int, int, int]]:
        return []

    def ha_client(self) -> tuple[int, int, int, int, int, int, int]:
        return self.following, self.log_range()[1], 0, 0, 1, 0, 0

    def set_replicated(self, offset: int) -> None: ...

    def set_visible(self, offset: int) -> None: ...

    def promote(self) -> bool:
        return True

    def demote(self) -> bool:
        return True

    def refuse_answers(self, reason: bytes) -> None: ...

    def set_unconfirmed(self) -> None: ...

    def check_truncation(self, offset: int) -> None: ...

    def check_beginning(self, start: int) -> None: ...

    def set_auto_switch(self, on: int) -> None:
        self.auto_switch = on

    def set_epochs(self, epochs: list[tuple[int, int]]) -> None:
        self.epochs = epochs

    def set_sync_state(self, others: list[int] | None, short: int, sends_wait: int = 0) -> int:
        self.sync_state = (others, short)
        self.sends_wait = sends_wait
        return self.log_range()[1]

    def set_lease(self, end_ms: int) -> None:
        self.lease_end_ms = end_ms

    def drop_segments(self, before_ms: int, max_count: int, force: int) -> int:
        self.drops.append((before_ms, max_count, force))
        count = min(self.droppable, max_count)
        self.droppable -= count
        return count

    def set_writable(self, flag: int, reason: bytes) -> None:
        self.writable = (flag, reason)

    def _append(self, message: StoredMessage, code: int | None) -> tuple[int, int]:
        queue = self.queues.setdefault((message.topic.encode(), message.queue_id), [])
        message.queue_offset = len(queue)
        message.physical_offset = self.log_end
        message.store_host = Host("127.0.0.1", self.port)
        if not message.store_timestamp_ms:
            message.store_timestamp_ms = time.time_ns() // 1_000_000
        record = encode_message(message)
        self.records[self.log_end] = record
        if code is None:
            code = tags_code(message.properties.get("TAGS"))
        queue.append(struct.pack(">qiq", self.log_end, len(record), code))
        self.log_end += len(record)
        return message.physical_offset, message.queue_offset


class FakeClient:
    """One connection to a FakeCore."""

    def __init__(self, core: FakeCore, number: int, language: str, version: int) -> None:
        self.core = core
        self.number = number
        self.language = language
        self.version = version
        self.opaque = 1000 * number

    def put(self, code: int, body: bytes = b"", one_way: bool = False, **fields: object) -> int:
        """Sends a request; returns its opaque."""
        self.opaque += 1
        command = Command(
            code=code, flag=2 if one_way else 0, opaque=self.opaque, language=self.language,
            version=self.version, fields=field_texts(fields), body=body,
        )  # fmt: skip
        self.core.report(0, self.number, encode(command)[4:])
        return self.opaque

    async def call(self, code: int, body: bytes = b"", **fields: object) -> Command:
        """Sends a request and waits for the reply."""
        opaque = self.put(code, body, **fields)
        await self.core.until(lambda: self.reply_to(opaque) is not None)
        reply = self.reply_to(opaque)
        assert reply is not None
        return reply

    def reply_to(self, opaque: int) -> Command | None:
        for number, command in self.core.sent:
            if number == self.number and command.is_response and command.opaque == opaque:
                return command
        return None

    def requests(self, code: int) -> list[Command]:
        """The broker's requests of this code to this client."""
        return [
            command
            for number, command in self.core.sent
            if number == self.number and not command.is_response and command.code == code
        ]

    def answer(self, request: Command, code: int = 0, body: bytes = b"") -> None:
        self.core.report(0, self.number, encode(request.reply(code, body=body))[4:])

    def given_back(self) -> list[Command]:
        return [command for number, command in self.core.resubmitted if number == self.number]

    def close(self) -> None:
        self.core.report(1, self.number, b"")


@asynccontextmanager
async def control(
    directory: Path, core: FakeCore | None = None, **settings: object
) -> AsyncIterator[Broker]:
    """A started control side on a fake core, with its store under `directory`."""
    core = core or FakeCore()
    texts = {"storePathRootDir": str(directory), "listenPort": "26911"}
    texts.update({key: str(value).lower() if isinstance(value, bool) else str(value)
                  for key, value in settings.items()})  # fmt: skip
    broker = Broker(load_properties(None, texts), core)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
