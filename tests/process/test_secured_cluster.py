"""Three machines with accounts and TLS, as docs/replicas.md sets them up: a dead master is
replaced, and the next one has all acknowledged messages and all accounts.

Method: the commands of the page, on three addresses of the loopback; one controller, with its
state in a file. Cannot show: real machines, and etcd (tests/ha).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.command_line import rmq
from support.replica_set import Server
from support.waiting import wait_until

from rmq import Message, Producer, PullConsumer
from rmq.demo.ports import free_port
from rmq.errors import RemoteError

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Machines:
    """Three machines: name servers on two of them, a controller on the first, a broker on each."""

    def __init__(self, folder: Path, started: Callable[[Server], Server]) -> None:
        self.secure = folder / "secure"
        words = [word for host in HOSTS for word in ("--host", host)]
        done = rmq("setup", "security", "--directory", str(self.secure), *words)
        assert done.returncode == 0, done.stderr
        config = ("-c", str(self.secure / "security.conf"))
        of_names = []
        for at, host in enumerate(HOSTS[:2]):
            # Each name server has its own files on a machine of its own. Here they must differ.
            own = ("--set", f"rmqAccountsPath={folder / f'n{at}.json'}",
                   "--set", f"kvConfigPath={folder / f'kv{at}.json'}")  # fmt: skip
            given = ("namesrv", *config, "--bind", host, *own)
            of_names.append(started(Server(folder / f"n{at}.txt", *given)).address)
        self.namesrv = ";".join(of_names)
        given = ("controller", *config, "--bind", HOSTS[0], "--store", str(folder / "c"))
        controller = started(Server(folder / "c.txt", *given)).address
        self.brokers = [
            started(Server(
                folder / f"b{at}.txt", "broker", *config, "--bind", host,
                "--store", str(folder / f"b{at}"), "--set", "brokerName=broker-a",
                "--set", "rmqReplicaAddresses=127.0.0.0/8", "--set", "rmqReplicaTls=enforcing",
                "-n", self.namesrv, "--controller", controller, port=free_port(2, 1),
            ))
            for at, host in enumerate(HOSTS)
        ]  # fmt: skip

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """What a command says, as the Super user."""
        where = ("-n", self.namesrv, "--tls-ca", str(self.secure / "authority.pem"),
                 "--credentials", str(self.secure / "admin.json"))  # fmt: skip
        done = rmq(*words, *where)
        assert done.returncode in codes, done.stderr
        return done.stdout

    def in_sync(self, master: int, *ids: int) -> bool:
        said = self.run("replica", "status", codes=(0, 1))  # 1: one is missing
        return bool(re.search(rf"master {master} of .* in sync {re.escape(str(list(ids)))}", said))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with ExitStack() as ends:

        def started(server: Server) -> Server:
            ends.callback(lambda: server.process.poll() is None and server.kill())
            return server

        yield Machines(tmp_path, started)


def test_a_master_is_replaced_and_accounts_go_on(machines: Machines) -> None:
    wait_until(lambda: machines.in_sync(1, 1, 2, 3))
    machines.run("topic", "create", "orders", "--queues", "1")
    wait_until(lambda: "orders" in machines.run("topic", "list"))
    said = machines.run("user", "create", "alice", "--generate")
    password = said.partition("password: ")[2].splitlines()[0]
    machines.run("acl", "allow", "alice", "Topic:orders", "Group:billing", "--actions", "Pub,Sub")
    given = {
        "namesrv_addr": machines.namesrv, "use_tls": True, "access_key": "alice",
        "secret_key": password, "tls_ca_file": str(machines.secure / "authority.pem"),
    }  # fmt: skip
    with Producer("p", poll_name_server_interval=500, send_msg_timeout=60_000, **given) as producer:
        sent = [b"%d" % number for number in range(40)]
        for body in sent[:20]:
            assert producer.send(Message("orders", body)).status == "SEND_OK"
        machines.brokers[0].kill()
        wait_until(lambda: machines.in_sync(2, 2, 3) or machines.in_sync(3, 2, 3))
        for body in sent[20:]:
            assert producer.send(Message("orders", body)).status == "SEND_OK"
        with pytest.raises(RemoteError, match="no matched policies"):
            producer.send(Message("payroll", b"x"))
    found: list[bytes] = []
    first = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    with PullConsumer("billing", **first, **given) as consumer:
        consumer.subscribe("orders")
        wait_until(lambda: found.extend(bytes(m.body) for m in consumer.poll(500))
                   or set(sent) <= set(found))  # fmt: skip
    assert list(dict.fromkeys(found)) == sent
