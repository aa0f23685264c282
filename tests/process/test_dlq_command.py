"""Goal: dead letters are listed, and sent again once and whole: to the group alone, to the topic
that they came from, or to another topic.

Method: a group that gives messages up, on a real broker; the commands run in this process.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq as run
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin, Message, PopConsumer, Producer, PushConsumer
from rmq.client.blocking import admin as admin_calls
from rmq.client.blocking import tail
from rmq.client.blocking.cluster import Cluster
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus
from rmq.errors import MessageError, RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.operations import dead_letters
from rmq.operations.dead_letters import Chosen, Sending, check_sending, places_of

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("dlq")) as process:
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    return broker.namesrv


def done(*words: str, text: str = "") -> str:
    result = run("dlq", *words, text=text)
    assert result.returncode == 0, result.stderr
    return result.stdout


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class Group:
    """A group that has given up three messages at the first try."""

    def __init__(self, namesrv: str, name: str) -> None:
        self.namesrv, self.name, self.topic = namesrv, name, f"of-{name}"
        with Admin(namesrv_addr=namesrv) as admin:
            make_topic(admin, self.topic, 1)
        with Producer("P", namesrv_addr=namesrv) as producer:
            for number in range(3):
                message = Message(self.topic, b"%d" % number, tags="t", keys=f"k{number}",
                                  properties={"region": "eu"})  # fmt: skip
                producer.send(message, queue=MessageQueue(self.topic, "broker-a", 0))

        def give_up(messages: list[Any], context: Any) -> Any:
            context.delay_level_when_next_consume = -1
            return LATER

        with PushConsumer(name, give_up, namesrv_addr=namesrv,
                          consume_from_where="CONSUME_FROM_FIRST_OFFSET") as consumer:  # fmt: skip
            consumer.subscribe(self.topic)
            wait_until(lambda: self.counts() == (3, 3))

    def counts(self) -> tuple[int, int] | None:
        for row in json.loads(done("list", "--json")):
            if row["group"] == self.name:
                return row["dead_letters"], row["not_sent_again"]
        return None

    def gets(self, count: int) -> list[tuple[str, str, str | None, str | None]]:
        """(topic, body, keys, region) of the next messages that the group gets."""
        got: list[tuple[str, str, str | None, str | None]] = []

        def take(messages: list[Any], context: Any) -> None:
            got.extend((each.topic, each.body.decode(), each.keys, each.get_property("region"))
                       for each in messages)  # fmt: skip

        with PushConsumer(self.name, take, namesrv_addr=self.namesrv) as consumer:
            consumer.subscribe(self.topic)
            wait_until(lambda: len(got) >= count)
        return sorted(got)


def test_they_are_seen_and_sent_again_to_the_group_alone_once(namesrv: str) -> None:
    """Dead letters are shown. A resend sends each of them once, and only to its own group."""
    group = Group(namesrv, "alone")
    rows = lines(done("show", "alone", "--json"))
    assert sorted((row["origin_topic"], row["body"], row["keys"]) for row in rows) == [
        ("of-alone", "0", "k0"), ("of-alone", "1", "k1"), ("of-alone", "2", "k2")]  # fmt: skip
    assert "of-alone" in done("show", "alone", "--key", "k1") and "k0" not in (
        done("show", "alone", "--key", "k1"))  # fmt: skip
    assert done("resend", "alone", "--dry-run") == "3 dead letters to group alone\n"
    assert run("dlq", "resend", "alone", text="n\n").returncode == 1
    assert group.counts() == (3, 3)
    assert done("resend", "alone", "--count", "2", "--yes") == "2 dead letters to group alone\n"
    assert group.counts() == (3, 1)
    assert "1 dead letter to group alone" in done("resend", "alone", text="y\n")
    assert done("resend", "alone") == "0 dead letters to group alone\n"
    assert group.counts() == (3, 0)
    assert group.gets(3) == [("of-alone", str(at), f"k{at}", "eu") for at in range(3)]


def test_the_chosen_ones_go_where_they_came_from_or_elsewhere(namesrv: str, tmp_path: Path) -> None:
    group = Group(namesrv, "elsewhere")
    with Admin(namesrv_addr=namesrv) as admin:
        make_topic(admin, "repaired", 1)
    rows = lines(done("show", "elsewhere", "--json"))
    done("resend", "elsewhere", "--id", rows[0]["id"], "--to", "repaired", "--yes")
    done("resend", "elsewhere", "--from", "1", "--to", "origin", "--yes")
    assert group.counts() == (3, 3), "only what goes on from the last time is counted"
    found = run("consume", "repaired", "--json").stdout
    assert [(row["body"], row["tag"]) for row in map(json.loads, found.splitlines())] == [
        (rows[0]["body"], "t")]  # fmt: skip
    assert [each[1] for each in group.gets(2)] == sorted(row["body"] for row in rows[1:])
    path = tmp_path / "dead.jsonl"
    assert "3 messages of %DLQ%elsewhere" in done("export", "elsewhere", str(path))
    assert [json.loads(line)["body"] for line in path.read_text().splitlines()] == [
        row["body"] for row in rows]  # fmt: skip


def checked(group: str) -> tuple[int, str]:
    result = run("check", "group", group)
    return result.returncode, result.stdout


def test_monitoring_is_content_with_letters_that_were_sent_again(namesrv: str) -> None:
    group = Group(namesrv, "watched")
    code, text = checked("watched")
    assert code == 1 and "3 dead letters not sent again: use `rmq dlq resend watched`" in text
    done("resend", "watched", "--count", "2", "--yes")
    code, text = checked("watched")
    assert code == 1 and "1 dead letter not sent again" in text
    assert "dead_letters=3 not_sent_again=1;1 " in text
    done("resend", "watched", "--yes")
    code, text = checked("watched")
    assert code == 0 and "dead_letters=3 not_sent_again=0;1 " in text
    assert group.counts() == (3, 0)


def test_letters_that_nobody_needs_are_put_aside(namesrv: str) -> None:
    group = Group(namesrv, "aside")
    chosen = json.loads(done("show", "aside", "--json").splitlines()[0])["id"]
    done("resend", "aside", "--id", chosen, "--yes")
    code, text = checked("aside")
    assert code == 1 and "`rmq dlq dismiss aside`" in text
    assert done("dismiss", "aside", "--dry-run") == "3 dead letters of group aside\n"
    assert run("dlq", "dismiss", "aside", text="n\n").returncode == 1
    assert group.counts() == (3, 3)
    assert done("dismiss", "aside", "--yes") == "3 dead letters of group aside\n"
    assert group.counts() == (3, 0) and checked("aside")[0] == 0
    assert done("resend", "aside") == "0 dead letters to group aside\n"
    assert len(lines(done("show", "aside", "--json"))) == 3
    result = run("dlq", "dismiss", "nobody", "--yes")
    assert result.returncode == 1 and "`rmq dlq list` lists groups that have some" in result.stderr


def test_who_may_not_see_what_was_sent_again_is_told_so(
    namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an account may not see which letters were sent again, `rmq check group` counts all of them
    and says so."""
    Group(namesrv, "hidden")
    done("resend", "hidden", "--yes")

    def refused(*_: object) -> int:
        raise RemoteError(16, "User:watch no matched policies.")

    monkeypatch.setattr(dead_letters, "sent_before", refused)
    code, text = checked("hidden")
    assert code == 1 and "3 dead letters in all (to see which were sent again, this" in text


def test_of_a_group_that_consumes_in_order_no_second_letter_is_made(namesrv: str) -> None:
    """While a group holds locks, a message that comes to its retry topic becomes a dead letter at
    once. `dlq resend` must notice that with the first letter and send no other."""
    group = Group(namesrv, "ordered")
    with PushConsumer(
        "ordered", lambda *_: None, namesrv_addr=namesrv, consume_orderly=True
    ) as consumer:
        consumer.subscribe(group.topic)
        wait_until(lambda: any(each.holds_lock() for each in consumer._client.process_queues()))
        result = run("dlq", "resend", "ordered", "--yes")
        assert result.returncode == 1 and "consumes in order" in result.stderr
        assert group.counts() == (4, 4)


def test_what_was_popped_is_not_sent_where_its_group_would_not_get_it(namesrv: str) -> None:
    """Group shop has popped topic orders. A client that sends to %RETRY%shop_orders would make a
    group shop_orders, and that group would get the letter. `dlq resend` refuses."""
    with Admin(namesrv_addr=namesrv) as admin, Producer("P", namesrv_addr=namesrv) as producer:
        for topic in ("%DLQ%shop", "%RETRY%shop_orders", "orders"):
            make_topic(admin, topic, 1)
        came = {"RETRY_TOPIC": "%RETRY%shop_orders"}
        producer.send(Message("%DLQ%shop", b"1", properties=came))
        refusal = refused_resend("came by %RETRY%shop_orders, and shop gets only what brokers send")
        assert "send it to orders" in refusal and "--to origin" in refusal
        with Cluster(namesrv) as cluster:
            assert "shop_orders" not in admin_calls.groups(cluster)
            admin_calls.create_group(cluster, "shop_orders", {})
        refused_resend("came by %RETRY%shop_orders, which now belongs to group shop_orders")
        assert run("consume", "%RETRY%shop_orders", "--body").stdout == ""
        consumer = PopConsumer("shop", namesrv_addr=namesrv)
        with consumer:
            consumer.subscribe("orders")
            done("resend", "shop", "--to", "origin", "--yes")
            wait_until(lambda: [each.body for each in consumer.poll(1000)] == [b"1"])
        came = {"RETRY_TOPIC": "%RETRY%shop+orders"}
        producer.send(Message("%DLQ%shop", b"2", properties=came))
        refused_resend("came by %RETRY%shop+orders, to which only brokers may send")


def test_what_is_sent_instead_of_what_somebody_else_sent_is_looked_at_too(namesrv: str) -> None:
    """A resend of one letter has checked the first of two. Meanwhile another resend sends that one,
    and the second letter is next: it must be checked before it is sent, and refused."""
    with Admin(namesrv_addr=namesrv) as admin, Producer("P", namesrv_addr=namesrv) as producer:
        for topic in ("%DLQ%next", "%RETRY%next", "%RETRY%next_orders", "orders"):
            make_topic(admin, topic, 1)
        for came in ("orders", "%RETRY%next_orders"):
            producer.send(Message("%DLQ%next", b"1", properties={"RETRY_TOPIC": came}))
        with Cluster(namesrv) as cluster:
            places, chosen = places_of(cluster, "%DLQ%next", None), Chosen(count=1)
            assert check_sending(cluster, places, chosen, "next", None) == 1
            done("resend", "next", "--count", "1", "--yes")
            sending = Sending(cluster, {"namesrv_addr": namesrv}, "next", None, notes=True)
            with pytest.raises(MessageError, match="came by %RETRY%next_orders"):
                sending.run(places, chosen)
            assert sending.count == 0
    assert run("consume", "%RETRY%next_orders", "--body").stdout == ""


def refused_resend(text: str) -> str:
    result = run("dlq", "resend", "shop", "--yes")
    assert result.returncode == 1 and text in result.stderr, result
    return result.stderr


def test_a_topic_that_is_not_there_is_not_made(namesrv: str) -> None:
    group = Group(namesrv, "typo")
    result = run("dlq", "resend", "typo", "--to", "misspelt", "--yes")
    assert result.returncode == 1 and "code 17" in result.stderr
    for words in (("--id", "7F" * 16), ("--key", "nobody")):
        result = run("dlq", "resend", "typo", *words, "--yes")
        assert result.returncode == 1 and "no dead letter has the" in result.stderr
    assert group.counts() == (3, 3)


def test_a_group_without_them_is_named(tmp_path: Path) -> None:
    file = tmp_path / "letters.jsonl"
    for words in (("show", "nobody"), ("resend", "nobody"), ("export", "nobody", str(file))):
        result = run("dlq", *words)
        assert result.returncode == 1 and "group nobody has no dead letters" in result.stderr
        assert "rmq dlq list" in result.stderr and "rmq topic" not in result.stderr
    assert not file.exists()


def test_many_are_shown_and_sent_without_all_of_them_in_memory(
    namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the letters that are in memory at the same time, and the requests for offsets."""
    count = 1200  # more than a page
    topic = "%DLQ%many"
    with Admin(namesrv_addr=namesrv) as admin, Producer("P", namesrv_addr=namesrv) as producer:
        make_topic(admin, topic, 2)
        make_topic(admin, "swept", 1)
        for queue_id in (0, 1):
            queue = MessageQueue(topic, "broker-a", queue_id)
            producer.send_batch(
                [Message(topic, b"%d" % at, properties={"RETRY_TOPIC": "of-many"})
                 for at in range(count // 2)], queue=queue,
            )  # fmt: skip
    held: set[int] = set()
    most = 0
    received = tail.received

    def counted(*given: Any) -> Any:
        nonlocal most
        made = received(*given)
        held.add(id(made))
        most = max(most, len(held))
        weakref.finalize(made, held.discard, id(made))
        return made

    asked: list[int] = []
    offset = admin_calls.committed_offset
    monkeypatch.setattr(tail, "received", counted)
    monkeypatch.setattr(
        admin_calls, "committed_offset", lambda *given: asked.append(1) or offset(*given)
    )
    assert len(done("show", "many").splitlines()) == count + 1
    assert "1200 dead letters to swept" in done("resend", "many", "--to", "swept", "--yes")
    assert most < 200, "a batch of each pull at the most, and a page of rows that are texts"
    assert len(asked) <= 2 * (1 + 2)  # for each queue: to show, to count, to send
    assert len(run("consume", "swept", "--body").stdout.splitlines()) == count
    assert done("resend", "many") == "0 dead letters to group many\n"


def test_letters_keep_their_sharding_key_and_when_they_were_to_come(
    namesrv: str, tmp_path: Path
) -> None:
    topic, due_ms = "%DLQ%timed", 1763726400123
    with Admin(namesrv_addr=namesrv) as admin, Producer("P", namesrv_addr=namesrv) as producer:
        make_topic(admin, topic, 1)
        make_topic(admin, "resharded", 4)
        message = Message(topic, b"x", sharding_key="eu", properties={"TIMER_OUT_MS": str(due_ms)})
        producer.send(message)
        producer.send(Message(topic, b"y"))
    path = tmp_path / "letters.jsonl"
    done("export", "timed", str(path))
    first, second = lines(path.read_text())
    assert (first["sharding_key"], first["deliver_at"], first["deliver_at_ms"]) == (
        "eu", "2025-11-21T12:00:00.123Z", due_ms)  # fmt: skip
    assert not {"sharding_key", "deliver_at", "deliver_at_ms"} & second.keys()
    shown = lines(done("show", "timed", "-o", "json"))
    assert [row.pop("origin_topic") for row in shown] == [None, None]
    assert shown == [first, second]
    text = path.read_text().splitlines()[0] + "\n"
    sent = run("send", "resharded", "--json-lines", "--json", text=text * 3)
    assert len({row["queue"] for row in lines(sent.stdout)}) == 1, sent.stderr
