"""Goal: a topic is copied with its settings and messages, in this cluster and to another one that
asks for an account; permissions change at all brokers or at one; a stored message is sent again.

Method: a broker of two shards, and a secured one with its own TLS. Cannot show: a copy that is
interrupted half way; it says the same then as `rmq import`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import rmq
from support.secured_broker import SecuredBroker, secured_broker
from support.sharded_broker import ShardedBroker, sharded_broker
from support.topics import make_topic, until_routed
from support.waiting import wait_until

from rmq import Admin, Message, Producer
from rmq.client.blocking import topics
from rmq.client.blocking.cluster import Cluster
from rmq.format.fastjson import MessageQueue

SHARDS = ("broker-a", "broker-a-1")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    with sharded_broker(tmp_path_factory.mktemp("two"), 2) as found:
        yield found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture(autouse=True)
def namesrv(two: ShardedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", two.namesrv)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return two.namesrv


def done(*words: str, code: int = 0, text: str = "") -> str:
    result = rmq(*words, text=text)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if code == 0 else result.stdout + result.stderr


def make(namesrv: str, name: str) -> None:
    """Makes a topic of type DELAY with numbered messages in each of its queues."""
    with Admin(namesrv_addr=namesrv) as admin, Producer("P", namesrv_addr=namesrv) as producer:
        make_topic(admin, name, 3, attributes={"message.type": "DELAY"})
        for broker in ("broker-a", "broker-a-1"):
            for queue_id in range(3):
                queue = MessageQueue(name, broker, queue_id)
                producer.send_batch(
                    [Message(name, f"{broker}:{queue_id}:{at}", tags="t", keys=f"k{at}",
                             properties={"region": "eu"}) for at in range(100)],
                    queue=queue,
                )  # fmt: skip


def queues(*words: str) -> list[list[str]]:
    """The bodies of each queue, in their order. The queues are sorted by their bodies."""
    found: dict[tuple[str, int], list[str]] = {}
    for line in done("consume", *words, "--json").splitlines():
        row = json.loads(line)
        assert (row["tag"], row["properties"]["region"]) == ("t", "eu")
        found.setdefault((row["broker"], row["queue"]), []).append(row["body"])
    return sorted(found.values())


def flat(found: list[list[str]]) -> list[str]:
    return sorted(body for each in found for body in each)


def test_settings_alone(namesrv: str) -> None:
    """Without --messages a copy has the settings of the topic and none of its messages."""
    make(namesrv, "plain")
    done("topic", "update", "plain", "--perm", "r", "--yes")
    said = done("topic", "copy", "plain", "plain-2", text="y\n")
    assert said.splitlines() == ["plain-2: broker-a has 3 queues, r, DELAY",
                                 "plain-2: broker-a-1 has 3 queues, r, DELAY"]  # fmt: skip
    wait_until(lambda: rmq("topic", "describe", "plain-2").returncode == 0)
    with Cluster(namesrv) as cluster:
        copies = [state for _, state in topics.states(cluster, "plain-2")]
    assert [state and state.attributes for state in copies] == [{"message.type": "DELAY"}] * 2
    rows = json.loads(done("topic", "describe", "plain-2", "--json"))
    assert len(rows) == 6 and sum(row["messages"] for row in rows) == 0
    said = done("topic", "copy", "plain", "plain-2", "--yes", code=1)
    assert "topic plain-2 exists: broker-a has 3 queues, r, DELAY" in said
    said = done("topic", "copy", "plain", "plain-2", "--if-not-exists", "--messages", "--yes",
                code=1)  # fmt: skip
    assert "plain-2 would take no messages: give --perm rw" in said
    assert done("topic", "copy", "plain", "no", code=1, text="n\n").endswith("Aborted!\n")
    assert "code 17" in done("topic", "describe", "no", code=1)
    assert "code 17" in done("topic", "copy", "nothing", "more", "--yes", code=1)
    assert "give a COPY" in done("topic", "copy", "plain", code=2)


def test_messages_keep_to_their_queues_and_order(namesrv: str) -> None:
    make(namesrv, "full")
    said = done("topic", "copy", "full", "full-2", "--messages", "--yes")
    assert said.endswith("full-2: 600 messages copied\n")
    until_routed(namesrv, "full-2", dict.fromkeys(SHARDS, 3))
    assert queues("full-2") == queues("full")
    last = done("topic", "copy", "full", "full-3", "--messages", "--from", "-2", "--yes")
    assert last.endswith("full-3: 12 messages copied\n")
    until_routed(namesrv, "full-3", dict.fromkeys(SHARDS, 3))
    assert queues("full-3") == [each[-2:] for each in queues("full")]
    ids = [{json.loads(line)["id"] for line in done("consume", name, "--json").splitlines()}
           for name in ("full", "full-2")]  # fmt: skip
    assert not ids[0] & ids[1] and len(ids[1]) == 600, "they are new ones"


def test_to_another_cluster_as_whom_its_context_says(
    namesrv: str, secured: SecuredBroker, tmp_path: Path
) -> None:
    """A copy to another cluster uses the account and the authority of that cluster's context."""
    make(namesrv, "moved")
    account = tmp_path / "admin.json"
    account.write_bytes((secured.folder / "admin.json").read_bytes())
    done("context", "add", "here", "-n", namesrv)
    done("context", "add", "there", "-n", secured.broker.namesrv, "--credentials", str(account),
         "--tls-ca", str(secured.authority))  # fmt: skip
    refused = rmq("topic", "copy", "moved", "--to-namesrv", secured.broker.namesrv, "--yes")
    assert refused.returncode != 0, "it has no account there"
    said = done("topic", "copy", "moved", "--to-context", "there", "--messages", "--yes")
    assert "moved: 600 messages copied" in said
    # Six queues were copied into the three queues of one broker.
    there = queues("moved", "-n", secured.broker.namesrv, "--tls-ca", str(secured.authority),
                   "--credentials", str(account))  # fmt: skip
    here = queues("moved")
    assert flat(there) == flat(here) and len(there) == 3
    for each in here:
        (mixed,) = (queue for queue in there if each[0] in queue)
        assert [body for body in mixed if body in set(each)] == each, "in their order"
    back = done("--context", "there", "topic", "copy", "moved", "back", "--to-context", "here",
                "--messages", "--yes")  # fmt: skip
    assert "back: 600 messages copied" in back
    assert flat(queues("back")) == flat(here)


def perms(name: str, *words: str) -> list[tuple[str, str, str]]:
    rows = json.loads(done("topic", "perm", name, *words, "--json"))
    return [(row["broker"], row["is"], row["was"]) for row in rows]


def test_permissions_at_all_brokers_or_one(namesrv: str) -> None:
    make(namesrv, "guarded")
    assert perms("guarded") == [("broker-a", "rw", "rw"), ("broker-a-1", "rw", "rw")]
    assert perms("guarded", "r", "--broker", "broker-a-1") == [("broker-a-1", "r", "rw")]
    assert perms("guarded") == [("broker-a", "rw", "rw"), ("broker-a-1", "r", "r")]
    asked = done("topic", "perm", "guarded", "w", code=1, text="n\n")
    assert "broker-a: queues 0 to 2 hold 300 messages, which nobody could read" in asked
    assert perms("guarded", "none", "--yes") == [
        ("broker-a", "none", "rw"), ("broker-a-1", "none", "r")]  # fmt: skip
    assert perms("guarded", "rw")[0] == ("broker-a", "rw", "none")
    said = done("topic", "perm", "guarded", "r", "--broker", "x", code=1)
    assert "is on none of these brokers" in said
    assert "code 17" in done("topic", "perm", "nothing", "r", code=1)


def row_of(topic: str, at: int) -> dict[str, Any]:
    rows = [json.loads(line) for line in done("consume", topic, "--json").splitlines()]
    rows.sort(key=lambda row: row["stored_ms"])
    found = rows[at]
    assert isinstance(found, dict)
    return found


def test_a_stored_message_is_sent_again(namesrv: str) -> None:
    for name in ("again", "elsewhere"):
        done("topic", "create", name, "--queues", "1")
        until_routed(namesrv, name, dict.fromkeys(SHARDS, 1))
    sent = json.loads(done("send", "again", "hello", "--tag", "t", "--keys", "k", "-p", "a=b",
                           "--json"))  # fmt: skip
    wait_until(lambda: rmq("message", "show", sent["message_id"], "again").returncode == 0)
    words = ("message", "resend", sent["message_id"], "again")
    assert "to again at" in done(*words, code=1, text="n\n")
    again = json.loads(done(*words, "--yes", "--json"))
    assert again["message_id"] != sent["message_id"] and again["status"] == "SEND_OK"
    row = row_of("again", 1)
    assert (row["body"], row["tag"], row["keys"]) == ("hello", "t", "k")
    assert row["properties"]["a"] == "b"
    done("message", "resend", sent["offset_message_id"], "--to", "elsewhere", "--yes")
    assert row_of("elsewhere", 0)["body"] == "hello"
    assert "code 17" in done(*words, "--to", "nothing", "--yes", code=1)
    assert "rmq dlq resend" in done(*words, "--to", "%DLQ%g", "--yes", code=1)
    assert "only brokers may write" in done(*words, "--to", "SCHEDULE_TOPIC_XXXX", "--yes", code=1)
