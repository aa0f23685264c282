"""`rmq send` and `rmq consume` as a pair: what is sent comes out, chosen and printed as asked for.

There is one broker process. The commands run in this process, except where their standard input is
a pipe.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from support import command_line
from support.broker_process import BrokerProcess, broker_process
from support.topics import until_routed
from support.waiting import wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("send-and-consume")) as process:
        yield process


class Shell:
    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def run(self, *words: str, given: bytes = b"") -> tuple[int, bytes, str]:
        found = command_line.rmq(*words, "-n", self.namesrv, text=given.decode())
        return found.returncode, found.stdout.encode(), found.stderr

    def __call__(self, *words: str, given: bytes = b"") -> bytes:
        code, shown, said = self.run(*words, given=given)
        assert code == 0, said
        return shown

    def topic(self, name: str, queues: int = 1) -> str:
        self("topic", "create", name, "--queues", str(queues))
        until_routed(self.namesrv, name, {"broker-a": queues})
        return name


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker.namesrv)


def test_what_is_consumed_as_json_can_be_sent(shell: Shell) -> None:
    one, other = shell.topic("json-one"), shell.topic("json-other")
    shell("send", one, "text", "--tag", "paid", "--keys", "7 8", "-p", "region=eu", "-q")
    shell("send", one, "-q", "--json-lines", given=b'{"body_base64":"/wD+"}\n\n{"body":"b"}\n')
    lines = shell("consume", one, "--json")
    shell("send", other, "--json-lines", "-q", "-p", "copied=yes", given=lines)
    first, second, third = map(json.loads, shell("consume", other, "--json").splitlines())
    assert (first["body"], first["tag"], first["keys"]) == ("text", "paid", "7 8")
    assert (first["properties"]["region"], first["properties"]["copied"]) == ("eu", "yes")
    assert (second["body_base64"], third["body"]) == ("/wD+", "b")
    assert first["id"] != json.loads(lines.splitlines()[0])["id"], "it is another message"


def test_a_line_that_is_none_is_named(shell: Shell) -> None:
    """A line that is no JSON is named. The messages before it were sent, and those after it were
    not."""
    topic = shell.topic("bad-lines")
    given = b'{"body":"good"}\nbad\n{"body":"never"}\n'
    code, _, said = shell.run("send", topic, "--json-lines", given=given)
    assert code == 1 and "line 2: not JSON" in said
    assert "1 message sent before the error" in said
    assert shell("consume", topic, "--body") == b"good\n"


def test_of_what_a_broker_refuses_it_is_told_how_many_went_before(shell: Shell) -> None:
    """If a broker refuses a message, the error says how many messages went out before it."""
    topic = shell.topic("refused-line")
    given = b'{"body":"1"}\n\n{"body":"2"}\n{"body":"3","deliver_at":"2999-01-01"}\n{"body":"4"}\n'
    code, _, said = shell.run("send", topic, "--json-lines", "-q", given=given)
    assert code == 1 and "code 13" in said and "2 messages sent before the error" in said
    assert sorted(shell("consume", topic, "--body").split()) == [b"1", b"2"]
    code, _, said = shell.run("send", topic, "x", "--delay", "300d")
    assert code == 1 and "before the error" not in said


@pytest.mark.parametrize("words", [("send", "t", "x"), ("consume", "t"), ("topic", "list")])
def test_a_broker_in_the_place_of_a_name_server_is_told(
    broker: BrokerProcess, words: tuple[str, ...]
) -> None:
    found = command_line.rmq(*words, "-n", broker.address)
    assert found.returncode == 1 and "and no name server?" in found.stderr
    assert f"code 3: {broker.address}: request" in found.stderr


def test_where_reading_begins_and_ends(shell: Shell) -> None:
    topic = shell.topic("places")
    shell("send", topic, "-q", given=b"".join(b"%d\n" % number for number in range(10)))

    def read(start: str, *more: str) -> list[int]:
        return [int(line) for line in shell("consume", topic, "--body", "--from", start, *more)
                .splitlines()]  # fmt: skip

    assert read("first") == read("start") == read("-10") == read("-99") == read("0")
    assert read("-3") == read("7") == [7, 8, 9]
    assert read("2:5") == [2, 3, 4]
    assert read("8:99") == read("8:") == [8, 9]
    assert read(":3") == [0, 1, 2] and read(":") == list(range(10))
    assert read("@-1h", "--count", "2") == [0, 1] and read("@now") == []
    assert read("@-1h:@now") == read("first", "--until", "now") == list(range(10))
    assert read("@-2h:@-1h") == read("first", "--until", "-1h") == []
    stored = [int(line) for line in shell("consume", topic, "--format", "%T\n").splitlines()]
    since = [at for at, ms in enumerate(stored) if ms >= stored[5]]
    assert read(f"@{stored[5]}") == since
    assert read("first", "--until", str(stored[5])) == [at for at in range(10) if at not in since]
    assert read("last") == read("end") == read("10") == read("99") == []
    assert read("-1h", "--count", "2") == [0, 1]
    assert read("2:5", "--follow") == [2, 3, 4], "it ends where that was said"
    assert read("2000-01-01") == list(range(10))


def test_which_messages_are_read(shell: Shell) -> None:
    topic = shell.topic("choice", queues=3)
    for queue in range(3):
        shell("send", topic, f"q{queue}", "--queue", str(queue), "--keys", f"k{queue} all", "-q")
    assert shell("consume", topic, "--queue", "1", "--body") == b"q1\n"
    two = shell("consume", topic, "--queue", "0", "--queue", "2", "--body").split()
    assert sorted(two) == [b"q0", b"q2"]
    assert shell("consume", topic, "--key", "k2", "--body") == b"q2\n"
    assert len(shell("consume", topic, "--key", "all", "--broker", "broker-a").splitlines()) == 3
    code, _, said = shell.run("consume", topic, "--queue", "9")
    assert code == 1 and "has no such queue: broker-a/0, broker-a/1, broker-a/2" in said
    assert shell.run("consume", topic, "--broker", "broker-z")[0] == 1


def test_a_format_prints_what_it_says_and_nothing_else(shell: Shell) -> None:
    topic = shell.topic("format")
    shell("send", topic, "a", "b", "--keys", "7", "-p", "x=y", "-q")
    shown = shell("consume", topic, "--format", "%t %p:%o %k %h{x} %s;")
    assert shown == b"format 0:0 7 y a;format 0:1 7 y b;"


def test_equal_sharding_keys_go_to_one_queue(shell: Shell) -> None:
    topic = shell.topic("sharded", queues=4)
    shell("send", topic, *map(str, range(8)), "--sharding-key", "customer 7", "-q")
    found = shell("consume", topic, "--format", "%p %s\n").split()
    assert len(set(found[::2])) == 1
    assert found[1::2] == [b"%d" % number for number in range(8)]


def test_a_message_that_is_seen_later(shell: Shell) -> None:
    """Messages that were sent with --delay or --at do not come before their time."""
    topic = shell.topic("later")
    due_ms = int(time.time() * 1000) + 700
    shell("send", topic, "delayed", "--delay", "700ms", "-q")
    shell("send", topic, "at", "--at", str(due_ms), "-q")
    wait_until(lambda: len(shell("consume", topic, "--body").splitlines()) == 2)
    stored = map(int, shell("consume", topic, "--format", "%T\n").splitlines())
    assert min(stored) >= due_ms


def test_a_dash_is_standard_input(shell: Shell) -> None:
    topic = shell.topic("dash")
    shell("send", topic, "-", "-q", given=b"one\r\n\ntwo")
    assert shell("consume", topic, "--body") == b"one\ntwo\n"


def test_records_of_standard_input_with_their_keys(shell: Shell) -> None:
    topic = shell.topic("records")
    shell("send", topic, "-q", "-K", ":", given=b"7 8:paid\r\nbare\n:none\n9:a:b\n\n")
    keyed = shell("consume", topic, "--format", "%k|%s\n")
    assert keyed == b"7 8|paid\n|bare\n|none\n9|a:b\n"
    other = shell.topic("nul")
    shell("send", other, "-q", "--delimiter", "\\0", "-K", "\\x1e", "--tag", "t",
          given=b"k\x1eone\ntwo\0\0three")  # fmt: skip
    assert shell("consume", other, "--format", "%g %k %s;") == b"t k one\ntwo;t  three;"
    code, _, said = shell.run("send", other, "-K", ":", given=b"ok:1\n\n10:\n")
    assert code == 1 and "message 3: it has keys but no body" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["send", "t", "x", "--json-lines"], "are for standard input"),
        (["send", "t", "x", "-K", ":"], "are for standard input"),
        (["send", "t", "--json-lines", "--delimiter", ","], "a message in each line"),
        (["send", "t", "-K", ":", "--keys", "k"], "--keys and --key-delimiter"),
        (["send", "t", "-K", ""], "it must not be empty"),
        (["send", "t", "--delimiter", "\\q"], "\\xNN"),
        (["consume", "t", "-f", "--until", "now"], "--follow waits for new messages"),
        (["consume", "t", "--from", "5:5"], "the range is empty: 5 is not before 5"),
        (["consume", "t", "--from", "@now:@-1h"], "the range is empty: its end"),
        (["send", "t", "--count", "2"], "standard input can be read once"),
        (["send", "t", "x", "--delay", "1s", "--at", "now"], "--delay and --at"),
        (["send", "t", "x", "--queue", "1", "--sharding-key", "k"], "--queue and --sharding-key"),
        (["send", "t", "x", "--delay", "5"], "a time such as 500ms"),
        (["send", "t", "x", "--at", "soon"], "a local time such as"),
        (["consume", "t", "--from", "soon"], "-N for the last N"),
        (["consume", "t", "--body", "--json"], "cannot be used together"),
        (["consume", "t", "--format", "%x"], "use %t %p"),
        (["consume", "t", "--tag", "a", "--sql", "b = 1"], "cannot be combined"),
    ],
)
def test_wrong_usage_is_2_with_the_reason(shell: Shell, words: list[str], reason: str) -> None:
    code, _, said = shell.run(*words)
    assert code == 2
    assert reason in " ".join(said.split())
