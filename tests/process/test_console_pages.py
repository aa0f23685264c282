"""The console's pages about a real broker: they show what is there, and what they do is done.

Method: a broker process, a console in this process, and a browser without a screen. Changes that a
page made are looked up with the requests of the command line. Cannot show: how pages look, and what
scripts do (test_console_browser.py).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any
from xml.etree import ElementTree

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.console import Browser, served_console, text_of
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Message, Producer, PushConsumer
from rmq.client.blocking import admin, topics
from rmq.client.blocking.cluster import Cluster
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus
from rmq.codes import RequestCode
from rmq.console.pages import dead_letters, messages
from rmq.console.settings import ConsoleSettings
from rmq.format.fastjson import MessageQueue

SCRIPT = "<script>alert(1)</script>"
EVIL = f"\"'><img src=x onerror=alert(1)>{SCRIPT}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("console")) as process:
        yield process


@pytest.fixture(scope="module")
def console(broker: BrokerProcess) -> Iterator[Browser]:
    with served_console(ConsoleSettings(broker.namesrv)) as browser:
        yield browser


@pytest.fixture
def cluster(broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(broker.namesrv) as found:
        yield found


def send(broker: BrokerProcess, topic: str, *messages: Message) -> list[Any]:
    """Sends all messages to queue 0."""
    with Producer("P", namesrv_addr=broker.namesrv) as producer:
        return [producer.send(each, queue=MessageQueue(topic, "broker-a", 0)) for each in messages]


def shown(console: Browser, path: str, **parameters: str) -> str:
    answer = console.get(path, **parameters)
    assert answer.status_code == 200, text_of(answer.text)
    return text_of(answer.text)


def test_the_overview_has_the_cluster_at_a_glance(console: Browser, cluster: Cluster) -> None:
    make_topic(cluster, "glance", 1)
    admin.create_group(cluster, "slow", {})
    with Producer("P", namesrv_addr=cluster.name_servers[0]) as producer:
        for number in range(7):
            producer.send(Message("glance", b"%d" % number))
    admin.commit_offset(cluster, "slow", MessageQueue("glance", "broker-a", 0), 2)
    wait_until(lambda: "slow 5 0" in shown(console, "/"))
    text = shown(console, "/")
    assert "broker-a" in text
    assert "running master" in text
    assert re.search(r"Fullest disk \d+%", text)
    page = console.get("/").text
    assert 'id="live" hx-get="/" hx-trigger="every 2s" hx-select="#live"' in page
    assert 'id="live" hx-get' not in console.get("/", live="off").text


def test_brokers_and_what_they_say_of_themselves(console: Browser, broker: BrokerProcess) -> None:
    assert f"broker-a {broker.address} running" in shown(console, "/brokers")
    assert "No broker has a slave." in shown(console, "/brokers")
    text = shown(console, "/broker", name="broker-a")
    assert "commitLogMaxOffset" in text
    assert f"{broker.address} master" in text
    assert console.get("/broker", name="none").status_code == 404


def test_a_topic_is_created_changed_sent_to_and_deleted(console: Browser, cluster: Cluster) -> None:
    bad = console.ask("/topic/create", topic="a/b", queues="0", perm="rw")
    assert bad.status_code == 422
    assert "characters outside" in text_of(bad.text)
    assert "a whole number from 1 to 65535" in text_of(bad.text)
    fields = {"topic": "made", "queues": "2", "perm": "rw", "message_type": "FIFO"}
    asked = console.ask("/topic/create", **fields)
    assert "Topic made is created with 2 queues on each of broker-a." in text_of(asked.text)
    assert "made" not in cluster.topics()  # nobody said yes
    done = console.say_yes("/topic/create", asked)
    assert "was created on broker-a" in text_of(console.get(done.headers["location"]).text)
    assert console.say_yes("/topic/create", asked).status_code == 409  # not twice
    assert "exists" in text_of(console.ask("/topic/create", **fields).text)
    assert "made fifo 2 2 rw" in shown(console, "/topics", part="mad")
    rows = console.get("/topics", part="mad").text
    for path in ("/messages", "/topic/send", "/topic/update", "/topic/delete"):
        assert f'href="{path}?topic=made"' in rows
        assert "made" in shown(console, path, topic="made")

    update = console.get("/topic/update", topic="made").text
    assert re.search(r'name="read_queues"[^>]*value="2"', update)
    change = {"topic": "made", "read_queues": "1", "write_queues": "4", "perm": "rw"}
    refused = console.ask("/topic/update", **change)
    assert "queues that nobody reads" in text_of(refused.text)
    assert "Lower the queues that new messages go to as well, to 1" in text_of(refused.text)
    assert "4 queues" in console.change("/topic/update", **{**change, "read_queues": "4"})
    [(_, state)] = topics.states(cluster, "made")
    assert state is not None
    assert (state.read_queues, state.write_queues) == (4, 4)

    sent = console.change(
        "/topic/send", topic="made", body="hello\r\nworld", tag="paid", keys="k1 k2",
        properties="region=eu\r\n", delay="",
    )  # fmt: skip
    assert "Sent: SEND_OK" in sent
    assert "paid k1 k2 hello world" in shown(console, "/messages", topic="made")
    gone = console.change("/topic/delete", topic="made")
    assert "Topic made was deleted." in gone
    assert "made" not in cluster.topics()
    assert console.get("/topic", topic="made").status_code == 404


def test_topics_are_listed_by_kind(console: Browser, cluster: Cluster) -> None:
    admin.create_group(cluster, "kinds", {})
    make_topic(cluster, "%RETRY%kinds", 1)
    wait_until(lambda: "%RETRY%kinds" in shown(console, "/topics", kind="retry"))
    assert "%RETRY%kinds" not in shown(console, "/topics")
    assert "rmq_sys_wheel_timer" in shown(console, "/topics", kind="system")


def test_messages_are_found_by_place_time_tag_expression_key_and_id(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "find", 2)
    results = send(
        broker, "find",
        *(Message("find", f"body-{n}", tags="odd" if n % 2 else "even", keys=f"k{n}",
                  properties={"size": str(n)}) for n in range(30)),
    )  # fmt: skip

    def bodies(**asked: str) -> list[int]:
        text = shown(console, "/messages", topic="find", **asked)
        return [int(each) for each in re.findall(r"body-(\d+)", text)]

    assert bodies(count="3") == [29, 28, 27]
    assert bodies(queue="broker-a/0", **{"from": "5"}, count="3") == [5, 6, 7]
    assert bodies(tag="odd", count="3") == [29, 27, 25]
    assert bodies(key="k7") == [7]
    assert bodies(key="k7", **{"from": "first"}) == [7]
    assert bodies(**{"from": "-2"}) == [28, 29]
    assert bodies(**{"from": "-1h"}, count="2") == [0, 1]
    assert bodies(queue="broker-a/1") == []
    assert bodies(unique=results[4].message_id) == [4]
    assert bodies(sql="size > 27") == [29, 28]
    # Whatever the page shows in its fields counts.
    key, unique = {"key": "k7"}, {"unique": results[7].message_id}
    for asked in (key, unique, {**key, **unique}):
        for begin in ({}, {"from": "first"}):
            assert bodies(**asked, **begin, tag="odd", queue="broker-a/0") == [7], (asked, begin)
            assert bodies(**asked, **begin, tag="even") == [], (asked, begin)
            assert bodies(**asked, **begin, queue="broker-a/1") == [], (asked, begin)
    assert bodies(**key, unique=results[8].message_id) == []
    assert bodies(**unique, sql="size > 6", **{"from": "first"}) == [7]
    assert bodies(**unique, sql="size > 7", **{"from": "first"}) == []
    for asked in ({**key, "sql": "size > 6"}, {"tag": "odd", "sql": "size > 6"}):
        answer = console.get("/messages", topic="find", **asked)
        assert answer.status_code == 422
        assert 'id="fault-sql"' in answer.text
    for topic in ({"topic": "find"}, {"topic": ""}, {}):
        by_id = console.get("/messages", **topic, id=results[9].offset_message_id)
        assert by_id.status_code == 303, topic
        assert "body-9" in shown(console, by_id.headers["location"])
    for asked in ({"topic": ""}, {"key": "k7"}):
        answer = console.get("/messages", **asked)
        assert answer.status_code == 422
        assert "it is needed" in text_of(answer.text)
    page = console.get("/messages", topic="find", queue="broker-a/0", **{"from": "0"}, count="10")
    assert "from=10" in html.unescape(page.text)
    for asked in ({"tag": "a", "sql": "b > 1"}, {"sql": "size >"}, {"from": "soon"},
                  {"count": "0"}, {"queue": "broker-a/9"},
                  {"queue": "broker-a/9", "key": "k7"}):  # fmt: skip
        answer = console.get("/messages", topic="find", **asked)
        assert answer.status_code == 422, asked
    assert console.get("/messages", topic="nowhere").status_code == 404


def test_all_messages_of_many_queues_are_reached_page_by_page(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "wide", 8)
    with Producer("P", namesrv_addr=broker.namesrv) as producer:
        for number in range(80):
            queue = MessageQueue("wide", "broker-a", number % 8)
            tag = "odd" if number % 2 else "even"
            producer.send(Message("wide", f"body-{number}", tags=tag), queue=queue)

    def walked(**asked: str) -> list[list[int]]:
        answers = followed(console, console.get("/messages", topic="wide", **asked))
        texts = [text_of(each.text) for each in answers]
        assert not any("There may be more" in each for each in texts)
        return [[int(number) for number in re.findall(r"body-(\d+)", each)] for each in texts]

    for begin in ("first", "-1h"):
        parts = walked(**{"from": begin}, count="20")
        assert [len(each) for each in parts] == [20] * 4
        assert sorted(chain.from_iterable(parts)) == list(range(80))
    tagged = walked(**{"from": "first"}, count="15", tag="odd")
    assert sorted(chain.from_iterable(tagged)) == list(range(1, 80, 2))
    one = walked(**{"from": "first"}, count="3", queue="broker-a/5")
    assert one == [[5, 13, 21], [29, 37, 45], [53, 61, 69], [77]]
    for bad in ("x", '{"a":"b"}'):
        answer = console.get("/messages", topic="wide", after=bad, **{"from": "first"})
        assert answer.status_code == 422


def test_a_tail_shows_what_comes_and_nothing_twice(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "tail", 2)
    send(broker, "tail", Message("tail", b"before"))

    def following(answer: Any) -> str:
        found = re.search(r'<tr hx-get="([^"]+)" hx-trigger="every 1s"', answer.text)
        assert found is not None
        return html.unescape(found[1])

    answer = console.get("/messages/tail", topic="tail")
    assert "before" not in text_of(answer.text)
    send(broker, "tail", Message("tail", b"one", tags="a"), Message("tail", b"two", tags="b"))
    seen = []
    for _ in range(3):
        answer = console.client.get(following(answer))
        assert answer.status_code == 200
        seen += re.findall(r"<bdi>(one|two)</bdi>", answer.text)
    assert seen == ["one", "two"]
    chosen = console.get("/messages/tail", topic="tail", tag="b")
    send(broker, "tail", Message("tail", b"three", tags="a"), Message("tail", b"four", tags="b"))
    answer = console.client.get(following(chosen))
    assert "four" in answer.text
    assert "three" not in answer.text
    for bad in ("x", "[]", '{"a":"b"}', "{" * 100):
        assert console.get("/messages/tail", topic="tail", seen=bad).status_code == 400


def test_what_strangers_write_is_shown_and_never_run(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "evil", 1)
    [sent] = send(broker, "evil", Message(
        "evil", EVIL, tags=EVIL, keys="k", properties={"p": EVIL, SCRIPT: "x", "__rtl": "\u202ex"}
    ))  # fmt: skip
    place = {"topic": "evil", "broker": "broker-a", "queue": "0", "offset": "0"}
    for path, asked in [("/messages", {"topic": "evil"}), ("/message", place),
                        ("/message", {**place, "view": "hex"}),
                        ("/topics", {"part": EVIL, "kind": EVIL}), ("/groups", {"part": EVIL}),
                        ("/messages", {"topic": EVIL}), ("/config", {"part": EVIL}),
                        ("/login", {"next": EVIL}), ("/topic/send", {"topic": EVIL}),
                        ("/message", {"id": EVIL})]:  # fmt: skip
        page = console.get(path, **asked).text
        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert "onerror=alert(1)&gt;" in page or "onerror" not in page, path
    page = console.get("/message", **place)
    assert EVIL in html.unescape(page.text)
    assert "\u202e" not in page.text
    body = console.get("/message/body", **place)
    assert body.text == EVIL
    assert body.headers["content-type"] == "application/octet-stream"
    assert body.headers["content-disposition"].startswith("attachment")
    assert sent.message_id in page.text


def picture_of(console: Browser, message_id: str) -> ElementTree.Element | None:
    """The trace's picture from the message's page, parsed as XML: it must be well formed."""
    page = console.get("/message", id=message_id, topic="traced")
    assert page.status_code == 200, text_of(page.text)
    found = re.search(r'<svg class="trace".*?</svg>', page.text, re.DOTALL)
    return ElementTree.fromstring(found[0]) if found is not None else None


def test_a_trace_is_a_picture_with_words_and_a_table(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    """If a consumer fails once and then succeeds, the picture, its words and the table of the trace
    show that the message was sent and stored, and both tries."""
    make_topic(cluster, "traced", 1)
    tries: list[int] = []

    def take(messages: list[Any], context: Any) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = 1
        tries.append(messages[0].reconsume_times)
        is_first = len(tries) == 1
        status = ConsumeConcurrentlyStatus
        return status.RECONSUME_LATER if is_first else status.CONSUME_SUCCESS

    given = {"namesrv_addr": broker.namesrv, "enable_trace": True}
    with PushConsumer("tracing", take, **given) as consumer:
        consumer.subscribe("traced")
        with Producer("tracer", **given) as producer:
            sent = str(producer.send(Message("traced", b"x")).message_id)
        wait_until(lambda: len(tries) == 2)

    def kinds() -> list[str | None]:
        found = picture_of(console, sent)
        return [] if found is None else [each.get("class") for each in found.iter("rect")]

    wait_until(lambda: kinds() == ["sent", "stored", "failed", "consumed"])
    found = picture_of(console, sent)
    assert found is not None
    title, words = found.find("title"), found.find("desc")
    assert title is not None and words is not None and words.text is not None
    assert f"{title.get('id')} {words.get('id')}" == found.get("aria-labelledby")
    said = words.text.split("; ")
    # Either of the first two may come first: the sender's time is of its own clock and rounded, the
    # broker's time is of another clock.
    assert any(each.startswith("tracer sends: sent, after ") for each in said)
    assert any(each.startswith("stored on broker-a: stored, after ") for each in said)
    assert any(each.startswith("tracing consumes: not consumed, ") for each in said)
    assert said[-1].startswith("tracing consumes: consumed, ") and said[-1].endswith("retry 1")
    text = shown(console, "/message", id=sent, topic="traced")
    assert "What Time Group Topic Result Ms Client Note " in text
    assert re.search(r"Note .*\bsent \S+ \S+ tracer traced success", text)


def test_what_strangers_trace_is_drawn_and_never_run(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "traced", 1)
    [sent] = send(broker, "traced", Message("traced", b"x"))
    message_id = str(sent.message_id)
    evil = f"</title></svg>{EVIL}\u202e"

    def row(*fields: object) -> str:
        return "\x01".join(map(str, fields)) + "\x02"

    body = row("SubBefore", 1_763_726_400_000, "r", evil, "R1", message_id, 7, evil)
    body += row("SubAfter", "R2", message_id, 10**400, "false", evil, 4, 10**400, evil)
    body += row("EndTransaction", 0, "r", evil, "traced", message_id, evil, evil, evil, 0, evil,
                evil, "true")  # fmt: skip
    trace = Message("RMQ_SYS_TRACE_TOPIC", body.encode(), keys=message_id)
    with Producer("strangers", namesrv_addr=broker.namesrv) as producer:
        producer.send(trace)
    wait_until(lambda: picture_of(console, message_id) is not None)
    page = console.get("/message", id=message_id, topic="traced").text
    assert "<script>alert" not in page and "<img" not in page and "\u202e" not in page
    found = picture_of(console, message_id)
    assert found is not None
    assert {each.tag for each in found.iter()} == {"svg", "title", "desc", "line", "text", "rect"}
    assert [each.get("class") for each in found.iter("rect")].count("open") == 1


def test_a_message_with_who_has_passed_it(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    """The page of a message shows its body, and which groups have passed it."""
    make_topic(cluster, "passed", 1)
    send(broker, "passed", Message("passed", b'{"order":7}'), Message("passed", b"\xff\x00"))
    for group, offset in (("ahead", 2), ("behind", 0)):
        admin.create_group(cluster, group, {})
        admin.commit_offset(cluster, group, MessageQueue("passed", "broker-a", 0), offset)
    place = {"topic": "passed", "broker": "broker-a", "queue": "0", "offset": "0"}
    text = shown(console, "/message", **place)
    assert '{ "order": 7 }' in text
    assert "ahead passed behind not yet" in text
    assert "000000 7b 22 6f" in shown(console, "/message", **place, view="hex")
    assert "000000 ff 00" in shown(console, "/message", **{**place, "offset": "1"})
    for bad in ({"offset": "2"}, {"queue": "x"}, {"broker": "none"}, {"topic": "none"}):
        assert console.get("/message", **{**place, **bad}).status_code in (404, 502), bad


def test_a_group_is_created_moved_skipped_changed_and_deleted(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "moving", 1)
    send(broker, "moving", *(Message("moving", b"%d" % n) for n in range(10)))
    settings = {"consumeEnable": "yes", "consumeBroadcastEnable": "yes", "retryMaxTimes": "3",
                "retryQueueNums": "1", "consumeTimeoutMinute": "15"}  # fmt: skip
    assert "Group mover was created." in console.change("/group/create", group="mover", **settings)
    assert admin.groups(cluster)["mover"]["retryMaxTimes"] == 3
    queue = MessageQueue("moving", "broker-a", 0)
    admin.commit_offset(cluster, "mover", queue, 4)

    asked = console.ask("/group/move", group="mover", topic="moving", to="8")
    assert "broker-a 0 4 8 4 0" in text_of(asked.text)
    assert "Group mover skips 4 messages and gets 0 again." in text_of(asked.text)
    assert admin.committed_offset(cluster, "mover", queue) == 4
    console.say_yes("/group/move", asked)
    assert admin.committed_offset(cluster, "mover", queue) == 8
    console.change("/group/move", group="mover", topic="moving", to="-1h")
    assert admin.committed_offset(cluster, "mover", queue) == 0
    console.change("/group/skip", group="mover", topic="moving")
    assert admin.committed_offset(cluster, "mover", queue) == 10
    for bad in ({"to": "1:2"}, {"to": ""}, {"to": "5", "queue": "9"}, {"to": "5", "topic": "no"}):
        fields = {"group": "mover", "topic": "moving", **bad}
        assert console.ask("/group/move", **fields).status_code == 422, bad
    assert "moving broker-a 0 10 10 0" in shown(console, "/group", group="mover")

    changed = console.ask("/group/update", group="mover", **{**settings, "retryMaxTimes": "5"})
    assert "retryMaxTimes 3 5" in text_of(changed.text)
    console.say_yes("/group/update", changed)
    assert admin.groups(cluster)["mover"]["retryMaxTimes"] == 5
    assert "Group mover was deleted." in console.change("/group/delete", group="mover", clean="yes")
    assert "mover" not in admin.groups(cluster)
    assert console.get("/group", group="mover").status_code == 404


def test_a_groups_members_and_what_one_says_of_itself(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    make_topic(cluster, "live", 1)
    got: list[bytes] = []

    def take(messages: list[Any], context: Any) -> None:
        got.extend(each.body for each in messages)

    with PushConsumer("living", take, namesrv_addr=broker.namesrv) as consumer:
        consumer.subscribe("live", "a || b")
        wait_until(lambda: "a || b" in text_of(console.get("/group", group="living").text))
        page = console.get("/group", group="living")
        assert "live TAG a || b" in text_of(page.text)
        link = re.search(r'href="(/client\?[^"]+)"', page.text)
        assert link is not None
        info = shown(console, html.unescape(link[1]))
        assert "live" in info
        assert "PROP_CONSUMER_START_TIMESTAMP" in info
        refused = console.ask("/group/delete", group="living", clean="yes")
        assert "1 member online" in text_of(refused.text)
        wait_until(lambda: re.search(r"living \d+ 1 ", shown(console, "/groups")))
        [sent] = send(broker, "live", Message("live", b"x", tags="c"))
        said = console.change("/message/consume", id=sent.offset_message_id, group="living")
        assert "CR_SUCCESS" in said
        assert got == [b"x"]
    assert console.get("/client", group="living", client="nobody").status_code in (404, 502)


def test_retries_and_dead_letters_of_a_group_are_told_apart(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    """As `rmq group list` tells them: what has come again, what waits for its delay, what was given
    up."""
    make_topic(cluster, "failing", 1)
    admin.create_group(cluster, "failing", {})
    levels = (1, 1, 1, 17, 17, -1)  # -1: a dead letter
    sent = send(broker, "failing", *(Message("failing", b"x") for _ in levels))
    for each, level in zip(sent, levels, strict=True):
        fields = {
            "offset": int(each.offset_message_id[-16:], 16), "group": "failing",
            "delayLevel": level, "originTopic": "failing", "maxReconsumeTimes": 16,
        }  # fmt: skip
        cluster.call(broker.address, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    admin.commit_offset(cluster, "failing", MessageQueue("failing", "broker-a", 0), len(levels))
    row = re.compile(r"\bfailing 0 0 2 3 2 1\b")
    wait_until(lambda: row.search(shown(console, "/groups")))
    text = "Lag 0 Retries 3 Delayed retries 2 Dead letters 1 "
    wait_until(lambda: text in shown(console, "/group", group="failing"))


def test_dead_letters_are_searched_sent_again_and_exported(
    console: Browser, cluster: Cluster, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(cluster, "deadly", 1)
    send(broker, "deadly", *(Message("deadly", f"dead-{n}", keys=f"d{n}") for n in range(3)))

    def give_up(messages: list[Any], context: Any) -> Any:
        context.delay_level_when_next_consume = -1
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    with PushConsumer("deaf", give_up, namesrv_addr=broker.namesrv,
                      consume_from_where="CONSUME_FROM_FIRST_OFFSET") as consumer:  # fmt: skip
        consumer.subscribe("deadly")
        wait_until(lambda: "deaf 3 3" in shown(console, "/dead-letters"))
    text = shown(console, "/dead-letters/group", group="deaf")
    assert {f"dead-{n}" for n in range(3)} == set(re.findall(r"dead-\d", text))
    found = shown(console, "/dead-letters/group", group="deaf", key="d1")
    assert set(re.findall(r"dead-\d", found)) == {"dead-1"}
    for wrong in ("x", "@-2h:@-1h"):
        answer = console.get("/dead-letters/group", group="deaf", **{"from": wrong})
        assert answer.status_code == 422
    lines = console.get("/dead-letters/export", group="deaf").text.splitlines()
    assert sorted(json.loads(each)["body"] for each in lines) == [f"dead-{n}" for n in range(3)]
    assert {json.loads(each)["origin_topic"] for each in lines} == {"deadly"}
    # However many dead letters there are, only one part of them is in memory at a time.
    monkeypatch.setattr(dead_letters, "PART_BYTES", 1)
    with console.client.stream("GET", "/dead-letters/export", params={"group": "deaf"}) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        assert sorted(answer.iter_lines()) == sorted(lines)

    first = json.loads(lines[0])["id"]
    link = f"/dead-letters/resend?group=deaf&amp;id={first}"
    assert link in console.get("/dead-letters/group", group="deaf").text
    assert "1 chosen one" in shown(console, "/dead-letters/resend", group="deaf", id=first)
    make_topic(cluster, "repaired", 1)
    needs = console.ask("/dead-letters/resend", group="deaf", id=[first], to="topic")
    assert needs.status_code == 422
    one = console.change(
        "/dead-letters/resend", group="deaf", id=[first], to="topic", topic="repaired"
    )
    assert "1 dead letter of deaf went out again." in one
    assert "dead-" in shown(console, "/messages", topic="repaired")
    assert "deaf 3 3" in shown(console, "/dead-letters")
    monkeypatch.setattr(dead_letters, "RESEND_MAX", 2)
    asked = console.ask("/dead-letters/resend", group="deaf", to="origin")
    assert "2 dead letters of deaf go to where each came from" in text_of(asked.text)
    assert "1 is left: as many as 2 go out at a time." in text_of(asked.text)
    done = console.change("/dead-letters/resend", group="deaf", to="origin")
    assert "2 dead letters of deaf went out again. 1 is left: send all again to go on." in done
    assert "deaf 3 1" in shown(console, "/dead-letters")
    asked = console.ask("/dead-letters/resend", group="deaf", to="origin")
    assert "left" not in text_of(asked.text)
    done = console.change("/dead-letters/resend", group="deaf", to="origin")
    assert "1 dead letter of deaf went out again." in done and "left" not in done
    assert "deaf 3 0" in shown(console, "/dead-letters")
    again = console.ask("/dead-letters/resend", group="deaf", to="origin")
    assert "were sent again already" in text_of(again.text)
    gone = console.ask("/dead-letters/resend", group="deaf", id=["nothing"], to="group")
    assert "no dead letter has the id nothing" in text_of(gone.text)


def test_what_helps_is_said_by_what_the_page_has(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    """No browser has the command line's options."""
    make_topic(cluster, "%DLQ%stray", 1)
    send(broker, "%DLQ%stray", Message("%DLQ%stray", b"x"))
    refused = console.ask("/dead-letters/resend", group="stray", to="origin")
    assert refused.status_code == 422
    text = text_of(refused.text)
    assert "its topic of origin is not known: choose the topic below" in text
    assert "--" not in text


def followed(console: Browser, answer: Any) -> Iterator[Any]:
    """The page, and those that its link to what follows leads to."""
    while True:
        assert answer.status_code == 200
        yield answer
        onwards = re.search(r'<a rel="next" href="([^"]+)"', answer.text)
        if onwards is None:
            return
        answer = console.client.get(html.unescape(onwards[1]))


def test_a_search_holds_no_thread_for_longer_than_its_time(
    console: Browser, cluster: Cluster, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages have not what is looked for: the page leads on to where it stopped."""
    monkeypatch.setattr(messages, "LOOK_S", 0.0)
    make_topic(cluster, "%DLQ%long", 1)
    send(broker, "%DLQ%long", *(Message("%DLQ%long", f"dead-{n}", keys=f"k{n}") for n in range(99)))
    last = {"group": "long", "key": "k98"}
    for path, asked in (
        ("/dead-letters/group", last),
        ("/messages", {"topic": "%DLQ%long", "key": "k98", "from": "first"}),
    ):
        parts = [
            re.findall(r"dead-\d+", text_of(each.text))
            for each in followed(console, console.get(path, **asked))
        ]
        assert parts[-1] == ["dead-98"], path
        assert len(parts) > 2 and not any(parts[:-1]), path
    in_vain = list(followed(console, console.get("/dead-letters/group", group="long", key="x")))
    assert "None so far" in text_of(in_vain[0].text)
    assert "None; those that were sent again" in text_of(in_vain[-1].text)
    first = followed(console, console.get("/dead-letters/group", group="long", count="40"))
    found = [re.findall(r"dead-(\d+)", text_of(each.text)) for each in first]
    assert [*chain.from_iterable(found)] == list(map(str, range(99)))
    [line] = console.get("/dead-letters/export", **last).text.splitlines()
    assert json.loads(line)["body"] == "dead-98"
    assert len(console.get("/dead-letters/export", group="long").text.splitlines()) == 99


def test_what_waits_for_a_delay_or_a_moment(
    console: Browser, cluster: Cluster, broker: BrokerProcess
) -> None:
    """The page of what comes later counts delayed and timed messages and open transactions."""
    make_topic(cluster, "waiting", 1)
    send(broker, "waiting", Message("waiting", b"x", properties={"DELAY": "18"}),
         Message("waiting", b"y", properties={"TIMER_DELAY_MS": "3600000"}))  # fmt: skip
    wait_until(lambda: "18 2h 1 0 1" in shown(console, "/later"))
    wait_until(lambda: "Timed messages 1" in shown(console, "/later"))
    wait_until(lambda: " y" in shown(console, "/messages", topic="rmq_sys_wheel_timer"))
    assert "Open transactions 0" in shown(console, "/later")
    [sent] = send(broker, "waiting", Message("waiting", b"z"))
    refused = console.ask("/later/check", id=sent.offset_message_id)
    assert "is no half message" in text_of(refused.text)


def test_settings_against_defaults_and_changed(console: Browser) -> None:
    """The page of settings shows values beside defaults and changes a value, or says why not."""
    assert "syncFlushTimeout 5000 60000" in shown(console, "/config")
    assert "fileReservedTime" not in shown(console, "/config")
    assert "fileReservedTime 72 72" in shown(console, "/config", show="all", part="fileres")
    asked = console.ask("/config/set", servers="brokers", key="fileReservedTime", value="48")
    assert "broker-a fileReservedTime 72 48" in text_of(asked.text)
    assert "until the process ends" in text_of(asked.text)
    console.say_yes("/config/set", asked)
    assert "fileReservedTime 72 48" in shown(console, "/config")
    for key, value in (("brokerName", "x"), ("fileReservedTime", "soon")):
        asked = console.ask("/config/set", servers="brokers", key=key, value=value)
        refused = console.say_yes("/config/set", asked)
        assert refused.status_code == 502, key
        assert key in text_of(refused.text)
    assert console.ask("/config/set", servers="brokers", key="a b", value="1").status_code == 422
    assert "No setting is called" in text_of(
        console.ask("/config/set", servers="brokers", key="nothing", value="1").text
    )
    names = console.get("/config", servers="names", show="all").text
    assert "Default" in text_of(names)
    assert 'href="/config/set?servers=names"' in names
    assert "Setting" in shown(console, "/config/set", servers="names")
    asked = console.ask("/config/set", servers="names", key="needWaitForService", value="true")
    assert "Name servers keep the change." in text_of(asked.text)


def test_accounts_that_are_not_in_use_are_said_to_be_so(console: Browser) -> None:
    assert "ask nobody for an account" in shown(console, "/accounts")
    wrong = console.log_in("anyone", "anything")
    assert wrong.status_code == 403
    assert "nothing to log in to" in text_of(wrong.text)
