"""The log under a controller: streams with epochs, acks of a sync state set, leases.

Goal: a master that acknowledges a message is sure of it: every member of the set has the record,
the lease runs, and consumers see nothing that could be cut. Method: a core, and a test that speaks
the protocol that follows the handshake. Not shown here: handshakes and elections
(tests/unit/broker), whole clusters (tests/ha).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.fed_slaves import log_of
from support.shard import Client, bodies, pull, send

from rmq.base import clock as base_clock
from rmq.broker.core_seam import REQUEST
from rmq.errors import StoreError
from tests.unit.flow.test_ha_stream import (
    HA,
    SEGMENT_BYTES,
    Link,
    Master,
    Slave,
    connected,
    fill,
)

pytestmark = pytest.mark.still_clock

SYSTEM_ERROR, SYSTEM_BUSY, SLAVE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE = 1, 2, 11, 14
HEAD = struct.Struct(">iiqiqq")
REPORT = struct.Struct(">iq")
MALFORMED, ELSEWHERE, NEW_EPOCH = 2, 3, 8
NO_LEASE = 2**63 - 1


class AutoSwitchLink(Link):
    """A stream whose handshake is over."""

    def report(self, offset: int) -> None:
        self.socket.sendall(REPORT.pack(2, offset))

    def reported(self) -> int:
        state, offset = REPORT.unpack(self.exactly(REPORT.size))
        assert state == 2
        return int(offset)

    def head(self) -> tuple[int, int, int, int, bytes]:
        """(offset, epoch, epoch start, confirmed, bytes)"""
        state, count, offset, epoch, start, confirmed = HEAD.unpack(self.exactly(HEAD.size))
        assert state == 2
        return offset, epoch, start, confirmed, self.exactly(count)

    def frame(self) -> tuple[int, bytes]:
        offset, _, _, _, data = self.head()
        return offset, data

    def until_confirmed(self, offset: int) -> None:
        while self.head()[3] < offset:
            pass

    def give(
        self, offset: int, data: bytes, epoch: int = 1, start: int = 0, confirmed: int = 0
    ) -> None:
        self.socket.sendall(HEAD.pack(2, len(data), offset, epoch, start, confirmed) + data)


class ControlledMaster(Master):
    """A master of epoch 1, under a controller. The test tells it its sync state set."""

    def __enter__(self) -> ControlledMaster:
        super().__enter__()
        self.core.set_auto_switch(1)
        self.core.set_epochs([(1, 0)])
        self.core.set_ha(*HA.values())
        return self

    def joined(self, broker_id: int, offset: int = 0) -> AutoSwitchLink:
        ours, accepted = connected(self.listener)
        accepted.setblocking(False)
        self.core.adopt_slave(accepted.detach(), broker_id)
        link = AutoSwitchLink(ours)
        link.report(offset)
        self.until(lambda _: any(row[3] >= offset and row[5] == broker_id for row in self.rows()))
        return link

    def rows(self) -> list[tuple[int, bytes, int, int, int, int]]:
        return list(self.core.ha_connections())


class ControlledSlave(Slave):
    """A slave under a controller. It knows epoch 1."""

    def __enter__(self) -> ControlledSlave:
        super().__enter__()
        self.core.set_auto_switch(1)
        self.core.set_epochs([(1, 0)])
        return self

    def followed(self) -> AutoSwitchLink:
        return AutoSwitchLink(self.by_hand().socket)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[ControlledMaster]:
    with ControlledMaster(tmp_path / "master") as master:
        yield master


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[ControlledSlave]:
    with ControlledSlave(tmp_path / "slave") as slave:
        yield slave


def now_ms() -> int:
    return int(base_clock.boot() * 1000)


def found(client: Client, offset: int = 0) -> list[bytes]:
    reply = client.ask(pull("g", "t", offset))
    return bodies(reply) if reply.code == 0 else []


# ------------------------------------------------------------------- master


def test_frames_carry_the_epoch_of_their_bytes_and_no_frame_has_two(
    master: ControlledMaster,
) -> None:
    first = fill(master, 50)
    master.core.set_epochs([(1, 0), (3, first), (4, first)])
    end = fill(master, 50, opaque=2000)
    link = master.joined(2)
    at, labels = 0, set()
    while at < end:
        offset, epoch, start, _, data = link.head()
        assert offset == at
        at += len(data)
        labels.add((epoch, start, offset < first, at <= first))
    assert labels == {(1, 0, True, True), (4, first, False, False)}
    link.close()


def test_an_answer_waits_for_every_member_and_for_nobody_else(master: ControlledMaster) -> None:
    links = {broker_id: master.joined(broker_id) for broker_id in (2, 3, 4)}
    assert master.core.set_sync_state([2, 3], 0) == 0
    client = master.connect()
    client.put(send("t", b"a", 5))
    end = len(links[2].log(0, 1))
    links[2].report(end)
    links[4].report(end)
    master.until(lambda _: sorted(row[3] for row in master.rows()) == [0, end, end])
    assert client.is_silent()
    links[3].report(end)
    assert client.reply().code == 0
    for link in links.values():
        link.close()


def test_consumers_see_what_all_members_have(master: ControlledMaster) -> None:
    fill(master, 1)
    link = master.joined(2, master.core.log_range()[1])
    master.core.set_sync_state([2], 0)
    client, reader = master.connect(), master.connect()
    before = master.core.log_range()[1]
    client.put(send("t", b"not yet", 5))
    # The record is counted before it is written.
    master.until(lambda _: master.core.log_range()[1] > before)
    end = master.core.log_range()[1]
    assert len(found(reader)) == 1  # what consumers saw while the master was alone they still see
    link.report(end)
    assert client.reply().code == 0
    assert found(reader, 1) == [b"not yet"]
    link.until_confirmed(end)  # and the slave is told, although nothing else is sent
    link.close()


def test_a_member_that_is_gone_stops_acks_until_it_is_no_member(master: ControlledMaster) -> None:
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    link.close()
    master.until(lambda _: master.rows() == [])
    client = master.connect()
    client.put(send("t", b"a", 5))
    master.until(lambda stats: stats["messages_in"] == 1)
    assert client.is_silent()
    assert found(master.connect()) == []
    master.core.set_sync_state([], 0)
    assert client.reply().code == 0
    assert found(master.connect()) == [b"a"]


def test_where_a_number_of_slaves_counts_the_set_promises_nothing(master: ControlledMaster) -> None:
    """With allAckInSyncStateSet=false a change of the set is told to the core, but answers wait for
    a number of slaves only."""
    master.core.set_sync_state(None, 0)
    master.core.set_ha(**{**HA, "slaves_needed": 1})
    link = master.joined(2)
    client = master.connect()
    client.put(send("t", b"a", 5))
    end = len(link.log(0, 1))
    master.core.set_sync_state(None, 0)
    assert client.is_silent()
    master.core.set_ha(**{**HA, "slaves_needed": 1})
    assert client.is_silent()
    link.report(end)
    assert client.reply().code == 0
    assert found(master.connect()) == [b"a"]
    master.core.set_sync_state(None, 1)
    assert client.ask(send("t", b"b")).remark == "in-sync replicas not enough"
    link.close()


def test_what_waits_for_a_member_outlives_its_files(master: ControlledMaster) -> None:
    """On a full disk retention may delete files whose records no member has yet; the answers that
    wait for a member are still given."""
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    # Sends are refused while the next file is made.
    client, sent, stored, refused = master.connect(), 0, 0, 0
    while master.core.log_range()[1] <= 2 * SEGMENT_BYTES:
        sent += 1
        client.put(send("t", bytes(SEGMENT_BYTES // 4), sent))
        while stored + refused < sent:
            stats = master.core.stats()
            stored, refused = stats["messages_in"], stats["sends_refused"]
    while master.core.log_range()[0] < 2 * SEGMENT_BYTES:
        master.core.drop_segments(2**62, 1, 1)  # deletes only what is durable
    link.report(master.core.log_range()[1])
    assert sum(client.reply().code == 0 for _ in range(sent)) == stored > 6
    master.core.set_sync_state([], 0)
    assert client.ask(send("t", b"and on")).code == 0
    link.close()


def test_a_set_that_became_too_small_promises_nothing(master: ControlledMaster) -> None:
    """The only slave is gone, so the master has the only copy of messages that two brokers were to
    have: their senders must be told."""
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    client = master.connect()
    client.put(send("t", b"both", 4))
    link.report(len(link.log(0, 1)))
    assert client.reply().code == 0
    link.close()
    master.until(lambda _: master.rows() == [])
    client.put(send("t", b"alone", 5), send("t", b"too", 6))
    master.until(lambda stats: stats["messages_in"] == 3)
    assert client.is_silent()
    master.core.set_sync_state([], 1)
    for opaque in (5, 6):
        reply = client.reply()
        assert (reply.opaque, reply.code) == (opaque, SLAVE_NOT_AVAILABLE)
        assert reply.remark == "stored, but fewer slaves follow than are to have it"
    reader = master.connect()
    assert found(reader) == [b"both"]
    master.core.set_sync_state([], 0)  # minInSyncReplicas is 1 now
    assert client.ask(send("t", b"enough")).code == 0
    assert found(reader) == [b"both", b"alone", b"too", b"enough"]


def test_members_who_do_not_answer_are_needed_when_they_are_back(master: ControlledMaster) -> None:
    """They stay members while the set is short: what is stored then is seen when they have it."""
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    link.close()
    master.until(lambda _: master.rows() == [])
    client, reader = master.connect(), master.connect()
    client.put(send("t", b"alone", 5))
    master.until(lambda stats: stats["messages_in"] == 1)
    master.core.set_sync_state([2], 1)
    assert client.reply().code == SLAVE_NOT_AVAILABLE
    assert client.ask(send("t", b"x")).remark == "in-sync replicas not enough"
    assert found(reader) == []
    end = master.core.log_range()[1]
    link = master.joined(2)
    assert len(link.log(0, end)) == end
    link.report(end)
    master.until(lambda _: found(reader) == [b"alone"])  # both have it
    master.core.set_sync_state([2], 0)
    client.put(send("t", b"b", 6))
    link.report(end + len(link.log(end, end + 1)))
    assert client.reply().code == 0
    link.close()


def test_a_set_that_is_too_small_is_whole_again_with_a_member_that_has_all(
    master: ControlledMaster,
) -> None:
    end = fill(master, 3)
    master.core.set_sync_state([], 1)
    link = master.joined(2, end)
    master.core.set_sync_state([2], 1)  # slave 2 counts for acks, and is no member yet
    master.core.set_sync_state([2], 0)
    client = master.connect()
    client.put(send("t", b"a", 5))
    end += len(link.log(end, end + 1))
    assert client.is_silent()
    link.report(end)
    assert client.reply().code == 0
    link.close()


def test_who_joins_must_have_what_was_answered_without_it(master: ControlledMaster) -> None:
    master.core.set_sync_state([], 0)
    end = fill(master, 10)
    link = master.joined(2)
    assert master.core.set_sync_state([2], 0) == end
    assert len(found(master.connect())) == 10  # consumers saw them before the slave joined
    link.close()


def test_a_set_that_is_too_small_takes_nothing(master: ControlledMaster) -> None:
    master.core.set_sync_state([], 1)
    client = master.connect()
    reply = client.ask(send("t", b"a"))
    assert (reply.code, reply.remark) == (SYSTEM_ERROR, "in-sync replicas not enough")
    master.core.set_sync_state([], 0)
    assert client.ask(send("t", b"a")).code == 0
    assert master.core.stats()["messages_in"] == 1


def test_sends_wait_with_control_until_a_new_master_is_complete(master: ControlledMaster) -> None:
    master.core.set_sync_state([], 1, 1)
    client = master.connect()
    client.put(send("t", b"a", 1), send("t", b"b", 2))
    away = master.reports(REQUEST, 2)
    client.put(send("t", b"c", 3))
    master.core.set_sync_state([], 0)
    for number, frame in away:
        assert client.is_silent()
        master.core.resubmit(number, frame)
        master.core.send_done(number)
        client.reply()
    assert client.reply().opaque == 3  # what was sent behind the two that waited
    assert found(client) == [b"a", b"b", b"c"]


def test_sends_that_waited_in_vain_are_refused(master: ControlledMaster) -> None:
    master.core.set_sync_state([], 1, 1)
    client = master.connect()
    client.put(send("t", b"a"))
    ((number, frame),) = master.reports(REQUEST)
    master.core.resubmit(number, frame)
    master.core.send_done(number)
    assert client.reply().remark == "in-sync replicas not enough"
    assert master.kept(REQUEST) == []


def test_another_connection_of_a_slave_takes_its_place(master: ControlledMaster) -> None:
    first = master.joined(2)
    second = master.joined(2)
    assert first.is_closed()
    assert [row[5] for row in master.rows()] == [2]
    second.close()


def test_who_has_not_greeted_is_no_slave(master: ControlledMaster) -> None:
    link = AutoSwitchLink(master.connection())
    link.report(0)
    assert link.is_closed()


@pytest.mark.parametrize("report", [REPORT.pack(2, -1), REPORT.pack(2, 1 << 40)])
def test_a_report_that_cannot_be_ends_the_connection(
    master: ControlledMaster, report: bytes
) -> None:
    link = master.joined(2)
    link.socket.sendall(report)
    assert link.is_closed()


def test_half_a_handshake_instead_of_a_report_ends_the_connection_as_silence_does(
    clock: DrivenClock, master: ControlledMaster
) -> None:
    link = master.joined(2)
    link.socket.sendall(REPORT.pack(1, 0))  # a handshake begins with these bytes, but is longer
    clock.advance(21)  # haHousekeepingInterval
    assert link.is_closed()


def test_without_a_lease_nothing_is_taken(clock: DrivenClock, master: ControlledMaster) -> None:
    master.core.set_lease(now_ms() + 5000)
    client = master.connect()
    assert client.ask(send("t", b"a")).code == 0
    clock.advance(5)
    reply = client.ask(send("t", b"b"))
    assert reply.code == SERVICE_NOT_AVAILABLE
    assert reply.remark is not None and "controller" in reply.remark
    master.core.set_lease(now_ms() + 5000)
    assert client.ask(send("t", b"c")).code == 0
    assert found(master.connect()) == [b"a", b"c"]


@pytest.mark.parametrize("passes", ["advance", "suspend"])
def test_an_ack_that_comes_after_the_lease_answers_nobody(
    clock: DrivenClock, master: ControlledMaster, passes: str
) -> None:
    """Nor where the machine was suspended meanwhile: another broker may be master."""
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    master.core.set_lease(now_ms() + 2000)
    client = master.connect()
    client.put(send("t", b"a", 5))
    end = len(link.log(0, 1))
    getattr(clock, passes)(2)
    link.report(end)
    assert client.reply().code == SERVICE_NOT_AVAILABLE
    master.core.set_lease(NO_LEASE)
    client.put(send("t", b"b", 6))  # is taken again
    link.report(end + len(link.log(end, end + 1)))
    assert client.reply().code == 0
    assert master.core.stats()["messages_in"] == 2
    link.close()


def test_who_waits_is_refused_when_the_role_changes(master: ControlledMaster) -> None:
    link = master.joined(2)
    master.core.set_sync_state([2], 0)
    client = master.connect()
    client.put(send("t", b"a", 5))
    master.until(lambda stats: stats["messages_in"] == 1)
    assert not master.core.demote()
    master.core.refuse_answers(b"another broker is master")
    reply = client.reply()
    assert (reply.code, reply.remark) == (SERVICE_NOT_AVAILABLE, "another broker is master")
    assert master.core.demote()
    link.close()


# ------------------------------------------------------------------- slave


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("log")
    with Master(directory / "master") as master:
        end = fill(master, 300)
        master.stop()
    return log_of(directory / "master" / "store", end)


def boundary(log: bytes, least: int) -> int:
    """Where a record ends, at `least` or later."""
    at = 0
    while at < least:
        at += int.from_bytes(log[at : at + 4], "big")
    return at


def test_a_slave_shows_what_the_master_has_confirmed(slave: ControlledSlave, log: bytes) -> None:
    master = slave.followed()
    assert master.reported() == 0
    half, end = boundary(log, len(log) // 2), len(log)
    master.give(0, log, confirmed=half)
    master.until_reported(end)
    slave.until(lambda stats: stats["log_dispatched"] == half)
    master.give(end, b"", confirmed=end)
    slave.until_has(end)
    assert slave.core.ha_client()[6] == end
    master.close()


def test_an_epoch_that_is_not_known_ends_the_stream_where_it_begins(
    slave: ControlledSlave, log: bytes
) -> None:
    half, end = boundary(log, len(log) // 2), len(log)
    master = slave.followed()
    # RocketMQ gives the last piece before an epoch this label.
    master.give(0, log[:half], epoch=2, start=half)
    master.until_reported(half)
    master.give(half, log[half:], epoch=2, start=half)
    assert slave.failure() == NEW_EPOCH
    assert slave.core.log_range()[1] == half
    slave.core.set_epochs([(1, 0), (2, half)])
    again = slave.followed()
    assert again.reported() == half
    again.give(half, log[half:], epoch=2, start=half, confirmed=end)
    slave.until_has(end)
    for link in (master, again):
        link.close()


def test_messages_that_may_be_cut_are_given_to_nobody(slave: ControlledSlave, log: bytes) -> None:
    end = slave.core.append_raw(0, log)
    slave.until_has(end)
    slave.core.set_unconfirmed()
    reader = slave.connect()
    assert reader.ask(pull("g", "t")).code == SYSTEM_BUSY
    master = slave.followed()
    assert master.reported() == end
    master.give(end, b"", confirmed=end - 1)
    slave.until(lambda _: slave.core.ha_client()[6] == end - 1)
    assert reader.ask(pull("g", "t")).code == SYSTEM_BUSY
    master.give(end, b"", confirmed=end)
    slave.until(lambda _: reader.ask(pull("g", "t")).code == 0)
    master.close()


def test_what_a_start_has_put_into_queues_may_be_cut_until_a_master_confirms_it(
    slave: ControlledSlave, log: bytes
) -> None:
    """The master that is elected then lacks the rest of the log, but nothing that was promised is
    lost."""
    half, end = boundary(log, len(log) // 2), len(log)
    slave.core.append_raw(0, log)
    slave.until_has(end)
    slave.core.set_unconfirmed()
    master = slave.followed()
    assert master.reported() == end
    master.give(end, b"", confirmed=half)
    slave.until(lambda _: not may_cut(slave, boundary(log, half // 2)))
    assert may_cut(slave, half)
    master.give(end, b"", confirmed=end)
    slave.until(lambda _: not may_cut(slave, half))
    master.close()


def may_cut(slave: ControlledSlave, offset: int) -> bool:
    try:
        slave.core.check_truncation(offset)
    except StoreError as error:
        assert "everything is confirmed" in str(error)
        return False
    return True


def test_a_promotion_shows_all(slave: ControlledSlave, log: bytes) -> None:
    slave.core.append_raw(0, log)
    slave.core.set_unconfirmed()
    slave.core.set_sync_state([], 1)
    slave.until(lambda _: slave.core.promote())
    reader = slave.connect()
    assert reader.ask(pull("g", "t")).code == 0
    # Too few replicas are in sync, from the start on.
    assert reader.ask(send("t", b"a")).code == SYSTEM_ERROR


@pytest.mark.parametrize(
    ("head", "failure"),
    [((1, 10, 0, 1, 0, 0), MALFORMED), ((2, -1, 0, 1, 0, 0), MALFORMED),
     ((2, 10, -1, 1, 0, 0), MALFORMED), ((2, 10, 0, -1, 0, 0), MALFORMED),
     ((2, 10, 0, 1, 0, -1), MALFORMED), ((2, 10, 2**63 - 5, 1, 0, 0), MALFORMED),
     ((2, 10, 7, 1, 0, 0), ELSEWHERE)],
)  # fmt: skip
def test_a_head_that_cannot_be_ends_the_stream(
    slave: ControlledSlave, head: tuple[int, ...], failure: int
) -> None:
    master = slave.followed()
    assert master.reported() == 0
    master.socket.sendall(HEAD.pack(*head) + bytes(10))
    assert slave.failure() == failure
    assert slave.core.log_range()[1] == 0
    master.close()


def test_two_controlled_cores_have_the_same_log(tmp_path: Path) -> None:
    with (
        ControlledMaster(tmp_path / "master") as master,
        ControlledSlave(tmp_path / "slave") as slave,
    ):
        end = fill(master, 5000)
        assert end > SEGMENT_BYTES
        ours, accepted = connected(master.listener)
        accepted.setblocking(False)
        master.core.adopt_slave(accepted.detach(), 2)
        slave.adopt(ours)
        slave.until_has(end)
        master.core.set_sync_state([2], 0)
        end = fill(master, 2000, opaque=20_000)
        slave.until_has(end)
        slave.stop()
        master.stop()
    assert log_of(tmp_path / "slave" / "store", end) == log_of(tmp_path / "master" / "store", end)
