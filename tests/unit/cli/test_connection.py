"""The client's connection: answers matched by opaque, silence and hang-ups named, junk refused."""

import socket

import pytest
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection, split_address
from rmq.errors import ProtocolError, RemoteError, UnreachableError
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
    """Held back until 60 have been asked, which a caller that waits for each would never do."""
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


def test_something_else_than_rocketmq_is_a_protocol_error() -> None:
    with (
        ScriptedPeer({28: lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n"}) as peer,
        Connection(peer.address) as connection,
        pytest.raises(ProtocolError, match="not RocketMQ"),
    ):
        connection.call(28)


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:70000", "h:²"])
def test_addresses_are_host_and_port(text: str) -> None:
    with pytest.raises(ProtocolError, match="host:port"):
        split_address(text)
    assert split_address("[::1]:80") == ("::1", 80)


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
