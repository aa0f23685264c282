"""The client's connection: answers are matched by opaque, silence and hang-ups are named, junk is
refused."""

import json
import socket
from pathlib import Path

import pytest
from support.command_line import rmq
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.errors import RemoteError, UnreachableError
from rmq.format import remoting
from rmq.format.remoting import Command


def test_answer_is_matched_by_opaque_and_requests_of_the_peer_are_dropped() -> None:
    def answer(request: Command) -> bytes:
        notice = Command(code=40, opaque=request.opaque, flag=2)
        stale = request.reply(0, "stale")
        stale.opaque += 1000
        return b"".join(map(remoting.encode, (notice, stale, request.reply(0, "right"))))

    with ScriptedPeer({28: answer}) as peer, Connection(peer.address) as connection:
        assert connection.call(28).remark == "right"


def test_many_answers_come_in_the_order_of_their_questions_whatever_theirs() -> None:
    """Many requests must be sent before the first answer is awaited: the peer holds its answers
    back until it has 60 requests. The answers must be in the order of the requests."""
    held: list[bytes] = []

    def answer(request: Command) -> bytes | None:
        number = request.int_field("n")
        held.insert(0, remoting.encode(request.reply(number % 3, str(number))))
        if len(held) < 60:
            return None
        together = b"".join(held)
        held.clear()
        return together

    with ScriptedPeer({15: answer}) as peer, Connection(peer.address) as connection:
        replies = connection.ask_all(15, [{"n": number} for number in range(180)])
        assert [int(reply.remark or "") for reply in replies] == list(range(180))
        assert [reply.code for reply in replies] == [number % 3 for number in range(180)]
        assert connection.ask_all(15, []) == []


def test_one_answer_of_many_that_does_not_come_is_silence() -> None:
    def answer(request: Command) -> Command | None:
        return None if request.int_field("n") == 7 else request.reply(0)

    with (
        ScriptedPeer({15: answer}) as peer,
        Connection(peer.address) as connection,
        pytest.raises(UnreachableError, match="no answer to request 15 within"),
    ):
        connection.ask_all(15, [{"n": number} for number in range(9)], timeout=0.2)
    assert connection.fileno() < 0


def test_other_codes_than_success_are_remote_errors() -> None:
    with (
        ScriptedPeer({105: lambda request: request.reply(17, "no route")}) as peer,
        Connection(peer.address) as connection,
        pytest.raises(RemoteError, match="code 17: no route"),
    ):
        connection.call(105)


def test_silence_ends_in_a_timeout_that_names_peer_and_request() -> None:
    with (
        ScriptedPeer({28: lambda _: None}) as peer,
        Connection(peer.address) as connection,
        pytest.raises(UnreachableError, match=f"{peer.address}: no answer to request 28 within"),
    ):
        connection.call(28, timeout=0.05)


def test_a_peer_that_hangs_up_or_is_absent_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        connection = Connection(address)
        listener.accept()[0].close()
        with pytest.raises(UnreachableError, match=r"closed the connection|connection lost"):
            connection.call(28)
    with pytest.raises(UnreachableError, match="connection refused"):
        Connection(address)


OTHERS = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "": b"-ERR unknown command\r\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_something_else_than_rocketmq_is_named(name: str) -> None:
    with (
        ScriptedPeer({28: lambda _: OTHERS[name]}) as peer,
        Connection(peer.address) as connection,
        pytest.raises(UnreachableError) as found,
    ):
        connection.call(28)
    what = f"it speaks {name}" if name else "a frame of "
    assert f"{peer.address}: what came is not RocketMQ's protocol ({what}" in str(found.value)
    assert ("--tls" in str(found.value)) == (name == "TLS")
    assert connection.fileno() < 0


@pytest.mark.parametrize("words", [("topic", "list"), ("group", "list"), ("send", "orders", "x")])
def test_commands_say_one_thing_of_a_port_that_is_something_elses(words: tuple[str, ...]) -> None:
    """Every command must report a foreign port in the same words, also `rmq send`, which has an
    engine of its own."""

    def answer(_: Command) -> bytes:
        return OTHERS["HTTP"]

    with ScriptedPeer(dict.fromkeys((105, 106, 206), answer)) as peer:
        done = rmq(*words, "-n", peer.address)
        told = rmq(*words, "-n", peer.address, "-o", "json")
    assert done.returncode == told.returncode == 3
    cause, remedy = done.stderr.splitlines()
    assert f"{peer.address}: what came is not RocketMQ's protocol" in cause
    assert "Another program uses this port" in remedy and "standalone" not in remedy
    assert json.loads(told.stderr)["exit_code"] == 3


def test_a_name_server_behind_something_else_is_asked() -> None:
    with (
        ScriptedPeer({206: lambda _: OTHERS["HTTP"]}) as other,
        ScriptedPeer({206: lambda request: request.reply(0, body=b'{"topicList":["a"]}')}) as peer,
        Cluster(f"{other.address};{peer.address}") as cluster,
    ):
        assert cluster.topics() == ["a"]


@pytest.mark.parametrize("words", [("topic", "list"), ("send", "orders", "x")])
@pytest.mark.parametrize(
    ("variable", "option"), [("RMQ_TLS_CA", "--tls-ca"), ("RMQ_TLS_CERT", "--tls-cert")]
)
def test_a_file_of_tls_that_cannot_be_used_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str,
    option: str,
) -> None:  # fmt: skip
    junk, missing = tmp_path / "junk.pem", tmp_path / "missing.pem"
    junk.write_text("no certificate")
    asked = (*words, "-n", "127.0.0.1:1")
    monkeypatch.setenv("RMQ_TLS", "1")
    for path, why in ((missing, "No such file"), (junk, "")):
        monkeypatch.setenv(variable, str(path))
        done = rmq(*asked)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"rmq: {variable}={path}: {why}")
        assert "standalone" not in done.stderr
    monkeypatch.delenv(variable)
    done = rmq(*asked, option, str(junk))
    assert done.returncode == 2 and done.stderr.startswith(f"rmq: {option} {junk}: ")


def test_a_broker_that_is_taken_for_a_name_server_is_named() -> None:
    with (
        ScriptedPeer(
            {105: lambda request: request.reply(3, " request type 105 not supported")}
        ) as peer,
        Cluster(peer.address) as cluster,
        pytest.raises(
            RemoteError, match=f"{peer.address}: .*; a broker or a controller, and no name server"
        ),
    ):
        cluster.route("orders")
