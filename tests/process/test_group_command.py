"""`rmq group` as an operator uses it: it shows where a group would go on, asks, and then moves it.

There is one broker process; the commands run in this process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import command_line
from support.broker_process import BrokerProcess, broker_process
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin, Message, Producer, PushConsumer
from rmq.client.blocking import admin as calls
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format.fastjson import MessageQueue


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("group-command")) as process:
        yield process


def run(namesrv: str, *words: str, answer: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and error."""
    found = command_line.rmq("group", *words, "-n", namesrv, text=answer)
    return found.returncode, found.stdout, found.stderr


class Group:
    """A group whose topic has ten messages in each of two queues. It has committed offset 4 in one
    queue and nothing in the other."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.namesrv, self.name, self.topic = broker.namesrv, name, f"of-{name}"
        self.queues = [MessageQueue(self.topic, "broker-a", queue) for queue in (0, 1)]
        with (
            Admin(namesrv_addr=self.namesrv) as admin,
            Producer("P", namesrv_addr=self.namesrv) as producer,
        ):
            make_topic(admin, self.topic, 2)
            admin.create_group(name)
            for queue in self.queues:
                for number in range(10):
                    producer.send(Message(self.topic, b"%d" % number), queue=queue)
            admin.commit_offset(name, self.queues[0], 4)

    def run(self, *words: str, answer: str = "") -> tuple[int, str, str]:
        return run(self.namesrv, *words, answer=answer)

    def reset(self, *words: str) -> dict[int, int | None]:
        code, shown, said = self.run("reset", self.name, self.topic, *words, "--yes", "--json")
        assert code == 0, said
        assert {row["queue"]: row["to"] for row in json.loads(shown)}.items() <= (
            self.committed().items()
        )
        return self.committed()

    def committed(self, name: str = "") -> dict[int, int | None]:
        with Admin(namesrv_addr=self.namesrv) as admin:
            return {each.queue_id: admin.committed_offset(name or self.name, each)
                    for each in self.queues}  # fmt: skip


def test_the_places_it_can_go_to(broker: BrokerProcess) -> None:
    """`rmq group reset --to` takes an offset, a number of messages from the end, a time, first or
    last."""
    group = Group(broker, "places")
    assert group.reset("--to", "7") == {0: 7, 1: 7}
    assert group.reset("--to", "-3", "--queue", "1") == {0: 7, 1: 7}
    assert group.reset("--to", "-4", "--queue", "1") == {0: 7, 1: 6}
    assert group.reset("--to", "99") == {0: 10, 1: 10}
    assert group.reset("--to", "first") == {0: 0, 1: 0}
    assert group.reset("--to", "last") == {0: 10, 1: 10}
    assert group.reset("--to", "-1h") == {0: 0, 1: 0}
    assert group.reset("--to", "now") == {0: 10, 1: 10}


def test_it_is_shown_and_asked_about(broker: BrokerProcess) -> None:
    group = Group(broker, "asked")
    before = group.committed()
    code, shown, _ = group.run("skip", "asked", "of-asked", answer="n\n")
    assert code == 1 and "Group asked skips 6 messages and gets 0 again. Go on?" in shown
    assert [line.split() for line in shown.splitlines()[1:3]] == [
        ["broker-a", "0", "4", "10", "6", "0"], ["broker-a", "1", "-", "10", "0", "0"],
    ]  # fmt: skip
    assert group.run("reset", "asked", "of-asked", "--to", "1", "--dry-run")[0] == 0
    assert group.committed() == before
    code, shown, _ = group.run("reset", "asked", "of-asked", "--to", "1", answer="y\n")
    assert code == 0 and "gets 3 again" in shown
    assert group.committed() == {0: 1, 1: 1}


def test_members_that_are_online_go_there(broker: BrokerProcess) -> None:
    """A reset also moves members that are online. A group with members is not deleted."""
    group = Group(broker, "online")
    group.reset("--to", "last")
    got: list[bytes] = []

    def listener(messages: list[Message], context: object) -> None:
        got.extend(message.body for message in messages)

    with PushConsumer("online", listener, namesrv_addr=group.namesrv) as consumer:
        consumer.subscribe(group.topic)
        wait_until(lambda: len(consumer._client.process_queues()) >= 2)
        group.run("reset", "online", group.topic, "--to", "-2", "--yes")
        wait_until(lambda: sorted(got) == [b"8", b"8", b"9", b"9"])
        code, _, said = group.run("delete", "online", "--yes")
        assert code == 1 and "has 1 members online" in said


def test_where_brokers_reset_no_single_queue_members_are_to_be_stopped(
    broker: BrokerProcess,
) -> None:
    """Such brokers leave a reset to the members, which would read only its time and move the group
    to the end of every queue. So the command refuses while members are online."""
    group, other = Group(broker, "old"), Group(broker, "bystander")
    with Connection(broker.address) as connection:

        def set_reset(at_server: str) -> None:
            body = f"useServerSideResetOffset={at_server}".encode()
            connection.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)

        set_reset("false")
        try:
            assert group.reset("--to", "3") == {0: 3, 1: 3}
            with PushConsumer("old", lambda *_: None, namesrv_addr=group.namesrv) as consumer:
                consumer.subscribe(other.topic)
                wait_until(lambda: group.run("describe", "old")[1].count("member ") == 1)
                words = ("reset", "old", group.topic, "--to", "1", "--yes")
                code, _, said = group.run(*words)
            assert code == 1 and "members of group old are online" in said
            assert group.committed() == {0: 3, 1: 3}
        finally:
            set_reset("true")


def test_another_group_goes_on_where_it_is(broker: BrokerProcess) -> None:
    """`rmq group clone` gives another group the offsets of this one, and fails if there are
    none."""
    group, third = Group(broker, "one"), Group(broker, "third")
    with Admin(namesrv_addr=group.namesrv) as admin:
        admin.create_group("other")
    assert group.run("clone", "one", "other", group.topic, "--yes")[0] == 0
    assert group.committed("other") == {0: 4, 1: None}
    code, _, said = group.run("clone", "other", "one", third.topic, "--yes")
    assert code == 1 and "has no committed offset in topic of-third" in said


def config(namesrv: str, name: str) -> dict[str, Any] | None:
    with Cluster(namesrv) as cluster:
        return calls.groups(cluster).get(name)


def test_a_clone_that_is_not_there_is_made_like_it(broker: BrokerProcess) -> None:
    """`rmq group clone` makes the other group, with the same settings, if there is none."""
    group = Group(broker, "model")
    assert group.run("update", "model", "--max-retries", "3", "--no-broadcast")[0] == 0
    words = ("clone", "model", "image", group.topic)
    code, shown, said = group.run(*words, "--dry-run")
    assert code == 0 and "there is no group image: it is created with the settings of model" in said
    assert group.run(*words, answer="n\n")[0] == 1
    assert config(group.namesrv, "image") is None
    code, shown, said = group.run(*words, "--yes", "--json")
    assert code == 0 and len(json.loads(shown)) == 1, said
    assert group.committed("image") == {0: 4, 1: None}
    like = config(group.namesrv, "model")
    assert like is not None and like["retryMaxTimes"] == 3
    assert config(group.namesrv, "image") == {**like, "groupName": "image"}
    assert "it is created" not in group.run(*words, "--yes")[2]
    code, _, said = group.run("clone", "model", "wrong", "of-nothing", "--yes")
    assert code == 1 and config(group.namesrv, "wrong") is None


def test_a_group_is_made_with_what_is_said_and_changed_alone_in_that(broker: BrokerProcess) -> None:
    """A group is created with the settings that options name, and an update changes only those
    named."""
    where = broker.namesrv
    code, shown, said = run(
        where, "create", "fresh", "--max-retries", "5", "--retry-queues", "2", "--order", "--json"
    )
    assert (code, said) == (0, "")
    made = {"group": "fresh", "broker": "broker-a", "done": "created", "consume_enable": True,
            "order": True, "broadcast": True, "retry_queues": 2, "max_retries": 5}  # fmt: skip
    assert json.loads(shown) == [made]
    code, _, said = run(where, "create", "fresh", "--max-retries", "9")
    assert code == 1 and "group fresh exists on broker-a. Change it with `rmq group update`" in said
    code, shown, _ = run(where, "create", "fresh", "--if-not-exists", "--disable", "--json")
    assert (code, json.loads(shown)) == (0, [{**made, "done": "exists"}])
    code, shown, _ = run(where, "update", "fresh", "--max-retries", "0", "--disable", "--json")
    changed = {**made, "done": "changed", "max_retries": 0, "consume_enable": False}
    assert (code, json.loads(shown)) == (0, [changed])
    found = config(where, "fresh")
    assert found is not None
    assert (found["retryMaxTimes"], found["retryQueueNums"]) == (0, 2)
    assert found["consumeEnable"] is False
    assert run(where, "create", "plain")[:2] == (0, "".join((
        "GROUP  BROKER    DONE     CONSUMES  ORDER  BROADCAST  RETRY QUEUES  MAX RETRIES\n",
        "plain  broker-a  created  yes       no     yes        1             16\n",
    )))  # fmt: skip


def test_it_is_deleted_with_its_offsets_or_without(broker: BrokerProcess) -> None:
    group = Group(broker, "gone")
    assert group.run("delete", "gone", answer="n\n")[0] == 1
    assert group.run("delete", "gone", "--yes") == (0, "gone: deleted\n", "")
    assert group.committed() == {0: None, 1: None}
    kept = Group(broker, "kept")
    assert kept.run("delete", "kept", "--keep-offsets", "--yes")[0] == 0
    with Admin(namesrv_addr=kept.namesrv) as admin:
        admin.create_group("kept")
    assert kept.committed() == {0: 4, 1: None}


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["reset", "none", "of-places", "--to", "first", "--yes"], 1, "no consumer group none"),
        (["reset", "places", "none", "--to", "first", "--yes"], 1, "code 17"),
        (["reset", "places", "of-places", "--to", "1:2"], 2, "one place, not a range such as N:M"),
        (["reset", "places", "of-places", "--to", "soon"], 2, "-N for the last N"),
        (["reset", "places", "of-places"], 2, "--to"),
        (["skip", "places", "of-places", "--queue", "9", "--yes"], 1, "has no queue 9"),
        (["clone", "none", "places", "of-places", "--yes"], 1, "no consumer group none"),
        (["create", "bad name"], 1, "bad name"),
        (["create", "g", "--cluster", "none"], 3, "no broker of cluster none"),
        (["update", "none", "--order"], 1, "`rmq group create NAME`"),
        (["update", "places"], 2, "nothing to change: give one of --max-retries"),
        (["reset", "none", "of-places", "--to", "1"], 1, "create one with `rmq group create NAME`"),
        (["clone", "places", "places", "of-places", "--yes"], 2, "are the same group"),
        (["member", "none"], 1, "no consumer group none"),
        (["delete", "none", "--yes"], 1, "no consumer group none"),
    ],
)
def test_what_cannot_be_done_is_told(
    broker: BrokerProcess, words: list[str], code: int, reason: str
) -> None:
    Group(broker, "places")
    found, shown, said = run(broker.namesrv, *words)
    assert found == code, shown + said
    assert reason in " ".join(said.split())


def test_a_member_says_what_it_is_doing(broker: BrokerProcess) -> None:
    group = Group(broker, "doing")
    seen: list[bytes] = []
    with PushConsumer(
        group.name, lambda messages, _: seen.extend(each.body for each in messages),
        namesrv_addr=group.namesrv, consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:  # fmt: skip
        consumer.subscribe(group.topic)
        wait_until(lambda: len(seen) == 16)  # of one queue four were consumed before

        def told(*client: str) -> list[dict[str, Any]]:
            code, shown, said = group.run("member", group.name, *client, "--json")
            assert code == 0, said
            found: list[dict[str, Any]] = json.loads(shown)
            return found

        wait_until(told)

        def places() -> dict[int, int]:
            return {each["queue"]: each["at"] for each in told()[0]["queues"]
                    if each["topic"] == group.topic}  # fmt: skip

        wait_until(lambda: places() == {0: 10, 1: 10})
        [found] = told()
        assert [each["client_id"] for each in told(found["client_id"])] == [found["client_id"]]
        assert found["started_ms"] > 0
        assert found["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        [figures] = [each for each in found["topics"] if each["topic"] == group.topic]
        assert figures["failed_in_an_hour"] == 0
        shown = group.run("member", group.name)[1]
        assert "HELD" in shown and "CONSUME MS" in shown and "started 2" in shown
    wait_until(lambda: "no member is online" in group.run("member", group.name)[1])
    code, _, said = group.run("member", group.name, "nobody@nowhere")
    assert code == 1 and "nobody@nowhere" in said
