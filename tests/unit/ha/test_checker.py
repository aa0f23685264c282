"""Goal: the checker of tests/ha names each broken rule, with the events that show it, and finds
nothing where nothing is wrong.

Method: histories of a simulated cluster (tests/ha/simulation.py), which break no rule whatever
happens in them, and the same ones with one thing changed, for each rule; stores of a real broker,
whole and damaged. Not shown here: that the rules are all that clients may rely on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.broker_client import BrokerClient
from support.live_broker import live_broker
from support.name_server import in_loop
from support.source_tree import ROOT
from support.store_copies import copy_store
from support.volume import volume

from rmq.format.message import decode_message_id
from tests.ha.checker import check, main
from tests.ha.findings import RULES
from tests.ha.history import (
    AnyEvent,
    Assigned,
    Decided,
    Delivered,
    Drained,
    Event,
    Fault,
    HistoryError,
    OffsetRead,
    Reset,
    Sending,
    Settled,
    Stored,
    Subscribed,
    TopicChanged,
    TopicsSeen,
    Writer,
    read,
)
from tests.ha.simulation import BROKER, ORDERED, PULLED, TOPIC, Simulation
from tests.ha.steps import (
    MS,
    committed,
    found,
    in_sync,
    kill,
    log_end,
    offset_read,
    pulled,
    reset,
    worked,
    write,
)

E = TypeVar("E", bound=Event)
SEED, STEPS = 5, 400


def good() -> list[AnyEvent]:
    return Simulation(Random(SEED)).run(STEPS)


def of(events: list[AnyEvent], event: type[E], /, **fields: object) -> list[E]:
    return [each for each in events if isinstance(each, event)
            and all(getattr(each, name) == value for name, value in fields.items())]  # fmt: skip


def promised(events: list[AnyEvent]) -> Stored:
    """A plain message that was acknowledged, from the middle of the history."""
    rows = [each for each in of(events, Stored, topic=TOPIC) if each.offset > 2]
    return rows[len(rows) // 2]


def test_a_good_history_breaks_no_rule(tmp_path: Path) -> None:
    findings = found(tmp_path / "h.jsonl", good())
    assert findings.violations == []
    assert findings.counts["acknowledged"] > 20
    assert findings.counts["duplicates"] > 0
    assert findings.counts["offsets read"] > 5


@settings(max_examples=volume(25, 80), deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), steps=st.integers(0, 300))
def test_histories_of_a_correct_cluster_break_no_rule(
    random: Random, steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "simulated.jsonl"
    findings = found(path, Simulation(random).run(steps))
    assert findings.violations == []


# ---- each rule, broken


def lose(events: list[AnyEvent]) -> list[Event]:
    stored = next(e for e in of(events, Stored, topic=TOPIC)
                  if not of(events, Delivered, message=e.message, how="pull"))  # fmt: skip
    final = of(events, Delivered, message=stored.message, how="final")[0]
    final.message = "p/1000000"
    events.append(Sending(at=1, message="p/1000000", topic=TOPIC))
    return [stored]


def move(events: list[AnyEvent]) -> list[Event]:
    stored = promised(events)
    stored.log_offset += 1
    return [stored]


def show_two(events: list[AnyEvent]) -> list[Event]:
    event = of(events, Delivered, how="pull")[3]
    event.message = of(events, Stored, topic=TOPIC)[-1].message
    return [event]


def vanish(events: list[AnyEvent]) -> list[Event]:
    """Lets the end of a queue, which a reader saw, disappear."""
    last = max(of(events, Delivered, how="push", queue_id=0), key=lambda each: each.offset)
    end = of(events, Drained, topic=TOPIC, queue_id=0)[0]
    end.end = last.offset
    for final in of(events, Delivered, how="final", topic=TOPIC, queue_id=0):
        if final.offset >= last.offset:
            events.remove(final)
    return [last]


def leave_gap(events: list[AnyEvent]) -> list[Event]:
    events.remove(of(events, Delivered, how="final", topic=TOPIC, queue_id=0)[1])
    return [of(events, Drained, topic=TOPIC, queue_id=0)[0]]


def leave_unread(events: list[AnyEvent]) -> list[Event]:
    for event in of(events, Drained, topic=TOPIC, queue_id=0):
        events.remove(event)
    return [of(events, Delivered, how="final", topic=TOPIC, queue_id=0)[-1]]


def make_up(events: list[AnyEvent]) -> list[Event]:
    event = of(events, Delivered, how="any")[0]
    event.message, event.offset = "nobody/1", -1
    return [event]


def roll_back(events: list[AnyEvent]) -> list[Event]:
    decided = of(events, Decided, commit=True)[0]
    decided.commit = False
    return [decided]


def overtake(events: list[AnyEvent]) -> list[Event]:
    stored = promised(events)
    end = max(each.at for each in events)
    before = next(e for e in of(events, Sending, kind="plain") for s in of(events, Stored)
                  if s.message == e.message and s.queue_id == stored.queue_id
                  and s.topic == TOPIC and 0 <= s.offset < stored.offset)  # fmt: skip
    before.at = end + 1
    return [stored, before]


def withhold(events: list[AnyEvent]) -> list[Event]:
    stored = promised(events)
    for event in of(events, Delivered, group=ORDERED, message=stored.message):
        events.remove(event)
    return [stored, of(events, Subscribed)[0]]


def go_back(events: list[AnyEvent]) -> list[Event]:
    rows = of(events, Delivered, how="pull", queue_id=1)
    sent_to = {each.offset for each in of(events, Reset, queue_id=1)}
    first, second = next((a, b) for a, b in pairwise(rows) if a.process == b.process
                         and b.offset == a.offset + 1 and a.offset not in sent_to)  # fmt: skip
    first.at, second.at = second.at, first.at
    return [second, first]


def leave_out(events: list[AnyEvent]) -> list[Event]:
    rows = of(events, Delivered, how="push", queue_id=0)
    event = max(rows, key=lambda each: each.offset)
    left_out = [each for each in rows if each.offset == event.offset - 1]
    for each in left_out:
        events.remove(each)
    return [event]


def swap_keys(events: list[AnyEvent]) -> list[Event]:
    rows = of(events, Delivered, how="push", queue_id=0)
    names = {each.message: each for each in of(events, Stored)}
    keyed = [each for each in rows if each.message in names and of(
        events, Sending, message=each.message, key="red")]  # fmt: skip
    first, second = keyed[2], keyed[-1]
    for each in rows:
        if each.message == first.message:
            each.at += second.at
    return [names[first.message], second]


def work_beside(events: list[AnyEvent]) -> list[Event]:
    """Two members of a group in order work on a queue at once."""
    first, second = worked(10, 20, "one"), worked(15, 25, "other")
    events += [first, second]
    return [first, second]


def fall(events: list[AnyEvent]) -> list[Event]:
    read = OffsetRead(at=1 << 50, asked=(1 << 50) - 1, process="late", group=ORDERED, topic=TOPIC,
                      broker=BROKER, queue_id=0, offset=-1)  # fmt: skip
    events.append(read)
    return [read]


def invent_offset(events: list[AnyEvent]) -> list[Event]:
    read = OffsetRead(at=1 << 50, asked=(1 << 50) - 1, process="late", group=PULLED, topic=TOPIC,
                      broker=BROKER, queue_id=0, offset=77_777)  # fmt: skip
    events.append(read)
    return [read]


def undo_reset(events: list[AnyEvent]) -> list[Event]:
    """The group is where it was before it was sent back."""
    late = 1 << 50
    sent_back, read = reset(late + 10, 1), offset_read(late + 20, 10)
    events += [committed(late, 10), sent_back, read]
    return [sent_back, read]


def ack_twice(events: list[AnyEvent]) -> list[Event]:
    rows = [each for each in of(events, Stored) if each.epoch == 2]
    rows[-1].acker = "intruder"
    return [rows[0], rows[-1]]


def ack_late(events: list[AnyEvent]) -> list[Event]:
    late = next(each for each in reversed(of(events, Stored)) if each.epoch > 2)
    late.epoch, late.acker = 1, "host-1"
    return [late]


def ack_unleased(events: list[AnyEvent]) -> list[Event]:
    """The message is sent and acknowledged when nobody had granted a lease for 4 ms."""
    stored = promised(events)
    sent = of(events, Sending, message=stored.message)[0]
    events.append(Fault(at=sent.at - 5 * MS, name="no lease", fences_ms=4))
    events.append(Fault(at=stored.at + 1, name="no lease", ends=True))
    return [sent, stored]


def set_twice(events: list[AnyEvent]) -> list[Event]:
    """An epoch of the set has two sets."""
    first, second = in_sync(10, "ab", 7), in_sync(20, "a", 7)
    events += [first, second]
    return [first, second]


def lag(events: list[AnyEvent]) -> list[Event]:
    """A member of the set lacks what was acknowledged."""
    at = max(each.at for each in events)
    before, end, after = in_sync(at + 10, "ab"), log_end(at + 20, "b", 0), in_sync(at + 30, "ab")
    events += [before, end, after]
    return [before, end]


def forget_topic(events: list[AnyEvent]) -> list[Event]:
    made, seen = topic_changed("m"), TopicsSeen(at=30, broker="b", topics=())
    events += [made, seen]
    return [made, seen]


def keep_topic(events: list[AnyEvent]) -> list[Event]:
    gone, seen = topic_changed("m", deletes=True), TopicsSeen(at=30, broker="b", topics=("m",))
    events += [topic_changed("m"), gone, seen]
    return [gone, seen]


def overlap(events: list[AnyEvent]) -> list[Event]:
    older = of(events, Stored, topic=TOPIC, queue_id=0)[0]
    older.epoch, older.acker = 1 << 20, "new"
    return [older]


def send_twice(events: list[AnyEvent]) -> list[Event]:
    again = Sending(at=1 << 50, message=of(events, Sending)[0].message, topic=TOPIC)
    events.append(again)
    return [again]


PLANTED: dict[str, tuple[str, Callable[[list[AnyEvent]], list[Event]]]] = {
    "a message less": ("lost", lose),
    "a place of the log": ("moved", move),
    "another message": ("two-messages", show_two),
    "a queue's end less": ("vanished", vanish),
    "a hole": ("gap", leave_gap),
    "a queue not read": ("unread", leave_unread),
    "a message of nobody's": ("made-up", make_up),
    "a transaction that was none": ("rolled-back", roll_back),
    "a message before an older one": ("overtaken", overtake),
    "a message withheld": ("undelivered", withhold),
    "a reader goes back": ("reader-order", go_back),
    "a message left out": ("group-order", leave_out),
    "keys in another order": ("key-order", swap_keys),
    "two at work": ("two-owners", work_beside),
    "an offset falls": ("offset-fell", fall),
    "an offset of nobody's": ("offset-unknown", invent_offset),
    "a reset that is undone": ("reset-lost", undo_reset),
    "two masters": ("two-ackers", ack_twice),
    "a master of old": ("stale-acker", ack_late),
    "a master without a lease": ("unleased-acker", ack_unleased),
    "a set of two kinds": ("set-history", set_twice),
    "a member behind": ("behind-member", lag),
    "a topic less": ("topic-lost", forget_topic),
    "a topic that is still there": ("topic-back", keep_topic),
    "an offset of two epochs": ("epoch-overlap", overlap),
    "a message sent twice": ("bad-history", send_twice),
}
OF_STORES = {"unequal-logs", "not-copied", "log-damage", "queue-files", "store-files"}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_named_with_its_events(tmp_path: Path, name: str) -> None:
    rule, plant = PLANTED[name]
    events = good()
    expected = plant(events)
    findings = found(tmp_path / "h.jsonl", events)
    assert rule in findings.broken
    told = {place for each in findings.violations if each.rule == rule for place in each.places}
    assert {each.place for each in expected} <= told


def test_every_rule_has_a_test() -> None:
    assert {rule for rule, _ in PLANTED.values()} | OF_STORES == set(RULES)


@pytest.mark.parametrize(("behind", "is_good"), [(30, True), (15, False)])
def test_a_reset_beyond_what_nobody_was_given_skips_it(
    tmp_path: Path, behind: int, is_good: bool
) -> None:
    """A reset skips the messages that nobody had been given, but not those that a reader had passed
    over before."""
    events: list[AnyEvent] = [Subscribed(at=1, group=PULLED, topic=TOPIC)]
    for number in range(3):
        message = f"p/{number}"
        events += [
            Sending(at=2 + number, message=message, topic=TOPIC),
            Stored(at=10 + number, message=message, offset=number, topic=TOPIC, broker=BROKER),
        ]  # fmt: skip
    events += [pulled(13, 0), reset(20, 2), pulled(behind, 2)]
    findings = found(tmp_path / "h.jsonl", events)
    assert ("undelivered" not in findings.broken) is is_good


@pytest.mark.parametrize(
    ("ahead_ns", "again", "is_good"),
    [(5, [], True), (2_000_000_000, [], False), (5, [7, 2], False)],
    ids=["at once", "long behind it", "twice"],
)
def test_a_reset_sends_a_reader_back_once_behind_what_it_had_pulled_ahead(
    tmp_path: Path, ahead_ns: int, again: list[int], is_good: bool
) -> None:
    at = 10 * MS + ahead_ns
    events = [pulled(5 * MS, 6), reset(10 * MS, 2), pulled(at, 7), pulled(at + 5, 2)]
    events += [pulled(at + 10 + number, place) for number, place in enumerate(again)]
    findings = found(tmp_path / "h.jsonl", events)
    assert ("reader-order" not in findings.broken) is is_good


@pytest.mark.parametrize(
    ("faults", "place", "is_good"),
    [([], 2, False), (kill(12 * MS, 4), 2, True), (kill(12 * MS, 4), 1, False),
     (kill(12 * MS, 1), 2, False), (kill(30 * MS, 25), 2, False), (kill(2 * MS, 1), 2, False),
     ([*kill(2 * MS, 1, settles=True), Settled(at=5 * MS)], 2, True)],
    ids=["no fault", "just before a kill", "not its place", "long before it", "a kill later on",
         "after a kill", "by a reader that does not know the master yet"],
)  # fmt: skip
def test_a_reset_is_done_again_where_a_kill_took_that_it_was_done(
    tmp_path: Path, faults: list[AnyEvent], place: int, is_good: bool
) -> None:
    events = [pulled(5 * MS, 7), reset(10 * MS, 2), pulled(11 * MS, 2), pulled(12 * MS - 1, 3),
              *faults, pulled(20 * MS, place)]  # fmt: skip
    findings = found(tmp_path / "h.jsonl", events)
    assert ("reader-order" not in findings.broken) is is_good


def topic_changed(topic: str, deletes: bool = False, acked: bool = True) -> TopicChanged:
    return TopicChanged(at=20, asked=10, topic=topic, deletes=deletes, acked=acked)


@pytest.mark.parametrize(
    ("changes", "may_be_there", "may_be_gone"),
    [
        ([topic_changed("m")], True, False),
        ([topic_changed("m", acked=False)], True, True),
        ([topic_changed("m"), topic_changed("m", deletes=True)], False, True),
        ([topic_changed("m"), topic_changed("m", deletes=True, acked=False)], True, True),
    ],
    ids=["made", "made perhaps", "deleted", "deleted perhaps"],
)  # fmt: skip
def test_topics_are_at_each_replica_or_at_none(
    tmp_path: Path, changes: list[AnyEvent], may_be_there: bool, may_be_gone: bool
) -> None:
    for topics, is_good in ((("m",), may_be_there), ((), may_be_gone)):
        seen = TopicsSeen(at=30, broker="b", topics=topics)
        findings = found(tmp_path / "h.jsonl", [*changes, seen])
        assert (findings.broken == {}) is is_good, topics


@pytest.mark.parametrize(
    ("acked", "there", "broken", "in_part"),
    [(3, 3, 0, 0), (3, 2, 1, 1), (0, 2, 0, 1), (0, 0, 0, 0), (0, 3, 0, 0)],
    ids=["all", "one less", "a part that nobody answered", "nothing", "all, without an answer"],
)  # fmt: skip
def test_a_batch_that_was_answered_is_there_as_a_whole(
    tmp_path: Path, acked: int, there: int, broken: int, in_part: int
) -> None:
    place = {"topic": TOPIC, "broker": BROKER, "queue_id": 0}
    names = [f"p/1.{number}" for number in range(3)]
    events: list[AnyEvent] = [
        *(Sending(at=1, message=name, topic=TOPIC, batch="p/1") for name in names),
        *(Stored(at=5, message=name, offset=number, **place)
          for number, name in enumerate(names[:acked])),
        *(Delivered(at=9, message=name, offset=number, group="final", how="final", **place)
          for number, name in enumerate(names[:there])),
        Drained(at=10, begin=0, end=there, **place),
    ]  # fmt: skip
    findings = found(tmp_path / "h.jsonl", events)
    assert findings.broken["lost"] == broken
    assert (findings.counts["batches"], findings.counts["batches in part"]) == (1, in_part)


@pytest.mark.parametrize(
    ("rows", "fault", "broken", "counted"),
    [
        ([(10, 20, "one"), (20, 30, "other")], None, 0, 0),
        ([(10, 30, "one"), (15, 25, "one")], None, 0, 0),
        ([(10, 20, "one"), (15, 30, "other"), (25, 40, "one")], None, 2, 0),
        ([(10, 50, "one"), (20, 30, "one"), (40, 60, "other")], None, 1, 0),
        ([(10, 20, "one"), (15, 25, "other")], 5, 0, 1),
        ([(10, 20, "one"), (15, 25, "other")], 30, 1, 0),
    ],
    ids=["one after the other", "the same one", "two and two", "one that takes long",
         "after a change of masters", "before it"],
)  # fmt: skip
def test_one_member_works_on_a_queue_until_the_master_changes(
    tmp_path: Path, rows: list[tuple[int, int, str]], fault: int | None, broken: int, counted: int
) -> None:
    events: list[AnyEvent] = [worked(*row) for row in rows]
    if fault is not None:
        events.append(Fault(at=fault, name="kill", loses_locks=True))
    findings = found(tmp_path / "h.jsonl", events)
    assert findings.broken["two-owners"] == broken
    assert findings.counts["two owners after a change of masters"] == counted


@pytest.mark.parametrize(("fences_ms", "is_good"), [(6, True), (4, False)])
def test_what_was_sent_before_the_lease_ended_may_be_acknowledged_later(
    tmp_path: Path, fences_ms: int, is_good: bool
) -> None:
    events: list[AnyEvent] = [
        Fault(at=5 * MS, name="no lease", fences_ms=fences_ms),
        Sending(at=10 * MS, message="p/1", topic=TOPIC),
        Stored(at=30 * MS, message="p/1", topic=TOPIC, broker=BROKER),
        Fault(at=40 * MS, name="no lease", ends=True),
    ]
    findings = found(tmp_path / "h.jsonl", events)
    assert ("unleased-acker" not in findings.broken) is is_good


@pytest.mark.parametrize(
    ("fenced", "is_good"), [("host-1", False), ("host-2", True), ("", False)],
    ids=["its lease is over", "another one's is", "all are"],
)  # fmt: skip
def test_who_lost_sight_of_its_controller_acknowledges_nothing_and_others_may(
    tmp_path: Path, fenced: str, is_good: bool
) -> None:
    events: list[AnyEvent] = [
        Fault(at=5 * MS, name="no lease", target=fenced, fences_ms=4, fenced=fenced),
        Sending(at=10 * MS, message="p/1", topic=TOPIC),
        Stored(at=30 * MS, message="p/1", topic=TOPIC, broker=BROKER, acker="host-1"),
        Fault(at=40 * MS, name="no lease", target=fenced, ends=True),
    ]
    findings = found(tmp_path / "h.jsonl", events)
    assert ("unleased-acker" not in findings.broken) is is_good


# ---- files and the program


def test_a_writer_keeps_what_was_added_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    with Writer(tmp_path, "p") as writer:
        for number in range(2000):
            writer.add(Sending(message=f"p/{number}", topic="t"))
    with writer.path.open("ab") as file:
        file.write(b'{"event":"sending","at":1')
    events = list(read([writer.path]))
    assert [each.message for each in of(events, Sending)] == [f"p/{n}" for n in range(2000)]
    assert all(each.process == "p" and each.at > 0 for each in events)
    assert [each.place for each in events] == list(range(1, 2001))


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"event":"drained"}\n')
    with pytest.raises(HistoryError, match=r"h\.jsonl:1: no event: .*topic"):
        list(read([path]))


def test_the_program_says_what_is_broken(tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", good())
    command = [sys.executable, "-m", "tests.ha.checker", "--json", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["broken"] == {}
    events = good()
    lose(events)
    write(tmp_path / "good.jsonl", events)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert done.returncode == 1 and said["broken"]["lost"] == 1
    assert all(text.startswith("good.jsonl:") for text in said["violations"][0]["events"])


def test_the_program_prints_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = good()
    invent_offset(events)
    write(tmp_path / "h.jsonl", events)
    assert main([str(tmp_path / "h.jsonl")]) == 1
    said = capsys.readouterr().out
    assert "offset-unknown" in said and "nobody put it at 77777" in said
    assert main([str(tmp_path / "none.jsonl")]) == 2


def test_a_million_events_take_less_than_a_minute(tmp_path: Path) -> None:
    """Measured with a tenth of them: messages that are sent, acknowledged, delivered, and read at
    the end."""
    path = tmp_path / "h.jsonl"
    with path.open("wb") as file:
        for number in range(25_000):
            at, queue_id, offset = 1000 * number + 1, number % 8, number // 8
            head = {"process": "p", "message": f"p/{number}", "topic": "t"}
            place = {"broker": "a", "queue_id": queue_id, "offset": offset, "log_offset": number}
            rows = [
                {"event": "sending", "at": at, **head},
                {"event": "stored", "at": at + 1, **head, **place},
                {"event": "delivered", "at": at + 2, **head, **place, "group": "g", "how": "pull"},
                {"event": "delivered", "at": at + 3, **head, **place, "group": "f", "how": "final"},
            ]
            file.write(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
        for queue_id in range(8):
            end = {"event": "drained", "at": 1 << 40, "topic": "t", "broker": "a",
                   "queue_id": queue_id, "begin": 0, "end": 3_125}  # fmt: skip
            file.write(msgspec.json.encode(end) + b"\n")
    began = time.process_time()
    findings = check([path])
    assert findings.broken == {} and findings.counts["events"] == 100_008
    assert time.process_time() - began < 6


# ---- stores


async def real_store(directory: Path, history: Path) -> Path:
    """The store of a stopped broker; also writes what its client was told into the history."""
    store = directory / "store"
    with Writer(history, "p") as writer:
        async with live_broker(store) as broker, BrokerClient(broker.core.port) as client:
            for number in range(50):
                name = f"p/{number}"
                writer.add(Sending(message=name, topic="t"))
                reply = await client.send("t", name.encode(), 0)
                assert reply.code == 0
                log_offset = decode_message_id(reply.fields["msgId"])[1]
                offset = int(reply.fields["queueOffset"])
                told = {"topic": "t", "broker": "a", "queue_id": 0, "offset": offset}
                writer.add(Stored(message=name, log_offset=log_offset, **told))
                writer.add(Delivered(message=name, group="f", how="final", **told))
        writer.add(Drained(topic="t", broker="a", queue_id=0, begin=0, end=50))
    return store


def patch(store: Path, folder: str, at: int, data: bytes) -> None:
    path = sorted((store / folder).iterdir())[0]
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def truncate(store: Path, at: int) -> None:
    path = sorted((store / "commitlog").iterdir())[0]
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(path.stat().st_size - at))


@in_loop
async def test_replicas_of_one_log_are_equal_up_to_what_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    one = await real_store(tmp_path, tmp_path / "h")
    other = tmp_path / "other"
    copy_store(one, other)
    paths = [tmp_path / "h" / "p.jsonl"]
    findings = check(paths, [[one, other]], all_copies=True)
    assert findings.broken == {}, findings.violations
    assert findings.counts["stores"] == 2 and findings.counts["records"] == 100

    last = max(of(list(read(paths)), Stored), key=lambda each: each.log_offset)
    truncate(other, last.log_offset)
    findings = check(paths, [[one, other]], all_copies=True)
    assert findings.broken["not-copied"] == 1
    assert "unequal-logs" not in findings.broken  # up to the shorter end both logs are the same
    told = [each for each in findings.violations if each.rule == "not-copied"]
    assert told[0].places == (last.place,)
    assert findings.broken["queue-files"] == 1  # because its queue goes beyond its log

    patch(other, "commitlog", last.log_offset - 3, b"x")
    findings = check(paths, [[one, other]])
    assert findings.broken["unequal-logs"] == 1


@in_loop
async def test_queue_files_and_the_log_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    store = await real_store(tmp_path, tmp_path / "h")
    patch(store, "consumequeue/t/0", 20 * 7, (12345).to_bytes(8, "big"))
    assert check([], [[store]]).broken["queue-files"] >= 1
    patch(store, "commitlog", 1000, b"?")
    assert check([], [[store]]).broken["log-damage"] >= 1


def test_who_goes_on_after_a_newer_epoch_began_is_found_by_the_stores(tmp_path: Path) -> None:
    """The stores must show it when a master goes on after a newer epoch began: the place of its
    acknowledgement in the log lies behind the start of that epoch."""
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "epochFileCheckpoint").write_text("2\n0\n1-0\n2-500\n")
    (store / "brokerIdentity").write_text("C#a#1")
    history = tmp_path / "h.jsonl"
    acks = [("old", 100, 0), ("new", 600, 1), ("old", 700, 2)]
    events: list[AnyEvent] = []
    for number, (acker, log_offset, offset) in enumerate(acks):
        events.append(Sending(at=number + 1, message=f"p/{number}", topic=TOPIC))
        events.append(Stored(at=10 + number, message=f"p/{number}", topic=TOPIC, broker="a",
                             offset=offset, log_offset=log_offset, acker=acker))  # fmt: skip
    write(history, events)
    findings = check([history], [[store]])
    told = [each for each in findings.violations if each.rule == "two-ackers"]
    assert [each.places for each in told] == [(events[4].place, events[5].place)]
    (store / "epochFileCheckpoint").write_text("3\n0\n1-0\n2-500\n")
    assert check([history], [[store]]).broken["store-files"] == 1


def test_the_last_assignment_counts_for_a_reader(tmp_path: Path) -> None:
    """After an assignment a reader may go back to the committed offset, but not below it."""
    told = {"group": PULLED, "topic": TOPIC, "broker": BROKER, "queue_id": 0}
    sent = [Sending(at=n + 1, message=f"p/{n}", topic=TOPIC) for n in range(6)]
    rows: list[AnyEvent] = [
        *sent, Delivered(at=10, message="p/5", offset=5, how="pull", **told),
        Assigned(at=11, offset=3, **told),
    ]  # fmt: skip
    again = Delivered(at=12, message="p/3", offset=3, how="pull", **told)
    assert "reader-order" not in found(tmp_path / "h.jsonl", [*rows, again]).broken
    again = Delivered(at=12, message="p/2", offset=2, how="pull", **told)
    assert found(tmp_path / "h.jsonl", [*rows, again]).broken["reader-order"] == 1
