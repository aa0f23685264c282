"""Accounts that several servers have: shards and their name server share a file, slaves copy it.

Method: real processes. How soon a change counts at other servers is measured by a clock that only
the test moves on, so that a busy machine is not too late. Cannot show: servers on several machines,
whose clocks differ (except a slave's clock, which one test sets).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.accounts import (
    ADMIN,
    ALICE,
    ARMED,
    NO_PERMISSION,
    account,
    asked,
    command,
    keys,
    make_alice,
)
from support.broker_process import BrokerProcess, broker_process
from support.driven_clock import DrivenClock, process_clock
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.broker.replication.account_requests import new_account_request
from rmq.broker.replication.metadata_copy import REFUSED_S
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format.message import decode_messages

LISTED = ("--set", "rmqReplicaAddresses=127.0.0.1")
INNER = ("--set", 'innerClientAuthenticationCredentials={"accessKey":"in","secretKey":"side"}')
SMALL = ("--set", f"mappedFileSizeCommitLog={4 << 20}", "--set", "maxMessageSize=1048576")


def slave_of(master: str) -> tuple[str, ...]:
    return (*ARMED, *INNER, *SMALL, *LISTED, "--set", "brokerRole=SLAVE", "--set", "brokerId=1",
            "--set", f"rmqMasterAddress={master}")  # fmt: skip


class Places:
    """One connection of alice's to each server, and what she asks there."""

    def __init__(self, stack: ExitStack, asks: dict[str, tuple[str, int]]) -> None:
        """asks: {place: (address, request code)}"""
        with account(ALICE):
            self._open = {
                place: (stack.enter_context(Connection(address)), code)
                for place, (address, code) in asks.items()
            }

    def refusals(self) -> dict[str, str]:
        """{place: why alice is refused there, or an empty text if she is let in}"""
        found = {}
        for place, (connection, code) in self._open.items():
            reply = connection.ask(code, {"topic": "orders", "queueId": 0})
            found[place] = (reply.remark or "") if reply.code == NO_PERMISSION else ""
        return found

    def all_say(self, text: str) -> bool:
        return set(self.refusals().values()) == {text}


@contextmanager
def two_shards_and_a_slave(
    folder: Path, clock: DrivenClock
) -> Iterator[tuple[str, dict[str, tuple[str, int]]]]:
    """Yields the address of a shard; and for each other server that has its accounts, the address
    and a request code that alice may use there."""
    with ExitStack() as stack:
        with clock.passing():
            options = (*ARMED, *INNER, *SMALL, *LISTED, "--shards", "2",
                       "--set", "brokerRole=ASYNC_MASTER")  # fmt: skip
            broker = stack.enter_context(
                broker_process(folder / "master", options, clock.environment)
            )
            slave = stack.enter_context(
                broker_process(folder / "slave", slave_of(broker.address), clock.environment)
            )
            with Cluster(broker.namesrv) as cluster:
                addresses = {entry.addresses[0] for entry in cluster.masters()}
            (other,) = addresses - {broker.address}
            body = json.dumps({"username": "alice", "password": ALICE.secret_key}).encode()
            with Connection(broker.address) as connection:
                connection.call(RequestCode.AUTH_CREATE_USER, {"username": "alice"}, body)
            command(broker, "topic", "create", "orders")
            command(broker, "acl", "allow", "alice", "Topic:orders", "-a", "Sub,Get")
        yield broker.address, {"other shard": (other, 30), "name server": (broker.namesrv, 105),
                               "slave": (slave.address, 202)}  # fmt: skip


def change_of(status: str) -> tuple[RequestCode, dict[str, str], str]:
    text = "User:alice is disabled." if status == "disable" else ""
    return RequestCode.AUTH_UPDATE_USER, {"userStatus": status}, text


# Several changes, a second apart: a server that looked less often would be late for one of them.
CHANGES = [
    *map(change_of, ("disable", "enable", "disable", "enable", "disable", "enable")),
    (RequestCode.AUTH_DELETE_USER, {}, "User:alice is not found."),
]  # fmt: skip


def test_who_is_out_is_out_everywhere_within_a_second(tmp_path: Path) -> None:
    """A change of an account counts within a second at the other shard and at the name server,
    which look at the file, and at a slave, which is told. The user's connections are open already,
    and none of them waits for the change."""
    with (
        process_clock(tmp_path) as clock,
        clock.standing_still(),
        account(ADMIN),
        two_shards_and_a_slave(tmp_path, clock) as (address, others),
        ExitStack() as stack,
    ):
        alice = Places(stack, others)
        with clock.passing():
            wait_until(lambda: alice.all_say(""))
        master = stack.enter_context(Connection(address))
        for code, change, text in CHANGES:
            body = json.dumps({"username": "alice", **change}).encode()
            master.call(code, {"username": "alice"}, body)
            changed = clock.monotonic()
            clock.advance(1)
            wait_until(lambda text=text: alice.all_say(text))
            assert clock.monotonic() - changed < 1.5, f"more than a second until {text!r}"


def test_shards_and_their_name_server_have_the_same_accounts(tmp_path: Path) -> None:
    """A change at one shard counts at the others. A tool that sends a change to each of them makes
    one change."""
    with broker_process(tmp_path, (*ARMED, "--shards", "2")) as broker, account(ADMIN):
        with Cluster(broker.namesrv) as cluster:
            addresses = [entry.addresses[0] for entry in cluster.masters()]
            assert len(addresses) == 2
            body = json.dumps({"username": "alice", "password": ALICE.secret_key}).encode()
            for address in addresses:  # as mqadmin createUser -c does
                cluster.call(address, RequestCode.AUTH_CREATE_USER, {"username": "alice"}, body)
        command(broker, "topic", "create", "orders")
        command(broker, "acl", "allow", "alice", "Topic:orders", "-a", "Pub,Sub,Get")
        ask = {"topic": "orders", "queueId": 0}
        with account(ALICE):
            for address in addresses:
                wait_until(lambda where=address: asked(where, 30, ask) == (0, None))
            with Cluster(broker.namesrv) as cluster:
                wait_until(lambda: len(cluster.route("orders").writable()) == 16)
        with Connection(addresses[1]) as connection:
            connection.call(RequestCode.AUTH_DELETE_USER, {"username": "alice"})
        with account(ALICE):
            gone = (NO_PERMISSION, "User:alice is not found.")
            wait_until(lambda: asked(addresses[0], 30, ask) == gone)


def test_a_slave_signs_what_it_asks_of_its_master(tmp_path: Path) -> None:
    """A master with accounts gives its log and accounts to a slave, which signs its requests.
    Nobody else can ask for the accounts."""
    master_options = (*ARMED, *INNER, *SMALL, *LISTED, "--set", "brokerRole=SYNC_MASTER")
    with (
        broker_process(tmp_path / "master", master_options) as master,
        account(ADMIN),
        broker_process(tmp_path / "slave", slave_of(master.address)) as slave,
    ):
        make_alice(master)
        with Producer("p", namesrv_addr=master.namesrv, **keys(ALICE)) as producer:
            wait_until(lambda: producer.send(Message("orders", b"x")).status == "SEND_OK")
        with Connection(slave.address) as connection:
            wait_until(lambda: read(connection) > 0)
        # The slave has a name server of its own: nobody but its master tells it of alice.
        wait_until(lambda: "alice" in users_of(slave))
        ask = {"topic": "orders"}
        with account(ALICE):
            told = asked(slave.address, 202, ask)[1] or ""
            assert "User:alice has no permission to access Topic:orders" in told, "she is known"
            refused = asked(master.address, 906, {"rmqAccounts": new_account_request()})
            assert refused[0] == NO_PERMISSION
        # A request that a Super user has signed for something else brings no passwords.
        assert asked(master.address, 351, {"topic": "orders"})[0] == 0
        again = asked(master.address, 906, {"rmqAccounts": "orders"})
        assert again == (NO_PERMISSION, "no replica asks for accounts so")
        command(master, "user", "delete", "alice", "--yes")
        assert "alice" not in users_of(slave), "it was answered when the slave had it, too"
        assert "in" in users_of(slave), "whom it signs as"


def test_a_slave_that_was_refused_accounts_asks_again(tmp_path: Path) -> None:
    """The master refuses a slave whose clock is ten minutes ahead. After the clock was set, the
    slave gets the accounts, although none of them has changed meanwhile."""
    master_options = (*ARMED, *INNER, *SMALL, *LISTED, "--set", "brokerRole=ASYNC_MASTER")
    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path / "master", master_options) as master,
        account(ADMIN),
    ):
        make_alice(master)
        clock.set_wall(600)
        slave_options = slave_of(master.address)
        with broker_process(tmp_path / "slave", slave_options, clock.environment) as slave:
            wait_until(lambda: "asked for accounts -" in slave.log())
            assert "alice" not in users_of(slave)
            clock.set_wall(-600)
            clock.advance(REFUSED_S)
            command(master, "topic", "create", "more")  # slaves wait for such changes
            wait_until(lambda: "alice" in users_of(slave))


def users_of(broker: BrokerProcess) -> list[str]:
    """The users that this broker knows. It is asked directly, as commands ask all servers."""
    with Connection(broker.address) as connection:
        body = connection.call(RequestCode.AUTH_LIST_USER, {"filter": ""}).body
    return [each["username"] for each in json.loads(body)]


def read(connection: Connection) -> int:
    """The number of messages of topic orders at the slave."""
    count = 0
    for queue in range(8):
        ask = {
            "consumerGroup": "TOOLS_CONSUMER", "topic": "orders", "queueId": queue,
            "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "subVersion": 0,
            "suspendTimeoutMillis": 0, "subscription": "*", "expressionType": "TAG",
        }  # fmt: skip
        reply = connection.ask(11, ask)
        count += len(list(decode_messages(reply.body))) if reply.code == 0 else 0
    return count
