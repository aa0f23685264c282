"""The audit logs of several servers become one: their lines are merged, and cut where one server's
part ends.

Method: servers of a few lines, one of them like RocketMQ's, which do not know the request. Not
shown here: what real servers answer (tests/process/test_audit_command.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone

import msgspec
import pytest
from support.command_line import rmq
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.audit_log import AuditLine, AuditQuery, AuditTail
from rmq.format.remoting import Command
from rmq.operations.audit_log import NOT_SUPPORTED, audit_log, merged

Answer = Callable[[Command], Command]


def line(second: float, user: str = "alice") -> AuditLine:
    return AuditLine(datetime.fromtimestamp(second, timezone.utc), "allowed", user)


def seconds(lines: list[AuditLine]) -> list[float]:
    return [each.time_ms / 1000 for each in lines]


def test_the_newest_lines_of_all_come_first() -> None:
    found = merged([AuditTail("a", [line(9), line(3)]), AuditTail("b", [line(5), line(4)])], 10)
    assert seconds(found.lines) == [9, 5, 4, 3]
    assert (found.older_than_ms, found.is_whole) == (None, True)
    assert merged([], 10).lines == []


def test_nothing_is_shown_that_is_older_than_what_a_server_left_out() -> None:
    """Nothing may be shown that is older than the end of a server's part: b has more lines before
    4, so nobody knows yet whether 3 of a is the next line."""
    tails = [AuditTail("a", [line(9), line(3)]), AuditTail("b", [line(5), line(4)], has_more=True)]
    found = merged(tails, 10)
    assert seconds(found.lines) == [9, 5, 4]
    assert found.older_than_ms == 4000
    found = merged(tails, 2)
    assert (seconds(found.lines), found.older_than_ms) == ([9, 5], 5000)
    tails[0].is_whole = False
    assert not merged(tails, 2).is_whole


# ---- over the wire


def tells(tail: AuditTail) -> Answer:
    return lambda request: request.reply(body=msgspec.json.encode(tail))


def refuses(code: int, text: str) -> Answer:
    return lambda request: request.reply(code, text)


def unknown(request: Command) -> Command:
    """Refuses the request, as RocketMQ's brokers and name servers do."""
    text = f" request type {request.code} not supported"
    return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)


@contextmanager
def cluster_of(
    *answers: Answer | None, name_server: Answer = unknown
) -> Iterator[tuple[str, list[str]]]:
    """Yields the name server's address and the brokers' addresses. None: a broker at whose address
    nobody listens."""
    with ExitStack() as stack:
        peers = [
            stack.enter_context(ScriptedPeer({Code.GET_AUDIT_LOG: answer})) if answer else None
            for answer in answers
        ]
        addresses = [peer.address if peer is not None else "127.0.0.1:1" for peer in peers]
        table = {
            f"b{number}": {"brokerName": f"b{number}", "cluster": "c", "brokerAddrs": {"0": each}}
            for number, each in enumerate(addresses)
        }
        body = fastjson.dumps({"brokerAddrTable": table, "clusterAddrTable": {"c": list(table)}})
        names = ScriptedPeer({
            Code.GET_BROKER_CLUSTER_INFO: lambda request: request.reply(body=body),
            Code.GET_AUDIT_LOG: name_server,
        })  # fmt: skip
        yield stack.enter_context(names).address, addresses


def asked(namesrv: str, **query: object) -> tuple[list[float], list[str]]:
    with Cluster(namesrv) as cluster:
        found = audit_log(cluster, AuditQuery(**query))
    return seconds(found.lines), found.problems


def test_those_that_write_to_one_file_tell_of_it_once() -> None:
    tail = AuditTail("a", [line(2), line(1)])
    with cluster_of(tells(tail), tells(tail), tells(AuditTail("b", [line(3)]))) as (namesrv, _):
        assert asked(namesrv) == ([3, 2, 1], [])


def test_who_does_not_tell_is_named_beside_what_the_others_tell() -> None:
    """A server that does not give its log must be named beside what the others gave. A name server
    that keeps no audit log must not be named."""
    own = refuses(1, "request 30001: there is no audit file here; start with rmqAuditLog=FILE")
    with cluster_of(tells(AuditTail("a", [line(1)])), unknown, unknown, own, None) as (
        namesrv, brokers,
    ):  # fmt: skip
        found, problems = asked(namesrv)
        assert found == [1]
        assert problems[0] == f"{brokers[1]}, {brokers[2]}: {NOT_SUPPORTED}"
        assert problems[1].startswith(f"{brokers[3]}: request 30001: there is no audit file")
        assert "127.0.0.1:1" in problems[2]
        assert len(problems) == 3


def test_where_nobody_tells_the_reasons_are_told() -> None:
    with cluster_of(unknown) as (namesrv, brokers), pytest.raises(RemoteError) as error:
        asked(namesrv)
    assert error.value.remark == f"{brokers[0]}, {namesrv}: {NOT_SUPPORTED}"
    stranger = refuses(ResponseCode.NO_PERMISSION, "username cannot be null.")
    with cluster_of(unknown, stranger) as (namesrv, _), pytest.raises(RemoteError) as error:
        asked(namesrv)
    assert error.value.remark == "username cannot be null."


def test_servers_that_do_not_answer_are_away() -> None:
    with (
        cluster_of(None) as (namesrv, _),
        Cluster(namesrv) as cluster,
        pytest.raises(UnreachableError),
    ):
        audit_log(cluster, AuditQuery(), ["127.0.0.1:1"])


def test_no_answer_can_be_anything_but_an_audit_log() -> None:
    broken: Answer = lambda request: request.reply(body=b'{"file":1}')  # noqa: E731
    with cluster_of(broken, tells(AuditTail("a", [line(1)]))) as (namesrv, brokers):
        found, problems = asked(namesrv)
    assert found == [1]
    assert problems[0].startswith(f"{brokers[0]}: the answer is no part of an audit log")


def test_the_command_asks_for_what_it_was_told_and_nothing_commands_a_terminal() -> None:
    evil = AuditLine(
        datetime(2026, 11, 27, 3, 20, tzinfo=timezone.utc), "refused", "\x1b[2Jeve", "10.0.0.9:1",
        310, "", "", "a\nb", "", "b\x07",
    )  # fmt: skip
    queries: list[AuditQuery] = []

    def answer(request: Command) -> Command:
        queries.append(AuditQuery.of(request))
        return request.reply(body=msgspec.json.encode(AuditTail("a", [evil], is_whole=False)))

    with cluster_of(answer) as (namesrv, _):
        words = ("audit", "orders", "--of", "eve", "--verdict", "refused", "--since",
                 "2026-11-27T00:00:00Z", "--until", "2026-11-28T00:00:00Z", "--count", "7",
                 "-n", namesrv)  # fmt: skip
        shown = rmq(*words)
        data = json.loads(rmq(*words, "-o", "json").stdout)
    assert queries[0] == AuditQuery(7, 1795737600000, 1795824000000, "eve", "refused", "orders")
    assert shown.returncode == 0
    assert shown.stdout.split()[:6] == ["TIME", "VERDICT", "USER", "FROM", "REQUEST", "WHAT"]
    assert "\ufffd[2Jeve" in shown.stdout and "a\ufffdb" in shown.stdout and " 310 " in shown.stdout
    assert shown.stderr == "entries older than these are only in the audit files of the servers\n"
    assert data == [{
        "time": "2026-11-27T03:20:00.000Z", "time_ms": 1795749600000, "verdict": "refused",
        "user": "\x1b[2Jeve", "from": "10.0.0.9:1", "request": "310", "what": "a\nb",
        "server": "b\x07", "code": 310, "by": "",
    }]  # fmt: skip


def test_more_than_a_part_is_said_to_be_there() -> None:
    with cluster_of(tells(AuditTail("a", [line(2)], has_more=True))) as (namesrv, _):
        shown = rmq("audit", "-n", namesrv)
        assert "there are older entries" in shown.stderr
    with cluster_of(unknown) as (namesrv, _):
        refused = rmq("audit", "-n", namesrv)
        assert refused.returncode != 0 and NOT_SUPPORTED in refused.stderr
